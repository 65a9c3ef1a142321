"""Closed chains of rigid bodies: chains cut open, under the wrenches that close them.

    θ̈ = θ̈_free + ℳ⁻¹ Aᵀ f                                                                  (1)
    Λ⁻¹ f = −(A θ̈_free + Ȧ θ̇)                                                              (2)
    Λ⁻¹ = A ℳ⁻¹ Aᵀ                                                                         (3)

A row of A is one direction of the relative motion of two bodies: a column of Aᵀ is the joint forces
of a unit wrench on one of them and of the opposite one on the other.  By (4.16) of Rodriguez and
Kreutz (1988) innovations ε = (1 − H Ψ L) Aᵀ give

    Λ⁻¹ = εᵀ D⁻¹ ε                                                                         (4)
    A θ̈_free + Ȧ θ̇ = εᵀ D⁻¹ u + Σ_i z_iᵀ c_i − f_0·g + S·δ                                 (5)
    u ← u + ε f                                                                            (6)

They come from the tip by the adjoint of (5.17), with w_i the unit wrench on body i and U/D left by
the articulated inertias: z′_i = w_i + Xᵀ z_{i+1},  ε_i = S_iᵀ z′_i,  z_i = z′_i − (U/D)_i ε_i.
z_i is the wrench that body i hands on, f_0 the force that reaches the base, c_i the bias
acceleration of joint i, g gravity.  δ are the terms without a column: centripetal and Coriolis ones
of the ends, and −g of an end on the base (`ends.relative`).  Only (1) needs a sweep outwards.
Lanes are eight columns here, not states.

Each end on a chain has one more column, a wrench in a general direction: how freely the body moves
is the unit that tells a small Λ⁻¹ from a lost one.
"""

from __future__ import annotations

import math

from fixman.kernels import entry, inlined, plain
from fixman.kernels.algebra.triples import back, constants, load6, load9, matrix, store_all, times
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, minus, plus, scaled
from fixman.kernels.compiler.lanes import LANES, eight, lane, load, part, root, store
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import articulated_body as bodies
from fixman.kernels.rigid import articulated_inertia as inertia
from fixman.kernels.rigid import ends
from fixman.kernels.rigid.articulated_body import DONE, NOT_USABLE, record, sizes
from fixman.kernels.rigid.ends import Room, clear, cut, of_chain
from fixman.kernels.rigid.joints import ANGULAR, LINEAR, RATE_OF, RATES, SLIDES, TURNS

# Why a state has no answer, besides those of `articulated_body`; a frame without one is
# REASONS · frame − the reason.
LOST, OPEN, OPENING, DEPENDENT = -4, -5, -6, -7
REASONS = 8
# Tasks of `states`.
(
    MOTION, CLOSE_GAP, CLOSE_RATE, GAPS, COMPLIANCE, PULLS, DETERMINANT, DETERMINANT_OF_ROWS,
) = range(8)  # fmt: skip
# An eigenvalue of the scaled Λ⁻¹ that is above this for certain is not lost.
CERTAIN = 1e-9
# The wrench in a general direction.
FORCE, MOMENT, NONE = (0.9, 1.1, -0.8), (1.2, -0.7, 1.0), (0.0, 0.0, 0.0)


# --- ε of eight columns of Aᵀ, from the tip of a chain to its base --------------------------------


@plain
def put_wrenches(table, columns, first, end, room):
    """Write the wrenches of eight columns on the body of an end: [n; f] about its origin."""
    held, k, W = room.gap.size, end // 2, room.W
    R, x, _, _, _ = ends.motion_of(room.motion, end)
    arm = minus(constants(room.points, 3 * k), x)
    clear(W)
    for j in range(min(LANES, columns.shape[0] - first)):
        column, force, moment = columns[first + j, 0], NONE, NONE
        if column == held + end:
            force, moment = FORCE, scaled(table.ends[end, 12], MOMENT)
        elif table.closures[k, 1] <= column < table.closures[k, 2]:
            S = scaled(1.0 if end % 2 == 1 else -1.0, constants(room.S, 3 * column))
            force, moment = (NONE, S) if table.turns[column] else (S, NONE)
        moment = plus(moment, fused_cross(arm, force))
        wrench = (*back(R, moment), *back(R, force))
        for d in range(6):
            W[LANES * d + j] = wrench[d]


