"""What an installation promises: one version, types, and an import that costs nearly nothing."""

import ast
import importlib
import importlib.metadata
import importlib.resources
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import ModuleType

import fixman as fx

ROOT = Path(__file__).parents[1]

IMPORT = """
import json, sys, numpy
before = set(sys.modules)
import fixman
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_there_is_one_version():
    assert importlib.metadata.version("fixman-chains") == fx.__version__
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == fx.__version__
    assert fx.__version__ in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_package_is_marked_as_typed():
    assert importlib.resources.files("fixman").joinpath("py.typed").is_file()


def test_importing_loads_hardly_a_module_beside_numpy():
    run = [sys.executable, "-c", IMPORT]
    done = subprocess.run(run, capture_output=True, check=True, text=True)
    assert set(json.loads(done.stdout)) <= {"__future__", "fixman", "importlib", "typing"}


def test_rigid_bodies_load_when_they_are_used():
    lines = ["import sys, fixman as fx", "fx.rigid", "print('numba' in sys.modules)"]
    lines += ["fx.rigid.SerialChain.random(2)", "fx.rigid.partition.forward_dynamics"]
    lines += ["print('numba' in sys.modules, 'fixman.rigid.denoc' in sys.modules)"]
    run = [sys.executable, "-c", "\n".join(lines)]
    answer = subprocess.run(run, capture_output=True, check=True, text=True).stdout
    assert answer.split() == ["False", "True", "False"]


def test_public_names_resolve_and_are_listed():
    for module in (fx, fx.rigid):
        for name in module.__all__:
            assert getattr(module, name) is not None
        assert set(module.__all__) <= set(dir(module))


def test_completion_shows_public_names_alone():
    names = [getattr(fx, name) for name in fx.__all__]
    names = [one.__name__ for one in names if isinstance(one, ModuleType)]
    names += [f"fixman.rigid.{name}" for name in fx.rigid.__all__ if name != "SerialChain"]
    names += [f"fixman.io.{name}" for name in ("bodies", "dask", "gsd", "hdf5", "mdanalysis")]
    names += ["fixman", "fixman.io.mdanalysis.trajectories", "fixman.io.openmm"]
    for name in names:
        try:
            module = importlib.import_module(name)
        except ImportError:  # of an extra that is not installed
            continue
        assert dir(module) == sorted(module.__all__), name
        assert all(hasattr(module, public) for public in module.__all__), name


def test_a_mistyped_name_is_an_attribute_error():
    assert not hasattr(fx, "no_such_name")
    assert not hasattr(fx.rigid, "no_such_name")


def test_no_room_reads_a_private_attribute_of_another_room():
    defined, used = defaultdict(set), []
    for path in sorted((ROOT / "fixman").rglob("*.py")):
        room = path.relative_to(ROOT / "fixman").parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef):
                defined[room].update(part.name for part in node.body if hasattr(part, "name"))
            elif isinstance(node, ast.Attribute) and re.match(r"_(?!_)", node.attr):
                if isinstance(node.ctx, ast.Store):
                    defined[room].add(node.attr)
                used.append((room, node.attr, f"{path.name}:{node.lineno}"))
    elsewhere = {name for names in defined.values() for name in names}
    private = [(name, at) for room, name, at in used if name in elsewhere - defined[room]]
    assert "_table" in elsewhere
    assert not private
