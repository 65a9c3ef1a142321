"""ln det H^bb and Fixman forces: time per bead, threads, ratios to dense algebra, cost exponents.

    python benchmarks/bench_metric.py [--quick]

One core but where threads are named; what is compared is interleaved, and times are medians.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import time
from functools import partial

import numpy as np
from _timing import is_quick, medians

import fixman as fx
from fixman.mechanics.metric import fixman_force, logdet

RNG = np.random.default_rng(1974)
FEW = 5  # frames that are not worth a register
BONDS, ROTATING, TORSIONAL = ("length",), ("length", "angle"), ("length", "angle", "torsion")


def walks(n: int, frames: int, parents: np.ndarray | None = None) -> np.ndarray:
    """Return random walks (frames, n, 3) along a chain or a tree."""
    steps = RNG.normal(size=(frames, n, 3))
    if parents is None:
        return steps.cumsum(axis=1)
    for k in range(1, n):
        steps[:, k] += steps[:, parents[k]]
    return steps


def batches(sizes: tuple[tuple[int, int], ...], budget: float) -> None:
    print("Chains in space, ns per bead and frame (wanted: freely jointed ln det at most 8,")
    print("freely rotating 120, force at most 3×, two threads at least 1.6× as fast)")
    names = ("ln det", "force", "ratio", "2 threads", "ln det", "force")
    print(f"{'hard':>24}{'beads':>7}{'frames':>8}" + "".join(f"{name:>10}" for name in names))
    for hard in (BONDS, ROTATING, TORSIONAL):
        for n, frames in sizes:
            chain, X = fx.Chain.linear(n, hard=hard), walks(n, frames)
            found = medians(
                {
                    (name, workers): partial(function, chain, X, workers=workers)
                    for name, function in (("ln det", logdet), ("force", fixman_force))
                    for workers in (1, 2)
                },
                budget=2.0 * budget,
            )
            value, force = found["ln det", 1], found["force", 1]
            ns = 1e9 / (n * frames)
            print(
                f"{' + '.join(hard):>24}{n:>7}{frames:>8}{ns * value:>10.1f}{ns * force:>10.1f}"
                f"{force / value:>9.1f}×{'':>10}{value / found['ln det', 2]:>9.2f}×"
                f"{force / found['force', 2]:>9.2f}×",
                flush=True,
            )
    print()


def dense_force(H: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the force on a freely jointed chain of unit masses through a dense inverse."""
    S = np.linalg.inv(H)
    d = np.diff(x, axis=0)
    lengths = np.linalg.norm(d, axis=1)[:, None]
    u = d / lengths
    c = (u[:-1] * u[1:]).sum(axis=1)[:, None]
    pull = np.diagonal(S, 1)[:, None]
    on_bonds = np.zeros_like(d)
    on_bonds[:-1] += pull * (u[1:] - c * u[:-1]) / lengths[:-1]
    on_bonds[1:] += pull * (u[:-1] - c * u[1:]) / lengths[1:]
    force = np.zeros_like(x)
    force[:-1] -= on_bonds
    force[1:] += on_bonds
    return force


