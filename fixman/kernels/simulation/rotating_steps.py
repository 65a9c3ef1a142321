"""Projections of freely rotating linear chains that move: hard bonds and hard bends, base free.

A bend is held by the distance of its outer beads, which makes every row quadratic in the positions:
bond b_i = x_{i+1} − x_i, span c_i = b_i + b_{i+1}.  The manifold is the same, and det H differs by
a constant.  This degenerates where a bend is straight or folded back.

In the order b_0, c_0, b_1, c_1, … the matrices have, below the diagonal, three elements in the
column of a bond and four in that of a span:

    b_i:  c_i, b_{i+1}, c_{i+1}             c_i:  b_{i+1}, c_{i+1}, b_{i+2}, c_{i+2}

They are made of products of bonds up to three apart, b_i·b_j, of which all but those two and three
apart are constant on the manifold.  Elimination carries what it subtracts from later columns along
in registers.  Behind the last bond there are others of no length, and spans with a pivot of 1.
Arrays are described in `jointed_steps`.  Steps are 2.8 to 3.8 times faster than those of
`general_steps`, in lanes 2.4 to 3.3.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra.vectors import (
    Axes,
    along,
    inner,
    minus,
    plus,
    put_vector,
    scaled,
    vector,
)
from fixman.kernels.compiler.lanes import (
    beyond,
    choose,
    everywhere,
    exact,
    exact_arrays,
    fma,
    lanes,
    ln,
    load,
    memory,
    smaller,
    store,
)
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.sparse import LN2, multiplied
from fixman.kernels.simulation.jointed_steps import ITERATIONS, excess, move, shift

FACTOR = 9  # units a bond: L below the two pivots, and the reciprocals of these


class Rotating(NamedTuple):
    """Inverse masses ``w`` (n + 3,), three of them 0 behind the last bead."""

    w: np.ndarray[Any, np.dtype[np.float64]]
    axes: Axes


@exact_arrays
def room(system, targets, like):
    """Squares of the lengths, products of successive bonds, and work.

    ``targets`` are in public order: length of bond 0, then length and angle of each other bond.
    """
    bonds = system.w.size - 4
    squares = memory(bonds + 3, like)
    products = memory(bonds + 3, like)
    work = memory((FACTOR + 5) * (bonds + 3), like)
    width = lanes(like)
    own = targets.size // width
    for lane in range(width):
        before = 0.0
        for k in range(bonds):
            at = lane * own + max(2 * k - 1, 0)
            length = targets[at]
            squares[width * k + lane] = length * length
            if k > 0:
                products[width * (k - 1) + lane] = before * length * math.cos(targets[at + 1])
            before = length
    return squares, products, work


@exact
def bond(X, k, bonds, axes, like):
    """Return x_{k+1} − x_k, nothing before the first bond and behind the last."""
    # Without a branch, in which numba would count references to X.
    begin = vector(X, min(max(k, 0), bonds), axes, like)
    return minus(vector(X, min(max(k + 1, 0), bonds), axes, like), begin)


# --- elimination ---------------------------------------------------------------------------------
#
# Bonds are counted from the one at hand; dij is b_i·e_j.  If the matrix is not symmetric the same
# steps make the elements below the pivots, of b_i·e_j, and those to the right, of e_i·b_j.
# ``weights`` are w_0 and w_2, which a span has, w_1 if there is a span 1 and w_2 if a span 2.
# Below the two pivots are l1, l2, l3 of the bond and q1, …, q4 of its span, in the order given
# above; to the right, divided by the pivots, u1, u2, u3 and p1, …, p4.  Later elements lose the
# products of both.  A symmetric factor keeps l1, l2, l3 and k1, …, k4, divided by the pivots.


@exact_step
def products(known, bs, es):
    """Columns of b_i·e_j, rows, c_0·(e_0 + e_1), and what the next bond knows of them."""
    d00, d01, d10, d11, d02, d20 = known
    b0, b1, b2, b3 = bs
    e0, e1, e2, e3 = es
    d12, d21, d22 = inner(b1, e2), inner(b2, e1), inner(b2, e2)
    d13, d31 = inner(b1, e3), inner(b3, e1)
    d03, d30 = inner(b0, e3), inner(b3, e0)
    below = (d00, d10, d20, d30), (d11, d21, d31)
    beside = (d00, d01, d02, d03), (d11, d12, d13)
    return below, beside, (d00 + d01) + (d10 + d11), (d11, d12, d21, d22, d13, d31)


@exact_step
def first_products(bs, es):
    b0, b1, b2 = bs
    e0, e1, e2 = es
    return (
        inner(b0, e0), inner(b0, e1), inner(b1, e0), inner(b1, e1), inner(b0, e2), inner(b2, e0)
    )  # fmt: skip


@exact_step
def lacking(b, square):
    return fma(-0.5, inner(b, b), 0.5 * square)


@exact_step
def bond_column(weights, w1, d, taken):
    """Elements of the column of a bond: of its span, the next bond and its span."""
    (d00, d10, d20, _), _ = d
    a1, a2, a3 = taken
    return fma(weights[0], d00 + d10, -a1), fma(-w1, d10, -a2), fma(-weights[2], d10 + d20, -a3)


@exact_step
def span_column(weights, column, first, d, taken):
    """Elements of the column of a span: of the next two bonds and their spans.

    ``first`` is the element of the span in the row of the bond.
    """
    (_, d10, d20, d30), (d11, d21, d31) = d
    _, l2, l3 = column
    g1, g2 = taken
    return (
        fma(-l2, first, fma(weights[1], d10 + d11, -g1)),
        fma(-l3, first, -g2),
        -weights[1] * (d20 + d21),
        -weights[3] * ((d20 + d30) + (d21 + d31)),
    )


@exact_step
def times(s, a):
    return tuple(s * x for x in a)


@exact_step
def keep(work, at, numbers):
    for k in range(len(numbers)):
        store(work, at + k, numbers[k])


@exact_step
def from_columns(columns, rows, waiting):
    """Updates of the columns of the next bond, of its span and of the bond behind them."""
    (_, _, l3), (_, q2, q3, q4) = columns
    (_, u2, _), (p1, p2, p3, _) = rows
    return (fma(l3, u2, fma(q2, p1, waiting)), q3 * p1, q4 * p1), (q3 * p2, q4 * p2), q4 * p3


@exact_step
def from_pivots(columns, rows, waiting):
    """Updates of the next two pivots by a bond and its span, and of those behind, which wait."""
    (_, l2, l3), (q1, q2, q3, q4) = columns
    (_, u2, u3), (p1, p2, p3, p4) = rows
    h, k = waiting
    return fma(l2, u2, fma(q1, p1, h)), fma(l3, u3, fma(q2, p2, k)), (q3 * p3, q4 * p4)


@exact_step
def from_right_side(columns, y, y1, waiting):
    (_, l2, l3), (q1, q2, q3, q4) = columns
    h, k = waiting
    return fma(l2, y, fma(q1, y1, h)), fma(l3, y, fma(q2, y1, k)), (q3 * y1, q4 * y1)


@exact_step
def kept(work, at, like):
    """Return the columns of a bond and a span from the factor."""
    l1, l2, l3, _, k1, k2, k3, k4 = (load(work, at + j, like) for j in range(1, 9))
    return (l1, l2, l3), (k1, k2, k3, k4)


@exact_step
def substituted(work, at, x0, y0, pushes, like):
    """λ of a bond and μ of its span: back substitution, given those of the next two."""
    x1, y1, x2, y2 = pushes
    y0 = fma(-load(work, at + 8, like), y2, y0)
    y0 = fma(-load(work, at + 7, like), x2, y0)
    y0 = fma(-load(work, at + 6, like), y1, y0)
    y0 = fma(-load(work, at + 5, like), x1, y0)
    x0 = fma(-load(work, at + 3, like), y1, x0)
    x0 = fma(-load(work, at + 2, like), x1, x0)
    return fma(-load(work, at + 1, like), y0, x0), y0


@exact_step
def pushed_through(pushes, y0, e0, e1, e2):
    """e_1 λ_1 + (e_0 + e_1) μ_0 + (e_1 + e_2) μ_1: what λ and μ push through bond 1."""
    x1, y1, _, _ = pushes
    return along(y1, e2, along(y0, e0, scaled(x1 + (y1 + y0), e1)))


# --- positions -----------------------------------------------------------------------------------


@exact
def hold(system, room, X0, X, V, rate, limits, like):
    """Newton's method for the lengths and spans of X, as in `jointed_steps.hold`."""
    tolerance, iterations = limits
    zero = 0.0 * like
    busy = everywhere(like)
    lost = 0
    for _ in range(min(iterations, ITERATIONS)):
        smallest = eliminate(system, room, X0, X, like)
        positive = busy & ~beyond(zero, smallest)
        lost |= busy & ~positive
        busy = positive
        change = push_back(system, room, X0, X, V, (rate, 2.0 * tolerance), busy, like)
        busy &= beyond(change, zero)
        if busy == 0:
            break
    return lost | busy


