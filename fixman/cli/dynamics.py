"""Motion of a chain as flags: the stepper of `fixman simulate`, its potentials and its flow."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixman.chains.chain import Chain
    from fixman.simulation.steppers import Stepper

METHODS = {
    "langevin": "Langevin",
    "newton": "Newton",
    "brownian": "Brownian",
    "mc": "MonteCarlo",
    "hmc": "HybridMonteCarlo",
}
DT = {"langevin": 0.02, "newton": 0.02, "brownian": 0.002, "hmc": 0.1}  # by default
FLAGS = ("dt", "friction", "ensemble", "scheme", "leaps", "shear", "extension")


def chosen(
    arguments: argparse.Namespace, flags: Sequence[str], usual: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the stepper's class, and what the flags of its fields say; refuse those of others."""
    import fixman

    fields = {
        method: {field.name for field in dataclasses.fields(getattr(fixman, kind))}
        for method, kind in METHODS.items()
    }
    found = {}
    for name in flags:
        field = "flow" if name in ("shear", "extension") else name
        value, known = getattr(arguments, name), field in fields[arguments.method]
        if value is not None and not known:
            able = [method for method, fields in fields.items() if field in fields]
            raise ValueError(f"--{name} is for --method {' or '.join(able)}")
        value = usual.get(name) if value is None else value
        if value is not None and known:
            found[name] = value
    return getattr(fixman, METHODS[arguments.method]), found


def stepper(arguments: argparse.Namespace, chain: Chain) -> Stepper:
    """Make the stepper that the flags describe; errors name the flags."""
    from fixman.potentials import flows

    kind, given = chosen(arguments, FLAGS, {"dt": DT.get(arguments.method)})
    if arguments.ensemble == "mobility" and arguments.method != "brownian":
        raise ValueError("--ensemble mobility is for --method brownian: choose rigid or stiff")
    shear, extension = given.pop("shear", None), given.pop("extension", None)
    if shear is not None:
        given["flow"] = flows.shear(shear, chain.dim)
    elif extension is not None:
        planar, uniaxial = flows.planar_extension, flows.uniaxial_extension
        given["flow"] = planar(extension, 2) if chain.dim == 2 else uniaxial(extension)
    if "flow" in given:
        given = {"scheme": "midpoint"} | given
    made: Stepper = kind(kT=arguments.kT, potential=_potential(arguments, chain), **given)
    return made


def _potential(arguments: argparse.Namespace, chain: Chain) -> Any:
    from fixman.potentials import energies

    def along(axis: int, size: float) -> tuple[float, ...]:
        return tuple(size if k == axis else 0.0 for k in range(chain.dim))

    if arguments.sigma is not None and not excludes(arguments):
        raise ValueError("--sigma is for --wca or --lj")
    sigma = 1.0 if arguments.sigma is None else arguments.sigma
    made: dict[str, Callable[[Any], Any]] = {
        "bending": energies.Bending,
        "torsion_potential": energies.Torsion,
        "gravity": lambda g: energies.Gravity(along(chain.dim - 1, -g)),
        "tension": lambda f: energies.Tension(along(0, f)),
        "wca": lambda epsilon: energies.WCA(epsilon, sigma),
        "lj": lambda epsilon: energies.LennardJones(epsilon, sigma),
    }
    total = None
    for name, make in made.items():
        value = getattr(arguments, name)
        if value is not None:
            try:
                term = make(value)
            except ValueError as error:
                raise ValueError(f"--{name.replace('_', '-')}: {error}") from None
            total = term if total is None else total + term
    return total


def excludes(arguments: argparse.Namespace) -> bool:
    """Whether beads keep apart, so that a run cannot start from random walks."""
    return arguments.wca is not None or arguments.lj is not None
