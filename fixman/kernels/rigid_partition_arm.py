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
from numba import types

from fixman.kernels import jit
from fixman.kernels.lanes import EIGHT, INDEX, VECTOR, eight, fill_sines, load, store
from fixman.kernels.pairs import intrinsic
from fixman.kernels.rigid_partition import LEAST, alone, pushed
from fixman.kernels.steps import step
from fixman.kernels.triples import constants, constants6, matrix

UNITS = 22
NUMBERS = 18 * 8
SPACE = 64

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


@intrinsic
def lane(typing: Any, x: Any, k: Any) -> Any:
    """Return lane k of x."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return types.float64(x, k), lower


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
def dot_row(work, at, u):
    """Row of `work` times (u, −1)."""
    return (
        (work[at] * u[0] + work[at + 1] * u[1])
        + (work[at + 2] * u[2] + work[at + 3] * u[3])
        + (work[at + 4] * u[4] + work[at + 5] * u[5] - work[at + 6])
    )


@step
def substituted(work, to, table, soft, u):
    """The hard part of λ of a joint, and its acceleration."""
    low = [work[to + 40 + k] for k in range(10)]
    t = [work[to + 50 + k] for k in range(6)]
    a4 = dot_row(work, to + 32, u)
    a3 = dot_row(work, to + 24, u) - low[9] * a4
    a2 = dot_row(work, to + 16, u) - low[8] * a4 - low[7] * a3
    a1 = dot_row(work, to + 8, u) - low[6] * a4 - low[5] * a3 - low[4] * a2
    a0 = dot_row(work, to, u) - low[3] * a4 - low[2] * a3 - low[1] * a2 - low[0] * a1
    answer = (t[0] * a0 + t[1] * a1) + (t[2] * a2 + t[3] * a3) + (t[4] * a4 + t[5])
    answer = answer - (
        (table[soft] * u[0] + table[soft + 1] * u[1])
        + (table[soft + 2] * u[2] + table[soft + 3] * u[3])
        + (table[soft + 4] * u[4] + table[soft + 5] * u[5])
    )
    return a0, a1, a2, a3, a4, answer


@step
def kept(work, at, values):
    for k in range(16):
        work[at + k] = values[k]


@step
def loose(table, b, w, push):
    """`alone` of the body whose numbers begin at b."""
    return alone(
        matrix(table, b), constants6(table, b + 9), constants6(table, b + 15),
        constants(table, b + 21), constants(table, b + 24), w, push,
    )  # fmt: skip


@step
def factored(s0, s1, s2, s3, s4):
    """L D Lᵀ of S_hh: D, its inverse, and L by columns."""
    d0 = lane(s0, 0)
    i0 = 1.0 / d0
    v10, v20, v30, v40 = lane(s1, 0), lane(s2, 0), lane(s3, 0), lane(s4, 0)
    l10, l20, l30, l40 = v10 * i0, v20 * i0, v30 * i0, v40 * i0
    d1 = lane(s1, 1) - l10 * v10
    i1 = 1.0 / d1
    v21 = lane(s2, 1) - l20 * v10
    v31 = lane(s3, 1) - l30 * v10
    v41 = lane(s4, 1) - l40 * v10
    l21, l31, l41 = v21 * i1, v31 * i1, v41 * i1
    d2 = lane(s2, 2) - l20 * v20 - l21 * v21
    i2 = 1.0 / d2
    v32 = lane(s3, 2) - l30 * v20 - l31 * v21
    v42 = lane(s4, 2) - l40 * v20 - l41 * v21
    l32, l42 = v32 * i2, v42 * i2
    d3 = lane(s3, 3) - l30 * v30 - l31 * v31 - l32 * v32
    i3 = 1.0 / d3
    v43 = lane(s4, 3) - l40 * v30 - l41 * v31 - l42 * v32
    l43 = v43 * i3
    d4 = lane(s4, 4) - l40 * v40 - l41 * v41 - l42 * v42 - l43 * v43
    inverse = (i0, i1, i2, i3, 1.0 / d4)
    return (d0, d1, d2, d3, d4), inverse, (l10, l20, l30, l40, l21, l31, l41, l32, l42, l43)


@step
def rising(table, base, gravity):
    """Minus gravity in the first joint frame."""
    x, y, z = (
        -table[base + k] * gravity[0]
        - table[base + 3 + k] * gravity[1]
        - table[base + 6 + k] * gravity[2]
        for k in range(3)
    )
    return x, y, z


@jit
def motion_frames(table, q, qd, tau, gravity, wrenches, out, joints):
    """Solve every frame; frame · (n + 1) + body of the first lost pivot, or -1.

    Arrays are flat, frames stacked, ``wrenches`` may be None.  ``out``: the n accelerations of a
    frame, and where ``joints`` is true its 6 n joint wrenches, force before moment.  Body n: a
    result is not finite.
    """
    n = table.size // (8 * UNITS)
    frames = q.size // n
    width = 7 * n if joints else n
    work = np.empty(n * SPACE)
    turns = np.empty(2 * n)
    base = n * UNITS * 8
    gx, gy, gz = rising(table, base, gravity)
    like = eight(0.0)
    carried = load(PATTERNS, 0, like)
    turning = load(PATTERNS, 1, like)
    resting = load(PATTERNS, 2, like)
    signs = load(PATTERNS, 3, like)
    shear = load(PATTERNS, 4, like)
    for frame in range(frames):
        first = frame * n
        for i in range(n):
            turns[i] = q[first + i]
        fill_sines(turns, n)
        m0 = m1 = like
        m2 = gx * carried
        m3 = gy * carried
        m4 = like if table[7] else gz * carried
        m5 = gz * carried if table[7] else like
        ox = oy = oz = 0.0
        sizes = (0.0, 0.0)
        for i in range(n):
            rate = qd[first + i]
            torque = tau[first + i]
            at = i * UNITS
            slides = table[at * 8 + 7] != 0.0
            # 𝒥 Ĉ 𝒥ᵀ, the frame's acceleration in lane 6 too, and velocity terms of the joint
            if slides:
                d = q[first + i]
                m2 = m2 + d * m1
                m3 = m3 - d * m0
                v = d * shear
                m0 = m0 + crossed(m0) * v
                m1 = m1 + crossed(m1) * v
                m2 = m2 + crossed(m2) * v
                m3 = m3 + crossed(m3) * v
                m4 = m4 + crossed(m4) * v
                m5 = m5 + crossed(m5) * v
                x0 = x1 = x4 = 0.0
                x2 = d * ox * oz + 2.0 * rate * oy
                x3 = d * oy * oz - 2.0 * rate * ox
                x5 = -d * (ox * ox + oy * oy)
                if i > 0:  # the trace of 𝒥 C 𝒥ᵀ
                    b = (at - UNITS + 12) * 8
                    moved = 2.0 * (table[b + 17] - table[b + 24]) + d * (table[b] + table[b + 9])
                    sizes = (sizes[0], sizes[1] + d * moved)
            else:
                c = turns[i]
                s = turns[n + i]
                r0 = c * m0 + s * m1
                r1 = c * m1 - s * m0
                r2 = c * m2 + s * m3
                r3 = c * m3 - s * m2
                v = c * turning + resting
                z = s * signs
                m0 = r0 * v + swapped(r0) * z
                m1 = r1 * v + swapped(r1) * z
                m2 = r2 * v + swapped(r2) * z
                m3 = r3 * v + swapped(r3) * z
                m4 = m4 * v + swapped(m4) * z
                m5 = m5 * v + swapped(m5) * z
                ox, oy = c * ox + s * oy, c * oy - s * ox
                x0 = rate * oy
                x1 = -rate * ox
                x2 = x3 = x4 = x5 = 0.0
                oz += rate
            s0 = load(table, at, like) + m0
            s1 = load(table, at + 1, like) + m1
            s2 = load(table, at + 2, like) + m2
            s3 = load(table, at + 3, like) + m3
            s4 = load(table, at + 4, like) + m4
            s5 = load(table, at + 5, like) + m5
            # The body cut loose: ε, accelerations of its origin and of the next joint.
            b = at * 8 + NUMBERS
            push = ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0))
            if wrenches is not None:
                c = constants(table, b + 21)
                push = pushed(c, table[b + 27], wrenches, 6 * (first + i))
            (ex, ey, ez), (ax, ay, az), (g0, g1, g5), (g2, g3, g4), (ox, oy, oz) = loose(
                table, b, (ox, oy, oz), push
            )
            if i + 1 < n and table[(at + UNITS) * 8 + 7]:
                g4, g5 = g5, g4
            # y = s + S τ in the rows of S
            t50, t51, t52, t53 = lane(s5, 0), lane(s5, 1), lane(s5, 2), lane(s5, 3)
            t54, t55 = lane(s5, 4), lane(s5, 5)
            x0 = ex - x0 + t50 * torque
            x1 = ey - x1 + t51 * torque
            x2 = ax - x2 + t52 * torque
            x3 = ay - x3 + t53 * torque
            x4 = (ez if slides else az) - x4 + t54 * torque
            x5 = (az if slides else ez) - x5 + t55 * torque - lane(s5, 6)
            k0 = load(table, at + 6, like) - s0 * carried + x0 * carried
            k1 = load(table, at + 7, like) - s1 * carried + x1 * carried
            k2 = load(table, at + 8, like) - s2 * carried + x2 * carried
            k3 = load(table, at + 9, like) - s3 * carried + x3 * carried
            k4 = load(table, at + 10, like) - s4 * carried + x4 * carried
            # S_hh = L D Lᵀ
            (d0, d1, d2, d3, d4), (i0, i1, i2, i3, i4), low = factored(s0, s1, s2, s3, s4)
            l10, l20, l30, l40, l21, l31, l41, l32, l42, l43 = low
            turn_scale = LEAST * (table[b + 28] + sizes[0])
            move_scale = LEAST * (table[b + 29] + sizes[1])
            sizes = (table[b + 30], table[b + 31])
            last_scale = turn_scale if slides else move_scale
            if not (min(d0, d1) > turn_scale and min(d2, d3) > move_scale and d4 > last_scale):
                return frame * (n + 1) + i
            # L⁻¹ K, and what is left of C
            k1 = k1 - l10 * k0
            k2 = k2 - l20 * k0 - l21 * k1
            k3 = k3 - l30 * k0 - l31 * k1 - l32 * k2
            k4 = k4 - l40 * k0 - l41 * k1 - l42 * k2 - l43 * k3
            w = (k0, k1, k2, k3, k4)
            W = (i0 * k0, i1 * k1, i2 * k2, i3 * k3, i4 * k4)
            soft = at * 8 + 88
            g0 += table[soft] * torque
            g1 += table[soft + 1] * torque
            g2 += table[soft + 2] * torque
            g3 += table[soft + 3] * torque
            g4 += table[soft + 4] * torque
            g5 += table[soft + 5] * torque
            g = (g0, g1, g2, g3, g4, g5)
            m0, m1, m2, m3, m4, m5 = eliminated(w, W, like, table, at + 12, g, carried)
            to = i * SPACE
            store(work, i * 8, W[0])
            store(work, i * 8 + 1, W[1])
            store(work, i * 8 + 2, W[2])
            store(work, i * 8 + 3, W[3])
            store(work, i * 8 + 4, W[4])
            kept(work, to + 40, (*low, t50, t51, t52, t53, t54, x5))
        # Back: u is the wrench of the next joint in its frame.
        u = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        check = 0.0
        for i in range(n - 1, -1, -1):
            to = i * SPACE
            slides = table[i * UNITS * 8 + 7] != 0.0
            a0, a1, a2, a3, a4, answer = substituted(work, to, table, i * UNITS * 8 + 88, u)
            out[frame * width + i] = answer
            check += 0.0 * answer
            a5 = tau[first + i]
            if joints:
                k = frame * width + n + 6 * i
                out[k], out[k + 1] = a2, a3
                out[k + 2] = a5 if slides else a4
                out[k + 3], out[k + 4] = a0, a1
                out[k + 5] = a4 if slides else a5
            # 𝒥ᵀ, then the order of this joint for the columns of the body before
            if slides:
                d = q[first + i]
                u = (a0 - d * a3, a1 + d * a2, a2, a3, a4, a5)
            else:
                c = turns[i]
                s = turns[n + i]
                u = (c * a0 - s * a1, s * a0 + c * a1, c * a2 - s * a3, s * a2 + c * a3, a4, a5)
        if check != 0.0:
            return frame * (n + 1) + n
    return -1
