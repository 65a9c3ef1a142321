"""Lengths, angles and torsions of one configuration: values, Wilson rows, velocity terms.

Points are padded, ``P (n + 3, 3)``: rows 0, 1, 2 hold the ghosts x₋₂, x₋₁, x₀ and row 3 + k bead
k; planar chains leave the third column zero.  ``beads (m, 4)`` index into these rows.  theory.md
section 2 gives the formulas.
"""

from __future__ import annotations

import math

from fixman.kernels import jit

LENGTH, ANGLE, TORSION = 3, 4, 5  # 0, 1, 2 are the positions x, y, z
SMALLEST_SINE = 4.0 * 2.0**-52  # a gradient divided by less than this is not one
# Squares of bond lengths in between leave room for the eighth powers in the four-point forms.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-70, 1e70


@jit
def cross(a, b):
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )


@jit
def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@jit
def scaled(s, a):
    return s * a[0], s * a[1], s * a[2]


@jit
def place_velocities(v, frame, n, dim, fixed, V):
    """Fill the padded velocities of one frame; ghosts move with what they ride on.

    False if one is not finite.
    """
    first = frame * n
    check = 0.0
    for k in range(n):
        for a in range(dim):
            V[k + 3, a] = v[first + k, a]
            check += 0.0 * v[first + k, a]
        if dim == 2:
            V[k + 3, 2] = 0.0
    for g in range(3):
        for a in range(3):
            V[g, a] = 0.0 if fixed else V[3, a]
    return check == 0.0


@jit
def place(x, frame, n, dim, fixed, P):
    """Fill the padded points of one frame; the ghosts of a free chain ride on its first bead.

    False if a position is not finite.
    """
    finite = place_velocities(x, frame, n, dim, fixed, P)
    P[1, 0] -= 1.0
    P[0, 0] -= 1.0
    P[0, 1] -= 1.0
    return finite


@jit
def bond(P, i, j, fixed):
    """x_j − x_i.  Between ghosts and the bead they ride on it is exact, wherever that bead is."""
    if not fixed and j <= 3 and i < 3:
        dx = 1.0 if i <= 1 else 0.0
        dy = 1.0 if i == 0 else 0.0
        if j <= 1:
            dx -= 1.0
        if j == 0:
            dy -= 1.0
        return dx, dy, 0.0
    return P[j, 0] - P[i, 0], P[j, 1] - P[i, 1], P[j, 2] - P[i, 2]


@jit
def measurable(square):
    """Whether a squared bond length is neither zero nor lost to over- or underflow."""
    return SMALLEST_SQUARE < square < LARGEST_SQUARE


@jit
def value(kind, row, P, dim, fixed):
    """Return the coordinate and the sine that its gradient is divided by, 1 if none.

    The sine is 0 where a bond cannot be measured.
    """
    if kind < LENGTH:
        return P[row[0], kind], 1.0
    u = bond(P, row[0], row[1], fixed)
    uu = dot(u, u)
    if not measurable(uu):
        return math.sqrt(uu), 0.0
    if kind == LENGTH:
        return math.sqrt(uu), 1.0
    v = bond(P, row[1], row[2], fixed)
    vv = dot(v, v)
    if not measurable(vv):
        return 0.0, 0.0
    if kind == ANGLE:
        w = cross(u, v)
        if dim == 2:
            return math.atan2(w[2], dot(u, v)), 1.0
        ww = dot(w, w)
        return math.atan2(math.sqrt(ww), dot(u, v)), math.sqrt(ww / (uu * vv))
    r = bond(P, row[2], row[3], fixed)
    rr = dot(r, r)
    if not measurable(rr):
        return 0.0, 0.0
    m = cross(u, v)
    n = cross(v, r)
    sine = math.sqrt(min(dot(m, m) / (uu * vv), dot(n, n) / (vv * rr)))
    return math.atan2(math.sqrt(vv) * dot(u, n), dot(m, n)), sine


@jit
def put(B, slot, sign, g):
    B[slot, 0] += sign * g[0]
    B[slot, 1] += sign * g[1]
    B[slot, 2] += sign * g[2]


