"""Columns of wrenches, eight in a register, through the joints of a chain; their products.

Tables as in `rigid_closed`.
"""

from __future__ import annotations

from fixman.kernels.algebra.triples import (
    back,
    constants,
    load3,
    load6,
    load9,
    matrix,
    store_all,
    times,
)
from fixman.kernels.algebra.vectors import minus, outer, plus, scaled
from fixman.kernels.compiler.lanes import LANES, eight, load, store
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.articulated_body import (
    rising,
)
from fixman.kernels.rigid.articulated_tables import (
    ALONG_X,
    ALONG_Y,
    CARRIED,
    COS_X,
    FRAME,
    JOINT,
    LINK,
    ORIGIN,
    PITCH,
    PIVOT,
    RATE,
    SHIFTED,
    SIN_X,
    angles,
    first_units,
    place_of,
    seated,
    sizes,
)
from fixman.kernels.rigid.articulated_tables import HELD as HELD_SHARE
from fixman.kernels.rigid.closed_tables import (
    COLUMN,
    COUNT,
    END,
    END0,
    FACTS,
    FIRST,
    FORCE,
    HELD,
    LAST,
    MOMENT,
    NOWHERE,
    OF_ROW0,
    PLACED,
    plain,
)
from fixman.kernels.rigid.joints import RATES, TURNS, WHERE

# --- columns of wrenches, inwards -----------------------------------------------------------------


@step
def put_wrench(W, to, n, f):
    for k in range(3):
        W[to + LANES * k] = n[k]
        W[to + LANES * (3 + k)] = f[k]


@step
def wrench_of(facts, to, placed, at, x, sign):
    """A unit force along a row at x, on the body of an end, about its origin in its axes."""
    R, S = matrix(placed, at), scaled(sign, constants(facts, to))
    return back(R, outer(minus(x, constants(placed, at + 9)), S)), back(R, S)


@step
def couple_of(facts, to, placed, at, sign):
    return back(matrix(placed, at), scaled(sign, constants(facts, to)))


@step
def asking(placed, at, length):
    """A force and a moment on the body of an end, at its point."""
    p = minus(constants(placed, at + 24), constants(placed, at + 9))
    p = back(matrix(placed, at), p)
    f = tuple(0.0 * length + x for x in FORCE)
    return plus(outer(p, f), tuple(length * x for x in MOMENT)), f


@plain
def fill(table, plan, block, end, placed, facts, W):
    """Write the wrenches of a block's columns on the body of an end into ``W``, 6 units."""
    held = plan[HELD]
    at = PLACED * end
    for k in range(6 * LANES):
        W[k] = 0.0
    for lane in range(plan[block + COUNT]):
        c = plan[plan[block + COLUMN] + lane]
        if c >= held:
            if c - held == end:
                n, f = asking(placed, at, table[plan[END0] + END * end + 12])
                put_wrench(W, lane, n, f)
            continue
        closure = plan[plan[OF_ROW0] + 2 * c]
        if closure != end // 2:
            continue
        sign = 1.0 if end % 2 == 1 else -1.0
        n, f = NOWHERE, NOWHERE
        if plan[plan[OF_ROW0] + 2 * c + 1] != 0:
            n = couple_of(facts, FACTS * c, placed, at, sign)
        else:
            b = PLACED * (2 * closure + 1)
            n, f = wrench_of(facts, FACTS * c, placed, at, constants(placed, b + 24), sign)
        put_wrench(W, lane, n, f)


@step
def add_wrench(z, W, to):
    given = load6(W, to, z[0])
    return tuple(z[k] + given[k] for k in range(6))


@step
def through_turn(z, r, left, work, units, E, at):
    """Innovation of a turn about z into unit ``at``; what its body hands on, and its part of r."""
    ux, uy, vx, vy, vz, k = load6(work, units, 0.0)
    e = z[2]
    store(E, at, e)
    n, f = (z[0] - ux * e, z[1] - uy * e), (z[3] - vx * e, z[4] - vy * e, z[5] - vz * e)
    return (*n, (left + work[units + HELD_SHARE]) * e, *f), r + e * k


@step
def swapped(z):
    """Force before moment: a slide is then a turn."""
    return z[3], z[4], z[5], z[0], z[1], z[2]


@step
def cycled(z):
    """Other names of the axes, as `links.renamed`."""
    return z[1], z[2], z[0], z[4], z[5], z[3]


@step
def sheared(z, pitch):
    """As `links.sheared`."""
    return z[0], z[1], z[2] + pitch * z[5], z[3], z[4], z[5]


@step
def works(z, r, work, row):
    """r with the work of a wrench by the bias acceleration of a joint of one rate."""
    c = tuple(load(work, row + i, 0.0) for i in range(5))
    return r + (z[0] * c[0] + z[1] * c[1]) + (z[3] * c[2] + z[4] * c[3] + z[5] * c[4])


