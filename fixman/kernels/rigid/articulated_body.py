"""Featherstone's articulated-body recursions (2008, table 7.1), for one state or eight in lanes.

Bodies are numbered from the base.  Those with a joint of one rate are seen in frames with modified
Denavit–Hartenberg parameters, so that going from such a body to the one before is a screw about the
joint's z axis and one about the x axis of that body:  turn by θ and slide by d along z, turn by β
about x, slide by a along x (and by b along y where the common normal of two nearly parallel axes
would be far away).  Other bodies, as the base, are seen in the user's frames; a screw that leads to
one of them ends in axes of its own, which a constant rotation leads back from.

Symbols.  [α; a] is the acceleration of a body, angular and of its frame's origin, [n; f] the wrench
on it about that origin; I^A = [[A, B], [Bᵀ, C]] and p^A = [n; f] are those of `Articulated`, c the
bias acceleration of a joint.  Reference points lie on the joints, so no linear velocity occurs
(Rodriguez & Kreutz 1988): p = [ω×I_O ω; m ω×(ω×c)] and c = [ω×z q̇; ω×(ω×r)].

A joint of several rates is as many joints of one rate in a row, with nothing between them.

Tables (see `fixman.rigid.articulated_body`).  ``table`` holds a row of LINK constants for every
body; after those a row of FRAME more, that only wrenches and joints of several rates need; and
after those the bits of ``places`` (n + 1, 4), integers: the joint's kind, its first coordinate and
rate, and the start of its row of units in ``work``; at the end the numbers of all.  It is one array
because each costs 40 ns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import types

from fixman.kernels import jit
from fixman.kernels.algebra.triples import (
    across,
    back,
    constants,
    constants6,
    full,
    load3,
    load6,
    load9,
    matrix,
    product,
    store_all,
    take3,
    times,
    times_symmetric,
    transposed,
    turned,
    upper,
)
from fixman.kernels.algebra.vectors import inner, outer, plus
from fixman.kernels.compiler.lanes import (
    LANES,
    above,
    eight,
    fill_sines,
    integer,
    lanes,
    load,
    put,
    store,
    take,
)
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import AXES, RATES, SLIDES, TURNS, WHERE, rotation
from fixman.kernels.rigid.links import (
    LOST,
    Articulated,
    added,
    carried,
    freed,
    mirrored,
    renamed,
    sheared,
)

# columns of the first rows: cos θ, sin θ, d, cos β, sin β, a, b at q = 0; m, h = m c, and I_O as
# xx, xy, xz, yy, yz, zz; armature, the largest of a joint of several rates, and pitch.  Not θ
# itself: the sines of right angles would not be exact, and a straight arm of n links multiplies
# that error by n².
COS_Z, SIN_Z, SLIDE, COS_X, SIN_X, ALONG_X, ALONG_Y, MASS, MOMENT, INERTIA, ARMATURE, PITCH = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 17, 18,
)  # fmt: skip
LINK = 19
# columns of the second rows: rotation from the user's body frame and its origin in ours; axes and
# place of the joint in our frame of the body before; armature of each rate
TURN, SHIFT, JOINT, PLACE, ROTORS = 0, 9, 12, 21, 24
FRAME = 30

# Rows of `work`, in units.  A joint of one rate: c (2 and 3), the body's wrench (6) → a rate's
# units, and d.  Others: E (9), r (3), c (6), wrench (6), and then the units of each rate: of U/D
# all but what lies along the axis (5), u/D, D, J/D, (D − J)/D.
U, DRIVE, PIVOT, HELD, SHARE, RATE = 0, 5, 6, 7, 8, 9
BIAS, WRENCH, SHIFTED, ROW = 0, 5, 14, 15
ORIGIN, CARRIED, PUSHED, SEVERAL = 9, 12, 18, 24
EPS = 2.0**-52
INF = np.inf
DONE, NOT_USABLE, WRONG_SIZE = -1, -2, -3


def padded(n: Any) -> Any:
    """Angles come in full registers: a loop's remainder would cost as much as four of them."""
    return (n + LANES - 1) & -LANES


angles = step(padded)


