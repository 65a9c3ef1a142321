"""Projections for any hard set that moves: trees, rings, hard torsions, fixed bases.

Rows are those of the chain, in factor order (see `hard`), except that a length is held by its
square, and so is a hard angle between hard lengths, by the distance of its outer beads, if it is
not nearly straight: the same manifold, and det H differs by a constant.

H^bb at the positions where a drift begins is at hand from the projection of the velocities, and
serves in Newton's method in place of B(x) M⁻¹ B(x₀)ᵀ, with an error of first order in the drift.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra.vectors import dot, vector
from fixman.kernels.chain import hard
from fixman.kernels.chain.rows import (
    DIFFERENCE,
    SQUARE,
    STRAIGHT_Y,
    SUM,
    TURN,
    bonds,
    measure,
    straight,
    unit,
)
from fixman.kernels.compiler.lanes import (
    beyond,
    choose,
    entry,
    everywhere,
    exact,
    exact_arrays,
    fma,
    lanes,
    larger,
    load,
    memory,
    part,
    root,
    store,
    take,
)
from fixman.kernels.factors import sparse

CHORDS = 50  # iterations: where the drift is moderate five to eight are needed
EPS = 2.0**-52


class Room(NamedTuple):
    """What the targets are, two constants a row; the hard block; multipliers, and their sum."""

    goals: np.ndarray[Any, np.dtype[np.float64]]
    block: hard.Block
    rhs: np.ndarray[Any, np.dtype[np.float64]]
    total: np.ndarray[Any, np.dtype[np.float64]]


@exact_arrays
def room(system, targets, like):
    """½ d² and d of a distance row, cosine and sine of an angle, and memory."""
    m = system.kinds.size
    vectors = system.total * len(system.axes)
    whole = memory(2 * (vectors + system.symbolic[1].size) + 7 * m, like)
    goals = part(whole, 0, 2 * m, like)
    for k in range(2 * m):
        store(goals, k, take(targets, k, 2 * m, like))
    return Room(
        goals,
        hard.block(system, whole, 4 * m, like),
        part(whole, 2 * m, m, like),
        part(whole, 3 * m, m, like),
    )


@exact
def magnitude(x):
    return larger(x, -x)


@exact
def residual(kind, u, v, t, e, goal, size, far):
    """What a row lacks of its goal, its unit, and rounding where positions are of ``size``.

    Of angles it is the sine of the difference, and from there on to 2 where that is beyond π/2;
    of a straight bend its component along e.  No arrays: numba would count references to them.
    """
    a, b = goal
    if kind == SQUARE:
        rest = fma(-0.5, dot(u, u), a)
        if far:  # as if the row were the length and not its square
            length = root(dot(u, u))
            rest *= (length + length) / (length + b)
        return rest, a + a, size * b
    zero = 0.0 * size
    if DIFFERENCE <= kind <= SUM:
        value, _, _ = measure(kind, u, v, t)
        return a - value, root(dot(u, u)) + root(dot(t, t)), size + size
    noise = size * (1.0 / root(dot(u, u)) + 1.0 / root(dot(v, v)))
    if STRAIGHT_Y <= kind < TURN:
        value, _ = straight(u, v, e)
        return -value, zero + 1.0, noise
    c, s, _ = measure(kind, u, v, t)
    inverse = 1.0 / root(fma(s, s, c * c))
    sine = (b * c - a * s) * inverse
    rest = 2.0 - magnitude(sine)
    rest = choose(beyond(zero, sine), -rest, rest)
    return choose(beyond(zero, a * c + b * s), rest, sine), zero + 1.0, noise


@exact
def hold(system, room, X0, X, V, rate, limits, like):
    """Newton's method with the factor of H at X0 for the hard values of X; the lanes it lost.

    ``limits`` are the largest relative error and how often it tries; once, it is on its way from
    afar.
    """
    m = system.kinds.size
    axes, kinds, points, vectors = system.axes, system.kinds, system.points, system.vectors
    tolerance, iterations = limits
    goals, block, rhs, total = room
    B = block.B
    zero = 0.0 * like
    none = zero, zero, zero
    busy = everywhere(like) if m > 0 else 0
    size = zero
    for k in range(X.size // lanes(like)):
        size = larger(magnitude(load(X, k, like)), size)
    size = (4.0 * EPS) * size
    for r in range(m):
        store(total, r, zero)
    for _ in range(min(iterations, CHORDS)):
        worst = zero
        for r in range(m):
            kind = entry(kinds, r)
            u, v, t = bonds(X, points, r, kind, axes, like)
            e = none
            if STRAIGHT_Y <= kind < TURN:  # across the line as the rows have it
                e = unit(vector(B, entry(vectors, r) + 2, axes, like))
            goal = load(goals, 2 * r, like), load(goals, 2 * r + 1, like)
            rest, whole, noise = residual(kind, u, v, t, e, goal, size, iterations == 1)
            store(rhs, r, rest)
            worst = larger(magnitude(rest) - fma(tolerance + zero, whole, noise), worst)
        busy &= beyond(worst, zero)
        if busy == 0:
            break
        sparse.solve(block.H, block.D, system.symbolic, rhs, like)
        for r in range(m):
            push = choose(busy, load(rhs, r, like), zero)
            store(rhs, r, push)
            store(total, r, load(total, r, like) + push)
        hard.push(system, B, rhs, system.shares, X, axes, like)
    for r in range(m):
        store(total, r, rate * load(total, r, like))
    hard.push(system, B, total, system.shares, V, axes, like)
    return busy


@exact
def factor(system, room, X, like):
    """Vectors at X and LDLᵀ of H; a pivot that is lost becomes NaN, and so does what follows."""
    hard.factor(system, room.block, X, like)


@exact
def logdet(system, room, like):
    """ln det H^bb of these rows, given the factor."""
    return sparse.log_product(room.block.H, system.symbolic[0], like)


@exact
def project(system, room, V, X, like):
    """V ← V + M⁻¹ Bᵀ λ with H λ = −B V, given the factor at X."""
    block = room.block
    for r in range(system.kinds.size):
        store(room.rhs, r, 0.0 * like)
    hard.pull(system, block.B, V, system.signs, room.rhs, like)
    sparse.solve(block.H, block.D, system.symbolic, room.rhs, like)
    hard.push(system, block.B, room.rhs, system.shares, V, system.axes, like)


@exact
def add_metric_force(system, room, F, X, kT, like):
    """Add the exact Fixman force to F, but for parts along rows."""
    hard.add_metric_force(system, room.block, F, X, kT, like)
