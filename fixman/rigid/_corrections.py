"""Digits of accelerations that masses of very different sizes cost, by what torques they leave.

An answer θ̈ leaves the torques r = τ − I θ̈ − C θ̇ + (gravity and wrenches) unexplained, which
inverse dynamics finds to rounding.  The accelerations I⁻¹ r, as the algorithm itself finds them,
are added until they are small.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fixman._common.arrays import Array
from fixman.rigid.model import Given
from fixman.rigid.newton_euler import without_bias

SMALL, DIGITS = 1e-3, 1e-10  # largest correction, relative to the answer, and that of the last
_ROUNDS = 4  # of corrections
_NOISE = 1e-12  # correction, relative to accelerations of bodies, and
_LEAST = 1e-290  # a correction that need not be looked at


def uneven(masses: Array, moments: Array) -> bool:
    """Whether answers can be small differences of much larger numbers."""
    return bool(masses.min() < 1e-4 * masses.max() or moments.min() < 1e-6 * moments.max())


def add_unexplained(
    given: Given,
    qdd: Array,
    solve: Callable[[Given], Array],
    *,
    once: bool = False,
    digits: float = DIGITS,
) -> tuple[int, int] | None:
    """Add to accelerations those of the torques that they leave unexplained, as `solve` finds them.

    Corrections must be small beside the answer or, because that is zero in equilibrium, beside what
    the torques and all the rest would do alone; or be rounding beside accelerations of bodies.
    ``once`` is enough where masses are alike.  Returns None, or a frame whose last correction is
    above ``digits`` of the answer, and the body there.
    """
    none = np.zeros_like(qdd)
    at_rest = given._replace(qd=none, last=none, g=np.zeros(3), W=given.W[:0])
    size = np.abs(qdd).max(axis=1)
    going, noise = np.ones(size.shape, bool), np.full(size.shape, _LEAST)
    for number in range(_ROUNDS):
        more = solve(at_rest._replace(last=without_bias(given, qdd)))
        largest = np.where(going, np.abs(more).max(axis=1), 0.0)
        unsure = largest > np.maximum(SMALL * size, noise)
        if number == 0 and unsure.any():
            both = solve(at_rest._replace(last=given.last)), solve(given._replace(last=none))
            size = np.where(unsure, np.maximum(size, np.abs(both).max(axis=(0, 2))), size)
            noise = np.where(unsure, np.maximum(noise, _NOISE * _driven(given)), noise)
            unsure = largest > np.maximum(SMALL * size, noise)
        if unsure.any():
            break
        qdd[going] += more[going]
        given.finite(qdd, "accelerations")
        going &= largest > np.maximum(DIGITS * size, noise)
        if once or not going.any():
            return None
    lost = ~(largest <= np.maximum(digits * size, noise))
    if not lost.any():
        return None
    frame = int(lost.argmax())
    body = np.searchsorted(given.arm.rate_offsets, np.abs(more[frame]).argmax(), side="right") - 1
    return frame, int(body)


def _driven(given: Given) -> Array:
    """Return how large accelerations (frames,) rates, weight and wrenches give bodies."""
    arm = given.arm
    reach = np.linalg.norm(arm.centres, axis=1) + np.linalg.norm(arm.translations, axis=1)
    length = float(reach.max()) or 1.0
    pull = np.linalg.norm(given.W[:, :3].reshape(-1, arm.n, 3), axis=-1).max(axis=1, initial=0.0)
    falling = np.linalg.norm(given.g) + (pull / arm.masses.sum() if pull.size else 0.0)
    turning: Array = np.abs(given.qd).max(axis=1) ** 2 + falling / length
    return turning * max(1.0, length)
