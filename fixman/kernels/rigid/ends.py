"""Bodies of a linkage in the base: where they are, how they move, and how far closures are open.

A row holds a direction S, fixed in body a, of the motion of body b as seen from a, at b's point p:

    A θ̇ = S · v     or S · ω,          v, ω: of b less of a
    Ȧ θ̇ = S · (dv − 2 ω_a × v)     or S · (dω − ω_a × ω),     dv, dω: their rates for θ̈ = 0
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from fixman.kernels import plain
from fixman.kernels.algebra.triples import (
    back,
    entries,
    product,
    put_entries,
    store_all,
    times,
    transposed,
)
from fixman.kernels.algebra.vectors import inner, minus, outer, plus, scaled
from fixman.kernels.compiler.lanes import part
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import RATES, joint_twist
from fixman.kernels.rigid.kinematics import BASE, ORIGIN, moving, next_body
from fixman.kernels.rigid.links import PITCH, place, rotation_tuple
from fixman.kernels.rigid.newton_euler import moved

NO_TURNS, ALL_TURNS = -1, -2


class Tables(NamedTuple):
    """Constants of a linkage.

    Bodies of all chains are counted on; the base comes after them.
    """

    chains: Any  # (chains, `RECORD`) integers
    kinds: Any  # (n,) and ``links (n, 32)`` as in `links`
    links: Any
    screws: Any  # tables of the articulated bodies, one after the other
    columns: Any  # integers: `FREELY`, the number of a row, or ``held`` + that of an end
    bodies: Any  # (ends,) integers: body of each end, two ends a closure
    ends: Any  # (ends, 13): axes, point, and a length that compares forces with moments
    closures: Any  # (closures, 3) integers: turns held, as `turned_by` wants them; its rows
    rows: Any  # (held, 3): direction in the axes of a
    turns: Any  # (held,) integers: whether it is one of turns
    starts: Any  # where each part of the memory begins, see `Room`


# Record of a chain: where its bodies, coordinates, rates, numbers in ``screws`` and columns begin,
# and how many there are; first column that asks how freely a body moves; where its answers begin.
(
    BODY, BODIES, COORDINATE, COORDINATES, RATE, RATES_OF, SCREW, SCREWS, COLUMN, COLUMNS, ASKED,
    ANSWER, RECORD,
) = range(13)  # fmt: skip
FREELY = -1


class Room(NamedTuple):
    """Memory for one state."""

    X: Any  # (n, 12) frame of each body in the one before
    motion: Any  # (n + 1, 24) of each body: R, x, ω, v, and for θ̈ = 0 dω/dt and a
    work8: Any  # memory of the articulated body, in lanes
    points: Any  # 3 of each closure: b's in the base
    S: Any  # 3 of each row: its direction in the base
    gap: Any  # (held,)
    rate: Any  # (held,) A θ̇
    pull: Any  # (held,) A θ̈_free + Ȧ θ̇
    f: Any  # (held,)
    scale: Any  # (held,)
    inverse: Any  # Λ⁻¹ by rows, of which the lower half is looked at
    factor: Any
    asked: Any  # (ends,) how freely the body of an end moves
    answers: Any  # rates (nv,) by each column of a chain
    q8: Any  # eight states of one chain: coordinates, rates, forces, loads
    v8: Any
    tau8: Any
    loads8: Any
    eight: Any  # (8,)


@step
def cut(x, chain, at):
    """Numbers of a chain, from where its record says."""
    return part(x, chain[at], chain[at + 1], 0.0)


@step
def shelf(memory, starts, k):
    """Part k of the memory, in the order of `Room`."""
    return part(memory, starts[k], starts[k + 1] - starts[k], 0.0)


@step
def shelves(memory, starts):
    return tuple(shelf(memory, starts, k) for k in range(17))


@plain
def clear(x):
    for k in range(x.size):
        x[k] = 0.0


# --- where the bodies are, and how far they are from closing --------------------------------------


@plain
def place_bodies(table, q, qd, room):
    """Motion of all bodies at θ̈ = 0; whether the coordinates can be used."""
    for c in range(table.chains.shape[0]):
        chain = table.chains[c]
        first, past = chain[BODY], chain[BODY] + chain[BODIES]
        kinds, links, X = table.kinds[first:past], table.links[first:past], room.X[first:past]
        rates = cut(qd, chain, RATE)
        if not place(cut(q, chain, COORDINATE), kinds, links, X):
            return False
        R, x, ω, v, dω, a = BASE, ORIGIN, ORIGIN, ORIGIN, ORIGIN, ORIGIN
        at = 0
        for i in range(kinds.size):
            R, r = next_body(X, i, R)
            x = plus(x, r)
            a = plus(a, plus(outer(dω, r), outer(ω, outer(ω, r))))
            turn, slide = joint_twist(kinds[i], links[i, PITCH], rates, at)
            turn, slide, v = moving(R, r, ω, v, turn, slide)
            ω, dω, a = moved(ω, dω, a, turn, slide)
            at += RATES[kinds[i]]
            put_motion(room.motion, first + i, R, x, ω, v, dω, a)
    put_motion(room.motion, table.kinds.size, BASE, ORIGIN, ORIGIN, ORIGIN, ORIGIN, ORIGIN)
    return True


@step
def put_motion(motion, i, R, x, ω, v, dω, a):
    put_entries(motion, i, 0, R)
    put_entries(motion, i, 9, (*x, *ω))
    put_entries(motion, i, 15, (*v, *dω))
    put_entries(motion, i, 21, a)


@step
def place_end(motion, ends, body, end):
    """Axes and point of an end in the base."""
    R = rotation_tuple(motion, body)
    p = entries(ends, end, 9)
    return product(R, rotation_tuple(ends, end)), plus(entries(motion, body, 9), times(R, p))


@step
def carried(motion, i, p):
    """Velocity and acceleration of body i where p is."""
    d, ω = minus(p, entries(motion, i, 9)), entries(motion, i, 12)
    turning = plus(outer(entries(motion, i, 18), d), outer(ω, outer(ω, d)))
    return plus(entries(motion, i, 15), outer(ω, d)), plus(entries(motion, i, 21), turning)


@step
def relative(motion, a, b, p):
    """Velocity and ω of body b as seen from body a, at p, and the changes of both for θ̈ = 0."""
    (v_a, dv_a), (v_b, dv_b) = carried(motion, a, p), carried(motion, b, p)
    w = entries(motion, a, 12)
    v, ω = minus(v_b, v_a), minus(entries(motion, b, 12), w)
    dω = minus(entries(motion, b, 18), entries(motion, a, 18))
    # Directions turn with a, and so does the place of a that is at p.
    return v, ω, minus(minus(dv_b, dv_a), scaled(2.0, outer(w, v))), minus(dω, outer(w, ω))


@plain
def compare_ends(table, room):
    """Direction, gap, A θ̇ and Ȧ θ̇ of every row."""
    motion = room.motion
    for k in range(table.closures.shape[0]):
        a, b = table.bodies[2 * k], table.bodies[2 * k + 1]
        Q, x_a = place_end(motion, table.ends, a, 2 * k)
        axes, x_b = place_end(motion, table.ends, b, 2 * k + 1)
        store_all(room.points, 3 * k, x_b)
        r, turned = back(Q, minus(x_b, x_a)), turned_by(table.closures[k, 0], Q, axes)
        v, ω, dv, dω = relative(motion, a, b, x_b)
        for row in range(table.closures[k, 1], table.closures[k, 2]):
            e = entries(table.rows, row, 0)
            S = times(Q, e)
            store_all(room.S, 3 * row, S)
            if table.turns[row]:
                room.gap[row], room.rate[row], room.pull[row] = three(e, S, turned, ω, dω)
            else:
                room.gap[row], room.rate[row], room.pull[row] = three(e, S, r, v, dv)


@step
def three(e, S, gap, rate, change):
    """Gap, A θ̇ and Ȧ θ̇ of a row."""
    return inner(e, gap), inner(S, rate), inner(S, change)


@plain
def turned_by(held, Q, R):
    """Rotation vector, in axes Q, of the least turn that must be undone for axes R.

    It is that of R where three turns are held, and of the axis about which R is free where two are.
    """
    if held == NO_TURNS:
        return ORIGIN
    if held == ALL_TURNS:
        T = product(transposed(Q), R)
        normal = 0.5 * (T[7] - T[5]), 0.5 * (T[2] - T[6]), 0.5 * (T[3] - T[1])
        cosine = 0.5 * (T[0] + T[4] + T[8] - 1.0)
        sine = math.sqrt(inner(normal, normal))
        angle = math.atan2(sine, cosine)
        if cosine >= 0.0:
            return scaled(angle / sine if sine > 0.0 else 1.0, normal)
        # The other half of T keeps its digits where the turn is almost half a one:
        # ½ (T + Tᵀ) − cos 1 = (1 − cos) n nᵀ, of which this is the largest column.
        k = 1 if T[4] > T[0] else 0
        k = 2 if T[8] > T[4 * k] else k
        column = (
            0.5 * (T[k] + T[3 * k]) - (cosine if k == 0 else 0.0),
            0.5 * (T[3 + k] + T[3 * k + 1]) - (cosine if k == 1 else 0.0),
            0.5 * (T[6 + k] + T[3 * k + 2]) - (cosine if k == 2 else 0.0),
        )
        size = math.sqrt(inner(column, column))
        return scaled(angle / (-size if inner(column, normal) < 0.0 else size), column)
    now = back(Q, (R[held], R[3 + held], R[6 + held]))
    e = (1.0 if held == 0 else 0.0, 1.0 if held == 1 else 0.0, 1.0 if held == 2 else 0.0)
    normal = outer(e, now)
    sine = math.sqrt(inner(normal, normal))
    angle = math.atan2(sine, inner(e, now))
    if sine > 0.0:
        return scaled(angle / sine, normal)
    # About which normal an axis was turned by half a turn nothing says.
    other = (held + 2) % 3
    return (
        angle if other == 0 else 0.0, angle if other == 1 else 0.0, angle if other == 2 else 0.0,
    )  # fmt: skip
