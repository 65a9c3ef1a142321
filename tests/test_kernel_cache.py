"""Compiled kernels on disk: never old ones, and whatever happens to the files costs time only."""

import ast
import importlib
import json
import math
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher

from fixman import kernels
from fixman.kernels.compiler import _cache

PACKAGE = Path(kernels.__file__).parents[1]
NOWHERE = "/proc" if sys.platform == "linux" else "/dev"  # takes no files, even root's

HELPER = "from fixman.kernels import jit\n\n@jit\ndef factor():\n    return 2.0\n"
KERNEL = """from fixman.kernels import jit
from fixman.kernels.helper import factor

@jit
def scaled(x):
    return factor() * x
"""
FACTOR = "from fixman.kernels.helper import factor\n"
KINDS = """from typing import NamedTuple

class Two(NamedTuple):
    a: float
    b: float
"""
TAKEN = """from fixman.kernels import jit

@jit
def scaled(two):
    return two.a
"""
PART = re.compile(r"fixman\.kernels\.([\w.]+)")
PARTS = [f"compiler/{name}.py" for name in ("_cache", "_inner", "internals")]
CALL = """
import json, warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from fixman.kernels.kernel import scaled
    value = scaled(1.0)
print(json.dumps([value, sum(scaled.stats.cache_hits.values()), [str(w.message) for w in caught]]))
"""


def kernel_files():
    """Return the names of all files of kernels, as of modules below `fixman.kernels`."""
    prefix = "fixman.kernels."
    walked = pkgutil.walk_packages(kernels.__path__, prefix)
    return [module.name.removeprefix(prefix) for module in walked if not module.ispkg]


@pytest.fixture
def package(tmp_path):
    """Return the folder of a package with two small kernels, one inlined into the other."""
    folder = tmp_path / "package" / "fixman" / "kernels"
    (folder / "compiler").mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    for name in ("__init__.py", "compiler/__init__.py", *PARTS):
        shutil.copy(PACKAGE / "kernels" / name, folder / name)
    (folder / "helper.py").write_text(HELPER)
    (folder / "kernel.py").write_text(KERNEL)
    return folder


