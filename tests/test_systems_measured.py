"""Pair correlation, scattering and pressure of systems, against closed forms and LAMMPS."""

import importlib
import itertools
from pathlib import Path

import numpy as np
import pytest

import fixman as fx
from fixman import observables as ob
from fixman.potentials import FENE, WCA, bind
from selection import quick

BOX = np.array([6.0, 7.0, 8.0])


def beads_anywhere(system, frames, seed):
    return np.random.default_rng(seed).uniform(-9, 9, (frames, system.n, system.dim))


# --- pair correlation and scattering --------------------------------------------------------------


def pairs_by_two_loops(system, x, edges, between):
    """Return the share of the pairs in each shell over that of its volume, in a frame."""
    number, counts, pairs = system.molecules(), np.zeros(edges.size - 1), 0
    for i, j in itertools.combinations(range(system.n), 2):
        if not (between and number[i] == number[j]):
            d = x[i] - x[j]
            r = np.linalg.norm(d - system.box * np.round(d / system.box))
            counts += (edges[:-1] < r) & (r <= edges[1:])
            pairs += 1
    ball = np.pi * edges**2 if system.dim == 2 else 4 / 3 * np.pi * edges**3
    return counts / pairs / (np.diff(ball) / system.volume)


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("dim", [2, 3])
def test_pair_correlation_is_that_of_two_loops(dim, between):
    kinds = [(fx.Chain.linear(4, dim=dim), 5), (fx.Chain.linear(3, dim=dim), 4)]
    system = fx.System(kinds, box=BOX[:dim])
    x = beads_anywhere(system, 4, seed=1)
    x[:, 1::7] = x[:, ::7] + 0.5  # chains that bend to themselves, through the box and all
    edges = np.array([0.3, 0.9, 2.0, 3.0])
    found = ob.radial_distribution(system, x, edges, between=between)
    wanted = np.array([pairs_by_two_loops(system, one, edges, between) for one in x])
    np.testing.assert_allclose(found.density, wanted.mean(axis=0), rtol=1e-12)
    shifted = ob.radial_distribution(system, (x + 1e3 * BOX[:dim])[:, None], edges, between=between)
    np.testing.assert_allclose(shifted.density, found.density, rtol=1e-12)


def test_an_ideal_gas_has_no_structure():
    system = fx.System(fx.Chain.linear(1), 300, box=BOX)
    x = np.random.default_rng(2).uniform(0.0, 1.0, (40, system.n, 3)) * BOX
    for between in (False, True):
        g = ob.radial_distribution(system, x, 12, between=between)
        assert g.edges[-1] == 3.0
        assert np.all(np.abs(g.density - 1.0) < 4 * g.error)
        assert g.error[1:].max() < 0.1
    S = ob.structure_factor(system, x, [0.8, 2.0, 9.0])
    error = S.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(S.mean(axis=0) - 1.0) < 4 * error)


@pytest.mark.parametrize("dim", [2, 3])
def test_scattering_has_the_vectors_of_the_box(dim):
    system = fx.System(fx.Chain.linear(5, dim=dim), 6, box=BOX[:dim])
    x = beads_anywhere(system, 3, seed=4)
    m = np.array(list(itertools.product(range(-9, 10), repeat=dim)))
    k = 2 * np.pi * m[m.any(axis=1)] / system.box
    length = np.linalg.norm(k, axis=1)
    longest = system.box.max()
    for q in (0.5, 2 * np.pi / longest, 1.3, 2.9, 4.0):
        away = np.abs(length - q)
        chosen = k[away <= away.min() + np.pi / (2 * longest)]
        amplitude = np.exp(1j * x @ chosen.T).sum(axis=1)
        wanted = (np.abs(amplitude) ** 2).mean(axis=1) / system.n
        found = ob.structure_factor(system, x, q, directions=10**4)[:, 0]
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    # images and whole edges make no difference, and few directions take the nearest
    moved = x + system.box * np.random.default_rng(5).integers(-5, 6, (system.n, 1))
    q = np.linalg.norm(2 * np.pi * np.array([1, 2, 3])[:dim] / system.box)
    one = ob.structure_factor(system, moved, q, directions=1)
    np.testing.assert_allclose(one, ob.structure_factor(system, x, q, directions=1), rtol=1e-9)


def test_large_wave_numbers_have_vectors_nearby():
    lengths = np.linalg.norm(ob._reciprocal(BOX, 30.0, 64), axis=1)
    assert lengths.size == 64
    assert np.abs(lengths - 30.0).max() < 0.01


