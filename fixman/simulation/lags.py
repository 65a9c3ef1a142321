"""Means over pairs of frames against their lag, with errors of the jackknife.

The jackknife leaves out one of several groups at a time: copies of a chain or, with fewer copies
than `GROUPS`, blocks of frames of each copy.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import irfft, next_fast_len, rfft

from fixman._common import arrays, statistics
from fixman._common.arrays import Array
from fixman.errors import ShortSeriesWarning

CHUNK = 1 << 21  # numbers transformed at a time
GROUPS = 16  # an error from so many is itself known to 18 %
# A line is fitted to ln C between these: before them are faster processes, and behind them noise.
HIGH, LOW = 0.6, 0.2


class Mean(NamedTuple):
    """A mean and its standard error."""

    value: float
    error: float


class Lagged(NamedTuple):
    """Means over pairs of frames, and their standard errors, against ``lag``."""

    lag: Array
    value: Array
    error: Array


class Autocorrelation(NamedTuple):
    """C(t) = ⟨a(0)·a(t)⟩/⟨a²⟩ against ``lag``, its standard error, and two relaxation times.

    ``integrated`` is ∫ C dt up to five times itself.  ``fitted`` is τ of the slowest process, in C
    ∝ e^(−t/τ) from C = 0.6 to 0.2: inf if C does not fall, 0 if C falls in one frame.
    """

    lag: Array
    value: Array
    error: Array
    integrated: Mean
    fitted: Mean


def autocorrelation(
    series: ArrayLike, *, interval: float = 1.0, longest: int | None = None
) -> Autocorrelation:
    """Correlation in time of vectors: of `end_to_end`, one of the `rouse_modes`, or a bond.

    Means are not subtracted: subtract each mean that is not 0 by symmetry.  C is 0 where all
    vectors are 0.  O(frames ln frames) a copy.

    Parameters
    ----------
    series : (frames, ..., d)
        Axis 0 is time in equal steps, the last one components; the others are independent copies.
    interval : float
        Time from frame to frame, the unit of the times in the answer.
    longest : int, optional
        Longest lag in frames.  By default the last one or, with fewer than 16 copies, frames ·
        copies/16.  Errors are inf if a longer lag leaves a single group of frames.

    Warns
    -----
    ShortSeriesWarning
        If a series is shorter than 50 times its integrated time, so that errors are too small.
    """
    a = arrays.series(series, (), "series", 1)
    if a.ndim < 2:
        raise ValueError(f"series must have shape (frames, ..., d), got {a.shape}")
    a, interval = a.reshape(len(a), -1, a.shape[-1]), arrays.positive(interval, "interval")
    scaled = a / (np.abs(a).max() or 1.0)
    rows = by_groups(scaled, longest, lambda part: products(power(part), len(part)))
    rows /= np.where(rows[:, :1] == 0.0, 1.0, rows[:, :1])
    integrals = np.cumsum(rows, axis=1) - 0.5 * rows[:, :1]
    lag = np.arange(rows.shape[1], dtype=np.float64)
    closed = lag >= statistics.WINDOW * integrals[0]
    closed[0] = False  # lag 0 alone tells nothing
    integral = integrals[:, np.argmax(closed if closed.any() else integrals[0])]
    if len(a) < statistics.LONG * integral[0]:
        text = f"{len(a)} frames are {len(a) / integral[0]:.3g} correlation times: below 50 these "
        text += "times and their errors are too small"
        warnings.warn(text, ShortSeriesWarning, stacklevel=2)
    integrated = Mean(interval * float(integral[0]), interval * float(jackknife(integral)))
    fitted = Mean(*(interval * number for number in _fitted(rows)))
    return Autocorrelation(interval * lag, rows[0], jackknife(rows), integrated, fitted)


def _fitted(rows: Array) -> tuple[float, float]:
    """Relaxation time by a line through ln C, weighted by C², in one window for all rows."""
    C = rows[0]
    low, end = (int(np.argmax(np.append(C, 0.0) < level)) for level in (HIGH, LOW))
    s = np.arange(max(low - 1, 0) if low < C.size else 0, min(end + 1, C.size))
    s = s[C[s] > 0.0]
    if s.size < 2:
        return 0.0, 0.0
    away = C[s] ** 2 * (s - np.average(s, weights=C[s] ** 2))
    rates = -np.log(np.maximum(rows[:, s], 0.01 * LOW)) @ away / (away @ s)
    if rates[0] < 1e-15:
        return float("inf"), float("inf")
    return 1.0 / float(rates[0]), float(jackknife(rates)) / float(rates[0]) ** 2


def by_groups(a: Array, longest: int | None, of: Callable[[Array], Array]) -> Array:
    """Means of sums over pairs in (frames, copies, m): of all, then without each group in turn."""
    frames, copies = a.shape[:2]
    last = frames - 1 if longest is None else arrays.whole(longest, "longest", 0)
    if last >= frames:
        raise ValueError(f"longest must be below {frames}, the number of frames, got {longest}")
    most = frames // (2 if longest is None else last + 1)
    blocks = max(1, min(-(-GROUPS // copies), most))
    length = frames // blocks
    last = min(last, length - 1)

    def mean(some: Array) -> Array:
        parts = np.array_split(some, min(some.shape[1], some.size // CHUNK + 1), axis=1)
        return (np.asarray(sum(map(of, parts))) / np.arange(len(some), 0, -1))[: last + 1]

    starts = range(0, blocks * length, length)
    groups = np.array([mean(a[k : k + length, c]) for c in range(copies) for k in starts])
    whole = groups if blocks == 1 else [mean(a[:, c]) for c in range(copies)]
    others = (groups.sum(axis=0) - groups) / max(1, len(groups) - 1)
    return np.concatenate([[np.mean(whole, axis=0)], others])


def jackknife(rows: Array) -> Array:
    """Return standard errors from the rows of `by_groups`; inf if there is one group."""
    if len(rows) <= 2:
        return np.full(rows.shape[1:], np.inf)
    return np.asarray(rows[1:].std(axis=0) * np.sqrt(len(rows) - 2))


# --- pairs ------------------------------------------------------------------------------------


def power(a: Array) -> Array:
    """Return |Σ_k a_k e^(iωk)|² summed over columns, (..., L, m) → (..., frequencies)."""
    size = next_fast_len(2 * a.shape[-2], real=True)  # so that the end does not meet the start
    parts = np.ascontiguousarray(rfft(a, size, axis=-2)).view(np.float64)  # real and imaginary
    return np.asarray(np.einsum("...a,...a->...", parts, parts))


def products(power: Array, length: int) -> Array:
    """Σ_k a_k·a_{k+s} for every lag s below the length L of `power`, (..., L); O(L ln L)."""
    return np.asarray(irfft(power, next_fast_len(2 * length, real=True))[..., :length])


def square_steps(a: Array) -> Array:
    """Σ_k |a_{k+s} − a_k|² for every lag s, as `products`; rounding is that of the largest square.

    It is Σ_k |a_k|² + |a_{k+s}|² − 2 a_k·a_{k+s}, with both ends from cumulative sums.
    """
    a = a - a[..., :1, :]
    square = (a * a).sum(axis=-1)
    heads, tails = np.cumsum(square, axis=-1), np.cumsum(square[..., ::-1], axis=-1)
    steps = heads[..., ::-1] + tails[..., ::-1] - 2.0 * products(power(a), a.shape[-2])
    steps[..., 0] = 0.0
    return np.asarray(np.maximum(steps, 0.0))
