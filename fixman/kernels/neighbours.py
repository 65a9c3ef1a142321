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

    ``first (lanes, n + 1)`` and ``partners (lanes, capacity)``; ``where (lanes · n · d,)``, units
    of the positions when the list was made, and ``known (lanes,)``, whether there is one; the
    first bead in each bucket, the next one in it after each bead; the beads' cells.
    """

    first: np.ndarray
    partners: np.ndarray
    where: np.ndarray
    known: np.ndarray
    heads: np.ndarray
    following: np.ndarray
    cells: np.ndarray


@exact_kernel
def no_lists(n, dim, width, used):
    """Make empty lists for ``width`` chains; nothing at all unless they are ``used``."""
    n = n if used else 0
    buckets = 1
    while buckets < n:
        buckets *= 2
    return Neighbours(
        np.zeros((width, n + 1), np.int32),
        np.empty((width, 16 * n), np.int32),
        np.empty(width * n * dim),
        np.zeros(width, np.bool_),
        np.empty(buckets, np.int32),
        np.empty(n, np.int32),
        np.zeros((n, 3), np.int64),
    )


@exact_kernel
def moved(X, where, lane, width, n, dim, limit):
    """Whether a bead of a lane has moved by more than the root of ``limit``."""
    for k in range(n):
        square = 0.0
        for a in range(dim):
            at = (k * dim + a) * width + lane
            step = X[at] - where[at]
            square += step * step
        if not square <= limit:
            return True
    return False


@exact_kernel
def bucket(i, j, k, mask):
    return (i * 73856093 ^ j * 19349663 ^ k * 83492791) & mask


@exact_kernel
def refresh(X, lists, n, dim, width, reach, skin, excluded_first, excluded):
    """Bring the lists of all lanes up to date; return the partners, in a larger array if need be.

    ``reach`` is cutoff and skin; ``excluded_first (n + 1,)`` and ``excluded`` name, like a list,
    the pairs that do not act.
    """
    first, partners, where, known, heads, following, cells = lists
    for lane in range(width):
        if known[lane] and not moved(X, where, lane, width, n, dim, 0.25 * skin * skin):
            continue
        known[lane] = sort_beads(
            X, where, lane, n, dim, width, (1.0 - 1e-9) / reach, heads, following, cells
        )
        for k in range(n):
            first[lane, k + 1] = 0
        if not known[lane]:  # not finite: there are no neighbours, and the caller will find out
            continue
        while not find_partners(
            X, lane, n, dim, width, reach * reach, heads, following, cells, excluded_first,
            excluded, first, partners,
        ):  # fmt: skip
            partners = enlarged(partners)
    return partners


@exact_kernel
def enlarged(partners):
    rows, columns = partners.shape
    more = np.empty((rows, 2 * columns), np.int32)
    for row in range(rows):
        for column in range(columns):
            more[row, column] = partners[row, column]
    return more


@exact_kernel
def sort_beads(X, where, lane, n, dim, width, inverse, heads, following, cells):
    """Put the beads of one lane into cells and note where they are; false if that is not finite."""
    for b in range(heads.size):
        heads[b] = -1
    check = 0.0
    for k in range(n - 1, -1, -1):
        for a in range(dim):
            at = (k * dim + a) * width + lane
            where[at] = X[at]
            check += 0.0 * X[at]
            cells[k, a] = np.int64(min(max(math.floor(X[at] * inverse), -FAR), FAR))
        b = bucket(cells[k, 0], cells[k, 1], cells[k, 2], heads.size - 1)
        following[k] = heads[b]
        heads[b] = k
    return check == 0.0


@exact_kernel
def find_partners(
    X, lane, n, dim, width, square_reach, heads, following, cells, excluded_first, excluded,
    first, partners,
):  # fmt: skip
    """List the partners of every bead of one lane; false if there is no room for them."""
    count = 0
    depth = 1 if dim == 3 else 0
    for i in range(n):
        start = count
        for neighbour in range(9 * (2 * depth + 1)):
            cx = cells[i, 0] + neighbour % 3 - 1
            cy = cells[i, 1] + neighbour // 3 % 3 - 1
            cz = cells[i, 2] + neighbour // 9 - depth
            j = heads[bucket(cx, cy, cz, heads.size - 1)]
            while j >= 0:
                # Other cells may share the bucket.
                if j > i and cells[j, 0] == cx and cells[j, 1] == cy and cells[j, 2] == cz:
                    square = 0.0
                    for a in range(dim):
                        at = a * width + lane
                        away = X[j * dim * width + at] - X[i * dim * width + at]
                        square += away * away
                    if square < square_reach and not listed(excluded_first, excluded, i, j):
                        if count == partners.shape[1]:
                            return False
                        partners[lane, count] = j
                        count += 1
                j = following[j]
        ascend(partners, lane, start, count)
        first[lane, i + 1] = count
    return True


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
