"""Molecules in solvent: systems of OpenMM Systems, their forces and their motion."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest

import fixman as fx
from dipeptide import FIELD, TEXT, kinetic, temperatures, wet_dipeptide

OH, HH = 0.09572, 0.15139  # nm, of water
EDGE = 1.8  # nm
quick = pytest.mark.filterwarnings("ignore:dt=.* is long:RuntimeWarning")


def solution(mm, words, edge=EDGE):
    """Return a System and positions of molecules on a lattice, one for each letter.

    W and w are waters O-H-H and H-O-H, V one with a virtual site, I an ion, B butane of four beads.
    """
    system, x = mm.System(), []
    springs, angles = mm.HarmonicBondForce(), mm.HarmonicAngleForce()
    turns, pairs = mm.PeriodicTorsionForce(), mm.NonbondedForce()
    nodes = itertools.product(0.6 * np.arange(3) + 0.1, repeat=3)
    up = np.sqrt(OH**2 - HH**2 / 4)
    water = np.array([[0, 0, 0], [up, HH / 2, 0], [up, -HH / 2, 0]])
    for word, node in zip(words, nodes, strict=False):
        first = system.getNumParticles()
        if word == "I":
            shape, kinds, held = np.zeros((1, 3)), [(22.99, 1.0)], ()
        elif word == "B":
            shape = 0.153 * np.array([[0, 0, 0], [1, 0, 0], [1.3, 0.95, 0], [1.3, 1.3, 0.94]])
            kinds, held = [(15.0, 0.1), (14.0, -0.1), (14.0, -0.1), (15.0, 0.1)], ()
            for i in range(3):
                springs.addBond(first + i, first + i + 1, 0.153, 2e5)
            for i in range(2):
                angles.addAngle(first + i, first + i + 1, first + i + 2, 1.9, 500.0)
            turns.addTorsion(*range(first, first + 4), 3, 0.0, 6.0)
        else:
            order = [1, 0, 2] if word == "w" else [0, 1, 2]
            shape = water[order]
            kinds = [(15.999, -0.8) if k == 0 else (1.008, 0.4) for k in order]
            held = [(0, 1), (1, 2), (0, 2)]
        for mass, charge in kinds:
            system.addParticle(mass)
            light = mass < 2.0
            pairs.addParticle(charge, 0.1 if light else 0.32, 0.0 if light else 0.6)
        x += list(shape + node)
        for i, j in held:
            length = float(np.linalg.norm(shape[i] - shape[j]))
            system.addConstraint(first + i, first + j, length)
        if word == "V":
            site = system.addParticle(0.0)
            system.setVirtualSite(
                site, mm.ThreeParticleAverageSite(first, first + 1, first + 2, 0.8, 0.1, 0.1)
            )
            pairs.addParticle(-0.8, 0.1, 0.0)
            pairs.setParticleParameters(first, 0.0, 0.32, 0.6)
            x.append([0.8, 0.1, 0.1] @ shape + node)
        members = range(first, system.getNumParticles())
        for i, j in itertools.combinations(members, 2):
            pairs.addException(i, j, 0.0, 0.1, 0.0)
    pairs.setNonbondedMethod(mm.NonbondedForce.PME)
    pairs.setCutoffDistance(0.8)
    pairs.setUseSwitchingFunction(True)
    pairs.setSwitchingDistance(0.6)
    pairs.setEwaldErrorTolerance(1e-5)
    for force in (springs, angles, turns, pairs):
        system.addForce(force)
    system.setDefaultPeriodicBoxVectors(*np.diag([edge] * 3).tolist())
    return system, np.array(x)


def test_kinds_are_molecules_rigid_waters_and_ions_in_order(mm, room):
    given, x = solution(mm, "WWIBWVwWI")
    system = room.system(given)
    assert [(chain.n, many) for chain, many in system.kinds] == [
        (3, 2), (1, 1), (4, 1), (3, 2), (3, 1), (3, 1), (1, 1),
    ]  # fmt: skip
    moving = [k for k in range(given.getNumParticles()) if given.getParticleMass(k)._value]
    assert system.masses.tolist() == [given.getParticleMass(k)._value for k in moving]
    assert system.box.tolist() == [EDGE] * 3
    (water, _), (ion, _), (butane, _), _, (turned, _), *_ = system.kinds
    assert water.hard.size == 3
    assert {row.kind for row in (water.coordinates[k] for k in water.hard)} == {"length"}
    assert ion.hard.size == 0
    assert butane.hard.size == 5  # one torsion turns
    assert turned != water
    parts = system.split(x[moving])
    for (chain, _), part in zip(system.kinds, parts, strict=True):
        if chain.n == 3:
            lengths = np.linalg.norm(part[:, [0, 1, 0]] - part[:, [1, 2, 2]], axis=-1)
            assert np.sort(lengths) == pytest.approx(np.tile([OH, OH, HH], (len(part), 1)))
    light = room.system(given, "h-bonds")  # without hydrogens in butane
    assert [chain.hard.size for chain, _ in light.kinds] == [3, 0, 0, 3, 3, 3, 0]


def test_forces_are_those_of_openmm(mm, room):
    given, x = solution(mm, "WVIBwWV")
    platform = mm.Platform.getPlatformByName("Reference")
    context = mm.Context(given, mm.VerletIntegrator(0.001), platform)
    context.setPositions(x)
    state = context.getState(energy=True, forces=True)
    moving = [k for k in range(len(x)) if given.getParticleMass(k)._value]
    system, forces = room.system(given), room.Forces(given, "Reference")
    bound = fx.potentials.bind(system, forces)
    assert bound.energy(x[moving]) == pytest.approx(state.getPotentialEnergy()._value, rel=1e-12)
    pull = state.getForces(asNumpy=True)._value[moving]
    np.testing.assert_allclose(bound.force(x[moving]), pull, atol=1e-9)  # but for rounded sites
    # images of whole molecules
    away = x[moving] + EDGE * np.array([3, 0, -2])[system.molecules() % 3][:, None]
    np.testing.assert_allclose(bound.force(away), bound.force(x[moving]), atol=1e-6)
    with pytest.raises(ValueError, match=r"x has 5: one chain, or fixman\.io\.openmm\.system"):
        forces.energy(x[:5])


@pytest.mark.thorough
@quick
def test_newton_conserves_energy_in_solvent(mm, room):
    """To second order in dt, rigid waters, an ion, virtual sites and a molecule that turns."""
    given, x = solution(mm, "WVIBwWVWWIWW")
    x = x[[given.getParticleMass(k)._value > 0 for k in range(len(x))]]
    system, forces = room.system(given), room.Forces(given, "Reference")
    warm = fx.Langevin(0.002, kT=room.kT(200), friction=20.0, potential=forces)
    start = fx.simulate(system, x, warm, 200, every=200, rng=2)
    errors = []
    for dt in (0.004, 0.002):
        run = fx.simulate(
            system, start.x[-1], fx.Newton(dt, potential=forces), round(0.2 / dt), every=2,
            v0=start.v[-1],
        )  # fmt: skip
        kinetic = 0.5 * np.einsum("k,fka,fka->f", system.masses, run.v[:, 0], run.v[:, 0])
        errors.append(np.std(forces.energy(run.x[:, 0]) + kinetic))
    assert errors[0] < 0.02 * np.std(kinetic)
    assert 2.5 < errors[0] / errors[1] < 6.0
    for (chain, _), before, after in zip(
        system.kinds, system.split(x), system.split(run.x[-1, 0]), strict=True
    ):
        if chain.hard.size:
            turned = chain.hard_values(after) - chain.hard_values(before)
            np.testing.assert_allclose(np.sin(turned), 0.0, atol=1e-9)


@quick
def test_runs_in_solvent_go_on_bit_for_bit(mm, room, tmp_path):
    given, x = solution(mm, "WIBW")
    system = room.system(given)

    def stepper():
        forces = room.Forces(given, "Reference")
        return fx.Langevin(0.002, kT=2.5, ensemble="stiff", potential=forces)

    two = np.stack([x, x])
    whole = fx.simulate(system, two, stepper(), 40, every=10, rng=3, workers=2)
    fx.simulate(system, two, stepper(), 20, every=10, rng=3, out=tmp_path / "run")
    again = fx.resume(tmp_path / "run", 40, stepper=stepper())
    assert np.array_equal(again.x, whole.x)
    assert np.array_equal(again.v, whole.v)
    assert fx.load_run(tmp_path / "run").system == system


def test_what_has_no_system_is_named(mm, room):
    given, _ = solution(mm, "WB")
    given.setDefaultPeriodicBoxVectors([EDGE, 0, 0], [0.3, EDGE, 0], [0, 0, EDGE])
    with pytest.raises(ValueError, match=r"the box of the System is triclinic, .*boxShape='cube'"):
        room.system(given)
    mixed = mm.System()
    for mass in (12.0, 23.0, 12.0):
        mixed.addParticle(mass)
    mixed.addConstraint(0, 2, 0.15)
    with pytest.raises(ValueError, match="particle 0 and particle 2 are of one molecule, and part"):
        room.system(mixed)
    with pytest.raises(ValueError, match="a mask is for the chain of a single molecule"):
        room.system(given, [True, False])
    with pytest.raises(TypeError, match=r"expected an openmm\.System, got list"):
        room.system([])


def test_open_space_and_one_molecule(mm, room):
    given = mm.System()
    for _ in range(4):
        given.addParticle(12.0)
    for i in range(3):
        given.addConstraint(i, i + 1, 0.15)
    system = room.system(given, ("length",))
    assert system == fx.System(fx.Chain.linear(4, masses=12.0))
    assert system.box is None


# --- a peptide in water ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wet(mm, room):
    """Alanine dipeptide in 230 waters, its System, forces and a state near 300 K."""
    given, x = wet_dipeptide(mm, 2.0, 0.8)
    system, forces = room.system(given), room.Forces(given, "CPU")
    stepper = fx.Langevin(0.004, kT=room.kT(300), friction=20.0, potential=forces)
    run = fx.simulate(system, x, stepper, 500, every=500, rng=1)
    return system, forces, run.x[-1], run.v[-1]


@pytest.mark.thorough
@quick
def test_newton_conserves_energy_in_water(wet):
    """At 4 and 8 fs, rigid waters and a peptide that turns, with particle-mesh Ewald."""
    system, forces, x, v = wet
    errors = []
    for dt in (0.004, 0.008):
        run = fx.simulate(
            system, x, fx.Newton(dt, potential=forces), round(0.6 / dt), every=3, v0=v
        )
        moving = kinetic(system, run.v[:, 0])
        errors.append(np.std(forces.energy(run.x[:, 0]) + moving))
        assert errors[-1] < 0.5 * np.std(moving)
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.thorough
@quick
@pytest.mark.parametrize("dt", [0.004, 0.008])
def test_temperatures_in_water(room, wet, dt):
    """Translation and rotation of waters and the peptide have kT, within four standard errors."""
    system, forces, x, v = wet
    kT = room.kT(300)
    stepper = fx.Langevin(dt, kT=kT, friction=20.0, potential=forces)
    run = fx.simulate(system, x, stepper, round(2.4 / dt), every=5, v0=v, rng=2)
    found = temperatures(system, forces, run[len(run) // 6 :], dt)
    for series in found.T:
        mean, error = fx.observables.mean_with_error(series)
        assert abs(mean - kT) < 4.0 * error
    assert np.std(found, axis=0).max() < kT  # so that the errors say something


@pytest.mark.thorough
def test_torsions_are_those_of_openmm_with_the_same_constraints(mm, room):
    """φ and ψ near β, with bonds of hydrogens held, within four standard errors of OpenMM's."""
    beads = np.array([(4, 6, 8, 14), (6, 8, 14, 16)])
    pdb = mm.app.PDBFile(io.StringIO(TEXT))
    field = mm.app.ForceField(*FIELD)  # implicit solvent
    given = field.createSystem(pdb.topology, constraints=mm.app.HBonds, removeCMMotion=False)
    bias = mm.CustomTorsionForce("100*(1-cos(theta-about))")
    bias.addPerTorsionParameter("about")
    for four, about in zip(beads.tolist(), (-1.6, 2.4), strict=True):
        bias.addTorsion(*four, [about])
    given.addForce(bias)
    integrator = mm.LangevinMiddleIntegrator(300, 10, 0.002)
    integrator.setConstraintTolerance(1e-8)
    integrator.setRandomNumberSeed(1)
    platform, one = mm.Platform.getPlatformByName("CPU"), {"Threads": "1"}
    context = mm.Context(given, integrator, platform, one)
    context.setPositions(pdb.positions)
    mm.LocalEnergyMinimizer.minimize(context)
    context.setVelocitiesToTemperature(300, 1)
    frames = []
    for _ in range(1500):
        integrator.step(10)
        frames.append(context.getState(positions=True).getPositions(asNumpy=True)._value)
    chain, forces = room.chain(given, "h-bonds"), room.Forces(given, "CPU")
    stepper = fx.Langevin(0.002, kT=room.kT(300), friction=10.0, potential=forces)
    run = fx.simulate(chain, frames[150], stepper, 15000, every=10, rng=3)
    ours = fx.observables.torsions(chain, run.x[150:, 0], beads=beads)
    theirs = fx.observables.torsions(chain, np.array(frames[150:]), beads=beads)
    for one, other in zip(ours.T, theirs.T, strict=True):
        for of in (np.cos, np.sin):
            (mean, error), (same, also) = map(fx.observables.mean_with_error, (of(one), of(other)))
            assert abs(mean - same) < 4.0 * np.hypot(error, also)
            assert np.hypot(error, also) < 0.03
