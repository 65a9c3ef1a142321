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
between them, for the chains concerned and without another random number.

Joints are the beads, behind the points that do not move; arrays are flat and of units, joint k from
unit k·dim (see `lanes`).  What depends on the kind of hard rows is done by the functions that
`constraints` chooses for the type of ``system``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import forces
from fixman.kernels.constraints import (
    OFTEN,
    add_metric_force,
    factor,
    hold,
    project,
    room,
)
from fixman.kernels.lanes import (
    choose,
    exact,
    exact_kernel,
    fma,
    lanes,
    load,
    memory,
    put,
    store,
    take,
    zeros,
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


class Replicas(NamedTuple):
    """States as flat arrays: positions and velocities, four words of a random stream each.

    ``held`` is the number of the ``targets`` of each.
    """

    x: np.ndarray[Any, np.dtype[np.float64]]
    v: np.ndarray[Any, np.dtype[np.float64]]
    random: np.ndarray[Any, np.dtype[np.uint64]]
    targets: np.ndarray[Any, np.dtype[np.float64]]
    held: int


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
def kick(V, F, kicks, axes, like):
    for k in range(kicks.size):
        s = kicks[k] + 0.0 * like
        put_vector(V, k, axes, along(s, vector(F, k, axes, like), vector(V, k, axes, like)))


@exact
def collide(V, noise, c, spread, axes, ghosts, like):
    """v ← c v + spread ξ."""
    for k in range(ghosts, spread.size):
        xi = scaled(spread[k] + 0.0 * like, vector(noise, k - ghosts, axes, like))
        put_vector(V, k, axes, along(c + 0.0 * like, vector(V, k, axes, like), xi))


@exact_kernel
def rescue(system, space, X, V, X1, V1, h, tolerance, lost, like):
    """Redo the drift of the lanes ``lost``, in pieces; those that even the smallest do not move.

    All lanes go the way in pieces, but what the others find is not used.
    """
    size = X.size // lanes(like)
    x = memory(size, like)
    v = memory(size, like)
    x1 = memory(size, like)
    v1 = memory(size, like)
    pieces = 1
    for _ in range(RESCUES):
        pieces *= 2
        piece = h / pieces
        for k in range(size):
            store(x, k, load(X, k, like))
            store(v, k, load(V, k, like))
        stuck = 0
        for _ in range(pieces):
            factor(system, space, x, like)
            project(system, space, v, x, like)
            depart(x, v, x1, v1, piece, like)
            stuck |= hold(system, space, x, x1, v1, 1.0 / piece, (tolerance, OFTEN), like)
            if lost & ~stuck == 0:
                break
            x, x1 = x1, x
            v, v1 = v1, v
        met = lost & ~stuck
        for k in range(size):
            store(X1, k, choose(met, load(x, k, like), load(X1, k, like)))
            store(V1, k, choose(met, load(v, k, like), load(V1, k, like)))
        lost &= ~met
        if lost == 0:
            break
    return lost


@exact_kernel
def advance(replicas, system, motion, tables, steps, first, last, states):
    """Do ``steps`` steps on replicas from ``first`` to ``last``, one by one or in lanes (`states`).

    Returns the step and the replica that failed, or −1.  Without ``tables`` of a potential, None,
    the code is compiled without it.  No steps at all project the velocities.
    """
    like = zeros(states)
    n = motion.n
    dim = len(system.axes)
    size = motion.kicks.size * dim
    own = n * dim
    front = size - own
    ghosts = motion.kicks.size - n
    width = lanes(like)
    metric = motion.kT > 0.0
    forced = (metric or tables is not None) and steps > 0
    halves = 2 if motion.thermostat else 1
    h = motion.dt / halves
    for group in range(first, last, width):
        x = replicas.x[group * own : (group + width) * own]
        v = replicas.v[group * own : (group + width) * own]
        X = memory(size, like)
        V = memory(size, like)
        X1 = memory(size, like)
        V1 = memory(size, like)
        F = memory(size, like)
        noise = memory(own if motion.thermostat else 0, like)
        held = replicas.held
        space = room(system, replicas.targets[group * held : (group + width) * held], like)
        if tables is not None:
            work = memory(0, like)
        place_ghosts(X, front, dim, like)
        read(x, X, front, own, like)
        read(v, V, front, own, like)
        # The forces of the last step are lost between two calls: step −1 finds them again.
        for step in range(-1, steps):
            moving = step >= 0
            if moving and forced:
                kick(V, F, motion.kicks, system.axes, like)
            parts = halves if moving else 1
            for part in range(parts):
                end = part + 1 == parts
                if moving:
                    depart(X, V, X1, V1, h, like)
                    lost = hold(system, space, X, X1, V1, 1.0 / h, (motion.tolerance, OFTEN), like)
                    if lost:
                        lost = rescue(system, space, X, V, X1, V1, h, motion.tolerance, lost, like)
                    if lost:
                        return step, group + lowest(lost)
                    X, X1 = X1, X
                    V, V1 = V1, V
                if not end:
                    for lane in range(width):
                        fill_normals(
                            replicas.random, WORDS * (group + lane), own, noise, lane, width
                        )
                    collide(V, noise, motion.c, motion.spread, system.axes, ghosts, like)
                factor(system, space, X, like)
                if end and forced:
                    for k in range(size):
                        store(F, k, 0.0 * like)
                    if tables is not None:
                        work = forces.add_forces(X, F, ghosts, tables, work, like)
                    if metric:
                        add_metric_force(system, space, F, X, motion.kT, like)
                    if moving:
                        kick(V, F, motion.kicks, system.axes, like)
                if moving or steps == 0:
                    project(system, space, V, X, like)
        write(x, X, front, own, like)
        write(v, V, front, own, like)
        for lane in range(width):
            check = 0.0
            for k in range(lane * own, (lane + 1) * own):
                check += 0.0 * x[k] + 0.0 * v[k]
            if check != 0.0:
                return steps - 1, group + lane
    return -1, 0


@exact
def lowest(bits):
    """Return the first of the lanes."""
    lane = 0
    while not (bits >> lane) & 1:
        lane += 1
    return lane
