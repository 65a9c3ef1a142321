"""`fixman simulate`, `resume`, `export` and `check`: parse, call, print."""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixman.cli import arguments as cli_arguments
from fixman.cli import dynamics

if TYPE_CHECKING:
    from fixman.simulation.trajectory import Run

# Heavy imports live inside the subcommands: `fixman --help` answers at once.

INTERRUPTED = 130  # what shells say of a program that Ctrl-C ended
DAMAGED = 1
GSD = (".gsd",)
HDF5 = (".h5", ".hdf5", ".h5md")
MOLECULAR = (".pdb", ".dcd", ".xtc", ".trr")
WALKS = (2**32 - 1,)  # a stream that no replica has


def add_commands(commands: Any) -> None:
    """Add the subcommands to the parser of `fixman`."""
    _add_simulate(commands)
    _add_resume(commands)
    _add_export(commands)
    _add_check(commands)


def _add_simulate(commands: Any) -> None:
    simulate = commands.add_parser(
        "simulate",
        help="run a constrained chain; restartable bit for bit",
        formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the example on one line
        description="Run replicas of a constrained chain, from random walks, in reduced units.\n"
        "Ctrl-C ends a run after the block that it is at; `fixman resume` goes on.",
        epilog="example:\n  fixman simulate --beads 50 --hard length --ensemble stiff --dt 0.02 "
        "--steps 1e6 --replicas 64 --seed 3 --out run\n  fixman simulate --beads 50 --method "
        "brownian --shear 1 --bending 5 --dt 1e-3 --steps 1e5 --seed 3 --out sheared",
    )
    cli_arguments.add_chain(simulate)
    dynamics.add_dynamics(simulate)
    add = simulate.add_argument_group("run").add_argument
    add(
        "--steps",
        type=cli_arguments.whole,
        required=True,
        metavar="N",
        help="a multiple of --every; 1e6 will do",
    )
    add(
        "--every",
        type=cli_arguments.whole,
        metavar="N",
        help="steps per frame (default: about 1000 frames)",
    )
    add(
        "--replicas",
        type=cli_arguments.whole,
        default=1,
        metavar="N",
        help="independent copies (default: 1)",
    )
    cli_arguments.add_seed(add)
    add(
        "--out",
        type=cli_arguments.named_path,
        required=True,
        metavar="DIR",
        help="folder to be made for the run",
    )
    add("--overwrite", action="store_true", help="replace a run of that name")
    cli_arguments.add_running(add)
    add("--quiet", action="store_true", help="no progress bar")
    simulate.set_defaults(run=_simulate)


def _add_resume(commands: Any) -> None:
    about = "go on with a run that was interrupted, or extend one"
    resume = commands.add_parser("resume", help=about, description=about.capitalize() + ".")
    add = resume.add_argument
    add("folder", type=cli_arguments.named_path, metavar="RUN", help="folder of the run")
    add("--steps", type=cli_arguments.whole, metavar="N", help="new total number of steps")
    cli_arguments.add_running(add)
    add("--quiet", action="store_true", help="no progress bar")
    resume.set_defaults(run=_resume)


def _add_export(commands: Any) -> None:
    export = commands.add_parser(
        "export",
        help="write a run to GSD, HDF5, or PDB, DCD, XTC, TRR",
        description="Write the frames of a run to a file: .gsd for OVITO, MDAnalysis and HOOMD, in "
        "single precision and with bonds; .h5 for all numbers in double precision (H5MD). Of "
        "fixman torsional also .pdb, .dcd, .xtc or .trr, each with a .pdb of the first frame.",
    )
    add = export.add_argument
    add(
        "folder",
        type=cli_arguments.named_path,
        metavar="RUN",
        help="folder of the run, finished or not",
    )
    add(
        "--to",
        type=cli_arguments.named_path,
        required=True,
        metavar="FILE",
        help="file to write, .gsd, .h5, .pdb, .dcd, .xtc or .trr",
    )
    only = (
        "one replica only, counted from 0 (default: all, a molecule each; .pdb and others: needed)"
    )
    add("--replica", type=_replica, metavar="N", help=only)
    add("--start", type=int, metavar="FRAME", help="first frame, counted from 0 (default: 0)")
    add("--stop", type=int, metavar="FRAME", help="frame to stop before (default: the end)")
    add("--step", type=int, metavar="FRAMES", help="from one frame to the next (default: 1)")
    add("--overwrite", action="store_true", help="replace an existing file")
    export.set_defaults(run=_export)


def _add_check(commands: Any) -> None:
    about = "read a run in whole, and say what is damaged and which frames can be read"
    check = commands.add_parser("check", help=about, description=about.capitalize() + ".")
    check.add_argument(
        "folder", type=cli_arguments.named_path, metavar="RUN", help="folder of the run"
    )
    check.set_defaults(run=_check)


def _replica(text: str) -> int:
    number = cli_arguments.whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"is counted from 0, got {number}")
    return number


_replica.__name__ = cli_arguments.whole.__name__


