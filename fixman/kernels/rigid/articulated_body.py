"""Featherstone's articulated-body algorithm (2008, table 7.1), for one state or eight in lanes.

Three sweeps over the bodies i, numbered from the base, with X from the body before:

    outwards         ω = Eᵀ ω⁻ + z q̇,   c = [Eᵀω⁻ × z q̇; Eᵀ (ω⁻×(ω⁻×r))]      (2.2) (2.19)
                     I^A = I,   p^A = [ω×I_O ω; ω×(ω×h)] − w                        (2.23)
    inwards          U = I^A S,   D = Sᵀ U + J,   u = τ − Sᵀ p^A              (4.6) (5.16)
                     I^a = I^A − U D⁻¹ Uᵀ,   p^a = p^A + I^a c + U D⁻¹ u
                     I^A + Xᵀ I^a X  and  p^A + Xᵀ p^a  of the body before     (4.5) (5.16)
    accelerations    a′ = X a + c,   q̈ = D⁻¹ (u − Uᵀ a′),   a = a′ + S q̈            (5.17)

Vectors are angular before linear, about the origin of a body's frame: p^A = [n; f], accelerations
[ω̇; a].  E has the body's axes as columns and r is its origin, both in the frame of the body
before; X = [[Eᵀ, 0], [−Eᵀ r×, Eᵀ]]; ω⁻ is that body's angular velocity.  w is the outside wrench, h
the mass times its centre, J the armature.  A slide has c = [0; Eᵀ(ω⁻×(ω⁻×r)) + 2 Eᵀω⁻ × z q̇],
(2.32) without its misprint.  A screw has c of a turn and 2 Eᵀω⁻ × z q̇ times its pitch.

This is FD4 (5.14–5.17), from link 1 at the tip; body i is link n − i.  Numbers of equations are
those of Rodriguez & Kreutz (1988), who have P for I^A, z for p^A, G for U/D, ε for u, a for c and λ
for a.  As there, a is the acceleration of the point at the frame's origin; the book's is less by
ω × v.  So v occurs nowhere.

Bodies with a joint of one rate are seen in frames with modified Denavit–Hartenberg parameters, so
that X is a screw about the joint's z axis and one about the x axis of the body before: turn by θ
and slide by d along z, turn by β about x, slide by a along x (and by b along y where the common
normal of two nearly parallel axes would be far away).  Other bodies, as the base, are seen in the
user's frames, which a constant rotation leads to from a screw's axes.  A joint of several rates is
as many of one rate in a row.
"""

import math
from typing import Any

from fixman.kernels import inlined, plain
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, plus
from fixman.kernels.compiler import lanes as register
from fixman.kernels.compiler.lanes import above, integer, load, put, store, take
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import articulated_inertia as inertia
from fixman.kernels.rigid import joints as joint
from fixman.kernels.rigid.articulated_inertia import Articulated
from fixman.kernels.rigid.joints import ANGULAR, LINEAR, RATE_OF, RATES, SLIDES, TURNS, checked

EPS = 2.0**-52
DONE, NOT_USABLE, WRONG_SIZE = -1, -2, -3

# --- tables ---------------------------------------------------------------------------------------

# ``table`` holds a row of LINK constants for every body; after those a row of FRAME more, that only
# wrenches and joints of several rates need; and after those the bits of (n + 1, 4) integers, see
# `record`; at the end the numbers of all.  It is one array because each costs 40 ns.
#
# Columns of the first rows: cos θ, sin θ, d, cos β, sin β, a, b at q = 0; m, h = m c, and I_O as
# xx, xy, xz, yy, yz, zz; armature, the largest of a joint of several rates, and pitch.  Not θ
# itself: the sines of right angles would not be exact, and a straight arm of n links multiplies
# that error by n².
COS_Z, SIN_Z, SLIDE, COS_X, SIN_X, ALONG_X, ALONG_Y, MASS, MOMENT, INERTIA, ARMATURE, PITCH = (
    0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 17, 18,
)  # fmt: skip
LINK = 19
# Columns of the second rows: rotation from the user's body frame and its origin in ours; axes and
# origin of the joint in our frame of the body before; armature of each rate.
TURN, SHIFT, AXES, ORIGIN, ROTORS = 0, 9, 12, 21, 24
FRAME = 30

