"""Motion in time: orders, symmetry, energies and momenta, stiff joints, closures, refusals."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import eigh
from scipy.optimize import brentq

from fixman.errors import ConstraintSolveError, FrameError, SingularConstraintError
from fixman.kernels.rigid import motion as kernel
from fixman.kernels.rigid.articulated_body import DONE
from fixman.rigid import (
    SerialChain,
    _steps,
    articulated_body,
    closed,
    composite_body,
    kinematics,
    motion,
)
from fixman.rigid.closed import Closure, End, Linkage
from fixman.rigid.model import coerced
from fixman.rigid.motion import simulate
from fixman.rigid.statistics import thermal_rates
from rigid_oracles import random_q

DOWN = (0.0, -9.81, 0.0)
GRAVITY = (0.3, -0.2, -9.81)


def case(seed, free_base=False, damping=0.0, n=4):
    """Return a chain with rotors and springs, on which dampers may be, and q and q̇."""
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(n, rng, free_base=free_base)
    stiffness = rng.uniform(0, 5, arm.nv)
    if free_base:
        stiffness[:6] = 0.0
    arm = replace(
        arm,
        armature=rng.uniform(0, 1, arm.nv),
        stiffness=stiffness,
        damping=damping * rng.uniform(0, 1, arm.nv),
        rest=random_q(arm, rng),
    )
    return arm, random_q(arm, rng), rng.normal(size=arm.nv)


def slopes(arm, q, qd):
    """Return dq/dt: quaternions turn about axes of their bodies, and a free base moves along."""
    out, at, to = np.empty(arm.nq), 0, 0
    for joint in arm.joints:
        if joint in ("revolute", "prismatic"):
            out[at] = qd[to]
            at, to = at + 1, to + 1
            continue
        end = at + (3 if joint == "free" else 0)
        e, w = q[end : end + 3], q[end + 3]
        ω = qd[to + end - at : to + end - at + 3]
        out[end : end + 3], out[end + 3] = (w * ω + np.cross(e, ω)) / 2, -e @ ω / 2
        if joint == "free":
            v = qd[to : to + 3]
            out[at:end] = v + 2 * np.cross(e, np.cross(e, v) + w * v)
        at, to = end + 4, to + end - at + 3
    return out


def followed(arm, q, qd, seconds, tau=None, gravity=GRAVITY, wrenches=None):
    """Return q and q̇ by Dormand and Prince's method of eighth order."""

    def unit(q):
        # Along the way quaternions are unit ones up to the integrator's error.
        q = q.copy()
        for joint, end in zip(arm.joints, arm.position_offsets[1:], strict=True):
            if joint in ("spherical", "free"):
                q[end - 4 : end] /= np.linalg.norm(q[end - 4 : end])
        return q

    def rate(t, y):
        q, qd = unit(y[: arm.nq]), y[arm.nq :]
        force = np.zeros(arm.nv) if tau is None else tau(t, q, qd)
        qdd = articulated_body.forward_dynamics(
            arm, q, qd, force, gravity=gravity, wrenches=wrenches
        )
        return np.concatenate([slopes(arm, q, qd), qdd])

    y = solve_ivp(rate, (0, seconds), np.append(q, qd), "DOP853", rtol=1e-11, atol=1e-11).y[:, -1]
    return unit(y[: arm.nq]), y[arm.nq :]


def distance(arm, found, wanted):
    (q, qd), (q0, qd0) = found, wanted
    way = kinematics.difference(arm, q0, q)
    return max(np.abs(way).max(), np.abs(qd - qd0).max())


def ends(system, q, qd, dt, steps, **options):
    run = simulate(system, q, dt, steps, qd=qd, every=steps, **options)
    return run.q[-1], run.qd[-1]


def four_bar(**joints):
    """Return a four-bar whose crank can go round."""
    crank, rocker = (planar(lengths, **joints) for lengths in ([0.5, 1.3], [0.9]))
    rocker = replace(rocker, translations=[[1.2, 0, 0]])
    pin = Closure(End(1, (1.3, 0, 0)), End(0, (0.9, 0, 0), chain=1), ("x", "y"))
    return Linkage((crank, rocker), pin)


def planar(lengths, **joints):
    lengths = np.array(lengths)
    return replace(SerialChain.planar(lengths, lengths, lengths**3 / 12), **joints)


def turning(linkage, rate=3.0):
    return closed.project(linkage, [0.6, -0.3, 1.5], [rate, 0.0, 0.0])


# --- orders and symmetry --------------------------------------------------------------------------


@pytest.mark.parametrize("free_base", [False, True])
@pytest.mark.parametrize(("scheme", "order", "dt"), [("midpoint", 2, 2e-3), ("euler", 1, 2e-4)])
def test_errors_fall_with_the_order_of_the_scheme(free_base, scheme, order, dt):
    arm, q, qd = case(5, free_base, damping=1.0)
    tau = np.random.default_rng(0).normal(size=arm.nv)
    wanted = followed(arm, q, qd, 0.2, lambda t, q, qd: tau)
    errors = [
        distance(arm, ends(arm, q, qd, h, round(0.2 / h), tau=tau, gravity=GRAVITY,
                           scheme=scheme), wanted)
        for h in (2 * dt, dt)
    ]  # fmt: skip
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)
    assert errors[1] < 2e-3


