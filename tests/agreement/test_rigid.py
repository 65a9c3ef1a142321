"""Every algorithm for rigid chains against Pinocchio, the others, and extended precision."""

from functools import cache
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest

from fixman.rigid import SerialChain, composite_body, newton_euler
from oracles import error
from rigid_oracles import Referee, exact_acceleration, exact_dynamics, move, random_q
from selection import quick

# Chains are taken in parcels, since a test each would be a thousand tests.
CHAINS, PARCEL = 200, 20
parcels = pytest.mark.parametrize("first", quick(range(0, CHAINS, PARCEL), 0, PARCEL))

ALGORITHMS = {
    "composite_body": ("composite_body", {}),
    "denoc": ("denoc", {}),
    "articulated_body": ("articulated_body", {}),
    "fd1": ("spatial_operators", {"method": "fd1"}),
    "fd3": ("spatial_operators", {"method": "fd3"}),
    "partition": ("partition", {}),
    "refined partition": ("partition", {"refine": 1}),
}
algorithms = pytest.mark.parametrize("name", ALGORITHMS)


def room(name):
    return import_module(f"fixman.rigid.{name}")


@cache
def chain(seed, joints=("revolute", "prismatic", "spherical"), n=None):
    """Return a random chain in motion, under gravity and wrenches on every body."""
    rng = np.random.default_rng(seed)
    n = seed % 60 + 1 if n is None else n
    arm = SerialChain.random(n, rng, joints=joints, free_base=bool(rng.integers(2)))
    qd, qdd, tau = rng.normal(size=(3, arm.nv))
    loads = {"gravity": rng.normal(size=3) * 6, "wrenches": rng.normal(size=(n, 6))}
    return SimpleNamespace(arm=arm, q=random_q(arm, rng), qd=qd, qdd=qdd, tau=tau, loads=loads)


def forward(name, c):
    module, options = ALGORITHMS[name]
    return room(module).forward_dynamics(c.arm, c.q, c.qd, c.tau, **options, **c.loads)


def parcel(first, **options):
    for seed in range(first, first + PARCEL):
        yield seed, chain(seed, **options)


@pytest.mark.peer
@parcels
def test_inverse_dynamics_and_joint_wrenches_agree_with_rnea(peer, first):
    pin = peer("pinocchio")
    for seed, c in parcel(first):
        referee = Referee(pin, c.arm, c.loads["gravity"])
        motion = (c.q, c.qd, c.qdd)
        tau = newton_euler.inverse_dynamics(c.arm, *motion, **c.loads)
        assert error(tau, referee.inverse(*motion, c.loads["wrenches"])) <= 1e-11, seed
        inner = newton_euler.joint_wrenches(c.arm, *motion, **c.loads)
        expected = referee.joint_wrenches(*motion, c.loads["wrenches"])
        assert error(inner, expected) <= 1e-11, seed


@pytest.mark.peer
@parcels
def test_inertia_and_convective_matrices_agree_with_pinocchio(peer, first):
    pin = peer("pinocchio")
    for seed, c in parcel(first):
        referee = Referee(pin, c.arm)
        assert error(composite_body.inertia_matrix(c.arm, c.q), referee.inertia(c.q)) <= 1e-11, seed
        expected = referee.coriolis(c.q, c.qd)
        # A single joint has no convective terms, only rounding.
        size = np.abs(expected).max() if c.arm.nv > 1 else 1.0
        christoffel = composite_body.convective_matrix(c.arm, c.q, c.qd, christoffel=True)
        assert np.abs(christoffel - expected).max() <= 1e-11 * size, seed
        # The paper's matrix is another one: what is unique are C θ̇ and C + Cᵀ = İ.
        C = composite_body.convective_matrix(c.arm, c.q, c.qd)
        assert np.abs((C - expected) @ c.qd).max() <= 1e-11 * size, seed
        assert np.abs(C + C.T - expected - expected.T).max() <= 1e-11 * size, seed


