"""Motion of linear chains whose hard coordinates are exactly their bonds, whatever their masses.

ẍ, λ and q̈ of theory.md section 3: Lee & Chirikjian (2005), eq. 12 (25 for the arm), with velocity
terms κ.  (1) to (3) are those of that section.

Bonds are numbered as in theory.md and `tridiagonal`: bond k = 1 … N joins joints k − 1 and k and
has the direction u_k.  Joints are the beads, after the base point (w = 0) where the base is fixed.
Joint k has the acceleration A, the inverse mass w = 1/m and all applied forces F, and between its
bonds, k and k + 1, are

    c = u_k·u_{k+1} ,   r = u_k × u_{k+1} ,   s = |r| ,   t = u_{k+1} − c u_k = r × u_k ,

c_{k+1} and s_{k+1} of theory.md.  In the plane r and s are the one number sin θ, t = s n_k, and a
vector across u_k is its component along the left normal n_k.

The chain is cut at bond k + 1 as in theory.md.  Of the inner half, where nothing pushes, A·u_k = Y;
Ȳ and ē are of the outer one.  Below A, Y, F, w and σ without an index are of joint k, ē and Ȳ of
joint k + 1, λ and κ of bond k + 1; F_⊥ is the part of F across u_k, F_t = F·t:

    A = (Y − w σ c λ) u_k + w (F_⊥ − t λ)
    D λ = c Y + w F_t − Ȳ − κ ,   D = ē + w (σ c² + s²)                                 (1)
    D A·u_k = Y (ē + w s²) − w σ c (w F_t − Ȳ − κ)                                      (2)
    D A_⊥ = w F_⊥ (ē + w σ c²) + w r (r·w F) − w t (c Y − Ȳ − κ) ,   r·F = 0 in the plane   (3)

1/D = ((H^LL)⁻¹)_{k+1,k+1}.  Both halves grow joint by joint.  If the chain ended with joint k + 1,
Ȳ would be w_{k+1} F_{k+1}·u_{k+1}, ē would be w_{k+1}, and D the pivot d_{k+1} = w_{k+1} + e_{k+1}
of `tridiagonal`, e_{k+1} = w (σ c² + s²): Ȳ + ē λ is (4).  If the chain began with joint k, σ would
be 1 and Y = w F·u_k: A·u_k by (2) is (6), and (5) tells how it answers to a push along u_k.

    Y_{k+1} = σ_{k+1} w_{k+1} F_{k+1}·u_{k+1} + (w_{k+1}/d_{k+1}) (c Y + w F_t − κ)       (4)
    σ_k = e_k/d_k ,  σ_0 = 1 ;    ē_k = w (ē + w s²)/(w + ē)                              (5)
    Ȳ_k = c [ē w (c F·u_k + F_t) + w (Ȳ + κ)]/(w + ē) + w (s² F·u_k − c F_t)              (6)

In the plane the direction α of bond k + 1, of length L, and the angle θ at joint k have

    α̈_{k+1} = (A_{k+1}·n_{k+1} + s A·u_k − c A·n_k)/L − 2 α̇ L̇/L ,   θ̈ = α̈_{k+1} − α̈_k     (7)

Nothing here subtracts numbers with a common source, as w (F_⊥ − t λ) does for a light bead between
heavy ones: whatever the masses, ẍ is exact to rounding.  One sweep outwards gives σ and Y, one back
ē, Ȳ and the answer.  Divisions are put off as in `tridiagonal.joined`: `Inner` and `Outer` have
multiples of these numbers, and both are scaled down in time.

This is 4 to 12 times faster than `motion` with its q̈.  With masses 1 and 1e-12 by turns on a nearly
straight chain it leaves fifteen digits of ẍ, `motion` would eight.  The steps say which products
are fused: no digit hangs on a compiler.  Lee and Chirikjian's own route by blocks, eq. 13, is
``Partition.solve(method="lu")``; their e = (H^LL)⁻¹ d is −λ at rest.
"""

