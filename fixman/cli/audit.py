"""Tell whether constraints on some coordinates change an ensemble.

usage: fixman audit TOPOLOGY [TRAJECTORY] [flags]

The report has the spread of ½ ln det H^bb (kT) over a trajectory: the difference
between rigid constraints and the limit of very stiff springs.

  TOPOLOGY               any topology that MDAnalysis reads
  [TRAJECTORY]           one trajectory (optional)
  --select SELECTION     MDAnalysis selection of the chains (default: all)
  --hard WORDS           one or more of length,angle,torsion; or one of torsional,
                         h-bonds, h-angles, all-bonds, … (default: length)
  --as-is                keep the hard values: the trajectory had these constraints
  --bonds TYPES          guess: by distances in the first frame; 1,2 or C-H: types of
                         bonds that count (default: topology)
  --hydrogens SELECTION  selection of hydrogens, "name H*"; default by element or mass
  --masses MASSES        mass of all atoms, or masses by type, 1=12.011,2=1.008
  --atom-style STYLE     style of a LAMMPS data file: full, molecular, …; or its columns
  --topology-format NAME, --format NAME  formats of both files, by MDAnalysis's names
  --start FRAME, --stop FRAME, --step FRAMES  first frame; frame to stop before; stride
  --workers COUNT | --scheduler ADDRESS  processes on this machine; Dask, tcp://host:8786
  --out CSV              write ½ ln det H^bb and sizes of every frame and chain, and
                         log_weight: from stiff to rigid, or with --as-is from rigid
                         to stiff
  --plot PNG             draw histograms of ½ ln det H^bb and of soft angles
  --overwrite            replace existing files
$showing

example:
  fixman audit top.psf run.dcd --select "name N CA C" --hard length,angle
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixman.analysis.audit import AuditReport
from fixman.analysis.samples import ANGLE_EDGES, TORSION_EDGES
from fixman.chains import hard_sets
from fixman.cli import info, shared

if TYPE_CHECKING:
    from fixman.io.mdanalysis import MetricAnalysis


def run(arguments: shared.Namespace) -> None:
    hard_sets.named(arguments.hard)
    # A missing package or folder is told before the long part.
    inputs, outputs = (arguments.topology, arguments.trajectory), (arguments.out, arguments.plot)
    with shared.outputs(arguments, outputs, *inputs) as (table, picture):
        analysis, notes = _analysed(arguments)
        report = AuditReport.from_analysis(analysis, notes)
        shared.result(arguments, report, report.as_dict())
        if table:
            _write_csv(table, analysis, report)
        if picture:
            _write_plot(picture, report, arguments.plot.suffix[1:])
    if arguments.out:
        ends = ("rigid", "stiff") if report.as_is else ("stiff", "rigid; --as-is turns it round")
        shared.say(arguments, "log_weight leads from {} to {}".format(*ends))


def _analysed(arguments: shared.Namespace) -> tuple[MetricAnalysis, tuple[str, ...]]:
    from fixman.io.mdanalysis import DistributedBackend, MetricAnalysis, open_universe

    read = shared.given(arguments, "topology_format", "format", "masses")
    files = arguments.topology, arguments.trajectory, arguments.atom_style
    if info.is_run(arguments.topology):
        raise ValueError(f"{arguments.topology} is a run: fixman export makes a .gsd file to audit")
    universe, notes = open_universe(*files, **read)
    given = shared.given(arguments, "hard", "bonds", "hydrogens")
    given |= {"values": "as-is" if arguments.as_is else "means"}
    given |= {"histograms": arguments.plot is not None}
    analysis = MetricAnalysis(universe, arguments.select, **given)
    with shared.client(arguments) as client:
        backend: dict[str, Any] = {"verbose": not arguments.quiet and sys.stderr.isatty()}
        if client is not None:
            backend = {"backend": DistributedBackend(client)}
        elif (arguments.workers or 1) > 1:
            backend = {"backend": "multiprocessing", "n_workers": arguments.workers}
        analysis.run(arguments.start, arguments.stop, arguments.step, **backend)
    return analysis, notes


def _write_csv(path: Path, analysis: MetricAnalysis, report: AuditReport) -> None:
    """One row a frame and chain; group and chain count from 0, frames are the trajectory's own.

    All rows of a frame have its log_weight, which is that of the frame as a whole.
    """
    sizes = ("square_end_to_end", "square_gyration")
    weights = report.log_weights.tolist()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["group", "chain", "frame", "time", "half_logdet", *sizes, "log_weight"])
        for number, group in enumerate(report.groups):
            columns = [group.half_logdet, *(group.sizes.get(name) for name in sizes)]
            for k, (frame, time) in enumerate(zip(analysis.frames, analysis.times, strict=True)):
                for chain in range(group.half_logdet.shape[1]):
                    found = ("" if c is None else repr(float(c[k, chain])) for c in columns)
                    writer.writerow([number, chain, frame, time, *found, repr(weights[k])])


def _write_plot(path: Path, report: AuditReport, kind: str) -> None:
    from fixman.analysis import plot

    bends, turns = ([g.densities(kind) for g in report.groups] for kind in ("angles", "torsions"))
    panels = [("bending angle, 0 = straight", ANGLE_EDGES, bends)] if any(bends) else []
    panels += [("torsion, ±180 = trans", TORSION_EDGES, turns)] if any(turns) else []
    samples = {group.label: group.half_logdet for group in report.groups}
    with plot.style():
        lines = 1 + len(samples) + len(panels)  # in legends
        fig = plot.figure(aspect=0.72 * (1 + len(panels)) + 0.045 * lines)
        axes = fig.subplots(1 + len(panels), squeeze=False)[:, 0]
        ensemble: Any = "rigid" if report.as_is else "stiff"
        reweighted = [group.label for group in report.groups if group.reweightable]
        plot.audit_histogram(axes[0], samples, ensemble, reweighted=reweighted)
        fig.suptitle(f"hard: {', '.join(report.hard)}", size=plot.STYLE["axes.titlesize"])
        for ax, (name, edges, found) in zip(axes[1:], panels, strict=True):
            plot.angle_histogram(ax, edges, [density or {} for density in found], name)
        fig.savefig(path, format=kind)
