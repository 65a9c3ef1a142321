"""All commands: the examples of their helps, --json, chains by words, `info` and `rigid`."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import fixman as fx
from dipeptide import TEXT
from fixman.cli import command
from fixman.cli.chains import made
from fixman.cli.flags import Parser
from selection import quick
from urdf_texts import joint, link, robot

pytestmark = pytest.mark.filterwarnings("ignore:::MDAnalysis")

SHORT = ["--steps", "40", "--every", "4", "--seed", "3"]
SHORTER = {  # words of examples
    "1e6": "1e3", "2e6": "2e3", "1e5": "1e3", "64": "8", "villin.pdb": "ala.pdb", "100": "0.08"
}  # fmt: skip


@pytest.fixture
def panda(tmp_path):
    """Write an arm of seven revolute joints with a hand."""
    parts = [link("base")]
    for k in range(7):
        before = f"link{k - 1}" if k else "base"
        parts.append(
            joint(f"j{k}", "revolute", before, f"link{k}", (0, 0, 0.3), axis=(0, 1, k % 2))
        )
        parts.append(link(f"link{k}", 1.0 + k, (0, 0, 0.15), (0.1, 0.1, 0.01)))
    parts += [joint("flange", "fixed", "link6", "panda_hand", (0, 0, 0.1)), link("panda_hand", 0.5)]
    path = tmp_path / "panda.urdf"
    path.write_text(robot(*parts))
    return path


def examples(name):
    text = command.module(name).__doc__.partition("\nexample:\n")[2].replace("\\\n", " ")
    return re.findall(r"^  fixman (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("name", command.COMMANDS)
def test_helps_are_a_screen_with_an_example(name, run):
    code, out, err = run(name, "--help")
    assert (code, err) == (0, "")
    assert f"\n\nusage: fixman {name}" in out
    assert max(map(len, out.splitlines())) <= 100
    assert len(out.splitlines()) <= 33
    assert examples(name)


@pytest.mark.parametrize("name", quick(command.COMMANDS, "info", "rigid", "simulate", "check"))
def test_examples_of_helps_run(name, run, peer, panda):
    files = peer("MDAnalysisTests.datafiles")
    peer("matplotlib")
    if name == "torsional":
        peer("openmm.app")
    if name == "export":
        peer("gsd")
    shutil.copy(files.PSF, "top.psf")
    shutil.copy(files.DCD, "run.dcd")
    Path("ala.pdb").write_text(TEXT)
    if name in ("resume", "check", "export"):
        assert run("simulate", "--beads", "5", *SHORT, "--out", "run")[0] == 0
    for example in examples(name):
        words = [SHORTER.get(word, word) for word in shlex.split(example)]
        code, out, err = run(*words, *(["--quick"] if name == "demo" else []))
        assert (code, err) == (0, "")
        assert out


def test_the_overview_and_the_completion_know_all_commands(run):
    for flag in ("--help", "--completion"):
        code, out, err = run(flag)
        assert (code, err) == (0, "")
        assert all(f" {name} " in f" {out} ".replace('"', " ") for name in command.COMMANDS)
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("bash completes")
    asked = 'COMP_WORDS=(fixman simulate --re); COMP_CWORD=2; _fixman; echo "${COMPREPLY[@]}"'
    done = subprocess.run([shell, "-c", f"{out}\n{asked}"], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("--replicas\n", "")


# --- chains ---------------------------------------------------------------------------------------


def given(*words):
    from fixman.cli import simulate

    words = (*words, "--steps", "1", "--out", "run")
    return Parser("fixman simulate", simulate.__doc__).parse_args(words)


@pytest.mark.parametrize(
    ("words", "chain"),
    [
        ("linear:5", fx.Chain.linear(5)),
        ("ring:5", fx.Chain.ring(5)),
        ("star:3x2", fx.Chain.branched([-1, 0, 1, 0, 3, 0, 5])),
        ("star:3x1", fx.Chain.branched([-1, 0, 0, 0])),
        ("comb:3x2", fx.Chain.branched([-1, 0, 1, 0, 3, 1, 5, 2, 7])),
        ("comb:1x3", fx.Chain.branched([-1, 0, 1, 2])),
    ],
)
def test_chains_by_words(words, chain):
    assert made(given("--chain", words)).chain == chain


def test_words_take_the_flags_of_chains():
    more = ["--dim", "2", "--base", "fixed", "--hard", "length,angle", "--length", "2"]
    found = made(given("--chain", "star:3x2", *more))
    hard = ("length", "angle")
    tree = [-1, 0, 1, 0, 3, 0, 5]
    assert found.chain == fx.Chain.branched(tree, dim=2, base="fixed", hard=hard)
    assert found.values["lengths"] == 2.0


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("star:3", "no such file: star:3; chains by words are linear:50, ring:30, star:4x10"),
        ("ring:3x4", "no such file: ring:3x4; chains by words"),
        ("comb:0x4", "no such file: comb:0x4; chains by words"),
        ("ring:2", "at least 3 beads"),
        ("star:1000000x1000000", "GB of memory"),
        ("linear:5 --select name", "--select is not for chains by words"),
        ("chain.json --dim 2", "--dim is not for chains of JSON"),
        ("chain.json --hard angle", "--hard is not for chains of JSON"),
        ("two.data --length 2", "--length is not for molecules"),
        ("two.data", "two.data has 1 chain of 3 beads, 1 chain of 2 beads: choose equal"),
    ],
)
def test_chains_that_are_refused(run, peer, words, text):
    peer("MDAnalysis")
    Path("chain.json").write_text(fx.Chain.linear(3).to_json())
    write_data("two.data", (3, 2))
    chain, *more = words.split(" ")
    code, out, err = run("simulate", "--chain", chain, *more, *SHORT, "--out", "run")
    assert (code, out) == (1, "")
    assert text in err
    assert err.count("\n") == 1
    assert not Path("run").exists()


def write_data(path, sizes):
    """Write a LAMMPS data file of chains with bonds of 1.5 and right angles."""
    atoms, bonds = [], []
    for number, size in enumerate(sizes):
        for k in range(size):
            atom = len(atoms) + 1
            atoms.append(
                f"{atom} {number + 1} 1 {1.5 * ((k + 1) // 2)} {1.5 * (k // 2)} {9 * number}"
            )
            if k:
                bonds.append(f"{len(bonds) + 1} 1 {atom - 1} {atom}")
    Path(path).write_text(
        f"chains\n\n{len(atoms)} atoms\n{len(bonds)} bonds\n1 atom types\n1 bond types\n\n"
        "-90 90 xlo xhi\n-90 90 ylo yhi\n-90 90 zlo zhi\n\nMasses\n\n1 12.0\n\n"
        "Atoms # molecular\n\n" + "\n".join(atoms) + "\n\nBonds\n\n" + "\n".join(bonds) + "\n"
    )


def test_molecules_of_a_topology_start_where_they_are(run, peer):
    peer("MDAnalysis")
    write_data("melt.data", (5, 5))
    flags = ["--chain", "melt.data", "--hard", "length,angle", "--wca", "0.01"]
    code, _, err = run("simulate", *flags, *SHORT, "--dt", "1e-3", "--out", "run", "--json")
    assert (code, err) == (0, "")
    found = fx.load_run("run")
    assert found.chain == fx.Chain.linear(5, masses=12.0, hard=("length", "angle"))
    assert np.allclose(np.linalg.norm(np.diff(found.x[-1, 0], axis=0), axis=-1), 1.5)
    code, _, err = run("sample", *flags[:4], "--size", "20", "--seed", "3", "--out", "x.npz")
    assert (code, err) == (0, "")
    with np.load("x.npz") as file:
        bonds = np.diff(file["x"], axis=1)
    assert np.allclose((bonds[:, 1:] * bonds[:, :-1]).sum(axis=-1), 0.0, atol=1e-9)


# --- results for machines -------------------------------------------------------------------------


def test_results_as_json(run, peer):
    peer("h5py")
    flags = ["--chain", "star:3x2", *SHORT, "--method", "mc", "--out", "run", "--json"]
    code, out, err = run("simulate", *flags)
    assert (code, err) == (0, "")
    found = json.loads(out)
    acceptance = found.pop("acceptance")
    assert 0.0 < acceptance <= 1.0
    assert found.pop("stepper")["name"] == "montecarlo"
    assert found == {
        "file": "run",
        "chain": repr(fx.Chain.branched([-1, 0, 1, 0, 3, 0, 5])),
        "seed": 3,
        "frames": 11,
        "replicas": 1,
        "steps_done": 40,
        "steps": 40,
        "finished": True,
    }
    assert json.loads(run("resume", "run", "--steps", "48", "--json")[1])["frames"] == 13
    document = json.loads(run("check", "run", "--json")[1])
    assert document["whole"]
    assert document["readable"] == [[0, 13]]
    written = json.loads(run("export", "run", "--to", "x.h5", "--step", "2", "--json")[1])
    assert written == {"written": "x.h5", "frames": 7}
    drawn = run("sample", "--beads", "5", "--size", "9", "--seed", "3", "--out", "x.npz", "--json")
    assert json.loads(drawn[1])["effective_size"] == 9.0
    assert json.loads(drawn[1])["chain"] == repr(fx.Chain.linear(5))


# --- info -----------------------------------------------------------------------------------------


def test_info_tells_files_apart(run, peer, panda):
    peer("MDAnalysis")
    write_data("two.data", (3, 2))
    Path("chain.json").write_text(fx.Chain.ring(7).to_json())
    assert run("simulate", "--beads", "5", *SHORT, "--out", "run")[0] == 0
    for name, kind, line in (
        ("two.data", "topology", "\natoms: 5\n"),
        ("chain.json", "chain", f"\nchain: {fx.Chain.ring(7)!r}\n"),
        ("panda.urdf", "robot", " 7.5\n"),
        ("run", "run", f"\nchain: {fx.Chain.linear(5)!r}\n"),
    ):
        code, out, err = run("info", name)
        assert (code, err) == (0, "")
        assert line in out
        found = json.loads(run("info", name, "--json")[1])
        assert (found["file"], found["kind"]) == (name, kind)
    assert json.loads(run("info", "two.data", "--json")[1])["molecules"] == [
        "1 chain of 3 beads",
        "1 chain of 2 beads",
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("no.file", None), ("a.json", b"{"), ("a.json", b"{}"), ("a.urdf", b"<robot"),
        ("a.urdf", b""), ("a.psf", b"\x00\xff"), ("a.unknown", b"text"), ("a.pdb", b""),
        ("a.npz", b"PK\x03\x04"), ("a.h5", b"\x89HDF"), ("a.dcd", b"T\x00\x00\x00CORD"),
        ("run", b"SQLite format 3\x00"), ("run", b"SQLite format 3\x00" + 4096 * b"\x00"),
    ],
)  # fmt: skip
def test_info_refuses_in_a_line(run, peer, name, content):
    peer("MDAnalysis")
    if content is not None:
        Path(name).write_bytes(content)
    code, out, err = run("info", name)
    assert (code, out) == (1, "")
    assert err.startswith("fixman: error: ")
    assert err.count("\n") == 1
    assert name in err


# --- rigid ----------------------------------------------------------------------------------------


def test_torques_and_accelerations_of_an_arm(run, panda):
    q, torque = np.linspace(-1.0, 1.0, 7), np.linspace(2.0, -2.0, 7)
    flags = [f"--q={','.join(map(str, q))}", f"--torque={','.join(map(str, torque))}"]
    code, out, err = run("rigid", panda, *flags, "--gravity", "3.7", "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    arm, down, rest = fx.rigid.SerialChain.from_urdf(panda), (0, 0, -3.7), np.zeros(7)
    hold = fx.rigid.newton_euler.inverse_dynamics(arm, q, rest, rest, gravity=down)
    qdd = fx.rigid.partition.forward_dynamics(arm, q, rest, torque, gravity=down)
    assert [row["joint"] for row in found["joints"]] == [f"j{k}" for k in range(7)]
    assert np.allclose([row["hold"][0] for row in found["joints"]], hold)
    assert np.allclose([row["qdd"][0] for row in found["joints"]], qdd)
    _, positions = fx.rigid.kinematics.frames(arm, q)
    assert np.allclose(np.linalg.norm(np.diff(positions, axis=0), axis=-1), 0.3)
    text = run("rigid", panda, *flags)[1]
    assert text.startswith("chain: <SerialChain: 7 bodies, 7 revolute; 7 ")
    assert "\nmass: 28.5\njoints:\n" in text
    assert "\n  link6: " in text
    assert "\ngravity: 0 0 9.81\n" in run("rigid", panda, "--gravity=-9.81")[1]
    at_hand = run("rigid", panda, *flags, "--tip", "panda_hand", "--json")[1]
    hand, last = json.loads(at_hand)["places"]["panda_hand"], found["places"]["link6"]
    assert np.isclose(np.linalg.norm(np.subtract(hand, last)), 0.1)


def test_a_motion_is_written(run, panda, peer):
    peer("matplotlib")
    flags = ["--time", "0.2", "--qd", "1,0,0,0,0,0,0", "--out", "fall", "--plot", "a.png"]
    code, out, err = run("rigid", panda, *flags)
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "wrote a.png"
    assert "\n  time: 0.2\n  energy change: " in out
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    arm = fx.rigid.SerialChain.from_urdf(panda)
    expected = fx.rigid.motion.simulate(
        arm, np.zeros(7), 1e-3, 200, qd=[1, 0, 0, 0, 0, 0, 0], gravity=(0, 0, -9.81)
    )
    found = fx.load_run("fall")
    assert np.array_equal(found.q, expected.q)
    assert np.array_equal(found.time, expected.time)
    times = "steps 0 to 300, times 0 to 0.3, dt=0.001"
    said = f"<Trajectory: 301 frames, {times}, 7 coordinates, in fall>\n"
    assert run("resume", "fall", "--steps", "300") == (0, said, "")
    assert json.loads(run("info", "fall", "--json")[1])["frames"] == 301
    assert run("check", "fall") == (0, "fall is whole: 301 frames\n", "")
    code, _, err = run("export", "fall", "--to", "fall.h5")
    assert (code, err.count("\n")) == (1, 1)
    assert "--to must end in .csv, .pdb, got fall.h5" in err
    assert run("export", "fall", "--to", "fall.csv")[0] == 0
    assert Path("fall.csv").read_text().startswith("time,j0,j1,j2,")
    code, _, err = run("rigid", panda, *flags)
    assert (code, err) == (
        1,
        "fixman: error: a.png exists: choose another name, or overwrite it (--overwrite)\n",
    )


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--out fall", "--out and --plot need a motion: give its duration, --time 1"),
        ("--time 1 --out nowhere/fall", "nowhere"),
        ("--time -1", "--time must be positive"),
        ("--time nan", "must be positive"),
        ("--time inf", "must be positive"),
        ("--time 1 --dt 0", "must be positive"),
        ("--time 1e300", "must be"),
        ("--time 99 --dt 9 --qd 9,9,9,9,9,9,9", "too long"),
        ("--q 1,2", "q must have"),
        ("--q nan,0,0,0,0,0,0", "q is nan"),
        ("--gravity inf", "gravity"),
        ("--tip nothing", "no link is called 'nothing'"),
        ("--tip base", "no joint on the way to link 'base' moves"),
        ("--plot a.xyz --time 0.01", "must end in a figure format"),
    ],
)
def test_robots_that_cannot_be(run, panda, peer, flags, text):
    peer("matplotlib")
    code, out, err = run("rigid", panda.name, *flags.split())
    assert (code, out) == (1, "")
    assert text in err
    assert err.count("\n") == 1


def test_degrees_and_reasons_are_said(run, panda):
    out = run("rigid", panda, "--q", "0,-30,0,1,0,0,0", "--time", "0.002")[1]
    assert "q is outside the limits of j1: are these degrees?" in out
    assert not any(words in out for words in ("file: None", "energy changed by"))
    more = "--q", "0,1,0,1,0,0,0", "--torque", "1,0,0,0,0,0,0", "--time", "0.002"
    out = run("rigid", panda, *more)[1]
    assert "outside" not in out
    assert "\n  energy changed by: torques\n" in out
    code, _, err = run("rigid", panda, "--qd", "9,9,9,9,9,9,9", "--time", "9", "--dt", "0.1")
    assert (code, "too long" in err, "attribute" in err) == (1, True, False)
    bare = panda.read_text().replace(link("panda_hand", 0.5), link("panda_hand"))
    panda.write_text(
        bare.replace(link("link6", 7.0, (0, 0, 0.15), (0.1, 0.1, 0.01)), link("link6"))
    )
    code, _, err = run("rigid", panda, "--lenient")
    assert code == 1
    assert "body 6 (counted from 0)" in err
    assert "body 6 is 'link6', which 'j6' moves" in err


def test_a_robot_with_branches_names_its_ends(run):
    parts = [link("root"), *(link(name, 1.0) for name in "ab")]
    parts += [joint(f"to {name}", "revolute", "root", name) for name in "ab"]
    Path("robot.urdf").write_text(robot(*parts))
    for name in ("rigid", "info"):
        code, _, err = run(name, "robot.urdf")
        assert code == 1
        assert "tip must name a last link" in err
        assert "chains end at 'a', 'b'" in err
        assert run(name, "robot.urdf", "--tip", "b")[0] == 0


def test_hints_of_the_library_are_flags(run):
    parts = [link("root"), link("a", 1.0, moments=(1, 1, 9)), joint("j", "revolute", "root", "a")]
    Path("robot.urdf").write_text(robot(*parts))
    code, _, err = run("rigid", "robot.urdf")
    assert code == 1
    assert "--lenient takes" in err
    assert run("rigid", "robot.urdf", "--lenient")[0] == 0
