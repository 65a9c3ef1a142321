"""A run on disk: one SQLite file, with frames in blocks and the state behind the last of them.

    run          about: model, stepper, potential, seed, versions, as JSON; and an id of the file
    blocks       frames from ``first`` on
    checkpoints  the last two states

A block and the checkpoint that counts it are one transaction, so that whatever ends a program
leaves the last that was whole.  Every row has a checksum of its contents and of its place.

SQLite keeps its journal beside the file while a block is being written, and nowhere else: with a
write-ahead log instead, most of a run could be in a second file, each byte is written twice, and
file systems of networks have none.  The one writer holds the right to write from block to block
(SQLite's RESERVED lock), beside which others read; it falls with the process.
"""

import contextlib
import json
import os
import secrets
import sqlite3
import warnings
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fixman._common import arrays as _arrays
from fixman._common.files import OVERWRITE
from fixman.errors import RunDamageWarning, RunFolderError, RunStorageError
from fixman.runs.about import plain, require_sound
from fixman.runs.loop import Recorder
from fixman.runs.series import Arrays, Make, Part

__all__ = ["RunCheck", "check_run"]

_ROW = "name TEXT, kind TEXT, shape TEXT, checksum INTEGER, data BLOB"
SCHEMA = (
    "CREATE TABLE run (id TEXT, about TEXT, checksum INTEGER)",
    f"CREATE TABLE blocks (first INTEGER, {_ROW}, PRIMARY KEY (first, name))",
    f"CREATE TABLE checkpoints (step INTEGER, {_ROW}, PRIMARY KEY (step, name))",
)
PLACE = {"blocks": "first", "checkpoints": "step"}
CONNECTION: dict[str, Any] = {"uri": True, "isolation_level": None, "check_same_thread": False}
SETTINGS = (
    "synchronous=FULL",
    "trusted_schema=OFF",
    "cell_size_check=ON",
    "secure_delete=OFF",
    "cache_size=-65536",  # kilobytes, for a block and what it touches
)
APPLICATION = 0x4649584D  # "FIXM", by which SQLite's header tells whose the file is
PAGE = 32768  # bytes, of the file
HASTE = 0.2  # seconds to wait for another writer
PATIENCE = 600.0  # seconds to wait for a reader's end
BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
STORAGE = (
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOLFS, sqlite3.SQLITE_TOOBIG,
)  # fmt: skip
UNREADABLE = (
    sqlite3.Error, ValueError, TypeError, AttributeError, LookupError, ArithmeticError,
    RecursionError,
)  # fmt: skip


# --- rows ---------------------------------------------------------------------------------------


def checksum_of(data: Any, *place: Any) -> int:
    return zlib.crc32(data, zlib.crc32(json.dumps(place).encode()))


def put(con: sqlite3.Connection, table: str, place: int, arrays: Arrays) -> None:
    for name, array in arrays.items():
        kind, shape = array.dtype.newbyteorder("<").str, json.dumps(array.shape)
        data = np.asarray(array, kind, order="C").reshape(-1).view(np.uint8)
        key = (place, name, kind, shape)
        row = (*key, checksum_of(data, table, *key), data)
        con.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?, ?, ?)", row)


def _get(con: sqlite3.Connection, table: str, place: int, name: str) -> NDArray[Any]:
    key = (place, name)
    query = f"SELECT kind, shape, checksum, data FROM {table} WHERE {PLACE[table]} = ? AND name = ?"
    row = con.execute(query, key).fetchone()
    if row is None:
        raise ValueError(f"{name} is missing")
    kind, shape, checksum, data = row
    if checksum != checksum_of(data or b"", table, *key, kind, shape):
        raise ValueError(f"the checksum of {name} is wrong")
    array = np.frombuffer(data or b"", kind).reshape(json.loads(shape))
    return array.astype(array.dtype.newbyteorder("="), copy=False)


# --- connections --------------------------------------------------------------------------------


def connect(path: Path, mode: str, timeout: float = PATIENCE) -> sqlite3.Connection:
    name = f"{path.absolute().as_uri()}?mode={mode}"
    con: sqlite3.Connection = sqlite3.connect(name, timeout=timeout, **CONNECTION)
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
    if found != SCHEMA:
        text = "or is damaged: its tables are others" if found else "it is empty"
        raise RunFolderError(f"{path} is not a run{', ' if found else ': '}{text}")


