"""Closed chains of rigid bodies: chains cut open, under the wrenches that close them.

A row of A is one direction of the relative motion of two bodies, so that a column of Aᵀ is the
joint forces of a unit wrench on one of them and of the opposite one on the other.  Its innovations
ε come from one sweep from tip to base, with w the wrench on body i (docs/theory.md, section 11):

    θ̈ = θ̈_free + ℳ⁻¹ Aᵀ f                                                     (C1)
    Λ⁻¹ f = −(A θ̈_free + Ȧ θ̇),  Λ⁻¹ = A ℳ⁻¹ Aᵀ = εᵀ D⁻¹ ε                     (C2), (C3)
    z′ = w + X_{i+1}ᵀ z_{i+1},  ε_i = S_iᵀ z′,  z_i = z′ − (U/D)_i ε_i        (C4)
    A θ̈_free + Ȧ θ̇ = εᵀ D⁻¹ u + Σ zᵀ c − f_0·g + S·δ                          (C5)
    u += ε f, and one sweep outwards gives (C1)                               (C6)

δ are the terms without a column: centripetal and Coriolis ones of the ends, and −g of an end on the
base (`ends.relative`).  S without an index is the direction of a row of A (`ends`), S_i the axes of
joint i.  X, U/D, u and c are those of `articulated_body`.  η = D^{−1/2} ε is what is kept, so that
Λ⁻¹ = ηᵀ η and u/D += D^{−1/2} η f.  Lanes are eight columns, not states.

Each end on a chain has one more column, a wrench in a general direction: how freely the body moves
is the unit that tells a small Λ⁻¹ from a lost one.
"""

import math

from fixman.kernels import entry, plain
from fixman.kernels.algebra.triples import back, constants, load6, store_all, times
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, minus, plus, scaled
from fixman.kernels.compiler.lanes import LANES, eight, lane, load, part, root, store
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import articulated_body as bodies
from fixman.kernels.rigid import articulated_inertia as inertia
from fixman.kernels.rigid import ends
from fixman.kernels.rigid.articulated_body import DONE, NOT_USABLE, record, sizes
from fixman.kernels.rigid.ends import COLUMN, clear, cut, room_in
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


# --- ε of eight columns of Aᵀ (C4), from the tip of a chain to its base ---------------------------


@plain
def put_wrenches(held, columns, first, last, end, seen, W):
    """Write w, wrenches [n; f] about its origin, of eight columns on the body of an end."""
    k, rows = end // 2, seen.gap.size
    R, x, _, _, _ = ends.motion_of(seen.motion, end)
    arm = minus(constants(seen.points, 3 * k), x)
    clear(W)
    for j in range(min(LANES, last - first)):
        column, force, moment = columns[first + j, 0], NONE, NONE
        if column == rows + end:
            force, moment = FORCE, scaled(held.ends[end, 12], MOMENT)
        elif held.spans[k, 1] <= column < held.spans[k, 2]:
            S = scaled(1.0 if end % 2 == 1 else -1.0, constants(seen.S, 3 * column))
            force, moment = (NONE, S) if held.turns[column] else (S, NONE)
        moment = plus(moment, fused_cross(arm, force))
        wrench = (*back(R, moment), *back(R, force))
        for d in range(6):
            W[LANES * d + j] = wrench[d]


@step
def innovation(n, f, relative, work, at):
    """z and ε of a rate that turns about z (C4), and its u/D ε of (C5)."""
    ux, uy, vx, vy, vz, drive = load6(work, at, 0.0)
    ε = n[2]  # S_iᵀ z′
    n = n[0] - ux * ε, n[1] - uy * ε, work[at + bodies.ROTOR] * ε  # z = z′ − (U/D) ε
    return n, (f[0] - vx * ε, f[1] - vy * ε, f[2] - vz * ε), relative + drive * ε, ε


