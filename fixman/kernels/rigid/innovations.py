"""What the innovations factorization tells of a serial chain, without torques and loads.

    ℳ = (1 + H Φ L) D (1 + H Φ L)ᵀ,    ℳ⁻¹ = (1 − H Ψ L)ᵀ D⁻¹ (1 − H Ψ L)           (4.11) (4.16)
    Ω = φᵀ Hᵀ ℳ⁻¹ H φ = ψᵀ Hᵀ D⁻¹ H ψ                                               (4.16) (5.4)
    J ℳ⁻¹ Jᵀ = Bᵀ Ω B                                                                     (3.13)

Numbers are those of Rodriguez and Kreutz (1988).  With ψ_iᵀ = ((1 − G H)ᵀ of joint i) X_i, which
carries the twist of body i − 1 to body i, the blocks of Ω on the diagonal and of j < i are

    Ω_ii = ψ_iᵀ Ω_{i−1,i−1} ψ_i + Hᵀ D⁻¹ H,     Ω_ij = ψ_iᵀ ⋯ ψ_{j+1}ᵀ Ω_jj.

Arguments and what kernels return are those of `spatial_operators`.
"""

import math

import numpy as np

from fixman.kernels import jit, plain
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.triples import constants, entries, entries9, put_entries, times
from fixman.kernels.algebra.vectors import fused_cross, plus
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import RATES, UNTURNED, axis, component, not_a_number
from fixman.kernels.rigid.links import PITCH, outwards, project, transforms
from fixman.kernels.rigid.spatial_operators import filter_sweep, room_for, smoother_sweep


@plain
def factored(q, kinds, links, room):
    """P, D and G of one configuration; −1, the body whose pivot is lost, or n."""
    if transforms(q, kinds, links, room.X) != 0.0:
        return kinds.size
    return filter_sweep(room.still, kinds, links, room)


# --- Saha's U D Uᵀ --------------------------------------------------------------------------------


@jit
def factor_frames(kinds, links, q, U, D):
    """I = U D Uᵀ (saha_1996, eqs. 31–35): m̂ of every rate into ``D (frames, nv)``, U into ``U``.

    His recursion of M̂_i, ψ̂_i and m̂_i (32, 33, 35) is that of P, G and D.  ``U (frames, nv, nv)``
    starts as zeros, or is empty.
    """
    n, nv = kinds.size, D.shape[1]
    room = room_for(n, nv, 0, 0)
    for frame in range(q.shape[0]):
        body = factored(q[frame], kinds, links, room)
        if body >= 0:
            return frame * (n + 1) + body
        for k in range(nv):
            D[frame, k] = room.D[k]
        if U.size:
            upper(kinds, links, room, U[frame])
    return -1


@plain
def upper(kinds, links, room, U):
    """α_ik = p_iᵀ B_kiᵀ ψ̂_k (eq. 31) into ``U (nv, nv)``.

    Of the rates of one joint the first is eliminated first: its block is unit lower triangular.
    """
    first = 0
    for k in range(kinds.size):
        for c in range(first, first + RATES[kinds[k]]):
            wrench = entries(room.G, c, 0), entries(room.G, c, 3)
            project(kinds, links, room.X, k, first, wrench, U, c, False)
            for j in range(first, c):
                U[j, c] = 0.0
            U[c, c] = 1.0
        first += RATES[kinds[k]]


# --- rates in a heat bath -------------------------------------------------------------------------


