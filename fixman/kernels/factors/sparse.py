"""LDLᵀ of sparse symmetric positive definite matrices, eliminated in the order of their rows.

`analyse` finds once what the pattern alone tells.  Column j of L occupies ``first[j]:first[j + 1]``
of a storage of values, in which ``row`` ascends from the diagonal.  The matrix, zeros at fill
included, is put there (`places`); the factor replaces it: d_j on the diagonal, L below it, and
1 / d_j apart.  Values and work are units like a finite value ``like``, a float or eight lanes.
"""

import math
from collections import namedtuple

import numpy as np
from numpy.typing import NDArray

from fixman.kernels import jit
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import entry, exact, exact_entry, fma, ln, load, mantissa, store
from fixman.kernels.compiler.steps import exact_step

# A pivot this much smaller than its diagonal element has three correct digits left, at best: its
# rounding is that of the diagonal element, and of what was taken from it.
SMALLEST_PIVOT = 4096.0 * 2.0**-52
LN2 = 0.6931471805599453


class Symbolic(namedtuple("Symbolic", "first row left_first left_place left_column")):
    """The pattern of L (m, m), fill included, in tables of int32.

    first (m + 1,), row (nnz,) : the columns, with their diagonals
    left_first (m + 1,), left_place, left_column : the elements to the left of the diagonal of each
        row: where they are stored, and their columns
    """

    @property
    def size(self) -> int:
        """Number of rows m."""
        return len(self.first) - 1

    @property
    def nnz(self) -> int:
        """Number of elements of L, its diagonal included."""
        return len(self.row)


def analyse(m: int, i: NDArray[np.integer], j: NDArray[np.integer]) -> Symbolic:
    """Find the pattern of L from that of the lower triangle, i ≥ j, in O(nnz(L) ln nnz(L)).

    Elements may be named repeatedly and diagonal ones left out.
    """
    i, j = np.asarray(i, dtype=np.int64), np.asarray(j, dtype=np.int64)
    column = j[np.argsort(i, kind="stable")]
    start = _ends(np.bincount(i, minlength=m))
    parent, end = np.full(m, -1), np.ones(m, dtype=np.int64)
    row = np.empty(0, dtype=np.int64)
    walk(start, column, parent, np.empty_like(end), end, row)
    first = _ends(end)
    if first[m] >= 2**31:
        raise MemoryError(f"the factor of {m} rows would fill in to {first[m]} elements")
    row = np.empty(first[m], dtype=np.int64)
    row[first[:-1]] = np.arange(m)
    walk(start, column, parent, np.empty_like(end), first[:-1] + 1, row)
    below = np.delete(np.arange(first[m]), first[:-1])  # the diagonal
    left = below[np.argsort(row[below], kind="stable")]
    owner = np.repeat(np.arange(m), np.diff(first))
    tables = (first, row, _ends(np.bincount(row[below], minlength=m)), left, owner[left])
    return Symbolic(*(table.astype(np.int32) for table in tables))


