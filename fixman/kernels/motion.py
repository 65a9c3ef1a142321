"""Constrained motion for any hard set, frame by frame (theory.md section 3).

Hard rows come in factor order.  ``terms (t, 4)`` lists the products that make up H^bb: place in
the storage of its elements, the two (row, slot) pairs as flat numbers, and the bead whose inverse
mass weighs them.  H^bb is stored and factored as in `sparse`, on the pattern ``symbolic``.  A
linear chain whose hard rows are exactly its bonds passes the masses of its joints as ``links``
(see `freely_jointed`) and is factored without subtractions instead; its motion in space is that of
`jointed_motion`.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit, metric, sparse, tridiagonal
from fixman.kernels.geometry import (
    SMALLEST_SINE,
    curvature,
    gradient,
    place,
    place_velocities,
)
from fixman.kernels.vectors import cross, dot


@jit
def hard_matrix(B, terms, w, H):
    """H^bb = B_b M⁻¹ B_bᵀ into the storage that the terms are for."""
    metric.hard_matrix(B, terms, w, H, H.size, 0.0)


@jit
def joint(B, k):
    """Cosine and |sine| between bonds k and k + 1, whose Wilson rows end in their directions."""
    u = (B[k, 1, 0], B[k, 1, 1], B[k, 1, 2])
    v = (B[k + 1, 1, 0], B[k + 1, 1, 1], B[k + 1, 1, 2])
    w = cross(u, v)
    return dot(u, v), math.sqrt(dot(w, w))


@jit
def workspace(pattern):
    """Arrays for one factor of H^bb: elements of L, or what the tridiagonal kernels need.

    The ``pattern`` is (terms, symbolic, links).
    """
    _, symbolic, links = pattern
    bonds = max(links.shape[1] - 1, 0)
    joints = max(bonds - 1, 0)
    V = np.empty(symbolic[1].size)
    column = np.empty(symbolic[0].size - 1)
    return V, column, np.empty(joints), np.empty(joints), np.empty(bonds), np.empty(joints)


@jit
def factor(B, w, pattern, work):
    """Factor H^bb; False where a pivot is lost."""
    terms, symbolic, links = pattern
    V, column, cosines, sines, inverse, g = work
    if links.size == 0:
        hard_matrix(B, terms, w, V)
        return sparse.factor(V, *symbolic, column, 1.0) < 0
    for k in range(cosines.size):
        cosines[k], sines[k] = joint(B, k)
    return tridiagonal.factor(links[0], cosines, sines, inverse, g)


@jit
def solve(pattern, work, rhs):
    """Overwrite ``rhs (m, 1)`` with (H^bb)⁻¹ rhs."""
    _, symbolic, links = pattern
    V, _, _, _, inverse, g = work
    if links.size == 0:
        sparse.solve(V, *symbolic, rhs)
    else:
        tridiagonal.solve(inverse, g, rhs)


@jit
def add_torques(x, torque, n, dim, fixed, kinds, beads, columns, F):
    """F ← F + B_aᵀ τ of every frame; the first frame whose τ acts on a row that is none, or -1."""
    m = kinds.size
    P = np.empty((n + 3, 3))
    row = np.empty((4, 3))
    for frame in range(torque.size // m):
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
    terms, first, row, left_first, left_place, left_column, links, out,
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
    pattern = (terms, (first, row, left_first, left_place, left_column), links)
    work = workspace(pattern)
    for frame in range(out.shape[0]):
        if not (place(x, frame, n, dim, fixed, P) and place_velocities(v, frame, n, dim, fixed, V)):
            return frame
        check = 0.0
        for r in range(m):
            if not gradient(kinds[r], beads[r], P, dim, fixed, B[r]) > SMALLEST_SINE:
                return frame
            kappa[r] = curvature(kinds[r], beads[r], P, V, dim, fixed)
            out[frame, n * dim + order[r]] = 0.0
        if not factor(B, w, pattern, work):
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
            solve(pattern, work, rhs)
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
