"""How many independent samples a series is worth: correlation in time, uneven weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fixman import _arrays
from fixman._arrays import Array

__all__ = ["effective_size", "standard_error", "statistical_inefficiency"]

# The window reaches 5 correlation times.  It leaves out e⁻⁵ of an exponential decay, and the noise
# of what it includes grows as its root (Sokal 1997).
WINDOW = 5.0


def statistical_inefficiency(series: ArrayLike) -> float:
    """How many frames are worth one independent sample: g = 1 + 2 Σ_t (1 − t/T) ρ(t).

    T/g is the number of independent frames whose mean has the variance of the mean of all T.  The
    sum ends at the first lag of at least 5 times its own value in correlation times g/2 (Sokal's
    self-consistent window); to the end it would vanish identically.

    Parameters
    ----------
    series : (frames, ...)
        Axis 0 is time in equal steps, the others are independent copies of one process.

    Returns
    -------
    float
        From 1, also where nothing varies, to the number of frames, where nothing moves.
        Processes that overshoot, which have g < 1, count as uncorrelated.

    Raises
    ------
    ValueError
        If the series is empty or has values that are not finite.

    Notes
    -----
    O(T ln T) a copy.  Copies share one mean and one autocovariance.  Taking out each copy's own
    mean would also take out the motion that is slower than the series, and copies stuck in
    different places would pass for samples of one; with the common mean they count as one each.

    No series tells of correlations longer than itself.  Below about 50 g frames the answer is too
    small; where the window does not close at all it is the largest of the partial sums.
    """
    values = _series(series)
    frames = values.shape[0]
    if (values == values[0, 0]).all():
        return 1.0
    scaled, _ = _about_mean(values)
    padded = 1 << (2 * frames - 1).bit_length()  # so that the end does not meet the start
    power = np.zeros(padded // 2 + 1)
    for column in scaled.T:  # one copy at a time bounds the memory
        spectrum = np.fft.rfft(column, padded)
        power += spectrum.real**2 + spectrum.imag**2
    covariance = np.fft.irfft(power, padded)[:frames]  # Σ over T − t pairs: (1 − t/T) is in it
    sums = 2.0 * np.cumsum(covariance / covariance[0]) - 1.0
    closed = np.arange(frames) >= WINDOW * sums / 2.0
    closed[0] = False  # lag 0 alone tells nothing
    g = sums[np.argmax(closed)] if closed.any() else sums.max()
    return float(np.clip(g, 1.0, frames))


def standard_error(series: ArrayLike) -> float:
    """Return the standard error of the mean of a correlated series (frames, ...).

    √(C₀/(N/g − 1)) for N values of variance C₀ about their mean and statistical inefficiency g;
    axes as in `statistical_inefficiency`.  Zero where nothing varies.

    Raises
    ------
    ValueError
        If there is only one value, and as `statistical_inefficiency` does.
    """
    values = _series(series)
    if values.size < 2:
        raise ValueError("the error of a mean needs at least two values, got one")
    if (values == values[0, 0]).all():
        return 0.0
    # Copies that never move are one sample each; a lone one has been seen to move.
    size = max(values.size / statistical_inefficiency(values), 2.0)
    scaled, unit = _about_mean(values)
    return unit * float(np.std(scaled) / np.sqrt(size - 1.0))


def effective_size(log_weights: ArrayLike) -> float:
    """Return Kish's effective number of samples, (Σ w)²/Σ w², from ln w of any shape.

    Between 1 and the number of weights; a common factor of the weights is of no consequence.
    −inf is a weight of zero.

    Raises
    ------
    ValueError
        If there is no weight above zero, or one is NaN or +inf.
    """
    logs = _arrays.real(log_weights, (), "log_weights").ravel()
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
    """Return (frames, copies)."""
    array = _arrays.real(value, (), "series")
    if array.ndim < 1 or not array.size:
        raise ValueError(f"series must have shape (frames, ...), none of them 0, got {array.shape}")
    _arrays.require_finite(array, array.shape, "series", "frame")
    return array.reshape(array.shape[0], -1)


def _about_mean(values: Array) -> tuple[Array, float]:
    """Return values less their mean, in a unit in which squares do not overflow, and the unit."""
    unit = float(np.abs(values).max())
    scaled = values / unit
    scaled -= scaled.mean()
    return scaled, unit
