"""LDLᵀ of banded symmetric positive definite matrices, column storage.

``T (m, h + 1)`` with ``T[i, j] = A[i + j, i]``; the factor replaces it: ``T[i, 0] = d_i`` and
``T[i, j] = L[i + j, i]``.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit

# A pivot this much smaller than its diagonal element has three correct digits left, at best: its
# rounding is that of the diagonal element, and of what was taken from it.
SMALLEST_PIVOT = 4096.0 * 2.0**-52


@jit
def factor(T):
    """Factor in place; the first row whose pivot is lost, or -1."""
    m = T.shape[0]
    h = T.shape[1] - 1
    diagonal = np.empty(m)
    for i in range(m):
        diagonal[i] = T[i, 0]
    for i in range(m):
        d = T[i, 0]
        if not d > SMALLEST_PIVOT * diagonal[i] or d == math.inf:
            return i
        inverse = 1.0 / d
        reach = min(h, m - 1 - i)
        for j in range(1, reach + 1):
            a = T[i, j]
            if a != 0.0:
                ratio = a * inverse
                for k in range(j, reach + 1):
                    T[i + j, k - j] -= ratio * T[i, k]
        for j in range(1, reach + 1):
            T[i, j] *= inverse
    return -1


@jit
def solve(T, b):
    """Overwrite ``b (m, r)`` with A⁻¹ b, given the factor."""
    m = T.shape[0]
    h = T.shape[1] - 1
    for i in range(m):
        for j in range(1, min(h, m - 1 - i) + 1):
            for r in range(b.shape[1]):
                b[i + j, r] -= T[i, j] * b[i, r]
    for i in range(m - 1, -1, -1):
        for r in range(b.shape[1]):
            b[i, r] /= T[i, 0]
        for j in range(1, min(h, m - 1 - i) + 1):
            for r in range(b.shape[1]):
                b[i, r] -= T[i, j] * b[i + j, r]


@jit
def times(product, d, total):
    """Accumulate ln d: factors are multiplied, and a logarithm taken only near overflow."""
    if not 1e-140 < d < 1e140:
        return product, total + math.log(d)
    product *= d
    if not 1e-140 < product < 1e140:
        return 1.0, total + math.log(product)
    return product, total


@jit
def log_product(T):
    """Σ ln d_i of a factor."""
    product = 1.0
    total = 0.0
    for i in range(T.shape[0]):
        product, total = times(product, T[i, 0], total)
    return total + math.log(product)


@jit
def inverse_on_pattern(T, S):
    """The Takahashi recurrence: elements of A⁻¹ inside the band into ``S (m, h + 1)``."""
    m = T.shape[0]
    h = T.shape[1] - 1
    for i in range(m - 1, -1, -1):
        reach = min(h, m - 1 - i)
        for j in range(reach, 0, -1):
            total = 0.0
            for k in range(1, reach + 1):
                total -= T[i, k] * S[i + min(j, k), abs(j - k)]
            S[i, j] = total
        total = 1.0 / T[i, 0]
        for k in range(1, reach + 1):
            total -= T[i, k] * S[i, k]
        S[i, 0] = total
        for j in range(reach + 1, h + 1):
            S[i, j] = 0.0
