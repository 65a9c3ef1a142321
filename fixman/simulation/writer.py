"""Writing the file of a run: blocks and checkpoints, by one process at a time."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from fixman._common.files import OVERWRITE
from fixman.chains.chain import Chain
from fixman.errors import RunDamageWarning, RunFolderError, RunStorageError
from fixman.simulation import provenance
from fixman.simulation.runfile import (
    PATIENCE,
    PLACE,
    SCHEMA,
    Contents,
    Point,
    checksum_of,
    connect,
    examined,
    explained,
    put,
    require_file,
    require_schema,
    tables_of,
)
from fixman.simulation.trajectory import Arrays, Run, Sink, divided

APPLICATION = 0x4649584D  # "FIXM", by which SQLite's header tells whose the file is
PAGE = 32768  # bytes, of the file
HASTE = 0.2  # seconds to wait for another writer


def require_free(path: Path, overwrite: bool = False) -> None:
    """Refuse a path that is taken, unless by a run that may be overwritten.

    Raises FileExistsError, or RunFolderError where ``overwrite`` meets something else.
    """
    real = Path(os.path.realpath(path))
    if real.exists():
        tables = _tables(real)
        if tables == SCHEMA and not overwrite:
            raise FileExistsError(f"{path} exists: resume it, choose another name, or {OVERWRITE}")
        if tables != () and not overwrite:
            raise FileExistsError(f"{path} exists and is not a run: choose another name")
        if tables not in ((), SCHEMA):
            raise RunFolderError(f"{path} is not a run: it is not overwritten")
    if not real.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {real.parent}")


def _tables(path: Path) -> tuple[str, ...] | None:
    """Return the tables of a path, or None if there is no database."""
    with contextlib.suppress(sqlite3.Error):
        if path.is_file():
            with contextlib.closing(connect(path, "rw")) as con:
                return tables_of(con)
    return None


def create(
    path: Path, about: dict[str, Any], chain: Chain, state: Arrays, overwrite: bool = False
) -> Writer:
    """Make a file with the state at step 0 and no frames, as its only writer.

    Raises FileExistsError if the path is taken, unless ``overwrite`` is set and it is a run.
    """
    require_free(path, overwrite)
    provenance.require_entries(about, path)  # a stepper of the user's own may say strange things
    real = Path(os.path.realpath(path))
    if overwrite and _tables(real):
        _locked(path).close()  # nobody writes to it
        real.unlink()
    states = divided(state, about["groups"])
    with explained(path, writing=True), contextlib.ExitStack() as undo:
        con = undo.enter_context(contextlib.closing(connect(real, "rwc", HASTE)))
        con.execute(f"PRAGMA page_size={PAGE}")
        con.execute("BEGIN IMMEDIATE")
        if tables_of(con):
            raise FileExistsError(f"{path} exists: another process has just made it")
        con.execute(f"PRAGMA application_id={APPLICATION}")
        for table in SCHEMA:
            con.execute(table)
        contents = Contents(path, secrets.token_hex(8), about, chain, [], [], [])
        _put_about(con, contents.id, about)
        for part, one in enumerate(states):
            put(con, "checkpoints", part, 0, one)
            contents.spans.append([])
            contents.steps.append([0])
        _commit(con)
        undo.pop_all()
    return Writer(con, contents, [Point(0, 0, one) for one in states])


def reopen(path: Path) -> Writer:
    """Open a run as its only writer, behind the last of its frames that are whole.

    Warns RunDamageWarning if that is the checkpoint before the last.
    """
    require_file(path)
    with contextlib.ExitStack() as undo:
        con = undo.enter_context(contextlib.closing(_locked(path)))
        contents = Contents.of(con, path)
        found = examined(con, contents)
        if not found.resumable:
            rest = "it cannot be resumed; fixman.load_run reads what is whole"
            raise RunFolderError("; ".join([*found.problems, rest]))
        points = [point for point in found.points if point is not None]
        if found.problems:
            steps = min(point.step for point in points)
            text = f"it goes on from step {steps}, and what was behind is computed again"
            warnings.warn("; ".join([*found.problems, text]), RunDamageWarning, stacklevel=3)
        with explained(path, writing=True):
            for part, point in enumerate(points):
                for table, last in (("checkpoints", point.step), ("blocks", point.frames - 1)):
                    newer = f"DELETE FROM {table} WHERE part = ? AND {PLACE[table]} > ?"
                    con.execute(newer, (part, last))
                contents.spans[part] = [s for s in contents.spans[part] if s.stop <= point.frames]
                contents.steps[part] = [step for step in contents.steps[part] if step <= point.step]
            _commit(con)
        undo.pop_all()
    return Writer(con, contents, points)


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


class Writer:
    """The one writer of a run.

    Blocks are written in a thread, one while the next one is computed.  Attributes: path, about,
    chain; sinks, which take the frames of the groups.
    """

    def __init__(self, con: sqlite3.Connection, contents: Contents, points: list[Point]) -> None:
        con.execute(f"PRAGMA busy_timeout={int(1000 * PATIENCE)}")
        self._con, self._contents = con, contents
        self.path, self.about, self.chain = contents.path, contents.about, contents.chain
        self._real = Path(os.path.realpath(self.path))
        self._known = self._identity()
        most = self.about["block"]["frames"]
        self.sinks = [
            Sink(self.about, self.chain, state, frames, most, partial(self._hand_over, part))
            for part, (_, frames, state) in enumerate(points)
        ]
        self._pool, self._last = ThreadPoolExecutor(1), Future[None]()
        self._last.set_result(None)

    def _hand_over(self, part: int, first: int, rows: Arrays, step: int, state: Arrays) -> None:
        """Have a block written, once the one before is; an error of that comes out here."""
        self.finish()
        self._last = self._pool.submit(self._write, part, first, rows, step, state)

    def _write(self, part: int, first: int, rows: Arrays, step: int, state: Arrays) -> None:
        """Write a block and the checkpoint behind it."""
        span = range(first, first + len(rows.get("x", ())))
        with self._transaction() as con:
            put(con, "blocks", part, first, rows)
            put(con, "checkpoints", part, step, state)
            before = self._contents.steps[part][0]
            con.execute("DELETE FROM checkpoints WHERE part = ? AND step < ?", (part, before))
        self._contents.spans[part] += [span] if span else []
        self._contents.steps[part] = [step, before]

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Write in whole or not at all, into the file that was opened."""
        self._require_place()
        try:
            with explained(self.path, writing=True):
                yield self._con
                _commit(self._con)
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                self._con.execute("ROLLBACK")
            if isinstance(error, RunStorageError):  # SQLite calls a moved file one to read only
                self._require_place()
            raise

    def _require_place(self) -> None:
        if self._identity() != self._known:
            raise RunStorageError(
                f"{self.path} was moved, removed or replaced while the run was going on; its "
                "frames until then are where its file is now"
            )

    def _identity(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            found = os.stat(self._real)
            return found.st_dev, found.st_ino
        return None

    def change(self, **about: Any) -> None:
        """Replace entries of what the run says of itself."""
        with self._transaction() as con:
            _put_about(con, self._contents.id, self.about | about)
        self.about.update(about)

    def run(self) -> Run:
        """Return what is written; nothing is read yet."""
        return self._contents.run()

    def finish(self) -> None:
        """Wait for the last block; after an error none is written any more."""
        self._last.result()

    def discard(self) -> None:
        """Remove the file."""
        self.close()
        self._real.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        self._pool.shutdown()
        self._con.close()
