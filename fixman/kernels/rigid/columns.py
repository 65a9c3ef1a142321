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
    ALONG_X,
    ALONG_Y,
    ARMATURE,
    COS_X,
    FRAME,
    LINK,
    PLACE,
    SIN_X,
    angles,
    joint_axes,
    place_of,
    rising,
    sizes,
)
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
from fixman.kernels.rigid.links import FREE, PRISMATIC, REVOLUTE, halfway

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
def through_turn(z, r, held, work, row, E, at):
    """Innovation of a revolute joint into unit ``at``; what its body hands on, and its part."""
    ux, uy, vx, vy, vz, k = load6(work, row + 5, 0.0)
    e = z[2]
    store(E, at, e)
    n, f = (z[0] - ux * e, z[1] - uy * e), (z[3] - vx * e, z[4] - vy * e, z[5] - vz * e)
    c = tuple(load(work, row + i, 0.0) for i in range(5))
    r = r + (e * k + (n[0] * c[0] + n[1] * c[1])) + (f[0] * c[2] + f[1] * c[3] + f[2] * c[4])
    return (*n, held * e, *f), r


@step
def through_slide(z, r, held, work, row, E, at):
    ux, uy, uz, vx, vy, k = load6(work, row + 5, 0.0)
    e = z[5]
    store(E, at, e)
    n, f = (z[0] - ux * e, z[1] - uy * e, z[2] - uz * e), (z[3] - vx * e, z[4] - vy * e)
    c, rest = tuple(load(work, row + i, 0.0) for i in range(5)), held * e
    r = r + (e * k + (n[0] * c[0] + n[1] * c[1])) + (f[0] * c[2] + f[1] * c[3] + rest * c[4])
    return (*n, *f, rest), r


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
def ball_factor(work, row):
    """L and D of a spherical joint's A."""
    A = load6(work, row + 30, 0.0)
    l21, l31 = A[1] / A[0], A[2] / A[0]
    d2 = A[3] - l21 * A[1]
    t = A[4] - l21 * A[2]
    l32 = t / d2
    return (l21, l31, l32), (A[0], d2, A[5] - l31 * A[2] - l32 * t)


@step
def through_ball(z, r, V, table, seat, work, row, E, at, D):
    """The same for a spherical joint, and on to the body before."""
    n, f = (z[0], z[1], z[2]), (z[3], z[4], z[5])
    L, d = ball_factor(work, row)
    store_all(E, at, halfway(L, n))
    for k in range(3):
        D[at + k] = 1.0 / d[k]
    K, c = load9(work, row + 21, 0.0), load6(work, row + 9, 0.0)
    spin = load3(work, row + 15, 0.0)
    back_n = back(K, n)
    f = tuple(f[k] - back_n[k] for k in range(3))
    r = r + (n[0] * spin[0] + n[1] * spin[1] + n[2] * spin[2])
    n = back(V, n)
    r = r + (n[0] * c[0] + n[1] * c[1] + n[2] * c[2])
    r = r + (f[0] * c[3] + f[1] * c[4] + f[2] * c[5])
    R = load9(work, row, 0.0)
    f, n = times(R, f), times(R, n)
    p = constants(table, seat + PLACE)
    n = (
        n[0] + p[1] * f[2] - p[2] * f[1],
        n[1] + p[2] * f[0] - p[0] * f[2],
        n[2] + p[0] * f[1] - p[1] * f[0],
    )
    return (*n, *f), r


@step
def through_float(z, r, work, row, E, at, D):
    """The same for a free base, where all ends."""
    x = load6(work, row + 15, 0.0)
    y = [z[k] for k in range(6)]
    for i in range(6):
        r = r + z[i] * x[i]
        for j in range(i):
            y[i] = y[i] - load(work, row + 30 + 6 * i + j, 0.0) * y[j]
        D[at + i] = 1.0 / load(work, row + 30 + 7 * i, 0.0)
        store(E, at + i, y[i])
    return r


@step
def kept(left, work, at):
    """What a spherical joint with armature hands on of moments that it feels, V = A⁻¹ J."""
    V = load9(work, at, 0.0)
    return (V[0] + left, *V[1:4], V[4] + left, *V[5:8], V[8] + left)


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
        geared = table[LINK * i + ARMATURE] != 0.0
        if kind <= PRISMATIC:
            D[at_v] = 1.0 / work[row + 12]
            held = left + work[row + 13] if geared else left
            if kind == REVOLUTE:
                z, r = through_turn(z, r, held, work, row, E, at_v)
            else:
                z, r = through_slide(z, r, held, work, row, E, at_v)
            sums = gathered(sums, E, at_v, E, at_v, D[at_v])
            z = along_screw(z, table, LINK * i, work[i], work[m + i], work[row + 11])
            if i == 0:
                r = rested(z, r, joint_axes(table, LINK * n, rising(loads, 0.0)))
        elif kind == FREE:
            if geared:
                r = rested(z, r, constants(work, row + 12))
            r = through_float(z, r, work, row, E, at_v, D)
            for k in range(at_v, at_v + 6):
                sums = gathered(sums, E, k, E, k, D[k])
        else:
            V = left, 0.0, 0.0, 0.0, left, 0.0, 0.0, 0.0, left
            if geared:
                V = kept(left, work, row + 36)
            z, r = through_ball(z, r, V, table, LINK * n + FRAME * i, work, row, E, at_v, D)
            for k in range(at_v, at_v + 3):
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
