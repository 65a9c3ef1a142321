"""Newton and Langevin dynamics: the same bits, the manifold, order, errors; ensembles elsewhere."""

import copy
import inspect
import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fixman as fx
from fixman.chains.projection_tables import projections
from fixman.kernels.algebra import random
from fixman.kernels.compiler.lanes import exact_kernel, memory
from fixman.kernels.simulation.constraints import add_metric_force, factor, room
from fixman.kernels.simulation.stepping import DRIFT, FORCE, KICK, NOISE, PROJECT
from fixman.potentials.energies import WCA, Bending, Gravity, Tension
from fixman.sampling.random_walks import random_walks
from fixman.simulation.steppers import Langevin, Newton, State, from_parameters, moving
from fixman.simulation.steppers.moving import Moving
from selection import quick

RNG = np.random.default_rng(20)


def masses(n):
    return np.random.default_rng(n).uniform(0.5, 2.0, n)


def mask(kind, n=6, **options):
    """Make a linear chain all of whose internal coordinates of one kind are hard."""
    chain = fx.Chain.linear(n, **options)
    rows = [
        c.kind == kind and (chain.base == "fixed" or min(c.beads) >= 0) for c in chain.coordinates
    ]
    rows = np.array(rows) & ~(chain.layout.rows.external & (chain.base == "free"))
    return fx.Chain.linear(n, masses=masses(n), hard=rows, **options)


COMB = [-1, 0, 1, 2, 0, 1, 2, 4]
CHAINS = {
    "jointed": fx.Chain.linear(7, masses=masses(7)),
    "jointed, plane": fx.Chain.linear(7, dim=2, masses=masses(7)),
    "jointed, fixed": fx.Chain.linear(7, base="fixed", masses=masses(7)),
    "arm": fx.Chain.linear(7, dim=2, base="fixed", masses=masses(7)),
    "rotating": fx.Chain.linear(7, hard=("length", "angle"), masses=masses(7)),
    "trimer": fx.Chain.linear(3, hard=("length", "angle")),
    "rotating, fixed": fx.Chain.linear(5, base="fixed", hard=("length", "angle")),
    "ring": fx.Chain.ring(6, masses=masses(6)),
    "ring, plane": fx.Chain.ring(6, dim=2, masses=masses(6)),
    "comb": fx.Chain.branched(COMB, masses=masses(8)),
    "comb, angles": fx.Chain.branched(COMB, hard=("length", "angle"), masses=masses(8)),
    "torsional": fx.Chain.branched(COMB, hard="torsional", rotatable=[(0, 1)], masses=masses(8)),
    "angles": mask("angle"),
    "angles, plane": mask("angle", dim=2),
    "torsions": mask("torsion"),
    "free": fx.Chain.linear(4, hard=np.zeros(12, dtype=bool)),
}
STEPPERS = {
    "newton": Newton(0.02, kT=0.1),  # cool, since soft bonds must not vanish
    "langevin": Langevin(0.02, ensemble="stiff"),
    "long steps": Langevin(0.3),
}


def walks(chain, size, seed=0):
    rng = np.random.default_rng(seed)
    kinds = chain.layout.rows.kinds
    angles = rng.uniform(0.9, 1.4, np.count_nonzero(kinds == 4))
    torsions = rng.uniform(-3.0, 3.0, np.count_nonzero(kinds == 5))
    return random_walks(chain, size, angles=angles, torsions=torsions, rng=rng)


long = pytest.mark.filterwarnings("ignore:dt=.* is long:RuntimeWarning")  # on purpose


def same(a, b, which=slice(None)):
    return all(np.array_equal(a.arrays()[k][which], b.arrays()[k]) for k in ("x", "v", "random"))


def hard_error(chain, state):
    """Largest error of the hard coordinates; angles modulo 2π."""
    rows = chain.layout.hard_rows
    error = rows.values(state.x)[0] - state.targets
    error[:, rows.kinds > 3] = np.sin(error[:, rows.kinds > 3])
    return np.abs(error).max(initial=0.0)


