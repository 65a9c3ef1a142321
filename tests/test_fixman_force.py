"""The exact Fixman force: complex steps, differences, closed forms, symmetries, batches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
import force_oracles
import oracles
from fixman.mechanics import metric
from fixman.mechanics.metric import fixman_force, fixman_potential, logdet
from strategies import (
    BASES,
    CASES,
    GEOMETRIES,
    GRAPHS,
    SHAPES,
    TREES,
    graphs,
    hard_sets,
    make_graph,
    random_masses,
    random_system,
    seeds,
    systems,
)


def close_to_complex_steps(s):
    expected, condition = force_oracles.fixman_force(s.spec, s.x)
    force = fixman_force(s.chain, s.x)
    size = max(np.abs(expected).max(initial=0.0), 1.0)
    assert force.shape == s.x.shape
    assert np.abs(force - expected).max(initial=0.0) <= max(1e-10, 1e-16 * condition) * size


# --- dense -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [5, 12])
@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_force_on_linear_chains(dim, base, hard, n):
    close_to_complex_steps(random_system(dim, base, hard, n, seed=n))


@given(systems())
def test_force_for_any_mask(s):
    close_to_complex_steps(s)


@given(systems(dims=(2,), shapes=SHAPES))
def test_force_on_planar_chains_of_every_shape(s):
    close_to_complex_steps(s)


@given(graphs())
def test_force_on_trees_and_rings(s):
    close_to_complex_steps(s)


@pytest.mark.parametrize("kind", ["linear", *GRAPHS])
@pytest.mark.parametrize(
    ("dim", "hard"), [(d, h) for d in (2, 3) for h in hard_sets(d) if h], ids=str
)
def test_force_is_the_slope_of_the_potential(dim, hard, kind):
    if kind == "linear":
        s = random_system(dim, "free", hard, 30, seed=3)
    else:
        s = make_graph(kind, 14, dim, "free", hard, seed=3)
    force = fixman_force(s.chain, s.x, 2.5)
    step = 1e-5
    moves = step * np.eye(s.x.size).reshape(-1, *s.x.shape)
    high, low = (fixman_potential(s.chain, s.x + sign * moves, 2.5) for sign in (1, -1))
    slopes = (high - low).reshape(s.x.shape) / (2 * step)
    scale = max(np.abs(force).max(), 1.0)
    # Third derivatives grow like the cube of the largest curvature.
    assert np.abs(force + slopes).max() <= 1e-6 * max(1.0, scale**2) * scale


# --- freely jointed: regular everywhere ------------------------------------------------------


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("n", [2, 10, 300])
@pytest.mark.parametrize(("shape", "bend"), GEOMETRIES)
@pytest.mark.parametrize("dim", [2, 3])
def test_freely_jointed_against_40_digits(dim, shape, bend, n, base):
    s = random_system(dim, base, ("length",), n, seed=4, shape=shape, bend=bend)
    expected = force_oracles.mp_fixman_force(s.spec, s.x)
    force = fixman_force(s.chain, s.x)
    # What is rounded is the direction of a bond: in x, too.
    rounding = 4e-16 * np.abs(s.x).max() * np.sqrt(n)
    assert np.abs(force - expected).max() <= 1e-12 * np.abs(expected).max() + 100 * rounding


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("base", BASES)
def test_nothing_pulls_on_a_straight_chain(base, dim):
    x = np.zeros((50, dim))
    x[:, 0] = np.arange(1, 51)
    chain = fx.Chain.linear(50, dim=dim, base=base, masses=np.linspace(0.1, 10, 50))
    np.testing.assert_array_equal(fixman_force(chain, x), 0.0)


def test_the_fused_route_is_the_general_one():
    s = random_system(3, "free", ("length",), 30, seed=5)
    tree = fx.Chain.linear(30, masses=s.spec.m)
    tree.layout.__dict__["links"] = np.empty((2, 0))
    np.testing.assert_allclose(
        fixman_force(tree, s.x), fixman_force(s.chain, s.x), rtol=0, atol=1e-13
    )
    assert logdet(tree, s.x) == pytest.approx(logdet(s.chain, s.x), abs=1e-12)


# --- closed forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("theta", [0.0, 1e-8, 1e-3, 0.5, np.pi / 2, 2.0, 3.0, np.pi])
def test_trimer(theta, dim):
    # U = ½ ln(4 − c²): the end bead is pushed against dU/dθ, at right angles to its bond.
    w = 1 / np.array([0.3, 2.0, 7.0])
    chain = fx.Chain.linear(3, dim=dim, masses=1 / w)
    c, s = np.cos(theta), np.sin(theta)
    x = np.zeros((3, dim))
    x[1:, 0] = 1.0
    x[2, :2] += c, s
    determinant = (w[0] + w[1]) * (w[1] + w[2]) - (w[1] * c) ** 2
    push = -(w[1] ** 2) * c * s / determinant
    expected = np.zeros((3, dim))
    expected[2, :2] = -push * s, push * c
    expected[0, 1] = push
    expected[1] = -expected[0] - expected[2]
    np.testing.assert_allclose(fixman_force(chain, x), expected, rtol=0, atol=3e-16)
    assert fixman_potential(chain, x, 3.0) == pytest.approx(1.5 * np.log(determinant), abs=1e-14)


@pytest.mark.parametrize("alpha", np.linspace(-3, 3, 7))
def test_four_beads_with_right_angles(alpha):
    # det = 2 (35 + 4 cos α − 16 cos² α + cos⁴ α), α = 0 at trans.
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    q = np.array([0, 0, 0, 1, 1, 0.3, 1, np.pi / 2, 0.4, 1, np.pi / 2, np.pi - alpha])
    turn = np.zeros(12)
    turn[-1] = -1.0  # dα/dt = 1
    x, v = chain.cartesian(q, turn)
    c, s = np.cos(alpha), np.sin(alpha)
    determinant = 2 * (35 + 4 * c - 16 * c**2 + c**4)
    slope = 2 * (-4 * s + 32 * c * s - 4 * c**3 * s) / determinant / 2
    assert fixman_potential(chain, x) == pytest.approx(np.log(determinant) / 2, abs=1e-13)
    assert (fixman_force(chain, x) * v).sum() == pytest.approx(-slope, abs=1e-13)


# --- symmetries ------------------------------------------------------------------------------


def net(force, x):
    """Return net force and torque (planar: its one component) as one array."""
    if x.shape[-1] == 2:
        torque = x[:, 0] * force[:, 1] - x[:, 1] * force[:, 0]
        return np.append(force.sum(0), torque.sum())
    return np.append(force.sum(0), np.cross(x, force).sum(0))


# A long ring with hard angles at random is badly conditioned.
BALANCED = [
    (kind, dim, hard)
    for kind in ("linear", *TREES, "ring")
    for dim in (2, 3)
    for hard in (("length",), ("length", "angle"), ("length", "torsion"))
    if (dim == 3 or "torsion" not in hard) and (kind != "ring" or hard == ("length",))
]


@pytest.mark.parametrize(("kind", "dim", "hard"), BALANCED, ids=str)
def test_no_net_force_or_torque_on_a_free_chain(hard, dim, kind):
    n = 60
    if kind == "linear":
        s = random_system(dim, "free", hard, n, seed=8)
    else:
        s = make_graph(kind, n, dim, "free", hard, seed=8)
    force = fixman_force(s.chain, s.x)
    arm = 1.0 + np.abs(s.x - s.x.mean(0)).max()
    left = net(force, s.x - s.x.mean(0))
    assert np.abs(left).max() <= 1e-12 * n * arm * max(np.abs(force).max(), 1.0)


@given(systems(bases=("free",), min_n=3), seeds)
def test_the_force_turns_with_the_chain(s, seed):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(s.spec.dim, s.spec.dim)))  # mirrors too
    moved = s.x @ turn.T + rng.normal(size=s.spec.dim)
    _, condition = oracles.hard_logdet(s.spec, s.x)
    expected = fixman_force(s.chain, s.x) @ turn.T
    scale = max(np.abs(expected).max(), 1.0)
    tolerance = max(1e-11, 1e-15 * condition) * scale**2
    np.testing.assert_allclose(fixman_force(s.chain, moved), expected, rtol=0, atol=tolerance)


@given(systems(min_n=2), st.floats(0.1, 10.0))
def test_units(s, unit):
    force = fixman_force(s.chain, s.x)
    scale = max(np.abs(force).max(), 1.0)
    np.testing.assert_allclose(
        fixman_force(s.chain, s.x, unit), unit * force, rtol=0, atol=1e-14 * unit * scale
    )
    heavy = 3.0 / s.spec.m  # only ratios of masses matter
    np.testing.assert_allclose(
        fixman_force(s.chain, s.x, inverse_masses=heavy), force, rtol=0, atol=1e-9 * scale
    )


@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
def test_the_mobility_metric_is_that_of_other_masses(hard):
    rng = np.random.default_rng(2)
    s = random_system(3, "free", hard, 10, seed=2)
    mobility = 1 / random_masses(rng, 10)
    other = fx.Chain.linear(10, masses=1 / mobility, hard=hard)
    for function in (logdet, fixman_potential, fixman_force):
        given = function(s.chain, s.x, inverse_masses=mobility)
        np.testing.assert_allclose(given, function(other, s.x), rtol=1e-13, atol=1e-13)
        same = function(s.chain, s.x, inverse_masses=1 / s.spec.m)
        np.testing.assert_allclose(same, function(s.chain, s.x), rtol=1e-13, atol=1e-13)
        one = function(s.chain, s.x, inverse_masses=0.5)
        np.testing.assert_array_equal(one, function(s.chain, s.x, inverse_masses=np.full(10, 0.5)))


def test_without_hard_coordinates_there_is_no_force():
    chain = fx.Chain.linear(4, hard=())
    np.testing.assert_array_equal(fixman_force(chain, np.ones((2, 4, 3))), np.zeros((2, 4, 3)))
    with pytest.raises(ValueError, match="bead 1 in frame 1"):
        fixman_force(chain, np.array([np.ones((4, 3)), [[0] * 3, [np.nan] * 3, *[[1] * 3] * 2]]))


# --- batches ---------------------------------------------------------------------------------

SOME = [("length",), ("length", "angle"), ("length", "angle", "torsion"), ("torsion",)]


def frames_of(chain, frames, seed=0):
    """Return random walks."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(frames, chain.n, chain.dim)).cumsum(axis=1)


