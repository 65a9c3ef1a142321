"""The files of a run folder: their names, what they must hold, and reading them without belief.

    run.json                  what is run: chain, stepper, potential, seed and versions
    block_000000.npz          frames: step (frames,), x and v (frames, replicas, n, d), observables
    checkpoint.npz            the state after the last block: all that a continuation needs
    checkpoint_previous.npz   the one before it

A run whose groups of replicas were computed apart has instead, beside a run.json of the whole,

    group-000                 a folder with all of these files, for the first of its replicas

Kernels trust their callers, so every entry and every array is compared here with what run.json
says, and run.json with a table.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
from fixman.simulation.archives import ArchiveError, Arrays, Form, read
from fixman.simulation.places import Place
from fixman.simulation.steppers.montecarlo import NARROWEST, WIDEST
from fixman.simulation.trajectory import OBSERVABLE, REFUSING, TALLY

FORMAT = 1
ABOUT = "run.json"
CHECKPOINT = "checkpoint.npz"
PREVIOUS = "checkpoint_previous.npz"
STATE = "state_"
BLOCK = re.compile(r"block_(\d{6,})\.npz")
LARGEST = 2**53  # of steps, which other programs read as floating point
MOST_BYTES = 1 << 30  # of a block of several frames
OFF = 1e-4  # by which hard values may miss their targets; the steppers keep 1e-9
OURS = ("brownian", "langevin", "newton", *REFUSING)  # their states are known to the last array

WORD, COUNTER = ("<U32",), ("int64",)
REAL = {True: ("float64",), False: ("float64", "float32")}  # ours; a stepper of the user's own


def block_name(number: int) -> str:
    """Return the name of a block."""
    return f"block_{number:06d}.npz"


def versions() -> dict[str, str]:
    """Return the versions that results can depend on."""
    numeric = {name: version(name) for name in ("numpy", "scipy", "numba")}
    return {"fixman": __version__, **numeric, "python": python_version()}


def digest(state: Mapping[str, NDArray[Any]]) -> str:
    """Digest of a state, for run.json to say where a run began."""
    sponge = hashlib.blake2b(digest_size=16)
    for name in sorted(state):
        sponge.update(name.encode() + np.ascontiguousarray(state[name]).tobytes())
    return sponge.hexdigest()


def identify(about: Mapping[str, Any]) -> dict[str, Any]:
    """Put run.json into its final form, with the identity of all that cannot change any more."""
    fixed = {key: about[key] for key in about if key not in ("steps", "history", "id")}
    text = json.dumps(plain(fixed), sort_keys=True)
    name = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    return dict(plain({**about, "id": name}))


def plain(value: Any) -> Any:
    """Return what comes back of a value from JSON."""
    return json.loads(json.dumps(value, default=_listed))


def _listed(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r:.80} cannot be written to {ABOUT}")


# --- run.json -----------------------------------------------------------------------------------


def _whole(value: Any) -> bool:
    return type(value) is int and 1 <= value <= LARGEST


def _words(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(word, str) and word.isprintable() for word in value.values()
    )


def _stepper(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str):
        return False
    dt = value.get("dt", 1.0)
    # A stepper of the user's own may go backwards.
    return type(dt) in (int, float) and (dt > 0 or value["name"] not in OURS) and abs(dt) < np.inf


def _event(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and type(value.get("step")) is int
        and 0 <= value["step"] <= LARGEST
        and _whole(value.get("steps"))
        and _words(value.get("versions"))
    )


def _observables(value: Any) -> bool:
    return isinstance(value, dict) and all(
        name.isidentifier() and (home is None or isinstance(home, str))
        for name, home in value.items()
    )


def _block(value: Any) -> bool:
    return isinstance(value, dict) and _whole(value.get("frames")) and _whole(value.get("steps"))


def _groups(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_whole, value))


_HEX = re.compile("[0-9a-f]{32}")


def _hex(value: Any) -> bool:
    return isinstance(value, str) and _HEX.fullmatch(value) is not None


_SCHEMA: dict[str, tuple[Callable[[Any], bool], str]] = {
    "block": (_block, "frames and steps, whole numbers from 1 on"),
    "chain": (lambda value: isinstance(value, dict), "a chain"),
    "every": (_whole, "a whole number from 1 to 2^53"),
    "history": (
        lambda value: isinstance(value, list) and all(map(_event, value)),
        "a list of {step, steps, versions}",
    ),
    "id": (_hex, "32 hexadecimal digits"),
    "observables": (_observables, "names, each with a name in fixman.observables or null"),
    "replicas": (_whole, "a whole number from 1 to 2^53"),
    "rng": (lambda value: isinstance(value, dict), "the seed, {...}"),
    "start": (_hex, "32 hexadecimal digits"),
    "stepper": (_stepper, "a stepper with a name, and with a number dt > 0 if it has one"),
    "steps": (_whole, "a whole number from 1 to 2^53"),
    "versions": (_words, "names and versions"),
}


_OPTIONAL: dict[str, tuple[Callable[[Any], bool], str]] = {
    "group": (lambda value: isinstance(value, dict), "{run, number}"),
    "groups": (_groups, "a list of numbers of replicas"),
}


def read_about(place: Place, shown: Path) -> tuple[dict[str, Any], Chain]:
    """Read run.json, entry by entry; ``shown`` is the folder in messages.

    Raises FileNotFoundError if there is no folder, and RunFolderError for all that is no run.
    """
    if not place.path.exists():
        raise FileNotFoundError(f"no such folder: {shown}")
    try:
        with place.open(ABOUT) as file:
            text = file.read()
    except RunFolderError as error:
        if (place.path / ABOUT).exists() or (place.path / ABOUT).is_symlink():
            raise
        raise RunFolderError(f"{shown} is not a run: it has no {ABOUT}") from error
    except OSError as error:
        raise RunFolderError(f"{shown / ABOUT} cannot be read: {error.strerror}") from None
    about = _document(text, shown)
    require_entries(about, shown)
    try:
        identity = identify(about)["id"]
        chain = Chain.from_json(json.dumps(about["chain"]))
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{shown / ABOUT} is damaged: chain: {error}") from None
    if identity != about["id"]:
        raise RunFolderError(
            f"{shown / ABOUT} was edited: a run keeps its chain, stepper and seed to its end"
        )
    frames, replicas = about["block"]["frames"], max(about.get("groups", [about["replicas"]]))
    if frames > 1 and 16 * chain.n * chain.dim * replicas * frames > MOST_BYTES:
        raise _entry(shown, "block", about["block"], "blocks of less than a gigabyte")
    return about, chain


def require_entries(about: dict[str, Any], shown: Path) -> None:
    """Compare what run.json holds, or is about to, with the table."""
    steering = _steering(about)
    if steering is not None:
        raise RunFolderError(
            f"{shown / ABOUT} is damaged: it holds control characters, {steering!r:.60}"
        )
    missing = sorted(_SCHEMA.keys() - about.keys())
    if missing:
        raise RunFolderError(f"{shown / ABOUT} is damaged: it has no {', '.join(missing)}")
    for name, (check, expected) in (_SCHEMA | _OPTIONAL).items():
        if name in about and not check(about[name]):
            raise _entry(shown, name, about[name], expected)
    groups = about.get("groups", [about["replicas"]])
    if sum(groups) != about["replicas"]:
        raise _entry(shown, "groups", groups, f"a sum of {about['replicas']} replicas")
    if about["steps"] % about["every"]:
        raise _entry(shown, "steps", about["steps"], f"a multiple of every, {about['every']}")


def _steering(about: Any) -> str | None:
    """Return a text that would steer a terminal; the lines of a PDB file do not."""
    waiting = [about]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, str) and not value.translate(dict.fromkeys(b"\t\n\r")).isprintable():
            return value
    return None


def _document(text: bytes, shown: Path) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is no number of JSON")

    try:
        about = json.loads(text.decode("utf-8"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise RunFolderError(f"{shown / ABOUT} is damaged: {error}") from None
    if not isinstance(about, dict) or "fixman_run" not in about:
        raise RunFolderError(f"{shown} is not a run of fixman: {ABOUT} is of something else")
    found = about["fixman_run"]
    if type(found) is int and found > FORMAT:
        raise RunFolderError(
            f"{shown} has format {found}, this fixman reads {FORMAT}: it was written by a newer "
            "version"
        )
    if type(found) is not int or found != FORMAT:
        raise _entry(shown, "fixman_run", found, f"{FORMAT}, the format")
    return about


def _entry(shown: Path, name: str, value: Any, expected: str) -> RunFolderError:
    return RunFolderError(
        f"{shown / ABOUT} is damaged: {name} is {value!r:.60}, expected {expected}"
    )


# --- checkpoints --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checkpoint:
    """A state, the frames of every block until then, and the number of the first of them."""

    step: int
    counts: list[int]
    first: int
    state: Arrays

    @property
    def frames(self) -> int:
        """Frames of the run until then, those before the folder's first included."""
        return self.first + sum(self.counts)


