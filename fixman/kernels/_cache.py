"""Compiled kernels on disk, under a digest of all that their machine code depends on.

    <folder>/fixman-<digest of every kernel file, of versions and settings>/<kernel>-<digest>

numba's own cache compares a kernel with the one file that it stands in, but what is inlined into it
stands in others, and code compiled for other sizes of memory would overrun it.  Here the contents
of all files are in the name, so that code of anything else is not even looked for, whatever the
folder and whatever installers do with the times of files.  Each file is one kernel for one
signature, checks itself, and replaces another whole: what is damaged, gone or cannot be written
costs time and nothing else.

Whoever waits for compilation is told so once, on standard error: see `Notice`.

Of numba this needs a dispatcher's ``_cache`` and how a result of compilation is taken apart and put
together.  Where a version does these otherwise, kernels are compiled in every process.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
from numba import types
from numba.core import caching, compiler, event, serialize

NullCache: Any = getattr(caching, "NullCache", None)
config: Any = numba.config

SOURCES = Path(__file__).parent
KEPT = 3  # folders of other digests: branches and versions that take turns
CHECK = 16  # bytes of a check sum
PATIENCE = 2.0  # seconds of compilation before anything is said
QUIET = "FIXMAN_QUIET"  # environment variable: 1 to say nothing
SETTINGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")


_warned = False


def njit(**options: Any) -> Callable[[Any], Any]:
    """Return ``numba.njit`` with these options, whose kernels are kept on disk."""
    wanted: Any = {"no_cfunc_wrapper": True, **options}
    compiled = numba.njit(**wanted)

    def decorate(function: Any) -> Any:
        dispatcher = compiled(function)
        _forget_constants(dispatcher)
        found = folder()
        if found is not None:
            if NullCache and isinstance(getattr(dispatcher, "_cache", None), NullCache):
                dispatcher._cache = Cache(function, found)
            else:
                _warn(f"numba {numba.__version__} is not known")
        return dispatcher

    return decorate


def _forget_constants(dispatcher: Any) -> None:
    """Let kernels that call this one with constants share what is compiled for any number."""
    resolve = dispatcher.get_call_template

    def resolve_any(args: Any, kws: Any) -> Any:
        return resolve([types.unliteral(arg) for arg in args], kws)

    dispatcher.get_call_template = resolve_any


class Notice(event.Listener):
    """Say why a first call takes long, once a process and only if it does."""

    def __init__(self) -> None:
        self.depth = 0
        self.since = self.spent = 0.0
        self.said = False

    def on_start(self, event: Any) -> None:
        if not _ours(event):
            return
        now = time.perf_counter()
        if self.depth == 0:
            self.since = now
        self.depth += 1
        if self.said or self.spent + now - self.since < PATIENCE:
            return
        self.said = True
        if os.environ.get(QUIET, "") in ("", "0"):
            sys.stderr.write(
                "fixman: compiling for this processor, once on this machine; the next time takes "
                f"no such wait ({QUIET}=1 hides this line)\n"
            )

    def on_end(self, event: Any) -> None:
        if _ours(event):
            self.depth -= 1
            if self.depth == 0:
                self.spent += time.perf_counter() - self.since


def _ours(event: Any) -> bool:
    return str(event.data["dispatcher"].py_func.__module__).startswith(__package__)


event.register("numba:compile", Notice())


class Cache(NullCache or object):  # type: ignore[misc]
    """What numba asks of a function's cache.

    Whatever goes wrong with a file or inside numba, the kernel is compiled: hence ``Exception``.
    """

    def __init__(self, function: Any, folder: Path) -> None:
        self._function = function
        self._folder = folder

    @property
    def cache_path(self) -> str:
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()  # without it a fresh process has no targets
        try:
            path = self._path(sig, target_context.codegen())
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        except Exception as error:
            _warn(str(error))
            return None
        try:
            if _check(content[CHECK:]) != content[:CHECK]:
                return None  # it will be replaced
            known, parts = pickle.loads(content[CHECK:])
            if known != sig:
                return None
            return compiler.CompileResult._rebuild(target_context, *parts)
        except Exception as error:
            _warn(str(error))
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            if data.lifted or data.library.has_dynamic_globals or digest() != self._digest:
                return
            content = serialize.dumps((sig, data._reduce()))
            _write(self._path(sig, data.codegen), _check(content) + content)
        except Exception as error:
            if "no compiled object" not in str(error):  # which Ctrl-C leaves behind
                _warn(str(error))

    @property
    def _digest(self) -> str:
        return self._folder.name.removeprefix("fixman-")

    def _path(self, sig: Any, codegen: Any) -> Path:
        function, code = self._function, self._function.__code__
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        parts = (
            function.__module__, function.__qualname__, code.co_firstlineno, code.co_code.hex(),
            serialize.dumps(cells).hex(), str(sig), codegen.magic_tuple(),
        )  # fmt: skip
        name = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
        return self._folder / f"{function.__name__}-{name}"


@cache
def folder() -> Path | None:
    """Return where compiled kernels of these sources are kept, or None and a warning."""
    try:
        name = f"fixman-{digest()}"
    except OSError as error:
        _warn(str(error))
        return None
    for base in _bases():
        found = base / name
        new = not found.is_dir()
        try:
            found.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=found).close()  # permissions alone do not tell
            os.utime(found)
        except OSError:
            continue
        if new:
            _forget_old(base, name)
        return found
    _warn("no folder for it can be written to")
    return None


def digest() -> str:
    """Digest of every kernel file's content, and of what else decides the machine code.

    The processor and its features are in the name of each file.
    """
    known = hashlib.blake2b(digest_size=16)
    versions = numba.__version__, llvmlite.__version__, sys.version
    settings = [getattr(config, name, None) for name in SETTINGS]
    known.update(repr((versions, settings)).encode())
    files = sorted(SOURCES.glob("*.py"))
    if not files:
        raise FileNotFoundError(f"no source files in {SOURCES}")
    for path in files:
        content = path.read_bytes()
        known.update(f"{path.name} {len(content)}\n".encode())
        known.update(content)
    return known.hexdigest()


def _bases() -> Iterator[Path]:
    """Folders in the order in which numba looks for one."""
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR).absolute()
    yield SOURCES / "__pycache__"
    try:
        home = Path.home()
    except RuntimeError:  # a user without one
        return
    if sys.platform == "win32":
        yield Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "fixman"
    elif sys.platform == "darwin":
        yield home / "Library" / "Caches" / "fixman"
    else:
        yield Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache").absolute() / "fixman"


def _forget_old(base: Path, name: str) -> None:
    """Remove all but the last used folders of other digests."""
    others = []
    for path in base.glob("fixman-*"):
        try:
            others.append((path.stat().st_mtime, path))
        except OSError:  # another process was quicker
            continue
    others = sorted(other for other in others if other[1].name != name)
    for _, path in others[: max(0, len(others) - KEPT)]:
        shutil.rmtree(path, ignore_errors=True)


def _check(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECK).digest()


def _write(path: Path, content: bytes) -> None:
    """Write a file so that others see it whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)  # it may have been removed since
    draft = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _warn(reason: str) -> None:
    """Warn once in a process."""
    global _warned
    if _warned:
        return
    _warned = True
    warnings.warn(
        f"compiled code is not kept ({reason}): every process compiles the kernels that it uses, "
        "which takes seconds to a minute. Set the environment variable NUMBA_CACHE_DIR to a folder "
        "that can be written to",
        RuntimeWarning,
        stacklevel=2,
    )
