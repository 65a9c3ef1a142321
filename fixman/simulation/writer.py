"""Writing run folders, so that nothing that ends a program can break them.

Every file is written under a temporary name, fsynced and renamed, a block before the checkpoint
that counts it, and the checkpoint before is kept.  All of it goes through a descriptor: a folder
that is renamed meanwhile stays the one that is written to, and one that is removed is rescued.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fixman._common import arrays
from fixman.chains.chain import Chain
from fixman.errors import Advice, RunDamageWarning, RunFolderError, RunStorageError
from fixman.simulation.archives import Arrays, pack
from fixman.simulation.groups import GROUP, group_name, groups_of
from fixman.simulation.places import LOCK, MOVED, REMOVED, TEMPORARY, Place, sync_folder
from fixman.simulation.runfiles import (
    ABOUT,
    BLOCK,
    CHECKPOINT,
    PREVIOUS,
    Checkpoint,
    Span,
    block_name,
    checkpoint_arrays,
    expected_steps,
    read_about,
    require_entries,
)
from fixman.simulation.store import Folder
from fixman.simulation.trajectory import Run, fill, rows_like

OVERWRITE = ("overwrite it (", ("overwrite=True", "overwrite", True), ")")
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "files may not grow that large",
    errno.ENAMETOOLONG: "its name is too long",
}
_OWN = frozenset((ABOUT, CHECKPOINT, PREVIOUS, LOCK))
LONGEST = 200  # bytes that temporary names take over from the name of a folder


def require_free(path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Refuse a path that is taken, unless by a run that may be overwritten.

    Raises FileExistsError, or RunFolderError where ``overwrite`` meets something else.
    """
    real = _target(path)
    path = Path(path)
    if os.path.lexists(path) and not _empty(real):
        if not overwrite or not real.exists():
            raise _taken(path)
        _require_run(real, path)
    if not real.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {real.parent}")


def create(
    path: str | os.PathLike[str],
    about: dict[str, Any],
    chain: Chain,
    state: Arrays,
    overwrite: bool = False,
) -> None:
    """Make a folder with the state at step 0 and no frames; all of it appears at once.

    A run that has groups has a folder in it for each.  Raises FileExistsError if the path is
    taken, unless ``overwrite`` is set and it is a run.
    """
    require_free(path, overwrite)
    require_entries(about, Path(path))  # a stepper of the user's own may say strange things
    real = _target(path)
    _sweep(real)
    point = Checkpoint(0, [], 0, state)
    with _scratch(real, Path(path)) as place:
        made = Writer(Folder(Path(path), place, about, chain, point))
        if "groups" in about:
            made.write_groups()
        else:
            made.write_all()
        made.guarded("the folder", lambda: _move_folder(place.path, real, overwrite))


@contextlib.contextmanager
def writing(path: str | os.PathLike[str], caller: int = 4) -> Iterator[Writer]:
    """Open a run folder as its only writer; what a killed one left half written is removed.

    Warns RunDamageWarning if it goes on from the checkpoint before the last, on the line of the
    ``caller``, so many frames up.
    """
    path = Path(path)
    read_about(Place(path), path)
    with contextlib.closing(Place(path, held=True)) as place, place.locked():
        folder = Folder.open(path, place)
        if folder.lost:
            raise RunFolderError(folder.damage)
        if folder.damage:
            warnings.warn(folder.damage, RunDamageWarning, stacklevel=caller)
        for name in place.names():
            known = name.removesuffix(TEMPORARY)
            if (known in _OWN or BLOCK.fullmatch(known)) and place.has_folder(name):
                raise RunFolderError(
                    f"{path / name} is a folder in the place of a file: move it away, and resume"
                )
        if folder.chosen == PREVIOUS:  # never the damaged one in its place
            _guarded(folder, "the checkpoint", lambda: place.rename(PREVIOUS, CHECKPOINT))
        for left in place.names():
            if left.endswith(TEMPORARY):
                place.remove(left)
        yield Writer(folder)


