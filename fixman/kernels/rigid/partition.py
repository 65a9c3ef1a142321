"""The Fixman partition of a serial chain of rigid bodies, joints of any kind.

The relative twist of joint i, (ω, v), is taken at the origin of body i's frame and in its axes,
so that the soft rates are some of its components and T of theory.md section 8 is a permutation.
With J = I_c⁻¹, c the mass centre, r from there to the next joint frame's origin and R that
frame's rotation, a body at rest answers wrenches by three constant blocks:

    A = [[J, −J[c]], [[c]J, 1/m − [c]J[c]]]                        origin ← origin
    K = [[J, J[r]], [[c]J, 1/m + [c]J[r]]] diag(R, R)              origin ← next joint
    C = diag(R, R)ᵀ [[J, J[r]], [−[r]J, 1/m − [r]J[r]]] diag(R, R)   next joint ← next joint

and H_ii = A_i + 𝒥_i C_{i−1} 𝒥_iᵀ, H_{i,i+1} = −K_i 𝒥_{i+1}ᵀ, where 𝒥_i carries a twist from the
joint frame to the body's: v_O = Eᵀ (v + ω × p), ω_O = Eᵀ ω.  Elimination of the hard directions of
joint i leaves Ĉ_i = C_i − K_hᵀ S_hh⁻¹ K_h in C_i's place, the mobility at the next joint of all
that is between it and the base: nothing is accumulated along the chain but that.

Armature J of a rate is Fixman's too: a rotor is one more body, of mobility 1/J.  Its angle becomes
the soft coordinate, and that it is the joint's a further hard row, in which 1/J is added to the
diagonal.  The multiplier is what the rotor hands on of its torque.

A row of ``table (n, TABLE)`` holds one body, a row of ``work (n, WORK)`` one joint's factor and
vectors; the columns are named below.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import (
    back,
    constants,
    matrix,
    put_entries,
    store_all,
    times,
    times_symmetric,
    upper,
)
from fixman.kernels.algebra.vectors import minus, outer, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.factors.sparse import times as multiplied
from fixman.kernels.rigid.joints import (
    AXES,
    JOINTS,
    POSITIONS,
    RATES,
    WHERE,
    joint_motion,
    joint_twist,
)

# Columns of a body's row: the three blocks, then what velocities and loads want: J, I_c, R, c, r,
# 1/m, the rotation of the body's own joint frame, of which only the first is used, and the kind and
# pitch of the joint.
A, K, C, INVERSE, INERTIA, ROTATION, CENTRE, LEVER, LIGHT = 0, 36, 72, 108, 117, 126, 135, 138, 141
BASE, KIND, PITCH = 142, 151, 152
# Six rows, hard ones, then those with a rotor, then soft ones; how many are not soft; their 1/J.
ROWS, HELD, GEAR = 153, 159, 160
TABLE = 166
# Columns of a joint: S before elimination, L and pivots, L⁻¹K over the pivots, E, p, pitch; then
# L⁻¹y over the pivots and the soft part of y; y of rows with a rotor.
S, L, W, TURN, PLACE, SCREW, Y, LOOSE = 0, 36, 72, 108, 117, 120, 121, 127
WORK = 133

# Rows are ωx, ωy, ωz, vx, vy and vz − pitch ωz, which is 0 where S θ̇ is all of the twist: hard rows
# are the complement of S.  They come first, those across z before those along it, and then the soft
# ones in the order of the joint's rates.
HARD = 6 - RATES
ORDER = np.array(
    [
        [*(k for k in (0, 1, 3, 4, 2, 5) if WHERE[kind, k] < 0), *AXES[kind, : RATES[kind]]]
        for kind in range(len(JOINTS))
    ]
)
# What a joint's neighbours must leave of the mobility in a pivot, for about eight digits.
LEAST = 1e-7


@jit
def ordered(row, order):
    """Write the six rows of a joint in their order; how many of them are not soft."""
    for k in range(6):
        order[k] = int(row[ROWS + k])
    return int(row[HELD])


@step
def keep(f, E, p, pitch):
    """Where the coordinates of a joint have moved the body's frame."""
    store_all(f, TURN, E)
    store_all(f, PLACE, p)
    f[SCREW] = pitch


@step
def carry(f, a, b):
    """b = 𝒥 a for twists (6) in the joint frame: Eᵀ ω and Eᵀ (v + ω × p), in rows of the joint."""
    E, w = matrix(f, TURN), constants(a, 0)
    v = back(E, plus(constants(a, 3), outer(w, constants(f, PLACE))))
    w = back(E, w)
    store_all(b, 0, (*w, v[0], v[1], v[2] - f[SCREW] * w[2]))


