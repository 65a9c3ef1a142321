"""ln det H^bb and the Fixman force of linear chains whose hard coordinates are exactly their bonds.

Bond k, from 0, joins joints k and k + 1, of inverse masses w_k and w_{k+1}, and has the direction
u_k; joints are the beads, behind the base point (at the origin, w = 0) where the base is fixed.
With the bend r_k = u_{k−1} × u_k between bonds, |r_k| = s_k, H^bb is tridiagonal (theory.md
section 3),

    H_kk = w_k + w_{k+1} ,   H_{k−1,k} = −w_k u_{k−1}·u_k ,                                 (1)

and its pivots have no subtraction,

    d_k = w_{k+1} + e_k ,   e_k = (w_k / d_{k−1}) (e_{k−1} + w_k s_k²) ,   e_0 = w_0 .      (2)

From the last bond on S = (H^bb)⁻¹ follows, as positive terms with g_k = w_{k+1} u_k·u_{k+1} / d_k,

    S_kk = 1/d_k + g_k² S_{k+1,k+1} ,   S_{k,k+1} = g_k S_{k+1,k+1} ,                       (3)

and with it the force of ½ kT ln det H^bb,

    F = kT Σ_k w_k S_{k−1,k} ∇(u_{k−1}·u_k) ,   ∂(u_{k−1}·u_k)/∂d_k = −r_k × u_k / L_k .    (4)

Sines come from rounded bonds unless masses are `uneven`: then ln det and the force hang on sines
far below the rounding of a cross product, and take them from positions without any rounding.  Where
masses differ by 1e8 and bends are of 1e-6 `hard` would leave seven decimals of ln det, where they
differ by 1e12 three; here it is exact to rounding.  Forces are 3 to 3.9 times faster than there.
"""

from __future__ import annotations

from fixman.kernels import jit
from fixman.kernels.algebra.triples import load3, store3
from fixman.kernels.algebra.vectors import cross, dot, minus, scaled
from fixman.kernels.chain.hard import aligned
from fixman.kernels.chain.rows import measurable
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import exact, exact_entry, exact_kernel, fma, lanes, load, put
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.sparse import LN2, multiplied
from fixman.kernels.factors.tridiagonal import inverse_before, onward

UNEVEN = 1e4  # ratio of masses: an error of ln det, per bond, of eps times its square root
# What `factored` leaves of a bond: u, 1/L, g of the bond before, 1/d and r.
U, SHRINK, G, INVERSE, TURN, UNITS = 0, 3, 4, 5, 6, 9


# --- differences and products without rounding ---------------------------------------------------


@exact_step
def two_rest(s, a, b):
    t = s - a
    return (a - (s - t)) - (b + t)


@exact_step
def two_difference(a, b):
    """a − b as a rounded value and its exact remainder."""
    s = a - b
    return s, two_rest(s, a, b)


@exact_step
def remainder(d, a, b):
    """a − b − d for the rounded difference d of two vectors, exactly."""
    return two_rest(d[0], a[0], b[0]), two_rest(d[1], a[1], b[1]), two_rest(d[2], a[2], b[2])


@exact_step
def accurate_cross(a, alow, b, blow):
    """a × b to full relative precision, low parts of the vectors included; 0 if parallel."""
    p = a[0] * b[1]
    q = a[1] * b[0]
    rounding = fma(a[0], b[1], -p) - fma(a[1], b[0], -q)
    low = fma(a[0], blow[1], -(a[1] * blow[0])) + fma(alow[0], b[1], -(alow[1] * b[0]))
    return (p - q) + (rounding + low)


@exact_step
def accurate_cross3(a, alow, b, blow):
    x = accurate_cross((a[1], a[2]), (alow[1], alow[2]), (b[1], b[2]), (blow[1], blow[2]))
    y = accurate_cross((a[2], a[0]), (alow[2], alow[0]), (b[2], b[0]), (blow[2], blow[0]))
    z = accurate_cross((a[0], a[1]), (alow[0], alow[1]), (b[0], b[1]), (blow[0], blow[1]))
    return x, y, z


@exact_step
def bend(d0, low0, r0, d, low, r):
    """u₀ × u to full relative precision: of bonds with their low parts and inverse lengths."""
    return scaled(r0 * r, accurate_cross3(d0, low0, d, low))


# --- the factor ----------------------------------------------------------------------------------


@jit
def uneven(links):
    """Whether masses differ so much that the rounding of sines, of order eps, may show."""
    w, m = links
    lightest = heaviest = 0.0
    for k in range(w.size):
        lightest = w[k] if w[k] > lightest else lightest
        heaviest = m[k] if m[k] > heaviest else heaviest
    return lightest * heaviest > UNEVEN


