"""Projections of freely jointed linear chains that move: RATTLE, and the Fixman force.

Bond k, from 0, joins joints k and k + 1: bond k + 1 of `freely_jointed`.  ``w`` and ``m`` are
inverse masses and masses of the joints in a unit that makes w L² of order 1: no determinant
overflows within `STRIDE` bonds.

With bonds e where a drift begins, b on the way, u = b / L at its end RATTLE (Andersen 1983) takes

    positions    A λ = ½ (L² − b²) ,   x ← x + M⁻¹ B(x₀)ᵀ λ , again and again ,               (1)
                 A_kk = (w_k + w_{k+1}) b_k·e_k ,  A_kj = −w b_k·e_j , j = k ± 1, w between them
    velocities   H λ = −u·(v_{k+1} − v_k) ,   v ← v + M⁻¹ Bᵀ λ ,  H as A of u and u ,         (2)

where Bᵀ λ is e_k λ_k (u_k λ_k) on joint k + 1 and minus that on joint k.  `shake` is (1); `factor`
and `project` are (2).

Both tridiagonal matrices are eliminated without a division in the recurrence.  Leading minors of A

    D_k = A_kk D_{k−1} − A_{k,k−1} A_{k−1,k} D_{k−2}                                          (3)

have D_{k−1} / D_k for the reciprocal of the pivot, so that the division of one bond overlaps with
those of its neighbours.  The pivots of H are sums of positive terms.  Steps are 3 to 4.4 times
faster than those of `general_steps`, in lanes 2.6 to 3.6.
"""

from collections import namedtuple

from fixman.kernels.algebra import vectors as vec
from fixman.kernels.algebra.vectors import fused_dot, minus, put_vector, scaled, vector
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import beyond, exact, exact_arrays, fma, ln, load, memory, store
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.sparse import LN2, multiplied
from fixman.kernels.factors.tridiagonal import inverse_before, joined

STRIDE = 16  # bonds between two scalings of the minors
ITERATIONS = 12  # Newton's method needs two or three where there is a solution near


class Jointed(namedtuple("Jointed", "w m axes")):
    """Constants of the joints: ``w`` and ``m`` (bonds + 1,) scaled as described above."""


class Room(namedtuple("Room", "half shrink u inverse g z")):
    """Memory of the bonds, with λ_k = z_k + g_{k+1} λ_{k+1}; u and g have a 0 at both ends.

    half, shrink, inverse : ½ L², 1/L, 1/d
    u, g : u_k at k + 1, g_k of `freely_jointed` at k
    """


@exact_arrays
def room(system, targets, like):
    bonds = system.w.size - 1
    half, shrink = memory(bonds, like), memory(bonds, like)
    for k in range(bonds):
        length = lane.take(targets, k, bonds, like)
        store(half, k, 0.5 * length * length)
        store(shrink, k, 1.0 / length)
    u = memory(3 * (bonds + 2), like)
    return Room(half, shrink, u, memory(bonds, like), memory(bonds + 1, like), memory(bonds, like))


@exact_step
def direction(room, k, like):
    """u_k, nothing before the first bond and after the last."""
    return vector(room.u, k + 1, vec.SPACE, like)


# --- positions (1) -------------------------------------------------------------------------------


@exact_step
def following(X, k, before, axes, like):
    x = vector(X, k, axes, like)
    return x, minus(x, before)


@exact_step
def eliminated(minors, y, w0, w1, b, e, before, r):
    """Leading minors (3), the pivot's reciprocal and y = L⁻¹ r over the pivots, r a residual."""
    D0, D1, coupling = minors
    lower = w0 * fused_dot(b, before)  # −A_{k,k−1}
    diagonal = (w0 + w1) * fused_dot(b, e)  # A_kk
    D = fma(diagonal, D1, -((lower * coupling) * D0))
    inverse = 1.0 / D
    reciprocal = D1 * inverse  # of the pivot, D_{k−1} / D_k
    return D, inverse, reciprocal, reciprocal * fma(lower, y, r)


@exact_step
def shift(V, k, factor, step, axes, like):
    put_vector(V, k, axes, vec.along(factor, step, vector(V, k, axes, like)))


@exact_step
def excess(change, limit, half, step, step1):
    """How far |δb|² goes beyond limit · ½ L²; the largest so far."""
    d = minus(step1, step)
    return lane.larger(fma(-limit, half, fused_dot(d, d)), change)


@exact
def eliminate(system, room, X0, X, far, like):
    """Eliminate A outwards; return the smallest minor."""
    w, axes = system.w, system.axes
    bonds = w.size - 1
    zero = 0.0 * like
    smallest = one = zero + 1.0
    x, b = following(X, 1, vector(X, 0, axes, like), axes, like)
    x0, e = following(X0, 1, vector(X0, 0, axes, like), axes, like)
    before = zero, zero, zero  # e of the bond before
    D0, D1 = zero, one
    y = coupling = zero  # −A_{k−1,k}
    for first in range(0, bonds, STRIDE):
        for k in range(first, min(first + STRIDE, bonds)):
            half = load(room.half, k, like)
            r = fma(-0.5, fused_dot(b, b), half)
            if far:  # |b| (L − |b|)
                length = lane.root(fused_dot(b, b))
                r *= (length + length) / (length + lane.root(half + half))
            minors = D0, D1, coupling
            D, inverse, reciprocal, y = eliminated(minors, y, w[k], w[k + 1], b, e, before, r)
            smallest = lane.smaller(D, smallest)
            store(room.z, k, y)
            before = e
            if k + 1 < bonds:
                x0, e = following(X0, k + 2, x0, axes, like)
                coupling = w[k + 1] * fused_dot(b, e)
                store(room.g, k + 1, reciprocal * coupling)
                x, b = following(X, k + 2, x, axes, like)
            D0, D1 = D1, D
        D0, D1 = D0 * inverse, one
    return smallest


