from __future__ import annotations

import csv
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fixman.cli import audit as cli_audit
from fixman.cli import command as cli
from fixman.cli.shared import show

pytestmark = pytest.mark.filterwarnings("ignore:::MDAnalysis", "ignore:::distributed")

MELT = ["--select", "all", "--atom-style", "id resid type x y z"]


@pytest.fixture
def run(capsys):
    """Run the command in this process: exit code, stdout, stderr."""

    def run(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def melt(peer, tmp_path):
    """Write a LAMMPS file of 25 chains of 16 beads and 3 dimers, wrapped into a tilted box."""
    peer("MDAnalysis")
    rng = np.random.default_rng(3)
    cell = np.array([[6.0, 0, 0], [2.0, 5.0, 0], [1.0, -2.0, 7.0]])
    lines, bonds, first = [], [], 1
    for n in [16] * 25 + [2] * 3:
        steps = rng.normal(size=(n, 3))
        steps *= 0.97 / np.linalg.norm(steps, axis=1, keepdims=True)
        fraction = (np.cumsum(steps, axis=0) + rng.uniform(0, 6, 3)) @ np.linalg.inv(cell)
        for x, y, z in (fraction - np.floor(fraction)) @ cell:
            lines.append(f"{len(lines) + 1} 1 1 {x:.8f} {y:.8f} {z:.8f}")
        bonds += [(k, k + 1) for k in range(first, first + n - 1)]
        first += n
    text = f"melt\n\n{len(lines)} atoms\n{len(bonds)} bonds\n1 atom types\n1 bond types\n\n"
    text += "0.0 6.0 xlo xhi\n0.0 5.0 ylo yhi\n0.0 7.0 zlo zhi\n2.0 1.0 -2.0 xy xz yz\n\n"
    text += "Masses\n\n1 1.0\n\nAtoms # molecular\n\n" + "\n".join(lines) + "\n\nBonds\n\n"
    text += "\n".join(f"{k + 1} 1 {i} {j}" for k, (i, j) in enumerate(bonds)) + "\n"
    path = tmp_path / "melt.data"
    path.write_text(text)
    return path


def test_version_is_the_packages(capsys):
    from fixman import __version__

    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"fixman {__version__}\n"


def test_terminals_that_know_only_ascii(melt):
    code = "import sys; from fixman.cli.command import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "audit", str(melt), *MELT]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "verdict: " in done.stdout


@pytest.mark.parametrize("arguments", [["--help"], ["audit", "--help"], ["demo", "--help"]])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys\n"
        "from fixman.cli import command\n"
        f"try: command.main({arguments!r})\n"
        "finally: print(sorted({'numpy', 'scipy', 'numba', 'matplotlib', 'MDAnalysis'} "
        "& sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "usage: fixman" in done.stdout


def test_a_command_is_required(capsys):
    assert cli.main([]) == 2
    assert "COMMAND" in capsys.readouterr().err


def test_text_report(run, melt):
    code, out, err = run("audit", melt, *MELT, "--hard", "length")
    assert (code, err) == (0, "")
    assert "25 chains of 16 beads, 1 frame: 25 samples, 15 hard rows" in out
    assert "3 chains of 2 beads, 1 frame: 3 samples, 1 hard row\n" in out
    assert "nothing can vary: every internal coordinate of a chain of 2 beads is hard" in out
    assert out.splitlines()[-1].startswith("verdict: noticeable, ")
    assert "(25 chains of 16 beads, of 2 kinds of molecules). Each molecule is a sample" in out


def test_json_is_the_only_thing_on_stdout(run, melt, tmp_path):
    table = tmp_path / "table.csv"
    code, out, err = run("audit", melt, *MELT, "--hard", "length, angle", "--json", "--out", table)
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["hard"] == ["length", "angle"]
    assert [group["hard_rows"] for group in document["groups"]] == [29, 1]
    assert table.is_file()


def test_table_has_a_row_a_frame_and_chain(run, melt, tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("old")
    _, out, _ = run("audit", melt, *MELT, "--out", table, "--overwrite")
    assert f"wrote {table}" in out
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    sizes = ["square_end_to_end", "square_gyration"]
    assert list(rows[0]) == ["group", "chain", "frame", "time", "half_logdet", *sizes, "log_weight"]
    assert len(rows) == 28
    half = [float(row["half_logdet"]) for row in rows if row["group"] == "0"]
    assert f"ln det H^bb           {np.std(half):.3f} ± 0.0" in out
    assert {row["log_weight"] for row in rows} == {"0.0"}  # of a single frame
    assert [row["chain"] for row in rows if row["group"] == "1"] == ["0", "1", "2"]
    ends = [float(row["square_end_to_end"]) for row in rows if row["group"] == "0"]
    assert f"{np.mean(ends):.1f} ± " in out
    dimers = [float(row["square_gyration"]) for row in rows if row["group"] == "1"]
    np.testing.assert_allclose(dimers, 0.25 * 0.97**2, rtol=1e-6)


def test_plot(run, melt, tmp_path, peer):
    peer("matplotlib")
    picture = tmp_path / "audit.png"
    code, out, _ = run("audit", melt, *MELT, "--plot", picture)
    assert code == 0
    assert f"wrote {picture}" in out
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_histogram_shows_every_group_and_the_weights(peer):
    mpl = peer("matplotlib")
    from fixman.analysis import plot

    half = np.random.default_rng(0).normal(5.0, 1.0, 4000)
    ax = plot.audit_histogram(plot.figure().subplots(), {"a": half, "b": half[:900]})
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "a",
        "b",
        "reweighted to stiff",
    ]
    one = plot.audit_histogram(plot.figure().subplots(), {"a": half})
    assert mpl.colors.same_color(one.lines[0].get_color(), one.patches[1].get_edgecolor())
    rigid, stiff = ax.patches[:2]
    values, edges, _ = stiff.get_data()
    middle = (edges[1:] + edges[:-1]) / 2
    assert rigid.get_data().values @ np.diff(edges) == pytest.approx(1.0)
    # A Gaussian of unit variance under weights e^{-u} moves by -1.
    assert np.sum(middle * values * np.diff(edges)) == pytest.approx(-1.0, abs=0.15)
    assert "kT" in ax.get_xlabel()
    assert "1/kT" in ax.get_ylabel()


def test_legends_cover_no_distribution(peer):
    peer("matplotlib")
    from fixman.analysis import plot

    half = np.random.default_rng(0).normal(5.0, 1.0, 4000)
    one, two = plot.figure().subplots(), plot.figure().subplots()
    plot.audit_histogram(one, {f"{n} chains of 16 beads": half[:n] for n in (4000, 3000, 2000)})
    plot.angle_histogram(two, np.linspace(0.0, np.pi, 3), [{"stiff": [1, 1], "rigid": [1, 1]}], "a")
    for ax in (one, two):
        figure = ax.get_figure()
        figure.draw_without_rendering()
        legend, frame = ax.get_legend().get_window_extent(), ax.get_window_extent()
        assert legend.y0 >= frame.y1 - 0.5  # of a pixel
        assert legend.y1 <= figure.bbox.y1
        assert frame.height > figure.bbox.height / 3


def test_histograms_of_angles(peer):
    peer("matplotlib")
    from fixman.analysis import plot

    edges = np.linspace(0.0, np.pi, 4)
    pair = {"stiff": [0.0, 1.0, 0.0], "rigid": [0.5, 0.5, 0.0]}
    ax = plot.angle_histogram(plot.figure().subplots(), edges, [pair], "bend")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["stiff", "rigid"]
    values, degrees, _ = ax.patches[0].get_data()
    np.testing.assert_allclose(degrees, [0, 60, 120, 180])
    np.testing.assert_allclose(values, np.radians([0.0, 1.0, 0.0]))
    two = plot.angle_histogram(plot.figure().subplots(), edges, [pair, {}], "bend")
    assert two.get_legend() is None
    assert "degrees" in two.get_xlabel()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["absent.data", "--select", "all"], "no such file: absent.data"),
        (
            ["{melt}", *MELT, "--hard", "lenght"],
            "'lenght' (did you mean length?): choose one or more of length, angle, torsion",
        ),
        (["{melt}", *MELT, "--hard", "length,torsional"], "'torsional' stands alone"),
        (["{melt}", *MELT, "--hard", "h-bonds"], "below 1.2, so hydrogens are unknown"),
        (["absent.pdb", "--select", "all", "--hard", "AlBonds"], "did you mean all-bonds?"),
        (["{melt}", *MELT, "--scheduler", "nowhere"], "no Dask scheduler answers at nowhere"),
        (["{melt}", *MELT, "--hard", ""], "unknown hard coordinates ''"),
        (["{melt}", *MELT, "--step", "0"], "--step 0"),
        (
            ["{melt}", *MELT, "--start", "9"],
            "none of the 1 frames, counted from 0, is left by --start 9",
        ),
        (["{melt}", *MELT, "--select", "type 9"], "matches none of the 406 atoms"),
        (["{melt}", *MELT, "--out", "no/such/folder/a.csv"], "/no/such/folder"),
        (["{melt}", *MELT, "--atom-style", "id x y z"], "missing required field(s): type"),
        (["{melt}", "--atom-style", "moleculer"], "is moleculer: give --atom-style 'full'"),
        (["{melt}", "--topology-format", "PBD"], "MDAnalysis cannot read"),
        (["{melt}", "--masses", "2=3"], "masses are given for types 2, there are 1"),
        (["{melt}", "--masses", "heavy"], "positive numbers, of all atoms or by type"),
        (["{melt}", "--bonds", "2"], "types of bonds, got 2: the selection has 1, 1-1"),
        (["{melt}", "--masses", "3", "--hard", "h-bonds"], "give the hydrogens, --hydrogens "),
    ],
)
def test_errors_are_one_line_and_exit_1(run, melt, arguments, words):
    code, out, err = run("audit", *(a.replace("{melt}", str(melt)) for a in arguments))
    assert (code, out) == (1, "")
    assert err.startswith("fixman: error: ")
    assert err.count("\n") == 1
    assert words in err