@jit
def thermal_frames(kinds, links, q, out):
    """Overwrite independent normal numbers ε, ``out (frames, nv)``, by rates of covariance ℳ⁻¹.

    From (4.16), (1 − H Ψ L)ᵀ D^{−1/2} ε: a smoother's sweep over ν = D^{−1/2} ε.
    """
    n = kinds.size
    room = room_for(n, out.shape[1], 0, 0)
    for frame in range(q.shape[0]):
        body = factored(q[frame], kinds, links, room)
        if body >= 0:
            return frame * (n + 1) + body
        for k in range(out.shape[1]):
            room.ν[k] = out[frame, k] / math.sqrt(room.D[k])
        smoother_sweep(kinds, links, room, out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


# --- Ω, Bᵀ Ω B ------------------------------------------------------------------------------------


@step
def put_twist(Y, r, c, a, b):
    for k in range(3):
        Y[r + k, c] = a[k]
        Y[r + 3 + k, c] = b[k]


@plain
def seen_from(X, i, Y, columns):
    """Overwrite Y by X_i Y X_iᵀ; columns beyond six by X_i times them."""
    for c in range(columns):
        ω, v = outwards(X, i, (Y[0, c], Y[1, c], Y[2, c]), (Y[3, c], Y[4, c], Y[5, c]))
        put_twist(Y, 0, c, ω, v)
    for r in range(6):
        ω, v = outwards(X, i, entries(Y, r, 0), entries(Y, r, 3))
        put_entries(Y, r, 0, (*ω, *v))


@plain
def move_freely(kind, pitch, at, G, D, Y, columns):
    """Overwrite Y by (1 − G H)ᵀ Y (1 − G H) + Hᵀ D⁻¹ H, rate by rate; further columns as above."""
    for j in range(RATES[kind] - 1, -1, -1):
        k, (e, v) = at + j, axis(kind, pitch, j)
        twist = (*e, *v)
        for c in range(columns):
            x = 0.0
            for r in range(6):
                x += G[k, r] * Y[r, c]
            for r in range(6):
                Y[r, c] -= twist[r] * x
        for r in range(6):
            x = 0.0
            for c in range(6):
                x += Y[r, c] * G[k, c]
            for c in range(6):
                Y[r, c] += (twist[r] / D[k] - x) * twist[c]


@plain
def put_blocks(b, Z, C):
    """Blocks of the b-th body with itself and with those before; the product is 1 again."""
    for r in range(6):
        for c in range(6):
            C[6 * b + r, 6 * b + c] = Z[r, c]
        for c in range(6 * b):
            value = 0.0
            for k in range(6):
                value += Z[r, 6 + k] * C[6 * b - 6 + k, c]
            C[6 * b + r, c] = C[c, 6 * b + r] = value
    for r in range(6):
        for c in range(6):
            Z[r, 6 + c] = 1.0 if r == c else 0.0


@plain
def at_points(marks, C):
    """Overwrite columns of ``C``, twists [ω; v] of bodies, by [v; ω] at their points, in the base.

    ``marks (m, 12)``: rotations of the bodies, and the points in their frames.  Columns then are
    the rows that they were.
    """
    for c in range(C.shape[1]):
        for b in range(marks.shape[0]):
            k = 6 * b
            R, p = entries9(marks, b, 0), entries(marks, b, 9)
            ω, v = (C[k, c], C[k + 1, c], C[k + 2, c]), (C[k + 3, c], C[k + 4, c], C[k + 5, c])
            put_twist(C, k, c, times(R, plus(v, fused_cross(ω, p))), times(R, ω))
    for r in range(C.shape[0]):
        for c in range(r):
            C[r, c], C[c, r] = C[c, r], C[r, c]


@jit
def compliance_frames(kinds, links, q, bodies, points, out):
    """Ω = J ℳ⁻¹ Jᵀ at points of several bodies, ascending, into ``out (frames, 6m, 6m)``."""
    n, m = kinds.size, bodies.size
    nv = 0
    for i in range(n):
        nv += RATES[kinds[i]]
    room = room_for(n, nv, 0, 0)
    Z = np.empty((6, 12))  # Ω_ii, and from the first body on the product of ψᵀ since the last one
    marks = np.empty((m, 12))
    for frame in range(q.shape[0]):
        body = factored(q[frame], kinds, links, room)
        if body >= 0:
            return frame * (n + 1) + body
        C = out[frame]
        Z[:] = 0.0
        R = UNTURNED
        at = b = 0
        for i in range(bodies[m - 1] + 1):
            R = mat.product(R, entries9(room.X, i, 0))
            columns = 12 if b > 0 else 6
            seen_from(room.X, i, Z, columns)
            move_freely(kinds[i], links[i, PITCH], at, room.G, room.D, Z, columns)
            at += RATES[kinds[i]]
            while b < m and bodies[b] == i:
                put_entries(marks, b, 0, (*R, *constants(points, 3 * b)))
                put_blocks(b, Z, C)
                b += 1
        check = 0.0
        for _ in range(2):
            at_points(marks, C)
        for r in range(6 * m):
            for c in range(r + 1):
                C[r, c] = C[c, r] = 0.5 * (C[r, c] + C[c, r])
                check += 0.0 * C[r, c]
        if check != 0.0:
            return frame * (n + 1) + n
    return -1


# --- the gradient of ln det ℳ ---------------------------------------------------------------------


@step
def axial(K):
    """Traces of K e× for the three unit vectors e."""
    return K[5] - K[7], K[6] - K[2], K[1] - K[3]


@step
def gradient(Z, P_plus, i):
    """tr(X Ω Xᵀ P⁺ p×) for the six twists p, as a wrench [n; f]."""
    A, C = (mat.full(tuple(P_plus[i, at + k] for k in range(6))) for at in (0, 15))
    B = entries9(P_plus, i, 6)
    turning, both, sliding = (mat.square(Z, r, c) for r, c in ((0, 0), (0, 3), (3, 3)))
    n = plus(
        axial(plus(mat.product(turning, A), mat.product(both, mat.transposed(B)))),
        axial(plus(mat.product(mat.transposed(both), B), mat.product(sliding, C))),
    )
    return n, axial(plus(mat.product(turning, B), mat.product(both, C)))


@jit
def gradient_frames(kinds, links, q, out):
    """−∂(½ ln det ℳ) along every rate into ``out (frames, nv)``.

    Only X_i depends on joint i: along p_i it changes by −(p_i ×) X_i.  With P⁺ = (1 − G H) P,
    which X_i carries inwards,

        ∂(½ ln det ℳ) = ½ tr(Ω_{i−1,i−1} ∂(X_iᵀ P_i⁺ X_i)) = −tr(X_i Ω_{i−1,i−1} X_iᵀ P_i⁺ (p_i ×)).
    """
    n = kinds.size
    room = room_for(n, out.shape[1], 0, 1)
    Z = np.empty((6, 6))
    for frame in range(q.shape[0]):
        body = factored(q[frame], kinds, links, room)
        if body >= 0:
            return frame * (n + 1) + body
        Z[:] = 0.0
        at = 0
        for i in range(n):
            kind, pitch = kinds[i], links[i, PITCH]
            seen_from(room.X, i, Z, 6)
            moment, force = gradient(Z, room.P_plus, i)
            move_freely(kind, pitch, at, room.G, room.D, Z, 6)
            for j in range(RATES[kind]):
                out[frame, at + j] = component(kind, pitch, j, moment, force)
            at += RATES[kind]
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1
