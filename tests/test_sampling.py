"""Samples have the ensemble that they say: against quadrature, weights, and one another."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy import stats

import fixman as fx
from fixman import analytic
from fixman.sampling import samples as sampling
from fixman.sampling import transfer

BOTH = ("length", "angle")
TREES = {
    "star": [-1, 0, 0, 0],
    "arms": [-1, 0, 1, 0, 3, 0],
    "comb": [-1, 0, 0, 2, 2, 4, 4],
    "dendrimer": [-1, 0, 0, 0, 1, 1, 2, 2, 3, 3],
}


def bonds_of(x, base="free"):
    if base == "fixed":
        x = np.concatenate([np.zeros_like(x[:, :1]), x], axis=1)
    u = np.diff(x, axis=1)
    return u / np.linalg.norm(u, axis=-1, keepdims=True)


def cosines(x, base="free"):
    u = bonds_of(x, base)
    return np.clip(np.sum(u[:, 1:] * u[:, :-1], axis=-1), -1.0, 1.0)


def signed(x, base="free"):
    """Bends as the functions of `analytic` want them: with a sign in the plane."""
    c = np.arccos(cosines(x, base))
    if x.shape[-1] == 3:
        return c
    u = bonds_of(x, base)
    turn = u[:, :-1, 0] * u[:, 1:, 1] - u[:, :-1, 1] * u[:, 1:, 0]
    return np.copysign(c, turn)


def uneven(n):
    return 10.0 ** (2.0 * np.random.default_rng(7).uniform(size=n))


@pytest.mark.parametrize("base", ["free", "fixed"])
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("even", [True, False])
def test_bends_have_their_distributions(dim, base, even):
    bonds = 4
    n = bonds + (base == "free")
    masses = 1.0 if even else uneven(n)
    chain = fx.Chain.linear(n, dim=dim, base=base, masses=masses)
    s = fx.sample(chain, 40_000, rng=1)
    assert s.method == "transfer operator"
    assert s.x.shape == (40_000, n, dim)
    theta = signed(s.x, base)
    of = {"dim": dim, "base": base, "masses": masses}
    for k in range(bonds - 1):
        cumulative = lambda t, k=k: analytic.bend_cumulative(t, bonds, **of)[..., k]  # noqa: E731
        assert stats.kstest(theta[:, k], cumulative).pvalue > 1e-4
    squares = np.cos(theta) ** 2
    products = squares[:, 0] * squares[:, 2]
    exact = analytic.mean_square_products(bonds, **of)[0, 2]
    assert abs(products.mean() - exact) < 4.0 * products.std() / math.sqrt(products.size)


def test_signs_torsions_and_directions_are_uniform():
    u = bonds_of(fx.sample(fx.Chain.linear(4), 40_000, rng=2).x)
    for k in range(3):
        for axis in range(3):
            assert stats.kstest(u[:, k, axis], stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-4
    a, b = np.cross(u[:, 0], u[:, 1]), np.cross(u[:, 1], u[:, 2])
    phi = np.arctan2(np.sum(np.cross(a, b) * u[:, 1], axis=-1), np.sum(a * b, axis=-1))
    assert stats.kstest(phi, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-4


def test_probabilities_against_dense_quadrature():
    """Of the second bond of three: ∫ over the last bend of √det, from the pivot before."""
    w = 1.0 / np.array([1.0, 30.0, 2.0, 0.5])
    found = transfer.acceptances(
        w, np.array([1, 2, 3]), np.array([False, False, True]), transfer.grid_of(48, 3)
    )
    c, weights = np.polynomial.legendre.leggauss(200)

    def root(c1, c2):
        H = np.diag(w[:-1] + w[1:])
        H[0, 1] = H[1, 0] = -w[1] * c1
        H[1, 2] = H[2, 1] = -w[2] * c2
        return math.sqrt(np.linalg.det(H))

    tail = lambda c1: sum(v * root(c1, c2) for v, c2 in zip(weights, c, strict=True))  # noqa: E731
    f = found.which[1]
    series = found.series[found.offsets[f] : found.offsets[f + 1]]
    for c1 in (0.0, 0.3, 0.9, 1.0):
        d = w[1] + w[2] - w[1] ** 2 * c1**2 / (w[0] + w[1])
        value = np.polynomial.chebyshev.chebval(found.slope[f] * math.log(d / w[2]) - 1.0, series)
        assert value == pytest.approx(tail(c1) / tail(0.0), rel=1e-12)
    assert found.least[f] < value


@pytest.mark.parametrize("fixed", [False, True])
def test_three_arms_against_quadrature(fixed):
    """⟨c²⟩ between arms and ⟨det⟩, from three directions: two angles and an azimuth."""
    masses = np.array([0.3, 1.0, 4.0, 0.5])
    chain = fx.Chain.branched(
        [-1, 0, 0] if fixed else [-1, 0, 0, 0],
        base="fixed" if fixed else "free",
        masses=masses[: 3 if fixed else 4],
    )
    z, weights = np.polynomial.legendre.leggauss(40)
    phi = (np.arange(48) + 0.5) * np.pi / 48
    a, b, p = np.meshgrid(z, z, phi, indexing="ij")
    c = a * b + np.sqrt((1 - a**2) * (1 - b**2)) * np.cos(p)
    w = 1.0 / masses
    H = np.empty((*c.shape, 3, 3))
    for i, j, cosine in ((0, 1, a), (0, 2, b), (1, 2, c)):
        H[..., i, j] = H[..., j, i] = w[0] * cosine
    for i, end in enumerate((0.0, w[1], w[2]) if fixed else w[1:]):
        H[..., i, i] = w[0] + end
    det = np.linalg.det(H)
    measure = weights[:, None, None] * weights[:, None] * np.sqrt(np.maximum(det, 0.0))
    s = fx.sample(chain, 40_000, rng=3)
    assert s.method == "transfer operator"
    arms = s.x[:, 1:] - s.x[:, :1]
    if fixed:
        arms = np.concatenate([-s.x[:, :1], arms], axis=1)
    for i, j, cosine in ((0, 1, a), (0, 2, b), (1, 2, c)):
        exact = np.sum(measure * cosine**2) / measure.sum()
        squares = np.sum(arms[:, i] * arms[:, j], axis=-1) ** 2
        assert abs(squares.mean() - exact) < 4.0 * squares.std() / 200.0
        assert abs(squares.mean() - 1 / 3) > 4.0 * squares.std() / 200.0
    exact = np.sum(measure * np.log(det)) / measure.sum()
    found = fx.logdet(chain, s.x)
    assert abs(np.ptp([exact, found.mean()])) < 4.0 * found.std() / 200.0


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("name", TREES)
def test_trees_against_weights(name, dim):
    parents = TREES[name]
    chain = fx.Chain.branched(parents, dim=dim, masses=uneven(len(parents)) ** 0.5)
    s = fx.sample(chain, 20_000, rng=4)
    assert s.method == "transfer operator"
    stiff = fx.sample(chain, 60_000, ensemble="stiff", rng=5)
    half = 0.5 * fx.logdet(chain, stiff.x)
    weights = np.exp(half - half.max())
    weights /= weights.sum()

    def observed(x):
        u = np.stack([x[:, k] - x[:, parents[k]] for k in range(1, chain.n)], axis=1)
        pairs = np.triu_indices(chain.n - 1, 1)
        squares = np.einsum("rka,rla->rkl", u, u)[:, *pairs] ** 2
        return np.column_stack([squares, fx.logdet(chain, x)])

    exact, found = observed(stiff.x), observed(s.x)
    mean = weights @ exact
    error2 = weights**2 @ (exact - mean) ** 2 + found.var(axis=0) / len(found)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4.0 * np.sqrt(error2))


@pytest.mark.parametrize("base", ["free", "fixed"])
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_trees_have_their_lengths_in_any_numbering(base, ensemble):
    bonds = [(3, 0), (3, 5), (5, 1), (5, 2), (2, 4), (3, 6)]
    chain = fx.Chain.from_bonds(7, bonds, base=base)
    lengths = np.linspace(0.5, 2.0, chain.hard.size)
    s = fx.sample(chain, 50, lengths=lengths, ensemble=ensemble, rng=1)
    assert np.allclose(chain.hard_values(s.x), lengths, rtol=0, atol=1e-13)
    if base == "free":
        assert np.all(s.x[:, 0] == 0.0)


def test_a_sample_prints_in_one_line():
    found = repr(fx.sample(fx.Chain.linear(5), 30, rng=1))
    expected = "<Sample: 30 chains of 5 beads, 3-D, transfer operator, worth 30 independent ones>"
    assert found == expected


def test_one_bead_and_one_bond():
    assert np.all(fx.sample(fx.Chain.linear(1), 3, rng=1).x == 0.0)
    x = fx.sample(fx.Chain.linear(1, base="fixed"), 20_000, lengths=2.0, rng=1).x[:, 0]
    assert np.allclose(np.linalg.norm(x, axis=1), 2.0)
    assert stats.kstest(x[:, 2], stats.uniform(-2.0, 4.0).cdf).pvalue > 1e-4


def test_what_ends_in_a_branch_point_knows_of_nothing_beyond():
    """There the probability is √d over its largest, from d = w to d = w + w_k."""
    parents = [-1, 0, 1, 2, 2, 4, 5, 5, 7, 7]
    chain = fx.Chain.branched(parents, masses=uneven(10))
    tables = sampling._tabulated(chain)
    w, smallest = tables.w, tables.acceptances.least[tables.acceptances.which]
    degree = np.bincount([*range(1, 10), *parents[1:]])
    hubs = [k for k, p in enumerate(tables.parents) if degree[tables.beads[p]] > 2]
    assert any(p != 9 for p in tables.parents[hubs])
    for k in hubs:
        p = tables.parents[k]
        assert smallest[k] == pytest.approx(math.sqrt(w[p] / (w[p] + w[k])), rel=1e-12)


# --- other hard sets -----------------------------------------------------------------------------


def test_hard_angles_are_weighed():
    chain = fx.Chain.linear(4, hard=BOTH)
    s = fx.sample(chain, 20_000, angles=np.pi / 2, rng=6)
    assert s.method == "reweighted"
    assert np.exp(s.log_weights).sum() == pytest.approx(1.0)
    assert s.effective_size == pytest.approx(1.0 / np.sum(np.exp(2.0 * s.log_weights)))
    assert 0.9 < s.effective_size / 20_000 < 0.999
    coordinates = [(c.kind, c.beads) for c in chain.coordinates]
    row = coordinates.index(("torsion", (0, 1, 2, 3)))
    c = np.cos(chain.internal(s.x)[:, row])
    mean = np.exp(s.log_weights) @ c
    error = math.sqrt(np.exp(2.0 * s.log_weights) @ (c - mean) ** 2)
    assert abs(mean - analytic.four_beads_mean_cosine()) < 4.0 * error
    assert abs(mean) > 4.0 * error


def test_stiff_chains_are_equal():
    stiff = fx.sample(fx.Chain.linear(5, hard=BOTH), 10, angles=0.5, ensemble="stiff", rng=1)
    assert stiff.method == "independent"
    assert np.allclose(stiff.log_weights, -math.log(10))
    assert stiff.effective_size == pytest.approx(10.0)
    assert np.allclose(cosines(stiff.x), math.cos(0.5))


def test_trees_that_would_cost_too_much_are_weighed(monkeypatch):
    monkeypatch.setattr(sampling, "COSTLIEST", 1)
    chain = fx.Chain.branched(TREES["dendrimer"])
    assert fx.sample(chain, 10, rng=1).method == "reweighted"
    assert fx.sample(fx.Chain.linear(10), 10, rng=1).method == "transfer operator"


# --- streams -------------------------------------------------------------------------------------


class Client:
    """Hands out what a scheduler would, through pickle, last task first."""

    def map(self, function, tasks, **options):
        assert options["pure"] is False
        assert options["retries"] > 0
        pairs = [pickle.dumps((function, task)) for task in tasks]
        return pairs[::-1]

    def gather(self, futures):
        results = []
        for future in futures:
            function, task = pickle.loads(future)
            results.append(function(task))
        return results[::-1]


@pytest.mark.parametrize(
    ("chain", "ensemble"),
    [
        (fx.Chain.linear(12), "rigid"),
        (fx.Chain.branched(TREES["comb"]), "rigid"),
        (fx.Chain.linear(12, hard=BOTH), "rigid"),
        (fx.Chain.linear(12), "stiff"),
    ],
)
def test_the_bits_do_not_depend_on_who_draws(chain, ensemble, monkeypatch):
    monkeypatch.setattr(sampling, "BLOCK", 16 * chain.n)
    one = fx.sample(chain, 100, ensemble=ensemble, rng=8)
    for others in ({"workers": 3}, {"client": Client()}):
        again = fx.sample(chain, 100, ensemble=ensemble, rng=8, **others)
        assert np.array_equal(one.x, again.x)
        assert np.array_equal(one.log_weights, again.log_weights)
    fewer = fx.sample(chain, 40, ensemble=ensemble, rng=8)
    assert np.array_equal(one.x[:32], fewer.x[:32])
    assert not np.array_equal(one.x[:16], one.x[16:32])
    rng = np.random.default_rng(8)
    assert np.array_equal(one.x, fx.sample(chain, 100, ensemble=ensemble, rng=rng).x)
    assert not np.array_equal(one.x, fx.sample(chain, 100, ensemble=ensemble, rng=rng).x)


def test_tables_are_made_once(monkeypatch):
    chain = fx.Chain.linear(30, masses=uneven(30))
    first = fx.sample(chain, 2, rng=1)
    monkeypatch.setattr(transfer, "acceptances", None)
    again = fx.sample(fx.Chain.linear(30, masses=uneven(30)), 2, rng=1)
    assert np.array_equal(first.x, again.x)
    assert len(sampling._tabulated(chain).acceptances.which) == 29


@pytest.mark.parametrize("masses", [np.ones(100_000), np.tile([1.0, 5.0], 50_000)])
def test_chains_that_repeat_themselves_need_few_tables(masses):
    n = masses.size
    found = transfer.acceptances(
        1.0 / masses,
        np.arange(1, n),
        np.append(np.zeros(n - 2, bool), True),
        transfer.grid_of(24, 3),
    )
    assert 10 < found.least.size < 60


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", [fx.Chain.ring(6), fx.Chain.ring(6, hard=BOTH)])
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_rings_are_refused(chain, ensemble):
    with pytest.raises(ValueError, match="soft lengths have no distribution"):
        fx.sample(fx.Chain.linear(4, hard=("angle",)), 10)
    for length in (0.0, -1.0):
        with pytest.raises(ValueError, match=f"lengths must be positive, got {length:g}"):
            fx.sample(fx.Chain.linear(4), 10, lengths=length)
    with pytest.raises(ValueError, match=r"^chains with closures.*HybridMonteCarlo"):
        fx.sample(chain, 2, ensemble=ensemble)


def test_advice_for_straight_bends_is_what_can_hold_them():
    with pytest.raises(ValueError, match=r"fixman\.HybridMonteCarlo samples them"):
        fx.sample(fx.Chain.linear(4, straight=[(0, 1, 2)]), 2)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"size": 0}, ValueError, "size must be at least 1"),
        ({"ensemble": "Rigid"}, ValueError, "ensemble must be 'rigid' or 'stiff', got 'Rigid'"),
        ({"angles": 70.5}, ValueError, r"in radians.*np\.radians"),
        ({"lengths": [1.0, 2.0]}, ValueError, r"shape \(3,\)"),
        ({"workers": 0}, ValueError, "workers must be at least 1"),
        ({"client": "localhost:8786"}, TypeError, "client must be a dask"),
        ({"rng": 0.5}, TypeError, "rng"),
        ({"size": 10**13}, MemoryError, "10000000000000 chains of 4 beads"),
    ],
)
def test_bad_input(given, error, message):
    with pytest.raises(error, match=message):
        fx.sample(fx.Chain.linear(4), **({"size": 1} | given))


def test_masses_that_are_too_uneven():
    trimer = fx.sample(fx.Chain.linear(3, masses=[1.0, 1e-6, 2.0]), 20_000, rng=1)
    cumulative = lambda t: analytic.trimer_cumulative(t, masses=[1.0, 1e-6, 2.0])  # noqa: E731
    assert stats.kstest(signed(trimer.x)[:, 0], cumulative).pvalue > 1e-4
    masses = 10.0 ** (2 * np.array([0, 1, 2, 0, 1, 2, 0]))
    with pytest.raises(ValueError, match=r"too uneven.*between bead 2 and bead 3"):
        fx.sample(fx.Chain.linear(7, dim=2, masses=masses), 1)
