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
Arrays are described in `jointed_steps`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.jointed_steps import ITERATIONS
from fixman.kernels.lanes import (
    beyond,
    choose,
    everywhere,
    exact,
    fma,
    lanes,
    larger,
    load,
    memory,
    smaller,
    store,
)
from fixman.kernels.vectors import (
    Axes,
    along,
    inner,
    minus,
    plus,
    put_vector,
    scaled,
    vector,
)

FACTOR = 9  # units a bond: L below the two pivots, and the reciprocals of these


class Rotating(NamedTuple):
    """Inverse masses ``w`` (n + 3,), three of them 0 behind the last bead."""

    w: np.ndarray[Any, np.dtype[np.float64]]
    axes: Axes


@exact
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


@exact
def hold(system, room, X0, X, V, rate, tolerance, like):
    """Newton's method for the lengths and spans of X, as in `jointed_steps.hold`.

    The matrix of B(X) M⁻¹ B(X0)ᵀ is not symmetric: u and p are its elements to the right of the
    pivots of a bond and of a span, l and q those below.
    """
    w = system.w
    axes = system.axes
    squares, products, work = room
    bonds = w.size - 4
    zero = 0.0 * like
    one = zero + 1.0
    limit = 2.0 * tolerance
    busy = everywhere(like)
    lost = 0
    for _ in range(ITERATIONS):
        smallest = one
        b0 = bond(X, 0, bonds, axes, like)
        b1 = bond(X, 1, bonds, axes, like)
        b2 = bond(X, 2, bonds, axes, like)
        e0 = bond(X0, 0, bonds, axes, like)
        e1 = bond(X0, 1, bonds, axes, like)
        e2 = bond(X0, 2, bonds, axes, like)
        # b_i·e_j, i and j counted from the bond at hand
        d00 = inner(b0, e0)
        d01, d10 = inner(b0, e1), inner(b1, e0)
        d11 = inner(b1, e1)
        d02, d20 = inner(b0, e2), inner(b2, e0)
        # what is left of squares and products
        r0 = fma(-0.5, inner(b0, b0), 0.5 * load(squares, 0, like))
        s0 = load(products, 0, like) - inner(b0, b1)
        # taken off already: from the columns of bond and span 0 (a, g), and of the next (h, k)
        a0 = a1 = a2 = a3 = zero
        al1 = al2 = al3 = zero
        g0 = g1 = g2 = zero
        gl1 = gl2 = zero
        h0 = h1 = hl1 = zero
        k0 = zero
        z_a = z_g = z_h = z_k = zero
        for i in range(bonds):
            w0, w1, w2 = w[i], w[i + 1], w[i + 2]
            b3 = bond(X, i + 3, bonds, axes, like)
            e3 = bond(X0, i + 3, bonds, axes, like)
            d12, d21 = inner(b1, e2), inner(b2, e1)
            d13, d31 = inner(b1, e3), inner(b3, e1)
            d03, d30 = inner(b0, e3), inner(b3, e0)
            d22 = inner(b2, e2)
            r1 = fma(-0.5, inner(b1, b1), 0.5 * load(squares, i + 1, like))
            span = i + 1 < bonds
            span1 = i + 2 < bonds
            span2 = i + 3 < bonds
            # the bond
            d = fma(w0 + w1, d00, -a0)
            smallest = smaller(d, smallest)
            inverse = 1.0 / d
            u1 = fma(w0 if span else 0.0, d00 + d01, -a1)
            l1 = fma(w0 if span else 0.0, d00 + d10, -al1)
            u2 = fma(-w1, d01, -a2)
            l2 = fma(-w1, d10, -al2)
            u3 = fma(-w1 if span1 else 0.0, d01 + d02, -a3)
            l3 = fma(-w1 if span1 else 0.0, d10 + d20, -al3)
            z = r0 - z_a
            y = z * inverse
            at = FACTOR * i
            store(work, at, y)
            u1s, u2s, u3s = u1 * inverse, u2 * inverse, u3 * inverse
            store(work, at + 1, u1s)
            store(work, at + 2, u2s)
            store(work, at + 3, u3s)
            # the span
            c = fma(w0 + w2, (d00 + d01) + (d10 + d11), -g0) if span else one
            c = fma(-l1, u1s, c)
            smallest = smaller(c, smallest)
            inverse = 1.0 / c
            p1 = fma(-l1, u2s, fma(w2 if span else 0.0, d01 + d11, -g1))
            q1 = fma(-l2, u1s, fma(w2 if span else 0.0, d10 + d11, -gl1))
            p2 = fma(-l1, u3s, -g2)
            q2 = fma(-l3, u1s, -gl2)
            p3 = -(w2 if span else 0.0) * (d02 + d12)
            q3 = -(w2 if span else 0.0) * (d20 + d21)
            p4 = -(w2 if span2 else 0.0) * ((d02 + d03) + (d12 + d13))
            q4 = -(w2 if span2 else 0.0) * ((d20 + d30) + (d21 + d31))
            # ½ (c² − |b₀ + b₁|²)
            z1 = fma(-l1, y, (r0 + r1) + s0 - z_g) if span else zero
            y1 = z1 * inverse
            p1s, p2s, p3s, p4s = p1 * inverse, p2 * inverse, p3 * inverse, p4 * inverse
            store(work, at + 4, y1)
            store(work, at + 5, p1s)
            store(work, at + 6, p2s)
            store(work, at + 7, p3s)
            store(work, at + 8, p4s)
            # what both take off the two bonds and spans that follow
            a0 = fma(l2, u2s, fma(q1, p1s, h0))
            a1 = fma(l2, u3s, fma(q1, p2s, h1))
            al1 = fma(l3, u2s, fma(q2, p1s, hl1))
            a2, al2 = q1 * p3s, q3 * p1s
            a3, al3 = q1 * p4s, q4 * p1s
            g0 = fma(l3, u3s, fma(q2, p2s, k0))
            g1, gl1 = q2 * p3s, q3 * p2s
            g2, gl2 = q2 * p4s, q4 * p2s
            h0 = q3 * p3s
            h1, hl1 = q3 * p4s, q4 * p3s
            k0 = q4 * p4s
            z_a = fma(l2, y, fma(q1, y1, z_h))
            z_g = fma(l3, y, fma(q2, y1, z_k))
            z_h = q3 * y1
            z_k = q4 * y1
            # on to the next bond
            s0 = load(products, i + 1, like) - inner(b1, b2)
            r0 = r1
            d00, d01, d10, d11 = d11, d12, d21, d22
            d02, d20 = d13, d31
            b0, b1, b2 = b1, b2, b3
            e0, e1, e2 = e1, e2, e3
        positive = busy & ~beyond(zero, smallest)
        lost |= busy & ~positive
        busy = positive
        change = push_back(system, work, X0, X, V, squares, rate, limit, busy, like)
        busy &= beyond(change, zero)
        if busy == 0:
            break
    return lost | busy


