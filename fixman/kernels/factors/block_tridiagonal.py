"""LDLᵀ of block-tridiagonal symmetric positive definite matrices, with scalar pivots.

``D (m, k, k)`` are the diagonal blocks, ``B (m - 1, k, k)`` the blocks below them, ``B[i]`` in the
rows of block i + 1.  Block i has ``sizes[i]`` ≤ k rows; the rest of its storage is not looked at.
The factor replaces the matrix: pivots on the diagonals of D, the unit lower triangle below them
and in B.  Only the lower triangle of a diagonal block is read.
"""

from __future__ import annotations

import math

from fixman.kernels import jit
from fixman.kernels.factors.pivots import SMALLEST_PIVOT, times


@jit
def factor(D, B, sizes):
    """Factor in place; the first row (numbered through) whose pivot is lost, or -1."""
    row = 0
    for i in range(sizes.size):
        p = sizes[i]
        n = sizes[i + 1] if i + 1 < sizes.size else 0
        for c in range(p):
            # Above the diagonal stand the rows of the elimination: D[t, c] = d_t L[c, t].
            d = D[i, c, c]
            given = d
            for t in range(c):
                d -= D[i, c, t] * D[i, t, c]
            if i > 0:
                for t in range(sizes[i - 1]):
                    given += B[i - 1, c, t] * B[i - 1, c, t] * D[i - 1, t, t]
            if not d > SMALLEST_PIVOT * given or d == math.inf:
                return row
            row += 1
            D[i, c, c] = d
            for r in range(c + 1, p):
                a = D[i, r, c]
                for t in range(c):
                    a -= D[i, r, t] * D[i, t, c]
                D[i, c, r] = a
                D[i, r, c] = a / d
            for r in range(n):
                a = B[i, r, c]
                for t in range(c):
                    a -= B[i, r, t] * D[i, t, c]
                B[i, r, c] = a / d
        for r in range(n):
            for c in range(r + 1):
                a = D[i + 1, r, c]
                for t in range(p):
                    a -= B[i, r, t] * D[i, t, t] * B[i, c, t]
                D[i + 1, r, c] = a
    return -1


@jit
def log_product(D, sizes):
    """Σ ln of the pivots of a factor."""
    product = 1.0
    total = 0.0
    for i in range(sizes.size):
        for c in range(sizes[i]):
            product, total = times(product, D[i, c, c], total)
    return total + math.log(product)


@jit
def solve(D, B, sizes, b):
    """Overwrite ``b (rows, r)`` with A⁻¹ b, given the factor."""
    start = 0
    for i in range(sizes.size):
        p = sizes[i]
        n = sizes[i + 1] if i + 1 < sizes.size else 0
        for c in range(p):
            for r in range(c + 1, p):
                for k in range(b.shape[1]):
                    b[start + r, k] -= D[i, r, c] * b[start + c, k]
            for r in range(n):
                for k in range(b.shape[1]):
                    b[start + p + r, k] -= B[i, r, c] * b[start + c, k]
        start += p
    for i in range(sizes.size - 1, -1, -1):
        p = sizes[i]
        n = sizes[i + 1] if i + 1 < sizes.size else 0
        start -= p
        for c in range(p - 1, -1, -1):
            for k in range(b.shape[1]):
                y = b[start + c, k] / D[i, c, c]
                for r in range(c + 1, p):
                    y -= D[i, r, c] * b[start + r, k]
                for r in range(n):
                    y -= B[i, r, c] * b[start + p + r, k]
                b[start + c, k] = y


@jit
def inverse_on_pattern(D, B, sizes, S, T):
    """The Takahashi recurrence: blocks of A⁻¹ where A has them, into ``S`` (as D), ``T`` (as B)."""
    for i in range(sizes.size - 1, -1, -1):
        p = sizes[i]
        n = sizes[i + 1] if i + 1 < sizes.size else 0
        for c in range(p - 1, -1, -1):
            for r in range(n):
                total = 0.0
                for t in range(c + 1, p):
                    total -= D[i, t, c] * T[i, r, t]
                for t in range(n):
                    total -= B[i, t, c] * S[i + 1, r, t]
                T[i, r, c] = total
            for r in range(p - 1, c, -1):
                total = 0.0
                for t in range(c + 1, p):
                    total -= D[i, t, c] * S[i, r, t]
                for t in range(n):
                    total -= B[i, t, c] * T[i, t, r]
                S[i, r, c] = total
                S[i, c, r] = total
            total = 1.0 / D[i, c, c]
            for t in range(c + 1, p):
                total -= D[i, t, c] * S[i, t, c]
            for t in range(n):
                total -= B[i, t, c] * T[i, t, c]
            S[i, c, c] = total
