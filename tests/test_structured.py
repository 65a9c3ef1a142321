"""Tridiagonal and banded SPD types against dense linear algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
from oracles import error
from strategies import seeds

structured = fx.structured


def tridiagonal(k, rng, angles=None):
    """Return the type and its dense twin, written out from the definition."""
    weights = 10.0 ** rng.uniform(-1, 1, k + 1)
    theta = rng.uniform(-np.pi, np.pi, max(k - 1, 0)) if angles is None else angles
    dense = np.diag(weights[:-1] + weights[1:])
    for i in range(k - 1):
        dense[i, i + 1] = dense[i + 1, i] = -weights[i + 1] * np.cos(theta[i])
    return structured.Tridiagonal(weights, np.cos(theta), np.sin(theta)), dense


def banded(k, half, rng):
    """Return the type and its dense twin: a well-conditioned band B Bᵀ + 1."""
    low = np.tril(np.triu(rng.normal(size=(k, k)), -half))
    dense = low @ low.T + np.eye(k)
    bands = np.zeros((half + 1, k))
    for j in range(half + 1):
        bands[j, : max(k - j, 0)] = np.diagonal(dense, -j)
    return structured.Banded(bands), dense


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


@given(st.integers(1, 40), st.integers(0, 11), seeds)
def test_banded_agrees_with_dense(k, half, seed):
    half = min(half, k - 1)
    rng = np.random.default_rng(seed)
    check(*banded(k, half, rng), half, rng)


@given(st.integers(1, 4), st.integers(0, 11), seeds)
def test_bands_wider_than_the_matrix(k, half, seed):
    rng = np.random.default_rng(seed)
    check(*banded(k, half, rng), half, rng)


def test_what_is_outside_the_matrix_is_ignored():
    rng = np.random.default_rng(0)
    _, dense = banded(6, 3, rng)
    bands = np.full((4, 6), 1e6)
    for j in range(4):
        bands[j, : 6 - j] = np.diagonal(dense, -j)
    check(structured.Banded(bands), dense, 3, rng)


@pytest.mark.parametrize("half", [0, 1, 5])
def test_size_zero_and_one_banded(half):
    empty = structured.Banded(np.zeros((half + 1, 0)))
    assert empty.to_dense().shape == (0, 0)
    assert empty.factor().logdet == 0.0
    assert empty.factor().solve(np.zeros(0)).shape == (0,)
    assert empty.factor().solve(np.zeros((0, 3))).shape == (0, 3)
    assert empty.factor().inverse_on_pattern().shape == (half + 1, 0)
    bands = np.zeros((half + 1, 1))
    bands[0] = 4.0
    one = structured.Banded(bands).factor()
    np.testing.assert_allclose(one.solve(np.array([2.0])), [0.5])
    assert one.logdet == pytest.approx(np.log(4))
    assert one.inverse_on_pattern()[0, 0] == pytest.approx(0.25)


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
    for matrix, _ in (tridiagonal(5, rng), banded(5, 2, rng)):
        assert matrix.factor().solve(np.zeros((5, 0))).shape == (5, 0)


def test_right_hand_sides_are_not_modified():
    rng = np.random.default_rng(0)
    for matrix, _ in (tridiagonal(5, rng), banded(5, 2, rng)):
        b = rng.normal(size=(5, 2))
        before = b.copy()
        matrix.factor().solve(b)
        np.testing.assert_array_equal(b, before)


@pytest.mark.parametrize("row", [0, 2, 4])
def test_the_row_that_is_not_positive_is_named(row):
    bands = np.zeros((2, 5))
    bands[0] = 2.0
    bands[0, row] = -1.0
    with pytest.raises(fx.SingularConstraintError, match=rf"\b{row}\b"):
        structured.Banded(bands).factor()


def test_a_singular_matrix_is_refused():
    singular = np.zeros((2, 3))
    singular[0], singular[1, 0] = [1.0, 1.0, 1.0], 1.0  # rows 0 and 1 are equal
    with pytest.raises(fx.SingularConstraintError, match=r"\b1\b"):
        structured.Banded(singular).factor()
    with pytest.raises(fx.SingularConstraintError):
        structured.Tridiagonal(np.zeros(3), np.ones(1), np.zeros(1)).factor()
    # both ends heavy beyond measure, straight: the last pivot is zero, from whichever end
    with pytest.raises(fx.SingularConstraintError, match=r"row \d"):
        structured.Tridiagonal(np.array([0.0, 1.0, 0.0]), np.ones(1), np.zeros(1)).factor()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_entries_are_a_value_error(bad):
    bands = np.ones((1, 4))
    bands[0, 2] = bad
    with pytest.raises(ValueError):  # noqa: PT011
        structured.Banded(bands).factor()
    with pytest.raises(ValueError):  # noqa: PT011
        structured.Tridiagonal(bands[0], np.zeros(2), np.ones(2)).factor()
    good = structured.Tridiagonal(np.ones(4), np.zeros(2), np.ones(2)).factor()
    with pytest.raises(ValueError):  # noqa: PT011
        good.solve(np.array([1.0, bad, 1.0]))


def test_wrong_shapes_are_a_value_error():
    with pytest.raises(ValueError):  # noqa: PT011
        structured.Tridiagonal(np.ones(4), np.ones(3), np.ones(2)).factor()
    with pytest.raises(ValueError):  # noqa: PT011
        structured.Banded(np.ones(4)).factor()
    good = structured.Banded(np.ones((1, 4))).factor()
    for shape in ((3,), (5,), (3, 2), (4, 2, 2), ()):
        with pytest.raises(ValueError):  # noqa: PT011
            good.solve(np.ones(shape))
