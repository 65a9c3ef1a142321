"""Six-dimensional helpers of the algorithms that are written with dense matrices.

Twists [ω; v] and wrenches [n; f] have the angular part first, as in the papers; the package's own
arrays of rates and wrenches have it last.
"""

import numpy as np

from fixman._common.arrays import Array
from fixman.kernels.rigid.joints import DIRECTION, RATES

__all__ = ["inertia", "joint_axes", "propagation", "skew"]


def skew(a: Array) -> Array:
    """Return a × 1, with (a × 1) b = a × b, for a (..., 3)."""
    out = np.zeros((*a.shape, 3))
    out[..., [2, 0, 1], [1, 2, 0]] = a
    out[..., [1, 2, 0], [2, 0, 1]] = -a
    return out


def propagation(R: Array, p: Array) -> Array:
    """B (..., 6, 6): the twist at the origin of a frame that moves with the frame before it.

    ``R (..., 3, 3)`` and ``p (..., 3)`` are its axes and origin in the frame before; twists are in
    the axes of their own frame (saha_1999, eq. 13; φᵀ of rodriguez_kreutz_1988, eq. 2.16).
    """
    back = R.swapaxes(-1, -2)
    B = np.zeros((*R.shape[:-2], 6, 6))
    B[..., :3, :3] = B[..., 3:, 3:] = back
    B[..., 3:, :3] = -back @ skew(p)
    return B


def joint_axes(kind: int, pitch: float = 0.0) -> Array:
    """p (6, f): the twists of a joint at the origin of the body's frame, a column for each rate."""
    p = np.eye(6)[:, DIRECTION[kind, : RATES[kind]]]
    p[5] += pitch * p[2]
    return p


def inertia(mass: Array, centre: Array, about_centre: Array) -> Array:
    """M (..., 6, 6) about the origin of a body's frame, from what `SerialChain` holds."""
    mass = np.asarray(mass)[..., None, None]
    c = skew(centre)
    M = np.empty((*centre.shape[:-1], 6, 6))
    M[..., :3, :3] = about_centre - mass * c @ c
    M[..., :3, 3:] = mass * c
    M[..., 3:, :3] = -mass * c
    M[..., 3:, 3:] = mass * np.eye(3)
    return M
