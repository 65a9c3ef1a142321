"""Files of Amber, GROMACS and CHARMM, mmCIF, and solvent, for `fixman torsional`."""

from __future__ import annotations

import io as streams
from pathlib import Path

import numpy as np
import pytest

import fixman as fx
from dipeptide import FIELD, TEXT
from fixman.cli import command

BUTANE = 0.153 * np.array([[0, 0, 0], [1, 0, 0], [1.3, 0.95, 0], [1.3, 1.3, 0.94]])
WATER = np.array([[0, 0, 0], [0.05859, 0.0757, 0], [0.05859, -0.0757, 0]])
TOP = """\
[ defaults ]
1 2 yes 0.5 0.8333
[ atomtypes ]
CH3 6 15.035 0.0 A 0.39 0.7
CH2 6 14.027 0.0 A 0.39 0.4
OW 8 15.999 -0.834 A 0.315 0.636
HW 1 1.008 0.417 A 0.1 0.0
NA 11 22.99 1.0 A 0.25 0.1
[ moleculetype ]
BUT 3
[ atoms ]
1 CH3 1 BUT C1 1 0.1 15.035
2 CH2 1 BUT C2 1 -0.1 14.027
3 CH2 1 BUT C3 1 -0.1 14.027
4 CH3 1 BUT C4 1 0.1 15.035
[ bonds ]
1 2 1 0.153 250000
2 3 1 0.153 250000
3 4 1 0.153 250000
[ angles ]
1 2 3 1 112 500
2 3 4 1 112 500
[ dihedrals ]
1 2 3 4 1 0.0 6.0 3
[ moleculetype ]
SOL 2
[ atoms ]
1 OW 1 SOL OW 1 -0.834 15.999
2 HW 1 SOL HW1 1 0.417 1.008
3 HW 1 SOL HW2 1 0.417 1.008
[ settles ]
1 1 0.09572 0.15139
[ exclusions ]
1 2 3
2 1 3
3 1 2
[ moleculetype ]
NA 1
[ atoms ]
1 NA 1 NA NA 1 1.0 22.99
[ system ]
butane in little water
[ molecules ]
BUT 1
SOL 3
NA 1
"""
PSF = """\
PSF

       1 !NTITLE
 REMARKS butane

       4 !NATOM
       1 A    1    BUT  C1   C3   0.100000       15.0350           0
       2 A    1    BUT  C2   C2  -0.100000       14.0270           0
       3 A    1    BUT  C3   C2  -0.100000       14.0270           0
       4 A    1    BUT  C4   C3   0.100000       15.0350           0

       3 !NBOND: bonds
       1       2       2       3       3       4

       2 !NTHETA: angles
       1       2       3       2       3       4

       1 !NPHI: dihedrals
       1       2       3       4

       0 !NIMPHI: impropers


       0 !NDON: donors


       0 !NACC: acceptors


       0 !NNB

       0       0       0       0

       1       0 !NGRP
       0       0       0

"""
PRM = """\
* butane
*

ATOMS
MASS 1 C3 15.0350 C
MASS 2 C2 14.0270 C

BONDS
C3 C2 300.0 1.53
C2 C2 300.0 1.53

ANGLES
C3 C2 C2 60.0 112.0

DIHEDRALS
C3 C2 C2 C3 1.4 3 0.0

NONBONDED nbxmod 5 atom cdiel shift vatom vdistance vswitch -
cutnb 14.0 ctofnb 12.0 ctonnb 10.0 eps 1.0 e14fac 1.0 wmin 1.5
C3 0.0 -0.17 2.2
C2 0.0 -0.10 2.2

END
"""


@pytest.fixture(scope="module")
def torsional(mm):
    from fixman.io.openmm import torsional

    return torsional


