"""Featherstone's articulated-body recursions (2008, table 7.1), for one state or eight in lanes.

Bodies are numbered from the base.  Those with a joint of one rate are seen in frames with modified
Denavit–Hartenberg parameters, so that going from such a body to the one before is a screw about the
joint's z axis and one about the x axis of that body:  turn by θ and slide by d along z, turn by β
about x, slide by a along x (and by b along y where the common normal of two nearly parallel axes
would be far away).  Other bodies, as the base, are seen in the user's frames; a screw that leads to
one of them ends in axes of its own, which a constant rotation leads back from.

Symbols are Featherstone's, angular before linear and about the origin of a body's frame: I^A and
p^A = [n; f] of `Articulated`, U = I^A s, D = sᵀ U, u = τ − sᵀ p^A, c, a′ = X a + c, and
a = a′ + s q̈ = [spin; a].  E and r place a body in the one before: E is the book's transposed.
Rodriguez & Kreutz (1988) have P for I^A, z for p^A, G for U/D, ε for u, a for c and λ for a: the
sweep inwards is their (4.5), (4.6) and (5.16), the last one outwards (5.17).  As there, reference
points lie on the joints, so no linear velocity occurs: p = [ω×I_O ω; ω×(ω×h)] (2.23), h the mass
times its centre, and c = [ω×z q̇; ω×(ω×r)] (2.19).

A joint of several rates is as many joints of one rate in a row, with nothing between them.
"""

from __future__ import annotations

import math

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
from fixman.kernels.compiler.lanes import above, fill_sines, lanes, load, put, store, take
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.articulated_tables import (
    ALONG_X,
    ALONG_Y,
    ARMATURE,
    BIAS,
    CARRIED,
    COS_X,
    COS_Z,
    DONE,
    FRAME,
    HELD,
    INERTIA,
    JOINT,
    LINK,
    MASS,
    MOMENT,
    NOT_USABLE,
    ORIGIN,
    PITCH,
    PLACE,
    PUSHED,
    RATE,
    ROTORS,
    SEVERAL,
    SHARE,
    SHIFT,
    SHIFTED,
    SIN_X,
    SIN_Z,
    SLIDE,
    TURN,
    WRENCH,
    angles,
    place_of,
    seated,
    sizes,
)
from fixman.kernels.rigid.joints import RATES, SLIDES, TURNS, WHERE, rotation
from fixman.kernels.rigid.links import (
    LOST,
    Articulated,
    added,
    carried,
    freed,
    mirrored,
    renamed,
    sheared,
    slide,
    turn,
)

EPS = 2.0**-52


# --- outwards: ω, c, and p of each body alone (table 7.1, first sweep) ---------------------------


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
            rate, x = take(qd, at_v, nv, zero), take(q, at_q, nq, zero)
            moved = (rate, zero, zero)
            if TURNS[kind] == 0:
                moved = (zero, rate + rate, x)
            elif table[at + PITCH] != 0.0:
                moved = (rate, 2.0 * table[at + PITCH] * rate, table[at + PITCH] * x)
            w = single_outwards(table, at, moved, w, work, row, (i, m + i))
            row += WRENCH
        else:
            r, sliding = three_of(q, at_q, nq, kind, 3, zero), three_of(qd, at_v, nv, kind, 3, zero)
            turning = three_of(qd, at_v, nv, kind, 0, zero)
            total = total + checked(r)
            if TURNS[kind] == 3:
                R, unit = rotation(*four_of(q, at_q + SLIDES[kind], nq, zero))
                good = good and unit
            else:
                R = turned_z(load(work, i, zero), load(work, m + i, zero))
            w = several_outwards(table, seat, R, r, turning, sliding, w, work, row)
            row += PUSHED
        put_bias_wrench(table, at, w, work, row)
        if loads.size > 3:
            first = 3 + 6 * (n * frame + i)
            total = total + loaded(table, seat, loads, first, 6 * n, row, work, zero)
    return good and above(1.0 + zero, total)


# --- inwards: I^A, U, D, u, p^A (second sweep) --------------------------------------------------


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
    """p^a = p^A + U D⁻¹ u + I^a c for a joint of one rate, of whose c the angular part has no z."""
    A, B, C, n, f = inertia
    x, y, c = load(work, row, n[0]), load(work, row + 1, n[0]), load3(work, row + 2, n[0])
    g, h, T = times(B, c), times_symmetric(C, c), full(A)
    n = tuple(n[i] + T[i] * x + T[3 + i] * y + g[i] for i in range(3))
    return Articulated(A, B, C, n, tuple(f[i] + B[i] * x + B[3 + i] * y + h[i] for i in range(3)))


