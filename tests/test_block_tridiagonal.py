"""Block-tridiagonal SPD matrices against dense linear algebra."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
from oracles import error
from strategies import seeds

BlockTridiagonal = fx.structured.BlockTridiagonal


def build(sizes, k, rng):
    """Return the type, with rubbish outside the blocks, and its dense twin L Lᵀ + 1."""
    m, start = len(sizes), np.r_[0, np.cumsum(sizes)]
    low = np.zeros((start[-1], start[-1]))
    for i in range(m):
        low[start[i] : start[i + 1], start[max(i - 1, 0)] : start[i + 1]] = 1.0
    low = np.tril(low) * rng.normal(size=low.shape)
    dense = low @ low.T + np.eye(len(low))
    diagonal, lower = np.full((m, k, k), np.nan), np.full((m - 1, k, k), np.nan)
    for i in range(m):
        rows = slice(start[i], start[i + 1])
        diagonal[i, : sizes[i], : sizes[i]] = np.tril(dense[rows, rows])
        if i:
            lower[i - 1, : sizes[i], : sizes[i - 1]] = dense[rows, start[i - 1] : start[i]]
    return BlockTridiagonal(diagonal, lower, sizes), dense


@given(st.lists(st.integers(0, 6), min_size=1, max_size=12), seeds)
def test_agrees_with_dense(sizes, seed):
    rng = np.random.default_rng(seed)
    matrix, dense = build(sizes, 6, rng)
    rows = len(dense)
    np.testing.assert_array_equal(matrix.to_dense(), dense)
    factor = matrix.factor()
    tol = 1e-13 + 1e-15 * (np.linalg.cond(dense) if rows else 1.0)
    for b in (rng.normal(size=rows), rng.normal(size=(rows, 1)), rng.normal(size=(rows, 5))):
        before = b.copy()
        got = factor.solve(b)
        assert got.shape == b.shape
        assert error(got, np.linalg.solve(dense, b)) < tol
        np.testing.assert_array_equal(b, before)
    assert factor.logdet == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-12 * (rows + 1))
    inverse = np.linalg.inv(dense)
    diagonal, lower = factor.inverse_on_pattern()
    expected_diagonal, expected_lower = np.zeros_like(diagonal), np.zeros_like(lower)
    start = np.r_[0, np.cumsum(sizes)]
    for i, size in enumerate(sizes):
        here = slice(start[i], start[i + 1])
        expected_diagonal[i, :size, :size] = inverse[here, here]
        if i:
            before = slice(start[i - 1], start[i])
            expected_lower[i - 1, :size, : sizes[i - 1]] = inverse[here, before]
    scale = np.abs(inverse).max() if rows else None
    assert error(diagonal, expected_diagonal, scale) < tol
    assert error(lower, expected_lower, scale) < tol


def test_sizes_default_to_full_blocks():
    rng = np.random.default_rng(2)
    matrix, dense = build([3, 3, 3], 3, rng)
    again = BlockTridiagonal(matrix.diagonal, matrix.lower)
    np.testing.assert_array_equal(again.to_dense(), dense)
    np.testing.assert_array_equal(again.sizes, [3, 3, 3])


def test_arguments_and_earlier_answers_are_left_alone():
    rng = np.random.default_rng(3)
    matrix, dense = build([2, 3, 1], 3, rng)
    factor = matrix.factor()
    first = factor.solve(np.ones(6))
    matrix.factor()
    np.testing.assert_array_equal(matrix.to_dense(), dense)
    np.testing.assert_array_equal(factor.solve(np.ones(6)), first)


def test_a_lost_pivot_names_its_row():
    D = np.broadcast_to(np.eye(2), (3, 2, 2)).copy()
    B = np.zeros((2, 2, 2))
    B[1, 1, 0] = 1.0  # row 5 repeats row 2
    with pytest.raises(fx.SingularConstraintError, match="row 5 depends"):
        BlockTridiagonal(D, B).factor()
    with pytest.raises(fx.SingularConstraintError, match="row 0 depends"):
        BlockTridiagonal(-D, B).factor()


@pytest.mark.parametrize(
    ("diagonal", "lower", "sizes", "text"),
    [
        (np.ones((2, 2)), np.ones((1, 2, 2)), None, "diagonal must have shape"),
        (np.ones((0, 2, 2)), np.ones((0, 2, 2)), None, "diagonal must have shape"),
        (np.ones((2, 2, 2)), np.ones((2, 2, 2)), None, "lower must have shape"),
        (np.ones((2, 2, 2)), np.ones((1, 2, 2)), [2, 3], "sizes must be"),
        (np.ones((2, 2, 2)), np.ones((1, 2, 2)), [2], "sizes must be"),
        (np.ones((2, 2, 2)), np.ones((1, 2, 2)), [1.5, 2.0], "sizes must be"),
        (np.full((2, 2, 2), np.nan), np.ones((1, 2, 2)), None, "diagonal is nan at block 0"),
        (np.ones((2, 2, 2)), np.full((1, 2, 2), np.inf), None, "lower is inf at block 0"),
    ],
)
def test_bad_arguments_are_refused(diagonal, lower, sizes, text):
    with pytest.raises(ValueError, match=text):
        BlockTridiagonal(diagonal, lower, sizes)


def test_right_hand_side_of_wrong_size_is_refused():
    factor = BlockTridiagonal(np.ones((1, 1, 1)), np.ones((0, 1, 1))).factor()
    with pytest.raises(ValueError, match=r"\(1,\)"):
        factor.solve(np.ones(2))


def test_answers_that_overflow_are_errors():
    tiny = BlockTridiagonal(np.full((2, 1, 1), 1e-300), np.zeros((1, 1, 1))).factor()
    for b in (np.full(2, 1e200), np.full((2, 3), 1e200)):
        with pytest.raises(ValueError, match="overflowed"):
            tiny.solve(b)
    with pytest.raises(ValueError, match="overflowed"):
        BlockTridiagonal(
            np.full((1, 1, 1), 1e-310), np.zeros((0, 1, 1))
        ).factor().inverse_on_pattern()
