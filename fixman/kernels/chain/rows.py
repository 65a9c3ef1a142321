"""Rows: the kinds of internal coordinate, their values, gradients and rates; the only such list.

A row has a kind and up to four points, which it depends on through the bonds between successive
ones: u, v and t.  ∂q/∂x of its outermost point is the gradient with respect to the last of these,
of any other point that with respect to the bond that ends there minus that with respect to the bond
that begins there.  A rate is (∂²q/∂u∂u) u̇, row by row; theory.md section 2 gives the formulas.

What is written on bonds serves floats and `eight` states in lanes alike, to the last digit.
"""

from __future__ import annotations

import math

from fixman.kernels import jit
from fixman.kernels.algebra import field
from fixman.kernels.algebra.field import NOTHING, ONE, ZERO
from fixman.kernels.algebra.vectors import (
    SPACE,
    cross,
    dot,
    minus,
    plus,
    put_vector,
    scaled,
    vector,
)
from fixman.kernels.compiler.lanes import above, beyond, choose, entry, exact, root, smaller
from fixman.kernels.compiler.steps import exact_step

# 0, 1, 2 are the positions x, y, z.  A distance is a length here.  The difference and the sum are
# of the lengths of u and t, which may share a point.  A straight bend has two rows.  A turn is an
# angle in the plane; a square is half that of a length, whose gradient is the bond itself.
LENGTH, ANGLE, TORSION, DISTANCE, DIFFERENCE, SUM, STRAIGHT_Y, STRAIGHT_Z, TURN = range(3, 12)
SQUARE = -1
SMALLEST_SINE = 4.0 * 2.0**-52  # a gradient divided by less than this is not one
# Squares of bond lengths in between leave room for the eighth powers in the four-point forms.
SMALLEST_SQUARE, LARGEST_SQUARE = 1e-70, 1e70


# --- formulas ------------------------------------------------------------------------------------


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


@exact_step
def unit(u):
    return scaled(1.0 / root(dot(u, u)), u)


@exact_step
def across(axis, third):
    """Unit vector across an axis: the first or, where ``third`` is 1, the second of two.

    Without a branch on the axis (Duff et al. 2017, Building an orthonormal basis, revisited).
    """
    x, y, z = unit(axis)
    one = 1.0 + 0.0 * z
    sign = choose(beyond(0.0 * z, z), -one, one)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = 1.0 + sign * x * x * a, sign * b, -sign * x
    second = b, sign + y * y * a, -y
    return plus(scaled(1.0 - third, first), scaled(third, second))


@exact_step
def middle(u, v):
    """The line that the components of a straight bend lie across."""
    return plus(unit(u), unit(v))


@exact_step
def straight(u, v, e):
    """The component e·(v̂ − û) of a bend across its axis, and how far it is from folding back."""
    axis = middle(u, v)
    return dot(e, minus(unit(v), unit(u))), 0.5 * root(dot(axis, axis))


@exact_step
def flattened(u, e):
    """∂(e·û)/∂u."""
    s = 1.0 / root(dot(u, u))
    eu = scaled(s, u)
    return scaled(s, minus(e, scaled(dot(e, eu), eu)))


@exact_step
def flattened_rate(u, du, e):
    s = 1.0 / root(dot(u, u))
    eu = scaled(s, u)
    part = dot(e, eu)
    stretch = s * dot(eu, du)
    turn = minus(scaled(s, du), scaled(stretch, eu))
    rate = plus(scaled(dot(e, turn), eu), scaled(part, turn))
    return scaled(-s, plus(rate, scaled(stretch, minus(e, scaled(part, eu)))))


# --- the kinds -----------------------------------------------------------------------------------


@exact
def bonds(X, points, r, kind, axes, like):
    """Bonds u, v, t of row r in units X, as many as its kind has; the others repeat the last."""
    a = vector(X, entry(points, 4 * r), axes, like)
    b = vector(X, entry(points, 4 * r + 1), axes, like)
    u = minus(b, a)
    v = t = u
    if kind > LENGTH:
        c = vector(X, entry(points, 4 * r + 2), axes, like)
        v = t = minus(c, b)
        if TORSION <= kind <= SUM:
            t = minus(vector(X, entry(points, 4 * r + 3), axes, like), c)
    return u, v, t


