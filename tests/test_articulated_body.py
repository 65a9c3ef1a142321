"""Featherstone's algorithm: digits, batches, degenerate chains, pivots, and what it refuses."""

from __future__ import annotations

import math
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rigid_oracles as oracles
from fixman.errors import SingularConstraintError
from fixman.kernels.compiler.lanes import fill_sines
from fixman.rigid import articulated_body, model, newton_euler, partition
from fixman.rigid.model import SerialChain

forward_dynamics = articulated_body.forward_dynamics
GRAVITY = (0.3, -0.5, -9.81)
SINGLE = ("revolute", "prismatic")


def changed(arm, **parts):
    """Return the chain with other tables."""
    names = ("joints", "rotations", "translations", "masses", "centres", "inertias")
    return SerialChain(**{name: parts.get(name, getattr(arm, name)) for name in names})


def state(arm, rng):
    return oracles.random_q(arm, rng), rng.normal(size=arm.nv), rng.normal(size=arm.nv)


def inertia_matrix(arm, q):
    """Return the inertia matrix, one inverse dynamics a column."""
    columns = np.eye(arm.nv)
    still = np.zeros(arm.nv)
    return np.array([newton_euler.inverse_dynamics(arm, q, still, c) for c in columns]).T


def error(arm, q, qd, tau, wrenches=None):
    """Return the largest error of q̈ relative to the largest q̈."""
    got = forward_dynamics(arm, q, qd, tau, gravity=GRAVITY, wrenches=wrenches)
    inverse = np.linalg.inv(inertia_matrix(arm, q))
    exact = oracles.exact_acceleration(arm, q, qd, tau, got, inverse, GRAVITY, wrenches)
    return np.abs(got - exact).max() / np.abs(exact).max()


def small_turns(n, size, rng):
    """Return rotation matrices by angles of the order of ``size``."""
    half = rng.normal(size=(n, 3)) * size / 2
    w = np.sqrt(1 - (half**2).sum(axis=1)) if size < 1 else np.ones(n)
    return np.array([oracles.quaternion_matrix((*h, s)) for h, s in zip(half, w, strict=True)])


# --- digits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("free_base", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 50])
def test_mixed_chains_against_extended_precision(n, free_base):
    rng = np.random.default_rng(n)
    arm = SerialChain.random(n, rng, free_base=free_base)
    assert error(arm, *state(arm, rng), rng.normal(size=(n, 6))) < 1e-13


@pytest.mark.parametrize("joints", [("revolute",), ("prismatic",), ("spherical",), SINGLE])
def test_each_kind_of_joint_against_extended_precision(joints):
    rng = np.random.default_rng(5)
    arm = SerialChain.random(12, rng, joints=joints)
    assert error(arm, *state(arm, rng), rng.normal(size=(12, 6))) < 1e-13


