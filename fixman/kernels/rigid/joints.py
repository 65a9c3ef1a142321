"""Springs and dampers of the joints of a serial chain.

``kinds (n,)`` as in `links`; damping and stiffness ``(nv,)``, and ``rest (nq,)``.
"""

from __future__ import annotations

import math

from fixman.kernels import jit
from fixman.kernels.algebra.triples import constants
from fixman.kernels.algebra.vectors import cross, inner, outer, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.links import POSITIONS, RATES, SPHERICAL, not_a_number


@step
def times_quaternion(a, b):
    """The product a b of quaternions (vector, scalar), 1 to the last bit of conjugate ones."""
    (x, s), (y, t) = a, b
    return plus(plus(scaled(s, y), scaled(t, x)), cross(x, y)), s * t - inner(x, y)


@step
def along_screw(v, n, first, second):
    """v + first n × v + second n × (n × v)."""
    w = outer(n, v)
    return plus(v, plus(scaled(first, w), scaled(second, outer(n, w))))


@jit
def unit_vector(w):
    """Length and direction; (0, 0, 0) of no length."""
    size = math.sqrt(inner(w, w))
    return size, scaled(1.0 / size, w) if size > 0.0 else (0.0, 0.0, 0.0)


@jit
def quaternion(q, at):
    return constants(q, at), q[at + 3]


@jit
def turn_between(x, y, at):
    """Half the angle from one quaternion to another, π/2 at most, the axis, and 1 − half cot half.

    The axis is that of both frames, and of no turn (0, 0, 0).
    """
    a, s = quaternion(x, at)
    e, w = times_quaternion((scaled(-1.0, a), s), quaternion(y, at))
    if w < 0.0:
        e, w = scaled(-1.0, e), -w
    sine, axis = unit_vector(e)
    half = math.atan2(sine, w)
    return half, axis, 1.0 - half * w / sine if sine > 0.0 else 0.0


@step
def pulled(k, half, axis, second):
    """−J_r⁻ᵀ K Δ of a spherical joint, Δ = 2 half axis."""
    return along_screw(tuple(-2.0 * half * k[j] * axis[j] for j in range(3)), axis, -half, second)


@jit
def passive(kinds, damping, stiffness, rest, q, qd, out):
    """Add −damping θ̇ − ∂E/∂θ of one state to ``out (nv,)``; quaternions are not looked at.

    A spherical joint's ∂E/∂θ is J_r⁻ᵀ K Δ, since ω = J_r Δ̇ in the axes of its body.
    """
    at = to = 0
    for i in range(kinds.size):
        if kinds[i] < SPHERICAL:
            out[to] -= stiffness[to] * (q[at] - rest[at])
        elif kinds[i] == SPHERICAL:
            k = constants(stiffness, to)
            if k[0] + k[1] + k[2] > 0.0:
                half, axis, second = turn_between(rest, q, at)
                pull = pulled(k, half, axis, second)
                for j in range(3):
                    out[to + j] += pull[j]
        for j in range(to, to + RATES[kinds[i]]):
            out[j] -= damping[j] * qd[j]
        at += POSITIONS[kinds[i]]
        to += RATES[kinds[i]]


@jit
def elastic(kinds, stiffness, rest, q):
    """E = ½ Δᵀ diag(stiffness) Δ of one state."""
    energy = 0.0
    at = to = 0
    for i in range(kinds.size):
        if kinds[i] < SPHERICAL:
            energy += 0.5 * stiffness[to] * (q[at] - rest[at]) ** 2
        elif kinds[i] == SPHERICAL:
            half, axis, _ = turn_between(rest, q, at)
            for j in range(3):
                energy += 2.0 * stiffness[to + j] * (half * axis[j]) ** 2
        at += POSITIONS[kinds[i]]
        to += RATES[kinds[i]]
    return energy


@jit
def passive_frames(kinds, springs, q, qd, out):
    """Add `passive` to every row of ``out (frames, nv)``; the first that is not finite, or −1."""
    damping, stiffness, rest = springs
    for frame in range(q.shape[0]):
        passive(kinds, damping, stiffness, rest, q[frame], qd[frame], out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame
    return -1


@jit
def elastic_frames(kinds, stiffness, rest, q, out):
    """E of every frame into ``out (frames,)``."""
    for frame in range(q.shape[0]):
        out[frame] = elastic(kinds, stiffness, rest, q[frame])
