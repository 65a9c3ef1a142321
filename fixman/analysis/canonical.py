"""One order of the atoms of a molecule, whatever order they come in: equal molecules look equal.

Atoms are ranked by mass and mark, and by the ranks of their neighbours until nothing new is told
(Weisfeiler & Leman 1968).  Branches that still look alike are alike.  Where atoms of rings look
alike, the first is singled out, and so on until each has a rank of its own.  Where atoms look alike
that no symmetry exchanges, as in some cages, equal molecules whose atoms come in other orders may
not be found to be equal; different ones never are, since masses and bonds are compared exactly.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csgraph

from fixman.chains import topology

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


def pool(masses: Floats, marks: Mask, bonds: Indices) -> tuple[Indices, Indices]:
    """Tell kinds of molecules apart, and order the atoms of each kind alike.

    Parameters
    ----------
    masses, marks : (molecules, n)
        Numbers by which atoms are told apart.
    bonds : (molecules, m, 2)
        Pairs of 0 … n − 1, each once; every molecule is connected.

    Returns
    -------
    kinds : (molecules,)
        Numbers from 0, in the order of the first molecules.
    order : (molecules, n)
        Atoms from the centre of each molecule outwards, breadth first, heavy ones before light.

    Notes
    -----
    Two molecules are of one kind where masses, marks and bonds are the same in these orders.
    O(n log n) a molecule, and O(n log n) more each time that rings which look alike are singled out
    one after another.  Molecules that are the same already are looked at once.
    """
    first, same = _alike(masses, marks, in_order(bonds))
    masses, marks, bonds = masses[first], marks[first], bonds[first]
    order = _orders(masses, marks, bonds)
    rank = np.argsort(order, axis=1)
    one = np.arange(len(first))[:, None]
    _, kinds = _alike(masses[one, order], marks[one, order], in_order(rank[one[:, :, None], bonds]))
    return kinds[same], order[same]


def _alike(*tables: npt.NDArray[Any]) -> tuple[Indices, Indices]:
    """Find equal rows of tables: the first of each kind, and the kind of every row."""
    numbers: dict[tuple[bytes, ...], int] = {}
    rows = zip(*(np.ascontiguousarray(table) for table in tables), strict=True)
    keys = (tuple(part.tobytes() for part in row) for row in rows)
    kinds = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
    return np.unique(kinds, return_index=True)[1], kinds


def in_order(bonds: Indices) -> Indices:
    """Sort bonds (..., m, 2): both ends of each, and all among each other."""
    bonds = np.sort(bonds, axis=-1)
    by = np.lexsort((bonds[..., 1], bonds[..., 0]), axis=-1)
    return np.take_along_axis(bonds, by[..., None], axis=-2)


def _orders(masses: Floats, marks: Mask, bonds: Indices) -> Indices:
    count, n = masses.shape
    molecule = np.arange(count * n) // n
    first = n * np.arange(count)
    pairs = (bonds + first[:, None, None]).reshape(-1, 2)
    neighbours = _neighbours(pairs, count * n)
    core = _core(neighbours)
    kinds = np.stack([molecule, -masses.ravel(), marks.ravel()], axis=1)  # the heaviest first
    rank = _Cells(neighbours, kinds, n).all_apart(core, pairs)
    # With atoms renumbered by rank, those of rings first, a walk in the order of the numbers
    # meets atoms that are alike as it pleases, and all others in one order.
    walk = np.lexsort((rank, ~core, molecule))
    walk = walk[_walk(_neighbours(np.argsort(walk)[pairs], count * n), first)[0]]
    neighbours = _neighbours(np.argsort(walk)[pairs], count * n)
    # In the middle between an atom that is far from the first and the atom farthest from that.
    _, steps = _walk(neighbours, first)
    _, to_one = _walk(neighbours, first + steps.argmax(axis=1))
    _, to_other = _walk(neighbours, first + to_one.argmax(axis=1))
    centre = np.maximum(to_one, to_other).argmin(axis=1)
    order: Indices = walk[_walk(neighbours, first + centre)[0]].reshape(count, n) % n
    return order


def _neighbours(pairs: Indices, size: int) -> list[list[int]]:
    """Neighbours of each atom, in the order of their numbers."""
    graph = topology.graph(size, np.concatenate([pairs, pairs[:, ::-1]]))
    graph.sort_indices()
    others = graph.indices.tolist()
    return [others[i:j] for i, j in pairwise(graph.indptr.tolist())]


def _walk(neighbours: list[list[int]], starts: Indices) -> tuple[Indices, Indices]:
    """Walk breadth first: atoms, molecule after molecule, and the steps to each (molecules, n)."""
    walk: list[int] = []
    steps = [-1] * len(neighbours)
    for start in starts.tolist():
        steps[start] = 0
        queue = [start]
        for atom in queue:
            for other in neighbours[atom]:
                if steps[other] < 0:
                    steps[other] = steps[atom] + 1
                    queue.append(other)
        walk += queue
    return np.array(walk), np.array(steps).reshape(len(starts), -1)


def _core(neighbours: list[list[int]]) -> Mask:
    """Atoms on rings or between them: what is left when loose ends are cut off again and again."""
    degree = [len(others) for others in neighbours]
    ends = [atom for atom, number in enumerate(degree) if number == 1]
    for end in ends:
        degree[end] = 0
        for other in neighbours[end]:
            degree[other] -= 1
            if degree[other] == 1:
                ends.append(other)
    return np.array(degree) > 0


class _Cells:
    """Cells of atoms that look alike, and their ranks: the numbers of atoms in cells before.

    A neighbourhood is the sum of random codes of the neighbours' ranks within their molecule.  The
    largest part of a cell that splits stays, and only neighbours of the others are looked at again:
    an atom of n gets another cell at most log₂ n times.
    """

    def __init__(self, neighbours: list[list[int]], kinds: Floats, n: int) -> None:
        self.neighbours, self.n = neighbours, n
        codes = np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64)
        self.codes: list[int] = codes.tolist()
        _, cell, sizes = np.unique(kinds, axis=0, return_inverse=True, return_counts=True)
        self.cell: list[int] = cell.ravel().tolist()
        self.before = self.cell.copy()  # the last round
        self.rank: list[int] = (np.cumsum(sizes) - sizes).tolist()
        self.code = [self.codes[rank % n] for rank in self.rank]
        self.members: list[set[int]] = [set() for _ in self.rank]
        for atom, own in enumerate(self.cell):
            self.members[own].add(atom)

    def all_apart(self, core: Mask, pairs: Indices) -> Indices:
        """Split cells until each atom of the core has one to itself; the ranks of all atoms."""
        pairs = pairs[core[pairs].all(axis=1)]
        news = list(range(len(self.cell)))
        while True:
            while news:
                news = self._round(news)
            rank: Indices = np.array(self.rank)[self.cell]
            twins = np.flatnonzero(core & (np.bincount(rank)[rank] > 1))
            if not twins.size:
                return rank
            for atom in _singled(twins, rank, pairs, self.n).tolist():
                news += self._split(self.cell[atom], {0: [atom]}, 1)

    def _round(self, news: list[int]) -> list[int]:
        """Split cells by neighbourhoods once, after news: atoms that are in other cells now."""
        beside: dict[int, set[int]] = {}
        for atom in news:
            for other in self.neighbours[atom]:
                beside.setdefault(self.cell[other], set()).add(other)
        several = (item for item in beside.items() if len(self.members[item[0]]) > 1)
        splits = [(cell, *self._parts(cell, atoms)) for cell, atoms in several]
        for atom in news:
            self.before[atom] = self.cell[atom]
        return [new for split in splits for new in self._split(*split)]

    def _parts(self, cell: int, atoms: set[int]) -> tuple[dict[int, list[int]], int]:
        """Sort atoms of a cell, those beside news, by neighbourhood, and find that of the rest.

        The rest is looked at as well unless it is more than half.
        """
        rest = self._neighbourhood(next(iter(atoms)), self.before)
        parts: dict[int, list[int]] = {}
        for atom in atoms if 2 * len(atoms) < len(self.members[cell]) else self.members[cell]:
            parts.setdefault(self._neighbourhood(atom, self.cell), []).append(atom)
        return parts, rest

    def _neighbourhood(self, atom: int, cell: list[int]) -> int:
        codes: int = sum([self.code[cell[other]] for other in self.neighbours[atom]])
        return codes % (1 << 64)

    def _split(self, cell: int, parts: dict[int, list[int]], rest: int) -> list[int]:
        """Split a cell into parts and the rest, in order; the atoms that are in other cells now."""
        rank, sizes = self.rank[cell], {key: len(part) for key, part in parts.items()}
        left = len(self.members[cell]) - sum(sizes.values())
        if left:
            sizes[rest] = sizes.get(rest, 0) + left
        largest = rest if left else max(sizes, key=sizes.__getitem__)
        news = []
        for key in sorted(sizes):
            if key == largest:
                self.rank[cell], self.code[cell] = rank, self.codes[rank % self.n]
            else:
                for atom in parts[key]:
                    self.cell[atom] = len(self.members)
                self.members[cell].difference_update(parts[key])
                self.members.append(set(parts[key]))
                self.rank.append(rank)
                self.code.append(self.codes[rank % self.n])
                news += parts[key]
            rank += sizes[key]
        return news


def _singled(twins: Indices, rank: Indices, pairs: Indices, n: int) -> Indices:
    """Choose those of atoms that look alike that get ranks of their own: one in each molecule.

    Bonds that end in twins join them to regions.  A symmetry that exchanges twins of one region is
    one without what it does in others, so that each region may choose at once.
    """
    twins = twins[np.argsort(rank[twins], kind="stable")]
    ends = pairs[np.isin(pairs, twins).any(axis=1)]
    region = csgraph.connected_components(topology.graph(len(rank), ends), directed=False)[1][twins]
    touched = np.unique(np.stack([rank[twins], region]), axis=1)[0]
    within = np.bincount(touched)[rank[twins]] == 1
    molecule = twins // n
    free = within | ~np.isin(molecule, molecule[within])
    group = np.where(within, region, len(rank) + molecule)[free]
    chosen: Indices = twins[free][np.unique(group, return_index=True)[1]]
    return chosen
