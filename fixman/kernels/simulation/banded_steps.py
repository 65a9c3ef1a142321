"""Projections of chains whose hard rows are distances in a narrow band, such as bonds and bends.

A bend is held by the distance of its outer beads, which makes every row quadratic in the positions,
½ |p_r|² with p_r = x_j − x_i: the same manifold, and det H differs by a constant.  This degenerates
where a bend is straight or folded back.  With W_rs = Σ ± w over the joints that two rows share

    H_rs = W_rs p_r·p_s                                                                     (1)

In the order b_0, c_0, b_1, c_1, … of bonds b_i = x_{i+1} − x_i and spans c_i = x_{i+2} − x_i, rows
that share a joint are at most `BAND` = 4 apart.  RATTLE (Andersen 1983) takes

    positions    H λ = ½ (d² − p²) ,   x ← x + M⁻¹ Bᵀ λ , again and again                   (2)
    velocities   H λ = −B v ,   v ← v + M⁻¹ Bᵀ λ                                            (3)

with H and B at the beginning of the drift in (2) and at its end in (3): one LDLᵀ serves for both,
and (2) multiplies its error by about the drift each time (Barth et al. 1995).  Steps are 2.7 to 7
times faster than those of `general_steps`.
"""

import math
from collections import namedtuple

from fixman.kernels.algebra.vectors import along, fused_dot, minus, plus, put_vector, vector
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import entry, exact, exact_arrays, fma, load, memory, store
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.sparse import SMALLEST_PIVOT
from fixman.kernels.simulation.general_steps import CHORDS, rounding
from fixman.kernels.simulation.jointed_steps import logdet as logdet

BAND = 4


class Banded(namedtuple("Banded", "begins ends weights w axes")):
    """Joints i and j of each row, int32; W_{r,r+k} of (1), k = 0 … BAND; w of the joints."""


class Room(namedtuple("Room", "goals p inverse L z total forces")):
    """½ d² and d, p, 1/D and L_{r+k,r} of each row; z of L z = b, λ added up, forces on p.

    BAND others before the first row have L of 0, and behind the last p of 0.
    """


@exact_arrays
def room(system, targets, like):
    m = system.begins.size
    goals = memory(2 * m, like)
    for k in range(2 * m):
        store(goals, k, lane.take(targets, k, 2 * m, like))
    vectors = (m + BAND) * len(system.axes)
    return Room(
        goals, memory(vectors, like), memory(m, like), memory(BAND * (m + BAND), like),
        memory(m, like), memory(m, like), memory(vectors, like),
    )  # fmt: skip


@exact_step
def between(X, i, j, axes, like):
    return minus(vector(X, j, axes, like), vector(X, i, axes, like))


@exact_step
def shift(Y, system, r, size, p, like):
    """Y ← Y + M⁻¹ ∂q/∂x λ of one row."""
    i, j = entry(system.begins, r), entry(system.ends, r)
    step_i, step_j = -entry(system.w, i) * size, entry(system.w, j) * size
    put_vector(Y, i, system.axes, along(step_i, p, vector(Y, i, system.axes, like)))
    put_vector(Y, j, system.axes, along(step_j, p, vector(Y, j, system.axes, like)))


# --- LDLᵀ of a band ------------------------------------------------------------------------------
#
# ``taken[i][k]`` is what the columns so far take from H_{r+i,r+k}, k ≤ i < BAND.


@exact_step
def untouched(like):
    return tuple(tuple(0.0 * like for k in range(i + 1)) for i in range(BAND))


@exact_step
def eliminate(system, room, r, taken, like):
    """1 / D_r, NaN where the pivot is lost, and the column of L; what is taken from then on.

    ``column`` is H_rr, …, H_{r+BAND,r} by (1).
    """
    axes, own, column = system.axes, vector(room.p, r, system.axes, like), []
    for k in range(BAND + 1):
        product = fused_dot(own, vector(room.p, r + k, axes, like))
        column.append(entry(system.weights, (BAND + 1) * r + k) * product)
    pivot = column[0] - taken[0][0]
    inverse = 1.0 / lane.pick(pivot, SMALLEST_PIVOT * column[0], pivot, math.nan)
    store(room.inverse, r, inverse)
    below = [column[k] - taken[k][0] for k in range(1, BAND)] + [column[BAND]]
    multipliers = [inverse * b for b in below]
    for k in range(BAND):
        store(room.L, BAND * (r + BAND) + k, multipliers[k])
    after = []
    for i in range(BAND):
        row = [below[i] * multipliers[k] for k in range(i + 1)]
        if i + 1 < BAND:
            row = [fma(below[i], multipliers[k], taken[i + 1][k + 1]) for k in range(i + 1)]
        after.append(tuple(row))
    return tuple(after)


@exact_step
def column_of(L, r, like):
    return tuple(load(L, BAND * (r + BAND) + k, like) for k in range(BAND))


@exact
def factor(system, room, X, like):
    axes = system.axes
    for r in range(system.begins.size):
        i, j = entry(system.begins, r), entry(system.ends, r)
        put_vector(room.p, r, axes, between(X, i, j, axes, like))
    taken = untouched(like)
    for r in range(system.begins.size):
        taken = eliminate(system, room, r, taken, like)


