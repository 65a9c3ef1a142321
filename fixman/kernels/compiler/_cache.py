"""Compiled kernels on disk, under a digest of all that their machine code depends on.

    <folder>/fixman-<module>-<digest>/<kernel>-<digest>

numba's own cache compares a kernel with the one file that it stands in, but what is inlined into it
stands in others.  The first digest covers the kernel's file and all that this one imports, directly
or not, versions and settings: old code is not even looked for, and an edit of a potential compiles
no robot again.  Each file is one kernel for one signature, checks itself, and replaces another
whole: a damaged or missing file costs time and nothing else.

Kept code is run as it is read: a folder that others can write to is not used.
"""

import contextlib
import hashlib
import os
import pickle
import re
import shutil
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from fixman.kernels.compiler import internals as nb
from fixman.kernels.compiler._inner import compiling
from fixman.kernels.compiler.internals import config, numba, types

PACKAGE = "fixman.kernels"
SOURCES = Path(__file__).parents[1]
IMPORTS = re.compile(r"fixman\.kernels((?:\.\w+)*)(?: import (\([^)]*\)|[^\n]*))?")
WORD = re.compile(r"\w+")
KEPT = 3  # folders of a module with other digests: branches and versions that take turns
CHECK = 16  # bytes of a check sum
SETTINGS = ("BOUNDSCHECK", "DEBUGINFO_DEFAULT", "LOOP_VECTORIZE", "OPT", "SLP_VECTORIZE")

_warned = False


def njit(**options: Any) -> Callable[[Any], Any]:
    """Return ``numba.njit`` with these options, which keeps the kernels of this folder on disk."""
    compiled = numba.njit(**{"no_cfunc_wrapper": True, **options})

    def decorate(function: Any) -> Any:
        dispatcher = compiled(function)
        _forget_constants(dispatcher)
        ours = function.__module__.startswith(PACKAGE)
        found = folder(_file(function.__module__)) if ours else None
        if found is not None:
            dispatcher._cache = Cache(function, found, "no_cpython_wrapper" in options)
        return dispatcher

    return decorate


def _forget_constants(dispatcher: Any) -> None:
    """Let kernels that call this one with constants share what is compiled for any number."""
    resolve = dispatcher.get_call_template

    def resolve_any(args: Any, kws: Any) -> Any:
        return resolve([types.unliteral(arg) for arg in args], kws)

    dispatcher.get_call_template = resolve_any


class Cache(nb.NullCache):  # type: ignore[misc]
    """A function's cache for numba; whatever goes wrong with a file, the kernel is compiled."""

    def __init__(self, function: Any, folder: Path, inner: bool) -> None:
        self._function = function
        self._folder = folder
        self._inner = inner

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()  # without it a fresh process has no targets
        try:
            content = self._path(sig, target_context.codegen()).read_bytes()
            if _check(content[CHECK:]) != content[:CHECK]:
                return None  # it will be replaced
            known, parts = pickle.loads(content[CHECK:])
            compiling.inner.append(self._inner)
            try:
                return nb.rebuild(target_context, *parts) if known == sig else None
            finally:
                compiling.inner.pop()
        except FileNotFoundError:
            return None
        except Exception as error:
            _warn(str(error))
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            if data.lifted or data.library.has_dynamic_globals:
                return
            _read.cache_clear()  # sources may have been edited since this process read them
            if digest(_file(self._function.__module__)) != self._folder.name.rsplit("-", 1)[1]:
                return
            content = nb.serialize.dumps((sig, data._reduce()))
            _write(self._path(sig, data.codegen), _check(content) + content)
        except Exception as error:
            if "no compiled object" not in str(error):  # which Ctrl-C leaves behind
                _warn(str(error))

    def _path(self, sig: Any, codegen: Any) -> Path:
        function, code = self._function, self._function.__code__
        cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
        parts = (
            function.__qualname__, code.co_firstlineno, code.co_code, nb.serialize.dumps(cells),
            str(sig), *map(digest, _defined(sig)), codegen.magic_tuple(),
        )  # fmt: skip
        name = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
        return self._folder / f"{function.__name__}-{name}"


