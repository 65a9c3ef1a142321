"""Systems of chains, in open space and in a box, against dense oracles and closed forms."""

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fixman as fx
from fixman.kernels.compiler.lanes import LANES
from fixman.potentials import WCA, Bending, LennardJones, bind


def start(system, seed=1, **options):
    return fx.push_off(system, fx.random_walks(system, rng=seed, **options)[0], rng=seed)


@pytest.fixture(scope="module")
def small():
    """Make a melt of few chains of two kinds, without overlaps."""
    kinds = [(fx.Chain.linear(5, masses=[1, 2, 1, 3, 1]), 9), (fx.Chain.ring(6), 4)]
    system = fx.System(kinds, box=(5.0, 5.5, 6.0))
    return system, start(system)


# --- forces against all pairs ---------------------------------------------------------------------


def all_pairs(system, term, x):
    """Return energy and forces of a pair potential by a double loop over beads and images."""
    cutoff, shift, slope = term.cut()
    sigma = np.broadcast_to(term.sigma, system.n)
    epsilon = np.broadcast_to(term.epsilon, system.n)
    bonded = {tuple(sorted(pair)) for pair in system.bonds().tolist()}
    energy, forces = 0.0, np.zeros_like(x)
    for i in range(system.n):
        for j in range(i):
            if (j, i) in bonded:
                continue
            d = x[i] - x[j]
            if system.box is not None:
                d = d - system.box * np.round(d / system.box)
            s, e = (sigma[i] + sigma[j]) / 2, np.sqrt(epsilon[i] * epsilon[j])
            r = np.linalg.norm(d) / s
            if r < cutoff:
                energy += e * (4 * (r**-12 - r**-6) - shift - slope * (r - cutoff))
                pull = e * (24 * (2 * r**-13 - r**-7) + slope) / s
                forces[i] += pull * d / np.linalg.norm(d)
                forces[j] -= pull * d / np.linalg.norm(d)
    return energy, forces


TERMS = {
    "wca": WCA(),
    "lj": LennardJones(epsilon=0.7, sigma=0.9, cutoff=2.0),
    "shifted": LennardJones(cutoff=2.1, shift="force"),
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("box", [None, (5.0, 5.5, 6.0)])
def test_pair_forces(small, name, box):
    system, x = small
    system = fx.System(system.kinds, box=box)
    energy, forces = all_pairs(system, TERMS[name], x)
    bound = bind(system, TERMS[name])
    scale = np.abs(forces).max()
    np.testing.assert_allclose(bound.force(x), forces, atol=1e-12 * scale)
    np.testing.assert_allclose(bound.energy(x), energy, rtol=1e-12)
    # beads far out of the box, and a second frame with the neighbours of the first
    if box is not None:
        away = x + np.array(box) * np.random.default_rng(1).integers(-3, 4, (system.n, 1))
        np.testing.assert_allclose(bound.force([x, away])[1], forces, atol=1e-11 * scale)


def test_unlike_beads_and_the_plane():
    chain = fx.Chain.linear(4, dim=2)
    system = fx.System(chain, 12, box=9.0)
    sigma = np.random.default_rng(2).uniform(0.6, 1.2, system.n)
    term = LennardJones(epsilon=sigma, sigma=sigma, cutoff=2.0)
    x = np.random.default_rng(3).uniform(0, 9, (system.n, 2))
    energy, forces = all_pairs(system, term, x)
    np.testing.assert_allclose(bind(system, term).force(x), forces, rtol=1e-9)
    np.testing.assert_allclose(bind(system, term).energy(x), energy, rtol=1e-9)


def test_terms_inside_of_chains_and_own_ones(small):
    system, x = small

    class Own:
        def energy(self, x):
            return 0.5 * float(np.sum(x * x))

        def force(self, x):
            return -x

    bound = bind(system, Bending(2.0) + WCA() + Own())
    parts = [bind(c, Bending(2.0)) for c, _ in system.kinds]
    inside = system.join([b.force(y) for b, y in zip(parts, system.split(x), strict=True)])
    np.testing.assert_allclose(
        bound.force(x), inside + bind(system, WCA()).force(x) - x, atol=1e-12 * 100
    )
    step = 1e-6 * np.random.default_rng(0).normal(size=x.shape)
    slope = (bound.energy(x + step) - bound.energy(x - step)) / 2
    np.testing.assert_allclose(slope, -np.sum(bound.force(x) * step), rtol=1e-6)


# --- motion ---------------------------------------------------------------------------------------

STEPPERS = {
    "newton": fx.Newton(0.004, kT=1.0),
    "langevin": fx.Langevin(0.004, ensemble="stiff"),
    "brownian": fx.Brownian(1e-4, ensemble="stiff"),
    "liu": fx.Brownian(1e-4, scheme="liu"),
}


def with_potential(stepper, potential):
    return type(stepper).from_parameters(stepper.parameters(), potential)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=[pytest.mark.thorough] * (n not in ("newton", "langevin")))
        for n in STEPPERS
    ],
)
def test_one_chain_is_the_chain(name):
    chain = fx.Chain.linear(7)
    x0 = fx.random_walks(chain, 3, angles=0.4, rng=1)
    stepper = with_potential(STEPPERS[name], Bending(1.0) + LennardJones())
    one = fx.simulate(chain, x0, stepper, 40, every=20, rng=2)
    same = fx.simulate(fx.System(chain), x0, stepper, 40, every=20, rng=2)
    np.testing.assert_array_equal(one.x, same.x)
    np.testing.assert_array_equal(one.v, same.v)


