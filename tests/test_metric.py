"""ln det H^bb: dense determinants, closed forms, published averages, 40 digits."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
import force_oracles
import oracles
from fixman._common.statistics import statistical_inefficiency
from fixman.mechanics.metric import fixman_potential, reweight
from oracles import Spec, error
from selection import quick
from strategies import (
    BASES,
    CASES,
    GEOMETRIES,
    SHAPES,
    build,
    graphs,
    make_system,
    random_masses,
    random_system,
    seeds,
    systems,
)

REFERENCE = json.loads((Path(__file__).parent / "reference" / "numbers.json").read_text())


def dense(s, tol=1e-11):
    """Return the dense answer, with room for cond(H^bb), which is large for rigid chains."""
    value, condition = oracles.hard_logdet(s.spec, s.x)
    return pytest.approx(value, abs=tol + 1e-16 * condition)


def bent(theta, dim=2, base="free", torsions=None, **options):
    """Return a chain with unit bonds and the positions for internal angles theta (..., bends)."""
    theta = np.asarray(theta, float)
    bends = theta.shape[-1]
    spec = Spec(bends + (2 if base == "free" else 1), dim, base, **options)
    q = np.zeros((*theta.shape[:-1], len(spec.rows)))
    k = t = 0
    for i, (kind, beads) in enumerate(spec.rows):
        if kind == "length":
            q[..., i] = 1.0
        elif kind == "angle":
            outer = beads == ((-2, 0, 1) if base == "free" else (-2, -1, 0))
            q[..., i] = 0.7 if outer else theta[..., k]
            k += not outer
        elif kind == "torsion":
            ghost = min(beads) < (0 if base == "free" else -1)
            q[..., i] = 0.4 if ghost or torsions is None else torsions[..., t]
            t += not ghost
    return build(spec), oracles.cartesian(spec, q)


# --- dense -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [30, 100])
@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_logdet_equals_dense(dim, base, hard, n):
    s = random_system(dim, base, hard, n, seed=n)
    assert fx.logdet(s.chain, s.x) == dense(s)


@given(systems(shapes=("random", "zigzag")))
def test_logdet_for_any_mask(s):
    value = fx.logdet(s.chain, s.x)
    assert value == dense(s)
    assert fx.Partition(s.chain, s.x).logdet_hard == pytest.approx(value, abs=1e-11)


@given(systems(kinds=("length",), shapes=SHAPES))
def test_logdet_of_freely_jointed_chains_of_every_shape(s):
    assert fx.logdet(s.chain, s.x) == dense(s)


@given(systems(dims=(2,), shapes=SHAPES))
def test_logdet_of_planar_chains_of_every_shape(s):
    assert fx.logdet(s.chain, s.x) == dense(s, 1e-10)


@pytest.mark.parametrize("batch", [(), (1,), (7,), (33,), (2, 3), (0,), (3, 0)])
@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_batches_have_their_own_shape(dim, base, hard, batch):
    spec = Spec(6, dim, base, random_masses(np.random.default_rng(0), 6), hard)
    chain = build(spec)
    frames = np.zeros((*batch, 6, dim))
    for k, index in enumerate(np.ndindex(batch)):
        frames[index] = make_system(spec, seed=k).x
    values = fx.logdet(chain, frames)
    assert np.shape(values) == batch
    for index in np.ndindex(batch):
        assert np.asarray(values)[index] == fx.logdet(chain, frames[index])


@given(graphs())
def test_logdet_of_trees_and_rings(s):
    value = fx.logdet(s.chain, s.x)
    assert value == dense(s, 1e-10)
    assert fx.Partition(s.chain, s.x).logdet_hard == pytest.approx(value, abs=1e-10)


def test_one_frame_gives_a_number():
    value = fx.logdet(fx.Chain.linear(3), np.eye(3))
    assert np.ndim(value) == 0
    assert float(value) == pytest.approx(np.log(4 - 0.25))


@given(systems(bases=("free",), min_n=2, shapes=("random", "zigzag")), seeds)
def test_the_determinant_does_not_depend_on_where_the_chain_is(s, seed):
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(s.spec.dim, s.spec.dim)))  # mirrors too
    moved = s.x @ turn.T + 10 * rng.normal(size=s.spec.dim)
    assert fx.logdet(s.chain, moved) == pytest.approx(fx.logdet(s.chain, s.x), abs=1e-10)


@given(systems(kinds=("length",), bases=("free",), min_n=2, shapes=SHAPES))
def test_the_determinant_does_not_depend_on_the_numbering(s):
    back = fx.Chain.linear(s.spec.n, dim=s.spec.dim, masses=s.spec.m[::-1])
    assert fx.logdet(back, s.x[::-1]) == pytest.approx(fx.logdet(s.chain, s.x), abs=1e-12)


@given(systems(shapes=("random", "zigzag")))
def test_masses_and_lengths_are_units(s):
    h = s.spec
    heavy = fx.Chain.linear(h.n, dim=h.dim, base=h.base, masses=3 * h.m, hard=h.hard_kinds)
    shift = -len(h.hard) * np.log(3)
    assert fx.logdet(heavy, s.x) == pytest.approx(fx.logdet(s.chain, s.x) + shift, abs=1e-11)
    if h.base == "free":
        turns = sum(h.rows[i][0] != "length" for i in h.hard)
        shift = -2 * turns * np.log(1.7)
        got = fx.logdet(s.chain, 1.7 * s.x)
        assert got == pytest.approx(fx.logdet(s.chain, s.x) + shift, abs=1e-11)


# --- closed forms, to 1e-12 ------------------------------------------------------------------

THETAS = [0.0, 1e-8, 1e-3, 0.5, 1.0, np.pi / 2, 2.0, 3.0, np.pi - 1e-6]


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("theta", THETAS)
def test_trimer(theta, dim):
    chain, x = bent([theta], dim)
    assert np.exp(fx.logdet(chain, x)) == pytest.approx(4 - np.cos(theta) ** 2, rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("theta", THETAS)
def test_trimer_with_any_masses(theta, dim):
    masses = np.array([0.3, 2.0, 7.0])
    chain, x = bent([theta], dim, masses=masses)
    w = 1 / masses
    expected = (w[0] + w[1]) * (w[1] + w[2]) - (w[1] * np.cos(theta)) ** 2
    assert np.exp(fx.logdet(chain, x)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("theta", THETAS)
def test_two_links_on_a_fixed_base(theta, dim):
    chain, x = bent([theta], dim, base="fixed")
    assert np.exp(fx.logdet(chain, x)) == pytest.approx(2 - np.cos(theta) ** 2, rel=1e-12)


@given(st.lists(st.floats(0, np.pi - 0.01), min_size=1, max_size=20), st.sampled_from(BASES))
def test_recursion(theta, base):
    # Torsions do not enter; a fixed base starts from one bond of weight 1 instead of 2.
    before, now = 1.0, 2.0 if base == "free" else 1.0
    for c in np.cos(theta):
        before, now = now, 2 * now - c * c * before
    for dim in (2, 3):
        chain, x = bent(theta, dim, base)
        assert fx.logdet(chain, x) == pytest.approx(np.log(now), abs=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("bonds", [1, 2, 3, 10, 100, 1000])
def test_straight_and_right_angled_chains(bonds, dim):
    straight = np.zeros((bonds + 1, dim))
    straight[:, 0] = np.arange(bonds + 1)
    stairs = np.zeros((bonds + 1, dim))
    stairs[1:] = np.cumsum(np.eye(dim)[np.arange(bonds) % 2], axis=0)
    free = fx.Chain.linear(bonds + 1, dim=dim)
    fixed = fx.Chain.linear(bonds, dim=dim, base="fixed")
    # Absolute in ln det up to 1, relative beyond.
    for chain, x, expected in (
        (free, straight, np.log(bonds + 1)),
        (free, stairs, bonds * np.log(2)),
        (fixed, straight[1:], 0.0),
        (fixed, stairs[1:], (bonds - 1) * np.log(2)),
    ):
        assert fx.logdet(chain, x) == pytest.approx(expected, abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("bonds", [2, 3, 10, 100])
@pytest.mark.parametrize("theta", [1e-3, 0.3, 1.0, np.pi / 2, 2.5])
def test_the_same_bend_everywhere(theta, bonds, dim):
    rng = np.random.default_rng(0)
    torsions = rng.uniform(-3, 3, bonds) if dim == 3 else None
    chain, x = bent(np.full(bonds - 1, theta), dim, torsions=torsions)
    s = abs(np.sin(theta))
    expected = np.log(((1 + s) ** (bonds + 1) - (1 - s) ** (bonds + 1)) / (2 * s))
    assert fx.logdet(chain, x) == pytest.approx(expected, abs=1e-12, rel=1e-12)


def four_beads(alpha):
    """Return the butane model: bonds and right angles, alpha = 0 at trans."""
    phi = np.pi - np.asarray(alpha)[..., None]
    right = np.full((*phi.shape[:-1], 2), np.pi / 2)
    return bent(right, 3, torsions=phi, hard_kinds=("length", "angle"))


def test_four_beads_with_right_angles():
    alpha = np.linspace(-np.pi, np.pi, 41)
    c = np.cos(alpha)
    expected = 2 * (35 + 4 * c - 16 * c**2 + c**4)
    chain, x = four_beads(alpha)
    np.testing.assert_allclose(np.exp(fx.logdet(chain, x)), expected, rtol=1e-12)


# --- published averages ----------------------------------------------------------------------


def close_to_reference(name, value):
    entry = REFERENCE[name]
    assert value == pytest.approx(entry["value"], abs=entry["tolerance"]), entry["source"]


def average_square_cosine(dim, base="free", masses=1.0):
    """Return the rigid ⟨c²⟩ of one bend, and the stiff one by the weight (det H)^{-1/2}."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    theta = (nodes + 1) * np.pi / 2
    measure = weights * (np.sin(theta) if dim == 3 else 1.0)
    chain, x = bent(theta[:, None], dim, base, masses=masses)
    rigid = measure * np.exp(fx.logdet(chain, x) / 2)
    square = np.cos(theta) ** 2
    return (square @ rigid) / rigid.sum(), (square @ measure) / measure.sum()


