"""The Fixman potential of every constrained molecule of an OpenMM simulation.

Particles that constraints connect make one chain; equal ones are evaluated together, so that the
cost in Python does not grow with the number of molecules.
"""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fixman.analysis.groups import Floats, Indices
from fixman.chains.chain import Chain, is_rigid
from fixman.errors import FrameError
from fixman.io.openmm import constraints
from fixman.io.openmm.constraints import Group, Held
from fixman.mechanics import metric

try:
    import openmm
except ImportError as error:
    raise ImportError('this needs OpenMM: pip install "fixman-chains[openmm]"') from error

from fixman.io.openmm import thermostats
from fixman.io.openmm.forces import NAME, Forces
from fixman.io.openmm.systems import chain, of_system, system
from fixman.io.openmm.thermostats import kT, set_temperature

__all__ = [
    "FixmanPotential", "Forces", "chain", "kT", "metric_force", "set_temperature", "system",
]  # fmt: skip
__dir__ = __all__.copy  # completion shows public names alone

VERSION = 1  # format of the data in a serialized System


class MadeFor(NamedTuple):
    """The constraints and masses that a force was made for."""

    whole: bool  # all of the System's count, or those of the particles of its chains
    constraints: int
    digest: str


def metric_force(system: Any, *, chains: Iterable[tuple[Any, Chain]] | None = None) -> Any:
    """Return an OpenMM force that adds U_F = ½ kT ln det H^bb to a simulation with constraints.

    With it, constrained dynamics samples the ensemble of equally stiff springs in the place of
    the constraints (Fixman 1974; theory.md section 4).  Add it to the System after every other
    force, ``system.addForce(metric_force(system))``, and call `set_temperature` for every Context.

    Parameters
    ----------
    system : openmm.System
    chains : iterable of (particles, Chain), optional
        Chains that get a term, instead of each connected set of constraints.  Bead k is
        ``particles[k]``, or ``particles[c, k]`` in copy c.  A chain must hold what the System's
        constraints hold, in any coordinates; masses may have a common factor.

    Returns
    -------
    openmm.PythonForce
        It acts on the particles of its chains only; sets that constraints leave rigid get no term.
        O(n) a step on the host, plus 20 µs for the call and 20 µs for every *kind* of molecule.

    Raises
    ------
    ValueError
        If nothing that can vary is constrained, a constrained particle is massless, the System
        has such a force already, or ``chains`` disagree with the System.
    OpenMMException
        While the simulation runs, if constraints cannot be held in some configuration, positions
        are not finite, or the temperature is not that of the thermostat.
    """
    if not isinstance(system, openmm.System):
        raise TypeError(f"expected an openmm.System, got {type(system).__name__}")
    if any(force.getName() == NAME for force in system.getForces()):
        raise ValueError("the System has a Fixman force already, and a second would double it")
    held = of_system(system)
    sets = constraints.ConnectedSets(held)
    groups = sets.groups if chains is None else constraints.explicit_groups(chains, held, sets)
    terms = [group for group in groups if not is_rigid(group.chain)]
    if not terms:
        rigid = sum(len(group.particles) for group in groups)
        said = f"nothing that can vary is constrained: {rigid} sets of particles are rigid"
        raise ValueError(f"{said}; create the System with constraints=app.HBonds or app.AllBonds")
    within = None if chains is None else [group.particles for group in terms]
    potential = FixmanPotential(terms, held.periodic, _fingerprint(held, within))
    force = openmm.PythonForce(potential, {thermostats.PARAMETER: 0.0, thermostats.MARK: 0.0})
    force.setParticles([int(p) for group in terms for p in group.particles.ravel()])
    force.setUsesPeriodicBoundaryConditions(held.periodic)
    force.setName(NAME)
    return force


