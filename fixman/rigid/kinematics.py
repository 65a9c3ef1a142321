"""Kinematics: positions and motion of the bodies, and their response to wrenches.

Twists are the velocity of a point and the angular velocity of its body, wrenches a force at the
point and a moment, both in the axes of the base.  (``wrenches=`` of the dynamics are in the axes of
each body, about its origin.)  Bodies are counted from 0 at the base, and ``point`` is given in its
body's frame.

    twist = J θ̇,   its rate = J θ̈ + J̇ θ̇,   τ = Jᵀ wrench,   Λ⁻¹ = J ℳ⁻¹ Jᵀ

Λ is Khatib's operational-space inertia.  Its inverse, the compliance, of one or several bodies, is
computed without J and ℳ by the recursion that Rodriguez and Kreutz's (1988) (4.16) and (5.4) give:

    Ω_ii = ψ_iᵀ Ω_{i−1,i−1} ψ_i + p_i D_i⁻¹ p_iᵀ,     Ω_ij = ψ_iᵀ ⋯ ψ_{j+1}ᵀ Ω_jj  (j ≤ i)

with ψ_iᵀ = (1 − p_i D_i⁻¹ p_iᵀ M̂_i) B_{i,i−1}, which makes the twist of body i from that of the
body before it when joint i is free.

Every function takes batches along the leading axes of q (..., nq), qd and qdd (..., nv), costs O(n)
a frame, and raises a ValueError for wrong shapes, numbers that are not finite, quaternions that are
not unit ones, and bodies that the chain does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import SingularConstraintError
from fixman.kernels.rigid import innovations, kinematics
from fixman.rigid import model, spatial
from fixman.rigid.joints import elastic_energy
from fixman.rigid.model import Given, SerialChain

__all__ = ["acceleration", "centre_of_mass", "difference", "frames", "integrate", "jacobian"]
__all__ += ["jacobian_transpose", "kinetic_energy", "momentum", "operational_space_compliance"]
__all__ += ["operational_space_inertia", "position", "potential_energy", "velocity"]
__dir__ = __all__.copy  # completion shows public names alone

LOST = 1e-11  # below this Λ⁻¹, scaled to ones on its diagonal, is singular


def frames(arm: SerialChain, q: ArrayLike, qd: ArrayLike | None = None) -> tuple[Array, ...]:
    """Rotations R (..., n, 3, 3) and origins x (..., n, 3) of all bodies in the base's frame.

    A point p of body k is at ``x[k] + R[k] @ p``.  If rates are given also the twists (..., n, 6),
    velocity of the origin before angular velocity.
    """
    given = model.posture(arm, q) if qd is None else model.gate(arm, q, qd)
    count, n = given.q.shape[0], arm.n
    R, x = np.empty((count, n, 9)), np.empty((count, n, 3))
    rates, V = (None, None) if qd is None else (given.qd, np.empty((count, n, 6)))
    bad = kinematics.body_frames(arm._kinds, arm._table, given.q, rates, R, x, V)
    given.require_answer(bad, "frames of the bodies")
    found = given.batch(R.reshape(count, n, 3, 3)), given.batch(x)
    return found if V is None else (*found, given.batch(V))


def position(arm: SerialChain, q: ArrayLike, body: int, point: ArrayLike = (0, 0, 0)) -> Array:
    """Position of a point of a body, (..., 3)."""
    return _at_point(model.gate(arm, q), body, point, slice(0, 3))


def velocity(
    arm: SerialChain, q: ArrayLike, qd: ArrayLike, body: int, point: ArrayLike = (0, 0, 0)
) -> Array:
    """Twist J θ̇ at a point of a body: its velocity, then ω of the body, (..., 6)."""
    return _at_point(model.gate(arm, q, qd), body, point, slice(3, 9))


def acceleration(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    qdd: ArrayLike,
    body: int,
    point: ArrayLike = (0, 0, 0),
) -> Array:
    """Acceleration J θ̈ + J̇ θ̇ of a point, then angular acceleration of its body, (..., 6)."""
    given = model.gate(arm, q, qd, qdd, name="qdd")
    return _at_point(given, body, point, slice(9, 15))


def jacobian(
    arm: SerialChain, q: ArrayLike, body: int, point: ArrayLike = (0, 0, 0), *, linear: bool = False
) -> Array:
    """Jacobian J (..., 6, nv), dense: the twist at a point of a body is J θ̇.

    With ``linear`` only the rows of the point's velocity, (..., 3, nv).
    """
    given = model.posture(arm, q)
    at = _body(arm, body), model.vector(point, "point")
    size = 3 if arrays.flag(linear, "linear") else 6, arm.nv
    return given.batch(given.answer(kinematics.jacobian_frames, "Jacobian", size, *at))


def jacobian_transpose(
    arm: SerialChain, q: ArrayLike, wrench: ArrayLike, body: int, point: ArrayLike = (0, 0, 0)
) -> Array:
    """Joint forces Jᵀ w (..., nv) that do the work of a wrench (..., 6) at a point of a body.

    The opposite joint forces hold the body in place.
    """
    w = arrays.real(wrench, (6,), "wrench")
    arrays.require_finite(w, (6,), "wrench", "component")
    J = jacobian(arm, q, body, point)
    arrays.common_lead(J.shape[:-2], w.shape[:-1])
    with np.errstate(over="ignore", invalid="ignore"):
        tau = np.asarray((J * w[..., None]).sum(axis=-2))
    good = np.isfinite(tau).all(axis=-1)
    if not good.all():
        raise arrays.overflow("joint forces", int(np.argmin(good)), tau.shape[:-1])
    return tau


# --- the whole chain --------------------------------------------------------------------------


@overload
def centre_of_mass(arm: SerialChain, q: ArrayLike) -> Array: ...
@overload
def centre_of_mass(arm: SerialChain, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]: ...
def centre_of_mass(
    arm: SerialChain, q: ArrayLike, qd: ArrayLike | None = None
) -> Array | tuple[Array, Array]:
    """Mass centre (..., 3), and its velocity if rates are given; a ValueError without mass."""
    model.require_arm(arm)
    if not arm.masses.any():
        raise ValueError("the chain has no mass, so no centre of mass: every mass is 0")
    given = model.gate(arm, q) if qd is None else model.gate(arm, q, qd)
    sums = _sums(given)
    centre = given.batch(sums[:, :3].copy())
    return centre if qd is None else (centre, given.batch(sums[:, 3:6].copy()))


def momentum(
    arm: SerialChain, q: ArrayLike, qd: ArrayLike, *, about: Literal["centre", "origin"] = "centre"
) -> Array:
    """Momentum of the chain, then angular momentum about its mass centre or the base, (..., 6)."""
    arrays.require_one_of(about, "about", ("centre", "origin"))
    given = model.gate(arm, q, qd)
    sums = _sums(given)
    with np.errstate(over="ignore", invalid="ignore"):
        p = arm.masses.sum() * sums[:, 3:6]
        spin = sums[:, 6:9] + (np.cross(sums[:, :3], p) if about == "origin" else 0.0)
    return given.finite(np.concatenate([p, spin], axis=1), "momentum")


def kinetic_energy(arm: SerialChain, q: ArrayLike, qd: ArrayLike) -> Array:
    """½ θ̇ᵀ ℳ θ̇ (...,), summed over bodies and rotors."""
    given = model.gate(arm, q, qd)
    sums = _sums(given)
    with np.errstate(over="ignore"):
        # NumPy would choose the order of a sum by the number of frames.
        rotors = np.add.accumulate(0.5 * given.qd**2 * arm.armature, axis=1)[:, -1]
        energy = sums[:, 9] + rotors
    return given.finite(energy, "kinetic energy")[()]


def potential_energy(arm: SerialChain, q: ArrayLike, *, gravity: ArrayLike) -> Array:
    """−m g·c + E (...,): energy in gravity, zero at the base's origin, and of springs.

    ``gravity (3,)`` is the acceleration of free fall in the base's axes.
    """
    g = model.falling(gravity)
    given = model.gate(arm, q)
    sums = _sums(given)
    with np.errstate(over="ignore", invalid="ignore"):
        weight = arm.masses.sum() * g
        height = weight[0] * sums[:, 0] + weight[1] * sums[:, 1] + weight[2] * sums[:, 2]
        energy = elastic_energy(arm, q) - given.batch(height)
    return given.finite(energy.reshape(-1), "potential energy")[()]


# --- steps in the coordinates -----------------------------------------------------------------


def integrate(arm: SerialChain, q: ArrayLike, qd: ArrayLike, dt: float = 1.0) -> Array:
    """Coordinates (..., nq) after a time dt at constant rates: the exponential map of every joint.

    Quaternions turn by the rotation vector dt ω, in the axes of the body; a free base follows a
    screw.
    """
    given = model.gate(arm, q, qd)
    out = np.empty_like(given.q)
    bad = kinematics.integrate_frames(arm._kinds, given.q, given.qd, arrays.number(dt, "dt"), out)
    given.require_answer(bad, "coordinates")
    return given.batch(out)


def difference(arm: SerialChain, q0: ArrayLike, q1: ArrayLike) -> Array:
    """Rates (..., nv) that lead from q0 to q1 in unit time: ``integrate(arm, q0, …)`` is q1.

    Quaternions turn the shorter way, by π at most; the result may be −q1, the same rotation.
    Angles of revolute joints are subtracted as they are.
    """
    model.require_arm(arm)
    q0, q1 = (arrays.real(q, (arm.nq,), f"q{k}") for k, q in enumerate((q0, q1)))
    lead = arrays.common_lead(q0.shape[:-1], q1.shape[:-1])
    q0, q1 = (arrays.spread(q, lead, (arm.nq,)).reshape(-1, arm.nq) for q in (q0, q1))
    out = np.empty((q0.shape[0], arm.nv))
    bad = kinematics.difference_frames(arm._kinds, q0, q1, out)
    if bad >= 0:
        model.refuse_coordinates(arm, q0, lead, "q0")
        model.refuse_coordinates(arm, q1, lead, "q1")
        raise model.failure(arm, "difference", bad // (arm.n + 1), arm.n, lead)
    return out.reshape(*lead, arm.nv)


# --- operational space ------------------------------------------------------------------------


def operational_space_compliance(
    arm: SerialChain,
    q: ArrayLike,
    body: int | Sequence[int],
    point: ArrayLike = (0, 0, 0),
    *,
    linear: bool = False,
) -> Array:
    """Ω = Λ⁻¹ = J ℳ⁻¹ Jᵀ: accelerations at points of bodies for wrenches there, at rest.

    (..., 6m, 6m) for m bodies, with blocks J_a ℳ⁻¹ J_bᵀ in the axes of the base; with ``linear``
    (..., 3m, 3m), for forces and accelerations of points.  O(n m) a frame.  Ω is singular if the
    bodies cannot move in every direction together.  A body may occur twice, with two points;
    ``point`` is (3,) for all, or (m, 3).

    Raises
    ------
    SingularConstraintError
        If the inertia that some joint moves is zero or lost to rounding, naming the body.
    """
    given = model.posture(arm, q)
    bodies, points = _marks(arm, body, point)
    order, size = np.argsort(bodies, kind="stable"), (6 * bodies.size, 6 * bodies.size)
    at = bodies[order], points[order].reshape(-1)
    out = given.answer(innovations.compliance_frames, "compliance", size, *at)
    kept = np.arange(3 if arrays.flag(linear, "linear") else 6)
    rows = (6 * np.argsort(order)[:, None] + kept).reshape(-1)
    return given.batch(out[:, rows[:, None], rows])


def operational_space_inertia(
    arm: SerialChain,
    q: ArrayLike,
    body: int | Sequence[int],
    point: ArrayLike = (0, 0, 0),
    *,
    linear: bool = False,
) -> Array:
    """Λ = (J ℳ⁻¹ Jᵀ)⁻¹: the inertia of bodies that are moved at points (Khatib 1987).

    The inverse of `operational_space_compliance`, with the same arguments; O(n + m³) a frame.

    Raises
    ------
    SingularConstraintError
        As `operational_space_compliance`, and where the bodies cannot move in every direction:
        too few joints, or a singular posture.
    """
    linear = arrays.flag(linear, "linear")
    bodies, points = _marks(arm, body, point)
    at = points if linear else np.zeros(3)
    compliance = operational_space_compliance(arm, q, body, at, linear=linear)
    flat = compliance.reshape(-1, *compliance.shape[-2:])
    size = np.sqrt(np.diagonal(flat, axis1=1, axis2=2))
    size = np.where(size > 0.0, size, 1.0)
    scale = size[:, :, None] * size[:, None, :]
    moves = (np.linalg.eigvalsh(flat / scale) >= LOST).sum(1)
    if (moves < size.shape[1]).any():
        frame = int(np.argmax(moves < size.shape[1]))
        raise SingularConstraintError(
            f"there is no operational-space inertia of body {body}",
            f": it moves in {moves[frame]} of {size.shape[1]} directions; the compliance exists",
            frame=arrays.frame_index(frame, compliance.shape[:-2]),
            body=int(np.max(bodies)),
        )
    inverse = np.linalg.inv(flat / scale) / scale
    inverse = inverse.reshape(compliance.shape)
    inertia = inverse if linear else _seen_from(inverse, arm, q, bodies, points)
    return 0.5 * (inertia + inertia.swapaxes(-1, -2))


def _seen_from(
    inertia: Array, arm: SerialChain, q: ArrayLike, bodies: NDArray[np.int64], points: Array
) -> Array:
    """Λ at points from that at the bodies' origins: far points would cost Ω digits."""
    m = bodies.size
    R = frames(arm, q)[0][..., bodies, :, :]
    shift = np.zeros((*R.shape[:-2], 6, 6))  # velocities of origins from those of points
    shift[...] = np.eye(6)
    shift[..., :3, 3:] = spatial.skew(np.einsum("...mij,mj->...mi", R, points))
    blocks = inertia.reshape(*inertia.shape[:-2], m, 6, m, 6)
    seen = np.einsum("...aji,...ajbk,...bkl->...aibl", shift, blocks, shift, optimize=True)
    return np.asarray(seen).reshape(inertia.shape)


