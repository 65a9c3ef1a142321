"""Energies and forces of chain models, for one chain or for eight in lanes.

Kernels are generic over ``like``, a finite float or eight lanes (see `lanes`): positions X and
forces F are flat arrays of units, component a of bead k in unit k·dim + a, and what they do has
the same rounding in either kind.  `Tables` holds everything that does not depend on positions;
`workspace` makes what does.

    work = workspace(tables, n, dim, like)
    work = add_forces(X, F, n, dim, tables, work, like)     # F += −∂U/∂x
    U, work = energy(X, n, dim, tables, work, like)

Neighbour lists are in ``work`` and are brought up to date by the calls, so take what is returned.
A configuration without an answer, coincident beads for example, leaves values that are not finite.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.np.numpy_support import carray

from fixman.kernels.geometry import SMALLEST_SINE
from fixman.kernels.lanes import (
    EIGHT,
    _cast,
    eight,
    entry,
    exact,
    exact_kernel,
    fma,
    intrinsic,
    lane,
    lanes,
    load,
    put,
    root,
    store,
    take,
)
from fixman.kernels.neighbours import Neighbours, no_lists, refresh

# Bonded terms.  A row of parameters holds, for bends, stiffness k, θ₀, cos θ₀ and sin θ₀; for
# torsions, the order M, a₀ and the pairs a_m, b_m of Σ a_m cos mφ + b_m sin mφ; for torsions
# combined with their bends, a₀ … a₃ of sin³θ sin³θ′ Σ a_m cosᵐ φ.
COSINE, HARMONIC, SQUARED, TORSION, COMBINED = range(5)
ORDER = 6
WIDTH = 2 + 2 * ORDER
# Of pairs: squared cutoff over σ², energy there over ε, slope there over ε/σ, how far the neighbour
# lists reach, and the skin that is in it.
PAIR_WIDTH = 5

SMALLEST_SQUARE = SMALLEST_SINE**2


class Tables(NamedTuple):
    """A potential as the kernels read it.

    kinds (T,), beads (T · 4,), types (T,) : bonded terms and the rows of ``parameters`` they use;
        beads −1, −2, −3 are the points x₀, x₋₁, x₋₂ of a fixed base
    parameters (P · WIDTH,)
    field (n · d,) or (0,) : constant forces
    tethered (K,), tethers (K · 4,) : beads on springs; the points that these lead to, and stiffness
    sizes (n,), depths (n,) : σ/2 and √ε of each bead; empty without pairs
    pair (PAIR_WIDTH,)
    excluded_first (n + 1,), excluded : pairs i < j that do not act, the j of each i
    external (E,) : addresses of functions (double* x, double* out, int64 n, int64 d) of one chain
    """

    kinds: np.ndarray[Any, np.dtype[np.int8]]
    beads: np.ndarray[Any, np.dtype[np.int32]]
    types: np.ndarray[Any, np.dtype[np.int32]]
    parameters: np.ndarray[Any, np.dtype[np.float64]]
    field: np.ndarray[Any, np.dtype[np.float64]]
    tethered: np.ndarray[Any, np.dtype[np.int32]]
    tethers: np.ndarray[Any, np.dtype[np.float64]]
    sizes: np.ndarray[Any, np.dtype[np.float64]]
    depths: np.ndarray[Any, np.dtype[np.float64]]
    pair: np.ndarray[Any, np.dtype[np.float64]]
    excluded_first: np.ndarray[Any, np.dtype[np.int32]]
    excluded: np.ndarray[Any, np.dtype[np.int32]]
    external: np.ndarray[Any, np.dtype[np.int64]]


class Work(NamedTuple):
    """What changes with the positions: neighbour lists, and a copy of one chain for callbacks."""

    lists: Neighbours
    copy: np.ndarray[Any, np.dtype[np.float64]]


# --- vectors ------------------------------------------------------------------------------------


@intrinsic
def pick(typing: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    """Return a where x > y, else b, lane by lane."""
    kind = EIGHT if EIGHT in (x, y, a, b) else types.float64

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.return_type is EIGHT:
            values = [_cast(context, builder, *pair) for pair in zip(args, sig.args, strict=True)]
        else:
            values = [
                context.cast(builder, value, given, types.float64)
                for value, given in zip(args, sig.args, strict=True)
            ]
        return builder.select(builder.fcmp_ordered(">", *values[:2]), *values[2:])

    return kind(x, y, a, b), lower


@intrinsic
def call(typing: Any, address: Any, x: Any, n: Any, dim: Any) -> Any:
    """Call the function at an address: positions ``x[: n d]`` in, forces ``x[n d : 2 n d]`` out."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at, x, n, dim = args
        pointer, whole = ir.DoubleType().as_pointer(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, whole, whole])
        data = context.make_array(sig.args[1])(context, builder, x).data
        out = builder.gep(data, [builder.mul(n, dim)])
        builder.call(builder.inttoptr(at, kind.as_pointer()), [data, out, n, dim])
        return context.get_dummy_value()

    return types.void(types.int64, x, types.int64, types.int64), lower


