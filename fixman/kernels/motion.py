"""Constrained motion for any hard set, frame by frame (theory.md section 3).

Hard rows come in factor order.  ``terms (t, 4)`` lists the products that make up H^bb: place in
the storage of its elements, the two (row, slot) pairs as flat numbers, and the bead whose inverse
mass weighs them.  H^bb is stored and factored as in `sparse`, on the pattern ``symbolic``.  Linear
chains whose hard rows are exactly their bonds are those of `jointed_motion`.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit, metric, sparse
from fixman.kernels.geometry import (
    SMALLEST_SINE,
    curvature,
    gradient,
    place,
    place_velocities,
)


@jit
def hard_matrix(B, terms, w, H):
    """H^bb = B_b M⁻¹ B_bᵀ into the storage that the terms are for."""
    metric.hard_matrix(B, terms, w, H, H.size, 0.0)


@jit
def add_torques(x, torque, n, dim, fixed, kinds, beads, columns, F):
    """F ← F + B_aᵀ τ of every frame; the first frame whose τ acts on a row that is none, or -1."""
    m = kinds.size
    P = np.empty((n + 3, 3))
    row = np.empty((4, 3))
    for frame in range(x.shape[0] // n):
        place(x, frame, n, dim, fixed, P)
        for r in range(m):
            tau = torque[frame * m + r]
            if tau == 0.0:
                continue
            if not gradient(kinds[r], beads[r], P, dim, fixed, row) > SMALLEST_SINE:
                return frame
            for slot in range(4):
                j = columns[r, slot]
                if j >= 0:
                    for a in range(dim):
                        F[frame * n + j, a] += tau * row[slot, a]
    return -1


@jit
def motion_frames(
    x, v, F, n, dim, fixed, w, kinds, beads, columns, order,
    terms, first, row, left_first, left_place, left_column, out,
):  # fmt: skip
    """Motion of every frame under Cartesian forces; the first frame without an answer, or -1.

    ``order`` is the public place of each hard row.  ``out (frames, n d + hard)`` receives ẍ and the
    tensions; q̈ is left to `soft_accelerations`, since it alone can be singular.  F is spent.
    """
    m = kinds.size
    P = np.empty((n + 3, 3))
    V = np.empty((n + 3, 3))
    B = np.empty((m, 4, 3))
    rhs = np.empty((m, 1))
    kappa = np.empty(m)
    symbolic = (first, row, left_first, left_place, left_column)
    H = np.empty(row.size)
    column = np.empty(m)
    for frame in range(out.shape[0]):
        if not (place(x, frame, n, dim, fixed, P) and place_velocities(v, frame, n, dim, fixed, V)):
            return frame
        check = 0.0
        for r in range(m):
            if not gradient(kinds[r], beads[r], P, dim, fixed, B[r]) > SMALLEST_SINE:
                return frame
            kappa[r] = curvature(kinds[r], beads[r], P, V, dim, fixed)
            out[frame, n * dim + order[r]] = 0.0
        hard_matrix(B, terms, w, H)
        if sparse.factor(H, *symbolic, column, 1.0) >= 0:
            return frame
        # The second sweep solves for what B_b ẍ + κ_b still is.  Formed from B and not from H^bb,
        # it sees errors of λ before they are squared: the condition number of B_b M^-½ is what
        # remains of that of H^bb (Björck 1987).
        for _ in range(2):
            for r in range(m):
                rhs[r, 0] = -kappa[r]
                for slot in range(4):
                    j = columns[r, slot]
                    if j >= 0:
                        along = 0.0
                        for a in range(dim):
                            along += B[r, slot, a] * F[frame * n + j, a]
                        rhs[r, 0] -= w[j] * along
            sparse.solve(H, *symbolic, rhs)
            for r in range(m):
                out[frame, n * dim + order[r]] -= rhs[r, 0]
                check += 0.0 * rhs[r, 0]
                for slot in range(4):
                    j = columns[r, slot]
                    if j >= 0:
                        for a in range(dim):
                            F[frame * n + j, a] += rhs[r, 0] * B[r, slot, a]
        for k in range(n):
            for a in range(dim):
                out[frame, k * dim + a] = w[k] * F[frame * n + k, a]
                check += 0.0 * out[frame, k * dim + a]
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1


@jit
def soft_accelerations(x, v, motion, n, dim, fixed, kinds, beads, columns, qdd):
    """q̈_a = B_a ẍ + κ_a of every frame; the first frame without an answer, or -1.

    ``motion (frames, n d + …)`` starts with ẍ, as `motion_frames` leaves it.
    """
    P = np.empty((n + 3, 3))
    V = np.empty((n + 3, 3))
    row = np.empty((4, 3))
    for frame in range(qdd.shape[0]):
        place(x, frame, n, dim, fixed, P)
        place_velocities(v, frame, n, dim, fixed, V)
        check = 0.0
        for r in range(kinds.size):
            if not gradient(kinds[r], beads[r], P, dim, fixed, row) > SMALLEST_SINE:
                return frame
            total = curvature(kinds[r], beads[r], P, V, dim, fixed)
            for slot in range(4):
                j = columns[r, slot]
                if j >= 0:
                    for a in range(dim):
                        total += row[slot, a] * motion[frame, j * dim + a]
            qdd[frame, r] = total
            check += 0.0 * total
        if check != 0.0:
            return frame
    return -1
