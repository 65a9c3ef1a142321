"""Motion in time of a serial chain: steps of the implicit midpoint rule, and linearly implicit ones.

``chain`` is (table, kinds, turning, gravity): the table of `articulated_body`, with inertia added
to its joints; kinds of the joints (n,); 1 for rates of turns and 0 for others (nv,).  ``springs``
is None, or damping (nv,), stiffness (nv,), coordinates at rest (nq,) and the added inertia (nv,).

Springs and dampers enter the inertia of their joints, because a step changes q and q̇ in proportion
to q̈: by c dt + k dt² for Euler's step, and by c dt/2 + k dt²/4 for the midpoint.
"""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit
from fixman.kernels.articulated_body import (
    DONE,
    NOT_USABLE,
    accelerations,
    inwards,
    outwards,
    sizes,
)
from fixman.kernels.rigid_kinematics import follow


@jit
def passive(kinds, damping, stiffness, rest, q, qd, out):  # STUB
    pass


NOT_SETTLED, TOO_FAST = -4, -5
ROUNDS = 100
FASTEST = 2.0 * np.pi  # that a joint may turn in a step
EPS = 2.0**-52
STALLED = 1e4 * EPS  # of velocities, and of coordinates: rounding of a long chain


@jit
def accelerate(chain, springs, state, at, force, room):
    """q̈ into ``room[2]`` from q, q̇, springs as they are in the coordinates ``at``, and a force.

    The inertia that was added to joints is taken off again by its part of the last q̈, ``room[1]``.
    """
    table, kinds, _, gravity = chain
    q, v = state
    work, last, new, total = room
    for k in range(v.size):
        total[k] = force[k]
    if springs is not None:
        damping, stiffness, rest, added = springs
        passive(kinds, damping, stiffness, rest, at, v, total)
        for k in range(v.size):
            total[k] += added[k] * last[k]
    if not outwards(table, q, v, gravity, 0, work, 0.0):
        return NOT_USABLE
    body = inwards(table, total, 0, work, 0.0)
    if body != DONE:
        return body
    return DONE if accelerations(table, v, gravity, 0, work, new, 0.0) else NOT_USABLE


@jit
def halfway(kinds, state, a, half, middle):
    """q and q̇ in the middle of a step with these accelerations."""
    q, v = state
    q_m, v_m = middle
    for k in range(v.size):
        v_m[k] = v[k] + half * a[k]
    follow(kinds, q, v_m, half, q_m)


@jit
def settled(middle, dt, room, before):
    """Take on the new accelerations: how far they changed v, and whether that is rounding."""
    q_m, v_m = middle
    _, last, new, _ = room
    change = speed = 0.0
    reach = 1.0
    for k in range(v_m.size):
        change = max(change, dt * abs(new[k] - last[k]))
        speed = max(speed, abs(v_m[k]) + dt * abs(new[k]))
        last[k] = new[k]
    for k in range(q_m.size):
        reach = max(reach, abs(q_m[k]))
    if change <= 4.0 * EPS * speed:
        return change, True
    return change, change >= before and change <= STALLED * (speed + reach / dt)


@jit
def advance(chain, state, dt, a, middle):
    """Move q, q̇ to the end of a step from the middle or, without one, from the new rates."""
    _, kinds, turning, _ = chain
    q, v = state
    q_m, v_m = middle
    fastest = 0.0
    for k in range(v.size):
        fastest = max(fastest, turning[k] * abs(v_m[k]))
    if dt * fastest > FASTEST:
        return TOO_FAST
    follow(kinds, q, v_m, dt, q_m)
    for k in range(q.size):
        q[k] = q_m[k]
    for k in range(v.size):
        v[k] += dt * a[k]
    return DONE


