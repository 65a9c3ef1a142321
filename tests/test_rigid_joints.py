"""Rotors, springs and dampers of the joints: every algorithm against dense, energies, refusals."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from fixman.errors import SingularConstraintError
from fixman.kernels.rigid.innovations import thermal_frames
from fixman.rigid import (
    SerialChain,
    articulated_body,
    closed,
    composite_body,
    denoc,
    joints,
    kinematics,
    newton_euler,
    partition,
    spatial,
    spatial_operators,
    statistics,
)
from oracles import error
from rigid_oracles import move, random_q

GRAVITY = (0.3, -0.2, -9.81)


def geared(arm, rng, decades=0.0):
    """Return the chain with armature on most of its joints, over so many decades up and down."""
    per_joint = 10 ** rng.uniform(-decades, decades, arm.n) * (rng.random(arm.n) < 0.8)
    each = np.repeat(per_joint, np.diff(arm.rate_offsets))
    return replace(arm, armature=each * rng.uniform(0.5, 1.5, arm.nv))


def sprung(arm, rng):
    """Return the chain with dampers, and springs but of a free base."""
    stiffness = rng.uniform(0, 5, arm.nv)
    if arm.joints[0] == "free":
        stiffness[:6] = 0.0
    rest = random_q(arm, rng)
    return replace(arm, damping=rng.uniform(0, 1, arm.nv), stiffness=stiffness, rest=rest)


def state(seed, decades=0.0, **options):
    """Return a chain with rotors, springs and dampers, (q, q̇, τ) and loads."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    arm = SerialChain.random(n, rng, free_base=bool(seed % 2), **options)
    arm = sprung(geared(arm, rng, decades), rng)
    motion = random_q(arm, rng), rng.normal(size=arm.nv), rng.normal(size=arm.nv)
    return arm, motion, {"gravity": GRAVITY, "wrenches": rng.normal(size=(n, 6))}


def dense(arm, motion, loads):
    """θ̈ from the mass matrix of the bodies and rotors, scaled to ones on its diagonal."""
    q, qd, tau = motion
    bare = replace(arm, armature=None, damping=None, stiffness=None)
    M = composite_body.inertia_matrix(bare, q) + np.diag(arm.armature)
    free = newton_euler.inverse_dynamics(bare, q, qd, np.zeros(arm.nv), **loads)
    scale = 1 / np.sqrt(np.diag(M))
    force = tau + joints.passive_forces(arm, q, qd) - free
    return scale * np.linalg.solve(scale[:, None] * M * scale, scale * force)


# --- the fields ------------------------------------------------------------------------------


def test_fields_are_content():
    arm = SerialChain.random(4, 1, joints=("revolute", "spherical"))
    np.testing.assert_array_equal(arm.armature, np.zeros(arm.nv))
    assert not joints.elastic_energy(arm, arm.rest)
    full = replace(arm, armature=0.1, damping=np.arange(arm.nv), stiffness=2)
    assert full != arm
    assert hash(full) != hash(arm)
    np.testing.assert_array_equal(full.armature, np.full(arm.nv, 0.1))
    same = pickle.loads(pickle.dumps(full))
    assert same == full
    assert same.stiffness[0] == 2
    assert not same.damping.flags.writeable
    assert repr(full).endswith("with armature and damping and stiffness>")
    assert replace(full, armature=0, damping=None, stiffness=0.0) == arm
    moved = replace(full, rest=random_q(arm, np.random.default_rng(2)))
    assert moved != full


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"armature": -1.0}, "armature of rate 0 must not be negative; got -1.0"),
        ({"damping": [1.0]}, r"damping must be a number or have shape \(7,\)"),
        ({"stiffness": np.nan}, "stiffness"),
        ({"armature": "heavy"}, "armature"),
        ({"stiffness": 1.0}, "stiffness of rate 0 must be 0: its joint turns and slides"),
        ({"stiffness": 1.0}, "the base is free: give an array with zeros for its six rates"),
        (
            {"stiffness": [0] * 6 + [1], "rest": np.zeros(3)},
            r"rest must be a number or have shape \(8,\), got \(3,\)",
        ),
        ({"stiffness": [0] * 6 + [1], "rest": np.zeros(8)}, "the quaternion of joint 0 has norm 0"),
        # Where no spring asks for it as well, and zeros of another length.
        ({"rest": [0.0] * 6 + [1.0, np.nan]}, "rest is nan at coordinate 7"),
        ({"rest": np.zeros(8)}, "the quaternion of joint 0 has norm 0"),
        ({"rest": [0.3]}, r"rest must be a number or have shape \(8,\), got \(1,\)"),
        ({"armature": np.zeros(3)}, r"armature must be a number or have shape \(7,\)"),
    ],
)
def test_fields_that_mean_nothing_are_refused(given, message):
    arm = SerialChain.random(2, 1, joints=("revolute",), free_base=True)
    with pytest.raises((ValueError, TypeError), match=message):
        replace(arm, **given)


