"""Energies and forces against complex steps of plain formulas, finite differences and laws."""

import json
from itertools import combinations

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import cKDTree

import fixman as fx
import oracles
import strategies
from fixman import potentials
from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.compiler.lanes import ONE as ONE_STATE
from fixman.kernels.potentials import forces
from fixman.potentials.energies import (
    FENE,
    WCA,
    Bending,
    BendingTorsion,
    Compiled,
    Gravity,
    LennardJones,
    RyckaertBellemans,
    Sum,
    Tension,
    Tether,
    Torsion,
    bind,
    from_parameters,
)
from fixman.simulation.observables import angles, torsions
from fixman.simulation.steppers import Langevin, Newton
from selection import quick

STEP = 1e-40


# --- plain formulas, for complex positions too ----------------------------------------------------


def values(chain, x, kind, beads=None):
    """Bends or torsions by the oracle, and the beads that they are made of."""
    spec = oracles.Spec.of(chain)
    rows = [row for row in spec.rows if row[0] == kind and min(row[1]) >= 0]
    if kind == "torsion":
        pairs = bonds(chain)
        rows = [r for r in rows if all({*p} in pairs for p in zip(r[1], r[1][1:], strict=False))]
    if beads is not None:
        rows = [(kind, row) for row in beads]
    spec.rows[:] = rows
    return oracles.internal(spec, x), [row[1] for row in rows]


def bonds(chain):
    parents = chain.references[:, 0]
    found = [{int(p), k} for k, p in enumerate(parents) if p >= 0]
    return found + [set(row.beads) for row in chain.extra if row.kind == "length"]


def separations(chain):
    """Bonds between every two beads, by breadth-first search."""
    near = {k: [min(b - {k}) for b in bonds(chain) if k in b] for k in range(chain.n)}
    table = np.full((chain.n, chain.n), 10**6)
    for start in range(chain.n):
        front, depth = {start}, 0
        while front:
            for k in front:
                table[start, k] = depth
            front = {j for k in front for j in near[k] if table[start, j] == 10**6}
            depth += 1
    return table


def bending(chain, p, x):
    theta, _ = values(chain, x, "angle", p.beads)
    away = theta - np.array(p.angle)
    if p.kind == "harmonic":
        if chain.dim == 2:
            away = away - 2 * np.pi * np.round(away.real / (2 * np.pi))
        energy = away**2 / 2
    elif p.kind == "cosine":
        energy = 1 - np.cos(away)
    else:
        energy = (np.cos(theta) - np.cos(p.angle)) ** 2 / 2
    return (np.array(p.stiffness) * energy).sum(-1)


def fene(chain, p, x):
    named = p.beads or [(int(parent), k) for k, parent in enumerate(chain.references[:, 0])]
    free = p.beads is None and chain.base == "free"
    i, j = np.transpose(named)[:, free:]  # without the bond of the root
    start = np.where((i >= 0)[:, None], x[..., i, :], 0.0)
    square = ((x[..., j, :] - start) ** 2).sum(-1)
    R2 = np.array(p.reach) ** 2
    return (-np.array(p.stiffness) / 2 * R2 * np.log(1 - square / R2)).sum(-1)


def torsion(chain, p, x):
    phi, _ = values(chain, x, "torsion", p.beads)
    terms = enumerate(zip(p.amplitudes, p.phases, strict=True), start=1)
    return sum((k * (1 + np.cos(m * phi - d))).sum(-1) for m, (k, d) in terms)


def ryckaert_bellemans(chain, p, x):
    psi = values(chain, x, "torsion", p.beads)[0] - np.pi
    return sum((c * np.cos(psi) ** k).sum(-1) for k, c in enumerate(p.coefficients))


def bending_torsion(chain, p, x):
    phi, beads = values(chain, x, "torsion", p.beads)
    first, _ = values(chain, x, "angle", [row[:3] for row in beads])
    last, _ = values(chain, x, "angle", [row[1:] for row in beads])
    series = sum(a * np.cos(phi) ** k for k, a in enumerate(p.coefficients))
    return ((np.sin(first) * np.sin(last)) ** 3 * series).sum(-1)


def lennard_jones(chain, p, x):
    cut = 2 ** (1 / 6) if isinstance(p, WCA) else p.cutoff
    sigma, epsilon = (np.broadcast_to(v, chain.n) for v in (p.sigma, p.epsilon))
    apart = separations(chain)
    total = 0.0
    for i, j in combinations(range(chain.n), 2):
        if apart[i, j] <= p.exclude:
            continue
        size, depth = (sigma[i] + sigma[j]) / 2, np.sqrt(epsilon[i] * epsilon[j])
        d = x[..., i, :] - x[..., j, :]
        r = np.sqrt((d * d).sum(-1)) / size

        def u(r):
            return 4 * (r**-12 - r**-6)

        energy = u(r) - u(cut)
        if getattr(p, "shift", "energy") == "force":
            energy = energy - (r - cut) * 4 * (-12 * cut**-13 + 6 * cut**-7)
        total = total + np.where(r.real < cut, depth * energy, 0.0)
    return total


def gravity(chain, p, x):
    return -np.einsum("k,a,...ka->...", chain.masses, p.acceleration, x)


def tension(chain, p, x):
    first, last = p.ends or (-1 if chain.base == "fixed" else 0, chain.n - 1)
    start = x[..., first, :] if first >= 0 else 0.0
    return -((x[..., last, :] - start) * np.array(p.force)).sum(-1)


def tether(chain, p, x):
    away = x[..., p.beads, :] - np.array(p.points)
    return 0.5 * (np.array(p.stiffness)[..., None] * away**2).sum((-1, -2))


EXACT = {
    FENE: fene,
    Bending: bending,
    Torsion: torsion,
    RyckaertBellemans: ryckaert_bellemans,
    BendingTorsion: bending_torsion,
    LennardJones: lennard_jones,
    WCA: lennard_jones,
    Gravity: gravity,
    Tension: tension,
    Tether: tether,
}


def exact_energy(chain, potential, x):
    if isinstance(potential, Sum):
        return sum(exact_energy(chain, term, x) for term in potential.terms)
    return EXACT[type(potential)](chain, potential, x)


def exact_force(chain, potential, x):
    size = chain.n * chain.dim
    steps = 1j * STEP * np.eye(size).reshape(size, chain.n, chain.dim)
    energies = [exact_energy(chain, potential, x + step) for step in steps]
    return -(np.stack(energies, axis=-1).imag / STEP).reshape(x.shape)


# --- cases ----------------------------------------------------------------------------------------


