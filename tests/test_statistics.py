"""Correlated series and uneven weights: closed forms of AR(1), bounds, bad input."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from fixman._common.statistics import (
    Independence,
    autocovariance,
    effective_size,
    independence,
    standard_error,
    statistical_inefficiency,
)
from strategies import seeds


def autoregressive(phi, frames, copies, rng):
    """Return AR(1) started in its stationary state, variance 1; g = (1 + φ)/(1 − φ)."""
    noise = np.sqrt(1 - phi**2) * rng.normal(size=(frames, copies))
    noise[0] /= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)


def exact(phi, frames):
    """Return T var(mean) of AR(1), which tends to (1 + φ)/(1 − φ)."""
    return (1 + phi) / (1 - phi) - 2 * phi * (1 - phi**frames) / (frames * (1 - phi) ** 2)


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, 0.98])
def test_autoregression_has_its_closed_form(phi):
    rng = np.random.default_rng(7)
    found = [statistical_inefficiency(autoregressive(phi, 20_000, 1, rng)) for _ in range(40)]
    error = np.std(found) / np.sqrt(len(found) - 1)
    # The window leaves out e⁻⁵, and the mean that was taken out about 4 g/T.
    bias = np.exp(-5) if phi else 0.001
    assert np.mean(found) == pytest.approx(exact(phi, 20_000), rel=bias + 0.004, abs=4 * error)


def test_copies_are_pooled():
    rng = np.random.default_rng(8)
    series = autoregressive(0.9, 2000, 60, rng)
    assert statistical_inefficiency(series) == pytest.approx(19, rel=0.05)
    assert statistical_inefficiency(series.reshape(2000, 6, 10)) == statistical_inefficiency(series)


def test_copies_that_are_stuck_count_as_one_each():
    rng = np.random.default_rng(9)
    stuck = np.tile(rng.normal(size=20), (50, 1))
    assert statistical_inefficiency(stuck) == pytest.approx(50, rel=1e-12)
    assert standard_error(stuck) == pytest.approx(np.std(stuck[0], ddof=1) / np.sqrt(20))
    trembling = stuck + 0.1 * rng.normal(size=stuck.shape)
    assert statistical_inefficiency(trembling) > 40


def test_the_end_of_a_series_does_not_meet_its_start():
    series = np.random.default_rng(2).normal(size=(64, 2))
    sums = [(series[lag:] * series[: 64 - lag]).sum() for lag in range(64)]
    np.testing.assert_allclose(autocovariance(series), sums, atol=1e-12)


def test_series_of_independent_values():
    found = statistical_inefficiency(np.random.default_rng(1).normal(size=100_000))
    assert found == pytest.approx(1, abs=0.03)


def test_constants_and_single_frames_are_uncorrelated():
    assert statistical_inefficiency(np.full(100, 0.1)) == 1
    assert statistical_inefficiency([3.0]) == 1
    assert statistical_inefficiency([[3.0, 4.0, 5.0]]) == 1
    assert standard_error(np.full((10, 3), 2.0)) == 0


def test_overshooting_counts_as_uncorrelated():
    assert statistical_inefficiency([1.0, -1.0] * 50) == 1


@pytest.mark.parametrize("frames", [10, 100, 1000])
def test_a_drift_is_not_taken_for_independent_values(frames):
    assert statistical_inefficiency(np.arange(frames)) > 0.1 * frames


@given(seeds, st.integers(1, 40), st.integers(1, 4))
def test_bounds_and_units(seed, frames, copies):
    rng = np.random.default_rng(seed)
    series = np.cumsum(rng.normal(size=(frames, copies)), axis=0)
    g = statistical_inefficiency(series)
    assert 1 <= g <= frames
    for scale in (-3.0, 1e-200, 1e300):
        assert statistical_inefficiency(scale * series) == pytest.approx(g, rel=1e-6)
        if series.size > 1:
            error = standard_error(scale * series)
            assert error == pytest.approx(abs(scale) * standard_error(series), rel=1e-6)
    assert statistical_inefficiency(series + 1e3) == pytest.approx(g, rel=1e-6)
    if series.size > 1:
        error = standard_error(series)
        assert 0 <= error < np.inf
        assert standard_error(-2 * series + 5) == pytest.approx(2 * error, rel=1e-6)


def test_the_error_of_a_mean_is_its_spread_over_repetitions():
    rng = np.random.default_rng(10)
    phi, frames, copies = 0.8, 500, 4
    means, errors = [], []
    for _ in range(200):
        series = autoregressive(phi, frames, copies, rng)
        means.append(series.mean())
        errors.append(standard_error(series))
    wanted = np.sqrt(exact(phi, frames) / (frames * copies))
    assert np.mean(errors) == pytest.approx(wanted, rel=0.05)
    assert np.std(means) == pytest.approx(wanted, rel=4 / np.sqrt(2 * 200))


# --- independence -------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 5, 100])
@pytest.mark.parametrize("frames", [2, 5, 20, 100, 1000])
def test_the_count_of_independent_samples_is_calibrated(frames, copies):
    """Median of the estimate over the closed form of AR(1), from short series to long ones."""
    repeats = 40 if frames * copies < 10_000 else 9
    for phi in (0.0, 0.5, 0.9, 0.99):
        rng = np.random.default_rng(3)
        found = [
            independence(autoregressive(phi, frames, copies, rng)).size for _ in range(repeats)
        ]
        truth = frames * copies / exact(phi, frames)
        if frames == 2 and copies == 1:  # two values tell nothing: they count as one
            assert found == [1.0] * repeats
            assert 1.0 <= truth <= 2.0
            continue
        assert 0.5 < np.median(found) / truth < 2.0, phi
        assert min(found) >= 1.0
        assert max(found) <= frames * copies


@pytest.mark.parametrize(
    ("frames", "copies", "phi"), [(3, 49, 0.0), (50, 4, 0.0), (200, 1, 0.0), (100, 10, 0.8)]
)
def test_honest_series_are_seldom_said_to_drift(frames, copies, phi):
    rng = np.random.default_rng(4)
    found = [independence(autoregressive(phi, frames, copies, rng)) for _ in range(300)]
    assert sum(one.drift != 0.0 for one in found) <= 3  # expected: 0.3


@pytest.mark.parametrize(
    ("frames", "copies", "drift", "power"),
    [(3, 49, 1.0, 0.86), (50, 4, 2.0, 0.7), (200, 1, 2.0, 0.9)],
)
def test_a_drift_is_found_and_measured(frames, copies, drift, power):
    rng = np.random.default_rng(5)
    line = drift * np.linspace(0.0, 1.0, frames)[:, None]
    found = [independence(rng.normal(size=(frames, copies)) - line) for _ in range(100)]
    seen = [one for one in found if one.drift]
    assert len(seen) / 100 > power
    assert np.mean([one.drift for one in seen]) == pytest.approx(-drift, rel=0.15)
    assert np.median([one.size for one in found]) < 0.5 * frames * copies


def test_a_line_below_the_noise_is_one_sample():
    frames = 1000
    noise = np.random.default_rng(3).normal(size=frames)
    line = np.linspace(-0.25, 0.25, frames)  # which explains 1/48 of the variance
    assert independence(noise).size > 0.8 * frames
    # Chance explains 1/1000, and four times that is forgiven.
    assert 20 < independence(line + noise).size < 120


def test_frames_that_jump_as_wholes_are_told_from_a_drift():
    rng = np.random.default_rng(6)
    sizes = []
    for _ in range(30):
        jumps = rng.permutation(np.repeat([-1.0, 1.0], 20))[:, None]
        found = independence(rng.normal(size=(40, 50)) + jumps)
        assert found.drift == 0.0
        sizes.append(found.size)
    assert 40 < np.median(sizes) < 160  # σ² = 2, var(mean) = 1/40: 80, of 2000


def test_independence_where_there_is_little_to_count():
    assert independence(np.full((7, 3), 0.1)) == Independence(21.0)
    assert independence([[3.0, 4.0, 5.0]]) == Independence(3.0)
    assert independence([3.0]) == Independence(1.0)
    stuck = np.tile(np.random.default_rng(7).normal(size=20), (50, 1))
    assert independence(stuck).size == pytest.approx(20.0, rel=1e-9)
    assert independence(stuck).drift == 0.0
    steps = np.tile(np.arange(5.0)[:, None], (1, 30))  # every copy makes the same steps
    assert independence(steps).drift == pytest.approx(4.0)
    assert independence(steps).size < 5.0


@given(seeds, st.integers(1, 30), st.integers(1, 4), st.sampled_from([-3.0, 1e-200, 1e200]))
def test_independence_has_bounds_and_no_unit(seed, frames, copies, scale):
    rng = np.random.default_rng(seed)
    series = np.cumsum(rng.normal(size=(frames, copies)), axis=0)
    found, scaled = independence(series), independence(scale * series)
    assert 1.0 <= found.size <= frames * copies
    assert scaled.size == pytest.approx(found.size, rel=1e-6)
    assert scaled.drift == pytest.approx(scale * found.drift, rel=1e-6)
    assert independence(series + 1e3).size == pytest.approx(found.size, rel=1e-6)


@given(st.lists(st.floats(-700, 700), min_size=1, max_size=30), st.floats(-1e6, 1e6))
def test_effective_size(logs, shift):
    logs = np.array(logs)
    size = effective_size(logs)
    assert 1 <= size <= len(logs) * (1 + 1e-12)
    assert effective_size(logs + shift) == pytest.approx(size, rel=1e-8)
    assert effective_size(np.append(logs, -np.inf)) == pytest.approx(size)


def test_effective_size_of_known_weights():
    assert effective_size(np.zeros((4, 5))) == pytest.approx(20)
    assert effective_size(np.log([1.0, 3.0])) == pytest.approx(1.6)
    assert effective_size([0.0, -1e6]) == 1
    assert effective_size(2.0) == 1


@pytest.mark.parametrize(
    ("function", "value", "message"),
    [
        (statistical_inefficiency, 1.0, "shape"),
        (statistical_inefficiency, np.empty((0, 3)), "shape"),
        (statistical_inefficiency, np.empty((3, 0)), "shape"),
        (statistical_inefficiency, [0.0, np.nan], "frame 1"),
        (standard_error, [1.0], "two values"),
        (standard_error, [1.0, np.inf], "frame 1"),
        (effective_size, [], "empty"),
        (effective_size, [0.0, np.nan], "sample 1"),
        (effective_size, [np.inf], r"\+inf"),
        (effective_size, [-np.inf, -np.inf], "every weight is zero"),
    ],
)
def test_bad_input(function, value, message):
    with pytest.raises(ValueError, match=message):
        function(value)


@pytest.mark.parametrize("function", [statistical_inefficiency, standard_error, effective_size])
def test_bad_types(function):
    with pytest.raises(TypeError, match="real numbers"):
        function([1j, 2.0])