# Rows of `work`, in units: one number, or a register of eight states.  A joint of one rate: c (2
# and 3), the body's wrench (6), which a rate's units replace, and d.  Others: E (9), r (3), c (6),
# wrench (6), then the units of each rate: U/D but for its part along the axis (5), u/D, D, J/D,
# (D − J)/D.
DRIVE, PIVOT, ROTOR, SHARE, RATE = 5, 6, 7, 8, 9
BIAS, WRENCH, SHIFTED, ROW = 0, 5, 14, 15
WAY, CARRIED, PUSHED, SEVERAL = 9, 12, 18, 24


def padded(n: Any) -> Any:
    """Angles come in full registers: a loop's remainder would cost as much as four of them."""
    return (n + register.LANES - 1) & -register.LANES


angles = step(padded)


@step
def sizes(table, size):
    """Numbers of bodies, coordinates, rates and units of work, from the end of a table."""
    return tuple(integer(table, size - 4 + k) for k in range(4))


@step
def record(table, n, i):
    """Kind of joint, first coordinate, first rate and row of body i."""
    at = n * (LINK + FRAME) + 4 * i
    return tuple(integer(table, at + k) for k in range(4))


@step
def fixed_row(n, i):
    """Where the second row of body i begins."""
    return LINK * n + FRAME * i


@plain
def on_user_axes(table, n, i):
    """Whether joint i is on a body in the user's frame: one with several rates, or the base."""
    if i == 0:
        return True
    kind, _, _, _ = record(table, n, i - 1)
    return RATES[kind] > 1


@plain
def first_units(kind, row):
    """Where the units of a joint's rates begin."""
    return row + WRENCH if RATES[kind] == 1 else row + SEVERAL


# --- outwards: ω, c, and p of each body alone -----------------------------------------------------


@step
def after_z(x, c, s):
    return c * x[0] + s * x[1], c * x[1] - s * x[0], x[2]


@step
def after_x(x, c, s):
    return x[0], c * x[1] + s * x[2], c * x[2] - s * x[1]


@step
def in_joint_axes(table, fixed, x):
    return mat.back(mat.matrix(table, fixed + AXES), x)


@step
def put_bias_wrench(table, at, w, work, row):
    """Write p of a body (2.23)."""
    h = mat.constants(table, at + MOMENT)
    n = fused_cross(w, mat.times_symmetric(mat.constants6(table, at + INERTIA), w))
    mat.store_all(work, row, (*n, *fused_cross(w, fused_cross(w, h))))


@step
def single_outwards(table, at, moved, w, work, row, turns):
    """Turn and c (2.19) of a joint of one rate; ω of its body.

    ``moved``: rate of turning, twice the rate of sliding, d less that at q = 0; ``turns``: where
    cosine and sine of its angle are.
    """
    turning, sliding, d = moved
    c, s = load(work, turns[0], turning), load(work, turns[1], turning)
    cz, sz = table[at + COS_Z], table[at + SIN_Z]
    c, s = cz * c - sz * s, cz * s + sz * c
    store(work, turns[0], c)
    store(work, turns[1], s)
    a, b = table[at + ALONG_X], table[at + ALONG_Y]
    # ω×(ω×r), r = (a, b, 0) in the axes of the body before, (0, 0, d) in those of the joint
    of_a = (-a * (w[1] * w[1] + w[2] * w[2]), a * w[0] * w[1], a * w[0] * w[2])
    of_b = (b * w[0] * w[1], -b * (w[0] * w[0] + w[2] * w[2]), b * w[1] * w[2])
    cx, sx = table[at + COS_X], table[at + SIN_X]
    w, pull = after_x(w, cx, sx), after_x(plus(of_a, of_b), cx, sx)
    d = d + table[at + SLIDE]
    of_d = (d * w[0] * w[2], d * w[1] * w[2], -d * (w[0] * w[0] + w[1] * w[1]))
    w, pull = after_z(w, c, s), after_z(plus(pull, of_d), c, s)
    across = (pull[0] + sliding * w[1], pull[1] - sliding * w[0], pull[2])
    mat.store_all(work, row + BIAS, (turning * w[1], -turning * w[0], *across))
    store(work, row + SHIFTED, d)
    return w[0], w[1], w[2] + turning


