"""3×3 matrices by rows and symmetric ones (xx, xy, xz, yy, yz, zz), as tuples; rows of tables.

Vectors and their products are those of `algebra.vectors`.  Elements are floats or `eight`
states in lanes; constants come from flat tables, and units from the work arrays and states that
`compiler.lanes` describes.
"""

from typing import Any

from fixman.kernels.algebra.vectors import fused_cross
from fixman.kernels.compiler.lanes import load, store, take
from fixman.kernels.compiler.steps import step


@step
def times(R, x):
    return tuple(R[k] * x[0] + R[k + 1] * x[1] + R[k + 2] * x[2] for k in (0, 3, 6))


@step
def back(R, x):
    """Rᵀ x."""
    return tuple(R[k] * x[0] + R[k + 3] * x[1] + R[k + 6] * x[2] for k in range(3))


@step
def product(R, S):
    """R S of 3×3 matrices."""
    return tuple(
        R[i] * S[j] + R[i + 1] * S[j + 3] + R[i + 2] * S[j + 6] for i in (0, 3, 6) for j in range(3)
    )


@step
def transposed(R):
    return tuple(R[3 * j + i] for i in range(3) for j in range(3))


@step
def turned(R, T):
    """R T Rᵀ."""
    return product(product(R, T), transposed(R))


@step
def across(s, T):
    """s× T, column by column."""
    columns = [fused_cross(s, (T[k], T[3 + k], T[6 + k])) for k in range(3)]
    return tuple(columns[j][i] for i in range(3) for j in range(3))


@step
def full(S):
    return S[0], S[1], S[2], S[1], S[3], S[4], S[2], S[4], S[5]


@step
def upper(T):
    """The symmetric matrix of which ``T`` has the upper triangle."""
    return T[0], T[1], T[2], T[4], T[5], T[8]


@step
def times_symmetric(S, x):
    return times(full(S), x)


def _constants(count: int) -> Any:
    """Return a step that reads so many elements of a flat table."""

    def constants(table, k):
        return tuple(table[k + j] for j in range(count))

    return step(constants)


constants, constants6, matrix = _constants(3), _constants(6), _constants(9)


def _units(count: int) -> Any:
    """Return a step that loads so many units."""

    def units(work, k, like):
        return tuple(load(work, k + j, like) for j in range(count))

    return step(units)


load3, load6, load9 = _units(3), _units(6), _units(9)


@step
def store_all(work, k, x):
    for j in range(len(x)):
        store(work, k + j, x[j])


def _entries(count: int) -> Any:
    """Return a step that reads so many elements of row i of a table with two axes, from k on."""

    def entries(rows, i, k):
        return tuple(rows[i, k + j] for j in range(count))

    return step(entries)


entries, entries6, entries9 = _entries(3), _entries(6), _entries(9)


@step
def square(T, r, c):
    """3×3 block of a table whose first element is r, c."""
    return tuple(T[r + k // 3, c + k % 3] for k in range(9))


@step
def put_entries(rows, i, k, x):
    """Write all of x into row i, from column k."""
    for j in range(len(x)):
        rows[i, k + j] = x[j]


@step
def take3(states, k, stride, like):
    return tuple(take(states, k + j, stride, like) for j in range(3))