@pytest.mark.parametrize("size", [0.0, 1e-15, 1e-9, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("joints", [("revolute",), SINGLE, ("spherical", "revolute")])
def test_nearly_parallel_axes(size, joints):
    # The common normal of two axes is then very far away.
    rng = np.random.default_rng(6)
    arm = changed(SerialChain.random(15, rng, joints=joints), rotations=small_turns(15, size, rng))
    assert error(arm, *state(arm, rng)) < 1e-12


@given(
    seed=st.integers(0, 2**32 - 1),
    joints=st.lists(st.sampled_from((*SINGLE, "spherical")), min_size=1, max_size=12),
    free_base=st.booleans(),
    loaded=st.booleans(),
)
def test_any_chain_against_the_pass_of_the_book(seed, joints, free_base, loaded):
    rng = np.random.default_rng(seed)
    n = len(joints)
    arm = changed(
        SerialChain.random(n, rng), joints=("free" if free_base else joints[0], *joints[1:])
    )
    q, qd, tau = (np.array(a) for a in zip(*(state(arm, rng) for _ in range(3)), strict=True))
    gravity = 5 * rng.normal(size=3)
    W = rng.normal(size=(3, n, 6)) if loaded else [None] * 3
    lanes = forward_dynamics(arm, q, qd, tau, gravity=gravity, wrenches=W if loaded else None)
    for k in range(3):
        book = oracles.articulated_body(arm, q[k], qd[k], tau[k], gravity, W[k])
        alone = forward_dynamics(arm, q[k], qd[k], tau[k], gravity=gravity, wrenches=W[k])
        for got in (alone, lanes[k]):
            assert np.abs(got - book).max() <= 1e-10 * np.abs(book).max()


def test_joints_in_one_place_and_along_their_axes():
    rng = np.random.default_rng(7)
    arm = SerialChain.random(12, rng, joints=("revolute", "spherical"))
    places = arm.translations.copy()
    places[::3] = 0.0
    places[1::3] = arm.rotations[1::3, :, 2]
    places[2::3, :2] = 0.0
    arm = changed(arm, translations=places)
    assert error(arm, *state(arm, rng)) < 1e-13


def test_mass_ratios_and_bodies_without_rotational_inertia():
    rng = np.random.default_rng(8)
    arm = SerialChain.random(20, rng, joints=SINGLE)
    heavy = arm.masses.copy()
    heavy[-1] *= 1e6
    assert error(changed(arm, masses=heavy), *state(arm, rng)) < 1e-9
    spread = 10.0 ** rng.uniform(-3, 3, size=20)
    tables = {"masses": arm.masses * spread, "inertias": arm.inertias * spread[:, None, None]}
    assert error(changed(arm, **tables), *state(arm, rng)) < 1e-10
    assert error(changed(arm, inertias=1e-10 * arm.inertias), *state(arm, rng)) < 1e-10
    points = changed(arm, joints=("revolute",) * 20, inertias=0 * arm.inertias)
    assert error(points, *state(points, rng)) < 1e-10


@pytest.mark.parametrize(("decades", "tolerance"), [(3, 1e-9), (5, 1e-6)])
def test_balls_between_bodies_of_very_uneven_mass(decades, tolerance):
    for seed in (7, 18, 38):
        arm = SerialChain.random(6, seed, joints=("spherical",))
        ratio = 10 ** np.random.default_rng(seed).uniform(-decades, decades, 6)
        arm = changed(arm, masses=arm.masses * ratio, inertias=arm.inertias * ratio[:, None, None])
        rng = np.random.default_rng(seed + 1000)
        assert error(arm, *state(arm, rng)) < tolerance


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("tilt", [1e-150, 1e-170, 1e-300, 5e-324])
def test_axes_tilted_by_less_than_can_be_squared(tilt):
    def arm(alpha):
        return SerialChain.from_dh(
            [0.3, 1.0], [0.1, 0.2], [alpha, 0.0], [0.2, 0.0], joints=("revolute",) * 2,
            masses=np.ones(2), com=np.full((2, 3), -0.1), inertias=np.ones((2, 3)),
        )  # fmt: skip

    args = [[0.3, 0.4], [1.0, 2.0], [1.0, -1.0]]
    got, parallel = (forward_dynamics(arm(a), *args, gravity=GRAVITY) for a in (tilt, 0.0))
    assert got == pytest.approx(parallel, rel=1e-13)


def test_angles_of_any_size():
    rng = np.random.default_rng(9)
    for scale in (1.0, 1e3, 1e6, 1e12):
        angles = rng.normal(size=1000) * scale
        work = np.concatenate([angles, np.empty(1000)])
        fill_sines(work, 1000)
        exact = [[f(x) for x in angles.tolist()] for f in (math.cos, math.sin)]
        np.testing.assert_allclose(work.reshape(2, -1), exact, atol=4e-16, rtol=0)


@pytest.mark.peer
def test_random_chains_against_pinocchio(peer):
    pin = peer("pinocchio")
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 61))
        arm = SerialChain.random(n, rng, free_base=bool(seed % 2))
        q, qd, tau = state(arm, rng)
        W = rng.normal(size=(n, 6))
        got = forward_dynamics(arm, q, qd, tau, gravity=GRAVITY, wrenches=W)
        exact = oracles.Referee(pin, arm, GRAVITY).forward(q, qd, tau, W)
        assert np.abs(got - exact).max() <= 1e-10 * np.abs(exact).max()