@pytest.fixture
def run(mm, capsys, tmp_path, monkeypatch):
    """Run the command in a folder of its own: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = command.main(["torsional", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def gromacs(folder, edge=2.0):
    """Write box.gro and topol.top; butane lies across a face of the box."""
    x = [BUTANE - [0.1, 0.0, 0.0]]
    x += [WATER + node for node in ([0.8, 0.8, 0.8], [1.4, 0.4, 0.5], [0.4, 1.2, 1.5])]
    x = np.mod(np.concatenate([*x, [[1.0, 1.5, 0.3]]]), edge)
    names = ["C1", "C2", "C3", "C4", *["OW", "HW1", "HW2"] * 3, "NA"]
    residues = [(1, "BUT")] * 4 + [(2 + k // 3, "SOL") for k in range(9)] + [(5, "NA")]
    lines = [
        f"{number:5d}{residue:<5s}{name:>5s}{k + 1:5d}" + "".join(f"{a:8.3f}" for a in y)
        for k, ((number, residue), name, y) in enumerate(zip(residues, names, x, strict=True))
    ]
    box = "".join(f"{edge:10.5f}" for _ in range(3))
    text = "\n".join(["butane", f"{len(lines):5d}", *lines, box, ""])
    (folder / "box.gro").write_text(text, encoding="utf-8")
    (folder / "topol.top").write_text(TOP, encoding="utf-8")


USUAL = ("--temperature", "200", "--platform", "Reference", "--seed", "3", "--dt", "0.002")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_gromacs_in_a_box_runs_and_resumes(run, torsional, tmp_path, peer):
    gromacs(tmp_path)
    given = ("box.gro", "--forcefield", "topol.top", "--cutoff", "0.8", *USUAL, "--every", "10")
    code, out, err = run(*given, "--steps", "20", "--out", "one")
    assert (code, err.count("warning")) == (0, 1)
    assert "the box holds 0.0" in err  # g/cm³
    assert "<System: 1 chain of 4 beads, 3 chains of 3 beads, 1 chain of 1 beads" in out
    assert "1 turn, on Reference, seed 3" in out
    assert command.main(["resume", "one", "--steps", "40"]) == 0
    assert run(*given, "--steps", "40", "--out", "two")[0] == 0
    one, two = fx.load_run("one"), fx.load_run("two")
    assert one.x.tobytes() == two.x.tobytes()
    assert one.system.box.tolist() == [2.0, 2.0, 2.0]
    _, waters, _ = one.system.split(one.x[:, 0])
    apart = np.linalg.norm(waters[..., [0, 0, 1], :] - waters[..., [1, 2, 2], :], axis=-1)
    assert apart == pytest.approx(np.broadcast_to([0.09572, 0.09572, 0.15139], apart.shape))
    molecule = torsional.Molecule.of_run(one.about)
    energies = one.observables["potential_energy"][:, 0]
    assert energies == pytest.approx([molecule.energy(x) for x in one.x[:, 0]])
    moving = 0.5 * np.sum(one.system.masses[:, None] * one.v[:, 0] ** 2, axis=(1, 2))
    assert one.observables["kinetic_energy"][:, 0] == pytest.approx(moving)
    assert np.ptp(molecule.x0[:4], axis=0).max() < 0.3  # made whole
    peer("MDAnalysis")
    universe = one.universe()
    assert universe.atoms.names.tolist()[:6] == ["C1", "C2", "C3", "C4", "O", "H1"]
    assert len(universe.atoms.fragments) == 5
    np.testing.assert_allclose(universe.dimensions, [20.0, 20.0, 20.0, 90.0, 90.0, 90.0])


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # OpenMM leaves files open
def test_energies_of_a_topology_are_those_of_openmm(mm, torsional, tmp_path):
    gromacs(tmp_path)
    app, nm = mm.app, mm.unit.nanometer
    path, top = str(tmp_path / "box.gro"), str(tmp_path / "topol.top")
    with pytest.warns(RuntimeWarning, match="the box holds"):
        molecule = torsional.Molecule.prepare(path, top, "Reference", cutoff=0.8)
    box = app.GromacsGroFile(path).getPeriodicBoxVectors()
    system = app.GromacsTopFile(top, periodicBoxVectors=box).createSystem(
        nonbondedMethod=app.PME, nonbondedCutoff=0.8 * nm, constraints=None
    )
    platform = mm.Platform.getPlatformByName("Reference")
    context = mm.Context(system, mm.VerletIntegrator(0.001), platform)
    context.setPositions(molecule.x0)
    energy = context.getState(energy=True).getPotentialEnergy()._value
    assert molecule.energy(molecule.x0) == pytest.approx(energy, rel=1e-10)
    assert molecule.periodic
    assert not molecule.in_vacuum
    assert len(molecule.rotatable) == 1


def test_charmm(mm, torsional, run, tmp_path):
    for name, text in (("butane.psf", PSF), ("butane.prm", PRM)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    lines = [
        f"ATOM  {k + 1:5d}  C{k + 1}  BUT A   1    " + "".join(f"{10 * a:8.3f}" for a in y)
        for k, y in enumerate(BUTANE)
    ]
    (tmp_path / "butane.pdb").write_text("\n".join([*lines, "END", ""]), encoding="utf-8")
    crd = [
        f"{k + 1:5d}{1:5d} BUT  C{k + 1}  "
        + "".join(f"{10 * a:10.5f}" for a in y)
        + " A    1      0.00000"
        for k, y in enumerate(BUTANE)
    ]
    text = "\n".join(["* butane", "*", "    4", *crd, ""])
    (tmp_path / "butane.crd").write_text(text, encoding="utf-8")
    field = ("--forcefield", "butane.psf", "butane.prm")
    steps = (*USUAL, "--steps", "4", "--every", "2")
    for ending in ("pdb", "crd"):
        code, out, err = run(f"butane.{ending}", *field, *steps, "--out", ending)
        assert (code, err) == (0, "")
        assert "1 turn, in a vacuum, on Reference" in out
    one, two = fx.load_run("pdb"), fx.load_run("crd")
    np.testing.assert_allclose(one.x[0], two.x[0], atol=2e-4)  # PDB files round
    molecule = torsional.Molecule.of_run(one.about)
    bonds, bends = (0.5 * k for k in (2 * 300.0 * 418.4, 2 * 60.0 * 4.184))
    u = np.diff(molecule.x0, axis=0)
    lengths = np.linalg.norm(u, axis=1)
    angles = np.pi - np.arccos(np.sum(u[1:] * u[:-1], axis=1) / lengths[1:] / lengths[:-1])
    turn = fx.observables.torsions(fx.Chain.linear(4), molecule.x0)[0]
    energy = bonds * np.sum((lengths - 0.153) ** 2) + 1.4 * 4.184 * (1 + np.cos(3 * turn))
    energy += bends * np.sum((angles - np.radians(112)) ** 2)
    far = 10 * np.linalg.norm(molecule.x0[3] - molecule.x0[0])  # Å, 1–4: Lennard-Jones, charges
    energy += 4.184 * 0.17 * ((4.4 / far) ** 12 - 2 * (4.4 / far) ** 6) + 13.8935 * 0.1 / far * 10
    assert molecule.energy(molecule.x0) == pytest.approx(energy, abs=0.05)


def test_mmcif_is_what_pdb_is(mm, torsional, tmp_path):
    pdb = mm.app.PDBFile(streams.StringIO(TEXT))
    with (tmp_path / "ala.cif").open("w", encoding="utf-8") as file:
        mm.app.PDBxFile.writeFile(pdb.topology, pdb.positions, file)
    made = torsional.Molecule.prepare(tmp_path / "ala.cif", FIELD, "Reference")
    same = torsional.Molecule(TEXT, FIELD, "Reference")
    assert made.chain() == same.chain()
    assert made.names == same.names
    assert made.energy(made.x0) == pytest.approx(same.energy(same.x0), abs=1e-6)


@pytest.mark.thorough
def test_amber_in_a_box(mm, torsional, peer):
    """Alanine dipeptide in a thousand waters."""
    peer("MDAnalysisTests")
    import MDAnalysisTests

    folder = Path(MDAnalysisTests.__file__).parent / "data" / "Amber"
    names = [str(folder / f"parmed_ala2_solv.{ending}") for ending in ("rst7", "parm7")]
    molecule = torsional.Molecule.prepare(*names, "CPU")
    system = molecule.chain()
    assert [(chain.n, many) for chain, many in system.kinds] == [(23, 1), (3, 1001)]
    assert system.kinds[1][0].hard.size == 3
    files = mm.app.AmberInpcrdFile(names[0])
    given = mm.app.AmberPrmtopFile(names[1], periodicBoxVectors=files.boxVectors).createSystem(
        nonbondedMethod=mm.app.PME, nonbondedCutoff=0.9 * mm.unit.nanometer
    )
    context = mm.Context(given, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("CPU"))
    context.setPositions(molecule.x0)
    energy = context.getState(energy=True).getPotentialEnergy()._value
    assert molecule.energy(molecule.x0) == pytest.approx(energy, rel=1e-4)
    stepper = fx.Langevin(0.002, kT=2.5, friction=5.0, potential=molecule)
    fx.simulate(system, molecule.x0, stepper, 4, every=2, rng=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["x.xyz", "--forcefield", "amber14-all.xml"], "x.xyz has positions in an unknown form: "),
        (["box.gro", "--forcefield", "amber14-all.xml"], "box.gro has no bonds: the force field "),
        (
            ["box.gro", "--forcefield", "topol.itp"],
            "force field topol.itp: topol.itp is neither .xml",
        ),
        (["box.gro", "--forcefield", "none.prmtop"], "no such file: none.prmtop"),
        (["box.gro", "--forcefield", "x.psf"], "force field x.psf: a PSF needs files of parame"),
        (["box.gro", "--forcefield", "topol.top", "OBC2"], "topol.top takes nothing beside it"),
        (["box.gro", "--forcefield", "x.prmtop", "ABC"], "x.prmtop takes one of HCT, OBC1, OBC2"),
        (["box.gro", "--forcefield", "x.prmtop"], "force field x.prmtop: "),
        (["box.gro", "--forcefield", "topol.top", "--drop-solvent"], "--drop-solvent is for XML"),
        (["few.gro", "--forcefield", "topol.top"], "of 1 atoms, and 14 have forces"),
        (["topol.top", "--forcefield", "topol.top"], "topol.top has positions in an unknown form"),
        (["bad.gro", "--forcefield", "topol.top"], "bad.gro cannot be read as a GRO file: "),
        (["bad.rst7", "--forcefield", "topol.top"], "cannot be read as coordinates of Amber: "),
        (["bad.crd", "--forcefield", "topol.top"], "cannot be read as coordinates of CHARMM: "),
        (["bad.cif", "--forcefield", "amber14-all.xml"], "cannot be read as an mmCIF file: "),
    ],
)
def test_files_that_will_not_do(run, tmp_path, given, message):
    gromacs(tmp_path)
    for name in ("x.xyz", "topol.itp", "x.psf", "x.prmtop"):
        (tmp_path / name).write_text("nothing\n", encoding="utf-8")
    for ending in ("gro", "rst7", "crd", "cif"):
        (tmp_path / f"bad.{ending}").write_bytes(b"\xbe\x00\xff nothing")
    one = "one\n    1\n    1BUT     C1    1   0.000   0.000   0.000\n   2.0 2.0 2.0\n"
    (tmp_path / "few.gro").write_text(one, encoding="utf-8")
    code, _, err = run(*given, *USUAL, "--steps", "2", "--out", "run")
    assert code == 1
    assert message in err
    assert err.count("\n") == 1