def _simulate(arguments: argparse.Namespace) -> None:
    import numpy as np

    from fixman.sampling.random_walks import random_walks
    from fixman.simulation import simulate as simulation
    from fixman.simulation import writer

    writer.require_free(arguments.out, arguments.overwrite)
    chain = cli_arguments.chain(arguments, arguments.replicas, "--replicas")
    stepper = dynamics.stepper(arguments, chain)
    seed = cli_arguments.seed(arguments)
    values = cli_arguments.hard_values(arguments, chain)
    if dynamics.excludes(arguments):
        x0 = dynamics.stretched(chain, **values)
    else:
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=WALKS))
        x0 = random_walks(chain, arguments.replicas, **values, rng=rng)
    cli_arguments.say(f"{chain!r}, seed {seed}")
    with warnings_in_a_line(), cli_arguments.client(arguments) as client:
        run = simulation.simulate(
            chain,
            x0,
            stepper,
            arguments.steps,
            every=arguments.every,
            replicas=arguments.replicas,
            workers=arguments.workers,
            rng=seed,
            out=arguments.out,
            progress=progress(arguments),
            overwrite=arguments.overwrite,
            client=client,
        )
    report(run)


def _resume(arguments: argparse.Namespace) -> None:
    from fixman.simulation import simulate as simulation

    given, naming = _going_on(arguments.folder)
    with warnings_in_a_line(), naming, cli_arguments.client(arguments) as client:
        run = simulation.resume(
            arguments.folder,
            arguments.steps,
            **given,
            workers=arguments.workers,
            progress=progress(arguments),
            client=client,
        )
    report(run)


def _going_on(folder: Path) -> tuple[dict[str, Any], contextlib.AbstractContextManager[None]]:
    """Return what `fixman.resume` needs besides of a run of a PDB file, and what names its atoms.

    Nothing of any other run.
    """
    from fixman.simulation import steppers
    from fixman.simulation.places import Place
    from fixman.simulation.runfiles import read_about
    from fixman.simulation.trajectory import pdb_potential

    about = read_about(Place(folder), folder)[0]
    if pdb_potential(about) is None:
        return {}, contextlib.nullcontext()
    from fixman.io.openmm.torsional import Molecule, naming

    molecule = Molecule.of_run(about)
    stepper = steppers.from_parameters(about["stepper"], molecule)
    given = {"stepper": stepper, "observables": molecule.observables()}
    return given, naming(molecule.names)


@contextlib.contextmanager
def warnings_in_a_line() -> Iterator[None]:
    """Print what the library warns of as the command line does."""
    from fixman.errors import RunDamageWarning, RunVersionWarning

    with warnings.catch_warnings():
        for category in (RunDamageWarning, RunVersionWarning, RuntimeWarning):
            warnings.filterwarnings("always", category=category)
        warnings.showwarning = _show
        yield


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    cli_arguments.show(f"fixman: warning: {message}", error=True)


def _export(arguments: argparse.Namespace) -> None:
    from fixman.simulation.store import load_run

    path, suffix = arguments.to, arguments.to.suffix.lower()
    if suffix not in (*GSD, *HDF5, *MOLECULAR):
        raise ValueError(f"--to must end in .gsd, .h5, .pdb, .dcd, .xtc or .trr, got {path}")
    if suffix in HDF5 and arguments.replica is not None:
        raise ValueError("--replica is for other files: HDF5 holds all replicas")
    if arguments.step == 0:
        raise ValueError("--step must not be 0")
    with warnings_in_a_line():
        whole = load_run(arguments.folder)
    run = whole[arguments.start : arguments.stop : arguments.step]
    if not len(run):
        raise ValueError(f"no frame of {arguments.folder} is chosen: {run}")
    if suffix in GSD:
        from fixman.io.gsd import write_gsd

        write_gsd(run, path, replica=arguments.replica, overwrite=arguments.overwrite)
    elif suffix in MOLECULAR:
        from fixman.io.mdanalysis.trajectories import write_frames

        write_frames(run, path, replica=arguments.replica, overwrite=arguments.overwrite)
    else:
        from fixman.io.hdf5 import write_hdf5

        write_hdf5(run, path, overwrite=arguments.overwrite)
    cli_arguments.show(f"wrote {path}: {len(run)} frame{'s' * (len(run) != 1)}")


def _check(arguments: argparse.Namespace) -> None:
    from fixman.simulation.store import check_run

    found = check_run(arguments.folder)
    cli_arguments.show(found)
    if not found.whole:
        raise SystemExit(DAMAGED)


def progress(arguments: argparse.Namespace) -> bool | None:
    """Return whether to show a progress bar; None is as the terminal can."""
    return False if arguments.quiet else None


def report(run: Run) -> None:
    """Print what a run is now, and how to go on with it."""
    from fixman.simulation.trajectory import REFUSING

    replicas = f"{run.replicas} replica{'s' * (run.replicas != 1)}"
    tried = run.about["stepper"]["name"] in REFUSING and run.steps_done
    accepted = f", {run.acceptance.mean():.1%} of the moves accepted" if tried else ""
    cli_arguments.show(
        f"{len(run)} frame{'s' * (len(run) != 1)} of {replicas} in {run.path}{accepted}"
    )
    if not run.finished:
        total = run.about["steps"]
        cli_arguments.show(
            f"interrupted at step {run.steps_done} of {total}: fixman resume {run.path}"
        )
        raise SystemExit(INTERRUPTED)
