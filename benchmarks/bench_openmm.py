"""A step of constrained Langevin dynamics in OpenMM, without and with the Fixman force.

    python benchmarks/bench_openmm.py [--quick]

Needs OpenMM.  Blocks of steps of the two systems in turn; medians.  The Reference platform runs in
this thread, so that its processor time is counted, which a busy machine disturbs least; the CPU
platform is timed by the clock.  Reduced units: bonds of 1 nm, masses of 1 amu at a temperature
where kT is 1 kJ/mol; dt is 0.02 τ.  Springs between second neighbours give the constraint solver
forces to work against in both systems.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import openmm
from _timing import is_quick, medians
from openmm import unit

import fixman as fx
from fixman.io.openmm import metric_force, set_temperature

GAS_CONSTANT = unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole / unit.kelvin)
KELVIN = 1 / GAS_CONSTANT
RNG = np.random.default_rng(8)


def integrator_of(n: int, copies: int, platform: str, corrected: bool) -> tuple[Any, Any]:
    """Return the integrator and the Context of freely jointed chains that do not interact."""
    system = openmm.System()
    for _ in range(n * copies):
        system.addParticle(1.0)
    for copy in range(copies):
        for i, j in itertools.pairwise(range(copy * n, copy * n + n)):
            system.addConstraint(i, j, 1.0)
    springs = openmm.HarmonicBondForce()
    for copy in range(copies):
        for i in range(copy * n, copy * n + n - 2):
            springs.addBond(i, i + 2, 1.4, 2.0)
    system.addForce(springs)
    if corrected:
        system.addForce(metric_force(system))
    integrator = openmm.LangevinMiddleIntegrator(KELVIN, 1.0, 0.02)
    integrator.setConstraintTolerance(1e-6)
    integrator.setRandomNumberSeed(1)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform))
    if corrected:
        set_temperature(context)
    u = RNG.normal(size=(copies, n, 3))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    context.setPositions(np.cumsum(u, axis=1).reshape(-1, 3))
    context.setVelocitiesToTemperature(KELVIN, 1)
    integrator.step(100)
    return integrator, context


def seconds(clock: Callable[[], float], function: Any, *arguments: Any) -> float:
    start = clock()
    function(*arguments)
    return clock() - start


def main() -> None:
    quick = is_quick(__doc__)
    cases = ((1, 10), (100, 3)) if quick else ((1, 10), (1, 100), (1, 1000), (1000, 3), (100, 20))
    print("µs per step; ours is fx.fixman_potential and fx.fixman_force, the rest is OpenMM's call")
    print(f"{'platform':>10}{'chains':>8}{'n':>6}{'without':>10}{'overhead':>10}{'of it ours':>12}")
    for platform, clock in (("Reference", time.thread_time), ("CPU", time.perf_counter)):
        for copies, n in cases:
            bare, corrected = (integrator_of(n, copies, platform, flag) for flag in (False, True))
            steps = max(1, (500 if quick else 20_000) // (n * copies))
            blocks = np.array(
                [(seconds(clock, bare[0].step, steps), seconds(clock, corrected[0].step, steps))
                 for _ in range(3 if quick else 100)]
            )  # fmt: skip
            without = 1e6 * np.median(blocks[:, 0]) / steps
            overhead = 1e6 * np.median(blocks[:, 1] - blocks[:, 0]) / steps
            x = corrected[1].getState(positions=True).getPositions(asNumpy=True)._value
            chain, x = fx.Chain.linear(n), x.reshape(copies, n, 3)
            ours = 1e6 * sum(
                medians(
                    {
                        "energy": partial(fx.fixman_potential, chain, x),
                        "force": partial(fx.fixman_force, chain, x),
                    },
                    budget=0.05 if quick else 0.5,
                ).values()
            )
            print(f"{platform:>10}{copies:>8}{n:>6}{without:>10.1f}{overhead:>10.1f}"
                  f"{ours:>12.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
