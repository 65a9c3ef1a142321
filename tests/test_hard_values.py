"""Hard coordinates set to other values: rings by themselves, the rest carried along."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.linalg import null_space

import fixman as fx
from fixman.analysis.audit import audit
from fixman.analysis.groups import ChainGroup
from fixman.analysis.samples import Meter
from fixman.chains import hard_sets
from fixman.chains.chain import Chain


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def ring(n, first=0):
    return [(first + k, first + (k + 1) % n) for k in range(n)]


def chain(*beads):
    return list(itertools.pairwise(beads))


def with_ends(bonds, n):
    """One more bead on each of the first n."""
    most = 1 + max(map(max, bonds))
    return bonds + [(k, most + k) for k in range(n)]


NORBORNANE = ring(6) + chain(0, 6, 3)
ADAMANTANE = ring(6) + chain(0, 6, 9) + chain(2, 7, 9) + chain(4, 8, 9)
CUBANE = ring(4) + ring(4, 4) + [(k, k + 4) for k in range(4)]
NAPHTHALENE = [*ring(10), (0, 5)]
PYRENE = ring(14) + chain(0, 14, 7) + chain(3, 14) + chain(10, 14)
MOLECULES = {
    **{f"ring of {n}": with_ends(ring(n), n // 2) for n in (3, 4, 5, 6, 7, 9, 12)},
    "lasso": ring(5) + chain(2, 5, 6, 7),
    "macrocycle of 20": with_ends(ring(20), 20),
    "macrocycle of 40": with_ends(ring(40), 13),
    "fused": with_ends(NAPHTHALENE, 4),
    "four fused in a line": [*ring(18), (0, 9), (2, 7), (11, 16)],
    "four fused about one": PYRENE,
    "bridged": with_ends(NORBORNANE, 3),
    "bridged thrice": ADAMANTANE,
    "cube": CUBANE,
    "joined at one bead": ring(5) + chain(0, 5, 6, 7, 8, 0),
    "two on a bond": ring(6) + ring(5, 6) + [(0, 6)],
    "three on a chain": ring(6) + chain(0, 6, 7) + ring(4, 7) + chain(9, 11, 12) + ring(3, 12),
    "a ring in a macrocycle": ring(15) + chain(0, 15, 16, 4) + chain(10, 17, 18),
}


def grouped(bonds, x, masses):
    n = x.shape[-2]
    atoms = np.arange(x.shape[1] * n).reshape(-1, n)
    return ChainGroup(masses, atoms, x, bonds=np.array(bonds))


def conformations(rng, n, bonds, count):
    """Make some that have the same lengths of bonds, of about 1.5."""
    free = Chain.from_bonds(n, bonds, drop_redundant=True)
    x = rng.normal(size=(n, 3))
    x = fx.project(free, x * 3.0 / np.ptp(x), 1.5)
    goal = free.hard_values(x) * rng.uniform(0.97, 1.03, free.hard.size)
    first = fx.project(free, x, goal)
    return fx.project(free, first + 0.15 * rng.normal(size=(count, n, 3)), goal)


def with_other_lengths(rng, bonds, x, size=0.04):
    """Positions whose bonds point where those of x do, and have other lengths where rings allow."""
    n = len(x)
    i, j = np.array(bonds).T
    u = (x[j] - x[i]) / np.linalg.norm(x[j] - x[i], axis=1)[:, None]
    incidence = np.zeros((len(bonds), n))
    incidence[np.arange(len(bonds)), j], incidence[np.arange(len(bonds)), i] = 1.0, -1.0
    cycles = null_space(incidence.T).T  # every closed walk: bonds, with signs
    closure = np.einsum("rb,bd->rdb", cycles, u).reshape(-1, len(bonds))
    ways = null_space(closure, rcond=1e-9)
    change = ways @ rng.normal(size=ways.shape[1])
    steps = (change * size / np.abs(change).max())[:, None] * u
    moved, *_ = np.linalg.lstsq(incidence, steps, rcond=None)
    return x + moved, x - moved


@pytest.mark.parametrize("name", MOLECULES)
def test_lengths_that_vary_alone_change_no_determinant(rng, name):
    """Pairs of frames have the lengths that all conformations share as their mean."""
    bonds = MOLECULES[name]
    n = 1 + max(map(max, bonds))
    shapes = conformations(rng, n, bonds, 12)
    x = np.concatenate([with_other_lengths(rng, bonds, shape) for shape in shapes])
    atoms = np.arange(n)[None]
    group = ChainGroup(
        rng.uniform(1.0, 16.0, n), atoms, x.reshape(-1, 1, n, 3), bonds=np.array(bonds)
    )
    (means,), (read,) = (audit([group], as_is=as_is).groups for as_is in (False, True))
    if name != "ring of 3":
        assert read.spread > 1e-3
    assert float(means.scatter.loosest.split()[-2]) > 0.3  # per cent
    np.testing.assert_allclose(means.half_logdet, read.half_logdet, rtol=0, atol=1e-7)


# Chains of heavy beads and hydrogens, and rings with either.
HYDROGENS = {
    "ethanol": chain(0, 1, 2) + [(0, k) for k in (3, 4, 5)] + [(1, 6), (1, 7), (2, 8)],
    "water, a ring": ring(3),
    "toluene": ring(6)
    + chain(0, 6)
    + [(6, k) for k in (7, 8, 9)]
    + [(k, 9 + k) for k in (1, 2, 3)],
}


@pytest.mark.parametrize("hard", ["length", "angle", "length,angle", "torsional", "h-angles"])
@pytest.mark.parametrize("name", [*MOLECULES, *HYDROGENS])
def test_hard_values_are_met_and_what_is_outside_of_pieces_stays(rng, name, hard):
    """The values are those of one conformation, so that there is an answer, for one near it."""
    bonds = (MOLECULES | HYDROGENS)[name]
    n = 1 + max(map(max, bonds))
    degree = np.bincount(np.ravel(bonds), minlength=n)
    masses = np.where(degree > 1, 12.0, 1.0)
    masses[2 if name == "ethanol" else 0] = 15.999
    goal = conformations(rng, n, bonds, 1)[0]
    x = goal + 0.02 * rng.normal(size=(3, 2, n, 3))
    meter = Meter(grouped(bonds, x, masses), hard_sets.named(hard))
    held, rows = meter.chain, meter.chain.coordinates
    values = held.hard_values(goal)
    y = meter.hard.set(x, values)
    off = held.layout.values(held.layout.rows, y) - held.layout.values(held.layout.rows, x)
    missed = held.hard_values(y) - values
    torsions = np.array([row.kind == "torsion" for row in rows])
    for change, turns in ((off, torsions), (missed, torsions[held.hard])):
        change[..., turns] -= 2.0 * np.pi * np.rint(change[..., turns] / (2.0 * np.pi))
    np.testing.assert_allclose(missed, 0.0, atol=1e-8)
    inside = [int(k) for piece in meter.hard.pieces for k in piece.places.ravel()]
    if not meter.hard.only_lengths:
        soft = ~held.hard_mask & ~held.layout.rows.external
        outside = np.setdiff1d(np.flatnonzero(soft[: 3 * n]), inside)
        np.testing.assert_allclose(off[..., outside], 0.0, atol=1e-8)
        for piece in meter.hard.pieces:
            assert piece.places.shape[1] == max(3 * piece.beads.shape[1] - 6, 0)
    assert bool(held.extra) == bool(meter.hard.pieces)


@pytest.mark.parametrize("name", ["fused", "three on a chain", "bridged"])
def test_the_order_of_the_beads_does_not_matter(rng, name):
    bonds = np.array(MOLECULES[name])
    n = 1 + bonds.max()
    x = conformations(rng, n, bonds, 30)[:, None] + 0.02 * rng.normal(size=(30, 1, n, 3))
    masses = rng.uniform(1.0, 16.0, n)
    (one,) = audit([grouped(bonds, x, masses)]).groups
    order = rng.permutation(n)
    other = grouped(np.argsort(order)[bonds], x[:, :, order], masses[order])
    np.testing.assert_allclose(audit([other]).groups[0].half_logdet, one.half_logdet, atol=1e-9)


def test_lengths_that_do_not_fit_turn_bonds_as_little_as_can_be(rng):
    """By dense least squares; the lengths are then corrected in the metric of the masses."""
    bonds = np.array(NAPHTHALENE)
    n = 1 + bonds.max()
    x = conformations(rng, n, bonds, 1)[None]
    meter = Meter(grouped(bonds, x, np.ones(n)), ("length",))
    values = meter.chain.hard_values(x)[0, 0] * (
        1.0 + 0.02 * rng.normal(size=meter.chain.hard.size)
    )
    i, j = meter.hard.joined.T
    steps = x[0, 0, j] - x[0, 0, i]
    incidence = np.zeros((len(i), n))
    incidence[np.arange(len(i)), j], incidence[np.arange(len(i)), i] = 1.0, -1.0
    steps *= (values / np.linalg.norm(steps, axis=1))[:, None]
    near = np.linalg.lstsq(incidence, steps, rcond=None)[0]
    expected = fx.project(meter.chain, near, values)
    found = meter.hard.set(x, values)[0, 0]
    np.testing.assert_allclose(incidence @ found, incidence @ expected, atol=1e-9)


def test_the_beads_of_a_ring_that_cannot_be_closed_are_those_of_the_molecule(rng):
    bonds = chain(0, 1, 2) + ring(3, 2) + chain(4, 5, 6) + ring(3, 6)
    x = conformations(rng, 9, bonds, 4)[:, None]
    meter = Meter(grouped(bonds, x, np.ones(9)), ("length",))
    values = meter.chain.hard_values(x)[0, 0]
    rows = [meter.chain.coordinates[row] for row in meter.chain.hard]
    values[[row.beads == (7, 8) for row in rows]] = 9.0
    with pytest.raises(fx.ConstraintSolveError, match=r"cannot all be met in") as info:
        meter.hard.set(x, values)
    assert info.value.frame == (0, 0)
    assert set(info.value.beads) <= {6, 7, 8}
