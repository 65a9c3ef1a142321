"""Inertia matrix, matrix of convective terms, and O(n³) forward dynamics from composite bodies.

The composite body i is the rigid body made of links i, …, n − 1 (Saha 1999, sec. 4):

    M̃_i = M_i + B_{i+1,i}ᵀ M̃_{i+1} B_{i+1,i}                                       (23b)
    i_ij = p_iᵀ M̃_i B_ij p_j,     j ≤ i                                             (24)
    c_ij = p_iᵀ (M̃_i B_ij Ω_j + H̃_ij + ~Ṁ_i) p_j,     j ≤ i                         (29)
    c_ij = p_iᵀ B_jiᵀ (M̃_j Ω_j + B_{j+1,j}ᵀ H̃_{j+1,j} + ~Ṁ_j) p_j,     i < j        (29)
    H̃_ij = Σ_{k≥i} B_kiᵀ M_k Ḃ_kj,     ~Ṁ_i = Σ_{k≥i} B_kiᵀ Ṁ_k B_ki               (27, 28)

C is computed in O(n²) from sums of one index.  Since Ḃ_kj = Ḃ_ki B_ij + B_ki Ḃ_ij,

    c_ij = p_iᵀ [M̃_i (B_ij p_j)˙ + Y_i B_ij p_j],     Y_i = Σ_{k≥i} B_kiᵀ (M_k Ḃ_ki + Ṁ_k B_ki),

and Y_i has a recursion like that of M̃_i.  Nothing in this needs p_j to be a single column, nor
the rates to be derivatives of coordinates: spherical joints and a free base are covered.

With Ṁ_i = diag(ω_i × I_i, 0), as in the paper, İ − 2C is skew and Cθ̇ right, as they are for any
C + Nᵀ diag(s_i ω_i × 1, 0) N.  The choice s_i = −½ tr I_i gives C the Christoffel symbols of I
where rates are derivatives of coordinates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from fixman._common.arrays import Array, flag, overflow
from fixman.kernels.rigid.composite_body import convective_frames, inertia_frames, substitute
from fixman.rigid import model
from fixman.rigid.joints import driven
from fixman.rigid.model import Given, SerialChain
from fixman.rigid.newton_euler import without_bias

__all__ = ["convective_matrix", "forward_dynamics", "inertia_matrix"]


def inertia_matrix(arm: SerialChain, q: ArrayLike) -> Array:
    """Generalized inertia matrix I = Nᵀ M N + diag(armature) (saha_1999, eq. 24).

    Of ``q (..., nq)`` a symmetric ndarray (..., nv, nv), in O(n²) a frame.  A ValueError for wrong
    shapes, values that are not finite, and quaternions that are not unit ones.
    """
    return _inertia(model.posture(arm, q))


def convective_matrix(
    arm: SerialChain, q: ArrayLike, qd: ArrayLike, *, christoffel: bool = False
) -> Array:
    """Matrix of convective inertia terms C = Nᵀ (M Ṅ + Ṁ N) (saha_1999, eqs. 25–29).

    The equations of motion are I θ̈ + C θ̇ = τ + `joints.passive_forces`; İ − 2C is skew-symmetric.
    Shapes, cost and errors are those of `inertia_matrix`, and ``qd (..., nv)``.

    With ``christoffel`` not the paper's matrix but that of Christoffel symbols, which other
    programs return.  They differ by a skew matrix that annihilates θ̇.
    """
    given = model.moving(arm, q, qd)
    out = np.empty((given.q.shape[0], arm.nv, arm.nv))
    symmetric = flag(christoffel, "christoffel")
    bad = convective_frames(arm._kinds, arm._table, given.q, given.qd, symmetric, out)
    given.require_answer(bad, "matrix of convective terms")
    return given.batch(out)


def forward_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Accelerations θ̈ = I⁻¹ (τ − bias) by a Cholesky factorization of the inertia matrix.

    The bias is the inverse dynamics at θ̈ = 0 (Walker & Orin 1982, method 1's force vector, with
    the composite bodies of their method 3).  O(n³) time and O(n²) memory a frame.  Arguments and
    errors are those of `articulated_body.forward_dynamics`.
    """
    given = driven(arm, q, qd, tau, gravity, wrenches)
    φ = without_bias(given)
    matrix = _inertia(given).reshape(-1, arm.nv, arm.nv)
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        frame, row = _lost_row(matrix)
        raise model.lost_pivot(_body(arm, row), frame, given.lead) from None
    bad = substitute(lower, matrix, φ)
    if bad >= 0:
        frame, row = divmod(bad, arm.nv)
        raise model.lost_pivot(_body(arm, row), frame, given.lead)
    if not np.isfinite(φ).all():
        given.require_finite()
        raise overflow("accelerations", int(np.argmin(np.isfinite(φ).all(1))), given.lead)
    return given.batch(φ)


def _inertia(given: Given) -> Array:
    arm = given.arm
    out = np.empty((given.q.shape[0], arm.nv, arm.nv))
    bad = inertia_frames(arm._kinds, arm._table, given.q, out)
    given.require_answer(bad, "inertia matrix")
    return given.batch(out)


def _lost_row(matrices: Array) -> tuple[int, int]:
    """Frame and row at which a Cholesky factorization breaks down.

    LAPACK here may round otherwise than the one in NumPy, and just get through; then it is the row
    with least left of its diagonal element.
    """
    left = np.empty(matrices.shape[:2])
    for frame, matrix in enumerate(matrices):
        factor, info = lapack.dpotrf(matrix)
        if info > 0:
            return frame, info - 1
        left[frame] = np.diag(factor) ** 2 / np.diag(matrix)
    frame, row = divmod(int(np.argmin(left)), matrices.shape[1])
    return frame, row


def _body(arm: SerialChain, row: int) -> int:
    return int(np.searchsorted(arm.rate_offsets, row, side="right")) - 1
