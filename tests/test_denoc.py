"""Saha's UDUᵀ: the DeNOC matrices, the factors, forward dynamics, and what it cannot do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixman.errors import SingularConstraintError
from fixman.rigid import SerialChain, denoc, newton_euler, spatial_operators
from rigid_cases import changed, degenerate, random_state, scaled_residual
from rigid_oracles import Referee, exact_acceleration, random_q

SEEDS = st.integers(0, 2**32 - 1)


def error(found, wanted):
    return np.abs(found - wanted).max() / np.abs(wanted).max()


def any_state(seed, most=60):
    rng = np.random.default_rng(seed)
    return random_state(int(rng.integers(1, most + 1)), rng, free_base=bool(rng.integers(2)))


# --- the matrices ------------------------------------------------------------------------------


@given(SEEDS)
def test_denoc_matrices_make_the_inertia_matrix(peer, seed):
    """I = N_dᵀ N_lᵀ M N_l N_d (saha_1999, eq. 21)."""
    arm, (q, _, _), _ = any_state(seed, most=12)
    N = denoc.n_l(arm, q) @ denoc.n_d(arm)
    M = np.zeros((arm.n, 6, arm.n, 6))
    for i in range(arm.n):
        M[i, :3, i, :3] = arm.inertias[i]
        M[i, 3:, i, 3:] = arm.masses[i] * np.eye(3)
    inertia = N.T @ M.reshape(6 * arm.n, -1) @ N
    assert error(inertia, Referee(peer("pinocchio"), arm).inertia(q)) <= 1e-12


@given(SEEDS)
def test_inverse_of_n_l_is_bidiagonal(seed):
    arm, (q, _, _), _ = any_state(seed, most=8)
    blocks = np.linalg.inv(denoc.n_l(arm, q)).reshape(arm.n, 6, arm.n, 6).swapaxes(1, 2)
    for i in range(arm.n):
        for j in range(arm.n):
            if j not in (i - 1, i):
                assert np.abs(blocks[i, j]).max() <= 1e-9


@given(SEEDS)
def test_udut_is_the_inertia_matrix(peer, seed):
    arm, (q, _, _), _ = any_state(seed)
    U, D = denoc.udut(arm, q)
    assert error(U @ D @ U.T, Referee(peer("pinocchio"), arm).inertia(q)) <= 1e-12
    assert (np.tril(U, -1) == 0).all()
    assert (np.diag(U) == 1).all()
    joint = np.repeat(np.arange(arm.n), np.diff(arm.rate_offsets))
    same = joint[:, None] == joint
    assert (D[~same] == 0).all()
    assert (U[same] == np.eye(arm.nv)[same]).all()


@given(SEEDS)
def test_pivots_are_those_of_the_innovations_factorization(seed):
    """m̂_i (saha_1996, eq. 32) = D(k) (rodriguez_kreutz_1988, eq. 4.6), and U = I + H Φ L."""
    arm, (q, _, _), _ = any_state(seed, most=20)
    U, D = denoc.udut(arm, q)
    report = spatial_operators.operators(arm, q)
    order = np.ix_(report.order, report.order)
    assert error(D[order], report.D) <= 1e-13
    assert error(U[order], report.factor) <= 1e-11


@given(SEEDS)
def test_logdet(peer, seed):
    arm, (q, _, _), _ = any_state(seed)
    sign, wanted = np.linalg.slogdet(Referee(peer("pinocchio"), arm).inertia(q))
    assert sign > 0
    assert denoc.logdet_mass(arm, q) == pytest.approx(wanted, abs=1e-10 * arm.n)


# --- forward dynamics --------------------------------------------------------------------------


@given(SEEDS)
def test_forward_dynamics_agrees_with_pinocchio(peer, seed):
    arm, state, forces = any_state(seed)
    referee = Referee(peer("pinocchio"), arm, forces["gravity"])
    wanted = referee.forward(*state, forces["wrenches"])
    assert error(denoc.forward_dynamics(arm, *state, **forces), wanted) <= 1e-10


@given(SEEDS)
def test_inverse_of_forward_is_the_identity(seed):
    arm, (q, qd, tau), forces = any_state(seed)
    qdd = denoc.forward_dynamics(arm, q, qd, tau, **forces)
    back = newton_euler.inverse_dynamics(arm, q, qd, qdd, **forces)
    size = np.abs(newton_euler.joint_wrenches(arm, q, qd, qdd, **forces)).max()
    assert np.abs(back - tau).max() <= 1e-9 * max(1.0, size)
    assert scaled_residual(arm, (q, qd, tau), qdd, **forces) <= 1e-10


def test_digits_are_lost_with_the_length_as_published():
    """The bias grows and is subtracted first; the error stays below 1e-8 at 10⁴ links."""
    loss = {}
    for n in (10, 1000, 10_000):
        rng = np.random.default_rng(n)
        arm, state, _ = random_state(n, rng, joints=("revolute", "prismatic"))
        loss[n] = scaled_residual(arm, state, denoc.forward_dynamics(arm, *state))
    assert loss[10] <= 1e-14
    assert 1e-13 <= loss[1000] <= 1e-9
    assert 1e-12 <= loss[10_000] <= 1e-7


def test_batches_are_their_frames():
    arm, (_, qd, tau), forces = any_state(7, most=9)
    rng = np.random.default_rng(0)
    qs = np.array([[random_q(arm, rng) for _ in range(3)] for _ in range(2)])
    wrenches = rng.normal(size=(2, 1, arm.n, 6))
    gravity = forces["gravity"]
    out = denoc.forward_dynamics(arm, qs, qd, tau, gravity=gravity, wrenches=wrenches)
    U, D = denoc.udut(arm, qs)
    logdet = denoc.logdet_mass(arm, qs)
    assert out.shape == (2, 3, arm.nv)
    assert U.shape == D.shape == (2, 3, arm.nv, arm.nv)
    for i, j in np.ndindex(2, 3):
        one = {"gravity": gravity, "wrenches": wrenches[i, 0]}
        assert (out[i, j] == denoc.forward_dynamics(arm, qs[i, j], qd, tau, **one)).all()
        assert (U[i, j] == denoc.udut(arm, qs[i, j])[0]).all()
        assert logdet[i, j] == denoc.logdet_mass(arm, qs[i, j])
    assert denoc.forward_dynamics(arm, qs[:0], qd, tau).shape == (0, 3, arm.nv)


# --- degenerate input --------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_degenerate_chains_are_right_or_refused(peer, seed):
    peer("mpmath")
    rng = np.random.default_rng(seed)
    answered = 0
    for name, arm, q in degenerate(rng, int(rng.integers(1, 6))):
        qd, tau = rng.normal(size=(2, arm.nv))
        gravity = (0.0, 1.0, -9.0)
        try:
            found = denoc.forward_dynamics(arm, q, qd, tau, gravity=gravity)
        except SingularConstraintError:
            continue
        U, D = denoc.udut(arm, q)
        inverse = np.linalg.inv(U @ D @ U.T)
        wanted = exact_acceleration(arm, q, qd, tau, found, inverse, gravity)
        assert error(found, wanted) <= 1e-8, name
        answered += 1
    assert answered >= 8


def test_lost_pivots_name_the_body():
    arm = SerialChain.planar(np.ones(4), np.ones(4), np.ones(4))
    on_axis = changed(arm, inertias=np.zeros((4, 3, 3)), centres=np.zeros((4, 3)))
    zero = np.zeros(4)
    for call in (denoc.udut, denoc.logdet_mass):
        with pytest.raises(SingularConstraintError, match="joint 3 moves is zero"):
            call(on_axis, zero)
    with pytest.raises(SingularConstraintError, match="joint 3 moves in frame 0 is zero"):
        denoc.forward_dynamics(on_axis, np.zeros((2, 4)), zero, zero)


def test_pivots_that_are_rounding_are_refused():
    # A body in a plane has three freedoms: five joints that move it alone are two too many.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        arm = SerialChain.planar(*rng.uniform(0.5, 2.0, (3, 5)))
        masses, inertias = arm.masses.copy(), arm.inertias.copy()
        masses[:-1], inertias[:-1] = 0.0, 0.0
        light = changed(arm, masses=masses, inertias=inertias)
        q = rng.uniform(-2.0, 2.0, 5)
        with pytest.raises(SingularConstraintError, match="joint 1 moves"):
            denoc.logdet_mass(light, q)
        with pytest.raises(SingularConstraintError, match="joint 1 moves"):
            spatial_operators.forward_dynamics(light, q, q, q)


@pytest.mark.parametrize("free_base", [False, True])
@pytest.mark.parametrize("joint", ["revolute", "prismatic", "spherical"])
def test_coordinates_without_a_part_in_the_inertia_must_be_finite(joint, free_base):
    arm = SerialChain.random(2, 0, joints=(joint,), free_base=free_base)
    q = random_q(arm, np.random.default_rng(1))
    for k in range(arm.nq):
        for bad in (np.nan, np.inf):
            broken = np.where(np.arange(arm.nq) == k, bad, q)
            for call in (denoc.udut, denoc.logdet_mass, denoc.n_l):
                with pytest.raises(ValueError, match=f"q is {bad} at coordinate {k}"):
                    call(arm, broken)


def test_logdet_of_one_state_is_a_number():
    arm = SerialChain.random(3, 0)
    value = denoc.logdet_mass(arm, random_q(arm, np.random.default_rng(1)))
    assert isinstance(value, float)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("part", ["translations", "centres"])
def test_lengths_that_overflow_are_an_error(part):
    for size in (1e160, 1e200, 1e307):
        arm = SerialChain.random(4, 1, free_base=True)
        arm = changed(arm, **{part: size * getattr(arm, part)})
        q, ones = random_q(arm, np.random.default_rng(1)), np.ones(arm.nv)
        for call, *rest in [
            (denoc.udut,),
            (denoc.logdet_mass,),
            (denoc.forward_dynamics, ones, ones),
        ]:
            with pytest.raises(ValueError, match="overflow"):
                call(arm, q, *rest)


def test_bad_input_is_named():
    arm = SerialChain.random(3, 0, joints=("spherical",), free_base=True)
    rng = np.random.default_rng(1)
    q, qd, tau = random_q(arm, rng), rng.normal(size=arm.nv), rng.normal(size=arm.nv)
    for k, name in enumerate(("q", "qd", "tau")):
        arguments = [q.copy(), qd.copy(), tau.copy()]
        arguments[k][1] = np.nan
        with pytest.raises(ValueError, match=rf"^{name} is nan at (coordinate|rate) 1:"):
            denoc.forward_dynamics(arm, *arguments)
    with pytest.raises(ValueError, match="gravity is inf"):
        denoc.forward_dynamics(arm, q, qd, tau, gravity=(0, np.inf, 0))
    with pytest.raises(ValueError, match="wrenches is nan"):
        denoc.forward_dynamics(arm, q, qd, tau, wrenches=np.full((3, 6), np.nan))
    bad = q.copy()
    bad[-1] += 0.1
    for call in (denoc.udut, denoc.logdet_mass, denoc.n_l):
        with pytest.raises(ValueError, match="quaternion of joint 2 has norm"):
            call(arm, bad)
    with pytest.raises(ValueError, match="one configuration"):
        denoc.n_l(arm, q[None])
    with pytest.raises(ValueError, match="qd must have shape"):
        denoc.forward_dynamics(arm, q, qd[:-1], tau)
    with pytest.raises(ValueError, match="overflowed"):
        denoc.forward_dynamics(arm, q, qd, np.full(arm.nv, 1e308))