@step
def inwards(E, r, c, n, f, relative):
    """z_iᵀ c_i (C5), and wrenches on the body before."""
    relative = relative + (fused_dot(c[:3], n) + fused_dot(c[3:], f))
    f = times(E, f)
    return plus(times(E, n), fused_cross(r, f)), f, relative


@plain
def through_half(n, f, relative, kind, half, first, to, work, η):
    """Through the turns (`ANGULAR`) of a joint of several rates, or its slides as turns."""
    for k in range(3):
        n, f = inertia.renamed_wrench(n, f)
        j = RATE_OF[kind, half + k]
        if j >= 0:
            at = first + bodies.RATE * j
            n, f, relative, ε = innovation(n, f, relative, work, at)
            store(η, to + j, ε * (1.0 / math.sqrt(work[at + bodies.PIVOT])))
    return n, f, relative


@plain
def columns_inwards(own, on, held, columns, first, last, seen, W, work, η):
    """D^{−1/2} ε of eight columns into ``η``, a unit a rate (C4); f_0, and the sums of (C5)."""
    n, _, _, _ = sizes(own, own.size)
    left, zero = on.size, eight(0.0)
    moment, f, relative = (zero, zero, zero), (zero, zero, zero), zero
    for i in range(columns[first, 1], -1, -1):
        while left > 0 and held.bodies[on[left - 1]] >= i:
            left -= 1
            put_wrenches(held, columns, first, last, on[left], seen, W)
            w = load6(W, 0, zero)
            moment, f = plus(moment, w[:3]), plus(f, w[3:])  # z′
        kind, _, to, row = record(own, n, i)
        at, pitch = bodies.first_units(kind, row), own[bodies.LINK * i + bodies.PITCH]
        if RATES[kind] > 1:
            if SLIDES[kind] > 0:
                half = f, moment, relative, kind, LINEAR
                f, moment, relative = through_half(*half, at, to, work, η)
            half = moment, f, relative, kind, ANGULAR
            moment, f, relative = through_half(*half, at, to, work, η)
        else:
            if TURNS[kind] == 0:  # forces before moments, as `inertia.mirrored`
                f, moment, relative, ε = innovation(f, moment, relative, work, at)
            else:
                moment, f = inertia.sheared_wrench(moment, f, pitch)
                moment, f, relative, ε = innovation(moment, f, relative, work, at)
                moment, f = inertia.sheared_wrench(moment, f, -pitch)
            store(η, to, ε * (1.0 / math.sqrt(work[at + bodies.PIVOT])))
        E, r, c = bodies.from_before(own, n, i, work)
        moment, f, relative = inwards(E, r, c, moment, f, relative)
    return f, relative


# --- Λ⁻¹ (C3), A θ̈_free + Ȧ θ̇ (C5) ---------------------------------------------------------------


@step
def add_products(sums, η, i, y):
    return tuple(sums[k] + η[LANES * i + k] * y for k in range(LANES))


@plain
def products_of(η, other, rates, out):
    """Eᵀ other of eight columns and eight others, over the first rates."""
    zero = eight(0.0)
    sums = (zero, zero, zero, zero, zero, zero, zero, zero)
    for i in range(rates):
        sums = add_products(sums, η, i, load(other, i, zero))
    store_all(out, 0, sums)


@plain
def scatter(columns, first, other, last, products, rows):
    """Add products of columns to the lower half of Λ⁻¹ (C3); those of an end are its mobility."""
    m = rows.f.size
    for j in range(min(LANES, last - first)):
        r = columns[first + j, 0]
        for k in range(min(LANES, last - other)):
            c, value = columns[other + k, 0], products[LANES * j + k]
            if r == c and r >= m:
                rows.mobility[r - m] = value
            elif r < m and c < m and (first != other or k <= j):
                rows.inverse[m * r + c if r > c else m * c + r] += value


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


