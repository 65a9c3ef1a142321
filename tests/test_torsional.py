"""`fixman torsional`, its runs and what is written of them: alanine dipeptide, in seconds."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

import fixman as fx
from dipeptide import FIELD, TEXT
from fixman.chains import hard_sets, topology
from fixman.cli import command
from fixman.errors import ConstraintSolveError, SingularConstraintError
from fixman.potentials.binding import GAS_CONSTANT

WATER = """\
HETATM   23  O   HOH     4      15.000  15.000  15.000
HETATM   24  H1  HOH     4      15.957  15.000  15.000
HETATM   25  H2  HOH     4      14.760  15.927  15.000
END
"""
USUAL = ("--forcefield", *FIELD, "--temperature", "300", "--platform", "Reference", "--seed", "3")
SHORT = (*USUAL, "--steps", "60", "--every", "10", "--minimize")


@pytest.fixture(scope="module")
def io(peer):
    peer("openmm.app")
    from fixman.io.openmm import torsional

    return torsional


@pytest.fixture(scope="module")
def molecule(io):
    return io.Molecule(TEXT, FIELD, "Reference")


@pytest.fixture
def run(io, capsys, tmp_path, monkeypatch):
    """Run the command in a folder with the file ala.pdb: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ala.pdb").write_text(TEXT, encoding="utf-8")

    def run(*arguments):
        code = command.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


# --- the molecule -------------------------------------------------------------------------------


def test_what_turns(io, molecule):
    names = molecule.names
    assert names[10] == "ALA 2 CB"
    pairs = {frozenset(names[k] for k in pair) for pair in molecule.rotatable}
    assert frozenset({"ALA 2 N", "ALA 2 CA"}) in pairs
    assert len(pairs) == 7
    assert molecule.chain().soft.size == 6 + 7
    assert molecule.chain(["methyl"]).soft.size == 6 + 4
    assert molecule.chain(["methyl", "peptide"]).soft.size == 6 + 2
    assert molecule.chain(["hydroxyl", "ammonium"]).soft.size == 6 + 7
    with pytest.raises(ValueError, match="cannot hold 'ethyl': choose among methyl, hydroxyl"):
        molecule.chain(["ethyl"])


def test_insertion_codes_tell_residues_apart(io, tmp_path):
    lines = [
        line[:22] + "   2X" + line[27:] if line[22:26].strip() == "3" else line
        for line in TEXT.splitlines()
    ]
    (tmp_path / "inserted.pdb").write_text("\n".join(lines), encoding="utf-8")
    for made in (
        io.Molecule("\n".join(lines), FIELD, "Reference"),
        io.Molecule.prepare(tmp_path / "inserted.pdb", FIELD, "Reference"),
    ):
        assert made.names[10] == "ALA 2 CB"
        assert made.names[-1].startswith("NME 2X ")
        assert len(set(made.names)) == len(made.names)
        assert [name for name, _ in made.backbone] == ["ALA 2"]


def ring_of_carbons(app, size):
    """Return the topology of a ring of CH₂ groups."""
    topology = app.Topology()
    residue = topology.addResidue("CYC", topology.addChain())
    atoms = [topology.addAtom(f"C{k}", app.element.carbon, residue) for k in range(size)]
    for k in range(size):
        topology.addBond(atoms[k], atoms[(k + 1) % size])
        for j in range(2):
            topology.addBond(atoms[k], topology.addAtom(f"H{k}{j}", app.element.hydrogen, residue))
    return topology


@pytest.mark.parametrize(("size", "turns"), [(3, 0), (5, 0), (8, 0), (9, 9), (12, 12)])
def test_rings_of_more_than_eight_turn(io, size, turns):
    """Cyclododecane was rigid without a word."""
    made = ring_of_carbons(io.app, size)
    bonds = [(one.index, two.index) for one, two in made.bonds()]
    tree = topology.spanning_tree(3 * size, bonds)
    assert len(hard_sets.rotatable(*tree)) == turns
    chain = io.chain(made)
    assert 3 * chain.n - 6 - chain.hard.size == max(turns - 6, 0)
    small = topology.ring_bonds(*tree)[1]
    assert small.size == size
    assert small.all() == (turns == 0)


def cobrotoxin(peer, path):
    """Write the protein of MDAnalysis's file, which has a segment where OpenMM looks for more."""
    peer("MDAnalysisTests")
    import MDAnalysisTests

    source = Path(MDAnalysisTests.__file__).parent / "data" / "cobrotoxin_dry_neutral_0.pdb"
    lines = source.read_text(encoding="utf-8").splitlines()
    lines = [f"{line[:66]}\n" for line in lines if line.startswith("ATOM")]
    path.write_text("".join([*lines, "END\n"]), encoding="utf-8")


