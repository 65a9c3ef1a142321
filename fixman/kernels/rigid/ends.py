"""Ends of closures: where they are, how they move, and how far closures are open.

A row holds a direction S, fixed in body a, of the motion of body b as seen from a, at b's point p:

    A θ̇ = S · v     or S · ω
    Ȧ θ̇ = S · (dv − 2 ω_a × v)     or S · (dω − ω_a × ω)

v, ω: velocity of p on b and angular velocity of b, less those of a at p; dv, dω: the same of
accelerations at θ̈ = 0.  S turns with a, and the point of a at p changes: hence 2 ω_a × v.
Frames of bodies are those of the articulated body.
"""

import math
from typing import Any, NamedTuple

from fixman.kernels import plain
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.triples import back, constants, entries, product, store_all, times
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, minus, plus, scaled
from fixman.kernels.compiler.lanes import part
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import articulated_body as bodies
from fixman.kernels.rigid.articulated_body import record, sizes
from fixman.kernels.rigid.joints import UNTURNED, ZERO, joint_twist

NO_TURNS, ALL_TURNS = -1, -2


class Held(NamedTuple):
    """Constants of the closures, two ends each: first that on a, then that on b."""

    bodies: Any  # (ends,) integers: body of each end in its chain, or −1
    ends: Any  # (ends, 13): axes, point, and a length that compares forces with moments
    spans: Any  # (closures, 3) integers: turns held, as `turned_by` wants them; first and last row
    rows: Any  # (held, 3): direction in the axes of a
    turns: Any  # (held,) integers: whether it is one of turns


class Tables(NamedTuple):
    """Constants of a linkage."""

    chains: Any  # (chains, `RECORD`) integers
    screws: Any  # tables of the articulated bodies, one after the other
    columns: Any  # (columns, 2) integers of each chain, see `closed`, that reach furthest first:
    # the number of a row, or ``held`` + that of an end; and the last body it is felt by
    on: Any  # integers: the ends on each chain, from the base outwards
    held: Any  # `Held`
    starts: Any  # where each part of the memory begins, see `Room`


# Record of a chain: where its coordinates, rates, and so on begin, and how many there are.
(
    COORDINATE, COORDINATES, RATE, RATES_OF, SCREW, SCREWS, COLUMN, COLUMNS, END, ENDS,
    UNIT, UNITS, INNOVATION, INNOVATIONS, LOAD, LOADS, RECORD,
) = range(17)  # fmt: skip
MOTION = 21  # numbers of an end in `Seen.motion`: R, x, ω and v of its body, and `rising`


class Seen(NamedTuple):
    """Memory for the ends in the base, and for how they move."""

    motion: Any  # MOTION of each end
    points: Any  # 3 of each closure: b's
    S: Any  # 3 of each row: its direction
    gap: Any  # (held,)
    rate: Any  # (held,) A θ̇
    acceleration: Any  # (held,) A θ̈_free + Ȧ θ̇


class Rows(NamedTuple):
    """Memory for Λ⁻¹ and the multipliers."""

    f: Any  # (held,)
    scale: Any  # (held,) s, units in which all rows move alike
    inverse: Any  # Λ⁻¹ by rows, of which the lower half is looked at
    factor: Any  # L⁻¹, lower half, of s Λ⁻¹ s = L Lᵀ: Λ = s L⁻ᵀ L⁻¹ s
    mobility: Any  # (ends,) εᵀ D⁻¹ ε of a wrench in a general direction on the body of an end


class Room(NamedTuple):
    """Memory for one state."""

    work: Any  # of the articulated bodies
    innovations: Any  # D^{−1/2} ε, (rates, 8) of each eight columns of Aᵀ of a chain
    W: Any  # (6, 8) wrenches of eight columns
    products: Any  # (8, 8) of eight columns and eight others
    pushes: Any  # (8,) multipliers of eight columns
    seen: Seen
    rows: Rows


@step
def room_in(memory, starts):
    """Parts of the memory, in the order in which `Room` names them."""
    x = [part(memory, starts[k], starts[k + 1] - starts[k], 0.0) for k in range(16)]
    return Room(x[0], x[1], x[2], x[3], x[4], Seen(*x[5:11]), Rows(*x[11:]))


@step
def cut(x, chains, c, at):
    return part(x, chains[c, at], chains[c, at + 1], 0.0)


@plain
def clear(x):
    for k in range(x.size):
        x[k] = 0.0


@plain
def put_motion(own, on, body_of, rates, shorter, work, motion):
    """Motion of the bodies that the ends ``on`` a chain are fixed to, from what `outwards` left.

    ``body_of`` is the body of each end in its chain, or −1.
    Returns the largest speed on the way, in radians and, times ``shorter``, lengths a unit of time.
    """
    n, _, _, _ = sizes(own, own.size)
    fastest, seen = 0.0, 0
    R, x, ω, v = UNTURNED, ZERO, ZERO, ZERO
    for i in range(n):
        if seen == on.size:
            break
        kind, _, to, _ = record(own, n, i)
        E, r, _ = bodies.from_before(own, n, i, work)
        way, R = times(R, r), product(R, E)
        turn, slide = joint_twist(kind, own[bodies.LINK * i + bodies.PITCH], rates, to)
        x, v = plus(x, way), plus(plus(v, fused_cross(ω, way)), times(R, slide))
        ω = plus(ω, times(R, turn))
        for k in range(3):
            fastest = max(fastest, abs(ω[k]), abs(v[k]) * shorter)
        while seen < on.size and body_of[on[seen]] == i:
            store_all(motion, MOTION * on[seen], (*R, *x, *ω, *v, 0.0, 0.0, 0.0))
            seen += 1
    return fastest


