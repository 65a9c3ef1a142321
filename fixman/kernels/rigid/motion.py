"""Motion in time of a serial chain: steps of the variational midpoint rule, and of Euler's.

With q ⊕ v reached from q after unit time at the rates v (docs/theory.md, section 12):

    q_m = q_0 ⊕ (dt/2) v_m                                                    (M1)
    ℳ(q_m) v_m = p_m = p_0 + (dt/2) f_m,  p_0 = ℳ(q_0) v_0                    (M2)
    q_1 = q_m ⊕ (dt/2) v_m                                                    (M3)
    ℳ(q_1) v_1 = p_1 = p_m + (dt/2) f_m                                       (M4)

Joints that are not FLAT (spherical, free, planar) have rates that are not the derivatives of
coordinates.  Their axes turn by X = dt ω in a step.  With B(X) = (1 − e^{−X×})/X× = B(−X)ᵀ, momenta
of turns, and then of slides, are

    p_m = B(−X)ᵀ p_0 + (dt/2) B(−X/2)ᵀ f_m,     e^{−X×/2} p_0 + (dt/2) f_m          (M2′)
    p_1 = B(X)⁻ᵀ (p_m + (dt/2) B(X/2)ᵀ f_m),    e^{−X×/2} (p_m + (dt/2) f_m)        (M4′)

Pairs of vectors are linear before angular here, [v; ω] and [p; n]; in `tangent` and `links` they
are angular first.

A step is `begin`, which finds p_0; some `newton_round`s, which solve (M1) and (M2) for v_m
(`solve_middle`); and `finish`, which is (M3) and (M4).

``force`` is joint forces (nv,) and loads: gravity (3,), after which wrenches (6 n) may follow.

Springs and dampers enter the inertia of their joints: c dt + k dt² for Euler's step and
c dt/2 + k dt²/4 for the midpoint.

numba optimizes what a function calls once more with it: so calls are nested little, and functions
with one caller are written into it.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels import entry, plain
from fixman.kernels.algebra.triples import back, constants, entries, entries9, put_entries
from fixman.kernels.algebra.vectors import fused_cross, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import articulated_body as bodies
from fixman.kernels.rigid import joints as joint
from fixman.kernels.rigid import tangent
from fixman.kernels.rigid.articulated_body import DONE, EPS, NOT_USABLE
from fixman.kernels.rigid.joints import FLAT, RATES, ZERO, sliding, turning
from fixman.kernels.rigid.kinematics import follow
from fixman.kernels.rigid.links import ARMATURE, MASS, PITCH, momentum, outwards, transforms
from fixman.kernels.rigid.newton_euler import taken_back
from fixman.kernels.rigid.tangent import AT_END, AT_START, factor, place_axes, solve

NOT_SETTLED, TOO_FAST = -4, -5
SETTLED, ASTRAY, BACK = -6, -7, -8  # verdicts on a round: settled; diverged; to be undone
ROUNDS = 30
PIECES = 64  # most pieces of a step's length by which it is continued
BEGIN, ROUND, NEWTON, END = 0, 1, 2, 3  # parts of a step, see `swept`
SLOW = 0.1  # share of an error that a round leaves, from where the tangent is computed again
WAIT = 4.0  # rounds without progress that show rounding, of rates to LOOSE at most
LOOSE = 1e-7
FASTEST = math.pi  # that a joint may turn in a step
# Elements of `Room.progress`, infinite before the first round: how far the round before moved
# rates, the least that one did, rounds since then, the round before the last, and rounding besides
# that of momenta.
LAST, LEAST, SINCE, OLDER, ROUNDING, REMEMBERED = 0, 1, 2, 3, 4, 5


class Chain(NamedTuple):
    """Constants of a chain."""

    kinds: Any  # (n,) and ``links`` as in `links`
    links: Any
    turns: Any  # (nv,) 1 for rates of turns and 0 for others
    springs: Any  # damping (nv,), stiffness (nv,) and coordinates at rest (nq,)


class Sweeps(NamedTuple):
    """Memory for `momenta`."""

    X: Any  # (n, 12), as `links.transforms` has them
    V: Any  # (n, 6): [v; ω] of a body but for its own joint's, V⁻
    P: Any  # (n, 6): momentum of a body and all beyond, [p; n]
    W: Any  # (n, 6): weight and wrench of a body and all beyond
    p: Any  # (nv,) ∂L/∂q̇
    f: Any  # (nv,) ∂L/∂q, and then all forces


class Room(NamedTuple):
    """Memory for the steps of a chain, which keeps nothing from one to the next."""

    sweeps: Sweeps
    change: Any  # (nv,) of v_m, by the last round
    axes: Any  # (n, WIDTH), `tangent`'s, as the next two
    rows: Any  # (nv, RATE)
    K: Any  # (36,)
    q_1: Any  # (nq,)
    p_0: Any  # (nv,)
    q_m: Any  # (nq,)
    v_m: Any  # (nv,)
    progress: Any  # (REMEMBERED,)


# --- momenta and forces ---------------------------------------------------------------------------


@step
def weight(links, i, g):
    c = entries(links, i, 13)
    f = scaled(links[i, MASS], g)
    return (*f, *fused_cross(c, f))


@step
def centrifugal(P, w, v, W):
    """∂L/∂q, force and moment, of a body carried by [v; w], of momentum P = [p; n] and weight W."""
    p, n = P
    return plus(fused_cross(p, w), W[0]), plus(plus(fused_cross(n, w), fused_cross(p, v)), W[1])


@plain
def spin_rotors(kind, link, v, at, f):
    """Add ω × (the momentum of rotors): (M2′) turns all of p, rotors have no gyroscopic moments."""
    w, u = turning(kind, v, at), sliding(kind, v, at)
    J, m = turning(kind, link, ARMATURE), sliding(kind, link, ARMATURE)
    turn = fused_cross(w, (J[0] * w[0], J[1] * w[1], J[2] * w[2]))
    slide = fused_cross(w, (m[0] * u[0], m[1] * u[1], m[2] * u[2]))
    turn, slide = plus(turning(kind, f, at), turn), plus(sliding(kind, f, at), slide)
    joint.put_rates(kind, turn, slide, f, at)


@plain
def momenta(chain, q, v, loads, sweeps):
    """p = ∂L/∂q̇ and f = ∂L/∂q, with what wrenches add, of a chain without springs, in two sweeps.

    With P_i the momentum of body i and those after it, and V⁻_i the twist of body i but for its own
    joint's (for its turns alone, unless the joint is FLAT), p = S_iᵀ P_i and ∂T/∂q_i = P_i · (V⁻_i
    × S_i).  False where q cannot be used.
    """
    kinds, links, _, _ = chain
    X, V, P, W, p, f = sweeps
    if transforms(q, kinds, links, X) != 0.0:
        return False
    w = u = ZERO
    g = constants(loads, 0)
    at = 0
    for i in range(kinds.size):
        w, u = outwards(X, i, w, u)
        g = back(entries9(X, i, 0), g)
        put_entries(V, i, 0, (*u, *w))
        turn, slide = joint.joint_twist(kinds[i], links[i, PITCH], v, at)
        w, u = plus(w, turn), plus(u, slide)
        angular, linear = momentum(links, i, MASS, w, u)
        put_entries(P, i, 0, (*linear, *angular))
        put_entries(W, i, 0, weight(links, i, g))
        if loads.size > 3:
            for k in range(6):
                W[i, k] += loads[3 + 6 * i + k]
        at += RATES[kinds[i]]
    for i in range(kinds.size - 1, -1, -1):
        kind, pitch = kinds[i], links[i, PITCH]
        at -= RATES[kind]
        both = entries(P, i, 0), entries(P, i, 3)
        u, w = entries(V, i, 0), entries(V, i, 3)
        if not FLAT[kind]:
            # At fixed ends R_m u dt is fixed, so δu = −δ_m × u: the body's own slide is felt too.
            u = plus(u, sliding(kind, v, at))
        force, moment = centrifugal(both, w, u, (entries(W, i, 0), entries(W, i, 3)))
        for j in range(RATES[kind]):
            own = joint.component(kind, pitch, j, both[1], both[0])
            p[at + j] = own + links[i, ARMATURE + j] * v[at + j]
            f[at + j] = joint.component(kind, pitch, j, moment, force)
        if not FLAT[kind]:
            spin_rotors(kind, links[i], v, at, f)
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
    """Momenta at the middle of a step from those before (M2′), with ``sign`` 1 at its end (M4′)."""
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
            more = scaled(h, tangent.times_b(turning(kind, f, at), axis, half, sign))
            if sign < 0.0:
                turn = plus(tangent.times_b(turn, axis, angle, -1.0), more)  # (M2′)
                slide = plus(turned_half(slide, axis, angle), scaled(h, sliding(kind, f, at)))
            else:
                # B(X)⁻ᵀ = 1 − (θ/2) n× + (1 − (θ/2) cot(θ/2)) (n×)²
                rest = 1.0 - half * math.cos(half) / math.sin(half) if half > 0.0 else 0.0
                turn = joint.along_screw(plus(turn, more), axis, -half, rest)  # (M4′)
                slide = turned_half(plus(slide, scaled(h, sliding(kind, f, at))), axis, angle)
            joint.put_rates(kind, turn, slide, out, at)
        at += RATES[kind]


# --- parts of a step ------------------------------------------------------------------------------


@plain
def too_fast(turns, v, dt):
    fastest = 0.0
    for k in range(v.size):
        fastest = max(fastest, turns[k] * abs(v[k]))
    return dt * fastest > FASTEST


@plain
def begin(chain, state, loads, room):
    """p_0 += ℳ(q_0) v_0 (M2), to impulses of closures; axes of the tangent at q_0; DONE, or not."""
    sweeps, p_0 = room.sweeps, room.p_0
    if not momenta(chain, state[0], state[1], loads, sweeps):
        return NOT_USABLE
    place_axes(sweeps.X, room.axes, AT_START)
    for k in range(p_0.size):
        p_0[k] += sweeps.p[k]
    return DONE


@plain
def at_middle(chain, force, q_m, v_m, sweeps):
    """p_m = ℳ(q_m) v_m and f_m of (M2); whether the numbers can be used."""
    if not momenta(chain, q_m, v_m, force[1], sweeps):
        return False
    f = sweeps.f
    for k in range(f.size):
        f[k] += force[0][k]
    joint.passive(chain.kinds, *chain.springs, q_m, v_m, f)
    return True


@plain
def newton_round(chain, force, dt, room, newton):
    """v_m += J⁻¹ (p_0 + (dt/2) f_m − ℳ(q_m) v_m), a round on (M2); DONE, or why not.

    J is the tangent of the last round with ``newton``, for which q_1 is followed from q_m along the
    axes there, as q_m was from q_0: the three are on one line.
    """
    kinds, links, _, _ = chain
    (X, _, _, _, p, f), change = room.sweeps, room.change
    axes, q_m, v_m, h = room.axes, room.q_m, room.v_m, 0.5 * dt
    if newton:
        follow(kinds, q_m, v_m, h, q_m, True, room.q_1)
        if transforms(room.q_1, kinds, links, X) != 0.0:
            return NOT_USABLE
        place_axes(X, axes, AT_END)
    if not at_middle(chain, force, q_m, v_m, room.sweeps):
        return NOT_USABLE
    if newton:
        factor(chain, room, h)  # J
    next_momenta(kinds, room.p_0, f, v_m, dt, -1.0, change)  # p_m
    for k in range(change.size):
        change[k] -= p[k]  # residual of (M2)
    solve(kinds, axes, room.rows, change)  # of the rates
    for k in range(change.size):
        v_m[k] += change[k]
    return DONE


@plain
def finish(chain, state, force, dt, room):
    """q_1 (M3), and v_1 = v_m + ℳ(q_1)⁻¹ (p_1 − ℳ(q_1) v_m) (M4) into ``state``; DONE, or not."""
    kinds, _, turns, _ = chain
    (X, _, _, _, p, f), change = room.sweeps, room.change
    axes, q_1, q_m, v_m = room.axes, room.q_1, room.q_m, room.v_m
    if too_fast(turns, v_m, dt):
        return TOO_FAST
    if not at_middle(chain, force, q_m, v_m, room.sweeps):
        return NOT_USABLE
    next_momenta(kinds, p, f, v_m, dt, 1.0, change)  # p_1
    follow(kinds, q_m, v_m, 0.5 * dt, q_m, True, q_1)  # (M3)
    if not momenta(chain, q_1, v_m, force[1], room.sweeps):
        return NOT_USABLE
    place_axes(X, axes, AT_START)
    place_axes(X, axes, AT_END)
    body = factor(chain, room, 0.0)  # ℳ(q_1)
    if body != DONE:
        return body
    for k in range(change.size):
        change[k] -= p[k]  # p is ℳ(q_1) v_m now
    solve(kinds, axes, room.rows, change)
    for k in range(change.size):
        state[1][k] = v_m[k] + change[k]
    for k in range(q_1.size):
        state[0][k] = q_1[k]
    check = joint.not_a_number(state[0]) + joint.not_a_number(state[1])
    return DONE if check == 0.0 else NOT_USABLE


@entry
def judged(n, q_m, v_m, change, progress, dt, which):
    """Verdict on a round that moved the rates of n bodies by ``change``: another one, or not.

    A round must move at most half as far as the one before, all together at most twice as far as
    the first: a root further away belongs to other rates.  One that moves by rounding is the last.
    """
    largest = speed = 0.0
    reach = 1.0
    for k in range(change.size):
        largest, speed = max(largest, abs(change[k])), max(speed, abs(v_m[k]))
        if not math.isfinite(change[k]):
            return ASTRAY
    for k in range(q_m.size):
        reach = max(reach, abs(q_m[k]))
    before, best, older = progress[LAST], progress[LEAST], progress[OLDER]
    # Momenta add up to n³ times what the lightest joint moves, and so does their rounding.
    noise = EPS * (1.0 + float(n) ** 3 / 16.0) * speed + progress[ROUNDING]
    progress[LAST], progress[OLDER] = largest, before
    progress[SINCE] += 1.0
    if largest < 0.5 * best:
        progress[LEAST], progress[SINCE] = largest, 0.0
    step = EPS * reach / dt  # moves coordinates by their rounding
    if largest <= max(4.0 * noise, step):
        return SETTLED
    if largest < before < np.inf and largest * largest <= noise * (before - largest):
        return SETTLED
    small = largest <= LOOSE * speed + 1000.0 * step
    # At rest, forces that are in balance round the more the stiffer they are.
    steady = largest <= max(4.0 * progress[LEAST], 1000.0 * step)
    if small and progress[SINCE] >= WAIT and steady:
        return SETTLED
    if largest <= SLOW * before:
        return ROUND
    if small or largest <= 0.5 * before:
        return NEWTON
    progress[LAST] = older if older < np.inf else before
    return BACK if which == ROUND else ASTRAY


@plain
def solve_middle(chain, q_0, force, dt, room):
    """Solve (M1) and (M2) of a step of dt for v_m, from the rates that are there."""
    kinds, q_m, v_m = chain.kinds, room.q_m, room.v_m
    change, progress = room.change, room.progress
    for k in range(ROUNDING):
        progress[k] = math.inf
    progress[ROUNDING] = 0.0
    which, again = NEWTON, ROUND
    for _ in range(ROUNDS):
        follow(kinds, q_0, v_m, 0.5 * dt, q_m, True, q_m)  # (M1)
        code = newton_round(chain, force, dt, room, which == NEWTON)  # (M2)
        if code != DONE:
            return code
        which = judged(kinds.size, q_m, v_m, change, progress, dt, which)
        if which == SETTLED:
            return DONE
        if which == ASTRAY:
            break
        if which == BACK:
            for k in range(change.size):
                v_m[k] -= change[k]
            which = again = NEWTON
        if which == ROUND:
            which = again
    return NOT_SETTLED


@plain
def midpoint(chain, state, force, dt, room):
    """One step: by continuation of its length, from rates at the start, where a leap goes astray.

    Nothing is remembered, so that a run can be continued from a frame.
    """
    p_0, v_m = room.p_0, room.v_m
    for k in range(p_0.size):
        p_0[k] = 0.0
    code = begin(chain, state, force[1], room)
    pieces = 1
    while code == DONE:
        for k in range(v_m.size):
            v_m[k] = state[1][k]
        for piece in range(1, pieces + 1):
            code = solve_middle(chain, state[0], force, dt * piece / pieces, room)
            if code != DONE:
                break
        if code == DONE:
            follow(chain.kinds, state[0], v_m, 0.5 * dt, room.q_m, True, room.q_m)  # (M1)
            return finish(chain, state, force, dt, room)  # (M3) and (M4)
        pieces *= 4
        if pieces <= PIECES:
            code = DONE
    return code


@plain
def euler(chain, state, force, dt, room):
    """One linearly implicit step: springs as they are when all has moved on for dt.

    c are the dampers, k the springs, K Δ(q) is the pull of these at q, and f all other forces less
    the bias, at q_0 and v_0.  Then

        (ℳ(q_0) + c dt + k dt²) (v_1 − v_0) = dt [f − c v_0 − K Δ(q_0 ⊕ dt v_0)]
        q_1 = q_0 ⊕ dt v_1
    """
    kinds, _, turns, springs = chain
    soft, work, a, f, q_m = room
    q, v = state
    for k in range(f.size):
        f[k] = force[0][k]
    follow(kinds, q, v, dt, q, False, q_m)
    joint.passive(kinds, *springs, q_m, v, f)
    code = bodies.forward(soft, q, v, f, force[1], 0, work, a, 0.0)
    if code != DONE:
        return code
    for k in range(v.size):
        a[k] = v[k] + dt * a[k]
    if too_fast(turns, a, dt):
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

    ``by_midpoint``, ``by_euler``: `Room`, or that of `euler`; and None for the other one.
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


@entry
def swept(chain, state, force, dt, room, which):
    """A part of a step: `begin`, `finish`, or a `newton_round`, `NEWTON` or another `ROUND`."""
    if which == BEGIN:
        return begin(chain, state, force[1], room)
    if which == END:
        return finish(chain, state, force, dt, room)
    return newton_round(chain, force, dt, room, which == NEWTON)
