"""Kinematics of a serial chain of rigid bodies, in the axes of the base.

``kinds (n,)`` and ``links (n, 32)`` as in `links`.  R is the rotation of a body's frame in the
base, x its origin; [ω; v] its twist, of which v is the velocity of that origin.  A body and a
``point (3,)`` of it, in its frame, stand for the frame that is fixed there with the base's axes.

Kernels return (n + 1) times the first frame without an answer, plus n where something is not
finite or the body whose pivot is lost; or -1.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.triples import back, constants, entries, product, put_entries, times
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, minus, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import joints as joint
from fixman.kernels.rigid.links import PITCH, nine, not_a_number, transforms
from fixman.kernels.rigid.newton_euler import moved

BASE, ORIGIN = joint.UNTURNED, joint.ZERO  # axes of the base, and its origin


# --- frames, and motion at a point ----------------------------------------------------------------


@step
def next_body(X, i, R):
    """R of body i from that of the body before, and the way from that one's origin to its own."""
    return product(R, nine(X, i, 0)), times(R, entries(X, i, 9))


@step
def moving(R, r, ω, v, turn, slide):
    """Return the joint's turning and sliding in the axes of the base, and v of the next body."""
    turn, slide = times(R, turn), times(R, slide)
    return turn, slide, plus(plus(v, fused_cross(ω, r)), slide)


@step
def total(a, b):
    return a[0] + a[1] + a[2] + b[0] + b[1] + b[2]


