"""The speed table of the README: our public calls beside those of other programs, in one run.

    python -m benchmarks [--quick] [--out DIR]

Each row takes turns between the calls of its line, on one core; times are medians.  A peer that is
not installed is left out: Pinocchio (``pip install pin``), Drake, OpenMM.  A peer that raises an
error, or wants more than 8 GB, is shown as failing.  The limit is the time of the pivots
d_k = a_k − b_k²/d_(k−1) alone, which every elimination of the bonds of a chain computes.  DIR gets
the table as a CSV file and as a figure.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import argparse
import csv
import math
import platform
import resource
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))  # the scripts beside this one stand alone

import bench_dynamics
import bench_metric
import bench_rigid
import bench_simulation
import numpy as np
from _timing import medians
from bench_scaling import pivots

import fixman as fx
from fixman.analysis import plot

PROGRAMS = {  # distributions and their modules
    "numpy": "numpy",
    "numba": "numba",
    "pin": "pinocchio",
    "drake": "pydrake",
    "openmm": "openmm",
}
MEMORY = 8 << 30  # bytes of address space beyond that at the start
Call = Callable[[], object]


class Row(NamedTuple):
    """Seconds of our call and of another program's that answers the question too.

    ``theirs`` is infinite where the program fails, and ``limit`` NaN where none is known.
    """

    question: str
    size: int
    peer: str
    ours: float
    theirs: float
    limit: float = math.nan

    def __str__(self) -> str:
        """One line of the table."""
        us, them, limit = (micro(seconds) for seconds in (self.ours, self.theirs, self.limit))
        ratio = rounded(self.theirs / self.ours) if math.isfinite(self.theirs) else ""
        return (
            f"| {self.question} | {self.size} | {us} | {limit} | {self.peer} | {them} | {ratio} |"
        )


def micro(seconds: float) -> str:
    """Write microseconds, and in words where there are none."""
    if math.isnan(seconds):
        return ""
    return rounded(1e6 * seconds) + " µs" if math.isfinite(seconds) else "fails"


def rounded(value: float) -> str:
    """Write two or more digits."""
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def against(
    question: str, size: int, ours: Call, makers: dict[str, Callable[[], Call]], budget: float,
    frames: int = 0,
) -> list[Row]:  # fmt: skip
    """Time a call against others in turn; and against pivots of so many frames, if any."""
    calls, failed = {"ours": ours}, []
    for peer, make in makers.items():
        try:
            call = make()
            call()
            calls[peer] = call
        except (MemoryError, RuntimeError) as error:
            failed.append(peer)
            print(f"{peer}, n = {size}: {type(error).__name__}: {error}", file=sys.stderr)
    if frames:
        a, b = np.full((size, frames), 2.0), np.full((size, frames), 0.5)
        calls["limit"] = partial(pivots, a, b, np.empty(frames))
    found = medians(calls, budget)
    rest = found["ours"], dict.fromkeys(failed, math.inf) | found, found.get("limit", math.nan)
    return [Row(question, size, peer, rest[0], rest[1][peer], rest[2]) for peer in makers]


def arms(budget: float) -> Iterator[Row]:
    pin, drake = bench_rigid.peer("pinocchio"), bench_rigid.peer("pydrake")
    for n in (10, 100, 1000):
        chain, q, qd, torque = bench_dynamics.arm_state(n)
        x, v = chain.cartesian(q, qd)
        inertia = fx.Partition(chain, x).mass_matrix()
        peers: dict[str, Callable[[], Call]] = {
            "NumPy, dense solve": lambda M=inertia, f=torque: partial(np.linalg.solve, M, f)
        }
        if pin:
            peers["Pinocchio"] = partial(planar_pinocchio, pin, chain, q, qd, torque)
        ours = partial(bench_dynamics.public_call, chain, x, v, torque)
        yield from against("accelerations of a planar arm", n, ours, peers, budget, frames=1)
    for n in (7, 30, 100, 1000):
        arm, state = bench_rigid.chain(n)
        peers = {}
        if pin:
            peers["Pinocchio"] = partial(bench_rigid.pinocchio, pin, arm, state)
        if drake:
            peers["Drake"] = partial(bench_rigid.drake, drake, arm, state)
        ours = bench_rigid.ours(arm, state)["articulated body"]
        yield from against("accelerations of a robot arm", n, ours, peers, budget)


def planar_pinocchio(
    pin: ModuleType, chain: fx.Chain, q: np.ndarray, qd: np.ndarray, torque: np.ndarray
) -> Call:
    model = bench_dynamics.pinocchio_model(pin, q[chain.hard], chain.masses)
    theta, rate = q[chain.soft].copy(), qd[chain.soft].copy()
    return partial(pin.aba, model, model.createData(), theta, rate, torque)


def determinants(budget: float) -> Iterator[Row]:
    frames = 64
    for n in (100, 1000):
        chain, X = fx.Chain.linear(n), bench_metric.walks(n, frames)
        H = fx.Partition(chain, X[0]).H_bb.toarray()
        for question, ours, dense in (
            ("ln det H^bb of a frame of 64", fx.logdet, partial(np.linalg.slogdet, H)),
            ("Fixman force of a frame of 64", fx.fixman_force,
             partial(bench_metric.dense_force, H, X[0])),
        ):  # fmt: skip
            peers = {"NumPy, dense": lambda call=dense: call}
            call = partial(ours, chain, X)
            for row in against(question, n, call, peers, budget, frames):
                yield row._replace(ours=row.ours / frames, limit=row.limit / frames)


def steps(quick: bool) -> Iterator[Row]:
    if not bench_rigid.peer("openmm"):
        return
    import openmm

    work = bench_simulation.WORK // (10 if quick else 1)
    blocks = bench_simulation.FEW if quick else bench_simulation.BLOCKS
    dt, kelvin = bench_simulation.DT, bench_simulation.KELVIN
    for name, stepper, make in (
        ("RATTLE", bench_simulation.NEWTON, lambda: openmm.VerletIntegrator(dt)),
        ("Langevin", bench_simulation.LANGEVIN,
         lambda: openmm.LangevinMiddleIntegrator(kelvin, 1.0, dt)),
    ):  # fmt: skip
        for n in (100, 1000):
            found = bench_simulation.interleaved(
                {
                    "theirs": bench_simulation.theirs(n, make(), work),
                    "ours": bench_simulation.ours(fx.Chain.linear(n), stepper, 8, work),
                },
                blocks,
            )
            us, them = float(np.median(found["ours"])) / 8, float(np.median(found["theirs"]))
            yield Row(f"{name} step, one of 8 replicas", n, "OpenMM, Reference", us, them)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, rough numbers")
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the CSV and the PNG")
    arguments = parser.parse_args()
    budget = 0.05 if arguments.quick else 2.0
    print(f"{platform.machine()}, {processor()}; Python {platform.python_version()}", end="")
    for name, module in PROGRAMS.items():
        print(f", {name} {version(name)}" if bench_rigid.peer(module) else "", end="")
    print("\n")
    print("| question | n | fixman | limit | peer | time | ratio |\n|---|---|---|---|---|---|---|")
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, -1))
    rows = []
    for part in (arms(budget), determinants(budget), steps(arguments.quick)):
        for row in part:
            print(row, flush=True)
            rows.append(row)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        with (arguments.out / "benchmarks.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Row._fields)
            writer.writerows(rows)
        draw(rows, arguments.out / "benchmarks.png")


def draw(rows: list[Row], path: Path) -> None:
    """Draw how many times as long each peer takes."""
    shown = [row for row in rows if math.isfinite(row.theirs)][::-1]
    peers = list(dict.fromkeys(row.peer for row in rows))
    with plot.style():
        fig = plot.figure(columns=2, aspect=0.03 * len(shown) + 0.1)
        ax = fig.subplots()
        for at, row in enumerate(shown):
            ratio, color = row.theirs / row.ours, plot.PALETTE[peers.index(row.peer)]
            ax.barh(at, ratio - 1.0, left=1.0, color=color, height=0.7)
            side = "left" if ratio >= 1.0 else "right"
            ax.annotate(f" {rounded(ratio)} ", (ratio, at), ha=side, va="center", size=7)
        labels = [f"{row.question}, n = {row.size}: {row.peer}" for row in shown]
        ax.set_yticks(range(len(shown)), labels)
        ax.axvline(1.0, color="0.4", linewidth=0.8)
        ax.set_xscale("log")
        ax.margins(x=0.1)
        ax.set_xlabel("time of the peer over time of fixman")
        fig.savefig(path)


def processor() -> str:
    """Name the processor as Linux does."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    main()
