"""Rodriguez and Kreutz's operators: the appendix's identities, factorizations, FD1, FD3, Λ⁻¹."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixman.errors import SingularConstraintError
from fixman.rigid import SerialChain, newton_euler, spatial_operators
from rigid_cases import changed, degenerate, random_state, scaled_residual
from rigid_oracles import Referee, exact_acceleration, random_q
from selection import quick

SEEDS = st.integers(0, 2**32 - 1)
METHODS = ("fd1", "fd3")


def error(found, wanted):
    return np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300)


def any_state(seed, most=60):
    rng = np.random.default_rng(seed)
    return random_state(int(rng.integers(1, most + 1)), rng, free_base=bool(rng.integers(2)))


# --- operators ---------------------------------------------------------------------------------


def identities(o):
    """Yield number, left and right side of the identities of appendix A."""
    I6, I1 = np.eye(o.phi.shape[0]), np.eye(o.D.shape[0])
    H, L, G, S, P, M, D = o.H, o.L, o.G, o.S, o.P, o.M, o.D
    ϕ, Φ, ψ, Ψ = o.phi, o.Phi, o.psi, o.Psi
    ϕt, ψt = ϕ - I6, ψ - I6  # with a tilde
    Di = np.linalg.inv(D)
    yield "a.1", D, H @ P @ H.T
    yield "a.2", G, P @ H.T @ Di
    yield "a.6", Φ, ϕ @ S
    yield "a.7", Ψ, ψ @ S
    yield "a.8", Ψ @ o.delta_psi, ψt
    yield "a.9", Φ @ o.delta_phi, ϕt
    yield "a.10", np.linalg.inv(ψ), I6 - S @ o.delta_psi
    yield "a.11", np.linalg.inv(ϕ), I6 - S @ o.delta_phi
    yield "a.12", L, o.delta_phi @ G
    yield "a.13", ϕt @ G, Φ @ L
    yield "a.14", ϕ, ψ @ (I6 + S @ L @ H @ ϕ)
    yield "a.15", ψ, (I6 - Ψ @ L @ H) @ ϕ
    yield "a.16", Φ, Ψ @ (I6 + L @ H @ Φ)
    yield "a.17", Ψ, (I6 - Ψ @ L @ H) @ Φ
    yield "a.18", ϕ - ψ, Ψ @ L @ H @ ϕ
    yield "a.22", ϕ, (I6 + Φ @ L @ H) @ ψ
    yield "a.23", ψ, ϕ @ (I6 - S @ L @ H @ ψ)
    yield "a.24", Φ, (I6 + Φ @ L @ H) @ Ψ
    yield "a.25", Ψ, Φ @ (I6 - L @ H @ Ψ)
    yield "a.26", Φ @ L @ H @ ψ, Ψ @ L @ H @ ϕ
    yield "a.27", Φ @ L @ H @ Ψ, Ψ @ L @ H @ Φ
    yield "a.32", H @ ϕ, (I1 + H @ Φ @ L) @ H @ ψ
    yield "a.33", H @ Φ, (I1 + H @ Φ @ L) @ H @ Ψ
    yield "a.34", H @ Ψ, H @ Φ @ (I6 - L @ H @ Ψ)
    yield "a.35 and 5.4", H @ ψ, (I1 - H @ Ψ @ L) @ H @ ϕ
    yield "a.36", H @ Ψ, (I1 - H @ Ψ @ L) @ H @ Φ
    yield "a.37", H @ Φ, H @ Ψ @ (I6 + L @ H @ Φ)
    yield "a.38", H @ Φ @ L @ H @ Ψ, H @ Ψ @ L @ H @ Φ
    yield "a.39", Φ @ L, Ψ @ L @ (I1 + H @ Φ @ L)
    yield "a.40", Ψ @ L, (I6 - Ψ @ L @ H) @ Φ @ L
    yield "a.41", Ψ @ L, Φ @ L @ (I1 - H @ Ψ @ L)
    yield "a.42", Φ @ L, (I6 + Φ @ L @ H) @ Ψ @ L
    yield "a.43", Ψ @ L @ H @ Φ @ L, Φ @ L @ H @ Ψ @ L
    yield "a.46", ψ @ M @ ϕ.T, P + ψt @ P + P @ ϕt.T
    yield "a.47", ψ @ M @ ψ.T, P + ψt @ P + P @ ψt.T
    yield "a.48", ϕ @ M @ ϕ.T, P + ϕt @ P + P @ ϕt.T + ϕt @ P @ H.T @ Di @ H @ P @ ϕt.T
    left = o.inverse_factor.T @ Di
    right = left @ H @ ψt @ P + L.T @ Ψ.T @ (I6 - G @ H).T + G.T
    yield "a.50", left @ H @ ψ @ M @ ϕ.T, right


@given(SEEDS)
def test_identities_of_the_appendix(seed):
    arm, (q, _, _), _ = any_state(seed, most=7)
    for number, left, right in identities(spatial_operators.operators(arm, q)):
        if left.shape[0] and np.abs(right).max() > 0:
            assert error(left, right) <= 1e-11, number
        else:
            assert np.abs(left).max() <= 1e-11, number


@given(SEEDS)
def test_lemma_a1(seed):
    """ψ M φᵀ = r + ψ̃ r + r φ̃ᵀ with r(k+1) = ψ r φᵀ + M, for any M (a.44–a.45)."""
    arm, (q, _, _), _ = any_state(seed, most=6)
    o = spatial_operators.operators(arm, q)
    n = arm.n
    M = np.kron(np.eye(n), np.ones((6, 6))) * np.random.default_rng(seed).normal(
        size=(6 * n, 6 * n)
    )
    R = o.psi @ M @ o.phi.T
    r = R * np.kron(np.eye(n), np.ones((6, 6)))
    one = np.eye(6 * n)
    assert error(R, r + (o.psi - one) @ r + r @ (o.phi - one).T) <= 1e-11


@given(SEEDS)
def test_factorizations_of_the_mass_matrix(peer, seed):
    arm, (q, _, _), _ = any_state(seed, most=30)
    o = spatial_operators.operators(arm, q)
    mass = Referee(peer("pinocchio"), arm).inertia(q)[np.ix_(o.order, o.order)]
    assert error(o.H @ o.phi @ o.M @ o.phi.T @ o.H.T, mass) <= 1e-12  # (3.20)
    assert error(o.factor @ o.D @ o.factor.T, mass) <= 1e-12  # (4.11)
    one = np.eye(arm.nv)
    assert np.abs(o.factor @ o.inverse_factor - one).max() <= 1e-10  # (4.14)
    inverse = o.inverse_factor.T @ np.linalg.inv(o.D) @ o.inverse_factor  # (4.16)
    assert np.abs(inverse @ mass - one).max() <= 1e-8
    assert np.abs(np.triu(o.factor, 1)).max() == 0
    assert np.linalg.slogdet(o.D)[1] == pytest.approx(np.linalg.slogdet(mass)[1], abs=1e-10 * arm.n)


@given(SEEDS)
def test_velocities_are_phi_h(peer, seed):
    """V = φᵀ Hᵀ θ̇ (3.12), and the tip's is J θ̇ with J = Bᵀ φᵀ Hᵀ (3.13)."""
    pin = peer("pinocchio")
    arm, (q, qd, _), _ = any_state(seed, most=12)
    o = spatial_operators.operators(arm, q)
    V = (o.phi.T @ o.H.T @ qd[o.order]).reshape(arm.n, 6)[::-1]
    referee = Referee(pin, arm)
    pin.forwardKinematics(referee.model, referee.data, q, qd)
    wanted = np.array([referee.data.v[i + 1].vector for i in range(arm.n)])
    assert error(np.roll(V, 3, axis=1), wanted) <= 1e-12
    tip = o.B.T @ o.phi.T @ o.H.T @ qd[o.order]
    assert error(np.roll(tip, 3), wanted[-1]) <= 1e-11