@jit
def gradient(kind, row, P, dim, fixed, B):
    """Write the Wilson row into ``B (4, 3)``; return the sine it was divided by, 1 if none.

    The sine is 0 where a bond cannot be measured.
    """
    B[:] = 0.0
    if kind < LENGTH:
        B[0, kind] = 1.0
        return 1.0
    u = bond(P, row[0], row[1], fixed)
    uu = dot(u, u)
    if not measurable(uu):
        return 0.0
    lu = math.sqrt(uu)
    if kind == LENGTH:
        g = scaled(1.0 / lu, u)
        put(B, 0, -1.0, g)
        put(B, 1, 1.0, g)
        return 1.0
    v = bond(P, row[1], row[2], fixed)
    vv = dot(v, v)
    if not measurable(vv):
        return 0.0
    lv = math.sqrt(vv)
    if kind == ANGLE:
        eu = scaled(1.0 / lu, u)
        ev = scaled(1.0 / lv, v)
        if dim == 2:
            sine = 1.0
            axis = (0.0, 0.0, 1.0)
        else:
            w = cross(eu, ev)
            sine = math.sqrt(dot(w, w))
            if sine == 0.0:
                return 0.0
            axis = scaled(1.0 / sine, w)
        gu = scaled(1.0 / lu, cross(eu, axis))
        gv = scaled(1.0 / lv, cross(axis, ev))
        put(B, 0, -1.0, gu)
        put(B, 1, 1.0, gu)
        put(B, 1, -1.0, gv)
        put(B, 2, 1.0, gv)
    else:
        r = bond(P, row[2], row[3], fixed)
        rr = dot(r, r)
        if not measurable(rr):
            return 0.0
        m = cross(u, v)
        n = cross(v, r)
        mm = dot(m, m)
        nn = dot(n, n)
        if mm == 0.0 or nn == 0.0:
            return 0.0
        sine = min(math.sqrt(mm) / (lu * lv), math.sqrt(nn) / (lv * math.sqrt(rr)))
        gi = scaled(-lv / mm, m)
        gl = scaled(lv / nn, n)
        p = dot(u, v) / vv
        q = dot(r, v) / vv
        put(B, 0, 1.0, gi)
        put(B, 1, -1.0 - p, gi)
        put(B, 1, q, gl)
        put(B, 2, p, gi)
        put(B, 2, -1.0 - q, gl)
        put(B, 3, 1.0, gl)
    if not fixed and row[0] < 3:
        ride(kind, row, B)
    return sine


@jit
def ride(kind, row, B):
    """Give bead 0 of a free chain what the ghosts that ride on it would get, without cancellation.

    Moved all together nothing changes, so bead 0 and its ghosts take minus the other beads' sum.
    """
    root = 0
    for slot in range(kind - LENGTH + 2):
        if row[slot] <= 3:
            root = slot
    for a in range(3):
        rest = 0.0
        for slot in range(kind - LENGTH + 2):
            if row[slot] <= 3:
                B[slot, a] = 0.0
            else:
                rest += B[slot, a]
        B[root, a] = -rest


@jit
def unit(i, j, P, V, fixed):
    """Direction of a bond, its length, and its rate over its length."""
    u = bond(P, i, j, fixed)
    length = math.sqrt(dot(u, u))
    s = 1.0 / length
    rate = (s * (V[j, 0] - V[i, 0]), s * (V[j, 1] - V[i, 1]), s * (V[j, 2] - V[i, 2]))
    return scaled(s, u), length, rate


@jit
def curvature(kind, row, P, V, dim, fixed):
    """κ = ẋᵀ (∂²q/∂x²) ẋ: the second time derivative of q along x + ẋ t.

    Angles depend on directions only, so bonds are scaled to unit length first.
    """
    if kind < LENGTH:
        return 0.0
    u, length, du = unit(row[0], row[1], P, V, fixed)
    if kind == LENGTH:
        w = cross(u, du)
        return length * dot(w, w)
    v, _, dv = unit(row[1], row[2], P, V, fixed)
    if kind == ANGLE:
        if dim == 2:
            turn_v = dot(v, dv) * (v[0] * dv[1] - v[1] * dv[0])
            turn_u = dot(u, du) * (u[0] * du[1] - u[1] * du[0])
            return -2.0 * (turn_v - turn_u)
        return _angle_curvature(u, v, du, dv)
    r, _, dr = unit(row[2], row[3], P, V, fixed)
    return _turning(v, dv, r, dr) - _turning(v, dv, scaled(-1.0, u), scaled(-1.0, du))


@jit
def _angle_curvature(u, v, du, dv):
    # θ = atan2(|w|, c), w = u × v and c = u · v quadratic in t.
    w = cross(u, v)
    y = math.sqrt(dot(w, w))
    a = cross(du, v)
    b = cross(u, dv)
    w1 = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    across = cross(w, w1)
    y1 = dot(w, w1) / y
    y2 = (dot(across, across) / (y * y) + 2.0 * dot(w, cross(du, dv))) / y
    c = dot(u, v)
    c1 = dot(du, v) + dot(u, dv)
    c2 = 2.0 * dot(du, dv)
    rr = c * c + y * y
    rate = (c * y1 - y * c1) / rr
    return (c * y2 - y * c2) / rr - 2.0 * rate * (c * c1 + y * y1) / rr


@jit
def _turning(v, dv, r, dr):
    """Angular acceleration about v of the half plane from v towards r.

    A torsion is the difference of two such angles.  Each has only its own sine in the
    denominator; the four-point form would have the product of both.
    """
    n = cross(v, r)
    nn = dot(n, n)
    a = cross(dv, r)
    b = cross(v, dr)
    n1 = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    n2 = scaled(2.0, cross(dv, dr))
    spin = cross(n, n1)
    axis1 = dot(v, dv)
    axis_rate = (dv[0] - axis1 * v[0], dv[1] - axis1 * v[1], dv[2] - axis1 * v[2])
    turn = dot(cross(n, n2), v) + dot(spin, axis_rate)
    return (turn - 2.0 * dot(n, n1) * dot(spin, v) / nn) / nn
