"""Verlet lists of chains in open space.

A list holds every pair that is closer than the cutoff and a skin, and serves until a bead has moved
half the skin.  It names the partners j > i of each bead i in ascending order, so a sum along it, in
which pairs beyond the cutoff add nothing, has the same rounding whenever the list was made.

Beads are sorted into cells of the size of cutoff and skin, and cells into as many buckets as there
are beads: O(n) however far the chain extends.  A cell is a number of 31 bits to which one of
`STEPS` is added along each axis: among the cells around one no two have the same, and beads of
others are too far away to be taken for neighbours.

All is kept in a work array of float64, as integers of 32 bits: number k of these, an `index`, is
half of element k // 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra.vectors import inner, minus, vector
from fixman.kernels.compiler.internals import ir, types, written
from fixman.kernels.compiler.lanes import exact_call
from fixman.kernels.compiler.pointers import WHOLE, check
from fixman.kernels.compiler.steps import exact_step

STEPS = 73856093, 19349663, 83492791
BITS = 2**31 - 1
FAR = 2.0**60  # cells beyond are not told apart


class Pairs(NamedTuple):
    """Interaction of the beads of a chain that are not bonded.

    sizes, depths (n,) : σ/2 and √ε of each bead
    constants : the squared cutoff over σ², the energy there over ε, the slope there over ε/σ if it
        is to be taken off, how far the neighbour lists reach, the skin that is in it, and what
        else a potential has
    around (3^d,) : from a cell to itself and those beside it
    buckets : a power of two
    excluded_first (n + 1,), excluded : pairs i < j that do not act, the j of each i
    """

    sizes: np.ndarray[Any, np.dtype[np.float64]]
    depths: np.ndarray[Any, np.dtype[np.float64]]
    constants: np.ndarray[Any, np.dtype[np.float64]]
    around: np.ndarray[Any, np.dtype[np.int64]]
    buckets: int
    excluded_first: np.ndarray[Any, np.dtype[np.int32]]
    excluded: np.ndarray[Any, np.dtype[np.int32]]


SHORT = ir.IntType(32)


def _short(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Address of an integer in a work array, of which each number has room for two."""
    whole = context.make_array(sig.args[0])(context, builder, args[0])
    size = builder.mul(whole.nitems, args[1].type(2))
    check(context, builder, args[1], args[1].type(1), size)
    return builder.gep(builder.bitcast(whole.data, SHORT.as_pointer()), [args[1]])


@written(lambda work, k: types.int64(work, types.int64))
def index(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return integer k of a work array."""
    return builder.sext(builder.load(_short(context, builder, sig, args)), WHOLE)


@written(lambda work, k, value: types.void(work, types.int64, types.int64))
def put_index(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Set integer k of a work array."""
    at = _short(context, builder, sig, args)
    builder.store(builder.trunc(args[2], SHORT), at)
    return context.get_dummy_value()


@written(lambda x: types.int64(types.float64))
def whole(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return x without what is behind its point, as an integer, from −`FAR` to `FAR`."""
    near, low, high = args[0], ir.DoubleType()(-FAR), ir.DoubleType()(FAR)
    near = builder.select(builder.fcmp_ordered(">", near, low), near, low)
    near = builder.select(builder.fcmp_ordered("<", near, high), near, high)
    return builder.fptosi(near, WHOLE)


@exact_step
def cell(x, inverse, axes):
    """Number of the cell of a point."""
    number = 0
    for a in range(len(axes)):
        number = number + STEPS[a] * whole(inverse * x[a])
    return number & BITS


@exact_step
def distance_squared(x, y):
    d = minus(x, y)
    return inner(d, d)


@exact_call
def find_partners(work, chain, lists, room, axes, pairs):
    """List the partners of every bead of a chain; false if there is no room for them.

    Positions are vectors of ``work`` from ``chain`` on, behind which, and forces, there are heads
    of buckets, the next bead in the bucket of each, cells, and marks of excluded beads.  From
    ``lists`` on there is ``room`` for where the partners of each bead end, and the partners.  From
    the last bead to the first, each is put into its bucket when it has looked around, and so finds
    higher numbers only.
    """
    n = pairs.sizes.size
    reach = pairs.constants[3]
    heads = 2 * (chain + 2 * n) * len(axes)
    following = heads + pairs.buckets
    cells = following + n
    marks = cells + n
    for b in range(pairs.buckets):
        put_index(work, heads + b, -1)
    end = n + 1
    put_index(work, lists + n, end)
    for i in range(n - 1, -1, -1):
        for at in range(pairs.excluded_first[i], pairs.excluded_first[i + 1]):
            put_index(work, marks + pairs.excluded[at], i + 1)
        start = end
        x = vector(work, chain + i, axes, 0.0)
        here = cell(x, (1.0 - 1e-9) / reach, axes)
        for step in range(pairs.around.size):
            there = (here + pairs.around[step]) & BITS
            j = index(work, heads + (there & (pairs.buckets - 1)))
            while j >= 0:
                # Other cells may share the bucket.
                near = index(work, cells + j) == there and index(work, marks + j) != i + 1
                if near and distance_squared(x, vector(work, chain + j, axes, 0.0)) < reach * reach:
                    if end == room:
                        return False
                    place = lists + end
                    while place > lists + start and index(work, place - 1) > j:
                        put_index(work, place, index(work, place - 1))
                        place -= 1
                    put_index(work, place, j)
                    end += 1
                j = index(work, following + j)
        put_index(work, lists + i, end)
        put_index(work, cells + i, here)
        head = heads + (here & (pairs.buckets - 1))
        put_index(work, following + i, index(work, head))
        put_index(work, head, i)
    return True