def long_chains():
    rng = np.random.default_rng(10)
    for n in (100, 1000, 10_000):
        arm = SerialChain.random(n, rng, joints=SINGLE)
        yield f"random {n}", arm, *state(arm, rng)
        arm = SerialChain.planar(np.ones(n), np.ones(n), np.full(n, 0.1))
        yield f"straight {n}", arm, np.zeros(n), *rng.normal(size=(2, n))
        yield f"folded {n}", arm, np.full(n, np.pi), *rng.normal(size=(2, n))
        yield f"parallel {n}", arm, *rng.normal(size=(3, n))


@pytest.mark.parametrize("case", list(long_chains()), ids=lambda case: case[0])
def test_inverse_undoes_forward_on_long_chains(case):
    _, arm, q, qd, tau = case
    qdd = forward_dynamics(arm, q, qd, tau, gravity=GRAVITY)
    back = newton_euler.inverse_dynamics(arm, q, qd, qdd, gravity=GRAVITY)
    still = np.zeros(arm.nv)
    # Both terms of τ = M q̈ + bias are rounded, at the size of what they are sums of.
    bias = newton_euler.inverse_dynamics(arm, q, qd, still, gravity=GRAVITY)
    pull = newton_euler.inverse_dynamics(arm, q, still, np.abs(qdd))
    scale = max(np.abs(a).max() for a in (tau, bias, pull))
    assert np.abs(back - tau).max() <= 1e-12 * scale


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [1, 2, 7, 8, 9, 16, 29])
def test_batches_of_states(frames):
    rng = np.random.default_rng(frames)
    arm = SerialChain.random(9, rng, free_base=True)
    Q, V, T = (np.array(a) for a in zip(*(state(arm, rng) for _ in range(frames)), strict=True))
    W = rng.normal(size=(frames, 9, 6))
    for wrenches in (None, W):
        got = forward_dynamics(arm, Q, V, T, gravity=GRAVITY, wrenches=wrenches)
        assert got.shape == (frames, arm.nv)
        for k in range(frames):
            one = None if wrenches is None else W[k]
            alone = forward_dynamics(arm, Q[k], V[k], T[k], gravity=GRAVITY, wrenches=one)
            assert np.abs(got[k] - alone).max() <= 1e-13 * np.abs(alone).max()


@pytest.mark.parametrize("joints", [SINGLE, (*SINGLE, "spherical")])
def test_a_batch_of_one_is_the_state(joints):
    rng = np.random.default_rng(10)
    arm = SerialChain.random(9, rng, joints=joints)
    given = state(arm, rng)
    wrenches = rng.normal(size=(9, 6))
    for room in (articulated_body, partition):
        for options in ({}, {"gravity": GRAVITY}, {"wrenches": wrenches}):
            for _ in range(2):  # the first call of a chain makes its tables
                alone = room.forward_dynamics(arm, *given, **options)
                for lead in ((1,), (1, 1)):
                    stacked = [np.reshape(a, lead + a.shape) for a in given]
                    got = room.forward_dynamics(arm, *stacked, **options)
                    assert got.shape == (*lead, arm.nv)
                    assert np.array_equal(got.reshape(-1), alone)


def test_a_batch_of_one_names_its_frame_and_checks_its_shapes():
    rng = np.random.default_rng(15)
    arm = SerialChain.random(4, rng, joints=SINGLE)
    q, qd, tau = rng.normal(size=(3, 1, 4))
    for room in (articulated_body, partition):
        room.forward_dynamics(arm, q, qd, tau)
        with pytest.raises(ValueError, match="qd"):
            room.forward_dynamics(arm, q, qd[:, :3], tau)
        with pytest.raises(ValueError, match="frame 0"):
            room.forward_dynamics(arm, q, qd * np.nan, tau)
        assert room.forward_dynamics(arm, q, qd[0], tau).shape == (1, 4)
        assert room.forward_dynamics(arm, q, qd[None], tau).shape == (1, 1, 4)


