"""How fast velocities are forgotten: ⟨V(0)·V(t)⟩ = e^(−γt) ⟨V²⟩ of the centre of mass.

Constraints exert no force on the centre of mass of a free chain, so under Langevin dynamics its
velocity is an Ornstein-Uhlenbeck process, exactly so at any time step.
"""

import numpy as np
import pytest

import fixman as fx
from selection import quick

KT, REPLICAS, TIMES = 0.7, 4096, 20
CHAINS = {
    "bead": fx.Chain.linear(1, hard=()),
    "trimer": fx.Chain.linear(3, masses=[1.0, 2.0, 0.5]),
    "plane": fx.Chain.linear(4, dim=2),
    "rotating": fx.Chain.linear(4, hard=("length", "angle")),
}


def decay(chain, friction, dt, lag):
    """Slope of V(t + lag) on V(t), with its standard error between replicas; and ⟨M V²⟩/kT."""
    stepper = fx.Langevin(dt, kT=KT, friction=friction)
    state = stepper.start(chain, fx.random_walks(chain, REPLICAS, rng=1), None, REPLICAS, 2)
    V = []
    for _ in range(TIMES):
        V.append(np.average(state.v, axis=1, weights=chain.masses))
        stepper.advance(chain, state, lag)
    V = np.array(V)
    products = (V[1:] * V[:-1]).sum(axis=(0, 2))
    squares = (V[:-1] ** 2).sum(axis=(0, 2))
    slope = products.sum() / squares.sum()
    error = (products - slope * squares).std() * np.sqrt(REPLICAS) / squares.sum()
    return slope, error, squares / ((TIMES - 1) * chain.dim) * chain.masses.sum() / KT


@pytest.mark.parametrize(("friction", "dt"), [(1.25, 0.05), (0.5, 0.1)])
@pytest.mark.parametrize("name", quick(CHAINS, "rotating"))
def test_velocities_are_forgotten_at_the_rate_of_the_friction(name, friction, dt):
    lag = round(1 / (friction * dt))
    slope, error, energy = decay(CHAINS[name], friction, dt, lag)
    exact = np.exp(-friction * dt * lag)
    assert error < 0.01 * exact
    assert abs(slope - exact) < 4 * error
    assert abs(energy.mean() - 1.0) < 4 * energy.std() / np.sqrt(REPLICAS)
