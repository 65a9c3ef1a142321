"""Alanine dipeptide that turns in rigid waters of particle-mesh Ewald, at 4 and 8 fs.

    python benchmarks/bench_solvent.py [--quick]

Needs OpenMM.  A run without a heat bath has the spread of the total energy beside that of the
kinetic energy.  A Langevin run has the temperatures of the waters' translation and rotation and of
the peptide, with standard errors.  The last line is the share of a step that is not OpenMM's.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import openmm
import openmm.app
from _timing import is_quick

import fixman as fx
from fixman import observables as ob
from fixman.io.openmm import Forces, kT, system

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from dipeptide import kinetic, temperatures, wet_dipeptide

PARTS = "translation", "rotation", "peptide"


def main() -> None:
    quick = is_quick(__doc__ or "")
    warnings.filterwarnings("ignore", "dt=.* is long")
    edge, cutoff, span = (1.5, 0.6, 0.3) if quick else (2.55, 1.0, 24.0)  # nm, nm, ps
    given, x = wet_dipeptide(openmm, edge, cutoff)
    room, forces = system(given), Forces(given, "CPU")
    bath = {"kT": kT(300), "friction": 20.0, "potential": forces}
    warm = fx.simulate(room, x, fx.Langevin(0.004, **bath), 50 if quick else 2000, every=50, rng=1)
    x, v = warm.x[-1], warm.v[-1]
    print(f"{room}: alanine dipeptide in {sum(many for chain, many in room.kinds) - 1} waters")
    for dt in (0.004, 0.008):
        free = fx.simulate(
            room, x, fx.Newton(dt, potential=forces), 3 * round(0.4 / dt), every=3, v0=v
        )
        moving = kinetic(room, free.v[:, 0])
        total = forces.energy(free.x[:, 0]) + moving
        slope = np.polyfit(free.times, total, 1)[0]
        print(f"dt = {1e3 * dt:.0f} fs: energy {np.std(total):.3f} kJ/mol rms in 1.2 ps, "
              f"kinetic {np.std(moving):.1f}; drift {slope:.2f} kJ/mol a ps")  # fmt: skip
        stepper = fx.Langevin(dt, **bath)
        run = fx.simulate(room, x, stepper, 5 * round(span / dt / 5), every=5, v0=v, rng=2)
        found = temperatures(room, forces, run[len(run) // 6 :], dt) * (300 / kT(300))
        means = [ob.mean_with_error(series) for series in found.T]
        print("  temperatures (K): " + ", ".join(
            f"{part} {mean.value:.1f} ± {mean.error:.1f}"
            for part, mean in zip(PARTS, means, strict=True)
        ))  # fmt: skip
        state = stepper.start(room, run.x[-1], run.v[-1], rng=3)
        steps, spent = 5 if quick else 100, np.zeros(2)
        for _ in range(3):
            begin = time.process_time()
            stepper.advance(room, state, steps)
            middle = time.process_time()
            for k in range(steps):
                forces.force(state.x + 1e-6 * k)  # of the same positions they would be kept
            end = time.process_time()
            spent += middle - begin, end - middle
        step, theirs = 1e3 * spent / (3 * steps)
        print(f"  a step {step:.2f} ms of processor time, forces of OpenMM {theirs:.2f} ms, "
              f"own share {step - theirs:.2f} ms = {100 * (1 - theirs / step):.0f} %")  # fmt: skip


if __name__ == "__main__":
    main()