def energy(chain, v):
    return 0.5 * (chain.masses[:, None] * v**2).sum(axis=(-1, -2))


@pytest.mark.parametrize(
    ("name", "stepper"),
    quick(
        [(name, "newton") for name in CHAINS if name != "torsions"]  # whose bends straighten out
        + [(name, "langevin") for name in CHAINS]
        + [(name, "long steps") for name in ("jointed", "arm", "rotating", "ring")],
        *(("ring", "newton"), ("jointed", "langevin"), ("rotating", "langevin")),
        ("jointed", "long steps"),
    ),
)
@long
def test_the_same_bits_in_any_company_and_on_the_manifold(name, stepper):
    chain, stepper = CHAINS[name], STEPPERS[stepper]
    start = stepper.start(chain, walks(chain, 11), None, 11, 3)
    together = State.from_arrays(start.arrays())
    stepper.advance(chain, together, 25, workers=2)
    assert together.step == 25
    order = np.random.default_rng(1).permutation(11)[:10]  # two are left over from eight
    others = State(start.x[order], start.v[order], start.random[order], start.targets[order])
    for steps in (1, 20, 4):
        stepper.advance(chain, others, steps)
    assert same(together, others, order)

    assert hard_error(chain, together) < 1e-10
    for x, v in zip(together.x, together.v, strict=True):
        assert np.abs(fx.wilson_b(chain, x)[chain.hard] @ v.ravel()).max(initial=0.0) < 1e-11


@pytest.mark.parametrize("name", quick(["jointed", "comb, angles"], "jointed"))
def test_the_same_bits_with_a_potential(name):
    chain = CHAINS[name]
    potential = Bending(2.0) + WCA(sigma=0.5) + Gravity((0.0, 0.1, 0.2))
    stepper = Langevin(0.02, potential=potential, ensemble="stiff")
    start = stepper.start(chain, walks(chain, 4), None, 4, 3)
    together, alone = State.from_arrays(start.arrays()), State.from_arrays(start.arrays())
    stepper.advance(chain, together, 30)
    alone = State(start.x[2:3], start.v[2:3], start.random[2:3], start.targets[2:3])
    stepper.advance(chain, alone, 10)
    stepper.advance(chain, alone, 20)
    assert same(together, alone, slice(2, 3))


@exact_kernel
def metric_force(x, targets, system, out):
    space = room(system, targets, 0.0)
    X = memory(x.size, 0.0)
    X[:] = x
    factor(system, space, X, 0.0)
    add_metric_force(system, space, out, X, 2.0, 0.0)


