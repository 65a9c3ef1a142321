"""Fixman's partition of the inverse mass matrix of the unconstrained chain.

H = B M⁻¹ Bᵀ is band-limited, and with soft coordinates a and hard coordinates b

    (G^aa)⁻¹ = H^aa − H^ab (H^bb)⁻¹ H^ba          (Lee & Chirikjian 2005, eq. 12)
    det G^aa = det G · det H^bb                    (Fixman 1974; eq. 8)

Equations below are numbered as by Lee & Chirikjian.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, single
from fixman.chains.layout import symmetric_lu
from fixman.kernels.chain import hard
from fixman.mechanics.dynamics import forward_dynamics
from fixman.mechanics.metric import logdet
from fixman.mechanics.structured import Factor, finite

__all__ = ["Partition"]

Matrix: TypeAlias = "sparse.csr_array[Any, Any]"


class Partition:
    """The blocks of H in one configuration, with H^bb factored.

    Parameters
    ----------
    chain : Chain
    x : (n, dim)

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held here.

    Notes
    -----
    Construction costs O(n), and each answer too unless its docstring says otherwise.  Blocks of
    soft coordinates are computed on first access; only these can meet a singular coordinate.
    """

    def __init__(self, chain: Chain, x: ArrayLike) -> None:
        self.chain = chain
        self._x = single(chain, x).copy()
        self._logdet_hard = float(logdet(chain, self._x))  # refuses what cannot be held
        self._order = chain.layout.pattern.order
        self._w = np.repeat(chain.layout.inverse_masses, chain.dim)

    def __repr__(self) -> str:
        return f"<Partition: {self.chain.soft.size} soft, {self.chain.hard.size} hard coordinates>"

    @cached_property
    def _factor(self) -> Factor:
        system = self.chain.layout.system
        V = np.empty(system.symbolic.nnz)
        hard.matrix_frame(self._x.reshape(-1), system, V)
        return Factor.of(V, system.symbolic)

    @cached_property
    def _B_b(self) -> Matrix:
        rows = self.chain.layout.hard_rows  # in public order
        return rows.to_sparse(rows.gradients(self._x)[0])

    @cached_property
    def _B_a(self) -> Matrix:
        rows = self.chain.layout.soft_rows
        return rows.to_sparse(self.chain.layout.gradients(rows, self._x))

    def _inner(self, B: Matrix, C: Matrix) -> Matrix:
        """B M⁻¹ Cᵀ (eq. 7), read-only since later answers use it."""
        with np.errstate(all="ignore"):
            product: Matrix = B @ sparse.diags_array(self._w).tocsr() @ C.T
        product.sum_duplicates()  # and sorts, which SciPy would otherwise do in place, later
        product.data.flags.writeable = False
        finite(product.data)
        return product

    @cached_property
    def H_aa(self) -> Matrix:
        """Soft block (n_soft, n_soft), the paper's H^θθ (eq. 23); singular where B_a is."""
        return self._inner(self._B_a, self._B_a)

    @cached_property
    def H_ab(self) -> Matrix:
        """Mixed block (n_soft, n_hard), the paper's H^θL; singular where B_a is."""
        return self._inner(self._B_a, self._B_b)

    @cached_property
    def H_bb(self) -> Matrix:
        """Hard block (n_hard, n_hard), the paper's H^LL (eq. 23)."""
        return self._inner(self._B_b, self._B_b)

    def solve(self, b: ArrayLike, method: Literal["fused", "lu"] = "fused") -> Array:
        """Soft accelerations (H^aa − H^ab (H^bb)⁻¹ H^ba) b of generalized forces b.

        Parameters
        ----------
        b : (n_soft,) or (n_soft, k)
            τ + G^aa κ_a + G^ab κ_b, torques τ on soft coordinates and velocity terms κ.
        method : "fused" or "lu"
            "lu" is the published route (eq. 13), by banded LU, or sparse where H^bb has no band;
            "lu" loses as many digits as the ratio of masses has.  "fused" forms no block of soft
            coordinates; for linear chains of bonds it is `fixman.forward_dynamics`, accurate for
            any masses.

        Raises
        ------
        SingularCoordinateError
            If a soft coordinate has no gradient here.
        """
        b = arrays.real(b, (), "b")
        soft = self.chain.soft.size
        if b.ndim not in (1, 2) or b.shape[0] != soft:
            raise ValueError(f"b must have shape ({soft},) or ({soft}, k), got {b.shape}")
        arrays.require_finite(b, b.shape, "b", "soft coordinate")
        arrays.require_one_of(method, "method", ("fused", "lu"))
        if method == "lu":
            return self._solve_lu(b)
        if self.chain.layout.links.size and b.size:
            rest = np.zeros_like(self._x)
            motion = forward_dynamics(self.chain, self._x, rest, torque=b.T)
            return np.ascontiguousarray(motion.qdd.T)
        w = self._w if b.ndim == 1 else self._w[:, None]
        with np.errstate(all="ignore"):
            F = self._B_a.T @ b
            return finite(self._B_a @ (w * (F + self._B_b.T @ self._push(F, w))))

    def _solve_lu(self, b: Array) -> Array:
        """c − f of eq. 13."""
        order = self._order  # in which the band is narrow
        with np.errstate(all="ignore"):
            c, d = self.H_aa @ b, self.H_ab.T @ b
            e = np.empty_like(d)
            if d.size:
                H = self.H_bb[order][:, order]
                e[order] = _lu(H, self.chain.layout.linear, finite(d)[order])
            return finite(c - self.H_ab @ e)

    def _push(self, F: Array, w: Array) -> Array:
        """λ that makes B_b M⁻¹ (F + B_bᵀ λ) vanish."""
        push = -self._hard_solve(self._B_b @ (w * F))
        # once more from B: see kernels.chain.motion
        return push - self._hard_solve(self._B_b @ (w * (F + self._B_b.T @ push)))

    def _hard_solve(self, b: Array) -> Array:
        answer = np.empty_like(b)
        answer[self._order] = self._factor.solve(finite(b)[self._order])
        return answer

    def tensions(self, force: ArrayLike) -> Array:
        """Tensions (H^bb)⁻¹ B_b M⁻¹ f (n_hard,) that hold the chain at rest under forces (n, dim).

        A stretched rod has a tension > 0; those of hard angles are torques.
        """
        f = single(self.chain, force, "force")
        rest = np.zeros_like(self._x)
        return forward_dynamics(self.chain, self._x, rest, force=f).tension.copy()

    @property
    def logdet_hard(self) -> float:
        """Return ln det H^bb, twice the Fixman potential over kT."""
        return self._logdet_hard

    @cached_property
    def logdet_free(self) -> float:
        """ln det G of the unconstrained chain: d Σ ln m − 2 ln |det B| (theory.md section 4).

        B of the chart is block triangular, and the rows of a bead are orthogonal on that bead:
        |det B| is the product of their norms there, Π 1/L in the plane, Π 1/(L² |sin θ|) in space.
        """
        chain = self.chain
        chain.layout.refuse_extra("ln det G")
        table = chain.layout.chart
        gradients = chain.layout.gradients(table, self._x)
        own = gradients[np.arange(len(table)), table.trait("beads") - 1]
        log_det_B = 0.5 * np.log((own * own).sum(axis=1)).sum()
        return float(chain.dim * np.log(chain.masses).sum() - 2.0 * log_det_B)

    @property
    def logdet_mass(self) -> float:
        """Return ln det G^aa of the constrained chain, by det G^aa = det G · det H^bb (eq. 8)."""
        return self.logdet_free + self.logdet_hard

    def mass_matrix(self) -> Array:
        """Dense G^aa = J M Jᵀ (eq. 4; n_soft, n_soft), J = (∂x/∂a)ᵀ, for small n; O(n³)."""
        chain = self.chain
        chain.layout.refuse_extra("the mass matrix")
        unit = np.zeros((chain.soft.size, chain.n * chain.dim))
        unit[np.arange(chain.soft.size), chain.soft] = 1.0
        _, J = chain.cartesian(chain.internal(self._x), unit)
        J = J.reshape(chain.soft.size, chain.n * chain.dim)
        with np.errstate(all="ignore"):
            return finite((J / self._w) @ J.T)


def _lu(H: Any, banded: bool, d: Array) -> Array:
    if not banded:
        return np.asarray(symmetric_lu(H, "NATURAL").solve(d))
    diagonals = H.todia()
    h = int(np.abs(diagonals.offsets).max(initial=0))
    bands = np.zeros((2 * h + 1, len(d)))
    bands[h - diagonals.offsets, : diagonals.data.shape[1]] = diagonals.data
    return np.asarray(linalg.solve_banded((h, h), bands, d))