def test_the_command_and_python_agree_about_rings(io, tmp_path, peer):
    """Four disulphides, which close large rings; five-membered and six-membered rings are stiff."""
    cobrotoxin(peer, tmp_path / "toxin.pdb")
    toxin = io.Molecule.prepare(tmp_path / "toxin.pdb", FIELD, "Reference", drop_solvent=True)
    chain = toxin.chain()
    assert chain == io.chain(toxin.system) == io.chain(toxin.system, topology=toxin.topology)
    names = toxin.names
    turning = {frozenset(names[k] for k in pair) for pair in toxin.rotatable}
    inside = [pair for pair in turning if sum(name.endswith(("SG", "CB")) for name in pair) == 2]
    assert len(inside) >= 6  # CB–SG of half-cystines, but for bonds that close rings
    small, large = toxin.ring_bonds
    rings = {"PRO": 5, "HIS": 5, "PHE": 6, "TYR": 6, "TRP": 10}
    residues = [residue.name for residue in toxin.topology.residues()]
    assert small == sum(rings.get(name[:3].replace("HID", "HIS"), 0) for name in residues)
    assert large > 100


def test_phi_and_psi_are_those_of_mdanalysis(molecule, peer):
    peer("MDAnalysis")
    from MDAnalysis.lib.distances import calc_dihedrals

    chain, observables = molecule.chain(), molecule.observables()
    x = molecule.x0 + np.random.default_rng(1).normal(scale=0.02, size=(5, *molecule.x0.shape))
    ((name, beads),) = molecule.backbone
    assert name == "ALA 2"
    assert [molecule.names[k] for k in beads] == [
        "ACE 1 C", "ALA 2 N", "ALA 2 CA", "ALA 2 C", "NME 3 N",
    ]  # fmt: skip
    for angle, four in (("phi", beads[:4]), ("psi", beads[1:])):
        expected = calc_dihedrals(*(x[:, k] for k in four))
        assert observables[angle](chain, x)[:, 0] == pytest.approx(expected, abs=1e-6)
    assert observables["potential_energy"](chain, x)[2] == molecule.energy(x[2])


def test_minimum(molecule):
    x = molecule.minimized(molecule.x0)
    assert np.sqrt(np.mean(molecule.force(x) ** 2)) < 10.0
    assert molecule.energy(x) < molecule.energy(molecule.x0)


def test_errors_name_atoms(io):
    names = [f"ALA 3 {name}" for name in ("N", "CA", "CB", "C")]
    for kind in (ConstraintSolveError, SingularConstraintError):
        with pytest.raises(kind) as caught, io.naming(names):
            raise kind("bead 2 and bead 1 coincide; length(1, 2)", beads=(1, 2))
        assert str(caught.value) == (
            "bead 2 and bead 1 coincide; length(1, 2); bead 1 is ALA 3 CA; bead 2 is ALA 3 CB"
        )
        assert caught.value.beads == (1, 2)


def test_one_word_is_a_word(io, molecule):
    assert molecule.chain("methyl") == molecule.chain(["methyl"])
    with pytest.raises(ValueError, match=r"force field amber99\.xyz: "):
        io.Molecule(TEXT, "amber99.xyz")


# --- runs ---------------------------------------------------------------------------------------


def test_a_run_goes_on_bit_for_bit(run, molecule):
    code, out, err = run("torsional", "ala.pdb", *SHORT, "--out", "one")
    assert (code, err) == (0, "")
    assert "7 turn, on Reference, seed 3\n<Run: 7 frames of 1 chain of " in out
    assert run("resume", "one", "--steps", "120")[1].startswith("<Run: 13 frames of 1 chain of ")
    assert run("torsional", "ala.pdb", *SHORT[:-4], "120", *SHORT[-3:], "--out", "two")[0] == 0
    one, two = fx.load_run("one"), fx.load_run("two")
    assert one.x.tobytes() == two.x.tobytes()
    assert one.v.tobytes() == two.v.tobytes()
    energies = one.observables["potential_energy"][:, 0]
    assert energies == pytest.approx([molecule.energy(x) for x in one.x[:, 0]])
    assert one.observables["phi"].shape == one.observables["psi"].shape == (13, 1, 1)
    hard = one.chain.hard_values(one.x[:, 0])
    turns = np.abs(np.angle(np.exp(1j * (hard - hard[0]))))
    assert turns.max() < 1e-10
    assert one.about["stepper"]["ensemble"] == "stiff"


def test_a_run_goes_on_from_python(run, io):
    assert run("torsional", "ala.pdb", *SHORT, "--out", "one")[0] == 0
    assert len(fx.resume("one", 80)) == 9
    assert io.Molecule.of_run(fx.load_run("one")).names[10] == "ALA 2 CB"
    assert io.Molecule.of_run("one").names[10] == "ALA 2 CB"
    with pytest.raises(ValueError, match=r"no text of lines; Molecule\.prepare reads files"):
        io.Molecule(Path("ala.pdb"), ["amber14-all.xml"])
    code, out, _ = run("info", "one")
    assert (code, "units: nm, ps, dalton, kJ/mol\n" in out) == (0, True)
    code, _, err = run("audit", "one")
    assert (code, err.count("\n"), "one is a run: fixman export" in err) == (1, 1, True)


