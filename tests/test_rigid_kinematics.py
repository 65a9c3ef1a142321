"""Kinematics of rigid chains: extended precision, differences, invariants, operational space."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from fixman.errors import FrameError, SingularConstraintError
from fixman.rigid import (
    SerialChain,
    articulated_body,
    composite_body,
    kinematics,
    partition,
    spatial,
)
from rigid_cases import changed, random_state
from rigid_oracles import exact_motion, move, random_q

SEEDS = st.integers(0, 2**32 - 1)
UP = np.array([0.3, -0.2, 9.0])
# rows of ωx, ωy, ωz, vx, vy, vz that the last joint holds, in the order of `partition.hard_block`
HELD = {"revolute": [0, 1, 3, 4, 5], "prismatic": [0, 1, 3, 4, 2], "spherical": [3, 4, 5]}


def error(found, wanted):
    assert found.shape == wanted.shape
    return np.abs(found - wanted).max() / max(np.abs(wanted).max(), 1e-300)


def any_chain(seed, most=12):
    """Return a chain, q, q̇ and q̈, a body and a point of it, and the generator."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, most + 1))
    arm, (q, qd, qdd), _ = random_state(n, rng, free_base=bool(rng.integers(2)))
    return arm, (q, qd, qdd), (int(rng.integers(n)), rng.normal(size=3)), rng


# --- against first principles ---------------------------------------------------------------------


@given(SEEDS)
def test_motion_of_points_against_extended_precision(seed):
    arm, (q, qd, qdd), (body, point), _ = any_chain(seed, most=6)
    wanted = exact_motion(arm, q, qd, qdd, point)
    at = body, point
    assert error(kinematics.position(arm, q, *at), wanted["position"][body]) <= 1e-14
    assert error(kinematics.velocity(arm, q, qd, *at), wanted["velocity"][body]) <= 2e-14
    assert error(kinematics.acceleration(arm, q, qd, qdd, *at), wanted["acceleration"][body]) <= (
        1e-13
    )
    origins = exact_motion(arm, q, qd, qdd, np.zeros(3))
    R, x, V = kinematics.frames(arm, q, qd)
    assert error(R, origins["rotation"]) <= 1e-14
    assert error(x, origins["position"]) <= 1e-14
    assert error(V, origins["velocity"]) <= 2e-14
    for found, again in zip((R, x), kinematics.frames(arm, q), strict=True):
        assert np.array_equal(found, again)


@given(SEEDS)
def test_sums_over_bodies_against_extended_precision(seed):
    arm, (q, qd, qdd), _, _ = any_chain(seed, most=6)
    exact = exact_motion(arm, q, qd, qdd, np.zeros(3))
    total = exact["momentum"].sum(0)
    centre = arm.masses @ exact["centre"] / arm.masses.sum()
    c, v = kinematics.centre_of_mass(arm, q, qd)
    assert error(c, centre) <= 1e-14
    assert error(v, total[:3] / arm.masses.sum()) <= 2e-14
    assert np.array_equal(kinematics.centre_of_mass(arm, q), c)
    assert error(kinematics.momentum(arm, q, qd, about="origin"), total) <= 5e-14
    size = np.abs(total).max()
    about_centre = np.append(total[:3], total[3:] - np.cross(centre, total[:3]))
    assert np.abs(kinematics.momentum(arm, q, qd) - about_centre).max() <= 5e-14 * size
    energy = kinematics.kinetic_energy(arm, q, qd)
    assert energy == pytest.approx(exact["energy"].sum(), rel=2e-14)
    inertia = composite_body.inertia_matrix(arm, q)
    assert energy == pytest.approx(qd @ inertia @ qd / 2, rel=1e-12)
    height = -arm.masses @ exact["centre"] @ UP
    scale = arm.masses @ np.abs(exact["centre"]) @ np.abs(UP)
    assert abs(kinematics.potential_energy(arm, q, gravity=UP) - height) <= 1e-14 * scale


def test_energies_of_a_batch_are_those_of_its_states():
    rng = np.random.default_rng(0)
    for n in (3, 8, 30):
        arm = SerialChain.random(n, rng)
        arm = replace(arm, armature=rng.uniform(0, 1, arm.nv))
        q = np.stack([random_q(arm, rng) for _ in range(40)])
        qd = rng.normal(size=(40, arm.nv))
        energies = kinematics.kinetic_energy(arm, q, qd)
        alone = [kinematics.kinetic_energy(arm, *state) for state in zip(q, qd, strict=True)]
        assert (energies == alone).all()


