"""Helical and planar joints, in every algorithm, and what the records of joints promise."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from fixman.kernels.rigid import joints as kernel
from fixman.rigid import (
    SerialChain,
    articulated_body,
    closed,
    composite_body,
    denoc,
    kinematics,
    motion,
    newton_euler,
    partition,
    spatial_operators,
    statistics,
    urdf,
)
from fixman.rigid.closed import Closure, End, Linkage
from rigid_oracles import (
    Referee,
    dense_closed,
    exact_dynamics,
    exact_motion,
    random_q,
)
from rigid_oracles import (
    articulated_body as pass_of_the_book,
)
from test_rigid_motion import left_by_newton

KINDS = {
    "helical": ("helical",),
    "planar": ("planar",),
    "all": ("helical", "planar", "revolute", "prismatic", "spherical"),
}
METHODS = ("fd1", "fd3")
STEP = 1e-6


def case(kinds, seed, n=5, geared=False):
    """Return a chain, a state, and loads."""
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(n, rng, joints=KINDS[kinds], free_base=seed % 3 == 2)
    if geared:
        arm = replace(arm, armature=rng.uniform(0, 1, arm.nv) * (rng.random(arm.nv) < 0.7))
    state = random_q(arm, rng), rng.normal(size=arm.nv), rng.normal(size=arm.nv)
    return arm, state, {"gravity": (1.0, 2.0, -9.0), "wrenches": rng.normal(size=(n, 6))}


def slopes(function, arm, q):
    """Return derivatives along all rates by central differences."""

    def along(e):
        ends = (kinematics.integrate(arm, q, e, step) for step in (STEP, -STEP))
        after, before = map(function, ends)
        return (np.asarray(after) - np.asarray(before)) / (2 * STEP)

    return np.stack([along(e) for e in np.eye(arm.nv)], axis=-1)


def close(found, wanted, tolerance=1e-11):
    assert np.abs(found - wanted).max() <= tolerance * np.abs(wanted).max()


# --- records --------------------------------------------------------------------------------------


def test_names_of_joints_are_those_of_the_records():
    assert get_args(kernel.Name) == kernel.NAMES


@pytest.mark.parametrize("joint", kernel.JOINTS, ids=kernel.NAMES)
def test_records_are_groups(joint):
    """Turns lead out of no plane or line of displacements."""
    assert joint.turns in ("", "z", "xyz")
    assert joint.turns != "z" or joint.slides in ("", "z", "xy", "xyz")
    assert joint.turns != "xyz" or joint.slides in ("", "xyz")
    assert not joint.pitch or (joint.slides, joint.turns) == ("", "z")


# --- dynamics -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_inverse_dynamics_against_extended_precision(peer, kinds, seed):
    peer("mpmath")
    arm, (q, qd, qdd), loads = case(kinds, seed)
    tau, wrenches = exact_dynamics(arm, q, qd, qdd, **loads)
    close(newton_euler.inverse_dynamics(arm, q, qd, qdd, **loads), tau.astype(float))
    close(newton_euler.joint_wrenches(arm, q, qd, qdd, **loads), wrenches.astype(float))


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_motion_of_points_against_extended_precision(peer, kinds, seed):
    peer("mpmath")
    arm, (q, qd, qdd), _ = case(kinds, seed)
    wanted, point = exact_motion(arm, q, qd, qdd, (0.1, -0.2, 0.3)), (0.1, -0.2, 0.3)
    for body in range(arm.n):
        at = body, point
        close(kinematics.velocity(arm, q, qd, *at), wanted["velocity"][body])
        close(kinematics.acceleration(arm, q, qd, qdd, *at), wanted["acceleration"][body])
    close(kinematics.kinetic_energy(arm, q, qd), wanted["energy"].sum())


@pytest.mark.parametrize("geared", [False, True])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_algorithms_agree(kinds, seed, geared):
    arm, state, loads = case(kinds, seed, geared=geared)
    wanted = composite_body.forward_dynamics(arm, *state, **loads)
    close(newton_euler.inverse_dynamics(arm, *state[:2], wanted, **loads), state[2], 1e-9)
    for module in (articulated_body, denoc, partition):
        close(module.forward_dynamics(arm, *state, **loads), wanted, 1e-10)
    for method in METHODS:
        found = spatial_operators.forward_dynamics(arm, *state, **loads, method=method)
        close(found, wanted, 1e-10)
    found = newton_euler.joint_wrenches(arm, *state[:2], wanted, **loads)
    close(partition.joint_wrenches(arm, *state, **loads), found, 1e-10)


@pytest.mark.parametrize("kinds", KINDS)
def test_articulated_bodies_are_those_of_the_book(kinds):
    arm, state, loads = case(kinds, 2, n=9)
    wanted = pass_of_the_book(arm, *state, **loads)
    close(articulated_body.forward_dynamics(arm, *state, **loads), wanted, 1e-10)
    many = [np.tile(x, (11, 1)) for x in state]
    found = articulated_body.forward_dynamics(arm, *many, **loads)
    close(found, np.tile(wanted, (11, 1)), 1e-10)


@pytest.mark.parametrize("geared", [False, True])
@pytest.mark.parametrize("kinds", KINDS)
def test_factors_of_the_inertia_matrix(kinds, geared):
    arm, (q, _, _), _ = case(kinds, 1, geared=geared)
    inertia = composite_body.inertia_matrix(arm, q)
    U, D = denoc.udut(arm, q)
    close(U @ D @ U.T, inertia)
    logdet = np.linalg.slogdet(inertia)[1]
    assert denoc.logdet_mass(arm, q) == pytest.approx(logdet, abs=1e-10)
    assert partition.logdet_mass(arm, q) == pytest.approx(logdet, abs=1e-10)
    blocks = articulated_body.pivots(arm, q)
    ends = zip(arm.rate_offsets[:-1], arm.rate_offsets[1:], blocks, strict=True)
    for first, last, block in ends:
        close(block, D[first:last, first:last])
    op = spatial_operators.operators(arm, q)
    close(op.factor @ op.D @ op.factor.T, inertia[np.ix_(op.order, op.order)])


@pytest.mark.peer
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_pinocchio_says_the_same(peer, kinds, seed):
    arm, (q, qd, tau), loads = case(kinds, seed)
    referee = Referee(peer("pinocchio"), arm, loads["gravity"])
    close(composite_body.inertia_matrix(arm, q), referee.inertia(q), 1e-12)
    found = newton_euler.inverse_dynamics(arm, q, qd, tau, **loads)
    close(found, referee.inverse(q, qd, tau, loads["wrenches"]), 1e-12)
    found = articulated_body.forward_dynamics(arm, q, qd, tau, **loads)
    close(found, referee.forward(q, qd, tau, loads["wrenches"]), 1e-10)
    C = composite_body.convective_matrix(arm, q, qd)
    close(C @ qd, referee.coriolis(q, qd) @ qd, 1e-12)


# --- kinematics -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kinds", KINDS)
def test_coordinates_follow_rates_and_lead_back(kinds):
    arm, (q, qd, other), _ = case(kinds, 2)
    end = kinematics.integrate(arm, q, qd, 0.3)
    assert kinematics.difference(arm, q, end) == pytest.approx(0.3 * qd, abs=1e-14)
    half = kinematics.integrate(arm, kinematics.integrate(arm, q, qd, 0.1), qd, 0.2)
    assert kinematics.difference(arm, end, half) == pytest.approx(0 * qd, abs=1e-14)
    end = kinematics.integrate(arm, q, other, 0.5)
    same = kinematics.integrate(arm, q, kinematics.difference(arm, q, end))
    for one, two in zip(kinematics.frames(arm, end), kinematics.frames(arm, same), strict=True):
        assert one == pytest.approx(two, abs=1e-13)


@pytest.mark.parametrize("kinds", KINDS)
def test_jacobians_and_compliance(kinds):
    arm, (q, _, _), _ = case(kinds, 2)
    last, point = arm.n - 1, (0.1, 0.2, 0.3)
    J = kinematics.jacobian(arm, q, last, point)
    numbers = slopes(lambda x: kinematics.position(arm, x, last, point), arm, q)
    assert J[:3] == pytest.approx(numbers, abs=1e-8)
    w = np.arange(6.0)
    close(kinematics.jacobian_transpose(arm, q, w, last, point), J.T @ w, 1e-13)
    inertia = composite_body.inertia_matrix(arm, q)
    found = kinematics.operational_space_compliance(arm, q, last, point)
    close(found, J @ np.linalg.solve(inertia, J.T))


def test_planar_joints_turn_the_shorter_way():
    arm, (q, _, _), _ = case("planar", 1)
    for turns in (0.0, 0.5, 1.0, 7.25):
        end = q + np.tile([1.0, 2.0, 2 * np.pi * turns], arm.n)
        way = kinematics.difference(arm, q, end)
        assert np.abs(way[2::3]).max() <= np.pi + 1e-12
        same = kinematics.integrate(arm, q, way)
        for one, two in zip(kinematics.frames(arm, end), kinematics.frames(arm, same), strict=True):
            assert one == pytest.approx(two, abs=1e-11)


def test_a_nut_advances_by_its_pitch():
    parts = [np.eye(3)], np.zeros((1, 3)), [2.0], np.zeros((1, 3)), [np.eye(3)]
    nut = SerialChain(["helical"], *parts, pitch=0.5)
    assert kinematics.position(nut, [3.0], 0) == pytest.approx([0, 0, 1.5])
    assert composite_body.inertia_matrix(nut, [3.0]) == pytest.approx(1 + 2 * 0.25)
    fall = articulated_body.forward_dynamics(nut, [0.0], [0.0], [0.0], gravity=(0, 0, -9.0))
    assert fall == pytest.approx(-9.0 * 2 * 0.5 / 1.5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"joints": ["helical", "revolute"], "pitch": [0.1, 0.2]}, "joint 1 has no pitch"),
        ({"joints": ["helical", "planar"], "pitch": [0.1]}, r"pitch must be a number or have"),
        ({"joints": ["helical", "planar"], "pitch": [np.nan, 0.0]}, "pitch is nan at joint 0"),
        ({"joints": ["revolute", "planar"], "pitch": 0.1}, "joint 0 has no pitch"),
        ({"joints": ["planar", "helical"]}, "joint 1, which is helical, needs a pitch"),
        ({"joints": ["revolute", "planar"], "stiffness": 1.0}, "stiffness of rate 1 must be 0"),
        ({"joints": ["screw", "planar"]}, "joint 0 is 'screw': expected one of"),
    ],
)
def test_what_joints_do_not_have_is_refused(given, said):
    eye, zero = [np.eye(3)] * 2, np.zeros((2, 3))
    with pytest.raises(ValueError, match=said):
        SerialChain(given.pop("joints"), eye, zero, [1.0, 1.0], zero, eye, **given)


# --- motion, statistics, closures -----------------------------------------------------------------


@pytest.mark.parametrize("geared", [False, True])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize(("scheme", "ratio"), [("midpoint", 5.0), ("euler", 3.0)])
def test_motion_in_time_is_of_the_order_of_its_scheme(kinds, geared, scheme, ratio):
    arm, (q, qd, _), _ = case(kinds, 1, geared=geared)
    runs = [
        motion.simulate(arm, q, 0.5 / n, n, qd=0.3 * qd, gravity=(0, 0, -1.0), scheme=scheme)
        for n in (50, 100, 200)
    ]
    last = runs[2].q[-1]
    coarse, fine = (np.abs(kinematics.difference(arm, last, run.q[-1])).max() for run in runs[:2])
    assert coarse / fine == pytest.approx(ratio, rel=0.05)
    if scheme == "midpoint":
        assert np.ptp(runs[2].energy) < 1e-5


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_the_tangent_is_of_second_order(kinds, seed):
    arm, (q, qd, _), _ = case(kinds, seed)
    left = [np.abs(left_by_newton(arm, q, qd, dt)).max() for dt in (0.02, 0.01)]
    assert np.log2(left[0] / left[1]) > 1.8


@pytest.mark.parametrize("kinds", KINDS)
def test_fixman_s_torque_is_the_gradient_of_his_potential(kinds):
    arm, (q, _, _), _ = case(kinds, 1)
    numbers = slopes(lambda x: statistics.fixman_potential(arm, x), arm, q)
    assert statistics.fixman_torque(arm, q) == pytest.approx(-numbers, abs=1e-7)


@pytest.mark.parametrize("kinds", KINDS)
def test_thermal_rates_have_the_covariance_of_the_inertia(kinds):
    arm, (q, _, _), _ = case(kinds, 1, n=3, geared=True)
    square = np.empty((arm.nv, arm.nv))  # the map from noise to rates, column by column
    for k in range(arm.nv):
        square[:, k] = statistics.smoothed(arm, q, np.eye(arm.nv)[k])
    close(square @ square.T, np.linalg.inv(composite_body.inertia_matrix(arm, q)))


def test_langevin_dynamics_of_planar_joints_keep_the_energy_without_friction():
    arm, (q, qd, _), _ = case("planar", 1, n=3)
    q, qd = statistics.langevin(arm, q, 0.05, 40, friction=0.0, kT=1.0, qd=qd, rng=0)
    energy = kinematics.kinetic_energy(arm, q, qd)
    assert np.ptp(energy) < 1e-6 * energy.mean()


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_loops_against_a_dense_solve(kinds, seed):
    arm, (q, qd, tau), loads = case(kinds, seed, n=6)
    other = replace(arm, translations=arm.translations + 0.1)
    ends = End(arm.n - 1, (0.1, 0.2, 0.3)), End(arm.n - 2, (-0.1, 0.0, 0.2), chain=1)
    linkage = Linkage((arm, other), (Closure(*ends, "ball"),))
    start = np.concatenate([q, kinematics.integrate(other, q, 0.01 * tau)])
    x, v = closed.project(linkage, start, np.concatenate([qd, qd]))
    force, W = np.concatenate([tau, -tau]), np.concatenate([loads["wrenches"]] * 2)
    found = closed.forward_dynamics(linkage, x, v, force, gravity=loads["gravity"], wrenches=W)
    wanted = dense_closed(linkage, x, v, force, loads["gravity"], W)
    close(found.qdd, wanted[0], 1e-9)
    close(found.wrenches, wanted[1], 1e-9)
    numbers = slopes_of_linkage(linkage, x)
    assert closed.fixman_torque(linkage, x) == pytest.approx(-numbers, abs=1e-6)


def slopes_of_linkage(linkage, x):
    def along(e):
        ends = (closed.integrate(linkage, x, e, step) for step in (STEP, -STEP))
        after, before = (closed.fixman_potential(linkage, end) for end in ends)
        return (after - before) / (2 * STEP)

    return np.array([along(e) for e in np.eye(linkage.nv)])


# --- files ----------------------------------------------------------------------------------------


def test_planar_joints_of_a_file(tmp_path):
    file = tmp_path / "sled.urdf"
    inertial = (
        '<inertial><mass value="2"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/>'
        "</inertial>"
    )
    file.write_text(
        f'<robot name="sled"><link name="ice"/><link name="sled">{inertial}</link>'
        '<joint name="slip" type="planar"><parent link="ice"/><child link="sled"/>'
        '<origin xyz="0 0 1"/><axis xyz="0 1 0"/><dynamics damping="0.5"/></joint></robot>'
    )
    robot = urdf.read(file)
    assert robot.chain.joints == ("planar",)
    assert robot.chain.damping.tolist() == [0.5] * 3
    assert robot.chain.rotations[0, :, 2] == pytest.approx([0, 1, 0])
    qdd = articulated_body.forward_dynamics(
        robot.chain, np.zeros(3), np.zeros(3), np.zeros(3), gravity=(0, -9.0, -1.0)
    )
    world = robot.chain.rotations[0] @ [*qdd[:2], 0.0]
    assert world == pytest.approx([0, 0, -1.0])
    assert qdd[2] == 0.0