@exact
def slots(kind):
    """Return how many points a row has."""
    return 2 if kind <= LENGTH else 4 if TORSION <= kind <= SUM else 3


@exact
def sign(kind):
    """Return what the second of two lengths is multiplied by."""
    return 1.0 if kind == SUM else -1.0


@exact
def third(kind):
    return 1.0 if kind == STRAIGHT_Z else 0.0


@exact
def measured(kind, u, v, t):
    """Whether no bond of a row is zero or lost to over- or underflow."""
    if kind <= LENGTH:
        return measurable(dot(u, u))
    good = measurable(dot(u, u)) & measurable(dot(t, t))  # without a t, v again
    return good if DIFFERENCE <= kind <= SUM else good & measurable(dot(v, v))


@exact_step
def measurable(square):
    """Whether a squared bond length is neither zero nor lost to over- or underflow."""
    zero = 0.0 * square
    return above(square, zero + SMALLEST_SQUARE) & above(zero + LARGEST_SQUARE, square)


@exact
def measure(kind, u, v, t):
    """Cosine and sine of an angle, up to a factor, and the sine that its gradient is divided by.

    The last is 1 where there is none.  Of other kinds the first is the value.
    """
    zero = 0.0 * u[0]
    one = zero + 1.0
    uu = dot(u, u)
    if kind == SQUARE:
        return 0.5 * uu, zero, one
    if kind == LENGTH:
        return root(uu), zero, one
    if DIFFERENCE <= kind <= SUM:
        return root(uu) + sign(kind) * root(dot(t, t)), zero, one
    vv = dot(v, v)
    w = cross(u, v)
    if kind == TURN:
        return dot(u, v), w[2], one
    if kind == ANGLE:
        ww = dot(w, w)
        return dot(u, v), root(ww), root(ww / (uu * vv))
    if kind == TORSION:
        n = cross(v, t)
        first = dot(w, w) / (uu * vv)
        second = dot(n, n) / (vv * dot(t, t))
        return dot(w, n), root(vv) * dot(u, n), root(smaller(first, second))
    value, open_ = straight(u, v, across(middle(u, v), third(kind)))
    return value, zero, open_


@exact
def put_gradient(B, at, kind, u, v, t, axes):
    """Write ∂q/∂x of each point from vector ``at`` on; return the sine it is divided by, or 1.

    Of a row that one bond carries it is ∂q/∂u alone.
    """
    sine = 1.0 + 0.0 * u[0]
    if kind == SQUARE:
        put_vector(B, at, axes, u)
        return sine
    if kind == LENGTH:
        put_vector(B, at, axes, length_row(u))
        return sine
    if DIFFERENCE <= kind <= SUM:
        gu, gt = length_row(u), scaled(sign(kind), length_row(t))
        put_vector(B, at, axes, scaled(-1.0, gu))
        put_vector(B, at + 1, axes, gu)
        put_vector(B, at + 2, axes, scaled(-1.0, gt))
        put_vector(B, at + 3, axes, gt)
        return sine
    if kind == TORSION:
        first, second, gu, gv, gt = torsion_row(u, v, t)
        put_vector(B, at, axes, scaled(-1.0, gu))
        put_vector(B, at + 1, axes, minus(gu, gv))
        put_vector(B, at + 2, axes, minus(gv, gt))
        put_vector(B, at + 3, axes, gt)
        return smaller(first, second)
    if kind == ANGLE:
        sine, gu, gv = angle_row(u, v)
    elif kind == TURN:
        gu, gv = turn_row(u, v)
    else:
        e = across(middle(u, v), third(kind))
        _, sine = straight(u, v, e)
        gu, gv = scaled(-1.0, flattened(u, e)), flattened(v, e)
    put_vector(B, at, axes, scaled(-1.0, gu))
    put_vector(B, at + 1, axes, minus(gu, gv))
    put_vector(B, at + 2, axes, gv)
    return sine


