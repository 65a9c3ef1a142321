"""The rigid Fixman partition of an arm: every joint revolute or prismatic.

The blocks and symbols of `rigid_partition`, unrolled.  Directions of joint i stand in the order
ωx, ωy, vx, vy, then vz, ωz of a revolute joint or ωz, vz of a prismatic one: hard first, soft last.
𝒥 is a turn of (ωx, ωy) and (vx, vy), or the shear vx += q ωy, vy −= q ωx.

A row of a block is one `eight`: six directions, then in lane 6 what is subject to the same row
operations, of a row of K the right-hand side y, of a row of Ĉ the acceleration of the next joint
frame with λ_i at work but not λ_{i+1}.

``table`` holds a body in `UNITS` units of eight doubles: rows of A, K and C, then from `NUMBERS`
R (by rows), J and I_c (xx, xy, xz, yy, yz, zz), c, r, 1/m, traces of the blocks of A and C; in lane
7 of the first row 1 for a prismatic joint, 0 for a revolute one.  After the bodies stands the
rotation of the first joint frame.  ``work`` holds a joint in `SPACE` doubles: D⁻¹ L⁻¹ K_h with
D⁻¹ L⁻¹ y in lane 6, then L, the soft row of S, the soft y.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]

from fixman.kernels import jit
from fixman.kernels.algebra.triples import back, constants, constants6, matrix, store_all
from fixman.kernels.algebra.vectors import scaled
from fixman.kernels.compiler.lanes import EIGHT, INDEX, VECTOR, eight, fill_sines, lane, load
from fixman.kernels.compiler.pairs import intrinsic
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.partition import LEAST, alone, pushed

UNITS = 22
NUMBERS = 18 * 8
SPACE = 64
ROOM = SPACE + 2

# Lanes of the constant vectors, one a row: what is carried along; of a turn; of a shear.
PATTERNS = np.array(
    [
        [0, 0, 0, 0, 0, 0, 1, 0],
        [1, 1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 1, 1],
        [1, -1, 1, -1, 0, 0, 0, 0],
        [0, 0, 1, -1, 0, 0, 0, 0],
    ],
    dtype=np.float64,
).reshape(-1)


def _shuffle(builder: Any, x: Any, lanes: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(INDEX, len(lanes)), lanes)
    return builder.shuffle_vector(x, ir.Constant(VECTOR, ir.Undefined), mask)


@intrinsic
def swapped(typing: Any, x: Any) -> Any:
    """Return x with lanes 0 and 1, and 2 and 3, exchanged."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _shuffle(builder, args[0], [1, 0, 3, 2, 4, 5, 6, 7])

    return EIGHT(x), lower


@intrinsic
def crossed(typing: Any, x: Any) -> Any:
    """Return x with lane 1 in lane 2 and lane 0 in lane 3."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _shuffle(builder, args[0], [0, 1, 1, 0, 4, 5, 6, 7])

    return EIGHT(x), lower


@step
def eliminated(w, W, C, table, at, g, carried):
    """Rows of C, unit ``at`` of the table on, g carried along, less Σ_t w_t[j] W_t."""
    rows = []
    for j in range(6):
        row = load(table, at + j, C) + g[j] * carried
        for t in range(5):
            row = row - lane(w[t], j) * W[t]
        rows.append(row)
    return tuple(rows)


@step
def patterns(lanes, like):
    """The constant vectors."""
    return tuple(load(lanes, k, like) for k in range(5))


@step
def exchanged(x):
    """Six components, the last two in the other order."""
    return x[0], x[1], x[2], x[3], x[5], x[4]


@step
def rising(table, base, gravity, constant):
    """Rows of Ĉ before the first joint: nothing but minus gravity in its frame, (ω, v)."""
    carried, none = constant[0], 0.0 * constant[0]
    up = scaled(-1.0, back(matrix(table, base), gravity))
    return none, none, up[0] * carried, up[1] * carried, up[2] * carried, none


@step
def turned(m, c, s, constant):
    """𝒥 Ĉ 𝒥ᵀ of a revolute joint, the frame's acceleration in lane 6 too."""
    _, turning, resting, signs, _ = constant
    v, z = c * turning + resting, s * signs
    rows = (c * m[0] + s * m[1], c * m[1] - s * m[0], c * m[2] + s * m[3], c * m[3] - s * m[2])
    return tuple(row * v + swapped(row) * z for row in (*rows, m[4], m[5]))