@pytest.mark.parametrize("room", [articulated_body])
def test_few_states_need_no_gate(room, monkeypatch):
    rng = np.random.default_rng(17)
    for arm in (SerialChain.random(6, rng, joints=SINGLE), SerialChain.planar(*np.ones((3, 6)))):
        q, qd, tau = rng.normal(size=(3, 3, 4, 6))
        expected = room.forward_dynamics(arm, q, qd, tau, gravity=GRAVITY)
        for k in np.ndindex(3, 4):
            alone = room.forward_dynamics(arm, q[k], qd[k], tau[k], gravity=GRAVITY)
            assert np.abs(expected[k] - alone).max() <= 1e-12 * np.abs(alone).max()
        with monkeypatch.context() as patched:
            patched.setattr(room, "_forward_dynamics", None, raising=False)
            patched.setattr(room, "_motion", None, raising=False)
            for cut in np.s_[:], np.s_[:1], np.s_[1], np.s_[1, :2], np.s_[2, 1:2]:
                got = room.forward_dynamics(arm, q[cut], qd[cut], tau[cut], gravity=GRAVITY)
                if got.size > 6:
                    assert np.array_equal(got, expected[cut])
                else:
                    assert np.allclose(got, expected[cut], rtol=1e-12)
        locked = np.broadcast_to(tau[0, 0], (2, 6))
        got = room.forward_dynamics(arm, q[0, :2], qd[0, :2], locked)
        assert np.array_equal(got, room.forward_dynamics(arm, q[0, :2], qd[0, :2], locked.copy()))
        assert room.forward_dynamics(arm, q[0], qd[:1, :1], tau[0]).shape == (1, 4, 6)
        assert room.forward_dynamics(arm, *np.empty((3, 0, 6))).shape == (0, 6)
        for wrong in (qd[0, :, :5], qd[0, :2]):
            with pytest.raises(ValueError, match=r"qd|axes"):
                room.forward_dynamics(arm, q[0], wrong, tau[0])
        qd[0, 2, 1] = np.nan
        with pytest.raises(ValueError, match=r"qd is nan .*frame 2"):
            room.forward_dynamics(arm, q[0], qd[0], tau[0])


@pytest.mark.parametrize("room", [articulated_body, partition])
def test_two_states_cost_no_more_than_two_alone(room):
    rng = np.random.default_rng(18)
    arm = SerialChain.random(6, rng, joints=SINGLE)
    two = rng.normal(size=(3, 2, 6))
    one = two[:, 0].copy()
    best = {}
    for _ in range(100):
        for states in (one, two):
            start = time.thread_time()  # others may use this processor too
            for _ in range(20):
                room.forward_dynamics(arm, *states, gravity=GRAVITY)
            seconds = time.thread_time() - start
            best[states.ndim] = min(seconds, best.get(states.ndim, seconds))
    assert best[3] <= 2 * 2 * best[2]  # measured: 1.4 to 1.8 times one


def test_few_states_of_a_long_chain(monkeypatch):
    rng = np.random.default_rng(16)
    monkeypatch.setattr(articulated_body, "DEAR", 1)
    arm = SerialChain.random(5, rng, joints=SINGLE)
    q, qd, tau = rng.normal(size=(3, 4, 5))
    W = rng.normal(size=(4, 5, 6))
    got = forward_dynamics(arm, q, qd, tau, wrenches=W)
    for k in range(4):
        alone = forward_dynamics(arm, q[k], qd[k], tau[k], wrenches=W[k])
        assert np.array_equal(got[k], alone)
    q[2, 1] = np.inf
    with pytest.raises(ValueError, match="frame 2"):
        forward_dynamics(arm, q, qd, tau)


