"""A step of constrained Langevin dynamics in OpenMM, without and with the Fixman force.

    python benchmarks/bench_openmm.py [--quick]

Needs OpenMM.  Blocks of steps of the two systems in turn; medians.  The Reference platform runs in
this thread, so that its processor time is counted, which a busy machine disturbs least; the CPU
platform is timed by the clock.  Reduced units: bonds of 1 nm, masses of 1 amu at a temperature
where kT is 1 kJ/mol; dt is 0.02 τ.  Springs between second neighbours give the constraint solver
forces to work against in both systems.  The last rows are one chain among others: particles without
a constraint or a force, and rigid waters of particle-mesh Ewald, with a tenth of dt.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import openmm
from _timing import is_quick, medians
from openmm import app, unit

import fixman as fx
from fixman.io.openmm import metric_force, set_temperature

GAS_CONSTANT = unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole / unit.kelvin)
KELVIN = 1 / GAS_CONSTANT
RNG = np.random.default_rng(8)


class Case(NamedTuple):
    """Chains that do not interact, and what is beside them."""

    copies: int
    n: int
    others: int = 0
    waters: int = 0


def integrator_of(case: Case, platform: str, corrected: bool) -> tuple[Any, Any]:
    """Return the integrator and the Context of freely jointed chains that do not interact."""
    copies, n, others, waters = case
    system = openmm.System()
    for _ in range(n * copies + others):
        system.addParticle(1.0)
    for copy in range(copies):
        for i, j in itertools.pairwise(range(copy * n, copy * n + n)):
            system.addConstraint(i, j, 1.0)
    springs = openmm.HarmonicBondForce()
    for copy in range(copies):
        for i in range(copy * n, copy * n + n - 2):
            springs.addBond(i, i + 2, 1.4, 2.0)
    system.addForce(springs)
    beside = np.zeros((others, 3))
    if waters:
        beside = np.concatenate([beside, add_waters(system, waters)])
    if corrected:
        system.addForce(metric_force(system))
    integrator = openmm.LangevinMiddleIntegrator(KELVIN, 1.0, 0.002 if waters else 0.02)
    integrator.setConstraintTolerance(1e-6)
    integrator.setRandomNumberSeed(1)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform))
    if corrected:
        set_temperature(context)
    u = RNG.normal(size=(copies, n, 3))
    u /= np.linalg.norm(u, axis=2, keepdims=True)
    context.setPositions(np.concatenate([np.cumsum(u, axis=1).reshape(-1, 3), beside]))
    context.setVelocitiesToTemperature(KELVIN, 1)
    integrator.step(100)
    return integrator, context


def add_waters(system: Any, waters: int) -> Any:
    """Put rigid waters of particle-mesh Ewald into a System; return their positions."""
    field = app.ForceField("amber14/tip3p.xml")
    edge = (waters / 33.4) ** (1 / 3)
    modeller = app.Modeller(app.Topology(), [] * unit.nanometer)
    modeller.addSolvent(field, boxSize=openmm.Vec3(edge, edge, edge) * unit.nanometer)
    box = field.createSystem(modeller.topology, nonbondedMethod=app.PME,
                             nonbondedCutoff=0.45 * edge * unit.nanometer)  # fmt: skip
    first, size = system.getNumParticles(), box.getNumParticles()
    forces = openmm.NonbondedForce()
    given = next(force for force in box.getForces() if isinstance(force, openmm.NonbondedForce))
    forces.setNonbondedMethod(openmm.NonbondedForce.PME)
    forces.setCutoffDistance(given.getCutoffDistance())
    for _ in range(first):
        forces.addParticle(0.0, 0.1, 0.0)
    for k in range(size):
        system.addParticle(box.getParticleMass(k))
        forces.addParticle(*given.getParticleParameters(k))
    for k in range(given.getNumExceptions()):
        i, j, *parameters = given.getExceptionParameters(k)
        forces.addException(first + i, first + j, *parameters)
    for k in range(box.getNumConstraints()):
        i, j, distance = box.getConstraintParameters(k)
        system.addConstraint(first + i, first + j, distance)
    system.addForce(forces)
    system.setDefaultPeriodicBoxVectors(*box.getDefaultPeriodicBoxVectors())
    return modeller.positions.value_in_unit(unit.nanometer)


def seconds(clock: Callable[[], float], function: Any, *arguments: Any) -> float:
    start = clock()
    function(*arguments)
    return clock() - start


def main() -> None:
    quick = is_quick(__doc__)
    cases = [Case(1, 10), Case(100, 3)] if quick else [Case(1, 10), Case(1, 100), Case(1, 1000),
             Case(1000, 3), Case(100, 20), Case(1, 100, 600), Case(1, 100, 3400),
             Case(1, 100, 0, 400)]  # fmt: skip
    print("µs per step; ours is fx.fixman_potential and fx.fixman_force, the rest is OpenMM's call")
    print(f"{'platform':>10}{'chains':>8}{'n':>6}{'others':>8}{'waters':>8}{'without':>10}"
          f"{'overhead':>10}{'of it ours':>12}")  # fmt: skip
    for platform, clock in (("Reference", time.thread_time), ("CPU", time.perf_counter)):
        for case in cases:
            copies, n = case.copies, case.n
            bare, corrected = (integrator_of(case, platform, flag) for flag in (False, True))
            steps = max(1, (500 if quick else 20_000) // (n * copies + 50 * case.waters))
            blocks = np.array(
                [(seconds(clock, bare[0].step, steps), seconds(clock, corrected[0].step, steps))
                 for _ in range(3 if quick else 100)]
            )  # fmt: skip
            without = 1e6 * np.median(blocks[:, 0]) / steps
            overhead = 1e6 * np.median(blocks[:, 1] - blocks[:, 0]) / steps
            x = corrected[1].getState(positions=True).getPositions(asNumpy=True)._value
            chain, x = fx.Chain.linear(n), x[: copies * n].reshape(copies, n, 3)
            ours = 1e6 * sum(
                medians(
                    {
                        "energy": partial(fx.fixman_potential, chain, x),
                        "force": partial(fx.fixman_force, chain, x),
                    },
                    budget=0.05 if quick else 0.5,
                ).values()
            )
            print(f"{platform:>10}{copies:>8}{n:>6}{case.others:>8}{case.waters:>8}{without:>10.1f}"
                  f"{overhead:>10.1f}{ours:>12.1f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
