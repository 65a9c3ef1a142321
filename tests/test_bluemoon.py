"""Distances, sums and differences among the hard rows; mean forces against closed forms."""

import numpy as np
import pytest

import fixman as fx
import oracles
from fixman import analytic, bluemoon
from fixman.mechanics import drift
from fixman.mechanics.drift import mean_forces
from fixman.potentials.energies import WCA, bind
from selection import quick

MASSES = np.array([1.0, 2.5, 0.4, 1.7, 0.9])
PARENTS = [-1, 0, 1, 2, 3]
COMBINED = [
    ("distance", (0, 3)),
    ("distance_difference", (0, 2, 2, 4)),
    ("distance_difference", (3, 0, 0, 2)),
    ("distance_sum", (0, 2, 4, 2)),
    ("distance_sum", (0, 3, 1, 4)),
    ("distance_difference", (0, 3, 1, 4)),
    ("centroid_distance", (0, 3, 4)),
    ("centroid_distance", (1, 2, 0)),
]
EVERY = [*COMBINED, ("angle", (0, 2, 4)), ("torsion", (0, 1, 3, 4))]


def names(row):
    return f"{row[0]}{row[1]}"


@pytest.fixture
def rng():
    return np.random.default_rng(13)


def frames(size, rng, dim=3):
    return np.cumsum(rng.normal(size=(size, 5, dim)), axis=1)


def five(extra=(), hard=("length",), dim=3):
    return fx.Chain.branched(PARENTS, masses=MASSES, hard=hard, extra=extra, dim=dim)


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("row", COMBINED, ids=names)
def test_rows_of_distances_are_the_dense_ones(row, dim, rng):
    chain = five([row], dim=dim)
    spec = oracles.Spec.of(chain)
    x, v, f = frames(9, rng, dim), rng.normal(size=(9, 5, dim)), rng.normal(size=(9, 5, dim))
    motion = fx.forward_dynamics(chain, x, v, force=f)
    for k in range(9):
        assert oracles.error(chain.values(x[k]), oracles.internal(spec, x[k])) < 1e-14
        B = fx.wilson_b(chain, x[k]).toarray()[spec.hard]
        assert oracles.error(B, oracles.wilson_b(spec, x[k], spec.hard)) < 1e-14
        kappa = fx.velocity_terms(chain, x[k], v[k])[spec.hard]
        assert oracles.error(kappa, oracles.velocity_terms(spec, x[k], v[k], spec.hard)) < 1e-13
        dense = oracles.forward_dynamics(spec, x[k], v[k], force=f[k], with_soft=False)
        assert oracles.error(motion.acceleration[k], dense.acceleration, 1.0) < 1e-10
        exact, condition = oracles.hard_logdet(spec, x[k])
        assert fx.logdet(chain, x[k]) == pytest.approx(exact, abs=1e-15 * condition + 1e-13)
    one = [fx.logdet(chain, frame) for frame in x]
    assert np.array_equal(fx.logdet(chain, x), one)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("row", COMBINED, ids=names)
def test_forces_that_need_second_derivatives(row, dim, rng):
    chain, kT, h = five([row], dim=dim), 0.7, 1e-5
    spec = oracles.Spec.of(chain)
    x, f = frames(1, rng, dim)[0], rng.normal(size=(5, dim))
    steps = h * np.eye(x.size).reshape(-1, 5, dim)
    slopes = (fx.fixman_potential(chain, x + steps) - fx.fixman_potential(chain, x - steps)) / (
        2 * h
    )
    assert fx.fixman_force(chain, x) == pytest.approx(-slopes.reshape(x.shape), rel=1e-6, abs=1e-6)
    B = oracles.wilson_b(spec, x, spec.hard)
    w = 1.0 / spec.mm
    S = np.linalg.inv((B * w) @ B.T)
    D = np.diag(w) - (B * w).T @ S @ (B * w)
    size, axes = np.linalg.eigh(D)  # tr(D ∂²q), one term each
    ways = (axes * np.sqrt(size.clip(0.0))).T.reshape(-1, 5, dim)
    noise = sum(oracles.velocity_terms(spec, x, way, spec.hard) for way in ways)
    exact = S @ (B @ (w * f.ravel()) + kT * noise)
    found = mean_forces(chain, x[None], f[None], chain.masses, kT).tensions[0]
    assert found == pytest.approx(exact, rel=1e-9, abs=1e-9)


