"""Mean forces from runs in which a coordinate is held, against closed forms and quadrature."""

import numba
import numpy as np
import pytest

import fixman as fx
from fixman import bluemoon
from fixman.potentials.energies import Compiled

pytestmark = pytest.mark.thorough

NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
K, FAR = 25.0, 1.0  # springs of three beads, and of their ends
MASSES = np.array([2.0, 0.5, 1.0])


def held_run(model, coordinate, value, stepper, steps, x0):
    """Return the chain that holds a coordinate, and frames in which it has a value."""
    held = bluemoon.hold(model, coordinate)
    x0 = bluemoon.bring(held, x0, coordinate, value)
    run = fx.simulate(held, x0, stepper, steps, every=20, rng=2, progress=False)
    x = run.x[100:]
    row = held.hard[-1]
    assert np.abs(held.values(x[-1])[:, row] - value).max() < 1e-9
    return held, x


def require(found, exact):
    assert found.error < 0.015 * abs(exact)
    assert abs(found.value - exact) < 4.0 * found.error


def slope(function, at, h=1e-4):
    return (function(at + h) - function(at - h)) / (2.0 * h)


def ends_of_three_bonds(r, ensemble):
    """Minus ln of the density of the distance of the ends of three hard unit bonds, not normed.

    The first two span y, the third meets it under the angle that r says, and turns about it.
    """
    a, b = abs(r - 1.0), min(2.0, r + 1.0)
    y = (a + (b - a) * (NODES + 1.0) / 2.0)[:, None]
    turn = (np.arange(256) + 0.5) * np.pi / 128.0
    along, beside = (r * r - 1.0 - y * y) / (2.0 * y), y / 2.0
    across = np.sqrt((1.0 - along**2).clip(0.0) * (1.0 - beside**2))
    first, second = y * y / 2.0 - 1.0, along * beside + across * np.cos(turn)
    root = (
        np.sqrt(8.0 - 2.0 * first**2 - 2.0 * second**2) if ensemble == "rigid" else 0.0 * second + 1
    )
    return -np.log(r * (b - a) * (WEIGHTS @ root.mean(axis=1)))


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_the_ends_of_three_hard_bonds(ensemble):
    model, ends = fx.Chain.linear(4), ("distance", (0, 3))
    stepper = fx.Langevin(0.05, ensemble=ensemble)
    x0 = fx.random_walks(model, 64, rng=1)
    held, x = held_run(model, ends, 2.3, stepper, 40_000, x0)
    exact = {
        word: slope(lambda r, w=word: ends_of_three_bonds(r, w), 2.3) for word in ("rigid", "stiff")
    }
    assert exact["stiff"] == pytest.approx(-1.0 / 2.3 + 1.0 / 0.7, rel=1e-6)  # r (3 − r)
    require(bluemoon.mean_force(held, x, ends, ensemble=ensemble), exact[ensemble])
    other = "stiff" if ensemble == "rigid" else "rigid"
    require(bluemoon.mean_force(held, x, ends, ensemble=other, sampled=ensemble), exact[other])


@numba.njit
def springs_force(x, out):
    out[:] = 0.0
    for i, j, k, length in ((0, 1, K, 1.0), (1, 2, K, 1.0), (0, 2, FAR, 1.5)):
        d = x[j] - x[i]
        r = np.sqrt((d * d).sum())
        out[i] += k * (r - length) / r * d
        out[j] -= k * (r - length) / r * d


@numba.njit
def springs_energy(x):
    total = 0.0
    for i, j, k, length in ((0, 1, K, 1.0), (1, 2, K, 1.0), (0, 2, FAR, 1.5)):
        d = x[j] - x[i]
        total += 0.5 * k * (np.sqrt((d * d).sum()) - length) ** 2
    return total


SPRINGS = Compiled(springs_force, energy=springs_energy)
FLEXIBLE = fx.Chain.linear(3, masses=MASSES, hard=())
BENT = np.array([[1.0, 0, 0], [0, 0, 0], [0.3, 0.9, 0]])


def boltzmann(one, two, cosine):
    """L₁² L₂² e^(−U) of the lengths of two bonds and the cosine of the bend between them."""
    far = np.sqrt(one**2 + two**2 + 2.0 * one * two * cosine)
    energy = 0.5 * K * ((one - 1.0) ** 2 + (two - 1.0) ** 2) + 0.5 * FAR * (far - 1.5) ** 2
    return (one * two) ** 2 * np.exp(-energy)


LENGTHS = 1.0 + 0.99 * NODES  # of a bond


def angle(theta):
    one, two = LENGTHS[:, None], LENGTHS
    return -np.log(np.sin(theta) * (WEIGHTS @ boltzmann(one, two, np.cos(theta)) @ WEIGHTS))


def difference(d):
    two = LENGTHS[:, None]
    return -np.log(WEIGHTS @ boltzmann(two + d, two, NODES) @ WEIGHTS)


@pytest.mark.parametrize(
    ("coordinate", "value", "energy"),
    [(("angle", (0, 1, 2)), 1.0, angle), (("distance_difference", (0, 1, 1, 2)), 0.3, difference)],
    ids=["angle", "difference"],
)
def test_three_beads_on_springs(coordinate, value, energy):
    stepper = fx.Langevin(0.03, potential=SPRINGS)
    held, x = held_run(FLEXIBLE, coordinate, value, stepper, 40_000, np.tile(BENT, (64, 1, 1)))
    found = bluemoon.mean_force(held, x, coordinate, potential=SPRINGS)
    require(found, slope(energy, value))
    # The weights and the correction are each worth more than the error.
    plain = bluemoon.from_multipliers(found.multiplier)
    assert abs(plain.value - slope(energy, value)) > 8.0 * found.error
    stiff = bluemoon.mean_force(
        held, x, coordinate, potential=SPRINGS, ensemble="stiff", sampled="rigid"
    )
    assert stiff.value == pytest.approx(found.value, rel=1e-12)  # where the model holds nothing