# --- forces and energy -----------------------------------------------------------------------


def test_passive_forces_are_the_gradient_of_the_energy_and_drag():
    for seed in range(12):
        arm, (q, qd, _), _ = state(seed)
        push = np.zeros(arm.nv)
        for k in range(arm.nv):
            step = 1e-5 * np.eye(arm.nv)[k]
            ahead, behind = (
                joints.elastic_energy(arm, move(arm, q, s, 1.0)) for s in (step, -step)
            )
            push[k] = (behind - ahead) / 2e-5
        expected = push - arm.damping * qd
        np.testing.assert_allclose(joints.passive_forces(arm, q, qd), expected, atol=2e-8)


def test_energy_of_a_spring_is_that_of_the_difference():
    arm, (q, _, _), _ = state(4)
    q = np.stack([q, arm.rest])
    difference = kinematics.difference(arm, arm.rest, q)
    expected = 0.5 * (arm.stiffness * difference**2).sum(-1)
    np.testing.assert_allclose(joints.elastic_energy(arm, q), expected, rtol=1e-13)
    assert expected[1] == 0.0
    assert kinematics.potential_energy(arm, q, gravity=(0, 0, 0)) == pytest.approx(expected)


def test_plain_arrays_take_the_short_way_with_the_same_bits(monkeypatch):
    for seed in range(4):
        arm, motion, _ = state(seed)
        many = [np.tile(part, (64, 1)) for part in motion]
        for given in (motion, many):
            kept = given[2].copy()
            found = articulated_body.forward_dynamics(arm, *given, gravity=GRAVITY)
            short = articulated_body._at_once(arm, *given, GRAVITY)
            assert np.array_equal(short, found)
            assert np.array_equal(given[2], kept)
            with monkeypatch.context() as patched:
                patched.setattr(articulated_body, "_at_once", lambda *_: None)
                slow = articulated_body.forward_dynamics(arm, *given, gravity=GRAVITY)
            assert np.array_equal(slow, found)
        for wrong in (motion[1][:-1], np.append(motion[1], 1.0)):
            with pytest.raises(ValueError, match="qd must have"):
                articulated_body.forward_dynamics(arm, motion[0], wrong, motion[2])
        with pytest.raises(ValueError, match=r"qd is -?inf"):
            articulated_body.forward_dynamics(arm, motion[0], np.inf * motion[1], motion[2])


def test_power_is_that_of_dampers_and_torques():
    """d/dt (kinetic + elastic + gravity) = θ̇·τ − θ̇·(damping θ̇), by differences."""
    for seed in range(8):
        arm, (q, qd, tau), _ = state(seed)
        qdd = articulated_body.forward_dynamics(arm, q, qd, tau, gravity=GRAVITY)
        energy = [
            kinematics.kinetic_energy(arm, x, qd + dt * qdd)
            + kinematics.potential_energy(arm, x, gravity=GRAVITY)
            for dt in (-1e-5, 1e-5)
            for x in [move(arm, q, qd, dt)]
        ]
        power = qd @ (tau - arm.damping * qd)
        assert (energy[1] - energy[0]) / 2e-5 == pytest.approx(power, rel=1e-6, abs=1e-7), seed


def test_overflow_of_springs_is_named():
    arm = replace(SerialChain.random(2, 1, joints=("revolute",)), stiffness=1e300)
    with pytest.raises(ValueError, match="forces of springs and dampers"):
        articulated_body.forward_dynamics(arm, [1e300, 0], [0, 0], [0, 0])


# --- dynamics --------------------------------------------------------------------------------


@pytest.mark.parametrize("decades", [1.0, 12.0])
def test_articulated_bodies_agree_with_dense(decades):
    for seed in range(20):
        arm, motion, loads = state(seed, decades)
        qdd = articulated_body.forward_dynamics(arm, *motion, **loads)
        assert error(qdd, dense(arm, motion, loads)) <= 1e-11, seed
        # Eight in lanes, and one whose arrays need no gate.
        many = articulated_body.forward_dynamics(arm, *(np.tile(x, (9, 1)) for x in motion))
        one = articulated_body.forward_dynamics(arm, *motion)
        assert error(many, np.tile(one, (9, 1))) <= 1e-13, seed


