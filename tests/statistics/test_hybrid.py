"""Hybrid Monte Carlo is exact at time steps where Langevin dynamics is visibly biased.

Rings and trees against reweighted stiff samples, a four-ring and the trimer against closed forms.
Errors are those between independent replicas, seeds are fixed; averages must be within 4σ of the
exact ones, Langevin's beyond.
"""

import numpy as np
import pytest

import fixman as fx
from fixman import analytic
from fixman.potentials.energies import WCA, Bending, bind
from fixman.simulation.steppers import HybridMonteCarlo, Langevin

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:dt=.* is long:RuntimeWarning"),  # on purpose
]

REPLICAS = 512
RIGID_TRIMER = (2 * np.pi / 3 - np.sqrt(3) / 2) / (2 * np.pi / 3 + np.sqrt(3))  # ⟨c²⟩, 0.321021


def sample(chain, stepper, observable, steps, x0=None, every=1, relax=100):
    """Mean of an observable (replicas, n, 3) → (replicas,) over a run, and its standard error."""
    x0 = fx.random_walks(chain, REPLICAS, rng=1) if x0 is None else x0
    state = stepper.start(chain, x0, None, REPLICAS, 2)
    stepper.advance(chain, state, relax)
    total = 0.0
    for _ in range(steps // every):
        stepper.advance(chain, state, every)
        total = total + observable(state.x)
    means = total / (steps // every)
    return means.mean(), means.std() / np.sqrt(REPLICAS)


def weighted(values, log_weights):
    """Mean and standard error of independent samples with weights."""
    w = np.exp(log_weights - log_weights.max())
    w /= w.sum()
    mean = (w * values).sum()
    return mean, np.sqrt((w**2 * (values - mean) ** 2).sum())


def off(found, wanted):
    """Return how many standard errors two averages differ by."""
    return abs(found[0] - wanted[0]) / np.hypot(found[1], wanted[1])


def cosines(x):
    """Squared cosine of a trimer's bend."""
    u, v = np.moveaxis(np.diff(x, axis=1), 1, 0)
    return (u * v).sum(axis=-1) ** 2


def spread(x):
    """Square of the radius of gyration."""
    return ((x - x.mean(axis=1, keepdims=True)) ** 2).sum(axis=(1, 2)) / x.shape[1]


def diagonals(x):
    """Mean fourth power of the distances across one bead of a ring."""
    return (((x - np.roll(x, 2, axis=1)) ** 2).sum(axis=-1) ** 2).mean(axis=1)


def arms(x):
    """Mean squared cosine between the three arms of a star."""
    u = x[:, 1:4] - x[:, :1]
    dots = np.einsum("rka,rla->rkl", u, u)
    return (dots[:, 0, 1] ** 2 + dots[:, 0, 2] ** 2 + dots[:, 1, 2] ** 2) / 3


def closed_walks(n, size):
    """Stiff rings of unit bonds, and their log-weights.

    Of n − 2 isotropic bonds; the last bead, one bond from either end, is on a circle, and two
    lengths that fix a point leave it the measure 1 / r dχ, r being the distance of the ends.
    """
    rng = np.random.default_rng(3)
    b = rng.standard_normal((size, n - 2, 3))
    b /= np.linalg.norm(b, axis=-1, keepdims=True)
    x = np.concatenate([np.zeros((size, 1, 3)), np.cumsum(b, axis=1)], axis=1)
    r = np.linalg.norm(x[:, -1], axis=-1, keepdims=True)
    x, r = x[r[:, 0] < 2.0], r[r[:, 0] < 2.0]
    axis = x[:, -1] / r
    side = rng.standard_normal(axis.shape)
    side -= (side * axis).sum(axis=-1, keepdims=True) * axis
    side /= np.linalg.norm(side, axis=-1, keepdims=True)
    last = 0.5 * x[:, -1] + np.sqrt(1.0 - 0.25 * r * r) * side
    return np.concatenate([x, last[:, None]], axis=1), -np.log(r[:, 0])


@pytest.mark.parametrize(("ensemble", "exact"), [("rigid", RIGID_TRIMER), ("stiff", 1 / 3)])
def test_trimer(ensemble, exact):
    chain, dt = fx.Chain.linear(3), 0.4
    stepper = HybridMonteCarlo(dt, leaps=6, ensemble=ensemble)
    mean, error = sample(chain, stepper, cosines, 2000)
    assert error < 7e-4  # the ensembles are 17 σ apart
    assert abs(mean - exact) < 4 * error
    biased = sample(chain, Langevin(dt, ensemble=ensemble), cosines, 2000, every=6)
    assert off(biased, (exact, 0.0)) > 5.0


def test_leaps_of_which_one_in_seven_is_accepted():
    # The others have no solution, or do not lead back, or to energies that are too high.
    stepper = HybridMonteCarlo(0.8, leaps=1)
    mean, error = sample(fx.Chain.linear(3), stepper, cosines, 10000)
    assert error < 8e-4
    assert abs(mean - RIGID_TRIMER) < 4 * error


def rhombi(p, fold):
    """Four-rings with a diagonal p, folded about it; both are uniform in the stiff ensemble."""
    h, none = np.sqrt(1.0 - 0.25 * p * p), np.zeros_like(p)
    beads = [(-p / 2, none, none), (none, h, none)]
    beads += [(p / 2, none, none), (none, h * np.cos(fold), h * np.sin(fold))]
    return np.stack([np.stack(bead, axis=-1) for bead in beads], axis=-2)


def test_rigid_four_ring():
    chain = fx.Chain.ring(4)
    nodes, weights = np.polynomial.legendre.leggauss(100)
    p, fold = np.meshgrid(nodes + 1.0, np.pi * (np.arange(100) + 0.5) / 50.0, indexing="ij")
    x = rhombi(p.ravel(), fold.ravel())
    w = np.repeat(weights, 100) * np.exp(0.5 * fx.logdet(chain, x))
    exact = (w * diagonals(x)).sum() / w.sum()
    mean, error = sample(chain, HybridMonteCarlo(0.2, leaps=6), diagonals, 1000)
    assert error < 6e-3
    assert abs(mean - exact) < 4 * error


def test_stiff_four_ring():
    # It lingers in corners, where all beads are in line; ⟨p⁴⟩ of a uniform diagonal is 16/5.
    chain, rng = fx.Chain.ring(4), np.random.default_rng(5)
    x0 = rhombi(2.0 * rng.random(REPLICAS), 2.0 * np.pi * rng.random(REPLICAS))
    stepper = HybridMonteCarlo(0.1, leaps=8, ensemble="stiff")
    mean, error = sample(chain, stepper, diagonals, 1000, x0, relax=1)
    assert error < 3e-2
    assert abs(mean - 3.2) < 4 * error


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_six_ring(ensemble):
    chain, dt = fx.Chain.ring(6), 0.25
    x, log_weights = closed_walks(6, 400_000)
    if ensemble == "rigid":
        log_weights = log_weights + 0.5 * fx.logdet(chain, x)
    exact = weighted(spread(x), log_weights)
    found = sample(chain, HybridMonteCarlo(dt, leaps=5, ensemble=ensemble), spread, 1000)
    assert found[1] < 4e-4
    assert off(found, exact) < 4.0
    if ensemble == "rigid":
        biased = sample(chain, Langevin(dt), spread, 6000, every=10)
        assert off(biased, exact) > 4.0


def test_rigid_and_stiff_rings_are_each_others_weights():
    chain, frames = fx.Chain.ring(5), []
    state = HybridMonteCarlo(0.2, leaps=5).start(
        chain, fx.random_walks(chain, REPLICAS, rng=1), None, REPLICAS, 3
    )
    for _ in range(150):
        HybridMonteCarlo(0.2, leaps=5).advance(chain, state, 3)
        frames.append(state.x)
    x = np.array(frames[20:])
    w = np.exp(fx.reweight(chain, x.reshape(-1, 5, 3)).log_weights).reshape(x.shape[:2])
    values = spread(x.reshape(-1, 5, 3)).reshape(x.shape[:2])
    mean = (w * values).sum() / w.sum()
    error = (w * (values - mean)).sum(axis=0).std() * np.sqrt(REPLICAS) / w.sum()
    stiff = sample(chain, HybridMonteCarlo(0.2, leaps=5, ensemble="stiff"), spread, 400)
    assert error < 1e-3
    assert off((mean, error), stiff) < 4.0


def test_ring_with_potentials():
    chain, potential = fx.Chain.ring(6), Bending(1.0) + WCA(sigma=0.9)
    x, log_weights = closed_walks(6, 100_000)
    log_weights = log_weights + 0.5 * fx.logdet(chain, x) - bind(chain, potential).energy(x)
    exact = weighted(spread(x), log_weights)
    p = np.exp(log_weights - log_weights.max())
    x0 = x[np.random.default_rng(1).choice(len(x), REPLICAS, p=p / p.sum())]
    stepper = HybridMonteCarlo(0.1, leaps=6, potential=potential)
    found = sample(chain, stepper, spread, 400, x0)
    assert found[1] < 1e-3
    assert off(found, exact) < 4.0


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_star(ensemble):
    chain, dt = fx.Chain.branched([-1, 0, 0, 0]), 0.3
    exact = 1 / 3, 0.0
    if ensemble == "rigid":
        x = fx.random_walks(chain, 600_000, rng=5)
        exact = weighted(arms(x), 0.5 * fx.logdet(chain, x))
    found = sample(chain, HybridMonteCarlo(dt, leaps=5, ensemble=ensemble), arms, 1500)
    assert found[1] < 4e-4
    assert off(found, exact) < 4.0
    if ensemble == "rigid":
        biased = sample(chain, Langevin(dt), arms, 12000, every=10)
        assert off(biased, exact) > 4.0


def test_tree_of_unequal_masses_with_bending():
    chain = fx.Chain.branched([-1, 0, 1, 1, 2, 3], masses=[1.0, 4.0, 0.5, 2.0, 1.0, 1.0])
    potential = Bending(1.5)
    x = fx.random_walks(chain, 200_000, rng=5)
    log_weights = 0.5 * fx.logdet(chain, x) - bind(chain, potential).energy(x)
    exact = weighted(spread(x), log_weights)
    stepper = HybridMonteCarlo(0.15, leaps=6, potential=potential)
    found = sample(chain, stepper, spread, 600)
    assert found[1] < 3e-3
    assert off(found, exact) < 4.0


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_four_beads_with_right_angles(ensemble):
    # ⟨cos φ⟩, IUPAC: cis is 0
    def observable(x):
        u, v, w = np.moveaxis(np.diff(x, axis=1), 1, 0)
        return (np.cross(u, v) * np.cross(v, w)).sum(axis=-1)

    chain = fx.Chain.linear(4, hard=("length", "angle"))
    exact = float(analytic.four_beads_mean_cosine()) if ensemble == "rigid" else 0.0
    x0 = fx.random_walks(chain, REPLICAS, angles=np.pi / 2, rng=1)
    stepper = HybridMonteCarlo(0.25, leaps=6, ensemble=ensemble)
    mean, error = sample(chain, stepper, observable, 1000, x0)
    assert error < 2.6e-3
    assert abs(mean - exact) < 4 * error
