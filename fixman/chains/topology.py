"""Graphs of bonds: trees and rings, the references of every bead, neighbours, closures.

A chain is a spanning tree with bead 0 as its root, and the bonds that the tree leaves out, its
closures (theory.md sections 1 and 5).  ``parents (n,)`` are the bead or base point of each bead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.coordinates import Coordinate, Index

Beads = Iterator[int]

SMALL = 8  # bonds of the largest ring that is stiff


def spanning_tree(n: int, bonds: ArrayLike) -> tuple[Index, Index]:
    """Parents of a breadth-first tree from bead 0, and the bonds it leaves out (closures, 2)."""
    pairs = np.unique(np.sort(pairs_of(bonds, "bonds"), axis=1), axis=0)
    wrong = ((pairs < 0) | (pairs >= n)).any(axis=1) | (pairs[:, 0] == pairs[:, 1])
    for i, j in pairs[wrong].tolist():
        why = "joins a bead to itself" if i == j else f"names a bead that is not among 0 to {n - 1}"
        raise ValueError(f"bond ({i}, {j}) {why}")
    joined = graph(n, pairs)
    pieces, label = csgraph.connected_components(joined, directed=False)
    if pieces > 1:
        sizes = np.bincount(label)
        listed = ", ".join(str(size) for size in sizes[:5]) + (", …" if pieces > 5 else "")
        away = int(np.argmax(label != label[0]))
        said = f"the bonds leave {pieces} components of {listed} beads"
        raise ValueError(f"{said} (bead {away} is not connected to bead 0): make one chain of each")
    _, before = csgraph.breadth_first_order(joined, 0, directed=False)
    parents = before.astype(np.int64)
    parents[0] = -1
    in_tree = (parents[pairs[:, 0]] == pairs[:, 1]) | (parents[pairs[:, 1]] == pairs[:, 0])
    return parents, pairs[~in_tree]


def tree(parents: ArrayLike) -> Index:
    """Check the parents of a branched chain: parents[0] = −1, parents[k] < k."""
    array = integers(parents, "parents")
    if array.ndim != 1 or not array.size:
        raise ValueError(f"parents must have shape (n,), got {array.shape}")
    if array[0] != -1:
        raise ValueError(f"parents[0] must be -1, the root's, got {array[0]}")
    bad = (array[1:] < 0) | (array[1:] >= np.arange(1, array.size))
    if bad.any():
        k = int(np.argmax(bad)) + 1
        said = f"parents[{k}] is {array[k]}: a parent comes before its children, 0 to {k - 1}"
        raise ValueError(f"{said}; Chain.from_bonds takes any order")
    return array


def outwards(parents: Index) -> Index:
    """Beads from the root outwards: in their own order where that will do, else by breadth."""
    n = parents.size
    if (parents < np.arange(n)).all():
        return np.arange(n)
    bonds = np.stack([parents[1:], np.arange(1, n)], axis=1)
    order = csgraph.breadth_first_order(graph(n, bonds), 0, False, return_predecessors=False)
    if order.size < n:
        raise ValueError("the parents do not make one tree")
    return np.asarray(order, dtype=np.int64)


def graph(n: int, bonds: NDArray[np.integer[Any]]) -> sparse.csr_array[Any, Any]:
    """Sparse matrix (n, n) with a 1 for each bond, one way."""
    ones = np.ones(len(bonds), dtype=np.int8)
    return sparse.csr_array((ones, (bonds[:, 0], bonds[:, 1])), shape=(n, n))


def references(parents: Index, dim: int, fixed: bool) -> Index:
    """Parent, angle and torsion reference (n, dim) of each bead of a tree (theory.md section 1)."""
    n = parents.size
    sequence = outwards(parents)
    rank = np.argsort(sequence)
    inner = sequence[parents[sequence] == 0]  # the root's children
    first = int(inner[0]) if inner.size else -1
    # Ancestors of ancestors: the ghosts −1, −2 and −3 stand in a line before the root.
    line = np.append(parents, [-3, -2])
    angle = line[parents]
    if not fixed:
        angle[inner[:1]], angle[inner[1:]] = -2, first
    torsion = line[angle]
    if not fixed:
        # Where the angle reference is the root, its first other child serves; where it is the
        # root's first child, that one's first child does; where it comes later, a ghost.
        use = (angle == 0) & (parents >= 0)
        other = np.full(n, first)
        other[parents == first] = inner[1] if inner.size > 1 else -2
        after = sequence[parents[sequence] == first]
        other[inner[1:]] = after[0] if after.size else -2
        use[inner[1:]] = True
        later = other >= 0
        later[later] = rank[other[later]] > rank[np.flatnonzero(later)]
        torsion[use] = np.where(later, -2, other)[use]
    # The earliest sibling with the same angle reference comes before all these.
    siblings = (parents * (n + 3) + angle)[sequence]
    _, earliest, group = np.unique(siblings, return_index=True, return_inverse=True)
    leader = sequence[earliest[group]]
    follows = leader != sequence
    torsion[sequence[follows]] = leader[follows]
    table = np.stack([parents, angle, torsion], axis=1)[:, :dim].copy()
    if not fixed:
        table[0] = np.arange(-1, -dim - 1, -1)
    return table


def bonds(parents: Index, closures: Index) -> Index:
    """Pairs of bonded beads (bonds, 2): those of the tree, outer bead last, then the closures."""
    beads = np.flatnonzero(parents >= 0)
    return np.concatenate([np.stack([parents[beads], beads], axis=1), closures])


def sum_outwards(parents: Index, steps: Array) -> Array:
    """Sum steps (..., n, dim) from the root (parent −1) of a tree to every bead, itself included.

    By doubling: each pass adds what is gathered at an ancestor twice as far away, so the number of
    passes is the logarithm of the depth. One after the other, where the beads are a chain.
    """
    if np.array_equal(parents, np.arange(-1, len(parents) - 1)):
        return np.cumsum(steps, axis=-2)
    total, above = steps.copy(), parents.copy()
    while (moved := np.flatnonzero(above >= 0)).size:
        total[..., moved, :] += total[..., above[moved], :]
        above[moved] = above[above[moved]]
    return total


def closures(parents: Index, rows: Iterable[Coordinate]) -> Index:
    """Bonds (closures, 2) among some rows that the tree has not: lengths that close rings."""
    pairs = dict.fromkeys(tuple(sorted(row.beads)) for row in rows if row.kind == "length")
    found = [(i, j) for i, j in pairs if i >= 0 and parents[i] != j and parents[j] != i]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def loose(parents: Index, closures: Index, turning: Index) -> Index:
    """Those closures whose ends are not in one rigid part of a tree, given which bonds turn."""
    stiff = parents >= 0  # bond of each bead to its parent
    stiff[turning[parents[turning[:, 1]] == turning[:, 0], 1]] = False
    beads = np.flatnonzero(stiff)
    joined = graph(parents.size, np.stack([parents[beads], beads], axis=1))
    label = csgraph.connected_components(joined, directed=False)[1]
    return np.asarray(closures[label[closures[:, 0]] != label[closures[:, 1]]])


def ring_bonds(parents: Index, closures: Index) -> tuple[Index, NDArray[np.bool_]]:
    """Bonds (bonds, 2) that lie on rings, closures last, and which lie on one of up to `SMALL`."""
    rank = np.argsort(outwards(parents))
    around = {bead for i, j in closures.tolist() for bead in way(i, j, parents, rank)}
    beads = np.array(sorted(around), dtype=np.int64)
    found = np.concatenate([np.stack([parents[beads], beads], axis=1), closures])
    near = neighbours(found)
    return found, np.array([_comes_back(near, i, j) for i, j in found.tolist()], dtype=bool)


def _comes_back(near: dict[int, list[int]], i: int, j: int) -> bool:
    """Whether j can be reached from i without their bond in less than `SMALL` bonds."""
    seen, edge = {i}, {i}
    for depth in range(SMALL - 1):
        edge = {k for one in edge for k in near[one] if depth or k != j} - seen
        if j in edge:
            return True
        seen |= edge
    return False


def neighbours(bonds: Index) -> dict[int, list[int]]:
    """Beads that each bead is bonded to."""
    near: dict[int, list[int]] = {}
    for i, j in bonds.tolist():
        near.setdefault(i, []).append(j)
        near.setdefault(j, []).append(i)
    return near


def way(one: int, two: int, parents: Sequence[int] | Index, rank: Sequence[int] | Index) -> Beads:
    """Beads whose bonds to their parents lead from one bead of a tree to another."""
    while one != two:  # whichever hangs lower climbs, up to where both branches meet
        if rank[one] < rank[two]:
            one, two = two, one
        yield one
        one = int(parents[one])


def near(n: int, bonds: Index, most: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Pairs i < j of beads joined by up to so many bonds, as rows of a sparse matrix."""
    step = graph(n, bonds).astype(np.float64)
    step = step + step.T + sparse.eye_array(n, format="csr")
    reached = sparse.eye_array(n, format="csr")
    for _ in range(most):
        before = reached.nnz
        reached = reached @ step
        reached.data[:] = 1.0
        if reached.nnz == before:
            break
    above = sparse.triu(reached, 1, format="csr")
    above.sort_indices()
    return above.indptr.astype(np.int32), above.indices.astype(np.int32)


