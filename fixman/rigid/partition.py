"""The Fixman partition of a serial chain of rigid bodies (theory.md, section 8).

Cut every joint.  The relative twists of successive bodies are unconstrained coordinates' rates, and
their inverse mass matrix H = B diag(M)⁻¹ Bᵀ is block tridiagonal, because B = N_l⁻¹ up to an order
of rows is block bidiagonal (Saha's N_l).  Soft rows a are the joint rates, hard rows b the other
6 − f_i directions of each joint, held at rest by the joint:

    H^bb λ = −(H^ba τ + s_b),     θ̈ = H^aa τ + H^ab λ + s_a
    det I  = Π det M_i · det H^bb

s are the accelerations, in those rows, of the bodies cut loose but for the velocities they have.
Relative twists are taken at the origin of the body's frame in its own axes, where joint rates are
components: the basis is orthonormal and |det T| = 1.

Armature needs nothing new: a rotor of inertia J_i is one more body, whose angle φ_i becomes the
soft coordinate, and θ̇_i − φ̇_i a further hard row, so that H^bb gets the joint's own row with 1/J_i
on its diagonal, and

    det (I + diag(J)) = Π det M_i · Π J_i · det H^bb        over the rates that have J_i > 0.

The body's acceleration and the rotor's are one: that is returned which rounding harms less.

Lee and Chirikjian (2005) leave rigid links, other joints and three dimensions as an open question;
this is an answer.  It asks that every body has mass and inertia, and not too little of either: the
eliminations lose of H^bb the digits by which a pivot is smaller than the blocks it came from, about
m ℓ² / I for a body of lever arms ℓ.  The relative error of θ̈ is eps over the smallest such ratio
(measured: within a factor of 5); a body at which it is less than 1e-7 is refused.

A light body between heavy ones can accelerate by a small difference of large terms, which no pivot
shows: digits are lost as masses differ, and where axes are parallel as the square of that.  Where
masses differ by 1e4, moments of inertia by 1e6, or all axes are parallel, the answer is corrected
by what inverse dynamics finds missing, until that is 1e-10 of it, or refused.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array, overflow
from fixman.kernels.rigid import partition
from fixman.mechanics.structured import BlockTridiagonal
from fixman.rigid import model
from fixman.rigid._partition_tables import tables, unsuited
from fixman.rigid.joints import driven
from fixman.rigid.model import Given, SerialChain
from fixman.rigid.newton_euler import without_bias, wrenches_of

__all__ = ["forward_dynamics", "hard_block", "joint_wrenches", "logdet_hard", "logdet_mass"]


def forward_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
    refine: Literal[0, 1] = 0,
) -> Array:
    """Accelerations of the joint rates, θ̈ = (H^aa − H^ab (H^bb)⁻¹ H^ba) b, with velocity terms.

    O(n) time and memory.  Arguments are those of `articulated_body.forward_dynamics`, and
    ``refine``: 1 adds the answer to what torques the first answer leaves unexplained,
    τ − `newton_euler.inverse_dynamics` (θ̈): full precision where axes make it hard, at several
    times the cost.  Where masses differ by 1e4, or all axes are parallel, that is done anyway.

    Raises
    ------
    SingularConstraintError
        For a body whose inertia is zero, or too small for the mass it swings (I ≪ m ℓ²), or
        whose acceleration is lost to rounding between much heavier ones.
    ValueError
        For wrong shapes, values that are not finite, and quaternions that are not unit ones.
    """
    if refine not in (0, 1):
        raise ValueError(f"refine must be 0 or 1, got {refine!r}")
    given = driven(arm, q, qd, tau, gravity, wrenches)
    return given.batch(_motion(given, refine, False))


def joint_wrenches(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Wrenches that the joints transmit: the multipliers λ, and τ in the soft directions.

    Arguments, cost and errors as in `forward_dynamics`.  Where that corrects its answer, they are
    those of inverse dynamics.

    Returns
    -------
    ndarray (..., n, 6)
        Exerted on body i through joint i by body i − 1 (the base for i = 0): force, then moment
        about the origin of body i's frame, in that frame.
    """
    given = driven(arm, q, qd, tau, gravity, wrenches)
    if tables(arm).corrected:
        given = given._replace(last=_motion(given, 0, False))
        return given.batch(wrenches_of(given))
    return given.batch(_motion(given, 0, True)[:, arm.nv :].reshape(-1, arm.n, 6))


def logdet_mass(arm: SerialChain, q: ArrayLike) -> Array:
    """ln det of the generalized inertia matrix, Σ ln det M_i + Σ ln J_i + ln det H^bb, (...,).

    O(n) a frame.  Errors as in `forward_dynamics`.
    """
    return logdet_hard(arm, q) + tables(arm).log_masses