@step
def joint_to_before(z, r, work, row):
    """The same of a joint of several rates, and on to the body before."""
    n, f = (z[0], z[1], z[2]), (z[3], z[4], z[5])
    c = load6(work, row + CARRIED, 0.0)
    r = r + (n[0] * c[0] + n[1] * c[1] + n[2] * c[2])
    r = r + (f[0] * c[3] + f[1] * c[4] + f[2] * c[5])
    R, p = load9(work, row, 0.0), load3(work, row + ORIGIN, 0.0)
    f, n = times(R, f), times(R, n)
    n = (
        n[0] + p[1] * f[2] - p[2] * f[1],
        n[1] + p[2] * f[0] - p[0] * f[2],
        n[2] + p[0] * f[1] - p[1] * f[0],
    )
    return (*n, *f), r


@step
def user_axes(z, table, at):
    """Wrenches that a screw has led to, in the user's axes of the body before."""
    R = matrix(table, at + JOINT)
    return (*times(R, (z[0], z[1], z[2])), *times(R, (z[3], z[4], z[5])))


@step
def along_screw(z, table, at, c, s, d):
    """Wrenches about the origin, and in the axes, of the body before.

    Sums are written for the sweep to wait little: what comes last from the joint is added last.
    """
    n, f = (z[0], z[1], z[2]), (z[3], z[4], z[5])
    f = (c * f[0] - s * f[1], s * f[0] + c * f[1], f[2])
    n = ((c * n[0] - s * n[1]) - d * f[1], (s * n[0] + c * n[1]) + d * f[0], n[2])
    c, s = table[at + COS_X], table[at + SIN_X]
    f = (f[0], c * f[1] - s * f[2], s * f[1] + c * f[2])
    a, b = table[at + ALONG_X], table[at + ALONG_Y]
    y, z = c * n[1] - s * n[2], s * n[1] + c * n[2]
    return (n[0] + b * f[2], y - a * f[2], z + (a * f[1] - b * f[0]), *f)


@step
def rested(z, r, up):
    return r + (z[3] * up[0] + z[4] * up[1] + z[5] * up[2])


@step
def gathered(sums, E, i, other, at, inverse):
    """Add products of a row's eight innovations with eight others."""
    y = load(other, at, sums[0]) * inverse
    return tuple(sums[c] + E[LANES * i + c] * y for c in range(LANES))


@plain
def columns_inwards(table, loads, work, plan, block, left, W, E, D, G):
    """Innovations of eight columns into ``E``, a unit a rate, and 1/D; what they feel of θ̈_free.

    Their products Eᵀ D⁻¹ E into ``G``: the sweep waits for each body, and these cost nothing
    meanwhile.  ``W`` has the wrenches on each of the block's ends; ``left`` as in `comply`.
    """
    n, _, _, _ = sizes(table, table.size)
    m = angles(n)
    zero = eight(0.0)
    z, r = (zero, zero, zero, zero, zero, zero), zero
    sums = (zero, zero, zero, zero, zero, zero, zero, zero)
    first, end = plan[block + FIRST], plan[block + LAST]
    for i in range(plan[end - 1], -1, -1):
        while end > first and plan[end - 1] == i:
            end -= 2
            z = add_wrench(z, W, 3 * (end - first))
        kind, _, at_v, row = place_of(table, n, i)
        at, seat = LINK * i, LINK * n + FRAME * i
        units = first_units(kind, row)
        for k in range(RATES[kind]):
            D[at_v + k] = 1.0 / work[units + RATE * k + PIVOT]
        if RATES[kind] == 1:
            if TURNS[kind] == 0:
                z, r = through_turn(swapped(z), r, left, work, units, E, at_v)
                z = swapped(z)
            else:
                z, r = through_turn(sheared(z, table[at + PITCH]), r, left, work, units, E, at_v)
                z = sheared(z, -table[at + PITCH])
            r = works(z, r, work, row)
            z = along_screw(z, table, at, work[i], work[m + i], work[row + SHIFTED])
            if seated(table, n, i):
                z = user_axes(z, table, seat)
        else:
            for part in (3, 0):
                z = swapped(z)
                for k in range(3):
                    z, j = cycled(z), WHERE[kind, part + k]
                    if j >= 0:
                        z, r = through_turn(z, r, left, work, units + RATE * j, E, at_v + j)
            z, r = joint_to_before(z, r, work, row)
        for k in range(at_v, at_v + RATES[kind]):
            sums = gathered(sums, E, k, E, k, D[k])
        if i == 0:
            r = rested(z, r, rising(loads, 0.0))
    store_all(G, 0, sums)
    return r


@plain
def products_of(E, other, D, rates, G):
    """Eᵀ D⁻¹ other of two blocks of columns into ``G``, over the first ``rates``."""
    zero = eight(0.0)
    sums = (zero, zero, zero, zero, zero, zero, zero, zero)
    for i in range(rates):
        sums = gathered(sums, E, i, other, i, D[i])
    store_all(G, 0, sums)


@plain
def scatter(plan, block, other, G, inverse, asked):
    """Add products of two blocks to Λ⁻¹, its lower half; those of what is asked are answers."""
    held = plan[HELD]
    for j in range(plan[block + COUNT]):
        r = plan[plan[block + COLUMN] + j]
        for k in range(j + 1 if block == other else plan[other + COUNT]):
            c = plan[plan[other + COLUMN] + k]
            value = G[LANES * j + k]
            if r < held and c < held:
                inverse[held * r + c if r > c else held * c + r] += value
            elif r == c:
                asked[r - held] = value
