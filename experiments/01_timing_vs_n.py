"""Figure 2 of Lee & Chirikjian (2005), continued: time against the number of links.

Every time includes all work from positions to q̈ (in space: to accelerations and tensions), on one
core.  The dense baseline is a strong one: O(n²) assembly of G^aa, then Cholesky.  Exponents are
fitted from n = 1000 on, and to three points at least.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from _output import Output, plot
from scipy import linalg

import fixman as fx

State = tuple[fx.Chain, np.ndarray, np.ndarray, np.ndarray]


def arm(n: int, rng: np.random.Generator) -> State:
    """Return a planar arm on a fixed base, its motion and torques."""
    chain = fx.Chain.linear(n, dim=2, base="fixed", masses=10.0 ** rng.uniform(-1, 1, n))
    q, qd = np.ones(2 * n), np.zeros(2 * n)
    q[chain.soft] = rng.uniform(-np.pi, np.pi, n)
    qd[chain.soft] = rng.normal(size=n) / np.sqrt(n)
    return (chain, *chain.cartesian(q, qd), rng.normal(size=n))


def polymer(hard: tuple[str, ...], n: int, rng: np.random.Generator) -> State:
    """Return a free polymer in space, its motion and forces."""
    chain = fx.Chain.linear(n, hard=hard)
    q, qd = np.ones(3 * n), np.zeros(3 * n)
    q[1::3] = rng.uniform(0.3, 2.8, n)
    q[2::3] = rng.uniform(-np.pi, np.pi, n)
    qd[chain.soft] = rng.normal(size=chain.soft.size) / np.sqrt(n)
    return (chain, *chain.cartesian(q, qd), rng.normal(size=(n, 3)))


def dense(chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray) -> np.ndarray:
    """Solve G^aa q̈ = τ: in absolute angles G_ij = d_i·d_j Σ_{k ≥ max(i, j)} m_k."""
    d = np.diff(x, axis=0, prepend=0.0)
    outboard = np.cumsum(chain.masses[::-1])[::-1]
    last = np.arange(chain.n)
    G = (d @ d.T) * outboard[np.maximum(last[:, None], last)]
    # α_i = θ_1 + … + θ_i
    G = np.cumsum(G[::-1], axis=0)[::-1]
    G = np.cumsum(G[:, ::-1], axis=1)[:, ::-1]
    return linalg.solve(G, torque, assume_a="pos", overwrite_a=True, check_finite=False)


def partition(
    method: str, chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray
) -> np.ndarray:
    return fx.Partition(chain, x).solve(torque, method=method)


def dynamics(chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray) -> np.ndarray:
    return fx.forward_dynamics(chain, x, v, torque=torque).qdd


def dynamics_3d(chain: fx.Chain, x: np.ndarray, v: np.ndarray, force: np.ndarray) -> np.ndarray:
    return fx.forward_dynamics(chain, x, v, force=force).acceleration


# name, system, method, longest chain
METHODS: tuple[tuple[str, Callable[..., State], Callable[..., np.ndarray], int], ...] = (
    ("dense", arm, dense, 3200),
    ("published LU", arm, partial(partition, "lu"), 10**6),
    ("fused partition", arm, partial(partition, "fused"), 10**6),
    ("planar dynamics", arm, dynamics, 10**6),
    ("3-D dynamics", partial(polymer, ("length",)), dynamics_3d, 10**6),
    ("3-D, hard angles", partial(polymer, ("length", "angle")), dynamics_3d, 10**6),
)


def seconds(function: Callable[[], object], budget: float) -> float:
    """Return the shortest of repeated runs: noise only ever adds."""
    function()
    best, end = np.inf, time.perf_counter() + budget
    while best == np.inf or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rng = np.random.default_rng(2005)
    decades = 3 if out.quick else 6
    sizes = [round(10 ** (k / 2)) for k in range(2, 2 * decades + 1)]
    rows, series, exponents = [], {}, {}
    for name, system, method, longest in METHODS:
        used = [n for n in sizes if n <= longest * (0.1 if out.quick else 1)]
        times = []
        for n in used:
            state = system(n, rng)
            times.append(seconds(partial(method, *state), 0.05 if out.quick else 0.5))
        fitted = max(sum(n >= 1000 for n in used), 3)
        slope, _ = np.polyfit(np.log(used[-fitted:]), np.log(times[-fitted:]), 1)
        series[name], exponents[name] = (used, times), float(slope)
        print(
            f"{name:<20} n = {used[-1]:>9,}: {1e3 * times[-1]:9.3f} ms, ~ n^{exponents[name]:.2f}"
        )
        rows += [
            {"method": name, "n": n, "seconds": f"{t:.4g}", "exponent": f"{exponents[name]:.3f}"}
            for n, t in zip(used, times, strict=True)
        ]
    out.write_csv(rows)
    with plot.style():
        fig = plot.figure(aspect=0.85)
        plot.timing(fig.subplots(), series, exponents)
        out.save(fig)


if __name__ == "__main__":
    main()
