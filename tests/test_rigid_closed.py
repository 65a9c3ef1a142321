"""Closed chains: exact examples, dense KKT, determinants, projection, refusals."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.spatial.transform import Rotation

from fixman.errors import ConstraintSolveError, FrameError, SingularConstraintError
from fixman.rigid import (
    SerialChain,
    articulated_body,
    closed,
    kinematics,
    motion,
    partition,
    statistics,
)
from fixman.rigid.closed import Closure, End, Linkage
from oracles import error
from rigid_cases import changed
from rigid_oracles import dense_chain, dense_closed, dense_system, random_q
from selection import quick

SEEDS = st.integers(0, 2**32 - 1)
DOWN = (0.0, -9.81, 0.0)
PIN = ("x", "y")
TIPS = End(1, (1, 0, 0)), End(0, (1, 0, 0), chain=1)  # of the chains of `parallelogram`
KINDS = ("weld", "ball", "hinge", "slide", ("x", "rx", "rz"), ("y", "z"), ("rx", "ry", "rz"))


def rods(*lengths, at=0.0):
    """Return a planar arm of rods of 1 kg/m that starts at x = at."""
    m = np.array(lengths)
    arm = SerialChain.planar(m, m, m**3 / 12)
    shift = arm.translations.copy()
    shift[0, 0] = at
    return changed(arm, translations=shift)


def parallelogram(kind=PIN):
    return Linkage((rods(1, 1), rods(1, at=1.0)), Closure(*TIPS, kind))


def cranks(angle, rate=0.0):
    """Return the parallelogram's q and q̇: cranks at an angle from hanging down."""
    a = angle - np.pi / 2
    return np.array([a, -a, a]), np.array([rate, -rate, rate])


def poses(linkage, q):
    """Return axes and origins of all bodies of each chain."""
    return [
        kinematics.frames(arm, x)
        for arm, x in zip(linkage.chains, linkage.split(q, "nq"), strict=True)
    ]


def shut(chains, ends, q, rng):
    """Return a linkage that is closed at q: kinds, and bodies (chain, body or None) to close."""
    where = poses(Linkage(chains, Closure(0, None)), q)
    closures = []
    for kind, (a, b) in ends:
        R, x = zip(*((np.eye(3), np.zeros(3)) if body is None
                     else (where[c][0][body], where[c][1][body]) for c, body in (a, b)),
                   strict=True)  # fmt: skip
        p, axes = rng.normal(size=3) * 0.3, random_rotation(rng)
        Q, at, held = R[0] @ axes, x[0] + R[0] @ p, Closure(0, None, kind).directions
        move = np.where([d in held for d in ("x", "y", "z")], 0.0, rng.normal(size=3) * 0.5)
        free = [d for d in range(3) if ("rx", "ry", "rz")[d] not in held]
        turn = np.eye(3) if not free else random_rotation(rng, free[0] if len(free) == 1 else None)
        other = End(b[1], R[1].T @ (at + Q @ move - x[1]), R[1].T @ Q @ turn, b[0])
        closures.append(Closure(End(a[1], p, axes, a[0]), other, kind))
    return Linkage(chains, tuple(closures))


def random_rotation(rng, axis=None):
    """Rotation matrix about any axis, or about a coordinate axis."""
    w = rng.normal(size=3) if axis is None else rng.normal() * np.eye(3)[axis]
    return Rotation.from_rotvec(w).as_matrix()


def random_loop(seed, least=8, most=16, kinds=KINDS):
    """Return a linkage of one chain or two, closed at q, with q, q̇, τ and loads.

    Closures that the chains can follow: A, scaled, has a condition number below 300.
    """
    rng = np.random.default_rng(seed)
    while True:
        sizes = rng.integers(least, most + 1, size=int(rng.integers(1, 3)))
        chains = [SerialChain.random(int(n), rng, free_base=bool(rng.integers(2))) for n in sizes]
        q = np.concatenate([random_q(arm, rng) for arm in chains])
        last = [(c, int(n) - 1) for c, n in enumerate(sizes)]
        middle = (0, int(rng.integers(sizes[0])))
        pairs = [(last[0], (0, None)), (middle, (0, None)), (last[0], last[-1]), (middle, last[-1])]
        picked = rng.permutation(len(pairs))[: int(rng.integers(1, 3))]
        ends = [(kinds[int(rng.integers(len(kinds)))], pairs[k]) for k in picked]
        if any(a == b for _, (a, b) in ends):
            continue
        linkage = shut(tuple(chains), ends, q, rng)
        A = dense_system(linkage, q, np.zeros(linkage.nv))[2]
        size = np.linalg.norm(A, axis=1)
        if size.all() and np.linalg.cond(A / size[:, None]) < 300:
            break
    qd = closing_rates(linkage, q, rng.normal(size=linkage.nv))
    loads = {"gravity": rng.normal(size=3) * 5, "wrenches": rng.normal(size=(linkage.n, 6))}
    return linkage, (q, qd, rng.normal(size=linkage.nv)), loads


def closing_rates(linkage, q, qd):
    A = dense_system(linkage, q, 0 * qd)[2]
    return qd - np.linalg.lstsq(A, A @ qd, rcond=None)[0]


# --- numbers of examples --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("angle", "rate", "wanted"), [(30, 0.0, -5.886), (60, -3.0, -10.194851053350)]
)
def test_parallelogram_of_rods(angle, rate, wanted):
    q, qd = cranks(np.radians(angle), rate)
    found = closed.forward_dynamics(parallelogram(), q, qd, np.zeros(3), gravity=DOWN)
    assert np.abs(found.qdd - [wanted, -wanted, wanted]).max() <= 1e-12