@pytest.mark.thorough
def test_runs_hold_them_alone_and_in_lanes(rng):
    chain = five([("distance_difference", (0, 2, 2, 4)), ("distance", (0, 3))])
    x0 = fx.random_walks(chain, 9, rng=1)
    v0 = fx.project(chain, x0, chain.hard_values(x0), rng.normal(size=x0.shape))[1]
    run = fx.simulate(chain, x0, fx.Newton(0.01), 200, v0=v0, every=100, progress=False)
    assert np.abs(chain.hard_values(run.x) - chain.hard_values(x0)).max() < 1e-10
    energy = fx.observables.kinetic_energy(chain, run.v)
    assert np.abs(energy / energy[0] - 1.0).max() < 1e-3
    alone = fx.simulate(chain, x0[4], fx.Newton(0.01), 200, v0=v0[4], every=100, progress=False)
    assert np.array_equal(alone.x[:, 0], run.x[:, 4])


def test_targets_are_met_and_chains_are_written(rng):
    chain = five([("distance_sum", (0, 2, 2, 4)), ("distance_difference", (0, 2, 2, 4))])
    x = fx.random_walks(chain, 4, rng=2)
    goal = chain.hard_values(x) + np.array([0.0, 0.0, 0.0, 0.0, -0.02, 0.03])
    assert chain.hard_values(fx.project(chain, x, goal)) == pytest.approx(goal, abs=1e-12)
    assert fx.Chain.from_json(chain.to_json()) == chain
    assert "1 distance difference" in repr(chain)
    with pytest.raises(fx.FrameError, match="must be positive"):
        fx.project(five([("distance", (0, 2))]), x[0], np.array([1.0, 1.0, 1.0, 1.0, -1.0]))


@pytest.mark.parametrize(
    ("extra", "hard", "dependent"),
    [
        ([("distance_sum", (0, 1, 1, 2))], ("length",), True),
        ([("distance_sum", (0, 1, 2, 3))], (), False),
        ([("distance_sum", (0, 2, 2, 4)), ("distance_difference", (4, 2, 0, 2)),
          ("distance", (0, 2))], (), True),
        ([("distance_sum", (0, 2, 2, 4)), ("distance_difference", (4, 2, 0, 2))], (), False),
        # A triangle of given angles: lengths in proportion, whose difference is none the less free.
        ([("angle", (0, 1, 2)), ("angle", (1, 2, 0)),
          ("distance_difference", (0, 1, 1, 2))], (), False),
        ([("distance", (1, 0))], ("length",), True),
    ],
)  # fmt: skip
def test_rows_that_depend_on_each_other_are_found(extra, hard, dependent):
    if dependent:
        with pytest.raises(fx.SingularConstraintError, match="depend"):
            five(extra, hard)
    else:
        assert not five(extra, hard).redundant


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (("distance_sum", (0, 1, 1, 0)), "two different pairs"),
        (("distance_sum", (0, 0, 1, 2)), "two different pairs"),
        (("distance_difference", (0, 1, 2)), "two different pairs"),
        (("distance", (2, 2)), "2 different beads"),
        (("distances", (0, 2)), "distance_difference"),
    ],
)
def test_what_is_no_distance_is_refused(row, text):
    with pytest.raises(ValueError, match=text):
        five([row])


def test_positions_without_a_distance_are_refused(rng):
    chain = five([("distance_difference", (0, 2, 2, 4))], hard=())
    x = frames(1, rng)[0]
    x[4] = x[2]
    with pytest.raises(fx.SingularConstraintError, match="bead 2 and bead 4 coincide"):
        fx.logdet(chain, x)


def test_potentials_take_no_distance_for_a_bond():
    x = np.array([[0.0, 0, 0], [1, 0, 0], [0.9, 0.4, 0.0]])
    model = fx.Chain.linear(3)
    energies = [
        bind(chain, WCA()).energy(x)
        for chain in (
            model,
            bluemoon.hold(model, ("distance", (0, 2))),
            fx.Chain.branched([-1, 0, 1], extra=[("length", (0, 2))]),
        )
    ]
    assert energies[0] == energies[1] > energies[2] == 0.0