@pytest.mark.parametrize("name", quick([*CHAINS][:-1], "jointed", "rotating", "ring"))
def test_the_fixman_force_of_a_step(name):
    # It may differ by pushes along the hard rows, which move nothing.
    chain = CHAINS[name]
    x = walks(chain, 1, 5)
    rows = chain.layout.hard_rows
    targets = rows.values(x)[0]
    system, ghosts, goals = projections(chain, targets)
    fixed = np.array([[-1.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    points = np.concatenate([fixed[3 - ghosts :, : chain.dim], x[0]])
    out = np.zeros(points.size)
    metric_force(points.ravel(), goals[0], system, out)
    B = fx.wilson_b(chain, x[0])[chain.hard].toarray()
    w = np.repeat(1.0 / chain.masses, chain.dim)
    difference = out[ghosts * chain.dim :] - fx.fixman_force(chain, x[0], 2.0).ravel()
    along = B.T @ np.linalg.solve(B @ (w[:, None] * B.T), B @ (w * difference))
    scale = np.abs(fx.fixman_force(chain, x[0], 2.0)).max()
    assert np.abs(difference - along).max() < 1e-10 * scale


@pytest.mark.parametrize(
    "name",
    quick(
        ["jointed", "arm", "rotating", "rotating, fixed", "ring", "comb, angles", "torsional"],
        "jointed",
    ),
)
def test_rattle_converges_to_forward_dynamics_as_the_square_of_dt(name):
    chain = CHAINS[name]
    potential = Bending(1.0) + Gravity((0.3, -0.2, 0.1)[: chain.dim])
    x0 = walks(chain, 1, 4)[0]
    v0 = 0.5 * Newton(0.01, kT=1.0).start(chain, x0, rng=1).v[0]
    force = fx.potentials.bind(chain, potential).force
    T, pieces = 0.32, 512

    def rates(x, v):
        return v, fx.forward_dynamics(chain, x, v, force=force(x)).acceleration

    x, v, h = x0, v0, T / pieces
    for _ in range(pieces):  # Runge and Kutta
        a = rates(x, v)
        b = rates(x + h / 2 * a[0], v + h / 2 * a[1])
        c = rates(x + h / 2 * b[0], v + h / 2 * b[1])
        d = rates(x + h * c[0], v + h * c[1])
        x, v = (
            y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            for y, k1, k2, k3, k4 in zip((x, v), a, b, c, d, strict=True)
        )
    errors = []
    for steps in (16, 32):
        stepper = Newton(T / steps, potential=potential)
        state = stepper.start(chain, x0, v0)
        stepper.advance(chain, state, steps)
        errors.append(np.hypot(np.abs(state.x[0] - x).max(), np.abs(state.v[0] - v).max()))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2.0, abs=0.15)


@pytest.mark.parametrize(
    "name", quick(["jointed", "arm", "rotating", "ring", "torsional"], "jointed", "ring")
)
def test_newton_conserves_and_can_be_reversed(name):
    chain, stepper = CHAINS[name], Newton(0.005, kT=1.0)
    state = stepper.start(chain, walks(chain, 3), None, 3, 1)
    x, before = state.x, energy(chain, state.v)
    if chain.base == "free":
        assert np.abs(np.einsum("k,rka->ra", chain.masses, state.v)).max() < 1e-13
    stepper.advance(chain, state, 200)
    assert energy(chain, state.v) == pytest.approx(before, rel=2e-3)
    if chain.base == "free":
        assert np.abs(np.einsum("k,rka->ra", chain.masses, state.v)).max() < 1e-12
    state.v *= -1.0
    stepper.advance(chain, state, 200)
    assert np.abs(state.x - x).max() < 1e-8


def test_the_energy_does_not_drift():
    chain, stepper = fx.Chain.linear(10), Newton(0.02, kT=1.0)
    state = stepper.start(chain, random_walks(chain, 8, rng=1), None, 8, 1)
    energies = [energy(chain, state.v)]
    for _ in range(500):
        stepper.advance(chain, state, 200)
        energies.append(energy(chain, state.v))
    energies = np.array(energies) / energies[0]
    slopes = np.polyfit(np.arange(501) * 4.0, energies, 1)[0]
    assert np.abs(slopes).max() < 5e-8
    assert hard_error(chain, state) < 1e-11


# --- long steps -----------------------------------------------------------------------------------


REFRESH = (NOISE, 0.5), (PROJECT, 0.0)
VERLET = (KICK, 0.5), (DRIFT, 1.0), (FORCE, 0.0), (KICK, 0.5), (PROJECT, 0.0)


class Obabo(Langevin):
    SCHEDULE = (*REFRESH, *VERLET, *REFRESH)


class Geodesic(Newton):
    SCHEDULE = ((DRIFT, 0.5), (PROJECT, 0.0)) * 2


@pytest.mark.thorough
def test_another_schedule_is_another_stepper():
    # OBABO, at no temperature: noise only damps, which is done by hand around Newton's steps.
    chain, dt, friction, field = CHAINS["jointed"], 0.05, 2.0, Gravity((0.3, -0.2, 0.1))
    state = Newton(dt, kT=1.0).start(chain, walks(chain, 1)[0], None, 9, rng=4)
    by_hand = State.from_arrays(state.arrays())
    for _ in range(5):
        by_hand.v *= np.exp(-0.5 * friction * dt)
        Newton(dt, potential=field).advance(chain, by_hand, 1)
        by_hand.v *= np.exp(-0.5 * friction * dt)
    Obabo(dt, kT=1e-60, friction=friction, potential=field).advance(chain, state, 5)
    assert np.abs(state.x - by_hand.x).max() < 1e-12
    assert np.abs(state.v - by_hand.v).max() < 1e-12


@long
@pytest.mark.parametrize("name", ["jointed", "rotating", "ring"])
def test_drifts_alone_are_geodesics_that_can_be_reversed(name):
    chain = CHAINS[name]
    start = Newton(0.02, kT=1.0).start(chain, walks(chain, 1)[0], None, 9, rng=4)
    state = State.from_arrays(start.arrays())
    geodesic = Geodesic(0.02)
    geodesic.advance(chain, state, 30, 2)
    assert hard_error(chain, state) < 1e-10
    assert np.abs(state.x - start.x).max() > 0.1
    newton = State.from_arrays(start.arrays())
    Newton(0.01).advance(chain, newton, 60)
    assert same(state, newton)
    state.v *= -1.0
    geodesic.advance(chain, state, 30)
    assert np.abs(state.x - start.x).max() < 1e-9


@long
@pytest.mark.parametrize("name", ["jointed", "rotating", "ring"])
def test_a_drift_without_solution_is_done_in_pieces(name):
    chain = CHAINS[name]
    fast = Newton(0.02, kT=400.0)
    start = fast.start(chain, walks(chain, 1)[0], None, 4, rng=2)
    start.v[1::2] *= 0.01  # lanes that need it and lanes that do not, in one register
    before = energy(chain, start.v)
    together = State.from_arrays(start.arrays())
    fast.advance(chain, together, 50)
    assert hard_error(chain, together) < 1e-10
    assert (energy(chain, together.v)[::2] < 3.0 * before[::2]).all()
    for k in range(4):
        one = slice(k, k + 1)
        alone = State(start.x[one], start.v[one], start.random[one], start.targets[one])
        fast.advance(chain, alone, 50)
        assert same(together, alone, one)


@long
def test_a_drift_in_pieces_takes_no_less_time():
    # Whatever the constraints do, the centre of mass goes straight on.
    chain = CHAINS["jointed"]
    share = chain.masses / chain.masses.sum()
    fast = Newton(0.02, kT=400.0, drifting=True)
    state = fast.start(chain, walks(chain, 1)[0], None, 4, rng=2)
    expected = share @ (state.x + 50 * 0.02 * state.v)
    fast.advance(chain, state, 50)
    assert np.abs(share @ state.x - expected).max() < 1e-11


@long
def test_a_step_without_any_solution_is_an_error_that_names_it():
    chain, stepper = CHAINS["jointed"], Newton(1.0)
    x0 = walks(chain, 3)
    v0 = np.zeros((3, 7, 3))
    v0[1] = 1e6 * RNG.normal(size=(7, 3))
    state = stepper.start(chain, x0, v0, 3)
    kept = State.from_arrays(state.arrays())
    with pytest.raises(fx.ConstraintSolveError, match=r"step 0 of replica 1 .* make dt smaller"):
        stepper.advance(chain, state, 5)
    assert same(state, kept)
    assert state.step == 0


def test_overlaps_are_named_where_a_step_has_no_solution():
    chain, stepper = fx.Chain.linear(6), Langevin(0.01, potential=WCA())
    x = np.zeros((6, 3))
    x[:, 0] = np.arange(6.0)
    x[3:] = x[2] + [[0.0, 1.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, 0.001, 0.0]]  # bead 5 on bead 1
    with pytest.raises(fx.ConstraintSolveError, match=r"beads overlap.* on bead [15], bead [15]"):
        stepper.advance(chain, stepper.start(chain, x, rng=1), 5)


@pytest.mark.parametrize("angle", [1e-9, 1e-6])
def test_hard_angles_that_are_nearly_straight_are_named(angle):
    chain, stepper = fx.Chain.linear(20, hard=("length", "angle")), Langevin(0.01)
    x = random_walks(chain, angles=angle, rng=1)
    with pytest.raises(fx.ConstraintSolveError, match=r"angle\(0, 1, 2\).* 13 more hardly bend"):
        stepper.advance(chain, stepper.start(chain, x, rng=1), 50)


def test_bends_that_came_to_be_straight_are_named():
    chain, stepper = fx.Chain.linear(4, hard=("length", "angle")), Newton(0.01)
    bent = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [3.0, 1.0, 0.5]])
    stuck = bent.copy()
    stuck[2] = 2.0, 0.0, 0.0
    state = stepper.start(chain, bent, 0 * bent)
    bound = Moving.of(chain, state, stepper).bound
    cause, _ = moving.cause_of(bound, stepper, state, 0, bent)
    assert cause.startswith("a bead would move further")
    said, at = moving.cause_of(bound, stepper, state, 0, stuck)
    assert said.startswith("bends became straight, where angle(0, 1, 2) cannot be held")
    assert fx.Coordinate("angle", (0, 1, 2)) in at["coordinates"]


