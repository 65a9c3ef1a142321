"""A run's ``about``: chain, stepper, seed, versions; and the checks of what a file says.

Kernels trust their callers.  Entries and arrays from a file, which may be damaged or a stranger's,
are therefore compared here with what is used of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman import __version__
from fixman.chains.chain import Chain
from fixman.errors import RunFolderError
from fixman.kernels.chain.rows import LENGTH
from fixman.simulation.steppers.montecarlo import NARROWEST, WIDEST
from fixman.simulation.trajectory import OBSERVABLE, REFUSING, TALLY, Arrays

FORMAT = 2
DECISIVE = ("fixman", "numpy", "scipy", "numba")  # versions that bits depend on
LARGEST = 2**53  # most steps, which other programs read as floating point
MOST_BYTES = 1 << 30  # largest block of several frames
OFF = 1e-4  # by which hard values may miss their targets; the steppers keep 1e-9
OURS = ("brownian", "langevin", "newton", *REFUSING)  # their states are known to the last array

# Types that an array may have, and its shape; ... stands for any further axes.
Form = tuple[tuple[str, ...], tuple[Any, ...]]
DOUBLE, SINGLE, COUNTER = "<f8", "<f4", "<i8"


def versions() -> dict[str, str]:
    """Return the versions that results can depend on."""
    numeric = {name: version(name) for name in DECISIVE[1:]}
    return {"fixman": __version__, **numeric, "python": python_version()}


def plain(value: Any) -> Any:
    """Return what comes back of a value from JSON."""
    return json.loads(json.dumps(value, default=_listed))


def _listed(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r:.80} cannot be written to the file of a run")


# --- about --------------------------------------------------------------------------------------


def _whole(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST


def _words(value: dict[str, Any]) -> bool:
    return all(isinstance(word, str) and word.isprintable() for word in value.values())


def _stepper(value: dict[str, Any]) -> bool:
    dt, ours = value.get("dt", 1.0), value["name"] in OURS  # one of the user's may go backwards
    number = type(dt) in (int, float) and abs(dt) < np.inf and (dt > 0 or not ours)
    return isinstance(value["name"], str) and number


_ENTRIES: dict[str, Callable[[Any], bool]] = {
    "block": lambda value: _whole(value["frames"]) and _whole(value["steps"]),
    "every": _whole,
    "groups": lambda value: type(value) is list and bool(value) and all(map(_whole, value)),
    "history": lambda value: all(_whole(e["steps"]) and _words(e["versions"]) for e in value),
    "observables": lambda value: all(
        name.isidentifier() and (home is None or isinstance(home, str))
        for name, home in value.items()
    ),
    "replicas": _whole,
    "rng": lambda value: isinstance(value, dict),
    "stepper": _stepper,
    "steps": _whole,
    "versions": _words,
}


def require_entries(about: Any, shown: Path) -> Chain:
    """Compare what a run says of itself with what is used of it; return its chain.

    Raises RunFolderError, which names the entry; ``shown`` is the file in messages.
    """
    try:
        found = about["fixman_run"]
        if type(found) is int and found > FORMAT:
            raise RunFolderError(
                f"{shown} has format {found}, this fixman reads {FORMAT}: it was written by a "
                "newer version"
            )
        for name, holds in (_ENTRIES | {"fixman_run": lambda value: value == FORMAT}).items():
            if not holds(about[name]):
                raise ValueError(f"{name} is {about[name]!r:.60}")
        if sum(about["groups"]) != about["replicas"] or about["steps"] % about["every"]:
            raise ValueError("groups are not all replicas, or steps no multiple of every")
        chain = Chain.from_json(json.dumps(about["chain"]))
        frames = about["block"]["frames"]
        if frames > 1 and 16 * frames * max(about["groups"]) * chain.n * chain.dim > MOST_BYTES:
            raise ValueError("its blocks would be of more than a gigabyte")
    except RunFolderError:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise RunFolderError(f"{shown} is damaged: about: {error!r}") from None
    return chain


# --- arrays ---------------------------------------------------------------------------------------


def forms(
    about: Mapping[str, Any], chain: Chain, replicas: int, frames: int | None = None
) -> dict[str, Form]:
    """Return the arrays of a block of so many frames, or of a checkpoint, by their names."""
    name = about["stepper"]["name"]
    ours = name in OURS
    kinds = (DOUBLE,) if ours else (DOUBLE, SINGLE)
    lead = (replicas,) if frames is None else (frames, replicas)
    found: dict[str, Form] = dict.fromkeys("xv", (kinds, (*lead, chain.n, chain.dim)))
    if name in REFUSING:
        found[TALLY] = (DOUBLE,), (*lead, 3)
    if frames is not None:
        measured = (DOUBLE, "<c16"), (*lead, ...)
        return found | {OBSERVABLE + name: measured for name in about["observables"]}
    return found | {
        "random": (("<u8",), (*lead, 4 if ours else ...)),
        "targets": (kinds, (*lead, chain.hard.size if ours else ...)),
        "step": ((COUNTER,), ()),
    }


def fits(kind: str, shape: tuple[int, ...], form: Form) -> bool:
    """Whether an array of a type and shape is one of a form."""
    kinds, lengths = form
    if lengths[-1:] == (...,):
        shape, lengths = shape[: len(lengths) - 1], lengths[:-1]
    return kind in kinds and shape == lengths


def unphysical(state: Arrays, chain: Chain, about: Mapping[str, Any]) -> str:
    """Say why no stepper can go on from a state; nothing if one can."""
    for name in ("x", "v", "targets"):
        if not np.isfinite(state[name]).all():
            return f"{name} holds numbers that are not finite"
    if TALLY in state:
        tried, accepted, width = state[TALLY].T
        if not np.all((accepted >= 0) & (accepted <= tried) & (tried < np.inf)):
            return f"{TALLY} does not count what was tried and accepted"
        dt = about["stepper"].get("dt")
        least, most = (NARROWEST, WIDEST) if dt is None else (dt, dt)
        if not np.all((least <= width) & (width <= most)):
            return f"{TALLY} has widths of moves that are not from {least:g} to {most:g}"
    if about["stepper"]["name"] not in OURS:
        return ""
    dead = np.flatnonzero(~state["random"].any(axis=1))
    if dead.size:
        return f"the random stream of replica {dead[0]} is all zeros, which no stream becomes"
    replica = _first_off(chain, state["x"], state["targets"])
    return "" if replica < 0 else f"replica {replica} does not have the hard values that it says"


def _first_off(chain: Chain, x: NDArray[Any], targets: NDArray[Any]) -> int:
    """Return the first replica whose hard values are not its targets, or −1."""
    if not chain.hard.size:
        return -1
    rows = chain.layout.hard_rows
    with np.errstate(all="ignore"):
        values, bad = rows.values(x)
        turn = np.remainder(values - targets + np.pi, 2.0 * np.pi) - np.pi
        off = np.where(rows.formulas == LENGTH, values / targets - 1.0, turn)
    wrong = np.flatnonzero(~(np.abs(off) <= OFF).all(axis=1))
    return int(bad) if bad >= 0 else int(wrong[0]) if wrong.size else -1