# --- Z and G -------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [(), ("length",)], ids=["flexible", "bonds"])
@pytest.mark.parametrize("row", EVERY, ids=names)
def test_z_is_the_dense_one_and_g_its_slope(row, hard, rng):
    model = five(hard=hard)
    held = bluemoon.hold(model, row)
    x = frames(9, rng)
    found = bluemoon.metric(held, x, row)
    spec = oracles.Spec.of(held)
    k = [spec.rows[i] for i in spec.hard].index(row)
    for frame, Z in zip(x, found.Z, strict=True):
        B = oracles.wilson_b(spec, frame, spec.hard) / np.sqrt(spec.mm)
        A = np.delete(B, k, axis=0).T  # Z = |B_ξ|² across the others
        rest = B[k] - A @ np.linalg.lstsq(A, B[k], rcond=None)[0] if A.size else B[k]
        assert pytest.approx(rest @ rest, rel=1e-12) == Z

    def gradient(one):
        return oracles.wilson_b(spec, one, [spec.hard[k]])[0].reshape(one.shape)

    other = bluemoon.metric(model, x, gradient)
    assert pytest.approx(found.Z, rel=1e-12) == other.Z
    assert pytest.approx(found.G, rel=1e-5, abs=1e-7) == other.G
    assert found.Z[3] == bluemoon.metric(held, x[3], row).Z


def test_the_difference_of_two_distances_as_on_paper(rng):
    # Of A–H···B: Z = 1/m_A + 1/m_B + (2 + 2 u·v)/m_H, u from A to H and v from H to B.
    model = fx.Chain.linear(3, masses=[16.0, 1.0, 14.0], hard=())
    row = ("distance_difference", (0, 1, 1, 2))
    x = rng.normal(size=(7, 3, 3))
    u, v = x[:, 1] - x[:, 0], x[:, 2] - x[:, 1]
    c = (u * v).sum(-1) / np.linalg.norm(u, axis=-1) / np.linalg.norm(v, axis=-1)
    Z = 1.0 / 16.0 + 1.0 / 14.0 + 2.0 + 2.0 * c
    assert pytest.approx(Z, rel=1e-13) == bluemoon.metric(bluemoon.hold(model, row), x, row).Z
    pair = fx.Chain.linear(2, masses=[1.0, 4.0], hard=())
    found = bluemoon.metric(bluemoon.hold(pair, ("length", (0, 1))), x[:, :2], ("length", (1, 0)))
    assert pytest.approx(1.25, rel=1e-14) == found.Z
    assert np.abs(found.G).max() < 1e-15


# --- mean forces ---------------------------------------------------------------------------------


def slope(function, at, h=1e-4):
    return (function(at + h) - function(at - h)) / (2.0 * h)


@pytest.mark.parametrize("sampled", ["rigid", "stiff"])
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
@pytest.mark.parametrize("theta", [0.4, 1.3, 2.5])
@pytest.mark.parametrize("dim", [2, 3])
def test_the_bend_of_a_trimer(dim, theta, ensemble, sampled):
    masses, kT = np.array([1.0, 2.0, 0.5]), 1.7
    model, row = fx.Chain.linear(3, masses=masses, dim=dim), ("angle", (0, 1, 2))
    u, v = np.array([1.0, 0, 0]), np.array([np.cos(theta), np.sin(theta), 0])
    x = np.array([[0 * u, u, u + v]])
    x = np.repeat(x[..., :dim], 3, axis=0)

    def energy(bend):
        words = {"dim": dim, "masses": masses, "ensemble": ensemble}
        return -kT * np.log(analytic.trimer_density(bend, **words))

    words = {"kT": kT, "ensemble": ensemble, "sampled": sampled}
    found = bluemoon.mean_force(bluemoon.hold(model, row), x, row, **words)
    assert found.value == pytest.approx(slope(energy, theta), rel=1e-6, abs=1e-7)
    assert found.error == 0.0  # there is one shape

    def distance(bend):
        return 2.0 * np.cos(bend / 2.0)

    def density(bend):  # of the distance
        return energy(bend) + kT * np.log(np.sin(bend / 2.0))

    far = ("distance", (2, 0))
    found = bluemoon.mean_force(bluemoon.hold(model, far), x, far, **words)
    exact = slope(density, theta) / slope(distance, theta)
    assert found.value == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("sampled", ["rigid", "stiff"])
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_the_torsion_of_four_beads(ensemble, sampled):
    model, row = fx.Chain.linear(4, hard=("length", "angle")), ("torsion", (3, 2, 1, 0))
    held = bluemoon.hold(model, row)

    def energy(torsion):
        return -np.log(analytic.four_beads_density(torsion, ensemble=ensemble))

    for phi in (-2.0, 0.5, 1.9):
        x = fx.random_walks(held, 3, angles=np.pi / 2.0, torsions=phi, rng=0)
        found = bluemoon.mean_force(held, x, row, ensemble=ensemble, sampled=sampled)
        assert found.value == pytest.approx(slope(energy, phi), rel=1e-6, abs=1e-9)


