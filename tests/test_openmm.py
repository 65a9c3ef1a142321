"""The Fixman force inside OpenMM: energies, forces, what gets a term, and what is refused."""

from __future__ import annotations

import io
import itertools
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fixman as fx

KELVIN = 300.0
KT = 8.31446261815324e-3 * KELVIN  # kJ/mol
BOND = 0.15  # nm


@pytest.fixture(scope="module")
def metric_force(mm):
    from fixman.io import openmm

    return openmm.metric_force


@pytest.fixture
def rng():
    return np.random.default_rng(8)


def system_of(mm, masses, constraints):
    """Return a System; constraints are (i, j) or (i, j, distance)."""
    system = mm.System()
    for mass in masses:
        system.addParticle(float(mass))
    for i, j, *distance in constraints:
        system.addConstraint(i, j, *(distance or [BOND]))
    return system


def bare_context(mm, system, x, integrator=None):
    """Return a Context that was told no temperature."""
    platform = mm.Platform.getPlatformByName("Reference")
    context = mm.Context(system, integrator or mm.VerletIntegrator(0.001), platform)
    context.setPositions(x)
    return context


def context_of(mm, system, x, integrator=None):
    """Return a Context at the temperature of its thermostat, or at 300 K."""
    from fixman.io.openmm import set_temperature

    context = bare_context(mm, system, x, integrator)
    set_temperature(context, KELVIN if integrator is None else None)
    return context


def evaluate(context, x=None):
    """Potential energy in kJ/mol and forces in kJ/mol/nm."""
    if x is not None:
        context.setPositions(x)
    state = context.getState(energy=True, forces=True)
    return state.getPotentialEnergy()._value, state.getForces(asNumpy=True)._value


def linear(first, n):
    return list(itertools.pairwise(range(first, first + n)))


def coil(rng, n, copies=()):
    """Return random walks of bonds of about the constrained length."""
    steps = rng.normal(size=(*copies, n, 3))
    steps *= BOND / np.linalg.norm(steps, axis=-1, keepdims=True)
    return np.cumsum(steps, axis=-2)


def dense_potential(x, masses, constraints):
    """½ ln det (B M⁻¹ Bᵀ) of distances, by slogdet; coordinate by coordinate."""
    B = np.zeros((len(constraints), x.size))
    for row, (i, j) in enumerate(constraints):
        u = (x[j] - x[i]) / np.linalg.norm(x[j] - x[i])
        B[row, 3 * j : 3 * j + 3] = u
        B[row, 3 * i : 3 * i + 3] = -u
    sign, value = np.linalg.slogdet(B / np.repeat(masses, 3) @ B.T)
    assert sign == 1
    return 0.5 * value


