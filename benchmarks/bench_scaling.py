"""Bytes and pivots of a bead, predicted and measured, and the cost of 10⁹ chain-frames.

    python benchmarks/bench_scaling.py [--quick]

One core; medians of calls in turn.  "bytes" is what a call must read and write of a bead, at the
speed of a copy of the same array; "pivots" is d_k = a_k − b_k²/d_(k−1) alone, eight frames at a
time, once for each hard row.  Neither can be undercut by a method that reads each frame once
and eliminates row by row.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

from functools import partial

import numba
import numpy as np
from _timing import is_quick, medians
from bench_metric import BONDS, ROTATING, TORSIONAL, walks

import fixman as fx

LANES = 8
BILLION = 1e9


@numba.njit
def pivots(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> None:
    """Run d_k = a_k − b_k²/d_(k−1) over the rows of (n, frames), frames side by side."""
    d[:] = a[0]
    for k in range(1, a.shape[0]):
        for frame in range(d.size):
            d[frame] = a[k, frame] - b[k, frame] * b[k, frame] / d[frame]


def predicted(X: np.ndarray, rows: int, budget: float) -> tuple[float, float]:
    """Return nanoseconds a bead and frame: of a copy of the array, and of the pivots alone."""
    a, b = np.full((rows, LANES), 2.0), np.full((rows, LANES), 0.5)
    found = medians(
        {
            "copy": partial(np.copyto, np.empty_like(X), X),
            "pivots": partial(pivots, a, b, np.empty(LANES)),
        },
        budget,
    )
    frames, n = X.shape[:2]
    copy = found["copy"] / (frames * n) / 2.0  # a copy reads and writes
    return 1e9 * copy, 1e9 * found["pivots"] / (LANES * n)


def main() -> None:
    quick = is_quick(__doc__)
    n, frames, budget = 100, 500 if quick else 20_000, 0.05 if quick else 3.0
    X = walks(n, frames)
    print(f"{frames} frames of {n} beads; ns a bead and frame, and core-hours of 10⁹ chain-frames")
    heads = ("bytes", "pivots", "measured", "core-hours")
    print(f"{'hard':>24}{'call':>14}" + "".join(f"{head:>12}" for head in heads))
    for hard in (BONDS, ROTATING, TORSIONAL):
        chain = fx.Chain.linear(n, hard=hard)
        copy, alone = predicted(X, len(chain.hard), budget)
        calls = {"logdet": (fx.logdet, 1), "fixman_force": (fx.fixman_force, 2)}
        found = medians(
            {name: partial(call, chain, X) for name, (call, _) in calls.items()}, budget
        )
        for name, (_, passes) in calls.items():
            spent = 1e9 * found[name] / (n * frames)
            hours = BILLION * n * spent * 1e-9 / 3600.0
            print(
                f"{' + '.join(hard):>24}{name:>14}{passes * copy:>12.2f}{alone:>12.2f}"
                f"{spent:>12.2f}{hours:>12.2f}",
                flush=True,
            )
    size = BILLION * n * 3 * 4
    print(f"\n10⁹ chain-frames of {n} beads are {size / 1e12:.1f} TB in single precision")


if __name__ == "__main__":
    main()