def test_far_from_the_origin_only_rounding_is_left():
    chain, stepper = CHAINS["jointed"], Langevin(0.02)
    for name in ("jointed", "ring", "rotating"):
        chain = CHAINS[name]
        x0 = walks(chain, 1)[0] + 1e7
        state = stepper.start(chain, x0, rng=1)
        stepper.advance(chain, state, 200)
        lengths = chain.layout.hard_rows.kinds == 3
        error = chain.layout.hard_rows.values(state.x)[0] - state.targets
        assert np.abs(error[:, lengths]).max() < 4 * 2.0**-52 * 1e7


def test_units_do_not_matter():
    # Powers of two, beyond those that would over- or underflow if minors were multiplied as is.
    for name in ("jointed", "rotating", "ring"):
        chain, L, M, T = CHAINS[name], 2.0**-70, 2.0**-90, 2.0**-60
        make = {"jointed": fx.Chain.linear, "rotating": fx.Chain.linear, "ring": fx.Chain.ring}
        hard = ("length", "angle") if name == "rotating" else ("length",)
        small = make[name](chain.n, masses=M * chain.masses, hard=hard)
        x0 = walks(chain, 1)[0]
        states = []
        for c, x, dt, kT in ((chain, x0, 0.02, 1.0), (small, L * x0, 0.02 * T, M * (L / T) ** 2)):
            stepper = Langevin(dt, kT=kT, friction=0.02 / dt, ensemble="stiff")
            state = stepper.start(c, x, rng=1)
            stepper.advance(c, state, 50)
            states.append(state)
        assert np.abs(states[1].x / L - states[0].x).max() < 1e-9


