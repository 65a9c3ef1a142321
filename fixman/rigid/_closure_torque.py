"""∂ ln det Λ⁻¹ along the rates of a linkage, for `fixman.rigid.closed.fixman_torque`.

With Λ = Σ_c f_c f_cᵀ and s_c = ℳ⁻¹ Aᵀ f_c, at f_c and s_c that do not change,

    ∂ ln det Λ⁻¹ = Σ_c ∂ (2 f_cᵀ A(q) s_c − s_cᵀ ℳ(q) s_c)

Turning joint i carries all bodies beyond it along p_i.  Seen from them, the twist V of the body
before changes by −p_i × V instead.  With wrenches w of the closures, momenta h, and sums [·] over
all bodies beyond,

    ∂/∂q_i = 2 p_iᵀ ([Γ] + V_{i−1} ×* [h − w])

Γ is V ×* w at every end, and the change of w with b's point and the axes of a.  Wrenches are
[moment; force] about the origin of the base, twists [ω; v] there, and ×* is their product.
"""

from typing import Any

import numpy as np

from fixman._common.arrays import Array
from fixman.kernels.rigid.closed import PULLS
from fixman.kernels.rigid.joints import DIRECTION, RATES
from fixman.rigid import _closures as closures
from fixman.rigid import kinematics
from fixman.rigid._linkage import End, Linkage
from fixman.rigid.model import Given, SerialChain, coerced


def gradient(given: Given) -> Array:
    """Return ∂ ln det Λ⁻¹ (frames, nv) of a linkage at rest: O(n m) a frame."""
    linkage, q = given.arm, given.q[:, None]
    inverse = closures.compliance(given)[0]
    # F A ℳ⁻¹ and F Λ⁻¹, for an F that can be inverted.
    pulls = closures.answers(given, PULLS)[1].reshape(len(q), linkage.held, linkage.nv)
    opened = closures.gaps(coerced(linkage, q, pulls), rates=True).reshape(inverse.shape)
    scale = np.sqrt(np.diagonal(inverse, axis1=-2, axis2=-1))[:, None]
    L = np.linalg.cholesky(inverse / (scale.swapaxes(1, 2) * scale))
    f = np.linalg.inv(L) / scale  # (frames, c, m)
    s = (L.swapaxes(1, 2) * scale) @ np.linalg.solve(opened, pulls)  # f A ℳ⁻¹, as f Λ⁻¹ = Lᵀ scale
    poses, twists = [], []
    parts = linkage.chains, linkage.split(q, "nq"), linkage.split(s, "nv")
    for arm, x, rates in zip(*parts, strict=True):
        R, origins, V = kinematics.frames(arm, x, rates)
        poses.append((R[:, :1], origins[:, :1]))
        turning = V[..., 3:]
        twists.append(np.concatenate([turning, V[..., :3] + np.cross(origins, turning)], axis=-1))
    w, points = _wrenches(linkage, f, poses)
    changes = _changes(linkage, w, points, twists)
    forces = []
    for c, arm in enumerate(linkage.chains):
        V, felt = twists[c], np.zeros_like(twists[c])
        for k in linkage._on[c]:
            felt[:, :, linkage._ends[k].body] += w[:, :, k // 2] * (1 if k % 2 else -1)
        before = np.concatenate([np.zeros_like(V[..., :1, :]), V[..., :-1, :]], axis=-2)
        h = _momenta(arm, poses[c], V)
        total = _beyond(_dual(V, felt) + changes[c]) + _dual(before, _beyond(h - felt))
        forces.append(2.0 * _felt(arm, poses[c], total).sum(axis=1))
    return np.concatenate(forces, axis=-1)


def _pose(poses: list[Any], end: End) -> tuple[Array, Array]:
    """Axes and origin of the body of an end."""
    if end.body is None:
        return np.eye(3), np.zeros(3)
    R, x = poses[end.chain]
    return R[:, :, end.body], x[:, :, end.body]


def _wrenches(linkage: Linkage, f: Array, poses: list[Any]) -> tuple[Array, Array]:
    """Wrenches on the ends b, (frames, c, closures, 6), and points b."""
    w = np.zeros((*f.shape[:2], len(linkage.closures), 6))
    points = np.empty((len(f), 1, len(linkage.closures), 3))
    for r, (k, turning, direction) in enumerate(zip(*linkage._held, strict=True)):
        a = linkage._ends[2 * k]
        S = _pose(poses, a)[0] @ (np.array(a.axes) @ direction)
        w[:, :, k, slice(0, 3) if turning else slice(3, 6)] += f[:, :, r, None] * S
    for k, b in enumerate(linkage._ends[1::2]):
        R, x = _pose(poses, b)
        points[:, :, k] = x + R @ np.array(b.point)
    w[..., :3] += np.cross(points, w[..., 3:])
    return w, points


def _changes(linkage: Linkage, w: Array, points: Array, twists: list[Array]) -> list[Array]:
    out = [np.zeros_like(V) for V in twists]
    for k in range(len(linkage.closures)):
        a, b = linkage._ends[2 * k : 2 * k + 2]
        relative = np.zeros_like(w[:, :, 0])
        for end, sign in ((a, -1.0), (b, 1.0)):
            if end.body is not None:
                relative += sign * twists[end.chain][..., end.body, :]
        x, f, ω = points[:, :, k], w[:, :, k, 3:], relative[..., :3]
        moment = w[:, :, k, :3] - np.cross(x, f)
        if b.body is not None:
            force = np.cross(f, ω)
            out[b.chain][..., b.body, 3:] += force
            out[b.chain][..., b.body, :3] += np.cross(x, force)
        if a.body is not None:
            turned = np.cross(f, relative[..., 3:] + np.cross(ω, x)) + np.cross(moment, ω)
            out[a.chain][..., a.body, :3] += turned
    return out


def _beyond(wrenches: Array) -> Array:
    """Sum over each body and all beyond it."""
    return np.asarray(np.cumsum(wrenches[..., ::-1, :], axis=-2)[..., ::-1, :])


def _dual(V: Array, w: Array) -> Array:  # V ×* w
    (ω, v), (n, f) = ((x[..., :3], x[..., 3:]) for x in (V, w))
    return np.concatenate([np.cross(ω, n) + np.cross(v, f), np.cross(ω, f)], axis=-1)


def _momenta(arm: SerialChain, pose: Any, V: Array) -> Array:
    """Momenta of bodies, about the origin of the base."""
    R, x = pose
    c = x + np.einsum("...nij,nj->...ni", R, arm.centres)
    ω = V[..., :3]
    p = arm.masses[:, None] * (V[..., 3:] + np.cross(ω, c))
    spin = np.einsum("...ij,...j->...i", R @ arm.inertias @ R.swapaxes(-1, -2), ω)
    return np.concatenate([spin + np.cross(c, p), p], axis=-1)


def _felt(arm: SerialChain, pose: Any, wrenches: Array) -> Array:
    """Joint forces (..., nv) of wrenches beyond each joint."""
    R, x = pose
    f = wrenches[..., 3:]
    parts = wrenches[..., :3] - np.cross(x, f), f
    own = np.concatenate([np.einsum("...ji,...j->...i", R, part) for part in parts], axis=-1)
    own[..., 2] += arm.pitch * own[..., 5]
    body, rate = np.nonzero(np.arange(6) < RATES[arm._kinds, None])
    return np.asarray(own[..., body, DIRECTION[arm._kinds[body], rate]])