def test_a_pair_in_a_potential(rng):
    model, row = fx.Chain.linear(2, hard=()), ("distance", (0, 1))
    held = bluemoon.hold(model, row)
    r, kT = 1.05, 0.8
    u = rng.normal(size=(4, 3))
    x = np.stack([0.0 * u, r * u / np.linalg.norm(u, axis=1)[:, None]], axis=1)
    wca = WCA(exclude=0)
    found = bluemoon.mean_force(held, x, row, kT=kT, potential=wca)
    exact = -24.0 * (2.0 / r**13 - 1.0 / r**7) - 2.0 * kT / r
    assert found.value == pytest.approx(exact, rel=1e-12)
    force = bind(model, wca).force(x)
    assert bluemoon.mean_force(held, x, row, kT=kT, force=force).value == found.value


def test_multipliers_are_averages_over_momenta(rng):
    # Velocities √f e along f axes e of unit kinetic energy have the second moments of thermal ones.
    held = bluemoon.hold(five(), ("distance_difference", (0, 2, 2, 4)))
    x, f, kT = frames(1, rng), rng.normal(size=(1, 5, 3)), 0.6
    row = held.coordinates[held.hard[-1]]
    found = bluemoon.mean_force(held, np.repeat(x, 2, 0), row, kT=kT, force=np.repeat(f, 2, 0))
    B = fx.wilson_b(held, x[0]).toarray()[held.hard] / np.sqrt(np.repeat(MASSES, 3))
    axes = np.linalg.svd(B)[2][held.hard.size :].reshape(-1, 5, 3) / np.sqrt(MASSES)[:, None]
    v = np.sqrt(kT * len(axes)) * axes
    at = np.broadcast_to(x, v.shape)
    tension = fx.forward_dynamics(held, at, v, force=np.broadcast_to(f, v.shape)).tension[:, -1]
    assert found.multiplier == pytest.approx(-tension.mean(), rel=1e-11)
    again = bluemoon.from_multipliers(found.multiplier, found.Z, found.G, kT=kT)
    assert again.value == pytest.approx(found.value, rel=1e-12)


def test_weights_lead_from_each_ensemble_to_each(rng):
    model, row = five(), ("distance", (0, 3))
    held = bluemoon.hold(model, row)
    x = fx.random_walks(model, 40, rng=3)
    x = bluemoon.bring(held, x, row, 1.9)
    inner, outer = 0.5 * fx.logdet(model, x), 0.5 * fx.logdet(held, x)
    for (sampled, ensemble), exact in {
        ("rigid", "rigid"): inner - outer,
        ("rigid", "stiff"): -outer,
        ("stiff", "rigid"): inner,
        ("stiff", "stiff"): 0.0 * outer,
    }.items():
        found = bluemoon.mean_force(held, x, row, ensemble=ensemble, sampled=sampled)
        assert found.log_weights == pytest.approx(exact, abs=1e-13)
        assert pytest.approx(np.exp(2.0 * (outer - inner)), rel=1e-12) == found.Z


# --- errors --------------------------------------------------------------------------------------

