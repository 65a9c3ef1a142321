"""Chains of rigid bodies that close: one small matrix more than the articulated body.

    θ̈ = θ̈_free + ℳ⁻¹ Aᵀ f,     Λ⁻¹ f = −(A θ̈_free + Ȧ θ̇),     Λ⁻¹ = A ℳ⁻¹ Aᵀ

A row of A is a pair of wrenches on two bodies.  Taken inwards through the U/D that the sweep of the
articulated inertias left behind, it becomes innovations ε = 𝒰⁻¹ Aᵀ, of ℳ = 𝒰 D 𝒰ᵀ, and

    Λ⁻¹ = εᵀ D⁻¹ ε,     A θ̈_free + Ȧ θ̇ = εᵀ D⁻¹ u + Σ_i z_iᵀ c_i,     u ← u + ε f

with z_i what body i hands on of its wrench and c_i the bias acceleration of joint i.  No sweep goes
outwards before the last one.  Eight columns share a register: lanes are columns here, not states.

For each body at an end of a closure there is a column more, a wrench in no direction in particular.
It tells how freely the body moves, so that a small Λ⁻¹ is not taken for one that is lost.

Tables (see `fixman.rigid._closure_tables`).  ``table``: those of the chains, as in
`articulated_body`; END numbers for each end (axes, point, and a length that compares forces with
moments); one over the reach of the linkage; ROW numbers for each row (direction in the axes of a,
one over its unit); the axes of the base in three registers; the bits of ``plan``, HEAD integers and
then records, and where it begins.  Columns of a chain are numbers of rows, or ``held`` + an end.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import types

from fixman.kernels import jit, njit
from fixman.kernels.articulated_body import (
    ALONG_X,
    ALONG_Y,
    ARMATURE,
    COS_X,
    DONE,
    FLOATS,
    FRAME,
    JOINT,
    LINK,
    NOT_USABLE,
    PLACE,
    SHIFT,
    SIN_X,
    TURN,
    WRONG_SIZE,
    accelerations,
    angles,
    inwards,
    joint_axes,
    outwards,
    place_of,
    rising,
    sizes,
)
from fixman.kernels.lanes import LANES, eight, integer, load, part, store
from fixman.kernels.lanes import lane as lane_of
from fixman.kernels.links import FREE, PRISMATIC, REVOLUTE, SPHERICAL, halfway, rest_of_way
from fixman.kernels.steps import step
from fixman.kernels.triples import (
    back,
    constants,
    load3,
    load6,
    load9,
    matrix,
    product,
    store_all,
    times,
    transposed,
)
from fixman.kernels.vectors import inner, minus, outer, plus, scaled

# why a state has no answer, besides those of `articulated_body`
PIVOT, OPEN, OPENING, DEPENDENT = -4, -5, -6, -7

# the head of a plan: numbers of chains, closures, rows, coordinates and rates; length of a state's
# forces; length of memory, and where in it ends, rows, Λ⁻¹, its factor, answers to what is asked,
# and wrenches begin; where in the table ends, rows and axes do, and where records do; for each task
# how many numbers it writes for a state
(
    CHAINS, CLOSURES, HELD, NQ, NV, LOADS, MEMORY,
    PLACED0, FACTS0, INVERSE0, FACTOR0, ASKED0, WRENCH0,
    END0, ROW0, AXES0, CHAIN0, CLOSURE0, OF_ROW0, WIDTHS,
) = range(20)  # fmt: skip
# of each chain: where its table, coordinates, rates, forces, work and 1/D begin; how long the first
# four are; its ends, from the base outwards, as pairs of number and body; its blocks of columns
(
    TABLE, Q, V, LOAD, UNITS, INVERSES, TABLE_SIZE, NQ_OF, NV_OF, LOAD_SIZE,
    ENDS, LAST_END, BLOCKS, LAST_BLOCK,
) = range(14)  # fmt: skip
CHAIN = 14
# of each block of up to eight columns: the first and how many; its ends, the first and one past the
# last; the rates of as much of the chain as they reach; where its innovations begin
COLUMN, COUNT, FIRST, LAST, RATES, INNOVATIONS = range(6)
BLOCK = 6
# of each closure: which turns it holds (NO_TURNS, ALL_TURNS, or all but this); its rows
CLOSURE = 3
NO_TURNS, ALL_TURNS = -1, -2

END, ROW = 13, 4  # numbers in ``table``

# References to arrays are not counted in what only other kernels call: it costs a microsecond.
plain = njit(
    nogil=True, error_model="numpy", fastmath={"contract", "nsz"}, _nrt=False,
    no_cpython_wrapper=True,
)  # fmt: skip
# R (9), origin (3) and ω (3) of the body; axes (9), point (3), its velocity (3); 1 of the base
PLACED = 31
FACTS = 8  # of a row: direction in the base (3), gap, rate, acceleration, multiplier, scale
BASE = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
NOWHERE = (0.0, 0.0, 0.0)
FORCE, MOMENT = (
    (0.9, 1.1, -0.8),
    (1.2, -0.7, 1.0),
)  # of the column that asks how freely a body moves
# An eigenvalue of the scaled Λ⁻¹ that is above this for certain is not lost.
CERTAIN = 1e-9

# tasks of `states`
MOTION, GAP, RATE, GAPS, COMPLIANCE, INERTIA, ROWS = range(7)
HEAD = WIDTHS + 7
REASONS = 8  # a frame without an answer is REASONS · frame − the reason


# --- where the ends are ---------------------------------------------------------------------------


@step
def room(memory, at):
    """All of the memory from a place on."""
    return part(memory, at, 0, 0.0)


# Axes R of a body, its origin x, and the rates of both are followed as columns in three lanes each:
# ω would need cross products, and is taken from Ṙ where it is asked for.


@step
def combined(a, x, b, y):
    return a * x + b * y


@step
def columns_times(R, E):
    """R E."""
    return tuple(E[j] * R[0] + E[3 + j] * R[1] + E[6 + j] * R[2] for j in range(3))


@step
def column_at(R, r):
    """R r."""
    return r[0] * R[0] + r[1] * R[1] + r[2] * R[2]


@step
def along(table, at, turns, sines, slide, rate, sliding, motion):
    """Motion from one body to the next, on a joint of one freedom."""
    (X, Y, Z), (dX, dY, dZ), x, v = motion
    a, b, c, s = table[at + ALONG_X], table[at + ALONG_Y], table[at + COS_X], table[at + SIN_X]
    x, v = x + combined(a, X, b, Y), v + combined(a, dX, b, dY)
    Y, Z = combined(c, Y, s, Z), combined(c, Z, -s, Y)
    dY, dZ = combined(c, dY, s, dZ), combined(c, dZ, -s, dY)
    x, v = x + slide * Z, v + slide * dZ + sliding * Z
    X, Y = combined(turns, X, sines, Y), combined(turns, Y, -sines, X)
    dX, dY = combined(turns, dX, sines, dY), combined(turns, dY, -sines, dX)
    return (X, Y, Z), (dX + rate * Y, dY - rate * X, dZ), x, v


@step
def to_joint(table, at, E, motion):
    """Motion at a joint, in axes E, that is placed in the body before."""
    R, dR, x, v = motion
    r = constants(table, at + PLACE)
    return columns_times(R, E), columns_times(dR, E), x + column_at(R, r), v + column_at(dR, r)


@step
def rolling(table, at, rate, motion):
    """Add the rate of turning, in the user's axes."""
    R, dR, x, v = motion
    w = times(matrix(table, at + TURN), rate)
    dX = dR[0] + w[2] * R[1] - w[1] * R[2]
    dY = dR[1] + w[0] * R[2] - w[2] * R[0]
    return R, (dX, dY, dR[2] + w[1] * R[0] - w[0] * R[1]), x, v