@plain
def compliance(table, tau, loads, locked, room):
    """Λ⁻¹ (C3) and A θ̈_free + Ȧ θ̇ (C5) by the articulated bodies of all chains; DONE, or why not.

    With ``locked`` joints Λ⁻¹ is A Aᵀ.
    """
    held, chains, columns = table.held, table.chains, table.columns
    rows, seen, W, products = room.rows, room.seen, room.W, room.products
    clear(rows.inverse)
    clear(rows.mobility)  # 0 of ends on the base
    for c in range(chains.shape[0]):
        own = cut(table.screws, chains, c, ends.SCREW)
        work = cut(room.work, chains, c, ends.UNIT)
        if locked:
            lock(own, work)
        elif bodies.inwards(own, cut(tau, chains, c, ends.RATE), 0, work, 0.0) != DONE:
            return LOST
        on = cut(table.on, chains, c, ends.END)
        η = cut(room.innovations, chains, c, ends.INNOVATION)
        n, _, nv, _ = sizes(own, own.size)
        begin, last = chains[c, COLUMN], chains[c, COLUMN] + chains[c, COLUMN + 1]
        for first in range(begin, last, LANES):
            mine = part(η, (first - begin) * nv, LANES * nv, 0.0)
            f, relative = columns_inwards(own, on, held, columns, first, last, seen, W, work, mine)
            relative = relative + fused_dot(ends.rising(loads, 0.0), f)  # −f_0·g
            for k in range(min(LANES, last - first)):
                if columns[first + k, 0] < seen.gap.size:
                    seen.acceleration[columns[first + k, 0]] += lane(relative, k)  # (C5)
            _, _, rates, _ = record(own, n, columns[first, 1] + 1)
            for other in range(begin, first + 1, LANES):
                theirs = part(η, (other - begin) * nv, LANES * nv, 0.0)
                products_of(mine, theirs, rates, products)
                scatter(columns, first, other, last, products, rows)
    return DONE


# --- f (C2) ---------------------------------------------------------------------------------------


@plain
def put_scales(held, rows):
    """Units s of the rows, by how freely the ends move."""
    for k in range(held.spans.shape[0]):
        free = math.sqrt(rows.mobility[2 * k] + rows.mobility[2 * k + 1])
        for row in range(held.spans[k, 1], held.spans[k, 2]):
            scale = free / held.ends[2 * k, 12] if held.turns[row] else free
            rows.scale[row] = 1.0 / scale if scale > 0.0 else 1.0


@plain
def factor_scaled(rows, certain):
    """L⁻¹ of s Λ⁻¹ s = L Lᵀ; whether its eigenvalues, ≥ 1/tr (L⁻ᵀ L⁻¹), are above ``certain``.

    ``rows.factor`` holds first L, but with 1/L_ii on its diagonal, and then, row by row, L⁻¹ in its
    place.  The trace is the sum of the squares of L⁻¹, which is that of 1/eigenvalue.
    """
    m, L = rows.f.size, rows.factor
    trace = 0.0
    for i in range(m):
        for j in range(i + 1):
            total = rows.inverse[m * i + j] * rows.scale[i] * rows.scale[j]
            for k in range(j):
                total -= L[m * i + k] * L[m * j + k]
            if i == j:
                if not total > 0.0:
                    return False
                L[m * i + i] = 1.0 / math.sqrt(total)
                trace += 1.0 / total
            else:
                L[m * i + j] = total * L[m * j + j]
    for i in range(m):
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += L[m * i + k] * L[m * k + j]
            L[m * i + j] = -total * L[m * i + i]
            trace += L[m * i + j] * L[m * i + j]
    return trace * certain < 1.0


@plain
def multipliers(rows, x):
    """f = −Λ x = −s L⁻ᵀ L⁻¹ s x, (C2)."""
    inverse, f, scale = rows.factor, rows.f, rows.scale  # L⁻¹
    m = f.size
    clear(f)
    for i in range(m):
        total = 0.0
        for j in range(i + 1):
            total -= inverse[m * i + j] * scale[j] * x[j]
        for j in range(i + 1):
            f[j] += inverse[m * i + j] * total
    for row in range(m):
        f[row] *= scale[row]