@step
def several_outwards(table, fixed, R, x, turning, sliding, w, work, row):
    """E, r and c (2.19) of a joint of several rates; ω of its body.

    ``R``, ``x``: of the body in the joint's frame.  c = [ω×turning; ω×(ω×r) + (2 ω + turning) ×
    sliding] with ω of the body before.
    """
    joint = mat.matrix(table, fixed + AXES)
    E = mat.product(joint, R)
    r = plus(mat.constants(table, fixed + ORIGIN), mat.times(joint, x))
    before = mat.back(E, w)
    after = plus(before, turning)
    pull = mat.back(E, fused_cross(w, fused_cross(w, r)))
    linear = plus(pull, fused_cross(plus(before, after), sliding))
    mat.store_all(work, row, (*E, *r, *fused_cross(before, turning), *linear))
    return after


@step
def loaded(table, fixed, loads, first, stride, row, work, like):
    """Take the wrench from outside off p; zero, or NaN where a component is no number."""
    R = mat.matrix(table, fixed + TURN)
    f = mat.times(R, mat.take3(loads, first, stride, like))
    n = mat.times(R, mat.take3(loads, first + 3, stride, like))
    n = plus(n, fused_cross(mat.constants(table, fixed + SHIFT), f))
    p, wrench = mat.load6(work, row, like), (*n, *f)
    mat.store_all(work, row, tuple(p[k] - wrench[k] for k in range(6)))
    return checked(wrench)  # a joint does not feel every component, but each must be a number


@plain
def three_of(states, first, stride, kind, half, zero):
    """The `ANGULAR` or `LINEAR` half of S θ̇ for rates, as `joints.turning` and `sliding`."""
    x, y, z = RATE_OF[kind, half], RATE_OF[kind, half + 1], RATE_OF[kind, half + 2]
    return (
        take(states, first + x, stride, zero) if x >= 0 else zero,
        take(states, first + y, stride, zero) if y >= 0 else zero,
        take(states, first + z, stride, zero) if z >= 0 else zero,
    )


@plain
def outwards(table, q, qd, loads, frame, work, zero):
    """X, c and p of all bodies into ``work``; whether the numbers can be used.

    Values are of the type of ``zero``: of one state, ``frame``, or of eight states from there.
    """
    n, nq, nv, _ = sizes(table, table.size)
    m = angles(n)
    for i in range(m):
        store(work, i, zero)
    for i in range(n):
        kind, at_q, _, _ = record(table, n, i)
        if TURNS[kind] == 1:
            store(work, i, take(q, frame * nq + at_q + SLIDES[kind], nq, zero))
    register.fill_sines(work, m * register.lanes(zero))  # cosines of all angles, then their sines
    good = True
    total = zero
    w = (zero, zero, zero)
    for i in range(n):
        kind, at_q, at_v, row = record(table, n, i)
        at, fixed = LINK * i, fixed_row(n, i)
        at_q += frame * nq
        at_v += frame * nv
        if RATES[kind] == 1:
            if on_user_axes(table, n, i):
                w = in_joint_axes(table, fixed, w)
            rate, x = take(qd, at_v, nv, zero), take(q, at_q, nq, zero)
            moved = (rate, zero, zero)
            if TURNS[kind] == 0:
                moved = (zero, rate + rate, x)
            elif table[at + PITCH] != 0.0:
                moved = (rate, 2.0 * table[at + PITCH] * rate, table[at + PITCH] * x)
            w = single_outwards(table, at, moved, w, work, row, (i, m + i))  # X, c, ω (2.19)
            row += WRENCH
        else:
            r = three_of(q, at_q, nq, kind, LINEAR, zero)
            sliding = three_of(qd, at_v, nv, kind, LINEAR, zero)
            turning = three_of(qd, at_v, nv, kind, ANGULAR, zero)
            total = total + checked(r)
            if TURNS[kind] == 3:
                at_q += SLIDES[kind]
                R, unit = joint.rotation(mat.take3(q, at_q, nq, zero), take(q, at_q + 3, nq, zero))
                good = good and unit
            else:
                c, s = load(work, i, zero), load(work, m + i, zero)
                R = c, -s, zero, s, c, zero, zero, zero, 1.0 + zero
            # X, c, ω (2.19)
            w = several_outwards(table, fixed, R, r, turning, sliding, w, work, row)
            row += PUSHED
        put_bias_wrench(table, at, w, work, row)  # p^A (2.23)
        if loads.size > 3:
            first = 3 + 6 * (n * frame + i)
            total = total + loaded(table, fixed, loads, first, 6 * n, row, work, zero)
    return good and above(1.0 + zero, total)