@pytest.mark.parametrize("seed", range(4))
def test_the_midpoint_rule_goes_back_where_it_came_from(seed):
    arm, q, qd = case(seed, bool(seed % 2))
    there = ends(arm, q, qd, 0.01, 200, gravity=GRAVITY)
    back = ends(arm, there[0], -there[1], 0.01, 200, gravity=GRAVITY)
    assert distance(arm, there, (q, qd)) > 0.1
    assert distance(arm, (back[0], -back[1]), (q, qd)) < 1e-9


def test_forces_in_time_hold_a_pendulum_upside_down():
    """Kapitza: shaken fast enough, it stands; the torque is that of a shaken base."""
    pendulum, shake = planar([1.0]), 60.0
    q, qd = np.array([np.pi / 2 - 0.1]), np.zeros(1)

    def torque(t, q, qd):
        return 0.5 * 0.1 * shake**2 * np.cos(shake * t) * np.cos(q)

    run = simulate(pendulum, q, 2e-3, 1000, tau=torque, gravity=DOWN)
    assert np.abs(run.q - np.pi / 2).max() < 0.15
    wanted = followed(pendulum, q, qd, 0.2, torque, DOWN)
    errors = [
        distance(pendulum, ends(pendulum, q, qd, dt, round(0.2 / dt), tau=torque, gravity=DOWN),
                 wanted)
        for dt in (2e-4, 1e-4)
    ]  # fmt: skip
    assert errors[1] < 1e-5
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.02)
    free = simulate(pendulum, q, 2e-3, 1000, gravity=DOWN)
    assert np.abs(free.q - np.pi / 2).max() > 1


@pytest.mark.parametrize("free_base", [False, True])
@pytest.mark.parametrize(("scheme", "order", "dt"), [("midpoint", 2, 2e-3), ("euler", 1, 2e-4)])
def test_wrenches_turn_with_their_bodies(free_base, scheme, order, dt):
    arm, q, qd = case(7, free_base)
    W = np.random.default_rng(1).normal(size=(arm.n, 6))
    wanted = followed(arm, q, qd, 0.2, wrenches=W)
    given = {"gravity": GRAVITY, "scheme": scheme, "wrenches": W}
    errors = [
        distance(arm, ends(arm, q, qd, h, round(0.2 / h), **given), wanted) for h in (2 * dt, dt)
    ]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.05)
    assert errors[1] < 5e-3
    given["wrenches"] = np.stack([W, 0 * W])
    both = simulate(arm, q, dt, 5, qd=qd, **given)
    given["wrenches"] = W
    assert (both.q[:, 0] == simulate(arm, q, dt, 5, qd=qd, **given).q).all()
    del given["wrenches"]
    assert (both.q[:, 1] == simulate(arm, q, dt, 5, qd=qd, **given).q).all()


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_wrenches_on_a_linkage_are_its_weight(scheme):
    linkage = four_bar()
    q, qd = turning(linkage, 0.0)
    dt = 1e-5  # so short that weight need not turn
    turn = np.concatenate(
        [kinematics.frames(arm, x)[0] for arm, x in zip(linkage.chains, linkage.split(q, "nq"),
                                                        strict=True)]
    )  # fmt: skip
    masses = np.concatenate([arm.masses for arm in linkage.chains])
    centres = np.concatenate([arm.centres for arm in linkage.chains])
    force = masses[:, None] * (turn.swapaxes(1, 2) @ np.array(DOWN))
    W = np.concatenate([force, np.cross(centres, force)], axis=1)
    held = simulate(linkage, q, dt, 3, qd=qd, wrenches=W, scheme=scheme)
    falls = simulate(linkage, q, dt, 3, qd=qd, gravity=DOWN, scheme=scheme)
    assert np.abs(falls.qd[-1]).max() > 1e-4
    assert held.qd[-1] == pytest.approx(falls.qd[-1], rel=1e-6, abs=1e-10)
    with pytest.raises(ValueError, match="wrenches"):
        simulate(linkage, q, dt, 3, wrenches=W[:2])


# --- rounds that would diverge by themselves ------------------------------------------------------


def test_a_controller_may_be_a_callable():
    rng = np.random.default_rng(3)
    arm = SerialChain.random(7, rng, joints=("revolute",))
    masses, inertias = [4, 3, 3, 3, 2, 1.5, 0.7], np.tile(3e-3 * np.eye(3), (7, 1, 1))
    arm = replace(arm, masses=masses, inertias=inertias, centres=np.full((7, 3), 0.02))
    start = np.full(7, 0.3)
    goal = start + 0.1
    given = {"gravity": GRAVITY, "every": 300}
    asked = simulate(arm, start, 1e-3, 300, tau=lambda t, q, v: 600 * (goal - q) - 50 * v, **given)
    driven = replace(arm, stiffness=600.0, damping=50.0, rest=goal)
    assert asked.q[-1] == pytest.approx(simulate(driven, start, 1e-3, 300, **given).q[-1], abs=1e-9)


