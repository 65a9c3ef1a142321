"""Molecules against dense algebra: alanine dipeptide, rings, a protein from OpenMM's own files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fixman as fx
import oracles
from oracles import Spec

KELVIN = 300.0
KT = 8.31446261815324e-3 * KELVIN  # kJ/mol


@pytest.fixture(scope="module")
def villin(mm):
    """Villin headpiece of OpenMM's test.pdb without its water: topology, positions in nm."""
    pdb = mm.app.PDBFile(str(Path(mm.app.__file__).parent / "data" / "test.pdb"))
    modeller = mm.app.Modeller(pdb.topology, pdb.positions)
    modeller.delete([r for r in modeller.topology.residues() if r.name in ("HOH", "Cl")])
    return modeller


@pytest.fixture(scope="module")
def field(mm):
    return mm.app.ForceField("amber14-all.xml")


@pytest.fixture(scope="module")
def dipeptide(mm, villin, field):
    """ACE-ALA-NME: an alanine of villin, its neighbours cut down to caps, hydrogens added."""
    residues = list(villin.topology.residues())
    k = next(k for k, residue in enumerate(residues) if residue.name == "ALA")
    caps = [
        ("ACE", residues[k - 1], {"CA": "CH3", "C": "C", "O": "O"}),
        ("ALA", residues[k], {name: name for name in ("N", "CA", "CB", "C", "O")}),
        ("NME", residues[k + 1], {"N": "N", "CA": "C"}),
    ]
    topology = mm.app.Topology()
    chain = topology.addChain()
    positions = []
    for name, source, names in caps:
        residue = topology.addResidue(name, chain)
        for atom in source.atoms():
            if atom.name in names:
                topology.addAtom(names[atom.name], atom.element, residue)
                positions.append(villin.positions[atom.index].value_in_unit(mm.unit.nanometer))
    topology.createStandardBonds()
    modeller = mm.app.Modeller(topology, positions * mm.unit.nanometer)
    modeller.addHydrogens(field)
    return modeller


def nanometres(mm, modeller):
    return np.array(modeller.positions.value_in_unit(mm.unit.nanometer))


def torsional(mm, topology, **options):
    """Return the chain of a Topology with everything hard but torsions about rotatable bonds."""
    bonds = [(one.index, two.index) for one, two in topology.bonds()]
    masses = [atom.element.mass.value_in_unit(mm.unit.dalton) for atom in topology.atoms()]
    return fx.Chain.from_bonds(len(masses), bonds, masses=masses, hard="torsional", **options)


def close_to_dense(chain, x):
    expected, condition = oracles.hard_logdet(Spec.of(chain), x)
    assert fx.logdet(chain, x) == pytest.approx(expected, rel=1e-11, abs=1e-15 * condition)
    assert fx.fixman_potential(chain, x, KT) == pytest.approx(KT * expected / 2, rel=1e-11)


# --- everything hard but the rotatable torsions -------------------------------------------------


def test_butane_of_united_atoms():
    """CH₃-CH₂-CH₂-CH₃ with all bonds and angles hard: one soft torsion."""
    chain = fx.Chain.from_bonds(
        4, [(0, 1), (1, 2), (2, 3)], masses=[15.035, 14.027, 14.027, 15.035], hard="torsional"
    )
    assert chain == fx.Chain.linear(4, masses=chain.masses, hard=("length", "angle"))
    q = np.tile(chain.internal(np.random.default_rng(1).normal(size=(4, 3))), (25, 1))
    kinds = np.array([c.kind for c in chain.coordinates])[chain.hard]
    q[:, chain.hard] = np.where(kinds == "length", 0.153, np.pi - np.deg2rad(112.0))
    q[:, -1] = np.linspace(-np.pi, np.pi, 25)
    x = chain.cartesian(q)
    spec = Spec.of(chain)
    dense = [oracles.hard_logdet(spec, one)[0] for one in x]
    energy = fx.fixman_potential(chain, x, KT)
    np.testing.assert_allclose(energy, 0.5 * KT * np.array(dense), rtol=1e-12)
    np.testing.assert_allclose(energy, energy[::-1], rtol=1e-12)  # mirror images
    assert 0.05 < np.ptp(energy) / KT < 0.5
    # The force on the torsion is the slope of the energy over it.
    turn = np.tile(np.eye(12)[-1], (25, 1))
    before, after = (fx.fixman_potential(chain, chain.cartesian(q + h * turn), KT)
                     for h in (-1e-4, 1e-4))  # fmt: skip
    power = np.sum(fx.fixman_force(chain, x, KT) * chain.cartesian(q, turn)[1], axis=(1, 2))
    np.testing.assert_allclose(power, (before - after) / 2e-4, atol=1e-7 * KT)


