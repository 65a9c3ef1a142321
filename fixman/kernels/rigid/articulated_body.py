"""Featherstone's articulated-body recursions, for one state or for eight in lanes.

Bodies are numbered from the base and seen in frames with modified Denavit–Hartenberg parameters,
so that going from a body to the one before is a screw about the joint's z axis and one about the
x axis of that body:  turn by θ and slide by d along z, turn by β about x, slide by a along x (and
by b along y where the common normal of two nearly parallel axes would be far away).

Symbols.  [α; a] is the acceleration of a body, angular and of its frame's origin, [n; f] the wrench
on it about that origin; the articulated inertia is [[A, B], [Bᵀ, C]], the bias force p = [n; f].
Reference points lie on the joints, so no linear velocity occurs (Rodriguez & Kreutz 1988):
p = [ω×I_O ω; m ω×(ω×c)] and the bias acceleration [ω×z q̇; ω×(ω×r)].

Tables (see `fixman.rigid.articulated_body`).  ``table`` holds a row of LINK constants for every
body; after those a row of FRAME more, that only wrenches and joints of many freedoms need; and
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
    put_all,
    store_all,
    summed,
    take3,
    times,
    times_symmetric,
    transposed,
    turned,
    upper,
)
from fixman.kernels.algebra.vectors import inner, minus, outer, plus
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
from fixman.kernels.rigid.links import (
    FREE,
    LOST,
    PRISMATIC,
    REVOLUTE,
    SPHERICAL,
    added,
    held_turn,
    mirrored,
    past_ball,
    past_turn,
    rotation,
)

# columns of the first rows: cos θ, sin θ, d, cos β, sin β, a, b at q = 0; m, h = m c, and I_O as
# xx, xy, xz, yy, yz, zz; armature, the largest of a joint of many freedoms.  Not θ itself: the
# sines of right angles would not be exact, and a straight arm of n links multiplies that error by
# n².
COS_Z, SIN_Z, SLIDE, COS_X, SIN_X, ALONG_X, ALONG_Y, MASS, MOMENT, INERTIA, ARMATURE = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 17,
)  # fmt: skip
LINK = 18
# columns of the second rows: rotation from the user's body frame and its origin in ours; axes and
# place of the joint in our frame of the body before; armature of a joint of many freedoms in our
# axes, of turns and of displacements
TURN, SHIFT, JOINT, PLACE, ROTORS, HAULS = 0, 9, 12, 21, 24, 30
FRAME = 36

# Rows of `work`, in units.  The wrench becomes [U/D, u/D] of a joint of one degree of freedom.
# With armature J, D and A have it in them, and a row is longer by what the joint does not let go.
ROW = 13  # cα (2), cl (3), wrench (6) → U/D (5) and u/D, d, D; J/D, (D − J)/D
BALL = 36  # E (9), cα (3), cl (3), wrench (6) → α at rest (3), A⁻¹B (9), A (6); A⁻¹J (9)
HELD = 2, 2, 9, 0  # of each kind of joint
# E (9), –, x (3), wrench → [α; a], with armature less [0; x]; at 30 the factor of the inertia at 66
FLOAT = 102
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


# --- screws on articulated inertias -------------------------------------------------------------


@step
def cycle(A, B, C, n, f):
    """Rename the axes: y becomes x, z becomes y, x becomes z."""
    return (
        (A[3], A[4], A[1], A[5], A[2], A[0]),
        (B[4], B[5], B[3], B[7], B[8], B[6], B[1], B[2], B[0]),
        (C[3], C[4], C[1], C[5], C[2], C[0]),
        (n[1], n[2], n[0]),
        (f[1], f[2], f[0]),
    )


@step
def turn_symmetric(S, c, s):
    w = s * (S[0] - S[3]) + (c + c) * S[1]
    return S[0] - s * w, c * w - S[1], c * S[2] - s * S[4], S[3] + s * w, s * S[2] + c * S[4], S[5]


@step
def turn(A, B, C, n, f, c, s):
    """The same in axes from which these follow by a turn about z."""
    w = s * (B[0] - B[4]) + c * (B[1] + B[3])
    B = (
        B[0] - s * w, c * w - B[3], c * B[2] - s * B[5],
        c * w - B[1], B[4] + s * w, s * B[2] + c * B[5],
        c * B[6] - s * B[7], s * B[6] + c * B[7], B[8],
    )  # fmt: skip
    n = (c * n[0] - s * n[1], s * n[0] + c * n[1], n[2])
    f = (c * f[0] - s * f[1], s * f[0] + c * f[1], f[2])
    return turn_symmetric(A, c, s), B, turn_symmetric(C, c, s), n, f


@step
def slide(A, B, C, n, f, d):
    """The same about a point from which this one lies d along z."""
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
    return A, new, C, (n[0] - d * f[1], n[1] + d * f[0], n[2]), f


# --- outwards: velocities -----------------------------------------------------------------------


@step
def forwards(x, c, s):
    """Components after a turn of the axes about z."""
    return c * x[0] + s * x[1], c * x[1] - s * x[0], x[2]


@step
def forwards_x(x, c, s):
    return x[0], c * x[1] + s * x[2], c * x[2] - s * x[1]


@step
def bias_wrench(table, at, w):
    """[ω×I_O ω; ω×(ω×h)]."""
    h = constants(table, at + MOMENT)
    n = outer(w, times_symmetric(constants6(table, at + INERTIA), w))
    return n, outer(w, outer(w, h))


@step
def outside(table, at, loads, first, stride, like):
    """The wrench on a body from outside, in its frame with Denavit–Hartenberg parameters."""
    R = matrix(table, at + TURN)
    f = times(R, take3(loads, first, stride, like))
    n = times(R, take3(loads, first + 3, stride, like))
    return plus(n, outer(constants(table, at + SHIFT), f)), f


@step
def quaternion(q, first, stride, like):
    return tuple(take(q, first + k, stride, like) for k in range(4))


@step
def ball_outwards(table, at, pose, rate, w, work, row):
    """Orientation E and bias accelerations of a joint with a quaternion; ω of its body."""
    R, unit = rotation(*pose)
    own = matrix(table, at + TURN)
    E = product(product(matrix(table, at + JOINT), R), transposed(own))
    r = constants(table, at + PLACE)
    rate, carried = times(own, rate), back(E, w)
    bias = (*outer(carried, rate), *back(E, outer(w, outer(w, r))))
    store_all(work, row, (*E, *bias))
    return plus(carried, rate), unit


@step
def hinge_outwards(table, at, moved, w, work, row, turns):
    """Turn and bias accelerations of a joint of one degree of freedom; ω of its body.

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
    store_all(work, row, (*bias, g[0] + sliding * w[1], g[1] - sliding * w[0], g[2]))
    store(work, row + 11, d)
    return w[0], w[1], w[2] + turning