@step
def innovation(n, f, relative, work, at):
    """ε of a rate that turns about z, what the body hands on, and the rate's part of (5)."""
    ux, uy, vx, vy, vz, drive = load6(work, at, 0.0)
    ε = n[2]  # Sᵀ z′
    n = n[0] - ux * ε, n[1] - uy * ε, work[at + bodies.ROTOR] * ε  # z = z′ − (U/D) ε
    return n, (f[0] - vx * ε, f[1] - vy * ε, f[2] - vz * ε), relative + drive * ε, ε


@step
def screw_inwards(table, at, c, s, d, n, f):
    """Wrenches on the body before, of a joint of one rate, as `articulated_body.screw_inwards`."""
    n, f = inertia.slide_wrench(*inertia.turn_wrench(n, f, c, s), d)
    n, f = inertia.renamed_wrench(n, f)
    n, f = inertia.turn_wrench(n, f, table[at + bodies.COS_X], table[at + bodies.SIN_X])
    n, f = inertia.renamed_wrench(*inertia.slide_wrench(n, f, table[at + bodies.ALONG_X]))
    return inertia.renamed_wrench(*inertia.slide_wrench(n, f, table[at + bodies.ALONG_Y]))


@step
def bias_felt(n, f, work, row):
    """z_iᵀ c_i of a joint of one rate."""
    c = load6(work, row, 0.0)
    return (n[0] * c[0] + n[1] * c[1]) + (f[0] * c[2] + f[1] * c[3] + f[2] * c[4])


@step
def several_inwards(work, row, n, f, relative):
    """z_iᵀ c_i of a joint of several rates, and wrenches on the body before."""
    E, r = load9(work, row, 0.0), constants(work, row + bodies.WAY)
    c = load6(work, row + bodies.CARRIED, 0.0)
    relative = relative + (fused_dot(c[:3], n) + fused_dot(c[3:], f))
    f = times(E, f)
    return plus(times(E, n), fused_cross(r, f)), f, relative


@plain
def through_half(n, f, relative, kind, half, units, to, work, E):
    """Through the turns (`ANGULAR`) of a joint of several rates, or its slides as turns."""
    for k in range(3):
        n, f = inertia.renamed_wrench(n, f)
        j = RATE_OF[kind, half + k]
        if j >= 0:
            at = units + bodies.RATE * j
            n, f, relative, ε = innovation(n, f, relative, work, at)
            store(E, to + j, ε * (1.0 / math.sqrt(work[at + bodies.PIVOT])))
    return n, f, relative


@plain
def columns_inwards(table, own, on, columns, first, room, work, E):
    """D^{−1/2} ε of eight columns into ``E``, a unit a rate, and what they tell of (5)."""
    n_bodies, _, _, _ = sizes(own, own.size)
    m, left = bodies.angles(n_bodies), on.size
    zero = eight(0.0)
    n, f, relative = (zero, zero, zero), (zero, zero, zero), zero
    for i in range(columns[first, 1], -1, -1):
        while left > 0 and table.bodies[on[left - 1]] >= i:
            left -= 1
            put_wrenches(table, columns, first, on[left], room)
            more = load6(room.W, 0, zero)
            n, f = plus(n, more[:3]), plus(f, more[3:])
        kind, _, to, row = record(own, n_bodies, i)
        at, fixed = bodies.LINK * i, bodies.fixed_row(n_bodies, i)
        if RATES[kind] == 1:
            units, pitch = row + bodies.WRENCH, own[at + bodies.PITCH]
            if TURNS[kind] == 0:
                f, n, relative, ε = innovation(f, n, relative, work, units)
            else:
                n, f = inertia.sheared_wrench(n, f, pitch)
                n, f, relative, ε = innovation(n, f, relative, work, units)
                n, f = inertia.sheared_wrench(n, f, -pitch)
            store(E, to, ε * (1.0 / math.sqrt(work[units + bodies.PIVOT])))
            relative = relative + bias_felt(n, f, work, row)  # z_iᵀ c_i (5)
            n, f = screw_inwards(own, at, work[i], work[m + i], work[row + bodies.SHIFTED], n, f)
            if bodies.on_user_axes(own, n_bodies, i):
                R = matrix(own, fixed + bodies.AXES)
                n, f = times(R, n), times(R, f)
        else:
            units = row + bodies.SEVERAL
            if SLIDES[kind] > 0:
                f, n, relative = through_half(f, n, relative, kind, LINEAR, units, to, work, E)
            n, f, relative = through_half(n, f, relative, kind, ANGULAR, units, to, work, E)
            n, f, relative = several_inwards(work, row, n, f, relative)
    return f, relative