def compiled_address(force: Any) -> tuple[int, Any]:
    """Return the address of a compiled ``force(x, out)``, for `call`, and what keeps it alive."""
    if not isinstance(force, numba.core.dispatcher.Dispatcher):
        raise TypeError(
            f"force must be compiled by numba.njit, got {type(force).__name__}: an object with "
            "energy(x) and force(x) in plain Python is a potential without Compiled"
        )
    pointer = types.CPointer(types.float64)

    def function(x: Any, out: Any, n: Any, dim: Any) -> None:
        force(carray(x, (n, dim)), carray(out, (n, dim)))

    signature = types.void(pointer, pointer, types.int64, types.int64)
    compiled: Any = numba.cfunc(signature)(function)
    return compiled.address, compiled


@exact
def cross(a, b):
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@exact
def dot(a, b):
    return fma(a[0], b[0], fma(a[1], b[1], a[2] * b[2]))


@exact
def scaled(s, a):
    return s * a[0], s * a[1], s * a[2]


@exact
def minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@exact
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
    ru = 1.0 / root(dot(u, u))
    rv = 1.0 / root(dot(v, v))
    u = scaled(ru, u)
    v = scaled(rv, v)
    c = dot(u, v)
    w = cross(u, v)
    if dim == 2:
        energy, slope = turned(kind, c, w[2], parameters, p)
        zero = like * 0.0
        return (
            energy,
            (slope * ru * u[1], -(slope * ru * u[0]), zero),
            (-(slope * rv * v[1]), slope * rv * v[0], zero),
        )
    s = root(dot(w, w))
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
    vv = dot(v, v)
    lv = root(vv)
    m = cross(u, v)
    n = cross(v, r)
    mm = dot(m, m)
    nn = dot(n, n)
    # In line there is no torsion, and a tiny sine is nothing but rounding.
    mm = pick(mm, SMALLEST_SQUARE * (dot(u, u) * vv), mm, 0.0)
    nn = pick(nn, SMALLEST_SQUARE * (dot(r, r) * vv), nn, 0.0)
    norm = 1.0 / (root(mm) * root(nn))
    energy, slope = series(dot(m, n) * norm, lv * dot(u, n) * norm, parameters, p)
    first = scaled(slope * (lv / mm), m)
    last = scaled(-slope * (lv / nn), n)
    p1 = dot(u, v) / vv
    q1 = dot(r, v) / vv
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
    return scaled(1.0 / length, combined(1.0, g, -dot(g, e), e))


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
    lu, lv, lr = root(dot(u, u)), root(dot(v, v)), root(dot(r, r))
    u = scaled(1.0 / lu, u)
    v = scaled(1.0 / lv, v)
    r = scaled(1.0 / lr, r)
    m = cross(u, v)
    n = cross(v, r)
    mm = dot(m, m)
    nn = dot(n, n)
    D = dot(m, n)
    P = root(mm) * root(nn)
    cosine = pick(P, 0.0, D / P, 0.0)
    a0, a1, a2, a3 = parameters[p], parameters[p + 1], parameters[p + 2], parameters[p + 3]
    energy = a0 * P * P * P + a1 * D * P * P + a2 * D * D * P + a3 * D * D * D
    by_D = a1 * P * P + 2.0 * a2 * D * P + 3.0 * a3 * D * D
    by_P = 3.0 * a0 * P + 2.0 * a1 * D + a2 * D * cosine  # over P
    a = combined(by_D, n, by_P * nn, m)
    b = combined(by_D, m, by_P * mm, n)
    gu = across(u, lu, cross(v, a))
    ga, gb = cross(a, u), cross(r, b)
    gv = across(v, lv, (ga[0] + gb[0], ga[1] + gb[1], ga[2] + gb[2]))
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


