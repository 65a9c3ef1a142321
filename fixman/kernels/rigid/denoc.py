"""Saha's recursions for I = U D Uᵀ (saha_1996, eqs. 31–39) over serial chains, in body frames.

Twists are taken at mass centres.  M̂ is the triple (A, B, C) of `links`.  Per rate, ``psi[rate]`` is
a column of ψ_i = M̂_{i,i+1} p_i, ``psi_hat[rate]`` one of ψ̂_i = ψ_i m̂_i⁻¹, and ``m_hat[rate]`` a row
of the pivot m̂_i = p_iᵀ ψ_i + J_i, of which the first f_i elements count.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import back, entries, put_entries, times, times_symmetric
from fixman.kernels.algebra.vectors import along, inner, minus, outer, plus
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import RATES, axis
from fixman.kernels.rigid.links import (
    ARMATURE,
    LOST_INVERSE,
    NOTHING,
    PITCH,
    added,
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


@jit
def place_centres(q, kinds, links, X):
    """`links.place`, then from mass centre to mass centre: R and −c_{i,i−1} of eq. 4."""
    if not place(q, kinds, links, X):
        return False
    for i in range(kinds.size):
        moved = plus(entries(X, i, 9), times(rotation_tuple(X, i), entries(links, i, 13)))
        put_entries(X, i, 9, minus(moved, entries(links, i - 1, 13)) if i > 0 else moved)
    return True


@jit
def joint_rate(kind, j, links, i):
    """Column j of p_i, eq. 4: [e; e × d_i] of a turning, [0; e] of a sliding motion."""
    e, v = axis(kind, links[i, PITCH], j)
    return e, plus(v, outer(e, entries(links, i, 13)))


@step
def column(a, at):
    """The two halves of row ``a[at]``."""
    return entries(a, at, 0), entries(a, at, 3)


@jit
def decompose(kinds, links, X, psi, psi_hat, m_hat):
    """Eqs. 32, 33 and 35, tip to base.  The body whose pivot is lost, n for overflow, or -1."""
    n = kinds.size
    block = np.empty((6, 6))
    scale = np.empty(6)
    at = psi.shape[0]
    A, B, C = NOTHING
    A0, B0, C0 = NOTHING  # M̂ before its joint is taken out: what the digits are counted against
    for i in range(n - 1, -1, -1):
        # M̂_{i,i+1} = M_i + B_{i+1,i}ᵀ M̂_{i+1,i+1} B_{i+1,i}
        kind = kinds[i]
        f = RATES[kind]
        at -= f
        after = min(i + 1, n - 1)  # (nothing hangs on the last body)
        for j in range(f):
            e, v = joint_rate(kind, j, links, i)
            scale[j] = felt(A0, B0, C0, outwards(X, after, e, v))
        A, B, C = carried(rotation_tuple(X, after), entries(X, after, 9), A, B, C)
        A, B, C = added(A, B, C, links[i, 12], (0.0, 0.0, 0.0), inertia_tuple(links, i))
        for j in range(f):
            e, v = joint_rate(kind, j, links, i)
            x = plus(times_symmetric(A, e), times(B, v))
            y = plus(back(B, e), times_symmetric(C, v))
            put_entries(psi, at + j, 0, x)
            put_entries(psi, at + j, 3, y)
            for k in range(j + 1):
                e, v = joint_rate(kind, k, links, i)
                m_hat[at + j, k] = inner(e, x) + inner(v, y)
                m_hat[at + k, j] = m_hat[at + j, k]
            m_hat[at + j, j] += links[i, ARMATURE + j]
        if f == 1:
            d = m_hat[at, 0]
            if not d > LOST_INVERSE * scale[0] or d == math.inf:
                return lost_pivot(i, n, m_hat, at, 1, scale)
            r = 1.0 / d
            for j in range(6):
                psi_hat[at, j] = psi[at, j] * r
        else:
            if not factor_block(m_hat, at, f, scale, LOST_INVERSE, block):
                return lost_pivot(i, n, m_hat, at, f, scale)
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
            out[at + j] = tau[at + j] - (inner(e, eta_n) + inner(v, eta_f))
        for j in range(f):
            g, h = column(psi_hat, at + j)
            eta_n, eta_f = along(out[at + j], g, eta_n), along(out[at + j], h, eta_f)
        if f == 1:
            out[at] /= m_hat[at, 0]
        else:
            factor_block(m_hat, at, f, scale, 0.0, block)
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
            out[at + j] -= inner(g, mu_w) + inner(h, mu_v)
        for j in range(f):
            e, v = joint_rate(kind, j, links, i)
            mu_w, mu_v = along(out[at + j], e, mu_w), along(out[at + j], v, mu_v)
        at += f


@jit
def factor_frames(q, tau, kinds, links, X, psi_hat, m_hat, out):
    """Factors of every frame, and I θ̈ = τ into ``out (frames, nv)`` unless ``tau`` is empty.

    ``X (frames, n, 12)``, ``psi_hat`` and ``m_hat (frames, nv, 6)``, or room for one frame's.
    The first frame without an answer times (n + 1), plus the body whose pivot is lost or n where
    something else is not finite; or -1.
    """
    n = kinds.size
    psi = np.empty(psi_hat.shape[1:])
    for frame in range(q.shape[0]):
        k = frame if X.shape[0] > 1 else 0
        # The inertia matrix does not depend on the first joint's coordinate.
        if not_a_number(q[frame]) != 0.0 or not place_centres(q[frame], kinds, links, X[k]):
            return frame * (n + 1) + n
        body = decompose(kinds, links, X[k], psi, psi_hat[k], m_hat[k])
        if body >= 0:
            return frame * (n + 1) + body
        if tau.size:
            solve(tau[frame], kinds, links, X[k], psi_hat[k], m_hat[k], out[frame])
            if not_a_number(out[frame]) != 0.0:
                return frame * (n + 1) + n
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
                        U[frame, at + j, c] = inner(e, x) + inner(v, y)
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
            factor_block(m_hat[frame], at, f, scale, 0.0, block)
            for j in range(f):
                out[frame] += math.log(block[j, j])
            at += f
