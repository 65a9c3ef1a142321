"""The field of the integers modulo the prime P = 2⁶¹ − 1, where nothing is nearly zero."""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit

PRIME = 2**61 - 1
P = np.uint64(PRIME)
ZERO, ONE = np.uint64(0), np.uint64(1)
NOTHING = (ZERO, ZERO, ZERO)
_LOW30, _LOW31 = np.uint64(2**30 - 1), np.uint64(2**31 - 1)
_30, _31, _61 = np.uint64(30), np.uint64(31), np.uint64(61)


@jit
def add(a, b):
    total = a + b
    return total - P if total >= P else total


@jit
def less(a, b):
    return a - b if a >= b else a + (P - b)


@jit
def times(a, b):
    """Multiply in halves of 31 bits; 2⁶¹ is 1."""
    low_a, high_a = a & _LOW31, a >> _31
    low_b, high_b = b & _LOW31, b >> _31
    middle = high_a * low_b + low_a * high_b
    total = ((high_a * high_b) << ONE) + low_a * low_b
    total += (middle >> _30) + ((middle & _LOW30) << _31)
    total = (total & P) + (total >> _61)
    return total - P if total >= P else total


@jit
def inverse(a):
    """Return a to the power P − 2, all of whose 61 bits are set but bit 1; 0 of 0."""
    power = a
    result = ONE
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
def scaled(s, a):
    return times(s, a[0]), times(s, a[1]), times(s, a[2])


@jit
def opposite(a):
    return less(ZERO, a[0]), less(ZERO, a[1]), less(ZERO, a[2])


@jit
def difference(X, j, i):
    """Return point j − point i."""
    return less(X[j, 0], X[i, 0]), less(X[j, 1], X[i, 1]), less(X[j, 2], X[i, 2])
