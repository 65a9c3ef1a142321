"""Composite bodies of a serial chain: inertia matrix and matrix of convective terms.

``index`` and ``table`` as in `rigid_newton_euler`.  Bodies i, i + 1, … rigidly joined have mass m,
mass centre c and inertia I about it, all in body i's frame.  Adding two such bodies adds positive
terms only, which adding inertias about a common origin would not.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit
from fixman.kernels.links import (
    FREE,
    LOST,
    PRISMATIC,
    RATES,
    REVOLUTE,
    SPHERICAL,
    axis,
    inwards,
    place,
)
from fixman.kernels.steps import step
from fixman.kernels.triples import back, constants, cross, dot, plus, times
from fixman.kernels.vectors import scaled


@jit
def component(kind, b, f, moment):
    """Column b of p_i times a wrench."""
    if kind == REVOLUTE:
        return moment[2]
    if kind == PRISMATIC:
        return f[2]
    if kind == FREE and b < 3:
        return f[b]
    return moment[b % 3]


@step
def add_turned(R, A, B):
    """B += R A Rᵀ, all (9,)."""
    for i in range(0, 9, 3):
        row = back(A, constants(R, i))
        for j in range(3):
            B[i + j] += row[0] * R[3 * j] + row[1] * R[3 * j + 1] + row[2] * R[3 * j + 2]


@step
def add_deviation(s, u, v, B):
    """B += s [(u·v) 1 − u vᵀ]."""
    trace = s * dot(u, v)
    for i in range(3):
        B[4 * i] += trace
        for j in range(3):
            B[3 * i + j] -= s * u[i] * v[j]


@jit
def compose(table, X, m, c, inertia):
    """Composite bodies M̃_i = M_i + B_{i+1,i}ᵀ M̃_{i+1} B_{i+1,i} (eq. 23b)."""
    n = m.size
    for i in range(n - 1, -1, -1):
        m[i] = table[i, 12]
        own = constants(table[i], 13)
        for k in range(9):
            inertia[i, k] = table[i, 16 + k]
        centre = own
        if i < n - 1:
            other = plus(constants(X[i + 1], 9), times(X[i + 1], constants(c[i + 1], 0)))
            total = m[i] + m[i + 1]
            add_turned(X[i + 1], inertia[i + 1], inertia[i])
            if total > 0.0:
                share = m[i + 1] / total
                d = plus(other, scaled(-1.0, own))
                centre = plus(own, scaled(share, d))
                add_deviation(share * m[i], d, d, inertia[i])
            m[i] = total
        for k in range(3):
            c[i, k] = centre[k]


@step
def momentum(m, c, inertia, angular, linear):
    """M̃ times a twist or its rate: force, and moment about the origin."""
    f = scaled(m, plus(linear, cross(angular, c)))
    return f, plus(times(inertia, angular), cross(c, f))


@jit
def inertia_frames(index, table, q, out):
    """I into ``out (frames, nv, nv)``; the first frame that is not finite, or -1."""
    n = index.shape[0]
    X = np.empty((n, 12))
    m = np.empty(n)
    c = np.empty((n, 3))
    inertia = np.empty((n, 9))
    for frame in range(out.shape[0]):
        A = out[frame]
        if not place(q[frame], index[:, 0], table, X):
            return frame
        compose(table, X, m, c, inertia)
        check = 0.0
        for k in range(q.shape[1]):  # not every coordinate has a part in I
            check += 0.0 * q[frame, k]
        for j in range(n):
            kind = index[j, 0]
            for a in range(RATES[kind]):
                column = index[j, 2] + a
                e, v = axis(kind, a)
                f, moment = momentum(m[j], constants(c[j], 0), inertia[j], e, v)
                for b in range(a + 1):
                    # eq. 24: i_ji = p_jᵀ M̃_j B_ji p_i
                    value = component(kind, b, f, moment)
                    A[index[j, 2] + b, column] = value
                    A[column, index[j, 2] + b] = value
                for i in range(j - 1, -1, -1):
                    moment, f = inwards(X, i + 1, moment, f)
                    for b in range(RATES[index[i, 0]]):
                        value = component(index[i, 0], b, f, moment)
                        A[index[i, 2] + b, column] = value
                        A[column, index[i, 2] + b] = value
                check += 0.0 * (f[0] + f[1] + f[2] + moment[0] + moment[1] + moment[2])
        if check != 0.0:  # NaN
            return frame
    return -1


@jit
def rates(index, table, qd, X, ω, ṡ):
    """Angular velocities ω_i, and velocities ṡ_i of body i's origin relative to that of i − 1.

    ω_i in body i's frame, ṡ_i in body i − 1's.
    """
    last = (0.0, 0.0, 0.0)
    for i in range(ω.shape[0]):
        kind = index[i, 0]
        at = index[i, 2]
        velocity = cross(last, constants(X[i], 9))
        last = back(X[i], last)
        if kind == REVOLUTE:
            last = (last[0], last[1], last[2] + qd[at])
        elif kind == PRISMATIC:
            velocity = plus(velocity, times(X[i], (0.0, 0.0, qd[at])))
        elif kind == SPHERICAL:
            last = plus(last, constants(qd, at))
        else:
            velocity = plus(velocity, times(X[i], constants(qd, at)))
            last = plus(last, constants(qd, at + 3))
        for k in range(3):
            ω[i, k] = last[k]
            ṡ[i, k] = velocity[k]


@jit
def compose_rates(table, X, m, c, ω, ṡ, christoffel, ḣ, Z):
    """Y_i = Σ_{k≥i} B_kiᵀ (M_k Ḃ_ki + Ṁ_k B_ki), which takes [w; u] to [ḣ; Z] w.

    With d_k from body i's origin to mass centre k, h = Σ m d and
    Z = Σ m [(d·ḋ) 1 − ḋ dᵀ] + ω_k × I_k.
    """
    n = m.size
    for i in range(n - 1, -1, -1):
        w = constants(ω[i], 0)
        own = constants(table[i], 13)
        ḋ = cross(w, own)
        first = scaled(table[i, 12], ḋ)
        half = 0.0
        if christoffel:
            half = 0.5 * (table[i, 16] + table[i, 20] + table[i, 24])
        for k in range(3):
            column = cross(w, constants(table[i], 16 + 3 * k))
            for j in range(3):
                Z[i, 3 * j + k] = column[j]
        if half != 0.0:
            Z[i, 1] += half * w[2]
            Z[i, 2] -= half * w[1]
            Z[i, 3] -= half * w[2]
            Z[i, 5] += half * w[0]
            Z[i, 6] += half * w[1]
            Z[i, 7] -= half * w[0]
        add_deviation(table[i, 12], ḋ, own, Z[i])
        if i < n - 1:
            s = constants(X[i + 1], 9)
            v = constants(ṡ[i + 1], 0)
            other = times(X[i + 1], constants(c[i + 1], 0))
            moved = times(X[i + 1], constants(ḣ[i + 1], 0))
            add_turned(X[i + 1], Z[i + 1], Z[i])
            add_deviation(m[i + 1], v, s, Z[i])
            add_deviation(1.0, moved, s, Z[i])
            add_deviation(m[i + 1], v, other, Z[i])
            first = plus(first, plus(moved, scaled(m[i + 1], v)))
        for k in range(3):
            ḣ[i, k] = first[k]


@jit
def convective_frames(index, table, q, qd, christoffel, out):
    """C into ``out (frames, nv, nv)``; the first frame that is not finite, or -1."""
    n = index.shape[0]
    X = np.empty((n, 12))
    m = np.empty(n)
    c = np.empty((n, 3))
    inertia = np.empty((n, 9))
    ω = np.empty((n, 3))
    ṡ = np.empty((n, 3))
    ḣ = np.empty((n, 3))
    Z = np.empty((n, 9))
    for frame in range(out.shape[0]):
        A = out[frame]
        if not place(q[frame], index[:, 0], table, X):
            return frame
        compose(table, X, m, c, inertia)
        rates(index, table, qd[frame], X, ω, ṡ)
        compose_rates(table, X, m, c, ω, ṡ, christoffel, ḣ, Z)
        check = 0.0
        for k in range(q.shape[1]):  # not every coordinate or rate has a part in C
            check += 0.0 * q[frame, k]
        for k in range(qd.shape[1]):
            check += 0.0 * qd[frame, k]
        for j in range(n):
            kind = index[j, 0]
            for a in range(RATES[kind]):
                column = index[j, 2] + a
                w, u = axis(kind, a)  # B_ij p_j, and its rate
                dw = cross(constants(ω[j], 0), w)
                du = cross(constants(ω[j], 0), u)
                f = (0.0, 0.0, 0.0)
                moment = (0.0, 0.0, 0.0)
                for i in range(j, n):
                    if i > j:
                        s = constants(X[i], 9)
                        du = plus(du, plus(cross(dw, s), cross(w, constants(ṡ[i], 0))))
                        w = back(X[i], w)
                        dw = back(X[i], dw)
                        du = back(X[i], du)
                    force, torque = momentum(m[i], constants(c[i], 0), inertia[i], dw, du)
                    force = plus(force, cross(w, constants(ḣ[i], 0)))
                    torque = plus(torque, times(Z[i], w))
                    for b in range(RATES[index[i, 0]]):
                        A[index[i, 2] + b, column] = component(index[i, 0], b, force, torque)
                    if i == j:
                        f = force
                        moment = torque
                    check += 0.0 * (force[0] + force[1] + force[2])
                    check += 0.0 * (torque[0] + torque[1] + torque[2])
                for i in range(j - 1, -1, -1):
                    moment, f = inwards(X, i + 1, moment, f)
                    for b in range(RATES[index[i, 0]]):
                        A[index[i, 2] + b, column] = component(index[i, 0], b, f, moment)
                check += 0.0 * (f[0] + f[1] + f[2] + moment[0] + moment[1] + moment[2])
        if check != 0.0:  # NaN
            return frame
    return -1


@jit
def substitute(L, A, b):
    """Overwrite ``b (frames, nv)`` with (L Lᵀ)⁻¹ b; frame · nv + row of a lost pivot, or -1."""
    nv = b.shape[1]
    for frame in range(b.shape[0]):
        x = b[frame]
        for k in range(nv):
            if not L[frame, k, k] ** 2 > LOST * A[frame, k, k]:  # NaN fails too
                return frame * nv + k
            for j in range(k):
                x[k] -= L[frame, k, j] * x[j]
            x[k] /= L[frame, k, k]
        for k in range(nv - 1, -1, -1):
            x[k] /= L[frame, k, k]
            for j in range(k):
                x[j] -= L[frame, k, j] * x[k]
    return -1
