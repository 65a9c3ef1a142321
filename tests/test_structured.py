"""Tridiagonal and sparse SPD types against dense linear algebra."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
from fixman.kernels import jit
from fixman.kernels.compiler.lanes import eight, store
from fixman.kernels.factors import sparse
from fixman.mechanics.refusals import null_vector
from oracles import error
from strategies import TREES, random_parents, seeds

structured = fx.structured


def tridiagonal(k, rng, angles=None):
    """Return the type and its dense twin, written out from the definition."""
    weights = 10.0 ** rng.uniform(-1, 1, k + 1)
    theta = rng.uniform(-np.pi, np.pi, max(k - 1, 0)) if angles is None else angles
    dense = np.diag(weights[:-1] + weights[1:])
    for i in range(k - 1):
        dense[i, i + 1] = dense[i + 1, i] = -weights[i + 1] * np.cos(theta[i])
    return structured.Tridiagonal(weights, np.cos(theta), np.sin(theta)), dense


def check(matrix, dense, half, rng):
    k = len(dense)
    np.testing.assert_allclose(matrix.to_dense(), dense, rtol=1e-15, atol=1e-15)
    factor = matrix.factor()
    tol = 1e-13 + 1e-15 * np.linalg.cond(dense)  # the dense answer is no better
    for b in (rng.normal(size=k), rng.normal(size=(k, 1)), rng.normal(size=(k, 7))):
        got = factor.solve(b)
        assert got.shape == b.shape
        assert error(got, np.linalg.solve(dense, b)) < tol
    assert isinstance(factor.logdet, float)
    assert factor.logdet == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-12 * k)
    inverse, pattern = np.linalg.inv(dense), factor.inverse_on_pattern()
    assert pattern.shape == (half + 1, k)
    for j in range(min(half + 1, k)):
        got, expected = pattern[j, : k - j], np.diagonal(inverse, -j)
        assert error(got, expected, np.abs(inverse).max()) < tol


@given(st.integers(1, 40), seeds)
def test_tridiagonal_agrees_with_dense(k, seed):
    rng = np.random.default_rng(seed)
    check(*tridiagonal(k, rng), 1, rng)


@pytest.mark.parametrize("angle", [0.0, 1e-8, 1e-3, np.pi / 2, np.pi])
@pytest.mark.parametrize("k", [2, 3, 50])
def test_tridiagonal_at_special_angles(k, angle):
    rng = np.random.default_rng(1)
    check(*tridiagonal(k, rng, np.full(k - 1, angle)), 1, rng)


def test_the_straight_unit_chain():
    factor = structured.Tridiagonal(np.ones(101), np.ones(99), np.zeros(99)).factor()
    assert factor.logdet == pytest.approx(np.log(101), abs=1e-13)
    # H⁻¹_ij = min(i, j)(N + 1 − max(i, j))/(N + 1)
    i = np.arange(1, 101)
    np.testing.assert_allclose(factor.inverse_on_pattern()[0], i * (101 - i) / 101, rtol=1e-13)


def test_fixed_base_weights_may_be_zero():
    factor = structured.Tridiagonal(np.r_[0.0, np.ones(9)], np.ones(8), np.zeros(8)).factor()
    assert factor.logdet == pytest.approx(0.0, abs=1e-15)


def test_size_zero_and_one_tridiagonal():
    nothing = np.zeros(0)
    empty = structured.Tridiagonal(np.ones(1), nothing, nothing)
    assert empty.to_dense().shape == (0, 0)
    assert empty.factor().logdet == 0.0
    assert empty.factor().solve(nothing).shape == (0,)
    assert empty.factor().inverse_on_pattern().shape == (2, 0)
    one = structured.Tridiagonal(np.array([1.0, 3.0]), nothing, nothing).factor()
    np.testing.assert_allclose(one.solve(np.array([2.0])), [0.5])
    assert one.logdet == pytest.approx(np.log(4))
    assert one.inverse_on_pattern()[0, 0] == pytest.approx(0.25)


def test_no_columns():
    rng = np.random.default_rng(0)
    for matrix in (tridiagonal(5, rng)[0], structured.Sparse(sp.eye_array(5))):
        assert matrix.factor().solve(np.zeros((5, 0))).shape == (5, 0)


def test_right_hand_sides_are_not_modified():
    rng = np.random.default_rng(0)
    for matrix in (tridiagonal(5, rng)[0], structured.Sparse(sp.eye_array(5))):
        b = rng.normal(size=(5, 2))
        before = b.copy()
        matrix.factor().solve(b)
        np.testing.assert_array_equal(b, before)


@pytest.mark.parametrize("row", [0, 2, 4])
def test_the_row_that_is_not_positive_is_named(row):
    diagonal = np.full(5, 2.0)
    diagonal[row] = -1.0
    with pytest.raises(fx.SingularConstraintError, match=rf"\b{row}\b"):
        structured.Sparse(sp.diags_array(diagonal)).factor()


def test_a_singular_matrix_is_refused():
    singular = sp.coo_array(np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]))
    with pytest.raises(fx.SingularConstraintError, match=r"\b1\b"):
        structured.Sparse(singular).factor()
    with pytest.raises(fx.SingularConstraintError):
        structured.Tridiagonal(np.zeros(3), np.ones(1), np.zeros(1)).factor()
    # both ends heavy beyond measure, straight: the last pivot is zero, from whichever end
    with pytest.raises(fx.SingularConstraintError, match=r"row \d"):
        structured.Tridiagonal(np.array([0.0, 1.0, 0.0]), np.ones(1), np.zeros(1)).factor()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_entries_are_a_value_error(bad):
    weights = np.ones(4)
    weights[2] = bad
    with pytest.raises(ValueError):  # noqa: PT011
        structured.Tridiagonal(weights, np.zeros(2), np.ones(2)).factor()
    good = structured.Tridiagonal(np.ones(4), np.zeros(2), np.ones(2)).factor()
    with pytest.raises(ValueError):  # noqa: PT011
        good.solve(np.array([1.0, bad, 1.0]))


def test_wrong_shapes_are_a_value_error():
    with pytest.raises(ValueError):  # noqa: PT011
        structured.Tridiagonal(np.ones(4), np.ones(3), np.ones(2)).factor()
    good = structured.Sparse(sp.eye_array(4)).factor()
    for shape in ((3,), (5,), (3, 2), (4, 2, 2), ()):
        with pytest.raises(ValueError):  # noqa: PT011
            good.solve(np.ones(shape))


# --- sparse ----------------------------------------------------------------------------------


def sparse_dense(k, density, rng):
    """Return a dense diagonally dominant matrix with a random pattern."""
    dense = np.tril(rng.normal(size=(k, k)) * (rng.random((k, k)) < density), -1)
    dense += dense.T
    return dense + np.diag(np.abs(dense).sum(axis=1) + rng.uniform(0.5, 2.0, k))


def line_graph(parents, rng):
    """Return a matrix with the pattern of H^bb of a tree's bonds, leaf to root."""
    bonds = [{k, int(p)} for k, p in enumerate(parents) if p >= 0][::-1]
    k = len(bonds)
    touch = np.array([[bool(a & b) for b in bonds] for a in bonds]).reshape(k, k)
    dense = np.where(touch, rng.uniform(-1, 1, (k, k)), 0.0)
    dense = np.tril(dense, -1) + np.tril(dense, -1).T
    return dense + np.diag(np.abs(dense).sum(axis=1) + 1.0)


