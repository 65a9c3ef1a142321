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
from fixman.kernels.compiler.lanes import eight, fill_sines, load, store
from fixman.kernels.compiler.pairs import larger, load_pair, pair, part, smaller, store_pair
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.partition import LEAST

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
def room_of(n):
    """How many numbers the work of n links takes."""
    return (n + 8) // 8 * FIELDS * 8 + 2 * n


@jit
def place(i, n, fields):
    """Where link i begins."""
    j = 2 * i if i < n // 2 else 2 * (n - 1 - i) + 1
    return (j >> 3) * fields * 8 + (j & 7)


@step
def directed(work, k, u, turn, rate):
    """Direction of a link in axes turned by less than u; it and the link's rate are kept."""
    c, s = turn
    u = u[0] * c - u[1] * s, u[1] * c + u[0] * s
    work[k + UX], work[k + UY], work[k + RATE] = u[0], u[1], rate
    return u


@step
def loaded(table, work, at, k, force):
    """The force on a link from outside, seen from where its direction is counted from."""
    c, s = table[at + 8 * COSINE], table[at + 8 * SINE]
    fx, fy = c * force[0] + s * force[1], c * force[1] - s * force[0]
    ux, uy = work[k + UX], work[k + UY]
    work[k + FX], work[k + FY] = ux * fx - uy * fy, uy * fx + ux * fy


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
    u = v = (1.0, 0.0)
    rate = spin = 0.0
    for i in range(n - half):
        j = half + i
        spin += table[senses + j] * qd[first + j]
        v = directed(work, place(j, n, FIELDS), v, (work[turns + j], work[turns + n + j]), spin)
        if i < half:
            rate += table[senses + i] * qd[first + i]
            u = directed(work, place(i, n, FIELDS), u, (work[turns + i], work[turns + n + i]), rate)
    after = 0.0
    for i in range(n - 1, -1, -1):
        torque = table[senses + i] * tau[first + i]
        work[place(i, n, FIELDS) + TORQUE] = torque - after
        after = torque
    if wrenches is not None:
        for i in range(n):
            k, j, sense = place(i, n, FIELDS), 6 * (first + i), table[senses + i]
            work[k + TORQUE] += sense * wrenches[j + 5]
            force = wrenches[j], sense * wrenches[j + 1]
            loaded(table, work, place(i, n, CONSTANTS), k, force)
    return (u[0], u[1], rate), turn