# --- Λ⁻¹ (4), A θ̈_free + Ȧ θ̇ (5), f (2) and u (6) ------------------------------------------------


@step
def add_products(sums, E, i, y):
    """Add products of eight innovations of a rate with eight others."""
    return tuple(sums[k] + E[LANES * i + k] * y for k in range(LANES))


@plain
def products_of(E, other, rates, out):
    """Eᵀ other of eight columns and eight others, over the first rates."""
    zero = eight(0.0)
    sums = (zero, zero, zero, zero, zero, zero, zero, zero)
    for i in range(rates):
        sums = add_products(sums, E, i, load(other, i, zero))
    store_all(out, 0, sums)


@plain
def scatter(columns, first, other, room):
    """Add products of columns to the lower half of Λ⁻¹; those of an end are its mobility."""
    held = room.gap.size
    for j in range(min(LANES, columns.shape[0] - first)):
        r = columns[first + j, 0]
        for k in range(min(LANES, columns.shape[0] - other)):
            c, value = columns[other + k, 0], room.products[LANES * j + k]
            if r == c and r >= held:
                room.mobility[r - held] = value
            elif r < held and c < held and (first != other or k <= j):
                room.inverse[held * max(r, c) + min(r, c)] += value  # (4)


@plain
def lock(own, work):
    """Lock the joints, with inertia one: innovations are then columns of Aᵀ, and Λ⁻¹ = A Aᵀ."""
    n, _, _, _ = sizes(own, own.size)
    for i in range(n):
        kind, _, _, row = record(own, n, i)
        units = bodies.first_units(kind, row)
        clear(part(work, units, bodies.RATE * RATES[kind], 0.0))
        for at in range(units, units + bodies.RATE * RATES[kind], bodies.RATE):
            work[at + bodies.PIVOT] = work[at + bodies.ROTOR] = 1.0


