"""Monte Carlo of many chains: moves of one chain at a time (`crankshafts`) among all beads.

A move is accepted with min(1, W′/W e^(−ΔU/kT)): W is the weight of the chain by itself, and U the
pair energy (`potentials.box`) of the beads that move with all others, in the same chain too.

Each bead is in the list of its cell, and cells are at least as wide as the cutoff.  In open space
a cell stands for all that lie a whole number of ``counts`` apart, as if space were periodic, but
separations are those of open space.  Lists are made anew in every call: sums over them have bits
that depend on nothing before.
"""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np

from fixman.kernels.compiler import addresses
from fixman.kernels.compiler.lanes import exact_call, exact_kernel
from fixman.kernels.potentials.box import energy_of
from fixman.kernels.sampling.crankshafts import block_of, log_weight, tried
from fixman.kernels.sampling.pivots import uniform


class Cells(namedtuple("Cells", "grid heads after before own")):
    """Beads by cell of a grid.

    heads (cells,), after, before, own (N,) : the first bead of each cell; the next one, the one
        before, and the cell of each bead; −1 for none
    """


@exact_call
def enter(x, i, cells):
    """Put bead i into the list of its cell."""
    cell = 0
    for a in range(x.shape[1]):
        count = cells.grid.counts[a]
        place = x[i, a] * cells.grid.scale[a]
        place -= count * np.floor(place / count)
        cell = cell * count + min(int(place), count - 1)
    head = cells.heads[cell]
    cells.own[i], cells.after[i], cells.before[i] = cell, head, -1
    cells.heads[cell] = i
    if head >= 0:
        cells.before[head] = i


@exact_call
def leave(i, cells):
    after, before = cells.after[i], cells.before[i]
    if after >= 0:
        cells.before[after] = before
    if before >= 0:
        cells.after[before] = after
    else:
        cells.heads[cells.own[i]] = after


@exact_call
def pair_energy(x, i, j, cells, beads):
    """U of beads i and j."""
    square = 0.0
    for a in range(x.shape[1]):
        d = x[i, a] - x[j, a]
        d -= cells.grid.edges[a] * np.rint(d * cells.grid.inverse[a])
        square += d * d
    alike = beads.radii.size == 1
    i_kind, j_kind = (0, 0) if alike else (i, j)
    sigma = beads.radii[i_kind] + beads.radii[j_kind]
    if not square < beads.cut_squared * sigma * sigma:
        return 0.0
    for k in range(beads.excluded_first[i], beads.excluded_first[i + 1]):
        if beads.excluded[k] == j:
            return 0.0
    return beads.depths[i_kind] * beads.depths[j_kind] * energy_of(square, sigma, beads)


@exact_call
def energy(x, first, moving, cells, beads):
    """U of the beads of a chain that move, with all others and, once, with each other."""
    n0, n1, n2 = cells.grid.counts
    total = 0.0
    for k in range(moving.size):
        i = first + k
        cell = cells.own[i]
        for s0 in range(-1 if n0 > 2 else 0, 2 if n0 > 1 else 1):
            for s1 in range(-1 if n1 > 2 else 0, 2 if n1 > 1 else 1):
                for s2 in range(-1 if n2 > 2 else 0, 2 if n2 > 1 else 1):
                    c0, c1, c2 = cell // (n1 * n2) + s0, cell // n2 % n1 + s1, cell % n2 + s2
                    j = cells.heads[(c0 % n0 * n1 + c1 % n1) * n2 + c2 % n2] if moving[k] else -1
                    while j >= 0:
                        if j != i:
                            both = first <= j < first + moving.size and moving[j - first]
                            total += pair_energy(x, i, j, cells, beads) * (0.5 if both else 1.0)
                        j = cells.after[j]
    return total


@exact_call
def put(x, first, moving, X, cells):
    """Put the beads that move to the last coordinates of X."""
    dim = x.shape[1]
    for k in range(moving.size):
        if moving[k]:
            leave(first + k, cells)
            for a in range(dim):
                x[first + k, a] = X[X.size - (moving.size - k) * dim + a]
            enter(x, first + k, cells)


@exact_call
def read(x, first, X, fixed):
    """Positions from bead ``first`` on, behind ``fixed`` coordinates of X."""
    dim = x.shape[1]
    for k in range(X.size - fixed):
        X[fixed + k] = x[first + k // dim, k % dim]


@exact_kernel
def advance(x, random, tally, system, potential, moves, kT, cells, beads, chains):
    """Do as many moves as there are, of each chain of a kind, on one replica x (N, dim), in place.

    ``random (4,)``, ``tally (3,)``; ``chains`` are the first bead of the kind, how many chains
    there are, and their first place among the ``steps`` of moves.  Returns the first chain that
    had no weight to begin with, or −1.
    """
    first, many, place = chains
    dim, n, count, fixed = x.shape[1], moves.order.size, moves.kinds.size, moves.front.size
    X, Y, F = np.empty(fixed + n * dim), np.empty(fixed + n * dim), np.zeros(fixed + n * dim)
    for k in range(fixed):
        X[k] = Y[k] = moves.front[k]
    space = block_of(system)
    words = random[0], random[1], random[2], random[3]
    cells.heads[:] = -1
    for i in range(x.shape[0]):
        enter(x, i, cells)
    weights, moving = np.empty(many), np.zeros(n, np.bool_)
    for chain in range(many):
        read(x, first + chain * n, X, fixed)
        weights[chain] = log_weight(X, F, system, potential, kT, space, fixed // dim)
        if not abs(weights[chain]) < math.inf:
            addresses.release(potential.frame)
            return chain
    for _ in range(many * count):
        f, words = uniform(words)
        chain, move = divmod(int(f * (many * count)), count)
        start = first + chain * n
        read(x, start, X, fixed)
        exists, words = tried(words, moves, move, X, Y, tally[2], dim, place + chain)
        f, words = uniform(words)
        tally[0] += 1.0
        if not exists:
            continue
        for k in range(n):
            moving[k] = False
            for a in range(dim):
                moving[k] |= X[fixed + k * dim + a] != Y[fixed + k * dim + a]
        after = log_weight(Y, F, system, potential, kT, space, fixed // dim)
        old = energy(x, start, moving, cells, beads)
        put(x, start, moving, Y, cells)
        change = (energy(x, start, moving, cells, beads) - old) / kT
        if math.log(f) < after - weights[chain] - change:
            weights[chain] = after
            tally[1] += 1.0
        else:
            put(x, start, moving, X, cells)
    random[0], random[1], random[2], random[3] = words
    addresses.release(potential.frame)
    return -1