@pytest.mark.peer
@algorithms
@parcels
def test_forward_dynamics_agrees_with_aba(peer, name, first):
    pin = peer("pinocchio")
    for seed, c in parcel(first):
        referee = Referee(pin, c.arm, c.loads["gravity"])
        expected = referee.forward(c.q, c.qd, c.tau, c.loads["wrenches"])
        assert error(forward(name, c), expected) <= 1e-10, seed


@pytest.mark.peer
@algorithms
def test_forward_dynamics_agrees_with_plain_aba_where_that_has_the_digits(peer, name):
    pin = peer("pinocchio")
    for seed in range(40):
        c = chain(seed, joints=("revolute", "prismatic"))
        referee = Referee(pin, c.arm, c.loads["gravity"])
        expected = referee.aba(c.q, c.qd, c.tau, c.loads["wrenches"])
        assert error(forward(name, c), expected) <= 1e-10, seed


@parcels
def test_forward_dynamics_agree_with_each_other(first):
    for seed, c in parcel(first):
        results = np.array([forward(name, c) for name in ALGORITHMS])
        spread = results.max(0) - results.min(0)
        assert spread.max() <= 1e-10 * np.abs(results[0]).max(), seed


@algorithms
@parcels
def test_inverse_of_forward_is_the_identity(name, first):
    for seed, c in parcel(first):
        qdd = forward(name, c)
        back = newton_euler.inverse_dynamics(c.arm, c.q, c.qd, qdd, **c.loads)
        assert error(back, c.tau) <= 1e-9, seed


@pytest.mark.parametrize("n", [1, 2, 7, 20])
def test_inverse_dynamics_against_the_second_law_in_extended_precision(n):
    for seed in range(3):
        c = chain(seed, n=n)
        motion = (c.arm, c.q, c.qd, c.qdd)
        tau, joints = exact_dynamics(*motion, **c.loads)
        assert error(newton_euler.inverse_dynamics(*motion, **c.loads), tau.astype(float)) <= 3e-15
        inner = newton_euler.joint_wrenches(*motion, **c.loads)
        assert error(inner, joints.astype(float)) <= 3e-15


@algorithms
def test_forward_dynamics_against_extended_precision(name):
    for seed, n in enumerate([1, 5, 20, 50]):
        c, expected = _exact_forward(seed, n)
        assert error(forward(name, c), expected) <= 1e-12, n


@cache
def _exact_forward(seed, n):
    c = chain(seed, n=n, joints=("revolute", "prismatic"))
    inverse = np.linalg.inv(composite_body.inertia_matrix(c.arm, c.q))
    start = composite_body.forward_dynamics(c.arm, c.q, c.qd, c.tau, **c.loads)
    return c, exact_acceleration(c.arm, c.q, c.qd, c.tau, start, inverse, **c.loads)


def test_the_rate_of_the_inertia_matrix_minus_twice_c_is_skew():
    for seed in range(30):
        c = chain(seed)
        h = 1e-5
        ahead, behind = (
            composite_body.inertia_matrix(c.arm, move(c.arm, c.q, c.qd, s)) for s in (h, -h)
        )
        rate = (ahead - behind) / (2 * h)
        for christoffel in (False, True):
            C = composite_body.convective_matrix(c.arm, c.q, c.qd, christoffel=christoffel)
            assert np.abs(rate - C - C.T).max() <= 1e-6 * np.abs(ahead).max(), seed


def test_convective_terms_and_columns_of_the_inertia_matrix_are_inverse_dynamics():
    for seed in range(60):
        c = chain(seed)
        still = np.zeros(c.arm.nv)
        terms = newton_euler.inverse_dynamics(c.arm, c.q, c.qd, still)
        C = composite_body.convective_matrix(c.arm, c.q, c.qd)
        size = np.abs(C).max() * np.abs(c.qd).max()
        assert np.abs(C @ c.qd - terms).max() <= 1e-13 * size
        matrix = composite_body.inertia_matrix(c.arm, c.q)
        columns = newton_euler.inverse_dynamics(c.arm, c.q, still, np.eye(c.arm.nv))
        assert error(columns, matrix) <= 1e-13
        np.testing.assert_array_equal(matrix, matrix.T)