@exact
def rate(kind, u, v, t, du, dv, dt):
    """Rates of the three gradients when the bonds change."""
    zero = 0.0 * u[0]
    none = zero, zero, zero
    if kind == SQUARE:
        return du, none, none
    if kind == LENGTH:
        return length_rate(u, du), none, none
    if DIFFERENCE <= kind <= SUM:
        return length_rate(u, du), none, scaled(sign(kind), length_rate(t, dt))
    if kind == TURN:
        gu, gv = turn_rate(u, v, du, dv)
        return gu, gv, none
    if kind == ANGLE:
        gu, gv = angle_rate(u, v, du, dv)
        return gu, gv, none
    if kind == TORSION:
        return torsion_rate(u, v, t, du, dv, dt)
    e = across(middle(u, v), third(kind))
    return scaled(-1.0, flattened_rate(u, du, e)), flattened_rate(v, dv, e), none


@exact
def curvature(kind, u, v, t, du, dv, dt):
    """κ = ẋᵀ (∂²q/∂x²) ẋ: the second time derivative of q along x + ẋ t.

    Angles depend on directions only, so bonds are scaled to unit length first.  The line that the
    components of a straight bend lie across is taken to stay: its motion is multiplied by what
    vanishes there.
    """
    if kind == LENGTH:
        return bowing(u, du)
    if DIFFERENCE <= kind <= SUM:
        return bowing(u, du) + sign(kind) * bowing(t, dt)
    s = 1.0 / root(dot(u, u))
    u, du = scaled(s, u), scaled(s, du)
    s = 1.0 / root(dot(v, v))
    v, dv = scaled(s, v), scaled(s, dv)
    if kind == TURN:
        turn_v = dot(v, dv) * (v[0] * dv[1] - v[1] * dv[0])
        turn_u = dot(u, du) * (u[0] * du[1] - u[1] * du[0])
        return -2.0 * (turn_v - turn_u)
    if kind == ANGLE:
        return angle_curvature(u, v, du, dv)
    if kind == TORSION:
        s = 1.0 / root(dot(t, t))
        t, dt = scaled(s, t), scaled(s, dt)
        return turning(v, dv, t, dt) - turning(v, dv, scaled(-1.0, u), scaled(-1.0, du))
    e = across(middle(u, v), third(kind))
    return bending(v, dv, e) - bending(u, du, e)


@exact_step
def bowing(u, du):
    """Second derivative of the length of a bond."""
    length = root(dot(u, u))
    s = 1.0 / length
    w = cross(scaled(s, u), scaled(s, du))
    return length * dot(w, w)


@exact_step
def angle_curvature(u, v, du, dv):
    # θ = atan2(|w|, c), w = u × v and c = u · v quadratic in t.
    w = cross(u, v)
    y = root(dot(w, w))
    w1 = plus(cross(du, v), cross(u, dv))
    across = cross(w, w1)
    y1 = dot(w, w1) / y
    y2 = (dot(across, across) / (y * y) + 2.0 * dot(w, cross(du, dv))) / y
    c = dot(u, v)
    c1 = dot(du, v) + dot(u, dv)
    c2 = 2.0 * dot(du, dv)
    rr = c * c + y * y
    rate = (c * y1 - y * c1) / rr
    return (c * y2 - y * c2) / rr - 2.0 * rate * (c * c1 + y * y1) / rr


@exact_step
def turning(v, dv, r, dr):
    """Angular acceleration about v of the half plane from v towards r.

    A torsion is the difference of two such angles.  Each has only its own sine in the
    denominator; the four-point form would have the product of both.
    """
    n = cross(v, r)
    nn = dot(n, n)
    n1 = plus(cross(dv, r), cross(v, dr))
    n2 = scaled(2.0, cross(dv, dr))
    spin = cross(n, n1)
    axis1 = dot(v, dv)
    axis_rate = minus(dv, scaled(axis1, v))
    turn = dot(cross(n, n2), v) + dot(spin, axis_rate)
    return (turn - 2.0 * dot(n, n1) * dot(spin, v) / nn) / nn


