"""Averages in both ensembles from samples of one, with errors that regard correlations in time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from fixman._common.statistics import WINDOW, effective_size, independence, standard_error

Floats = npt.NDArray[np.float64]
Ensemble = Literal["rigid", "stiff"]

FEWEST_SAMPLES = 20  # fewer do not tell a spread, nor independent ones an average

# Samples that differ by less are copies: what single precision and rounded files leave of them.
SAME_LOGDET = 1e-4  # kT
SAME_SIZE = 1e-5  # relative to the mean


class Share(NamedTuple):
    """Share of the samples of a rigid run that reweighting would leave, between 0 and 1.

    With fewer than 20 independent samples, enough is False and the error means nothing.
    """

    value: float
    error: float
    enough: bool

    def __str__(self) -> str:
        if self.enough:
            return with_error(self.value, self.error, of=1.0)
        return f"about {self.value:.2g}"

    @property
    def percent(self) -> str:
        """The share in per cent, in words."""
        value, error = 100.0 * self.value, 100.0 * self.error
        if value < 1.0:
            return "less than 1 %"
        if not self.enough:
            return f"about {value:.0f} %"
        return f"{value:.0f} ± {error:.0f} %" if error >= 0.5 else f"{value:.0f} %"


@dataclass(frozen=True)
class EnsembleMean:
    """The average of one observable in both ensembles: pairs of a value and its standard error.

    change is rigid less stiff; size is the number of independent samples that the reweighted
    average is worth. If size is below 20, enough is False and the numbers mean nothing.
    """

    stiff: tuple[float, float]
    rigid: tuple[float, float]
    change: tuple[float, float]
    size: float

    @property
    def enough(self) -> bool:
        """Whether there are samples enough, 20 independent ones."""
        return self.size >= FEWEST_SAMPLES

    def as_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; None for numbers from too few."""
        numbers = {"stiff": self.stiff, "rigid": self.rigid, "change": self.change}
        return {"effective_size": self.size} | {
            name: {"value": a, "error": b} if self.enough else None
            for name, (a, b) in numbers.items()
        }


def share_left(half_logdet: Floats, ensemble: Ensemble) -> Share:
    """Kish's share ⟨w⟩²/⟨w²⟩ of rigid samples under w = e^(−h), h = ½ ln det H^bb (frames, ...).

    From samples that are stiff themselves, ρ_stiff ∝ w ρ_rigid, it is 1/(⟨e^h⟩⟨e^(−h)⟩). The error
    is that of the mean of each sample's influence on its logarithm.
    """
    # A product of powers p of ⟨e^(t h)⟩: pairs of t and p.
    stiff = ensemble == "stiff"
    tilts = ((1.0, -1.0), (-1.0, -1.0)) if stiff else ((-1.0, 2.0), (-2.0, -1.0))
    logarithm, influence, deciding = 0.0, np.zeros(half_logdet.shape), float(half_logdet.size)
    for tilt, power in tilts:
        logs = tilt * half_logdet
        largest = np.max(logs)
        weights = np.exp(logs - largest)
        mean = np.mean(weights)
        logarithm += power * (largest + np.log(mean))
        influence += power * (weights / mean - 1.0)
        deciding = min(deciding, effective_size(logs))
    value = float(np.exp(min(logarithm, 0.0)))
    error = value * _error(influence) if half_logdet.size > 1 else np.inf
    deciding *= independence(influence).size / half_logdet.size
    return Share(value, error, deciding >= FEWEST_SAMPLES)


def spread_error(half_logdet: Floats) -> float:
    """Return the standard error of the standard deviation of ½ ln det H^bb (frames, ...)."""
    squares = (half_logdet - np.mean(half_logdet)) ** 2
    spread = np.sqrt(np.mean(squares))
    return _error((squares - spread**2) / (2.0 * spread)) if spread > 0.0 else 0.0


def _error(influence: Floats) -> float:
    """Find the error of a number from what each sample adds to it, right on average.

    Variances found in n independent samples scatter by (κ − 1)/n of their square, κ the kurtosis,
    and by 2 `WINDOW`/n more where their correlation in time was found in the same frames (Sokal
    1997). The mean of their root is too small by an eighth of that.
    """
    found = independence(influence).size
    about = influence - np.mean(influence)
    kurtosis = np.mean(about**4) / max(float(np.mean(about**2)) ** 2, 1e-300)
    scatter = kurtosis - 1.0 + (2.0 * WINDOW if len(influence) > 1 else 0.0)
    return standard_error(influence) * float(1.0 + scatter / (8.0 * found))


def distinct(half_logdet: Floats, *sizes: Floats) -> int:
    """Count samples that differ, in ½ ln det H^bb by 1e-4 kT or in a size by 1e-5 of its mean."""
    columns = [half_logdet / SAME_LOGDET]
    columns += [size / (SAME_SIZE * max(float(np.mean(size)), 1e-300)) for size in sizes]
    rounded = np.stack([np.rint(column).ravel() for column in columns], axis=1)
    return len(np.unique(rounded, axis=0))


def average(
    values: Floats, half_logdet: Floats, ensemble: Ensemble, root: bool, differ: int
) -> EnsembleMean:
    """Average `values` (frames, chains), of one ensemble, in both; `differ` samples are distinct.

    The errors are those of series: each sample's influence on an average or a difference.
    """
    weights = weights_to_other(half_logdet, ensemble)
    stiff, rigid = (
        _influence(values, np.ones(1) if ensemble == given else weights, root)
        for given in ("stiff", "rigid")
    )
    three = stiff, rigid, (rigid[0] - stiff[0], rigid[1] - stiff[1])
    pairs = [(one, standard_error(added) if added.size > 1 else np.inf) for one, added in three]
    kish = float(np.sum(weights) ** 2 / np.sum(weights**2))
    fewest = min(independence(added).size for _, added in three[:2])
    size = min(float(differ), kish * fewest / weights.size)
    return EnsembleMean(pairs[0], pairs[1], pairs[2], size)


def weights_to_other(half_logdet: Floats, ensemble: Ensemble) -> Floats:
    """Weights, 1 on average, that lead from the ensemble of the samples to the other one."""
    log_weights = half_logdet if ensemble == "stiff" else -half_logdet
    weights = np.exp(log_weights - np.max(log_weights))
    return np.asarray(weights / np.mean(weights))


def other_ensemble(ensemble: Ensemble) -> Ensemble:
    """Return the one that weights lead to."""
    return "rigid" if ensemble == "stiff" else "stiff"


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
