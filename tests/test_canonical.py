"""Equal molecules are found whatever the order of their atoms, and different ones told apart."""

from __future__ import annotations

from itertools import combinations, pairwise, permutations

import numpy as np
import pytest

from fixman.analysis import canonical
from fixman.analysis.audit import AuditReport, audit
from fixman.analysis.groups import ChainGroup, Molecules, find_molecules
from fixman.io.openmm.constraints import ConnectedSets, Held

pytestmark = pytest.mark.filterwarnings("ignore:::MDAnalysis")


def ring(n, first=0):
    return [(first + k, first + (k + 1) % n) for k in range(n)]


DECALIN = [*ring(10), (0, 5)]  # two rings of six that share a bond
BICYCLOPENTYL = [*ring(5), *ring(5, 5), (0, 5)]
PRISM = [*ring(3), *ring(3, 3), (0, 3), (1, 4), (2, 5)]
UTILITIES = [(i, j) for i in range(3) for j in range(3, 6)]  # K₃₃
PETERSEN = [*ring(5), *((k, k + 5) for k in range(5)), (5, 7), (7, 9), (9, 6), (6, 8), (8, 5)]
COMB = [*pairwise(range(8)), *((k, k + 8) for k in range(8)), *((k + 8, k + 16) for k in range(8))]
DENDRIMER = [((k - 1) // 2, k) for k in range(1, 31)]
# Atoms of both pieces have the same colours, though no symmetry exchanges the pieces.
HUB = [(20, k) for k in (2, 3, 7, 8, 12, 13, 17, 18)]
MIXED = [*DECALIN, *((i + 10, j + 10) for i, j in BICYCLOPENTYL), *HUB]
STAR = [(0, k) for k in range(1, 6)]


def tree(rng, n):
    return [(int(rng.integers(0, k)), k) for k in range(1, n)]


def graph(rng, n):
    """Return a tree and a few more bonds."""
    more = {pair for pair in combinations(range(n), 2) if rng.random() < 3.0 / n**2}
    return sorted(more | set(tree(rng, n)))


def shuffled(rng, masses, bonds):
    """Return the same molecule, its atoms and bonds in another order."""
    place = rng.permutation(len(masses))
    bonds = rng.permutation(rng.permuted(place[np.array(bonds)], axis=1))
    return masses[np.argsort(place)], bonds


def pooled(molecules):
    """Kinds, and masses and bonds in canonical order, of molecules (masses, bonds)."""
    masses, bonds = (np.array(part) for part in zip(*molecules, strict=True))
    atoms = np.unique(-masses, return_inverse=True)[1].reshape(masses.shape)
    kinds, order = canonical.pool(atoms, bonds)
    rank = np.argsort(order, axis=1)
    forms = [
        (m[o].tolist(), canonical.in_order(r[b]).tolist())
        for m, b, o, r in zip(masses, bonds, order, rank, strict=True)
    ]
    return kinds, forms


def copies_of(rng, bonds, masses=None, copies=20):
    masses = np.ones(np.max(bonds) + 1) if masses is None else masses
    return [shuffled(rng, masses, bonds) for _ in range(copies)]


SHAPES = {
    "star": STAR, "comb": COMB, "dendrimer": DENDRIMER, "ring": ring(12), "prism": PRISM,
    "decalin": DECALIN, "bicyclopentyl": BICYCLOPENTYL, "petersen": PETERSEN,
    "complete": list(combinations(range(6), 2)),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_atoms_changes_nothing(shape):
    rng = np.random.default_rng(3)
    for masses in (None, rng.integers(1, 3, np.max(SHAPES[shape]) + 1).astype(float)):
        kinds, forms = pooled(copies_of(rng, SHAPES[shape], masses))
        assert kinds.tolist() == [0] * 20
        assert all(form == forms[0] for form in forms)


@pytest.mark.parametrize("make", [tree, graph])
@pytest.mark.parametrize("seed", range(15))
def test_random_molecules(make, seed):
    """Forms do not depend on which other molecules are looked at."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    bonds = make(rng, n)
    masses = rng.choice([1.008, 12.011], n)
    kinds, forms = pooled(copies_of(rng, bonds, masses, 6))
    assert kinds.max() == 0
    heavier = [(2.0 * m, b) for m, b in copies_of(rng, bonds, masses, 2)]
    kinds, both = pooled([*heavier, *copies_of(rng, bonds, masses, 2)])
    assert kinds.tolist() == [0, 0, 1, 1]
    assert both[2] == both[3] == forms[0]


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_against_all_permutations(n):
    """Connected graphs of n atoms of two masses: all of them, but for six a sample."""
    rng = np.random.default_rng(n)
    pairs = np.array(list(combinations(range(n), 2)))
    every = np.array(list(permutations(range(n))))
    chosen = range(1, 2 ** len(pairs)) if n < 6 else rng.integers(1, 2 ** len(pairs), 500)
    by_size = {}
    for word in chosen:
        bonds = pairs[[bool(int(word) >> k & 1) for k in range(len(pairs))]]
        if connected(n, bonds):
            masses = rng.integers(1, 3, n).astype(float)
            by_size.setdefault(len(bonds), []).append((masses, bonds))
    assert len(by_size) > 1
    for molecules in by_size.values():
        kinds = pooled(molecules)[0].tolist()
        smallest = [brute(masses, bonds, every) for masses, bonds in molecules]
        assert len(set(zip(kinds, smallest, strict=True))) == len(set(kinds)) == len(set(smallest))


def connected(n, bonds):
    return np.linalg.matrix_power(adjacency(n, bonds) + np.eye(n), n).all()


def adjacency(n, bonds):
    matrix = np.zeros((n, n))
    matrix[tuple(np.transpose(bonds))] = 1.0
    return matrix + matrix.T


def brute(masses, bonds, every):
    """Return the smallest form over all orders."""
    matrix = adjacency(len(masses), bonds)
    forms = [masses[every], matrix[every[:, :, None], every[:, None, :]].reshape(len(every), -1)]
    return min(map(tuple, np.concatenate(forms, axis=1).tolist()))


@pytest.mark.parametrize("pair", [(DECALIN, BICYCLOPENTYL), (PRISM, UTILITIES)])
def test_graphs_that_colours_alone_cannot_tell(pair):
    rng = np.random.default_rng(5)
    molecules = [copy for bonds in pair for copy in copies_of(rng, bonds, copies=5)]
    assert pooled(molecules)[0].tolist() == [0] * 5 + [1] * 5


def test_what_is_not_recognized_is_not_pooled_with_others():
    rng = np.random.default_rng(8)
    bonds = [*MIXED[:-1], (20, 19)]  # another atom of the second piece at the hub
    molecules = [*copies_of(rng, MIXED), *copies_of(rng, bonds)]
    kinds = pooled(molecules)[0]
    assert kinds[:20].max() > 0  # here three atoms singled out do not tell all others apart
    assert not set(kinds[:20]) & set(kinds[20:])


@pytest.mark.parametrize("shape", ["arms", "polymer", "lasso", "rings"])
def test_long_molecules(shape):
    """Their ends are met only after many rounds."""
    line = list(pairwise(range(150)))
    bonds = {
        # Three arms of 100 from atom 100, the third with a fork at its end.
        "arms": [*pairwise(range(201)), (100, 201), *pairwise(range(201, 301)), (299, 301)],
        "polymer": [*line, *((k, k + 150) for k in range(150))],
        "lasso": [*line, (0, 10)],
        "rings": [*line, (0, 2), (147, 149)],
    }[shape]
    rng = np.random.default_rng(9)
    kinds, _ = pooled(copies_of(rng, bonds, copies=5))
    assert kinds.max() == 0


def styrene(units):
    """Two carbons of the backbone and a ring each, without hydrogens."""
    unit = [(0, 1), *((i + 2, j + 2) for i, j in ring(6)), (1, 2)]
    bonds = [(8 * k + i, 8 * k + j) for k in range(units) for i, j in unit]
    return np.ones(8 * units), [*bonds, *((8 * k + 1, 8 * k + 8) for k in range(units - 1))]


def blocks(units):
    """Units of four masses with an arm of three, whose end is another in a quarter of them."""
    unit = [(0, 1), (1, 2), (2, 3), (1, 4), (4, 5), (5, 6)]
    bonds = [(7 * k + i, 7 * k + j) for k in range(units) for i, j in unit]
    masses = np.tile([1.0, 2, 3, 4, 5, 5, 5], units)
    masses[6 : 7 * (units // 4) : 7] = 6.0
    return masses, [*bonds, *((7 * k + 3, 7 * k + 7) for k in range(units - 1))]


@pytest.mark.parametrize(
    "make",
    [
        lambda n: (np.ones(n), ring(n)),
        lambda n: (np.ones(n), list(pairwise(range(n)))),
        styrene,
        blocks,
    ],
    ids=["ring", "line", "styrene", "blocks"],
)
def test_atoms_of_long_molecules_are_looked_at_a_few_times_each(make, monkeypatch):
    """However long the molecule is, though its ends are told to atoms between in many rounds."""
    looked, times = [], []
    neighbourhoods = canonical._Cells._neighbourhoods

    def counted(cells, news):
        atoms, sums = neighbourhoods(cells, news)
        looked.extend(atoms)
        return atoms, sums

    monkeypatch.setattr(canonical._Cells, "_neighbourhoods", counted)
    for units in (50, 400):
        masses, bonds = make(units)
        looked.clear()
        pooled(copies_of(np.random.default_rng(7), bonds, masses, 1))
        times.append(len(looked) / len(masses))
    assert times[0] > 1
    assert times[1] < 1.2 * times[0] < 12


def test_marks_tell_atoms_apart():
    bonds = np.array([STAR[:3]] * 3)
    marks = np.zeros((3, 4), dtype=int)
    marks[0, 1] = marks[1, 3] = marks[2, 0] = 1
    kinds, order = canonical.pool(marks, bonds)
    assert kinds.tolist() == [0, 0, 1]
    marks = np.take_along_axis(marks, order, axis=1)
    np.testing.assert_array_equal(marks[0], marks[1])


@pytest.mark.parametrize(("shape", "levels"), [("comb", 6), ("dendrimer", 4), ("ring", 6)])
def test_beads_are_counted_from_the_centre_outwards(shape, levels):
    (masses, bonds), *_ = copies_of(np.random.default_rng(1), SHAPES[shape])
    _, ((_, canonical_bonds), *_) = pooled([(masses, bonds)])
    molecule = Molecules(masses, np.arange(len(masses))[None], bonds=np.array(canonical_bonds))
    parents, _ = molecule.tree
    assert (parents[1:] < np.arange(1, len(parents))).all()
    level = np.zeros(len(parents), dtype=int)
    for bead in range(1, len(parents)):
        level[bead] = level[parents[bead]] + 1
    assert (np.diff(level) >= 0).all()
    assert level[-1] == levels


# --- molecules of files -------------------------------------------------------------------------


def file_of(rng, bonds, masses, x, order):
    """Return bonds, masses, x (frames, atoms, 3) of copies, atom k being atom order[k] before."""
    copies, n = x.shape[1:3]
    place = np.argsort(order)
    pairs = np.concatenate([np.array(bonds) + n * c for c in range(copies)])
    pairs = np.sort(rng.permutation(place[pairs]), axis=1)
    return pairs, np.tile(masses, copies)[order], x.reshape(len(x), -1, 3)[:, order]


def report_of(peer, pairs, masses, x, hard):
    mda = peer("MDAnalysis")
    from fixman.io.mdanalysis import MetricAnalysis

    universe = mda.Universe.empty(len(masses), trajectory=True)
    universe.add_TopologyAttr("masses", masses)
    universe.add_TopologyAttr("bonds", pairs.tolist())
    universe.load_new(x.astype(np.float32))
    return AuditReport.from_analysis(MetricAnalysis(universe, "all", hard=hard).run())


@pytest.mark.parametrize(
    ("masses", "hard"),
    [
        ([1.0] * 9, ("length",)),  # four equal arms
        ([1.0, 2, 3, 4, 5, 6, 7, 8, 9], ("length",)),
        ([1.0, 2, 3, 4, 5, 6, 7, 8, 9], ("length", "angle")),
        ([12.0, 12, 1, 12, 2, 12, 3, 12, 4], "torsional"),
    ],
)
def test_forty_stars_in_any_order_have_one_report(peer, masses, hard):
    rng = np.random.default_rng(11)
    bonds = [(0, 1), (1, 2), (0, 3), (3, 4), (0, 5), (5, 6), (0, 7), (7, 8)]
    steps = rng.normal(size=(30, 40, 9, 3))
    steps /= np.linalg.norm(steps, axis=-1, keepdims=True)
    steps *= rng.normal(1.0, 0.05, (30, 40, 9, 1))
    x = np.zeros_like(steps)
    x[:, :, 0] = rng.uniform(-20, 20, (30, 40, 3))
    for parent, bead in bonds:
        x[:, :, bead] = x[:, :, parent] + steps[:, :, bead]
    x = np.float32(x).astype(float)
    files = (np.arange(360), rng.permutation(360))
    masses = np.array(masses)
    given, mixed = (
        report_of(peer, *file_of(rng, bonds, masses, x, order), hard) for order in files
    )
    assert len(given.groups) == 1
    assert str(mixed) == str(given)
    one, other = given.groups[0], mixed.groups[0]
    assert one.half_logdet.std() > 0.01
    np.testing.assert_allclose(
        np.sort(other.half_logdet, axis=1), np.sort(one.half_logdet, axis=1), rtol=0, atol=1e-10
    )
    assert other.spread == pytest.approx(one.spread, rel=1e-10)
    assert other.share == pytest.approx(one.share, rel=1e-8)


def test_equal_molecules_between_others_keep_their_atoms():
    """Every copy is the molecule that the file has: its own atoms, in the same places."""
    rng = np.random.default_rng(2)
    masses = np.array([12.0, 1, 1, 1, 16, 1])
    bonds = [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5)]
    order = rng.permutation(60)
    pairs, all_masses, _ = file_of(rng, bonds, masses, np.zeros((1, 10, 6, 3)), order)
    (found,) = find_molecules(pairs, all_masses, None)
    assert found.atoms.shape == (10, 6)
    assert found.masses[:2].tolist() == [16.0, 12.0]  # two atoms in the middle, the heavier first
    assert (all_masses[found.atoms] == found.masses).all()
    mine = np.sort(found.atoms[:, found.pairs].reshape(-1, 2), axis=1)
    assert sorted(mine.tolist()) == sorted(pairs.tolist())
    assert (np.diff(found.atoms.min(axis=1)) > 0).all()


def test_hydrogens_of_chains_are_not_those_of_other_chains():
    """Three chains of equal masses: hydrogens at one end, at the other end, and none."""
    hydrogens = np.zeros(9, dtype=bool)
    hydrogens[[0, 5]] = True
    pairs = np.array([(3 * c + k, 3 * c + k + 1) for c in range(3) for k in range(2)])
    found = find_molecules(pairs, np.ones(9), hydrogens)
    assert [one.atoms.tolist() for one in found] == [[[0, 1, 2], [5, 4, 3]], [[6, 7, 8]]]
    assert [one.hydrogens.tolist() for one in found] == [[True, False, False], [False] * 3]


def test_lengths_of_trees_have_one_determinant_whatever_arm_is_the_first():
    """Equal arms, set to their means: which arm has which mean plays no role for bonds."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(30, 1, 5, 3))
    bonds = np.array(STAR[:4])
    arms = [0, *(1 + rng.permutation(4))]
    reports = [
        audit([ChainGroup(np.ones(5), np.arange(5)[None], some, bonds=bonds)], ("length",))
        for some in (x, x[:, :, arms])
    ]
    one, other = (report.groups[0].half_logdet for report in reports)
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)


# --- sets of constraints ------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["star", "comb", "decalin"])
def test_sets_of_constraints_in_any_order_share_one_chain(shape):
    rng = np.random.default_rng(6)
    bonds = SHAPES[shape]
    n = np.max(bonds) + 1
    masses = rng.choice([1.0, 12.0], n)
    x = np.zeros((1, 7, n, 3))
    order = np.concatenate([np.arange(n), n + rng.permutation(6 * n)])
    pairs, all_masses, _ = file_of(rng, bonds, masses, x, order)
    (group,) = ConnectedSets(Held(all_masses, pairs, False, None)).groups
    assert group.particles[0].tolist() == list(range(n))  # the first set keeps its order
    assert (all_masses[group.particles] == group.chain.masses).all()
    rows = np.array([group.chain.coordinates[k].beads for k in group.chain.hard])
    held = np.sort(group.particles[:, rows].reshape(-1, 2), axis=1)
    assert sorted(held.tolist()) == sorted(pairs.tolist())


def test_sets_that_differ_in_bonds_or_masses_do_not_share():
    pairs = np.array([(0, 1), (0, 2), (3, 4), (4, 5), (3, 5), (6, 7), (7, 8)])
    masses = np.array([2.0, 1, 1, 1, 2, 1, 1, 1, 2])
    groups = ConnectedSets(Held(masses, pairs, False, None)).groups
    assert [group.particles.tolist() for group in groups] == [[[0, 1, 2]], [[3, 4, 5]], [[6, 7, 8]]]
