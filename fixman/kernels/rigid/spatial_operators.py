"""Sweeps of Rodriguez and Kreutz (1988) over serial chains, in body frames.

Bodies are numbered base to tip here, i = N − k; the report's "causal" sweeps run i = n − 1 … 0.
P(k) and z(k) are I^A and p^A of `articulated_inertia`.  A joint of several rates is as many of one
rate, joined by massless links of no length, the first rate next to the body: per rate, ``G[rate]``
is G = P Hᵀ D⁻¹ (5.12), ``D[rate]`` D = H P Hᵀ + J (4.6), of the P that the rates before left.

L(k) = φ(k+1,k) G(k) (a.12) is never formed: what it multiplies is carried inwards together with
the rest, e.g. ψ z + L T = φ (z + G (T − H z)).

Kernels return −1, or the first frame without an answer times (n + 1), plus the body whose pivot is
lost, or n where something is not finite.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import jit, plain
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.triples import entries, entries9, put_entries
from fixman.kernels.algebra.vectors import fused_dot, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import articulated_inertia as inertia
from fixman.kernels.rigid import links as link
from fixman.kernels.rigid.joints import RATES, ZERO, axis, not_a_number
from fixman.kernels.rigid.newton_euler import own_wrenches


class Room(NamedTuple):
    """Memory for one configuration."""

    X: Any  # (n, 12), as `links.transforms` has them
    loads: Any  # (n, 6), force before moment, or empty
    still: Any  # (nv,) zeros
    G: Any  # (nv, 6)
    D: Any  # (nv,)
    ν: Any  # (nv,)
    sizes: Any  # (6,) of the numbers that the pivots of a joint are differences of
    P_plus: Any  # (n, 21): (1 − G H) P of every body but the first; or empty


@jit
def room_for(n, nv, loaded, kept):
    """Room, with that for ``loaded`` · n wrenches on bodies and ``kept`` · n inertias."""
    return Room(
        np.empty((n, 12)), np.empty((loaded * n, 6)), np.zeros(nv), np.empty((nv, 6)),
        np.empty(nv), np.empty(nv), np.empty(6), np.zeros((kept * n, 21)),
    )  # fmt: skip


@step
def propagated(P, X, after, links, i):
    """φ P φᵀ + M(k) and φ z; M(k), eq. 2.15, has m, m p and the inertia A about the origin."""
    m, (x, y, z) = links[i, link.MASS], entries(links, i, 13)
    I = mat.upper(entries9(links, i, 16))  # noqa: E741
    A = (
        I[0] + m * (y * y + z * z), I[1] - m * x * y, I[2] - m * x * z,
        I[3] + m * (x * x + z * z), I[4] - m * y * z, I[5] + m * (x * x + y * y),
    )  # fmt: skip
    P = inertia.carried(entries9(X, after, 0), entries(X, after, 9), P)
    return inertia.added(P, m, (m * x, m * y, m * z), A)


@step
def with_load(P, loads, i):
    n, f = entries(loads, i, 3), entries(loads, i, 0)
    # A joint does not feel all of it, but each must be a number.
    check = 0.0 * (n[0] + n[1] + n[2] + f[0] + f[1] + f[2])
    return inertia.Articulated(P.A, P.B, P.C, plus(P.moment, n), plus(P.force, f)), check


@plain
def filter_sweep(T, kinds, links, room):
    """The causal sweep (4.4–4.6); FD1 (4.20), FD3 (5.9): ν = D⁻¹ ε, ε(k) = T(k) − H(k) z(k).

    z(k) = φ (z + G ε)(k−1) + loads(k).  The body whose pivot is lost, n for overflow, or −1.
    """
    X, loads, _, G, D, ν, sizes, P_plus = room
    n, at, check = kinds.size, D.size, 0.0
    P = inertia.Articulated(*inertia.NOTHING, ZERO, ZERO)
    before = inertia.NOTHING  # P before its joint is taken out
    for i in range(n - 1, -1, -1):
        kind, pitch = kinds[i], links[i, link.PITCH]
        f = RATES[kind]
        at -= f
        after = min(i + 1, n - 1)  # (nothing hangs on the last body)
        for j in range(f):
            e, v = axis(kind, pitch, j)
            sizes[j] = inertia.felt(*before, link.outwards(X, after, e, v))
        if P_plus.size:
            put_entries(P_plus, after, 0, (*P.A, *P.B, *P.C))
        P = propagated(P, X, after, links, i)  # P (4.5)
        before = P.A, P.B, P.C
        if loads.size:
            P, found = with_load(P, loads, i)  # + M ζ + b − w (5.9)
            check += found
        for j in range(f if f > 1 else 0):  # rates of one joint are taken out of each other too
            sizes[j] = max(sizes[j], inertia.felt(*before, axis(kind, pitch, j)))
        for j in range(f):
            J = links[i, link.ARMATURE + j]
            # D (4.6), G (5.12), ε, ν (4.20)
            P, rate = inertia.free_rate(kind, pitch, j, P, T[at + j], J)
            if not 0.0 < rate.D < math.inf or not inertia.LOST_INVERSE * sizes[j] < rate.D:
                return i if 0.0 * (rate.D + sizes[j]) == 0.0 else n
            put_entries(G, at + j, 0, (*rate.g, *rate.h))
            D[at + j], ν[at + j] = rate.D, rate.u
    return -1 if check == 0.0 else n


@plain
def smoother_sweep(kinds, links, room, out):
    """λ = ψᵀ λ(k+1) + Hᵀ ν (4.22), rearranged: y = φᵀ λ(k+1), θ̈ = ν − Gᵀ y, λ(k) = y + Hᵀ θ̈."""
    X, _, _, G, _, ν, _, _ = room
    y = ZERO, ZERO
    at = 0
    for i in range(kinds.size):
        y = link.outwards(X, i, y[0], y[1])
        for j in range(RATES[kinds[i]] - 1, -1, -1):
            k = at + j
            out[k] = ν[k] - (fused_dot(entries(G, k, 0), y[0]) + fused_dot(entries(G, k, 3), y[1]))
            e, v = axis(kinds[i], links[i, link.PITCH], j)
            y = plus(y[0], scaled(out[k], e)), plus(y[1], scaled(out[k], v))  # + Hᵀ θ̈
        at += RATES[kinds[i]]


@jit
def forward_frames(kinds, links, q, T, bias, out):
    """FD3 (5.8–5.10) of every frame into ``out (frames, nv)``; FD1's (4.18) if ``bias`` is None.

    ``bias``: q̇, the gravity and the wrenches w(k) on bodies, which generalize −B f(0).
    """
    n = kinds.size
    room = room_for(n, out.shape[1], 0 if bias is None else 1, 0)
    for frame in range(q.shape[0]):
        if link.transforms(q[frame], kinds, links, room.X) != 0.0:
            return frame * (n + 1) + n
        if bias is not None:
            # M(k) ζ(k) + b(k) − w(k) with ζ = φᵀ a: eqs. 5.8, 2.19, 2.23, 2.32, 3.21
            qd, g, W = bias
            w = W[frame * n : (frame + 1) * n]
            own_wrenches(qd[frame], None, g, w, kinds, links, room.X, room.loads)
        body = filter_sweep(T[frame], kinds, links, room)
        if body >= 0:
            return frame * (n + 1) + body
        smoother_sweep(kinds, links, room, out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1
