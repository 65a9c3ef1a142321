"""The oracles against each other, before anything is tested against them."""

import numpy as np
import pytest

import oracles
from oracles import Spec, error
from strategies import BASES, CASES, chart_values, make_system, random_masses


def state(dim, base, hard=("length",), n=6, seed=1):
    rng = np.random.default_rng(seed)
    spec = Spec(n, dim, base, random_masses(rng, n), hard)
    q = chart_values(spec, "random", rng)
    return spec, q, oracles.cartesian(spec, q), rng


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_complex_steps_agree_with_central_differences_and_with_the_inverse(dim, base):
    spec, q, x, _ = state(dim, base)
    np.testing.assert_allclose(oracles.internal(spec, x), q, atol=1e-13)
    b = oracles.wilson_b(spec, x)
    h = 1e-6
    steps = h * np.eye(q.size).reshape(-1, *x.shape)
    central = (oracles.internal(spec, x + steps) - oracles.internal(spec, x - steps)).T / (2 * h)
    np.testing.assert_allclose(b, central, atol=1e-7)
    np.testing.assert_allclose(b @ oracles.jacobian(spec, q), np.eye(q.size), atol=1e-12)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_taylor_series_agree_with_differences_of_wilson_rows(dim, base):
    spec, _, x, rng = state(dim, base)
    v = rng.normal(size=x.shape)
    h = 1e-5
    slope = (oracles.wilson_b(spec, x + h * v) - oracles.wilson_b(spec, x - h * v)) / (2 * h)
    kappa = oracles.velocity_terms(spec, x, v)
    assert error(kappa, slope @ v.ravel()) < 1e-7


@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_multipliers_agree_with_the_saddle_point_and_the_partition(dim, base, hard):
    s = make_system(Spec(6, dim, base, 1.7, hard), seed=3)
    got = oracles.forward_dynamics(s.spec, s.x, s.v, s.torque, s.force)
    b, kappa = oracles.wilson_b(s.spec, s.x), oracles.velocity_terms(s.spec, s.x, s.v)
    rows, size = b[s.spec.hard], s.x.size
    saddle = np.block([[np.diag(s.spec.mm), -rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    total = s.force.ravel() + b[s.spec.soft].T @ s.torque
    both = np.linalg.solve(saddle, np.concatenate([total, -kappa[s.spec.hard]]))
    assert error(got.acceleration.ravel(), both[:size], got.acceleration_scale) < 1e-12
    assert error(got.tension, -both[size:], got.tension_scale) < 1e-12
    # At rest and without forces the answer is (G^aa)⁻¹ τ.
    still = oracles.forward_dynamics(s.spec, s.x, 0 * s.v, s.torque)
    expected = np.linalg.solve(oracles.mass_matrix(s.spec, s.x), s.torque)
    assert error(still.qdd, expected, still.qdd_scale) < 1e-11


@pytest.mark.parametrize(("dim", "base", "hard"), CASES)
def test_dense_determinants_satisfy_the_theorem(dim, base, hard):
    spec, _, x, _ = state(dim, base, hard)
    h = oracles.unconstrained_inverse_mass(spec, x)
    block = h[np.ix_(spec.hard, spec.hard)]
    gap = -oracles.logdet(h) + oracles.logdet(block) - oracles.logdet(oracles.mass_matrix(spec, x))
    assert abs(gap) < 1e-11


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_extended_precision_agrees_with_dense(dim, base):
    s = make_system(Spec(12, dim, base, random_masses(np.random.default_rng(0), 12)), seed=5)
    torque = s.torque if dim == 2 else None
    dense = oracles.forward_dynamics(s.spec, s.x, s.v, torque, s.force)
    acceleration, tension, qdd = oracles.mp_forward_dynamics(s.spec, s.x, s.v, torque, s.force)
    assert error(dense.acceleration, acceleration) < 1e-13
    assert error(dense.tension, tension) < 1e-13
    if dim == 2:
        assert error(dense.qdd, qdd) < 1e-13
    h = oracles.unconstrained_inverse_mass(s.spec, s.x)[np.ix_(s.spec.hard, s.spec.hard)]
    assert oracles.mp_logdet(s.spec, s.x) == pytest.approx(oracles.logdet(h), abs=1e-12)
