"""Lennard-Jones forces between the beads of one chain that are near each other, in open space.

A Verlet list holds every pair that is closer than the cutoff and a skin, and serves until a bead
has moved half the skin.  It names the partners j > i of each bead i in ascending order, so that
forces have one rounding whenever it was made.

Beads are sorted into cells of the size of cutoff and skin, and cells into as many buckets as there
are beads: O(n) however far the chain extends.  A cell is a number of 31 bits to which one of
`STEPS` is added along each axis: no two cells around one have the same.

All is kept in the work array of `forces`, as integers of 32 bits, two in an element.  As numbers of
their own they would make a dense chain 1.8 times slower.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from fixman.kernels.algebra.vectors import dot, fused_dot, minus, plus, put_vector, scaled, vector
from fixman.kernels.compiler.lanes import beyond, entry, exact_call, lanes, memory, root
from fixman.kernels.compiler.steps import exact_step

STEPS = 73856093, 19349663, 83492791
BITS = 2**31 - 1
FAR = 2.0**60  # cells beyond are not told apart


class Pairs(namedtuple("Pairs", "sizes depths constants around buckets excluded_first excluded")):
    """Interaction of the beads of a chain that are not bonded.

    sizes, depths (n,) : σ/2 and √ε of each bead
    constants : the squared cutoff over σ², the energy there over ε, the slope there over ε/σ if it
        is to be taken off, how far the neighbour lists reach, the skin that is in it
    around (3^d,) : from a cell to itself and those beside it
    buckets : a power of two
    excluded_first (n + 1,), excluded of int32 : pairs i < j that do not act, the j of each i
    """


@exact_step
def distance_squared(x, y):
    d = minus(x, y)
    return fused_dot(d, d)


@exact_call
def find_partners(work, chain, lists, room, axes, pairs):
    """List the partners of every bead of a chain; false if there is no room for them.

    Positions are vectors of ``work`` from ``chain`` on; behind them and forces are heads of
    buckets, the next bead in the bucket of each, cells, and marks of excluded beads.  From
    ``lists`` on there is ``room`` for where the partners of each bead end, and the partners.  The
    last bead comes first, and each enters its bucket when it has looked around: it finds higher
    numbers only.
    """
    ints, n = work.view(np.int32), pairs.sizes.size
    reach = pairs.constants[3]
    inverse = (1.0 - 1e-9) / reach
    heads = 2 * (chain + 2 * n) * len(axes)
    following = heads + pairs.buckets
    cells = following + n
    marks = cells + n
    for b in range(pairs.buckets):
        ints[heads + b] = -1
    end = n + 1
    ints[lists + n] = end
    for i in range(n - 1, -1, -1):
        for at in range(pairs.excluded_first[i], pairs.excluded_first[i + 1]):
            ints[marks + pairs.excluded[at]] = i + 1
        start = end
        x = vector(work, chain + i, axes, 0.0)
        here = 0
        for a in range(len(axes)):
            here += STEPS[a] * int(min(FAR, max(-FAR, inverse * x[a])))
        here &= BITS
        for step in range(pairs.around.size):
            there = (here + pairs.around[step]) & BITS
            j = ints[heads + (there & (pairs.buckets - 1))]
            while j >= 0:
                # Other cells may share the bucket.
                near = ints[cells + j] == there and ints[marks + j] != i + 1
                if near and distance_squared(x, vector(work, chain + j, axes, 0.0)) < reach * reach:
                    if end == room:
                        return False
                    place = lists + end
                    while place > lists + start and ints[place - 1] > j:
                        ints[place] = ints[place - 1]
                        place -= 1
                    ints[place] = j
                    end += 1
                j = ints[following + j]
        ints[lists + i] = end
        ints[cells + i] = here
        head = heads + (here & (pairs.buckets - 1))
        ints[following + i] = ints[head]
        ints[head] = i
    return True


@exact_step
def lennard_jones(square, size, pair):
    """Energy of a pair and force times distance, −U′(r) r, from the squared distance; ε = 1."""
    ratio = size * size * (1.0 / square)
    sixth = ratio * ratio * ratio
    energy = 4.0 * sixth * (sixth - 1.0) - pair[1]
    return energy, 24.0 * sixth * (2.0 * sixth - 1.0)


@exact_step
def straightened(energy, pull, square, size, pair):
    """Energy and pull of `lennard_jones` without the slope at the cutoff."""
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
    ints, n = work.view(np.int32), pairs.sizes.size
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
        if (stale >> lane) & 1 or ints[lists + n] == 0:
            while not find_partners(work, chain, lists, room, axes, pairs):
                larger = memory(2 * work.size // width, like)
                for m in range((chain + n) * dim):
                    larger[m] = work[m]
                work, ints = larger, larger.view(np.int32)
                room = (2 * work.size - start) // width
                lists = start + lane * room
            for k in range(n):
                x = vector(work, chain + k, axes, 0.0)
                put_lane_vector(work, 2 * joints + ghosts + k, lane, width, axes, x)
        total = 0.0
        for i in range(n):
            x = vector(work, chain + i, axes, 0.0)
            f = (0.0, 0.0, 0.0)
            for place in range(ints[lists + i + 1], ints[lists + i]):
                j = entry(ints, lists + place)
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
