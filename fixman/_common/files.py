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
    """Give a temporary name to write to, and rename it at the end; for formats of others."""
    path, overwrite = arrays.path(path, "path"), arrays.flag(overwrite, "overwrite")
    if os.path.lexists(path) and not overwrite:
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