def check_sparse(dense, rng):
    k = len(dense)
    matrix = structured.Sparse(sp.csr_array(np.tril(dense)))
    np.testing.assert_array_equal(matrix.to_dense(), dense)
    factor = matrix.factor()
    for b in (rng.normal(size=k), rng.normal(size=(k, 1)), rng.normal(size=(k, 7))):
        got = factor.solve(b)
        assert got.shape == b.shape
        assert error(got, np.linalg.solve(dense, b)) < 1e-13
    assert factor.logdet == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-13 * k)
    inverse, pattern = np.linalg.inv(dense), factor.inverse_on_pattern()
    assert pattern.shape == (k, k)
    assert pattern.nnz == matrix.symbolic.nnz
    i, j = pattern.tocoo().coords
    assert (i >= j).all()
    assert error(pattern.tocoo().data, inverse[i, j], 1e-300) < 1e-12
    np.testing.assert_array_equal(matrix.to_dense(), dense)
    return matrix


def filled(dense):
    """Return the pattern of L by elimination, column after column."""
    L = np.tril(dense) != 0
    for j in range(len(L)):
        below = np.flatnonzero(L[:, j])[1:]
        L[np.ix_(below, below)] |= np.tri(len(below), dtype=bool)
    return L


@given(st.integers(1, 40), st.sampled_from([0.0, 0.03, 0.1, 0.3, 1.0]), seeds)
def test_sparse_agrees_with_dense(k, density, seed):
    rng = np.random.default_rng(seed)
    dense = sparse_dense(k, density, rng)
    matrix = check_sparse(dense, rng)
    np.testing.assert_array_equal(matrix.to_csc().toarray() != 0, np.tril(dense) != 0)
    stored = np.zeros((k, k), dtype=bool)
    stored[matrix.to_csc().tocoo().coords] = True
    np.testing.assert_array_equal(stored, filled(dense))


