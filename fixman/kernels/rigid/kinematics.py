"""Kinematics of a serial chain of rigid bodies, in the axes of the base.

``kinds (n,)`` and ``links (n, 32)`` as in `links`.  R is the rotation of a body's frame in the
base, x its origin; [ω; v] its twist, v the velocity of that origin; but ``V`` and J are [v; ω], the
public order.  ``point (3,)`` is a point of a body in its frame.

Kernels return −1, or the first frame with a number that is not finite, times (n + 1), plus n.
"""

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.triples import back, constants, entries, product, put_entries, times
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, minus, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import joints as joint
from fixman.kernels.rigid.joints import RATES, UNTURNED, ZERO, checked, joint_twist, not_a_number
from fixman.kernels.rigid.links import PITCH, transforms
from fixman.kernels.rigid.newton_euler import moved

# --- motion from body to body ---------------------------------------------------------------------


class Motion(NamedTuple):
    """Motion of a body's frame in the axes of the base: v and a of its origin."""

    R: Any
    x: Any
    ω: Any
    v: Any
    dω: Any
    a: Any


BASE = Motion(UNTURNED, ZERO, ZERO, ZERO, ZERO, ZERO)
STILL = ZERO, ZERO  # a joint's S θ̇ or S θ̈


@step
def next_body(X, i, m, rates, accelerations):
    """Motion of body i from that of the body before, R⁻ and so on (2.2–2.5, 2.32).

    R = R⁻E, x = x⁻ + r, ω = ω⁻ + e, v = v⁻ + ω⁻×r + s, ω̇ = ω̇⁻ + ω⁻×e + ė,
    a = a⁻ + ω̇⁻×r + ω⁻×(ω⁻×r) + (2ω⁻ + e)×s + ṡ, with [e; s] = S θ̇ and [ė; ṡ] = S θ̈.
    """
    R, r = product(m.R, mat.entries9(X, i, 0)), times(m.R, entries(X, i, 9))
    turn, slide = times(R, rates[0]), times(R, rates[1])
    a = plus(m.a, plus(fused_cross(m.dω, r), fused_cross(m.ω, fused_cross(m.ω, r))))
    v = plus(plus(m.v, fused_cross(m.ω, r)), slide)
    ω, dω, a = moved(m.ω, m.dω, a, turn, slide)
    turn, slide = times(R, accelerations[0]), times(R, accelerations[1])
    return Motion(R, plus(m.x, r), ω, v, plus(dω, turn), plus(a, slide))


@jit
def body_frames(kinds, links, q, qd, R, x, V):
    """R and x of all bodies into ``R (frames, n, 9)`` and ``x (frames, n, 3)``.

    [v; ω] into ``V (frames, n, 6)`` unless q̇ and V are None.
    """
    n = kinds.size
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        check = transforms(q[frame], kinds, links, X)
        rotations, origins = R[frame], x[frame]
        m, twist, at = BASE, STILL, 0
        if qd is not None:
            rates, twists = qd[frame], V[frame]
            check += not_a_number(rates)
        for i in range(n):
            if qd is not None:
                twist = joint_twist(kinds[i], links[i, PITCH], rates, at)
                at += RATES[kinds[i]]
            m = next_body(X, i, m, twist, STILL)
            put_entries(rotations, i, 0, m.R)
            put_entries(origins, i, 0, m.x)
            if qd is not None:
                put_entries(twists, i, 0, (*m.v, *m.ω))
            check += checked((*m.x, *m.ω, *m.v))
        if check != 0.0:  # NaN
            return frame * (n + 1) + n
    return -1


@jit
def point_frames(kinds, links, motion, body, point, out):
    """Motion q, q̇, q̈ of a point of a body into ``out (frames, 15)``, or 3 or 9 of these columns.

    Its position; velocity and ω; acceleration and dω/dt.
    """
    n = kinds.size
    q, qd, qdd = motion
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        rates, accelerations = qd[frame], qdd[frame]
        check = transforms(q[frame], kinds, links, X)
        check += not_a_number(rates) + not_a_number(accelerations)  # also beyond the body
        m, at = BASE, 0
        for i in range(body + 1):
            twist = joint_twist(kinds[i], links[i, PITCH], rates, at)
            change = joint_twist(kinds[i], links[i, PITCH], accelerations, at)
            m = next_body(X, i, m, twist, change)
            at += RATES[kinds[i]]
        p = times(m.R, constants(point, 0))
        put_entries(out, frame, 0, plus(m.x, p))
        if out.shape[1] > 3:
            put_entries(out, frame, 3, (*plus(m.v, fused_cross(m.ω, p)), *m.ω))
        if out.shape[1] > 9:
            a = plus(fused_cross(m.dω, p), fused_cross(m.ω, fused_cross(m.ω, p)))
            put_entries(out, frame, 9, (*plus(m.a, a), *m.dω))
        if check + not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@step