@pytest.mark.parametrize("batch", [(0,), (1,), (7,), (8,), (9,), (20,), (3, 11), (3, 0)])
@pytest.mark.parametrize("hard", SOME)
def test_a_frame_in_a_batch_is_what_it_is_alone(hard, batch):
    chain = fx.Chain.linear(7, masses=np.linspace(0.5, 3, 7), hard=hard)
    x = frames_of(chain, int(np.prod(batch))).reshape(*batch, 7, 3)
    for function in (logdet, fixman_force):
        values = function(chain, x)
        assert values.shape == (*batch, *((7, 3) if function is fixman_force else ()))
        for index in np.ndindex(batch):
            np.testing.assert_array_equal(values[index], function(chain, x[index]))
        for workers in (2, 3, 50):
            np.testing.assert_array_equal(function(chain, x, workers=workers), values)


@pytest.mark.parametrize("hard", SOME)
def test_a_frame_does_not_depend_on_its_neighbours(hard):
    chain = fx.Chain.linear(7, hard=hard)
    x = frames_of(chain, 40)
    wild = x.copy()
    wild[1::2] *= 10.0 ** np.linspace(-28, 28, 20)[:, None, None]
    order = np.random.default_rng(1).permutation(40)
    for function in (logdet, fixman_force):
        values = function(chain, x)
        np.testing.assert_array_equal(function(chain, wild)[::2], values[::2])
        np.testing.assert_array_equal(function(chain, x[order]), values[order])


