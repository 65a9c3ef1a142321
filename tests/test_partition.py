"""The partition: blocks, solve, determinants, tensions and mass matrix against dense algebra."""

import mpmath as mp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given

import fixman as fx
import oracles
from oracles import error
from strategies import (
    BASES,
    CASES,
    GRAPHS,
    TREES,
    graphs,
    make_graph,
    random_system,
    seeds,
    systems,
)

METHODS = ("fused", "lu")


def dense_blocks(s):
    h = oracles.unconstrained_inverse_mass(s.spec, s.x)
    a, b = s.spec.soft, s.spec.hard
    return {"H_aa": h[np.ix_(a, a)], "H_ab": h[np.ix_(a, b)], "H_bb": h[np.ix_(b, b)]}


# --- blocks ----------------------------------------------------------------------------------


@given(systems(shapes=("random", "zigzag")))
def test_blocks_equal_the_dense_ones(s):
    part = fx.Partition(s.chain, s.x)
    for name, block in dense_blocks(s).items():
        got = getattr(part, name)
        assert isinstance(got, sp.csr_array)
        assert error(got.toarray(), block, 1.0) < 1e-11


@given(systems(dims=(2,), shapes=("straight", "nearly straight")))
def test_planar_blocks_are_regular_when_straight(s):
    part = fx.Partition(s.chain, s.x)
    for name, block in dense_blocks(s).items():
        assert error(getattr(part, name).toarray(), block, 1.0) < 1e-12


@given(systems(max_n=25))
def test_blocks_are_band_limited(s):
    """An entry is stored only where two rows share a mobile bead."""
    part = fx.Partition(s.chain, s.x)
    free = s.spec.base == "free"
    beads = [
        {0 if k < 0 else k for k in row[1] if free or k >= 0}  # a free chain's ghosts are bead 0
        for row in s.spec.rows
    ]
    pairs = {"H_aa": ("soft", "soft"), "H_ab": ("soft", "hard"), "H_bb": ("hard", "hard")}
    for name, (first, second) in pairs.items():
        entries = getattr(part, name).tocoo()
        rows, columns = getattr(s.spec, first), getattr(s.spec, second)
        for i, j in zip(*entries.coords, strict=True):
            assert beads[rows[i]] & beads[columns[j]]


def test_the_planar_arm_has_the_published_pattern():
    """Lee and Chirikjian 2005, eq. 24."""
    n = 12
    s = random_system(2, "fixed", ("length",), n)
    part = fx.Partition(s.chain, s.x)
    i, j = np.indices((n, n))
    stars = {
        "H_aa": np.abs(i - j) <= 2,
        "H_ab": (j >= i - 2) & (j <= i + 1),
        "H_bb": np.abs(i - j) <= 1,
    }
    for name, pattern in stars.items():
        block = getattr(part, name)
        found = block.toarray() != 0
        if name == "H_ab":  # the first angle and length are orthogonal: zero, or what rounding left
            found[0, 0] = True
        np.testing.assert_array_equal(found, pattern)
        assert block.nnz <= pattern.sum()


def test_storage_is_linear_in_n():
    sizes = {}
    for n in (1000, 2000):
        s = random_system(3, "free", ("length", "angle"), n)
        part = fx.Partition(s.chain, s.x)
        sizes[n] = part.H_aa.nnz + part.H_ab.nnz + part.H_bb.nnz
    assert sizes[2000] < 2.01 * sizes[1000]


# --- solve -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@given(systems())
def test_solve_is_the_inverse_of_the_dense_mass_matrix(method, s):
    part = fx.Partition(s.chain, s.x)
    dense = oracles.forward_dynamics(s.spec, s.x, 0 * s.v, s.torque)
    assert error(part.solve(s.torque, method=method), dense.qdd, dense.qdd_scale) < 1e-10
    if len(s.torque):
        back = oracles.mass_matrix(s.spec, s.x) @ part.solve(s.torque, method=method)
        assert error(back, s.torque) < 1e-7  # cond(G^aa) times rounding


@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
@pytest.mark.parametrize("method", METHODS)
def test_solve_at_a_hundred_beads(method, dim, base, hard):
    s = random_system(dim, base, hard, 100, seed=1)
    part = fx.Partition(s.chain, s.x)
    dense = oracles.forward_dynamics(s.spec, s.x, 0 * s.v, s.torque)
    assert error(part.solve(s.torque, method=method), dense.qdd, dense.qdd_scale) < 1e-10