def along(terms: Index, bonds: Index) -> NDArray[np.bool_]:
    """Which terms (m, k) lead from bead to bead by bonds; no bond leads to a ghost."""
    steps = np.sort(np.stack([terms[:, :-1], terms[:, 1:]], axis=-1), axis=-1)
    base = max(terms.max(initial=0), bonds.max(initial=0)) + 1
    joined = np.isin(steps @ [base, 1], np.sort(bonds, axis=1) @ [base, 1])
    return np.asarray((joined & (steps[..., 0] >= 0)).all(axis=1))


def inwards(parents: Index) -> Index:
    """Return where each bead's bond inwards leads: to its parent, or the root's first child."""
    first = np.flatnonzero(parents == 0)[:1]
    return np.where(parents >= 0, parents, first if first.size else -1)


def closing_angles(parents: Index, closures: Index) -> list[tuple[int, int, int]]:
    """Two angles at each closure (i, j): from the bond inwards at i, then at j."""
    inner = inwards(parents)
    ends = [end for i, j in closures.tolist() for end in ((i, j), (j, i))]
    return [(int(inner[vertex]), vertex, end) for vertex, end in ends]


def closing_torsions(
    parents: Index, closures: Index, fixed: bool
) -> list[tuple[int, int, int, int]]:
    """Torsions about each closure and the bonds inwards at its ends; −1 where there is no bead."""
    angles, terms = closing_angles(parents, closures), []
    for (a, i, j), (b, *_) in zip(angles[::2], angles[1::2], strict=True):
        before, after = (_before(parents, fixed, *bond) for bond in ((a, i), (b, j)))
        terms += [(a, i, j, b), (before, a, i, j), (after, b, j, i)]
    return terms


def _before(parents: Index, fixed: bool, inner: int, bead: int) -> int:
    """Return what the chart would have before the bond from ``inner`` to a bead; −1: nothing."""
    if parents[inner] != bead and (parents[inner] >= 0 or fixed):
        return int(parents[inner])
    others = np.flatnonzero(parents == inner)
    return int(next(iter(others[others != bead]), -1))


def integers(value: ArrayLike, name: str) -> Index:
    """Coerce to an array of integers."""
    array = arrays.taken(value, name)
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} has {array.max()}, which is not the number of a bead")
    return array.astype(np.int64)


def pairs_of(value: ArrayLike, name: str) -> Index:
    """Coerce to pairs of beads (pairs, 2); an empty list has none."""
    array = integers(value, name)
    if array.ndim == 1 and not array.size:
        return array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"{name} must be pairs of beads ({name}, 2), got shape {array.shape}")
    return array