def test_a_long_snake_moves():
    n = 300
    arm = SerialChain.snake(n, length=0.1, mass=0.2, radius=0.02, free_base=True)
    joints = np.arange(arm.nv) >= 6
    arm = replace(arm, stiffness=500.0 * joints, damping=5.0 * joints)
    q = np.append(arm.rest[:7], 0.05 * np.sin(np.arange(n - 1) * 2 * np.pi / 30))
    run = simulate(arm, q, 2e-3, 40)
    assert (np.diff(run.energy) < 0).all()
    assert run.energy[-1] < 0.9 * run.energy[0]


# --- what is kept ---------------------------------------------------------------------------------


def test_the_energy_of_a_body_on_springs_does_not_drift():
    rng = np.random.default_rng(3)
    arm = SerialChain.random(2, rng, joints=("spherical",), free_base=True)
    arm = replace(arm, stiffness=np.append(np.zeros(6), [1.0, 4.0, 9.0]))
    q, qd = arm.rest, 0.4 * rng.normal(size=arm.nv)
    drifts = {}
    for scheme in ("midpoint", "euler"):
        energy = simulate(arm, q, 0.02, 20_000, qd=qd, every=5, scheme=scheme).energy[1:]
        tenth = energy.size // 10
        drifts[scheme] = abs(energy[:tenth].mean() - energy[-tenth:].mean()) / energy[0]
        if scheme == "midpoint":
            assert np.ptp(energy) < 0.02 * energy[0]
    assert drifts["midpoint"] < 1e-4
    assert drifts["euler"] > 1e-2


@pytest.mark.parametrize("seed", range(3))
def test_momenta_of_a_floating_chain_are_kept(seed):
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(5, rng, free_base=True)
    arm = replace(arm, damping=np.append(np.zeros(6), np.full(arm.nv - 6, 0.1)))
    run = simulate(arm, random_q(arm, rng), 0.01, 500, qd=rng.normal(size=arm.nv))
    P = kinematics.momentum(arm, run.q, run.qd, about="origin")
    assert np.abs(run.qd[-1] - run.qd[0]).max() > 0.1
    assert np.abs(P - P[0]).max() < 1e-10 * np.abs(P).max()


def test_momenta_about_the_mass_centre_oscillate_with_the_square_of_the_step():
    arm = SerialChain.random(4, 3, free_base=True)
    q, qd = random_q(arm, np.random.default_rng(3)), np.random.default_rng(4).normal(size=arm.nv)
    spreads = []
    for dt in (0.01, 0.005):
        run = simulate(arm, q, dt, round(1 / dt), qd=qd)
        spreads.append(np.ptp(kinematics.momentum(arm, run.q, run.qd), axis=0).max())
    assert np.log2(spreads[0] / spreads[1]) == pytest.approx(2, abs=0.1)


# --- the root that belongs to the step before -----------------------------------------------------


def rod(n, hinged=False, **given):
    arm = SerialChain.rod(n, **{"E": 1e6, "G": 4e5, "radius": 0.01, "density": 1000} | given)
    stiffness = np.array(arm.stiffness)
    if hinged:
        stiffness[:3] = 0.0
    return replace(arm, stiffness=stiffness)


def require_falling(run, rounding=1e-12):
    """Energy under damping: what it rises by is rounding."""
    assert np.diff(run.energy).max() < rounding * (np.abs(run.energy).max() + np.ptp(run.energy))


@pytest.mark.parametrize(
    ("hinged", "dt", "steps"), [(True, 5e-4, 1500), (True, 1e-4, 3000), (False, 1e-4, 3000)]
)
def test_a_damped_rod_loses_energy_in_every_step(hinged, dt, steps):
    arm = rod(20, hinged)
    arm = replace(arm, damping=1e-2 * arm.stiffness)
    require_falling(simulate(arm, arm.rest, dt, steps, gravity=(0, 0, -9.81)))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("hinged", "dt", "steps"),
    [(False, 1e-4, 60_000), (True, 5e-4, 12_000), (True, 2.5e-4, 24_000), (True, 1e-4, 60_000)],
)
def test_a_damped_rod_loses_energy_to_its_end(hinged, dt, steps):
    test_a_damped_rod_loses_energy_in_every_step(hinged, dt, steps)


def damped(seed):
    """Return a bent rod, snake or hinged rod with strong dampers, gravity and a step."""
    rng = np.random.default_rng(seed)
    kind, n = rng.choice(["rod", "hinged", "snake", "free"]), int(rng.integers(3, 31))
    if kind in ("rod", "hinged"):
        E = 10 ** rng.uniform(4, 7)
        arm = rod(n, kind == "hinged", E=E, G=0.4 * E, radius=10 ** rng.uniform(-2.3, -1.3))
        arm = replace(arm, damping=10 ** rng.uniform(-2, -1) * arm.stiffness)
    else:
        arm = SerialChain.snake(n, length=0.1, mass=0.2, radius=0.02, free_base=kind == "free")
        held = np.arange(arm.nv) >= (6 if kind == "free" else 0)
        stiffness = held * 10 ** rng.uniform(-1, 3)
        arm = replace(arm, stiffness=stiffness, damping=held * 10 ** rng.uniform(0, 1))
    q = kinematics.integrate(arm, arm.rest, 0.1 * rng.normal(size=arm.nv))
    return arm, q, 5 * rng.normal(size=3), 10 ** rng.uniform(-4, -2.5)


