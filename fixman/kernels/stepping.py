"""Constrained dynamics in time: RATTLE and g-BAOAB, one chain or eight at a time.

A step from positions x on the manifold and velocities v along it, with forces f and h = dt / 2:

    v ← v + h f / m
    Newton     drift(dt)
    Langevin   drift(h), v ← c v + √(kT (1 − c²) / m) ξ, project v, drift(h)      c = exp(−γ dt)
    f ← forces(x),  v ← v + h f / m,  project v

A drift moves along the manifold: x ← x + h v + M⁻¹ B(x)ᵀ λ with the λ that keeps the hard values,
and v ← Δx / h (RATTLE, Andersen 1983; Leimkuhler & Matthews 2016, whose B half steps are here at
the two ends of the step, so that positions and velocities belong to one time).  What v has across
the manifold before a drift is taken up by λ, which saves a projection.

A drift may be too long to have a λ.  It is then redone in 2, 4, 8, … pieces, which are projected
between them: that of the chain concerned alone, and without another random number.

Joints are the beads, behind the points that do not move; arrays are flat and of units, joint k from
unit k·dim (see `lanes`).  What depends on the kind of hard rows is done by the functions that
`constraints` chooses for the type of ``system``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import forces
from fixman.kernels.constraints import (
    add_metric_force,
    factor,
    hold,
    project,
    room,
)
from fixman.kernels.lanes import (
    eight,
    exact,
    exact_kernel,
    fma,
    lanes,
    load,
    memory,
    put,
    store,
    take,
)
from fixman.kernels.random import WORDS, fill_normals
from fixman.kernels.vectors import along, put_vector, scaled, vector

RESCUES = 10  # halvings of a drift


class Motion(NamedTuple):
    """What is to be done, for all chains alike.

    ``kicks`` = dt / 2 m and ``spread`` = √(kT (1 − c²) / m) belong to the joints, ``kT`` to the
    Fixman force: 0 for none.
    """

    n: int
    dt: float
    thermostat: bool
    c: float
    kT: float
    tolerance: float
    kicks: np.ndarray[Any, np.dtype[np.float64]]
    spread: np.ndarray[Any, np.dtype[np.float64]]


@exact
def read(x, X, at, size, like):
    """States (one or eight, size) into units from ``at``."""
    for k in range(size):
        store(X, at + k, take(x, k, size, like))


@exact
def place_ghosts(X, front, dim, like):
    """The points x₋₂, x₋₁ and x₀ of a fixed base, where there are all three; x₀ is 0."""
    if front == 3 * dim:
        store(X, 0, 0.0 * like - 1.0)
        store(X, 1, 0.0 * like - 1.0)
        store(X, dim, 0.0 * like - 1.0)


@exact
def write(x, X, at, size, like):
    for k in range(size):
        put(x, k, size, load(X, at + k, like))


@exact
def depart(X, V, X1, V1, h, like):
    """X + h V and V into X1 and V1."""
    for k in range(X.size // lanes(like)):
        v = load(V, k, like)
        store(V1, k, v)
        store(X1, k, fma(h, v, load(X, k, like)))


@exact
def kick(V, F, kicks, dim, like):
    for k in range(kicks.size):
        s = kicks[k] + 0.0 * like
        put_vector(V, k, dim, along(s, vector(F, k, dim, like), vector(V, k, dim, like)))


@exact
def collide(V, noise, c, spread, dim, ghosts, like):
    """v ← c v + spread ξ."""
    for k in range(ghosts, spread.size):
        xi = scaled(spread[k] + 0.0 * like, vector(noise, k - ghosts, dim, like))
        put_vector(V, k, dim, along(c + 0.0 * like, vector(V, k, dim, like), xi))


@exact_kernel
def rescue(system, targets, X, V, X1, V1, h, tolerance, lane, width):
    """Drift of one lane of ``width`` in pieces; false if even the smallest have no solution."""
    size = X.size // width
    x = np.empty(size)
    v = np.empty(size)
    x1 = np.empty(size)
    v1 = np.empty(size)
    own = targets.size // width
    space = room(system, targets[lane * own : (lane + 1) * own], 0.0)
    pieces = 1
    for _ in range(RESCUES):
        pieces *= 2
        piece = h / pieces
        for k in range(size):
            x[k] = X[width * k + lane]
            v[k] = V[width * k + lane]
        met = True
        for _ in range(pieces):
            factor(system, space, x, 0.0)
            project(system, space, v, x, 0.0)
            depart(x, v, x1, v1, piece, 0.0)
            if hold(system, space, x, x1, v1, 1.0 / piece, tolerance, 0.0):
                met = False
                break
            x, x1 = x1, x
            v, v1 = v1, v
        if met:
            for k in range(size):
                X1[width * k + lane] = x[k]
                V1[width * k + lane] = v[k]
            return True
    return False


@exact
def advance(x, v, streams, targets, system, motion, tables, steps, like):
    """Do ``steps`` steps; returns the step and the lane that failed, or −1.

    ``x``, ``v`` and ``streams``, of one chain or of eight, are replaced.  Without ``tables`` of a
    potential, None, the code is compiled without it.
    """
    n = motion.n
    dim = len(system.axes)
    ghosts = motion.kicks.size - n
    size = motion.kicks.size * dim
    front = ghosts * dim
    width = lanes(like)
    X = memory(size, like)
    V = memory(size, like)
    X1 = memory(size, like)
    V1 = memory(size, like)
    F = memory(size, like)
    noise = memory(n * dim if motion.thermostat else 0, like)
    space = room(system, targets, like)
    if tables is not None:
        work = forces.workspace(tables, n, dim, like)
    place_ghosts(X, front, dim, like)
    read(x, X, front, n * dim, like)
    read(v, V, front, n * dim, like)
    metric = motion.kT > 0.0
    forced = metric or tables is not None
    halves = 2 if motion.thermostat else 1
    h = motion.dt / halves
    for step in range(-1, steps):
        # The forces of the last step are lost between two calls: step −1 finds them again.
        moving = step >= 0
        if moving and forced:
            kick(V, F, motion.kicks, dim, like)
        parts = halves if moving else 1
        for part in range(parts):
            last = part + 1 == parts
            if moving:
                depart(X, V, X1, V1, h, like)
                lost = hold(system, space, X, X1, V1, 1.0 / h, motion.tolerance, like)
                if lost:
                    for lane in range(width):
                        if (lost >> lane) & 1 and not rescue(
                            system, targets, X, V, X1, V1, h, motion.tolerance, lane, width
                        ):
                            return step, lane
                X, X1 = X1, X
                V, V1 = V1, V
            if not last:
                for lane in range(width):
                    fill_normals(streams, WORDS * lane, n * dim, noise, lane, width)
                collide(V, noise, motion.c, motion.spread, dim, ghosts, like)
            factor(system, space, X, like)
            if last and forced:
                for k in range(size):
                    store(F, k, 0.0 * like)
                if tables is not None:
                    beads = width * front
                    work = forces.add_forces(X[beads:], F[beads:], n, dim, tables, work, like)
                if metric:
                    add_metric_force(system, space, F, X, motion.kT, like)
                if moving:
                    kick(V, F, motion.kicks, dim, like)
            if moving:
                project(system, space, V, X, like)
    write(x, X, front, n * dim, like)
    write(v, V, front, n * dim, like)
    for lane in range(width):
        check = 0.0
        for k in range(n * dim):
            check += 0.0 * x[lane * n * dim + k] + 0.0 * v[lane * n * dim + k]
        if check != 0.0:
            return steps - 1, lane
    return -1, 0


@exact_kernel
def project_one(v, x, targets, system, ghosts):
    """Project the velocities of one chain."""
    front = ghosts * len(system.axes)
    X = memory(front + x.size, 0.0)
    V = memory(front + v.size, 0.0)
    place_ghosts(X, front, len(system.axes), 0.0)
    read(x, X, front, x.size, 0.0)
    read(v, V, front, v.size, 0.0)
    space = room(system, targets, 0.0)
    factor(system, space, X, 0.0)
    project(system, space, V, X, 0.0)
    write(v, V, front, v.size, 0.0)


@exact
def advance_groups(x, v, streams, targets, system, motion, tables, steps, first, last, like):
    """`advance` for the replicas from ``first`` to ``last``; the step and replica that failed."""
    width = lanes(like)
    size = motion.n * len(system.axes)
    own = targets.size // (x.size // size)
    for k in range(first, last, width):
        step, lane = advance(
            x[k * size : (k + width) * size],
            v[k * size : (k + width) * size],
            streams[k * WORDS : (k + width) * WORDS],
            targets[k * own : (k + width) * own],
            system, motion, tables, steps, like,
        )  # fmt: skip
        if step >= 0:
            return step, k + lane
    return -1, 0


@exact_kernel
def advance_each(x, v, streams, targets, system, motion, tables, steps, first, last):
    """Replicas one by one."""
    return advance_groups(x, v, streams, targets, system, motion, tables, steps, first, last, 0.0)


@exact_kernel
def advance_eights(x, v, streams, targets, system, motion, tables, steps, first, last):
    """Replicas in lanes."""
    return advance_groups(
        x, v, streams, targets, system, motion, tables, steps, first, last, eight(0.0)
    )
