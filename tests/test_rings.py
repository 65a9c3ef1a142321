"""What "torsional" holds in rings: what makes bonds rigid bodies, however beads are numbered."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

import fixman as fx
from ring_systems import Molecule, motions, neighbours, placed, rows_of, system

KINDS = ("single", "fused", "bridged", "spiro", "macrocycle", "several")


def chain_of(molecule, x, fixed=False, **more):
    """Chain of a molecule, in the plane with all its lengths and angles."""
    n, dim = x.shape
    words = {"hard": ("length", "angle")}
    if dim == 3:
        words = {"hard": "torsional", "rotatable": molecule.turning, "straight": molecule.straight}
    arguments = {"base": "fixed" if fixed else "free", "drop_redundant": x} | words | more
    return fx.Chain.from_bonds(n, molecule.bonds, dim=dim, **arguments)


def unit_rows(chain, x):
    """Hard rows (rows, n·dim) of norm 1, by differences of the values."""
    step, flat = 1e-6, np.eye(x.size).reshape(x.size, *x.shape)
    ahead, behind = (chain.hard_values(x + sign * step * flat) for sign in (1.0, -1.0))
    change = ahead - behind
    turns = np.array([chain.coordinates[k].kind == "torsion" for k in chain.hard], dtype=bool)
    change[:, turns] = np.angle(np.exp(1j * change[:, turns]))
    return (change / np.linalg.norm(change, axis=0)).T


def hold(seed, numberings, dim=3, fixed=False, straight=False):
    """Assert that hard rows hold what they should, and no more; say how well at the worst.

    That is the condition of these rows, of norm 1, over that of the distances of all rigid pairs.
    """
    rng = np.random.default_rng(seed)
    molecule = system(rng, KINDS[seed % len(KINDS)], straight)
    x, worst = placed(molecule, rng, dim), 0.0
    for k in range(numberings):
        order = rng.permutation(molecule.n) if k else np.arange(molecule.n)
        here, y = molecule.renumbered(order), np.empty_like(x)
        y[order] = x
        if fixed:
            y += 1.0 - y[0]
        if fixed or not k:
            soft, gap = motions(rows_of(here, y, fixed))
            assert gap > 1e-6  # or the rank is in doubt
        chain = chain_of(here, y, fixed)
        assert dim * chain.n - chain.hard.size == soft.shape[1]
        assert np.isfinite(fx.logdet(chain, y))
        if k > 2:
            continue
        rows = unit_rows(chain, y).reshape(-1, chain.n, dim)
        back = rows if fixed else rows[:, order]
        assert np.abs(back.reshape(len(rows), -1) @ soft).max(initial=0.0) < 1e-6
        rows = rows.reshape(len(rows), -1)
        sizes = np.linalg.eigvalsh(rows @ rows.T)  # of H^bb, its rows of norm 1
        assert sizes[0] > 0
        worst = max(worst, gap * np.sqrt(sizes[-1] / sizes[0]))
    return worst


@pytest.mark.parametrize("seed", range(12))
def test_as_many_rows_are_hard_as_bodies_of_bonds_are_rigid(seed):
    assert hold(seed, 3) < 10


@pytest.mark.parametrize("seed", range(6))
def test_rings_in_the_plane(seed):
    assert hold(seed, 3, dim=2) < 10


@pytest.mark.parametrize("seed", range(6))
def test_rings_on_a_base(seed):
    assert hold(seed, 2, fixed=True, straight=seed > 2) < 10


@pytest.mark.parametrize("seed", range(18))
def test_straight_groups_in_and_on_rings(seed):
    assert hold(seed, 3, straight=True) < 10


@pytest.mark.thorough
@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize(("dim", "fixed"), [(3, False), (2, False), (3, True)])
def test_more_ring_systems_in_four_numberings(dim, fixed, straight):
    if dim == 2 and straight:
        pytest.skip("a straight angle is like any other in the plane")
    assert max(hold(seed, 4, dim, fixed, straight) for seed in range(1000, 1024)) < 20


# --- single ones --------------------------------------------------------------------------------

RING = [(k, (k + 1) % 12) for k in range(12)]
HYDROGENS = [(k, 12 + 2 * k + s) for k in range(12) for s in (0, 1)]
MASSES = [12.011] * 12 + [1.008] * 24


def cyclododecane(rotatable):
    return fx.Chain.from_bonds(
        36, [*RING, *HYDROGENS], masses=MASSES, hard="torsional", rotatable=rotatable
    )


def test_a_ring_of_twelve_has_six_torsions_left_wherever_it_is_cut():
    tree = [(k, k + 1) for k in range(6)] + [(0, 11), (11, 10), (10, 9), (9, 8), (8, 7)]
    chain = cyclododecane(tree)
    assert 3 * 36 - chain.hard.size == 6 + 6
    assert cyclododecane(RING) == chain  # with the bond that closes it
    for k in range(12):  # and all but any one bond
        assert cyclododecane(RING[:k] + RING[k + 1 :]) == chain
    held = cyclododecane(RING[:-2])  # two are not named: both are held
    assert 3 * 36 - held.hard.size == 6 + 4
    extra = fx.Chain.from_bonds(
        36, [*RING, *HYDROGENS], masses=MASSES, hard="torsional", rotatable=RING,
        extra=[("torsion", (4, 5, 6, 7))],
    )  # fmt: skip
    assert 3 * 36 - extra.hard.size == 6 + 5


def test_no_angle_of_a_ring_moves_in_a_run():
    chain = cyclododecane(RING)
    molecule = Molecule(36, [*RING, *HYDROGENS], [], RING)
    x = placed(molecule, np.random.default_rng(3))
    run = fx.simulate(chain, x, fx.Newton(0.02, kT=1.0), 500, rng=1, every=10)
    near = neighbours(36, molecule.bonds)
    a, b = np.array([pair for ends in near for pair in combinations(ends, 2)]).T
    far = np.linalg.norm(run.x[:, 0, a] - run.x[:, 0, b], axis=-1)
    assert np.ptp(far, axis=0).max() < 1e-10
    assert np.ptp(run.x[:, 0, 0] @ np.ones(3)) > 0.1  # and all of it moves


def test_what_does_not_turn_in_a_large_ring_is_held_wherever_it_is_cut():
    """A cyclic peptide of eight glycines without hydrogens, ω held: 16 torsions less six."""
    n, rng = 24, np.random.default_rng(0)
    bonds = [(k, (k + 1) % n) for k in range(n)]
    turning = [bond for bond in bonds if bond[0] % 3 != 2]
    molecule = Molecule(n, bonds, [], turning)
    x = placed(molecule, rng)
    for shift in range(n):
        order = (np.arange(n) + shift) % n
        y = np.empty_like(x)
        y[order] = x
        assert 3 * n - chain_of(molecule.renumbered(order), y).hard.size == 6 + 16 - 6


def test_a_bond_that_there_is_not_cannot_turn():
    for pair in ((0, 2), (0, 12), (-1, 0), (0, -1), (2**40, 1)):
        with pytest.raises(ValueError, match="no bond of this chain"):
            fx.Chain.from_bonds(12, RING, hard="torsional", rotatable=[pair])


def test_a_line_of_beads_without_bonds_between_them_does_not_carry_torsions():
    bonds = [(k, k + 1) for k in range(6)]
    x = np.array([[0, 0, 0], [1, 1, 0], [2, 1, 1], [3, 0, 0], [4, -1, 0], [5, 0, 1], [6.5, 0, 0]])
    chain = fx.Chain.from_bonds(7, bonds, hard="torsional", straight=[(0, 3, 6)], drop_redundant=x)
    assert [row.kind for row in chain.extra] == ["straight_y", "straight_z"]
    assert 3 * 7 - chain.hard.size == 6 + 4 - 2


def test_of_siblings_beside_a_line_each_is_held_once():
    """A propyne's methyl beside its line, turning against nothing: no row depends on another."""
    bonds = [(0, 1), (1, 2), (2, 3), (0, 4), (0, 5), (3, 6), (3, 7)]
    for root in range(8):
        order = np.roll(np.arange(8), root)
        named = [tuple(order[k] for k in pair) for pair in bonds]
        bends = [tuple(int(order[k]) for k in bend) for bend in [(0, 1, 2), (1, 2, 3)]]
        chain = fx.Chain.from_bonds(8, named, hard="torsional", rotatable=named, straight=bends)
        assert chain.redundant == ()
        assert 3 * 8 - chain.hard.size == 6 + 1