@pytest.mark.parametrize("dim", [2, 3])
def test_rigid_and_stiff_averages_of_one_bend(dim):
    rigid, stiff = average_square_cosine(dim)
    close_to_reference(f"trimer, {dim}-D, rigid <c^2>", rigid)
    assert stiff == pytest.approx({2: 1 / 2, 3: 1 / 3}[dim], abs=1e-12)
    rigid, _ = average_square_cosine(dim, "fixed")
    close_to_reference(f"two links, fixed base, {dim}-D, rigid <c^2>", rigid)
    if dim == 3:
        exact = (2 * np.pi / 3 - np.sqrt(3) / 2) / (2 * np.pi / 3 + np.sqrt(3))
        assert average_square_cosine(3)[0] == pytest.approx(exact, abs=1e-9)


def test_rigid_average_with_a_light_middle_bead():
    rigid, _ = average_square_cosine(3, masses=np.array([1.0, 0.2, 1.0]))
    close_to_reference("trimer, 3-D, rigid <c^2>, inverse masses 1, 5, 1", rigid)


def test_rigid_torsion_average_and_maximum_of_four_beads():
    alpha = np.linspace(-np.pi, np.pi, 400, endpoint=False)  # periodic: converges exponentially
    chain, x = four_beads(alpha)
    weight = np.exp(fx.logdet(chain, x) / 2)
    average = (np.cos(alpha) @ weight) / weight.sum()
    close_to_reference("four beads, bonds and right angles hard, rigid <cos alpha>", average)
    fine = np.radians(np.linspace(82.7, 82.9, 2001))
    chain, x = four_beads(fine)
    best = np.degrees(fine[np.argmax(fx.logdet(chain, x))])
    close_to_reference(
        "four beads, bonds and right angles hard, angle of the largest determinant in degrees", best
    )