def start(code, root, cache, **environment):
    # No bytecode: it goes by the times of files, which these tests forge.
    own = {"PYTHONPATH": str(root), "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | own | environment,
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return json.loads(out)


def call(package, cache):
    return answer(start(CALL, package.parents[1], cache))


def change_helper(package):
    """Make it another one of the same length and time."""
    path = package / "helper.py"
    before = path.stat()
    path.write_text(HELPER.replace("2.0", "3.0"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_old_code_is_not_found_when_another_file_changes(package, tmp_path):
    cache = tmp_path / "cache"
    assert call(package, cache) == [2.0, 0, []]
    assert call(package, cache) == [2.0, 1, []]
    change_helper(package)
    assert call(package, cache) == [3.0, 0, []]


INNER = """
import json
from fixman.kernels.NAME import scaled
from fixman.kernels.helper import factor
value = scaled(1.0)
(inner,) = factor.overloads.values()
place = inner.library.get_pointer_to_function(inner.fndesc.llvm_func_name)
print(json.dumps([value, place, sum(factor.stats.cache_hits.values())]))
"""


def test_kernels_of_kernels_have_no_machine_code(package, tmp_path):
    """Nobody would run it; they are kept for other kernels all the same."""
    (package / "helper.py").write_text(HELPER.replace("jit", "plain"))
    (package / "other.py").write_text(KERNEL)
    for name, hits in (("kernel", 0), ("other", 1)):
        code = INNER.replace("NAME", name)
        assert answer(start(code, package.parents[1], tmp_path / "cache")) == [2.0, 0, hits]


@pytest.mark.thorough
def test_an_edit_compiles_again_what_depends_on_it_alone(package, tmp_path):
    other = CALL.replace("kernels.kernel", "kernels.other")
    (package / "other.py").write_text(KERNEL.replace("factor() *", "4.0 *").replace(FACTOR, ""))
    cache = tmp_path / "cache"
    for code in (CALL, other):
        answer(start(code, package.parents[1], cache))
    change_helper(package)
    assert answer(start(other, package.parents[1], cache)) == [4.0, 1, []]
    assert call(package, cache) == [3.0, 0, []]


@pytest.mark.thorough
def test_classes_and_functions_of_arguments_count(package, tmp_path):
    """A kernel need not import the classes of its arguments."""
    (package / "kinds.py").write_text(KINDS)
    (package / "kernel.py").write_text(TAKEN)
    cache = tmp_path / "cache"
    given = CALL.replace("scaled(1.0)", "scaled(Two(2.0, 3.0))").replace(
        "    value", "    from fixman.kernels.kinds import Two\n    value"
    )
    assert answer(start(given, package.parents[1], cache)) == [2.0, 0, []]
    (package / "kinds.py").write_text(KINDS.replace("a: float\n    b", "b: float\n    a"))
    assert answer(start(given, package.parents[1], cache)) == [3.0, 0, []]


def test_the_files_that_a_kernel_needs_are_those_that_it_imports():
    def imported(name):
        tree = ast.parse(_cache._source(name).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                yield from (f"{node.module}.{alias.name}" for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)

    def files(name):
        found = {match for word in imported(name) for match in PART.findall(word)}
        found |= {file.rpartition(".")[0] for file in found}
        return {file for file in found if _cache._source(file).is_file()}

    assert all(files(name) <= _cache._needed(name) for name in kernel_files())
    assert "potentials.bonded" in _cache._needed("potentials.forces")
    assert "potentials.bonded" not in _cache._needed("simulation.stepping")  # called at an address
    assert not any("potentials" in name for name in _cache._needed("rigid.articulated_body"))


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform == "win32", reason="folders have other rights there")
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_folders_that_others_can_write_to_are_not_used(package, tmp_path, mode):
    cache = tmp_path / "cache"
    assert call(package, cache) == [2.0, 0, []]
    kept = list(cache.iterdir())
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in kept)
    for path in kept:
        path.chmod(mode)
    # The next place is beside the sources.
    assert call(package, cache) == [2.0, 0, []]
    assert call(package, cache) == [2.0, 1, []]
    for path in (package / "__pycache__").glob("fixman-*"):
        shutil.rmtree(path)
        path.symlink_to(tmp_path)
    home = {"HOME": str(cache), "XDG_CACHE_HOME": str(cache)}
    process = start(CALL, package.parents[1], cache, **home)
    assert answer(process)[:2] == [2.0, 0]


DAMAGE = """
import json, warnings
from pathlib import Path
warnings.simplefilter("error")
from fixman.kernels import jit
from fixman.kernels.compiler._cache import folder
from fixman.kernels.kernel import scaled
scaled(1.0)
path, = folder("kernel").glob("scaled-*")
whole = path.read_bytes()
size = len(whole)
damaged = [whole[:k] for k in (0, 1, 15, 16, 17, size // 2, size - 1)] + [whole + b"x"]
for k in (0, 15, 16, 17, 40, size // 3, size // 2, size - 2, size - 1):
    damaged.append(whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :])
found = []
for content in (whole, *damaged):
    path.write_bytes(content)
    again = jit(scaled.py_func)
    value = again(1.5)
    third = jit(scaled.py_func)
    third(1.5)
    found.append([value, *(sum(f.stats.cache_hits.values()) for f in (again, third))])
print(json.dumps(found))
"""


@pytest.mark.thorough
def test_damaged_files_are_replaced(package, tmp_path):
    whole, *damaged = answer(start(DAMAGE, package.parents[1], tmp_path / "cache"))
    assert whole == [3.0, 1, 1]
    assert len(damaged) == 17
    assert all(result == [3.0, 0, 1] for result in damaged)


LOGDET = """
import json, warnings
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import fixman as fx
    value = fx.logdet(fx.Chain.linear(3), np.eye(3))
print(json.dumps([value, [[w.category.__name__, str(w.message)] for w in caught]]))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["a file", "not to be written to"])
def test_without_a_folder_it_works_and_warns_once(tmp_path, kind):
    root = tmp_path / "package"
    ignored = shutil.ignore_patterns("__pycache__")
    copied = shutil.copytree(PACKAGE, root / "fixman", ignore=ignored)
    beside, elsewhere = copied / "kernels" / "__pycache__", NOWHERE
    if kind == "a file":
        beside.touch()
        elsewhere = str(beside)
    else:
        beside.symlink_to(NOWHERE)
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"), elsewhere)
    value, caught = answer(start(LOGDET, root, elsewhere, **homes))
    assert value == pytest.approx(math.log(3.75), rel=1e-15)
    assert [category for category, _ in caught] == ["RuntimeWarning"]
    assert "Set the environment variable NUMBA_CACHE_DIR to a folder" in caught[0][1]


@pytest.mark.thorough
def test_processes_that_race(package, tmp_path):
    cache = tmp_path / "cache"
    racing = [start(CALL, package.parents[1], cache) for _ in range(2)]
    assert [answer(process)[::2] for process in racing] == [[2.0, []]] * 2
    kept = [path.name.split("-")[0] for folder in cache.iterdir() for path in folder.iterdir()]
    assert sorted(kept) == ["factor", "scaled"]
    assert call(package, cache) == [2.0, 1, []]


def test_every_kernel_is_kept_so():
    found = {}
    for name in kernel_files():
        module = importlib.import_module(f"fixman.kernels.{name}")
        kinds = vars(module).values()
        found |= {id(kernel): kernel for kernel in kinds if isinstance(kernel, Dispatcher)}
    assert len(found) > 100
    assert all(isinstance(kernel._cache, _cache.Cache) for kernel in found.values())


@pytest.mark.parametrize("setting", _cache.SETTINGS)
def test_settings_are_in_the_digest(setting, monkeypatch):
    before = _cache.digest("chain.hard")
    assert _cache.digest("chain.hard") == before
    monkeypatch.setattr(_cache.config, setting, "another")
    assert _cache.digest("chain.hard") != before


def test_the_oldest_folders_are_forgotten(tmp_path):
    for k in range(_cache.KEPT + 3):
        (tmp_path / f"fixman-a-{k}").mkdir()
        os.utime(tmp_path / f"fixman-a-{k}", (k, k))
    for other in ("another", "fixman-b-0"):
        (tmp_path / other).mkdir()
    _cache._forget_old(tmp_path, "fixman-a-0")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"another", "fixman-b-0", *(f"fixman-a-{k}" for k in (0, 3, 4, 5))}


def test_a_command_without_compiling_says_so_in_a_line(tmp_path):
    command = [sys.executable, "-m", "fixman", "demo", "--out", str(tmp_path)]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("fixman: error: fixman's kernels run compiled only")
    assert done.stderr.count("\n") == 1


GONE = """
import json
import numba.core.caching
del numba.core.caching.NullCache
try:
    import fixman.kernels
except ImportError as error:
    print(json.dumps(str(error)))
"""


def test_a_version_of_numba_without_an_internal_is_refused_in_words(tmp_path):
    said = answer(start(GONE, PACKAGE.parent, tmp_path))
    assert f"does not know numba {version('numba')} with llvmlite {version('llvmlite')}: " in said
    assert "no attribute 'NullCache'" in said
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    assert f"pip install '{project['dependencies'][2]}'" in said


IMPATIENT = """
from fixman.kernels.compiler import _inner
_inner.PATIENCE = 0.0
from fixman.kernels.kernel import scaled
scaled(1.0)
scaled(1)
"""


@pytest.mark.thorough
def test_whoever_waits_for_compilation_is_told_once(package, tmp_path):
    def told(**environment):
        root, cache = package.parents[1], tmp_path / "cache"
        process = start(IMPATIENT, root, cache, **environment)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return err

    assert told(FIXMAN_QUIET="1") == ""  # and nothing is left to compile
    shutil.rmtree(tmp_path / "cache")
    line = told(FIXMAN_QUIET="")
    assert line.startswith("fixman: compiling for this processor; the next run of this kind")
    assert line.count("\n") == 1
    assert told(FIXMAN_QUIET="") == ""
