"""Sweeps of Rodriguez and Kreutz (1988) over serial chains, in body frames.

Bodies are numbered base to tip here, i = N − k; the report's "causal" sweeps run i = n − 1 … 0.
P(k) is the triple (A, B, C) of `links`.  A joint of several rates is as many of one rate in a row,
the first one next to the body, with nothing between them: per rate, ``G[rate]`` is G = P Hᵀ D⁻¹
(5.12) and ``D[rate]`` the number D = H P Hᵀ + J, of the P that the rates before have left.

L(k) = φ(k+1,k) G(k) (a.12) is never formed: what it multiplies is carried inwards together with
the rest, e.g. ψ z + L T = φ (z + G (T − H z)).
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import entries, put_entries
from fixman.kernels.algebra.vectors import fused_dot, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import links as link
from fixman.kernels.rigid.joints import AXES, RATES, axis
from fixman.kernels.rigid.newton_euler import loosen

STILL = (0.0, 0.0, 0.0)


@step
def about_origin(links, i):
    """M(k), eq. 2.15: mass, m p, and inertia about the body's origin."""
    m, (x, y, z) = links[i, 12], entries(links, i, 13)
    I = link.inertia_tuple(links, i)  # noqa: E741
    A = (
        I[0] + m * (y * y + z * z), I[1] - m * x * y, I[2] - m * x * z,
        I[3] + m * (x * x + z * z), I[4] - m * y * z, I[5] + m * (x * x + y * y),
    )  # fmt: skip
    return m, (m * x, m * y, m * z), A


@step
def moved_back(X, i, P):
    """φ P φᵀ and φ z."""
    A, B, C = link.carried(link.rotation_tuple(X, i), entries(X, i, 9), P.A, P.B, P.C)
    return link.Articulated(A, B, C, *link.inwards(X, i, P.n, P.f))


@step
def with_link(P, links, i):
    """P and z with M(k)."""
    A, B, C = link.added(P.A, P.B, P.C, *about_origin(links, i))
    return link.Articulated(A, B, C, P.n, P.f)


@step
def with_load(P, loads, i):
    n, f = entries(loads, i, 3), entries(loads, i, 0)
    # A joint does not feel all of it, but each must be a number.
    check = 0.0 * (n[0] + n[1] + n[2] + f[0] + f[1] + f[2])
    return link.Articulated(P.A, P.B, P.C, plus(P.n, n), plus(P.f, f)), check


@jit
def freedom(kind, j, at, G, D, x):
    """(D⁻¹)_jj of the block of a joint, of which the pivots do not say all.

    ``x (6,)`` is room for column j of L⁻¹.
    """
    x[j], total = 1.0, 1.0 / D[at + j]
    for k in range(j + 1, RATES[kind]):
        x[k] = 0.0
        for i in range(j, k):
            x[k] -= G[at + i, AXES[kind, k]] * x[i]
        total += x[k] * x[k] / D[at + k]
    return total


@jit
def filter_sweep(T, loads, kinds, links, X, G, D, nu, left):
    """The causal sweep, eqs. 4.4–4.6 and 4.13: P, D, G, ε(k) = T(k) − H(k) z(k), ν = D⁻¹ ε.

    z(k) = φ (z + G ε)(k−1) + loads(k), force first.  ``loads (n, 6)`` may be empty, and ``T (nv,)``
    too.  ``left (n, 21)``, unless empty, takes what (1 − G H) P leaves of every body's P but the
    first one's.
    The body whose pivot is lost, n for overflow, or -1.
    """
    scale, column = np.empty(6), np.empty(6)
    n = kinds.size
    at = D.size
    P = link.Articulated(*link.NOTHING, STILL, STILL)
    before = link.NOTHING  # P before its joint is taken out: what the digits are counted against
    check = 0.0
    for i in range(n - 1, -1, -1):
        kind, pitch = kinds[i], links[i, link.PITCH]
        f = RATES[kind]
        at -= f
        after = min(i + 1, n - 1)  # (nothing hangs on the last body)
        for j in range(f):
            e, v = axis(kind, pitch, j)
            scale[j] = link.felt(*before, link.outwards(X, after, e, v))
        if left.size:
            put_entries(left, after, 0, P.A)
            put_entries(left, after, 6, P.B)
            put_entries(left, after, 15, P.C)
        P = with_link(moved_back(X, after, P), links, i)
        before = P.A, P.B, P.C
        if loads.size:
            P, found = with_load(P, loads, i)
            check += found
        for j in range(f):
            torque = T[at + j] if T.size else 0.0
            P, rate = link.free_rate(kind, pitch, j, P, torque, links[i, link.ARMATURE + j])
            if not 0.0 < rate.D < math.inf:
                return i if 0.0 * (rate.D + scale[j]) == 0.0 else n
            put_entries(G, at + j, 0, rate.g)
            put_entries(G, at + j, 3, rate.h)
            D[at + j], nu[at + j] = rate.D, rate.u
        for j in range(f):
            whole = D[at + j]
            for k in range(j):
                whole += G[at + k, AXES[kind, j]] ** 2 * D[at + k]
            alone = freedom(kind, j, at, G, D, column)
            if not link.LOST_INVERSE * max(whole, scale[j]) * alone < 1.0:
                return i if 0.0 * scale[j] == 0.0 else n
    return -1 if check == 0.0 else n


