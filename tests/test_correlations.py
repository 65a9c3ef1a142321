"""Motion and structure of chains against plain loops, closed forms and exact processes."""

import itertools
import warnings

import numpy as np
import pytest

import fixman as fx
from fixman import analytic
from fixman import observables as ob
from fixman.simulation import lags


def rouse_chain(n, frames, copies, dt, seed, dim=3):
    """Exact frames of harmonic beads, ẋ = −A x + √2 ξ, mode by mode; x has the mean of a diffuser.

    A is the Laplacian of the chain, so that rates are 4 sin²(π p/2n), ⟨b²⟩ = dim and D = 1/n.
    """
    rng = np.random.default_rng(seed)
    rates = 4.0 * np.sin(np.pi * np.arange(n) / (2 * n)) ** 2
    k = np.arange(n)
    basis = np.sqrt(2.0 / n) * np.cos(np.pi * np.outer(k, k + 0.5) / n)
    basis[0] /= np.sqrt(2.0)
    keep = np.exp(-rates * dt)[:, None]
    noise = np.sqrt(np.r_[2.0 * dt, -np.expm1(-2.0 * rates[1:] * dt) / rates[1:]])[:, None]
    z = np.zeros((copies, n, dim))
    z[:, 1:] = rng.normal(size=(copies, n - 1, dim)) / np.sqrt(rates[1:])[:, None]
    out = np.empty((frames, copies, n, dim))
    for frame in out:
        frame[:] = np.einsum("pk,cpa->cka", basis, z)
        z = keep * z + noise * rng.normal(size=z.shape)
    return out, rates