@step
def several_inwards(inertia, work, row):
    """p^a with I^a c added, and on to the body before: Xᵀ I^a X and Xᵀ p^a."""
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
    A = upper(across(r, transposed(B)))
    return Articulated(A, B, upper(T), n, f), inner(r, r), good


@step
def seated_inwards(table, at, inertia):
    """Return from the axes of a screw to those of the user."""
    A, B, C, n, f = inertia
    R = matrix(table, at + JOINT)
    A, B, C = upper(turned(R, full(A))), turned(R, B), upper(turned(R, full(C)))
    return Articulated(A, B, C, times(R, n), times(R, f))


@step
def screw_inwards(table, at, turns, sines, inertia, work, row):
    """Xᵀ I^a X and Xᵀ p^a for a joint of one rate, but for the way along y."""
    like = inertia.n[0]
    moved = turn(inertia, load(work, turns, like), load(work, sines, like))
    moved = renamed(slide(moved, load(work, row + SHIFTED, like)))
    moved = turn(moved, table[at + COS_X], table[at + SIN_X])
    return renamed(slide(moved, table[at + ALONG_X]))


@step
def square_of_way(table, at, work, row, like):
    """Square of the distance of the two joints."""
    a, b, d = table[at + ALONG_X], table[at + ALONG_Y], load(work, row + SHIFTED, like)
    return a * a + b * b + d * d


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
            J = table[seat + ROTORS + j]
            inertia, rate = freed(inertia, tau[k], J)
            good = good and above(rate.D, least) and above(rate.D, LOST * (diagonal[k] + J))
            put_rate(rate, work, units + RATE * j)
    return inertia, good


@step
def nothing(zero):
    return Articulated((zero,) * 6, (zero,) * 9, (zero,) * 6, (zero,) * 3, (zero,) * 3)


@jit
def lost(body, size):
    """Why there is no pivot: numbers of this ``size`` cancelled, or they overflowed."""
    return body if above(math.inf + 0.0 * size, size) else NOT_USABLE


@jit
def inwards(table, tau, frame, work, zero):
    """I^A and p^A from tip to base; DONE, or why not, or the first body without pivot."""
    n, _, nv, _ = sizes(table, table.size)
    m = angles(n)
    inertia = nothing(zero)
    # Sizes of the numbers whose differences A and C are: rounding leaves EPS of them.
    size = weight = zero
    for i in range(n - 1, -1, -1):
        kind, _, at_v, row = place_of(table, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        at_v += frame * nv
        inertia, trace_A, trace_C = with_body(table, at, inertia)  # I^A; p^A by `pushed`
        least, least_C = 4.0 * EPS * (size + trace_A), 4.0 * EPS * (weight + trace_C)
        if RATES[kind] == 1:
            inertia = pushed(inertia, work, row + WRENCH)
            torque, J = take(tau, at_v, nv, zero), table[at + ARMATURE]
            pitch = table[at + PITCH]
            if TURNS[kind] == 0:
                inertia, least = mirrored(inertia), least_C
            elif pitch != 0.0:
                inertia = sheared(inertia, pitch)
            inertia, rate = freed(inertia, torque, J)  # U, D, u; I^a
            if not above(rate.D, least):
                return lost(i, least)
            put_rate(rate, work, row + WRENCH)
            if TURNS[kind] == 0:
                inertia = mirrored(inertia)
            elif pitch != 0.0:
                inertia = sheared(inertia, -pitch)
            inertia = with_bias(inertia, work, row + BIAS)  # p^a
            if i > 0:  # X
                inertia = screw_inwards(table, at, i, m + i, inertia, work, row)
                b = table[at + ALONG_Y]
                if b != 0.0:
                    inertia = slide(inertia, b)
                inertia = renamed(inertia)
                if seated(table, n, i):
                    inertia = seated_inwards(table, seat, inertia)
                size = trace_A + square_of_way(table, at, work, row, zero) * trace_C
        else:
            inertia, units = pushed(inertia, work, row + PUSHED), row + SEVERAL
            moment = three_of(tau, at_v, nv, kind, 0, zero)
            good = found = True
            if TURNS[kind] == 3 and SLIDES[kind] == 0 and table[at + ARMATURE] == 0.0:
                inertia, square, good = free_ball(inertia, moment, least, work, row)
                if not good:
                    return lost(i, least)
                size, weight = trace_A + square * trace_C, trace_C
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


# --- outwards: a′, q̈, a (third sweep) -------------------------------------------------------------


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

    With z = u/D − (U/D)ᵀ a′ but for a′_z, q̈ is z − (D − J)/D a′_z, and the motion along the axis
    z + J/D a′_z: written so, nothing cancels where J is 0.
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
