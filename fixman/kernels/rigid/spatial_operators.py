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
from fixman.kernels.algebra.triples import entries, full, put_entries, transposed
from fixman.kernels.algebra.vectors import inner, plus
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.links import (
    ARMATURE,
    FIRST,
    LOST_INVERSE,
    NOTHING,
    RATES,
    added,
    axis,
    carried,
    factor_block,
    felt,
    held_turn,
    inertia_tuple,
    inwards,
    joint_twist,
    lost_pivot,
    mirrored,
    not_a_number,
    outwards,
    past_ball,
    past_geared_ball,
    past_turn,
    place,
    rotation_tuple,
    solve_block,
)
from fixman.kernels.rigid.newton_euler import loosen

UNIT = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)


@step
def about_origin(links, i):
    """Of M(k), eq. 2.15: mass, m p, and inertia about the body's origin."""
    m, (x, y, z) = links[i, 12], entries(links, i, 13)
    I = inertia_tuple(links, i)  # noqa: E741
    A = (
        I[0] + m * (y * y + z * z), I[1] - m * x * y, I[2] - m * x * z,
        I[3] + m * (x * x + z * z), I[4] - m * y * z, I[5] + m * (x * x + y * y),
    )  # fmt: skip
    return m, (m * x, m * y, m * z), A


@step
def keep_block(D, at, k, block):
    """3×3 block of D(k) = H P Hᵀ + J (4.6), columns k to k + 2 of rows ``D[at : at + 3]``."""
    for i in range(3):
        put_entries(D, at + i, k, block[3 * i : 3 * i + 3])


@step
def keep_ball(G, at, W, K):
    """G(k) = [Wᵀ; Kᵀ] of a ball joint: of D⁻¹ A, which is 1 without armature, and D⁻¹ B."""
    keep_block(G, at, 0, W)
    keep_block(G, at, 3, K)


@step
def rotors(links, i):
    """Armature of a ball joint."""
    x, y, z = entries(links, i, ARMATURE)
    return x, 0.0, 0.0, y, 0.0, z


@jit
def filter_sweep(T, loads, kinds, links, X, G, D, nu, left):
    """The causal sweep, eqs. 4.4–4.6 and 4.13: P, D, G, ε(k) = T(k) − H(k) z(k), ν = D⁻¹ ε.

    z(k) = φ (z + G ε)(k−1) + loads(k), force first.  ``loads (n, 6)`` may be empty, and ``T (nv,)``
    too.  ``left (n, 21)``, unless empty, takes what (1 − G H) P leaves of every body's P but the
    first one's.
    The body whose pivot is lost, n for overflow, or -1.
    """
    block = np.empty((6, 6))
    scale = np.empty(6)
    n = kinds.size
    at = G.shape[0]
    A, B, C = NOTHING
    A0, B0, C0 = NOTHING  # P before its joint is taken out: what the digits are counted against
    zn = zf = (0.0, 0.0, 0.0)
    check = 0.0
    for i in range(n - 1, -1, -1):
        kind = kinds[i]
        f = RATES[kind]
        at -= f
        after = min(i + 1, n - 1)  # (nothing hangs on the last body)
        e, v = axis(kind, 0)
        scale[0] = felt(A0, B0, C0, outwards(X, after, e, v))
        for j in range(1, f):  # (apart, for the sake of speed)
            e, v = axis(kind, j)
            scale[j] = felt(A0, B0, C0, outwards(X, after, e, v))
        if left.size:
            put_entries(left, after, 0, A)
            put_entries(left, after, 6, B)
            put_entries(left, after, 15, C)
        A, B, C = carried(rotation_tuple(X, after), entries(X, after, 9), A, B, C)
        zn, zf = inwards(X, after, zn, zf)
        m, h, about = about_origin(links, i)
        A, B, C = A0, B0, C0 = added(A, B, C, m, h, about)
        if loads.size:
            n_k, f_k = entries(loads, i, 3), entries(loads, i, 0)
            zn, zf = plus(zn, n_k), plus(zf, f_k)
            # A joint does not feel all of it, but each must be a number.
            check += 0.0 * (n_k[0] + n_k[1] + n_k[2] + f_k[0] + f_k[1] + f_k[2])
        if kind < 2:
            J = links[i, ARMATURE]
            d = (A[5] if kind == 0 else C[5]) + J
            D[at, 0] = d
            if not d > LOST_INVERSE * scale[0] or d == math.inf:
                return lost_pivot(i, n, D, at, 1, scale)
            torque = T[at] if T.size else 0.0
            body = A, B, C, zn, zf
            if kind == 1:
                body = mirrored(A, B, C, zn, zf)
            moved, g, h, nu[at] = past_turn(*body, torque, d)
            moved, _, share = held_turn(body, moved, torque, J, d)
            g = (g[0], g[1], share)
            if kind == 1:
                moved, g, h = mirrored(*moved), h, g
            A, B, C, zn, zf = moved
            put_entries(G, at, 0, g)
            put_entries(G, at, 3, h)
            continue
        if kind == 2:
            keep_block(D, at, 0, full(A))
        else:
            keep_block(D, at, 0, full(C))
            keep_block(D, at, 3, transposed(B))
            keep_block(D, at + 3, 0, B)
            keep_block(D, at + 3, 3, full(A))
        geared = False
        for j in range(f):
            nu[at + j] = T[at + j] if T.size else 0.0
            D[at + j, j] += links[i, ARMATURE + j]
            geared = geared or links[i, ARMATURE + j] > 0.0
        if not factor_block(D, at, f, scale, LOST_INVERSE, block):
            return lost_pivot(i, n, D, at, f, scale)
        if kind == 2:
            moment = (nu[at], nu[at + 1], nu[at + 2])
            if geared:
                moved, W, K, spin = past_geared_ball(A, B, C, zn, zf, moment, rotors(links, i))
                A, B, C, zn, zf = moved
                keep_ball(G, at, W, K)
            else:
                C, zf, K, spin, _ = past_ball(A, B, C, zn, zf, moment)
                A, B = NOTHING[:2]
                zn = moment
                keep_ball(G, at, UNIT, K)
            nu[at], nu[at + 1], nu[at + 2] = spin
        else:
            for j in range(6):
                nu[at + j] -= zf[j] if j < 3 else zn[j - 3]
                for k in range(6):
                    G[at + j, k] = 1.0 if k == (3 + j) % 6 else 0.0
            solve_block(block, f, nu[at : at + f])
    return -1 if check == 0.0 else n


