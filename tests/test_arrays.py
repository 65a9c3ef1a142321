"""The gate: what is accepted, what is refused with which words, and what never happens."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
from oracles import Spec, error
from strategies import make_system, systems

LAYOUTS = {
    "float32": lambda a: a.astype(np.float32),
    "list": lambda a: a.tolist(),
    "tuple of arrays": tuple,
    "Fortran order": np.asfortranarray,
    "strided": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "reversed": lambda a: a[::-1].copy()[::-1],
    "read-only": lambda a: _frozen(a),
    "big-endian": lambda a: a.astype(">f8"),
    "longdouble": lambda a: a.astype(np.longdouble),
}


def _frozen(a):
    a = a.copy()
    a.setflags(write=False)
    return a


def answers(chain, x, v, torque, force, qdd, q, qd):
    """Call everything that takes an array and return the arrays that come back."""
    motion = fx.forward_dynamics(chain, x, v, torque=torque, force=force)
    part = fx.Partition(chain, x)
    placed, moving = chain.cartesian(q, qd)
    return {
        "acceleration": motion.acceleration,
        "tension": motion.tension,
        "qdd": motion.qdd,
        "inverse": fx.inverse_dynamics(chain, x, v, qdd, force=force),
        "internal": chain.internal(x),
        "cartesian": placed,
        "velocity": moving,
        "wilson_b": fx.wilson_b(chain, x).toarray(),
        "kappa": fx.velocity_terms(chain, x, v),
        "logdet": np.asarray(fx.logdet(chain, x)),
        "solve": part.solve(torque),
        "lu": part.solve(torque, method="lu"),
        "tensions": part.tensions(force),
        "mass matrix": part.mass_matrix(),
    }


def single(dim=3, base="free", n=6, hard=("length",)):
    """Return a system whose numbers are exact in float32, so that every layout says the same."""
    s = make_system(Spec(n, dim, base, 1.0, hard), seed=7)
    for name in ("x", "v", "torque", "force", "q", "qd"):
        setattr(s, name, getattr(s, name).astype(np.float32).astype(float))
    return s


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [2, 3])
def test_every_layout_gives_the_same_answer_and_is_left_alone(dim, layout):
    s = single(dim, hard=("length", "angle"))
    inputs = [s.x, s.v, s.torque, s.force, s.torque, s.q, s.qd]
    plain = answers(s.chain, *inputs)
    disguised = [LAYOUTS[layout](a) for a in inputs]
    before = [np.array(a, float) for a in disguised]
    for name, got in answers(s.chain, *disguised).items():
        np.testing.assert_array_equal(got, plain[name], err_msg=name)
    for array, copy in zip(disguised, before, strict=True):
        np.testing.assert_array_equal(np.array(array, float), copy)


@pytest.mark.parametrize("layout", ["Fortran order", "strided", "reversed", "read-only"])
def test_batches_in_every_layout(layout):
    chain = fx.Chain.linear(5)
    batch = np.random.default_rng(0).normal(size=(4, 5, 3))
    shifted = LAYOUTS[layout](batch)
    np.testing.assert_array_equal(fx.logdet(chain, shifted), fx.logdet(chain, batch))
    np.testing.assert_array_equal(chain.internal(shifted), chain.internal(batch))
    motions = [fx.forward_dynamics(chain, x, x) for x in (shifted, batch)]
    np.testing.assert_array_equal(motions[0].acceleration, motions[1].acceleration)
    np.testing.assert_array_equal(motions[0].qdd, motions[1].qdd)


def test_masses_in_every_layout():
    masses = np.arange(1.0, 6.0)
    expected = fx.Chain.linear(5, masses=masses)
    for disguise in (*LAYOUTS.values(), lambda a: a.astype(int), lambda a: a.astype(int).tolist()):
        assert fx.Chain.linear(5, masses=disguise(masses)) == expected


def test_integers_are_numbers():
    chain = fx.Chain.linear(3, dim=2)
    x = [[0, 0], [1, 0], [1, 1]]
    assert fx.logdet(chain, x) == pytest.approx(np.log(4))
    np.testing.assert_allclose(chain.internal(x), [0, 0, 1, 0, 1, np.pi / 2], atol=1e-15)


# --- what is refused -------------------------------------------------------------------------


def calls(s):
    """Return one call for every array argument of the public functions: name -> f(array)."""
    c, x, v, t, f = s.chain, s.x, s.v, s.torque, s.force
    return {
        "logdet x": (lambda a: fx.logdet(c, a), x),
        "internal x": (lambda a: c.internal(a), x),
        "cartesian q": (lambda a: c.cartesian(a), s.q),
        "cartesian qd": (lambda a: c.cartesian(s.q, a), s.qd),
        "wilson_b x": (lambda a: fx.wilson_b(c, a), x),
        "velocity_terms x": (lambda a: fx.velocity_terms(c, a, v), x),
        "velocity_terms v": (lambda a: fx.velocity_terms(c, x, a), v),
        "forward x": (lambda a: fx.forward_dynamics(c, a, v), x),
        "forward v": (lambda a: fx.forward_dynamics(c, x, a), v),
        "forward torque": (lambda a: fx.forward_dynamics(c, x, v, torque=a), t),
        "forward force": (lambda a: fx.forward_dynamics(c, x, v, force=a), f),
        "inverse x": (lambda a: fx.inverse_dynamics(c, a, v, t), x),
        "inverse v": (lambda a: fx.inverse_dynamics(c, x, a, t), v),
        "inverse qdd": (lambda a: fx.inverse_dynamics(c, x, v, a), t),
        "inverse force": (lambda a: fx.inverse_dynamics(c, x, v, t, force=a), f),
        "partition x": (lambda a: fx.Partition(c, a), x),
        "solve b": (lambda a: fx.Partition(c, x).solve(a), t),
        "solve b lu": (lambda a: fx.Partition(c, x).solve(a, method="lu"), t),
        "tensions force": (lambda a: fx.Partition(c, x).tensions(a), f),
        "project x": (lambda a: fx.project(c, a, s.q[s.spec.hard]), x),
        "project targets": (lambda a: fx.project(c, x, a), s.q[s.spec.hard]),
        "project v": (lambda a: fx.project(c, x, s.q[s.spec.hard], a), v),
    }


CALLS = list(calls(single()))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("call", CALLS)
def test_non_finite_numbers_are_refused(call, dim, bad):
    function, good = calls(single(dim))[call]
    for place in (0, good.size // 2, good.size - 1):
        array = good.copy()
        array.flat[place] = bad
        with pytest.raises(ValueError, match=r"(?i)finite|nan|inf"):
            function(array)


@pytest.mark.parametrize("call", CALLS)
def test_wrong_shapes_are_refused(call):
    function, good = calls(single())[call]
    arrays = [good[:-1], good[..., :-1], np.concatenate([good, good]), good.ravel()[0]]
    if call == "project targets":
        arrays.pop()  # one number serves all
    for array in arrays:
        with pytest.raises(ValueError, match=r"shape|expected"):
            function(array)


@pytest.mark.parametrize("call", CALLS)
def test_complex_numbers_and_words_are_refused(call):
    function, good = calls(single())[call]
    for array in (good + 0j, good.astype(str), good.astype(object) + 1j, None, {"x": 1}, "x"):
        if array is None and call in (
            "cartesian qd",
            "forward torque",
            "forward force",
            "inverse force",
            "project v",
        ):
            continue  # None is how these are left out
        with pytest.raises((TypeError, ValueError)):
            function(array)


def test_ragged_lists_are_refused():
    with pytest.raises((TypeError, ValueError)):
        fx.logdet(fx.Chain.linear(3), [[0, 0, 0], [1, 0], [1, 1, 1]])


def test_a_non_finite_number_is_named_by_bead():
    s = single()
    s.x[4, 1] = np.nan
    for function in (lambda: fx.logdet(s.chain, s.x), lambda: s.chain.internal(s.x)):
        with pytest.raises(ValueError, match=r"bead\D*4\b"):
            function()
    s = single()
    s.v[2, 0] = np.inf
    with pytest.raises(ValueError, match=r"bead\D*2\b"):
        fx.forward_dynamics(s.chain, s.x, s.v)
    s.force[5, 0] = np.inf
    with pytest.raises(ValueError, match=r"bead\D*5\b"):
        fx.forward_dynamics(s.chain, s.x, s.x, force=s.force)


def test_a_non_finite_number_is_named_by_frame_and_bead():
    chain = fx.Chain.linear(5)
    batch = np.random.default_rng(0).normal(size=(4, 5, 3))
    batch[3, 1, 2] = np.nan
    for function in (
        lambda: fx.logdet(chain, batch),
        lambda: chain.internal(batch),
        lambda: fx.forward_dynamics(chain, batch, np.zeros_like(batch)),
        lambda: fx.velocity_terms(chain, batch, np.zeros_like(batch)),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            function()
        assert re.search(r"frame\D*3\b", str(caught.value))
        assert re.search(r"bead\D*1\b", str(caught.value))


@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), ()])
@pytest.mark.parametrize("dim", [2, 3])
def test_coincident_bonded_beads_are_named(dim, hard):
    s = single(dim, hard=hard)
    s.x[3] = s.x[2]
    for function in (
        lambda: s.chain.internal(s.x),
        lambda: fx.wilson_b(s.chain, s.x),
        lambda: fx.velocity_terms(s.chain, s.x, s.v),
        lambda: fx.Partition(s.chain, s.x).H_aa,
        lambda: fx.Partition(s.chain, s.x).solve(s.torque),
        lambda: fx.forward_dynamics(s.chain, s.x, s.v).qdd,
        *([lambda: fx.logdet(s.chain, s.x)] if hard else []),
    ):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            function()
        assert re.search(r"(?i)beads?\D*2\D*3\b", str(caught.value)), str(caught.value)


def test_coincident_beads_are_named_by_frame():
    chain = fx.Chain.linear(5, dim=2)
    batch = np.random.default_rng(0).normal(size=(4, 5, 2))
    batch[2, 4] = batch[2, 3]
    for function in (
        lambda: fx.logdet(chain, batch),
        lambda: chain.internal(batch),
        lambda: fx.forward_dynamics(chain, batch, np.zeros_like(batch)),
    ):
        with pytest.raises(ValueError, match=r"frame\D*2\b") as caught:
            function()
        assert re.search(r"(?i)bead\D*3\D*4\b", str(caught.value))


@pytest.mark.parametrize("dim", [2, 3])
def test_a_bead_on_the_base_point_is_refused(dim):
    chain = fx.Chain.linear(3, dim=dim, base="fixed")
    x = np.zeros((3, dim))
    x[1, 0], x[2, 0] = 1.0, 2.0
    for function in (fx.logdet, fx.wilson_b):
        with pytest.raises(ValueError, match=r"(?i)base|bead"):
            function(chain, x)


@given(systems(shapes=("random", "zigzag")))
def test_inputs_are_never_modified(s):
    inputs = [s.x, s.v, s.torque, s.force, s.torque, s.q, s.qd]
    copies = [a.copy() for a in inputs]
    answers(s.chain, *inputs)
    fx.project(s.chain, s.x, s.q[s.spec.hard], s.v)
    for array, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


# --- what never happens ----------------------------------------------------------------------


def finite_or_refused(function):
    """Return the answer where there is one; a typed refusal is fine, NaN and inf are not."""
    try:
        got = function()
    except (ValueError, fx.ConstraintSolveError):
        return None
    assert np.isfinite(got).all()
    return got


@given(
    systems(shapes=("random", "nearly straight", "straight", "zigzag")),
    st.sampled_from([1e-200, 1e-100, 1e-8, 1.0, 1e8, 1e100, 1e200]),
    st.integers(0, 3),
)
@pytest.mark.filterwarnings("ignore:.*encountered.*:RuntimeWarning")
def test_results_are_never_nan(s, scale, digits):
    # Rounded positions make exact straight lines, right angles, folds and coincidences likely.
    x = np.round(s.x, digits) * scale
    chain, v = s.chain, s.v
    finite_or_refused(lambda: chain.internal(x))
    finite_or_refused(lambda: fx.wilson_b(chain, x).data)
    finite_or_refused(lambda: fx.velocity_terms(chain, x, v))
    finite_or_refused(lambda: fx.logdet(chain, x))
    finite_or_refused(lambda: fx.forward_dynamics(chain, x, v, force=s.force).acceleration)
    finite_or_refused(lambda: fx.forward_dynamics(chain, x, v, force=s.force).tension)
    finite_or_refused(lambda: fx.forward_dynamics(chain, x, v, torque=s.torque).qdd)
    finite_or_refused(lambda: fx.inverse_dynamics(chain, x, v, s.torque))
    for method in ("fused", "lu"):
        finite_or_refused(lambda m=method: fx.Partition(chain, x).solve(s.torque, method=m))
    for name in ("logdet_hard", "logdet_free", "logdet_mass"):
        finite_or_refused(lambda n=name: getattr(fx.Partition(chain, x), n))
    finite_or_refused(lambda: fx.Partition(chain, x).tensions(s.force))
    finite_or_refused(lambda: chain.cartesian(s.q * scale, s.qd))


@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
@pytest.mark.parametrize("base", ["free", "fixed"])
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("mass", [1e-30, 1e30])
def test_extreme_masses_are_only_units(mass, dim, base, hard):
    s = make_system(Spec(8, dim, base, 1.0, hard), seed=2)
    heavy = fx.Chain.linear(8, dim=dim, base=base, masses=mass, hard=hard)
    one = fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque, force=s.force)
    many = fx.forward_dynamics(heavy, s.x, s.v, torque=mass * s.torque, force=mass * s.force)
    assert error(many.acceleration, one.acceleration, np.abs(s.force).max()) < 1e-12
    assert error(many.qdd, one.qdd) < 1e-12
    assert error(many.tension / mass, one.tension) < 1e-12
    shift = -len(s.spec.hard) * np.log(mass)
    assert fx.logdet(heavy, s.x) - shift == pytest.approx(fx.logdet(s.chain, s.x), abs=1e-11)
    part = fx.Partition(heavy, s.x)
    for method in ("fused", "lu"):
        got = part.solve(mass * s.torque, method=method)
        assert error(got, fx.Partition(s.chain, s.x).solve(s.torque)) < 1e-11


@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), ("angle",)])
@pytest.mark.parametrize("base", ["free", "fixed"])
@pytest.mark.parametrize("dim", [2, 3])
def test_masses_sixty_decades_apart_give_numbers_or_an_error(dim, base, hard):
    masses = 10.0 ** np.tile([30.0, -30.0, 0.0, -30.0], 2)
    s = make_system(Spec(8, dim, base, masses, hard), seed=3)
    finite_or_refused(lambda: fx.logdet(s.chain, s.x))
    finite_or_refused(lambda: fx.forward_dynamics(s.chain, s.x, s.v, force=s.force).acceleration)
    finite_or_refused(lambda: fx.forward_dynamics(s.chain, s.x, s.v, torque=s.torque).qdd)
    finite_or_refused(lambda: fx.Partition(s.chain, s.x).solve(s.torque))


def test_errors_are_value_errors_and_runtime_errors():
    assert issubclass(fx.SingularConstraintError, ValueError)
    assert issubclass(fx.SingularCoordinateError, ValueError)
    assert issubclass(fx.ConstraintSolveError, RuntimeError)