SIX = fx.Chain.linear(6, hard=("length", "angle"))
TURN, SLOW, FAST = (("torsion", tuple(range(k, k + 4))) for k in range(3))
AT, BARRIER, PULL, SHAKE = 0.7, 4.0, 1.0, 6.0
GRID = np.linspace(-np.pi, np.pi, 721)[:-1]


class TwoBasins:
    """B sin² b + sin a (C cos b + D cos c) of three torsions: a is ξ, b has two basins."""

    def __init__(self):
        rows = [tuple(row.beads) for row in SIX.coordinates]
        self.rows = [rows.index(one) if one in rows else rows.index(one[::-1])
                     for _, one in (TURN, SLOW, FAST)]  # fmt: skip

    def energy(self, x):
        a, b, c = np.moveaxis(SIX.internal(x)[..., self.rows], -1, 0)
        swing = np.sin(a) * (PULL * np.cos(b) + SHAKE * np.cos(c))
        return BARRIER * np.sin(b) ** 2 + swing

    def force(self, x):
        """Of central differences, which are good to 1e-9."""
        steps = 1e-5 * np.eye(18).reshape(18, 6, 3)
        slopes = [(self.energy(x - one) - self.energy(x + one)) / 2e-5 for one in steps]
        return np.stack(slopes, axis=-1).reshape(np.shape(x))


def weights(energy):
    weight = np.exp(-energy)
    return weight / weight.sum()


SLOW_WEIGHTS = weights(BARRIER * np.sin(GRID) ** 2 + PULL * np.sin(AT) * np.cos(GRID))
FAST_WEIGHTS = weights(SHAKE * np.sin(AT) * np.cos(GRID))
MEAN = np.cos(AT) * (PULL * SLOW_WEIGHTS @ np.cos(GRID) + SHAKE * FAST_WEIGHTS @ np.cos(GRID))


def two_basins(frames, stay, rng):
    """Frames in which b stays in its basin for so many frames, and c is anywhere at once."""
    inner = np.abs(GRID) < 0.5 * np.pi
    drawn = rng.uniform(size=frames) < SLOW_WEIGHTS[inner].sum()
    kept = np.where(rng.uniform(size=frames) < 1.0 / stay, np.arange(frames), 0)
    basin = drawn[np.maximum.accumulate(kept)]
    q = np.tile(SIX.internal(fx.random_walks(SIX, 1, angles=1.2, rng=1)[0]), (frames, 1))
    q[:, TwoBasins().rows[0]] = AT
    for place, where in ((1, basin), (1, ~basin), (2, np.ones(frames, bool))):
        weight = FAST_WEIGHTS if place == 2 else SLOW_WEIGHTS * (inner == (where is basin))
        drawn = rng.choice(GRID, frames, p=weight / weight.sum())
        q[where, TwoBasins().rows[place]] = drawn[where]
    return SIX.cartesian(q), basin


@pytest.mark.parametrize("stay", quick([2.0, 30.0], 2.0))
def test_errors_know_of_a_slow_torsion(stay, rng):
    held, away, plain = bluemoon.hold(SIX, TURN), [], []
    for _ in range(40):
        x, _ = two_basins(1000, stay, rng)
        found = bluemoon.mean_force(held, x, TURN, force=TwoBasins().force(x), ensemble="stiff")
        series = found.multiplier + found.G
        away.append((found.value - MEAN) / found.error)
        plain.append((found.value - MEAN) / fx.observables.mean_with_error(series).error)
    assert 0.3 < np.mean(np.square(away)) < 1.9  # 1 ± 0.22
    assert stay == 2.0 or np.mean(np.square(plain)) > 2.0  # fast noise hides the basins


def test_chains_that_stay_in_their_basins_tell_of_both():
    held, words = bluemoon.hold(SIX, TURN), {"potential": TwoBasins(), "ensemble": "stiff"}
    both = np.stack([two_basins(40, 1e9, np.random.default_rng(seed))[0] for seed in range(12)], 1)
    found = bluemoon.mean_force(held, both, TURN, **words)
    assert abs(found.value - MEAN) < 3.0 * found.error


def test_one_frame_has_no_error():
    held, row = bluemoon.hold(fx.Chain.linear(3), ("angle", (0, 1, 2))), ("angle", (0, 1, 2))
    x = fx.random_walks(held, 1, angles=1.1, rng=1)
    assert bluemoon.mean_force(held, np.repeat(x, 4, 0), row).error == 0.0
    with pytest.raises(ValueError, match="needs at least two values"):
        bluemoon.mean_force(held, x, row)