def test_long_chains_after_longer_ones_and_in_threads():
    # Work memory is kept: what is left in it has no part in an answer.
    model.workspace(20_000)
    kept = model.workspace(400_000)
    assert kept.size >= 400_000
    assert model.workspace(30_000) is kept
    assert model.workspace(model.LARGEST) is not kept
    assert model.workspace(400_000) is kept
    rng = np.random.default_rng(19)
    arms = [SerialChain.random(n, rng, joints=SINGLE) for n in (3000, 1500, 2000)]
    assert all(articulated_body._plan(arm).roomy for arm in arms)
    states = [rng.normal(size=(3, 8, arm.n)) for arm in arms]
    alone = [forward_dynamics(arm, *s[:, 0]) for arm, s in zip(arms, states, strict=True)]
    with ThreadPoolExecutor(4) as pool:
        again = [
            pool.submit(forward_dynamics, arm, *(s[:, 0] if k % 2 else s))
            for k in range(20)
            for arm, s in zip(arms, states, strict=True)
        ]
    for k, found in enumerate(again):
        expected, found = alone[k % 3], found.result()
        if found.ndim == 1:
            assert np.array_equal(found, expected)
        else:
            assert np.abs(found[0] - expected).max() <= 1e-12 * np.abs(expected).max()


def test_results_do_not_depend_on_workers_or_neighbours():
    rng = np.random.default_rng(11)
    arm = SerialChain.random(6, rng, joints=("revolute", "prismatic", "spherical"))
    Q, V, T = (np.array(a) for a in zip(*(state(arm, rng) for _ in range(101)), strict=True))
    whole = forward_dynamics(arm, Q, V, T)
    for workers in (2, 3, 5, 64):
        assert np.array_equal(forward_dynamics(arm, Q, V, T, workers=workers), whole)
    order = rng.permutation(101)
    assert np.array_equal(forward_dynamics(arm, Q[order], V[order], T[order]), whole[order])
    assert np.array_equal(forward_dynamics(arm, Q[3:6], V[3:6], T[3:6]), whole[3:6])


def test_leading_axes_broadcast():
    rng = np.random.default_rng(12)
    arm = SerialChain.random(4, rng, joints=SINGLE)
    q, V, T = rng.normal(size=4), rng.normal(size=(3, 1, 4)), rng.normal(size=(5, 4))
    got = forward_dynamics(arm, q, V, T)
    assert got.shape == (3, 5, 4)
    np.testing.assert_allclose(got[2, 4], forward_dynamics(arm, q, V[2, 0], T[4]), rtol=1e-12)
    assert forward_dynamics(arm, np.empty((0, 4)), q, q).shape == (0, 4)


def test_whatever_numpy_accepts():
    rng = np.random.default_rng(13)
    arm = SerialChain.random(5, rng, joints=SINGLE)
    q, qd, tau = (a.astype(np.float32).astype(float) for a in rng.normal(size=(3, 5)))
    expected = forward_dynamics(arm, q, qd, tau, gravity=GRAVITY)
    locked = tau.copy()
    locked.flags.writeable = False
    wide = np.repeat(qd, 2)[::2]
    for args in (
        (q.tolist(), qd, tau),
        (q, qd.astype(np.float32), tau),
        (q, wide, tau),
        (q, qd, locked),
    ):
        assert np.array_equal(forward_dynamics(arm, *args, gravity=GRAVITY), expected)
    for gravity in (list(GRAVITY), np.array(GRAVITY)):
        assert np.array_equal(forward_dynamics(arm, q, qd, tau, gravity=gravity), expected)


# --- refusals ------------------------------------------------------------------------------------


def test_masks_are_not_ignored():
    arm = SerialChain.random(3, 0, joints=("revolute",))
    x = np.ones(3)
    forward_dynamics(arm, x, x, x)  # what follows must not take the way of plain arrays
    for k in range(3):
        args = [x, x, x]
        args[k] = np.ma.array(x, mask=[1, 0, 0])
        with pytest.raises(TypeError, match="masked"):
            forward_dynamics(arm, *args)
    with pytest.raises(TypeError, match="gravity must be real numbers"):
        forward_dynamics(arm, x, x, x, gravity=("0", "0", "1"))


