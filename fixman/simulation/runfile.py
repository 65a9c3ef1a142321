"""A run on disk: one SQLite file, with frames in blocks and the state behind the last of them.

    run          about: chain, stepper, potential, seed, versions, as JSON; and an id of the file
    blocks       frames from ``first`` on: x, v and observables of each group of replicas
    checkpoints  the last two states of each group

A block and the checkpoint that counts it are one transaction, so that whatever ends a program
leaves the last that was whole.  Every row has a checksum of its contents and of its place.

SQLite keeps its journal beside the file while a block is being written, and nowhere else: with a
write-ahead log instead, most of a run could be in a second file, each byte is written twice, and
file systems of networks have none.  The one writer holds the right to write from block to block
(SQLite's RESERVED lock), beside which others read; it falls with the process.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fixman._common import arrays as _arrays
from fixman.chains.chain import Chain
from fixman.errors import RunFolderError, RunStorageError
from fixman.simulation import provenance
from fixman.simulation.provenance import COUNTER, Form
from fixman.simulation.trajectory import Arrays, Part, Run, side_by_side

__all__ = ["RunCheck", "check_run", "load_run"]

_ROW = "name TEXT, piece INTEGER, kind TEXT, shape TEXT, checksum INTEGER, data BLOB"
SCHEMA = (
    "CREATE TABLE run (id TEXT, about TEXT, checksum INTEGER)",
    f"CREATE TABLE blocks (part INTEGER, first INTEGER, {_ROW}, "
    "PRIMARY KEY (part, first, name, piece))",
    f"CREATE TABLE checkpoints (part INTEGER, step INTEGER, {_ROW}, "
    "PRIMARY KEY (part, step, name, piece))",
)
PLACE = {"blocks": "first", "checkpoints": "step"}
PIECE = 1 << 26  # bytes of an array in one row; SQLite's limit is 10⁹
CONNECTION: dict[str, Any] = {"uri": True, "isolation_level": None, "check_same_thread": False}
SETTINGS = (
    "synchronous=FULL",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "secure_delete=OFF",
    "cache_size=-65536",  # kilobytes, for a block and what it touches
)
PATIENCE = 600.0  # seconds to wait for a reader's end
_STORAGE = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it can only be read",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened or made there",
    sqlite3.SQLITE_IOERR: "the disk or its file system refuses, or files may not grow that large",
    sqlite3.SQLITE_PERM: "there is no permission",
    sqlite3.SQLITE_NOLFS: "files may not grow that large",
}
_UNREADABLE = (
    sqlite3.Error, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
    RecursionError,
)  # fmt: skip


# --- rows ---------------------------------------------------------------------------------------


def checksum_of(data: Any, *place: Any) -> int:
    return zlib.crc32(data, zlib.crc32(json.dumps(place).encode()))


def put(con: sqlite3.Connection, table: str, part: int, place: int, arrays: Arrays) -> None:
    for name, array in arrays.items():
        kind, shape = array.dtype.newbyteorder("<").str, json.dumps(array.shape)
        flat = np.asarray(array, kind, order="C").reshape(-1).view(np.uint8)
        for piece, start in enumerate(range(0, max(1, flat.size), PIECE)):
            data = flat[start : start + PIECE]
            key = (part, place, name, piece, kind, shape)
            row = (*key, checksum_of(data, table, *key), data)
            con.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)


def _get(
    con: sqlite3.Connection, table: str, part: int, place: int, name: str, form: Form
) -> NDArray[Any]:
    """Read an array; what is announced is compared with what is expected before it is read."""
    rows = f"FROM {table} WHERE part = ? AND {PLACE[table]} = ? AND name = ?"
    key = (part, place, name)
    kind, text, size = con.execute(f"SELECT kind, shape, sum(length(data)) {rows}", key).fetchone()
    if kind is None:
        raise ValueError(f"{name} is missing")
    shape = tuple(json.loads(text))
    if not provenance.fits(kind, shape, form):
        raise ValueError(f"{name} has type {kind} and shape {shape}, expected {form}")
    if math.prod(shape) * np.dtype(kind).itemsize != (size or 0):
        raise ValueError(f"{name} announces another size than it has")
    pieces = []
    rows = f"SELECT piece, data, checksum {rows} ORDER BY piece"
    for piece, data, checksum in con.execute(rows, key):
        pieces.append(data or b"")
        if checksum != checksum_of(pieces[-1], table, *key, piece, kind, text):
            raise ValueError(f"the checksum of {name} is another one")
    array = np.frombuffer(b"".join(pieces), kind).reshape(shape)
    if name in ("x", "v") and not np.isfinite(array).all():
        raise ValueError(f"{name} holds numbers that are not finite")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


# --- connections --------------------------------------------------------------------------------


def connect(path: Path, mode: str, timeout: float = PATIENCE) -> sqlite3.Connection:
    con: sqlite3.Connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        timeout=timeout,
        **CONNECTION,
    )
    for setting in SETTINGS:
        con.execute(f"PRAGMA {setting}")
    return con


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a run to read, as it is at one instant; RunFolderError for whatever is none."""
    require_file(path)
    with explained(path), contextlib.closing(connect(path, "rw")) as con:
        con.execute("PRAGMA query_only=ON")
        con.execute("BEGIN")
        require_schema(con, path)
        yield con


