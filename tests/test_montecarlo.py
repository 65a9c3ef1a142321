"""Monte Carlo: decisions against weights found otherwise, moves, bits, errors.

Ensembles are tested in `statistics`.
"""

import json
import math

import numba
import numpy as np
import pytest
from scipy import stats
from scipy.spatial.transform import Rotation

import fixman as fx
from fixman.kernels.chain.rows import LENGTH
from fixman.kernels.sampling import crankshafts, pivots
from fixman.kernels.sampling.crankshafts import LINE, POINT, RING, SHIFT
from fixman.potentials.energies import WCA, Bending, Compiled, Gravity, Sum, Tension, Tether, bind
from fixman.sampling.random_walks import random_walks
from fixman.simulation.steppers import MonteCarlo, State, from_parameters, montecarlo
from fixman.simulation.steppers.moves import moves
from selection import quick

ANGLES = ("length", "angle")
COMB = [-1, 0, 1, 2, 0, 1, 2, 4]
# A tail, a square with an arm, and a triangle that hangs on it.
LARIAT = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 1), (3, 5), (5, 6), (6, 7), (7, 5)]


def masses(n):
    return np.random.default_rng(n).uniform(0.3, 3.0, n)


BONDS = {
    "free": fx.Chain.linear(9, masses=masses(9)),
    "fixed": fx.Chain.linear(8, base="fixed", masses=masses(8)),
    "plane": fx.Chain.linear(9, dim=2, masses=masses(9)),
    "arm": fx.Chain.linear(8, dim=2, base="fixed", masses=masses(8)),
    "dumbbell": fx.Chain.linear(2),
}
ROTATING = {
    "rotating": fx.Chain.linear(9, hard=ANGLES, masses=masses(9)),
    "butane": fx.Chain.linear(4, hard=ANGLES),
}
# Siblings that are held to each other, to what is before, or to both: bits of the chart's angles.
STAR = [-1, 0, 0, 0, 1, 1, 4, 4]
SIBLINGS = [
    (bits << (base == "free"), base, dim)  # the first angle of a free one is a direction in space
    for bits in (0b1, 0b11, 0b110011, 0b1010101, 0b100110, 0b1100)
    for base in ("free", "fixed")
    for dim in (2, 3)
]


def siblings(bits, base, dim):
    """Return a tree of hard bonds with some of its angles."""
    every = fx.Chain.branched(STAR, base=base, dim=dim).coordinates
    angles = [k for k, one in enumerate(every) if one.kind == "angle"]
    mask = np.array([one.kind == "length" for one in every])
    mask[[k for place, k in enumerate(angles) if bits >> place & 1]] = True
    return fx.Chain.branched(STAR, base=base, dim=dim, hard=mask)


PARTS = {
    "linear": fx.Chain.linear(6, masses=masses(6)),
    "fixed": fx.Chain.linear(5, base="fixed", masses=masses(5)),
    "plane": fx.Chain.linear(6, dim=2),
    "comb": fx.Chain.branched(COMB, masses=masses(8)),
    "ring": fx.Chain.ring(6, masses=masses(6)),
    "rings": fx.Chain.from_bonds(8, LARIAT, masses=masses(8)),
    "rings, fixed": fx.Chain.from_bonds(8, LARIAT, base="fixed"),
    "rotating": fx.Chain.linear(6, hard=ANGLES, masses=masses(6)),
    "rotating, fixed": fx.Chain.linear(5, hard=ANGLES, base="fixed"),
    "comb, angles": fx.Chain.branched(COMB, hard=ANGLES, masses=masses(8)),
    "star, angles": fx.Chain.branched([-1, 0, 0, 0, 1, 2], hard=ANGLES),
    "rigid": fx.Chain.branched([-1, 0, 0], dim=2, hard=ANGLES),
} | {f"siblings {k}": siblings(*case) for k, case in enumerate(SIBLINGS)}