@jit
def midpoint(chain, springs, state, force, dt, room):
    """One step of the implicit midpoint rule: rounds until the accelerations stay."""
    work, middle = room
    _, kinds, _, _ = chain
    a = work[1]
    for k in range(a.size):
        a[k] = 0.0  # nothing is remembered, so that a run can be continued from a frame
    change = np.inf
    for _ in range(ROUNDS):
        halfway(kinds, state, a, 0.5 * dt, middle)
        code = accelerate(chain, springs, middle, middle[0], force, work)
        if code != DONE:
            return code
        change, still = settled(middle, dt, work, change)
        if still:
            halfway(kinds, state, a, 0.5 * dt, middle)
            return advance(chain, state, dt, a, middle)
    return NOT_SETTLED


@jit
def euler(chain, springs, state, force, dt, room):
    """One linearly implicit step: springs as they are when all has moved on for dt."""
    work, middle = room
    _, kinds, _, _ = chain
    q, v = state
    q_m, v_m = middle
    for k in range(v.size):
        work[1][k] = 0.0
    if springs is not None:
        follow(kinds, q, v, dt, q_m)
    code = accelerate(chain, springs, state, q_m, force, work)
    if code != DONE:
        return code
    for k in range(v.size):
        v_m[k] = v[k] + dt * work[2][k]
    return advance(chain, state, dt, work[2], middle)


@jit
def rooms(table):
    """Room of one step: work, last and new accelerations, forces; q, q̇ in the middle."""
    _, nq, nv, units = sizes(table, table.size)
    work = np.empty(units), np.zeros(nv), np.empty(nv), np.empty(nv)
    return work, (np.empty(nq), np.empty(nv))


@jit
def run(chain, springs, states, forces, pace, frames):
    """Many steps of every replica: ``states`` q (replicas, nq), q̇ in place, and recorded frames.

    ``pace``: dt, steps done, steps to do, steps from frame to frame, and whether by midpoints.
    Returns the step and the replica that have no answer, and why.
    """
    q, v = states
    dt, done, steps, every, by_midpoint = pace
    room = rooms(chain[0])
    for replica in range(q.shape[0]):
        state = q[replica], v[replica]
        for step in range(done + 1, done + steps + 1):
            if by_midpoint:
                code = midpoint(chain, springs, state, forces[replica], dt, room)
            else:
                code = euler(chain, springs, state, forces[replica], dt, room)
            if code != DONE:
                return step, replica, code
            if step % every == 0:
                frame = step // every
                for k in range(q.shape[1]):
                    frames[0][frame, replica, k] = state[0][k]
                for k in range(v.shape[1]):
                    frames[1][frame, replica, k] = state[1][k]
    return 0, 0, DONE


# --- forces that change in time: Python asks for them in every round ------------------------------


@jit
def halves(chain, states, a, dt, middles):
    """q, q̇ in the middle of a step of every replica."""
    for replica in range(a.shape[0]):
        state = states[0][replica], states[1][replica]
        middle = middles[0][replica], middles[1][replica]
        halfway(chain[1], state, a[replica], 0.5 * dt, middle)


@jit
def rounds(chain, springs, middles, forces, dt, found):
    """One round for every replica that has not settled; the replica without an answer, and why.

    ``found``: accelerations (replicas, nv), and how far the last round changed the rates
    (replicas,), negative of replicas that have settled.
    """
    a, changes = found
    work, _ = rooms(chain[0])
    for replica in range(a.shape[0]):
        if changes[replica] < 0.0:
            continue
        room = work[0], a[replica], work[2], work[3]
        middle = middles[0][replica], middles[1][replica]
        code = accelerate(chain, springs, middle, middle[0], forces[replica], room)
        if code != DONE:
            return replica, code
        changes[replica], still = settled(middle, dt, room, changes[replica])
        if still:
            changes[replica] = -1.0
    return 0, DONE


@jit
def advances(chain, states, dt, a, middles):
    """Every replica to the end of its step; the replica without an answer, and why."""
    for replica in range(a.shape[0]):
        state = states[0][replica], states[1][replica]
        middle = middles[0][replica], middles[1][replica]
        code = advance(chain, state, dt, a[replica], middle)
        if code != DONE:
            return replica, code
    return 0, DONE
