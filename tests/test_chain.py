"""The chain: index tables, equality and copies, x -> q -> x, velocities, refusals."""

import copy
import dataclasses
import json
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given

import fixman as fx
import oracles
from oracles import Spec, error, wrapped
from strategies import BASES, CASES, build, chart_values, random_masses, seeds, specs, systems


def table(chain):
    return [(c.kind, tuple(c.beads)) for c in chain.coordinates]


# --- index tables ----------------------------------------------------------------------------

HAND_WRITTEN = {
    (2, "free"): [
        ("x", (0,)),
        ("y", (0,)),
        ("length", (0, 1)),
        ("angle", (-2, 0, 1)),
        ("length", (1, 2)),
        ("angle", (0, 1, 2)),
        ("length", (2, 3)),
        ("angle", (1, 2, 3)),
    ],
    (3, "free"): [
        ("x", (0,)),
        ("y", (0,)),
        ("z", (0,)),
        ("length", (0, 1)),
        ("angle", (-2, 0, 1)),
        ("torsion", (-3, -2, 0, 1)),
        ("length", (1, 2)),
        ("angle", (0, 1, 2)),
        ("torsion", (-2, 0, 1, 2)),
        ("length", (2, 3)),
        ("angle", (1, 2, 3)),
        ("torsion", (0, 1, 2, 3)),
    ],
    (2, "fixed"): [
        ("length", (-1, 0)),
        ("angle", (-2, -1, 0)),
        ("length", (0, 1)),
        ("angle", (-1, 0, 1)),
        ("length", (1, 2)),
        ("angle", (0, 1, 2)),
        ("length", (2, 3)),
        ("angle", (1, 2, 3)),
    ],
    (3, "fixed"): [
        ("length", (-1, 0)),
        ("angle", (-2, -1, 0)),
        ("torsion", (-3, -2, -1, 0)),
        ("length", (0, 1)),
        ("angle", (-1, 0, 1)),
        ("torsion", (-2, -1, 0, 1)),
        ("length", (1, 2)),
        ("angle", (0, 1, 2)),
        ("torsion", (-1, 0, 1, 2)),
        ("length", (2, 3)),
        ("angle", (1, 2, 3)),
        ("torsion", (0, 1, 2, 3)),
    ],
}


@pytest.mark.parametrize(("dim", "base"), HAND_WRITTEN)
def test_the_chart_is_the_documented_one(dim, base):
    assert table(fx.Chain.linear(4, dim=dim, base=base)) == HAND_WRITTEN[dim, base]


@given(specs(max_n=12))
def test_rows_and_hard_sets_follow_the_definition(spec):
    chain = build(spec)
    assert table(chain) == spec.rows
    assert len(chain.coordinates) == spec.n * spec.dim
    np.testing.assert_array_equal(chain.hard, spec.hard)
    np.testing.assert_array_equal(chain.soft, spec.soft)
    np.testing.assert_array_equal(chain.masses, spec.m)
    assert (chain.n, chain.dim, chain.base) == (spec.n, spec.dim, spec.base)


@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_kinds_pick_their_rows(dim, base, hard):
    chain = fx.Chain.linear(5, dim=dim, base=base, hard=hard)
    for i, row in enumerate(chain.coordinates):
        free_ghost = base == "free" and min(row.beads) < 0
        assert (i in chain.hard) == (row.kind in hard and not free_ghost)


def test_a_list_of_kinds_and_their_order_do_not_matter():
    assert fx.Chain.linear(4, hard=["angle", "length"]) == fx.Chain.linear(
        4, hard=("length", "angle")
    )


def test_a_mask_is_the_same_as_kinds():
    chain = fx.Chain.linear(5, hard=("length", "angle"))
    mask = np.zeros(15, bool)
    mask[chain.hard] = True
    assert fx.Chain.linear(5, hard=mask) == chain
    assert fx.Chain.linear(5, hard=mask.tolist()) == chain
    assert fx.Chain.linear(5, hard=~mask & False).hard.size == 0


def test_defaults_are_a_free_chain_in_space_with_hard_bonds():
    chain = fx.Chain.linear(3)
    assert (chain.dim, chain.base) == (3, "free")
    np.testing.assert_array_equal(chain.masses, np.ones(3))
    assert [chain.coordinates[i].kind for i in chain.hard] == ["length"] * 2