@exact
def eliminate(system, room, X0, X, like):
    """LU of B(X) M⁻¹ B(X0)ᵀ, which is not symmetric, and L⁻¹ r; returns the smallest pivot."""
    w = system.w
    axes = system.axes
    squares, angles, work = room
    bonds = w.size - 4
    zero = 0.0 * like
    one = zero + 1.0
    none = zero, zero, zero
    smallest = one
    b0 = bond(X, 0, bonds, axes, like)
    b1 = bond(X, 1, bonds, axes, like)
    b2 = bond(X, 2, bonds, axes, like)
    e0 = bond(X0, 0, bonds, axes, like)
    e1 = bond(X0, 1, bonds, axes, like)
    e2 = bond(X0, 2, bonds, axes, like)
    known = first_products((b0, b1, b2), (e0, e1, e2))
    # residuals of squares and products
    r0 = lacking(b0, load(squares, 0, like))
    s0 = load(angles, 0, like) - inner(b0, b1)
    # taken off already: below the pivots and to the right, of bond 0 and its span; and of the next
    pivot, pivot1, later = zero, zero, (zero, zero)
    low, low1, low2 = none, (zero, zero), zero
    high, high1, high2 = none, (zero, zero), zero
    z, z1, z2 = zero, zero, (zero, zero)
    for i in range(bonds):
        w0, w1, w2 = w[i], w[i + 1], w[i + 2]
        span = i + 1 < bonds
        b3 = bond(X, i + 3, bonds, axes, like)
        e3 = bond(X0, i + 3, bonds, axes, like)
        below, beside, whole, known = products(known, (b0, b1, b2, b3), (e0, e1, e2, e3))
        r1 = lacking(b1, load(squares, i + 1, like))
        weights = (
            w0 if span else 0.0, w2, w1 if i + 2 < bonds else 0.0, w2 if i + 3 < bonds else 0.0
        )  # fmt: skip
        # the bond
        d = fma(w0 + w1, below[0][0], -pivot)
        smallest = smaller(d, smallest)
        inverse = 1.0 / d
        column = bond_column(weights, w1, below, low)
        row = scaled(inverse, bond_column(weights, w1, beside, high))
        y = (r0 - z) * inverse
        keep(work, FACTOR * i, (y, *row))
        # the span
        c = fma(w0 + w2, whole, -pivot1) if span else one
        c = fma(-column[0], row[0], c)
        smallest = smaller(c, smallest)
        inverse = 1.0 / c
        columns = column, span_column(weights, column, row[0], below, low1)
        rows = row, times(inverse, span_column(weights, row, column[0], beside, high1))
        # ½ (c² − |b₀ + b₁|²)
        y1 = (fma(-column[0], y, (r0 + r1) + s0 - z1) if span else zero) * inverse
        keep(work, FACTOR * i + 4, (y1, *rows[1]))
        pivot, pivot1, later = from_pivots(columns, rows, later)
        low, low1, low2 = from_columns(columns, rows, low2)
        high, high1, high2 = from_columns(rows, columns, high2)
        z, z1, z2 = from_right_side(columns, y, y1, z2)
        # on to the next bond
        s0 = load(angles, i + 1, like) - inner(b1, b2)
        r0 = r1
        b0, b1, b2 = b1, b2, b3
        e0, e1, e2 = e1, e2, e3
    return smallest


