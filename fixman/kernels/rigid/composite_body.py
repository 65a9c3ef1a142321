"""Composite bodies of a serial chain: inertia matrix and matrix of convective terms.

``kinds`` and ``links`` as in `links`.  Bodies i, i + 1, … rigidly joined have mass m, mass centre c
and inertia I about it, all in body i's frame: row i of ``M (n, 13)``.  Adding two such bodies adds
positive terms only.
"""

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.triples import across, back, entries, put_entries, times, turned
from fixman.kernels.algebra.vectors import fused_cross, minus, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import links as link
from fixman.kernels.rigid.joints import RATES, axis, checked, component, joint_twist, not_a_number


@step
def joined(links, X, i, share, M):
    """Body i and the composite body after it, which has ``share`` of the mass of both."""
    R, own = mat.entries9(X, i + 1, 0), entries(links, i, 13)
    d = minus(plus(entries(X, i + 1, 9), times(R, entries(M, i + 1, 1))), own)
    inertia = plus(mat.entries9(links, i, 16), turned(R, mat.entries9(M, i + 1, 4)))
    put_entries(M, i, 1, plus(own, scaled(share, d)))
    put_entries(M, i, 4, plus(inertia, link.deviation(share * links[i, 12], d, d)))


@jit
def compose(links, X, M):
    """Composite bodies M̃_i = M_i + B_{i+1,i}ᵀ M̃_{i+1} B_{i+1,i} (eq. 23b)."""
    n = M.shape[0]
    for k in range(13):
        M[n - 1, k] = links[n - 1, link.MASS + k]
    for i in range(n - 2, -1, -1):
        M[i, 0] = links[i, link.MASS] + M[i + 1, 0]
        joined(links, X, i, M[i + 1, 0] / M[i, 0] if M[i, 0] > 0.0 else 0.0, M)


@jit
def inertia_frames(kinds, links, q, out):
    """I into ``out (frames, nv, nv)``; (n + 1) · (first frame that is not finite) + n, or -1."""
    n = kinds.size
    X = np.empty((n, 12))
    M = np.empty((n, 13))
    for frame in range(out.shape[0]):
        A = out[frame]
        check = link.transforms(q[frame], kinds, links, X)
        compose(links, X, M)
        at = 0
        for j in range(n):
            for a in range(RATES[kinds[j]]):
                # eq. 24: i_ij = p_iᵀ M̃_i B_ij p_j
                e, v = axis(kinds[j], links[j, link.PITCH], a)
                wrench = link.momentum(M, j, 0, e, v)
                check += link.project(kinds, links, X, j, at, wrench, A, at + a, True)
                A[at + a, at + a] += links[j, link.ARMATURE + a]
            at += RATES[kinds[j]]
        if check != 0.0:  # NaN
            return frame * (n + 1) + n
    return -1


@step
def own_rates(links, i, V, s):
    """Ḣ and Z of body i alone, its I taken as I + s tr I."""
    ω, c = entries(V, i, 0), entries(links, i, 13)
    ċ, inertia = fused_cross(ω, c), mat.entries9(links, i, 16)
    s = s * (inertia[0] + inertia[4] + inertia[8])
    shifted = tuple(inertia[k] + s if k % 4 == 0 else inertia[k] for k in range(9))
    m = links[i, 12]
    return scaled(m, ċ), plus(across(ω, shifted), link.deviation(m, ċ, c))


@step
def with_rates(X, i, M, V, Y, own):
    """ḣ and Z of a composite body: ``own`` of its first body, and those of body i and beyond."""
    ḣ, Z = own
    R, m, v = mat.entries9(X, i, 0), M[i, 0], entries(V, i, 3)
    s, moved = entries(X, i, 9), times(R, entries(Y, i, 0))
    Z = plus(Z, turned(R, mat.entries9(Y, i, 3)))
    Z = plus(Z, link.deviation(m, v, plus(s, times(R, entries(M, i, 1)))))
    return plus(ḣ, plus(moved, scaled(m, v))), plus(Z, link.deviation(1.0, moved, s))