@step
def screw(table, at, turns, work, row):
    """E and r of a joint of one rate but for the user's axes, and c, of one state."""
    c, s, d = work[turns[0]], work[turns[1]], work[row + SHIFTED]
    cx, sx = table[at + COS_X], table[at + SIN_X]
    E = (c, -s, 0.0, cx * s, cx * c, -sx, sx * s, sx * c, cx)
    x, y, *linear = (work[row + BIAS + k] for k in range(5))
    return E, (table[at + ALONG_X], table[at + ALONG_Y] - d * sx, d * cx), (x, y, 0.0, *linear)


@plain
def from_before(table, n, i, work):
    """E, r and c of body i, from what `outwards` has left in ``work`` of one state."""
    kind, _, _, row = record(table, n, i)
    if RATES[kind] > 1:
        c = mat.constants6(work, row + CARRIED)
        return mat.matrix(work, row), mat.constants(work, row + WAY), c
    E, r, c = screw(table, LINK * i, (i, angles(n) + i), work, row)
    if on_user_axes(table, n, i):
        joint = mat.matrix(table, fixed_row(n, i) + AXES)
        r = plus(mat.constants(table, fixed_row(n, i) + ORIGIN), mat.times(joint, r))
        E = mat.product(joint, E)
    return E, r, c


# --- inwards: I^A, U, D, u, I^a, p^a --------------------------------------------------------------


@step
def with_body(table, at, hung, work, row):
    """I^A and p^A of a body with what hangs on it; the traces of A and C too."""
    body = table[at + MASS], mat.constants(table, at + MOMENT), mat.constants6(table, at + INERTIA)
    A, B, C, n, f = inertia.added(hung, *body)
    n, f = plus(n, mat.load3(work, row, n[0])), plus(f, mat.load3(work, row + 3, n[0]))
    return Articulated(A, B, C, n, f), A[0] + A[3] + A[5], C[0] + C[3] + C[5]


@step
def put_rate(rate, work, at):
    """Write U/D but for its part along the axis, u/D, D, J/D and (D − J)/D."""
    g, h = rate.g, rate.h
    mat.store_all(work, at, (g[0], g[1], *h, rate.u, rate.D, rate.rotor, g[2]))


@inlined
def free_single(body, tau, table, at, kind, least, work, row):
    """U, D and u of a joint of one rate, I^a and p^a; whether D is not lost."""
    pitch = table[at + PITCH]
    if TURNS[kind] == 0:
        body = inertia.mirrored(body)
    elif pitch != 0.0:
        body = inertia.sheared(body, pitch)
    body, rate = inertia.freed(body, tau, table[at + ARMATURE])
    put_rate(rate, work, row + WRENCH)
    if TURNS[kind] == 0:
        body = inertia.mirrored(body)
    elif pitch != 0.0:
        body = inertia.sheared(body, -pitch)
    return with_bias(body, work, row + BIAS), above(rate.D, least)