# --- starting -------------------------------------------------------------------------------------


def test_velocities_are_maxwells_on_the_manifold():
    chain = CHAINS["jointed"]
    state = Newton(0.01, kT=2.0).start(chain, walks(chain, 1)[0], None, 4000, 5)
    K = energy(chain, state.v)
    dof = 21 - 6 - 3
    assert stats.kstest(K, stats.gamma(dof / 2, scale=2.0).cdf).pvalue > 1e-3
    drifting = Newton(0.01, kT=2.0, drifting=True).start(chain, walks(chain, 1)[0], None, 4000, 5)
    momentum = np.einsum("k,rka->ra", chain.masses, drifting.v)
    assert momentum.var() / (2.0 * chain.masses.sum()) == pytest.approx(1.0, abs=0.05)
    with pytest.raises(ValueError, match="give v0, or kT"):
        Newton(0.01).start(chain, walks(chain, 1)[0])


def test_given_velocities_are_projected():
    for chain in (CHAINS["jointed"], CHAINS["rotating"], CHAINS["comb, angles"]):
        x = walks(chain, 1)[0]
        v = RNG.normal(size=x.shape)
        state = Langevin(0.01).start(chain, x, v)
        targets = chain.hard_values(x)
        assert np.abs(state.v[0] - fx.project(chain, x, targets, v)[1]).max() < 1e-12