def test_force_on_the_pin_of_a_crank_on_the_base():
    pin = Closure(None, End(2, (1, 0, 0)), PIN)
    pin = Closure(End(None, (1, 0, 0)), pin.b, PIN)
    linkage, a = Linkage(rods(1, 1, 1), pin), np.radians(30) - np.pi / 2
    q, rest = np.array([a, -a, a - np.pi]), np.zeros(3)
    found = closed.forward_dynamics(linkage, q, rest, rest, gravity=DOWN)
    force = [-3 * 5.886 * np.sqrt(3) / 6, 11.772, 0, 0, 0, 0]
    assert np.abs(found.wrenches - [force]).max() <= 1e-12
    assert np.abs(found.qdd - [-5.886, 5.886, -5.886]).max() <= 1e-12


def test_stewart_platform_at_rest_carries_its_weight():
    linkage, q = stewart()
    qd, tau = np.zeros((2, linkage.nv))
    found = closed.forward_dynamics(linkage, q, qd, tau, gravity=(0, 0, -9.81))
    qdd, wrenches = dense_closed(linkage, q, qd, tau, gravity=(0, 0, -9.81))
    assert error(found.qdd, qdd) <= 1e-10
    assert error(found.wrenches, wrenches) <= 1e-10
    # Legs that push by the right forces hold the plate; each may spin about itself.
    slides = 4 * np.arange(6) + 3
    push = np.eye(linkage.nv)[slides]
    driven = closed.forward_dynamics(linkage, q, qd, push).qdd[:, slides]
    lift = -np.linalg.solve(driven.T, found.qdd[slides])
    held = closed.forward_dynamics(linkage, q, qd, lift @ push, gravity=(0, 0, -9.81))
    assert np.abs(held.qdd[[*slides, *range(-6, 0)]]).max() <= 1e-10 * np.abs(found.qdd).max()


def stewart():
    """Return six legs, spherical then prismatic, with balls under a free plate, and its q."""
    angles = np.radians([0, 20, 120, 140, 240, 260])
    feet = np.stack([2 * np.cos(angles), 2 * np.sin(angles), 0 * angles], axis=1)
    angles = np.radians([-50, 70, 70, 190, 190, 310]) + np.radians([0, -20, 0, -20, 0, -20])
    under = np.stack([np.cos(angles), np.sin(angles), 0 * angles - 0.1], axis=1)
    leg = SerialChain.random(2, 3, joints=("spherical", "prismatic"))
    leg = changed(leg, joints=("spherical", "prismatic"), rotations=np.tile(np.eye(3), (2, 1, 1)),
                  translations=np.zeros((2, 3)))  # fmt: skip
    legs = [changed(leg, translations=[foot, (0, 0, 0.2)]) for foot in feet]
    plate = changed(
        SerialChain.random(1, 5, free_base=True),
        rotations=[np.eye(3)],
        translations=np.zeros((1, 3)),
    )
    ends = [Closure(End(1, chain=k), End(0, under[k], chain=6), "ball") for k in range(6)]
    q = []
    centre = np.array([0.1, -0.05, 1.5])
    for foot, place in zip(feet, under, strict=True):
        along = centre + place - foot
        length = np.linalg.norm(along)
        half = np.append(np.cross([0, 0, 1], along / length), 1 + along[2] / length)
        q += [*half / np.linalg.norm(half), length - 0.2]
    return Linkage((*legs, plate), tuple(ends)), np.array([*q, *centre, 0, 0, 0, 1.0])


# --- against dense algebra ------------------------------------------------------------------------


@pytest.mark.parametrize("first", quick(range(0, 200, 20), 0, 40))
def test_loops_against_a_dense_solve(first):
    for seed in range(first, first + 20):
        linkage, state, loads = random_loop(seed, most=40)
        found = closed.forward_dynamics(linkage, *state, **loads)
        qdd, wrenches = dense_closed(linkage, *state, **loads)
        assert error(found.qdd, qdd) <= 1e-10, seed
        assert error(found.wrenches, wrenches) <= 1e-10, seed


@pytest.mark.parametrize(("arms", "joints"), [(2, 7), (3, 7), (2, 30)])
def test_grasps_against_a_dense_solve(arms, joints):
    rng = np.random.default_rng(arms * joints)
    hands = [SerialChain.random(joints, rng, joints=("revolute",)) for _ in range(arms)]
    chains = (*hands, SerialChain.random(1, rng, free_base=True))
    q = np.concatenate([random_q(arm, rng) for arm in chains])
    ends = [("weld", ((arms, 0), (c, joints - 1))) for c in range(arms)]
    linkage = shut(chains, ends, q, rng)
    qd, tau = closing_rates(linkage, q, rng.normal(size=linkage.nv)), rng.normal(size=linkage.nv)
    found = closed.forward_dynamics(linkage, q, qd, tau, gravity=DOWN)
    qdd, wrenches = dense_closed(linkage, q, qd, tau, gravity=DOWN)
    assert error(found.qdd, qdd) <= 1e-10
    assert error(found.wrenches, wrenches) <= 1e-10


@given(SEEDS)
def test_determinants_are_the_dense_ones(seed):
    linkage, (q, qd, _), _ = random_loop(seed, least=4, most=9)
    M, _, A, _, _ = dense_system(linkage, q, qd)
    Z = null_space(A)
    wanted = np.linalg.slogdet(Z.T @ M @ Z)[1]
    assert closed.logdet_mass(linkage, q) == pytest.approx(wanted, abs=1e-10, rel=1e-10)
    # All joints and closures are rows of the same kind: relative twists that bodies must not have.
    found = closed.logdet_hard(linkage, q)
    assert found == pytest.approx(dense_logdet_hard(linkage, q), abs=1e-10, rel=1e-10)


