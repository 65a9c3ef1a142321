"""Whole charts, frame by frame: x → q, q → x with velocities, and solves with B and Bᵀ.

``references (n, d)`` holds for each bead its parent, angle reference and torsion reference, which
come before it in ``sequence (n,)``; the chart rows of bead k are rows k d … k d + d − 1 of the
coordinate table.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.lanes import entry
from fixman.kernels.rows import (
    ANGLE,
    SMALLEST_SINE,
    TURN,
    place,
    place_velocities,
    row_curvature,
    value,
    wilson_row,
)
from fixman.kernels.vectors import cross


@jit
def internal_frames(x, n, dim, fixed, kinds, points, q):
    """Coordinates of every frame into ``q (frames, m)``; the first bad frame, or -1.

    A frame is bad if a bond cannot be measured or a torsion is undefined.
    """
    P = np.empty(3 * n + 9)
    bad = -1
    for frame in range(q.shape[0]):
        good = place(x, frame, n, dim, fixed, P)
        for r in range(kinds.size):
            q[frame, r], sine = value(P, kinds, points, r, fixed)
            # A straight angle has a value; bonds that cannot be measured are lengths as well.
            good = good and (sine > SMALLEST_SINE or kinds[r] == ANGLE or kinds[r] == TURN)
        if not good and bad < 0:
            bad = frame
    return bad


@jit
def curvature_frames(x, v, n, dim, fixed, kinds, points, kappa):
    """κ of every frame into ``kappa (frames, m)``; the first frame without an answer, or -1."""
    P, V = np.empty(3 * n + 9), np.empty(3 * n + 9)
    for frame in range(kappa.shape[0]):
        good = place(x, frame, n, dim, fixed, P)
        good = place_velocities(v, frame, n, dim, fixed, V) and good
        check = 0.0
        for r in range(kinds.size):
            _, sine = value(P, kinds, points, r, fixed)
            if not sine > SMALLEST_SINE:
                return frame
            kappa[frame, r] = row_curvature(P, V, kinds, points, r, fixed)
            check += 0.0 * kappa[frame, r]
        if not good or check != 0.0:
            return frame
    return -1


@jit
def gradient_rows(x, n, dim, fixed, kinds, points, B, sines):
    """Wilson rows ``B (m · 12,)`` and the sines they were divided by, for one frame.

    False if a position is not finite.
    """
    P = np.empty(3 * n + 9)
    finite = place(x, 0, n, dim, fixed, P)
    for r in range(kinds.size):
        sines[r] = wilson_row(P, kinds, points, r, fixed, B, 12 * r)
    return finite


@jit
def hinge(references, k, dim, fixed):
    """Where bead k turns: the bead whose bond is its axis, and whose half plane its torsion counts.

    The axis runs along that bond, or against it (−1) where bead k hangs on the root of a free
    chain beside its first child.  A torsion counts from the bead returned last, which has the same
    axis, or (−1) from the bond before the axis.
    """
    parent = references[k, 0]
    angle = references[k, 1]
    host = parent
    along = 1.0
    if not fixed and parent == 0 and angle >= 0:
        host = angle
        along = -1.0
    if dim == 3:
        t = references[k, 2]
        if t >= 0:
            one = references[t, 0]
            two = references[t, 1]
            if (one == parent and two == angle) or (one == angle and two == parent):
                return host, along, t
    return host, along, -1


@jit
def cartesian_frames(q, qd, n, dim, fixed, references, sequence, x, v):
    """Positions, and velocities where ``qd`` is not empty, from chart coordinates.

    Each bond carries a frame (ê along it, ŷ in the plane of it and its axis, away from the start
    of the axis) and remembers the half plane r̂ beside its axis that it lies in, so nothing is
    singular here, not even on a straight chain; the frame is made orthonormal again at every bead,
    else rounding grows along the chain.
    """
    moving = qd.shape[0] > 0
    E = np.zeros((n + 3, 3))
    Y = np.zeros((n + 3, 3))
    R = np.zeros((n + 3, 3))
    omega = np.zeros((n + 3, 3))  # angular velocity of each bond's frame
    Omega = np.zeros((n + 3, 3))  # of its axis and half plane
    # Summing positions loses a digit every hundred bonds; the rounding of each sum is kept.
    low = np.zeros((n + 3, 3))
    root = 2 if fixed else 3
    E[root, 0] = 1.0
    Y[root, 1] = 1.0
    P = np.zeros((n + 3, 3))
    V = np.zeros((n + 3, 3))
    for frame in range(q.shape[0]):
        for k in sequence:
            c = k * dim
            if not fixed and k == 0:
                for a in range(dim):
                    P[3, a] = q[frame, a]
                    x[frame * n, a] = q[frame, a]
                    if moving:
                        V[3, a] = qd[frame, a]
                        v[frame * n, a] = qd[frame, a]
                low[3] = 0.0
                continue
            p = references[k, 0] + 3
            host, along, same = hinge(references, k, dim, fixed)
            host += 3
            e = (along * E[host, 0], along * E[host, 1], along * E[host, 2])
            length = q[frame, c]
            ct = math.cos(q[frame, c + 1])
            st = math.sin(q[frame, c + 1])
            if dim == 2:
                radial = (-e[1], e[0], 0.0)
                normal = (0.0, 0.0, 1.0)
            else:
                if same >= 0:
                    r = (R[same + 3, 0], R[same + 3, 1], R[same + 3, 2])
                else:
                    r = (-Y[host, 0], -Y[host, 1], -Y[host, 2])
                z = cross(e, r)
                cp = math.cos(q[frame, c + 2])
                sp = math.sin(q[frame, c + 2])
                radial = (cp * r[0] + sp * z[0], cp * r[1] + sp * z[1], cp * r[2] + sp * z[2])
                normal = cross(e, radial)
            i = k + 3
            norm = 0.0
            for a in range(3):
                R[i, a] = radial[a]
                E[i, a] = ct * e[a] + st * radial[a]
                norm += E[i, a] * E[i, a]
            norm = 1.0 / math.sqrt(norm)
            along = 0.0
            for a in range(3):
                E[i, a] *= norm
                Y[i, a] = st * e[a] - ct * radial[a]
                along += Y[i, a] * E[i, a]
            norm = 0.0
            for a in range(3):
                Y[i, a] -= along * E[i, a]
                norm += Y[i, a] * Y[i, a]
            norm = 1.0 / math.sqrt(norm)
            for a in range(3):
                Y[i, a] *= norm
            for a in range(dim):
                step = length * E[i, a] + low[p, a]
                total = P[p, a] + step
                shift = total - P[p, a]
                low[i, a] = (P[p, a] - (total - shift)) + (step - shift)
                P[i, a] = total
                x[frame * n + k, a] = total
            if moving:
                bend = qd[frame, c + 1]
                twist = qd[frame, c + 2] if dim == 3 else 0.0
                for a in range(3):
                    turned = Omega[same + 3, a] if same >= 0 else omega[host, a]
                    Omega[i, a] = turned + twist * e[a]
                    omega[i, a] = Omega[i, a] + bend * normal[a]
                turn = cross((omega[i, 0], omega[i, 1], omega[i, 2]), (E[i, 0], E[i, 1], E[i, 2]))
                for a in range(dim):
                    V[i, a] = V[p, a] + qd[frame, c] * E[i, a] + length * turn[a]
                    v[frame * n + k, a] = V[i, a]


@jit
def chart_solve(x, r, n, dim, fixed, rows, sequence, y):
    """Solve B y = r on the chart, bead by bead outwards.

    ``rows`` are kinds, points and columns.  The rows of bead k are orthogonal on bead k itself and
    otherwise touch earlier beads only.  Returns the first frame with a singular row, or -1.
    """
    kinds, points, columns = rows
    P = np.empty(3 * n + 9)
    B = np.empty(12)
    for frame in range(r.shape[0]):
        place(x, frame, n, dim, fixed, P)
        first = frame * n
        for k in sequence:
            for a in range(dim):
                y[(first + k) * dim + a] = 0.0
            for c in range(k * dim, k * dim + dim):
                if not wilson_row(P, kinds, points, c, fixed, B, 0) > SMALLEST_SINE:
                    return frame
                residual = r[frame, c]
                own = 0
                for slot in range(4):
                    j = entry(columns, 4 * c + slot)
                    if j == k:
                        own = 3 * slot
                    elif j >= 0:
                        for a in range(dim):
                            residual -= B[3 * slot + a] * y[(first + j) * dim + a]
                norm = B[own] ** 2 + B[own + 1] ** 2 + B[own + 2] ** 2
                for a in range(dim):
                    y[(first + k) * dim + a] += residual / norm * B[own + a]
    return -1


@jit
def chart_solve_transposed(x, F, n, dim, fixed, rows, sequence, t):
    """Solve Bᵀ t = F on the chart, from the tip inwards; F is overwritten."""
    kinds, points, columns = rows
    P = np.empty(3 * n + 9)
    B = np.empty(12)
    for frame in range(t.shape[0]):
        place(x, frame, n, dim, fixed, P)
        first = frame * n
        for k in sequence[::-1]:
            for c in range(k * dim, k * dim + dim):
                if not wilson_row(P, kinds, points, c, fixed, B, 0) > SMALLEST_SINE:
                    return frame
                own = 0.0
                along = 0.0
                for slot in range(4):
                    if entry(columns, 4 * c + slot) == k:
                        for a in range(dim):
                            own += B[3 * slot + a] * B[3 * slot + a]
                            along += B[3 * slot + a] * F[(first + k) * dim + a]
                t[frame, c] = along / own
                for slot in range(4):
                    j = entry(columns, 4 * c + slot)
                    if j >= 0 and j != k:
                        for a in range(dim):
                            F[(first + j) * dim + a] -= t[frame, c] * B[3 * slot + a]
    return -1