def linear(dim, base, n=7):
    return fx.Chain.linear(n, dim=dim, base=base, masses=np.linspace(0.5, 2, n))


def potentials_of(dim, base):
    g = (0.3, -0.7, 0.4)[:dim]
    angle = np.linspace(0.1, 2.0, 5)
    bonds = 7 if base == "fixed" else 6
    found = [
        FENE(3.0, 15.0),
        FENE(np.linspace(1, 2, bonds), np.linspace(12, 15, bonds)),
        FENE(-2.0, [14.0, 18.0], beads=[(0, 3), (5, 2)]),
        Bending(2.0),
        Bending(-1.5, 0.8),
        Bending(np.linspace(1, 2, 5), angle),
        Bending(2.0, kind="harmonic"),
        Bending(2.0, angle, kind="harmonic"),
        Bending(2.0, 0.8, kind="squared cosine"),
        Bending(2.0, np.pi),
        Bending(3.0, 0.2, beads=[(0, 3, 5), (2, 1, 0)]),
        WCA(sigma=1.6),
        WCA(np.linspace(1, 2, 7), np.linspace(1, 2, 7), exclude=2),
        LennardJones(0.7, 1.3),
        LennardJones(0.7, 1.3, cutoff=1.9, shift="force", exclude=0),
        Gravity(g),
        Tension(g),
        Tension(g, ends=(4, 2)),
        Tether(3, g, 2.0),
        Tether([0, 3], [g, np.negative(g)], [1.0, 2.0]),
        Bending(2.0, 0.3) + WCA(sigma=1.5) + Gravity(g) + Bending(1.0, kind="harmonic"),
    ]
    if dim == 3:
        found += [
            Torsion(2.0),
            Torsion((1.0, 0.0, 2.0, 0.5, 0.1, 0.3), np.linspace(0, 2, 6)),
            Torsion(1.0, beads=[(5, 0, 2, 1)]),
            RyckaertBellemans((1, 2, 3, 4, 5, 6)),
            RyckaertBellemans((1, -2)),
            BendingTorsion((1, 2, 3, 4)),
            BendingTorsion((0.5,), beads=[(6, 4, 2, 0)]),
        ]
    if base == "fixed":
        found += [Bending(2.0, 0.4, beads=[(-2, -1, 0), (-1, 0, 1)])]
        found += [Bending(2.0, kind="harmonic", beads=[(-1, 0, 1)])]
        if dim == 3:
            found += [Torsion((1, 2), (3, 4), beads=[(-3, -2, -1, 0), (-2, -1, 0, 1)])]
    return found


CASES = [
    pytest.param(
        *(dim, base, p),
        id=f"{dim}D-{base}-{k}-{type(p).__name__}",
        marks=[pytest.mark.thorough] * ((dim, base) != (3, "free")),
    )
    for dim in (2, 3)
    for base in ("free", "fixed")
    for k, p in enumerate(potentials_of(dim, base))
]
INTERNAL = (FENE, Bending, Torsion, RyckaertBellemans, BendingTorsion, LennardJones, WCA)


def frames(chain, count, seed=0, spread=1.2):
    steps = np.random.default_rng(seed).normal(size=(count, chain.n, chain.dim))
    return np.cumsum(spread * steps, axis=1)


@pytest.mark.parametrize(("dim", "base", "potential"), CASES)
def test_energy_and_force_are_those_of_the_formula(dim, base, potential):
    chain = linear(dim, base)
    x = frames(chain, 11)  # eight in lanes and three alone
    bound = bind(chain, potential)
    wanted = exact_force(chain, potential, x)
    energy = exact_energy(chain, potential, x)
    assert np.abs(bound.energy(x) - energy).max() <= 1e-12 * max(1.0, np.abs(energy).max())
    error = np.abs(bound.force(x) - wanted).max(axis=(1, 2))
    assert np.all(error <= 1e-10 * np.maximum(1.0, np.abs(wanted).max(axis=(1, 2))))


@pytest.mark.parametrize(("dim", "base", "potential"), CASES)
def test_force_is_the_slope_of_the_energy(dim, base, potential):
    chain = linear(dim, base)
    x = frames(chain, 1, seed=1)
    bound = bind(chain, potential)
    size, h = chain.n * dim, 1e-4
    d = h * np.eye(size).reshape(size, chain.n, dim)
    up, down = bound.energy(x + d), bound.energy(x - d)
    far = bound.energy(x + 2 * d) - bound.energy(x - 2 * d)
    slope = (8 * (up - down) - far) / (12 * h)
    force = bound.force(x[0]).ravel()
    assert np.abs(force + slope).max() <= 1e-6 * max(1.0, np.abs(force).max())


def internal(base, potential):
    """Whether nothing of it comes from outside, a base point included."""
    if not isinstance(potential, INTERNAL):
        return False
    if isinstance(potential, FENE) and potential.beads is None and base == "fixed":
        return False  # the first bond ends at the base
    return min((min(row) for row in getattr(potential, "beads", None) or ()), default=0) >= 0


@pytest.mark.parametrize(
    ("dim", "base", "potential"), [case for case in CASES if internal(*case.values[1:])]
)
def test_internal_forces_sum_to_nothing(dim, base, potential):
    chain = linear(dim, base)
    x = frames(chain, 9, seed=2)
    force = bind(chain, potential).force(x)
    size = np.maximum(1.0, np.abs(force).max(axis=(1, 2)))
    assert np.all(np.abs(force.sum(axis=1)).max(axis=-1) <= 1e-13 * size)
    padded, turned = (np.pad(a, ((0, 0), (0, 0), (0, 3 - dim))) for a in (x, force))
    assert np.all(np.abs(np.cross(padded, turned).sum(axis=1)).max(axis=-1) <= 1e-12 * size)


@pytest.mark.parametrize("dim", quick([2, 3], 3))
def test_eight_at_a_time_are_the_same_bits(dim):
    chain = linear(dim, "free", 30)
    potential = Bending(2.0, 0.5, "harmonic") + Bending(1.0) + LennardJones(1.0, 0.9)
    potential += Gravity(np.ones(dim)) + Tether(3, np.ones(dim)) + FENE(2.0, 15.0)
    if dim == 3:
        potential += Torsion((1, 2, 3), 0.3) + BendingTorsion((1, 2, 3, 4))
    bound = bind(chain, potential)
    x = frames(chain, 2 * LANES, seed=3, spread=0.8)
    assert np.array_equal(bound.force(x), np.stack([bound.force(one) for one in x]))
    assert np.array_equal(bound.energy(x), np.stack([bound.energy(one) for one in x]))