@jit
def compose_rates(kinds, links, qd, X, M, s, V, Y):
    """Y_i = Σ_{k≥i} B_kiᵀ (M_k Ḃ_ki + Ṁ_k B_ki), which takes [w; u] to [ḣ; Z] w; ``Y (n, 12)``.

    With d_k from body i's origin to mass centre k, h = Σ m d and
    Z = Σ m [(d·ḋ) 1 − ḋ dᵀ] + ω_k × (I_k + s tr I_k).  ``V (n, 6)`` receives ω_i, and the velocity
    ṡ_i of body i's origin relative to that of i − 1, in body i − 1's frame.
    """
    n = Y.shape[0]
    ω = (0.0, 0.0, 0.0)
    at = 0
    for i in range(n):
        turn, slide = joint_twist(kinds[i], links[i, link.PITCH], qd, at)
        R = mat.entries9(X, i, 0)
        velocity = plus(fused_cross(ω, entries(X, i, 9)), times(R, slide))
        ω = plus(back(R, ω), turn)
        put_entries(V, i, 0, (*ω, *velocity))
        at += RATES[kinds[i]]
    for i in range(n - 1, -1, -1):
        ḣ, Z = own_rates(links, i, V, s)
        if i < n - 1:
            ḣ, Z = with_rates(X, i + 1, M, V, Y, (ḣ, Z))
        put_entries(Y, i, 0, (*ḣ, *Z))


@step
def carried_rates(X, V, i, w, dw, du):
    """B_ij p_j of the next body, and its rate."""
    R = mat.entries9(X, i, 0)
    du = plus(du, plus(fused_cross(dw, entries(X, i, 9)), fused_cross(w, entries(V, i, 3))))
    return back(R, w), back(R, dw), back(R, du)


@step
def convected(M, Y, i, w, dw, du):
    """M̃_i (B_ij p_j)˙ + Y_i B_ij p_j."""
    n, f = link.momentum(M, i, 0, dw, du)
    return plus(n, times(mat.entries9(Y, i, 3), w)), plus(f, fused_cross(w, entries(Y, i, 0)))


@jit
def convective_frames(kinds, links, q, qd, christoffel, out):
    """C into ``out (frames, nv, nv)``; returns as `inertia_frames` does."""
    n = kinds.size
    X = np.empty((n, 12))
    M = np.empty((n, 13))
    V = np.empty((n, 6))
    Y = np.empty((n, 12))
    for frame in range(out.shape[0]):
        A = out[frame]
        # Not every rate has a part in C.
        check = link.transforms(q[frame], kinds, links, X) + not_a_number(qd[frame])
        compose(links, X, M)
        compose_rates(kinds, links, qd[frame], X, M, -0.5 if christoffel else 0.0, V, Y)
        first = 0
        for j in range(n):
            for a in range(RATES[kinds[j]]):
                w, u = axis(kinds[j], links[j, link.PITCH], a)
                dw, du = fused_cross(entries(V, j, 0), w), fused_cross(entries(V, j, 0), u)
                wrench = convected(M, Y, j, w, dw, du)
                check += link.project(kinds, links, X, j, first, wrench, A, first + a, False)
                at = first + RATES[kinds[j]]
                for i in range(j + 1, n):
                    w, dw, du = carried_rates(X, V, i, w, dw, du)
                    moment, f = convected(M, Y, i, w, dw, du)
                    for b in range(RATES[kinds[i]]):
                        value = component(kinds[i], links[i, link.PITCH], b, moment, f)
                        A[at + b, first + a] = value
                    at += RATES[kinds[i]]
                    check += checked((*f, *moment))
            first += RATES[kinds[j]]
        if check != 0.0:  # NaN
            return frame * (n + 1) + n
    return -1
