"""Elastic rods: closed forms of beams, and how fast they are reached."""

import numpy as np
import pytest
import scipy.linalg

from fixman.rigid import SerialChain, closed, composite_body, joints, kinematics, newton_euler
from fixman.rigid.closed import Closure, End, Linkage

E, G, RADIUS, LENGTH, DENSITY = 2.0, 0.7, 0.03, 1.5, 3.0
AREA = np.pi * RADIUS**2
SECOND = np.pi * RADIUS**4 / 4


def rod(n, **options):
    return SerialChain.rod(n, E, G, RADIUS, length=LENGTH, density=DENSITY, **options)


def test_it_is_made_of_cylinders():
    arm = rod(10)
    piece = LENGTH / 10
    assert arm.joints == ("spherical",) * 10
    assert arm.masses.sum() == pytest.approx(AREA * (LENGTH - piece / 2) * DENSITY)
    for body, size in ((3, piece), (9, piece / 2)):
        mass = AREA * size * DENSITY
        along, across = mass * RADIUS**2 / 2, mass * (RADIUS**2 / 4 + size**2 / 12)
        np.testing.assert_allclose(arm.inertias[body], np.diag([along, across, across]))
    free = rod(11, free_base=True)
    assert free.joints == ("free",) + ("spherical",) * 10
    assert free.masses.sum() == pytest.approx(AREA * LENGTH * DENSITY)
    np.testing.assert_array_equal(free.stiffness[6:], arm.stiffness)
    assert not free.stiffness[:6].any()
    one = rod(1, free_base=True)
    assert one.masses == pytest.approx(AREA * LENGTH * DENSITY)
    assert one.centres[0, 0] == LENGTH / 2


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_a_clamped_rod_bends_and_twists_as_a_beam(n):
    arm = rod(n)
    J = kinematics.jacobian(arm, arm.rest, n - 1, (LENGTH / n / 2, 0, 0))
    compliance = J @ np.diag(1 / arm.stiffness) @ J.T
    deflection = LENGTH**3 / (3 * E * SECOND)
    # Of second order, and with the weight that the midpoint rule leaves.
    np.testing.assert_allclose(compliance[[1, 2], [1, 2]], deflection * (1 - 1 / (4 * n**2)))
    # Twist and slope of the tip are exact.
    np.testing.assert_allclose(compliance[3, 3], LENGTH / (G * 2 * SECOND))
    np.testing.assert_allclose(compliance[[4, 5], [4, 5]], LENGTH / (E * SECOND))


def welded(n):
    """Return a rod clamped at both ends, which slides along at the second."""
    held = ("y", "z", "rx", "ry", "rz")
    tip = End(n - 1, (LENGTH / n / 2, 0, 0))
    return Linkage(rod(n), Closure(End(None, (LENGTH, 0, 0)), tip, held))


def rows(linkage):
    """Rates of the gaps for each rate of the straight rod."""
    q = np.tile(linkage.chains[0].rest, (linkage.nv, 1))
    return closed.gap(linkage, q, np.eye(linkage.nv)).T