@step
def wrench_of(f, a):
    """Moment and force in the body's axes, of what works with the rows of its joint."""
    return (a[0], a[1], a[2] - f[SCREW] * a[5]), constants(a, 3)


@step
def carry_wrench(f, a, b):
    """b = 𝒥ᵀ a: moment and force in the joint frame."""
    E, (moment, force) = matrix(f, TURN), wrench_of(f, a)
    force = times(E, force)
    moment = plus(times(E, moment), outer(constants(f, PLACE), force))
    store_all(b, 0, (*moment, *force))


@step
def spread_by(C, p):
    """Trace of the linear block of C about a point at p, less that about the joint frame's."""
    cross = p[2] * (C[19] - C[24]) + p[1] * (C[30] - C[20]) + p[0] * (C[26] - C[31])
    xx, yy, zz = p[0] * p[0], p[1] * p[1], p[2] * p[2]
    square = (yy + zz) * C[0] + (zz + xx) * C[7] + (xx + yy) * C[14]
    mixed = p[0] * p[1] * C[1] + p[0] * p[2] * C[2] + p[1] * p[2] * C[8]
    return 2.0 * cross + square - 2.0 * mixed


@jit
def factor_frame(table, q, work):
    """Factor H^bb of one configuration; ln det H^bb and the first body whose pivot is lost, or -1.

    A pivot is lost where less than `LEAST` of the blocks it came from is left in it.
    """
    mobility = np.zeros((6, 6))  # Ĉ
    half = np.zeros((6, 6))
    column = np.zeros(6)
    order = np.empty(6, np.int64)
    product = 1.0
    total = 0.0
    at = 0
    for i in range(table.shape[0]):
        row = table[i]
        f = work[i]
        kind = int(row[KIND])
        hard = ordered(row, order)
        E, p, usable = joint_motion(kind, row[PITCH], q, at)
        if not usable:
            return 0.0, i
        keep(f, E, p, row[PITCH])
        scale = scale_v = 0.0
        for j in range(3):
            scale += row[A + 7 * j] + (table[i - 1, C + 7 * j] if i > 0 else 0.0)
            scale_v += row[A + 7 * j + 21] + (table[i - 1, C + 7 * j + 21] if i > 0 else 0.0)
        if i > 0:  # the trace of 𝒥 C 𝒥ᵀ
            scale_v += spread_by(table[i - 1, C : C + 36], p)
        # S = A + 𝒥 Ĉ 𝒥ᵀ
        for j in range(6):
            carry(f, mobility[j], half[j])
        for j in range(6):
            carry(f, half[:, j], column)
            for k in range(6):
                f[S + 6 * k + j] = row[A + 6 * k + j] + column[k]
        # L D Lᵀ of its hard rows, in their order; W = D⁻¹ L⁻¹ K_h.
        for a in range(hard):
            ra = order[a]
            for b in range(a + 1):
                d = f[S + 6 * ra + order[b]]
                if a == b:
                    d += row[GEAR + a]
                for t in range(b):
                    d -= f[L + 6 * a + t] * f[L + 6 * b + t] * f[L + 7 * t]
                f[L + 6 * a + b] = d if a == b else d / f[L + 7 * b]
            d = f[L + 7 * a]
            if not d > LEAST * (scale if ra < 3 else scale_v) or d == math.inf:
                return 0.0, i
            product, total = multiplied(product, d, total)
            for k in range(6):
                y = row[K + 6 * ra + k]
                for t in range(a):
                    y -= f[L + 6 * a + t] * f[L + 7 * t] * f[W + 6 * t + k]
                f[W + 6 * a + k] = y / d
        # Ĉ = C − K_hᵀ S_hh⁻¹ K_h
        for j in range(6):
            for k in range(j + 1):
                y = row[C + 6 * j + k]
                for t in range(hard):
                    y -= f[W + 6 * t + j] * f[L + 7 * t] * f[W + 6 * t + k]
                mobility[j, k] = y
                mobility[k, j] = y
        at += POSITIONS[kind]
    return total + math.log(product), -1


@step
def pushed(c, light, wrenches, k):
    """Moment about the mass centre and acceleration that a wrench on a body causes."""
    f = constants(wrenches, k)
    return plus(constants(wrenches, k + 3), outer(f, c)), scaled(light, f)


