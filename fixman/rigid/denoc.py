"""Forward dynamics by the UDUᵀ decomposition of the inertia matrix (Saha 1996, 1997, 1999).

With the decoupled natural orthogonal complement N = N_l N_d (saha_1999, eqs. 16–17; T_l and T_d in
saha_1996) twists are t = N_l N_d θ̇, I = N_dᵀ N_lᵀ M N_l N_d, and Gaussian elimination from the last
body gives I = U D Uᵀ by the recursions

    ψ_i = M̂_{i,i+1} p_i,   m̂_i = p_iᵀ ψ_i,   ψ̂_i = ψ_i m̂_i⁻¹                           (32–33)
    M̂_{i−1,i} = M_{i−1} + B_{i,i−1}ᵀ (M̂_{i,i+1} − ψ̂_i ψ_iᵀ) B_{i,i−1},   M̂_{n,n+1} = M_n      (35)
    D = diag(m̂_1, …, m̂_n),   U_ik = p_iᵀ B_kiᵀ ψ̂_k for i < k                               (31)

with the symbols and equation numbers of saha_1996; hats on ψ are the other way round in saha_1999.

Where this leaves the papers: a joint of f_i degrees of freedom has a p_i of 6 × f_i and a pivot m̂_i
of f_i × f_i, to which armature is added.  M̂, ψ̂ and m̂ are P, G and D of rodriguez_kreutz_1988, and
`forward_dynamics` is their FD1, by the same kernel: twists are those of the joints, in the axes of
each body.  N_l and N_d have twists of mass centres, angular before linear.  Bodies count from 0.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from fixman._common.arrays import Array
from fixman.kernels.rigid import innovations
from fixman.kernels.rigid.spatial_operators import forward_frames
from fixman.rigid import model
from fixman.rigid.joints import driven
from fixman.rigid.model import SerialChain
from fixman.rigid.newton_euler import without_bias
from fixman.rigid.spatial import joint_axes, propagation, skew

__all__ = ["forward_dynamics", "logdet_mass", "n_d", "n_l", "udut"]
__dir__ = __all__.copy  # completion shows public names alone

_NOTHING = np.empty((0, 0, 0))


def forward_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Joint accelerations θ̈ by U τ̂ = τ − bias, D τ̃ = τ̂, Uᵀ θ̈ = τ̃ (saha_1996, eqs. 24, 36–39).

    The bias is inverse dynamics with θ̈ = 0 (not θ̇ = 0, as the papers print).  All else is as in
    ``method="fd1"`` of `spatial_operators.forward_dynamics`.
    """
    given = driven(arm, q, qd, tau, gravity, wrenches)
    right = without_bias(given), None
    return given.batch(given.answer(forward_frames, "accelerations", (arm.nv,), *right))


def udut(arm: SerialChain, q: ArrayLike) -> tuple[Array, Array]:
    """U and D (..., nv, nv) of the inertia matrix I = U D Uᵀ (saha_1996, eqs. 21, 31–35).

    Both are dense, from ``q (..., nq)``, in O(n²) time and memory.  U is unit upper triangular,
    with an identity for each joint; D has the block m̂_i for each.  Errors as in
    `forward_dynamics`.
    """
    given = model.posture(arm, q)
    U, D = np.zeros((2, len(given.q), arm.nv, arm.nv))
    pivots = given.answer(innovations.factor_frames, "pivots", (arm.nv,), U)
    for a, b in pairwise(arm.rate_offsets):
        L = U[:, a:b, a:b].copy()  # the elimination of single rates, which the block takes back
        D[:, a:b, a:b] = L @ (pivots[:, a:b, None] * L.swapaxes(1, 2))
        U[:, :a, a:b] = U[:, :a, a:b] @ np.linalg.inv(L)
        U[:, a:b, a:b] = np.eye(b - a)
    return given.finite(U, "factor U"), given.batch(D)


def logdet_mass(arm: SerialChain, q: ArrayLike) -> Array:
    """Ln det I = Σ ln det m̂_i (...,) of ``q (..., nq)`` (saha_1996, eq. 20), in O(n) a frame.

    Errors as in `forward_dynamics`.
    """
    given = model.posture(arm, q)
    pivots = given.answer(innovations.factor_frames, "pivots", (arm.nv,), _NOTHING)
    # NumPy would choose the order of a sum by the number of frames.
    return given.batch(np.add.accumulate(np.log(pivots), axis=1)[:, -1])[()]


def n_l(arm: SerialChain, q: ArrayLike) -> Array:
    """N_l of saha_1999, eq. 17: twists of all bodies from the joints' own, (6n, 6n), dense.

    Block i, j ≤ i is B_ij: the twist of body i if body j moves and the joints between do not.
    Twists are of mass centres, angular before linear, in body axes; ``q (nq,)``.
    """
    R, way = model.placed(arm, q)
    way += np.einsum("nij,nj->ni", R, arm.centres)  # −c_{i,i−1} (saha_1996, eq. 4; 1999, below 13)
    way[1:] -= arm.centres[:-1]
    N = np.zeros((arm.n, 6, arm.n, 6))
    B = propagation(R, way)  # B_{i,i−1}, eq. 13
    for i in range(arm.n):
        if i > 0:
            N[i] = np.tensordot(B[i], N[i - 1], 1)
        N[i, :, i] = np.eye(6)
    return N.reshape(6 * arm.n, 6 * arm.n)


def n_d(arm: SerialChain) -> Array:
    """N_d of saha_1999, eq. 17: diag(p_1, …, p_n), (6n, nv), dense.

    In body axes, where p_i is [e; e × d_i] or [0; e] (eqs. 13, 15) in every configuration.
    """
    model.require_arm(arm)
    N = np.zeros((arm.n, 6, arm.nv))
    for i, (a, b) in enumerate(pairwise(arm.rate_offsets)):
        p = joint_axes(arm.kinds[i], arm.pitch[i])
        p[3:] -= skew(arm.centres[i]) @ p[:3]
        N[i, :, a:b] = p
    return N.reshape(6 * arm.n, arm.nv)
