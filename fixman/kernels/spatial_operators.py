"""Sweeps of Rodriguez and Kreutz (1988) over serial chains, in body frames.

Bodies are numbered base to tip here, i = N − k; the report's "causal" sweeps run i = n − 1 … 0.
P(k) is the triple (A, B, C) of `links`.  Per rate, ``G[rate]`` is a column of G(k) = P Hᵀ D⁻¹
(5.12) and ``D[rate]`` a row of D(k), of which the first f(k) elements count.

L(k) = φ(k+1,k) G(k) (a.12) is never formed: what it multiplies is carried inwards together with
the rest, e.g. ψ z + L T = φ (z + G (T − H z)).
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.links import (
    FIRST,
    LOST_INVERSE,
    RATES,
    added,
    axis,
    carried,
    factor_block,
    felt,
    inertia_tuple,
    inwards,
    lost_pivot,
    not_a_number,
    outwards,
    past_ball,
    past_slide,
    past_turn,
    place,
    rotation_tuple,
    solve_block,
)
from fixman.kernels.steps import step
from fixman.kernels.triples import back, cross, full, plus, times_symmetric, transposed


@step
def about_origin(links, i):
    """Of M(k), eq. 2.15: mass, m p, and inertia about the body's origin."""
    m, x, y, z = links[i, 12], links[i, 13], links[i, 14], links[i, 15]
    I = inertia_tuple(links, i)  # noqa: E741
    A = (
        I[0] + m * (y * y + z * z), I[1] - m * x * y, I[2] - m * x * z,
        I[3] + m * (x * x + z * z), I[4] - m * y * z, I[5] + m * (x * x + y * y),
    )  # fmt: skip
    return m, (m * x, m * y, m * z), A


@jit
def bias_loads(qd, g, wrenches, kinds, links, X, loads):
    """M(k) ζ(k) + b(k) − w(k) into ``loads (n, 6)`` with ζ = φᵀ a: eqs. 5.8, 2.19, 2.23, 2.32.

    The base accelerates by −g (3.21), and the wrench w(k) on a body generalizes −B f(0).
    ``wrenches (n, 6)`` may be empty.
    """
    w = (0.0, 0.0, 0.0)
    zeta = (0.0, 0.0, 0.0)
    acceleration = (-g[0], -g[1], -g[2])
    at = 0
    for i in range(kinds.size):
        R = rotation_tuple(X, i)
        l = (X[i, 9], X[i, 10], X[i, 11])  # noqa: E741
        # φᵀ(k+1,k) ζ(k+1), and ω(k+1) × (ω(k+1) × ℓ(k+1,k))
        acceleration = plus(acceleration, plus(cross(zeta, l), cross(w, cross(w, l))))
        zeta, acceleration, w = (
            back(R, zeta),
            back(R, acceleration),
            back(R, w),
        )
        kind = kinds[i]
        if kind == 1:
            turned = cross(w, (0.0, 0.0, 2.0 * qd[at]))
            acceleration = plus(acceleration, turned)
            at += 1
        else:
            if kind == 0:
                turn = (0.0, 0.0, qd[at])
                at += 1
            else:
                if kind == 3:
                    # rates of a free base are in its own axes, which turn
                    acceleration = plus(
                        acceleration,
                        cross((qd[3], qd[4], qd[5]), (qd[0], qd[1], qd[2])),
                    )
                    at += 3
                turn = (qd[at], qd[at + 1], qd[at + 2])
                at += 3
            zeta = plus(zeta, cross(w, turn))
            w = plus(w, turn)
        m, _, A = about_origin(links, i)
        p = (links[i, 13], links[i, 14], links[i, 15])
        # M ζ + b with the mass centre's acceleration taken out: m (v̇ + ω̇ × p + ω × (ω × p))
        centre = plus(cross(zeta, p), cross(w, cross(w, p)))
        force = (
            m * (acceleration[0] + centre[0]),
            m * (acceleration[1] + centre[1]),
            m * (acceleration[2] + centre[2]),
        )
        moment = plus(times_symmetric(A, zeta), cross(w, times_symmetric(A, w)))
        lever = cross(p, acceleration)
        loads[i, 0] = moment[0] + m * lever[0]
        loads[i, 1] = moment[1] + m * lever[1]
        loads[i, 2] = moment[2] + m * lever[2]
        loads[i, 3], loads[i, 4], loads[i, 5] = force
        if wrenches.size:
            for j in range(6):
                loads[i, j] -= wrenches[i, (j + 3) % 6]


@step
def keep_block(D, at, k, block):
    """3×3 block of D(k) = H P Hᵀ (4.6), columns k to k + 2 of rows ``D[at : at + 3]``."""
    for i in range(3):
        for j in range(3):
            D[at + i, k + j] = block[3 * i + j]


@step
def keep(G, at, g, h):
    """[g; h] as row ``G[at]``."""
    for k in range(3):
        G[at, k], G[at, 3 + k] = g[k], h[k]


@step
def keep_ball(G, at, K):
    """G(k) = [1; Kᵀ] of a ball joint, K = A⁻¹ B."""
    for j in range(3):
        for k in range(3):
            G[at + j, k], G[at + j, 3 + k] = float(j == k), K[3 * j + k]