def test_multipliers_from_elsewhere_are_weighted():
    found = bluemoon.from_multipliers([1.0, 2.0, 1.0, 2.0], [1.0, 4.0, 1.0, 4.0], 0.5, kT=2.0)
    assert found.value == pytest.approx(1.0 + (1.0 + 0.5 * 2.0) / 1.5, rel=1e-14)
    assert found.error > 0.0


def test_exact_draws_of_a_flexible_angle(rng):
    # Lengths L with L² e^(−½k(L−1)²) about a bend that is held: frames of the stiff kind.
    kT, k, theta = 1.0, 6.0, 2.4
    grid = np.linspace(1e-3, 4.0, 4001)
    weight = np.cumsum(grid**2 * np.exp(-0.5 * k * (grid - 1.0) ** 2 / kT))
    one, two = np.interp(rng.uniform(size=(2, 60_000)), weight / weight[-1], grid)
    x = np.zeros((60_000, 3, 3))
    x[:, 0, 0] = -one
    x[:, 2] = two[:, None] * [np.cos(theta), np.sin(theta), 0.0]
    u, v = x[:, 0], x[:, 2]
    f = np.zeros_like(x)
    f[:, 0] = -k * (1.0 - 1.0 / one)[:, None] * u
    f[:, 2] = -k * (1.0 - 1.0 / two)[:, None] * v
    f[:, 1] = -f[:, 0] - f[:, 2]
    row = ("angle", (0, 1, 2))
    held = bluemoon.hold(fx.Chain.linear(3, masses=[1.0, 4.0, 3.0], hard=()), row)
    exact = -kT / np.tan(theta)
    found = bluemoon.mean_force(held, x, row, force=f, sampled="stiff")
    assert found.error < 0.01 * exact
    assert abs(found.value - exact) < 4.0 * found.error
    # As frames of a run with this constraint they must have been drawn with √Z more.
    chosen = rng.uniform(size=len(x)) < np.sqrt(found.Z / found.Z.max())
    rigid = bluemoon.mean_force(held, x[chosen], row, force=f[chosen])
    assert abs(rigid.value - exact) < 4.0 * rigid.error < 0.04 * exact
    wrong = bluemoon.mean_force(held, x, row, force=f)
    assert abs(wrong.value - exact) > 8.0 * wrong.error


# --- chains that hold ξ --------------------------------------------------------------------------


def test_holding_and_bringing(rng):
    model = fx.Chain.linear(6, hard=("length", "angle"))
    row = ("torsion", (1, 2, 3, 4))
    held = bluemoon.hold(model, row)
    assert held.hard.size == model.hard.size + 1
    assert not held.extra
    x = fx.random_walks(model, 4, rng=3).reshape(2, 2, 6, 3)
    moved = bluemoon.bring(held, x, row, 3.0)
    assert moved.shape == x.shape
    at = [c.kind == "torsion" and c.beads == row[1] for c in held.coordinates].index(True)
    assert held.values(moved)[..., at] == pytest.approx(3.0, abs=1e-9)
    assert model.hard_values(moved) == pytest.approx(model.hard_values(x), abs=1e-9)


RING = fx.Chain.ring(6, hard=("length", "angle", "torsion"), drop_redundant=True)


def test_words_for_kinds():
    chain = fx.Chain.linear(4, hard=())
    for word, kind, beads in (("bond", "length", (1, 2)), ("dihedral", "torsion", (0, 1, 2, 3))):
        assert bluemoon.hold(chain, (word, beads)) == bluemoon.hold(chain, (kind, beads))


SQUARE = fx.Chain.from_bonds(
    4, [(0, 1), (1, 2), (2, 3), (0, 3), (0, 2), (1, 3)], dim=2, drop_redundant=True
)
FREE = fx.Chain.linear(4, hard=())
SUM = bluemoon.hold(FREE, ("distance_sum", (0, 1, 2, 3)))
DIFFERENCE = bluemoon.hold(FREE, ("distance_difference", (0, 1, 2, 3)))


