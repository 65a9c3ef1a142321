"""Averages in both ensembles, from the samples of one of them, with errors that know of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fixman._statistics import standard_error, statistical_inefficiency

Floats = npt.NDArray[np.float64]
Ensemble = Literal["rigid", "stiff"]

FEWEST_SAMPLES = 20  # fewer do not tell a spread, nor independent ones an average


@dataclass(frozen=True)
class Mean:
    """The average of one observable in both ensembles: pairs of a value and its standard error.

    stiff and rigid are the averages, change is rigid less stiff. size is the number of independent
    samples that the reweighted average is worth. Below 20 the numbers tell nothing, and told is
    False.
    """

    stiff: tuple[float, float]
    rigid: tuple[float, float]
    change: tuple[float, float]
    size: float

    @property
    def told(self) -> bool:
        """Whether there are samples enough, 20 independent ones."""
        return self.size >= FEWEST_SAMPLES

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; None for the numbers that are not told."""
        names = ("stiff", "rigid", "change")
        values: dict[str, Any] = {
            name: dict(zip(("value", "error"), getattr(self, name), strict=True))
            if self.told
            else None
            for name in names
        }
        return values | {"effective_size": self.size}


def average(values: Floats, half_logdet: Floats, ensemble: Ensemble, root: bool) -> Mean:
    """Average `values` (frames, chains), of one ensemble, in both.

    The errors are those of means of series: the influence of each sample on an average, and on the
    difference of the two.
    """
    weights = weights_to_other(half_logdet, ensemble)
    samples, reweighted = _influence(values, np.ones(1), root), _influence(values, weights, root)
    stiff, rigid = (samples, reweighted)[:: 1 if ensemble == "stiff" else -1]
    change = (rigid[0] - stiff[0], rigid[1] - stiff[1])
    slowest = max(statistical_inefficiency(series) for _, series in (stiff, rigid))
    return Mean(
        stiff=_with_deviation(*stiff),
        rigid=_with_deviation(*rigid),
        change=_with_deviation(*change),
        size=float(np.sum(weights) ** 2 / np.sum(weights**2)) / slowest,
    )


def weights_to_other(half_logdet: Floats, ensemble: Ensemble) -> Floats:
    """Weights, 1 on average, that lead from the ensemble of the samples to the other one."""
    log_weights = half_logdet if ensemble == "stiff" else -half_logdet
    weights: Floats = np.exp(log_weights - np.max(log_weights))
    return weights / np.mean(weights)


def other_ensemble(ensemble: Ensemble) -> Ensemble:
    """Return the one that weights lead to."""
    return "rigid" if ensemble == "stiff" else "stiff"


def _with_deviation(value: float, series: Floats) -> tuple[float, float]:
    return value, standard_error(series) if series.size > 1 else np.inf


def _influence(values: Floats, weights: Floats, root: bool) -> tuple[float, Floats]:
    """Weighted average, or its root, and what each sample adds to it, to first order."""
    average = float(np.mean(weights * values))
    added = weights * (values - average)
    return (float(np.sqrt(average)), added / (2.0 * np.sqrt(average))) if root else (average, added)


def with_error(value: float, error: float, sign: str = "", of: float = 0.0) -> str:
    """``24.31 ± 0.92``: the error with two digits, the value with as many decimals.

    A difference between averages of size `of` has no decimals for what is below 1e-3 of them.
    """
    last = max(error, 1e-3 * abs(of))
    digits = max(0, 1 - int(np.floor(np.log10(last)))) if last > 0.0 else 3
    value = round(value, digits) + 0.0  # no negative zero
    return f"{value:{sign if value else ''}.{digits}f} ± {error:.{digits}f}"