def dense_logdet_hard(linkage, q):
    """Return ln det B M⁻¹ Bᵀ with a row for each direction that a joint or closure holds."""
    names = {"revolute": Closure(0, None, "hinge"), "prismatic": Closure(0, None, "slide"),
             "spherical": Closure(0, None, "ball")}  # fmt: skip
    inverses, rows, first, placed = [], [], 0, []
    for arm, x in zip(linkage.chains, linkage.split(q, "nq"), strict=True):
        bodies = dense_chain(arm, x, np.zeros(arm.nv))[2]
        for i in range(arm.n):
            R, c = bodies[i][0], bodies[i][0] @ arm.centres[i]
            shift = np.eye(6)
            shift[:3, 3:] = [[0, c[2], -c[1]], [-c[2], 0, c[0]], [c[1], -c[0], 0]]
            about = np.zeros((6, 6))
            about[:3, :3] = arm.masses[i] * np.eye(3)
            about[3:, 3:] = R @ arm.inertias[i] @ R.T
            inverses.append(np.linalg.inv(shift.T @ about @ shift))
            if arm.joints[i] != "free":
                before = bodies[i - 1]  # −1 is the base
                rows += held(names[arm.joints[i]], (first + i - 1 if i else None, before[:2]),
                             (first + i, bodies[i][:2]), R, bodies[i][1], linkage.n)  # fmt: skip
        placed.append((first, bodies))
        first += arm.n
    for closure in linkage.closures:
        sides = []
        for end in (closure.a, closure.b):
            start, bodies = placed[end.chain]
            body = bodies[-1 if end.body is None else end.body]
            sides.append((None if end.body is None else start + end.body, body[:2]))
        point = sides[1][1][1] + sides[1][1][0] @ np.array(closure.b.point)
        axes = sides[0][1][0] @ np.array(closure.a.axes)
        rows += held(closure, *sides, axes, point, linkage.n)
    B = np.array(rows).reshape(len(rows), -1, 6)
    H = sum(B[:, k] @ inverses[k] @ B[:, k].T for k in range(linkage.n))
    return np.linalg.slogdet(H)[1]


def held(closure, a, b, axes, point, n):
    """Rows of a closure for the twists of all bodies' origins, at a point and in axes."""
    out = []
    for name in closure.directions:
        row, d = np.zeros((n, 6)), "xyz".index(name[-1])
        for sign, (body, (_, x)) in ((-1, a), (1, b)):
            if body is None:
                continue
            if name[0] == "r":
                row[body, 3:] = sign * axes[:, d]
            else:
                row[body] = sign * np.append(axes[:, d], np.cross(point - x, axes[:, d]))
        out.append(row)
    return out


@pytest.mark.parametrize("seed", [0, 1, 3, 4, 6, 7, 8, 9, 10])
def test_torque_is_the_gradient_of_the_potential(seed):
    """Along all rates: tangent directions, and those in which the closures open."""
    linkage, (q, qd, _), _ = random_loop(seed, least=4, most=9)
    torque = closed.fixman_torque(linkage, q, 2.0)

    def slopes(rates):
        def potential(dt):
            return closed.fixman_potential(linkage, closed.integrate(linkage, q, rates, dt), 2.0)

        near, far = (potential(dt) - potential(-dt) for dt in (1e-3, 2e-3))
        return (8 * near - far) / 12e-3

    every = -slopes(np.eye(linkage.nv))
    assert np.abs(torque - every).max() <= 1e-8 * np.abs(every).max()
    along = qd / np.abs(qd).max()  # which closes
    assert abs(torque @ along + slopes(along)) <= 1e-8 * np.abs(every).max()
    both = closed.fixman_torque(linkage, np.stack([q, q]), 2.0)
    assert np.abs(both - torque).max() <= 1e-12 * np.abs(torque).max()


@pytest.mark.parametrize("seed", range(6))
def test_joints_with_armature_against_a_dense_solve(seed):
    linkage, (q, qd, tau), loads = random_loop(seed)
    rng = np.random.default_rng(seed)
    rotors = [rng.uniform(0.1, 2.0, arm.nv) for arm in linkage.chains]
    dampers = [rng.uniform(0.1, 1.0, arm.nv) for arm in linkage.chains]
    arms = tuple(
        replace(arm, armature=J, damping=c)
        for arm, J, c in zip(linkage.chains, rotors, dampers, strict=True)
    )
    found = closed.forward_dynamics(Linkage(arms, linkage.closures), q, qd, tau, **loads)
    M, bias, A, drift, _ = dense_system(linkage, q, qd, **loads)
    J, c = np.concatenate(rotors), np.concatenate(dampers)
    K = np.block([[M + np.diag(J), -A.T], [A, np.zeros((len(A), len(A)))]])
    wanted = np.linalg.solve(K, np.append(tau - c * qd - bias, -drift))[: linkage.nv]
    assert error(found.qdd, wanted) <= 1e-10


def test_open_determinants_and_a_joint_that_is_a_closure():
    """Two free bodies and a hinge have H^bb of one row less than the chain that they make."""
    rng = np.random.default_rng(0)
    arm = SerialChain.random(2, rng, joints=("revolute",), free_base=True)
    q = random_q(arm, rng)
    R, x = kinematics.frames(arm, q)
    tail = changed(arm, joints=("free",), rotations=[np.eye(3)], translations=np.zeros((1, 3)),
                   masses=arm.masses[1:], centres=arm.centres[1:],
                   inertias=arm.inertias[1:])  # fmt: skip
    head = changed(arm, **{name: getattr(arm, name)[:1] for name in
                           ("joints", "rotations", "translations", "masses", "centres",
                            "inertias")})  # fmt: skip
    joint = Closure(End(0, arm.translations[1], arm.rotations[1]), End(0, chain=1), "hinge")
    pair = Linkage((head, tail), joint)
    both = np.concatenate([q[:7], x[1], quaternion_of(R[1])])
    assert np.abs(closed.gap(pair, both)).max() <= 1e-14
    wanted = partition.logdet_hard(arm, q)
    assert closed.logdet_hard(pair, both) == pytest.approx(wanted, rel=1e-12)