def test_batches_keep_their_axes():
    chain = fx.Chain.linear(4)
    bound = bind(chain, Bending(1.0))
    x = frames(chain, 6).reshape(2, 3, 4, 3)
    assert bound.energy(x).shape == (2, 3)
    assert bound.force(x).shape == x.shape
    assert np.ndim(bound.energy(x[0, 0])) == 0
    assert bound.energy(x[:0]).shape == (0, 3)
    assert bound.force(x[:0]).shape == (0, 3, 4, 3)
    assert bound.energy(x[1, 2].tolist()) == bound.energy(x)[1, 2]


def test_nothing_has_no_energy():
    chain = fx.Chain.linear(4)
    bound = bind(chain, None)
    x = frames(chain, 3)
    assert not bound.energy(x).any()
    assert not bound.force(x).any()


# --- regular where they should be -----------------------------------------------------------------


def straight(n, direction=(1.0, 0.0, 0.0), wiggle=0.0):
    x = np.arange(n)[:, None] * np.array(direction)
    x[1::2, 1] += wiggle
    return x


@pytest.mark.parametrize("wiggle", [0.0, 1e-300, 1e-160, 1e-17, 1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize("kind", ["cosine", "harmonic"])
def test_straight_bends_are_regular(kind, wiggle):
    chain = fx.Chain.linear(5)
    x = straight(5, wiggle=wiggle)
    bound = bind(chain, Bending(3.0, kind=kind))
    force = bound.force(x)
    # To first order in the wiggle: bends of 2 w, that is U = ½ k Σ (second differences)².
    second = np.diff(x[:, 1], 2)
    expected = -3.0 * np.convolve(second, [1, -2, 1])
    assert np.allclose(force[:, 1], expected, rtol=1e-7, atol=1e-15)
    assert bound.energy(x) == pytest.approx(1.5 * (second**2).sum(), rel=1e-7, abs=1e-30)


def test_a_long_straight_chain_in_any_direction_pushes_nowhere():
    u = np.array([1.0, 2.0, -0.7]) / np.linalg.norm([1.0, 2.0, -0.7])
    chain = fx.Chain.linear(1000)
    for kind in ("cosine", "harmonic", "squared cosine"):
        force = bind(chain, Bending(1.0, kind=kind)).force(straight(1000, u))
        assert np.abs(force).max() < 1e-12


def test_folded_bends_are_regular_where_the_energy_is():
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    chain = fx.Chain.linear(3)
    for p, energy in ((Bending(2.0), 4.0), (Bending(2.0, np.pi), 0.0)):
        assert bind(chain, p).energy(x) == pytest.approx(energy, abs=1e-30)
        assert not bind(chain, p).force(x).any()
    planar = fx.Chain.linear(3, dim=2)
    for kind in ("cosine", "harmonic", "squared cosine"):
        assert np.isfinite(bind(planar, Bending(2.0, 0.7, kind)).force(x[:, :2])).all()


def test_torsions_with_their_bends_are_regular_in_line():
    chain = fx.Chain.linear(6)
    bound = bind(chain, BendingTorsion((1.0, 2.0, 3.0, 4.0)))
    assert not bound.force(straight(6)).any()
    assert bound.energy(straight(6)) == 0.0
    bent = straight(6)
    bent[4:, 2] += [1.0, 2.0]
    assert np.allclose(bound.force(bent), exact_force_near(chain, bound, bent), atol=1e-6)


def exact_force_near(chain, bound, x, h=1e-4):
    size = x.size
    d = h * np.eye(size).reshape(size, *x.shape)
    return -((bound.energy(x + d) - bound.energy(x - d)) / (2 * h)).reshape(x.shape)


@given(st.integers(0, 10**6), st.floats(1e-7, 1e-2))
def test_forces_near_straight_are_accurate(seed, wiggle):
    rng = np.random.default_rng(seed)
    chain = fx.Chain.linear(6)
    x = straight(6) + wiggle * rng.normal(size=(6, 3))
    for p in (Bending(2.0), Bending(2.0, kind="harmonic"), Bending(2.0, kind="squared cosine")):
        error = np.abs(bind(chain, p).force(x) - exact_force(chain, p, x)).max()
        assert error <= 1e-13


@pytest.mark.thorough
@given(st.data())
def test_laws_of_random_chains(data):
    spec = data.draw(strategies.specs(dims=(2, 3), min_n=4, kinds=("length",)))
    chain = strategies.build(spec)
    rng = np.random.default_rng(data.draw(strategies.seeds))
    x = frames(chain, 2, seed=int(rng.integers(2**31)))
    potential = Bending(rng.uniform(0, 5), rng.uniform(0, np.pi), "harmonic") + LennardJones()
    if chain.dim == 3:
        potential += Torsion(rng.normal(size=4), rng.normal(size=4))
    bound = bind(chain, potential)
    energy, force = bound.energy(x), bound.force(x)
    turn, _ = np.linalg.qr(rng.normal(size=(chain.dim, chain.dim)))
    turn[0] *= np.sign(np.linalg.det(turn))
    moved = x @ turn.T + rng.normal(size=chain.dim)
    size = 1.0 + np.abs(energy) + np.abs(force).max(axis=(1, 2))
    assert np.all(np.abs(bound.energy(moved) - energy) <= 1e-9 * size)
    assert np.all(np.abs(bound.force(moved) - force @ turn.T).max(axis=(1, 2)) <= 1e-8 * size)


def test_conventions():
    chain = fx.Chain.linear(4)
    trans = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [2, 1, 0]], dtype=float)
    assert bind(chain, Bending(3.0)).energy(trans) == pytest.approx(6.0)
    assert bind(chain, Bending(3.0, np.pi / 2)).energy(trans) == pytest.approx(0.0, abs=1e-14)
    assert bind(chain, Torsion(2.0)).energy(trans) == pytest.approx(0.0, abs=1e-14)
    assert bind(chain, RyckaertBellemans((1.0, 10.0))).energy(trans) == pytest.approx(11.0)
    cis = trans.copy()
    cis[3, 0] = 0.0
    assert bind(chain, Torsion(2.0)).energy(cis) == pytest.approx(4.0)
    assert bind(chain, BendingTorsion((0.0, 1.0))).energy(cis) == pytest.approx(1.0)
    touching = np.array([[0.0, 0, 0], [0, 9, 0], [2 ** (1 / 6), 0, 0]])
    assert bind(fx.Chain.linear(3), LennardJones(2.0, cutoff=1e3)).energy(
        touching
    ) == pytest.approx(-2.0)
    assert bind(fx.Chain.linear(3), WCA(2.0)).energy(touching) == pytest.approx(0.0, abs=1e-14)


