"""Projections for any hard set that moves: trees, rings, hard torsions, fixed bases.

Rows are those of the chain, in the factor order of `coordinates.HardPattern`, except that a hard
angle between hard lengths is held by the distance of its outer beads, if it is not nearly straight:
the same manifold, and det H differs by a constant.  A distance row is ½ |d|² for d = x_j − x_i,
with the one vector d; any other row has its Wilson gradients, a vector for each slot.  Vectors are
numbered, and a *slot* is a bead with one of them and a sign.

H^bb at the positions where a drift begins is at hand from the projection of the velocities, and
serves in Newton's method in place of B(x) M⁻¹ B(x₀)ᵀ, with an error of first order in the drift.
Arrays are described in `jointed_steps`; ghosts are joints that do not move.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import sparse
from fixman.kernels.geometry import (
    angle_rate,
    angle_row,
    torsion_rate,
    torsion_row,
    turn_rate,
    turn_row,
)
from fixman.kernels.lanes import (
    beyond,
    choose,
    entry,
    everywhere,
    exact,
    fma,
    lanes,
    larger,
    load,
    memory,
    root,
    store,
)
from fixman.kernels.vectors import (
    Axes,
    along,
    inner,
    minus,
    outer,
    plus,
    put_vector,
    scaled,
    vector,
)

DISTANCE, TURN, ANGLE, TORSION = range(4)  # TURN: an angle in the plane
CHORDS = 50  # iterations: where the drift is moderate five to eight are needed
NONE, BASE = -1, -2
EPS = 2.0**-52


class General(NamedTuple):
    """Tables of the hard rows.

    kinds (m,), joints (m · 4,), vectors (m,) : of each row, and the first of its vectors
    public (m,) : place of its target
    sides (m · 2,) : places of the lengths beside an angle that is held by a distance, BASE where
        that is the unit between two ghosts; else NONE
    places, left, right (t,), weights (t,) : H_place is the sum of weight · left · right
    owners, movers, carriers (s,), signs, shares (s,) : of each slot the row, the joint, the vector,
        the sign, and sign over mass
    first, row, left_first, left_place, left_column : `sparse.Symbolic`
    """

    axes: Axes
    kinds: np.ndarray[Any, np.dtype[np.int8]]
    joints: np.ndarray[Any, np.dtype[np.int32]]
    vectors: np.ndarray[Any, np.dtype[np.int32]]
    public: np.ndarray[Any, np.dtype[np.int32]]
    sides: np.ndarray[Any, np.dtype[np.int32]]
    places: np.ndarray[Any, np.dtype[np.int32]]
    left: np.ndarray[Any, np.dtype[np.int32]]
    right: np.ndarray[Any, np.dtype[np.int32]]
    weights: np.ndarray[Any, np.dtype[np.float64]]
    owners: np.ndarray[Any, np.dtype[np.int32]]
    movers: np.ndarray[Any, np.dtype[np.int32]]
    carriers: np.ndarray[Any, np.dtype[np.int32]]
    signs: np.ndarray[Any, np.dtype[np.float64]]
    shares: np.ndarray[Any, np.dtype[np.float64]]
    total: int  # of vectors
    first: np.ndarray[Any, np.dtype[np.int32]]
    row: np.ndarray[Any, np.dtype[np.int32]]
    left_first: np.ndarray[Any, np.dtype[np.int32]]
    left_place: np.ndarray[Any, np.dtype[np.int32]]
    left_column: np.ndarray[Any, np.dtype[np.int32]]


class Room(NamedTuple):
    """What the targets are, and work.

    Two constants a row; vectors B; H, then its factor (see `sparse`), and 1 / d; S = H⁻¹;
    multipliers, and their sum over iterations; two units a row; ∂U/∂B.
    """

    goals: np.ndarray[Any, np.dtype[np.float64]]
    B: np.ndarray[Any, np.dtype[np.float64]]
    H: np.ndarray[Any, np.dtype[np.float64]]
    D: np.ndarray[Any, np.dtype[np.float64]]
    S: np.ndarray[Any, np.dtype[np.float64]]
    rhs: np.ndarray[Any, np.dtype[np.float64]]
    total: np.ndarray[Any, np.dtype[np.float64]]
    work: np.ndarray[Any, np.dtype[np.float64]]
    G: np.ndarray[Any, np.dtype[np.float64]]


@exact
def room(system, targets, like):
    """½ d² and d of a distance row, cosine and sine of an angle."""
    m = system.kinds.size
    width = lanes(like)
    goals = memory(2 * m, like)
    own = targets.size // width
    for r in range(m):
        for lane in range(width):
            target = targets[lane * own + system.public[r]]
            if system.kinds[r] == DISTANCE:
                if system.sides[2 * r + 1] != NONE:
                    a = 1.0
                    if system.sides[2 * r] != BASE:
                        a = targets[lane * own + system.sides[2 * r]]
                    b = targets[lane * own + system.sides[2 * r + 1]]
                    target = math.sqrt(a * a + b * b + 2.0 * a * b * math.cos(target))
                goals[2 * r * width + lane] = 0.5 * target * target
                goals[(2 * r + 1) * width + lane] = target
            else:
                goals[2 * r * width + lane] = math.cos(target)
                goals[(2 * r + 1) * width + lane] = math.sin(target)
    nnz = system.row.size
    return Room(
        goals,
        memory(system.total * len(system.axes), like),
        memory(nnz, like),
        memory(m, like),
        memory(nnz, like),
        memory(m, like),
        memory(m, like),
        memory(2 * m, like),
        memory(system.total * len(system.axes), like),
    )


@exact
def between(X, joints, r, slot, axes, like):
    """Return the vector between two successive joints of a row."""
    begin = vector(X, entry(joints, 4 * r + slot), axes, like)
    return minus(vector(X, entry(joints, 4 * r + slot + 1), axes, like), begin)


@exact
def magnitude(x):
    return larger(x, -x)


@exact
def residual(system, goals, r, X, size, like):
    """What a row lacks of its target, its unit, and rounding where positions are of ``size``.

    The sine of the difference stands for that of angles.
    """
    axes = system.axes
    joints = system.joints
    kind = entry(system.kinds, r)
    a = load(goals, 2 * r, like)
    b = load(goals, 2 * r + 1, like)
    u = between(X, joints, r, 0, axes, like)
    uu = inner(u, u)
    if kind == DISTANCE:
        return fma(-0.5, uu, a), a + a, size * b
    v = between(X, joints, r, 1, axes, like)
    vv = inner(v, v)
    w = outer(u, v)
    if kind == TORSION:
        t = between(X, joints, r, 2, axes, like)
        n = outer(v, t)
        s = root(vv) * inner(u, n)
        c = inner(w, n)
    else:
        s = w[2]
        if kind == ANGLE:
            s = root(inner(w, w))
        c = inner(u, v)
    inverse = 1.0 / root(fma(s, s, c * c))
    one = 1.0 + 0.0 * like
    return (b * c - a * s) * inverse, one, size * (1.0 / root(uu) + 1.0 / root(vv))


@exact
def hold(system, room, X0, X, V, rate, tolerance, like):
    """Newton's method with the factor of H at X0 for the hard values of X; the lanes it lost."""
    m = system.kinds.size
    axes = system.axes
    zero = 0.0 * like
    busy = everywhere(like)
    if m == 0:
        return 0
    size = zero
    for k in range(X.size // lanes(like)):
        size = larger(magnitude(load(X, k, like)), size)
    size = (4.0 * EPS) * size
    for r in range(m):
        store(room.total, r, zero)
    for _ in range(CHORDS):
        worst = zero
        for r in range(m):
            rest, unit, noise = residual(system, room.goals, r, X, size, like)
            store(room.rhs, r, rest)
            worst = larger(magnitude(rest) - fma(tolerance + zero, unit, noise), worst)
        busy &= beyond(worst, zero)
        if busy == 0:
            break
        solve(system, room, room.rhs, like)
        for r in range(m):
            push = choose(busy, load(room.rhs, r, like), zero)
            store(room.rhs, r, push)
            store(room.total, r, load(room.total, r, like) + push)
        push_apart(system, room.B, room.rhs, X, zero + 1.0, axes, like)
    push_apart(system, room.B, room.total, V, zero + rate, axes, like)
    return busy


@exact
def push_apart(system, B, multipliers, Y, factor, axes, like):
    """Y ← Y + factor M⁻¹ Bᵀ λ."""
    for s in range(system.owners.size):
        push = load(multipliers, entry(system.owners, s), like)
        k = entry(system.movers, s)
        push = push * (factor * entry(system.shares, s))
        g = vector(B, entry(system.carriers, s), axes, like)
        put_vector(Y, k, axes, along(push, g, vector(Y, k, axes, like)))


@exact
def solve(system, room, b, like):
    """Overwrite b with H⁻¹ b, given the factor."""
    H = room.H
    first = system.first
    row = system.row
    m = first.size - 1
    for j in range(m):
        z = load(b, j, like)
        for p in range(entry(first, j) + 1, entry(first, j + 1)):
            i = entry(row, p)
            store(b, i, fma(-load(H, p, like), z, load(b, i, like)))
    for j in range(m - 1, -1, -1):
        begin = entry(first, j)
        z = load(b, j, like) * load(room.D, j, like)
        for p in range(begin + 1, entry(first, j + 1)):
            z = fma(-load(H, p, like), load(b, entry(row, p), like), z)
        store(b, j, z)


@exact
def gradients(system, B, X, axes, like):
    """Fill the vectors."""
    for r in range(system.kinds.size):
        kind = entry(system.kinds, r)
        at = entry(system.vectors, r)
        u = between(X, system.joints, r, 0, axes, like)
        if kind == DISTANCE:
            put_vector(B, at, axes, u)
            continue
        v = between(X, system.joints, r, 1, axes, like)
        if kind == TORSION:
            t = between(X, system.joints, r, 2, axes, like)
            _, _, gu, gv, gt = torsion_row(u, v, t)
            put_vector(B, at + 2, axes, minus(gv, gt))
            put_vector(B, at + 3, axes, gt)
        else:
            if len(axes) == 2:
                gu, gv = turn_row(u, v)
            else:
                _, gu, gv = angle_row(u, v)
            put_vector(B, at + 2, axes, gv)
        put_vector(B, at, axes, scaled(-1.0, gu))
        put_vector(B, at + 1, axes, minus(gu, gv))


@exact
def factor(system, room, X, like):
    """Vectors at X and LDLᵀ of H; a pivot that is lost becomes NaN, and so does what follows."""
    H = room.H
    work = room.work
    axes = system.axes
    zero = 0.0 * like
    gradients(system, room.B, X, axes, like)
    for p in range(system.row.size):
        store(H, p, zero)
    for t in range(system.places.size):
        p = entry(system.places, t)
        a = vector(room.B, entry(system.left, t), axes, like)
        b = vector(room.B, entry(system.right, t), axes, like)
        weight = entry(system.weights, t) + zero
        store(H, p, fma(weight, inner(a, b), load(H, p, like)))
    symbolic = pattern(system)
    for j in range(system.first.size - 1):
        begin = entry(system.first, j)
        diagonal = load(H, begin, like)
        sparse.gather(H, j, *symbolic, work, like)
        d = load(work, j, like)
        lost = ~beyond(d, 64.0 * EPS * diagonal)
        d = choose(lost, d * math.nan, d)
        inverse = 1.0 / d
        store(room.D, j, inverse)
        store(H, begin, d)
        for p in range(begin + 1, entry(system.first, j + 1)):
            store(H, p, inverse * load(work, entry(system.row, p), like))


@exact
def pattern(system):
    """Return the arrays of `sparse.Symbolic`."""
    return system.first, system.row, system.left_first, system.left_place, system.left_column


@exact
def project(system, room, V, X, like):
    """V ← V + M⁻¹ Bᵀ λ with H λ = −B V, given the factor at X."""
    axes = system.axes
    zero = 0.0 * like
    for r in range(system.kinds.size):
        store(room.rhs, r, zero)
    for s in range(system.owners.size):
        r = entry(system.owners, s)
        g = vector(room.B, entry(system.carriers, s), axes, like)
        v = vector(V, entry(system.movers, s), axes, like)
        sign = entry(system.signs, s) + zero
        store(room.rhs, r, fma(-sign, inner(g, v), load(room.rhs, r, like)))
    solve(system, room, room.rhs, like)
    push_apart(system, room.B, room.rhs, V, zero + 1.0, axes, like)


@exact
def add_metric_force(system, room, F, X, kT, like):
    """Add the exact Fixman force to F, but for parts along rows.

    −kT Σ S_ij ∂H_ij/∂x, first with respect to the vectors, G, then to the positions.
    """
    axes = system.axes
    zero = 0.0 * like
    none = zero, zero, zero
    sparse.inverse_on_pattern(room.H, room.S, *pattern(system), room.work, like)
    for k in range(system.total):
        put_vector(room.G, k, axes, none)
    for t in range(system.places.size):
        i = entry(system.left, t)
        j = entry(system.right, t)
        s = (kT * entry(system.weights, t)) * load(room.S, entry(system.places, t), like)
        b = vector(room.B, j, axes, like)
        put_vector(room.G, i, axes, along(s, b, vector(room.G, i, axes, like)))
        if i != j:
            a = vector(room.B, i, axes, like)
            put_vector(room.G, j, axes, along(s, a, vector(room.G, j, axes, like)))
    for r in range(system.kinds.size):
        kind = entry(system.kinds, r)
        at = entry(system.vectors, r)
        g = vector(room.G, at, axes, like)
        if kind == DISTANCE:
            pull(F, system.joints, 4 * r, g, axes, like)
            continue
        u = between(X, system.joints, r, 0, axes, like)
        v = between(X, system.joints, r, 1, axes, like)
        g1 = vector(room.G, at + 1, axes, like)
        g2 = vector(room.G, at + 2, axes, like)
        du = minus(g1, g)
        dv = minus(g2, g1)
        if kind == TORSION:
            t = between(X, system.joints, r, 2, axes, like)
            dt = minus(vector(room.G, at + 3, axes, like), g2)
            gu, gv, gt = torsion_rate(u, v, t, du, dv, dt)
            pull(F, system.joints, 4 * r + 2, gt, axes, like)
        else:
            gu, gv = turn_rate(u, v, du, dv) if len(axes) == 2 else angle_rate(u, v, du, dv)
        pull(F, system.joints, 4 * r, gu, axes, like)
        pull(F, system.joints, 4 * r + 1, gv, axes, like)


@exact
def pull(F, joints, k, g, axes, like):
    """Force −g on the bond that begins at ``joints[k]``."""
    i = entry(joints, k)
    j = entry(joints, k + 1)
    put_vector(F, i, axes, plus(vector(F, i, axes, like), g))
    put_vector(F, j, axes, minus(vector(F, j, axes, like), g))