@pytest.mark.parametrize(
    "arguments", [["audit"], ["audit", "a.pdb", "--start", "x"], ["simulate", "--frobnicate"], []]
)
def test_wrong_options_are_one_line_too(capsys, arguments):
    assert cli.main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("fixman: error: ")
    assert err.count("\n") == 1
    assert "--help" in err


def test_words_without_quotes(capsys):
    assert cli.main(["audit", "a.psf", "a.dcd", "--select", "name", "N", "CA"]) == 2
    assert "arguments: N CA (a value of several words needs quotes)" in capsys.readouterr().err


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_no_abbreviations_but_guesses(capsys, command):
    text = cli.parser(command).format_help()
    flags = re.findall(r"(?:^  |, | \| )(--[\w-]+)", text, re.MULTILINE)
    assert set(flags) < set(cli.parser(command).flags())
    for flag in flags:
        for typo in {flag[:-1], f"{flag}s"} - {*flags, "--"}:
            assert cli.main([command, typo, "5"]) == 2
            said = capsys.readouterr().err
            assert f"unrecognized arguments: {typo} (did you mean --" in said
            assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["simulat"], "got 'simulat' (did you mean simulate?)"),
        (["simulate", "--method", "langevn"], "got 'langevn' (did you mean langevin?)"),
        (["simulate", "--dim", "4"], "argument --dim: must be 2 or 3, got '4'"),
    ],
)
def test_words_are_guessed(capsys, arguments, guess):
    assert cli.main(arguments) == 2
    assert guess in capsys.readouterr().err