@exact
def push_back(system, room, X0, X, V, scales, busy, like):
    """Back substitution; moves X and V, and returns how far the move is beyond ``limit`` L².

    ``scales`` are the factor of what V gets of the move, and the limit.
    """
    w = system.w
    axes = system.axes
    squares, _, work = room
    rate, limit = scales
    bonds = w.size - 4
    zero = 0.0 * like
    none = zero, zero, zero
    change = zero
    pushes = zero, zero, zero, zero  # λ and μ of the next two bonds
    pushed = none  # through bond i + 2
    step1 = none  # the step of joint i + 3
    e1 = e2 = none
    for i in range(bonds - 1, -3, -1):
        e0 = bond(X0, i, bonds, axes, like)
        x0 = y0 = zero
        if i >= 0:
            at = FACTOR * i
            first, second = load(work, at, like), load(work, at + 4, like)
            x0, y0 = substituted(work, at, first, second, pushes, like)
            x0 = choose(busy, x0, zero)
            y0 = choose(busy, y0, zero)
        push = pushed_through(pushes, y0, e0, e1, e2)
        if i + 2 <= bonds:
            step = scaled(w[i + 2], minus(push, pushed))
            move(X, V, i + 2, rate, step, axes, like)
            if i + 3 <= bonds:
                change = excess(change, limit, load(squares, i + 2, like), step, step1)
            step1 = step
        pushed = push
        e1, e2 = e0, e1
        pushes = x0, y0, pushes[0], pushes[1]
    return change


