"""Run folders: blocks of frames and a checkpoint, which nothing that ends a program can break.

    run.json           what is run: chain, stepper, potential, seed and versions; nothing of a host
    block_000000.npz   frames: step (frames,), x and v (frames, replicas, n, d), observables
    checkpoint.npz     the state after the last block: all that a bit-exact continuation needs

Every file is written under a temporary name, fsynced and renamed, the block before the checkpoint:
whatever ends a run, the checkpoint names blocks that are complete, and at most one block is lost.
Each file carries the identity of its run, and the CRCs of its arrays are checked when it is read.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import json
import os
import secrets
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman import __version__, _arrays
from fixman.chain import Chain
from fixman.trajectory import Arrays, Part, Run, fill, rows_like

try:
    import fcntl
except ImportError:  # not a POSIX system: two writers are then not told apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["RunFolderError", "RunStorageError", "RunVersionWarning", "load_run"]

FORMAT = 1
ABOUT = "run.json"
CHECKPOINT = "checkpoint.npz"
LOCK = ".lock"
TEMPORARY = ".tmp"
_ENTRIES = frozenset(
    ("chain", "stepper", "steps", "every", "replicas", "observables", "block", "versions", "id")
)
_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "files may not grow that large",
}
STATE = "state_"


class RunFolderError(ValueError):
    """A folder that is not a run, is damaged, is of another run, or is in use."""


class RunStorageError(OSError):
    """A run could not be written on: the disk is full, a quota is reached, a mount is gone."""


class RunVersionWarning(UserWarning):
    """A run goes on with other versions than it began with, so perhaps not bit for bit."""


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


def require_free(path: str | os.PathLike[str], overwrite: bool = False) -> None:
    """Refuse a path that is taken, unless by a run that may be overwritten.

    Raises FileExistsError, or RunFolderError where ``overwrite`` meets something else.
    """
    path = Path(path)
    if os.path.lexists(path) and not _empty(path):
        if not overwrite:
            raise _taken(path)
        Folder._read_about(path)
    parent = path.absolute().parent
    if not parent.is_dir():
        raise FileNotFoundError(f"no such folder: {parent}")


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read a run folder, finished or not; one that is being written to as well.

    Raises
    ------
    FileNotFoundError
        If there is no such folder.
    RunFolderError
        If it is not a run, or is damaged.

    Notes
    -----
    Reads run.json and the checkpoint; frames are read when they are asked for.
    """
    return Folder.open(_arrays.path(path, "path")).run()


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[Folder]:
    """Open a run folder as its only writer; what a killed one left half written is removed."""
    path = Path(path)
    Folder._read_about(path)
    with _lock(path):
        for left in path.glob(f"*{TEMPORARY}"):
            left.unlink(missing_ok=True)
        yield Folder.open(path)


