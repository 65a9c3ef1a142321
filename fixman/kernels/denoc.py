"""Saha's recursions for I = U D Uᵀ (saha_1996, eqs. 31–39) over serial chains, in body frames.

Twists are taken at mass centres.  M̂ is the triple (A, B, C) of `links`.  Per rate, ``psi[rate]`` is
a column of ψ_i = M̂_{i,i+1} p_i, ``psi_hat[rate]`` one of ψ̂_i = ψ_i m̂_i⁻¹, and ``m_hat[rate]`` a row
of the pivot m̂_i = p_iᵀ ψ_i, of which the first f_i elements count.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.links import (
    LOST_INVERSE,
    RATES,
    added,
    axis,
    carried,
    factor_block,
    felt,
    inertia_tuple,
    inwards,
    less,
    lost_pivot,
    not_a_number,
    outwards,
    place,
    rotation_tuple,
    solve_block,
)
from fixman.kernels.steps import step
from fixman.kernels.triples import back, cross, dot, plus, times, times_symmetric


@jit
def place_centres(q, kinds, links, X):
    """`links.place`, then from mass centre to mass centre: R and −c_{i,i−1} of eq. 4."""
    if not place(q, kinds, links, X):
        return False
    for i in range(kinds.size):
        d = times(rotation_tuple(X, i), (links[i, 13], links[i, 14], links[i, 15]))
        for j in range(3):
            X[i, 9 + j] += d[j]
            if i > 0:
                X[i, 9 + j] -= links[i - 1, 13 + j]
    return True


@jit
def joint_rate(kind, j, links, i):
    """Column j of p_i, eq. 4: [e; e × d_i] of a turning, [0; e] of a sliding motion."""
    e, v = axis(kind, j)
    return e, plus(v, cross(e, (links[i, 13], links[i, 14], links[i, 15])))


@step
def column(a, at):
    """The two halves of row ``a[at]``."""
    return (a[at, 0], a[at, 1], a[at, 2]), (a[at, 3], a[at, 4], a[at, 5])


@jit
def decompose(kinds, links, X, psi, psi_hat, m_hat):
    """Eqs. 32, 33 and 35, tip to base.  The body whose pivot is lost, n for overflow, or -1."""
    n = kinds.size
    block = np.empty((6, 6))
    scale = np.empty(6)
    at = psi.shape[0]
    A = C = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    B = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    A0, B0, C0 = A, B, C  # M̂ before its joint is taken out: what the digits are counted against
    for i in range(n - 1, -1, -1):
        # M̂_{i,i+1} = M_i + B_{i+1,i}ᵀ M̂_{i+1,i+1} B_{i+1,i}
        kind = kinds[i]
        f = RATES[kind]
        at -= f
        if i < n - 1:
            R = rotation_tuple(X, i + 1)
            s = (X[i + 1, 9], X[i + 1, 10], X[i + 1, 11])
            for j in range(f):
                e, v = joint_rate(kind, j, links, i)
                scale[j] = felt(R, s, A0, B0, C0, e, v)
            A, B, C = carried(R, s, A, B, C)
        else:
            for j in range(f):
                scale[j] = 0.0
        A, B, C = added(A, B, C, links[i, 12], (0.0, 0.0, 0.0), inertia_tuple(links, i))
        for j in range(f):
            e, v = joint_rate(kind, j, links, i)
            x = plus(times_symmetric(A, e), times(B, v))
            y = plus(back(B, e), times_symmetric(C, v))
            psi[at + j, 0], psi[at + j, 1], psi[at + j, 2] = x
            psi[at + j, 3], psi[at + j, 4], psi[at + j, 5] = y
            for k in range(j + 1):
                e, v = joint_rate(kind, k, links, i)
                m_hat[at + j, k] = dot(e, x) + dot(v, y)
                m_hat[at + k, j] = m_hat[at + j, k]
        if f == 1:
            d = m_hat[at, 0]
            if not d > LOST_INVERSE * scale[0] or d == math.inf:
                return lost_pivot(i, n, m_hat[at : at + 1], 1, scale)
            r = 1.0 / d
            for j in range(6):
                psi_hat[at, j] = psi[at, j] * r
        else:
            for j in range(f):
                for k in range(f):
                    block[j, k] = m_hat[at + j, k]
            if not factor_block(block, f, scale, LOST_INVERSE):
                return lost_pivot(i, n, m_hat[at : at + f], f, scale)
            for row in range(6):
                for j in range(f):
                    scale[j] = psi[at + j, row]
                solve_block(block, f, scale)
                for j in range(f):
                    psi_hat[at + j, row] = scale[j]
        A0, B0, C0 = A, B, C
        # M̂_ii = M̂_{i,i+1} − ψ̂_i ψ_iᵀ
        for j in range(f):
            g, h = column(psi_hat, at + j)
            x, y = column(psi, at + j)
            A, B, C = less(A, B, C, g, h, x, y)
    return -1


@jit
def solve(tau, kinds, links, X, psi_hat, m_hat, out):
    """Eqs. 36–39: U τ̂ = τ, D τ̃ = τ̂, Uᵀ θ̈ = τ̃ into ``out (nv,)``."""
    n = kinds.size
    block = np.empty((6, 6))
    scale = np.zeros(6)
    at = out.size
    eta_n = eta_f = (0.0, 0.0, 0.0)
    for i in range(n - 1, -1, -1):
        if i < n - 1:
            eta_n, eta_f = inwards(X, i + 1, eta_n, eta_f)
        kind = kinds[i]
        f = RATES[kind]
        at -= f
        for j in range(f):
            e, v = joint_rate(kind, j, links, i)
            out[at + j] = tau[at + j] - (dot(e, eta_n) + dot(v, eta_f))
        for j in range(f):
            g, h = column(psi_hat, at + j)
            t = out[at + j]
            eta_n = (eta_n[0] + g[0] * t, eta_n[1] + g[1] * t, eta_n[2] + g[2] * t)
            eta_f = (eta_f[0] + h[0] * t, eta_f[1] + h[1] * t, eta_f[2] + h[2] * t)
        if f == 1:
            out[at] /= m_hat[at, 0]
        else:
            for j in range(f):
                for k in range(f):
                    block[j, k] = m_hat[at + j, k]
            factor_block(block, f, scale, 0.0)
            solve_block(block, f, out[at : at + f])
    mu_w = mu_v = (0.0, 0.0, 0.0)
    at = 0
    for i in range(n):
        if i > 0:
            mu_w, mu_v = outwards(X, i, mu_w, mu_v)
        kind = kinds[i]
        f = RATES[kind]
        for j in range(f):
            g, h = column(psi_hat, at + j)
            out[at + j] -= dot(g, mu_w) + dot(h, mu_v)
        for j in range(f):
            e, v = joint_rate(kind, j, links, i)
            t = out[at + j]
            mu_w = (mu_w[0] + e[0] * t, mu_w[1] + e[1] * t, mu_w[2] + e[2] * t)
            mu_v = (mu_v[0] + v[0] * t, mu_v[1] + v[1] * t, mu_v[2] + v[2] * t)
        at += f


@jit
def forward_frames(q, tau, kinds, links, out):
    """I θ̈ = τ of every frame into ``out (frames, nv)``.

    The first frame without an answer times (n + 1), plus the body whose pivot is lost or n where
    something else is not finite; or -1.
    """
    n = kinds.size
    nv = out.shape[1]
    X = np.empty((n, 12))
    psi = np.empty((nv, 6))
    psi_hat = np.empty((nv, 6))
    m_hat = np.empty((nv, 6))
    for frame in range(q.shape[0]):
        if not place_centres(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        body = decompose(kinds, links, X, psi, psi_hat, m_hat)
        if body >= 0:
            return frame * (n + 1) + body
        solve(tau[frame], kinds, links, X, psi_hat, m_hat, out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@jit
def factor_frames(q, kinds, links, X, psi_hat, m_hat):
    """``X (frames, n, 12)``, ``psi_hat`` and ``m_hat (frames, nv, 6)``; returns as above."""
    n = kinds.size
    psi = np.empty(psi_hat.shape[1:])
    for frame in range(q.shape[0]):
        # The inertia matrix does not depend on the first joint's coordinate.
        if not_a_number(q[frame]) != 0.0 or not place_centres(q[frame], kinds, links, X[frame]):
            return frame * (n + 1) + n
        body = decompose(kinds, links, X[frame], psi, psi_hat[frame], m_hat[frame])
        if body >= 0:
            return frame * (n + 1) + body
    return -1


@jit
def upper_frames(kinds, links, X, psi_hat, U):
    """α_ik = p_iᵀ B_kiᵀ ψ̂_k (eq. 31) into ``U (frames, nv, nv)``, which starts as identities."""
    n = kinds.size
    for frame in range(U.shape[0]):
        first = 0
        for k in range(n):
            for c in range(first, first + RATES[kinds[k]]):
                x, y = column(psi_hat[frame], c)
                at = first
                for i in range(k - 1, -1, -1):
                    x, y = inwards(X[frame], i + 1, x, y)
                    at -= RATES[kinds[i]]
                    for j in range(RATES[kinds[i]]):
                        e, v = joint_rate(kinds[i], j, links, i)
                        U[frame, at + j, c] = dot(e, x) + dot(v, y)
            first += RATES[kinds[k]]


@jit
def logdet_frames(kinds, m_hat, out):
    """Σ ln det m̂_i of every frame into ``out (frames,)``."""
    block = np.empty((6, 6))
    scale = np.zeros(6)
    for frame in range(out.size):
        at = 0
        out[frame] = 0.0
        for i in range(kinds.size):
            f = RATES[kinds[i]]
            for j in range(f):
                for k in range(f):
                    block[j, k] = m_hat[frame, at + j, k]
            factor_block(block, f, scale, 0.0)
            for j in range(f):
                out[frame] += math.log(block[j, j])
            at += f
