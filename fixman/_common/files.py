"""Files that appear in whole, or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from fixman._common import arrays

OVERWRITE = "overwrite it (overwrite=True)"


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str], overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary name to write to, and rename it at the end; a link stays a link."""
    path, overwrite = arrays.path(path, "path"), arrays.flag(overwrite, "overwrite")
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists: choose another name, or {OVERWRITE}")
    if path.is_dir():
        raise IsADirectoryError(f"a folder, not a file: {path}")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"no such folder: {path.absolute().parent}")
    temporary = path.with_name(path.name + ".tmp")
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