# --- accuracy against 40 digits --------------------------------------------------------------


@pytest.mark.parametrize(("shape", "bend"), GEOMETRIES)
@pytest.mark.parametrize(
    ("dim", "base", "n"),
    [(dim, base, n) for dim in (2, 3) for base in BASES for n in (10, 300)]
    + quick([(2, "fixed", 3000), (3, "free", 3000)]),
)
def test_ln_det_keeps_twelve_digits(dim, n, shape, bend, base):
    s = random_system(dim, base, ("length",), n, seed=21, shape=shape, bend=bend)
    reference = oracles.mp_logdet(s.spec, s.x)
    tolerance = 1e-12 * max(1.0, abs(reference))
    assert abs(fx.logdet(s.chain, s.x) - reference) <= tolerance
    assert abs(fx.Partition(s.chain, s.x).logdet_hard - reference) <= tolerance


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("bend", quick([1e-3, 1e-6, 1e-8, 0.0], 1e-6))
def test_equal_masses_and_straight_where_plain_pivots_cancel(bend, base):
    # With equal masses the pivots fall like 1 + 1/k, and the plain recurrence loses digits as k².
    s = make_system(Spec(10_000, 2, base), "nearly straight", seed=5, bend=bend)
    reference = oracles.mp_logdet(s.spec, s.x)
    assert abs(fx.logdet(s.chain, s.x) - reference) <= 1e-12 * max(1.0, abs(reference))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("shape", oracles.SHAPES)