def test_worm_like_chain_in_the_plane_bends_both_ways():
    chain = fx.Chain.linear(3, dim=2)
    left = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    bound = bind(chain, Bending(2.0, np.pi / 2, "harmonic"))
    assert bound.energy(left) == pytest.approx(0.0, abs=1e-20)
    assert bound.energy(left * [1, -1]) == pytest.approx(np.pi**2)


def test_bonds_beyond_the_reach_are_named():
    chain = fx.Chain.linear(4, hard=())
    x = straight(4)[None].repeat(10, 0)
    x[9, 2:] += [0.6, 0.0, 0.0]
    for call in (bind(chain, FENE()).energy, bind(chain, FENE()).force):
        with pytest.raises(fx.SingularCoordinateError, match=r"h\(1, 2\) = 1.6 is beyond") as e:
            call(x)
        assert e.value.frame == 9
        assert e.value.beads == (1, 2)
    with pytest.raises(fx.SingularCoordinateError, match=r"the reach of FENE, 1\.5"):
        fx.simulate(chain, x[9], Langevin(0.005, potential=FENE()), 1)


# --- trees, rings, neighbours ---------------------------------------------------------------------


def test_branches_have_the_bends_of_the_chart_and_torsions_along_bonds():
    chain = fx.Chain.branched([-1, 0, 1, 1, 2, 3, 0])
    x = frames(chain, 3)
    for p in (Bending(2.0), Torsion((1.0, 0.5)), WCA(sigma=1.5, exclude=2)):
        assert np.allclose(bind(chain, p).energy(x), exact_energy(chain, p, x), atol=1e-12)
        assert np.allclose(bind(chain, p).force(x), exact_force(chain, p, x), atol=1e-9)


def test_rings_know_that_their_ends_are_bonded():
    chain = fx.Chain.ring(6)
    for exclude in range(4):
        p = LennardJones(sigma=1.2, exclude=exclude)
        x = frames(chain, 3)
        assert np.allclose(bind(chain, p).energy(x), exact_energy(chain, p, x), rtol=1e-12)
    first, others = bind(chain, LennardJones()).tables.pairs[-2:]
    assert list(others[first[0] : first[1]]) == [1, 5]


def around(n, size, start=0):
    return [tuple((k + m) % n for m in range(size)) for k in range(start, n + start)]


@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("n", [3, 4, 5, 30])
def test_rings_have_every_bend(n, dim, hard):
    chain = fx.Chain.ring(n, dim=dim, hard=hard, drop_redundant=True)
    x = frames(chain, 3)
    beads = around(n, 3)
    # Turned off the straight in the plane too: all bends of a ring have one sign.
    for angle, kind in ((0.0, "cosine"), (0.7, "cosine"), (0.7, "harmonic")):
        default, named = (bind(chain, Bending(5.0, angle, kind, b)) for b in (None, beads))
        assert np.allclose(default.energy(x), named.energy(x), rtol=1e-12)
        assert np.allclose(default.force(x), named.force(x), rtol=1e-9, atol=1e-9)
    assert np.allclose(np.sort(angles(chain, x)), np.sort(angles(chain, x, beads)), atol=1e-12)
    bind(chain, Bending(tuple(range(n))))


@pytest.mark.parametrize("n", [4, 5, 6, 30])
def test_rings_have_every_torsion(n):
    bonds = np.array(around(n, 2))
    shuffled = np.random.default_rng(n).permutation(n)
    for chain, order in (
        (fx.Chain.ring(n), np.arange(n)),
        (fx.Chain.from_bonds(n, bonds), np.arange(n)),
        (fx.Chain.from_bonds(n, shuffled[bonds]), shuffled),
    ):
        x = frames(chain, 3)
        beads = order[np.array(around(n, 4))]
        p, q = Torsion((1.0, 0.5), (0.3, 0.2)), BendingTorsion((1.0, 0.5))
        for default, named in (
            (p, Torsion(p.amplitudes, p.phases, beads)),
            (q, BendingTorsion(q.coefficients, beads)),
        ):
            wanted = bind(chain, named)
            assert np.allclose(bind(chain, default).energy(x), wanted.energy(x), rtol=1e-9)
            assert np.allclose(bind(chain, default).force(x), wanted.force(x), rtol=1e-6, atol=1e-6)
        found = np.sort(torsions(chain, x))
        assert np.allclose(found, np.sort(torsions(chain, x, beads)), atol=1e-12)
    assert torsions(fx.Chain.ring(3), np.eye(3)).shape == (0,)


def test_lassos_have_the_bends_and_torsions_at_the_closure():
    # A ring of five, 0 to 4, with a tail 5, 6 on bead 2, where its tree is closed.
    bonds = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (2, 5), (5, 6)]
    chain = fx.Chain.from_bonds(7, bonds)
    assert [row.beads for row in chain.extra] == [(2, 3)]
    x = frames(chain, 4)
    bent = [*around(5, 3), (1, 2, 5), (2, 5, 6)]
    turned = [*around(5, 4), (0, 1, 2, 5), (1, 2, 5, 6)]
    for default, named in (
        (Bending(2.0), Bending(2.0, beads=bent)),
        (Torsion(1.0), Torsion(1.0, beads=turned)),
    ):
        assert np.allclose(bind(chain, default).energy(x), bind(chain, named).energy(x))
    assert np.allclose(np.sort(np.cos(angles(chain, x))), np.sort(np.cos(angles(chain, x, bent))))
    # A closure that was left out as redundant is one all the same, and further lengths count once.
    rigid = [(k, (k + 1) % 6) for k in range(6)]
    options = {"hard": "torsional", "drop_redundant": True}
    chain = fx.Chain.from_bonds(6, rigid, **options)
    assert "length" in {row.kind for row in chain.redundant}
    assert angles(chain, frames(chain, 1)).shape == (1, 6)
    first, others = bind(chain, LennardJones()).tables.pairs[-2:]
    assert sorted(others[first[2] : first[3]]) == [3]


def test_rings_on_a_base_have_them_too():
    chain = fx.Chain.ring(6, base="fixed")
    x = frames(chain, 2)
    assert angles(chain, x).shape == (2, 6)
    assert torsions(chain, x).shape == (2, 6)


