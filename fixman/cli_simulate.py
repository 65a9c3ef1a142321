"""`fixman simulate`, `resume`, `export` and `check`: parse, call, print."""

from __future__ import annotations

import argparse
import contextlib
import math
import secrets
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixman.chain import Chain
    from fixman.steppers import Stepper
    from fixman.trajectory import Run

# Heavy imports live inside the subcommands: `fixman --help` answers at once.

BEAD_BYTES, REPLICA_BYTES = 2700, 350  # of a chain while it is made; of a bead of a replica
INTERRUPTED = 130  # what shells say of a program that Ctrl-C ended
DAMAGED = 1
GSD = (".gsd",)
HDF5 = (".h5", ".hdf5", ".h5md")
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
        "--steps 1e6 --replicas 64 --seed 3 --out run",
    )
    add = simulate.add_argument_group("chain").add_argument
    add("--beads", type=_whole, metavar="N", help="beads of a linear chain, or of a ring")
    add("--ring", action="store_true", help="bond the last bead to the first")
    add("--dim", type=int, choices=(2, 3), default=3, help="dimension of space (default: 3)")
    add("--base", choices=("free", "fixed"), default="free", help="whether the chain is held")
    kinds = "what is constrained: one or more of length,angle,torsion, or torsional"
    add("--hard", metavar="WORDS", help=f"{kinds} (default: length)")
    add(
        "--chain",
        type=named_path,
        metavar="JSON",
        help="in place of these, what Chain.to_json wrote",
    )
    add("--length", type=float, default=1.0, help="of the bonds (default: 1)")
    degrees = "in degrees, 0 is straight (default: 70.53, tetrahedral bonds)"
    add("--angle", type=float, metavar="DEGREES", help=f"hard bending angles {degrees}")
    trans = "hard torsions (default: 180, trans)"
    add("--torsion", type=float, metavar="DEGREES", help=trans)
    add = simulate.add_argument_group("dynamics").add_argument
    add("--method", choices=("langevin", "newton"), default="langevin", help="(default: langevin)")
    limits = "of the constraints, or of equally stiff springs in their place (default: rigid)"
    add("--ensemble", choices=("rigid", "stiff"), help=limits)
    add("--dt", type=float, default=0.02, help="time step (default: 0.02)")
    add("--kT", type=float, default=1.0, help="temperature (default: 1)")
    add("--friction", type=float, help="rate at which velocities are forgotten (default: 1)")
    add = simulate.add_argument_group("run").add_argument
    add(
        "--steps",
        type=_whole,
        required=True,
        metavar="N",
        help="a multiple of --every; 1e6 will do",
    )
    add("--every", type=_whole, metavar="N", help="steps per frame (default: about 1000 frames)")
    add("--replicas", type=_whole, default=1, metavar="N", help="independent copies (default: 1)")
    add("--seed", type=int, metavar="N", help="of all random numbers (default: a new one)")
    add(
        "--out", type=named_path, required=True, metavar="DIR", help="folder to be made for the run"
    )
    add("--overwrite", action="store_true", help="replace a run of that name")
    _add_running(add)
    simulate.set_defaults(run=_simulate)


def _add_resume(commands: Any) -> None:
    about = "go on with a run that was interrupted, or extend one"
    resume = commands.add_parser("resume", help=about, description=about.capitalize() + ".")
    add = resume.add_argument
    add("folder", type=named_path, metavar="RUN", help="folder of the run")
    add("--steps", type=_whole, metavar="N", help="new total number of steps")
    _add_running(add)
    resume.set_defaults(run=_resume)


