"""What OpenMM samples with constraints, without and with the Fixman force.

Many chains that do not interact share one System, so that errors come from independent chains and
one call a step serves all of them.  The time step is 0.04 τ, τ = a √(m/kT), which biases ⟨cos²⟩ by
−0.1 dt² ≈ −0.00016 (measured at 0.1 τ, where it is −0.001); beyond 0.1 τ OpenMM loses constraints.
"""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import fixman as fx
from fixman import analytic

pytestmark = pytest.mark.thorough

KELVIN = 300.0
KT = 8.31446261815324e-3 * KELVIN
MASS, BOND = 12.0, 0.15  # amu, nm
TAU = BOND * np.sqrt(MASS / KT)  # ps
DT = 0.04  # τ


def sampled_cosines(mm, n, chains, time, corrected, seed):
    """Yield the bending cosines (chains, n − 2) of freely jointed chains, once a τ.

    The chains start with bends of 90° each, which neither ensemble has, and get 20 τ to forget it.
    """
    from fixman.io.openmm import metric_force, set_temperature

    system = mm.System()
    for _ in range(chains * n):
        system.addParticle(MASS)
    for chain in range(chains):
        for i, j in itertools.pairwise(range(chain * n, chain * n + n)):
            system.addConstraint(i, j, BOND)
    if corrected:
        system.addForce(metric_force(system))
    integrator = mm.LangevinMiddleIntegrator(KELVIN, 1 / TAU, DT * TAU)
    integrator.setConstraintTolerance(1e-8)
    integrator.setRandomNumberSeed(seed)
    platform = mm.Platform.getPlatformByName("Reference")
    context = mm.Context(system, integrator, platform)
    if corrected:
        set_temperature(context)
    staircase = np.cumsum(BOND * np.eye(3)[np.arange(n) % 3], axis=0)
    context.setPositions(np.tile(staircase, (chains, 1)))
    context.setVelocitiesToTemperature(KELVIN, seed)
    integrator.step(round(20 / DT))
    for _ in range(time):
        integrator.step(round(1 / DT))
        x = context.getState(positions=True).getPositions(asNumpy=True)._value
        u = np.diff(x.reshape(chains, n, 3), axis=1)
        u /= np.linalg.norm(u, axis=2, keepdims=True)
        yield np.einsum("cbk,cbk->cb", u[:, 1:], u[:, :-1])


def mean_and_error(values):
    """Mean over independent chains (chains, ...), and its standard error."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize(("ensemble", "exact"), [("rigid", 0.321021), ("stiff", 1 / 3)])
def test_trimers(mm, ensemble, exact):
    corrected = ensemble == "stiff"
    frames = sampled_cosines(mm, 3, chains=1000, time=150, corrected=corrected, seed=11)
    c = np.concatenate(list(frames), axis=1)
    mean, error = mean_and_error((c**2).mean(axis=1))
    assert error < 0.0012  # a tenth of what tells the ensembles apart
    assert abs(mean - exact) < 4 * error
    edges = np.linspace(-1, 1, 9)
    share, share_error = shares(c, edges)
    below = 1 - analytic.trimer_cumulative(np.arccos(edges), ensemble=ensemble)
    assert np.all(np.abs(share - np.diff(below)) < 4 * share_error)


def shares(c, edges):
    """Histogram of cosines (chains, samples), with errors from independent chains."""
    place = np.clip(np.digitize(c, edges), 1, edges.size - 1)
    return mean_and_error(
        np.stack([(place == k).mean(axis=1) for k in range(1, edges.size)], axis=1)
    )


@pytest.mark.parametrize("corrected", [False, True])
def test_bends_of_a_freely_jointed_chain(mm, corrected):
    n, chains = 20, 150
    frames = sampled_cosines(mm, n, chains, time=50, corrected=corrected, seed=12)
    c = np.concatenate(list(frames), axis=1)
    mean, error = mean_and_error((c**2).mean(axis=1))
    exact = 1 / 3 if corrected else analytic.mean_square_cosines(n - 1).mean()
    assert error < 0.0013  # they are 0.0155 apart: 12 σ
    assert abs(mean - exact) < 4 * error
    share, share_error = shares(c, np.linspace(-1, 1, 11))
    if corrected:  # cosines are uniform
        assert np.all(np.abs(share - 0.1) < 4 * share_error)
    else:
        assert share[[0, -1]].max() < 0.1 < share[[4, 5]].min()


KELVINS = (300.0, 600.0)


def tempered_trimers(mm, chains, steps, time, seed):
    """Bends of trimers of masses 1 : 0.01 : 1 between two temperatures, ``steps`` to a τ of 300 K.

    Returns the number of the temperature and cos² θ (chains,) of every frame, two a τ.  The chains
    start in the stiff ensemble and get 4 τ to leave it.
    """
    from fixman.io.openmm import metric_force, set_temperature

    app = mm.app
    system, topology = mm.System(), app.Topology()
    molecules = topology.addChain()
    for first in range(0, 3 * chains, 3):
        residue = topology.addResidue("TRI", molecules)
        for mass in (1.0, 0.01, 1.0):
            system.addParticle(mass)
            topology.addAtom("X", None, residue)
        system.addConstraint(first, first + 1, BOND)
        system.addConstraint(first + 1, first + 2, BOND)
    system.addForce(metric_force(system))
    tau = BOND / np.sqrt(KT)
    integrator = mm.LangevinMiddleIntegrator(KELVINS[0], 1 / tau, tau / steps)
    integrator.setConstraintTolerance(1e-8)
    integrator.setRandomNumberSeed(seed)
    platform = mm.Platform.getPlatformByName("Reference")
    simulation = app.Simulation(topology, system, integrator, platform)
    set_temperature(simulation.context)
    x = fx.random_walks(fx.Chain.linear(3), chains, lengths=BOND, rng=seed)
    simulation.context.setPositions(x.reshape(-1, 3))
    simulation.context.setVelocitiesToTemperature(KELVINS[0], seed)
    states = [{"temperature": T * mm.unit.kelvin, "FixmanTemperature": T} for T in KELVINS]
    sampler = app.ExpandedEnsembleSampler(states, simulation, steps // 8, weights=[0.0, 0.0])
    simulation.step(4 * steps)
    for _ in range(2 * time):
        simulation.step(steps // 2)
        x = simulation.context.getState(positions=True).getPositions(asNumpy=True)._value
        u = np.diff(x.reshape(chains, 3, 3), axis=1)
        cosines = np.einsum("ca,ca->c", u[:, 0], u[:, 1])
        yield sampler.currentStateIndex, cosines**2 / (u**2).sum(axis=2).prod(axis=1)


def test_tempering(mm):
    """Both temperatures of simulated tempering sample the stiff ensemble.

    Rigid, ⟨cos² θ⟩ is 0.254.  The light bead wants short steps: τ/400 gives 0.35 at both.
    """
    random.seed(31)  # of the sampler
    np.random.seed(31)  # noqa: NPY002
    frames = list(tempered_trimers(mm, chains=250, steps=800, time=14, seed=31))
    for k, kelvin in enumerate(KELVINS):
        squares = np.array([square for state, square in frames if state == k])
        mean, error = mean_and_error(squares.mean(axis=0))
        print(f"{kelvin:g} K: {mean:.4f} ± {error:.4f} of {len(squares)} frames")
        assert error < 7e-3  # rigid and stiff are 0.08 apart: 11 σ
        assert abs(mean - 1 / 3) < 4 * error
