"""The hard rows in factor order, and what makes up H^bb = B_b M⁻¹ B_bᵀ (theory.md section 5)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import linalg

from fixman._common.arrays import Array
from fixman.chains.coordinates import GHOSTS, Index, Rows
from fixman.kernels.chain.hard import Hard
from fixman.kernels.chain.rows import LENGTH, SQUARE
from fixman.kernels.factors.sparse import Symbolic, analyse, places


class Slots(NamedTuple):
    """Points of rows that move, row by row.

    Attributes
    ----------
    row, point, bead : (s,)
        The row, which of its four points, and the bead that this is.
    vector, sign : (s,)
        ∂q/∂x of the bead is a sign times a vector: a row that one bond carries has ∂q/∂u alone.
    """

    row: Index
    point: Index
    bead: Index
    vector: Index
    sign: Array


@dataclass(frozen=True, eq=False)
class HardPattern:
    """The hard rows in factor order, and which products make up their H^bb.

    H_ij is a sum over beads that rows i and j share (Lee & Chirikjian 2005, eq. 7): over `pairs` of
    slots.  Pairs with the same two vectors are one product, whose weight is the sum of their ± w.
    ``order`` is the place of each among the hard coordinates in public order.
    """

    rows: Rows
    order: Index

    @cached_property
    def vectors(self) -> Index:
        """Number of the first vector of each row, and of all (m + 1,)."""
        size = self.rows.trait("beads")
        return np.concatenate([[0], np.cumsum(np.where(size == 2, 1, size))])

    @cached_property
    def slots(self) -> Slots:
        """All slots."""
        row, point = np.nonzero(self.rows.columns >= 0)
        bead = self.rows.columns[row, point].astype(np.int64)
        carried = self.rows.trait("beads")[row] == 2  # by one bond
        vector = self.vectors[row] + np.where(carried, 0, point)
        return Slots(row, point, bead, vector, np.where(carried & (point == 0), -1.0, 1.0))

    @cached_property
    def pairs(self) -> tuple[Index, Index]:
        """Pairs of slots (s, t) that move one bead, row of s ≤ row of t; within a row both ways."""
        row, bead = self.slots.row, self.slots.bead
        moves = (np.ones(bead.size, np.int8), (np.arange(bead.size), bead))
        table = sparse.csr_array(moves, shape=(bead.size, self.rows.n))
        s, t = (table @ table.T).tocoo().coords
        ordered = row[s] <= row[t]
        return s[ordered].astype(np.int64), t[ordered].astype(np.int64)

    @cached_property
    def symbolic(self) -> Symbolic:
        """The pattern of the factor of H^bb."""
        s, t = self.pairs
        return analyse(len(self.rows), self.slots.row[t], self.slots.row[s])

    @cached_property
    def places(self) -> Index:
        """Where in the storage of `symbolic` the product of each of `pairs` belongs."""
        s, t = self.pairs
        return places(self.symbolic, self.slots.row[t], self.slots.row[s])

    @cached_property
    def terms(self) -> NDArray[np.int32]:
        """Place of each of `pairs` in order, the two points (4 · row + point), and the bead."""
        flat = 4 * self.slots.row + self.slots.point
        s, t = self.pairs
        order = np.argsort(self.places, kind="stable")
        table = np.stack([self.places, flat[s], flat[t], self.slots.bead[s]], axis=1)
        return table[order].astype(np.int32)

    @cached_property
    def _products(self) -> tuple[Index, Index]:
        """Place and two vectors (…, 3) of each product in H^bb, and for each of `pairs` which."""
        s, t = self.pairs
        keys = np.stack([self.places, self.slots.vector[s], self.slots.vector[t]], axis=1)
        # Both ends of a bond meet in one product.
        products, which = np.unique(keys, axis=0, return_inverse=True)
        return products, which.ravel()

    @cached_property
    def _meets(self) -> tuple[Index, Index, Index]:
        """Ends of the stretches of vectors; places and partners in these, and products."""
        products, _ = self._products
        place, one, other = products.T
        # On the diagonal both orders are there, where two slots of a row share a bead.
        diagonal = np.isin(place, self.symbolic.first[:-1])
        apart = np.flatnonzero((one != other) & ~diagonal)
        product = np.concatenate([np.arange(len(products)), apart])
        owner, partner = np.append(one, other[apart]), np.append(other, one[apart])
        order = np.argsort(owner, kind="stable")
        ends = np.cumsum(np.bincount(owner, minlength=int(self.vectors[-1])))
        return ends, np.stack([place[product], partner], axis=1)[order], product[order]

    def system(self, inverse_masses: Array, *, squares: bool = False) -> Hard:
        """Return what the kernels read; with ``squares`` lengths are held by these."""
        rows, slots = self.rows, self.slots
        products, which = self._products
        ends, meets, pulls = self._meets
        front = GHOSTS if rows.fixed else 0
        # Points that a row does not have are its last one again.
        last = np.minimum(np.arange(4), rows.trait("beads")[:, None] - 1)
        points = np.take_along_axis(rows.beads, last, axis=1)
        kinds = np.where((rows.formulas == LENGTH) & squares, SQUARE, rows.formulas)
        s, t = self.pairs
        share = slots.sign[s] * slots.sign[t] * inverse_masses[slots.bead[s]]
        weights: Array = np.bincount(which, share, len(products)).astype(np.float64)
        return Hard(
            axes=(0,) * rows.dim,
            n=rows.n,
            front=front,
            kinds=kinds.astype(np.int8),
            points=_int32(points - GHOSTS + front),
            vectors=_int32(self.vectors),
            products=_int32(products),
            weights=weights,
            owners=_int32(slots.row),
            movers=_int32(slots.bead + front),
            carriers=_int32(slots.vector),
            signs=slots.sign,
            shares=slots.sign * inverse_masses[slots.bead],
            total=int(self.vectors[-1]),
            ends=_int32(ends),
            meets=_int32(meets),
            pulls=weights[pulls],
            symbolic=self.symbolic,
            public=_int32(self.order),
        )


def _int32(array: Any) -> Any:
    return np.ascontiguousarray(array, dtype=np.int32).reshape(-1)


def outward_pattern(table: Rows, hard: Index) -> HardPattern:
    """Hard rows of a linear chain from base to tip, within a bead torsion, angle, length.

    This is the narrowest band (theory.md section 5).
    """
    rows = table.take(hard)
    order = np.lexsort((-rows.trait("beads"), rows.beads.max(axis=1, initial=0)))
    return HardPattern(rows.take(order), order)


def inward_pattern(table: Rows, hard: Index, rank: Index) -> HardPattern:
    """Rows of a tree from the leaves to the root, which creates no fill (theory.md section 5).

    Those that reach the least far inwards come first, of these those that reach furthest out.
    ``rank (n,)`` numbers the beads from the root outwards.
    """
    columns = table.columns[hard]
    ranks = np.where(columns >= 0, rank[columns], -1)
    innermost = np.where(columns >= 0, ranks, rank.size).min(axis=1)
    order = np.lexsort((-ranks.max(axis=1), -innermost))
    return HardPattern(table.take(hard[order]), order)


def minimum_degree_pattern(table: Rows, hard: Index) -> HardPattern:
    """Any hard rows, those first that touch the fewest others (theory.md section 5)."""
    given = HardPattern(table.take(hard), np.arange(hard.size))
    order = minimum_degree(hard.size, *(given.slots.row[pair] for pair in given.pairs))
    return HardPattern(table.take(hard[order]), order)


def minimum_degree(m: int, i: Index, j: Index) -> Index:
    """Return the order of elimination of m rows, of which i and j touch each other."""
    touching = sparse.coo_array((np.full(i.size, -1.0), (i, j)), shape=(m, m)).tocsc()
    touching = touching + touching.T
    # Any matrix of this pattern will do; a dominant diagonal keeps its factorization plain.
    dominant = 1.0 + abs(touching).sum(axis=0)
    factor = linalg.splu(
        (touching + 2.0 * sparse.diags_array(dominant)).tocsc(),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    return np.argsort(factor.perm_c).astype(np.int64)
