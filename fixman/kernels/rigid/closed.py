"""Closed chains of rigid bodies: chains cut open, under the wrenches that close them.

    θ̈ = θ̈_free + ℳ⁻¹ Aᵀ f,     Λ⁻¹ f = −(A θ̈_free + Ȧ θ̇),     Λ⁻¹ = A ℳ⁻¹ Aᵀ       (1) (2) (3)

A row of A holds one direction of the relative motion of two bodies, so that a column of Aᵀ is a
unit wrench on one of them and the opposite one on the other.  The articulated body takes eight
states at once, and its lanes are here: the chain as it moves freely, θ̈_free; the chain at rest
under each row's wrench, ℳ⁻¹ Aᵀ; and under a wrench in no direction in particular on each body that
is held.  The last tells how freely the body moves, so that a small Λ⁻¹ is not taken for one that is
lost.  One more sweep along the chain gives these motions along the rows: Λ⁻¹ and A θ̈_free.

By (4.16) and (5.4) of Rodriguez and Kreutz (1988), Λ⁻¹ = S X Ω Xᵀ Sᵀ with
Ω = φᵀ Hᵀ ℳ⁻¹ H φ = ψᵀ Hᵀ D⁻¹ H ψ, which is not formed here.  `Room` holds Λ⁻¹ in ``inverse``,
A θ̈_free + Ȧ θ̇ in ``pull``, and f.
"""

from __future__ import annotations

import math

from fixman.kernels import entry, inlined, plain
from fixman.kernels.algebra.triples import back, constants, entries, times
from fixman.kernels.algebra.vectors import inner, minus, outer, plus, scaled
from fixman.kernels.compiler.lanes import LANES, eight, part, store, take
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.articulated_body import accelerations
from fixman.kernels.rigid.articulated_body import inwards as inertias
from fixman.kernels.rigid.articulated_body import outwards as velocities
from fixman.kernels.rigid.articulated_tables import DONE, NOT_USABLE
from fixman.kernels.rigid.ends import (
    ANSWER,
    ASKED,
    BODIES,
    BODY,
    COLUMN,
    COLUMNS,
    COORDINATE,
    COORDINATES,
    FREELY,
    RATE,
    RATES_OF,
    SCREW,
    Room,
    carried,
    clear,
    compare_ends,
    cut,
    place_bodies,
    place_end,
    shelves,
)
from fixman.kernels.rigid.joints import POSITIONS, RATES, SLIDES, axis, component
from fixman.kernels.rigid.kinematics import ORIGIN
from fixman.kernels.rigid.links import PITCH, inwards, outwards, rotation_tuple

# Why a state has no answer, besides those of `articulated_body`; a frame without one is
# REASONS · frame − the reason.
PIVOT, OPEN, OPENING, DEPENDENT = -4, -5, -6, -7
REASONS = 8
# Tasks of `states`.
(
    MOTION, CLOSE_GAP, CLOSE_RATE, GAPS, COMPLIANCE, PULLS, DETERMINANT, DETERMINANT_OF_ROWS,
) = range(8)  # fmt: skip
# An eigenvalue of the scaled Λ⁻¹ that is above this for certain is not lost.
CERTAIN = 1e-9
# The wrench in no direction in particular.
FORCE, MOMENT = (0.9, 1.1, -0.8), (1.2, -0.7, 1.0)


# --- wrenches on a chain --------------------------------------------------------------------------


@step
def weight(R, links, i, g):
    """Force and moment about the origin of body i, in its axes."""
    f = scaled(links[i, 12], back(R, g))
    return (*f, *outer(entries(links, i, 13), f))


@step
def force_along(motion, i, p, S, sign):
    """A unit force at p on body i: force and moment about its origin, in its axes."""
    R = rotation_tuple(motion, i)
    f = back(R, scaled(sign, S))
    return (*f, *outer(back(R, minus(p, entries(motion, i, 9))), f))


