"""LDLᵀ of sparse symmetric positive definite matrices, eliminated in the order of their rows.

What can be known from the pattern alone is found once, `analyse`; the numeric kernels then look
for nothing.  Column j of L occupies ``first[j]:first[j + 1]`` of a storage of values, in which
``row`` ascends from the diagonal.  The matrix, zeros at fill included, is put there (`places`);
the factor replaces it: d_j on the diagonal, L below it, and 1 / d_j apart.

The kernels take the pattern as a plain tuple and a finite value ``like`` those they shall work on,
a float or eight lanes (see `lanes`); values and work are made of units of its kind.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fixman.kernels import jit
from fixman.kernels.banded import SMALLEST_PIVOT
from fixman.kernels.lanes import (
    beyond,
    biased_exponent,
    choose,
    entry,
    exact,
    fma,
    ln,
    load,
    mantissa,
    store,
)

Places = NDArray[np.int32]

LN2 = 0.6931471805599453


class Symbolic(NamedTuple):
    """The pattern of L (m, m), fill included, by columns and by rows.

    ``first (m + 1,)`` and ``row (nnz,)``, the columns with their diagonals; ``left_first (m + 1,)``
    and ``left_place``, ``left_column``, the elements to the left of the diagonal of each row: where
    they are stored, and in which column they stand.
    """

    first: Places
    row: Places
    left_first: Places
    left_place: Places
    left_column: Places

    @property
    def size(self) -> int:
        """Return the number of rows m."""
        return self.first.size - 1

    @property
    def nnz(self) -> int:
        """Return the number of elements of L, its diagonal included."""
        return self.row.size


def analyse(m: int, i: NDArray[np.integer], j: NDArray[np.integer]) -> Symbolic:
    """Find the pattern of L from that of the lower triangle, i ≥ j, in O(nnz(L)).

    Elements may be named repeatedly and diagonal ones left out.
    """
    start, column = _by_rows(m, np.asarray(i, dtype=np.int64), np.asarray(j, dtype=np.int64))
    parent = np.empty(m, dtype=np.int64)
    first = np.empty(m + 1, dtype=np.int64)
    count_columns(start, column, parent, first)
    if first[m] >= 2**31:
        raise MemoryError(f"the factor of {m} rows would fill in to {first[m]} elements")
    row = np.empty(first[m], dtype=np.int32)
    left_first = np.empty(m + 1, dtype=np.int32)
    left = np.empty((2, first[m] - m), dtype=np.int32)
    fill_columns(start, column, parent, first, row, left_first, left)
    return Symbolic(first.astype(np.int32), row, left_first, left[0], left[1])


def _by_rows(
    m: int, i: NDArray[np.int64], j: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = np.zeros(m + 1, dtype=np.int64)
    np.cumsum(np.bincount(i, minlength=m), out=start[1:])
    column = np.empty(i.size, dtype=np.int64)
    sort_rows(i, j, start.copy(), column)
    return start, column


@jit
def sort_rows(i, j, end, column):
    for t in range(i.size):
        column[end[i[t]]] = j[t]
        end[i[t]] += 1


@jit
def count_columns(start, column, parent, first):
    """Elimination tree, and where each column of L begins (Davis 2005, LDL).

    Row i of L is the part of the tree below i that its elements of A reach.
    """
    m = parent.size
    reached = np.empty(m, np.int64)
    first[:] = 1
    for i in range(m):
        parent[i] = -1
        reached[i] = i
        for t in range(start[i], start[i + 1]):
            k = column[t]
            while reached[k] != i:
                if parent[k] < 0:
                    parent[k] = i
                first[k] += 1
                reached[k] = i
                k = parent[k]
    total = 0
    for k in range(m):
        size = first[k]
        first[k] = total
        total += size
    first[m] = total


@jit
def fill_columns(start, column, parent, first, row, left_first, left):
    m = parent.size
    reached = np.empty(m, np.int64)
    end = first[:m].copy()
    total = 0
    for i in range(m):
        reached[i] = i
        row[end[i]] = i
        end[i] += 1
        left_first[i] = total
        for t in range(start[i], start[i + 1]):
            k = column[t]
            while reached[k] != i:
                row[end[k]] = i
                end[k] += 1
                total += 1
                reached[k] = i
                k = parent[k]
    left_first[m] = total
    for i in range(m):
        end[i] = left_first[i]
    for k in range(m):
        for p in range(first[k] + 1, first[k + 1]):
            i = row[p]
            left[0, end[i]] = p
            left[1, end[i]] = k
            end[i] += 1


def places(symbolic: Symbolic, i: NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where the elements (i, j), i ≥ j, are stored; −1 for those outside the pattern."""
    found = np.empty(np.shape(i), dtype=np.int64)
    find(
        symbolic.first,
        symbolic.row,
        np.asarray(i, dtype=np.int64).ravel(),
        np.asarray(j, dtype=np.int64).ravel(),
        found.reshape(-1),
    )
    return found


@jit
def find(first, row, i, j, found):
    for t in range(i.size):
        low = first[j[t]]
        high = first[j[t] + 1] - 1
        while low < high:
            middle = (low + high) >> 1
            if row[middle] < i[t]:
                low = middle + 1
            else:
                high = middle
        found[t] = low if row[low] == i[t] else -1


