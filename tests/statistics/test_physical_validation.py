"""A second opinion: physical_validation (Merz & Shirts 2018) judges runs of ours.

Kinetic energies must follow the gamma law of the degrees of freedom that constraints leave, and
energies at two temperatures the ratio of their Boltzmann factors.  Seeds are fixed.
"""

import importlib
import logging
import warnings
from functools import cache

import numpy as np
import pytest

import fixman as fx
from fixman import observables
from fixman.potentials.energies import WCA, Bending, Gravity, Torsion

pytestmark = [pytest.mark.thorough, pytest.mark.peer]

KT = (1.0, 1.25)
REPLICAS, FRAMES = 512, 8
CASES = {
    "bonds, WCA and bending": (fx.Chain.linear(6), WCA() + Bending(2.0)),
    "plane, fixed, gravity": (
        fx.Chain.linear(10, dim=2, base="fixed"),
        Gravity((0.5, -1.0)) + Bending(1.0),
    ),
    "angles, torsion": (fx.Chain.linear(6, hard=("length", "angle")), Torsion(1.0)),
    "ring, bending": (fx.Chain.ring(6), Bending(2.0)),
}


@pytest.fixture
def pv(peer):
    logging.disable(logging.WARNING)  # pymbar's advice on what it can do without
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if peer("physical_validation"):
            yield importlib.import_module("physical_validation")
    logging.disable(logging.NOTSET)


@cache
def run(name, kT):
    """Replicas that have forgotten where they began, in frames four relaxation times apart."""
    chain, potential = CASES[name]
    dt = 0.02 if "WCA" in name else 0.05
    stepper, every = fx.Langevin(dt, kT=kT, potential=potential), round(4 / dt)
    x0 = fx.random_walks(chain, REPLICAS, rng=1)
    if "WCA" in name:
        x0 = apart(chain, potential, x0)
    return fx.simulate(
        chain, x0, stepper, every * (FRAMES + 12), every=every, rng=round(100 * kT), progress=False
    )[13:]


def apart(chain, potential, x0):
    """Keep the walks whose forces are no larger than beads next to each other have."""
    pull = np.array([np.abs(fx.potentials.bind(chain, potential).force(x)).max() for x in x0])
    good = x0[pull < 30.0]
    assert len(good) > REPLICAS // 8
    return np.resize(good, x0.shape)


def simulation_data(pv, run, kT, potential):
    chain = run.chain
    kinetic = observables.kinetic_energy(chain, run.v).ravel()
    energy = observables.potential_energy(chain, run.x, potential).ravel()
    freedom = observables.degrees_of_freedom(chain)
    return pv.data.SimulationData(
        units=pv.data.UnitData(1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),  # the first is kb
        ensemble=pv.data.EnsembleData("NVT", natoms=chain.n, volume=1.0, temperature=kT),
        system=pv.data.SystemData(
            natoms=chain.n,
            nconstraints=3 * chain.n - freedom,
            ndof_reduction_tra=0,
            ndof_reduction_rot=0,
            mass=chain.masses,
        ),
        observables=pv.data.ObservableData(kinetic, energy, kinetic + energy),
    )


def judged(pv, name, kT):
    return simulation_data(pv, run(name, kT), kT, CASES[name][1])


def deviations(pv, data):
    return pv.kinetic_energy.distribution(
        data, verbosity=0, bootstrap_seed=1, data_is_uncorrelated=True
    )


def p_value(pv, data):
    return pv.kinetic_energy.distribution(data, strict=True, verbosity=0, data_is_uncorrelated=True)


@pytest.mark.parametrize("kT", KT)
@pytest.mark.parametrize("name", CASES)
def test_kinetic_energies(name, kT, pv):
    data = judged(pv, name, kT)
    assert data.observables.kinetic_energy.size == REPLICAS * FRAMES
    assert max(map(abs, deviations(pv, data))) < 4
    assert p_value(pv, data) > 1e-3


def quantiles(pv, one, two, total=False):
    return pv.ensemble.check(
        one, two, total_energy=total, verbosity=0, bootstrap_seed=1, data_is_uncorrelated=True
    )


@pytest.mark.parametrize("name", CASES)
def test_the_ratio_of_two_ensembles(name, pv):
    one, two = (judged(pv, name, kT) for kT in KT)
    assert abs(quantiles(pv, one, two, total=True)[0]) < 4
    if CASES[name][1] is not None:
        assert abs(quantiles(pv, one, two)[0]) < 4
