"""Spatial operators: factorization and inversion of the mass matrix (Rodriguez & Kreutz 1988).

The report numbers joints 1 … N from the tip to the base, and so does this file: body i of a
`SerialChain` is link k = N − i.  Spatial vectors are angular before linear, V(k) = [ω(k); v(k)]
with v(k) the velocity of the link's origin O(k).  With

    V = φᵀ Hᵀ θ̇,   α = φᵀ (Hᵀ θ̈ + a),   f = φ (M α + b),   T = H f                      (3.12–3.17)

the mass matrix has the Newton–Euler factorization and the innovations factorization

    ℳ   = H φ M φᵀ Hᵀ                                                                    (3.20)
    ℳ   = (I + H Φ L) D (I + H Φ L)ᵀ                                                     (4.11)
    ℳ⁻¹ = (I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L)                                                   (4.16)

of which P, D, L come from a Riccati equation (4.4–4.6), a Kalman filter that runs from the tip.

Where this leaves the report: spatial vectors are resolved in the axes of their own link, so that
φ(k+1,k) = [[1, ℓ̃], [0, 1]] diag(R, R) with the rotation R from link k to link k + 1.  Joints of f
degrees of freedom have H(k) of f × 6 and a block D(k) (appendix B); the rates of a free base add
a(N) = [0; ω × v].  Wrenches on links are subtracted from b(k), for B f(0).  Gravity is an
acceleration −g of the base (3.21).  Armature J(k) is added to D(k) = H P Hᵀ (4.6) and to ℳ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag, solve_triangular

from fixman._common.arrays import Array, overflow, require_one_of
from fixman.kernels.rigid.spatial_operators import forward_frames
from fixman.rigid import model, spatial
from fixman.rigid.joints import driven
from fixman.rigid.model import SerialChain
from fixman.rigid.newton_euler import without_bias

__all__ = ["Operators", "forward_dynamics", "operators"]
__dir__ = __all__.copy  # completion shows public names alone


def forward_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
    method: Literal["fd1", "fd3"] = "fd3",
) -> Array:
    """Joint accelerations θ̈ by the report's FD1 or FD3, in O(n) time and memory a frame.

    FD1 (4.17–4.18) subtracts the bias torques, then filters and smooths.  Bias torques grow with
    the length of the chain and accelerations do not, so digits are lost: about 1e-13 of max |θ̈| at
    100 moving links in general position and 1e-9 at 10⁴, thirty times as much in planar arms.  FD3
    (5.8–5.10) sends bias accelerations and forces through the filter, and loses 2e-14 at 10⁴.  All
    else is as in `articulated_body.forward_dynamics`.
    """
    require_one_of(method, "method", ("fd1", "fd3"))
    given = driven(arm, q, qd, tau, gravity, wrenches)
    T = without_bias(given) if method == "fd1" else given.last
    bias = None if method == "fd1" else (given.qd, given.g, given.W)
    return given.batch(given.answer(forward_frames, "accelerations", (arm.nv,), T, bias))


@dataclass(frozen=True)
class Operators:
    """The report's operators in one configuration, dense, tip to base; for reading and tests.

    ``order`` says where the report's rates are in the package's: ``T = tau[order]`` and
    ``ℳ = mass_matrix[np.ix_(order, order)]``.
    """

    order: NDArray[np.int64]  # (nv,)
    phi: Array  # (6N, 6N), eq. 3.4
    Phi: Array  # (6N, 6N), eq. 4.9
    psi: Array  # (6N, 6N), eq. 5.1
    Psi: Array  # (6N, 6N), eq. 4.10
    H: Array  # (nv, 6N), eq. 3.5
    M: Array  # (6N, 6N), eq. 3.6
    P: Array  # (6N, 6N), eqs. 4.4–4.5
    D: Array  # (nv, nv), eq. 4.6; diagonal but for joints of several degrees of freedom
    L: Array  # (6N, nv), eqs. 4.4–4.6
    G: Array  # (6N, nv), eq. 5.12
    S: Array  # (6N, 6N), eq. 5.2
    delta_phi: Array  # (6N, 6N), eq. a.4
    delta_psi: Array  # (6N, 6N), eq. a.5
    B: Array  # (6N, 6), eq. 3.7, with the tip O(0) at O(1)

    @property
    def factor(self) -> Array:
        """I + H Φ L, lower triangular: ℳ is factor · D · factorᵀ (4.11)."""
        return np.eye(self.D.shape[0]) + self.H @ self.Phi @ self.L

    @property
    def inverse_factor(self) -> Array:
        """I − H Ψ L, the inverse of ``factor`` (4.14)."""
        return np.eye(self.D.shape[0]) - self.H @ self.Psi @ self.L


def operators(arm: SerialChain, q: ArrayLike) -> Operators:
    """All operators of the report in one configuration ``q (nq,)``, O(n²) memory.

    Errors are those of `forward_dynamics`.
    """
    (R, p), still = model.placed(arm, q), np.zeros((1, arm.nv))
    check = forward_frames, "articulated inertia P", (arm.nv,), still, None  # no D(k) is lost
    model.posture(arm, q).answer(*check)
    N, ends = arm.n, arm.rate_offsets
    # from the tip on: rates, J, H (2.16, 2.31, b.2), φ(k+1,k) (2.16), M about the origins (2.15)
    rates = [np.arange(ends[i], ends[i + 1]) for i in reversed(range(N))]
    J = [np.diag(arm.armature[r]) for r in rates]
    H = [spatial.joint_axes(arm.kinds[i], arm.pitch[i]).T for i in reversed(range(N))]
    with np.errstate(over="ignore", invalid="ignore"):
        phi = spatial.propagation(R[::-1], p[::-1]).swapaxes(1, 2)
        M = spatial.inertia(arm.masses, arm.centres, arm.inertias)[::-1]
        P, D, G = _riccati(phi, H, M, J)
        S, one = np.eye(6 * N, k=-6), np.eye(6 * N)
        delta_phi = _diagonal(phi)
        delta_psi = _diagonal([phi[k] @ (np.eye(6) - G[k] @ H[k]) for k in range(N)])
        full_phi, full_psi = (  # (a.11, a.10)
            solve_triangular(one - S @ delta, one, lower=True, check_finite=False)
            for delta in (delta_phi, delta_psi)
        )
    if not (np.isfinite(full_phi).all() and np.isfinite(full_psi).all()):
        raise overflow("operators", 0, ())
    L = [phi[k] @ G[k] for k in range(N)]  # (4.4–4.6)
    products = full_phi, full_phi @ S, full_psi, full_psi @ S
    rows = _diagonal(H), _diagonal(M), _diagonal(P), _diagonal(D), _diagonal(L), _diagonal(G)
    rest = S, delta_phi, delta_psi, np.eye(6 * N, 6)
    return Operators(np.concatenate(rates), *products, *rows, *rest)


def _riccati(phi: Array, H: list[Array], M: Array, J: list[Array]) -> tuple[Any, Any, Any]:
    """P, D and G of every link, eqs. 4.4–4.6 and 5.12."""
    P, D, G = M.copy(), list[Array](), list[Array]()
    for k in range(len(H)):
        if k:  # (1 − G H) P in Joseph's form
            left = np.eye(6) - G[-1] @ H[k - 1]
            passed = left @ P[k - 1] @ left.T + G[-1] @ J[k - 1] @ G[-1].T
            P[k] += phi[k - 1] @ passed @ phi[k - 1].T
        D.append(H[k] @ P[k] @ H[k].T + J[k])
        G.append(np.linalg.solve(D[k], H[k] @ P[k]).T)
    return P, D, G


def _diagonal(blocks: list[Array] | Array) -> Array:
    return np.asarray(block_diag(*blocks), dtype=np.float64)