@pytest.mark.parametrize("kind", TREES)
def test_bonds_of_a_tree_create_no_fill(kind):
    rng = np.random.default_rng(2)
    dense = line_graph(random_parents(kind, 60, rng), rng)
    assert check_sparse(dense, rng).symbolic.nnz == np.count_nonzero(np.tril(dense))


@pytest.mark.parametrize("n", [3, 4, 5, 30])
def test_a_ring_fills_one_row(n):
    rng = np.random.default_rng(0)
    dense = line_graph(np.arange(-1, n - 1), rng)
    ring = np.pad(dense, (0, 1))
    ring[-1, [0, -2]] = ring[[0, -2], -1] = 0.1  # the closing bond meets the first and the last
    ring[-1, -1] = 2.0
    matrix = check_sparse(ring, rng)
    assert matrix.symbolic.nnz - np.count_nonzero(np.tril(ring)) == n - 3


def test_a_hub_is_a_clique():
    rng = np.random.default_rng(0)
    hub = np.concatenate([[-1], np.zeros(30, dtype=int)])
    assert check_sparse(line_graph(hub, rng), rng).symbolic.nnz == 30 * 31 // 2


@jit
def eightfold(V, D, S, symbolic, work, out):
    like = eight(1.0)
    sparse.factor(V, D, symbolic, work, like)
    store(out, 0, sparse.log_product(V, symbolic.first, like))
    sparse.inverse_on_pattern(V, D, S, symbolic, work, like)


def in_lanes(matrices):
    """Factor eight matrices of one pattern in the lanes of a register."""
    symbolic = structured.Sparse(sp.csr_array(sum(np.abs(a) for a in matrices))).symbolic
    stored = [structured.Sparse(sp.csr_array(a), symbolic)._V for a in matrices]
    V = np.stack(stored, axis=1).ravel()
    S, work, out = np.empty_like(V), np.empty(16 * symbolic.size), np.empty(8)
    D = np.empty(8 * symbolic.size)
    eightfold(V, D, S, symbolic, work, out)
    return D.reshape(-1, 8), symbolic, stored, V.reshape(-1, 8), S.reshape(-1, 8), out


@given(st.integers(1, 30), st.sampled_from([0.03, 0.1, 0.5]), st.floats(-200, 200), seeds)
def test_eight_lanes_are_eight_scalars(k, density, exponent, seed):
    rng = np.random.default_rng(seed)
    dense = sparse_dense(k, density, rng)
    matrices = [dense * rng.uniform(1, 2) for _ in range(7)] + [dense * 10.0**exponent]
    D, symbolic, stored, V, S, out = in_lanes(matrices)
    for lane, one in enumerate(stored):
        pivots, inverse = np.empty(k), np.empty_like(one)
        sparse.factor(one, pivots, symbolic, np.empty(k), 1.0)
        sparse.inverse_on_pattern(one, pivots, inverse, symbolic, np.empty(2 * k), 1.0)
        np.testing.assert_array_equal(D[:, lane], pivots)
        np.testing.assert_array_equal(V[:, lane], one)
        np.testing.assert_array_equal(S[:, lane], inverse)
        total = sparse.log_product(one, symbolic.first, 1.0)
        assert out[lane] == pytest.approx(total, rel=1e-15, abs=1e-14 * k)
        expected = np.linalg.slogdet(matrices[lane] / matrices[lane].max())[1]
        expected += k * np.log(matrices[lane].max())
        assert total == pytest.approx(expected, rel=1e-14, abs=1e-13 * k)


