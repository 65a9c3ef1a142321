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
def place(x, frame, n, dim, fixed, P):
    """Fill the padded points of one frame; the ghosts of a free chain ride on its first bead."""
    first = frame * n
    for k in range(n):
        for a in range(dim):
            P[k + 3, a] = x[first + k, a]
        if dim == 2:
            P[k + 3, 2] = 0.0
    for g in range(3):
        for a in range(3):
            P[g, a] = 0.0 if fixed else P[3, a]
    P[1, 0] -= 1.0
    P[0, 0] -= 1.0
    P[0, 1] -= 1.0


@jit
def place_velocities(v, frame, n, dim, fixed, V):
    """Fill the padded velocities of one frame; ghosts move with what they ride on."""
    first = frame * n
    for k in range(n):
        for a in range(dim):
            V[k + 3, a] = v[first + k, a]
        if dim == 2:
            V[k + 3, 2] = 0.0
    for g in range(3):
        for a in range(3):
            V[g, a] = 0.0 if fixed else V[3, a]


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
def value(kind, row, P, dim, fixed):
    """Return the coordinate and the sine on which it depends (1 where it is always regular)."""
    if kind < LENGTH:
        return P[row[0], kind], 1.0
    u = bond(P, row[0], row[1], fixed)
    if kind == LENGTH:
        return math.sqrt(dot(u, u)), 1.0
    v = bond(P, row[1], row[2], fixed)
    if kind == ANGLE:
        w = cross(u, v)
        if dim == 2:
            return math.atan2(w[2], dot(u, v)), 1.0
        return math.atan2(math.sqrt(dot(w, w)), dot(u, v)), 1.0
    r = bond(P, row[2], row[3], fixed)
    m = cross(u, v)
    n = cross(v, r)
    vv = dot(v, v)
    sine = math.sqrt(min(dot(m, m) / (dot(u, u) * vv), dot(n, n) / (vv * dot(r, r))))
    return math.atan2(math.sqrt(vv) * dot(u, n), dot(m, n)), sine


@jit
def put(B, slot, sign, g):
    B[slot, 0] += sign * g[0]
    B[slot, 1] += sign * g[1]
    B[slot, 2] += sign * g[2]


@jit
def gradient(kind, row, P, dim, fixed, B):
    """Write the Wilson row into ``B (4, 3)``; return the sine it was divided by, 1 if none.

    The sine is 0 where a bond has no length.
    """
    B[:] = 0.0
    if kind < LENGTH:
        B[0, kind] = 1.0
        return 1.0
    u = bond(P, row[0], row[1], fixed)
    lu = math.sqrt(dot(u, u))
    if lu == 0.0:
        return 0.0
    if kind == LENGTH:
        g = scaled(1.0 / lu, u)
        put(B, 0, -1.0, g)
        put(B, 1, 1.0, g)
        return 1.0
    v = bond(P, row[1], row[2], fixed)
    lv = math.sqrt(dot(v, v))
    if lv == 0.0:
        return 0.0
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
        return sine
    r = bond(P, row[2], row[3], fixed)
    lr = math.sqrt(dot(r, r))
    m = cross(u, v)
    n = cross(v, r)
    mm = dot(m, m)
    nn = dot(n, n)
    if mm == 0.0 or nn == 0.0:
        return 0.0
    gi = scaled(-lv / mm, m)
    gl = scaled(lv / nn, n)
    p = dot(u, v) / (lv * lv)
    q = dot(r, v) / (lv * lv)
    put(B, 0, 1.0, gi)
    put(B, 1, -1.0 - p, gi)
    put(B, 1, q, gl)
    put(B, 2, p, gi)
    put(B, 2, -1.0 - q, gl)
    put(B, 3, 1.0, gl)
    return min(math.sqrt(mm) / (lu * lv), math.sqrt(nn) / (lv * lr))


@jit
def curvature(kind, row, P, V, dim, fixed):
    """κ = ẋᵀ (∂²q/∂x²) ẋ: the second time derivative of q along x + ẋ t."""
    if kind < LENGTH:
        return 0.0
    u = bond(P, row[0], row[1], fixed)
    du = (V[row[1], 0] - V[row[0], 0], V[row[1], 1] - V[row[0], 1], V[row[1], 2] - V[row[0], 2])
    if kind == LENGTH:
        w = cross(u, du)
        uu = dot(u, u)
        return dot(w, w) / (uu * math.sqrt(uu))
    v = bond(P, row[1], row[2], fixed)
    dv = (V[row[2], 0] - V[row[1], 0], V[row[2], 1] - V[row[1], 1], V[row[2], 2] - V[row[1], 2])
    if kind == ANGLE:
        if dim == 2:
            uu = dot(u, u)
            vv = dot(v, v)
            turn_v = dot(v, dv) * (v[0] * dv[1] - v[1] * dv[0]) / (vv * vv)
            turn_u = dot(u, du) * (u[0] * du[1] - u[1] * du[0]) / (uu * uu)
            return -2.0 * (turn_v - turn_u)
        return _angle_curvature(u, v, du, dv)
    r = bond(P, row[2], row[3], fixed)
    dr = (V[row[3], 0] - V[row[2], 0], V[row[3], 1] - V[row[2], 1], V[row[3], 2] - V[row[2], 2])
    return _torsion_curvature(u, v, r, du, dv, dr)


@jit
def _atan2_second_derivative(y, y1, y2, x, x1, x2):
    """(d²/dt²) atan2(y, x) from the derivatives of y and x."""
    rr = x * x + y * y
    rate = (x * y1 - y * x1) / rr
    return (x * y2 - y * x2) / rr - 2.0 * rate * (x * x1 + y * y1) / rr


@jit
def _angle_curvature(u, v, du, dv):
    # θ = atan2(|w|, c), w = u × v and c = u · v quadratic in t.
    w = cross(u, v)
    y = math.sqrt(dot(w, w))
    a = cross(du, v)
    b = cross(u, dv)
    w1 = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    w2 = scaled(2.0, cross(du, dv))
    across = cross(w, w1)
    y1 = dot(w, w1) / y
    y2 = (dot(across, across) / (y * y) + dot(w, w2)) / y
    c1 = dot(du, v) + dot(u, dv)
    return _atan2_second_derivative(y, y1, y2, dot(u, v), c1, 2.0 * dot(du, dv))


@jit
def _torsion_curvature(u, v, r, du, dv, dr):
    # φ = atan2(|v| u·n, m·n), m = u × v, n = v × r.
    m = cross(u, v)
    n = cross(v, r)
    a = cross(du, v)
    b = cross(u, dv)
    m1 = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    m2 = scaled(2.0, cross(du, dv))
    a = cross(dv, r)
    b = cross(v, dr)
    n1 = (a[0] + b[0], a[1] + b[1], a[2] + b[2])
    n2 = scaled(2.0, cross(dv, dr))
    g = math.sqrt(dot(v, v))
    g1 = dot(v, dv) / g
    turn = cross(v, dv)
    g2 = dot(turn, turn) / (g * g * g)
    t = dot(u, n)
    t1 = dot(du, n) + dot(u, n1)
    t2 = 2.0 * dot(du, n1) + dot(u, n2)
    y1 = g1 * t + g * t1
    y2 = g2 * t + 2.0 * g1 * t1 + g * t2
    x1 = dot(m1, n) + dot(m, n1)
    x2 = dot(m2, n) + 2.0 * dot(m1, n1) + dot(m, n2)
    return _atan2_second_derivative(g * t, y1, y2, dot(m, n), x1, x2)
