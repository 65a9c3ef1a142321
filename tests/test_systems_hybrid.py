"""Monte Carlo and hybrid Monte Carlo of systems: bits, decisions, distributions, refusals."""

import math

import numpy as np
import pytest

import fixman as fx
from fixman.kernels.sampling import crankshafts, pivots
from fixman.kernels.sampling.crankshafts import SHIFT
from fixman.potentials import WCA, Bending, LennardJones, bind
from fixman.simulation.steppers.moves import moves
from selection import quick


class Nothing:
    """A potential of one's own, by which a system finds forces and decisions outside of chains."""

    def energy(self, x):
        return 0.0

    def force(self, x):
        return np.zeros_like(x)


@pytest.fixture(scope="module")
def small():
    """Make a melt of few chains of two kinds, without overlaps."""
    kinds = [(fx.Chain.linear(5, masses=[1, 2, 1, 3, 1]), 5), (fx.Chain.ring(6), 3)]
    system = fx.System(kinds, box=(5.0, 5.5, 6.0))
    return system, fx.push_off(system, fx.random_walks(system, rng=1)[0], rng=1)


# --- bits -----------------------------------------------------------------------------------------

ALONE = {
    "hybrid": fx.HybridMonteCarlo(0.15, leaps=3, ensemble="stiff", potential=Bending(1.0)),
    "hybrid, pairs": fx.HybridMonteCarlo(0.02, leaps=3, potential=LennardJones()),
    "monte carlo": fx.MonteCarlo(potential=LennardJones(), burn_in=5),
    "pivots": fx.MonteCarlo(burn_in=5),
}


@pytest.mark.parametrize("name", quick(ALONE, "hybrid"))
def test_one_chain_is_the_chain(name):
    chain = fx.Chain.linear(7)
    x0 = fx.random_walks(chain, 3, angles=0.4, rng=1)
    one = fx.simulate(chain, x0, ALONE[name], 20, every=10, rng=2)
    same = fx.simulate(fx.System(chain), x0, ALONE[name], 20, every=10, rng=2)
    for array in ("x", "v", "acceptance"):
        np.testing.assert_array_equal(getattr(one, array), getattr(same, array))


@pytest.mark.thorough
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_decisions_outside_of_a_chain_are_those_of_the_chain(ensemble):
    chain = fx.Chain.linear(6, masses=[1, 2, 1, 3, 1, 2])
    x0 = fx.random_walks(chain, 9, rng=1)
    bending = Bending(1.0)
    options = {"leaps": 3, "ensemble": ensemble}
    stepper = fx.HybridMonteCarlo(0.3, potential=bending, **options)
    one = fx.simulate(chain, x0, stepper, 30, every=10, rng=2)
    stepper = fx.HybridMonteCarlo(0.3, potential=bending + Nothing(), **options)
    same = fx.simulate(fx.System(chain, box=1e3), x0, stepper, 30, every=10, rng=2)
    for array in ("x", "v", "acceptance"):
        np.testing.assert_array_equal(getattr(one, array), getattr(same, array))
    assert 0.1 < one.acceptance.mean() < 0.9


@pytest.mark.thorough
def test_midpoints_in_two_calls_are_those_of_the_chain():
    chain = fx.Chain.linear(6)
    x0 = fx.random_walks(chain, 9, rng=1)
    options = {"scheme": "midpoint", "ensemble": "stiff"}
    stepper = fx.Brownian(1e-3, potential=Bending(1.0), **options)
    one = fx.simulate(chain, x0, stepper, 30, every=10, rng=2)
    stepper = fx.Brownian(1e-3, potential=Bending(1.0) + Nothing(), **options)
    same = fx.simulate(fx.System(chain, box=1e3), x0, stepper, 30, every=10, rng=2)
    np.testing.assert_array_equal(one.x, same.x)


MELT = {
    "hybrid": fx.HybridMonteCarlo(0.04, leaps=3, ensemble="stiff", potential=WCA() + Bending(1.0)),
    "monte carlo": fx.MonteCarlo(ensemble="rigid", potential=WCA() + Bending(1.0), burn_in=3),
    "ideal": fx.MonteCarlo(ensemble="rigid", burn_in=3),
}