def _add_export(commands: Any) -> None:
    export = commands.add_parser(
        "export",
        help="write a run to GSD or HDF5",
        description="Write the frames of a run to a file: .gsd for OVITO, MDAnalysis and HOOMD, in "
        "single precision and with bonds; .h5 for all numbers in double precision (H5MD).",
    )
    add = export.add_argument
    add("folder", type=named_path, metavar="RUN", help="folder of the run, finished or not")
    add("--to", type=named_path, required=True, metavar="FILE", help="file to write, .gsd or .h5")
    only = "one replica only, counted from 0 (GSD; default: all, one molecule each)"
    add("--replica", type=_replica, metavar="N", help=only)
    add("--start", type=int, metavar="FRAME", help="first frame, counted from 0 (default: 0)")
    add("--stop", type=int, metavar="FRAME", help="frame to stop before (default: the end)")
    add("--step", type=int, metavar="FRAMES", help="from one frame to the next (default: 1)")
    add("--overwrite", action="store_true", help="replace an existing file")
    export.set_defaults(run=_export)


def _add_check(commands: Any) -> None:
    about = "read a run in whole, and say what is damaged and which frames can be read"
    check = commands.add_parser("check", help=about, description=about.capitalize() + ".")
    check.add_argument("folder", type=named_path, metavar="RUN", help="folder of the run")
    check.set_defaults(run=_check)


def _add_running(add: Any) -> None:
    add(
        "--workers", type=workers, default=1, metavar="N", help="threads; the results do not depend"
    )
    add("--quiet", action="store_true", help="no progress bar")


def _whole(text: str) -> int:
    """Read 1000000, 1e6 or 1_000_000."""
    try:
        number = int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise ValueError(text) from None
        number = int(value)
    return number


_whole.__name__ = "whole number"  # argparse: "invalid whole number value: '1.5'"


def workers(text: str) -> int:
    """Read a number of threads or processes."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _replica(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"is counted from 0, got {number}")
    return number


workers.__name__ = _replica.__name__ = _whole.__name__


def named_path(text: str) -> Path:
    """Read a path; an empty one, of a variable that is not set, would be the current folder."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return Path(text)


def _require_memory(beads: int, replicas: int) -> None:
    """Refuse what this machine cannot hold before it tries to."""
    from fixman import _arrays

    beads = _arrays.positive_int(beads, "--beads")
    replicas = _arrays.positive_int(replicas, "--replicas")
    _arrays.require_memory(
        beads * (BEAD_BYTES + REPLICA_BYTES * replicas),
        f"{beads} beads in {replicas} replica{'s' * (replicas != 1)}",
    )


def _simulate(arguments: argparse.Namespace) -> None:
    import numpy as np

    from fixman import simulation, writer
    from fixman.walks import TETRAHEDRAL, random_walks

    writer.require_free(arguments.out, arguments.overwrite)
    if arguments.beads is not None:
        _require_memory(arguments.beads, arguments.replicas)
    chain = _chain(arguments)
    _require_memory(chain.n, arguments.replicas)
    stepper = _stepper(arguments)
    if arguments.seed is not None and arguments.seed < 0:
        raise ValueError(f"--seed must not be negative, got {arguments.seed}")
    seed = secrets.randbits(64) if arguments.seed is None else arguments.seed
    x0 = random_walks(
        chain,
        arguments.replicas,
        lengths=arguments.length,
        angles=_radians(arguments, chain, "angle", TETRAHEDRAL),
        torsions=_radians(arguments, chain, "torsion", math.pi),
        rng=np.random.default_rng(np.random.SeedSequence(seed, spawn_key=WALKS)),
    )
    # Said before the run, which may be killed; a pipe that is closed is met at the end.
    with contextlib.suppress(BrokenPipeError):
        print(f"{chain!r}, seed {seed}", flush=True)
    with _warnings_in_a_line():
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
            progress=_progress(arguments),
            overwrite=arguments.overwrite,
        )
    _report(run)


def _resume(arguments: argparse.Namespace) -> None:
    from fixman import simulation

    with _warnings_in_a_line():
        run = simulation.resume(
            arguments.folder,
            arguments.steps,
            workers=arguments.workers,
            progress=_progress(arguments),
        )
    _report(run)


@contextlib.contextmanager
def _warnings_in_a_line() -> Iterator[None]:
    """Print what the library warns of as the command line does."""
    from fixman.errors import RunDamageWarning, RunVersionWarning

    with warnings.catch_warnings():
        for category in (RunDamageWarning, RunVersionWarning, RuntimeWarning):
            warnings.filterwarnings("always", category=category)
        warnings.showwarning = _show
        yield


