"""Words for what an audit finds: notes, lines of the report, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fixman.analysis.averages import FEWEST_SAMPLES, other_ensemble, with_error
from fixman.analysis.groups import counted
from fixman.analysis.samples import few_of_a_kind

if TYPE_CHECKING:
    from fixman.analysis.audit import AuditReport, GroupReport

NEGLIGIBLE = 0.1  # kT
LARGE = 1.0  # kT
MANY = 0.9  # fraction of samples: where fewer differ, that is worth a note
SHOWN_GROUPS = 3  # in the printed report
SHOWN = 0.001  # smaller spreads are not told from rounding in the printed lines
WITH_TORSIONS = 4  # beads: shorter chains have no torsion within
READY = "for OpenMM: docs/openmm.md"

# --- notes ----------------------------------------------------------------------------------------


def notes(group: GroupReport) -> list[str]:
    """Say what the samples of a group give away: constraints, copies, a drift."""
    found = [] if group.ensemble == "rigid" else _of_scatter(group)
    if group.constant:
        return found
    enough = min(MANY * group.samples, group.independence.size)
    if group.varies and group.distinct < enough:
        copies = group.samples - group.distinct
        found.append(f"{copies} of {group.samples} samples repeat others, and count once")
    drift, apart = group.independence.drift, group.independence.apart
    if abs(drift) >= SHOWN:
        found.append(
            f"the frames drift: ½ ln det H^bb moves by {drift:+.2g} kT from the first to the "
            "last: leave out the equilibration (--start), or run longer"
        )
    elif apart >= SHOWN:
        found.append(
            f"the frames differ as wholes, their means by {apart:.2g} kT: the chains of a frame "
            "are not independent"
        )
    return found


def _of_scatter(group: GroupReport) -> list[str]:
    """Say where flexible samples look constrained, or looser than any stiff spring."""
    scatter, found = group.scatter, []
    if scatter is None:
        return []
    if scatter.held == scatter.rows and group.samples >= FEWEST_SAMPLES:
        found.append(
            f"no hard coordinate varies more than rounding does ({scatter.loosest}): was this run "
            "constrained, without Fixman's potential? then audit it as-is"
        )
    elif scatter.held and group.samples >= FEWEST_SAMPLES:
        found.append(
            f"{scatter.held} of {scatter.rows} hard coordinates vary no more than rounding does: a "
            "run with constraints on these is rigid in them, and counts as stiff only where an "
            "audit of them alone, as-is, finds little"
        )
    if scatter.loose:
        found.append(
            f"{scatter.loose} of {scatter.rows} hard coordinates vary as under no stiff spring, by "
            f"up to {scatter.loose_by}: constraining to a mean would change more than the metric, "
            "and this is about the metric alone"
        )
    return found


# --- the verdict ----------------------------------------------------------------------------------


def verdict(groups: Sequence[GroupReport]) -> str:
    """Say the finding of the group that the constraints change most, and what to do about it."""
    vague = [group for group in groups if not group.conclusive]
    found = [group for group in groups if group.conclusive]
    worst = max(found or vague, key=lambda group: (not group.constant, group.spread))
    if vague and (worst.constant or worst.spread < NEGLIGIBLE):
        worst = max(vague, key=lambda group: group.samples)
    worst = next((group for group in vague if group.contradicted), worst)
    others = [group for group in groups if group is not worst]
    if not others:
        beside = ""
    elif all(group.constant for group in others) and not worst.constant:
        one = others[0].label if len(others) == 1 else "the others"
        beside = f" ({worst.label}; nothing can vary in {one})"
    elif worst.conclusive:
        beside = f" ({worst.label}; the worst of {len(groups)} kinds of molecules)"
    elif len(vague) == 1 and not worst.contradicted:
        beside = f" ({worst.label}; what can be told of the others is negligible)"
    else:
        beside = f" ({worst.label}; one of {len(groups)} kinds of molecules)"
    return f"{_finding(worst)}{beside}{_caveat(worst)}{_warning(groups)}"


def _caveat(group: GroupReport) -> str:
    few = group.independent < FEWEST_SAMPLES and not group.bounded
    if not group.conclusive or group.constant or not few:
        return ""
    worth = counted(max(1, int(group.independent)), "independent sample")
    drift = "the frames drift, and " if abs(group.independence.drift) >= SHOWN else ""
    return f"; but {drift}all are worth {worth}: a longer run may have another spread"


def _warning(groups: Sequence[GroupReport]) -> str:
    """Qualify a verdict where constraining torsions means more than the metric."""
    turning = sum(g.scatter.turning for g in groups if g.scatter and g.ensemble == "stiff")
    if not turning:
        return ""
    return (
        f"; but {counted(turning, 'hard torsion')} {'is' if turning == 1 else 'are'} scattered "
        "over the circle: constraining to a mean would change much more than the metric"
    )


def _finding(group: GroupReport) -> str:
    if group.contradicted and group.scatter:
        return (
            "cannot tell: these samples are not of a run with these constraints "
            f"({group.scatter.loosest}); audit them without as-is, as those of a flexible run"
        )
    if group.constant:
        n = group.chain.n
        found = (
            f"nothing can vary: every internal coordinate of a chain of {n} beads is hard, so "
            "that the determinant is constant"
        )
        if n >= WITH_TORSIONS:
            return found
        return (
            f"{found}; if longer chains were expected, the selection fell into pieces: select "
            "the atoms that join them too"
        )
    if group.distinct < FEWEST_SAMPLES and not group.bounded:
        have = counted(group.samples, "sample")
        if group.samples < FEWEST_SAMPLES:
            return f"cannot tell: {have}, {FEWEST_SAMPLES} or more are needed"
        differ = f"{group.distinct} {'is' if group.distinct == 1 else 'are'} distinct"
        return (
            f"cannot tell: {have}, of which {differ} and the others identical, as repeated "
            f"frames or copies of one chain; {FEWEST_SAMPLES} distinct ones or more are needed"
        )
    few = group.independent < FEWEST_SAMPLES and group.bounded
    spread = group.largest_spread if few else group.spread
    if spread < NEGLIGIBLE:
        bound = f"about {spread:.1g}" if spread >= SHOWN else f"{SHOWN}"
        told = f", as far as {counted(group.distinct, 'sample')} can tell" if few else ""
        return (
            f"negligible{told}: no average moves by more than {bound} of its own standard "
            "deviation between rigid and stiff"
        )
    return _remedy(group, spread)


def _remedy(group: GroupReport, spread: float) -> str:
    size = f"{spread:.2g} kT between rigid and stiff"
    share, rigid = f"{group.share.percent} of", group.ensemble == "rigid"
    these = "these frames" if group.half_logdet.shape[1] == 1 else "each of these molecules"
    flexible = f"{size}: a flexible run needs no correction; one with these constraints needs"
    if spread < LARGE and rigid:
        return (
            f"noticeable, {size}: reweight {these} by (det H^bb)^(-1/2), which leaves "
            f"{share} the samples, or add the Fixman potential to the run ({READY})"
        )
    if spread < LARGE:
        return (
            f"noticeable, {flexible} weights (det H^bb)^(-1/2), which leave {share} its samples, "
            f"or the Fixman potential ({READY})"
        )
    if rigid:
        return (
            f"large, {size}: run again with the Fixman potential ½ kT ln det H^bb ({READY}), "
            f"or without these constraints; to reweight {these} leaves {share} the samples"
        )
    return (
        f"large, {flexible} the Fixman potential ½ kT ln det H^bb ({READY}), since weights would "
        f"leave {share} its samples"
    )


# --- the report -----------------------------------------------------------------------------------


def report(audited: AuditReport) -> str:
    """Return the report as `fixman audit` prints it."""
    where = audited.where or ("as read" if audited.as_is else "at their pooled means")
    rigid, stiff = "rigid, of a run with these constraints", "stiff, of flexible molecules"
    lines = [
        f"hard: {', '.join(audited.hard)} ({where}); rigid against equally stiff springs",
        f"samples taken for {rigid if audited.as_is else stiff}",
    ]
    groups = audited.groups
    # Those with most atoms, in their order.
    atoms = [group.chain.n * group.half_logdet.shape[1] for group in groups]
    first = sorted(range(len(groups)), key=lambda k: -atoms[k])[:SHOWN_GROUPS]
    for k in sorted(first):
        lines += _lines(groups[k])
        if len(groups) > 1:
            lines.append(f"  {groups[k].verdict}")
    lines += _rest([group for k, group in enumerate(groups) if k not in first])
    lines += [f"note: {note}" for note in few_of_a_kind(audited.remarks)]
    return "\n".join([*lines, f"verdict: {audited.verdict}"])


def _rest(groups: Sequence[GroupReport]) -> list[str]:
    if not groups:
        return []
    beads = [group.chain.n for group in groups]
    molecules = sum(group.half_logdet.shape[1] for group in groups)
    sizes = f"{min(beads)} to {max(beads)}" if min(beads) < max(beads) else f"{beads[0]}"
    spreads = [group.spread for group in groups if group.samples > 1]
    found = f"spread up to {max(spreads):.3f} kT" if spreads else "one sample each"
    return [
        f"and {counted(len(groups), 'kind')} more, {counted(molecules, 'molecule')} of {sizes} "
        f"beads, {found}; --json lists them all"
    ]


def _lines(group: GroupReport) -> list[str]:
    frames = counted(group.half_logdet.shape[0], "frame")
    samples = counted(group.samples, "sample")
    rows = counted(len(group.chain.hard), "hard row")
    one = group.samples == 1
    spread = f"{group.spread:.3f}"
    if not (group.vague or group.constant):
        spread = with_error(group.spread, group.spread_error, of=1.0)
    table = {
        "spread of ½ ln det H^bb": "n/a" if one else f"{spread} kT",
        "range": "n/a" if one else f"{group.range:.3f} kT",
        "independent samples behind them": f"{group.independent:.0f}",
        "mean per hard row, without units": f"{group.mean_per_row:.4f} kT",
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
            why = "not of these constraints" if group.contradicted else f"worth {have}"
            table[f"{symbols[name]}, rigid and stiff"] = f"n/a: {why}"
            continue
        given, reweighted = getattr(mean, group.ensemble), getattr(mean, other)
        table[f"{symbols[name]}, {group.ensemble}: the samples"] = with_error(*given)
        change = with_error(*mean.change, "+", given[0])
        table[f"{symbols[name]}, {other}: reweighted"] = (
            f"{with_error(*reweighted)}; rigid less stiff {change}"
        )
    return table
