"""Equal molecules, pooled, as arrays that a reader hands over, and how bonds make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components

from fixman.analysis import canonical
from fixman.chains import hard_sets, topology
from fixman.chains.chain import Chain

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class Molecules:
    """Molecules of the same masses and the same bonds."""

    masses: Floats  # (n,)
    atoms: Indices  # the input's atom indices in the order of the beads (molecules, n)
    # Pairs of beads (m, 2), or None for the linear chain 0, 1, …, n − 1.
    bonds: Indices | None = field(default=None, kw_only=True)
    # A mask (n,), or None to tell them by their mass.
    hydrogens: Mask | None = field(default=None, kw_only=True)

    @cached_property
    def pairs(self) -> Indices:
        """All bonds, (m, 2)."""
        first = np.arange(len(self.masses) - 1)
        bonds = np.stack([first, first + 1], axis=1) if self.bonds is None else self.bonds
        return np.asarray(bonds, dtype=np.intp)

    @cached_property
    def tree(self) -> tuple[Indices, Indices]:
        """Parents (n,) of a spanning tree, −1 for its root, and the bonds that it leaves out."""
        parents, closures = topology.spanning_tree(len(self.masses), self.pairs)
        return parents.astype(np.intp), closures.astype(np.intp)

    @property
    def rings(self) -> int:
        """How many bonds have to be cut for a tree to be left."""
        return len(self.pairs) - len(self.masses) + 1

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label()})"

    def label(self) -> str:
        """Say in a few words what they are, such as ``24 chains of 281 beads``."""
        n = len(self.masses)
        ring = bool(self.rings == 1 and np.all(np.bincount(self.pairs.ravel()) == 2))
        kind = "chain" if self.bonds is None else "ring" if ring else "branched chain"
        words = f"{counted(len(self.atoms), kind)} of {counted(n, 'bead')}"
        return words if ring or not self.rings else f"{words} and {counted(self.rings, 'ring')}"

    def chain(self, hard: str | Sequence[str], straight: npt.ArrayLike = (), **more: Any) -> Chain:
        """Describe one of them, free in space, without the hard rows that follow from others.

        `hard`, `straight` and ``more`` as in `Chain.from_bonds`; where nothing of a molecule is
        hard, nothing is refused.
        """
        n, hard = len(self.masses), hard_sets.named(hard)
        wanted = isinstance(hard, str) and hard in hard_sets.WITH_HYDROGENS
        hydrogens = self._hydrogens() if wanted else None
        if hydrogens is not None and not np.any(hydrogens):
            hard, hydrogens = () if hard == "h-bonds" else ("length",), None
        return Chain.from_bonds(
            n, self.pairs, masses=self.masses, hard=hard, straight=straight, hydrogens=hydrogens,
            **{"drop_redundant": True, **more},
        )  # fmt: skip

    def _hydrogens(self) -> Mask:
        if self.hydrogens is not None:
            return np.asarray(self.hydrogens, dtype=bool)
        if np.all(self.masses <= hard_sets.HYDROGEN) and len(self.masses) > 2:
            said = f"all masses of {self.label()} are below {hard_sets.HYDROGEN}"
            raise ValueError(f"{said}, so hydrogens are unknown: are masses in amu?")
        return hard_sets.by_mass(np.asarray(self.masses, dtype=np.float64))


@dataclass(frozen=True, eq=False, repr=False)
class ChainGroup(Molecules):
    """Equal molecules over the same frames: x (frames, chains, n, 3), whole."""

    x: Floats


@dataclass(frozen=True, eq=False, repr=False)
class ChainData:
    """All groups of a selection, and the notes of the reader."""

    groups: tuple[ChainGroup, ...]
    frames: Indices  # (frames,), numbers of the first axis of every group's x
    times: Floats
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        groups = ", ".join(group.label() for group in self.groups)
        more = f"; {counted(len(self.notes), 'note')}" if self.notes else ""
        return f"ChainData({groups}; {counted(len(self.frames), 'frame')}{more})"


def counted(number: int, noun: str) -> str:
    """``1 chain``, ``2 chains``."""
    return f"{number} {noun}{'s'[: number != 1]}"


def find_molecules(pairs: Indices, masses: Floats, hydrogens: Mask | None) -> list[Molecules]:
    """Pool the connected molecules of a graph of bonds, first atom first.

    pairs (bonds, 2), each bond once, of atoms 0 … len(masses) − 1; atoms without a bond are left
    out. Molecules are equal where masses, hydrogens and bonds are, whatever the order of their
    atoms. A linear chain starts at its end of lower index, unless it equals an earlier chain read
    backwards. Atoms of anything else are in canonical order, from the centre outwards.
    """
    size = len(masses)
    marks = np.zeros(size) if hydrogens is None else hydrogens
    kinds = np.unique(-masses + 1j * marks, return_inverse=True)[1]  # the heaviest first
    count, found = connected_components(topology.graph(size, pairs), directed=False)
    label = found.astype(np.intp)
    atoms = np.bincount(label, minlength=count)
    bonds = np.bincount(label[pairs[:, 0]], minlength=count)
    degree = np.bincount(pairs.ravel(), minlength=size)
    linear = bonds == atoms - 1
    linear[label[degree > 2]] = False
    pools: list[tuple[Indices, Indices | None]] = []  # beads of all copies, bonds
    ends = np.flatnonzero(linear[label] & (degree == 1))
    starts = ends[np.unique(label[ends], return_index=True)[1]]
    order = canonical.walk(pairs[linear[label[pairs[:, 0]]]], starts, label)
    for n in np.unique(atoms[label[starts]]):
        beads = order[atoms[label[order]] == n].reshape(-1, n)
        pools += [(same, None) for same in _pool_linear(beads, kinds)]
    for n, m in np.unique(np.stack([atoms, bonds], axis=1)[~linear], axis=0):
        alike = (~linear & (atoms == n) & (bonds == m))[label]
        pools += _pool_others(pairs[alike[pairs[:, 0]]], label, alike, n, kinds)
    molecules = [
        Molecules(
            masses[beads[0]], beads, bonds=some,
            hydrogens=None if hydrogens is None else hydrogens[beads[0]],
        )
        for beads, some in pools
    ]  # fmt: skip
    return sorted(molecules, key=lambda one: int(one.atoms[0].min()))


def _pool_linear(beads: Indices, kinds: Indices) -> list[Indices]:
    """Pool chains of one length, beads (chains, n), by the kinds of their atoms."""
    atoms = kinds[beads]
    # Reading a chain backwards changes no physics; compare all in the direction that
    # sorts first, then read each group's chains the way its first chain runs.
    turned = np.array([one.tobytes() > one[::-1].tobytes() for one in atoms])
    first, group = canonical.alike(np.where(turned[:, None], atoms[:, ::-1], atoms))
    turned = turned != turned[first][group]
    return _members(np.where(turned[:, None], beads[:, ::-1], beads), group)


def _pool_others(
    pairs: Indices, label: Indices, alike: Mask, n: int, kinds: Indices
) -> list[tuple[Indices, Indices]]:
    atoms = np.flatnonzero(alike)
    atoms = atoms[np.argsort(label[atoms], kind="stable")]
    place = np.empty(len(label), dtype=np.intp)
    place[atoms] = np.arange(len(atoms)) % n
    beads = atoms.reshape(-1, n)
    by_molecule = np.argsort(label[pairs[:, 0]], kind="stable")
    bonds = place[pairs[by_molecule]].reshape(len(beads), -1, 2)
    group, order = canonical.pool(kinds[beads], bonds)
    beads = np.take_along_axis(beads, order, axis=1)
    first = np.unique(group, return_index=True)[1]
    rank = np.argsort(order[first], axis=1)
    return [
        (same, canonical.in_order(places[bonds[one]]))
        for one, places, same in zip(first, rank, _members(beads, group), strict=True)
    ]


def _members(beads: Indices, group: Indices) -> list[Indices]:
    """Cut rows by their group, in which they keep their order."""
    ends = np.cumsum(np.bincount(group))[:-1]
    return np.split(beads[np.argsort(group, kind="stable")], ends)