def test_alanine_dipeptide(mm, dipeptide):
    chain = torsional(mm, dipeptide.topology, drop_redundant=True)
    assert chain.n == 22
    assert chain.redundant == ()
    names = [f"{atom.residue.name}.{atom.name}" for atom in dipeptide.topology.atoms()]
    soft = [chain.coordinates[k] for k in chain.soft]
    axes = {
        frozenset(names[bead] for bead in c.beads[1:3])
        for c in soft
        if c.kind == "torsion" and min(c.beads) >= 0
    }
    rotatable = ["ACE.CH3 ACE.C", "ACE.C ALA.N", "ALA.N ALA.CA", "ALA.CA ALA.CB",
                 "ALA.CA ALA.C", "ALA.C NME.N", "NME.N NME.C"]  # fmt: skip
    assert axes == {frozenset(pair.split()) for pair in rotatable}
    assert chain.hard.size == 3 * 22 - 6 - len(rotatable)
    close_to_dense(chain, nanometres(mm, dipeptide))


@pytest.mark.thorough
def test_villin(mm, villin):
    """582 atoms; the rings of four Phe, a Pro, a Trp and a His make 24 dependent rows."""
    x = nanometres(mm, villin)
    with pytest.raises(fx.SingularConstraintError):
        torsional(mm, villin.topology)
    chain = torsional(mm, villin.topology, drop_redundant=True)
    rings = {"PRO": 1, "TRP": 2, "PHE": 1, "HIS": 1, "TYR": 1}
    count = sum(rings.get(residue.name, 0) for residue in villin.topology.residues())
    assert len(chain.redundant) == 3 * count  # a closing bond and its two angles each
    close_to_dense(chain, x)
    forces = fx.fixman_force(chain, x, KT)
    scale = np.abs(forces).sum()
    assert np.abs(forces.sum(axis=0)).max() < 1e-12 * scale
    assert np.abs(np.cross(x, forces).sum(axis=0)).max() < 1e-12 * scale


BENZENE = ([(k, (k + 1) % 6) for k in range(6)] + [(k, k + 6) for k in range(6)],
           [12.011] * 6 + [1.008] * 6)  # fmt: skip


def benzene(rng=None):
    """Return the plane hexagon in nm, puckered a little where a generator is given."""
    angle = np.pi / 3 * np.arange(6)
    unit = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    x = np.concatenate([0.139 * unit, (0.139 + 0.109) * unit])
    return x if rng is None else x + rng.normal(scale=0.005, size=x.shape)


def test_dependent_rows_of_benzene():
    bonds, masses = BENZENE
    with pytest.raises(fx.SingularConstraintError) as caught:
        fx.Chain.from_bonds(12, bonds, masses=masses, hard="torsional")
    chain = fx.Chain.from_bonds(12, bonds, masses=masses, hard="torsional", drop_redundant=True)
    # The tree is rigid by itself, so the ring's last bond and the angles at its ends depend.
    assert [c.kind for c in chain.redundant] == ["length", "angle", "angle"]
    (closing, *angles) = chain.redundant
    assert closing.beads in [(k, k + 1) for k in range(5)] + [(0, 5)]
    assert all(set(closing.beads) < set(c.beads) for c in angles)
    assert str(closing) in str(caught.value)
    assert chain.hard.size == 3 * 12 - 6
    for x in (benzene(), benzene(np.random.default_rng(3))):
        close_to_dense(chain, x)