def test_energies_of_systems():
    system = fx.System([(fx.Chain.linear(5), 3), (fx.Chain.linear(1), 2)], box=BOX)
    v = np.random.default_rng(6).normal(size=(2, system.n, 3))
    assert ob.degrees_of_freedom(system) == 3 * (15 - 4) + 6
    np.testing.assert_allclose(ob.kinetic_energy(system, v), (v**2).sum((1, 2)) / 2)
    np.testing.assert_allclose(ob.temperature(system, v, 3), (v**2).sum((1, 2)) / 36)
    x = beads_anywhere(system, 2, seed=7)
    np.testing.assert_array_equal(
        ob.potential_energy(system, x, WCA(sigma=0.1)), bind(system, WCA(sigma=0.1)).energy(x)
    )


def test_refusals():
    chain = fx.Chain.linear(3)
    x = np.zeros((4, 3, 3))
    for model in (chain, fx.System(chain)):
        with pytest.raises(TypeError, match="System in a box"):
            ob.radial_distribution(model, x)
    system = fx.System(chain, box=5.0)
    for edges in ([0.0, 2.6], [-1.0, 2.0]):
        with pytest.raises(ValueError, match=r"half of the shortest edge of the box, 2\.5"):
            ob.radial_distribution(system, x, edges)
    one = ob.radial_distribution(system, x[:1], 4)
    assert np.array_equal(one.density, ob.radial_distribution(system, x[[0, 0]], 4).density)
    assert np.isinf(one.error).all()
    for frames in (x[0], x[:0]):
        with pytest.raises(ValueError, match=r"x must have shape \(frames, \.\.\., 3, 3\)"):
            ob.radial_distribution(system, frames)
    with pytest.raises(ValueError, match="no two beads"):
        ob.radial_distribution(system, x, between=True)
    with pytest.raises(ValueError, match=r"too small for the box.* 1\.257"):
        ob.structure_factor(system, x, 0.5)
    with pytest.raises(TypeError, match=r"system\.split"):
        ob.radius_of_gyration(system, x)


# --- pressure of a gas ----------------------------------------------------------------------------


def repulsion(d):
    """Return the sum of WCA over the last axes but one of separations (..., 3)."""
    sixth = np.maximum((d * d).sum(-1), 1e-6) ** -3
    return np.where(sixth > 0.5, 4 * sixth * (sixth - 1) + 1, 0.0)


def trimers(rng, size, ensemble):
    """Draw trimers about their centres, and their weights: the ensemble's, and of the ends."""
    c, phi = rng.uniform(-1, 1, size), rng.uniform(0, 2 * np.pi, size)
    s = np.sqrt(1 - c * c)
    u = np.zeros((size, 3, 3))
    u[:, 1, 0] = 1.0
    u[:, 2] = u[:, 1] + np.stack([c, s * np.cos(phi), s * np.sin(phi)], axis=1)
    turns = np.linalg.qr(rng.normal(size=(size, 3, 3)))[0]
    u = (u - u.mean(axis=1, keepdims=True)) @ turns
    weight = np.sqrt(4 - c * c) if ensemble == "rigid" else 1.0
    return u, weight * np.exp(-repulsion(u[:, 2] - u[:, 0]))


@pytest.mark.parametrize("ensemble", quick(["rigid", "stiff"], "rigid"))
def test_two_trimers_have_the_pressure_of_their_partition_function(ensemble):
    """Z = V (V − 2 B₂) of two chains in a box that is wider than twice their reach.

    So that P V = kT (1 + V/(V − 2 B₂)).  Draws without forces have the weights exp(−U/kT).
    """
    rng, edge = np.random.default_rng(8), 6.3
    system = fx.System(fx.Chain.linear(3), 2, box=edge)
    size = 40_000
    a, wa = trimers(rng, size, ensemble)
    b, wb = trimers(rng, size, ensemble)
    b += rng.uniform(-edge / 2, edge / 2, (size, 1, 3))
    d = a[:, :, None] - b[:, None]
    d -= edge * np.round(d / edge)
    w = wa * wb / np.mean(wa * wb)
    boltzmann = np.exp(-repulsion(d).sum((1, 2)))
    shared = np.mean(w * boltzmann)  # 1 − 2 B₂/V, ⟨w⟩ = 1
    near, weight = boltzmann < 1, w * boltzmann
    product = np.full(size, 2.0)  # P V/kT, without forces
    x = np.concatenate([a, b], axis=1)[near]
    product[near] = edge**3 * bind(system, WCA()).pressure(x, kT=1.0)
    value = np.average(product, weights=weight)
    error = np.std(weight * (product - value)) / weight.sum() * size**0.5
    exact = 1 + 1 / shared
    spread = np.std(weight) / size**0.5 / shared**2
    print(f"{ensemble}: P V/kT = {value:.4f} ± {error:.4f}, exact {exact:.4f} ± {spread:.4f}")
    assert abs(value - exact) < 4 * np.hypot(error, spread)
    assert 4 * np.hypot(error, spread) < 0.3 * (exact - 2)
    assert shared < 0.95