def dump(path, melt, frames=3, columns="id type xs ys zs", shift=0):
    """Write the melt's atoms as a LAMMPS dump: shuffled, scaled."""
    rng = np.random.default_rng(5)
    lines = melt.read_text().splitlines()
    first = lines.index("Atoms # molecular") + 2
    atoms = [line.split() for line in lines[first : lines.index("Bonds") - 1]]
    cell = np.array([[6.0, 0, 0], [2.0, 5.0, 0], [1.0, -2.0, 7.0]])
    text = ""
    for frame in range(frames):
        text += f"ITEM: TIMESTEP\n{frame}\nITEM: NUMBER OF ATOMS\n{len(atoms)}\n"
        text += "ITEM: BOX BOUNDS xy xz yz pp pp pp\n0 9 2\n-2 5 1\n0 7 -2\n"
        text += f"ITEM: ATOMS {columns}\n"
        for k in rng.permutation(len(atoms)):
            s = np.array(atoms[k][3:], dtype=float) @ np.linalg.inv(cell)
            text += f"{int(atoms[k][0]) + shift * (frame == 1)} 1 "
            text += " ".join(f"{c:.9f}" for c in s) + "\n"
    path.write_text(text)
    return path


def test_lammps_under_its_own_names_just_works(run, melt, tmp_path):
    data = melt.rename(tmp_path / "data.melt")
    lammpstrj = dump(tmp_path / "melt.lammpstrj", data)
    code, out, err = run("audit", data, lammpstrj)
    assert (code, err) == (0, "")
    assert "25 chains of 16 beads, 3 frames: 75 samples, 15 hard rows" in out
    alone = json.loads(run("audit", data, "--json")[1])["groups"][0]
    thrice = json.loads(run("audit", data, lammpstrj, "--json")[1])["groups"][0]
    assert thrice["spread_kT"] == pytest.approx(alone["spread_kT"], rel=1e-4)
    said = ["--topology-format", "DATA", "--format", "dump", "--atom-style", "bond"]
    code, out, _ = run("audit", data, lammpstrj, *said)
    assert code == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda path, text: path.write_text(text.replace(" ATOMS id", " ATOMS no")),
            "no column id",
        ),
        (lambda path, text: path.write_text("ITEM: UNITS\nlj\n" + text), "MDAnalysis cannot read"),
        (lambda path, text: path.write_text(text[:-4]), "ends within a line: it was cut off"),
        (lambda path, text: path.write_text(text[:900]), "MDAnalysis cannot read"),
    ],
)
def test_broken_dumps(run, melt, tmp_path, change, words):
    path = dump(tmp_path / "dump.melt", melt)
    change(path, path.read_text())
    code, out, err = run("audit", melt, path)
    assert (code, out) == (1, "")
    assert words in err
    assert err.count("\n") == 1