@pytest.mark.parametrize("name", quick(MELT, "monte carlo", "ideal"))
def test_workers_and_restarts_change_no_bit(small, tmp_path, name):
    system, x = small
    x0, path = np.stack([x, x, x]), tmp_path / "melt.fixman"
    whole = fx.simulate(system, x0, MELT[name], 12, every=4, rng=3)
    fx.simulate(system, x0, MELT[name], 4, every=4, rng=3, workers=2, out=path)
    resumed = fx.resume(path, steps=12, workers=3)
    for array in ("x", "v", "acceptance"):
        np.testing.assert_array_equal(getattr(resumed, array), getattr(whole, array))
    alone = fx.simulate(system, x, MELT[name], 12, every=4, rng=3)
    np.testing.assert_array_equal(alone.x[:, 0], whole.x[:, 0])
    assert 0.05 < whole.acceptance.mean() < 1.0
    for (chain, _), before, after in zip(
        system.kinds, system.split(x), system.split(whole.x[-1, 0]), strict=True
    ):
        np.testing.assert_allclose(chain.hard_values(after), chain.hard_values(before), rtol=1e-10)


# --- decisions ------------------------------------------------------------------------------------


def test_all_chains_go_on_or_none(small):
    system, x = small
    stepper = fx.HybridMonteCarlo(0.03, leaps=3, potential=WCA())
    state = stepper.start(system, x, None, 3, 1)
    seen = set()
    for _ in range(8):
        before, tally = state.x.copy(), state.tally.copy()
        stepper.advance(system, state, 1)
        for r in range(3):
            accepted = bool(state.tally[r, 1] > tally[r, 1])
            moved = (state.x[r] != before[r]).any(axis=1)
            assert moved.all() if accepted else not moved.any()
            seen.add(accepted)
    assert seen == {True, False}
    np.testing.assert_array_equal(state.tally[:, 0], 8.0)


@pytest.mark.thorough
def test_refusals_are_those_of_errors_of_the_energy_and_of_second_order(small):
    """⟨1 − min(1, e^(−ΔE/kT))⟩ of trajectories of `Newton`, which is proportional to dt²."""
    system, x = small
    potential = LennardJones(epsilon=0.1, cutoff=2.3, shift="force")
    stepper = fx.HybridMonteCarlo(0.05, leaps=6, potential=potential)
    run = fx.simulate(system, np.tile(x, (16, 1, 1)), stepper, 100, every=10, rng=1)
    starts = run.x[4:].reshape(-1, *x.shape)

    def expected(dt):
        stepper, steps = fx.Newton(dt, kT=1.0, potential=potential, drifting=True), round(0.12 / dt)
        run = fx.simulate(system, starts, stepper, steps, every=steps, rng=2)
        energy = bind(system, potential).energy(run.x)
        energy += 0.5 * np.sum(system.masses[:, None] * run.v**2, axis=(2, 3))
        return 1.0 - np.exp(-np.maximum(energy[1] - energy[0], 0.0))

    assert 3.0 < expected(0.015).mean() / expected(0.0075).mean() < 5.0
    refusals, steps = expected(0.06), 5
    stepper = fx.HybridMonteCarlo(0.06, leaps=2, potential=potential)
    found = 1.0 - fx.simulate(system, starts, stepper, steps, every=1, rng=3).acceptance
    error = np.hypot(found.std(ddof=1), refusals.std(ddof=1)) / np.sqrt(len(starts))
    assert 0.0 < error < 0.2 * refusals.mean()
    assert abs(found.mean() - refusals.mean()) < 4.0 * error


def words_of(words):
    return tuple(np.array(words, dtype=np.uint64))


def uniform(words):
    f, words = pivots.uniform(words)
    return f, words_of(words)


