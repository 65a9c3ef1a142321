"""Compiled array functions, the only place that imports numba.

One file an algorithm family.  Kernels trust their callers: shapes, dtype (float64) and contiguity
are checked at the public edge, and an index error in a kernel would be silent.  A kernel that can
meet a configuration without an answer returns the number of the first such frame, or -1; the
caller finds out why and raises.

Frames are stacked on the bead axis, ``x (frames * n, d)``, because an array with one axis fewer
is cheaper to pass and needs no reshaping for a single frame.
"""

from typing import Any

from fixman.kernels.compiler.internals import config

if getattr(config, "DISABLE_JIT", False):
    raise ImportError(
        "fixman's kernels run compiled only, and NUMBA_DISABLE_JIT forbids it: unset it (to look "
        "for a wrong index, set NUMBA_BOUNDSCHECK=1 instead)"
    )

from fixman.kernels.compiler import _inner as _inner
from fixman.kernels.compiler._cache import njit as njit

# "contract" allows fused multiply-add only: nothing is reassociated, NaN and inf stay visible.
_OPTIONS: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
jit = njit(**_OPTIONS)
# Parts that run at every step of a motion make no arrays, and do not count references to them.
entry = njit(**_OPTIONS, _nrt=False)
plain = njit(**_OPTIONS, _nrt=False, no_cpython_wrapper=True)  # called from kernels alone
# Written into its callers by numba: where a call would pass many registers through memory.
inlined = njit(**_OPTIONS, inline="always")
