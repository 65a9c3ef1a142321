"""Damaged and mistaken topologies and trajectories are named, with the cause, in one line."""

from __future__ import annotations

import bz2
import gzip
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from fixman.cli import command as cli

pytestmark = pytest.mark.filterwarnings("ignore:::MDAnalysis", "ignore:Reader has no dt")

BEADS = 6


def data(path, chains, frame=0):
    """Write a LAMMPS data file of straight chains."""
    atoms, bonds = [], []
    for k in range(chains * BEADS):
        chain, bead = divmod(k, BEADS)
        atoms.append(f"{k + 1} {chain + 1} 1 {bead + 0.1 * frame} {3 * chain} {bead % 2}")
        if bead:
            bonds.append(f"{len(bonds) + 1} 1 {k} {k + 1}")
    box = "0 90 xlo xhi\n0 90 ylo yhi\n0 90 zlo zhi"
    path.write_text(
        f"chains\n\n{len(atoms)} atoms\n{len(bonds)} bonds\n1 atom types\n1 bond types\n\n{box}\n"
        "\nMasses\n\n1 12.0\n\nAtoms # molecular\n\n" + "\n".join(atoms) + "\n\nBonds\n\n"
        "" + "\n".join(bonds) + "\n"
    )
    return path


def xyz(path, frames=4, chains=3):
    lines = []
    for frame in range(frames):
        lines += [str(chains * BEADS), "chains"]
        for k in range(chains * BEADS):
            chain, bead = divmod(k, BEADS)
            lines.append(f"C {bead + 0.1 * frame:.3f} {3 * chain:.3f} {bead % 2:.3f}")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def files(peer, tmp_path):
    peer("MDAnalysis")
    return data(tmp_path / "top.data", 3), xyz(tmp_path / "run.xyz")


@pytest.fixture
def run(capsys):
    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def spoil(path, frame):
    """Put a letter into a number of the last atom of a frame."""
    lines = path.read_text().splitlines()
    lines[(frame + 1) * (3 * BEADS + 2) - 1] = "C 5x0 6.000 1.000"
    path.write_text("\n".join(lines))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_later_frame_that_cannot_be_read_names_the_file(run, files, workers):
    spoil(files[1], 2)
    code, out, err = run("audit", *files, "--workers", workers)
    assert (code, out) == (1, "")
    assert err == (
        f"fixman: error: {files[1]} cannot be read; is it damaged or cut off? (could not convert "
        "string to float: '5x0')\n"
    )


def test_python_names_the_file_as_well(files):
    from fixman.io.mdanalysis import MetricAnalysis, open_universe, read_chains

    spoil(files[1], 2)
    text = rf"{files[1]} cannot be read; .*'5x0'"
    with pytest.raises(ValueError, match=text):
        MetricAnalysis(open_universe(*files)[0]).run()
    with pytest.raises(ValueError, match=text):
        read_chains(*files)
    assert MetricAnalysis(open_universe(*files)[0]).run(stop=2).frames.size == 2
    assert read_chains(*files, step=3).frames.tolist() == [0, 3]


@pytest.mark.parametrize(
    "error", [IndexError, KeyError, EOFError, struct.error, OSError, TypeError, AttributeError]
)
def test_whatever_a_reader_raises_names_the_file(run, files, monkeypatch, error):
    from MDAnalysis.coordinates import XYZ

    def stumble(*_, **__):
        raise error("7")

    monkeypatch.setattr(XYZ.XYZReader, "_read_frame", stumble)
    code, out, err = run("audit", *files)
    assert (code, out) == (1, "")
    assert err.startswith(f"fixman: error: {files[1]} cannot be read; is it damaged or cut off? (")
    assert err.count("\n") == 1


def test_errors_about_chains_are_not_those_of_a_reader(run, files):
    path = files[1]
    path.write_text(path.read_text().replace("C 1.100 0.000 1.000", "C 0.100 0.000 0.000"))
    code, _, err = run("audit", *files)
    assert code == 1
    assert "in frame 1 are bonded and coincide" in err
    assert "cannot be read" not in err