METHYLENE = [(0, 1), (0, 2), (1, 2)]  # two hydrogens at one carbon, with their distance
WHEEL = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4)]
SHAPES = {
    "trimer": (3, linear(0, 3)),
    "chain": (9, linear(0, 9)),
    "star": (5, [(0, 2), (1, 2), (3, 2), (4, 2)]),
    "ring with a tail": (5, WHEEL),
    "hinged triangles": (5, [*METHYLENE, (2, 3), (3, 4), (2, 4)]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_energy_is_that_of_the_dense_determinant(mm, metric_force, rng, shape):
    n, constraints = SHAPES[shape]
    masses, x = rng.uniform(1, 30, n), rng.normal(size=(n, 3))
    system = system_of(mm, masses, constraints)
    system.addForce(metric_force(system))
    energy, _ = evaluate(context_of(mm, system, x))
    assert energy == pytest.approx(KT * dense_potential(x, masses, constraints), rel=1e-11)


@pytest.mark.parametrize("shape", SHAPES)
def test_forces_are_the_gradient_of_the_energy(mm, metric_force, rng, shape):
    n, constraints = SHAPES[shape]
    masses, x = rng.uniform(1, 30, n), rng.normal(size=(n, 3))
    system = system_of(mm, masses, constraints)
    system.addForce(metric_force(system))
    context = context_of(mm, system, x)
    _, forces = evaluate(context)
    numbers, h = np.empty((n, 3)), 1e-5
    for k in np.ndindex(n, 3):
        step = np.zeros((n, 3))
        step[k] = h
        numbers[k] = (evaluate(context, x - step)[0] - evaluate(context, x + step)[0]) / (2 * h)
    np.testing.assert_allclose(forces, numbers, atol=1e-6 * np.abs(forces).max())
    np.testing.assert_allclose(forces.sum(axis=0), 0, atol=1e-12 * np.abs(forces).sum())
    torque = np.cross(x, forces).sum(axis=0)
    np.testing.assert_allclose(torque, 0, atol=1e-12 * np.abs(forces).sum())


def test_equal_molecules_share_a_chain_wherever_their_particles_are(mm, metric_force, rng):
    # Two kinds of chain, scattered over the particles, with free ones between.
    place = rng.permutation(40)
    trimers, tetramers = np.sort(place[:15].reshape(5, 3)), np.sort(place[15:35].reshape(5, 4))
    masses = np.full(40, 12.0)
    masses[tetramers[:, 0]] = 16.0
    constraints = [pair for row in trimers for pair in itertools.pairwise(row.tolist())]
    constraints += [pair for row in tetramers for pair in itertools.pairwise(row.tolist())]
    constraints = [constraints[k] for k in rng.permutation(len(constraints))]
    x = rng.normal(size=(40, 3))
    system = system_of(mm, masses, constraints)
    force = metric_force(system)
    assert sorted(force.getParticles()) == sorted(place[:35].tolist())
    system.addForce(force)
    energy, forces = evaluate(context_of(mm, system, x))
    expected = np.zeros((40, 3))
    potential = 0.0
    for rows, n in ((trimers, 3), (tetramers, 4)):
        chain = fx.Chain.linear(n, masses=masses[rows[0]])
        expected[rows] = fx.fixman_force(chain, x[rows], KT)
        potential += fx.fixman_potential(chain, x[rows], KT).sum()
    assert energy == pytest.approx(potential, rel=1e-13)
    np.testing.assert_allclose(forces, expected, rtol=1e-12, atol=1e-12)


# --- what gets a term ---------------------------------------------------------------------------

RIGID = {
    "bond": (2, linear(0, 2)),
    "water": (3, METHYLENE),
    "methyl with all H-C-H": (4, [*itertools.combinations(range(4), 2)]),
    "methane by ten distances, one too many": (5, [*itertools.combinations(range(5), 2)]),
    "tetrahedron and a fifth bead": (5, [*itertools.combinations(range(5), 2)][:-1]),
}


@pytest.mark.parametrize("shape", RIGID)
def test_rigid_sets_get_no_term(mm, metric_force, shape):
    n, constraints = RIGID[shape]
    trimer = [(n + i, n + j) for i, j in linear(0, 3)]
    system = system_of(mm, [12.0] * (n + 3), [*constraints, *trimer])
    force = metric_force(system)
    assert list(force.getParticles()) == [n, n + 1, n + 2]
    alone = system_of(mm, [12.0] * n, constraints)
    with pytest.raises(ValueError, match="nothing that can vary is constrained: 1 sets"):
        metric_force(alone)


def test_a_set_with_one_soft_coordinate_gets_a_term(mm, metric_force, rng):
    # Methane without one of the nine distances it needs, and with one counted twice instead.
    pairs = [*itertools.combinations(range(5), 2)][:-2]
    system = system_of(mm, [12.0, 1, 1, 1, 1], [*pairs, (0, 1)])
    force = metric_force(system)
    assert list(force.getParticles()) == [0, 1, 2, 3, 4]


def test_only_the_chain_in_a_box_of_rigid_water_gets_a_term(mm, metric_force, rng):
    app = mm.app
    field = app.ForceField("amber14/tip3p.xml")
    modeller = app.Modeller(app.Topology(), [] * mm.unit.nanometer)
    modeller.addSolvent(field, boxSize=mm.Vec3(2, 2, 2) * mm.unit.nanometer)
    system = field.createSystem(modeller.topology, nonbondedMethod=app.PME,
                                nonbondedCutoff=0.8 * mm.unit.nanometer)  # fmt: skip
    waters = system.getNumParticles()
    assert waters > 600
    assert system.getNumConstraints() == waters
    nonbonded = next(f for f in system.getForces() if isinstance(f, mm.NonbondedForce))
    n = 8
    for k in range(n):
        system.addParticle(14.0)
        nonbonded.addParticle(0.0, 0.3, 0.0)
        if k:
            system.addConstraint(waters + k - 1, waters + k, BOND)
    force = metric_force(system)
    assert list(force.getParticles()) == list(range(waters, waters + n))
    assert force.usesPeriodicBoundaryConditions()
    force.setForceGroup(5)
    system.addForce(force)
    chain = coil(rng, n) + 1.0
    x = np.concatenate([modeller.positions.value_in_unit(mm.unit.nanometer), chain])
    context = context_of(mm, system, x)
    state = context.getState(energy=True, forces=True, groups={5})
    expected = fx.fixman_potential(fx.Chain.linear(n, masses=14.0), chain, KT)
    assert state.getPotentialEnergy()._value == pytest.approx(expected, rel=1e-12)
    forces = state.getForces(asNumpy=True)._value
    assert not forces[:waters].any()
    assert np.abs(forces[waters:]).min(axis=1).max() > 0
    context.applyConstraints(1e-6)
    context.getIntegrator().step(2)


def test_virtual_sites_and_frozen_particles_are_left_alone(mm, metric_force, rng):
    system = system_of(mm, [12, 12, 12, 0, 0, 0], [(0, 1), (1, 2), (4, 5)])
    system.setVirtualSite(3, mm.TwoParticleAverageSite(0, 2, 0.5, 0.5))
    force = metric_force(system)
    assert list(force.getParticles()) == [0, 1, 2]
    system.addForce(force)
    energy, _ = evaluate(context_of(mm, system, rng.normal(size=(6, 3))))
    assert np.isfinite(energy)


@pytest.mark.parametrize("massless", [0, 2])
def test_massless_particles_cannot_be_constrained(mm, metric_force, massless):
    masses = np.full(3, 12.0)
    masses[massless] = 0.0
    with pytest.raises(ValueError, match=f"particle {massless} is bonded or .* no mass"):
        metric_force(system_of(mm, masses, linear(0, 3)))


# --- periodic boxes -----------------------------------------------------------------------------

BOXES = {
    "orthogonal": np.diag([2.0, 2.2, 1.9]),
    "triclinic": np.array([[2.0, 0, 0], [0.9, 2.1, 0], [-0.8, 1.0, 1.9]]),
}


def periodic_force(mm, particles):
    """Return a force that makes a System periodic and does nothing else."""
    force = mm.NonbondedForce()
    force.setNonbondedMethod(mm.NonbondedForce.CutoffPeriodic)
    force.setCutoffDistance(0.9)
    for _ in range(particles):
        force.addParticle(0.0, 0.1, 0.0)
    return force


@pytest.mark.parametrize("box", BOXES)
def test_wrapped_positions_are_made_whole(mm, metric_force, rng, box):
    cell = BOXES[box]
    constraints = [*linear(0, 6), (0, 6), (6, 7), *linear(8, 3)]
    system = system_of(mm, rng.uniform(1, 20, 11), constraints)
    system.setDefaultPeriodicBoxVectors(*cell)
    system.addForce(periodic_force(mm, 11))
    force = metric_force(system)
    assert force.usesPeriodicBoundaryConditions()
    system.addForce(force)
    # Bonds twice as long as they should be are still shorter than half the box.
    x = np.cumsum(rng.normal(size=(11, 3)) * 0.1, axis=0)
    context = context_of(mm, system, x)
    energy, forces = evaluate(context)
    wrapped = x + rng.integers(-2, 3, size=(11, 3)) @ cell
    again, again_forces = evaluate(context, wrapped)
    assert again == pytest.approx(energy, rel=1e-11)
    np.testing.assert_allclose(again_forces, forces, rtol=1e-9, atol=1e-9)


def test_without_a_periodic_force_the_default_box_means_nothing(mm, metric_force, rng):
    system = system_of(mm, [1.0] * 3, [(0, 1, 3.0), (1, 2, 3.0)])  # longer than OpenMM's 2 nm
    system.addForce(metric_force(system))
    assert not system.usesPeriodicBoundaryConditions()
    x = 20 * coil(rng, 3)
    energy, _ = evaluate(context_of(mm, system, x))
    assert energy == pytest.approx(fx.fixman_potential(fx.Chain.linear(3), x, KT), rel=1e-12)


# --- temperature --------------------------------------------------------------------------------


def langevin(mm, kelvin=KELVIN):
    return mm.LangevinMiddleIntegrator(kelvin, 1.0, 0.001)


def tetramer(mm, metric_force):
    system = system_of(mm, [12.0] * 4, linear(0, 4))
    system.addForce(metric_force(system))
    return system


@pytest.fixture
def set_temperature(metric_force):
    from fixman.io import openmm

    return openmm.set_temperature


def test_the_energy_is_proportional_to_the_temperature(mm, metric_force, set_temperature, rng):
    context = context_of(mm, tetramer(mm, metric_force), coil(rng, 4))
    assert context.getParameter("FixmanTemperature") == KELVIN
    energy, forces = evaluate(context)
    set_temperature(context, 2 * KELVIN * mm.unit.kelvin)
    doubled, doubled_forces = evaluate(context)
    assert doubled == pytest.approx(2 * energy, rel=1e-13)
    np.testing.assert_allclose(doubled_forces, 2 * forces, rtol=1e-13, atol=1e-13)


def custom(mm, **variables):
    """Return an integrator of one's own, Langevin-like if it draws random numbers."""
    integrator = mm.CustomIntegrator(0.001)
    for name, value in variables.items():
        integrator.addGlobalVariable(name, value)
    integrator.addComputePerDof("v", "v + dt * f / m + 0.001 * gaussian")
    integrator.addComputePerDof("x", "x + dt * v")
    integrator.addConstrainPositions()
    integrator.addConstrainVelocities()
    return integrator


def compound(mm):
    integrator = mm.CompoundIntegrator()
    integrator.addIntegrator(langevin(mm))
    integrator.addIntegrator(mm.VerletIntegrator(0.001))
    integrator.addIntegrator(mm.NoseHooverIntegrator(KELVIN, 1.0, 0.001))
    return integrator


# Integrators at 300 K, how something else moves them to 310 K, and what the refusal calls them.
THERMOSTATS = {
    "Langevin": (
        langevin,
        lambda i: i.setTemperature(310),
        "the LangevinMiddleIntegrator at 310 K",
    ),
    "Brownian": (
        lambda mm: mm.BrownianIntegrator(KELVIN, 1.0, 0.001),
        lambda i: i.setTemperature(310),
        "the BrownianIntegrator at 310 K",
    ),
    "Nosé and Hoover": (
        lambda mm: mm.NoseHooverIntegrator(KELVIN, 1.0, 0.001),
        lambda i: i.setTemperature(310),
        "chain 0 of the NoseHooverIntegrator at 310 K",
    ),
    "custom, temperature": (
        lambda mm: custom(mm, temperature=KELVIN),
        lambda i: i.setGlobalVariableByName("temperature", 310),
        "temperature of the CustomIntegrator at 310 K",
    ),
    "custom, kT": (
        lambda mm: custom(mm, kT=KT),
        lambda i: i.setGlobalVariableByName("kT", KT * 310 / KELVIN),
        "kT of the CustomIntegrator at 310 K",
    ),
    "compound": (
        compound,
        lambda i: i.getIntegrator(2).setTemperature(310),
        "chain 0 of the NoseHooverIntegrator at 310 K",
    ),
}


@pytest.mark.parametrize("kind", THERMOSTATS)
def test_a_thermostat_that_moves_alone_stops_the_run(mm, metric_force, set_temperature, rng, kind):
    make, move, text = THERMOSTATS[kind]
    context = context_of(mm, tetramer(mm, metric_force), coil(rng, 4), make(mm))
    assert context.getParameter("FixmanTemperature") == pytest.approx(KELVIN, rel=1e-12)
    integrator = context.getIntegrator()
    energy, _ = evaluate(context)
    integrator.step(3)
    move(integrator)
    with pytest.raises(mm.OpenMMException, match=f"force is at 300 K and {text}: move both"):
        integrator.step(1)
    with pytest.raises(mm.OpenMMException, match="FixmanTemperature"):
        evaluate(context)
    if kind != "compound":  # of which another is at 300 K still
        context.setParameter("FixmanTemperature", 310)  # as samplers do from their states
        integrator.step(3)
    set_temperature(context, 600)
    integrator.step(3)
    context.setParameter("FixmanTemperature", KELVIN)
    with pytest.raises(mm.OpenMMException, match=r"force is at 300 K and .* at 600 K"):
        integrator.step(1)
    set_temperature(context, KELVIN)
    assert evaluate(context, coil(np.random.default_rng(8), 4))[0] == pytest.approx(energy)


def test_parameters_of_thermostats_that_are_forces(mm, metric_force, set_temperature, rng):
    system = tetramer(mm, metric_force)
    system.addForce(mm.AndersenThermostat(KELVIN, 1.0))
    context = context_of(mm, system, coil(rng, 4))
    context.getIntegrator().step(2)
    context.setParameter(mm.AndersenThermostat.Temperature(), 310)
    with pytest.raises(mm.OpenMMException, match="300 K and AndersenTemperature at 310 K"):
        context.getIntegrator().step(1)
    set_temperature(context, 320)
    assert context.getParameter(mm.AndersenThermostat.Temperature()) == 320
    context.getIntegrator().step(2)


def test_a_context_that_was_not_told_stops(mm, metric_force, set_temperature, rng):
    system, x = tetramer(mm, metric_force), coil(rng, 4)
    context = bare_context(mm, system, x, langevin(mm))
    for run in (lambda: context.getIntegrator().step(1), lambda: evaluate(context)):
        with pytest.raises(mm.OpenMMException, match=r"call fixman\.io\.openmm\.set_temperature"):
            run()
    set_temperature(context)
    context.getIntegrator().step(1)
    context.reinitialize(preserveState=False)
    context.setPositions(x)
    with pytest.raises(mm.OpenMMException, match="again when parameters were reset"):
        evaluate(context)
    set_temperature(context)
    evaluate(context)


def test_parameters_of_another_context_are_noticed(mm, metric_force, set_temperature, rng):
    """A copied mark would have one Context look at the thermostat of the other."""
    system, x = tetramer(mm, metric_force), coil(rng, 4)
    cold, hot = (context_of(mm, system, x, langevin(mm, kelvin)) for kelvin in (300, 600))
    cold.getIntegrator().step(2)
    hot.getIntegrator().step(2)
    hot.setState(cold.getState(positions=True, parameters=True))
    with pytest.raises(mm.OpenMMException, match="does not know the thermostat"):
        hot.getIntegrator().step(3)
    set_temperature(hot)
    assert hot.getParameter("FixmanTemperature") == 600
    hot.getIntegrator().step(3)
    cold.getIntegrator().step(3)


def test_temperatures_that_cannot_be_told(mm, metric_force, set_temperature, rng):
    system, x = tetramer(mm, metric_force), coil(rng, 4)
    with pytest.raises(ValueError, match=r"are none: say which, set_temperature\(context, 300\)"):
        set_temperature(bare_context(mm, system, x))
    with pytest.raises(ValueError, match="CustomIntegrator draws random numbers"):
        set_temperature(bare_context(mm, system, x, custom(mm)), KELVIN)
    both = mm.CompoundIntegrator()
    both.addIntegrator(langevin(mm, 300))
    both.addIntegrator(langevin(mm, 310))
    with pytest.raises(ValueError, match=r"are .*300 K, .*310 K: say which"):
        set_temperature(bare_context(mm, system, x, both))
    with pytest.raises(ValueError, match="has no Fixman force"):
        set_temperature(bare_context(mm, system_of(mm, [1.0], []), np.zeros((1, 3))), KELVIN)
    with pytest.raises(TypeError, match=r"expected an openmm\.Context, got SimpleNamespace"):
        set_temperature(SimpleNamespace(context=None), KELVIN)


@pytest.mark.parametrize("temperature", [0.0, -3, np.nan, np.inf])
def test_impossible_temperatures(mm, metric_force, set_temperature, rng, temperature):
    context = bare_context(mm, tetramer(mm, metric_force), coil(rng, 4))
    with pytest.raises(ValueError, match="temperature must be positive"):
        set_temperature(context, temperature)


def test_a_temperature_is_no_energy(mm, metric_force, set_temperature, rng):
    context = bare_context(mm, tetramer(mm, metric_force), coil(rng, 4))
    for wrong in (2.5 * mm.unit.kilojoule_per_mole, "hot", [300]):
        with pytest.raises(TypeError, match="temperature"):
            set_temperature(context, wrong)


# --- Systems that change ------------------------------------------------------------------------

CHANGES = {
    "a constraint": lambda system: system.addConstraint(3, 4, BOND),
    "a molecule": lambda system: system.addConstraint(4, 5, BOND),
    "a constraint less": lambda system: system.removeConstraint(0),
    "a mass": lambda system: system.setParticleMass(1, 13.0),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_system_that_changed_after_the_force_is_refused(
    mm, metric_force, set_temperature, rng, change
):
    system = system_of(mm, [12.0] * 6, linear(0, 4))
    system.addForce(metric_force(system))
    context_of(mm, mm.XmlSerializer.clone(system), coil(rng, 6))
    CHANGES[change](system)
    context = bare_context(mm, system, coil(rng, 6))
    set_temperature(context, KELVIN)
    with pytest.raises(mm.OpenMMException, match=r"changed since it was made, .*3 constraints"):
        evaluate(context)


def test_changes_outside_of_explicit_chains_do_not_matter(mm, metric_force, set_temperature, rng):
    system = system_of(mm, [12.0] * 6, linear(0, 3))
    system.addForce(metric_force(system, chains=[([0, 1, 2], fx.Chain.linear(3))]))
    system.addConstraint(3, 4, BOND)
    system.setParticleMass(5, 1.0)
    context = context_of(mm, system, coil(rng, 6))
    evaluate(context)
    system.addConstraint(2, 3, BOND)
    context.reinitialize(preserveState=True)
    set_temperature(context, KELVIN)
    with pytest.raises(mm.OpenMMException, match=r"then 2 constraints, now 3"):
        evaluate(context)


# --- what goes wrong while it runs --------------------------------------------------------------


@pytest.mark.parametrize("periodic", [False, True])
def test_positions_that_are_not_finite_raise(mm, metric_force, rng, periodic):
    system = system_of(mm, [12.0] * 9, [*linear(1, 3), *linear(4, 3)])
    if periodic:
        system.addForce(periodic_force(mm, 9))
    force = metric_force(system)
    assert force.usesPeriodicBoundaryConditions() == periodic
    if periodic:
        system.removeForce(0)  # whatever that one does with such positions
    system.addForce(force)
    x = rng.normal(size=(9, 3))
    for bad in (np.nan, np.inf):
        context = context_of(mm, system, x)
        context.getIntegrator().step(1)
        broken = x.copy()
        broken[5, 1] = bad
        context.setPositions(broken)
        with pytest.raises(mm.OpenMMException, match=r"bead \d is particle 5"):
            context.getIntegrator().step(1)
        with pytest.raises(mm.OpenMMException, match=r"bead \d is particle 5"):
            evaluate(context)
    if not periodic:  # else the shortest image is near again
        far = x.copy()
        far[5, 1] = 1e37
        with pytest.raises(mm.OpenMMException, match=r"bead \d is particle 5"):
            evaluate(context_of(mm, system, x), far)
    context = context_of(mm, system, x)
    broken = x.copy()
    broken[8] = np.nan  # of no chain, so none of our business
    evaluate(context, broken)


def test_a_second_one_is_refused(mm, metric_force):
    system = system_of(mm, [12.0] * 5, linear(0, 5))
    system.addForce(metric_force(system))
    with pytest.raises(ValueError, match="a second would double it"):
        metric_force(system)
    system.removeForce(0)
    metric_force(system)


def test_the_function_itself_raises_typed_errors(mm, rng):
    function = pickle.loads(pickle.dumps(potential_of(mm)))
    (group,) = function.groups
    x = rng.normal(size=(6, 3))
    energy, _ = function.evaluate(x, KT)
    expected = fx.fixman_potential(group.chain, x.reshape(2, 3, 3), KT).sum()
    assert energy == pytest.approx(expected, rel=1e-13)
    x[4] = x[5]
    with pytest.raises(
        fx.SingularConstraintError, match=r"coin.*; bead 1 is particle 4; bead 2 is particle 5"
    ):
        function.evaluate(x, KT)
    x[4] = np.nan
    with pytest.raises(ValueError, match=r"x is nan at bead 1: .*; bead 1 is particle 4"):
        function.evaluate(x, KT)


TRIANGLE = [(0, 1), (1, 2), (0, 2)]
SINGULAR = {  # constraints of five particles, positions, and rows that depend on each other
    "a ring folded flat on a line": (
        [*linear(0, 4), (0, 3)],
        [[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0]],
        {(0, 1), (1, 2), (2, 3), (0, 3)},
    ),
    "a planar tetrahedron with a tail": (
        [*itertools.combinations(range(4), 2), (3, 4)],
        [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 2, 0.5]],
        set(itertools.combinations(range(4), 2)),
    ),
    "three in line with a tail": (
        [*TRIANGLE, (2, 3)],
        [[0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 1, 0.5]],
        set(TRIANGLE),
    ),
}


@pytest.mark.parametrize("shape", SINGULAR)
def test_constraints_that_cannot_be_held_name_the_particles(mm, metric_force, rng, shape):
    constraints, places, dependent = SINGULAR[shape]
    n, first = len(places), 3
    moved = [(first + i, first + j) for i, j in constraints]
    system = system_of(mm, [12.0] * (first + n), [*linear(0, 3), *moved])
    system.addForce(metric_force(system))
    x = rng.normal(size=(first + n, 3))
    x[first:] = places
    with pytest.raises(mm.OpenMMException) as caught:
        evaluate(context_of(mm, system, x))
    text = str(caught.value)
    rows = re.findall(r"length\((\d+), (\d+)\)", text)
    assert len(rows) >= 2
    particle = dict(re.findall(r"; bead (\d+) is particle (\d+)", text))
    assert {tuple(sorted(int(particle[k]) - first for k in row)) for row in rows} <= dependent


# --- serialization ------------------------------------------------------------------------------

ELSEWHERE = """
import sys
import numpy as np
import openmm as mm

assert "fixman" not in sys.modules
with open(sys.argv[1]) as file:
    system = mm.XmlSerializer.deserialize(file.read())
x = np.load(sys.argv[2])
context = mm.Context(system, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
context.setPositions(x)
from fixman.io.openmm import set_temperature

set_temperature(context, 300)
print(repr(context.getState(energy=True).getPotentialEnergy()._value))
"""


def test_a_system_serializes(mm, metric_force, rng, tmp_path):
    masses, constraints = rng.uniform(1, 20, 9), [*linear(0, 4), *linear(4, 4), (4, 7), (7, 8)]
    system = system_of(mm, masses, constraints)
    system.addForce(metric_force(system))
    x = rng.normal(size=(9, 3))
    energy, forces = evaluate(context_of(mm, system, x))
    text = mm.XmlSerializer.serialize(system)
    for copy in (mm.XmlSerializer.deserialize(text), pickle.loads(pickle.dumps(system))):
        again, again_forces = evaluate(context_of(mm, copy, x))
        assert again == energy
        np.testing.assert_array_equal(again_forces, forces)
        (force,) = copy.getForces()
        assert force.getName() == "FixmanForce"
    (tmp_path / "system.xml").write_text(text)
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", ELSEWHERE, tmp_path / "system.xml", tmp_path / "x.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == energy


WHEEL_OF_V1 = [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4)]
V1 = Path(__file__).parent / "reference" / "openmm_system_v1.xml"


def test_files_of_version_1_are_read(mm, tmp_path):
    """The file was written by the first public version: five particles, masses 12 1 16 1 12.

    Its constraints are 0-1, 1-2, 2-3, 0-3 and 3-4.
    """
    x = np.random.default_rng(31).normal(size=(5, 3))
    np.save(tmp_path / "x.npy", x)
    command = [sys.executable, "-c", ELSEWHERE, V1, tmp_path / "x.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    expected = KT * dense_potential(x, np.array([12.0, 1, 16, 1, 12]), WHEEL_OF_V1)
    assert float(done.stdout) == pytest.approx(expected, rel=1e-11)


def test_a_serialized_force_names_no_private_class(mm, metric_force):
    """What other versions have to know by name is one class; the rest is plain data."""
    assert global_names(potential_of(mm)) == {"fixman.io.openmm FixmanPotential"}


def potential_of(mm):
    from fixman.io.openmm import FixmanPotential, MadeFor
    from fixman.io.openmm.constraints import Group

    group = Group(fx.Chain.linear(3), np.arange(6).reshape(2, 3))
    return FixmanPotential((group,), False, MadeFor(True, 4, "0f"))


def global_names(value):
    """Names of the classes and functions that reading a pickle looks up."""
    found = set()

    class Reader(pickle.Unpickler):
        def find_class(self, module, name):
            if module != "copyreg":  # Python's own protocol
                found.add(f"{module} {name}")
            return super().find_class(module, name)

    Reader(io.BytesIO(pickle.dumps(value, 2))).load()
    return found


def forged(state, **changes):
    return {**state, **changes}


DAMAGES = {
    "no dictionary": lambda s: [1, 2],
    "nothing": lambda s: None,
    "a newer version": lambda s: forged(s, version=2),
    "no version": lambda s: {k: v for k, v in s.items() if k != "version"},
    "no terms": lambda s: forged(s, terms=[]),
    "terms of one": lambda s: forged(s, terms=[s["terms"][0][:1]]),
    "a chain that is no JSON": lambda s: forged(s, terms=[("{", s["terms"][0][1])]),
    "a chain in the plane": lambda s: forged(
        s, terms=[(fx.Chain.linear(3, dim=2).to_json(), s["terms"][0][1])]
    ),
    "a chain on a base": lambda s: forged(
        s, terms=[(fx.Chain.linear(3, base="fixed").to_json(), s["terms"][0][1])]
    ),
    "too few beads": lambda s: forged(s, terms=[(fx.Chain.linear(2).to_json(), s["terms"][0][1])]),
    "particles that are no integers": lambda s: forged(
        s, terms=[(s["terms"][0][0], [[0, 1, 2.5]])]
    ),
    "negative particles": lambda s: forged(s, terms=[(s["terms"][0][0], [[0, 1, -2]])]),
    "a particle twice": lambda s: forged(s, terms=[s["terms"][0], s["terms"][0]]),
    "a box of words": lambda s: forged(s, periodic="no"),
    "made for nothing": lambda s: forged(s, **{"made for": 5}),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_data_are_refused_on_the_first_call(mm, rng, damage):
    """Not while it is read: there OpenMM would die of a segmentation fault."""
    potential = potential_of(mm)
    state = DAMAGES[damage](potential.__getstate__())
    broken = type(potential).__new__(type(potential))
    broken.__setstate__(state)
    assert broken.__getstate__() == state  # written again as it was read
    force = mm.PythonForce(broken, {"FixmanTemperature": 0.0, "FixmanContext": 0.0})
    force.setParticles(list(range(6)))
    system = system_of(mm, [1.0] * 6, [*linear(0, 3), *linear(3, 3)])
    system.addForce(force)
    again = mm.XmlSerializer.deserialize(mm.XmlSerializer.serialize(system))
    context = context_of(mm, again, rng.normal(size=(6, 3)))
    with pytest.raises(mm.OpenMMException, match="does not fit it"):
        evaluate(context)


def test_particles_of_the_force_that_are_not_those_of_its_chains(mm, metric_force, rng):
    system = system_of(mm, [12.0] * 5, linear(0, 5))
    force = metric_force(system)
    for particles in ([4, 1, 2, 3, 0], [0, 1, 2]):
        wrong = mm.XmlSerializer.clone(force)
        wrong.setParticles(particles)
        copy = mm.XmlSerializer.clone(system)
        copy.addForce(wrong)
        with pytest.raises(mm.OpenMMException, match="other particles"):
            evaluate(context_of(mm, copy, rng.normal(size=(5, 3))))


# --- chains that users describe -----------------------------------------------------------------


def freely_rotating(first, n):
    """Return bonds and, in the place of the angles, 1–3 distances."""
    return [*linear(first, n), *((first + k, first + k + 2) for k in range(n - 2))]


def test_angles_held_by_distances_or_as_angles_differ_by_a_constant(mm, metric_force, rng):
    n, masses = 7, rng.uniform(1, 20, 7)
    chain = fx.Chain.linear(n, masses=masses, hard=("length", "angle"))
    system = system_of(mm, masses, freely_rotating(0, n))
    energies = []
    frames = []
    for chains in (None, [(np.arange(n), chain)]):
        copy = mm.XmlSerializer.clone(system)
        copy.addForce(metric_force(copy, chains=chains))
        frames.append(context_of(mm, copy, np.zeros((n, 3))))
    q = chain.internal(coil(rng, n))
    turning = [k for k in chain.soft if chain.coordinates[k].kind == "torsion"]
    for _ in range(5):
        q[turning] = rng.uniform(-np.pi, np.pi, len(turning))
        energies.append([evaluate(context, chain.cartesian(q))[0] for context in frames])
    difference = np.diff(energies, axis=1)[:, 0]
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9)
    assert np.std(energies, axis=0).min() > 0.1


def test_chains_say_what_gets_a_term(mm, metric_force, rng):
    constraints = [pair for k in range(4) for pair in linear(3 * k, 3)]
    system = system_of(mm, [12.0] * 12, constraints)
    chain = fx.Chain.linear(3)  # masses count up to a common factor
    for particles in ([0, 1, 2], [[2, 1, 0], [6, 7, 8]]):
        force = metric_force(system, chains=[(particles, chain)])
        assert list(force.getParticles()) == np.ravel(particles).tolist()
        copy = mm.XmlSerializer.clone(system)
        copy.addForce(force)
        x = rng.normal(size=(12, 3))
        energy, _ = evaluate(context_of(mm, copy, x))
        expected = fx.fixman_potential(chain, x[np.array(particles)], KT).sum()
        assert energy == pytest.approx(expected, rel=1e-12)


METHANOL = """<ForceField><AtomTypes>
<Type name="C" class="C" element="C" mass="12.011"/>
<Type name="O" class="O" element="O" mass="15.999"/>
<Type name="H" class="H" element="H" mass="1.008"/></AtomTypes>
<Residues><Residue name="MOH"><Atom name="C" type="C"/><Atom name="O" type="O"/>
<Atom name="H1" type="H"/><Atom name="H2" type="H"/><Atom name="H3" type="H"/>
<Atom name="HO" type="H"/><Bond from="0" to="1"/><Bond from="0" to="2"/><Bond from="0" to="3"/>
<Bond from="0" to="4"/><Bond from="1" to="5"/></Residue></Residues>
<HarmonicBondForce><Bond class1="C" class2="O" length="0.14" k="1"/>
<Bond class1="C" class2="H" length="0.11" k="1"/><Bond class1="O" class2="H" length="0.1" k="1"/>
</HarmonicBondForce><HarmonicAngleForce>
<Angle class1="H" class2="C" class3="H" angle="1.91" k="1"/>
<Angle class1="H" class2="C" class3="O" angle="1.91" k="1"/>
<Angle class1="C" class2="O" class3="H" angle="1.91" k="1"/></HarmonicAngleForce></ForceField>"""


def test_h_angles_hold_what_openmm_holds(mm):
    from io import StringIO

    from openmm import app

    topology = app.Topology()
    residue = topology.addResidue("MOH", topology.addChain())
    symbols = {"C": "C", "O": "O", "H1": "H", "H2": "H", "H3": "H", "HO": "H"}
    atoms = [
        topology.addAtom(name, app.Element.getBySymbol(symbol), residue)
        for name, symbol in symbols.items()
    ]
    bonds = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5)]
    for i, j in bonds:
        topology.addBond(atoms[i], atoms[j])
    system = app.ForceField(StringIO(METHANOL)).createSystem(topology, constraints=app.HAngles)
    held = {frozenset(system.getConstraintParameters(k)[:2]) for k in range(9)}
    assert system.getNumConstraints() == 9
    masses = [system.getParticleMass(k)._value for k in range(6)]
    chain = fx.Chain.from_bonds(6, bonds, masses=masses, hard="HAngles")
    rows = [chain.coordinates[row] for row in chain.hard]
    assert {frozenset((row.beads[0], row.beads[-1])) for row in rows} == held
    assert len(rows) == len(held)