def require_file(path: Path) -> None:
    if (path / "run.json").is_file():
        raise RunFolderError(
            f"{path} is a folder, as runs were before they were files: the fixman that made it "
            "reads it"
        )
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    if not path.is_file():  # a pipe would keep us waiting for ever
        raise RunFolderError(f"{path} is not a run: it is no file")


def tables_of(con: sqlite3.Connection) -> tuple[str, ...]:
    """Return the SQL of the tables of a file; none if it is empty, as good as no file."""
    found = con.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return tuple(sql for (sql,) in found)


def require_schema(con: sqlite3.Connection, path: Path) -> None:
    """Refuse tables that are not those of a run, and whatever SQL a stranger's file has."""
    found = tables_of(con)
    if not found:
        raise RunFolderError(f"{path} is not a run: it is empty")
    if found != SCHEMA:
        raise RunFolderError(f"{path} is not a run, or is damaged: its tables are others")


@contextlib.contextmanager
def explained(path: Path, writing: bool = False) -> Iterator[None]:
    """Say what an error of SQLite, or of numbers that make no sense, means for a run."""
    try:
        yield
    except RunFolderError:
        raise
    except _UNREADABLE as error:
        if writing and not isinstance(error, sqlite3.Error):
            raise
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise RunFolderError(
                f"another process is writing to {path}: wait for its end"
            ) from error
        if writing and code in _STORAGE:
            raised = RunStorageError(f"cannot write {path}: {_STORAGE[code]} ({error})")
            raised.errno = errno.ENOSPC if code == sqlite3.SQLITE_FULL else None
            raise raised from error
        if code == sqlite3.SQLITE_NOTADB:
            raise RunFolderError(f"{path} is not a run, or is damaged: {error}") from None
        what = "cannot be read" if code in _STORAGE else "is damaged"
        raise RunFolderError(f"{path} {what}: {error}") from None


# --- reading ------------------------------------------------------------------------------------


class Point(NamedTuple):
    """How far a group is: its step, the frames until then, and its state."""

    step: int
    frames: int
    state: Arrays