# --- forward dynamics --------------------------------------------------------------------------


@given(SEEDS)
def test_both_algorithms_agree_with_pinocchio(peer, seed):
    arm, state, forces = any_state(seed)
    referee = Referee(peer("pinocchio"), arm, forces["gravity"])
    wanted = referee.forward(*state, forces["wrenches"])
    for method in METHODS:
        found = spatial_operators.forward_dynamics(arm, *state, **forces, method=method)
        assert error(found, wanted) <= 1e-10, method


@given(SEEDS)
def test_inverse_of_forward_is_the_identity(seed):
    arm, (q, qd, tau), forces = any_state(seed)
    qdd = spatial_operators.forward_dynamics(arm, q, qd, tau, **forces)
    back = newton_euler.inverse_dynamics(arm, q, qd, qdd, **forces)
    size = np.abs(newton_euler.joint_wrenches(arm, q, qd, qdd, **forces)).max()
    assert np.abs(back - tau).max() <= 1e-11 * max(1.0, size)


@pytest.mark.parametrize("n", [1, 5, 20, 50])
def test_fd3_against_forty_digits(peer, n):
    peer("mpmath")
    rng = np.random.default_rng(n)
    arm, (q, qd, tau), forces = random_state(n, rng, free_base=n == 20)
    found = spatial_operators.forward_dynamics(arm, q, qd, tau, **forces)
    inverse = spatial_operators.forward_dynamics(arm, q, np.zeros(arm.nv), np.eye(arm.nv)).T
    given = forces["gravity"], forces["wrenches"]
    assert error(found, exact_acceleration(arm, q, qd, tau, found, inverse, *given)) <= 1e-12