@pytest.mark.thorough
def test_a_gas_of_dumbbells_has_its_virial_coefficients():
    """P = ρ kT (1 + B₂ ρ + B₃ ρ²) by steps, with B₂ and B₃ by Monte Carlo.

    B₂ = −½ ∫ ⟨f₁₂⟩, and for rigid bodies B₃ = −⅓ ∫∫ ⟨f₁₂ f₁₃ f₂₃⟩, f = e^(−U/kT) − 1.
    """
    rng, size = np.random.default_rng(9), 400_000
    reach = 1 + 2 ** (1 / 6)  # of centres
    axes = rng.normal(size=(3, size, 1, 3))
    ends = axes / np.linalg.norm(axes, axis=-1, keepdims=True) * [[-0.5], [0.5]]
    places = rng.uniform(-reach, reach, (3, size, 1, 3))
    places[0] = 0.0
    beads = ends + places

    def f(i, j):
        d = beads[i][:, :, None] - beads[j][:, None]
        return np.exp(-repulsion(d).sum((1, 2))) - 1

    cube = (2 * reach) ** 3
    second, third = -0.5 * cube * f(0, 1), -(cube**2) / 3 * f(0, 1) * f(0, 2) * f(1, 2)
    edge, many = 27.0, 200
    system = fx.System(fx.Chain.linear(2), many, box=edge)
    rho = many / edge**3
    x0 = fx.push_off(system, fx.random_walks(system, rng=1)[0], rng=1)
    stepper = fx.Langevin(0.01, potential=WCA(), friction=0.2)
    run = fx.simulate(system, x0, stepper, 40_000, every=10, rng=2)
    found = ob.mean_with_error(bind(system, WCA()).pressure(run.x[200:], kT=1.0) / rho)
    wanted = 1 + rho * second.mean() + rho**2 * third.mean()
    error = np.hypot(found.error, rho * second.std() / size**0.5)
    print(f"B2 {second.mean():.4f}, B3 {third.mean():.3f}, P/rho kT {found}, wanted {wanted:.5f}")
    assert abs(found.value - wanted) < 4 * error
    assert 4 * error < 0.2 * (wanted - 1)


# --- pressure of a melt ---------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("ensemble", ["rigid", "stiff"])
def test_pressure_of_a_melt_is_the_free_energy_of_a_larger_box(ensemble):
    """−∂A/∂V from ⟨(V′/V)^C exp(−ΔU/kT)⟩, the centres of chains moved with the box."""
    chain, many, kT, change = fx.Chain.linear(6), 50, 1.5, 2e-4
    system = fx.System(chain, many, box=(many * 6 / 0.8) ** (1 / 3))
    x0 = fx.push_off(system, fx.random_walks(system, rng=3)[0], kT=kT, rng=3)
    stepper = fx.Langevin(0.004, kT=kT, ensemble=ensemble, potential=WCA())
    run = fx.simulate(system, x0, stepper, 12_000, every=40, rng=4)
    x = run.x[50:, 0]
    u = bind(system, WCA()).energy(x)
    found = bind(system, WCA()).pressure(x, kT)
    sides = []
    for sign in (1, -1):
        scale = (1 + sign * change) ** (1 / 3)
        grown = fx.System(system.kinds, box=scale * system.box)
        y = system.split(x)[0]
        y = y + (scale - 1) * y.mean(axis=-2, keepdims=True)
        more = bind(grown, WCA()).energy(system.join([y])) - u
        sides.append(np.exp(many * np.log1p(sign * change) - more / kT))
    # kT ln⟨·⟩/ΔV on both sides: errors of second order in the change cancel
    up, down = (np.log(side.mean()) for side in sides)
    volume = change * system.volume
    value = kT * (up - down) / (2 * volume)
    each = kT / (2 * volume) * (sides[0] / sides[0].mean() - sides[1] / sides[1].mean())
    difference = ob.mean_with_error(each - found)
    print(
        f"{ensemble}: {value:.4f} by volume, {found.mean():.4f} by forces, ± {difference.error:.4f}"
    )
    assert abs(value - found.mean()) < 4 * difference.error
    assert 4 * difference.error < 0.05 * value