@contextlib.contextmanager
def explained(
    path: Path, writing: bool = False, file: os.stat_result | None = None
) -> Iterator[None]:
    """Say what an error of SQLite, or of numbers that make no sense, means for a run.

    SQLite fails in several ways where another file stands in the place of the one it writes,
    ``file``.
    """
    try:
        yield
    except RunFolderError:
        raise
    except UNREADABLE as error:
        if writing and not isinstance(error, (sqlite3.Error, UnicodeDecodeError)):
            raise
        code = getattr(error, "sqlite_errorcode", 0)
        kind = code & 0xFF
        if kind in BUSY:
            text = f"another process is writing to {path}: wait for its end"
            raise RunFolderError(text) from error
        if writing and kind in STORAGE:
            text = f"cannot write {path}: {error}"
            moved = file is not None and not _stands_at(path, file)
            if moved or code == sqlite3.SQLITE_READONLY_DBMOVED:
                text = f"{path} was moved, removed or replaced while the run was going on"
            raise RunStorageError(text) from error
        what = "cannot be read" if kind in STORAGE else "is damaged"
        what = "is not a run, or is damaged" if kind == sqlite3.SQLITE_NOTADB else what
        raise RunFolderError(f"{path} {what}: {error}") from None


def _stands_at(path: Path, file: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), file)
    except OSError:
        return False


# --- reading ------------------------------------------------------------------------------------


class Point(NamedTuple):
    """How far a run is: its step, the frames until then, and its state."""

    step: int
    frames: int
    state: Arrays


def _spans(con: sqlite3.Connection, about: dict[str, Any]) -> Iterator[range]:
    """Yield the frames of each block: each follows the one before, and has all arrays of a run."""
    rows = con.execute("SELECT first, name, shape FROM blocks ORDER BY first, name")
    wanted, end, most = sorted(about["arrays"]), 0, about["steps"] // about["every"] + 1
    for first, block in groupby(rows, lambda row: row[0]):
        found = {name: json.loads(shape)[0] for _, name, shape in block}
        stop = first + found.get(wanted[0], 0)
        due = dict.fromkeys(wanted, stop - first)
        if found != due or first != end or not first < stop <= most:
            said = f"a block at frame {first} has {found!r:.200}"
            raise ValueError(f"{said}; {wanted} were due at frame {end}")
        yield range(first, stop)
        end = stop