@step
def alone(body, w, push):
    """The body cut loose: ε, accelerations of its origin and of the next joint, and ω there.

    What concerns the next joint is in its axes.  ``body``: R, J, I_c, c, r.
    """
    R, J, inertia, c, r = body
    m, f = push
    e = times_symmetric(J, plus(outer(times_symmetric(inertia, w), w), m))
    # Σ = ω ωᵀ − ω², so that ω × (ω × a) = Σ a
    xx, yy, zz = w[0] * w[0], w[1] * w[1], w[2] * w[2]
    S = (-yy - zz, w[0] * w[1], w[0] * w[2], -xx - zz, w[1] * w[2], -xx - yy)
    a = minus(plus(f, outer(c, e)), times_symmetric(S, c))
    p = plus(plus(f, outer(e, r)), times_symmetric(S, r))
    return e, a, back(R, e), back(R, p), back(R, w)


@step
def right_side(row, f, ahead, y, before, twist, push):
    """Write y, less torques, and the acceleration of the next joint frame; ω there.

    ``y``: acceleration of the body cut loose in its joint's rows, less that of the joint's frame
    and what velocities add.
    """
    turn, slide = twist
    joint = outer(before, outer(before, constants(f, PLACE)))
    store_all(ahead, 3, plus(constants(ahead, 3), joint))
    carry(f, ahead, y)
    J, inertia = upper(matrix(row, INVERSE)), upper(matrix(row, INERTIA))
    body = matrix(row, ROTATION), J, inertia, constants(row, CENTRE), constants(row, LEVER)
    omega = back(matrix(f, TURN), before)
    h, both, omega = outer(omega, turn), plus(omega, plus(omega, turn)), plus(omega, turn)
    e, a, turning, moving, last = alone(body, omega, push)
    store_all(y, 0, minus(e, plus(constants(y, 0), h)))
    store_all(y, 3, minus(a, plus(constants(y, 3), outer(both, slide))))
    y[5] = y[5] - f[SCREW] * (e[2] - h[2])
    store_all(ahead, 0, (*turning, *moving))
    return last


@jit
def eliminate(table, qd, tau, gravity, wrenches, work):
    """L⁻¹ y of one factored configuration, from the base on, which accelerates by minus gravity.

    ``wrenches`` (6 n) may be empty.
    """
    ahead = np.zeros(6)  # acceleration of the next joint frame, its λ not yet at work
    y = np.zeros(6)
    zero = (0.0, 0.0, 0.0)
    before = zero  # ω of the body before, in the joint frame's axes
    order = np.empty(6, np.int64)
    store_all(ahead, 3, scaled(-1.0, back(table[0, BASE:], gravity)))
    at = 0
    for i in range(table.shape[0]):
        row = table[i]
        f = work[i]
        kind = int(row[KIND])
        hard = ordered(row, order)
        turn, slide = joint_twist(kind, row[PITCH], qd, at)
        push = (zero, zero)
        if wrenches.size:
            push = pushed(constants(row, CENTRE), row[LIGHT], wrenches, 6 * i)
        before = right_side(row, f, ahead, y, before, (turn, slide), push)
        # Torques, then L⁻¹.
        for s in range(hard, 6):
            torque = tau[at + WHERE[kind, order[s]]]
            for j in range(6):
                y[j] += f[S + 6 * order[s] + j] * torque
                ahead[j] += row[K + 6 * order[s] + j] * torque
        for s in range(hard, 6):
            f[Y + s] = y[order[s]]
        for a in range(HARD[kind], hard):
            f[LOOSE + a] = y[order[a]]
            y[order[a]] -= row[GEAR + a] * tau[at + WHERE[kind, order[a]]]
        for a in range(hard):
            d = y[order[a]]
            for t in range(a):
                d -= f[L + 6 * a + t] * f[L + 7 * t] * f[Y + t]
            for j in range(6):
                ahead[j] -= f[W + 6 * a + j] * d
            f[Y + a] = d / f[L + 7 * a]
        at += 6 - HARD[kind]