def test_bonds_of_atoms_that_are_not_there(run, files, tmp_path):
    bonds = "@<TRIPOS>BOND\n1 1 2 1\n2 2 99999 1\n"
    atoms = "".join(f"{k} C{k} {k}.0 0.0 0.0 C.3 1 POL 0.0\n" for k in range(1, 4))
    path = tmp_path / "a.mol2"
    path.write_text(
        f"@<TRIPOS>MOLECULE\nx\n3 2\nSMALL\nUSER_CHARGES\n\n@<TRIPOS>ATOM\n{atoms}{bonds}"
    )
    code, _, err = run("audit", path)
    assert code == 1
    assert err.startswith(f"fixman: error: {path} cannot be read; is it damaged or cut off? (index")


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["run.dcd", "run.xtc", "run.trr", "run.ncdf", "run.xyz"])
def test_readers_that_never_open_a_file_leave_no_traceback(files, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"\n")
    command = [sys.executable, "-W", "ignore", "-m", "fixman", "audit", str(files[0]), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("fixman: error: MDAnalysis cannot read ")
    assert done.stderr.count("\n") == 1


def test_a_bond_of_an_atom_with_itself(run, files):
    path = files[0]
    path.write_text(path.read_text().replace("\n3 1 3 4\n", "\n3 1 3 3\n"))
    assert run("audit", path)[2] == ("fixman: error: atom index 2 is bonded to itself\n")


def test_bonds_are_guessed_by_elements(run, files):
    path = files[0]
    path.write_text(path.read_text().split("\nBonds\n")[0].replace("15 bonds", "0 bonds"))
    err = run("audit", path, "--bonds", "guess")[2]
    assert err.startswith("fixman: error: the bonds cannot be guessed: vdw radii for types: 1")


@pytest.mark.parametrize("kind", ["data", "xyz", "pdb", "dcd"])
@pytest.mark.parametrize("chains", [2, 4])
@pytest.mark.parametrize("topology", ["data", "pdb"])
def test_files_of_other_sizes_are_told_so(run, files, tmp_path, topology, kind, chains):
    import MDAnalysis

    first = files[0]
    if topology == "pdb":
        first = tmp_path / "top.pdb"
        MDAnalysis.Universe(str(files[1]), to_guess=()).atoms.write(str(first))

    path = tmp_path / f"other.{kind}"
    if kind == "data":
        data(path, chains, frame=1)
    elif kind == "xyz":
        xyz(path, chains=chains)
    else:
        universe = MDAnalysis.Universe(str(xyz(tmp_path / "other.xyz", chains=chains)), to_guess=())
        universe.atoms.write(str(path))
    code, out, err = run("audit", first, path)
    assert (code, out) == (1, "")
    if kind != "data":
        assert "MDAnalysis cannot read" in err
        return
    assert err == (
        f"fixman: error: {path} has {chains * BEADS} atoms, and the topology {first} has "
        f"{3 * BEADS}\n"
    )


def test_a_data_file_of_the_same_size_is_a_trajectory_of_one_frame(run, files, tmp_path):
    code, out, _ = run("audit", files[0], data(tmp_path / "later.data", 3, frame=1))
    assert code == 0
    assert "3 chains of 6 beads, 1 frame" in out


def test_empty_files_and_pipes(run, files, tmp_path):
    (tmp_path / "empty.pdb").touch()
    assert run("audit", tmp_path / "empty.pdb")[2] == (
        f"fixman: error: {tmp_path / 'empty.pdb'} is empty, or no file that can be read more than "
        "once\n"
    )
    os.mkfifo(tmp_path / "pipe")
    _, _, err = run("audit", files[0], tmp_path / "pipe")
    assert err == (
        f"fixman: error: {tmp_path / 'pipe'} is empty, or no file that can be read more than once\n"
    )


@pytest.mark.parametrize("name", ["topology_format", "format", "select", "hydrogens"])
@pytest.mark.parametrize("value", [1.5, np.zeros(3), ("all",)])
def test_names_that_are_no_text_are_refused(files, name, value):
    from fixman.io.mdanalysis import read_chains

    with pytest.raises(ValueError, match=r"cannot read|^selection"):
        read_chains(*files, **{name: value})


@pytest.mark.parametrize("name", ["start", "stop", "step"])
@pytest.mark.parametrize("value", [1.5, "1", np.zeros(1)])
def test_frames_are_chosen_by_integers(files, name, value):
    from fixman.io.mdanalysis import read_chains

    with pytest.raises(TypeError, match=f"{name} must be an integer"):
        read_chains(*files, **{name: value})


@pytest.mark.parametrize("workers", [1, 2])
def test_a_data_file_that_lost_an_atom(run, files, tmp_path, workers):
    path = data(tmp_path / "later.data", 3)
    path.write_text(path.read_text().replace("\n7 2 1 0.0 3 0\n", "\n"))
    assert run("audit", files[0], path, "--workers", workers)[2] == (
        f"fixman: error: {path} has 17 atoms, and the topology {files[0]} has 18\n"
    )


def test_a_topology_that_lost_an_atom(run, files, tmp_path):
    import MDAnalysis

    path = files[0]
    path.write_text(path.read_text().replace("\n18 3 1 5.0 6 1\n", "\n"))
    other = tmp_path / "run.pdb"
    MDAnalysis.Universe(str(files[1]), to_guess=()).atoms.write(str(other))
    err = run("audit", path, other)[2]
    assert err.endswith("; if the name misleads, give --topology-format 'PSF' or --format 'DCD'\n")


def test_a_frame_of_another_size_is_named(files, monkeypatch):
    from MDAnalysis.coordinates import XYZ

    from fixman.io.mdanalysis import open_universe, read_chains

    universe, _ = open_universe(*files)
    short = universe.trajectory.ts.copy_slice(slice(0, 17))
    monkeypatch.setattr(XYZ.XYZReader, "_read_frame_with_aux", lambda *_: short)
    with pytest.raises(
        ValueError, match=r"run\.xyz has positions of 17 atoms in frame 0, expected"
    ):
        read_chains(*files)


def test_a_trajectory_of_velocities_alone(run, files, tmp_path):
    import MDAnalysis

    universe = MDAnalysis.Universe(str(files[1]), to_guess=())
    path = tmp_path / "moving.trr"
    with MDAnalysis.Writer(str(path), universe.atoms.n_atoms) as writer:
        for frame in universe.trajectory:
            frame.has_velocities = True
            frame.has_positions = frame.frame < 2
            writer.write(universe.atoms)
    assert run("audit", files[0], path)[2] == (
        f"fixman: error: {path} has positions of 0 atoms in frame 2, expected 18\n"
    )


@pytest.mark.parametrize(
    "frames", [3, [0.5], [[1, 2], [3]], [], [False] * 4, [True] * 3, [0, 4], [-5]]
)
def test_frames_that_cannot_be_chosen(files, frames):
    from fixman.io.mdanalysis import MetricAnalysis, open_universe

    analysis = MetricAnalysis(open_universe(*files)[0])
    with pytest.raises(ValueError, match="none of the 4 frames"):
        analysis.run(frames=frames)
    assert analysis.run(frames=[True, False, True, True]).frames.tolist() == [0, 2, 3]
    assert analysis.run(frames=(3, 0)).frames.tolist() == [3, 0]


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (2, TypeError, "values must be a list of arrays"),
        (["x"], TypeError, "values must be real numbers"),
        ([None] * 5, TypeError, "values must be real numbers"),
        ([1.0], ValueError, r"of shapes \[\(5,\)\], got \[\(1,\)\]"),
        ([np.nan] * 5, ValueError, "values is nan"),
    ],
)
def test_values_that_cannot_be_set(files, values, error, message):
    from fixman.io.mdanalysis import MetricAnalysis, open_universe

    universe, _ = open_universe(*files)
    with pytest.raises(error, match=message):
        MetricAnalysis(universe, values=values)
    assert MetricAnalysis(universe, values=[1.1] * 5).values[0].tolist() == [1.1] * 5


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress}


