"""Tables of a chain that do not depend on positions, each made once, for kernels to read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import coordinates, pattern, topology
from fixman.chains.coordinates import Coordinate, Index, Rows
from fixman.chains.pattern import HardPattern
from fixman.errors import FrameError, SingularConstraintError, SingularCoordinateError
from fixman.kernels.chain import charts
from fixman.kernels.chain.hard import Hard, units
from fixman.kernels.chain.rows import LENGTH


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """Tables of rows, pattern and order of a chain, for the library's own rooms.

    The attributes are those of the `Chain`; ``fixed`` says whether its base is.
    """

    masses: Array
    references: Index
    extra: tuple[Coordinate, ...]
    hard_mask: NDArray[np.bool_]
    fixed: bool

    @cached_property
    def n(self) -> int:
        return self.masses.size

    @cached_property
    def dim(self) -> int:
        return int(self.references.shape[1])

    @cached_property
    def soft(self) -> Index:
        return _read_only(np.flatnonzero(~self.hard_mask))

    @cached_property
    def hard(self) -> Index:
        return _read_only(np.flatnonzero(self.hard_mask))

    @cached_property
    def rows(self) -> Rows:
        """All coordinates: those of the chart, then extra rows."""
        return coordinates.chart(self.references, self.extra, self.fixed)

    @cached_property
    def chart(self) -> Rows:
        """The n·d coordinates of the chart, bead by bead."""
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
    def has_ends(self) -> bool:
        """Whether the beads are bonded in a line, which has a first and a last one."""
        parents = self.references[:, 0]
        closed = topology.closures(parents, self.extra).size > 0
        return not closed and np.array_equal(parents, np.arange(-1, self.n - 1))

    @cached_property
    def linear(self) -> bool:
        """Whether the beads stand in a line and nothing else is held."""
        return not self.extra and self.has_ends

    @cached_property
    def pattern(self) -> HardPattern:
        """Hard rows in factor order, and the pattern of H^bb (theory.md section 5)."""
        if self.linear:
            return pattern.outward_pattern(self.rows, self.hard)
        if self.extra:
            return pattern.minimum_degree_pattern(self.rows, self.hard)
        return pattern.inward_pattern(self.rows, self.hard, np.argsort(self.outwards))

    @cached_property
    def system(self) -> Hard:
        """The hard rows as the kernels read them."""
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
    def inverse_masses(self) -> Array:
        return 1.0 / self.masses

    @cached_property
    def links(self) -> Array:
        """Inverse masses and masses (2, bonds + 1) of the joints, the base point included.

        Empty, (2, 0), unless the hard rows are exactly the bonds of a linear chain.
        """
        bonds = self.rows.kinds == LENGTH
        if not (self.linear and bonds.any() and np.array_equal(self.hard_mask, bonds)):
            return np.empty((2, 0))
        beads = np.stack([self.inverse_masses, self.masses])
        return np.concatenate([np.zeros((2, int(self.fixed))), beads], axis=1)

    @cached_property
    def sizes(self) -> tuple[int, int, Array, int, int]:
        """n, dim, `links`, and how many coordinates are hard and soft."""
        return self.n, self.dim, self.links, self.hard.size, self.soft.size

    # --- charts -----------------------------------------------------------------------------

    def values(
        self, table: Rows, x: ArrayLike, error: type[FrameError] = SingularCoordinateError
    ) -> Array:
        """Values (..., len(table)) of some coordinates of configurations x (..., n, dim)."""
        x = arrays.real(x, (self.n, self.dim), "x")
        q, bad = table.values(x)
        if bad >= 0:
            bent = table.take(np.flatnonzero(~table.trait("everywhere")))
            self.refuse(bent, x, bad, "internal coordinates", error)
        return q.reshape(*x.shape[:-2], len(table))

    def gradients(
        self, table: Rows, x: Array, error: type[FrameError] = SingularCoordinateError
    ) -> Array:
        """Wilson rows (len(table), 4, 3) of some coordinates of one configuration x (n, dim)."""
        gradients, exist = table.gradients(x)
        if not exist.all():
            self.refuse(table, x, 0, "Wilson rows", error)
        return gradients

    def cartesian(self, q: Array, rates: Array | None = None) -> tuple[Array, Array]:
        """Positions and velocities (frames, n, dim) from q and rates (frames, n·d)."""
        x = np.empty((len(q), self.n, self.dim))
        v = np.empty((0 if rates is None else len(q), self.n, self.dim))
        shape = self.n, self.dim, self.fixed
        # A copy is writeable, as what the kernel is compiled for.
        charts.cartesian_frames(
            q, rates, shape, self.references.copy(), self.outwards, x.ravel(), v.ravel()
        )
        if not (np.isfinite(x).all() and np.isfinite(v).all()):
            raise ValueError("positions overflowed: lengths or rates are too large")
        return x, v

    # --- refusals ---------------------------------------------------------------------------

    def refuse_positions(self, x: Array, frame: int) -> None:
        """Raise if positions are not finite, or bonded beads coincide in a frame."""
        arrays.require_finite(x, (self.n, self.dim), "x")
        self.pattern.rows.refuse_lengths(x, frame, SingularConstraintError)
        self.soft_rows.refuse_lengths(x, frame, SingularCoordinateError)

    def refuse(
        self,
        table: Rows,
        x: Array,
        frame: int,
        what: str,
        error: type[FrameError] = SingularCoordinateError,
    ) -> NoReturn:
        """Say why there is no answer in a frame: positions, rows without a gradient, overflow."""
        self.refuse_positions(x, frame)
        table.refuse_singular(x, frame, error)
        raise arrays.overflow(what, frame, x.shape[:-2])

    def refuse_extra(self, what: str) -> None:
        """Raise if there are more coordinates than degrees of freedom."""
        if self.extra:
            raise ValueError(
                f"{what} is not defined with closures or extra rows: the soft coordinates "
                f"outnumber the degrees of freedom by {len(self.extra)}"
            )


def _read_only(array: Index) -> Index:
    array.flags.writeable = False
    return array
