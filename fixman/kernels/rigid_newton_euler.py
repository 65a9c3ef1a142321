"""Recursive Newton–Euler equations of a serial chain of rigid bodies, in body frames.

``index (n, 3)``: kind of the joint, its first coordinate, its first rate.  ``table (n, 25)``:
rotation of the joint frame by rows, translation, mass, mass centre, inertia about it by rows.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit
from fixman.kernels.links import FREE, PRISMATIC, REVOLUTE, SPHERICAL, inwards, place
from fixman.kernels.triples import back, constants, cross, plus, times
from fixman.kernels.vectors import scaled


@jit
def newton_euler_frames(index, table, q, qd, qdd, gravity, W, tau, G):
    """Joint forces into ``tau (frames, nv)``; the first frame that is not finite, or -1.

    ``G (frames, n, 6)`` receives the joint wrenches, or is room for those of one frame.
    """
    n = index.shape[0]
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        if not place(q[frame], index[:, 0], table, X):
            return frame
        γ = G[frame if G.shape[0] > 1 else 0]
        ω = (0.0, 0.0, 0.0)
        dω = (0.0, 0.0, 0.0)
        a = (-gravity[0], -gravity[1], -gravity[2])  # eq. 32
        for i in range(n):
            # B_{i,i−1} ξ_{i−1} + Ḃ_{i,i−1} ν_{i−1}, which needs no linear velocity
            s = constants(X[i], 9)
            a = back(X[i], plus(a, plus(cross(dω, s), cross(ω, cross(ω, s)))))
            ω = back(X[i], ω)
            dω = back(X[i], dω)
            # p_i θ̈_i + Ω_i p_i θ̇_i
            kind = index[i, 0]
            at = index[i, 2]
            if kind == REVOLUTE:
                rate = qd[frame, at]
                dω = (dω[0] + ω[1] * rate, dω[1] - ω[0] * rate, dω[2] + qdd[frame, at])
                ω = (ω[0], ω[1], ω[2] + rate)
            elif kind == PRISMATIC:
                rate = 2.0 * qd[frame, at]
                a = (a[0] + ω[1] * rate, a[1] - ω[0] * rate, a[2] + qdd[frame, at])
            else:
                turning = at if kind == SPHERICAL else at + 3
                relative = constants(qd[frame], turning)
                dω = plus(dω, plus(cross(ω, relative), constants(qdd[frame], turning)))
                ω = plus(ω, relative)
                if kind == FREE:
                    a = plus(a, plus(cross(ω, constants(qd[frame], at)), constants(qdd[frame], at)))
            # M_i ξ_i + Ṁ_i ν_i, with the moment about the frame's origin
            c = constants(table[i], 13)
            f = scaled(table[i, 12], plus(a, plus(cross(dω, c), cross(ω, cross(ω, c)))))
            inertia = table[i, 16:25]
            moment = plus(times(inertia, dω), cross(ω, times(inertia, ω)))
            moment = plus(moment, cross(c, f))
            for k in range(3):
                γ[i, k] = f[k]
                γ[i, 3 + k] = moment[k]
            if W.shape[0] > 0:
                for k in range(6):
                    γ[i, k] -= W[frame, i, k]
        check = 0.0
        for i in range(n - 1, -1, -1):
            f = constants(γ[i], 0)
            moment = constants(γ[i], 3)
            kind = index[i, 0]
            at = index[i, 2]
            # τ_i = p_iᵀ γ_i
            if kind == REVOLUTE:
                tau[frame, at] = moment[2]
            elif kind == PRISMATIC:
                tau[frame, at] = f[2]
            else:
                if kind == FREE:
                    for k in range(3):
                        tau[frame, at + k] = f[k]
                    at += 3
                for k in range(3):
                    tau[frame, at + k] = moment[k]
            check += 0.0 * (f[0] + f[1] + f[2] + moment[0] + moment[1] + moment[2])
            if i > 0:
                # γ_{i−1} + B_{i,i−1}ᵀ γ_i
                moment, f = inwards(X, i, moment, f)
                for k in range(3):
                    γ[i - 1, k] += f[k]
                    γ[i - 1, 3 + k] += moment[k]
        if check != 0.0:  # NaN
            return frame
    return -1
