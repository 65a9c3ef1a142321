"""Hybrid Monte Carlo: a step against plain dense mechanics, the same bits, refusals.

What it samples is in `statistics/test_hybrid.py`.
"""

import inspect
import json

import numba
import numpy as np
import pytest

import fixman as fx
import oracles
from fixman.chains.projection_tables import projections
from fixman.kernels.algebra.random import fill_normals
from fixman.kernels.compiler.lanes import exact_kernel, memory
from fixman.kernels.simulation import constraints
from fixman.potentials.energies import WCA, Bending, Compiled, Gravity, bind
from fixman.simulation.steppers import HybridMonteCarlo, State, from_parameters
from selection import quick

COMB = [-1, 0, 1, 2, 0, 1, 2, 4]
BENT = ("length", "angle")


def masses(n):
    return np.random.default_rng(n).uniform(0.5, 2.0, n)


CHAINS = {
    "jointed": fx.Chain.linear(6, masses=masses(6)),
    "arm": fx.Chain.linear(6, dim=2, base="fixed", masses=masses(6)),
    "rotating": fx.Chain.linear(6, hard=BENT, masses=masses(6)),
    "ring": fx.Chain.ring(6, masses=masses(6)),
    "comb, angles": fx.Chain.branched(COMB, hard=BENT, masses=masses(8)),
    "rotating, fixed": fx.Chain.linear(4, base="fixed", hard=BENT),
}
BIG = {"jointed": 0.25, "arm": 0.2, "ring": 0.15}  # time steps of which some are refused


def walks(chain, size, seed=0):
    count = np.count_nonzero(chain.layout.rows.kinds == 4)
    angles = np.random.default_rng(seed).uniform(0.9, 1.4, count)
    return fx.random_walks(chain, size, angles=angles, rng=seed)


def dt_of(name):
    return BIG.get(name, 0.03)


def same(a, b, which=slice(None)):
    keys = ("x", "v", "random", "tally")
    return all(np.array_equal(a.arrays()[k][which], b.arrays()[k]) for k in keys)


def some(state, which):
    """Return a state of some of the replicas."""
    arrays = state.arrays()
    return State.from_arrays({k: a if k == "step" else a[which] for k, a in arrays.items()})


class Quartic:
    def energy(self, x):
        return 0.05 * float((x**4).sum())

    def force(self, x):
        return -0.2 * x**3


@numba.njit
def quartic_energy(x):
    return 0.05 * (x**4).sum()


@numba.njit
def quartic_force(x, out):
    out[:] = -0.2 * x**3


# --- plain dense mechanics ------------------------------------------------------------------------


def uniform(words):
    """Return the next number in [0, 1) of a stream, xoshiro256++."""
    s, low = [int(word) for word in words], 2**64 - 1

    def rotated(x, k):
        return ((x << k) | (x >> (64 - k))) & low

    bits = (rotated((s[0] + s[3]) & low, 23) + s[0]) & low
    t = (s[1] << 17) & low
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= t
    s[3] = rotated(s[3], 45)
    words[:] = s
    return (bits >> 11) * 2.0**-53