def test_everything_excluded_is_nothing():
    chain = fx.Chain.linear(5)
    x = frames(chain, 2, spread=0.1)
    assert not bind(chain, WCA(exclude=4)).energy(x).any()
    assert not bind(chain, WCA(exclude=100)).force(x).any()


@pytest.mark.parametrize("dim", [2, 3])
def test_neighbours_are_those_of_a_tree(dim):
    chain = linear(dim, "free", 400)
    x = 4.0 * np.random.default_rng(0).uniform(-1, 1, size=(chain.n, dim)) + 100.0
    bound = bind(chain, LennardJones(cutoff=1.0, skin=1e-9, sigma=0.7, exclude=0))
    pairs = cKDTree(x).query_pairs(0.7)
    energy = sum(
        4 * (r**-12 - r**-6) for r in (np.linalg.norm(x[i] - x[j]) / 0.7 for i, j in pairs)
    )
    assert len(pairs) > 200
    assert bound.energy(x) == pytest.approx(energy, rel=1e-12)


def test_lists_that_serve_several_configurations_change_no_bit():
    """Forces along a walk: lists with a skin, kept from step to step, against new ones."""
    chain = linear(3, "free", 60)
    rng = np.random.default_rng(4)
    x = 0.8 * np.cumsum(rng.normal(size=(chain.n, 3)), axis=0)
    walk = x + np.cumsum(0.02 * rng.normal(size=(200, chain.n, 3)), axis=0)
    for skin in (1e-6, 0.4, 3.0):
        bound = bind(chain, WCA(sigma=1.3, skin=skin))
        kept = np.empty(walk.size)  # one workspace for all frames
        potential = forces.potential(bound.tables, ONE_STATE)
        size = 3 * chain.n
        assert forces.frames(walk.ravel(), potential, size, kept, False, ONE_STATE) == -1
        anew = np.stack([bound.force(one) for one in walk])
        assert np.array_equal(kept.reshape(walk.shape), anew)
        if skin == 1e-6:
            first = anew
        assert np.array_equal(first, anew)


def test_crowded_beads_find_room_in_the_lists():
    chain = fx.Chain.linear(120)
    x = np.random.default_rng(5).normal(size=(9, 120, 3)) * 0.3
    p = LennardJones(epsilon=1e-9, exclude=0)
    bound = bind(chain, p)
    apart = np.linalg.norm(x[8, :, None] - x[8, None], axis=-1)[np.triu_indices(120, 1)]
    assert (apart < 2.5).mean() > 0.99
    sixth = apart[apart < 2.5] ** -6
    cut = 2.5**-6
    energy = 4e-9 * (sixth**2 - sixth - (cut**2 - cut)).sum()
    assert bound.energy(x)[8] == pytest.approx(energy, rel=1e-12)


# --- one's own ------------------------------------------------------------------------------------


class Quartic:
    """U = ¼ Σ x⁴."""

    def energy(self, x):
        assert x.ndim == 2
        return np.sum(x**4) / 4

    def force(self, x):
        return -(x**3)


@numba.njit
def quartic_force(x, out):
    for k in range(x.shape[0]):
        for a in range(x.shape[1]):
            out[k, a] = -(x[k, a] ** 3)


@pytest.mark.thorough
@pytest.mark.parametrize("own", [Quartic(), *quick([Compiled(quartic_force, Quartic().energy)])])
def test_ones_own(own):
    chain = fx.Chain.linear(5)
    x = frames(chain, 10)
    assert np.allclose(bind(chain, own).force(x), -(x**3), rtol=1e-15)
    assert np.allclose(bind(chain, own).energy(x), (x**4).sum((1, 2)) / 4, rtol=1e-14)
    both = Bending(2.0) + own if isinstance(own, Compiled) else own + Bending(2.0)
    assert isinstance(both, Sum)
    wanted = bind(chain, own).force(x) + bind(chain, Bending(2.0)).force(x)
    assert np.allclose(bind(chain, both).force(x), wanted, rtol=1e-14)
    assert np.allclose(
        bind(chain, both).energy(x),
        bind(chain, own).energy(x) + bind(chain, Bending(2.0)).energy(x),
    )


def test_what_ones_own_raises_comes_through():
    class Bad(Quartic):
        def force(self, x):
            raise ZeroDivisionError("mine")

    chain = fx.Chain.linear(4)
    bound = bind(chain, Bad())
    with pytest.raises(ZeroDivisionError, match="mine"):
        bound.force(frames(chain, 9))
    bound.check()  # eight at once have failed, but this is over
    with pytest.raises(ZeroDivisionError):
        bound.check(frames(chain, 1)[0])


def test_ctrl_c_in_ones_own_comes_through():
    class Stopped(Quartic):
        def force(self, x):
            raise KeyboardInterrupt

    chain = fx.Chain.linear(4)
    with pytest.raises(KeyboardInterrupt):
        bind(chain, Stopped()).force(frames(chain, 1))


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (np.zeros((3, 3)), ValueError, r"force\(x\) must have shape"),
        (np.zeros((2, 4, 3)), ValueError, r"must have shape \(4, 3\)"),
        (np.full((4, 3), np.nan), ValueError, "force.*nan at bead 0"),
        ("no", TypeError, "real numbers"),
    ],
)
def test_answers_of_ones_own_are_looked_at(answer, error, text):
    class Bad(Quartic):
        def force(self, x):
            return answer

    chain = fx.Chain.linear(4)
    with pytest.raises(error, match=text):
        bind(chain, Bad()).force(frames(chain, 1))


def test_energies_of_ones_own_are_looked_at():
    class Bad(Quartic):
        def energy(self, x):
            return np.inf

    chain = fx.Chain.linear(4)
    x = frames(chain, 1)
    with pytest.raises(ValueError, match="returned inf"):
        bind(chain, Bad()).energy(x)
    with pytest.raises(ValueError, match="no energy"):
        bind(chain, Compiled(quartic_force)).energy(x)


@numba.njit
def raising_force(x, out):
    if x[0, 0] > 0.5:
        raise ZeroDivisionError("mine")
    out[:] = 0.5


@numba.njit
def nan_force(x, out):
    out[:] = 0.0
    if x[0, 0] > 0.5:
        out[2, 0] = np.nan


FAILING = [
    (raising_force, RuntimeError, "compiled force raising_force raised ZeroDivisionError: mine"),
    (nan_force, ValueError, r"force\(x\) is nan at bead 2: .*, in the compiled force nan_force"),
]


