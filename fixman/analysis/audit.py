"""Does constraining these coordinates change my ensemble? ½ ln det H^bb over all samples.

Constraining hard coordinates samples ρ_rigid; the limit of equally stiff springs in them is
ρ_stiff = ρ_rigid (det H^bb)^(-1/2). The standard deviation of ½ ln det H^bb in kT, the spread,
bounds to first order what changes: an average ⟨A⟩ moves by −cov(A, ½ ln det H^bb).

Samples of a flexible molecule, set onto the constraints, represent the stiff ensemble. Samples of a
run with constraints, used as they are, represent the rigid one. Weights give the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman._common.statistics import Independence, effective_size, independence
from fixman.analysis import averages, samples, verdicts
from fixman.analysis.averages import Ensemble, EnsembleMean, Share
from fixman.analysis.groups import ChainData, ChainGroup, Indices, counted
from fixman.analysis.samples import Meter, Scatter
from fixman.chains import topology
from fixman.chains.chain import Chain, is_rigid
from fixman.errors import SingularConstraintError

__all__ = ["AuditReport", "ChainGroup", "GroupReport", "audit"]

BLOCK = 1 << 17  # beads handled at a time, which bounds the memory beyond the coordinates
SIZES = ("square_end_to_end", "square_gyration", "fingerprint")
MEANS = ("mean_square_end_to_end", SIZES[0], False), ("radius_of_gyration", SIZES[1], True)  # root


@dataclass(frozen=True, eq=False, repr=False)
class GroupReport:
    """½ ln det H^bb of every frame and chain of one group, and what follows from it.

    half_logdet (frames, chains) is in kT; scatter is how much the hard coordinates vary in the
    samples as read. sizes (frames, chains) are the squared end-to-end distance (linear chains) and
    mass-weighted radius of gyration, and a fingerprint that identifies copies; counts, if asked
    for, are histograms of soft angles and torsions. The samples are those of ensemble.
    """

    chain: Chain
    half_logdet: Array
    scatter: Scatter = field(default_factory=Scatter)
    name: str = ""
    ensemble: Ensemble = "stiff"
    sizes: Mapping[str, Array] = field(default_factory=dict)
    counts: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        frames = counted(len(self.half_logdet), "frame")
        return f"<GroupReport: {self.label}, {frames}; {_brief(self.verdict)}>"

    @property
    def label(self) -> str:
        """Contents of the group in a few words."""
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

    @cached_property
    def spread_error(self) -> float:
        """Standard error of `spread`, with regard to correlations in time."""
        return averages.spread_error(self.half_logdet)

    @property
    def range(self) -> float:
        """Largest minus smallest ½ ln det H^bb in kT."""
        return float(np.ptp(self.half_logdet))

    @property
    def constant(self) -> bool:
        """Whether no internal coordinate is soft, so that constraints leave one shape."""
        return is_rigid(self.chain)

    @cached_property
    def share(self) -> Share:
        """Kish's share of a rigid run that weights (det H^bb)^(-1/2), rigid → stiff, leave."""
        share = averages.share_left(self.half_logdet, self.ensemble)
        return share._replace(enough=share.enough and self.distinct >= averages.FEWEST_SAMPLES)

    @cached_property
    def distinct(self) -> int:
        """How many samples differ: repeated frames and copies of one chain count once."""
        return averages.distinct(self.half_logdet, *self.sizes.values())

    @cached_property
    def independence(self) -> Independence:
        """Correlations of the samples in time and within frames, and their drift."""
        # Rounding, where nothing else varies, drifts as it likes.
        varies = self.range >= averages.SAME_LOGDET
        return independence(self.half_logdet if varies else np.zeros(self.half_logdet.shape))

    @property
    def independent(self) -> float:
        """How many independent samples the spread rests on."""
        return min(self.independence.size, float(self.distinct))

    @property
    def reweightable(self) -> bool:
        """Whether the samples are enough for distributions in the other ensemble."""
        if self.contradicted:
            return False
        sign = 1.0 if self.ensemble == "stiff" else -1.0
        share = effective_size(sign * self.half_logdet) / self.samples
        return share * self.independent >= averages.FEWEST_SAMPLES

    @property
    def contradicted(self) -> bool:
        """Whether the hard coordinates of samples said to be rigid vary."""
        return self.ensemble == "rigid" and self.scatter.held < self.scatter.rows

    @property
    def conclusive(self) -> bool:
        """Whether there is a finding."""
        return (self.constant or self.distinct >= averages.FEWEST_SAMPLES) and not self.contradicted

    @property
    def notes(self) -> tuple[str, ...]:
        """Signs of constraints, copies or a drift in the samples."""
        return tuple(f"{self.label}: {note}" for note in verdicts.notes(self))

    @cached_property
    def means(self) -> dict[str, EnsembleMean]:
        """⟨R²⟩ of linear chains and R_g = ⟨R_g²⟩^(1/2), stiff and rigid."""
        half, differ = self.half_logdet, self.distinct
        return {
            name: averages.average(self.sizes[key], half, self.ensemble, root, differ)
            for name, key, root in MEANS
            if key in self.sizes
        }

    def densities(self, kind: Literal["angles", "torsions"]) -> dict[Ensemble, Array] | None:
        """Distribution of the soft angles or torsions in each ensemble, per radian, if counted.

        The reweighted one is left out where the samples are too few.
        """
        counts = self.counts.get(kind)
        if counts is None or not np.any(counts):
            return None
        edges = samples.ANGLE_EDGES if kind == "angles" else samples.TORSION_EDGES
        found = {self.ensemble: np.sum(counts, axis=(0, 1))}
        if self.reweightable:
            weights = averages.weights_to_other(self.half_logdet, self.ensemble)
            found[averages.other_ensemble(self.ensemble)] = np.einsum("fc,fcb->b", weights, counts)
        return {name: each / (np.sum(each) * np.diff(edges)) for name, each in found.items()}

    @property
    def verdict(self) -> str:
        """The spread in words, and what to do about it."""
        return verdicts.verdict([self])

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
            "spread_kT": None if one else self.spread,
            "spread_error_kT": None if self.vague else self.spread_error,
            "range_kT": None if one else self.range,
            "effective_fraction": None if one else self.share.value,
            "effective_fraction_error": self.share.error if self.share.enough else None,
            "independent_samples": self.independent,
            "distinct_samples": self.distinct,
            "drift_kT": self.independence.drift,
            "scatter": self.scatter._asdict(),
            "means": {} if self.contradicted else {k: m.as_dict() for k, m in self.means.items()},
            "verdict": self.verdict,
        }

    @property
    def vague(self) -> bool:
        """Whether independent samples are too few for the error of the spread."""
        return self.independent < averages.FEWEST_SAMPLES and not self.constant