@pytest.mark.parametrize("argument", range(4))
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_every_number_must_be_finite(argument, bad):
    rng = np.random.default_rng(14)
    arm = SerialChain.random(5, rng, free_base=True)
    args = [*state(arm, rng), rng.normal(size=(5, 6))]
    names = ("q", "qd", "tau", "wrenches")
    for k in range(args[argument].size):
        broken = [a.copy() for a in args]
        broken[argument].flat[k] = bad
        *three, W = broken
        with pytest.raises(ValueError, match=rf"{names[argument]} is (nan|inf)"):
            forward_dynamics(arm, *three, wrenches=W if argument == 3 else None)
        many = [np.stack([a] * 10) for a in args]
        many[argument][9].flat[k] = bad
        *three, W = many
        with pytest.raises(ValueError, match=r"in frame 9"):
            forward_dynamics(arm, *three, wrenches=W if argument == 3 else None)


@pytest.mark.parametrize("joint", [*SINGLE, "spherical"])
def test_numbers_of_a_first_joint_must_be_finite(joint):
    # Nothing is accelerated by the position of the first joint.
    rng = np.random.default_rng(15)
    arm = SerialChain.random(1, rng, joints=(joint,))
    q, qd, tau = state(arm, rng)
    for k in range(arm.nq):
        broken = q.copy()
        broken[k] = np.nan
        with pytest.raises(ValueError, match="q is nan"):
            forward_dynamics(arm, broken, qd, tau)
        with pytest.raises(ValueError, match="q is nan"):
            articulated_body.pivots(arm, broken)
    with pytest.raises(ValueError, match="qd is nan"):
        forward_dynamics(arm, q, qd * np.nan, tau)
    for k in range(3):
        gravity = np.zeros(3)
        gravity[k] = np.inf
        with pytest.raises(ValueError, match="gravity is inf"):
            forward_dynamics(arm, q, qd, tau, gravity=gravity)
        with pytest.raises(ValueError, match="gravity is inf"):
            forward_dynamics(arm, q, qd, tau, gravity=tuple(gravity))


