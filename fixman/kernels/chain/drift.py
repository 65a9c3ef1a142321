"""Mean motion of overdamped chains with constraints, for any hard set, one frame or eight in lanes.

With mobilities K = 1/ζ and D = K − K Bᵀ S B K, S = (B K Bᵀ)⁻¹, noise changes hard coordinates by
kT c a unit of time (Itô), which the mean tensions T make up for under forces G:

    c_l = tr(D ∂²q_l) = Σ_k K_k tr(∂²q_l)_kk − Σ_ij S_ij (K B_i)·∂²q_l·(K B_j)               (1)
    B K (G − Bᵀ T) + kT c = 0                                                                (2)

B K Bᵀ is the H^bb of ``hard``, whose inverse masses are K.  Rows i and j touch row l but not always
each other, so that S is needed on a wider pattern than that of H^bb.
"""

from collections import namedtuple

from fixman.kernels.algebra.vectors import along, fused_dot, plus, put_vector, vector
from fixman.kernels.chain import hard
from fixman.kernels.chain.rows import bonds, curvature, rate
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import entry, exact, exact_kernel, lanes, load, part, put, store
from fixman.kernels.compiler.lanes import zeros as no_states
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors import sparse


class Drift(namedtuple("Drift", "hard slots begins near firsts places doubled most")):
    """Hard rows whose ``symbolic`` is wide enough, and which of them touch which.

    slots (m + 1,) : where the slots of each row begin
    begins (m + 1,), near : the rows that touch each row, itself among them
    firsts (m,), places : of each row, S_ij for every i and j ≤ i in the order of ``near``
    doubled (t,) : ``hard.weights``, twice those of two different rows
    most : rows that touch one, at most
    """


def units(drift: Drift) -> int:
    """Units of memory for `drift_frames`."""
    system = drift.hard
    dim = len(system.axes)
    points = (system.n + system.front) * dim
    rows = system.kinds.size + 3 * dim * drift.most
    return int(hard.units(system, force=True) + 2 * points + rows)


@exact
def noise_of_row(drift, r, block, X, Y, moved, like):
    """c_r by (1).  Y holds zeros, before and after; ``moved`` is work for three bonds a row."""
    system = drift.hard
    axes, points = system.axes, system.points
    zero = 0.0 * like
    none = zero, zero, zero
    kind = entry(system.kinds, r)
    u, v, t = bonds(kind, X, points, r, axes, like)
    total = zero
    # Σ_k K_k tr(∂²q_r)_kk
    for s in range(entry(drift.slots, r), entry(drift.slots, r + 1)):
        k = entry(system.movers, s)
        again = False  # a point that two slots share moves once
        for other in range(entry(drift.slots, r), s):
            again |= entry(system.movers, other) == k
        if again:
            continue
        mobility = entry(system.signs, s) * entry(system.shares, s)
        for axis in range(len(axes)):
            store(Y, k * len(axes) + axis, zero + 1.0)
            du, dv, dt = bonds(kind, Y, points, r, axes, like)
            store(Y, k * len(axes) + axis, zero)
            total += mobility * curvature(kind, u, v, t, du, dv, dt)
    # − Σ_ij S_ij (K B_i)·∂²q_r·(K B_j); Y is K B_i, and ``moved`` its bonds of row r for all i
    begin = entry(drift.begins, r)
    count = entry(drift.begins, r + 1) - begin
    at = entry(drift.firsts, r)
    for a in range(count):
        i = entry(drift.near, begin + a)
        first, last = entry(drift.slots, i), entry(drift.slots, i + 1)
        for s in range(first, last):
            k = entry(system.movers, s)
            g = vector(block.B, entry(system.carriers, s), axes, like)
            share = entry(system.shares, s) + zero
            put_vector(Y, k, axes, along(share, g, vector(Y, k, axes, like)))
        du, dv, dt = bonds(kind, Y, points, r, axes, like)
        for s in range(first, last):
            put_vector(Y, entry(system.movers, s), axes, none)
        put_vector(moved, 3 * a, axes, du)
        put_vector(moved, 3 * a + 1, axes, dv)
        put_vector(moved, 3 * a + 2, axes, dt)
        gu, gv, gt = rate(kind, u, v, t, du, dv, dt)
        for b in range(a + 1):
            size = fused_dot(gu, vector(moved, 3 * b, axes, like))
            size += fused_dot(gv, vector(moved, 3 * b + 1, axes, like))
            size += fused_dot(gt, vector(moved, 3 * b + 2, axes, like))
            twice = 1.0 if a == b else 2.0
            total -= (twice * size) * load(block.S, entry(drift.places, at), like)
            at += 1
    return total