def fall(seeds, steps):
    """Follow them as far as they go; how many were refused."""
    refused = 0
    for seed in seeds:
        arm, q, gravity, dt = damped(seed)
        try:
            run = simulate(arm, q, dt, steps, gravity=gravity)
        except FrameError as error:
            refused += 1
            if error.step == 1:
                continue
            run = simulate(arm, q, dt, error.step - 1, gravity=gravity)
        require_falling(run)
    return refused


def test_damped_chains_lose_energy_or_are_refused():
    assert fall(range(20), 200) <= 2


@pytest.mark.thorough
def test_a_hundred_damped_chains_lose_energy_or_are_refused():
    assert fall(range(100), 600) <= 10


def sprung(seed):
    """Return a four-bar with springs, and a start that closes."""
    rng = np.random.default_rng(seed)
    while True:
        a, b, c, ground = lengths = rng.uniform(0.3, 1.5, 4)
        if 2 * max(lengths) < 0.98 * sum(lengths):
            break
    stiffness = 10 ** rng.uniform(0, 3.5) * rng.uniform(0, 1, 2)
    crank = planar([a, b], stiffness=stiffness, rest=rng.normal(size=2))
    rocker = planar([c], translations=[[ground, 0, 0]])
    pin = Closure(End(1, (b, 0, 0)), End(0, (c, 0, 0), chain=1), ("x", "y"))
    linkage = Linkage((crank, rocker), pin)
    while True:
        try:
            q = 1.5 * rng.normal(size=3)
            return linkage, *closed.project(linkage, q, 3 * rng.normal(size=3))
        except (FrameError, ConstraintSolveError):
            pass


def close(seeds, steps):
    refused = 0
    for seed in seeds:
        linkage, q, qd = sprung(seed)
        try:
            run = simulate(linkage, q, 1e-3, steps, qd=qd, gravity=DOWN)
            assert np.abs(run.gap).max() < 1e-11
        except FrameError:
            refused += 1
    return refused


@pytest.mark.thorough
def test_a_four_bar_with_springs_stays_closed():
    linkage = four_bar()
    crank = replace(linkage.chains[0], stiffness=500.0, rest=[0.5, -0.2])
    linkage = Linkage((crank, linkage.chains[1]), linkage.closures)
    q, qd = turning(linkage)
    run = simulate(linkage, q, 1e-3, 1000, qd=qd, gravity=DOWN)
    assert np.abs(run.gap).max() < 1e-12
    assert np.ptp(run.energy) < 5e-3
    assert close(range(5), 200) == 0


def test_a_damped_arm_comes_to_rest():
    """The forces that balance round by more than the rates, to which rounds are compared."""
    arm = SerialChain.planar(np.full(7, 0.3), np.full(7, 3.0), np.full(7, 0.02))
    driven = replace(arm, stiffness=600.0, damping=50.0, rest=np.full(7, 0.2))
    run = simulate(driven, np.zeros(7), 1e-2, 8000, gravity=DOWN, every=100)
    end = run.q[-1], run.qd[-1]
    qdd = articulated_body.forward_dynamics(driven, *end, np.zeros(7), gravity=DOWN)
    assert max(np.abs(run.qd[-1]).max(), np.abs(qdd).max()) < 1e-9


@pytest.mark.thorough
def test_a_damped_four_bar_comes_to_rest():
    """Closures take back what forces do to a linkage at rest: its first round says little."""
    free = four_bar()
    crank = replace(free.chains[0], damping=[2.0, 0.0])
    linkage = Linkage((crank, free.chains[1]), free.closures)
    q, qd = turning(linkage)
    run = simulate(linkage, q, 5e-3, 1500, qd=qd, gravity=DOWN, every=100)
    assert np.abs(run.qd[-1]).max() < 1e-7
    assert np.abs(run.gap).max() < 1e-12


@pytest.mark.thorough
def test_random_four_bars_stay_closed():
    assert close(range(40), 300) <= 1


def thermal(n, share):
    """Return a thin rod of EI = 1 and mass 1, rates of a temperature, and a share of 1/ω_max."""
    radius = 1 / 200
    area, E = np.pi * radius**2, 4 / (np.pi * radius**4)
    arm = SerialChain.rod(n, E, E / 2.5, radius, density=1 / area)
    M = composite_body.inertia_matrix(arm, arm.rest)
    fastest = np.sqrt(eigh(np.diag(arm.stiffness), M, eigvals_only=True)[-1])
    return arm, thermal_rates(arm, arm.rest, 0.05, rng=1), share / fastest


@pytest.mark.parametrize(
    ("n", "share", "steps"), [(10, 0.6, 500), (20, 0.3, 500), (20, 0.6, 300), (40, 0.3, 200)]
)
def test_thermal_rods_move(n, share, steps):
    """Light spins between heavy levers: ℳ alone would lead the rounds astray."""
    arm, qd, dt = thermal(n, share)
    run = simulate(arm, arm.rest, dt, steps, qd=qd)
    assert np.ptp(run.energy) < 2e-3 * share / 0.3 * run.energy[0]


