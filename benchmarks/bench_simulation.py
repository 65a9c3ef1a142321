"""Steps of constrained dynamics: ratios to OpenMM in one run, and nanoseconds a bead, on one core.

    python benchmarks/bench_simulation.py [--quick]

Needs OpenMM for the ratios.  Its Reference platform, at constraint tolerance 1e-8, runs in this
thread; blocks of its steps and ours take turns, and processor time is counted, which a busy machine
disturbs least.  Freely jointed chains without other forces, dt = 0.02 √(m/kT) a; OpenMM has bonds
of 1 nm, masses of 1 amu and a temperature where kT is 1 kJ/mol.  The Langevin steps of ours include
the Fixman force, which OpenMM's do not.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import itertools
import time
from collections.abc import Callable

import numpy as np
from _timing import is_quick

import fixman as fx
from fixman.potentials.energies import WCA, Bending
from fixman.sampling.random_walks import random_walks

KELVIN = 1 / 0.00831446261815324
DT = 0.02
BLOCKS, FEW = 60, 3  # FEW if quick, and then a tenth of the
WORK = 40_000  # beads times steps of a block of ours
NEWTON = fx.Newton(DT, kT=1.0)
LANGEVIN = fx.Langevin(DT, ensemble="stiff")

Steps = Callable[[], float]


def timed(function: Callable[[int], object], steps: int) -> Steps:
    """Return a function that does so many steps and says how many seconds one took."""

    def block() -> float:
        start = time.thread_time()
        function(steps)
        return (time.thread_time() - start) / steps

    return block


def ours(chain: fx.Chain, stepper: fx.Newton | fx.Langevin, replicas: int, work: int) -> Steps:
    x0 = random_walks(chain, replicas, angles=1.2, rng=1)
    if stepper.potential is not None:  # stretched out, without overlaps
        x0 = np.zeros_like(x0)
        x0[..., 0] = np.cos(0.3) * np.arange(chain.n)
        x0[:, 1::2, 1] = np.sin(0.3)
    state = stepper.start(chain, x0, None, replicas, 1)
    stepper.advance(chain, state, 20)
    steps = max(2, work // (chain.n * max(1, replicas // 4)))
    return timed(lambda count: stepper.advance(chain, state, count), steps)


def theirs(n: int, integrator, work: int) -> Steps:
    import openmm

    system = openmm.System()
    for _ in range(n):
        system.addParticle(1.0)
    for i, j in itertools.pairwise(range(n)):
        system.addConstraint(i, j, 1.0)
    integrator.setConstraintTolerance(1e-8)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(random_walks(fx.Chain.linear(n), rng=1)[0])
    context.setVelocitiesToTemperature(KELVIN, 1)
    integrator.step(20)
    integrator.context = context  # which it does not keep alive
    return timed(integrator.step, max(2, work // (10 * n)))


def interleaved(functions: dict[str, Steps], blocks: int) -> dict[str, np.ndarray]:
    """Return the seconds a step (blocks,) of each, block by block in turn."""
    times = [[function() for function in functions.values()] for _ in range(blocks)]
    return dict(zip(functions, np.array(times).T, strict=True))


def against_openmm(sizes: tuple[int, ...], work: int, blocks: int) -> None:
    try:
        import openmm
    except ImportError:
        print("no comparison with OpenMM: pip install openmm\n")
        return
    print("µs a step (wanted: 4× at 100 and 7× at 1000 for RATTLE, 6× at 100 for Langevin, and")
    print("18× a replica)")
    print(f"{'':>10}{'n':>6}{'OpenMM':>10}{'ours':>10}{'ratio':>9}{'a replica':>12}{'ratio':>9}")
    for name, stepper, make in (
        ("RATTLE", NEWTON, lambda: openmm.VerletIntegrator(DT)),
        ("Langevin", LANGEVIN, lambda: openmm.LangevinMiddleIntegrator(KELVIN, 1.0, DT)),
    ):
        for n in sizes:
            chain = fx.Chain.linear(n)
            found = interleaved(
                {
                    "theirs": theirs(n, make(), work),
                    "one": ours(chain, stepper, 1, work),
                    "eight": ours(chain, stepper, 8, work),
                },
                blocks,
            )
            them, one, replica = found["theirs"], found["one"], found["eight"] / 8
            ratios = np.median(them / one), np.median(them / replica)
            times = (1e6 * np.median(t) for t in (them, one, replica))
            a, b, c = times
            print(
                f"{name:>10}{n:>6}{a:>10.2f}{b:>10.2f}{ratios[0]:>8.1f}×{c:>12.2f}"
                f"{ratios[1]:>8.1f}×",
                flush=True,
            )
    print()


def a_bead(work: int, blocks: int) -> None:
    print("ns a bead and step, n = 100 (wanted: 60 and 15 for RATTLE, 120 and 45 for Langevin, 300")
    print("for bonds and angles)")
    print(f"{'':>26}{'RATTLE':>9}{'replica':>9}{'Langevin':>10}{'replica':>9}")
    combs = [-1, *(k - 1 if k % 2 else max(k - 2, 0) for k in range(1, 100))]
    cases = {
        "bonds": (fx.Chain.linear(100), None),
        "bonds, plane": (fx.Chain.linear(100, dim=2), None),
        "bonds and angles": (fx.Chain.linear(100, hard=("length", "angle")), None),
        "ring": (fx.Chain.ring(100), None),
        "comb": (fx.Chain.branched(combs), None),
        "bonds; bending": (fx.Chain.linear(100), Bending(2.0)),
        "bonds; bending, WCA": (fx.Chain.linear(100), Bending(2.0) + WCA()),
    }
    for name, (chain, potential) in cases.items():
        dt = 0.005 if name.endswith("WCA") else DT
        steppers = (
            fx.Newton(dt, kT=1.0, potential=potential),
            fx.Langevin(dt, ensemble="stiff", potential=potential),
        )
        functions = {
            f"{k} {replicas}": ours(chain, stepper, replicas, work)
            for k, stepper in enumerate(steppers)
            for replicas in (1, 8)
        }
        found = interleaved(functions, blocks)
        row = [1e9 * np.median(t) / 100 / int(key[2:]) for key, t in found.items()]
        print(f"{name:>26}{row[0]:>9.0f}{row[1]:>9.1f}{row[2]:>10.0f}{row[3]:>9.1f}", flush=True)
    print()


def main() -> None:
    quick = is_quick(__doc__)
    work, blocks = (WORK // 10, FEW) if quick else (WORK, BLOCKS)
    against_openmm((10, 100) if quick else (10, 100, 1000), work, blocks)
    a_bead(work, blocks)


if __name__ == "__main__":
    main()