def test_long_steps_of_python_are_those_of_the_command(molecule):
    chain, x = molecule.chain(), molecule.minimized(molecule.x0)
    given = {"kT": 300 * GAS_CONSTANT, "friction": 5.0, "potential": molecule}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fx.simulate(chain, x, fx.Langevin(0.008, **given), 1, rng=1)
    with pytest.warns(RuntimeWarning, match=r"dt=0\.02 is long: above 0\.01 ps energies") as found:
        fx.simulate(chain, x, fx.Langevin(0.02, **given), 1, rng=1)
    assert found[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="of the shortest bond"):  # angles are soft
        fx.simulate(bonds_alone(molecule), x, fx.Langevin(0.011, **given), 1, rng=1)


def test_long_steps_of_several_molecules(io):
    other = [line[:46] + f"{float(line[46:54]) + 9.0:8.3f}\n" for line in TEXT.splitlines()[:22]]
    parts = [*TEXT.splitlines(True)[:22], "TER\n", *other, "TER\nEND\n"]
    both = io.Molecule("".join(parts), FIELD, "Reference")
    model, given = both.chain(), {"kT": 300 * GAS_CONSTANT, "potential": both}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fx.simulate(model, both.x0, fx.Newton(0.008, **given), 1, rng=1)
    with pytest.warns(RuntimeWarning, match=r"dt=0\.011 is long: above 0\.01 ps") as found:
        fx.simulate(model, both.x0, fx.Newton(0.011, **given), 1, rng=1)
    assert [one.filename for one in found] == [__file__]


def bonds_alone(molecule):
    """Return the chain with hard bonds alone."""
    from fixman.io.openmm import chain

    return chain(molecule.system, hard="all-bonds", topology=molecule.topology)


def test_positions_in_angstrom_are_refused_later_too(molecule):
    molecule.energy(molecule.x0)
    with pytest.raises(ValueError, match="are positions set, in nm"):
        fx.simulate(
            molecule.chain(),
            10.0 * molecule.x0,
            fx.Newton(0.004, kT=300 * GAS_CONSTANT, potential=molecule),
            1,
        )


def test_newton_conserves_energy(run):
    options = ("--method", "newton", "--dt", "0.002", "--steps", "200", "--every", "10")
    assert run("torsional", "ala.pdb", *USUAL, *options, "--minimize", "--out", "run")[0] == 0
    found = fx.load_run("run").observables
    energy = found["potential_energy"] + found["kinetic_energy"]
    assert np.ptp(energy) < 0.05 * np.ptp(found["kinetic_energy"])
    assert np.ptp(energy) < 0.5  # kJ/mol


@pytest.mark.thorough
def test_hybrid_monte_carlo_and_time(run):
    options = (
        "--method",
        "hmc",
        "--leaps",
        "5",
        "--dt",
        "0.01",
        "--time",
        "0.2",
        "--replicas",
        "2",
    )
    code, out, _ = run("torsional", "ala.pdb", *USUAL, *options, "--minimize", "--out", "run")
    assert code == 0
    assert "of the moves accepted" in out
    found = fx.load_run("run")
    assert found.about["steps"] == 20
    assert found.x.shape == (21, 2, 22, 3)
    assert run("resume", "run", "--steps", "22")[0] == 0


def test_other_force_fields_are_noticed(run, io):
    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    about = fx.load_run("run").about
    io.Molecule.of_run(about)
    about["stepper"]["potential"]["forcefield"] = ["amber99sbildn.xml"]
    with pytest.raises(ValueError, match="makes another System than at the start of the run"):
        io.Molecule.of_run(about)
    about["stepper"]["potential"] = None
    with pytest.raises(ValueError, match="this run has no PDB file"):
        io.Molecule.of_run(about)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--dt", "0.02"], "warning: --dt 0.02 is long: above 0.01 ps energies of proteins drift"),
        (["--leaps", "5"], "error: --leaps is for --method hmc"),
        (["--method", "newton", "--ensemble", "rigid"], "--ensemble is for --method langevin or"),
        (["--hold", "methyl,wings"], "error: cannot hold 'wings': choose among methyl"),
        (["--dt", "8"], "error: --dt is in ps, got 8: 8 fs is 0.008"),
        (["--temperature", "-3"], "error: --temperature must be positive"),
        (
            ["--platform", "Abacus"],
            "of the System: There is no registered Platform",
        ),
        (["--forcefield", "none.xml"], "error: force field none.xml: "),
        (["--forcefield", "amber99_obc.xml"], "error: "),
    ],
)
def test_what_flags_say(run, given, message):
    code, _, err = run("torsional", "ala.pdb", *SHORT, "--out", "run", *given)
    assert code == (0 if "warning" in message else 1)
    assert message in err
    assert err.count("\n") == 1


