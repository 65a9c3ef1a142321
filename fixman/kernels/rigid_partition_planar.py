"""The rigid Fixman partition of revolute arms with parallel axes, two hard rows a joint.

In the plane, all vectors in the axes of link 0, ^ is the turn by 90° to the left.
Of link i: c from its joint to its mass centre, ℓ from its joint to the next, mass m, inertia I
about the mass centre and I_O about the joint, angular velocity ω and acceleration α, force f of its
joint upon it, torque T and force F of everything else about its joint, a and a′ accelerations of
its two joints.  With

    κ = m / I_O,  B = κ (I 1 + m c cᵀ),  N = 1 − κ c^ ℓ^ᵀ,  K = ℓ^ ℓ^ᵀ / I_O,
    p = κ T c^ − F − m ω² c,  t = T ℓ^ / I_O − ω² ℓ

its equations of motion are

    f = B a + N f′ + p,   a′ = Nᵀ a − K f′ + t,   α = (T − ℓ^·f′) / I_O − κ c^·a.

H^bb f = −s is eliminated from both ends at once.  What is left of a diagonal block is the mobility
Y of the base's side, a = e + Y (−f), or the inverse of the mobility of the tip's side, f = φ + Φ a.
Both obey one recursion, with y for Y or Φ and ε for e or φ:

    X = (y⁻¹ + P)⁻¹,   u = (1 + y P)⁻¹ ε + X o + X M x,   y′ = Mᵀ X M + Q,   ε′ = Mᵀ u + i
    x′ = o − P u + M x

          P   Q   M   o   i   u   x
    base  B   K   N   −p  t   a   −f′
    tip   K   B   Nᵀ  t   p   f′  a

so that a register holds both.  y is held as (δ, δ y, δ |y|), in which the recursion is linear and,
between positive matrices, a sum: no division in it, and straight arms cost no digits.  Nor is an
inertia needed where the mass is off the joint.

Links stand in the order 0, n − 1, 1, n − 2, … and eight of them side by side in ``table`` and
``work``: component k of the link at place j is at ``(j // 8 · fields + k) · 8 + j % 8``.  Of an
odd number the last link has an empty one at its side.  After these fields ``table`` has, in the
order of the chain, each link's angle at q = 0 and the sense of its axis, then n and the x and y
axes of the first joint frame.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit
from fixman.kernels.lanes import eight, fill_sines, load, store
from fixman.kernels.pairs import larger, load_pair, pair, part, smaller, store_pair
from fixman.kernels.rigid_partition import LEAST

# Fields of the table: c and ℓ in the link's axes with ℓ along x, m, I_O, I; cosine and sine of ℓ's
# direction in the body's frame, turned over if need be.
CENTRE_X, CENTRE_Y, LENGTH, MASS, AROUND, INERTIA, COSINE, SINE = range(8)
CONSTANTS = 8
# Fields of the work array, in doubles.  DP and DQ are determinants, DM is the square of one;
# α = FREE + U·u + X·x.
(
    UX, UY, RATE, TORQUE, FX, FY,
    P0, P1, P2, DP, Q0, Q1, Q2, DQ, M0, M1, M2, M3, DM, O0, O1, I0, I1,
    U0, U1, X0, X1, FREE, IO, INVERSE, LOSS,
) = range(0, 31 * 8, 8)  # fmt: skip
FIELDS = 31
# The first sweep leaves the known part of u and X M, the second α.
KNOWN0, KNOWN1, XM0, XM1, XM2, XM3, ALPHA = UX, UY, RATE, TORQUE, FX, FY, UX
# Lanes that belong to the base's side, and to the tip's.
SIDES = np.array([1.0, 0.0] * 4 + [0.0, 1.0] * 4)
HUGE = 1e100


@jit
def place(i, n, fields):
    """Where link i begins."""
    j = 2 * i if i < n // 2 else 2 * (n - 1 - i) + 1
    return (j >> 3) * fields * 8 + (j & 7)


@jit
def pose(table, n, q, qd, tau, wrenches, first, work):
    """Directions, angular velocities and loads of the links of one frame.

    Of the tip's side they are relative to the last link of the base's side, whose are returned,
    and cosine and sine of the direction of link 0.
    """
    senses = table.size - 7 - n
    turns = work.size - 2 * n
    for i in range(n):
        work[turns + i] = table[senses - n + i] + table[senses + i] * q[first + i]
    fill_sines(work[turns:], n)
    # In the axes of link 0: then what a straight arm has along and across it stays apart.
    turn = work[turns], work[turns + n]
    work[turns], work[turns + n] = 1.0, 0.0
    half = n // 2
    ux = vx = 1.0
    uy = vy = rate = spin = 0.0
    for i in range(n - half):
        j = half + i
        c = work[turns + j]
        s = work[turns + n + j]
        vx, vy = vx * c - vy * s, vy * c + vx * s
        spin += table[senses + j] * qd[first + j]
        k = place(j, n, FIELDS)
        work[k + UX] = vx
        work[k + UY] = vy
        work[k + RATE] = spin
        if i < half:
            c = work[turns + i]
            s = work[turns + n + i]
            ux, uy = ux * c - uy * s, uy * c + ux * s
            rate += table[senses + i] * qd[first + i]
            k = place(i, n, FIELDS)
            work[k + UX] = ux
            work[k + UY] = uy
            work[k + RATE] = rate
    after = 0.0
    for i in range(n - 1, -1, -1):
        k = place(i, n, FIELDS)
        torque = table[senses + i] * tau[first + i]
        work[k + TORQUE] = torque - after
        after = torque
    if wrenches is not None:
        for i in range(n):
            k = place(i, n, FIELDS)
            j = 6 * (first + i)
            sense = table[senses + i]
            work[k + TORQUE] += sense * wrenches[j + 5]
            fx = wrenches[j]
            fy = sense * wrenches[j + 1]
            at = place(i, n, CONSTANTS)
            c, s = table[at + 8 * COSINE], table[at + 8 * SINE]
            fx, fy = c * fx + s * fy, c * fy - s * fx
            work[k + FX] = work[k + UX] * fx - work[k + UY] * fy
            work[k + FY] = work[k + UY] * fx + work[k + UX] * fy
    return (ux, uy, rate), turn


@jit
def prepare(table, work, n, middle, loaded):
    """Constants of the recursion, eight links at a time; ``middle`` is what `pose` returned."""
    like = eight(0.0)
    base, tip = load(SIDES, 0, like), load(SIDES, 1, like)
    hx, hy, spin = base + middle[0] * tip, middle[1] * tip, middle[2] * tip
    for block in range((n + 8) // 8):
        k = block * CONSTANTS
        w = block * FIELDS
        ux, uy = load(work, w + UX // 8, like), load(work, w + UY // 8, like)
        ux, uy = ux * hx - uy * hy, uy * hx + ux * hy
        rate, torque = load(work, w + RATE // 8, like) + spin, load(work, w + TORQUE // 8, like)
        cx, cy = load(table, k + CENTRE_X, like), load(table, k + CENTRE_Y, like)
        length, mass = load(table, k + LENGTH, like), load(table, k + MASS, like)
        inertia = load(table, k + INERTIA, like)
        around = load(table, k + AROUND, like)
        inverse = 1.0 / around
        square = rate * rate
        kappa = mass * inverse
        km = kappa * mass
        cx, cy = cx * ux - cy * uy, cx * uy + cy * ux
        kx, ky = -kappa * cy, kappa * cx
        lx, ly = -length * uy, length * ux
        b0 = kappa * inertia + km * cx * cx
        b1 = km * cx * cy
        b2 = kappa * inertia + km * cy * cy
        det = km * inertia
        lix, liy = lx * inverse, ly * inverse
        k0, k1, k2 = lx * lix, lx * liy, ly * liy
        store(work, w + P0 // 8, base * b0 + tip * k0)
        store(work, w + P1 // 8, base * b1 + tip * k1)
        store(work, w + P2 // 8, base * b2 + tip * k2)
        store(work, w + DP // 8, base * det)
        store(work, w + Q0 // 8, base * k0 + tip * b0)
        store(work, w + Q1 // 8, base * k1 + tip * b1)
        store(work, w + Q2 // 8, base * k2 + tip * b2)
        store(work, w + DQ // 8, tip * det)
        store(work, w + M0 // 8, 1.0 - kx * lx)
        store(work, w + M1 // 8, -(base * (kx * ly) + tip * (ky * lx)))
        store(work, w + M2 // 8, -(base * (ky * lx) + tip * (kx * ly)))
        store(work, w + M3 // 8, 1.0 - ky * ly)
        det = 1.0 - kx * lx - ky * ly
        store(work, w + DM // 8, det * det)
        pull = mass * square
        px = kx * torque - pull * cx
        py = ky * torque - pull * cy
        if loaded:
            fx, fy = load(work, w + FX // 8, like), load(work, w + FY // 8, like)
            px = px - (fx * hx - fy * hy)
            py = py - (fy * hx + fx * hy)
        store(work, w + IO // 8, around)
        store(work, w + INVERSE // 8, inverse)
        free = torque * inverse
        tx = free * lx - square * ly
        ty = free * ly + square * lx
        store(work, w + O0 // 8, tip * tx - base * px)
        store(work, w + O1 // 8, tip * ty - base * py)
        store(work, w + I0 // 8, base * tx + tip * px)
        store(work, w + I1 // 8, base * ty + tip * py)
        store(work, w + U0 // 8, -(base * kx + tip * lix))
        store(work, w + U1 // 8, -(base * ky + tip * liy))
        store(work, w + X0 // 8, base * lix - tip * kx)
        store(work, w + X1 // 8, base * liy - tip * ky)
        store(work, w + FREE // 8, free)


@jit
def most(work, n):
    """Link of the largest loss."""
    body = 0
    for i in range(n):
        if work[place(i, n, FIELDS) + LOSS] > work[place(body, n, FIELDS) + LOSS]:
            body = i
    return body


@jit
def sweeps(work, n, ex, ey):
    """Eliminate from both ends and substitute outwards; the first body with a lost pivot, or -1.

    ``ex, ey``: acceleration of the base.

    Its neighbours make a link harder to turn than I_O does, by the factor g that δ grows by.  A
    torque T then leaves it α = T / (I_O g), a difference of terms of T / I_O whose rounding is g
    times eps of them.  The answer is refused where that reaches eps / `LEAST` of what the same
    torque would do elsewhere, at the link with the least I_O g.
    """
    pairs = (n + 1) // 2
    zero = pair(0.0, 0.0)
    one = pair(1.0, 1.0)
    d = before = growth = one
    y0 = y1 = y2 = w = zero
    e0 = pair(ex, 0.0)
    e1 = pair(ey, 0.0)
    around, inverse = load_pair(work, IO), load_pair(work, INVERSE)
    worst, least = inverse, around
    at = 0
    for j in range(0, 2 * pairs, 2):
        k = (j >> 3) * FIELDS * 8 + (j & 7)
        p0, p1, p2 = load_pair(work, k + P0), load_pair(work, k + P1), load_pair(work, k + P2)
        q0, q1, q2 = load_pair(work, k + Q0), load_pair(work, k + Q1), load_pair(work, k + Q2)
        m0, m1 = load_pair(work, k + M0), load_pair(work, k + M1)
        m2, m3 = load_pair(work, k + M2), load_pair(work, k + M3)
        o0, o1 = load_pair(work, k + O0), load_pair(work, k + O1)
        z0 = y0 * p0 + y1 * p1
        z1 = y0 * p1 + y1 * p2
        z2 = y1 * p0 + y2 * p1
        z3 = y1 * p1 + y2 * p2
        d3 = d + z3
        d0 = d + z0
        d = (d3 + z0) + w * load_pair(work, k + DP)
        r = 1.0 / d
        now = d * before
        g = larger(growth, now)
        loss = inverse * g
        worst = larger(worst, loss)
        least = smaller(least, around * g)
        store_pair(work, at + LOSS, loss)
        at, growth = k, now
        around, inverse = load_pair(work, k + IO), load_pair(work, k + INVERSE)
        x0 = y0 + w * p2
        x1 = y1 - w * p1
        x2 = y2 + w * p0
        u0 = ((d3 * e0 - z1 * e1) + (x0 * o0 + x1 * o1)) * r
        u1 = ((d0 * e1 - z2 * e0) + (x1 * o0 + x2 * o1)) * r
        v0 = x0 * m0 + x1 * m2
        v1 = x0 * m1 + x1 * m3
        v2 = x1 * m0 + x2 * m2
        v3 = x1 * m1 + x2 * m3
        store_pair(work, k + KNOWN0, u0)
        store_pair(work, k + KNOWN1, u1)
        store_pair(work, k + XM0, r * v0)
        store_pair(work, k + XM1, r * v1)
        store_pair(work, k + XM2, r * v2)
        store_pair(work, k + XM3, r * v3)
        c0 = m0 * v0 + m2 * v2
        c1 = m0 * v1 + m2 * v3
        c2 = m1 * v1 + m3 * v3
        w = w * load_pair(work, k + DM) + d * load_pair(work, k + DQ)
        w = w + ((q2 * c0 + q0 * c2) - (q1 * c1 + q1 * c1))
        y0 = c0 + d * q0
        y1 = c1 + d * q1
        y2 = c2 + d * q2
        e0 = (m0 * u0 + m2 * u1) + load_pair(work, k + I0)
        e1 = (m1 * u0 + m3 * u1) + load_pair(work, k + I1)
        if max(part(d, 0), part(d, 1)) > HUGE:
            y0, y1, y2, w, d, r = y0 * r, y1 * r, y2 * r, w * r, d * r, one
        before = r
    # a = e − Y f and f = φ + Φ a where the sides meet: (1 + Y Φ) a = e − Y φ
    r = 1.0 / d
    y0, y1, y2, w = y0 * r, y1 * r, y2 * r, w * r
    b0, b1, b2 = part(y0, 0), part(y1, 0), part(y2, 0)
    t0, t1, t2 = part(y0, 1), part(y1, 1), part(y2, 1)
    g0, g1 = part(e0, 1), part(e1, 1)
    h0 = part(e0, 0) - b0 * g0 - b1 * g1
    h1 = part(e1, 0) - b1 * g0 - b2 * g1
    z0 = b0 * t0 + b1 * t1
    z3 = b1 * t1 + b2 * t2
    det = (1.0 + z0 + z3) + part(w, 0) * part(w, 1)
    s = 1.0 / det
    a0 = ((1.0 + z3) * h0 - (b0 * t1 + b1 * t2) * h1) * s
    a1 = ((1.0 + z0) * h1 - (b1 * t0 + b2 * t1) * h0) * s
    g = larger(growth, pair(det, det))
    store_pair(work, at + LOSS, inverse * g)
    worst = larger(worst, inverse * g)
    least = smaller(least, around * g)
    if max(part(worst, 0), part(worst, 1)) * min(part(least, 0), part(least, 1)) * LEAST > 1.0:
        return most(work, n)
    x0 = pair(-(g0 + t0 * a0 + t1 * a1), a0)
    x1 = pair(-(g1 + t1 * a0 + t2 * a1), a1)
    for j in range(2 * pairs - 2, -2, -2):
        k = (j >> 3) * FIELDS * 8 + (j & 7)
        u0 = load_pair(work, k + KNOWN0)
        u0 = u0 + load_pair(work, k + XM0) * x0 + load_pair(work, k + XM1) * x1
        u1 = load_pair(work, k + KNOWN1)
        u1 = u1 + load_pair(work, k + XM2) * x0 + load_pair(work, k + XM3) * x1
        alpha = load_pair(work, k + FREE)
        alpha = alpha + load_pair(work, k + U0) * u0 + load_pair(work, k + U1) * u1
        alpha = alpha + load_pair(work, k + X0) * x0 + load_pair(work, k + X1) * x1
        store_pair(work, k + ALPHA, alpha)
        y0 = load_pair(work, k + O0) + load_pair(work, k + M0) * x0 + load_pair(work, k + M1) * x1
        y1 = load_pair(work, k + O1) + load_pair(work, k + M2) * x0 + load_pair(work, k + M3) * x1
        p1 = load_pair(work, k + P1)
        x0 = y0 - load_pair(work, k + P0) * u0 - p1 * u1
        x1 = y1 - p1 * u0 - load_pair(work, k + P2) * u1
    return -1


@jit
def motion_frames(table, q, qd, tau, gravity, wrenches, out, joints):
    """Solve every frame; frame · (n + 1) + body of the first lost pivot, or -1.

    Body n: a result is not finite.

    Arrays are flat, frames stacked, ``wrenches`` may be None.  ``joints`` is for the other kernels:
    joint wrenches are not known in the plane alone.
    """
    at = table.size - 7
    n = int(table[at])
    ex = -(table[at + 1] * gravity[0] + table[at + 2] * gravity[1] + table[at + 3] * gravity[2])
    ey = -(table[at + 4] * gravity[0] + table[at + 5] * gravity[1] + table[at + 6] * gravity[2])
    blocks = (n + 8) // 8
    work = np.empty(blocks * FIELDS * 8 + 2 * n)
    last = (blocks - 1) * FIELDS * 8
    for frame in range(out.size // n):
        first = frame * n
        for k in range(last, last + P0):
            work[k] = 0.0  # places without a link
        middle, (c, s) = pose(table, n, q, qd, tau, wrenches, first, work)
        prepare(table, work, n, middle, wrenches is not None)
        body = sweeps(work, n, c * ex + s * ey, c * ey - s * ex)
        if body >= 0:
            return frame * (n + 1) + body
        before = check = 0.0
        for i in range(n):
            alpha = work[place(i, n, FIELDS) + ALPHA]
            answer = table[at - n + i] * (alpha - before)
            out[first + i] = answer
            check += 0.0 * answer
            before = alpha
        if wrenches is not None:  # of which half is not used in the plane
            for k in range(6 * first, 6 * (first + n)):
                check += 0.0 * wrenches[k]
        if check != 0.0:
            return frame * (n + 1) + n
    return -1
