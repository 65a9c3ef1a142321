"""LDLᵀ of the tridiagonal H^bb of a chain of bonds, without subtractions.

Bond k (from 1) joins joints k − 1 and k of inverse masses w_{k−1}, w_k; c_k and s_k belong to the
angle between bonds k and k + 1 (stored from 0).  H_kk = w_{k−1} + w_k, H_{k,k+1} = −w_k c_k, and
the pivot d_k = w_k + e_k with e_{k+1} = (w_k / d_k) (e_k + w_k s_k²): nothing cancels where the
chain is nearly straight (theory.md section 3).
"""

from __future__ import annotations

from fixman.kernels import jit


@jit
def factor(w, c, s, inverse, g):
    """Pivots as ``inverse`` = 1/d and multipliers ``g`` = −L; False if a pivot is lost."""
    e = w[0]
    for k in range(inverse.size):
        d = w[k + 1] + e
        inverse[k] = 1.0 / d
        if not 0.0 < d < 1e308:
            return False
        if k < g.size:
            ratio = w[k + 1] * inverse[k]
            g[k] = ratio * c[k]
            e = ratio * (e + w[k + 1] * s[k] * s[k])
    return True


@jit
def solve(inverse, g, b):
    """Overwrite ``b (k, r)`` with A⁻¹ b, given the factor."""
    for k in range(g.size):
        for r in range(b.shape[1]):
            b[k + 1, r] += g[k] * b[k, r]
    for k in range(inverse.size - 1, -1, -1):
        for r in range(b.shape[1]):
            b[k, r] *= inverse[k]
            if k < g.size:
                b[k, r] += g[k] * b[k + 1, r]


@jit
def inverse_on_pattern(inverse, g, S):
    """Diagonal and first off-diagonal of A⁻¹ into ``S (k, 2)``, again without subtractions."""
    for k in range(inverse.size - 1, -1, -1):
        S[k, 0] = inverse[k]
        S[k, 1] = 0.0
        if k < g.size:
            S[k, 1] = g[k] * S[k + 1, 0]
            S[k, 0] += g[k] * S[k, 1]
