"""Forward and inverse dynamics and projection, against dense multipliers and 40 digits."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

import fixman as fx
import oracles
from oracles import Spec, error
from selection import quick
from strategies import (
    BASES,
    CASES,
    GEOMETRIES,
    GRAPHS,
    SHAPES,
    TREES,
    build,
    graphs,
    make_graph,
    make_system,
    random_system,
    seeds,
    systems,
)


def rotation(dim, rng):
    q, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    return q * np.linalg.det(q) if dim == 3 else q @ np.diag([1.0, np.linalg.det(q)])


def check_forward(s, tol=1e-10, with_torque=True):
    torque = s.torque if with_torque else None
    dense = oracles.forward_dynamics(s.spec, s.x, s.v, torque, s.force)
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=torque, force=s.force)
    assert error(motion.acceleration, dense.acceleration, dense.acceleration_scale) < tol
    assert error(motion.tension, dense.tension, dense.tension_scale) < tol
    assert error(motion.qdd, dense.qdd, dense.qdd_scale) < tol


# --- against dense multipliers ---------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 100])
@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_forward_dynamics_equals_dense_multipliers(dim, base, hard, n):
    check_forward(random_system(dim, base, hard, n, seed=n))


@given(systems(shapes=("random", "zigzag")))
def test_forward_dynamics_for_any_mask(s):
    check_forward(s)
    check_forward(s, with_torque=False)


@given(systems(dims=(2,), shapes=SHAPES))
def test_planar_forward_dynamics_for_every_shape(s):
    check_forward(s)


@given(systems(), seeds)
def test_velocities_that_break_the_constraints_obey_the_same_formula(s, seed):
    s.v = np.random.default_rng(seed).normal(size=s.x.shape)
    check_forward(s)


@given(systems(shapes=("random", "zigzag")))
def test_torques_and_forces_default_to_zero(s):
    bare = fx.forward_dynamics(s.chain, s.x, s.v)
    zero = fx.forward_dynamics(s.chain, s.x, s.v, torque=0 * s.torque, force=0 * s.force)
    np.testing.assert_allclose(bare.acceleration, zero.acceleration, rtol=1e-13, atol=1e-13)
    dense = oracles.forward_dynamics(s.spec, s.x, s.v)
    scale = max(dense.acceleration_scale, 1.0)  # κ of a torsion that does not move is rounding
    assert error(bare.acceleration, dense.acceleration, scale) < 1e-10


@given(systems(shapes=("random", "zigzag")))
def test_hard_coordinates_have_no_acceleration(s):
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    b, kappa = fx.wilson_b(s.chain, s.x), fx.velocity_terms(s.chain, s.x, s.v)
    qdd = b @ motion.acceleration.ravel() + kappa
    scale = np.abs(b) @ np.abs(motion.acceleration.ravel()) + np.abs(kappa) + 1.0
    hard = s.spec.hard
    assert (np.abs(qdd[hard]) < 1e-10 * scale.max()).all()
    assert error(qdd[s.spec.soft], motion.qdd, scale.max()) < 1e-10


@given(systems())
def test_at_rest_forward_dynamics_is_the_partition(s):
    motion = fx.forward_dynamics(s.chain, s.x, 0 * s.v, torque=s.torque)
    solved = fx.Partition(s.chain, s.x).solve(s.torque)
    dense = oracles.forward_dynamics(s.spec, s.x, 0 * s.v, s.torque)
    assert error(motion.qdd, solved, dense.qdd_scale) < 1e-11


@pytest.mark.parametrize("dim", [2, 3])
def test_a_fully_hard_chain_does_not_move(dim):
    s = random_system(dim, "fixed", ("length", "angle", "torsion")[:dim], 5)
    motion = fx.forward_dynamics(s.chain, s.x, 0 * s.v, torque=s.torque, force=s.force)
    assert motion.qdd.shape == (0,)
    assert motion.tension.shape == (5 * dim,)
    assert np.abs(motion.acceleration).max() < 1e-10
    assert fx.inverse_dynamics(s.chain, s.x, 0 * s.v, np.zeros(0)).shape == (0,)


def test_a_pendulum():
    chain = fx.Chain.linear(1, dim=2, base="fixed", masses=2.0)
    motion = fx.forward_dynamics(chain, [[3.0, 0.0]], [[0.0, 6.0]], force=[[0.0, -20.0]])
    np.testing.assert_allclose(motion.acceleration, [[-12.0, -10.0]], rtol=1e-15)
    np.testing.assert_allclose(motion.tension, [24.0], rtol=1e-15)  # m v²/L
    np.testing.assert_allclose(motion.qdd, [-10.0 / 3.0], rtol=1e-15)


# --- inverse dynamics ------------------------------------------------------------------------


@given(systems())
def test_inverse_undoes_forward(s):
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    torque = fx.inverse_dynamics(s.chain, s.x, s.v, motion.qdd, force=s.force)
    # G^aa times the rounding of q̈ is what may remain.
    scale = np.abs(oracles.mass_matrix(s.spec, s.x)) @ np.full(
        len(s.torque), np.abs(motion.qdd).max(initial=0.0)
    )
    assert error(torque, s.torque, scale.max(initial=1.0)) < 1e-10


@given(systems(), seeds)
def test_inverse_dynamics_equals_dense(s, seed):
    qdd = np.random.default_rng(seed).normal(size=len(s.spec.soft))
    bias = oracles.forward_dynamics(s.spec, s.x, s.v, None, s.force).qdd
    mass = oracles.mass_matrix(s.spec, s.x)
    got = fx.inverse_dynamics(s.chain, s.x, s.v, qdd, force=s.force)
    scale = np.abs(mass) @ np.abs(qdd - bias)
    assert error(got, mass @ (qdd - bias), scale.max(initial=1.0)) < 1e-9


@pytest.mark.parametrize("base", BASES)
def test_inverse_undoes_forward_on_long_planar_chains(base):
    s = random_system(2, base, ("length",), 300, seed=4)
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    torque = fx.inverse_dynamics(s.chain, s.x, s.v, motion.qdd, force=s.force)
    scale = np.abs(oracles.mass_matrix(s.spec, s.x)).sum(axis=1).max() * np.abs(motion.qdd).max()
    assert np.abs(torque - s.torque).max() < 1e-13 * scale


# --- batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(1,), (3,), (2, 2), (0,)])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), ("angle",), ()])
@pytest.mark.parametrize(("dim", "base"), [(2, "free"), (2, "fixed"), (3, "free"), (3, "fixed")])
def test_batches_equal_singles(dim, base, hard, batch):
    spec = Spec(6, dim, base, 1.3, hard)
    singles = {i: make_system(spec, seed=k) for k, i in enumerate(np.ndindex(batch))}
    model = make_system(spec)
    stacks = {}
    for name in ("x", "v", "torque", "force"):
        stacks[name] = np.zeros((*batch, *getattr(model, name).shape))
        for index, s in singles.items():
            stacks[name][index] = getattr(s, name)
    x, v, torque, force = stacks.values()
    motion = fx.forward_dynamics(model.chain, x, v, torque=torque, force=force)
    back = fx.inverse_dynamics(model.chain, x, v, motion.qdd, force=force)
    assert motion.acceleration.shape == x.shape
    assert motion.tension.shape == (*batch, len(spec.hard))
    assert motion.qdd.shape == back.shape == (*batch, len(spec.soft))
    for index, s in singles.items():
        one = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
        # The same up to rounding: a batch may run through another kernel.
        assert error(motion.acceleration[index], one.acceleration) < 1e-12
        assert error(motion.tension[index], one.tension) < 1e-12
        assert error(motion.qdd[index], one.qdd) < 1e-12
        single = fx.inverse_dynamics(s.chain, s.x, s.v, one.qdd, force=s.force)
        assert error(back[index], single) < 1e-10


# --- arrays of the caller ----------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
def test_late_answers_belong_to_the_state_that_was_given(dim, hard):
    """An integrator moves x and v in place before it asks for q̈."""
    s = random_system(dim, "free", hard, 5)
    expected = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque).qdd.copy()
    x, v, torque = s.x.copy(), s.v.copy(), s.torque.copy()
    motion = fx.forward_dynamics(s.chain, x, v, torque=torque)
    x += 1.0 * v
    v *= 2.0
    torque[:] = 0.0
    np.testing.assert_array_equal(motion.qdd, expected)
    # and scales the accelerations in place, if it may.
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque)
    acceleration = motion.acceleration
    if acceleration.flags.writeable:
        acceleration *= 0.5
    np.testing.assert_array_equal(motion.qdd, expected)


# --- invariance ------------------------------------------------------------------------------


@given(systems(bases=("free",), min_n=2, shapes=("random", "zigzag")), seeds)
def test_rigid_motion_turns_the_answer_with_it(s, seed):
    rng = np.random.default_rng(seed)
    turn, shift, drift = rotation(s.spec.dim, rng), *rng.normal(size=(2, s.spec.dim))
    one = fx.forward_dynamics(s.chain, s.x, s.v, force=s.force)
    two = fx.forward_dynamics(
        s.chain, s.x @ turn.T + shift, s.v @ turn.T + drift, force=s.force @ turn.T
    )
    dense = oracles.forward_dynamics(s.spec, s.x, s.v, None, s.force)
    assert error(two.acceleration, one.acceleration @ turn.T, dense.acceleration_scale) < 1e-10
    assert error(two.tension, one.tension, dense.tension_scale) < 1e-10


@given(systems(shapes=("random", "zigzag")))
def test_mass_length_and_time_are_units(s):
    mass, length, time = 3.0, 0.7, 5.0
    chain = fx.Chain.linear(
        s.spec.n, dim=s.spec.dim, base=s.spec.base, masses=mass * s.spec.m, hard=s.spec.hard_kinds
    )
    one = fx.forward_dynamics(s.chain, s.x, s.v, force=s.force)
    two = fx.forward_dynamics(
        chain, length * s.x, length / time * s.v, force=mass * length / time**2 * s.force
    )
    dense = oracles.forward_dynamics(s.spec, s.x, s.v, None, s.force)
    size = dense.acceleration_scale
    assert error(two.acceleration * time**2 / length, one.acceleration, size) < 1e-10
    dimensions = np.array([length if s.spec.rows[i][0] == "length" else 1.0 for i in s.spec.hard])
    # λ multiplies ∂q/∂x, so its unit is an energy over the unit of q.
    unit = mass * length**2 / time**2 / dimensions
    assert error(two.tension / unit, one.tension, dense.tension_scale) < 1e-10


@given(systems(bases=("free",), min_n=2))
def test_internal_forces_neither_push_nor_turn(s):
    motion = fx.forward_dynamics(s.chain, s.x, s.v, force=s.force)
    net = motion.acceleration * s.spec.m[:, None]
    scale = 1e-10 * (1 + np.abs(net).sum() + np.abs(s.force).sum())
    assert np.abs((net - s.force).sum(axis=0)).max() < scale
    lever = s.x - s.x.mean(axis=0)
    moment = np.einsum("ki,kj->ij", lever, net - s.force)
    assert np.abs(moment - moment.T).max() < scale * (1 + np.abs(lever).max())


@given(systems(max_n=8))
def test_energy_is_conserved_to_first_order(s):
    """d/dt ½ ẋ M ẋ = q̇·τ + ẋ·f for consistent velocities."""
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    terms = s.spec.m[:, None] * s.v * motion.acceleration
    work = s.qd[s.spec.soft] * s.torque
    push = s.v * s.force
    scale = 1 + sum(np.abs(a).sum() for a in (terms, work, push))
    assert abs(terms.sum() - work.sum() - push.sum()) < 1e-10 * scale


# --- straight chains in space ----------------------------------------------------------------


def straight_system(base, n=6, direction=(1.0, 0.0, 0.0), hard=("length",)):
    """Return an exactly straight chain along an axis, with bonds that float64 holds exactly."""
    s = make_system(Spec(n, 3, base, 1.0, hard), seed=2)
    s.x = np.cumsum([1.0, 0.5, 2.0, 1.0, 0.25, 1.0][:n])[:, None] * np.array(direction)
    s.v = np.random.default_rng(0).normal(size=s.x.shape)
    return s


AXES = [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (0.0, -1.0, 0.0)]


@pytest.mark.parametrize("direction", AXES)
@pytest.mark.parametrize("base", BASES)
def test_straight_chains_have_accelerations_tensions_and_determinants(base, direction):
    s = straight_system(base, direction=direction)
    motion = fx.forward_dynamics(s.chain, s.x, s.v, force=s.force)
    dense = oracles.forward_dynamics(s.spec, s.x, s.v, None, s.force, with_soft=False)
    assert error(motion.acceleration, dense.acceleration) < 1e-12
    assert error(motion.tension, dense.tension) < 1e-12
    part = fx.Partition(s.chain, s.x)
    tensions = oracles.forward_dynamics(
        s.spec, s.x, 0 * s.v, None, s.force, with_soft=False
    ).tension
    assert error(part.tensions(s.force), tensions) < 1e-12
    expected = np.log(6.0) if base == "free" else 0.0
    assert part.logdet_hard == pytest.approx(expected, abs=1e-14)
    assert fx.logdet(s.chain, s.x) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("direction", AXES)
@pytest.mark.parametrize("base", BASES)
def test_soft_answers_of_straight_chains_name_the_coordinates(base, direction):
    s = straight_system(base, direction=direction)
    motion = fx.forward_dynamics(s.chain, s.x, s.v, force=s.force)
    part = fx.Partition(s.chain, s.x)
    for function in (
        lambda: motion.qdd,
        lambda: s.chain.internal(s.x),
        lambda: part.solve(s.torque),
        lambda: part.solve(s.torque, method="lu"),
        lambda: part.H_aa,
        lambda: part.H_ab,
        lambda: part.logdet_free,
        lambda: part.logdet_mass,
        lambda: part.mass_matrix(),
        lambda: fx.inverse_dynamics(s.chain, s.x, s.v, s.torque),
        lambda: fx.wilson_b(s.chain, s.x),
        lambda: fx.velocity_terms(s.chain, s.x, s.v),
    ):
        with pytest.raises(fx.SingularCoordinateError, match=r"angle|torsion"):
            function()


def singular_rows(spec, x):
    """Return the rows that are singular by definition: an angle of theirs has sin θ = 0."""
    beads = {k: x[0] * 0 + p for k, p in enumerate(x)}
    origin = x[0] if spec.base == "free" else 0 * x[0]
    beads[-1], beads[-2], beads[-3] = origin, origin - [1, 0, 0], origin - [1, 1, 0]
    rows = []
    for i, (kind, indices) in enumerate(spec.rows):
        points = np.array([beads[k] for k in indices])
        bonds = np.diff(points, axis=0)
        turns = np.cross(bonds[:-1], bonds[1:]) if kind in ("angle", "torsion") else np.ones((1, 3))
        if (np.linalg.norm(turns, axis=1) == 0).any():
            rows.append(i)
    return rows


@pytest.mark.parametrize("direction", AXES)
@pytest.mark.parametrize("base", BASES)
def test_torques_are_refused_only_on_singular_rows(base, direction):
    s = straight_system(base, direction=direction)
    # one corner, so that some angles and torsions are regular
    s.x[3:] += [0.3, 0.4, -0.2]
    singular = singular_rows(s.spec, s.x)
    assert 0 < len(singular) < len(s.spec.soft)
    bad = np.isin(s.spec.soft, singular)
    for k in range(len(s.spec.soft)):
        torque = np.zeros(len(s.spec.soft))
        torque[k] = 1.0
        if bad[k]:
            kind = s.spec.rows[s.spec.soft[k]][0]
            with pytest.raises(fx.SingularCoordinateError, match=kind):
                fx.forward_dynamics(s.chain, s.x, s.v, torque=torque)
            continue
        motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=torque)
        # that row's B is regular: put its torque in by hand
        row = oracles.wilson_b(s.spec, s.x, [s.spec.soft[k]])
        dense = oracles.forward_dynamics(
            s.spec, s.x, s.v, None, row.reshape(s.x.shape), with_soft=False
        )
        assert error(motion.acceleration, dense.acceleration, dense.acceleration_scale) < 1e-11
        assert error(motion.tension, dense.tension, dense.tension_scale) < 1e-11


def test_the_singular_coordinate_is_named_by_its_beads():
    s = make_system(Spec(6, 3, "free"), seed=1)
    s.x[4] = 2 * s.x[3] - s.x[2]
    s.x = np.round(s.x * 64) / 64  # so that the doubled bond is exactly the same
    s.x[4] = 2 * s.x[3] - s.x[2]
    with pytest.raises(fx.SingularCoordinateError, match=r"2\D+3\D+4"):
        _ = fx.forward_dynamics(s.chain, s.x, s.v).qdd
    batch = np.stack([make_system(Spec(6, 3, "free"), seed=k).x for k in range(4)])
    batch[2] = s.x
    motion = fx.forward_dynamics(s.chain, batch, 0 * batch)
    assert np.isfinite(motion.acceleration).all()
    with pytest.raises(fx.SingularCoordinateError, match=r"frame\D*2\b"):
        _ = motion.qdd


@pytest.mark.parametrize("hard", [("angle",), ("length", "angle"), ("length", "angle", "torsion")])
@pytest.mark.parametrize("base", BASES)
def test_hard_angles_of_straight_chains_are_singular_constraints(base, hard):
    s = straight_system(base, hard=hard)
    for function in (
        lambda: fx.logdet(s.chain, s.x),
        lambda: fx.forward_dynamics(s.chain, s.x, s.v),
        lambda: fx.Partition(s.chain, s.x).tensions(s.force),
        lambda: fx.Partition(s.chain, s.x).logdet_hard,
    ):
        with pytest.raises(fx.SingularConstraintError, match=r"angle|torsion"):
            function()


# --- accuracy against 40 digits --------------------------------------------------------------


@pytest.mark.parametrize(("shape", "bend"), GEOMETRIES)
@pytest.mark.parametrize(
    ("base", "n"), [(base, n) for base in BASES for n in (10, 300)] + quick([("fixed", 3000)])
)
def test_planar_accelerations_keep_twelve_digits(n, shape, bend, base):
    s = random_system(2, base, ("length",), n, seed=11, shape=shape, bend=bend)
    _, s.v = s.chain.cartesian(s.q, s.qd)
    acceleration, tension, qdd = oracles.mp_forward_dynamics(s.spec, s.x, s.v, s.torque, s.force)
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    assert error(motion.qdd, qdd) <= 1e-12
    assert error(motion.tension, tension) <= 1e-12
    # Along a straight chain large tensions cancel in ẍ = M⁻¹(F + B_bᵀ λ), bead by bead.
    scale = oracles.largest_pull(s.spec, tension)
    assert error(motion.acceleration, acceleration, scale) <= 1e-13


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("shape", "bend"), GEOMETRIES)
def test_accelerations_in_space_keep_twelve_digits(shape, bend, base):
    s = random_system(3, base, ("length",), 1000, seed=12, shape=shape, bend=bend)
    acceleration, tension, _ = oracles.mp_forward_dynamics(s.spec, s.x, s.v, None, s.force)
    motion = fx.forward_dynamics(s.chain, s.x, s.v, force=s.force)
    assert error(motion.tension, tension) <= 1e-12
    # Along a straight chain large tensions cancel in ẍ = M⁻¹(F + B_bᵀ λ), bead by bead.
    scale = oracles.largest_pull(s.spec, tension)
    assert error(motion.acceleration, acceleration, scale) <= 1e-13


# --- any masses ------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("shape", oracles.SHAPES)
@pytest.mark.parametrize("masses", oracles.UNEVEN)
def test_any_masses_move_to_twelve_digits(masses, shape, base, dim, monkeypatch):
    monkeypatch.setattr(oracles, "DIGITS", 120)
    for seed in range(5):
        spec, x, v = oracles.uneven_chain(masses, shape, dim, base, seed)
        chain = build(spec)
        # Not the seed of the bonds: forces exactly along the bonds of a light bead in space leave
        # nothing across them but their own rounding, times 1/m.
        rng = np.random.default_rng(100 + seed)
        force = rng.normal(size=x.shape)
        torque = rng.normal(size=chain.soft.size) if dim == 2 else None
        expected = oracles.mp_forward_dynamics(spec, x, v, torque, force)
        motion = fx.forward_dynamics(chain, x, v, torque=torque, force=force)
        assert error(motion.acceleration, expected[0]) <= 1e-12
        assert error(motion.tension, expected[1]) <= 1e-12
        if dim == 2:
            assert error(motion.qdd, expected[2]) <= 1e-12
        at_rest = oracles.mp_forward_dynamics(spec, x, 0 * v, torque, 0 * force)
        part = fx.Partition(chain, x)
        if dim == 2:
            assert error(part.solve(torque), at_rest[2]) <= 1e-12
        held = oracles.mp_forward_dynamics(spec, x, 0 * v, None, force)[1]
        assert error(part.tensions(force), held) <= 1e-12


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("shape", oracles.SHAPES)
@pytest.mark.parametrize("masses", [*oracles.UNEVEN, "rising", "blocks"])
def test_long_planar_chains_of_any_masses_move_to_twelve_digits(masses, shape, base, monkeypatch):
    monkeypatch.setattr(oracles, "DIGITS", 120)
    spec, x, v = oracles.uneven_chain(masses, shape, 2, base, 6, n=100)
    chain, rng = build(spec), np.random.default_rng(106)
    drives = (rng.normal(size=chain.soft.size), None), (None, rng.normal(size=x.shape))
    for torque, force in drives:
        expected = oracles.mp_forward_dynamics(spec, x, v, torque, force)
        motion = fx.forward_dynamics(chain, x, v, torque=torque, force=force)
        assert error(motion.acceleration, expected[0]) <= 1e-12
        assert error(motion.tension, expected[1]) <= 1e-12
        assert error(motion.qdd, expected[2]) <= 1e-12


@pytest.mark.parametrize("push", ["falls", "along a light bead's bond"])
@pytest.mark.parametrize("dim", [2, 3])
def test_where_forces_cancel_their_last_digits_decide(dim, push, monkeypatch):
    monkeypatch.setattr(oracles, "DIGITS", 120)
    spec, x, _ = oracles.uneven_chain("light middle 12", "nearly straight", dim, "free", 0, n=20)
    force = np.multiply.outer(spec.m, 9.81 * np.eye(dim)[0])
    if push != "falls":
        light = np.argmin(spec.m)
        force = np.zeros_like(x)
        force[light] = x[light] - x[light - 1]
    rng = np.random.default_rng(5)
    last = np.spacing(np.abs(force).max(axis=1, keepdims=True))
    nudged = [force + last * rng.choice([-1.0, 1.0], x.shape) for _ in range(3)]
    expected, *others = (
        oracles.mp_forward_dynamics(spec, x, 0 * x, None, f)[0] for f in (force, *nudged)
    )
    motion = fx.forward_dynamics(build(spec), x, 0 * x, force=force)
    digits = max(error(other, expected) for other in others)
    assert digits > 1e-13  # the question is a hard one
    assert error(motion.acceleration, expected) <= spec.n * digits


@pytest.mark.parametrize("middle", [1e-6, 1e-12, 1e-15, 1e-30])
@pytest.mark.parametrize("dim", [2, 3])
def test_a_straight_rod_with_a_light_middle_bead(dim, middle):
    # Along the rod all move together: a = ΣF / Σm, and tensions are what each part needs.
    m = np.array([1.0, middle, 2.0])
    x = np.zeros((3, dim))
    x[1:, 0] = 1.0, 1.75
    force = np.zeros((3, dim))
    force[:, 0] = -0.3, 0.2, 1.1
    motion = fx.forward_dynamics(fx.Chain.linear(3, dim=dim, masses=m), x, 0 * x, force=force)
    a = force[:, 0].sum() / m.sum()
    expected = np.array([m[0] * a - force[0, 0], force[2, 0] - m[2] * a])
    assert error(motion.tension, expected) <= 1e-15
    assert error(motion.acceleration[:, 0], np.full(3, a)) <= 1e-15
    assert not motion.acceleration[:, 1:].any()


@pytest.mark.parametrize("base", BASES)
def test_light_beads_in_space_have_the_soft_accelerations_of_the_plane(base):
    spec, x, v = oracles.uneven_chain("alternating", "bent", 2, base, 4)
    force = np.random.default_rng(4).normal(size=x.shape)
    flat = fx.forward_dynamics(build(spec), x, v, force=force)
    embed = np.eye(2, 3)
    space = fx.Chain.linear(spec.n, base=base, masses=spec.m)
    plane = build(spec)
    motion = fx.forward_dynamics(space, x @ embed, v @ embed, force=force @ embed)
    assert error(motion.acceleration, flat.acceleration @ embed) <= 1e-13
    assert error(motion.tension, flat.tension) <= 1e-13
    # Angles between three beads; in the plane alone they have a sign.
    bends = [c for c in plane.coordinates if c.kind == "angle" and min(c.beads) >= 0]
    assert bends
    own, same = ([c.coordinates.index(b) for b in bends] for c in (space, plane))
    found = motion.qdd[np.searchsorted(space.soft, own)]
    expected = np.sign(plane.internal(x)[same]) * flat.qdd[np.searchsorted(plane.soft, same)]
    assert error(found, expected) <= 1e-12


STIFF = [(2, ("length", "angle")), (3, ("length", "angle", "torsion"))]


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize(("dim", "hard"), STIFF)
def test_stiff_sets_lose_the_condition_of_their_rows_and_not_its_square(dim, hard, n):
    # With every coordinate hard nothing moves, and B_bᵀ t = f has a square matrix.
    s = random_system(dim, "fixed", hard, n, seed=3)
    B = fx.wilson_b(s.chain, s.x).toarray()[s.chain.hard]
    expected = np.linalg.solve(B.T, s.force.ravel())
    motion = fx.forward_dynamics(s.chain, s.x, 0 * s.v, force=s.force)
    assert error(motion.tension, expected) <= 1e-13
    held = (motion.acceleration * s.chain.masses[:, None]).ravel()
    assert np.abs(held).max() <= 1e-13 * np.abs(s.force).max()
    assert error(fx.Partition(s.chain, s.x).tensions(s.force), expected) <= 1e-13


# --- projection ------------------------------------------------------------------------------


def perturbed(s, size, seed=0):
    rng = np.random.default_rng(seed)
    return s.x + size * rng.normal(size=s.x.shape), rng.normal(size=s.x.shape)


@given(systems(max_n=8), seeds)
def test_projection_meets_its_targets_and_is_the_nearest(s, seed):
    x, v = perturbed(s, 0.01, seed)
    targets = s.q[s.spec.hard]
    got, rate = fx.project(s.chain, x, targets, v)
    turns = np.array([s.spec.rows[i][0] != "length" for i in s.spec.hard], dtype=bool)
    miss = oracles.internal(s.spec, got)[s.spec.hard] - targets
    miss[turns] = oracles.wrapped(miss[turns])
    assert np.abs(miss).max(initial=0.0) < 1e-10
    # Nearest in the metric of the masses: M (x' − x) lies in the row space of B_b(x').
    rows = oracles.wilson_b(s.spec, got, s.spec.hard) / np.sqrt(s.spec.mm)
    columns, _ = np.linalg.qr(rows.T)
    for move in (got - x, rate - v):
        weighted = move.ravel() * np.sqrt(s.spec.mm)
        rest = weighted - columns @ (columns.T @ weighted)
        assert np.abs(rest).max() < 1e-8 * max(np.abs(weighted).max(), 1e-3)
    scale = np.abs(rows).max(initial=1.0) * np.abs(rate.ravel() * np.sqrt(s.spec.mm)).max()
    assert np.abs(rows @ (rate.ravel() * np.sqrt(s.spec.mm))).max(initial=0.0) < 1e-10 * max(
        scale, 1
    )


@given(systems(shapes=("random", "zigzag")))
def test_projection_of_what_already_fits_changes_nothing(s):
    got = fx.project(s.chain, s.x, s.q[s.spec.hard])
    assert error(got, s.x, 1.0) < 1e-12
    got, v = fx.project(s.chain, s.x, s.q[s.spec.hard], s.v)
    assert error(got, s.x, 1.0) < 1e-12
    assert error(v, s.v, 1.0) < 1e-10


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_projection_of_straight_and_long_chains(dim, base):
    for shape in ("straight", "zigzag", "random"):
        s = random_system(dim, base, ("length",), 1000, shape=shape)
        x, _ = perturbed(s, 1e-3)
        got = fx.project(s.chain, x, s.q[s.spec.hard])
        assert error(oracles.internal(s.spec, got, s.spec.hard), s.q[s.spec.hard]) < 1e-11


def test_projection_from_nearby_always_arrives():
    # Where the way is so short that rounding of x decides whether the objective falls.
    chain = fx.Chain.linear(3)
    for size in (1e-12, 1e-8, 1e-7, 1e-6):
        rng = np.random.default_rng(0)
        x = fx.random_walks(chain, 300, rng=rng)
        near = fx.project(chain, x + size * rng.normal(size=x.shape), 1.0)
        assert np.abs(chain.hard_values(near) - 1.0).max() < 1e-14


@pytest.mark.parametrize("straight", [(), [(0, 1, 2)]])
def test_projection_of_beads_that_coincide_names_them(straight):
    chain = fx.Chain.linear(4, straight=straight)
    with pytest.raises(fx.SingularConstraintError, match="coincide"):
        fx.project(chain, np.zeros((4, 3)), 1.0)


@pytest.mark.parametrize("chain", [fx.Chain.linear(3), fx.Chain.ring(4, base="fixed")])
def test_no_frames_are_projected_to_none(chain):
    x = np.zeros((0, chain.n, 3))
    assert fx.project(chain, x, 1.0).shape == x.shape
    assert all(y.shape == x.shape for y in fx.project(chain, x, np.ones(chain.hard.size), x))


def test_projected_batches_equal_singles():
    s = make_system(Spec(6, 3, "free", 1.0, ("length", "angle")), seed=1)
    batch = s.x + 0.01 * np.random.default_rng(0).normal(size=(2, 3, 6, 3))
    targets = s.q[s.spec.hard]
    got = fx.project(s.chain, batch, targets)
    assert got.shape == batch.shape
    for index in np.ndindex(2, 3):
        np.testing.assert_allclose(
            got[index], fx.project(s.chain, batch[index], targets), atol=1e-11
        )


def test_projection_far_from_the_origin_says_so():
    flat = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    for dim in (2, 3):
        chain, x = fx.Chain.linear(3, dim=dim), flat @ np.eye(2, dim)
        for far in (1e10, 3e14):
            with pytest.raises(
                fx.ConstraintSolveError, match=r"lie up to .* from the origin, where .* apart"
            ):
                fx.project(chain, x + far, 1.1)
        near = fx.project(chain, x + 1e6, 1.1)
        assert np.abs(chain.hard_values(near) - 1.1).max() < 4e-10
        with pytest.raises(fx.ConstraintSolveError, match=r"origin in frame 1, where"):
            fx.project(chain, np.array([x, x + 3e14]), 1.1)


def test_projection_is_judged_where_it_arrives():
    # The bead comes from afar; what counts is the rounding of where it lands.
    pendulum = fx.Chain.linear(1, dim=2, base="fixed")
    assert np.array_equal(fx.project(pendulum, [[1e15, 0.0]], 1.5), [[1.5, 0.0]])


def test_projection_of_uneven_masses_says_what_helps():
    turn = np.arange(20) * np.pi / 10
    ring = np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1) * 0.5 / np.sin(np.pi / 20)
    far = ring + 0.05 * np.random.default_rng(0).normal(size=ring.shape)
    uneven = fx.Chain.ring(20, masses=np.where(np.arange(20) % 2, 1e-6, 1.0))
    with pytest.raises(fx.ConstraintSolveError, match=r"equal masses first$|equal masses first in"):
        fx.project(uneven, far, 1.0)
    near = fx.project(fx.Chain.ring(20), far, 1.0)
    assert np.allclose(uneven.hard_values(fx.project(uneven, near, 1.0)), 1.0, rtol=1e-12)


def test_projection_that_cannot_succeed_is_a_typed_error():
    chain = fx.Chain.linear(3, dim=2, base="fixed")
    x = np.array([[1.0, 0.0], [2.0, 0.1], [3.0, 0.0]])
    for targets, got in (([1.0, -1.0, 1.0], "-1.0"), ([0.0, 1.0, 1.0], "0.0")):
        with pytest.raises(ValueError, match=f"is {got}: lengths must be positive"):
            fx.project(chain, x, targets)
    with pytest.raises(ValueError, match=r"length\(0, 1\) is -1.0 in frame 1: lengths"):
        fx.project(chain, x, [[1.0, 1.0, 1.0], [1.0, -1.0, 1.0]])
    for some in (chain, fx.Chain.linear(3, dim=2, hard=())):  # also where nothing is hard
        with pytest.raises(ValueError, match="targets must be finite, got nan"):
            fx.project(some, x, np.nan)


# --- memory ----------------------------------------------------------------------------------


def peak(dim, n):
    rng = np.random.default_rng(0)
    chain = fx.Chain.linear(n, dim=dim)
    x = np.cumsum(rng.normal(size=(n, dim)), axis=0)
    v, force = rng.normal(size=(2, n, dim))
    tracemalloc.start()
    motion = fx.forward_dynamics(chain, x, v, force=force)
    _ = motion.qdd
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("dim", [2, 3])
def test_memory_is_linear_in_n(dim):
    peak(dim, 100)  # compiled, tables imported
    assert peak(dim, 40_000) < 2.3 * peak(dim, 20_000)


MILLION = """
import json
from pathlib import Path
import numpy as np
import fixman as fx
n = 10**6
rng = np.random.default_rng(0)
chain = fx.Chain.linear(n, dim=2, base="fixed")
x, v = chain.cartesian(np.stack([np.ones(n), rng.normal(size=n)], 1).ravel(),
                       np.stack([np.zeros(n), rng.normal(size=n)], 1).ravel())
