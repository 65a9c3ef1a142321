"""`fixman demo`: solve, check and time three long chains, and leave figures and numbers behind."""

from __future__ import annotations

import os

# The dense baseline gets one core like everything else.  Too late where NumPy is loaded already;
# the command line loads it here.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import csv
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import fixman as fx
from fixman._common.arrays import Array

Timings = dict[str, tuple[list[int], list[float]]]


def main(out: str | Path | None = None, *, quick: bool = False) -> None:
    """Run the demonstration and print what it finds.

    Parameters
    ----------
    out : str or os.PathLike, optional
        Folder for ``timing.csv`` and the figures; ``fixman-demo`` by default.
    quick : bool
        A tenth of the beads everywhere.

    Raises
    ------
    RuntimeError
        If a check fails.
    """
    start = time.perf_counter()
    folder = Path("fixman-demo" if out is None else out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise NotADirectoryError(f"no folder can be made at {folder}: a file is there") from error
    n = 100 if quick else 1000
    rng = np.random.default_rng(2005)
    report = Report()
    print("Most of a first run is compiling, which later runs need not repeat.\n", flush=True)
    _long_chains(n, rng, report)
    _against_dense(n // 5, rng, report)
    _rigid_links(n, rng, report)
    timings = _timings(n, rng)
    _write_csv(folder / "timing.csv", timings)
    written = ["timing.csv", *_write_figures(folder, timings, rng)]
    print(f"Wrote {', '.join(written)} into the folder {folder.resolve()}")
    if "blocks.png" in written:
        print("blocks.png: dark is large, on each block's own scale of three decades; white is 0.")
    print(f"{report.passed} checks passed in {time.perf_counter() - start:.0f} s.")
    if report.failed:
        raise RuntimeError(f"{report.failed} checks failed: please report this output")


class Report:
    """Prints checks and counts them."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed = 0

    def check(self, what: str, error: float, tolerance: float) -> None:
        """Print how well two answers agree, and whether that is well enough."""
        good = error <= tolerance
        self.passed += good
        self.failed += not good
        verdict = f"agree {f'to {error:.0e}' if error else 'exactly'}"
        print(f"  {what:<66}", verdict if good else f"DISAGREE by {error:.0e}", flush=True)


# --- chains -------------------------------------------------------------------------------------


def _arm(n: int, rng: np.random.Generator) -> tuple[fx.Chain, Array, Array]:
    """Return a planar arm in random motion: angles anywhere, masses from 0.1 to 10."""
    chain = fx.Chain.linear(n, dim=2, base="fixed", masses=10.0 ** rng.uniform(-1, 1, n))
    return (chain, *_move(chain, rng))


def _polymer(n: int, rng: np.random.Generator) -> tuple[fx.Chain, Array, Array]:
    chain = fx.Chain.linear(n)
    return (chain, *_move(chain, rng))


def _move(chain: fx.Chain, rng: np.random.Generator) -> tuple[Array, Array]:
    """Positions and velocities: bonds of length 1, soft coordinates at random."""
    q, qd = np.ones(chain.n * chain.dim), np.zeros(chain.n * chain.dim)
    size = chain.soft.size
    if chain.dim == 2:
        q[chain.soft] = rng.uniform(-np.pi, np.pi, size)
    else:
        q[0::3], q[1::3] = 1.0, np.arccos(rng.uniform(-1, 1, chain.n))
        q[2::3] = rng.uniform(-np.pi, np.pi, chain.n)
    qd[chain.soft] = rng.normal(size=size) / np.sqrt(chain.n)
    return chain.cartesian(q, qd)


def _long_chains(n: int, rng: np.random.Generator, report: Report) -> None:
    for title, (chain, x, v) in (
        (f"A planar arm of {n:,} links with joint torques", _arm(n, rng)),
        (f"A polymer of {n:,} beads in space, bonds rigid, pushed in its angles", _polymer(n, rng)),
    ):
        print(title)
        b = rng.normal(size=chain.soft.size)
        part = fx.Partition(chain, x)
        fused = part.solve(b)
        rest = fx.forward_dynamics(chain, x, 0 * v, torque=b).qdd
        lu = part.solve(b, method="lu")
        report.check("q̈ from rest: published banded LU, fused kernel", _error(lu, fused), 1e-9)
        report.check("q̈ from rest: forward dynamics, fused kernel", _error(rest, fused), 1e-9)
        # In motion the partition needs the velocity terms C(q, q̇), which inverse dynamics gives.
        terms = fx.inverse_dynamics(chain, x, v, np.zeros_like(b))
        moving = fx.forward_dynamics(chain, x, v, torque=b).qdd
        lu = part.solve(b - terms, method="lu")
        report.check("q̈ in motion: forward dynamics, banded LU", _error(lu, moving), 1e-8)
        print()


# --- dense linear algebra ------------------------------------------------------------------------


def _against_dense(n: int, rng: np.random.Generator, report: Report) -> None:
    print(f"Both at n = {n}, against dense linear algebra that knows nothing of partitions")
    for name, (chain, x, _) in {"arm": _arm(n, rng), "polymer": _polymer(n, rng)}.items():
        _check_partition(name, chain, x, rng, report)
    print()


def _check_partition(
    name: str, chain: fx.Chain, x: Array, rng: np.random.Generator, report: Report
) -> None:
    """Check both solves and Fixman's theorem with the dense G^aa = RᵀR."""
    torque = rng.normal(size=chain.soft.size)
    part = fx.Partition(chain, x)
    R = _root(chain, dense_jacobian(chain, x))
    dense = np.asarray(np.linalg.solve(R, np.linalg.solve(R.T, torque)))
    lu = part.solve(torque, method="lu")
    report.check(f"{name}, q̈ from rest: published banded LU, dense", _error(lu, dense), 1e-10)
    fused = part.solve(torque)
    report.check(f"{name}, q̈ from rest: fused kernel, dense", _error(fused, dense), 1e-10)
    mass = 2.0 * float(np.log(np.abs(np.diag(R))).sum())
    report.check(
        f"{name}, determinants: ln(det G · det H^bb), ln det G^aa",
        abs(part.logdet_free + part.logdet_hard - mass),
        1e-10 * chain.n,
    )
    print(
        f"    {part.logdet_free:.10f} + {part.logdet_hard:.10f} = {mass:.10f} "
        f"(condition of G^aa: {np.linalg.cond(R) ** 2:.0e})"
    )


def _root(chain: fx.Chain, J: Array) -> Array:
    """Return R of the dense G^aa = JᵀMJ = RᵀR, by QR of M^½J.

    Forming G^aa would cost the reference half its digits: its condition number grows like n⁴.
    """
    return np.asarray(np.linalg.qr((J * np.sqrt(np.repeat(chain.masses, chain.dim))).T, mode="r"))


def dense_jacobian(chain: fx.Chain, x: Array) -> Array:
    """∂x/∂q of the soft coordinates of a linear chain of rigid bonds, (n_soft, n·dim).

    By rotating what lies beyond each joint about it, which uses nothing of the library.
    """
    n, dim = chain.n, chain.dim
    root = np.zeros(3)
    X = np.zeros((n, 3))
    X[:, :dim] = x
    if chain.base == "free":
        root = X[0]
    ghosts = {-1: root, -2: root - [1.0, 0.0, 0.0], -3: root - [1.0, 1.0, 0.0]}
    J = np.zeros((chain.soft.size, n, 3))
    for row, place in zip(J, chain.soft, strict=True):
        kind, beads = chain.coordinates[place].kind, chain.coordinates[place].beads
        if kind in ("x", "y", "z"):
            row[:, "xyz".index(kind)] = 1.0
            continue
        before, joint, end = (ghosts[k] if k < 0 else X[k] for k in beads[-3:])
        if kind == "torsion":
            axis = joint - before
        else:
            axis = np.cross(joint - before, end - joint) if dim == 3 else np.array([0.0, 0.0, 1.0])
        row[beads[-1] :] = np.cross(axis / np.linalg.norm(axis), X[beads[-1] :] - joint)
    return J[:, :, :dim].reshape(chain.soft.size, n * dim)


def _error(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


# --- rigid links ---------------------------------------------------------------------------------


def _rigid_links(n: int, rng: np.random.Generator, report: Report) -> None:
    print(f"An arm of {n:,} rigid links in space with motors in revolute and prismatic joints")
    rigid = fx.rigid
    arm = rigid.SerialChain.random(n, rng, joints=("revolute", "prismatic"))
    q, qd, torque = rng.normal(size=(3, n))
    loads = {"gravity": (0.0, 0.0, -9.81)}
    algorithms: dict[str, Callable[..., Array]] = {
        "articulated body": rigid.articulated_body.forward_dynamics,
        "partition": rigid.partition.forward_dynamics,
    }
    solves = {
        name: partial(algorithm, arm, q, qd, torque, **loads)
        for name, algorithm in algorithms.items()
    }
    qdd = {name: solve() for name, solve in solves.items()}
    report.check("q̈ in motion: partition, articulated body", _error(*qdd.values()), 1e-11)
    # The torque behind an error of q̈ depends on where it is: what is missing is turned into
    # accelerations, by the other algorithm.
    for name, judge in zip(algorithms, reversed(algorithms.values()), strict=True):
        missing = torque - rigid.newton_euler.inverse_dynamics(arm, q, qd, qdd[name], **loads)
        step = judge(arm, q, np.zeros(n), missing)
        what = f"torques behind it by inverse dynamics, as q̈: {name}"
        report.check(what, _error(step + qdd[name], qdd[name]), 1e-11)
    hard = float(rigid.partition.logdet_hard(arm, q))
    whole = float(rigid.partition.logdet_mass(arm, q))
    pivots = sum(float(np.linalg.slogdet(D)[1]) for D in rigid.articulated_body.pivots(arm, q))
    what = "determinants: ln(Π det M_i · det H^bb), ln Π D_i"
    report.check(what, abs(whole - pivots), 1e-10 * n)
    print(f"    {whole - hard:.10f} + {hard:.10f} = {pivots:.10f}")
    times = ", ".join(f"{name} {1e6 * _seconds(solve):.0f} µs" for name, solve in solves.items())
    print(f"    one q̈: {times}\n", flush=True)


# --- timing --------------------------------------------------------------------------------------


def _dense(chain: fx.Chain, x: Array, v: Array, b: Array) -> Array:
    J = dense_jacobian(chain, x)
    G = (J * np.repeat(chain.masses, chain.dim)) @ J.T
    return np.asarray(np.linalg.solve(G, b), dtype=np.float64)


METHODS: dict[str, Callable[[fx.Chain, Array, Array, Array], Array]] = {
    "dense": _dense,
    "published LU": lambda chain, x, v, b: fx.Partition(chain, x).solve(b, method="lu"),
    "fused partition": lambda chain, x, v, b: fx.Partition(chain, x).solve(b),
    "forward dynamics": lambda chain, x, v, b: fx.forward_dynamics(chain, x, v, torque=b).qdd,
}


def _timings(n: int, rng: np.random.Generator) -> Timings:
    """Seconds for one q̈ of the arm, all set-up included, up to 100 times the long arm's size."""
    timings: Timings = {name: ([], []) for name in METHODS}
    print("Milliseconds for one q̈ of the arm")
    print(f"  {'links':>8}" + "".join(f"{name:>20}" for name in METHODS))
    for size in (n // 100, n // 30, n // 10, n // 3, n, 3 * n, 10 * n, 30 * n, 100 * n):
        chain, x, v = _arm(size, rng)
        b = rng.normal(size=size)
        line = f"  {size:>8,}"
        for name, method in METHODS.items():
            if method is _dense and size > n:
                line += f"{'–':>20}"
                continue
            best = _seconds(partial(method, chain, x, v, b))
            timings[name][0].append(size)
            timings[name][1].append(best)
            line += f"{1e3 * best:>20.3g}"
        print(line, flush=True)
    exponents = [_exponent(*timings[name], longest=3) for name in METHODS]
    print(f"  {'':>8}" + "".join(f"{f'~ n^{exponent:.2f}':>20}" for exponent in exponents))
    print("  Exponents: of the three longest chains; other work on the machine moves them.\n")
    return timings


def _seconds(function: Callable[[], object], budget: float = 0.1) -> float:
    """Return the shortest of repeated runs: noise only ever adds."""
    function()
    best, end = np.inf, time.perf_counter() + budget
    while best == np.inf or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best


def _exponent(n: list[int], t: list[float], longest: int) -> float:
    return float(np.polyfit(np.log(n[-longest:]), np.log(t[-longest:]), 1)[0])


# --- files ---------------------------------------------------------------------------------------


def _write_csv(path: Path, timings: Timings) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "links", "seconds"])
        for name, (sizes, times) in timings.items():
            writer.writerows([name, size, f"{t:.4g}"] for size, t in zip(sizes, times, strict=True))


def _write_figures(folder: Path, timings: Timings, rng: np.random.Generator) -> list[str]:
    try:
        from fixman.analysis import plot
    except ImportError as error:
        print(f"No figures: {error}")
        return []
    arm, x, _ = _arm(16, rng)
    polymer, y, _ = _polymer(12, rng)
    with plot.style():
        fig = plot.figure()
        exponents = {name: _exponent(*series, longest=3) for name, series in timings.items()}
        plot.timing(fig.subplots(), timings, exponents)
        fig.savefig(folder / "timing.png")
        fig = plot.figure(aspect=0.58)
        left, right = fig.subplots(1, 2)
        plot.blocks(left, fx.Partition(arm, x)).set_title(f"planar arm, {arm.n} links")
        plot.blocks(right, fx.Partition(polymer, y)).set_title(f"polymer, {polymer.n} beads")
        fig.savefig(folder / "blocks.png")
    return ["timing.png", "blocks.png"]