def test_frames_of_other_atoms_are_refused(run, melt, tmp_path):
    code, _, err = run("audit", melt, dump(tmp_path / "dump.melt", melt, shift=1))
    assert code == 1
    assert "the ids of the atoms of frame 1 are not those of the topology" in err


def test_a_frame_that_was_cut_off_is_left_out(run, melt, tmp_path):
    path = dump(tmp_path / "dump.melt", melt)
    path.write_text(path.read_text()[:-900])
    code, out, _ = run("audit", melt, path)
    assert code == 0
    assert "2 frames: 50 samples" in out
    assert "the last frame of dump.melt is cut off and left out" in out


def test_files_in_the_wrong_order(run, melt, tmp_path, peer):
    files = peer("MDAnalysisTests.datafiles")
    for command in (
        [dump(tmp_path / "dump.melt", melt), melt], [files.DCD, files.PSF], [files.XTC, files.GRO],
    ):  # fmt: skip
        code, _, err = run("audit", *command)
        assert code == 1
        assert "topology" in err


def test_many_kinds_are_one_line(run, melt):
    text = melt.read_text().splitlines()
    bonds = text.index("Bonds") + 2
    cut = {bonds + 15 * c + c % 9 for c in range(25)}  # pieces of many lengths
    left = [line for k, line in enumerate(text) if k not in cut]
    melt.write_text("\n".join(left).replace("378 bonds", f"{378 - len(cut)} bonds"))
    code, out, _ = run("audit", melt)
    document = json.loads(run("audit", melt, "--json")[1])
    assert code == 0
    assert len(document["groups"]) > 10
    assert len([line for line in out.splitlines() if "1 frame: " in line]) == 3
    assert f"and {len(document['groups']) - 3} kinds more, " in out


def test_range_of_frames_and_as_is(run, peer):
    files = peer("MDAnalysisTests.datafiles")
    command = ["audit", files.PSF, files.DCD, "--select", "name N CA C and resid 1:9", "--json"]
    _, out, err = run(*command, "--hard", "length,angle", "--start", 10, "--stop", 60, "--step", 2)
    assert err == ""
    (means,) = json.loads(out)["groups"]
    assert (means["frames"], means["beads"]) == (25, 27)
    _, out, _ = run(*command, "--hard", "length,angle", "--as-is", "--step", "2")
    (as_read,) = json.loads(out)["groups"]
    assert as_read["frames"] == 49
    assert as_read["spread_kT"] > means["spread_kT"]


@pytest.mark.thorough
def test_adenylate_kinase_and_polyamide(run, peer):
    files = peer("MDAnalysisTests.datafiles")
    code, out, err = run(
        "audit", files.PSF, files.DCD, "--select", "name N CA C", "--hard", "length,angle"
    )
    assert (code, err) == (0, "")
    assert "1 chain of 642 beads, 98 frames: 98 samples, 1281 hard rows" in out
    code, out, err = run(
        "audit", files.LAMMPSdata, "--select", "type 3 4 5", "--atom-style", "full"
    )
    assert (code, err) == (0, "")
    assert "24 chains of 281 beads, 1 frame: 24 samples, 280 hard rows" in out