def test_chains_far_apart_are_the_chains():
    chain, many = fx.Chain.linear(5), LANES + 1
    walks = fx.random_walks(chain, many, rng=1) + 100.0 * np.arange(many)[:, None, None]
    system = fx.System(chain, many)
    x0 = system.split(fx.push_off(system, walks.reshape(-1, 3), rng=1))[0]
    stepper = fx.Langevin(0.005, ensemble="stiff", potential=WCA())
    one = fx.simulate(chain, x0, stepper, 40, every=40, rng=2)
    joined = fx.simulate(system, x0.reshape(-1, 3), stepper, 40, every=40, rng=2)
    np.testing.assert_allclose(system.split(joined.x[:, 0])[0], one.x, atol=1e-12 * 1e3)


def test_workers_and_restarts_change_no_bit(small, tmp_path):
    system, x = small
    stepper = fx.Langevin(0.005, potential=WCA() + Bending(1.0))
    x0 = np.stack([x, x])
    whole = fx.simulate(system, x0, stepper, 60, every=20, rng=3)
    path = tmp_path / "melt.fixman"
    fx.simulate(system, x0, stepper, 20, every=20, rng=3, workers=2, out=path)
    resumed = fx.resume(path, steps=60, workers=3)
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.v, whole.v)
    assert fx.load_run(path).system == system
    with pytest.raises(TypeError, match="no one chain"):
        _ = resumed.chain


def test_newton_conserves_momentum_and_energy_to_second_order(small):
    system, x = small
    potential = LennardJones(cutoff=2.3, shift="force")
    v0 = fx.simulate(system, x, fx.Langevin(0.004, potential=potential), 1, rng=1).v[-1, 0]
    v0 -= np.average(v0, axis=0, weights=system.masses)
    worst = []
    for dt in (0.004, 0.002):
        run = fx.simulate(
            system, x, fx.Newton(dt, potential=potential), round(0.4 / dt), every=10, v0=v0
        )
        kinetic = 0.5 * np.sum(system.masses[:, None] * run.v[:, 0] ** 2, axis=(1, 2))
        energy = bind(system, potential).energy(run.x[:, 0]) + kinetic
        worst.append(np.abs(energy - energy[0]).max())
        momentum = np.einsum("k,fkd->fd", system.masses, run.v[:, 0])
        assert np.abs(momentum).max() < 1e-10
    assert 3.0 < worst[0] / worst[1] < 5.5
    # a run that leaves the box has the forces of its images
    assert np.abs(run.x[-1, 0]).max() > 5.0


@pytest.mark.thorough
def test_a_melt_keeps_its_energy():
    """Newton in 100 chains of 20 beads, at the recommended dt and at half of it.

    WCA has jumps in its second derivative, so each energy walks at random; the mean is a drift.
    """
    dt, edge = 0.005, (100 * 20 / 0.85) ** (1 / 3)
    system = fx.System(fx.Chain.linear(20), 100, box=edge)
    walks = fx.random_walks(system, 4, rng=1)
    x = np.array([fx.push_off(system, walk, rng=1) for walk in walks])
    warm = fx.simulate(system, x, fx.Langevin(dt, potential=WCA()), 4000, every=4000, rng=1)
    v0 = warm.v[-1] - np.average(warm.v[-1], axis=-2, weights=system.masses)[:, None]
    spreads = []
    for step, span in ((dt, 100), (dt / 2, 5)):
        stepper = fx.Newton(step, potential=WCA())
        run = fx.simulate(system, warm.x[-1], stepper, round(span / step), every=50, v0=v0)
        kinetic = 0.5 * np.einsum("k,frkd->fr", system.masses, run.v**2)
        energy = bind(system, WCA()).energy(run.x) + kinetic
        spreads.append(np.sqrt(np.mean((energy[run.times <= 5] - energy[0]) ** 2)))
        drift = 1000 * step * np.polyfit(run.times, energy, 1)[0] / system.n
        momentum = np.abs(np.einsum("k,frkd->frd", system.masses, run.v)).max()
        print(f"dt {step}: energy {drift} kT a bead in 1000 steps, {spreads[-1]:.4f} kT rms")
        assert abs(drift.mean()) < 2e-5  # four standard errors
        assert momentum < 1e-9
    assert 3.0 < spreads[0] / spreads[1] < 5.5
    bonds = np.diff(system.split(run.x[-1])[0], axis=-2)
    np.testing.assert_allclose(np.linalg.norm(bonds, axis=-1), 1.0, rtol=1e-10)
    wrapped = np.diff(system.split(np.mod(run.x[-1], edge))[0], axis=-2)
    assert np.abs(wrapped).max() > edge / 2  # chains cross the edges of the box


