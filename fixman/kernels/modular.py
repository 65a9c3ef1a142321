"""Elimination of the hard rows in a finite field, where nothing is nearly zero.

Arithmetic is modulo the prime P = 2⁶¹ − 1.  Rows are multiples of Wilson's that take no roots, so
that they are rational in the positions, and H = B D Bᵀ with a random diagonal D is factored on the
pattern of H^bb (see `sparse`).  A pivot is zero exactly where a row depends on those before it.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit
from fixman.kernels.geometry import ANGLE, LENGTH

PRIME = 2**61 - 1
_P = np.uint64(PRIME)
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_LOW30, _LOW31 = np.uint64(2**30 - 1), np.uint64(2**31 - 1)
_30, _31, _61 = np.uint64(30), np.uint64(31), np.uint64(61)


@jit
def add(a, b):
    total = a + b
    return total - _P if total >= _P else total


@jit
def less(a, b):
    return a - b if a >= b else a + (_P - b)


@jit
def times(a, b):
    """Multiply in halves of 31 bits; 2⁶¹ is 1."""
    low_a, high_a = a & _LOW31, a >> _31
    low_b, high_b = b & _LOW31, b >> _31
    middle = high_a * low_b + low_a * high_b
    total = ((high_a * high_b) << _ONE) + low_a * low_b
    total += (middle >> _30) + ((middle & _LOW30) << _31)
    total = (total & _P) + (total >> _61)
    return total - _P if total >= _P else total


@jit
def inverse(a):
    """Return a to the power P − 2, all of whose 61 bits are set but bit 1; 0 of 0."""
    power = a
    result = _ONE
    for bit in range(61):
        if bit != 1:
            result = times(result, power)
        power = times(power, power)
    return result


@jit
def dot(a, b):
    return add(add(times(a[0], b[0]), times(a[1], b[1])), times(a[2], b[2]))


@jit
def cross(a, b):
    return (
        less(times(a[1], b[2]), times(a[2], b[1])),
        less(times(a[2], b[0]), times(a[0], b[2])),
        less(times(a[0], b[1]), times(a[1], b[0])),
    )


@jit
def combination(s, a, t, b):
    return (
        add(times(s, a[0]), times(t, b[0])),
        add(times(s, a[1]), times(t, b[1])),
        add(times(s, a[2]), times(t, b[2])),
    )


@jit
def bond(X, i, j):
    return less(X[j, 0], X[i, 0]), less(X[j, 1], X[i, 1]), less(X[j, 2], X[i, 2])


@jit
def put(B, slot, g):
    B[slot, 0], B[slot, 1], B[slot, 2] = g[0], g[1], g[2]


@jit
def rational_row(kind, row, X, B):
    """A multiple of a Wilson row without roots, into ``B (4, 3)``."""
    B[:] = _ZERO
    none = (_ZERO, _ZERO, _ZERO)
    minus = _P - _ONE
    if kind == LENGTH:  # L ∂L
        u = bond(X, row[0], row[1])
        put(B, 1, u)
        put(B, 0, combination(minus, u, _ZERO, none))
    elif kind == ANGLE:  # L_u L_v ∂cos θ, of two bonds from the vertex
        u = bond(X, row[1], row[0])
        v = bond(X, row[1], row[2])
        c = dot(u, v)
        gu = combination(_ONE, v, less(_ZERO, times(c, inverse(dot(u, u)))), u)
        gv = combination(_ONE, u, less(_ZERO, times(c, inverse(dot(v, v)))), v)
        put(B, 0, gu)
        put(B, 2, gv)
        put(B, 1, combination(minus, gu, minus, gv))
    else:  # ∂φ / L of the axis (Blondel & Karplus 1996)
        f = bond(X, row[1], row[0])
        g = bond(X, row[2], row[1])
        h = bond(X, row[2], row[3])
        a = cross(f, g)
        b = cross(h, g)
        a = combination(inverse(dot(a, a)), a, _ZERO, none)
        b = combination(inverse(dot(b, b)), b, _ZERO, none)
        axis = inverse(dot(g, g))
        s = times(dot(f, g), axis)
        t = times(dot(h, g), axis)
        put(B, 0, combination(minus, a, _ZERO, none))
        put(B, 1, combination(add(_ONE, s), a, less(_ZERO, t), b))
        put(B, 2, combination(less(_ZERO, s), a, less(t, _ONE), b))
        put(B, 3, b)


@jit
def hard_matrix(kinds, beads, terms, X, D, V):
    """Lower triangle of B D Bᵀ into V, at positions ``X (n + 3, 3)``, weights ``D (n, 3)``."""
    B = np.empty((kinds.size, 4, 3), np.uint64)
    for r in range(kinds.size):
        rational_row(kinds[r], beads[r], X, B[r])
    V[:] = _ZERO
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
            if ratio != _ZERO:
                for p in range(q, first[k + 1]):
                    work[row[p]] = less(work[row[p]], times(ratio, V[p]))
        d = work[j]
        dependent[j] = d == _ZERO
        V[begin] = d
        over = inverse(d)  # 0 of 0
        for p in range(begin + 1, end):
            V[p] = times(over, work[row[p]])


@jit
def combine(V, first, row, left_first, left_place, left_column, share):
    """Multiples of all rows that add up to zero, given those of the dependent ones.

    ``share (m,)`` holds these and 0 elsewhere: Lᵀ share = 0 at the other rows.  With random
    numbers, no row that is part of any vanishing combination ends with 0 but by accident.
    """
    for j in range(first.size - 2, -1, -1):
        if V[first[j]] != _ZERO:
            total = _ZERO
            for p in range(first[j] + 1, first[j + 1]):
                total = add(total, times(V[p], share[row[p]]))
            share[j] = less(_ZERO, total)
