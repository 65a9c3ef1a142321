"""Distances held between particles, as chains: connected sets, equal ones, rigid ones.

The constraints may be any engine's; nothing here imports one.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fixman._common import arrays
from fixman.analysis import canonical
from fixman.analysis.groups import Floats, Indices, Mask, Molecules, find_molecules
from fixman.chains.chain import Chain
from fixman.chains.topology import sum_outwards
from fixman.mechanics.dynamics import forward_dynamics

SAME_MASS = 1e-6  # relative; chains may have their masses in any unit
SAME_SHAPE = 1e-6  # how far a constraint may move, relative to motions that the chain allows
NAMED = 12  # beads whose particles an error names


class Held(NamedTuple):
    """Distances between pairs of particles that a System or Topology holds fixed."""

    masses: Floats
    pairs: Indices
    periodic: bool
    names: Sequence[str] | None  # atoms of a Topology

    def name(self, particle: int) -> str:
        """Name a particle as its owner knows it."""
        return f"particle {particle}" if self.names is None else self.names[particle]


class Group(NamedTuple):
    """Equal molecules: their chain, and the particles (copies, n) that its beads are."""

    chain: Chain
    particles: Indices


def group_of(chain: Any, given: Any, name: str) -> Group:
    """Check a free chain in space and its particles, (n,) or (copies, n)."""
    if not isinstance(chain, Chain):
        raise TypeError(f"{name} must be (particles, Chain), got {chain!r:.80}")
    if chain.dim != 3 or chain.base != "free":
        raise ValueError(f"{name} must be free and three-dimensional, got {chain!r}")
    particles = np.asarray(given)
    if particles.dtype.kind not in "iu":
        raise TypeError(f"particles of {name} must be integers, got dtype {particles.dtype}")
    if particles.ndim not in (1, 2) or particles.shape[-1] != chain.n or not particles.size:
        said = f"particles of {name} must have shape ({chain.n},) or (copies, {chain.n})"
        raise ValueError(f"{said}, got {particles.shape}")
    return Group(chain, particles.astype(np.intp).reshape(-1, chain.n))


class ConnectedSets:
    """Connected sets of held distances, equal ones as one kind, in the order of first particles.

    ``kind``, ``copy`` and ``bead`` (particles,) tell where a particle is; −1 for a free one.
    With ``in_order`` the beads of every copy are in the order of its particles.
    """

    def __init__(self, held: Held, hydrogens: Mask | None = None, in_order: bool = False) -> None:
        massless = held.pairs[held.masses[held.pairs] == 0.0]
        if massless.size:
            raise ValueError(f"{held.name(massless[0])} is bonded or constrained, and has no mass")
        self.pairs = np.unique(np.sort(held.pairs, axis=1), axis=0)
        found = find_molecules(self.pairs, held.masses, hydrogens)
        self.kinds = [kind for one in found for kind in _numbered(one, in_order)]
        self.kind, self.copy, self.bead = np.full((3, held.masses.size), -1)
        for k, one in enumerate(self.kinds):
            self.kind[one.atoms] = k
            self.copy[one.atoms], self.bead[one.atoms] = np.indices(one.atoms.shape)

    @cached_property
    def groups(self) -> list[Group]:
        """Chains that hold the independent ones of the distances of each kind."""
        return [Group(one.chain("length"), one.atoms) for one in self.kinds]

    def touched(self, particles: Indices) -> tuple[Indices, Indices, int]:
        """Particles and pairs of the sets that some are of, and how many constraints count."""
        own = np.unique([self.kind[particles], self.copy[particles]], axis=1).T
        sets = [(self.kinds[k].atoms[copy], self.kinds[k], k) for k, copy in own if k >= 0]
        members = np.concatenate([np.empty(0, np.intp), *(atoms for atoms, _, _ in sets)])
        pairs = np.concatenate([np.empty((0, 2), np.intp), *(a[one.pairs] for a, one, _ in sets)])
        return members, pairs, sum(self.groups[k].chain.hard.size for _, _, k in sets)


def _numbered(one: Molecules, alike: bool) -> list[Molecules]:
    """Put beads in the order of the particles of the first copy; or, ``alike``, of each copy.

    The latter divides molecules in which masses, hydrogens and bonds do not follow alike.
    """
    order = np.argsort(one.atoms if alike else one.atoms[:1], axis=1)
    atoms, found = np.take_along_axis(one.atoms, order, axis=1), []
    pairs = canonical.in_order(np.argsort(order, axis=1)[:, one.pairs])  # (copies, bonds, 2)
    marks = np.zeros(one.masses.size) if one.hydrogens is None else one.hydrogens
    first, kinds = canonical.alike(one.masses[order], marks[order], pairs)
    kinds = np.broadcast_to(kinds, len(atoms))
    for kind, copy in enumerate(first):
        hydrogens = None if one.hydrogens is None else one.hydrogens[order[copy]]
        own = one.masses[order[copy]], atoms[kinds == kind]
        found.append(Molecules(*own, bonds=pairs[copy], hydrogens=hydrogens))
    return found


def with_names(error: Any, particles: Sequence[int] | Indices, name: Callable[[int], str]) -> Any:
    """Return an error about beads, its text with the names of the particles that these are."""
    names = [f"bead {k} is {name(int(particles[k]))}" for k in error.beads[:NAMED]]
    error.args = ("; ".join([str(error), *names]) + "; …" * (len(error.beads) > NAMED),)
    return error


def whole(parents: Indices, x: Floats, box: Floats) -> Floats:
    """Make trees whole: every bond of theirs its shortest periodic image; x (copies, n, 3).

    The box vectors (3, 3) are lower triangular and reduced; positions that are not finite stay.
    """
    beads = np.flatnonzero(parents >= 0)
    with np.errstate(invalid="ignore"):
        bonds = x[:, beads] - x[:, parents[beads]]
        wrapped = np.abs(bonds) > 0.5 * np.diagonal(box)
        if not wrapped.any() or not np.isfinite(bonds).all():
            return x
        for k in (2, 1, 0):
            bonds -= np.round(bonds[..., k : k + 1] / box[k, k]) * box[k]
    steps = x.copy()
    steps[:, beads] = bonds
    return sum_outwards(parents, steps)


def explicit_groups(
    chains: Iterable[tuple[Any, Chain]], held: Held, sets: ConnectedSets
) -> list[Group]:
    """Chains that users describe, checked against what is held."""
    groups = []
    for k, item in enumerate(arrays.list_of(chains, "chains", "pairs (particles, Chain)")):
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise TypeError(f"chains[{k}] must be (particles, Chain), got {item!r:.80}")
        groups.append(group_of(item[1], item[0], f"chains[{k}]"))
    used = np.concatenate([np.empty(0, np.intp), *(group.particles.ravel() for group in groups)])
    used, times = np.unique(used, return_counts=True)
    wrong = (times > 1) | (used < 0) | (used >= held.masses.size)
    if wrong.any():
        said = f"not one of the {held.masses.size} of the System"
        raise ValueError(f"particle {used[wrong][0]} is in chains more than once, or {said}")
    for k, (chain, particles) in enumerate(groups):
        masses = held.masses[particles]
        if not masses.all():
            raise ValueError(f"particle {particles[masses == 0.0][0]} of chains[{k}] has no mass")
        ratio = masses / chain.masses
        bad = np.abs(ratio / ratio[:, :1] - 1.0) > SAME_MASS
        for copy, bead in np.argwhere(bad)[:1]:
            said = f"chains[{k}]: the masses of beads 0 and {bead} are not as those of particles"
            raise ValueError(f"{said} {particles[copy, 0]} and {particles[copy, bead]}")
        _agree_on_constraints(groups[k], sets, k)
    return groups


def _agree_on_constraints(group: Group, sets: ConnectedSets, k: int) -> None:
    """Refuse a chain whose hard rows do not span the constraints among its particles.

    They do if they are as many as the independent constraints, and if a motion that they allow,
    drawn at random, changes no constrained distance.
    """
    chain = group.chain
    x, pull = np.random.default_rng(0).normal(size=(2, chain.n, 3))
    motion = forward_dynamics(chain, x, np.zeros_like(x), force=pull).acceleration
    slack = SAME_SHAPE * np.abs(motion).max() * np.abs(x).max()
    bead = np.full(sets.kind.size, -1)
    for row in group.particles:
        members, pairs, rank = sets.touched(row)
        outside = ~np.isin(members, row)
        if outside.any():
            raise ValueError(f"constraints join particle {members[outside][0]} to chains[{k}]")
        if rank != chain.hard.size:
            said = f"the System has {rank} independent constraints among its {chain.n} particles"
            raise ValueError(f"chains[{k}] holds {chain.hard.size} coordinates, but {said}")
        bead[row] = np.arange(chain.n)
        i, j = bead[pairs].T
        moved = np.abs(np.einsum("pc,pc->p", x[i] - x[j], motion[i] - motion[j])) > slack
        if moved.any():
            one, two = pairs[np.argmax(moved)]
            said = f"chains[{k}] does not hold the distance of particles {one} and {two}"
            raise ValueError(f"{said}: are the particles in the order of the beads?")