def test_a_single_bead():
    for dim in (2, 3):
        free = fx.Chain.linear(1, dim=dim)
        assert table(free) == [(axis, (0,)) for axis in "xyz"[:dim]]
        assert free.hard.size == 0
        assert len(fx.Chain.linear(1, dim=dim, base="fixed").coordinates) == dim


@pytest.mark.parametrize("dim", [2, 3])
def test_everything_may_be_hard_on_a_fixed_base(dim):
    chain = fx.Chain.linear(4, dim=dim, base="fixed", hard=("length", "angle", "torsion")[:dim])
    assert chain.soft.shape == (0,)
    assert chain.hard.shape == (4 * dim,)


# --- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -1, 2.5, "3", None, [3], np.nan, 1j])
def test_n_must_be_a_positive_integer(n):
    with pytest.raises((TypeError, ValueError), match=r"\bn\b|bead|integer|empty"):
        fx.Chain.linear(n)


def test_numpy_integers_count_beads():
    assert fx.Chain.linear(np.int32(3)) == fx.Chain.linear(3)


@pytest.mark.parametrize(
    "options",
    [
        {"dim": 1},
        {"dim": 4},
        {"dim": "3"},
        {"base": "loose"},
        {"base": None},
        {"hard": "lenght"},
        {"hard": ("lenght",)},
        {"hard": ("length", "length ")},
        {"hard": ("x",)},
        {"hard": 3},
        {"hard": np.ones(3, bool)},
        {"hard": np.zeros(15)},
        {"hard": np.arange(15)},
        {"hard": ("torsion",), "dim": 2},
    ],
)
def test_options_that_are_refused(options):
    with pytest.raises((TypeError, ValueError)):
        fx.Chain.linear(5, **options)


def test_torsions_in_the_plane_are_a_value_error():
    with pytest.raises(ValueError, match="torsion"):
        fx.Chain.linear(5, dim=2, hard=("length", "torsion"))


def test_a_bare_word_is_one_kind():
    assert fx.Chain.linear(5, hard="length") == fx.Chain.linear(5)
    with pytest.raises(ValueError, match="did you mean length"):
        fx.Chain.linear(5, hard="lenght")


@pytest.mark.parametrize("dim", [2, 3])
def test_external_rows_of_a_free_chain_cannot_be_hard(dim):
    rows = oracles.chart(4, dim, "free")
    for i, row in enumerate(rows):
        mask = np.zeros(len(rows), bool)
        mask[i] = True
        if oracles.external(row, "free"):
            with pytest.raises(ValueError, match=r"external|ghost|position|free"):
                fx.Chain.linear(4, dim=dim, hard=mask)
        else:
            np.testing.assert_array_equal(fx.Chain.linear(4, dim=dim, hard=mask).hard, [i])


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_masses_must_be_positive_and_finite(bad):
    with pytest.raises(ValueError, match="mass"):
        fx.Chain.linear(3, masses=bad)
    with pytest.raises(ValueError, match=r"(?i)bead\D*2\b"):
        fx.Chain.linear(4, masses=[1.0, 2.0, bad, 1.0])


@pytest.mark.parametrize("masses", [np.ones(2), np.ones((3, 1)), [], 1j, "heavy", None])
def test_masses_must_be_one_or_n_numbers(masses):
    with pytest.raises((TypeError, ValueError)):
        fx.Chain.linear(3, masses=masses)


# --- identity --------------------------------------------------------------------------------


@given(specs())
def test_equal_content_is_equal_hashes_equal_and_survives_copies(spec):
    chain, twin = build(spec), build(spec)
    assert chain == twin
    assert hash(chain) == hash(twin)
    for clone in (
        fx.Chain.from_json(chain.to_json()),
        pickle.loads(pickle.dumps(chain)),
        copy.copy(chain),
        copy.deepcopy(chain),
    ):
        assert clone == chain
        assert hash(clone) == hash(chain)
        assert table(clone) == table(chain)
        np.testing.assert_array_equal(clone.masses, chain.masses)
        np.testing.assert_array_equal(clone.hard, chain.hard)
        assert not clone.masses.flags.writeable
    json.loads(chain.to_json())


