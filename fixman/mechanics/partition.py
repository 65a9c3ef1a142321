"""Fixman's partition of the inverse mass matrix of the unconstrained chain.

H = B M⁻¹ Bᵀ is band-limited, and with soft coordinates a and hard coordinates b

    (G^aa)⁻¹ = H^aa − H^ab (H^bb)⁻¹ H^ba          (Lee & Chirikjian 2005, eq. 12)
    det G^aa = det G · det H^bb                    (Fixman 1974)
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from scipy.sparse.linalg import splu

from fixman._common import arrays
from fixman._common.arrays import Array, listed, overflow
from fixman.chains.chain import Chain, count, single
from fixman.chains.coordinates import Coordinate
from fixman.errors import SingularConstraintError, SingularCoordinateError
from fixman.kernels.chain import freely_jointed, hard, jointed_motion
from fixman.kernels.factors.banded import SMALLEST_PIVOT
from fixman.kernels.factors.sparse import factor, null_vector
from fixman.mechanics.structured import Factor, Sparse, Tridiagonal

__all__ = ["Partition"]

Matrix: TypeAlias = "sparse.csr_array[Any, Any]"

NAMED = 5  # rows that a refusal names


class Partition:
    """The blocks of H in one configuration, with H^bb factored.

    Parameters
    ----------
    chain : Chain
    x : (n, dim)
        Positions, in any unit of length.

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held here: see `fixman.SingularConstraintError`.

    Notes
    -----
    Construction costs O(n); so does each answer, where it does not say otherwise.  The blocks of
    soft coordinates are computed on first access, and only they can meet a singular coordinate.
    """

    def __init__(self, chain: Chain, x: ArrayLike) -> None:
        self.chain = chain
        self._x = single(chain, x).copy()
        self._order = chain.layout.pattern.order
        self._matrix = _hard_matrix(chain, self._x)
        try:
            self._factor: Factor = self._matrix.factor()
        except SingularConstraintError:
            raise_failure(chain, self._x, 0)

    def __repr__(self) -> str:
        """``<Partition: 201 soft, 99 hard coordinates>``."""
        return f"<Partition: {self.chain.soft.size} soft, {self.chain.hard.size} hard coordinates>"

    # --- blocks -----------------------------------------------------------------------------

    @cached_property
    def _B_b(self) -> Matrix:
        """Hard Wilson rows in public order."""
        rows = self.chain.layout.hard_rows
        return rows.to_sparse(rows.gradients(self._x)[0])

    @cached_property
    def _B_a(self) -> Matrix:
        """Soft Wilson rows."""
        table = self.chain.layout.soft_rows
        return table.to_sparse(self.chain.layout.gradients(table, self._x))

    @cached_property
    def _w(self) -> Array:
        """Inverse mass of every Cartesian component."""
        return np.repeat(self.chain.layout.inverse_masses, self.chain.dim)

    def _inner(self, B: Matrix, C: Matrix) -> Matrix:
        """B M⁻¹ Cᵀ, read-only since later answers use it."""
        with np.errstate(all="ignore"):
            product: Matrix = B @ sparse.diags_array(self._w).tocsr() @ C.T
        product.sum_duplicates()  # and sorts, which SciPy would otherwise do in place, later
        product.data.flags.writeable = False
        return _finite(product, product.data)

    @cached_property
    def H_aa(self) -> Matrix:
        """Soft block (n_soft, n_soft), the paper's H^θθ (eq. 24); singular where B_a is."""
        return self._inner(self._B_a, self._B_a)

    @cached_property
    def H_ab(self) -> Matrix:
        """Mixed block (n_soft, n_hard), the paper's H^θL; singular where B_a is."""
        return self._inner(self._B_a, self._B_b)

    @cached_property
    def H_bb(self) -> Matrix:
        """Hard block (n_hard, n_hard), the paper's H^LL."""
        return self._inner(self._B_b, self._B_b)

    # --- solves -----------------------------------------------------------------------------

    def solve(self, b: ArrayLike, method: Literal["fused", "lu"] = "fused") -> Array:
        """Soft accelerations (H^aa − H^ab (H^bb)⁻¹ H^ba) b of generalized forces b.

        Parameters
        ----------
        b : (n_soft,) or (n_soft, k)
            Torques minus velocity terms, conjugate to the soft coordinates.
        method : "fused" or "lu"
            "lu" is the published route (Lee & Chirikjian 2005, eq. 13) with
            `scipy.linalg.solve_banded`, or with `scipy.sparse.linalg.splu` where H^bb has no band;
            "fused" uses H = B M⁻¹ Bᵀ without forming the blocks, and for linear chains of bonds
            the kernels of `fixman.forward_dynamics`, which stay accurate where masses differ by
            orders of magnitude; "lu" loses as many digits there as the ratio of masses has.

        Raises
        ------
        SingularCoordinateError
            If a soft coordinate has no gradient here.
        """
        b = arrays.real(b, (), "b")
        if b.ndim not in (1, 2) or b.shape[0] != self.chain.soft.size:
            raise ValueError(
                f"b must have shape ({self.chain.soft.size},) or ({self.chain.soft.size}, k), "
                f"got {b.shape}: one entry per soft coordinate"
            )
        arrays.require_finite(b, b.shape, "b", "soft coordinate")
        arrays.require_one_of(method, "method", ("fused", "lu"))
        if method == "lu":
            return self._solve_lu(b)
        if self.chain.dim == 2 and self.chain.layout.links.size and b.size:
            return self._solve_planar(b)
        if self.chain.layout.links.size and b.size:
            return self._solve_spatial(b)
        w = self._w if b.ndim == 1 else self._w[:, None]
        with np.errstate(all="ignore"):
            F = self._B_a.T @ b
            answer: Array = self._B_a @ (w * (F + self._B_b.T @ self._push(F, w)))
        return _finite(answer, answer)

    def _solve_lu(self, b: Array) -> Array:
        with np.errstate(all="ignore"):
            c = np.asarray(self.H_aa @ b)
            d = np.asarray(self.H_ab.T @ b)[self._order]  # in the narrow order of the band
        if not self.chain.hard.size:
            return _finite(c, c)
        _finite(d, d)
        e = np.empty_like(d)
        e[self._order] = _lu(self._matrix, self.chain.layout.linear, d)
        with np.errstate(all="ignore"):
            f = self.H_ab @ e
            answer = np.asarray(c - f)
        return _finite(answer, answer)

    def _solve_planar(self, b: Array) -> Array:
        columns = np.ascontiguousarray(b.reshape(b.shape[0], -1).T)
        out = self._at_rest(columns.ravel(), np.empty((0, 2)), columns.shape[0])
        qdd = out[:, out.shape[1] - b.shape[0] :]
        return qdd[0].copy() if b.ndim == 1 else np.ascontiguousarray(qdd.T)

    def _solve_spatial(self, b: Array) -> Array:
        B = self._B_a
        with np.errstate(all="ignore"):
            F = _finite(pushed := (B.T @ b.reshape(b.shape[0], -1)).T, pushed)
            out = self._at_rest(np.empty(0), np.ascontiguousarray(F).reshape(-1, 3), len(F))
            answer: Array = B @ out[:, : F.shape[1]].T
        return _finite(answer, answer).reshape(b.shape)

    def _at_rest(self, torque: Array, force: Array, frames: int) -> Array:
        """Motion of a linear chain of bonds from rest, one frame per load; see `dynamics`."""
        n, dim, links, hard, soft = self.chain.layout.sizes
        fixed = self.chain.layout.fixed
        x = arrays.spread(self._x, (frames,), self._x.shape).reshape(-1, dim)
        out = np.empty((frames, n * dim + hard + (soft if dim == 2 else 0)))
        if dim == 2:
            bad = jointed_motion.planar_motion(
                x, np.zeros_like(x), torque, force, links, n, fixed, out
            )
        else:
            bad = jointed_motion.spatial_frames(x, np.zeros_like(x), force, links, n, fixed, out)
        if bad >= 0:
            raise overflow("answer", 0, ())
        return out

    def _push(self, F: Array, w: Array) -> Array:
        """λ that makes B_b M⁻¹ (F + B_bᵀ λ) vanish."""
        push = -self._hard_solve(self._B_b @ (w * F))
        # once more from B: see kernels.motion
        return push - self._hard_solve(self._B_b @ (w * (F + self._B_b.T @ push)))

    def _hard_solve(self, b: Array) -> Array:
        """(H^bb)⁻¹ b in public order."""
        answer = np.empty_like(b)
        answer[self._order] = self._factor.solve(_finite(b, b)[self._order])
        return answer

    def tensions(self, force: ArrayLike) -> Array:
        """Tensions that hold the chain at rest under Cartesian forces; a stretched rod is > 0.

        Parameters
        ----------
        force : (n, dim)

        Returns
        -------
        ndarray (n_hard,)
            (H^bb)⁻¹ B_b M⁻¹ f; torques for hard angles.  Regular on straight chains.
        """
        f = arrays.real(force, (self.chain.n, self.chain.dim), "force")
        if f.ndim != 2:
            raise ValueError(f"force must have shape {self._x.shape}, got {f.shape}")
        arrays.require_finite(f, self._x.shape, "force")
        if self.chain.layout.links.size:
            first = f.size
            return self._at_rest(np.empty(0), f, 1)[0, first : first + self.chain.hard.size].copy()
        with np.errstate(all="ignore"):
            return -self._push(f.ravel(), self._w)

    # --- determinants -----------------------------------------------------------------------

    @property
    def logdet_hard(self) -> float:
        """Return ln det H^bb, twice the Fixman potential over kT."""
        return self._factor.logdet

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
        """Return ln det G^aa of the constrained chain, by det G^aa = det G · det H^bb."""
        return self.logdet_free + self.logdet_hard

    def mass_matrix(self) -> Array:
        """Dense G^aa = JᵀMJ (n_soft, n_soft), for small n and for tests; O(n³)."""
        chain = self.chain
        chain.layout.refuse_extra("the mass matrix")
        unit = np.zeros((chain.soft.size, chain.n * chain.dim))
        unit[np.arange(chain.soft.size), chain.soft] = 1.0
        _, J = chain.cartesian(chain.internal(self._x), unit)
        J = J.reshape(chain.soft.size, chain.n * chain.dim)
        with np.errstate(all="ignore"):
            G: Array = (J / self._w) @ J.T
        return _finite(G, G)