# --- pairs --------------------------------------------------------------------------------------


@exact
def lennard_jones(square, i, j, tables):
    """Energy of a pair and force over distance, −U′(r)/r, from the squared distance; else 0."""
    pair = tables.pair
    size = tables.sizes[i] + tables.sizes[j]
    ratio = square / (size * size)
    if not ratio < pair[0]:
        return 0.0, 0.0
    depth = tables.depths[i] * tables.depths[j]
    sixth = 1.0 / (ratio * ratio * ratio)
    energy = 4.0 * sixth * (sixth - 1.0) - pair[1]
    pull = 24.0 * sixth * (2.0 * sixth - 1.0) / ratio
    if pair[2] != 0.0:
        r = math.sqrt(ratio)
        energy -= pair[2] * (r - math.sqrt(pair[0]))
        pull += pair[2] / r
    return depth * energy, depth / (size * size) * pull


@exact
def pair_forces(X, F, n, dim, width, tables, lists):
    for lane in range(width):
        partners = lists.partners[lane]
        for i in range(n):
            at = i * dim * width + lane
            x = X[at]
            y = X[at + width]
            z = X[at + 2 * width] if dim == 3 else 0.0
            fx = fy = fz = 0.0
            for place in range(lists.first[lane, i], lists.first[lane, i + 1]):
                j = partners[place]
                to = j * dim * width + lane
                dx = x - X[to]
                dy = y - X[to + width]
                dz = z - X[to + 2 * width] if dim == 3 else 0.0
                square = dx * dx + dy * dy + dz * dz
                _, pull = lennard_jones(square, i, j, tables)
                if pull != 0.0:
                    fx += pull * dx
                    fy += pull * dy
                    fz += pull * dz
                    F[to] -= pull * dx
                    F[to + width] -= pull * dy
                    if dim == 3:
                        F[to + 2 * width] -= pull * dz
            F[at] += fx
            F[at + width] += fy
            if dim == 3:
                F[at + 2 * width] += fz


@exact
def pair_energy(X, n, dim, width, lane, tables, lists):
    total = 0.0
    for i in range(n):
        for place in range(lists.first[lane, i], lists.first[lane, i + 1]):
            j = lists.partners[lane, place]
            square = 0.0
            for a in range(dim):
                away = X[(i * dim + a) * width + lane] - X[(j * dim + a) * width + lane]
                square += away * away
            energy, _ = lennard_jones(square, i, j, tables)
            total += energy
    return total


# --- everything ---------------------------------------------------------------------------------


@exact_kernel
def workspace(tables, n, dim, like):
    """Make the neighbour lists, empty as yet, and the copy for callbacks."""
    lists = no_lists(n, dim, lanes(like), tables.sizes.size > 0)
    return Work(lists, np.empty(2 * n * dim if tables.external.size else 0))


@exact
def current(X, n, dim, tables, work, width):
    """Return the work with neighbour lists that hold for X."""
    if tables.sizes.size == 0:
        return work
    first, _, where, known, heads, following, cells = work.lists
    partners = refresh(
        X, work.lists, n, dim, width, tables.pair[3], tables.pair[4],
        tables.excluded_first, tables.excluded,
    )  # fmt: skip
    lists = Neighbours(first, partners, where, known, heads, following, cells)
    return Work(lists, work.copy)


