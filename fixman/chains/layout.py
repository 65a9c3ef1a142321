"""Tables of a chain that do not depend on positions, each made once, for kernels to read.

`Layout` has all of them; `HardPattern` the hard rows in factor order, and what makes up
H^bb = B_b M⁻¹ B_bᵀ (theory.md section 5).
"""

from __future__ import annotations

from collections import namedtuple
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse import linalg

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import coordinates, topology
from fixman.chains.coordinates import GHOSTS, Index, Rows
from fixman.errors import FrameError, SingularConstraintError, SingularCoordinateError
from fixman.kernels.chain import charts
from fixman.kernels.chain.hard import Hard, units
from fixman.kernels.chain.rows import LENGTH, SQUARE
from fixman.kernels.factors.sparse import Symbolic, analyse, places

if TYPE_CHECKING:
    from fixman.chains.chain import Chain

Refusal = type[FrameError]


class Slots(namedtuple("Slots", "row point bead vector sign")):
    """Points of rows that move, row by row: (s,) each.

    ∂q/∂x of the bead is a sign times a vector: a row that one bond carries has ∂q/∂u alone.
    """


@dataclass(frozen=True, eq=False)
class HardPattern:
    """The hard rows in factor order, and which products make up their H^bb.

    H_ij is a sum over beads that rows i and j share (Lee & Chirikjian 2005, eq. 7): over `pairs` of
    slots.  Pairs with the same two vectors are one product, whose weight is the sum of their ± w.
    ``order (m,)`` are places in public order.
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
        s, t = self.pairs
        return analyse(len(self.rows), self.slots.row[t], self.slots.row[s])

    @cached_property
    def places(self) -> Index:
        """Where in the storage of `symbolic` the product of each of `pairs` belongs."""
        s, t = self.pairs
        return places(self.symbolic, self.slots.row[t], self.slots.row[s])

    @cached_property
    def _products(self) -> tuple[Index, Index]:
        """Place and two vectors (…, 3) of each product in H^bb, and for each of `pairs` which."""
        s, t = self.pairs
        keys = np.stack([self.places, self.slots.vector[s], self.slots.vector[t]], axis=1)
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
        kinds = np.where((rows.formulas == LENGTH) & squares, SQUARE, rows.formulas)
        s, t = self.pairs
        share = slots.sign[s] * slots.sign[t] * inverse_masses[slots.bead[s]]
        weights: Array = np.bincount(which, share, len(products)).astype(np.float64)
        return Hard(
            axes=(0,) * rows.dim,
            n=rows.n,
            front=front,
            kinds=kinds.astype(np.int8),
            points=int32(rows.beads - GHOSTS + front),
            vectors=int32(self.vectors),
            products=int32(products),
            weights=weights,
            owners=int32(slots.row),
            movers=int32(slots.bead + front),
            carriers=int32(slots.vector),
            signs=slots.sign,
            shares=slots.sign * inverse_masses[slots.bead],
            number=int(self.vectors[-1]),
            ends=int32(ends),
            meets=int32(meets),
            pulls=weights[pulls],
            symbolic=self.symbolic,
            public=int32(self.order),
        )


def int32(array: Any) -> Any:
    """Return a flat table for kernels."""
    return np.ascontiguousarray(array, dtype=np.int32).reshape(-1)


def minimum_degree_pattern(table: Rows, hard: Index) -> HardPattern:
    """Any hard rows, those first that touch the fewest others (theory.md section 5)."""
    given = HardPattern(table.take(hard), np.arange(hard.size))
    order = minimum_degree(hard.size, *(given.slots.row[pair] for pair in given.pairs))
    return HardPattern(table.take(hard[order]), order)


def minimum_degree(m: int, i: Index, j: Index) -> Index:
    """Return the order of elimination of m rows, of which i and j touch each other."""
    touching = sparse.coo_array((np.full(i.size, -1.0), (i, j)), shape=(m, m))
    touching = touching + touching.T
    # Any matrix of this pattern will do; a dominant diagonal keeps its factorization plain.
    dominant = 1.0 + abs(touching).sum(axis=0)
    factor = symmetric_lu(touching + 2.0 * sparse.diags_array(dominant))
    return np.argsort(factor.perm_c).astype(np.int64)


def symmetric_lu(matrix: Any, order: str = "MMD_AT_PLUS_A") -> Any:
    """Factor a symmetric positive definite matrix by SciPy, pivots on the diagonal."""
    options: Any = {"permc_spec": order, "options": {"SymmetricMode": True}}
    return linalg.splu(matrix.tocsc(), diag_pivot_thresh=0.0, **options)


class Layout:
    """Tables of rows, pattern and order of a chain, for the library's own rooms."""

    def __init__(self, chain: Chain) -> None:
        self.n, self.dim = chain.references.shape
        self.fixed = chain.base == "fixed"
        self.masses, self.references, self.extra = chain.masses, chain.references, chain.extra
        self.hard_mask, self.closing = chain.hard_mask, chain.closing
        self.inverse_masses = 1.0 / chain.masses
        self.soft, self.hard = np.flatnonzero(~chain.hard_mask), np.flatnonzero(chain.hard_mask)
        self.soft.flags.writeable = self.hard.flags.writeable = False

    @cached_property
    def rows(self) -> Rows:
        return coordinates.chart(self.references, self.extra, self.fixed)

    @cached_property
    def chart(self) -> Rows:
        return self.rows.take(np.arange(self.n * self.dim))

    @cached_property
    def soft_rows(self) -> Rows:
        return self.rows.take(self.soft)

    @cached_property
    def hard_rows(self) -> Rows:
        """Hard coordinates in public order; `pattern` has them in that of the factor."""
        return self.rows.take(self.hard)

    @cached_property
    def outwards(self) -> Index:
        return topology.outwards(self.references[:, 0].copy())

    @cached_property
    def hinges(self) -> tuple[Index, Index, Array, Index]:
        """Parents, beads whose bonds are axes of these beads, signs, and starts of torsions.

        An axis runs along that bond, or against it (−1) for a bead that hangs on the root of a
        free chain beside its first child.  A torsion starts from a bead with the same axis, or (−1)
        from the bond before the axis.
        """
        parent, angle = self.references[:, :2].T
        against = (parent == 0) & (angle >= 0) & (not self.fixed)
        host, sign = np.where(against, angle, parent), np.where(against, -1.0, 1.0)
        torsion = self.references[:, 2] if self.dim == 3 else np.full(self.n, -1)
        one, two = self.references[np.maximum(torsion, 0), :2].T
        alike = ((one == parent) & (two == angle)) | ((one == angle) & (two == parent))
        return parent.copy(), host, sign, np.where(alike & (torsion >= 0), torsion, -1)

    @cached_property
    def has_ends(self) -> bool:
        """Whether the beads are bonded in a line."""
        parents = self.references[:, 0]
        closed = self.closing or topology.closures(parents, self.extra).size > 0
        return not closed and np.array_equal(parents, np.arange(-1, self.n - 1))

    @cached_property
    def linear(self) -> bool:
        return not self.extra and self.has_ends

    @cached_property
    def pattern(self) -> HardPattern:
        if self.extra:
            return minimum_degree_pattern(self.rows, self.hard)
        rows = self.hard_rows
        if self.linear:  # the narrowest band: from base to tip, of a bead torsion, angle, length
            order = np.lexsort((-rows.trait("beads"), rows.beads.max(axis=1, initial=0)))
        else:  # no fill: first what reaches the least far inwards, of these the furthest out
            rank = np.append(np.argsort(self.outwards), -1)[rows.columns]
            innermost = np.where(rank >= 0, rank, self.n).min(axis=1)
            order = np.lexsort((-rank.max(axis=1), -innermost))
        return HardPattern(rows.take(order), order)

    @cached_property
    def system(self) -> Hard:
        return self.pattern.system(self.inverse_masses)

    @cached_property
    def squares(self) -> Hard:
        """The hard rows likewise, lengths by their squares."""
        return self.pattern.system(self.inverse_masses, squares=True)

    @cached_property
    def units(self) -> tuple[int, int]:
        """Units of memory for the factor of H^bb, and for the Fixman force as well."""
        return units(self.system), units(self.system, force=True)

    @cached_property
    def links(self) -> Array:
        """Inverse masses and masses (2, bonds + 1) of the joints, the base point included.

        Empty, (2, 0), unless the hard rows are exactly the bonds of a linear chain.
        """
        bonds = self.rows.kinds == LENGTH
        if not (self.linear and bonds.any() and np.array_equal(self.hard_mask, bonds)):
            return np.empty((2, 0))
        return np.pad([self.inverse_masses, self.masses], ((0, 0), (int(self.fixed), 0)))

    @cached_property
    def sizes(self) -> tuple[int, int, Array, int, int]:
        """n, dim, `links`, and how many coordinates are hard and soft."""
        return self.n, self.dim, self.links, self.hard.size, self.soft.size

    def values(self, table: Rows, x: ArrayLike, error: Refusal = SingularCoordinateError) -> Array:
        """Values (..., len(table)) of some coordinates of configurations x (..., n, dim)."""
        x = arrays.real(x, (self.n, self.dim), "x")
        q, bad = table.values(x)
        if bad >= 0:
            bent = table.take(np.flatnonzero(~table.trait("everywhere")))
            self.refuse(bent, x, bad, "internal coordinates", error)
        return q.reshape(*x.shape[:-2], len(table))

    def gradients(self, table: Rows, x: Array, error: Refusal = SingularCoordinateError) -> Array:
        """Wilson rows (len(table), 4, 3) of some coordinates of one configuration x (n, dim)."""
        gradients, exist = table.gradients(x)
        if not exist.all():
            self.refuse(table, x, 0, "Wilson rows", error)
        return gradients

    def rates(self, table: Rows, x: Array, v: Array, motion: Array | None, what: str) -> Array:
        """κ (frames, len(table)) of some coordinates, or q̈ given the rows of a ``motion``."""
        out = np.empty((x.size // (self.n * self.dim), len(table)))
        flat = x.reshape(-1), v.reshape(-1), None if motion is None else motion.reshape(-1)
        bad = charts.rate_frames(*flat, self.n, self.dim, self.fixed, table.tables, out)
        if bad >= 0:
            arrays.require_finite(v, (self.n, self.dim), "v")
            self.refuse(table, x, bad, what)
        return out

    def cartesian(self, q: Array, rates: Array | None = None) -> tuple[Array, Array]:
        """Positions and velocities (frames, n, dim) from q and rates (frames, n·d)."""
        x = np.empty((len(q), self.n, self.dim))
        v = np.empty((0 if rates is None else len(q), self.n, self.dim))
        shape = self.n, self.dim, self.fixed
        charts.cartesian_frames(q, rates, shape, self.hinges, self.outwards, x.ravel(), v.ravel())
        if not (np.isfinite(x).all() and np.isfinite(v).all()):
            raise ValueError("positions overflowed: lengths or rates are too large")
        return x, v

    def refuse_positions(self, x: Array, frame: int) -> None:
        """Raise if positions are not finite, or bonded beads coincide in a frame."""
        arrays.require_finite(x, (self.n, self.dim), "x")
        self.pattern.rows.refuse_lengths(x, frame, SingularConstraintError)
        self.soft_rows.refuse_lengths(x, frame, SingularCoordinateError)

    def refuse(
        self, table: Rows, x: Array, frame: int, what: str, error: Refusal = SingularCoordinateError
    ) -> NoReturn:
        """Say why there is no answer in a frame: positions, rows without a gradient, overflow."""
        self.refuse_positions(x, frame)
        table.refuse_singular(x, frame, error)
        raise arrays.overflow(what, frame, x.shape[:-2])

    def refuse_extra(self, what: str) -> None:
        """Raise if there are more coordinates than degrees of freedom."""
        if self.extra:
            raise ValueError(f"{what} is not defined with closures or extra rows")