from collections import namedtuple

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import put_entries
from fixman.kernels.algebra.vectors import along, cross, fused_dot, minus, plus, scaled
from fixman.kernels.chain.freely_jointed import accurate_cross, remainder
from fixman.kernels.chain.rows import beside, measurable
from fixman.kernels.compiler.lanes import exact, fma, root
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.tridiagonal import joined

LARGE = 1e30  # so that products of two of them with masses can be formed


class Inner(namedtuple("Inner", "p S z before q")):
    """The inner half with bond k, before the forces on joint k are known.

    p, S : q_{k−1} e_k, and q_k σ_k = m_k p
    z : q_{k−1} (c Y + w F_t − κ), with c, Y, w and F_t of joint k − 1
    before, q : q_{k−1} and q_k, the q_{k+1} of theory.md and `joined`: 1/d_k = m_k q_{k−1}/q_k
    """


class Outer(namedtuple("Outer", "p b q")):
    """The outer half that begins with joint k: q ē, q Ȳ and q."""


class Joint(namedtuple("Joint", "wf_u wf c u r")):
    """Joint k, with u of bond k, c and r of its bend, w F·u_k and w F_⊥.

    In the plane r is (s,), with its sign.
    """


class Bond(namedtuple("Bond", "d low shrink u")):
    """A bond d = L u, what is rounded off d, 1/L and u."""


# --- the sweeps ----------------------------------------------------------------------------------
#
# Vectors have two or three components; those across u_k have one in the plane, along n_k.


@exact_step
def dot_plus(a, b, c):
    for k in range(len(a)):
        c = fma(a[k], b[k], c)
    return c


@exact_step
def crossed(a, b):
    return cross(a, b) if len(a) == 3 else (fma(a[0], b[1], -(a[1] * b[0])),)


@exact_step
def tangent(joint):
    return cross(joint.r, joint.u) if len(joint.u) == 3 else joint.r


@exact_step
def reduced(half):
    inverse = 1.0 / half.q
    return half._make([x * inverse for x in half])


@exact_step
def outward(inner, joint, w, mass, kappa):
    """The inner half with joint k and bond k + 1, to joint k + 1 of a ``mass``; q, q σ, q Y."""
    y = fma(inner.S, joint.wf_u, inner.z)  # q Y = q σ w F·u_k + …, (4)
    z = fma(joint.c, y, inner.q * dot_plus(tangent(joint), joint.wf, -kappa))  # of (4), for k + 1
    p, q = joined(inner.p, inner.before, inner.q, w * fused_dot(joint.r, joint.r), mass)
    return Inner(p, mass * p, z, inner.q, q), (inner.q, inner.S, y)  # (5)


@exact_step
def inward(outer, swept, joint, w, mass, kappa):
    """The tension −λ of bond k + 1, A·u_k and A_⊥ of joint k, and the outer half with joint k.

    ``swept`` are q, q σ and q Y of joint k; this q is called Q here.
    """
    (p, b, q), (Q, S, y) = outer, swept
    c, square, t = joint.c, fused_dot(joint.r, joint.r), tangent(joint)
    wf_t = fused_dot(t, joint.wf)
    turning = w * square  # w s²
    b = fma(q, kappa, b)  # q (Ȳ + κ)
    Q_wσc = w * S * c
    across = fma(q, turning, p)  # q (ē + w s²)
    along_u = fma(Q, p, q * (Q_wσc * c))  # Q q (ē + w σ c²)
    inverse = 1.0 / fma(Q * q, turning, along_u)  # 1/(Q q D)
    lack = fma(-q, wf_t, b)  # −q (w F_t − Ȳ − κ)
    tension = fma(Q, lack, -(q * (c * y))) * inverse  # (1)
    a_u = fma(y, across * inverse, (Q_wσc * inverse) * lack)  # (2)
    rest = fma(-Q, b, q * (c * y))  # Q q (c Y − Ȳ − κ)
    a = along(-(w * inverse) * rest, t, scaled(along_u * inverse, joint.wf))  # (3)
    if len(t) == 3:
        a = along((w * inverse) * ((Q * q) * fused_dot(joint.r, joint.wf)), joint.r, a)
    mp = mass * p  # ē/(w + ē) = m p/(q + m p) and w/(w + ē) = q/(q + m p)
    b = fma(mp, fma(c, joint.wf_u, wf_t), b)
    b = fma(c, b, (q + mp) * fma(square, joint.wf_u, -(c * wf_t)))  # (6)
    return tension, a_u, a, Outer(across, b, q + mp)  # (5)