def _file(module: str) -> str:
    return module.removeprefix(PACKAGE).removeprefix(".") or "__init__"


def _defined(kind: Any) -> Iterator[str]:
    """Files of the classes and functions in a signature, which a kernel need not import."""
    parts: Any = getattr(kind, "args", None) or getattr(kind, "types", ())
    for part in kind if isinstance(kind, tuple) else parts:
        yield from _defined(part)
    known = getattr(kind, "instance_class", None)  # its class, if it is a named tuple
    if isinstance(kind, types.Dispatcher):
        known = kind.dispatcher.py_func
    if known is not None and known.__module__.startswith(PACKAGE):
        yield _file(known.__module__)


@cache
def folder(file: str) -> Path | None:
    """Return where compiled kernels of a file are kept, or None and a warning."""
    try:
        name = f"fixman-{file}-{digest(file)}"
    except OSError as error:
        _warn(str(error))
        return None
    refused = ""
    for base in _bases():
        found = base / name
        new = not found.is_dir()
        try:
            base.mkdir(parents=True, exist_ok=True)
            found.mkdir(mode=0o700, exist_ok=True)
            if not _own(found):
                refused = f"{found} belongs to another user, or others can write to it; "
                continue
            tempfile.TemporaryFile(dir=found).close()  # permissions alone do not tell
            os.utime(found)
        except OSError:
            continue
        if new:
            _forget_old(base, name)
        return found
    _warn(f"{refused}no folder for it can be written to")
    return None


def _own(found: Path) -> bool:
    """Whether nobody else can put files into a folder."""
    if sys.platform == "win32":
        return True
    state = found.lstat()
    return S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022


def digest(file: str) -> str:
    """Digest of a kernel file and of all else that decides its code, but for the processor."""
    known = hashlib.blake2b(digest_size=16)
    versions = numba.__version__, nb.llvmlite.__version__, sys.version
    settings = [getattr(config, name, None) for name in SETTINGS]
    known.update(repr((versions, settings)).encode())
    for name in sorted(_needed(file)):
        content, _ = _read(name)
        known.update(f"{name} {content}\n".encode())
    return known.hexdigest()


def _needed(file: str) -> set[str]:
    needed: set[str] = set()
    waiting = {"__init__", "compiler._cache", "compiler.internals", file}
    while waiting:
        name = waiting.pop()
        needed.add(name)
        waiting |= _read(name)[1] - needed
    return needed


def _source(file: str) -> Path:
    return SOURCES / f"{file.replace('.', '/')}.py"


@cache
def _read(file: str) -> tuple[str, set[str]]:
    """Digest of a file's content, and the kernel files that it names."""
    content = _source(file).read_bytes()
    named = set()
    for package, names in IMPORTS.findall(content.decode()):
        named |= {package, *(f"{package}.{name}" for name in WORD.findall(names))}
    files = {name.removeprefix(".") for name in named}
    files = {name for name in files if _source(name).is_file()}
    return hashlib.blake2b(content, digest_size=16).hexdigest(), files


def _bases() -> list[Path]:
    given = config.CACHE_DIR and os.path.abspath(config.CACHE_DIR)
    found = (given, str(SOURCES / "__pycache__"), nb.appdirs.user_cache_dir("fixman", False))
    return [Path(name) for name in found if os.path.isabs(name)]  # a user may have no home


def _forget_old(base: Path, name: str) -> None:
    """Remove all but the last used folders of a module's other digests."""
    others = []
    for path in base.glob(f"{name.rsplit('-', 1)[0]}-*"):
        with contextlib.suppress(OSError):  # another process was quicker
            others += [(path.stat().st_mtime, path)] if path.name != name else []
    for _, path in sorted(others)[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _check(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=CHECK).digest()


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)  # it may have been removed since
    draft = path.with_name(f"{uuid.uuid4().hex}.tmp")
    try:
        draft.write_bytes(content)
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _warn(reason: str) -> None:
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