def test_what_cannot_start_is_refused():
    chain = fx.Chain.linear(4)
    x = np.arange(12.0).reshape(4, 3)
    with pytest.raises(ValueError, match=r"x0 must have shape .* for 3 replicas"):
        Langevin(0.01).start(chain, np.stack([x, x]), None, 3)
    with pytest.raises(fx.SingularConstraintError, match="bead 1 and bead 2 coincide"):
        Langevin(0.01).start(chain, x[[0, 1, 1, 3]])
    with pytest.raises(fx.SingularConstraintError, match="in line"):
        Langevin(0.01).start(fx.Chain.linear(4, hard=("length", "angle")), x)
    rotating = fx.Chain.linear(9, hard=("length", "angle"))
    folded = [random_walks(rotating, angles=angle, rng=1)[0] for angle in (1.0, np.pi)]
    with pytest.raises(fx.SingularConstraintError, match=r"in frame 1: .* in line"):
        Langevin(0.01).start(rotating, folded, None, 2)
    line = np.zeros((4, 3))
    line[:, 0] = 0.0, 1.0, 2.0, 1.0
    line[3, 1] = 1e-17
    with pytest.raises(fx.SingularConstraintError):  # folded onto a line
        Langevin(0.01).start(fx.Chain.ring(4), line)
    with pytest.raises(ValueError, match="x0 is nan"):
        Langevin(0.01).start(chain, x * np.nan)
    for options in ({"dt": 0.0}, {"dt": np.nan}, {"dt": 0.1, "kT": -1}, {"dt": 0.1, "friction": 0}):
        with pytest.raises(ValueError, match="must be positive"):
            Langevin(**options)
    with pytest.raises(TypeError, match="dt must be one number"):
        Newton("0.1")
    with pytest.raises(ValueError, match="'rigid' or 'stiff'"):
        Langevin(0.1, ensemble="soft")


@pytest.mark.parametrize(
    ("stepper", "v", "would_do"),
    [
        (Langevin(0.2), None, 0.1),
        (Langevin(0.1, kT=4.0), None, 0.07),
        (Newton(0.2, kT=1.0), None, 0.1),
        (Newton(0.1), 3.0, None),
    ],
)
def test_steps_that_bias_averages_are_warned_of(stepper, v, would_do):
    """One that does as is said is silent, and so are lengths and masses in other units."""
    chain = fx.Chain.linear(20)
    x = random_walks(chain, 8, rng=1)
    v0 = None if v is None else v * RNG.normal(size=x.shape)
    with pytest.warns(RuntimeWarning, match=r"dt=0\.\d is long.*the temperature is right") as found:
        stepper.start(chain, x, v0, 8, 1)
    if would_do is not None:
        assert f"dt={would_do:g} or less would do" in str(found[0].message)
        replace(stepper, dt=would_do).start(chain, x, v0, 8, 1)
    heavy = fx.Chain.linear(20, masses=np.full(20, 4.0))
    drift = None if v is None else 0.5 * v0 + 1e3  # as a whole: no matter
    replace(stepper, dt=stepper.dt).start(heavy, 4.0 * x, drift, 8, 1)


