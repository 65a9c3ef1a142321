"""Trees and rings: the references of every bead, closures, and what hard sets mean on a graph.

A chain is a spanning tree with bead 0 as its root, and the bonds that the tree leaves out, its
closures (theory.md sections 1 and 5).  ``parents (n,)`` holds for each bead the bead or base point
it hangs on; ``sequence (n,)`` lists the beads from the root outwards.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from fixman import _arrays, hard_sets
from fixman.coordinates import KINDS, POSITIONS, SLOTS, Coordinate, Index, Rows
from fixman.kernels.rows import ANGLE, LENGTH, TORSION

Mask = NDArray[np.bool_]


# --- graphs -------------------------------------------------------------------------------------


def spanning_tree(n: int, bonds: ArrayLike) -> tuple[Index, Index]:
    """Parents of a breadth-first tree from bead 0, and the bonds it leaves out (closures, 2)."""
    pairs = np.unique(np.sort(pairs_of(bonds, "bonds"), axis=1), axis=0)
    if pairs.size and (pairs[0, 0] < 0 or pairs.max() >= n):
        k = int(np.argmax(((pairs < 0) | (pairs >= n)).any(axis=1)))
        i, j = map(int, pairs[k])
        raise ValueError(f"bond ({i}, {j}) names a bead that is not among 0 to {n - 1}")
    own = pairs[:, 0] == pairs[:, 1]
    if own.any():
        k = int(pairs[np.argmax(own), 0])
        raise ValueError(f"bond ({k}, {k}) joins bead {k} to itself")
    graph = _graph(n, pairs)
    pieces, label = csgraph.connected_components(graph, directed=False)
    if pieces > 1:
        sizes = np.bincount(label)
        listed = ", ".join(str(size) for size in sizes[:5]) + (", …" if pieces > 5 else "")
        away = int(np.argmax(label != label[0]))
        raise ValueError(
            f"the bonds leave {pieces} components of {listed} beads (bead {away} is not connected "
            "to bead 0): make one chain of each"
        )
    _, before = csgraph.breadth_first_order(graph, 0, directed=False)
    parents = before.astype(np.int64)
    parents[0] = -1
    in_tree = (parents[pairs[:, 0]] == pairs[:, 1]) | (parents[pairs[:, 1]] == pairs[:, 0])
    closures: Index = pairs[~in_tree]
    return parents, closures


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
        raise ValueError(
            f"parents[{k}] is {array[k]}: a parent comes before its children, 0 to {k - 1}; "
            "Chain.from_bonds takes beads in any order"
        )
    return array


def outwards(parents: Index) -> Index:
    """Beads from the root outwards: in their own order where that will do, else by breadth."""
    n = parents.size
    if (parents < np.arange(n)).all():
        return np.arange(n)
    bonds = np.stack([parents[1:], np.arange(1, n)], axis=1)
    order = csgraph.breadth_first_order(_graph(n, bonds), 0, False, return_predecessors=False)
    if order.size < n:
        raise ValueError("the parents do not make one tree")
    return np.asarray(order, dtype=np.int64)


def by_level(references: Index, sequence: Index) -> Index:
    """Rank of each bead by its distance from the root, behind all of its references.

    Unlike ``sequence``, which may run down one branch first, this keeps neighbours together.
    """
    level = [0] * len(references)
    table = references.tolist()
    for k in sequence.tolist():
        parent, *others = table[k]
        if parent >= 0:
            level[k] = max(level[parent] + 1, *(level[j] for j in others if j >= 0), 0)
    order = np.lexsort((np.argsort(sequence), np.array(level)))
    rank: Index = np.argsort(order)
    return rank


def _graph(n: int, bonds: Index) -> sparse.csr_array[Any, Any]:
    ones = np.ones(len(bonds), dtype=np.int8)
    return sparse.csr_array((ones, (bonds[:, 0], bonds[:, 1])), shape=(n, n))


def references(parents: Index, dim: int, fixed: bool) -> Index:
    """Parent, angle reference and torsion reference (n, dim) of every bead of a tree.

    The rules are those of theory.md section 1.  Ghosts are −1, −2, −3; a free chain has no −1.
    """
    n = parents.size
    sequence = outwards(parents)
    rank = np.argsort(sequence)
    # Ancestors of ancestors: the ghosts stand in a line before the root.
    line = np.concatenate([parents, [-4, -3, -2]])
    angle = line[parents]
    if fixed:
        torsion = line[angle]
    else:
        inner = sequence[parents[sequence] == 0]  # the root's children
        first = int(inner[0]) if inner.size else -1
        angle[inner[:1]], angle[inner[1:]] = -2, first
        torsion = np.where(angle >= 0, line[angle], -3)
        # Where the angle reference is the root, its first other child serves; where it is the
        # root's first child, that one's first child does; where it comes later, a ghost.
        about_root = (angle == 0) & (parents >= 0)
        other = np.full(n, first)
        other[parents == first] = inner[1] if inner.size > 1 else -2
        after = sequence[parents[sequence] == first]
        other[inner[1:]] = after[0] if after.size else -2
        use = about_root.copy()
        use[inner[1:]] = True
        later = other >= 0
        later[later] = rank[other[later]] > rank[np.flatnonzero(later)]
        torsion[use] = np.where(later, -2, other)[use]
    if n > 1:  # the earliest sibling with the same angle reference comes before all these
        by_rank = np.lexsort((rank, angle, parents))
        same = np.ones(n, dtype=bool)
        same[1:] = (np.diff(parents[by_rank]) != 0) | (np.diff(angle[by_rank]) != 0)
        leader = by_rank[np.maximum.accumulate(np.where(same, np.arange(n), 0))]
        follows = ~same
        torsion[by_rank[follows]] = leader[follows]
    table = np.stack([parents, angle, torsion], axis=1)[:, :dim].copy()
    if not fixed:
        table[0] = np.arange(-1, -dim - 1, -1)
    return table


def common_ancestor(beads: Sequence[int], parents: Index, rank: Index) -> tuple[int, list[int]]:
    """Return the lowest common ancestor of some beads, and the beads on the paths below it."""
    paths = []
    top = beads[0]
    for bead in beads[1:]:
        one, two = top, bead
        while one != two:
            # Whatever hangs lower climbs; ghosts hang above every bead.
            if one >= 0 and (two < 0 or rank[one] > rank[two]):
                paths.append(one)
                one = int(parents[one])
            elif two >= 0:
                paths.append(two)
                two = int(parents[two])
            else:
                one = two = -1
        top = one
    return top, paths


# --- hard sets ----------------------------------------------------------------------------------


def closing_rows(
    closures: Index, parents: Index, hard: Any, hydrogens: Mask | None
) -> tuple[Coordinate, ...]:
    """Rows of the bonds outside the tree, where such rows are hard.

    With the angles at both ends, between the closure and the bond inwards, a bead of degree k has
    k − 1 hard angles wherever the closure is.
    """
    if not len(closures):
        return ()
    if hydrogens is not None:
        held = closures[hydrogens[closures].any(axis=1)]
        return tuple(Coordinate("length", (i, j)) for i, j in held.tolist())
    kinds = set(hard) if _names_kinds(hard) else {"length"}
    rows = [Coordinate("length", (i, j)) for i, j in closures.tolist() if "length" in kinds]
    if "angle" in kinds:
        children = np.full(parents.size, -1)
        children[parents[:0:-1]] = np.arange(parents.size - 1, 0, -1)  # the first of each
        inner = np.where(parents >= 0, parents, children)
        for pair in closures.tolist():
            for vertex, end in (pair, pair[::-1]):
                rows.append(Coordinate("angle", (int(inner[vertex]), vertex, end)))
    return tuple(rows)


def _names_kinds(hard: Any) -> bool:
    """Whether ``hard`` lists kinds; a mask is none, and anything wrong is refused elsewhere."""
    if isinstance(hard, str) or not isinstance(hard, Iterable):
        return False
    return all(isinstance(kind, str) for kind in hard)


def extra_rows(extra: Iterable[Any], n: int, dim: int, fixed: bool) -> tuple[Coordinate, ...]:
    """Check further hard rows, given as `Coordinate` or (kind, beads)."""
    if isinstance(extra, str) or not isinstance(extra, Iterable):
        raise TypeError(f"extra must be a list of coordinates, got {extra!r:.80}")
    rows = []
    for item in extra:
        try:
            kind, beads = item
            beads = tuple(operator.index(bead) for bead in beads)
        except (TypeError, ValueError):
            raise ValueError(
                f"extra rows are Coordinate('angle', (0, 1, 2)) and the like, got {item!r:.80}"
            ) from None
        if (
            not isinstance(kind, str)
            or kind not in KINDS[POSITIONS:]
            or (kind == "torsion" and dim == 2)
        ):
            raise ValueError(
                f"extra rows are of kind {KINDS[POSITIONS : POSITIONS + dim]} in {dim}-D, "
                f"got {kind!r}"
            )
        row = Coordinate(kind, beads)
        if len(set(beads)) != len(beads) or len(beads) != SLOTS[KINDS.index(kind)]:
            raise ValueError(f"{row}: a {kind} has {SLOTS[KINDS.index(kind)]} different beads")
        lowest = -dim if fixed else 0
        if min(beads) < lowest or max(beads) >= n or max(beads) < 0:
            ghosts = "" if fixed else " (a free chain has no base point to be held to)"
            raise ValueError(f"{row} names a bead that is not among {lowest} to {n - 1}{ghosts}")
        rows.append(row)
    return tuple(rows)


def torsional(table: Rows, tree: Index, closures: Index, rotatable: ArrayLike | None) -> Mask:
    """Every length and angle, and every torsion but one about each rotatable bond.

    By default a bond is rotatable if it is neither in a ring nor terminal.  The torsions of
    siblings, from one branch to the next, place branches side by side and stay hard.
    """
    n, dim = tree.shape
    if dim == 2:
        raise ValueError("hard='torsional' needs dim=3: there are no torsions in the plane")
    parents = tree[:, 0]
    free = np.zeros(n, dtype=bool)  # bond of each bead to its parent
    if rotatable is None:
        degree = np.bincount(parents[1:], minlength=n) + (parents >= (-1 if table.fixed else 0))
        np.add.at(degree, closures.ravel(), 1)
        free[:] = degree > 1
        inner = parents >= 0
        free[inner] &= degree[parents[inner]] > 1
        free[0] &= table.fixed
        free[_in_rings(parents, closures)] = False
    else:
        lowest = -1 if table.fixed else 0
        for i, j in pairs_of(rotatable, "rotatable").tolist():
            if 0 <= i < n and lowest <= j == parents[i]:
                free[i] = True
            elif 0 <= j < n and lowest <= i == parents[j]:
                free[j] = True
            else:
                raise ValueError(
                    f"rotatable names ({i}, {j}), which is no bond of the tree of this chain"
                )
    parent, angle, torsion = tree.T
    # The axis of a torsion is the bond from the angle reference to the parent, whichever of the
    # two hangs on the other.
    up = np.where(parent >= 0, parents[parent], -2) == angle
    axis = np.where(up, parent, angle)
    turns = np.where(axis >= 0, free[axis], False)
    beyond = np.where(torsion >= 0, torsion, 0)
    sibling = (torsion >= 0) & (parent[beyond] == parent) & (angle[beyond] == angle)
    mask = np.isin(table.kinds, (LENGTH, ANGLE))
    chart = np.flatnonzero(table.kinds[: n * dim] == TORSION)
    bead = chart // dim
    mask[chart] = ~turns[bead] | sibling[bead]
    mask[n * dim :] = True
    return mask if table.fixed else mask & ~table.external


def _in_rings(parents: Index, closures: Index) -> Index:
    """Beads whose bond to their parent lies on a ring."""
    if not len(closures):
        return np.empty(0, dtype=np.int64)
    rank = np.argsort(outwards(parents))
    beads: set[int] = set()
    for pair in closures.tolist():
        beads.update(common_ancestor(pair, parents, rank)[1])
    return np.array(sorted(beads), dtype=np.int64)


def hard_mask(hard: Sequence[str] | ArrayLike, table: Rows, chart: int) -> Mask:
    """Resolve kinds, or a mask over the coordinates; rows beyond the ``chart`` are hard anyway."""
    hard = hard_sets.named(hard)
    if isinstance(hard, str):
        raise ValueError(f"hard={hard!r} needs bonds: a word for molecules is no set of kinds")
    if np.ma.isMaskedArray(hard):
        raise TypeError("hard must be a plain array of booleans, not a masked one")
    if hard is None:
        raise ValueError("hard is None: give a tuple of kinds, () for no constraint at all")
    external = np.zeros(len(table), dtype=bool) if table.fixed else table.external
    try:
        listed = np.asarray(hard)
    except ValueError:  # ragged
        listed = np.empty((1, 1))
    if listed.dtype == bool:
        if listed.shape not in ((len(table),), (chart,)):
            raise ValueError(
                f"a hard mask needs one entry per coordinate, ({len(table)},), got {listed.shape}"
            )
        if not listed[chart:].all():
            row = chart + int(np.argmin(listed[chart:]))
            raise ValueError(f"{table[row]} is a closure or an extra row: these are always hard")
        if (listed & external[: listed.size]).any():
            row = int(np.argmax(listed & external[: listed.size]))
            raise ValueError(
                f"{table[row]} cannot be hard: it places the free chain in space; fix the base"
            )
        mask = np.ones(len(table), dtype=bool)
        mask[:chart] = listed[:chart]
        return mask
    if listed.size and (listed.dtype.kind != "U" or listed.ndim != 1):
        raise ValueError(
            f"hard must be words or a mask of booleans, got {hard!r:.80}: {hard_sets.choices()}"
        )
    kinds = listed.tolist()
    for kind in kinds:
        if kind == "torsion" and table.dim == 2:
            raise ValueError("there are no torsions in the plane: dim=2 has lengths and angles")
    mask = np.isin(table.kinds, [KINDS.index(kind) for kind in kinds]) & ~external
    mask[chart:] = True
    return np.asarray(mask, dtype=bool)


def integers(value: ArrayLike, name: str) -> Index:
    """Coerce to an array of integers."""
    _arrays.refuse_units(value, name)
    if np.ma.isMaskedArray(value) and np.ma.getmaskarray(value).any():
        raise TypeError(f"{name} has masked values: leave these out")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of integers: {error}") from None
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if array.size and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} has {array.max()}, which is no number of a bead")
    return array.astype(np.int64)


def pairs_of(value: ArrayLike, name: str) -> Index:
    """Coerce to pairs of beads (pairs, 2); an empty list has none."""
    array = integers(value, name)
    if array.ndim == 1 and not array.size:
        return array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise ValueError(f"{name} must be pairs of beads ({name}, 2), got shape {array.shape}")
    return array