def logdet_hard(arm: SerialChain, q: ArrayLike) -> Array:
    """ln det H^bb (...,), the mass-metric determinant of the chain of rigid bodies.

    ½ kT times it is the potential that makes rigid joints sample as stiff ones do.  Its hard rows
    are relative twists in orthonormal axes, so the joints' stiffnesses must not depend on q.  O(n)
    a frame.  Errors as in `forward_dynamics`.
    """
    given = model.posture(arm, q)
    out = np.empty(given.q.shape[0])
    bad = partition.logdet_frames(tables(arm).blocks, given.q.reshape(-1), out)
    if bad >= 0:
        raise _failure(given, bad)
    return given.batch(out)[()]


def hard_block(arm: SerialChain, q: ArrayLike) -> BlockTridiagonal:
    """H^bb of one configuration ``q (nq,)``, one block a joint.

    Rows of a block: of ωx, ωy, ωz, vx, vy, vz of the relative twist those that the joint holds; a
    revolute joint's are ωx, ωy, vx, vy, vz, a prismatic joint's ωx, ωy, vx, vy, ωz.  Rows of rates
    with armature come after them: the rate less that of its rotor.
    """
    q = model.configuration(arm, q)
    blocks = tables(arm).blocks
    held = blocks[:, partition.HELD].astype(np.int64)
    most = max(5, int(held.max()))
    diagonal, lower = np.zeros((arm.n, most, most)), np.zeros((arm.n - 1, most, most))
    partition.assemble(blocks, q, diagonal, lower)
    return BlockTridiagonal(diagonal, lower, held)


# Largest correction relative to the answer, that of the last round, and the number of rounds.
_SMALL, _DIGITS, _ROUNDS = 1e-3, 1e-10, 4


def _motion(given: Given, refine: int, joints: bool) -> Array:
    """Accelerations of every frame, followed by its wrenches if ``joints``."""
    arm, known = given.arm, tables(given.arm)
    out = np.empty((given.q.shape[0], known.width if joints else arm.nv))
    bad = known.run(given, out, joints)
    if bad >= 0:
        raise _failure(given, bad)
    if refine or (known.corrected and not joints):
        _refine(given, out)
    return out


def _refine(given: Given, answer: Array) -> None:
    """Add to accelerations those of what torques they leave unexplained.

    Corrections are compared with the answer and, because that is zero in equilibrium, with what the
    torques and all the rest would do alone.  Where they are not small the answer is none.  One will
    do where masses are alike.
    """
    arm = given.arm
    size = np.abs(answer).max(axis=1)
    for number in range(_ROUNDS):
        more, bad = _alone(given, without_bias(given, answer))
        if bad >= 0:
            raise _failure(given, bad)
        off = np.abs(more)
        largest = off.max(axis=1)
        if number == 0 and (largest > _SMALL * size).any():
            free = np.zeros_like(answer)
            tables(arm).run(given._replace(last=np.zeros_like(answer)), free, False)
            alone = np.abs([_alone(given, given.last)[0], free]).max(axis=(0, 2))
            size = np.maximum(size, alone)
        if not (largest <= _SMALL * size).all():
            break
        answer += more
        if not np.isfinite(answer).all():
            raise overflow("accelerations", 0, given.lead)
        if not tables(arm).corrected or (largest <= _DIGITS * size).all():
            return
    frame = int(np.argmax(largest > _DIGITS * size))
    rate = int(off[frame].argmax())
    body = int(np.searchsorted(arm.rate_offsets, rate, side="right")) - 1
    where = arrays.frame_index(frame, given.lead)
    raise unsuited(body, "its acceleration is lost to rounding", where)


def _alone(given: Given, tau: Array) -> tuple[Array, int]:
    """Return what torques do to a chain at rest, and where the kernel stopped."""
    out = np.empty_like(tau)
    rest = given._replace(qd=np.zeros_like(tau), last=tau, g=np.zeros(3), W=given.W[:0])
    return out, tables(given.arm).run(rest, out, False)


def _failure(given: Given, bad: int) -> ValueError:
    """Return the error for the frame and body at which a kernel stopped."""
    frame, body = divmod(bad, given.arm.n + 1)
    given.require_finite()
    blocks = tables(given.arm).blocks
    # An overflow can spoil pivots too: look at the configuration alone.
    if body < given.arm.n and partition.logdet_frames(blocks, given.q[frame], np.empty(1)) >= 0:
        where = arrays.frame_index(frame, given.lead)
        # A light body is lost in the next one's pivot.
        if body > 0 and given.arm.masses[body - 1] < 1e-3 * given.arm.masses[body]:
            body -= 1
        return unsuited(body, "its joint's pivot is lost to rounding", where)
    return arrays.overflow("accelerations", frame, given.lead)