# --- velocities ----------------------------------------------------------------------------------


@exact
def factor(system, room, X, like):
    """LDLᵀ of H: for each bond 1 / d, l1, l2, l3, then 1 / d, k1, … k4 of its span."""
    w = system.w
    axes = system.axes
    squares, angles, work = room
    bonds = w.size - 4
    zero = 0.0 * like
    one = zero + 1.0
    b0 = bond(X, 0, bonds, axes, like)
    b1 = bond(X, 1, bonds, axes, like)
    b2 = bond(X, 2, bonds, axes, like)
    t = inner(b0, b2)
    square = load(squares, 0, like)
    product = load(angles, 0, like)
    pivot, pivot1, later = zero, zero, (zero, zero)
    taken, taken1, taken2 = (zero, zero, zero), (zero, zero), zero
    for i in range(bonds):
        w0, w1, w2 = w[i], w[i + 1], w[i + 2]
        span = i + 1 < bonds
        b3 = bond(X, i + 3, bonds, axes, like)
        t1 = inner(b1, b3)
        square1 = load(squares, i + 1, like)
        product1 = load(angles, i + 1, like)
        below = (square, product, t, inner(b0, b3)), (square1, product1, t1)
        weights = (
            w0 if span else 0.0, w2, w1 if i + 2 < bonds else 0.0, w2 if i + 3 < bonds else 0.0
        )  # fmt: skip
        inverse = 1.0 / fma(w0 + w1, square, -pivot)
        column = bond_column(weights, w1, below, taken)
        row = scaled(inverse, column)
        keep(work, FACTOR * i, (inverse, *row))
        c = fma(w0 + w2, square + (product + product) + square1, -pivot1) if span else one
        inverse = 1.0 / fma(-row[0], column[0], c)
        columns = column, span_column(weights, column, row[0], below, taken1)
        rows = row, times(inverse, columns[1])
        keep(work, FACTOR * i + 4, (inverse, *rows[1]))
        pivot, pivot1, later = from_pivots(columns, rows, later)
        taken, taken1, taken2 = from_columns(columns, rows, taken2)
        square, product, t = square1, product1, t1
        b0, b1, b2 = b1, b2, b3


@exact
def project(system, room, V, X, like):
    """V ← V + M⁻¹ Bᵀ λ with H λ = −B V, given the factor at X."""
    w = system.w
    axes = system.axes
    _, _, work = room
    bonds = w.size - 4
    zero = 0.0 * like
    none = zero, zero, zero
    rest = FACTOR * bonds
    b0 = bond(X, 0, bonds, axes, like)
    v0 = bond(V, 0, bonds, axes, like)
    taken, taken1, later = zero, zero, (zero, zero)
    for i in range(bonds):
        b1 = bond(X, i + 1, bonds, axes, like)
        v1 = bond(V, i + 1, bonds, axes, like)
        at = FACTOR * i
        z = -inner(b0, v0) - taken
        z1 = zero
        if i + 1 < bonds:
            z1 = fma(-load(work, at + 1, like), z, -inner(plus(b0, b1), plus(v0, v1)) - taken1)
        store(work, rest + 2 * i, z * load(work, at, like))
        store(work, rest + 2 * i + 1, z1 * load(work, at + 4, like))
        taken, taken1, later = from_right_side(kept(work, at, like), z, z1, later)
        b0 = b1
        v0 = v1
    pushes = zero, zero, zero, zero
    pushed = none
    e1 = e2 = none
    for i in range(bonds - 1, -3, -1):
        e0 = bond(X, i, bonds, axes, like)
        x0 = y0 = zero
        if i >= 0:
            first, second = load(work, rest + 2 * i, like), load(work, rest + 2 * i + 1, like)
            x0, y0 = substituted(work, FACTOR * i, first, second, pushes, like)
        push = pushed_through(pushes, y0, e0, e1, e2)
        if i + 2 <= bonds:
            shift(V, i + 2, w[i + 2], minus(push, pushed), axes, like)
        pushed = push
        e1, e2 = e0, e1
        pushes = x0, y0, pushes[0], pushes[1]


