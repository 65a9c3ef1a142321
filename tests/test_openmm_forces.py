"""Chains and forces of OpenMM Systems: bonds, masses, energies, threads, and what is refused."""

from __future__ import annotations

import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import numpy as np
import pytest

import fixman as fx
from fixman.chains.chain import bonds as bonds_of
from fixman.errors import FrameError

DIPEPTIDE = """
HH31 ACE 1 2.000 1.000 0.000|CH3 ACE 1 2.000 2.090 0.000|HH32 ACE 1 1.486 2.454 0.890
HH33 ACE 1 1.486 2.454 -0.890|C ACE 1 3.427 2.641 0.000|O ACE 1 4.391 1.877 0.000
N ALA 2 3.555 3.970 0.000|H ALA 2 2.733 4.556 0.000|CA ALA 2 4.853 4.614 0.000
HA ALA 2 5.408 4.316 0.890|CB ALA 2 5.661 4.221 -1.232|HB1 ALA 2 5.123 4.521 -2.131
HB2 ALA 2 6.630 4.719 -1.206|HB3 ALA 2 5.809 3.141 -1.241|C ALA 2 4.713 6.129 0.000
O ALA 2 3.601 6.653 0.000|N NME 3 5.846 6.835 0.000|H NME 3 6.737 6.359 0.000
C NME 3 5.846 8.284 0.000|H1 NME 3 4.819 8.648 0.000|H2 NME 3 6.360 8.648 0.890
H3 NME 3 6.360 8.648 -0.890
"""  # name, residue, Å


def pdb(app, text=DIPEPTIDE):
    """Read atoms as a PDB file."""
    lines = []
    for k, atom in enumerate(text.replace("|", "\n").split("\n")[1:-1]):
        name, residue, number, *x = atom.split()
        place = "".join(f"{float(a):8.3f}" for a in x)
        lines.append(f"ATOM  {k + 1:5d} {name:>4s} {residue} A{number:>4s}    {place}")
    return app.PDBFile(io.StringIO("\n".join([*lines, "END"])))


@pytest.fixture(scope="module")
def dipeptide(mm):
    return pdb(mm.app)


@pytest.fixture(scope="module")
def field(mm):
    return mm.app.ForceField("amber14-all.xml", "amber14/tip3p.xml")


@pytest.fixture(scope="module")
def x(mm, dipeptide):
    return np.array(dipeptide.getPositions(asNumpy=True).value_in_unit(mm.unit.nanometer))


def rows(chain):
    return {(row.kind, frozenset(row.beads)) for row in hard(chain)}


def hard(chain):
    return [chain.coordinates[k] for k in chain.hard]


# --- chains -------------------------------------------------------------------------------------


@pytest.mark.parametrize("constraints", [None, "HBonds", "AllBonds", "HAngles"])
@pytest.mark.parametrize("hydrogen_mass", [None, 3.0])
def test_bonds_do_not_hang_on_how_a_system_holds_them(
    mm, room, field, dipeptide, constraints, hydrogen_mass
):
    """Constraints take bonds out of the force field, and those of angles look like bonds."""
    constraints = constraints and getattr(mm.app, constraints)
    system = field.createSystem(
        dipeptide.topology, constraints=constraints, hydrogenMass=hydrogen_mass
    )
    chain = room.chain(system)
    bonds = {tuple(sorted((a.index, b.index))) for a, b in dipeptide.topology.bonds()}
    assert {tuple(pair) for pair in bonds_of(chain).tolist()} == bonds
    assert chain.masses.tolist() == [system.getParticleMass(k)._value for k in range(22)]
    assert chain == room.chain(system, topology=dipeptide.topology)
    assert chain.hard.size == 3 * 22 - 6 - 7  # φ, ψ, ω twice, and three methyls


def test_a_topology_has_bonds_and_masses(mm, room, field, dipeptide):
    chain = room.chain(dipeptide.topology)
    assert rows(chain) == rows(room.chain(field.createSystem(dipeptide.topology)))
    assert chain.masses[0] == pytest.approx(1.008, abs=1e-3)