@step
def afloat(table, at, place, rate, base, motion):
    """Add place and velocity of a free base."""
    R, dR, x, _ = motion
    x = x + column_at(base, times(matrix(table, at + JOINT), place))
    return R, dR, x, column_at(R, times(matrix(table, at + TURN), rate))


@step
def base_axes(axes, like):
    return tuple(load(axes, k, like) for k in range(3))


@step
def three(column):
    return tuple(lane_of(column, k) for k in range(3))


@step
def by_rows(columns):
    X, Y, Z = (three(column) for column in columns)
    return X[0], Y[0], Z[0], X[1], Y[1], Z[1], X[2], Y[2], Z[2]


@step
def place_end(table, at, own, seat, motion, placed, to):
    """Write what is known of an end, whose axes and point are in the user's frame of the body."""
    (R, dR), (x, v) = (by_rows(half) for half in motion[:2]), (three(y) for y in motion[2:])
    T = product(dR, transposed(R))
    w = 0.5 * (T[7] - T[5]), 0.5 * (T[2] - T[6]), 0.5 * (T[3] - T[1])
    ours = matrix(own, seat + TURN)
    user = product(R, ours)
    p = times(R, plus(constants(own, seat + SHIFT), times(ours, constants(table, at + 9))))
    store_all(placed, to, (*R, *x, *w, *product(user, matrix(table, at))))
    store_all(placed, to + 24, (*plus(x, p), *plus(v, outer(w, p)), 0.0 * p[0]))


@step
def place_base(table, at, placed, to):
    zero = 0.0 * table[at]
    rest = (zero, zero, zero)
    store_all(placed, to, (*(zero + x for x in BASE), *rest, *rest, *matrix(table, at)))
    store_all(placed, to + 24, (*constants(table, at + 9), *rest, zero + 1.0))


