"""Projection onto given values of the hard coordinates, frame by frame.

The nearest point in the metric of the masses satisfies x = x₀ + M⁻¹ B_b(x)ᵀ λ.  Linearized about
the last iterate this is one solve with H^bb; it converges to the nearest point at a linear rate.
Newton's method onto the manifold, quadratic, then removes what is left.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.geometry import LENGTH, SMALLEST_SINE, dot, gradient, place, value
from fixman.kernels.motion import factor, solve, workspace

NEAREST = 40  # iterations towards the nearest point
NEWTON = 40  # and onto the manifold
EPS = 2.0**-52


@jit
def project_frames(
    x0, targets, n, dim, fixed, w, kinds, beads, columns, terms, h, links, x
):  # fmt: skip
    """Nearest positions with the targets into ``x``; targets come in factor order.

    Returns -1, or twice the first failing frame, plus one if it was not singular but did not
    converge.
    """
    m = kinds.size
    P = np.empty((n + 3, 3))
    B = np.empty((m, 4, 3))
    rhs = np.empty((m, 1))
    work = workspace(m, h, links)
    step = np.empty((n, dim))
    for frame in range(targets.shape[0]):
        first = frame * n
        size = 0.0
        for k in range(first, first + n):
            for a in range(dim):
                x[k, a] = x0[k, a]
                size = max(size, abs(x[k, a]))
        nearest = True
        for iteration in range(NEAREST + NEWTON):
            place(x, frame, n, dim, fixed, P)
            met = True
            for r in range(m):
                q, _ = value(kinds[r], beads[r], P, dim, fixed)
                if not gradient(kinds[r], beads[r], P, dim, fixed, B[r]) > SMALLEST_SINE:
                    return 2 * frame
                residual = q - targets[frame, r]
                if kinds[r] > LENGTH:
                    residual -= 2.0 * math.pi * round(residual / (2.0 * math.pi))
                stiffness = 0.0
                for slot in range(4):
                    stiffness += math.sqrt(dot(B[r, slot], B[r, slot]))
                met = met and abs(residual) <= 4.0 * EPS * (size * stiffness + abs(q))
                if nearest:
                    for slot in range(4):
                        j = columns[r, slot]
                        if j >= 0:
                            for a in range(dim):
                                residual += B[r, slot, a] * (x0[first + j, a] - x[first + j, a])
                rhs[r, 0] = residual
            if met and not nearest:
                break
            if not factor(B, terms, w, links, work):
                return 2 * frame
            solve(work, links, rhs)
            for k in range(n):
                for a in range(dim):
                    step[k, a] = x0[first + k, a] - x[first + k, a] if nearest else 0.0
            for r in range(m):
                for slot in range(4):
                    j = columns[r, slot]
                    if j >= 0:
                        for a in range(dim):
                            step[j, a] -= w[j] * rhs[r, 0] * B[r, slot, a]
            change = 0.0
            for k in range(n):
                for a in range(dim):
                    x[first + k, a] += step[k, a]
                    change += abs(step[k, a])
            if not change < math.inf:
                return 2 * frame + 1
            if change <= n * 16.0 * EPS * size or iteration == NEAREST - 1:
                nearest = False
        else:
            return 2 * frame + 1
    return -1


@jit
def project_velocities(
    x, v, frames, n, dim, fixed, w, kinds, beads, columns, terms, h, links
):  # fmt: skip
    """Remove from ``v`` what changes hard coordinates; the first singular frame, or -1."""
    m = kinds.size
    P = np.empty((n + 3, 3))
    B = np.empty((m, 4, 3))
    rhs = np.empty((m, 1))
    work = workspace(m, h, links)
    for frame in range(frames):
        first = frame * n
        place(x, frame, n, dim, fixed, P)
        for r in range(m):
            if not gradient(kinds[r], beads[r], P, dim, fixed, B[r]) > SMALLEST_SINE:
                return frame
            rhs[r, 0] = 0.0
            for slot in range(4):
                j = columns[r, slot]
                if j >= 0:
                    for a in range(dim):
                        rhs[r, 0] += B[r, slot, a] * v[first + j, a]
        if not factor(B, terms, w, links, work):
            return frame
        solve(work, links, rhs)
        for r in range(m):
            for slot in range(4):
                j = columns[r, slot]
                if j >= 0:
                    for a in range(dim):
                        v[first + j, a] -= w[j] * rhs[r, 0] * B[r, slot, a]
    return -1