def against_dense(sizes: tuple[int, ...], budget: float) -> None:
    print("One configuration at a time, µs, and a frame of a batch, against dense H^bb, given")
    names = ("ln det", "slogdet", "ratio", "in batch", "force", "inverse", "ratio", "in batch")
    print(f"{'hard':>18}{'beads':>7}" + "".join(f"{name:>10}" for name in names))
    for hard in (BONDS, ROTATING):
        for n in sizes:
            chain, X = fx.Chain.linear(n, hard=hard), walks(n, 64)
            H = fx.Partition(chain, X[0]).H_bb.toarray()
            inverse = partial(np.linalg.inv, H)  # alone, where angles are hard
            if hard == BONDS:
                inverse = partial(dense_force, H, X[0])
                np.testing.assert_allclose(inverse(), fixman_force(chain, X[0]), atol=1e-10)
            found = medians(
                {
                    "ln det": partial(logdet, chain, X[0]),
                    "slogdet": partial(np.linalg.slogdet, H),
                    "force": partial(fixman_force, chain, X[0]),
                    "inverse": inverse,
                    "ln dets": partial(logdet, chain, X),
                    "forces": partial(fixman_force, chain, X),
                },
                budget,
            )
            row = f"{' + '.join(hard):>18}{n:>7}"
            for ours, dense, many in (
                ("ln det", "slogdet", "ln dets"),
                ("force", "inverse", "forces"),
            ):
                one, batch = found[dense] / found[ours], 64 * found[dense] / found[many]
                row += f"{1e6 * found[ours]:>10.1f}{1e6 * found[dense]:>10.0f}"
                row += f"{one:>9.0f}×{batch:>9.0f}×"
            print(row, flush=True)
    print()


def topologies(n: int, hard: tuple[str, ...]) -> dict[str, tuple[fx.Chain, np.ndarray]]:
    """Return a chain of each kind with about n beads, and a configuration."""
    k = np.arange(n)
    # Twenty arms; a tooth of three beads on every bead of a backbone; every bead with two more.
    star = np.where(k <= 20, 0, k - 20)
    comb = np.where(k % 4 == 0, k - 4, k - 1)
    dendrimer = (k - 1) // 2
    found = {"linear": (fx.Chain.linear(n, hard=hard), walks(n, 1)[0])}
    for name, parents in (("star of chains", star), ("comb", comb), ("dendrimer", dendrimer)):
        parents[0] = -1
        chain = fx.Chain.branched(parents, hard=hard)
        found[name] = chain, walks(n, 1, parents)[0]
    circle = 2 * np.pi * k / n
    ring = np.stack([np.cos(circle), np.sin(circle), 0 * circle], axis=1) * n / (2 * np.pi)
    found["ring"] = fx.Chain.ring(n, hard=hard), ring + 0.2 * RNG.normal(size=(n, 3))
    return found


def exponents(sizes: tuple[int, ...]) -> None:
    print(f"Fitted cost exponents of five frames, one by one, {sizes[0]} to {sizes[-1]:,} beads")
    print("(wanted: 0.95 to 1.1), and ns per bead and frame of the longest")
    names = ("ln det", "force", "ln det, ns", "force, ns")
    print(f"{'hard':>18}{'topology':>18}" + "".join(f"{name:>13}" for name in names))
    for hard in (BONDS, ROTATING):
        times: dict[str, list[tuple[float, float]]] = {}
        for n in sizes:
            for name, (chain, x) in topologies(n, hard).items():
                X = np.stack([x] * FEW)
                both = []
                for function in (logdet, fixman_force):
                    function(chain, X)
                    spent = []
                    for _ in range(max(5, 50_000 // n)):
                        start = time.perf_counter()
                        function(chain, X)
                        spent.append(time.perf_counter() - start)
                    both.append(float(np.median(spent)))
                times.setdefault(name, []).append((both[0], both[1]))
        for name, pairs in times.items():
            fits = np.polyfit(np.log(sizes), np.log(pairs), 1)[0]
            value, force = 1e9 * np.array(pairs[-1]) / (FEW * sizes[-1])
            print(
                f"{' + '.join(hard):>18}{name:>18}{fits[0]:>13.3f}{fits[1]:>13.3f}"
                f"{value:>13.0f}{force:>13.0f}",
                flush=True,
            )


def main() -> None:
    quick = is_quick(__doc__)
    budget = 0.05 if quick else 2.0
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    batches(((100, 100),) if quick else ((100, 10_000), (1000, 1000)), budget)
    against_dense((100,) if quick else (100, 1000), budget)
    if not quick:  # short chains have no exponent
        exponents((1000, 3000, 10_000, 30_000, 100_000))
    print(f"\nload average after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