@pytest.mark.parametrize("masses", oracles.UNEVEN)
def test_determinant_and_force_for_any_masses(masses, shape, base, dim, monkeypatch):
    monkeypatch.setattr(oracles, "DIGITS", 120)
    monkeypatch.setattr(force_oracles, "DIGITS", 120)
    for seed in range(5):
        spec, x, _ = oracles.uneven_chain(masses, shape, dim, base, seed)
        chain, reference = build(spec), oracles.mp_logdet(spec, x)
        tolerance = 1e-12 * max(1.0, abs(reference))
        assert abs(fx.logdet(chain, x) - reference) <= tolerance
        assert abs(fx.Partition(chain, x).logdet_hard - reference) <= tolerance
        expected = force_oracles.mp_fixman_force(spec, x)
        assert error(fx.fixman_force(chain, x), expected) <= 1e-12
        # and of eight frames in lanes
        assert error(fx.fixman_force(chain, np.array([x] * 8))[3], expected) <= 1e-12


@pytest.mark.parametrize("dim", [2, 3])
def test_the_sine_of_exactly_folded_bonds_is_zero(dim):
    # Heavy, light, heavy: any rest of a sine, times the ratio of masses, would be the answer.
    bond = np.array([0.1, 0.3, 0.7])[:dim]
    x = np.array([bond, 2.0 * bond, bond, 3.0 * bond, bond])
    m = np.array([1e27, 1e-30, 1e27, 1e-30, 1e27])
    spec = Spec(5, dim, "free", masses=m)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracles, "DIGITS", 200)
        # 2 bond and 3 bond are rounded: positions, and not what was meant, are folded or not.
        reference = oracles.mp_logdet(spec, x)
    assert abs(fx.logdet(build(spec), x) - reference) <= 1e-12 * abs(reference)
    line = np.zeros((3, dim))
    line[:, :] = np.array([3.0, 1.0, 7.0])[:dim]
    line[1] = 0.0
    w = 1.0 / np.array([1e27, 1e-30, 1e27])
    # A straight trimer: det = (w₀ + w₁)(w₁ + w₂) − w₁² = w₀w₁ + w₀w₂ + w₁w₂.
    expected = np.log(w[0] * w[1] + w[0] * w[2] + w[1] * w[2])
    got = fx.logdet(fx.Chain.linear(3, dim=dim, masses=1.0 / w), line)
    assert abs(got - expected) <= 1e-14 * max(1.0, abs(expected))


# --- potential and weights -------------------------------------------------------------------


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("hard", [(), ("length",), ("length", "angle")])
def test_the_potential_is_half_of_it(hard, workers):
    s = random_system(3, "free", hard, 6, seed=1)
    x = s.x + 0.1 * np.random.default_rng(2).normal(size=(21, 6, 3))
    half = fx.logdet(s.chain, x) / 2
    np.testing.assert_array_equal(fixman_potential(s.chain, x, workers=workers), half)
    np.testing.assert_allclose(fixman_potential(s.chain, x, 2.5), 2.5 * half, rtol=1e-15)
    one = fixman_potential(s.chain, x[0])
    assert np.ndim(one) == 0
    assert one == half[0]


@pytest.mark.parametrize("dim", [2, 3])
def test_the_mobility_metric_of_a_trimer(dim):
    # What Brownian dynamics samples, whatever the masses; inverse frictions 1, 5, 1.
    nodes, weights = np.polynomial.legendre.leggauss(60)
    theta = (nodes + 1) * np.pi / 2
    measure = weights * (np.sin(theta) if dim == 3 else 1.0)
    chain, x = bent(theta[:, None], dim, masses=np.array([3.0, 1.0, 2.0]))
    metric = fx.logdet(chain, x, inverse_masses=[1.0, 5.0, 1.0])
    np.testing.assert_allclose(np.exp(metric), 36 - 25 * np.cos(theta) ** 2, rtol=1e-13)
    if dim == 3:
        rigid = measure * np.exp(metric / 2)
        average = (np.cos(theta) ** 2 @ rigid) / rigid.sum()
        close_to_reference("trimer, 3-D, rigid <c^2>, inverse masses 1, 5, 1", average)