@jit
def filter_sweep(T, loads, kinds, links, X, G, D, nu):
    """The causal sweep, eqs. 4.4–4.6 and 4.13: P, D, G, ε(k) = T(k) − H(k) z(k), ν = D⁻¹ ε.

    z(k) = φ (z + G ε)(k−1) + loads(k).  ``loads (n, 6)`` may be empty, and ``T (nv,)`` too.
    The body whose pivot is lost, n for overflow, or -1.
    """
    block = np.empty((6, 6))
    scale = np.empty(6)
    n = kinds.size
    at = G.shape[0]
    A = C = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    B = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    A0, B0, C0 = A, B, C  # P before its joint is taken out: what the digits are counted against
    zn = zf = (0.0, 0.0, 0.0)
    for i in range(n - 1, -1, -1):
        kind = kinds[i]
        f = RATES[kind]
        for j in range(f):
            scale[j] = 0.0
        if i < n - 1:
            R = rotation_tuple(X, i + 1)
            l = (X[i + 1, 9], X[i + 1, 10], X[i + 1, 11])  # noqa: E741
            if kind == 0:
                scale[0] = felt(R, l, A0, B0, C0, (0.0, 0.0, 1.0), (0.0, 0.0, 0.0))
            elif kind == 1:
                scale[0] = felt(R, l, A0, B0, C0, (0.0, 0.0, 0.0), (0.0, 0.0, 1.0))
            else:
                for j in range(f):
                    e, v = axis(kind, j)
                    scale[j] = felt(R, l, A0, B0, C0, e, v)
            A, B, C = carried(R, l, A, B, C)
            zn, zf = inwards(X, i + 1, zn, zf)
        m, h, Am = about_origin(links, i)
        A, B, C = added(A, B, C, m, h, Am)
        if loads.size:
            zn = plus(zn, (loads[i, 0], loads[i, 1], loads[i, 2]))
            zf = plus(zf, (loads[i, 3], loads[i, 4], loads[i, 5]))
        A0, B0, C0 = A, B, C
        at -= f
        if kind < 2:
            d = A[5] if kind == 0 else C[5]
            D[at, 0] = d
            if not d > LOST_INVERSE * scale[0] or d == math.inf:
                return lost_pivot(i, n, D[at : at + 1], 1, scale)
            torque = T[at] if T.size else 0.0
            if kind == 0:
                (A, B, C, zn, zf), g, h, nu[at] = past_turn(A, B, C, zn, zf, torque)
            else:
                (A, B, C, zn, zf), g, h, nu[at] = past_slide(A, B, C, zn, zf, torque)
            keep(G, at, g, h)
        else:
            if kind == 2:
                keep_block(D, at, 0, full(A))
            else:
                keep_block(D, at, 0, full(C))
                keep_block(D, at, 3, transposed(B))
                keep_block(D, at + 3, 0, B)
                keep_block(D, at + 3, 3, full(A))
            for j in range(f):
                nu[at + j] = T[at + j] if T.size else 0.0
                for k in range(f):
                    block[j, k] = D[at + j, k]
            if not factor_block(block, f, scale, LOST_INVERSE):
                return lost_pivot(i, n, D[at : at + f], f, scale)
            if kind == 2:
                moment = (nu[at], nu[at + 1], nu[at + 2])
                C, zf, K, spin, _ = past_ball(A, B, C, zn, zf, moment)
                A = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
                B = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
                zn = moment
                keep_ball(G, at, K)
                nu[at], nu[at + 1], nu[at + 2] = spin
            else:
                for j in range(6):
                    nu[at + j] -= zf[j] if j < 3 else zn[j - 3]
                    for k in range(6):
                        G[at + j, k] = 1.0 if k == (3 + j) % 6 else 0.0
                solve_block(block, f, nu[at : at + f])
    return -1


@jit
def smoother_sweep(kinds, X, G, nu, out):
    """The anticausal sweep, eq. 4.22: θ̈(k) = ν(k) − Gᵀ y, λ(k) = y + Hᵀ θ̈ with y = φᵀ λ(k+1)."""
    yn = yf = (0.0, 0.0, 0.0)
    at = 0
    for i in range(kinds.size):
        yn, yf = outwards(X, i, yn, yf)
        kind = kinds[i]
        for j in range(RATES[kind]):
            out[at + j] = nu[at + j] - (
                (G[at + j, 0] * yn[0] + G[at + j, 1] * yn[1] + G[at + j, 2] * yn[2])
                + (G[at + j, 3] * yf[0] + G[at + j, 4] * yf[1] + G[at + j, 5] * yf[2])
            )
        if kind == 0:
            yn = (yn[0], yn[1], yn[2] + out[at])
            at += 1
        elif kind == 1:
            yf = (yf[0], yf[1], yf[2] + out[at])
            at += 1
        else:
            if kind == 3:
                yf = plus(yf, (out[at], out[at + 1], out[at + 2]))
                at += 3
            yn = plus(yn, (out[at], out[at + 1], out[at + 2]))
            at += 3