@jit
def body_frames(kinds, links, q, qd, R, x, V):
    """R and x of all bodies into ``R (frames, n, 9)`` and ``x (frames, n, 3)``.

    [v; ω] into ``V (frames, n, 6)`` unless q̇ and V are None.
    """
    n = kinds.size
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        if not transforms(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        rotations, origins = R[frame], x[frame]
        turned, origin, ω, v = BASE, ORIGIN, ORIGIN, ORIGIN
        check = not_a_number(q[frame])
        if qd is not None:
            rates, twists = qd[frame], V[frame]
            check += not_a_number(rates)
        at = 0
        for i in range(n):
            turned, r = next_body(X, i, turned)
            origin = plus(origin, r)
            put_entries(rotations, i, 0, turned)
            put_entries(origins, i, 0, origin)
            if qd is not None:
                turn, slide = joint.joint_twist(kinds[i], links[i, PITCH], rates, at)
                turn, slide, v = moving(turned, r, ω, v, turn, slide)
                ω = plus(ω, turn)
                put_entries(twists, i, 0, v)
                put_entries(twists, i, 3, ω)
                at += joint.RATES[kinds[i]]
            check += 0.0 * (total(origin, ω) + total(v, ORIGIN))
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
        if not transforms(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        rates, accelerations = qd[frame], qdd[frame]
        # numbers beyond the body, or with no part in the answer, must be finite too
        check = not_a_number(q[frame]) + not_a_number(rates) + not_a_number(accelerations)
        R, x, ω, v, dω, a = BASE, ORIGIN, ORIGIN, ORIGIN, ORIGIN, ORIGIN
        at = 0
        for i in range(body + 1):
            R, r = next_body(X, i, R)
            x = plus(x, r)
            a = plus(a, plus(fused_cross(dω, r), fused_cross(ω, fused_cross(ω, r))))
            turn, slide = joint.joint_twist(kinds[i], links[i, PITCH], rates, at)
            turn, slide, v = moving(R, r, ω, v, turn, slide)
            ω, dω, a = moved(ω, dω, a, turn, slide)
            turn, slide = joint.joint_twist(kinds[i], links[i, PITCH], accelerations, at)
            dω, a = plus(dω, times(R, turn)), plus(a, times(R, slide))
            at += joint.RATES[kinds[i]]
        p = times(R, constants(point, 0))
        put_entries(out, frame, 0, plus(x, p))
        if out.shape[1] > 3:
            put_entries(out, frame, 3, plus(v, fused_cross(ω, p)))
            put_entries(out, frame, 6, ω)
        if out.shape[1] > 9:
            a = plus(a, plus(fused_cross(dω, p), fused_cross(ω, fused_cross(ω, p))))
            put_entries(out, frame, 9, a)
            put_entries(out, frame, 12, dω)
        if check + not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@step
def column(X, i, p, e, s):
    """Velocity at p, and angular velocity, by the direction [e; s] of joint i."""
    R = nine(X, i, 0)
    e = times(R, e)
    return plus(times(R, s), fused_cross(e, minus(p, entries(X, i, 9)))), e


@jit
def jacobian_frames(kinds, links, q, body, point, out):
    """J, or its first three rows, into ``out (frames, 6, nv)``, which is zero beyond the body."""
    n = kinds.size
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        if not transforms(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        R, x = BASE, ORIGIN
        for i in range(body + 1):
            R, r = next_body(X, i, R)
            x = plus(x, r)
            put_entries(X, i, 0, R)  # in the base now
            put_entries(X, i, 9, x)
        J = out[frame]
        p = plus(x, times(R, constants(point, 0)))
        check = not_a_number(q[frame])  # not every coordinate has a part in J
        at = 0
        for i in range(body + 1):
            for j in range(joint.RATES[kinds[i]]):
                e, s = joint.axis(kinds[i], links[i, PITCH], j)
                v, ω = column(X, i, p, e, s)
                for k in range(3):
                    J[k, at] = v[k]
                    if J.shape[0] > 3:
                        J[3 + k, at] = ω[k]
                check += 0.0 * total(v, ω)
                at += 1
        if check != 0.0:
            return frame * (n + 1) + n
    return -1


# --- sums over the bodies -------------------------------------------------------------------------


@step
def joining(links, i, m, R, c, v, L, ω, own):
    """Bodies of mass m, centre c, its velocity v and spin L about it, and body i joined to them.

    ``own``: mass centre of body i and its velocity.  Like those of composite bodies the terms that
    are added are positive, in the kinetic energy about the centre, which is returned as well.
    """
    d, u = minus(own[0], c), minus(own[1], v)
    mass = links[i, 12]
    share = mass / (m + mass + 1e-300)  # none of no mass
    both = m * share
    spin = times(R, times(nine(links, i, 16), back(R, ω)))
    L = plus(plus(L, spin), scaled(both, fused_cross(d, u)))
    T = 0.5 * (both * fused_dot(u, u) + fused_dot(ω, spin))
    return m + mass, plus(c, scaled(share, d)), plus(v, scaled(share, u)), L, T


@jit
def sum_frames(kinds, links, q, qd, out):
    """Sums over all bodies into ``out (frames, 10)``: c, its velocity, L about it, T."""
    n = kinds.size
    X = np.empty((n, 12))
    for frame in range(q.shape[0]):
        if not transforms(q[frame], kinds, links, X):
            return frame * (n + 1) + n
        rate = qd[frame]
        R, x, ω, v = BASE, ORIGIN, ORIGIN, ORIGIN
        m, c, u, L, T = 0.0, ORIGIN, ORIGIN, ORIGIN, 0.0
        at = 0
        check = not_a_number(q[frame]) + not_a_number(rate)  # the last body may have no mass
        for i in range(n):
            R, r = next_body(X, i, R)
            x = plus(x, r)
            turn, slide = joint.joint_twist(kinds[i], links[i, PITCH], rate, at)
            turn, slide, v = moving(R, r, ω, v, turn, slide)
            ω = plus(ω, turn)
            at += joint.RATES[kinds[i]]
            p = times(R, entries(links, i, 13))
            m, c, u, L, more = joining(
                links, i, m, R, c, u, L, ω, (plus(x, p), plus(v, fused_cross(ω, p)))
            )
            T += more
        T += 0.5 * m * fused_dot(u, u)
        put_entries(out, frame, 0, c)
        put_entries(out, frame, 3, u)
        put_entries(out, frame, 6, L)
        out[frame, 9] = T
        if check + not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


# --- steps in the coordinates ---------------------------------------------------------------------


@jit
def follow(kinds, q, v, dt, axes, straight, out):
    """Coordinates after the time dt, as `joints.advance`; whether q can be used."""
    at = to = 0
    usable = True
    for i in range(kinds.size):
        if joint.RATES[kinds[i]] == 1:  # without a call
            out[at] = q[at] + dt * v[to]
        else:
            good = joint.advance(kinds[i], q, at, v, to, dt, axes, straight, out)
            usable = usable and good
        at += joint.POSITIONS[kinds[i]]
        to += joint.RATES[kinds[i]]
    return usable


@jit
def integrate_frames(kinds, q, qd, dt, out):
    """Follow the rates of every joint for a time dt: exponentials on quaternions and poses."""
    for frame in range(q.shape[0]):
        x, to = q[frame], out[frame]
        if not follow(kinds, x, qd[frame], dt, x, False, to) or not_a_number(to) != 0.0:
            return frame * (kinds.size + 1) + kinds.size
    return -1


@jit
def difference_frames(kinds, q, other, out):
    """Rates that lead from ``q`` to ``other`` in unit time, turning by π at most."""
    n = kinds.size
    for frame in range(q.shape[0]):
        at = to = 0
        usable = True
        for i in range(n):
            good = joint.way(kinds[i], q[frame], other[frame], at, out[frame], to)
            usable = usable and good
            at += joint.POSITIONS[kinds[i]]
            to += joint.RATES[kinds[i]]
        if not usable or not_a_number(out[frame]) != 0.0:
            return frame * (n + 1) + n
    return -1


@jit
def derivative_frames(kinds, q, qd, out):
    """q̇ of every frame at rates."""
    for frame in range(q.shape[0]):
        at = to = 0
        for i in range(kinds.size):
            joint.derivative(kinds[i], q[frame], at, qd[frame], to, out[frame])
            at += joint.POSITIONS[kinds[i]]
            to += joint.RATES[kinds[i]]
