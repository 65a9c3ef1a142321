"""While something is compiled: kernels of kernels are optimized once, and a long wait is explained.

numba optimizes each function in full and makes machine code of it, and then, as a part of every
function above it, again.  For functions that Python never calls the cheap passes suffice, which
join functions and drop counts of references, and nobody runs their machine code: that saves a third
of a first call.  Where the passes cannot be chosen so, all is optimized as numba does.
"""

import os
import sys
import time
from typing import Any

from fixman.kernels.compiler import internals as nb
from fixman.kernels.compiler.internals import Library, event

PACKAGE = "fixman.kernels"
PATIENCE = 2.0  # seconds of compilation before anything is said
QUIET = "FIXMAN_QUIET"  # environment variable: 1 to say nothing
CALLED = "_ZN7cpython"  # begins the names of what Python calls


class Compiling(event.Listener):
    """What is compiled, under numba's lock: whether for kernels alone, and for how long."""

    def __init__(self) -> None:
        self.inner = [False]
        self.since = self.spent = 0.0
        self.said = False

    def on_start(self, event: Any) -> None:
        made: Any = event.data["dispatcher"]
        ours = made.py_func.__module__.startswith(PACKAGE)
        now = time.perf_counter()
        if len(self.inner) == 1:
            self.since = now
        alone = bool(made.targetoptions.get("no_cpython_wrapper")) if ours else self.inner[-1]
        self.inner.append(alone)
        if ours and not self.said and self.spent + now - self.since >= PATIENCE:
            self.said = True
            if os.environ.get(QUIET, "") in ("", "0"):
                sys.stderr.write(
                    "fixman: compiling for this processor; the next run of this kind takes no such "
                    f"wait ({QUIET}=1 hides this line)\n"
                )

    def on_end(self, event: Any) -> None:
        self.inner.pop()
        if len(self.inner) == 1:
            self.spent += time.perf_counter() - self.since


compiling = Compiling()


def optimize(library: Any) -> None:
    """Optimize a library, or leave the most of it to those that it is linked into."""
    if not compiling.inner[-1]:
        nb.optimize_in_full(library)
        return
    try:
        made, level = library._codegen, library._codegen._opt_level
        manager, passes = made._module_pass_manager(
            loop_vectorize=made._loopvect, slp_vectorize=False, opt=level, cost="cheap"
        )
        manager.run(library._final_module, passes)
    except (AttributeError, TypeError, ValueError):
        nb.optimize_in_full(library)


def finish(library: Any) -> None:
    """Make machine code of a library, but for one without a function that Python calls."""
    names = [function.name for function in library.get_defined_functions()]
    if not compiling.inner[-1] or any(name.startswith(CALLED) for name in names):
        nb.finish_in_full(library)
        return
    library._finalize_dynamic_globals()
    library._verify_declare_only_symbols()
    library._finalized = True
    library.serialize_using_object_code = library.serialize_using_bitcode


def set_environment(codegen: Any, name: str, environment: Any) -> None:
    if codegen._engine.is_symbol_defined(name):  # there is machine code that can use it
        nb.set_environment(codegen, name, environment)


event.register("numba:compile", compiling)
Library._optimize_final_module = optimize
Library._finalize_final_module = finish
nb.Codegen.set_env = set_environment