@exact
def position(x, at, stride, dim, like):
    z = lane.take(x, at + 2, stride, like) if dim == 3 else 0.0 * like
    return lane.take(x, at, stride, like), lane.take(x, at + 1, stride, like), z


@exact
def put_position(x, at, stride, dim, value):
    put(x, at, stride, value[0])
    put(x, at + 1, stride, value[1])
    if dim == 3:
        put(x, at + 2, stride, value[2])


@exact_entry
def factored(x, at, stride, chain, apart, work, like):
    """Bends and LDLᵀ by (2), outwards; false if a bond cannot be measured.

    ``chain`` are w, the dimension, and whether the base is fixed.
    """
    w, dim, fixed = chain
    zero = 0.0 * like
    before = (zero, zero, zero)
    if not fixed:
        before = position(x, at, stride, dim, like)
        at += dim
    u0 = d0 = low0 = low = (zero, zero, zero)
    shrink0 = ratio = inverse = zero
    e = zero + w[0]
    for k in range(w.size - 1):
        here = position(x, at, stride, dim, like)
        at += dim
        d = minus(here, before)
        if apart:
            low = remainder(d, here, before)
        before = here
        square = dot(d, d)
        if not measurable(square):
            return False
        shrink = 1.0 / lane.root(square)
        u = scaled(shrink, d)
        turn = cross(u0, u)
        if apart:
            turn = bend(d0, low0, shrink0, d, low, shrink)
        if k > 0:
            e = onward(e, w[k], inverse, dot(turn, turn))
        inverse = 1.0 / (w[k + 1] + e)
        store3(work, UNITS * k + U, u)
        lane.store(work, UNITS * k + SHRINK, shrink)
        lane.store(work, UNITS * k + G, ratio * dot(u0, u))
        lane.store(work, UNITS * k + INVERSE, inverse)
        store3(work, UNITS * k + TURN, turn)
        ratio = w[k + 1] * inverse
        u0, d0, low0, shrink0 = u, d, low, shrink
    return True


@exact_kernel
def logdet_frames(x, given, first, last, out, memory, states):
    """ln det H^bb of flat frames, as `force_frames`."""
    like = lane.zeros(states)
    links, dim, fixed = given
    w, _ = links
    size = (w.size - fixed) * dim
    work = aligned(memory)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        found = factored(x, frame * size, size, (w, dim, fixed), uneven(links), work, like)
        product, power = 1.0 + 0.0 * like, 0.0 * like
        for k in range(w.size - 1):
            inverse = load(work, UNITS * k + INVERSE, like)
            product, power = multiplied(product, power, inverse)
        logdet = -(LN2 * power + lane.ln(product))
        if not (found and lane.above(1.0 + 0.0 * like, 0.0 * logdet)):
            return frame
        put(out, frame, 1, logdet)
    return -1


# --- the force -----------------------------------------------------------------------------------


@exact
def put_force(chain, kT, work, out, at, stride, like):
    """The force by (3) and (4), inwards; false if something is not finite.

    ``pull`` is kT w S, and a × u / L the force on the outer end of a bond.  ``at`` is one bead
    behind the last.
    """
    w, dim, fixed = chain
    zero = 0.0 * like
    S = g = pull = check = zero
    turn_outer = pull_outer = (zero, zero, zero)
    for k in range(w.size - 2, -1, -1):
        S, _ = inverse_before(load(work, UNITS * k + INVERSE, like), g, S)
        u = load3(work, UNITS * k + U, like)
        turn = load3(work, UNITS * k + TURN, like)
        a = scaled(pull, turn_outer)
        g = load(work, UNITS * k + G, like)
        if k > 0:
            pull = kT * (w[k] * (g * S))
            a = minus(a, scaled(pull, turn))
        pull_here = scaled(load(work, UNITS * k + SHRINK, like), cross(a, u))
        force = minus(pull_here, pull_outer)
        at -= dim
        put_position(out, at, stride, dim, force)
        check += 0.0 * force[0] + 0.0 * force[1] + 0.0 * force[2]
        turn_outer = turn
        pull_outer = pull_here
    if not fixed:
        put_position(out, at - dim, stride, dim, scaled(-1.0, pull_outer))
    return lane.above(1.0 + zero, check)


@exact_kernel
def force_frames(x, given, kT, first, last, out, memory, states):
    """Fixman forces of flat frames; the first without an answer, or of eight with one, or -1.

    ``given`` are w and masses of the joints, the dimension, and whether the base is fixed.
    """
    like = lane.zeros(states)
    links, dim, fixed = given
    w, _ = links
    size = (w.size - fixed) * dim
    chain = w, dim, fixed
    work = aligned(memory)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        at = frame * size
        if not factored(x, at, size, chain, uneven(links), work, like):
            return frame
        if not put_force(chain, kT, work, out, at + size, size, like):
            return frame
    return -1