@plain
def place_ends(table, own, q, qd, work, plan, chain, placed):
    """Follow a chain, of which ``own`` is the table, to its last end; after `outwards`."""
    first, last = plan[chain + ENDS], plan[chain + LAST_END]
    if first == last:
        return
    n, _, _, _ = sizes(own, own.size)
    m = angles(n)
    zero = eight(0.0)
    base = base_axes(room(table, plan[AXES0]), zero)
    motion = base, (zero, zero, zero), zero, zero
    kind, _, _, _ = place_of(own, n, 0)
    if kind <= PRISMATIC:
        motion = to_joint(own, LINK * n, matrix(own, LINK * n + JOINT), motion)
    for i in range(plan[last - 1] + 1):
        kind, at_q, at_v, row = place_of(own, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        if kind <= PRISMATIC:
            rate, sliding = qd[at_v], 0.0
            if kind == PRISMATIC:
                rate, sliding = 0.0, rate
            motion = along(own, at, work[i], work[m + i], work[row + 11], rate, sliding, motion)
        else:
            motion = to_joint(own, seat, matrix(work, row), motion)
            if kind == FREE:
                place, rates = constants(q, at_q), constants(qd, at_v)
                motion = afloat(own, seat, place, rates, base, motion)
                at_v += 3
            motion = rolling(own, seat, constants(qd, at_v), motion)
        while first < last and plan[first + 1] == i:
            end = plan[first]
            place_end(table, plan[END0] + END * end, own, seat, motion, placed, PLACED * end)
            first += 2


# --- closures -------------------------------------------------------------------------------------


@plain
def turned_by(held, Q, R):
    """Rotation vector, in axes Q, of the least turn that must be undone for axes R.

    Of all three turns that of R; of two that of the axis about which R is free.
    """
    if held == NO_TURNS:
        return NOWHERE
    if held == ALL_TURNS:
        T = product(transposed(Q), R)
        normal = 0.5 * (T[7] - T[5]), 0.5 * (T[2] - T[6]), 0.5 * (T[3] - T[1])
        cosine = 0.5 * (T[0] + T[4] + T[8] - 1.0)
        other = 0
    else:
        now = back(Q, (R[held], R[3 + held], R[6 + held]))
        e = (1.0 if held == 0 else 0.0, 1.0 if held == 1 else 0.0, 1.0 if held == 2 else 0.0)
        normal = outer(e, now)
        cosine = inner(e, now)
        other = (held + 2) % 3
    sine = math.sqrt(inner(normal, normal))
    angle = math.atan2(sine, cosine)
    if sine > 0.0:
        return scaled(angle / sine, normal)
    # Of half a turn any normal will do: the gap only has to be seen.
    return (
        angle if other == 0 else 0.0, angle if other == 1 else 0.0, angle if other == 2 else 0.0,
    )  # fmt: skip


@step
def apart(placed, a, b):
    """Of ends a and b: r, the relative velocity and ω of b, and its acceleration for no θ̈.

    Both bodies are looked at where b's point is.  The acceleration is what comes to those of the
    bodies' origins: of the point about them, and because axes and points of a move.
    """
    Q = matrix(placed, a + 15)
    xa, xb = constants(placed, a + 24), constants(placed, b + 24)
    wa, wb = constants(placed, a + 12), constants(placed, b + 12)
    r = minus(xb, xa)
    moving = minus(minus(constants(placed, b + 27), constants(placed, a + 27)), outer(wa, r))
    turning = minus(wb, wa)
    of_b = outer(wb, outer(wb, minus(xb, constants(placed, b + 9))))
    of_a = plus(outer(wa, minus(xb, constants(placed, a + 9))), scaled(2.0, moving))
    return (
        Q,
        back(Q, r),
        moving,
        turning,
        minus(of_b, outer(wa, of_a)),
        scaled(-1.0, outer(wa, turning)),
    )


@plain
def look_at(table, plan, placed, loads, facts):
    """Write direction, gap, rate, and part of the acceleration of every row."""
    for k in range(plan[CLOSURES]):
        at = plan[CLOSURE0] + CLOSURE * k
        a, b = 2 * k * PLACED, (2 * k + 1) * PLACED
        Q, r, moving, turning, linear, angular = apart(placed, a, b)
        turn = turned_by(plan[at], Q, matrix(placed, b + 15))
        # Felt accelerations of a resting base are those against gravity.
        g = constants(loads, 0)
        if placed[a + 30] != 0.0:
            linear = plus(linear, g)
        if placed[b + 30] != 0.0:
            linear = minus(linear, g)
        for row in range(plan[at + 1], plan[at + 2]):
            e = constants(table, plan[ROW0] + ROW * row)
            to = FACTS * row
            S = times(Q, e)
            store_all(facts, to, S)
            if plan[plan[OF_ROW0] + 2 * row + 1] != 0:
                facts[to + 3], facts[to + 4] = inner(e, turn), inner(S, turning)
                facts[to + 5] = inner(S, angular)
            else:
                facts[to + 3], facts[to + 4] = inner(e, r), inner(S, moving)
                facts[to + 5] = inner(S, linear)


# --- columns of wrenches, inwards -----------------------------------------------------------------


@step
def put_wrench(W, to, n, f):
    for k in range(3):
        W[to + LANES * k] = n[k]
        W[to + LANES * (3 + k)] = f[k]


@step
def wrench_of(facts, to, placed, at, x, sign):
    """A unit force along a row at x, on the body of an end, about its origin in its axes."""
    R, S = matrix(placed, at), scaled(sign, constants(facts, to))
    return back(R, outer(minus(x, constants(placed, at + 9)), S)), back(R, S)


@step
def couple_of(facts, to, placed, at, sign):
    return back(matrix(placed, at), scaled(sign, constants(facts, to)))


@step
def asking(placed, at, length):
    """A force and a moment on the body of an end, at its point."""
    p = minus(constants(placed, at + 24), constants(placed, at + 9))
    p = back(matrix(placed, at), p)
    f = tuple(0.0 * length + x for x in FORCE)
    return plus(outer(p, f), tuple(length * x for x in MOMENT)), f


@plain
def fill(table, plan, block, end, placed, facts, W):
    """Write the wrenches of a block's columns on the body of an end into ``W``, 6 units."""
    held = plan[HELD]
    at = PLACED * end
    for k in range(6 * LANES):
        W[k] = 0.0
    for lane in range(plan[block + COUNT]):
        c = plan[plan[block + COLUMN] + lane]
        if c >= held:
            if c - held == end:
                n, f = asking(placed, at, table[plan[END0] + END * end + 12])
                put_wrench(W, lane, n, f)
            continue
        closure = plan[plan[OF_ROW0] + 2 * c]
        if closure != end // 2:
            continue
        sign = 1.0 if end % 2 == 1 else -1.0
        n, f = NOWHERE, NOWHERE
        if plan[plan[OF_ROW0] + 2 * c + 1] != 0:
            n = couple_of(facts, FACTS * c, placed, at, sign)
        else:
            b = PLACED * (2 * closure + 1)
            n, f = wrench_of(facts, FACTS * c, placed, at, constants(placed, b + 24), sign)
        put_wrench(W, lane, n, f)


@step
def add_wrench(z, W, to):
    given = load6(W, to, z[0])
    return tuple(z[k] + given[k] for k in range(6))


@step
def through_turn(z, r, held, work, row, E, at):
    """Innovation of a revolute joint into unit ``at``; what its body hands on, and its part."""
    ux, uy, vx, vy, vz, k = load6(work, row + 5, 0.0)
    e = z[2]
    store(E, at, e)
    n, f = (z[0] - ux * e, z[1] - uy * e), (z[3] - vx * e, z[4] - vy * e, z[5] - vz * e)
    c = tuple(load(work, row + i, 0.0) for i in range(5))
    r = r + (e * k + (n[0] * c[0] + n[1] * c[1])) + (f[0] * c[2] + f[1] * c[3] + f[2] * c[4])
    return (*n, held * e, *f), r


@step
def through_slide(z, r, held, work, row, E, at):
    ux, uy, uz, vx, vy, k = load6(work, row + 5, 0.0)
    e = z[5]
    store(E, at, e)
    n, f = (z[0] - ux * e, z[1] - uy * e, z[2] - uz * e), (z[3] - vx * e, z[4] - vy * e)
    c, rest = tuple(load(work, row + i, 0.0) for i in range(5)), held * e
    r = r + (e * k + (n[0] * c[0] + n[1] * c[1])) + (f[0] * c[2] + f[1] * c[3] + rest * c[4])
    return (*n, *f, rest), r


@step
def along_screw(z, table, at, c, s, d):
    """Wrenches about the origin, and in the axes, of the body before.

    Sums are written for the sweep to wait little: what comes last from the joint is added last.
    """
    n, f = (z[0], z[1], z[2]), (z[3], z[4], z[5])
    f = (c * f[0] - s * f[1], s * f[0] + c * f[1], f[2])
    n = ((c * n[0] - s * n[1]) - d * f[1], (s * n[0] + c * n[1]) + d * f[0], n[2])
    c, s = table[at + COS_X], table[at + SIN_X]
    f = (f[0], c * f[1] - s * f[2], s * f[1] + c * f[2])
    a, b = table[at + ALONG_X], table[at + ALONG_Y]
    y, z = c * n[1] - s * n[2], s * n[1] + c * n[2]
    return (n[0] + b * f[2], y - a * f[2], z + (a * f[1] - b * f[0]), *f)


@step
def ball_factor(work, row):
    """L and D of a spherical joint's A."""
    A = load6(work, row + 30, 0.0)
    l21, l31 = A[1] / A[0], A[2] / A[0]
    d2 = A[3] - l21 * A[1]
    t = A[4] - l21 * A[2]
    l32 = t / d2
    return (l21, l31, l32), (A[0], d2, A[5] - l31 * A[2] - l32 * t)


@step
def through_ball(z, r, V, table, seat, work, row, E, at, D):
    """The same for a spherical joint, and on to the body before."""
    n, f = (z[0], z[1], z[2]), (z[3], z[4], z[5])
    L, d = ball_factor(work, row)
    store_all(E, at, halfway(L, n))
    for k in range(3):
        D[at + k] = 1.0 / d[k]
    K, c = load9(work, row + 21, 0.0), load6(work, row + 9, 0.0)
    spin = load3(work, row + 15, 0.0)
    back_n = back(K, n)
    f = tuple(f[k] - back_n[k] for k in range(3))
    r = r + (n[0] * spin[0] + n[1] * spin[1] + n[2] * spin[2])
    n = back(V, n)
    r = r + (n[0] * c[0] + n[1] * c[1] + n[2] * c[2])
    r = r + (f[0] * c[3] + f[1] * c[4] + f[2] * c[5])
    R = load9(work, row, 0.0)
    f, n = times(R, f), times(R, n)
    p = constants(table, seat + PLACE)
    n = (
        n[0] + p[1] * f[2] - p[2] * f[1],
        n[1] + p[2] * f[0] - p[0] * f[2],
        n[2] + p[0] * f[1] - p[1] * f[0],
    )
    return (*n, *f), r


@step
def through_float(z, r, work, row, E, at, D):
    """The same for a free base, where all ends."""
    x = load6(work, row + 15, 0.0)
    y = [z[k] for k in range(6)]
    for i in range(6):
        r = r + z[i] * x[i]
        for j in range(i):
            y[i] = y[i] - load(work, row + 30 + 6 * i + j, 0.0) * y[j]
        D[at + i] = 1.0 / load(work, row + 30 + 7 * i, 0.0)
        store(E, at + i, y[i])
    return r


@step
def kept(left, work, at):
    """What a spherical joint with armature hands on of moments that it feels, V = A⁻¹ J."""
    V = load9(work, at, 0.0)
    return (V[0] + left, *V[1:4], V[4] + left, *V[5:8], V[8] + left)


@step
def rested(z, r, up):
    return r + (z[3] * up[0] + z[4] * up[1] + z[5] * up[2])


@step
def gathered(sums, E, i, other, at, inverse):
    """Add products of a row's eight innovations with eight others."""
    y = load(other, at, sums[0]) * inverse
    return tuple(sums[c] + E[LANES * i + c] * y for c in range(LANES))


@plain
def columns_inwards(table, loads, work, plan, block, left, W, E, D, G):
    """Innovations of eight columns into ``E``, a unit a rate, and 1/D; what they feel of θ̈_free.

    Their products Eᵀ D⁻¹ E into ``G``: the sweep waits for each body, and these cost nothing
    meanwhile.  ``W`` has the wrenches on each of the block's ends; ``left`` as in `comply`.
    """
    n, _, _, _ = sizes(table, table.size)
    m = angles(n)
    zero = eight(0.0)
    z, r = (zero, zero, zero, zero, zero, zero), zero
    sums = (zero, zero, zero, zero, zero, zero, zero, zero)
    first, end = plan[block + FIRST], plan[block + LAST]
    for i in range(plan[end - 1], -1, -1):
        while end > first and plan[end - 1] == i:
            end -= 2
            z = add_wrench(z, W, 3 * (end - first))
        kind, _, at_v, row = place_of(table, n, i)
        geared = table[LINK * i + ARMATURE] != 0.0
        if kind <= PRISMATIC:
            D[at_v] = 1.0 / work[row + 12]
            held = left + work[row + 13] if geared else left
            if kind == REVOLUTE:
                z, r = through_turn(z, r, held, work, row, E, at_v)
            else:
                z, r = through_slide(z, r, held, work, row, E, at_v)
            sums = gathered(sums, E, at_v, E, at_v, D[at_v])
            z = along_screw(z, table, LINK * i, work[i], work[m + i], work[row + 11])
            if i == 0:
                r = rested(z, r, joint_axes(table, LINK * n, rising(loads, 0.0)))
        elif kind == FREE:
            if geared:
                r = rested(z, r, constants(work, row + 12))
            r = through_float(z, r, work, row, E, at_v, D)
            for k in range(at_v, at_v + 6):
                sums = gathered(sums, E, k, E, k, D[k])
        else:
            V = left, 0.0, 0.0, 0.0, left, 0.0, 0.0, 0.0, left
            if geared:
                V = kept(left, work, row + 36)
            z, r = through_ball(z, r, V, table, LINK * n + FRAME * i, work, row, E, at_v, D)
            for k in range(at_v, at_v + 3):
                sums = gathered(sums, E, k, E, k, D[k])
            if i == 0:
                r = rested(z, r, rising(loads, 0.0))
    store_all(G, 0, sums)
    return r


@plain
def products_of(E, other, D, rates, G):
    """Eᵀ D⁻¹ other of two blocks of columns into ``G``, over the first ``rates``."""
    zero = eight(0.0)
    sums = (zero, zero, zero, zero, zero, zero, zero, zero)
    for i in range(rates):
        sums = gathered(sums, E, i, other, i, D[i])
    store_all(G, 0, sums)


@plain
def scatter(plan, block, other, G, inverse, asked):
    """Add products of two blocks to Λ⁻¹; those of what is asked are answers."""
    held = plan[HELD]
    for j in range(plan[block + COUNT]):
        r = plan[plan[block + COLUMN] + j]
        for k in range(plan[other + COUNT]):
            c = plan[plan[other + COLUMN] + k]
            value = G[LANES * j + k]
            if r < held and c < held:
                inverse[held * r + c] += value
                if block != other:
                    inverse[held * c + r] += value
            elif r == c:
                asked[r - held] = value


# --- one linkage ----------------------------------------------------------------------------------


@step
def chain_of(table, plan, c):
    """Where the record of a chain is, and its own table."""
    at = plan[CHAIN0] + CHAIN * c
    return at, part(table, plan[at + TABLE], plan[at + TABLE_SIZE], 0.0)


@step
def own_rates(rates, plan, at):
    """Of a chain."""
    return part(rates, plan[at + V], plan[at + NV_OF], 0.0)


@step
def loads_of(loads, plan, at, many):
    """Gravity, and forces on the bodies of a chain if there are ``many`` and not none."""
    return part(loads, many * plan[at + LOAD], 3 + many * (plan[at + LOAD_SIZE] - 3), 0.0)


@plain
def look(table, plan, q, qd, moving, loads, memory):
    """Place all ends and find gaps, and rates at ``qd``; whether the coordinates can be used.

    ``moving``: rates for the dynamics, which are none where only positions count.
    """
    placed, facts = room(memory, plan[PLACED0]), room(memory, plan[FACTS0])
    for end in range(2 * plan[CLOSURES]):
        place_base(table, plan[END0] + END * end, placed, PLACED * end)
    many = 1 if loads.size > 3 else 0
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        x = part(q, plan[at + Q], plan[at + NQ_OF], 0.0)
        v, w = own_rates(qd, plan, at), own_rates(moving, plan, at)
        work = room(memory, plan[at + UNITS])
        if not outwards(own, x, w, loads_of(loads, plan, at, many), 0, work, 0.0):
            return False
        place_ends(table, own, x, v, work, plan, at, placed)
    look_at(table, plan, placed, loads, facts)
    return True


@plain
def hold(table, work):
    """Let every joint be held, of inertia one: columns then become those of Aᵀ."""
    n, _, _, _ = sizes(table, table.size)
    for i in range(n):
        kind, _, _, row = place_of(table, n, i)
        geared = table[LINK * i + ARMATURE] != 0.0
        if kind <= PRISMATIC:
            for k in range(row + 5, row + 10):
                work[k] = 0.0
            work[row + 12] = 1.0
            if geared:
                work[row + 13] = 0.0
        elif kind == SPHERICAL:
            for k in range(row + 21, row + 45 if geared else row + 36):
                work[k] = 0.0
            work[row + 30] = work[row + 33] = work[row + 35] = 1.0
        else:
            for k in range(row + 30, row + 66):
                work[k] = 1.0 if (k - row - 30) % 7 == 0 else 0.0


@plain
def comply(table, plan, tau, loads, left, memory):
    """Λ⁻¹, and the accelerations of its rows in free motion; whether every joint moves inertia.

    ``left``: how much of what it feels a joint hands on, nothing or, if it is held, all.  Then
    Λ⁻¹ is A Aᵀ.
    """
    held = plan[HELD]
    placed, facts = room(memory, plan[PLACED0]), room(memory, plan[FACTS0])
    inverse, asked = room(memory, plan[INVERSE0]), room(memory, plan[ASKED0])
    G = room(memory, plan[WRENCH0])
    W = room(memory, plan[WRENCH0] + LANES * LANES)
    for k in range(held * held):
        inverse[k] = 0.0
    for end in range(2 * plan[CLOSURES]):
        asked[end] = 0.0
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        work, D = room(memory, plan[at + UNITS]), room(memory, plan[at + INVERSES])
        forces = own_rates(tau, plan, at)
        if left != 0.0:
            hold(own, work)
        elif inwards(own, forces, 0, work, 0.0) != DONE:
            return False
        for block in range(plan[at + BLOCKS], plan[at + LAST_BLOCK], BLOCK):
            E = room(memory, plan[block + INNOVATIONS])
            first = plan[block + FIRST]
            for k in range(first, plan[block + LAST], 2):
                to = room(W, 3 * LANES * (k - first))
                fill(table, plan, block, plan[k], placed, facts, to)
            felt = columns_inwards(own, loads, work, plan, block, left, W, E, D, G)
            scatter(plan, block, block, G, inverse, asked)
            for lane in range(plan[block + COUNT]):
                row = plan[plan[block + COLUMN] + lane]
                if row < held:
                    facts[FACTS * row + 5] += lane_of(felt, lane)
            for other in range(plan[at + BLOCKS], block, BLOCK):
                rates = min(plan[block + RATES], plan[other + RATES])
                products_of(E, room(memory, plan[other + INNOVATIONS]), D, rates, G)
                scatter(plan, block, other, G, inverse, asked)
    return True


@plain
def factor_scaled(table, plan, memory, certain):
    """Inverse of Cholesky's factor of Λ⁻¹ in units of how freely the ends move.

    Whether its smallest eigenvalue is above ``certain``, of which 1 / tr Λ is a bound.
    """
    held = plan[HELD]
    facts, asked = room(memory, plan[FACTS0]), room(memory, plan[ASKED0])
    inverse, L = room(memory, plan[INVERSE0]), room(memory, plan[FACTOR0])
    for row in range(held):
        k = plan[plan[OF_ROW0] + 2 * row]
        scale = math.sqrt(asked[2 * k] + asked[2 * k + 1])
        if plan[plan[OF_ROW0] + 2 * row + 1] != 0:
            scale /= table[plan[END0] + END * 2 * k + 12]
        facts[FACTS * row + 7] = 1.0 / scale if scale > 0.0 else 1.0
    trace = 0.0
    for i in range(held):
        for j in range(i + 1):
            total = inverse[held * i + j] * facts[FACTS * i + 7] * facts[FACTS * j + 7]
            for k in range(j):
                total -= L[held * i + k] * L[held * j + k]
            if i == j:
                if not total > 0.0:
                    return False
                L[held * i + i] = 1.0 / math.sqrt(total)
                trace += 1.0 / total
            else:
                L[held * i + j] = total * L[held * j + j]
    for i in range(held):
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += L[held * i + k] * L[held * k + j]
            L[held * i + j] = -total * L[held * i + i]
            trace += L[held * i + j] * L[held * i + j]
    return trace * certain < 1.0


@plain
def multipliers(plan, memory, which):
    """f = −Λ of a fact of each row."""
    held = plan[HELD]
    facts, L = room(memory, plan[FACTS0]), room(memory, plan[FACTOR0])
    for row in range(held):
        facts[FACTS * row + 6] = 0.0
    for i in range(held):
        total = 0.0
        for j in range(i + 1):
            total -= L[held * i + j] * facts[FACTS * j + 7] * facts[FACTS * j + which]
        for j in range(i + 1):
            facts[FACTS * j + 6] += L[held * i + j] * total
    for row in range(held):
        facts[FACTS * row + 6] *= facts[FACTS * row + 7]


@plain
def push_chain(table, plan, chain, memory):
    """Add to the innovations u/D in the work of a chain what the multipliers do."""
    held = plan[HELD]
    facts, work = room(memory, plan[FACTS0]), room(memory, plan[chain + UNITS])
    D, f = room(memory, plan[chain + INVERSES]), room(memory, plan[WRENCH0])
    first, last = plan[chain + BLOCKS], plan[chain + LAST_BLOCK]
    if first == last:
        return
    lane = 0
    for block in range(first, last, BLOCK):
        for k in range(LANES):
            f[lane] = 0.0
            if k < plan[block + COUNT]:
                row = plan[plan[block + COLUMN] + k]
                f[lane] = facts[FACTS * row + 6] if row < held else 0.0
            lane += 1
    u = room(memory, plan[WRENCH0] + lane)
    n, _, _, _ = sizes(table, table.size)
    for i in range(n):
        kind, _, at_v, row = place_of(table, n, i)
        if at_v >= plan[first + RATES]:  # the first block reaches furthest
            return
        for k in range(rates_of(kind)):
            u[k] = 0.0
            lane = 0
            for block in range(first, last, BLOCK):
                if at_v < plan[block + RATES]:
                    E = room(memory, plan[block + INNOVATIONS])
                    u[k] += across_lanes(E, at_v + k, f, lane)
                lane += LANES
        if kind <= PRISMATIC:
            work[row + 10] += u[0] * D[at_v]
        elif kind == SPHERICAL:
            roll(work, row, u, at_v, D)
        else:
            drift(work, row, u, at_v, D)


@plain
def rates_of(kind):
    return 1 if kind <= PRISMATIC else 3 if kind == SPHERICAL else 6


@step
def across_lanes(E, i, f, first):
    y = [E[LANES * i + k] * f[first + k] for k in range(LANES)]
    return ((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7]))