@pytest.mark.parametrize("joints", [("revolute",), ("revolute", "prismatic", "spherical")])
@pytest.mark.parametrize("n", [100, 1000, 10_000])
def test_fd3_stays_at_rounding(n, joints):
    arm, state, forces = random_state(n, np.random.default_rng(n), joints=joints)
    qdd = spatial_operators.forward_dynamics(arm, *state, **forces)
    assert scaled_residual(arm, state, qdd, **forces) <= 1e-12


@pytest.mark.parametrize("shape", ["straight", "parallel axes"])
def test_fd3_on_planar_arms(shape):
    n = 10_000
    rng = np.random.default_rng(5)
    arm = SerialChain.planar(*rng.uniform(0.5, 2.0, (2, n)), rng.uniform(0.05, 0.2, n))
    q = np.zeros(n) if shape == "straight" else rng.normal(size=n)
    state = q, rng.normal(size=n), rng.normal(size=n)
    qdd = spatial_operators.forward_dynamics(arm, *state)
    assert scaled_residual(arm, state, qdd) <= 1e-12


def test_fd1_loses_digits_with_the_length_as_published():
    n = 3000
    arm, state, _ = random_state(n, np.random.default_rng(n), joints=("revolute", "prismatic"))
    loss = [
        scaled_residual(arm, state, spatial_operators.forward_dynamics(arm, *state, method=method))
        for method in ("fd1", "fd3")
    ]
    assert 1e-12 <= loss[0] <= 1e-8
    assert loss[1] <= 1e-12


# --- batches and errors ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_batches_are_their_frames(method):
    arm, (_, qd, tau), forces = any_state(7, most=6)
    rng = np.random.default_rng(0)
    qs = np.array([[random_q(arm, rng) for _ in range(3)] for _ in range(2)])
    wrenches = rng.normal(size=(2, 1, arm.n, 6))
    options = {"gravity": forces["gravity"], "method": method}
    call = spatial_operators.forward_dynamics
    out = call(arm, qs, qd, tau, wrenches=wrenches, **options)
    assert out.shape == (2, 3, arm.nv)
    for i, j in np.ndindex(2, 3):
        assert (out[i, j] == call(arm, qs[i, j], qd, tau, wrenches=wrenches[i, 0], **options)).all()
    assert call(arm, qs[:0], qd, tau, method=method).shape == (0, 3, arm.nv)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", quick(range(6), 0, 1))
def test_degenerate_chains_are_right_or_refused(peer, method, seed):
    peer("mpmath")
    rng = np.random.default_rng(seed)
    answered = 0
    for name, arm, q in degenerate(rng, int(rng.integers(1, 6))):
        qd, tau = rng.normal(size=(2, arm.nv))
        given = {"gravity": (0.0, 1.0, -9.0), "method": method}
        try:
            found = spatial_operators.forward_dynamics(arm, q, qd, tau, **given)
        except SingularConstraintError:
            continue
        zero, unit = np.zeros(arm.nv), np.eye(arm.nv)
        inverse = spatial_operators.forward_dynamics(arm, q, zero, unit).T
        wanted = exact_acceleration(arm, q, qd, tau, found, inverse, given["gravity"])
        assert error(found, wanted) <= 1e-8, name
        answered += 1
    assert answered >= 8


