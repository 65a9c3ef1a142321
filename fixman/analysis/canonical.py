"""One order of the atoms of a molecule, whatever order they come in: equal molecules look equal.

Atoms are ranked by their kind, then by the ranks of their neighbours until no rank changes
(Weisfeiler & Leman 1968). Branches of equal ranks are alike. If atoms of rings have equal ranks,
the first is singled out, and so on until each rank is unique. In some cages no symmetry exchanges
atoms of equal ranks: equal molecules with other orders of atoms may then count as different.
Different molecules never count as equal, since kinds of atoms and bonds are compared exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse import csgraph

from fixman.chains import topology

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.uint64]


def pool(atoms: Indices, bonds: Indices) -> tuple[Indices, Indices]:
    """Tell kinds of molecules apart, and order the atoms of each kind alike.

    atoms (molecules, n) are the kinds of the atoms; bonds (molecules, m, 2), pairs of 0 … n − 1,
    each once, connect them.  Returns the kinds (molecules,), numbers from 0 in the order of the
    first molecules, and orders (molecules, n): atoms from the centre outwards, breadth first, lower
    kinds before higher.  Two molecules are of one kind where atoms and bonds are the same in these
    orders.  O(n) a molecule, and more each time that rings which look alike are singled out one
    after another; molecules that are the same are looked at once.
    """
    first, same = alike(atoms, in_order(bonds))
    atoms, bonds = atoms[first], bonds[first]
    order = _orders(atoms, bonds)
    rank = np.argsort(order, axis=1)
    one = np.arange(len(first))[:, None]
    _, kinds = alike(atoms[one, order], in_order(rank[one[:, :, None], bonds]))
    return kinds[same], order[same]


def alike(*tables: npt.NDArray[Any]) -> tuple[Indices, Indices]:
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


def _orders(atoms: Indices, bonds: Indices) -> Indices:
    count, n = atoms.shape
    molecule, first = np.repeat(np.arange(count), n), n * np.arange(count)
    pairs = (bonds + first[:, None, None]).reshape(-1, 2)
    graph = _neighbours(pairs, molecule.size)
    core, kind = _core(graph), atoms.ravel()
    cell = _Cells(graph, kind, n).all_apart(core, pairs)
    # With atoms renumbered by cell, those of rings first, a walk in the order of the numbers
    # meets atoms that are alike as it pleases, and all others in one order.
    order = np.lexsort((cell, kind, ~core, molecule))
    order = order[walk(np.argsort(order)[pairs], first, molecule)]
    pairs = np.argsort(order)[pairs]
    # In the middle between an atom that is far from the first and the atom farthest from that.
    graph = _neighbours(pairs, molecule.size)
    to_one = _steps(graph, first + _steps(graph, first).argmax(axis=1))
    to_other = _steps(graph, first + to_one.argmax(axis=1))
    centre = np.maximum(to_one, to_other).argmin(axis=1)
    return np.reshape(order[walk(pairs, first + centre, molecule)] % n, (count, n))


def walk(pairs: Indices, starts: Indices, molecule: Indices) -> Indices:
    """Atoms breadth first from a start in each molecule, molecules (atoms,) by their numbers."""
    size = len(molecule)  # one atom more is bonded to every start, so that all walk in step
    more = np.stack([np.full_like(starts, size), starts], axis=1)
    graph = _neighbours(np.concatenate([pairs, more]), size + 1)
    found = csgraph.breadth_first_order(graph, size, return_predecessors=False)[1:]
    return found[np.argsort(molecule[found], kind="stable")].astype(np.intp)


def _neighbours(pairs: Indices, size: int) -> sparse.csr_array[Any, Any]:
    graph = topology.graph(size, np.concatenate([pairs, pairs[:, ::-1]]))
    graph.sort_indices()
    return graph


def _steps(graph: sparse.csr_array[Any, Any], starts: Indices) -> Floats:
    """Count the bonds from the start in each molecule to its atoms, (molecules, n)."""
    steps = csgraph.dijkstra(graph, indices=starts, unweighted=True, min_only=True)
    return np.reshape(steps, (len(starts), -1))


def _core(graph: sparse.csr_array[Any, Any]) -> Mask:
    """Atoms on rings or between them: what is left when loose ends are cut off again and again."""
    others, first = graph.indices.tolist(), graph.indptr.tolist()
    degree = np.diff(graph.indptr).tolist()
    ends = [atom for atom, number in enumerate(degree) if number == 1]
    for end in ends:
        degree[end] = 0
        for other in others[first[end] : first[end + 1]]:
            degree[other] -= 1
            if degree[other] == 1:
                ends.append(other)
    return np.array(degree) > 0


class _Cells:
    """Cells of atoms that look alike, by numbers that do not depend on the order of the atoms.

    A neighbourhood is the sum of random codes of the neighbours' cells.  A part of each cell that
    splits keeps its number, and only neighbours of the others are looked at again.
    """

    def __init__(self, graph: sparse.csr_array[Any, Any], kind: Indices, n: int) -> None:
        self.others, self.first, self.n = graph.indices, graph.indptr[:-1], n
        self.degree = np.diff(graph.indptr)
        self.codes = np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64)
        atoms = np.arange(kind.size)
        self.cell = atoms // n * n  # a molecule has the n numbers from that of its first atom on
        self.sizes = np.where(atoms % n == 0, n, 0)
        self.used = np.ones(kind.size // n, dtype=np.intp)  # numbers of a molecule
        self._split(atoms, kind.astype(np.uint64))

    def all_apart(self, core: Mask, pairs: Indices) -> Indices:
        """Split cells until each atom of the core has one to itself; the cells of all atoms."""
        pairs = pairs[core[pairs].all(axis=1)]
        news = np.arange(self.cell.size)
        while True:
            while news.size:
                news = self._split(*self._neighbourhoods(news))
            twins = np.flatnonzero(core & (self.sizes[self.cell] > 1))
            if not twins.size:
                return self.cell
            atoms = _singled(twins, self.cell, pairs, self.n)
            news = self._split(atoms, np.ones(atoms.size, dtype=np.uint64))

    def _neighbourhoods(self, news: Indices) -> tuple[Indices, Codes]:
        """Find the neighbours of atoms in new cells, and the sums of these cells' codes."""
        degree = self.degree[news]
        within = np.arange(degree.sum()) - np.repeat(np.cumsum(degree) - degree, degree)
        others = self.others[np.repeat(self.first[news], degree) + within]
        atoms, place = np.unique(others, return_inverse=True)
        sums = np.zeros(atoms.size, dtype=np.uint64)
        np.add.at(sums, place, np.repeat(self.codes[self.cell[news] % self.n], degree))
        return atoms, sums

    def _split(self, atoms: Indices, keys: Codes) -> Indices:
        """Split cells by keys of some of their atoms from the rest; return those in new cells."""
        by = np.lexsort((keys, self.cell[atoms]))
        atoms, keys, cells = atoms[by], keys[by], self.cell[atoms[by]]
        begins = np.append(True, (cells[1:] != cells[:-1]) | (keys[1:] != keys[:-1]))
        part = np.cumsum(begins) - 1
        counts, cells = np.bincount(part), cells[begins]
        np.subtract.at(self.sizes, cells, counts)
        # The rest keeps the number of a cell, or else the largest part.
        by = np.lexsort((counts, cells))
        largest = by[np.append(cells[1:] != cells[:-1], True)]
        kept = largest[self.sizes[cells[largest]] == 0]
        self.sizes[cells[kept]] = counts[kept]
        moves = np.ones(counts.size, dtype=bool)
        moves[kept] = False
        counts, molecule = counts[moves], cells[moves] // self.n
        within = np.arange(counts.size) - np.searchsorted(molecule, molecule)
        numbers = molecule * self.n + self.used[molecule] + within
        np.add.at(self.used, molecule, 1)
        self.sizes[numbers] = counts
        news: Indices = atoms[moves[part]]
        self.cell[news] = np.repeat(numbers, counts)
        return news


def _singled(twins: Indices, cell: Indices, pairs: Indices, n: int) -> Indices:
    """Choose those of atoms that look alike that get ranks of their own: one in each molecule.

    Bonds that end in twins join them to regions.  A symmetry that exchanges twins of one region is
    one without what it does in others, so that each region may choose at once.
    """
    twins = twins[np.argsort(cell[twins], kind="stable")]
    ends = pairs[np.isin(pairs, twins).any(axis=1)]
    region = csgraph.connected_components(topology.graph(len(cell), ends), directed=False)[1][twins]
    touched = np.unique(np.stack([cell[twins], region]), axis=1)[0]
    within = np.bincount(touched)[cell[twins]] == 1
    molecule = twins // n
    free = within | ~np.isin(molecule, molecule[within])
    group = np.where(within, region, len(cell) + molecule)[free]
    return np.asarray(twins[free][np.unique(group, return_index=True)[1]])