@exact
def push_back(system, work, X0, X, V, squares, rate, limit, busy, like):
    """Back substitution; moves X and V, and returns how far the move is beyond ``limit`` L².

    A multiplier λ of a bond and μ of a span push through bond k
    e_k λ_k + (e_{k−1} + e_k) μ_{k−1} + (e_k + e_{k+1}) μ_k.
    """
    w = system.w
    axes = system.axes
    bonds = w.size - 4
    zero = 0.0 * like
    none = zero, zero, zero
    change = zero
    x1 = x2 = y1 = y2 = zero  # λ and μ of the next bonds
    pushed = none  # through bond i + 2
    step1 = none  # of joint i + 3
    e1 = e2 = none
    for i in range(bonds - 1, -3, -1):
        e0 = bond(X0, i, bonds, axes, like)
        x0 = y0 = zero
        if i >= 0:
            at = FACTOR * i
            y0 = fma(-load(work, at + 8, like), y2, load(work, at + 4, like))
            y0 = fma(-load(work, at + 7, like), x2, y0)
            y0 = fma(-load(work, at + 6, like), y1, y0)
            y0 = fma(-load(work, at + 5, like), x1, y0)
            x0 = fma(-load(work, at + 3, like), y1, load(work, at, like))
            x0 = fma(-load(work, at + 2, like), x1, x0)
            x0 = fma(-load(work, at + 1, like), y0, x0)
            x0 = choose(busy, x0, zero)
            y0 = choose(busy, y0, zero)
        # through bond i + 1, now that span i is known
        push = scaled(x1 + (y1 + y0), e1)
        push = along(y1, e2, along(y0, e0, push))
        if i + 2 <= bonds:
            step = scaled(w[i + 2] + zero, minus(push, pushed))
            put_vector(X, i + 2, axes, plus(vector(X, i + 2, axes, like), step))
            put_vector(V, i + 2, axes, along(rate + zero, step, vector(V, i + 2, axes, like)))
            if i + 3 <= bonds:
                moved = minus(step1, step)
                excess = fma(-limit, load(squares, i + 2, like), inner(moved, moved))
                change = larger(excess, change)
            step1 = step
        pushed = push
        e2 = e1
        e1 = e0
        x2 = x1
        y2 = y1
        x1 = x0
        y1 = y0
    return change


