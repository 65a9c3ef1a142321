"""Bonds, bends and torsions: energies and forces of one chain or of eight in lanes.

Parameters of a bond are k and R² of −½ k R² ln(1 − r²/R²); of a bend the stiffness k, θ₀, cos θ₀
and sin θ₀; of a torsion, a₀ and the pairs a_m, b_m of Σ a_m cos mφ + b_m sin mφ; of a torsion
combined with its bends, a₀ … a₃ of sin³θ sin³θ′ Σ a_m cosᵐ φ.  ``work`` is that of `forces`.
"""

from __future__ import annotations

import math
from collections import namedtuple

from fixman.kernels.algebra.vectors import cross, fused_dot, minus, plus, put_vector, scaled, vector
from fixman.kernels.chain.rows import SMALLEST_SINE
from fixman.kernels.compiler.lanes import exact_call, ln, load, pick, root, store
from fixman.kernels.compiler.steps import exact_step

COSINE, TILTED, HARMONIC, SQUARED = range(4)
COMBINED = -1
ORDER = 6  # largest harmonic of a torsion

SMALLEST_SQUARE = SMALLEST_SINE**2


class Terms(namedtuple("Terms", "table parameters")):
    """Bonds, bends or torsions.

    table (T · 4,), (T · 5,) or (T · 6,) of int64 : of each term 0, the kind of a bend, or the order
        M of a torsion or `COMBINED`; where its parameters begin; its joints, the beads after
        `forces.GHOSTS`
    parameters (P,)
    """


@exact_step
def combined(p, a, q, b):
    return p * a[0] + q * b[0], p * a[1] + q * b[1], p * a[2] + q * b[2]


@exact_step
def arc(s, c):
    """Angle in −π … π whose sine and cosine are in the ratio s : c, to 2 ulp.

    Cephes' arctangent, without a branch.
    """
    a = pick(s, 0.0, s, -s)
    b = pick(c, 0.0, c, -c)
    small = pick(a, b, b, a)
    large = pick(a, b, a, b)
    ratio = small / large
    t = pick(ratio, 0.66, small - large, small) / pick(ratio, 0.66, small + large, large)
    z = t * t
    p = z * -8.750608600031904122785e-1 - 1.615753718733365076637e1
    p = p * z - 7.500855792314704667340e1
    p = p * z - 1.228866684490136173410e2
    p = p * z - 6.485021904942025371773e1
    q = z + 2.485846490142306297962e1
    q = q * z + 1.650270098316988542046e2
    q = q * z + 4.328810604912902668951e2
    q = q * z + 4.853903996359136964868e2
    q = q * z + 1.945506571482613964425e2
    angle = t * (z * (p / q)) + t
    angle = angle + pick(ratio, 0.66, 3.061616997868382943e-17, 0.0)
    angle = angle + pick(ratio, 0.66, 7.853981633974483096e-1, 0.0)
    angle = pick(a, b, (1.5707963267948966192 - angle) + 6.123233995736765886e-17, angle)
    angle = pick(0.0, c, (3.1415926535897932385 - angle) + 1.2246467991473531772e-16, angle)
    return pick(0.0, s, -angle, angle)


@exact_step
def add_term(work, joints, table, t, energy, forces, axes, like):
    """Add the energy of term t, and the forces on its beads."""
    U = 3 * joints * len(axes)
    store(work, U, load(work, U, like) + energy)
    for place in range(len(forces)):
        k = joints + table[t + 2 + place]
        put_vector(work, k, axes, plus(vector(work, k, axes, like), forces[place]))


# --- bonds ----------------------------------------------------------------------------------------


@exact_step
def fene(work, table, t, parameters, axes, like):
    """Energy of a bond, and the forces on its beads; NaN from r = R on."""
    p = table[t + 1]
    k, square = parameters[p], parameters[p + 1]
    d = minus(vector(work, table[t + 3], axes, like), vector(work, table[t + 2], axes, like))
    left = 1.0 - fused_dot(d, d) / square
    left = pick(left, 0.0, left, math.nan)
    return -0.5 * k * square * ln(left), (scaled(k / left, d), scaled(-k / left, d))