def quaternion_of(R):
    return Rotation.from_matrix(R).as_quat()


def planar_weld(seed, **options):
    """Return two planar arms welded at their tips, with q and q̇ that close."""
    rng = np.random.default_rng(seed)
    arms = rods(0.7, 0.9, 0.6), rods(0.8, 0.5, at=1.1)
    weld = Closure(End(2, (0.6, 0, 0)), End(1, (0.5, 0.1, 0), chain=1), ("x", "y", "rz"))
    linkage = Linkage(tuple(replace(arm, **options) for arm in arms), weld)
    guess = np.array([1.2, -0.9, -0.6, 1.4, 0.3]) + 0.2 * rng.normal(size=5)
    return linkage, *closed.project(linkage, guess, rng.normal(size=5))


@pytest.mark.parametrize("seed", range(3))
def test_planar_arms_can_be_welded(seed):
    linkage, q, qd = planar_weld(seed)
    (R, x), (S, y) = poses(linkage, q)
    assert np.abs(x[2] + R[2] @ [0.6, 0, 0] - y[1] - S[1] @ [0.5, 0.1, 0]).max() <= 1e-12
    assert np.abs(R[2] - S[1]).max() <= 1e-12
    tau = np.random.default_rng(seed).normal(size=5)
    found = closed.forward_dynamics(linkage, q, qd, tau, gravity=DOWN)
    qdd, wrenches = dense_closed(linkage, q, qd, tau, gravity=DOWN)
    assert error(found.qdd, qdd) <= 1e-11
    assert error(found.wrenches, wrenches) <= 1e-11
    assert np.abs(found.wrenches[0, [0, 1, 5]]).min() > 0.0
    torque = closed.fixman_torque(linkage, q)

    def potential(dt):
        return closed.fixman_potential(linkage, closed.integrate(linkage, q, np.eye(5), dt))

    near, far = (potential(dt) - potential(-dt) for dt in (1e-3, 2e-3))
    assert np.abs(torque + (8 * near - far) / 12e-3).max() <= 1e-8 * np.abs(torque).max()


def test_a_weld_in_the_plane_is_named_and_followed_in_time():
    linkage, q, qd = planar_weld(0)
    three, two = linkage.chains
    with pytest.raises(SingularConstraintError, match=r'a weld \("x", "y", "rz"\)'):
        closed.forward_dynamics(Linkage((three, two), replace(linkage.closures[0], kind="weld")),
                                q, 0 * qd, 0 * qd)  # fmt: skip
    run = motion.simulate(linkage, q, 1e-3, 200, qd=qd, gravity=DOWN)
    assert np.abs(run.gap).max() <= 1e-11
    assert np.ptp(run.energy) <= 1e-3 * np.abs(run.energy).max()


def test_slides_that_meet_close_in_lengths_of_one():
    """Where the linkage itself has no length."""
    slide = SerialChain(
        ["prismatic"], [np.eye(3)], np.zeros((1, 3)), [1.0], np.zeros((1, 3)), [np.eye(3)]
    )
    pair = Linkage((slide, slide), Closure(End(0), End(0, chain=1), ("z",)))
    with pytest.raises(FrameError, match="z of closure 0 is off by"):
        closed.forward_dynamics(pair, [1.0, 1.1], [0, 0], [0, 0])
    shut, _ = closed.project(pair, [1.0, 1.1])
    assert shut == pytest.approx(np.full(2, 1.05), rel=1e-12)
    for q in (shut, [0, 0]):
        found = closed.forward_dynamics(pair, q, [0, 0], [1.0, 0])
        assert found.qdd == pytest.approx([0.5, 0.5])


# --- closing --------------------------------------------------------------------------------------


@given(SEEDS)
def test_projection_closes_positions_and_rates(seed):
    linkage, (q, _, qd), _ = random_loop(seed)
    rng = np.random.default_rng(seed)
    off = closed.integrate(linkage, q, rng.normal(size=linkage.nv), 1e-2)
    x, v = closed.project(linkage, off, qd)
    assert np.abs(closed.gap(linkage, x)).max() <= 1e-12 * linkage._size
    assert np.abs(closed.gap(linkage, x, v)).max() <= 1e-11 * np.abs(v).max()
    # Rates lose what is ℳ-orthogonal to all that close.
    M, _, A, _, _ = dense_system(linkage, x, v)
    assert np.abs(null_space(A).T @ M @ (v - qd)).max() <= 1e-10 * np.abs(M @ qd).max()
    again = closed.project(linkage, x, v)
    assert np.array_equal(again[0], x)
    assert np.abs(again[1] - v).max() <= 1e-12 * np.abs(v).max()


@given(SEEDS)
def test_gaps_change_at_the_rates(seed):
    linkage, (q, _, qd), _ = random_loop(seed)
    ahead, behind = (closed.integrate(linkage, q, qd, dt) for dt in (1e-6, -1e-6))
    slope = (closed.gap(linkage, ahead) - closed.gap(linkage, behind)) / 2e-6
    rate = closed.gap(linkage, q, qd)
    assert np.abs(slope - rate).max() <= 1e-6 * max(1.0, np.abs(rate).max(), np.abs(qd).max() ** 3)


