"""Does constraining these coordinates change my ensemble? ½ ln det H^bb over all samples.

Constraining hard coordinates samples ρ_rigid; the limit of equally stiff springs in them is
ρ_stiff = ρ_rigid (det H^bb)^(-1/2). Only the variation of ½ ln det H^bb from sample to sample
matters: its standard deviation in kT, the spread, bounds to first order what changes, since an
average ⟨A⟩ moves by −cov(A, ½ ln det H^bb), at most the spread times the standard deviation of A.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from fixman import _arrays
from fixman.chain import Chain
from fixman.errors import SingularConstraintError
from fixman.io.groups import ChainGroup
from fixman.metric import logdet

Floats = npt.NDArray[np.float64]

FEWEST_SAMPLES = 20  # fewer do not tell a spread
NEGLIGIBLE = 0.1  # kT
LARGE = 1.0  # kT
SHOWN = 0.001  # smaller spreads are not told from rounding in the printed lines
WITH_TORSIONS = 4  # beads: shorter chains have no torsion within
SCATTERED = 0.5  # a resultant below this leaves a circular mean without meaning
BLOCK = 1 << 17  # beads handled at a time, which bounds the memory beyond the coordinates

# A half turn about an odd axis, its own inverse: the chart of a free chain is singular where the
# first bond points along e_x, as it often does in lattices and in structures built by hand.
_AXIS = np.sqrt([1.0, 2.0, 3.0])
TURN = 2.0 * np.outer(_AXIS, _AXIS) / 6.0 - np.eye(3)


@dataclass(frozen=True, eq=False)
class GroupReport:
    """½ ln det H^bb of every frame and chain of one group, and what follows from it.

    half_logdet (frames, chains) in kT; mean_bond in the input's unit of length; scattered counts
    the hard torsions that have no meaningful mean to be constrained to.
    """

    chain: Chain
    half_logdet: Floats = field(repr=False)
    mean_bond: float
    scattered: int = 0

    @property
    def label(self) -> str:
        """What the group consists of, in a few words."""
        return f"{_count(self.half_logdet.shape[1], 'chain')} of {self.chain.n} beads"

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
        soft = (self.chain.coordinates[row].beads for row in self.chain.soft)
        return not any(len(beads) > 1 and min(beads) >= 0 for beads in soft)

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
        log_weights = -self.half_logdet.ravel()
        log_size = 2.0 * logsumexp(log_weights) - logsumexp(2.0 * log_weights)
        return float(np.exp(log_size)) / self.samples

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
            have = _count(self.samples, "sample")
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
            "verdict": self.verdict,
        }


@dataclass(frozen=True, eq=False)
class AuditReport:
    """One report per group of equal chains, and the verdict over all of them."""

    hard: tuple[str, ...]
    as_is: bool
    groups: tuple[GroupReport, ...]
    notes: tuple[str, ...] = ()

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
            "limit": "equal-stiffness springs in the hard coordinates, stiffness to infinity",
            "groups": [group.as_dict() for group in self.groups],
            "notes": list(self.notes),
            "verdict": self.verdict,
        }

    def __str__(self) -> str:
        """Return the report as `fixman audit` prints it."""
        where = "as read" if self.as_is else "at their pooled means"
        lines = [f"hard: {', '.join(self.hard)} ({where}); rigid against equally stiff springs"]
        for group in self.groups:
            frames = _count(group.half_logdet.shape[0], "frame")
            samples = _count(group.samples, "sample")
            rows = _count(len(group.chain.hard), "hard row")
            one = group.samples == 1
            spread = "n/a" if one else f"{group.spread:.3f} kT"
            reach = "n/a" if one else f"{group.range:.3f} kT"
            effective = "n/a" if one else f"{group.effective_fraction:.3f}"
            lines += [
                f"{group.label}, {frames}: {samples}, {rows}",
                f"  spread of ½ ln det H^bb           {spread}",
                f"  range                             {reach}",
                f"  mean per hard row, without units  {group.mean_per_row:.4f} kT",
                f"  effective fraction, reweighted    {effective}",
            ]
            if len(self.groups) > 1:
                lines.append(f"  {group.verdict}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join([*lines, f"verdict: {self.verdict}"])


def audit(
    groups: Sequence[ChainGroup],
    hard: Sequence[str] = ("length",),
    *,
    as_is: bool = False,
    notes: Sequence[str] = (),
) -> AuditReport:
    """Evaluate ½ ln det H^bb of every frame and chain, group by group.

    The hard coordinates are first set to their pooled means (`set_hard`), as constraining them
    would; `as_is` skips that. Groups are x (frames, chains, n, 3) and masses (n,), and must be in
    memory; intermediates are blocks of about 10⁵ beads. O(n) per sample. `notes` (the reader's)
    join the report's own.

    Raises ValueError where no group has a hard coordinate or a group has no samples, and what
    `Chain` and `logdet` raise.
    """
    if isinstance(hard, str) or not len(hard):
        raise ValueError(f"hard must be a tuple of kinds such as ('length', 'angle'), got {hard!r}")
    reports, remarks = [], list(notes)
    for number, group in enumerate(groups):
        x = _samples(group, number)
        _, chains, n, _ = x.shape
        chain = Chain.linear(n, masses=group.masses, hard=tuple(hard))
        if not len(chain.hard):
            remarks.append(
                f"skipped {_count(chains, 'chain')} of {_count(n, 'bead')}: "
                f"too short for {', '.join(hard)}"
            )
            continue
        means, scattered = (np.empty(0), 0) if as_is else pooled_means(chain, x)
        half = np.empty(x.shape[:2])
        bonds = 0.0
        for block, part in _blocks(x):
            bonds += float(np.sum(np.linalg.norm(np.diff(part, axis=-2), axis=-1)))
            with _counting_from(block.start):
                half[block] = 0.5 * logdet(chain, part if as_is else set_hard(chain, part, means))
        reports.append(GroupReport(chain, half, bonds / (half.size * (n - 1)), scattered))
    if not reports:
        raise ValueError(f"no chain has a hard coordinate among {', '.join(hard)}")
    return AuditReport(tuple(hard), as_is, tuple(reports), tuple(remarks))


def _samples(group: ChainGroup, number: int) -> Floats:
    """Refuse what no later step could explain: shapes, no samples, NaN, coincident neighbours."""
    x = _arrays.real(group.x, (np.size(group.masses), 3), f"x of group {number}")
    if x.ndim != 4 or not x.size:
        raise ValueError(
            f"x of group {number} must have shape (frames, chains, n, 3) with at least one of each"
            f", got {x.shape}"
        )
    _arrays.require_finite(x, x.shape[2:], f"x of group {number}")
    coincide = np.argwhere(~np.any(np.diff(x, axis=2), axis=3))
    if coincide.size:
        frame, chain, bead = coincide[0]
        raise SingularConstraintError(
            f"bead {bead} and bead {bead + 1} of chain {chain} in frame {frame} of group {number} "
            "coincide: their bond has no direction"
        )
    return x


def pooled_means(chain: Chain, x: Floats) -> tuple[Floats, int]:
    """Mean of every hard coordinate over x (frames, chains, n, 3), and how many torsions scatter.

    Lengths and angles: arithmetic means. Torsions: circular means arg ⟨e^{iφ}⟩.
    """
    torsion = np.array([kind == "torsion" for kind in _kinds(chain)])
    plain = np.zeros(len(chain.hard))
    turning = np.zeros(len(chain.hard), dtype=np.complex128)
    for block, part in _blocks(x):
        if _only_lengths(chain):
            q = np.linalg.norm(np.diff(part, axis=-2), axis=-1)
        else:
            with _counting_from(block.start):
                q = chain.internal(part @ TURN)[..., chain.hard]
            turning += np.sum(np.exp(1j * q), axis=(0, 1))
        plain += np.sum(q, axis=(0, 1))
    samples = x.shape[0] * x.shape[1]
    scattered = torsion & (np.abs(turning) < SCATTERED * samples)
    return np.where(torsion, np.angle(turning), plain / samples), int(np.sum(scattered))


def set_hard(chain: Chain, x: Floats, values: Floats) -> Floats:
    """Give x (..., n, 3) the hard values (n_hard,) and keep every other internal coordinate.

    Where only lengths are hard, bonds keep their directions, which straight chains allow as well.
    """
    if _only_lengths(chain):
        bonds = np.diff(x, axis=-2)
        bonds *= (values / np.linalg.norm(bonds, axis=-1))[..., None]
        return np.cumsum(np.concatenate([x[..., :1, :], bonds], axis=-2), axis=-2)
    q = chain.internal(x @ TURN)
    q[..., chain.hard] = values
    return chain.cartesian(q) @ TURN


@contextmanager
def _counting_from(frame: int) -> Iterator[None]:
    """Say in errors where a block's (frame, chain) are counted from."""
    try:
        yield
    except ValueError as error:
        counted = f"{error} (frame, chain; counting from frame {frame} of those read)"
        raise type(error)(counted) from error


def _warning(scattered: int) -> str:
    """Qualify a verdict where constraining torsions means more than the metric."""
    if not scattered:
        return ""
    are = "is" if scattered == 1 else "are"
    return (
        f"; but {_count(scattered, 'hard torsion')} {are} scattered over the circle: constraining "
        "to a mean would change much more than the metric"
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s'[: number != 1]}"


def _kinds(chain: Chain) -> list[str]:
    return [chain.coordinates[row].kind for row in chain.hard]


def _only_lengths(chain: Chain) -> bool:
    return set(_kinds(chain)) == {"length"}


def _blocks(x: Floats) -> Iterator[tuple[slice, Floats]]:
    """Cut x (frames, chains, n, 3) into blocks of frames."""
    size = max(1, BLOCK // (x.shape[1] * x.shape[2]))
    slices = (slice(k, k + size) for k in range(0, len(x), size))
    return ((block, x[block]) for block in slices)