class Writer:
    """A run that goes on in a folder.

    Attributes: folder; about and chain, its own; step, and pending, the frames recorded that no
    block holds yet.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder, self.place = folder, folder.place
        self.path, self.chain = folder.path, folder.chain
        self.pending = 0
        self._rows: Arrays = {}

    @property
    def parts(self) -> list[Writer]:
        """All that has to be computed: itself, unlike that of a run in groups."""
        return [self]

    @property
    def about(self) -> dict[str, Any]:
        """What run.json holds."""
        return self.folder.about

    @property
    def step(self) -> int:
        """Step of the last checkpoint."""
        return self.folder.point.step

    @property
    def state(self) -> Arrays:
        """Arrays of the last checkpoint."""
        return self.folder.point.state

    @property
    def frames(self) -> int:
        """Frames recorded, pending ones included."""
        return self.folder.point.frames + self.pending

    def verify(self) -> None:
        """Read every block in whole; RunFolderError names the first that is damaged."""
        self.folder.verify()

    def run(self) -> Run:
        """Return what the blocks hold; nothing is read yet."""
        folder = Folder(self.path, Place(self.place.path), self.about, self.chain, self._point)
        return folder.run()

    @property
    def _point(self) -> Checkpoint:
        return self.folder.point

    def record(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Take one frame into the block to come."""
        if not self._rows:
            left = self.about["steps"] // self.about["every"] + 1 - self._point.frames
            self._rows = rows_like(values, max(1, min(self.about["block"]["frames"], left)))
        fill(self._rows, self.pending, values)
        self.pending += 1

    def commit(self, step: int, state: Arrays) -> None:
        """Write the pending frames as a block, then the checkpoint.

        Raises RunStorageError if a file cannot be written, and the folder is then what it was; or
        if the folder was moved or removed, which costs no frame.
        """
        before = self.folder.point
        counts = [*before.counts, self.pending] if self.pending else before.counts
        point = Checkpoint(step, counts, before.first, state)
        if self.place.whereabouts(ABOUT) == REMOVED:
            self._rescue(point)
        try:
            self._write_block(len(before.counts), before.frames)
            self._write_checkpoint(point)
        except FileNotFoundError:  # in between
            self._rescue(point)
        where = self.place.whereabouts(ABOUT)
        if where == REMOVED:
            self._rescue(point)
        self._committed(point)
        if where == MOVED:
            now = Path(self.place.current())
            whole = now.parent if "group" in self.about else now
            raise RunStorageError(
                f"{self.path} is no longer the folder of this run: it was renamed in the meantime "
                f"and is {now} now, whole up to step {step}; go on there: fixman resume {whole}"
            )

    def change(self, **about: Any) -> None:
        """Replace entries of run.json."""
        before, self.folder.about = self.about, self.about | about
        try:
            self._write_about()
        except BaseException:
            self.folder.about = before
            raise

    def write_all(self) -> None:
        """Write run.json and the checkpoint of a new folder."""
        self._write_about()
        content = pack(checkpoint_arrays(self._point, self.about["id"]))
        self.guarded("the checkpoint", lambda: self.place.write(CHECKPOINT, content))

    def write_groups(self) -> None:
        """Write run.json of a new folder, and folders in it for the groups."""
        self._write_about()
        for number, (about, state) in enumerate(groups_of(self.about, self.state)):
            inner = self.place.path / group_name(number)
            self.guarded("a group", inner.mkdir)
            with contextlib.closing(Place(inner, held=True)) as place:
                point = Checkpoint(0, [], 0, state)
                Writer(Folder(inner, place, about, self.chain, point)).write_all()

    def guarded(self, what: str, act: Callable[[], None]) -> None:
        """Turn what the operating system says into what it means for the run."""
        _guarded(self.folder, what, act)

    def _committed(self, point: Checkpoint) -> None:
        if self.pending:
            number = len(point.counts) - 1
            self.folder.spans.append(Span(number, self._point.frames, self.pending))
        self.folder.point, self.pending = point, 0

    def _write_about(self) -> None:
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in self.about.items()]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        self.guarded(ABOUT, lambda: self.place.write(ABOUT, text.encode()))

    def _write_block(self, number: int, first: int) -> None:
        if not self.pending:
            return
        rows: Arrays = {name: array[: self.pending] for name, array in self._rows.items()}
        rows["step"] = expected_steps(Span(number, first, self.pending), self.about["every"])
        rows["run"] = np.array(self.about["id"])
        self.guarded(f"block {number}", lambda: self.place.write(block_name(number), pack(rows)))

    def _write_checkpoint(self, point: Checkpoint) -> None:
        content = pack(checkpoint_arrays(point, self.about["id"]))
        self.guarded("the checkpoint", lambda: self._exchange(content))

    def _exchange(self, content: bytes) -> None:
        """Write a checkpoint; the one that is there becomes the previous one."""
        place, waiting = self.place, CHECKPOINT + TEMPORARY
        try:
            place.draft(CHECKPOINT, content)
            place.rename(CHECKPOINT, PREVIOUS)
            try:
                place.rename(waiting, CHECKPOINT)
            except Exception:
                place.rename(PREVIOUS, CHECKPOINT)
                raise
        except BaseException:
            place.remove(waiting)
            raise
        place.sync()

    def _rescue(self, point: Checkpoint) -> NoReturn:
        """Save what is in memory of a folder that was removed, beside its old place."""
        path = self.place.path
        name = f"{path.name[:LONGEST]}.rescued.{secrets.token_hex(4)}"
        parent = next(p for p in path.parents if p.is_dir())
        counts = [self.pending] if self.pending else []
        kept = Checkpoint(point.step, counts, self._point.frames, point.state)
        saved = parent / name
        self.guarded("the rescued run", saved.mkdir)
        with contextlib.closing(Place(saved, held=True)) as place:
            other = Writer(Folder(saved, place, self.about, self.chain, kept))
            other._rows, other.pending = self._rows, self.pending
            try:
                other._write_block(0, kept.first)
                other.write_all()
            except OSError as error:
                raise RunStorageError(
                    f"{self.path} was removed while the run was going on, and {saved} could not be "
                    f"written: {error}"
                ) from error
        raise RunStorageError(
            f"{self.path} was removed while the run was going on: its state at step {point.step} "
            f"and the frames from {kept.first} on are in {saved}; go on there: "
            f"fixman resume {saved}"
        )


