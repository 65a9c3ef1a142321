"""Overdamped dynamics: each scheme against dense linear algebra, flows, bits, errors."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import fixman as fx
from fixman.kernels.algebra import random
from fixman.potentials.energies import Bending, Gravity, Tether
from fixman.sampling.random_walks import random_walks
from fixman.simulation.steppers import Brownian, State, from_parameters
from selection import quick

long = pytest.mark.filterwarnings("ignore:dt=.* is long:RuntimeWarning")  # on purpose
SCHEMES = ("geodesic", "midpoint", "liu")
COMB = [-1, 0, 1, 2, 0, 1, 2, 4]


def uneven(n, seed):
    return tuple(np.random.default_rng(seed).uniform(0.5, 2.0, n).tolist())


CHAINS = {
    "jointed": fx.Chain.linear(7, masses=uneven(7, 1)),
    "arm": fx.Chain.linear(6, dim=2, base="fixed", masses=uneven(6, 1)),
    "rotating": fx.Chain.linear(6, hard=("length", "angle"), masses=uneven(6, 1)),
    "rotating, fixed": fx.Chain.linear(5, base="fixed", hard=("length", "angle")),
    "ring": fx.Chain.ring(6, masses=uneven(6, 1)),
    "comb, angles": fx.Chain.branched(COMB, hard=("length", "angle"), masses=uneven(8, 1)),
}
GRADIENT = np.array([[0.3, 1.0, -0.2], [0.1, -0.2, 0.4], [0.0, 0.5, -0.1]])


def walks(chain, size, seed=0):
    rng = np.random.default_rng(seed)
    kinds = chain.layout.rows.kinds
    angles = rng.uniform(0.9, 1.4, np.count_nonzero(kinds == 4))
    torsions = rng.uniform(-3.0, 3.0, np.count_nonzero(kinds == 5))
    return random_walks(chain, size, angles=angles, torsions=torsions, rng=rng)


def swinging(dim):
    return lambda time: np.cos(3.0 * time) * GRADIENT[:dim, :dim]


def full(chain, scheme="geodesic", dt=2e-3, **options):
    """Return a stepper that does all that there is."""
    potential = Bending(1.5) + Gravity((0.3, -0.2, 0.1)[: chain.dim])
    given = {"ensemble": "rigid", "flow": swinging(chain.dim), "potential": potential} | options
    return Brownian(dt, kT=0.8, friction=uneven(chain.n, 3), scheme=scheme, **given)


def same(a, b, which=slice(None)):
    return all(np.array_equal(a.arrays()[k][which], b.arrays()[k]) for k in ("x", "v", "random"))


def part(state, which):
    return State(state.x[which], state.v[which], state.random[which], state.targets[which])


# --- against dense linear algebra -----------------------------------------------------------------


class Dense:
    """One replica, moved by the formulas: dense matrices, Newton's method with a dense Jacobian."""

    def __init__(self, chain, stepper, state):
        self.chain, self.stepper = chain, stepper
        self.x, self.v = state.x[0], state.v[0]
        self.random = state.random[0].copy()
        self.targets = state.targets[0]
        zeta = np.broadcast_to(stepper.friction, chain.n)
        self.zeta, self.long = zeta[:, None], np.repeat(zeta, chain.dim)
        self.h = np.sqrt(2.0 * stepper.dt)
        self.time = 0.5 * stepper.dt

    def rows(self, x):
        return fx.wilson_b(self.chain, x)[self.chain.hard].toarray()

    def force(self, x):
        chain, stepper = self.chain, self.stepper
        f = fx.potentials.bind(chain, stepper.potential).force(x)
        if stepper.ensemble != "mobility":
            f = f + fx.fixman_force(chain, x, stepper.kT, inverse_masses=1.0 / self.zeta[:, 0])
        if stepper.ensemble == "rigid":
            f = f - fx.fixman_force(chain, x, stepper.kT)
        flow = stepper.flow(self.time) if callable(stepper.flow) else np.array(stepper.flow)
        centre = np.average(x, axis=0, weights=self.zeta[:, 0]) if chain.base == "free" else 0.0
        return f + self.zeta * ((x - centre) @ flow.T)

    def noise(self):
        xi = np.empty(self.x.size)
        random.fill_normals(self.random, 0, xi.size, xi, 0, 1)
        return np.sqrt(self.stepper.kT / self.zeta) * xi.reshape(self.x.shape)

    def projected(self, x, v):
        B = self.rows(x)
        forces = np.linalg.solve((B / self.long) @ B.T, B @ v.ravel())
        return v - (B.T @ forces).reshape(v.shape) / self.zeta

    def held(self, x0, x):
        """Move x along ζ⁻¹ B(x0)ᵀ to where the hard values are those of the state."""
        B0 = self.rows(x0)
        for _ in range(30):
            rest = self.targets - self.chain.hard_values(x)
            turns = self.chain.layout.hard_rows.kinds > 3
            rest[turns] = np.arcsin(np.sin(rest[turns]))
            if np.abs(rest).max() < 1e-14:
                break
            forces = np.linalg.solve((self.rows(x) / self.long) @ B0.T, rest)
            x = x + (B0.T @ forces).reshape(x.shape) / self.zeta
        return x

    def geodesic(self):
        h, x, v = self.h, self.x, self.v
        v = v + h * self.force(x) / self.zeta
        x = self.held(x, x + 0.5 * h * v)
        middle, v = x, self.projected(x, self.noise())
        self.x = self.held(x, x + 0.5 * h * v)
        self.v = (self.x - middle) / (0.5 * h)

    def midpoint(self):
        h, x, noise = self.h, self.x, self.noise()
        v = noise + 0.5 * h * self.force(x) / self.zeta
        middle = self.held(x, x + 0.5 * h * v)
        v = noise + 0.5 * h * self.force(middle) / self.zeta
        self.x = self.held(middle, x + h * v)

    def liu(self):
        h, x = self.h, self.x
        v = self.noise() + 0.5 * h * self.force(x) / self.zeta
        self.x = self.held(x, x + h * v)

    def step(self):
        getattr(self, self.stepper.scheme)()
        self.time += self.stepper.dt


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("name", "options"),
    quick([(name, {}) for name in CHAINS], ("jointed", {}))
    + quick(
        [("jointed", {"ensemble": "stiff", "flow": GRADIENT}), ("ring", {"ensemble": "mobility"})]
    ),
)
def test_steps_are_those_of_dense_linear_algebra(name, options, scheme):
    chain = CHAINS[name]
    stepper = full(chain, scheme, **options)
    state = stepper.start(chain, walks(chain, 1)[0], rng=4)
    dense = Dense(chain, stepper, state)
    for _ in range(3):
        before = state.x[0]
        stepper.advance(chain, state, 1)
        dense.step()
        assert np.abs(state.x[0] - before).max() > 0.01
        assert np.abs(state.x[0] - dense.x).max() < 2e-12
    assert np.array_equal(state.random[0], dense.random)