@jit
def substitute(table, tau, work, qdd, forces):
    """Accelerations and wrenches of the joints from tip to base; whether those are finite.

    ``forces`` (n, 6), force before moment, may be empty.
    """
    u = np.zeros(6)  # wrench of the next joint in its frame, taken from the body
    w = np.zeros(6)
    order = np.empty(6, np.int64)
    check = 0.0
    at = qdd.size
    for i in range(table.shape[0] - 1, -1, -1):
        row = table[i]
        f = work[i]
        kind = int(row[KIND])
        hard = ordered(row, order)
        at -= 6 - HARD[kind]
        for a in range(hard - 1, -1, -1):
            d = -f[Y + a]
            for k in range(6):
                d += f[W + 6 * a + k] * u[k]
            for t in range(a + 1, hard):
                d -= f[L + 6 * t + a] * w[order[t]]
            w[order[a]] = d
        for s in range(HARD[kind], 6):
            r = order[s]
            to = at + WHERE[kind, r]
            d = f[LOOSE + s] if s < hard else f[Y + s]
            for a in range(hard):
                d += f[S + 6 * r + order[a]] * w[order[a]]
            for k in range(6):
                d -= row[K + 6 * r + k] * u[k]
            # Of the rotor's motion and the body's, which are the same, the one with less rounding.
            if s < hard and row[GEAR + s] < f[S + 7 * r]:
                d = row[GEAR + s] * (tau[to] - w[r])
            qdd[to] = d
            check += 0.0 * d
        for s in range(hard, 6):
            w[order[s]] = tau[at + WHERE[kind, order[s]]]
        if forces.size:
            moment, force = wrench_of(f, w)
            put_entries(forces, i, 0, (*force, *moment))
        carry_wrench(f, w, u)
    return check == 0.0


@jit
def motion_frames(table, q, qd, tau, gravity, wrenches, out, joints, room):
    """Solve every frame; frame · (n + 1) + body of the first lost pivot, or -1.

    Arrays are flat, frames stacked, ``wrenches`` may be None.  ``out``: the accelerations of a
    frame, and where ``joints`` is true its 6 n joint wrenches.  Body n: a result is not finite.
    ``room``: `WORK` numbers for each body.
    """
    n = table.shape[0]
    nq = nv = 0
    for i in range(n):
        nq += POSITIONS[int(table[i, KIND])]
        nv += 6 - HARD[int(table[i, KIND])]
    work = room[: n * WORK].reshape((n, WORK))
    width = nv + 6 * n if joints else nv
    nothing = np.empty((0, 6))
    none = np.empty(0)
    for frame in range(q.size // nq):
        _, body = factor_frame(table, q[frame * nq : (frame + 1) * nq], work)
        if body >= 0:
            return frame * (n + 1) + body
        rates = slice(frame * nv, (frame + 1) * nv)
        answer = out[frame * width : (frame + 1) * width]
        forces = answer[nv:].reshape(n, 6) if joints else nothing
        loads = none
        if wrenches is not None:
            loads = wrenches[6 * n * frame : 6 * n * (frame + 1)]
        eliminate(table, qd[rates], tau[rates], gravity, loads, work)
        if not substitute(table, tau[rates], work, answer[:nv], forces):
            return frame * (n + 1) + n
    return -1


@jit
def logdet_frames(table, q, out):
    """ln det H^bb of every frame, ``q`` flat; failures as in `motion_frames`."""
    n = table.shape[0]
    nq = q.size // out.size
    work = np.empty((n, WORK))
    for frame in range(out.size):
        out[frame], body = factor_frame(table, q[frame * nq : (frame + 1) * nq], work)
        if body >= 0:
            return frame * (n + 1) + body
        if not abs(out[frame]) < math.inf:
            return frame * (n + 1) + n
    return -1


@jit
def assemble(table, q, diagonal, lower):
    """Blocks of H^bb of one configuration, (n, f, f) and (n − 1, f, f), f the most hard rows."""
    f = np.empty(WORK)
    half = np.zeros((6, 6))
    column = np.zeros(6)
    order, last = np.empty(6, np.int64), np.empty(6, np.int64)
    at = held = 0
    for i in range(table.shape[0]):
        row = table[i]
        kind = int(row[KIND])
        hard = ordered(row, order)
        E, p, _ = joint_motion(kind, row[PITCH], q, at)
        keep(f, E, p, row[PITCH])
        for a in range(hard):
            for b in range(hard):
                diagonal[i, a, b] = row[A + 6 * order[a] + order[b]]
            diagonal[i, a, a] += row[GEAR + a]
        if i > 0:
            before = table[i - 1]
            for j in range(6):
                carry(f, before[C + 6 * j : C + 6 * j + 6], half[j])
            for b in range(hard):
                carry(f, half[:, order[b]], column)
                for a in range(hard):
                    diagonal[i, a, b] += column[order[a]]
            for b in range(held):
                k = K + 6 * last[b]
                carry(f, before[k : k + 6], column)
                for a in range(hard):
                    lower[i - 1, a, b] = -column[order[a]]
        at += POSITIONS[kind]
        held = hard
        last[:] = order