@pytest.mark.thorough
@pytest.mark.parametrize(("n", "share"), [(10, 0.3), (20, 0.3), (40, 0.3), (40, 0.6)])
def test_thermal_rods_go_on(n, share):
    test_thermal_rods_move(n, share, 5000)


def left_by_newton(arm, q, qd, dt):
    """Return 1 − J⁻¹ ∂(equations) at the rates that solve a step, by differences."""
    given = coerced(arm, q[None].copy(), qd[None].copy())
    moving = _steps.Steps(given, (given.q, given.qd), dt, False)
    rest, x = np.zeros(arm.nv), moving.v_m[0]
    moving.p0[0] = 0.0
    assert moving.sweep(0, rest, dt, kernel.BEGIN) == DONE

    def after(v):
        x[:] = v
        moving.glide(0, dt)
        assert moving.sweep(0, rest, dt, kernel.NEWTON) == DONE
        return x.copy()

    root, e = qd, 1e-5
    for _ in range(30):
        root = after(root)
    return np.array([after(root + e * d) - after(root - e * d) for d in np.eye(arm.nv)]).T / (2 * e)


@pytest.mark.parametrize("free_base", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_tangent_is_of_second_order(free_base, seed):
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(5, rng, free_base=free_base)
    q, qd = random_q(arm, rng), rng.normal(size=arm.nv)
    left = [np.abs(left_by_newton(arm, q, qd, dt)).max() for dt in (0.02, 0.01)]
    assert left[1] < 0.05
    assert np.log2(left[0] / left[1]) > 1.8


@pytest.mark.parametrize("axis", range(3))
def test_a_straight_snake_of_two_hundred_falls(axis):
    arm, gravity = SerialChain.snake(200, free_base=True), -9.81 * np.eye(3)[axis]
    run = simulate(arm, arm.rest, 5e-3, 20, gravity=gravity)
    assert run.qd[-1, :3] == pytest.approx(0.1 * gravity, abs=1e-9)
    assert np.abs(run.qd[-1, 3:]).max() < 1e-8


@pytest.mark.parametrize("n", [20, 30])
def test_undamped_hinged_rods_swing(n):
    arm, spreads = rod(n, hinged=True), []
    for dt in (2e-3, 1e-3, 5e-4):
        run = simulate(arm, arm.rest, dt, round(0.1 / dt), gravity=(0, 0, -9.81))
        spreads.append(np.ptp(run.energy))
    assert np.log2(spreads[:-1] / np.array(spreads[1:])) == pytest.approx(2, abs=0.1)


def test_friction_that_jumps_is_refused_and_smooth_friction_is_not():
    """The torque holds the pendulum: at rest, sign(q̇) has no balance."""
    pendulum = planar([1.0])
    given = {"q": [-np.pi / 2 + 0.2], "dt": 1e-2, "steps": 200, "gravity": DOWN}
    with pytest.raises(FrameError, match=r"sign\(qd\).*tanh\(qd / eps\)") as caught:
        simulate(pendulum, tau=lambda t, q, qd: -3.0 * np.sign(qd), **given)
    assert "too long" not in str(caught.value)
    run = simulate(pendulum, tau=lambda t, q, qd: -3.0 * np.tanh(qd / 1e-2), **given)
    assert np.abs(run.qd[-1]) < 1e-2


def test_failures_do_not_blame_a_callable_that_nobody_gave():
    arm, qd, dt = thermal(40, 3.0)
    with pytest.raises(FrameError, match="is too long") as caught:
        simulate(arm, arm.rest, dt, 5, qd=qd)
    assert "tau" not in str(caught.value)


# --- stiff joints ---------------------------------------------------------------------------------


def test_a_damped_wheel_slows_as_the_schemes_do_it():
    wheel = planar([1.0], damping=50.0)
    inertia, dt = 1 / 12 + 1 / 4, 1.0
    z = dt * 50.0 / inertia
    for scheme, factor in (("midpoint", (1 - z / 2) / (1 + z / 2)), ("euler", 1 / (1 + z))):
        run = simulate(wheel, [0.0], dt, 5, qd=[1.0], scheme=scheme)
        assert run.qd[:, 0] == pytest.approx(factor ** np.arange(6), abs=1e-13)


def test_a_sprung_wheel_moves_as_the_schemes_do_it():
    k, c, dt = 30.0, 2.0, 0.1
    wheel, inertia = planar([1.0], stiffness=k, damping=c), 1 / 12 + 1 / 4
    for scheme in ("midpoint", "euler"):
        run, x, v = simulate(wheel, [0.2], dt, 5, qd=[1.0], scheme=scheme), 0.2, 1.0
        for q, qd in zip(run.q[1:, 0], run.qd[1:, 0], strict=True):
            if scheme == "euler":
                v = (inertia * v - dt * k * x) / (inertia + dt * c + dt**2 * k)
                x += dt * v
            else:
                middle = (inertia * v - dt / 2 * k * x) / (inertia + dt / 2 * c + dt**2 / 4 * k)
                x, v = x + dt * middle, 2 * middle - v
            assert (q, qd) == pytest.approx((x, v), abs=1e-13)


@pytest.mark.parametrize("stiffness", [1e3, 1e9])
@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_steps_need_not_be_shorter_for_stiffer_springs(stiffness, scheme):
    rng = np.random.default_rng(1)
    arm = SerialChain.random(6, rng, joints=("spherical", "revolute"))
    arm = replace(arm, stiffness=stiffness, rest=random_q(arm, rng))
    bent = kinematics.integrate(arm, arm.rest, 1e-3 * rng.normal(size=arm.nv))
    run = simulate(arm, bent, 0.05, 200, gravity=GRAVITY, scheme=scheme)
    weight = kinematics.potential_energy(arm, arm.rest, gravity=GRAVITY)
    assert ((run.energy - weight) < 1.5 * (run.energy[0] - weight) + 1.0).all()
    assert np.abs(kinematics.difference(arm, arm.rest, run.q)).max() < 5e-3 + 100 / stiffness


def test_stiff_joints_and_closures_go_together():
    soft = four_bar()
    q, _ = turning(soft, 0.0)
    arms = tuple(
        replace(arm, stiffness=1e8, damping=1e4, rest=x)
        for arm, x in zip(soft.chains, soft.split(q, "nq"), strict=True)
    )
    linkage = Linkage(arms, soft.closures)
    for scheme in ("midpoint", "euler"):
        run = simulate(linkage, q, 0.02, 20, gravity=DOWN, scheme=scheme)
        assert np.abs(run.q - q).max() < 1e-6
        assert np.abs(run.gap).max() < 1e-12


# --- closures -------------------------------------------------------------------------------------


def test_a_four_bar_turns_with_its_energy_and_closed():
    linkage = four_bar()
    run = simulate(linkage, *turning(linkage)[:1], 0.01, 1500, qd=turning(linkage)[1], gravity=DOWN)
    assert run.q[-1, 0] - run.q[0, 0] > 4 * np.pi
    assert np.abs(run.gap).max() < 1e-12
    assert np.abs(closed.gap(linkage, run.q, run.qd)).max() < 1e-12
    early, late = run.energy[1:501].mean(), run.energy[-500:].mean()
    assert abs(late - early) < 0.02 * np.ptp(run.energy)


@pytest.mark.parametrize(("scheme", "order"), [("midpoint", 2), ("euler", 1)])
def test_orders_with_closures(scheme, order):
    linkage = four_bar()
    q, qd = turning(linkage)
    found = [
        ends(linkage, q, qd, dt, round(0.24 / dt), gravity=DOWN, scheme=scheme)
        for dt in (8e-3, 4e-3, 2e-3)
    ]
    far = [np.abs(np.subtract(a[1], b[1])).max() for a, b in pairwise(found)]
    assert np.log2(far[0] / far[1]) == pytest.approx(order, abs=0.15)


def full(joints):
    """Return a four-bar with rotors, and with springs and dampers on its crank and coupler."""
    linkage = four_bar(**joints, armature=0.2)
    arms = tuple(replace(arm, rest=np.full(arm.n, 0.3)) for arm in linkage.chains)
    return Linkage(arms, linkage.closures)


@pytest.mark.parametrize(("scheme", "order", "dt"), [("midpoint", 2, 2e-3), ("euler", 1, 1e-3)])
def test_orders_with_closures_springs_dampers_and_rotors(scheme, order, dt):
    """Against Dormand and Prince's method on the accelerations of the closed chain."""
    linkage = full({"stiffness": 40.0, "damping": 0.7})
    q, qd = turning(linkage)

    def rate(t, y):
        a = closed.forward_dynamics(
            linkage, y[:3], y[3:], np.zeros(3), gravity=DOWN, tolerance=0.01
        )
        return np.append(y[3:], a.qdd)

    y = solve_ivp(rate, (0, 0.24), np.append(q, qd), "DOP853", rtol=1e-11, atol=1e-11).y[:, -1]
    errors = []
    for h in (dt, dt / 2):
        run = simulate(linkage, q, h, round(0.24 / h), qd=qd, gravity=DOWN, scheme=scheme)
        errors.append(np.abs(np.append(run.q[-1], run.qd[-1]) - y).max())
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)
    assert errors[0] < 0.03


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_a_parallelogram_on_springs_is_an_oscillator(scheme):
    """Its cranks turn and its coupler does not: inertia 5/3 and the rotors' about both joints."""
    k, c, J, dt = np.array([30.0, 5.0, 8.0]), np.array([0.2, 0.1, 0.3]), np.full(3, 0.4), 0.1
    crank = planar([1.0, 1.0], stiffness=k[:2], damping=c[:2], armature=J[:2], rest=[0.5, -0.5])
    rocker = planar([1.0], stiffness=k[2], damping=c[2], armature=J[2], rest=[0.5])
    rocker = replace(rocker, translations=[[2.0, 0, 0]])
    crank = replace(crank, translations=[[0, 0, 0], [1.0, 0, 0]])
    pin = Closure(End(1, (2.0, 0, 0)), End(0, (1.0, 0, 0), chain=1), ("x", "y"))
    linkage = Linkage((crank, rocker), pin)
    # The coupler's own length does not count: it moves as its joints do, with 1 kg.
    K, C, inertia = k.sum(), c.sum(), 1 / 3 + 1 / 3 + 1 + J.sum()
    run = simulate(linkage, [0.7, -0.7, 0.7], dt, 20, qd=[0.3, -0.3, 0.3], scheme=scheme)
    x, v = 0.2, 0.3
    for q, qd in zip(run.q[1:, 0], run.qd[1:, 0], strict=True):
        if scheme == "euler":
            v = (inertia * v - dt * K * x) / (inertia + dt * C + dt**2 * K)
            x += dt * v
        else:
            middle = (inertia * v - dt / 2 * K * x) / (inertia + dt / 2 * C + dt**2 / 4 * K)
            x, v = x + dt * middle, 2 * middle - v
        assert q - 0.5 == pytest.approx(x, abs=1e-10)
        assert qd == pytest.approx(v, abs=1e-10)