@dataclass
class Contents:
    """A run as its file had it when it was read.

    Attributes: path, id, about; the frames of its blocks, ``spans``; the steps of its checkpoints,
    the last one first, none of them read yet.
    """

    path: Path
    id: str
    about: dict[str, Any]
    spans: list[range]
    steps: list[int]

    @classmethod
    def of(cls, con: sqlite3.Connection, path: Path) -> Self:
        """Read what there is, but no frame and no state."""
        ((name, text, checksum),) = con.execute("SELECT id, about, checksum FROM run LIMIT 2")
        if checksum != checksum_of(text.encode(), name):
            raise ValueError("the checksum of about is wrong")
        about = json.loads(text)
        require_sound(about)
        points = "SELECT DISTINCT step FROM checkpoints WHERE typeof(step) = 'integer'"
        steps = [step for (step,) in con.execute(f"{points} ORDER BY step DESC")]
        return cls(path, name, about, list(_spans(con, about)), steps)

    def point(self, con: sqlite3.Connection, step: int) -> Point:
        """Read a checkpoint; RunFolderError unless it is whole and the blocks are its own."""
        every = self.about["every"]
        with explained(self.path):
            names = con.execute("SELECT name FROM checkpoints WHERE step = ?", (step,)).fetchall()
            state = {name: _get(con, "checkpoints", step, name) for (name,) in names}
            # The frame of this very step may still be due.
            due = [step // every + 1, *([step // every] if step % every == 0 else [])]
            stops = {0, *(span.stop for span in self.spans)}
            frames = next((count for count in due if count in stops), -1)
            if frames < 0 or state["step"] != step:
                said = f"the checkpoint of step {step} is of step {state['step']}"
                raise ValueError(f"{said}, and blocks end at frames {sorted(stops)[-2:]}")
            return Point(step, frames, state)

    def block(self, con: sqlite3.Connection, span: range, name: str) -> NDArray[Any]:
        """Read an array of a block; the error says which frames do not need it."""
        try:
            return _get(con, "blocks", span.start, name)
        except UNREADABLE as error:
            said = f"{self.path} is damaged in frames {span.start} to {span.stop - 1}: {error}"
            rest = f"frames before {span.start} and from {span.stop} on can be read"
            raise RunFolderError(f"{said}; {rest}") from None

    def run(self, make: Make) -> Any:
        """Make a `Series` of the frames; none is read yet."""
        load = partial(_load, self, self.path.absolute())  # wherever the program goes meanwhile
        parts = [Part(len(span), partial(load, span)) for span in self.spans]
        return make(self.about, max(self.steps, default=0), parts, self.path)


def _load(contents: Contents, path: Path, span: range, name: str) -> NDArray[Any]:
    with reading(path) as con:
        if con.execute("SELECT id FROM run").fetchone() != (contents.id,):
            raise RunFolderError(f"another run has replaced {path}: load it again")
        return contents.block(con, span, name)


def load(path: Path, maker: Callable[[dict[str, Any]], Make]) -> Any:
    """Make a `Series` of a file, of which no frame is read yet; ``maker`` chooses by its about."""
    with reading(path) as con:
        contents = Contents.of(con, path)
        return contents.run(maker(contents.about))


# --- damage -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RunCheck:
    """Findings of `check_run`: problems, a line for each place, and how many frames the run has.

    ``readable`` are ranges of frames that can be read; ``resumable`` says whether `fixman.resume`
    can go on with the run.
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
        rest = f"frames that can be read: {pieces or 'none'}; it {goes}"
        return "\n".join([*self.problems, rest])


def check_run(path: str | os.PathLike[str]) -> RunCheck:
    """Check the whole file of a run, and list what is damaged; nothing is changed.

    The file is read twice: for SQLite's integrity check, and for the checksum of every array.
    FileNotFoundError if there is no such file.
    """
    path = _arrays.path(path, "path")
    try:
        with reading(path) as con:
            return examined(con, Contents.of(con, path))[0]
    except RunFolderError as error:
        return RunCheck(path, 0, (), (str(error),), False)


def examined(con: sqlite3.Connection, contents: Contents) -> tuple[RunCheck, Point | None]:
    """Read everything; also return where it can go on, if it can."""
    lines = [line for (line,) in con.execute("PRAGMA integrity_check(9)") if line != "ok"]
    problems = [f"{contents.path} is damaged: {line}" for line in lines]
    whole, points = [range(0)], []
    for span in contents.spans:
        try:
            for name in contents.about["arrays"]:
                contents.block(con, span, name)
        except RunFolderError as error:
            problems.append(str(error))
            continue
        joins = whole[-1].stop == span.start
        whole[-1:] = [range(whole[-1].start, span.stop)] if joins else [whole[-1], span]
    for step in contents.steps:
        try:
            points.append(contents.point(con, step))
        except RunFolderError as error:
            problems.append(str(error))
    if not contents.steps:
        problems.append(f"{contents.path} is damaged: it has no checkpoint")
    # Nothing is written into a database that is not whole itself.
    able = [point for point in points if point.frames <= whole[0].stop and not lines]
    frames = contents.spans[-1].stop if contents.spans else 0
    readable = tuple(filter(None, whole))
    check = RunCheck(contents.path, frames, readable, tuple(problems), bool(able))
    return check, able[0] if able else None


# --- writing --------------------------------------------------------------------------------------


def free(out: Any, overwrite: Any = False) -> Path | None:
    """Return the path of a file to be made, or None for a run in memory.

    Raises FileExistsError if the path is taken, unless by a run that may be overwritten.
    """
    overwrite = _arrays.flag(overwrite, "overwrite")
    if out is None:
        return None
    path = _arrays.path(out, "out")
    real = path.resolve()
    tables = _tables(real) if real.exists() else ()
    if tables not in ((), SCHEMA):
        raise FileExistsError(f"{path} exists and is not a run: choose another name")
    if tables and not overwrite:
        raise FileExistsError(f"{path} exists: resume it, choose another name, or {OVERWRITE}")
    if not real.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {real.parent}")
    return path


def _tables(path: Path) -> tuple[str, ...] | None:
    """Return the tables of a path, or None if there is no database."""
    with contextlib.suppress(sqlite3.Error):
        if path.is_file():
            with contextlib.closing(connect(path, "rw")) as con:
                return tables_of(con)
    return None


def begin(
    path: Path | None, overwrite: bool, about: dict[str, Any], state: Arrays, make: Make
) -> Recorder:
    """Begin a run: in memory, or in a file that is `free`.

    The file has the state at step 0 and no frames.
    """
    about = plain(about)
    if path is None:
        return Recorder(about, state, make)
    require_sound(about)
    real = path.resolve()
    if overwrite and _tables(real):
        _locked(path).close()  # nobody writes to it
        real.unlink()
    with explained(path, writing=True), contextlib.closing(connect(real, "rwc", HASTE)) as con:
        con.execute(f"PRAGMA page_size={PAGE}")
        con.execute("BEGIN IMMEDIATE")
        if tables_of(con):
            raise FileExistsError(f"{path} exists: another process has just made it")
        con.execute(f"PRAGMA application_id={APPLICATION}")
        for table in SCHEMA:
            con.execute(table)
        _put_about(con, secrets.token_hex(8), about)
        put(con, "checkpoints", 0, state)
        con.execute("COMMIT")
    return reopen(path, lambda _: make)


def reopen(path: Path, maker: Callable[[dict[str, Any]], Make]) -> "Writer":
    """Open a run as its only writer, behind the last of its frames that are whole.

    Warns RunDamageWarning if it is the checkpoint before the last that the run goes on from.
    """
    require_file(path)
    with contextlib.ExitStack() as undo:
        con = undo.enter_context(contextlib.closing(_locked(path)))
        with explained(path):
            contents = Contents.of(con, path)
            about = contents.about
            make = maker(about)
            check, point = examined(con, contents)
        if point is None:
            rest = "it cannot be resumed; fixman.load_run reads what is whole"
            raise RunFolderError("; ".join([*check.problems, rest]))
        if check.problems:
            text = f"it goes on from step {point.step}, and what was behind is computed again"
            warnings.warn("; ".join([*check.problems, text]), RunDamageWarning, stacklevel=3)
        with explained(path, writing=True):
            con.execute("DELETE FROM checkpoints WHERE step > ?", (point.step,))
            con.execute("DELETE FROM blocks WHERE first >= ?", (point.frames,))
            _commit(con)
        contents.spans = [span for span in contents.spans if span.stop <= point.frames]
        contents.steps = [step for step in contents.steps if step <= point.step]
        names = about["arrays"] if contents.spans else ()
        like = {name: contents.block(con, contents.spans[0], name)[:0] for name in names}
        undo.pop_all()
    return Writer(con, contents, point, make, like)


def _locked(path: Path) -> sqlite3.Connection:
    """Open a file with the right to write to it, which one process has at a time."""
    with explained(path, writing=True), contextlib.ExitStack() as undo:
        con = undo.enter_context(contextlib.closing(connect(path, "rw", HASTE)))
        con.execute("BEGIN IMMEDIATE")
        require_schema(con, path)
        undo.pop_all()
    return con


def _commit(con: sqlite3.Connection) -> None:
    """End a transaction, and begin one, so that nobody else writes in between."""
    con.execute("COMMIT")
    con.execute("BEGIN IMMEDIATE")


def _put_about(con: sqlite3.Connection, name: str, about: dict[str, Any]) -> None:
    text = json.dumps(about)
    con.execute("DELETE FROM run")
    con.execute("INSERT INTO run VALUES (?, ?, ?)", (name, text, checksum_of(text.encode(), name)))


class Writer(Recorder):
    """The one writer of a run; blocks are written in a thread while the next one is computed."""

    path: Path

    def __init__(
        self, con: sqlite3.Connection, contents: Contents, point: Point, make: Make, like: Arrays
    ) -> None:
        con.execute(f"PRAGMA busy_timeout={int(1000 * PATIENCE)}")
        about = contents.about
        super().__init__(about, point.state, make, point.frames, about["block"]["frames"])
        self._like = like
        self._con, self._contents, self.path = con, contents, contents.path
        self._file = contents.path.stat()
        self._pool, self._last = ThreadPoolExecutor(1), Future[None]()
        self._last.set_result(None)

    def _hand_over(self, step: int, state: Arrays) -> None:
        """Have a block written, once the one before is; an error of that comes out here."""
        self.finish()
        span = range(self._first, self.frames)
        self._last = self._pool.submit(self._write, span, self.rows, step, state)
        self._rows, self._first = {}, self.frames

    def _write(self, span: range, rows: Arrays, step: int, state: Arrays) -> None:
        """Write a block and the checkpoint behind it."""
        before = self._contents.steps[0]
        with self._transaction() as con:
            put(con, "blocks", span.start, rows)
            put(con, "checkpoints", step, state)
            con.execute("DELETE FROM checkpoints WHERE step < ?", (before,))
        self._contents.spans += [span] if span else []
        self._contents.steps = [step, before]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with explained(self.path, writing=True, file=self._file):
                yield self._con
                _commit(self._con)
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._con.execute("ROLLBACK")
            raise

    def change(self, **about: Any) -> None:
        """Replace entries of what the run says of itself."""
        with self._transaction() as con:
            _put_about(con, self._contents.id, self.about | about)
        self.about.update(about)

    def run(self) -> Any:
        """Return what is written; nothing is read yet."""
        return self._contents.run(self.make)

    def finish(self) -> None:
        """Wait for the last block; after an error none is written any more."""
        self._last.result()

    def close(self) -> None:
        """Let go of the file."""
        self._pool.shutdown()
        self._con.close()
