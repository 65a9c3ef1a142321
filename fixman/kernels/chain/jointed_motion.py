"""Motion of linear chains whose hard coordinates are exactly their bonds, whatever their masses.

ẍ, λ and q̈ of theory.md section 3: Lee & Chirikjian (2005), eq. 12 (25 for the arm), with velocity
terms κ.  Block by block, eq. 13, it is ``Partition.solve(method="lu")``.  Here e = (H^LL)⁻¹ d is
−λ at rest, (1), and q̈ = B_a ẍ + κ_a, with ẍ from (2) and (3), replaces c − f.

Bond k joins joints k − 1 and k and has the direction u_k.  Of joint k are the acceleration A, the
inverse mass w, and F, all that is applied; of the bend between bonds k and k + 1 c = u_k·u_{k+1}
and t = u_{k+1} − c u_k.  In the plane t = s n_k, with s = u_k × u_{k+1} and the left normal n_k; in
space t = r × u_k, with r = u_k × u_{k+1}, and s = |r|.

Cut at bond k + 1, the chain falls into two halves that answer to a push λ in it.  Joint k, at the
end of the inner one, accelerates by A = (Y − w σ c λ) u_k + w (F_⊥ − t λ): w σ is what the chain
before leaves of its mobility along u_k, Y is A·u_k without the push, and F_⊥ is F across u_k.
Joint k + 1 accelerates along u_{k+1} by Ȳ + ē λ, with Ȳ and ē of the outer half.  The bond keeps
its length.  Without an index A, Y, F, w, σ are of joint k; ē, Ȳ of joint and λ, κ of bond k + 1:

    D λ = c Y + w F_t − Ȳ − κ,    D = ē + w (σ c² + s²),    F_t = F·t                   (1)
    D A·u_k = Y (ē + w s²) − w σ c (w F_t − Ȳ − κ)                                      (2)
    D A_⊥ = w F_⊥ (ē + w σ c²) + w r (r·w F) − w t (c Y − Ȳ − κ) ,   r·F = 0 in the plane   (3)

D is the pivot of row k + 1 when it is eliminated last, 1/D = ((H^LL)⁻¹)_{k+1,k+1}.  Without the
other half these are the recurrences of the sweeps; e and d as in `tridiagonal`:

    Y_{k+1} = σ_{k+1} w_{k+1} F_{k+1}·u_{k+1} + (w_{k+1}/d_{k+1}) (c Y + w F_t − κ)       (4)
    σ_k = e_k/d_k ,  σ_0 = 1 ;    ē_k = w (ē + w s²)/(w + ē) ,   e from the other end     (5)
    Ȳ_k = c [ē w (c F·u_k + F_t) + w (Ȳ + κ)]/(w + ē) + w (s² F·u_k − c F_t)              (6)

Nothing here subtracts numbers with a common source, as w (F_⊥ − t λ) does for a light bead between
heavy ones: whatever the masses, ẍ is exact to rounding.  One sweep outwards gives σ and Y, one back
ē, Ȳ and the answer.  Divisions are put off as in `tridiagonal.joined`: outwards e = p/q₀, σ = S/q,
Y = y/q, with q₀ the q of one bond before; back ē = p/q, Ȳ = b/q, and Q is the q of the way out.

In the plane this is 5 to 12 times faster than `motion` with its q̈, in space 4 to 5.  With masses 1
and 1e-12 by turns on a nearly straight chain it leaves fifteen digits of ẍ, `motion` would eight.
The steps say which products are fused: no digit hangs on a compiler.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import put_entries
from fixman.kernels.algebra.vectors import along, cross, fused_dot, plus, scaled
from fixman.kernels.chain.freely_jointed import accurate_cross, two_difference
from fixman.kernels.chain.rows import beside, measurable
from fixman.kernels.compiler.lanes import exact, fma, root
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.tridiagonal import joined

LARGE = 1e30  # so that products of two of them with masses can be formed


class Inner(NamedTuple):
    """The inner half: q₀ e, q σ and q₀ (c Y + w F_t − κ); q₀, the q of one bond before; and q."""

    p: float
    S: float
    z: float
    before: float
    q: float


class Outer(NamedTuple):
    """The outer half: q ē, q Ȳ, and q."""

    p: float
    b: float
    q: float


class Joint(NamedTuple):
    """Of joint k: w F·u_k and w F_⊥, c, u_k and r, which in the plane is s."""

    f_u: float
    f: tuple[float, ...]
    c: float
    u: tuple[float, ...]
    r: tuple[float, ...]


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
    """Return t."""
    return cross(joint.r, joint.u) if len(joint.u) == 3 else joint.r


@exact_step
def reduced(half):
    """Return a half with q = 1."""
    inverse = 1.0 / half.q
    return half._make([x * inverse for x in half])


@exact_step
def outward(inner, joint, w, mass, kappa):
    """The inner half with joint k and bond k + 1, which ends in a ``mass``; Q, S and y."""
    y = fma(inner.S, joint.f_u, inner.z)
    z = fma(joint.c, y, inner.q * dot_plus(tangent(joint), joint.f, -kappa))  # (4)
    p, q = joined(inner.p, inner.before, inner.q, w * fused_dot(joint.r, joint.r), mass)
    return Inner(p, mass * p, z, inner.q, q), (inner.q, inner.S, y)


@exact_step
def inward(outer, swept, joint, w, mass, kappa):
    """The tension −λ of bond k + 1, A·u_k and A_⊥, and the outer half with joint k."""
    (p, b, q), (Q, S, y) = outer, swept
    c, square, t = joint.c, fused_dot(joint.r, joint.r), tangent(joint)
    wF_t = fused_dot(t, joint.f)
    turning = w * square
    b = fma(q, kappa, b)  # q (Ȳ + κ)
    Q_wσc = w * S * c  # Q w σ c
    across = fma(q, turning, p)  # q (ē + w s²)
    along_u = fma(Q, p, q * (Q_wσc * c))  # Q q (ē + w σ c²)
    inverse = 1.0 / fma(Q * q, turning, along_u)  # 1 / (Q q D)
    lack = fma(-q, wF_t, b)  # q (Ȳ + κ − w F_t)
    tension = fma(Q, lack, -(q * (c * y))) * inverse  # (1)
    a_u = fma(y, across * inverse, (Q_wσc * inverse) * lack)  # (2)
    rest = fma(-Q, b, q * (c * y))  # −Q q (Ȳ + κ − c Y)
    a = along(-(w * inverse) * rest, t, scaled(along_u * inverse, joint.f))  # (3)
    if len(t) == 3:
        a = along((w * inverse) * ((Q * q) * fused_dot(joint.r, joint.f)), joint.r, a)
    mp = mass * p  # ē/(w + ē) = m p/(q + m p) and w/(w + ē) = q/(q + m p)
    b = fma(mp, fma(c, joint.f_u, wF_t), b)
    b = fma(c, b, (q + mp) * fma(square, joint.f_u, -(c * wF_t)))  # (6)
    return tension, a_u, a, Outer(across, b, q + mp)  # (5)


# --- bonds and joints ----------------------------------------------------------------------------


@exact_step
def row(array, j, none):
    return tuple(array[j, a] for a in range(len(none)))


@exact_step
def at(array, k, none):
    return tuple(array[k + a] for a in range(len(none)))


@exact
def applied(force, j, none):
    """Force on a bead, where there are forces."""
    f = none
    if force.size:
        f = row(force, j, none)
    return f


@exact_step
def difference(array, j, before):
    """Row j, and the way to it from a point as a rounded vector and its exact remainder."""
    here = row(array, j, before)
    ways = [two_difference(here[a], before[a]) for a in range(len(before))]
    return here, tuple(way for way, _ in ways), tuple(low for _, low in ways)


@exact_step
def bond_to(x, v, j, point, velocity):
    """Point j, its velocity, its bond (d, its remainder, 1/L, u), L², κ, velocity terms of α̈."""
    point, d, low = difference(x, j, point)
    velocity, e, elow = difference(v, j, velocity)
    square = fused_dot(d, d)
    shrink = 1.0 / root(square)
    swept = scaled(shrink, crossed(d, e))
    kappa, rate = fused_dot(swept, swept) * shrink, 0.0
    if len(d) == 2:
        # d·ḋ is zero but for rounding where the velocities satisfy the constraints.  On straight
        # chains q̈ consists of it alone.
        (stretch,) = accurate_cross(d, low, (-e[1], e[0]), (-elow[1], elow[0]))
        rate = -2.0 * swept[0] * stretch * shrink * shrink * shrink
    return point, velocity, (d, low, shrink, scaled(shrink, d)), square, kappa, rate


@exact_step
def begun(bond):
    """u_0, c and r of joint 0, where no bond ends: let u_0 be a direction across u_1."""
    u = bond[3]
    u0 = beside(u)[0] if len(u) == 3 else (u[1], -u[0])
    return u0, 0.0, crossed(u0, u)


@exact_step
def bent(before, bond):
    """u_k, c and r between two bonds, to full relative precision."""
    (d0, low0, shrink0, u0), (d, low, shrink, u) = before, bond
    return u0, fused_dot(u0, u), scaled(shrink * shrink0, accurate_cross(d0, low0, d, low))


@exact_step
def loaded(bend, w, f, couples):
    """A joint under F and, in the plane, couples h n on the ends of the bonds before and behind."""
    u, c, r = bend
    f_u = fused_dot(f, u)
    if len(u) == 3:
        return Joint(w * f_u, scaled(w, along(-f_u, u, f)), c, u, r)
    before, behind = couples
    f_n = fma(-behind, c, crossed(u, f)[0]) + before
    return Joint(w * fma(behind, r[0], f_u), (w * f_n,), c, u, r)


@exact_step
def acceleration(a_u, a, u):
    """A of its parts along and across u."""
    return along(a_u, u, a if len(u) == 3 else (-a[0] * u[1], a[0] * u[0]))


@exact_step
def total(a):
    return sum(a[1:], a[0])


@exact_step
def keep(work, k, swept, shrink, joint):
    put_entries(work, k, 0, (*swept, shrink, joint.f_u, joint.c, *joint.f, *joint.u, *joint.r))


@exact_step
def kept(work, k, none):
    """Return what `keep` was given."""
    axes = len(none)
    x = [work[k, i] for i in range(5 * axes)]
    f, rest = tuple(x[6 : 2 * axes + 3]), tuple(x[2 * axes + 3 :])
    return tuple(x[:3]), x[3], Joint(x[4], f, x[5], rest[:axes], rest[axes:])


# --- frames --------------------------------------------------------------------------------------


@jit
def motion_frames(x, v, torque, force, none, links, n, fixed, out):
    """Motion of every frame; the first without an answer, or -1.

    ``none`` is a zero for each axis; ``torque`` and ``force`` may be empty, as torques are in
    space.  In the plane a torque h L on the direction of a bond is a couple ±h n on its ends.
    ``out`` receives ẍ, the tensions, and in the plane q̈; until then κ, and velocity terms of α̈.
    """
    w, m = links
    dim, N = len(none), w.size - 1
    plane = dim == 2
    lag = N + 1 - n  # joint k is bead k − lag of its frame
    first_angle = 0 if fixed else dim
    lengths = dim * n
    angles = lengths + N + first_angle
    work = np.empty((N, 5 * dim))
    for frame in range(out.shape[0]):
        bead = frame * n - lag
        t = frame * (N + first_angle) + first_angle
        point = velocity = f = none  # those of the joint before
        if not fixed:
            point, velocity = row(x, bead, none), row(v, bead, none)
            f = applied(force, bead, none)
            if torque.size:
                f = plus(f, at(torque, t - dim, none))
        h = 0.0
        inner = Inner(w[0], 1.0, 0.0, 0.0, 1.0)
        bond = none, none, 0.0, none
        for k in range(N):  # outwards
            before, ahead, h = bond, h, 0.0
            found = bond_to(x, v, bead + k + 1, point, velocity)
            point, velocity, bond, square, kappa, rate = found
            if not measurable(square):
                return frame
            if torque.size:
                h = (torque[t + k] - (torque[t + k + 1] if k + 1 < N else 0.0)) * bond[2]
            bend = bent(before, bond) if k > 0 else begun(bond)
            this = loaded(bend, w[k], f, (ahead, h))
            inner, swept = outward(inner, this, w[k], m[k + 1], kappa)
            keep(work, k, swept, bond[2], this)
            if inner.q > LARGE:
                inner = reduced(inner)
            out[frame, lengths + k] = kappa
            if plane:
                out[frame, angles + k] = rate
            f = applied(force, bead + k + 1, none)
        this = loaded((bond[3], 0.0, bend[2]), w[N], f, (h, 0.0))  # no bond behind
        a_u, outside = fma(inner.S, this.f_u, inner.z) / inner.q, this.f
        a = acceleration(a_u, outside, this.u)
        put_entries(out, frame, dim * (N - lag), a)
        outer = Outer(w[N], this.f_u, 1.0)
        angle, check = 0.0, fused_dot(none, a)
        for k in range(N - 1, -1, -1):  # back
            swept, shrink, this = kept(work, k, none)
            kappa = out[frame, lengths + k]
            tension, a_u, a, outer = inward(outer, swept, this, w[k], m[k], kappa)
            if outer.q > LARGE:
                outer = reduced(outer)
            out[frame, lengths + k] = tension
            if plane:  # α̈ = (A_{k+1} − A_k)·n_{k+1} / L, and velocity terms
                after, rate = angle, out[frame, angles + k]
                turned = outside[0] + fma(this.r[0], a_u, -(this.c * a[0]))
                angle = fma(turned, shrink, rate)
                out[frame, angles + k] = angle
                if k + 1 < N:
                    out[frame, angles + k + 1] = after - angle
            else:
                check += 0.0 * total(a)
            outside = a
            if k >= lag:  # joint k is a bead
                put_entries(out, frame, dim * (k - lag), acceleration(a_u, a, this.u))
            check += 0.0 * (tension + a_u + angle)
        if plane and not fixed:
            put_entries(out, frame, angles - 2, row(out, frame, none))
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1