@exact_call
def add_stretches(stretches, work, joints, axes, like):
    table, parameters = stretches
    for t in range(0, table.size, 4):
        energy, forces = fene(work, table, t, parameters, axes, like)
        add_term(work, joints, table, t, energy, forces, axes, like)
    return work


# --- bends ----------------------------------------------------------------------------------------


@exact_step
def bend(work, table, t, axes, like):
    """Cosine and sine of a bend, signed in the plane, its directions and reciprocal lengths."""
    x, y, z = (vector(work, table[t + 2 + place], axes, like) for place in range(3))
    u, v = minus(y, x), minus(z, y)
    ru, rv = 1.0 / root(fused_dot(u, u)), 1.0 / root(fused_dot(v, v))
    u, v = scaled(ru, u), scaled(rv, v)
    w = cross(u, v)
    s = w[2]
    if len(axes) == 3:
        s = root(fused_dot(w, w))
        s = pick(s, SMALLEST_SINE, s, 0.0)
    return fused_dot(u, v), s, w, u, v, ru, rv


@exact_step
def bend_forces(bent, g, axes):
    """Forces on three beads from g = ∂U/∂cos θ or, in the plane, ∂U/∂θ."""
    _, _, w, u, v, ru, rv = bent
    if len(axes) == 2:
        gu = g * ru * u[1], -(g * ru * u[0]), 0.0
        gv = -(g * rv * v[1]), g * rv * v[0], 0.0
    else:
        gu, gv = scaled(g * ru, cross(w, u)), scaled(g * rv, cross(v, w))
    return gu, minus(gv, gu), scaled(-1.0, gv)


@exact_step
def squared(bent, parameters, p, axes):
    """Energy and g, as all kinds of bend."""
    k, away = parameters[p], bent[0] - parameters[p + 2]
    return 0.5 * k * away * away, -k * away * bent[1] if len(axes) == 2 else k * away


@exact_step
def harmonic(bent, parameters, p, axes):
    c, s = bent[:2]
    k, away = parameters[p], arc(s, c) - parameters[p + 1]
    if len(axes) == 2:
        away = pick(away, math.pi, away - 2.0 * math.pi, away)
        away = pick(-math.pi, away, away + 2.0 * math.pi, away)
        return 0.5 * k * away * away, k * away
    square = away * away
    # θ/sin θ is only wanted where it is multiplied by something: 0/0 is not.
    return 0.5 * k * square, pick(square, 0.0, -k * away / s, 0.0)


@exact_step
def cosine(bent, parameters, p, axes):
    c, s = bent[:2]
    k, c0, s0 = parameters[p], parameters[p + 2], parameters[p + 3]
    away, aside = c - c0, s - s0
    energy = 0.5 * k * (away * away + aside * aside)
    return energy, k * (s * c0 - c * s0) if len(axes) == 2 else c * 0.0 - k * c0


@exact_step
def tilted(bent, parameters, p, axes):
    energy, g = cosine(bent, parameters, p, axes)
    if len(axes) == 3:
        g = g + parameters[p] * parameters[p + 3] * (bent[0] / bent[1])
    return energy, g


@exact_call
def add_bends(bends, work, joints, axes, like):
    table, parameters = bends
    for t in range(0, table.size, 5):
        kind, p = table[t], table[t + 1]
        bent = bend(work, table, t, axes, like)
        if kind == HARMONIC:
            energy, g = harmonic(bent, parameters, p, axes)
        elif kind == SQUARED:
            energy, g = squared(bent, parameters, p, axes)
        elif kind == TILTED:
            energy, g = tilted(bent, parameters, p, axes)
        else:
            energy, g = cosine(bent, parameters, p, axes)
        add_term(work, joints, table, t, energy, bend_forces(bent, g, axes), axes, like)
    return work


# --- torsions -------------------------------------------------------------------------------------


@exact_step
def three_bonds(work, table, t, axes, like):
    x = tuple(vector(work, table[t + 2 + place], axes, like) for place in range(4))
    return minus(x[1], x[0]), minus(x[2], x[1]), minus(x[3], x[2])


