"""Internal coordinates as index tables, and what they are worth in a configuration.

A coordinate is a kind and up to four beads, outermost last.  Ghost beads are negative: −1 is the
base point x₀, −2 and −3 are x₋₁ = x₀ − e_x and x₋₂ = x₀ − e_x − e_y; on a free chain the last two
ride on the first bead (theory.md section 1).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fixman._common.arrays import Array, frame_index, listed
from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels.chain import charts
from fixman.kernels.chain import rows as kernel
from fixman.kernels.chain.rows import ANGLE, IN_LINE, KINDS, LENGTH, NUMBERS, TORSION

__all__ = ["Coordinate"]

STRAIGHT = tuple(kind.name for kind in KINDS if kind.straight)  # the rows of one straight bend
# For each kind the one whose formulas it has, in the plane and in space.
FORMULAS = np.array(
    [[NUMBERS[kind.plane or kind.same_as or kind.name], NUMBERS[kind.same_as or kind.name]]
     for kind in KINDS], dtype=np.int8
)  # fmt: skip
BONDS = np.array([[bond in kind.bonds for bond in range(3)] for kind in KINDS])
GHOSTS = 3  # padded bead index = bead + GHOSTS
SMALL = 10**6  # numbers, of which NumPy may make copies
GHOST_POINTS = np.array([[-1.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])  # on a fixed base

Index = NDArray[np.int64]


class Coordinate(NamedTuple):
    """One internal coordinate: its kind and the beads it is made of, outermost last."""

    kind: str
    beads: tuple[int, ...]

    def __str__(self) -> str:
        """``angle(0, 1, 2)``."""
        return f"{self.kind}({', '.join(map(str, self.beads))})"


@dataclass(frozen=True, eq=False)
class Rows:
    """A table of coordinates of a chain, as the kernels read it.

    ``kinds (m,)`` are places in `KINDS`, ``beads (m, 4)`` bead numbers after the ghosts, the last
    one repeated, ``columns (m, 4)`` the mobile beads that each slot moves, −1 for none.
    """

    n: int
    dim: int
    fixed: bool
    kinds: NDArray[np.int8]
    beads: NDArray[np.int32]
    columns: NDArray[np.int32]

    def take(self, rows: Index) -> Rows:
        tables = self.kinds[rows], self.beads[rows], self.columns[rows]
        return Rows(self.n, self.dim, self.fixed, *tables)

    def __getitem__(self, row: int) -> Coordinate:
        kind = KINDS[self.kinds[row]]
        beads = self.beads[row, : kind.beads] - GHOSTS
        return Coordinate(kind.name, tuple(int(b) for b in beads))

    def __len__(self) -> int:
        return self.kinds.size

    @cached_property
    def formulas(self) -> NDArray[np.int8]:
        """Kinds whose formulas hold: an angle in the plane has others than one in space."""
        return np.asarray(FORMULAS[self.kinds, self.dim - 2])

    def trait(self, name: str) -> NDArray[Any]:
        """Return a field of the record of each row's kind, as it is in this space."""
        return np.array([getattr(kind, name) for kind in KINDS])[self.formulas]

    @cached_property
    def tables(self) -> tuple[NDArray[Any], ...]:
        """Kinds, points and columns, as kernels read them."""
        return self.formulas, self.beads, self.columns

    @cached_property
    def external(self) -> NDArray[np.bool_]:
        """Rows that place a free chain in space: positions, and what touches a ghost."""
        touches = (self.beads < GHOSTS).any(axis=1)
        return np.asarray(((self.trait("beads") == 1) | touches) & (not self.fixed))

    def values(self, x: Array) -> tuple[Array, int]:
        """Values (frames, m) in configurations (..., n, d), and the first bad frame or −1."""
        if x.size <= SMALL and (self.formulas == LENGTH).all():
            return self._lengths(x.reshape(-1, self.n, self.dim))
        q = np.empty((x.size // (self.n * self.dim), len(self)))
        shape = (self.n, self.dim, self.fixed, self.formulas, self.beads)
        return q, charts.internal_frames(x.reshape(-1), *shape, q)

    def _lengths(self, x: Array) -> tuple[Array, int]:
        """Values of lengths alone, without a kernel: most runs then compile none for values."""
        ghosts = np.broadcast_to(GHOST_POINTS[:, : self.dim], (len(x), GHOSTS, self.dim))
        points = np.concatenate([ghosts, x], axis=1)
        with np.errstate(all="ignore"):
            bonds = points[:, self.beads[:, 1]] - points[:, self.beads[:, 0]]
            squares = np.sum(bonds * bonds, axis=-1)
            good = (squares > kernel.SMALLEST_SQUARE) & (squares < kernel.LARGEST_SQUARE)
            bad = np.flatnonzero(~(good.all(axis=1) & np.isfinite(x).all(axis=(1, 2))))
            return np.sqrt(squares), int(bad[0]) if bad.size else -1

    def gradients(self, x: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Wilson rows (m, 4, 3) in one configuration, and which of them there are."""
        gradients, sines = np.empty((len(self), 4, 3)), np.empty(len(self))
        shape = (self.n, self.dim, self.fixed, self.formulas, self.beads)
        finite = charts.gradient_rows(x.reshape(-1), *shape, gradients.reshape(-1), sines)
        return gradients, (sines > kernel.SMALLEST_SINE) & finite

    def to_sparse(self, gradients: Array) -> sparse.csr_array[Any, Any]:
        """Wilson rows as a matrix (m, n·d); ghosts have no column."""
        row, slot = np.nonzero(self.columns >= 0)
        first = self.columns[row, slot].astype(np.int64) * self.dim
        columns = (first[:, None] + np.arange(self.dim)).ravel()
        entries = (gradients[row, slot, : self.dim].ravel(), (np.repeat(row, self.dim), columns))
        matrix = sparse.coo_array(entries, shape=(len(self), self.n * self.dim)).tocsr()
        matrix.sum_duplicates()
        return matrix

    def parts(self, size: int) -> Rows:
        """Lengths (size 2) or angles (3) of the successive beads that each row is made of."""
        bonds = BONDS[self.formulas]
        row, slot = np.nonzero(bonds if size == 2 else bonds[:, :-1] & bonds[:, 1:])
        kinds = np.full(row.size, LENGTH if size == 2 else ANGLE, dtype=np.int8)
        slots = slot[:, None] + np.minimum(np.arange(4), size - 1)
        beads, columns = (table[row[:, None], slots] for table in (self.beads, self.columns))
        columns[:, size:] = -1
        return Rows(self.n, self.dim, self.fixed, kinds, beads, columns)

    def refuse_lengths(self, x: Array, frame: int, error: type[FrameError]) -> None:
        """Raise if successive beads of a row coincide, or cannot be told apart or squared."""
        lengths = self.parts(2)
        q = lengths.values(_one(self, x, frame))[0][0]
        with np.errstate(all="ignore"):
            good = (q * q > kernel.SMALLEST_SQUARE) & (q * q < kernel.LARGEST_SQUARE)
        if good.all():
            return
        bad = np.flatnonzero(~good)
        row = int(bad[np.argmin(q[bad])])
        i, j = sorted(lengths[row].beads)
        first = f"bead {i}" if i >= 0 else "the base point"
        where = frame_index(frame, x.shape[:-2])
        if q[row] == 0:
            rest = ": their bond has no direction"
            raise error(f"{first} and bead {j} coincide", rest, frame=where, beads=(i, j))
        text = f"the bond between {first} and bead {j} has length {q[row]:.3g}"
        rest = ": choose a unit of length that brings bonds nearer to 1"
        raise FrameError(text, rest, frame=where, beads=(i, j))

    def refuse_singular(self, x: Array, frame: int, error: type[FrameError]) -> None:
        """Raise if a row has no gradient in frame number ``frame`` of x (..., n, d)."""
        one = _one(self, x, frame)
        lost = np.flatnonzero(~self.gradients(one)[1])
        rows, where = [self[int(row)] for row in lost], frame_index(frame, x.shape[:-2])
        if not rows:
            return
        reasons = [reason for reason in dict.fromkeys(self.take(lost).trait("singular")) if reason]
        remedy: str = ": " + (" or ".join(reasons) or IN_LINE)
        if IN_LINE in remedy and error is SingularConstraintError:
            remedy += "; " + self.take(lost)._in_line(one)
        elif IN_LINE in remedy:
            remedy += "; Cartesian accelerations, tensions and ln det H^bb do not need them"
        text = f"{listed(rows, 3)} {'is' if len(rows) == 1 else 'are'} singular"
        raise error(text, remedy, frame=where, coordinates=rows)

    def _in_line(self, x: Array) -> str:
        """Say how else to hold rows about bends that are straight in one configuration."""
        bends = self.parts(3)
        angles, lost = bends.values(x)[0][0], ~bends.gradients(x)[1]
        straight = dict.fromkeys(bends[int(k)].beads for k in np.flatnonzero(lost & (angles < 1.0)))
        if not straight:
            return "a bend that is folded back cannot be hard in 3-D: give it another angle"
        advice = "a straight angle cannot be hard in 3-D: hold such bends in line, "
        return advice + in_line(straight)


def in_line(bends: Iterable[tuple[int, ...]]) -> str:
    return f"straight={list(dict.fromkeys(min(bend, bend[::-1]) for bend in bends))}"


def _one(rows: Rows, x: Array, frame: int) -> Array:
    return np.array(x.reshape(-1, rows.n, rows.dim)[frame])


def chart(references: Index, extra: tuple[Coordinate, ...], fixed: bool) -> Rows:
    """Return the n·d chart rows, bead by bead, then the extra rows."""
    n, dim = references.shape
    kinds = np.tile(np.array([LENGTH, ANGLE, TORSION][:dim], dtype=np.int8), (n, 1))
    beads = np.zeros((n, dim, 4), dtype=np.int64)
    for row in range(dim):
        beads[:, row, : row + 1] = references[:, row::-1]
        beads[:, row, row + 1] = np.arange(n)
    if not fixed:
        kinds[0] = [NUMBERS[axis] for axis in "xyz"[:dim]]
        beads[0] = 0
    more_kinds = np.array([NUMBERS[c.kind] for c in extra], dtype=np.int8)
    more_beads = np.array([(*c.beads, 0, 0, 0)[:4] for c in extra], np.int64).reshape(-1, 4)
    kinds = np.concatenate([kinds.ravel(), more_kinds])
    beads = np.concatenate([beads.reshape(-1, 4), more_beads])
    size = kernel.BEADS[kinds]
    # Ghosts have none: on a fixed base they stay, on a free chain bead 0 has their gradients.
    columns = np.where((np.arange(4) < size[:, None]) & (beads >= 0), beads, -1).astype(np.int32)
    for slot in range(1, 4):
        beads[:, slot] = np.where(slot < size, beads[:, slot], beads[:, slot - 1])
    return Rows(n, dim, fixed, kinds, (beads + GHOSTS).astype(np.int32), columns)