def test_dependent_rows_of_proline(mm, villin):
    residue = next(r for r in villin.topology.residues() if r.name == "PRO")
    atoms = list(residue.atoms())
    place = {atom.index: k for k, atom in enumerate(atoms)}
    bonds = [(place[b[0].index], place[b[1].index]) for b in residue.internal_bonds()]
    masses = [atom.element.mass.value_in_unit(mm.unit.dalton) for atom in atoms]
    options = {"masses": masses, "hard": "torsional"}
    with pytest.raises(fx.SingularConstraintError, match=r"length\(\d+, \d+\)"):
        fx.Chain.from_bonds(len(atoms), bonds, **options)
    chain = fx.Chain.from_bonds(len(atoms), bonds, drop_redundant=True, **options)
    ring = {"N", "CA", "CB", "CG", "CD"}
    assert [c.kind for c in chain.redundant] == ["length", "angle", "angle"]
    assert all({atoms[bead].name for bead in c.beads} <= ring for c in chain.redundant)
    # Cα–C alone can turn: all else is in the ring or ends at once.
    assert chain.hard.size == 3 * len(atoms) - 6 - 1
    close_to_dense(chain, nanometres(mm, villin)[[atom.index for atom in atoms]])


# --- as OpenMM constrains them ------------------------------------------------------------------


def dense_of_constraints(mm, system, particles, x):
    """½ ln det (B M⁻¹ Bᵀ) of the System's constraints among some particles, by slogdet."""
    pairs = [system.getConstraintParameters(k)[:2] for k in range(system.getNumConstraints())]
    pairs = [pair for pair in pairs if pair[0] in particles]
    masses = [system.getParticleMass(k)._value for k in range(system.getNumParticles())]
    B = np.zeros((len(pairs), x.size))
    for row, (i, j) in enumerate(pairs):
        u = (x[j] - x[i]) / np.linalg.norm(x[j] - x[i])
        B[row, 3 * j : 3 * j + 3], B[row, 3 * i : 3 * i + 3] = u, -u
    return 0.5 * oracles.logdet(B / np.repeat(masses, 3) @ B.T)


@pytest.mark.parametrize(("constraints", "moving"), [("HBonds", 12), ("AllBonds", 22),
                                                      ("HAngles", 22)])  # fmt: skip
def test_alanine_dipeptide_in_openmm(mm, dipeptide, field, constraints, moving):
    from fixman.io.openmm import metric_force, set_temperature

    system = field.createSystem(dipeptide.topology, constraints=getattr(mm.app, constraints))
    force = metric_force(system)
    # Under HBonds three methyls get a term, N–H and Cα–H do not.
    assert len(force.getParticles()) == moving
    force.setForceGroup(7)
    system.addForce(force)
    integrator = mm.LangevinMiddleIntegrator(KELVIN, 1.0, 0.001)
    integrator.setConstraintTolerance(1e-8)
    integrator.setRandomNumberSeed(5)
    context = mm.Context(system, integrator, mm.Platform.getPlatformByName("Reference"))
    context.setPositions(dipeptide.positions)
    set_temperature(context, KELVIN)
    mm.LocalEnergyMinimizer.minimize(context, 10.0, 50)
    context.setVelocitiesToTemperature(KELVIN, 5)
    integrator.step(200)
    state = context.getState(positions=True, energy=True, groups={7})
    x = state.getPositions(asNumpy=True)._value
    energy = state.getPotentialEnergy()._value
    dense = KT * dense_of_constraints(mm, system, set(force.getParticles()), x)
    assert energy == pytest.approx(dense, rel=1e-10)
    everything = context.getState(energy=True).getPotentialEnergy()._value
    assert np.isfinite(everything)


@pytest.mark.parametrize("constraints", ["HBonds", "AllBonds"])
def test_villin_in_openmm(mm, villin, field, constraints):
    from fixman.io.openmm import metric_force, set_temperature

    system = field.createSystem(villin.topology, constraints=getattr(mm.app, constraints))
    force = metric_force(system)
    alone = mm.System()
    for k in range(system.getNumParticles()):
        alone.addParticle(system.getParticleMass(k))
    for k in range(system.getNumConstraints()):
        alone.addConstraint(*system.getConstraintParameters(k))
    alone.addForce(force)
    context = mm.Context(
        alone, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference")
    )
    context.setPositions(villin.positions)
    set_temperature(context, KELVIN)
    energy = context.getState(energy=True).getPotentialEnergy()._value
    x = nanometres(mm, villin)
    dense = KT * dense_of_constraints(mm, system, set(force.getParticles()), x)
    assert energy == pytest.approx(dense, rel=1e-10)
