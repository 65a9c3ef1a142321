"""The transfer operator of chains of hard bonds in the rigid ensemble.

The weight √det H^bb (theory.md section 4) is the product of the roots of the pivots, and along a
chain a pivot depends on the one before and on the bend between them (section 3):

    d_{k+1} = w_{k+1} + w_k (1 − w_k c²_{k+1} / d_k) ,   c_{k+1} = cos θ_{k+1} .           (1)

Averages are therefore products of integral operators on functions of one pivot,

    h_k(d_k) = ∫ dθ_{k+1} sin^(dim−2) θ_{k+1} √d_{k+1} h_{k+1}(d_{k+1}) ,                  (2)

with θ_{k+1} between bonds k and k + 1, and h = 1 behind the last bend.  Chains can be drawn bend by
bend, a bend with the density √d_{k+1} h_{k+1}(d_{k+1}).

A pivot enters as z = ln(d/w), between 0 and `reach` = ln(1 + w_before/w), w being the inverse mass
of the bead that ends its bond: functions of d itself would need many more nodes where masses are
uneven.  They are known by their values at Chebyshev nodes, columns h_k (``columns[k]`` is h_{k+1},
bonds counted from 0).  A row r_k integrates over all before pivot k, and A_k (`_operator`) is the
matrix of (2), A_k^(p) with c^p besides, p even, both with √(d/w) for √d, since only ratios matter:

    h_k = A_k h_{k+1} ,   r_{k+1} = r_k A_k ,
    ⟨c^p_{k+1}⟩ = r_k A_k^(p) h_{k+1} / r_k A_k h_{k+1} .                                  (3)
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from fixman._common.arrays import Array

ORDERS = (24, 48, 96)  # nodes of a quadrature: one after the other until the last two agree
SHARPER = 4  # a density needs more terms than an integral
NEGLIGIBLE = 1e-13  # a probability
AGREE = 1e-9  # then the last one's own error is below 1e-12: digits grow by half at each doubling

Found = TypeVar("Found")
Key = tuple[float, ...]  # w_k/w_{k+1} and the reaches before and after: of one bend


class Grid(NamedTuple):
    """Where functions are known, and the quadrature over a bend.

    nodes : of Chebyshev, from −1 to 1 over the reach
    to_series : values at the nodes → coefficients of Chebyshev polynomials
    squares, measure : cos² θ and the weights of the quadrature; in the first quarter alone, of
        which the others are mirror images
    """

    dim: int
    order: int
    nodes: Array
    to_series: Array
    squares: Array
    measure: Array


@cache
def chebyshev(order: int) -> tuple[Array, Array]:
    """Nodes from −1 to 1, and what makes coefficients of values there."""
    angles = np.pi * (np.arange(order) + 0.5) / order
    to_series = np.cos(np.outer(np.arange(order), angles)) * (2.0 / order)
    to_series[0] /= 2.0
    return np.cos(angles), to_series


@cache
def grid_of(order: int, dim: int) -> Grid:
    """Return the grid of one order."""
    points, weights = np.polynomial.legendre.leggauss(order)
    theta = (points + 1.0) * np.pi / 4.0
    measure = weights * np.sin(theta) ** (dim - 2)
    return Grid(dim, order, *chebyshev(order), np.cos(theta) ** 2, measure)


def on_finer_grids(
    compute: Callable[[Grid], Found],
    dim: int,
    watched: Callable[[Found], Array],
    masses: Array,
    bonds: NDArray[np.int64] | None = None,
) -> Found:
    """Compute on finer grids until what is watched agrees; by default neighbours are bonded."""
    found, change = compute(grid_of(ORDERS[0], dim)), 0.0
    for order in ORDERS[1:]:
        before, found = found, compute(grid_of(order, dim))
        values = watched(found)
        change = float(np.abs(values - watched(before)).max(initial=0.0))
        if change < AGREE * max(1.0, np.abs(values).max(initial=0.0)):
            return found
    if bonds is None:
        bonds = np.stack([np.arange(masses.size - 1), np.arange(1, masses.size)], axis=1)
    first, second = bonds[np.argmax(np.abs(np.diff(np.log(masses)[bonds], axis=1)))]
    said = f"the masses are too uneven, the most so between bead {first} and bead {second}"
    raise ValueError(f"{said}: quadratures differ by {change:.0e}")


def reaches(before: Array, w: Array) -> Array:
    """ln(1 + w_before/w); a base has z = 0, and the interval only needs a width."""
    return np.where(before > 0.0, np.log1p(before / w), 1e-6)


def line(
    w: Array, grid: Grid, powers: Sequence[int] = (0, 2)
) -> tuple[Array, list[Key], list[Array], list[Array]]:
    """Start of the averages over a chain of inverse masses w (bonds + 1,), 0 for a base.

    The row that is the value at the first pivot; of each bend the key, the operators
    h ↦ ∫ √(d/w) cos^p θ h(z), (powers, nodes, nodes), and the column of the integrals over all
    bends behind it.
    """
    reach = reaches(w[:-1], w[1:])
    end = 1.0 if w[0] > 0.0 else -1.0  # z_1 is one end of its interval or the other
    keys = list(map(tuple, np.stack([w[1:-1] / w[2:], reach[:-1], reach[1:]], axis=1).tolist()))
    known = {key: _operator(key, grid, powers) for key in dict.fromkeys(keys)}
    found = [known[key] for key in keys]  # most chains repeat themselves
    columns = [np.ones(grid.order)]
    for plain, *_ in reversed(found[1:]):
        columns.append(scaled(plain @ columns[-1]))
    return end ** np.arange(grid.order) @ grid.to_series, keys, found, columns[::-1]


def _operator(key: Key, grid: Grid, powers: Sequence[int]) -> Array:
    _, _, reach = key
    after, root = _pivot_behind(key, grid, grid.squares)
    basis = np.polynomial.chebyshev.chebvander(2.0 * after / reach - 1.0, grid.order - 1)
    weights = grid.measure * root
    integrals = [
        np.einsum("iqm,iq->im", basis, weights * grid.squares ** (power // 2)) for power in powers
    ]
    return np.asarray(np.stack(integrals) @ grid.to_series)


def _pivot_behind(key: Key, grid: Grid, squares: Array) -> tuple[Array, Array]:
    """z and √(d/w) behind a bend, (nodes, bends), by (1): d/w = 1 + ratio (1 − cos² θ e^−z)."""
    ratio, reach, _ = key
    z = reach * (grid.nodes[:, None] + 1.0) / 2.0
    after = np.log1p(ratio * ((1.0 - squares) * np.exp(-z) - np.expm1(-z)))
    return after, np.exp(after / 2.0)


def scaled(values: Array) -> Array:
    """Only ratios matter, and the product over a long chain overflows."""
    return np.asarray(values / np.abs(values).max())


# --- averages over a chain ---------------------------------------------------------------------


def square_cosines(w: Array, grid: Grid) -> Array:
    """⟨cos² θ⟩ of every bend (bends,)."""
    row, _, found, columns = line(w, grid)
    averages = np.empty(len(found))
    for k, (plain, squared) in enumerate(found):
        averages[k] = (row @ squared @ columns[k]) / (row @ plain @ columns[k])  # (3)
        row = scaled(row @ plain)
    return averages


def square_products(w: Array, grid: Grid) -> Array:
    """⟨cos² θ_j cos² θ_k⟩ (bends, bends)."""
    row, _, found, columns = line(w, grid, (0, 2, 4))
    answer = np.empty((len(found), len(found)))
    marked = np.empty((0, grid.order))  # rows with cos² of one bend before under the integral
    for k, (plain, squared, fourth) in enumerate(found):
        whole = row @ plain @ columns[k]
        answer[k, :k] = answer[:k, k] = marked @ (squared @ columns[k]) / whole
        answer[k, k] = row @ fourth @ columns[k] / whole
        marked = np.vstack([marked @ plain, row @ squared])
        row = row @ plain
        size = np.abs(row).max()
        row, marked = row / size, marked / size
    return answer


def bend_series(w: Array, grid: Grid) -> Array:
    """Densities (bends, terms), per radian in the plane and per unit of cos θ in space.

    Coefficients of Chebyshev polynomials in 2 cos² θ − 1, many where a light bead between two heavy
    ones leaves nearly a cusp at θ = 0.
    """
    row, keys, found, columns = line(w, grid, (0,))
    nodes, to_series = chebyshev(SHARPER * grid.order)
    values = np.empty((len(found), nodes.size))
    for k, (plain,) in enumerate(found):
        after, root = _pivot_behind(keys[k], grid, 0.5 * (nodes + 1.0))
        at = 2.0 * after / keys[k][2] - 1.0
        values[k] = row @ (root * np.polynomial.chebyshev.chebval(at, grid.to_series @ columns[k]))
        row = scaled(row @ plain)
    answer = values @ to_series.T
    whole = 2.0 * np.pi * answer[:, :1]
    if grid.dim == 3:  # ∫ T_2m(c) dc from −1 to 1
        whole = answer @ (2.0 / (1.0 - 4.0 * np.arange(nodes.size) ** 2))[:, None]
    answer /= whole
    kept = np.flatnonzero(np.abs(answer).max(axis=0) > NEGLIGIBLE)
    return answer[:, : max(kept[-1] + 1, ORDERS[0])]


def fourth_end_to_end(w: Array, grid: Grid) -> Array:
    """⟨R⁴⟩ by the recursion of `fixman.analytic.mean_fourth_end_to_end`, L = 1; ``along`` is q²."""
    row, _, found, _ = line(w, grid)
    one, square, along, fourth = row, row, row, row
    for plain, squared in found:
        one = one @ plain
        next_along = along @ squared + (square - along) @ (plain - squared) / (grid.dim - 1)
        fourth = fourth @ plain + 2.0 * (square @ plain) + 4.0 * next_along + one
        square = square @ plain + one
        along = next_along + one
        size = np.abs(one).max()
        one, square, along, fourth = one / size, square / size, along / size, fourth / size
    return np.asarray(fourth.sum() / one.sum())


# --- trees -----------------------------------------------------------------------------------

SAME = 4e-15  # columns that differ by no more are rounded ones of the same function


class Acceptances(NamedTuple):
    """Probabilities, √d h(d) over its largest, with which a bond drawn at random is kept.

    which (bonds,) : the function of each bond
    series, offsets : of each function, coefficients of Chebyshev polynomials in 2 z/reach − 1
    least, slope : of each function, its value at z = 0, and 2/reach
    """

    which: NDArray[np.int64]
    series: Array
    offsets: NDArray[np.int64]
    least: Array
    slope: Array


def acceptances(
    w: Array, parents: NDArray[np.int64], last: NDArray[np.bool_], grid: Grid
) -> Acceptances:
    """Return the probabilities of a tree whose beads come before their parents, the root last.

    Bond k joins bead k to its parent.  ``last (bonds,)`` tells whether its pivot ends a chain, in a
    branch point or in the root, so that h = 1.  √d grows with d, and with it the integral of what
    grows: the largest value is at the largest pivot, where the bend is a right angle.

    O(bonds), and an operator for each bend unlike all before.
    """
    reach = reaches(w[:-1], w[parents])
    ratio = w[parents] / w[parents[np.minimum(parents, parents.size - 1)]]  # the last is unused
    columns: list[Array] = []
    ranges: list[float] = []
    operator = cache(lambda bend: _operator(bend, grid, (0,))[0])
    latest: dict[Key, int] = {}
    known: dict[Key, int] = {}
    which = [0] * parents.size
    rows = list(zip(parents.tolist(), last.tolist(), reach.tolist(), ratio.tolist(), strict=True))
    for k in range(parents.size - 1, -1, -1):
        parent, ends, own, step = rows[k]
        bend = (0.0, own, 0.0) if ends else (step, own, rows[parent][2])
        key = (*bend, -1 if ends else which[parent])
        if key not in known:
            column = np.ones(grid.order)
            if not ends:
                column = scaled(operator(bend) @ columns[which[parent]])
            same = latest.get(bend, -1)
            if same < 0 or np.abs(columns[same] - column).max() > SAME:
                same = latest[bend] = len(columns)
                columns.append(column)
                ranges.append(own)
            known[key] = same
        which[k] = known[key]
    widths = np.array(ranges)
    values = np.reshape(columns, (-1, grid.order))
    series = values * np.exp(0.25 * widths[:, None] * (grid.nodes - 1.0)) @ grid.to_series.T
    series /= series.sum(axis=1, keepdims=True)
    rest = np.cumsum(np.abs(series[:, ::-1]), axis=1)[:, ::-1]
    kept = rest > NEGLIGIBLE
    offsets = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    least = series @ (-1.0) ** np.arange(grid.order)
    return Acceptances(np.array(which, np.int64), series[kept], offsets, least, 2.0 / widths)
