"""Elastic rods: closed forms of beams, and how fast they are reached."""

import numpy as np
import pytest
import scipy.linalg

from fixman.rigid import SerialChain, composite_body, joints, kinematics, newton_euler

E, G, RADIUS, LENGTH, DENSITY = 2.0, 0.7, 0.03, 1.5, 3.0
AREA = np.pi * RADIUS**2
SECOND = np.pi * RADIUS**4 / 4


def rod(n, **options):
    return SerialChain.rod(n, E, G, RADIUS, length=LENGTH, density=DENSITY, **options)


def test_it_is_made_of_cylinders():
    arm = rod(10)
    assert arm.joints == ("spherical",) * 10
    assert arm.masses.sum() == pytest.approx(AREA * LENGTH * DENSITY)
    piece, mass = LENGTH / 10, arm.masses[0]
    along, across = mass * RADIUS**2 / 2, mass * (RADIUS**2 / 4 + piece**2 / 12)
    np.testing.assert_allclose(arm.inertias[3], np.diag([along, across, across]))
    free = rod(10, free_base=True)
    assert free.joints == ("free",) + ("spherical",) * 9
    np.testing.assert_array_equal(free.stiffness[6:], arm.stiffness[3:])
    assert not free.stiffness[:6].any()


@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_a_clamped_rod_bends_and_twists_as_a_beam(n):
    arm = rod(n)
    J = kinematics.jacobian(arm, arm.rest, n - 1, (LENGTH / n, 0, 0))
    compliance = J @ np.diag(1 / arm.stiffness) @ J.T
    deflection = LENGTH**3 / (3 * E * SECOND)
    # Of second order, and with the weight that the trapezoidal rule leaves.
    np.testing.assert_allclose(compliance[[1, 2], [1, 2]], deflection * (1 + 1 / (2 * n**2)))
    # A body turns as its middle does: of that, twist and slope are exact.
    middle = LENGTH - LENGTH / n / 2
    np.testing.assert_allclose(compliance[3, 3], middle / (G * 2 * SECOND))
    np.testing.assert_allclose(compliance[[4, 5], [4, 5]], middle / (E * SECOND))


def test_a_small_load_is_balanced_by_the_springs():
    arm, load = rod(8), np.array([0, 1e-10, 2e-10, 3e-10, 0, 0])
    tip = (LENGTH / 8, 0, 0)
    push = kinematics.jacobian_transpose(arm, arm.rest, load, 7, tip)
    bent = kinematics.integrate(arm, arm.rest, push / arm.stiffness)
    left = joints.passive_forces(arm, bent, np.zeros(24)) + kinematics.jacobian_transpose(
        arm, bent, load, 7, tip
    )
    assert np.abs(left).max() <= 1e-3 * np.abs(push).max()


def test_a_moment_rolls_it_up_into_a_ring():
    n = 12
    arm, still = rod(n), np.zeros(3 * n)
    angles = np.full(n, 2 * np.pi / n)
    angles[0] /= 2
    turns = np.zeros((n, 3))
    turns[:, 2] = angles
    ring = kinematics.integrate(arm, arm.rest, turns.reshape(-1))
    wrenches = np.zeros((n, 6))
    wrenches[-1, 5] = 2 * np.pi * E * SECOND / LENGTH
    tau = newton_euler.inverse_dynamics(arm, ring, still, still, wrenches=wrenches)
    assert np.abs(tau).max() <= 1e-13 * wrenches[-1, 5]
    assert kinematics.potential_energy(arm, ring, gravity=(0, 0, 0)) == pytest.approx(
        0.5 * (2 * np.pi) ** 2 * E * SECOND / LENGTH * (1 - 1 / (2 * n))
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
        ({"radius": 1e-90}, "stiffness of the joints is below the smallest number"),
    ],
)
def test_rods_of_nothing_are_refused(changes, message):
    given = {"n": 3, "E": E, "G": G, "radius": RADIUS, "density": DENSITY} | changes
    with pytest.raises(ValueError, match=message):
        SerialChain.rod(**given)
