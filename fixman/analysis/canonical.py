"""One order of the atoms of a molecule, whatever order they come in: equal molecules look equal.

Atoms are coloured by mass and mark, and colours are split by the numbers of bonds to others until
nothing new is told.  Branches that still look alike are alike.  Where atoms of rings look alike,
the first is singled out, and so on until each has a colour of its own.  Where atoms look alike that
no symmetry exchanges, as in some cages, equal molecules whose atoms come in other orders may not be
found to be equal; different ones never are, since masses and bonds are compared exactly.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
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
    O(molecules n log n), and molecules that are the same already are looked at once.
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
    pairs = (bonds + n * np.arange(count)[:, None, None]).reshape(-1, 2)
    core = _core(pairs, count * n) if bonds.shape[1] >= n else np.zeros(count * n, dtype=bool)
    rank = _coloured(_graph(pairs, count * n), masses.ravel(), marks.ravel(), core, n)
    # With atoms renumbered by colour, those of rings first, a walk in the order of the numbers
    # meets atoms that are alike as it pleases, and all others in one order.
    walk = np.lexsort((rank, ~core, np.arange(count * n) // n))
    walk = walk[_walk(_renumbered(pairs, walk), np.zeros(count, dtype=np.intp), n)]
    pairs = _renumbered(pairs, walk)
    # In the middle between an atom that is far from the first and the atom farthest from that.
    one = _distances(pairs, np.zeros(count, dtype=np.intp), n).argmax(axis=1)
    to_one = _distances(pairs, one, n)
    to_other = _distances(pairs, to_one.argmax(axis=1), n)
    centre = np.maximum(to_one, to_other).argmin(axis=1)
    order: Indices = walk[_walk(pairs, centre, n)].reshape(count, n) % n
    return order


def _graph(pairs: Indices, size: int) -> sparse.csr_array[Any, Any]:
    """Both directions of all bonds, neighbours in the order of their numbers."""
    graph = topology.graph(size, np.concatenate([pairs, pairs[:, ::-1]]))
    graph.sort_indices()
    return graph


def _renumbered(pairs: Indices, walk: Indices) -> Indices:
    place = np.empty(len(walk), dtype=np.intp)
    place[walk] = np.arange(len(walk))
    return place[pairs]


# --- walks --------------------------------------------------------------------------------------


def _rooted(pairs: Indices, start: Indices, n: int) -> sparse.csr_array[Any, Any]:
    """Join a further atom, the last, to one atom of each molecule of n."""
    size = n * len(start)
    root = np.column_stack([np.full(len(start), size), start + n * np.arange(len(start))])
    return _graph(np.concatenate([pairs, root]), size + 1)


def _walk(pairs: Indices, start: Indices, n: int) -> Indices:
    """Walk all molecules breadth first, neighbours by number: atoms, one molecule after another."""
    size = n * len(start)
    order = csgraph.breadth_first_order(
        _rooted(pairs, start, n), size, directed=True, return_predecessors=False
    )[1:]
    walk: Indices = order[np.argsort(order // n, kind="stable")].astype(np.intp)
    return walk


def _distances(pairs: Indices, start: Indices, n: int) -> Floats:
    size = n * len(start)
    rooted = _rooted(pairs, start, n)
    steps = csgraph.dijkstra(rooted, indices=np.array([size]), unweighted=True)
    distances: Floats = steps[0, :size].reshape(-1, n)
    return distances


# --- colours ------------------------------------------------------------------------------------


def _core(pairs: Indices, size: int) -> Mask:
    """Atoms on rings or between them: what is left when loose ends are cut off again and again."""
    degree = np.bincount(pairs.ravel(), minlength=size)
    neighbours = np.zeros(size, dtype=np.intp)  # their sum, which for an end is the only one
    np.add.at(neighbours, pairs, pairs[:, ::-1])
    ends = np.flatnonzero(degree == 1)
    while ends.size:
        inner = neighbours[ends]
        degree[ends] = 0
        np.subtract.at(degree, inner, 1)
        np.subtract.at(neighbours, inner, ends)
        ends = np.unique(inner[degree[inner] == 1])
    core: Mask = degree > 0
    return core


def _coloured(
    graph: sparse.csr_array[Any, Any], masses: Floats, marks: Mask, core: Mask, n: int
) -> Indices:
    """Rank atoms by mass, the heaviest first, mark and neighbourhood; of the core, all of them.

    Atoms that are told apart stay in order.
    """
    kinds = np.stack([-masses, marks], axis=1)
    colour: Indices = np.unique(kinds, axis=0, return_inverse=True)[1]
    for first in range(0, len(colour), n):
        own = slice(first, first + n)
        start = graph.indptr[first : first + n + 1]
        flat = (graph.indices[start[0] : start[-1]] - first).tolist()
        neighbours = [flat[i:j] for i, j in pairwise((start - start[0]).tolist())]
        colour[own] = _Cells(neighbours, colour[own].tolist()).all_apart(core[own].tolist())
    return colour


class _Cells:
    """Atoms in an order whose cells, named by their first place, are the colours."""

    def __init__(self, neighbours: list[list[int]], colour: list[int]) -> None:
        n = len(colour)
        self.neighbours = neighbours
        self.atoms = sorted(range(n), key=colour.__getitem__)
        self.place, self.cell = [0] * n, [0] * n
        self.size: dict[int, int] = {}
        for place, atom in enumerate(self.atoms):
            before = self.atoms[place - 1]
            new = not place or colour[atom] != colour[before]
            self.place[atom], self.cell[atom] = place, place if new else self.cell[before]
            self.size[self.cell[atom]] = self.size.get(self.cell[atom], 0) + 1

    def all_apart(self, core: list[bool]) -> list[int]:
        """Single out atoms until each of the core has a cell to itself; the cells of all."""
        self._refine({}, list(self.size))
        for cell in range(len(self.atoms)):
            while self.size.get(cell, 1) > 1 and core[self.atoms[cell]]:
                self._refine({self.atoms[cell]: 1}, [])
        return self.cell

    def _refine(self, bonds: dict[int, int], cells: list[int]) -> None:
        """Split cells by numbers of bonds, by those to some cells, and by those to new cells."""
        queue, waiting = deque(cells), set(cells)
        while True:
            for start, parts in self._touched(bonds):
                pieces = self._cut(start, parts)
                if not pieces:
                    continue
                new = [start, *pieces]
                if start not in waiting:  # bonds to the largest follow from those to all
                    new.remove(max(new, key=self.size.__getitem__))
                queue.extend(part for part in new if part not in waiting)
                waiting.update(new)
            if not queue:
                return
            start = queue.popleft()
            waiting.remove(start)
            bonds = {}
            for member in self.atoms[start : start + self.size[start]]:
                for other in self.neighbours[member]:
                    bonds[other] = bonds.get(other, 0) + 1

    def _touched(self, bonds: dict[int, int]) -> list[tuple[int, list[list[int]]]]:
        """Sort atoms by cell and number of bonds, the most first."""
        touched: dict[int, dict[int, list[int]]] = {}
        for atom, number in bonds.items():
            touched.setdefault(self.cell[atom], {}).setdefault(number, []).append(atom)
        return [
            (cell, [atoms for _, atoms in sorted(touched[cell].items(), reverse=True)])
            for cell in sorted(touched)
        ]

    def _cut(self, cell: int, parts: list[list[int]]) -> list[int]:
        """Move parts of a cell to its end, into cells of their own, unless nothing would be left.

        Only what moves is looked at.
        """
        left, pieces = self.size[cell], []
        for part in parts:
            if len(part) < left:
                left -= len(part)
                start = cell + left
                for place, atom in enumerate(part, start):
                    other, hole = self.atoms[place], self.place[atom]
                    self.atoms[hole], self.place[other] = other, hole
                    self.atoms[place], self.place[atom] = atom, place
                    self.cell[atom] = start
                self.size[start] = len(part)
                pieces.append(start)
        self.size[cell] = left
        return pieces