@pytest.mark.parametrize("hard", SOME)
def test_long_chains_do_without_lanes(hard, monkeypatch):
    chain = fx.Chain.linear(7, hard=hard)
    x = frames_of(chain, 20)
    expected = logdet(chain, x), fixman_force(chain, x)
    monkeypatch.setattr(metric, "LARGEST_WORKSPACE", 0)
    for function, reference in zip((logdet, fixman_force), expected, strict=True):
        values = function(chain, x, workers=2)
        np.testing.assert_allclose(values, reference, rtol=1e-13, atol=1e-13)
        for frame in range(20):
            np.testing.assert_array_equal(values[frame], function(chain, x[frame]))
        bad = x.copy()
        bad[13, 2] = x[13, 3]
        with pytest.raises(ValueError, match="bead 2 and bead 3 coincide in frame 13"):
            function(chain, bad)


def test_planar_and_fixed_batches():
    for dim, base, hard in CASES:
        if not hard:
            continue
        chain = fx.Chain.linear(5, dim=dim, base=base, hard=hard)
        x = frames_of(chain, 11)
        force = fixman_force(chain, x, workers=2)
        for frame in (0, 7, 8, 10):
            np.testing.assert_array_equal(force[frame], fixman_force(chain, x[frame]))


def test_inputs_of_other_kinds():
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    x = frames_of(chain, 9)
    force = fixman_force(chain, x)
    np.testing.assert_array_equal(fixman_force(chain, np.asfortranarray(x)), force)
    np.testing.assert_array_equal(fixman_force(chain, x.tolist()), force)
    read_only = x.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(fixman_force(chain, read_only), force)
    np.testing.assert_array_equal(x, read_only)


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("bad", [0, 5, 8, 15, 16, 20])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
@pytest.mark.parametrize("function", [logdet, fixman_force])
def test_the_first_bad_frame_is_named(function, hard, bad, workers):
    chain = fx.Chain.linear(5, hard=hard)
    x = frames_of(chain, 21)
    x[bad:, 3] = x[bad:, 2]
    with pytest.raises(
        fx.SingularConstraintError, match=rf"bead 2 and bead 3 coincide in frame {bad}:"
    ):
        function(chain, x, workers=workers)
    x[bad:, 3] += np.nan
    with pytest.raises(ValueError, match=rf"x is nan at bead 3 in frame {bad}:"):
        function(chain, x, workers=workers)
    with pytest.raises(ValueError, match=r"x is nan at bead 3:"):
        function(chain, x[bad], workers=workers)


