"""Projections for any hard set that moves: trees, rings, hard torsions, fixed bases.

Rows are those of the chain, in factor order (see `hard`), except that a length is held by its
square, and so is a hard angle between hard lengths, by the distance of its outer beads, if it is
not nearly straight: the same manifold, and det H differs by a constant.

    positions    H λ = goal − q(x) ,   x ← x + M⁻¹ B(x₀)ᵀ λ , again and again
    velocities   H λ = −B v ,   v ← v + M⁻¹ Bᵀ λ

H^bb at the positions x₀ where a drift begins is at hand from the projection of the velocities, and
serves in Newton's method in place of B(x) M⁻¹ B(x₀)ᵀ, with an error of first order in the drift.
"""

from collections import namedtuple

from fixman.kernels.algebra.vectors import dot, vector
from fixman.kernels.chain import hard
from fixman.kernels.chain.rows import SQUARE, bonds, measure, rest
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import entry, exact, exact_arrays, fma, larger, load, part, store
from fixman.kernels.factors import sparse

CHORDS = 50  # iterations: where the drift is moderate five to eight are needed
EPS = 2.0**-52


class Room(namedtuple("Room", "goals block rhs total")):
    """Constants of the targets, two a row; the hard block; multipliers, and their sum."""


@exact_arrays
def room(system, targets, like):
    """½ d² and d of a distance row, cosine and sine of an angle, and memory."""
    m = system.kinds.size
    vectors = system.number * len(system.axes)
    whole = lane.memory(2 * (vectors + system.symbolic.row.size) + 7 * m, like)
    goals = part(whole, 0, 2 * m, like)
    for k in range(2 * m):
        store(goals, k, lane.take(targets, k, 2 * m, like))
    block = hard.block(system, whole, 4 * m, like)
    return Room(goals, block, part(whole, 2 * m, m, like), part(whole, 3 * m, m, like))


@exact
def rounding(X, like):
    """How far differences of positions may be off."""
    size = 0.0 * like
    for k in range(X.size // lane.lanes(like)):
        x = load(X, k, like)
        size = larger(larger(x, -x), size)
    return (4.0 * EPS) * size


@exact
def shake(system, room, X0, X, V, rate, limits, like):
    """Newton's method with the factor of H at X0; once only, X may be far from the manifold."""
    m = system.kinds.size
    axes, kinds, points, vectors = system.axes, system.kinds, system.points, system.vectors
    tolerance, iterations = limits
    goals, block, rhs, total = room
    B = block.B
    zero = 0.0 * like
    busy = lane.everywhere(like) if m > 0 else 0
    size = rounding(X, like)
    for r in range(m):
        store(total, r, zero)
    for _ in range(min(iterations, CHORDS)):
        worst = zero
        for r in range(m):
            kind = entry(kinds, r)
            u, v, t = bonds(kind, X, points, r, axes, like)
            g = vector(B, entry(vectors, r + 1) - 1, axes, like)  # of where the drift began
            goal = load(goals, 2 * r, like), load(goals, 2 * r + 1, like)
            found = measure(kind, u, v, t)
            lack, whole, noise = rest(kind, found[0], found[1], u, v, g, goal, size)
            if iterations == 1 and kind == SQUARE:  # as if the row were the length, not its square
                length = lane.root(dot(u, u))
                lack *= (length + length) / (length + goal[1])
            store(rhs, r, lack)
            worst = larger(larger(lack, -lack) - fma(tolerance + zero, whole, noise), worst)
        busy &= lane.beyond(worst, zero)
        if busy == 0:
            break
        sparse.solve(block.H, block.D, system.symbolic, rhs, like)
        for r in range(m):
            push = lane.choose(busy, load(rhs, r, like), zero)
            store(rhs, r, push)
            store(total, r, load(total, r, like) + push)
        hard.push(system, B, rhs, system.shares, X, axes, like)
    for r in range(m):
        store(total, r, rate * load(total, r, like))
    hard.push(system, B, total, system.shares, V, axes, like)
    return busy


@exact
def factor(system, room, X, like):
    """Vectors at X and LDLᵀ of H; a pivot that is lost becomes NaN, and so does what follows."""
    hard.factor(system, room.block, X, like)


@exact
def logdet(system, room, like):
    return sparse.log_product(room.block.H, system.symbolic.first, like)


@exact
def project(system, room, V, X, like):
    """V ← V + M⁻¹ Bᵀ λ with H λ = −B V, given the factor at X."""
    block = room.block
    for r in range(system.kinds.size):
        store(room.rhs, r, 0.0 * like)
    hard.pull(system, block.B, V, system.signs, room.rhs, like)
    sparse.solve(block.H, block.D, system.symbolic, room.rhs, like)
    hard.push(system, block.B, room.rhs, system.shares, V, system.axes, like)


@exact
def add_metric_force(system, room, F, X, kT, like):
    hard.add_metric_force(system, room.block, F, X, kT, like)
