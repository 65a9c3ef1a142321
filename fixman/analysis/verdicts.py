"""Words for what an audit finds: notes, lines of the report, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fixman.analysis.averages import FEWEST_SAMPLES, other_ensemble, with_error
from fixman.analysis.groups import counted

if TYPE_CHECKING:
    from fixman.analysis.audit import AuditReport, GroupReport

NEGLIGIBLE = 0.1  # kT
LARGE = 1.0  # kT
FEWEST_HELD = 5  # samples that tell whether all hard coordinates are held
MANY = 0.9  # fraction of samples: where fewer differ, that is worth a note
SHOWN_GROUPS, SHOWN_NOTES = 3, 10  # in the printed report
SHOWN = 0.001  # smaller spreads are not told from rounding in the printed lines
WITH_TORSIONS = 4  # beads: shorter chains have no torsion within


def notes(group: GroupReport) -> list[str]:
    """Signs of constraints, copies or a drift in the samples of a group."""
    scatter, found = group.scatter, []
    if group.ensemble == "stiff" and scatter.held and group.samples >= FEWEST_HELD:
        if scatter.held == scatter.rows:
            found.append(
                f"no hard coordinate varies more than rounding does ({scatter.loosest}): was this "
                "run constrained, without Fixman's potential? then audit it as-is"
            )
        elif group.samples >= FEWEST_SAMPLES:  # a few rows can agree by chance
            found.append(
                f"{scatter.held} of {scatter.rows} hard coordinates vary no more than rounding "
                "does: a constrained run is rigid in these; audit them alone, as-is"
            )
    if group.constant:
        return found
    enough = min(MANY * group.samples, group.independence.size)
    if group.distinct < enough:
        copies = group.samples - group.distinct
        found.append(f"{copies} of {group.samples} samples repeat others, and count once")
    drift = group.independence.drift
    if abs(drift) >= SHOWN:
        found.append(
            f"the frames drift: ½ ln det H^bb moves by {drift:+.2g} kT from the first to the "
            "last: leave out the equilibration (--start), or run longer"
        )
    return found


def verdict(groups: Sequence[GroupReport]) -> str:
    """Say the finding of the group that the constraints change most, and what to do about it."""
    vague = [group for group in groups if not group.conclusive]
    found = [group for group in groups if group.conclusive]
    worst = max(found or vague, key=lambda group: (not group.constant, group.spread))
    if vague and (worst.constant or worst.spread < NEGLIGIBLE):
        worst = max(vague, key=lambda group: group.samples)
    worst = next((group for group in vague if group.contradicted), worst)
    beside = f" ({worst.label}, of {len(groups)} kinds of molecules)" if len(groups) > 1 else ""
    caveat = ""
    if worst.conclusive and not worst.constant and worst.independent < FEWEST_SAMPLES:
        worth = counted(max(1, round(worst.independent)), "independent sample")
        caveat = f"; but all are worth {worth}: a longer run may have another spread"
    turning = sum(group.scatter.turning for group in groups if group.ensemble == "stiff")
    if turning:
        caveat += (
            f"; but {counted(turning, 'hard torsion')} {'is' if turning == 1 else 'are'} scattered "
            "over the circle: constraining to a mean would change much more than the metric"
        )
    return f"{_finding(worst)}{beside}{caveat}"


def of_frames(groups: Sequence[GroupReport]) -> str:
    """Say what reweighting leaves of frames, if these hold several molecules."""
    molecules = sum(group.half_logdet.shape[1] for group in groups)
    moved = [g for g in groups if g.conclusive and not g.constant and g.spread >= NEGLIGIBLE]
    if molecules == 1 or not moved:
        return ""
    left = math.prod(float(group.share.value) ** group.half_logdet.shape[1] for group in groups)
    share = f"{100.0 * left:.2g} %" if left > 0.001 else "next to none"
    return (
        f". Each molecule is a sample here. The weight of a frame is the product over its "
        f"{molecules} molecules, and leaves {share} of the frames of a long run"
    )


def _finding(group: GroupReport) -> str:
    if group.contradicted:
        return (
            "cannot tell: these samples are not of a run with these constraints "
            f"({group.scatter.loosest}); audit them without as-is, as those of a flexible run"
        )
    if group.constant:
        more = "; if longer chains were expected, the selection fell into pieces"
        return (
            f"nothing can vary: every internal coordinate of a chain of {group.chain.n} beads is "
            f"hard, so that the determinant is constant{more * (group.chain.n < WITH_TORSIONS)}"
        )
    if group.distinct < FEWEST_SAMPLES:
        return (
            f"cannot tell: {counted(group.samples, 'sample')}, {group.distinct} of them distinct: "
            f"{FEWEST_SAMPLES} or more are needed, other than repeated frames or copies of a chain"
        )
    spread = group.spread
    if spread < NEGLIGIBLE:
        bound = f"about {spread:.1g}" if spread >= SHOWN else f"{SHOWN}"
        return (
            f"negligible: no average moves by more than {bound} of its own standard "
            "deviation between rigid and stiff"
        )
    word = "noticeable" if spread < LARGE else "large"
    flexible = "A flexible run needs no correction. A run with these constraints"
    run = flexible if group.ensemble == "stiff" else "This run"
    return (
        f"{word}, {spread:.2g} kT between rigid and stiff. {run} needs weights (det H^bb)^(-1/2) "
        f"(--out weights.csv; in Python log_weights), which leave {group.share.percent} of its "
        "samples, or the Fixman potential (for OpenMM: docs/openmm.md)"
    )


def report(audited: AuditReport) -> str:
    """Return the report as `fixman audit` prints it."""
    where = audited.where or ("as read" if audited.as_is else "at their pooled means")
    rigid, stiff = "rigid, of a run with these constraints", "stiff, of flexible molecules"
    lines = [
        f"hard: {', '.join(audited.hard)} ({where}); rigid against springs of constant stiffness",
        f"assumed ensemble: {rigid if audited.as_is else stiff}",
    ]
    groups = audited.groups
    by_atoms = sorted(groups, key=lambda group: -group.chain.n * group.half_logdet.shape[1])
    most, rest = by_atoms[:SHOWN_GROUPS], by_atoms[SHOWN_GROUPS:]
    for group in sorted(most, key=groups.index):
        lines += _lines(group)
        if len(groups) > 1:
            lines.append(f"  {group.verdict}")
    if rest:
        molecules = sum(group.half_logdet.shape[1] for group in rest)
        lines.append(
            f"and {counted(len(rest), 'kind')} more, {counted(molecules, 'molecule')}, spread up "
            f"to {max(group.spread for group in rest):.3f} kT; --json lists them all"
        )
    lines += [f"note: {note}" for note in audited.remarks[:SHOWN_NOTES]]
    if (more := len(audited.remarks) - SHOWN_NOTES) > 0:
        lines.append(f"note: {more} more; --json lists them all")
    return "\n".join([*lines, f"verdict: {audited.verdict}"])


def _lines(group: GroupReport) -> list[str]:
    numbers = len(group.half_logdet), group.samples, len(group.chain.hard)
    frames, samples, rows = map(counted, numbers, ("frame", "sample", "hard row"))
    one, spread = group.samples == 1, f"{group.spread:.3f}"
    if not (group.vague or group.constant):
        spread = with_error(group.spread, group.spread_error, of=1.0)
    table = {
        "spread of ½ ln det H^bb": "n/a" if one else f"{spread} kT",
        "range": "n/a" if one else f"{group.range:.3f} kT",
        "independent samples behind them": f"{group.independent:.0f}",
        "effective fraction, reweighted": "n/a" if one else str(group.share),
    }
    if group.constant:
        table["effective fraction, reweighted"] = f"{group.share.value:.3f}"
        del table["independent samples behind them"]
    else:
        table |= _sizes(group)
    return [
        f"{group.label}, {frames}: {samples}, {rows}",
        *(f"  {name:<34}{value}" for name, value in table.items()),
    ]


def _sizes(group: GroupReport) -> dict[str, str]:
    symbols = {"mean_square_end_to_end": "⟨R²⟩", "radius_of_gyration": "R_g"}
    table: dict[str, str] = {}
    other = other_ensemble(group.ensemble)
    for name, mean in group.means.items():
        if group.contradicted or not mean.enough:
            have = counted(max(1, int(mean.size)), "independent sample")
            why = "not of these constraints" if group.contradicted else f"only {have}"
            table[f"{symbols[name]}, rigid and stiff"] = f"n/a: {why}"
            continue
        given, reweighted = getattr(mean, group.ensemble), getattr(mean, other)
        table[f"{symbols[name]}, {group.ensemble}: the samples"] = with_error(*given)
        change = with_error(*mean.change, "+", given[0])
        table[f"{symbols[name]}, {other}: reweighted"] = (
            f"{with_error(*reweighted)}; rigid less stiff {change}"
        )
    return table