@exact
def factor(system, room, X, like):
    """LDLᵀ of H: for each bond l1, l2, l3, 1 / d, then k1, … k4, 1 / d of its span."""
    w = system.w
    axes = system.axes
    squares, products, work = room
    bonds = w.size - 4
    zero = 0.0 * like
    one = zero + 1.0
    b0 = bond(X, 0, bonds, axes, like)
    b1 = bond(X, 1, bonds, axes, like)
    b2 = bond(X, 2, bonds, axes, like)
    t = inner(b0, b2)
    square = load(squares, 0, like)
    product = load(products, 0, like)
    a0 = a1 = a2 = a3 = zero
    g0 = g1 = g2 = zero
    h0 = h1 = k0 = zero
    for i in range(bonds):
        w0, w1, w2 = w[i], w[i + 1], w[i + 2]
        span = i + 1 < bonds
        span1 = i + 2 < bonds
        span2 = i + 3 < bonds
        b3 = bond(X, i + 3, bonds, axes, like)
        t1 = inner(b1, b3)
        far = inner(b0, b3)
        square1 = load(squares, i + 1, like)
        product1 = load(products, i + 1, like)
        d = fma(w0 + w1, square, -a0)
        inverse = 1.0 / d
        u1 = fma(w0 if span else 0.0, square + product, -a1)
        u2 = fma(-w1, product, -a2)
        u3 = fma(-w1 if span1 else 0.0, product + t, -a3)
        l1, l2, l3 = u1 * inverse, u2 * inverse, u3 * inverse
        at = FACTOR * i
        store(work, at, inverse)
        store(work, at + 1, l1)
        store(work, at + 2, l2)
        store(work, at + 3, l3)
        c = fma(w0 + w2, square + (product + product) + square1, -g0) if span else one
        c = fma(-l1, u1, c)
        inverse = 1.0 / c
        p1 = fma(-l1, u2, fma(w2 if span else 0.0, product + square1, -g1))
        p2 = fma(-l1, u3, -g2)
        p3 = -(w2 if span else 0.0) * (t + product1)
        p4 = -(w2 if span2 else 0.0) * ((t + far) + (product1 + t1))
        k1, k2, k3, k4 = p1 * inverse, p2 * inverse, p3 * inverse, p4 * inverse
        store(work, at + 4, inverse)
        store(work, at + 5, k1)
        store(work, at + 6, k2)
        store(work, at + 7, k3)
        store(work, at + 8, k4)
        a0 = fma(l2, u2, fma(k1, p1, h0))
        a1 = fma(l2, u3, fma(k1, p2, h1))
        a2 = k1 * p3
        a3 = k1 * p4
        g0 = fma(l3, u3, fma(k2, p2, k0))
        g1 = k2 * p3
        g2 = k2 * p4
        h0 = k3 * p3
        h1 = k3 * p4
        k0 = k4 * p4
        square = square1
        product = product1
        t = t1
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
    z_a = z_g = z_h = z_k = zero
    for i in range(bonds):
        b1 = bond(X, i + 1, bonds, axes, like)
        v1 = bond(V, i + 1, bonds, axes, like)
        at = FACTOR * i
        z = -inner(b0, v0) - z_a
        z1 = zero
        if i + 1 < bonds:
            z1 = fma(-load(work, at + 1, like), z, -inner(plus(b0, b1), plus(v0, v1)) - z_g)
        store(work, rest + 2 * i, z * load(work, at, like))
        store(work, rest + 2 * i + 1, z1 * load(work, at + 4, like))
        z_a = fma(load(work, at + 2, like), z, fma(load(work, at + 5, like), z1, z_h))
        z_g = fma(load(work, at + 3, like), z, fma(load(work, at + 6, like), z1, z_k))
        z_h = load(work, at + 7, like) * z1
        z_k = load(work, at + 8, like) * z1
        b0 = b1
        v0 = v1
    x1 = x2 = y1 = y2 = zero
    pushed = none
    e1 = e2 = none
    for i in range(bonds - 1, -3, -1):
        e0 = bond(X, i, bonds, axes, like)
        x0 = y0 = zero
        if i >= 0:
            at = FACTOR * i
            y0 = fma(-load(work, at + 8, like), y2, load(work, rest + 2 * i + 1, like))
            y0 = fma(-load(work, at + 7, like), x2, y0)
            y0 = fma(-load(work, at + 6, like), y1, y0)
            y0 = fma(-load(work, at + 5, like), x1, y0)
            x0 = fma(-load(work, at + 3, like), y1, load(work, rest + 2 * i, like))
            x0 = fma(-load(work, at + 2, like), x1, x0)
            x0 = fma(-load(work, at + 1, like), y0, x0)
        push = scaled(x1 + (y1 + y0), e1)
        push = along(y1, e2, along(y0, e0, push))
        if i + 2 <= bonds:
            s = w[i + 2] + zero
            change = minus(push, pushed)
            put_vector(V, i + 2, axes, along(s, change, vector(V, i + 2, axes, like)))
        pushed = push
        e2 = e1
        e1 = e0
        x2 = x1
        y2 = y1
        x1 = x0
        y1 = y0


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
    rest = FACTOR * bonds  # of ∂U/∂t and ∂U/∂s, negative
    # S between the rows bond 1, span 1, bond 2, span 2 after those at hand
    s11 = s12 = s13 = s14 = s22 = s23 = s24 = s33 = s34 = s44 = zero
    for i in range(bonds - 1, -1, -1):
        at = FACTOR * i
        k1, k2 = load(work, at + 5, like), load(work, at + 6, like)
        k3, k4 = load(work, at + 7, like), load(work, at + 8, like)
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