@plain
def closing_wrenches(held, f, S, out):
    """Force and moment of each closure at b's point on b, in the axes of the base."""
    clear(out)
    for k in range(held.spans.shape[0]):
        for row in range(held.spans[k, 1], held.spans[k, 2]):
            at = 6 * k + 3 * held.turns[row]
            for j in range(3):
                out[at + j] += f[row] * S[3 * row + j]


# --- u (C6) and θ̈ (C1) ----------------------------------------------------------------------------


@step
def push(η, i, f, work, at):
    """u/D += ε f/D (C6) of a rate and eight columns."""
    pushed = load(η, i, f) * f
    y = [lane(pushed, k) for k in range(LANES)]
    total = ((y[0] + y[1]) + (y[2] + y[3])) + ((y[4] + y[5]) + (y[6] + y[7]))
    work[at + bodies.DRIVE] = work[at + bodies.DRIVE] + total / root(work[at + bodies.PIVOT])


@plain
def closed_rates(table, loads, room, out):
    """θ̈_free + ℳ⁻¹ Aᵀ f (C1); whether all are finite."""
    good, zero = True, eight(0.0)
    chains, columns, f, pushes = table.chains, table.columns, room.rows.f, room.pushes
    for c in range(chains.shape[0]):
        own = cut(table.screws, chains, c, ends.SCREW)
        work = cut(room.work, chains, c, ends.UNIT)
        η = cut(room.innovations, chains, c, ends.INNOVATION)
        n, _, nv, _ = sizes(own, own.size)
        begin, last = chains[c, COLUMN], chains[c, COLUMN] + chains[c, COLUMN + 1]
        for first in range(begin, last, LANES):
            clear(pushes)
            for k in range(min(LANES, last - first)):
                if columns[first + k, 0] < f.size:
                    pushes[k] = f[columns[first + k, 0]]
            mine, pushed = part(η, (first - begin) * nv, LANES * nv, 0.0), load(pushes, 0, zero)
            for i in range(columns[first, 1] + 1):
                kind, _, to, row = record(own, n, i)
                units = bodies.first_units(kind, row)
                for j in range(RATES[kind]):
                    push(mine, to + j, pushed, work, units + bodies.RATE * j)  # (C6)
        rates = cut(out, chains, c, ends.RATE)
        good = bodies.accelerations(own, loads, 0, work, rates, 0.0) and good
    return good


@plain
def largest(turns, x, shorter):
    """Largest of numbers, one a row, displacements in sizes of the linkage; NaN if one is."""
    found = 0.0
    for row in range(x.size):
        size = abs(x[row]) * (1.0 if turns[row] else shorter)
        found = (size if size > found else found) + 0.0 * size
    return found


@plain
def compare(table, state, moving, shorter, room):
    """Compare the ends, at rates of their own; ``moving`` are those of the dynamics.

    Returns the speed of the fastest body, or −1 where coordinates cannot be used.
    """
    q, qd, _, loads = state
    fastest = 0.0
    held, chains, motion = table.held, table.chains, room.seen.motion
    for c in range(chains.shape[0]):
        own = cut(table.screws, chains, c, ends.SCREW)
        work = cut(room.work, chains, c, ends.UNIT)
        x, v = cut(q, chains, c, ends.COORDINATE), cut(moving, chains, c, ends.RATE)
        felt = cut(loads, chains, c, ends.LOAD) if loads.size > 3 else loads
        if not bodies.outwards(own, x, v, felt, 0, work, 0.0):
            return -1.0
        on, v = cut(table.on, chains, c, ends.END), cut(qd, chains, c, ends.RATE)
        speed = ends.put_motion(own, on, held.bodies, v, shorter, work, motion)
        fastest = speed if speed > fastest else fastest
    ends.compare_ends(held, loads, room.seen)
    return fastest


