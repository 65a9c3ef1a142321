"""Refusals: why a configuration has no answer, and which rows depend on which there."""

from math import prod
from typing import NoReturn

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array, listed, overflow
from fixman.chains.chain import Chain
from fixman.chains.coordinates import Coordinate
from fixman.errors import SingularConstraintError, SingularCoordinateError
from fixman.kernels.chain import hard
from fixman.kernels.factors.sparse import SMALLEST_PIVOT, Symbolic, factor

NAMED = 5  # rows that a refusal names
NEARLY_LOST = 1e3 * SMALLEST_PIVOT
UNEVEN = 1e6  # ratio of masses beside a lost pivot from which they may be why it is lost


def raise_failure(
    chain: Chain, x: Array, frame: int, torque: Array | None = None, **others: Array
) -> NoReturn:
    """Say why a frame of x (..., n, d) has no answer; ``others`` are like x, by name."""
    lead = x.shape[:-2]
    for name, array in others.items():
        arrays.require_finite(array, (chain.n, chain.dim), name)
    chain.layout.refuse_positions(x, frame)
    chain.layout.pattern.rows.refuse_singular(x, frame, SingularConstraintError)
    if torque is not None:
        arrays.require_finite(torque, (chain.soft.size,), "torque", "soft coordinate")
        pushed = np.flatnonzero(torque.reshape(prod(lead), -1)[frame])
        chain.layout.soft_rows.take(pushed).refuse_singular(x, frame, SingularCoordinateError)
    # A pivot of H^bb is lost: name the rows in the combination that vanishes.
    share, rows = nearest_dependence(chain, x.reshape(-1, chain.n, chain.dim)[frame].copy())
    if not share < NEARLY_LOST:
        raise overflow("answer", frame, lead)
    shown = [bead for row in rows[: NAMED + 1] for bead in row.beads if bead >= 0]
    ratio = float(chain.masses[shown].max() / chain.masses[shown].min())
    masses = f", or seems to, as the masses of their beads differ by a factor of {ratio:.0e}"
    choice = ", or choose which rows stay by positions like these, drop_redundant=x"
    lost, *holding = rows
    raise SingularConstraintError(
        f"{lost} depends on {listed(holding, NAMED) or 'the other hard coordinates'}",
        f"{masses if ratio > UNEVEN else ''}: make one of these soft or leave it out, or stay away "
        f"from this configuration{choice if chain.redundant else ''}",
        frame=arrays.frame_index(frame, lead),
        coordinates=rows,
    )


def nearest_dependence(chain: Chain, x: Array) -> tuple[float, list[Coordinate]]:
    """Return the smallest pivot of H^bb over its diagonal, its row and those it depends on."""
    pattern = chain.layout.pattern
    table, symbolic = pattern.rows, pattern.symbolic
    V = np.empty(symbolic.nnz)
    hard.matrix_frame(x.reshape(-1), chain.layout.system, V)
    if not symbolic.size or not np.isfinite(V).all():
        return np.inf, []  # no row is hard, or positions are too large
    diagonal = V[symbolic.first[:-1]]
    scale = np.sqrt(diagonal)
    D, work = np.empty((2, symbolic.size))
    factor(V, D, symbolic, work, 0.0)
    # The first row that is lost, or where none is just so, in this arithmetic, the nearest one.
    pivots = np.where(np.isnan(D), 0.0, V[symbolic.first[:-1]] / diagonal)
    row = int(np.argmin(pivots))
    share = np.abs(null_vector(V, symbolic, row)) * scale
    share[row] = 0.0
    others = np.argsort(-share, kind="stable")[: np.count_nonzero(share > 1e-6 * scale[row])]
    return float(pivots[row]), [table[int(k)] for k in (row, *others)]


def null_vector(V: Array, symbolic: Symbolic, lost: int) -> Array:
    """Solve Lᵀ y = e: multiples of the rows before a lost one, and 1, that add up to nothing."""
    y = np.zeros(symbolic.size)
    y[lost] = 1.0
    for j in range(lost - 1, -1, -1):
        below = slice(symbolic.first[j] + 1, symbolic.first[j + 1])
        y[j] = -(V[below] @ y[symbolic.row[below]])
    return y
