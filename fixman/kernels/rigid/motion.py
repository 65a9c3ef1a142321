"""Motion in time of a serial chain: steps of the variational midpoint rule, and of Euler's.

With p = ∂L/∂q̇, f = ∂L/∂q + forces and L_d = dt L(q_m, v_m), p_0 = −D₁L_d and p_1 = D₂L_d are

    q_m = q_0 ⊕ (dt/2) v_m                                                                (1)
    ℳ(q_m) v_m = p_m = p_0 + (dt/2) f_m,                      p_0 = ℳ(q_0) v_0            (2)
    q_1 = q_m ⊕ (dt/2) v_m                                                                (3)
    ℳ(q_1) v_1 = p_1 = p_m + (dt/2) f_m                                                   (4)

Of joints that turn about all axes, with X = dt ω and B(X) = (1 − e^{−X×})/X×, (2) and (4) are

    p_m = B(−X)ᵀ p_0 + (dt/2) B(−X/2)ᵀ f_m                                              (2′)
    p_1 = B(X)⁻ᵀ (p_m + (dt/2) B(X/2)ᵀ f_m)                                             (4′)

and of their slides p_m = e^{−(X/2)×} p_0 + (dt/2) f_m, p_1 = e^{−(X/2)×} (p_m + (dt/2) f_m), as ⊕
moves origins along the axes of the middle.  `solve_middle` solves (1) and (2) for v_m, a last
`sweep` is (3) and (4).

``force`` is joint forces (nv,) and loads: gravity (3,), after which wrenches (6 n) may follow.

Springs and dampers enter the inertia of their joints: c dt + k dt² for Euler's step and
c dt/2 + k dt²/4 for the midpoint.

numba optimizes what a function calls once more with it: so calls are nested little, and functions
with one caller are written into it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import entry, inlined, plain
from fixman.kernels.algebra.triples import back, constants, entries, put_entries, times
from fixman.kernels.algebra.vectors import fused_cross, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import articulated_body as bodies
from fixman.kernels.rigid import joints as joint
from fixman.kernels.rigid.articulated_body import DONE, NOT_USABLE
from fixman.kernels.rigid.joints import FLAT, RATES, ZERO, sliding, turning
from fixman.kernels.rigid.kinematics import follow
from fixman.kernels.rigid.links import PITCH, nine, outwards, transforms
from fixman.kernels.rigid.newton_euler import taken_back
from fixman.kernels.rigid.tangent import END as AT_END
from fixman.kernels.rigid.tangent import START as AT_START
from fixman.kernels.rigid.tangent import body_inertias, factor, place_axes, solve, times_b

NOT_SETTLED, TOO_FAST = -4, -5
SETTLED, ASTRAY, BACK = -6, -7, -8  # verdicts on a round: settled; diverged; to be undone
ROUNDS = 30
PIECES = 64  # most pieces of a step's length by which it is continued
BEGIN, ROUND, NEWTON, END = 0, 1, 2, 3  # sweeps of a step
SLOW = 0.1  # share of an error that a round leaves, from where the tangent is computed again
WAIT = 4.0  # rounds without progress that show rounding, of rates to LOOSE at most
LOOSE = 1e-7
FASTEST = math.pi  # that a joint may turn in a step
EPS = 2.0**-52


class Chain(NamedTuple):
    """Constants of a chain."""

    kinds: Any  # (n,) and ``links`` as in `links`
    links: Any
    armature: Any  # (nv,)
    turning: Any  # (nv,) 1 for rates of turns and 0 for others
    springs: Any  # damping (nv,), stiffness (nv,) and coordinates at rest (nq,)


# --- momenta and forces ---------------------------------------------------------------------------


@step
def momentum(links, i, w, v):
    """Linear and angular momentum [p; n] of a body about its origin."""
    c, inertia = entries(links, i, 13), tuple(links[i, 16 + k] for k in range(9))
    p = scaled(links[i, 12], plus(v, fused_cross(w, c)))
    return (*p, *plus(times(inertia, w), fused_cross(c, p)))


@step
def weight(links, i, g):
    c = entries(links, i, 13)
    f = scaled(links[i, 12], g)
    return (*f, *fused_cross(c, f))


@step
def centrifugal(P, w, v, W):
    """∂L/∂q, force and moment, of a body carried by [w; v], of momentum P = [p; n] and weight W."""
    p, n = P
    return plus(fused_cross(p, w), W[0]), plus(plus(fused_cross(n, w), fused_cross(p, v)), W[1])


@plain
def spin_rotors(kind, armature, v, at, f):
    """Add ω × (the momentum of rotors), which are spun up but have no gyroscopic moments."""
    w, u = turning(kind, v, at), sliding(kind, v, at)
    J, m = turning(kind, armature, at), sliding(kind, armature, at)
    turn = fused_cross(w, (J[0] * w[0], J[1] * w[1], J[2] * w[2]))
    slide = fused_cross(w, (m[0] * u[0], m[1] * u[1], m[2] * u[2]))
    turn, slide = plus(turning(kind, f, at), turn), plus(sliding(kind, f, at), slide)
    joint.put_rates(kind, turn, slide, f, at)


@plain
def momenta(chain, q, v, loads, room, out):
    """p = ∂L/∂q̇ and f = ∂L/∂q, with what wrenches add, of a chain without springs, in two sweeps.

    With P_i the momentum of body i and those after it, and V⁻_i the twist of body i but for its own
    joint's, p = S_iᵀ P_i and ∂T/∂q_i = P_i · (V⁻_i × S_i).
    """
    kinds, links, armature, _, _ = chain
    X, carried, P, W = room
    p, f = out
    if not transforms(q, kinds, links, X):
        return False
    w = u = ZERO
    g = constants(loads, 0)
    at = 0
    for i in range(kinds.size):
        w, u = outwards(X, i, w, u)
        g = back(nine(X, i, 0), g)
        put_entries(carried, i, 0, u)
        put_entries(carried, i, 3, w)
        turn, slide = joint.joint_twist(kinds[i], links[i, PITCH], v, at)
        w, u = plus(w, turn), plus(u, slide)
        put_entries(P, i, 0, momentum(links, i, w, u))
        put_entries(W, i, 0, weight(links, i, g))
        if loads.size > 3:
            for k in range(6):
                W[i, k] += loads[3 + 6 * i + k]
        at += RATES[kinds[i]]
    for i in range(kinds.size - 1, -1, -1):
        kind, pitch = kinds[i], links[i, PITCH]
        at -= RATES[kind]
        both = entries(P, i, 0), entries(P, i, 3)
        u, w = entries(carried, i, 0), entries(carried, i, 3)
        if not FLAT[kind]:
            u = plus(u, sliding(kind, v, at))  # it moves along axes that do not turn with it
        force, moment = centrifugal(both, w, u, (entries(W, i, 0), entries(W, i, 3)))
        for j in range(RATES[kind]):
            p[at + j] = (
                joint.component(kind, pitch, j, both[1], both[0]) + armature[at + j] * v[at + j]
            )
            f[at + j] = joint.component(kind, pitch, j, moment, force)
        if not FLAT[kind]:
            spin_rotors(kind, armature, v, at, f)
        if i > 0:
            taken_back(X, i, P)
            taken_back(X, i, W)
    return True


@plain
def turned_half(y, axis, angle):
    """y in axes turned by half the angle."""
    return joint.along_screw(y, axis, -math.sin(0.5 * angle), 1.0 - math.cos(0.5 * angle))


@plain
def next_momenta(kinds, p, f, v, dt, sign, out):
    """Momenta at the middle of a step (2′) from those before; with ``sign`` 1, at its end (4′)."""
    at, h = 0, 0.5 * dt
    for i in range(kinds.size):
        kind = kinds[i]
        if FLAT[kind]:
            for k in range(at, at + RATES[kind]):
                out[k] = p[k] + h * f[k]
        else:
            angle, axis = joint.unit_vector(scaled(dt, turning(kind, v, at)))
            half = 0.5 * angle
            turn, slide = turning(kind, p, at), sliding(kind, p, at)
            more = scaled(h, times_b(turning(kind, f, at), axis, half, sign))
            if sign < 0.0:
                turn = plus(times_b(turn, axis, angle, -1.0), more)  # (2′)
                slide = plus(turned_half(slide, axis, angle), scaled(h, sliding(kind, f, at)))
            else:
                rest = 1.0 - half * math.cos(half) / math.sin(half) if half > 0.0 else 0.0
                turn = joint.along_screw(plus(turn, more), axis, -half, rest)  # (4′)
                slide = turned_half(plus(slide, scaled(h, sliding(kind, f, at))), axis, angle)
            joint.put_rates(kind, turn, slide, out, at)
        at += RATES[kind]


# --- sweeps of a step -----------------------------------------------------------------------------


@plain
def too_fast(turning, v, dt):
    """Whether a joint turns by more than half a turn."""
    fastest = 0.0
    for k in range(v.size):
        fastest = max(fastest, turning[k] * abs(v[k]))
    return dt * fastest > FASTEST


@plain
def sweep(chain, state, force, dt, room, which):
    """One sweep of a midpoint step; DONE, or why not.

        BEGIN            p_0 += ℳ(q_0) v_0
        NEWTON, ROUND    v_m += J⁻¹ (p_0 + (dt/2) f_m − ℳ(q_m) v_m), by (2)
        END              q_1 by (3), p_1 by (4), v_1 = v_m + ℳ(q_1)⁻¹ (p_1 − ℳ(q_1) v_m)

    All but the first begin at the middle, along its axes: both halves of a step are along one line.
    J is the tangent of the last `NEWTON`.  Afterwards p holds the change of v_m.
    """
    kinds, links, armature, turning, springs = chain
    sweeps, (p, f, r), tangent, p0, middle = room
    q_m, v_m = state if which == BEGIN else middle
    X, (axes, rows, K, q_1) = sweeps[0], tangent
    if which == END and too_fast(turning, v_m, dt):
        return TOO_FAST
    if which == NEWTON:
        follow(kinds, q_m, v_m, 0.5 * dt, q_m, True, q_1)
        if not transforms(q_1, kinds, links, X):
            return NOT_USABLE
        place_axes(X, axes, AT_END)
    if not momenta(chain, q_m, v_m, force[1], sweeps, (p, f)):  # p_m, or p_0 at the start
        return NOT_USABLE
    if which == BEGIN:
        place_axes(X, axes, AT_START)
        for k in range(p.size):
            p0[k] += p[k]  # p_0
        return DONE
    for k in range(f.size):
        f[k] += force[0][k]
    joint.passive(kinds, *springs, q_m, v_m, f)
    h = 0.5 * dt
    if which == END:
        next_momenta(kinds, p, f, v_m, dt, 1.0, r)  # p_1 (4), then q_1 (3) and ℳ(q_1) v_m
        follow(kinds, q_m, v_m, 0.5 * dt, q_m, True, q_1)
        if not momenta(chain, q_1, v_m, force[1], sweeps, (p, f)):
            return NOT_USABLE
        place_axes(X, axes, AT_START)
        place_axes(X, axes, AT_END)
        h = 0.0
    else:
        next_momenta(kinds, p0, f, v_m, dt, -1.0, r)  # the right side of (2)
    if which != ROUND:
        body_inertias(kinds, links, X, sweeps[1], v_m, h, axes)
        body = factor(kinds, links, armature, springs, v_m, h, axes, rows, K)  # J, or ℳ(q_1)
        if which == END and body != DONE:
            return body
    for k in range(p.size):
        p[k] = r[k] - p[k]  # p_m − ℳ v_m (2), p_1 − ℳ v_m (4)
    solve(kinds, axes, rows, p)  # J⁻¹, or ℳ(q_1)⁻¹
    if which == END:
        check = 0.0
        for k in range(p.size):
            state[1][k] = v_m[k] + p[k]
            check += 0.0 * state[1][k]
        for k in range(q_1.size):
            state[0][k] = q_1[k]
            check += 0.0 * q_1[k]
        return DONE if check == 0.0 else NOT_USABLE
    for k in range(p.size):
        v_m[k] += p[k]
    return DONE


@plain
def judged(n, middle, change, progress, dt, which):
    """Verdict on a round that moved the rates of n bodies by ``change``: another one, or not.

    A round must move at most half as far as the one before, all together at most twice as far as
    the first: a root further away belongs to other rates.  One that moves by rounding is the last.

    ``progress``, infinities before the first round:

        0, 1, 2    how far they moved in the round before, how far at least, rounds since then
        3, 4       how far in the round before the last; rounding besides that of momenta
    """
    q_m, v_m = middle
    largest = speed = 0.0
    reach = 1.0
    for k in range(change.size):
        largest = max(largest, abs(change[k]))
        if not math.isfinite(change[k]):
            return ASTRAY
    for k in range(v_m.size):
        speed = max(speed, abs(v_m[k]))
    for k in range(q_m.size):
        reach = max(reach, abs(q_m[k]))
    before, best, older = progress[0], progress[1], progress[3]
    # Momenta add up to n³ times what the lightest joint moves, and so does their rounding.
    noise = EPS * (1.0 + float(n) ** 3 / 16.0) * speed + progress[4]
    progress[0], progress[3] = largest, before
    progress[2] += 1.0
    if largest < 0.5 * best:
        progress[1], progress[2] = largest, 0.0
    if largest <= 4.0 * noise:
        return SETTLED
    if largest < before < np.inf and largest * largest <= noise * (before - largest):
        return SETTLED
    small = largest <= LOOSE * speed + 1000.0 * EPS * reach / dt
    if small and progress[2] >= WAIT and largest <= 4.0 * progress[1]:
        return SETTLED
    if largest <= SLOW * before:
        return ROUND
    if small or largest <= 0.5 * before:
        return NEWTON
    progress[0] = older if older < np.inf else before
    return BACK if which == ROUND else ASTRAY


# --- steps ----------------------------------------------------------------------------------------


@inlined
def solve_middle(chain, state, force, dt, one):
    """Solve for the rates at the middle of a step of dt, from those that are there."""
    _, (p, _, _), _, _, (q_m, v_m), progress = one
    progress[0] = progress[1] = progress[2] = progress[3] = math.inf
    progress[4] = 0.0
    which, again = NEWTON, ROUND
    for _ in range(ROUNDS):
        follow(chain[0], state[0], v_m, 0.5 * dt, q_m, True, q_m)  # (1)
        code = sweep(chain, state, force, dt, one[:5], which)
        if code != DONE:
            return code
        which = judged(chain[0].size, one[4], p, progress, dt, which)
        if which == SETTLED:
            return DONE
        if which == ASTRAY:
            break
        if which == BACK:
            for k in range(p.size):
                v_m[k] -= p[k]
            which = again = NEWTON
        if which == ROUND:
            which = again
    return NOT_SETTLED


@inlined
def midpoint(chain, state, force, dt, room):
    """One step: by continuation of its length, from rates at the start, where a leap goes astray.

    Nothing is remembered, so that a run can be continued from a frame.
    """
    p0, (q_m, v_m) = room[3], room[4]
    for k in range(p0.size):
        p0[k] = 0.0
    code = sweep(chain, state, force, dt, room[:5], BEGIN)
    pieces = 1
    while code == DONE:
        for k in range(p0.size):
            v_m[k] = state[1][k]
        for piece in range(1, pieces + 1):
            code = solve_middle(chain, state, force, dt * piece / pieces, room)
            if code != DONE:
                break
        if code == DONE:
            follow(chain[0], state[0], v_m, 0.5 * dt, q_m, True, q_m)  # (1)
            return sweep(chain, state, force, dt, room[:5], END)  # (3) and (4)
        pieces *= 4
        if pieces <= PIECES:
            code = DONE
    return code


@inlined
def euler(chain, state, force, dt, room):
    """One linearly implicit step: springs as they are when all has moved on for dt."""
    kinds, _, _, turning, springs = chain
    soft, work, a, f, q_m = room
    q, v = state
    for k in range(f.size):
        f[k] = force[0][k]
    follow(kinds, q, v, dt, q, False, q_m)
    joint.passive(kinds, *springs, q_m, v, f)
    if not bodies.outwards(soft, q, v, force[1], 0, work, 0.0):
        return NOT_USABLE
    code = bodies.inwards(soft, f, 0, work, 0.0)
    if code != DONE:
        return code
    if not bodies.accelerations(soft, v, force[1], 0, work, a, 0.0):
        return NOT_USABLE
    for k in range(v.size):
        a[k] = v[k] + dt * a[k]
    if too_fast(turning, a, dt):
        return TOO_FAST
    follow(kinds, q, a, dt, q, False, q_m)
    for k in range(v.size):
        v[k] = a[k]
    for k in range(q.size):
        q[k] = q_m[k]
    return DONE


@entry
def run(chain, forces, pace, by_midpoint, by_euler, kept):
    """Many steps of every replica.

    ``by_midpoint``, ``by_euler``: room for steps of that scheme, and None for the other one.
    ``pace``: dt, steps done, steps to do, and steps from frame to frame.  ``kept``: q (replicas,
    nq) and q̇ in place, and the frames (frames, replicas, nq) and so on.
    Returns the step and the replica that have no answer, and why.
    """
    dt, done, steps, every = pace
    states, frames = kept
    for replica in range(states[0].shape[0]):
        state = states[0][replica], states[1][replica]
        force = forces[0][replica], forces[1][replica]
        for count in range(done + 1, done + steps + 1):
            code = DONE
            if by_midpoint is not None:
                code = midpoint(chain, state, force, dt, by_midpoint)
            if by_euler is not None:
                code = euler(chain, state, force, dt, by_euler)
            if code != DONE:
                return count, replica, code
            if count % every == 0:
                for which in range(2):
                    for k in range(state[which].size):
                        frames[which][count // every, replica, k] = state[which][k]
    return 0, 0, DONE


# --- for callers in Python ------------------------------------------------------------------------


@entry
def swept(chain, state, force, dt, room, which):
    """See `sweep`."""
    return sweep(chain, state, force, dt, room, which)


@entry
def verdict(n, middle, change, progress, dt, which):
    """See `judged`."""
    return judged(n, middle, change, progress, dt, which)


@entry
def solved(kinds, work, rows, x):
    """See `solve`."""
    solve(kinds, work, rows, x)
