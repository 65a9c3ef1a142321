"""Recursive inverse dynamics by the decoupled natural orthogonal complement (Saha 1999, sec. 5.1).

Forward, twists ν_i and twist rates ξ_i, base to tip:

    ν_i = p_i θ̇_i + B_{i,i−1} ν_{i−1}
    ξ_i = p_i θ̈_i + Ω_i p_i θ̇_i + B_{i,i−1} ξ_{i−1} + Ḃ_{i,i−1} ν_{i−1},     ξ_0 = [0; −g]

backward, wrenches γ_i that link i − 1 exerts on link i through joint i, tip to base:

    γ_i = M_i ξ_i + Ṁ_i ν_i − w_i^E + B_{i+1,i}ᵀ γ_{i+1},     τ_i = p_iᵀ γ_i

Where this leaves the paper: twists are those of the origin of the body's frame, not of the mass
centre, in the body's axes.  So p_i is constant, Ḃ ν needs angular velocities only, and rounding
stays local.  (The paper prints the recursion of ν_i without its B.)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fixman._common.arrays import Array
from fixman.kernels.rigid.newton_euler import newton_euler_frames
from fixman.rigid.joints import with_passive
from fixman.rigid.model import Given, SerialChain, gate

__all__ = ["inverse_dynamics", "joint_wrenches"]
__dir__ = __all__.copy  # completion shows public names alone


def inverse_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Joint forces τ = I θ̈ + C θ̇ − (gravity and wrenches), (..., nv), for given accelerations.

    The recursion of saha_1999, section 5.1; O(n) time and memory.  Armature, dampers and springs
    add armature θ̈ − `joints.passive_forces`.  Arguments and ValueErrors as in
    `articulated_body.forward_dynamics`, but for accelerations ``qdd (..., nv)`` in the place of τ.
    """
    given = gate(arm, q, qd, qdd, gravity, wrenches, name="qdd")
    tau, _ = _recursion(given, given.last, "joint forces")
    if arm._passive:
        tau -= with_passive(given._replace(last=np.zeros_like(tau))).last
    return given.batch(tau)


def joint_wrenches(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Wrenches γ_i that the joints transmit, (..., n, 6): not only the components along p_i.

    Body i − 1 (the base for i = 0) exerts γ_i on body i through joint i, with springs, dampers and
    rotors: force, then moment about the origin of body i's frame, in that frame.  Arguments, cost
    and errors as in `inverse_dynamics`.
    """
    given = gate(arm, q, qd, qdd, gravity, wrenches, name="qdd")
    return given.batch(wrenches_of(given))


def wrenches_of(given: Given) -> Array:
    """Return joint wrenches (frames, n, 6) of accelerations ``given.last``."""
    return _recursion(given, given.last, "joint forces", given.q.shape[0])[1]


def without_bias(given: Given, qdd: Array | None = None) -> Array:
    """τ − I θ̈ − C θ̇ + (gravity and wrenches), (frames, nv); θ̈ = 0 unless given."""
    bias, _ = _recursion(given, np.zeros_like(given.last) if qdd is None else qdd, "bias")
    with np.errstate(over="ignore", invalid="ignore"):
        return given.last - bias


def _recursion(given: Given, qdd: Array, what: str, kept: int = 1) -> tuple[Array, Array]:
    """Joint forces, and the joint wrenches of the last ``kept`` frames."""
    arm = given.arm
    tau, γ = np.empty_like(qdd), np.empty((kept, arm.n, 6))
    motion = given.q, given.qd, qdd
    bad = newton_euler_frames(arm._kinds, arm._table, motion, given.g, given.W, tau, γ)
    given.require_answer(bad, what)
    return tau, γ
