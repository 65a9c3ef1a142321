"""Linear chains whose hard coordinates are exactly their bonds: the fused routes.

``links = (w, m)`` are inverse masses and masses of the joints, N + 1 for N bonds: the beads, after
the base point (at the origin, w = 0) where the base is fixed.

ln det takes the pivots of `tridiagonal` without a division in the recurrence (`joined`).

Sines come from rounded bonds unless masses are `uneven`: then ln det and the force hang on sines
far below the rounding of a cross product, and take them from positions without any rounding.

Forces are 3 to 3.9 times faster than those of `metric`, ln det of one frame 3.2 to 3.9, of many
1.1 to 1.8 (eight in lanes there, one by one here).  Where masses differ by 1e8 and bends are of
1e-6 `metric` would leave seven decimals of ln det, where they differ by 1e12 three; here it is
exact to rounding.

The Fixman force needs all pivots, so it keeps the division; it is computed of one frame or of
eight in lanes, of frames that `metric` describes.
"""

from __future__ import annotations

import math

from fixman.kernels import jit
from fixman.kernels.algebra.triples import load3, store3
from fixman.kernels.algebra.vectors import cross, dot, minus, scaled
from fixman.kernels.chain.hard import aligned
from fixman.kernels.chain.rows import measurable
from fixman.kernels.compiler.lanes import (
    above,
    exact,
    exact_kernel,
    fma,
    lanes,
    load,
    put,
    root,
    store,
    take,
    zeros,
)
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.tridiagonal import inverse_before, joined, onward

HUGE = 1e100
UNEVEN = 1e4  # ratio of masses: an error of ln det, per bond, of eps times its square root


# --- differences and products without rounding ---------------------------------------------------


@exact_step
def two_rest(s, a, b):
    t = s - a
    return (a - (s - t)) - (b + t)


@exact_step
def two_difference(a, b):
    """a − b as a rounded value and its exact remainder."""
    s = a - b
    return s, two_rest(s, a, b)


@exact_step
def remainder(d, a, b):
    """a − b − d for the rounded difference d of two vectors, exactly."""
    return two_rest(d[0], a[0], b[0]), two_rest(d[1], a[1], b[1]), two_rest(d[2], a[2], b[2])


@exact_step
def accurate_cross(a, alow, b, blow):
    """a × b to full relative precision, low parts of the vectors included; 0 if parallel."""
    p = a[0] * b[1]
    q = a[1] * b[0]
    rounding = fma(a[0], b[1], -p) - fma(a[1], b[0], -q)
    low = fma(a[0], blow[1], -(a[1] * blow[0])) + fma(alow[0], b[1], -(alow[1] * b[0]))
    return (p - q) + (rounding + low)


@exact_step
def accurate_cross3(a, alow, b, blow):
    x = accurate_cross((a[1], a[2]), (alow[1], alow[2]), (b[1], b[2]), (blow[1], blow[2]))
    y = accurate_cross((a[2], a[0]), (alow[2], alow[0]), (b[2], b[0]), (blow[2], blow[0]))
    z = accurate_cross((a[0], a[1]), (alow[0], alow[1]), (b[0], b[1]), (blow[0], blow[1]))
    return x, y, z


@exact_step
def bend(d0, low0, r0, d, low, r):
    """u₀ × u to full relative precision: of bonds with their low parts and inverse lengths."""
    return scaled(r0 * r, accurate_cross3(d0, low0, d, low))


@jit
def turned(x, bead, dim, rooted):
    """Square of u × v for the bonds that meet in the bead before, to full relative precision.

    ``rooted`` where the first of them begins in the base point.
    """
    a, alow = two_difference(x[bead - 1, 0], 0.0 if rooted else x[bead - 2, 0])
    b, blow = two_difference(x[bead - 1, 1], 0.0 if rooted else x[bead - 2, 1])
    d, dlow = two_difference(x[bead, 0], x[bead - 1, 0])
    e, elow = two_difference(x[bead, 1], x[bead - 1, 1])
    if dim == 2:
        across = accurate_cross((a, b), (alow, blow), (d, e), (dlow, elow))
        return across * across
    c, clow = two_difference(x[bead - 1, 2], 0.0 if rooted else x[bead - 2, 2])
    f, flow = two_difference(x[bead, 2], x[bead - 1, 2])
    axis = accurate_cross3((a, b, c), (alow, blow, clow), (d, e, f), (dlow, elow, flow))
    return dot(axis, axis)