@pytest.mark.parametrize(
    ("chain", "row", "error", "text"),
    [
        (fx.Chain.linear(4), ("length", (0, 1)), ValueError, "hard in this chain already"),
        (fx.Chain.linear(4), ("length", (0, 2)), ValueError, r"no bond.*\('distance', \(0, 2\)\)"),
        (fx.Chain.ring(4, hard=()), ("length", (0, 3)), ValueError, r"or a hard one that closes"),
        (SQUARE, SQUARE.redundant[0], fx.SingularConstraintError, "one value"),
        (SUM, ("distance_sum", (3, 2, 1, 0)), ValueError, "hard in this chain already"),
        (SUM, ("distance_sum", (2, 3, 0, 1)), ValueError, "hard in this chain already"),
        (DIFFERENCE, ("distance_difference", (1, 0, 3, 2)), ValueError, "already"),
        (fx.Chain.linear(4), ("x", (0,)), ValueError, "of kind"),
        (fx.Chain.linear(4), ("distance", (0, 9)), ValueError, "not among 0 to 3"),
        (
            fx.Chain.linear(4),
            ("distance_sum", (0, 1, 2, 3)),
            fx.SingularConstraintError,
            "one value",
        ),
        (RING, ("distance", (0, 3)), fx.SingularConstraintError, "one value"),
        ("chain", ("distance", (0, 3)), TypeError, "must be a fixman.Chain"),
    ],
)
def test_what_cannot_be_held_is_refused(chain, row, error, text):
    with pytest.raises(error, match=text):
        bluemoon.hold(chain, row)


@pytest.mark.thorough
def test_chains_with_straight_bends_hold_more_in_one_order(tmp_path):
    row, bends = ("distance", (0, 4)), [(1, 2, 3)]
    model = fx.Chain.linear(5, straight=bends)
    held = bluemoon.hold(model, row)
    assert held == fx.Chain.branched([-1, 0, 1, 2, 3], extra=[row], straight=bends)
    assert fx.Chain.from_json(held.to_json()) == held
    x0 = bluemoon.bring(held, fx.random_walks(model, 1, rng=1), row, 2.5)[0]
    stepper, folder = fx.Langevin(0.01, kT=1.0), tmp_path / "run"
    run = fx.simulate(held, x0, stepper, 20, rng=1, every=5, out=folder)
    assert np.array_equal(fx.load_run(folder).x, run.x)
    assert fx.load_run(folder).chain == held
    assert np.isfinite(bluemoon.mean_force(held, run.x, row).value)


def test_what_is_left_out_may_hold_a_coordinate():
    # Two sides of a rigid square and its diagonals: each of them follows from the others.
    rows = [("distance", (0, 2)), ("distance", (1, 3))]
    chain = fx.Chain.ring(4, dim=2, extra=rows, drop_redundant=True)
    assert len(chain.redundant) == 1
    (kept,) = {row for row in chain.coordinates if row.kind == "distance"}
    x = np.array([[[0.0, 0], [1, 0], [1, 1], [0, 1]]])
    with pytest.raises(fx.SingularConstraintError, match="leaves out"):
        bluemoon.mean_force(chain, x, kept)