@exact
def push_back(system, room, X0, X, V, scales, busy, like):
    """λ by back substitution; moves X, and V by a rate; how far |δb|² goes beyond limit · ½ L²."""
    w, axes = system.w, system.axes
    rate, limit = scales
    bonds = w.size - 1
    zero = 0.0 * like
    none = zero, zero, zero
    change = push = zero
    above = step1 = none  # e λ of bond k + 1, and the step of joint k + 2
    x1 = vector(X0, bonds, axes, like)
    for k in range(bonds - 1, -2, -1):
        here = none
        if k >= 0:
            push = fma(load(room.g, k + 1, like), push, load(room.z, k, like))
            x0 = vector(X0, k, axes, like)
            here = scaled(lane.choose(busy, push, zero), minus(x1, x0))
            x1 = x0
        step = scaled(w[k + 1], minus(here, above))
        shift(X, k + 1, 1.0, step, axes, like)
        shift(V, k + 1, rate, step, axes, like)
        if k + 1 < bonds:
            change = excess(change, limit, load(room.half, k + 1, like), step, step1)
        above, step1 = here, step
    return change


@exact
def shake(system, room, X0, X, V, rate, limits, like):
    """X onto the manifold by (1); with one iteration allowed, X may be far from it.

    An iteration leaves an error of ½ |δb|²: it is over, without looking at the bonds again, where
    this is at most a tolerance times L².
    """
    tolerance, iterations = limits
    zero = 0.0 * like
    busy = lane.everywhere(like)
    lost = 0
    for _ in range(min(iterations, ITERATIONS)):
        smallest = eliminate(system, room, X0, X, iterations == 1, like)
        positive = busy & ~beyond(zero, smallest)
        lost |= busy & ~positive
        busy = positive
        change = push_back(system, room, X0, X, V, (rate, 4.0 * tolerance), busy, like)
        busy &= beyond(change, zero)
        if busy == 0:
            break
    return lost | busy


# --- velocities (2) ------------------------------------------------------------------------------


@exact
def factor(system, room, X, like):
    """Directions u of the bonds at X, and LDLᵀ of H of (2): 1/d_k and w_k u_{k−1}·u_k / d_{k−1}."""
    w, m, axes = system.w, system.m, system.axes
    bonds = w.size - 1
    zero = 0.0 * like
    one = zero + 1.0
    before = zero, zero, zero
    x = vector(X, 0, axes, like)
    p, q0, q, rho = w[0] + zero, zero, one, zero
    for first in range(0, bonds, STRIDE):
        for k in range(first, min(first + STRIDE, bonds)):
            x, d = following(X, k + 1, x, axes, like)
            u = scaled(load(room.shrink, k, like), d)
            put_vector(room.u, k + 1, vec.SPACE, u)
            store(room.g, k, rho * fused_dot(before, u))
            turn = vec.fused_cross(before, u)
            p, after = joined(p, q0, q, w[k] * fused_dot(turn, turn), m[k + 1])
            q0, q, inverse = q, after, 1.0 / after
            rho = q0 * inverse
            store(room.inverse, k, m[k + 1] * rho)
            before = u
        p, q0, q = p * inverse, q0 * inverse, one


@exact
def project(system, room, V, X, like):
    w, axes = system.w, system.axes
    bonds = w.size - 1
    v = vector(V, 0, axes, like)
    z = push = 0.0 * like
    for k in range(bonds):
        v1 = vector(V, k + 1, axes, like)
        z = fma(load(room.g, k, like), z, -fused_dot(direction(room, k, like), minus(v1, v)))
        store(room.z, k, load(room.inverse, k, like) * z)
        v = v1
    above = 0.0 * like, 0.0 * like, 0.0 * like  # u λ of bond k + 1
    for k in range(bonds - 1, -1, -1):
        push = fma(load(room.g, k + 1, like), push, load(room.z, k, like))
        here = scaled(push, direction(room, k, like))
        shift(V, k + 1, w[k + 1], minus(here, above), axes, like)
        above = here
    shift(V, 0, -w[0], above, axes, like)


# --- the metric ----------------------------------------------------------------------------------


@exact
def logdet(system, room, like):
    product, power = 0.0 * like + 1.0, 0.0 * like
    for k in range(room.inverse.size // lane.lanes(like)):
        product, power = multiplied(product, power, load(room.inverse, k, like))
    return -(LN2 * power + ln(product))


@exact
def add_metric_force(system, room, F, X, kT, like):
    """−½ kT ∂ ln det H / ∂x by (1) and (2) of `freely_jointed`, but for its part along the bonds.

    ∂c_k/∂b_k is (u_{k−1} − c_k u_k) / L_k, of which the second part pushes along the bond and is
    taken up by it, whatever its size.
    """
    w, axes = system.w, system.axes
    S = 0.0 * like
    after = 0.0 * like, 0.0 * like, 0.0 * like  # force on b_{k+1}
    for k in range(w.size - 2, -1, -1):
        S, beside = inverse_before(load(room.inverse, k, like), load(room.g, k + 1, like), S)
        f = scaled((kT * w[k + 1]) * beside, direction(room, k + 1, like))
        f = vec.along((kT * w[k]) * (load(room.g, k, like) * S), direction(room, k - 1, like), f)
        f = scaled(load(room.shrink, k, like), f)
        put_vector(F, k + 1, axes, vec.plus(vector(F, k + 1, axes, like), minus(f, after)))
        after = f
    put_vector(F, 0, axes, minus(vector(F, 0, axes, like), after))