@pytest.mark.parametrize("frames", [1, 12])
def test_straight_angles_cannot_be_hard_in_space(frames):
    chain = fx.Chain.linear(5, hard=("length", "angle"))
    x = frames_of(chain, frames)
    x[-1, 3] = 2 * x[-1, 2] - x[-1, 1]
    with pytest.raises(fx.SingularConstraintError, match=rf"angle\(1, 2, 3\) .*frame {frames - 1}"):
        fixman_force(chain, x)


@pytest.mark.parametrize("function", [logdet, fixman_force])
def test_a_ring_folded_flat_is_refused(function):
    ring = fx.Chain.ring(4)
    x = np.zeros((10, 4, 3))
    x[:] = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    x[7] = [[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0]]
    with pytest.raises(fx.SingularConstraintError, match="frame 7"):
        function(ring, x)
    with pytest.raises(fx.SingularConstraintError, match="frame 7"):
        function(ring, x, inverse_masses=[1, 2, 3, 4])


@pytest.mark.parametrize("function", [fixman_potential, fixman_force])
@pytest.mark.parametrize("kT", [0.0, -1.0, np.nan, np.inf])
def test_a_temperature_is_positive(function, kT):
    with pytest.raises(ValueError, match="kT must be positive"):
        function(fx.Chain.linear(3), np.eye(3), kT)


def test_other_refusals():
    chain, x = fx.Chain.linear(3), np.eye(3)
    with pytest.raises(TypeError, match="kT must be one number"):
        fixman_force(chain, x, [1.0, 2.0])
    with pytest.raises(TypeError, match="kT must be one number"):
        fixman_force(chain, x, "300 K")
    for value, message in (
        ([1.0, 1.0], r"one number or have shape \(3,\), got \(2,\)"),
        ([1.0, 0.0, 1.0], "of bead 1 is 0.0"),
        ([1.0, np.nan, 1.0], "of bead 1 is nan"),
        (-1.0, "of bead 0 is -1.0"),
    ):
        with pytest.raises(ValueError, match=message):
            logdet(chain, x, inverse_masses=value)
    with pytest.raises(ValueError, match="workers must be at least 1"):
        logdet(chain, x, workers=0)
    with pytest.raises(TypeError, match="workers must be an integer"):
        fixman_force(chain, x, workers=1.5)
    with pytest.raises(TypeError, match="chain must be"):
        fixman_force(x, chain)
    for evaluate in (fixman_potential, fixman_force):
        with pytest.raises(ValueError, match="kT must be positive, in a unit that keeps it within"):
            evaluate(chain, x, 1e300)
    assert np.isfinite(fixman_potential(chain, 1e30 * x, 1e100, inverse_masses=1e90))
    assert np.isfinite(fixman_force(chain, 1e-30 * x, 1e100)).all()


