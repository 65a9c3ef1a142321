"""The Fixman partition of a serial chain of rigid bodies, joints of any kind.

The relative twist of joint i, (ω, v), is taken at the origin of body i's frame and in its axes,
so that the soft rates are some of its components and T of theory.md section 8 is a permutation.
With J = I_c⁻¹, c the mass centre, r from there to the next joint frame's origin and R that
frame's rotation, a body at rest answers wrenches by three constant blocks:

    A = [[J, −J[c]], [[c]J, 1/m − [c]J[c]]]                        origin ← origin
    K = [[J, J[r]], [[c]J, 1/m + [c]J[r]]] diag(R, R)              origin ← next joint
    C = diag(R, R)ᵀ [[J, J[r]], [−[r]J, 1/m − [r]J[r]]] diag(R, R)   next joint ← next joint

and H_ii = A_i + 𝒥_i C_{i−1} 𝒥_iᵀ, H_{i,i+1} = −K_i 𝒥_{i+1}ᵀ, where 𝒥_i carries a twist from the
joint frame to the body's: v_O = X (v + ω × p), ω_O = X ω.  Elimination of the hard directions of
joint i leaves Ĉ_i = C_i − K_hᵀ S_hh⁻¹ K_h in C_i's place, the mobility at the next joint of all
that is between it and the base: nothing is accumulated along the chain but that.

A row of ``table (n, TABLE)`` holds one body, a row of ``factor (n, FACTOR)`` one joint's factor;
the columns are named below.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from fixman.kernels import jit
from fixman.kernels.banded import times
from fixman.kernels.steps import step

REVOLUTE, PRISMATIC, SPHERICAL, FREE = range(4)

# Columns of a body's row: the three blocks, then what velocities and loads want: J, I_c, R, c, r,
# 1/m, and the rotation of the body's own joint frame, of which only the first is used.
A, K, C, INVERSE, INERTIA, ROTATION, CENTRE, LEVER, LIGHT = 0, 36, 72, 108, 117, 126, 135, 138, 141
BASE = 142
TABLE = 151
# Columns of a joint's factor: S before elimination, L and pivots, L⁻¹K over the pivots, X, p.
S, L, W, X, P = 0, 36, 72, 108, 117
FACTOR = 120
# Columns of a joint's vectors: L⁻¹y over the pivots, ω, soft part of y.
VECTORS = 18

# Hard directions of each kind of joint first, then the soft ones in the order of its rates.
ORDER = np.array(
    [[0, 1, 3, 4, 5, 2], [0, 1, 3, 4, 2, 5], [3, 4, 5, 0, 1, 2], [3, 4, 5, 0, 1, 2]], dtype=np.int64
)
HARD = np.array([5, 5, 3, 0], dtype=np.int64)
POSITIONS = np.array([1, 1, 4, 7], dtype=np.int64)
# What a joint's neighbours must leave of the mobility in a pivot, for about eight digits.
LEAST = 1e-7
# How far the square of a quaternion's norm may be from 1.
UNIT = 2e-6


def strict(kernel: Any) -> Any:
    """Return a ``motion_frames`` of one signature, without wrenches.

    It refuses arrays of other types, layouts or flags by a TypeError where `jit` would compile once
    more, and so is the cheapest way to check them.
    """
    array = types.float64[::1]
    only = jit(kernel.py_func)
    only.compile((*[array] * 5, types.none, array, types.boolean))
    only.disable_compile()
    return only


@jit
def motion_of_joint(kind, q, at, X, p):
    """X (3, 3 as 9), from the joint frame's axes to the body's, and the body's origin p.

    False for a quaternion that is not a unit one, and a position that is not finite.
    """
    for j in range(9):
        X[j] = 0.0
    X[0] = X[4] = X[8] = 1.0
    for j in range(3):
        p[j] = 0.0
    if kind == REVOLUTE:
        c = math.cos(q[at])
        s = math.sin(q[at])
        X[0] = X[4] = c
        X[1] = s
        X[3] = -s
    elif kind == PRISMATIC:
        p[2] = q[at]
    else:
        if kind == FREE:
            for j in range(3):
                p[j] = q[at + j]
                if not abs(p[j]) < math.inf:  # nothing that H^bb depends on: looked at here only
                    return False
            at += 3
        x, y, z, w = q[at], q[at + 1], q[at + 2], q[at + 3]
        square = x * x + y * y + z * z + w * w
        if not abs(square - 1.0) <= UNIT:
            return False
        t = 2.0 / square
        X[0] = 1.0 - t * (y * y + z * z)
        X[1] = t * (x * y + z * w)
        X[2] = t * (x * z - y * w)
        X[3] = t * (x * y - z * w)
        X[4] = 1.0 - t * (x * x + z * z)
        X[5] = t * (y * z + x * w)
        X[6] = t * (x * z + y * w)
        X[7] = t * (y * z - x * w)
        X[8] = 1.0 - t * (x * x + y * y)
    return True


@step
def carry(X, p, a, b):
    """b = 𝒥 a for twists (6) in the joint frame: X ω and X (v + ω × p)."""
    u = a[3] + a[1] * p[2] - a[2] * p[1]
    v = a[4] + a[2] * p[0] - a[0] * p[2]
    w = a[5] + a[0] * p[1] - a[1] * p[0]
    for j in range(3):
        b[j] = X[3 * j] * a[0] + X[3 * j + 1] * a[1] + X[3 * j + 2] * a[2]
        b[3 + j] = X[3 * j] * u + X[3 * j + 1] * v + X[3 * j + 2] * w


@step
def carry_wrench(X, p, a, b):
    """b = 𝒥ᵀ a for wrenches (moment, force) in the body's axes: back to the joint frame."""
    for j in range(6):
        b[j] = 0.0
    for k in range(3):
        for j in range(3):
            b[j] += X[3 * k + j] * a[k]
            b[3 + j] += X[3 * k + j] * a[3 + k]
    b[0] += p[1] * b[5] - p[2] * b[4]
    b[1] += p[2] * b[3] - p[0] * b[5]
    b[2] += p[0] * b[4] - p[1] * b[3]