def column(X, i, p, e, s):
    """Column [v; ω] of J (3.13): of p and its body by the unit rate [e; s] of joint i."""
    R = mat.entries9(X, i, 0)
    e = times(R, e)
    return plus(times(R, s), fused_cross(e, minus(p, entries(X, i, 9)))), e


@jit
def jacobian_frames(kinds, links, q, body, point, out):
    """J, or its first three rows, into ``out (frames, 6, nv)``, which is zero beyond the body."""
    n = kinds.size
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        check = transforms(q[frame], kinds, links, X)
        m, at = BASE, 0
        for i in range(body + 1):
            m = next_body(X, i, m, STILL, STILL)
            put_entries(X, i, 0, (*m.R, *m.x))  # in the base now
        J = out[frame]
        p = plus(m.x, times(m.R, constants(point, 0)))
        for i in range(body + 1):
            for j in range(RATES[kinds[i]]):
                e, s = joint.axis(kinds[i], links[i, PITCH], j)
                v, ω = column(X, i, p, e, s)
                for k in range(3):
                    J[k, at] = v[k]
                    if J.shape[0] > 3:
                        J[3 + k, at] = ω[k]
                check += checked((*v, *ω))
                at += 1
        if check != 0.0:
            return frame * (n + 1) + n
    return -1


# --- sums over the bodies -------------------------------------------------------------------------


@step
def joining(links, i, m, R, c, v, L, ω, own):
    """Mass, centre c, velocity v and spin L of bodies, with body i added; its T.

    ``own``: mass centre of body i and its velocity.  Terms added to T, the kinetic energy about the
    centre, are positive.
    """
    d, u = minus(own[0], c), minus(own[1], v)
    mass = links[i, 12]
    share = mass / (m + mass + 1e-300)  # none of no mass
    both = m * share
    spin = times(R, times(mat.entries9(links, i, 16), back(R, ω)))
    L = plus(plus(L, spin), scaled(both, fused_cross(d, u)))
    T = 0.5 * (both * fused_dot(u, u) + fused_dot(ω, spin))
    return m + mass, plus(c, scaled(share, d)), plus(v, scaled(share, u)), L, T


@jit
def sum_frames(kinds, links, q, qd, out):
    """Sums over all bodies into ``out (frames, 10)``: c, its velocity, L about it, T."""
    n = kinds.size
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        m, mass, c, u, L, T, at = BASE, 0.0, ZERO, ZERO, ZERO, 0.0, 0
        rates = qd[frame]
        check = transforms(q[frame], kinds, links, X)
        check += not_a_number(rates)  # the last body may have no mass
        for i in range(n):
            twist = joint_twist(kinds[i], links[i, PITCH], rates, at)
            m = next_body(X, i, m, twist, STILL)
            at += RATES[kinds[i]]
            p = times(m.R, entries(links, i, 13))
            own = plus(m.x, p), plus(m.v, fused_cross(m.ω, p))
            mass, c, u, L, more = joining(links, i, mass, m.R, c, u, L, m.ω, own)
            T += more
        T += 0.5 * mass * fused_dot(u, u)
        put_entries(out, frame, 0, (*c, *u, *L, T))
        if check + not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


# --- steps in the coordinates ---------------------------------------------------------------------


@jit
def follow(kinds, q, v, dt, axes, straight, out):
    """Coordinates after the time dt, as `joints.advance`; 0, or NaN where q cannot be used."""
    at = to = 0
    check = 0.0
    for i in range(kinds.size):
        if joint.FLAT[kinds[i]]:
            for j in range(RATES[kinds[i]]):
                out[at + j] = q[at + j] + dt * v[to + j]
        else:
            check += joint.advance(kinds[i], q, at, v, to, dt, axes, straight, out)
        at += joint.POSITIONS[kinds[i]]
        to += RATES[kinds[i]]
    return check


@jit
def integrate_frames(kinds, q, qd, dt, out):
    for frame in range(q.shape[0]):
        x, to = q[frame], out[frame]
        if follow(kinds, x, qd[frame], dt, x, False, to) + not_a_number(to) != 0.0:
            return frame * (kinds.size + 1) + kinds.size
    return -1


@jit
def difference_frames(kinds, q, other, out):
    """Rates that lead from ``q`` to ``other`` in unit time, turning by π at most."""
    n = kinds.size
    for frame in range(q.shape[0]):
        at = to = 0
        check = 0.0
        for i in range(n):
            check += joint.way(kinds[i], q[frame], other[frame], at, out[frame], to)
            at += joint.POSITIONS[kinds[i]]
            to += RATES[kinds[i]]
        if check + not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@jit
def derivative_frames(kinds, q, qd, out):
    for frame in range(q.shape[0]):
        at = to = 0
        for i in range(kinds.size):
            joint.derivative(kinds[i], q[frame], at, qd[frame], to, out[frame])
            at += joint.POSITIONS[kinds[i]]
            to += RATES[kinds[i]]
