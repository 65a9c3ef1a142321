"""Lengths, angles and torsions of one configuration: values, Wilson rows, velocity terms.

Points are padded, ``P (n + 3, 3)``: rows 0, 1, 2 hold the ghosts x₋₂, x₋₁, x₀ and row 3 + k bead
k; planar chains leave the third column zero.  ``beads (m, 4)`` index into these rows.  theory.md
section 2 gives the formulas.

What is written on bonds, ``length_row`` to ``torsion_rate``, serves floats and `eight` states in
lanes alike, to the last digit.
"""

from __future__ import annotations

import math

from fixman.kernels import jit
from fixman.kernels.lanes import above, root
from fixman.kernels.steps import exact_step
from fixman.kernels.vectors import cross, dot, minus, plus, scaled

LENGTH, ANGLE, TORSION = 3, 4, 5  # 0, 1, 2 are the positions x, y, z
SMALLEST_SINE = 4.0 * 2.0**-52  # a gradient divided by less than this is not one
# Squares of bond lengths in between leave room for the eighth powers in the four-point forms.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-70, 1e70


@exact_step
def measurable(square):
    """Whether a squared bond length is neither zero nor lost to over- or underflow."""
    zero = 0.0 * square
    return above(square, zero + SMALLEST_SQUARE) & above(zero + LARGEST_SQUARE, square)


# --- gradients with respect to bonds, and their rates when the bonds change ----------------------
#
# A coordinate depends on positions through at most three bonds u, v, r.  ∂q/∂x of its outermost
# bead is the gradient with respect to the last of them, of any other bead that with respect to the
# bond that ends there minus that with respect to the bond that begins there.  A rate is
# (∂²q/∂u∂u) u̇, row by row.


@exact_step
def length_row(u):
    """∂L/∂u."""
    return scaled(1.0 / root(dot(u, u)), u)


@exact_step
def length_rate(u, du):
    s = 1.0 / root(dot(u, u))
    e = scaled(s, u)
    along = dot(e, du)
    return scaled(s, minus(du, scaled(along, e)))


@exact_step
def direction_row(u):
    """∂α/∂u of the direction α of a bond in the plane."""
    s = 1.0 / dot(u, u)
    return -s * u[1], s * u[0], 0.0 * s


@exact_step
def direction_rate(u, du):
    s = 1.0 / dot(u, u)
    a = (s + s) * (s * dot(u, du))
    return a * u[1] - s * du[1], s * du[0] - a * u[0], 0.0 * s


@exact_step
def turn_row(u, v):
    """∂θ/∂u and ∂θ/∂v of an angle in the plane."""
    return scaled(-1.0, direction_row(u)), direction_row(v)


@exact_step
def turn_rate(u, v, du, dv):
    return scaled(-1.0, direction_rate(u, du)), direction_rate(v, dv)


@exact_step
def angle_row(u, v):
    """Sine of an angle in space, ∂θ/∂u and ∂θ/∂v."""
    lu = 1.0 / root(dot(u, u))
    lv = 1.0 / root(dot(v, v))
    eu = scaled(lu, u)
    ev = scaled(lv, v)
    w = cross(eu, ev)
    sine = root(dot(w, w))
    axis = scaled(1.0 / sine, w)
    return sine, scaled(lu, cross(eu, axis)), scaled(lv, cross(axis, ev))


@exact_step
def angle_rate(u, v, du, dv):
    lu = 1.0 / root(dot(u, u))
    lv = 1.0 / root(dot(v, v))
    eu = scaled(lu, u)
    ev = scaled(lv, v)
    du = scaled(lu, du)
    dv = scaled(lv, dv)
    stretch_u = dot(eu, du)
    stretch_v = dot(ev, dv)
    turn_u = minus(du, scaled(stretch_u, eu))
    turn_v = minus(dv, scaled(stretch_v, ev))
    w = cross(eu, ev)
    inverse = 1.0 / root(dot(w, w))
    axis = scaled(inverse, w)
    tilt = scaled(inverse, plus(cross(turn_u, ev), cross(eu, turn_v)))
    tilt = minus(tilt, scaled(dot(axis, tilt), axis))
    gu = cross(eu, axis)
    gv = cross(axis, ev)
    rate_u = plus(cross(turn_u, axis), cross(eu, tilt))
    rate_v = plus(cross(axis, turn_v), cross(tilt, ev))
    return (
        scaled(lu, minus(rate_u, scaled(stretch_u, gu))),
        scaled(lv, minus(rate_v, scaled(stretch_v, gv))),
    )