@pytest.mark.parametrize("kind", ["ball", "hinge", ("x", "z")])
def test_a_spatial_loop_goes_back_where_it_came_from(kind):
    rng = np.random.default_rng(8)
    arm = replace(SerialChain.random(7, rng), damping=0.0)
    q = random_q(arm, rng)
    R, x = kinematics.frames(arm, q)
    linkage = Linkage(arm, Closure(6, End(None, x[6], R[6]), kind))
    q, qd = closed.project(linkage, q, rng.normal(size=arm.nv))
    run = simulate(linkage, q, 5e-3, 60, qd=qd, gravity=GRAVITY)
    assert np.abs(run.gap).max() < 1e-12
    back = simulate(linkage, run.q[-1], 5e-3, 60, qd=-run.qd[-1], gravity=GRAVITY)
    assert distance(arm, (back.q[-1], -back.qd[-1]), (q, qd)) < 1e-9


# --- the same bits --------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_runs_are_the_same_however_they_are_made(scheme, monkeypatch):
    arm, q, qd = case(2, damping=1.0)
    tau = np.random.default_rng(0).normal(size=arm.nv)
    given = {"tau": tau, "gravity": GRAVITY, "scheme": scheme}
    whole = simulate(arm, q, 0.01, 60, qd=qd, **given)
    sparse = simulate(arm, q, 0.01, 60, qd=qd, every=20, **given)
    assert (sparse.q == whole.q[::20]).all()
    assert (sparse.step == [0, 20, 40, 60]).all()
    first = simulate(arm, q, 0.01, 25, qd=qd, **given)
    rest = simulate(arm, first.q[-1], 0.01, 35, qd=first.qd[-1], first=25, **given)
    assert (rest.q == whole.q[25:]).all()
    assert (rest.time == whole.time[25:]).all()
    monkeypatch.setattr(motion, "BLOCK", 1)
    assert (simulate(arm, q, 0.01, 60, qd=qd, **given).qd == whole.qd).all()
    given["tau"] = lambda t, q, qd: tau
    assert (simulate(arm, q, 0.01, 60, qd=qd, **given).qd == whole.qd).all()
    other = case(2)[1] if arm.nq == 1 else kinematics.integrate(arm, q, 0.3 * qd)
    given["tau"] = tau
    both = simulate(arm, [[q], [other]], 0.01, 60, qd=qd, **given)
    assert both.q.shape == (61, 2, 1, arm.nq)
    assert (both.q[:, 0, 0] == whole.q).all()
    assert (both.q[:, 1, 0] == simulate(arm, other, 0.01, 60, qd=qd, **given).q).all()
    assert (both.energy[:, 0, 0] == whole.energy).all()


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_closed_runs_are_the_same_however_they_are_made(scheme):
    linkage = four_bar()
    starts = [turning(linkage, rate) for rate in (3.0, 1.0)]
    q, qd = (np.array(part) for part in zip(*starts, strict=True))
    given = {"gravity": DOWN, "scheme": scheme}
    whole = simulate(linkage, q, 0.01, 20, qd=qd, **given)
    alone = simulate(linkage, q[1], 0.01, 20, qd=qd[1], **given)
    assert (whole.q[:, 1] == alone.q).all()
    first = simulate(linkage, q[1], 0.01, 8, qd=qd[1], **given)
    rest = simulate(linkage, first.q[-1], 0.01, 12, qd=first.qd[-1], first=8, **given)
    assert (rest.qd == alone.qd[8:]).all()


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_no_replicas_move_to_none(scheme):
    for system in (case(2)[0], four_bar()):
        for tau in (None, lambda t, q, qd: 0.0 * qd):
            run = simulate(system, np.zeros((0, system.nq)), 0.01, 4, tau=tau, scheme=scheme)
            assert run.q.shape == (5, 0, system.nq)
            assert run.energy.shape == (5, 0)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