def test_progress_only_on_a_terminal(monkeypatch, run, melt):
    assert run("audit", melt, *MELT)[2] == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run("audit", melt, *MELT, "--quiet")[2] == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    shown = run("audit", melt, *MELT)[2]
    assert "means: 100%" in shown
    assert "determinants: 100%" in shown


@pytest.mark.thorough
def test_workers_change_nothing(run, peer):
    files = peer("MDAnalysisTests.datafiles")
    command = ["audit", files.PSF, files.DCD, "--select", "name N CA C and resid 1:9", "--json"]
    for hard in ("length", "torsional"):
        serial = run(*command, "--hard", hard)
        assert serial == run(*command, "--hard", hard, "--workers", 2)
        assert serial[0] == 0
    _, _, err = run(*command, "--workers", 3, "--start", 96)  # more than frames
    assert err == ""


@pytest.mark.thorough
def test_a_dask_scheduler_changes_nothing(run, peer, tmp_path, monkeypatch):
    peer("distributed")
    from clusters import dask_cluster

    files = peer("MDAnalysisTests.datafiles")
    monkeypatch.chdir(Path(files.DCD).parent)  # where the workers do not run
    command = ["audit", files.PSF, Path(files.DCD).name, "--select", "name N CA C and resid 1:9"]
    with dask_cluster(tmp_path, 2) as address:
        for _ in range(2):  # it stays
            assert run(*command) == run(*command, "--scheduler", address)


def test_trees_and_molecules(run, peer):
    files = peer("MDAnalysisTests.datafiles")
    command = ["audit", files.PSF, files.DCD, "--select", "resid 1:12", "--step", 4]
    code, out, err = run(*command, "--hard", "torsional")
    assert (code, err) == (0, "")
    assert "hard: torsional (at their pooled means)" in out
    assert "1 branched chain of 174 beads and 1 ring, 25 frames: 25 samples, " in out
    assert "note: 1 branched chain of 174 beads and 1 ring: left out 3 hard rows that " in out
    assert "R²" not in out
    code, out, err = run(*command, "--hard", "h-bonds")
    assert (code, err) == (0, "")
    assert "verdict: negligible" in out


def test_outputs_never_replace_inputs_or_each_other(run, melt, tmp_path):
    before = melt.read_text()
    code, _, err = run("audit", melt, *MELT, "--out", melt)
    assert code == 1
    assert "choose another name" in err
    assert melt.read_text() == before
    same = tmp_path / "same.png"
    code, _, err = run("audit", melt, *MELT, "--out", same, "--plot", same)
    assert code == 1
    assert not same.exists()


def test_files_are_replaced_only_when_told_so(run, melt, tmp_path, peer):
    peer("matplotlib")
    table, picture = tmp_path / "a.csv", tmp_path / "a.png"
    link = tmp_path / "link.csv"
    link.symlink_to(table)
    for option, path in (("--out", table), ("--plot", picture), ("--out", link)):
        table.write_text("mine")
        picture.write_text("mine")
        code, out, err = run("audit", melt, *MELT, option, path)
        assert (code, out) == (1, "")
        assert err == (
            f"fixman: error: {path.resolve()} exists: choose another name, or overwrite it "
            "(--overwrite)\n"
        )
        assert table.read_text() == picture.read_text() == "mine"
    code, out, _ = run("audit", melt, *MELT, "--out", link, "--plot", picture, "--overwrite")
    assert code == 0
    assert f"wrote {link}\n" in out
    assert link.is_symlink()
    assert table.read_text().startswith("group,chain,frame")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert {path.name for path in tmp_path.iterdir()} == {
        "a.csv", "a.png", "link.csv", "melt.data"
    }  # fmt: skip


