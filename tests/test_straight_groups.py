"""Molecules with straight groups: what holds them, their motion, audits, and advice that works."""

from __future__ import annotations

import re
import warnings
from itertools import permutations

import numpy as np
import pytest

import fixman as fx
from fixman.analysis.audit import audit
from fixman.analysis.groups import ChainGroup
from fixman.chains.chain import is_rigid
from straight_molecules import MOLECULES, dense_logdet, dense_rows, line, methyl, ring

NAMES = tuple(MOLECULES)


def torsional(molecule, **more):
    arguments = {"straight": molecule.x, "drop_redundant": True} | more
    return fx.Chain.from_bonds(
        len(molecule.x), molecule.bonds, masses=molecule.masses, hard="torsional", **arguments
    )


class Springs:
    """Forces on all beads that would bend and stretch: to x₀, and between all pairs."""

    def __init__(self, x, masses):
        self.rest = x + 0.05 * np.random.default_rng(0).normal(size=x.shape)
        self.charges = np.random.default_rng(1).normal(size=len(x))
        self.masses = masses

    def energy(self, x):
        apart, strength = self._pairs(x)
        pairs = 0.5 * (strength / apart).sum(axis=(-1, -2))
        return pairs + 0.5 * (self.masses[:, None] * (x - self.rest) ** 2).sum(axis=(-1, -2))

    def force(self, x):
        apart, strength = self._pairs(x)
        steps = x[..., :, None, :] - x[..., None, :, :]
        pairs = ((strength / apart**3)[..., None] * steps).sum(axis=-2)
        return pairs - self.masses[:, None] * (x - self.rest)

    def _pairs(self, x):
        steps = x[..., :, None, :] - x[..., None, :, :]
        apart = np.sqrt((steps**2).sum(axis=-1) + np.eye(len(self.rest)))
        strength = np.outer(self.charges, self.charges)
        return apart, strength - np.diag(np.diag(strength))


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("name", NAMES)
def test_ln_det_is_that_of_dense_rows_however_atoms_are_numbered(name, rng):
    for _ in range(4):
        molecule = MOLECULES[name].renumbered(rng)
        chain = torsional(molecule)
        assert 3 * chain.n - len(chain.hard) == molecule.freedom
        if name != "sulfur hexafluoride":  # where siblings' torsions hold two of three lines
            assert len(chain.straight) == molecule.straight
        assert abs(fx.logdet(chain, molecule.x) - dense_logdet(chain, molecule.x)) < 1e-11
        singular = np.linalg.svd(dense_rows(chain, molecule.x), compute_uv=False)
        assert singular[-1] > 1e-3 * singular[0]
        assert fx.Chain.from_json(chain.to_json()) == chain