@step
def with_bias(body, work, row):
    """p^a = p^A + U D⁻¹ u, to which I^a c is added; the angular part of c has no z."""
    A, B, C, n, f = body
    x, y = load(work, row, n[0]), load(work, row + 1, n[0])
    c = mat.load3(work, row + 2, n[0])
    g, h, T = mat.times(B, c), mat.times_symmetric(C, c), mat.full(A)
    n = tuple(n[i] + T[i] * x + T[3 + i] * y + g[i] for i in range(3))
    return Articulated(A, B, C, n, tuple(f[i] + B[i] * x + B[3 + i] * y + h[i] for i in range(3)))


@inlined
def single_inwards(table, n, i, body, work, row):
    """Xᵀ I^a X and Xᵀ p^a of a joint of one rate; the square of r."""
    body, square = screw_inwards(table, LINK * i, i, angles(n) + i, body, work, row)
    b = table[LINK * i + ALONG_Y]
    if b != 0.0:
        body = inertia.slide(body, b)
    body = inertia.renamed(body)
    if on_user_axes(table, n, i):
        axes = mat.matrix(table, fixed_row(n, i) + AXES)
        body = inertia.carried(axes, joint.ZERO, body)
    return body, square


@step
def screw_inwards(table, at, turns, sines, body, work, row):
    """Xᵀ I^a X and Xᵀ p^a of a joint of one rate, but for the way along y; the square of r."""
    like = body.moment[0]
    a, b, d = table[at + ALONG_X], table[at + ALONG_Y], load(work, row + SHIFTED, like)
    body = inertia.turn(body, load(work, turns, like), load(work, sines, like))
    body = inertia.renamed(inertia.slide(body, d))
    body = inertia.turn(body, table[at + COS_X], table[at + SIN_X])
    return inertia.renamed(inertia.slide(body, a)), a * a + b * b + d * d


@plain
def free_half(body, tau, table, kind, half, least, work, fixed, units):
    """Free the turns (`ANGULAR`) of a joint of several rates, or its slides (`LINEAR`) as turns.

    Each axis has the name z in its turn.  ``tau``: of the turns or slides; ``units``: where the
    units of the first rate are.
    """
    good = True
    diagonal = body.A[0], body.A[3], body.A[5]
    for k in range(3):
        body = inertia.renamed(body)
        j = RATE_OF[kind, half + k]
        if j >= 0:
            J = table[fixed + ROTORS + j]
            body, rate = inertia.freed(body, tau[k], J)
            enough = above(rate.D, inertia.LOST * (diagonal[k] + J))
            good = good and above(rate.D, least) and enough
            put_rate(rate, work, units + RATE * j)
    return body, good


@step
def several_inwards(body, work, row):
    """p^a with I^a c added, Xᵀ I^a X and Xᵀ p^a of a joint of several rates; the square of r."""
    A, B, C, n, f = body
    E, r = mat.load9(work, row, n[0]), mat.load3(work, row + WAY, n[0])
    c = mat.load3(work, row + CARRIED, n[0])
    d = mat.load3(work, row + CARRIED + 3, n[0])
    n = plus(n, plus(mat.times_symmetric(A, c), mat.times(B, d)))
    f = plus(f, plus(mat.back(B, c), mat.times_symmetric(C, d)))
    return inertia.carried(E, r, Articulated(A, B, C, n, f)), fused_dot(r, r)


@step
def free_ball(body, tau, least, work, row):
    """Free all turns without a rotor, and go on to the body before: of I^a nothing but C is left.

    With it chains of balls take two thirds of the time.
    """
    zero = 0.0 * tau[0]
    diagonal = body.A[0], body.A[3], body.A[5]
    good = above(diagonal[0], least)
    for j in range(3):
        body, rate = inertia.freed(inertia.renamed(body), tau[j], zero)
        good = good & above(rate.D, least) & above(rate.D, inertia.LOST * diagonal[j])
        put_rate(rate, work, row + SEVERAL + RATE * j)
    _, _, C, n, f = body
    E, r = mat.load9(work, row, n[0]), mat.load3(work, row + WAY, n[0])
    d = mat.load3(work, row + CARRIED + 3, n[0])
    f = mat.times(E, plus(f, mat.times_symmetric(C, d)))
    C = mat.turned(E, mat.full(C))
    B = mat.across(r, C)
    A = mat.upper(mat.across(r, mat.transposed(B)))
    n = plus(mat.times(E, n), fused_cross(r, f))
    return Articulated(A, B, mat.upper(C), n, f), fused_dot(r, r), good


