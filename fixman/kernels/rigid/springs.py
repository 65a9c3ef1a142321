"""Springs and dampers of the joints of a serial chain.

``kinds (n,)`` as in `joints`; damping and stiffness ``(nv,)``, and ``rest (nq,)``.  Bodies that
turn and slide at once have no springs.
"""

from __future__ import annotations

from fixman.kernels import jit
from fixman.kernels.algebra.triples import constants
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import FLAT, POSITIONS, RATES, SLIDES, along_screw, turn_between
from fixman.kernels.rigid.links import not_a_number


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
        kind = kinds[i]
        if FLAT[kind]:
            for j in range(RATES[kind]):
                out[to + j] -= stiffness[to + j] * (q[at + j] - rest[at + j])
        elif SLIDES[kind] == 0:
            k = constants(stiffness, to)
            if k[0] + k[1] + k[2] > 0.0:
                half, axis, second = turn_between(rest, q, at)
                pull = pulled(k, half, axis, second)
                for j in range(3):
                    out[to + j] += pull[j]
        for j in range(to, to + RATES[kind]):
            out[j] -= damping[j] * qd[j]
        at += POSITIONS[kind]
        to += RATES[kind]


@jit
def passive_frames(kinds, springs, q, qd, out):
    """Add `passive` to every row of ``out (frames, nv)``; the first that is not finite, or −1."""
    damping, stiffness, rest = springs
    for frame in range(q.shape[0]):
        passive(kinds, damping, stiffness, rest, q[frame], qd[frame], out[frame])
        if not_a_number(out[frame]) != 0.0:
            return frame
    return -1