@pytest.mark.parametrize(("force", "error", "message"), quick(FAILING))
def test_what_compiled_forces_raise_comes_through(force, error, message, capfd):
    chain = fx.Chain.linear(4)
    x = np.zeros((9, 4, 3))
    x[:, :, 0] = 0.3 * np.arange(4)
    bound = bind(chain, Compiled(force, lambda x: 0.0))
    assert np.isfinite(bound.force(x)).all()
    x[4, 0, 0] = 0.6
    for _ in range(2):
        with pytest.raises(error, match=message) as caught:
            bound.force(x)
    assert isinstance(caught.value.__cause__, ZeroDivisionError) is (force is raising_force)
    bound.check()
    x[4, 0, 0] = np.nan
    with pytest.raises(ValueError, match=r"overflowed|x is nan"):
        bind(chain, Compiled(nan_force) + Gravity((np.pi, 0, 0))).force(x)
    stepper = Newton(0.05, kT=1e-6, potential=Compiled(force) + Gravity((1.0, 0.0, 0.0)))
    state = stepper.start(chain, x[0], replicas=9, rng=1)
    before = state.x.copy()
    with pytest.raises(error, match=message):
        stepper.advance(chain, state, 100, workers=2)
    assert np.array_equal(state.x, before)
    assert "ignored" not in capfd.readouterr().err


def test_compiled_energies_come_through():
    @numba.njit
    def energy(x):
        raise ZeroDivisionError("mine")

    chain = fx.Chain.linear(4)
    with pytest.raises(ZeroDivisionError, match="mine"):
        bind(chain, Compiled(quartic_force, energy)).energy(frames(chain, 1))


def test_a_compiled_force_that_returns_its_result_is_refused():
    @numba.njit
    def force(x, out):
        return -x

    with pytest.raises(TypeError, match="returns a value"):
        bind(linear(3, "free", 4), Compiled(force))


def test_a_compiled_force_is_compiled_once_and_each_chain_has_a_record():
    @numba.njit
    def force(x, out):
        out[:] = -x
        if x[0, 0] > 100.0:
            out[:] = np.nan

    chains = [linear(3, "free", 5), linear(3, "fixed", 5), linear(3, "free", 6)]
    bound = [bind(chain, Compiled(force)) for chain in chains]
    functions, records = zip(*(one._parts.addresses for one in bound), strict=True)
    assert (len(set(functions)), len(set(records))) == (1, 3)
    with pytest.raises(ValueError, match="in the compiled force force"):
        bound[0].force(np.full((5, 3), 101.0))
    for one in bound[1:]:
        x = frames(one.chain, 1)
        assert np.array_equal(one.force(x), -x)


def test_compiled_forces_of_another_form_are_refused():
    @numba.njit
    def one(x):
        return x

    @numba.njit
    def text(x, out):
        out[0] = "text"

    chain = fx.Chain.linear(4)
    with pytest.raises(TypeError, match="force one for x and out, two float64 arrays"):
        bind(chain, Compiled(one))
    with pytest.raises(TypeError, match="cannot compile the compiled force text") as caught:
        bind(chain, Compiled(text))
    assert len(str(caught.value)) < 200
    with pytest.raises(TypeError, match=r"force must be compiled by .*, got None"):
        Compiled(None)


def test_two_of_ones_own_are_a_sum():
    chain = fx.Chain.linear(5)
    x = frames(chain, 2)
    assert np.allclose(bind(chain, Sum((Quartic(), Quartic()))).force(x), -2 * x**3)


def test_ones_own_cannot_change_the_positions():
    class Bad(Quartic):
        def force(self, x):
            x[:] = 0.0
            return np.zeros_like(x)

        def energy(self, x):
            x[:] = 0.0
            return 0.0

    chain = fx.Chain.linear(4)
    x = frames(chain, 1)
    before = x.copy()
    bind(chain, Bad()).force(x)
    bind(chain, Bad()).energy(x)
    assert np.array_equal(x, before)


def test_what_is_no_potential_is_refused():
    chain = fx.Chain.linear(4)
    for bad in (3.0, "wca", np.ones(3), Bending):
        with pytest.raises((TypeError, ValueError)):
            bind(chain, bad)
    with pytest.raises(TypeError, match=r"njit"):
        bind(chain, Compiled(lambda x, out: None))


# --- errors ---------------------------------------------------------------------------------------


def test_coincident_beads_are_named():
    chain = fx.Chain.linear(5)
    x = frames(chain, 12)
    x[9, 2] = x[9, 1]
    for p in (Bending(1.0), BendingTorsion((1.0,)), Torsion(1.0)):
        with pytest.raises(
            fx.SingularCoordinateError, match="bead 1 and bead 2 coincide in frame 9"
        ):
            bind(chain, p).force(x)
    x = frames(chain, 12)
    x[3, 4] = x[3, 1]
    for p in (WCA(), LennardJones()):
        with pytest.raises(
            fx.SingularCoordinateError, match="bead 1 and bead 4 coincide in frame 3"
        ):
            bind(chain, p).force(x)
        with pytest.raises(
            fx.SingularCoordinateError, match="bead 1 and bead 4 coincide in frame 3"
        ):
            bind(chain, p).energy(x)
    x[3, 4] = x[3, 1] + 1e-40
    x[3, 1] = 0.0
    x[3, 4] = 1e-40
    with pytest.raises(fx.SingularCoordinateError, match=r"bead 1 and bead 4 are 1.73e-40 apart"):
        bind(chain, WCA()).force(x)
    fixed = fx.Chain.linear(3, base="fixed")
    x = frames(fixed, 1)[0]
    x[0] = 0.0
    with pytest.raises(fx.SingularCoordinateError, match="the base point and bead 0 coincide"):
        bind(fixed, Bending(1.0, beads=[(-1, 0, 1)])).force(x)


@pytest.mark.parametrize(
    ("potential", "shape"),
    [
        (Bending(1.0, 0.5), "straight"),
        (Bending(1.0, 0.5, "harmonic"), "straight"),
        (Bending(1.0, 0.5, "harmonic"), "folded"),
        (Bending(1.0, 0.0, "harmonic"), "folded"),
        (Torsion(1.0), "straight"),
        (RyckaertBellemans((0.0, 1.0)), "straight"),
    ],
)
def test_kinks_are_errors(potential, shape):
    chain = fx.Chain.linear(5)
    x = straight(5)
    x[:2, 1] += [2.0, 1.0]
    if shape == "folded":
        x[4] = x[2]
    name = r"angle\(" if isinstance(potential, Bending) else r"torsion\("
    with pytest.raises(fx.SingularCoordinateError, match=name + r".*in line.*in frame 1"):
        bind(chain, potential).force(np.stack([frames(chain, 1)[0], x]))