@pytest.mark.parametrize("box", [None, (5.0, 5.5, 6.0)])
def test_moves_are_decided_by_the_energy_of_all_beads(small, box):
    system, x = fx.System(small[0].kinds, box=box), small[1]
    potential = Bending(1.0) + LennardJones(epsilon=0.3, cutoff=2.3)
    stepper = fx.MonteCarlo(kT=1.5, potential=potential, burn_in=0)
    state = stepper.start(system, x, None, 1, 4)
    state.tally[:, 2] = width = 0.7
    words, bound, accepted = words_of(state.random[0, 0]), bind(system, potential), 0

    chains = [chain for chain, _ in system.kinds]

    def weight(x):
        halves = [0.5 * fx.logdet(c, y).sum() for c, y in zip(chains, system.split(x), strict=True)]
        return sum(halves) - bound.energy(x) / stepper.kT

    x, now, first = x.copy(), weight(x), 0
    for chain, many in system.kinds:
        table = moves(chain, np.ones(many))
        count, n = table.kinds.size, chain.n
        for _ in range(many * count):
            f, words = uniform(words)
            number, row = divmod(int(f * (many * count)), count)
            beads = slice(first + number * n, first + (number + 1) * n)
            y = x.copy()
            if table.kinds[row] == SHIFT:
                for a in range(3):
                    f, words = uniform(words)
                    y[beads, a] += width / math.pi * (2.0 * f - 1.0)
            else:
                X, Y = x[beads].ravel(), np.empty(3 * n)
                part, q, _, words = crankshafts.proposal(words, table, row, X, width, 3)
                words = words_of(words)
                crankshafts.turned(table, part, q, X, Y, 3)
                y[beads] = Y.reshape(n, 3)
            f, words = uniform(words)
            after = weight(y)
            if math.log(f) < after - now:
                x, now, accepted = y, after, accepted + 1
        first += many * n
    stepper.advance(system, state, 1)
    np.testing.assert_allclose(state.x[0], x, atol=1e-12)
    assert state.tally[0, 1] == accepted
    assert 0 < accepted < state.tally[0, 0]


# --- distributions --------------------------------------------------------------------------------


def measured(system, potential, x):
    """Return the energy between chains and cos² of bends, (frames, 2)."""
    u = np.diff(system.split(x)[0], axis=-2)
    squares = np.sum(u[..., 0, :] * u[..., 1, :], axis=-1) ** 2
    return np.stack([bind(system, potential).energy(x), squares.mean(axis=-1)], axis=-1)


@pytest.mark.thorough
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
@pytest.mark.parametrize("kind", ["hybrid", "monte carlo"])
def test_two_trimers_in_a_box_against_independent_ones(kind, ensemble):
    """Weighted: bonds and places are uniform with respect to δ(q_b) dx, times e^(−U/kT)."""
    chain = fx.Chain.linear(3, masses=[1.0, 0.3, 1.0])
    system, kT, rng = fx.System(chain, 2, box=3.0), 0.8, np.random.default_rng(1)
    potential = LennardJones(epsilon=0.5, sigma=0.6, cutoff=2.2)
    size = 40_000
    bonds = rng.normal(size=(size, 2, 2, 3))
    bonds /= np.linalg.norm(bonds, axis=-1, keepdims=True)
    x = np.concatenate([np.zeros((size, 2, 1, 3)), np.cumsum(bonds, axis=2)], axis=2)
    x += rng.uniform(0.0, 3.0, (size, 2, 1, 3))
    found = measured(system, potential, x.reshape(size, 6, 3))
    logs = -found[:, 0] / kT
    if ensemble == "rigid":
        logs += 0.5 * fx.logdet(chain, x).sum(axis=-1)
    weights = np.exp(logs - logs.max())
    exact = np.average(found, axis=0, weights=weights)
    spread = np.sqrt(np.sum((weights[:, None] * (found - exact)) ** 2, axis=0)) / weights.sum()

    replicas, options = 64, {"kT": kT, "ensemble": ensemble, "potential": potential}
    stepper = fx.HybridMonteCarlo(0.1, leaps=5, **options)
    if kind == "monte carlo":
        stepper = fx.MonteCarlo(burn_in=10, **options)
    steps = 200 if kind == "hybrid" else 120
    starts = x[rng.choice(size, replicas, p=weights / weights.sum())].reshape(replicas, 6, 3)
    run = fx.simulate(system, starts, stepper, steps, every=4, rng=2)
    assert 0.3 < run.acceptance.mean() < 0.97
    means = measured(system, potential, run.x[1:]).mean(axis=0)
    errors = means.std(axis=0, ddof=1) / np.sqrt(replicas)
    deviations = np.sqrt(np.average((found - exact) ** 2, axis=0, weights=weights))
    assert (errors < 0.05 * deviations).all()
    assert (np.abs(means.mean(axis=0) - exact) < 4.0 * np.hypot(errors, spread)).all()