def test_a_chain_may_span_several_sets(mm, metric_force, rng):
    # One molecule of which bonds to hydrogens alone are constrained.
    bonds = [(0, 1), (1, 2), (1, 3), (3, 4), (3, 5)]
    masses = np.array([1.0, 12, 1, 12, 1, 1])
    hydrogens = [pair for pair in bonds if pair != (1, 3)]
    system = system_of(mm, masses, hydrogens)
    chain = fx.Chain.from_bonds(6, bonds, masses=masses, hard="h-bonds")
    energies = []
    x = rng.normal(size=(6, 3))
    for chains in (None, [(range(6), chain)]):
        copy = mm.XmlSerializer.clone(system)
        copy.addForce(metric_force(copy, chains=chains))
        energies.append(evaluate(context_of(mm, copy, x))[0])
    assert energies[0] == pytest.approx(energies[1], rel=1e-12)


def test_a_ring_said_twice(mm, metric_force, rng):
    """The same ring rooted at another bead, with another closure."""
    masses = rng.uniform(1, 20, 5)
    order = [3, 2, 4, 0, 1]  # beads of the chain as particles
    bonds = [(order.index(i), order.index(j)) for i, j in WHEEL]
    chain = fx.Chain.from_bonds(5, bonds, masses=masses[order])
    system = system_of(mm, masses, WHEEL)
    x, answers = rng.normal(size=(5, 3)), []
    for chains in (None, [(order, chain)]):
        copy = mm.XmlSerializer.clone(system)
        copy.addForce(metric_force(copy, chains=chains))
        answers.append(evaluate(context_of(mm, copy, x)))
    assert answers[0][0] == pytest.approx(answers[1][0], rel=1e-12)
    np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=1e-9, atol=1e-9)


