"""Does constraining these coordinates change my ensemble? ½ ln det H^bb over all samples.

Constraining hard coordinates samples ρ_rigid; the limit of equally stiff springs in them is
ρ_stiff = ρ_rigid (det H^bb)^(-1/2). Only the variation of ½ ln det H^bb from sample to sample
matters: its standard deviation in kT, the spread, bounds to first order what changes, since an
average ⟨A⟩ moves by −cov(A, ½ ln det H^bb), at most the spread times the standard deviation of A.

Samples of a flexible molecule, set onto the constraints, stand for the stiff ensemble, and samples
of a run with constraints, taken as they are, for the rigid one. Weights lead to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fixman import _arrays
from fixman._statistics import effective_size, standard_error, statistical_inefficiency
from fixman.chain import Chain
from fixman.errors import SingularConstraintError
from fixman.io.groups import ChainGroup, counted
from fixman.io.samples import (
    BEND_EDGES,
    TORSION_EDGES,
    Meter,
    counting_from,
    hard_names,
    is_constant,
    meters,
)

Floats = npt.NDArray[np.float64]
Ensemble = Literal["rigid", "stiff"]

FEWEST_SAMPLES = 20  # fewer do not tell a spread, nor effective ones an average
NEGLIGIBLE = 0.1  # kT
LARGE = 1.0  # kT
SHOWN = 0.001  # smaller spreads are not told from rounding in the printed lines
WITH_TORSIONS = 4  # beads: shorter chains have no torsion within
SIZES = ("square_end_to_end", "square_gyration")
BLOCK = 1 << 17  # beads handled at a time, which bounds the memory beyond the coordinates


@dataclass(frozen=True)
class Mean:
    """The average of one observable in both ensembles, with standard errors.

    `change` is rigid less stiff; `size` the number of independent samples that the reweighted one
    is worth. Where that is below 20 the numbers tell nothing, and `told` is false.
    """

    stiff: tuple[float, float]
    rigid: tuple[float, float]
    change: tuple[float, float]
    size: float

    @property
    def told(self) -> bool:
        """Whether there are samples enough."""
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


@dataclass(frozen=True, eq=False)
class GroupReport:
    """½ ln det H^bb of every frame and chain of one group, and what follows from it.

    half_logdet (frames, chains) in kT; mean_bond in the input's unit of length; scattered counts
    the hard torsions that have no meaningful mean to be constrained to. sizes are the squared
    end-to-end distance (of linear chains) and radius of gyration, weighted with the masses, of
    every frame and chain; counts, if asked for, the histograms of their soft bends and torsions.
    ensemble is the one that the samples stand for.
    """

    chain: Chain
    half_logdet: Floats = field(repr=False)
    mean_bond: float
    scattered: int = 0
    name: str = ""
    ensemble: Ensemble = "stiff"
    sizes: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    counts: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict, repr=False)

    @property
    def label(self) -> str:
        """What the group consists of, in a few words."""
        chains = counted(self.half_logdet.shape[1], "chain")
        return self.name or f"{chains} of {counted(self.chain.n, 'bead')}"

    @property
    def samples(self) -> int:
        """Frames times chains."""
        return self.half_logdet.size

    @property
    def spread(self) -> float:
        """Standard deviation of ½ ln det H^bb in kT."""
        return float(np.std(self.half_logdet))

    @property
    def range(self) -> float:
        """Largest minus smallest ½ ln det H^bb in kT."""
        return float(np.ptp(self.half_logdet))

    @property
    def constant(self) -> bool:
        """Whether no internal coordinate is soft, so that constraints leave one shape."""
        return is_constant(self.chain.n, len(self.chain.hard))

    @property
    def mean_per_row(self) -> float:
        """Mean ½ ln det H^bb per hard row, free of units.

        Masses count in their geometric mean, lengths in the mean bond: a length's row of H^bb
        scales as 1/m, an angle's or torsion's as 1/(m L²).
        """
        kinds = _kinds(self.chain)
        angular = sum(kind != "length" for kind in kinds)
        log_mass = float(np.mean(np.log(self.chain.masses)))
        units = 0.5 * len(kinds) * log_mass + angular * np.log(self.mean_bond)
        return float(np.mean(self.half_logdet) + units) / len(kinds)

    @property
    def effective_fraction(self) -> float:
        """Kish's effective share of the samples under weights (det H^bb)^(-1/2), rigid → stiff."""
        return effective_size(-self.half_logdet) / self.samples

    @cached_property
    def means(self) -> dict[str, Mean]:
        """What people publish: ⟨R²⟩ of linear chains and R_g = ⟨R_g²⟩^(1/2), stiff and rigid."""
        named = {"mean_square_end_to_end": False, "radius_of_gyration": True}
        return {
            name: _mean(self.sizes[key], self.half_logdet, self.ensemble, root)
            for (name, root), key in zip(named.items(), SIZES, strict=True)
            if key in self.sizes
        }

    def densities(self, kind: Literal["bends", "torsions"]) -> dict[Ensemble, Floats] | None:
        """Distribution of the soft bends or torsions in each ensemble, per radian.

        Between the edges of `fixman.io.samples`; None where there are none, or none were counted.
        """
        counts = self.counts.get(kind)
        if counts is None or not np.any(counts):
            return None
        edges = BEND_EDGES if kind == "bends" else TORSION_EDGES
        weights = _weights(self.half_logdet, self.ensemble)
        weighted = np.einsum("fc,fcb->b", weights, counts)
        found = {self.ensemble: np.sum(counts, axis=(0, 1)), _other(self.ensemble): weighted}
        return {name: each / (np.sum(each) * np.diff(edges)) for name, each in found.items()}

    @property
    def verdict(self) -> str:
        """The spread in words, and what to do about it."""
        return self._metric_verdict + _warning(self.scattered)

    @property
    def _metric_verdict(self) -> str:
        if self.constant:
            n = self.chain.n
            told = (
                f"nothing can vary: every internal coordinate of a chain of {n} beads is hard, so "
                "that the determinant is constant"
            )
            if n >= WITH_TORSIONS:
                return told
            return (
                f"{told}; if longer chains were expected, the selection fell into pieces: select "
                "the atoms that join them too"
            )
        if self.samples < FEWEST_SAMPLES:
            have = counted(self.samples, "sample")
            return f"cannot tell: {have}, {FEWEST_SAMPLES} or more are needed"
        if self.spread < NEGLIGIBLE:
            bound = f"about {self.spread:.1g}" if self.spread >= SHOWN else f"{SHOWN}"
            return (
                f"negligible: no average moves by more than {bound} of its own standard "
                "deviation between rigid and stiff"
            )
        size = f"{self.spread:.2g} kT between rigid and stiff"
        share = f"{self.effective_fraction:.0%} of the samples"
        if self.spread < LARGE:
            return (
                f"noticeable, {size}: reweight the frames of a rigid run by (det H^bb)^(-1/2), "
                f"which leaves {share}, or add the Fixman potential to the run"
            )
        return (
            f"large, {size}: add the Fixman potential ½ kT ln det H^bb to a rigid run, or do not "
            f"constrain these coordinates; reweighting would leave {share}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Everything but the samples themselves, ready for JSON; None where one is too few."""
        frames, chains = self.half_logdet.shape
        one = self.samples == 1
        return {
            "beads": self.chain.n,
            "chains": chains,
            "frames": frames,
            "samples": self.samples,
            "hard_rows": len(self.chain.hard),
            "mean_bond": self.mean_bond,
            "spread_kT": None if one else self.spread,
            "range_kT": None if one else self.range,
            "mean_per_row_kT": self.mean_per_row,
            "effective_fraction": None if one else self.effective_fraction,
            "scattered_torsions": self.scattered,
            "means": {name: mean.as_dict() for name, mean in self.means.items()},
            "verdict": self.verdict,
        }

    def lines(self) -> list[str]:
        """Return the report on this group as `fixman audit` prints it, but for the verdict."""
        frames = counted(self.half_logdet.shape[0], "frame")
        samples = counted(self.samples, "sample")
        rows = counted(len(self.chain.hard), "hard row")
        one = self.samples == 1
        table = {
            "spread of ½ ln det H^bb": "n/a" if one else f"{self.spread:.3f} kT",
            "range": "n/a" if one else f"{self.range:.3f} kT",
            "mean per hard row, without units": f"{self.mean_per_row:.4f} kT",
            "effective fraction, reweighted": "n/a" if one else f"{self.effective_fraction:.3f}",
        }
        if not self.constant:
            table |= self._sizes()
        return [
            f"{self.label}, {frames}: {samples}, {rows}",
            *(f"  {name:<34}{value}" for name, value in table.items()),
        ]

    def _sizes(self) -> dict[str, str]:
        symbols = {"mean_square_end_to_end": "⟨R²⟩", "radius_of_gyration": "R_g"}
        table: dict[str, str] = {}
        other = _other(self.ensemble)
        for name, mean in self.means.items():
            if not mean.told:
                have = counted(max(1, int(mean.size)), "effective sample")
                table[f"{symbols[name]}, rigid and stiff"] = f"n/a: {have}"
                continue
            given, reweighted = getattr(mean, self.ensemble), getattr(mean, other)
            table[f"{symbols[name]}, {self.ensemble}: the samples"] = _with_error(*given)
            table[f"{symbols[name]}, {other}: reweighted"] = (
                f"{_with_error(*reweighted)}; rigid less stiff {_with_error(*mean.change, '+')}"
            )
        return table


@dataclass(frozen=True, eq=False)
class AuditReport:
    """One report per group of equal chains, and the verdict over all of them."""

    hard: tuple[str, ...]
    as_is: bool
    groups: tuple[GroupReport, ...]
    notes: tuple[str, ...] = ()
    where: str = ""

    @classmethod
    def from_analysis(cls, analysis: Any, notes: Sequence[str] = ()) -> AuditReport:
        """Report on a `fixman.io.mdanalysis.MetricAnalysis` that has run."""
        if not hasattr(analysis.results, "half_logdet"):
            raise ValueError("the analysis has not run yet: call its run() first")
        as_is = analysis.values is None
        groups = []
        for number, meter in enumerate(analysis.meters):
            found = {
                name: arrays[number]
                for name, arrays in analysis.results.items()
                if arrays[number] is not None
            }
            groups.append(_report(meter, found, as_is, analysis.scattered[number]))
        where = "" if as_is or analysis.means else "at given values"
        remarks = (*notes, *analysis.notes)
        return cls(analysis.hard, as_is, tuple(groups), remarks, where)

    @property
    def verdict(self) -> str:
        """The verdict of the group that the constraints change most."""
        told = [group for group in self.groups if group.constant or group.samples >= FEWEST_SAMPLES]
        worst = max(told or self.groups, key=lambda group: (not group.constant, group.spread))
        if len(self.groups) == 1:
            return worst.verdict
        warning = _warning(sum(group.scattered for group in self.groups))
        untold = len(self.groups) - len(told)
        if untold and (not told or worst.spread < NEGLIGIBLE):
            return (
                f"cannot tell: {untold} of {len(self.groups)} groups have fewer than "
                f"{FEWEST_SAMPLES} samples{warning}"
            )
        return f"{worst._metric_verdict} (the worst group: {worst.label}){warning}"

    def as_dict(self) -> dict[str, Any]:
        """Everything but the samples themselves, ready for JSON."""
        return {
            "hard": list(self.hard),
            "as_is": self.as_is,
            "samples_taken_as": "rigid" if self.as_is else "stiff",
            "limit": "equal-stiffness springs in the hard coordinates, stiffness to infinity",
            "groups": [group.as_dict() for group in self.groups],
            "notes": list(self.notes),
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        """Return the report as `fixman audit` prints it."""
        where = self.where or ("as read" if self.as_is else "at their pooled means")
        lines = [f"hard: {', '.join(self.hard)} ({where}); rigid against equally stiff springs"]
        for group in self.groups:
            lines += group.lines()
            if len(self.groups) > 1:
                lines.append(f"  {group.verdict}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, f"verdict: {self.verdict}"])


def audit(
    groups: Sequence[ChainGroup],
    hard: str | Sequence[str] = ("length",),
    *,
    as_is: bool = False,
    histograms: bool = False,
    notes: Sequence[str] = (),
) -> AuditReport:
    """Evaluate ½ ln det H^bb of every frame and chain, group by group.

    The hard coordinates are first set to their pooled means, as constraining them would; `as_is`
    skips that. `hard` are kinds, "torsional" or "h-bonds", as in `Chain.from_bonds`; dependent
    rows are left out, which is noted. Groups are x (frames, chains, n, 3) and masses (n,), and must
    be in memory; intermediates are blocks of about 10⁵ beads. O(n) per sample. `histograms` counts
    soft bends and torsions as well, and `notes` (the reader's) join the report's own.
    `MetricAnalysis` does the same from a trajectory, frame by frame, in parallel.

    Raises ValueError where no group has a hard coordinate or a group has no samples, and what
    `Chain`, `logdet` and `project` raise.
    """
    names = hard_names(hard)
    checked = [_checked(group, number) for number, group in enumerate(groups)]
    found, remarks = meters(checked, hard)
    reports = []
    for meter in found:
        assert isinstance(meter.molecules, ChainGroup)
        x = meter.molecules.x
        values, scattered = (None, 0) if as_is else _pooled_means(meter, x)
        parts = []
        for block, part in _blocks(x):
            with _counting(block):
                parts.append(meter.measure(part, values, histograms=histograms))
        measured = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        reports.append(_report(meter, measured, as_is, scattered))
    return AuditReport(names, as_is, tuple(reports), (*notes, *remarks))


def _checked(group: ChainGroup, number: int) -> ChainGroup:
    """Refuse what no later step could explain: shapes, no samples, NaN, coincident neighbours."""
    x = _arrays.real(group.x, (np.size(group.masses), 3), f"x of group {number}")
    if x.ndim != 4 or not x.size:
        raise ValueError(
            f"x of group {number} must have shape (frames, chains, n, 3) with at least one of each"
            f", got {x.shape}"
        )
    _arrays.require_finite(x, x.shape[2:], f"x of group {number}")
    one, two = group.pairs.T
    coincide = np.argwhere(~np.any(x[:, :, two] - x[:, :, one], axis=3))
    if coincide.size:
        frame, chain, bond = coincide[0]
        raise SingularConstraintError(
            f"bead {one[bond]} and bead {two[bond]} of chain {chain} in frame {frame} of group "
            f"{number} coincide: their bond has no direction"
        )
    return replace(group, masses=_arrays.masses(group.masses, x.shape[2]), x=x)


def _pooled_means(meter: Meter, x: Floats) -> tuple[Floats, int]:
    """Means of the hard coordinates over x (frames, chains, n, 3); torsions that scatter."""
    parts = []
    for block, part in _blocks(x):
        with _counting(block):
            sums = meter.sums(part)
        parts.append({name: np.sum(values, axis=0) for name, values in sums.items()})
    sums = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    return meter.means(sums, x.shape[0] * x.shape[1])


def _counting(block: slice) -> AbstractContextManager[None]:
    return counting_from(block.start, "those read")


def _report(
    meter: Meter, measured: Mapping[str, npt.NDArray[Any]], as_is: bool, scattered: int
) -> GroupReport:
    half = measured["half_logdet"]
    return GroupReport(
        meter.chain,
        half,
        float(np.mean(measured["mean_bond"])),
        scattered,
        meter.molecules.label(half.shape[1]),
        "rigid" if as_is else "stiff",
        {name: measured[name] for name in SIZES if name in measured},
        {name: measured[name] for name in ("bends", "torsions") if name in measured},
    )


def _mean(values: Floats, half_logdet: Floats, ensemble: Ensemble, root: bool) -> Mean:
    """Average `values` (frames, chains), of one ensemble, in both.

    The errors are those of means of series: the influence of each sample on an average, and on the
    difference of the two.
    """
    weights = _weights(half_logdet, ensemble)
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


def _weights(half_logdet: Floats, ensemble: Ensemble) -> Floats:
    """Weights, 1 on average, that lead from the ensemble of the samples to the other one."""
    log_weights = half_logdet if ensemble == "stiff" else -half_logdet
    weights: Floats = np.exp(log_weights - np.max(log_weights))
    return weights / np.mean(weights)


def _other(ensemble: Ensemble) -> Ensemble:
    return "rigid" if ensemble == "stiff" else "stiff"


def _with_deviation(value: float, series: Floats) -> tuple[float, float]:
    return value, standard_error(series) if series.size > 1 else np.inf


def _influence(values: Floats, weights: Floats, root: bool) -> tuple[float, Floats]:
    """Weighted average, or its root, and what each sample adds to it, to first order."""
    average = float(np.mean(weights * values))
    added = weights * (values - average)
    return (float(np.sqrt(average)), added / (2.0 * np.sqrt(average))) if root else (average, added)


def _with_error(value: float, error: float, sign: str = "") -> str:
    """``24.31 ± 0.92``: the error with two digits, the value with as many decimals."""
    digits = max(0, 1 - int(np.floor(np.log10(error)))) if error > 0.0 else 3
    return f"{value:{sign}.{digits}f} ± {error:.{digits}f}"


def _warning(scattered: int) -> str:
    """Qualify a verdict where constraining torsions means more than the metric."""
    if not scattered:
        return ""
    are = "is" if scattered == 1 else "are"
    return (
        f"; but {counted(scattered, 'hard torsion')} {are} scattered over the circle: constraining "
        "to a mean would change much more than the metric"
    )


def _kinds(chain: Chain) -> list[str]:
    return [chain.coordinates[row].kind for row in chain.hard]


def _blocks(x: Floats) -> Iterator[tuple[slice, Floats]]:
    """Cut x (frames, chains, n, 3) into blocks of frames."""
    size = max(1, BLOCK // (x.shape[1] * x.shape[2]))
    slices = (slice(k, k + size) for k in range(0, len(x), size))
    return ((block, x[block]) for block in slices)
