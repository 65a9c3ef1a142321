"""Linear chains whose hard coordinates are exactly their bonds: the fused routes.

``w`` are the inverse masses of the joints, N + 1 for N bonds: the beads, after the base point
(inverse mass zero, at the origin) where the base is fixed.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import intrinsic

from fixman.kernels import banded, jit


@intrinsic
def fma(typingctx, a, b, c):
    """a b + c with one rounding."""

    def codegen(context, builder, signature, args):
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), codegen


@jit
def logdet_frames(x, w, n, dim, fixed, out):
    """ln det H^bb of every frame into ``out``; the first frame without an answer, or -1."""
    bonds = w.size - 1
    for frame in range(out.size):
        bead = frame * n if fixed else frame * n + 1
        ux = uy = uz = 0.0
        e = 0.0
        d = 1.0
        product = 1.0
        total = 0.0
        for k in range(bonds):
            uxp, uyp, uzp = ux, uy, uz
            ux = x[bead, 0]
            uy = x[bead, 1]
            uz = x[bead, 2] if dim == 3 else 0.0
            if k > 0 or not fixed:
                ux -= x[bead - 1, 0]
                uy -= x[bead - 1, 1]
                if dim == 3:
                    uz -= x[bead - 1, 2]
            bead += 1
            square = ux * ux + uy * uy + uz * uz
            if not 0.0 < square < math.inf:
                return frame
            scale = 1.0 / math.sqrt(square)
            ux *= scale
            uy *= scale
            uz *= scale
            if k == 0:
                e = w[0]
            else:
                a = uyp * uz - uzp * uy
                b = uzp * ux - uxp * uz
                c = uxp * uy - uyp * ux
                e = w[k] / d * (e + w[k] * (a * a + b * b + c * c))
            d = w[k + 1] + e
            product, total = banded.times(product, d, total)
        out[frame] = total + math.log(product)
    return -1


@jit
def two_difference(a, b):
    """a − b as a rounded value and its exact remainder."""
    s = a - b
    t = s - a
    return s, (a - (s - t)) - (b + t)


@jit
def accurate_cross(a, alow, b, blow):
    """a × b to full relative precision, low parts of the vectors included."""
    p = a[0] * b[1]
    q = a[1] * b[0]
    rounding = fma(a[0], b[1], -p) - fma(a[1], b[0], -q)
    low = (a[0] * blow[1] - a[1] * blow[0]) + (alow[0] * b[1] - alow[1] * b[0])
    return (p - q) + (rounding + low)


@jit
def planar_motion(x, v, torque, force, w, n, fixed, out):
    """Full forward dynamics of planar chains; the first frame without an answer, or -1.

    Everything is written in the angles between successive bonds, whose sines are computed without
    cancellation: q̈ keeps its digits on nearly straight chains.  In absolute angles
    H^αα, H^αL and H^LL are tridiagonal with the elements of theory.md section 3; rows of θ are
    differences of rows of α.  ``out (frames, 2 n + N + soft)`` receives ẍ, the
    tensions and q̈.
    """
    N = w.size - 1
    ns = N if fixed else N + 2
    has_torque = torque.size > 0
    has_force = force.size > 0
    # Joint 0 … N, bond 1 … N; the zeros at both ends stand for bonds that do not exist.
    ux = np.zeros(N + 2)
    uy = np.zeros(N + 2)
    inverse_length = np.zeros(N + 2)
    c = np.zeros(N + 2)  # between bonds k − 1 and k
    s = np.zeros(N + 2)
    h = np.zeros(N + 2)  # torque on α_k over L_k
    push = np.zeros(N + 2)  # λ
    kappa = np.zeros(N + 2)  # of α
    inverse = np.zeros(N + 2)
    g = np.zeros(N + 2)
    along = np.zeros(N + 2)  # u_k·(w_k f_k − w_{k−1} f_{k−1}) and its twin across
    across = np.zeros(N + 2)
    shift = 0 if fixed else 1  # bond k ends in bead k − 1 + shift
    first_torque = 0 if fixed else 2
    for frame in range(out.shape[0]):
        bead = frame * n + shift - 1  # + k is the bead in which bond k ends
        fx0 = fy0 = 0.0
        if not fixed:
            if has_force:
                fx0 = force[frame * n, 0]
                fy0 = force[frame * n, 1]
            if has_torque:
                fx0 += torque[frame * ns]
                fy0 += torque[frame * ns + 1]
        # Bonds: directions, lengths, velocity terms, Cartesian forces.
        dx0 = dy0 = lx0 = ly0 = 0.0
        fx, fy = fx0, fy0
        for k in range(1, N + 1):
            j = bead + k
            if fixed and k == 1:
                dx, dy, lx, ly = x[j, 0], x[j, 1], 0.0, 0.0
                ex, ey = v[j, 0], v[j, 1]
            else:
                dx, lx = two_difference(x[j, 0], x[j - 1, 0])
                dy, ly = two_difference(x[j, 1], x[j - 1, 1])
                ex = v[j, 0] - v[j - 1, 0]
                ey = v[j, 1] - v[j - 1, 1]
            square = dx * dx + dy * dy
            if not 0.0 < square < math.inf:
                return frame
            length = math.sqrt(square)
            r = 1.0 / length
            inverse_length[k] = r
            ux[k] = dx * r
            uy[k] = dy * r
            c[k] = (dx0 * dx + dy0 * dy) * r * inverse_length[k - 1]
            s[k] = (
                accurate_cross((dx0, dy0), (lx0, ly0), (dx, dy), (lx, ly))
                * r
                * inverse_length[k - 1]
            )
            dx0, dy0, lx0, ly0 = dx, dy, lx, ly
            turn = (dx * ey - dy * ex) * r
            kappa[k] = -2.0 * turn * (dx * ex + dy * ey) * r * r * r
            push[k] = -turn * turn * r
            if has_torque:
                t = first_torque + frame * ns + k - 1
                h[k] = (torque[t] - (torque[t + 1] if k < N else 0.0)) * r
            if has_force:
                fxp, fyp = fx, fy
                fx, fy = force[j, 0], force[j, 1]
                ax = w[k] * fx - w[k - 1] * fxp
                ay = w[k] * fy - w[k - 1] * fyp
                along[k] = ux[k] * ax + uy[k] * ay
                across[k] = ux[k] * ay - uy[k] * ax
            elif k == 1:
                along[1] = -w[0] * (ux[1] * fx0 + uy[1] * fy0)
                across[1] = -w[0] * (ux[1] * fy0 - uy[1] * fx0)
        # Hard block: factor and eliminate in one sweep.
        e = w[0]
        for k in range(1, N + 1):
            pivot = w[k] + e
            reciprocal = 1.0 / pivot
            inverse[k] = reciprocal
            ratio = w[k] * reciprocal
            e = ratio * (e + w[k] * s[k + 1] * s[k + 1])
            g[k] = ratio * c[k + 1]
            push[k] -= along[k] + w[k] * h[k + 1] * s[k + 1] - w[k - 1] * h[k - 1] * s[k]
            push[k] += g[k - 1] * push[k - 1]
        for k in range(N, 0, -1):
            push[k] = push[k] * inverse[k] + g[k] * push[k + 1]
        # Accelerations: of the joints, and of the angles from neighbouring bonds only.
        acceleration = out[frame, : 2 * n]
        tension = out[frame, 2 * n : 2 * n + N]
        qdd = out[frame, 2 * n + N :]
        check = 0.0
        previous = 0.0
        if not fixed:
            acceleration[0] = w[0] * (fx0 + h[1] * uy[1] - push[1] * ux[1])
            acceleration[1] = w[0] * (fy0 - h[1] * ux[1] - push[1] * uy[1])
            qdd[0] = acceleration[0]
            qdd[1] = acceleration[1]
            check += 0.0 * (acceleration[0] + acceleration[1])
        for k in range(1, N + 1):
            tension[k - 1] = -push[k]
            fx = fy = 0.0
            if has_force:
                fx, fy = force[bead + k, 0], force[bead + k, 1]
            p, q = push[k], push[k + 1]
            b = 2 * (k - 1 + shift)
            acceleration[b] = w[k] * (
                fx - h[k] * uy[k] + h[k + 1] * uy[k + 1] + p * ux[k] - q * ux[k + 1]
            )
            acceleration[b + 1] = w[k] * (
                fy + h[k] * ux[k] - h[k + 1] * ux[k + 1] + p * uy[k] - q * uy[k + 1]
            )
            alpha = (
                across[k]
                + w[k] * (h[k] - h[k + 1] * c[k + 1] - q * s[k + 1])
                + w[k - 1] * (h[k] - h[k - 1] * c[k] + push[k - 1] * s[k])
            ) * inverse_length[k] + kappa[k]
            qdd[first_torque + k - 1] = alpha - previous
            previous = alpha
            check += 0.0 * (acceleration[b] + acceleration[b + 1] + alpha)
        if check != 0.0:
            return frame
    return -1
