"""Inertia matrix, convective matrix and O(n³) forward dynamics from composite bodies.

The composite body i is the rigid body made of links i, …, n − 1 (Saha 1999, sec. 4):

    M̃_i = M_i + B_{i+1,i}ᵀ M̃_{i+1} B_{i+1,i}                                       (23b)
    i_ij = p_iᵀ M̃_i B_ij p_j,     j ≤ i                                             (24)
    c_ij = p_iᵀ (M̃_i B_ij Ω_j + H̃_ij + ~Ṁ_i) p_j,     j ≤ i                         (29)
    c_ij = p_iᵀ B_jiᵀ (M̃_j Ω_j + B_{j+1,j}ᵀ H̃_{j+1,j} + ~Ṁ_j) p_j,     i < j        (29)
    H̃_ij = Σ_{k≥i} B_kiᵀ M_k Ḃ_kj,     ~Ṁ_i = Σ_{k≥i} B_kiᵀ Ṁ_k B_ki               (27, 28)

C is computed in O(n²) from sums of one index.  Since Ḃ_kj = Ḃ_ki B_ij + B_ki Ḃ_ij,

    c_ij = p_iᵀ [M̃_i (B_ij p_j)˙ + Y_i B_ij p_j],     Y_i = Σ_{k≥i} B_kiᵀ (M_k Ḃ_ki + Ṁ_k B_ki),

and Y_i has a recursion like that of M̃_i.  All joints are covered: p_j may have several columns, and
rates need not be derivatives of coordinates.

With Ṁ_i = diag(ω_i × I_i, 0), as in the paper, İ − 2C is skew and Cθ̇ right, as for any
C + Nᵀ diag(s_i ω_i × 1, 0) N.  With s_i = −½ tr I_i and rates that are derivatives of coordinates,
C has the Christoffel symbols of I.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from fixman._common.arrays import Array, flag
from fixman.kernels.rigid.articulated_inertia import LOST
from fixman.kernels.rigid.composite_body import convective_frames, inertia_frames
from fixman.rigid import model
from fixman.rigid._corrections import SMALL, add_unexplained, uneven
from fixman.rigid.joints import driven
from fixman.rigid.model import Given, SerialChain
from fixman.rigid.newton_euler import without_bias

__all__ = ["convective_matrix", "forward_dynamics", "inertia_matrix"]
__dir__ = __all__.copy  # completion shows public names alone


def inertia_matrix(arm: SerialChain, q: ArrayLike) -> Array:
    """Generalized inertia matrix I = Nᵀ M N + diag(armature) (saha_1999, eq. 24).

    A symmetric ndarray (..., nv, nv) from ``q (..., nq)``, in O(n²) a frame.  Errors as in
    `newton_euler.inverse_dynamics`.
    """
    given = model.posture(arm, q)
    return given.batch(_inertia(given))


def convective_matrix(
    arm: SerialChain, q: ArrayLike, qd: ArrayLike, *, christoffel: bool = False
) -> Array:
    """Matrix of convective inertia terms C = Nᵀ (M Ṅ + Ṁ N) (saha_1999, eqs. 25–29).

    The equations of motion are I θ̈ + C θ̇ = τ + `joints.passive_forces`; İ − 2C is skew-symmetric.
    Shapes, cost and errors are those of `inertia_matrix`; ``qd`` is (..., nv).

    With ``christoffel`` the matrix of Christoffel symbols, which other programs return: it differs
    from the paper's by a skew matrix that annihilates θ̇.
    """
    given = model.gate(arm, q, qd)
    more, size = (given.qd, flag(christoffel, "christoffel")), (arm.nv, arm.nv)
    return given.batch(given.answer(convective_frames, "matrix of convective terms", size, *more))


def forward_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Accelerations θ̈ = I⁻¹ (τ − bias) by dense linear algebra.

    The bias is inverse dynamics at θ̈ = 0 (Walker & Orin 1982, method 1, with the composite bodies
    of their method 3).  If masses differ by 1e4, or moments of inertia by 1e6, the answer is
    corrected by what inverse dynamics finds missing, or refused.  O(n³) time and O(n²) memory a
    frame.  Arguments and errors as in `articulated_body.forward_dynamics`.
    """
    given = driven(arm, q, qd, tau, gravity, wrenches)
    matrix = _inertia(given)
    try:
        lower = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:  # it does not say where
        lower = matrix.copy()
        for L in lower:
            L[:], info = lapack.dpotrf(L, lower=True)
            if info > 0:
                L[info - 1, info - 1] = 0.0  # a pivot that is lost
    pivots, whole = (np.diagonal(a, axis1=1, axis2=2) for a in (lower, matrix))
    for frame, row in np.argwhere(~(pivots**2 > LOST * whole))[:1].tolist():
        body = int(np.searchsorted(arm.rate_offsets, row, side="right")) - 1
        raise model.failure(arm, "accelerations", frame, body, given.lead)

    def solve(given: Given) -> Array:
        return np.asarray(np.linalg.solve(matrix, without_bias(given)[..., None])[..., 0])

    qdd = solve(given)
    if _corrected(arm) and (lost := add_unexplained(given, qdd, solve, digits=SMALL)):
        raise model.failure(arm, "accelerations", *lost, given.lead)
    return given.finite(qdd, "accelerations")


@model.kept
def _corrected(arm: SerialChain) -> bool:
    return uneven(arm.masses, np.trace(arm.inertias, axis1=1, axis2=2))


def _inertia(given: Given) -> Array:
    return given.answer(inertia_frames, "inertia matrix", (given.arm.nv, given.arm.nv))
