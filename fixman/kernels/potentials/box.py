"""Pair forces of many chains, in open space or in a periodic box of edges L.

Positions are wrapped, x − L floor(x / L), and a separation is d − L round(d / L).  Beads are sorted
into cells at least as wide as cutoff and skin, and numbered in this order: a place is the number of
a bead there.  The neighbours of each bead, before and behind it, stand in one row of a table, in
ascending order of beads, and serve until a bead has moved half the skin.  A force is the sum over
one row: it has the same bits whenever the table was made, and whoever computes it.

With d = x_i − x_j, r = |d|, σ = (σ_i + σ_j)/2, ε = √(ε_i ε_j), s = r/σ and s_c at the cutoff,

    U = ε (4 s⁻¹² − 4 s⁻⁶ − shift − slope (s − s_c)) for s < s_c, else 0
    f_i = −U′(r)/r d

Below s = core the size of the force is that at core; energies are those without a core.
"""

from __future__ import annotations

from collections import namedtuple

import numpy as np

from fixman.kernels import jit, plain
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.potentials.nonbonded import lennard_jones, straightened

BLOCK = 32  # beads whose pairs are evaluated together


class Grid(namedtuple("Grid", "edges inverse scale counts")):
    """Cells of a box, or of open space around the beads.

    edges, inverse (3,) : L and 1 / L; both 0 in open space, and along the missing axis of a plane
    scale (3,) : one over the width of a cell
    counts (3,) of int64 : how many cells
    """


class Table(namedtuple("Table", "starts beads x rows sizes")):
    """Beads by cell, and the neighbours of each bead; int32 but for x and rows.

    starts (cells + 2,), beads (N,) : cell c holds the beads ``beads[starts[c] : starts[c + 1]]``
    x (N, 3) : positions by place
    rows (N, room) of uint32, sizes (N,) : places of the neighbours of the bead at a place
    """


class Beads(
    namedtuple("Beads", "radii depths cut_squared shift slope core limit excluded_first excluded")
):
    """The interaction of all beads, as `nonbonded.Pairs` has that of one chain.

    radii, depths (N,), or (1,) where all are alike : σ/2 and √ε
    cut_squared, shift, slope, core : s_c² and the numbers of U
    limit : the square of the longest cutoff
    excluded_first (N + 1,), excluded of int32 : pairs that do not act, the j of each i
    """


@jit
def sort_beads(x, grid, table):
    """Number the beads by cell, in ascending order inside of one."""
    starts, n = table.starts, len(x)
    starts[:] = 0
    for i in range(n):
        cell = 0
        for a in range(x.shape[1]):
            count = grid.counts[a]
            place = x[i, a] * grid.scale[a]
            if grid.edges[a] > 0.0:
                place -= count * np.floor(place / count)
            cell = cell * count + int(min(count - 1.0, max(0.0, place)))  # NaN comes to 0
        table.sizes[i] = cell  # for now, the cell of bead i
        starts[cell + 2] += 1
    for c in range(2, starts.size):
        starts[c] += starts[c - 1]
    for i in range(n):  # each start moves to where its cell ends, and the next one begins
        cell = table.sizes[i]
        table.beads[starts[cell + 1]] = i
        starts[cell + 1] += 1


@jit
def put_in_order(x, grid, table, first, last):
    """Copy positions to their places, wrapped into the box."""
    for place in range(first, last):
        i = table.beads[place]
        for a in range(x.shape[1]):
            table.x[place, a] = x[i, a] - grid.edges[a] * np.floor(x[i, a] * grid.inverse[a])


@plain
def _around(here, a, grid):
    """Return the first and the last cell along axis a that are next to one; no cell twice."""
    count = grid.counts[a]
    if grid.edges[a] == 0.0:
        return max(here - 1, 0), min(here + 1, count - 1)
    return here - (count > 2), here + (count > 1)  # of two the other is one neighbour, not two


@plain
def _wrapped(c, count):
    return c + count if c < 0 else c - count if c >= count else c