@exact
def logdet(system, room, like):
    """ln det H of bonds and spans, given the factor."""
    bonds = system.w.size - 4
    product = 0.0 * like + 1.0
    power = 0.0 * like
    for i in range(bonds):
        for at in (FACTOR * i, FACTOR * i + 4):
            product, power = multiplied(product, power, load(room[2], at, like))
    return -(LN2 * power + ln(product))


@exact
def add_metric_force(system, room, F, X, kT, like):
    """Add the exact Fixman force to F, but for its parts along the rows.

    ½ kT ln det H depends on the configuration through t_i = b_i·b_{i+2} and s_i = b_i·b_{i+3}:

        ∂U/∂t_i = −kT [w_{i+1} (S_{b_i,c_{i+1}} + S_{c_{i−1},c_{i+1}})
                       + w_{i+2} (S_{c_i,b_{i+2}} + S_{c_i,c_{i+2}})]
        ∂U/∂s_i = −kT w_{i+2} S_{c_i,c_{i+2}}

    with S = H⁻¹ on the pattern of its factor, by the recurrence of Takahashi from the end.
    """
    w = system.w
    axes = system.axes
    _, _, work = room
    bonds = w.size - 4
    zero = 0.0 * like
    none = zero, zero, zero
    rest = FACTOR * bonds  # from here on −∂U/∂t_i and −∂U/∂s_i
    # S between the rows bond 1, span 1, bond 2, span 2 after those at hand
    s11 = s12 = s13 = s14 = s22 = s23 = s24 = s33 = s34 = s44 = zero
    for i in range(bonds - 1, -1, -1):
        at = FACTOR * i
        k1, k2 = load(work, at + 5, like), load(work, at + 6, like)
        k3, k4 = load(work, at + 7, like), load(work, at + 8, like)
        # c0, …, c4 are S of span i with itself and the four rows behind; a0, …, a3 of bond i
        c1 = -fma(k1, s11, fma(k2, s12, fma(k3, s13, k4 * s14)))
        c2 = -fma(k1, s12, fma(k2, s22, fma(k3, s23, k4 * s24)))
        c3 = -fma(k1, s13, fma(k2, s23, fma(k3, s33, k4 * s34)))
        c4 = -fma(k1, s14, fma(k2, s24, fma(k3, s34, k4 * s44)))
        c0 = load(work, at + 4, like)
        c0 = c0 - fma(k1, c1, fma(k2, c2, fma(k3, c3, k4 * c4)))
        l1, l2, l3 = (
            load(work, at + 1, like),
            load(work, at + 2, like),
            load(work, at + 3, like),
        )
        a1 = -fma(l1, c0, fma(l2, c1, l3 * c2))
        a2 = -fma(l1, c1, fma(l2, s11, l3 * s12))
        a3 = -fma(l1, c2, fma(l2, s12, l3 * s22))
        a0 = load(work, at, like) - fma(l1, a1, fma(l2, a2, l3 * a3))
        # b_i c_{i+1} | c_i b_{i+2} | c_i c_{i+2}, of which the last belongs to t_{i+1} as well
        near = (kT * w[i + 1]) * a3
        far = (kT * w[i + 2]) * c4
        store(work, rest + 2 * i, fma(kT * w[i + 2], c3 + c4, near))
        store(work, rest + 2 * i + 1, far)
        if i + 1 < bonds:
            store(work, rest + 2 * i + 2, load(work, rest + 2 * i + 2, like) + far)
        s33, s34, s44 = s11, s12, s22
        s13, s14, s23, s24 = a2, a3, c1, c2
        s11, s12, s22 = a0, a1, c0
    before = none
    for i in range(bonds):
        b = none
        if i + 2 < bonds:
            b = scaled(load(work, rest + 2 * i, like), bond(X, i + 2, bonds, axes, like))
        if i + 3 < bonds:
            b = along(load(work, rest + 2 * i + 1, like), bond(X, i + 3, bonds, axes, like), b)
        if i >= 2:
            b = along(load(work, rest + 2 * i - 4, like), bond(X, i - 2, bonds, axes, like), b)
        if i >= 3:
            b = along(load(work, rest + 2 * i - 5, like), bond(X, i - 3, bonds, axes, like), b)
        put_vector(F, i, axes, plus(vector(F, i, axes, like), minus(before, b)))
        before = b
    put_vector(F, bonds, axes, plus(vector(F, bonds, axes, like), before))