@exact_step
def bending(u, du, e):
    """Second derivative of e·û for a unit vector u that moves by du."""
    stretch = dot(u, du)
    turn = minus(du, scaled(stretch, u))
    return -2.0 * stretch * dot(e, turn) - dot(turn, turn) * dot(e, u)


# --- in charts -----------------------------------------------------------------------------------
#
# Points are padded, three numbers each: 0, 1, 2 are the ghosts x₋₂, x₋₁, x₀ and 3 + k is bead k;
# planar chains leave the third coordinate zero.


@exact
def place_velocities(v, frame, n, dim, fixed, V):
    """Fill the padded velocities of one frame; ghosts move with what they ride on.

    False if one is not finite.
    """
    at = frame * n * dim
    check = 0.0
    for k in range(3, n + 3):
        for a in range(dim):
            V[3 * k + a] = entry(v, at)
            check += 0.0 * entry(v, at)
            at += 1
        if dim == 2:
            V[3 * k + 2] = 0.0
    for g in range(9):
        V[g] = 0.0 if fixed else V[9 + g % 3]
    return check == 0.0


@exact
def place(x, frame, n, dim, fixed, P):
    """Fill the padded points of one frame; the ghosts of a free chain ride on its first bead.

    False if a position is not finite.
    """
    finite = place_velocities(x, frame, n, dim, fixed, P)
    P[3] -= 1.0
    P[0] -= 1.0
    P[1] -= 1.0
    return finite


@exact
def chart_bonds(P, points, r, kind, fixed):
    """Bonds of a row.  Between ghosts and the bead they ride on they are exact, wherever it is."""
    u, v, t = bonds(P, points, r, kind, SPACE, 0.0)
    if not fixed and entry(points, 4 * r) < 3:
        u = ghost_bond(entry(points, 4 * r), entry(points, 4 * r + 1), u)
        if kind >= ANGLE:
            v = ghost_bond(entry(points, 4 * r + 1), entry(points, 4 * r + 2), v)
        if kind == TORSION:
            t = ghost_bond(entry(points, 4 * r + 2), entry(points, 4 * r + 3), t)
    return u, v, t


@exact
def ghost_bond(i, j, u):
    if i >= 3 or j > 3:
        return u
    x = (1.0 if i <= 1 else 0.0) - (1.0 if j <= 1 else 0.0)
    return x, (1.0 if i == 0 else 0.0) - (1.0 if j == 0 else 0.0), 0.0


@exact
def value(P, kinds, points, r, fixed):
    """Return the coordinate and the sine that its gradient is divided by, 1 if none.

    The sine is 0 where a bond cannot be measured.
    """
    kind = entry(kinds, r)
    if kind < LENGTH:
        return P[3 * entry(points, 4 * r) + kind], 1.0
    u, v, t = chart_bonds(P, points, r, kind, fixed)
    c, s, sine = measure(kind, u, v, t)
    if not measured(kind, u, v, t):
        return root(dot(u, u)) if kind == LENGTH else 0.0, 0.0
    if kind == LENGTH or TORSION < kind < TURN:
        return c, sine
    return math.atan2(s, c), sine


