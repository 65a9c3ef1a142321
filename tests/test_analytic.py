"""Closed forms against determinants, quadratures by brute force, sampling, published numbers."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, optimize

import fixman as fx
from fixman import analytic
from strategies import BASES, random_masses, seeds

REFERENCE = json.loads((Path(__file__).parent / "reference" / "numbers.json").read_text())
ENDS = {"free": 1, "fixed": 0}  # beads more than bonds


def planar(theta, dim, base):
    """Return positions of unit bonds with bends theta (..., bends), in the plane z = 0."""
    directions = 0.3 + np.concatenate(
        [np.zeros((*theta.shape[:-1], 1)), np.cumsum(theta, axis=-1)], axis=-1
    )
    x = np.zeros((*directions.shape, dim))
    x[..., 0], x[..., 1] = np.cos(directions), np.sin(directions)
    x = np.cumsum(x, axis=-2)
    return x if base == "fixed" else np.concatenate([np.zeros_like(x[..., :1, :]), x], axis=-2)


def reference(name, value):
    entry = REFERENCE[name]
    assert value == pytest.approx(entry["value"], abs=entry["tolerance"]), entry["source"]


# --- determinants ----------------------------------------------------------------------------


@given(seeds, st.integers(0, 12), st.sampled_from([2, 3]), st.sampled_from(BASES))
def test_determinants_from_cosines(seed, bends, dim, base):
    rng = np.random.default_rng(seed)
    theta = rng.uniform(-np.pi, np.pi, (4, bends))
    theta *= rng.choice([1.0, 1e-3, 0.0], (4, 1))
    n = bends + 1 + ENDS[base]
    chain = fx.Chain.linear(n, dim=dim, base=base, masses=random_masses(rng, n))
    found = analytic.freely_jointed_logdet(np.cos(theta), masses=chain.masses, base=base)
    expected = fx.logdet(chain, planar(theta, dim, base))
    np.testing.assert_allclose(found, expected, atol=1e-12 * n)


@pytest.mark.parametrize("base", BASES)
def test_shapes_of_determinants(base):
    rng = np.random.default_rng(0)
    cosines = rng.uniform(-1, 1, (2, 3, 5))
    found = analytic.freely_jointed_logdet(cosines, base=base)
    assert found.shape == (2, 3)
    assert found[1, 2] == analytic.freely_jointed_logdet(cosines[1, 2], base=base)
    assert np.ndim(analytic.freely_jointed_logdet([0.5], base=base)) == 0
    assert analytic.freely_jointed_logdet(np.empty((0, 4)), base=base).shape == (0,)
    single = analytic.freely_jointed_logdet([], masses=2.0, base=base)
    assert float(single) == pytest.approx({"free": 0.0, "fixed": -np.log(2)}[base])


@given(st.floats(-0.99, 0.99), st.integers(1, 50), st.sampled_from(BASES))
def test_equal_bends(cosine, bonds, base):
    s = np.sqrt((1.0 - cosine) * (1.0 + cosine))
    expected = {
        "free": ((1 + s) ** (bonds + 1) - (1 - s) ** (bonds + 1)) / (2 * s),
        "fixed": ((1 + s) ** bonds + (1 - s) ** bonds) / 2,
    }
    found = analytic.freely_jointed_logdet(np.full(bonds - 1, cosine), base=base)
    assert found == pytest.approx(np.log(expected[base]), abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("bonds", [1, 2, 7, 10_000])
def test_straight_chains_and_right_angles(bonds):
    for cosine, base, expected in (
        (1.0, "free", np.log(bonds + 1)),
        (-1.0, "free", np.log(bonds + 1)),
        (0.0, "free", bonds * np.log(2)),
        (1.0, "fixed", 0.0),
        (0.0, "fixed", (bonds - 1) * np.log(2)),
    ):
        found = analytic.freely_jointed_logdet(np.full(bonds - 1, cosine), base=base)
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-12)


# --- trimers ---------------------------------------------------------------------------------

MASSES = {
    "free": [1.0, (0.3, 2.0, 7.0), (1.0, 1e-6, 2.0), (1e-5, 1e5, 1.0)],
    "fixed": [1.0, (2.0, 0.1)],
}
TRIMERS = [(dim, base, m) for dim in (2, 3) for base in BASES for m in MASSES[base]]


def low(dim):
    return -np.pi if dim == 2 else 0.0


@pytest.mark.parametrize(("dim", "base", "masses"), TRIMERS)
def test_the_density_of_a_trimer_is_the_root_of_the_determinant(dim, base, masses):
    options = {"dim": dim, "masses": masses, "base": base}
    theta = np.linspace(low(dim), np.pi, 38)[1:-1]
    chain = fx.Chain.linear(2 + ENDS[base], **options)
    root = np.exp(0.5 * fx.logdet(chain, planar(theta[:, None], dim, base)))
    ratio = analytic.trimer_density(theta, **options) / (root * np.abs(np.sin(theta)) ** (dim - 2))
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-9)
    stiff = analytic.trimer_density(theta, **options, ensemble="stiff")
    np.testing.assert_allclose(stiff, 1 / (2 * np.pi) if dim == 2 else np.sin(theta) / 2)


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
@pytest.mark.parametrize(("dim", "base", "masses"), TRIMERS)
def test_the_cumulative_of_a_trimer_is_its_integral(dim, base, masses, ensemble):
    options = {"dim": dim, "masses": masses, "base": base, "ensemble": ensemble}
    whole = analytic.trimer_cumulative([low(dim), 0.0, np.pi], **options)
    np.testing.assert_allclose(whole, [0, 0.5 if dim == 2 else 0, 1], atol=1e-15)
    edges = np.linspace(low(dim), np.pi, 12)
    inside = [
        integrate.quad(lambda t: float(analytic.trimer_density(t, **options)), a, b)[0]
        for a, b in pairwise(edges)
    ]
    found = np.diff(analytic.trimer_cumulative(edges, **options))
    np.testing.assert_allclose(found, inside, atol=1e-10)


def test_published_averages_of_trimers():
    def average(*arguments, **options):
        (value,) = analytic.mean_square_cosines(*arguments, **options)
        return value

    assert average(2) == pytest.approx(
        (2 * np.pi / 3 - np.sqrt(3) / 2) / (2 * np.pi / 3 + np.sqrt(3)), rel=1e-14
    )
    reference("trimer, 3-D, rigid <c^2>", average(2))
    reference("trimer, 2-D, rigid <c^2>", average(2, dim=2))
    light = average(2, masses=[1, 0.2, 1])
    reference("trimer, 3-D, rigid <c^2>, inverse masses 1, 5, 1", light)
    reference("two links, fixed base, 3-D, rigid <c^2>", average(2, base="fixed"))
    reference("two links, fixed base, 2-D, rigid <c^2>", average(2, base="fixed", dim=2))


@pytest.mark.parametrize(("dim", "base", "masses"), TRIMERS)
def test_averages_of_trimers_are_those_of_the_density(dim, base, masses):
    options = {"dim": dim, "masses": masses, "base": base}

    def square(t):
        return np.cos(t) ** 2 * float(analytic.trimer_density(t, **options))

    # A light bead in the middle leaves nearly a cusp at 0 and ±π.
    edges = [0, 1e-2, np.pi / 2, np.pi - 1e-2, np.pi]
    half = sum(integrate.quad(square, *pair, epsabs=1e-13)[0] for pair in pairwise(edges))
    expected = half * (2 if dim == 2 else 1)
    assert analytic.mean_square_cosines(2, **options) == pytest.approx(expected, abs=1e-9)


# --- freely jointed chains -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bonds", "dim", "mean"),
    [
        # 3-D: recorded from an independent implementation on the pivots themselves.
        (9, 3, 0.318318365),
        (100, 3, 0.317879007),
        (9, 2, 0.474713221),
        (100, 2, 0.473278881),
    ],
)
def test_recorded_means_over_the_chain(bonds, dim, mean):
    found = analytic.mean_square_cosines(bonds, dim=dim)
    assert found.shape == (bonds - 1,)
    assert found.mean() == pytest.approx(mean, abs=6e-10)
    np.testing.assert_allclose(found, found[::-1], rtol=1e-12)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("even", [True, False])
def test_averages_by_brute_force(dim, base, even):
    bends = 3
    n = bends + 1 + ENDS[base]
    masses = 1.0 if even else np.array([1.0, 5.0, 0.7, 2.0, 12.0])[:n]
    nodes, weights = np.polynomial.legendre.leggauss(40)
    theta = (nodes + 1) * np.pi / 4
    grid = np.stack(np.meshgrid(*[theta] * bends, indexing="ij"), axis=-1)
    measure = weights * np.sin(theta) ** (dim - 2)
    weight = measure[:, None, None] * measure[:, None] * measure
    chain = fx.Chain.linear(n, dim=dim, base=base, masses=masses)
    weight = weight * np.exp(0.5 * fx.logdet(chain, planar(grid, dim, base)))
    squares = np.cos(grid) ** 2
    expected = np.tensordot(weight, squares, 3) / weight.sum()
    found = analytic.mean_square_cosines(bends + 1, dim=dim, masses=masses, base=base)
    np.testing.assert_allclose(found, expected, rtol=1e-10)

    of = {"dim": dim, "masses": masses, "base": base}
    products = np.einsum("ijka,ijkb,ijk->ab", squares, squares, weight) / weight.sum()
    found = analytic.mean_square_products(bends + 1, **of)
    np.testing.assert_allclose(found, products, rtol=1e-10)
    # The density of the second bend, at the nodes, by integrating over the others.
    bins = weight.sum(axis=(0, 2)) / weight.sum()
    area = weights * np.pi / 4
    area *= 4 if dim == 2 else 2  # mirror images
    found = analytic.bend_density(theta, bends + 1, **of)
    assert found.shape == (40, bends)
    np.testing.assert_allclose(found[:, 1] * area, bins, rtol=1e-9)


@pytest.mark.parametrize(("dim", "base", "masses"), TRIMERS)
def test_bends_of_trimers_are_those_of_the_closed_form(dim, base, masses):
    of = {"dim": dim, "masses": masses, "base": base}
    theta = np.linspace(low(dim), np.pi, 21)
    if masses == (1.0, 1e-6, 2.0):  # nearly a cusp
        with pytest.raises(ValueError, match="too uneven"):
            analytic.bend_density(theta, 2, **of)
        return
    found = analytic.bend_density(theta, 2, **of)
    np.testing.assert_allclose(found[:, 0], analytic.trimer_density(theta, **of), atol=1e-10)
    found = analytic.bend_cumulative(theta, 2, **of)
    np.testing.assert_allclose(found[:, 0], analytic.trimer_cumulative(theta, **of), atol=1e-11)


@given(seeds, st.integers(2, 6), st.sampled_from([2, 3]), st.sampled_from(BASES))
def test_bends_are_distributed(seed, bonds, dim, base):
    rng = np.random.default_rng(seed)
    masses = random_masses(rng, bonds + ENDS[base])
    of = {"dim": dim, "masses": masses, "base": base}
    first = low(dim)
    half = (np.pi - first) / 2
    nodes, weights = np.polynomial.legendre.leggauss(200)
    theta = first + half * (nodes + 1)
    density = analytic.bend_density(theta, bonds, **of) * (half * weights)[:, None]
    np.testing.assert_allclose(density.sum(axis=0), 1.0, atol=1e-10)
    squares = np.cos(theta) ** 2 @ density
    np.testing.assert_allclose(squares, analytic.mean_square_cosines(bonds, **of), atol=1e-10)
    assert np.all(density > 0)
    ends = analytic.bend_cumulative([first, np.pi], bonds, **of)
    np.testing.assert_allclose(ends, [np.zeros(bonds - 1), np.ones(bonds - 1)], atol=1e-12)
    step = 1e-4
    inside = rng.uniform(first + step, np.pi - step)
    slope = np.diff(analytic.bend_cumulative([inside - step, inside + step], bonds, **of), axis=0)
    exact = analytic.bend_density(inside, bonds, **of)
    np.testing.assert_allclose(slope[0] / (2 * step), exact, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("dim", [2, 3])
def test_fourth_moments_of_three_bonds(dim, base):
    """Of R² = 3 + 2 (c₁ + c₂ + u₁·u₃), u₁·u₃ = c₁c₂ − s₁s₂ cos φ, over two bends and a torsion."""
    masses = np.array([0.2, 3.0, 1.0, 0.4])[: 3 + ENDS[base]]
    nodes, weights = np.polynomial.legendre.leggauss(48)
    theta = (nodes + 1) * np.pi / 2
    measure = weights * np.sin(theta) ** (dim - 2)
    turns = np.cos(np.arange(8) * np.pi / 4) if dim == 3 else np.array([1.0, -1.0])
    c = np.cos(theta)
    s = np.sin(theta)
    straight = 3 + 2 * (c[:, None] + c + c[:, None] * c)
    squares = straight[..., None] - 2 * (s[:, None] * s)[..., None] * turns
    pairs = np.stack(np.broadcast_arrays(c[:, None], c), axis=-1)
    logdet = analytic.freely_jointed_logdet(pairs, masses=masses, base=base)
    weight = measure[:, None] * measure * np.exp(0.5 * logdet)
    expected = np.sum(weight * (squares**2).mean(axis=-1)) / weight.sum()
    of = {"dim": dim, "masses": masses, "base": base}
    found = analytic.mean_fourth_end_to_end(3, length=2.0, **of)
    assert found == pytest.approx(16 * expected, rel=1e-9)
    second = np.sum(weight * squares.mean(axis=-1)) / weight.sum()
    assert second == pytest.approx(3.0, rel=1e-9)  # as in the stiff ensemble
    stiff = analytic.mean_fourth_end_to_end(3, ensemble="stiff", **of)
    even = measure[:, None] * measure
    expected = np.sum(even * (squares**2).mean(axis=-1)) / even.sum()
    assert stiff == pytest.approx(expected, rel=1e-9)
    assert abs(stiff - found / 16) > 0.01


def test_fourth_moments_of_long_chains():
    assert analytic.mean_fourth_end_to_end(1) == 1.0
    assert analytic.mean_fourth_end_to_end(100, ensemble="stiff") == pytest.approx(
        (5 * 100**2 - 2 * 100) / 3
    )
    # A Gaussian chain of shorter segments: (1 + 2/3) N² less something of order N.
    ratios = [analytic.mean_fourth_end_to_end(N) / N**2 for N in (200, 400, 800)]
    assert 5 / 3 - ratios[2] == pytest.approx((5 / 3 - ratios[1]) / 2, rel=1e-2)
    assert 5 / 3 - ratios[1] == pytest.approx((5 / 3 - ratios[0]) / 2, rel=1e-2)


@pytest.mark.parametrize(("dim", "base"), [(2, "free"), (3, "free"), (3, "fixed")])
def test_averages_by_sampling(dim, base):
    rng = np.random.default_rng(20 + dim)
    bonds, samples = 10, 100_000
    n = bonds + ENDS[base]
    chain = fx.Chain.linear(n, dim=dim, base=base, masses=random_masses(rng, n))
    u = rng.normal(size=(samples, bonds, dim))
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    x = np.cumsum(u, axis=1)
    if base == "free":
        x = np.concatenate([np.zeros((samples, 1, dim)), x], axis=1)
    weight = np.exp(0.5 * fx.logdet(chain, x))  # independent directions are stiff
    squares = np.sum(u[:, :-1] * u[:, 1:], axis=-1) ** 2
    expected = weight @ squares / weight.sum()
    error = np.sqrt(np.sum((weight[:, None] * (squares - expected)) ** 2, axis=0)) / weight.sum()
    found = analytic.mean_square_cosines(bonds, dim=dim, masses=chain.masses, base=base)
    assert np.all(np.abs(found - expected) < 4 * error)


@given(seeds, st.integers(2, 8), st.sampled_from([2, 3]))
def test_numbering_and_units_do_not_matter(seed, bonds, dim):
    rng = np.random.default_rng(seed)
    masses = random_masses(rng, bonds + 1)
    found = analytic.mean_square_cosines(bonds, dim=dim, masses=masses)
    back = analytic.mean_square_cosines(bonds, dim=dim, masses=1e30 * masses[::-1])
    np.testing.assert_allclose(found, back[::-1], rtol=1e-11)
    assert np.all((found > 0) & (found < 1 / dim))


def test_very_uneven_masses_are_exact_or_refused():
    masses = 10.0 ** (2 * np.array([0, 1, 2, 0, 1, 2, 0]))
    with pytest.raises(ValueError, match=r"too uneven.*between bead 2 and bead 3"):
        analytic.mean_square_cosines(6, dim=2, masses=masses)
    # A heavy middle bead leaves independent halves, which are trimers on a fixed base.
    heavy = analytic.mean_square_cosines(4, masses=[1, 1, 1e9, 1, 1])
    (half,) = analytic.mean_square_cosines(2, base="fixed")
    np.testing.assert_allclose(heavy, [half, 1 / 3, half], rtol=1e-8)


# --- four beads ------------------------------------------------------------------------------


def four_beads(phi, theta):
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    phi, theta = np.broadcast_arrays(phi, theta)
    q = np.zeros((*phi.shape, 12))
    for i, coordinate in enumerate(chain.coordinates):
        if coordinate.kind == "length":
            q[..., i] = 1.0
        elif min(coordinate.beads) < 0:
            q[..., i] = 0.8
        elif coordinate.kind == "angle":
            q[..., i] = theta
        elif coordinate.kind == "torsion":
            q[..., i] = phi
    return fx.logdet(chain, chain.cartesian(q))


@given(seeds)
def test_determinants_of_four_beads(seed):
    rng = np.random.default_rng(seed)
    phi = rng.uniform(-np.pi, np.pi, (5, 1))
    theta = np.pi - np.pi * rng.uniform(1e-2, 1 - 1e-2, 4)
    found = analytic.four_beads_logdet(phi, theta)
    assert found.shape == (5, 4)
    np.testing.assert_allclose(found, four_beads(phi, theta), atol=1e-10)


def test_four_beads_at_right_angles():
    phi = np.linspace(-np.pi, np.pi, 33)
    c = np.cos(np.pi - phi)
    expected = np.log(2 * (35 + 4 * c - 16 * c**2 + c**4))
    np.testing.assert_allclose(analytic.four_beads_logdet(phi), expected, rtol=1e-14)
    best = optimize.minimize_scalar(
        lambda phi: -float(analytic.four_beads_logdet(phi)),
        bounds=(1, 2.5),
        method="bounded",
        options={"xatol": 1e-9},
    )
    name = "four beads, bonds and right angles hard, "
    reference(name + "angle of the largest determinant in degrees", 180 - np.degrees(best.x))
    reference(name + "rigid <cos alpha>", -analytic.four_beads_mean_cosine())


@pytest.mark.parametrize("theta", [1e-4, 0.3, np.pi / 2, 1.911, 3.1])
def test_torsions_of_four_beads(theta):
    norm = integrate.quad(lambda p: float(analytic.four_beads_density(p, theta)), -np.pi, np.pi)[0]
    assert norm == pytest.approx(1, abs=1e-9)
    mean = integrate.quad(
        lambda p: np.cos(p) * float(analytic.four_beads_density(p, theta)), -np.pi, np.pi
    )[0]
    assert analytic.four_beads_mean_cosine(theta) == pytest.approx(mean, abs=1e-9)
    assert analytic.four_beads_density(1.0, theta, ensemble="stiff") == pytest.approx(0.5 / np.pi)


def test_shapes_of_four_beads():
    angles = np.full((2, 3), 1.2)
    assert analytic.four_beads_mean_cosine(angles).shape == (2, 3)
    assert analytic.four_beads_density(0.3, angles).shape == (2, 3)
    assert analytic.four_beads_density(np.zeros(3), angles, ensemble="stiff").shape == (2, 3)


# --- sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bonds", [1, 2, 10, 1000])
def test_sizes_of_freely_jointed_chains(bonds):
    assert analytic.mean_square_end_to_end(bonds, length=2.0) == pytest.approx(4 * bonds)
    expected = 9 * bonds * (bonds + 2) / (6 * (bonds + 1))
    assert analytic.mean_square_gyration(bonds, length=3.0) == pytest.approx(expected)


@pytest.mark.parametrize("bonds", [1, 2, 3, 10, 300])
def test_sizes_of_freely_rotating_chains(bonds):
    N, c = bonds, np.array([-0.9, -0.2, 1 / 3, 0.8])
    end = N * ((1 + c) / (1 - c) - 2 * c * (1 - c**N) / (N * (1 - c) ** 2))
    np.testing.assert_allclose(analytic.mean_square_end_to_end(N, cosine=c), end, rtol=1e-11)
    # Flory, Statistical Mechanics of Chain Molecules (1969), chapter I.
    gyration = N * (
        (N + 2) * (1 + c) / (6 * (N + 1) * (1 - c))
        - c / ((N + 1) * (1 - c) ** 2)
        + 2 * c**2 / ((N + 1) ** 2 * (1 - c) ** 3)
        - 2 * c**3 * (1 - c**N) / (N * (N + 1) ** 2 * (1 - c) ** 4)
    )
    np.testing.assert_allclose(analytic.mean_square_gyration(N, cosine=c), gyration, rtol=1e-9)
    rod = N * (N + 2) / 12
    assert analytic.mean_square_end_to_end(N, cosine=1.0) == pytest.approx(N**2)
    assert analytic.mean_square_gyration(N, cosine=1.0) == pytest.approx(rod)
    assert analytic.mean_square_end_to_end(N, cosine=-1.0) == pytest.approx(N % 2)


def test_sizes_by_sampling():
    rng = np.random.default_rng(3)
    n, samples, theta = 12, 20_000, 1.1
    chain = fx.Chain.linear(n, hard=("length", "angle"))
    q = np.ones((samples, 3 * n))
    q[:, 1::3] = theta
    q[:, 2::3] = rng.uniform(-np.pi, np.pi, (samples, n))
    x = chain.cartesian(q)  # uniform torsions: the stiff ensemble
    end = np.sum((x[:, -1] - x[:, 0]) ** 2, axis=-1)
    gyration = np.mean(np.sum((x - x.mean(axis=1, keepdims=True)) ** 2, axis=-1), axis=-1)
    for samples_of, exact in (
        (end, analytic.mean_square_end_to_end(n - 1, cosine=np.cos(theta))),
        (gyration, analytic.mean_square_gyration(n - 1, cosine=np.cos(theta))),
    ):
        error = np.std(samples_of) / np.sqrt(samples)
        assert abs(np.mean(samples_of) - exact) < 4 * error


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: analytic.freely_jointed_logdet(0.5), ValueError, "bends"),
        (lambda: analytic.freely_jointed_logdet([0.5, 1.1]), ValueError, "cosines must lie.*1.1"),
        (lambda: analytic.freely_jointed_logdet([np.nan]), ValueError, "nan"),
        (lambda: analytic.freely_jointed_logdet([0.5], masses=[1, 1]), ValueError, "shape"),
        (lambda: analytic.freely_jointed_logdet([0.5], masses=[1, -1, 1]), ValueError, "bead 1"),
        (lambda: analytic.freely_jointed_logdet([0.5], base="held"), ValueError, "base"),
        (lambda: analytic.freely_jointed_logdet(["a"]), TypeError, "real numbers"),
        (lambda: analytic.trimer_density(-0.1), ValueError, "theta must lie between 0"),
        (lambda: analytic.trimer_density(4.0, dim=2), ValueError, "theta must lie"),
        (lambda: analytic.trimer_density(np.inf), ValueError, "inf"),
        (lambda: analytic.trimer_density(1.0, dim=4), ValueError, "dim"),
        (lambda: analytic.trimer_density(1.0, ensemble="Rigid"), ValueError, "ensemble"),
        (lambda: analytic.trimer_cumulative(1.0, masses=[1, 2]), ValueError, "shape"),
        (lambda: analytic.mean_square_cosines(1), ValueError, "no bend"),
        (lambda: analytic.mean_square_cosines(3, masses=np.zeros(4)), ValueError, "bead 0"),
        (lambda: analytic.mean_square_cosines(3, dim="3"), ValueError, "dim"),
        (lambda: analytic.bend_density(-0.1, 3), ValueError, "theta must lie between 0"),
        (lambda: analytic.bend_cumulative(180.0, 3), ValueError, "theta must lie between 0"),
        (lambda: analytic.bend_density(0.1, 1), ValueError, "no bend"),
        (lambda: analytic.mean_square_products(1), ValueError, "no bend"),
        (lambda: analytic.mean_fourth_end_to_end(0), ValueError, "bonds"),
        (lambda: analytic.mean_fourth_end_to_end(3, length=-1), ValueError, "length"),
        (lambda: analytic.mean_fourth_end_to_end(3, ensemble="Stiff"), ValueError, "ensemble"),
        (lambda: analytic.four_beads_logdet(np.nan), ValueError, "torsion is nan"),
        (lambda: analytic.four_beads_logdet(0.0, [1.0, np.nan]), ValueError, "nan cannot be held"),
        (lambda: analytic.four_beads_logdet([0, 1], [1, 1, 1]), ValueError, "broadcast"),
        (lambda: analytic.four_beads_density(0.0, ensemble="soft"), ValueError, "ensemble"),
        (lambda: analytic.four_beads_mean_cosine(np.pi), fx.SingularConstraintError, "held"),
        (lambda: analytic.four_beads_density(0.0, 0.0), fx.SingularConstraintError, "held"),
        (lambda: analytic.mean_square_end_to_end(0), ValueError, "bonds"),
        (lambda: analytic.mean_square_end_to_end(3, cosine=2), ValueError, "cosine"),
        (lambda: analytic.mean_square_gyration(3, length=0.0), ValueError, "length"),
        (lambda: analytic.mean_square_gyration(3, length=[1, 2]), TypeError, "length"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_rounded_cosines_are_welcome():
    found = analytic.freely_jointed_logdet([1 + 4e-16, -1 - 4e-16])
    assert found == pytest.approx(np.log(4))
