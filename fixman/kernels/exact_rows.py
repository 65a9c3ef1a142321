"""Wilson gradients of angles and torsions on bonds, and their rates: the same bits in every lane.

A coordinate depends on positions through two or three bonds u, v, t.  A row holds the gradients
with respect to them; a rate is what those gain when the bonds change by u̇, v̇, ṫ (theory.md section
2).
"""

from __future__ import annotations

from fixman.kernels.lanes import exact, root
from fixman.kernels.vectors import along, inner, outer, plus, scaled


@exact
def direction_row(u):
    """∂α/∂u of the direction α of a bond in the plane."""
    s = 1.0 / inner(u, u)
    return -s * u[1], s * u[0], 0.0 * s


@exact
def direction_rate(u, du):
    s = 1.0 / inner(u, u)
    a = (s + s) * (s * inner(u, du))
    return a * u[1] - s * du[1], s * du[0] - a * u[0], 0.0 * s


@exact
def turn_row(u, v):
    """∂θ/∂u and ∂θ/∂v of an angle in the plane."""
    return scaled(-1.0, direction_row(u)), direction_row(v)


@exact
def turn_rate(u, v, du, dv):
    return scaled(-1.0, direction_rate(u, du)), direction_rate(v, dv)


@exact
def angle_row(u, v):
    """Sine of an angle in space, ∂θ/∂u and ∂θ/∂v."""
    lu = 1.0 / root(inner(u, u))
    lv = 1.0 / root(inner(v, v))
    eu = scaled(lu, u)
    ev = scaled(lv, v)
    w = outer(eu, ev)
    sine = root(inner(w, w))
    axis = scaled(1.0 / sine, w)
    return sine, scaled(lu, outer(eu, axis)), scaled(lv, outer(axis, ev))


@exact
def angle_rate(u, v, du, dv):
    lu = 1.0 / root(inner(u, u))
    lv = 1.0 / root(inner(v, v))
    eu = scaled(lu, u)
    ev = scaled(lv, v)
    du = scaled(lu, du)
    dv = scaled(lv, dv)
    stretch_u = inner(eu, du)
    stretch_v = inner(ev, dv)
    turn_u = along(-stretch_u, eu, du)
    turn_v = along(-stretch_v, ev, dv)
    w = outer(eu, ev)
    inverse = 1.0 / root(inner(w, w))
    axis = scaled(inverse, w)
    tilt = scaled(inverse, plus(outer(turn_u, ev), outer(eu, turn_v)))
    tilt = along(-inner(axis, tilt), axis, tilt)
    rate_u = plus(outer(turn_u, axis), outer(eu, tilt))
    rate_v = plus(outer(axis, turn_v), outer(tilt, ev))
    return (
        scaled(lu, along(-stretch_u, outer(eu, axis), rate_u)),
        scaled(lv, along(-stretch_v, outer(axis, ev), rate_v)),
    )


@exact
def torsion_row(u, v, t):
    """Sines of the two angles, ∂φ/∂u, ∂φ/∂v and ∂φ/∂t."""
    m = outer(u, v)
    n = outer(v, t)
    mm = inner(m, m)
    nn = inner(n, n)
    vv = inner(v, v)
    lv = root(vv)
    gu = scaled(lv / mm, m)
    gt = scaled(lv / nn, n)
    gv = along(-inner(u, v) / vv, gu, scaled(-inner(t, v) / vv, gt))
    return root(mm / (vv * inner(u, u))), root(nn / (vv * inner(t, t))), gu, gv, gt


@exact
def torsion_rate(u, v, t, du, dv, dt):
    m = outer(u, v)
    n = outer(v, t)
    vv = inner(v, v)
    lv = root(vv)
    a = lv / inner(m, m)
    b = lv / inner(n, n)
    gu = scaled(a, m)
    gt = scaled(b, n)
    inverse = 1.0 / vv
    stretch = inner(v, dv) * inverse
    dm = plus(outer(du, v), outer(u, dv))
    dn = plus(outer(dv, t), outer(v, dt))
    # of lv / mm, over itself
    fade_u = stretch - (a + a) * (inner(m, dm) / lv)
    fade_t = stretch - (b + b) * (inner(n, dn) / lv)
    rate_u = along(fade_u, gu, scaled(a, dm))
    rate_t = along(fade_t, gt, scaled(b, dn))
    p = inner(u, v) * inverse
    q = inner(t, v) * inverse
    dp = (inner(du, v) + inner(u, dv)) * inverse - (stretch + stretch) * p
    dq = (inner(dt, v) + inner(t, dv)) * inverse - (stretch + stretch) * q
    rate_v = plus(
        along(-p, rate_u, scaled(-dp, gu)),
        along(-q, rate_t, scaled(-dq, gt)),
    )
    return rate_u, rate_v, rate_t
