"""Bends and torsions: energies and forces of one chain or of eight in lanes.

A term has a kind, up to four beads and a row of parameters.  For bends these are the stiffness k,
θ₀, cos θ₀ and sin θ₀; for torsions the order M, a₀ and the pairs a_m, b_m of
Σ a_m cos mφ + b_m sin mφ; for torsions combined with their bends a₀ … a₃ of
sin³θ sin³θ′ Σ a_m cosᵐ φ.
"""

from __future__ import annotations

import math
from typing import Any

from numba import types

from fixman.kernels.lanes import (
    EIGHT,
    cast,
    entry,
    exact,
    intrinsic,
    load,
    root,
    store,
)
from fixman.kernels.rows import SMALLEST_SINE
from fixman.kernels.steps import exact_step
from fixman.kernels.vectors import cross, inner, minus, plus, scaled

COSINE, HARMONIC, SQUARED, TORSION, COMBINED = range(5)
ORDER = 6
WIDTH = 2 + 2 * ORDER

SMALLEST_SQUARE = SMALLEST_SINE**2


@intrinsic
def pick(typing: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    """Return a where x > y, else b, lane by lane."""
    kind = EIGHT if EIGHT in (x, y, a, b) else types.float64

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.return_type is EIGHT:
            values = [cast(context, builder, *pair) for pair in zip(args, sig.args, strict=True)]
        else:
            values = [
                context.cast(builder, value, given, types.float64)
                for value, given in zip(args, sig.args, strict=True)
            ]
        return builder.select(builder.fcmp_ordered(">", *values[:2]), *values[2:])

    return kind(x, y, a, b), lower


@exact_step
def combined(p, a, q, b):
    """p a + q b."""
    return p * a[0] + q * b[0], p * a[1] + q * b[1], p * a[2] + q * b[2]


@exact
def point(X, bead, dim, like):
    """Position of a bead, or of a point that a fixed base has."""
    zero = like * 0.0
    if bead < 0:
        x = zero - 1.0 if bead < -1 else zero
        y = zero - 1.0 if bead < -2 else zero
        return x, y, zero
    at = bead * dim
    if dim == 2:
        return load(X, at, like), load(X, at + 1, like), zero
    return load(X, at, like), load(X, at + 1, like), load(X, at + 2, like)


@exact
def add(F, bead, dim, f):
    if bead >= 0:
        at = bead * dim
        store(F, at, load(F, at, f[0]) + f[0])
        store(F, at + 1, load(F, at + 1, f[0]) + f[1])
        if dim == 3:
            store(F, at + 2, load(F, at + 2, f[0]) + f[2])


@exact
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


# --- bonded terms -------------------------------------------------------------------------------


@exact
def bent(kind, c, s, parameters, p):
    """Energy of a bend in space and g = ∂U/∂cos θ."""
    k = parameters[p]
    if kind == SQUARED:
        away = c - parameters[p + 2]
        return 0.5 * k * away * away, k * away
    if kind == HARMONIC:
        away = arc(s, c) - parameters[p + 1]
        square = away * away
        # θ/sin θ is only wanted where it is multiplied by something: 0/0 is not.
        return 0.5 * k * square, pick(square, 0.0, -k * away / s, 0.0)
    away = c - parameters[p + 2]
    across = s - parameters[p + 3]
    g = c * 0.0 - k * parameters[p + 2]
    if parameters[p + 3] != 0.0:
        g = g + k * parameters[p + 3] * (c / s)
    return 0.5 * k * (away * away + across * across), g


@exact
def turned(kind, c, s, parameters, p):
    """Energy of a signed bend in the plane and ∂U/∂θ."""
    k = parameters[p]
    away = c - parameters[p + 2]
    if kind == SQUARED:
        return 0.5 * k * away * away, -k * away * s
    if kind == HARMONIC:
        angle = arc(s, c) - parameters[p + 1]
        angle = pick(angle, math.pi, angle - 2.0 * math.pi, angle)
        angle = pick(-math.pi, angle, angle + 2.0 * math.pi, angle)
        return 0.5 * k * angle * angle, k * angle
    across = s - parameters[p + 3]
    energy = 0.5 * k * (away * away + across * across)
    return energy, k * (s * parameters[p + 2] - c * parameters[p + 3])


@exact
def bend(X, i, j, k, kind, parameters, p, dim, like):
    """Energy of a bend, and its gradients with respect to its two bonds."""
    middle = point(X, j, dim, like)
    u = minus(middle, point(X, i, dim, like))
    v = minus(point(X, k, dim, like), middle)
    ru = 1.0 / root(inner(u, u))
    rv = 1.0 / root(inner(v, v))
    u = scaled(ru, u)
    v = scaled(rv, v)
    c = inner(u, v)
    w = cross(u, v)
    if dim == 2:
        energy, slope = turned(kind, c, w[2], parameters, p)
        zero = like * 0.0
        return (
            energy,
            (slope * ru * u[1], -(slope * ru * u[0]), zero),
            (-(slope * rv * v[1]), slope * rv * v[0], zero),
        )
    s = root(inner(w, w))
    energy, g = bent(kind, c, pick(s, SMALLEST_SINE, s, 0.0), parameters, p)
    return energy, scaled(g * ru, cross(w, u)), scaled(g * rv, cross(v, w))


@exact
def series(c, s, parameters, p):
    """Σ a_m cos mφ + b_m sin mφ and its slope, from cos φ and sin φ."""
    energy = c * 0.0 + parameters[p + 1]
    slope = c * 0.0
    cm = c
    sm = s
    for m in range(int(parameters[p])):
        a = parameters[p + 2 + 2 * m]
        b = parameters[p + 3 + 2 * m]
        energy = energy + (a * cm + b * sm)
        slope = slope + (m + 1.0) * (b * cm - a * sm)
        cm, sm = cm * c - sm * s, sm * c + cm * s
    return energy, slope


@exact
def torsion(X, beads, at, parameters, p, dim, like):
    """Energy of a torsion, and the forces on its four beads."""
    x1 = point(X, entry(beads, at + 1), dim, like)
    x2 = point(X, entry(beads, at + 2), dim, like)
    u = minus(x1, point(X, entry(beads, at), dim, like))
    v = minus(x2, x1)
    r = minus(point(X, entry(beads, at + 3), dim, like), x2)
    vv = inner(v, v)
    lv = root(vv)
    m = cross(u, v)
    n = cross(v, r)
    mm = inner(m, m)
    nn = inner(n, n)
    # In line there is no torsion, and a tiny sine is nothing but rounding.
    mm = pick(mm, SMALLEST_SQUARE * (inner(u, u) * vv), mm, 0.0)
    nn = pick(nn, SMALLEST_SQUARE * (inner(r, r) * vv), nn, 0.0)
    norm = 1.0 / (root(mm) * root(nn))
    energy, slope = series(inner(m, n) * norm, lv * inner(u, n) * norm, parameters, p)
    first = scaled(slope * (lv / mm), m)
    last = scaled(-slope * (lv / nn), n)
    p1 = inner(u, v) / vv
    q1 = inner(r, v) / vv
    return (
        energy,
        first,
        combined(-1.0 - p1, first, q1, last),
        combined(p1, first, -1.0 - q1, last),
        last,
    )


@exact
def across(e, length, g):
    """Gradient with respect to a bond from that with respect to its direction."""
    return scaled(1.0 / length, combined(1.0, g, -inner(g, e), e))


@exact
def combined_torsion(X, beads, at, parameters, p, dim, like):
    """Energy of a torsion and its two bends, and the forces on the four beads.

    With m = u × v and n = v × r of unit vectors, D = m·n and P = |m||n|, U = Σ a_k Dᵏ P³⁻ᵏ: regular
    everywhere.
    """
    x1 = point(X, entry(beads, at + 1), dim, like)
    x2 = point(X, entry(beads, at + 2), dim, like)
    u = minus(x1, point(X, entry(beads, at), dim, like))
    v = minus(x2, x1)
    r = minus(point(X, entry(beads, at + 3), dim, like), x2)
    lu, lv, lr = root(inner(u, u)), root(inner(v, v)), root(inner(r, r))
    u = scaled(1.0 / lu, u)
    v = scaled(1.0 / lv, v)
    r = scaled(1.0 / lr, r)
    m = cross(u, v)
    n = cross(v, r)
    mm = inner(m, m)
    nn = inner(n, n)
    D = inner(m, n)
    P = root(mm) * root(nn)
    cosine = pick(P, 0.0, D / P, 0.0)
    a0, a1, a2, a3 = parameters[p], parameters[p + 1], parameters[p + 2], parameters[p + 3]
    energy = a0 * P * P * P + a1 * D * P * P + a2 * D * D * P + a3 * D * D * D
    by_D = a1 * P * P + 2.0 * a2 * D * P + 3.0 * a3 * D * D
    by_P = 3.0 * a0 * P + 2.0 * a1 * D + a2 * D * cosine  # over P
    a = combined(by_D, n, by_P * nn, m)
    b = combined(by_D, m, by_P * mm, n)
    gu = across(u, lu, cross(v, a))
    gv = across(v, lv, plus(cross(a, u), cross(r, b)))
    gr = across(r, lr, cross(b, v))
    return energy, gu, minus(gv, gu), minus(gr, gv), scaled(-1.0, gr)


@exact
def four_beads(kind, X, beads, at, parameters, p, dim, like):
    if kind == TORSION:
        return torsion(X, beads, at, parameters, p, dim, like)
    return combined_torsion(X, beads, at, parameters, p, dim, like)


@exact
def add_bonded(X, F, dim, tables, like):
    kinds, beads, rows, parameters = tables.kinds, tables.beads, tables.types, tables.parameters
    for t in range(kinds.size):
        kind = entry(kinds, t)
        at = 4 * t
        p = WIDTH * entry(rows, t)
        if kind >= TORSION:
            _, f0, f1, f2, f3 = four_beads(kind, X, beads, at, parameters, p, dim, like)
            add(F, entry(beads, at), dim, f0)
            add(F, entry(beads, at + 1), dim, f1)
            add(F, entry(beads, at + 2), dim, f2)
            add(F, entry(beads, at + 3), dim, f3)
        else:
            i, j, k = entry(beads, at), entry(beads, at + 1), entry(beads, at + 2)
            _, gu, gv = bend(X, i, j, k, kind, parameters, p, dim, like)
            add(F, i, dim, gu)
            add(F, j, dim, minus(gv, gu))
            add(F, k, dim, scaled(-1.0, gv))