# --- the same bits --------------------------------------------------------------------------------


@long
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(
    ("name", "dt"),
    quick(
        [(name, 2e-3) for name in CHAINS] + [("jointed", 0.05), ("arm", 0.05), ("ring", 0.03)],
        ("jointed", 0.05),
    ),
)
def test_the_same_bits_in_any_company_and_on_the_manifold(name, dt, scheme, monkeypatch):
    """With the longer dt, in one step of ten or so one of the replicas is redone in pieces."""
    chain = CHAINS[name]
    stepper = full(chain, scheme, dt)
    start = stepper.start(chain, walks(chain, 11), None, 11, 3)
    together = State.from_arrays(start.arrays())
    stepper.advance(chain, together, 25, workers=2)
    monkeypatch.setattr("fixman.simulation.steppers.scheduled.FLOWS", 3)
    order = np.random.default_rng(1).permutation(11)[:9]  # one is left over from eight
    others = part(start, order)
    for steps in (1, 20, 4):
        stepper.advance(chain, others, steps)
    assert together.step == others.step == 25
    assert same(together, others, order)
    rows = chain.layout.hard_rows
    error = rows.values(together.x)[0] - together.targets
    error[:, rows.kinds > 3] = np.sin(error[:, rows.kinds > 3])
    assert np.abs(error).max() < 1e-10


