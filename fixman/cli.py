"""`fixman` on the command line: parse, call, print."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixman import cli_simulate

if TYPE_CHECKING:
    from fixman.audit import AuditReport
    from fixman.io.groups import ChainData

# Heavy imports live inside the subcommands: `fixman --help` answers at once.


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 on success, 2 with one line on stderr for anything a user can mend."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal knows no ½
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, RuntimeError, OSError, ImportError) as error:
        print(f"fixman: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fixman", description="Constrained chains: dynamics, metrics, ensembles."
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_audit(commands)
    cli_simulate.add_commands(commands)
    return parser


class _Version(argparse.Action):
    """Look the version up only when asked for it."""

    def __init__(self, option_strings: Sequence[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, **kwargs)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from fixman import __version__

        print(f"fixman {__version__}")
        parser.exit()


def _add_demo(commands: Any) -> None:
    about = "solve, check and time long chains; writes figures"
    demo = commands.add_parser("demo", help=about, description=about.capitalize() + ".")
    add = demo.add_argument
    add("--out", type=Path, metavar="DIR", help="folder for figures and CSV (default: fixman-demo)")
    demo.set_defaults(run=_demo)


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser(
        "audit",
        help="does constraining these coordinates change my ensemble?",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the example on one line
        description="Spread of ½ ln det H^bb (kT) over a trajectory: what separates rigid\n"
        "constraints from the limit of equally stiff springs. Linear chains only.",
        epilog="example:\n"
        '  fixman audit top.psf run.dcd --select "name N CA C" --hard length,angle',
    )
    add = audit.add_argument
    add("topology", metavar="TOPOLOGY", help="any topology that MDAnalysis reads")
    add("trajectory", metavar="TRAJECTORY", nargs="?", help="one trajectory; may be left out")
    add("--select", required=True, metavar="SELECTION", help="MDAnalysis selection of the chains")
    kinds = "what is constrained: one or more of length,angle,torsion (default: length)"
    add("--hard", default="length", metavar="KINDS", help=kinds)
    add("--as-is", action="store_true", help="do not set hard coordinates to their means first")
    add("--atom-style", metavar="STYLE", help='LAMMPS columns, such as "id resid type x y z"')
    bonds = "where bonds come from (default: topology); guess: distances in the first frame"
    add("--bonds", choices=("topology", "guess"), default="topology", help=bonds)
    add("--start", type=int, metavar="FRAME", help="first frame, counted from 0 (default: 0)")
    add("--stop", type=int, metavar="FRAME", help="frame to stop before (default: the end)")
    add("--step", type=int, metavar="FRAMES", help="from one frame to the next (default: 1)")
    add("--out", type=Path, metavar="CSV", help="write ½ ln det H^bb of every frame and chain")
    add("--plot", type=Path, metavar="PNG", help="write its histogram")
    add("--json", action="store_true", help="print one JSON document instead of text")
    add("--quiet", action="store_true", help="no progress bar")
    audit.set_defaults(run=_audit)


def _demo(arguments: argparse.Namespace) -> None:
    from fixman import demo

    demo.main(out=arguments.out)


def _audit(arguments: argparse.Namespace) -> None:
    # What can fail for want of a package or a folder fails before the long part.
    taken = [Path(path).resolve() for path in (arguments.topology, arguments.trajectory) if path]
    for path in (arguments.out, arguments.plot):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise FileNotFoundError(f"no such folder: {path.parent}")
        if path.resolve() in taken:
            raise ValueError(f"{path} is an input or another output: choose another name")
        taken.append(path.resolve())
    hard = _hard(arguments.hard)
    if arguments.plot is not None:
        from fixman import plot

        plot.require_format(arguments.plot)
    from fixman.audit import audit
    from fixman.io.mdanalysis import read_chains

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="MDAnalysis")
        data = read_chains(
            arguments.topology,
            arguments.trajectory,
            select=arguments.select,
            atom_style=arguments.atom_style,
            bonds=arguments.bonds,
            start=arguments.start,
            stop=arguments.stop,
            step=arguments.step,
            progress=_progress(arguments.quiet),
        )
    report = audit(data.groups, hard, as_is=arguments.as_is, notes=data.notes)
    if arguments.out is not None:
        _write_csv(arguments.out, data, report)
    if arguments.plot is not None:
        _write_plot(arguments.plot, report)
    written = [str(path) for path in (arguments.out, arguments.plot) if path is not None]
    if arguments.json:
        print(json.dumps(report.as_dict() | {"written": written}, indent=2))
    else:
        print(report)
        for path in written:
            print(f"wrote {path}")


def _hard(text: str) -> tuple[str, ...]:
    from fixman.coordinates import KINDS, POSITIONS

    hard = tuple(kind.strip() for kind in text.split(","))
    for kind in hard:
        if kind not in KINDS[POSITIONS:]:
            choices = ", ".join(KINDS[POSITIONS:])
            raise ValueError(f"--hard: unknown kind {kind!r}; choose from {choices}")
    return hard


def _progress(quiet: bool) -> Callable[[Any], Iterable[Any]]:
    if quiet or not sys.stderr.isatty():
        return iter
    from functools import partial

    from tqdm import tqdm

    return partial(tqdm, desc="reading", unit="frame", file=sys.stderr)


def _write_csv(path: Path, data: ChainData, report: AuditReport) -> None:
    """One row a frame and chain; group and chain count from 0, frames are the trajectory's own."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["group", "chain", "frame", "time", "half_logdet"])
        for number, group in enumerate(report.groups):
            for frame, time, row in zip(data.frames, data.times, group.half_logdet, strict=True):
                writer.writerows(
                    [number, chain, frame, time, repr(float(half))]
                    for chain, half in enumerate(row)
                )


def _write_plot(path: Path, report: AuditReport) -> None:
    from fixman import plot

    samples = {group.label: group.half_logdet for group in report.groups}
    with plot.style():
        fig = plot.figure()
        ax = plot.audit_histogram(fig.subplots(), samples)
        ax.set_title(f"hard: {', '.join(report.hard)}")
        fig.savefig(path)