@exact_step
def row(array, j, zero):
    return tuple(array[j, a] for a in range(len(zero)))


@exact_step
def at(array, k, zero):
    return tuple(array[k + a] for a in range(len(zero)))


@exact
def applied(force, j, zero):
    f = zero
    if force.size:
        f = row(force, j, zero)
    return f


@exact_step
def step_to(array, j, before):
    """Row j, the step to it from the row before, and what is rounded off that."""
    here = row(array, j, before)
    d = minus(here, before)
    return here, d, remainder(d, here, before)


@exact_step
def bond_to(x, v, j, point, velocity):
    """Point j, its velocity, and its bond; L², κ = |u × ḋ|²/L, and −2 α̇ L̇/L of (7)."""
    point, d, low = step_to(x, j, point)
    velocity, e, elow = step_to(v, j, velocity)
    square = fused_dot(d, d)
    shrink = 1.0 / root(square)
    turned = scaled(shrink, crossed(d, e))  # u × ḋ, in the plane L α̇
    kappa, rate = fused_dot(turned, turned) * shrink, 0.0
    if len(d) == 2:
        # L L̇ = d·ḋ is zero but for rounding where the velocities satisfy the constraints.  On
        # straight chains q̈ consists of it alone.
        (stretch,) = accurate_cross(d, low, (-e[1], e[0]), (-elow[1], elow[0]))
        rate = -2.0 * turned[0] * stretch * shrink * shrink * shrink
    return point, velocity, Bond(d, low, shrink, scaled(shrink, d)), square, kappa, rate


@exact_step
def begun(bond):
    """u_0, c and r of joint 0, where no bond ends: let u_0 be a direction across u_1."""
    u = bond.u
    u0 = beside(u)[0] if len(u) == 3 else (u[1], -u[0])
    return u0, 0.0, crossed(u0, u)


@exact_step
def bent(one, two):
    """u_k, c and r of joint k between two bonds, to full relative precision."""
    r = scaled(two.shrink * one.shrink, accurate_cross(one.d, one.low, two.d, two.low))
    return one.u, fused_dot(one.u, two.u), r


@exact_step
def loaded(bend, w, f, couples):
    """Joint k under F and, in the plane, h n_k and −h n_{k+1} of the couples on its bonds.

    n_{k+1} = c n_k − s u_k, so that −h n_{k+1} pushes along u_k too.
    """
    u, c, r = bend
    f_u = fused_dot(f, u)
    if len(u) == 3:
        return Joint(w * f_u, scaled(w, along(-f_u, u, f)), c, u, r)
    one, two = couples
    f_n = fma(-two, c, crossed(u, f)[0]) + one
    return Joint(w * fma(two, r[0], f_u), (w * f_n,), c, u, r)


@exact_step
def acceleration(a_u, a, u):
    return along(a_u, u, a if len(u) == 3 else (-a[0] * u[1], a[0] * u[0]))


@exact_step
def keep(work, k, swept, shrink, joint):
    put_entries(work, k, 0, (*swept, shrink, joint.wf_u, joint.c, *joint.wf, *joint.u, *joint.r))


@exact_step
def kept(work, k, zero):
    axes = len(zero)
    x = [work[k, i] for i in range(5 * axes)]
    end = 6 + (3 if axes == 3 else 1)  # of w F_⊥
    wf, rest = tuple(x[6:end]), tuple(x[end:])
    return tuple(x[:3]), x[3], Joint(x[4], wf, x[5], rest[:axes], rest[axes:])