@given(SEEDS)
def test_jacobian_its_products_and_its_columns(seed):
    arm, (q, qd, _), at, rng = any_chain(seed)
    J = kinematics.jacobian(arm, q, *at)
    columns = kinematics.velocity(arm, q, np.eye(arm.nv), *at)
    assert error(J, columns.T) <= 1e-13
    assert error(J @ qd, kinematics.velocity(arm, q, qd, *at)) <= 1e-13
    assert np.array_equal(J[:3], kinematics.jacobian(arm, q, *at, linear=True))
    w = rng.normal(size=6)
    assert error(kinematics.jacobian_transpose(arm, q, w, *at), J.T @ w) <= 1e-13
    assert not J[:, arm.rate_offsets[at[0] + 1] :].any()


@given(SEEDS)
def test_rates_are_differences(seed):
    arm, (q, qd, _), at, _ = any_chain(seed, most=6)
    h = 1e-5
    plus, minus = (kinematics.integrate(arm, q, qd, s * h) for s in (1, -1))
    v, a = kinematics.velocity(arm, q, qd, *at), kinematics.acceleration(arm, q, qd, 0 * qd, *at)
    slope = kinematics.position(arm, plus, *at) - kinematics.position(arm, minus, *at)
    assert np.abs(slope / (2 * h) - v[:3]).max() <= 1e-7 * (1 + np.abs(v).max() ** 3)
    slope = kinematics.velocity(arm, plus, qd, *at) - kinematics.velocity(arm, minus, qd, *at)
    assert np.abs(slope / (2 * h) - a).max() <= 1e-7 * (1 + np.abs(v).max() ** 3)
    c = kinematics.centre_of_mass(arm, np.array([plus, minus]))
    _, u = kinematics.centre_of_mass(arm, q, qd)
    assert np.abs((c[0] - c[1]) / (2 * h) - u).max() <= 1e-7 * (1 + np.abs(v).max() ** 3)