def _ends(counts: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


@jit
def walk(start, column, parent, reached, end, row):
    """Count the elements of each column of L, or write their rows where there is room for them.

    Row i of L is the part of the elimination tree below i that its elements of A reach (Davis
    2005, LDL); ``parent`` is that tree, found in the first walk.
    """
    for i in range(end.size):
        reached[i] = i
        for t in range(start[i], start[i + 1]):
            k = column[t]
            while reached[k] != i:
                if parent[k] < 0:
                    parent[k] = i
                if row.size > 0:
                    row[end[k]] = i
                end[k] += 1
                reached[k] = i
                k = parent[k]


def places(symbolic: Symbolic, i: NDArray[np.integer], j: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where the elements (i, j), i ≥ j, are stored; −1 for those outside the pattern."""
    if not symbolic.nnz:
        return np.full(np.shape(i), -1)
    columns = np.repeat(np.arange(symbolic.size), np.diff(symbolic.first))
    known = columns * symbolic.size + symbolic.row
    wanted = np.asarray(j, dtype=np.int64) * symbolic.size + i
    found = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return np.where(known[found] == wanted, found, -1)


@exact
def gather(V, j, symbolic, work, like):
    """Column j less what the columns to its left take from it, in ``work`` at its rows.

    Two columns with the same rows from j on are taken at once, which halves loads and stores.
    """
    first, row, left_first, left_place, left_column = symbolic
    for p in range(entry(first, j), entry(first, j + 1)):
        store(work, entry(row, p), load(V, p, like))
    t = entry(left_first, j)
    stop = entry(left_first, j + 1)
    while t < stop:
        q = entry(left_place, t)
        k = entry(left_column, t)
        end = entry(first, k + 1)
        ratio = load(V, q, like) * load(V, entry(first, k), like)
        t += 1
        if t < stop and entry(left_column, t) == entry(row, entry(first, k) + 1):
            # The next column holds what this one does below it: with as many rows, the same.
            k = entry(left_column, t)
            shift = entry(left_place, t) - q
            if entry(first, k + 1) == end + shift:
                other = load(V, q + shift, like) * load(V, entry(first, k), like)
                for p in range(q, end):
                    i = entry(row, p)
                    rest = fma(-ratio, load(V, p, like), load(work, i, like))
                    store(work, i, fma(-other, load(V, p + shift, like), rest))
                t += 1
                continue
        for p in range(q, end):
            i = entry(row, p)
            store(work, i, fma(-ratio, load(V, p, like), load(work, i, like)))


@exact_entry
def factor(V, D, symbolic, work, like):
    """Factor in place, 1 / d into D, with m units of work.

    A pivot that is lost becomes NaN, and so does all that follows from it.
    """
    first, row = symbolic.first, symbolic.row
    for j in range(first.size - 1):
        begin = entry(first, j)
        diagonal = load(V, begin, like)
        gather(V, j, symbolic, work, like)
        d = load(work, j, like)
        d = lane.pick(d, SMALLEST_PIVOT * diagonal, d, math.nan)
        inverse = 1.0 / d
        store(D, j, inverse)
        store(V, begin, d)
        for p in range(begin + 1, entry(first, j + 1)):
            store(V, p, inverse * load(work, entry(row, p), like))


@exact_step
def multiplied(product, power, d):
    """Multiply by d > 0: a mantissa, and a power of two apart, so that there is one logarithm.

    There are no cases: a lane's last digit would depend on the others.
    """
    product = product * d
    # NaN has a mantissa too
    power = power + (lane.biased_exponent(product) - (2.0**52 + 1023.0) + 0.0 * d)
    return mantissa(product), power


@exact_entry
def log_product(V, first, like):
    """Σ ln d of a factor."""
    product = 0.0 * like + 1.0
    power = 0.0 * like
    for j in range(first.size - 1):
        product, power = multiplied(product, power, load(V, entry(first, j), like))
    return LN2 * power + ln(product)


@exact_entry
def inverse_on_pattern(V, D, S, symbolic, work, like):
    """Elements of A⁻¹ on the pattern of L into S, with 2 m units of work.

    S_ij = −Σ_{k>j} S_ik L_kj, i > j; S_jj = 1/d_j − Σ_{k>j} L_kj S_kj (Takahashi), last j first.
    """
    first, row = symbolic.first, symbolic.row
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
    first, row = symbolic.first, symbolic.row
    m = first.size - 1
    for j in range(m):
        z = load(b, j, like)
        for p in range(entry(first, j) + 1, entry(first, j + 1)):
            i = entry(row, p)
            store(b, i, fma(-load(V, p, like), z, load(b, i, like)))
    for j in range(m - 1, -1, -1):
        begin = entry(first, j)
        z = load(b, j, like) * load(D, j, like)
        # The nearest row, which was found last, is wanted last: nothing waits for it.
        for p in range(entry(first, j + 1) - 1, begin, -1):
            z = fma(-load(V, p, like), load(b, entry(row, p), like), z)
        store(b, j, z)


@jit
def solve_each(V, D, symbolic, b):
    """Overwrite each row of ``b (r, m)`` with A⁻¹ of it."""
    for r in range(b.shape[0]):
        solve(V, D, symbolic, b[r], 0.0)