class FixmanPotential:
    """The function that OpenMM calls in every step, and that a serialized System holds as a pickle.

    The pickle names this class and contains plain data of a numbered format.
    """

    _unreadable: tuple[str, Any] | None = ("it holds nothing", None)  # of an empty pickle

    def __init__(self, groups: Iterable[Group], periodic: bool, made_for: MadeFor) -> None:
        self.groups, self.periodic, self.made_for = tuple(groups), periodic, made_for
        self._unreadable = None  # or why, and what was read

    @property
    def particles(self) -> Indices:
        """Particles of the groups, one group after the other."""
        return np.concatenate([np.empty(0, np.intp), *(g.particles.ravel() for g in self.groups)])

    def __getstate__(self) -> Any:
        if self._unreadable is not None:
            return self._unreadable[1]
        terms = [(group.chain.to_json(), group.particles.tolist()) for group in self.groups]
        made = {"version": VERSION, "periodic": self.periodic, "terms": terms}
        return made | {"made for": tuple(self.made_for)}

    def __setstate__(self, state: Any) -> None:
        # OpenMM dies of a segmentation fault if reading a pickle raises, so the first call does.
        FixmanPotential.__init__(self, (), False, MadeFor(True, 0, ""))
        try:
            periodic, made_for = state["periodic"], MadeFor(*state["made for"])
            terms = [(Chain.from_json(text), particles) for text, particles in state["terms"]]
            if state["version"] != VERSION or not isinstance(periodic, bool) or not terms:
                raise ValueError(f"its version is {state['version']}, this fixman reads {VERSION}")
            groups = [constraints.group_of(*term, "a term") for term in terms]
            FixmanPotential.__init__(self, groups, periodic, made_for)
        except Exception as error:
            self._unreadable = f"{type(error).__name__}: {error}", state

    def _require_fit(self, system: Any) -> None:
        own = [force.getParticles() for force in system.getForces() if force.getName() == NAME]
        if own and all(list(particles) != self.particles.tolist() for particles in own):
            raise ValueError(_DAMAGED.format("it acts on other particles than those of its chains"))
        within = None if self.made_for.whole else [group.particles for group in self.groups]
        found = _fingerprint(of_system(system), within)
        if found != self.made_for:
            counts = f"then {self.made_for.constraints} constraints, now {found.constraints}"
            why = f"constraints or masses have changed since it was made, {counts}"
            raise ValueError(_DAMAGED.format(why))

    def __call__(self, state: Any) -> tuple[float, Floats]:
        """Energy in kJ/mol, and forces on the particles of the groups, one after the other."""
        if self._unreadable is not None:
            raise ValueError(_DAMAGED.format(f"it cannot be read, {self._unreadable[0]}"))
        kelvin = thermostats.temperature_of(state, self._require_fit)
        x = state.getPositions(asNumpy=True)._value  # a State has nm, always
        box = state.getPeriodicBoxVectors(asNumpy=True)._value if self.periodic else None
        return self.evaluate(x, kT(kelvin), box)

    def evaluate(self, x: Floats, kT: float, box: Floats | None = None) -> tuple[float, Floats]:
        """Energy and forces at positions x (particles of the groups, 3)."""
        energy, forces, first = 0.0, np.empty_like(x), 0
        for own, particles in self.groups:
            part = slice(first, first + particles.size)
            first = part.stop
            copies = x[part].reshape(*particles.shape, 3)
            if box is not None:
                copies = constraints.whole(own.references[:, 0], copies, box)
            try:
                energy += float(np.sum(metric.fixman_potential(own, copies, kT)))
                forces[part] = metric.fixman_force(own, copies, kT).reshape(-1, 3)
            except FrameError as error:
                alone, copy = error.moved(None), particles[error.frame]
                raise constraints.with_names(alone, copy, "particle {}".format) from error
        if first != len(x):
            raise ValueError(_DAMAGED.format(f"it acts on {len(x)} particles, its chains {first}"))
        return energy, forces


_DAMAGED = (
    "the Fixman force of this System does not fit it ({}): remove it, and add metric_force(system) "
    "again after everything else"
)


def _fingerprint(held: Held, within: Sequence[Indices] | None) -> MadeFor:
    """Constraints and masses of a System, or those that touch the particles ``within``."""
    pairs = np.unique(np.sort(held.pairs, axis=1), axis=0)
    particles = np.unique(pairs)
    if within is not None:
        particles = np.unique(np.concatenate([part.ravel() for part in within]))
        pairs = pairs[np.isin(pairs, particles).any(axis=1)]
    digest = hashlib.sha256()
    for array in (pairs.astype("<i8"), particles.astype("<i8"), held.masses[particles]):
        digest.update(np.ascontiguousarray(array).tobytes())
    return MadeFor(within is None, len(pairs), digest.hexdigest())