def test_a_four_bar_turns_with_its_energy():
    linkage = Linkage(
        (rods(0.5, 1.3), rods(0.9, at=1.2)),
        Closure(End(1, (1.3, 0, 0)), End(0, (0.9, 0, 0), chain=1), PIN),
    )
    q, qd = closed.project(linkage, [0.6, -0.3, 1.5], [3.0, 0.0, 0.0])

    def energy(q, qd):
        parts = zip(linkage.chains, linkage.split(q, "nq"), linkage.split(qd, "nv"), strict=True)
        return sum(
            kinematics.kinetic_energy(arm, x, v) + kinematics.potential_energy(arm, x, gravity=DOWN)
            for arm, x, v in parts
        )

    def slope(y):
        return np.append(
            y[3:], closed.forward_dynamics(linkage, y[:3], y[3:], np.zeros(3), gravity=DOWN).qdd
        )

    def drift(dt, steps):
        y = np.append(q, qd)
        for _ in range(steps):
            a = slope(y)
            b = slope(y + dt / 2 * a)
            c = slope(y + dt / 2 * b)
            y = y + dt / 6 * (a + 2 * b + 2 * c + slope(y + dt * c))
            y = np.append(*closed.project(linkage, y[:3], y[3:]))
            assert np.abs(closed.gap(linkage, y[:3])).max() <= 1e-11
        return abs(energy(y[:3], y[3:]) - energy(q, qd))

    rough, fine = drift(4e-3, 100), drift(2e-3, 200)
    assert rough <= 1e-5
    assert fine <= rough / 12  # of fourth order


# --- batches --------------------------------------------------------------------------------------


def test_batches_are_their_states():
    linkage, (q, qd, tau), loads = random_loop(3)
    forces = tau + np.arange(6).reshape(2, 3, 1)
    many = closed.forward_dynamics(linkage, np.stack([q, q, q]), qd, forces, **loads)
    assert many.qdd.shape == (2, 3, linkage.nv)
    assert many.wrenches.shape == (2, 3, len(linkage.closures), 6)
    for i in np.ndindex(2, 3):
        one = closed.forward_dynamics(linkage, q, qd, forces[i], **loads)
        assert error(many.qdd[i], one.qdd) <= 1e-11
        assert error(many.wrenches[i], one.wrenches) <= 1e-11
    off = closed.integrate(linkage, np.stack([q, q]), np.array([[0.0], [0.01]]) * qd[0] * tau)
    x, v = closed.project(linkage, off, qd)
    assert np.array_equal(x[0], off[0])
    one = closed.project(linkage, off[1], qd)
    assert np.abs(x[1] - one[0]).max() <= 1e-11
    assert np.abs(v[1] - one[1]).max() <= 1e-11 * np.abs(qd).max()
    for logdet in (closed.logdet_mass, closed.logdet_hard):
        assert logdet(linkage, x).shape == (2,)
        assert logdet(linkage, x)[1] == pytest.approx(logdet(linkage, x[1]), rel=1e-11)


# --- statistics -----------------------------------------------------------------------------------


def grasp():
    """Return an arm of four joints that holds a free chain of three bodies, closed at q."""
    rng = np.random.default_rng(4)
    chains = SerialChain.random(4, 1), SerialChain.random(3, 2, free_base=True)
    q = np.concatenate([random_q(arm, rng) for arm in chains])
    return shut(chains, [("hinge", ((0, 3), (1, 2)))], q, rng), q


def test_covariance_of_thermal_rates():
    (linkage, q), kT, size = grasp(), 2.0, 40_000
    rates = closed.thermal_rates(linkage, np.tile(q, (size, 1)), kT, rng=7)
    M, _, A, _, _ = dense_system(linkage, q, np.zeros(linkage.nv))
    Z = null_space(A)
    V = kT * Z @ np.linalg.inv(Z.T @ M @ Z) @ Z.T
    found, variances = rates.T @ rates / size, np.diag(V)
    sigma = np.sqrt((np.outer(variances, variances) + V**2) / size)
    assert np.abs((found - V) / sigma).max() < 4
    assert np.abs(rates.mean(0) / np.sqrt(variances / size)).max() < 4
    assert np.abs(rates @ A.T).max() <= 1e-11 * np.abs(rates).max()
    open_chains = kT * np.linalg.inv(M)
    assert np.abs((found - open_chains) / sigma).max() > 40  # closures matter


def test_a_batch_of_thermal_rates_is_its_frames_in_turn():
    linkage, q = grasp()
    frames = np.stack([closed.project(linkage, q + 0.1 * k * np.eye(linkage.nq)[0])[0]
                       for k in range(4)])  # fmt: skip
    rng = np.random.default_rng(11)
    alone = [closed.thermal_rates(linkage, frame, rng=rng) for frame in frames]
    together = closed.thermal_rates(linkage, frames.reshape(2, 2, -1), rng=11)
    assert together.shape == (2, 2, linkage.nv)
    assert error(together.reshape(4, -1), np.stack(alone)) <= 1e-11


def test_thermal_rates_refuse():
    linkage, (q, _) = parallelogram(), cranks(0.5)
    with pytest.raises(ValueError, match="kT must be positive"):
        closed.thermal_rates(linkage, q, 0.0)
    with pytest.raises(FrameError, match="q is nan at coordinate 1 in frame 1"):
        closed.thermal_rates(linkage, [q, [0.0, np.nan, 0.0]])
    with pytest.raises(SingularConstraintError, match="of closure 0"):
        closed.thermal_rates(linkage, cranks(np.pi / 2)[0])
    with pytest.raises(TypeError, match="linkage must be a Linkage, got SerialChain"):
        closed.thermal_rates(linkage.chains[0], q[:2])
    for function in (statistics.thermal_rates, statistics.fixman_torque, kinematics.frames):
        with pytest.raises(TypeError, match="got Linkage"):
            function(linkage, q)
    with pytest.raises(TypeError, match="got Linkage"):
        statistics.langevin(linkage, q, 0.01, 1)


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("linkage", "angle", "named"),
    [
        (parallelogram("hinge"), 40, r"z of closure 0"),
        (parallelogram(("x", "y", "rx", "ry")), 40, r"r[xy] of closure 0"),
        (parallelogram(), 90, r"hold [xy] of closure 0"),
        (
            Linkage(parallelogram().chains, (Closure(*TIPS, PIN), Closure(*TIPS[::-1], PIN))),
            40,
            r"[xy] of closure [01], [xy] of closure [01] together",
        ),
    ],
)
def test_dependent_rows_are_named(linkage, angle, named):
    q, qd = cranks(np.radians(angle))
    with pytest.raises(SingularConstraintError, match=named):
        closed.forward_dynamics(linkage, q, qd, np.zeros(3), gravity=DOWN)
    with pytest.raises(SingularConstraintError, match=named):
        closed.logdet_mass(linkage, q)