@jit
def bends(x, n, dim, fixed, links, cosines, sines):
    """Cosines, and sines to full relative precision, between successive bonds of one frame.

    False where a bond cannot be measured or a position is not finite.
    """
    first = 0 if fixed else 1
    before = before_low = (0.0, 0.0, 0.0)
    r0 = 0.0
    for k in range(links.shape[1] - 1):
        here = there = (0.0, 0.0, 0.0)
        j = first + k
        here = (x[j, 0], x[j, 1], x[j, 2] if dim == 3 else 0.0)
        if j > 0:
            there = (x[j - 1, 0], x[j - 1, 1], x[j - 1, 2] if dim == 3 else 0.0)
        d = minus(here, there)
        low = remainder(d, here, there)
        if not measurable(dot(d, d)):
            return False
        r = 1.0 / math.sqrt(dot(d, d))
        if k > 0:
            cosines[k - 1] = (r0 * r) * dot(before, d)
            turn = bend(before, before_low, r0, d, low, r)
            sines[k - 1] = math.sqrt(dot(turn, turn))
        before, before_low, r0 = d, low, r
    return True


@jit
def uneven(links):
    """Whether masses differ so much that the rounding of sines, of order eps, may show."""
    w, m = links
    lightest = heaviest = 0.0
    for k in range(w.size):
        lightest = w[k] if w[k] > lightest else lightest
        heaviest = m[k] if m[k] > heaviest else heaviest
    return lightest * heaviest > UNEVEN


# --- determinants ---------------------------------------------------------------------------------


@jit
def logdet_frames(x, links, n, dim, fixed, first, last, out):
    """ln det H^bb of some frames into ``out``; the first without an answer, or -1.

    The pivots telescope: d_k = w_k q_{k+1} / q_k, so det H^bb = q_{N+1} Π w_k.
    """
    w, m = links
    apart = uneven(links)
    constant = 0.0
    for k in range(1, w.size):
        constant += math.log(w[k])
    for frame in range(first, last):
        bead = frame * n if fixed else frame * n + 1
        ux = uy = uz = 0.0
        inverse_square = 0.0
        p = w[0]
        q = 1.0
        q_before = 0.0
        total = constant
        for k in range(1, w.size):
            uxp, uyp, uzp, inverse_square_p = ux, uy, uz, inverse_square
            ux = x[bead, 0]
            uy = x[bead, 1]
            uz = x[bead, 2] if dim == 3 else 0.0
            if k > 1 or not fixed:
                ux -= x[bead - 1, 0]
                uy -= x[bead - 1, 1]
                if dim == 3:
                    uz -= x[bead - 1, 2]
            bead += 1
            square = ux * ux + uy * uy + uz * uz
            if not measurable(square):
                return frame
            inverse_square = 1.0 / square
            a = uyp * uz - uzp * uy
            b = uzp * ux - uxp * uz
            c = uxp * uy - uyp * ux
            ss = a * a + b * b + c * c
            if apart and k > 1:
                ss = turned(x, bead - 1, dim, fixed and k == 2)
            ss *= inverse_square * inverse_square_p
            p, q_after = joined(p, q_before, q, w[k - 1] * ss, m[k])
            q_before, q = q, q_after
            if q > HUGE:
                total += math.log(q)
                p /= q
                q_before /= q
                q = 1.0
        out[frame] = total + math.log(q)
        if not out[frame] < math.inf:
            return frame
    return -1


# --- forces ---------------------------------------------------------------------------------------


@exact
def position(x, at, stride, dim, like):
    z = 0.0 * like
    if dim == 3:
        z = take(x, at + 2, stride, like)
    return take(x, at, stride, like), take(x, at + 1, stride, like), z


