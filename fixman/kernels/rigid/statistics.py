"""Serial chains of rigid bodies in a heat bath: the factors of ℳ and ℳ⁻¹, read as statistics.

``kinds (n,)`` and ``links (n, 32)`` as in `links`; sweeps, and what kernels return, as in
`spatial_operators`.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import full, product, summed, transposed
from fixman.kernels.algebra.vectors import plus
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import RATES, component
from fixman.kernels.rigid.links import PITCH, not_a_number, place
from fixman.kernels.rigid.spatial_operators import (
    filter_sweep,
    move_freely,
    seen_from,
    smoother_sweep,
)


@jit
def thermal_frames(kinds, links, q, out):
    """Overwrite independent normal numbers ``out (frames, nv)`` by rates of covariance ℳ⁻¹.

    From 4.16, ℳ⁻¹ = (1 − H Ψ L)ᵀ D⁻¹ (1 − H Ψ L): a smoother's sweep over ν = D^{−1/2} ε.
    """
    n = kinds.size
    nv = out.shape[1]
    X = np.empty((n, 12))
    G, D, nu = np.empty((nv, 6)), np.empty(nv), np.empty(nv)
    none, unloaded = np.empty(0), np.empty((0, 6))
    for frame in range(q.shape[0]):
        if not_a_number(q[frame]) != 0.0 or not place(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        body = filter_sweep(none, unloaded, kinds, links, X, G, D, nu, unloaded)
        if body >= 0:
            return frame * (n + 1) + body
        for k in range(nv):
            nu[k] = out[frame, k] / math.sqrt(D[k])
        smoother_sweep(kinds, links, X, G, nu, out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@step
def square(Z, r, c):
    """3×3 block of ``Z`` whose first element is r, c."""
    return tuple(Z[r + k // 3, c + k % 3] for k in range(9))


@step
def axial(K):
    """Traces of K e× for the three unit vectors e."""
    return K[5] - K[7], K[6] - K[2], K[1] - K[3]


@step
def gradient(Z, left, i):
    """tr(Ω P⁺ p×) for the six twists p, as a wrench [n; f] that works with them."""
    A = full(tuple(left[i, k] for k in range(6)))
    B = tuple(left[i, 6 + k] for k in range(9))
    C = full(tuple(left[i, 15 + k] for k in range(6)))
    turning, both, sliding = square(Z, 0, 0), square(Z, 0, 3), square(Z, 3, 3)
    n = plus(
        axial(summed(product(turning, A), product(both, transposed(B)))),
        axial(summed(product(transposed(both), B), product(sliding, C))),
    )
    return n, axial(summed(product(turning, B), product(both, C)))


@jit
def gradient_frames(kinds, links, q, out):
    """−∂(½ ln det ℳ) along every rate into ``out (frames, nv)``.

    Only X_i, which carries twists from body i − 1 to body i, depends on joint i: along p_i it
    changes by −(p_i ×) X_i.  With P⁺ = (1 − G H) P, which X_i carries inwards,

        ∂(½ ln det ℳ) = ½ tr(Ω_{i−1,i−1} ∂(X_iᵀ P_i⁺ X_i)) = −tr(X_i Ω_{i−1,i−1} X_iᵀ P_i⁺ (p_i ×)),

    and Ω_ii = (1 − G H)ᵀ X_i Ω_{i−1,i−1} X_iᵀ (1 − G H) + Hᵀ D⁻¹ H.
    """
    n = kinds.size
    nv = out.shape[1]
    X = np.empty((n, 12))
    G, D, nu = np.empty((nv, 6)), np.empty(nv), np.empty(nv)
    none, unloaded = np.empty(0), np.empty((0, 6))
    left = np.zeros((n, 21))  # the first row stays: nothing depends on the first joint
    Z = np.empty((6, 6))
    for frame in range(q.shape[0]):
        if not_a_number(q[frame]) != 0.0 or not place(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        body = filter_sweep(none, unloaded, kinds, links, X, G, D, nu, left)
        if body >= 0:
            return frame * (n + 1) + body
        Z[:] = 0.0
        at = 0
        for i in range(n):
            kind = kinds[i]
            seen_from(X, i, Z, 6)
            moment, force = gradient(Z, left, i)
            move_freely(kind, links[i, PITCH], at, G, D, Z, 6)
            for j in range(RATES[kind]):
                out[frame, at + j] = component(kind, links[i, PITCH], j, moment, force)
            at += RATES[kind]
        if not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1