@dataclass
class Contents:
    """A run as its file had it when it was read.

    Attributes: path, id, about, chain; of each group the frames of its blocks, ``spans``, and the
    steps of its checkpoints that can be read, the last one first; problems, of those that cannot.
    """

    path: Path
    id: str
    about: dict[str, Any]
    chain: Chain
    spans: list[list[range]]
    steps: list[list[int]]
    problems: list[str]

    @classmethod
    def of(cls, con: sqlite3.Connection, path: Path) -> Contents:
        """Read what there is, but no frame and no state."""
        with explained(path):
            rows = con.execute("SELECT id, about, checksum FROM run LIMIT 2").fetchall()
            if len(rows) != 1 or not isinstance(rows[0][1], str):
                raise ValueError("it does not say, in one row of text, what run it is")
            ((name, text, checksum),) = rows
            if checksum != checksum_of(text.encode(), name):
                raise ValueError("the checksum of about is another one")
            about = json.loads(text)
            found = cls(path, name, about, provenance.require_entries(about, path), [], [], [])
            for part in range(len(about["groups"])):
                found._list(con, part)
            return found

    def _list(self, con: sqlite3.Connection, part: int) -> None:
        """Note which frames and checkpoints a group has."""
        blocks = "SELECT first, shape FROM blocks WHERE part = ? AND name = 'x' AND piece = 0"
        rows = con.execute(f"{blocks} ORDER BY first", (part,))
        spans = [_announced(first, shape) for first, shape in rows]
        if any(a.stop != b.start or not b for a, b in pairwise([range(0), *spans])):
            raise ValueError("its blocks do not follow each other")
        most = self.about["steps"] // self.about["every"] + 1
        if spans and spans[-1].stop > most:
            raise ValueError(f"its blocks announce {spans[-1].stop!s:.20} frames, the run {most}")
        points = "SELECT step FROM checkpoints WHERE part = ? AND name = 'step' ORDER BY step DESC"
        steps = []
        for (step,) in con.execute(points, (part,)).fetchall():
            try:
                _get(con, "checkpoints", part, step, "step", ((COUNTER,), ()))
                steps.append(step)
            except _UNREADABLE as error:
                self.problems.append(f"{self.path} is damaged in a checkpoint: {error}")
        if not steps:
            self.problems.append(f"{self.path} is damaged: it has no checkpoint")
        self.spans.append(spans)
        self.steps.append(steps)

    def point(self, con: sqlite3.Connection, part: int, step: int) -> Point:
        """Read a checkpoint; RunFolderError unless a stepper can go on from it."""
        about, chain, every = self.about, self.chain, self.about["every"]
        with explained(self.path):
            forms = provenance.forms(about, chain, about["groups"][part])
            state = {
                name: _get(con, "checkpoints", part, step, name, form)
                for name, form in forms.items()
            }
            # The frame of this very step may still be due.
            due = [step // every + 1, *([step // every] if step % every == 0 else [])]
            stops = {0, *(span.stop for span in self.spans[part])}
            frames = next((count for count in due if count in stops), -1)
            wrong = provenance.unphysical(state, chain, about)
            if frames < 0:
                wrong = f"no block ends at frame {due[0] - 1}"
            if step != state["step"] or not 0 <= step <= about["steps"]:
                wrong = f"its state is of step {state['step']}"
            if wrong:
                raise ValueError(f"the checkpoint of step {step}: {wrong}")
            return Point(step, frames, state)

    def block(self, con: sqlite3.Connection, part: int, span: range, name: str) -> NDArray[Any]:
        """Read an array of a block; the error says which frames do not need it."""
        try:
            forms = provenance.forms(self.about, self.chain, self.about["groups"][part], len(span))
            return _get(con, "blocks", part, span.start, name, forms[name])
        except _UNREADABLE as error:
            raise RunFolderError(
                f"{self.path} is damaged in frames {span.start} to {span.stop - 1}: {error}; "
                f"those before {span.start} and from {span.stop} on can be read without them"
            ) from None

    def run(self) -> Run:
        """Return the frames that all groups have; none is read yet."""
        end = min(spans[-1].stop if spans else 0 for spans in self.spans)
        edges = {edge for spans in self.spans for span in spans for edge in (span.start, span.stop)}
        cuts = sorted(edge for edge in edges if edge <= end)
        load = partial(_load, self, self.path.absolute())  # wherever the program goes meanwhile
        parts = [Part(b - a, partial(load, range(a, b))) for a, b in pairwise(cuts)]
        done = min(steps[0] if steps else 0 for steps in self.steps)
        return Run(self.about, self.chain, done, parts, self.path)


def _announced(first: Any, shape: Any) -> range:
    """Frames of a block, as its row has them."""
    try:
        return range(first, first + json.loads(shape)[0])
    except _UNREADABLE:
        raise ValueError(f"the block at frame {first!r:.20} has no shape of frames") from None


def _load(contents: Contents, path: Path, frames: range, name: str) -> NDArray[Any]:
    """Read some frames, between which no block ends, of all groups."""
    with reading(path) as con:
        if con.execute("SELECT id FROM run").fetchone() != (contents.id,):
            raise RunFolderError(f"another run is in the place of {path}: load it anew")
        columns = []
        for part, spans in enumerate(contents.spans):
            (span,) = (s for s in spans if s.start <= frames.start and frames.stop <= s.stop)
            rows = contents.block(con, part, span, name)
            columns.append(rows[frames.start - span.start : frames.stop - span.start])
    return side_by_side(columns)


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read the file of a run, finished or not; one that is being written to as well.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    RunFolderError
        If it is not a run, or is damaged.  Frames that are asked for later raise it as well if
        theirs is the damage; the others can be read.

    Notes
    -----
    Reads what the run is; frames are read when they are asked for.
    """
    path = _arrays.path(path, "path")
    with reading(path) as con:
        return Contents.of(con, path).run()


def read_about(path: Path) -> dict[str, Any]:
    """Read what a run says of itself."""
    with reading(path) as con:
        return Contents.of(con, path).about


# --- damage -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunCheck:
    """Findings of `check_run`.

    Attributes
    ----------
    path : Path
    frames : int
        Frames that the run has.
    readable : tuple of range
        Numbers of the frames that can be read, in pieces.
    problems : tuple of str
        What is wrong, a line for each place.
    resumable : bool
        Whether `fixman.resume` can go on with it.
    """

    path: Path
    frames: int
    readable: tuple[range, ...]
    problems: tuple[str, ...]
    resumable: bool

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def __str__(self) -> str:
        if self.whole:
            return f"{self.path} is whole: {self.frames} frame{'s' * (self.frames != 1)}"
        pieces = ", ".join(f"{piece.start} to {piece.stop - 1}" for piece in self.readable)
        goes = "can be resumed" if self.resumable else "cannot be resumed"
        return "\n".join(
            [*self.problems, f"frames that can be read: {pieces or 'none'}; it {goes}"]
        )


def check_run(path: str | os.PathLike[str]) -> RunCheck:
    """Read the file of a run in whole, and say what is damaged.

    Nothing is changed.  Costs two readings of the file: by SQLite's integrity check, and of every
    array for its checksum.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    """
    path = _arrays.path(path, "path")
    try:
        with reading(path) as con:
            contents = Contents.of(con, path)
            found = examined(con, contents)
    except RunFolderError as error:
        return RunCheck(path, 0, (), (str(error),), False)
    frames = min(spans[-1].stop if spans else 0 for spans in contents.spans)
    readable = reduce(_in_both, found.readable)
    return RunCheck(path, frames, readable, tuple(found.problems), found.resumable)


def _in_both(one: tuple[range, ...], two: tuple[range, ...]) -> tuple[range, ...]:
    common = (range(max(a.start, b.start), min(a.stop, b.stop)) for a in one for b in two)
    return tuple(piece for piece in common if piece)


class Examined(NamedTuple):
    """Damage of a file, frames of each group that can be read, and where each can go on.

    ``sound`` says whether the database itself is whole; otherwise nothing is written into it.
    """

    problems: list[str]
    readable: list[tuple[range, ...]]
    points: list[Point | None]
    sound: bool

    @property
    def resumable(self) -> bool:
        return self.sound and None not in self.points


def examined(con: sqlite3.Connection, contents: Contents) -> Examined:
    """Read everything."""
    with explained(contents.path):
        lines = [line for (line,) in con.execute("PRAGMA integrity_check(9)") if line != "ok"]
    problems = [f"{contents.path} is damaged: {line}" for line in lines] + contents.problems
    found = Examined(problems, [], [], not lines)
    names = list(provenance.forms(contents.about, contents.chain, 1, 1))

    for part, spans in enumerate(contents.spans):
        whole, points = [range(0)], []
        for span in spans:
            try:
                for name in names:
                    contents.block(con, part, span, name)
            except RunFolderError as error:
                problems.append(str(error))
                continue
            joins = whole[-1].stop == span.start
            whole[-1:] = [range(whole[-1].start, span.stop)] if joins else [whole[-1], span]
        for step in contents.steps[part]:
            try:
                points.append(contents.point(con, part, step))
            except RunFolderError as error:
                problems.append(str(error))
        able = (point for point in points if point.frames <= whole[0].stop)
        found.points.append(next(able, None))
        found.readable.append(tuple(filter(None, whole)))
    return found