@jit
def motion_frames(x, v, torque, force, zero, links, n, fixed, out):
    """Motion of every frame; the first without an answer, or -1.

    ``zero`` is a zero for each axis; ``torque`` and ``force`` may be empty, as torques are in
    space.  In the plane a torque h L on the direction α of a bond is a couple ±h n on its ends.
    ``out`` receives ẍ, the tensions, and in the plane q̈; until then κ, and −2 α̇ L̇/L of (7).
    """
    w, m = links
    dim, N = len(zero), w.size - 1
    plane = dim == 2
    lag = N + 1 - n  # joint k is bead k − lag of its frame
    first_angle = 0 if fixed else dim
    lengths = dim * n
    angles = lengths + N + first_angle
    work = np.empty((N, 5 * dim))
    for frame in range(out.shape[0]):
        bead = frame * n - lag
        first_torque = frame * (N + first_angle) + first_angle
        point = velocity = f = zero  # those of joint k
        if not fixed:
            point, velocity = row(x, bead, zero), row(v, bead, zero)
            f = applied(force, bead, zero)
            if torque.size:
                f = plus(f, at(torque, first_torque - dim, zero))
        h = 0.0
        inner = Inner(w[0], 1.0, 0.0, 0.0, 1.0)  # q = σ_0 = 1
        bond = Bond(zero, zero, 0.0, zero)
        for k in range(N):  # outwards, (4) and (5): joint k and bond k + 1
            before, h_before, h = bond, h, 0.0
            found = bond_to(x, v, bead + k + 1, point, velocity)
            point, velocity, bond, square, kappa, rate = found
            if not measurable(square):
                return frame
            if torque.size:  # τ of θ is a torque on the α of bond k + 1, and −τ on that of bond k
                following = torque[first_torque + k + 1] if k + 1 < N else 0.0
                h = (torque[first_torque + k] - following) * bond.shrink
            bend = bent(before, bond) if k > 0 else begun(bond)
            joint = loaded(bend, w[k], f, (h_before, h))
            inner, swept = outward(inner, joint, w[k], m[k + 1], kappa)
            keep(work, k, swept, bond.shrink, joint)
            if inner.q > LARGE:
                inner = reduced(inner)
            out[frame, lengths + k] = kappa
            if plane:
                out[frame, angles + k] = rate
            f = applied(force, bead + k + 1, zero)
        joint = loaded((bond.u, 0.0, bend[2]), w[N], f, (h, 0.0))  # joint N, where no bond begins
        a_u, outside = fma(inner.S, joint.wf_u, inner.z) / inner.q, joint.wf  # A·u_N = Y, A_⊥
        a = acceleration(a_u, outside, joint.u)
        put_entries(out, frame, dim * (N - lag), a)
        outer = Outer(w[N], joint.wf_u, 1.0)
        angle, check = 0.0, fused_dot(zero, a)  # which stays 0, or is NaN
        for k in range(N - 1, -1, -1):  # back, (1) to (3), (5) and (6): joint k and bond k + 1
            swept, shrink, joint = kept(work, k, zero)
            kappa = out[frame, lengths + k]
            tension, a_u, a, outer = inward(outer, swept, joint, w[k], m[k], kappa)
            if outer.q > LARGE:
                outer = reduced(outer)
            out[frame, lengths + k] = tension
            if plane:  # (7)
                after, rate = angle, out[frame, angles + k]
                turned = outside[0] + fma(joint.r[0], a_u, -(joint.c * a[0]))
                angle = fma(turned, shrink, rate)
                out[frame, angles + k] = angle
                if k + 1 < N:
                    out[frame, angles + k + 1] = after - angle
            else:
                check += fused_dot(a, zero)
            outside = a
            if k >= lag:  # joint k is a bead
                put_entries(out, frame, dim * (k - lag), acceleration(a_u, a, joint.u))
            check += 0.0 * (tension + a_u + angle)
        if plane and not fixed:
            put_entries(out, frame, angles - 2, row(out, frame, zero))
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1
