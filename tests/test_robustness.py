"""Refusals and limits that once were silent wrong answers or crashes."""

import json
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from scipy.sparse.linalg import spsolve

import fixman as fx


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize(
    "damage",
    [
        {"references": [[0, 0, 0]] * 5},
        {"references": [[-1, -2, -3], [0, -2, -3], [1, 0, -2], [2, 10**6, 0], [3, 2, 1]]},
        {"extra": [["length", [0, 10**7]]]},
        {"base": "fixed"},
        {"hard": [-1]},
        {"hard": [99]},
        {"hard": [True]},
        {"hard": [[3]]},
        {"hard": 3},
        {"masses": [1, 1, -1, 1, 1]},
        {"dim": 4},
        {"fixman_chain": 2},
    ],
)
def test_damaged_documents_are_refused(damage):
    document = json.loads(fx.Chain.linear(5).to_json()) | damage
    with pytest.raises(ValueError, match=r"not a chain written by|mass of bead"):
        fx.Chain.from_json(json.dumps(document))


def straight(n=4):
    return np.outer([0.0, 1.0, 2.0, 3.5][:n], [0.6, 0.3, 0.7])


def test_every_soft_answer_refuses_a_straight_chain():
    chain, x, v = fx.Chain.linear(4), straight(), np.eye(4, 3)
    for ask in (
        lambda: fx.velocity_terms(chain, x, v),
        lambda: fx.inverse_dynamics(chain, x, v, np.zeros(len(chain.soft))),
        lambda: fx.wilson_b(chain, x),
        lambda: fx.forward_dynamics(chain, x, v).qdd,
    ):
        with pytest.raises(fx.SingularCoordinateError, match=r"angle\(0, 1, 2\)"):
            ask()


@pytest.mark.parametrize("bend", [1e-2, 1e-4, 1e-6])
def test_torsion_velocity_terms_lose_one_sine_not_two(rng, bend):
    chain = fx.Chain.linear(4, hard=())
    q = np.array([0, 0, 0, 1.1, 0.7, 0.3, 0.9, bend, 1.2, 1.3, 2 * bend, -2.0])
    x, v = chain.cartesian(q), rng.normal(size=(4, 3))
    with mpmath.workdps(80):
        h = mpmath.mpf(10) ** -25
        before, now, after = (torsion(x, v, t) for t in (-h, 0, h))
        exact = float((after - 2 * now + before) / h**2)
    kappa = fx.velocity_terms(chain, x, v)[11]
    assert chain.coordinates[11] == ("torsion", (0, 1, 2, 3))
    assert abs(kappa - exact) <= 3e-15 / bend * abs(exact)


def torsion(x, v, t):
    """Return the torsion of four beads at x + v t, with every digit of mpmath."""
    beads = [
        [mpmath.mpf(float(a)) + t * float(b) for a, b in zip(*r, strict=True)]
        for r in zip(x, v, strict=True)
    ]
    u, w, r = ([b - a for a, b in zip(*pair, strict=True)] for pair in pairwise(beads))

    def cross(a, b):
        return [a[i - 2] * b[i - 1] - a[i - 1] * b[i - 2] for i in range(3)]

    m, n = cross(u, w), cross(w, r)
    y = mpmath.sqrt(mpmath.fdot(w, w)) * mpmath.fdot(u, n)
    return mpmath.atan2(y, mpmath.fdot(m, n))


@pytest.mark.parametrize("scale", [1e-200, 1e-60, 1e60, 1e160])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
def test_bonds_beyond_measure_are_refused_by_name(rng, scale, hard):
    chain, x = fx.Chain.linear(4, hard=hard), scale * rng.normal(size=(4, 3))
    for ask in (
        lambda: fx.logdet(chain, x),
        lambda: fx.Partition(chain, x),
        lambda: fx.forward_dynamics(chain, x, x),
        lambda: chain.internal(x),
        lambda: fx.wilson_b(chain, x),
    ):
        with pytest.raises(
            ValueError, match=r"bond between bead \d and bead \d has length|coincide"
        ):
            ask()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), ("length", "angle", "torsion")])
