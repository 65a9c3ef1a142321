"""How many independent samples a series is worth: correlation in time, drift, uneven weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import fdtrc

from fixman._common import arrays
from fixman._common.arrays import Array

# The window reaches 5 correlation times.  It leaves out e⁻⁵ of an exponential decay; noise inside
# it grows as its root (Sokal 1997).
WINDOW = 5.0

LONG = 50.0  # inefficiencies; shorter series need the window's bias taken out
SIGNIFICANT = 0.001  # level of the test for a drift: few honest runs are warned
FEWEST_FOR_LINE = 5  # values that tell a line in a single series from the noise about it


class Independence(NamedTuple):
    """How many independent samples a series (frames, copies) is worth, and its drift.

    That is how far a line through the means of the frames moves from the first to the last; 0 where
    chance may explain it.
    """

    size: float
    drift: float = 0.0


def independence(series: ArrayLike) -> Independence:
    """Count independent samples by the variance of their mean: size = σ²/var(mean).

    A frame's copies are taken for independent until their means say otherwise.  With N = frames ×
    copies, σ² the variance of all values and g the inefficiency along time,

        var(mean) = σ² g/N + s² g_m/frames,    s² = (B − W)/copies,

    W the variance inside frames, B copies times the variance between the means of frames (one-way
    analysis of variance), and g_m the inefficiency of the series of these means.  B counts as far
    as it exceeds chance by its own standard deviation.  A line through the means is one sample:
    s² g_m/frames is at least the variance that it explains, less four times what chance does.  g is
    Sokal's, see `statistical_inefficiency`; below 50 g frames that of an autoregression through the
    correlation at lag 1, freed from its bias in short series (Kendall 1954), if this is larger.

    The series is (frames, ...), as in `statistical_inefficiency`.  The size lies between 1 and N,
    which it is where nothing varies.  O(frames ln frames) a copy.  The drift has an F test at
    `SIGNIFICANT`, with degrees of freedom over g, since chains that move slowly differ less from
    frame to frame.
    """
    values = _series(series)
    (frames, copies), total = values.shape, values.size
    if frames == 1 or (values == values[0, 0]).all():
        return Independence(float(total))
    scaled, unit = _about_mean(values)
    g = _inefficiency(scaled)
    means = scaled.mean(axis=1)
    variance = float((scaled**2).mean())
    slope, line = _line(means)
    if copies == 1:
        by_chance, free = _noise(means, slope)
        shared = 0.0
    else:
        free = frames * (copies - 1)
        inside = float(((scaled - means[:, None]) ** 2).sum()) / free
        outside = copies * (float(means @ means) / frames) * frames / (frames - 1)
        by_chance, free = inside * g / total, free / g
        deviation = np.sqrt(2.0 * g / (frames - 1))  # standard deviation of B/W
        common = max(outside - inside * (1.0 + deviation), 0.0) / copies
        shared = common * _inefficiency(means[:, None]) / frames if common else 0.0
    drifts = _chance(line, by_chance, 1.0, free) < SIGNIFICANT
    if drifts and copies > 1 and frames >= FEWEST_FOR_LINE:
        # Frames that differ as wholes lie about some line by chance.
        about, free = _noise(means, slope)
        drifts = _chance(line, about, 1.0, free) < SIGNIFICANT
    shared = max(shared, line - 4.0 * by_chance)  # two standard deviations of the slope
    size = variance / (variance * g / total + shared)
    drift = unit * slope * (frames - 1) if drifts else 0.0
    return Independence(float(np.clip(size, 1.0, total)), drift)


def statistical_inefficiency(series: ArrayLike) -> float:
    """How many frames are worth one independent sample: g = 1 + 2 Σ_t (1 − t/T) ρ(t).

    The mean of all T has the variance of that of T/g independent frames.  The sum ends at the first
    lag of at least 5 correlation times g/2 (Sokal's self-consistent window).

    Axis 0 of the series (frames, ...) is time in equal steps, the others are independent copies of
    one process, with one mean and one autocovariance: copies stuck in different places count as
    one each.  g is from 1, also where nothing varies or processes overshoot, to the number of
    frames, where nothing moves; below about 50 g frames it is too small; where the window does not
    close it is the largest of the partial sums.  O(T ln T) a copy.  ValueError if the series is
    empty or has values that are not finite.
    """
    values = _series(series)
    if (values == values[0, 0]).all():
        return 1.0
    return _window(autocovariance(_about_mean(values)[0]))


def autocovariance(scaled: Array) -> Array:
    """Sum products over all T − t pairs and all copies, for every lag t; values are about 0."""
    frames = scaled.shape[0]
    padded = 1 << (2 * frames - 1).bit_length()  # so that the end does not meet the start
    power = np.zeros(padded // 2 + 1)
    for column in scaled.T:  # one copy at a time bounds the memory
        spectrum = np.fft.rfft(column, padded)
        power += spectrum.real**2 + spectrum.imag**2
    covariance: Array = np.fft.irfft(power, padded)[:frames]
    return covariance


def _window(covariance: Array) -> float:
    frames = covariance.size
    sums = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    closed = np.arange(frames) >= WINDOW * sums / 2.0
    closed[0] = False  # lag 0 alone tells nothing
    g = sums[np.argmax(closed)] if closed.any() else np.max(sums)
    return float(np.clip(g, 1.0, frames))


def _inefficiency(scaled: Array) -> float:
    """Inefficiency along time of values (frames, copies) about 0, also of few frames."""
    frames, total = scaled.shape[0], scaled.size
    covariance = autocovariance(scaled)
    g = _window(covariance)
    if frames >= LONG * g:
        return g
    share = 1.0 - 3.0 / total
    if share <= 0.0:
        return float(frames)
    # The mean that was taken out, and the ratio, take (1 + 3φ)/N off the correlation φ at lag 1.
    phi = (covariance[1] / covariance[0] * frames / (frames - 1) + 1.0 / total) / share
    return max(g, _autoregressive(float(phi), frames))


def _autoregressive(phi: float, frames: int) -> float:
    if phi <= 0.0:
        return 1.0
    if phi >= 1.0 - 1e-6 / frames:
        return float(frames)
    past = (1.0 - phi**frames) / (frames * (1.0 - phi))
    return float(np.clip((1.0 + phi - 2.0 * phi * past) / (1.0 - phi), 1.0, frames))


def _line(means: Array) -> tuple[float, float]:
    """Slope a frame of the line through a series about 0, and the variance that it explains."""
    frames = means.size
    time = np.arange(frames) - 0.5 * (frames - 1)
    square = float(time @ time)
    slope = float(time @ means) / square
    return slope, slope**2 * square / frames


def _noise(series: Array, slope: float) -> tuple[float, float]:
    """Variance that a line through a single series explains by chance, and degrees of freedom.

    From what the line leaves; infinite where the values are too few to tell.
    """
    frames = series.size
    if frames < FEWEST_FOR_LINE:
        return np.inf, 1.0
    rest = series - slope * (np.arange(frames) - 0.5 * (frames - 1))
    square = float(rest @ rest)
    g = _inefficiency(rest[:, None]) if square > 0.0 else 1.0
    return square * g / (frames * (frames - 2)), (frames - 2) / g


def _chance(above: float, below: float, free_above: float, free_below: float) -> float:
    """Tell how often chance makes a ratio of two variances that large."""
    if below <= 0.0:
        return 0.0 if above > 0.0 else 1.0
    return float(fdtrc(max(free_above, 1.0), max(free_below, 1.0), above / below))


def standard_error(series: ArrayLike) -> float:
    """Return the standard error of the mean of a correlated series (frames, ...).

    √(C₀/(n − 1)) for values of variance C₀ about their mean that are worth n independent ones,
    see `independence`; zero where nothing varies.  ValueError if there is only one value, and as
    `statistical_inefficiency` does.
    """
    values = _series(series)
    if values.size < 2:
        raise ValueError("the error of a mean needs at least two values, got one")
    if (values == values[0, 0]).all():
        return 0.0
    # Copies that never move are one sample each; a lone one has been seen to move.
    size = max(independence(values).size, 2.0)
    scaled, unit = _about_mean(values)
    return unit * float(np.std(scaled) / np.sqrt(size - 1.0))


def effective_size(log_weights: ArrayLike) -> float:
    """Return Kish's effective number of samples, (Σ w)²/Σ w², from ln w of any shape.

    Between 1 and the number of weights.  −inf is a weight of zero.  ValueError if there is no
    weight above zero, or one is NaN or +inf.
    """
    logs = arrays.real(log_weights, (), "log_weights").ravel()
    if not logs.size:
        raise ValueError("log_weights is empty")
    if not np.all(logs < np.inf):  # false for NaN too
        where = int(np.argmin(logs < np.inf))
        raise ValueError(f"log_weights is {logs[where]} at sample {where}: it must be below +inf")
    largest = logs.max()
    if largest == -np.inf:
        raise ValueError("every weight is zero: log_weights is -inf throughout")
    weights = np.exp(logs - largest)
    return float(weights.sum() ** 2 / (weights @ weights))


def _series(value: ArrayLike) -> Array:
    array = arrays.real(value, (), "series")
    if array.ndim < 1 or not array.size:
        raise ValueError(f"series must have shape (frames, ...), none of them 0, got {array.shape}")
    arrays.require_finite(array, array.shape, "series", "frame")
    return array.reshape(array.shape[0], -1)


def _about_mean(values: Array) -> tuple[Array, float]:
    """Return values less their mean, in a unit in which squares do not overflow, and the unit."""
    unit = float(np.abs(values).max())
    scaled = values / unit
    scaled -= scaled.mean()
    return scaled, unit