def test_different_content_is_different():
    chains = [
        fx.Chain.linear(4),
        fx.Chain.linear(5),
        fx.Chain.linear(4, dim=2),
        fx.Chain.linear(4, base="fixed"),
        fx.Chain.linear(4, masses=2.0),
        fx.Chain.linear(4, masses=[1, 1, 1, 1 + 1e-15]),
        fx.Chain.linear(4, hard=()),
        fx.Chain.linear(4, hard=("length", "angle")),
    ]
    assert len(set(chains)) == len(chains)
    assert all(a != b for i, a in enumerate(chains) for b in chains[:i])
    assert chains[0] != "chain"
    assert fx.Chain.linear(4, masses=1.0) == fx.Chain.linear(4, masses=np.ones(4))


@given(specs(max_n=4))
def test_awkward_masses_survive_json_to_the_last_bit(spec):
    masses = np.random.default_rng(spec.n).random(spec.n) * 1e-17 + 5e-324
    chain = fx.Chain.linear(spec.n, masses=np.maximum(masses, 1e-30) / 3)
    np.testing.assert_array_equal(fx.Chain.from_json(chain.to_json()).masses, chain.masses)


@pytest.mark.parametrize("text", ["", "{}", "[1, 2]", "not json", '{"n": 3}'])
def test_broken_json_is_a_value_error(text):
    with pytest.raises((ValueError, TypeError)):
        fx.Chain.from_json(text)


def test_nothing_can_be_changed():
    chain = fx.Chain.linear(4, masses=np.ones(4))
    for name in ("n", "dim", "base", "masses", "hard", "soft"):
        with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
            setattr(chain, name, None)
    for array in (chain.masses, chain.references, chain.hard_mask, chain.hard, chain.soft):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5
    with pytest.raises((AttributeError, dataclasses.FrozenInstanceError)):
        chain.coordinates[0].kind = "angle"


def test_the_callers_arrays_stay_the_callers():
    masses, mask = np.ones(4), np.zeros(12, bool)
    chain = fx.Chain.linear(4, masses=masses, hard=mask)
    masses[0], mask[3] = 7.0, True
    assert chain == fx.Chain.linear(4, hard=())
    assert masses.flags.writeable


def test_repr_is_short_and_says_what_it_is():
    text = repr(fx.Chain.linear(50, dim=2, base="fixed", masses=np.arange(1, 51)))
    assert "Chain" in text
    for word in ("50", "2", "fixed", "length"):
        assert word in text
    for hard in (("length",), np.zeros(300_000, bool)):
        huge = fx.Chain.linear(
            100_000, masses=random_masses(np.random.default_rng(0), 100_000), hard=hard
        )
        assert len(repr(huge)) < 300


def test_a_million_beads_cost_no_loop_over_beads():
    masses, lines = np.linspace(1, 2, 10**6), 0
    few = fx.Chain.linear(10, dim=2, masses=masses[:10])  # imports are not counted
    assert hash(few) == hash(fx.Chain.linear(10, dim=2, masses=masses[:10]))
    assert few.hard.size == 9

    def count(frame, event, argument):
        nonlocal lines
        lines += 1
        return count

    objects, before = sys.getallocatedblocks(), sys.gettrace()
    sys.settrace(count)
    try:
        chain = fx.Chain.linear(10**6, dim=2, masses=masses)
        assert chain == fx.Chain.linear(10**6, dim=2, masses=masses)
        hash(chain)
        assert chain.hard.size == 10**6 - 1
    finally:
        sys.settrace(before)
    assert lines < 100_000
    assert sys.getallocatedblocks() - objects < 100_000


# --- x -> q -> x -----------------------------------------------------------------------------


@given(systems(shapes=("random", "zigzag")))
def test_positions_and_coordinates_agree_with_the_definition(s):
    turns = np.array([row[0] in ("angle", "torsion") for row in s.spec.rows])
    difference = s.chain.internal(s.x) - s.q
    difference[turns] = wrapped(difference[turns])
    assert np.abs(difference).max() < 1e-11
    assert error(s.chain.cartesian(s.q), s.x, 1.0) < 1e-13


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("n", [1, 2, 10, 10_000])
def test_round_trip(n, dim, base):
    spec = Spec(n, dim, base)
    rng = np.random.default_rng(n)
    x = np.cumsum(rng.normal(size=(n, dim)), axis=0)
    chain = build(spec)
    q = chain.internal(x)
    assert error(chain.cartesian(q), x) < 1e-12
    # and from random internal coordinates, with every angle between nearly straight and folded
    q = chart_values(spec, "random", rng)
    assert (
        error(
            chain.cartesian(chain.internal(oracles.cartesian(spec, q))), oracles.cartesian(spec, q)
        )
        < 1e-12
    )


