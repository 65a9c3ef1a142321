"""Flags of runs and workers, and how commands run and report."""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fixman.cli.printing import result

if TYPE_CHECKING:
    from fixman.simulation.trajectory import Run

INTERRUPTED = 130  # exit code, in shells, of a program that Ctrl-C ended

SEED = """
  --seed SEED            of all random numbers; otherwise a new one, which is said"""
RUN = f"""
  --every N              steps per frame; otherwise for about 1000 frames
  --replicas COUNT       independent copies (default: 1){SEED}
  --out FILE             file to be made for the run (required)
  --overwrite            replace a run of that name"""
WORKERS = """
  --workers COUNT        threads; the results do not depend on it (default: 1)"""
SCHEDULER = f"""{WORKERS}
  --scheduler ADDRESS    a running Dask scheduler, whose workers do it"""
SHOWING = """
  --json                 print one JSON document instead of text
  --quiet                no progress bar"""


@contextlib.contextmanager
def client(arguments: argparse.Namespace) -> Iterator[Any]:
    """Connect to the scheduler, if there is one."""
    if arguments.scheduler is None:
        yield None
        return
    from fixman.io.dask import connect

    with connect(arguments.scheduler) as connected:
        yield connected


def require_free(arguments: argparse.Namespace, *inputs: Path | None) -> None:
    """Refuse --out and --plot that are no files, inputs, each other, or to be kept."""
    taken = [path.resolve() for path in inputs if path]
    for path in filter(None, (arguments.out, arguments.plot)):
        if not path.parent.is_dir():
            raise FileNotFoundError(f"no such folder: {path.parent}")
        if path.exists() and not path.is_file():
            raise OSError(f"{path} is no file")
        if path.resolve() in taken:
            raise ValueError(f"{path} is an input or another output: choose another name")
        if os.path.lexists(path) and not arguments.overwrite:
            raise FileExistsError(
                f"{path} exists: choose another name, or overwrite it (--overwrite)"
            )
        taken.append(path.resolve())
    if arguments.plot:
        from fixman.analysis import plot

        plot.require_format(arguments.plot)


def seed(arguments: argparse.Namespace) -> int:
    """Return --seed, or a new one."""
    given: int | None = arguments.seed
    return secrets.randbits(53) if given is None else given  # exact in other readers of JSON


def let_interrupts_be_counted() -> None:
    """Have Python see Ctrl-C, so that a run ends after its block."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def simulated(
    arguments: argparse.Namespace,
    chain: Any,
    x0: Any,
    stepper: Any,
    steps: int,
    seed: int,
    **more: Any,
) -> int:
    """Run a chain into --out, and report."""
    from fixman.simulation import simulate as simulation

    let_interrupts_be_counted()
    run = simulation.simulate(
        chain,
        x0,
        stepper,
        steps,
        every=arguments.every,
        replicas=arguments.replicas,
        workers=arguments.workers,
        rng=seed,
        out=arguments.out,
        progress=False if arguments.quiet else None,
        overwrite=arguments.overwrite,
        **more,
    )
    return report(arguments, run)


def described(run: Run) -> dict[str, Any]:
    """Return what a run is, for --json."""
    from fixman.simulation.trajectory import REFUSING, pdb_potential

    about = run.about
    stepper = dict(about["stepper"])
    if pdb_potential(about) is not None:
        del stepper["potential"]  # pages of a PDB file
    tried = stepper["name"] in REFUSING and run.steps_done
    return {
        "file": str(run.path),
        "chain": repr(run.chain),
        "stepper": stepper,
        "seed": about["rng"].get("seed"),
        "frames": len(run),
        "replicas": run.replicas,
        "steps_done": run.steps_done,
        "steps": about["steps"],
        "finished": run.finished,
        "acceptance": float(run.acceptance.mean()) if tried else None,
    }


def report(arguments: argparse.Namespace, run: Run) -> int:
    """Print what a run is now, and how to go on with it."""
    found = described(run)
    text = (
        f"{len(run)} frame{'s' * (len(run) != 1)} of "
        f"{run.replicas} replica{'s' * (run.replicas != 1)} in {run.path}"
    )
    if found["acceptance"] is not None:
        text += f", {found['acceptance']:.1%} of the moves accepted"
    if not run.finished:
        at = f"{run.steps_done} of {found['steps']}"
        text += f"\ninterrupted at step {at}: fixman resume {run.path}"
    result(arguments, text, found)
    return 0 if run.finished else INTERRUPTED