@dataclass(frozen=True, eq=False, repr=False)
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
            measured = {name: found[number] for name, found in analysis.results.items()}
            groups.append(_report(meter, measured, as_is, analysis.scatter[number]))
        where = "" if as_is or analysis.means else "at given values"
        return cls(analysis.hard, as_is, tuple(groups), (*notes, *analysis.notes), where)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Signs in the samples of each group, and the notes."""
        return (*(note for group in self.groups for note in group.notes), *self.notes)

    @property
    def log_weights(self) -> Array:
        """Logarithms of the weights of the frames (frames,), which lead to the other ensemble.

        The weight of a frame is the product over all its molecules, those of all groups; the
        largest is 1. Errors and averages of a `GroupReport` weight each molecule by itself.
        """
        total = sum(np.sum(group.half_logdet, axis=1) for group in self.groups)
        signed = -total if self.as_is else total
        return np.asarray(signed - np.max(signed))

    @property
    def verdict(self) -> str:
        """The verdict of the group that the constraints change most, and of whole frames."""
        return verdicts.verdict(self.groups) + verdicts.of_frames(self.groups)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the samples themselves, ready for JSON."""
        return {
            "hard": list(self.hard),
            "as_is": self.as_is,
            "samples_taken_as": "rigid" if self.as_is else "stiff",
            "limit": "equal-stiffness springs in the hard coordinates, stiffness to infinity",
            "groups": [group.as_dict() for group in self.groups],
            "notes": list(self.remarks),
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        """Return the report as `fixman audit` prints it."""
        return verdicts.report(self)

    def __repr__(self) -> str:
        groups = ", ".join(group.label for group in self.groups[:3])
        more = ", …" * (len(self.groups) > 3)
        return f"<AuditReport: {', '.join(self.hard)}; {groups}{more}; {_brief(self.verdict)}>"


def _brief(verdict: str) -> str:
    return re.split(r": |\. ", verdict, maxsplit=1)[0]


def audit(
    groups: ChainData | Sequence[ChainGroup],
    hard: str | Sequence[str] = ("length",),
    *,
    as_is: bool = False,
    histograms: bool = False,
    notes: Sequence[str] = (),
) -> AuditReport:
    """Evaluate ½ ln det H^bb of every frame and chain, group by group.

    The hard coordinates are first set to their pooled means, as constraints would set them; `as_is`
    skips this. Hard bends that are straight except for thermal motion are held straight, and
    dependent rows are left out; notes say so. `hard` are words as in `Chain.from_bonds`; `groups`
    is what `read_chains` returns, or groups of x (frames, chains, n, 3) and masses (n,).
    `histograms` counts soft angles and torsions as well, and `notes` join the report's own. O(n) a
    sample. `MetricAnalysis` does the same from a trajectory, frame by frame and in parallel.

    ValueError where no group has a hard coordinate, a group has no samples, or groups have
    different numbers of frames; and what `Chain`, `logdet` and `project` raise.
    """
    names, as_is = samples.hard_names(hard), arrays.flag(as_is, "as_is")
    notes = arrays.list_of(notes, "notes", "words")
    histograms = arrays.flag(histograms, "histograms")
    if isinstance(groups, ChainData):
        notes, frames, groups = [*groups.notes, *notes], groups.frames, groups.groups
    else:
        groups = arrays.list_of(groups, "groups", "ChainGroup", ChainGroup)
        frames = np.arange(max((len(np.atleast_1d(group.x)) for group in groups), default=0))
    checked = [_checked(group, number, frames) for number, group in enumerate(groups)]
    looks = [samples.thinned(group.x)[samples.evenly(len(frames))] for group in checked]
    found, remarks = samples.meters(checked, hard, looks=looks)
    reports = [_measured(meter, frames, as_is, histograms) for meter in found]
    return AuditReport(names, as_is, tuple(reports), (*notes, *remarks))


def _measured(meter: Meter, frames: Indices, as_is: bool, histograms: bool) -> GroupReport:
    assert isinstance(meter.molecules, ChainGroup)
    x = meter.molecules.x
    sums = _by_block(x, frames, meter.sums)
    means, deviations = meter.means(sums, len(x) * x.shape[1])
    act = partial(meter.measure, values=None if as_is else means, histograms=histograms)
    measured = _by_block(x, frames, act)
    return _report(meter, measured, as_is, meter.scatter(means, deviations))


def _by_block(
    x: Array, frames: Indices, act: Callable[[Array], dict[str, npt.NDArray[Any]]]
) -> dict[str, npt.NDArray[Any]]:
    size = max(1, BLOCK // (x.shape[1] * x.shape[2]))
    parts = []
    for first in range(0, len(x), size):
        with samples.numbered(frames[first : first + size]):
            parts.append(act(x[first : first + size]))
    return {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def _checked(group: ChainGroup, number: int, frames: Indices) -> ChainGroup:
    x = arrays.real(group.x, (np.size(group.masses), 3), f"x of group {number}")
    if x.ndim != 4 or not x.size:
        shape = "(frames, chains, n, 3) with at least one of each"
        raise ValueError(f"x of group {number} must have shape {shape}, got {x.shape}")
    if len(x) != len(frames):
        raise ValueError(f"the groups have different numbers of frames: {len(x)}, {len(frames)}")
    if group.bonds is not None:
        group = replace(group, bonds=topology.pairs_of(group.bonds, f"bonds of group {number}"))
        topology.spanning_tree(x.shape[2], group.pairs)  # refuses bonds of no one molecule
    with samples.numbered(frames):
        arrays.require_finite(x, x.shape[2:], f"x of group {number}")
        one, two = group.pairs.T
        coincide = np.argwhere(~np.any(x[:, :, two] - x[:, :, one], axis=3))
        if coincide.size:
            frame, chain, bond = coincide[0]
            raise SingularConstraintError(
                f"bead {one[bond]} and bead {two[bond]} of group {number}",
                " coincide: their bond has no direction",
                frame=(int(frame), int(chain)),
                beads=(one[bond], two[bond]),
            )
    atoms = topology.integers(group.atoms, f"atoms of group {number}")
    if atoms.shape != x.shape[1:3]:
        said = f"atoms of group {number} must have shape (chains, n), {x.shape[1:3]}"
        raise ValueError(f"{said}, got {atoms.shape}")
    return replace(group, masses=arrays.masses(group.masses, x.shape[2]), x=x)


def _report(
    meter: Meter, measured: Mapping[str, Any], as_is: bool, scatter: Scatter
) -> GroupReport:
    found = {name: array for name, array in measured.items() if array is not None}
    half = found["half_logdet"]
    return GroupReport(
        meter.chain,
        half,
        scatter,
        meter.molecules.label(),
        "rigid" if as_is else "stiff",
        {name: found[name] for name in SIZES if name in found},
        {name: found[name] for name in ("angles", "torsions") if name in found},
    )
