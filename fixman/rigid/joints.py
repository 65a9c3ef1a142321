"""Springs and dampers of the joints, and the gate of forward dynamics, which adds them to τ.

    passive forces = −damping θ̇ − ∂E/∂θ,     E = ½ Δᵀ diag(stiffness) Δ,  Δ from ``rest`` to q

Δ is `kinematics.difference`: of a spherical joint the rotation vector, turned the shorter way.  Its
∂E/∂θ is the exact gradient along its rates, J_r(Δ)⁻ᵀ K Δ, so that energy is kept with unequal
stiffnesses too.  The shorter way changes at half a turn from ``rest``, where the force jumps.
Kinds of joints are the records `fixman.kernels.rigid.joints.JOINTS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.kernels.rigid.joints import passive_frames
from fixman.kernels.rigid.kinematics import difference_frames
from fixman.rigid import model
from fixman.rigid.model import Given, SerialChain

__all__ = ["elastic_energy", "passive_forces"]
__dir__ = __all__.copy  # completion shows public names alone


def passive_forces(arm: SerialChain, q: ArrayLike, qd: ArrayLike) -> Array:
    """−damping θ̇ − ∂E/∂θ, (..., nv), of ``q (..., nq)``, ``qd (..., nv)``: added to τ.

    O(n) a frame.  Errors as in `newton_euler.inverse_dynamics`.
    """
    given = model.gate(arm, q, qd)
    given.require_finite()
    return given.batch(with_passive(given).last)


def elastic_energy(arm: SerialChain, q: ArrayLike) -> Array:
    """E of the springs (...,): 0 at ``arm.rest``.  O(n); errors as `passive_forces`."""
    given = model.posture(arm, q)
    given.require_finite()
    _, stiffness, rest = arm._springs
    change = np.empty((given.q.shape[0], arm.nv))
    difference_frames(arm._kinds, np.tile(rest, (len(change), 1)), given.q, change)
    with np.errstate(over="ignore"):
        energy = 0.5 * np.where(stiffness > 0.0, stiffness * change**2, 0.0)
        # NumPy would choose the order of a sum by the number of frames.
        out = np.add.accumulate(energy, axis=1)[:, -1]
    return given.finite(out, "elastic energy")[()]


def driven(arm: SerialChain, *arguments: Any) -> Given:
    """Coerce arguments of forward dynamics, as `gate`; ``last`` is τ and the passive forces."""
    given = model.gate(arm, *arguments)
    return with_passive(given) if arm._passive else given


def with_passive(given: Given) -> Given:
    arm, tau = given.arm, given.last.copy()
    bad = passive_frames(arm._kinds, arm._springs, given.q, given.qd, tau)
    if bad >= 0:
        given.require_finite()
        raise arrays.overflow("forces of springs and dampers", bad, given.lead)
    return given._replace(last=tau)
