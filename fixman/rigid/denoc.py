"""Forward dynamics by the UDUᵀ decomposition of the inertia matrix (Saha 1996, 1997, 1999).

With the decoupled natural orthogonal complement N = N_l N_d (saha_1999, eqs. 16–17; T_l and T_d in
saha_1996), twists are t = N_l N_d θ̇, the generalized inertia matrix is I = N_dᵀ N_lᵀ M N_l N_d, and
Gaussian elimination that starts with the last body gives I = U D Uᵀ by the recursions

    ψ_i = M̂_{i,i+1} p_i,   m̂_i = p_iᵀ ψ_i,   ψ̂_i = ψ_i m̂_i⁻¹                           (32–33)
    M̂_{i−1,i} = M_{i−1} + B_{i,i−1}ᵀ (M̂_{i,i+1} − ψ̂_i ψ_iᵀ) B_{i,i−1},   M̂_{n,n+1} = M_n      (35)
    D = diag(m̂_1, …, m̂_n),   U_ik = p_iᵀ B_kiᵀ ψ̂_k for i < k                               (31)

with the symbols and equation numbers of saha_1996; hats on ψ are the other way round in saha_1999.

Where this leaves the papers: twists are those of mass centres, angular before linear, as there,
but resolved in each body's own axes, so that rounding stays local.  A joint of f_i degrees of
freedom has a p_i of 6 × f_i and a pivot m̂_i of f_i × f_i, so D has blocks.  Armature of a joint is
added to its pivot.  Nothing else changes.
Bodies count from 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fixman._common.arrays import Array, overflow
from fixman.kernels.rigid import denoc
from fixman.kernels.rigid.joints import RATES
from fixman.rigid import model
from fixman.rigid.joints import driven
from fixman.rigid.model import Given, SerialChain
from fixman.rigid.newton_euler import without_bias
from fixman.rigid.spatial import propagation

__all__ = ["forward_dynamics", "logdet_mass", "n_d", "n_l", "udut"]

_NOTHING = np.empty((0, 0))


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

    Parameters
    ----------
    arm : SerialChain
    q : (..., nq)
        Coordinates; quaternions are scalar last.
    qd, tau : (..., nv)
        Rates and joint forces.
    gravity : (3,)
        Acceleration of free fall in the axes of the base; none unless given.
    wrenches : (..., n, 6), optional
        External force, then moment about the origin of the body's frame, on each body in the axes
        of that frame; those of `kinematics` are in the axes of the base.

    Returns
    -------
    ndarray (..., nv)
        O(n) time and memory a frame.

    Raises
    ------
    ValueError
        For wrong shapes, values that are not finite, and quaternions that are not unit ones.
    SingularConstraintError
        If a pivot is zero or lost to rounding, naming the body.

    Notes
    -----
    As published, the bias is subtracted first: inverse dynamics with θ̈ = 0 (not θ̇ = 0, as the
    papers print).  Its elements grow with the length of the chain and those of θ̈ do not, so digits
    are lost: about 1e-13 of max |θ̈| at 100 moving links in general position and 1e-9 at 10⁴, thirty
    times as much in planar arms.  Where that matters take `articulated_body`, or ``method="fd3"``
    of `spatial_operators`.
    """
    given = driven(arm, q, qd, tau, gravity, wrenches)
    out = np.empty_like(given.last)
    _factor(given, without_bias(given), out, 1, "θ̈")
    return given.batch(out)