@pytest.mark.parametrize("dt", [1.0, 1e3, 1e90])
def test_a_step_that_is_too_long_is_refused_and_named(scheme, dt):
    arm, q, qd = case(4)
    arm = replace(arm, stiffness=None)
    states = np.array([0.0 * qd, 1e3 * qd])
    with pytest.raises(FrameError, match=r"in step 11 in frame 1: dt=.* is too long") as caught:
        simulate(arm, q, dt, 5, qd=states, scheme=scheme, first=10, tau=0 * qd)
    assert (caught.value.step, caught.value.frame) == (11, 1)


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_wrong_values_are_refused(scheme):
    arm, q, qd = case(4)
    bad = qd.copy()
    bad[2] = np.nan
    for given in ({"qd": bad}, {"tau": bad}, {"gravity": (0, np.inf, 0)}):
        with pytest.raises(ValueError, match="finite"):
            simulate(arm, q, 0.01, 5, scheme=scheme, **given)
    with pytest.raises(ValueError, match=r"tau\(t, q, qd\) must be finite"):
        simulate(arm, q, 0.01, 5, scheme=scheme, tau=lambda t, q, v: bad)
    with pytest.raises(ValueError, match="must have shape"):
        simulate(arm, q, 0.01, 5, scheme=scheme, tau=lambda t, q, v: np.zeros((3, arm.nv)))
    with pytest.raises(ValueError, match="every must divide"):
        simulate(arm, q, 0.01, 5, every=2)
    with pytest.raises(ValueError, match="scheme must be"):
        simulate(arm, q, 0.01, 5, scheme="leapfrog")
    with pytest.raises(ValueError, match="first"):
        simulate(arm, q, 0.01, 5, first=2**63)
    with pytest.raises(ValueError, match="dt"):
        simulate(arm, q, 0.0, 5)
    with pytest.raises(TypeError, match="system must be"):
        simulate(q, arm, 0.01, 5)


