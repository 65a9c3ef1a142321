"""The Fixman partition of a serial chain of rigid bodies (docs/theory.md, section 8).

Cut every joint.  The relative twists of successive bodies are unconstrained coordinates' rates, and
their inverse mass matrix H = B diag(M)⁻¹ Bᵀ is block tridiagonal, because B = T⁻¹ N_l⁻¹ is block
bidiagonal (Saha's N_l; the columns of T are the six directions of each joint).  Soft rows a are the
joint rates, hard rows b the other 6 − f_i directions of each joint, held at rest by the joint:

    H^bb λ = −(H^ba τ + s_b),     θ̈ = H^aa τ + H^ab λ + s_a
    det I  = Π det M_i · det H^bb

s are the accelerations, in those rows, of the bodies cut loose, with their velocities, weights and
wrenches.  Relative twists are those of the body's origin in its own axes: the basis is orthonormal
but for a pitch, which shears it, and |det T| = 1.

A rotor of inertia J_i is one more body, whose angle φ_i becomes the soft coordinate, and θ̇_i − φ̇_i
a further hard row: H^bb gets the joint's own row with 1/J_i added to its diagonal, and

    det I  = Π det M_i · Π J_i · det H^bb        over the rates that have J_i > 0.

Lee and Chirikjian (2005) leave rigid links, other joints and three dimensions as an open question;
this is an answer.  Every body needs mass and inertia: a pivot much smaller than the blocks it came
from has lost digits, and where it is below 1e-7 of them the body is refused.  Light bodies between
heavy ones lose digits that no pivot shows: where masses differ by 1e4, moments of inertia by 1e6,
or all axes are parallel, the answer is corrected by what inverse dynamics finds missing, until that
is 1e-10 of it, or refused.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import Frame, SingularConstraintError
from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.rigid import partition
from fixman.kernels.rigid.links import ARMATURE, PITCH
from fixman.mechanics.structured import BlockTridiagonal
from fixman.rigid import model
from fixman.rigid._corrections import add_unexplained, uneven
from fixman.rigid.joints import driven
from fixman.rigid.model import Given, SerialChain, workspace
from fixman.rigid.newton_euler import wrenches_of
from fixman.rigid.spatial import propagation

__all__ = ["forward_dynamics", "hard_block", "joint_wrenches", "logdet_hard", "logdet_mass"]
__dir__ = __all__.copy  # completion shows public names alone


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

    O(n) time and memory.  Arguments as in `articulated_body.forward_dynamics`.  With ``refine=1``
    the answer to τ − `newton_euler.inverse_dynamics` (θ̈) is added: full precision at several times
    the cost.  With ``refine=0`` this is done up to four times where digits would be lost: if masses
    differ by 1e4, moments of inertia by 1e6, or if all axes are parallel.

    Raises
    ------
    SingularConstraintError
        For a body whose inertia is zero, or too small for the mass it swings (I ≪ m ℓ²), or
        whose acceleration is lost to rounding between much heavier ones.
    ValueError
        As in `articulated_body.forward_dynamics`.
    """
    if refine not in (0, 1):
        raise ValueError(f"refine must be 0 or 1, got {refine!r}")
    given = driven(arm, q, qd, tau, gravity, wrenches)
    return given.batch(_motion(given, refine))


