"""Closures in one posture: their rows, gaps and Λ⁻¹, for `fixman.rigid.closed`.

Rows are in axes that body a carries, and both bodies of a closure are looked at where b's point is:
what slides along a turning body has Coriolis terms, and the wrenches of a closure are opposite at
one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fixman import _arrays
from fixman._arrays import Array
from fixman.errors import FrameError, SingularConstraintError
from fixman.rigid import articulated_body, kinematics
from fixman.rigid._linkage import DIRECTIONS, Linkage
from fixman.rigid.joints import without_springs
from fixman.rigid.kinematics import LOST

# --- arguments --------------------------------------------------------------------------------


def arguments(linkage: Linkage, **given: ArrayLike) -> list[Array]:
    """Coordinates, rates and forces with the same batch axes."""
    if not isinstance(linkage, Linkage):
        raise TypeError(f"linkage must be a Linkage, got {type(linkage).__name__}")
    sizes = {name: (linkage.nq if name == "q" else linkage.nv,) for name in given}
    arrays = {name: _arrays.real(value, sizes[name], name) for name, value in given.items()}
    for name, value in arrays.items():
        _arrays.require_finite(value, sizes[name], name, "coordinate" if name == "q" else "rate")
    lead = _arrays.common_lead(*(value.shape[:-1] for value in arrays.values()))
    return [_arrays.spread(value, lead, sizes[name]) for name, value in arrays.items()]


def chains(linkage: Linkage, q: Array, *rates: Array) -> Iterator[tuple[Any, ...]]:
    """Yield number, chain, coordinates and rates of each chain."""
    parts = [linkage.split(q, "nq"), *(linkage.split(v, "nv") for v in rates)]
    return zip(range(len(linkage.chains)), linkage.chains, *parts, strict=True)


@contextmanager
def in_chain(linkage: Linkage, c: int) -> Iterator[None]:
    """Say which of several chains an error is about."""
    try:
        yield
    except FrameError as error:
        if len(linkage.chains) > 1:
            error.add_note(f"in chain {c} of the linkage")
        raise


# --- closures in one posture --------------------------------------------------------------------


class Posture(NamedTuple):
    """Ends of all closures in the axes of the base, along the batch axes."""

    linkage: Linkage
    twists: Array  # (2k, 6) of the ends' points
    rows: Array  # (m, 2k, 6): A without its Jacobians
    products: Array  # (k, 6): what b's accelerations have besides, because axes and points move
    gap: Array  # (m,)
    speed: Array  # (): of the fastest body, in radians and reaches of the linkage a unit of time

    @property
    def rate(self) -> Array:
        """A θ̇."""
        return self.relative(self.twists)

    def relative(self, motion: Array) -> Array:
        """Relative twists (m,) of those of the ends."""
        return np.asarray(np.einsum("...mek,...ek->...m", self.rows, motion))


_EPSILON = np.zeros((3, 3, 3))
_EPSILON[[0, 1, 2], [1, 2, 0], [2, 0, 1]] = 1.0
_EPSILON[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = -1.0


def _cross(a: Array, b: Array) -> Array:
    """Return a × b, of few vectors in a fraction of the time of `numpy.cross`."""
    return np.asarray(np.einsum("ijk,...j,...k->...i", _EPSILON, a, b))


def posture(linkage: Linkage, q: Array, qd: Array) -> Posture:
    """Look at all closures, in O(n) a chain."""
    lead, count = q.shape[:-1], len(linkage._ends)
    R, x = np.empty((*lead, count, 3, 3)), np.empty((*lead, count, 3))
    V, speed = np.zeros((*lead, count, 6)), np.zeros(lead)
    for k, end in enumerate(linkage._ends):  # as if all were on the base
        R[..., k, :, :], x[..., k, :] = end.axes, end.point
    for c, arm, place, rates in chains(linkage, q, qd):
        with in_chain(linkage, c):
            turns, origins, twists = kinematics.frames(arm, place, rates)
        speed = np.maximum(speed, np.abs(twists[..., :3]).max((-1, -2)) / linkage._reach)
        speed = np.maximum(speed, np.abs(twists[..., 3:]).max((-1, -2)))
        for k in linkage._on[c]:
            body = linkage._ends[k].body
            turn, ω = turns[..., body, :, :], twists[..., body, 3:]
            r = np.einsum("...ij,...j->...i", turn, x[..., k, :])
            R[..., k, :, :] = turn @ R[..., k, :, :]
            x[..., k, :] = origins[..., body, :] + r
            V[..., k, :3], V[..., k, 3:] = twists[..., body, :3] + _cross(ω, r), ω
    Q, r = R[..., ::2, :, :], x[..., 1::2, :] - x[..., ::2, :]
    ω, turning = V[..., ::2, 3:], V[..., 1::2, 3:] - V[..., ::2, 3:]
    moving = V[..., 1::2, :3] - V[..., ::2, :3] - _cross(ω, r)
    products = -np.concatenate([_cross(ω, _cross(ω, r) + 2 * moving), _cross(ω, turning)], axis=-1)
    axes = Q.swapaxes(-1, -2)  # a row for each axis
    # Velocities of b's point and of a's body there, and angular ones, for twists of both ends.
    rows = np.zeros((*lead, count // 2, 6, count, 6))
    for j in range(count // 2):
        S = axes[..., j, :, :]
        rows[..., j, :3, 2 * j, :3] = rows[..., j, 3:, 2 * j, 3:] = -S
        rows[..., j, :3, 2 * j, 3:] = -_cross(r[..., j, None, :], S)
        rows[..., j, :3, 2 * j + 1, :3] = rows[..., j, 3:, 2 * j + 1, 3:] = S
    turn = _turn(linkage, axes @ R[..., 1::2, :, :])
    gap = np.concatenate([np.einsum("...ij,...j->...i", axes, r), turn], axis=-1)
    return Posture(
        linkage,
        V,
        rows.reshape(*lead, 3 * count, count, 6)[..., linkage._held, :, :],
        products,
        gap.reshape(*lead, 3 * count)[..., linkage._held],
        speed,
    )


def _turn(linkage: Linkage, R: Array) -> Array:
    """Rotation vectors (..., k, 3) in the axes of a, of the least turn that must be undone.

    Of all three turns that of b's axes; of two that of the axis about which b is free.
    """
    out = np.zeros(R.shape[:-1])
    for j, closure in enumerate(linkage.closures):
        free = [d for d in range(3) if DIRECTIONS[3 + d] not in closure.directions]
        if len(free) == 3:
            continue
        if free:
            now = R[..., j, :, free[0]]
            normal, cosine = now @ _EPSILON[:, free[0]].T, now[..., free[0]]
        else:
            normal = -np.einsum("ijk,...jk->...i", _EPSILON, R[..., j, :, :]) / 2
            cosine = (np.trace(R[..., j, :, :], axis1=-2, axis2=-1) - 1) / 2
        sine = np.linalg.norm(normal, axis=-1)
        angle = np.arctan2(sine, cosine)
        # Of half a turn any normal will do: the gap only has to be seen.
        normal = np.where(sine[..., None] > 0, normal, np.eye(3)[free[0] - 1 if free else 0])
        out[..., j, :] = normal * (angle / np.where(sine > 0, sine, 1.0))[..., None]
    return out


def end_accelerations(linkage: Linkage, q: Array, qd: Array, qdd: Array) -> Array:
    """Accelerations (..., 2k, 6) of the ends' points."""
    out = np.zeros((*q.shape[:-1], len(linkage._ends), 6))
    for c, arm, x, v, a in chains(linkage, q, qd, qdd):
        for k in linkage._on[c]:
            end = linkage._ends[k]
            out[..., k, :] = kinematics.acceleration(arm, x, v, a, end.body, end.point)
    return out