def start_of(chain, replicas=1, rng=3):
    angles = any(chain.coordinates[k].kind == "angle" for k in chain.hard)
    return random_walks(chain, replicas, rng=rng, **({"angles": 1.0} if angles else {}))


def stream(seed=5):
    return words_of(np.random.default_rng(seed).integers(0, 2**63, 4))


def words_of(words):
    """Four words of a stream, as kernels hand them on."""
    return tuple(np.array(words, dtype=np.uint64))


def uniform(words):
    f, words = pivots.uniform(words)
    return f, words_of(words)


def turn(words, width, dim):
    q, words = pivots.turn(words, width, dim)
    return q, words_of(words)


# --- sweeps of pivots -----------------------------------------------------------------------------


def swept(chain, x, lengths, words, width, backward, ensemble):
    """Positions after a sweep decided by ln det of whole configurations; how many accepted.

    With hard angles the bonds ahead turn about the one before them.
    """
    torsions = "angle" in {chain.coordinates[k].kind for k in chain.hard}
    base = chain.base == "fixed"

    def positions(b):
        x = np.cumsum(lengths[:, None] * b, axis=0)
        return (x if base else np.concatenate([np.zeros((1, 3)), x]))[:, : chain.dim]

    joints = np.concatenate([np.zeros((1, chain.dim)), x]) if base else x
    units = np.zeros((lengths.size, 3))
    units[:, : chain.dim] = np.diff(joints, axis=0) / lengths[:, None]
    order = np.arange(lengths.size)[:: -1 if backward else 1]
    accepted = 0
    for place in range(2 if torsions else 0, lengths.size):
        ahead = order[place:]
        if torsions:
            c, s, words = pivots.spin(words, width)
            q, words = (c, *(s * units[order[place - 1]])), words_of(words)
        else:
            q, words = turn(words, width, chain.dim)
        trial = units.copy()
        trial[ahead] = Rotation.from_quat(np.roll(q, -1)).apply(units[ahead])
        if place:
            change = 0.0
            if ensemble == "rigid":
                f, words = uniform(words)
                now, then = (fx.logdet(chain, positions(b)) for b in (units, trial))
                change = 0.5 * (then - now) - math.log(f)
            if change < 0.0:
                continue
            accepted += 1
        units = trial
    moved = positions(units)
    if not base:
        moved += np.average(x - moved, axis=0, weights=chain.masses)
    return moved, accepted, words


@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
@pytest.mark.parametrize("name", quick([*BONDS, *ROTATING], "free", "rotating"))
def test_sweeps_decide_by_the_determinant_of_the_whole_chain(name, ensemble):
    chain = (BONDS | ROTATING)[name]
    bonds = chain.n - (chain.base == "free")
    angles = {"angles": np.linspace(0.7, 1.5, chain.n - 1)} if name in ROTATING else {}
    x = random_walks(chain, 1, rng=2, lengths=np.linspace(0.5, 2.0, bonds), **angles)
    stepper = MonteCarlo(ensemble=ensemble, burn_in=0)
    state = stepper.start(chain, x, rng=1)
    state.tally[:, 2] = 2.5
    lengths = state.targets[0, chain.layout.hard_rows.kinds == LENGTH]
    x, words, accepted = state.x[0], words_of(state.random[0]), 0
    for step in range(8):
        stepper.advance(chain, state, 1)
        given = lengths, words, 2.5, step % 2, ensemble
        x, more, words = swept(chain, x, *given)
        accepted += more
        np.testing.assert_allclose(state.x[0], x, rtol=0.0, atol=1e-12)
        assert words_of(state.random[0]) == words
    tried = 8 * (lengths.size - (2 if name in ROTATING else 1))
    assert state.tally[0].tolist() == [tried, accepted, 2.5]
    assert ensemble == "stiff" or tried < 20 or accepted < tried