@plain
def _cells(cell, grid, found):
    """Set the cells around one; return how many, and whether none is behind a face of the box."""
    n0, n1, n2 = grid.counts
    low0, high0 = _around(cell // (n1 * n2), 0, grid)
    low1, high1 = _around(cell // n2 % n1, 1, grid)
    low2, high2 = _around(cell % n2, 2, grid)
    many = 0
    for c0 in range(low0, high0 + 1):
        for c1 in range(low1, high1 + 1):
            line = (_wrapped(c0, n0) * n1 + _wrapped(c1, n1)) * n2
            for c2 in range(low2, high2 + 1):
                found[many] = line + _wrapped(c2, n2)
                many += 1
    inside = min(low0, low1, low2) >= 0 and high0 < n0 and high1 < n1 and high2 < n2
    return many, inside


@plain
def _whole(size):
    """Round up to whole registers, since what is left of a loop runs one by one."""
    return size + 31 & -32


@plain
def _sort(row, size, ranks, ordered):
    """Set the numbers of a row in ascending order, by counting the smaller ones of each."""
    whole = _whole(size)
    row[size:whole] = 2**62
    ranks[:whole] = 0
    for j in range(size):
        one = row[j]
        for k in range(whole):
            ranks[k] += row[k] > one
    for k in range(size):
        ordered[ranks[k]] = row[k]


@jit
def find_neighbours(grid, table, beads, limit, first, last):
    """Fill the rows of places ``first`` to ``last``; return the longest row that is needed.

    Beads of a cell have the same candidates, kept as separations from the first bead in single
    precision.  So rows have pairs that are a little further apart than the reach, up to √limit.
    """
    fullest = 0
    for c in range(table.starts.size - 1):
        fullest = max(fullest, table.starts[c + 1] - table.starts[c])
    size = _whole(min(len(table.beads), 27 * fullest))
    near0, near1 = np.empty(size, np.float32), np.empty(size, np.float32)
    near2, squares = np.empty(size, np.float32), np.empty(size, np.float32)
    codes, row, hits = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    ranks, cells = np.empty(size, np.int64), np.empty(27, np.int64)
    work = near0, near1, near2, squares, codes, row, hits, ranks, cells
    return _find(grid, table, beads, (first, last, np.float32(limit)), work)


@plain
def _find(grid, table, beads, limits, work):
    first, last, limit = limits
    near0, near1, near2, squares, codes, row, hits, ranks, cells = work
    starts, members, X, rows, sizes = table
    excluded_first, excluded = beads.excluded_first, beads.excluded
    L0, L1, L2 = grid.edges
    w0, w1, w2 = grid.inverse
    e0, e1, e2 = np.float32(L0), np.float32(L1), np.float32(L2)
    v0, v1, v2 = np.float32(w0), np.float32(w1), np.float32(w2)
    most, cell, count, mine, origin, until, inside = 0, 0, 0, 0, first, first, True
    for place in range(first, last):
        i = members[place]
        if place == until:  # the next cell
            while starts[cell + 1] <= place:
                cell += 1
            many, inside = _cells(cell, grid, cells)
            count, origin, until = 0, place, starts[cell + 1]
            for s in range(many):
                for other in range(starts[cells[s]], starts[cells[s] + 1]):
                    d0, d1 = X[other, 0] - X[origin, 0], X[other, 1] - X[origin, 1]
                    d2 = X[other, 2] - X[origin, 2]
                    if not inside:
                        d0 -= L0 * np.rint(d0 * w0)
                        d1 -= L1 * np.rint(d1 * w1)
                        d2 -= L2 * np.rint(d2 * w2)
                    # A bead and its place in one number, to sort by bead.
                    codes[count] = (np.int64(members[other]) << 32) | other
                    near0[count], near1[count], near2[count] = d0, d1, d2
                    if other == place:
                        mine = count
                    count += 1
        else:
            mine += 1
        x0, x1, x2 = near0[mine], near1[mine], near2[mine]
        for k in range(count):
            p0, p1, p2 = near0[k] - x0, near1[k] - x1, near2[k] - x2
            p0 -= e0 * np.rint(p0 * v0)
            p1 -= e1 * np.rint(p1 * v1)
            p2 -= e2 * np.rint(p2 * v2)
            squares[k] = p0 * p0 + p1 * p1 + p2 * p2
        squares[mine] = np.inf
        found = 0
        for k in range(count):
            hits[found] = codes[k]
            found += squares[k] < limit
        for k in range(excluded_first[i], excluded_first[i + 1]):
            for h in range(_whole(found)):  # the longer loop inside, which is vectorized
                hits[h] = -1 if hits[h] >> 32 == excluded[k] else hits[h]
        size = 0
        for h in range(found):
            row[size] = hits[h]
            size += hits[h] >= 0
        _sort(row, size, ranks, hits)
        most = max(most, size)
        sizes[place] = min(size, rows.shape[1])
        for k in range(sizes[place]):
            rows[place, k] = hits[k] & 0xFFFFFFFF
    return most


@plain
def _meet(grid, table, beads, places, pairs, ends):
    """Gather the pairs within the longest cutoff of places (begin, end); return how many.

    A bead that is further than the cutoff from the faces of the box meets none behind them.
    """
    p0, p1, p2, squares, sigmas, epsilons, others = pairs
    _, members, X, rows, sizes = table
    radii, depths = beads.radii, beads.depths
    e0, e1, e2 = grid.edges
    v0, v1, v2 = grid.inverse
    limit, cut = beads.limit, np.sqrt(beads.limit)
    count = 0
    for place in range(places[0], places[1]):
        x0, x1, x2 = X[place, 0], X[place, 1], X[place, 2]
        inside = e0 == 0.0 or cut < x0 < e0 - cut
        inside &= e1 == 0.0 or cut < x1 < e1 - cut
        inside &= e2 == 0.0 or cut < x2 < e2 - cut
        start = count
        for k in range(sizes[place]):
            other = rows[place, k]
            d0, d1, d2 = x0 - X[other, 0], x1 - X[other, 1], x2 - X[other, 2]
            if not inside:
                d0 -= e0 * np.rint(d0 * v0)
                d1 -= e1 * np.rint(d1 * v1)
                d2 -= e2 * np.rint(d2 * v2)
            square = d0 * d0 + d1 * d1 + d2 * d2
            p0[count], p1[count], p2[count] = d0, d1, d2
            squares[count], others[count] = square, other
            count += not square >= limit  # NaN stays visible
        if radii.size > 1:
            i = members[place]
            for k in range(start, count):
                j = members[others[k]]
                sigmas[k] = radii[i] + radii[j]
                epsilons[k] = depths[i] * depths[j]
        ends[place - places[0]] = count
    return count


@exact_step
def energy_of(square, sigma, beads):
    """U / ε of a pair from its squared distance."""
    pair = beads.cut_squared, beads.shift, beads.slope
    return straightened(*lennard_jones(square, sigma, pair), square, sigma, pair)[0]


@plain
def _pull(beads, pairs, count, pulls):
    """Set −U′(r)/r of pairs."""
    _, _, _, squares, sigmas, epsilons, _ = pairs
    cut, slope, core = beads.cut_squared, beads.slope, beads.core
    for k in range(count):
        sigma = sigmas[k] * sigmas[k]
        inverse = 1.0 / max(squares[k], core * core * sigma)
        ratio = sigma * inverse
        sixth = ratio * ratio * ratio
        pull = 24.0 * sixth * (2.0 * sixth - 1.0) * inverse  # but for ε
        pulls[k] = 0.0 if squares[k] >= cut * sigma else epsilons[k] * pull
    if slope != 0.0 or core > 0.0:
        for k in range(count):
            r = np.sqrt(squares[k]) / sigmas[k]
            s = max(r, core)
            if r * r < cut:
                pulls[k] += epsilons[k] * slope / (s * sigmas[k] * sigmas[k])
                pulls[k] *= s / r


@jit
def pair_forces(grid, table, beads, first, last, forces, energies):
    """Set the forces on the beads at places ``first`` to ``last``.

    ``energies`` (N, 2) gets Σ_j ½ U_ij and Σ_j ½ f_ij·r_ij of each bead, if it has rows.
    """
    size, dim = BLOCK * table.rows.shape[1] + 1, forces.shape[1]
    p0, p1, p2, squares = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    pulls, sigmas, epsilons = np.empty(size), np.empty(size), np.empty(size)
    pairs = p0, p1, p2, squares, sigmas, epsilons, np.empty(size, np.uint32)
    sigmas[:], epsilons[:] = 2.0 * beads.radii[0], beads.depths[0] * beads.depths[0]
    ends, members = np.empty(BLOCK, np.int64), table.beads
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        count = _meet(grid, table, beads, (begin, end), pairs, ends)
        _pull(beads, pairs, count, pulls)
        start = 0
        for place in range(begin, end):
            i, until = members[place], ends[place - begin]
            f0, f1, f2 = 0.0, 0.0, 0.0
            for k in range(start, until):
                f0 += pulls[k] * p0[k]
                f1 += pulls[k] * p1[k]
                f2 += pulls[k] * p2[k]
            forces[i, 0] = f0
            forces[i, 1] = f1
            if dim == 3:
                forces[i, 2] = f2
            if energies.shape[0] > 0:
                energy, virial = 0.0, 0.0
                for k in range(start, until):
                    if not squares[k] >= beads.cut_squared * sigmas[k] * sigmas[k]:
                        energy += epsilons[k] * energy_of(squares[k], sigmas[k], beads)
                        virial += pulls[k] * squares[k]
                energies[i, 0] = 0.5 * energy
                energies[i, 1] = 0.5 * virial
            start = until


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
