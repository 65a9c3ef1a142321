"""Verlet lists of one chain or of eight in lanes, in open space.

A list holds every pair that is closer than the cutoff and a skin, and serves until a bead has moved
half the skin.  It names the partners j > i of each bead i in ascending order, so a sum along it, in
which pairs beyond the cutoff add nothing, has the same rounding whenever the list was made.

Beads are sorted into cells of the size of cutoff and skin, and cells into as many buckets as there
are beads: O(n) however far the chain extends.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fixman.kernels.lanes import exact_kernel

FAR = 2.0**60  # cells beyond are not told apart


class Neighbours(NamedTuple):
    """Lists, one a lane, and the scratch that makes them.

    ``first (lanes, n + 1)``, where the partners of each bead begin in ``partners (lanes,
    capacity)``, which are kept apart because they may have to grow; ``where (lanes, n · d)``, the
    positions when the list was made, and ``known (lanes,)``, whether there is one; the first bead
    in each bucket, the next one in it after each bead; the beads' cells.
    """

    first: np.ndarray
    where: np.ndarray
    known: np.ndarray
    heads: np.ndarray
    following: np.ndarray
    cells: np.ndarray


@exact_kernel
def no_lists(n, dim, width, used):
    """Make empty lists and partners for ``width`` chains; nothing unless they are ``used``."""
    n = n if used else 0
    buckets = 1
    while buckets < n:
        buckets *= 2
    lists = Neighbours(
        np.zeros((width, n + 1), np.int32),
        np.empty((width, n * dim)),
        np.zeros(width, np.bool_),
        np.empty(buckets, np.int32),
        np.empty(n, np.int32),
        np.zeros((n, 3), np.int64),
    )
    return lists, np.empty((width, 16 * n), np.int32)


@exact_kernel
def refresh(x, lane, lists, partners, n, dim, pairs):
    """Bring the list of a lane up to date with the positions ``x (n · d,)`` of its chain.

    Returns the partners, in a larger array if need be.
    """
    reach, skin = pairs.constants[3], pairs.constants[4]
    first, where, known, heads, following, cells = lists
    if known[lane] and not moved(x, where, lane, n, dim, 0.25 * skin * skin):
        return partners
    known[lane] = sort_beads(x, where, lane, n, dim, (1.0 - 1e-9) / reach, cells)
    for k in range(n + 1):
        first[lane, k] = 0
    if known[lane]:  # not finite: there are no neighbours, and the caller will find out
        while not find_partners(
            x, lane, n, dim, reach * reach, heads, following, cells, pairs.excluded_first,
            pairs.excluded, first, partners,
        ):  # fmt: skip
            partners = enlarged(partners)
    return partners


@exact_kernel
def moved(x, where, lane, n, dim, limit):
    """Whether a bead has moved by more than the root of ``limit``."""
    for k in range(n):
        square = 0.0
        for a in range(dim):
            step = x[k * dim + a] - where[lane, k * dim + a]
            square += step * step
        if not square <= limit:
            return True
    return False


@exact_kernel
def sort_beads(x, where, lane, n, dim, inverse, cells):
    """Note where the beads are and in which cells; false if that is not finite."""
    check = 0.0
    for k in range(n):
        for a in range(dim):
            here = x[k * dim + a]
            where[lane, k * dim + a] = here
            check += 0.0 * here
            cells[k, a] = np.int64(min(max(math.floor(here * inverse), -FAR), FAR))
    return check == 0.0


@exact_kernel
def find_partners(
    x, lane, n, dim, square_reach, heads, following, cells, excluded_first, excluded, first,
    partners,
):  # fmt: skip
    """List the partners of every bead; false if there is no room for them.

    From the last bead to the first, each is put into its bucket when it has looked around, and so
    finds higher numbers only.  The lists fill their array from its end.
    """
    for b in range(heads.size):
        heads[b] = -1
    mask = heads.size - 1
    start = partners.shape[1]
    first[lane, n] = start
    depth = 1 if dim == 3 else 0
    for i in range(n - 1, -1, -1):
        end = start
        cell = cells[i]
        for cx in range(cell[0] - 1, cell[0] + 2):
            for cy in range(cell[1] - 1, cell[1] + 2):
                for cz in range(cell[2] - depth, cell[2] + depth + 1):
                    j = heads[bucket(cx, cy, cz, mask)]
                    while j >= 0:
                        # Other cells may share the bucket.
                        if cells[j, 0] == cx and cells[j, 1] == cy and cells[j, 2] == cz:
                            square = 0.0
                            for a in range(dim):
                                away = x[j * dim + a] - x[i * dim + a]
                                square += away * away
                            if square < square_reach and not listed(excluded_first, excluded, i, j):
                                if start == 0:
                                    return False
                                start -= 1
                                partners[lane, start] = j
                        j = following[j]
        ascend(partners, lane, start, end)
        first[lane, i] = start
        b = bucket(cell[0], cell[1], cell[2], mask)
        following[i] = heads[b]
        heads[b] = i
    return True


@exact_kernel
def bucket(i, j, k, mask):
    return (i * 73856093 ^ j * 19349663 ^ k * 83492791) & mask


@exact_kernel
def listed(first, others, i, j):
    found = False
    for at in range(first[i], first[i + 1]):
        found |= others[at] == j
    return found


@exact_kernel
def ascend(values, lane, start, end):
    for k in range(start + 1, end):
        value = values[lane, k]
        place = k
        while place > start and values[lane, place - 1] > value:
            values[lane, place] = values[lane, place - 1]
            place -= 1
        values[lane, place] = value


@exact_kernel
def enlarged(partners):
    rows, columns = partners.shape
    more = np.empty((rows, 2 * columns), np.int32)
    for row in range(rows):
        for column in range(columns):
            more[row, column] = partners[row, column]
    return more