def test_any_reasonable_unit_of_length_gives_the_same_motion(rng, scale, hard):
    chain = fx.Chain.linear(6, hard=hard)
    x, v, f = rng.normal(size=(3, 6, 3))
    one = fx.forward_dynamics(chain, x, v, force=f)
    other = fx.forward_dynamics(chain, scale * x, scale * v, force=scale * f)
    np.testing.assert_allclose(other.acceleration, scale * one.acceleration, rtol=1e-11, atol=0)
    np.testing.assert_allclose(other.qdd[3:], one.qdd[3:], rtol=1e-10)  # beyond x, y, z


def test_masked_values_are_refused(rng):
    x = np.ma.masked_array(rng.normal(size=(5, 3)), mask=np.eye(5, 3, dtype=bool))
    with pytest.raises(TypeError, match="masked"):
        fx.logdet(fx.Chain.linear(5), x)


@pytest.mark.parametrize("hard", [(), ("length",)])
def test_beads_without_constraints_must_be_finite_too(hard):
    chain, x = fx.Chain.linear(1, hard=hard), np.full((1, 3), np.nan)
    for ask in (
        lambda: fx.logdet(chain, x),
        lambda: fx.wilson_b(chain, x),
        lambda: fx.velocity_terms(chain, x, np.zeros((1, 3))),
        lambda: fx.velocity_terms(chain, np.zeros((1, 3)), x),
        lambda: fx.inverse_dynamics(chain, np.zeros((1, 3)), x, np.zeros(3)),
    ):
        with pytest.raises(ValueError, match=r"[xv] is nan at bead 0"):
            ask()


def test_the_blame_goes_to_the_argument_that_has_the_nan(rng):
    x = rng.normal(size=(4, 3))
    x[2, 1] = np.nan
    with pytest.raises(ValueError, match=r"^x is nan at bead 2"):
        fx.forward_dynamics(fx.Chain.linear(4), x, np.zeros((4, 3)))


def test_answers_are_read_only_where_later_ones_depend_on_them(rng):
    x, v = rng.normal(size=(2, 5, 3))
    motion = fx.forward_dynamics(fx.Chain.linear(5), x, v)
    part = fx.Partition(fx.Chain.linear(5), x)
    for array in (motion.acceleration, motion.tension, motion.qdd, part.H_aa.data, part.H_bb.data):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_a_chain_is_asked_for_by_name(rng):
    x = rng.normal(size=(5, 3))
    for ask in (fx.logdet, fx.Partition, fx.wilson_b):
        with pytest.raises(TypeError, match=r"chain must be a fixman\.Chain, got ndarray"):
            ask(x, fx.Chain.linear(5))


@pytest.mark.parametrize("hard", [None, [0, 1, 0], [fx.Coordinate("length", (0, 1))]])
def test_hard_sets_that_are_neither_kinds_nor_masks(hard):
    with pytest.raises(ValueError, match=r"words or a mask|None"):
        fx.Chain.linear(3, hard=hard)


def test_projection_is_the_nearest_point_even_from_afar(rng):
    chain = fx.Chain.linear(40, masses=rng.uniform(0.1, 10, 40))
    far = np.cumsum(rng.normal(size=(40, 3)), axis=0)
    near = fx.project(chain, far, np.ones(39))
    d = (near - far).ravel()
    m = np.repeat(chain.masses, 3)
    B = fx.wilson_b(chain, near).toarray()[chain.hard]
    tangent = d - (B.T @ np.linalg.solve(B / m @ B.T, B @ d)) / m
    assert np.sqrt(m @ tangent**2) <= 2e-9 * np.sqrt(m @ d**2)


def test_a_tridiagonal_matrix_is_that_of_a_chain():
    with pytest.raises(ValueError, match="weight 1 is -1"):
        fx.structured.Tridiagonal([3, -1, 3], [0.5], [np.sqrt(0.75)])
    with pytest.raises(ValueError, match="one angle"):
        fx.structured.Tridiagonal([1, 1, 1], [2], [0])