def test_steps_that_light_beads_or_hard_angles_make_long_are_warned_of():
    """Between heavy beads a light one has a steep Fixman force; hard angles leave light motions."""
    light = fx.Chain.linear(3, masses=[1.0, 1e-4, 1.0])
    x = random_walks(light, 1, rng=1)
    unit = 1e-2  # L √(m/kT) of the light bead
    with pytest.warns(RuntimeWarning, match="bead 1 moves 0.025 .* its Fixman force is steep"):
        Langevin(0.025 * unit, ensemble="stiff").start(light, x, None, 1, 1)
    Langevin(0.007 * unit, ensemble="stiff").start(light, x, None, 1, 1)
    Langevin(0.025 * unit).start(light, x, None, 1, 1)
    rotating = fx.Chain.linear(5, hard=("length", "angle"))
    x = random_walks(rotating, 1, rng=1)
    for stepper, fine in ((Newton(0.2, kT=1.0), 0.02), (Langevin(0.2), 0.1)):
        with pytest.warns(RuntimeWarning, match=r"dt=0\.2 is long.*dt=0\.\d+ or less") as found:
            stepper.start(rotating, x, None, 1, 1)
        would_do = float(str(found[0].message).split("dt=")[-1].split()[0])
        assert 0.5 * fine <= would_do <= fine  # one digit, of the temperature that v has


@pytest.mark.parametrize("stepper", [Newton, Langevin])
def test_only_the_time_step_goes_without_its_name(stepper):
    order = ("kT", "friction", "ensemble", "potential", "drifting", "tolerance")
    names = list(inspect.signature(stepper).parameters)
    assert names == ["dt", *(name for name in order if name in names)]
    with pytest.raises(TypeError, match="positional argument"):
        stepper(0.1, 1.0)


def test_parameters_make_the_stepper_again():
    potential = Bending(2.0) + Tension((1.0, 0.0, 0.0))
    for stepper in (
        Newton(0.1, kT=1.5, potential=potential),
        Langevin(0.1, kT=2.0, friction=3.0, ensemble="stiff", potential=potential),
    ):
        text = json.loads(json.dumps(stepper.parameters()))
        assert from_parameters(text).parameters() == stepper.parameters()
    own = Newton(0.1, potential=Spring()).parameters()
    with pytest.raises(ValueError, match=r"Spring is not built in"):
        from_parameters(own)
    assert isinstance(from_parameters(own, Spring()).potential, Spring)
    with pytest.raises(ValueError, match="no stepper is called 'euler'"):
        from_parameters({"name": "euler"})


# --- potentials of one's own ----------------------------------------------------------------------


class Spring:
    """Beads on springs to the origin."""

    calls = 0

    def energy(self, x):
        return 0.5 * (x**2).sum()

    def force(self, x):
        Spring.calls += 1
        if Spring.calls == 60:
            raise RuntimeError("sixty")
        return -x


def test_the_stiff_ensemble_is_the_rigid_one_with_the_fixman_potential():
    chain = CHAINS["jointed"]

    class Fixman:
        energy = staticmethod(lambda x: fx.fixman_potential(chain, x, 1.5))
        force = staticmethod(lambda x: fx.fixman_force(chain, x, 1.5))

    x0, moved = walks(chain, 1)[0], []
    for options in ({"ensemble": "stiff"}, {"potential": Fixman()}, {}):
        stepper = Langevin(0.02, kT=1.5, **options)
        state = stepper.start(chain, x0, rng=1)
        stepper.advance(chain, state, 10)
        moved.append(state.x)
    assert np.abs(moved[0] - moved[1]).max() < 1e-11
    assert np.abs(moved[0] - moved[2]).max() > 1e-4


def test_an_object_of_the_users_own_is_called_every_step():
    chain = CHAINS["jointed"]
    builtin = fx.potentials.Tether(range(7), [0.0, 0.0, 0.0])
    x0 = walks(chain, 1)[0]
    states = []
    for potential in (Spring(), builtin):
        stepper = Langevin(0.02, potential=potential)
        state = stepper.start(chain, x0, rng=1)
        stepper.advance(chain, state, 40)
        states.append(state)
    assert same(*states)
    assert [state.step for state in states] == [40, 40]
    assert Spring.calls == 41
    stepper = Langevin(0.02, potential=Spring())
    with pytest.raises(RuntimeError, match="sixty"):
        stepper.advance(chain, stepper.start(chain, x0, rng=1), 40)