@exact
def put_position(x, at, stride, dim, value):
    put(x, at, stride, value[0])
    put(x, at + 1, stride, value[1])
    if dim == 3:
        put(x, at + 2, stride, value[2])


@exact
def factored(x, at, stride, chain, apart, work, like):
    """Factor and bends, outwards, for `put_force`; false if a bond has no length.

    Nine units a bond: its direction, 1/L, −L_{k+1,k}, 1/d and its bend u_{k−1} × u_k.
    """
    w, dim, fixed = chain
    zero = 0.0 * like
    before = (zero, zero, zero)
    if not fixed:
        before = position(x, at, stride, dim, like)
        at += dim
    u0 = d0 = low0 = low = (zero, zero, zero)
    inverse_length0 = zero
    ratio = inverse = zero
    e = zero + w[0]
    for k in range(w.size - 1):
        here = position(x, at, stride, dim, like)
        at += dim
        d = minus(here, before)
        if apart:
            low = remainder(d, here, before)
        before = here
        square = dot(d, d)
        if not measurable(square):
            return False
        inverse_length = 1.0 / root(square)
        u = scaled(inverse_length, d)
        turn = cross(u0, u)
        if apart:
            turn = bend(d0, low0, inverse_length0, d, low, inverse_length)
        if k > 0:
            e = onward(e, w[k], inverse, dot(turn, turn))
        inverse = 1.0 / (w[k + 1] + e)
        store3(work, 9 * k, u)
        store(work, 9 * k + 3, inverse_length)
        store(work, 9 * k + 4, ratio * dot(u0, u))
        store(work, 9 * k + 5, inverse)
        store3(work, 9 * k + 6, turn)
        ratio = w[k + 1] * inverse
        u0, d0, low0, inverse_length0 = u, d, low, inverse_length
    return True


@exact
def put_force(chain, kT, work, out, at, stride, like):
    """kT Σ_k w_k S_{k,k+1} ∇(u_k·u_{k+1}), inwards; false if something is not finite.

    No subtraction in S (`inverse_before`), and none in the derivatives of u_k·u_{k+1} by bonds k
    and k + 1, r × u_k / L_k and −r × u_{k+1} / L_{k+1} with the bend r = u_k × u_{k+1}.  ``pull``
    is kT w S, and a × u / L the force on the outer end.  ``at`` is one bead behind the last.
    """
    w, dim, fixed = chain
    zero = 0.0 * like
    S = g = pull = check = zero
    turn_outer = pull_outer = (zero, zero, zero)
    for k in range(w.size - 2, -1, -1):
        S, _ = inverse_before(load(work, 9 * k + 5, like), g, S)
        u = load3(work, 9 * k, like)
        turn = load3(work, 9 * k + 6, like)
        a = scaled(pull, turn_outer)
        g = load(work, 9 * k + 4, like)
        if k > 0:
            pull = kT * (w[k] * (g * S))
            a = minus(a, scaled(pull, turn))
        pull_here = scaled(load(work, 9 * k + 3, like), cross(a, u))
        force = minus(pull_here, pull_outer)
        at -= dim
        put_position(out, at, stride, dim, force)
        check += 0.0 * force[0] + 0.0 * force[1] + 0.0 * force[2]
        turn_outer = turn
        pull_outer = pull_here
    if not fixed:
        put_position(out, at - dim, stride, dim, scaled(-1.0, pull_outer))
    return above(1.0 + zero, check)


@exact_kernel
def force_frames(x, given, first, last, out, memory, states):
    """Fixman forces of flat frames; the first without an answer, or of eight with one, or -1.

    ``given`` are the links, dim, fixed and kT.
    """
    like = zeros(states)
    links, dim, fixed, kT = given
    w, _ = links
    apart = uneven(links)
    size = (w.size - 1 if fixed else w.size) * dim
    chain = w, dim, fixed
    work = aligned(memory)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        at = frame * size
        if not factored(x, at, size, chain, apart, work, like):
            return frame
        if not put_force(chain, kT, work, out, at + size, size, like):
            return frame
    return -1
