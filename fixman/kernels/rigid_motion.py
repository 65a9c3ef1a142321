"""Motion in time of a serial chain: steps of the variational midpoint rule, and of Euler's.

``chain`` is (table, soft, kinds, links, armature, turning, springs): tables of `articulated_body`,
of the chain as it is and with inertia added to its joints; ``kinds (n,)`` and ``links`` as in
`links`; armature (nv,); 1 for rates of turns and 0 for others (nv,); and damping (nv,), stiffness
(nv,) and coordinates at rest (nq,).  ``force`` is joint forces (nv,) and loads: gravity (3,), after
which wrenches (6 n) may follow, as forward dynamics take them.

Springs and dampers enter the inertia of their joints, because a step changes q and q̇ in proportion
to q̈: by c dt + k dt² for Euler's step, and by c dt/2 + k dt²/4 for the midpoint.

numba optimizes what a function calls once more with it.  What is called is therefore not nested
deeper than it must be: `midpoint`, `euler` and `respond` are written into what calls them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fixman.kernels import njit
from fixman.kernels.articulated_body import DONE, NOT_USABLE, accelerations, inwards
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
BEGIN, ROUND, END = 0, 1, 2  # sweeps of a step
KEPT = 5  # rounds that the next one learns from
SLOW = 0.1  # what a round leaves of what is missing, when it begins to learn
ROUNDING = 1e4  # times the square of rounding, from where nothing can be learned
SAME = 1e-13  # of the square of a difference that others do not explain, for it to say something
WAIT = 4.0  # rounds without progress that show rounding, of rates to LOOSE at most
LOOSE = 1e-7
FASTEST = math.pi  # that a joint may turn in a step
EPS = 2.0**-52
STILL = (0.0, 0.0, 0.0)

# What makes no arrays, and does not count references to them; and what is written into its callers.
OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
entry = njit(**OPTIONS, _nrt=False)
part = njit(**OPTIONS, _nrt=False, no_cpython_wrapper=True)
inlined = njit(**OPTIONS, inline="always")


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


@part
def momenta(chain, q, v, loads, room, out):
    """p = ∂L/∂q̇ and f = ∂L/∂q, with what wrenches add, of a chain without springs, in two sweeps.

    With P_i the momentum of body i and those after it, and c_i the twist of body i but for its own
    joint's, p = S_iᵀ P_i and ∂T/∂q = P_i · (c_i × S_i).
    """
    _, _, kinds, links, armature, _, _ = chain
    X, carried, P, W = room
    p, f = out
    if not place(q, kinds, links, X):
        return False
    w = u = STILL
    g = constants(loads, 0)
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
        if loads.size > 3:
            for k in range(6):
                W[i, k] += loads[3 + 6 * i + k]
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


@part
def spread(y, axis, angle, sign):
    """B(±X)ᵀ y for X = angle · axis, with B(X) = (1 − e^{−X×})/X×."""
    if angle == 0.0:
        return y
    s = math.sin(0.5 * angle)
    first, second = sign * 2.0 * s * s / angle, 1.0 - math.sin(angle) / angle
    return along_screw(y, axis, first, second)


@part
def turned_half(y, axis, angle):
    """y in axes turned by half the angle."""
    return along_screw(y, axis, -math.sin(0.5 * angle), 1.0 - math.cos(0.5 * angle))


@part
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


@part
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


# --- sweeps of a step -----------------------------------------------------------------------------


@entry
def glide(kinds, q, v, dt, axes, out):
    """Coordinates after half a step; a free base moves along its axes in the coordinates ``axes``.

    Those are the middle's, so that both halves of a step are along the same line.
    """
    follow(kinds, q, v, 0.5 * dt, out)
    if kinds[0] == FREE:
        R, _, _ = joint_motion(FREE, axes, 0)
        out[0], out[1], out[2] = plus(constants(q, 0), scaled(0.5 * dt, times(R, constants(v, 0))))


@inlined
def respond(table, motion, loads, p, work, out):
    """Accelerations by forces p, or rates of a chain at rest by impulses; DONE or why not."""
    q, v = motion
    if not towards_tip(table, q, v, loads, 0, work, 0.0):
        return NOT_USABLE
    body = inwards(table, p, 0, work, 0.0)
    if body != DONE:
        return body
    return DONE if accelerations(table, v, loads, 0, work, out, 0.0) else NOT_USABLE


@part
def too_fast(turning, v, dt):
    """Whether a joint turns by more than half a turn."""
    fastest = 0.0
    for k in range(v.size):
        fastest = max(fastest, turning[k] * abs(v[k]))
    return dt * fastest > FASTEST


@inlined
def advance(chain, state, force, dt, room, which):
    """One sweep of a midpoint step; DONE, or why not.

    `BEGIN` adds the momenta at ``state`` to p_0.  The others begin at the middle, where `glide` has
    led: a `ROUND` of Newton's method adds to its rates, and leaves what it added in p; velocity
    terms are left out of the derivatives, since they are smaller by dt q̇.  `END` goes on to the end
    of the step: coordinates, momenta, and of those the rates.
    """
    table, soft, kinds, _, _, turning, springs = chain
    (work, still, none), sweeps, (p, f, r), p0, middle = room
    q_m, v_m = state if which == BEGIN else middle
    if which == END and too_fast(turning, v_m, dt):
        return TOO_FAST
    if not momenta(chain, q_m, v_m, force[1], sweeps, (p, f)):
        return NOT_USABLE
    if which == BEGIN:
        for k in range(p.size):
            p0[k] += p[k]
        return DONE
    for k in range(f.size):
        f[k] += force[0][k]
    passive(kinds, *springs, q_m, v_m, f)
    if which == END:
        delivered(kinds, p, f, v_m, dt, r)
        glide(kinds, q_m, v_m, dt, q_m, state[0])
    else:
        transported(kinds, p0, f, v_m, dt, r)
        for k in range(r.size):
            r[k] -= p[k]
    end = which == END
    code = respond(
        table if end else soft, (state[0] if end else q_m, still), none, r, work,
        state[1] if end else p,
    )  # fmt: skip
    if code != DONE:
        # Far out, inertia is lost to rounding.
        return TOO_FAST if too_fast(turning, v_m, dt) else code
    if not end:
        for k in range(p.size):
            v_m[k] += p[k]
    return DONE


sweep = entry(advance.py_func)  # for callers in Python


@entry
def settled(n, middle, change, progress, dt):
    """Whether nothing but rounding is left of the rates of n bodies, which moved by ``change``.

    ``progress``: how far they moved in the round before, how far at least, how many rounds ago
    that was, and their rounding; infinities in the first round.
    """
    q_m, v_m = middle
    largest = 0.0
    for k in range(change.size):
        largest = max(largest, abs(change[k]))
    before = progress[0]
    progress[0] = largest
    progress[2] += 1.0
    if largest < 0.5 * progress[1]:
        progress[1], progress[2] = largest, 0.0
    speed, reach = 0.0, 1.0
    for k in range(v_m.size):
        speed = max(speed, abs(v_m[k]))
    for k in range(q_m.size):
        reach = max(reach, abs(q_m[k]))
    # Momenta add up to n³ times what the lightest joint moves, and so does their rounding.
    noise = EPS * (1.0 + float(n) ** 3 / 16.0) * speed
    progress[3] = noise
    if largest <= 4.0 * EPS * speed:
        return True
    if largest < before < np.inf and largest * largest <= noise * (before - largest):
        return True
    return progress[2] >= WAIT and progress[1] <= LOOSE * speed + 1000.0 * EPS * reach / dt


@entry
def learn(x, change, progress, past):
    """Anderson's acceleration of rounds that moved x by ``change`` to where it is, in place.

    Of the rounds before, the combination is taken off whose changes add up to this one's, by least
    squares (Walker and Ni, SIAM J. Numer. Anal. 49, 1715, 2011, eq. 4.1), where a round has left
    more than `SLOW` of what was missing, and that not by rounding.  It makes up for what Newton's
    method neglects.
    ``progress`` as in `settled`.  ``past``: differences of changes and of x (KEPT, size), the last
    ones (2, size), Cholesky's factor (KEPT, KEPT), coefficients (KEPT,) and the number of rounds
    (1,), to begin with 0.
    """
    F, G, last, L, y, count = past
    rounds = int(count[0])
    count[0] += 1.0
    now = before = 0.0
    new = (rounds - 1) % KEPT  # nothing is there to be kept in round 0
    for k in range(x.size):
        F[new, k], G[new, k] = change[k] - last[0, k], x[k] - last[1, k]
        now += change[k] * change[k]
        before += last[0, k] * last[0, k]
        last[0, k], last[1, k] = change[k], x[k]
    if rounds == 0 or now <= max(SLOW * SLOW * before, ROUNDING * progress[3] ** 2):
        return
    progress[0] = np.inf  # the next change does not tell how fast they become small
    known = min(rounds, KEPT)
    for a in range(known):  # the newest first
        i = (rounds - 1 - a) % KEPT
        y[a] = 0.0
        for k in range(x.size):
            y[a] += F[i, k] * change[k]
        for b in range(a + 1):
            j = (rounds - 1 - b) % KEPT
            d = 0.0
            for k in range(x.size):
                d += F[i, k] * F[j, k]
            least = SAME * d
            for t in range(b):
                d -= L[a, t] * L[b, t]
            if b < a:
                L[a, b] = d / L[b, b] if L[b, b] > 0.0 else 0.0
                y[a] -= L[a, b] * y[b]
            else:
                L[a, a] = math.sqrt(d) if d > least else 0.0
        y[a] = y[a] / L[a, a] if L[a, a] > 0.0 else 0.0
    for a in range(known - 1, -1, -1):
        for b in range(a + 1, known):
            y[a] -= L[b, a] * y[b]
        y[a] = y[a] / L[a, a] if L[a, a] > 0.0 else 0.0
        for k in range(x.size):
            x[k] -= y[a] * G[(rounds - 1 - a) % KEPT, k]


# --- steps ----------------------------------------------------------------------------------------


@inlined
def midpoint(chain, state, force, dt, room):
    """One step.  Nothing is remembered, so that a run can be continued from a frame."""
    kinds, (one, past, progress) = chain[2], room
    _, _, (p, _, _), p0, middle = one
    for k in range(p0.size):
        p0[k], middle[1][k] = 0.0, state[1][k]
    past[5][0], progress[:] = 0.0, np.inf
    which = BEGIN
    for _ in range(ROUNDS + 2):
        code = advance(chain, state, force, dt, one, which)
        if code != DONE or which == END:
            return code
        if which == ROUND:
            if settled(kinds.size, middle, p, progress, dt):
                which = END
            else:
                learn(middle[1], p, progress, past)
        else:
            which = ROUND
        glide(kinds, state[0], middle[1], dt, middle[0], middle[0])
    return NOT_SETTLED


@inlined
def euler(chain, state, force, dt, room):
    """One linearly implicit step: springs as they are when all has moved on for dt."""
    _, soft, kinds, _, _, turning, springs = chain
    (work, _, _), _, (a, f, _), _, (q_m, _) = room[0]
    q, v = state
    for k in range(f.size):
        f[k] = force[0][k]
    follow(kinds, q, v, dt, q_m)
    passive(kinds, *springs, q_m, v, f)
    code = respond(soft, state, force[1], f, work, a)
    if code != DONE:
        return code
    for k in range(v.size):
        a[k] = v[k] + dt * a[k]
    if too_fast(turning, a, dt):
        return TOO_FAST
    follow(kinds, q, a, dt, q_m)
    for k in range(v.size):
        v[k] = a[k]
    for k in range(q.size):
        q[k] = q_m[k]
    return DONE


@entry
def run(chain, forces, pace, room, kept, by_midpoint):
    """Many steps of every replica, by Euler's where ``by_midpoint`` is None.

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
            if by_midpoint is None:
                code = euler(chain, state, force, dt, room)
            else:
                code = midpoint(chain, state, force, dt, room)
            if code != DONE:
                return count, replica, code
            if count % every == 0:
                for which in range(2):
                    for k in range(state[which].size):
                        frames[which][count // every, replica, k] = state[which][k]
    return 0, 0, DONE
