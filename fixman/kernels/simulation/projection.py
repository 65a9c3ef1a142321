"""Projection onto given values of the hard coordinates, frame by frame.

The nearest point in the metric of the masses: Newton's method onto the manifold, then descent of
|x − x₀|²_M = Σ m |x − x₀|² along it, with the tangential part T of x − x₀,

    T = P (x − x₀) ,   P = 1 − M⁻¹ B_bᵀ (H^bb)⁻¹ B_b ,   x ← shake(x − s T) ,
    s = |Δx|²_M / Δx·M ΔT   (Barzilai & Borwein 1988), Δ from the step before; 1 in the first ,

halved until |x − x₀|²_M is at most the largest of the last `MEMORY` less 1e-4 s |T|²_M (Grippo,
Lampariello & Lucidi 1986).  s is kept in [0.01, 100], and 1 where Δx·M ΔT ≤ 0.  It is done where
|T|_M ≤ `STATIONARY` |x − x₀|_M, or below what rounding shows.
"""

import math

import numpy as np

from fixman.kernels.chain.hard import read_points, read_states
from fixman.kernels.compiler.lanes import exact, exact_arrays, exact_kernel
from fixman.kernels.simulation.constraints import OFTEN, factor, project, room, shake
from fixman.kernels.simulation.general_steps import EPS, rounding
from fixman.kernels.simulation.trials import copy

DESCENT = 2000  # steps along the manifold
NEWTON = 40  # iterations onto it
HALVINGS = 30
MEMORY = 8
STATIONARY = 1e-9  # tangential part of the displacement, relative to all of it


@exact
def tolerance(x, shortest):
    share = rounding(x, 0.0) / shortest
    return max(0.25 * EPS, share * share)


@exact
def square_distance(x, start, masses):
    total = 0.0
    for k in range(x.size):
        total += masses[k] * (x[k] - start[k]) ** 2
    return total


@exact
def onto_manifold(system, space, shortest, X, X0, idle):
    for _ in range(NEWTON):
        copy(X, X0, 0.0)
        factor(system, space, X0, 0.0)
        if not shake(system, space, X0, X, idle, 0.0, (tolerance(X0, shortest), 1), 0.0):
            return True
    return False


@exact_arrays
def nearest(system, space, masses, shortest, start, work):
    """Descend along the manifold from ``work[0]``, where the answer is left; whether it is one.

    ``work`` are x and x before, T of both, and idle units.  The factor at the answer is left too.
    """
    X, X0, T, T0, idle = work
    weight = 0.0
    for k in range(masses.size):
        weight += masses[k]
    recent = np.full(MEMORY, -math.inf)
    objective = square_distance(X, start, masses)
    step = 0.0
    for iteration in range(DESCENT):
        factor(system, space, X, 0.0)
        for k in range(X.size):
            T[k] = X[k] - start[k]
        project(system, space, T, X, 0.0)
        square_T = 0.0
        for k in range(T.size):
            square_T += masses[k] * T[k] * T[k]
        unseen = 0.25 * max(rounding(start, 0.0), rounding(X, 0.0)) * math.sqrt(weight)
        # x is rounded, and so is the objective: what is left may be too small to be seen in it.
        noise = 1000.0 * unseen * math.sqrt(objective)
        if math.sqrt(square_T) <= STATIONARY * math.sqrt(objective) + unseen:
            break
        moved = 0.0
        turned = 0.0
        for k in range(X.size if iteration > 0 else 0):
            change = X[k] - X0[k]
            moved += masses[k] * change * change
            turned += masses[k] * change * (T[k] - T0[k])
        step = min(max(moved / turned, 0.01), 100.0) if turned > 0.0 else 1.0
        recent[iteration % MEMORY] = objective
        highest = -math.inf
        for k in range(MEMORY):
            highest = max(highest, recent[k])
        X, X0 = X0, X
        T, T0 = T0, T
        before = objective
        for _ in range(HALVINGS):
            for k in range(X.size):
                X[k] = X0[k] - step * T0[k]
            limits = tolerance(X0, shortest), OFTEN
            lost = shake(system, space, X0, X, idle, 0.0, limits, 0.0)
            objective = math.inf if lost else square_distance(X, start, masses)
            if objective <= highest - 1e-4 * step * square_T:
                break
            step *= 0.5
        else:
            X, X0, objective = X0, X, before
            break
    copy(X, work[0], 0.0)
    factor(system, space, X, 0.0)
    return math.sqrt(square_T) <= STATIONARY * math.sqrt(objective) + unseen or square_T <= noise


@exact_kernel
def project_frames(x0, v0, system, masses, targets, shortest, x, v):
    """Nearest positions with the targets into ``x``; the first frame without, or -1.

    ``targets (frames, m)`` are in public order, ``shortest (frames,)`` the shortest bond of each,
    ``masses`` belong to the coordinates of all points, 0 to those that do not move.  Velocities,
    where ``v`` is not empty, lose what changes hard coordinates.
    """
    axes = system.axes
    frames, whole = shortest.size, masses.size
    size = x.size // frames if frames else 0
    front = whole - size
    start, X, idle = np.empty(whole), np.empty(whole), np.zeros(whole)
    work = X, np.empty(whole), np.empty(whole), np.empty(whole), idle
    for frame in range(frames):
        space = room(system, targets[frame], 0.0)
        read_points(x0, frame * size, 0, size, start, axes, 0.0)
        copy(start, X, 0.0)
        found = onto_manifold(system, space, shortest[frame], X, work[1], idle)
        found = found and nearest(system, space, masses, shortest[frame], start, work)
        for k in range(size):
            x[frame * size + k] = X[front + k]
        if not found:
            return frame
        if v.size:
            for k in range(front):
                start[k] = 0.0
            read_states(v0, frame * size, 0, size, start, 0.0)
            project(system, space, start, X, 0.0)
            for k in range(size):
                v[frame * size + k] = start[front + k]
    return -1