@jit
def factor_frame(table, index, q, factor):
    """Factor H^bb of one configuration; ln det H^bb and the first body whose pivot is lost, or -1.

    A pivot is lost where less than `LEAST` of the blocks it came from is left in it.
    """
    n = index.shape[0]
    mobility = np.zeros((6, 6))  # Ĉ
    half = np.zeros((6, 6))
    column = np.zeros(6)
    product = 1.0
    total = 0.0
    for i in range(n):
        row = table[i]
        f = factor[i]
        kind = index[i, 0]
        hard = HARD[kind]
        order = ORDER[kind]
        if not motion_of_joint(kind, q, index[i, 1], f[X : X + 9], f[P : P + 3]):
            return 0.0, i
        scale = scale_v = 0.0
        for j in range(3):
            scale += row[A + 7 * j] + (table[i - 1, C + 7 * j] if i > 0 else 0.0)
            scale_v += row[A + 7 * j + 21] + (table[i - 1, C + 7 * j + 21] if i > 0 else 0.0)
        if kind == PRISMATIC and i > 0:  # the trace of 𝒥 C 𝒥ᵀ
            before = table[i - 1]
            d = q[index[i, 1]]
            scale_v += 2.0 * d * (before[C + 19] - before[C + 24])
            scale_v += d * d * (before[C] + before[C + 7])
        # S = A + 𝒥 Ĉ 𝒥ᵀ
        for j in range(6):
            carry(f[X : X + 9], f[P : P + 3], mobility[j], half[j])
        for j in range(6):
            carry(f[X : X + 9], f[P : P + 3], half[:, j], column)
            for k in range(6):
                f[S + 6 * k + j] = row[A + 6 * k + j] + column[k]
        # L D Lᵀ of its hard rows, in their order; W = D⁻¹ L⁻¹ K_h.
        for a in range(hard):
            ra = order[a]
            for b in range(a + 1):
                d = f[S + 6 * ra + order[b]]
                for t in range(b):
                    d -= f[L + 6 * a + t] * f[L + 6 * b + t] * f[L + 7 * t]
                f[L + 6 * a + b] = d if a == b else d / f[L + 7 * b]
            d = f[L + 7 * a]
            if not d > LEAST * (scale if ra < 3 else scale_v) or d == math.inf:
                return 0.0, i
            product, total = times(product, d, total)
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
    return total + math.log(product), -1


@step
def cross(a, b, c):
    """c = a × b."""
    x = a[1] * b[2] - a[2] * b[1]
    y = a[2] * b[0] - a[0] * b[2]
    c[2] = a[0] * b[1] - a[1] * b[0]
    c[0] = x
    c[1] = y


@step
def rotate_back(M, a, b):
    """b = Mᵀ a for a rotation stored by rows."""
    x, y, z = a[0], a[1], a[2]
    for j in range(3):
        b[j] = M[j] * x + M[3 + j] * y + M[6 + j] * z


