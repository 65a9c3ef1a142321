"""`fixman simulate`, `resume` and `export` as a user types them."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import fixman as fx
from fixman.cli import command as cli
from fixman.runs import about as provenance
from fixman.runs import runfile
from fixman.simulation import simulate as simulation
from fixman.simulation.simulate import load_run
from fixman.simulation.steppers import Langevin, Newton
from selection import quick

SHORT = ["--beads", "5", "--dt", "0.02", "--steps", "40", "--every", "4", "--seed", "3"]


def test_the_example_of_the_help(run):
    code, out, err = run(
        *("simulate", "--beads", "50", "--hard", "length", "--ensemble", "stiff"),
        *("--method", "langevin", "--dt", "0.02", "--steps", "1e3", "--replicas", "64"),
        *("--seed", "3", "--out", "run"),
    )
    assert (code, err) == (0, "")
    assert out == (
        "<Chain: 50 beads, 3-D, free, masses 1, hard: 49 lengths>, seed 3\n"
        "<Run: 1001 frames of 64 chains of 50 beads, 1000 of 1000 steps, in run>\n"
    )
    result = load_run("run")
    assert result.x.shape == (1001, 64, 50, 3)
    assert np.abs(np.linalg.norm(np.diff(result.x, axis=2), axis=-1) - 1.0).max() < 1e-9
    assert result.about["stepper"] == Langevin(0.02, ensemble="stiff").parameters()


def test_a_run_is_repeated_by_its_seed(run):
    for name, more in (("one", []), ("two", ["--workers", "2"])):
        assert run("simulate", *SHORT, *more, "--replicas", "17", "--out", name)[0] == 0
    one, two = load_run("one"), load_run("two")
    assert one.x.tobytes() == two.x.tobytes()
    assert not np.array_equal(one.x[0, 0], one.x[0, 1])  # a walk for each
    assert run("simulate", *SHORT[:-1], "4", "--out", "three")[0] == 0
    assert not np.array_equal(load_run("three").x[0, 0], one.x[0, 0])


def test_without_a_seed_there_is_one_to_repeat_it(run):
    _, out, _ = run("simulate", *SHORT[:-2], "--out", "one")
    seed = out.splitlines()[0].split()[-1]
    assert run("simulate", *SHORT[:-2], "--seed", seed, "--out", "two")[0] == 0
    assert load_run("one").x.tobytes() == load_run("two").x.tobytes()


def test_the_seed_is_said_before_the_run(monkeypatch, run, capsys):
    from fixman.simulation import simulate as simulation

    said = []
    monkeypatch.setattr(simulation, "simulate", lambda *_, **__: said.append(capsys.readouterr()))
    with pytest.raises(AttributeError):  # there is no run to report on
        run("simulate", *SHORT, "--out", "run")
    assert said[0].out == "<Chain: 5 beads, 3-D, free, masses 1, hard: 4 lengths>, seed 3\n"


@pytest.mark.thorough
def test_a_closed_pipe_does_not_keep_a_run_from_running(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "fixman", "simulate", *SHORT, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")
    assert load_run(tmp_path / "run").finished


@pytest.mark.parametrize("command", ["audit a.pdb", "simulate --steps 4 --out r", "resume r"])
@pytest.mark.parametrize("given", ["0", "-1", "1.5", "nan", "--bogus"])
def test_what_a_subcommand_cannot_mean_names_its_own_help(capsys, command, given):
    more = [given] if given == "--bogus" else [f"--workers={given}"]
    assert cli.main([*command.split(), *more]) == 2
    what = {
        "0": "argument --workers: must be at least 1, got 0",
        "-1": "argument --workers: must be at least 1, got -1",
        "--bogus": "unrecognized arguments: --bogus"
        + {"audit": " (did you mean --bonds?)", "simulate": " (did you mean --out?)"}.get(
            command.split()[0], ""
        ),
    }.get(given, f"argument --workers: invalid whole number value: '{given}'")
    name = command.split()[0]
    assert capsys.readouterr().err == f"fixman: error: {what}; see fixman {name} --help\n"


@pytest.mark.parametrize(
    ("word", "rows"), [("torsional", "4 lengths, 3 angles"), ("all-angles", "4 lengths, 3 angles")]
)
def test_words_for_hard_sets(run, word, rows):
    code, out, err = run("simulate", *SHORT, "--hard", word, "--out", "one")
    assert (code, err) == (0, "")
    assert f"hard: {rows}>" in out


def test_newton(run):
    assert run("simulate", *SHORT, "--method", "newton", "--kT", "2", "--out", "run")[0] == 0
    assert load_run("run").about["stepper"] == Newton(0.02, kT=2.0).parameters()


@pytest.fixture
def asked(run, monkeypatch):
    """Return what a command asks `simulate` for, instead of a run; or its error."""

    def asked(*arguments):
        found = []
        with monkeypatch.context() as patch:
            patch.setattr(simulation, "simulate", lambda *given, **more: found.append(given))
            try:
                chain = [] if any("--chain" in word for word in arguments) else SHORT[:2]
                code, _, err = run("simulate", *chain, *SHORT[4:], *arguments, "--out", "run")
            except AttributeError:  # there is no run to report on
                return found[0]
        assert code == 1
        assert err.startswith("fixman: error: ")
        assert err.count("\n") == 1
        return err.removeprefix("fixman: error: ")

    return asked


P = fx.potentials


@pytest.mark.parametrize(
    ("flags", "potential"),
    [
        ([], None),
        (["--bending", "5"], P.Bending(5.0)),
        (["--torsion-potential", "0,0,2.5"], P.Torsion((0.0, 0.0, 2.5))),
        (["--gravity", "9.81"], P.Gravity((0.0, 0.0, -9.81))),
        (["--gravity", "1", "--dim", "2"], P.Gravity((0.0, -1.0))),
        (["--tension", "2"], P.Tension((2.0, 0.0, 0.0))),
        (["--wca"], P.WCA()),
        (["--wca", "0.5", "--sigma", "0.9"], P.WCA(0.5, 0.9)),
        (["--lj", "--bending", "0"], P.Bending(0.0) + P.LennardJones()),
        (["--bending", "1", "--tension=-1"], P.Bending(1.0) + P.Tension((-1.0, 0.0, 0.0))),
        (["--tension", "-1e-3"], P.Tension((-1e-3, 0.0, 0.0))),
        (["--torsion-potential", "-1,2"], P.Torsion((-1.0, 2.0))),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_potentials(asked, flags, potential):
    _, _, stepper, steps = asked(*flags, "--dt", "0.02")
    assert stepper == Langevin(0.02, potential=potential)
    assert steps == 40


@pytest.mark.parametrize(
    ("method", "flags", "given"),
    [
        ("mc", [], {}),
        ("mc", ["--ensemble", "stiff", "--bending", "5"], {"ensemble": "stiff"}),
        ("hmc", ["--leaps", "5"], {"dt": 0.1, "leaps": 5}),
        ("brownian", [], {"dt": 0.002}),
        (
            "brownian",
            ["--dt", "1e-3", "--friction", "2", "--scheme", "liu", "--ensemble", "mobility"],
            {"dt": 1e-3, "friction": 2.0, "scheme": "liu", "ensemble": "mobility"},
        ),
    ],
)
def test_methods(asked, method, flags, given):
    names = {"mc": "MonteCarlo", "hmc": "HybridMonteCarlo", "brownian": "Brownian"}
    if "--bending" in flags:
        given = given | {"potential": P.Bending(5.0)}
    stepper = asked("--method", method, "--kT", "2", *flags)[2]
    assert stepper == getattr(fx, names[method])(kT=2.0, **given)


def test_flows(asked):
    brownian = ["--method", "brownian"]
    for flags, flow in (
        (["--shear", "1"], fx.flows.shear(1.0)),
        (["--shear", "1", "--dim", "2"], fx.flows.shear(1.0, 2)),
        (["--extension", "0.5"], fx.flows.uniaxial_extension(0.5)),
        (["--extension", "0.5", "--dim", "2"], fx.flows.planar_extension(0.5, 2)),
    ):
        found = asked(*brownian, *flags)[2].parameters()
        assert found == fx.Brownian(0.002, flow=flow, scheme="midpoint").parameters()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--method mc --dt 0.1", "--dt is for --method langevin or newton or brownian or hmc"),
        ("--method hmc --friction 1", "--friction is for --method langevin or brownian"),
        ("--shear 1", "--shear is for --method brownian"),
        ("--method newton --extension 1", "--extension is for --method brownian"),
        ("--scheme liu", "--scheme is for --method brownian"),
        ("--method mc --leaps 3", "--leaps is for --method hmc"),
        ("--ensemble mobility", "ensemble must be 'rigid' or 'stiff', got 'mobility'"),
        ("--sigma 2", "--sigma is for --wca or --lj"),
        ("--wca -1", "--wca: epsilon must be positive"),
        ("--torsion-potential 1,2,3,4,5,6,7", "--torsion-potential: at most 6 amplitudes, got 7"),
        ("--torsion-potential inf", "--torsion-potential: amplitudes is inf"),
        ("--bending nan", "--bending: stiffness is nan"),
        (
            "--chain ring:9 --wca --hard length,angle",
            "--wca and --lj start from linear chains, rings",
        ),
    ],
)
def test_flags_that_do_not_go_together(asked, flags, message):
    assert asked(*flags.split()).startswith(message)


@pytest.mark.parametrize("flags", ["--wca --lj", "--shear 1 --extension 1", "--chain ring:9"])
def test_flags_that_exclude_each_other(run, flags):
    code, _, err = run("simulate", *SHORT, *flags.split(), "--out", "run")
    assert code == 2
    assert "not allowed with argument" in err


@pytest.mark.parametrize(
    "flags",
    quick(
        ["linear", "linear fixed", "linear 2", "linear angle", "linear φ", "ring", "ring fixed 2"],
        "linear",
    ),
)
def test_beads_that_keep_apart_start_apart(asked, flags):
    more = {"fixed": "--base fixed", "2": "--dim 2", "angle": "--hard length,angle --angle 90"}
    more["φ"] = "--torsion-potential 1,2"
    shape, *words = flags.split()
    given = " ".join(more[word] for word in words).split()
    chain, x0, stepper, _ = asked(f"--chain={shape}:9", "--wca", "--length", "1.1", *given)
    values = chain.hard_values(x0)
    assert np.allclose(values, np.where(values > 1.2, math.pi / 2.0, 1.1), atol=1e-9)
    apart = np.linalg.norm(x0[:, None] - x0, axis=-1) + 10.0 * np.eye(9)
    assert apart.min() > 1.0999
    assert np.sort(apart.ravel())[36] > 1.5  # but for bonds
    fx.simulate(chain, x0, stepper, 4, every=4, rng=1)


@pytest.mark.thorough
def test_a_potential_is_resumed_from_the_shell(run):
    flags = ["--bending", "5", "--wca", "--dt", "0.005", "--out", "run"]
    assert run("simulate", *SHORT, *flags)[0] == 0
    assert run("resume", "run", "--steps", "80")[0] == 0
    potential = fx.potentials.Bending(5.0) + fx.potentials.WCA()
    assert load_run("run").about["stepper"] == Langevin(0.005, potential=potential).parameters()


def test_a_scheduler_that_is_not_there(run, peer):
    peer("distributed")
    code, _, err = run("simulate", *SHORT, "--scheduler", "nowhere", "--out", "run")
    assert code == 1
    assert "no Dask scheduler answers at nowhere" in err


@pytest.mark.thorough
def test_a_scheduler_changes_nothing(run, peer, tmp_path, monkeypatch):
    peer("distributed")
    from clusters import dask_cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    command = ["simulate", *SHORT, "--replicas", "9"]
    assert run(*command, "--out", "plain")[0] == 0
    assert run("resume", "plain", "--steps", "80")[0] == 0
    with dask_cluster(tmp_path, 2) as address:
        code, out, err = run(*command, "--scheduler", address, "--out", "spread")
        said = ["<Run: 11 frames of 9 chains of 5 beads, 40 of 40 steps, in spread>"]
        assert (code, out.splitlines()[1:], err) == (0, said, "")
        assert run("resume", "spread", "--steps", "80", "--scheduler", address)[0] == 0
    assert run("check", "spread") == (0, "spread is whole: 21 frames\n", "")
    assert load_run("plain").x.tobytes() == load_run("spread").x.tobytes()


@pytest.mark.parametrize(
    ("arguments", "chain", "values"),
    [
        (["--dim", "2", "--base", "fixed"], fx.Chain.linear(5, dim=2, base="fixed"), [1.0] * 5),
        (["--length", "2"], fx.Chain.linear(5), [2.0] * 4),
    ],
)
def test_chains(run, arguments, chain, values):
    code, _, err = run("simulate", *SHORT, *arguments, "--out", "run")
    assert (code, err) == (0, "")
    result = load_run("run")
    assert result.chain == chain
    assert np.allclose(chain.hard_values(result.x[-1, 0]), values, atol=1e-9)


def test_hard_angles_in_degrees(run):
    code, _, err = run(
        "simulate", *SHORT, "--hard", "length, angle", "--angle", "60", "--out", "run"
    )
    assert (code, err) == (0, "")
    bonds = np.diff(load_run("run").x, axis=2)
    assert np.allclose((bonds[..., 1:, :] * bonds[..., :-1, :]).sum(axis=-1), 0.5, atol=1e-9)


def test_any_chain_from_a_file(run, tmp_path):
    chain = fx.Chain.linear(5, masses=[1.0, 2.0, 3.0, 4.0, 5.0])
    (tmp_path / "chain.json").write_text(chain.to_json())
    code, _, err = run("simulate", *SHORT[2:], "--chain", "chain.json", "--out", "run")
    assert (code, err) == (0, "")
    assert load_run("run").chain == chain


def test_rings(run):
    code, _, err = run("simulate", *SHORT[2:], "--chain", "ring:5", "--out", "run")
    assert (code, err) == (0, "")
    assert load_run("run").chain == fx.Chain.ring(5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "41"], "steps must be a multiple of every"),
        (["--hard", "bound"], "choose one or more of length"),
        (["--method", "newton", "--friction", "2"], "--friction is for --method langevin"),
        (["--method", "newton", "--ensemble", "stiff"], "--ensemble is for --method langevin"),
        (["--dt", "-1"], "dt must be positive"),
        (["--angle", "60"], "--angle needs hard angles, and this chain has none"),
        (["--hard", "length,angle", "--torsion", "60"], "--torsion needs hard torsions"),
        (["--hard", "length,angle", "--angle", "200"], "--angle is in degrees"),
        (["--hard", "length,angle", "--angle", "0"], "a straight angle cannot be hard in 3-D"),
        (["--hard", "length,angle", "--angle", "180"], "folded back cannot be hard in 3-D"),
        (
            ["--hard", "length,angle", "--angle", "0"],
            "hold such bends in line, --straight 0:1:2,1:2:3,2:3:4",
        ),
        (["--straight", "0:1"], "straight must be a list of bends"),
        (["--out", "nowhere/run"], "no such folder"),
        (["--out", "taken"], "is not a run: choose another name"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(run, tmp_path, arguments, message):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").write_text("")
    code, out, err = run("simulate", *SHORT, "--out", "run", *arguments)
    assert code == 1
    assert out == "" or (out.startswith("<Chain: ") and out.count("\n") == 1)  # with the seed
    assert err.startswith("fixman: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]


def test_bends_are_held_straight(run):
    arguments = ["--hard", "length,angle", "--straight", "0:1:2,4:3:2"]
    code, out, _ = run("simulate", *SHORT, *arguments, "--out", "run")
    assert code == 0
    assert "1 angle, 2 straight bends" in out
    held = load_run("run")
    assert held.chain.straight == ((0, 1, 2), (2, 3, 4))
    assert np.abs(held.chain.hard_values(held.x)[..., -4:]).max() < 1e-9


def test_a_chain_has_to_be_named(run):
    code, _, err = run("simulate", *SHORT[2:], "--out", "run")
    assert code == 2
    assert "one of the arguments --beads --chain is required" in err
    code, _, err = run("simulate", *SHORT[2:], "--chain", "nope.json", "--out", "run")
    assert code == 1
    assert err.startswith("fixman: error: no such file: nope.json; chains by words are linear:50, ")


def test_long_steps_are_warned_of_in_a_line(run):
    code, _, err = run("simulate", *SHORT, "--dt", "0.5", "--out", "run")
    assert code == 0
    assert err.startswith("fixman: warning: dt=0.5 is long")
    assert err.count("\n") == 1


@pytest.mark.thorough
def test_a_potential_of_ones_own_is_resumed_from_python(run):
    class Spring:
        def energy(self, x):
            return 0.5 * float((x**2).sum())

        def force(self, x):
            return -x

    chain = fx.Chain.linear(5)
    stepper = Langevin(0.02, potential=fx.potentials.Bending(1.0) + Spring())
    fx.simulate(chain, fx.random_walks(chain, rng=1), stepper, 40, every=4, rng=1, out="run")
    code, _, err = run("resume", "run", "--steps", "80")
    assert code == 1
    assert "Spring is not built in" in err
    assert "resume from Python" in err
    assert "steps must be a multiple" in run("resume", "run", "--steps", "41")[2]


def test_ctrl_c_before_the_run_is_quiet(run, monkeypatch):
    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("fixman.cli.chains.made", interrupted)
    assert run("simulate", *SHORT, "--out", "run") == (130, "", "")


def test_bends_that_cannot_be_read(run):
    code, _, err = run("simulate", *SHORT, "--straight", "0-1-2", "--out", "run")
    assert code == 2
    assert "invalid list of bends" in err


@pytest.mark.parametrize(("text", "number"), [("1e3", 1000), ("20", 20), ("1_000", 1000)])
def test_whole_numbers(text, number):
    from fixman.cli import flags

    assert flags.whole(text) == number


@pytest.mark.parametrize("text", ["1.5", "many", "inf", "nan"])
def test_other_numbers_are_refused(run, text):
    code, _, err = run("simulate", *SHORT, "--out", "run", "--steps", text)
    assert code == 2
    assert f"argument --steps: invalid whole number value: '{text}'" in err


def test_resume_and_extend(run):
    run("simulate", *SHORT, "--out", "run")
    said = "<Run: {} frames of 1 chain of 5 beads, {} of {} steps, in run>\n"
    assert run("resume", "run") == (0, said.format(11, 40, 40), "")
    assert run("resume", "run", "--steps", "60") == (0, said.format(16, 60, 60), "")
    run("simulate", *SHORT, "--steps", "60", "--out", "whole")
    assert load_run("run").x.tobytes() == load_run("whole").x.tobytes()
    code, _, err = run("resume", "run", "--steps", "40")
    assert code == 1
    assert "is at step 60 already" in err
    code, _, err = run("resume", "nothing")
    assert (code, err) == (1, "fixman: error: no such file: nothing\n")


def test_an_existing_run_is_kept_unless_asked(run):
    run("simulate", *SHORT, "--out", "run")
    before = load_run("run").x
    code, _, err = run("simulate", *SHORT, "--seed", "4", "--out", "run")
    assert code == 1
    assert "run exists: resume it, choose another name, or overwrite it (--overwrite)" in err
    assert np.array_equal(load_run("run").x, before)
    assert run("simulate", *SHORT, "--seed", "4", "--out", "run", "--overwrite")[0] == 0
    assert not np.array_equal(load_run("run").x, before)


def test_other_versions_are_a_warning(run, monkeypatch):
    run("simulate", *SHORT, "--out", "run")
    monkeypatch.setattr(provenance, "__version__", "9.9")
    code, _, err = run("resume", "run", "--steps", "60")
    assert code == 0
    assert err.startswith(
        f"fixman: warning: run goes on with other versions, fixman {fx.__version__}"
    )
    assert err.count("\n") == 1


def test_a_full_disk_is_one_line(run, monkeypatch):
    def full(con, table, *given):
        if table == "blocks" and given[0]:
            con.execute("PRAGMA max_page_count=1")
        whole(con, table, *given)

    monkeypatch.setattr(simulation, "BLOCK_BYTES", 5 * 3 * 16 * 4)
    monkeypatch.setattr(runfile, "PAGE", 1024)
    whole = runfile.put
    with monkeypatch.context() as patch:
        patch.setattr(runfile, "put", full)
        code, _, err = run("simulate", *SHORT, "--out", "run")
    assert code == 1
    assert err.startswith("fixman: error: cannot write run: database or disk is full")
    assert "run holds the run up to step 12" in err
    assert err.count("\n") == 1
    assert run("resume", "run")[0] == 0


def test_ctrl_c_is_told_and_can_be_continued(run, monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_BYTES", 5 * 3 * 16)
    advance = Langevin.advance

    def interrupted(self, chain, state, steps, workers=1):
        advance(self, chain, state, steps, workers)
        if state.step == 12:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Langevin, "advance", interrupted)
        code, out, _ = run("simulate", *SHORT, "--out", "run")
    assert code == 130
    assert out.splitlines()[1:] == [
        "<Run: 4 frames of 1 chain of 5 beads, 12 of 40 steps, in run>",
        "interrupted: fixman resume run",
    ]
    assert run("resume", "run")[::2] == (0, "")
    run("simulate", *SHORT, "--out", "whole")
    assert load_run("run").x.tobytes() == load_run("whole").x.tobytes()


SMALL_BLOCKS = """
import sys
from fixman.cli import command
from fixman.simulation import simulate
simulate.BLOCK_WORK = 1_000_000
sys.exit(command.main())
"""


@pytest.mark.thorough
def test_kill_9_and_resume_from_the_shell(run, tmp_path):
    """Programs of their own, the first killed while it computes."""
    options = [*SHORT, "--steps", "1e8", "--every", "1e3", "--out", "run"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    program = {"cwd": tmp_path, "env": environment}
    child = subprocess.Popen([sys.executable, "-c", SMALL_BLOCKS, "simulate", *options], **program)
    try:
        deadline = time.monotonic() + 300.0
        while not ((tmp_path / "run").exists() and (tmp_path / "run").stat().st_size > 200_000):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        child.kill()
        child.wait()
    killed = load_run(tmp_path / "run")
    end = str((len(killed) + 100) * 1000)
    again = [sys.executable, "-m", "fixman", "resume", "run", "--steps", end]
    done = subprocess.run(again, capture_output=True, text=True, **program)
    assert done.returncode == 0, done.stderr
    whole = [*SHORT, "--steps", end, "--every", "1e3", "--out", "whole"]
    assert run("simulate", *whole)[0] == 0
    assert len(load_run("run")) == len(killed) + 101
    assert load_run("run").x.tobytes() == load_run("whole").x.tobytes()


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_export(run, peer):
    peer("gsd")
    peer("h5py")
    mda = peer("MDAnalysis")
    from fixman.io.hdf5 import read_hdf5

    run("simulate", *SHORT, "--replicas", "2", "--out", "run")
    result = load_run("run")
    assert run("export", "run", "--to", "x.gsd") == (0, "wrote x.gsd: 11 frames\n", "")
    universe = mda.Universe("x.gsd")
    assert len(universe.bonds) == 8
    assert np.allclose(universe.atoms.positions.reshape(2, 5, 3), result.x[0], atol=1e-5)
    cut = ["--start", "1", "--stop", "-1", "--step", "3"]
    assert run("export", "run", "--to", "y.gsd", "--replica", "1", *cut)[1] == (
        "wrote y.gsd: 3 frames\n"
    )
    assert len(mda.Universe("y.gsd").atoms) == 5
    assert run("export", "run", "--to", "x.h5")[0] == 0
    assert read_hdf5("x.h5").x.tobytes() == result.x.tobytes()
    code, _, err = run("export", "run", "--to", "x.h5")
    assert code == 1
    assert "x.h5 exists" in err
    assert run("export", "run", "--to", "x.h5", "--overwrite", *cut)[0] == 0
    assert np.array_equal(read_hdf5("x.h5").x, result.x[1:-1:3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--to", "x.txt"], "--to must end in .gsd, .h5, .hdf5, .h5md, .pdb, .dcd"),
        (["--to", "x.pdb"], "this run has no PDB file"),
        (["--to", "x.h5", "--replica", "0"], "--replica is not for .h5"),
        (["--to", "x.gsd", "--replica", "2"], "the run has replicas 0 to 1, got 2"),
        (["--to", "x.gsd", "--start", "20"], "no frame of run is chosen"),
        (["--to", "x.gsd", "--step", "0"], "step cannot be zero"),
        (["--to", "nowhere/x.gsd"], "no such folder"),
    ],
)
def test_exports_that_cannot_be(run, peer, arguments, message):
    peer("gsd")
    peer("MDAnalysis")
    run("simulate", *SHORT, "--replicas", "2", "--out", "run")
    code, _, err = run("export", "run", *arguments)
    assert code == 1
    assert message in err


def test_export_without_its_package(run, monkeypatch):
    run("simulate", *SHORT, "--out", "run")
    monkeypatch.setitem(sys.modules, "gsd", None)
    monkeypatch.delitem(sys.modules, "fixman.io.gsd", raising=False)
    code, _, err = run("export", "run", "--to", "x.gsd")
    assert code == 1
    assert "pip install" in err


@pytest.mark.parametrize("command", ["simulate", "sample", "resume", "export"])
def test_help_imports_nothing_heavy(command):
    code = (
        "import sys\n"
        "from fixman.cli import command\n"
        f"try: command.main([{command!r}, '--help'])\n"
        "finally: print(sorted({'numpy', 'scipy', 'numba', 'gsd', 'h5py', 'tqdm'} "
        "& sys.modules.keys()), file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == "[]\n"
    assert "usage: fixman" in done.stdout


@pytest.mark.parametrize("flag", ["--beads", "--replicas"])
def test_what_does_not_fit_into_memory_is_refused(flag, tmp_path, capsys):
    sizes = {"--beads": "10", "--replicas": "1"} | {flag: "1e12"}
    flags = [word for pair in sizes.items() for word in pair]
    assert cli.main(["simulate", *flags, "--steps", "10", "--out", str(tmp_path / "run")]) == 1
    line = capsys.readouterr().err
    assert "--beads = 1e+12 " in line or "1000000000000 walks of 10 beads " in line
    assert "GB of memory, and this machine has" in line
    assert line.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--steps", "1e300"], "steps must be below 2⁶³, about 9.2e18"),
        (["--beads", "1e300"], "--beads must be below 2⁶³"),
        (["--length", "nan"], "lengths must be finite, got nan"),
        pytest.param(
            ["--hard", "angle", "--dt", "0.1", "--replicas", "64"],
            "make the lengths hard",
            marks=pytest.mark.thorough,  # compiles a kernel that others need not
        ),
    ],
)
def test_nonsense_is_one_line(flags, text, tmp_path, capsys):
    given = ["simulate", "--beads", "10", "--steps", "100", "--seed", "3", *flags]
    assert cli.main([*given, "--out", str(tmp_path / "run"), "--quiet"]) == 1
    line = capsys.readouterr().err
    assert text in line
    assert line.splitlines()[-1].startswith("fixman: error: ")
    assert "Traceback" not in line


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["simulate", "--beads", "3", "--steps", "10", "--out", ""], "--out"),
        (["resume", ""], "RUN"),
        (["check", ""], "RUN"),
        (["export", "run", "--to", ""], "--to"),
        (["demo", "--out", ""], "--out"),
        (["audit", ""], "TOPOLOGY"),
        (["audit", "a.pdb", ""], "TRAJECTORY"),
        (["audit", "a.pdb", "--out", ""], "--out"),
        (["audit", "a.pdb", "--plot", ""], "--plot"),
    ],
)
def test_an_empty_name_is_not_the_current_folder(capsys, arguments, what):
    assert cli.main(arguments) == 2
    assert f"argument {what}: it is empty; see fixman {arguments[0]} --help" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"\xff\xfe\x00", "'utf-8' codec can't decode"), (b"{}", "text is not a chain written by")],
)
def test_a_file_that_is_no_chain_is_named(content, text, tmp_path, capsys):
    file = tmp_path / "chain.json"
    file.write_bytes(content)
    out = str(tmp_path / "run")
    assert cli.main(["simulate", "--chain", str(file), "--steps", "10", "--out", out]) == 1
    assert f"chain.json: {text}" in capsys.readouterr().err