# --- plain loops ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("frames", "copies"), [(12, (2, 8)), (40, (3,)), (64, ())])
@pytest.mark.parametrize("dim", [2, 3])
def test_displacements_are_means_over_pairs(frames, copies, dim):
    chain = fx.Chain.linear(5, dim=dim, masses=[1, 2, 3, 4, 5])
    x = np.random.default_rng(1).normal(size=(frames, *copies, 5, dim)).cumsum(0) + 50.0
    centre = (chain.masses[:, None] * x).sum(-2, keepdims=True) / 15.0
    inner = [1, 3]
    cases = {
        "beads": (x, {}),
        "relative": (x - centre, {"of": "relative"}),
        "centre": (centre, {"of": "centre"}),
        "inner": (x[..., inner, :], {"beads": inner}),
    }
    for r, options in cases.values():
        found = ob.mean_square_displacement(chain, x, interval=0.5, **options)
        size = max(int(np.prod(copies)), 1)
        blocks = max(1, -(-lags.GROUPS // size))
        assert found.lag.tolist() == [0.5 * t for t in range(frames // blocks)]
        for t in range(len(found.lag)):
            pairs = [((r[k + t] - r[k]) ** 2).sum(-1).mean() for k in range(frames - t)]
            assert found.value[t] == pytest.approx(np.mean(pairs), rel=1e-9, abs=1e-9)
        assert found.error[0] == 0.0
        assert (found.error[1:] > 0.0).all()
        whole = ob.mean_square_displacement(chain, x, longest=frames - 1, **options)
        assert len(whole.value) == frames
        assert np.allclose(whole.value[: len(found.value)], found.value, rtol=1e-12)


def test_errors_are_the_scatter_of_copies_or_blocks():
    chain = fx.Chain.linear(2)
    x = np.random.default_rng(1).normal(size=(10, 20, 2, 3)).cumsum(0)
    found = ob.mean_square_displacement(chain, x)
    each = [ob.mean_square_displacement(chain, x[:, c], longest=9).value for c in range(20)]
    assert np.allclose(found.error, np.std(each, axis=0, ddof=1) / np.sqrt(20))
    alone = ob.mean_square_displacement(chain, x[:, 0], longest=9)
    assert np.isinf(alone.error).all()
    assert np.allclose(alone.value, each[0])


def test_correlations_are_means_over_pairs():
    a = np.random.default_rng(1).normal(size=(60, 4, 4, 2)).cumsum(0)
    with pytest.warns(fx.ShortSeriesWarning, match="60 frames are .* correlation times: below 50"):
        found = ob.autocorrelation(a, interval=2.0)
    C = [(a[: 60 - t] * a[t:]).sum(-1).mean() for t in range(60)]
    assert np.allclose(found.value, np.array(C) / C[0], rtol=1e-10)
    assert found.lag.tolist() == [2.0 * t for t in range(60)]
    assert found.error[0] == 0.0


def test_internal_distances_are_means_over_pairs():
    for base in ("free", "fixed"):
        chain = fx.Chain.linear(7, base=base)
        x = np.random.default_rng(1).normal(size=(2, 3, 7, 3)) + 5.0
        found = ob.mean_square_internal_distances(chain, x)
        y = np.concatenate([np.zeros((2, 3, 1, 3)), x], axis=-2) if base == "fixed" else x
        assert found.shape == (2, 3, y.shape[-2])
        for s in range(y.shape[-2]):
            pairs = [
                ((y[..., k + s, :] - y[..., k, :]) ** 2).sum(-1) for k in range(y.shape[-2] - s)
            ]
            assert np.allclose(found[..., s], np.mean(pairs, axis=0), rtol=1e-12)


@pytest.mark.parametrize("dim", [2, 3])
def test_rouse_modes_are_plain_sums(dim):
    chain = fx.Chain.linear(6, dim=dim)
    x = np.random.default_rng(1).normal(size=(4, 6, dim))
    found = ob.rouse_modes(chain, x)
    for p in range(6):
        c = np.sqrt((2.0 if p else 1.0) / 6)
        X = sum(c * np.cos(np.pi * p * (k + 0.5) / 6) * x[:, k] for k in range(6))
        assert np.allclose(found[:, p], X, atol=1e-14)
    assert np.allclose((found**2).sum((1, 2)), (x**2).sum((1, 2)))
    with pytest.raises(ValueError, match="a linear chain is needed"):
        ob.rouse_modes(fx.Chain.ring(6), np.zeros((6, 3)))
    with pytest.raises(ValueError, match="fixed base"):
        ob.rouse_modes(fx.Chain.linear(6, base="fixed"), np.zeros((6, 3)))


@pytest.mark.parametrize("dim", [2, 3])
def test_radial_densities_are_counts_in_shells(dim):
    chain = fx.Chain.linear(5, dim=dim, masses=[1, 2, 3, 4, 5])
    x = np.random.default_rng(1).normal(size=(20, 2, 5, dim))
    edges = np.array([0.0, 0.5, 1.5, 4.0])
    found = ob.radial_density(chain, x, edges)
    volumes = np.diff(np.pi * edges**2 if dim == 2 else 4 * np.pi / 3 * edges**3)
    counts = np.zeros(3)
    for frame in x.reshape(-1, 5, dim):
        centre = chain.masses @ frame / 15.0
        for bead in frame:
            counts[np.searchsorted(edges, np.linalg.norm(bead - centre)) - 1] += 1
    assert np.allclose(found.density, counts / 40 / volumes)
    found = ob.radial_density(chain, x, 7)
    volumes = np.diff(np.pi * found.edges**2 if dim == 2 else 4 * np.pi / 3 * found.edges**3)
    assert (found.density * volumes).sum() == pytest.approx(5.0)
    with pytest.raises(ValueError, match="edges are radii"):
        ob.radial_density(chain, x, [-1.0, 1.0])


def test_answers_do_not_depend_on_chunks(monkeypatch):
    chain = fx.Chain.linear(5)
    x = np.random.default_rng(1).normal(size=(30, 2, 5, 3))
    g, R2 = ob.mean_square_displacement(chain, x), ob.mean_square_internal_distances(chain, x)
    monkeypatch.setattr(lags, "CHUNK", 40)
    monkeypatch.setattr(ob, "CHUNK", 40)
    for old, new in zip(g, ob.mean_square_displacement(chain, x), strict=True):
        assert np.allclose(old, new, rtol=1e-12)
    assert np.allclose(ob.mean_square_internal_distances(chain, x), R2, rtol=1e-12)


# --- closed forms ---------------------------------------------------------------------------------


def test_freely_jointed_chains_have_their_distances_along_the_chain():
    n = 30
    chain = fx.Chain.linear(n)
    found = ob.mean_square_internal_distances(chain, fx.random_walks(chain, 3000, rng=1))
    error = found.std(axis=0) / np.sqrt(3000)
    for s in (2, 5, 15, n - 1):
        exact = analytic.mean_square_end_to_end(s)
        assert abs(found[:, s].mean() - exact) < 4 * error[s]
    assert found[:, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("copies", [1, 20])
def test_a_free_bead_diffuses(copies):
    """⟨r²⟩ = 2 d D t, with D = kT/ζ; the stepper moves by means of two noises, half a step late."""
    chain, dt, D = fx.Chain.linear(1), 0.1, 2.0 / 4.0
    stepper = fx.Brownian(dt, kT=2.0, friction=4.0)
    run = fx.simulate(chain, np.zeros((copies, 1, 3)), stepper, 4000, rng=1, every=2)
    for of in ("beads", "centre"):
        found = ob.mean_square_displacement(chain, run.x, of=of, interval=2 * dt, longest=50)
        exact = 6 * D * (found.lag - dt / 2)
        assert (np.abs(found.value - exact)[1:] < 4 * found.error[1:]).all()
        assert found.error[5] < 0.1 * exact[5]
    still = ob.mean_square_displacement(chain, run.x, of="relative")
    assert not still.value.any()


def test_rouse_chains_have_the_times_of_their_modes():
    n, dt = 8, 0.25
    x, rates = rouse_chain(n, 4000, 24, dt, seed=2)
    chain = fx.Chain.linear(n)
    X = ob.rouse_modes(chain, x)
    for p in (1, 2, 4):
        amplitude = ob.mean_with_error((X[..., p, :] ** 2).sum(-1))
        assert abs(amplitude.value - 3.0 / rates[p]) < 4 * amplitude.error
        found = ob.autocorrelation(X[..., p, :], interval=dt)
        near = slice(1, int(3 / rates[p] / dt))
        off = np.abs(found.value - np.exp(-rates[p] * found.lag))[near] / found.error[near]
        assert (off < 4).all()
        assert abs(found.fitted.value - 1 / rates[p]) < 4 * found.fitted.error
        assert found.fitted.error < 0.05 / rates[p]
        trapezoid = 0.5 * dt / np.tanh(0.5 * dt * rates[p]) - np.exp(-5) / rates[p]
        assert abs(found.integrated.value - trapezoid) < 4 * found.integrated.error
        assert found.integrated.error < 0.1 / rates[p]


def test_the_end_to_end_vector_of_a_rouse_chain_relaxes_by_its_odd_modes():
    n, dt = 8, 1.0
    x, rates = rouse_chain(n, 3000, 24, dt, seed=3)
    R = ob.end_to_end(fx.Chain.linear(n), x)
    found = ob.autocorrelation(R, interval=dt)
    p = np.arange(1, n, 2)
    weights = np.cos(np.pi * p / (2 * n)) ** 2 / rates[p]
    exact = (weights * np.exp(-np.outer(found.lag, rates[p]))).sum(1) / weights.sum()
    assert (np.abs(found.value - exact)[1:40] < 4 * found.error[1:40]).all()
    assert abs(found.fitted.value - 1 / rates[1]) < 4 * found.fitted.error + 0.03 / rates[1]


def test_displacements_of_a_rouse_chain_are_sums_over_modes():
    n, dt = 8, 0.5
    x, rates = rouse_chain(n, 1000, 32, dt, seed=4)
    chain = fx.Chain.linear(n)
    g1, g2, g3 = (
        ob.mean_square_displacement(chain, x, of=of, interval=dt, longest=100)
        for of in ("beads", "relative", "centre")
    )
    t = g1.lag
    inside = (6 * -np.expm1(-np.outer(t, rates[1:])) / rates[1:]).sum(1) / n
    for found, exact in ((g3, 6 * t / n), (g2, inside), (g1, inside + 6 * t / n)):
        assert (np.abs(found.value - exact)[1:] < 4 * found.error[1:]).all()


def test_errors_of_relaxation_times_are_as_frequent_as_they_say():
    r, z = 0.8, []
    for seed in range(60):
        noise = np.random.default_rng(seed).normal(size=(400, 20, 1))
        a = noise.copy()
        for t in range(1, 400):
            a[t] = r * a[t - 1] + np.sqrt(1 - r * r) * noise[t]
        found = ob.autocorrelation(a)
        trapezoid = 0.5 * (1 + r) / (1 - r)
        z.append(
            [
                (found.fitted.value + 1 / np.log(r)) / found.fitted.error,
                (found.integrated.value - trapezoid) / found.integrated.error,
            ]
        )
    assert (np.std(z, axis=0) < 1.4).all()
    assert (np.std(z, axis=0) > 0.7).all()
    assert (np.abs(np.mean(z, axis=0)) < 0.6).all()


# --- few beads, few frames ------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::fixman.ShortSeriesWarning")
@pytest.mark.parametrize("frames", [1, 2, 3, 100])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_nothing_is_nan(frames, n):
    chain = fx.Chain.linear(n)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for make, copies in itertools.product((np.zeros, np.ones), ((), (1,), (20,))):
            x = make((frames, *copies, n, 3))
            for of in ("beads", "relative", "centre"):
                found = ob.mean_square_displacement(chain, x, of=of)
                assert not found.value.any()
                assert not np.isnan(found.error).any()
            for series in (
                ob.end_to_end(chain, x),
                ob.rouse_modes(chain, x)[..., 0, :],
                x[..., 0, :],
            ):
                found = ob.autocorrelation(series)
                flat = [*found.value, *found.error, *found.integrated, *found.fitted]
                assert not np.isnan(flat).any()
            assert not ob.mean_square_internal_distances(chain, x).any()
            if x.shape[0] > 1 or copies == (20,):
                density = ob.radial_density(chain, x, 3)
                assert not np.isnan(density.density).any()
    assert ob.mean_square_internal_distances(chain, np.zeros((0, n, 3))).shape == (0, n)


def test_a_series_that_decays_at_once_has_no_time_and_one_that_does_not_has_no_end():
    white = np.random.default_rng(1).normal(size=(1000, 20, 3))
    found = ob.autocorrelation(white)
    assert found.integrated.value == pytest.approx(0.5, abs=0.02)
    assert found.fitted.value < 0.5
    with pytest.warns(fx.ShortSeriesWarning):
        found = ob.autocorrelation(np.ones((100, 20, 3)))
    assert found.fitted == (np.inf, np.inf)
    assert found.value == pytest.approx(1.0)


def test_arguments_are_checked():
    chain, x = fx.Chain.linear(4), np.random.default_rng(1).normal(size=(9, 20, 4, 3))
    for wrong in (9, 100):
        with pytest.raises(ValueError, match="longest must be below 9, the number of frames"):
            ob.mean_square_displacement(chain, x, longest=wrong)
    with pytest.raises(ValueError, match="of must be 'beads'"):
        ob.mean_square_displacement(chain, x, of="g1")
    for none in ([], [4], "ends", slice(4, 9), 1.5, [[0, 1]]):
        with pytest.raises(ValueError, match="beads must be numbers below 4 or a slice"):
            ob.mean_square_displacement(chain, x, beads=none)
    with pytest.raises(ValueError, match=r"x must have shape \(frames, \.\.\., 4, 3\)"):
        ob.mean_square_displacement(chain, x[0, 0])
    with pytest.raises(ValueError, match=r"series must have shape \(frames, \.\.\., d\)"):
        ob.autocorrelation(np.arange(9.0))
    with pytest.raises(ValueError, match="interval must be positive"):
        ob.autocorrelation(x, interval=0.0)
    x[3, 1, 2] = np.nan
    with pytest.raises(ValueError, match="nan"):
        ob.mean_square_displacement(chain, x)


def test_runs_in_files_give_the_same(tmp_path):
    chain = fx.Chain.linear(4)
    x0 = fx.random_walks(chain, 20, rng=1)
    fx.simulate(chain, x0, fx.Langevin(0.02), 60, every=2, rng=1, out=tmp_path / "run")
    run = fx.load_run(tmp_path / "run")
    found = ob.mean_square_displacement(chain, run.x)
    assert np.array_equal(found.value, ob.mean_square_displacement(chain, np.array(run.x)).value)