def test_a_joint_that_moves_nothing_is_named():
    arm = planar([1.0, 1.0])
    empty = replace(arm, masses=[1.0, 0.0], inertias=arm.inertias * [[[1.0]], [[0.0]]])
    with pytest.raises(SingularConstraintError, match="joint 1") as caught:
        simulate(empty, [0.1, 0.2], 0.01, 5)
    assert caught.value.body == 1


def test_rounds_that_go_astray_are_not_called_fast():
    arm, q, qd = case(4)

    def pushed_away(t, q, qd):
        return 1e6 * qd * abs(qd).max() + 1.0

    message = r"not solved in step 1.*sign\(qd\).*damping, stiffness and rest"
    with pytest.raises(FrameError, match=message):
        simulate(arm, q, 0.01, 5, qd=1e-3 * qd, tau=pushed_away)


def test_angles_in_whose_rounding_steps_are_lost_are_refused():
    arm = planar([1.0, 1.0])
    for q in ([[0.0, 0.0], [0.0, -1e17]], [[0.0, 1e300]]):
        with pytest.raises(FrameError, match=r"coordinate 1 in frame .: angles beyond 1e\+08"):
            simulate(arm, q, 1e-3, 5, gravity=DOWN)
    assert simulate(arm, [1e7, 0.0], 1e-3, 5, gravity=DOWN).q.shape == (6, 2)


def test_a_singular_posture_of_a_linkage_is_named():
    """A rhombus folds up: two of its rods lie on the others, at the end of the fifth step."""
    crank, rocker = planar([1.0, 1.0]), replace(planar([1.0]), translations=[[1.0, 0, 0]])
    pin = Closure(End(1, (1.0, 0, 0)), End(0, (1.0, 0, 0), chain=1), ("x", "y"))
    linkage = Linkage((crank, rocker), pin)
    q, qd = closed.project(linkage, [0.6, -0.6, 0.6], [-1.0, 0.0, 0.0])

    def folded(dt):
        try:
            return simulate(linkage, q, dt, 5, qd=qd, gravity=DOWN).q[-1, 0]
        except SingularConstraintError:
            return 0.0

    dt = brentq(folded, 0.02, 0.1, xtol=1e-15)
    with pytest.raises(SingularConstraintError, match="closures cannot hold") as caught:
        simulate(linkage, q, dt, 10, qd=qd, gravity=DOWN)
    assert caught.value.step in (5, 6)


def test_a_linkage_must_close_at_the_start():
    with pytest.raises(FrameError, match="do not close"):
        simulate(four_bar(), [0.6, -0.3, 1.5], 0.01, 5)
    linkage = four_bar()
    q, qd = turning(linkage)
    with pytest.raises(FrameError, match="too long"):
        simulate(linkage, q, 3.0, 5, qd=qd, gravity=DOWN)


def test_trajectories_are_immutable_and_say_what_they_are():
    arm, q, qd = case(4)
    run = simulate(arm, q, 0.01, 4, qd=qd, every=2)
    steps = f"steps 0 to 4, times 0 to 0.04, dt=0.01, {arm.nq} coordinates"
    assert repr(run) == f"<Trajectory: 3 frames, {steps}>"
    with pytest.raises(ValueError, match="read-only"):
        run.q[0] = 0.0
    with pytest.raises(TypeError, match="must be a Linkage"):
        _ = run.gap


def test_numbers_that_a_controller_writes_over_are_not_those_of_the_run():
    linkage = four_bar()
    q, _ = turning(linkage)
    loads = np.zeros((linkage.n, 6))
    loads[0] = 1.0

    def tau(t, q, qd):
        loads[:] = 100.0
        return np.zeros(linkage.nv)

    given = {"dt": 0.01, "steps": 5, "scheme": "euler"}
    wanted = simulate(linkage, q, wrenches=loads.copy(), tau=lambda t, q, v: 0.0 * v, **given)
    found = simulate(linkage, q, wrenches=loads, tau=tau, **given)
    np.testing.assert_array_equal(found.q, wanted.q)
