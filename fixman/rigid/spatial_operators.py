"""Spatial operators: factorization and inversion of the mass matrix (Rodriguez & Kreutz 1988).

The report numbers joints 1 … N from the tip to the base; so does everything of this file that
carries its symbols, and body i of a `SerialChain` is its link k = N − i.  Spatial vectors are
angular before linear, V(k) = [ω(k); v(k)] with v(k) the velocity of the link's origin O(k).  With

    V = φᵀ Hᵀ θ̇,   α = φᵀ (Hᵀ θ̈ + a),   f = φ (M α + b),   T = H f                      (3.12–3.17)

the mass matrix has the Newton–Euler factorization and the innovations factorization

    ℳ   = H φ M φᵀ Hᵀ                                                                    (3.20)
    ℳ   = (I + H Φ L) D (I + H Φ L)ᵀ                                                     (4.11)
    ℳ⁻¹ = (I − H Ψ L)ᵀ D⁻¹ (I − H Ψ L)                                                   (4.16)

of which P, D, L come from a Riccati equation (4.4–4.6), a Kalman filter that runs from the tip.

Where this leaves the report: spatial vectors are resolved in the axes of their own link, so that
φ(k+1,k) = [[1, ℓ̃], [0, 1]] diag(R, R) with the rotation R from link k to link k + 1.  A spherical
joint has H(k) of 3 × 6 and a free base H(N) of 6 × 6 (appendix B), D(k) is a block, and the rates
of a free base, linear before angular and in its own axes, add a(N) = [0; ω × v].  A wrench on any
link is subtracted from b(k) and generalizes B f(0).  Gravity is an acceleration −g of the base
(3.21).  Armature J(k) of a joint is added to D(k) = H P Hᵀ (4.6) and to ℳ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from fixman._common.arrays import Array, Lead, overflow, require_one_of
from fixman.kernels.rigid import links, spatial_operators
from fixman.kernels.rigid.joints import AXES, RATES
from fixman.rigid import model, spatial
from fixman.rigid.joints import driven
from fixman.rigid.model import Given, SerialChain
from fixman.rigid.newton_euler import without_bias

__all__ = [
    "Operators",
    "forward_dynamics",
    "link_accelerations",
    "operators",
]

Method = Literal["fd1", "fd2", "fd3", "fd4"]
METHODS = ("fd1", "fd2", "fd3", "fd4")


def forward_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
    method: Method = "fd3",
) -> Array:
    """Joint accelerations θ̈ by one of the report's four algorithms.

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
    method : "fd1", "fd2", "fd3" or "fd4"
        FD1 (4.17–4.18): subtract the bias torques, then filter and smooth.  FD2 (5.5–5.6): the
        same by way of link accelerations.  FD3 (5.8–5.10): bias accelerations and forces go
        through the filter themselves.  FD4 (5.13–5.15): bias accelerations enter only joint by
        joint.

    Returns
    -------
    ndarray (..., nv)
        O(n) time and memory a frame.  FD1 and FD3 are compiled; FD2 and FD4 are plain NumPy loops
        over links and frames, for reading.

    Raises
    ------
    ValueError
        For wrong shapes, values that are not finite, and quaternions that are not unit ones.
    SingularConstraintError
        If some D(k) is zero or lost to rounding, naming the body.

    Notes
    -----
    Bias torques grow with the length of the chain and accelerations do not: FD1 and FD2 subtract
    them first and lose digits, about 1e-13 of max |θ̈| at 100 moving links in general position and
    1e-9 at 10⁴, thirty times as much in planar arms.  FD3 loses 2e-14 at 10⁴.
    """
    require_one_of(method, "method", METHODS)
    given = driven(arm, q, qd, tau, gravity, wrenches)
    if method in ("fd2", "fd4"):
        algorithm = _fd4 if method == "fd4" else lambda *frame: _fd2(*frame)[0]
        return _link_by_link(given, algorithm, (arm.nv,), "accelerations")
    out = np.empty_like(given.last)
    T = without_bias(given) if method == "fd1" else given.last
    bias = None if method == "fd1" else (given.qd, given.g, given.W)
    bad = spatial_operators.forward_frames(given.q, T, bias, arm._kinds, arm._table, out)
    given.require_answer(bad, "accelerations")
    return given.batch(out)


def link_accelerations(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0, 0, 0),
    wrenches: ArrayLike | None = None,
) -> Array:
    """Accelerations α of all links by FD2, eq. 5.6: what it computes besides θ̈.

    Arguments and errors as in `forward_dynamics`; a plain NumPy loop over links and frames.

    Returns
    -------
    ndarray (..., n, 6)
        Of each body's origin, then angular, in the body's axes; bodies base to tip.  They are
        those of the bodies: the report's, with gravity, are relative to free fall.
    """
    given = driven(arm, q, qd, tau, gravity, wrenches)
    what = "accelerations of the links"
    alpha = _link_by_link(given, lambda *frame: np.stack(_fd2(*frame)[1]), (arm.n, 6), what)
    return np.roll(alpha[..., ::-1, :], 3, axis=-1)


# --- the operators, dense -------------------------------------------------------------------------


@dataclass(frozen=True)
class Operators:
    """The report's operators in one configuration, dense, tip to base; for reading and tests.

    ``order`` says where the report's rates are in the package's: ``T = tau[order]`` and
    ``ℳ = mass_matrix[np.ix_(order, order)]``.

    Attributes
    ----------
    order : ndarray (nv,)
    phi, Phi, psi, Psi : ndarray (6N, 6N)
        Eqs. 3.4, 4.9, 5.1, 4.10.
    H : ndarray (nv, 6N)
        Eq. 3.5.
    M, P : ndarray (6N, 6N)
        Eqs. 3.6, 4.5.
    D : ndarray (nv, nv)
        Eq. 4.6; diagonal but for joints of several degrees of freedom.
    L, G : ndarray (6N, nv)
        Eqs. 4.4, 5.12.
    S, delta_phi, delta_psi : ndarray (6N, 6N)
        Eqs. 5.2, a.4, a.5.
    B : ndarray (6N, 6)
        Eq. 3.7, with the tip O(0) at O(1).
    """

    order: NDArray[np.int64]
    phi: Array
    Phi: Array
    psi: Array
    Psi: Array
    H: Array
    M: Array
    P: Array
    D: Array
    L: Array
    G: Array
    S: Array
    delta_phi: Array
    delta_psi: Array
    B: Array

    @property
    def factor(self) -> Array:
        """I + H Φ L, lower triangular: ℳ is factor · D · factorᵀ (4.11)."""
        return np.eye(self.D.shape[0]) + self.H @ self.Phi @ self.L

    @property
    def inverse_factor(self) -> Array:
        """I − H Ψ L, the inverse of ``factor`` (4.14)."""
        return np.eye(self.D.shape[0]) - self.H @ self.Psi @ self.L


def operators(arm: SerialChain, q: ArrayLike) -> Operators:
    """All operators of the report in one configuration, O(n²) memory.

    Parameters
    ----------
    arm : SerialChain
    q : (nq,)

    Raises
    ------
    ValueError, SingularConstraintError
        As `forward_dynamics`.
    """
    link = _Links(arm, model.configuration(arm, q), 0, ())
    N = link.N
    with _unchecked():
        P, D, G, L = _riccati(link)
        psi = [link.phi[k] - L[k] @ link.H[k] for k in range(N)]
    delta_phi, delta_psi = _diagonal(link.phi), _diagonal(psi)
    S = np.asarray(np.kron(np.eye(N, k=-1), np.eye(6)), dtype=np.float64)
    one = np.eye(6 * N)
    B = np.zeros((6 * N, 6))
    B[:6] = np.eye(6)
    # (a.10, a.11): ψ = (1 − S Δψ)⁻¹, a sum that ends, written as products of neighbours (4.7)
    phi, psi_all = one.copy(), one.copy()
    for k in range(1, N):
        row, before = slice(6 * k, 6 * k + 6), slice(6 * k - 6, 6 * k)
        with _unchecked():
            phi[row, : 6 * k] = link.phi[k - 1] @ phi[before, : 6 * k]
            psi_all[row, : 6 * k] = psi[k - 1] @ psi_all[before, : 6 * k]
    if not (np.isfinite(phi).all() and np.isfinite(psi_all).all()):
        raise overflow("operators", 0, ())
    return Operators(
        order=np.concatenate(link.rates),
        phi=phi,
        Phi=phi @ S,
        psi=psi_all,
        Psi=psi_all @ S,
        H=_diagonal(link.H),
        M=_diagonal(link.M),
        P=_diagonal(P),
        D=_diagonal(D),
        L=_diagonal(L),
        G=_diagonal(G),
        S=S,
        delta_phi=delta_phi,
        delta_psi=delta_psi,
        B=B,
    )


# --- FD2 and FD4, link by link --------------------------------------------------------------------


class _Links:
    """φ(k+1,k), H(k), M(k), J(k) of every link, tip to base: index k − 1 is the report's link k."""

    def __init__(self, arm: SerialChain, q: Array, frame: int, lead: Lead) -> None:
        X = np.empty((arm.n, 12))
        links.place(q, arm._kinds, arm._table, X)
        tip_to_base = range(arm.n - 1, -1, -1)
        self.N = arm.n
        self.frame, self.lead = frame, lead
        self.rotation = [X[i, :9].reshape(3, 3) for i in tip_to_base]
        self.l = [X[i, 9:] for i in tip_to_base]
        self.p = [arm.centres[i] for i in tip_to_base]
        self.m = [float(arm.masses[i]) for i in tip_to_base]
        ends = arm.rate_offsets
        self.rates = [np.arange(ends[i], ends[i + 1]) for i in tip_to_base]
        self.J = [arm.armature[rates] for rates in self.rates]
        self.axes = [AXES[arm.kinds[i], : RATES[arm.kinds[i]]] for i in tip_to_base]
        # H(k) of eqs. 2.16, 2.31, b.2; φ(k+1,k) of eq. 2.16; M(k) of eq. 2.15 about link origins
        self.H = [spatial.joint_axes(arm.kinds[i], arm.pitch[i]).T for i in tip_to_base]
        with _unchecked():
            steps = zip(self.rotation, self.l, strict=True)
            self.phi = [spatial.propagation(*step).T for step in steps]
            M = spatial.inertia(arm.masses, arm.centres, arm.inertias)
            self.M = [M[i] for i in tip_to_base]

    def velocities(self, thetadot: list[Array]) -> list[Array]:
        """V(k), eq. 2.25."""
        V = [np.zeros(6)] * self.N
        after = np.zeros(6)
        for k in reversed(range(self.N)):
            V[k] = after = self.phi[k].T @ after + self.H[k].T @ thetadot[k]
        return V

    def bias_accelerations(self, V: list[Array], thetadot: list[Array], g: Array) -> list[Array]:
        """a(k), eqs. 2.19, 2.32 and, of the base link, 3.21."""
        a = []
        for k in range(self.N):
            outer = V[k + 1][:3] if k + 1 < self.N else np.zeros(3)  # ω(k+1), in axes of link k+1
            centripetal = np.cross(outer, np.cross(outer, self.l[k]))
            if k + 1 == self.N:
                centripetal = centripetal - g
            carried = self.rotation[k].T @ outer
            turn, slide = np.split(self.H[k].T @ thetadot[k], 2)
            a_v = self.rotation[k].T @ centripetal + np.cross(2 * carried + turn, slide)
            a.append(np.concatenate([np.cross(carried, turn), a_v]))
        return a

    def bias_forces(self, V: list[Array], wrenches: Array) -> list[Array]:
        """b(k), eq. 2.23, less the wrench on the link."""
        b = []
        for k in range(self.N):
            w = V[k][:3]
            inertia = self.M[k][:3, :3]
            moment = np.cross(w, inertia @ w)
            force = self.m[k] * np.cross(w, np.cross(w, self.p[k]))
            given = wrenches[self.N - 1 - k]
            b.append(np.concatenate([moment - given[3:], force - given[:3]]))
        return b

    def outwards(self, source: list[Array]) -> list[Array]:
        """φᵀ source."""
        out = [np.zeros(6)] * self.N
        after = np.zeros(6)
        for k in reversed(range(self.N)):
            out[k] = after = self.phi[k].T @ after + source[k]
        return out

    def bias_torques(self, a: list[Array], b: list[Array]) -> list[Array]:
        """H φ (M φᵀ a + b), eq. 3.23."""
        zeta = self.outwards(a)
        f = np.zeros(6)
        out = []
        for k in range(self.N):
            f = (self.phi[k - 1] @ f if k else f) + self.M[k] @ zeta[k] + b[k]
            out.append(self.H[k] @ f)
        return out


