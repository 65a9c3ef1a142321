"""Recursive Newton–Euler equations of a serial chain of rigid bodies, in body frames.

``kinds (n,)`` and ``links (n, 32)`` as in `links`; arrays of wrenches have the force first.
"""

import numpy as np

from fixman.kernels import jit, plain
from fixman.kernels.algebra.triples import back, entries, entries9, put_entries, times
from fixman.kernels.algebra.vectors import fused_cross, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import RATES, component, joint_twist
from fixman.kernels.rigid.links import ARMATURE, PITCH, inwards, transforms


@step
def onwards(X, i, ω, dω, a):
    """B_{i,i−1} ξ_{i−1} + Ḃ_{i,i−1} ν_{i−1}, which needs no linear velocity."""
    R, s = entries9(X, i, 0), entries(X, i, 9)
    a = plus(a, plus(fused_cross(dω, s), fused_cross(ω, fused_cross(ω, s))))
    return back(R, ω), back(R, dω), back(R, a)


@step
def moved(ω, dω, a, turn, slide):
    """Ω_i p_i θ̇_i added, and the joint's turning: the way from body to body turns with both."""
    both = plus(ω, plus(ω, turn))
    return plus(ω, turn), plus(dω, fused_cross(ω, turn)), plus(a, fused_cross(both, slide))


@step
def required(links, i, ω, dω, a):
    """M_i ξ_i + Ṁ_i ν_i, with the moment about the frame's origin."""
    c, inertia = entries(links, i, 13), entries9(links, i, 16)
    f = scaled(links[i, 12], plus(a, plus(fused_cross(dω, c), fused_cross(ω, fused_cross(ω, c)))))
    moment = plus(times(inertia, dω), fused_cross(ω, times(inertia, ω)))
    return (*f, *plus(moment, fused_cross(c, f)))


@plain
def own_wrenches(qd, qdd, g, W, kinds, links, X, γ):
    """M_i ξ_i + Ṁ_i ν_i − w_i into ``γ (n, 6)``: what each body needs, cut loose.

    ``qdd`` may be None where the bias alone is asked for, and ``W (n, 6)`` empty.
    """
    ω = dω = (0.0, 0.0, 0.0)
    a = (-g[0], -g[1], -g[2])  # eq. 32
    at = 0
    for i in range(kinds.size):
        ω, dω, a = onwards(X, i, ω, dω, a)
        turn, slide = joint_twist(kinds[i], links[i, PITCH], qd, at)
        ω, dω, a = moved(ω, dω, a, turn, slide)
        if qdd is not None:
            turn, slide = joint_twist(kinds[i], links[i, PITCH], qdd, at)
            dω, a = plus(dω, turn), plus(a, slide)
        at += RATES[kinds[i]]
        put_entries(γ, i, 0, required(links, i, ω, dω, a))
        if W.size:
            for k in range(6):
                γ[i, k] -= W[i, k]


@step
def taken_back(X, i, γ):
    """γ_{i−1} + B_{i,i−1}ᵀ γ_i."""
    n, f = inwards(X, i, entries(γ, i, 3), entries(γ, i, 0))
    put_entries(γ, i - 1, 0, plus(entries(γ, i - 1, 0), f))
    put_entries(γ, i - 1, 3, plus(entries(γ, i - 1, 3), n))


@jit
def newton_euler_frames(kinds, links, motion, gravity, W, tau, G):
    """Joint forces into ``tau (frames, nv)`` for a motion q, q̇, q̈.

    ``G (frames, n, 6)`` receives the joint wrenches, or is room for those of one frame.  Returns
    (n + 1) times the first frame that is not finite, plus n; or -1.
    """
    n = kinds.size
    q, qd, qdd = motion
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        check = transforms(q[frame], kinds, links, X)
        γ = G[frame if G.shape[0] > 1 else 0]
        loads = W[frame * n : (frame + 1) * n]
        own_wrenches(qd[frame], qdd[frame], gravity, loads, kinds, links, X, γ)
        at = tau.shape[1]
        for i in range(n - 1, -1, -1):
            f, moment = entries(γ, i, 0), entries(γ, i, 3)
            at -= RATES[kinds[i]]
            for j in range(RATES[kinds[i]]):
                rotor = links[i, ARMATURE + j] * qdd[frame, at + j]  # and p_iᵀ γ_i
                tau[frame, at + j] = component(kinds[i], links[i, PITCH], j, moment, f) + rotor
            check += 0.0 * (f[0] + f[1] + f[2] + moment[0] + moment[1] + moment[2])
            if i > 0:
                taken_back(X, i, γ)
        if check != 0.0:  # NaN
            return frame * (n + 1) + n
    return -1