@step
def along_axis(y, e, v, x):
    """y + Hᵀ x."""
    return plus(y[0], scaled(x, e)), plus(y[1], scaled(x, v))


@jit
def smoother_sweep(kinds, links, X, G, nu, out):
    """The anticausal sweep, eq. 4.22: θ̈(k) = ν(k) − Gᵀ y, λ(k) = y + Hᵀ θ̈ with y = φᵀ λ(k+1)."""
    y = STILL, STILL
    at = 0
    for i in range(kinds.size):
        y = link.outwards(X, i, y[0], y[1])
        for j in range(RATES[kinds[i]] - 1, -1, -1):
            k = at + j
            out[k] = nu[k] - (fused_dot(entries(G, k, 0), y[0]) + fused_dot(entries(G, k, 3), y[1]))
            e, v = axis(kinds[i], links[i, link.PITCH], j)
            y = along_axis(y, e, v, out[k])
        at += RATES[kinds[i]]


@jit
def forward_frames(kinds, links, q, T, bias, out):
    """FD3 (5.8–5.10) of every frame into ``out (frames, nv)``; FD1's (4.18) if ``bias`` is None.

    ``bias``: q̇, the gravity and the wrenches w(k) on bodies, which generalize −B f(0).  The first
    frame without an answer times (n + 1), plus the body whose pivot is lost or n where something
    else is not finite; or -1.
    """
    n = kinds.size
    nv = out.shape[1]
    X = np.empty((n, 12))
    loads = np.empty((0 if bias is None else n, 6))
    G, D, nu = np.empty((nv, 6)), np.empty(nv), np.empty(nv)
    nothing = np.empty((0, 21))
    for frame in range(q.shape[0]):
        if not link.place(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        if bias is not None:
            # M(k) ζ(k) + b(k) − w(k) with ζ = φᵀ a: eqs. 5.8, 2.19, 2.23, 2.32, 3.21
            qd, g, W = bias
            w = W[frame * n : (frame + 1) * n]
            loosen(qd[frame], None, g, w, kinds, links, X, loads)
        body = filter_sweep(T[frame], loads, kinds, links, X, G, D, nu, nothing)
        if body >= 0:
            return frame * (n + 1) + body
        smoother_sweep(kinds, links, X, G, nu, out[frame])
        if link.not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


# --- Ω, eq. 5.4 -----------------------------------------------------------------------------------


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
def carry_columns(X, i, Y, columns):
    """Overwrite columns [ω; v] of ``Y (6, …)`` by φᵀ times them, from body i − 1 to body i."""
    for c in range(columns):
        ω, v = link.outwards(X, i, (Y[0, c], Y[1, c], Y[2, c]), (Y[3, c], Y[4, c], Y[5, c]))
        put_twist(Y, 0, c, ω, v)


@jit
def seen_from(X, i, Y, columns):
    """Overwrite Y by φᵀ Y φ, from body i − 1 to body i; columns beyond six by φᵀ times them."""
    carry_columns(X, i, Y, columns)
    transpose(Y, 6)
    carry_columns(X, i, Y, 6)
    transpose(Y, 6)


@jit
def let_go(e, v, G, at, Y, columns):
    """Overwrite columns of Y by (1 − G H)ᵀ times them, of one rate, whose Hᵀ is [e; v]."""
    for c in range(columns):
        x = 0.0
        for r in range(6):
            x += G[at, r] * Y[r, c]
        for r in range(3):
            Y[r, c] -= e[r] * x
            Y[3 + r, c] -= v[r] * x


@jit
def move_freely(kind, pitch, at, G, D, Y, columns):
    """Overwrite Y by (1 − G H)ᵀ Y (1 − G H) + Hᵀ D⁻¹ H, rate by rate; further columns as above."""
    for j in range(RATES[kind] - 1, -1, -1):
        e, v = axis(kind, pitch, j)
        let_go(e, v, G, at + j, Y, columns)
        transpose(Y, 6)
        let_go(e, v, G, at + j, Y, 6)
        transpose(Y, 6)
        twist = (*e, *v)
        for r in range(6):
            for c in range(6):
                Y[r, c] += twist[r] * twist[c] / D[at + j]