def test_three_in_a_ring_are_no_angle_held(mm, room):
    """Cyclopropane with all bonds as constraints has three carbons in a ring."""
    system, carbons = mm.System(), [(0, 1), (1, 2), (0, 2)]
    bonds = carbons + [(k // 2 - 1 + (k % 2 == 2), k + 1) for k in range(2, 8)]
    for k in range(9):
        system.addParticle(12.0 if k < 3 else 1.008)
    for i, j in bonds:
        system.addConstraint(i, j, 0.151 if (i, j) in carbons else 0.109)
    for k in range(3, 9, 2):  # H–H of a methylene
        system.addConstraint(k, k + 1, 0.18)
    chain = room.chain(system, ("length",))
    assert chain.hard.size == 9


def test_springs_across_an_angle_are_no_bonds(mm, room):
    system, springs = mm.System(), mm.HarmonicBondForce()
    for _ in range(4):
        system.addParticle(12.0)
    for i, j, length in ((0, 1, 0.15), (1, 2, 0.15), (2, 3, 0.15), (0, 2, 0.25)):
        springs.addBond(i, j, length, 1000.0)
    system.addForce(springs)
    assert room.chain(system, ("length",)).hard.size == 3


def nitrile(mm):
    """Return acetonitrile as a System, and positions in which it hardly bends."""
    system, springs, angles = mm.System(), mm.HarmonicBondForce(), mm.HarmonicAngleForce()
    for mass in (1.008, 1.008, 1.008, 12.011, 12.011, 14.007):
        system.addParticle(mass)
    x = np.array([[0.103, 0, -0.036], [-0.051, 0.089, -0.036], [-0.051, -0.089, -0.036],
                  [0, 0, 0], [0, 0, 0.146], [0.004, 0, 0.261]])  # fmt: skip
    for i, j in ((0, 3), (1, 3), (2, 3), (3, 4), (4, 5)):
        springs.addBond(i, j, float(np.linalg.norm(x[i] - x[j])), 1e5)
    angles.addAngle(5, 4, 3, np.pi, 400.0)
    angles.addAngle(0, 3, 1, 1.9, 400.0)
    system.addForce(springs)
    system.addForce(angles)
    return system, x


def test_straight_bends_are_told_by_positions_or_the_force_field(mm, room):
    system, x = nitrile(mm)
    by_angles, by_positions = room.chain(system), room.chain(system, positions=x)
    assert by_angles.straight == by_positions.straight == ((3, 4, 5),)
    assert by_angles.hard.size == 3 * 6 - 6
    assert room.chain(system, straight=[(5, 4, 3)]).straight == ((3, 4, 5),)
    assert room.chain(system, straight=()).straight == ()
    assert room.chain(system, ("length",)).straight == ()
    x[5] = [0.08, 0, 0.22]  # no nitrile
    assert room.chain(system, positions=x).straight == ()


def test_words_kinds_and_masks(room, field, dipeptide):
    system = field.createSystem(dipeptide.topology)
    light = room.chain(system, "h-bonds")
    assert {row.kind for row in hard(light)} == {"length"}
    assert light.hard.size == 12
    heavy = field.createSystem(dipeptide.topology, hydrogenMass=3.0)
    with pytest.raises(ValueError, match="is it a hydrogen"):
        room.chain(heavy, "h-bonds")
    assert rows(room.chain(heavy, "h-bonds", topology=dipeptide.topology)) == rows(light)
    mask = light.hard_mask.copy()
    assert room.chain(system, mask) == light
    fixed = room.chain(system, rotatable=[(6, 8)])  # φ alone
    assert fixed.hard.size == 3 * 22 - 6 - 1
    with pytest.raises(ValueError, match=r"rotatable names \(6, 99\)"):
        room.chain(system, rotatable=[(6, 99)])


def ring_of_benzene(mm):
    """Return a Topology and masses: a rigid molecule with more rows than it needs."""
    topology = mm.app.Topology()
    residue = topology.addResidue("BNZ", topology.addChain())
    carbon, hydrogen = mm.app.element.carbon, mm.app.element.hydrogen
    atoms = [topology.addAtom(f"C{k}", carbon, residue) for k in range(6)]
    atoms += [topology.addAtom(f"H{k}", hydrogen, residue) for k in range(6)]
    for k in range(6):
        topology.addBond(atoms[k], atoms[(k + 1) % 6])
        topology.addBond(atoms[k], atoms[6 + k])
    return topology


def test_dependent_rows_are_dropped_and_listed(mm, room):
    chain = room.chain(ring_of_benzene(mm))
    assert chain.hard.size == 3 * 12 - 6
    assert len(chain.redundant) > 0
    assert f"{len(chain.redundant)} dependent left out" in repr(chain)


def solvated(mm, field, dipeptide):
    modeller = mm.app.Modeller(dipeptide.topology, dipeptide.positions)
    modeller.addSolvent(field, boxSize=mm.Vec3(2, 2, 2), ionicStrength=0.4 * mm.unit.molar)
    return modeller


@pytest.mark.thorough
def test_several_molecules_are_what_metric_force_takes(mm, room, field, dipeptide):
    solution = solvated(mm, field, dipeptide)
    nm = mm.unit.nanometer
    system = field.createSystem(
        solution.topology, nonbondedMethod=mm.app.PME, nonbondedCutoff=0.8 * nm,
        constraints=mm.app.HBonds,
    )  # fmt: skip
    found = room.chain(system, "h-bonds")
    (one, peptide), (waters, water) = found
    assert one.tolist() == [list(range(22))]
    assert rows(peptide) == rows(room.chain(field.createSystem(dipeptide.topology), "h-bonds"))
    assert water.hard.size == 3
    assert waters.shape[1] == 3
    ions = system.getNumParticles() - 22 - waters.size
    assert ions > 0
    with pytest.raises(TypeError, match="got list"):
        fx.simulate(found, np.zeros((22, 3)), fx.Newton(0.001), 1)
    force = room.metric_force(system, chains=found)
    assert list(force.getParticles()) == list(range(22))  # waters are rigid
    of_topology = room.chain(solution.topology, "h-bonds")
    assert [rows(chain) for _, chain in of_topology] == [rows(peptide), rows(water)]
    with pytest.raises(ValueError, match="a mask is for a single molecule"):
        room.chain(system, peptide.hard_mask)
    with pytest.raises(ValueError, match=rf"the System has {system.getNumParticles()} particles "
                       r"with a mass, x has 22: one chain, or fixman\.io"):  # fmt: skip
        fx.simulate(
            peptide, np.zeros((22, 3)) + np.arange(22)[:, None] ** [[1.0, 1.1, 1.2]],
            fx.Newton(0.001, kT=2.5, potential=room.Forces(system, "Reference")), 1,
        )  # fmt: skip


def test_equal_molecules_share_a_chain(mm, room, field):
    """A box of nothing but water, of four sites, one of them virtual."""
    four = mm.app.ForceField("amber14/tip4pew.xml")
    solution = mm.app.Modeller(mm.app.Topology(), [] * mm.unit.nanometer)
    solution.addSolvent(four, model="tip4pew", boxSize=mm.Vec3(1.3, 1.3, 1.3))
    for rigid in (True, False):
        system = four.createSystem(solution.topology, rigidWater=rigid)
        ((particles, water),) = room.chain(system, "h-bonds")
        assert particles.size == 3 * system.getNumParticles() // 4 > 30
        assert not any(system.isVirtualSite(int(k)) for k in particles.ravel())
        assert water.hard.size == (3 if rigid else 2)


def test_what_has_no_chain_is_named(mm, room, field, dipeptide):
    system = mm.System()
    for mass in (12.0, 0.0, 12.0):
        system.addParticle(mass)
    with pytest.raises(ValueError, match=r"there are no bonds, .*: give topology="):
        room.chain(system)
    springs = mm.HarmonicBondForce()
    springs.addBond(0, 1, 0.15, 1.0)
    springs.addBond(1, 2, 0.15, 1.0)
    system.addForce(springs)
    with pytest.raises(ValueError, match="particle 1 is bonded or constrained, and has no mass"):
        room.chain(system)
    with pytest.raises(ValueError, match="the System has 3 particles, its topology 22"):
        room.chain(system, topology=dipeptide.topology)
    with pytest.raises(TypeError, match="got SimpleNamespace"):
        room.chain(type("SimpleNamespace", (), {"system": system})())
    other = mm.System()
    for _ in range(2):
        other.addParticle(1.0)
    other.addConstraint(0, 1, 0.1)
    other.addForce(mm.CustomBondForce("r"))
    assert room.chain(other).n == 2
    drude = mm.DrudeForce()
    drude.addParticle(2, 0, -1, -1, -1, 1.0, 0.001, 1, 1)
    system.addForce(drude)
    with pytest.raises(ValueError, match="Drude"):
        room.Forces(system)


def test_atoms_are_named(mm, room, field, dipeptide, x):
    bad = x.copy()
    bad[10] = bad[8]
    with pytest.raises(fx.SingularConstraintError, match=r"bead 10 is atom 10 \(CB of ALA 2\)"):
        room.chain(ring_of_alanine(dipeptide), positions=bad)


def ring_of_alanine(dipeptide):
    """Return the topology with one bond more, so that it has rows to choose from."""
    topology = deepcopy(dipeptide.topology)
    atoms = list(topology.atoms())
    topology.addBond(atoms[10], atoms[0])
    return topology


# --- forces -------------------------------------------------------------------------------------


def test_energies_and_forces_are_those_of_openmm(mm, room, field, dipeptide, x):
    system = field.createSystem(dipeptide.topology, constraints=mm.app.HBonds)
    before = mm.XmlSerializer.serialize(system)
    forces = room.Forces(system, "Reference")
    platform = mm.Platform.getPlatformByName("Reference")
    context = mm.Context(system, mm.VerletIntegrator(0.001), platform)
    context.setPositions(dipeptide.positions)
    state = context.getState(energy=True, forces=True)
    assert forces.energy(x) == state.getPotentialEnergy()._value
    assert np.array_equal(forces.force(x), state.getForces(asNumpy=True)._value)
    assert mm.XmlSerializer.serialize(system) == before
    many = np.stack([[x, x + 1.0], [1.01 * x, 0.99 * x]])
    assert forces.energy(many).shape == (2, 2)
    assert np.array_equal(forces.force(many)[1, 0], forces.force(many[1, 0]))
    assert forces.energy(dipeptide.positions) == forces.energy(x)  # a Quantity
    again = pickle.loads(pickle.dumps(forces))
    assert again.energy(x) == forces.energy(x)
    assert again.parameters() == forces.parameters()


def test_constraints_come_off_and_the_chain_has_to_hold_them(mm, room, field, dipeptide, x):
    system = field.createSystem(dipeptide.topology, constraints=mm.app.HBonds)
    forces = room.Forces(system, "Reference")
    pulled = x.copy()
    pulled[0] += 0.05 * (x[0] - x[1]) / np.linalg.norm(x[0] - x[1])
    with pytest.raises(
        ValueError, match=r"particle 1 and particle 0 are 0\.159 nm apart, and .* in a constraint"
    ):
        forces.force(pulled)
    loose = room.chain(field.createSystem(dipeptide.topology), ())
    stepper = fx.Newton(0.002, kT=room.kT(300), potential=forces)
    with pytest.raises(ValueError, match="the chain must hold"):
        fx.simulate(loose, x, stepper, 100, rng=1)


def test_virtual_sites_follow(mm, room, rng):
    system = mm.System()
    for mass in (12.0, 0.0, 16.0, 1.0):
        system.addParticle(mass)
    system.setVirtualSite(1, mm.TwoParticleAverageSite(0, 2, 0.3, 0.7))
    springs, outer = mm.HarmonicBondForce(), mm.CustomExternalForce("x^2+2*y^2+x*z")
    springs.addBond(0, 2, 0.12, 1000.0)
    springs.addBond(2, 3, 0.1, 1000.0)
    for k in range(4):
        outer.addParticle(k)
    system.addForce(springs)
    system.addForce(outer)
    chain, forces = room.chain(system, ("length",)), room.Forces(system, "Reference")
    assert chain.masses.tolist() == [12.0, 16.0, 1.0]
    assert forces.particles.tolist() == [0, 2, 3]
    y, h = rng.normal(size=(3, 3)), 1e-6
    numbers = np.empty((3, 3))
    for k in np.ndindex(3, 3):
        step = np.zeros((3, 3))
        step[k] = h
        numbers[k] = (forces.energy(y - step) - forces.energy(y + step)) / (2 * h)
    np.testing.assert_allclose(forces.force(y), numbers, atol=1e-4)
    bonds = np.linalg.norm([y[0] - y[1], y[1] - y[2]], axis=1) - [0.12, 0.1]
    points = np.vstack([y, 0.3 * y[0] + 0.7 * y[1]])
    outside = points[:, 0] ** 2 + 2 * points[:, 1] ** 2 + points[:, 0] * points[:, 2]
    assert forces.energy(y) == pytest.approx(500 * (bonds**2).sum() + outside.sum(), rel=1e-12)


@pytest.fixture
def rng():
    return np.random.default_rng(13)


def one_atom(mm, force=None):
    system = mm.System()
    system.addParticle(12.0)
    if force is not None:
        system.addForce(force)
    return system


def test_what_forces_refuse(mm, room, field, dipeptide):
    for force, word in (
        (mm.MonteCarloBarostat(1.0, 300.0), "MonteCarloBarostat"),
        (mm.AndersenThermostat(300.0, 1.0), "AndersenThermostat"),
    ):
        with pytest.raises(ValueError, match=rf"has a {word}.*removeForce\(0\)"):
            room.Forces(one_atom(mm, force))
    system = field.createSystem(dipeptide.topology, constraints=mm.app.HBonds)
    system.addForce(room.metric_force(system))
    with pytest.raises(ValueError, match=r"a PythonForce, FixmanForce, which .*: removeForce"):
        room.Forces(system)
    with pytest.raises(ValueError, match='no registered Platform called "GPU"'):
        room.Forces(one_atom(mm), "GPU")
    with pytest.raises(ValueError, match='no registered Platform called "1"'):
        room.Forces(one_atom(mm), 1)
    with pytest.raises(TypeError, match=r"expected an openmm\.System, got Topology"):
        room.Forces(dipeptide.topology)
    still = one_atom(mm)
    still.addParticle(0.0)
    with pytest.raises(ValueError, match="particle 1 has no mass and is no virtual site"):
        room.Forces(still)
    forces = room.Forces(one_atom(mm, mm.CMMotionRemover()), mm.Platform.getPlatform(0))
    assert forces.energy(np.zeros((1, 3))) == 0.0
    with pytest.raises(TypeError, match=r"x must be in nm, got 2\.5 kJ/mol"):
        forces.energy(2.5 * mm.unit.kilojoule_per_mole)


def test_what_is_not_finite_is_refused(mm, room):
    system = one_atom(mm, mm.CustomExternalForce("1/x"))
    system.getForce(0).addParticle(0, [])
    forces = room.Forces(system, "Reference")
    good, nan = np.ones((1, 3)), np.full((1, 3), np.nan)
    assert forces.energy(good) == 1.0
    for ask in (forces.energy, forces.force):
        with pytest.raises(FrameError, match="x is nan at bead 0 in frame 1"):
            ask(np.stack([good, nan]))
        with pytest.raises(FrameError, match="OpenMM is not finite in frame 1"):
            ask(np.stack([good, 0.0 * good]))


def test_temperatures(mm, room):
    assert room.kT(300) == pytest.approx(2.494338785, rel=1e-9)
    assert room.kT(300 * mm.unit.kelvin) == room.kT(300)
    for wrong in (room.kT(300) * mm.unit.kilojoule_per_mole, "300", None):
        with pytest.raises(TypeError, match="temperature"):
            room.kT(wrong)
    with pytest.raises(ValueError, match="temperature must be positive"):
        room.kT(0)


# --- dynamics -----------------------------------------------------------------------------------

quick = pytest.mark.filterwarnings("ignore:dt=.* is long:RuntimeWarning")


@quick
def test_torsional_dynamics_conserves_energy(mm, room, field, dipeptide, x):
    """With an error of second order in dt, at steps that no flexible model bears."""
    system = field.createSystem(dipeptide.topology)
    chain, forces = room.chain(system), room.Forces(system, "Reference")
    errors = []
    start = fx.simulate(
        chain, x, fx.Langevin(0.004, kT=room.kT(300), friction=5.0, potential=forces), 500,
        every=500, rng=1,
    )  # fmt: skip
    for dt, steps in ((0.004, 500), (0.008, 250)):
        run = fx.simulate(
            chain, start.x[-1, 0], fx.Newton(dt, potential=forces), steps, every=5,
            v0=start.v[-1, 0],
        )  # fmt: skip
        energy = forces.energy(run.x[:, 0]) + fx.observables.kinetic_energy(chain, run.v[:, 0])
        errors.append(np.ptp(energy))
        np.testing.assert_allclose(
            np.sin(chain.hard_values(run.x[:, 0]) - chain.hard_values(start.x[-1, 0])),
            0,
            atol=1e-10,
        )
    assert errors[1] < 0.5  # kJ/mol
    assert 2.0 < errors[1] / errors[0] < 8.0


@pytest.mark.thorough
@quick
def test_replicas_have_the_bits_of_one_alone(mm, room, field, dipeptide, x):
    """Whatever the number of threads, each with a Context of its own."""
    system = field.createSystem(dipeptide.topology)
    chain = room.chain(system)
    runs = []
    for workers in (1, 3):
        stepper = fx.Langevin(0.005, kT=2.5, potential=room.Forces(system, "Reference"))
        run = fx.simulate(chain, x, stepper, 20, every=10, replicas=3, workers=workers, rng=3)
        runs.append(run.x)
    assert np.array_equal(*runs)


def test_threads_do_not_disturb_each_other(mm, room, field, dipeptide, x):
    forces = room.Forces(field.createSystem(dipeptide.topology), "Reference")
    many = x + 0.001 * np.random.default_rng(2).normal(size=(200, 22, 3))
    alone = [forces.force(one) for one in many]
    again = room.Forces(field.createSystem(dipeptide.topology), "Reference")
    with ThreadPoolExecutor(8) as pool:
        assert all(map(np.array_equal, pool.map(again.force, many), alone))


@pytest.mark.thorough
@quick
def test_hybrid_monte_carlo_asks_for_no_force_twice(mm, room, field, dipeptide, x, monkeypatch):
    forces = room.Forces(field.createSystem(dipeptide.topology), "Reference")
    seen = []
    kept = forces._evaluate
    monkeypatch.setattr(forces, "_evaluate", lambda data: seen.append(data) or kept(data))
    forces._begin()
    chain = room.chain(dipeptide.topology)
    stepper = fx.HybridMonteCarlo(0.01, kT=2.5, leaps=4, potential=forces)
    fx.simulate(chain, x, stepper, 10, every=1, rng=1)
    assert len(seen) == len(set(seen)) <= 41


@quick
def test_runs_go_on_bit_for_bit_with_the_same_system(mm, room, field, dipeptide, x, tmp_path):
    system = field.createSystem(dipeptide.topology)
    chain = room.chain(system)

    def stepper(system=system):
        forces = room.Forces(system, "Reference")
        return fx.Langevin(0.005, kT=2.5, ensemble="stiff", potential=forces)

    whole = fx.simulate(chain, x, stepper(), 40, every=10, rng=3)
    fx.simulate(chain, x, stepper(), 20, every=10, rng=3, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"fixman\.io\.openmm\.Forces is not built in"):
        fx.resume(tmp_path / "run", 40)
    other = field.createSystem(dipeptide.topology, hydrogenMass=3.0)
    with pytest.raises(ValueError, match="the stepper is not that of the run: potential="):
        fx.resume(tmp_path / "run", 40, stepper=stepper(other))
    again = fx.resume(tmp_path / "run", 40, stepper=stepper())
    assert np.array_equal(again.x, whole.x)
    assert np.array_equal(again.v, whole.v)
