"""One order of the atoms of a molecule, whatever order they come in: equal molecules look equal.

Atoms are ranked by mass and mark, and by the ranks of their neighbours until nothing new is told
(Weisfeiler & Leman 1968).  Branches that still look alike are alike.  Where atoms of rings look
alike, the first is singled out, and so on until each has a rank of its own.  Where atoms look alike
that no symmetry exchanges, as in some cages, equal molecules whose atoms come in other orders may
not be found to be equal; different ones never are, since masses and bonds are compared exactly.
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
    O(n log n) a molecule and a round; rounds are as many as the bonds that tell atoms apart are
    far, and more for each symmetric ring.  Molecules that are the same already are looked at once.
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
    size = count * n
    pairs = (bonds + n * np.arange(count)[:, None, None]).reshape(-1, 2)
    core = _core(pairs, size) if bonds.shape[1] >= n else np.zeros(size, dtype=bool)
    rank = _ranked(pairs, masses.ravel(), marks.ravel(), core, n)
    # With atoms renumbered by rank, those of rings first, a walk in the order of the numbers
    # meets atoms that are alike as it pleases, and all others in one order.
    walk = np.lexsort((rank, ~core, np.arange(size) // n))
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


def _core(pairs: Indices, size: int) -> Mask:
    """Atoms on rings or between them: what is left when loose ends are cut off again and again."""
    while True:
        degree = np.bincount(pairs.ravel(), minlength=size)
        inner = (degree[pairs] > 1).all(axis=1)
        if inner.all():
            core: Mask = degree > 0
            return core
        pairs = pairs[inner]


def _ranked(pairs: Indices, masses: Floats, marks: Mask, core: Mask, n: int) -> Indices:
    """Rank atoms by mass, the heaviest first, mark and neighbourhood; of the core, all of them.

    A rank is the number of atoms before; those that look alike share one.  The neighbourhood is the
    sum of random codes of the neighbours' ranks within their molecule.
    """
    size = len(masses)
    graph = _graph(pairs, size).astype(np.uint64)
    codes = np.random.default_rng(0).integers(2**64, size=n, dtype=np.uint64)
    rank = _ranks(marks, -masses, np.arange(size) // n)
    while True:
        before, rank = rank, _ranks(graph @ codes[rank % n], rank)
        if np.array_equal(rank, before):
            twins = np.flatnonzero(core & (np.bincount(rank, minlength=size)[rank] > 1))
            if not twins.size:
                return rank
            apart = np.ones(size, dtype=bool)
            apart[_singled(twins, rank, pairs[core[pairs].all(axis=1)], n)] = False
            rank = _ranks(apart, rank)


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


def _ranks(*keys: npt.NDArray[Any]) -> Indices:
    """Count the entries before each, in the order of the last key and then the others."""
    order = np.lexsort(keys)
    new = np.zeros(len(order), dtype=bool)
    for key in keys:
        new[1:] |= key[order[1:]] != key[order[:-1]]
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    return rank