@long
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_centre_of_friction_walks_freely_even_in_pieces(scheme, monkeypatch):
    """Constraints move no centre, and a step that is redone takes the same time and noise."""
    chain, kT, dt, steps = CHAINS["jointed"], 0.8, 0.1, 40
    redone, rescue = [], fx.simulation.steppers.moving.Moving.rescue
    monkeypatch.setattr(
        fx.simulation.steppers.moving.Moving,
        "rescue",
        lambda self, *given: redone.append(given[1]) or rescue(self, *given),
    )
    stepper = full(chain, scheme, dt, ensemble="mobility", potential=None)
    state = stepper.start(chain, walks(chain, 8), None, 8, 3)
    zeta = np.array(stepper.friction)
    share = zeta / zeta.sum()
    xi = np.empty((steps, 8, 7, 3))
    for k in range(8):
        random.fill_normals(state.random.copy()[k], 0, xi[:, k].size, own := xi[:, k].ravel(), 0, 1)
        xi[:, k] = own.reshape(steps, 7, 3)
    noise = share @ (np.sqrt(2.0 * kT * dt / zeta)[:, None] * xi)  # (steps, replicas, 3)
    expected = share @ state.x + noise.sum(axis=0)
    if scheme == "geodesic":  # half of the noise comes a step later
        expected += 0.5 * (np.sqrt(2.0 * dt) * (share @ state.v) - noise[-1])
    stepper.advance(chain, state, steps)
    assert len(redone) > 10
    assert np.abs(share @ state.x - expected).max() < 1e-11


# --- flows ----------------------------------------------------------------------------------------