@exact_step
def torsion_row(u, v, r):
    """Sines of the two angles, ∂φ/∂u, ∂φ/∂v and ∂φ/∂r."""
    m = cross(u, v)
    n = cross(v, r)
    mm = dot(m, m)
    nn = dot(n, n)
    vv = dot(v, v)
    lv = root(vv)
    gu = scaled(lv / mm, m)
    gr = scaled(lv / nn, n)
    p = dot(u, v) / vv
    q = dot(r, v) / vv
    gv = (-p * gu[0] - q * gr[0], -p * gu[1] - q * gr[1], -p * gu[2] - q * gr[2])
    return root(mm / (vv * dot(u, u))), root(nn / (vv * dot(r, r))), gu, gv, gr


@exact_step
def torsion_rate(u, v, r, du, dv, dr):
    m = cross(u, v)
    n = cross(v, r)
    vv = dot(v, v)
    lv = root(vv)
    a = lv / dot(m, m)
    b = lv / dot(n, n)
    gu = scaled(a, m)
    gr = scaled(b, n)
    inverse = 1.0 / vv
    stretch = dot(v, dv) * inverse
    dm = plus(cross(du, v), cross(u, dv))
    dn = plus(cross(dv, r), cross(v, dr))
    # of lv / mm, over itself
    fade_u = stretch - (a + a) * (dot(m, dm) / lv)
    fade_r = stretch - (b + b) * (dot(n, dn) / lv)
    rate_u = plus(scaled(a, dm), scaled(fade_u, gu))
    rate_r = plus(scaled(b, dn), scaled(fade_r, gr))
    p = dot(u, v) * inverse
    q = dot(r, v) * inverse
    dp = (dot(du, v) + dot(u, dv)) * inverse - (stretch + stretch) * p
    dq = (dot(dr, v) + dot(r, dv)) * inverse - (stretch + stretch) * q
    rate_v = plus(
        plus(scaled(-p, rate_u), scaled(-dp, gu)), plus(scaled(-q, rate_r), scaled(-dq, gr))
    )
    return rate_u, rate_v, rate_r


# --- one configuration ---------------------------------------------------------------------------


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
def put_bond(B, slot, g):
    """Add a gradient with respect to the bond that begins at the bead in ``slot``."""
    put(B, slot, -1.0, g)
    put(B, slot + 1, 1.0, g)


@jit
def clear(B):
    for slot in range(4):
        for a in range(3):
            B[slot, a] = 0.0


@jit
def gradient(kind, row, P, dim, fixed, B):
    """Write the Wilson row into ``B (4, 3)``; return the sine it was divided by, 1 if none.

    The sine is 0 where a bond cannot be measured.
    """
    clear(B)
    if kind < LENGTH:
        B[0, kind] = 1.0
        return 1.0
    sine = 1.0
    u = bond(P, row[0], row[1], fixed)
    if not measurable(dot(u, u)):
        return 0.0
    if kind == LENGTH:
        put_bond(B, 0, length_row(u))
        return 1.0
    v = bond(P, row[1], row[2], fixed)
    if not measurable(dot(v, v)):
        return 0.0
    if kind == ANGLE and dim == 2:
        gu, gv = turn_row(u, v)
        put_bond(B, 0, gu)
        put_bond(B, 1, gv)
    elif kind == ANGLE:
        sine, gu, gv = angle_row(u, v)
        put_bond(B, 0, gu)
        put_bond(B, 1, gv)
    else:
        r = bond(P, row[2], row[3], fixed)
        if not measurable(dot(r, r)):
            return 0.0
        first, second, gu, gv, gr = torsion_row(u, v, r)
        sine = min(first, second)
        put_bond(B, 0, gu)
        put_bond(B, 1, gv)
        put_bond(B, 2, gr)
    if sine == 0.0:
        clear(B)
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