def _body(arm: SerialChain, body: int) -> int:
    if type(body) is not int:  # quicker than what follows
        if isinstance(body, str):
            text = "body must be a number, which places of fixman.rigid.urdf.read has for each link"
            raise TypeError(f"{text}, got {body!r:.80}")
        body = arrays.whole(body, "body")
    if not 0 <= body < arm.n:
        raise ValueError(f"body must be from 0, next to the base, to {arm.n - 1}; got {body}")
    return body


def _marks(
    arm: SerialChain, body: int | Sequence[int], point: ArrayLike
) -> tuple[NDArray[np.int64], Array]:
    model.require_arm(arm)
    several = np.atleast_1d(arrays.taken(body, "body")).tolist()
    bodies = np.array([_body(arm, one) for one in several], dtype=np.int64)
    if not bodies.size:
        raise ValueError("body must be a body or several, got none")
    points = arrays.real(point, (3,), "point")
    if points.shape not in ((3,), (bodies.size, 3)):
        raise ValueError(f"point must have shape (3,) or ({bodies.size}, 3), got {points.shape}")
    arrays.require_finite(points, (3,), "point", "component")
    return bodies, arrays.spread(points, (bodies.size,), (3,))


def _at_point(given: Given, body: int, point: ArrayLike, columns: slice) -> Array:
    arm = given.arm
    at = _body(arm, body), model.vector(point, "point")
    out = np.empty((given.q.shape[0], columns.stop))
    motion = given.q, given.qd, given.last
    bad = kinematics.point_frames(arm._kinds, arm._table, motion, *at, out)
    given.require_answer(bad, "motion of the point")
    return given.batch(out[:, columns].copy())


def _sums(given: Given) -> Array:
    """Centre, its velocity, angular momentum about it, kinetic energy of each frame, (…, 10)."""
    return given.answer(kinematics.sum_frames, "momentum or energy", (10,), given.qd)
