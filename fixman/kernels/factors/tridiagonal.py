"""LDLᵀ of the tridiagonal H^bb of a chain of bonds, without subtractions.

Bond k (from 1) joins joints k − 1 and k of inverse masses w_{k−1}, w_k; c_{k+1} and s_{k+1} belong
to the angle between bonds k and k + 1 (stored from 0).  With H_kk = w_{k−1} + w_k and H_{k,k+1} =
−w_k c_{k+1} the pivots are d_k = w_k + e_k, e_1 = w_0, e_{k+1} = (w_k / d_k) (e_k + w_k s_{k+1}²):
nothing cancels where the chain is nearly straight (theory.md section 3).

The recurrences of a chain of bonds are the steps below, for all kernels that need them.  From the
other end they are the same, with e from ahead.
"""

from fixman.kernels import jit
from fixman.kernels.compiler.lanes import fma
from fixman.kernels.compiler.steps import exact_step, step


@step
def onward(e, w, inverse, square):
    """e_{k+1} = (w_k / d_k) (e_k + w_k s_{k+1}²) with 1 / d_k, d_k = w_k + e_k."""
    return inverse * (w * (e + w * square))


@exact_step
def joined(p, before, q, turning, mass):
    """`onward` without a division, e = p / q: p_k from p_{k−1}, and q_{k+1}.

    p_k = p_{k−1} + w_{k−1} s_k² q_{k−1} and q_{k+1} = q_k + m_k p_k, with ``turning`` = w s² and
    q_{k−1} ``before``; then 1 / d = m q_k / q_{k+1}.  Only ratios matter: both are scaled down in
    time.
    """
    p = fma(turning, before, p)
    return p, fma(mass, p, q)


@exact_step
def inverse_before(inverse, g, S):
    """S_kk = 1/d_k + g_k² S_{k+1,k+1} and S_{k,k+1} = g_k S_{k+1,k+1}, with g_k = −L_{k+1,k}."""
    beside = g * S
    return fma(g, beside, inverse), beside


@jit
def factor(w, c, s, D, g):
    """1/d_k into D and g_k = −L_{k+1,k} = w_k c_{k+1} / d_k; the row whose pivot is lost, or −1."""
    e = w[0]
    for k in range(D.size):
        d = w[k + 1] + e
        if not 0.0 < d < 1e308:
            return k
        D[k] = 1.0 / d
        if k < c.size:
            g[k] = w[k + 1] * D[k] * c[k]
            e = onward(e, w[k + 1], D[k], s[k] * s[k])
    return -1