@jit
def solve_frame(table, index, qd, tau, gravity, wrenches, factor, vectors, qdd, forces):
    """Joint rates' accelerations, and wrenches of the joints, of one factored configuration.

    The base accelerates by minus gravity.  ``wrenches`` and ``forces`` are (n, 6), force before
    moment, or empty.
    """
    n = index.shape[0]
    ahead = np.zeros(6)  # acceleration of the next joint frame, its λ not yet at work
    omega = np.zeros(3)
    y = np.zeros(6)
    own = np.zeros(6)
    t1 = np.zeros(3)
    t2 = np.zeros(3)
    for j in range(3):
        for k in range(3):
            ahead[3 + j] -= table[0, BASE + 3 * k + j] * gravity[k]
    at = 0
    for i in range(n):
        row = table[i]
        f = factor[i]
        z = vectors[i]
        kind = index[i, 0]
        hard = HARD[kind]
        order = ORDER[kind]
        X_i = f[X : X + 9]
        p = f[P : P + 3]
        # Velocity terms of the joint; ω is that of the body before, in the joint frame's axes.
        cross(omega, p, t1)
        cross(omega, t1, t1)
        for j in range(3):
            ahead[3 + j] += t1[j]
        carry(X_i, p, ahead, y)
        for j in range(3):
            t1[j] = omega[j]
        for j in range(3):
            omega[j] = X_i[3 * j] * t1[0] + X_i[3 * j + 1] * t1[1] + X_i[3 * j + 2] * t1[2]
        for j in range(3):
            t1[j] = t2[j] = 0.0
        if kind == PRISMATIC:
            t1[2] = 2.0 * qd[at]
            cross(omega, t1, t2)
            for j in range(3):
                y[3 + j] += t2[j]
        else:
            if kind == REVOLUTE:
                t1[2] = qd[at]
            else:
                for j in range(3):
                    t1[j] = qd[at + (3 if kind == FREE else 0) + j]
            cross(omega, t1, t2)
            for j in range(3):
                y[j] += t2[j]
                omega[j] += t1[j]
            if kind == FREE:
                cross(omega, qd[at : at + 3], t2)
                for j in range(3):
                    y[3 + j] += t2[j]
        # The body alone: ε and the accelerations of its origin and of the next joint.
        centre = row[CENTRE : CENTRE + 3]
        lever = row[LEVER : LEVER + 3]
        for j in range(3):
            t1[j] = (
                row[INERTIA + 3 * j] * omega[0]
                + row[INERTIA + 3 * j + 1] * omega[1]
                + row[INERTIA + 3 * j + 2] * omega[2]
            )
        cross(t1, omega, t1)
        for j in range(6):
            own[j] = 0.0
        if wrenches.size:
            cross(wrenches[i, :3], centre, t2)
            for j in range(3):
                t1[j] += wrenches[i, 3 + j] + t2[j]
                own[3 + j] = row[LIGHT] * wrenches[i, j]
        for j in range(3):
            own[j] = (
                row[INVERSE + 3 * j] * t1[0]
                + row[INVERSE + 3 * j + 1] * t1[1]
                + row[INVERSE + 3 * j + 2] * t1[2]
            )
        cross(omega, lever, t1)
        cross(omega, t1, t1)
        cross(own, lever, t2)
        for j in range(3):
            t1[j] += t2[j] + own[3 + j]
        rotate_back(row[ROTATION : ROTATION + 9], own, ahead)
        rotate_back(row[ROTATION : ROTATION + 9], t1, ahead[3:])
        cross(omega, centre, t1)
        cross(omega, t1, t1)
        cross(centre, own, t2)
        for j in range(3):
            own[3 + j] += t2[j] - t1[j]
        for j in range(6):
            y[j] = own[j] - y[j]
        # Torques, then L⁻¹.
        for s in range(hard, 6):
            torque = tau[at + s - hard]
            for j in range(6):
                y[j] += f[S + 6 * order[s] + j] * torque
                ahead[j] += row[K + 6 * order[s] + j] * torque
        for s in range(hard, 6):
            z[12 + s] = y[order[s]]
        for a in range(hard):
            d = y[order[a]]
            for t in range(a):
                d -= f[L + 6 * a + t] * f[L + 7 * t] * z[t]
            for j in range(6):
                ahead[j] -= f[W + 6 * a + j] * d
            z[a] = d / f[L + 7 * a]
        # ω of the body in the next joint frame's axes.
        rotate_back(row[ROTATION : ROTATION + 9], omega, omega)
        at += 6 - hard
    # Back: u is the wrench of the next joint in its frame, taken from the body.
    u = np.zeros(6)
    w = np.zeros(6)
    check = 0.0
    for i in range(n - 1, -1, -1):
        row = table[i]
        f = factor[i]
        z = vectors[i]
        hard = HARD[index[i, 0]]
        order = ORDER[index[i, 0]]
        at -= 6 - hard
        for a in range(hard - 1, -1, -1):
            d = -z[a]
            for k in range(6):
                d += f[W + 6 * a + k] * u[k]
            for t in range(a + 1, hard):
                d -= f[L + 6 * t + a] * w[order[t]]
            w[order[a]] = d
        for s in range(hard, 6):
            d = z[12 + s]
            for a in range(hard):
                d += f[S + 6 * order[s] + order[a]] * w[order[a]]
            for k in range(6):
                d -= row[K + 6 * order[s] + k] * u[k]
            qdd[at + s - hard] = d
            check += 0.0 * d
        for s in range(hard, 6):
            w[order[s]] = tau[at + s - hard]
        if forces.size:
            for j in range(3):
                forces[i, j] = w[3 + j]
                forces[i, 3 + j] = w[j]
        carry_wrench(f[X : X + 9], f[P : P + 3], w, u)
    return check == 0.0