@jit
def smoother_sweep(kinds, X, G, nu, out):
    """The anticausal sweep, eq. 4.22: θ̈(k) = ν(k) − Gᵀ y, λ(k) = y + Hᵀ θ̈ with y = φᵀ λ(k+1)."""
    yn = yf = (0.0, 0.0, 0.0)
    at = 0
    for i in range(kinds.size):
        yn, yf = outwards(X, i, yn, yf)
        for j in range(at, at + RATES[kinds[i]]):
            out[j] = nu[j] - (inner(entries(G, j, 0), yn) + inner(entries(G, j, 3), yf))
        turn, slide = joint_twist(kinds[i], out, at)
        yn, yf = plus(yn, turn), plus(yf, slide)
        at += RATES[kinds[i]]


@jit
def forward_frames(q, T, bias, kinds, links, out):
    """FD3 (5.8–5.10) of every frame into ``out (frames, nv)``; FD1's (4.18) if ``bias`` is None.

    ``bias``: q̇, the gravity and the wrenches w(k) on bodies, which generalize −B f(0).  The first
    frame without an answer times (n + 1), plus the body whose pivot is lost or n where something
    else is not finite; or -1.
    """
    n = kinds.size
    nv = out.shape[1]
    X = np.empty((n, 12))
    loads = np.empty((0 if bias is None else n, 6))
    G, D, nu = np.empty((nv, 6)), np.empty((nv, 6)), np.empty(nv)
    nothing = np.empty((0, 21))
    nothing = np.empty((0, 21))
    for frame in range(q.shape[0]):
        if not place(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        if bias is not None:
            # M(k) ζ(k) + b(k) − w(k) with ζ = φᵀ a: eqs. 5.8, 2.19, 2.23, 2.32, 3.21
            qd, g, W = bias
            w = W[frame * n : (frame + 1) * n]
            loosen(qd[frame], None, g, w, kinds, links, X, loads)
        body = filter_sweep(T[frame], loads, kinds, links, X, G, D, nu, nothing)
        if body >= 0:
            return frame * (n + 1) + body
        smoother_sweep(kinds, X, G, nu, out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@step
def put_twist(Y, r, c, a, b):
    for k in range(3):
        Y[r + k, c] = a[k]
        Y[r + 3 + k, c] = b[k]


@jit
def transpose(Y, size):
    for r in range(size):
        for c in range(r):
            Y[r, c], Y[c, r] = Y[c, r], Y[r, c]


@jit
def seen_from(X, i, Y):
    """Overwrite Y by φᵀ Y φ, from body i − 1 to body i."""
    for _ in range(2):
        for c in range(6):
            ω, v = outwards(X, i, (Y[0, c], Y[1, c], Y[2, c]), (Y[3, c], Y[4, c], Y[5, c]))
            put_twist(Y, 0, c, ω, v)
        transpose(Y, 6)


@jit
def freed(kind, at, G, Y, F):
    """Overwrite Y by (1 − G H)ᵀ Y (1 − G H), rows first: row e of a rate's element loses Gᵀ Y."""
    f = RATES[kind]
    for _ in range(2):
        for j in range(f):
            for c in range(6):
                total = 0.0
                for r in range(6):
                    total += G[at + j, r] * Y[r, c]
                F[j, c] = total
        for j in range(f):
            e = (FIRST[kind] + j) % 6
            for c in range(6):
                Y[e, c] -= F[j, c]
        transpose(Y, 6)
