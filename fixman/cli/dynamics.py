"""What moves a chain, as flags: the stepper of `fixman simulate`, its potentials and its flow."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixman._common.arrays import Array
    from fixman.chains.chain import Chain
    from fixman.simulation.steppers import Stepper

# By method: its stepper, and the flags that it takes besides --kT.
METHODS: dict[str, tuple[str, tuple[str, ...]]] = {
    "langevin": ("Langevin", ("dt", "friction", "ensemble")),
    "newton": ("Newton", ("dt",)),
    "brownian": ("Brownian", ("dt", "friction", "ensemble", "scheme", "shear", "extension")),
    "mc": ("MonteCarlo", ("ensemble",)),
    "hmc": ("HybridMonteCarlo", ("dt", "ensemble", "leaps")),
}
DT = {"langevin": 0.02, "newton": 0.02, "brownian": 0.002, "hmc": 0.1}  # by default


def add_dynamics(parser: argparse.ArgumentParser) -> None:
    """Add the flags that say which stepper, and in which potential."""
    add = parser.add_argument_group("dynamics").add_argument
    methods = "Newton's equations, Langevin's, Brownian ones without inertia, or moves of Monte "
    methods += "Carlo, plain or hybrid (default: langevin)"
    add("--method", choices=tuple(METHODS), default="langevin", help=methods)
    limits = "of the constraints, or of equally stiff springs in their place (default: rigid); "
    limits += "brownian has that of the mobility too, its default"
    add("--ensemble", choices=("rigid", "stiff", "mobility"), help=limits)
    add(
        "--dt",
        type=float,
        help=f"time step (default: {', '.join(f'{t} of {m}' for m, t in DT.items())})",
    )
    add("--kT", type=float, default=1.0, help="temperature (default: 1)")
    rate = "langevin: rate at which velocities are forgotten; brownian: of a bead (default: 1)"
    add("--friction", type=float, help=rate)
    schemes = ("geodesic", "midpoint", "liu")
    usual = "(default: geodesic, in a flow midpoint)"
    add("--scheme", choices=schemes, help=f"brownian: how a step is made {usual}")
    flow = parser.add_argument_group("flow, of brownian").add_mutually_exclusive_group()
    of_shear = "velocity along x grows at this rate with y"
    flow.add_argument("--shear", type=float, metavar="RATE", help=of_shear)
    extension = "extension along x at this rate, uniaxial in space"
    flow.add_argument("--extension", type=float, metavar="RATE", help=extension)
    add("--leaps", type=int, metavar="N", help="hmc: steps of dt to a trial move (default: 10)")
    _add_potentials(parser)


def _add_potentials(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("potentials, which add up")
    add = group.add_argument
    add("--bending", type=float, metavar="K", help="K (1 − cos θ) of all angles")
    series = "Σ K_m (1 + cos m φ) of all torsions"
    add("--torsion-potential", type=_numbers, metavar="K1,K2,…", help=series)
    add("--gravity", type=float, metavar="G", help="acceleration downwards, along −z (−y in 2-D)")
    add("--tension", type=float, metavar="F", help="force along x that pulls the two ends apart")
    pairs = group.add_mutually_exclusive_group().add_argument
    apart = "between beads that are not bonded, of that strength (default: 1)"
    one: dict[str, Any] = {"type": float, "nargs": "?", "const": 1.0, "metavar": "EPSILON"}
    pairs("--wca", help=f"repulsion {apart}; the run starts stretched then", **one)
    pairs("--lj", help=f"Lennard-Jones {apart}; starts stretched too", **one)
    add("--sigma", type=float, help="size of beads for these (default: 1)")


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in text.split(","))


_numbers.__name__ = "list of numbers"


def stepper(arguments: argparse.Namespace, chain: Chain) -> Stepper:
    """Make the stepper that the flags describe; errors name the flags."""
    import fixman

    kind, flags = METHODS[arguments.method]
    for name in dict.fromkeys(flag for _, known in METHODS.values() for flag in known):
        if getattr(arguments, name) is not None and name not in flags:
            able = [method for method, (_, known) in METHODS.items() if name in known]
            raise ValueError(f"--{name} is for --method {' or '.join(able)}")
    if arguments.ensemble == "mobility" and arguments.method != "brownian":
        raise ValueError("--ensemble mobility is for --method brownian: choose rigid or stiff")
    given = {name: getattr(arguments, name) for name in ("friction", "ensemble", "scheme", "leaps")}
    given = {name: value for name, value in given.items() if value is not None}
    if "dt" in flags:
        given["dt"] = DT[arguments.method] if arguments.dt is None else arguments.dt
    flow = _flow(arguments, chain)
    if flow:
        given = {"scheme": "midpoint"} | flow | given
    made: Stepper = getattr(fixman, kind)(
        kT=arguments.kT, potential=_potential(arguments, chain), **given
    )
    return made


def _flow(arguments: argparse.Namespace, chain: Chain) -> dict[str, Any]:
    if arguments.shear is None and arguments.extension is None:
        return {}
    from fixman.potentials import flows

    if arguments.shear is not None:
        return {"flow": flows.shear(arguments.shear, chain.dim)}
    if chain.dim == 2:
        return {"flow": flows.planar_extension(arguments.extension, 2)}
    return {"flow": flows.uniaxial_extension(arguments.extension)}


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
    terms = []
    for name, make in made.items():
        value = getattr(arguments, name)
        if value is not None:
            try:
                terms.append(make(value))
            except ValueError as error:
                raise ValueError(f"--{name.replace('_', '-')}: {error}") from None
    return sum(terms[1:], terms[0]) if terms else None


def excludes(arguments: argparse.Namespace) -> bool:
    """Whether beads keep apart, so that a run cannot start from random walks."""
    return arguments.wca is not None or arguments.lj is not None


def stretched(chain: Chain, lengths: float, angles: float, torsions: float) -> Array:
    """Stretch a chain out, or make a ring a polygon: positions (n, dim) without overlaps."""
    import numpy as np

    from fixman.chains.chain import Chain

    n, bonds = chain.n, {row.kind for row in map(chain.coordinates.__getitem__, chain.hard)}
    if chain.layout.linear:
        hard = {"length": lengths, "angle": angles, "torsion": torsions}
        soft = {"length": lengths, "torsion": math.pi}
        rows = zip(chain.coordinates[: n * chain.dim], chain.hard_mask, strict=False)
        return chain.cartesian([(hard if held else soft).get(row.kind, 0.0) for row, held in rows])
    ring = n > 2 and chain.extra == Chain.ring(n, dim=chain.dim, base=chain.base).extra
    if not ring or bonds != {"length"}:
        raise ValueError(
            "--wca and --lj start from a stretched chain or a ring of hard bonds; for others start "
            "from Python, where positions can be given"
        )
    radius, turns = 0.5 * lengths / math.sin(math.pi / n), 2.0 * math.pi * np.arange(n) / n
    x = np.zeros((n, chain.dim))
    x[:, 0], x[:, 1] = radius * (1.0 - np.cos(turns)), radius * np.sin(turns)
    x[:, 0] += lengths if chain.base == "fixed" else 0.0
    return x