def test_arguments_of_mean_forces(rng):
    model, row = fx.Chain.linear(5), ("distance", (0, 3))
    held = bluemoon.hold(model, row)
    x = bluemoon.bring(held, fx.random_walks(model, 3, rng=4), row, 1.5)
    for arguments, text in (
        ((model, x, row), "bluemoon.hold"),
        ((held, frames(3, rng), row), r"distance\(0, 3\) varies by"),
        ((held, x[0], row), r"x must have shape \(frames, \.\.\., 5, 3\)"),
    ):
        with pytest.raises(ValueError, match=text):
            bluemoon.mean_force(*arguments)
    for words, text in (
        ({"ensemble": "mobility"}, "ensemble must be"),
        ({"sampled": "soft"}, "sampled must be"),
        ({"force": x[:2]}, "shape of x"),
        ({"force": x, "potential": WCA()}, "not both"),
        ({"kT": 0.0}, "kT"),
    ):
        with pytest.raises(ValueError, match=text):
            bluemoon.mean_force(held, x, row, **words)
    other = bluemoon.bring(held, fx.random_walks(model, 3, lengths=1.3, rng=4), row, 1.5)
    with pytest.raises(ValueError, match=r"length\(0, 1\) varies by 0.3"):
        bluemoon.mean_force(held, np.concatenate([x, other]), row)
    with pytest.raises(fx.FrameError, match=r"gradient\(x\) is nan at bead 0 in frame 0"):
        bluemoon.metric(model, x, lambda one: np.full_like(one, np.nan))
    with pytest.raises(ValueError, match="is 0 in some frame"):
        bluemoon.metric(model, x, np.zeros_like)
    for coordinate in (row, np.ones_like):
        with pytest.raises(TypeError, match="step must be"):
            bluemoon.metric(held, x, coordinate, step="abc")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((1.0,), r"multipliers must have shape \(frames, \.\.\.\)"),
        (([],), r"multipliers must have shape .*got \(0,\)"),
        (([1.0, 2.0], [1.0, -1.0]), "Z must be positive"),
        (([1.0, 2.0], 1.0, [1.0, 2.0, 3.0]), "G must be one number"),
        (([1.0, np.nan],), "multipliers"),
    ],
)
def test_multipliers_from_elsewhere_are_looked_at(arguments, text):
    with pytest.raises(ValueError, match=text):
        bluemoon.from_multipliers(*arguments)


# --- integrals -----------------------------------------------------------------------------------


@pytest.mark.thorough
def test_integrals_of_cubics_are_exact_and_so_are_errors(rng):
    xi = np.array([0.0, 0.3, 1.0, 1.4, 2.0])
    force = 1.0 - xi + 2.0 * xi**3
    found = bluemoon.free_energy(xi, [(f, 0.1) for f in force])
    assert found.value == pytest.approx(xi - xi**2 / 2.0 + xi**4 / 2.0, abs=1e-13)
    assert found.error[0] == 0.0
    draws = force + 0.1 * rng.normal(size=(4000, 5))
    values = np.array([bluemoon.free_energy(xi, [(f, 0.0) for f in one]).value for one in draws])
    assert found.covariance == pytest.approx(np.cov(values.T), abs=6e-4)
    two = bluemoon.free_energy([1.0, 3.0], [(1.0, 0.3), (2.0, 0.4)])
    assert two.value == pytest.approx([0.0, 3.0])
    assert two.error == pytest.approx([0.0, 0.5])


def test_mean_forces_have_errors():
    with pytest.raises(TypeError, match=r"MeanForce, or of \(value, error\)"):
        bluemoon.free_energy([0.0, 1.0], [1.0, 2.0])


@pytest.mark.parametrize(
    ("xi", "forces", "text"),
    [
        ([0.0], [(1.0, 0.1)], "at least 2"),
        ([0.0, 0.0], [(1.0, 0.1)] * 2, "ascend"),
        (
            [0.0, 1.0],
            [(1.0, 0.1)] * 3,
            r"forces must have shape \(\.\.\., 2, 2\), got \(3, 2\)",
        ),
        ([0.0, 1.0], [(1.0, np.nan)] * 2, "forces"),
        ([0.0, 1.0], [(1.0, 0.1), (1.0, -0.1)], "cannot be negative, got -0.1"),
    ],
)
def test_what_cannot_be_integrated_is_refused(xi, forces, text):
    with pytest.raises(ValueError, match=text):
        bluemoon.free_energy(xi, forces)


def test_the_work_of_a_ring_is_linear():
    """Fill of the wide factor, which was n²/4 a ring."""
    for chain in (
        bluemoon.hold(fx.Chain.linear(2000), ("distance", (0, 1999))),
        fx.Chain.ring(2000),
    ):
        factor = drift._pattern(chain).symbolic
        assert max(np.size(part) for part in factor) < 20 * 2000


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_a_length_is_not_brought_below_zero(value):
    row = ("centroid_distance", (0, 1, 3))
    held = bluemoon.hold(fx.Chain.linear(4), row)
    with pytest.raises(ValueError, match=rf"\(0, 1, 3\) must be positive, got {value:g}$"):
        bluemoon.bring(held, fx.random_walks(held, 2, rng=1), row, value)