@step
def roll(work, row, u, at, D):
    L, _ = ball_factor(work, row)
    x = rest_of_way(L, constants(D, at), constants(u, 0))
    store_all(work, row + 15, plus(constants(work, row + 15), x))


@step
def drift(work, row, u, at, D):
    x = [u[k] * D[at + k] for k in range(6)]
    for i in range(5, -1, -1):
        for j in range(i + 1, 6):
            x[i] = x[i] - work[row + 30 + 6 * j + i] * x[j]
        work[row + 15 + i] = work[row + 15 + i] + x[i]


@plain
def wrenches_of(plan, memory, out):
    """Force and moment of each closure at b's point on b, in the base's axes; if all finite."""
    facts = room(memory, plan[FACTS0])
    total = 0.0
    for k in range(6 * plan[CLOSURES]):
        out[k] = 0.0
    for row in range(plan[HELD]):
        of = plan[OF_ROW0] + 2 * row
        to = 6 * plan[of] + 3 * plan[of + 1]
        for k in range(3):
            out[to + k] += facts[FACTS * row + 6] * facts[FACTS * row + k]
            total += 0.0 * out[to + k]
    return total == 0.0


@plain
def largest(table, plan, memory, which):
    """Of a fact of the rows, in units of each."""
    facts = room(memory, plan[FACTS0])
    found = 0.0
    for row in range(plan[HELD]):
        size = abs(facts[FACTS * row + which]) * table[plan[ROW0] + ROW * row + 3]
        found = (size if size > found else found) + 0.0 * size
    return found


