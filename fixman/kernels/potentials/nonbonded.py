"""Lennard-Jones forces between the beads of one chain that are near each other.

``work`` is that of `forces`.
"""

from __future__ import annotations

from fixman.kernels.algebra.vectors import dot, minus, plus, put_vector, scaled, vector
from fixman.kernels.compiler.lanes import beyond, exact_call, lanes, memory, root
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.potentials.neighbours import distance_squared, find_partners, index


@exact_step
def lennard_jones(square, size, pair):
    """Energy of a pair and force times distance, −U′(r) r, from the squared distance; ε = 1."""
    ratio = size * size * (1.0 / square)
    sixth = ratio * ratio * ratio
    energy = 4.0 * sixth * (sixth - 1.0) - pair[1]
    return energy, 24.0 * sixth * (2.0 * sixth - 1.0)


@exact_step
def straightened(energy, pull, square, size, pair):
    """The same without the slope at the cutoff."""
    r = root(square) / size
    return energy - pair[2] * (r - root(pair[0])), pull + pair[2] * r


@exact_step
def lane_vector(work, k, lane, width, axes):
    """Vector k of one of the chains."""
    values = tuple(work[(k * len(axes) + a) * width + lane] for a in range(len(axes)))
    return values if len(axes) == 3 else (*values, 0.0)


@exact_step
def put_lane_vector(work, k, lane, width, axes, value):
    for a in range(len(axes)):
        work[(k * len(axes) + a) * width + lane] = value[a]


@exact_step
def moved(work, joint, joints, skin, axes, like):
    """The chains of which a joint has moved by more than half the skin."""
    x, old = vector(work, joint, axes, like), vector(work, 2 * joints + joint, axes, like)
    return beyond(distance_squared(x, old), 0.25 * skin * skin + 0.0 * like)


@exact_call
def add_pairs(pairs, work, joints, axes, like):
    """Add the forces of pairs, one chain after the other; return the work, larger if need be."""
    n = pairs.sizes.size
    ghosts = joints - n
    dim = len(axes)
    width = lanes(like)
    pair = pairs.constants
    chain = (3 * joints + 1) * width
    forces = chain + n
    start = 2 * (chain + 2 * n) * dim + pairs.buckets + 3 * n
    stale = 0
    for k in range(ghosts, joints):
        stale |= moved(work, k, joints, pair[4], axes, like)
    for lane in range(width):
        for k in range(n):
            put_vector(work, chain + k, axes, lane_vector(work, ghosts + k, lane, width, axes))
            put_vector(work, forces + k, axes, (0.0, 0.0, 0.0))
        room = (2 * work.size - start) // width
        lists = start + lane * room
        if (stale >> lane) & 1 or index(work, lists + n) == 0:
            while not find_partners(work, chain, lists, room, axes, pairs):
                larger = memory(2 * work.size // width, like)
                for m in range((chain + n) * dim):
                    larger[m] = work[m]
                work = larger
                room = (2 * work.size - start) // width
                lists = start + lane * room
            for k in range(n):
                x = vector(work, chain + k, axes, 0.0)
                put_lane_vector(work, 2 * joints + ghosts + k, lane, width, axes, x)
        total = 0.0
        for i in range(n):
            x = vector(work, chain + i, axes, 0.0)
            f = (0.0, 0.0, 0.0)
            for place in range(index(work, lists + i + 1), index(work, lists + i)):
                j = index(work, lists + place)
                d = minus(x, vector(work, chain + j, axes, 0.0))
                square = dot(d, d)
                size = pairs.sizes[i] + pairs.sizes[j]
                if square < pair[0] * size * size:
                    energy, pull = lennard_jones(square, size, pair)
                    if pair[2] != 0.0:
                        energy, pull = straightened(energy, pull, square, size, pair)
                    depth = pairs.depths[i] * pairs.depths[j]
                    total += depth * energy
                    push = scaled(depth * pull * (1.0 / square), d)
                    f = plus(f, push)
                    to = forces + j
                    put_vector(work, to, axes, minus(vector(work, to, axes, 0.0), push))
            put_vector(work, forces + i, axes, plus(vector(work, forces + i, axes, 0.0), f))
        work[3 * joints * dim * width + lane] += total
        for k in range(n):
            at = joints + ghosts + k
            f = plus(lane_vector(work, at, lane, width, axes), vector(work, forces + k, axes, 0.0))
            put_lane_vector(work, at, lane, width, axes, f)
    return work