def test_files_that_will_not_do(run, tmp_path):
    assert "error: no such file: no.pdb" in run("torsional", "no.pdb", *SHORT, "--out", "r")[2]
    for content in (b"nothing\n", b"\xbe\x00\xff"):
        (tmp_path / "bad.pdb").write_bytes(content)
        error = run("torsional", "bad.pdb", *SHORT, "--out", "r")[2]
        assert "error: bad.pdb cannot be read as a PDB file: " in error
    (tmp_path / "wet.pdb").write_text(TEXT.replace("END\n", WATER), encoding="utf-8")
    error = run("torsional", "wet.pdb", *SHORT, "--out", "r")[2]
    assert "No template found for residue 3 (HOH)" in error
    assert "--drop-solvent leaves water and ions out, a file such as amber14/tip3p.xml" in error
    assert run("torsional", "wet.pdb", *SHORT, "--drop-solvent", "--out", "dry")[0] == 0
    bare = "".join(line for line in TEXT.splitlines(True) if " H" not in line[12:15])
    (tmp_path / "bare.pdb").write_text(bare, encoding="utf-8")
    error = run("torsional", "bare.pdb", *SHORT, "--out", "r")[2]
    assert "No template found for residue 0 (ACE)" in error
    assert "--add-hydrogens" in error
    assert run("torsional", "bare.pdb", *SHORT, "--add-hydrogens", "--out", "r")[0] == 0
    assert fx.load_run("r").chain.n == 22


def written(tmp_path, name, atoms, more=""):
    """Write rows (chain, residue, number, atom, element, x) as a PDB file."""
    lines = [
        f"ATOM  {k + 1:5d}  {atom:<3s} {residue} {strand}{number:4d}    "
        + "".join(f"{a:8.3f}" for a in x)
        + f"  1.00  0.00          {element:>2s}"
        for k, (strand, residue, number, atom, element, x) in enumerate(atoms)
    ]
    text = "\n".join([*lines, *more.splitlines(), "END", ""])
    (tmp_path / name).write_text(text, encoding="utf-8")


NITRILE = """\
<ForceField><AtomTypes>
<Type name="C" class="C" element="C" mass="12.011"/>
<Type name="Y" class="Y" element="C" mass="12.011"/>
<Type name="N" class="N" element="N" mass="14.007"/>
<Type name="H" class="H" element="H" mass="1.008"/></AtomTypes>
<Residues><Residue name="PRN"><Atom name="C1" type="C"/><Atom name="C2" type="C"/>
<Atom name="C3" type="Y"/><Atom name="N" type="N"/><Atom name="H1" type="H"/>
<Atom name="H2" type="H"/><Atom name="H3" type="H"/><Atom name="H4" type="H"/>
<Atom name="H5" type="H"/><Bond from="0" to="1"/><Bond from="1" to="2"/><Bond from="2" to="3"/>
<Bond from="0" to="4"/><Bond from="0" to="5"/><Bond from="0" to="6"/><Bond from="1" to="7"/>
<Bond from="1" to="8"/></Residue></Residues>
<HarmonicBondForce><Bond class1="C" class2="C" length="0.153" k="250000"/>
<Bond class1="C" class2="Y" length="0.147" k="250000"/>
<Bond class1="Y" class2="N" length="0.116" k="500000"/>
<Bond class1="C" class2="H" length="0.109" k="280000"/></HarmonicBondForce>
<HarmonicAngleForce><Angle class1="H" class2="C" class3="" angle="1.911" k="300"/>
<Angle class1="C" class2="C" class3="Y" angle="1.95" k="500"/>
<Angle class1="C" class2="Y" class3="N" angle="3.14159265" k="400"/></HarmonicAngleForce>
<PeriodicTorsionForce><Proper class1="" class2="C" class3="C" class4="" periodicity1="3"
 phase1="0" k1="0.6"/></PeriodicTorsionForce></ForceField>
"""
PROPIONITRILE = [
    ("A", "PRN", 1, name, name[0], x)
    for name, x in (
        ("C1", (0.0, 0.0, 0.0)), ("C2", (1.53, 0.0, 0.0)), ("C3", (2.05, 1.375, 0.0)),
        ("N", (2.46, 2.46, 0.02)), ("H1", (-0.36, 1.03, 0.0)), ("H2", (-0.36, -0.51, 0.89)),
        ("H3", (-0.36, -0.51, -0.89)), ("H4", (1.89, -0.51, 0.89)), ("H5", (1.89, -0.51, -0.89)),
    )
]  # fmt: skip
NITRILE_BONDS = "CONECT    1    2    5    6    7\nCONECT    2    3    8    9\nCONECT    3    4\n"