@pytest.mark.parametrize("arm", [SerialChain.planar([1, 1], [1, 2], [1, 1]), SerialChain.snake(4)])
def test_short_cuts_of_plain_arrays_do_not_leave_springs_out(arm):
    arm = replace(arm, damping=0.3, stiffness=2.0)
    motion = np.random.default_rng(1).normal(size=(3, arm.nv))
    expected = dense(arm, motion, {"gravity": GRAVITY})
    for algorithm in (articulated_body.forward_dynamics, partition.forward_dynamics):
        for _ in range(2):  # tables are there the second time
            assert error(algorithm(arm, *motion, gravity=GRAVITY), expected) <= 1e-12
            many = algorithm(arm, *np.tile(motion, (1, 9)).reshape(3, 9, -1), gravity=GRAVITY)
            assert error(many, np.tile(expected, (9, 1))) <= 1e-12


def test_short_cuts_of_arrays_that_do_not_fit():
    arm = replace(SerialChain.random(3, 0, joints=("revolute",)), damping=0.3)
    x = np.ones(3)
    forward = articulated_body.forward_dynamics
    expected = forward(arm, x, x, x)
    for q, qd, tau in ((np.ones(2), x, x), (x, np.ones(4), x), (x, x, np.ones((2, 2)))):
        with pytest.raises(ValueError, match=r"must have shape \(\.\.\., 3\)"):
            forward(arm, q, qd, tau)
    for k in range(3):
        given = [x, x, x]
        given[k] = np.array(1.0)
        with pytest.raises(ValueError, match="must have shape"):
            forward(arm, *given)
        given[k] = x * [1, np.nan, 1]
        with pytest.raises(ValueError, match=r"is nan at (rate|coordinate) 1"):
            forward(arm, *given)
        given[k] = np.ones((4, 3))
        np.testing.assert_allclose(forward(arm, *given), [expected] * 4, rtol=1e-12)


def test_inverse_dynamics_takes_back_forward():
    for seed in range(20):
        arm, (q, qd, tau), loads = state(seed)
        qdd = articulated_body.forward_dynamics(arm, q, qd, tau, **loads)
        assert error(newton_euler.inverse_dynamics(arm, q, qd, qdd, **loads), tau) <= 1e-12, seed


def test_pivots_have_the_rotors_in_them():
    for seed in range(10):
        arm, (q, _, _), _ = state(seed)
        expected = np.linalg.slogdet(composite_body.inertia_matrix(arm, q))[1]
        found = sum(np.linalg.slogdet(D)[1] for D in articulated_body.pivots(arm, q))
        assert found == pytest.approx(expected, abs=1e-11)