def test_shapes_quaternions_and_workers():
    rng = np.random.default_rng(16)
    arm = SerialChain.random(4, rng, joints=("spherical",))
    q, qd, tau = state(arm, rng)
    forward_dynamics(arm, q, qd, tau)
    for k, args in enumerate(((q[1:], qd, tau), (q, qd[1:], tau), (q, qd, tau[1:]))):
        with pytest.raises(ValueError, match=("q", "qd", "tau")[k] + " must have shape"):
            forward_dynamics(arm, *args)
    with pytest.raises(ValueError, match="gravity must have shape"):
        forward_dynamics(arm, q, qd, tau, gravity=(0.0, 1.0))
    with pytest.raises(ValueError, match="wrenches must have shape"):
        forward_dynamics(arm, q, qd, tau, wrenches=np.zeros((4, 3)))
    with pytest.raises(ValueError, match="workers"):
        forward_dynamics(arm, q, qd, tau, workers=0)
    with pytest.raises(ValueError, match=r"quaternion of joint 2 .* unit"):
        forward_dynamics(arm, np.where(np.arange(16) // 4 == 2, 1.1 * q, q), qd, tau)


def test_overflow_is_an_error():
    arm = SerialChain.planar([1.0, 1.0], [1.0, 1.0], [0.1, 0.1])
    with pytest.raises(ValueError, match="overflow"):
        forward_dynamics(arm, [0.1, 0.2], [1e200, 1e200], [0.0, 0.0])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("part", ["translations", "centres"])
@pytest.mark.parametrize("size", [1e160, 1e200, 1e307])
def test_lengths_that_overflow_are_an_error(part, size):
    rng = np.random.default_rng(20)
    for joints in (("revolute",), ("revolute", "prismatic", "spherical")):
        arm = SerialChain.random(4, rng, joints=joints, free_base=len(joints) > 1)
        arm = changed(arm, **{part: size * getattr(arm, part)})
        args = state(arm, rng)
        for batch in (args, [np.stack([a] * 9) for a in args]):
            with pytest.raises(ValueError, match="overflow"):
                forward_dynamics(arm, *batch)
            with pytest.raises(ValueError, match="overflow"):
                articulated_body.pivots(arm, batch[0])


@pytest.mark.parametrize("joint", [*SINGLE, "spherical"])
def test_a_massless_tip_is_named(joint):
    rng = np.random.default_rng(17)
    arm = SerialChain.random(4, rng, joints=(joint,))
    kept = np.array([1.0, 1.0, 1.0, 0.0])
    bare = changed(arm, masses=arm.masses * kept, inertias=arm.inertias * kept[:, None, None])
    args = state(arm, rng)
    with pytest.raises(SingularConstraintError, match="joint 3 moves is zero"):
        forward_dynamics(bare, *args)
    with pytest.raises(SingularConstraintError, match=r"body 3 \(counted from 0\)"):
        articulated_body.pivots(bare, args[0])
    with pytest.raises(SingularConstraintError, match="joint 3 moves in frame 0 "):
        forward_dynamics(bare, *(np.stack([a] * 9) for a in args))


def test_a_massless_body_inside_is_an_answer_unless_nothing_opposes_it():
    rng = np.random.default_rng(18)
    arm = SerialChain.random(4, rng, joints=("revolute",))
    kept = np.array([1.0, 0.0, 1.0, 1.0])
    tables = {"masses": arm.masses * kept, "inertias": arm.inertias * kept[:, None, None]}
    bare = changed(arm, **tables)
    assert error(bare, *state(arm, rng)) < 1e-11
    # Two joints about one axis, nothing between them.
    rotations, places = arm.rotations.copy(), arm.translations.copy()
    rotations[2] = oracles.quaternion_matrix((0.0, 0.0, 0.6, 0.8))
    places[2] = (0.0, 0.0, 0.7)
    same = changed(arm, **tables, rotations=rotations, translations=places)
    with pytest.raises(SingularConstraintError, match="joint 1"):
        forward_dynamics(same, *state(arm, rng))


def test_a_pivot_lost_to_rounding_is_not_an_answer():
    # A point mass on a slide, moved onto the axis of the joint before: its m a² cancels.
    slide = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # its z is our x
    arm = SerialChain(
        ("revolute", "prismatic"),
        np.stack([np.eye(3), slide]),
        np.zeros((2, 3)),
        np.array([0.0, 1.0]),
        np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.3]]),
        np.zeros((2, 3, 3)),
    )
    still = np.zeros(2)
    assert forward_dynamics(arm, [0.2, 0.7], still, [1.0, 2.0]) == pytest.approx([1.0, 2.0])
    for q in (-0.3, np.nextafter(-0.3, 0), np.nextafter(-0.3, -1)):
        with pytest.raises(SingularConstraintError, match="joint 0"):
            forward_dynamics(arm, [0.2, q], still, [1.0, 2.0])


def test_what_is_left_of_a_heavy_mass_on_slides_is_not_an_answer():
    # Three slides let the heavy body go; what the first one moves is rounding of its mass.
    places = np.random.default_rng(7).normal(size=(4, 4))
    places /= np.linalg.norm(places, axis=1)[:, None]
    turns = np.stack([oracles.quaternion_matrix(q) for q in places])
    masses = np.array([1.0, 1.0, 1.0, 1e20])
    arm = SerialChain(
        ("prismatic",) * 4,
        turns,
        np.zeros((4, 3)),
        masses,
        np.zeros((4, 3)),
        masses[:, None, None] * np.eye(3),
    )
    still = np.zeros(4)
    with pytest.raises(SingularConstraintError, match="joint 0"):
        forward_dynamics(arm, still, still, [1.0, 0.0, 0.0, 0.0])


def test_the_first_singular_state_of_a_batch_is_named():
    rng = np.random.default_rng(19)
    arm = SerialChain.planar([1.0, 1.0], [0.0, 1.0], [0.0, 0.0])
    # The inner body weighs nothing; folded back by half, the outer mass sits on the inner axis.
    q = rng.uniform(0.5, 1.0, size=(5, 6, 2))
    q[3, 2:, 1] = np.pi
    arm = changed(arm, centres=np.array([[0.5, 0, 0], [1.0, 0, 0]]))
    still = np.zeros(2)
    for workers in (1, 2):
        with pytest.raises(SingularConstraintError, match=r"joint 0 moves in frame \(3, 2\)"):
            forward_dynamics(arm, q, still, still, workers=workers)