@exact_kernel
def add_forces(X, F, n, dim, tables, work, like):
    """F += −∂U/∂x; return the work, to be passed to the next call."""
    width = lanes(like)
    for m in range(tables.field.size):
        store(F, m, load(F, m, like) + tables.field[m])
    add_bonded(X, F, dim, tables, like)
    for t in range(tables.tethered.size):
        k = tables.tethers[4 * t + 3]
        for a in range(dim):
            m = tables.tethered[t] * dim + a
            store(F, m, load(F, m, like) - k * (load(X, m, like) - tables.tethers[4 * t + a]))
    if tables.sizes.size:
        work = current(X, n, dim, tables, work, width)
        pair_forces(X, F, n, dim, width, tables, work.lists)
    copy = work.copy
    for e in range(tables.external.size):
        for lane in range(width):
            for m in range(n * dim):
                copy[m] = X[m * width + lane]
                copy[n * dim + m] = 0.0
            call(tables.external[e], copy, n, dim)
            for m in range(n * dim):
                F[m * width + lane] += copy[n * dim + m]
    return work


@exact_kernel
def energy(X, n, dim, tables, work, like):
    """U, without that of external functions, and the work."""
    width = lanes(like)
    total = like * 0.0
    for m in range(tables.field.size):
        total = total - tables.field[m] * load(X, m, like)
    for t in range(tables.kinds.size):
        kind = tables.kinds[t]
        p = WIDTH * tables.types[t]
        beads = tables.beads
        if kind >= TORSION:
            total = total + four_beads(kind, X, beads, 4 * t, tables.parameters, p, dim, like)[0]
        else:
            i, j, k = beads[4 * t], beads[4 * t + 1], beads[4 * t + 2]
            total = total + bend(X, i, j, k, kind, tables.parameters, p, dim, like)[0]
    for t in range(tables.tethered.size):
        for a in range(dim):
            away = load(X, tables.tethered[t] * dim + a, like) - tables.tethers[4 * t + a]
            total = total + 0.5 * tables.tethers[4 * t + 3] * away * away
    if tables.sizes.size:
        work = current(X, n, dim, tables, work, width)
        extra = np.empty(width)
        for lane in range(width):
            extra[lane] = pair_energy(X, n, dim, width, lane, tables, work.lists)
        total = total + load(extra, 0, like)
    return total, work


@exact
def all_forces(x, n, dim, tables, out, like):
    width = lanes(like)
    size = n * dim
    X = np.empty(size * width)
    F = np.empty(size * width)
    work = workspace(tables, n, dim, like)
    for first in range(0, out.size // size, width):
        check = like * 0.0
        for m in range(size):
            value = take(x, first * size + m, size, like)
            store(X, m, value)
            store(F, m, like * 0.0)
            check = check + 0.0 * value
        work = add_forces(X, F, n, dim, tables, work, like)
        for m in range(size):
            value = load(F, m, like)
            put(out, first * size + m, size, value)
            check = check + 0.0 * value
        for k in range(width):
            if lane(check, k) != 0.0:
                return first + k
    return -1


@exact
def all_energies(x, n, dim, tables, out, like):
    width = lanes(like)
    size = n * dim
    X = np.empty(size * width)
    work = workspace(tables, n, dim, like)
    for first in range(0, out.size, width):
        check = like * 0.0
        for m in range(size):
            value = take(x, first * size + m, size, like)
            store(X, m, value)
            check = check + 0.0 * value
        value, work = energy(X, n, dim, tables, work, like)
        put(out, first, 1, value)
        check = check + 0.0 * value
        for k in range(width):
            if lane(check, k) != 0.0:
                return first + k
    return -1


@exact_kernel
def force_frames(x, n, dim, tables, out):
    """Forces of configurations (frames · n · d,); the first frame without an answer, or −1."""
    return all_forces(x, n, dim, tables, out, 0.0)


@exact_kernel
def force_eights(x, n, dim, tables, out):
    """The same for frames in multiples of eight, faster."""
    return all_forces(x, n, dim, tables, out, eight(0.0))


@exact_kernel
def energy_frames(x, n, dim, tables, out):
    """Energies of configurations (frames · n · d,); the first frame without an answer, or −1."""
    return all_energies(x, n, dim, tables, out, 0.0)


@exact_kernel
def energy_eights(x, n, dim, tables, out):
    """The same for frames in multiples of eight, faster."""
    return all_energies(x, n, dim, tables, out, eight(0.0))