@exact_step
def symmetric(s, a, b):
    """xx, xy, xz, yy, yz and zz of s (a bᵀ + b aᵀ) / 2."""
    pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    return tuple((0.5 * s) * (a[i] * b[j] + a[j] * b[i]) for i, j in pairs)


@exact
def held(drift, block, like):
    """Σ_k (Bᵀ S B K)_kk without what is antisymmetric, as `symmetric`."""
    system = drift.hard
    axes = system.axes
    zero = 0.0 * like
    total = (zero, zero, zero, zero, zero, zero)
    for t in range(system.weights.size):
        p = entry(system.products, 3 * t)
        a = vector(block.B, entry(system.products, 3 * t + 1), axes, like)
        b = vector(block.B, entry(system.products, 3 * t + 2), axes, like)
        s = entry(drift.doubled, t) * load(block.S, p, like)
        total = plus(total, symmetric(s, a, b))
    return total


@exact_kernel
def drift_frames(x, force, drift, kT, first, last, out, memory, states):
    """Mean forces and tensions of frames; the first without an answer, or of eight with one, or -1.

    ``force`` and x are flat.  A frame of ``out`` has G − Bᵀ T, the tensions T in public order, and
    the six numbers of `held`.
    """
    like = no_states(states)
    zero = 0.0 * like
    system = drift.hard
    dim = len(system.axes)
    m = system.kinds.size
    size = system.n * dim
    points = size + system.front * dim
    whole = hard.aligned(memory)
    X = part(whole, 0, points, like)
    G = part(whole, points, points, like)
    Y = part(whole, 2 * points, points, like)
    rhs = part(whole, 3 * points, m, like)
    moved = part(whole, 3 * points + m, 3 * dim * drift.most, like)
    block = hard.block(system, whole, 3 * points + m + 3 * dim * drift.most, like)
    wide = size + m + 6
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        found = hard.read_points(x, frame * size, size, size, X, system.axes, like)
        found &= hard.factor(system, block, X, like)
        for k in range(points):
            store(G, k, zero)
            store(Y, k, zero)
        found &= hard.read_states(force, frame * size, size, size, G, like)
        if not found:
            return frame
        sparse.inverse_on_pattern(block.H, block.D, block.S, system.symbolic, block.work, like)
        base = frame * wide
        check = zero
        for r in range(m):
            noise = kT * noise_of_row(drift, r, block, X, Y, moved, like)
            store(rhs, r, -noise)
        # rhs is −(B K G + kT c), then −T by (2); G becomes G − Bᵀ T
        hard.pull(system, block.B, G, system.shares, rhs, like)
        sparse.solve(block.H, block.D, system.symbolic, rhs, like)
        hard.push(system, block.B, rhs, system.signs, G, system.axes, like)
        for r in range(m):
            tension = -load(rhs, r, like)
            put(out, base + size + entry(system.public, r), wide, tension)
            check += 0.0 * tension
        for k in range(size):
            rest = load(G, points - size + k, like)
            put(out, base + k, wide, rest)
            check += 0.0 * rest
        six = held(drift, block, like)
        for k in range(6):
            put(out, base + size + m + k, wide, six[k])
        if not lane.above(1.0 + zero, check):
            return frame
    return -1
