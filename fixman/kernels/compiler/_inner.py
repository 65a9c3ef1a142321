"""Kernels that only kernels call are optimized where they are called, and not by themselves before.

numba optimizes each function in full and then, as a part of every function above it, again.
Functions that Python never calls have no wrapper for it.  For these the cheap passes suffice, which
join functions and drop counts of references: that saves a fifth of a first call.

This needs numba's event of a compilation, and ``_optimize_final_module`` of its libraries.  Where
the passes cannot be chosen so, all is optimized as numba does.
"""

from __future__ import annotations

from typing import Any

from fixman.kernels.compiler.internals import Library, event, optimize_in_full

PACKAGE = "fixman.kernels"


class Inner(event.Listener):
    """Whether what is being compiled, under numba's lock, is for kernels alone."""

    def __init__(self) -> None:
        self.stack = [False]

    def on_start(self, event: Any) -> None:
        """Note the function that is compiled now; functions that are not ours belong to it."""
        made: Any = event.data["dispatcher"]
        if made.py_func.__module__.startswith(PACKAGE):
            self.stack.append(bool(made.targetoptions.get("no_cpython_wrapper")))
        else:
            self.stack.append(self.stack[-1])

    def on_end(self, event: Any) -> None:
        """Go back to the function that asked for it."""
        self.stack.pop()


inner = Inner()


def optimize(library: Any) -> None:
    """Optimize a library, or leave the most of it to those that it is linked into."""
    if not inner.stack[-1]:
        optimize_in_full(library)
        return
    try:
        made, level = library._codegen, library._codegen._opt_level
        manager, passes = made._module_pass_manager(
            loop_vectorize=made._loopvect, slp_vectorize=False, opt=level, cost="cheap"
        )
        manager.run(library._final_module, passes)
    except (AttributeError, TypeError, ValueError):
        optimize_in_full(library)


event.register("numba:compile", inner)
Library._optimize_final_module = optimize