@exact_step
def turn(bonds):
    """Cosine and sine of a torsion, the length of its axis, normals and their squares."""
    u, v, r = bonds
    vv = fused_dot(v, v)
    lv = root(vv)
    m, n = cross(u, v), cross(v, r)
    mm, nn = fused_dot(m, m), fused_dot(n, n)
    # In line there is no torsion, and a tiny sine is nothing but rounding.
    mm = pick(mm, SMALLEST_SQUARE * (fused_dot(u, u) * vv), mm, 0.0)
    nn = pick(nn, SMALLEST_SQUARE * (fused_dot(r, r) * vv), nn, 0.0)
    norm = 1.0 / (root(mm) * root(nn))
    return fused_dot(m, n) * norm, lv * fused_dot(u, n) * norm, lv, m, n, mm, nn


@exact_step
def wave(series, turned, a, b, m):
    """Energy and slope with one wave more, and cos mφ and sin mφ of the next."""
    energy, slope, cm, sm = series
    c, s = turned[:2]
    energy = energy + (a * cm + b * sm)
    slope = slope + m * (b * cm - a * sm)
    return energy, slope, cm * c - sm * s, sm * c + cm * s


@exact_step
def turn_forces(bonds, turned, slope):
    u, v, r = bonds
    _, _, lv, m, n, mm, nn = turned
    first = scaled(slope * (lv / mm), m)
    last = scaled(-slope * (lv / nn), n)
    vv = fused_dot(v, v)
    p1, q1 = fused_dot(u, v) / vv, fused_dot(r, v) / vv
    second = combined(-1.0 - p1, first, q1, last)
    return first, second, combined(p1, first, -1.0 - q1, last), last


@exact_step
def on_bond(e, length, g):
    """Gradient with respect to a bond from that with respect to its direction."""
    return scaled(1.0 / length, combined(1.0, g, -fused_dot(g, e), e))


@exact_step
def combined_torsion(bonds, parameters, p):
    """Energy of a torsion and its two bends, and the forces on the four beads.

    With m = u × v and n = v × r of unit vectors, D = m·n and P = |m||n|, U = Σ a_k Dᵏ P³⁻ᵏ: regular
    everywhere.
    """
    lu, lv, lr = (root(fused_dot(bond, bond)) for bond in bonds)
    u, v, r = (scaled(1.0 / length, bond) for length, bond in zip((lu, lv, lr), bonds, strict=True))
    m, n = cross(u, v), cross(v, r)
    mm, nn = fused_dot(m, m), fused_dot(n, n)
    D = fused_dot(m, n)
    P = root(mm) * root(nn)
    cosine = pick(P, 0.0, D / P, 0.0)
    a0, a1, a2, a3 = (parameters[p + k] for k in range(4))
    energy = a0 * P * P * P + a1 * D * P * P + a2 * D * D * P + a3 * D * D * D
    by_D = a1 * P * P + 2.0 * a2 * D * P + 3.0 * a3 * D * D
    by_P = 3.0 * a0 * P + 2.0 * a1 * D + a2 * D * cosine  # over P
    a = combined(by_D, n, by_P * nn, m)
    b = combined(by_D, m, by_P * mm, n)
    gu = on_bond(u, lu, cross(v, a))
    gv = on_bond(v, lv, plus(cross(a, u), cross(r, b)))
    gr = on_bond(r, lr, cross(b, v))
    return energy, (gu, minus(gv, gu), minus(gr, gv), scaled(-1.0, gr))


@exact_call
def add_torsions(torsions, work, joints, axes, like):
    table, parameters = torsions
    zero = 0.0 * like
    for t in range(0, table.size, 6):
        order, p = table[t], table[t + 1]
        bonds = three_bonds(work, table, t, axes, like)
        if order == COMBINED:
            energy, forces = combined_torsion(bonds, parameters, p)
        else:
            turned = turn(bonds)
            series = zero + parameters[p], zero, turned[0], turned[1]
            for m in range(1, order + 1):
                a, b = parameters[p + 2 * m - 1], parameters[p + 2 * m]
                series = wave(series, turned, a, b, float(m))
            energy = series[0]
            forces = turn_forces(bonds, turned, series[1])
        add_term(work, joints, table, t, energy, forces, axes, like)
    return work