def _link_by_link(
    given: Given,
    algorithm: Callable[[_Links, Array, Array, Array, Array], Array],
    shape: tuple[int, ...],
    what: str,
) -> Array:
    """Run FD2 or FD4 frame by frame."""
    given.require_finite()
    n, frames = given.arm.n, given.q.shape[0]
    W = given.W.reshape(-1, n, 6) if given.W.size else np.zeros((frames, n, 6))
    out = np.empty((frames, *shape))
    for k in range(frames):
        link = _Links(given.arm, given.q[k], k, given.lead)
        with _unchecked():
            out[k] = algorithm(link, given.qd[k], given.last[k], given.g, W[k])
        if not np.isfinite(out[k]).all():
            raise overflow(what, k, given.lead)
    return given.batch(out)


def _fd2(
    link: _Links, qd: Array, tau: Array, g: Array, wrenches: Array
) -> tuple[Array, list[Array]]:
    """ALGORITHM FD2, eqs. 4.20, 4.22b, 5.5–5.6: θ̈, and α without the pseudo-acceleration −g."""
    N = link.N
    thetadot, T = [qd[r] for r in link.rates], [tau[r] for r in link.rates]
    V = link.velocities(thetadot)
    a = link.bias_accelerations(V, thetadot, g)
    bias = link.bias_torques(a, link.bias_forces(V, wrenches))
    T = [t - c for t, c in zip(T, bias, strict=True)]
    _, D, _, L = _riccati(link)
    z = np.zeros(6)
    nu = []
    for k in range(N):
        if k:
            z = (link.phi[k - 1] - L[k - 1] @ link.H[k - 1]) @ z + L[k - 1] @ T[k - 1]
        nu.append(np.linalg.solve(D[k], T[k] - link.H[k] @ z))
    lam = np.zeros(6)
    alpha = link.outwards(link.bias_accelerations(V, thetadot, np.zeros(3)))  # ζ = φᵀ a
    out = np.empty_like(tau)
    for k in reversed(range(N)):
        out[link.rates[k]] = nu[k] - L[k].T @ lam
        lam = (link.phi[k] - L[k] @ link.H[k]).T @ lam + link.H[k].T @ nu[k]
        alpha[k] = lam + alpha[k]
    return out, alpha