@pytest.mark.parametrize("minimize", [[], ["--minimize"]])
def test_a_nitrile_is_held_straight(run, tmp_path, io, minimize):
    written(tmp_path, "nitrile.pdb", PROPIONITRILE, NITRILE_BONDS)
    (tmp_path / "nitrile.xml").write_text(NITRILE, encoding="utf-8")
    usual = ("--temperature", "300", "--platform", "CPU", "--steps", "20", "--seed", "1")
    given = ("--forcefield", "nitrile.xml", *usual, "--every", "10", *minimize, "--out", "run")
    code, out, err = run("torsional", "nitrile.pdb", *given)
    assert (code, err) == (0, "")
    assert "1 turn, in a vacuum, on CPU" in out
    found = fx.load_run("run")
    assert found.chain.straight == ((1, 2, 3),)
    u, v = np.diff(found.x[:, 0, 1:4], axis=1).swapaxes(0, 1)
    assert np.linalg.norm(np.cross(u, v), axis=-1) == pytest.approx(np.zeros(3), abs=1e-12)

    molecule = io.Molecule.prepare("nitrile.pdb", "nitrile.xml", "Reference")
    chain, x = molecule.chain(), molecule.x0
    stepper = fx.Newton(0.0005, kT=2.5, potential=molecule)
    with (
        pytest.raises(SingularConstraintError, match=r"bend \(1, 2, 3\).*; bead 3 is PRN 1 N"),
        io.naming(molecule.names),
    ):
        fx.simulate(chain, x, stepper, 1)
    fx.simulate(chain, fx.project(chain, x, chain.hard_values(x)), stepper, 1, rng=1)


def test_starts_with_bonds_that_are_none(run, tmp_path, io, molecule):
    apart = TEXT.splitlines(True)
    apart[16:22] = [
        f"{line[:46]}{float(line[46:54]) + 9.0:8.3f}{line[54:]}" for line in apart[16:22]
    ]
    (tmp_path / "gap.pdb").write_text("".join(apart), encoding="utf-8")
    for more in ([], ["--minimize"]):
        code, _, err = run("torsional", "gap.pdb", *USUAL, "--steps", "10", *more, "--out", "r")
        assert code == 1
        assert "ALA 2 C and NME 3 N are 0.91 nm apart" in err
        assert (
            "0.134 nm in the force field: are positions set, in nm and whole, and is no resid"
            in err
        )
    potential = io.Forces(molecule.system, "Reference")
    with pytest.raises(ValueError, match="are positions set, in nm"):
        potential.energy(10.0 * molecule.x0)
    with pytest.raises(
        ValueError, match=r"particle \d+ and particle \d+ are .* nm in the force field"
    ):
        potential.energy(10.0 * molecule.x0)
    assert np.isfinite(potential.energy(molecule.x0))


@pytest.mark.thorough
def test_several_molecules_and_atoms_that_lack(run, tmp_path):
    other = [line[:21] + "B" + line[22:46] + f"{float(line[46:54]) + 9.0:8.3f}\n"
             for line in TEXT.splitlines()[:22]]  # fmt: skip
    first = [line[:21] + "A" + line[22:] for line in TEXT.splitlines(True)[:22]]
    (tmp_path / "two.pdb").write_text("".join([*first, "TER\n", *other, "TER\nEND\n"]))
    assert run("torsional", "two.pdb", *SHORT, "--out", "both")[0] == 0
    ((chain, many),) = fx.load_run("both").system.kinds
    assert (chain.n, many) == (22, 2)
    assert fx.load_run("both").observables["phi"].shape == (7, 1, 2)
    error = run("torsional", "two.pdb", *SHORT, "--chain", "C", "--out", "r")[2]
    assert "two.pdb has no chain 'C', it has A, B" in error
    assert run("torsional", "two.pdb", *SHORT, "--chain", "B", "--out", "b")[0] == 0
    assert fx.load_run("b").chain.n == 22
    lacking = "".join(line for line in TEXT.splitlines(True) if " CB " not in line)
    (tmp_path / "lacking.pdb").write_text(lacking, encoding="utf-8")
    error = run("torsional", "lacking.pdb", *SHORT, "--out", "r")[2]
    assert "No template found for residue 1 (ALA)" in error
    assert "ALA 2 lacks CB\n" in error
    assert "has no chain 'Z', it has ' ' (blank)" in run(
        "torsional", "ala.pdb", *SHORT, "--chain", "Z", "--out", "r"
    )[2]  # fmt: skip
    two = "--forcefield", "charmm36.xml"
    for more in ([], ["--add-hydrogens"]):  # OpenMM raises an Exception of no kind
        error = run("torsional", "ala.pdb", *SHORT, *two, *more, "--out", "r")[2]
        assert "Multiple non-identical matching templates" in error
        assert error.count("\n") == 1


def test_paths_are_no_text(io):
    with pytest.raises(ValueError, match=r"no text of lines; Molecule\.prepare reads files"):
        io.Molecule("ala.pdb", FIELD)


def test_times_shorter_than_a_step(run):
    given = (*USUAL, "--dt", "0.008", "--time", "0.004", "--out", "r")
    assert "--time must be at least a step of --dt" in run("torsional", "ala.pdb", *given)[2]