NEARLY_LOST = 1e3 * SMALLEST_PIVOT
UNEVEN = 1e6  # ratio of masses beside a lost pivot from which they may be why it is lost

_T = TypeVar("_T")


def _finite(answer: _T, values: Array) -> _T:
    """Pass an answer on if its values are finite."""
    if not np.isfinite(values).all():
        raise overflow("answer", 0, ())
    return answer


def _hard_matrix(chain: Chain, x: Array) -> Tridiagonal | Sparse:
    """H^bb in factor order, as the structure that it has."""
    layout = chain.layout
    links = layout.links
    if links.size:
        cosines, sines = np.empty((2, max(links.shape[1] - 2, 0)))
        if not freely_jointed.bends(x, chain.n, chain.dim, layout.fixed, links, cosines, sines):
            raise_failure(chain, x, 0)
        return Tridiagonal(links[0], cosines, sines)
    V = np.empty(layout.pattern.symbolic.nnz)
    if not hard.matrix_frame(x.reshape(-1), layout.system, V):
        raise_failure(chain, x, 0)
    return Sparse.stored(V, layout.pattern.symbolic)


def _lu(matrix: Tridiagonal | Sparse, banded: bool, d: Array) -> Array:
    """Solve with the LU factorization of SciPy."""
    if isinstance(matrix, Sparse):
        lower = matrix.to_csc()
    else:
        off = -matrix.weights[1:-1] * matrix.cosines
        k = np.arange(d.shape[0])
        data = np.concatenate([matrix.weights[:-1] + matrix.weights[1:], off])
        places = np.concatenate([k, k[1:]]), np.concatenate([k, k[:-1]])
        lower = sparse.csc_array((data, places))
    if not banded:
        whole = lower + sparse.tril(lower, -1).T
        pivots: Any = {"diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
        return np.asarray(splu(whole.tocsc(), permc_spec="NATURAL", **pivots).solve(d))
    elements = lower.tocoo()
    i, j = elements.coords
    h = int((i - j).max(initial=0))
    both = np.zeros((2 * h + 1, lower.shape[0]))
    both[h + i - j, j] = elements.data
    both[h + j - i, i] = elements.data
    return np.asarray(linalg.solve_banded((h, h), both, d))


def raise_failure(
    chain: Chain, x: Array, frame: int, torque: Array | None = None, **others: Array
) -> NoReturn:
    """Say why frame number ``frame`` of x (..., n, d) has no answer, and raise.

    ``others`` are further (..., n, d) inputs by name; torques are refused on singular rows.
    """
    lead = x.shape[:-2]
    for name, array in others.items():
        arrays.require_finite(array, (chain.n, chain.dim), name)
    chain.layout.refuse_positions(x, frame)
    chain.layout.pattern.rows.refuse_singular(x, frame, SingularConstraintError)
    if torque is not None:
        arrays.require_finite(torque, (chain.soft.size,), "torque", "soft coordinate")
        pushed = np.flatnonzero(torque.reshape(count(lead), -1)[frame])
        chain.layout.soft_rows.take(pushed).refuse_singular(x, frame, SingularCoordinateError)
    # A pivot of H^bb is lost: name the rows in the combination that vanishes.
    nearest = nearest_dependence(chain, x.reshape(-1, chain.n, chain.dim)[frame].copy())
    if nearest is None or not nearest.share < NEARLY_LOST:
        raise overflow("answer", frame, lead)
    shown = [bead for row in nearest.rows[: NAMED + 1] for bead in row.beads if bead >= 0]
    ratio = float(chain.masses[shown].max() / chain.masses[shown].min())
    masses = (
        f", or seems to, as the masses of their beads differ by a factor of {ratio:.0e} (beside "
        "hard angles and torsions, keep a bead between others within about 1e10 of them)"
    )
    choice = ", or choose which rows stay by positions like these, drop_redundant=x"
    raise SingularConstraintError(
        str(nearest),
        f"{masses if ratio > UNEVEN else ''}: make one of these soft or leave it out, or stay away "
        f"from this configuration{choice if chain.redundant else ''}",
        frame=arrays.frame_index(frame, lead),
        coordinates=nearest.rows,
    )


class Dependence(NamedTuple):
    """The smallest pivot of H^bb over its diagonal, its row, and behind it those it depends on.

    The share is 0 where a pivot is lost.
    """

    share: float
    rows: list[Coordinate]

    def __str__(self) -> str:
        """``length(0, 1) depends on length(1, 2)``."""
        first, *others = map(str, self.rows)
        return f"{first} depends on {listed(others, NAMED) or 'the other hard coordinates'}"


def nearest_dependence(chain: Chain, x: Array) -> Dependence | None:
    """Return the nearest dependence; None if no row is hard, or H^bb is not finite."""
    pattern = chain.layout.pattern
    table, symbolic = pattern.rows, pattern.symbolic
    V = np.empty(symbolic.nnz)
    hard.matrix_frame(x.reshape(-1), chain.layout.system, V)
    if not symbolic.size or not np.isfinite(V).all():
        return None
    diagonal = V[symbolic.first[:-1]]
    scale = np.sqrt(diagonal)
    D, work = np.empty((2, symbolic.size))
    factor(V, D, tuple(symbolic), work, 0.0)
    row = int(np.argmax(np.isnan(D)))
    smallest = 0.0
    if not np.isnan(D[row]):  # just so, in this arithmetic; then the row that comes nearest
        pivots = V[symbolic.first[:-1]] / diagonal
        row = int(np.argmin(pivots))
        smallest = float(pivots[row])
    share = np.zeros(symbolic.size)
    null_vector(V, symbolic.first, symbolic.row, row, share)
    share = np.abs(share) * scale
    share[row] = 0.0
    others = np.argsort(-share, kind="stable")[: np.count_nonzero(share > 1e-6 * scale[row])]
    return Dependence(smallest, [table[int(k)] for k in (row, *others)])