class Dense:
    """A step of hybrid Monte Carlo of one chain, dense and from the definition."""

    def __init__(self, chain, stepper):
        self.chain, self.stepper, self.spec = chain, stepper, oracles.Spec.of(chain)
        self.bound = bind(chain, stepper.potential)
        self.w = 1.0 / self.spec.mm
        self.elsewhere = 0  # leaps that do not lead back

    def hard(self, x):
        """Return half the squares of lengths, and angles; and their Wilson rows."""
        q = oracles.internal(self.spec, x, self.spec.hard)
        B = oracles.wilson_b(self.spec, x, self.spec.hard)
        lengths = [self.spec.rows[i][0] == "length" for i in self.spec.hard]
        return np.where(lengths, 0.5 * q * q, q), np.where(lengths, q, 1.0)[:, None] * B

    def along(self, x, v):
        """Project a velocity."""
        B = oracles.wilson_b(self.spec, x, self.spec.hard)
        push = np.linalg.solve((B * self.w) @ B.T, B @ v.ravel())
        return v - (self.w * (B.T @ push)).reshape(v.shape)

    def leap(self, x, v):
        """RATTLE, the constraints solved by Newton's method; and whether this has an answer."""
        h, w = self.stepper.dt, self.w.reshape(x.shape)
        v = v + 0.5 * h * w * self.force(x)
        goal, B0 = self.hard(x)
        y = x + h * v
        for _ in range(12):
            q, B = self.hard(y)
            push = np.linalg.solve((B * self.w) @ B0.T, oracles.wrapped(goal - q))
            y = y + (self.w * (B0.T @ push)).reshape(x.shape)
        if np.abs(oracles.wrapped(goal - self.hard(y)[0])).max() > 1e-10:
            return x, v, False
        return y, self.along(y, (y - x) / h + 0.5 * h * w * self.force(y)), True

    def force(self, x):
        force = self.bound.force(x)
        if self.stepper.ensemble == "stiff":
            force = force + fx.fixman_force(self.chain, x, self.stepper.kT)
        return force

    def energy(self, x, v):
        total = 0.5 * (self.spec.m[:, None] * v * v).sum() + self.bound.energy(x)
        if self.stepper.ensemble == "stiff":
            total += 0.5 * self.stepper.kT * oracles.hard_logdet(self.spec, x)[0]
        return total

    def step(self, x, words):
        """Return positions, velocities and whether they are new."""
        xi = np.empty(x.size)
        fill_normals(words, 0, x.size, xi, 0, 1)
        v = np.sqrt(self.stepper.kT * self.w).reshape(x.shape) * xi.reshape(x.shape)
        v = self.along(x, v)
        y, u, possible = x, v, True
        for _ in range(self.stepper.leaps):
            if possible:
                before = y
                y, u, possible = self.leap(y, u)
                back, _, found = self.leap(y, -u)
                there = found and np.abs(back - before).max() < 1e-6
                self.elsewhere += possible and not there
                possible &= there
        change = (self.energy(y, u) - self.energy(x, v)) / self.stepper.kT
        moved = uniform(words) < np.exp(-change) and possible
        return (y, u, True) if moved else (x, v, False)


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
@pytest.mark.parametrize("name", quick(CHAINS, "jointed"))
def test_a_step_is_that_of_dense_mechanics(name, ensemble):
    chain, size = CHAINS[name], 8
    potential = Bending(1.0) + Gravity((0.3, -0.2, 0.1)[: chain.dim]) + Quartic()
    stepper = HybridMonteCarlo(dt_of(name), kT=1.3, leaps=3, ensemble=ensemble, potential=potential)
    state = stepper.start(chain, walks(chain, size), None, size, 2)
    dense, x, words = Dense(chain, stepper), state.x.copy(), state.random.copy()
    accepted = 0
    for step in range(1, 5):
        stepper.advance(chain, state, 1)
        for r in range(size):
            x[r], v, moved = dense.step(x[r], words[r])
            accepted += moved
            assert np.abs(state.x[r] - x[r]).max() < 1e-9
            assert np.abs(state.v[r] - v).max() < 1e-8
        assert state.tally[:, :2].sum(axis=0).tolist() == [step * size, accepted]
        x = state.x.copy()
    assert np.array_equal(words, state.random)
    assert np.all(state.tally[:, 2] == stepper.dt)
    assert 0 < accepted <= 4 * size
    if name in BIG:
        assert accepted < 4 * size  # of both kinds there are some


@exact_kernel
def logdet(x, targets, system, out):
    space = constraints.room(system, targets, 0.0)
    X = memory(x.size, 0.0)
    X[:] = x
    constraints.factor(system, space, X, 0.0)
    out[0] = constraints.logdet(system, space, 0.0)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHAINS)
