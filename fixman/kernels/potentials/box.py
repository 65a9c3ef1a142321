"""Pair forces of many chains, in open space or in a periodic box of edges L.

Positions are not wrapped: a separation is d − L round(d / L).  Beads are sorted into cells at least
as wide as cutoff and skin, and numbered in this order: a place is the number of a bead there.  The
neighbours of each bead, before and behind it, stand in one row of a table, in ascending order of
beads, and serve until a bead has moved half the skin.  A force is the sum over one row: it has
the same bits whenever the table was made, and whoever computes it.

With d = x_i − x_j, r = |d|, σ = (σ_i + σ_j)/2, ε = √(ε_i ε_j), s = r/σ and s_c at the cutoff,

    U = ε (4 s⁻¹² − 4 s⁻⁶ − shift − slope (s − s_c)) for s < s_c, else 0
    f_i = −U′(r)/r d

Below s = core the size of the force is that at core; energies are those without a core.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import jit


class Grid(NamedTuple):
    """Cells of a box, or of open space around the beads.

    edges, inverse (3,) : L and 1 / L; both 0 in open space, and along the missing axis of a plane
    origin, scale (3,) : the cell of x along an axis is (x − origin) scale
    counts (3,) : how many cells
    """

    edges: np.ndarray[Any, np.dtype[np.float64]]
    inverse: np.ndarray[Any, np.dtype[np.float64]]
    origin: np.ndarray[Any, np.dtype[np.float64]]
    scale: np.ndarray[Any, np.dtype[np.float64]]
    counts: np.ndarray[Any, np.dtype[np.int64]]


class Table(NamedTuple):
    """Beads by cell, and the neighbours of each bead.

    starts (cells + 1,), beads (N,) : cell c holds the beads ``beads[starts[c] : starts[c + 1]]``
    x (N, 3) : positions by place
    rows (N, room), sizes (N,) : places of the neighbours of the bead at a place
    """

    starts: np.ndarray[Any, np.dtype[np.int32]]
    beads: np.ndarray[Any, np.dtype[np.int32]]
    x: np.ndarray[Any, np.dtype[np.float64]]
    rows: np.ndarray[Any, np.dtype[np.int32]]
    sizes: np.ndarray[Any, np.dtype[np.int32]]


class Beads(NamedTuple):
    """The interaction of all beads, as `nonbonded.Pairs` has that of one chain.

    radii, depths (N,), or (1,) where all are alike : σ/2 and √ε
    cut_squared, shift, slope, core : s_c² and the numbers of U
    reach : how far the table sees, cutoff and skin
    excluded_first (N + 1,), excluded : pairs that do not act, the j of each i
    """

    radii: np.ndarray[Any, np.dtype[np.float64]]
    depths: np.ndarray[Any, np.dtype[np.float64]]
    cut_squared: float
    shift: float
    slope: float
    core: float
    reach: float
    excluded_first: np.ndarray[Any, np.dtype[np.int32]]
    excluded: np.ndarray[Any, np.dtype[np.int32]]


@jit
def _cell(x, a, grid):
    """Return the cell of a coordinate along axis a."""
    count = grid.counts[a]
    place = (x - grid.origin[a]) * grid.scale[a]
    if grid.edges[a] > 0.0:
        place -= count * np.floor(place / count)
    if not place > 0.0:
        return 0
    return min(int(place), count - 1) if place < 2.0**31 else count - 1


@jit
def sort_beads(x, grid, table):
    """Number the beads by cell, in ascending order inside of one."""
    n, dim = x.shape
    starts = table.starts
    starts[:] = 0
    for i in range(n):
        cell = 0
        for a in range(dim):
            cell = cell * grid.counts[a] + _cell(x[i, a], a, grid)
        table.sizes[i] = cell  # for now, the cell of bead i
        starts[cell + 1] += 1
    for c in range(1, starts.size):
        starts[c] += starts[c - 1]
    for i in range(n):  # starts of cells move up to their ends
        cell = table.sizes[i]
        table.beads[starts[cell]] = i
        starts[cell] += 1
    for c in range(starts.size - 1, 0, -1):
        starts[c] = starts[c - 1]
    starts[0] = 0


@jit
def put_in_order(x, table, first, last):
    """Copy positions to their places."""
    for place in range(first, last):
        i = table.beads[place]
        for a in range(x.shape[1]):
            table.x[place, a] = x[i, a]


@jit
def find_neighbours(x, grid, table, beads, first, last):
    """Fill the rows of places ``first`` to ``last``; return the longest row that is needed.

    Cells that follow each other along the last axis are one stretch of places.
    """
    dim = x.shape[1]
    reach = beads.reach * beads.reach
    room = table.rows.shape[1]
    n0, n1 = grid.counts[0], grid.counts[1]
    e0, e1, e2 = grid.edges
    v0, v1, v2 = grid.inverse
    low, high = np.zeros(3, np.int64), np.zeros(3, np.int64)
    squares = np.empty(64)
    row = np.empty(room, np.int64)
    most = 0
    for place in range(first, last):
        i, found = table.beads[place], 0
        x0, x1, x2 = table.x[place]
        for a in range(dim):
            here, count = _cell(x[i, a], a, grid), grid.counts[a]
            if grid.edges[a] > 0.0:
                # No cell twice: of two along an axis the other is one neighbour, not two.
                low[a], high[a] = here - (count > 2), here + (count > 1)
            else:
                low[a], high[a] = max(here - 1, 0), min(here + 1, count - 1)
        last_axis = dim - 1
        n = grid.counts[last_axis]
        for c0 in range(low[0], high[0] + 1):
            for c1 in range(low[1], high[1] + 1) if dim == 3 else range(1):
                line = c0 % n0 * n1 + c1 % n1 if dim == 3 else c0 % n0
                # What lies in the box, then what continues behind its other end.
                for part in range(2):
                    start, end = low[last_axis], high[last_axis] + 1
                    if part == 0:
                        start, end = max(start, 0), min(end, n)
                    elif start < 0:
                        start, end = start + n, n
                    elif end > n:
                        start, end = 0, end - n
                    else:
                        break
                    begin, until = table.starts[line * n + start], table.starts[line * n + end]
                    if until - begin > squares.size:
                        squares = np.empty(2 * (until - begin))
                    for other in range(begin, until):
                        d0, d1 = x0 - table.x[other, 0], x1 - table.x[other, 1]
                        d2 = x2 - table.x[other, 2]
                        d0 -= e0 * np.rint(d0 * v0)
                        d1 -= e1 * np.rint(d1 * v1)
                        d2 -= e2 * np.rint(d2 * v2)
                        squares[other - begin] = d0 * d0 + d1 * d1 + d2 * d2
                    for other in range(begin, until):
                        if squares[other - begin] < reach and other != place:
                            j, acts = table.beads[other], True
                            for k in range(beads.excluded_first[i], beads.excluded_first[i + 1]):
                                acts &= beads.excluded[k] != j
                            if acts:
                                if found < room:
                                    row[found] = (np.int64(j) << 32) | other
                                found += 1
        size = min(found, room)
        row[:size].sort()  # by bead
        for k in range(size):
            table.rows[place, k] = row[k] & 0xFFFFFFFF
        table.sizes[place] = size
        most = max(most, found)
    return most


@jit
def pair_forces(grid, table, beads, first, last, forces, energies):
    """Set the forces on the beads at places ``first`` to ``last``.

    ``energies`` (N, 2) gets Σ_j ½ U_ij and Σ_j ½ f_ij·r_ij of each bead, if it has rows.
    """
    cut, slope, core = beads.cut_squared, beads.slope, beads.core
    e0, e1, e2 = grid.edges
    v0, v1, v2 = grid.inverse
    dim = forces.shape[1]
    room = table.rows.shape[1]
    d0, d1, d2 = np.empty(room), np.empty(room), np.empty(room)
    sigmas, epsilons, pulls = np.empty(room), np.empty(room), np.empty(room)
    alike = beads.radii.size == 1
    sigmas[:], epsilons[:] = 2.0 * beads.radii[0], beads.depths[0] * beads.depths[0]
    for place in range(first, last):
        i, size = table.beads[place], table.sizes[place]
        x0, x1, x2 = table.x[place]
        row = table.rows[place]
        for k in range(size):
            other = row[k]
            d0[k], d1[k], d2[k] = (
                x0 - table.x[other, 0],
                x1 - table.x[other, 1],
                x2 - table.x[other, 2],
            )
        if not alike:
            for k in range(size):
                j = table.beads[row[k]]
                sigmas[k] = beads.radii[i] + beads.radii[j]
                epsilons[k] = beads.depths[i] * beads.depths[j]
        for k in range(size):
            d0[k] -= e0 * np.rint(d0[k] * v0)
            d1[k] -= e1 * np.rint(d1[k] * v1)
            d2[k] -= e2 * np.rint(d2[k] * v2)
            square = d0[k] * d0[k] + d1[k] * d1[k] + d2[k] * d2[k]
            sigma = sigmas[k] * sigmas[k]
            inverse = 1.0 / max(square, core * core * sigma)
            ratio = sigma * inverse
            sixth = ratio * ratio * ratio
            pull = 24.0 * sixth * (2.0 * sixth - 1.0) * inverse  # −U′(r)/r, but for ε
            pulls[k] = epsilons[k] * pull if square < cut * sigma else 0.0
        if slope != 0.0 or core > 0.0:
            for k in range(size):
                r = np.sqrt(d0[k] * d0[k] + d1[k] * d1[k] + d2[k] * d2[k]) / sigmas[k]
                s = max(r, core)
                if r * r < cut:
                    pulls[k] += epsilons[k] * slope / (s * sigmas[k] * sigmas[k])
                    pulls[k] *= s / r
        f0, f1, f2 = 0.0, 0.0, 0.0
        for k in range(size):
            f0 += pulls[k] * d0[k]
            f1 += pulls[k] * d1[k]
            f2 += pulls[k] * d2[k]
        forces[i, 0] = f0
        forces[i, 1] = f1
        if dim == 3:
            forces[i, 2] = f2
        if energies.shape[0] > 0:
            energy, virial = 0.0, 0.0
            for k in range(size):
                square = d0[k] * d0[k] + d1[k] * d1[k] + d2[k] * d2[k]
                sigma = sigmas[k] * sigmas[k]
                if square < cut * sigma:
                    ratio = sigma / square
                    sixth = ratio * ratio * ratio
                    u = 4.0 * sixth * (sixth - 1.0) - beads.shift
                    u -= slope * (np.sqrt(square) / sigmas[k] - np.sqrt(cut))
                    energy += epsilons[k] * u
                    virial += pulls[k] * square
            energies[i, 0] = 0.5 * energy
            energies[i, 1] = 0.5 * virial


@jit
def moved(x, before, limit):
    """Whether a bead is further than √limit from where it was; or nowhere."""
    for i in range(x.shape[0]):
        square = 0.0
        for a in range(x.shape[1]):
            d = x[i, a] - before[i, a]
            square += d * d
        if not square <= limit:
            return True
    return False