def six_glycines(tmp_path, *, wet=False, bonded=True, box=None, shift=0.0):
    """Write six glycines in a ring, whose last bond is one of a CONECT record."""
    turns = 2.0 * np.pi * np.arange(18) / 18
    radius = 0.5 * 1.42 / np.sin(np.pi / 18)
    ring = np.stack([np.cos(turns), np.sin(turns), 0.1 * (-1.0) ** np.arange(18)], axis=1)
    ring[:, :2] *= radius
    atoms = []
    for k in range(6):
        n, ca, c = ring[3 * k : 3 * k + 3]
        out = [0.0, 0.0, 1.0]
        parts = [
            ("N", "N", n),
            ("CA", "C", ca),
            ("C", "C", c),
            ("O", "O", c + 1.23 * np.array(out)),
        ]
        parts += [("H", "H", n + np.array([0.0, 0.0, 1.01]))]
        parts += [(f"HA{j}", "H", ca + np.array([0.0, 0.0, 1.09 * (-1) ** j])) for j in (2, 3)]
        atoms += [("A", "GLY", k + 1, name, element, x + shift) for name, element, x in parts]
    if wet:
        atoms.insert(0, ("W", "HOH", 9, "O", "O", [20.0, 20.0, 20.0]))
    first = 1 + wet
    last = next(k for k, atom in enumerate(atoms) if atom[2:4] == (6, "C")) + 1
    if box:
        atoms = [(*atom[:5], np.asarray(atom[5]) % box) for atom in atoms]
    written(tmp_path, "ring.pdb", atoms, f"TER\nCONECT{first:5d}{last:5d}\n" if bonded else "")
    if box:
        crystal = f"CRYST1{box:9.3f}{box:9.3f}{box:9.3f}  90.00  90.00  90.00 P 1           1\n"
        text = (tmp_path / "ring.pdb").read_text(encoding="utf-8")
        (tmp_path / "ring.pdb").write_text(crystal + text, encoding="utf-8")
    return tmp_path / "ring.pdb"


@pytest.mark.parametrize("wet", [False, True])
def test_bonds_of_a_cyclic_peptide_stay(io, tmp_path, wet):
    path = six_glycines(tmp_path, wet=wet)
    peptide = io.Molecule.prepare(path, FIELD, "Reference", drop_solvent=wet)
    assert len(peptide.names) == peptide.topology.getNumBonds() == 42
    assert len(peptide.backbone) == 6
    assert peptide.ring_bonds == (0, 18)


def test_hydrogens_of_a_cyclic_peptide_are_added(io, tmp_path):
    path = six_glycines(tmp_path)
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    heavy = [line for line in lines if line[12:16].strip()[:1] != "H"]
    path.write_text("".join(heavy), encoding="utf-8")
    peptide = io.Molecule.prepare(path, FIELD, "Reference", add_hydrogens=True)
    assert len(peptide.names) == peptide.topology.getNumBonds() == 42
    assert len(peptide.backbone) == 6