@pytest.mark.parametrize("ratio", [1e-12, 1.0])
def test_rows_that_rounding_hides_are_refused(ratio):
    """A row that the chains can follow and rounding loses, and one that they cannot."""
    coupled = SerialChain.planar([1, 1], [1, ratio], [1 / 12, ratio / 12])
    closure = parallelogram("ball" if ratio == 1.0 else PIN).closures
    q = cranks(0.5)[0]
    with pytest.raises(SingularConstraintError, match="cannot move there, or are held already"):
        closed.logdet_mass(Linkage((coupled, rods(1, at=1.0)), closure), q)


@pytest.mark.parametrize("seed", range(10))
def test_a_ball_at_the_centre_of_a_wrist_is_refused(seed):
    """Where all axes meet a body moves by rounding only, which may look definite."""
    rng = np.random.default_rng(seed)
    wrist = SerialChain.random(5, rng, joints=("revolute",))
    along = np.append(0.0, rng.normal(size=5))  # from the centre to the origin of each frame
    shifts = np.zeros((5, 3))
    for i in range(5):
        shifts[i] = wrist.rotations[i, :, 2] * along[i + 1] - [0, 0, along[i]]
    wrist = changed(wrist, translations=shifts)
    linkage = Linkage(wrist, Closure(End(4, (0, 0, -along[5])), None, "ball"))
    q = random_q(wrist, rng)
    assert 0 < np.abs(kinematics.jacobian(wrist, q, 4, (0, 0, -along[5]))[:3]).max() < 1e-14
    with pytest.raises(SingularConstraintError, match=r"[xyz] of closure 0"):
        closed.forward_dynamics(linkage, q, np.zeros(5), np.zeros(5))


def test_what_does_not_close_is_refused():
    linkage = parallelogram()
    (q, qd), rest = cranks(0.5, 2.0), np.zeros(3)
    off = q + np.array([0, 0, 0.1])
    with pytest.raises(FrameError, match=r"positions do not close: [xy] of closure 0 .* `project`"):
        closed.forward_dynamics(linkage, off, rest, rest)
    with pytest.raises(FrameError, match=r"rates do not close: [xy] of closure 0 .* `project`"):
        closed.forward_dynamics(linkage, q, qd + np.array([0, 0, 0.1]), rest)
    with pytest.raises(FrameError, match="in frame 1") as caught:
        closed.forward_dynamics(linkage, [q, off], rest, rest)
    assert caught.value.frame == 1
    closed.forward_dynamics(linkage, off, rest, rest, tolerance=1.0)
    apart = Linkage(
        (rods(1, 1), rods(1, at=9.0)), Closure(End(1, (1, 0, 0)), End(0, (1, 0, 0), chain=1), PIN)
    )
    with pytest.raises((ConstraintSolveError, SingularConstraintError), match="of closure 0"):
        closed.project(apart, q, qd)


@pytest.mark.parametrize("size", [1e100, 1e160, 1e250])
def test_nothing_returns_nan(size):
    linkage, (q, qd, tau), _ = random_loop(5)
    for state in ((qd * size, tau), (qd, tau * size), (0 * qd, 0 * tau + size)):
        try:
            found = closed.forward_dynamics(linkage, q, *state)
        except ValueError:
            continue
        assert np.isfinite(found.qdd).all()
        assert np.isfinite(found.wrenches).all()
    slides = SerialChain.random(8, 0, joints=("prismatic", "revolute"))
    far = Linkage(slides, Closure(7, None, "ball"))
    with pytest.raises((ValueError, ConstraintSolveError)):
        closed.project(far, np.full(8, size))


def test_links_that_coast_are_not_taken_for_open():
    """A loop of slides at constant speed: its closed end rests but for rounding."""
    rng = np.random.default_rng(0)
    arm = SerialChain.random(7, rng, joints=("prismatic",))
    q = rng.normal(size=7)
    linkage = Linkage(arm, Closure(End(None, kinematics.position(arm, q, 6)), 6, "ball"))
    q, qd = closed.project(linkage, q, rng.normal(size=7))
    found = closed.forward_dynamics(linkage, q, qd, np.zeros(7))
    assert np.abs(found.qdd).max() <= 1e-12
    assert np.abs(qd).max() > 0.1


def test_a_weld_that_is_turned_by_half_a_turn_is_open():
    plate = changed(SerialChain.random(1, 0, free_base=True), rotations=[np.eye(3)],
                    translations=np.zeros((1, 3)))  # fmt: skip
    for kind in ("weld", "hinge"):
        linkage = Linkage(plate, Closure(0, None, kind))
        gap = closed.gap(linkage, [0, 0, 0, 1, 0, 0, 0.0])
        assert np.abs(gap).max() == pytest.approx(np.pi)


