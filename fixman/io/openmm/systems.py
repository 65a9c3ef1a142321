"""Masses, bonds and constraints of an OpenMM System or Topology, and the chains of these."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby
from typing import Any

import numpy as np
import openmm
from numpy.typing import ArrayLike
from openmm import app, unit
from scipy.sparse.csgraph import connected_components

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.analysis.groups import Indices, Mask
from fixman.chains import hard_sets, topology
from fixman.chains.chain import Chain, is_rigid
from fixman.chains.straight_bends import NEARLY
from fixman.chains.system import System
from fixman.errors import FrameError
from fixman.io.openmm.constraints import ConnectedSets, Held, with_names
from fixman.io.openmm.thermostats import in_units

WIDE = np.cos(np.radians(75.0))  # only in rings of three are angles between bonds smaller
HYDROGENS = "H", "D"


def chain(
    system_or_topology: Any,
    hard: str | Sequence[str] | ArrayLike = "torsional",
    *,
    topology: Any = None,
    positions: Any = None,
    rotatable: ArrayLike | None = None,
    straight: Iterable[Sequence[int]] | None = None,
) -> Chain | list[tuple[Indices, Chain]]:
    """Return the chain of one molecule, or for several molecules the ``chains`` of `metric_force`.

    Bead k is the k-th particle that has a mass; virtual sites move along with these.  Hard rows
    that depend on the others are left out, and listed in ``Chain.redundant``.  ValueError if there
    are no bonds, or a particle without mass is bonded; errors name atoms.

    Parameters
    ----------
    system_or_topology : openmm.System or openmm.app.Topology
        A System gives its masses, repartitioned or not.  Its bonds are HarmonicBondForces and
        constraints, except for distances across an angle (Urey–Bradley, ``constraints=HAngles``).
        A Topology gives its bonds, and masses of the elements.
    hard : words, "torsional", "h-bonds" or "h-angles"; of a single molecule also a mask
        As for `Chain.from_bonds`.  A molecule that the System's constraints leave rigid, and water
        (residue HOH) of a Topology, is rigid whatever this says.
    topology : openmm.app.Topology, optional
        Beside a System: gives bonds, names of atoms in errors, and elements, which show hydrogens.
    positions : (particles, 3) or Quantity, optional
        In nm.  The rows that stay are well conditioned there, and straight bends are found there.
    rotatable : (bonds, 2), optional
        Pairs of particles, for "torsional"; by default bonds that are neither terminal nor in a
        ring of up to eight atoms.
    straight : iterable of (i, j, k), optional
        Bends that are held straight, as for `Chain.branched`.  By default the hard bends that are
        straight in ``positions``, or else in a HarmonicAngleForce's equilibrium.

    Returns
    -------
    Chain, or list of (particles (copies, n), Chain)
        The first if all particles with a mass are one molecule.  Equal molecules share a chain;
        particles without a bond are in none.
    """
    held, sets = _read(system_or_topology, topology)
    single = [one.atoms.shape for one in sets.kinds] == [(1, np.count_nonzero(held.masses))]
    if not single and not isinstance(hard_sets.named(hard), str | tuple):
        raise ValueError("a mask is for a single molecule without other particles: choose a word")
    found = _chains(system_or_topology, held, sets, hard, positions, rotatable, straight)
    return found[0][1] if single else found


def system(
    openmm_system: Any,
    hard: str | Sequence[str] = "torsional",
    *,
    topology: Any = None,
    positions: Any = None,
    rotatable: ArrayLike | None = None,
    straight: Iterable[Sequence[int]] | None = None,
) -> System:
    """Return the `fixman.System` of an OpenMM System: molecules, rigid waters, ions, and the box.

    Particles with a mass keep their order, so that ``Forces(openmm_system)`` is its potential.
    A particle without a bond is a chain of one bead.  The box is the default one of the System, if
    its forces are periodic.  Arguments and errors are those of `chain`; ``hard`` is no mask.
    ValueError also for a triclinic box, or if particles of others are between those of a molecule.
    """
    if not isinstance(openmm_system, openmm.System):
        raise TypeError(f"expected an openmm.System, got {type(openmm_system).__name__}")
    if not isinstance(hard_sets.named(hard), str | tuple):
        raise ValueError("a mask is for the chain of a single molecule: choose a word")
    box = _box(openmm_system)
    held, sets = _read(openmm_system, topology, in_order=True)
    moving = np.flatnonzero(held.masses)
    for one in sets.kinds:
        gaps = np.diff(np.searchsorted(moving, one.atoms), axis=1) != 1
        for copy, bead in np.argwhere(gaps)[:1]:
            names = " and ".join(map(held.name, one.atoms[copy, bead : bead + 2]))
            said = f"{names} are of one molecule, and particles of another are between them"
            raise ValueError(f"{said}: the particles of a molecule have to follow each other")
    found = _chains(openmm_system, held, sets, hard, positions, rotatable, straight)
    alone = moving[sets.kind[moving] < 0]
    for mass in np.unique(held.masses[alone]):
        ions = alone[held.masses[alone] == mass]
        found.append((ions[:, None], Chain.linear(1, masses=mass)))
    kinds = np.repeat(np.arange(len(found)), [len(atoms) for atoms, _ in found])
    kinds = kinds[np.argsort(np.concatenate([atoms[:, 0] for atoms, _ in found]))]
    runs = [(found[k][1], len([*same])) for k, same in groupby(kinds.tolist())]
    return System(runs, box=box)


def _box(given: Any) -> Array | None:
    """Edges of the default box of a System in nm; None if no force is periodic."""
    if not given.usesPeriodicBoundaryConditions():
        return None
    vectors = np.array([vector._value for vector in given.getDefaultPeriodicBoxVectors()])
    edges = np.diagonal(vectors)
    if np.any(vectors != np.diag(edges)):
        said = f"the box of the System is triclinic, {vectors.tolist()} nm"
        raise ValueError(f"{said}: solvate in a box of boxShape='cube', or by boxSize")
    return edges


def _chains(
    source: Any, held: Held, sets: ConnectedSets, hard: Any, positions: Any, rotatable: Any,
    straight: Any,
) -> list[tuple[Indices, Chain]]:  # fmt: skip
    """Return the particles (copies, n) and the chain of each kind of molecule."""
    size, x = held.masses.size, None
    if positions is not None:
        x = arrays.real(in_units(positions, unit.nanometer, "positions"), (size, 3), "positions")
        if x.ndim != 2:
            raise ValueError(f"positions must be one configuration ({size}, 3), got {x.shape}")
    elif straight is None:
        straight = _straight(source, sets.pairs, hard)
    turning = _by_kind(rotatable, sets, "rotatable")
    in_line = _by_kind(straight, sets, "straight")
    found = []
    for one, turns, lines in zip(sets.kinds, turning, in_line, strict=True):
        first, more = one.atoms[0], {"rotatable": turns, "straight": lines}
        if x is not None:
            more["drop_redundant"] = x[first]
            more["straight"] = x[first] if straight is None else lines
        try:
            made = _rigid(held, first) or one.chain(hard, **more)
        except FrameError as error:
            raise with_names(error, first, held.name) from None
        found.append((one.atoms, made))
    return found


def _rigid(held: Held, particles: Indices) -> Chain | None:
    """Chain of what is held among the particles of a molecule, if that is rigid."""
    place = np.full(held.masses.size, -1)
    place[particles] = np.arange(particles.size)
    pairs = place[held.pairs[(place[held.pairs] >= 0).all(axis=1)]]
    if len(pairs) < 3 * particles.size - 6 or len(np.unique(pairs)) < particles.size:
        return None
    masses = held.masses[particles]
    found = Chain.from_bonds(particles.size, pairs, masses=masses, drop_redundant=True)
    return found if is_rigid(found) else None


def _straight(source: Any, pairs: Indices, hard: Any) -> list[tuple[int, int, int]]:
    """Bends of two bonds that a System has straight, if ``hard`` holds angles."""
    word = hard_sets.named(hard)
    words = (word,) if isinstance(word, str) else word
    angles = isinstance(words, tuple) and ("angle" in words or "torsional" in words)
    if not isinstance(source, openmm.System) or not angles:
        return []
    bonded = {frozenset(pair) for pair in pairs.tolist()}
    found = set()
    for force in source.getForces():
        if isinstance(force, openmm.HarmonicAngleForce):
            for row in range(force.getNumAngles()):
                i, j, k, angle, _ = force.getAngleParameters(row)
                flat = np.pi - angle.value_in_unit(unit.radian) <= NEARLY
                if flat and {frozenset((i, j)), frozenset((j, k))} <= bonded:
                    found.add((min(i, k), j, max(i, k)))
    return sorted(found)


def _by_kind(rows: Any, sets: ConnectedSets, name: str) -> list[Any]:
    """Rows of particles as rows of beads, for each kind of molecule; None where rows is None."""
    if rows is None:
        return [None] * len(sets.kinds)
    found: list[set[tuple[int, ...]]] = [set() for _ in sets.kinds]
    for row in arrays.list_of(rows, name, "rows of particles"):
        places = topology.integers(row, name).ravel().tolist()
        inside = all(0 <= p < sets.kind.size for p in places)
        owners = {(sets.kind[p], sets.copy[p]) for p in places} if inside else set()
        if len(owners) != 1 or (-1, -1) in owners:
            raise ValueError(f"{name} names {tuple(places)}, which are not bonded to one molecule")
        found[owners.pop()[0]].add(tuple(int(sets.bead[p]) for p in places))
    return [sorted(each) for each in found]


def harmonic_bonds(system: Any) -> Iterator[tuple[Any, int, int, float, float]]:
    """Yield the springs of a System: force, particles, length in nm, stiffness in kJ/mol/nm²."""
    for force in system.getForces():
        if isinstance(force, openmm.HarmonicBondForce):
            for k in range(force.getNumBonds()):
                i, j, length, stiffness = force.getBondParameters(k)
                yield force, i, j, length._value, stiffness._value


def constraints(system: Any) -> Iterator[tuple[int, int, float]]:
    """Yield the constraints of a System: particles, and their distance in nm."""
    for k in range(system.getNumConstraints()):
        i, j, length = system.getConstraintParameters(k)
        yield i, j, length._value


def of_system(system: Any) -> Held:
    """Masses and constraints of a System."""
    found = [system.getParticleMass(k)._value for k in range(system.getNumParticles())]
    masses = np.array(found, dtype=np.float64)
    pairs = np.array([pair[:2] for pair in constraints(system)], dtype=np.intp).reshape(-1, 2)
    # Between two frozen particles OpenMM ignores constraints.
    pairs = pairs[masses[pairs].any(axis=1)]
    return Held(masses, pairs, system.usesPeriodicBoundaryConditions(), None)


def _of_topology(given: Any) -> Held:
    """Masses of the elements, and waters (residue HOH), which are rigid."""
    masses = np.array([a.element.mass._value if a.element else 0.0 for a in given.atoms()])
    found = [
        (one.index, two.index)
        for residue in given.residues()
        if residue.name == "HOH"
        for one, two in combinations(residue.atoms(), 2)
        if one.element and two.element
    ]
    pairs = np.array(found, dtype=np.intp).reshape(-1, 2)
    names = [f"atom {a.index} ({a.name} of {a.residue.name} {a.residue.id})" for a in given.atoms()]
    return Held(masses, pairs, False, names)


def bonds_of(given: Any) -> Indices:
    """Bonds of a Topology (bonds, 2)."""
    pairs = [(one.index, two.index) for one, two in given.bonds()]
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)


def _read(source: Any, beside: Any, in_order: bool = False) -> tuple[Held, ConnectedSets]:
    """Masses, names and what is held; the molecules by bonds between particles with a mass."""
    if isinstance(source, app.Topology) and beside is None:
        held, beside = _of_topology(source), source
        sites = np.zeros(held.masses.size, dtype=bool)
    elif isinstance(source, openmm.System) and isinstance(beside, app.Topology | None):
        held = of_system(source)
        sites = np.array([source.isVirtualSite(k) for k in range(held.masses.size)], dtype=bool)
    else:
        kinds = f"{type(source).__name__} and {type(beside).__name__}"
        raise TypeError(f"expected an openmm.System, its openmm.app.Topology, or both, got {kinds}")
    hydrogens: Mask | None = None
    if beside is None:
        pairs = _of_force_field(source)
    else:
        elements = [atom.element for atom in beside.atoms()]
        if len(elements) != sites.size:
            raise ValueError(f"the System has {sites.size} particles, its topology {len(elements)}")
        held, pairs = held._replace(names=_of_topology(beside).names), bonds_of(beside)
        hydrogens = np.array([e is not None and e.symbol in HYDROGENS for e in elements])
    pairs = pairs[~sites[pairs].any(axis=1)]
    # Topologies of GROMACS have no bonds of water, which its constraints join.
    label = connected_components(topology.graph(sites.size, pairs), directed=False)[1]
    pairs = np.concatenate([pairs, held.pairs[np.diff(label[held.pairs], axis=1)[:, 0] != 0]])
    if not len(pairs):
        raise ValueError("there are no bonds, neither springs nor constraints: give topology=…")
    return held, ConnectedSets(held._replace(pairs=pairs), hydrogens, in_order)


def _of_force_field(system: Any) -> Indices:
    """Bonds of a System (bonds, 2): pairs with a spring or a constraint, not across an angle."""
    springs = [(i, j, length) for _, i, j, length, _ in harmonic_bonds(system)]
    held = constraints(system)
    lengths = {(min(i, j), max(i, j)): length for i, j, length in (*springs, *held)}
    around: dict[int, dict[int, float]] = {}
    for (i, j), length in lengths.items():
        around.setdefault(i, {})[j] = around.setdefault(j, {})[i] = length

    def across(i: int, j: int, c: float) -> bool:
        one, two = around[i], around[j]
        sides = [(one[k], two[k]) for k in one.keys() & two.keys()]
        return any(c * c > a * a + b * b - 2.0 * a * b * WIDE for a, b in sides)

    pairs = [pair for pair, length in lengths.items() if not across(*pair, length)]
    return np.array(pairs, dtype=np.intp).reshape(-1, 2)