def test_ranges_of_the_coordinates():
    rng = np.random.default_rng(0)
    for dim in (2, 3):
        chain = fx.Chain.linear(50, dim=dim)
        q = chain.internal(np.cumsum(rng.normal(size=(20, 50, dim)), axis=1))
        for i, row in enumerate(chain.coordinates):
            if row.kind == "length":
                assert (q[:, i] > 0).all()
            elif row.kind == "angle":
                assert (q[:, i] >= (0 if dim == 3 else -np.pi)).all()
                assert (q[:, i] <= np.pi).all()
            elif row.kind == "torsion":
                assert (np.abs(q[:, i]) <= np.pi).all()


@pytest.mark.parametrize("base", BASES)
def test_a_straight_planar_chain_makes_the_round_trip(base):
    chain = fx.Chain.linear(6, dim=2, base=base)
    x = np.outer(np.arange(1, 7), [0.6, 0.8])
    assert error(chain.cartesian(chain.internal(x)), x) < 1e-15


@pytest.mark.parametrize("batch", [(), (1,), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_batches_equal_singles(dim, base, batch):
    spec = Spec(5, dim, base)
    chain, rng = build(spec), np.random.default_rng(4)
    q = np.zeros((*batch, 5 * dim))
    for index in np.ndindex(batch):
        q[index] = chart_values(spec, "random", rng)
    qd = rng.normal(size=q.shape)
    x, v = chain.cartesian(q, qd)
    assert x.shape == v.shape == (*batch, 5, dim)
    again = chain.internal(x)
    assert again.shape == q.shape
    np.testing.assert_array_equal(chain.cartesian(q), x)
    for index in np.ndindex(batch):
        one = chain.cartesian(q[index], qd[index])
        np.testing.assert_array_equal(one[0], x[index])
        np.testing.assert_array_equal(one[1], v[index])
        np.testing.assert_array_equal(chain.internal(x[index]), again[index])


# --- velocities ------------------------------------------------------------------------------


@given(systems(shapes=("random", "zigzag", "nearly straight", "straight")), seeds)
def test_velocities_agree_with_complex_steps_and_with_differences(s, seed):
    qd = np.random.default_rng(seed).normal(size=s.q.shape)
    x, v = s.chain.cartesian(s.q, qd)
    assert error(x, s.x, 1.0) < 1e-13
    assert error(v, oracles.velocity(s.spec, s.q, qd), 1.0) < 1e-12
    h = 1e-6
    central = (s.chain.cartesian(s.q + h * qd) - s.chain.cartesian(s.q - h * qd)) / (2 * h)
    assert error(v, central, 1.0) < 1e-7


@given(systems())
def test_rates_come_back_through_wilson_rows(s):
    _, v = s.chain.cartesian(s.q, s.qd)
    assert error(fx.wilson_b(s.chain, s.x) @ v.ravel(), s.qd, 1.0) < 1e-10


def test_velocities_of_long_chains():
    for dim in (2, 3):
        for base in BASES:
            spec = Spec(3000, dim, base)
            rng = np.random.default_rng(1)
            q = chart_values(spec, "random", rng)
            qd = rng.normal(size=q.shape)
            assert error(build(spec).cartesian(q, qd)[1], oracles.velocity(spec, q, qd)) < 1e-11


@pytest.mark.parametrize("closing", [[[4, 0], [0, 4], [0, 1]], [[0, 4]], [[-1, 3], [0, 4]]])
def test_closing_bonds_of_a_text_are_those_that_the_tree_has_not(closing):
    ring = fx.Chain.ring(5, hard=())
    fields = json.loads(ring.to_json()) | {"closing": closing}
    if closing[0][0] == -1:
        with pytest.raises(ValueError, match="not a chain"):
            fx.Chain.from_json(json.dumps(fields))
    else:
        assert fx.Chain.from_json(json.dumps(fields)) == ring