@step
def biased(table, at, w, row, work):
    """Write the bias wrench of a body."""
    n, f = bias_wrench(table, at, w)
    store_all(work, row, (*n, *f))


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
    n, f = outside(table, at, loads, first, stride, like)
    given, wrench = load6(work, row, like), (*n, *f)
    store_all(work, row, tuple(given[k] - wrench[k] for k in range(6)))
    return checked(wrench)  # a joint does not feel every component, but each must be a number


@step
def rising(loads, like):
    """Acceleration against which the base would be at rest."""
    return tuple(like - loads[k] for k in range(3))


@step
def lifted(table, at, velocity, up, w, row, work):
    """Write what the origin of a free base accelerates by without its θ̈: gravity and ω × v.

    Its armature does not feel that.  The velocity is in the user's axes.
    """
    turned = outer(w, times(matrix(table, at + TURN), velocity))
    store_all(work, row + 12, plus(back(load9(work, row, w[0]), up), turned))


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
        if kind == REVOLUTE:
            store(work, i, take(q, frame * nq + at_q, nq, zero))
    fill_sines(work, m * lanes(zero))
    good = True
    total = zero
    w = (zero, zero, zero)
    for i in range(n):
        kind, at_q, at_v, row = place_of(table, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        at_q += frame * nq
        at_v += frame * nv
        if kind >= SPHERICAL:
            if kind == FREE:
                total = total + checked(take3(q, at_q, nq, zero))
                at_q += 3
                at_v += 3
            pose, rate = quaternion(q, at_q, nq, zero), take3(qd, at_v, nv, zero)
            w, unit = ball_outwards(table, seat, pose, rate, w, work, row)
            good = good and unit
            row += 15
        else:
            turning = take(qd, at_v, nv, zero)
            moved = (turning, zero, zero)
            if kind == PRISMATIC:
                moved = (zero, turning + turning, take(q, at_q, nq, zero))
            w = hinge_outwards(table, at, moved, w, work, row, (i, m + i))
            row += 5
        biased(table, at, w, row, work)
        if kind == FREE and table[at + ARMATURE] != 0.0:
            velocity, up = take3(qd, at_v - 3, nv, zero), rising(loads, zero)
            lifted(table, seat, velocity, up, w, row - 15, work)
        if loads.size > 3:
            first = 3 + 6 * (n * frame + i)
            total = total + loaded(table, seat, loads, first, 6 * n, row, work, zero)
    return good and above(1.0 + zero, total)


# --- inwards: articulated inertias ---------------------------------------------------------------


@step
def add_body(table, at, inertia):
    """Add body to what hangs on it; the traces of A and C too."""
    A, B, C, n, f = inertia
    body = table[at + MASS], constants(table, at + MOMENT), constants6(table, at + INERTIA)
    A, B, C = added(A, B, C, *body)
    return (A, B, C, n, f), A[0] + A[3] + A[5], C[0] + C[3] + C[5]


@step
def push(inertia, work, row):
    """Add the wrench on the body to the bias force."""
    A, B, C, n, f = inertia
    like = n[0]
    return A, B, C, plus(n, load3(work, row, like)), plus(f, load3(work, row + 3, like))


@step
def free_z_turn(inertia, tau, D, row, work):
    """Take the motion about z out; n_z is then the torque."""
    store(work, row + 12, D)
    (A, B, C, n, f), g, h, k = past_turn(*inertia, tau, D)
    cx, cy, c = load(work, row, k), load(work, row + 1, k), load3(work, row + 2, k)
    store_all(work, row + 5, (g[0], g[1], *h, k))
    g, h = times(B, c), times_symmetric(C, c)
    n = (n[0] + A[0] * cx + A[1] * cy + g[0], n[1] + A[1] * cx + A[3] * cy + g[1], tau)
    return A, B, C, n, tuple(f[i] + B[i] * cx + B[3 + i] * cy + h[i] for i in range(3))


@step
def free_z_slide(inertia, tau, D, row, work):
    """Take the motion along z out; f_z is then the joint's force."""
    store(work, row + 12, D)
    moved, h, g, k = past_turn(*mirrored(*inertia), tau, D)
    A, B, C, n, f = mirrored(*moved)
    c = load3(work, row + 2, k)
    store_all(work, row + 5, (*g, h[0], h[1], k))
    n = tuple(n[i] + B[3 * i] * c[0] + B[3 * i + 1] * c[1] for i in range(3))
    return A, B, C, n, (f[0] + C[0] * c[0] + C[1] * c[1], f[1] + C[1] * c[0] + C[3] * c[1], tau)


@step
def held_z_turn(before, inertia, tau, J, row, work):
    """What `free_z_turn` leaves of a body ``before`` that a rotor holds."""
    D = load(work, row + 12, tau)
    (A, B, C, n, f), ρ, share = held_turn(before, inertia, tau, J, D)
    store_all(work, row + 13, (ρ, share))
    cx, cy, c = load(work, row, tau), load(work, row + 1, tau), load3(work, row + 2, tau)
    z = n[2] + A[2] * cx + A[4] * cy + inner((B[6], B[7], B[8]), c)
    return A, B, C, (n[0], n[1], z), f


@step
def held_z_slide(before, inertia, tau, J, row, work):
    """What `free_z_slide` leaves of a body ``before`` that a rotor holds."""
    D = load(work, row + 12, tau)
    moved, ρ, share = held_turn(mirrored(*before), mirrored(*inertia), tau, J, D)
    A, B, C, n, f = mirrored(*moved)
    store_all(work, row + 13, (ρ, share))
    cx, cy, c = load(work, row, tau), load(work, row + 1, tau), load3(work, row + 2, tau)
    z = f[2] + B[2] * cx + B[5] * cy + inner((C[2], C[4], C[5]), c)
    # z of c is the only part that `free_z_slide` has left out of the rest
    n = tuple(n[i] + B[3 * i + 2] * c[2] for i in range(3))
    return A, B, C, n, (f[0] + C[2] * c[2], f[1] + C[4] * c[2], z)


@step
def ball_inwards(table, at, inertia, tau, least, row, work):
    """Take the turns of a spherical joint out and go to the body before."""
    A = inertia[0]
    S, f, K, spin, d = past_ball(*inertia, tau)
    good = above(d[0], least) & above(d[1], least) & above(d[2], least)
    # (the first pivot is its own diagonal element)
    good = good & above(d[1], LOST * A[3]) & above(d[2], LOST * A[5])
    c, E = load3(work, row + 12, d[0]), load9(work, row, d[0])
    store_all(work, row + 15, spin)
    store_all(work, row + 21, (*K, *A))
    r = constants(table, at + PLACE)
    f = times(E, plus(f, times_symmetric(S, c)))
    n = plus(times(E, tau), outer(r, f))
    T = turned(E, full(S))
    B = across(r, T)
    return (upper(across(r, transposed(B))), B, upper(T), n, f), inner(r, r), good


@step
def with_rotors(table, at, inertia):
    A, B, C, n, f = inertia
    return summed(A, constants6(table, at + ROTORS)), B, C, n, f


@step
def held_ball(table, at, before, inertia, tau, row, work):
    """Add what rotors hold of a body ``before``, which `ball_inwards` with them has let go.

    Vᵀ A, Vᵀ B with V = D⁻¹ J and D = A + J, which are not differences.
    """
    A, B, C, n, f = before
    J, D = constants6(table, at + ROTORS), load6(work, row + 30, tau[0])
    V = past_ball(D, full(J), C, n, f, tau)[2]
    store_all(work, row + 36, V)
    P, Q = upper(product(transposed(V), full(A))), product(transposed(V), B)
    u, c = load3(work, row + 9, tau[0]), load3(work, row + 12, tau[0])
    m = minus(plus(n, times_symmetric(A, load3(work, row + 15, tau[0]))), tau)
    m = plus(m, plus(times_symmetric(P, u), times(Q, c)))
    E, r = load9(work, row, tau[0]), constants(table, at + PLACE)
    g, P, Q = times(E, back(Q, u)), turned(E, full(P)), turned(E, Q)
    lever = across(r, transposed(Q))
    A, B, C, n, f = inertia
    A = summed(A, upper(summed(P, summed(lever, transposed(lever)))))
    return A, summed(B, Q), C, plus(n, plus(times(E, m), outer(r, g))), plus(f, g)


@step
def screw_inwards(table, at, turns, sines, inertia, work, row):
    """Go from a joint of one degree of freedom to the body before, but for the way along y."""
    like = inertia[3][0]
    moved = turn(*inertia, load(work, turns, like), load(work, sines, like))
    moved = cycle(*slide(*moved, load(work, row + 11, like)))
    moved = turn(*moved, table[at + COS_X], table[at + SIN_X])
    return cycle(*slide(*moved, table[at + ALONG_X]))


@step
def along_y(inertia, b):
    return slide(*inertia, b)


@step
def renamed(inertia):
    return cycle(*inertia)


@step
def lever(table, at, work, row, like):
    """Square of the distance of the two joints."""
    a, b, d = table[at + ALONG_X], table[at + ALONG_Y], load(work, row + 11, like)
    return a * a + b * b + d * d


@step
def in_ours(table, at, states, first, stride, like):
    """Three components of states in our axes of a body."""
    return times(matrix(table, at + TURN), take3(states, first, stride, like))


@step
def geared_base(table, at, inertia, row, work):
    """What the rates of a free base with armature feel, which are not all of its acceleration."""
    A, B, C, n, f = inertia
    x = load3(work, row + 12, n[0])
    A, D = summed(A, constants6(table, at + ROTORS)), summed(C, constants6(table, at + HAULS))
    return A, B, D, plus(n, times(B, x)), plus(f, times_symmetric(C, x))


@step
def float_inwards(inertia, moment, force, row, work):
    """Solve for the acceleration of a free base; whether every pivot is positive."""
    A, B, C, n, f = inertia
    S, T = full(A), full(C)
    M = [[S[3 * i + k] for k in range(3)] + [B[3 * i + k] for k in range(3)] for i in range(3)]
    M += [[B[3 * k + i] for k in range(3)] + [T[3 * i + k] for k in range(3)] for i in range(3)]
    x = [moment[k] - n[k] for k in range(3)] + [force[k] - f[k] for k in range(3)]
    good = above(M[0][0], LOST * M[0][0])
    # the upper triangle of F holds D Lᵀ, the lower one L
    F = [[M[0][0]] * 6 for i in range(6)]
    for i in range(6):
        for j in range(i + 1):
            y = M[i][j]
            for k in range(j):
                y = y - F[i][k] * F[k][j]
            F[j][i] = y
            if i == j:
                good = good & above(y, LOST * M[i][i])
            else:
                F[i][j] = y / F[j][j]
                x[i] = x[i] - F[i][j] * x[j]
    for i in range(5, -1, -1):
        x[i] = x[i] / F[i][i]
        for j in range(i + 1, 6):
            x[i] = x[i] - F[j][i] * x[j]
    for i in range(6):
        store_all(work, row + 30 + 6 * i, F[i])
        store_all(work, row + 66 + 6 * i, M[i])
    store_all(work, row + 15, x)
    return good


@jit
def lost(body, size):
    """Why there is no pivot: numbers of this ``size`` cancelled, or they overflowed."""
    return body if above(INF + 0.0 * size, size) else NOT_USABLE


@step
def nothing(zero):
    """Inertia and bias force of no body."""
    return (zero,) * 6, (zero,) * 9, (zero,) * 6, (zero,) * 3, (zero,) * 3


@jit
def inwards(table, tau, frame, work, zero):
    """Articulated inertias from tip to base; DONE, or why not, or the first body without pivot."""
    bodies, _, nv, _ = sizes(table, table.size)
    m = angles(bodies)
    inertia = nothing(zero)
    size = zero  # of the numbers whose difference A is: rounding leaves EPS of it
    weight = zero  # and of those whose difference C is
    for i in range(bodies - 1, -1, -1):
        kind, _, at_v, row = place_of(table, bodies, i)
        at, seat = LINK * i, LINK * bodies + FRAME * i
        at_v += frame * nv
        inertia, trace_A, trace_C = add_body(table, at, inertia)
        least = 4.0 * EPS * (size + trace_A)
        if kind <= PRISMATIC:
            inertia = push(inertia, work, row + 5)
            torque = take(tau, at_v, nv, zero)
            J = table[at + ARMATURE]
            before = inertia
            if kind == REVOLUTE:
                D = inertia[0][5] + J
                if not above(D, least):
                    return lost(i, least)
                inertia = free_z_turn(inertia, torque, D, row, work)
                if J != 0.0:
                    inertia = held_z_turn(before, inertia, torque, J, row, work)
            else:
                D = inertia[2][5] + J
                least = 4.0 * EPS * (weight + trace_C)
                if not above(D, least):
                    return lost(i, least)
                inertia = free_z_slide(inertia, torque, D, row, work)
                if J != 0.0:
                    inertia = held_z_slide(before, inertia, torque, J, row, work)
            if i > 0:
                inertia = screw_inwards(table, at, i, m + i, inertia, work, row)
                b = table[at + ALONG_Y]
                if b != 0.0:
                    inertia = along_y(inertia, b)
                inertia = renamed(inertia)
                size = trace_A + lever(table, at, work, row, zero) * trace_C
        else:
            inertia = push(inertia, work, row + 15)
            moment = in_ours(table, seat, tau, at_v, nv, zero)
            if kind == FREE:
                force = moment
                moment = in_ours(table, seat, tau, at_v + 3, nv, zero)
                if table[at + ARMATURE] != 0.0:
                    inertia = geared_base(table, seat, inertia, row, work)
                if not float_inwards(inertia, moment, force, row, work):
                    return lost(i, trace_A + trace_C)
            else:
                before = inertia
                if table[at + ARMATURE] != 0.0:
                    inertia = with_rotors(table, seat, inertia)
                inertia, square, good = ball_inwards(table, seat, inertia, moment, least, row, work)
                if not good:
                    return lost(i, least)
                if table[at + ARMATURE] != 0.0:
                    inertia = held_ball(table, seat, before, inertia, moment, row, work)
                size = trace_A + square * trace_C
        weight = trace_C
    return DONE


# --- outwards: accelerations ---------------------------------------------------------------------


@step
def hinge_accelerates(table, at, turns, sines, spin, a, row, work):
    """Motion of a body but for its own joint's."""
    like = a[0]
    x = table[at + ALONG_X]
    a = (a[0], a[1] + x * spin[2], a[2] - x * spin[1])
    cx, sx = table[at + COS_X], table[at + SIN_X]
    spin, a = forwards_x(spin, cx, sx), forwards_x(a, cx, sx)
    d = load(work, row + 11, like)
    a = (a[0] + d * spin[1], a[1] - d * spin[0], a[2])
    c, s = load(work, turns, like), load(work, sines, like)
    spin, a = forwards(spin, c, s), forwards(a, c, s)
    a = plus(a, load3(work, row + 2, like))
    x, y = spin[0] + load(work, row, like), spin[1] + load(work, row + 1, like)
    return (x, y, spin[2]), a


@step
def turns_freely(spin, a, row, work):
    """Motion with that of a revolute joint; its acceleration."""
    ux, uy, vx, vy, vz, k = load6(work, row + 5, a[0])
    z = k - (ux * spin[0] + uy * spin[1]) - (vx * a[0] + vy * a[1] + vz * a[2])
    return (spin[0], spin[1], z), a, z - spin[2]


@step
def held_back(z, carried, row, work):
    """Motion along a joint's axis with its rotor, and the joint's acceleration, from ``z`` without.

    ``carried``: the motion of the body before.
    """
    held, let_go = load(work, row + 13, z), load(work, row + 14, z)
    return z + held * carried, z - let_go * carried


@step
def slides_freely(spin, a, row, work):
    """Motion with that of a prismatic joint; its acceleration."""
    ux, uy, uz, vx, vy, k = load6(work, row + 5, a[0])
    z = k - (ux * spin[0] + uy * spin[1] + uz * spin[2]) - (vx * a[0] + vy * a[1])
    return spin, (a[0], a[1], z), z - a[2]


@step
def floats_freely(table, at, up, twist, work, row):
    """Motion of a free base; its acceleration, linear before angular, at rates (v, ω)."""
    like = up[0]
    own = matrix(table, at + TURN)
    spin, a = load3(work, row + 15, like), load3(work, row + 18, like)
    linear = back(own, minus(a, back(load9(work, row, like), up)))
    v, w = twist
    return spin, a, (*minus(linear, outer(w, v)), *back(own, spin))


@step
def floats_geared(table, at, work, row, like):
    """The same with armature."""
    own = matrix(table, at + TURN)
    spin, a = load3(work, row + 15, like), load3(work, row + 18, like)
    return spin, plus(a, load3(work, row + 12, like)), (*back(own, a), *back(own, spin))


@step
def rolls_freely(table, at, spin, a, work, row):
    """Motion with that of a spherical joint; its acceleration."""
    like = a[0]
    E, r = load9(work, row, like), constants(table, at + PLACE)
    a = plus(back(E, plus(a, outer(spin, r))), load3(work, row + 12, like))
    carried = plus(back(E, spin), load3(work, row + 9, like))
    spin = minus(load3(work, row + 15, like), times(load9(work, row + 21, like), a))
    return spin, a, back(matrix(table, at + TURN), minus(spin, carried))


@step
def rolls_held(table, at, before, spin, work, row):
    """Turning of a body with the rotors of its ball joint, and the joint's, from that without."""
    E = load9(work, row, spin[0])
    carried = plus(back(E, before), load3(work, row + 9, spin[0]))
    spin = plus(spin, times(load9(work, row + 36, spin[0]), carried))
    return spin, back(matrix(table, at + TURN), minus(spin, carried))


@step
def answered(qdd, first, stride, acceleration):
    """Write the acceleration of a joint; zero, or NaN where it is not finite."""
    put_all(qdd, first, stride, acceleration)
    return checked(acceleration)


@step
def joint_axes(table, at, x):
    return back(matrix(table, at + JOINT), x)


@step
def aside(spin, a, y):
    return a[0] - y * spin[2], a[1], a[2] + y * spin[0]


@jit
def accelerations(table, qd, loads, frame, work, qdd, zero):
    """Joint accelerations from base to tip; whether all are finite."""
    n, _, nv, _ = sizes(table, table.size)
    m = angles(n)
    spin = (zero, zero, zero)
    up = rising(loads, zero)
    kind, _, _, _ = place_of(table, n, 0)
    if kind <= PRISMATIC:
        up = joint_axes(table, LINK * n, up)
    a = up
    total = zero
    for i in range(n):
        kind, _, first, row = place_of(table, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        first += frame * nv
        if kind <= PRISMATIC:
            y = table[at + ALONG_Y]
            if y != 0.0:
                a = aside(spin, a, y)
            spin, a = hinge_accelerates(table, at, i, m + i, spin, a, row, work)
            if kind == REVOLUTE:
                before = spin[2]
                spin, a, acceleration = turns_freely(spin, a, row, work)
                if table[at + ARMATURE] != 0.0:
                    z, acceleration = held_back(spin[2], before, row, work)
                    spin = spin[0], spin[1], z
            else:
                before = a[2]
                spin, a, acceleration = slides_freely(spin, a, row, work)
                if table[at + ARMATURE] != 0.0:
                    z, acceleration = held_back(a[2], before, row, work)
                    a = a[0], a[1], z
            put(qdd, first, nv, acceleration)
            total = total + 0.0 * acceleration
        elif kind == FREE:
            if table[at + ARMATURE] == 0.0:
                twist = take3(qd, first, nv, zero), take3(qd, first + 3, nv, zero)
                spin, a, six = floats_freely(table, seat, up, twist, work, row)
            else:
                spin, a, six = floats_geared(table, seat, work, row, zero)
            total = total + answered(qdd, first, nv, six)
        else:
            turning = spin
            spin, a, three = rolls_freely(table, seat, spin, a, work, row)
            if table[at + ARMATURE] != 0.0:
                spin, three = rolls_held(table, seat, turning, spin, work, row)
            total = total + answered(qdd, first, nv, three)
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


@step
def block(table, at, S, out, to, width):
    T = turned(transposed(matrix(table, at + TURN)), S)
    for k in range(3):
        store_all(out, to + k * width, T[3 * k : 3 * k + 3])


@step
def ball_block(table, at, work, row, out, to):
    block(table, at, full(load6(work, row, 0.0)), out, to, 3)


@step
def rows_of(work, k):
    """3×3 block of a 6×6 matrix."""
    return (*constants(work, k), *constants(work, k + 6), *constants(work, k + 12))


@jit
def pivots(table, q, starts, out):
    """Blocks pᵀ M̂ p of every state and joint, in the user's axes, one after the other; as `states`.

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
            at = LINK * n + FRAME * i
            kind, _, _, row = place_of(table, n, i)
            to = starts[n] * frame + starts[i]
            if kind <= PRISMATIC:
                out[to] = work[row + 12]
            elif kind == SPHERICAL:
                ball_block(table, at, work, row + 30, out, to)
            else:
                for half in range(4):
                    # ours is angular before linear
                    r, c = half // 2, half % 2
                    k = row + 66 + 18 * (1 - r) + 3 * (1 - c)
                    block(table, at, rows_of(work, k), out, to + 18 * r + 3 * c, 6)
    return DONE, DONE


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