@plain
def speed_of_ends(table, plan, memory, found):
    """Of the fastest end, in reaches and radians a unit of time, or what is found already."""
    placed = room(memory, plan[PLACED0])
    shorter = table[plan[ROW0] - 1]
    for end in range(2 * plan[CLOSURES]):
        for k in range(3):
            turning = abs(placed[PLACED * end + 12 + k])
            moving = abs(placed[PLACED * end + 27 + k]) * shorter
            found = turning if turning > found else found
            found = moving if moving > found else found
    return found


# --- driver ---------------------------------------------------------------------------------------


@plain
def log_pivots(table, work):
    """ln det ℳ of a chain."""
    n, _, _, _ = sizes(table, table.size)
    total = 0.0
    for i in range(n):
        kind, _, _, row = place_of(table, n, i)
        if kind <= PRISMATIC:
            total += math.log(work[row + 12])
        elif kind == SPHERICAL:
            _, d = ball_factor(work, row)
            total += math.log(d[0]) + math.log(d[1]) + math.log(d[2])
        else:
            for k in range(6):
                total += math.log(work[row + 30 + 7 * k])
    return total


@plain
def logarithms(table, plan, memory, out):
    """ln det Λ⁻¹, of its factor, and ln det ℳ."""
    facts, L = room(memory, plan[FACTS0]), room(memory, plan[FACTOR0])
    out[0] = out[1] = 0.0
    for row in range(plan[HELD]):
        out[0] -= 2.0 * math.log(L[(plan[HELD] + 1) * row] * facts[FACTS * row + 7])
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        out[1] += log_pivots(own, room(memory, plan[at + UNITS]))


