"""Ends of closures: where they are and how they move; gaps and their rates.

Tables as in `rigid_closed`.
"""

from __future__ import annotations

import math

from fixman.kernels.algebra.triples import (
    back,
    constants,
    matrix,
    product,
    store_all,
    times,
    transposed,
)
from fixman.kernels.algebra.vectors import inner, minus, outer, plus, scaled
from fixman.kernels.compiler.lanes import LANES, eight, load, part
from fixman.kernels.compiler.lanes import lane as lane_of
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.articulated_tables import (
    ALONG_X,
    ALONG_Y,
    COS_X,
    FRAME,
    JOINT,
    LINK,
    ORIGIN,
    PITCH,
    PLACE,
    SHIFT,
    SHIFTED,
    SIN_X,
    TURN,
    angles,
    place_of,
    seated,
    sizes,
)
from fixman.kernels.rigid.closed_tables import (
    ALL_TURNS,
    AXES0,
    BASE,
    CLOSURE,
    CLOSURE0,
    CLOSURES,
    END,
    END0,
    ENDS,
    FACTS,
    LAST_END,
    NO_TURNS,
    NOWHERE,
    OF_ROW0,
    PLACED,
    ROW,
    ROW0,
    plain,
)
from fixman.kernels.rigid.joints import RATES, joint_twist

# --- where the ends are ---------------------------------------------------------------------------


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
def to_joint(E, r, motion):
    """Motion at a joint, in axes E, that is placed at r in the body before."""
    R, dR, x, v = motion
    return columns_times(R, E), columns_times(dR, E), x + column_at(R, r), v + column_at(dR, r)


@step
def with_rates(w, rate, motion):
    """Add ω and the velocity of a body's origin, in its axes."""
    R, dR, x, v = motion
    v = v + column_at(R, rate)
    dX = dR[0] + w[2] * R[1] - w[1] * R[2]
    dY = dR[1] + w[0] * R[2] - w[2] * R[0]
    return R, (dX, dY, dR[2] + w[1] * R[0] - w[0] * R[1]), x, v


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
def place_ends(table, own, qd, work, plan, chain, placed):
    """Follow a chain, of which ``own`` is the table, to its last end; after `outwards`."""
    first, last = plan[chain + ENDS], plan[chain + LAST_END]
    if first == last:
        return
    n, _, _, _ = sizes(own, own.size)
    m = angles(n)
    zero = eight(0.0)
    base = base_axes(part(table, plan[AXES0], 3 * LANES, 0.0), zero)
    motion = base, (zero, zero, zero), zero, zero
    for i in range(plan[last - 1] + 1):
        kind, _, at_v, row = place_of(own, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        if RATES[kind] == 1:
            if seated(own, n, i):
                motion = to_joint(matrix(own, seat + JOINT), constants(own, seat + PLACE), motion)
            (_, _, rate), (_, _, slide) = joint_twist(kind, own[at + PITCH], qd, at_v)
            d = work[row + SHIFTED]
            motion = along(own, at, work[i], work[m + i], d, rate, slide, motion)
        else:
            motion = to_joint(matrix(work, row), constants(work, row + ORIGIN), motion)
            turn, slide = joint_twist(kind, 0.0, qd, at_v)
            motion = with_rates(turn, slide, motion)
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
        sine = math.sqrt(inner(normal, normal))
        angle = math.atan2(sine, cosine)
        if cosine >= 0.0:
            return scaled(angle / sine if sine > 0.0 else 1.0, normal)
        # The other half of T keeps its digits where the turn is almost half a one:
        # ½ (T + Tᵀ) − cos 1 = (1 − cos) n nᵀ, of which this is the largest column.
        k = 1 if T[4] > T[0] else 0
        k = 2 if T[8] > T[4 * k] else k
        column = (
            0.5 * (T[k] + T[3 * k]) - (cosine if k == 0 else 0.0),
            0.5 * (T[3 + k] + T[3 * k + 1]) - (cosine if k == 1 else 0.0),
            0.5 * (T[6 + k] + T[3 * k + 2]) - (cosine if k == 2 else 0.0),
        )
        size = math.sqrt(inner(column, column))
        return scaled(angle / (-size if inner(column, normal) < 0.0 else size), column)
    now = back(Q, (R[held], R[3 + held], R[6 + held]))
    e = (1.0 if held == 0 else 0.0, 1.0 if held == 1 else 0.0, 1.0 if held == 2 else 0.0)
    normal = outer(e, now)
    sine = math.sqrt(inner(normal, normal))
    angle = math.atan2(sine, inner(e, now))
    if sine > 0.0:
        return scaled(angle / sine, normal)
    # About which normal an axis was turned by half a turn nothing says.
    other = (held + 2) % 3
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