def test_the_pivots_of_a_sweep_are_those_of_the_chain():
    chain = fx.Chain.linear(40, masses=np.geomspace(1.0, 100.0, 40))
    x = random_walks(chain, 1, rng=2)[0]
    units, w = np.diff(x, axis=0), chain.layout.links[0]
    rest, words = np.empty(39), stream()
    for _ in range(50):  # without a look at positions in between
        accepted, words = pivots.sweep(words, units, w, rest, 2.0, (3, True))
        words = words_of(words)
        assert 0 < accepted < 39
    x = np.concatenate([np.zeros((1, 3)), np.cumsum(units, axis=0)])
    assert abs(np.log(w[1:] + rest).sum() - fx.logdet(chain, x)) < 1e-12


@pytest.mark.parametrize("width", [math.pi, 1.0])
def test_turns_are_uniform_up_to_their_width(width):
    words, found = stream(), []
    for _ in range(2000):
        q, words = turn(words, width, 3)
        found.append(q)
    found = np.array(found)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0, atol=1e-15)
    angles = 2.0 * np.arctan2(np.linalg.norm(found[:, 1:], axis=1), found[:, 0])

    def cumulative(phi):
        return (phi - np.sin(phi)) / (width - np.sin(width))

    assert stats.kstest(angles, cumulative).pvalue > 1e-3
    axes = found[:, 1:] / np.linalg.norm(found[:, 1:], axis=1, keepdims=True)
    for component in axes.T:
        assert stats.kstest(component, stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("width", [0.0, math.nan])
def test_no_width_turns_for_ever(width):
    q, _ = turn(stream(), width, 3)
    assert width or q == (1.0, 0.0, 0.0, 0.0)


# --- moves of parts -------------------------------------------------------------------------------


def turned(table, row, x, seed, width=1.0):
    """Return a configuration after one move."""
    n, dim = x.shape
    X = np.concatenate([table.front, x.ravel()])
    Y = np.empty_like(X)
    part, q, exists, _ = crankshafts.proposal(stream(seed), table, row, X, width, dim)
    assert exists
    crankshafts.turned(table, part, q, X, Y, dim)
    return Y[table.front.size :].reshape(n, dim)


@pytest.mark.parametrize("name", PARTS)
def test_moves_keep_what_is_hard_and_reach_all_that_is_soft(name):
    chain = PARTS[name]
    x, table = start_of(chain)[0], moves(chain)
    ways = []
    for row, kind in enumerate(table.kinds):
        assert kind != SHIFT
        for seed in range(24 if kind == RING else 4):
            y = turned(table, row, x, seed)
            np.testing.assert_allclose(chain.hard_values(y), chain.hard_values(x), atol=1e-13)
            assert np.abs(y - x).max() > 1e-3 or chain.n == 2
            ways.append((turned(table, row, x, seed, 1e-5) - x).ravel())
    if chain.base == "free":
        ways += list(np.tile(np.eye(chain.dim), (1, chain.n)))
    ways = np.array([way / np.linalg.norm(way) for way in ways if np.linalg.norm(way) > 0.0])
    sizes = np.linalg.svd(ways, compute_uv=False)
    assert (sizes > 1e-3).sum() == chain.n * chain.dim - chain.hard.size
    assert (sizes[(sizes <= 1e-3)] < 1e-4).all()


def decided(chain, stepper, table, x, words, width):
    """Positions after a sweep whose weights are the library's other functions."""
    bound, accepted = bind(chain, stepper.potential), 0

    def log_weight(x):
        half = 0.5 * fx.logdet(chain, x) if stepper.ensemble == "rigid" else 0.0
        return half - bound.energy(x) / stepper.kT

    for _ in range(table.kinds.size):
        f, words = uniform(words)
        row = int(f * table.kinds.size)
        if table.kinds[row] == SHIFT:
            y = x.copy()
            for a in range(chain.dim):
                f, words = uniform(words)
                y[:, a] += table.steps[0] * width / math.pi * (2.0 * f - 1.0)
        else:
            X = np.concatenate([table.front, x.ravel()])
            Y = np.empty_like(X)
            part, q, _, words = crankshafts.proposal(words, table, row, X, width, chain.dim)
            words = words_of(words)
            crankshafts.turned(table, part, q, X, Y, chain.dim)
            y = Y[table.front.size :].reshape(x.shape)
        f, words = uniform(words)
        if math.log(f) < log_weight(y) - log_weight(x):
            x = y
            accepted += 1
    return x, accepted, words


DECIDED = {
    "rigid": ("rings", "rigid", None),
    "potential": ("comb, angles", "rigid", Bending(1.0, angle=0.5) + WCA(sigma=0.9)),
    "stiff": ("ring", "stiff", Bending(2.0)),
    "place": ("linear", "rigid", Tether(1, (0.5, 0.0, 0.0), 3.0)),
    "fixed": ("fixed", "rigid", Gravity((0.0, 0.0, -1.0)) + Tension((1.0, 0.0, 0.0))),
    "plane": ("plane", "rigid", Bending(2.0)),
}


@pytest.mark.parametrize("case", quick(DECIDED, "rigid", "place"))
def test_moves_are_decided_by_weights_of_the_whole_chain(case):
    name, ensemble, potential = DECIDED[case]
    chain = PARTS[name]
    stepper = MonteCarlo(kT=0.7, ensemble=ensemble, potential=potential, burn_in=0)
    state = stepper.start(chain, start_of(chain), rng=4)
    state.tally[:, 2] = 2.0
    table = moves(chain, np.ones(1) if case == "place" else None)
    x, words, accepted = state.x[0], words_of(state.random[0]), 0
    for _ in range(12):
        stepper.advance(chain, state, 1)
        x, more, words = decided(chain, stepper, table, x, words, 2.0)
        accepted += more
        np.testing.assert_allclose(state.x[0], x, rtol=0.0, atol=1e-11)
    tried = 12 * table.kinds.size
    assert state.tally[0].tolist() == [tried, accepted, 2.0]
    assert 0 < accepted < tried


# --- the same bits --------------------------------------------------------------------------------

KINDS = {
    "bonds": (BONDS["free"], None),
    "ring": (PARTS["ring"], None),
    "potential": (PARTS["rotating"], WCA()),
    "torsions": (ROTATING["rotating"], None),
}


@pytest.mark.parametrize("kind", quick(KINDS, "bonds", "ring"))
def test_bits_do_not_depend_on_workers_or_calls(kind, monkeypatch):
    monkeypatch.setattr(montecarlo, "HELD", 100)
    chain, potential = KINDS[kind]
    stepper = MonteCarlo(potential=potential, burn_in=3)
    x0 = start_of(chain, 5)
    one, many, some = (stepper.start(chain, x0, None, 5, 1) for _ in range(3))
    stepper.advance(chain, one, 111)  # over one correction
    stepper.advance(chain, many, 111, workers=3)
    some = State.from_arrays(some.arrays())
    for steps in (1, 60, 50):
        stepper.advance(chain, some, steps)
    alone = stepper.start(chain, x0[:1], None, 1, 1)
    stepper.advance(chain, alone, 111)
    for other in (many, some):
        for name, array in one.arrays().items():
            assert np.array_equal(array, other.arrays()[name]), name
    assert np.array_equal(alone.x, one.x[:1])
    assert not one.v.any()
    assert one.step == 111


def test_bits_of_shifts_do_not_depend_on_calls_or_replicas():
    chain = fx.Chain.linear(3)
    stepper = MonteCarlo(potential=Tether(0, (0.1, 0.2, 0.3), 2.0), burn_in=0)
    x0 = start_of(chain, 2) * [[[1.0]], [[1.7]]]
    whole, parts = (stepper.start(chain, x0, None, 2, 1) for _ in range(2))
    stepper.advance(chain, whole, 20)
    for _ in range(20):
        parts = State.from_arrays(parts.arrays())
        stepper.advance(chain, parts, 1)
    assert np.array_equal(whole.x, parts.x)
    second = {
        name: array[1:]
        for name, array in stepper.start(chain, x0, None, 2, 1).arrays().items()
        if array.ndim
    }
    alone = State.from_arrays({**second, "step": np.array(0)})
    stepper.advance(chain, alone, 20)
    assert np.array_equal(whole.x[1:], alone.x)


@pytest.mark.parametrize("kind", quick(["bonds", "potential"], "bonds"))
def test_a_run_goes_on_from_its_folder(kind, tmp_path):
    chain, potential = KINDS[kind]
    stepper = MonteCarlo(potential=potential, burn_in=2)
    x0 = start_of(chain, 2)
    whole = fx.simulate(chain, x0, stepper, 8, every=2, rng=1)
    fx.simulate(chain, x0, stepper, 4, every=2, rng=1, out=tmp_path / "run")
    later = fx.resume(tmp_path / "run", 8)
    assert np.array_equal(whole.x, later.x)
    assert np.array_equal(whole.acceptance, later.acceptance)
    assert (later.acceptance > 0.3).all()
    again = from_parameters(json.loads(json.dumps(stepper.parameters())))
    assert again == stepper


def test_hard_values_and_place_stay():
    for chain in (BONDS["free"], PARTS["rotating"], PARTS["rings"]):
        state = MonteCarlo(burn_in=0).start(chain, start_of(chain, 2) + 7.0, None, 2, 1)
        before = state.x.copy()
        MonteCarlo(burn_in=0).advance(chain, state, 500)
        np.testing.assert_allclose(chain.hard_values(state.x), state.targets, atol=1e-12)
        assert np.abs(state.x - before).max() < chain.n
    chain = BONDS["free"]
    state = MonteCarlo(burn_in=0).start(chain, start_of(chain), rng=1)
    centre = np.average(state.x[0], axis=0, weights=chain.masses)
    MonteCarlo(burn_in=0).advance(chain, state, 500)
    np.testing.assert_allclose(
        np.average(state.x[0], axis=0, weights=chain.masses), centre, atol=1e-12
    )


def test_long_sweeps_of_torsions_keep_what_is_hard():
    chain = fx.Chain.linear(200, hard=ANGLES)
    stepper = MonteCarlo(burn_in=0)
    state = stepper.start(chain, start_of(chain), rng=1)
    stepper.advance(chain, state, 5)
    np.testing.assert_allclose(chain.hard_values(state.x), state.targets, atol=1e-12)


# --- the width ------------------------------------------------------------------------------------


def test_burn_in_fits_the_width_to_half_of_the_moves():
    chain, stiff = fx.Chain.linear(12), Bending(60.0)
    x0 = np.zeros((4, 12, 3))
    x0[:, :, 0] = np.arange(12)
    wide = MonteCarlo(potential=stiff, burn_in=0).start(chain, x0, None, 4, 1)
    assert (wide.tally == [0.0, 0.0, math.pi]).all()
    stepper = MonteCarlo(potential=stiff)
    state = stepper.start(chain, x0, None, 4, 1)
    widths = state.tally[:, 2].copy()
    assert (state.tally[:, :2] == 0.0).all()
    assert state.step == 0
    assert (widths < 1.0).all()
    assert np.unique(widths).size == 4
    stepper.advance(chain, state, 200)
    tried, accepted, after = state.tally.T
    assert (after == widths).all()
    assert (np.abs(accepted / tried - 0.5) < 0.15).all()


# --- potentials of one's own, and errors ----------------------------------------------------------


@numba.njit
def untouched(x, out):
    pass


class Box:
    """All beads within 4 of the planes through the origin; flat there."""

    def energy(self, x):
        return np.inf if np.abs(x).max() > 4.0 else 0.0


@pytest.mark.parametrize(
    ("potential", "shifts"),
    [
        (None, False),
        (Bending(1.0) + WCA() + Tension((0.0, 0.0, 1.0), ends=(0, 3)), False),
        (Sum((Sum((Bending(1.0),)), Sum((Bending(1.0), Box())))), True),
        (Gravity((0.0, 0.0, 0.0)), True),
        (Tether(0, (0.0, 0.0, 0.0), 0.0), True),
        (Compiled(untouched, lambda x: 0.0), True),
    ],
)
def test_all_potentials_that_may_depend_on_place_have_shifts(potential, shifts):
    """However flat they are where the chain is."""
    for base in ("free", "fixed"):
        chain = fx.Chain.branched(COMB, base=base)
        state = State.from_arrays(MonteCarlo(burn_in=0).start(chain, start_of(chain)).arrays())
        prepared = montecarlo.Sweeping.of(chain, state, MonteCarlo(potential=potential))
        assert (SHIFT in prepared.moves.kinds) == (shifts and base == "free")


@pytest.mark.thorough
def test_a_potential_with_an_energy_only():
    chain = PARTS["linear"]
    x0 = 0.1 * start_of(chain, 2)
    x0 /= np.linalg.norm(np.diff(x0, axis=1), axis=-1).max()
    for potential in (Box(), Box() + Bending(1.0), Bending(1.0) + Box()):
        stepper = MonteCarlo(potential=potential, burn_in=2)
        run = fx.simulate(chain, x0, stepper, 40, every=1, replicas=2, rng=1)
        assert np.abs(run.x).max() <= 4.0
        assert np.abs(run.x[-1] - run.x[0]).max() > 1.0
        assert from_parameters(stepper.parameters(), potential) == stepper
    with pytest.raises(TypeError, match=r"energy\(x\) and force\(x\)"):
        fx.Langevin(0.01, potential=Box())
    with pytest.raises(TypeError, match=r"an object with energy\(x\) and force\(x\), got"):
        fx.Langevin(0.01, potential=Box() + Bending(1.0)).start(chain, x0[0], None, 1, 1)
    with pytest.raises(TypeError, match=r"object with energy\(x\), got"):
        MonteCarlo(potential=object())
    with pytest.raises(TypeError, match=r"an object with energy\(x\), got"):
        MonteCarlo(potential=Bending(1.0) + object()).start(chain, x0[0])


class Wall:
    """No bead above z = 1.5."""

    broken = False

    def energy(self, x):
        if self.broken:
            raise KeyError("broken")
        return np.inf if x[:, 2].max() > 1.5 else 0.0

    def force(self, x):
        raise AssertionError("nobody needs a force")


@pytest.mark.thorough
def test_a_wall_is_never_crossed():
    chain = PARTS["fixed"]
    stepper = MonteCarlo(potential=Wall(), burn_in=5)
    x0 = np.zeros((5, 3))
    x0[:, 0] = np.arange(1.0, 6.0)
    state = stepper.start(chain, x0, rng=1)
    highest = -np.inf
    for _ in range(100):
        stepper.advance(chain, state, 1)
        highest = max(highest, state.x[..., 2].max())
    assert 1.0 < highest <= 1.5
    free = PARTS["linear"]
    near = np.full((6, 3), 1.4)
    near[:, 0] = np.arange(6.0)
    state = stepper.start(free, near, rng=1)  # moved up by a bond it would be beyond
    stepper.advance(free, state, 100)
    assert state.x[..., 2].max() <= 1.5
    assert np.abs(state.x[0, 0] - near[0]).max() > 1.0  # but it moves about
    x0[:, 2] = 2.0 * x0[:, 0]
    with pytest.raises(ValueError, match="x is in a wall, start outside"):
        stepper.start(chain, x0)


def test_what_a_potential_raises_comes_out_and_the_state_stays():
    chain = PARTS["linear"]
    with pytest.raises(ValueError, match="has no energy"):
        MonteCarlo(potential=Compiled(untouched)).start(chain, start_of(chain))
    wall = Wall()
    stepper = MonteCarlo(potential=wall, burn_in=0)
    state = stepper.start(chain, 0.1 * np.arange(18.0).reshape(6, 3) * [1, 0, 0], rng=1)
    wall.broken = True
    before = state.x.copy(), state.random.copy(), state.tally.copy()
    with pytest.raises(KeyError, match="broken"):
        stepper.advance(chain, state, 2)
    with pytest.raises(KeyError, match="broken"):
        stepper.start(chain, state.x)
    for kept, now in zip(before, (state.x, state.random, state.tally), strict=True):
        assert np.array_equal(kept, now)
    assert state.step == 0


@pytest.mark.parametrize(
    ("chain", "why"),
    [
        (fx.Chain.linear(4, hard=("angle",)), "soft bond"),
        (fx.Chain.linear(1), "one bead has nothing to turn"),
        (fx.Chain.ring(4, hard=()), "soft bond"),
        (fx.Chain.linear(4, hard=("length", "angle", "torsion")), "torsions"),
        (fx.Chain.linear(3, dim=2, base="fixed", hard=ANGLES), "nothing of this chain can turn"),
        (fx.Chain.ring(5, dim=2), "in the plane"),
        (fx.Chain.ring(7, hard=ANGLES), "hard angles of rings"),
        (
            fx.Chain.from_bonds(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (1, 4)]),
            "share a bond",
        ),
    ],
)
def test_chains_that_cannot_be_turned_are_refused(chain, why):
    with pytest.raises(ValueError, match=rf"{why}.*fixman\.HybridMonteCarlo"):
        MonteCarlo().start(chain, np.arange(chain.n * chain.dim).reshape(chain.n, chain.dim) ** 1.5)