ALGORITHMS = {
    "fd1": lambda *given, **loads: spatial_operators.forward_dynamics(
        *given, method="fd1", **loads
    ),
    "fd3": lambda *given, **loads: spatial_operators.forward_dynamics(
        *given, method="fd3", **loads
    ),
    "denoc": denoc.forward_dynamics,
    "composite bodies": composite_body.forward_dynamics,
    "partition": partition.forward_dynamics,
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_algorithms_agree_with_dense(name):
    for seed in range(16):
        arm, motion, loads = state(seed, 12.0 if seed % 4 > 1 else 1.0)
        found = ALGORITHMS[name](arm, *motion, **loads)
        assert error(found, dense(arm, motion, loads)) <= 1e-10, seed


def test_factors_compliance_and_determinants_are_those_of_the_geared_matrix():
    for seed in range(10):
        arm, (q, _, _), _ = state(seed)
        M = composite_body.inertia_matrix(arm, q)
        U, D = denoc.udut(arm, q)
        assert error(U @ D @ U.T, M) <= 1e-13, seed
        seen = spatial_operators.operators(arm, q)
        report = M[np.ix_(seen.order, seen.order)]
        assert error(seen.factor @ seen.D @ seen.factor.T, report) <= 1e-12, seed
        assert denoc.logdet_mass(arm, q) == pytest.approx(np.linalg.slogdet(M)[1], abs=1e-11)
        J = kinematics.jacobian(arm, q, arm.n - 1)
        compliance = kinematics.operational_space_compliance(arm, q, arm.n - 1)
        assert error(compliance, J @ np.linalg.solve(M, J.T)) <= 1e-11, seed


def test_a_rotor_moves_a_joint_that_moves_no_mass():
    arm = SerialChain.random(5, 3, joints=("revolute", "spherical", "prismatic"))
    light = replace(
        arm,
        masses=arm.masses * [1, 1, 1, 1, 0],
        inertias=arm.inertias * [[[1]], [[1]], [[1]], [[1]], [[0]]],
    )
    rng = np.random.default_rng(5)
    motion = random_q(arm, rng), rng.normal(size=arm.nv), rng.normal(size=arm.nv)
    with pytest.raises(SingularConstraintError, match="joint 4"):
        articulated_body.forward_dynamics(light, *motion)
    light = replace(light, armature=1e-3)
    expected = dense(light, motion, {})
    assert error(articulated_body.forward_dynamics(light, *motion), expected) <= 1e-11
    for name, algorithm in ALGORITHMS.items():
        if name != "partition":  # which asks for mass
            assert error(algorithm(light, *motion), expected) <= 1e-10, name


# --- the partition ---------------------------------------------------------------------------


def test_rotors_are_further_rows_of_the_hard_block():
    for seed in range(10):
        arm, (q, _, _), _ = state(seed)
        M = composite_body.inertia_matrix(arm, q)
        assert partition.logdet_mass(arm, q) == pytest.approx(np.linalg.slogdet(M)[1], abs=1e-10)
        H = partition.hard_block(arm, q).to_dense()
        assert len(H) == 6 * arm.n - np.count_nonzero(arm.armature == 0)
        expected = np.linalg.slogdet(H)[1]
        assert partition.logdet_hard(arm, q) == pytest.approx(expected, abs=1e-10)
        bodies = [
            np.linalg.slogdet(block)[1]
            for block in spatial.inertia(arm.masses, arm.centres, arm.inertias)
        ]
        rotors = np.log(arm.armature[arm.armature > 0]).sum()
        assert sum(bodies) + rotors + expected == pytest.approx(np.linalg.slogdet(M)[1], abs=1e-10)


def test_some_axes_of_a_ball_may_have_rotors():
    for seed in range(8):
        arm, motion, loads = state(seed, joints=("spherical",))
        keep = np.random.default_rng(seed).random(arm.nv) < 0.5
        arm = replace(arm, armature=np.where(keep, 0.3, 0.0))
        expected = dense(arm, motion, loads)
        found = articulated_body.forward_dynamics(arm, *motion, **loads)
        assert error(found, expected) <= 1e-11, seed
        for name, algorithm in ALGORITHMS.items():
            assert error(algorithm(arm, *motion, **loads), expected) <= 1e-10, (seed, name)


def test_joint_wrenches_are_what_the_bodies_feel():
    for seed in range(10):
        arm, (q, qd, tau), loads = state(seed)
        qdd = articulated_body.forward_dynamics(arm, q, qd, tau, **loads)
        expected = newton_euler.joint_wrenches(arm, q, qd, qdd, **loads)
        found = partition.joint_wrenches(arm, q, qd, tau, **loads)
        assert error(found, expected) <= 1e-10, seed


# --- statistics ------------------------------------------------------------------------------


def test_thermal_rates_and_fixman_torque_have_rotors_in_their_matrix():
    for seed in range(8):
        arm, (q, _, _), _ = state(seed)
        rows = np.eye(arm.nv)
        assert thermal_frames(arm._kinds, arm._table, np.tile(q, (arm.nv, 1)), rows) == -1
        wanted = np.linalg.inv(composite_body.inertia_matrix(arm, q))
        assert error(rows.T @ rows, wanted) <= 1e-10, seed
        torque = statistics.fixman_torque(arm, q, kT=2.0)
        for k in range(arm.nv):
            step = np.eye(arm.nv)[k]
            ahead, behind = (
                statistics.fixman_potential(arm, move(arm, q, step, dt), 2.0)
                for dt in (1e-4, -1e-4)
            )
            assert torque[k] == pytest.approx((behind - ahead) / 2e-4, abs=2e-6), (seed, k)


def test_langevin_refuses_dampers():
    arm = replace(SerialChain.random(2, 1, joints=("revolute",)), damping=0.1)
    with pytest.raises(ValueError, match="would cool the chain"):
        statistics.langevin(arm, [0.1, 0.2], 0.01, 2)


# --- closed chains ---------------------------------------------------------------------------


def test_closed_chains_agree_with_dense():
    """Two bodies of one chain, pinned: M θ̈ + Aᵀ f = τ + passive forces − bias, A θ̈ = −Ȧ θ̇."""
    rng = np.random.default_rng(7)
    arm = sprung(geared(SerialChain.random(9, rng), rng), rng)
    q, tau = random_q(arm, rng), rng.normal(size=arm.nv)
    qd = np.zeros(arm.nv)
    R, x = kinematics.frames(arm, q)
    point = R[2].T @ (x[8] - x[2])
    linkage = closed.Linkage(arm, closed.Closure(closed.End(2, point), 8, "ball"))
    A = kinematics.jacobian(arm, q, 2, point)[:3] - kinematics.jacobian(arm, q, 8)[:3]
    M = composite_body.inertia_matrix(arm, q)
    bias = newton_euler.inverse_dynamics(arm, q, qd, 0 * qd, gravity=GRAVITY)
    matrix = np.block([[M, A.T], [A, np.zeros((3, 3))]])
    expected = np.linalg.solve(matrix, np.append(tau - bias, np.zeros(3)))[: arm.nv]
    found = closed.forward_dynamics(linkage, q, qd, tau, gravity=GRAVITY).qdd
    assert error(found, expected) <= 1e-11
    # Springs do not pull where only positions are corrected.
    off = kinematics.integrate(arm, q, rng.normal(size=arm.nv), 1e-3)
    back, _ = closed.project(linkage, off)
    gap = np.subtract(kinematics.position(arm, back, 2, point), kinematics.position(arm, back, 8))
    assert np.abs(gap).max() <= 1e-9
    inverse = np.linalg.inv(composite_body.inertia_matrix(arm, off))
    B = kinematics.jacobian(arm, off, 2, point)[:3] - kinematics.jacobian(arm, off, 8)[:3]
    gap = np.subtract(kinematics.position(arm, off, 2, point), kinematics.position(arm, off, 8))
    way = -inverse @ B.T @ np.linalg.solve(B @ inverse @ B.T, gap)
    assert error(kinematics.difference(arm, off, back), way) <= 0.02


# --- a robot with motors ---------------------------------------------------------------------


def puma():
    """Return the Puma 560 of Corke and Armstrong-Hélouvry (ICRA 1994), as roboticstoolbox has it.

    No masses have the moments of link 3 (0.066, 0.086, 0.0125).  What of them is equal across its
    joint's axis may as well belong to link 2, for a turn about that axis does not show it: 0.01 of
    that is moved.  Of link 1 only the moment about its axis is known, and felt; it has no mass.
    """
    quarter = np.pi / 2
    motors, gears = [200e-6] * 3 + [33e-6] * 3, [62.6111, 107.815, 53.7063, 76.0364, 71.923, 76.686]
    arm = SerialChain.from_dh(
        a=[0, 0.4318, 0.0203, 0, 0, 0],
        b=[0.672, 0, 0.15005, 0.4318, 0, 0],
        alpha=[quarter, 0, -quarter, quarter, -quarter, 0],
        theta=np.zeros(6),
        joints=("revolute",) * 6,
        masses=[0, 17.4, 4.8, 0.82, 0.34, 0.09],
        com=np.array(
            [[0, 0, 0], [-0.3638, 0.006, 0.2275], [-0.0203, -0.0141, 0.070],
             [0, 0.019, 0], [0, 0, 0], [0, 0, 0.032]]
        ),
        inertias=[
            [0.2, 0.35, 0.2], [0.12, 0.514, 0.539], [0.076, 0.086, 0.0225],
            [1.8e-3, 1.3e-3, 1.8e-3], [0.3e-3, 0.4e-3, 0.3e-3], [0.15e-3, 0.15e-3, 0.04e-3],
        ],
    )  # fmt: skip
    return replace(arm, armature=np.square(gears) * motors)


def test_puma_as_published():
    arm, still, down = puma(), np.zeros(6), (0, 0, -9.81)
    q = np.array([[0, 45, 180, 0, 45, 0], [45, 70, -100, 60, 25, -140]]) * np.pi / 180
    tau = newton_euler.inverse_dynamics(arm, q, still, still, gravity=down)
    printed = [[0, 31.6399, 6.0351, 0, 0.0283, 0], [0, 16.3678, 4.5952, -0.0052, -0.0039, 0]]
    np.testing.assert_allclose(tau, printed, atol=5.1e-5)
    M = composite_body.inertia_matrix(arm, q[0])
    diagonal = [3.6594, 4.4137, 0.9378, 0.1925, 0.1713, 0.1941]
    np.testing.assert_allclose(np.diag(M), diagonal, atol=5.1e-5)
    motion = q[0], np.array([0.5, -1, 2, 1, -3, 0.2]), tau[1]
    expected = dense(arm, motion, {"gravity": down})
    for name in ("fd1", "fd3", "denoc", "composite bodies"):
        assert error(ALGORITHMS[name](arm, *motion, gravity=down), expected) <= 1e-12, name
    found = articulated_body.forward_dynamics(arm, *motion, gravity=down)
    assert error(found, expected) <= 1e-12
    with pytest.raises(SingularConstraintError, match="body 0"):
        partition.forward_dynamics(arm, *motion, gravity=down)