@plain
def put_determinants(chains, screws, all_work, rows, out):
    """ln det Λ⁻¹ and ln det ℳ."""
    m = rows.f.size
    out[0] = out[1] = 0.0
    for row in range(m):
        out[0] -= 2.0 * math.log(rows.factor[(m + 1) * row] * rows.scale[row])
    for c in range(chains.shape[0]):
        own, work = cut(screws, chains, c, ends.SCREW), cut(all_work, chains, c, ends.UNIT)
        n, _, _, _ = sizes(own, own.size)
        for i in range(n):
            kind, _, _, row = record(own, n, i)
            units = bodies.first_units(kind, row)
            for j in range(RATES[kind]):
                out[1] += math.log(work[units + bodies.RATE * j + bodies.PIVOT])


@plain
def answer(table, state, limits, task, room, qdd, out):
    """One state of `states`; DONE or why not."""
    shorter, limit, certain = limits
    _, qd, tau, loads = state
    seen, rows, turns = room.seen, room.rows, table.held.turns
    m, good = seen.gap.size, True
    at_rest = tau  # zeros for all tasks but MOTION, which alone has a bias
    moving = qd if task == MOTION else at_rest
    fastest = compare(table, state, moving, shorter, room)  # gaps and A θ̇
    if fastest < 0.0:
        return NOT_USABLE
    if task == GAPS:
        for row in range(m):
            out[row], out[m + row] = seen.gap[row], seen.rate[row]
        return DONE
    if task == MOTION and not largest(turns, seen.gap, shorter) <= limit:
        return OPEN
    if compliance(table, tau, loads, task == DETERMINANT_OF_ROWS, room) != DONE:  # (C3), (C5)
        return LOST
    if task == MOTION:
        gain = math.sqrt(largest(turns, seen.acceleration, shorter))
        if not gain < math.inf:
            return NOT_USABLE
        if not largest(turns, seen.rate, shorter) <= limit * (fastest + gain):
            return OPENING
    put_scales(table.held, rows)
    if task == COMPLIANCE:
        for i in range(m):
            out[m * m + i] = rows.scale[i]
            for j in range(i + 1):
                out[m * i + j] = out[m * j + i] = rows.inverse[m * i + j]
        return DONE
    if not factor_scaled(rows, 0.0 if task == DETERMINANT_OF_ROWS else certain):
        return DEPENDENT
    if task >= DETERMINANT:
        put_determinants(table.chains, table.screws, room.work, rows, out)
        return DONE
    opening = seen.gap  # A θ̈_free + Ȧ θ̇ of (C2), or what stands for it; in PULLS unit vectors
    if task == MOTION:
        opening = seen.acceleration
    elif task == CLOSE_RATE:
        opening = seen.rate
    for pulled in range(m if task == PULLS else 1):
        to = qdd
        if task == PULLS:
            to = part(out, pulled * qdd.size, qdd.size, 0.0)
            clear(opening)
            opening[pulled] = 1.0
        multipliers(rows, opening)  # (C2)
        good = closed_rates(table, loads, room, to) and good  # (C6) and (C1)
    if task != PULLS:
        closing_wrenches(table.held, rows.f, seen.S, out)
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
    nq, every = q.size // frames, loads.size // frames if loads.size > 3 else 0
    room = room_in(memory, table.starts)
    for frame in range(frames):
        state = (
            part(q, frame * nq, nq, 0.0), part(qd, frame * nv, nv, 0.0),
            part(tau, frame * nv, nv, 0.0),
            part(loads, frame * every, every if every else 3, 0.0),
        )  # fmt: skip
        why = answer(table, state, limits, task, room, qdd[frame], out[frame])
        if why != DONE:
            return REASONS * frame - why
    return DONE