@pytest.mark.parametrize("method", METHODS)
@given(systems(), seeds)
def test_many_right_hand_sides_equal_single_ones(method, s, seed):
    part = fx.Partition(s.chain, s.x)
    b = np.random.default_rng(seed).normal(size=(len(s.spec.soft), 3))
    got = part.solve(b, method=method)
    assert got.shape == b.shape
    for k in range(3):
        assert (
            error(got[:, k], part.solve(b[:, k], method=method), np.abs(got).max(initial=0)) < 1e-12
        )
    assert part.solve(b[:, :0], method=method).shape == (len(b), 0)


def test_an_unknown_method_is_refused():
    s = random_system(2, "fixed", ("length",), 4)
    with pytest.raises(ValueError, match="fused"):
        fx.Partition(s.chain, s.x).solve(s.torque, method="cholesky")


# --- determinants ----------------------------------------------------------------------------


def check_theorem(s):
    part = fx.Partition(s.chain, s.x)
    h = oracles.unconstrained_inverse_mass(s.spec, s.x)
    hard = h[np.ix_(s.spec.hard, s.spec.hard)]
    mass = oracles.logdet(oracles.mass_matrix(s.spec, s.x))
    tol = 1e-10 * s.spec.n
    assert part.logdet_hard == pytest.approx(oracles.logdet(hard), abs=tol)
    assert part.logdet_free == pytest.approx(-oracles.logdet(h), abs=tol)
    assert part.logdet_mass == pytest.approx(mass, abs=tol)
    # Fixman's theorem with G^aa computed from dx/dq, not from the blocks
    assert abs(part.logdet_free + part.logdet_hard - mass) <= tol


@pytest.mark.parametrize("n", [20, 60])
@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_determinant_theorem(dim, base, hard, n):
    check_theorem(random_system(dim, base, hard, n, seed=n))


@given(systems())
def test_determinant_theorem_for_any_mask(s):
    check_theorem(s)


def test_ln_det_of_the_free_mass_matrix_is_the_closed_form():
    """The chart's Jacobian: Π L in the plane, Π L² |sin θ| in space."""
    for dim in (2, 3):
        for base in BASES:
            s = random_system(dim, base, ("length",), 30)
            kinds = np.array([row[0] for row in s.spec.rows])
            lengths, angles = s.q[kinds == "length"], s.q[kinds == "angle"]
            jacobian = np.log(lengths).sum()
            if dim == 3:
                jacobian += jacobian + np.log(np.abs(np.sin(angles))).sum()
            expected = dim * np.log(s.spec.m).sum() + 2 * jacobian
            got = fx.Partition(s.chain, s.x).logdet_free
            assert got == pytest.approx(expected, abs=1e-11)


# --- tensions and the mass matrix ------------------------------------------------------------


@given(systems(shapes=("random", "zigzag")))
def test_tensions_equal_dense_multipliers(s):
    dense = oracles.forward_dynamics(s.spec, s.x, 0 * s.v, None, s.force)
    got = fx.Partition(s.chain, s.x).tensions(s.force)
    assert error(got, dense.tension, dense.tension_scale) < 1e-10


@pytest.mark.parametrize("dim", [2, 3])
def test_a_stretched_rod_has_positive_tension(dim):
    x = np.zeros((2, dim))
    x[1, 0] = 1.0
    force = np.zeros((2, dim))
    force[:, 0] = [-3.0, 3.0]
    chain = fx.Chain.linear(2, dim=dim, masses=[1.0, 7.0])
    np.testing.assert_allclose(fx.Partition(chain, x).tensions(force), [3.0], rtol=1e-15)
    hanging = fx.Chain.linear(2, dim=dim, base="fixed", masses=[1.0, 7.0])
    line = np.zeros((2, dim))
    line[:, 1] = [-1.0, -2.0]
    weight = np.zeros((2, dim))
    weight[:, 1] = [-1.0, -7.0]
    np.testing.assert_allclose(fx.Partition(hanging, line).tensions(weight), [8.0, 7.0], rtol=1e-15)


@given(systems())
def test_the_mass_matrix_is_the_dense_one(s):
    dense = oracles.mass_matrix(s.spec, s.x)
    got = fx.Partition(s.chain, s.x).mass_matrix()
    assert got.shape == dense.shape
    assert error(got, dense, 1e-300) < 1e-8
    np.testing.assert_allclose(got, got.T, atol=1e-8 * np.abs(dense).max(initial=1.0))


