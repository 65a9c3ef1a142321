"""Elimination of the hard rows in a finite field, where nothing is nearly zero (see `field`).

Rows are multiples of Wilson's that are polynomials in the positions, and H = B D Bᵀ with a random
diagonal D is factored on the pattern of H^bb (see `sparse`).  A pivot is zero exactly where a row
depends on those before it.
"""

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.field import ZERO, add, inverse, less, times
from fixman.kernels.chain.rows import put_polynomial_row


@jit
def hard_matrix(kinds, beads, terms, X, D, V):
    """Lower triangle of B D Bᵀ into V, at positions ``X (n + 3, 3)``, weights ``D (n, 3)``."""
    B = np.empty((kinds.size, 4, 3), np.uint64)
    for r in range(kinds.size):
        put_polynomial_row(kinds[r], B, r, beads, X)
    V[:] = ZERO
    for t in range(terms.shape[0]):
        place, i, j, k = terms[t]
        total = V[place]
        for a in range(3):
            product = times(B[i >> 2, i & 3, a], B[j >> 2, j & 3, a])
            total = add(total, times(D[k, a], product))
        V[place] = total


@jit
def factor(V, first, row, left_first, left_place, left_column, dependent):
    """LDLᵀ in place; rows whose pivot is zero are marked, and have no column."""
    m = first.size - 1
    work = np.zeros(m, np.uint64)
    for j in range(m):
        begin, end = first[j], first[j + 1]
        for p in range(begin, end):
            work[row[p]] = V[p]
        for t in range(left_first[j], left_first[j + 1]):
            q = left_place[t]
            k = left_column[t]
            ratio = times(V[q], V[first[k]])
            if ratio != ZERO:
                for p in range(q, first[k + 1]):
                    work[row[p]] = less(work[row[p]], times(ratio, V[p]))
        d = work[j]
        dependent[j] = d == ZERO
        V[begin] = d
        over = inverse(d)  # 0 of 0
        for p in range(begin + 1, end):
            V[p] = times(over, work[row[p]])


@jit
def combine(V, first, row, left_first, left_place, left_column, share):
    """Multiples of all rows that add up to zero, Lᵀ share = 0, given those of the dependent ones.

    With random ones, no row that is part of any vanishing combination ends with 0 but by accident.
    """
    for j in range(first.size - 2, -1, -1):
        if V[first[j]] != ZERO:
            total = ZERO
            for p in range(first[j] + 1, first[j + 1]):
                total = add(total, times(V[p], share[row[p]]))
            share[j] = less(ZERO, total)