@step
def nothing(zero):
    return Articulated((zero,) * 6, (zero,) * 9, (zero,) * 6, (zero,) * 3, (zero,) * 3)


@plain
def inwards(table, tau, frame, work, zero):
    """I^A and p^A from tip to base; DONE, or why not, or the first body without pivot."""
    n, _, nv, _ = sizes(table, table.size)
    body = nothing(zero)
    # Sizes of the numbers whose differences A and C are: rounding leaves EPS of them.
    size = weight = zero
    for i in range(n - 1, -1, -1):
        kind, _, at_v, row = record(table, n, i)
        at, fixed, single = LINK * i, fixed_row(n, i), RATES[kind] == 1
        at_v += frame * nv
        wrench = row + (WRENCH if single else PUSHED)
        body, trace_A, trace_C = with_body(table, at, body, work, wrench)  # I^A, p^A
        least, least_C = 4.0 * EPS * (size + trace_A), 4.0 * EPS * (weight + trace_C)
        square, good, found = zero, True, True
        if single:
            torque, felt = take(tau, at_v, nv, zero), least_C if TURNS[kind] == 0 else least
            # U, D, u (4.6) (5.16); I^a, p^a
            body, good = free_single(body, torque, table, at, kind, felt, work, row)
            if i > 0:  # Xᵀ I^a X, Xᵀ p^a (4.5) (5.16)
                body, square = single_inwards(table, n, i, body, work, row)
        elif TURNS[kind] == 3 and SLIDES[kind] == 0 and table[at + ARMATURE] == 0.0:
            moment = three_of(tau, at_v, nv, kind, ANGULAR, zero)
            body, square, good = free_ball(body, moment, least, work, row)  # the same
        else:
            to, moment = row + SEVERAL, three_of(tau, at_v, nv, kind, ANGULAR, zero)
            if SLIDES[kind] > 0:
                force = three_of(tau, at_v, nv, kind, LINEAR, zero)
                body = inertia.mirrored(body)
                body, good = free_half(body, force, table, kind, LINEAR, least_C, work, fixed, to)
                body = inertia.mirrored(body)
            body, found = free_half(body, moment, table, kind, ANGULAR, least, work, fixed, to)
            if i > 0:  # Xᵀ I^a X, Xᵀ p^a (4.5) (5.16)
                body, square = several_inwards(body, work, row)
        if not (good and found):
            # Numbers of this size cancelled, or they overflowed.
            size = least + least_C
            return i if above(math.inf + 0.0 * size, size) else NOT_USABLE
        size, weight = trace_A + square * trace_C, trace_C
    return DONE


# --- accelerations: a′, q̈, a (5.17) ---------------------------------------------------------------


@step
def single_carried(table, at, turns, sines, spin, a, row, work):
    """a′ = X a + c of a body with a joint of one rate, but for the way along y."""
    like = a[0]
    x, d = table[at + ALONG_X], load(work, row + SHIFTED, like)
    cx, sx = table[at + COS_X], table[at + SIN_X]
    c, s = load(work, turns, like), load(work, sines, like)
    a = (a[0], a[1] + x * spin[2], a[2] - x * spin[1])
    spin, a = after_x(spin, cx, sx), after_x(a, cx, sx)
    a = (a[0] + d * spin[1], a[1] - d * spin[0], a[2])
    spin, a = after_z(spin, c, s), after_z(a, c, s)
    spin = (spin[0] + load(work, row, like), spin[1] + load(work, row + 1, like), spin[2])
    return spin, plus(a, mat.load3(work, row + 2, like))