def joint_wrenches(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Wrenches that the joints transmit, (..., n, 6): λ, and τ in the soft directions.

    Arguments, cost and errors are those of `newton_euler.joint_wrenches`, which gives the answer
    where `forward_dynamics` corrects its own.
    """
    given = driven(arm, q, qd, tau, gravity, wrenches)
    if _tables(arm).corrected:
        return given.batch(wrenches_of(given._replace(last=_motion(given, 0))))
    return given.batch(_solved(given, True)[:, arm.nv :].reshape(-1, arm.n, 6))


def logdet_mass(arm: SerialChain, q: ArrayLike) -> Array:
    """ln det of the generalized inertia matrix, Σ ln det M_i + Σ ln J_i + ln det H^bb, (...,).

    O(n) a frame.  Errors as in `forward_dynamics`.
    """
    return logdet_hard(arm, q) + _tables(arm).log_masses


def logdet_hard(arm: SerialChain, q: ArrayLike) -> Array:
    """ln det H^bb (...,), the mass-metric determinant of the chain of rigid bodies.

    ½ kT times it is the potential that makes rigid joints sample as stiff ones do, if their
    stiffnesses do not depend on q.  O(n) a frame.  Errors as in `forward_dynamics`.
    """
    given = model.posture(arm, q)
    out = np.empty(given.q.shape[0])
    bad = partition.logdet_frames(_tables(arm).blocks, given.q, out)
    if bad >= 0:
        raise _failure(given, bad)
    return given.batch(out)[()]


def hard_block(arm: SerialChain, q: ArrayLike) -> BlockTridiagonal:
    """H^bb of one configuration ``q (nq,)``, one block a joint.

    Rows of a block are components of the relative twist that the joint holds, ωx, ωy, vx, vy, vz of
    a revolute (vz − pitch ωz of a helical) and ωx, ωy, vx, vy, ωz of a prismatic joint; then rates
    with armature less those of their rotors.
    """
    (R, r), n, table = model.placed(arm, q), arm.n, _tables(arm).blocks
    back = arm.rotations.swapaxes(1, 2)
    E, p = back @ R, back @ (r - arm.translations)[:, :, None]
    carry = _pitched(arm) @ propagation(E, p[:, :, 0])  # 𝒥 of the kernel
    A, K, C = np.split(table[:, : partition.INVERSE].reshape(n, 18, LANES)[:, :, :6], 3, axis=1)
    H = A.copy()
    H[1:] += carry[1:] @ C[:-1] @ carry[1:].swapaxes(1, 2)
    below = -carry[1:] @ K[:-1].swapaxes(1, 2)
    order, held = np.split(table[:, partition.ROWS : partition.GEAR].astype(np.int64), [6], axis=1)
    i, row, column = np.arange(n)[:, None, None], order[:, :, None], order[:, None, :]
    H = H[i, row, column]
    H[:, range(6), range(6)] += table[:, partition.GEAR :]
    return BlockTridiagonal(H, below[i[:-1], row[1:], column[:-1]], held[:, 0])


def _motion(given: Given, refine: int) -> Array:
    """Accelerations of every frame, corrected if ``refine`` or where masses ask for it."""
    out, all_rounds = _solved(given), _tables(given.arm).corrected
    if (refine or all_rounds) and (
        lost := add_unexplained(given, out, _solved, once=not all_rounds)
    ):
        where = arrays.frame_index(lost[0], given.lead)
        raise _unsuited(lost[1], "its acceleration is lost to rounding", where)
    return out


def _solved(given: Given, joints: bool = False) -> Array:
    arm, blocks = given.arm, _tables(given.arm).blocks
    out = np.empty((given.q.shape[0], arm.nv + (6 * arm.n if joints else 0)))
    state, room = (given.q, given.qd, given.last), workspace(partition.WORK * arm.n)
    bad = partition.motion_frames(blocks, *state, given.g, given.W, out, room)
    if bad >= 0:
        raise _failure(given, bad)
    return out


def _failure(given: Given, bad: int) -> ValueError:
    frame, body = divmod(bad, given.arm.n + 1)
    given.require_finite()
    # An overflow can spoil pivots too: look at the configuration alone.
    blocks, q = _tables(given.arm).blocks, given.q[[frame]]
    if body < given.arm.n and partition.logdet_frames(blocks, q, np.empty(1)) >= 0:
        where = arrays.frame_index(frame, given.lead)
        # A light body is lost in the next one's pivot.
        if body > 0 and given.arm.masses[body - 1] < 1e-3 * given.arm.masses[body]:
            body -= 1
        return _unsuited(body, "its joint's pivot is lost to rounding", where)
    return arrays.overflow("accelerations", frame, given.lead)


class _Tables(NamedTuple):
    blocks: Array  # a row a body: see the kernel
    log_masses: float  # Σ ln det M_i + Σ ln J_i
    corrected: bool  # whether answers are


@model.kept
@np.errstate(all="ignore")
def _tables(arm: SerialChain) -> _Tables:
    n = arm.n
    moments = np.asarray(np.linalg.eigvalsh(arm.inertias))  # principal ones, least first
    good = np.isfinite(1 / arm.masses) & np.isfinite(1 / moments[:, 0])
    good &= moments[:, 0] > partition.LEAST**2 * moments[:, 2]
    if not good.all():
        i = int(np.argmin(good))
        raise _unsuited(i, f"mass {arm.masses[i]:g}, least moment of inertia {moments[i, 0]:g}")
    c = arm.centres
    eye = np.broadcast_to(np.eye(3), (n, 3, 3))
    r, R = np.zeros((n, 3)), eye.copy()
    r[:-1] = arm.translations[1:] - c[:-1]
    R[:-1] = arm.rotations[1:]
    J = np.linalg.inv(arm.inertias)
    J = (J + J.swapaxes(1, 2)) / 2
    light = 1 / arm.masses
    M_inverse = np.zeros((n, 6, 6))
    M_inverse[:, :3, :3] = J
    M_inverse[:, [3, 4, 5], [3, 4, 5]] = light[:, None]
    # Twists at the body's origin, and at the next joint in its axes, from the mass centre's.
    G_O, G_P = propagation(eye, -c), propagation(R, r)
    GM_O, GM_P = G_O @ M_inverse, G_P @ M_inverse
    A, K, C = GM_O @ G_O.swapaxes(1, 2), GM_O @ G_P.swapaxes(1, 2), GM_P @ G_P.swapaxes(1, 2)
    rows = _pitched(arm)
    A, K = rows @ A @ rows.swapaxes(1, 2), rows @ K
    blocks = np.zeros((n, 18, LANES))
    blocks[:, :, :6] = np.concatenate([A, K, C], axis=1)
    joint = arm.rotations, arm.kinds, arm.pitch, _rows(arm)
    parts = blocks, J, arm.inertias, R, c, r, light, *joint
    table = np.concatenate([part.reshape(n, -1) for part in parts], axis=1)
    if not np.isfinite(table).all():
        raise arrays.overflow("mobilities of the bodies", 0, ())
    rotors = arm.armature[arm.armature > 0]
    log_masses = 3 * np.log(arm.masses).sum() + np.log(moments).sum() + np.log(rotors).sum()
    tilt = np.abs(arm.rotations[1:, [0, 1, 2, 2], [2, 2, 0, 1]])
    parallel = not arm.kinds.any() and (tilt <= np.finfo(float).eps).all()
    return _Tables(table, float(log_masses), bool(uneven(arm.masses, moments) or parallel))


def _pitched(arm: SerialChain) -> Array:
    """Twists with vz − pitch ωz in the place of vz, of every joint, (n, 6, 6)."""
    rows = np.tile(np.eye(6), (arm.n, 1, 1))
    rows[:, 5, 2] = -arm.pitch
    return rows


def _rows(arm: SerialChain) -> Array:
    """Rows of each joint, with rotors before soft ones; how many are not soft; their 1/J."""
    rows = partition.ORDER[arm.kinds].astype(float)
    held = partition.HARD[arm.kinds]
    light = np.zeros((arm.n, 6))
    for i in np.flatnonzero(arm._table[:, ARMATURE:PITCH].any(axis=1)):
        J = arm.armature[arm.rate_offsets[i] : arm.rate_offsets[i + 1]]
        order, turned = np.argsort(J == 0, kind="stable"), held[i] + np.count_nonzero(J)
        rows[i, held[i] :] = rows[i, held[i] :][order]
        light[i, held[i] : turned] = 1 / J[J > 0]
        held[i] = turned
    return np.column_stack([rows, held, light])


def _unsuited(body: int, reason: str, frame: Frame = None) -> SingularConstraintError:
    return SingularConstraintError(
        f"the partition cannot take body {body} (counted from 0; {reason}",
        "): its mass or inertia is too small beside m ℓ² and its neighbours; use articulated_body "
        "(or composite_body if joints have several rates and masses differ by powers of ten)",
        frame=frame,
        body=int(body),
    )