def checkpoint_arrays(point: Checkpoint, identity: str) -> Arrays:
    """Return what the file of a checkpoint holds."""
    arrays = {STATE + name: array for name, array in point.state.items()}
    arrays |= {"step": np.array(point.step, dtype=np.int64), "run": np.array(identity)}
    if point.first:  # a folder that was rescued; others are what they always were
        arrays["first"] = np.array(point.first, dtype=np.int64)
    return arrays | {"frames": np.array(point.counts, dtype=np.int64)}


def read_checkpoint(place: Place, name: str, about: dict[str, Any], chain: Chain) -> Checkpoint:
    """Read a checkpoint and compare every array with run.json; RunFolderError if one is amiss."""
    beads = (about["replicas"], chain.n, chain.dim)
    ours = about["stepper"]["name"] in OURS
    hard = chain.hard.size
    forms: dict[str, Form] = {
        "run": (WORD, ()),
        "step": (COUNTER, ()),
        "frames": (COUNTER, (None,)),
        "first": (COUNTER, ()),
        f"{STATE}x": (REAL[ours], beads),
        f"{STATE}v": (REAL[ours], beads),
        f"{STATE}random": (("uint64",), (beads[0], 4 if ours else ...)),
        f"{STATE}targets": (REAL[ours], (beads[0], hard if ours else ...)),
        f"{STATE}step": (COUNTER, ()),
    } | _tally_form(about, STATE)
    path = place.path / name
    arrays = _read(place, name, about, forms, optional=("first",))
    point = Checkpoint(
        int(arrays["step"]),
        arrays["frames"].tolist(),
        int(arrays.get("first", 0)),
        {key.removeprefix(STATE): arrays[key] for key in arrays if key.startswith(STATE)},
    )
    wrong = _inconsistent(point, about) or _unphysical(point, chain, about)
    if wrong:
        raise RunFolderError(f"{path} is damaged: {wrong}")
    return point


