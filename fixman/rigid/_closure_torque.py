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
from fixman.kernels.rigid.joints import DIRECTION, RATES
from fixman.rigid import _closures as closures
from fixman.rigid import articulated_body, kinematics
from fixman.rigid._linkage import Linkage
from fixman.rigid.joints import without_springs
from fixman.rigid.model import SerialChain


def gradient(linkage: Linkage, q: Array, compliance: Array) -> Array:
    """Return ∂ ln det Λ⁻¹ (frames, nv) for ``q (frames, nq)`` and Λ⁻¹ (frames, m, m): O(n m)."""
    scale = np.sqrt(np.diagonal(compliance, axis1=-2, axis2=-1))
    L = np.linalg.cholesky(compliance / (scale[:, :, None] * scale[:, None, :]))
    f = np.linalg.inv(L) / scale[:, None, :]  # (frames, c, m)
    poses = [kinematics.frames(arm, x)[:2] for _, arm, x in closures.chains(linkage, q)]
    axes, points = _ends(linkage, poses, len(q))
    w = _wrenches(linkage, f, axes[:, ::2], points[:, 1::2])
    felt, twists = [], []
    for c, arm, x in closures.chains(linkage, q):
        given = np.zeros((*f.shape[:2], arm.n, 6))
        for k in linkage._on[c]:
            given[:, :, linkage._ends[k].body] += w[:, :, k // 2] * (1 if k % 2 else -1)
        felt.append(given)
        rates = articulated_body.forward_dynamics(
            without_springs(arm), x[:, None], np.zeros(arm.nv), _felt(arm, poses[c], _beyond(given))
        )
        _, origins, V = kinematics.frames(arm, x[:, None], rates)
        turning = V[..., 3:]
        twists.append(np.concatenate([turning, V[..., :3] + np.cross(origins, turning)], axis=-1))
    changes = _changes(linkage, w, points[:, 1::2], twists)
    parts = []
    for c, arm, _ in closures.chains(linkage, q):
        V = twists[c]
        before = np.concatenate([np.zeros_like(V[..., :1, :]), V[..., :-1, :]], axis=-2)
        h = _momenta(arm, poses[c], V)
        total = _beyond(_dual(V, felt[c]) + changes[c]) + _dual(before, _beyond(h - felt[c]))
        parts.append(2.0 * _felt(arm, poses[c], total).sum(axis=1))
    return np.concatenate(parts, axis=-1)


def _ends(linkage: Linkage, poses: list[Any], frames: int) -> tuple[Array, Array]:
    count = len(linkage._ends)
    axes, points = np.empty((frames, count, 3, 3)), np.empty((frames, count, 3))
    for k, end in enumerate(linkage._ends):
        axes[:, k], points[:, k] = end.axes, end.point
        if end.body is not None:
            R, x = (part[:, end.body] for part in poses[end.chain])
            axes[:, k] = R @ axes[:, k]
            points[:, k] = x + np.einsum("fij,j->fi", R, np.array(end.point))
    return axes, points


def _wrenches(linkage: Linkage, f: Array, axes: Array, points: Array) -> Array:
    S = np.einsum("frij,rj->fri", axes[:, linkage._of], linkage._directions)
    each = f[..., None] * S[:, None]
    w = np.zeros((*f.shape[:2], len(linkage.closures), 6))
    for r, (k, turning) in enumerate(zip(linkage._of, linkage._angular, strict=True)):
        w[:, :, k, slice(0, 3) if turning else slice(3, 6)] += each[:, :, r]
    w[..., :3] += np.cross(points[:, None], w[..., 3:])
    return w


def _changes(linkage: Linkage, w: Array, points: Array, twists: list[Array]) -> list[Array]:
    out = [np.zeros_like(V) for V in twists]
    for k in range(len(linkage.closures)):
        a, b = linkage._ends[2 * k : 2 * k + 2]
        relative = np.zeros_like(w[:, :, 0])
        for end, sign in ((a, -1.0), (b, 1.0)):
            if end.body is not None:
                relative += sign * twists[end.chain][..., end.body, :]
        x, f, ω = points[:, None, k], w[:, :, k, 3:], relative[..., :3]
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
    R, x = (part[:, None] for part in pose)
    c = x + np.einsum("...nij,nj->...ni", R, arm.centres)
    ω = V[..., :3]
    p = arm.masses[:, None] * (V[..., 3:] + np.cross(ω, c))
    spin = np.einsum("...ij,...j->...i", R @ arm.inertias @ R.swapaxes(-1, -2), ω)
    return np.concatenate([spin + np.cross(c, p), p], axis=-1)


def _felt(arm: SerialChain, pose: Any, wrenches: Array) -> Array:
    """Joint forces (..., nv) of wrenches beyond each joint."""
    R, x = (part[:, None] for part in pose)
    f = wrenches[..., 3:]
    parts = wrenches[..., :3] - np.cross(x, f), f
    own = np.concatenate([np.einsum("...ji,...j->...i", R, part) for part in parts], axis=-1)
    own[..., 2] += arm.pitch * own[..., 5]
    body, rate = np.nonzero(np.arange(6) < RATES[arm._kinds, None])
    return np.asarray(own[..., body, DIRECTION[arm._kinds[body], rate]])
