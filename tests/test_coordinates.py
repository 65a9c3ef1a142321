"""Coordinates: values by hand, Wilson rows, velocity terms."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

import fixman as fx
import oracles
from oracles import Spec, error
from strategies import BASES, build, make_system, seeds, systems

# --- values by hand --------------------------------------------------------------------------


def torsion_of(*x):
    """Return the only internal torsion of four beads."""
    chain = fx.Chain.linear(4)
    row = [(c.kind, c.beads) for c in chain.coordinates].index(("torsion", (0, 1, 2, 3)))
    # Turned about (1, 1, 1), because a free chain whose first bond is along x is singular.
    return chain.internal(np.roll(np.array(x, float), 1, axis=1))[row]


def test_torsions_carry_the_iupac_sign():
    # Looking along the middle bond (+z), a clockwise turn from the front to the back bond is +.
    front, middle = (1, 0, 0), [(0, 0, 0), (0, 0, 1)]
    for angle in (0.3, 1.0, np.pi / 2, 2.5, -0.3, -1.0, -np.pi / 2, -2.5):
        back = (np.cos(angle), np.sin(angle), 1)
        # From behind bead 1, looking towards +z with x to the right, +y points down: clockwise.
        assert torsion_of(front, *middle, back) == pytest.approx(angle, abs=1e-15)


def test_cis_is_zero_and_trans_is_pi():
    assert torsion_of((1, 0, 0), (0, 0, 0), (0, 0, 1), (1, 0, 1)) == 0
    assert abs(torsion_of((1, 0, 0), (0, 0, 0), (0, 0, 1), (-1, 0, 1))) == np.pi


def test_gauche_plus_is_a_right_handed_screw():
    # A right-handed helix (cos t, sin t, t) has positive torsions.
    t = np.arange(4.0)
    helix = np.stack([np.cos(t), np.sin(t), t / 3], axis=1)
    assert torsion_of(*helix) > 0
    assert torsion_of(*(helix * [1, -1, 1])) == -torsion_of(*helix)


def test_planar_angles_are_signed_and_zero_when_straight():
    chain = fx.Chain.linear(3, dim=2)
    for bend in (0.0, 1e-12, -1e-12, 0.4, -0.4, np.pi / 2, -3.0, 3.1):
        x = np.array([[2, 1], [3, 1], [3 + 2 * np.cos(bend), 1 + 2 * np.sin(bend)]])
        np.testing.assert_allclose(chain.internal(x), [2, 1, 1, 0, 2, bend], atol=1e-15)


def test_hard_values_are_those_of_the_hard_coordinates_alone():
    rng = np.random.default_rng(3)
    for hard in (("length",), ("length", "angle"), ()):
        chain = fx.Chain.linear(6, hard=hard)
        x = rng.normal(size=(2, 3, 6, 3))
        expected = chain.values(x)[..., chain.hard]
        assert np.array_equal(chain.hard_values(x), expected)
        assert chain.hard_values(x).shape == (2, 3, chain.hard.size)
        assert np.array_equal(chain.hard_values(x[0, 1]), expected[0, 1])


def test_hard_values_need_no_soft_coordinate():
    x = np.arange(4.0)[:, None] * [1.0, 0.0, 0.0]  # along e_x: no soft torsion, no azimuth
    chain = fx.Chain.linear(4)
    with pytest.raises(fx.SingularCoordinateError):
        chain.values(x)
    assert np.array_equal(chain.hard_values(x), [1.0, 1.0, 1.0])
    held = fx.Chain.linear(4, hard=("length", "angle"))
    assert np.array_equal(held.hard_values(x), [1.0, 1.0, 0.0, 1.0, 0.0])
    assert [held.coordinates[row].kind for row in held.hard] == [
        "length", "length", "angle", "length", "angle",
    ]  # fmt: skip
    # Beads that coincide, but in no hard coordinate.
    loose = fx.Chain.from_bonds(3, [(0, 1), (1, 2)], hard=[False] * 3 + [True] + [False] * 5)
    assert np.array_equal(loose.hard_values([[0.0, 0, 0], [2, 0, 0], [2, 0, 0]]), [2.0])


def test_hard_values_name_what_cannot_be_held():
    x = np.arange(4.0)[:, None] * [1.0, 0.0, 0.0]
    with pytest.raises(fx.SingularConstraintError, match=r"torsion\(0, 1, 2, 3\)"):
        fx.Chain.linear(4, hard=("torsion",)).hard_values(x)
    x[2] = x[1]
    with pytest.raises(fx.SingularConstraintError, match="bead 1 and bead 2 coincide"):
        fx.Chain.linear(4).hard_values(x)
    x[2] = np.nan
    with pytest.raises(ValueError, match="finite"):
        fx.Chain.linear(4).hard_values(x)


def test_singular_rows_are_named_up_to_three():
    for n, named in ((5, r"angle\(2, 3, 4\) are"), (6, r"angle\(2, 3, 4\) and 1 more are")):
        with pytest.raises(fx.SingularConstraintError, match=named):
            fx.logdet(fx.Chain.linear(n, hard=("angle",)), np.eye(1, 3) * np.arange(n)[:, None])


@pytest.mark.parametrize(
    ("dim", "hard", "narrowest"),
    [
        (2, ("length",), 1),
        (2, ("length", "angle"), 4),
        (3, ("length", "angle"), 4),
        (3, ("length", "angle", "torsion"), 9),
    ],
)
def test_hard_rows_of_a_linear_chain_stand_in_the_narrowest_band(dim, hard, narrowest):
    """In the order of the public coordinates it is 5 with angles and 11 with torsions."""
    pattern = fx.Chain.linear(12, dim=dim, hard=hard).layout.pattern
    i, j = (pattern.slots.row[pair] for pair in pattern.pairs)
    assert (j - i).max() == narrowest


def test_the_first_planar_angle_is_measured_from_the_x_axis():
    for base in BASES:
        chain = fx.Chain.linear(2, dim=2, base=base)
        x = np.array([[0.3, 0.4], [0.3, 1.4]])
        expected = {
            "free": [0.3, 0.4, 1.0, np.pi / 2],
            "fixed": [0.5, np.arctan2(4, 3), 1.0, np.pi / 2 - np.arctan2(4, 3)],
        }
        np.testing.assert_allclose(chain.internal(x), expected[base], atol=1e-15)


def test_the_first_bond_in_space_is_the_documented_one():
    length, theta, phi = 1.7, 0.9, 0.6
    x1 = length * np.array(
        [np.cos(theta), -np.sin(theta) * np.cos(phi), -np.sin(theta) * np.sin(phi)]
    )
    q = fx.Chain.linear(1, base="fixed").internal(x1[None])
    np.testing.assert_allclose(q, [length, theta, phi], atol=1e-15)
    start = np.array([5.0, -3.0, 2.0])
    q = fx.Chain.linear(2).internal(np.array([start, start + x1]))
    np.testing.assert_allclose(q, [*start, length, theta, phi], atol=1e-15)


def test_ghosts_of_a_free_chain_ride_on_its_first_bead():
    chain = fx.Chain.linear(4)
    x = np.random.default_rng(0).normal(size=(4, 3))
    shift = np.array([10.0, -4.0, 0.5])
    np.testing.assert_allclose(chain.internal(x + shift)[3:], chain.internal(x)[3:], atol=1e-13)
    # so their columns add to that bead's and every row but the position sums to zero
    sums = fx.wilson_b(chain, x).toarray().reshape(12, 4, 3).sum(axis=1)
    np.testing.assert_allclose(sums[:3], np.eye(3), atol=1e-15)
    np.testing.assert_allclose(sums[3:], 0, atol=1e-14)


@pytest.mark.parametrize("dim", [2, 3])
def test_rows_of_a_free_chain_do_not_lose_digits_far_from_the_origin(dim):
    s = make_system(Spec(6, dim), seed=1)
    near = np.round(s.x * 2**20) / 2**20
    far = near + 2.0**30  # exactly the same differences
    for answer in (
        lambda x: fx.wilson_b(s.chain, x).toarray(),
        lambda x: fx.velocity_terms(s.chain, x, s.v),
        lambda x: s.chain.internal(x)[dim:],
    ):
        np.testing.assert_array_equal(answer(far), answer(near))


def test_a_ghost_of_a_fixed_chain_has_no_column():
    chain = fx.Chain.linear(1, dim=2, base="fixed")
    b = fx.wilson_b(chain, [[0.0, 2.0]]).toarray()
    np.testing.assert_allclose(b, [[0, 1], [-0.5, 0]], atol=1e-16)


# --- Wilson rows -----------------------------------------------------------------------------


@given(systems(shapes=("random", "zigzag")))
def test_wilson_rows_agree_with_complex_steps(s):
    b = fx.wilson_b(s.chain, s.x)
    assert isinstance(b, sp.csr_array)
    assert b.shape == (len(s.spec.rows), s.x.size)
    assert error(b.toarray(), oracles.wilson_b(s.spec, s.x), 1.0) < 1e-11


@given(systems(dims=(2,), shapes=("nearly straight", "straight")))
def test_planar_rows_are_regular_when_straight(s):
    b = fx.wilson_b(s.chain, s.x).toarray()
    assert error(b, oracles.wilson_b(s.spec, s.x)) < 1e-12


def test_planar_rows_are_regular_when_folded():
    x = np.array([[0.0, 0.0], [1.0, 0.0], [0.25, 0.0], [2.0, 0.0]])
    chain = fx.Chain.linear(4, dim=2)
    expected = oracles.wilson_b(Spec(4, 2), x)
    np.testing.assert_allclose(fx.wilson_b(chain, x).toarray(), expected, atol=1e-14)
    assert np.abs(chain.internal(x)[[5, 7]]) == pytest.approx([np.pi, np.pi])


def test_rows_in_space_keep_their_digits_near_straight():
    # Relative to 1/sin θ, which is their size: a formula through arccos would lose half of them.
    for bend in (1e-3, 1e-6, 1e-8):
        s = make_system(Spec(6, 3, "free"), "nearly straight", seed=1, bend=bend)
        got = fx.wilson_b(s.chain, s.x).toarray()
        angles = [i for i, row in enumerate(s.spec.rows) if row[0] == "angle"]
        assert error(got[angles], oracles.wilson_b(s.spec, s.x)[angles]) < 1e-15 / bend


@given(systems(max_n=30))
def test_each_row_touches_at_most_four_beads(s):
    b = fx.wilson_b(s.chain, s.x).tocoo()
    row, column = b.coords
    assert b.nnz <= 4 * s.spec.dim * len(s.spec.rows)
    for i, j in zip(row, column // s.spec.dim, strict=True):
        touched = {max(k, 0) for k in s.spec.rows[i][1]}
        assert j in touched


@pytest.mark.parametrize("scale", [1e-10, 1e-3, 1e3, 1e10])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_rows_and_velocity_terms_in_any_unit_of_length(dim, base, scale):
    s = make_system(Spec(6, dim, base), seed=4)
    unit = np.array([1.0 if row[0] in ("angle", "torsion") else scale for row in s.spec.rows])
    b = fx.wilson_b(s.chain, scale * s.x).toarray() * scale / unit[:, None]
    kappa = fx.velocity_terms(s.chain, scale * s.x, scale * s.v) / unit
    # The unit bonds between ghosts do not scale, but directions do not know.
    assert error(b, fx.wilson_b(s.chain, s.x).toarray()) < 1e-13
    assert error(kappa, fx.velocity_terms(s.chain, s.x, s.v)) < 1e-13


# --- velocity terms --------------------------------------------------------------------------


@given(systems(shapes=("random", "zigzag")), seeds)
def test_velocity_terms_agree_with_taylor_series(s, seed):
    v = np.random.default_rng(seed).normal(size=s.x.shape)
    kappa = oracles.velocity_terms(s.spec, s.x, v)
    assert error(fx.velocity_terms(s.chain, s.x, v), kappa, 1.0) < 1e-10


@given(systems(), seeds)
def test_velocity_terms_agree_with_differences_of_rows(s, seed):
    v = np.random.default_rng(seed).normal(size=s.x.shape)
    h = 1e-5 * min(1.0, 1 / np.abs(v).max())
    steps = [fx.wilson_b(s.chain, s.x + t * v) @ v.ravel() for t in (h, -h)]
    central = (steps[0] - steps[1]) / (2 * h)
    assert error(fx.velocity_terms(s.chain, s.x, v), central, 1.0) < 1e-5


@given(systems(dims=(2,), shapes=("straight", "nearly straight")), seeds)
def test_planar_velocity_terms_are_regular_when_straight(s, seed):
    v = np.random.default_rng(seed).normal(size=s.x.shape)
    kappa = oracles.velocity_terms(s.spec, s.x, v)
    assert error(fx.velocity_terms(s.chain, s.x, v), kappa, 1.0) < 1e-12


def test_a_turning_bond_has_the_centripetal_term():
    chain = fx.Chain.linear(2, dim=2)
    kappa = fx.velocity_terms(chain, [[0.0, 0.0], [2.0, 0.0]], [[1.0, 1.0], [1.0, 7.0]])
    np.testing.assert_allclose(kappa, [0, 0, 2.0 * 3.0**2, 0], atol=1e-15)  # L α̇²


@pytest.mark.parametrize("dim", [2, 3])
def test_rigid_rotation_and_translation_leave_internal_rows_at_rest(dim):
    # d²q/dt² = B ẍ + κ vanishes for internal rows, with ẍ the centripetal acceleration.
    rng = np.random.default_rng(3)
    chain, x = fx.Chain.linear(7, dim=dim), np.cumsum(rng.normal(size=(7, dim)), axis=0)
    spin = rng.normal(size=(dim, dim))
    spin -= spin.T
    v, acceleration = x @ spin.T + rng.normal(size=dim), x @ (spin @ spin).T
    qdd = fx.wilson_b(chain, x) @ acceleration.ravel() + fx.velocity_terms(chain, x, v)
    internal = [
        i
        for i, row in enumerate(oracles.chart(7, dim, "free"))
        if not oracles.external(row, "free")
    ]
    scale = np.abs(fx.velocity_terms(chain, x, v)).max()
    np.testing.assert_allclose(qdd[internal], 0, atol=1e-11 * max(scale, 1))


@pytest.mark.parametrize("batch", [(1,), (4,), (2, 3), (0,)])
@pytest.mark.parametrize("dim", [2, 3])
def test_batched_velocity_terms_equal_singles(dim, batch):
    rng = np.random.default_rng(0)
    chain = build(Spec(5, dim))
    x, v = rng.normal(size=(2, *batch, 5, dim))
    kappa = fx.velocity_terms(chain, x, v)
    assert kappa.shape == (*batch, 5 * dim)
    for index in np.ndindex(batch):
        np.testing.assert_array_equal(fx.velocity_terms(chain, x[index], v[index]), kappa[index])