@given(SEEDS)
def test_energy_and_momentum_along_forward_dynamics(seed):
    """d/dt (T + U) = τ·θ̇; of a free chain ṗ = m g and the spin about its centre stays."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    arm, (q, qd, tau), _ = random_state(n, rng, free_base=True)
    tau[:6] = 0.0  # nothing holds the base
    qdd = articulated_body.forward_dynamics(arm, q, qd, tau, gravity=UP)
    h = 1e-5
    sides = [(kinematics.integrate(arm, q, qd, s * h), qd + s * h * qdd) for s in (1, -1)]
    energies = [
        kinematics.kinetic_energy(arm, *side)
        + kinematics.potential_energy(arm, side[0], gravity=UP)
        for side in sides
    ]
    size = kinematics.kinetic_energy(arm, q, qd) * (1 + np.abs(qdd).max())
    assert abs((energies[0] - energies[1]) / (2 * h) - tau @ qd) <= 1e-6 * size
    momenta = [kinematics.momentum(arm, *side) for side in sides]
    force = np.append(arm.masses.sum() * UP, np.zeros(3))
    scale = np.abs(momenta[0]).max() * (1 + np.abs(qdd).max())
    assert np.abs((momenta[0] - momenta[1]) / (2 * h) - force).max() <= 1e-6 * scale


# --- steps in the coordinates ---------------------------------------------------------------------


def same_place(arm, q, other):
    """Largest difference of two coordinates, quaternions up to their sign."""
    q, other = q.copy(), other.copy()
    for x in (q, other):
        for i, joint in enumerate(arm.joints):
            if joint in ("spherical", "free"):
                end = arm.position_offsets[i + 1]
                e = x[end - 4 : end]
                e *= np.sign(e[np.argmax(np.abs(e))])
    return np.abs(q - other).max()


@given(SEEDS, st.sampled_from([1e-9, 1e-3, 1.0, 30.0]))
def test_integrate_and_difference(seed, scale):
    arm, (q, qd, _), _, rng = any_chain(seed)
    other = random_q(arm, rng)
    way = kinematics.difference(arm, q, other)
    assert same_place(arm, kinematics.integrate(arm, q, way), other) <= 1e-14 * (
        1 + np.abs(other).max()
    )
    for i in np.flatnonzero(np.isin(arm.joints, ["spherical", "free"])):
        end = arm.rate_offsets[i + 1]
        assert np.linalg.norm(way[end - 3 : end]) <= np.pi + 1e-14
    # one group: parts of the way, there and back
    v = scale * qd
    size = 1e-14 * (1 + np.abs(q).max() + np.abs(v).max())
    twice = kinematics.integrate(arm, kinematics.integrate(arm, q, v, 0.25), v, 0.75)
    assert same_place(arm, twice, kinematics.integrate(arm, q, v)) <= 10 * size
    back = kinematics.integrate(arm, kinematics.integrate(arm, q, v), v, -1.0)
    assert same_place(arm, back, q) <= 10 * size
    if scale <= 1e-3:
        near = kinematics.integrate(arm, q, v)
        assert np.abs(near - move(arm, q, v, 1.0)).max() <= np.abs(v).max() ** 2 + 1e-15
        found = kinematics.difference(arm, q, near)
        assert np.abs(found - v).max() <= 1e-14 * (1 + np.abs(q).max())


def test_steps_turn_as_rotations_do():
    arm = SerialChain.random(2, 0, joints=("spherical",))
    q, rng = random_q(arm, np.random.default_rng(1)), np.random.default_rng(2)
    for size in (0.0, 1e-200, 1e-8, 1.0, np.pi, 2 * np.pi, 50.0):
        w = rng.normal(size=(2, 3))
        w *= size / np.linalg.norm(w, axis=1, keepdims=True)
        found = kinematics.integrate(arm, q, w.reshape(-1)).reshape(2, 4)
        wanted = Rotation.from_quat(q.reshape(2, 4)) * Rotation.from_rotvec(w)
        assert np.abs(Rotation.from_quat(found).as_matrix() - wanted.as_matrix()).max() <= 1e-13
        assert np.abs(np.linalg.norm(found, axis=1) - 1).max() <= 3e-16
    assert np.array_equal(kinematics.difference(arm, q, q), np.zeros(6))
    assert np.array_equal(kinematics.difference(arm, q, -q), np.zeros(6))


def test_a_drifted_quaternion_is_normalized():
    arm = SerialChain.random(1, 0, joints=("spherical",))
    q = np.array([0.0, 0.0, 0.6, 0.8]) * (1 + 5e-7)
    assert np.linalg.norm(kinematics.integrate(arm, q, np.zeros(3))) == pytest.approx(1, abs=3e-16)


def test_a_free_base_follows_a_screw():
    """A quarter turn on a circle of radius 1: forward along x, turning about z."""
    arm = SerialChain.random(1, 0, free_base=True)
    q = np.array([0, 0, 0, 0, 0, 0, 1.0])
    to = kinematics.integrate(arm, q, [1, 0, 0, 0, 0, 1], np.pi / 2)
    assert np.abs(to - [1, 1, 0, 0, 0, np.sqrt(0.5), np.sqrt(0.5)]).max() <= 1e-15


# --- operational space ----------------------------------------------------------------------------


@given(SEEDS)
def test_compliance_is_the_product_of_jacobians(seed):
    arm, (q, _, _), _, rng = any_chain(seed, most=25)
    bodies = [int(b) for b in rng.integers(arm.n, size=4)]
    points = rng.normal(size=(4, 3))
    found = kinematics.operational_space_compliance(arm, q, bodies, points)
    at = zip(bodies, points, strict=True)
    J = np.concatenate([kinematics.jacobian(arm, q, *one) for one in at])
    wanted = J @ np.linalg.solve(composite_body.inertia_matrix(arm, q), J.T)
    assert error(found, wanted) <= 1e-11
    assert np.array_equal(found, found.T)
    linear = kinematics.operational_space_compliance(arm, q, bodies, points, linear=True)
    rows = np.arange(24).reshape(4, 6)[:, :3].reshape(-1)
    assert np.array_equal(linear, found[np.ix_(rows, rows)])
    one = kinematics.operational_space_compliance(arm, q, bodies[1], points[1])
    assert error(one, found[6:12, 6:12]) <= 1e-14


@given(SEEDS)
def test_inertia_is_the_inverse_of_compliance(seed):
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(int(rng.integers(14, 40)), rng, joints=("revolute", "spherical"))
    q, where = random_q(arm, rng), ([arm.n - 1, arm.n - 8], rng.normal(size=(2, 3)))
    for linear in (False, True):
        inertia = kinematics.operational_space_inertia(arm, q, *where, linear=linear)
        compliance = kinematics.operational_space_compliance(arm, q, *where, linear=linear)
        assert np.array_equal(inertia, inertia.T)
        scale = np.sqrt(np.outer(np.diag(inertia), np.diag(compliance)))
        assert np.abs((inertia @ compliance - np.eye(len(inertia))) / scale).max() <= 1e-10


@pytest.mark.parametrize("far", [1.0, 1e5, 1e8])
def test_a_body_held_by_a_long_lever(far):
    """It feels as heavy from far away: V·Λ V is twice what it costs to move so."""
    rng = np.random.default_rng(3)
    arm = SerialChain.random(16, rng, joints=("revolute",))
    q, points = rng.normal(size=16), far * rng.normal(size=(2, 3))
    where = [15, 8]
    at_points = kinematics.operational_space_inertia(arm, q, where, points)
    at_origins = kinematics.operational_space_inertia(arm, q, where)
    V = rng.normal(size=(2, 6))
    V[:, 3:] /= far
    R = kinematics.frames(arm, q)[0][where]
    origins = V.copy()
    for k in range(2):
        origins[k, :3] -= np.cross(V[k, 3:], R[k] @ points[k])
    wanted = origins.ravel() @ at_origins @ origins.ravel()
    assert V.ravel() @ at_points @ V.ravel() == pytest.approx(wanted, rel=1e-12)
    assert np.array_equal(at_points, at_points.T)


@given(SEEDS)
def test_the_last_pivot_of_the_partition_has_it_too(seed):
    """Ω_nn = M⁻¹ − M⁻¹ E D⁻¹ Eᵀ M⁻¹, with E the directions that the last joint holds."""
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(int(rng.integers(2, 9)), rng)
    q = random_q(arm, rng)
    H = partition.hard_block(arm, q).to_dense()
    held = HELD[arm.joints[-1]]
    last = np.linalg.inv(H)[-len(held) :, -len(held) :]
    free = np.linalg.inv(spatial.inertia(arm.masses, arm.centres, arm.inertias)[-1])
    E = free[:, held]
    wanted = np.roll(free - E @ last @ E.T, (3, 3), axis=(0, 1))  # linear before angular
    R = np.kron(np.eye(2), kinematics.frames(arm, q)[0][-1])
    found = kinematics.operational_space_compliance(arm, q, arm.n - 1)
    assert np.abs(found - R @ wanted @ R.T).max() <= 1e-11 * np.abs(free).max()


@pytest.mark.parametrize("n", [30, 3000])
def test_compliance_is_what_a_push_does(n):
    """Of a wrench on one body the acceleration of another, by the articulated body."""
    rng = np.random.default_rng(n)
    arm = SerialChain.random(n, rng, joints=("revolute", "prismatic"))
    q, rest, w = rng.normal(size=n), np.zeros(n), rng.normal(size=6)
    pushed, seen = n - 1, n - 5
    tau = kinematics.jacobian_transpose(arm, q, w, pushed)
    R = kinematics.frames(arm, q)[0][pushed]
    wrenches = np.zeros((n, 6))
    wrenches[pushed] = np.append(R.T @ w[:3], R.T @ w[3:])
    qdd = articulated_body.forward_dynamics(arm, q, rest, rest, wrenches=wrenches)
    block = kinematics.operational_space_compliance(arm, q, [seen, pushed])[:6, 6:]
    assert error(kinematics.acceleration(arm, q, rest, qdd, seen), block @ w) <= 1e-9
    if n == 30:
        by_torque = articulated_body.forward_dynamics(arm, q, rest, tau)
        assert error(by_torque, qdd) <= 1e-10


def test_weight_of_a_sliding_block():
    """A body of mass 2 on a slide along z weighs 2 there and cannot move otherwise."""
    arm = SerialChain(
        ("prismatic",), [np.eye(3)], np.zeros((1, 3)), [2.0], np.ones((1, 3)), [np.eye(3)]
    )
    compliance = kinematics.operational_space_compliance(arm, [0.4], 0, (1, 2, 3), linear=True)
    assert np.array_equal(compliance, np.diag([0, 0, 0.5]))
    with pytest.raises(SingularConstraintError, match="moves in 1 of 3 directions") as raised:
        kinematics.operational_space_inertia(arm, [0.4], 0, linear=True)
    assert raised.value.body == 0


# --- batches and errors ---------------------------------------------------------------------------


def test_batches_have_the_bits_of_single_calls():
    rng = np.random.default_rng(0)
    arm = SerialChain.random(9, rng, free_base=True)
    q, other = (np.array([[random_q(arm, rng) for _ in range(3)] for _ in range(2)]) for _ in "ab")
    qd, qdd = rng.normal(size=(2, 2, 3, arm.nv))
    w, at = rng.normal(size=(2, 3, 6)), (6, [0.1, 0.2, 0.3])
    calls = {
        "rotations": (lambda q: kinematics.frames(arm, q)[0], (q,)),
        "twists": (lambda *a: kinematics.frames(arm, *a)[2], (q, qd)),
        "position": (lambda q: kinematics.position(arm, q, *at), (q,)),
        "velocity": (lambda *a: kinematics.velocity(arm, *a, *at), (q, qd)),
        "acceleration": (lambda *a: kinematics.acceleration(arm, *a, *at), (q, qd, qdd)),
        "jacobian": (lambda q: kinematics.jacobian(arm, q, *at), (q,)),
        "transpose": (lambda *a: kinematics.jacobian_transpose(arm, *a, *at), (q, w)),
        "centre": (lambda *a: kinematics.centre_of_mass(arm, *a)[1], (q, qd)),
        "momentum": (lambda *a: kinematics.momentum(arm, *a, about="origin"), (q, qd)),
        "kinetic": (lambda *a: kinematics.kinetic_energy(arm, *a), (q, qd)),
        "potential": (lambda q: kinematics.potential_energy(arm, q, gravity=UP), (q,)),
        "integrate": (lambda *a: kinematics.integrate(arm, *a, 0.3), (q, qd)),
        "difference": (lambda *a: kinematics.difference(arm, *a), (q, other)),
        "compliance": (
            lambda q: kinematics.operational_space_compliance(arm, q, [7, 2], at[1]),
            (q,),
        ),
        "inertia": (lambda q: kinematics.operational_space_inertia(arm, q, 8, at[1]), (q,)),
    }
    for name, (call, arrays) in calls.items():
        together = call(*arrays)
        for k in np.ndindex(2, 3):
            alone = np.asarray(call(*(array[k] for array in arrays)))
            assert together[k].shape == alone.shape, name
            assert together[k].tobytes() == alone.tobytes(), name
        assert call(*(array[:0] for array in arrays)).shape == (0, *together.shape[1:]), name


def test_batch_axes_broadcast():
    rng = np.random.default_rng(1)
    arm = SerialChain.random(4, rng)
    q, w = random_q(arm, rng), rng.normal(size=(5, 6))
    assert kinematics.jacobian_transpose(arm, q, w, 3).shape == (5, arm.nv)
    assert kinematics.difference(arm, q, np.stack([q, q])).shape == (2, arm.nv)
    with pytest.raises(ValueError, match="leading"):
        kinematics.velocity(arm, np.stack([q, q]), rng.normal(size=(3, arm.nv)), 0)


ARM = changed(SerialChain.random(3, 0), joints=("spherical", "revolute", "revolute"))
Q = random_q(ARM, np.random.default_rng(0))
RATES = np.zeros(ARM.nv)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: kinematics.position(ARM, Q, 3), ValueError, "to 2; got 3"),
        (lambda: kinematics.position(ARM, Q, -1), ValueError, "got -1"),
        (lambda: kinematics.velocity(ARM, Q, RATES, 1.5), TypeError, "body must be an integer"),
        (lambda: kinematics.position(ARM, Q, "hand"), TypeError, "places of .* got 'hand'"),
        (lambda: kinematics.position(ARM, Q, 0, (1, 2)), ValueError, "point must have shape"),
        (lambda: kinematics.position(ARM, Q, 0, (1, 2, np.nan)), ValueError, "point is nan"),
        (lambda: kinematics.frames(ARM, Q[1:]), ValueError, "q must have shape"),
        (lambda: kinematics.frames(ARM, 1.1 * Q), FrameError, "unit quaternion, scalar last"),
        (lambda: kinematics.frames(Q, ARM), TypeError, "arm must be"),
        (lambda: kinematics.jacobian(ARM, Q, 0, linear=1), TypeError, "linear must be True"),
        (lambda: kinematics.jacobian_transpose(ARM, Q, RATES[:3], 0), ValueError, "wrench must"),
        (
            lambda: kinematics.jacobian_transpose(ARM, Q, [0, 0, 0, 0, 0, np.inf], 0),
            ValueError,
            "wrench is inf at component 5",
        ),
        (lambda: kinematics.momentum(ARM, Q, RATES, about="tip"), ValueError, "about must be"),
        (
            lambda: kinematics.potential_energy(ARM, Q, gravity=(0, np.nan, 0)),
            ValueError,
            "gravity is nan",
        ),
        (lambda: kinematics.integrate(ARM, Q, RATES, np.nan), ValueError, "dt must be finite"),
        (lambda: kinematics.difference(ARM, Q, np.nan * Q), FrameError, "q1 is nan"),
        (lambda: kinematics.difference(ARM, 2 * Q, Q), FrameError, "unit quaternion"),
        (lambda: kinematics.operational_space_compliance(ARM, Q, []), ValueError, "got none"),
        (lambda: kinematics.operational_space_compliance(ARM, Q, [0, 5]), ValueError, "got 5"),
        (
            lambda: kinematics.operational_space_compliance(ARM, Q, [0, 1], np.zeros((3, 3))),
            ValueError,
            r"point must have shape \(3,\) or \(2, 3\)",
        ),
        (
            lambda: kinematics.operational_space_inertia(ARM, Q, [1, 2]),
            SingularConstraintError,
            "of 12 directions",
        ),
        (lambda: kinematics.centre_of_mass(massless(), Q), ValueError, "no mass"),
    ],
)
def test_errors_say_what_is_wrong(call, kind, text):
    with pytest.raises(kind, match=text):
        call()


def massless():
    return changed(ARM, masses=np.zeros(3), inertias=np.zeros((3, 3, 3)))


def test_frames_and_bodies_at_fault_are_named():
    q = np.stack([Q, Q, Q])
    q[1, 2] = np.nan
    with pytest.raises(FrameError, match="in frame 1") as raised:
        kinematics.frames(ARM, q)
    assert raised.value.frame == 1
    heavy = np.array([1, 1, 0])
    inertias = ARM.inertias * heavy[:, None, None]
    arm = changed(ARM, masses=ARM.masses * heavy, inertias=inertias)
    with pytest.raises(SingularConstraintError, match="joint 2 moves") as raised:
        kinematics.operational_space_compliance(arm, Q, 1)
    assert raised.value.body == 2


@pytest.mark.parametrize("name", ["q", "qd"])
def test_nothing_returns_nan(name):
    """Not even where the number has no part in the answer."""
    arm = SerialChain.random(3, 0, joints=("revolute", "prismatic"))
    for bad in (np.nan, np.inf, -np.inf):
        given = {"q": np.zeros(3), "qd": np.zeros(3)}
        given[name][2] = bad
        q, qd = given["q"], given["qd"]
        calls = [
            lambda q=q, qd=qd: kinematics.frames(arm, q, qd),
            lambda q=q, qd=qd: kinematics.velocity(arm, q, qd, 0),
            lambda q=q, qd=qd: kinematics.acceleration(arm, q, qd, qd, 0),
            lambda q=q, qd=qd: kinematics.momentum(arm, q, qd),
            lambda q=q, qd=qd: kinematics.integrate(arm, q, qd),
        ]
        if name == "q":
            calls += [
                lambda q=q: kinematics.position(arm, q, 0),
                lambda q=q: kinematics.jacobian(arm, q, 0),
                lambda q=q: kinematics.jacobian_transpose(arm, q, np.zeros(6), 0),
                lambda q=q: kinematics.operational_space_compliance(arm, q, 0),
            ]
        for call in calls:
            with pytest.raises(ValueError, match=rf"{name} is .* at"):
                call()


def test_overflow_is_refused():
    arm = SerialChain.random(3, 0, joints=("prismatic",))
    huge = np.full(3, 1e200)
    with pytest.raises(FrameError, match="overflowed"):
        kinematics.kinetic_energy(arm, np.zeros(3), huge)
    with pytest.raises(FrameError, match="overflowed"):
        kinematics.potential_energy(arm, huge, gravity=huge)
    with pytest.raises(FrameError, match="coordinates overflowed"):
        kinematics.integrate(arm, huge, huge, 1e300)