def test_the_determinant_of_a_step(name):
    # But for a constant of the hard values.
    chain = CHAINS[name]
    x = walks(chain, 5)
    targets = chain.layout.hard_rows.values(x)[0]
    system, ghosts, goals = projections(chain, targets)
    fixed = np.array([[-1.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = np.empty((5, 1))
    for r in range(5):
        points = np.concatenate([fixed[3 - ghosts :, : chain.dim], x[r]])
        logdet(points.ravel(), goals[r], system, found[r])
    wanted = fx.logdet(chain, x)
    assert np.ptp(wanted) > 0.1
    assert np.ptp(found[:, 0] - wanted) < 1e-12


# --- the same bits --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "potential"),
    quick([(name, None) for name in CHAINS])
    + quick([("jointed", Bending(2.0) + WCA(sigma=0.8)), ("comb, angles", Quartic())]),
)
def test_the_same_bits_in_any_company_and_on_the_manifold(name, potential):
    chain = CHAINS[name]
    stepper = HybridMonteCarlo(dt_of(name), leaps=3, ensemble="stiff", potential=potential)
    start = stepper.start(chain, walks(chain, 11), None, 11, 3)
    together = some(start, np.arange(11))
    stepper.advance(chain, together, 25, workers=2)
    assert together.step == 25
    assert np.array_equal(together.tally[:, 0], np.full(11, 25.0))
    order = np.random.default_rng(1).permutation(11)[:10]  # two are left over from eight
    others = some(start, order)
    for steps in (1, 20, 4):
        stepper.advance(chain, others, steps)
    assert same(together, others, order)
    alone = some(start, order[:1])
    for steps in (3, 22):
        stepper.advance(chain, alone, steps)
    assert same(together, alone, order[:1])

    rows = chain.layout.hard_rows
    assert np.abs(rows.values(together.x)[0] - together.targets).max() < 1e-10
    for x, v in zip(together.x, together.v, strict=True):
        assert np.abs(fx.wilson_b(chain, x)[chain.hard] @ v.ravel()).max() < 1e-11


@pytest.mark.thorough
def test_ones_own_energies_are_as_good_as_others():
    chain = CHAINS["jointed"]
    states = []
    for potential in (
        Quartic(),
        Compiled(quartic_force, Quartic().energy),
        Compiled(quartic_force, quartic_energy),
    ):
        stepper = HybridMonteCarlo(0.2, leaps=4, potential=potential)
        state = stepper.start(chain, walks(chain, 9), None, 9, 3)
        stepper.advance(chain, state, 20)
        states.append(state)
    assert np.array_equal(states[0].tally, states[1].tally)
    assert np.array_equal(states[0].tally, states[2].tally)
    for other in states[1:]:
        assert np.abs(other.x - states[0].x).max() < 1e-9


@pytest.mark.thorough
def test_a_run_goes_on_bit_for_bit_and_knows_its_acceptance(tmp_path):
    chain, stepper = CHAINS["ring"], HybridMonteCarlo(0.4, leaps=4)
    x0 = walks(chain, 3)
    whole = fx.simulate(chain, x0, stepper, 60, every=6, rng=1)
    fx.simulate(chain, x0, stepper, 24, every=6, rng=1, out=tmp_path / "run")
    again = fx.resume(tmp_path / "run", 60, workers=2)
    assert np.array_equal(whole.x, again.x)
    assert np.array_equal(whole.v, again.v)
    moved = (np.diff(fx.simulate(chain, x0, stepper, 60, every=1, rng=1).x, axis=0) != 0.0).any(
        axis=(2, 3)
    )
    assert np.array_equal(again.acceptance, moved.mean(axis=0))
    assert 0.0 < again.acceptance.mean() < 1.0


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("name", quick(CHAINS, "jointed"))
def test_leaps_without_a_solution_are_refused(name):
    chain, stepper = CHAINS[name], HybridMonteCarlo(3.0, leaps=2)
    start = stepper.start(chain, walks(chain, 9), None, 9, 3)
    state = some(start, np.arange(9))
    stepper.advance(chain, state, 10)
    refused = state.tally[:, 1] == 0
    assert refused.sum() > 4
    assert np.array_equal(state.x[refused], start.x[refused])
    for x, v in zip(state.x, state.v, strict=True):  # of what was kept, and drawn anew
        assert np.abs(fx.wilson_b(chain, x)[chain.hard] @ v.ravel()).max() < 1e-11
    assert not np.any(state.v == start.v)
    assert np.unique(state.v.ravel()).size >= state.v.size // 2


@pytest.mark.parametrize("name", quick(BIG, "jointed"))
def test_a_leap_that_does_not_lead_back_is_refused(name):
    # Newton's method finds a solution, but on the way back it finds another one.
    chain, stepper, size = CHAINS[name], HybridMonteCarlo(0.5, leaps=1), 96
    dense = Dense(chain, stepper)
    state = stepper.start(chain, walks(chain, size), None, size, 3)
    before = some(state, np.arange(size))
    stepper.advance(chain, state, 1)
    moved = (state.x != before.x).any(axis=(1, 2))
    found = [dense.step(before.x[r], before.random[r]) for r in range(size)]
    wanted = np.array([new for _, _, new in found])
    assert not np.any(moved & ~wanted)
    assert np.mean(wanted & ~moved) < 0.1  # steps give up earlier: at lost pivots, or with chords
    for r in np.flatnonzero(moved):
        assert np.abs(state.x[r] - found[r][0]).max() < 1e-9
    assert moved.sum() > 10
    assert dense.elsewhere > 5


@pytest.mark.thorough
def test_walls_are_never_crossed():
    class Wall:
        def energy(self, x):
            return 0.0 if x[0, 0] > 0.0 else np.inf

        def force(self, x):
            return np.zeros_like(x)

    chain = fx.Chain.linear(3)
    x0 = np.arange(9.0).reshape(3, 3)[:, [0, 1, 2]] / np.sqrt(27.0) + 0.5
    stepper = HybridMonteCarlo(0.3, leaps=3, potential=Wall())
    state = stepper.start(chain, x0, None, 9, 3)
    for _ in range(20):
        stepper.advance(chain, state, 1)
        assert np.all(state.x[:, 0, 0] > 0.0)
    assert 0.3 < state.tally[:, 1].sum() / state.tally[:, 0].sum() < 0.95


# --- errors ---------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_what_cannot_be_is_refused():
    chain, x = fx.Chain.linear(4), np.arange(4)[:, None] * np.array([1.0, 0.0, 0.0])
    with pytest.raises(ValueError, match="draws new ones"):
        HybridMonteCarlo(0.1).start(chain, x, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="no energy: give Compiled one, energy="):
        HybridMonteCarlo(0.1, potential=Compiled(quartic_force)).start(chain, x)
    with pytest.raises(fx.SingularCoordinateError, match="bead 0 and bead 2 coincide"):
        HybridMonteCarlo(0.1, potential=WCA()).start(chain, x[[0, 1, 0, 1]])
    with pytest.raises(ValueError, match="leaps must be"):
        HybridMonteCarlo(0.1, leaps=0)
    with pytest.raises(ValueError, match="'rigid' or 'stiff'"):
        HybridMonteCarlo(0.1, ensemble="mobility")
    for options in ({"dt": 0.0}, {"dt": 0.1, "kT": -1.0}, {"dt": 0.1, "tolerance": np.nan}):
        with pytest.raises(ValueError, match="must be positive"):
            HybridMonteCarlo(**options)

    class Infinite(Quartic):
        def energy(self, x):
            return np.inf

    with pytest.raises(ValueError, match="returned inf: it must be finite"):
        HybridMonteCarlo(0.1, potential=Infinite()).start(chain, x)


def test_what_an_energy_raises_comes_through():
    class Sometimes(Quartic):
        calls = 0

        def energy(self, x):
            self.calls += 1
            if self.calls > 10:
                raise ZeroDivisionError("mine")
            return super().energy(x)

    chain, potential = fx.Chain.linear(3), Bending(1.0) + Gravity((0.3, -0.2, 0.1)) + Sometimes()
    stepper = HybridMonteCarlo(0.1, potential=potential)
    state = stepper.start(chain, np.arange(3)[:, None] * [1.0, 0, 0], replicas=2, rng=1)
    before = some(state, slice(None))
    with pytest.raises(ZeroDivisionError, match="mine"):
        stepper.advance(chain, state, 10)
    assert same(before, state)


def test_parameters_make_the_stepper_again():
    stepper = HybridMonteCarlo(
        0.1, kT=2.0, leaps=7, ensemble="stiff", potential=Bending(2.0), tolerance=1e-11
    )
    text = json.loads(json.dumps(stepper.parameters()))
    assert text["name"] == "hybrid"
    assert from_parameters(text) == stepper
    names = list(inspect.signature(HybridMonteCarlo).parameters)
    assert names == ["dt", "kT", "leaps", "ensemble", "potential", "tolerance"]
    with pytest.raises(TypeError, match="positional argument"):
        HybridMonteCarlo(0.1, 1.0)