@step
def sizes(table, size):
    """Numbers of bodies, coordinates, rates and units of work, from the end of a table."""
    return tuple(integer(table, size - 4 + k) for k in range(4))


@step
def place_of(table, n, i):
    """Kind of joint, first coordinate, first rate and row of body i."""
    at = n * (LINK + FRAME) + 4 * i
    return tuple(integer(table, at + k) for k in range(4))


@jit
def seated(table, n, i):
    """Whether joint i is on a body in the user's frame: one with several rates, or the base."""
    if i == 0:
        return True
    kind, _, _, _ = place_of(table, n, i - 1)
    return RATES[kind] > 1


@jit
def first_units(kind, row):
    """Where the units of a joint's rates begin."""
    return row + WRENCH if RATES[kind] == 1 else row + SEVERAL


# --- screws on articulated inertias -------------------------------------------------------------


@step
def turn_symmetric(S, c, s):
    w = s * (S[0] - S[3]) + (c + c) * S[1]
    return S[0] - s * w, c * w - S[1], c * S[2] - s * S[4], S[3] + s * w, s * S[2] + c * S[4], S[5]


@step
def turn(body, c, s):
    """The same in axes from which these follow by a turn about z."""
    A, B, C, n, f = body
    w = s * (B[0] - B[4]) + c * (B[1] + B[3])
    B = (
        B[0] - s * w, c * w - B[3], c * B[2] - s * B[5],
        c * w - B[1], B[4] + s * w, s * B[2] + c * B[5],
        c * B[6] - s * B[7], s * B[6] + c * B[7], B[8],
    )  # fmt: skip
    n = (c * n[0] - s * n[1], s * n[0] + c * n[1], n[2])
    f = (c * f[0] - s * f[1], s * f[0] + c * f[1], f[2])
    return Articulated(turn_symmetric(A, c, s), B, turn_symmetric(C, c, s), n, f)


@step
def slide(body, d):
    """The same about a point from which this one lies d along z."""
    A, B, C, n, f = body
    new = (
        B[0] - d * C[1], B[1] - d * C[3], B[2] - d * C[4],
        B[3] + d * C[0], B[4] + d * C[1], B[5] + d * C[2],
        B[6], B[7], B[8],
    )  # fmt: skip
    A = (
        A[0] - d * (B[1] + new[1]),
        A[1] + d * (B[0] - new[4]),
        A[2] - d * B[7],
        A[3] + d * (B[3] + new[3]),
        A[4] + d * B[6],
        A[5],
    )
    return Articulated(A, new, C, (n[0] - d * f[1], n[1] + d * f[0], n[2]), f)


# --- outwards: velocities (table 7.1, first sweep) ----------------------------------------------


@step
def forwards(x, c, s):
    """Components after a turn of the axes about z."""
    return c * x[0] + s * x[1], c * x[1] - s * x[0], x[2]


@step
def forwards_x(x, c, s):
    return x[0], c * x[1] + s * x[2], c * x[2] - s * x[1]


@step
def in_joint_axes(table, at, x):
    return back(matrix(table, at + JOINT), x)


@step
def put_bias_wrench(table, at, w, work, row):
    """Write p of a body: [ω×I_O ω; ω×(ω×h)]."""
    h = constants(table, at + MOMENT)
    n = outer(w, times_symmetric(constants6(table, at + INERTIA), w))
    store_all(work, row, (*n, *outer(w, outer(w, h))))


@step
def several_outwards(table, at, R, x, turning, sliding, w, work, row):
    """Place and bias accelerations of a joint of several rates; ω of its body.

    ``R``, ``x``: of the body in the joint's frame.  c = [ω×turning; ω×(ω×r) + (2 ω + turning) ×
    sliding] with ω of the body before.
    """
    joint = matrix(table, at + JOINT)
    E, r = product(joint, R), plus(constants(table, at + PLACE), times(joint, x))
    before = back(E, w)
    after = plus(before, turning)
    linear = plus(back(E, outer(w, outer(w, r))), outer(plus(before, after), sliding))
    store_all(work, row, (*E, *r, *outer(before, turning), *linear))
    return after