@pytest.mark.parametrize("name", ["acetonitrile", "2-butyne", "carbon dioxide", "benzonitrile"])
def test_energy_is_conserved_and_bends_stay_straight(name, rng):
    molecule = MOLECULES[name].renumbered(rng)
    chain = torsional(molecule)
    goal = chain.hard_values(molecule.x)
    v = fx.project(chain, molecule.x, goal, 0.3 * rng.normal(size=molecule.x.shape))[1]
    springs = Springs(molecule.x, molecule.masses)
    swing = []
    for dt, steps in ((0.02, 500), (0.01, 1000)):
        stepper = fx.Newton(dt, potential=springs)
        run = fx.simulate(chain, molecule.x, stepper, steps, v0=v, every=steps // 100)
        x, squares = run.x[:, 0], run.v[:, 0] ** 2
        kinetic = 0.5 * (molecule.masses[:, None] * squares).sum(axis=(-1, -2))
        energy = kinetic + springs.energy(x)
        swing.append(np.abs(energy - energy[0]).max() / kinetic.mean())
        held = chain.hard_values(x) - goal
        turning = np.array([chain.coordinates[k].kind == "torsion" for k in chain.hard])
        held[:, turning] = np.angle(np.exp(1j * held[:, turning]))
        assert np.abs(held).max() < 1e-11
        assert np.ptp(kinetic) > 0.1 * kinetic.mean()
    assert swing[1] < 2e-3
    assert 3.5 < swing[0] / swing[1] < 4.5  # of second order


@pytest.mark.parametrize("stepper", [fx.Langevin(0.02, kT=1.0), fx.HybridMonteCarlo(0.02, kT=1.0)])
def test_the_methyl_groups_of_butyne_turn_and_nothing_else_moves(stepper, rng):
    molecule = MOLECULES["2-butyne"]
    chain = torsional(molecule)
    run = fx.simulate(chain, molecule.x, stepper, 400, rng=2, every=40)
    inside = (range(4), range(7), [0, 1, 2, 3, 7, 8, 9])  # the line, and it with either group
    for beads in inside:
        x = run.x[:, 0, list(beads)]
        distances = np.linalg.norm(x[:, :, None] - x[:, None], axis=-1)
        assert np.ptp(distances, axis=0).max() < 1e-10
    assert np.ptp(np.linalg.norm(run.x[:, 0, 4] - run.x[:, 0, 7], axis=-1)) > 0.1


@pytest.mark.parametrize(("name", "turns"), [("2-butyne", 1), ("allene", 1)])
def test_torsions_across_a_straight_part_can_be_held(name, turns, rng):
    for _ in range(6):
        molecule = MOLECULES[name].renumbered(rng)
        chain = torsional(molecule, rotatable=[])
        assert 3 * chain.n - len(chain.hard) == molecule.freedom - turns
        (across,) = (row for row in chain.extra if row.kind == "torsion")
        inner, outer = across.beads[1:3]
        assert all(sorted(pair) != sorted((inner, outer)) for pair in molecule.bonds)
        assert abs(fx.logdet(chain, molecule.x) - dense_logdet(chain, molecule.x)) < 1e-11
        whole = fx.Chain.from_bonds(
            chain.n, molecule.bonds, masses=molecule.masses, straight=chain.straight,
            hard=("length", "angle", "torsion"),
        )  # fmt: skip
        assert whole == chain
        x = fx.random_walks(chain, 1, angles=1.2, torsions=1.0, rng=rng)[0]
        held = dict(zip(chain.hard, chain.hard_values(x), strict=True))
        assert held[chain.coordinates.index(across)] == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize(("n", "straight"), [(12, 4), (16, 3), (20, 6)])
def test_rings_with_a_straight_part_are_rigid(n, straight, rng):
    x, bonds = ring(n, straight)
    for shift in range(0, n, 2):  # the ring is closed at another bond each time
        order = (np.arange(n) + shift) % n
        here = [(int(order[i]), int(order[j])) for i, j in bonds]
        y = np.empty_like(x)
        y[order] = x
        with pytest.raises(fx.SingularConstraintError, match="depend on the other hard"):
            fx.Chain.from_bonds(n, here, hard="torsional", rotatable=[], straight=y)
        chain = fx.Chain.from_bonds(
            n, here, hard="torsional", rotatable=[], straight=y, drop_redundant=y
        )
        assert len(chain.hard) == 3 * n - 6
        assert len(chain.straight) == straight - 2
        assert abs(fx.logdet(chain, y) - dense_logdet(chain, y)) < 1e-11
        assert fx.Chain.from_json(chain.to_json()) == chain


def test_strained_bends_are_angles():
    # C–C≡C of cyclooctyne is 158.5°; that of a nitrile at room temperature within some degrees.
    for degrees, found in ((21.5, 0), (16.0, 0), (12.0, 1), (0.0, 1)):
        bend = np.radians(degrees)
        x = np.array([[0, 0, 0], [1, 0, 0], [1 + np.cos(bend), np.sin(bend), 0]])
        for hard in (("length", "angle"), "torsional"):
            chain = fx.Chain.from_bonds(3, [(0, 1), (1, 2)], hard=hard, straight=x)
            assert len(chain.straight) == found
    assert fx.Chain.linear(3, hard="length", straight=x).straight == ()  # no hard angle


@pytest.mark.thorough
def test_thermal_swings_do_not_hide_a_straight_bend(rng):
    # kT/k of a soft bend, 0.25 mdyn Å, at 300 K: 0.13 rad in either direction.
    x = line(1.46, 1.16) + np.zeros((400, 1, 1))
    x[:, 2, 1:] += 1.16 * 0.13 * rng.normal(size=(400, 2))
    one_by_one = [fx.Chain.linear(3, hard=("length", "angle"), straight=y).straight for y in x]
    assert any(one_by_one)
    assert not all(one_by_one)
    for part in np.split(x, 16):  # of 25 frames
        assert fx.Chain.linear(3, hard=("length", "angle"), straight=part).straight == ((0, 1, 2),)


def test_bends_that_are_held_at_a_small_angle_are_not_straight(rng):
    chain = fx.Chain.linear(6, hard=("length", "angle"))
    x = fx.random_walks(chain, 60, angles=0.15, rng=rng)
    assert fx.Chain.linear(6, hard=("length", "angle"), straight=x) == chain
    loose = x + 0.04 * rng.normal(size=x.shape)
    assert len(fx.Chain.linear(6, hard=("length", "angle"), straight=loose).straight) == 4
    held = ChainGroup(np.ones(6), np.arange(12).reshape(2, 6), x.reshape(30, 2, 6, 3))
    (one,) = audit([held], ("length", "angle"), as_is=True).groups
    assert one.chain == chain
    assert not one.contradicted


def test_positions_in_the_plane_and_by_a_mask():
    flat = line(1.0, 1.0)[:, :2]
    assert not fx.Chain.linear(3, dim=2, hard=("length", "angle"), straight=flat).straight
    mask = np.zeros(9, dtype=bool)
    mask[[3, 6, 7]] = True  # two lengths and the angle
    assert fx.Chain.linear(3, hard=mask, straight=line(1.0, 1.0)).straight == ((0, 1, 2),)
    torsions = np.zeros(12, dtype=bool)
    torsions[[7, 11]] = True
    with pytest.raises(ValueError, match=r"torsion\(0, 1, 2, 3\) cannot be hard: straight=…"):
        fx.Chain.linear(4, hard=torsions, straight=line(1.0, 1.0, 1.0))
    with pytest.raises(fx.FrameError, match="must be finite"):
        fx.Chain.linear(3, hard=mask, straight=np.nan * line(1.0, 1.0))
    with pytest.raises(fx.SingularConstraintError, match="coincide"):
        fx.Chain.linear(3, hard=mask, straight=line(1.0, 0.0))


# --- audits --------------------------------------------------------------------------------------


def frames_of(molecule, noise, rng, frames=30, copies=2):
    turns = np.linalg.qr(rng.normal(size=(frames, copies, 3, 3)))[0]
    x = molecule.x @ turns
    return x + noise * rng.normal(size=x.shape)


def group(molecule, x):
    beads = np.arange(x[0].size // 3).reshape(x.shape[1:3])
    return ChainGroup(molecule.masses, beads, x, bonds=np.array(molecule.bonds))


@pytest.mark.parametrize("noise", [0.0, 0.05])
@pytest.mark.parametrize("name", NAMES)
def test_one_shape_has_no_spread(name, noise, rng):
    molecule = MOLECULES[name].renumbered(rng)
    report = audit([group(molecule, frames_of(molecule, noise, rng))], "torsional")
    (one,) = report.groups
    if molecule.freedom < 7:
        assert one.constant
        assert one.spread < 1e-13
        assert one.verdict.startswith("nothing can vary")
    else:  # one torsion, about which either group is nearly symmetric
        assert not one.constant
        assert one.spread < 1e-5
    assert any("straight bend" in note and "in line" in note for note in report.notes)


def test_a_line_of_which_a_part_is_soft_is_no_single_shape(rng):
    bends = [(0, 1, 2), (1, 2, 3)]
    rigid = fx.Chain.linear(4, straight=bends)
    mask = np.ones(16, dtype=bool)
    mask[:12] = rigid.hard_mask[:12]
    mask[3] = False  # 3 n − 6 rows, a length soft
    loose = fx.Chain.linear(4, hard=mask, straight=bends)
    assert (len(rigid.hard), len(loose.hard)) == (7, 6)
    assert is_rigid(rigid)
    assert not is_rigid(loose)


def test_trajectories_tell_which_bends_are_straight(peer, rng, tmp_path, capsys):
    mda = peer("MDAnalysis")
    from fixman.cli.command import main
    from fixman.io.mdanalysis import MetricAnalysis

    molecule = MOLECULES["acetonitrile"]
    x = frames_of(molecule, 0.05, rng, frames=60, copies=2) + np.array([[[0.0]], [[9.0]]])
    n = len(molecule.x)
    universe = mda.Universe.empty(2 * n, 2, atom_resindex=np.repeat([0, 1], n), trajectory=True)
    universe.add_TopologyAttr("masses", np.tile(molecule.masses, 2))
    universe.add_TopologyAttr("elements", ["C", "C", "N", "H", "H", "H"] * 2)
    universe.add_TopologyAttr("names", ["C1", "C2", "N", "H1", "H2", "H3"] * 2)
    bonds = [(i + n * k, j + n * k) for k in range(2) for i, j in molecule.bonds]
    universe.add_TopologyAttr("bonds", bonds)
    universe.load_new(x.reshape(60, 2 * n, 3).astype(np.float32))
    universe.trajectory[7]
    analysis = MetricAnalysis(universe, hard="torsional")
    assert universe.trajectory.ts.frame == 7  # where it was
    assert len(analysis.meters[0].chain.straight) == 1
    assert "held 1 straight bend in line: angle(N 2, C2 1, C1 0)" in analysis.notes[0]
    analysis.run()
    assert np.ptp(analysis.results.half_logdet[0]) < 1e-12
    assert not analysis.values[0][analysis.meters[0].chain.hard >= 3 * n].any()
    lengths = MetricAnalysis(universe, hard="length")
    assert lengths.meters[0].chain.straight == ()

    path = tmp_path / "acetonitrile.pdb"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of attributes that the universe lacks
        universe.atoms.write(path, frames="all", bonds="all")
    assert main(["audit", str(path), "--hard", "torsional", "--quiet"]) == 0
    out = capsys.readouterr().out
    assert "held 1 straight bend in line" in out
    assert "spread of ½ ln det H^bb           0.000 kT" in out
    assert "verdict: nothing can vary" in out


def test_many_copies_are_looked_at_in_part():
    from fixman.analysis.samples import LOOKS, SEEN, thinned

    for copies, n in ((1, 3), (10**5, 3), (10, 10**4), (1, 10**6)):
        x = np.broadcast_to(np.zeros(3), (LOOKS, copies, n, 3))
        kept = thinned(x).shape[1]
        assert kept == copies or LOOKS * kept * n <= SEEN + LOOKS * n
        assert kept >= 1


@pytest.mark.parametrize("tail", [True, False])
@pytest.mark.parametrize("as_is", [True, False])
def test_a_bend_that_is_straight_in_some_frames_is_refused_with_its_frame(as_is, tail, rng):
    steps = np.eye(3)[rng.integers(0, 3, (40, 3, 7))]  # on a lattice, without a step back
    if tail:  # that is straight in all of them
        steps[:, :, 6] = steps[:, :, 5]
    walks = ChainGroup(np.ones(7), np.arange(21).reshape(3, 7), np.cumsum(steps, axis=2))
    for hard in (("length", "angle"), ("length", "angle", "torsion")):
        with pytest.raises(fx.FrameError, match="in line") as caught:
            audit([walks], hard, as_is=as_is)
        assert caught.value.frame is not None
    assert audit([walks], "length", as_is=as_is).groups[0].samples == 120


# --- advice --------------------------------------------------------------------------------------


def advised(error):
    """Return the bends that a message says to hold straight."""
    (bends,) = re.findall(r"straight=(\[.*?\])", str(error))
    return eval(bends, {}, {})  # as a reader would type it in


@pytest.mark.parametrize("name", NAMES)
def test_what_is_refused_says_what_works(name, rng):
    molecule = MOLECULES[name].renumbered(rng)
    chain = torsional(molecule, straight=())
    with pytest.raises(fx.SingularConstraintError, match="hold such bends in line") as caught:
        fx.logdet(chain, molecule.x)
    bends = advised(caught.value)
    assert len(bends) == molecule.straight
    held = torsional(molecule, straight=bends)
    assert np.isfinite(fx.logdet(held, molecule.x))
    assert fx.simulate(held, molecule.x, fx.Langevin(0.01), 10, rng=1).finished


def test_a_hard_angle_that_hardly_bends_says_what_works():
    chain = fx.Chain.linear(6, hard=("length", "angle"))
    x = fx.random_walks(chain, angles=1e-5, rng=1)
    with pytest.raises(fx.ConstraintSolveError, match="hardly bend") as caught:
        fx.simulate(chain, x, fx.Langevin(0.01), 2000, rng=0)
    held = fx.Chain.linear(6, hard=("length", "angle"), straight=advised(caught.value))
    with pytest.raises(fx.SingularConstraintError, match=r"project it first, x0 = fixman\.project"):
        fx.simulate(held, x, fx.Langevin(0.01), 2000, rng=0)
    x = fx.project(held, x, 1.0)
    run = fx.simulate(held, x, fx.Langevin(0.01), 2000, rng=0, every=2000)
    assert np.abs(held.hard_values(run.x[-1, 0])[5:]).max() < 1e-9


def test_a_bend_that_is_folded_back_is_no_straight_one():
    chain = fx.Chain.linear(3, hard=("length", "angle"))
    with pytest.raises(fx.SingularConstraintError, match="folded back cannot be hard") as caught:
        fx.logdet(chain, line(1.0, -0.5))
    assert "straight=" not in str(caught.value)


@pytest.mark.parametrize("name", ["2-butyne", "allene"])
def test_samplers_name_the_one_that_works(name):
    molecule = MOLECULES[name]
    chain = torsional(molecule)
    with pytest.raises(ValueError, match=r"fixman\.HybridMonteCarlo"):
        fx.simulate(chain, molecule.x, fx.MonteCarlo(), 10)
    with pytest.raises(ValueError, match=r"fixman\.HybridMonteCarlo"):
        fx.sample(chain, 3)
    run = fx.simulate(chain, molecule.x, fx.HybridMonteCarlo(0.02), 50, rng=0)
    assert run.acceptance.mean() > 0.5


def test_methyls_stand_where_they_should():
    bonds = methyl(np.zeros(3), 1.0)
    cosines = bonds @ bonds.T / 1.10**2
    assert cosines[0, 1] == pytest.approx(np.cos(np.radians(109.5)), abs=2e-3)


# --- any numbering ------------------------------------------------------------------------------


def hard_sizes(n, bonds, bends, orders, **arguments):
    """How many hard rows a molecule has, its beads in some orders."""
    sizes = set()
    for order in orders:
        place = np.argsort(order)
        chain = fx.Chain.from_bonds(
            n,
            place[np.array(bonds)],
            hard="torsional",
            straight=place[np.array(bends)],
            drop_redundant=True,
            **arguments,
        )
        sizes.add(chain.hard.size)
    return sizes


def grown(rng):
    """Positions, bonds and straight bends of a tree, half of whose branches go straight on."""
    x, bonds, bends = [np.zeros(3)], [], []
    while len(x) < 9:
        parent = int(rng.integers(len(x)))
        around = [i + j - parent for i, j in bonds if parent in (i, j)]
        ways = [(x[k] - x[parent]) / np.linalg.norm(x[k] - x[parent]) for k in around]
        way = rng.normal(size=3)
        behind = int(rng.integers(len(around))) if around and rng.random() < 0.5 else None
        way = way / np.linalg.norm(way) if behind is None else -ways[behind]
        if any(abs(way @ one) > 0.8 for k, one in enumerate(ways) if k != behind):
            continue
        if behind is not None:
            bends.append((around[behind], parent, len(x)))
        bonds.append((parent, len(x)))
        x.append(x[parent] + way * rng.uniform(0.8, 1.5))
    return np.array(x), bonds, bends


def test_what_hangs_on_both_sides_of_a_straight_bend_is_held_in_any_numbering():
    x = np.array([[0, 0, 0], [-1, 0, 0], [1, 0, 0], [1.5, 0.8, 0], [0, 0, 1.0]])
    bonds = [(0, 1), (0, 2), (2, 3), (0, 4)]
    assert hard_sizes(5, bonds, [(1, 0, 2)], permutations(range(5)), rotatable=[]) == {9}
    kinds = ("length", "angle", "torsion")
    tree = fx.Chain.branched([-1, 0, 0, 2, 0], hard=kinds, straight=x)
    assert len(dense_rows(tree, x)) == np.linalg.matrix_rank(dense_rows(tree, x)) == 9


def test_a_ring_beside_a_straight_bend_is_held_to_what_is_on_its_other_side(rng):
    bonds = [(0, 1), (0, 2), (2, 3), (2, 4), (2, 5), (5, 0)]
    bends = [(1, 0, 2), (0, 2, 3)]
    orders = [range(6), *(rng.permutation(6) for _ in range(20))]
    assert hard_sizes(6, bonds, bends, orders) == {12}


@pytest.mark.thorough
def test_trees_of_which_nothing_turns_are_rigid_in_any_numbering(rng):
    held = 0
    for _ in range(20):
        x, bonds, bends = grown(rng)
        orders = [range(9), *(rng.permutation(9) for _ in range(4))]
        arguments = {"straight": bends, "drop_redundant": True}
        chain = fx.Chain.from_bonds(9, bonds, hard="torsional", rotatable=[], **arguments)
        line = np.linalg.matrix_rank(x - x[0], tol=1e-6) == 1
        rows = dense_rows(chain, x)
        assert len(rows) == np.linalg.matrix_rank(rows, tol=1e-6) == 27 - (5 if line else 6)
        if bends:
            for some in ({"rotatable": []}, {}):
                sizes = hard_sizes(9, bonds, bends, orders, **some)
                assert len(sizes) == 1
                assert some == {} or sizes == {len(rows)}
        held += len(bends)
    assert held > 20