def test_positions_that_are_not_finite_are_named():
    chain = fx.Chain.linear(5)
    for p in (None, WCA(), Bending(1.0), Gravity((0, 0, 1))):
        for bad in (np.nan, np.inf):
            x = frames(chain, 10)
            x[8, 3, 1] = bad
            with pytest.raises(ValueError, match=r"x is (nan|inf) at bead 3 in frame 8"):
                bind(chain, p).energy(x)
            with pytest.raises(ValueError, match=r"x is (nan|inf) at bead 3 in frame 8"):
                bind(chain, p).force(x)


def test_overflow_is_an_error():
    chain = fx.Chain.linear(3)
    with pytest.raises(ValueError, match="overflowed"):
        bind(chain, Tether(0, (0, 0, 0), 1e300)).energy(frames(chain, 1) * 1e200)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Bending(np.nan), "stiffness is nan"),
        (lambda: Bending("x"), "stiffness must be real numbers"),
        (lambda: Bending(1.0, kind="linear"), "kind must be 'cosine', 'harmonic' or"),
        (lambda: Bending([[1.0]]), "stiffness must be a number or a list"),
        (lambda: Bending(1.0, beads=[(0, 1)]), "3 different bead numbers"),
        (lambda: Bending(1.0, beads=[(0, 1, 1)]), "3 different bead numbers"),
        (lambda: Bending(1.0, beads=[(0.5, 1, 2)]), "3 different bead numbers"),
        (lambda: Torsion(np.ones(7)), "at most 6 amplitudes"),
        (lambda: Torsion((1, 2), (1, 2, 3)), r"phases must be one number or have shape \(2,\)"),
        (lambda: RyckaertBellemans(np.ones(7)), "1 to 6 coefficients"),
        (lambda: BendingTorsion(()), "1 to 4 coefficients"),
        (lambda: WCA(epsilon=0.0), "epsilon must be positive"),
        (lambda: WCA(sigma=[1.0, -1.0]), "sigma must be positive"),
        (lambda: WCA(skin=0.0), "skin must be positive"),
        (lambda: WCA(exclude=-1), "exclude must be at least 0"),
        (lambda: WCA(exclude=1.5), "exclude must be an integer"),
        (lambda: LennardJones(cutoff=-1.0), "cutoff must be positive"),
        (lambda: LennardJones(shift="potential"), "shift must be"),
        (lambda: Gravity(9.81), "acceleration must be a vector"),
        (lambda: Gravity((1, 2, 3, 4)), "acceleration must be a vector"),
        (lambda: Tension((0, 1), ends=(1, 1)), "pair of ends is 2 different bead numbers"),
        (lambda: Tether(1.5, (0, 0)), "tether is a bead number"),
        (lambda: Tether(0, 1.0), "points must have shape"),
        (lambda: Tether(0, [(0, 0, 1), (0, 0, 2)]), r"got \(2, 3\) for 1 tethers"),
    ],
)
def test_bad_arguments(make, text):
    with pytest.raises((ValueError, TypeError), match=text):
        make()


@pytest.mark.parametrize(
    ("chain", "potential", "text"),
    [
        (fx.Chain.linear(4), Bending([1.0]), r"stiffness must be one number or have shape \(2,\)"),
        (fx.Chain.linear(4), Bending(1.0, -0.1), "from 0 .straight. to π"),
        (fx.Chain.linear(4), Bending(1.0, beads=[(2, 3, 4)]), r"angle\(2, 3, 4\) names a bead"),
        (fx.Chain.linear(4), Bending(1.0, beads=[(-1, 0, 1)]), "not among 0 to 3"),
        (fx.Chain.linear(4, dim=2), Torsion(1.0), "no torsions in the plane"),
        (
            fx.Chain.linear(4),
            WCA(sigma=[1.0, 1.0]),
            r"sigma must be one number or have shape \(4,\)",
        ),
        (fx.Chain.linear(4), WCA() + LennardJones(), "only one pair potential"),
        (fx.Chain.linear(4), Gravity((0, 1)), "acceleration must have 3 components"),
        (fx.Chain.linear(4), Tension((0, 1)), "force must have 3 components"),
        (fx.Chain.linear(4), Tension((0, 1, 0), ends=(0, 4)), "names a bead"),
        (fx.Chain.branched([-1, 0, 0, 0]), Tension((0, 1, 0)), "no two ends"),
        (fx.Chain.linear(1), Tension((0, 1, 0)), "two different ends"),
        (fx.Chain.linear(4), Tether(4, (0, 0, 0)), "names a bead"),
        (fx.Chain.linear(4, base="fixed"), Tether(-1, (0, 0, 0)), "base point cannot move"),
        (fx.Chain.linear(4), Tether(0, (0, 0)), "a point must have 3 components"),
    ],
)
def test_what_does_not_fit_the_chain(chain, potential, text):
    with pytest.raises(ValueError, match=text):
        bind(chain, potential)


def test_no_tethers_pull_nothing():
    bound = bind(fx.Chain.linear(4), Tether((), (0.0, 0.0, 1.0)))
    assert bound.energy(frames(bound.chain, 1)[0]) == 0.0


# --- in a stepper ---------------------------------------------------------------------------------


def boltzmann(energy, density, value):
    """⟨value(c)⟩ of c = cos θ in −1 … 1 with weight density(c) e^(−energy(c)), by quadrature."""
    c, w = np.polynomial.legendre.leggauss(200)
    w = w * density(c) * np.exp(-energy(c))
    return (w * value(c)).sum() / w.sum()


def wca(c):
    r = np.sqrt(2 + 2 * c) / 1.6
    return np.where(r < 2 ** (1 / 6), 4 * (r**-12 - r**-6) + 1, 0.0)


def bend_cosine(x):
    return (np.diff(x, axis=-2)[..., 0, :] * np.diff(x, axis=-2)[..., 1, :]).sum(-1)


def bond_component(x):
    return x[..., -1, 2] - (x[..., 0, 2] if x.shape[-2] > 1 else 0.0)


UP = (0.0, 0.0, 1.5)
ONE = np.ones_like
SAMPLED = {
    "bending, rigid": (3, "free", Bending(2.0), bend_cosine, lambda c: -2 * c, "rigid"),
    "WCA": (3, "free", WCA(sigma=1.6), bend_cosine, wca, "stiff"),
    "tension": (2, "free", Tension(UP), bond_component, lambda c: -1.5 * c, "rigid"),
    "tether": (
        1, "fixed", Tether(0, (0, 0, 1), 2.0), bond_component, lambda c: -2 * c, "rigid",
    ),
}  # fmt: skip


