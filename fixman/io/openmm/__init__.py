"""The Fixman potential of every constrained molecule of an OpenMM simulation.

Particles that constraints connect make one chain; equal ones are evaluated together, so that the
cost in Python does not grow with the number of molecules.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fixman.chains.chain import Chain, is_rigid
from fixman.errors import FrameError
from fixman.io.openmm.constraints import (
    ConnectedSets,
    Floats,
    Group,
    Held,
    Indices,
    explicit_groups,
    whole,
    with_names,
)
from fixman.mechanics import metric

try:
    import openmm
except ImportError as error:
    raise ImportError(
        'forces for OpenMM need it installed: pip install "fixman-chains[openmm]"'
    ) from error
if not hasattr(getattr(openmm, "PythonForce", None), "setParticles"):
    raise ImportError(
        f"forces for OpenMM need version 8.6 or later, this is {openmm.__version__}: "
        'pip install -U "fixman-chains[openmm]"'
    )

from fixman.io.openmm.forces import NAME, Forces
from fixman.io.openmm.systems import chain, held_by, of_system
from fixman.io.openmm.thermostats import (
    GAS_CONSTANT,
    MARK,
    PARAMETER,
    kT,
    set_temperature,
    temperature_of,
)

__all__ = ["FixmanPotential", "Forces", "chain", "kT", "metric_force", "set_temperature"]

FAR = 1e6  # nm
VERSION = 1  # format of the data in a serialized System
Names = Sequence[str] | Mapping[int, str]


class MadeFor(NamedTuple):
    """The constraints and masses that a force was made for.

    ``whole`` tells whether all of the System's count, or those among the particles of its chains.
    """

    whole: bool
    constraints: int
    digest: str


def metric_force(
    system_or_topology: Any, *, chains: Iterable[tuple[Any, Chain]] | None = None
) -> Any:
    """Return an OpenMM force that adds U_F = ½ kT ln det H^bb to a simulation with constraints.

    With it, constrained dynamics samples the ensemble of equally stiff springs in the place of
    the constraints (Fixman 1974; theory.md section 4).  Add it to the System after every other
    force, ``system.addForce(metric_force(system))``, and call `set_temperature` for every Context.

    Parameters
    ----------
    system_or_topology : openmm.System or openmm.app.Topology
        A System gives its constraints and masses, and whether it is periodic.  A Topology gives its
        bonds, all of them hard but those of water (residue HOH), which is taken as rigid, and the
        masses of the elements.
    chains : iterable of (particles, Chain), optional
        Chains that get a term, instead of each connected set of constraints.  Bead k is
        ``particles[k]``, and of copy c ``particles[c, k]``.  A chain must hold what the System's
        constraints hold, in whatever coordinates; masses count up to a common factor.

    Returns
    -------
    openmm.PythonForce
        Energies in kJ/mol, forces in kJ/mol/nm.  Acts on the particles of its chains alone;
        a set whose constraints leave it rigid has a constant determinant and is skipped.

    Raises
    ------
    TypeError
        If an argument is of another type.
    ValueError
        If nothing that can vary is constrained, a constrained particle is massless, the System
        has such a force already, or ``chains`` disagree with the System.
    SingularConstraintError
        While the simulation runs, then wrapped in an OpenMMException, if the constraints cannot be
        held in some configuration; their particles are named.  Likewise a ValueError where
        positions are not finite, or the temperature is not that of the thermostat.

    Notes
    -----
    O(n) a step, plus 20 µs for the call and 20 µs for every *kind* of molecule.  It runs on the
    host whatever the platform.
    """
    _refuse_second(system_or_topology)
    held = _held(system_or_topology)
    sets = ConnectedSets(held)
    groups = sets.groups() if chains is None else explicit_groups(chains, held, sets)
    terms = [group for group in groups if not is_rigid(group.chain)]
    if not terms:
        raise ValueError(_nothing(held, groups, chains is not None))
    made_for = None
    if held.names is None:
        within = None if chains is None else [group.particles for group in terms]
        made_for = _fingerprint(held, within)
    potential = FixmanPotential(terms, held.periodic, held.names, made_for)
    force = openmm.PythonForce(potential, {PARAMETER: 0.0, MARK: 0.0})
    force.setParticles([int(p) for group in terms for p in group.particles.ravel()])
    force.setUsesPeriodicBoundaryConditions(held.periodic)
    force.setName(NAME)
    return force


# --- while the simulation runs ------------------------------------------------------------------


class FixmanPotential:
    """The function that OpenMM calls in every step, and that a serialized System holds as a pickle.

    The pickle names this class and contains plain data of a numbered format: lists, numbers and
    `Chain.to_json`.  Its older formats stay readable.
    """

    # An instance made from a pickle that holds nothing has this.
    _unreadable: tuple[str, Any] | None = ("it holds nothing", None)

    def __init__(
        self,
        groups: Iterable[Group],
        periodic: bool,
        names: Names | None = None,
        made_for: MadeFor | None = None,
    ) -> None:
        self.groups, self.periodic, self.names = tuple(groups), periodic, names
        self.made_for, self._size = made_for, sum(g.particles.size for g in self.groups)
        self._unreadable = None  # or why, and what was read

    @property
    def particles(self) -> Indices:
        """Particles of the groups, one group after the other."""
        return np.concatenate([np.empty(0, np.intp), *(g.particles.ravel() for g in self.groups)])

    def __getstate__(self) -> Any:
        if self._unreadable is not None:
            return self._unreadable[1]
        terms = [(group.chain.to_json(), group.particles.tolist()) for group in self.groups]
        names = None
        if self.names is not None:
            names = {int(k): self.names[k] for k in self.particles}
        return {
            "version": VERSION,
            "periodic": self.periodic,
            "terms": terms,
            "names": names,
            "made for": None if self.made_for is None else tuple(self.made_for),
        }

    def __setstate__(self, state: Any) -> None:
        # OpenMM dies of a segmentation fault if reading a pickle raises, so the first call does.
        FixmanPotential.__init__(self, (), False)
        try:
            if state["version"] != VERSION:
                raise ValueError(f"its version is {state['version']}, this fixman reads {VERSION}")
            groups = tuple(_read_term(*term) for term in state["terms"])
            periodic, names, made_for = state["periodic"], state["names"], state["made for"]
            if made_for is not None:
                made_for = MadeFor(bool(made_for[0]), int(made_for[1]), str(made_for[2]))
            FixmanPotential.__init__(self, groups, periodic, names, made_for)
            own = self.particles.tolist()
            named = all(isinstance(self._name(k), str) for k in own)
            if not (own and min(own) >= 0 and len(set(own)) == len(own) and named):
                raise ValueError("its particles are none, negative, repeated or without names")
            if not isinstance(periodic, bool):
                raise TypeError(f"periodic is {periodic!r:.80}")
        except Exception as error:
            self._unreadable = f"{type(error).__name__}: {error}", state

    def _require_fit(self, system: Any) -> None:
        own = [force.getParticles() for force in system.getForces() if force.getName() == NAME]
        if own and all(list(particles) != self.particles.tolist() for particles in own):
            raise ValueError(
                "the Fixman force of this System acts on other particles than those it was made "
                "for: remove it, and add metric_force(system) again"
            )
        if self.made_for is None:  # made for a Topology
            return
        within = None if self.made_for.whole else [group.particles for group in self.groups]
        found = _fingerprint(of_system(system), within)
        if found != self.made_for:
            where = "" if self.made_for.whole else " among the particles of its chains"
            raise ValueError(
                f"the constraints or masses of this System have changed since its Fixman force was "
                f"made ({self.made_for.constraints} constraints{where} then, "
                f"{found.constraints} now): remove that force, and add metric_force(system) again "
                "after everything else"
            )

    def _require_readable(self) -> None:
        if self._unreadable is not None:
            raise ValueError(
                "the Fixman force of this System was serialized by another version of fixman, or "
                f"is damaged ({self._unreadable[0]}): remove it, and add metric_force(system) again"
            )

    def __call__(self, state: Any) -> tuple[float, Floats]:
        """Energy in kJ/mol, and forces on the particles of the groups, one after the other."""
        self._require_readable()
        kT = GAS_CONSTANT * temperature_of(state, self._require_fit)
        x = state.getPositions(asNumpy=True)._value  # a State has nm, always
        box = state.getPeriodicBoxVectors(asNumpy=True)._value if self.periodic else None
        return self.evaluate(x, kT, box)

    def evaluate(self, x: Floats, kT: float, box: Floats | None = None) -> tuple[float, Floats]:
        """Energy and forces at positions x (particles of the groups, 3)."""
        if len(x) != self._size:
            raise ValueError(
                f"the Fixman force of this System is damaged: it acts on {len(x)} particles and "
                f"its chains have {self._size}; remove it, and add metric_force(system) again"
            )
        energy, forces, first = 0.0, np.empty_like(x), 0
        for group in self.groups:
            part = slice(first, first + group.particles.size)
            first = part.stop
            copies = x[part].reshape(*group.particles.shape, 3)
            if box is not None:
                tree = group.chain.references[:, 0], group.chain.layout.outwards
                copies = whole(*tree, copies, box)
            try:
                energy += float(np.sum(metric.fixman_potential(group.chain, copies, kT)))
                forces[part] = metric.fixman_force(group.chain, copies, kT).reshape(-1, 3)
            except ValueError as error:
                raise self._explained(group, copies, error) from error
        return energy, forces

    def _explained(self, group: Group, x: Floats, error: ValueError) -> ValueError:
        lost = group.particles[~(np.abs(x) < FAR).all(axis=2)]
        if lost.size:
            where = x[np.nonzero(group.particles == lost[0])][0]
            return ValueError(
                f"{self._name(lost[0])} is at {where} nm: the simulation has blown up (try a "
                "shorter time step), or the positions were never set"
            )
        for particles, copy in zip(group.particles, x, strict=True):
            try:
                metric.fixman_force(group.chain, copy)
            except FrameError as own:
                return with_names(own, particles, self._name)
        return error

    def _name(self, particle: int) -> str:
        return f"particle {particle}" if self.names is None else self.names[particle]


_Potential = FixmanPotential  # its name before there were versions, which old files contain


def _read_term(text: str, particles: Any) -> Group:
    chain, array = Chain.from_json(text), np.array(particles)
    if chain.dim != 3 or chain.base != "free":
        raise ValueError(f"{chain!r} is not free and three-dimensional")
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != chain.n:
        raise ValueError(f"particles of {chain!r} are {array.dtype} of shape {array.shape}")
    return Group(chain, array.astype(np.intp))


# --- what is held -------------------------------------------------------------------------------


def _refuse_second(source: Any) -> None:
    forces = source.getForces() if isinstance(source, openmm.System) else ()
    for k, force in enumerate(forces):
        if force.getName() == NAME:
            raise ValueError(
                f"the System has a Fixman potential already, and a second would double it: call "
                f"removeForce({k}) first, for instance if its constraints have changed"
            )


def _held(source: Any) -> Held:
    held = held_by(source)
    massless = held.masses[held.pairs] == 0.0
    if massless.any():
        first = int(held.pairs[massless][0])
        kind = "constrained" if held.names is None else "bonded"
        raise ValueError(
            f"{held.name(first)} is {kind} and has no mass: neither virtual sites nor frozen "
            "particles can be constrained to moving ones"
        )
    return held


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


def _nothing(held: Held, groups: list[Group], explicit: bool) -> str:
    if groups:
        copies = sum(len(group.particles) for group in groups)
        return (
            f"the {copies} constrained set(s) of particles are rigid, such as single bonds and "
            "rigid waters: their determinants are constant, and there is no force to add"
        )
    if explicit:
        return "chains is empty: leave it out to have one chain per connected set of constraints"
    if held.names is not None:
        return "the Topology has no bonds: create them, or pass the System with its constraints"
    return (
        "the System has no constraints, and a simulation without them needs no Fixman potential: "
        "create it with constraints=app.HBonds or app.AllBonds, or add them by "
        "System.addConstraint, before this call"
    )