@exact
def wilson_row(P, kinds, points, r, fixed, B, at):
    """Write ∂q/∂x of four points from ``B[at]``; return the sine it was divided by, 1 if none.

    The sine is 0 where a bond cannot be measured.
    """
    kind = entry(kinds, r)
    for a in range(12):
        B[at + a] = 0.0
    if kind < LENGTH:
        B[at + kind] = 1.0
        return 1.0
    u, v, t = chart_bonds(P, points, r, kind, fixed)
    if not measured(kind, u, v, t):
        return 0.0
    sine = put_gradient(B, at // 3, kind, u, v, t, SPACE)
    if sine == 0.0:
        for a in range(12):
            B[at + a] = 0.0
        return 0.0
    if kind <= LENGTH:
        for a in range(3):
            B[at + 3 + a] = B[at + a]
            B[at + a] = -B[at + a]
    if not fixed and entry(points, 4 * r) < 3:
        ride(points, r, slots(kind), B, at)
    return sine


@exact
def ride(points, r, size, B, at):
    """Give bead 0 of a free chain what the ghosts that ride on it would get, without cancellation.

    Moved all together nothing changes, so bead 0 and its ghosts take minus the other beads' sum.
    """
    host = at
    for slot in range(size):
        if entry(points, 4 * r + slot) <= 3:
            host = at + 3 * slot
    for a in range(3):
        rest = 0.0
        for slot in range(size):
            if entry(points, 4 * r + slot) > 3:
                rest += B[at + 3 * slot + a]
            else:
                B[at + 3 * slot + a] = 0.0
        B[host + a] = -rest


@exact
def row_curvature(P, V, kinds, points, r, fixed):
    """κ of a row, given padded velocities as well."""
    kind = entry(kinds, r)
    if kind < LENGTH:
        return 0.0
    u, v, t = chart_bonds(P, points, r, kind, fixed)
    du, dv, dt = bonds(V, points, r, kind, SPACE, 0.0)
    return curvature(kind, u, v, t, du, dv, dt)


# --- in a finite field ---------------------------------------------------------------------------


@jit
def sixth(u):
    """∂L⁶/∂u / 6."""
    square = field.dot(u, u)
    return field.scaled(field.times(square, square), u)


@jit
def rational_row(kind, points, X, B):
    """A multiple of a Wilson row without roots into ``B (4, 3)``, at points ``X (n + 3, 3)``.

    Both rows of a straight bend span what they do where it is straight.
    """
    none = NOTHING
    u = field.difference(X, points[1], points[0])
    gu, gv, gt = u, none, none  # L ∂L
    if kind > LENGTH:
        v = field.difference(X, points[2], points[1])
    if STRAIGHT_Y <= kind < TURN:  # L_u ∂(e·(v̂ − û)), e across u
        e = (u[1], field.less(ZERO, u[0]), ZERO)
        if kind == STRAIGHT_Z:
            e = (u[2], ZERO, field.less(ZERO, u[0]))
        gu = field.opposite(e)
        along = field.times(field.dot(u, u), field.inverse(field.dot(u, v)))  # L_u / L_v
        gv = field.scaled(along, e)
    elif DIFFERENCE <= kind <= SUM:
        # Of L⁶ in the place of L, which takes no root; dependent where the lengths are, but for
        # accidents.
        t = field.difference(X, points[3], points[2])
        gu, gt = sixth(u), sixth(t)
        if kind == DIFFERENCE:
            gt = field.opposite(gt)
    elif kind == TORSION:  # ∂φ / L_v (Blondel & Karplus 1996)
        t = field.difference(X, points[3], points[2])
        m, n = field.cross(u, v), field.cross(v, t)
        gu = field.scaled(field.inverse(field.dot(m, m)), m)
        gt = field.scaled(field.inverse(field.dot(n, n)), n)
        axis = field.inverse(field.dot(v, v))
        p, q = field.times(field.dot(u, v), axis), field.times(field.dot(t, v), axis)
        gv = field.opposite(field.combination(p, gu, q, gt))
    elif kind > LENGTH:  # L_u L_v ∂cos θ
        c = field.dot(u, v)
        share = field.times(c, field.inverse(field.dot(u, u)))
        gu = field.combination(ONE, v, field.less(ZERO, share), u)
        share = field.times(c, field.inverse(field.dot(v, v)))
        gv = field.combination(ONE, u, field.less(ZERO, share), v)
    for a in range(3):
        B[0, a] = field.less(ZERO, gu[a])
        B[1, a] = field.less(gu[a], gv[a])
        B[2, a] = field.less(gv[a], gt[a])
        B[3, a] = gt[a]