# --- pivots --------------------------------------------------------------------------------------


@pytest.mark.parametrize("free_base", [False, True])
def test_pivots_are_those_of_the_inertia_matrix_eliminated_from_the_tip(free_base):
    rng = np.random.default_rng(20)
    arm = SerialChain.random(8, rng, free_base=free_base)
    Q = np.array([oracles.random_q(arm, rng) for _ in range(3)])
    blocks = articulated_body.pivots(arm, Q)
    assert len(blocks) == arm.n
    for k, q in enumerate(Q):
        M = inertia_matrix(arm, q)
        for i in reversed(range(arm.n)):
            a, b = arm.rate_offsets[i : i + 2]
            D = M[a:b, a:b].copy()
            np.testing.assert_allclose(blocks[i][k], D, rtol=0, atol=1e-12 * np.abs(D).max())
            M[:a, :a] -= M[:a, a:b] @ np.linalg.solve(D, M[a:b, :a])


def test_pivots_of_no_state():
    arm = SerialChain.random(3, 5, free_base=True)
    for lead in ((0,), (2, 0)):
        blocks = articulated_body.pivots(arm, np.zeros((*lead, arm.nq)))
        sizes = [{"free": 6, "spherical": 3}.get(joint, 1) for joint in arm.joints]
        assert [block.shape for block in blocks] == [(*lead, f, f) for f in sizes]


def test_pivots_multiply_to_the_determinant():
    rng = np.random.default_rng(21)
    arm = SerialChain.random(30, rng)
    q = oracles.random_q(arm, rng)
    total = sum(np.linalg.slogdet(D)[1] for D in articulated_body.pivots(arm, q))
    assert total == pytest.approx(np.linalg.slogdet(inertia_matrix(arm, q))[1], abs=1e-11)


# --- laws ----------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.booleans())
def test_the_frames_chosen_for_a_body_do_not_matter(n, seed, free_base):
    """Turn every body's frame about its joint's axis; the joint's position absorbs it."""
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(n, rng, joints=SINGLE, free_base=free_base)
    q, qd, tau = state(arm, rng)
    angle = np.where(arm.kinds == 0, rng.uniform(-3, 3, size=n), 0.0)
    turn = np.zeros((n, 3, 3))
    turn[:, 0, 0] = turn[:, 1, 1] = np.cos(angle)
    turn[:, 1, 0], turn[:, 0, 1], turn[:, 2, 2] = np.sin(angle), -np.sin(angle), 1.0
    back = turn.swapaxes(1, 2)
    rotations, places = arm.rotations.copy(), arm.translations.copy()
    rotations[1:] = back[:-1] @ rotations[1:]
    places[1:] = np.einsum("nij,nj->ni", back[:-1], places[1:])
    other = changed(
        arm,
        rotations=rotations,
        translations=places,
        centres=np.einsum("nij,nj->ni", back, arm.centres),
        inertias=back @ arm.inertias @ turn,
    )
    shifted = q.copy()
    shifted[arm.position_offsets[:-1]] += angle
    expected = forward_dynamics(arm, q, qd, tau, gravity=GRAVITY)
    got = forward_dynamics(other, shifted, qd, tau, gravity=GRAVITY)
    assert np.abs(got - expected).max() <= 1e-11 * np.abs(expected).max()


@given(st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_inverse_undoes_forward(n, seed):
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(n, rng, free_base=bool(seed % 2))
    q, qd, tau = state(arm, rng)
    W = rng.normal(size=(n, 6))
    qdd = forward_dynamics(arm, q, qd, tau, gravity=GRAVITY, wrenches=W)
    back = newton_euler.inverse_dynamics(arm, q, qd, qdd, gravity=GRAVITY, wrenches=W)
    bias = newton_euler.inverse_dynamics(arm, q, qd, 0 * qd, gravity=GRAVITY, wrenches=W)
    assert np.abs(back - tau).max() <= 1e-11 * max(1.0, np.abs(bias).max())