def test_hard_values_stay(small):
    system, x = small
    run = fx.simulate(system, x, fx.Langevin(0.005, potential=WCA()), 50, every=50, rng=1)
    for (chain, _), before, after in zip(
        system.kinds, system.split(x), system.split(run.x[-1, 0]), strict=True
    ):
        np.testing.assert_allclose(chain.hard_values(after), chain.hard_values(before), rtol=1e-11)


# --- statistics -----------------------------------------------------------------------------------


def test_ideal_chains_in_a_box_are_single_chains():
    chain = fx.Chain.linear(3)
    system = fx.System(chain, 400, box=4.0)
    x0 = fx.random_walks(system, rng=1)[0]
    for ensemble, exact in (("rigid", fx.analytic.mean_square_cosines(2)[0]), ("stiff", 1 / 3)):
        run = fx.simulate(system, x0, fx.Langevin(0.1, ensemble=ensemble), 2000, every=40, rng=2)
        u = np.diff(system.split(run.x[10:, 0])[0], axis=-2)
        square = np.mean(np.sum(u[..., 0, :] * u[..., 1, :], axis=-1) ** 2, axis=0)
        error = square.std() / np.sqrt(square.size)
        assert abs(square.mean() - exact) < 4 * error


def test_pressure_is_the_derivative_of_the_free_energy(small):
    """−∂A/∂V of one configuration, its chains moved apart as they are."""
    system, x = small
    potential = LennardJones(cutoff=2.0)
    step = 1e-6
    energies = []
    for scale in (1 + step, 1 - step):
        grown = fx.System(system.kinds, box=scale * system.box)
        parts = [
            y + (scale - 1) * np.average(y, axis=-2, weights=c.masses)[:, None]
            for (c, _), y in zip(system.kinds, system.split(x), strict=True)
        ]
        energies.append(bind(grown, potential).energy(system.join(parts)))
    slope = (energies[0] - energies[1]) / (2 * step) / (3 * system.volume)
    ideal = system.chains * 1.5 / system.volume
    np.testing.assert_allclose(bind(system, potential).pressure(x, 1.5), ideal - slope, rtol=1e-6)


# --- files ----------------------------------------------------------------------------------------


def test_files(small, tmp_path, peer):
    """GSD wraps beads and keeps images, HDF5 keeps every digit, a Universe has molecules."""
    system, x = small
    run = fx.simulate(system, x + 7.0, fx.Langevin(0.004, potential=WCA()), 4, every=2, rng=1)
    gsd = peer("gsd.hoomd")
    from fixman.io.gsd import write_gsd
    from fixman.io.hdf5 import read_hdf5, write_hdf5

    write_gsd(run, tmp_path / "melt.gsd")
    with gsd.open(tmp_path / "melt.gsd") as file:
        frame = file[-1]
    np.testing.assert_allclose(frame.configuration.box, [*system.box, 0, 0, 0])
    assert frame.configuration.step == 4
    assert np.abs(frame.particles.position / system.box).max() <= 0.5 + 1e-6
    back = frame.particles.position + frame.particles.image * system.box
    np.testing.assert_allclose(back, run.x[-1, 0], atol=1e-5)
    assert len(set(frame.particles.body)) == system.chains
    np.testing.assert_array_equal(frame.bonds.group, system.bonds())
    assert len(system.bonds()) == frame.constraints.N
    write_hdf5(run, tmp_path / "melt.h5")
    again = read_hdf5(tmp_path / "melt.h5")
    assert again.system == system
    np.testing.assert_array_equal(again.x, run.x)
    peer("MDAnalysis")
    universe = run.universe()
    assert len(universe.residues) == system.chains
    np.testing.assert_allclose(universe.dimensions[:3], system.box)
    np.testing.assert_allclose(universe.trajectory[-1].positions, run.x[-1, 0], atol=1e-5)


# --- refusals -------------------------------------------------------------------------------------