@pytest.mark.parametrize("lane", [0, 7])
@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_a_pivot_lost_in_one_lane_is_lost(bad, lane):
    dense = sparse_dense(9, 0.3, np.random.default_rng(0))
    matrices = [dense.copy() for _ in range(8)]
    matrices[lane][4, 4] = bad if np.isfinite(bad) else 1.0
    symbolic = structured.Sparse(sp.csr_array(dense)).symbolic
    V = np.stack([structured.Sparse(sp.csr_array(a), symbolic)._V for a in matrices], axis=1)
    V[symbolic.first[4], lane] = bad
    D, work, out = np.empty(8 * 9), np.empty(16 * 9), np.empty(8)
    eightfold(V.ravel(), D, V.ravel().copy(), symbolic, work, out)
    lost = np.isnan(D.reshape(9, 8))
    assert lost[4, lane]
    assert not lost[:4].any()
    assert np.array_equal(lost.any(axis=0), np.arange(8) == lane)
    assert np.array_equal(np.isnan(out), np.arange(8) == lane)


def test_one_analysis_serves_matrices_of_one_pattern_or_less():
    rng = np.random.default_rng(0)
    dense = sparse_dense(12, 0.3, rng)
    symbolic = structured.Sparse(sp.csr_array(dense)).symbolic
    less = np.diag(np.diag(dense))
    for other in (2 * dense, less):
        factor = structured.Sparse(sp.csc_array(other), symbolic=symbolic).factor()
        assert factor.logdet == pytest.approx(np.linalg.slogdet(other)[1], abs=1e-12)
    with pytest.raises(ValueError, match=r"outside the pattern"):
        structured.Sparse(sp.csr_array(np.ones((12, 12))), symbolic)
    with pytest.raises(ValueError, match=r"12 rows"):
        structured.Sparse(sp.csr_array(np.eye(5)), symbolic)


def test_reprs_are_short():
    band = structured.Tridiagonal(np.ones(901), np.full(899, 0.6), np.full(899, 0.8))
    blocks = structured.BlockTridiagonal([np.eye(3)] * 300, np.zeros((299, 3, 3)))
    for matrix in (band, blocks, structured.Sparse(sp.eye_array(900))):
        for text in (repr(matrix), repr(matrix.factor())):
            assert "900 rows" in text
            assert len(text) < 100
    assert {"Sparse", "Factor"} <= {*dir(structured)} <= {*structured.__all__}


def test_sparse_edges():
    empty = structured.Sparse(sp.csr_array((0, 0)))
    assert empty.to_dense().shape == (0, 0)
    assert empty.factor().logdet == 0.0
    assert empty.factor().solve(np.zeros(0)).shape == (0,)
    assert empty.factor().inverse_on_pattern().shape == (0, 0)
    one = structured.Sparse(sp.coo_array(([3.0, 1.0], ([0, 0], [0, 0])), shape=(1, 1))).factor()
    np.testing.assert_allclose(one.solve(np.array([2.0])), [0.5])  # duplicates are added
    for matrix in (np.eye(3), sp.csr_array(np.ones((2, 3))), sp.coo_array(np.ones(3)), None):
        with pytest.raises(ValueError, match="matrix must be"):
            structured.Sparse(matrix)
    with pytest.raises(ValueError, match=r"\(2, 1\)"):
        structured.Sparse(sp.csr_array([[1.0, 0, 0], [0, 1, 0], [0, np.nan, 1]]))
    for dense, row in (([[1.0, 1.0], [1.0, 1.0]], 1), ([[0.0, 0.0], [0.0, 1.0]], 0)):
        with pytest.raises(fx.SingularConstraintError, match=rf"\b{row}\b"):
            structured.Sparse(sp.csr_array(dense)).factor()
    with pytest.raises(ValueError, match="overflowed"):
        structured.Sparse(sp.csr_array([[1e-300]])).factor().solve(np.array([1e300]))


def test_the_multiples_of_a_dependent_row():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(5, 8))
    rows[3] = 2 * rows[0] - 3 * rows[2]
    symbolic = structured.Sparse(sp.csr_array(np.ones((5, 5)))).symbolic
    V = structured.Sparse(sp.csr_array(rows @ rows.T), symbolic)._V
    D = np.empty(5)
    sparse.factor(V, D, symbolic, np.empty(5), 0.0)
    assert np.argmax(np.isnan(D)) == 3
    y = null_vector(V, symbolic, 3)
    np.testing.assert_allclose(y, [-2, 0, 3, 1, 0], atol=1e-12)