@pytest.mark.parametrize("kind", ["hybrid", "monte carlo"])
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_ideal_chains_are_single_chains(kind, ensemble):
    chain, exact = fx.Chain.linear(3), 1.0 / 3.0
    if ensemble == "rigid":
        exact = fx.analytic.mean_square_cosines(2)[0]
    system = fx.System(chain, 5, box=4.0)
    stepper = fx.HybridMonteCarlo(0.25, leaps=4, ensemble=ensemble)
    if kind == "monte carlo":
        stepper = fx.MonteCarlo(ensemble=ensemble, burn_in=0)
    replicas = 64
    run = fx.simulate(system, fx.random_walks(system, replicas, rng=1), stepper, 200, rng=2)
    u = np.diff(system.split(run.x[20:])[0], axis=-2)
    squares = np.sum(u[..., 0, :] * u[..., 1, :], axis=-1) ** 2
    means = squares.mean(axis=(0, 2))
    error = means.std(ddof=1) / np.sqrt(replicas)
    assert error < 0.01
    assert abs(means.mean() - exact) < 4.0 * error


# --- refusals -------------------------------------------------------------------------------------


class Wall(Nothing):
    def energy(self, x):
        return 0.0 if x[:, 0].min() > -0.1 else math.inf


def test_walls(small):
    system, x = fx.System(small[0].kinds), small[1] - small[1].min(axis=0)
    stepper = fx.HybridMonteCarlo(0.02, potential=WCA() + Wall())
    run = fx.simulate(system, x, stepper, 20, every=1, rng=1)
    assert run.x[..., 0].min() > -0.1
    assert 0.0 < run.acceptance.mean() < 1.0
    with pytest.raises(ValueError, match="in a wall"):
        fx.simulate(system, x - 1.0, stepper, 1)


def test_refusals(small):
    system, x = small
    with pytest.raises(ValueError, match="HybridMonteCarlo and Langevin"):
        fx.simulate(system, x, fx.MonteCarlo(potential=Nothing()), 1)
    with pytest.raises(ValueError, match="v0 must be None"):
        fx.simulate(system, x, fx.HybridMonteCarlo(0.1), 1, v0=x)
    y = x.copy()
    y[5:10] = y[:5]
    for stepper in (fx.HybridMonteCarlo(0.01, potential=WCA()), fx.MonteCarlo(potential=WCA())):
        with pytest.raises(fx.SingularCoordinateError, match="bead 0 of chain 0 and bead 0 of"):
            fx.simulate(system, y, stepper, 1)
    soft = fx.System(fx.Chain.linear(4, hard=("length", "torsion")), 2, box=9.0)
    with pytest.raises(ValueError, match="HybridMonteCarlo"):
        fx.simulate(soft, fx.random_walks(soft, rng=1, angles=1.0)[0], fx.MonteCarlo(), 1)


@pytest.mark.thorough
def test_beads_without_a_bond_are_shifted():
    """The mean energy of two beads in a box, against a quadrature over their separation."""
    edge = 2.3
    r = np.linspace(1e-3, 2.0 ** (1 / 6), 20001)
    u = 4.0 * (r**-12 - r**-6) + 1.0
    shell = 4.0 * np.pi * r * r
    weight = shell * np.exp(-u)
    energy = np.trapezoid(u * weight, r) / (edge**3 - np.trapezoid(shell - weight, r))
    system = fx.System(fx.Chain.linear(1), 2, box=edge)
    stepper, x0 = fx.MonteCarlo(potential=WCA(), burn_in=20), np.array([[0.0, 0, 0], [1.1, 1, 0]])
    run = fx.simulate(system, x0, stepper, 4000, every=4, replicas=16, rng=1)
    assert 0.2 < run.acceptance.min() < run.acceptance.max() < 1.0
    found = fx.observables.mean_with_error(bind(system, WCA()).energy(run.x))
    assert abs(found.value - energy) < 4.0 * found.error < 0.2 * energy
