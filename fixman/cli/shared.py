"""Parts that commands share: flags of runs, results, files to be made."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import secrets
import signal
import sys
from argparse import Namespace as Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

from fixman.errors import printable

if TYPE_CHECKING:
    from fixman.runs.series import Series

NOISE = 1e-13  # of numbers in text that are zero
METHODS = {
    "langevin": "Langevin", "newton": "Newton", "brownian": "Brownian",
    "mc": "MonteCarlo", "hmc": "HybridMonteCarlo",
}  # fmt: skip
INTERRUPTED = 130  # exit code, in shells, of a program that Ctrl-C ended


def show(text: object, error: bool = False) -> None:
    """Print what may have text of files in it."""
    print(printable(str(text)), file=sys.stderr if error else sys.stdout)


def warn(message: Warning | str, *_: Any, **__: Any) -> None:
    show(f"fixman: warning: {' '.join(str(message).split())}", error=True)


def say(arguments: Namespace, text: str) -> None:
    """Print before the work, which may be killed; a pipe that is closed is met at the end."""
    if not arguments.json:
        with contextlib.suppress(BrokenPipeError):
            show(text)
            sys.stdout.flush()


def result(arguments: Namespace, text: object, found: Mapping[str, Any]) -> None:
    show(json.dumps(found, indent=2) if arguments.json else text)


def lines(found: Mapping[str, Any]) -> str:
    """Return a document as text: numbers in a line, below them texts, tables and further parts."""
    text = []
    for name, value in found.items():
        below = ""
        if isinstance(value, dict):
            below = lines(value)
        elif value and isinstance(value, (list, tuple)) and not isinstance(value[0], float):
            below = "\n".join(_table(value) if isinstance(value[0], dict) else value)
        text.append(f"{name}:\n{indent(below, '  ')}" if below else f"{name}: {_cell(value)}")
    return "\n".join(text)


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    columns = []
    for name, value in rows[0].items():
        cells = [name, *(_cell(row[name]) for row in rows)]
        align = str.ljust if isinstance(value, str) else str.rjust
        columns.append([align(cell, max(map(len, cells))) for cell in cells])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def _cell(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " ".join(map(_cell, value))
    return f"{value if abs(value) > NOISE else 0:.4g}" if isinstance(value, float) else str(value)


def given(arguments: Namespace, *names: str) -> dict[str, Any]:
    """Return the flags that were given, or have a default."""
    found = {name: getattr(arguments, name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@contextlib.contextmanager
def outputs(
    arguments: Namespace, given: Sequence[Path | None], *inputs: Path | None
) -> Iterator[list[Path | None]]:
    """Give names to write to, or None, that become the given files when all is done.

    Names that cannot be had, and formats of --plot, are refused before the work.
    """
    from fixman._common.files import new_file

    if arguments.plot:
        from fixman.analysis import plot

        plot.require_format(arguments.plot)
    taken = [path.resolve() for path in inputs if path]
    for path in filter(None, given):
        if path.resolve() in taken or (path.exists() and not path.is_file()):
            raise ValueError(f"{path} is an input, another output or no file: choose another name")
        taken.append(path.resolve())
    with contextlib.ExitStack() as stack:
        new = stack.enter_context
        yield [path and new(new_file(path, arguments.overwrite)) for path in given]
    for path in filter(None, given):
        say(arguments, f"wrote {path}")


def client(arguments: Namespace) -> contextlib.AbstractContextManager[Any]:
    if arguments.scheduler is None:
        return contextlib.nullcontext()
    from fixman.io.dask import connect

    return connect(arguments.scheduler)


def seed(arguments: Namespace) -> int:
    given: int | None = arguments.seed
    return secrets.randbits(53) if given is None else given  # exact in other readers of JSON


def steps(arguments: Namespace) -> float:
    from fixman._common import arrays

    time, dt = arrays.positive(arguments.time, "--time"), arrays.positive(arguments.dt, "--dt")
    if time < dt:
        raise ValueError(f"--time must be at least a step of --dt, got {time:g} and {dt:g}")
    return time / dt


def progress(arguments: Namespace) -> bool | None:
    """Return whether to show a progress bar, None as the terminal can; have Python see Ctrl-C.

    A run ends after its block then.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return False if arguments.quiet else None


def chosen(
    arguments: Namespace, flags: Sequence[str], usual: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Return the class of --method, and its fields by the flags; refuse flags of others."""
    import fixman

    kinds = {method: getattr(fixman, kind) for method, kind in METHODS.items()}
    fields = {method: [f.name for f in dataclasses.fields(kind)] for method, kind in kinds.items()}
    found = given(arguments, *flags)
    for name in found:
        field = "flow" if name in ("shear", "extension") else name
        able = [method for method, known in fields.items() if field in known]
        if arguments.method not in able:
            raise ValueError(f"--{name} is for --method {' or '.join(able)}")
    known = {name: usual[name] for name in usual if name in fields[arguments.method]}
    return kinds[arguments.method], known | found


def simulated(arguments: Namespace, *of: Any, seed: int, **more: Any) -> int:
    from fixman.simulation import simulate as simulation

    more |= given(arguments, "every", "replicas", "workers", "out", "overwrite")
    run = simulation.simulate(*of, rng=seed, progress=progress(arguments), **more)
    return report(arguments, run)


def described(run: Series) -> dict[str, Any]:
    from fixman.simulation.trajectory import REFUSING, Run, pdb_potential

    about, stepper = run.about, dict(run.about["stepper"])
    if pdb_potential(about) is not None:
        del stepper["potential"]  # pages of a PDB file
    found: dict[str, Any] = {"file": run.path and str(run.path), "stepper": stepper}
    found |= {"frames": len(run), "steps_done": run.steps_done, "steps": about["steps"]}
    found["finished"] = run.finished
    if not isinstance(run, Run):
        return found | {"chain": repr(vars(run)["system"])}
    if stepper["name"] in REFUSING and run.steps_done:
        found["acceptance"] = float(run.acceptance.mean())
    more = {"chain": repr(run.model), "replicas": run.replicas, "seed": about["rng"].get("seed")}
    return found | more


def report(arguments: Namespace, run: Series) -> int:
    """Print what a run is now, and how to go on with it; return the exit code."""
    found, text = described(run), repr(run)
    if "acceptance" in found:
        text += f", {found['acceptance']:.1%} of the moves accepted"
    if not run.finished:
        text += f"\ninterrupted: fixman resume {run.path}"
    result(arguments, text, found)
    return 0 if run.finished else INTERRUPTED