def _tally_form(
    about: dict[str, Any], prefix: str = "", lead: tuple[int | None, ...] = ()
) -> dict[str, Form]:
    if about["stepper"]["name"] not in REFUSING:
        return {}
    return {f"{prefix}{TALLY}": (("float64",), (*lead, about["replicas"], 3))}


def _inconsistent(point: Checkpoint, about: dict[str, Any]) -> str:
    most, every = about["block"]["frames"], about["every"]
    if not 0 <= point.step <= about["steps"]:
        return f"step is {point.step}, of a run of {about['steps']} steps"
    if int(point.state["step"]) != point.step:
        return f"the step of the state is {point.state['step']}, and its own {point.step}"
    if any(not 1 <= count <= most for count in point.counts):
        return f"a block of it has not 1 to {most} frames: {point.counts!r:.60}"
    begin = point.step == 0 and point.frames == 0
    if point.first < 0 or not (begin or point.frames == point.step // every + 1):
        return f"it counts {point.frames} frames at step {point.step}, one every {every} steps"
    if point.step == 0 and digest(point.state) != about["start"]:
        return f"its state is not the one that {ABOUT} says the run began with"
    return ""


def _unphysical(point: Checkpoint, chain: Chain, about: dict[str, Any]) -> str:
    state, ours = point.state, about["stepper"]["name"] in OURS
    for name in ("x", "v", "targets"):
        if not np.isfinite(state[name]).all():
            return f"{STATE}{name} holds numbers that are not finite"
    if TALLY in state:
        tried, accepted, width = state[TALLY].T
        if not np.all((accepted >= 0) & (accepted <= tried) & (tried < np.inf)):
            return f"{STATE}{TALLY} does not count what was tried and accepted"
        dt = about["stepper"].get("dt")
        least, most = (NARROWEST, WIDEST) if dt is None else (dt, dt)
        if not np.all((least <= width) & (width <= most)):
            return f"{STATE}{TALLY} has widths of moves that are not from {least:g} to {most:g}"
    dead = np.flatnonzero(~state["random"].any(axis=1)) if ours else np.empty(0)
    if dead.size:
        return f"the random stream of replica {dead[0]} is all zeros, which no stream becomes"
    if ours and chain.hard.size:
        rows = chain.layout.hard_rows
        with np.errstate(all="ignore"):
            values, bad = rows.values(state["x"])
            turn = np.remainder(values - state["targets"] + np.pi, 2.0 * np.pi) - np.pi
            length = rows.formulas == LENGTH
            off = np.where(length, values / state["targets"] - 1.0, turn)
        if bad >= 0 or not (np.abs(off) <= OFF).all():
            replica = bad if bad >= 0 else int(np.argmax(~(np.abs(off) <= OFF).all(axis=1)))
            return f"replica {replica} does not have the hard values that it says"
    return ""


# --- blocks -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """The frames that a block holds: their numbers in the run are first, first + 1, …."""

    number: int
    first: int
    count: int


def read_block(
    place: Place, span: Span, about: dict[str, Any], chain: Chain, *wanted: str
) -> Arrays:
    """Read the arrays ``wanted`` of a block, by default all; its steps are compared always."""
    arrays = _read(
        place,
        block_name(span.number),
        about,
        _block_forms(about, chain, span.count),
        (*wanted, "step", "run") if wanted else None,
    )
    path = place.path / block_name(span.number)
    if not np.array_equal(arrays["step"], expected_steps(span, about["every"])):
        raise RunFolderError(f"{path} is damaged: its frames are not those from {span.first} on")
    for name in ("x", "v"):
        if name in arrays and not np.isfinite(arrays[name]).all():
            raise RunFolderError(f"{path} is damaged: {name} holds numbers that are not finite")
    return arrays


def expected_steps(span: Span, every: int) -> NDArray[np.int64]:
    """Return the steps at which the frames of a block were recorded."""
    return np.arange(span.first, span.first + span.count, dtype=np.int64) * every


def read_steps(place: Place, number: int, about: dict[str, Any], chain: Chain) -> Span:
    """Find out from a block itself which frames it holds."""
    forms = _block_forms(about, chain, None)
    steps = _read(place, block_name(number), about, forms, ("step", "run"))["step"]
    count, every = len(steps), about["every"]
    first, rest = divmod(int(steps[0]), every) if count else (0, 0)
    span = Span(number, first, count)
    if not 1 <= count <= about["block"]["frames"] or rest or not 0 <= first <= LARGEST // every:
        raise RunFolderError(
            f"{place.path / block_name(number)} is damaged: its steps are no frames"
        )
    read_block(place, span, about, chain)
    return span


def _block_forms(about: dict[str, Any], chain: Chain, count: int | None) -> dict[str, Form]:
    beads = (count, about["replicas"], chain.n, chain.dim)
    kinds = REAL[about["stepper"]["name"] in OURS]
    forms: dict[str, Form] = {
        "run": (WORD, ()),
        "step": (COUNTER, (count,)),
        "x": (kinds, beads),
        "v": (kinds, beads),
    }
    measured: Form = (("float64", "complex128"), (count, about["replicas"], ...))
    forms |= _tally_form(about, lead=(count,))
    return forms | {OBSERVABLE + name: measured for name in about["observables"]}


def _read(
    place: Place,
    name: str,
    about: dict[str, Any],
    forms: dict[str, Form],
    wanted: tuple[str, ...] | None = None,
    optional: tuple[str, ...] = (),
) -> Arrays:
    path = place.path / name
    with place.open(name) as raw:
        try:
            arrays = read(raw, forms, wanted, optional)
        except ArchiveError as error:
            raise RunFolderError(f"{path} is damaged: {error}") from None
    if str(arrays["run"]) != about["id"]:
        raise RunFolderError(f"{path} belongs to another run than {place.path / ABOUT}")
    return arrays