@pytest.mark.parametrize("kind", ["weld", "slide", ("rx", "ry", "rz")])
@pytest.mark.parametrize("less", [0.0, 1e-12, 1e-8, 1e-3, 1.6])
def test_turns_of_almost_half_a_turn(kind, less):
    plate = changed(SerialChain.random(1, 0, free_base=True), rotations=[np.eye(3)],
                    translations=np.zeros((1, 3)))  # fmt: skip
    linkage = Linkage(plate, Closure(None, 0, kind))
    axes = np.vstack([np.eye(3), -np.eye(3), np.random.default_rng(1).normal(size=(20, 3))])
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    half = (np.pi - less) / 2
    q = np.zeros((len(axes), 7))
    q[:, 3:6], q[:, 6] = np.sin(half) * axes, np.cos(half) if less else 0.0
    turn = closed.gap(linkage, q)[:, -3:]
    if not less:  # either way round
        turn *= np.sign((turn * axes).sum(1))[:, None]
    assert np.abs(turn - 2 * half * axes).max() <= 3e-15
    shut, _ = closed.project(linkage, q)
    assert np.abs(closed.gap(linkage, shut)).max() <= 1e-12


def test_errors_name_the_chain():
    linkage = parallelogram()
    empty = changed(linkage.chains[1], masses=[0.0], inertias=np.zeros((1, 3, 3)))
    broken = Linkage((linkage.chains[0], empty), linkage.closures)
    q, qd = cranks(0.5)
    with pytest.raises(SingularConstraintError) as caught:
        closed.forward_dynamics(broken, q, qd, np.zeros(3))
    assert caught.value.__notes__ == ["in chain 1 of the linkage"]


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: End(-1), "None for the base, must be at least 0"),
        (lambda: End(0, axes=np.ones((3, 3))), "rotation matrix"),
        (lambda: End(0, point=(0, 0)), "point"),
        (lambda: End(0, point=(0, 0, np.nan)), "finite"),
        (lambda: Closure(None, None), "both ends of the closure are the base"),
        (lambda: Closure(0, End(0, (1, 0, 0))), "it is one body"),
        (lambda: Closure(0, 1, "glue"), "kind must be one of"),
        (lambda: Closure(0, 1, ("x", "x")), "each once"),
        (lambda: Closure(0, 1, ()), "kind must be one of"),
        (lambda: Closure(0, 1, np.array(["x", "w"])), "kind must be one of"),
        (lambda: Linkage(rods(1, 1), Closure(None, 1, ("x", "rx"))), "one turn: all joints"),
        (
            lambda: Linkage(rods(1), Closure(End(None, axes=np.eye(3)[[2, 0, 1]]), 0, ("y", "ry"))),
            "one turn",
        ),
        (
            lambda: Linkage(
                SerialChain.random(2, 0, joints=("spherical",)), Closure(None, 1, ("x", "rz"))
            ),
            "one turn",
        ),
        (lambda: Closure(0, 1, [[1, 1, 0]]), "kind must be one of"),
        (lambda: Closure(0, 1, [["x"], ["y", "z"]]), "kind must be one of"),
        (lambda: Linkage(rods(1), Closure(1, None)), "body 1 of 1"),
        (lambda: Linkage(rods(1), Closure(End(0, chain=1), None)), "chain 1 of 1"),
    ],
)
def test_wrong_nouns(make, wrong):
    with pytest.raises(ValueError, match=wrong):
        make()


def test_wrong_types():
    for make in (lambda: End("tip"), lambda: End(True), lambda: Linkage(3, Closure(0, None)),
                 lambda: Linkage(rods(1), ()), lambda: Linkage(rods(1), (1,)),
                 lambda: closed.project(parallelogram(), np.zeros(3), fixed=[[1], [1, 2]]),
                 lambda: closed.gap(rods(1), [0.0])):  # fmt: skip
        with pytest.raises(TypeError):
            make()
    with pytest.raises(ValueError, match="q must have shape"):
        closed.gap(parallelogram(), [0.0])
    with pytest.raises(FrameError, match="q is nan"):
        closed.gap(parallelogram(), [0.0, 0.0, np.nan])


def test_nouns_compare_and_hash():
    assert parallelogram() == parallelogram()
    assert hash(parallelogram()) == hash(parallelogram())
    assert parallelogram() != parallelogram("ball")
    assert Closure(0, None, ("y", "x")) == Closure(0, None, ("x", "y"))
    assert (parallelogram().n, parallelogram().nq, parallelogram().held) == (3, 3, 2)
    text = "<Linkage: 2 chains, 1 closure, 2 of 3 rates held\n 3 bodies, 3 revolute; "
    assert repr(parallelogram()).startswith(text)


@pytest.mark.thorough
def test_long_loops_stay_closed():
    """Of a ring of 2000 links: both ends move as one, by wrenches that are no noise."""
    rng = np.random.default_rng(1)
    arm = SerialChain.random(2000, rng, joints=("revolute",))
    q = random_q(arm, rng)
    linkage = shut((arm,), [("weld", ((0, 1999), (0, None)))], q, rng)
    rest, tau = np.zeros(arm.nv), rng.normal(size=arm.nv)
    found = closed.forward_dynamics(linkage, q, rest, tau)
    tip = kinematics.acceleration(arm, q, rest, found.qdd, 1999)
    free = articulated_body.forward_dynamics(arm, q, rest, tau)
    loose = kinematics.acceleration(arm, q, rest, free, 1999)
    assert np.abs(tip).max() <= 1e-10 * np.abs(loose).max()


TWO = SerialChain.planar([1, 1], [1, 1], [1 / 12] * 2)


def test_axes_of_single_precision():
    axes = random_rotation(np.random.default_rng(0))
    end = np.array(End(0, axes=axes.astype(np.float32)).axes)
    assert np.abs(end - axes).max() <= 1e-7
    assert np.abs(end.T @ end - np.eye(3)).max() <= 1e-15


