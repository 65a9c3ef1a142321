"""Thermal rates, Fixman's torque and Langevin dynamics of rigid chains, against dense matrices.

Sampled ensembles of long runs are in ``statistics/``.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels.rigid import innovations as kernels
from fixman.rigid import SerialChain, composite_body, kinematics, motion, statistics
from rigid_cases import changed, uneven_pair
from rigid_oracles import random_q

SEEDS = st.integers(0, 2**32 - 1)
DOWN = np.array([0.0, 0.3, -1.0])
# Central differences of eighth order.
WEIGHTS = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}


def any_chain(seed, most=8, **options):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most + 1))
    arm = SerialChain.random(n, rng, free_base=bool(rng.integers(2)), **options)
    return arm, random_q(arm, rng)


def gradient(arm, q, energy, h):
    """Return the derivatives of energy(q) along all rates."""
    total = np.zeros(arm.nv)
    for k, weight in WEIGHTS.items():
        ahead, behind = (
            energy(kinematics.integrate(arm, np.tile(q, (arm.nv, 1)), sign * np.eye(arm.nv), k * h))
            for sign in (1, -1)
        )
        total += weight / h * (ahead - behind)
    return total


def half_logdet(arm):
    return lambda q: 0.5 * np.linalg.slogdet(composite_body.inertia_matrix(arm, q))[1]


def two_rods():
    return SerialChain.planar([1, 1], [1, 1], [1 / 12, 1 / 12])


# --- thermal rates --------------------------------------------------------------------------------


@given(SEEDS)
def test_the_smoother_is_a_square_root_of_the_inverse_inertia(seed):
    arm, q = any_chain(seed)
    rows = np.eye(arm.nv)  # what becomes of each of the independent numbers
    assert kernels.thermal_frames(arm._kinds, arm._table, np.tile(q, (arm.nv, 1)), rows) == -1
    wanted = np.linalg.inv(composite_body.inertia_matrix(arm, q))
    assert np.abs(rows.T @ rows - wanted).max() <= 1e-9 * np.abs(wanted).max()


def test_covariance_of_thermal_rates():
    arm = SerialChain.random(5, 3, free_base=True)
    q, kT, size = random_q(arm, np.random.default_rng(1)), 2.0, 40_000
    rates = statistics.thermal_rates(arm, np.tile(q, (size, 1)), kT, rng=7)
    V = kT * np.linalg.inv(composite_body.inertia_matrix(arm, q))
    found = rates.T @ rates / size
    sigma = np.sqrt((np.outer(np.diag(V), np.diag(V)) + V**2) / size)
    assert np.abs((found - V) / sigma).max() < 4
    assert np.abs(rates.mean(0) / np.sqrt(np.diag(V) / size)).max() < 4


def test_a_batch_of_thermal_rates_is_its_frames_in_turn():
    arm = SerialChain.random(4, 5)
    q = np.stack([random_q(arm, np.random.default_rng(k)) for k in range(6)])
    rng = np.random.default_rng(11)
    alone = [statistics.thermal_rates(arm, frame, rng=rng) for frame in q]
    together = statistics.thermal_rates(arm, q.reshape(2, 3, -1), rng=11)
    assert np.array_equal(together, np.reshape(alone, together.shape))


# --- Fixman's torque ------------------------------------------------------------------------------


def test_fixman_torque_of_two_rods():
    q = np.array([[0.4, angle] for angle in np.linspace(-3, 3, 7)])
    cosine, sine = np.cos(q[:, 1]), np.sin(q[:, 1])  # det ℳ = 4/9 − cos² θ₂ / 4
    found = statistics.fixman_torque(two_rods(), q, kT=3.0)
    assert np.allclose(found[:, 1], -0.75 * cosine * sine / (4 / 9 - cosine**2 / 4), atol=1e-14)
    assert np.all(found[:, 0] == 0)


@given(SEEDS)
def test_fixman_torque_is_the_gradient_of_the_inertia_matrix(seed):
    arm, q = any_chain(seed)
    found = statistics.fixman_torque(arm, q, kT=2.0)
    wanted = -2.0 * gradient(arm, q, half_logdet(arm), 0.01)
    assert np.abs(found - wanted).max() <= 1e-8 * (1 + np.abs(wanted).max())
    assert not found[: arm.rate_offsets[1]].any()


@pytest.mark.parametrize("n", [3, 10, 40])
def test_fixman_torque_is_the_force_of_fixman_potential(n):
    for seed in range(3):
        arm = SerialChain.random(n, seed, free_base=seed == 1)
        q = random_q(arm, np.random.default_rng(seed))
        found = statistics.fixman_torque(arm, q)
        wanted = -gradient(arm, q, lambda x, arm=arm: statistics.fixman_potential(arm, x), 0.02)
        assert np.abs(wanted).max() > 0.1
        assert np.abs(found - wanted).max() <= 1e-9


def test_fixman_torque_of_a_chain_with_a_massless_body_inside():
    arm = SerialChain.random(4, 8, joints=("revolute",))
    keep = np.array([1.0, 0.0, 1.0, 1.0])
    arm = changed(arm, masses=keep * arm.masses, inertias=keep[:, None, None] * arm.inertias)
    q = np.array([0.1, 0.5, -0.8, 1.2])
    wanted = -gradient(arm, q, half_logdet(arm), 0.01)
    assert np.abs(statistics.fixman_torque(arm, q) - wanted).max() <= 1e-8
    with pytest.raises(SingularConstraintError, match="body 1"):
        statistics.fixman_potential(arm, q)


# --- Langevin dynamics ----------------------------------------------------------------------------


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_motion_is_hamilton_s_for_any_step(ensemble):
    arm = SerialChain.random(3, 3, joints=("spherical", "revolute"), free_base=True)
    q = random_q(arm, np.random.default_rng(1))
    qd = statistics.thermal_rates(arm, q, rng=4)

    def run(steps):
        options = {"qd": qd, "gravity": DOWN, "friction": 0.0, "ensemble": ensemble}
        found = statistics.langevin(arm, q, 0.5 / steps, steps, every=steps, **options)
        return found[0][0], found[1][0]

    def energy(q, qd):
        extra = statistics.fixman_potential(arm, q) if ensemble == "stiff" else 0.0
        kinetic = kinematics.kinetic_energy(arm, q, qd)
        return kinetic + kinematics.potential_energy(arm, q, gravity=DOWN) + extra

    finest = np.concatenate(run(64))
    for steps in (1, 8):
        assert np.abs(np.concatenate(run(steps)) - finest).max() < 1e-5
        assert energy(*run(steps)) == pytest.approx(energy(q, qd), rel=1e-6)
    if ensemble == "rigid":  # another method, extrapolated
        other = []
        for steps in (512, 1024):
            options = {"qd": qd, "gravity": DOWN, "every": steps}
            found = motion.simulate(arm, q, 0.5 / steps, steps, **options)
            other.append(np.concatenate([found.q[-1], found.qd[-1]]))
        assert np.abs((4 * other[1] - other[0]) / 3 - finest).max() < 1e-7


@pytest.mark.thorough
def test_energy_does_not_fall_without_friction():
    arm, rng = uneven_pair(), np.random.default_rng(5)
    q = rng.uniform(0, 2 * np.pi, (64, 2))
    qd = statistics.thermal_rates(arm, q, rng=rng)
    found = statistics.langevin(arm, q, 0.0474, 400, friction=0.0, qd=qd, every=400)
    before = kinematics.kinetic_energy(arm, q, qd)
    after = kinematics.kinetic_energy(arm, found[0][0], found[1][0])
    assert np.abs(after / before - 1).max() < 1e-4
    assert abs(after.mean() / before.mean() - 1) < 1e-5


def test_friction_and_noise_of_one_step_are_exact():
    arm = SerialChain.random(2, 1, joints=("prismatic",))
    inertia = composite_body.inertia_matrix(arm, np.zeros(2))  # the same everywhere
    start = np.array([0.3, -0.2])
    options = {"kT": 1e-60, "friction": 0.7, "rng": 0}
    _, cold = statistics.langevin(arm, np.zeros(2), 0.1, 5, qd=start, **options)
    assert np.allclose(cold[-1], start * np.exp(-0.35), rtol=1e-13)
    size, kT, c = 20_000, 2.0, np.exp(-0.7 * 0.5)
    q = np.zeros((size, 2))
    options = {"kT": kT, "friction": 0.7, "rng": 3}
    _, warm = statistics.langevin(arm, q, 0.5, 1, qd=np.zeros(2), **options)
    V = kT * (1 - c * c) * np.linalg.inv(inertia)
    sigma = np.sqrt((np.outer(np.diag(V), np.diag(V)) + V**2) / size)
    assert np.abs((warm[0].T @ warm[0] / size - V) / sigma).max() < 4


def test_torque_is_added_to_gravity():
    arm, q = two_rods(), np.array([[0.4, 1.0], [0.2, -0.5]])
    options = {"gravity": DOWN, "friction": 0.0, "qd": np.zeros(2)}

    def hold(x):
        return gradient_of_height(arm, x)

    found, rates = statistics.langevin(arm, q, 0.1, 3, torque=hold, **options)
    assert np.allclose(found, q, atol=1e-14)
    assert np.allclose(rates, 0, atol=1e-14)
    falling, _ = statistics.langevin(arm, q, 0.1, 3, **options)
    assert np.abs(falling[-1] - q).max() > 1e-3


def gradient_of_height(arm, q):
    """Return the torques that hold an arm of unit rods against ``DOWN``."""
    absolute = np.cumsum(q, axis=-1)
    each = -DOWN[1] * np.cos(absolute)
    second = 0.5 * each[..., 1]
    return np.stack([1.5 * each[..., 0] + second, second], axis=-1)


def test_a_run_can_be_continued():
    arm = SerialChain.random(4, 2, free_base=True)
    q = np.stack([random_q(arm, np.random.default_rng(k)) for k in range(3)])
    whole = statistics.langevin(arm, q, 0.01, 6, every=2, rng=5, ensemble="stiff")
    rng = np.random.default_rng(5)
    first = statistics.langevin(arm, q, 0.01, 4, every=2, rng=rng, ensemble="stiff")
    last = first[0][-1], 0.01, 2
    rest = statistics.langevin(arm, *last, qd=first[1][-1], every=2, rng=rng, ensemble="stiff")
    assert whole[0].shape == (3, 3, arm.nq)
    assert whole[1].shape == (3, 3, arm.nv)
    for parts in zip(whole, first, rest, strict=True):
        assert np.array_equal(parts[0], np.concatenate(parts[1:]))


# --- refusals -------------------------------------------------------------------------------------


def test_what_has_no_answer_is_an_error():
    arm, q = two_rods(), np.array([[0.0, 1.0], [0.0, np.nan]])
    for function in (statistics.thermal_rates, statistics.fixman_torque):
        with pytest.raises(FrameError, match="q is nan at coordinate 1 in frame 1"):
            function(arm, q)
        with pytest.raises(ValueError, match="kT must be positive"):
            function(arm, q[0], 0.0)
        with pytest.raises(SingularConstraintError, match="body 1"):
            function(changed(arm, masses=[1, 0], inertias=[np.eye(3), 0 * np.eye(3)]), q[0])
        with pytest.raises(TypeError, match="arm must be"):
            function(q, arm)
    with pytest.raises(ValueError, match="kT must be positive"):
        statistics.fixman_potential(arm, q[0], -1.0)


def test_langevin_refuses():
    arm, q = two_rods(), np.zeros(2)
    for wrong, text in (
        ({"friction": -1.0}, "friction must not be negative, got -1.0"),
        ({"ensemble": "mobility"}, "ensemble must be .*, got 'mobility'"),
        ({"every": 3}, "every must divide steps, got every=3 and steps=4"),
        ({"qd": [0.0, np.inf]}, "qd is inf at rate 1"),
        ({"gravity": (0, np.nan, 0)}, "gravity is nan"),
        ({"torque": lambda x: np.nan * x}, r"torque\(q\) must be finite"),
        ({"torque": lambda x: np.zeros((3, 2))}, r"torque\(q\) must have shape \(2,\)"),
    ):
        with pytest.raises(ValueError, match=text):
            statistics.langevin(arm, q, 0.1, 4, **wrong)
    with pytest.raises(TypeError, match="not callable"):
        statistics.langevin(arm, q, 0.1, 4, torque=5)


def test_steps_that_are_too_long_are_refused():
    arm = two_rods()
    with pytest.raises(FrameError, match=r"too fast in step 1 in frame 0: dt=5000.0 is too long"):
        statistics.langevin(
            arm, np.zeros((2, 2)), 5000.0, 1, qd=[[0.0, 0.0], [9.0, 30.0]], friction=0.0
        )
    with pytest.raises(FrameError, match="too fast in step 1: dt=1e"):
        statistics.langevin(arm, [0.3, 0.4], 1e90, 50, rng=0)


def test_torques_see_all_replicas_of_which_some_take_shorter_steps():
    arm, size = two_rods(), (2, 3)
    stiffness = np.arange(1.0, 7.0).reshape(2, 3, 1)
    q, qd = np.zeros((*size, 2)), np.ones((*size, 2)) * np.array([1.0, 3.0, 20.0])[:, None]

    def run(q, qd, stiffness):
        options = {"qd": qd, "friction": 0.0, "torque": lambda x: -stiffness * x}
        return statistics.langevin(arm, q, 0.2, 2, **options)[0]

    together = run(q, qd, stiffness)
    for k in np.ndindex(size):
        assert np.allclose(together[:, *k], run(q[k], qd[k], stiffness[k]), rtol=0, atol=1e-12)


def test_torques_of_ones_own_cannot_change_the_motion_and_say_what_they_raise():
    arm = SerialChain.planar([1, 1], [1, 1], [1 / 12] * 2)

    def spoil(q):
        q -= 1.0
        return -q

    with pytest.raises(ValueError, match="read-only"):
        statistics.langevin(arm, [1.0, 2.0], 0.01, 1, torque=spoil, rng=0)
    with pytest.raises(FrameError, match="q is nan"):
        statistics.langevin(
            arm, [1.0, 1.0], 0.1, 1, torque=lambda q: statistics.fixman_torque(arm, q * np.nan)
        )