def _show(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"fixman: warning: {message}", file=sys.stderr)


def _export(arguments: argparse.Namespace) -> None:
    from fixman.store import load_run

    path, suffix = arguments.to, arguments.to.suffix.lower()
    if suffix not in (*GSD, *HDF5):
        raise ValueError(f"--to must end in .gsd or .h5, got {path}")
    if suffix in HDF5 and arguments.replica is not None:
        raise ValueError("--replica is for GSD: HDF5 files hold all replicas")
    if arguments.step == 0:
        raise ValueError("--step must not be 0")
    with _warnings_in_a_line():
        whole = load_run(arguments.folder)
    run = whole[arguments.start : arguments.stop : arguments.step]
    if not len(run):
        raise ValueError(f"no frame of {arguments.folder} is chosen: {run}")
    if suffix in GSD:
        from fixman.io.gsd import write_gsd

        write_gsd(run, path, replica=arguments.replica, overwrite=arguments.overwrite)
    else:
        from fixman.io.hdf5 import write_hdf5

        write_hdf5(run, path, overwrite=arguments.overwrite)
    print(f"wrote {path}: {len(run)} frame{'s' * (len(run) != 1)}")


def _check(arguments: argparse.Namespace) -> None:
    from fixman.store import check_run

    found = check_run(arguments.folder)
    print(found)
    if not found.whole:
        raise SystemExit(DAMAGED)


def _chain(arguments: argparse.Namespace) -> Chain:
    from fixman.chain import Chain

    if arguments.chain is None:
        if arguments.beads is None:
            raise ValueError("say which chain: --beads N, or --chain FILE")
        make = Chain.ring if arguments.ring else Chain.linear
        hard = arguments.hard or "length"
        return make(arguments.beads, dim=arguments.dim, base=arguments.base, hard=hard)
    for name in ("beads", "ring", "hard"):
        if getattr(arguments, name):
            raise ValueError(f"--{name} is for chains without a file: leave it out with --chain")
    if not arguments.chain.is_file():
        raise FileNotFoundError(f"no such file: {arguments.chain}")
    try:
        return Chain.from_json(arguments.chain.read_text(encoding="utf-8"))
    except ValueError as error:
        what = "it is no text" if isinstance(error, UnicodeDecodeError) else error
        raise ValueError(f"{arguments.chain}: {what}") from None


def _radians(arguments: argparse.Namespace, chain: Chain, kind: str, otherwise: float) -> float:
    """Return the value that --angle or --torsion gives the hard coordinates of that kind."""
    degrees = getattr(arguments, kind)
    if degrees is None:
        return otherwise
    if not any(chain.coordinates[row].kind == kind for row in chain.hard):
        raise ValueError(f"--{kind} is for hard {kind}s, and this chain has none: see --hard")
    most = 180.0 if kind == "angle" else 360.0
    if not abs(degrees) <= most:
        raise ValueError(f"--{kind} must be up to {most:g} degrees either way, got {degrees:g}")
    return math.radians(degrees)


def _stepper(arguments: argparse.Namespace) -> Stepper:
    from fixman.steppers import Langevin, Newton

    if arguments.method == "newton":
        for name in ("ensemble", "friction"):
            if getattr(arguments, name) is not None:
                raise ValueError(f"--{name} is for --method langevin")
        return Newton(arguments.dt, kT=arguments.kT)
    given = {name: getattr(arguments, name) for name in ("ensemble", "friction")}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Langevin(arguments.dt, kT=arguments.kT, **chosen)


def _progress(arguments: argparse.Namespace) -> bool | None:
    return False if arguments.quiet else None


def _report(run: Run) -> None:
    replicas = f"{run.replicas} replica{'s' * (run.replicas != 1)}"
    print(f"{len(run)} frame{'s' * (len(run) != 1)} of {replicas} in {run.path}")
    if not run.finished:
        total = run.about["steps"]
        print(f"interrupted at step {run.steps_done} of {total}: fixman resume {run.path}")
        raise SystemExit(INTERRUPTED)