@jit
def forward_frames(q, qd, T, g, wrenches, kinds, links, biased, out):
    """FD3 (5.8–5.10) of every frame into ``out (frames, nv)``; FD1's (4.18) if not ``biased``.

    The first frame without an answer times (n + 1), plus the body whose pivot is lost or n where
    something else is not finite; or -1.
    """
    n = kinds.size
    nv = out.shape[1]
    X = np.empty((n, 12))
    loads = np.empty((n if biased else 0, 6))
    G = np.empty((nv, 6))
    D = np.empty((nv, 6))
    nu = np.empty(nv)
    none = np.empty((0, 6))
    for frame in range(q.shape[0]):
        # Joints do not feel all of them, but each must be a number.
        check = not_a_number(g) + not_a_number(q[frame]) + not_a_number(qd[frame])
        if wrenches.size:
            check += not_a_number(wrenches[frame].reshape(-1))
        if check != 0.0 or not place(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        if biased:
            pushes = wrenches[frame] if wrenches.size else none
            bias_loads(qd[frame], g, pushes, kinds, links, X, loads)
        body = filter_sweep(T[frame], loads, kinds, links, X, G, D, nu)
        if body >= 0:
            return frame * (n + 1) + body
        smoother_sweep(kinds, X, G, nu, out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@jit
def seen_from(X, i, Y, F, point):
    """Overwrite Y by φᵀ Y φ, from body i − 1 to body i, or to ``point`` of the last body."""
    for _ in range(2):
        for c in range(6):
            yn = (Y[0, c], Y[1, c], Y[2, c])
            yf = (Y[3, c], Y[4, c], Y[5, c])
            if i < X.shape[0]:
                yn, yf = outwards(X, i, yn, yf)
            else:
                yf = plus(yf, cross(yn, (point[0], point[1], point[2])))
            F[c, 0], F[c, 1], F[c, 2] = yn
            F[c, 3], F[c, 4], F[c, 5] = yf
        Y[:] = F


@jit
def tip_inertia_frames(q, point, kinds, links, out):
    """Λ⁻¹ = J M⁻¹ Jᵀ at ``point (3,)`` of the last body into ``out (frames, 6, 6)``, linear first.

    With J = Bᵀ φᵀ Hᵀ (3.13), eqs. 4.16 and 5.4 give Λ⁻¹ = Bᵀ ψᵀ Hᵀ D⁻¹ H ψ B = φᵀ(1,0) Υ(1) φ(1,0):

        Υ(k) = ψᵀ(k+1,k) Υ(k+1) ψ(k+1,k) + Hᵀ(k) D⁻¹(k) H(k),  Υ(N+1) = 0.

    Returns as `forward_frames` does.
    """
    n = kinds.size
    nv = 0
    for i in range(n):
        nv += RATES[kinds[i]]
    X = np.empty((n, 12))
    G = np.empty((nv, 6))
    D = np.empty((nv, 6))
    nu = np.empty(nv)
    none = np.empty(0)
    unloaded = np.empty((0, 6))
    Y = np.empty((6, 6))
    F = np.empty((6, 6))
    block = np.empty((6, 6))
    scale = np.zeros(6)
    for frame in range(q.shape[0]):
        if not_a_number(q[frame]) != 0.0 or not place(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        body = filter_sweep(none, unloaded, kinds, links, X, G, D, nu)
        if body >= 0:
            return frame * (n + 1) + body
        Y[:] = 0.0
        at = 0
        for i in range(n + 1):
            if i > 0:
                seen_from(X, i, Y, F, point)
            if i == n:
                break
            kind = kinds[i]
            f = RATES[kind]
            # (1 − G H)ᵀ Y (1 − G H), rows first: row e of a rate's element loses Gᵀ Y
            for _ in range(2):
                for j in range(f):
                    e = (FIRST[kind] + j) % 6
                    for c in range(6):
                        total = 0.0
                        for r in range(6):
                            total += G[at + j, r] * Y[r, c]
                        F[j, c] = total
                for j in range(f):
                    e = (FIRST[kind] + j) % 6
                    for c in range(6):
                        Y[e, c] -= F[j, c]
                for r in range(6):
                    for c in range(r):
                        Y[r, c], Y[c, r] = Y[c, r], Y[r, c]
            for j in range(f):
                for c in range(f):
                    block[j, c] = D[at + j, c]
            factor_block(block, f, scale, 0.0)
            for j in range(f):
                for c in range(f):
                    F[j, c] = 1.0 if c == j else 0.0
                solve_block(block, f, F[j])
            for j in range(f):
                for c in range(f):
                    Y[(FIRST[kind] + j) % 6, (FIRST[kind] + c) % 6] += 0.5 * (F[j, c] + F[c, j])
            at += f
        check = 0.0
        for r in range(6):
            for c in range(6):
                out[frame, r, c] = 0.5 * (Y[(r + 3) % 6, (c + 3) % 6] + Y[(c + 3) % 6, (r + 3) % 6])
                check += 0.0 * Y[r, c]
        if check != 0.0:
            return frame * (n + 1) + n
    return -1