@step
def single_outwards(table, at, moved, w, work, row, turns):
    """Turn and bias accelerations of a joint of one rate; ω of its body.

    ``moved``: rate of turning, twice the rate of sliding, d less that at q = 0; ``turns``: where
    cosine and sine of its angle are.
    """
    turning, sliding, d = moved
    c, s = load(work, turns[0], turning), load(work, turns[1], turning)
    c, s = (
        table[at + COS_Z] * c - table[at + SIN_Z] * s,
        table[at + COS_Z] * s + table[at + SIN_Z] * c,
    )
    store(work, turns[0], c)
    store(work, turns[1], s)
    a, b = table[at + ALONG_X], table[at + ALONG_Y]
    # ω×(ω×r), first r = (a, b, 0) in the frame of the body before
    g = (-a * (w[1] * w[1] + w[2] * w[2]), a * w[0] * w[1], a * w[0] * w[2])
    h = (b * w[0] * w[1], -b * (w[0] * w[0] + w[2] * w[2]), b * w[1] * w[2])
    cx, sx = table[at + COS_X], table[at + SIN_X]
    w, g = forwards_x(w, cx, sx), forwards_x(plus(g, h), cx, sx)
    d = d + table[at + SLIDE]
    h = (d * w[0] * w[2], d * w[1] * w[2], -d * (w[0] * w[0] + w[1] * w[1]))
    w, g = forwards(w, c, s), forwards(plus(g, h), c, s)
    bias = (turning * w[1], -turning * w[0])
    store_all(work, row + BIAS, (*bias, g[0] + sliding * w[1], g[1] - sliding * w[0], g[2]))
    store(work, row + SHIFTED, d)
    return w[0], w[1], w[2] + turning


@step
def checked(x):
    """Zero, or NaN where one of these is no number."""
    total = x[0]
    for k in range(1, len(x)):
        total = total + x[k]
    return 0.0 * total


@step
def loaded(table, at, loads, first, stride, row, work, like):
    """Take the wrench from outside off that; zero, or NaN where a component is no number."""
    R = matrix(table, at + TURN)
    f = times(R, take3(loads, first, stride, like))
    n = times(R, take3(loads, first + 3, stride, like))
    n = plus(n, outer(constants(table, at + SHIFT), f))
    given, wrench = load6(work, row, like), (*n, *f)
    store_all(work, row, tuple(given[k] - wrench[k] for k in range(6)))
    return checked(wrench)  # a joint does not feel every component, but each must be a number


@step
def rising(loads, like):
    """Acceleration against which the base would be at rest."""
    return tuple(like - loads[k] for k in range(3))


@jit
def three_of(states, first, stride, kind, part, zero):
    """The turning part of rates (``part`` 0) or the sliding one (3), as `joints.turning`."""
    x, y, z = WHERE[kind, part], WHERE[kind, part + 1], WHERE[kind, part + 2]
    return (
        take(states, first + x, stride, zero) if x >= 0 else zero,
        take(states, first + y, stride, zero) if y >= 0 else zero,
        take(states, first + z, stride, zero) if z >= 0 else zero,
    )


@step
def turned_z(c, s):
    zero = 0.0 * c
    return c, -s, zero, s, c, zero, zero, zero, 1.0 + zero


@step
def four_of(q, first, stride, like):
    return tuple(take(q, first + k, stride, like) for k in range(4))


