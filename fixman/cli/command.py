"""`fixman` on the command line: parse, call, print."""

from __future__ import annotations

import _thread
import argparse
import csv
import io
import json
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from fixman.cli import arguments as cli_arguments
from fixman.cli import sample, simulate, torsional
from fixman.errors import Advice, printable

if TYPE_CHECKING:
    from fixman.analysis.audit import AuditReport
    from fixman.io.mdanalysis import MetricAnalysis

# Heavy imports live inside the subcommands: `fixman --help` answers at once.

UNWRITTEN = 1
BROKEN_PIPE = 141  # what a shell tells of a program that SIGPIPE ended


class UnwrittenError(Exception):
    """Files that could not be written, after a report that was printed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; 0 on success, 2 with one line on stderr for anything a user can mend.

    1 where the report was printed but its files could not be written. Ctrl-C is 130, and a pipe
    that its reader closed 141, without a word.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal knows no ½
    try:
        try:
            arguments = _parser().parse_args(argv)
            with _no_interrupt_is_lost():
                arguments.run(arguments)
        except SystemExit:  # after help or version
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except KeyboardInterrupt:
        return simulate.INTERRUPTED
    except UnwrittenError as error:
        cli_arguments.show(f"fixman: error: {error}", error=True)
        return UNWRITTEN
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        _give_up_broken_output()
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        cli_arguments.show(f"fixman: error: {_text(error)}", error=True)
        return 2
    return 0


@contextmanager
def _no_interrupt_is_lost() -> Iterator[None]:
    """Raise KeyboardInterrupt for every Ctrl-C, where Python or a package dropped it as well.

    Raised in a callback of a weak reference or of ctypes, as imports and compiling run them by the
    thousand, it is printed and forgotten: it is raised again a moment later.  Raised inside an
    import it can come out as another error.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    interrupted = False
    again: list[threading.Timer] = []
    hook = sys.unraisablehook

    def note(number: int, frame: Any) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    def raise_again(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            hook(unraisable)
            return
        timer = threading.Timer(0.02, _thread.interrupt_main)
        timer.daemon = True
        again.append(timer)
        timer.start()

    signal.signal(signal.SIGINT, note)
    sys.unraisablehook = raise_again
    try:
        yield
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        for timer in again:
            timer.cancel()
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _give_up_broken_output() -> None:
    """Keep the interpreter from trying again, at its end, to write what could not be written."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):  # no file behind it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(error: Exception) -> str:
    """Put an error of the library in one line, and in flags where it names arguments."""
    text = error.args[0] if error.args else ""
    return " ".join((text.spelled(_flag) if isinstance(text, Advice) else str(error)).split())


def _flag(name: str, value: Any) -> str:
    if name == "run":
        return f"fixman export --start {value.start} --stop {value.stop}"
    examples = {"hydrogens": '"name H*"', "masses": "1=12.011,2=1.008"}
    words = "" if value is True else examples[name] if value is None else shlex.quote(value)
    return f"--{name.replace('_', '-')} {words}".rstrip()


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, like every other error."""

    def error(self, message: str) -> NoReturn:
        """Exit with 2 and without the usage, which can be asked for."""
        said = " ".join(printable(message).split())
        self.exit(2, f"fixman: error: {said}; see {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse what a subcommand does not know here, where its own help can be named."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="fixman", description="Constrained chains: dynamics, metrics, ensembles.")
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    _add_audit(commands)
    sample.add_command(commands)
    simulate.add_commands(commands)
    torsional.add_command(commands)
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
    where = "folder for figures and CSV (default: fixman-demo)"
    add("--out", type=cli_arguments.named_path, metavar="DIR", help=where)
    demo.set_defaults(run=_demo)


def _add_audit(commands: Any) -> None:
    audit = commands.add_parser(
        "audit",
        help="does constraining these coordinates change my ensemble?",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the example on one line
        description="Spread of ½ ln det H^bb (kT) over a trajectory: what separates rigid\n"
        "constraints from the limit of equally stiff springs.",
        epilog="example:\n"
        '  fixman audit top.psf run.dcd --select "name N CA C" --hard length,angle',
    )
    add = audit.add_argument
    a_path = cli_arguments.named_path
    add("topology", type=a_path, metavar="TOPOLOGY", help="any topology that MDAnalysis reads")
    one = "one trajectory; may be left out"
    add("trajectory", type=a_path, metavar="TRAJECTORY", nargs="?", help=one)
    select = "MDAnalysis selection of the chains (default: all)"
    add("--select", default="all", metavar="SELECTION", help=select)
    kinds = "what is constrained: one or more of length,angle,torsion; or one of torsional, h-bonds"
    kinds += ", h-angles; all-bonds, all-angles, HBonds and the like are understood"
    add("--hard", default="length", metavar="WORDS", help=f"{kinds} (default: length)")
    as_is = "a run with these constraints: do not set hard coordinates to their means first"
    add("--as-is", action="store_true", help=as_is)
    bonds = (
        "which bonds count (default: topology); guess: by distances in the first frame; or types"
    )
    add("--bonds", default="topology", metavar="TYPES", help=f"{bonds} of bonds, 1,2, or C-H")
    hydrogens = 'selection of the hydrogens, "name H*" (default: by element, else by mass)'
    add("--hydrogens", metavar="SELECTION", help=hydrogens)
    masses = "of all atoms, or by type, 1=12.011,2=1.008 (default: those of the topology)"
    add("--masses", metavar="MASSES", help=masses)
    style = "of a LAMMPS data file: full, molecular, …; or its columns, as MDAnalysis names them"
    add("--atom-style", metavar="STYLE", help=style)
    by_name = "by MDAnalysis's name (default: by extension and content)"
    add("--topology-format", metavar="FORMAT", help=f"of the topology, {by_name}")
    add("--format", metavar="FORMAT", help=f"of the trajectory, {by_name}")
    add("--start", type=int, metavar="FRAME", help="first frame, counted from 0 (default: 0)")
    add("--stop", type=int, metavar="FRAME", help="frame to stop before (default: the end)")
    add("--step", type=int, metavar="FRAMES", help="from one frame to the next (default: 1)")
    where = audit.add_mutually_exclusive_group().add_argument
    workers = "processes on this machine (default: 1)"
    where("--workers", type=cli_arguments.workers, metavar="N", help=workers)
    where("--scheduler", metavar="ADDRESS", help="a running Dask scheduler, tcp://host:8786")
    table = "write ½ ln det H^bb and the sizes of every frame and chain"
    add("--out", type=a_path, metavar="CSV", help=table)
    add("--plot", type=a_path, metavar="PNG", help="write its histogram, and those of soft angles")
    add("--overwrite", action="store_true", help="replace files of these names")
    add("--json", action="store_true", help="print one JSON document instead of text")
    add("--quiet", action="store_true", help="no progress bar")
    audit.set_defaults(run=_audit)


def _demo(arguments: argparse.Namespace) -> None:
    from fixman.cli import demo

    demo.main(out=arguments.out)


def _audit(arguments: argparse.Namespace) -> None:
    # What can fail for want of a package or a folder fails before the long part.
    taken = [path.resolve() for path in (arguments.topology, arguments.trajectory) if path]
    for path in (arguments.out, arguments.plot):
        if path is None:
            continue
        if not path.parent.is_dir():
            raise FileNotFoundError(f"no such folder: {path.parent}")
        if path.is_dir():
            raise IsADirectoryError(f"a folder, not a file: {path}")
        if path.resolve() in taken:
            raise ValueError(f"{path} is an input or another output: choose another name")
        if os.path.lexists(path) and not (arguments.overwrite or _is_device(path)):
            raise FileExistsError(
                f"{path} exists: choose another name, or overwrite it (--overwrite)"
            )
        taken.append(path.resolve())
    from fixman.chains import hard_sets

    hard = hard_sets.named(arguments.hard)
    if arguments.plot is not None:
        from fixman.analysis import plot

        plot.require_format(arguments.plot)
    from fixman.analysis.audit import AuditReport
    from fixman.io.mdanalysis import MetricAnalysis, open_universe

    with warnings.catch_warnings(), ExitStack() as stack:
        warnings.filterwarnings("ignore", module="MDAnalysis")
        # It is also said where a reader is pickled for a worker, under another module's name.
        warnings.filterwarnings("ignore", "Reader has no dt")
        universe, notes = open_universe(
            arguments.topology,
            arguments.trajectory,
            arguments.atom_style,
            topology_format=arguments.topology_format,
            format=arguments.format,
            masses=arguments.masses,
        )
        analysis = MetricAnalysis(
            universe,
            arguments.select,
            hard=hard,
            values="as-is" if arguments.as_is else "means",
            bonds=arguments.bonds,
            hydrogens=arguments.hydrogens,
            histograms=arguments.plot is not None,
        )
        backend = _backend(arguments, stack)
        analysis.run(arguments.start, arguments.stop, arguments.step, **backend)
    report = AuditReport.from_analysis(analysis, notes)
    written, failed = [], []
    for path in (arguments.out, arguments.plot):
        if path is None:
            continue
        try:
            with _new_file(path, arguments.overwrite) as temporary:
                if path is arguments.out:
                    _write_csv(temporary, analysis, report)
                else:
                    _write_plot(temporary, report, path.suffix[1:])
        except OSError as error:
            failed.append(f"cannot write {path}: {error.strerror or error}")
        else:
            written.append(str(path))
    if arguments.json:
        print(json.dumps(report.as_dict() | {"written": written}, indent=2))
    else:
        cli_arguments.show(report)
        for path in written:
            cli_arguments.show(f"wrote {path}")
    if failed:
        raise UnwrittenError("; ".join(failed))


@contextmanager
def _new_file(path: Path, overwrite: bool) -> Iterator[Path]:
    """Give a name to write to that becomes `path` when all is written; what a link points to."""
    from fixman._common.files import new_file

    if _is_device(path):
        yield path
        return
    with new_file(path.resolve(), overwrite) as temporary:
        yield temporary


def _is_device(path: Path) -> bool:
    """Whether this is something like /dev/stdout, which cannot be replaced by a file."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _backend(arguments: argparse.Namespace, stack: ExitStack) -> dict[str, Any]:
    """Where the frames are worked on, as arguments of `MetricAnalysis.run`."""
    if arguments.scheduler is not None:
        from fixman.io.dask import connect
        from fixman.io.mdanalysis import DistributedBackend

        return {"backend": DistributedBackend(stack.enter_context(connect(arguments.scheduler)))}
    workers = 1 if arguments.workers is None else arguments.workers
    if workers > 1:
        return {"backend": "multiprocessing", "n_workers": workers}
    return {"verbose": not arguments.quiet and sys.stderr.isatty()}


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
    from fixman.analysis.samples import ANGLE_EDGES, TORSION_EDGES

    angles = (
        (
            "bending angle, 0 = straight",
            ANGLE_EDGES,
            [g.densities("angles") for g in report.groups],
        ),
        ("torsion, ±180 = trans", TORSION_EDGES, [g.densities("torsions") for g in report.groups]),
    )
    panels = [panel for panel in angles if any(panel[2])]
    samples = {group.label: group.half_logdet for group in report.groups}
    with plot.style():
        lines = 1 + len(samples) + len(panels)  # of legends
        fig = plot.figure(aspect=0.72 * (1 + len(panels)) + 0.045 * lines)
        axes = fig.subplots(1 + len(panels), squeeze=False)[:, 0]
        ensemble = "rigid" if report.as_is else "stiff"
        reweighted = [group.label for group in report.groups if group.reweightable]
        plot.audit_histogram(axes[0], samples, ensemble, reweighted=reweighted)
        fig.suptitle(f"hard: {', '.join(report.hard)}", size=plot.STYLE["axes.titlesize"])
        for ax, (name, edges, densities) in zip(axes[1:], panels, strict=True):
            plot.angle_histogram(ax, edges, [density or {} for density in densities], name)
        fig.savefig(path, format=kind)
