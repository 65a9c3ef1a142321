"""Distances held between particles, as chains: connected sets, equal ones, rigid ones.

The constraints may be any engine's; nothing here imports one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from fixman.analysis import canonical
from fixman.chains import topology
from fixman.chains.chain import Chain
from fixman.errors import FrameError
from fixman.mechanics.dynamics import forward_dynamics

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

SAME_MASS = 1e-6  # relative; chains may have their masses in any unit
SAME_SHAPE = 1e-6  # how far a constraint may move, relative to motions that the chain allows
NAMED = 12  # beads whose particles an error names
_NONE: Indices = np.empty(0, dtype=np.intp)


class Held(NamedTuple):
    """Distances between pairs of particles that a System or Topology holds fixed."""

    masses: Floats
    pairs: Indices
    periodic: bool
    names: Sequence[str] | None  # atoms of a Topology

    def name(self, particle: int) -> str:
        """Name a particle as its owner knows it."""
        return f"particle {particle}" if self.names is None else self.names[particle]


@dataclass(frozen=True)
class Group:
    """Equal molecules: their chain, and the particles (copies, n) that its beads are."""

    chain: Chain
    particles: Indices


# --- connected sets of constraints --------------------------------------------------------------


class ConnectedSets:
    """Connected sets of held distances, in the order of their first particles."""

    def __init__(self, held: Held) -> None:
        self.masses, size = held.masses, held.masses.size
        self.pairs = np.unique(np.sort(held.pairs, axis=1), axis=0)
        _, label = connected_components(topology.graph(size, self.pairs), directed=False)
        counts = np.bincount(label, minlength=0)[label]
        numbered = np.unique(label[counts > 1], return_inverse=True)[1]
        self.label = np.full(size, -1, dtype=np.intp)  # (particles,), −1 for a free one
        self.label[counts > 1] = numbered
        by_set = np.argsort(self.label, kind="stable")[np.count_nonzero(counts == 1) :]
        self.members = _split(by_set, self.label[by_set])
        owner = self.label[self.pairs[:, 0]]
        order = np.argsort(owner, kind="stable")
        self.own_pairs = _split(self.pairs[order], owner[order])
        self._chains: dict[int, Chain] = {}

    @cached_property
    def _equal(self) -> list[tuple[int, Indices]]:
        """First set that each set equals, and its particles in the order of that one."""
        shapes: dict[tuple[int, int], list[int]] = {}
        for number, pair in enumerate(zip(self.members, self.own_pairs, strict=True)):
            shapes.setdefault((len(pair[0]), len(pair[1])), []).append(number)
        found: dict[int, tuple[int, Indices]] = {}
        for numbers in shapes.values():
            particles = np.array([self.members[k] for k in numbers])
            bonds = np.array([self.bonds(k) for k in numbers])
            masses = self.masses[particles]
            kinds, order = canonical.pool(masses, np.zeros(masses.shape, dtype=bool), bonds)
            first = np.unique(kinds, return_index=True)[1][kinds]
            from_first = np.take_along_axis(order, np.argsort(order[first], axis=1), axis=1)
            particles = np.take_along_axis(particles, from_first, axis=1)
            for number, one, row in zip(numbers, first.tolist(), particles, strict=True):
                found[number] = numbers[one], row
        return [found[number] for number in range(len(self.members))]

    def bonds(self, number: int) -> Indices:
        """Pairs of a set, its particles counted from 0."""
        return np.searchsorted(self.members[number], self.own_pairs[number])

    def chain(self, number: int) -> Chain:
        """Chain of a set; equal sets share theirs, whatever the order of their particles."""
        first, _ = self._equal[number]
        if first not in self._chains:
            masses = self.masses[self.members[first]]
            # Whoever constrains CH₄ by all its ten distances holds one too many.
            self._chains[first] = Chain.from_bonds(
                masses.size, self.bonds(first), masses=masses, drop_redundant=True
            )
        return self._chains[first]

    def union(self, numbers: Indices) -> tuple[Indices, Indices, int]:
        """Particles and pairs of several sets, and how many of their constraints count."""
        members = np.concatenate([_NONE, *(self.members[k] for k in numbers)])
        pairs = np.concatenate([_NONE.reshape(0, 2), *(self.own_pairs[k] for k in numbers)])
        return members, pairs, sum(self.chain(k).hard.size for k in numbers)

    def kinds(self) -> list[tuple[int, Indices]]:
        """Equal sets together: number of the first of each, particles (copies, n) of all."""
        found: dict[int, list[Indices]] = {}
        for first, particles in self._equal:
            found.setdefault(first, []).append(particles)
        return [(first, np.array(copies)) for first, copies in found.items()]

    def groups(self) -> list[Group]:
        """Equal sets together."""
        return [Group(self.chain(first), particles) for first, particles in self.kinds()]


def _split(values: Indices, label: Indices) -> list[Indices]:
    return np.split(values, np.flatnonzero(np.diff(label)) + 1) if label.size else []


def with_names(error: FrameError, particles: Indices, name: Callable[[int], str]) -> FrameError:
    """Return an error about beads with the names of the particles (n,) that these are."""
    names = [f"bead {k} is {name(int(particles[k]))}" for k in error.beads[:NAMED]]
    text = "; ".join([str(error), *names]) + "; …" * (len(error.beads) > NAMED)
    return type(error)(text, coordinates=error.coordinates, beads=error.beads)


def whole(parents: Indices, outwards: Indices, x: Floats, box: Floats) -> Floats:
    """Make trees whole: every bond of theirs its shortest periodic image; x (copies, n, 3).

    ``outwards`` lists the beads, parents (n,) before their children.  The box vectors (3, 3) are
    lower triangular and reduced.  Engines do not wrap what constraints connect, but positions set
    by users may be wrapped.  Positions that are not finite stay as they are.
    """
    beads = outwards[1:]
    with np.errstate(invalid="ignore"):
        bonds = x[:, beads] - x[:, parents[beads]]
        wrapped = np.abs(bonds) > 0.5 * np.diagonal(box)
        if not wrapped.any() or not np.isfinite(bonds).all():
            return x
        for k in (2, 1, 0):
            bonds -= np.round(bonds[..., k : k + 1] / box[k, k]) * box[k]
    x = x.copy()
    for k, bead in enumerate(beads):
        x[:, bead] = x[:, parents[bead]] + bonds[:, k]
    return x


# --- chains that users describe -----------------------------------------------------------------


def explicit_groups(
    chains: Iterable[tuple[Any, Chain]], held: Held, sets: ConnectedSets
) -> list[Group]:
    """Chains that users describe, checked against what is held."""
    groups = [_explicit(item, held.masses.size, k) for k, item in enumerate(chains)]
    _refuse_shared(groups)
    if held.names is None:  # bonds and elements of a topology say little about a simulation
        for k, group in enumerate(groups):
            _agree_on_masses(group, held, k)
            _agree_on_constraints(group, sets, k)
    return groups


def _explicit(item: Any, size: int, k: int) -> Group:
    """Check one of ``chains`` by itself; there are ``size`` particles."""
    try:
        given, chain = item
    except (TypeError, ValueError):
        raise TypeError(f"chains[{k}] must be (particles, Chain), got {item!r:.80}") from None
    if not isinstance(chain, Chain):
        raise TypeError(
            f"chains[{k}] must be (particles, Chain), its second is {type(chain).__name__}"
        )
    if chain.dim != 3 or chain.base != "free":
        raise ValueError(f"chains[{k}] must be free and three-dimensional, got {chain!r}")
    particles = np.asarray(given)
    if particles.dtype.kind not in "iu":
        raise TypeError(f"particles of chains[{k}] must be integers, got dtype {particles.dtype}")
    if particles.ndim not in (1, 2) or particles.shape[-1] != chain.n or not particles.size:
        raise ValueError(
            f"particles of chains[{k}] must have shape ({chain.n},) or (copies, {chain.n}), got "
            f"{particles.shape}"
        )
    particles = particles.astype(np.intp).reshape(-1, chain.n)
    outside = (particles < 0) | (particles >= size)
    if outside.any():
        raise ValueError(f"chains[{k}] names particle {particles[outside][0]}, there are {size}")
    return Group(chain, particles)


def _agree_on_masses(group: Group, held: Held, k: int) -> None:
    chain, particles = group.chain, group.particles
    masses = held.masses[particles]
    massless = particles[masses == 0.0]
    if massless.size:
        raise ValueError(f"particle {massless[0]} of chains[{k}] has no mass")
    ratio = masses / chain.masses
    bad = np.abs(ratio / ratio[:, :1] - 1.0) > SAME_MASS
    if bad.any():
        copy, bead = np.argwhere(bad)[0]
        raise ValueError(
            f"chains[{k}]: bead {bead} has {chain.masses[bead] / chain.masses[0]:.6g} times the "
            f"mass of bead 0, particle {particles[copy, bead]} has "
            f"{masses[copy, bead] / masses[copy, 0]:.6g} times that of particle "
            f"{particles[copy, 0]}: give the chain the masses of the System, in its order"
        )


def _agree_on_constraints(group: Group, sets: ConnectedSets, k: int) -> None:
    """Refuse a chain whose hard rows do not span the constraints among its particles.

    They do if they are as many as the independent constraints, and if a motion that they allow,
    drawn at random, changes no constrained distance.
    """
    chain = group.chain
    x, pull = np.random.default_rng(0).normal(size=(2, chain.n, 3))
    motion = forward_dynamics(chain, x, np.zeros_like(x), force=pull).acceleration
    slack = SAME_SHAPE * np.abs(motion).max() * np.abs(x).max()
    bead = np.full(sets.label.size, -1)
    for row in group.particles:
        own = np.unique(sets.label[row])
        members, pairs, rank = sets.union(own[own >= 0])
        outside = ~np.isin(members, row)
        if outside.any():
            raise ValueError(
                f"constraints join particle {members[outside][0]} to particles of chains[{k}]: "
                "a chain must have all particles of the connected sets that it touches"
            )
        if rank != chain.hard.size:
            raise ValueError(
                f"chains[{k}] holds {chain.hard.size} coordinates, but the System has {rank} "
                f"independent constraints among its {chain.n} particles: the chain must hold "
                "what the constraints hold"
            )
        bead[row] = np.arange(chain.n)
        i, j = bead[pairs].T
        moved = np.abs(np.einsum("pc,pc->p", x[i] - x[j], motion[i] - motion[j])) > slack
        if moved.any():
            one, two = pairs[np.argmax(moved)]
            raise ValueError(
                f"chains[{k}] does not hold the distance of particles {one} and {two}, which the "
                "System constrains: are the particles in the order of the beads?"
            )


def _refuse_shared(groups: list[Group]) -> None:
    particles = np.concatenate([_NONE, *(group.particles.ravel() for group in groups)])
    used, times = np.unique(particles, return_counts=True)
    if (times > 1).any():
        raise ValueError(f"particle {used[np.argmax(times > 1)]} is in chains more than once")