# --- RATTLE --------------------------------------------------------------------------------------


@exact_step
def nothing(like):
    return tuple(0.0 * like for k in range(BAND))


@exact_step
def forward(room, r, b, before, like):
    """z_r of L z = b, before those of the rows before."""
    for k in range(BAND - 1, -1, -1):
        b = fma(-load(room.L, BAND * (r + BAND - 1 - k) + k, like), before[k], b)
    store(room.z, r, b)
    return (b, *before[: BAND - 1])


@exact_step
def backward(room, r, after, like):
    """λ_r of D Lᵀ λ = z, before those of the rows behind."""
    below = column_of(room.L, r, like)
    push = load(room.z, r, like) * load(room.inverse, r, like)
    for k in range(BAND - 1, -1, -1):
        push = fma(-below[k], after[k], push)
    return (push, *after[: BAND - 1])


@exact
def push(system, room, Y, busy, rate, like):
    """Y ← Y + M⁻¹ Bᵀ λ in the lanes that are busy; ``total`` gets λ times a rate."""
    after, zero = nothing(like), 0.0 * like
    for r in range(system.begins.size - 1, -1, -1):
        after = backward(room, r, after, like)
        size = lane.choose(busy, after[0], zero)
        store(room.total, r, fma(rate, size, load(room.total, r, like)))
        shift(Y, system, r, size, vector(room.p, r, system.axes, like), like)


@exact
def shake(system, room, X0, X, V, rate, limits, like):
    """X onto the manifold by (2)."""
    tolerance, iterations = limits
    m = system.begins.size
    zero = 0.0 * like
    busy = lane.everywhere(like) if m > 0 else 0
    rounded = rounding(X, like)
    for r in range(m):
        store(room.total, r, zero)
    for _ in range(min(iterations, CHORDS)):
        worst, before = zero, nothing(like)
        for r in range(m):
            p = between(X, entry(system.begins, r), entry(system.ends, r), system.axes, like)
            half = load(room.goals, 2 * r, like)
            lack = fma(-0.5, fused_dot(p, p), half)
            before = forward(room, r, lack, before, like)
            enough = fma(2.0 * tolerance, half, rounded * load(room.goals, 2 * r + 1, like))
            worst = lane.larger(lane.larger(lack, -lack) - enough, worst)
        busy &= lane.beyond(worst, zero)
        if busy == 0:
            break
        push(system, room, X, busy, rate, like)
    for r in range(m):
        p = vector(room.p, r, system.axes, like)
        shift(V, system, r, load(room.total, r, like), p, like)
    return busy


@exact
def project(system, room, V, X, like):
    before = nothing(like)
    for r in range(system.begins.size):
        v = between(V, entry(system.begins, r), entry(system.ends, r), system.axes, like)
        b = -fused_dot(vector(room.p, r, system.axes, like), v)
        before = forward(room, r, b, before, like)
    push(system, room, V, lane.everywhere(like), 0.0, like)


# --- the metric ----------------------------------------------------------------------------------


@exact_step
def inverse_on_band(inverse, below, S):
    """S_rr, …, S_{r+BAND,r} from the S[i][k] of the next rows, k ≤ i, and S with them.

    S_{r+i,r} = −Σ_k S_{r+i,r+k} L_{r+k,r}; S_rr = 1/D_r − Σ_k L_{r+k,r} S_{r+k,r} (Takahashi).
    """
    column = []
    for i in range(BAND):
        total = 0.0 * inverse
        for k in range(BAND):
            total = fma(-below[k], S[max(i, k)][min(i, k)], total)
        column.append(total)
    own = inverse
    for k in range(BAND):
        own = fma(-below[k], column[k], own)
    after = [[own]] + [[column[i - 1], *S[i - 1][:i]] for i in range(1, BAND)]
    return (own, *column), tuple(map(tuple, after))


@exact_step
def draw(system, room, r, S, kT, like):
    """What the products of p_r with those of the next rows add to the forces on all these."""
    axes, p, G = system.axes, room.p, room.forces
    own, total = vector(p, r, axes, like), (0.0 * like, 0.0 * like, 0.0 * like)
    for k in range(1, BAND + 1):
        size = (-kT * entry(system.weights, (BAND + 1) * r + k)) * S[k]
        total = along(size, vector(p, r + k, axes, like), total)
        put_vector(G, r + k, axes, along(size, own, vector(G, r + k, axes, like)))
    put_vector(G, r, axes, total)


@exact
def add_metric_force(system, room, F, X, kT, like):
    """−½ kT ∂ ln det H / ∂x.

    By (1) it is −kT Σ_{r<s} S_rs W_rs ∂(p_r·p_s)/∂x, S = H⁻¹, but for parts along the rows.
    """
    axes = system.axes
    S = untouched(like)
    for r in range(system.begins.size - 1, -1, -1):
        column, S = inverse_on_band(load(room.inverse, r, like), column_of(room.L, r, like), S)
        draw(system, room, r, column, kT, like)
    for r in range(system.begins.size):
        i, j = entry(system.begins, r), entry(system.ends, r)
        pull = vector(room.forces, r, axes, like)
        put_vector(F, i, axes, minus(vector(F, i, axes, like), pull))
        put_vector(F, j, axes, plus(vector(F, j, axes, like), pull))