def test_pivots_of_three_algorithms_are_one_number():
    udut, operators = room("denoc").udut, room("spatial_operators").operators
    inertias = room("articulated_body").pivots
    for seed in range(60):
        c = chain(seed)
        U, D = udut(c.arm, c.q)
        seen = operators(c.arm, c.q)
        assert error(seen.D, D[np.ix_(seen.order, seen.order)]) <= 1e-12, seed
        for i, block in enumerate(inertias(c.arm, c.q)):
            rates = slice(c.arm.rate_offsets[i], c.arm.rate_offsets[i + 1])
            assert error(np.reshape(block, D[rates, rates].shape), D[rates, rates]) <= 1e-12, seed
        # And they are what Gaussian elimination from the last row leaves on the diagonal.
        matrix = composite_body.inertia_matrix(c.arm, c.q)
        assert error(U @ D @ U.T, matrix) <= 1e-13, seed
        chart = chain(seed, joints=("revolute", "prismatic"))
        if chart.arm.joints[0] == "free":
            continue
        matrix = composite_body.inertia_matrix(chart.arm, chart.q)
        pivots = np.diag(np.linalg.cholesky(matrix[::-1, ::-1]))[::-1] ** 2
        D = np.diag(udut(chart.arm, chart.q)[1])
        np.testing.assert_allclose(D, pivots, rtol=1e-9)


def test_determinants_agree():
    partition, denoc = room("partition"), room("denoc")
    for seed in range(CHAINS):
        c = chain(seed)
        matrix = composite_body.inertia_matrix(c.arm, c.q)
        expected = np.linalg.slogdet(matrix)[1]
        assert abs(partition.logdet_mass(c.arm, c.q) - expected) <= 1e-10 * c.arm.n, seed
        assert abs(denoc.logdet_mass(c.arm, c.q) - expected) <= 1e-10 * c.arm.n, seed


def test_joint_wrenches_of_the_partition_are_those_of_newton_and_euler():
    partition = room("partition")
    for seed in range(CHAINS):
        c = chain(seed)
        qdd = partition.forward_dynamics(c.arm, c.q, c.qd, c.tau, refine=1, **c.loads)
        expected = newton_euler.joint_wrenches(c.arm, c.q, c.qd, qdd, **c.loads)
        inner = partition.joint_wrenches(c.arm, c.q, c.qd, c.tau, **c.loads)
        assert error(inner, expected) <= 1e-10, seed


@pytest.mark.parametrize("n", [100, 10_000])
def test_straight_arms_whose_axes_alternate_keep_their_digits(n):
    """Right angles must be exact: a straight arm multiplies an error of its shape by n²."""
    articulated_body, partition = room("articulated_body"), room("partition")
    rng = np.random.default_rng(n)
    up = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    rotations = np.tile(np.eye(3), (n, 1, 1))
    rotations[1::2], rotations[2::2] = up, up.T
    translations, centres = np.zeros((2, n, 3))
    translations[1:, 0], centres[:, 0] = 1.0, 0.5
    inertias = np.tile(0.1 * np.eye(3), (n, 1, 1))
    masses = rng.uniform(0.5, 2.0, n)
    arm = SerialChain(("revolute",) * n, rotations, translations, masses, centres, inertias)
    q, qd, tau = np.zeros(n), rng.normal(size=n) / np.sqrt(n), rng.normal(size=n)
    gravity = (0, 0, -9.81)
    for answer in (
        articulated_body.forward_dynamics(arm, q, qd, tau, gravity=gravity),
        partition.forward_dynamics(arm, q, qd, tau, gravity=gravity, refine=1),
    ):
        residual = tau - newton_euler.inverse_dynamics(arm, q, qd, answer, gravity=gravity)
        correction = partition.forward_dynamics(arm, q, 0 * qd, residual)
        assert np.abs(correction).max() <= 1e-13 * np.abs(answer).max()