@pytest.mark.parametrize("dim", [2, 3])
def test_a_fully_hard_chain_has_empty_soft_blocks(dim):
    s = random_system(dim, "fixed", ("length", "angle", "torsion")[:dim], 4)
    part = fx.Partition(s.chain, s.x)
    assert part.H_aa.shape == (0, 0)
    assert part.H_ab.shape == (0, 4 * dim)
    assert part.H_bb.shape == (4 * dim, 4 * dim)
    for method in METHODS:
        assert part.solve(np.zeros(0), method=method).shape == (0,)
        assert part.solve(np.zeros((0, 3)), method=method).shape == (0, 3)
    assert part.mass_matrix().shape == (0, 0)
    assert part.logdet_mass == pytest.approx(0.0, abs=1e-11)
    assert part.logdet_free == pytest.approx(-part.logdet_hard, abs=1e-11)
    assert part.tensions(s.force).shape == (4 * dim,)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_a_chain_without_hard_rows_is_unconstrained(dim, base):
    s = random_system(dim, base, (), 4)
    part = fx.Partition(s.chain, s.x)
    assert part.H_bb.shape == (0, 0)
    assert part.logdet_hard == 0.0
    assert part.logdet_mass == pytest.approx(part.logdet_free, abs=1e-14)
    assert part.tensions(s.force).shape == (0,)
    h = oracles.unconstrained_inverse_mass(s.spec, s.x)
    for method in METHODS:
        assert error(part.solve(s.torque, method=method), h @ s.torque) < 1e-12


@pytest.mark.parametrize("dim", [2, 3])
def test_late_blocks_belong_to_the_configuration_that_was_given(dim):
    s = random_system(dim, "free", ("length",), 5)
    expected = fx.Partition(s.chain, s.x)
    x = s.x.copy()
    part = fx.Partition(s.chain, x)
    x *= np.linspace(1, 2, x.size).reshape(x.shape)
    for name in ("H_aa", "H_ab", "H_bb"):
        np.testing.assert_array_equal(
            getattr(part, name).toarray(), getattr(expected, name).toarray()
        )
    assert part.logdet_free == expected.logdet_free
    np.testing.assert_array_equal(part.solve(s.torque), expected.solve(s.torque))
    np.testing.assert_array_equal(part.tensions(s.force), expected.tensions(s.force))


def test_one_configuration_only():
    with pytest.raises(ValueError, match=r"\(2, 3, 3\)"):
        fx.Partition(fx.Chain.linear(3), np.random.default_rng(0).normal(size=(2, 3, 3)))


# --- trees and rings -------------------------------------------------------------------------


def dense_mass_matrix(s):
    """G^aa of a tree, from the inverse of B."""
    jacobian = np.linalg.inv(oracles.wilson_b(s.spec, s.x))[:, s.spec.soft]
    return (jacobian.T * s.spec.mm) @ jacobian


@given(graphs())
def test_blocks_and_tensions_of_graphs_equal_the_dense_ones(s):
    part = fx.Partition(s.chain, s.x)
    for name, block in dense_blocks(s).items():
        assert error(getattr(part, name).toarray(), block, 1.0) < 1e-11
    dense = oracles.forward_dynamics(s.spec, s.x, 0 * s.v, None, s.force)
    assert error(part.tensions(s.force), dense.tension, dense.tension_scale) < 1e-10


@pytest.mark.parametrize("method", METHODS)
@given(graphs())
def test_solve_of_graphs_is_dense(method, s):
    part = fx.Partition(s.chain, s.x)
    dense = oracles.forward_dynamics(s.spec, s.x, 0 * s.v, s.torque)
    # The published route forms the blocks and loses their condition number.
    _, condition = oracles.hard_logdet(s.spec, s.x)
    tol = 1e-10 if method == "fused" else 1e-10 + 1e-14 * condition
    assert error(part.solve(s.torque, method=method), dense.qdd, dense.qdd_scale) < tol
    both = np.stack([s.torque, 2 * s.torque], axis=1)
    got = part.solve(both, method=method)
    assert error(got[:, 1], 2 * dense.qdd, 2 * dense.qdd_scale) < 2 * tol
    assert part.solve(both[:, :0], method=method).shape == (len(both), 0)


def rigid(s):
    """Tell whether nothing can change: no internal coordinate is soft, but for dependent ones."""
    held = [(c.kind, c.beads) for c in s.chain.redundant]
    soft = [s.spec.rows[i] for i in s.spec.soft]
    return all(oracles.external(row, s.spec.base) or row in held for row in soft)


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_the_hard_determinant_of_graphs_is_dense(dim, base, hard, kind):
    for n in (5, 60, 200 if len(hard) < 3 else 100):
        s = make_graph(kind, n, dim, base, hard, seed=n)
        expected, _ = oracles.hard_logdet(s.spec, s.x)
        part = fx.Partition(s.chain, s.x)
        lost = 0.0
        if rigid(s):  # loses digits as it grows, as many as the condition of H^bb has
            H = part.H_bb.toarray()
            scale = np.sqrt(np.diag(H))
            lost = 2.0**-52 * np.linalg.cond(H / scale[:, None] / scale)
        assert part.logdet_hard == pytest.approx(expected, rel=1e-11, abs=1e-11 + lost)


