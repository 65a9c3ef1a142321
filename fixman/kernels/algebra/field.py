"""The field of the integers modulo the prime P = 2⁶¹ − 1, where nothing is nearly zero."""

import numpy as np

from fixman.kernels import jit
from fixman.kernels.compiler.steps import exact_step

PRIME = P = 2**61 - 1
BITS = 61
LOW30, LOW31 = 2**30 - 1, 2**31 - 1
NOTHING = (0, 0, 0)
ZERO, ONE = np.uint64(0), np.uint64(1)  # in kernels; in steps these are plain numbers


@exact_step
def reduced(x):
    """Return x modulo P, of x below 2 P."""
    return (x + ((x + 1) >> BITS)) & P


@exact_step
def add(a, b):
    return reduced(a + b)


@exact_step
def less(a, b):
    return reduced(a - b + P)


@exact_step
def times(a, b):
    """Multiply in halves of 31 bits; 2⁶¹ is 1."""
    low_a, high_a = a & LOW31, a >> 31
    low_b, high_b = b & LOW31, b >> 31
    middle = high_a * low_b + low_a * high_b
    total = ((high_a * high_b) << 1) + low_a * low_b
    total = total + (middle >> 30) + ((middle & LOW30) << 31)
    return reduced((total & P) + (total >> BITS))


@jit
def inverse(a):
    """Return a to the power P − 2, all of whose 61 bits are set but bit 1; 0 of 0."""
    power = a
    result = ONE
    for bit in range(BITS):
        if bit != 1:
            result = times(result, power)
        power = times(power, power)
    return result


@exact_step
def dot(a, b):
    return add(add(times(a[0], b[0]), times(a[1], b[1])), times(a[2], b[2]))


@exact_step
def cross(a, b):
    turns = ((1, 2), (2, 0), (0, 1))
    return tuple(less(times(a[i], b[j]), times(a[j], b[i])) for i, j in turns)


@exact_step
def plus(a, b):
    return add(a[0], b[0]), add(a[1], b[1]), add(a[2], b[2])


@exact_step
def minus(a, b):
    return less(a[0], b[0]), less(a[1], b[1]), less(a[2], b[2])


@exact_step
def scaled(s, a):
    return times(s, a[0]), times(s, a[1]), times(s, a[2])