def packed(path, kind, cut=None):
    whole = PACKERS[kind](path.read_bytes())
    there = path.with_name(f"{path.name}.{kind}")
    there.write_bytes(whole[:cut])
    return there


def dump(path):
    frames = []
    for frame in range(4):
        atoms = (f"{k + 1} {k % BEADS + 0.1 * frame} {3 * (k // BEADS)} {k % 2}" for k in range(18))
        box = "ITEM: BOX BOUNDS pp pp pp\n0 90\n0 90\n0 90\nITEM: ATOMS id x y z\n"
        head = f"ITEM: TIMESTEP\n{frame}\nITEM: NUMBER OF ATOMS\n18\n{box}"
        frames.append(head + "\n".join(atoms) + "\n")
    path.write_text("".join(frames))
    return path


@pytest.mark.parametrize("kind", PACKERS)
def test_compressed_files_are_read_as_the_files_in_them(run, files, tmp_path, kind):
    for name in (files[1], dump(tmp_path / "run.dump")):
        plain = run("audit", files[0], name)
        assert plain[0] == 0
        both = run("audit", packed(files[0], kind), packed(name, kind))
        assert (both[0], both[2]) == (0, "")
        assert plain[1].splitlines()[-1] == both[1].splitlines()[-1]
        assert "3 chains of 6 beads, 4 frames" in both[1]


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("which", ["topology", "xyz", "dump"])
@pytest.mark.parametrize("cut", [5, 40, -20])
def test_compressed_files_that_are_cut_off_are_named(run, files, tmp_path, kind, which, cut):
    arguments = [files[0], dump(tmp_path / "run.dump") if which == "dump" else files[1]]
    place = 0 if which == "topology" else 1
    arguments[place] = packed(arguments[place], kind, cut)
    code, out, err = run("audit", *arguments)
    assert (code, out) == (1, "")
    assert arguments[place].name in err
    assert err.count("\n") == 1


def test_a_signalling_nan_is_a_position_that_is_not_finite(run, files, tmp_path):
    import MDAnalysis

    universe = MDAnalysis.Universe(str(files[1]), to_guess=())
    path = tmp_path / "nan.dcd"
    with MDAnalysis.Writer(str(path), universe.atoms.n_atoms) as writer:
        for frame in universe.trajectory:
            if frame.frame == 2:
                frame.positions[7, 1] = 77.25
            writer.write(universe.atoms)
    marked = struct.pack("<f", 77.25)
    assert path.read_bytes().count(marked) == 1
    path.write_bytes(path.read_bytes().replace(marked, struct.pack("<I", 0x7FA00000)))
    assert run("audit", files[0], path)[2] == (
        "fixman: error: atom index 7 has no finite position in frame 2\n"
    )