@pytest.mark.parametrize("shape", [(400,), (100, 4), (100, 2, 2)])
def test_weights_of_rigid_samples(shape):
    rng = np.random.default_rng(3)
    theta = np.arccos(rng.uniform(-1, 1, 4000))
    chain, x = bent(theta[:, None], 3)
    keep = rng.random(4000) < np.sqrt(1 - np.cos(theta) ** 2 / 4)  # rigid: √(4 − c²)
    x, c = x[keep][:400].reshape(*shape, 3, 3), np.cos(theta)[keep][:400].reshape(shape)
    found = reweight(chain, x)
    weights = np.exp(found.log_weights)
    assert found.log_weights.shape == shape
    assert weights.sum() == pytest.approx(1.0, abs=1e-14)
    expected = (4 - c**2) ** -0.5
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-12)
    kish = 1 / (weights**2).sum()
    g = statistical_inefficiency(fixman_potential(chain, x))
    assert found.effective_size == pytest.approx(kish / g, rel=1e-12)
    assert 1 <= found.effective_size <= 400


def test_samples_that_do_not_move_are_worth_one():
    rng = np.random.default_rng(4)
    chain = fx.Chain.linear(5)
    walk = rng.normal(size=(5, 3)).cumsum(axis=0)
    slow = walk + np.linspace(0, 0.3, 100)[:, None, None] * rng.normal(size=(5, 3))
    fast = walk + 0.1 * rng.normal(size=(100, 5, 3))
    assert reweight(chain, slow).effective_size < 10
    assert reweight(chain, fast).effective_size > 50
    one = reweight(chain, walk[None])
    assert one.effective_size == pytest.approx(1.0)
    np.testing.assert_allclose(one.log_weights, 0.0, atol=1e-15)


def test_the_effective_size_is_that_of_the_observable():
    rng = np.random.default_rng(3)
    chain = fx.Chain.linear(3)
    x = rng.normal(size=(4000, 3, 3)).cumsum(axis=1)  # every frame is a new draw
    assert reweight(chain, x).effective_size > 2500
    slow = rng.normal(size=4000)
    for k in range(1, 4000):
        slow[k] = 0.98 * slow[k - 1] + 0.2 * slow[k]
    size = reweight(chain, x, observable=slow).effective_size
    assert 15 < size < 90  # (1 + 0.98)/(1 − 0.98) = 99 frames for one
    risen = reweight(chain, x, observable=slow + 1e4).effective_size
    assert risen == pytest.approx(size, rel=1e-9)
    fresh = reweight(chain, x, observable=rng.normal(size=4000)).effective_size
    assert fresh > 2500
    with pytest.raises(ValueError, match=r"have shape \(4000,\), got \(3,\)"):
        reweight(chain, x, observable=np.ones(3))
    with pytest.raises(ValueError, match="observable is nan at frame 7"):
        reweight(chain, x, observable=np.where(np.arange(4000) == 7, np.nan, 1.0))


def test_weights_need_frames():
    chain = fx.Chain.linear(3)
    with pytest.raises(ValueError, match="time as its first axis, got one configuration"):
        reweight(chain, np.eye(3))
    with pytest.raises(ValueError, match="x has no frames"):
        reweight(chain, np.empty((0, 3, 3)))
    bad = np.stack([np.eye(3)] * 4)
    bad[2, 1] = bad[2, 0]
    with pytest.raises(fx.SingularConstraintError, match="frame 2"):
        reweight(chain, bad)


def test_weights_of_lazy_arrays(peer):
    peer("dask")
    array = peer("dask.array")
    x = np.random.default_rng(5).normal(size=(40, 4, 3)).cumsum(axis=1)
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    found = reweight(chain, array.from_array(x, chunks=(12, 4, 3)))
    np.testing.assert_array_equal(found.log_weights, reweight(chain, x).log_weights)
    assert found.effective_size == reweight(chain, x).effective_size