def test_a_rod_that_is_clamped_at_both_ends_is_of_second_order():
    off = []
    for n in (8, 16, 32, 64, 128):
        linkage = welded(n)
        arm, A = linkage.chains[0], rows(linkage)
        push = kinematics.jacobian(arm, arm.rest, n // 2 - 1, (LENGTH / n / 2, 0, 0))[1]
        bent = push / arm.stiffness
        taken = A / arm.stiffness
        bent -= taken.T @ np.linalg.solve(taken @ A.T, A @ bent)
        off.append(push @ bent / (LENGTH**3 / (192 * E * SECOND)) - 1)
    np.testing.assert_allclose(off, -4 / np.array([8, 16, 32, 64, 128]) ** 2, rtol=1e-9)


def test_it_rings_as_a_beam_that_is_clamped_at_both_ends():
    exact = 4.7300407449**2 * np.sqrt(E * SECOND / (DENSITY * AREA)) / LENGTH**2
    off = []
    for n in (10, 20, 40):
        linkage = welded(n)
        arm, Z = linkage.chains[0], scipy.linalg.null_space(rows(linkage))
        M = Z.T @ composite_body.inertia_matrix(arm, arm.rest) @ Z
        squares = scipy.linalg.eigh(Z.T * arm.stiffness @ Z, M, eigvals_only=True)
        off.append(np.sqrt(squares[0]) / exact - 1)
    assert np.abs((4 * off[2] - off[1]) / 3) <= 5 * (RADIUS / LENGTH) ** 2
    np.testing.assert_allclose(np.log2(np.abs((off[0] - off[1]) / (off[1] - off[2]))), 2, atol=0.1)


def test_a_small_load_is_balanced_by_the_springs():
    arm, load = rod(8), np.array([0, 1e-10, 2e-10, 3e-10, 0, 0])
    tip = (LENGTH / 16, 0, 0)
    push = kinematics.jacobian_transpose(arm, arm.rest, load, 7, tip)
    bent = kinematics.integrate(arm, arm.rest, push / arm.stiffness)
    left = joints.passive_forces(arm, bent, np.zeros(24)) + kinematics.jacobian_transpose(
        arm, bent, load, 7, tip
    )
    assert np.abs(left).max() <= 1e-3 * np.abs(push).max()


def test_a_moment_rolls_it_up_into_a_ring():
    n = 12
    arm, still = rod(n), np.zeros(3 * n)
    turns = np.zeros((n, 3))
    turns[:, 2] = 2 * np.pi / n
    ring = kinematics.integrate(arm, arm.rest, turns.reshape(-1))
    wrenches = np.zeros((n, 6))
    wrenches[-1, 5] = 2 * np.pi * E * SECOND / LENGTH
    tau = newton_euler.inverse_dynamics(arm, ring, still, still, wrenches=wrenches)
    assert np.abs(tau).max() <= 1e-13 * wrenches[-1, 5]
    assert kinematics.potential_energy(arm, ring, gravity=(0, 0, 0)) == pytest.approx(
        0.5 * (2 * np.pi) ** 2 * E * SECOND / LENGTH
    )


def test_it_rings_as_a_beam_does():
    """The lowest frequencies of bending, which are of second order in 1/n."""
    exact = np.array([1.8751040687, 4.6940911330]) ** 2 * np.sqrt(E * SECOND / (DENSITY * AREA))
    off = []
    for n in (10, 20, 40):
        arm = rod(n)
        plane = np.arange(2, 3 * n, 3)
        M = composite_body.inertia_matrix(arm, arm.rest)[np.ix_(plane, plane)]
        squares = scipy.linalg.eigh(np.diag(arm.stiffness[plane]), M, eigvals_only=True)
        off.append(np.sqrt(squares[:2]) / (exact / LENGTH**2) - 1)
    # Euler and Bernoulli's beam has no rotary inertia: (r / L)² of it remains.
    extrapolated = (4 * off[2] - off[1]) / 3
    assert np.abs(extrapolated).max() <= 5 * (RADIUS / LENGTH) ** 2
    rate = np.log2(np.abs((off[0] - off[1]) / (off[1] - off[2])))
    np.testing.assert_allclose(rate, 2, atol=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 0}, "n must be at least 1"),
        ({"E": 0.0}, "E must be positive"),
        ({"radius": -1.0}, "radius must be positive"),
        ({"density": np.nan}, "density must be positive"),
        ({"radius": 1e-90}, "stiffness of the joints is no number: choose other units"),
        ({"radius": 1e90}, "stiffness of the joints is no number: choose other units"),
    ],
)
def test_rods_of_nothing_are_refused(changes, message):
    given = {"n": 3, "E": E, "G": G, "radius": RADIUS, "density": DENSITY} | changes
    with pytest.raises(ValueError, match=message):
        SerialChain.rod(**given)


@pytest.mark.parametrize(
    "make",
    [
        SerialChain.snake,
        lambda n: SerialChain.random(n, 0),
        lambda n: SerialChain.rod(n, E, G, RADIUS, density=DENSITY),
    ],
)
def test_chains_that_no_memory_holds_are_refused_at_once(make):
    with pytest.raises(MemoryError, match=r"n = 1e\+12 would take about 5e"):
        make(10**12)