@jit
def motion_frames(table, index, q, qd, tau, gravity, wrenches, out, joints):
    """Solve every frame; frame · (n + 1) + body of the first lost pivot, or -1.

    Arrays are flat, frames stacked, ``wrenches`` may be None.  ``out``: the accelerations of a
    frame, and where ``joints`` is true its 6 n joint wrenches.  Body n: a result is not finite.
    """
    n = index.shape[0]
    nq = index[n - 1, 1] + POSITIONS[index[n - 1, 0]]
    nv = index[n - 1, 2] + 6 - HARD[index[n - 1, 0]]
    frames = q.size // nq
    factor = np.empty((n, FACTOR))
    vectors = np.empty((n, VECTORS))
    width = nv + 6 * n if joints else nv
    nothing = np.empty((0, 6))
    for frame in range(frames):
        _, body = factor_frame(table, index, q[frame * nq : (frame + 1) * nq], factor)
        if body >= 0:
            return frame * (n + 1) + body
        rates = slice(frame * nv, (frame + 1) * nv)
        answer = out[frame * width : (frame + 1) * width]
        forces = answer[nv:].reshape(n, 6) if joints else nothing
        W = nothing
        if wrenches is not None:
            W = wrenches[6 * n * frame : 6 * n * (frame + 1)].reshape(n, 6)
        if not solve_frame(
            table, index, qd[rates], tau[rates], gravity, W, factor, vectors,
            answer[:nv], forces,
        ):  # fmt: skip
            return frame * (n + 1) + n
    return -1


@jit
def logdet_frames(table, index, q, out):
    """ln det H^bb of every frame, ``q`` flat; failures as in `motion_frames`."""
    n = index.shape[0]
    nq = q.size // out.size
    factor = np.empty((n, FACTOR))
    for frame in range(out.size):
        out[frame], body = factor_frame(table, index, q[frame * nq : (frame + 1) * nq], factor)
        if body >= 0:
            return frame * (n + 1) + body
        if not abs(out[frame]) < math.inf:
            return frame * (n + 1) + n
    return -1


@jit
def assemble(table, index, q, diagonal, lower):
    """Blocks of H^bb of one configuration, (n, 5, 5) and (n − 1, 5, 5)."""
    frame = np.zeros((2, 12))
    half = np.zeros((6, 6))
    column = np.zeros(6)
    for i in range(index.shape[0]):
        X_i = frame[0, :9]
        p = frame[0, 9:]
        order = ORDER[index[i, 0]]
        hard = HARD[index[i, 0]]
        motion_of_joint(index[i, 0], q, index[i, 1], X_i, p)
        for a in range(hard):
            for b in range(hard):
                diagonal[i, a, b] = table[i, A + 6 * order[a] + order[b]]
        if i > 0:
            before = table[i - 1]
            for j in range(6):
                carry(X_i, p, before[C + 6 * j : C + 6 * j + 6], half[j])
            for b in range(hard):
                carry(X_i, p, half[:, order[b]], column)
                for a in range(hard):
                    diagonal[i, a, b] += column[order[a]]
            for b in range(HARD[index[i - 1, 0]]):
                at = K + 6 * ORDER[index[i - 1, 0], b]
                carry(X_i, p, before[at : at + 6], column)
                for a in range(hard):
                    lower[i - 1, a, b] = -column[order[a]]