def test_bad_arguments():
    chain = BONDS["free"]
    with pytest.raises(ValueError, match="no velocities"):
        MonteCarlo().start(chain, start_of(chain), np.zeros((9, 3)))
    with pytest.raises(ValueError, match="ensemble must be"):
        MonteCarlo(ensemble="mobility")
    with pytest.raises(ValueError, match="burn_in"):
        MonteCarlo(burn_in=-1)
    with pytest.raises(ValueError, match="kT must be"):
        MonteCarlo(kT=0.0)
    x0 = start_of(PARTS["ring"])[0]
    x0[3] = x0[4]
    with pytest.raises(fx.SingularConstraintError):
        MonteCarlo().start(PARTS["ring"], x0)


def test_long_sweeps_end_a_block_sooner():
    chain = fx.Chain.linear(60)
    x0 = random_walks(chain, rng=1)
    fast, slow = (
        fx.simulate(chain, x0, MonteCarlo(burn_in=0, potential=given), 2, every=1, rng=1)
        for given in (None, Bending(1.0))
    )
    frames = [run.about["block"]["frames"] for run in (fast, slow)]
    assert frames[1] < frames[0]


def test_kinds_of_moves():
    assert set(moves(PARTS["linear"]).kinds) == {POINT}
    assert set(moves(PARTS["rotating"]).kinds) == {POINT, LINE}
    assert moves(PARTS["ring"]).kinds.tolist().count(RING) == 4
    assert moves(PARTS["linear"], np.ones(1)).kinds[-2:].tolist() == [SHIFT, POINT]


def test_a_start_in_a_wall_is_named():
    class Wall:
        def energy(self, x):
            return np.inf

    chain = fx.Chain.linear(5)
    x = np.arange(5)[:, None] * [1.0, 0, 0]
    with pytest.raises(ValueError, match="finite; x is in a wall, start outside"):
        fx.simulate(chain, x, fx.MonteCarlo(potential=Wall()), 2, every=1, rng=1)


def test_beads_without_a_bond_are_refused_without_a_warning():
    bead, x = fx.Chain.linear(1), np.array([[0.0, 0.0, 0.0], [1.5, 0.0, 0.0]])
    for model, place in ((bead, x[:1]), (fx.System(bead, 2, box=6.0), x)):
        with pytest.raises(ValueError, match=r"one bead.*fixman\.HybridMonteCarlo"):
            fx.MonteCarlo().start(model, place, rng=1)