# --- lazy arrays -----------------------------------------------------------------------------


@pytest.fixture
def lazy(peer):
    """Return Dask's array module with a scheduler that counts as running."""
    peer("dask")
    return peer("dask.array")


@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
@pytest.mark.parametrize("chunks", [(5, 6, 3), (9, 4, 2), ((1, 20, 1), 6, 3), (-1, -1, -1)])
def test_lazy_arrays(lazy, hard, chunks):
    chain = fx.Chain.linear(6, hard=hard)
    x = frames_of(chain, 22)
    for function in (logdet, fixman_potential, fixman_force):
        answer = function(chain, lazy.from_array(x, chunks=chunks), workers=2)
        assert isinstance(answer, lazy.Array)
        expected = function(chain, x)
        assert answer.shape == expected.shape
        assert answer.dtype == np.float64
        assert len(answer.chunks[0]) == len(lazy.from_array(x, chunks=chunks).chunks[0])
        np.testing.assert_array_equal(answer.compute(scheduler="threads"), expected)


def test_lazy_arrays_of_other_shapes(lazy):
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    x = frames_of(chain, 12).reshape(2, 6, 4, 3)
    for function in (logdet, fixman_force):
        answer = function(chain, lazy.from_array(x, chunks=(1, 4, 4, 3)))
        np.testing.assert_array_equal(answer.compute(), function(chain, x))
        one = function(chain, lazy.from_array(x[0, 0])).compute()
        np.testing.assert_array_equal(one, function(chain, x[0, 0]))
        # 12 frames, but nobody knows yet
        unknown = lazy.from_array(x.reshape(12, 4, 3), chunks=(5, 4, 3))
        unknown = unknown[unknown[:, 0, 0] > -np.inf]
        np.testing.assert_array_equal(
            function(chain, unknown).compute(), function(chain, x.reshape(12, 4, 3))
        )
    singles = lazy.from_array(x.astype(np.float32))
    np.testing.assert_array_equal(
        logdet(chain, singles).compute(), logdet(chain, x.astype(np.float32))
    )


def test_nothing_is_computed_before_it_is_asked_for(lazy):
    chain = fx.Chain.linear(5)

    def refuse(block):
        raise AssertionError("computed")

    x = lazy.from_array(frames_of(chain, 9), chunks=(4, 5, 3))
    later = x.map_blocks(refuse, dtype=float, meta=np.empty((0, 0, 0)))
    for function in (logdet, fixman_potential, fixman_force):
        answer = function(chain, later)
        with pytest.raises(AssertionError, match="computed"):
            answer.compute()


def test_lazy_refusals(lazy):
    chain = fx.Chain.linear(5)
    with pytest.raises(ValueError, match=r"x must have shape \(\.\.\., 5, 3\), got \(9, 4, 3\)"):
        logdet(chain, lazy.zeros((9, 4, 3)))
    with pytest.raises(ValueError, match=r"got \(9, 3, 5\)"):
        fixman_force(chain, lazy.zeros((9, 3, 5)))
    with pytest.raises(ValueError, match=r"got \(3,\)"):
        logdet(chain, lazy.zeros(3))
    with pytest.raises(TypeError, match="real numbers"):
        logdet(chain, lazy.zeros((9, 5, 3), dtype=complex))
    with pytest.raises(ValueError, match="kT"):
        fixman_force(chain, lazy.zeros((9, 5, 3)), -1.0)
    x = frames_of(chain, 12)
    x[9, 3] = x[9, 2]
    bad = logdet(chain, lazy.from_array(x, chunks=(4, 5, 3)))
    with pytest.raises(fx.SingularConstraintError, match=r"coincide in frame 9: "):
        bad.compute()
    several = np.stack([frames_of(chain, 12), x])
    bad = logdet(chain, lazy.from_array(several, chunks=(1, 4, 5, 3)))
    with pytest.raises(fx.SingularConstraintError, match=r"coincide in frame \(1, 9\): "):
        bad.compute()