def test_the_named_flows():
    assert fx.flows.shear(2.0).tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 0]]
    assert fx.flows.shear(-1.0, dim=2).tolist() == [[0, -1], [0, 0]]
    assert fx.flows.planar_extension(2.0).tolist() == [[2, 0, 0], [0, -2, 0], [0, 0, 0]]
    assert fx.flows.planar_extension(2.0, dim=2).tolist() == [[2, 0], [0, -2]]
    assert fx.flows.uniaxial_extension(2.0).tolist() == [[2, 0, 0], [0, -1, 0], [0, 0, -1]]
    with pytest.raises(ValueError, match="dim must be 2 or 3, got 4"):
        fx.flows.shear(1.0, dim=4)
    with pytest.raises(TypeError, match="rate must be one number"):
        fx.flows.uniaxial_extension([1.0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_dumbbell_turns_in_shear_as_its_equation_says(scheme):
    """Cold: cot θ grows by the strain, here that of a rate sin t; order 2 of the midpoint rule."""
    chain = fx.Chain.linear(2, dim=2)
    errors = []
    for steps in (50, 100):
        stepper = Brownian(
            2.0 / steps, kT=1e-24, friction=(1.0, 3.0), scheme=scheme,
            flow=lambda time: fx.flows.shear(np.sin(time), dim=2),
        )  # fmt: skip
        x0 = np.array([[1.0, 2.0], [1.0, 3.0]])
        state = stepper.start(chain, x0, rng=1)
        stepper.advance(chain, state, steps)
        u = state.x[0, 1] - state.x[0, 0]
        errors.append(abs(u[0] / u[1] - (1.0 - np.cos(2.0))))
        centre = np.average(state.x[0], axis=0, weights=stepper.friction)
        assert centre == pytest.approx([1.0, 2.75], abs=1e-9)
    order = {"midpoint": 2.0}.get(scheme, 1.0)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


@pytest.mark.thorough
def test_on_a_fixed_base_the_flow_is_that_of_space():
    """A bead on an arm in uniaxial extension, cold: tan θ = e^(−3/2 ε̇ t) tan θ₀."""
    chain = fx.Chain.linear(1, base="fixed")
    stepper = Brownian(1e-3, kT=1e-24, friction=2.0, scheme="midpoint",
                       flow=fx.flows.uniaxial_extension(0.5))  # fmt: skip
    state = stepper.start(chain, [[0.6, 0.8, 0.0]], rng=1)
    stepper.advance(chain, state, 1000)
    x, y, z = state.x[0, 0]
    assert y / x == pytest.approx(np.exp(-0.75) * 4.0 / 3.0, rel=1e-6)
    assert abs(z) < 1e-9


# --- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("flow", ["constant", "function"])
def test_a_run_goes_on_with_the_same_bits(flow, tmp_path, monkeypatch):
    chain = CHAINS["jointed"]
    flow = GRADIENT if flow == "constant" else swinging(3)
    stepper = full(chain, "midpoint", flow=flow)
    x0 = walks(chain, 9)
    options = {"every": 5, "rng": 5}
    whole = fx.simulate(chain, x0, stepper, 40, **options)
    fx.simulate(chain, x0, stepper, 15, out=tmp_path / "run", **options)
    if callable(flow):
        with pytest.raises(ValueError, match=r"swinging.*is a function of your own; a file"):
            fx.resume(tmp_path / "run", 40)
    run = fx.resume(tmp_path / "run", 40, stepper=stepper if callable(flow) else None, workers=2)
    assert np.array_equal(run.x, whole.x)
    assert np.array_equal(run.v, whole.v)
    assert run.times[-1] == pytest.approx(40 * 2e-3)
    other = replace(stepper, flow=None)
    with pytest.raises(ValueError, match=r"the stepper is not that of the run: flow=None instead"):
        fx.resume(tmp_path / "run", 60, stepper=other)


def test_parameters_make_the_stepper_again():
    for stepper in (
        Brownian(0.01),
        Brownian(0.01, kT=2.0, friction=[1.0, 2.0], ensemble="stiff", scheme="liu",
                 flow=fx.flows.shear(1.0), potential=Tether(0, (0.0, 0.0, 0.0))),
    ):  # fmt: skip
        text = json.loads(json.dumps(stepper.parameters()))
        again = from_parameters(text)
        assert again == stepper
        assert again.parameters() == stepper.parameters()
    with pytest.raises(ValueError, match=r"the flow .*swinging.* is a function of your own"):
        from_parameters(Brownian(0.01, flow=swinging(3)).parameters())


@pytest.mark.thorough
def test_friction_that_goes_with_mass_costs_no_metric_force():
    chain = CHAINS["jointed"]
    states = []
    for ensemble in ("mobility", "rigid"):
        stepper = Brownian(2e-3, friction=3.0 * chain.masses, ensemble=ensemble)
        state = stepper.start(chain, walks(chain, 1)[0], None, 8, 3)
        stepper.advance(chain, state, 5)
        states.append(state)
    assert same(*states)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"dt": 0.0}, ValueError, "dt must be positive"),
        ({"kT": -1.0}, ValueError, "kT must be positive"),
        ({"friction": 0.0}, ValueError, "friction must be positive"),
        ({"friction": [1.0, np.nan]}, ValueError, "friction of bead 1 must be positive"),
        ({"friction": np.ones((2, 2))}, ValueError, r"one for each bead, got shape \(2, 2\)"),
        ({"friction": "high"}, TypeError, "friction must be real numbers"),
        ({"ensemble": "soft"}, ValueError, "'mobility', 'stiff' or 'rigid', got 'soft'"),
        ({"scheme": "euler"}, ValueError, "'geodesic', 'midpoint' or 'liu', got 'euler'"),
        ({"flow": 1.0}, ValueError, r"velocity gradient \(2, 2\) or \(3, 3\), got shape \(\)"),
        ({"flow": np.full((3, 3), np.inf)}, ValueError, "flow must be finite"),
        ({"potential": 3}, TypeError, "potential must be"),
    ],
)
def test_what_no_stepper_can_be_is_refused(options, error, text):
    with pytest.raises(error, match=text):
        Brownian(**{"dt": 0.01} | options)