def joint_forces(linkage: Linkage, q: Array, w: Array) -> Array:
    """Joint forces (..., nv) of wrenches (..., 2k, 6) on the ends, Aᵀ f."""
    out = np.zeros((*q.shape[:-1], linkage.nv))
    for c, arm, x, part in chains(linkage, q, out):
        for k in linkage._on[c]:
            end = linkage._ends[k]
            part += kinematics.jacobian_transpose(arm, x, w[..., k, :], end.body, end.point)
    return out


def correction(at: Posture, q: Array, gap: Array) -> Array:
    """Rates −ℳ⁻¹ Aᵀ Λ gap: the least kinetic energy that moves the closures by −gap."""
    linkage = at.linkage
    f = -Compliance(at, q).solve(gap)
    tau = joint_forces(linkage, q, np.einsum("...mek,...m->...ek", at.rows, f))
    parts = []
    for c, arm, x, t in chains(linkage, q, tau):
        with in_chain(linkage, c):
            loose = without_springs(arm)
            parts.append(articulated_body.forward_dynamics(loose, x, np.zeros_like(t), t))
    return np.concatenate(parts, axis=-1)


class Compliance:
    """Λ⁻¹ = A ℳ⁻¹ Aᵀ (..., m, m), scaled and factored; refuses what it cannot tell from singular.

    Rows are scaled by what the bodies would do if nothing else held them: the trace of Ω, its
    moments taken into forces by the size of the bodies.
    """

    def __init__(self, at: Posture, q: Array) -> None:
        linkage, lead = at.linkage, q.shape[:-1]
        inverse = np.zeros((*lead, linkage.held, linkage.held))
        free = np.zeros((*lead, len(linkage._ends), 2))
        for c, arm, x in chains(linkage, q):
            on = linkage._on[c]
            if not on:
                continue
            ends = [linkage._ends[k] for k in on]
            bodies, points = [end.body for end in ends], [end.point for end in ends]
            with in_chain(linkage, c):
                Ω = kinematics.operational_space_compliance(arm, x, bodies, points)
            part = at.rows[..., on, :].reshape(*lead, linkage.held, 6 * len(on))
            inverse += part @ Ω @ part.swapaxes(-1, -2)
            sums = np.diagonal(Ω, axis1=-2, axis2=-1).reshape(*lead, len(on), 2, 3).sum(-1)
            free[..., on, :] = sums
        if not np.isfinite(inverse).all():
            raise _arrays.overflow("compliance of the closures", 0, ())
        both, length = free[..., ::2, :] + free[..., 1::2, :], linkage._lengths**2
        linear = np.maximum(both[..., 0], both[..., 1] * length)
        scale = np.stack([linear, linear / length], axis=-1)
        scale = np.repeat(scale, 3, axis=-1).reshape(*lead, 6 * len(length))[..., linkage._held]
        self.scale = np.sqrt(np.where(scale > 0, scale, 1.0))
        self.values, self.vectors = np.linalg.eigh(
            inverse / (self.scale[..., :, None] * self.scale[..., None, :])
        )
        lost = self.values[..., 0] < LOST
        if lost.any():
            frame = int(np.argmax(lost))
            weak = self.vectors.reshape(-1, linkage.held, linkage.held)[frame, :, 0]
            raise _dependent(linkage, weak, _arrays.frame_index(frame, lead))

    @property
    def logdet(self) -> Array:
        return np.asarray(np.log(self.values).sum(-1) + 2 * np.log(self.scale).sum(-1))

    def solve(self, b: Array) -> Array:
        """Λ b."""
        part = np.einsum("...mk,...m->...k", self.vectors, b / self.scale) / self.values
        return np.asarray(np.einsum("...mk,...k->...m", self.vectors, part) / self.scale)


