"""How large the Fixman correction is in real trajectories, per set of hard coordinates.

Above, the spread of ½ ln det H^bb over whole molecules: adenylate kinase on its way between two
states, 98 frames, and the 24 chains of a polyamide melt, from the files of MDAnalysisTests; with
``--melt FILE`` a bead-spring melt as well, such as the equilibrated one among LAMMPS's benchmarks
(a data file of atom style bond).  The lines are what `fixman audit` calls negligible and large.

Below, the same over pieces of backbones, against the number of their beads: it grows as its root.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from dataclasses import replace
from pathlib import Path

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import numpy as np
from _output import Output, panels, plot
from MDAnalysisTests.datafiles import DCD, PSF, LAMMPSdata

from fixman.analysis.audit import GroupReport, audit
from fixman.analysis.groups import ChainGroup
from fixman.analysis.verdicts import LARGE, NEGLIGIBLE
from fixman.io.mdanalysis import read_chains

BONDS, BENDS = ("length",), ("length", "angle")
SETS = {  # of coordinates; angles in rings, if their torsions are soft, have no common means
    "backbone": (BONDS, BENDS),
    "molecule": (BONDS, "h-bonds", "torsional"),
}
PROTEIN, POLYAMIDE, MELT = "adenylate kinase", "polyamide", "bead-spring melt"
NAMES = {BONDS: "bonds", BENDS: "bonds and angles"}
NAMES |= {"h-bonds": "bonds to H", "torsional": "all but torsions"}


def systems(melt: Path | None, step: int) -> dict[tuple[str, str], ChainGroup]:
    """Read (name, backbone or whole molecule): the largest group of each selection."""
    full = {"atom_style": "full"}
    given = {
        (PROTEIN, "backbone"): (PSF, DCD, {"select": "name N CA C", "step": step}),
        (PROTEIN, "molecule"): (PSF, DCD, {"select": "protein", "step": step}),
        (POLYAMIDE, "backbone"): (LAMMPSdata, None, {"select": "type 3 4 5", **full}),
        (POLYAMIDE, "molecule"): (LAMMPSdata, None, {"select": "all", **full}),
    }
    if melt is None:
        print(f"{MELT}: no file given (--melt FILE), left out")
    else:
        style = {"select": "all", "atom_style": "id resid type x y z"}
        given[MELT, "backbone"] = (melt, None, style)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="MDAnalysis")
        found = {
            key: read_chains(*files, **options).groups for key, (*files, options) in given.items()
        }
    return {key: max(groups, key=lambda group: group.x.size) for key, groups in found.items()}


def pieces(group: ChainGroup, hard: tuple[str, ...], n: int) -> float:
    """Return the root mean square spread of pieces of n beads, each place on its own."""
    places = range(0, len(group.masses) - n + 1, n)
    parts = [
        ChainGroup(group.masses[k : k + n], group.atoms[:, k : k + n], group.x[:, :, k : k + n])
        for k in places
    ]
    return float(np.sqrt(np.mean([part.spread**2 for part in audit(parts, hard).groups])))


def measure(
    groups: dict[tuple[str, str], ChainGroup], sizes: list[int]
) -> tuple[dict[tuple[str, str, str], GroupReport], dict[tuple[str, str], list[tuple[int, float]]]]:
    reports, lines = {}, {}
    for (name, part), group in groups.items():
        if np.max(group.masses) < 1.0:  # kg/mol; hydrogens are told by their mass in amu
            group = replace(group, masses=1e3 * group.masses)
        for hard in SETS[part]:
            report = audit([group], hard).groups[0]
            reports[name, part, NAMES[hard]] = report
            size = report.verdict.split(",")[0].split(":")[0]
            print(f"{name}, {part}, {NAMES[hard]}: {report.spread:.3f} kT, {size}")
        if part == "backbone":
            for hard in SETS[part]:
                used = [n for n in sizes if n <= len(group.masses)]
                lines[name, NAMES[hard]] = [(n, pieces(group, hard, n)) for n in used]
    return reports, lines


def draw(
    out: Output,
    reports: dict[tuple[str, str, str], GroupReport],
    lines: dict[tuple[str, str], list[tuple[int, float]]],
) -> None:
    colors = dict(zip((PROTEIN, POLYAMIDE, MELT), plot.PALETTE, strict=False))
    with plot.style():
        finding = (
            "Rigid bonds matter little in a molecule, rigid angles much; both grow with length"
        )
        fig, (left, right) = panels(finding, 1, 2, aspect=0.5, width_ratios=(1.15, 1.0))
        draw_bars(left, reports, colors)
        draw_growth(right, lines, colors)
        out.save(fig)


def draw_bars(
    ax: plot.Axes, reports: dict[tuple[str, str, str], GroupReport], colors: dict[str, str]
) -> None:
    labels: list[tuple[str, str]] = []  # and their colours
    for name, color in colors.items():
        mine = {key: report for key, report in reports.items() if key[0] == name}
        if mine:
            labels.append((name, color))
        for (_, part, hard), report in mine.items():
            ax.barh(len(labels), max(report.spread, 1.2e-3), color=color, height=0.7)
            labels.append((f"{part}: {hard}", "black"))
    ax.set_yticks(range(len(labels)), [label for label, _ in labels])
    for tick, (_, color) in zip(ax.get_yticklabels(), labels, strict=True):
        tick.set_color(color)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xscale("log")
    ax.set_xlim(1e-3, 5.0)
    for limit, word, side in ((NEGLIGIBLE, "negligible", "right"), (LARGE, "large", "left")):
        ax.axvline(limit, color="0.6", linewidth=0.6, linestyle="--")
        above = {"xycoords": ("data", "axes fraction"), "va": "bottom", "fontsize": 7}
        ax.annotate(f" {word} ", (limit, 1.0), color="0.4", ha=side, **above)
    ax.set_xlabel(r"spread of $\frac{1}{2}\ln\det H^{bb}$  (kT)")


def draw_growth(
    ax: plot.Axes, lines: dict[tuple[str, str], list[tuple[int, float]]], colors: dict[str, str]
) -> None:
    looks = {NAMES[BONDS]: ("o", "-"), NAMES[BENDS]: ("s", "--")}
    for (name, hard), points in lines.items():
        n, spread = np.array(points).T
        marker, line = looks[hard]
        ax.loglog(n, spread, color=colors[name], marker=marker, linestyle=line)
    for name in dict.fromkeys(name for name, _ in lines):
        ax.plot([], [], color=colors[name], label=name)
    for hard, (marker, line) in looks.items():
        ax.plot([], [], color="0.4", marker=marker, linestyle=line, label=hard)
    n = np.array([10.0, 600.0])
    ax.loglog(n, 0.023 * np.sqrt(n), color="0.6", linewidth=0.6)
    ax.annotate(r"$\sqrt{n}$", (600.0, 0.56), color="0.4", va="top", ha="left", fontsize=7)
    ax.set_ylim(1.5e-3, 4.0)
    ax.set_xlabel("beads of a piece  $n$")
    ax.set_ylabel("spread  (kT)")
    ax.legend(loc="lower right", fontsize=6.5)


def main() -> None:
    own = argparse.ArgumentParser(add_help=False)
    own.add_argument("--melt", type=Path, metavar="FILE")
    options, sys.argv[1:] = own.parse_known_args()
    out = Output.from_arguments(__file__, __doc__)
    groups = systems(options.melt, step=7 if out.quick else 1)
    sizes = [6, 12, 48] if out.quick else [6, 9, 18, 36, 72, 144, 288, 576]
    reports, lines = measure(groups, sizes)
    rows = [
        {
            "system": name,
            "part": part,
            "hard": hard,
            "molecules": report.half_logdet.shape[1],
            "frames": report.half_logdet.shape[0],
            "beads": report.chain.n,
            "hard_rows": len(report.chain.hard),
            "spread_kT": f"{report.spread:.4f}",
            "effective_fraction": f"{report.share.value:.3f}",
        }
        for (name, part, hard), report in reports.items()
    ]
    rows += [
        {
            "system": name,
            "part": "pieces",
            "hard": hard,
            "molecules": "",
            "frames": "",
            "beads": n,
            "hard_rows": "",
            "spread_kT": f"{spread:.4f}",
            "effective_fraction": "",
        }
        for (name, hard), points in lines.items()
        for n, spread in points
    ]
    out.write_csv(rows)
    draw(out, reports, lines)


if __name__ == "__main__":
    main()
