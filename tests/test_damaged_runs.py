"""What is damaged costs itself only: the rest is read, and the run goes on where it can."""

from __future__ import annotations

import errno
import json
import os
import shutil

import numpy as np
import pytest

import fixman as fx
from drifting import Drift
from fixman.cli import command as cli
from fixman.simulation import simulate as simulation
from fixman.simulation import writer
from fixman.simulation.archives import pack
from forging import arrays_of, sign_anew

CHAIN = fx.Chain.linear(4)
X0 = np.arange(12.0).reshape(4, 3)
FRAMES = 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of three frames of three replicas."""
    monkeypatch.setattr(simulation, "BLOCK_BYTES", FRAMES * 3 * 4 * 3 * 16)


def start(out, steps=40, **options):
    given = {"every": 2, "replicas": 3, "rng": 7, "progress": False}
    return fx.simulate(CHAIN, X0, Drift(), steps, out=out, **given | options)


@pytest.fixture
def path(tmp_path):
    """Make a run of 21 frames in seven blocks."""
    start(tmp_path / "run")
    return tmp_path / "run"


def spoil(file):
    content = bytearray(file.read_bytes())
    content[content.index(b"x.npy") + 200] ^= 1  # in the positions
    file.write_bytes(content)


def whole_again(path, steps=60):
    run = fx.resume(path, steps, stepper=Drift(), progress=False)
    whole = start(None, steps)
    assert run.x.tobytes() == whole.x.tobytes()
    assert run.v.tobytes() == whole.v.tobytes()
    assert fx.check_run(path).whole


# --- the checkpoint before the last ---------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", ["checkpoint.npz", "block_000006.npz"])
def test_the_checkpoint_before_is_gone_on_from(path, name, missing):
    if missing:
        (path / name).unlink()
    else:
        spoil(path / name)
    with pytest.warns(fx.RunDamageWarning, match=f"{name}.*is read up to step 34") as caught:
        run = fx.load_run(path)
    assert caught[0].filename == __file__
    assert run.x.tobytes() == start(None).x[:18].tobytes()
    assert run.steps_done == 34
    check = fx.check_run(path)
    assert not check.whole
    assert check.resumable
    assert check.readable == (range(18),)
    with pytest.warns(fx.RunDamageWarning, match="computes the rest again") as caught:
        whole_again(path)
    assert caught[0].filename == __file__


def test_both_checkpoints_damaged(path):
    for name in ("checkpoint.npz", "checkpoint_previous.npz"):
        spoil(path / name)
    spoil(path / "block_000002.npz")
    with pytest.warns(fx.RunDamageWarning, match="it cannot be resumed"):
        run = fx.load_run(path)
    whole = start(None)
    assert len(run) == 21
    for part in (slice(0, 6), slice(9, 21)):
        assert run[part].x.tobytes() == whole.x[part].tobytes()
    with pytest.raises(fx.RunFolderError, match=r"block_000002\.npz is damaged.*run\[0:6\]"):
        _ = run[6:7].x
    assert fx.check_run(path).readable == (range(6), range(9, 21))
    with pytest.raises(fx.RunFolderError, match="it cannot be resumed"):
        fx.resume(path, 60, stepper=Drift())


def test_an_older_block_costs_its_own_frames(path):
    spoil(path / "block_000002.npz")
    run, whole = fx.load_run(path), start(None)
    assert run[9:].x.tobytes() == whole.x[9:].tobytes()
    message = r"frames of run\[0:6\] and run\[9:21\] can be read without it"
    with pytest.raises(fx.RunFolderError, match=message):
        _ = run.x
    with pytest.raises(fx.RunFolderError, match=message):
        fx.resume(path, 60, stepper=Drift())
    check = fx.check_run(path)
    assert check.readable == (range(6), range(9, 21))
    assert not check.resumable
    assert "frames that can be read: 0 to 5, 9 to 20; it cannot be resumed" in str(check)


def test_a_damaged_spare_checkpoint_is_told(path):
    spoil(path / "checkpoint_previous.npz")
    assert len(fx.load_run(path)) == 21  # nothing of it is needed, so no warning
    check = fx.check_run(path)
    assert check.resumable
    assert check.readable == (range(21),)
    assert "checkpoint_previous.npz is damaged" in check.problems[0]
    whole_again(path)


def test_a_checkpoint_killed_between_its_renames_is_no_damage(path):
    (path / "checkpoint.npz").rename(path / "checkpoint.npz.tmp")
    assert len(fx.load_run(path)) == 18  # warnings are errors here
    whole_again(path)


# --- blocks in the wrong place --------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
def test_blocks_in_the_wrong_place_are_never_read(path, swapped, capsys):
    pytest.importorskip("gsd")
    one, two = path / "block_000000.npz", path / "block_000001.npz"
    content = one.read_bytes(), two.read_bytes()
    one.write_bytes(content[1])
    if swapped:
        two.write_bytes(content[0])
    run = fx.load_run(path)
    with pytest.raises(fx.RunFolderError, match="its frames are not those from 0 on"):
        _ = run[:2].x
    assert run[6:].x.tobytes() == start(None).x[6:].tobytes()
    assert cli.main(["export", str(path), "--to", str(path.parent / "x.gsd")]) == 2
    err = capsys.readouterr().err
    assert "its frames are not those from 0 on; the frames of fixman export --start 3 --st" in err
    one.write_bytes(one.read_bytes()[:-9])
    assert cli.main(["export", str(path), "--to", str(path.parent / "x.gsd")]) == 2
    assert (
        "is damaged: it is not a whole archive (File is not a zip file);" in capsys.readouterr().err
    )
    with pytest.raises(SystemExit, match=r"^1$"):
        cli.main(["check", str(path)])
    assert "block_000000.npz is damaged" in capsys.readouterr().out


def test_a_whole_run_is_told(path, capsys):
    assert cli.main(["check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path} is whole: 21 frames\n"
    with pytest.raises(FileNotFoundError):
        fx.check_run(path / "nothing")


# --- a checkpoint that is forged ------------------------------------------------------------------


def langevin(path):
    x0 = np.zeros((4, 3))
    x0[:, 0] = np.arange(4)
    options = {"every": 2, "replicas": 3, "rng": 7, "progress": False}
    return fx.simulate(CHAIN, x0, fx.Langevin(0.02), 20, out=path, **options)


@pytest.mark.parametrize(
    ("name", "forged", "message"),
    [
        ("state_random", lambda a: a[:, :1], r"state_random has shape \(3, 1\), expected \(3, 4\)"),
        ("state_random", lambda a: a * np.uint64(0), "the random stream of replica 0 is all zeros"),
        ("state_x", lambda a: a[:1], r"state_x has shape \(1, 4, 3\), expected \(3, 4, 3\)"),
        ("state_x", lambda a: a * 1.01, "replica 0 does not have the hard values"),
        ("state_v", lambda a: a * np.nan, "not finite"),
        ("state_v", lambda a: a * 2.0, "v of the last frame is not that of the state"),
        ("state_targets", lambda a: a[:, :2], r"expected \(3, 3\)"),
        ("state_step", lambda a: a * 0 + 10**18, "the step of the state is 1000000000000000000"),
        ("step", lambda a: a * 0 + 10**18, "step is 1000000000000000000, of a run of 20"),
        ("frames", lambda a: a * 1000, "has not 1 to 3 frames"),
        ("frames", lambda a: a[:-1], "it counts 9 frames at step 20"),
    ],
)
def test_no_checkpoint_is_believed(tmp_path, name, forged, message):
    run = langevin(tmp_path / "run")
    for point in ("checkpoint.npz", "checkpoint_previous.npz"):
        arrays = arrays_of(tmp_path / "run" / point)
        (tmp_path / "run" / point).write_bytes(pack(arrays | {name: forged(arrays[name])}))
    with pytest.raises(fx.RunFolderError, match=message):
        fx.resume(tmp_path / "run", 40, progress=False)
    with pytest.warns(fx.RunDamageWarning, match=message):
        assert fx.load_run(tmp_path / "run").x.tobytes() == run.x.tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("stepper", "widths"),
    [
        (fx.MonteCarlo(burn_in=0), (0.0, -1.0, 1e300, np.nan, 9e-4, 3.2)),
        (fx.HybridMonteCarlo(0.1), (0.0, 0.2, np.nan)),
    ],
)
def test_no_width_of_moves_is_believed(tmp_path, stepper, widths):
    x0 = np.zeros((4, 3))
    x0[:, 0] = np.arange(4)
    options = {"every": 2, "replicas": 3, "rng": 7, "progress": False}
    run = fx.simulate(CHAIN, x0, stepper, 20, out=tmp_path / "run", **options)
    points = [tmp_path / "run" / name for name in ("checkpoint.npz", "checkpoint_previous.npz")]
    kept = [arrays_of(point) for point in points]
    for width in widths:
        for point, arrays in zip(points, kept, strict=True):
            tally = arrays["state_tally"].copy()
            tally[1, 2] = width
            point.write_bytes(pack(arrays | {"state_tally": tally}))
        with pytest.raises(fx.RunFolderError, match="widths of moves that are not from"):
            fx.resume(tmp_path / "run", 40, progress=False)
        with pytest.warns(fx.RunDamageWarning, match="widths of moves"):
            assert fx.load_run(tmp_path / "run").x.tobytes() == run.x.tobytes()


def test_a_beginning_that_is_another_one(tmp_path):
    langevin(tmp_path / "run")
    for block in (tmp_path / "run").glob("block_*.npz"):
        block.unlink()
    for point in ("checkpoint.npz", "checkpoint_previous.npz"):
        arrays = arrays_of(tmp_path / "run" / point)
        arrays |= {name: arrays[name] * 0 for name in ("step", "state_step")}
        arrays["frames"] = arrays["frames"][:0]
        (tmp_path / "run" / point).write_bytes(pack(arrays))
    with pytest.raises(fx.RunFolderError, match=r"not the one that run.json says the run began"):
        fx.resume(tmp_path / "run", 40, progress=False)


def test_what_was_half_written_is_removed(tmp_path):
    langevin(tmp_path / "run")
    left = tmp_path / "run" / "block_000009.npz.tmp"
    left.write_bytes(b"half")
    fx.resume(tmp_path / "run", 40, progress=False)
    assert not left.exists()


# --- run.json -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("steps", "abc"),
        ("steps", 1e30),
        ("steps", 2**60),
        ("steps", 41),
        ("steps", True),
        ("history", 5),
        ("history", [5]),
        ("history", [{"step": 1, "steps": 2, "versions": 3}]),
    ],
)
def test_entries_outside_the_identity(path, entry, value):
    about = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(about | {entry: value}))
    for read in (fx.load_run, fx.resume):
        with pytest.raises(fx.RunFolderError, match=rf"run\.json is damaged: {entry} is "):
            read(path)
    del about[entry]
    (path / "run.json").write_text(json.dumps(about))
    with pytest.raises(fx.RunFolderError, match=f"it has no {entry}"):
        fx.load_run(path)


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a": NaN}', b"\xff\xfe", b"", b"9" * 5000])
def test_documents_that_are_none(path, text):
    (path / "run.json").write_bytes(text)
    with pytest.raises(fx.RunFolderError, match=r"run\.json is"):
        fx.load_run(path)
    check = fx.check_run(path)
    assert check.readable == ()
    assert not check.resumable


@pytest.mark.parametrize("name", ["run.json", "checkpoint.npz", "block_000001.npz", ".lock"])
@pytest.mark.parametrize("what", ["folder", "loop", "pipe"])
def test_other_things_in_the_place_of_files(path, name, what):
    (path / name).unlink()
    make = {"folder": os.mkdir, "loop": lambda p: os.symlink(p.name, p), "pipe": os.mkfifo}
    if name == ".lock" and what == "pipe":
        return  # as good as a file to lock
    make[what](path / name)
    if name == "checkpoint.npz":
        with pytest.warns(fx.RunDamageWarning, match=name):
            fx.load_run(path)
        return
    with pytest.raises(fx.RunFolderError, match=name):
        fx.resume(path, 60, stepper=Drift())


def test_a_folder_under_a_temporary_name(path):
    (path / "block_000007.npz.tmp").mkdir()
    with pytest.raises(fx.RunFolderError, match=r"block_000007\.npz\.tmp is a folder"):
        fx.resume(path, 60, stepper=Drift())


def test_a_folder_where_a_file_is_to_come(path):
    (path / "block_000007.npz").mkdir()
    with pytest.raises(fx.RunFolderError, match=r"block_000007\.npz is a folder"):
        fx.resume(path, 60, stepper=Drift())
    (path / "block_000007.npz").rmdir()
    whole_again(path)


@pytest.mark.parametrize("text", ['{"fixman_chain": 1, "dim": 3e400}', "[" * 100_000, "5", "null"])
def test_texts_that_are_no_chains(text):
    with pytest.raises(ValueError, match=r"text is not a chain written by Chain\.to_json: "):
        fx.Chain.from_json(text)


@pytest.mark.parametrize("forged", [10**30, "NaN", "1e999", "[]", "null"])
@pytest.mark.parametrize("entry", ["references", "masses", "hard", "dim", "extra"])
def test_chains_with_other_entries(entry, forged):
    data = json.loads(CHAIN.to_json())
    data[entry] = [["FORGED"] * 3] * 4 if entry == "references" else ["FORGED"] * 4
    text = json.dumps(data).replace('"FORGED"', str(forged))
    with pytest.raises(ValueError, match=r"text is not a chain written by Chain\.to_json: "):
        fx.Chain.from_json(text)


# --- overwriting ----------------------------------------------------------------------------------


def test_files_of_ones_own_are_not_overwritten(path):
    (path / "thesis.tex").write_text("years of work")
    with pytest.raises(fx.RunFolderError, match=r"holds what no run made: thesis\.tex"):
        start(path, overwrite=True)
    assert (path / "thesis.tex").read_text() == "years of work"
    assert fx.check_run(path).whole


def test_a_link_to_a_run_stays_a_link(path, tmp_path):
    (tmp_path / "link").symlink_to(path.name)
    run = start(tmp_path / "link", overwrite=True, rng=8)
    assert os.readlink(tmp_path / "link") == "run"
    assert fx.load_run(path).x.tobytes() == run.x.tobytes()
    assert sorted(os.listdir(tmp_path)) == ["link", "run"]


def test_what_a_kill_left_is_swept(path, tmp_path):
    left = tmp_path / ".run.0123abcd"
    shutil.copytree(path, left)
    with writer.writing(left):
        start(path, overwrite=True)
        assert left.is_dir()  # somebody is at it
    start(path, overwrite=True)
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("out", ["", ".", "/"])
def test_folders_without_a_name(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, FileExistsError), match="name") as error:
        start(out)
    assert not isinstance(error.value, FileNotFoundError)
    assert os.listdir(tmp_path) == []


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(fx.RunStorageError, match="its name is too long"):
        start(tmp_path / ("x" * 300))
    assert os.listdir(tmp_path) == []
    assert len(start(tmp_path / ("x" * 250))) == 21


# --- strangers' folders ---------------------------------------------------------------------------


def sign(path, **changes):
    sign_anew(path, json.loads((path / "run.json").read_text()) | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"versions": {"numpy": "\x1b[2J"}},
        {"versions": {"numpy": "2.0\nfixman: all is well"}},
        {"history": [{"step": 0, "steps": 40, "versions": {"numpy": "\x9b2J"}}]},
        {"stepper": {"name": "drift", "potential": {"name": "\x1b]0;mine\x07", "own": True}}},
        {"rng": {"\u202e": 1}},
    ],
)
def test_no_text_of_a_run_steers_a_terminal(path, changes, capsys):
    sign(path, **changes)
    for read in (fx.load_run, fx.resume):
        with pytest.raises(fx.RunFolderError) as raised:
            read(path)
        assert str(raised.value).isprintable()
    assert not fx.check_run(path).whole
    for command in (["resume"], ["export", "--to", str(path) + ".dcd"]):
        assert cli.main([*command, str(path)]) == 2
    assert capsys.readouterr().err.replace("\n", "").isprintable()


@pytest.mark.parametrize("name", ["np", "mean_with_error", "__loader__", "Histogram", "bind"])
def test_observables_are_the_librarys_own_or_given(tmp_path, name):
    path = tmp_path / "run"
    start(path, observables=[fx.observables.end_to_end])
    sign(path, observables={"end_to_end": name})
    before = (path / "run.json").read_bytes()
    with pytest.raises(ValueError, match=r"observables of your own, end_to_end: pass the same"):
        fx.resume(path, 60, stepper=Drift())
    assert (path / "run.json").read_bytes() == before


def test_a_lock_is_never_followed(path, tmp_path):
    (path / ".lock").unlink()
    (path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(fx.RunFolderError, match=r"\.lock is a link: remove it"):
        fx.resume(path, 60, stepper=Drift())
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_written_to(path, monkeypatch):
    opened = os.open

    def read_only(name, flags, *rest, **options):
        if flags & (os.O_CREAT | os.O_RDWR | os.O_WRONLY):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), name)
        return opened(name, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(fx.RunStorageError, match="run cannot be written to: Read-only") as raised:
        fx.resume(path, 60, stepper=Drift())
    assert raised.value.errno == errno.EROFS