# --- refusals -----------------------------------------------------------------------------------


def _dependent(linkage: Linkage, weak: Array, frame: Any) -> SingularConstraintError:
    """Return the error for a combination of rows that the chains cannot follow."""
    rows = np.flatnonzero(np.abs(weak) >= 0.1 * np.abs(weak).max())
    rows = rows[np.argsort(-np.abs(weak[rows]), kind="stable")]
    together = " together" if rows.size > 1 else ""
    return SingularConstraintError(
        f"the closures cannot hold {_arrays.listed([_row(linkage, int(r)) for r in rows], 4)}"
        + together,
        ": the bodies do not move there, or what holds them already is another closure.  Leave a "
        'direction out of the kind, as ("x", "y") of a pin in the plane; or if other postures have '
        "an answer, this one is singular",
        frame=frame,
    )


def require_closed(at: Posture, size: Array, limit: Array, what: str) -> None:
    """Refuse gaps, or their rates, in units of the linkage, that are no rounding of closed ones."""
    far = np.abs(size).max(-1) > limit
    if far.any():
        frame = int(np.argmax(far))
        gap = (at.gap if what == "position" else at.rate).reshape(-1, at.linkage.held)[frame]
        raise FrameError(
            f"the {what}s do not close: {named(at.linkage, gap)}",
            ": `project` gives positions and rates that close",
            frame=_arrays.frame_index(frame, size.shape[:-1]),
        )


def named(linkage: Linkage, gap: Array) -> str:
    row = int(np.argmax(np.abs(gap / linkage._units)))
    return f"{_row(linkage, row)} is off by {gap[row]:.3g}"


def _row(linkage: Linkage, row: int) -> str:
    closure, direction = divmod(int(linkage._held[row]), 6)
    return f"{DIRECTIONS[direction]} of closure {closure}"