@exact
def gather(V, j, symbolic, work, like):
    """Column j less what the columns to its left take from it, in ``work`` at its rows."""
    first, row, left_first, left_place, left_column = symbolic
    for p in range(entry(first, j), entry(first, j + 1)):
        store(work, entry(row, p), load(V, p, like))
    for t in range(entry(left_first, j), entry(left_first, j + 1)):
        q = entry(left_place, t)
        k = entry(left_column, t)
        ratio = load(V, q, like) * load(V, entry(first, k), like)
        for p in range(q, entry(first, k + 1)):
            i = entry(row, p)
            store(work, i, fma(-ratio, load(V, p, like), load(work, i, like)))


@exact
def factor(V, D, symbolic, work, like):
    """Factor in place, reciprocal pivots into D, with m units of work.

    A pivot that is lost becomes NaN, and so does all that follows from it.
    """
    first, row = symbolic[0], symbolic[1]
    for j in range(first.size - 1):
        begin = entry(first, j)
        diagonal = load(V, begin, like)
        gather(V, j, symbolic, work, like)
        d = load(work, j, like)
        # Beyond is what is NaN already; an infinite pivot comes of a diagonal that was.
        d = choose(beyond(d, SMALLEST_PIVOT * diagonal), d, d * math.nan)
        inverse = 1.0 / d
        store(D, j, inverse)
        store(V, begin, d)
        for p in range(begin + 1, entry(first, j + 1)):
            store(V, p, inverse * load(work, entry(row, p), like))


@exact
def log_product(V, first, like):
    """Σ ln d of a factor: powers of two are added apart, so there is one logarithm.

    And no case distinction: a lane's last digit would depend on the others.
    """
    product = 0.0 * like + 1.0
    power = 0.0 * like
    for j in range(first.size - 1):
        d = load(V, entry(first, j), like)
        product *= d
        # NaN has a mantissa too
        power += biased_exponent(product) - (2.0**52 + 1023.0) + 0.0 * d
        product = mantissa(product)
    return LN2 * power + ln(product)


@exact
def inverse_on_pattern(V, D, S, symbolic, work, like):
    """Elements of A⁻¹ on the pattern of L into S, with 2 m units of work.

    The Takahashi recurrence, last column first: S_ij = −Σ_k S_ik L_kj over the k in column j.
    """
    first, row = symbolic[0], symbolic[1]
    m = first.size - 1
    zero = 0.0 * like
    for i in range(m):
        store(work, m + i, zero)
    for j in range(m - 1, -1, -1):
        begin = entry(first, j) + 1
        end = entry(first, j + 1)
        if end > begin:
            last = entry(row, end - 1)
        for p in range(begin, end):
            store(work, entry(row, p), zero)
            store(work, m + entry(row, p), load(V, p, like))
        # Column k > j holds every row of column j below k; where it holds others, L_ij is zero.
        for p in range(begin, end):
            k = entry(row, p)
            below = load(V, p, like)
            total = below * load(S, entry(first, k), like)
            for q in range(entry(first, k) + 1, entry(first, k + 1)):
                i = entry(row, q)
                if i > last:
                    break
                s = load(S, q, like)
                total = fma(s, load(work, m + i, like), total)
                store(work, i, fma(s, below, load(work, i, like)))
            store(work, k, load(work, k, like) + total)
        total = load(D, j, like)
        for p in range(begin, end):
            s = -load(work, entry(row, p), like)
            store(S, p, s)
            store(work, m + entry(row, p), zero)
            total = fma(-s, load(V, p, like), total)
        store(S, entry(first, j), total)


@exact
def solve(V, D, symbolic, b, like):
    """Overwrite b with A⁻¹ b, given the factor."""
    first, row = symbolic[0], symbolic[1]
    m = first.size - 1
    for j in range(m):
        z = load(b, j, like)
        for p in range(entry(first, j) + 1, entry(first, j + 1)):
            i = entry(row, p)
            store(b, i, fma(-load(V, p, like), z, load(b, i, like)))
    for j in range(m - 1, -1, -1):
        begin = entry(first, j)
        z = load(b, j, like) * load(D, j, like)
        for p in range(begin + 1, entry(first, j + 1)):
            z = fma(-load(V, p, like), load(b, entry(row, p), like), z)
        store(b, j, z)


@jit
def solve_each(V, D, symbolic, b):
    """Overwrite each row of ``b (r, m)`` with A⁻¹ of it."""
    for r in range(b.shape[0]):
        solve(V, D, symbolic, b[r], 0.0)


@jit
def null_vector(V, first, row, lost, y):
    """Multiples of the rows before ``lost`` that add up to minus that row, and 1 there, into y.

    Lᵀ y = e, from the columns before the row that `factor` has lost.
    """
    y[lost] = 1.0
    for j in range(lost - 1, -1, -1):
        for p in range(first[j] + 1, first[j + 1]):
            if row[p] <= lost:
                y[j] -= V[p] * y[row[p]]