def test_what_the_kernel_doubts_is_looked_at():
    """A loop of slides that coasts, and one near a singular posture, that is none."""
    arm = SerialChain.planar([1, 1], [1, 1], [1 / 12] * 2)
    bend = 2e-5
    q = np.array([0.3, bend])
    place = kinematics.position(arm, q, 1, (1, 0, 0))
    pin = Closure(End(None, place), End(1, (1, 0, 0)), ("x", "y"))
    states = np.stack([q, [0.3, 1.0], q])
    pushes = np.array([1.0, 0.0])
    with pytest.raises(FrameError, match="in frame 1"):
        closed.forward_dynamics(Linkage(arm, pin), states, np.zeros(2), pushes)
    found = closed.forward_dynamics(Linkage(arm, pin), states[::2], np.zeros(2), pushes)
    assert np.abs(found.qdd).max() <= 1e-3  # nothing can move
    assert found.wrenches[1, 0, :3] == pytest.approx(found.wrenches[0, 0, :3])


def test_closing_does_not_depend_on_where_the_mechanism_stands():
    for away in (0.0, 300.0):
        arm = replace(TWO, translations=[[away, 0, 0], [1, 0, 0]])
        pin = Closure(End(None, (away + 1.5, 1, 0)), End(1, (1, 0, 0)), ("x", "y"))
        with pytest.raises(FrameError, match=r"off by -0\.5"):
            closed.forward_dynamics(Linkage(arm, pin), [0, np.pi / 2], [0, 0], [0, 0])


def test_projection_from_afar_turns_joints_by_little_at_a_time():
    arm = SerialChain.planar(np.ones(4), np.ones(4), np.full(4, 1 / 12))
    rng = np.random.default_rng(1)
    goals = rng.uniform(-2.0, 2.0, (40, 4))
    _, x = kinematics.frames(arm, goals)
    for goal, place in zip(goals, x, strict=True):
        pin = Closure(End(None, place[3]), End(3), ("x", "y"))
        q, _ = closed.project(Linkage(arm, pin), goal + rng.normal(size=4))
        assert np.abs(q - goal).max() < 3.0 * np.pi  # whole steps turn it by 140


def test_projection_keeps_joints_that_are_fixed():
    arms = rods(0.5, 1.3), rods(0.9, at=1.2)
    linkage = Linkage(arms, Closure(End(1, (1.3, 0, 0)), End(0, (0.9, 0, 0), chain=1), PIN))
    angles = np.linspace(-2, 2, 9)
    guess = np.stack([angles, 0 * angles - 0.3, 0 * angles + 1.5], axis=-1)
    for fixed in (0, [0], np.array([True, False, False])):
        q, qd = closed.project(linkage, guess, [3.0, 0, 0], fixed=fixed)
        assert np.array_equal(q[:, 0], angles)
        assert (qd[:, 0] == 3.0).all()
        assert np.abs(closed.gap(linkage, q)).max() <= 1e-11
        assert np.abs(closed.gap(linkage, q, qd)).max() <= 1e-13
    # The other two angles, by cosines.
    tip = 0.5 * np.stack([np.cos(angles), np.sin(angles)], axis=-1) - [1.2, 0]
    far = np.linalg.norm(tip, axis=-1)
    inside = np.arccos((far**2 + 0.9**2 - 1.3**2) / (2 * 0.9 * far))
    turned = np.angle(np.exp(1j * (q[:, 2] - np.arctan2(tip[:, 1], tip[:, 0]))))
    assert np.abs(np.abs(turned) - inside).max() <= 1e-11
    assert np.abs(closed.project(linkage, guess[0])[0][0] - angles[0]) > 1e-3
    with pytest.raises(SingularConstraintError, match=r"cannot hold.*held already"):
        closed.project(linkage, guess[4], fixed=[0, 2])
    with pytest.raises(ConstraintSolveError, match="with these joints fixed"):
        closed.project(linkage, guess[4], fixed=[0, 1, 2])
    with pytest.raises(ValueError, match="fixed names joint 3 of 3"):
        closed.project(linkage, guess[0], fixed=3)
    for wrong in ("crank", [0.0], [True], None):
        with pytest.raises(TypeError, match="fixed must be numbers of joints or a mask"):
            closed.project(linkage, guess[0], fixed=wrong)


def test_a_ball_and_a_slide_can_be_fixed():
    linkage, q = stewart()
    off = closed.integrate(linkage, q, 0.05 * np.random.default_rng(2).normal(size=linkage.nv))
    for joint, places, rates in ((0, slice(0, 4), slice(0, 3)), (3, slice(9, 10), slice(7, 8))):
        shut, qd = closed.project(linkage, off, np.ones(linkage.nv), fixed=joint)
        assert np.array_equal(shut[places], off[places])
        assert (qd[rates] == 1.0).all()
        assert np.abs(closed.gap(linkage, shut)).max() <= 1e-11
        assert np.abs(closed.gap(linkage, shut, qd)).max() <= 1e-12


def test_no_frames_are_closed_to_none():
    linkage = Linkage(TWO, Closure(End(None, (2, 0, 0)), End(1, (1, 0, 0)), np.array(["y"])))
    assert linkage.closures[0].kind == ("y",)
    none = np.zeros((0, 2))
    assert closed.gap(linkage, none).shape == (0, 1)
    assert closed.forward_dynamics(linkage, none, none, none).qdd.shape == (0, 2)
    assert closed.project(linkage, none)[0].shape == (0, 2)
    assert closed.thermal_rates(linkage, none).shape == (0, 2)
    assert closed.fixman_torque(linkage, none).shape == (0, 2)
    for logdet in (closed.logdet_mass, closed.logdet_hard):
        assert logdet(linkage, none).shape == (0,)


@pytest.mark.parametrize("kind", [np.array("pin"), np.array(3.0), 2.5])
def test_a_kind_that_is_no_tuple_is_a_value_or_a_type_that_is_named(kind):
    with pytest.raises((TypeError, ValueError), match="kind must be"):
        Closure(End(0), End(None), kind)