@step
def rising(loads, like):
    """Acceleration against which the base would be at rest."""
    return tuple(like - loads[k] for k in range(3))


@step
def motion_of(motion, end):
    """R, x, ω and v of an end's body, and `rising` where it is the base."""
    at = MOTION * end
    x, ω, v, rise = (constants(motion, at + k) for k in (9, 12, 15, 18))
    return mat.matrix(motion, at), x, ω, v, rise


@step
def end_frame(motion, ends, end):
    """Axes and point of an end in the base."""
    R, x, _, _, _ = motion_of(motion, end)
    return product(R, mat.entries9(ends, end, 0)), plus(x, times(R, entries(ends, end, 9)))


@step
def at_point(motion, end, p):
    """ω, velocity, and acceleration but for what columns tell, of an end's body where p is."""
    _, x, ω, v, rise = motion_of(motion, end)
    way = fused_cross(ω, minus(p, x))
    return ω, plus(v, way), plus(rise, fused_cross(ω, way))


@step
def relative(motion, a, b, p):
    """Velocity and ω of the body of end b as seen from end a's, at p, and the changes of both."""
    (w, v_a, dv_a), (ω, v_b, dv_b) = at_point(motion, a, p), at_point(motion, b, p)
    v, ω = minus(v_b, v_a), minus(ω, w)
    # Directions turn with a, and so does the place of a that is at p.
    dv = minus(minus(dv_b, dv_a), scaled(2.0, fused_cross(w, v)))
    return v, ω, dv, scaled(-1.0, fused_cross(w, ω))


@plain
def compare_ends(held, loads, seen):
    """Direction, gap, A θ̇, and Ȧ θ̇ but for what columns tell, of every row."""
    motion = seen.motion
    for end in range(held.bodies.size):
        if held.bodies[end] < 0:
            fixed = (*UNTURNED, *ZERO, *ZERO, *ZERO, *rising(loads, 0.0))
            store_all(motion, MOTION * end, fixed)
    for k in range(held.spans.shape[0]):
        a, b = 2 * k, 2 * k + 1
        Q, x_a = end_frame(motion, held.ends, a)
        axes, x_b = end_frame(motion, held.ends, b)
        store_all(seen.points, 3 * k, x_b)
        r, turned = back(Q, minus(x_b, x_a)), turned_by(held.spans[k, 0], Q, axes)
        v, ω, dv, dω = relative(motion, a, b, x_b)
        for row in range(held.spans[k, 1], held.spans[k, 2]):
            e = entries(held.rows, row, 0)
            S = times(Q, e)
            store_all(seen.S, 3 * row, S)
            gap, rate, change = (turned, ω, dω) if held.turns[row] else (r, v, dv)
            seen.gap[row], seen.rate[row] = fused_dot(e, gap), fused_dot(S, rate)
            seen.acceleration[row] = fused_dot(S, change)


@plain
def unit(k):
    return (1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)


@plain
def turned_by(turns, Q, R):
    """Rotation vector, in axes Q, of the least turn that must be undone for axes R.

    It is that of R if ``turns`` is `ALL_TURNS`, and else of the axis of that number, about which
    bodies turn freely.
    """
    if turns == NO_TURNS:
        return ZERO
    T = product(mat.transposed(Q), R)
    if turns == ALL_TURNS:
        normal = 0.5 * (T[7] - T[5]), 0.5 * (T[2] - T[6]), 0.5 * (T[3] - T[1])
        cosine = 0.5 * (T[0] + T[4] + T[8] - 1.0)
    else:
        e, now = unit(turns), (T[turns], T[3 + turns], T[6 + turns])
        normal, cosine = fused_cross(e, now), fused_dot(e, now)
    sine = math.sqrt(fused_dot(normal, normal))
    angle = math.atan2(sine, cosine)
    if turns == ALL_TURNS and cosine < 0.0:
        # The other half of T keeps its digits where the turn is almost half a one:
        # ½ (T + Tᵀ) − cos 1 = (1 − cos) n nᵀ, of which this is the largest column.
        k = 1 if T[4] > T[0] else 0
        k = 2 if T[8] > T[4 * k] else k
        column, row = (T[k], T[3 + k], T[6 + k]), (T[3 * k], T[3 * k + 1], T[3 * k + 2])
        column = minus(scaled(0.5, plus(column, row)), scaled(cosine, unit(k)))
        size = math.sqrt(fused_dot(column, column))
        return scaled(angle / (-size if fused_dot(column, normal) < 0.0 else size), column)
    # After half a turn about an axis the normal is undetermined: any will do.
    return scaled(angle / sine, normal) if sine > 0.0 else scaled(angle, unit((turns + 2) % 3))
