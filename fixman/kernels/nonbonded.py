"""Lennard-Jones forces between the beads of one chain that are near each other.

``x`` and ``out (n · d,)`` are positions and forces.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.lanes import exact, exact_kernel


class Pairs(NamedTuple):
    """What the beads of a chain are for each other.

    sizes, depths (n,) : σ/2 and √ε of each bead
    constants : the squared cutoff over σ², the energy there over ε, the slope there over ε/σ if it
        is to be taken off, how far the neighbour lists reach, and the skin that is in it
    excluded_first (n + 1,), excluded : pairs i < j that do not act, the j of each i
    """

    sizes: np.ndarray[Any, np.dtype[np.float64]]
    depths: np.ndarray[Any, np.dtype[np.float64]]
    constants: np.ndarray[Any, np.dtype[np.float64]]
    excluded_first: np.ndarray[Any, np.dtype[np.int32]]
    excluded: np.ndarray[Any, np.dtype[np.int32]]


@exact
def lennard_jones(square, size, depth, pair):
    """Energy of a pair and force over distance, −U′(r)/r, from the squared distance."""
    inverse = 1.0 / square
    ratio = size * size * inverse
    sixth = ratio * ratio * ratio
    energy = 4.0 * sixth * (sixth - 1.0) - pair[1]
    pull = 24.0 * sixth * (2.0 * sixth - 1.0)
    if pair[2] != 0.0:
        r = math.sqrt(square) / size
        energy -= pair[2] * (r - math.sqrt(pair[0]))
        pull += pair[2] * r
    return depth * energy, depth * pull * inverse


@exact_kernel
def add_pair_forces(x, out, n, dim, lane, first, partners, pairs):
    sizes, depths, pair = pairs.sizes, pairs.depths, pairs.constants
    for i in range(n):
        x0 = x[i * dim]
        x1 = x[i * dim + 1]
        x2 = x[i * dim + 2] if dim == 3 else 0.0
        f0 = f1 = f2 = 0.0
        for place in range(first[lane, i], first[lane, i + 1]):
            j = partners[lane, place]
            to = j * dim
            d0 = x0 - x[to]
            d1 = x1 - x[to + 1]
            d2 = x2 - x[to + 2] if dim == 3 else 0.0
            square = d0 * d0 + d1 * d1 + d2 * d2
            size = sizes[i] + sizes[j]
            if square < pair[0] * size * size:
                _, pull = lennard_jones(square, size, depths[i] * depths[j], pair)
                f0 += pull * d0
                f1 += pull * d1
                out[to] -= pull * d0
                out[to + 1] -= pull * d1
                if dim == 3:
                    f2 += pull * d2
                    out[to + 2] -= pull * d2
        out[i * dim] += f0
        out[i * dim + 1] += f1
        if dim == 3:
            out[i * dim + 2] += f2


@exact_kernel
def pair_energy(x, n, dim, lane, first, partners, pairs):
    sizes, depths, pair = pairs.sizes, pairs.depths, pairs.constants
    total = 0.0
    for i in range(n):
        for place in range(first[lane, i], first[lane, i + 1]):
            j = partners[lane, place]
            square = 0.0
            for a in range(dim):
                away = x[i * dim + a] - x[j * dim + a]
                square += away * away
            size = sizes[i] + sizes[j]
            if square < pair[0] * size * size:
                total += lennard_jones(square, size, depths[i] * depths[j], pair)[0]
    return total