@step
def several_carried(spin, a, work, row):
    like = a[0]
    E, r = mat.load9(work, row, like), mat.load3(work, row + WAY, like)
    a = mat.back(E, plus(a, fused_cross(spin, r)))
    c = mat.load3(work, row + CARRIED, like)
    d = mat.load3(work, row + CARRIED + 3, like)
    return plus(mat.back(E, spin), c), plus(a, d)


@step
def moves_freely(spin, a, at, work):
    """q̈ = D⁻¹ (u − Uᵀ a′) of a turn about z, and a = a′ + s q̈.

    With z = u/D − (U/D)ᵀ a′ but for a′_z, q̈ is z − (D − J)/D a′_z, and the motion along the axis
    z + J/D a′_z: written so, nothing cancels where J is 0.
    """
    like = a[0]
    ux, uy, vx, vy, vz, drive = mat.load6(work, at, like)
    rotor, share = load(work, at + ROTOR, like), load(work, at + SHARE, like)
    z = drive - (ux * spin[0] + uy * spin[1]) - (vx * a[0] + vy * a[1] + vz * a[2])
    return (spin[0], spin[1], z + rotor * spin[2]), a, z - share * spin[2]


@plain
def half_moves(spin, a, kind, half, units, work, qdd, first, stride):
    """Motion with that of turns (`ANGULAR`), or of slides (`LINEAR`) if both are swapped."""
    for k in range(2, -1, -1):
        j = RATE_OF[kind, half + k]
        if j >= 0:
            spin, a, acceleration = moves_freely(spin, a, units + RATE * j, work)
            put(qdd, first + j, stride, acceleration)
        spin, a = (spin[2], spin[0], spin[1]), (a[2], a[0], a[1])  # back from `inertia.renamed`
    return spin, a


@plain
def accelerations(table, loads, frame, work, qdd, zero):
    """Joint accelerations from base to tip; whether all are finite."""
    n, _, nv, _ = sizes(table, table.size)
    m = angles(n)
    spin = (zero, zero, zero)
    a = (zero - loads[0], zero - loads[1], zero - loads[2])  # gravity: the base rises
    total = zero
    for i in range(n):
        kind, _, first, row = record(table, n, i)
        at, fixed = LINK * i, fixed_row(n, i)
        first += frame * nv
        if RATES[kind] == 1:
            if on_user_axes(table, n, i):
                spin, a = in_joint_axes(table, fixed, spin), in_joint_axes(table, fixed, a)
            y, pitch = table[at + ALONG_Y], table[at + PITCH]
            if y != 0.0:
                a = (a[0] - y * spin[2], a[1], a[2] + y * spin[0])
            spin, a = single_carried(table, at, i, m + i, spin, a, row, work)  # a′
            if TURNS[kind] == 0:
                a, spin, acceleration = moves_freely(a, spin, row + WRENCH, work)  # q̈, a (5.17)
            else:
                a = (a[0], a[1], a[2] - pitch * spin[2])
                spin, a, acceleration = moves_freely(spin, a, row + WRENCH, work)  # q̈, a (5.17)
                a = (a[0], a[1], a[2] + pitch * spin[2])
            put(qdd, first, nv, acceleration)
            total = total + 0.0 * acceleration
        else:
            spin, a = several_carried(spin, a, work, row)  # a′
            units = row + SEVERAL
            # q̈, a (5.17)
            spin, a = half_moves(spin, a, kind, ANGULAR, units, work, qdd, first, nv)
            if SLIDES[kind] > 0:
                a, spin = half_moves(a, spin, kind, LINEAR, units, work, qdd, first, nv)
            total = total + checked((*spin, *a))
    return above(1.0 + zero, total)


@plain
def forward(table, q, qd, tau, loads, frame, work, qdd, zero):
    """q̈ of one state or eight; DONE, or why not, or the first body without pivot."""
    if not outwards(table, q, qd, loads, frame, work, zero):
        return NOT_USABLE
    body = inwards(table, tau, frame, work, zero)
    if body != DONE:
        return body
    return DONE if accelerations(table, loads, frame, work, qdd, zero) else NOT_USABLE