@inlined
def relative_response(table, tau, loads, locked, room):
    """Λ⁻¹ and A θ̈_free + Ȧ θ̇ by the articulated bodies of all chains; DONE or why not."""
    clear(room.inverse)
    clear(room.mobility)  # 0 of ends on the base
    for c in range(table.chains.shape[0]):
        chain = table.chains[c]
        own, work = of_chain(table, room, chain)
        on = cut(table.on, chain, ends.END)
        if locked:
            lock(own, work)
        elif bodies.inwards(own, cut(tau, chain, ends.RATE), 0, work, 0.0) != DONE:
            return LOST
        columns = table.columns[chain[ends.COLUMN] : chain[ends.COLUMN] + chain[ends.COLUMN + 1]]
        n, _, _, _ = sizes(own, own.size)
        E = cut(room.innovations, chain, ends.INNOVATION)
        length = LANES * chain[ends.RATES_OF]
        for first in range(0, columns.shape[0], LANES):
            mine = part(E, first // LANES * length, length, 0.0)
            f, relative = columns_inwards(table, own, on, columns, first, room, work, mine)
            relative = relative + fused_dot(ends.rising(loads, 0.0), f)  # −f_0·g (5)
            for k in range(min(LANES, columns.shape[0] - first)):
                if columns[first + k, 0] < room.gap.size:
                    room.open_acceleration[columns[first + k, 0]] += lane(relative, k)  # (5)
            _, _, rates, _ = record(own, n, columns[first, 1] + 1)
            for other in range(0, first + 1, LANES):
                theirs = part(E, other // LANES * length, length, 0.0)
                products_of(mine, theirs, rates, room.products)
                scatter(columns, first, other, room)
    return DONE


@plain
def put_scales(table, room):
    """Units of the rows, by how freely the ends move."""
    for k in range(table.closures.shape[0]):
        free = math.sqrt(room.mobility[2 * k] + room.mobility[2 * k + 1])
        for row in range(table.closures[k, 1], table.closures[k, 2]):
            scale = free / table.ends[2 * k, 12] if table.turns[row] else free
            room.scale[row] = 1.0 / scale if scale > 0.0 else 1.0


@plain
def factor_scaled(room, certain):
    """Invert Cholesky's factor of the scaled Λ⁻¹; whether eigenvalues ≥ 1/tr Λ > ``certain``."""
    held, L = room.gap.size, room.factor
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
def multipliers(room, x):
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
def push_chain(table, chain, own, work, room):
    """Add what the multipliers do to the innovations u/D of a chain, (6)."""
    columns = table.columns[chain[ends.COLUMN] : chain[ends.COLUMN] + chain[ends.COLUMN + 1]]
    E, f = cut(room.innovations, chain, ends.INNOVATION), room.eight
    length = LANES * chain[ends.RATES_OF]
    n, _, _, _ = sizes(own, own.size)
    for first in range(0, columns.shape[0], LANES):
        clear(f)
        for k in range(min(LANES, columns.shape[0] - first)):
            if columns[first + k, 0] < room.f.size:
                f[k] = room.f[columns[first + k, 0]]
        mine, pushes = part(E, first // LANES * length, length, 0.0), load(f, 0, eight(0.0))
        for i in range(columns[first, 1] + 1):
            kind, _, to, row = record(own, n, i)
            units = bodies.first_units(kind, row)
            for j in range(RATES[kind]):
                push(mine, to + j, pushes, work, units + bodies.RATE * j)


@step
def push(E, i, f, work, at):
    pushed = load(E, i, f) * f
    y = [lane(pushed, k) for k in range(LANES)]
    total = ((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7]))
    work[at + bodies.DRIVE] = work[at + bodies.DRIVE] + total / root(
        work[at + bodies.PIVOT]
    )  # (6): u/D += ε f/D


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
def largest(table, x, shorter):
    """Largest of numbers, one a row, displacements in sizes of the linkage; NaN if one is."""
    found = 0.0
    for row in range(x.size):
        size = abs(x[row]) * (1.0 if table.turns[row] else shorter)
        found = (size if size > found else found) + 0.0 * size
    return found


@step
def loads_of(loads, chain, many):
    """Gravity, and with ``many`` loads not zero the wrenches on the bodies of a chain."""
    return part(loads, many * chain[ends.LOAD], 3 + many * (chain[ends.LOAD + 1] - 3), 0.0)


@inlined
def compare(table, state, moving, shorter, room):
    """Compare the ends, at rates of their own; ``moving`` are those of the dynamics.

    Returns the speed of the fastest body, or −1 where coordinates cannot be used.
    """
    q, qd, _, loads = state
    fastest, many = 0.0, 1 if loads.size > 3 else 0
    ends.put_base(table, loads, room.motion)
    for c in range(table.chains.shape[0]):
        chain = table.chains[c]
        own, work = of_chain(table, room, chain)
        x, v = cut(q, chain, ends.COORDINATE), cut(moving, chain, ends.RATE)
        if not bodies.outwards(own, x, v, loads_of(loads, chain, many), 0, work, 0.0):
            return -1.0
        v = cut(qd, chain, ends.RATE)
        fastest = max(fastest, ends.put_motion(table, chain, own, v, shorter, work, room.motion))
    ends.compare_ends(table, room)
    return fastest


@plain
def closed_rates(table, moving, loads, room, out):
    """θ̈_free + ℳ⁻¹ Aᵀ f, (1); whether all are finite."""
    good, many = True, 1 if loads.size > 3 else 0
    for c in range(table.chains.shape[0]):
        chain = table.chains[c]
        own, work = of_chain(table, room, chain)
        push_chain(table, chain, own, work, room)
        v, to = cut(moving, chain, ends.RATE), cut(out, chain, ends.RATE)
        good = bodies.accelerations(own, v, loads_of(loads, chain, many), 0, work, to, 0.0) and good
    return good


@plain
def log_pivots(table, room):
    """ln det ℳ of all chains."""
    total = 0.0
    for c in range(table.chains.shape[0]):
        own, work = of_chain(table, room, table.chains[c])
        n, _, _, _ = sizes(own, own.size)
        for i in range(n):
            kind, _, _, row = record(own, n, i)
            units = bodies.first_units(kind, row)
            for j in range(RATES[kind]):
                total += math.log(work[units + bodies.RATE * j + bodies.PIVOT])
    return total


@inlined
def answer(table, state, limits, task, room, qdd, out):
    """One state of `states`; DONE or why not."""
    shorter, limit, certain = limits
    _, qd, tau, loads = state
    held = room.gap.size
    moving = qd if task == MOTION else tau  # no rates, where those given are of gaps alone
    fastest = compare(table, state, moving, shorter, room)
    if fastest < 0.0:
        return NOT_USABLE
    if task == GAPS:
        for row in range(held):
            out[row], out[held + row] = room.gap[row], room.rate[row]
        return DONE
    if task == MOTION and not largest(table, room.gap, shorter) <= limit:
        return OPEN
    code = relative_response(table, tau, loads, task == DETERMINANT_OF_ROWS, room)  # (4) and (5)
    if code != DONE:
        return code
    if task == MOTION:
        gain = math.sqrt(largest(table, room.open_acceleration, shorter))
        if not gain < math.inf:
            return NOT_USABLE
        if not largest(table, room.rate, shorter) <= limit * (fastest + gain):
            return OPENING
    put_scales(table, room)
    if task == COMPLIANCE:
        for i in range(held):
            out[held * held + i] = room.scale[i]
            for j in range(i + 1):
                out[held * i + j] = out[held * j + i] = room.inverse[held * i + j]
        return DONE
    if not factor_scaled(room, 0.0 if task == DETERMINANT_OF_ROWS else certain):
        return DEPENDENT
    if task >= DETERMINANT:
        out[0], out[1] = 0.0, log_pivots(table, room)
        for row in range(held):
            out[0] -= 2.0 * math.log(room.factor[(held + 1) * row] * room.scale[row])
        return DONE
    if task == PULLS:
        nv, good = qdd.size, True
        for pushed in range(held):
            for row in range(held):
                room.gap[row] = 1.0 if row == pushed else 0.0
            multipliers(room, room.gap)
            to = part(out, pushed * nv, nv, 0.0)
            good = closed_rates(table, moving, loads, room, to) and good
        return DONE if good else NOT_USABLE
    # (2)
    multipliers(
        room,
        room.open_acceleration if task == MOTION else room.gap if task == CLOSE_GAP else room.rate,
    )
    closing_wrenches(table, room, out)
    good = closed_rates(table, moving, loads, room, qdd)  # (6) and (1)
    for k in range(out.size):
        good = good and math.isfinite(out[k])
    return DONE if good else NOT_USABLE


@entry
def states(table, q, qd, tau, loads, limits, task, memory, qdd, out):
    """Accelerations (frames, nv) and wrenches (frames, width); DONE, or the first without, and why.

    ``loads``: gravity, or of every frame for each chain gravity and wrenches on its bodies.
    ``limits``: one over the size of the linkage, how large a gap may be in it, and what is
    `CERTAIN`.  ``memory``: room for `Room`.
    Other tasks than `MOTION` are for no forces and no gravity:

        CLOSE_GAP, CLOSE_RATE    the rates −ℳ⁻¹ Aᵀ Λ gap or −ℳ⁻¹ Aᵀ Λ A θ̇, and impulses
        GAPS                     gaps and their rates
        COMPLIANCE               Λ⁻¹, and units of its rows by how freely ends move
        PULLS                    rates ℳ⁻¹ Aᵀ f (held, nv) that span those of all f
        DETERMINANT              ln det Λ⁻¹ and ln det ℳ
        DETERMINANT_OF_ROWS      ln det A Aᵀ and 0
    """
    frames, nv = qdd.shape
    nq, every = q.size // max(frames, 1), loads.size // max(frames, 1) if loads.size > 3 else 0
    room = Room(*ends.shelves(memory, table.starts))
    for frame in range(frames):
        state = (
            part(q, frame * nq, nq, 0.0), part(qd, frame * nv, nv, 0.0),
            part(tau, frame * nv, nv, 0.0), part(loads, frame * every, max(every, 3), 0.0),
        )  # fmt: skip
        why = answer(table, state, limits, task, room, qdd[frame], out[frame])
        if why != DONE:
            return REASONS * frame - why
    return DONE