class Folder:
    """A run folder, to be read and to be written on.

    Attributes: path, about (run.json), chain; state (arrays of the checkpoint that was opened) and
    step; counts (frames of every block) and pending (frames recorded that no block holds yet).
    """

    def __init__(self, path: Path, about: dict[str, Any], chain: Chain) -> None:
        self.path, self.about, self.chain = path, about, chain
        self.step = self.pending = 0
        self.state: Arrays = {}
        self.counts: list[int] = []
        self._rows: Arrays = {}
        self._place = path.absolute()  # another one while it is being made

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        about: dict[str, Any],
        chain: Chain,
        state: Arrays,
        overwrite: bool = False,
    ) -> None:
        """Make a folder with the state at step 0 and no frames; all of it appears at once.

        Raises FileExistsError if the path is taken, unless ``overwrite`` is set and it is a run.
        """
        require_free(path, overwrite)
        path = Path(path)
        made = cls(path, about, chain)
        made._place = scratch = path.absolute().parent / f".{path.name}.{secrets.token_hex(4)}"
        try:
            made._guarded("the folder", scratch.mkdir)
            made._write_about()
            made._write_checkpoint(0, state, [])
            made._guarded("the folder", lambda: _move_folder(scratch, path, overwrite))
        except BaseException:
            shutil.rmtree(scratch, ignore_errors=True)
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Folder:
        """Read run.json and the checkpoint, and see that every block is there."""
        path = Path(path)
        about = cls._read_about(path)
        try:
            chain = Chain.from_json(json.dumps(about["chain"]))
        except ValueError as error:
            raise RunFolderError(f"{path / ABOUT} is damaged: {error}") from None
        folder = cls(path, about, chain)
        arrays = folder._read(folder._place / CHECKPOINT)
        try:
            folder.step = int(arrays["step"])
            folder.counts = [int(count) for count in arrays["frames"]]
        except (KeyError, TypeError, ValueError) as error:
            raise _damaged(path / CHECKPOINT, error) from None
        folder.state = {
            name.removeprefix(STATE): array
            for name, array in arrays.items()
            if name.startswith(STATE)
        }
        for number in range(len(folder.counts)):
            if not folder._block(number).is_file():
                raise RunFolderError(
                    f"{folder._block(number)} is missing, of {len(folder.counts)} blocks"
                )
        return folder

    def verify(self) -> None:
        """See that every block is what was written: its checksums, identity and steps.

        Raises RunFolderError naming the first that is not; costs one reading of the folder.
        """
        first = 0
        for number, count in enumerate(self.counts):
            steps = self._load(number, "step")
            if not np.array_equal(steps, np.arange(first, first + count) * self.about["every"]):
                raise RunFolderError(
                    f"{self._block(number)} is damaged: its frames are not those from {first} on"
                )
            first += count
            broken = self._broken(self._block(number))
            if broken:
                raise RunFolderError(f"{self._block(number)} is damaged: {broken}")

    @property
    def frames(self) -> int:
        """Frames recorded, pending ones included."""
        return sum(self.counts) + self.pending

    def record(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Take one frame into the block to come."""
        if not self._rows:
            self._rows = rows_like(values, self.about["block"]["frames"])
        fill(self._rows, self.pending, values)
        self.pending += 1

    def commit(self, step: int, state: Arrays) -> None:
        """Write the pending frames as a block, then the checkpoint.

        Raises RunStorageError if a file cannot be written; the folder is then what it was.
        """
        counts = self.counts
        if self.pending:
            first = sum(counts)
            rows = {name: array[: self.pending] for name, array in self._rows.items()}
            rows["step"] = np.arange(first, first + self.pending) * self.about["every"]
            what = f"block {len(counts)}"
            self._write(self._block(len(counts)), _pack(rows | self._stamp), what)
            counts = [*counts, self.pending]
        self._write_checkpoint(step, state, counts)
        self.step, self.counts, self.pending = step, counts, 0

    def change(self, **about: Any) -> None:
        """Replace entries of run.json."""
        before, self.about = self.about, self.about | about
        try:
            self._write_about()
        except BaseException:
            self.about = before
            raise

    def run(self) -> Run:
        """Return what the blocks hold; nothing is read yet."""
        parts = [
            Part(frames, partial(self._load, number)) for number, frames in enumerate(self.counts)
        ]
        return Run(self.about, self.chain, self.step, parts, self.path)

    # --- files ------------------------------------------------------------------------------

    @property
    def _stamp(self) -> Arrays:
        return {"run": np.array(self.about["id"])}

    def _block(self, number: int) -> Path:
        return self._place / f"block_{number:06d}.npz"

    def _load(self, number: int, name: str) -> NDArray[Any]:
        array = self._read(self._block(number), name)[name]
        if len(array) != self.counts[number]:
            raise RunFolderError(
                f"{self._block(number)} is damaged: {name} has {len(array)} frames where the "
                f"checkpoint counts {self.counts[number]}"
            )
        return array

    def _read(self, path: Path, *names: str) -> Arrays:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a broken header is worth an error
                with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
                    arrays = {name: file[name] for name in (*(names or file.files), "run")}
        except FileNotFoundError:
            raise RunFolderError(f"{path} is missing") from None
        except (OSError, MemoryError):
            raise
        except Exception as error:  # zipfile and NumPy raise a dozen kinds for a broken file
            raise _damaged(path, error) from None
        if str(arrays["run"]) != self.about["id"]:
            raise RunFolderError(f"{path} belongs to another run than {self.path / ABOUT}")
        return arrays

    @staticmethod
    def _broken(path: Path) -> str:
        """Say what is wrong with the arrays of a file; nothing is kept of them."""
        try:
            with zipfile.ZipFile(path) as archive:
                member = archive.testzip()
        except OSError:
            raise
        except Exception as error:  # zipfile raises several kinds
            return f"{type(error).__name__}: {error}"
        return "" if member is None else f"the checksum of {member} is another"

    @staticmethod
    def _read_about(path: Path) -> dict[str, Any]:
        if not path.exists():
            raise FileNotFoundError(f"no such folder: {path}")
        if not (path / ABOUT).is_file():
            raise RunFolderError(f"{path} is not a run: it has no {ABOUT}")
        try:
            about = json.loads((path / ABOUT).read_text(encoding="utf-8"))
        except ValueError as error:
            raise RunFolderError(f"{path / ABOUT} is damaged: {error}") from None
        if not isinstance(about, dict) or "fixman_run" not in about:
            raise RunFolderError(f"{path} is not a run of fixman: {ABOUT} is of something else")
        if about["fixman_run"] != FORMAT:
            raise RunFolderError(
                f"{path} has format {about['fixman_run']}, this fixman reads {FORMAT}: it was "
                "written by a newer version"
            )
        missing = _ENTRIES - about.keys()
        if missing:
            raise RunFolderError(
                f"{path / ABOUT} is damaged: it has no {', '.join(sorted(missing))}"
            )
        if identify(about)["id"] != about["id"]:
            raise RunFolderError(
                f"{path / ABOUT} was edited: a run keeps its chain, stepper and seed to its end"
            )
        return about

    def _write_about(self) -> None:
        lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in self.about.items()]
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        self._write(self._place / ABOUT, text.encode(), ABOUT)

    def _write_checkpoint(self, step: int, state: Arrays, counts: list[int]) -> None:
        arrays = {STATE + name: array for name, array in state.items()}
        arrays |= {"step": np.array(step), "frames": np.array(counts, dtype=np.int64)}
        self._write(self._place / CHECKPOINT, _pack(arrays | self._stamp), "the checkpoint")

    def _write(self, path: Path, content: bytes, what: str) -> None:
        self._guarded(what, lambda: write_whole(path, content))

    def _guarded(self, what: str, act: Callable[[], None]) -> None:
        """Turn what the operating system says into what it means for the run."""
        try:
            act()
        except FileExistsError:
            raise
        except OSError as error:
            cause = _FULL.get(error.errno or 0, str(error))
            safe = f"; what is written stays, make room and resume: {self.run()}"
            raised = RunStorageError(
                f"cannot write {what} of {self.path}: {cause}" + safe * bool(self.counts)
            )
            raised.errno = error.errno
            raise raised from error


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary name to write to, and rename it at the end; for formats of others."""
    path, overwrite = _arrays.path(path, "path"), _arrays.flag(overwrite, "overwrite")
    if os.path.lexists(path) and not overwrite:
        raise FileExistsError(
            f"{path} exists: choose another name, or overwrite it (overwrite=True)"
        )
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


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is there in whole or not at all, whenever power or process ends."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(path: Path) -> None:
    """See to it that a rename outlives a power cut, where folders can be opened."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a run folder; the system frees the locks of the dead."""
    with open(path / LOCK, "ab") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    raise RunFolderError(
                        f"another process is writing to {path}: wait for its end"
                    ) from None
                # A file system without locks: go on without.
        yield


def _move_folder(scratch: Path, path: Path, overwrite: bool) -> None:
    """Rename a new folder to its place; an old one is deleted once the new one is there."""
    old = path.absolute().parent / f"{scratch.name}.old"
    if overwrite and os.path.lexists(path) and not _empty(path):
        with _lock(path):
            os.rename(path, old)
    try:
        os.rename(scratch, path)  # an empty folder gives way, any other is an error
    except OSError as error:
        if os.path.lexists(path):
            raise _taken(path) from error
        raise
    _sync_folder(path.absolute().parent)
    shutil.rmtree(old, ignore_errors=True)


def _taken(path: Path) -> FileExistsError:
    if (path / ABOUT).is_file():
        return FileExistsError(
            f"{path} exists: resume it, choose another name, or overwrite it (overwrite=True)"
        )
    return FileExistsError(f"{path} exists and is not a run: choose another name")


def _empty(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _damaged(path: Path, error: Exception) -> RunFolderError:
    return RunFolderError(f"{path} is damaged: {type(error).__name__}: {error}")


# --- arrays and JSON ----------------------------------------------------------------------------


def _pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an .npz without compression and without dates: equal arrays are equal files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(arrays):
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(arrays[name]), allow_pickle=False)
    return buffer.getvalue()


def _listed(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r:.80} cannot be written to {ABOUT}")
