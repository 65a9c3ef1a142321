"""Saha's factors of I = U D Uᵀ (saha_1996, eqs. 31–35) over serial chains, in body frames.

His recursion of M̂_i, ψ̂_i and m̂_i (32, 33, 35) is that of P, G and D in `filter_sweep`.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import entries
from fixman.kernels.rigid.joints import RATES, component
from fixman.kernels.rigid.links import PITCH, inwards, not_a_number, place
from fixman.kernels.rigid.spatial_operators import filter_sweep


@jit
def factor_frames(kinds, links, q, U, D):
    """m̂ of every rate into ``D (frames, nv)``, and U into ``U (frames, nv, nv)``.

    U starts as zeros, or is empty.  Failures as in `forward_frames`.
    """
    n, nv = kinds.size, D.shape[1]
    X, ψ, nu = np.empty((n, 12)), np.empty((nv, 6)), np.empty(nv)
    none, unloaded, nothing = np.empty(0), np.empty((0, 6)), np.empty((0, 21))
    for frame in range(q.shape[0]):
        # I does not depend on the first joint's coordinate, but it must be a number.
        if not_a_number(q[frame]) != 0.0 or not place(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        body = filter_sweep(none, unloaded, kinds, links, X, ψ, D[frame], nu, nothing)
        if body >= 0:
            return frame * (n + 1) + body
        if U.size:
            upper(kinds, links, X, ψ, U[frame])
    return -1


@jit
def upper(kinds, links, X, ψ, U):
    """α_ik = p_iᵀ B_kiᵀ ψ̂_k (eq. 31) into ``U (nv, nv)``.

    Of the rates of one joint the first is eliminated first: its block is unit lower triangular.
    """
    first = 0
    for k in range(kinds.size):
        for c in range(first, first + RATES[kinds[k]]):
            n, f = entries(ψ, c, 0), entries(ψ, c, 3)
            U[c, c] = 1.0
            for j in range(c + 1, first + RATES[kinds[k]]):
                U[j, c] = component(kinds[k], links[k, PITCH], j - first, n, f)
            at = first
            for i in range(k - 1, -1, -1):
                n, f = inwards(X, i + 1, n, f)
                at -= RATES[kinds[i]]
                for j in range(RATES[kinds[i]]):
                    U[at + j, c] = component(kinds[i], links[i, PITCH], j, n, f)
        first += RATES[kinds[k]]