def _guarded(folder: Folder, what: str, act: Callable[[], None]) -> None:
    try:
        act()
    except (FileExistsError, RunStorageError):
        raise
    except OSError as error:
        if isinstance(error, FileNotFoundError) and folder.place.whereabouts(ABOUT) == REMOVED:
            raise
        cause = _FULL.get(error.errno or 0, str(error))
        safe = f"; what is written stays, make room and resume: {folder.run()}"
        raised = RunStorageError(
            f"cannot write {what} of {folder.path}: {cause}" + safe * bool(folder.spans)
        )
        raised.errno = error.errno
        raise raised from error


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary name to write to, and rename it at the end; for formats of others."""
    path, overwrite = arrays.path(path, "path"), arrays.flag(overwrite, "overwrite")
    if os.path.lexists(path) and not overwrite:
        raise FileExistsError(Advice(f"{path} exists: choose another name, or ", *OVERWRITE))
    if path.is_dir():
        raise IsADirectoryError(f"a folder, not a file: {path}")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.absolute().parent}")
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


# --- places -------------------------------------------------------------------------------------


def _target(path: str | os.PathLike[str]) -> Path:
    """Return where a path leads: a link to a run stays a link."""
    if not os.fspath(path):
        raise ValueError("out is empty: name the folder to be made for the run")
    real = Path(os.path.realpath(path))
    if not real.name or real == Path(os.path.realpath(".")):
        raise FileExistsError(f"{path} is the folder that we are in: name one to be made in it")
    return real


def _require_run(real: Path, path: Path) -> None:
    """Refuse to overwrite what is no run, or holds files that no run made."""
    names = Place(real).names() if real.is_dir() else []
    try:
        about = json.loads((real / ABOUT).read_text(encoding="utf-8"))
        known = isinstance(about, dict) and "fixman_run" in about
    except (OSError, ValueError, RecursionError):
        known = False
    if not known:
        raise RunFolderError(f"{path} is not a run: it is not overwritten")
    strange = [name for name in names if not _is_own(real, name)]
    if strange:
        raise RunFolderError(
            f"{path} is not overwritten, since it holds what no run made: {', '.join(strange[:5])}"
        )


def _is_own(folder: Path, name: str) -> bool:
    known = name.removesuffix(TEMPORARY)
    if (folder / name).is_dir() and not (folder / name).is_symlink():
        inner = folder / name
        return bool(GROUP.fullmatch(name)) and all(_is_own(inner, n) for n in os.listdir(inner))
    return known in _OWN or BLOCK.fullmatch(known) is not None


def _scratch_name(real: Path) -> str:
    return f".{os.fsdecode(os.fsencode(real.name)[:LONGEST])}."


@contextlib.contextmanager
def _scratch(real: Path, shown: Path) -> Iterator[Place]:
    """Make a hidden folder that is locked as long as it is being filled."""
    scratch = real.parent / f"{_scratch_name(real)}{secrets.token_hex(4)}"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(real)  # a name that is too long is better told now
        scratch.mkdir()
        with contextlib.closing(Place(scratch, held=True)) as place, place.locked():
            yield place
    except OSError as error:
        shutil.rmtree(scratch, ignore_errors=True)
        if isinstance(error, (FileExistsError, RunStorageError)):
            raise
        cause = _FULL.get(error.errno or 0, str(error))
        raised = RunStorageError(f"cannot write the folder of {shown}: {cause}")
        raised.errno = error.errno
        raise raised from error
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise


def _sweep(real: Path) -> None:
    """Remove hidden folders that killed runs of this name left, while they were being made."""
    pattern = re.compile(re.escape(_scratch_name(real)) + r"[0-9a-f]{8}(\.old)?")
    with contextlib.suppress(OSError):
        for name in os.listdir(real.parent):
            left = real.parent / name
            if not pattern.fullmatch(name) or left.is_symlink() or not (left / LOCK).is_file():
                continue
            with contextlib.suppress(OSError, RunFolderError):
                if all(_is_own(left, inner) for inner in os.listdir(left)):
                    with contextlib.closing(Place(left, held=True)) as place, place.locked():
                        shutil.rmtree(left, ignore_errors=True)


def _move_folder(scratch: Path, real: Path, overwrite: bool) -> None:
    """Rename a new folder to its place; an old one is deleted once the new one is there."""
    old = real.parent / f"{scratch.name}.old"
    if overwrite and os.path.lexists(real) and not _empty(real):
        with contextlib.closing(Place(real, held=True)) as place, place.locked():
            os.rename(real, old)
    try:
        os.rename(scratch, real)  # an empty folder gives way, any other is an error
    except OSError as error:
        if os.path.lexists(real):
            raise _taken(real) from error
        raise
    sync_folder(real.parent)
    shutil.rmtree(old, ignore_errors=True)


def _taken(path: Path) -> FileExistsError:
    if (path / ABOUT).is_file():
        start = f"{path} exists: resume it, choose another name, or "
        return FileExistsError(Advice(start, *OVERWRITE))
    return FileExistsError(f"{path} exists and is not a run: choose another name")


def _empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())
