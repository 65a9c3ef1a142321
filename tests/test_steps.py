"""Steps of kernels: what is written into a kernel is what Python would compute."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core.errors import TypingError

from fixman.kernels.algebra.vectors import cross
from fixman.kernels.compiler.lanes import above, eight, exact, exact_kernel, load, store
from fixman.kernels.compiler.steps import step

HALF = 0.5


def squared(x):
    return x * x


def mixed(table, k, x, pair):
    """Every operation, constants of the module, numbers of both kinds, unrolled loops."""
    y, (z, count) = pair
    total = -x + HALF
    for j in range(3):
        total = total + table[k + j] * y - z / (1 + squared(y))
    total = 2 * total - total / count + (count + k - 1) * z
    ones = tuple(total * j for j in range(2))
    return (k * 2 + (k & -2), ones), total - 1


written = step(mixed)


@exact_kernel
def one(table, k, x, y, z, count):
    return written(table, k, x, (y, (z, count)))


@exact_kernel
def many(table, k, x, y, z, count, out):
    """Put two of the results into ``out``, x in lanes."""
    (_, ones), last = written(table, k, load(x, 0, eight(0.0)), (y, (z, count)))
    store(out, 0, ones[1])
    store(out, 1, last)


def test_a_step_is_the_function():
    rng = np.random.default_rng(0)
    table = rng.normal(size=9)
    for k in range(6):
        x = rng.normal(size=8)
        y, z = rng.normal(size=2)
        out = np.empty(16)
        many(table, k, x, y, z, k + 3, out)
        for lane in range(8):
            expected = mixed(table, k, x[lane], (y, (z, k + 3)))
            assert one(table, k, x[lane], y, z, k + 3) == expected
            assert (out[lane], out[8 + lane]) == (expected[0][1][1], expected[1])


@exact
def doubled(x):
    return 2.0 * x[0], 2.0 * x[1], 2.0 * x[2]


@step
def turned(x, y, least):
    z = cross(x, doubled(y))
    return z, above(z[0], least) & above(z[2], least)


@exact_kernel
def turn(x, y, least):
    return turned((x[0], x[1], x[2]), (y[0], y[1], y[2]), least)


def test_steps_call_what_kernels_call():
    rng = np.random.default_rng(1)
    for _ in range(20):
        x, y = rng.normal(size=(2, 3))
        z, good = turn(x, y, 0.1)
        assert z == pytest.approx(np.cross(x, 2 * y), rel=1e-12, abs=1e-15)
        assert good == (z[0] > 0.1 and z[2] > 0.1)


def negative(x):
    return x[0] < 0.0


def first(x):
    return x[0] if x[0] else -x[0]


def whole(x):
    return sum(x)


@step
def added(flat, square, i):
    for j in range(3):
        flat[j] += abs(square[i, j])
        square[i, j] = 2 * flat[j]
    return square[i, 0] - flat[2]


@exact_kernel
def add(flat, square, i):
    return added(flat, square, i)


@pytest.mark.parametrize("transposed", [False, True])
def test_elements_of_arrays(transposed):
    rng = np.random.default_rng(2)
    flat, square = rng.normal(size=3), rng.normal(size=(3, 3))
    square = square.T if transposed else square
    expected = square.copy()
    total = flat + np.abs(square[1])
    expected[1] = 2 * total
    assert add(flat, square, 1) == expected[1, 0] - total[2]
    assert np.array_equal(flat, total)
    assert np.array_equal(square, expected)


@pytest.mark.parametrize(
    ("function", "text"),
    [(negative, "not supported between"), (first, "cannot branch"), (whole, "not iterable")],
)
def test_what_a_step_cannot_do_is_an_error(function, text):
    part = step(function)

    @exact_kernel
    def kernel(x):
        return part(x)

    with pytest.raises((TypingError, TypeError), match=text):
        kernel(np.ones(3))
