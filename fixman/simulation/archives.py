"""Arrays of .npz files without belief: a file may be damaged, or forged by somebody.

What a header announces is compared with what is expected and with the length of the file before
anything is allocated; the check sum of every array is verified before it is handed out.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
# Of an array the types that it may have, and its shape: None is any length, ... any further axes.
Form = tuple[tuple[str, ...], tuple[Any, ...]]

MOST_MEMBERS = 10_000
HEADER = 10_000  # bytes; NumPy's own are a hundred
CHUNK = 1 << 20


class ArchiveError(ValueError):
    """A file that is no .npz, is damaged, or holds other arrays than it should."""


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an .npz without compression and without dates: equal arrays are equal files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(arrays):
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(arrays[name]), allow_pickle=False)
    return buffer.getvalue()


def read(
    raw: IO[bytes],
    forms: Mapping[str, Form],
    wanted: Iterable[str] | None = None,
    optional: Iterable[str] = (),
) -> Arrays:
    """Read the arrays ``wanted``, by default all, of a file that holds those of ``forms`` only.

    Raises ArchiveError for whatever is otherwise.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a broken header is worth an error
            with zipfile.ZipFile(raw) as archive:
                members = _members(archive, forms, set(optional))
                names = [name for name in (wanted or forms) if name in members]
                return {name: _array(archive, members[name], name, forms[name]) for name in names}
    except ArchiveError:
        raise
    except Exception as error:  # zipfile and NumPy raise a dozen kinds for a broken file
        raise ArchiveError(f"it is not a whole archive ({error})") from error


def _members(
    archive: zipfile.ZipFile, forms: Mapping[str, Form], optional: set[str]
) -> dict[str, zipfile.ZipInfo]:
    listed = archive.infolist()
    if len(listed) > MOST_MEMBERS:
        raise ArchiveError(f"it holds {len(listed)} arrays")
    members = {info.filename.removesuffix(".npy"): info for info in listed}
    if len(members) < len(listed):
        raise ArchiveError("two of its arrays have one name")
    missing = sorted(forms.keys() - optional - members.keys())
    strange = sorted(members.keys() - forms.keys())
    if missing:
        raise ArchiveError(f"it has no {', '.join(missing)}")
    if strange:
        raise ArchiveError(f"it has an unknown array {strange[0]!r:.60}")
    return members


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, form: Form) -> NDArray[Any]:
    """Read one array; its CRC is compared where zipfile meets the end of the member."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise ArchiveError(f"{name} is compressed, which no file of a run is")
    with archive.open(info) as member:
        shape, fortran, kind = _header(member)
        _require(name, form, shape, kind)
        size = kind.itemsize * math.prod(shape)
        if size > info.file_size:
            raise ArchiveError(f"{name} announces {size} bytes in a member of {info.file_size}")
        content = bytearray()
        while len(content) < size:
            piece = member.read(min(CHUNK, size - len(content)))
            if not piece:
                raise ArchiveError(f"{name} ends early")
            content += piece
        if member.read(1):
            raise ArchiveError(f"{name} is longer than it announces")
    flat = np.frombuffer(content, kind)
    array = flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    return np.array(array, kind.newbyteorder("="), order="C")


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise ArchiveError(f"the version of its arrays is {version}")
    one = version == (1, 0)
    reader = np.lib.format.read_array_header_1_0 if one else np.lib.format.read_array_header_2_0
    shape, fortran, kind = reader(member, max_header_size=HEADER)
    return shape, fortran, kind


def _require(name: str, form: Form, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
    kinds, lengths = form
    if kind.hasobject or not any(kind.newbyteorder("=") == np.dtype(known) for known in kinds):
        raise ArchiveError(f"{name} has type {kind}, expected {' or '.join(kinds)}")
    open_end = lengths[-1:] == (...,)
    fixed = lengths[:-1] if open_end else lengths
    fits = len(shape) >= len(fixed) if open_end else len(shape) == len(fixed)
    agree = all(want is None or have == want for have, want in zip(shape, fixed, strict=False))
    if not fits or not agree or min(shape, default=0) < 0:
        expected = ", ".join("any" if k is None else "…" if k is ... else str(k) for k in lengths)
        raise ArchiveError(f"{name} has shape {shape}, expected ({expected})")
