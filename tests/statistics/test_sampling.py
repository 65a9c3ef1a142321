"""Exact samples at a million chains: every distribution by Kolmogorov and Smirnov, and averages.

Fixed seeds.  There are 62 distributions, and a p-value below 6e-5 is beyond four sigma.
"""

import numpy as np
import pytest
from scipy import stats

import fixman as fx
from fixman import analytic

pytestmark = pytest.mark.thorough

CHAINS = 1_000_000
SMALLEST = 6e-5

CASES = [(3, "free", True), (3, "fixed", False), (2, "free", False), (2, "fixed", True)]


def uneven(n):
    """Masses over ratios to 100, neighbours among them."""
    masses = 10.0 ** (2.0 * np.random.default_rng(n).uniform(size=n))
    masses[:2] = 1.0, 100.0
    return masses


def turns(x, base):
    """Bends (chains, bends), in the plane with their signs."""
    if base == "fixed":
        x = np.concatenate([np.zeros_like(x[:, :1]), x], axis=1)
    u = np.diff(x, axis=1)
    a, b = u[:, :-1], u[:, 1:]
    c = np.einsum("rka,rka->rk", a, b)
    if x.shape[-1] == 2:
        return np.arctan2(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], c)
    return np.arccos(np.clip(c, -1.0, 1.0))


def p_value(theta, of, bonds, bend):
    """Of Kolmogorov and Smirnov; the exact function from a grid, to 1e-7."""
    low = -np.pi if of["dim"] == 2 else 0.0
    grid = np.linspace(low, np.pi, 4001)
    exact = analytic.bend_cumulative(grid, bonds, **of)[:, bend]
    values = np.interp(np.sort(theta), grid, exact)
    n = values.size
    distance = max((np.arange(1, n + 1) / n - values).max(), (values - np.arange(n) / n).max())
    return stats.kstwobign.sf(distance * np.sqrt(n))


@pytest.mark.parametrize("bonds", [2, 3, 9])
@pytest.mark.parametrize(("dim", "base", "even"), CASES)
def test_every_bend(bonds, dim, base, even):
    n = bonds + (base == "free")
    of = {"dim": dim, "base": base, "masses": 1.0 if even else uneven(n)}
    s = fx.sample(fx.Chain.linear(n, **of), CHAINS, rng=bonds, workers=2)
    theta = turns(s.x, base)
    for bend in range(bonds - 1):
        assert p_value(theta[:, bend], of, bonds, bend) > SMALLEST
    squares = np.cos(theta) ** 2
    exact = analytic.mean_square_cosines(bonds, **of)
    error = squares.std(axis=0) / np.sqrt(CHAINS)
    assert np.all(np.abs(squares.mean(axis=0) - exact) < 4.0 * error)


def test_a_stiff_chain_is_told_apart():
    x = fx.sample(fx.Chain.linear(4), CHAINS, ensemble="stiff", rng=1, workers=2).x
    assert p_value(turns(x, "free")[:, 1], {"dim": 3}, 3, 1) < 1e-12


def test_a_hundred_bonds():
    chain, bends = fx.Chain.linear(101), (0, 49)
    kept, means = [], []
    for part in range(10):
        c = np.cos(turns(fx.sample(chain, CHAINS // 50, rng=part, workers=2).x, "free"))
        kept.append(c[:, bends])
        means.append((c**2).mean(axis=1))
    theta, mean = np.arccos(np.concatenate(kept)), np.concatenate(means)
    for column, bend in enumerate(bends):
        assert p_value(theta[:, column], {"dim": 3}, 100, bend) > SMALLEST
    error = mean.std() / np.sqrt(mean.size)
    assert error < 9e-5  # stiff chains have 1/3, 170 σ away
    assert abs(mean.mean() - 0.317879007) < 4.0 * error


@pytest.mark.parametrize("masses", [1.0, uneven(101)], ids=["equal", "uneven"])
@pytest.mark.parametrize(("dim", "base"), [(3, "free"), (2, "free"), (3, "fixed")])
def test_fourth_moments(dim, base, masses):
    n = 100 + (base == "free")
    masses = np.broadcast_to(masses, 101)[:n]
    x = fx.sample(fx.Chain.linear(n, dim=dim, base=base, masses=masses), 100_000, rng=9).x
    end = x[:, -1] - (x[:, 0] if base == "free" else 0.0)
    fourth = np.sum(end**2, axis=-1) ** 2
    exact = analytic.mean_fourth_end_to_end(100, dim=dim, masses=masses, base=base)
    error = fourth.std() / np.sqrt(fourth.size)
    assert abs(fourth.mean() - exact) < 4.0 * error


def test_a_dendrimer_against_weights():
    parents = [-1, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9]
    masses = np.where(np.arange(22) % 3 == 1, 0.1, 1.0)
    chain = fx.Chain.branched(parents, masses=masses)
    s = fx.sample(chain, CHAINS // 20, rng=1, workers=2)
    assert s.method == "transfer operator"
    stiff = fx.sample(chain, CHAINS // 5, ensemble="stiff", rng=2, workers=2).x
    half = 0.5 * fx.logdet(chain, stiff, workers=2)
    weights = np.exp(half - half.max())
    weights /= weights.sum()

    def observed(x):
        u = np.stack([x[:, k] - x[:, parents[k]] for k in range(1, 22)], axis=1)
        pairs = np.triu_indices(21, 1)
        squares = np.einsum("rka,rla->rkl", u, u)[:, pairs[0], pairs[1]] ** 2
        return np.column_stack([squares, np.sum((x - x.mean(axis=1)[:, None]) ** 2, axis=(1, 2))])

    found, exact = observed(s.x), observed(stiff)
    mean = weights @ exact
    error2 = weights**2 @ (exact - mean) ** 2 + found.var(axis=0) / len(found)
    assert np.all(np.abs(found.mean(axis=0) - mean) < 4.2 * np.sqrt(error2))  # 211 averages