def udut(arm: SerialChain, q: ArrayLike) -> tuple[Array, Array]:
    """U and D of the generalized inertia matrix, I = U D Uᵀ (saha_1996, eqs. 21, 31–35).

    Parameters
    ----------
    arm : SerialChain
    q : (..., nq)

    Returns
    -------
    U : ndarray (..., nv, nv)
        Upper triangular, with ones on the diagonal and, for joints of several degrees of freedom,
        identities in the diagonal blocks.
    D : ndarray (..., nv, nv)
        Diagonal, with a block m̂_i for a joint of several degrees of freedom.

    Both are dense, for reading: O(n²) time and memory a frame.

    Raises
    ------
    ValueError, SingularConstraintError
        As `forward_dynamics`.
    """
    given = model.posture(arm, q)
    X, psi_hat, m_hat = _factor(given, _NOTHING, _NOTHING, len(given.q))
    frames, nv = m_hat.shape[:2]
    U = np.zeros((frames, nv, nv))
    D = np.zeros_like(U)
    U[:] = np.eye(nv)
    denoc.upper_frames(arm._kinds, arm._table, X, psi_hat, U)
    if not np.isfinite(U).all():
        raise overflow("factor U", int(np.argmin(np.isfinite(U).all(axis=(1, 2)))), given.lead)
    for at, f in zip(arm.rate_offsets[:-1], RATES[arm.kinds], strict=True):
        D[:, at : at + f, at : at + f] = m_hat[:, at : at + f, :f]
    return given.batch(U), given.batch(D)


def logdet_mass(arm: SerialChain, q: ArrayLike) -> Array:
    """Ln det I = Σ ln det m̂_i (saha_1996, eq. 20), in O(n) a frame.

    Parameters
    ----------
    arm : SerialChain
    q : (..., nq)

    Returns
    -------
    float or ndarray (...)

    Raises
    ------
    ValueError, SingularConstraintError
        As `forward_dynamics`.
    """
    given = model.posture(arm, q)
    _, _, m_hat = _factor(given, _NOTHING, _NOTHING, len(given.q))
    out = np.empty(m_hat.shape[0])
    denoc.logdet_frames(arm._kinds, m_hat, out)
    return given.batch(out)[()]


def n_l(arm: SerialChain, q: ArrayLike) -> Array:
    """N_l of saha_1999, eq. 17: twists of all bodies from the joints' own, (6n, 6n), dense.

    Block i, j ≤ i is B_ij: the twist that body i has if body j moves and the joints between do
    not.  Twists are of mass centres, angular before linear, in body axes; ``q (nq,)``.
    """
    q = model.configuration(arm, q)
    X = np.empty((arm.n, 12))
    denoc.place_centres(q, arm._kinds, arm._table, X)
    N = np.zeros((arm.n, 6, arm.n, 6))
    B = propagation(X[:, :9].reshape(-1, 3, 3), X[:, 9:])  # B_{i,i−1}, eq. 13
    for i in range(arm.n):
        if i > 0:
            N[i] = np.tensordot(B[i], N[i - 1], 1)
        N[i, :, i] = np.eye(6)
    return N.reshape(6 * arm.n, 6 * arm.n)


def n_d(arm: SerialChain) -> Array:
    """N_d of saha_1999, eq. 17: diag(p_1, …, p_n), (6n, nv), dense.

    In body axes it does not depend on the configuration.
    """
    model.require_arm(arm)
    N = np.zeros((arm.n, 6, arm.nv))
    for i, (kind, at) in enumerate(zip(arm.kinds, arm.rate_offsets[:-1], strict=True)):
        for j in range(RATES[kind]):
            N[i, :, at + j] = np.concatenate(denoc.joint_rate(kind, j, arm._table, i))
    return N.reshape(6 * arm.n, arm.nv)


def _factor(
    given: Given, tau: Array, out: Array, kept: int, what: str = "pivots"
) -> tuple[Array, Array, Array]:
    """Return X (kept, n, 12), ψ̂ and m̂ (kept, nv, 6), of all frames or room for those of one."""
    arm = given.arm
    X = np.empty((kept, arm.n, 12))
    psi_hat, m_hat = np.empty((2, kept, arm.nv, 6))
    factors = X, psi_hat, m_hat
    bad = denoc.factor_frames(given.q, tau, arm._kinds, arm._table, *factors, out)
    given.require_answer(bad, what)
    return factors