ASKED = (
    lambda c, x, v, f, torque, goal: fx.forward_dynamics(c, x, v, torque=torque, force=f).qdd,
    lambda c, x, v, f, torque, goal: fx.inverse_dynamics(c, x, v, torque, force=f),
    lambda c, x, v, f, torque, goal: fx.project(c, x, goal),
    lambda c, x, v, f, torque, goal: fx.project(c, x, goal, v)[1],
    lambda c, x, v, f, torque, goal: fx.logdet(c, x),
    lambda c, x, v, f, torque, goal: fx.fixman_force(c, x),
    lambda c, x, v, f, torque, goal: fx.Partition(c, x).tensions(f),
    lambda c, x, v, f, torque, goal: fx.Partition(c, x).solve(torque),
    lambda c, x, v, f, torque, goal: fx.Partition(c, x).solve(torque, method="lu"),
    lambda c, x, v, f, torque, goal: fx.Partition(c, x).logdet_mass,
    lambda c, x, v, f, torque, goal: fx.wilson_b(c, x).data,
    lambda c, x, v, f, torque, goal: fx.velocity_terms(c, x, v),
    lambda c, x, v, f, torque, goal: c.hard_values(x),
)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("scale", [1e150, 1e300, 1e-300])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
@pytest.mark.parametrize("dim", [2, 3])
def test_overflow_is_never_a_warning(dim, hard, scale, rng):
    chain = fx.Chain.linear(5, dim=dim, hard=hard)
    x, v, f = rng.normal(size=(3, 5, dim))
    torque, goal = rng.normal(size=chain.soft.size), np.abs(chain.hard_values(x))
    plain = (x, v, f, torque, goal)
    given = [tuple(a * scale if i == k else a for i, a in enumerate(plain)) for k in range(5)]
    given += [tuple(a * scale for a in plain), (x + scale, v, f, torque, goal)]
    answers = 0
    for state in given:
        for ask in ASKED:
            try:
                answer = ask(chain, *state)
            except (ValueError, fx.ConstraintSolveError):
                continue
            assert np.isfinite(answer).all()
            answers += 1
    assert answers > 20


def test_overflow_is_an_error_not_inf():
    factor = fx.structured.Tridiagonal([1e-300] * 3, [0.6], [0.8]).factor()
    with pytest.raises(ValueError, match="overflowed"):
        factor.solve([1e100, 1])
    chain = fx.Chain.linear(3)
    x = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0]])
    with pytest.raises(ValueError, match="overflowed"):
        fx.Partition(chain, x).tensions(np.full((3, 3), 1e308) * [[1], [-1], [1]])


def test_blocks_serve_scipys_own_solvers(rng):
    chain, x, b = fx.Chain.linear(20), rng.normal(size=(20, 3)), rng.normal(size=19)
    part = fx.Partition(chain, x)
    for block in (part.H_aa, part.H_ab, part.H_bb):
        assert block.count_nonzero() == np.count_nonzero(block.toarray())
    answer = spsolve(part.H_bb.tocsc(), b)
    np.testing.assert_allclose(part.H_bb @ spsolve(part.H_bb, b), b, rtol=0, atol=1e-10)
    np.testing.assert_allclose(part.H_bb @ answer, b, rtol=0, atol=1e-10)


def test_one_target_serves_all_bonds(rng):
    chain, x = fx.Chain.linear(6), rng.normal(size=(6, 3))
    np.testing.assert_array_equal(fx.project(chain, x, 1.5), fx.project(chain, x, np.full(5, 1.5)))


def test_a_single_vector_for_all_beads_is_refused():
    with pytest.raises(ValueError, match=r"\(\.\.\., 4, 3\), got \(3,\)"):
        fx.forward_dynamics(fx.Chain.linear(4), np.eye(4, 3), np.zeros((4, 3)), force=[0, 0, -9.81])


def test_objects_say_what_they_are(rng):
    chain, x = fx.Chain.linear(4), rng.normal(size=(4, 3))
    assert repr(chain) == "<Chain: 4 beads, 3-D, free, masses 1, hard: 3 lengths>"
    assert repr(fx.Partition(chain, x)) == "<Partition: 9 soft, 3 hard coordinates>"
    assert repr(fx.forward_dynamics(chain, x, x)).startswith("<Motion of 4 beads in 3-D")
