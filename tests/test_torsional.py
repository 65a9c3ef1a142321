"""`fixman torsional`, its runs and what is written of them: alanine dipeptide, in seconds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fixman as fx
from dipeptide import FIELD, TEXT
from fixman import cli
from fixman.errors import ConstraintSolveError, SingularConstraintError

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
    from fixman.io import torsional

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
        try:
            code = cli.main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
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


@pytest.mark.parametrize("size", [3, 5, 8, 9, 12])
def test_bonds_of_small_rings_do_not_turn(io, size):
    near = [[(k - 1) % size, (k + 1) % size] for k in range(size)]
    assert io._in_small_ring(near, 0, 1) == (size <= 8)
    assert not io._in_small_ring([[1], [0, 2], [1]], 0, 1)


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
            raise kind("bead 2 and bead 1 coincide; length(1, 2), torsion(0, 1, 2, 3)", beads=(1,))
        assert str(caught.value) == (
            "ALA 3 CB and ALA 3 CA coincide; length(ALA 3 CA, ALA 3 CB), "
            "torsion(ALA 3 N, ALA 3 CA, ALA 3 CB, ALA 3 C)"
        )
        assert caught.value.beads == (1,)


# --- runs ---------------------------------------------------------------------------------------


def test_a_run_goes_on_bit_for_bit(run, molecule):
    code, out, err = run("torsional", "ala.pdb", *SHORT, "--out", "one")
    assert (code, err) == (0, "")
    assert "7 turn, on Reference, seed 3\n7 frames of 1 replica in one\n" in out
    assert run("resume", "one", "--steps", "120")[:2] == (0, "13 frames of 1 replica in one\n")
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


def test_newton_conserves_energy(run):
    options = ("--method", "newton", "--dt", "0.002", "--steps", "200", "--every", "10")
    assert run("torsional", "ala.pdb", *USUAL, *options, "--minimize", "--out", "run")[0] == 0
    found = fx.load_run("run").observables
    energy = found["potential_energy"] + found["kinetic_energy"]
    assert np.ptp(energy) < 0.05 * np.ptp(found["kinetic_energy"])
    assert np.ptp(energy) < 0.5  # kJ/mol


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
    with pytest.raises(ValueError, match="makes another System of these atoms than when the run"):
        io.Molecule.of_run(about)
    about["stepper"]["potential"] = None
    with pytest.raises(ValueError, match="this run is of no PDB file"):
        io.Molecule.of_run(about)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--dt", "0.02"], "warning: --dt 0.02 is long: above 0.01 ps energies drift"),
        (["--leaps", "5"], "error: --leaps is for --method hmc"),
        (["--method", "newton", "--ensemble", "rigid"], "--ensemble is for --method langevin or"),
        (["--hold", "methyl,wings"], "error: cannot hold 'wings': choose among methyl"),
        (["--temperature", "-3"], "error: --temperature must be positive, got -3.0"),
        (["--platform", "Abacus"], "error: platform must be one of Reference"),
        (["--forcefield", "none.xml"], "error: force field none.xml: "),
        (["--forcefield", "amber99_obc.xml"], "error: "),
    ],
)
def test_what_flags_say(run, given, message):
    code, _, err = run("torsional", "ala.pdb", *SHORT, "--out", "run", *given)
    assert code == (0 if "warning" in message else 2)
    assert message in err
    assert err.count("\n") == 1


def test_files_that_will_not_do(run, tmp_path):
    assert "error: no such file: no.pdb" in run("torsional", "no.pdb", *SHORT, "--out", "r")[2]
    (tmp_path / "bad.pdb").write_text("nothing\n", encoding="utf-8")
    assert (
        "bad.pdb cannot be read as a PDB file, or holds no atom"
        in run("torsional", "bad.pdb", *SHORT, "--out", "r")[2]
    )
    (tmp_path / "wet.pdb").write_text(TEXT.replace("END\n", WATER), encoding="utf-8")
    error = run("torsional", "wet.pdb", *SHORT, "--out", "r")[2]
    assert "HOH 4 O and 2 further atoms are not bonded to ACE 1 H1" in error
    assert "--drop-solvent leaves water and ions out" in error
    assert run("torsional", "wet.pdb", *SHORT, "--drop-solvent", "--out", "dry")[0] == 0
    bare = "".join(line for line in TEXT.splitlines(True) if " H" not in line[12:15])
    (tmp_path / "bare.pdb").write_text(bare, encoding="utf-8")
    assert "(--add-hydrogens adds" in run("torsional", "bare.pdb", *SHORT, "--out", "r")[2]
    assert run("torsional", "bare.pdb", *SHORT, "--add-hydrogens", "--out", "r")[0] == 0
    assert fx.load_run("r").chain.n == 22


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
        files = [f"to_{suffix}.pdb", *([] if suffix == "pdb" else [f"to_{suffix}.{suffix}"])]
        universe = mda.Universe(*files)
        names = [f"{atom.resname} {atom.resid} {atom.name}" for atom in universe.atoms]
        assert names == molecule.names
        assert len(universe.trajectory) == 4
        for k, frame in enumerate(universe.trajectory):
            assert frame.positions == pytest.approx(10.0 * found.x[2 * k, 1], abs=places)
            if suffix != "pdb":
                assert frame.time == pytest.approx(0.16 * k, abs=1e-4)
        assert "exists: choose another name" in run("export", "run", *given)[2]
    assert "the run has replicas 0 to 1" in run("export", "run", "--to", "x.dcd", "--replica", 2)[2]


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_gsd_files_name_atoms(run, molecule, peer):
    peer("gsd")
    mda = peer("MDAnalysis")
    assert run("torsional", "ala.pdb", *SHORT, "--replicas", "2", "--out", "run")[0] == 0
    assert run("export", "run", "--to", "run.gsd")[0] == 0
    names = [name.split()[-1] for name in molecule.names]
    assert mda.Universe("run.gsd").atoms.names.tolist() == 2 * names


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_a_universe_has_bonds_and_masses(run, molecule, peer):
    peer("MDAnalysis")
    from fixman.io.trajectories import universe_of

    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    universe = universe_of(fx.load_run("run"))
    pairs = {tuple(sorted(pair)) for pair in molecule.bonds}
    assert {tuple(map(int, sorted(pair))) for pair in universe.bonds.indices} == pairs
    assert universe.atoms.masses == pytest.approx(molecule.chain().masses)
    assert len(universe.trajectory) == 7
    assert universe.trajectory.dt == pytest.approx(0.08)


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
@pytest.mark.parametrize("frames", [slice(2, None), slice(1, None, 2), slice(None, None, -2)])
def test_frames_that_are_cut_out_or_run_backwards_keep_their_times(run, peer, frames):
    mda = peer("MDAnalysis")
    from fixman.io.trajectories import universe_of, write_frames

    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    some = fx.load_run("run")[frames]
    universes = [universe_of(some)]
    for ending in ("dcd", "xtc"):
        write_frames(some, f"run.{ending}")
        universes.append(mda.Universe("run.pdb", f"run.{ending}"))
        Path("run.pdb").unlink()
    for universe in universes:
        times = [step.time for step in universe.trajectory]
        assert times == pytest.approx(some.times, abs=1e-5)


def test_other_runs_have_no_names(run):
    assert run("simulate", "--beads", "3", "--steps", "4", "--seed", "1", "--out", "r")[0] == 0
    assert "of no PDB file" in run("export", "r", "--to", "r.dcd")[2]


def test_a_run_says_what_it_is_of(run):
    assert run("torsional", "ala.pdb", *SHORT, "--out", "run")[0] == 0
    with open("run/run.json", encoding="utf-8") as file:
        potential = json.load(file)["stepper"]["potential"]
    assert potential["forcefield"] == list(FIELD)
    assert potential["pdb"].count("ATOM  ") + potential["pdb"].count("HETATM") == 22