def test_refusals(small):
    system, x = small
    chain = system.kinds[0][0]
    with pytest.raises(ValueError, match="right angles"):
        fx.System(chain, box=np.eye(3))
    with pytest.raises(ValueError, match="fixed base"):
        fx.System(fx.Chain.linear(3, base="fixed"), box=3.0)
    with pytest.raises(ValueError, match="two cutoffs"):
        bind(fx.System(chain, box=4.0), LennardJones())
    with pytest.raises(ValueError, match="open space"):
        fx.random_walks(fx.System(chain, 2))
    crowded = fx.System(fx.Chain.linear(4, dim=2), 30, box=5.0)
    with pytest.raises(fx.ConstraintSolveError, match=r"a density of 4\.8"):
        start(crowded)
    narrow = fx.System(chain, 20, box=2.0)
    with pytest.raises(fx.ConstraintSolveError, match=r"density of 12\.5,.*packed beads 1\.41"):
        fx.push_off(narrow, fx.random_walks(narrow, rng=1)[0])
    with pytest.raises(ValueError, match=r"edge is 2, at 12\.5 beads per volume"):
        bind(narrow, WCA())
    y = copy.deepcopy(x)
    y[20:25] = y[:5]
    with pytest.raises(fx.SingularCoordinateError, match="bead 0 of chain 0 and bead 0 of chain 4"):
        fx.simulate(system, y, fx.Langevin(0.01, potential=WCA()), 1)


def test_json_and_words(small):
    system, _ = small
    again = fx.System.from_json(system.to_json())
    assert again == system
    assert hash(again) == hash(system)
    assert (
        repr(system) == "<System: 9 chains of 5 beads, 4 chains of 6 beads, 3-D, box 5 x 5.5 x 6>"
    )
    assert system.place(46) == "bead 1 of chain 9"


def test_a_flow_is_refused(small):
    system, x = small
    with pytest.raises(ValueError, match="flow"):
        fx.simulate(system, x, fx.Brownian(1e-3, flow=fx.flows.shear(1.0)), 1)


def test_a_chain_far_off_costs_little():
    """Wide gaps of open space are made narrow: cells stay about as many as beads."""
    system = fx.System(fx.Chain.linear(20), 200)
    x = np.random.default_rng(1).uniform(0, 16, (system.n, 3))
    x[:20] += 1e4
    x[20:40] -= 1e6
    bound = bind(system, LennardJones())
    near = bind(fx.System(fx.Chain.linear(20), 198), LennardJones()).force(x[40:])
    np.testing.assert_array_equal(bound.force(x)[40:], near)
    assert np.diff(bound.pairs().table.starts).max() < 100


def test_threads_share_one_bound_potential(small):
    system, x = small
    bound = bind(system, WCA())
    frames = [x + 0.01 * k for k in range(8)]
    wanted = [bound.force(frame) for frame in frames]
    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(bound.force, frames), wanted, strict=True):
            np.testing.assert_array_equal(found, right)


def test_fixed_bases_keep_their_bonds():
    chain = fx.Chain.linear(3, base="fixed")
    system = fx.System(chain, 2)
    x0 = np.concatenate([fx.random_walks(chain, rng=1)[0], fx.random_walks(chain, rng=2)[0]])
    v = fx.simulate(system, x0, fx.Newton(0.01, kT=1.0), 1, rng=1).v[0, 0]
    along = np.sum(system.split(v)[0][:, 0] * system.split(x0)[0][:, 0], axis=-1)
    assert np.abs(along).max() < 1e-12


def test_errors_of_a_step_name_chain_and_bead(small):
    system, x = small

    class Late:
        """Fail, or pull, at the bead 7 of the second replica, after some calls."""

        def __init__(self, value):
            self.value, self.calls = value, 0

        def energy(self, x):
            return 0.0

        def force(self, x):
            self.calls += 1
            found = np.zeros_like(x)
            if self.calls > 8 and self.calls % 2 == 0:
                found[7] = self.value, 0.0, 0.0
            return found

    for value, kind in ((np.nan, fx.FrameError), (1e9, fx.ConstraintSolveError)):
        stepper = fx.Langevin(0.004, potential=WCA() + fx.potentials.Sum((Late(value),)))
        with pytest.raises(kind, match=r"(bead 2 of )?chain 1.* replica 1") as caught:
            fx.simulate(system, np.stack([x, x]), stepper, 20, rng=1)
        assert caught.value.beads == (7,)
        assert caught.value.replica == 1


def test_the_skin_changes_no_bit(small):
    """Tables of any skin give the same forces, and the skin follows the length of steps."""
    system, x = small
    wanted = bind(system, WCA()).force(x)
    skins = []
    for step in (1e-2, 2e-3):
        bound = bind(fx.System(system.kinds, box=2.0 * system.box), WCA())
        y = x.copy()
        for _ in range(400):
            y += step * np.sin(40.0 * x)
            bound.force(y)
        skins.append(bound.pairs().skin)
        bound = bind(system, WCA())
        bound.pairs().skin = skins[-1]
        np.testing.assert_array_equal(bound.force(x), wanted)
    assert skins[1] < 0.75 * skins[0]