@plain
def moved(table, plan, qd, loads, memory, qdd, out):
    """Accelerations of all chains, and wrenches, given the multipliers; whether all are finite."""
    many = 1 if loads.size > 3 else 0
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        push_chain(own, plan, at, memory)
        v, to = own_rates(qd, plan, at), own_rates(qdd, plan, at)
        work = room(memory, plan[at + UNITS])
        if not accelerations(own, v, loads_of(loads, plan, at, many), 0, work, to, 0.0):
            return False
    return wrenches_of(plan, memory, out)


@plain
def state(table, plan, q, qd, tau, loads, limits, task, memory, qdd, out):
    """What `states` does for one; DONE or why not."""
    limit, certain, speed = limits
    moving = qd if task == MOTION else tau
    if not look(table, plan, q, qd, moving, loads, memory):
        return NOT_USABLE
    facts = room(memory, plan[FACTS0])
    if task == GAPS:
        for row in range(plan[HELD]):
            out[row], out[plan[HELD] + row] = facts[FACTS * row + 3], facts[FACTS * row + 4]
        return DONE
    if task == MOTION and not largest(table, plan, memory, 3) <= limit:
        return OPEN
    if not comply(table, plan, tau, loads, 1.0 if task == ROWS else 0.0, memory):
        return PIVOT
    if task == MOTION:
        gain = math.sqrt(largest(table, plan, memory, 5))
        if not gain < math.inf:
            return NOT_USABLE
        fastest = speed_of_ends(table, plan, memory, speed)
        if not largest(table, plan, memory, 4) <= limit * (fastest + gain):
            return OPENING
    if task == COMPLIANCE:
        inverse = room(memory, plan[INVERSE0])
        for k in range(plan[HELD] * plan[HELD]):
            out[k] = inverse[k]
        return DONE
    if not factor_scaled(table, plan, memory, certain):
        return DEPENDENT
    if task >= INERTIA:
        logarithms(table, plan, memory, out)
        return DONE
    multipliers(plan, memory, 5 if task == MOTION else 2 + task)
    return DONE if moved(table, plan, moving, loads, memory, qdd, out) else NOT_USABLE


