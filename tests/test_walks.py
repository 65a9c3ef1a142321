"""Random walks have their hard values and the distribution that they say."""

from __future__ import annotations

import re

import numpy as np
import pytest

import fixman as fx
from fixman.sampling import random_walks as walks
from fixman.sampling.random_walks import random_walks

BOTH = ("length", "angle")


@pytest.mark.parametrize(
    "chain",
    [
        fx.Chain.linear(12),
        fx.Chain.linear(12, dim=2),
        fx.Chain.linear(8, base="fixed", hard=BOTH),
        fx.Chain.linear(8, dim=2, hard=BOTH),
        fx.Chain.linear(8, hard=("length", "angle", "torsion")),
        fx.Chain.linear(5, hard=()),
        fx.Chain.branched([-1, 0, 1, 1, 0, 4], hard=("length",)),
        fx.Chain.ring(3),
        fx.Chain.ring(24),
        fx.Chain.ring(7, dim=2),
        fx.Chain.ring(12, base="fixed"),
        fx.Chain.ring(10, hard=BOTH),
        fx.Chain.from_bonds(7, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (2, 5), (5, 6)]),
    ],
    ids=repr,
)
def test_hard_values_are_reached(chain):
    x = random_walks(chain, 5, lengths=1.5, angles=1.1, torsions=2.0, rng=3)
    assert x.shape == (5, chain.n, chain.dim)
    wanted = {"length": 1.5, "angle": 1.1, "torsion": 2.0}
    targets = [wanted[chain.coordinates[row].kind] for row in chain.hard]
    assert np.allclose(chain.hard_values(x), targets, rtol=0, atol=1e-9)
    assert not np.array_equal(x[0], x[1])
    assert np.array_equal(x, random_walks(chain, 5, lengths=1.5, angles=1.1, torsions=2.0, rng=3))


def test_values_may_differ_from_row_to_row():
    chain = fx.Chain.linear(4, hard=BOTH)
    lengths = [1.0, 2.0, 3.0]
    x = random_walks(chain, 2, lengths=lengths, rng=1)
    assert np.allclose(np.linalg.norm(np.diff(x, axis=1), axis=-1), lengths)
    with pytest.raises(ValueError, match=r"lengths must be one number or have shape \(3,\)"):
        random_walks(chain, lengths=[1.0, 2.0])


@pytest.mark.parametrize("dim", [2, 3])
def test_open_walks_are_those_of_the_stiff_ensemble(dim):
    """⟨R²⟩ = N_b, isotropic, and cosines of bends uniform in space, arcsine in the plane."""
    x = random_walks(fx.Chain.linear(10, dim=dim), 40_000, rng=4)
    u = np.diff(x, axis=1)
    r = x[:, -1] - x[:, 0]
    n = len(x)
    squares = (r**2).sum(axis=1)
    assert abs(squares.mean() - 9.0) < 4.0 * squares.std() / n**0.5
    assert np.all(np.abs((r**2).mean(axis=0) - 9.0 / dim) < 4.0 * (r**2).std(axis=0) / n**0.5)
    c = (u[:, 1:] * u[:, :-1]).sum(axis=-1).ravel()
    assert abs((c**2).mean() - 1.0 / dim) < 4.0 * (c**2).std() / c.size**0.5


def test_degrees_are_refused():
    for kinds, given in ((BOTH, {"angles": 70.53}), ((*BOTH, "torsion"), {"torsions": 180})):
        with pytest.raises(ValueError, match=r"in radians, up to .*np\.radians"):
            random_walks(fx.Chain.linear(5, hard=kinds), **given)


def test_rings_that_cannot_close(monkeypatch):
    monkeypatch.setattr(walks, "TRIES", 3)
    with pytest.raises(fx.ConstraintSolveError, match="none of 3 random walks"):
        random_walks(fx.Chain.ring(8, hard=BOTH), angles=0.1, rng=1)


@pytest.mark.parametrize("size", [10**12, 10**18])
def test_more_walks_than_this_machine_can_hold(size):
    gigabytes = f"{size * 16 * 9 / 1e9:.3g}"
    with pytest.raises(
        MemoryError, match=rf"^{size} walks of 3 beads would take about {re.escape(gigabytes)} GB"
    ):
        random_walks(fx.Chain.linear(3), size)


def test_tetrahedral_by_default():
    chain = fx.Chain.linear(5, hard=BOTH)
    q = chain.internal(random_walks(chain, rng=1))[0]
    angles = [q[row] for row in chain.hard if chain.coordinates[row].kind == "angle"]
    assert np.cos(angles) == pytest.approx([1 / 3] * 3)


def test_torsions_turn_the_short_way(monkeypatch):
    chain = fx.Chain.branched([-1, 0, 1, 2], extra=[("torsion", (0, 1, 2, 3))])
    q = chain.internal(random_walks(chain, rng=1)[0])
    q[-1] = -3.0
    x = chain.cartesian(q)
    goal = chain.values(x)
    goal[-1] = 3.0
    steps = []

    def project(chain, x, targets):
        steps.append(targets[-1])
        return fx.project(chain, x, targets)

    monkeypatch.setattr(walks, "project", project)
    assert chain.values(walks.bring(chain, x, goal))[-1] == pytest.approx(3.0)
    assert np.ptp([-3.0, *steps]) == pytest.approx(2 * np.pi - 6.0)