@jit
def outwards(table, q, qd, loads, frame, work, zero):
    """Turns, bias accelerations and bias wrenches into ``work``; whether the numbers can be used.

    Values are of the type of ``zero``: of one state, ``frame``, or of eight states from there.
    """
    n, nq, nv, _ = sizes(table, table.size)
    m = angles(n)
    for i in range(m):
        store(work, i, zero)
    for i in range(n):
        kind, at_q, _, _ = place_of(table, n, i)
        if TURNS[kind] == 1:
            store(work, i, take(q, frame * nq + at_q + SLIDES[kind], nq, zero))
    fill_sines(work, m * lanes(zero))
    good = True
    total = zero
    w = (zero, zero, zero)
    for i in range(n):
        kind, at_q, at_v, row = place_of(table, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        at_q += frame * nq
        at_v += frame * nv
        if RATES[kind] == 1:
            if seated(table, n, i):
                w = in_joint_axes(table, seat, w)
            rate, zθ = take(qd, at_v, nv, zero), take(q, at_q, nq, zero)
            moved = (rate, zero, zero)
            if TURNS[kind] == 0:
                moved = (zero, rate + rate, zθ)
            elif table[at + PITCH] != 0.0:
                moved = (rate, 2.0 * table[at + PITCH] * rate, table[at + PITCH] * zθ)
            w = single_outwards(table, at, moved, w, work, row, (i, m + i))
            row += WRENCH
        else:
            x, sliding = three_of(q, at_q, nq, kind, 3, zero), three_of(qd, at_v, nv, kind, 3, zero)
            turning = three_of(qd, at_v, nv, kind, 0, zero)
            total = total + checked(x)
            if TURNS[kind] == 3:
                R, unit = rotation(*four_of(q, at_q + SLIDES[kind], nq, zero))
                good = good and unit
            else:
                R = turned_z(load(work, i, zero), load(work, m + i, zero))
            w = several_outwards(table, seat, R, x, turning, sliding, w, work, row)
            row += PUSHED
        put_bias_wrench(table, at, w, work, row)
        if loads.size > 3:
            first = 3 + 6 * (n * frame + i)
            total = total + loaded(table, seat, loads, first, 6 * n, row, work, zero)
    return good and above(1.0 + zero, total)


# --- inwards: articulated inertias (second sweep) -----------------------------------------------


@step
def with_body(table, at, inertia):
    """I^A of a body and what hangs on it; the traces of A and C too."""
    A, B, C, n, f = inertia
    body = table[at + MASS], constants(table, at + MOMENT), constants6(table, at + INERTIA)
    A, B, C = added(A, B, C, *body)
    return Articulated(A, B, C, n, f), A[0] + A[3] + A[5], C[0] + C[3] + C[5]


@step
def pushed(inertia, work, row):
    """Add the wrench on the body to the bias force."""
    A, B, C, n, f = inertia
    n = plus(n, load3(work, row, n[0]))
    return Articulated(A, B, C, n, plus(f, load3(work, row + 3, n[0])))


@step
def put_rate(rate, work, at):
    g, h = rate.g, rate.h
    store_all(work, at, (g[0], g[1], *h, rate.u, rate.D, rate.held, g[2]))


@step
def with_bias(inertia, work, row):
    """p^a + I^a c for a joint of one rate, of whose c the angular part has no z."""
    A, B, C, n, f = inertia
    x, y, c = load(work, row, n[0]), load(work, row + 1, n[0]), load3(work, row + 2, n[0])
    g, h = times(B, c), times_symmetric(C, c)
    n = (
        n[0] + A[0] * x + A[1] * y + g[0],
        n[1] + A[1] * x + A[3] * y + g[1],
        n[2] + A[2] * x + A[4] * y + g[2],
    )
    return Articulated(A, B, C, n, tuple(f[i] + B[i] * x + B[3 + i] * y + h[i] for i in range(3)))


@step
def several_inwards(inertia, work, row):
    """p^a + I^a c, and on to the body before."""
    A, B, C, n, f = inertia
    E, r = load9(work, row, n[0]), load3(work, row + ORIGIN, n[0])
    c, d = load3(work, row + CARRIED, n[0]), load3(work, row + CARRIED + 3, n[0])
    n = plus(n, plus(times_symmetric(A, c), times(B, d)))
    f = times(E, plus(f, plus(back(B, c), times_symmetric(C, d))))
    n = plus(times(E, n), outer(r, f))
    A, B, C = carried(E, r, A, B, C)
    return Articulated(A, B, C, n, f), inner(r, r)


@step
def free_ball(inertia, tau, least, work, row):
    """Free all turns without a rotor, and go on to the body before, to which nothing but C is left.

    It saves a quarter of the time of chains of balls.
    """
    zero = 0.0 * tau[0]
    inertia, good = free_all(inertia, tau, (zero, zero, zero), least, work, row + SEVERAL)
    _, _, C, n, f = inertia
    E, r = load9(work, row, n[0]), load3(work, row + ORIGIN, n[0])
    f = times(E, plus(f, times_symmetric(C, load3(work, row + CARRIED + 3, n[0]))))
    T = turned(E, full(C))
    B = across(r, T)
    n = plus(times(E, n), outer(r, f))
    return Articulated(upper(across(r, transposed(B))), B, upper(T), n, f), good


@step
def seated_inwards(table, at, inertia):
    """Return from the axes of a screw to those of the user."""
    A, B, C, n, f = inertia
    R = matrix(table, at + JOINT)
    A, B, C = upper(turned(R, full(A))), turned(R, B), upper(turned(R, full(C)))
    return Articulated(A, B, C, times(R, n), times(R, f))


@step
def screw_inwards(table, at, turns, sines, inertia, work, row):
    """Go from a joint of one rate to the body before, but for the way along y."""
    like = inertia.n[0]
    moved = turn(inertia, load(work, turns, like), load(work, sines, like))
    moved = renamed(slide(moved, load(work, row + SHIFTED, like)))
    moved = turn(moved, table[at + COS_X], table[at + SIN_X])
    return renamed(slide(moved, table[at + ALONG_X]))


@step
def along_y(inertia, b):
    return slide(inertia, b)


@step
def square_of_way(table, at, work, row, like):
    """Square of the distance of the two joints."""
    a, b, d = table[at + ALONG_X], table[at + ALONG_Y], load(work, row + SHIFTED, like)
    return a * a + b * b + d * d


@step
def square_of_place(work, row, like):
    r = load3(work, row + ORIGIN, like)
    return inner(r, r)


@step
def free_all(inertia, tau, J, least, work, at):
    """Free turns about x, y and z, each of which has the name z in its turn; if none is lost."""
    diagonal = inertia.A[0], inertia.A[3], inertia.A[5]
    good = above(diagonal[0] + J[0], least)
    for j in range(3):
        inertia, rate = freed(renamed(inertia), tau[j], J[j])
        good = good & above(rate.D, least) & above(rate.D, LOST * (diagonal[j] + J[j]))
        put_rate(rate, work, at + RATE * j)
    return inertia, good


@step
def free_one(inertia, tau, J, diagonal, least, work, at):
    """Free a turn about z; whether it is not lost."""
    inertia, rate = freed(inertia, tau, J)
    put_rate(rate, work, at)
    return inertia, above(rate.D, least) & above(rate.D, LOST * (diagonal + J))


@jit
def free_part(inertia, tau, table, kind, part, least, work, seat, units):
    """Free the turns of a joint of several rates (``part`` 0), or the displacements (3) as turns.

    ``tau``: of the turns or displacements; ``units``: where the units of the first rate are.
    """
    first = WHERE[kind, part]
    if first >= 0 and WHERE[kind, part + 1] >= 0 and WHERE[kind, part + 2] >= 0:
        J = constants(table, seat + ROTORS + first)
        return free_all(inertia, tau, J, least, work, units + RATE * first)
    good = True
    diagonal = inertia.A[0], inertia.A[3], inertia.A[5]
    for k in range(3):
        inertia = renamed(inertia)
        j = WHERE[kind, part + k]
        if j >= 0:
            J, at = table[seat + ROTORS + j], units + RATE * j
            inertia, found = free_one(inertia, tau[k], J, diagonal[k], least, work, at)
            good = good and found
    return inertia, good


@step
def nothing(zero):
    """Inertia and bias force of no body."""
    return Articulated((zero,) * 6, (zero,) * 9, (zero,) * 6, (zero,) * 3, (zero,) * 3)


@jit
def lost(body, size):
    """Why there is no pivot: numbers of this ``size`` cancelled, or they overflowed."""
    return body if above(INF + 0.0 * size, size) else NOT_USABLE


@jit
def inwards(table, tau, frame, work, zero):
    """Articulated inertias from tip to base; DONE, or why not, or the first body without pivot."""
    n, _, nv, _ = sizes(table, table.size)
    m = angles(n)
    inertia = nothing(zero)
    # Sizes of the numbers whose differences A and C are: rounding leaves EPS of them.
    size = weight = zero
    for i in range(n - 1, -1, -1):
        kind, _, at_v, row = place_of(table, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        at_v += frame * nv
        inertia, trace_A, trace_C = with_body(table, at, inertia)
        least, least_C = 4.0 * EPS * (size + trace_A), 4.0 * EPS * (weight + trace_C)
        if RATES[kind] == 1:
            inertia = pushed(inertia, work, row + WRENCH)
            torque, J = take(tau, at_v, nv, zero), table[at + ARMATURE]
            pitch = table[at + PITCH]
            if TURNS[kind] == 0:
                inertia, least = mirrored(inertia), least_C
            elif pitch != 0.0:
                inertia = sheared(inertia, pitch)
            inertia, rate = freed(inertia, torque, J)
            if not above(rate.D, least):
                return lost(i, least)
            put_rate(rate, work, row + WRENCH)
            if TURNS[kind] == 0:
                inertia = mirrored(inertia)
            elif pitch != 0.0:
                inertia = sheared(inertia, -pitch)
            inertia = with_bias(inertia, work, row + BIAS)
            if i > 0:
                inertia = screw_inwards(table, at, i, m + i, inertia, work, row)
                b = table[at + ALONG_Y]
                if b != 0.0:
                    inertia = along_y(inertia, b)
                inertia = renamed(inertia)
                if seated(table, n, i):
                    inertia = seated_inwards(table, seat, inertia)
                size = trace_A + square_of_way(table, at, work, row, zero) * trace_C
        else:
            inertia, units = pushed(inertia, work, row + PUSHED), row + SEVERAL
            moment = three_of(tau, at_v, nv, kind, 0, zero)
            good = found = True
            if TURNS[kind] == 3 and SLIDES[kind] == 0 and table[at + ARMATURE] == 0.0:
                inertia, good = free_ball(inertia, moment, least, work, row)
                if not good:
                    return lost(i, least)
                size = trace_A + square_of_place(work, row, zero) * trace_C
                weight = trace_C
                continue
            if SLIDES[kind] > 0:
                force = three_of(tau, at_v, nv, kind, 3, zero)
                inertia, good = free_part(
                    mirrored(inertia), force, table, kind, 3, least_C, work, seat, units
                )
                inertia = mirrored(inertia)
            inertia, found = free_part(inertia, moment, table, kind, 0, least, work, seat, units)
            if not (good and found):
                return lost(i, least + least_C)
            if i > 0:
                inertia, square = several_inwards(inertia, work, row)
                size = trace_A + square * trace_C
        weight = trace_C
    return DONE


# --- outwards: accelerations (third sweep) --------------------------------------------------------


@step
def single_carried(table, at, turns, sines, spin, a, row, work):
    """a′ of a body with a joint of one rate: the motion of the one before, and c."""
    like = a[0]
    x = table[at + ALONG_X]
    a = (a[0], a[1] + x * spin[2], a[2] - x * spin[1])
    cx, sx = table[at + COS_X], table[at + SIN_X]
    spin, a = forwards_x(spin, cx, sx), forwards_x(a, cx, sx)
    d = load(work, row + SHIFTED, like)
    a = (a[0] + d * spin[1], a[1] - d * spin[0], a[2])
    c, s = load(work, turns, like), load(work, sines, like)
    spin, a = forwards(spin, c, s), forwards(a, c, s)
    a = plus(a, load3(work, row + 2, like))
    x, y = spin[0] + load(work, row, like), spin[1] + load(work, row + 1, like)
    return (x, y, spin[2]), a


@step
def several_carried(spin, a, work, row):
    """a′ of a body with a joint of several rates."""
    like = a[0]
    E, r = load9(work, row, like), load3(work, row + ORIGIN, like)
    a = back(E, plus(a, outer(spin, r)))
    c, d = load3(work, row + CARRIED, like), load3(work, row + CARRIED + 3, like)
    return plus(back(E, spin), c), plus(a, d)


@step
def moves_freely(spin, a, at, work):
    """q̈ = D⁻¹ (u − Uᵀ a′) of a turn about z, and the motion a′ + s q̈ with it.

    What a rotor does not hold of a′ along the axis does not add to the motion: where there is none
    it is u/D less what moves across.
    """
    like = a[0]
    ux, uy, vx, vy, vz, drive = load6(work, at, like)
    held, share = load(work, at + HELD, like), load(work, at + SHARE, like)
    z = drive - (ux * spin[0] + uy * spin[1]) - (vx * a[0] + vy * a[1] + vz * a[2])
    return (spin[0], spin[1], z + held * spin[2]), a, z - share * spin[2]


@step
def renamed_back(spin, a):
    """As `renamed`, the other way."""
    return (spin[2], spin[0], spin[1]), (a[2], a[0], a[1])


@step
def sheared_motion(spin, a, pitch):
    """As `sheared`."""
    return a[0], a[1], a[2] - pitch * spin[2]


@step
def aside(spin, a, y):
    return a[0] - y * spin[2], a[1], a[2] + y * spin[0]


@step
def all_move(spin, a, units, work, qdd, first, stride):
    """Motion with that of turns about z, y and x, each of which has the name z in its turn."""
    for j in (2, 1, 0):
        spin, a, acceleration = moves_freely(spin, a, units + RATE * j, work)
        put(qdd, first + j, stride, acceleration)
        spin, a = renamed_back(spin, a)
    return spin, a


@jit
def part_moves(spin, a, kind, part, units, work, qdd, first, stride):
    """Motion with that of turns (``part`` 0), or of displacements (3) if both are swapped."""
    j = WHERE[kind, part]
    if j >= 0 and WHERE[kind, part + 1] >= 0 and WHERE[kind, part + 2] >= 0:
        return all_move(spin, a, units + RATE * j, work, qdd, first + j, stride)
    for k in range(2, -1, -1):
        j = WHERE[kind, part + k]
        if j >= 0:
            spin, a, acceleration = moves_freely(spin, a, units + RATE * j, work)
            put(qdd, first + j, stride, acceleration)
        spin, a = renamed_back(spin, a)
    return spin, a


@jit
def accelerations(table, qd, loads, frame, work, qdd, zero):
    """Joint accelerations from base to tip; whether all are finite."""
    n, _, nv, _ = sizes(table, table.size)
    m = angles(n)
    spin = (zero, zero, zero)
    a = rising(loads, zero)
    total = zero
    for i in range(n):
        kind, _, first, row = place_of(table, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        first += frame * nv
        if RATES[kind] == 1:
            if seated(table, n, i):
                spin, a = in_joint_axes(table, seat, spin), in_joint_axes(table, seat, a)
            y, pitch = table[at + ALONG_Y], table[at + PITCH]
            if y != 0.0:
                a = aside(spin, a, y)
            spin, a = single_carried(table, at, i, m + i, spin, a, row, work)
            if TURNS[kind] == 0:
                a, spin, acceleration = moves_freely(a, spin, row + WRENCH, work)
            elif pitch == 0.0:
                spin, a, acceleration = moves_freely(spin, a, row + WRENCH, work)
            else:
                a = sheared_motion(spin, a, pitch)
                spin, a, acceleration = moves_freely(spin, a, row + WRENCH, work)
                a = sheared_motion(spin, a, -pitch)
            put(qdd, first, nv, acceleration)
            total = total + 0.0 * acceleration
        else:
            spin, a = several_carried(spin, a, work, row)
            units = row + SEVERAL
            spin, a = part_moves(spin, a, kind, 0, units, work, qdd, first, nv)
            if SLIDES[kind] > 0:
                a, spin = part_moves(a, spin, kind, 3, units, work, qdd, first, nv)
            total = total + checked((*spin, *a))
    return above(1.0 + zero, total)


# --- drivers -------------------------------------------------------------------------------------


@jit
def state(table, q, qd, tau, loads, qdd, room):
    """q̈ of one state; DONE, or why not, or the body whose pivot is lost.

    ``room``: memory for a row of units, or None.
    """
    _, nq, nv, units = sizes(table, table.size)
    if q.size != nq or qd.size != nv or tau.size != nv:
        return WRONG_SIZE
    work = np.empty(units) if room is None else room
    if not outwards(table, q, qd, loads, 0, work, 0.0):
        return NOT_USABLE
    body = inwards(table, tau, 0, work, 0.0)
    if body != DONE:
        return body
    return DONE if accelerations(table, qd, loads, 0, work, qdd, 0.0) else NOT_USABLE


@jit
def filled(given, frames, width):
    """``given``, ending with ``width`` numbers a state, and the last state again up to eight."""
    out = np.empty(given.size + (LANES - frames) * width)
    for k in range(given.size):
        out[k] = given[k]
    for k in range(given.size, out.size):
        out[k] = out[k - width]
    return out


@jit
def states(table, q, qd, tau, loads, first, last, qdd, room):
    """q̈ of the states from ``first`` to ``last``; ``room`` is memory for eight rows of units.

    Returns the first of eight states one of which has no answer, or DONE, and why.
    """
    n, nq, nv, _ = sizes(table, table.size)
    frames = qdd.size // nv
    few = frames < LANES
    answers = qdd
    if few:
        q, qd, tau = filled(q, frames, nq), filled(qd, frames, nv), filled(tau, frames, nv)
        if loads.size > 3:
            loads = filled(loads, frames, 6 * n)
        qdd = np.empty(qd.size)
        last = LANES
    zero = eight(0.0)
    skip = (-room.ctypes.data // 8) % LANES  # registers of 64 bytes are aligned
    work = room[skip:]
    for begin in range(first, last, LANES):
        frame = min(begin, last - LANES)
        if not outwards(table, q, qd, loads, frame, work, zero):
            return frame, NOT_USABLE
        body = inwards(table, tau, frame, work, zero)
        if body != DONE:
            return frame, body
        if not accelerations(table, qd, loads, frame, work, qdd, zero):
            return frame, NOT_USABLE
    if few:
        for k in range(answers.size):
            answers[k] = qdd[k]
    return DONE, DONE


@jit
def pivots(table, q, starts, out):
    """Blocks Sᵀ I^A S + J of every state and joint, one after the other; as `states`.

    The block of joint i begins at ``starts[i]`` of a state's ``starts[n]`` numbers.
    """
    n, nq, nv, units = sizes(table, table.size)
    count = q.size // nq
    still = np.zeros(nv * count)
    none = np.zeros(3)
    work = np.empty(units)
    for frame in range(count):
        if not outwards(table, q, still, none, frame, work, 0.0):
            return frame, NOT_USABLE
        body = inwards(table, still, frame, work, 0.0)
        if body != DONE:
            return frame, body
        for i in range(n):
            kind, _, _, row = place_of(table, n, i)
            put_block(kind, first_units(kind, row), work, out, starts[n] * frame + starts[i])
    return DONE, DONE


@jit
def share_of(kind, j, k, units, work):
    """Element of rate j in U/D of rate k, in the names that the axes had then; 1 of j = k."""
    if j == k:
        return 1.0
    at, axis, other = units + RATE * k, AXES[kind, k], AXES[kind, j]
    place = (other - axis - 1) % 3  # 0 and 1 are the x and y of then, 2 is its z
    return work[at + (place if other // 3 == axis // 3 else 2 + place)]


@jit
def put_block(kind, units, work, out, to):
    """L D Lᵀ of the rates of a joint."""
    f = RATES[kind]
    for r in range(f):
        for c in range(f):
            total = 0.0
            for k in range(min(r, c) + 1):
                x, y = share_of(kind, r, k, units, work), share_of(kind, c, k, units, work)
                total += x * y * work[units + RATE * k + PIVOT]
            out[to + f * r + c] = total


FLOATS = types.Array(types.float64, 1, "C")


@cache
def only_state(roomy: bool) -> Any:
    """Return `state`, ``roomy`` or not, for its arrays alone: others are refused by a TypeError."""
    only = jit(state.py_func)
    only.compile((*(FLOATS,) * 6, FLOATS if roomy else types.none))
    only.disable_compile()
    return only


@cache
def only_states() -> Any:
    """Return `states`, as `only_state` does."""
    only = jit(states.py_func)
    only.compile((*(FLOATS,) * 5, types.int64, types.int64, FLOATS, FLOATS))
    only.disable_compile()
    return only
