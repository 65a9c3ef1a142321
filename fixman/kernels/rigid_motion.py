"""Motion in time of a serial chain: steps of the variational midpoint rule, and of Euler's.

``chain`` is (table, soft, kinds, links, constants): tables of `articulated_body`, of the chain as
it is and with inertia added to its joints; ``kinds (n,)`` and ``links`` as in `links`; and gravity
(3,), armature (nv,), 1 for rates of turns and 0 for others (nv,), and the added inertia (nv,).
``springs`` is None, or damping (nv,), stiffness (nv,) and coordinates at rest (nq,).

Springs and dampers enter the inertia of their joints, because a step changes q and q̇ in proportion
to q̈: by c dt + k dt² for Euler's step, and by c dt/2 + k dt²/4 for the midpoint.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.articulated_body import DONE, NOT_USABLE, accelerations, inwards, sizes
from fixman.kernels.articulated_body import outwards as towards_tip
from fixman.kernels.links import (
    FREE,
    RATES,
    SPHERICAL,
    component,
    joint_motion,
    joint_twist,
    outwards,
    place,
    rotation_tuple,
)
from fixman.kernels.rigid_joints import along_screw, passive, unit_vector
from fixman.kernels.rigid_kinematics import follow
from fixman.kernels.rigid_newton_euler import taken_back
from fixman.kernels.steps import step
from fixman.kernels.triples import back, constants, entries, put_entries, times
from fixman.kernels.vectors import outer, plus, scaled

NOT_SETTLED, TOO_FAST = -4, -5
ROUNDS = 100
WAIT = 4.0  # rounds without progress that show rounding, of rates to LOOSE at most
LOOSE = 1e-7
FASTEST = math.pi  # that a joint may turn in a step
EPS = 2.0**-52
STILL = (0.0, 0.0, 0.0)


# --- momenta and forces ---------------------------------------------------------------------------


@step
def momentum(links, i, w, v):
    """Of a body: [f; n] about its origin."""
    c, inertia = entries(links, i, 13), tuple(links[i, 16 + k] for k in range(9))
    f = scaled(links[i, 12], plus(v, outer(w, c)))
    return (*f, *plus(times(inertia, w), outer(c, f)))


@step
def weight(links, i, g):
    c = entries(links, i, 13)
    f = scaled(links[i, 12], g)
    return (*f, *outer(c, f))


@step
def centrifugal(P, w, v, W):
    """Forces −∂/∂q on a body that is carried by [w; v], of momentum P, with weight W: [f; n]."""
    f, n = P
    return plus(outer(f, w), W[0]), plus(plus(outer(n, w), outer(f, v)), W[1])


@step
def spun(w, armature, v, k):
    """ω × (the momentum of three rotors)."""
    return outer(w, tuple(armature[k + j] * v[k + j] for j in range(3)))


@jit
def momenta(chain, q, v, room, out):
    """p = ∂L/∂q̇ and f = ∂L/∂q of a chain without springs into ``out``, in two sweeps.

    With P_i the momentum of body i and those after it, and c_i the twist of body i but for its own
    joint's, p = S_iᵀ P_i and ∂T/∂q = P_i · (c_i × S_i).
    """
    _, _, kinds, links, (gravity, armature, _, _) = chain
    X, carried, P, W = room
    p, f = out
    if not place(q, kinds, links, X):
        return False
    w = u = STILL
    g = constants(gravity, 0)
    at = 0
    for i in range(kinds.size):
        w, u = outwards(X, i, w, u)
        g = back(rotation_tuple(X, i), g)
        put_entries(carried, i, 0, u)
        put_entries(carried, i, 3, w)
        turn, slide = joint_twist(kinds[i], v, at)
        w, u = plus(w, turn), plus(u, slide)
        put_entries(P, i, 0, momentum(links, i, w, u))
        put_entries(W, i, 0, weight(links, i, g))
        at += RATES[kinds[i]]
    for i in range(kinds.size - 1, -1, -1):
        at -= RATES[kinds[i]]
        both = entries(P, i, 0), entries(P, i, 3)
        u, w = entries(carried, i, 0), entries(carried, i, 3)
        if kinds[i] == FREE:
            u = constants(v, at)  # it moves along axes that do not turn with it
        force, moment = centrifugal(both, w, u, (entries(W, i, 0), entries(W, i, 3)))
        for j in range(RATES[kinds[i]]):
            p[at + j] = component(kinds[i], j, both[1], both[0]) + armature[at + j] * v[at + j]
            f[at + j] = component(kinds[i], j, moment, force)
        if kinds[i] >= SPHERICAL:
            # Rotors in a ball are spun up, but have no gyroscopic moments.
            w, _ = joint_twist(kinds[i], v, at)
            for k in range(at, at + RATES[kinds[i]], 3):
                f[k], f[k + 1], f[k + 2] = plus(constants(f, k), spun(w, armature, v, k))
        if i > 0:
            taken_back(X, i, P)
            taken_back(X, i, W)
    return True


@jit
def spread(y, axis, angle, sign):
    """B(±X)ᵀ y for X = angle · axis, with B(X) = (1 − e^{−X×})/X×."""
    if angle == 0.0:
        return y
    s = math.sin(0.5 * angle)
    first, second = sign * 2.0 * s * s / angle, 1.0 - math.sin(angle) / angle
    return along_screw(y, axis, first, second)


@jit
def turned_half(y, axis, angle):
    """y in axes turned by half the angle."""
    return along_screw(y, axis, -math.sin(0.5 * angle), 1.0 - math.cos(0.5 * angle))


@jit
def transported(kinds, p, f, v, dt, out):
    """Momenta at the middle of a step: B(−X)ᵀ p + dt/2 B(−X/2)ᵀ f, X = dt ω, from those before."""
    at = 0
    for i in range(kinds.size):
        if kinds[i] < SPHERICAL:
            out[at] = p[at] + 0.5 * dt * f[at]
            at += 1
            continue
        turn, _ = joint_twist(kinds[i], v, at)
        angle, axis = unit_vector(scaled(dt, turn))
        if kinds[i] == FREE:
            y = turned_half(constants(p, at), axis, angle)
            out[at], out[at + 1], out[at + 2] = plus(y, scaled(0.5 * dt, constants(f, at)))
            at += 3
        y = spread(constants(p, at), axis, angle, -1.0)
        z = spread(constants(f, at), axis, 0.5 * angle, -1.0)
        out[at], out[at + 1], out[at + 2] = plus(y, scaled(0.5 * dt, z))
        at += 3


@jit
def delivered(kinds, p, f, v, dt, out):
    """Momenta at the end of a step, B(X)⁻ᵀ (p + dt/2 B(X/2)ᵀ f), from those at its middle."""
    at = 0
    for i in range(kinds.size):
        if kinds[i] < SPHERICAL:
            out[at] = p[at] + 0.5 * dt * f[at]
            at += 1
            continue
        turn, _ = joint_twist(kinds[i], v, at)
        angle, axis = unit_vector(scaled(dt, turn))
        if kinds[i] == FREE:
            y = plus(constants(p, at), scaled(0.5 * dt, constants(f, at)))
            out[at], out[at + 1], out[at + 2] = turned_half(y, axis, angle)
            at += 3
        half = 0.5 * angle
        z = spread(constants(f, at), axis, half, 1.0)
        y = plus(constants(p, at), scaled(0.5 * dt, z))
        rest = 1.0 - half * math.cos(half) / math.sin(half) if half > 0.0 else 0.0
        out[at], out[at + 1], out[at + 2] = along_screw(y, axis, -half, rest)
        at += 3


# --- the implicit midpoint ------------------------------------------------------------------------


@jit
def glide(kinds, q, v, dt, axes, out):
    """Coordinates after half a step; a free base moves along its axes in the coordinates ``axes``.

    Those are the middle's, so that both halves of a step are along the same line.
    """
    follow(kinds, q, v, 0.5 * dt, out)
    if kinds[0] == FREE:
        R, _, _ = joint_motion(FREE, axes, 0)
        out[0], out[1], out[2] = plus(constants(q, 0), scaled(0.5 * dt, times(R, constants(v, 0))))


@jit
def respond(table, q, p, room, out):
    """Rates that a chain at rest takes on by an impulse p, in O(n) by the articulated body."""
    work, still, none = room
    if not towards_tip(table, q, still, none, 0, work, 0.0):
        return NOT_USABLE
    body = inwards(table, p, 0, work, 0.0)
    if body != DONE:
        return body
    return DONE if accelerations(table, still, none, 0, work, out, 0.0) else NOT_USABLE


@jit
def balance(chain, springs, middle, force, room):
    """p and f in the middle of a step, with springs and a force; whether they can be used."""
    _, _, kinds, _, _ = chain
    q_m, v_m = middle
    _, sweeps, (p, f, _) = room
    if not momenta(chain, q_m, v_m, sweeps, (p, f)):
        return False
    for k in range(f.size):
        f[k] += force[k]
    if springs is not None:
        passive(kinds, *springs, q_m, v_m, f)
    return True


@jit
def too_fast(chain, v, dt):
    """Whether a joint turns by more than half a turn."""
    turning = chain[4][2]
    fastest = 0.0
    for k in range(v.size):
        fastest = max(fastest, turning[k] * abs(v[k]))
    return dt * fastest > FASTEST


@jit
def improve(chain, springs, p0, middle, force, dt, room):
    """One round of Newton's method for the rates in the middle; how far they moved, or why not.

    Velocity terms are left out of the derivatives: they are smaller by dt q̇.
    """
    _, soft, kinds, _, _ = chain
    q_m, v_m = middle
    work, _, (p, f, r) = room
    if not balance(chain, springs, middle, force, room):
        return 0.0, NOT_USABLE
    transported(kinds, p0, f, v_m, dt, r)
    for k in range(r.size):
        r[k] -= p[k]
    code = respond(soft, q_m, r, work, p)
    if code != DONE:
        # Far out, inertia is lost to rounding.
        return 0.0, TOO_FAST if too_fast(chain, v_m, dt) else code
    change = 0.0
    for k in range(p.size):
        v_m[k] += p[k]
        change = max(change, abs(p[k]))
    return change, DONE


@jit
def settled(n, middle, change, progress, dt):
    """Whether nothing but rounding is left of the rates of n bodies, which moved by ``change``.

    ``progress``: how far they moved in the round before, how far at least, and how many rounds ago
    that was; infinities in the first round.
    """
    q_m, v_m = middle
    before = progress[0]
    progress[0] = change
    progress[2] += 1.0
    if change < 0.5 * progress[1]:
        progress[1], progress[2] = change, 0.0
    speed, reach = 0.0, 1.0
    for k in range(v_m.size):
        speed = max(speed, abs(v_m[k]))
    for k in range(q_m.size):
        reach = max(reach, abs(q_m[k]))
    # Momenta add up to n³ times what the lightest joint moves, and so does their rounding.
    noise = EPS * (1.0 + float(n) ** 3 / 16.0) * speed
    if change <= 4.0 * EPS * speed:
        return True
    if change < before < np.inf and change * change <= noise * (before - change):
        return True
    return progress[2] >= WAIT and progress[1] <= LOOSE * speed + 1000.0 * EPS * reach / dt


@jit
def finish(chain, springs, state, middle, force, dt, room):
    """From the middle to the end of a step: coordinates, momenta, and of those the rates."""
    table, _, kinds, _, _ = chain
    q, v = state
    q_m, v_m = middle
    work, _, (p, f, r) = room
    if too_fast(chain, v_m, dt):
        return TOO_FAST
    glide(kinds, q, v_m, dt, q_m, q_m)
    if not balance(chain, springs, middle, force, room):
        return NOT_USABLE
    delivered(kinds, p, f, v_m, dt, r)
    glide(kinds, q_m, v_m, dt, q_m, q)
    return respond(table, q, r, work, v)


@jit
def begin(chain, state, middle, room, p0):
    """Momenta at the start of a step, and its rates as first guess of those in the middle."""
    q, v = state
    _, sweeps, (_, f, _) = room
    for k in range(v.size):
        middle[1][k] = v[k]
    return DONE if momenta(chain, q, v, sweeps, (p0, f)) else NOT_USABLE


@jit
def impulse(chain, q, w, room, p0):
    """Add to momenta what a change w of the rates takes, with the added inertia."""
    _, sweeps, (p, f, _) = room
    momenta(chain, q, w, sweeps, (p, f))
    for k in range(w.size):
        p0[k] += p[k] + chain[4][3][k] * w[k]


@jit
def midpoint(chain, springs, state, force, dt, room):
    """One step.  Nothing is remembered, so that a run can be continued from a frame."""
    middle, p0, one, progress = room
    code = begin(chain, state, middle, one, p0)
    if code != DONE:
        return code
    progress[:] = np.inf
    for _ in range(ROUNDS):
        glide(chain[2], state[0], middle[1], dt, middle[0], middle[0])
        change, code = improve(chain, springs, p0, middle, force, dt, one)
        if code != DONE:
            return code
        if settled(chain[2].size, middle, change, progress, dt):
            return finish(chain, springs, state, middle, force, dt, one)
    return NOT_SETTLED


# --- Euler's step, and many of them ---------------------------------------------------------------


@jit
def euler(chain, springs, state, force, dt, room):
    """One linearly implicit step: springs as they are when all has moved on for dt."""
    _, soft, kinds, _, (gravity, _, _, _) = chain
    q, v = state
    (q_m, _), a, ((work, _, _), _, (_, f, _)), _ = room
    for k in range(f.size):
        f[k] = force[k]
    if springs is not None:
        follow(kinds, q, v, dt, q_m)
        passive(kinds, *springs, q_m, v, f)
    if not towards_tip(soft, q, v, gravity, 0, work, 0.0):
        return NOT_USABLE
    body = inwards(soft, f, 0, work, 0.0)
    if body != DONE:
        return body
    if not accelerations(soft, v, gravity, 0, work, a, 0.0):
        return NOT_USABLE
    for k in range(v.size):
        v[k] += dt * a[k]
    if too_fast(chain, v, dt):
        return TOO_FAST
    follow(kinds, q, v, dt, q_m)
    for k in range(q.size):
        q[k] = q_m[k]
    return DONE


@jit
def rooms(table):
    """Room of one step: the middle, momenta at the start, work and more, and `settled`'s."""
    n, nq, nv, units = sizes(table, table.size)
    work = np.empty(units), np.zeros(nv), np.zeros(3)
    sweeps = np.empty((n, 12)), np.empty((n, 6)), np.empty((n, 6)), np.empty((n, 6))
    vectors = np.empty(nv), np.empty(nv), np.empty(nv)
    return (np.empty(nq), np.empty(nv)), np.empty(nv), (work, sweeps, vectors), np.empty(3)


@jit
def put_entry(to, x):
    for k in range(x.size):
        to[k] = x[k]


@jit
def run(chain, springs, states, forces, pace, frames):
    """Many steps of every replica: ``states`` q (replicas, nq), q̇ in place, and recorded frames.

    ``pace``: dt, steps done, steps to do, steps from frame to frame, and whether by midpoints.
    Returns the step and the replica that have no answer, and why.
    """
    q, v = states
    dt, done, steps, every, by_midpoint = pace
    room = rooms(chain[1])
    for replica in range(q.shape[0]):
        state = q[replica], v[replica]
        for count in range(done + 1, done + steps + 1):
            if by_midpoint:
                code = midpoint(chain, springs, state, forces[replica], dt, room)
            else:
                code = euler(chain, springs, state, forces[replica], dt, room)
            if code != DONE:
                return count, replica, code
            if count % every == 0:
                put_entry(frames[0][count // every, replica], state[0])
                put_entry(frames[1][count // every, replica], state[1])
    return 0, 0, DONE