def test_chains_of_massless_particles(mm, metric_force):
    system = system_of(mm, [12.0, 12, 12, 0], linear(0, 3))
    with pytest.raises(ValueError, match=r"particle 3 of chains\[0\] has no mass"):
        metric_force(system, chains=[([0, 1, 2, 3], fx.Chain.linear(4))])


def refusals():
    trimer, heavy = fx.Chain.linear(3), fx.Chain.linear(3, masses=[1, 2, 1])
    rotating = fx.Chain.linear(3, hard=("length", "angle"))
    star = fx.Chain.from_bonds(4, [(1, 0), (2, 0), (3, 0)])
    return {
        "a chain alone": ([trimer], TypeError, r"must be \(particles, Chain\)"),
        "the wrong order": ([(trimer, [0, 1, 2])], TypeError, r"must be \(particles, Chain\)"),
        "planar": ([([0, 1, 2], fx.Chain.linear(3, dim=2))], ValueError, "three-dimensional"),
        "fixed": ([([0, 1, 2], fx.Chain.linear(3, base="fixed"))], ValueError, "must be free"),
        "floats": ([([0.0, 1, 2], trimer)], TypeError, "must be integers"),
        "too few": ([([0, 1], trimer)], ValueError, r"must have shape \(3,\)"),
        "out of range": ([([0, 1, 12], trimer)], ValueError, "particle 12 is .* not one of the 12"),
        "shared": ([([0, 1, 2], trimer), ([0, 1, 2], trimer)], ValueError, "more than once"),
        "twice in one": ([([0, 1, 1], trimer)], ValueError, "particle 1 is in chains more"),
        "masses": ([([0, 1, 2], heavy)], ValueError, "masses of beads 0 and 1 are not as those"),
        "outside": ([([3, 4, 5], trimer)], ValueError, "constraints join particle 6 to"),
        "too much": ([([0, 1, 2], rotating)], ValueError, "holds 3 coordinates, .* 2 independent"),
        "other bonds": ([([3, 4, 5, 6], star)], ValueError, "does not hold the distance"),
        "order": ([([0, 2, 1], trimer)], ValueError, "in the order of the beads"),
        "none": ([], ValueError, "nothing that can vary"),
    }  # fmt: skip