@jit
def states(table, q, qd, tau, loads, limit, certain, speed, task, qdd, wrenches):
    """Accelerations and wrenches of states; DONE, or the first without an answer, and why.

    ``limit``: how large a gap may be; ``certain``: what is `CERTAIN`; ``speed``: how fast some body
    moves at least.  Other tasks are for no forces, and write something else:

        GAP, RATE    the rates −ℳ⁻¹ Aᵀ Λ gap or −ℳ⁻¹ Aᵀ Λ A θ̇ for q̈, and impulses for wrenches
        GAPS         gaps and their rates
        COMPLIANCE   Λ⁻¹
        INERTIA      ln det Λ⁻¹ and ln det ℳ
        ROWS         ln det A Aᵀ and 0
    """
    plan = table[integer(table, table.size - 1) :].view(np.int64)
    out = wrenches.ravel()
    nq, nv, width = plan[NQ], plan[NV], plan[WIDTHS + task]
    frames = out.size // width
    if q.size != nq * frames or qd.size != nv * frames or tau.size != nv * frames:
        return WRONG_SIZE
    memory = np.empty(plan[MEMORY])
    many = 1 if loads.size > 3 else 0
    for frame in range(frames):
        why = state(
            table, plan, part(q, nq * frame, nq, 0.0), part(qd, nv * frame, nv, 0.0),
            part(tau, nv * frame, nv, 0.0),
            part(loads, many * plan[LOADS] * frame, 3 + many * (plan[LOADS] - 3), 0.0),
            (limit, certain, speed), task, memory,
            part(qdd, nv * frame, nv, 0.0), part(out, width * frame, width, 0.0),
        )  # fmt: skip
        if why != DONE:
            return REASONS * frame - why
    return DONE


@cache
def only_states() -> Any:
    """Return `states` for the arrays that it takes: it refuses others with a TypeError."""
    numbers = *(types.float64,) * 3, types.int64
    states.compile((*(FLOATS,) * 5, *numbers, FLOATS, types.Array(types.float64, 2, "C")))
    states.disable_compile()
    return states
