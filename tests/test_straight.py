"""Bends that are held straight, against closed forms of rigid rods and dense rows."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest

import fixman as fx
import oracles
from fixman import potentials
from fixman.potentials.energies import bind

RODS = fx.Chain.linear(5, straight=[(0, 1, 2), (2, 3, 4)])  # two, that share bead 2
MOLECULE = fx.Chain.from_bonds(  # acetonitrile, the methyl group first
    6,
    [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5)],
    masses=[12.011, 1.008, 1.008, 1.008, 12.011, 14.007],
    hard="torsional",
    straight=[(0, 4, 5)],
)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def rod(n, rng, lengths=None):
    """Return a straight chain somewhere in space."""
    along = np.concatenate([[0.0], np.cumsum(np.ones(n - 1) if lengths is None else lengths)])
    axis = rng.normal(size=3)
    return along[:, None] * axis / np.linalg.norm(axis) + rng.normal(size=3)


def dense_logdet(chain, x):
    """ln det H^bb of lengths and straight bends, with (1, −(1 + l₁/l₂), l₁/l₂)/l₁ across."""
    rows = []
    for row in (chain.coordinates[k] for k in chain.hard):
        B = np.zeros((chain.n, 3))
        u = x[row.beads[1]] - x[row.beads[0]]
        first = np.linalg.norm(u)
        if row.kind == "length":
            B[row.beads[1]], B[row.beads[0]] = u / first, -u / first
        else:
            second = np.linalg.norm(x[row.beads[2]] - x[row.beads[1]])
            _, _, V = np.linalg.svd(u[None])
            e = V[1 if row.kind == "straight_y" else 2]
            weights = np.array([1.0, -(1.0 + first / second), first / second]) / first
            B[list(row.beads)] = weights[:, None] * e
        rows.append(B.ravel())
    B = np.array(rows)
    return np.linalg.slogdet(B @ (np.repeat(1.0 / chain.masses, 3)[:, None] * B.T))[1]


def test_four_beads_in_line(rng):
    chain = fx.Chain.linear(4, straight=[(0, 1, 2), (1, 2, 3)])
    assert chain.hard.size == 7
    assert chain.straight == ((0, 1, 2), (1, 2, 3))
    for _ in range(20):
        assert fx.logdet(chain, rod(4, rng)) == pytest.approx(np.log(1600.0), abs=1e-13)
    assert fx.Partition(chain, rod(4, rng)).logdet_hard == pytest.approx(np.log(1600), abs=1e-13)


def test_the_determinant_is_that_of_the_rows_in_line(rng):
    for n in (3, 4, 7):
        masses = 10.0 ** rng.uniform(-1, 1, n)
        bends = [(k, k + 1, k + 2) for k in range(n - 2) if rng.random() < 0.8]
        chain = fx.Chain.linear(n, masses=masses, straight=bends)
        lengths = rng.uniform(0.5, 2.0, n - 1)
        x = rod(n, rng, lengths)
        assert fx.logdet(chain, x) == pytest.approx(dense_logdet(chain, x), abs=1e-12)
        batch = np.stack([rod(n, rng, lengths) for _ in range(9)])
        one = [fx.logdet(chain, frame) for frame in batch]
        assert np.array_equal(fx.logdet(chain, batch), one)


def test_two_rods_have_the_metric_of_linear_rotors(rng):
    # det G over the sphere of directions is (256 − 81 c²)/25 of unit beads, c between the rods.
    cosines = np.linspace(-0.99, 0.99, 11)
    frames = []
    for c in cosines:
        one, two = np.array([1.0, 0, 0]), np.array([c, np.sqrt(1 - c * c), 0])
        frames.append([-2 * one, -one, 0 * one, two, 2 * two])
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    logdet = fx.logdet(RODS, np.array(frames) @ turn)
    expected = np.log(256 - 81 * cosines**2)
    assert np.ptp(logdet - expected) < 1e-13


def test_the_fixman_force_is_the_derivative_along_the_manifold(rng):
    x = fx.random_walks(RODS, 1, rng=2)[0]
    v = fx.project(RODS, x, 1.0, rng.normal(size=x.shape))[1]
    h = 1e-5
    ends = [fx.fixman_potential(RODS, fx.project(RODS, x + s * h * v, 1.0)) for s in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * h)
    assert -(fx.fixman_force(RODS, x) * v).sum() == pytest.approx(slope, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("base", ["free", "fixed"])
def test_motion_is_that_of_a_rigid_rod(base, rng):
    n = 6
    masses = 10.0 ** rng.uniform(-1, 1, n)
    bends = [(k, k + 1, k + 2) for k in range(-1 if base == "fixed" else 0, n - 2)]
    chain = fx.Chain.linear(n, base=base, masses=masses, straight=bends)
    x = rod(n, rng)
    if base == "fixed":
        x += (x[1] - x[0]) - x[0]
    f = rng.normal(size=x.shape)
    v = fx.project(chain, x, 1.0, rng.normal(size=x.shape))[1]
    m = masses[:, None]
    origin = np.zeros(3) if base == "fixed" else (m * x).sum(0) / masses.sum()
    drift = np.zeros(3) if base == "fixed" else (m * v).sum(0) / masses.sum()
    r, inertia = x - origin, (m * (x - origin) ** 2).sum()
    spin = (m * np.cross(r, v - drift)).sum(0) / inertia
    turn = np.cross(r, f).sum(0) / inertia
    push = np.zeros(3) if base == "fixed" else f.sum(0) / masses.sum()
    expected = push + np.cross(turn, r) + np.cross(spin, np.cross(spin, r))
    motion = fx.forward_dynamics(chain, x, v, force=f)
    assert oracles.error(motion.acceleration, expected) < 1e-12
    assert oracles.error(v, drift + np.cross(spin, r)) < 1e-12
    with pytest.raises(fx.SingularCoordinateError, match=r"torsion"):
        _ = motion.qdd


def test_a_rod_tumbles_without_bending(rng):
    # Through the plane, too, in which the directions across it jump.
    chain = fx.Chain.linear(4, straight=[(0, 1, 2), (1, 2, 3)])
    x = rod(4, rng)
    axis = (x[1] - x[0])[[2, 0, 1]]
    run = fx.simulate(chain, x, fx.Newton(0.02), 2000, v0=np.cross(axis, x - x.mean(0)), every=20)
    values = chain.hard_values(run.x)
    assert np.abs(values - [1, 1, 1, 0, 0, 0, 0]).max() < 1e-11
    energy = 0.5 * (run.v**2).sum(axis=(-1, -2))
    assert np.ptp(energy) < 1e-10 * energy[0]
    heights = (run.x[:, 0, 1] - run.x[:, 0, 0])[:, 2]
    assert heights.min() < -0.1 < 0.1 < heights.max()


def test_a_nitrile_is_rigid():
    assert MOLECULE.hard.size == 3 * 6 - 6
    x = fx.random_walks(MOLECULE, 3, angles=1.2, rng=0)
    run = fx.simulate(MOLECULE, x[0], fx.Langevin(0.05, kT=1.0), 200, rng=1, every=50)
    distances = np.linalg.norm(run.x[:, 0, :, None] - run.x[:, 0, None], axis=-1)
    assert np.ptp(distances, axis=0).max() < 1e-10


def test_chains_with_straight_bends_are_written_and_read():
    for chain in (RODS, MOLECULE):
        assert fx.Chain.from_json(chain.to_json()) == chain
        assert pickle.loads(pickle.dumps(chain)) == chain
        assert chain != fx.Chain.linear(chain.n)
    assert "2 straight bends" in repr(RODS)
    assert fx.Chain.linear(5, straight=[(0, 1, 2), (4, 3, 2), (2, 1, 0)]) == RODS
    forged = RODS.to_json().replace("[[0, 1, 2]", "[[0, 1, 1]")
    with pytest.raises(ValueError, match=r"\[\[0, 1, 1\], .*3 different beads"):
        fx.Chain.from_json(forged)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (
            {"straight": np.zeros((5, 3), int)},
            ValueError,
            "(?s)list of bends or positions.*must name 3",
        ),
        ({"straight": [(0, 1, 7)]}, ValueError, r"list of bends.*not among 0 to 4"),
        ({"straight": [(0, 1)]}, ValueError, "list of bends"),
        ({"straight": (0, 1, 2)}, ValueError, "list of bends"),
        ({"straight": [(0, 1.5, 2)]}, ValueError, "list of bends"),
        ({"straight": 3}, TypeError, "list of bends"),
        ({"straight": [(0, 1, 2), (1, 2, 0)]}, ValueError, "not in a row"),
        ({"straight": [(0, 1, 2)], "dim": 2}, ValueError, "in the plane"),
        ({"straight": [(1, 2, 3)], "hard": np.arange(15) > 9}, ValueError, "beads in line"),
    ],
)
def test_what_cannot_be_straight_is_refused(arguments, error, text):
    with pytest.raises(error, match=text):
        fx.Chain.linear(5, **arguments)


def test_angles_that_are_straight_are_held_as_such():
    chain = fx.Chain.linear(5, hard=("length", "angle"), straight=[(3, 2, 1)])
    names = [str(chain.coordinates[k]) for k in chain.hard]
    assert "angle(1, 2, 3)" not in names
    assert names[-2:] == ["straight_y(1, 2, 3)", "straight_z(1, 2, 3)"]
    tree = {"parents": [-1, 0, 1, 2], "straight": [(0, 1, 2)]}
    with pytest.raises(ValueError, match="held straight already"):
        fx.Chain.branched(**tree, extra=[("angle", (0, 1, 2))])
    with pytest.raises(fx.SingularConstraintError, match="drop_redundant"):
        fx.Chain.branched(**tree, extra=[("length", (0, 2))])
    dropped = fx.Chain.branched(**tree, extra=[("length", (0, 2))], drop_redundant=True)
    assert [str(row) for row in dropped.redundant] == ["length(0, 2)"]
    triangle = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (1, 6), (6, 3)]
    sides = [(0, 1, 2), (2, 3, 4), (0, 5, 4)]
    held = fx.Chain.from_bonds(7, triangle, straight=sides, drop_redundant=True)
    assert held.straight == tuple(sides)
    with pytest.raises(ValueError, match="at most two"):
        fx.Chain.from_bonds(7, triangle, straight=[*sides, (1, 6, 3)])


def test_targets_of_straight_bends_are_zero(rng):
    x = fx.random_walks(RODS, 1, rng=3)[0]
    bent = x + 0.05 * rng.normal(size=x.shape)
    near = fx.project(RODS, bent, 1.0)
    assert np.abs(RODS.hard_values(near)[4:]).max() < 1e-14
    nearly = x + 0.02 * rng.normal(size=x.shape)
    own = RODS.hard_values(nearly)
    assert 1e-3 < np.abs(own[4:]).max() < 0.25
    kept = RODS.hard_values(fx.project(RODS, nearly, own))
    assert kept == pytest.approx(np.append(own[:4], np.zeros(4)), abs=1e-12)
    with pytest.raises(ValueError, match="targets of straight bends are 0"):
        fx.project(RODS, bent, np.ones(8))
    with pytest.raises(fx.SingularConstraintError, match="not straight in x0") as caught:
        fx.simulate(RODS, bent, fx.Newton(0.01, kT=1.0), 1)
    assert caught.value.coordinates[0].kind.startswith("straight")
    folded = x.copy()
    folded[0] = x[2] + 1e-9 * rng.normal(size=3)
    for ask in (fx.logdet, fx.Partition):
        with pytest.raises(fx.SingularConstraintError):
            ask(RODS, folded)


@pytest.mark.thorough
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_two_rods_sample_both_ensembles(ensemble):
    """The cosine between them: ρ ∝ √(256 − 81 c²) of rigid rods, uniform of stiff ones."""
    replicas = 64
    x0 = fx.random_walks(RODS, replicas, rng=0)
    stepper = fx.Langevin(0.08, ensemble=ensemble)
    run = fx.simulate(RODS, x0, stepper, 40_000, replicas=replicas, rng=1, every=20)
    rods = run.x[100:, :, 3] - run.x[100:, :, 2], run.x[100:, :, 2] - run.x[100:, :, 1]
    squares = (rods[0] * rods[1]).sum(axis=-1) ** 2
    c = np.linspace(-1, 1, 20001)
    weight = np.sqrt(256 - 81 * c * c) if ensemble == "rigid" else np.ones_like(c)
    exact = np.trapezoid(weight * c * c, c) / np.trapezoid(weight, c)
    means = squares.mean(axis=0)  # one a replica, which are independent
    error = means.std(ddof=1) / np.sqrt(replicas)
    assert abs(means.mean() - exact) < 4 * error
    assert error < 0.004


def test_a_line_that_is_held_twice_is_refused():
    # Each bend follows from the two others, in the ratio of its bonds.
    with pytest.raises(fx.SingularConstraintError, match=r"straight_y\(\d, \d, \d\), straight_z"):
        fx.Chain.linear(5, straight=[(0, 1, 2), (1, 2, 3), (0, 1, 3)])


def test_accelerations_keep_bends_straight_whatever_the_velocities(rng):
    chain = fx.Chain.linear(
        6, masses=10.0 ** rng.uniform(-1, 1, 6), straight=[(1, 2, 3), (2, 3, 4)]
    )
    x = fx.random_walks(chain, 1, lengths=rng.uniform(0.5, 2.0, 5), rng=rng)[0]
    v, f = rng.normal(size=(2, 6, 3))  # of which parts change lengths and bend
    a = fx.forward_dynamics(chain, x, v, force=f).acceleration
    h = 1e-4
    ends = [x + s * h * v + 0.5 * h * h * a for s in (1, -1)]
    rows = chain.layout.hard_rows
    across = rows.gradients(x)[0][:, 2]  # along the directions across the line
    for row, (kind, beads) in enumerate(chain.coordinates[k] for k in chain.hard):

        def value(y, kind=kind, beads=beads, e=across[row]):
            bonds = np.diff(y[list(beads)], axis=0)
            lengths = np.linalg.norm(bonds, axis=1)
            if kind == "length":
                return lengths[0]
            units = bonds / lengths[:, None]
            return (units[1] - units[0]) @ e / np.linalg.norm(e)

        assert abs(value(ends[0]) + value(ends[1]) - 2 * value(x)) / h**2 < 1e-5


@pytest.mark.parametrize("hard", [(), ("length",), ("length", "angle")])
def test_the_fixman_force_of_uneven_chains_is_the_derivative(hard, rng):
    chain = fx.Chain.linear(
        7, masses=10.0 ** rng.uniform(-1, 1, 7), hard=hard, straight=[(1, 2, 3), (4, 5, 6)]
    )
    x = fx.random_walks(chain, 1, lengths=rng.uniform(0.5, 2.0, 6), angles=1.1, rng=rng)[0]
    goal = chain.hard_values(x)
    for _ in range(5):
        v = fx.project(chain, x, goal, rng.normal(size=x.shape))[1]
        h = 1e-5
        ends = [fx.fixman_potential(chain, fx.project(chain, x + s * h * v, goal)) for s in (1, -1)]
        slope = (ends[0] - ends[1]) / (2 * h)
        assert -(fx.fixman_force(chain, x) * v).sum() == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_a_chain_with_straight_bends_has_two_ends(rng):
    chain = fx.Chain.linear(10, straight=[(2, 3, 4)])
    x = fx.random_walks(chain, 3, rng=rng)
    assert np.array_equal(fx.observables.end_to_end(chain, x), x[:, -1] - x[:, 0])
    pulled = bind(chain, potentials.Tension((1.0, 0.0, 0.0)))
    plain = bind(fx.Chain.linear(10), potentials.Tension((1.0, 0.0, 0.0)))
    assert np.array_equal(pulled.force(x[0]), plain.force(x[0]))


def test_terms_over_straight_bends_are_left_out(rng):
    chain = fx.Chain.linear(7, straight=[(2, 3, 4)])
    x = fx.random_walks(chain, 1, rng=rng)[0]
    for term, beads in (
        (potentials.Torsion, [(0, 1, 2, 3), (3, 4, 5, 6)]),
        (partial(potentials.Bending, angle=0.5), [(0, 1, 2), (1, 2, 3), (3, 4, 5), (4, 5, 6)]),
    ):
        force = bind(chain, term(1.0)).force(x)
        assert np.array_equal(force, bind(chain, term(1.0, beads=beads)).force(x))
        with pytest.raises(fx.SingularCoordinateError, match="three beads in line"):
            bind(chain, term(1.0, beads=[(1, 2, 3, 4) if len(beads[0]) == 4 else (2, 3, 4)])).force(
                x
            )
