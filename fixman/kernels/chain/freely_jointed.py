"""ln det H^bb and the Fixman force of linear chains whose hard coordinates are exactly their bonds.

Bonds are numbered as in theory.md and `tridiagonal`: bond k = 1 … N joins joints k − 1 and k, of
inverse masses w_{k−1} and w_k, and has the direction u_k.  Joints are the beads, after the base
point (at the origin, w = 0) where the base is fixed.  With c_k = u_{k−1}·u_k, r_k = u_{k−1} × u_k
and s_k = |r_k|, H^bb (H^LL of Lee & Chirikjian 2005, eq. 23) is tridiagonal, and its pivots d_k
have no subtraction (theory.md section 3).  From the last bond on S = (H^bb)⁻¹ follows, S_kk as a
sum of positive terms, with g_k = w_k c_{k+1} / d_k,

    S_kk = 1/d_k + g_k² S_{k+1,k+1} ,   S_{k,k+1} = g_k S_{k+1,k+1} ,                       (1)

and with it the force of ½ kT ln det H^bb (theory.md section 4),

    F = kT Σ_{k>1} w_{k−1} S_{k−1,k} ∇c_k ,   of bonds b_k = L_k u_k
    ∂c_k/∂b_k = −r_k × u_k / L_k ,   ∂c_k/∂b_{k−1} = r_k × u_{k−1} / L_{k−1} .              (2)

Sines come from rounded bonds, or where masses are `uneven` from positions, to full precision.
Where masses differ by 1e8 and bends are of 1e-6 `hard` would leave seven decimals of ln det, for
1e12 three; here it is exact to rounding.  Forces are 3 to 3.9 times faster than there.
"""

import math

from fixman.kernels import jit
from fixman.kernels.algebra.triples import load3, store_all
from fixman.kernels.algebra.vectors import cross, dot, minus, plus, put_states, scaled, states_of
from fixman.kernels.chain.hard import aligned
from fixman.kernels.chain.rows import measurable
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import exact, exact_kernel, fma, lanes, load, put
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.sparse import LN2, multiplied
from fixman.kernels.factors.tridiagonal import inverse_before, onward

UNEVEN = 1e4  # ratio of masses; rounded sines cost ln det up to eps √ratio a bond
# What `factored` leaves of bond k, from unit UNITS (k − 1) on: u_k, 1/L_k, g_{k−1}, 1/d_k and r_k.
U, SHRINK, G, INVERSE, BEND, UNITS = 0, 3, 4, 5, 6, 9


@exact_step
def remainder(d, a, b):
    """a − b − d for the rounded difference d of two vectors, exactly."""
    t = minus(d, a)
    return minus(minus(a, minus(d, t)), plus(b, t))


@exact_step
def accurate_cross(a, alow, b, blow):
    """a × b to full relative precision, low parts included; in the plane its one component."""
    found = []
    for i, j in ((0, 1),) if len(a) == 2 else ((1, 2), (2, 0), (0, 1)):
        p, q = a[i] * b[j], a[j] * b[i]
        rounding = fma(a[i], b[j], -p) - fma(a[j], b[i], -q)
        low = fma(a[i], blow[j], -(a[j] * blow[i])) + fma(alow[i], b[j], -(alow[j] * b[i]))
        found.append((p - q) + (rounding + low))
    return tuple(found)


@jit
def uneven(w, fixed):
    """Whether masses differ so much that the rounding of sines, of order eps, may show."""
    first = int(fixed)
    least = most = w[first]
    for k in range(first, w.size):
        least, most = min(least, w[k]), max(most, w[k])
    return most > UNEVEN * least


@exact
def factored(x, at, stride, chain, apart, work, like):
    """Store LDLᵀ in ``work``; if that is None, return ln det H^bb.

    NaN where a bond cannot be measured.  ``chain`` are w of the joints, a zero for each axis, and
    whether the base is fixed; bends are exact where ``apart``.
    """
    w, axes, fixed = chain
    zero = 0.0 * like
    none = (zero, zero, zero)
    before = none
    if not fixed:
        before = states_of(x, at, stride, axes, like)
        at += len(axes)
    u0 = d0 = low0 = low = none
    shrink0 = ratio = inverse = power = zero
    product = zero + 1.0
    e = zero + w[0]
    for k in range(w.size - 1):  # of bond k + 1
        here = states_of(x, at, stride, axes, like)
        at += len(axes)
        d = minus(here, before)
        if apart:
            low = remainder(d, here, before)
        before = here
        square = dot(d, d)
        if not measurable(square):
            return zero + math.nan
        shrink = 1.0 / lane.root(square)
        u = scaled(shrink, d)
        r = cross(u0, u)
        if apart:
            r = scaled(shrink0 * shrink, accurate_cross(d0, low0, d, low))
        if k > 0:
            e = onward(e, w[k], inverse, dot(r, r))
        inverse = 1.0 / (w[k + 1] + e)
        if work is None:
            product, power = multiplied(product, power, inverse)
        else:
            store_all(work, UNITS * k, (*u, shrink, ratio * dot(u0, u), inverse, *r))
        ratio = w[k + 1] * inverse
        u0, d0, low0, shrink0 = u, d, low, shrink
    return -(LN2 * power + lane.ln(product))


@exact
def put_force(chain, kT, work, out, at, stride, like):
    """The metric force, inwards from one bead past the last, ``at``; false if not finite."""
    w, axes, fixed = chain
    zero = 0.0 * like
    S = g = pull = check = zero
    r_next = on_next = (zero, zero, zero)
    for k in range(w.size - 2, -1, -1):  # (1) and (2), of bond k + 1
        S, _ = inverse_before(load(work, UNITS * k + INVERSE, like), g, S)
        u = load3(work, UNITS * k + U, like)
        r = load3(work, UNITS * k + BEND, like)
        a = scaled(pull, r_next)
        g = load(work, UNITS * k + G, like)
        if k > 0:
            pull = kT * (w[k] * (g * S))
            a = minus(a, scaled(pull, r))
        on_bond = scaled(load(work, UNITS * k + SHRINK, like), cross(a, u))
        force = minus(on_bond, on_next)
        at -= len(axes)
        put_states(out, at, stride, axes, force)
        check += 0.0 * force[0] + 0.0 * force[1] + 0.0 * force[2]
        r_next, on_next = r, on_bond
    if not fixed:
        put_states(out, at - len(axes), stride, axes, scaled(-1.0, on_next))
    return lane.above(1.0 + zero, check)


@exact_kernel
def metric_frames(x, chain, kT, first, last, out, memory, states):
    """Fixman forces of flat frames, or where kT is None ln det H^bb, as `hard.metric_frames`."""
    like = lane.zeros(states)
    w, axes, fixed = chain
    size = (w.size - fixed) * len(axes)
    apart, work = uneven(w, fixed), aligned(memory)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        at = frame * size
        if kT is None:
            logdet = factored(x, at, size, chain, apart, None, like)
            found = lane.above(1.0 + 0.0 * like, 0.0 * logdet)
            put(out, frame, 1, logdet)
        else:
            good = factored(x, at, size, chain, apart, work, like)
            found = lane.above(1.0 + 0.0 * like, good)
            found = found and put_force(chain, kT, work, out, at + size, size, like)
        if not found:
            return frame
    return -1
