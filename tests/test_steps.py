"""Steps of kernels: what is written into a kernel is what Python would compute."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.errors import TypingError

from fixman.kernels.algebra.vectors import cross
from fixman.kernels.compiler.lanes import above, eight, exact, exact_kernel, load, root, store
from fixman.kernels.compiler.steps import chosen, exact_step, moving, rates, step, still

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


# --- one of several, and rates -------------------------------------------------------------------


class Shape(NamedTuple):
    """A record with a number, and with a step or none."""

    power: int
    function: Any


@exact_step
def ratio(x, y):
    return x / root(x * x + y * y) - 0.5 * y, 1.0


@exact_step
def frozen(x, y):
    return still(x) * y, 1.0


SHAPES = (Shape(1, ratio), Shape(3, frozen), Shape(2, ratio))


@chosen(SHAPES)
def shaped(shape, table, k, x, y):
    power = x
    for _ in range(shape.power - 1):
        power = power * x
    table[k] = power
    value, one = shape.function(power, y)
    return value, one


@chosen(SHAPES)
def slope(shape, x, y, dx, dy):
    return rates(shape.function(moving(x, dx), moving(y, dy))[0])


@exact_kernel
def shapes(number, table, x, y, out):
    for j in range(table.size):
        out[j] = shaped(number, table, j, x[j], y)[0]


@chosen(SHAPES)
def plain(shape, x):
    return 1.0 if shape.power == 1 else x  # a number takes the type of the others


@exact_kernel
def in_lanes(number, x, out):
    store(out, 0, plain(number, load(x, 0, eight(0.0))))


@exact_kernel
def slopes(number, x, y, dx, dy):
    return slope(number, x, y, dx, dy)


def function(number, x, y):
    power = x ** SHAPES[number].power
    return power * y if number == 1 else power / np.sqrt(power * power + y * y) - 0.5 * y


@pytest.mark.parametrize("number", range(3))
def test_a_chosen_step_is_that_of_its_record(number):
    x, table, out = np.array([0.4, -1.3]), np.zeros(2), np.zeros(2)
    shapes(np.int8(number), table, x, 0.7, out)
    assert table == pytest.approx(x ** SHAPES[number].power)
    assert out == pytest.approx([function(number, a, 0.7) for a in x])


@pytest.mark.parametrize("number", [0, 1])
def test_a_step_differentiates_itself(number):
    x, y, dx, dy, h = 0.8, -0.3, 0.4, 1.7, 1e-6
    if number == 1:  # the first factor is taken to stay
        assert slopes(number, x, y, dx, dy) == pytest.approx(x * dy)
        return

    def along(t):
        power = x + t * dx
        return power / np.hypot(power, y + t * dy) - 0.5 * (y + t * dy)

    assert slopes(number, x, y, dx, dy) == pytest.approx((along(h) - along(-h)) / (2 * h), rel=1e-8)


def test_plain_numbers_go_into_every_lane():
    x, out = np.arange(8.0), np.zeros(8)
    in_lanes(0, x, out)
    assert np.array_equal(out, np.ones(8))
    in_lanes(1, x, out)
    assert np.array_equal(out, x)
