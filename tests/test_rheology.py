"""Stress of bead-rod chains: dense linear algebra, the rigid dumbbell, exact averages, series."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
import oracles
from fixman import analytic, rheology
from fixman.mechanics.drift import mean_forces
from fixman.potentials.energies import Bending
from strategies import BASES, GRAPHS, graphs, hard_sets, make_graph, random_masses, random_system

CASES = [(dim, hard) for dim in (2, 3) for hard in hard_sets(dim) if hard]
FRICTIONS = np.array([1.0, 0.3, 2.0, 0.5, 3.0, 1.0])
MASSES = np.array([2.0, 1.0, 1.0, 5.0, 1.0, 0.5])


def shear(rate, dim=3):
    flow = np.zeros((dim, dim))
    flow[0, 1] = rate
    return flow


def solvent(flow=None, **options):
    return fx.Brownian(0.004, flow=flow, **options)


def second_moments(x, friction):
    """Q about the centre of friction."""
    friction = np.broadcast_to(friction, x.shape[-2])
    away = x - np.average(x, axis=-2, weights=friction)[..., None, :]
    return np.swapaxes(away, -1, -2) * friction @ away


def dense(s, friction, kT):
    """Mean forces by dense algebra: noise is averaged over the columns of a root of D."""
    spec = s.spec
    K = np.repeat(1.0 / friction, spec.dim)
    B = oracles.wilson_b(spec, s.x, None)[spec.hard]
    S = np.linalg.inv((B * K) @ B.T)
    held = B.T @ S @ (B * K)
    root = np.sqrt(K)[:, None] * np.eye(K.size) - (K[:, None] * B.T) @ S @ (B * np.sqrt(K))
    noise = sum(
        oracles.velocity_terms(spec, s.x, column.reshape(s.x.shape))[spec.hard] for column in root.T
    )
    tension = S @ (B @ (K * s.force.ravel()) + kT * noise)
    blocks = held.reshape(spec.n, spec.dim, spec.n, spec.dim)
    own = np.einsum("kakb->ab", blocks)
    found = s.force - (B.T @ tension).reshape(s.x.shape), tension, 0.5 * (own + own.T)
    # Without the constraints noise would do so much; what is left of it may be little.
    free = np.sqrt(K)[:, None, None] * np.eye(K.size).reshape(-1, *s.x.shape)
    apart = sum(np.abs(oracles.velocity_terms(spec, s.x, v)[spec.hard]) for v in free)
    return found, max(1.0, float((np.abs(S) @ apart).max(initial=0.0)))


def close_to_dense(s, seed=0, kT=0.7):
    friction = random_masses(np.random.default_rng(seed), s.chain.n)
    expected, cancelled = dense(s, friction, kT)
    condition = oracles.hard_logdet(s.spec, s.x)[1]
    found = mean_forces(s.chain, s.x, s.force, friction, kT)
    many = mean_forces(s.chain, np.stack([s.x] * 9), np.stack([s.force] * 9), friction, kT)
    for one, eight, exact in zip(found, many, expected, strict=True):
        assert one.shape == exact.shape
        error = np.abs(one - exact).max(initial=0.0)
        assert error <= max(1e-12, 1e-15 * condition) * cancelled
        assert (eight == one).all()  # in lanes, and the one that is left over


# --- mean forces --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 5, 9])
@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize(("dim", "hard"), CASES)
def test_mean_forces_of_linear_chains(dim, hard, base, n):
    close_to_dense(random_system(dim, base, hard, n, seed=n))


@pytest.mark.parametrize("hard", hard_sets(3)[1:])
@pytest.mark.parametrize("kind", GRAPHS)
def test_mean_forces_of_trees_and_rings(kind, hard):
    close_to_dense(make_graph(kind, 8, 3, "free", hard, seed=5))


@given(graphs())
def test_mean_forces_of_any_graph(s):
    close_to_dense(s)


def test_mean_forces_of_a_straight_bend():
    chain = fx.Chain.linear(5, straight=[(1, 2, 3)])
    x = fx.random_walks(chain, rng=1)[0]
    force = np.random.default_rng(2).normal(size=x.shape)
    found = mean_forces(chain, x, force, np.ones(5), 1.0)
    # Hard coordinates stay on average: B K F + kT tr(D ∂²q) = 0, with D by differences of B.
    rows = chain.layout.hard_rows

    def wilson(x):
        return rows.to_sparse(rows.gradients(x)[0]).toarray()

    B = wilson(x)
    D = np.eye(15) - B.T @ np.linalg.solve(B @ B.T, B)
    step = 1e-5
    noise = 0.0
    for k, e in enumerate(np.eye(15).reshape(15, 5, 3)):
        change = wilson(x + step * e) - wilson(x - step * e)
        noise = noise + change @ D[:, k] / (2 * step)
    np.testing.assert_allclose(B @ found.total.ravel() + noise, 0.0, atol=1e-8)


def test_without_hard_rows_there_is_nothing_to_average():
    chain = fx.Chain.linear(3, hard=())
    x, force = np.random.default_rng(1).normal(size=(2, 4, 3, 3))
    found = mean_forces(chain, x, force, np.ones(3), 1.0)
    assert (found.total == force).all()
    assert found.tensions.shape == (4, 0)
    assert not found.held.any()


# --- the dumbbell -------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
def test_stresses_of_a_rigid_dumbbell(dim):
    chain = fx.Chain.linear(2, dim=dim)
    a, zeta, kT = 1.5, 2.0, 0.7
    x = fx.random_walks(chain, 20, lengths=a, rng=1) + 5.0
    u = (x[:, 1] - x[:, 0]) / a
    uu = u[:, :, None] * u[:, None, :]
    flow = np.random.default_rng(2).normal(size=(dim, dim))
    flow -= np.eye(dim) * flow.trace() / dim
    # Bird, Curtiss, Armstrong & Hassager (1987), section 14.3.
    at_rest = dim * kT * (uu - np.eye(dim) / dim)
    at_once = 0.5 * zeta * a**2 * np.einsum("ka,ab,kb->k", u, flow, u)[:, None, None] * uu
    rest, flowing = solvent(kT=kT, friction=zeta), solvent(flow, kT=kT, friction=zeta)
    found = rheology.kramers_stress(chain, x, flowing)
    np.testing.assert_allclose(found, at_rest + at_once, atol=1e-12)
    found = rheology.kramers_stress(chain, x, rest)
    np.testing.assert_allclose(found, at_rest, atol=1e-12)
    found = rheology.giesekus_stress(chain, x, flowing)
    half = 0.25 * zeta * a**2 * flow @ uu
    np.testing.assert_allclose(found, half + np.swapaxes(half, 1, 2), atol=1e-12)
    found = rheology.tensions(chain, x, rest)
    np.testing.assert_allclose(found, (dim - 1) * kT / a, rtol=1e-12)
    found = rheology.instantaneous_viscosity(chain, x, rest)
    np.testing.assert_allclose(found, zeta * a**2 / (2 * dim * (dim + 2)), rtol=1e-12)


def test_uneven_frictions_of_a_dumbbell_count_as_reduced_ones():
    chain = fx.Chain.linear(2)
    x = fx.random_walks(chain, 5, rng=1)
    flow = shear(0.3)
    uneven, even = solvent(flow, friction=[1.0, 3.0]), solvent(flow, friction=1.5)  # 2 · 3/4
    for stress in (rheology.giesekus_stress, rheology.kramers_stress):
        found, same = stress(chain, x, uneven), stress(chain, x, even)
        np.testing.assert_allclose(found, same, atol=1e-14)


@pytest.mark.thorough
def test_frames_are_measured_with_the_friction_they_were_made_with():
    chain, flow = fx.Chain.linear(2), shear(0.3)
    stepper = solvent(flow, friction=(1.0, 3.0))
    x = fx.simulate(chain, fx.random_walks(chain, 3, rng=1), stepper, 20, every=10, rng=2).x
    half = 0.5 * flow @ second_moments(x, [1.0, 3.0])
    found = rheology.giesekus_stress(chain, x, stepper)
    np.testing.assert_allclose(found, half + np.swapaxes(half, -1, -2), atol=1e-14)


# --- both stresses ------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
def test_the_stresses_differ_by_the_rate_of_change(dim):
    chain = fx.Chain.branched([-1, 0, 1, 1, 2, 0], dim=dim)
    x = fx.random_walks(chain, 4, rng=3)
    flow = np.random.default_rng(4).normal(size=(dim, dim))
    force = Bending(0.8)
    cold = solvent(flow, kT=1e-14, friction=FRICTIONS, potential=force)

    def rate(step):  # without noise the chain goes where it drifts
        tension = rheology.tensions(chain, x, cold)
        y = np.empty_like(x)
        for k, frame in enumerate(x):
            B = fx.wilson_b(chain, frame).toarray()[chain.hard]
            pull = fx.potentials.bind(chain, force).force(frame)
            pull -= (B.T @ tension[k]).reshape(frame.shape)
            y[k] = frame + step * (frame @ flow.T + pull / FRICTIONS[:, None])
        return y

    ends = [second_moments(rate(step), FRICTIONS) for step in (1e-5, -1e-5)]
    giesekus = rheology.giesekus_stress(chain, x, cold)
    kramers = rheology.kramers_stress(chain, x, cold)
    np.testing.assert_allclose(kramers, giesekus - 0.5 * (ends[0] - ends[1]) / 2e-5, atol=1e-8)


def test_the_rate_of_change_of_a_series():
    chain = fx.Chain.linear(4)
    x = fx.random_walks(chain, 2, rng=1)
    t = np.array([0.0, 0.1, 0.2, 0.4, 0.5, 0.8])  # as of a run that was thinned
    series = np.sqrt(1.0 + t)[:, None, None, None] * x  # Q grows in proportion to 1 + t
    flows = dict(zip(t, np.random.default_rng(2).normal(size=(6, 3, 3)), strict=True))
    rate = second_moments(x, 1.0)
    found = rheology.giesekus_stress(chain, series, solvent(flows.get), times=t)
    steady = [
        rheology.giesekus_stress(chain, one, solvent(flow))
        for one, flow in zip(series, flows.values(), strict=True)
    ]
    np.testing.assert_allclose(found, np.stack(steady) - 0.5 * rate, atol=1e-12)
    found = rheology.giesekus_stress(chain, series, solvent(), times=t)  # at rest, still shrinking
    np.testing.assert_allclose(found, np.stack([-0.5 * rate] * 6), atol=1e-12)


@pytest.mark.parametrize("function", [rheology.kramers_stress, rheology.tensions])
def test_every_frame_has_the_flow_of_its_time(function):
    chain = fx.Chain.linear(4)
    x = fx.random_walks(chain, 6, rng=1).reshape(3, 2, 4, 3)
    times = np.array([0.0, 0.5, 2.0])
    found = function(chain, x, solvent(lambda t: shear(1.0 + t)), times=times)
    each = [function(chain, one, solvent(shear(1.0 + t))) for one, t in zip(x, times, strict=True)]
    np.testing.assert_allclose(found, each, atol=1e-13)
    steady = solvent(shear(0.4))
    assert (function(chain, x, steady, times=times) == function(chain, x, steady)).all()


def weighted(chain, x, ensemble, friction, energy=0.0):
    """Weights that make walks, which are of the stiff ensemble, be of another one."""
    logs = np.zeros(len(x)) - energy
    if ensemble == "mobility":
        logs += 0.5 * fx.logdet(chain, x, inverse_masses=1.0 / friction)
    elif ensemble == "rigid":
        logs += 0.5 * fx.logdet(chain, x)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def assert_mean(weights, values, expected):
    mean = weights @ values
    error = np.sqrt(weights**2 @ (values - mean) ** 2)
    assert abs(mean - expected) < 4 * error


CHAINS = {
    "linear": fx.Chain.linear(6, masses=MASSES),
    "planar": fx.Chain.linear(6, dim=2, masses=MASSES),
    "star": fx.Chain.branched([-1, 0, 0, 0, 1, 2], masses=MASSES),
}


@pytest.mark.parametrize("ensemble", ["mobility", "stiff", "rigid"])
@pytest.mark.parametrize("name", CHAINS)
def test_the_mean_stress_at_equilibrium_vanishes(name, ensemble):
    # Which takes the right metric force.  Off by nothing but the noise of 40,000 samples; the
    # forces of another ensemble would be off by 10 to 40 errors.
    chain, kT = CHAINS[name], 0.7
    x = fx.random_walks(chain, 40_000, rng=3)
    weights = weighted(chain, x, ensemble, FRICTIONS)
    stepper = solvent(kT=kT, friction=FRICTIONS, ensemble=ensemble)
    stress = rheology.kramers_stress(chain, x, stepper)
    assert_mean(weights, stress.trace(axis1=-2, axis2=-1), 0.0)
    assert_mean(weights, stress[:, 0, 0], 0.0)
    assert_mean(weights, stress[:, 0, 1], 0.0)


@pytest.mark.parametrize("name", CHAINS)
def test_static_averages_know_the_viscosity(name):
    # ∫⟨σ(0) σ(t)⟩dt is ½ ⟨Q σ⟩, since σ is −½ dQ/dt in the mean.
    chain, kT = CHAINS[name], 0.7
    dim = chain.dim
    x = fx.random_walks(chain, 40_000, rng=4)
    weights = weighted(chain, x, "mobility", FRICTIONS)
    Q = second_moments(x, FRICTIONS)
    trace = Q.trace(axis1=-2, axis2=-1)
    traceless = Q - np.eye(dim) * trace[:, None, None] / dim
    stepper = solvent(kT=kT, friction=FRICTIONS)
    stress = rheology.kramers_stress(chain, x, stepper)
    integral = 0.5 * (traceless * stress).sum(axis=(-2, -1)) / ((dim + 2) * (dim - 1) * kT)
    at_once = rheology.instantaneous_viscosity(chain, x, stepper)
    assert_mean(weights, at_once + integral - 0.5 * trace / dim, 0.0)
    mean = weights @ at_once
    assert 0.05 < mean / (weights @ (0.5 * trace / dim)) < 0.5


def test_hard_angles_and_potentials_have_their_stress():
    chain = fx.Chain.linear(6, hard=("length", "angle"))
    x = fx.random_walks(chain, 40_000, angles=1.2, rng=5)
    stress = rheology.kramers_stress(chain, x, solvent(friction=FRICTIONS, ensemble="stiff"))
    assert_mean(np.full(len(x), 1.0 / len(x)), stress.trace(axis1=-2, axis2=-1), 0.0)
    chain, bending = CHAINS["linear"], Bending(0.8)
    x = fx.random_walks(chain, 40_000, rng=6)
    energy = fx.observables.potential_energy(chain, x, bending) / 0.7
    weights = weighted(chain, x, "stiff", FRICTIONS, energy)
    stepper = solvent(kT=0.7, friction=FRICTIONS, ensemble="stiff", potential=bending)
    stress = rheology.kramers_stress(chain, x, stepper)
    assert_mean(weights, stress.trace(axis1=-2, axis2=-1), 0.0)


@given(st.integers(0, 2**32 - 1), st.sampled_from([2, 3]))
def test_a_stress_turns_with_the_chain_and_stays_when_it_moves(seed, dim):
    rng = np.random.default_rng(seed)
    chain = fx.Chain.linear(5, dim=dim)
    x = fx.random_walks(chain, rng=rng)[0]
    Q = np.linalg.qr(rng.normal(size=(dim, dim)))[0]
    flow = rng.normal(size=(dim, dim))
    moved = x @ Q.T + rng.normal(size=dim)
    one, turned = solvent(flow), solvent(Q @ flow @ Q.T)
    for stress in (rheology.giesekus_stress, rheology.kramers_stress):
        expected = Q @ stress(chain, x, one) @ Q.T
        np.testing.assert_allclose(stress(chain, moved, turned), expected, atol=1e-10)
    expected = rheology.tensions(chain, x, one)
    np.testing.assert_allclose(rheology.tensions(chain, moved, turned), expected, atol=1e-10)


def test_tensions_on_a_fixed_base():
    # A rod of one bead that hangs in a uniform stretch: ζ ε L, and what its beads' noise adds.
    chain = fx.Chain.linear(1, base="fixed")
    x = np.array([[2.0, 0.0, 0.0]])
    stepper = solvent(np.diag([0.5, -0.25, -0.25]), kT=0.7, friction=3.0)
    found = rheology.tensions(chain, x, stepper)
    np.testing.assert_allclose(found, [3.0 * 0.5 * 2.0 + 2 * 0.7 / 2.0])


# --- functions of flow --------------------------------------------------------------------------


def test_functions_of_shear_and_extension():
    rng = np.random.default_rng(1)
    stress = rng.normal(size=(50, 4, 3, 3))
    stress += np.swapaxes(stress, -1, -2)
    found = rheology.shear_functions(stress, 0.5)
    series = {
        "viscosity": stress[..., 0, 1] / 0.5,
        "first": (stress[..., 0, 0] - stress[..., 1, 1]) / 0.25,
        "second": (stress[..., 1, 1] - stress[..., 2, 2]) / 0.25,
    }
    for name, values in series.items():
        assert getattr(found, name) == fx.observables.mean_with_error(values)
    expected = fx.observables.mean_with_error(series["first"] * 0.5)
    assert rheology.extensional_viscosity(stress, 0.5) == pytest.approx(expected)
    planar = rheology.shear_functions(stress[..., :2, :2], 0.5)
    assert planar.first == found.first
    assert planar.second == (0.0, 0.0)


def test_the_sign_of_the_shear_does_not_matter():
    chain = fx.Chain.linear(5)
    x = fx.random_walks(chain, 40, rng=1)[:, None]
    mirrored = x * [1.0, -1.0, 1.0]
    one, other = (
        rheology.shear_functions(rheology.giesekus_stress(chain, y, solvent(shear(rate))), rate)
        for y, rate in ((x, 0.4), (mirrored, -0.4))
    )
    np.testing.assert_allclose(other, one, rtol=1e-12)
    assert one.second == (0.0, 0.0)


# --- relaxation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
def test_the_modulus_is_the_correlation_of_the_traceless_part(dim):
    rng = np.random.default_rng(2)
    stress = rng.normal(size=(12, 3, dim, dim))
    found = rheology.relaxation_modulus(stress, 0.1, kT=0.7)
    sym = 0.5 * (stress + np.swapaxes(stress, -1, -2))
    P = sym - np.eye(dim) * sym.trace(axis1=-2, axis2=-1)[..., None, None] / dim
    each = np.array(
        [np.einsum("trab,trab->r", P[: 12 - lag], P[lag:]) / (12 - lag) for lag in range(6)]
    ) / ((dim + 2) * (dim - 1) * 0.7)
    np.testing.assert_allclose(found.times, 0.1 * np.arange(6))
    np.testing.assert_allclose(found.modulus, each.mean(axis=1), atol=1e-13)
    np.testing.assert_allclose(found.error, each.std(axis=1, ddof=1) / np.sqrt(3), atol=1e-13)
    grown = np.array([np.trapezoid(each[: k + 1], dx=0.1, axis=0) for k in range(6)])
    np.testing.assert_allclose(found.integral, grown.mean(axis=1), atol=1e-13)
    np.testing.assert_allclose(
        found.integral_error, grown.std(axis=1, ddof=1) / np.sqrt(3), atol=1e-13
    )


def test_all_directions_have_one_modulus():
    # G(0) of a dumbbell is 3 kT/5 in every configuration: 9 kT² |u uᵀ − 1/3|²/10 kT.
    chain = fx.Chain.linear(2)
    x = fx.random_walks(chain, 8, rng=1).reshape(4, 2, 2, 3)
    stress = rheology.kramers_stress(chain, x, solvent())
    found = rheology.relaxation_modulus(stress, 0.1, lags=1)
    assert found.modulus == pytest.approx([0.6])
    assert found.error == pytest.approx([0.0], abs=1e-15)


# --- refusals -----------------------------------------------------------------------------------


def test_what_has_no_stress_is_refused():
    chain = fx.Chain.linear(3, base="fixed")
    x = fx.random_walks(chain, rng=1)
    with pytest.raises(ValueError, match="a stress needs a free chain"):
        rheology.kramers_stress(chain, x, solvent())
    with pytest.raises(ValueError, match="a stress needs a free chain"):
        rheology.giesekus_stress(chain, x, solvent(np.eye(3)))
    chain = fx.Chain.linear(3)
    x = fx.random_walks(chain, 20, rng=1)
    x[17, 2] = x[17, 1]
    with pytest.raises(fx.SingularConstraintError, match="bead 1 and bead 2 coincide in frame 17"):
        rheology.kramers_stress(chain, x, solvent())
    with pytest.raises(fx.SingularConstraintError, match="bead 1 and bead 2"):
        rheology.tensions(chain, x[17], solvent())


def test_arguments_are_refused_by_what_is_wrong_with_them():
    chain = fx.Chain.linear(3)
    x = fx.random_walks(chain, 4, rng=1)
    stepper = solvent(shear(1.0))
    run = fx.simulate(chain, x, stepper, 1, every=1, rng=1)
    for wrong in (fx.Langevin(0.01), run, shear(1.0), fx.Brownian):
        with pytest.raises(TypeError, match=r"stepper must be a fixman\.Brownian"):
            rheology.giesekus_stress(chain, x, wrong)
    for one, options, match in (
        (solvent(shear(1.0), friction=[1.0, 1.0]), {}, r"have shape \(3,\)"),
        (solvent(np.eye(2)), {}, r"flow must be a velocity gradient \(3, 3\)"),
        (solvent(lambda t: shear(t)), {}, "give times, those of the run"),
        (stepper, {"times": [0.0, 1.0]}, r"of x \(4, 3, 3\), got \(2,\)"),
        (stepper, {"times": [0.0, 1.0, np.nan, 2.0]}, "times is nan at frame 2"),
    ):
        for function in (rheology.giesekus_stress, rheology.kramers_stress, rheology.tensions):
            with pytest.raises(ValueError, match=match):
                function(chain, x, one, **options)
    with pytest.raises(ValueError, match="times must have shape"):
        rheology.kramers_stress(chain, x[0], stepper, times=[0.0, 1.0, 2.0])
    for nothing in (solvent(), solvent(shear(0.0))):
        with pytest.raises(ValueError, match=r"the stepper has no flow.*take `kramers_stress`"):
            rheology.giesekus_stress(chain, x, nothing)
    for few in ([0.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match="two frames or more"):
            rheology.giesekus_stress(chain, x[: len(few)], stepper, times=few)
    with pytest.raises(ValueError, match="the size of rate must be positive"):
        rheology.shear_functions(np.zeros((4, 3, 3)), 0.0)
    with pytest.raises(ValueError, match=r"replicas.*\(frames, replicas, dim, dim\)"):
        rheology.relaxation_modulus(np.zeros((4, 3, 3)), 0.1)
    with pytest.raises(ValueError, match="two replicas or more"):
        rheology.relaxation_modulus(np.zeros((4, 1, 3, 3)), 0.1)
    with pytest.raises(ValueError, match="lags must be at most the number of frames, 4, got 5"):
        rheology.relaxation_modulus(np.zeros((4, 2, 3, 3)), 0.1, lags=5)


# --- closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("beads", [1, 2, 10, 20])
def test_viscosity_at_rest_is_the_size_of_the_chain(beads, dim):
    expected = 0.0
    if beads > 1:
        expected = beads * analytic.mean_square_gyration(beads - 1) / (2 * dim)
    assert analytic.zero_shear_viscosity(beads, dim=dim) == pytest.approx(expected)


def test_slow_shear_of_a_dumbbell_is_a_series():
    Wi = np.array([0.0, 1e-4, 0.02, 0.04])
    square = Wi**2
    eta = 1 - 18 / 35 * square + 1326 / 1925 * square**2
    np.testing.assert_allclose(analytic.dumbbell_viscosity(Wi), eta, atol=2 * 0.04**6)
    normal = analytic.dumbbell_normal_stress(Wi)
    np.testing.assert_allclose(normal, 1 - 38 / 35 * square, atol=3 * 0.04**4)
    assert normal[0] == 1.0
    assert analytic.dumbbell_normal_stress(1e-7) == pytest.approx(1.0, abs=1e-12)


def test_known_viscosities_of_a_dumbbell():
    found = analytic.dumbbell_viscosity([1.0, 3.0])
    assert found == pytest.approx([0.7676, 0.5246], abs=5e-5)
    fast = analytic.dumbbell_viscosity([50.0, 100.0])
    assert np.log2(fast[1] / fast[0]) == pytest.approx(-1 / 3, abs=0.03)


def test_orientations_of_a_dumbbell():
    found = analytic.dumbbell_orientation([[0.0, 2.0, -2.0]])
    assert found.shape == (1, 3, 3, 3)
    np.testing.assert_allclose(found[0, 0], np.eye(3) / 3, atol=1e-15)
    np.testing.assert_allclose(found[0, 1] * [[1, -1, 1], [-1, 1, 1], [1, 1, 1]], found[0, 2])
    np.testing.assert_allclose(np.trace(found, axis1=-2, axis2=-1), 1.0)
    # Twice as many harmonics change nothing.
    for Wi in (1.0, 30.0):
        used = analytic._moments(Wi)
        np.testing.assert_allclose(analytic._harmonic_moments(Wi, 128), used, rtol=1e-11)
    # ∂⟨u_x u_y⟩/∂Wi and what shear does to second moments at rest: γ̇ (1/3 − 2/15) − 6 D ⟨u_x u_y⟩.
    slow = analytic.dumbbell_orientation(1e-5)
    assert slow[0, 1] == pytest.approx(1e-5 / 5, rel=1e-8)


def test_dumbbells_that_are_sheared_too_fast_are_refused():
    with pytest.raises(ValueError, match=r"weissenberg is too large.*got 1e"):
        analytic.dumbbell_viscosity(1e6)
    with pytest.raises(ValueError, match="weissenberg is nan"):
        analytic.dumbbell_viscosity(np.nan)


def test_numbers_whose_squares_overflow_are_refused():
    chain, stepper = fx.Chain.linear(2), fx.Brownian(0.001, flow=fx.flows.shear(1.0))
    x = np.outer(np.arange(2.0), [1.0, 0.0, 0.0]) * 1e200
    with pytest.raises(ValueError, match=r"x must be in a unit.*1e\+200"):
        rheology.giesekus_stress(chain, x, stepper)
    with pytest.raises(ValueError, match=r"stress must be in a unit.*1e\+200"):
        rheology.relaxation_modulus(np.full((4, 2, 3, 3), 1e200), 0.1)
