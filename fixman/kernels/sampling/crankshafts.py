"""Moves of parts of a chain in Monte Carlo, each tried and accepted or refused in O(n).

A move turns beads about a point, about the line through two others, or shifts all of them.  It
keeps the hard q_b, and volume as a map of all positions, since its rotation depends on the other
beads alone.  So it keeps Π δ(q_b − b) dx, the stiff measure.  Proposals are symmetric, and a move
is accepted with min(1, W′/W), W = e^(−U/kT), in the rigid ensemble √det H^bb e^(−U/kT).

Points are the beads, behind those of a fixed base, which do not move (see `hard`).
"""

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra import vectors as vec
from fixman.kernels.algebra.random import WORDS
from fixman.kernels.chain import hard
from fixman.kernels.compiler import addresses
from fixman.kernels.compiler.lanes import exact_call, exact_kernel, memory
from fixman.kernels.factors import sparse
from fixman.kernels.sampling.pivots import rotated, spin, turn, uniform

POINT, LINE, RING, SHIFT = range(4)
OUTSIDE = -1  # instead of a bead


class Moves(NamedTuple):
    """Moves of a chain.

    order (n,) : beads so that those on one side of a joint stand in a row
    kinds (M,) : of each move
    spans (M, 2) : from where to where in ``order`` beads turn; of `RING` in ``rings``
    lines (M, 2) : the points of a line, of `POINT` the second
    rings : places in ``order`` of the beads round each ring, `OUTSIDE` for the base point
    front : coordinates of the points before the beads
    steps (R,) : lengths of the widest shift of each replica; (0,) without shifts
    """

    order: np.ndarray[Any, np.dtype[np.int64]]
    kinds: np.ndarray[Any, np.dtype[np.int64]]
    spans: np.ndarray[Any, np.dtype[np.int64]]
    lines: np.ndarray[Any, np.dtype[np.int64]]
    rings: np.ndarray[Any, np.dtype[np.int64]]
    front: np.ndarray[Any, np.dtype[np.float64]]
    steps: np.ndarray[Any, np.dtype[np.float64]]


@exact_call
def between(words, rings, span):
    """Two places round a ring, the first one first, that are not neighbours, and the stream."""
    size = span[1] - span[0]
    while True:
        f, words = uniform(words)
        g, words = uniform(words)
        i, j = int(f * size), int(g * size)
        if j - i >= 2:
            return span[0] + i, span[0] + j, words


@exact_kernel
def proposal(words, moves, move, X, width, dim):
    """Places that turn, the point and the rotation; false for no axis; and the stream."""
    kind = moves.kinds[move]
    first, end = moves.spans[move, 0], moves.spans[move, 1]
    one, two = moves.lines[move, 0], moves.lines[move, 1]
    if kind == POINT:
        q, words = turn(words, width, dim)
        return (first, end, two), q, True, words
    if kind == RING:
        front = moves.front.size // dim
        i, j, words = between(words, moves.rings, (first, end))
        first, end = moves.rings[i + 1], moves.rings[j]
        one = front - 1
        if moves.rings[i] >= 0:
            one = front + moves.order[moves.rings[i]]
        two = front + moves.order[end]
    c, s, words = spin(words, width)
    axis = vec.minus(vec.vector(X, two, vec.SPACE, 0.0), vec.vector(X, one, vec.SPACE, 0.0))
    square = vec.dot(axis, axis)
    if not square > 0.0:
        return (first, end, two), (1.0, 0.0, 0.0, 0.0), False, words
    axis = vec.scaled(s / math.sqrt(square), axis)
    return (first, end, two), (c, axis[0], axis[1], axis[2]), True, words


@exact_kernel
def turned(moves, part, q, X, Y, dim):
    first, end, point = part
    front = moves.front.size // dim
    for k in range(X.size):
        Y[k] = X[k]
    x, y, z = X[dim * point], X[dim * point + 1], X[dim * point + 2] if dim == 3 else 0.0
    for place in range(first, end):
        k = dim * (front + moves.order[place])
        v = rotated(q, (X[k] - x, X[k + 1] - y, X[k + 2] - z if dim == 3 else 0.0))
        Y[k], Y[k + 1] = x + v[0], y + v[1]
        if dim == 3:
            Y[k + 2] = z + v[2]


@exact_call
def tried(words, moves, move, X, Y, width, dim, replica):
    """Put the points X after a move into Y; false for no axis; and the stream."""
    if moves.kinds[move] == SHIFT:
        for a in range(dim):
            f, words = uniform(words)
            shift = moves.steps[replica] * (width / math.pi) * (f + f - 1.0)
            for k in range(moves.front.size + a, X.size, dim):
                Y[k] = X[k] + shift
        return True, words
    part, q, exists, words = proposal(words, moves, move, X, width, dim)
    turned(moves, part, q, X, Y, dim)
    return exists, words


@exact_call
def log_weight(X, F, system, potential, kT, space, first):
    """½ ln det H^bb − U/kT, each if there is one; NaN where there is no weight."""
    total = 0.0
    if system is not None:
        found = hard.factor(system, space, X, 0.0)
        total = 0.5 * sparse.log_product(space.H, system.symbolic.first, 0.0)
        if not found:
            total = math.nan
    to_forces, to_energy, words, frame = potential
    if to_forces != 0:
        # F, of which nobody asks, is in the way of adding up.
        addresses.call(to_forces, words, frame, X, F, first, 0.0)
        total -= addresses.call(to_energy, words, frame, X, F, first, 0.0) / kT
    return total


@exact_call
def block_of(system):
    if system is not None:
        units = system.number * len(system.axes) + system.symbolic.row.size + 3 * system.kinds.size
        return hard.block(system, memory(units, 0.0), 0, 0.0)
    return None


@exact_kernel
def advance(x, random, tally, system, potential, moves, kT, sweeps, replicas):
    """Do so many sweeps, each of as many moves as there are, on some replicas, in place.

    Returns the first replica that had no weight to begin with, or −1.  ``x (R, n, dim)``,
    ``random`` flat, ``tally (R, 3)``; ``system`` is None where the ensemble is stiff.  A
    sweep begins with the weight found anew.
    """
    n, dim, count, fixed = x.shape[1], x.shape[2], moves.kinds.size, moves.front.size
    X, Y, F = np.empty(fixed + n * dim), np.empty(fixed + n * dim), np.zeros(fixed + n * dim)
    for k in range(fixed):
        X[k] = Y[k] = moves.front[k]
    space = block_of(system)
    for replica in range(replicas[0], replicas[1]):
        at = WORDS * replica
        words = random[at], random[at + 1], random[at + 2], random[at + 3]
        width = tally[replica, 2]
        for k in range(n * dim):
            X[fixed + k] = x[replica, k // dim, k % dim]
        for _ in range(sweeps):
            weight = log_weight(X, F, system, potential, kT, space, fixed // dim)
            if not abs(weight) < math.inf:
                addresses.release(potential.frame)
                return replica
            for _ in range(count):
                f, words = uniform(words)
                move = int(f * count)
                exists, words = tried(words, moves, move, X, Y, width, dim, replica)
                f, words = uniform(words)
                tally[replica, 0] += 1.0
                if not exists:
                    continue
                after = log_weight(Y, F, system, potential, kT, space, fixed // dim)
                if math.log(f) < after - weight:
                    X, Y = Y, X
                    weight = after
                    tally[replica, 1] += 1.0
        for k in range(n * dim):
            x[replica, k // dim, k % dim] = X[fixed + k]
        random[at], random[at + 1], random[at + 2], random[at + 3] = words
    addresses.release(potential.frame)
    return -1