@pytest.mark.parametrize("case", refusals())
def test_chains_that_disagree_with_the_system_are_refused(mm, metric_force, case):
    chains, error, text = refusals()[case]
    system = system_of(mm, [12.0] * 12, [*linear(0, 3), *linear(3, 4), *linear(7, 5)])
    with pytest.raises(error, match=text):
        metric_force(system, chains=chains)


# --- refusals -----------------------------------------------------------------------------------


def test_no_constraints(mm, metric_force):
    with pytest.raises(ValueError, match=r"constraints=app\.HBonds"):
        metric_force(system_of(mm, [1, 1, 1], []))


def test_wrong_types(mm, metric_force):
    system = system_of(mm, [1, 1, 1], linear(0, 3))
    with pytest.raises(TypeError, match=r"expected an openmm\.System, got list"):
        metric_force([system])
    holder = SimpleNamespace(system=system)
    with pytest.raises(TypeError, match="got SimpleNamespace"):
        metric_force(holder)


def test_fixman_does_not_import_openmm_by_itself():
    code = "import fixman, fixman.mechanics.metric, sys; print('openmm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_without_openmm_the_error_says_what_to_install():
    code = "import sys; sys.modules['openmm'] = None; import fixman.io.openmm"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "fixman-chains[openmm]"' in done.stderr


