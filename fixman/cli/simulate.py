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

INTERRUPTED = 130  # exit code, in shells, of a program that Ctrl-C ended
DAMAGED = 1
GSD = (".gsd",)
HDF5 = (".h5", ".hdf5", ".h5md")
MOLECULAR = (".pdb", ".dcd", ".xtc", ".trr")
WALKS = (2**32 - 1,)  # a stream that no replica has


SIMULATE = f"""
usage: fixman simulate --beads N --steps N --out FILE [flags]

run a constrained chain; restartable bit for bit

Replicas of a constrained chain, from random walks, in reduced units.
Ctrl-C ends a run after the block that it is at; `fixman resume` goes on.
{cli_arguments.CHAIN}
  --ring                 bond the last bead to the first
{dynamics.DYNAMICS}
run:
  --steps N              such as 1e6 (required){cli_arguments.RUN}{cli_arguments.RUNNING}
  --quiet                no progress bar

example:
  fixman simulate --beads 50 --hard length --ensemble stiff --dt 0.02 \\
      --steps 1e6 --replicas 64 --seed 3 --out run
  fixman simulate --beads 50 --method brownian --shear 1 --bending 5 \\
      --dt 1e-3 --steps 1e5 --seed 3 --out sheared
"""
RESUME = f"""
usage: fixman resume RUN [flags]

go on with a run that was interrupted, or extend one

  RUN                    file of the run
  --steps N              new total number of steps{cli_arguments.RUNNING}
  --quiet                no progress bar

example:
  fixman resume run --steps 2e6
"""
EXPORT = """
usage: fixman export RUN --to FILE [flags]

write a run to GSD, HDF5, or PDB, DCD, XTC, TRR

.gsd for OVITO, MDAnalysis and HOOMD, in single precision and with bonds;
.h5 for all numbers in double precision (H5MD). Runs in space also .dcd, .xtc
or .trr, those of fixman torsional .pdb too, each with a .pdb of the first frame.

  RUN                    file of the run, finished or not
  --to FILE              .gsd, .h5, .pdb, .dcd, .xtc or .trr (required)
  --replica N            counted from 0; otherwise all, a molecule each
  --start FRAME          first frame, counted from 0
  --stop FRAME           frame to stop before
  --step FRAMES          from one frame to the next
  --overwrite            replace an existing file

example:
  fixman export run --to run.gsd
"""
CHECK = """
usage: fixman check RUN

read a run in whole, and say what is damaged and which frames can be read

  RUN                    file of the run

example:
  fixman check run
"""


def run(arguments: argparse.Namespace) -> None:
    """Run a chain that the flags describe."""
    import numpy as np

    from fixman.runs import runfile
    from fixman.sampling.random_walks import random_walks
    from fixman.simulation import simulate as simulation

    runfile.require_free(arguments.out, arguments.overwrite)
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


def resume(arguments: argparse.Namespace) -> None:
    """Go on with a run."""
    from fixman.simulation import simulate as simulation

    given, naming = _going_on(arguments.file)
    with warnings_in_a_line(), naming, cli_arguments.client(arguments) as client:
        run = simulation.resume(
            arguments.file,
            arguments.steps,
            **given,
            workers=arguments.workers,
            progress=progress(arguments),
            client=client,
        )
    report(run)


def _going_on(path: Path) -> tuple[dict[str, Any], contextlib.AbstractContextManager[None]]:
    """Return what `fixman.resume` needs besides of a run of a PDB file, and what names its atoms.

    Nothing of any other run.
    """
    from fixman.runs import runfile
    from fixman.simulation import steppers
    from fixman.simulation.trajectory import pdb_potential

    about = runfile.contents(path).about
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


def export(arguments: argparse.Namespace) -> None:
    """Write the frames of a run to a file of another kind."""
    from fixman.simulation.simulate import load_run

    path, suffix = arguments.to, arguments.to.suffix.lower()
    if suffix not in (*GSD, *HDF5, *MOLECULAR):
        raise ValueError(f"--to must end in .gsd, .h5, .pdb, .dcd, .xtc or .trr, got {path}")
    if suffix in HDF5 and arguments.replica is not None:
        raise ValueError("--replica is for other files: HDF5 holds all replicas")
    if arguments.step == 0:
        raise ValueError("--step must not be 0")
    with warnings_in_a_line():
        whole = load_run(arguments.file)
    run = whole[arguments.start : arguments.stop : arguments.step]
    if not len(run):
        raise ValueError(f"no frame of {arguments.file} is chosen: {run}")
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


def check(arguments: argparse.Namespace) -> None:
    """Say whether a run is whole."""
    from fixman.runs.runfile import check_run

    found = check_run(arguments.file)
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