@step
def fields(work, at, names, like):
    """Fields of eight links."""
    return tuple(load(work, at + name // 8, like) for name in names)


@step
def put_fields(work, at, names, values):
    for name, value in zip(names, values, strict=True):
        store(work, at + name // 8, value)


@step
def symmetric(x, y, s):
    """S v vᵀ of v = (x, y)."""
    return s * x * x, s * x * y, s * y * y


@step
def halves(sides, x, y):
    """Of the base's side x, of the tip's y."""
    return tuple(sides[0] * a + sides[1] * b for a, b in zip(x, y, strict=True))


@step
def constant(table, work, k, w, middle, sides):
    """Keep blocks of the recursion for eight links; p and t, but for loads; what turns forces."""
    base, tip = sides
    like = 0.0 * base
    hx, hy = base + middle[0] * tip, middle[1] * tip
    ux, uy, rate, torque = fields(work, w, (UX, UY, RATE, TORQUE), like)
    ux, uy, rate = ux * hx - uy * hy, uy * hx + ux * hy, rate + middle[2] * tip
    cx, cy, length, mass, around, inertia = (load(table, k + name, like) for name in range(6))
    inverse, square = 1.0 / around, rate * rate
    kappa = mass * inverse
    cx, cy = cx * ux - cy * uy, cx * uy + cy * ux
    kx, ky = -kappa * cy, kappa * cx
    lx, ly = -length * uy, length * ux
    b0, b1, b2 = symmetric(cx, cy, kappa * mass)
    B, K = (kappa * inertia + b0, b1, kappa * inertia + b2), symmetric(lx, ly, inverse)
    det, none = kappa * mass * inertia, like
    put_fields(work, w, (P0, P1, P2, DP), halves(sides, (*B, det), (*K, none)))
    put_fields(work, w, (Q0, Q1, Q2, DQ), halves(sides, (*K, none), (*B, det)))
    off = halves(sides, (kx * ly, ky * lx), (ky * lx, kx * ly))
    put_fields(work, w, (M0, M1, M2, M3), (1.0 - kx * lx, -off[0], -off[1], 1.0 - ky * ly))
    det = 1.0 - kx * lx - ky * ly
    free = torque * inverse
    over = (lx * inverse, ly * inverse)
    put_fields(work, w, (DM, IO, INVERSE, FREE), (det * det, around, inverse, free))
    put_fields(work, w, (U0, U1), halves(sides, (-kx, -ky), (-over[0], -over[1])))
    put_fields(work, w, (X0, X1), halves(sides, over, (-kx, -ky)))
    pull = mass * square
    px = kx * torque - pull * cx
    py = ky * torque - pull * cy
    return (px, py), (free * lx - square * ly, free * ly + square * lx), (hx, hy)


@step
def pushed(work, w, p, h):
    """p with the forces from outside, which turn by h."""
    fx, fy = fields(work, w, (FX, FY), p[0])
    return p[0] - (fx * h[0] - fy * h[1]), p[1] - (fy * h[0] + fx * h[1])


@step
def put_sources(work, w, p, t, sides):
    less = -p[0], -p[1]
    put_fields(work, w, (O0, O1), halves(sides, less, t))
    put_fields(work, w, (I0, I1), halves(sides, t, p))


@jit
def prepare(table, work, n, middle, loads):
    """Constants of the recursion, eight links at a time; ``middle`` is what `pose` returned."""
    like = eight(0.0)
    sides = load(SIDES, 0, like), load(SIDES, 1, like)
    for block in range((n + 8) // 8):
        w = block * FIELDS
        p, t, h = constant(table, work, block * CONSTANTS, w, middle, sides)
        if loads:
            p = pushed(work, w, p, h)
        put_sources(work, w, p, t, sides)


@jit
def most(work, n):
    """Link of the largest loss."""
    body = 0
    for i in range(n):
        if work[place(i, n, FIELDS) + LOSS] > work[place(body, n, FIELDS) + LOSS]:
            body = i
    return body


@step
def pairs(work, k, names):
    """Fields of a pair of links."""
    return tuple(load_pair(work, k + name) for name in names)


@step
def put_pairs(work, k, names, values):
    for name, value in zip(names, values, strict=True):
        store_pair(work, k + name, value)


@step
def apply(M, x):
    """M x of a 2×2 matrix."""
    return M[0] * x[0] + M[1] * x[1], M[2] * x[0] + M[3] * x[1]


@step
def eliminated(work, k, y, w, d, e):
    """δ y, δ |y|, δ and ε beyond a pair of links, and 1/δ; the known part of u and X M are kept."""
    p, (q0, q1, q2) = pairs(work, k, (P0, P1, P2)), pairs(work, k, (Q0, Q1, Q2))
    m, o = pairs(work, k, (M0, M1, M2, M3)), pairs(work, k, (O0, O1))
    (z0, z1), (z2, z3) = (
        (a * p[0] + b * p[1], a * p[1] + b * p[2]) for a, b in ((y[0], y[1]), (y[1], y[2]))
    )
    d3, d0 = d + z3, d + z0
    d = (d3 + z0) + w * load_pair(work, k + DP)
    r = 1.0 / d
    # d X, d (1 + y P)⁻¹ ε, and d X M
    x0, x1, x2 = y[0] + w * p[2], y[1] - w * p[1], y[2] + w * p[0]
    u0 = ((d3 * e[0] - z1 * e[1]) + (x0 * o[0] + x1 * o[1])) * r
    u1 = ((d0 * e[1] - z2 * e[0]) + (x1 * o[0] + x2 * o[1])) * r
    v = (
        x0 * m[0] + x1 * m[2], x0 * m[1] + x1 * m[3],
        x1 * m[0] + x2 * m[2], x1 * m[1] + x2 * m[3],
    )  # fmt: skip
    put_pairs(work, k, (KNOWN0, KNOWN1), (u0, u1))
    put_pairs(work, k, (XM0, XM1, XM2, XM3), tuple(r * part for part in v))
    c0, c1 = m[0] * v[0] + m[2] * v[2], m[0] * v[1] + m[2] * v[3]
    c2 = m[1] * v[1] + m[3] * v[3]
    w = w * load_pair(work, k + DM) + d * load_pair(work, k + DQ)
    w = w + ((q2 * c0 + q0 * c2) - (q1 * c1 + q1 * c1))
    e0 = (m[0] * u0 + m[2] * u1) + load_pair(work, k + I0)
    e1 = (m[1] * u0 + m[3] * u1) + load_pair(work, k + I1)
    return (c0 + d * q0, c1 + d * q1, c2 + d * q2), w, d, (e0, e1), r


@step
def scaled(y, w, r):
    return tuple(x * r for x in y), w * r


@step
def grown(work, at, g, extremes):
    """Keep the loss of a pair of links, whose δ grew by g; the largest loss and least inertia."""
    loss = load_pair(work, at + INVERSE) * g
    store_pair(work, at + LOSS, loss)
    return larger(extremes[0], loss), smaller(extremes[1], load_pair(work, at + IO) * g)


@step
def met(y, w, e):
    """δ where the sides meet, and −f and a there, a and −f: (1 + Y Φ) a = e − Y φ, f = φ + Φ a."""
    b, t = tuple(part(x, 0) for x in y), tuple(part(x, 1) for x in y)
    (e0, g0), (e1, g1) = ((part(x, 0), part(x, 1)) for x in e)
    h0 = e0 - b[0] * g0 - b[1] * g1
    h1 = e1 - b[1] * g0 - b[2] * g1
    z0, z3 = b[0] * t[0] + b[1] * t[1], b[1] * t[1] + b[2] * t[2]
    det = (1.0 + z0 + z3) + part(w, 0) * part(w, 1)
    s = 1.0 / det
    a0 = ((1.0 + z3) * h0 - (b[0] * t[1] + b[1] * t[2]) * h1) * s
    a1 = ((1.0 + z0) * h1 - (b[1] * t[0] + b[2] * t[1]) * h0) * s
    x0 = pair(-(g0 + t[0] * a0 + t[1] * a1), a0)
    return pair(det, det), (x0, pair(-(g1 + t[1] * a0 + t[2] * a1), a1))


@step
def substituted(work, k, x):
    """Keep α of a pair of links, given a or −f on one side of each; those on the other."""
    u0, u1 = apply(pairs(work, k, (XM0, XM1, XM2, XM3)), x)
    u0, u1 = load_pair(work, k + KNOWN0) + u0, load_pair(work, k + KNOWN1) + u1
    f0, f1, g0, g1 = pairs(work, k, (U0, U1, X0, X1))
    alpha = load_pair(work, k + FREE) + (f0 * u0 + f1 * u1) + (g0 * x[0] + g1 * x[1])
    store_pair(work, k + ALPHA, alpha)
    y0, y1 = apply(pairs(work, k, (M0, M1, M2, M3)), x)
    p0, p1, p2 = pairs(work, k, (P0, P1, P2))
    y0, y1 = load_pair(work, k + O0) + y0, load_pair(work, k + O1) + y1
    return y0 - p0 * u0 - p1 * u1, y1 - p1 * u0 - p2 * u1


@jit
def sweeps(work, n, ex, ey):
    """Eliminate from both ends and substitute outwards; the first body with a lost pivot, or -1.

    ``ex, ey``: acceleration of the base.

    Its neighbours make a link harder to turn than I_O does, by the factor g that δ grows by.  A
    torque T then leaves it α = T / (I_O g), a difference of terms of T / I_O whose rounding is g
    times eps of them.  The answer is refused where that reaches eps / `LEAST` of what the same
    torque would do elsewhere, at the link with the least I_O g.
    """
    last = 2 * ((n + 1) // 2) - 2
    zero, one = pair(0.0, 0.0), pair(1.0, 1.0)
    d = before = growth = one
    y, w, e = (zero, zero, zero), zero, (pair(ex, 0.0), pair(ey, 0.0))
    extremes = load_pair(work, INVERSE), load_pair(work, IO)
    at = 0
    for j in range(0, last + 2, 2):
        k = (j >> 3) * FIELDS * 8 + (j & 7)
        y, w, d, e, r = eliminated(work, k, y, w, d, e)
        now = d * before
        extremes = grown(work, at, larger(growth, now), extremes)
        at, growth = k, now
        if max(part(d, 0), part(d, 1)) > HUGE:
            y, w = scaled(y, w, r)
            d, r = d * r, one
        before = r
    y, w = scaled(y, w, 1.0 / d)
    det, x = met(y, w, e)
    worst, least = grown(work, at, larger(growth, det), extremes)
    if max(part(worst, 0), part(worst, 1)) * min(part(least, 0), part(least, 1)) * LEAST > 1.0:
        return most(work, n)
    for j in range(last, -2, -2):
        x = substituted(work, (j >> 3) * FIELDS * 8 + (j & 7), x)
    return -1


@jit
def motion_frames(table, q, qd, tau, gravity, wrenches, out, joints, room=None):
    """Solve every frame; frame · (n + 1) + body of the first lost pivot, or -1.

    Body n: a result is not finite.

    Arrays are flat, frames stacked, ``wrenches`` may be None.  ``joints`` is for the other kernels:
    joint wrenches are not known in the plane alone.  ``room``: `room_of` numbers, if there is any.
    """
    at = table.size - 7
    n = int(table[at])
    ex = -(table[at + 1] * gravity[0] + table[at + 2] * gravity[1] + table[at + 3] * gravity[2])
    ey = -(table[at + 4] * gravity[0] + table[at + 5] * gravity[1] + table[at + 6] * gravity[2])
    blocks = (n + 8) // 8
    work = np.empty(room_of(n)) if room is None else room[: room_of(n)]
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