# --- a bead-spring melt against LAMMPS ------------------------------------------------------------

KREMER_GREST = FENE() + WCA(exclude=0)


def kremer_grest(chains, beads, density=0.85):
    """Return a melt with soft bonds, and a start from the same chains with hard ones."""
    edge = (chains * beads / density) ** (1 / 3)
    hard = fx.System(fx.Chain.linear(beads), chains, box=edge)
    x0 = fx.random_walks(hard, lengths=0.97, angles=1.2, rng=1)[0]
    soft = fx.System(fx.Chain.linear(beads, hard=()), chains, box=edge)
    return soft, fx.push_off(hard, x0, rng=1)


def test_bonds_of_a_bead_spring_melt():
    system, x0 = kremer_grest(8, 10)
    run = fx.simulate(system, x0, fx.Langevin(0.005, potential=KREMER_GREST), 400, every=20, rng=5)
    bonds = np.linalg.norm(np.diff(run.system.split(run.x[10:, 0])[0], axis=-2), axis=-1)
    assert 0.95 < bonds.mean() < 0.99
    assert bonds.max() < 1.5
    assert abs(ob.temperature(system, run.v[10:]).mean() - 1.0) < 0.1
    with pytest.raises(fx.SingularCoordinateError, match="beyond the reach"):
        fx.simulate(system, 2 * x0, fx.Langevin(0.005, potential=KREMER_GREST), 1)


@pytest.mark.thorough
@pytest.mark.peer
def test_a_bead_spring_melt_is_that_of_lammps(monkeypatch):
    """Pressure, g(r) and sizes; LAMMPS counts the forces of bonds, and has the mean of ours."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "experiments"))
    lammps_melt = importlib.import_module("_lammps").melt
    system, x0 = kremer_grest(40, 8)
    dt, every, frames, settle = 0.004, 50, 1500, 200
    other = lammps_melt(system, x0, dt)
    if other is None:
        pytest.skip("LAMMPS is not installed")
    stepper = fx.Langevin(dt, potential=KREMER_GREST)
    run = fx.simulate(system, x0, stepper, every * frames, every=every, rng=6)
    theirs = [other.frame(every) for _ in range(frames)]
    x = [run.x[1 + settle :, 0], np.array([frame[0] for frame in theirs[settle:]])]
    pressures = [
        bind(system, KREMER_GREST).pressure(x[0], kT=1.0),
        np.array([frame[1] for frame in theirs[settle:]]),
    ]
    found = {"pressure": [ob.mean_with_error(p) for p in pressures]}
    edges = np.linspace(0.8, 3.0, 23)
    for name, between in (("g(r)", False), ("g(r) between chains", True)):
        both = [ob.radial_distribution(system, y[::4], edges, between=between) for y in x]
        for k, r in enumerate(edges[1:]):
            found[f"{name} up to {r:.1f}"] = [ob.Mean(g.density[k], g.error[k]) for g in both]
    for s in (1, 2, 7):
        sizes = [unfolded(system, y)[..., s:, :] - unfolded(system, y)[..., :-s, :] for y in x]
        square = [np.mean(np.sum(d * d, axis=-1), axis=-1) for d in sizes]
        found[f"R2({s})"] = [ob.mean_with_error(one) for one in square]
    for name, (one, two) in found.items():
        print(f"{name:<30}{one.value:.5f} ± {one.error:.5f}  {two.value:.5f} ± {two.error:.5f}")
        assert abs(one.value - two.value) <= 4 * np.hypot(one.error, two.error), name
    assert 4 * found["pressure"][0].error < 0.03 * found["pressure"][0].value


def unfolded(system, x):
    """Return chains (frames, chains, beads, 3) from positions whose beads may be wrapped."""
    steps = np.diff(system.split(x)[0], axis=-2)
    steps -= system.box * np.round(steps / system.box)
    return np.cumsum(np.pad(steps, ((0, 0), (0, 0), (1, 0), (0, 0))), axis=-2)
