"""Projection onto given values of the hard coordinates, frame by frame.

The nearest point in the metric of the masses: Newton's method onto the manifold, then descent of
½ Σ m |x − x₀|² along it.  A step goes against the tangential part of x − x₀, scaled after Barzilai
and Borwein (1988), and returns to the manifold by Newton's method; it is halved until the
objective is below the largest of the last few, which is what keeps such steps safe.

Tables are those of `motion`.  A linear chain whose hard rows are exactly its bonds passes the
masses of its joints as ``links`` (see `freely_jointed`) and is factored without subtractions.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit, sparse, tridiagonal
from fixman.kernels.geometry import LENGTH, SMALLEST_SINE, gradient, place, value
from fixman.kernels.motion import hard_matrix
from fixman.kernels.vectors import cross, dot

DESCENT = 2000  # steps along the manifold
NEWTON = 40  # iterations onto it
HALVINGS = 30
MEMORY = 8
STATIONARY = 1e-9  # tangential part of the displacement, relative to all of it
EPS = 2.0**-52
COARSE = 1e-6  # of a length, or rad: what rounded positions must be able to represent

MET, SINGULAR, MISSED, FAR = 0, 1, 2, 3


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
def remove_rows(rhs, B, columns, w, y):
    """y ← y − M⁻¹ B_bᵀ rhs."""
    for r in range(B.shape[0]):
        for slot in range(4):
            j = columns[r, slot]
            if j >= 0:
                for a in range(y.shape[1]):
                    y[j, a] -= w[j] * rhs[r, 0] * B[r, slot, a]


@jit
def apply_rows(B, columns, y, rhs):
    """Rhs ← B_b y."""
    for r in range(B.shape[0]):
        rhs[r, 0] = 0.0
        for slot in range(4):
            j = columns[r, slot]
            if j >= 0:
                for a in range(y.shape[1]):
                    rhs[r, 0] += B[r, slot, a] * y[j, a]


@jit
def largest(x):
    """Return the largest coordinate."""
    size = 0.0
    for k in range(x.shape[0]):
        for a in range(x.shape[1]):
            size = max(size, abs(x[k, a]))
    return size


@jit
def onto_manifold(x, targets, fixed, w, kinds, beads, columns, pattern, P, B, rhs, work):
    """Newton's method for q_b(x) = targets on one configuration; B and its factor are left at x.

    Rows are met to the rounding of the positions found.  That is `FAR` from any answer where it is
    more than `COARSE`.
    """
    n, dim = x.shape
    coarse = False
    for _ in range(NEWTON):
        place(x, 0, n, dim, fixed, P)
        size = largest(x)
        met = True
        coarse = False
        for r in range(kinds.size):
            q, _ = value(kinds[r], beads[r], P, dim, fixed)
            if not gradient(kinds[r], beads[r], P, dim, fixed, B[r]) > SMALLEST_SINE:
                return SINGULAR
            residual = q - targets[r]
            if kinds[r] > LENGTH:
                residual -= 2.0 * math.pi * round(residual / (2.0 * math.pi))
            stiffness = 0.0
            for slot in range(4):
                stiffness += math.sqrt(B[r, slot, 0] ** 2 + B[r, slot, 1] ** 2 + B[r, slot, 2] ** 2)
            share = abs(targets[r]) if kinds[r] == LENGTH else 1.0
            coarse = coarse or 0.5 * EPS * size * stiffness > COARSE * share
            met = met and abs(residual) <= 4.0 * EPS * (size * stiffness + abs(q))
            rhs[r, 0] = residual
        if not factor(B, w, pattern, work):
            return SINGULAR
        if met:
            return FAR if coarse else MET
        solve(pattern, work, rhs)
        remove_rows(rhs, B, columns, w, x)
    return FAR if coarse else MISSED


@jit
def remoteness(x, start, w):
    """Σ m |x − x₀|²."""
    total = 0.0
    for k in range(x.shape[0]):
        for a in range(x.shape[1]):
            total += (x[k, a] - start[k, a]) ** 2 / w[k]
    return total


@jit
def project_frames(
    x0, targets, n, dim, fixed, w, kinds, beads, columns,
    terms, first, row, left_first, left_place, left_column, links, x,
):  # fmt: skip
    """Nearest positions with the targets into ``x``; targets come in factor order.

    Returns -1, or four times the first failing frame plus its state.
    """
    m = kinds.size
    P = np.empty((n + 3, 3))
    B = np.empty((m, 4, 3))
    rhs = np.empty((m, 1))
    pattern = (terms, (first, row, left_first, left_place, left_column), links)
    work = workspace(pattern)
    tangent = np.empty((n, dim))
    fresh = np.empty((n, dim))
    before = np.empty((n, dim))
    recent = np.empty(MEMORY)
    inertia = 0.0
    for k in range(n):
        inertia += dim / w[k]
    for frame in range(targets.shape[0]):
        start = x0[frame * n : (frame + 1) * n]
        here = x[frame * n : (frame + 1) * n]
        goal = targets[frame]
        size = largest(start)
        for k in range(n):
            for a in range(dim):
                before[k, a] = start[k, a]
                tangent[k, a] = 0.0
        for k in range(MEMORY):
            recent[k] = -math.inf
        highest = math.inf
        distance_before = 0.0
        slope = 0.0
        step = 1.0
        iteration = 0
        halvings = 0
        found = False
        while iteration < DESCENT:
            for k in range(n):
                for a in range(dim):
                    here[k, a] = before[k, a] - step * tangent[k, a]
            state = onto_manifold(
                here, goal, fixed, w, kinds, beads, columns, pattern, P, B, rhs, work
            )
            if iteration == 0 and state != MET:
                return 4 * frame + state
            distance = remoteness(here, start, w) if state == MET else math.inf
            if iteration > 0 and not distance <= highest - 1e-4 * step * slope:
                step *= 0.5
                halvings += 1
                if halvings < HALVINGS:
                    continue
                for k in range(n):
                    for a in range(dim):
                        here[k, a] = before[k, a]
                break
            halvings = 0
            # The tangential part of the displacement.
            for k in range(n):
                for a in range(dim):
                    fresh[k, a] = here[k, a] - start[k, a]
            apply_rows(B, columns, fresh, rhs)
            solve(pattern, work, rhs)
            remove_rows(rhs, B, columns, w, fresh)
            slope = 0.0
            moved = 0.0
            turned = 0.0
            for k in range(n):
                mass = 1.0 / w[k]
                for a in range(dim):
                    slope += mass * fresh[k, a] ** 2
                    change = here[k, a] - before[k, a]
                    moved += mass * change * change
                    turned += mass * change * (fresh[k, a] - tangent[k, a])
                    before[k, a] = here[k, a]
                    tangent[k, a] = fresh[k, a]
            rounding = EPS * size * math.sqrt(inertia)
            if math.sqrt(slope) <= STATIONARY * math.sqrt(distance) + rounding:
                found = True
                break
            step = 1.0
            if iteration > 0 and turned > 0.0:
                step = min(max(moved / turned, 0.01), 100.0)
            recent[iteration % MEMORY] = distance
            highest = -math.inf
            for k in range(MEMORY):
                highest = max(highest, recent[k])
            distance_before = distance
            iteration += 1
        # x is rounded, and so is the objective: what is left may be too small to be seen in it.
        if not found and slope > 1000.0 * EPS * size * math.sqrt(distance_before * inertia):
            return 4 * frame + MISSED
    return -1


@jit
def project_velocities(
    x, v, frames, n, dim, fixed, w, kinds, beads, columns,
    terms, first, row, left_first, left_place, left_column, links,
):  # fmt: skip
    """Remove from ``v`` what changes hard coordinates; the first singular frame, or -1."""
    m = kinds.size
    P = np.empty((n + 3, 3))
    B = np.empty((m, 4, 3))
    rhs = np.empty((m, 1))
    pattern = (terms, (first, row, left_first, left_place, left_column), links)
    work = workspace(pattern)
    for frame in range(frames):
        moving = v[frame * n : (frame + 1) * n]
        place(x, frame, n, dim, fixed, P)
        for r in range(m):
            if not gradient(kinds[r], beads[r], P, dim, fixed, B[r]) > SMALLEST_SINE:
                return frame
        apply_rows(B, columns, moving, rhs)
        if not factor(B, w, pattern, work):
            return frame
        solve(pattern, work, rhs)
        remove_rows(rhs, B, columns, w, moving)
    return -1
