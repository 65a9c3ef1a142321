"""Langevin dynamics samples the ensemble that it was asked for: averages against exact numbers.

Errors are those between independent replicas, seeds are fixed, dt is 0.1 or less; what dt makes
wrong (about −0.02 dt² of a trimer's ⟨c²⟩, −0.04 dt² with the Fixman force) is below the errors.
"""

import numpy as np
import pytest
from scipy import stats

import fixman as fx
from fixman.potentials.energies import Bending
from fixman.sampling.random_walks import random_walks
from fixman.simulation.steppers import Langevin, Newton

pytestmark = pytest.mark.thorough

RIGID_TRIMER = (2 * np.pi / 3 - np.sqrt(3) / 2) / (2 * np.pi / 3 + np.sqrt(3))  # ⟨c²⟩, 0.321021


def sample(chain, stepper, observable, steps, replicas=512, every=20, relax=400, **options):
    """Mean of an observable (replicas, ...) → (replicas,) over a run, and its standard error."""
    x0 = random_walks(chain, replicas, rng=1, **options)
    state = stepper.start(chain, x0, None, replicas, 2)
    stepper.advance(chain, state, relax)
    total = 0.0
    for _ in range(steps // every):
        stepper.advance(chain, state, every)
        total = total + observable(state.x)
    means = total / (steps // every)
    return means.mean(), means.std() / np.sqrt(replicas)


def cosines(x, base="free"):
    """Cosines of the bends (replicas, bends)."""
    if base == "fixed":
        x = np.concatenate([np.zeros_like(x[:, :1]), x], axis=1)
    b = np.diff(x, axis=1)
    b /= np.linalg.norm(b, axis=-1, keepdims=True)
    return np.einsum("rka,rka->rk", b[:, 1:], b[:, :-1])


def mean_square(x):
    return (cosines(x) ** 2).mean(axis=1)


@pytest.mark.parametrize(
    ("ensemble", "exact"), [("rigid", RIGID_TRIMER), ("stiff", 1 / 3)], ids=["rigid", "stiff"]
)
def test_trimer(ensemble, exact):
    stepper = Langevin(0.1, ensemble=ensemble)
    mean, error = sample(fx.Chain.linear(3), stepper, mean_square, 50000)
    assert error < 3e-4
    assert abs(mean - exact) < 4 * error


@pytest.mark.parametrize(("ensemble", "exact"), [("rigid", 0.318318365), ("stiff", 1 / 3)])
def test_ten_beads(ensemble, exact):
    stepper = Langevin(0.1, ensemble=ensemble)
    mean, error = sample(fx.Chain.linear(10), stepper, mean_square, 6000)
    assert error < 3e-4
    assert abs(mean - exact) < 4 * error


@pytest.mark.parametrize(("ensemble", "exact"), [("rigid", 0.482085), ("stiff", 1 / 2)])
def test_trimer_in_the_plane(ensemble, exact):
    stepper = Langevin(0.1, ensemble=ensemble)
    mean, error = sample(fx.Chain.linear(3, dim=2), stepper, mean_square, 12000)
    assert abs(mean - exact) < 4 * error


@pytest.mark.parametrize(("ensemble", "exact"), [("rigid", 0.305508), ("stiff", 1 / 3)])
def test_two_links_on_a_fixed_base(ensemble, exact):
    def observable(x):
        return (cosines(x, "fixed") ** 2).mean(axis=1)

    stepper = Langevin(0.1, ensemble=ensemble)
    chain = fx.Chain.linear(2, base="fixed")
    mean, error = sample(chain, stepper, observable, 12000)
    assert abs(mean - exact) < 4 * error


@pytest.mark.parametrize(("ensemble", "exact"), [("rigid", RIGID_TRIMER), ("stiff", 1 / 3)])
def test_trimer_that_hangs_on_its_middle_bead(ensemble, exact):
    # The same chain by the sparse route.
    def observable(x):
        return mean_square(x[:, [1, 0, 2]])

    stepper = Langevin(0.1, ensemble=ensemble)
    mean, error = sample(fx.Chain.branched([-1, 0, 0]), stepper, observable, 2000)
    assert error < 1.4e-3  # the ensembles are 0.0123 apart
    assert abs(mean - exact) < 4 * error


@pytest.mark.parametrize(("ensemble", "exact"), [("rigid", 0.040038), ("stiff", 0.0)])
def test_four_beads_with_right_angles(ensemble, exact):
    # ⟨cos α⟩, α = 0 at trans
    def observable(x):
        u, v, w = np.moveaxis(np.diff(x, axis=1), 1, 0)
        m, n = np.cross(u, v), np.cross(v, w)
        return -(m * n).sum(axis=-1)

    stepper = Langevin(0.1, ensemble=ensemble)
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    mean, error = sample(chain, stepper, observable, 4000, angles=np.pi / 2)
    assert error < 3e-3  # a tenth of what tells the ensembles apart, and less
    assert abs(mean - exact) < 4 * error


def test_freely_rotating_chain():
    # Stiff: ⟨R²⟩ = N [(1 + c)/(1 − c) − 2c (1 − c^N)/(N (1 − c)²)]
    def observable(x):
        return ((x[:, -1] - x[:, 0]) ** 2).sum(axis=-1)

    N, c = 6, np.cos(1.2)
    exact = N * ((1 + c) / (1 - c) - 2 * c * (1 - c**N) / (N * (1 - c) ** 2))
    chain = fx.Chain.linear(N + 1, hard=("length", "angle"))
    mean, error = sample(chain, Langevin(0.05, ensemble="stiff"), observable, 8000, angles=1.2)
    assert error < 0.005 * exact
    assert abs(mean - exact) < 4 * error


def test_bending_potential():
    # The bends of a stiff chain are independent: ⟨cos θ⟩ = coth(k/kT) − kT/k.
    k, kT = 2.0, 0.5

    def observable(x):
        return cosines(x).mean(axis=1)

    stepper = Langevin(0.05, kT=kT, ensemble="stiff", potential=Bending(k))
    mean, error = sample(fx.Chain.linear(6), stepper, observable, 8000, relax=2000)
    exact = 1 / np.tanh(k / kT) - kT / k
    assert error < 1e-3
    assert abs(mean - exact) < 4 * error


CHAINS = {
    "jointed": (fx.Chain.linear(6, masses=[1, 2, 1, 0.5, 1, 1]), {}),
    "fixed, plane": (fx.Chain.linear(4, dim=2, base="fixed"), {}),
    "rotating": (fx.Chain.linear(6, hard=("length", "angle")), {"angles": 1.2}),
    "star": (fx.Chain.branched([-1, 0, 0, 0, 1, 2]), {}),
    "free": (fx.Chain.linear(2, hard=np.zeros(6, dtype=bool)), {}),
}


@pytest.mark.parametrize("name", CHAINS)
def test_the_kinetic_energy_follows_the_gamma_law(name):
    chain, options = CHAINS[name]
    stepper, kT, replicas = Langevin(0.05, kT=2.0), 2.0, 2048
    x0 = random_walks(chain, replicas, rng=1, **options)
    state = stepper.start(chain, x0, None, replicas, 3)
    samples = []
    for _ in range(8):  # half a relaxation time apart
        stepper.advance(chain, state, 40)
        samples.append(0.5 * (chain.masses[:, None] * state.v**2).sum(axis=(1, 2)))
    dof = chain.n * chain.dim - chain.hard.size
    K = np.array(samples)
    error = K.mean(axis=0).std() / np.sqrt(replicas)
    assert abs(K.mean() - 0.5 * dof * kT) < 4 * error + 1e-3 * dof * kT
    assert stats.kstest(K[-1], stats.gamma(dof / 2, scale=kT).cdf).pvalue > 1e-3


def test_newton_keeps_the_gamma_law():
    # Free flight on the manifold: every replica keeps its energy, and all together their law.
    chain, replicas = fx.Chain.linear(5), 4096
    x0 = random_walks(chain, replicas, rng=1)
    state = Newton(0.02, kT=1.0).start(chain, x0, None, replicas, 3)
    Newton(0.02).advance(chain, state, 500)
    K = 0.5 * (state.v**2).sum(axis=(1, 2))
    dof = 15 - 4 - 3
    assert stats.kstest(K, stats.gamma(dof / 2).cdf).pvalue > 1e-3


def test_bonds_and_angles_live_for_a_million_steps():
    chain, stepper = fx.Chain.linear(10, hard=("length", "angle")), Langevin(0.04)
    state = stepper.start(chain, random_walks(chain, 8, rng=1), None, 8, 1)
    stepper.advance(chain, state, 1_000_000)
    rows = chain.layout.hard_rows
    assert np.abs(rows.values(state.x)[0] - state.targets).max() < 1e-9
