"""Chains of rigid bodies that close: one small matrix more than the articulated body.

    θ̈ = θ̈_free + ℳ⁻¹ Aᵀ f,     Λ⁻¹ f = −(A θ̈_free + Ȧ θ̇),     Λ⁻¹ = A ℳ⁻¹ Aᵀ

A row of A is a pair of wrenches on two bodies.  Taken inwards through the U/D that the sweep of the
articulated inertias left behind, it becomes innovations ε = 𝒰⁻¹ Aᵀ, of ℳ = 𝒰 D 𝒰ᵀ, and

    Λ⁻¹ = εᵀ D⁻¹ ε,     A θ̈_free + Ȧ θ̇ = εᵀ D⁻¹ u + Σ_i z_iᵀ c_i,     u ← u + ε f

with z_i what body i hands on of its wrench and c_i the bias acceleration of joint i.  No sweep goes
outwards before the last one.  Eight columns share a register: lanes are columns here, not states.

For each body at an end of a closure there is a column more, a wrench in no direction in particular.
It tells how freely the body moves, so that a small Λ⁻¹ is not taken for one that is lost.

Tables (see `fixman.rigid._closure_tables`).  ``table``: those of the chains, as in
`articulated_body`; END numbers for each end (axes, point, and a length that compares forces with
moments); the size of the linkage, or less than what its coordinates say; ROW numbers for each row
(direction in the axes of a); the axes of the base in three registers; the bits of ``plan``, HEAD
integers and then records, and where it begins.  Columns of a chain are numbers of rows, or
``held`` + an end.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import types

from fixman.kernels import jit
from fixman.kernels.compiler.lanes import LANES, integer, part
from fixman.kernels.compiler.lanes import lane as lane_of
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.articulated_body import (
    accelerations,
    inwards,
    outwards,
)
from fixman.kernels.rigid.articulated_states import FLOATS
from fixman.kernels.rigid.articulated_tables import (
    DONE,
    DRIVE,
    NOT_USABLE,
    RATE,
    WRONG_SIZE,
    first_units,
    place_of,
    sizes,
)
from fixman.kernels.rigid.articulated_tables import HELD as HELD_OF
from fixman.kernels.rigid.articulated_tables import PIVOT as PIVOT_OF
from fixman.kernels.rigid.closed_tables import (
    ASKED0,
    BLOCK,
    BLOCKS,
    CHAIN,
    CHAIN0,
    CHAINS,
    CLOSURES,
    COLUMN,
    COMPLIANCE,
    COUNT,
    DEPENDENT,
    END,
    END0,
    FACTOR0,
    FACTS,
    FACTS0,
    FIRST,
    GAPS,
    HELD,
    INERTIA,
    INNOVATIONS,
    INVERSE0,
    INVERSES,
    LAST,
    LAST_BLOCK,
    LOAD,
    LOAD_SIZE,
    LOADS,
    MEMORY,
    MOTION,
    NQ,
    NQ_OF,
    NV,
    NV_OF,
    OF_ROW0,
    OPEN,
    OPENING,
    PIVOT,
    PLACED,
    PLACED0,
    RATES,
    REASONS,
    ROW0,
    ROWS,
    TABLE,
    TABLE_SIZE,
    UNITS,
    WIDTHS,
    WRENCH0,
    Q,
    V,
    plain,
    room,
)
from fixman.kernels.rigid.columns import columns_inwards, fill, products_of, scatter
from fixman.kernels.rigid.ends import look_at, place_base, place_ends
from fixman.kernels.rigid.joints import RATES as JOINT_RATES
from fixman.kernels.rigid.joints import SLIDES

# --- one linkage ----------------------------------------------------------------------------------


@step
def chain_of(table, plan, c):
    """Where the record of a chain is, and its own table."""
    at = plan[CHAIN0] + CHAIN * c
    return at, part(table, plan[at + TABLE], plan[at + TABLE_SIZE], 0.0)


@step
def own_rates(rates, plan, at):
    """Of a chain."""
    return part(rates, plan[at + V], plan[at + NV_OF], 0.0)


@step
def loads_of(loads, plan, at, many):
    """Gravity, and forces on the bodies of a chain if there are ``many`` and not none."""
    return part(loads, many * plan[at + LOAD], 3 + many * (plan[at + LOAD_SIZE] - 3), 0.0)


@plain
def look(table, plan, q, qd, moving, loads, memory):
    """Place all ends and find gaps, and rates at ``qd``; whether the coordinates can be used.

    ``moving``: rates for the dynamics, which are none where only positions count.
    """
    placed, facts = room(memory, plan, PLACED0), room(memory, plan, FACTS0)
    for end in range(2 * plan[CLOSURES]):
        place_base(table, plan[END0] + END * end, placed, PLACED * end)
    many = 1 if loads.size > 3 else 0
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        x = part(q, plan[at + Q], plan[at + NQ_OF], 0.0)
        v, w = own_rates(qd, plan, at), own_rates(moving, plan, at)
        work = room(memory, plan, at + UNITS)
        if not outwards(own, x, w, loads_of(loads, plan, at, many), 0, work, 0.0):
            return False
        place_ends(table, own, v, work, plan, at, placed)
    look_at(table, plan, placed, loads, facts)
    return True


@plain
def hold(table, work):
    """Let every joint be held, of inertia one: columns then become those of Aᵀ."""
    n, _, _, _ = sizes(table, table.size)
    for i in range(n):
        kind, _, _, row = place_of(table, n, i)
        first = first_units(kind, row)
        for units in range(first, first + RATE * JOINT_RATES[kind], RATE):
            for k in range(units, units + DRIVE):
                work[k] = 0.0
            work[units + PIVOT_OF], work[units + HELD_OF] = 1.0, 0.0


@plain
def comply(table, plan, tau, loads, left, memory):
    """Λ⁻¹, and the accelerations of its rows in free motion; whether every joint moves inertia.

    ``left``: how much of what it feels a joint hands on, nothing or, if it is held, all.  Then
    Λ⁻¹ is A Aᵀ.
    """
    held = plan[HELD]
    placed, facts = room(memory, plan, PLACED0), room(memory, plan, FACTS0)
    inverse, asked = room(memory, plan, INVERSE0), room(memory, plan, ASKED0)
    G = room(memory, plan, WRENCH0)
    W = part(G, LANES * LANES, G.size - LANES * LANES, 0.0)
    for k in range(held * held):
        inverse[k] = 0.0
    for end in range(2 * plan[CLOSURES]):
        asked[end] = 0.0
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        work, D = room(memory, plan, at + UNITS), room(memory, plan, at + INVERSES)
        forces = own_rates(tau, plan, at)
        if left != 0.0:
            hold(own, work)
        elif inwards(own, forces, 0, work, 0.0) != DONE:
            return False
        for block in range(plan[at + BLOCKS], plan[at + LAST_BLOCK], BLOCK):
            E = room(memory, plan, block + INNOVATIONS)
            first = plan[block + FIRST]
            for k in range(first, plan[block + LAST], 2):
                to = part(W, 3 * LANES * (k - first), 6 * LANES, 0.0)
                fill(table, plan, block, plan[k], placed, facts, to)
            felt = columns_inwards(own, loads, work, plan, block, left, W, E, D, G)
            scatter(plan, block, block, G, inverse, asked)
            for lane in range(plan[block + COUNT]):
                row = plan[plan[block + COLUMN] + lane]
                if row < held:
                    facts[FACTS * row + 5] += lane_of(felt, lane)
            for other in range(plan[at + BLOCKS], block, BLOCK):
                rates = min(plan[block + RATES], plan[other + RATES])
                products_of(E, room(memory, plan, other + INNOVATIONS), D, rates, G)
                scatter(plan, block, other, G, inverse, asked)
    return True


@plain
def factor_scaled(table, plan, memory, certain):
    """Inverse of Cholesky's factor of Λ⁻¹ in units of how freely the ends move.

    Whether its smallest eigenvalue is above ``certain``, of which 1 / tr Λ is a bound.
    """
    held = plan[HELD]
    facts, asked = room(memory, plan, FACTS0), room(memory, plan, ASKED0)
    inverse, L = room(memory, plan, INVERSE0), room(memory, plan, FACTOR0)
    for row in range(held):
        k = plan[plan[OF_ROW0] + 2 * row]
        scale = math.sqrt(asked[2 * k] + asked[2 * k + 1])
        if plan[plan[OF_ROW0] + 2 * row + 1] != 0:
            scale /= table[plan[END0] + END * 2 * k + 12]
        facts[FACTS * row + 7] = 1.0 / scale if scale > 0.0 else 1.0
    trace = 0.0
    for i in range(held):
        for j in range(i + 1):
            total = inverse[held * i + j] * facts[FACTS * i + 7] * facts[FACTS * j + 7]
            for k in range(j):
                total -= L[held * i + k] * L[held * j + k]
            if i == j:
                if not total > 0.0:
                    return False
                L[held * i + i] = 1.0 / math.sqrt(total)
                trace += 1.0 / total
            else:
                L[held * i + j] = total * L[held * j + j]
    for i in range(held):
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += L[held * i + k] * L[held * k + j]
            L[held * i + j] = -total * L[held * i + i]
            trace += L[held * i + j] * L[held * i + j]
    return trace * certain < 1.0


@plain
def multipliers(plan, memory, which):
    """f = −Λ of a fact of each row."""
    held = plan[HELD]
    facts, L = room(memory, plan, FACTS0), room(memory, plan, FACTOR0)
    for row in range(held):
        facts[FACTS * row + 6] = 0.0
    for i in range(held):
        total = 0.0
        for j in range(i + 1):
            total -= L[held * i + j] * facts[FACTS * j + 7] * facts[FACTS * j + which]
        for j in range(i + 1):
            facts[FACTS * j + 6] += L[held * i + j] * total
    for row in range(held):
        facts[FACTS * row + 6] *= facts[FACTS * row + 7]


@plain
def push_chain(table, plan, chain, memory):
    """Add to the innovations u/D in the work of a chain what the multipliers do."""
    held = plan[HELD]
    facts, work = room(memory, plan, FACTS0), room(memory, plan, chain + UNITS)
    D, f = room(memory, plan, chain + INVERSES), room(memory, plan, WRENCH0)
    first, last = plan[chain + BLOCKS], plan[chain + LAST_BLOCK]
    if first == last:
        return
    lane = 0
    for block in range(first, last, BLOCK):
        for k in range(LANES):
            f[lane] = 0.0
            if k < plan[block + COUNT]:
                row = plan[plan[block + COLUMN] + k]
                f[lane] = facts[FACTS * row + 6] if row < held else 0.0
            lane += 1
    n, _, _, _ = sizes(table, table.size)
    for i in range(n):
        kind, _, at_v, row = place_of(table, n, i)
        if at_v >= plan[first + RATES]:  # the first block reaches furthest
            return
        units = first_units(kind, row)
        for k in range(at_v, at_v + JOINT_RATES[kind]):
            u = 0.0
            lane = 0
            for block in range(first, last, BLOCK):
                if at_v < plan[block + RATES]:
                    E = room(memory, plan, block + INNOVATIONS)
                    u += across_lanes(E, k, f, lane)
                lane += LANES
            work[units + DRIVE] += u * D[k]
            units += RATE


@step
def across_lanes(E, i, f, first):
    y = [E[LANES * i + k] * f[first + k] for k in range(LANES)]
    return ((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7]))


@plain
def wrenches_of(plan, memory, out):
    """Force and moment of each closure at b's point on b, in the base's axes; if all finite."""
    facts = room(memory, plan, FACTS0)
    total = 0.0
    for k in range(6 * plan[CLOSURES]):
        out[k] = 0.0
    for row in range(plan[HELD]):
        of = plan[OF_ROW0] + 2 * row
        to = 6 * plan[of] + 3 * plan[of + 1]
        for k in range(3):
            out[to + k] += facts[FACTS * row + 6] * facts[FACTS * row + k]
            total += 0.0 * out[to + k]
    return total == 0.0


@plain
def over_size(table, plan, q):
    """One over the length that displacements are compared with, `Linkage._sizes`."""
    size = table[plan[ROW0] - 1]
    if size > 0.0:
        return 1.0 / size
    size = -size
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        n, _, _, _ = sizes(own, own.size)
        for i in range(n):
            kind, at_q, _, _ = place_of(own, n, i)
            for k in range(SLIDES[kind]):
                size += abs(q[plan[at + Q] + at_q + k])
    return 1.0 / size if size > 0.0 else 1.0


@plain
def largest(plan, memory, which, shorter):
    """Of a fact of the rows, displacements in sizes of the linkage."""
    facts = room(memory, plan, FACTS0)
    found = 0.0
    for row in range(plan[HELD]):
        turns = plan[plan[OF_ROW0] + 2 * row + 1] != 0
        size = abs(facts[FACTS * row + which]) * (1.0 if turns else shorter)
        found = (size if size > found else found) + 0.0 * size
    return found


@plain
def speed_of_ends(plan, memory, found, shorter):
    """Of the fastest end, in sizes and radians a unit of time, or what is found already."""
    placed = room(memory, plan, PLACED0)
    for end in range(2 * plan[CLOSURES]):
        for k in range(3):
            turning = abs(placed[PLACED * end + 12 + k])
            moving = abs(placed[PLACED * end + 27 + k]) * shorter
            found = turning if turning > found else found
            found = moving if moving > found else found
    return found


# --- driver ---------------------------------------------------------------------------------------


@plain
def log_pivots(table, work):
    """ln det ℳ of a chain."""
    n, _, _, _ = sizes(table, table.size)
    total = 0.0
    for i in range(n):
        kind, _, _, row = place_of(table, n, i)
        units = first_units(kind, row)
        for k in range(JOINT_RATES[kind]):
            total += math.log(work[units + RATE * k + PIVOT_OF])
    return total


@plain
def logarithms(table, plan, memory, out):
    """ln det Λ⁻¹, of its factor, and ln det ℳ."""
    facts, L = room(memory, plan, FACTS0), room(memory, plan, FACTOR0)
    out[0] = out[1] = 0.0
    for row in range(plan[HELD]):
        out[0] -= 2.0 * math.log(L[(plan[HELD] + 1) * row] * facts[FACTS * row + 7])
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        out[1] += log_pivots(own, room(memory, plan, at + UNITS))


@plain
def moved(table, plan, qd, loads, memory, qdd, out):
    """Accelerations of all chains, and wrenches, given the multipliers; whether all are finite."""
    many = 1 if loads.size > 3 else 0
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        push_chain(own, plan, at, memory)
        v, to = own_rates(qd, plan, at), own_rates(qdd, plan, at)
        work = room(memory, plan, at + UNITS)
        if not accelerations(own, v, loads_of(loads, plan, at, many), 0, work, to, 0.0):
            return False
    return wrenches_of(plan, memory, out)


@plain
def state(table, plan, q, qd, tau, loads, limits, task, memory, qdd, out):
    """What `states` does for one; DONE or why not."""
    limit, certain, speed = limits
    moving = qd if task == MOTION else tau
    if not look(table, plan, q, qd, moving, loads, memory):
        return NOT_USABLE
    facts = room(memory, plan, FACTS0)
    if task == GAPS:
        for row in range(plan[HELD]):
            out[row], out[plan[HELD] + row] = facts[FACTS * row + 3], facts[FACTS * row + 4]
        return DONE
    shorter = over_size(table, plan, q) if task == MOTION else 1.0
    if task == MOTION and not largest(plan, memory, 3, shorter) <= limit:
        return OPEN
    if not comply(table, plan, tau, loads, 1.0 if task == ROWS else 0.0, memory):
        return PIVOT
    if task == MOTION:
        gain = math.sqrt(largest(plan, memory, 5, shorter))
        if not gain < math.inf:
            return NOT_USABLE
        fastest = speed_of_ends(plan, memory, speed, shorter)
        if not largest(plan, memory, 4, shorter) <= limit * (fastest + gain):
            return OPENING
    if task == COMPLIANCE:
        held, inverse = plan[HELD], room(memory, plan, INVERSE0)
        for r in range(held):
            for c in range(r + 1):
                out[held * r + c] = out[held * c + r] = inverse[held * r + c]
        return DONE
    if not factor_scaled(table, plan, memory, certain):
        return DEPENDENT
    if task >= INERTIA:
        logarithms(table, plan, memory, out)
        return DONE
    multipliers(plan, memory, 5 if task == MOTION else 2 + task)
    return DONE if moved(table, plan, moving, loads, memory, qdd, out) else NOT_USABLE


@jit
def states(table, q, qd, tau, loads, limit, certain, speed, task, qdd, wrenches):
    """Accelerations and wrenches of states; DONE, or the first without an answer, and why.

    ``limit``: how large a gap may be; ``certain``: what is `CERTAIN`; ``speed``: how fast some body
    moves at least.  Other tasks are for no forces, and write something else:

        GAP, RATE    the rates −ℳ⁻¹ Aᵀ Λ gap or −ℳ⁻¹ Aᵀ Λ A θ̇ for q̈, and impulses for wrenches
        GAPS         gaps and their rates
        COMPLIANCE   Λ⁻¹
        INERTIA      ln det Λ⁻¹ and ln det ℳ
        ROWS         ln det A Aᵀ and 0
    """
    plan = table[integer(table, table.size - 1) :].view(np.int64)
    out = wrenches.ravel()
    nq, nv, width = plan[NQ], plan[NV], plan[WIDTHS + task]
    frames = out.size // width
    if q.size != nq * frames or qd.size != nv * frames or tau.size != nv * frames:
        return WRONG_SIZE
    memory = np.empty(plan[MEMORY])
    many = 1 if loads.size > 3 else 0
    for frame in range(frames):
        why = state(
            table, plan, part(q, nq * frame, nq, 0.0), part(qd, nv * frame, nv, 0.0),
            part(tau, nv * frame, nv, 0.0),
            part(loads, many * plan[LOADS] * frame, 3 + many * (plan[LOADS] - 3), 0.0),
            (limit, certain, speed), task, memory,
            part(qdd, nv * frame, nv, 0.0), part(out, width * frame, width, 0.0),
        )  # fmt: skip
        if why != DONE:
            return REASONS * frame - why
    return DONE


@cache
def only_states() -> Any:
    """Return `states` for the arrays that it takes: it refuses others with a TypeError."""
    numbers = *(types.float64,) * 3, types.int64
    only = jit(states.py_func)
    only.compile((*(FLOATS,) * 5, *numbers, FLOATS, types.Array(types.float64, 2, "C")))
    only.disable_compile()
    return only