@step
def slid(m, d, constant):
    """The same of a prismatic joint."""
    v = d * constant[4]
    rows = (m[0], m[1], m[2] + d * m[1], m[3] - d * m[0], m[4], m[5])
    return tuple(row + crossed(row) * v for row in rows)


@step
def turning_terms(o, c, s, rate):
    """Velocity terms of a revolute joint in its rows, and ω after it."""
    x, y = c * o[0] + s * o[1], c * o[1] - s * o[0]
    return (rate * y, -(rate * x), 0.0, 0.0, 0.0, 0.0), (x, y, o[2] + rate)


@step
def sliding_terms(o, d, rate):
    """Velocity terms of a prismatic joint."""
    x = d * o[0] * o[2] + 2.0 * rate * o[1]
    y = d * o[1] * o[2] - 2.0 * rate * o[0]
    return 0.0, 0.0, x, y, 0.0, -d * (o[0] * o[0] + o[1] * o[1])


@step
def moved_trace(table, b, d):
    """What sliding by d adds to the trace of 𝒥 C 𝒥ᵀ, C from ``table[b]`` on."""
    return d * (2.0 * (table[b + 17] - table[b + 24]) + d * (table[b] + table[b + 9]))


@step
def loose(table, b, w, push):
    """`alone` of the body whose numbers begin at b: a in its joint's rows, then at the next; ω."""
    inertias = constants6(table, b + 9), constants6(table, b + 15)
    body = (matrix(table, b), *inertias, constants(table, b + 21), constants(table, b + 24))
    e, a, (g0, g1, g5), g, last = alone(body, w, push)
    return (e[0], e[1], a[0], a[1], a[2], e[2]), (g0, g1, *g, g5), last


@step
def coupled(table, at, m, x, torque, carried):
    """S, the right-hand side y, and K with y carried along."""
    s = tuple(load(table, at + k, carried) + m[k] for k in range(6))
    y = [x[k] + lane(s[5], k) * torque for k in range(6)]
    rows = [load(table, at + 6 + k, carried) - s[k] * carried + y[k] * carried for k in range(5)]
    return s, (*y[:5], y[5] - lane(s[5], 6)), tuple(rows)


@step
def less(x, y):
    return tuple(x[k] - y[k] for k in range(6))


@step
def keep(work, at, low, s, y):
    """L, the soft row of S, the soft y."""
    store_all(work, at, (*low, *(lane(s, k) for k in range(5)), y))


BELOW = tuple((i, j) for j in range(4) for i in range(j + 1, 5))  # of a unit triangle, by columns


@step
def factored(s):
    """L D Lᵀ of S_hh: D, its inverse, and L by columns."""
    v = {(i, j): lane(s[i], j) for i in range(5) for j in range(i + 1)}
    inverse, low = [], dict(v)
    for j in range(5):
        for i in range(j, 5):
            for t in range(j):
                v[i, j] = v[i, j] - low[i, t] * v[j, t]
        inverse.append(1.0 / v[j, j])
        for i in range(j + 1, 5):
            low[i, j] = v[i, j] * inverse[j]
    return tuple(v[j, j] for j in range(5)), tuple(inverse), tuple(low[at] for at in BELOW)


@step
def forwards(low, k):
    """L⁻¹ K."""
    rows = list(k)
    for (i, j), factor in zip(BELOW, low, strict=True):
        rows[i] = rows[i] - factor * rows[j]
    return tuple(rows)


@step
def six(table, at, u):
    return (
        (table[at] * u[0] + table[at + 1] * u[1])
        + (table[at + 2] * u[2] + table[at + 3] * u[3])
        + (table[at + 4] * u[4] + table[at + 5] * u[5])
    )


@step
def substituted(work, to, table, soft, u, torque):
    """λ and torque of a joint, in its rows, and its acceleration."""
    hard = [six(work, to + 8 * k, u) - work[to + 8 * k + 6] for k in range(5)]
    for k in range(9, -1, -1):
        i, j = BELOW[k]
        hard[j] = hard[j] - work[to + 40 + k] * hard[i]
    t = [work[to + 50 + k] for k in range(6)]
    answer = (t[0] * hard[0] + t[1] * hard[1]) + (t[2] * hard[2] + t[3] * hard[3])
    return (*hard, torque), answer + (t[4] * hard[4] + t[5]) - six(table, soft, u)


