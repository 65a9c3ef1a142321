"""Figure 2 of Lee & Chirikjian (2005), continued: time against the number of links.

Every time includes all work from positions to q̈ (in space: to accelerations and tensions), on one
core.  The dense baselines are strong ones: of point masses O(n²) assembly of G^aa, then Cholesky;
of rigid bodies composite bodies, then Cholesky.  Exponents are fitted from n = 1000 on, and to
three points at least; ``--quick``, whose chains are shorter, fits none.

The second panel has arms of rigid bodies with revolute and prismatic joints in random directions,
moving and in gravity.  The refined partition is in the table only.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from _output import Output, panels, plot
from scipy import linalg

import fixman as fx
from fixman.rigid import (
    SerialChain,
    articulated_body,
    composite_body,
    denoc,
    spatial_operators,
)
from fixman.rigid import (
    partition as rigid_partition,
)

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


Rigid = tuple[SerialChain, np.ndarray, np.ndarray, np.ndarray]


def bodies(n: int, rng: np.random.Generator) -> Rigid:
    """Return a random arm of rigid bodies, its motion and joint forces."""
    arm = SerialChain.random(n, rng, joints=("revolute", "prismatic"))
    return (arm, *rng.normal(size=(3, n)))


def falling(algorithm: Callable[..., np.ndarray], **options: object) -> Callable[..., np.ndarray]:
    return partial(algorithm, gravity=(0.0, 0.0, -9.81), **options)


# name, system, method, longest chain
Method = tuple[str, Callable[..., State | Rigid], Callable[..., np.ndarray], int]
POINT_MASSES: tuple[Method, ...] = (
    ("dense", arm, dense, 3200),
    ("published LU", arm, partial(partition, "lu"), 10**6),
    ("fused partition", arm, partial(partition, "fused"), 10**6),
    ("planar dynamics", arm, dynamics, 10**6),
    ("3-D dynamics", partial(polymer, ("length",)), dynamics_3d, 10**6),
    ("3-D, hard angles", partial(polymer, ("length", "angle")), dynamics_3d, 10**6),
)
fd = spatial_operators.forward_dynamics
RIGID_BODIES: tuple[Method, ...] = (
    ("articulated body", bodies, falling(articulated_body.forward_dynamics), 10**5),
    ("FD3", bodies, falling(fd, method="fd3"), 10**5),
    ("FD1", bodies, falling(fd, method="fd1"), 10**5),
    ("Saha", bodies, falling(denoc.forward_dynamics), 10**5),
    ("partition", bodies, falling(rigid_partition.forward_dynamics), 10**5),
    ("composite", bodies, falling(composite_body.forward_dynamics), 3200),
    ("partition, refine=1", bodies, falling(rigid_partition.forward_dynamics, refine=1), 10**5),
)
UNSEEN = ("partition, refine=1",)  # not drawn


def seconds(function: Callable[[], object], budget: float) -> float:
    """Return the shortest of repeated runs: noise only ever adds."""
    function()
    best, end = np.inf, time.perf_counter() + budget
    while best == np.inf or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def measure(
    methods: tuple[Method, ...], quick: bool
) -> tuple[dict[str, tuple[list[int], list[float]]], dict[str, float]]:
    """Return the times of each method and, unless quick, their exponents."""
    rng = np.random.default_rng(2005)
    decades = 3 if quick else 6
    sizes = [round(10 ** (k / 2)) for k in range(2, 2 * decades + 1)]
    series, exponents = {}, {}
    for name, system, method, longest in methods:
        used = [n for n in sizes if n <= longest * (0.1 if quick else 1)]
        times = []
        for n in used:
            state = system(n, rng)
            times.append(seconds(partial(method, *state), 0.05 if quick else 0.5))
        series[name] = used, times
        line = f"{name:<20} n = {used[-1]:>9,}: {1e3 * times[-1]:9.3f} ms"
        if not quick:
            fitted = max(sum(n >= 1000 for n in used), 3)
            slope, _ = np.polyfit(np.log(used[-fitted:]), np.log(times[-fitted:]), 1)
            exponents[name] = float(slope)
            line += f", ~ n^{slope:.2f}"
        print(line)
    return series, exponents


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    measured = {
        "point masses": measure(POINT_MASSES, out.quick),
        "rigid bodies": measure(RIGID_BODIES, out.quick),
    }
    out.write_csv(
        {
            "links": links,
            "method": name,
            "n": n,
            "seconds": f"{t:.4g}",
            "exponent": f"{exponents[name]:.3f}" if exponents else "",
        }
        for links, (series, exponents) in measured.items()
        for name, (sizes, times) in series.items()
        for n, t in zip(sizes, times, strict=True)
    )
    with plot.style():
        fig, axes = panels("A solve takes time in proportion to n; a dense one grows faster", 1, 2)
        for ax, (links, (series, exponents)) in zip(axes, measured.items(), strict=True):
            drawn = {name: values for name, values in series.items() if name not in UNSEEN}
            plot.timing(ax, drawn, exponents).get_legend().set_title(links)
            ax.set_xlabel("number of links  $n$")
        out.save(fig)


if __name__ == "__main__":
    main()