def sampled(chain, x0, potential, ensemble, observable):
    """Return the means of an observable in independent replicas."""
    stepper = Langevin(0.05, ensemble=ensemble, potential=potential)
    state = stepper.start(chain, x0, replicas=256, rng=1)
    stepper.advance(chain, state, 200)
    total = 0.0
    for _ in range(200):
        stepper.advance(chain, state, 40)
        total = total + observable(state.x)
    return total / 200


def agree(means, exact):
    error = means.std(ddof=1) / np.sqrt(means.size)
    assert error < 0.006
    assert abs(means.mean() - exact) < 4 * error + 5e-4  # and the bias of the step


@pytest.mark.thorough
@pytest.mark.parametrize("case", SAMPLED)
def test_langevin_samples_boltzmanns_distribution(case):
    n, base, potential, observable, energy, ensemble = SAMPLED[case]
    chain = fx.Chain.linear(n, base=base, masses=2.0)
    rng = np.random.default_rng(0)
    u = np.array([0.0, 0.0, 1.0]) + 0.2 * rng.normal(size=(256, n, 3))  # without overlaps
    x0 = np.cumsum(u / np.linalg.norm(u, axis=-1, keepdims=True), axis=1)
    means = sampled(chain, x0, potential, ensemble, observable)
    density = (lambda c: np.sqrt(4 - c * c)) if (n, ensemble) == (3, "rigid") else ONE
    agree(means, boltzmann(energy, density, lambda c: c))


@pytest.mark.thorough
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
@pytest.mark.parametrize("potential", [Torsion(1.5), BendingTorsion((0.0, 1.5))])
def test_langevin_samples_torsions_between_hard_bends(potential, ensemble):
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    x0 = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [1.8, 1, 0.6]])
    means = sampled(chain, x0, potential, ensemble, lambda x: np.cos(torsions(chain, x))[:, 0])
    phi = np.linspace(-np.pi, np.pi, 2001)[1:]
    c = -np.cos(phi)  # 0 at trans
    weight = np.exp(-1.5 * np.cos(phi))
    if ensemble == "rigid":
        weight *= np.sqrt(35 + 4 * c - 16 * c**2 + c**4)
    agree(means, (weight * np.cos(phi)).sum() / weight.sum())


@pytest.mark.thorough
@pytest.mark.parametrize("own", [*quick([Quartic()]), Compiled(quartic_force)])
def test_ones_own_in_a_stepper_is_as_good_as_a_table(own):
    chain = fx.Chain.linear(6)
    x0 = np.arange(6)[:, None] * np.array([1.0, 0.0, 0.0])
    answers = []
    for potential in (Bending(1.0) + own, own):
        stepper = Newton(0.01, kT=0.1, potential=potential)
        state = stepper.start(chain, x0, replicas=9, rng=1)
        stepper.advance(chain, state, 50)
        half = stepper.start(chain, x0, replicas=9, rng=1)
        for _ in range(5):
            stepper.advance(chain, half, 10, workers=2)
        assert np.array_equal(half.x, state.x)
        answers.append(state.x)
    assert not np.allclose(*answers)


def test_what_ones_own_raises_in_a_stepper_comes_through():
    class Sometimes(Quartic):
        calls = 0

        def force(self, x):
            self.calls += 1
            if self.calls > 20:
                raise ZeroDivisionError("mine")
            return super().force(x)

    chain = fx.Chain.linear(3)
    stepper = Newton(0.01, kT=1.0, potential=Sometimes())
    state = stepper.start(chain, np.arange(3)[:, None] * [1.0, 0, 0], rng=1)
    before = state.x.copy()
    with pytest.raises(ZeroDivisionError, match="mine"):
        stepper.advance(chain, state, 100)
    assert np.array_equal(state.x, before)


@pytest.mark.thorough
def test_lists_in_a_stepper_change_no_bit():
    chain = fx.Chain.linear(40)
    x0 = np.zeros((40, 3))
    x0[:, 0], x0[1::2, 1] = 0.95 * np.arange(40), np.sqrt(1 - 0.95**2)
    states = []
    for skin, pieces in ((0.8, 1), (0.8, 10), (0.05, 1), (4.0, 2)):
        stepper = Langevin(0.005, potential=WCA(skin=skin) + Bending(1.0))
        state = stepper.start(chain, x0, replicas=9, rng=1)
        for _ in range(pieces):
            stepper.advance(chain, state, 400 // pieces)
        states.append(state.x)
    for other in states[1:]:
        assert np.array_equal(other, states[0])


# --- descriptions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "base", "potential"), CASES)
def test_descriptions_come_back(dim, base, potential):
    text = json.dumps(potential.parameters())
    again = from_parameters(json.loads(text))
    assert again == potential
    assert hash(again) == hash(potential)
    x = frames(linear(dim, base), 2)
    chain = linear(dim, base)
    assert np.array_equal(bind(chain, again).force(x), bind(chain, potential).force(x))


def test_beads_may_be_coordinates():
    chain = fx.Chain.linear(5)
    angles = [c for c in chain.coordinates if c.kind == "angle"][2:3]
    assert Bending(1.0, beads=angles) == Bending(1.0, beads=[(1, 2, 3)]) or angles[0].beads[0] != 1
    assert Bending(1.0, beads=angles).beads == (angles[0].beads,)


def test_ones_own_leave_their_names_only():
    described = (Bending(1.0) + Quartic()).parameters()
    assert described["terms"][1]["name"].endswith("Quartic")
    json.dumps(described)
    with pytest.raises(ValueError, match=r"Quartic is not built in: give it again"):
        from_parameters(described)
    compiled = Compiled(quartic_force).parameters()
    assert "quartic_force" in compiled["name"]
    with pytest.raises(ValueError, match="not built in"):
        from_parameters(compiled)
    with pytest.raises(ValueError, match="no potential is called 'Coulomb'"):
        from_parameters({"name": "Coulomb"})


def test_sums_are_flat():
    a, b, c = Bending(1.0), WCA(), Gravity((0, 0, 1))
    assert (a + b) + c == a + (b + c) == sum([a, b, c]) == Sum((a, b, c))
    assert repr(a + b).startswith("Sum(terms=(Bending(stiffness=1.0")


def test_descriptions_cannot_be_changed():
    with pytest.raises(AttributeError):
        Bending(1.0).stiffness = 2.0


def test_public_names():
    for name in potentials.__all__:
        assert getattr(potentials, name).__doc__