@step
def couple_about(motion, i, S, sign):
    return (*ORIGIN, *back(rotation_tuple(motion, i), scaled(sign, S)))


@step
def asking(ends, end):
    """A wrench in no direction in particular, at the point of an end."""
    f, length = FORCE, ends[end, 12]
    return (*f, *plus(outer(entries(ends, end, 9), f), scaled(length, MOMENT)))


@plain
def wrench_on(table, column, end, room):
    """Wrench of a column on the body of an end: force and moment about its origin, in its axes."""
    held = room.gap.size
    if column >= held:
        if column - held == end:
            return asking(table.ends, end)
    elif table.closures[end // 2, 1] <= column < table.closures[end // 2, 2]:
        sign = 1.0 if end % 2 == 1 else -1.0
        i, S = table.bodies[end], constants(room.S, 3 * column)
        if table.turns[column]:
            return couple_about(room.motion, i, S, sign)
        return force_along(room.motion, i, constants(room.points, 3 * (end // 2)), S, sign)
    return (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


@plain
def fill_states(table, chain, first, state, room):
    """Write eight states of a chain, those of its columns from ``first`` on."""
    q, qd, tau, gravity, wrenches = state
    n, nq = chain[BODIES], chain[COORDINATES]
    columns, held, loads = cut(table.columns, chain, COLUMN), room.gap.size, room.loads8
    for k in range(LANES * nq):
        room.q8[k] = q[chain[COORDINATE] + k % nq]
    clear(room.v8)
    clear(room.tau8)
    clear(loads)  # none of gravity: it is a weight, for that moves freely alone
    for lane in range(min(LANES, chain[COLUMNS] - first)):
        column, at = columns[first + lane], 3 + 6 * n * lane
        if column != FREELY:
            for j in range(chain[ASKED], chain[COLUMNS]):
                end = columns[j] - held
                i = table.bodies[end] - chain[BODY]
                add_six(loads, at + 6 * i, wrench_on(table, column, end, room))
            continue
        for k in range(chain[RATES_OF]):
            room.v8[k], room.tau8[k] = qd[chain[RATE] + k], tau[chain[RATE] + k]
        for i in range(n):
            body = chain[BODY] + i
            R = rotation_tuple(room.motion, body)
            add_six(loads, 3 + 6 * i, weight(R, table.links, body, gravity))
            if wrenches.size:
                add_six(loads, 3 + 6 * i, six(wrenches, 6 * body))


@step
def add_six(x, at, y):
    for k in range(6):
        x[at + k] = x[at + k] + y[k]


@step
def six(x, k):
    return tuple(x[k + j] for j in range(6))


# --- answers of a chain ---------------------------------------------------------------------------


@step
def in_base(motion, i, w, u):
    """Twists of body i in the axes of the base."""
    R = rotation_tuple(motion, i)
    return times(R, w), times(R, u)


@step
def seen_along(motion, i, p, S, w, u):
    """Velocity of body i at p along S."""
    return inner(S, plus(u, outer(w, minus(p, entries(motion, i, 9)))))


@step
def power(wrench, w, u):
    return inner(wrench[:3], u) + inner(wrench[3:], w)


@plain
def look_at_end(table, chain, first, end, w, u, room):
    """Add to Λ⁻¹ and A θ̈_free what eight columns move at the body of an end; twists [w; u]."""
    held, body, k = room.gap.size, table.bodies[end], end // 2
    sign = 1.0 if end % 2 == 1 else -1.0
    answers = room.eight
    store(answers, 0, power(asking(table.ends, end), w, u))
    last = min(LANES, chain[COLUMNS] - first)
    for j in range(last):
        if table.columns[chain[COLUMN] + first + j] == held + end:
            room.asked[end] = answers[j]
    w, u = in_base(room.motion, body, w, u)
    p = constants(room.points, 3 * k)
    for row in range(table.closures[k, 1], table.closures[k, 2]):
        S = scaled(sign, constants(room.S, 3 * row))
        if table.turns[row]:
            store(answers, 0, inner(S, w))
        else:
            store(answers, 0, seen_along(room.motion, body, p, S, w, u))
        for j in range(last):
            column = table.columns[chain[COLUMN] + first + j]
            if column == FREELY:
                room.pull[row] += answers[j]  # A θ̈_free
            elif column < held:
                room.inverse[held * row + column] += answers[j]  # (3)


@plain
def look_along(table, chain, first, rates, room):
    """Follow eight columns of rates along a chain to its ends."""
    zero = eight(0.0)
    w, u = (zero, zero, zero), (zero, zero, zero)
    nv, begin, held = chain[RATES_OF], chain[BODY], room.gap.size
    at, seen = 0, chain[ASKED]
    for i in range(chain[BODIES]):
        if seen == chain[COLUMNS]:
            return
        kind = table.kinds[begin + i]
        w, u = outwards(room.X, begin + i, w, u)
        for j in range(RATES[kind]):
            e, s = axis(kind, table.links[begin + i, PITCH], j)
            rate = take(rates, at + j, nv, zero)
            w, u = plus(w, scaled(rate, e)), plus(u, scaled(rate, s))
        at += RATES[kind]
        while seen < chain[COLUMNS]:
            end = table.columns[chain[COLUMN] + seen] - held
            if table.bodies[end] != begin + i:
                break
            look_at_end(table, chain, first, end, w, u, room)
            seen += 1


@inlined
def respond(table, state, room):
    """Λ⁻¹ and A θ̈_free + Ȧ θ̇ by the articulated bodies of all chains; DONE or why not."""
    zero = eight(0.0)
    clear(room.inverse)
    clear(room.asked)
    for c in range(table.chains.shape[0]):
        chain = table.chains[c]
        nv, screws = chain[RATES_OF], cut(table.screws, chain, SCREW)
        for first in range(0, chain[COLUMNS], LANES):
            fill_states(table, chain, first, state, room)
            loads = part(room.loads8, 0, 3 + 6 * LANES * chain[BODIES], 0.0)
            rates = part(room.answers, chain[ANSWER] + first * nv, LANES * nv, 0.0)
            if not velocities(screws, room.q8, room.v8, loads, 0, room.work8, zero):
                return NOT_USABLE
            if inertias(screws, room.tau8, 0, room.work8, zero) != DONE:
                return PIVOT
            if not accelerations(screws, room.v8, loads, 0, room.work8, rates, zero):
                return NOT_USABLE
            look_along(table, chain, first, rates, room)
    return DONE


@plain
def fill_rows(table, room):
    """A Aᵀ in the place of Λ⁻¹: rows are torques, of their wrenches through the joints inwards."""
    held = room.gap.size
    clear(room.inverse)
    clear(room.answers)
    for c in range(table.chains.shape[0]):
        chain = table.chains[c]
        nv, columns = chain[RATES_OF], cut(table.columns, chain, COLUMN)
        for k in range(1, chain[ASKED]):
            A = part(room.answers, chain[ANSWER] + k * nv, nv, 0.0)
            for j in range(chain[ASKED], chain[COLUMNS]):
                add_torques(table, chain, columns[k], columns[j] - held, room, A)
            for j in range(1, k + 1):
                other, total = chain[ANSWER] + j * nv, 0.0
                for t in range(nv):
                    total += A[t] * room.answers[other + t]
                room.inverse[held * columns[k] + columns[j]] += total


@plain
def add_torques(table, chain, row, end, room, torques):
    """Add what the joints of a chain feel of a row's wrench on the body of an end."""
    wrench = wrench_on(table, row, end, room)
    f, n = wrench[:3], wrench[3:]
    at = 0
    for i in range(chain[BODY], table.bodies[end] + 1):
        at += RATES[table.kinds[i]]
    for i in range(table.bodies[end], chain[BODY] - 1, -1):
        kind = table.kinds[i]
        at -= RATES[kind]
        for k in range(RATES[kind]):
            torques[at + k] += component(kind, table.links[i, PITCH], k, n, f)
        n, f = inwards(room.X, i, n, f)


# --- multipliers ----------------------------------------------------------------------------------


@plain
def factor_scaled(table, room, certain):
    """Inverse of Cholesky's factor of Λ⁻¹ in units of how freely the ends move.

    Whether its smallest eigenvalue is above ``certain``, of which 1 / tr Λ is a bound.
    """
    held, L = room.gap.size, room.factor
    for k in range(table.closures.shape[0]):
        free = math.sqrt(room.asked[2 * k] + room.asked[2 * k + 1])
        for row in range(table.closures[k, 1], table.closures[k, 2]):
            scale = free / table.ends[2 * k, 12] if table.turns[row] else free
            room.scale[row] = 1.0 / scale if scale > 0.0 else 1.0
    trace = 0.0
    for i in range(held):
        for j in range(i + 1):
            total = room.inverse[held * i + j] * room.scale[i] * room.scale[j]
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
def multiply(room, x):
    """f = −Λ x, (2)."""
    held, L, f = room.gap.size, room.factor, room.f
    clear(f)
    for i in range(held):
        total = 0.0
        for j in range(i + 1):
            total -= L[held * i + j] * room.scale[j] * x[j]
        for j in range(i + 1):
            f[j] += L[held * i + j] * total
    for row in range(held):
        f[row] *= room.scale[row]


@plain
def closed_rates(table, room, out):
    """θ̈_free + ℳ⁻¹ Aᵀ f, (1)."""
    clear(out)
    for c in range(table.chains.shape[0]):
        chain = table.chains[c]
        nv = chain[RATES_OF]
        for k in range(chain[ASKED]):
            column, at = table.columns[chain[COLUMN] + k], chain[ANSWER] + k * nv
            f = 1.0 if column == FREELY else room.f[column]
            for j in range(nv):
                out[chain[RATE] + j] += f * room.answers[at + j]


@plain
def closing_wrenches(table, room, out):
    """Force and moment of each closure at b's point on b, in the axes of the base."""
    clear(out)
    for k in range(table.closures.shape[0]):
        for row in range(table.closures[k, 1], table.closures[k, 2]):
            at = 6 * k + 3 * table.turns[row]
            for j in range(3):
                out[at + j] += room.f[row] * room.S[3 * row + j]


# --- driver ---------------------------------------------------------------------------------------


@plain
def over_size(table, size, q):
    """One over the length that displacements are compared with, `Linkage._sizes`."""
    if size > 0.0:
        return 1.0 / size
    size, at = -size, 0
    for kind in table.kinds:
        for k in range(SLIDES[kind]):
            size += abs(q[at + k])
        at += POSITIONS[kind]
    return 1.0 / size if size > 0.0 else 1.0


@plain
def largest(table, x, shorter):
    """Largest of numbers, one a row, displacements in sizes of the linkage; NaN if one is."""
    found = 0.0
    for row in range(x.size):
        size = abs(x[row]) * (1.0 if table.turns[row] else shorter)
        found = (size if size > found else found) + 0.0 * size
    return found


@plain
def speed_of_ends(table, room, found, shorter):
    """Speed of the fastest end, in sizes and radians a unit of time, or a larger ``found``."""
    for end in range(table.bodies.size):
        body = table.bodies[end]
        _, p = place_end(room.motion, table.ends, body, end)
        v, _ = carried(room.motion, body, p)
        for k in range(3):
            found = max(found, abs(room.motion[body, 12 + k]), abs(v[k]) * shorter)
    return found


@plain
def finite(x):
    total = 0.0
    for k in range(x.size):
        total += 0.0 * x[k]
    return total == 0.0


@inlined
def answer(table, size, state, limits, task, room, qdd, out):
    """One state of `states`; DONE or why not."""
    limit, certain, speed = limits
    held = room.gap.size
    if not place_bodies(table, state[0], state[1], room):
        return NOT_USABLE
    compare_ends(table, room)  # Ȧ θ̇ is in ``pull``
    if task == GAPS:
        for row in range(held):
            out[row], out[held + row] = room.gap[row], room.rate[row]
        return DONE
    shorter = over_size(table, size, state[0]) if task == MOTION else 1.0
    if task == MOTION and not largest(table, room.gap, shorter) <= limit:
        return OPEN
    still = state[2]  # no forces, where rates are those of gaps alone
    given = state if task == MOTION else (state[0], still, still, state[3], state[4])
    code = respond(table, given, room)  # (3), and A θ̈_free is added to ``pull``
    if code != DONE:
        return code
    if task == MOTION:
        gain = math.sqrt(largest(table, room.pull, shorter))
        if not gain < math.inf:
            return NOT_USABLE
        fastest = speed_of_ends(table, room, speed, shorter)
        if not largest(table, room.rate, shorter) <= limit * (fastest + gain):
            return OPENING
    if task == COMPLIANCE:
        for i in range(held):
            for j in range(i + 1):
                out[held * i + j] = out[held * j + i] = room.inverse[held * i + j]
        return DONE
    if task == DETERMINANT_OF_ROWS:
        fill_rows(table, room)
    if not factor_scaled(table, room, 0.0 if task == DETERMINANT_OF_ROWS else certain):
        return DEPENDENT
    if task >= DETERMINANT:
        out[0] = 0.0
        for row in range(held):
            out[0] -= 2.0 * math.log(room.factor[(held + 1) * row] * room.scale[row])
        return DONE
    if task == PULLS:
        nv = qdd.size
        for pushed in range(held):
            for row in range(held):
                room.gap[row] = 1.0 if row == pushed else 0.0
            multiply(room, room.gap)
            closed_rates(table, room, part(out, pushed * nv, nv, 0.0))
        return DONE if finite(out) else NOT_USABLE
    multiply(room, room.pull if task == MOTION else room.gap if task == CLOSE_GAP else room.rate)
    closed_rates(table, room, qdd)
    closing_wrenches(table, room, out)
    return DONE if finite(qdd) and finite(out) else NOT_USABLE


@entry
def states(table, size, q, qd, tau, gravity, wrenches, limits, task, room, qdd, out):
    """Accelerations (frames, nv) and wrenches (frames, width); DONE, or the first without, and why.

    ``size``: that of the linkage, or less than what its coordinates say.  ``wrenches``: forces on
    all bodies of every frame, or none.  ``limits``: how large a gap may be, what is `CERTAIN`, and
    how fast some body moves at least.  ``room``: X, motion, and memory for the rest of `Room`.
    Other tasks than `MOTION` are for no forces and no gravity:

        CLOSE_GAP, CLOSE_RATE    the rates −ℳ⁻¹ Aᵀ Λ gap or −ℳ⁻¹ Aᵀ Λ A θ̇, and impulses
        GAPS                     gaps and their rates
        COMPLIANCE               Λ⁻¹
        PULLS                    rates ℳ⁻¹ Aᵀ Λ, a row of (held, nv) for each direction
        DETERMINANT              ln det Λ⁻¹, and of the last one ln det A Aᵀ
    """
    frames, nv = qdd.shape
    nq, loads = q.size // max(frames, 1), wrenches.size // max(frames, 1)
    X, motion, memory = room
    whole = Room(X, motion, *shelves(memory, table.starts))
    for frame in range(frames):
        state = (
            part(q, frame * nq, nq, 0.0), part(qd, frame * nv, nv, 0.0),
            part(tau, frame * nv, nv, 0.0), gravity, part(wrenches, frame * loads, loads, 0.0),
        )  # fmt: skip
        why = answer(table, size, state, limits, task, whole, qdd[frame], out[frame])
        if why != DONE:
            return REASONS * frame - why
    return DONE