def test_a_report_is_printed_even_if_its_files_cannot_be_written(run, melt, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cli_audit, "_write_csv", full)
    code, out, err = run("audit", melt, *MELT, "--out", tmp_path / "a.csv")
    assert code == 1
    assert "\nverdict: " in out
    assert "wrote" not in out
    assert err == "fixman: error: [Errno 28] No space left on device\n"
    assert [path.name for path in tmp_path.iterdir()] == ["melt.data"]
    code, out, _ = run("audit", melt, *MELT, "--out", tmp_path / "a.csv", "--json")
    assert code == 1
    assert json.loads(out)["verdict"]


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (["audit", "{melt}", *MELT], ""),
        (["audit", "{melt}", *MELT, "--json"], "1"),
        (["--help"], ""),
        (["simulate", "--help"], ""),
    ],
)
def test_a_closed_pipe_ends_in_silence(melt, arguments, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    command = [a.replace("{melt}", str(melt)) for a in arguments]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "fixman", *command],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_plot_says_what_is_hard(monkeypatch, run, melt, tmp_path, peer):
    peer("matplotlib")
    from fixman.analysis import plot

    drawn = []
    figure = plot.figure
    monkeypatch.setattr(plot, "figure", lambda **_: drawn.append(figure()) or drawn[-1])
    melt_to = ["audit", melt, *MELT, "--plot", tmp_path / "a.png", "--overwrite"]
    assert run(*melt_to, "--hard", "length,angle")[0] == 0
    histogram, torsions = drawn[0].axes
    assert drawn[0].get_suptitle() == "hard: length, angle"
    assert torsions.get_xlabel().startswith("torsion")
    legend = [text.get_text() for text in histogram.get_legend().get_texts()]
    few = ["25 chains of 16 beads, too few to reweight", "3 chains of 2 beads, too few to reweight"]
    assert legend == few
    assert len(torsions.patches) == 1
    assert run(*melt_to, "--hard", "length")[0] == 0
    legend = [text.get_text() for text in drawn[1].axes[0].get_legend().get_texts()]
    assert legend == ["25 chains of 16 beads", few[1], "reweighted to rigid"]
    assert run(*melt_to, "--hard", "length", "--as-is")[0] == 0
    histogram, bends, _ = drawn[2].axes
    assert histogram.get_legend().get_texts()[-1].get_text() == "reweighted to stiff"
    assert bends.get_xlabel().startswith("bending angle")


def test_figure_formats_are_refused_before_the_work(run, melt, tmp_path, peer):
    peer("matplotlib")
    code, _, err = run("audit", melt, *MELT, "--plot", tmp_path / "histogram.foo")
    assert code == 1
    assert "figure format" in err


def test_a_python_without_docstrings_has_helps_and_flags():
    run = [sys.executable, "-OO", "-m", "fixman", "check"]
    done = subprocess.run([*run, "--help"], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Check a whole run for damage")
    done = subprocess.run([*run, "run"], capture_output=True, check=False, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "fixman: error: no such file: run\n"


def test_the_module_runs():
    run = [sys.executable, "-m", "fixman", "--version"]
    assert subprocess.run(run, capture_output=True, check=True, text=True).stdout.startswith(
        "fixman"
    )


def test_all_rows_of_a_frame_have_its_weight(tmp_path):
    from types import SimpleNamespace

    from fixman.analysis.audit import audit
    from fixman.analysis.groups import ChainGroup

    x = np.cumsum(np.random.default_rng(0).normal(size=(4, 3, 5, 3)), axis=2)
    report = audit([ChainGroup(np.ones(5), np.arange(15).reshape(3, 5), x)], as_is=True)
    analysis = SimpleNamespace(frames=np.arange(10, 14), times=np.arange(4) / 2.0)
    cli_audit._write_csv(tmp_path / "table.csv", analysis, report)
    with (tmp_path / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for frame, own in zip(("10", "11", "12", "13"), report.log_weights, strict=True):
        found = {float(row["log_weight"]) for row in rows if row["frame"] == frame}
        assert found == {own}
    half = report.groups[0].half_logdet.sum(axis=1)
    np.testing.assert_allclose(report.log_weights, half.min() - half, atol=1e-12)


def test_no_text_of_a_file_steers_the_terminal(capsys):
    name = "\x1b]0;mine\x07\x9b2J\u202e.psf"
    for code, arguments in (
        (1, ["audit", name, name]),
        (1, ["check", name]),
        (1, ["resume", name]),
        (2, ["audit", name, "--" + name]),
    ):
        assert cli.main(arguments) == code
        said = capsys.readouterr().err.removesuffix("\n")
        assert said.startswith("fixman: error: ")
        assert said.isprintable()
        assert r"\x1b]0;mine\x07\x9b2J" in said
    show(f"ALA{name} ½\nGLY")
    assert capsys.readouterr().out == "ALA\\x1b]0;mine\\x07\\x9b2J\\u202e.psf ½\nGLY\n"
