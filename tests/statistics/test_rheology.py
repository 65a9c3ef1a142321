"""Brownian chains have the viscosities that theory gives them; both stresses agree.

Errors are those between independent replicas, and seeds are fixed.  Numbers in a flow are
extrapolated to dt = 0 from two time steps.
"""

import numpy as np
import pytest

import fixman as fx
from fixman import analytic, rheology

pytestmark = pytest.mark.thorough


def mean(values):
    return values.mean(), values.std(ddof=1) / np.sqrt(values.size)


def sheared(chain, rate, dt, steps, replicas=1024, every=20, settle=200, seed=1, **options):
    """Mean stresses of every replica in shear, Giesekus' and Kramers', (2, replicas, 3, 3)."""
    stepper = fx.Brownian(dt, scheme="midpoint", flow=fx.flows.shear(rate), **options)
    x0 = fx.random_walks(chain, replicas, rng=seed)
    state = stepper.start(chain, x0, None, replicas, seed)
    stepper.advance(chain, state, settle)
    total = np.zeros((2, replicas, 3, 3))
    for _ in range(steps // every):
        stepper.advance(chain, state, every)
        total[0] += rheology.giesekus_stress(chain, state.x, stepper)
        total[1] += rheology.kramers_stress(chain, state.x, stepper)
    return total / (steps // every)


def test_rigid_dumbbell():
    chain, Wi = fx.Chain.linear(2), 3.0
    rate = 12.0 * Wi
    dt, steps = 0.04 / rate, 20_000
    longer = sheared(chain, rate, dt, steps, every=20, settle=500, seed=1)
    shorter = sheared(chain, rate, dt / 2, 2 * steps, every=40, settle=1000, seed=2)
    stress = 2.0 * shorter - longer
    exact = analytic.zero_shear_viscosity(2) * analytic.dumbbell_viscosity(Wi)
    normal = analytic.dumbbell_normal_stress(Wi) / 120.0
    for own, limit in zip(stress, (0.005, 0.008), strict=True):
        value, error = mean(own[:, 0, 1] / rate)
        assert error < limit * exact
        assert abs(value - exact) < 4 * error
        value, error = mean((own[:, 0, 0] - own[:, 1, 1]) / rate**2)
        assert abs(value - normal) < 4 * error
    value, error = mean((stress[0] - stress[1])[:, 0, 1] / rate)
    assert abs(value) < 4 * error


def test_walks_of_ten_and_twenty_beads():
    for beads in (10, 20):
        chain, stepper = fx.Chain.linear(beads), fx.Brownian(0.005, flow=fx.flows.shear(1.0))
        x = fx.random_walks(chain, 400_000, rng=beads)
        stress = rheology.giesekus_stress(chain, x, stepper)
        value, error = mean(stress[:, 0, 1])
        exact = (beads**2 - 1) / 36
        assert error < 0.002 * exact
        assert abs(value - exact) < 4 * error


def test_slow_shear_of_ten_beads():
    # At Wi = 0.1 the viscosity is some 0.4 % below that at rest, less than its error.
    chain = fx.Chain.linear(10)
    exact = analytic.zero_shear_viscosity(10)
    rate = 0.1 / exact
    stress = sheared(chain, rate, 0.005, 8000, 512, settle=500)
    value, error = mean(stress[0, :, 0, 1] / rate)
    assert error < 0.015 * exact
    assert abs(value - exact) < 4 * error
    value, error = mean(stress[0, :, 0, 1] - stress[1, :, 0, 1])
    assert abs(value) < 4 * error


@pytest.mark.parametrize("ensemble", ["mobility", "stiff", "rigid"])
def test_both_stresses_of_uneven_chains_agree(ensemble):
    friction = np.array([1.0, 0.4, 2.0, 0.5, 1.0])
    chain = fx.Chain.linear(5, masses=[1.0, 3.0, 0.5, 3.0, 1.0])
    options = {"friction": friction, "ensemble": ensemble, "kT": 1.3}
    stepper = fx.Brownian(0.0008, scheme="midpoint", flow=fx.flows.shear(5.0), **options)
    state = stepper.start(chain, fx.random_walks(chain, 1024, rng=1), None, 1024, 1)
    stepper.advance(chain, state, 1200)
    apart = 0.0
    for _ in range(300):
        stepper.advance(chain, state, 25)
        apart = apart + rheology.giesekus_stress(chain, state.x, stepper) / 300
        apart -= rheology.kramers_stress(chain, state.x, stepper) / 300
    # The metric forces of another ensemble would be 0.15 kT off in every direction.
    for a, b in ((0, 0), (0, 1), (1, 1), (2, 2)):
        value, error = mean(apart[:, a, b])
        assert error < 0.04
        assert abs(value) < 4 * error


def test_viscosity_by_green_and_kubo():
    chain = fx.Chain.linear(5)
    stepper = fx.Brownian(0.0025, scheme="midpoint")
    state = stepper.start(chain, fx.random_walks(chain, 256, rng=1), None, 256, 1)
    stepper.advance(chain, state, 800)
    stress, at_once = np.empty((3000, 256, 3, 3)), []
    for frame in range(len(stress)):
        stepper.advance(chain, state, 4)
        stress[frame] = rheology.kramers_stress(chain, state.x, stepper)
        if frame % 20 == 0:
            at_once.append(rheology.instantaneous_viscosity(chain, state.x, stepper))
    G = rheology.relaxation_modulus(stress, 0.01, lags=200)
    exact = analytic.zero_shear_viscosity(5)
    value, error = np.mean(at_once) + G.integral[-1], G.integral_error[-1]
    assert error < 0.02 * exact
    assert abs(value - exact) < 4 * error
    # What is there at once is a good part of it, and what begins with 3 kT/5 a rod falls.
    assert 0.1 * exact < np.mean(at_once) < 0.3 * exact