@pytest.mark.thorough
def test_what_is_not_for_this_chain_is_refused(tmp_path):
    chain = CHAINS["jointed"]
    x0 = walks(chain, 1)[0]
    with pytest.raises(ValueError, match="v0 must be None: overdamped dynamics has no velocities"):
        fx.simulate(chain, x0, Brownian(2e-3), 10, v0=0.0 * x0)
    with pytest.raises(ValueError, match=r"friction must be .* shape \(7,\), got \(6,\)"):
        Brownian(2e-3, friction=np.ones(6)).start(chain, x0)
    with pytest.raises(ValueError, match=r"flow must be a velocity gradient \(3, 3\)"):
        Brownian(2e-3, flow=np.zeros((2, 2))).start(chain, x0)
    with pytest.raises(ValueError, match=r"flow\(0\.001\) must be a velocity gradient \(3, 3\)"):
        fx.simulate(chain, x0, Brownian(2e-3, flow=swinging(2)), 10, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(TypeError, match="positional argument"):
        Brownian(2e-3, 1.0)


@pytest.mark.parametrize(
    ("bad", "text"), [(np.nan, "must be finite"), ([1.0], r"\(3, 3\), got shape \(1,\)")]
)
def test_a_function_that_returns_no_flow_is_refused_and_nothing_has_moved(bad, text):
    chain, whole = CHAINS["jointed"], np.zeros((3, 3))
    stepper = Brownian(2e-3, flow=lambda time: whole if time < 0.01 else whole * 0.0 + bad)
    if isinstance(bad, list):
        stepper = replace(stepper, flow=lambda time: whole if time < 0.01 else bad)
    state = stepper.start(chain, walks(chain, 1)[0], None, 8, 3)
    kept = State.from_arrays(state.arrays())
    with pytest.raises(ValueError, match=rf"flow\(0\.011\) .*{text}"):
        stepper.advance(chain, state, 10)
    assert same(state, kept)
    assert state.step == 0


@pytest.mark.thorough
def test_long_steps_are_warned_of():
    """What is advised is silent, and so is any unit."""
    chain = CHAINS["jointed"]
    x0, zeta = walks(chain, 8), np.full(7, 1.0)
    zeta[2] = 0.1
    with pytest.warns(RuntimeWarning, match=r"bead 2 moves 0\.45 of .*√\(2 kT dt/ζ\)") as found:
        Brownian(0.01, friction=zeta).start(chain, x0, None, 8)
    would_do = float(str(found[0].message).split("dt=")[-1].split()[0])
    assert 2e-4 <= would_do <= 5e-4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Brownian(would_do, friction=zeta).start(chain, x0, None, 8)
        Brownian(would_do * 16.0, kT=0.25, friction=zeta).start(chain, 2.0 * x0, None, 8)


@long
def test_a_step_without_any_solution_is_an_error_that_names_it():
    chain, stepper = CHAINS["jointed"], Brownian(1e6)
    state = stepper.start(chain, walks(chain, 1)[0], None, 8, 3)
    kept = State.from_arrays(state.arrays())
    with pytest.raises(fx.ConstraintSolveError, match=r"step 0 of .*√\(2 kT dt/ζ\) below a tenth"):
        stepper.advance(chain, state, 5)
    assert same(state, kept)


@pytest.mark.thorough
@pytest.mark.parametrize("scheme", ["geodesic", "midpoint", "liu"])
def test_a_stiff_ring_of_four_in_the_plane_ends_in_a_corner(scheme):
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    stepper = fx.Brownian(0.005, ensemble="stiff", scheme=scheme)
    with pytest.raises(fx.ConstraintSolveError, match="has no solution") as raised:
        fx.simulate(fx.Chain.ring(4, dim=2), square, stepper, 10_000, every=100, replicas=4, rng=0)
    assert raised.value.step < 3000


def test_a_flow_without_its_rate_is_refused():
    """It would be a shear that grows with time."""
    with pytest.raises(TypeError, match=r"a function of its rate: give flows\.shear\(rate\)"):
        fx.Brownian(0.002, flow=fx.flows.shear)