# --- what OpenMM itself can run, as docs/openmm.md says -----------------------------------------

TETRAHEDRON = np.array([[0, 0, 0], [1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
METHANE = TETRAHEDRON * 0.109 / 3**0.5
HEXAGON = 0.15 * np.array([[np.cos(a), np.sin(a), 0.1 * (-1) ** k] for k, a in
                           enumerate(np.arange(6) * np.pi / 3)])  # fmt: skip
ALL = [*itertools.combinations(range(5), 2)]
SETS = {  # positions or a number of beads in zigzag, held pairs, whether OpenMM runs them
    "bonds": (30, linear(0, 30), True),
    "a ring of bonds": (HEXAGON, [(k, (k + 1) % 6) for k in range(6)], True),
    "angles between soft ones": (7, [*linear(0, 7), (0, 2), (2, 4), (4, 6)], True),
    "four with every distance": (4, [*itertools.combinations(range(4), 2)], True),
    "butane with angles": (4, [*linear(0, 4), (0, 2), (1, 3)], False),
    "a chain with angles": (9, [*linear(0, 9), *((k, k + 2) for k in range(7))], False),
    "two angles that share a bond": (5, [*linear(0, 5), (0, 2), (1, 3)], False),
    "methane, ten distances": (METHANE, ALL, False),
    "methane, nine distances": (METHANE, ALL[:9], False),
}


@pytest.mark.parametrize("platform", ["Reference", "CPU"])
@pytest.mark.parametrize("name", SETS)
def test_what_openmm_can_run(mm, name, platform):
    start, pairs, runs = SETS[name]
    if isinstance(start, int):
        chain = fx.Chain.linear(start, hard=("length", "angle"))
        start = fx.random_walks(chain, lengths=BOND, angles=np.radians(68), rng=1)[0]
    lengths = [np.linalg.norm(start[i] - start[j]) for i, j in pairs]
    system = system_of(
        mm, [14.0] * len(start), [(*p, d) for p, d in zip(pairs, lengths, strict=True)]
    )
    integrator = mm.LangevinMiddleIntegrator(KELVIN, 1.0, 0.0001)
    context = mm.Context(system, integrator, mm.Platform.getPlatformByName(platform))
    context.setPositions(start)
    context.setVelocitiesToTemperature(KELVIN, 1)
    if not runs and platform == "CPU":
        with pytest.raises(mm.OpenMMException, match="NaN"):
            integrator.step(200)
        return
    integrator.step(200)
    x = context.getState(positions=True).getPositions(asNumpy=True)._value
    found = [np.linalg.norm(x[i] - x[j]) for i, j in pairs]
    assert np.allclose(found, lengths, rtol=1e-4) == runs
