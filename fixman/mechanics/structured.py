"""Symmetric positive definite matrices with structure, and their factorizations.

Each type has ``factor() → solve, logdet, inverse_on_pattern`` and, for tests, ``to_dense()``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array, csc_array, issparse

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import SingularConstraintError
from fixman.kernels.factors import sparse, tridiagonal

__all__ = ["BlockTridiagonal", "Factor", "Sparse", "Tridiagonal"]
__dir__ = __all__.copy  # completion shows public names alone

Index = NDArray[np.int64]


class Tridiagonal:
    """H^bb of a chain of bonds: diagonal w_{k−1} + w_k, off-diagonal −w_k c_{k+1}.

    Weights, cosines and sines give the pivots without subtraction, with all digits on straight
    chains (theory.md section 3).

    Parameters
    ----------
    weights : (m + 1,)
        Inverse masses of the joints, not negative; zero for a fixed base.
    cosines, sines : (m − 1,)
        Cosines and sines of the angles between bonds; the sign of a sine does not matter.
    """

    def __init__(self, weights: ArrayLike, cosines: ArrayLike, sines: ArrayLike) -> None:
        self.weights = w = _rows(weights, "weights")
        if w.size < 1:
            raise ValueError("weights must have one entry more than there are bonds, got none")
        self.cosines = c = _rows(cosines, "cosines", max(w.size - 2, 0))
        self.sines = s = _rows(sines, "sines", c.size)
        for k in np.flatnonzero(w < 0)[:1]:
            raise ValueError(f"weight {k} is {w[k]}: inverse masses are not negative")
        for k in np.flatnonzero(np.abs(c * c + s * s - 1.0) > 1e-6)[:1]:
            raise ValueError(f"joint {k} has cosine {c[k]} and sine {s[k]}, not of one angle")

    def __repr__(self) -> str:
        return f"<Tridiagonal: {self.weights.size - 1} rows>"

    def to_dense(self) -> Array:
        """Return the dense matrix."""
        off = -self.weights[1:-1] * self.cosines
        return np.diag(self.weights[:-1] + self.weights[1:]) + np.diag(off, 1) + np.diag(off, -1)

    def factor(self) -> TridiagonalFactor:
        """LDLᵀ in O(m); `fixman.SingularConstraintError` if a pivot is not positive."""
        inverse, g = np.empty(self.weights.size - 1), np.empty(self.cosines.size)
        lost = tridiagonal.factor(self.weights, self.cosines, self.sines, inverse, g)
        if lost >= 0:
            raise SingularConstraintError(f"the pivot of row {lost} is not positive")
        return TridiagonalFactor(inverse, g)


@lru_cache(maxsize=8)
def _neighbours(m: int) -> sparse.Symbolic:
    k = np.arange(max(m - 1, 0))
    return sparse.analyse(m, k + 1, k)


class Sparse:
    """A sparse symmetric positive definite matrix, eliminated in the order of its rows.

    A tree from its leaves to its root creates no fill.

    Parameters
    ----------
    matrix : scipy.sparse array (m, m)
        Only the lower triangle is read.
    symbolic : Symbolic, optional
        ``other.symbolic`` of a matrix that has elements wherever this one has; it saves the search
        for the pattern of the factor.
    """

    def __init__(self, matrix: Any, symbolic: sparse.Symbolic | None = None) -> None:
        shape: Any = getattr(matrix, "shape", ())
        square = issparse(matrix) and shape == shape[:1] * 2
        if not square:
            got = f"{type(matrix).__name__} of shape {shape}"
            raise ValueError(f"matrix must be a scipy.sparse array (m, m), got a {got}")
        m = shape[0]
        elements: Any = coo_array(matrix)
        i, j = elements.coords
        low = i >= j
        i, j, a = i[low], j[low], arrays.real(elements.data[low], (), "matrix")
        for k in np.flatnonzero(~np.isfinite(a))[:1]:
            raise ValueError(f"element ({i[k]}, {j[k]}) of the matrix is {a[k]}")
        self.symbolic = sparse.analyse(m, i, j) if symbolic is None else symbolic
        if self.symbolic.size != m:
            raise ValueError(f"symbolic is of {self.symbolic.size} rows, the matrix has {m}")
        place = sparse.places(self.symbolic, i, j)
        for k in np.flatnonzero(place < 0)[:1]:
            raise ValueError(f"element ({i[k]}, {j[k]}) is outside the pattern of symbolic")
        self._V: Array = np.zeros(self.symbolic.nnz)
        np.add.at(self._V, place, a)

    def __repr__(self) -> str:
        return f"<Sparse: {self.symbolic.size} rows, {self.symbolic.nnz} elements of its factor>"

    def to_csc(self) -> csc_array[Any]:
        """Return the lower triangle, with the zeros that the factor fills."""
        return _lower(self._V, self.symbolic)

    def to_dense(self) -> Array:
        """Return the dense matrix."""
        lower: Array = self.to_csc().toarray()
        return lower + np.tril(lower, -1).T

    def factor(self) -> Factor:
        """LDLᵀ in O(Σ |column of L|²); `fixman.SingularConstraintError` if a pivot is lost."""
        return Factor.of(self._V.copy(), self.symbolic)


class BlockTridiagonal(Sparse):
    """A symmetric positive definite matrix of blocks on and beside the diagonal.

    Parameters
    ----------
    diagonal : (m, k, k)
        Diagonal blocks; only their lower triangles are read.
    lower : (m − 1, k, k)
        Blocks below the diagonal: ``lower[i]`` stands in the rows of block i + 1 and the columns
        of block i.
    sizes : (m,), optional
        Rows of each block where they differ, 0…k; elements beyond them are ignored.
    """

    def __init__(
        self, diagonal: ArrayLike, lower: ArrayLike, sizes: ArrayLike | None = None
    ) -> None:
        D, B = arrays.real(diagonal, (), "diagonal"), arrays.real(lower, (), "lower")
        if D.ndim != 3 or D.shape[0] < 1 or D.shape[1] != D.shape[2]:
            raise ValueError(f"diagonal must have shape (m, k, k), got {D.shape}")
        m, k, _ = D.shape
        if B.shape != (m - 1, k, k):
            raise ValueError(f"lower must have shape ({m - 1}, {k}, {k}), got {B.shape}")
        rows = np.full(m, k) if sizes is None else np.array(sizes)
        if rows.shape != (m,) or rows.dtype.kind not in "iu" or ((rows < 0) | (rows > k)).any():
            raise ValueError(f"sizes must be {m} integers from 0 to {k}, got {sizes!r}")
        self.sizes = rows.astype(np.int64)
        self._places = _blocks(k, tuple(self.sizes.tolist()))
        own, below, self.symbolic, place = self._places
        self.diagonal, self.lower = np.zeros_like(D), np.zeros_like(B)
        self.diagonal[own], self.lower[below] = D[own], B[below]
        self.diagonal += np.tril(self.diagonal, -1).swapaxes(1, 2)
        arrays.require_finite(self.diagonal, D.shape, "diagonal", "block")
        arrays.require_finite(self.lower, B.shape, "lower", "block")
        self._V = np.zeros(self.symbolic.nnz)
        self._V[place] = np.concatenate([D[own], B[below]])

    def __repr__(self) -> str:
        return f"<BlockTridiagonal: {self.sizes.size} blocks, {self.sizes.sum()} rows>"

    def factor(self) -> BlockTridiagonalFactor:
        """LDLᵀ in O(m k³); errors are those of `Sparse.factor`."""
        factor = BlockTridiagonalFactor.of(self._V.copy(), self.symbolic)
        factor._matrix = self
        return factor


@lru_cache(maxsize=8)
def _blocks(k: int, sizes: tuple[int, ...]) -> tuple[Any, Any, sparse.Symbolic, Index]:
    """Where the lower triangle is in both arrays of blocks, its pattern, and its place in that."""
    rows = np.array(sizes)
    start, held = np.cumsum(rows) - rows, np.arange(k) < rows[:, None]
    own = np.nonzero(held[:, :, None] & held[:, None, :] & np.tri(k, dtype=bool))
    below = np.nonzero(held[1:, :, None] & held[:-1, None, :])
    i = np.concatenate([start[own[0]] + own[1], start[below[0] + 1] + below[1]])
    j = np.concatenate([start[own[0]] + own[2], start[below[0]] + below[2]])
    symbolic = sparse.analyse(int(rows.sum()), i, j)
    return own, below, symbolic, sparse.places(symbolic, i, j)


class Factor:
    """The LDLᵀ of a `Sparse`."""

    def __init__(self, V: Array, D: Array, symbolic: sparse.Symbolic) -> None:
        self._V, self._D, self._symbolic = V, D, symbolic

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._symbolic.size} rows, {self._symbolic.nnz} elements>"

    @classmethod
    def of(cls, V: Array, symbolic: sparse.Symbolic) -> Self:
        """Factor elements that stand where `kernels.factors.sparse` wants them, in place."""
        D, work = np.empty((2, symbolic.size))
        sparse.factor(V, D, symbolic, work, 0.0)
        lost = np.isnan(D)
        if lost.any():
            raise SingularConstraintError(f"row {np.argmax(lost)} depends on the rows before it")
        return cls(V, D, symbolic)

    @property
    def logdet(self) -> float:
        """Return ln det A."""
        return float(sparse.log_product(self._V, self._symbolic.first, 0.0))

    def solve(self, b: ArrayLike) -> Array:
        """Return A⁻¹ b for b (m,) or (m, r), in O(nnz(L) r)."""
        y = _rows(b, "b", self._symbolic.size, (1, 2))
        rows = np.ascontiguousarray(y.T if y.ndim == 2 else y[None])
        sparse.solve_each(self._V, self._D, self._symbolic, rows)
        return finite(rows.T.reshape(y.shape))

    def _inverse(self) -> Array:
        S, work = np.empty_like(self._V), np.empty(2 * self._symbolic.size)
        sparse.inverse_on_pattern(self._V, self._D, S, self._symbolic, work, 0.0)
        return finite(S)

    def inverse_on_pattern(self) -> Any:
        """Return the lower triangle of A⁻¹ on the pattern of L, in O(Σ |column of L|²)."""
        return _lower(self._inverse(), self._symbolic)


class TridiagonalFactor(Factor):
    """The LDLᵀ of a `Tridiagonal`, of 1/d_k (m,) and g_k = −L_{k+1,k} (m − 1,)."""

    def __init__(self, inverse: Array, g: Array) -> None:
        V = np.empty(inverse.size + g.size)
        V[::2], V[1::2] = 1.0 / inverse, -g
        super().__init__(V, inverse, _neighbours(inverse.size))

    def inverse_on_pattern(self) -> Array:
        """Return diagonal and off-diagonal of A⁻¹ as (2, m), in O(m)."""
        S = np.zeros(2 * self._symbolic.size)
        S[: self._V.size] = self._inverse()
        return S.reshape(-1, 2).T


class BlockTridiagonalFactor(Factor):
    """The LDLᵀ of a `BlockTridiagonal`."""

    _matrix: BlockTridiagonal

    def inverse_on_pattern(self) -> tuple[Array, Array]:
        """Return the blocks of A⁻¹ where A has blocks, as ``(diagonal, lower)``, in O(m k³)."""
        matrix = self._matrix
        own, below, _, place = matrix._places
        S, T = np.zeros_like(matrix.diagonal), np.zeros_like(matrix.lower)
        S[own], T[below] = np.split(self._inverse()[place], [own[0].size])
        S += np.tril(S, -1).swapaxes(1, 2)
        return S, T


def finite(answer: Array) -> Array:
    if not np.isfinite(answer).all():
        raise arrays.overflow("answer", 0, ())
    return answer


def _lower(V: Array, symbolic: sparse.Symbolic) -> csc_array[Any]:
    parts = (V.copy(), symbolic.row.copy(), symbolic.first.copy())
    return csc_array(parts, shape=(symbolic.size, symbolic.size))


def _rows(value: ArrayLike, name: str, m: int | None = None, axes: tuple[int, ...] = (1,)) -> Array:
    """Return a copy of finite numbers (m,), or of as many axes as these."""
    array = arrays.real(value, (), name)
    if array.ndim not in axes or (m is not None and array.shape[0] != m):
        rows = "m" if m is None else m
        more = f" or ({rows}, r)" if 2 in axes else ""
        raise ValueError(f"{name} must have shape ({rows},){more}, got {array.shape}")
    arrays.require_finite(array, array.shape, name, "row")
    return array.copy()
