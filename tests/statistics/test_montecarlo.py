"""Monte Carlo samples the ensemble that it was asked for: averages against exact numbers.

Errors are those between independent replicas; seeds are fixed.
"""

import numpy as np
import pytest
from scipy import integrate

import fixman as fx
from fixman import analytic
from fixman.kernels.sampling import pivots
from fixman.potentials.energies import Bending, Tension, Tether
from fixman.sampling.random_walks import random_walks
from fixman.simulation.steppers import MonteCarlo

pytestmark = pytest.mark.thorough
ANGLES = ("length", "angle")


def sample(chain, stepper, observable, steps, replicas=256, every=1, **options):
    """Mean of an observable (replicas, ...) → (replicas, …) over a run, and its standard error."""
    state = stepper.start(chain, random_walks(chain, replicas, rng=1, **options), None, replicas, 2)
    total = 0.0
    for _ in range(steps // every):
        stepper.advance(chain, state, every)
        total = total + observable(state.x)
    means = total / (steps // every)
    return means.mean(axis=0), means.std(axis=0) / np.sqrt(replicas)


def cosines(x, fixed=False):
    if fixed:
        x = np.concatenate([np.zeros_like(x[:, :1]), x], axis=1)
    b = np.diff(x, axis=1)
    b /= np.linalg.norm(b, axis=-1, keepdims=True)
    return np.einsum("rka,rka->rk", b[:, 1:], b[:, :-1])


def check(found, exact, largest):
    mean, error = found
    assert np.all(error < largest)
    assert np.all(np.abs(mean - exact) < 4.0 * error)


@pytest.mark.parametrize(
    ("bonds", "exact", "steps"), [(9, 0.318318365, 2000), (100, 0.317879007, 200)]
)
def test_bonds(bonds, exact, steps):
    chain = fx.Chain.linear(bonds + 1)
    found = sample(chain, MonteCarlo(), lambda x: (cosines(x) ** 2).mean(axis=1), steps)
    check(found, exact, 3e-4)


def test_stiff_bonds():
    found = sample(
        fx.Chain.linear(10), MonteCarlo(ensemble="stiff"),
        lambda x: (cosines(x) ** 2).mean(axis=1), 2000,
    )  # fmt: skip
    check(found, 1 / 3, 3e-4)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("base", ["free", "fixed"])
def test_every_bend_with_unequal_masses(dim, base):
    masses = np.array([1.0, 30.0, 1.0, 0.3, 10.0, 100.0, 1.0])[base == "fixed" :]
    chain = fx.Chain.linear(masses.size, dim=dim, base=base, masses=masses)
    exact = analytic.mean_square_cosines(6, dim=dim, masses=masses, base=base)
    found = sample(chain, MonteCarlo(), lambda x: cosines(x, base == "fixed") ** 2, 5000, 512)
    check(found, exact, 3e-4)


def test_a_chain_by_parts_is_that_by_sweeps():
    # On its middle bead it is a tree to the library.
    masses = np.array([5.0, 1.0, 2.0])
    chain = fx.Chain.branched([-1, 0, 0], masses=masses)
    exact = analytic.mean_square_cosines(2, masses=[1.0, 5.0, 2.0])
    check(sample(chain, MonteCarlo(), lambda x: cosines(x[:, [1, 0, 2]]) ** 2, 4000), exact, 5e-4)


def trans(x):
    """⟨cos φ⟩ with φ = π at trans."""
    u, v, w = np.moveaxis(np.diff(x, axis=1), 1, 0)
    m, n = np.cross(u, v), np.cross(v, w)
    return (m * n).sum(axis=-1) / np.sqrt((m * m).sum(axis=-1) * (n * n).sum(axis=-1))


@pytest.mark.parametrize("angle", [np.pi / 2, 1.0])
def test_four_beads_with_hard_angles(angle):
    exact = analytic.four_beads_mean_cosine(angle)
    chain = fx.Chain.linear(4, hard=ANGLES)
    found = sample(chain, MonteCarlo(), trans, 6000, angles=angle)
    check(found, exact, 8e-4)


def test_hard_angles_by_parts_are_those_by_sweeps():
    # With a potential that does nothing the moves are found otherwise, and so is the weight.
    chain = fx.Chain.linear(9, hard=ANGLES, masses=np.linspace(0.3, 3.0, 9))

    def size(x):
        return ((x[:, -1] - x[:, 0]) ** 2).sum(axis=-1)

    sweeps = sample(chain, MonteCarlo(), size, 2000, angles=1.2)
    parts = sample(chain, MonteCarlo(potential=Bending(0.0)), size, 800, angles=1.2)
    error = np.hypot(sweeps[1], parts[1])
    assert error < 0.005 * sweeps[0]
    assert abs(sweeps[0] - parts[0]) < 4.0 * error


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_ring_of_four(ensemble):
    """Crankshafts: of a diagonal r and a fold φ the stiff density is 1, beside √det H^bb.

    Two beads on r hold r² dr, and each of the others is held at two lengths, a circle whose points
    are dx = dl dl′ dφ / r.
    """
    chain = fx.Chain.ring(4, masses=[1.0, 2.0, 0.5, 1.0])
    r = np.polynomial.legendre.leggauss(24)[0] + 1.0
    weight = np.polynomial.legendre.leggauss(24)[1]
    phi = (np.arange(48) + 0.5) * np.pi / 24
    half, h = 0.5 * r, np.sqrt(1.0 - 0.25 * r**2)
    x = np.zeros((24, 48, 4, 3))
    x[:, :, 0, 0], x[:, :, 2, 0] = -half[:, None], half[:, None]
    x[:, :, 1, 1] = h[:, None]
    x[:, :, 3, 1], x[:, :, 3, 2] = h[:, None] * np.cos(phi), h[:, None] * np.sin(phi)
    density = np.exp(0.5 * fx.logdet(chain, x)) if ensemble == "rigid" else np.ones((24, 48))
    density = density * weight[:, None]
    values = np.stack(
        [
            np.broadcast_to(r[:, None] ** 2, density.shape),
            4 * h[:, None] ** 2 * np.sin(phi / 2) ** 2,
        ]
    )
    exact = (values * density).sum(axis=(1, 2)) / density.sum()

    def diagonals(x):
        across = x[:, :2] - x[:, 2:]
        return (across**2).sum(axis=-1)

    check(sample(chain, MonteCarlo(ensemble=ensemble), diagonals, 2000, 512), exact, 4e-3)


def test_tree_against_weighted_stiff_samples():
    chain = fx.Chain.branched([-1, 0, 0, 0, 1], masses=[1.0, 0.2, 3.0, 1.0, 2.0])
    x = random_walks(chain, 100000, rng=5)
    weight = np.exp(0.5 * fx.logdet(chain, x))
    weight /= weight.sum()

    def between(x):
        b = x[:, [1, 2, 3]] - x[:, :1]
        return np.einsum("rka,rka->rk", b, np.roll(b, 1, axis=1)) ** 2

    values = between(x)
    exact = weight @ values
    spread = np.sqrt(((weight[:, None] * (values - exact)) ** 2).sum(axis=0))
    mean, error = sample(chain, MonteCarlo(), between, 2000)
    assert np.all(np.hypot(error, spread) < 2e-3)
    assert np.all(np.abs(mean - exact) < 4.0 * np.hypot(error, spread))


def test_bending_stiffness():
    # Stiff: bends are independent, ⟨cos θ⟩ is Langevin's function.
    stepper = MonteCarlo(ensemble="stiff", potential=Bending(3.0), kT=1.5)
    found = sample(fx.Chain.linear(6), stepper, cosines, 2000)
    check(found, 1 / np.tanh(2.0) - 1 / 2.0, 2e-3)


def test_a_dumbbell_on_a_spring():
    """The place and the direction of a free chain whose potential depends on them.

    Of a bead on a spring ⟨x²⟩ = kT/k + |p|² for each component; under a force f of bond lengths
    ⟨cos⟩ is Langevin's function of f/kT.
    """
    potential = Tether(0, (0.0, 1.0, 0.0), 2.0) + Tension((0.0, 0.0, 2.0))
    stepper = MonteCarlo(potential=potential)

    def observable(x):
        return np.concatenate([x[:, 0], x[:, 0] ** 2, x[:, 1] - x[:, 0]], axis=1)

    exact = [0.0, 1.0, 0.0, 0.5, 1.5, 0.5, 0.0, 0.0, 1 / np.tanh(2.0) - 1 / 2.0]
    check(sample(fx.Chain.linear(2), stepper, observable, 3000), exact, 1e-2)


class Box:
    """Walls for the first bead, at 2 from the planes through the origin."""

    def energy(self, x):
        return np.inf if np.abs(x[0]).max() > 2.0 else 0.0


def test_a_flat_box():
    """The first bead is anywhere in the box, ⟨x²⟩ = 4/3, and the bonds do not know of it."""
    chain = fx.Chain.linear(3)
    stepper = MonteCarlo(ensemble="stiff", potential=Box())
    state = stepper.start(chain, random_walks(chain, 64, rng=1), None, 64, 2)
    total = 0.0
    for _ in range(800):
        stepper.advance(chain, state, 1)
        total = total + np.concatenate([state.x[:, 0] ** 2, cosines(state.x) ** 2], axis=1)
    means = total / 800
    found = means.mean(axis=0), means.std(axis=0) / 8.0
    check(found, [4 / 3, 4 / 3, 4 / 3, 1 / 3], 0.03)


def test_trees_with_hard_angles_at_the_root_look_where_they_are_pulled():
    """⟨cos⟩ of a bond of a rigid part in a field f is Langevin's function, coth f − 1/f."""
    chain = fx.Chain.branched([-1, 0, 0, 0, 1, 2, 3], hard=ANGLES)
    stepper = MonteCarlo(ensemble="stiff", potential=Tension((0.0, 0.0, 3.0), ends=(0, 1)))
    found = sample(chain, stepper, lambda x: x[:, 1, 2] - x[:, 0, 2], 1000, 128, angles=1.3)
    check(found, 1 / np.tanh(3.0) - 1 / 3.0, 5e-3)


@pytest.mark.parametrize("base", ["free", "fixed"])
def test_branches_some_of_which_are_held(base):
    tree = [-1, 0, 0, 0, 1, 1]
    every = fx.Chain.branched(tree, base=base).coordinates
    held = [one.kind == "angle" and one.beads[-1] in (2, 4) for one in every]
    chain = fx.Chain.branched(
        tree, base=base, hard=np.array([one.kind == "length" for one in every]) | held
    )
    stepper = MonteCarlo(ensemble="stiff", potential=Tension((0.0, 0.0, 3.0), ends=(0, 1)))
    found = sample(chain, stepper, lambda x: x[:, 1, 2] - x[:, 0, 2], 400, 64, angles=1.3)
    check(found, 1 / np.tanh(3.0) - 1 / 3.0, 1e-2)


def test_trimer_with_a_potential_in_the_rigid_ensemble():
    def weight(c):
        return np.sqrt(4.0 - c * c) * np.exp(1.5 * c)

    exact = integrate.quad(lambda c: c * weight(c), -1, 1)[0] / integrate.quad(weight, -1, 1)[0]
    stepper = MonteCarlo(potential=Bending(1.5))
    check(sample(fx.Chain.linear(3), stepper, cosines, 2500), exact, 2e-3)


def test_a_million_moves_leave_no_drift():
    chain = fx.Chain.linear(101)
    stepper, x0 = MonteCarlo(burn_in=0), random_walks(chain, 1, rng=1)
    state = stepper.start(chain, x0, rng=2)
    stepper.advance(chain, state, 10102)
    assert state.tally[0, 0] > 1e6
    np.testing.assert_allclose(chain.hard_values(state.x), 1.0, rtol=0.0, atol=1e-13)
    # The pivots that the last move of each sweep leaves, against ln det found anew.
    units, rest = np.diff(x0[0], axis=0), np.empty(100)
    words, worst = tuple(state.random[0]), 0.0
    for sweep in range(10102):
        _, words = pivots.sweep(words, units, chain.layout.links[0], rest, np.pi, (3, True))
        words = tuple(np.array(words, dtype=np.uint64))
        if sweep % 100 == 1:
            x = np.concatenate([np.zeros((1, 3)), np.cumsum(units, axis=0)])
            worst = max(worst, abs(np.log(1.0 + rest).sum() - fx.logdet(chain, x)))
        units /= np.linalg.norm(units, axis=1, keepdims=True)  # as they are from positions
    assert worst < 1e-12