@step
def transmitted(a):
    """The wrench of a revolute joint, force before moment."""
    return a[2], a[3], a[4], a[0], a[1], a[5]


@step
def turned_back(a, c, s):
    """𝒥ᵀ of a revolute joint."""
    x, y = c * a[0] - s * a[1], s * a[0] + c * a[1]
    return x, y, c * a[2] - s * a[3], s * a[2] + c * a[3], a[4], a[5]


@step
def slid_back(a, d):
    return a[0] - d * a[3], a[1] + d * a[2], a[2], a[3], a[4], a[5]


@step
def carried_on(table, at, g, torque, k, factors):
    """Rows of what is left of C, the next joint's acceleration g carried along; L⁻¹K over D."""
    inverse, low, carried = factors
    w = forwards(low, k)
    W = tuple(inverse[t] * w[t] for t in range(5))
    g = tuple(g[j] + table[at * 8 + 88 + j] * torque for j in range(6))
    return eliminated(w, W, carried, table, at + 12, g, carried), W


@jit
def motion_frames(table, q, qd, tau, gravity, wrenches, out, joints, room=None):
    """Solve every frame; frame · (n + 1) + body of the first lost pivot, or -1.

    Arrays are flat, frames stacked, ``wrenches`` may be None.  ``out``: the n accelerations of a
    frame, and where ``joints`` is true its 6 n joint wrenches, force before moment.  Body n: a
    result is not finite.  ``room``: `ROOM` numbers for each body, if there is any.
    """
    n = table.size // (8 * UNITS)
    width = 7 * n if joints else n
    work = np.empty(n * ROOM) if room is None else room
    turns = work[n * SPACE : n * ROOM]
    constant = patterns(PATTERNS, eight(0.0))
    start = rising(table, n * UNITS * 8, gravity, constant)
    if table[7]:
        start = exchanged(start)
    for frame in range(q.size // n):
        first = frame * n
        for i in range(n):
            turns[i] = q[first + i]
        fill_sines(turns, n)
        m = start
        omega = (0.0, 0.0, 0.0)
        scales = (0.0, 0.0)  # traces of C, of turning and of moving
        for i in range(n):
            rate, torque, at = qd[first + i], tau[first + i], i * UNITS
            b = at * 8 + NUMBERS
            slides = table[at * 8 + 7] != 0.0
            if slides:
                d = q[first + i]
                m = slid(m, d, constant)
                terms = sliding_terms(omega, d, rate)
                if i > 0:
                    scales = scales[0], scales[1] + moved_trace(table, (at - UNITS + 12) * 8, d)
            else:
                c, s = turns[i], turns[n + i]
                m = turned(m, c, s, constant)
                terms, omega = turning_terms(omega, c, s, rate)
            push = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
            if wrenches is not None:
                push = pushed(constants(table, b + 21), table[b + 27], wrenches, 6 * (first + i))
            free, g, omega = loose(table, b, omega, push)
            if slides:
                free = exchanged(free)
            if i + 1 < n and table[(at + UNITS) * 8 + 7]:
                g = exchanged(g)
            S, y, k = coupled(table, at, m, less(free, terms), torque, constant[0])
            D, inverse, low = factored(S)
            turning = LEAST * (table[b + 28] + scales[0])
            moving = LEAST * (table[b + 29] + scales[1])
            scales = table[b + 30], table[b + 31]
            last = turning if slides else moving
            if not (min(D[0], D[1]) > turning and min(D[2], D[3]) > moving and D[4] > last):
                return frame * (n + 1) + i
            m, W = carried_on(table, at, g, torque, k, (inverse, low, constant[0]))
            store_all(work, i * 8, W)
            keep(work, i * SPACE + 40, low, S[5], y[5])
        # Back: u is the wrench of the next joint in its frame.
        u = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        check = 0.0
        for i in range(n - 1, -1, -1):
            at, torque = i * UNITS * 8, tau[first + i]
            a, answer = substituted(work, i * SPACE, table, at + 88, u, torque)
            out[frame * width + i] = answer
            check += 0.0 * answer
            # 𝒥ᵀ, then the order of this joint for the columns of the body before
            if table[at + 7] != 0.0:
                u = slid_back(a, q[first + i])
                a = exchanged(a)
            else:
                u = turned_back(a, turns[i], turns[n + i])
            if joints:
                store_all(out, frame * width + n + 6 * i, transmitted(a))
        if check != 0.0:
            return frame * (n + 1) + n
    return -1