@pytest.mark.parametrize("method", METHODS)
def test_lost_pivots_name_the_body(method):
    arm = SerialChain.random(4, 0, joints=("revolute", "spherical"))
    masses, inertias = arm.masses.copy(), arm.inertias.copy()
    masses[2:], inertias[2:] = 0.0, 0.0
    light = changed(arm, masses=masses, inertias=inertias)
    q = random_q(arm, np.random.default_rng(0))
    zero = np.zeros(arm.nv)
    with pytest.raises(SingularConstraintError, match="joint 3 moves in frame 0 is zero"):
        spatial_operators.forward_dynamics(light, [q, q], zero, zero, method=method)
    with pytest.raises(SingularConstraintError, match="joint 3 moves is zero"):
        spatial_operators.operators(light, q)


@pytest.mark.parametrize("method", METHODS)
def test_bad_input_is_named(method):
    arm = SerialChain.random(3, 0, joints=("spherical",), free_base=True)
    rng = np.random.default_rng(1)
    call = spatial_operators.forward_dynamics
    q, qd, tau = random_q(arm, rng), rng.normal(size=arm.nv), rng.normal(size=arm.nv)
    for k, name in enumerate(("q", "qd", "tau")):
        arguments = [q.copy(), qd.copy(), tau.copy()]
        arguments[k][1] = np.nan
        with pytest.raises(ValueError, match=rf"^{name} is nan at (coordinate|rate) 1:"):
            call(arm, *arguments, method=method)
    with pytest.raises(ValueError, match="gravity is inf"):
        call(arm, q, qd, tau, gravity=(0, np.inf, 0), method=method)
    with pytest.raises(ValueError, match="wrenches is nan"):
        call(arm, q, qd, tau, wrenches=np.full((3, 6), np.nan), method=method)
    bad = q.copy()
    bad[-1] += 0.1
    with pytest.raises(ValueError, match="quaternion of joint 2 has norm"):
        call(arm, bad, qd, tau, method=method)


@pytest.mark.parametrize("joint", ["revolute", "prismatic", "spherical", "free"])
@pytest.mark.parametrize("method", METHODS)
def test_every_number_must_be_finite_whether_it_is_felt_or_not(joint, method):
    free = joint == "free"
    kinds = ("revolute",) if free else (joint,)
    for n in (1, 2):
        arm = SerialChain.random(n, 6, joints=kinds, free_base=free)
        arm = changed(arm, rotations=np.broadcast_to(np.eye(3), (n, 3, 3)))
        rest = np.zeros(arm.nv)
        q = random_q(arm, np.random.default_rng(7))
        given = [q, rest, rest, np.zeros((n, 6)), np.zeros(3)]
        for k, array in enumerate(given):
            for place in range(array.size):
                broken = [a.copy() for a in given]
                broken[k].flat[place] = np.nan
                *state, W, g = broken
                with pytest.raises(ValueError, match="is nan"):
                    spatial_operators.forward_dynamics(
                        arm, *state, wrenches=W, gravity=g, method=method
                    )
        for k in range(arm.nq):
            broken = np.where(np.arange(arm.nq) == k, np.inf, q)
            with pytest.raises(ValueError, match=f"q is inf at coordinate {k}"):
                spatial_operators.operators(arm, broken)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("part", ["translations", "centres"])
def test_lengths_that_overflow_are_an_error(part):
    for size in (1e160, 1e200, 1e307):
        arm = SerialChain.random(4, 1, free_base=True)
        arm = changed(arm, **{part: size * getattr(arm, part)})
        q, ones = random_q(arm, np.random.default_rng(1)), np.ones(arm.nv)
        calls = [(spatial_operators.forward_dynamics, {"method": method}) for method in METHODS]
        for call, options in calls:
            with pytest.raises(ValueError, match="overflow"):
                call(arm, q, ones, ones, **options)
        with pytest.raises(ValueError, match="overflow"):
            spatial_operators.operators(arm, q)


def test_other_bad_input_is_named():
    arm = SerialChain.random(3, 0, joints=("spherical",))
    q = random_q(arm, np.random.default_rng(1))
    zero = np.zeros(arm.nv)
    with pytest.raises(ValueError, match="method must be 'fd1' or 'fd3', got"):
        spatial_operators.forward_dynamics(arm, q, zero, zero, method="fd5")
    with pytest.raises(ValueError, match="the accelerations overflowed"):
        spatial_operators.forward_dynamics(arm, q, zero, zero + 1e308)
    with pytest.raises(ValueError, match="one configuration"):
        spatial_operators.operators(arm, q[None])
    with pytest.raises(ValueError, match="q is nan"):
        spatial_operators.operators(arm, np.full(arm.nq, np.nan))