# --- random numbers -------------------------------------------------------------------------------


def test_the_streams_are_those_of_xoshiro256plusplus():
    @exact_kernel
    def next_words(state, out):
        a, b, c, d = state[0], state[1], state[2], state[3]
        for k in range(out.size):
            out[k], a, b, c, d = random.following(a, b, c, d)

    out = np.empty(5, np.uint64)
    next_words(np.array([1, 2, 3, 4], np.uint64), out)
    s, expected, low = [1, 2, 3, 4], [], 2**64 - 1

    def rotated(x, k):
        return ((x << k) | (x >> (64 - k))) & low

    for _ in range(5):
        expected.append((rotated((s[0] + s[3]) & low, 23) + s[0]) & low)
        t = (s[1] << 17) & low
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotated(s[3], 45)
    assert out.tolist() == expected
    assert expected[:2] == [41943041, 58720359]  # of the authors' program


def test_normal_numbers_are_normal():
    state = np.random.SeedSequence(1).generate_state(4, np.uint64)
    x = np.empty(2_000_000)
    random.fill_normals(state, 0, x.size, x, 0, 1)
    assert stats.kstest(x, "norm").pvalue > 1e-3
    for edge in (1.0, 2.0, 3.0, random.TAIL, 4.0):
        p = stats.norm.sf(edge)
        for side in (x > edge, x < -edge):
            assert abs(side.sum() - p * x.size) < 4.0 * np.sqrt(p * x.size)
    lag = (x[1:] * x[:-1]).mean() * np.sqrt(x.size)
    assert abs(lag) < 4.0


def test_the_tail_of_normal_numbers_is_theirs():
    state = np.random.SeedSequence(2).generate_state(4, np.uint64)
    x, tail = np.empty(2_000_000), []
    for _ in range(10):
        random.fill_normals(state, 0, x.size, x, 0, 1)
        tail.append(np.abs(x[np.abs(x) > random.TAIL]))
    beyond = stats.norm.sf(random.TAIL)
    found = stats.kstest(np.concatenate(tail), lambda t: 1.0 - stats.norm.sf(t) / beyond)
    assert found.pvalue > 1e-3


def test_the_earliest_failure_is_named_whatever_the_workers():
    rng = np.random.default_rng(22)
    chain = fx.Chain.linear(3)
    x0 = random_walks(chain, 16, rng=22)
    v0 = rng.normal(size=x0.shape) * 10 ** rng.uniform(0.0, 4.5, 16)[:, None, None]
    stepper, said = Newton(0.3), []
    for workers in (1, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            state = stepper.start(chain, x0, v0, 16, 0)
        with pytest.raises(fx.ConstraintSolveError) as error:
            stepper.advance(chain, state, 2000, workers)
        said.append(str(error.value))
    assert said[0] == said[1]
    assert said[0].startswith("step 0 of replica 8 ")


def test_copies_of_a_state_are_prepared_again():
    chain, x = fx.Chain.linear(6), np.arange(6.0)[:, None] * [1, 0, 0]
    stepper = fx.Newton(0.005, kT=1.0)
    state = stepper.start(chain, x, rng=1)
    stepper.advance(chain, state, 1)
    for other in (copy.copy(state), pickle.loads(pickle.dumps(state))):
        assert other.prepared is None
        other.targets = 1.1 * state.targets
        stepper.advance(chain, other, 1)
        bonds = np.linalg.norm(np.diff(other.x, axis=-2), axis=-1)
        np.testing.assert_allclose(bonds, 1.1, rtol=1e-9)
