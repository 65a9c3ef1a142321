"""ln det H^bb: dense determinants, closed forms, published averages, 40 digits."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
import oracles
from oracles import Spec
from strategies import (
    BASES,
    CASES,
    GEOMETRIES,
    SHAPES,
    build,
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


@pytest.mark.parametrize("n", [1, 2, 3, 4, 30, 100])
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
        one = fx.logdet(chain, frames[index])
        assert np.asarray(values)[index] == pytest.approx(one, abs=1e-13)


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


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("shape", "bend"), GEOMETRIES)
@pytest.mark.parametrize("n", [10, 300, 10_000])
@pytest.mark.parametrize("dim", [2, 3])
def test_ln_det_keeps_twelve_digits(dim, n, shape, bend, base):
    s = random_system(dim, base, ("length",), n, seed=21, shape=shape, bend=bend)
    reference = oracles.mp_logdet(s.spec, s.x)
    tolerance = 1e-12 * max(1.0, abs(reference))
    assert abs(fx.logdet(s.chain, s.x) - reference) <= tolerance
    assert abs(fx.Partition(s.chain, s.x).logdet_hard - reference) <= tolerance


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("bend", [1e-3, 1e-6, 1e-8, 0.0])
def test_equal_masses_and_straight_where_plain_pivots_cancel(bend, base):
    # With equal masses the pivots fall like 1 + 1/k, and the plain recurrence loses digits as k².
    s = make_system(Spec(10_000, 2, base), "nearly straight", seed=5, bend=bend)
    reference = oracles.mp_logdet(s.spec, s.x)
    assert abs(fx.logdet(s.chain, s.x) - reference) <= 1e-12 * max(1.0, abs(reference))