def _fd4(link: _Links, qd: Array, tau: Array, g: Array, wrenches: Array) -> Array:
    """ALGORITHM FD4, eqs. 5.16–5.17."""
    N = link.N
    thetadot, T = [qd[r] for r in link.rates], [tau[r] for r in link.rates]
    V = link.velocities(thetadot)
    a = link.bias_accelerations(V, thetadot, g)
    b = link.bias_forces(V, wrenches)
    P, D, G, L = _riccati(link)
    psi = [link.phi[k] - L[k] @ link.H[k] for k in range(N)]
    z = np.zeros(6)
    nu = []
    for k in range(N):  # (5.16)
        if k:
            z = psi[k - 1] @ (z + P[k - 1] @ a[k - 1]) + L[k - 1] @ T[k - 1]
        z = z + b[k]
        nu.append(np.linalg.solve(D[k], T[k] - link.H[k] @ z))
    lam = np.zeros(6)
    out = np.empty_like(tau)
    for k in reversed(range(N)):  # (5.17)
        out[link.rates[k]] = nu[k] - L[k].T @ lam - G[k].T @ a[k]
        lam = psi[k].T @ lam + link.H[k].T @ nu[k] + a[k] - link.H[k].T @ (G[k].T @ a[k])
    return out


def _riccati(link: _Links) -> tuple[list[Array], list[Array], list[Array], list[Array]]:
    """P, D, G, L of every link, eqs. 4.4–4.6 and 5.12; k runs to N, and L(1) uses φ(2,1)."""
    P: list[Array] = []
    D: list[Array] = []
    G: list[Array] = []
    L: list[Array] = []
    for k in range(link.N):
        H = link.H[k]
        P.append(link.M[k].copy())
        size = np.zeros(6)
        if k:
            passed = P[k - 1] - G[k - 1] @ D[k - 1] @ G[k - 1].T
            axes, rest = link.axes[k - 1], link.H[k - 1].copy()
            rest[range(axes.size), axes] -= 1.0
            for _ in range(2):  # H passed = J Gᵀ, without a subtraction
                passed[axes] = link.J[k - 1][:, None] * G[k - 1].T - rest @ passed
                passed[:, axes] = passed[axes].T
            carried = link.phi[k - 1] @ passed @ link.phi[k - 1].T
            P[k] += 0.5 * (carried + carried.T)
            size = np.diag(abs(link.phi[k - 1]) @ abs(P[k - 1]) @ abs(link.phi[k - 1]).T)
        D.append(np.asarray(H @ P[k] @ H.T + np.diag(link.J[k]), dtype=np.float64))
        if not (np.isfinite(P[k]).all() and np.isfinite(size).all()):
            raise overflow("articulated inertia P", link.frame, link.lead)
        f, factor = D[k].shape[0], np.empty((6, 6))
        if not links.factor_block(D[k], 0, f, H @ size, links.LOST_INVERSE, factor):
            raise model.lost_pivot(link.N - 1 - k, link.frame, link.lead)
        G.append(np.asarray(np.linalg.solve(D[k], H @ P[k]).T, dtype=np.float64))
        L.append(link.phi[k] @ G[k])
    return P, D, G, L


def _unchecked() -> np.errstate:
    """Ignore overflow here: results tell."""
    return np.errstate(over="ignore", invalid="ignore", divide="ignore")


def _diagonal(blocks: list[Array]) -> Array:
    return np.asarray(scipy.linalg.block_diag(*blocks), dtype=np.float64)
