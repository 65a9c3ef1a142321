"""Projections of freely jointed linear chains that move: positions, velocities, Fixman force.

Joints are beads, after the base point (w = 0) where the base is fixed; bond k joins joints k and
k + 1, both from 0.  X, V and F are flat arrays of vectors, one a joint (see `vectors`).  ``w`` and
``m`` are inverse masses and masses of the joints in a unit that makes w L² of order 1: multipliers
come out in the inverse unit, and no determinant overflows within `STRIDE` bonds.

With bonds e at the beginning of a step, b under way and u = b / L at its end, RATTLE
(Andersen 1983) takes

    positions    A λ = ½ (L² − b²) ,   x ← x + M⁻¹ Σ e λ , again and again ,                  (1)
                 A_kk = (w_k + w_{k+1}) b_k·e_k ,  A_{k,k±1} = −w b_k·e_{k±1}
    velocities   H λ = −u·(v_{k+1} − v_k) ,   v ← v + M⁻¹ Σ u λ ,  H as A of u and u ,        (2)

w beside a neighbour being that of the joint between.

Both tridiagonal matrices are eliminated without a division in the recurrence.  Leading minors

    D_k = A_kk D_{k−1} − A_{k,k−1} A_{k−1,k} D_{k−2}                                          (3)

have D_{k−1} / D_k for the reciprocal of the pivot, so that the division of one bond overlaps with
those of its neighbours.  H has positive terms only, as in `freely_jointed`.  Steps are 3 to 4.4
times faster than those of `general_steps`, in lanes 2.6 to 3.6.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra.vectors import (
    SPACE,
    Axes,
    along,
    inner,
    minus,
    outer,
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
    larger,
    ln,
    load,
    memory,
    root,
    smaller,
    store,
    take,
)
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.sparse import LN2, multiplied
from fixman.kernels.factors.tridiagonal import inverse_before, joined

STRIDE = 16  # bonds between two scalings of the minors
ITERATIONS = 12  # Newton's method needs two or three where there is a solution near


class Jointed(NamedTuple):
    """Constants of the joints: ``w`` and ``m`` (bonds + 1,) scaled as described above."""

    w: np.ndarray[Any, np.dtype[np.float64]]
    m: np.ndarray[Any, np.dtype[np.float64]]
    axes: Axes


@exact_arrays
def room(system, targets, like):
    """Half the square and the reciprocal of every length, and work: six units a bond."""
    bonds = system.w.size - 1
    half = memory(bonds, like)
    shrink = memory(bonds, like)
    work = memory(6 * bonds, like)
    for k in range(bonds):
        length = take(targets, k, bonds, like)
        store(half, k, 0.5 * length * length)
        store(shrink, k, 1.0 / length)
    return half, shrink, work


@exact_step
def following(X, k, before, axes, like):
    """Joint k, and the way to it from a point."""
    x = vector(X, k, axes, like)
    return x, minus(x, before)


@exact_step
def eliminated(minors, y, w0, w1, b, e, before, r):
    """Leading minors (3) with a bond, the pivot's reciprocal and y = L⁻¹ r over the pivots.

    ``before`` is the e before it, r what the bond lacks.
    """
    D0, D1, coupling = minors
    lower = w0 * inner(b, before)
    diagonal = (w0 + w1) * inner(b, e)
    D = fma(diagonal, D1, -((lower * coupling) * D0))
    inverse = 1.0 / D
    pivot = D1 * inverse
    return D, inverse, pivot, pivot * fma(lower, y, r)


@exact
def lacking(b, half, far):
    """½ (L² − b²); from afar |b| (L − |b|), as if the row were the length and not its square."""
    rest = fma(-0.5, inner(b, b), half)
    if far:
        length = root(inner(b, b))
        rest *= (length + length) / (length + root(half + half))
    return rest


@exact_step
def shift(V, k, factor, step, axes, like):
    """Add a multiple of a vector to that of a joint."""
    put_vector(V, k, axes, along(factor, step, vector(V, k, axes, like)))


@exact_step
def move(X, V, k, rate, step, axes, like):
    """Move a joint, and add ``rate`` times the step to its velocity."""
    put_vector(X, k, axes, plus(vector(X, k, axes, like), step))
    shift(V, k, rate, step, axes, like)


@exact_step
def excess(change, limit, square, step, step1):
    """Return how far the change of a bond is beyond a share of its square, or what was so far."""
    d = minus(step1, step)
    return larger(fma(-limit, square, inner(d, d)), change)


@exact
def hold(system, room, X0, X, V, rate, limits, like):
    """Newton's method (1) for the lengths of X along the bonds e of X0; returns the lanes it lost.

    The velocities V get ``rate`` times what x gains.  An iteration leaves an error of
    ½ |δb|²: it is over, without looking at the bonds again, where this is at most a tolerance
    times L².
    ``limits`` are this and how often it tries; once, it is on its way from afar.
    """
    tolerance, iterations = limits
    w = system.w
    axes = system.axes
    half, _, work = room
    bonds = w.size - 1
    zero = 0.0 * like
    one = zero + 1.0
    none = zero, zero, zero
    limit = 4.0 * tolerance
    busy = everywhere(like)
    lost = 0
    for _ in range(min(iterations, ITERATIONS)):
        smallest = one
        x, b = following(X, 1, vector(X, 0, axes, like), axes, like)
        x0, e = following(X0, 1, vector(X0, 0, axes, like), axes, like)
        before = none
        D0 = zero
        D1 = one
        coupling = zero  # −A_{k−1,k}
        y = zero
        for first in range(0, bonds, STRIDE):
            for k in range(first, min(first + STRIDE, bonds)):
                # b and e are those of bond k, ``before`` is the e before it.
                lack = lacking(b, load(half, k, like), iterations == 1)
                D, inverse, pivot, y = eliminated(
                    (D0, D1, coupling), y, w[k], w[k + 1], b, e, before, lack
                )
                smallest = smaller(D, smallest)
                store(work, 2 * k, y)
                before = e
                if k + 1 < bonds:
                    x0, e = following(X0, k + 2, x0, axes, like)
                    coupling = w[k + 1] * inner(b, e)
                    store(work, 2 * k + 1, pivot * coupling)
                    x, b = following(X, k + 2, x, axes, like)
                D0 = D1
                D1 = D
            D0 *= inverse
            D1 = one
        positive = busy & ~beyond(zero, smallest)
        lost |= busy & ~positive
        busy = positive
        change = zero
        push = zero
        above = none  # e λ of bond k + 1
        step1 = none  # the step of joint k + 2
        x1 = vector(X0, bonds, axes, like)
        for k in range(bonds - 1, -2, -1):
            here = none
            if k >= 0:
                y = load(work, 2 * k, like)
                if k + 1 < bonds:
                    y = fma(load(work, 2 * k + 1, like), push, y)
                push = y
                x0 = vector(X0, k, axes, like)
                here = scaled(choose(busy, push, zero), minus(x1, x0))
                x1 = x0
            # joint k + 1
            step = scaled(w[k + 1], minus(here, above))
            move(X, V, k + 1, rate, step, axes, like)
            if k + 1 < bonds:
                change = excess(change, limit, load(half, k + 1, like), step, step1)
            above = here
            step1 = step
        busy &= beyond(change, zero)
        if busy == 0:
            break
    return lost | busy


@exact_step
def square_sine(before, u):
    turn = outer(before, u)
    return inner(turn, turn)


@exact
def factor(system, room, X, like):
    """Directions u of the bonds and the factor of H of (2), for the functions below.

    The work receives them, then 1 / d_k and g_k = w_{k+1} u_k·u_{k+1} / d_k in turn.
    """
    w = system.w
    m = system.m
    axes = system.axes
    _, shrink, work = room
    bonds = w.size - 1
    zero = 0.0 * like
    one = zero + 1.0
    before = zero, zero, zero
    x = vector(X, 0, axes, like)
    p = w[0] + zero
    q0 = zero
    q = one
    rho = zero
    for first in range(0, bonds, STRIDE):
        for k in range(first, min(first + STRIDE, bonds)):
            x, d = following(X, k + 1, x, axes, like)
            u = scaled(load(shrink, k, like), d)
            put_vector(work, k, SPACE, u)
            if k > 0:
                store(work, 3 * bonds + 2 * k - 1, rho * inner(before, u))
            p, after = joined(p, q0, q, w[k] * square_sine(before, u), m[k + 1])
            q0, q, inverse = q, after, 1.0 / after
            rho = q0 * inverse
            store(work, 3 * bonds + 2 * k, m[k + 1] * rho)
            before = u
        p *= inverse
        q0 *= inverse
        q = one


@exact
def logdet(system, room, like):
    """ln det H, given the factor: minus the logarithm of the product of 1 / d."""
    bonds = system.w.size - 1
    product = 0.0 * like + 1.0
    power = 0.0 * like
    for k in range(bonds):
        inverse = load(room[2], 3 * bonds + 2 * k, like)
        product, power = multiplied(product, power, inverse)
    return -(LN2 * power + ln(product))


@exact
def add_metric_force(system, room, F, X, kT, like):
    """Add the exact Fixman force to F, but for its part along the bonds.

    kT Σ w_{k+1} S_{k,k+1} ∇(u_k·u_{k+1}), with S = H⁻¹ beside its diagonal by the recurrence of
    Takahashi, all terms positive.  ∂(u_k·u_{k+1})/∂b_k is (u_{k+1} − c u_k) / L_k, of which the
    second part pushes along the bond and is taken up by it, whatever its size.
    """
    w = system.w
    axes = system.axes
    _, shrink, work = room
    bonds = w.size - 1
    none = 0.0 * like, 0.0 * like, 0.0 * like
    S = 0.0 * like
    outward = none  # u_{k+1}
    begun = none  # L f of bond k + 1, the part from its coupling with bond k + 2
    after = none  # f of bond k + 2
    for k in range(bonds - 1, -2, -1):
        u = none
        next_begun = none
        if k >= 0:
            u = vector(work, k, SPACE, like)
            inverse = load(work, 3 * bonds + 2 * k, like)
            if k + 1 < bonds:
                g = load(work, 3 * bonds + 2 * k + 1, like)
                inverse, side = inverse_before(inverse, g, S)
                strength = (kT * w[k + 1]) * side
                next_begun = scaled(strength, outward)
                begun = along(strength, u, begun)
            S = inverse
        f = none
        if k + 1 < bonds:
            f = scaled(load(shrink, k + 1, like), begun)
            pull = minus(f, after)
            put_vector(F, k + 2, axes, plus(vector(F, k + 2, axes, like), pull))
        after = f
        begun = next_begun
        outward = u
    put_vector(F, 0, axes, minus(vector(F, 0, axes, like), after))


@exact
def project(system, room, V, X, like):
    """Velocities along the manifold by (2), given the factor at X."""
    w = system.w
    axes = system.axes
    work = room[2]
    bonds = w.size - 1
    none = 0.0 * like, 0.0 * like, 0.0 * like
    v = vector(V, 0, axes, like)
    z = 0.0 * like
    g = 0.0 * like
    for k in range(bonds):
        v1 = vector(V, k + 1, axes, like)
        z = fma(g, z, -inner(vector(work, k, SPACE, like), minus(v1, v)))
        store(work, 5 * bonds + k, load(work, 3 * bonds + 2 * k, like) * z)
        if k + 1 < bonds:
            g = load(work, 3 * bonds + 2 * k + 1, like)
        v = v1
    push0 = 0.0 * like
    above = none
    for k in range(bonds - 1, -2, -1):
        here = none
        if k >= 0:
            push = load(work, 5 * bonds + k, like)
            if k + 1 < bonds:
                push = fma(load(work, 3 * bonds + 2 * k + 1, like), push0, push)
            push0 = push
            here = scaled(push, vector(work, k, SPACE, like))
        shift(V, k + 1, w[k + 1], minus(here, above), axes, like)
        above = here