def test_atoms_in_one_place_are_not_a_matter_of_units(io, tmp_path):
    text = "".join(
        line[:30] + 3 * "   0.000" + line[54:] if line.startswith("ATOM") else line
        for line in TEXT.splitlines(keepends=True)
    )
    (tmp_path / "x.pdb").write_text(text, encoding="utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=r"are 0 nm apart, and .* in the force field"):
            io.Molecule.prepare(tmp_path / "x.pdb", FIELD, "Reference")


@pytest.mark.parametrize("value", ["     nan", "     inf"])
def test_atoms_without_a_position_are_named(io, tmp_path, value):
    (tmp_path / "x.pdb").write_text(TEXT.replace("   3.427", value), encoding="utf-8")
    with pytest.raises(ValueError, match=r"ACE 1 C is at \[.*\] nm: every atom needs a position"):
        io.Molecule.prepare(tmp_path / "x.pdb", FIELD, "Reference")


def test_molecules_that_a_box_cuts_are_made_whole(io, tmp_path):
    plain = io.Molecule.prepare(six_glycines(tmp_path), FIELD, "Reference")
    path = six_glycines(tmp_path, box=20.0, shift=np.array([1.0, 18.0, 19.0]))
    cut = io.Molecule.prepare(path, FIELD, "Reference")
    assert np.ptp(cut.x0, axis=0) == pytest.approx(np.ptp(plain.x0, axis=0), abs=3e-4)
    assert cut.energy(cut.x0) == pytest.approx(plain.energy(plain.x0), rel=1e-4)
    tiny = "CRYST1    1.000    1.000    1.000  90.00  90.00  90.00 P 1           1\n"
    (tmp_path / "nmr.pdb").write_text(tiny + TEXT, encoding="utf-8")  # no crystal
    io.Molecule.prepare(tmp_path / "nmr.pdb", FIELD, "Reference")


def test_a_vacuum_is_said(io, run, tmp_path):
    zinc = "HETATM   23 ZN    ZN A 162      15.000  15.000  15.000  1.00  0.00          ZN\nEND\n"
    (tmp_path / "zn.pdb").write_text(TEXT.replace("END\n", zinc), encoding="utf-8")
    dry = ("--forcefield", "amber14-all.xml", "amber14/tip3p.xml", *USUAL[3:])
    more = ("--steps", "2", "--every", "1", "--out", "r", "--overwrite")
    code, out, err = run("torsional", "zn.pdb", *dry, *more, "--drop-solvent")
    assert code == 0
    assert "7 turn, in a vacuum, on Reference" in out
    assert err.startswith("fixman: warning: solvent is left out, and amber14-all.xml, amber14/tip")
    assert "implicit/obc2.xml beside amber14-all.xml" in err
    out = run("torsional", "zn.pdb", *dry, *more)[1]
    assert "1 chain of 22 beads, 1 chain of 1 beads, 3-D, open space>, 7 turn, in a vac" in out
    for field in (FIELD, ("amber14-all.xml", "implicit/obc2.xml")):
        given = ("--forcefield", *field, *USUAL[3:], *more, "--drop-solvent")
        code, out, err = run("torsional", "zn.pdb", *given)
        assert (code, err) == (0, "")
        assert "vacuum" not in out


@pytest.mark.thorough
def test_newton_from_a_minimum_says_its_temperature(run, io):
    given = ("--method", "newton", "--time", "20", "--minimize", "--out", "run")
    code, out, _ = run("torsional", "ala.pdb", *USUAL, *given)
    assert code == 0
    assert "the mean will be near 150 K\n" in out
    found = fx.load_run("run")
    kelvin = fx.observables.temperature(found.chain, found.v).mean() / GAS_CONSTANT
    assert kelvin == pytest.approx(150.0, abs=40.0)


# --- other programs -----------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_files_for_other_programs(run, molecule, peer):
    mda = peer("MDAnalysis")
    assert run("torsional", "ala.pdb", *SHORT, "--replicas", "2", "--out", "run")[0] == 0
    found = fx.load_run("run")
    for suffix, places in (("pdb", 2e-3), ("dcd", 1e-4), ("xtc", 1e-2), ("trr", 1e-4)):
        given = ("--to", f"to_{suffix}.{suffix}", "--replica", "1", "--step", "2")
        code, out, _ = run("export", "run", *given)
        assert (code, out) == (0, f"wrote to_{suffix}.{suffix}: 4 frames\n")
        files = [f"to_{suffix}.{suffix}"]
        files = files if suffix == "pdb" else [f"to_{suffix}.topology.pdb", *files]
        universe = mda.Universe(*files)
        names = [f"{atom.resname} {atom.resid} {atom.name}" for atom in universe.atoms]
        assert names == molecule.names
        assert len(universe.trajectory) == 4
        for k, frame in enumerate(universe.trajectory):
            assert frame.positions == pytest.approx(10.0 * found.x[2 * k, 1], abs=places)
            if suffix != "pdb":
                assert frame.time == pytest.approx(0.16 * k, abs=1e-4)
        assert "exists: choose another name" in run("export", "run", *given)[2]
    said = run("export", "run", "--to", "x.dcd")[2]
    assert "has 2 replicas, and these files hold one: choose it, --replica 0; .gsd and" in said
    assert not Path("x.dcd").exists()
    assert "the run has replicas 0 to 1" in run("export", "run", "--to", "x.dcd", "--replica", 2)[2]


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_gsd_files_name_atoms(run, molecule, peer):
    peer("gsd")
    mda = peer("MDAnalysis")
    assert run("torsional", "ala.pdb", *SHORT, "--replicas", "2", "--out", "run")[0] == 0
    assert run("export", "run", "--to", "run.gsd")[0] == 0
    names = [name.split()[-1] for name in molecule.names]
    assert mda.Universe("run.gsd").atoms.names.tolist() == 2 * names
    made = fx.load_run("run")
    universe = made.universe()
    assert universe.atoms.names.tolist() == 2 * names
    assert len(universe.atoms.fragments) == 2
    assert np.allclose(universe.atoms.positions.reshape(2, -1, 3), 10 * made.x[0], atol=1e-4)


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_a_universe_has_bonds_and_masses(run, molecule, peer):
    peer("MDAnalysis")
    from fixman.io.mdanalysis.trajectories import universe_of

    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    universe = universe_of(fx.load_run("run"))
    bonds = ((one.index, two.index) for one, two in molecule.topology.bonds())
    pairs = {tuple(sorted(pair)) for pair in bonds}
    assert {tuple(map(int, sorted(pair))) for pair in universe.bonds.indices} == pairs
    assert universe.atoms.masses == pytest.approx(molecule.chain().masses)
    assert len(universe.trajectory) == 7
    assert universe.trajectory.dt == pytest.approx(0.08)


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_trajectories_share_a_topology_and_spare_others(run, peer):
    peer("MDAnalysis")
    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    assert run("export", "run", "--to", "to.pdb")[0] == 0
    with open("to.pdb", "rb") as file:
        whole = file.read()
    for name in ("to.dcd", "to.trr"):  # the second finds the topology of the first
        assert run("export", "run", "--to", name, "--overwrite", "--stop", "4")[0] == 0
    assert run("export", "run", "--to", "to.xtc")[0] == 0
    with open("to.pdb", "rb") as file:
        assert file.read() == whole
    code, _, err = run("export", "run", "--to", "to.xtc", "--start", "2")
    assert code
    assert "to.xtc exists: choose another name" in err
    code, _, err = run("export", "run", "--to", "to.DCD", "--start", "2")
    assert code
    assert "to.topology.pdb exists, of a trajectory that begins otherwise" in err
    assert not Path("to.DCD").exists()
    assert run("export", "run", "--to", "to.DCD", "--start", "2", "--overwrite")[0] == 0


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_runs_without_names_go_to_formats_without_names(run, molecule, peer):
    mda = peer("MDAnalysis")
    from fixman.io import openmm

    flags = ("--beads", "3", "--steps", "4", "--every", "2", "--seed", "1", "--out")
    assert run("simulate", *flags, "r")[0] == 0
    assert "has no PDB file" in run("export", "r", "--to", "r.pdb")[2]
    assert run("simulate", *flags, "p", "--dim", "2")[0] == 0
    assert "the run has dim=2" in run("export", "p", "--to", "p.dcd")[2]
    chain = molecule.chain()
    forces = openmm.Forces(molecule.system, "Reference")  # without a PDB file, but in nm
    stepper = fx.Langevin(0.002, kT=2.5, potential=forces)
    fx.simulate(chain, molecule.minimized(molecule.x0), stepper, 4, every=2, rng=1, out="m")
    for name, scale in (("r", 1.0), ("m", 10.0)):
        found = fx.load_run(name)
        for suffix in ("dcd", "xtc", "trr"):
            assert run("export", name, "--to", f"{name}.{suffix}")[0] == 0
            universe = mda.Universe.empty(found.chain.n).load_new(f"{name}.{suffix}")
            assert len(universe.trajectory) == 3
            for frame, x, time in zip(universe.trajectory, found.x[:, 0], found.times, strict=True):
                assert frame.positions == pytest.approx(scale * x, abs=1e-2)
                assert frame.time == pytest.approx(time, abs=1e-4)
        assert not Path(f"{name}.topology.pdb").exists()


@pytest.mark.filterwarnings("ignore:torsion.*no frame is near")
def test_a_temperature_by_default_or_in_kelvin_is_noticed(molecule):
    chain, x = molecule.chain(), molecule.minimized(molecule.x0)
    for kT, words in ((1.0, r"kT = 1 kJ/mol is 120 K: kT=.*kT\(T\)"), (300.0, "is 36082 K")):
        stepper = fx.Langevin(1e-4, kT=kT, potential=molecule)
        with pytest.warns(RuntimeWarning, match=words):
            fx.simulate(chain, x, stepper, 1, rng=1)
        held = fx.bluemoon.hold(chain, ("distance", (0, 21)))
        with pytest.warns(RuntimeWarning, match=words):
            fx.bluemoon.mean_force(
                held, np.stack([x] * 2), ("distance", (0, 21)), kT=kT, potential=molecule
            )


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
@pytest.mark.parametrize("frames", [slice(2, None), slice(1, None, 2), slice(None, None, -2)])
def test_frames_that_are_cut_out_or_run_backwards_keep_their_times(run, peer, frames):
    mda = peer("MDAnalysis")
    from fixman.io.mdanalysis.trajectories import universe_of, write_frames

    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    some = fx.load_run("run")[frames]
    universes = [universe_of(some)]
    for ending in ("dcd", "xtc"):
        write_frames(some, f"run.{ending}")
        universes.append(mda.Universe("run.topology.pdb", f"run.{ending}"))
        Path("run.topology.pdb").unlink()
    for universe in universes:
        times = [step.time for step in universe.trajectory]
        assert times == pytest.approx(some.times, abs=1e-5)


def test_a_run_says_what_it_is_of(run):
    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    potential = fx.load_run("run").about["stepper"]["potential"]
    assert potential["forcefield"] == list(FIELD)
    assert potential["pdb"].count("ATOM  ") + potential["pdb"].count("HETATM") == 22


def test_names_of_a_file_steer_no_terminal(io, molecule):
    text = molecule.pdb.replace(" ACE ", " A\x1bE ").replace(" CH3 ", " C\x9b3 ")
    with pytest.raises(ValueError, match="A") as raised:
        io.Molecule(text, molecule.forcefield, "Reference")
    assert "\x1b" not in str(raised.value)
    assert "\x9b" not in str(raised.value)
