"""`Place`: a folder that is held by a descriptor, wherever its name leads in the meantime.

A folder can be renamed or removed, and another one made under its name, while a process writes.
What is written through a descriptor goes into the folder that was opened, or fails.  Where folders
have no descriptors (Windows), names it is; there a folder that is in use can hardly be renamed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from fixman.errors import RunFolderError, RunStorageError

try:
    import fcntl
except ImportError:  # not a POSIX system: two writers are then not told apart
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
TEMPORARY = ".tmp"
HELD = os.name == "posix" and os.open in os.supports_dir_fd and os.listdir in os.supports_fd

HERE, MOVED, REMOVED = "here", "moved", "removed"


class Place:
    """A folder; ``held`` ones by a descriptor, until `close`.

    Attributes: path, that it had in the beginning (absolute).
    """

    def __init__(self, path: str | os.PathLike[str], held: bool = False) -> None:
        self.path = Path(path).absolute()
        self._handle: int | None = None
        if held and HELD:
            self._handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Let go of the folder."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def names(self) -> list[str]:
        """Return what is in it, sorted."""
        return sorted(os.listdir(self.path if self._handle is None else self._handle))

    def has_folder(self, name: str) -> bool:
        """Whether a folder has that name; a link is none."""
        with contextlib.suppress(FileNotFoundError):
            found = os.stat(self._name(name), dir_fd=self._handle, follow_symlinks=False)
            return stat.S_ISDIR(found.st_mode)
        return False

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading; RunFolderError if it is missing or is no file."""
        shown = self.path / name
        try:
            # A pipe in the place of a file would keep us waiting for ever.
            flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            handle = os.open(self._name(name), flags, dir_fd=self._handle)
        except FileNotFoundError:
            raise RunFolderError(f"{shown} is missing") from None
        except OSError as error:
            raise RunFolderError(f"{shown} cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise RunFolderError(f"{shown} is no file: a folder or a device is in its place")
        return os.fdopen(handle, "rb")

    def write(self, name: str, content: bytes) -> None:
        """Write a file so that it is there in whole or not at all, whenever power or process ends.

        Raises OSError if it cannot be written; nothing of it is left then.
        """
        temporary = name + TEMPORARY
        try:
            self.draft(name, content)
            self.rename(temporary, name)
        except BaseException:
            self.remove(temporary)
            raise
        self.sync()

    def draft(self, name: str, content: bytes) -> None:
        """Write a file under its temporary name only, and see that it is on the disk."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        flags |= getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(self._name(name + TEMPORARY), flags, 0o666, dir_fd=self._handle)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, old: str, new: str) -> None:
        """Give a file another name; one that has it gives way."""
        handle = self._handle
        os.replace(self._name(old), self._name(new), src_dir_fd=handle, dst_dir_fd=handle)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there and can be removed."""
        with contextlib.suppress(OSError):
            os.unlink(self._name(name), dir_fd=self._handle)

    def sync(self) -> None:
        """See to it that renames outlive a power cut, where folders can be opened."""
        if self._handle is not None:
            os.fsync(self._handle)
        else:
            sync_folder(self.path)

    def whereabouts(self, witness: str) -> str:
        """Say whether this is still the folder that its path names: HERE, MOVED or REMOVED.

        One without the file ``witness`` is being removed.
        """
        try:
            os.stat(self._name(witness), dir_fd=self._handle)
        except FileNotFoundError:
            return REMOVED
        except OSError:
            return HERE  # writing will tell what is wrong
        if self._handle is None:
            return HERE
        own = os.fstat(self._handle)
        try:
            there = os.stat(self.path)
        except OSError:
            return MOVED
        return HERE if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino) else MOVED

    def current(self) -> str:
        """Return the path that the folder has now, as far as the system tells."""
        if self._handle is not None:
            for table in ("/proc/self/fd", "/dev/fd"):
                with contextlib.suppress(OSError):
                    return os.readlink(f"{table}/{self._handle}")
        return "another place"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be its only writer; the system frees the locks of the dead."""
        if fcntl is None:  # an open file would keep others from renaming the folder
            yield
            return
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        try:
            handle = os.open(self._name(LOCK), flags, 0o666, dir_fd=self._handle)
        except IsADirectoryError:
            raise RunFolderError(f"{self.path / LOCK} is no file: a folder is there") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise RunFolderError(f"{self.path / LOCK} is a link: remove it") from None
            raised = RunStorageError(f"{self.path} cannot be written to: {error.strerror}")
            raised.errno = error.errno
            raise raised from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    raise RunFolderError(
                        f"another process is writing to {self.path}: wait for its end"
                    ) from None
                # A file system without locks: go on without.
            yield
        finally:
            os.close(handle)

    def _name(self, name: str) -> Any:
        return self.path / name if self._handle is None else name


def sync_folder(path: Path) -> None:
    """See to it that what was renamed in a folder outlives a power cut."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
