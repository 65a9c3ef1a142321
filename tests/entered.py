"""Kernels that a run has entered: `python tests/entered.py FOLDER`.

The folder is the NUMBA_CACHE_DIR of that run, empty before it.  The answer is 1 where a kernel is
missing: then `tests/bounds.txt` needs a test that enters it.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

from numba.core.dispatcher import Dispatcher

from fixman import kernels
from fixman.kernels.simulation.constraints import KINDS

PREFIX = "fixman.kernels."


def known() -> set[tuple[str, str]]:
    """Modules and names of all kernels that are compiled by themselves."""
    parts = {module.__name__ for module in KINDS.values()}  # chosen by the type of a system
    found = set()
    for about in pkgutil.walk_packages(kernels.__path__, PREFIX):
        if about.ispkg or about.name in parts:
            continue
        for kernel in vars(importlib.import_module(about.name)).values():
            if isinstance(kernel, Dispatcher) and kernel.targetoptions.get("inline") != "always":
                function = kernel.py_func
                module, name = function.__module__, function.__name__
                own = name.startswith("_")  # for energies that users compile
                if module.startswith(PREFIX) and module not in parts and not own:
                    found.add((module.removeprefix(PREFIX), name))
    return found


def entered(folder: Path) -> set[tuple[str, str]]:
    """Modules and names of the kernels that are kept in a folder."""
    return {
        (path.parent.name.removeprefix("fixman-").rpartition("-")[0], path.name.rpartition("-")[0])
        for path in folder.glob("fixman-*/*-*")
    }


def main() -> int:
    there, all_of_them = entered(Path(sys.argv[1])), known()
    missing = sorted(all_of_them - there)
    print(f"{len(all_of_them) - len(missing)} of {len(all_of_them)} kernels were entered")
    for module, name in missing:
        print(f"  not {module}.{name}")
    return int(bool(missing))


if __name__ == "__main__":
    raise SystemExit(main())
