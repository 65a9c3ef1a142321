"""The speed table of the README: our public calls beside those of other programs, in one run.

    python -m benchmarks [--quick] [--out DIR]

Each row takes turns between the calls of its line, on one core; times are medians.  What is not
installed is left out: Pinocchio (``pip install pin``), Drake, OpenMM.  DIR gets the table
as a CSV file.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import argparse
import csv
import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))  # the scripts beside this one stand alone

import bench_dynamics
import bench_metric
import bench_rigid
import bench_simulation
import numpy as np
from _timing import medians

import fixman as fx

PROGRAMS = {  # distributions and their modules
    "numpy": "numpy",
    "numba": "numba",
    "pin": "pinocchio",
    "drake": "pydrake",
    "openmm": "openmm",
}
Call = Callable[[], object]


class Row(NamedTuple):
    """Seconds of our call and of another program's that answers the question too."""

    question: str
    size: int
    peer: str
    ours: float
    theirs: float

    def __str__(self) -> str:
        """One line of the table."""
        us, them = (rounded(1e6 * seconds) + " µs" for seconds in (self.ours, self.theirs))
        ratio = rounded(self.theirs / self.ours)
        return f"| {self.question} | {self.size} | {us} | {self.peer} | {them} | {ratio} |"


def rounded(value: float) -> str:
    """Write two or more digits."""
    return f"{value:,.0f}" if value >= 10.0 else f"{value:.2g}"


def against(
    question: str, size: int, ours: Call, peers: dict[str, Call], budget: float
) -> list[Row]:
    """Time a call against others in turn."""
    found = medians({"ours": ours, **peers}, budget)
    return [Row(question, size, peer, found["ours"], found[peer]) for peer in peers]


def arms(budget: float) -> Iterator[Row]:
    pin = bench_rigid.peer("pinocchio")
    for n in (10, 100):
        chain, q, qd, torque = bench_dynamics.arm_state(n)
        x, v = chain.cartesian(q, qd)
        inertia = fx.Partition(chain, x).mass_matrix()
        peers: dict[str, Call] = {"NumPy, dense solve": partial(np.linalg.solve, inertia, torque)}
        if pin:
            model = bench_dynamics.pinocchio_model(pin, q[chain.hard], chain.masses)
            theta, rate = q[chain.soft].copy(), qd[chain.soft].copy()
            peers["Pinocchio"] = partial(pin.aba, model, model.createData(), theta, rate, torque)
        ours = partial(bench_dynamics.public_call, chain, x, v, torque)
        yield from against("accelerations of a planar arm", n, ours, peers, budget)
    for n in (7, 30, 100):
        arm, state = bench_rigid.chain(n)
        peers = {"Pinocchio": bench_rigid.pinocchio(pin, arm, state)} if pin else {}
        if drake := bench_rigid.peer("pydrake"):
            peers["Drake"] = bench_rigid.drake(drake, arm, state)
        ours = bench_rigid.ours(arm, state)["articulated body"]
        yield from against("accelerations of a robot arm", n, ours, peers, budget)


def determinants(budget: float) -> Iterator[Row]:
    for n in (100, 1000):
        chain, X = fx.Chain.linear(n), bench_metric.walks(n, 64)
        H = fx.Partition(chain, X[0]).H_bb.toarray()
        for question, ours, dense in (
            ("ln det H^bb of a frame of 64", fx.logdet, partial(np.linalg.slogdet, H)),
            ("Fixman force of a frame of 64", fx.fixman_force,
             partial(bench_metric.dense_force, H, X[0])),
        ):  # fmt: skip
            for row in against(
                question, n, partial(ours, chain, X), {"NumPy, dense": dense}, budget
            ):
                yield row._replace(ours=row.ours / len(X))


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
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the table as CSV")
    arguments = parser.parse_args()
    budget = 0.05 if arguments.quick else 2.0
    print(f"{platform.machine()}, {processor()}; Python {platform.python_version()}", end="")
    for name, module in PROGRAMS.items():
        print(f", {name} {version(name)}" if bench_rigid.peer(module) else "", end="")
    print("\n")
    print("| question | n | fixman | peer | time | ratio |\n|---|---|---|---|---|---|")
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


def processor() -> str:
    """Name the processor as Linux does."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    main()
