"""Compiled array functions, the only place that imports numba.

One file an algorithm family.  Kernels trust their callers: shapes, dtype (float64) and contiguity
are checked at the public edge, and an index error in a kernel would be silent.  A kernel that can
meet a configuration without an answer returns the number of the first such frame, or -1; the
caller finds out why and raises.

Frames are stacked on the bead axis, ``x (frames * n, d)``, because an array with one axis fewer
is cheaper to pass and needs no reshaping for a single frame.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numba


def _forget_stale_code() -> None:
    """Empty the cache beside the kernels when any of them has changed.

    numba compares a kernel with its own file alone, but what it inlines stands in others, and code
    compiled for other sizes of memory would overrun it.
    """
    folder = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(folder.glob("*.py")):
        status = path.stat()
        digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}\n".encode())
    cache = folder / "__pycache__"
    stamp = cache / "kernels.stamp"
    try:
        if stamp.exists() and stamp.read_text(encoding="ascii") == digest.hexdigest():
            return
        for stale in cache.glob("*.nb[ic]"):
            stale.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        stamp.write_text(digest.hexdigest(), encoding="ascii")
    except OSError:  # an installation that cannot be written to does not change either
        pass


_forget_stale_code()

# "contract" allows fused multiply-add only: nothing is reassociated, NaN and inf stay visible.
jit = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz"})