@given(graphs(kinds=TREES))
def test_determinant_theorem_of_trees(s):
    part = fx.Partition(s.chain, s.x)
    mass = oracles.logdet(dense_mass_matrix(s)) if len(s.spec.soft) else 0.0
    free = -oracles.logdet(oracles.unconstrained_inverse_mass(s.spec, s.x))
    tol = 1e-9 * s.spec.n
    assert part.logdet_free == pytest.approx(free, abs=tol)
    assert part.logdet_mass == pytest.approx(mass, abs=tol)
    assert error(part.mass_matrix(), dense_mass_matrix(s), 1e-300) < 1e-8


@given(graphs(kinds=("ring", "closures")))
def test_closures_refuse_what_needs_independent_coordinates(s):
    assume(len(s.chain.extra))
    part = fx.Partition(s.chain, s.x)
    for function in (
        lambda: part.logdet_free,
        lambda: part.logdet_mass,
        lambda: part.mass_matrix(),
        lambda: fx.inverse_dynamics(s.chain, s.x, s.v, s.torque),
    ):
        with pytest.raises(ValueError, match="closures or extra rows"):
            function()


def test_a_folded_ring_names_its_dependent_rows():
    chain = fx.Chain.ring(6, dim=2)
    x = np.zeros((6, 2))
    x[:, 0] = [0, 1, 2, 3, 2, 1]
    rows = r"length\(\d, \d\) depends on (length\(\d, \d\), ){4}length\(\d, \d\)"
    with pytest.raises(fx.SingularConstraintError, match=rows):
        fx.Partition(chain, x)
    batch = np.random.default_rng(0).normal(size=(4, 6, 2))
    batch[2] = x
    with pytest.raises(fx.SingularConstraintError, match=rf"{rows} in frame 2"):
        fx.forward_dynamics(chain, batch, 0 * batch)
    # only three bonds of this larger molecule are in the triangle that is flat
    chain = fx.Chain.from_bonds(8, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)])
    x = np.random.default_rng(0).normal(size=(8, 3))
    x[1] = 0.25 * x[0] + 0.75 * x[2]
    rows = r"length\([01], [12]\) depends on length\([01], [12]\), length\([01], [12]\): make"
    with pytest.raises(fx.SingularConstraintError, match=rows):
        fx.Partition(chain, x)
    many = fx.Chain.ring(20)
    x = np.zeros((20, 3))
    x[:, 1] = [*range(11), *range(9, 0, -1)]
    with pytest.raises(
        fx.SingularConstraintError, match=r"length\(\d+, \d+\) depends on .*and 14 more"
    ):
        fx.Partition(many, x)


@pytest.mark.parametrize("hard", [("length", "angle"), ("length", "angle", "torsion")])
def test_a_light_bead_between_others_is_refused_with_the_ratio(hard):
    light = fx.Chain.linear(6, hard=hard, masses=[1, 1, 1, 2e-14, 1, 1])
    x = fx.random_walks(light, angles=[0.5, 1.0, 0.7, 1.2, 0.9], torsions=1.0, rng=1)[0]
    ratio = r"or seems to, as the masses of their beads differ by a factor of 5e\+13"
    with pytest.raises(fx.SingularConstraintError, match=ratio):
        fx.logdet(light, x)
    for masses in ([1, 1, 1, 1e-10, 1, 1], [1, 1, 1, 1, 1, 1e-14], [1, 1, 1, 1e14, 1, 1]):
        assert np.isfinite(fx.logdet(fx.Chain.linear(6, hard=hard, masses=masses), x))


@pytest.mark.parametrize("r", [1e4, 1e6, 1e8])
def test_what_a_light_bead_costs_beside_hard_angles(r):
    hard = ("length", "angle")
    chain = fx.Chain.linear(6, hard=hard, masses=[1, 1, 1, 1 / r, 1, 1])
    x = fx.random_walks(chain, angles=[0.5, 1.0, 0.7, 1.2, 0.9], rng=1)[0]
    rows = fx.wilson_b(chain, x).toarray()[chain.hard]
    with mp.workdps(60):
        B = mp.matrix(rows.tolist())
        weights = [1 / mp.mpf(m) for m in np.repeat(chain.masses, 3).tolist()]
        exact = float(mp.log(mp.det(B * mp.diag(weights) * B.T)))
    off = abs(fx.logdet(chain, x) - exact)
    assert off <= 5e-16 * r