qdd = fx.forward_dynamics(chain, x, v, torque=rng.normal(size=n)).qdd
# Of this program alone: ru_maxrss begins with the size of the process that started it.
status = Path("/proc/self/status").read_text().split()
peak = 1024 * int(status[status.index("VmHWM:") + 1])
print(json.dumps([bool(np.isfinite(qdd).all()), peak]))
"""


def test_a_million_planar_links_fit_in_a_gigabyte():
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of a process is read from /proc")
    run = subprocess.run(
        [sys.executable, "-c", MILLION], capture_output=True, text=True, check=True
    )
    finite, peak_bytes = json.loads(run.stdout)
    assert finite
    assert peak_bytes < 1e9


# --- trees and rings -------------------------------------------------------------------------


@given(graphs())
def test_forward_dynamics_of_graphs_equals_dense_multipliers(s):
    check_forward(s)
    check_forward(s, with_torque=False)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_forward_dynamics_of_graphs_of_fifty_beads(dim, base, hard, kind):
    check_forward(make_graph(kind, 50, dim, base, hard, seed=1))


@given(graphs())
def test_hard_coordinates_of_graphs_have_no_acceleration(s):
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    b, kappa = fx.wilson_b(s.chain, s.x), fx.velocity_terms(s.chain, s.x, s.v)
    qdd = b @ motion.acceleration.ravel() + kappa
    scale = np.abs(b) @ np.abs(motion.acceleration.ravel()) + np.abs(kappa) + 1.0
    assert (np.abs(qdd[s.spec.hard]) < 1e-10 * scale.max()).all()


@given(graphs(kinds=TREES))
def test_inverse_undoes_forward_on_trees(s):
    s.v = s.v - consistent(s)
    motion = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    torque = fx.inverse_dynamics(s.chain, s.x, s.v, motion.qdd, force=s.force)
    chart = np.linalg.inv(oracles.wilson_b(s.spec, s.x))
    pull = np.abs(chart.T) @ np.abs(s.spec.mm * motion.acceleration.ravel() - s.force.ravel())
    assert error(torque, s.torque, pull.max(initial=1.0)) < 1e-10


def consistent(s):
    """Return the part of the velocities that changes hard coordinates."""
    rows = oracles.wilson_b(s.spec, s.x, s.spec.hard) / np.sqrt(s.spec.mm)
    columns, _ = np.linalg.qr(rows.T)
    weighted = s.v.ravel() * np.sqrt(s.spec.mm)
    return ((columns @ (columns.T @ weighted)) / np.sqrt(s.spec.mm)).reshape(s.v.shape)


@given(graphs(max_n=8), seeds)
def test_projection_of_graphs_keeps_every_hard_value(s, seed):
    targets = s.q[s.spec.hard]
    x, v = perturbed(s, 1e-3, seed)
    try:
        got, rate = fx.project(s.chain, x, targets, v)
    except fx.ConstraintSolveError:
        # Where the surface bends sharply even this is far away: from the point itself it must do.
        x = s.x
        got, rate = fx.project(s.chain, x, targets, v)
    turns = np.array([s.spec.rows[i][0] != "length" for i in s.spec.hard], dtype=bool)
    miss = oracles.internal(s.spec, got)[s.spec.hard] - targets
    miss[turns] = oracles.wrapped(miss[turns])
    assert np.abs(miss).max(initial=0.0) < 1e-10
    rows = oracles.wilson_b(s.spec, got, s.spec.hard) / np.sqrt(s.spec.mm)
    columns, _ = np.linalg.qr(rows.T)
    for move in (got - x, rate - v):
        weighted = move.ravel() * np.sqrt(s.spec.mm)
        rest = weighted - columns @ (columns.T @ weighted)
        assert np.abs(rest).max() < 1e-8 * max(np.abs(weighted).max(), 1e-3)
    speed = rate.ravel() * np.sqrt(s.spec.mm)
    scale = max(np.abs(rows).max(initial=1.0) * np.abs(speed).max(), 1.0)
    assert np.abs(rows @ speed).max(initial=0.0) < 1e-9 * scale


@pytest.mark.parametrize("dim", [2, 3])
def test_a_long_ring_is_projected_onto_its_bonds(dim):
    n = 1000
    chain = fx.Chain.ring(n, dim=dim)
    rng = np.random.default_rng(0)
    turn = 2 * np.pi * np.arange(n) / n
    x = np.zeros((n, dim))
    x[:, :2] = 0.5 / np.sin(np.pi / n) * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    got = fx.project(chain, x + 0.01 * rng.normal(size=x.shape), 1.0)
    bonds = np.linalg.norm(np.roll(got, -1, axis=0) - got, axis=1)
    assert np.abs(bonds - 1).max() < 1e-11


def test_a_spinning_ring_is_held_together_by_its_tensions():
    """T = m ω² R / (2 sin(π/n)) in every bond of a regular polygon."""
    n, omega, mass = 7, 3.0, 2.0
    turn = 2 * np.pi * np.arange(n) / n
    x = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    v = omega * np.stack([-x[:, 1], x[:, 0]], axis=1)
    motion = fx.forward_dynamics(fx.Chain.ring(n, dim=2, masses=mass), x, v)
    np.testing.assert_allclose(motion.tension, mass * omega**2 / (2 * np.sin(np.pi / n)))
    np.testing.assert_allclose(motion.acceleration, -(omega**2) * x, atol=1e-13)


@pytest.mark.parametrize("name", ["x", "v"])
def test_inverse_dynamics_of_one_bead_looks_at_what_no_row_reads(name):
    given = {"x": np.zeros((1, 3)), "v": np.zeros((1, 3))}
    given[name][0, 1] = np.nan
    with pytest.raises(fx.FrameError, match=f"{name} is nan"):
        fx.inverse_dynamics(fx.Chain.linear(1), given["x"], given["v"], np.zeros(3))
