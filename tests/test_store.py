"""Run folders survive whatever ends a program, and refuse what is not theirs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import fixman as fx
from drifting import Drift
from fixman.simulation import places, runfiles, store, writer
from fixman.simulation import simulate as simulation
from fixman.simulation.simulate import resume, simulate
from fixman.simulation.steppers import Langevin, Newton
from fixman.simulation.store import (
    RunDamageWarning,
    RunFolderError,
    RunStorageError,
    RunVersionWarning,
    load_run,
)
from selection import quick

CHAIN = fx.Chain.linear(4)
X0 = np.arange(12.0).reshape(4, 3)
FRAMES = 3  # a block


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of three frames of three replicas."""
    monkeypatch.setattr(simulation, "BLOCK_BYTES", FRAMES * 3 * 4 * 3 * 16)


def start(out, steps=40, **options):
    options = {"every": 2, "replicas": 3, "rng": 7, "progress": False} | options
    stepper = options.pop("stepper", None) or Drift()
    return simulate(CHAIN, X0, stepper, steps, out=out, **options)


def same(one, two):
    """Whether two runs have the same bits."""
    return (
        len(one) == len(two)
        and np.array_equal(one.times, two.times)
        and one.x.tobytes() == two.x.tobytes()
        and one.v.tobytes() == two.v.tobytes()
    )


def names(path):
    return sorted(os.listdir(path))


# --- kill ---------------------------------------------------------------------------------------


def in_child(work):
    """Fork, and do the work there; returns the child's number."""
    child = os.fork()
    if child:
        return child
    code = 1
    with contextlib.suppress(BaseException):
        work()
        code = 0
    os._exit(code)


@pytest.fixture
def memory_disk():
    """Give a folder where fsync costs nothing: a kill loses nothing of what was written anyway."""
    disk = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=disk) as path:
        yield Path(path)


@pytest.mark.thorough
@pytest.mark.parametrize("stepper", [Langevin(0.02, ensemble="stiff"), Newton(0.02, kT=1.0)])
def test_kill_9_a_hundred_times(memory_disk, stepper):
    whole = start(None, stepper=stepper)
    began = time.perf_counter()
    start(memory_disk / "timed", stepper=stepper)
    length = time.perf_counter() - began
    rng = np.random.default_rng(1)
    kills, path = [0], memory_disk / "run"
    while sum(kills) < 100:
        child = in_child(lambda: go_on(path, stepper))
        time.sleep(rng.uniform(0.0, 1.5 * length))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            kills[-1] += 1
            continue
        assert os.WEXITSTATUS(status) == 0
        assert load_run(path).finished
        assert same(load_run(path), whole)
        assert names(path) == [
            ".lock",
            *blocks(7),
            "checkpoint.npz",
            "checkpoint_previous.npz",
            "run.json",
        ]
        shutil.rmtree(path)
        kills.append(0)
    assert max(kills) > 2


def go_on(path, stepper):
    if path.exists():
        resume(path, progress=False)
    else:
        start(path, stepper=stepper)


def blocks(number):
    return [f"block_{k:06d}.npz" for k in range(number)]


class Death(BaseException):
    """The process ends here: nothing is cleaned up."""


def dying(function, calls, last):
    def call(*arguments, **options):
        if len(calls) == last:
            raise Death
        calls.append(function.__name__)
        return function(*arguments, **options)

    return call


@pytest.mark.parametrize("longer", [False, True])
def test_death_at_every_system_call(memory_disk, monkeypatch, longer):
    """Between any two opens, writes, fsyncs and renames: the run goes on with all its bits."""
    whole = start(None, steps=12)
    last = 0
    while True:
        path = memory_disk / f"run{last}"
        calls = []
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace", "rename", "open"):
                function = getattr(os, name)
                patch.setattr(os, name, dying(function, calls, last))
            # A dead process does not clean up.
            patch.setattr(places.Place, "remove", lambda *a, **k: None)
            patch.setattr(writer.shutil, "rmtree", lambda *a, **k: None)
            try:
                start(path, steps=12)
            except Death:
                ended = False
            else:
                ended = True
        if ended:
            break
        run = resume(path, stepper=Drift()) if path.exists() else start(path, steps=12)
        assert same(run, whole)
        if longer:
            assert same(resume(path, 24, stepper=Drift()), start(None, steps=24))
        assert not [name for name in names(path) if name.endswith(".tmp")]
        last += 1
    assert last > 20


# --- a full disk ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of its own; only root may, and not in every container."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run(mount, capture_output=True).returncode == 0:
            yield disk
            subprocess.run(["umount", str(disk)], check=True)
            return
    pytest.skip("file systems cannot be mounted here")


def test_a_full_disk_loses_one_block_at_most(small_disk):
    path, ballast = small_disk / "run", small_disk / "ballast"
    ballast.write_bytes(bytes(100_000))
    with pytest.raises(RunStorageError, match="the disk is full") as error:
        start(path, steps=2000)
    assert error.value.errno == errno.ENOSPC
    assert not [name for name in names(path) if name.endswith(".tmp")]
    part = load_run(path)
    assert not part.finished
    assert 0 < len(part) == part.steps_done // 2 + 1
    assert f"{part.steps_done} of 2000 steps" in str(error.value)
    assert same(part, start(None, steps=2000)[: len(part)])
    with pytest.raises(RunStorageError):  # still full
        resume(path, stepper=Drift())
    longer = len(load_run(path))
    assert len(part) <= longer < len(part) + 2 * FRAMES
    ballast.unlink()
    end = part.steps_done + 40
    assert same(resume(path, end, stepper=Drift()), start(None, steps=end))


def test_a_full_disk_at_the_start(small_disk):
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        file.write(bytes(1_000_000))
    with pytest.raises(RunStorageError, match="the disk is full"):
        start(small_disk / "run")
    assert names(small_disk) == ["ballast"]


@pytest.mark.parametrize("call", ["fsync", "replace"])
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_storage_errors_leave_a_run_that_goes_on(tmp_path, monkeypatch, call, reason):
    whole, path = start(None), tmp_path / "run"
    count, function = [0], getattr(os, call)

    def fails(*arguments, **options):
        count[0] += 1
        if count[0] == 17:
            raise OSError(reason, os.strerror(reason))
        return function(*arguments, **options)

    monkeypatch.setattr(os, call, fails)
    if call == "replace":
        count[0] = 8
    with pytest.raises(RunStorageError, match=r"cannot write .* of .*run") as error:
        start(path)
    assert error.value.errno == reason
    assert not [name for name in names(path) if name.endswith(".tmp")]
    assert len(load_run(path)) > 0
    assert same(resume(path, stepper=Drift()), whole)


def test_files_that_may_not_grow(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_BYTES", 1 << 20)

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
        try:
            start(tmp_path / "run")
        except RunStorageError as error:
            os._exit(7 if "may not grow" in str(error) else 8)

    assert os.WEXITSTATUS(os.waitpid(in_child(limited), 0)[1]) == 7
    assert len(load_run(tmp_path / "run")) == 0
    run = resume(tmp_path / "run", stepper=Drift())
    assert same(run, start(None))


# --- interruption ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [True, False])
def test_ctrl_c_finishes_the_block(tmp_path, stored):
    path = tmp_path / "run" if stored else None
    steps = [0]

    def delay():
        steps[0] += 1
        if steps[0] == 7:
            signal.raise_signal(signal.SIGINT)

    run = start(path, stepper=Drift(delay=delay))
    assert not run.finished
    assert run.steps_done == 10  # two blocks: frames 0 to 5
    assert same(run, start(None)[:6])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "10 of 40 steps" in repr(run)
    if stored:
        assert same(resume(path, stepper=Drift()), start(None))


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    steps = [0]

    def delay():
        steps[0] += 1
        if steps[0] in (12, 13):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "run", stepper=Drift(delay=delay))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert same(load_run(tmp_path / "run"), start(None)[:6])
    assert same(resume(tmp_path / "run", stepper=Drift()), start(None))


def test_ctrl_c_in_the_last_block_changes_nothing(tmp_path):
    steps = [0]

    def delay():
        steps[0] += 1
        if steps[0] == 40:
            signal.raise_signal(signal.SIGINT)

    assert start(tmp_path / "run", stepper=Drift(delay=delay)).finished


def test_a_failing_step_says_what_is_kept(tmp_path):
    with pytest.raises(RuntimeError, match="step 23 has no solution") as error:
        start(tmp_path / "run", stepper=Drift(break_at=23))
    assert error.value.__notes__ == [f"{tmp_path / 'run'} holds the run up to step 23"]
    assert same(resume(tmp_path / "run", stepper=Drift()), start(None))


def test_a_first_step_that_fails_leaves_no_folder(tmp_path):
    (tmp_path / "run").mkdir()  # which was empty
    for name in ("run", "other"):
        with pytest.raises(RuntimeError, match="step 0 has no solution") as error:
            start(tmp_path / name, stepper=Drift(break_at=0))
        assert not hasattr(error.value, "__notes__")
    assert not list(tmp_path.iterdir())
    start(tmp_path / "run", stepper=Drift())


def test_two_writers_are_told_apart(tmp_path):
    path = tmp_path / "run"
    start(path)
    with writer.writing(path), pytest.raises(RunFolderError, match="another process is writing"):
        resume(path, 80, stepper=Drift())
    with writer.writing(path), pytest.raises(RunFolderError, match="another process is writing"):
        start(path, overwrite=True)
    assert same(resume(path, 80, stepper=Drift()), start(None, steps=80))


# --- what is refused ------------------------------------------------------------------------------


def test_an_existing_path_is_never_overwritten_unasked(tmp_path):
    path = tmp_path / "run"
    start(path)
    before = {name: (path / name).read_bytes() for name in names(path)}
    with pytest.raises(FileExistsError, match="resume it, choose another name, or overwrite it"):
        start(path, rng=8)
    assert before == {name: (path / name).read_bytes() for name in names(path)}
    run = start(path, rng=8, overwrite=True)
    assert same(run, start(None, rng=8))
    assert names(tmp_path) == ["run"]

    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    file = tmp_path / "file"
    file.write_text("")
    for taken in (other, file):
        with pytest.raises(FileExistsError, match="is not a run: choose another name"):
            start(taken)
        with pytest.raises(RunFolderError, match="is not a run"):
            start(taken, overwrite=True)
    assert names(other) == ["thesis.tex"]
    with pytest.raises(FileNotFoundError, match="no such folder"):
        start(tmp_path / "a" / "b")


def test_an_empty_folder_is_as_good_as_none(tmp_path):
    (tmp_path / "run").mkdir()
    assert same(start(tmp_path / "run"), start(None))


def test_a_place_that_is_taken_in_the_meantime(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "require_free", lambda *_: None)
    start(tmp_path / "run")
    with pytest.raises(FileExistsError, match="exists"):
        start(tmp_path / "run")
    assert names(tmp_path) == ["run"]


def test_foreign_folders(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        resume(tmp_path / "nothing")
    with pytest.raises(RunFolderError, match=r"is not a run: it has no run\.json"):
        resume(tmp_path)
    about = tmp_path / "run.json"
    for text, message in [
        ("{", "is damaged"),
        ('"text"', "something else"),
        ('{"steps": 3}', "something else"),
        ('{"fixman_run": 2}', "newer version"),
        ('{"fixman_run": 1}', "it has no block, chain"),
    ]:
        about.write_text(text)
        with pytest.raises(RunFolderError, match=message):
            resume(tmp_path)


def test_an_edited_run_is_refused(tmp_path):
    start(tmp_path / "run")
    about = tmp_path / "run" / "run.json"
    data = json.loads(about.read_text())
    data["stepper"]["dt"] = 1.0
    about.write_text(json.dumps(data))
    with pytest.raises(RunFolderError, match="was edited"):
        resume(tmp_path / "run", stepper=Drift(1.0))


def test_files_of_another_run_are_refused(tmp_path):
    start(tmp_path / "one")
    start(tmp_path / "two", rng=8)
    shutil.copy(tmp_path / "two" / "block_000001.npz", tmp_path / "one" / "block_000001.npz")
    with pytest.raises(RunFolderError, match=r"block_000001\.npz belongs to another run"):
        _ = load_run(tmp_path / "one").x
    for name in ("checkpoint.npz", "checkpoint_previous.npz"):
        shutil.copy(tmp_path / "two" / name, tmp_path / "one" / name)
        with pytest.warns(RunDamageWarning, match=f"{name} belongs to another run"):
            run = load_run(tmp_path / "one")
    assert same(run[6:], start(None)[6:])
    with pytest.raises(RunFolderError, match="belongs to another run"):
        resume(tmp_path / "one", stepper=Drift())


def test_missing_files_are_named(tmp_path):
    start(tmp_path / "run")
    (tmp_path / "run" / "block_000002.npz").unlink()
    message = r"block_000002\.npz is missing; the frames of run\[0:6\] and run\[9:21\] can be read"
    with pytest.raises(RunFolderError, match=message):
        _ = load_run(tmp_path / "run").x
    with pytest.raises(RunFolderError, match=message):
        resume(tmp_path / "run", 80, stepper=Drift())
    for name in ("checkpoint.npz", "checkpoint_previous.npz"):
        (tmp_path / "run" / name).unlink()
    with pytest.raises(RunFolderError, match=r"checkpoint\.npz is missing"):
        resume(tmp_path / "run")


def test_a_run_with_a_damaged_block_is_not_gone_on_with(tmp_path):
    start(tmp_path / "run")
    file = tmp_path / "run" / "block_000001.npz"
    content = bytearray(file.read_bytes())
    content[content.index(b"x.npy") + 200] ^= 1
    checkpoint = (tmp_path / "run" / "checkpoint.npz").read_bytes()
    file.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"block_000001\.npz is damaged"):
        resume(tmp_path / "run", 80)
    shutil.copy(tmp_path / "run" / "block_000002.npz", file)
    with pytest.raises(RunFolderError, match=r"block_000001\.npz is damaged: its frames are not"):
        resume(tmp_path / "run", 80)
    assert (tmp_path / "run" / "checkpoint.npz").read_bytes() == checkpoint


@pytest.mark.parametrize("name", quick(["checkpoint.npz", "block_000000.npz"], "block_000000.npz"))
def test_no_damage_goes_unnoticed(tmp_path, name):
    """A byte changed or the end cut off: an error of our own, or the same numbers."""
    path = tmp_path / "run"
    whole = start(path)
    file = path / name
    content = file.read_bytes()
    rng = np.random.default_rng(2)
    noticed = 0
    for trial in range(400):
        broken = bytearray(content)
        if trial % 4:
            place = rng.integers(len(broken))
            broken[place] ^= 1 << rng.integers(8)
        else:
            broken = broken[: rng.integers(len(broken))]
        file.write_bytes(bytes(broken))
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run = load_run(path)
            noticed += len(caught)
            assert same(run, whole[: len(run)])
            assert len(run) == len(whole) - FRAMES * len(caught)  # 21 frames, seven blocks
            folder = store.Folder.open(path)
            assert folder.point.state["x"].tobytes() == run.x[-1].tobytes()
        except RunFolderError:
            noticed += 1
    assert noticed > 250


def test_a_block_that_is_too_short(tmp_path, monkeypatch):
    path = tmp_path / "run"
    start(path)
    with np.load(path / "block_000000.npz") as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(path / "block_000000.npz", **arrays | {"x": arrays["x"][:2]})
    with pytest.raises(RunFolderError, match=r"x has shape \(2, 3, 4, 3\), expected \(3, 3"):
        _ = load_run(path).x


def test_another_version_warns(tmp_path, monkeypatch):
    path = tmp_path / "run"
    steps = [0]

    def delay():
        steps[0] += 1
        if steps[0] == 7:
            signal.raise_signal(signal.SIGINT)

    start(path, stepper=Drift(delay=delay))
    monkeypatch.setattr(runfiles, "__version__", "9.9")
    steps[0] = 0
    with pytest.warns(RunVersionWarning, match=f"fixman {fx.__version__} → 9.9") as caught:
        resume(path, stepper=Drift(delay=delay))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        run = resume(path, stepper=Drift())
    assert same(run, start(None))
    history = run.about["history"]
    assert [(entry["step"], entry["versions"]["fixman"]) for entry in history] == [(10, "9.9")]
    assert load_run(path).about["versions"]["fixman"] == fx.__version__


# --- files ----------------------------------------------------------------------------------------


def test_equal_runs_are_equal_files(tmp_path):
    for name in ("one", "two"):
        start(tmp_path / name)
    for name in names(tmp_path / "one"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_provenance_and_plain_files(tmp_path):
    run = start(tmp_path / "run")
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run.about == about
    assert fx.Chain.from_json(json.dumps(about["chain"])) == CHAIN
    assert about["stepper"] == {"name": "drift", "dt": 0.5}
    assert (about["steps"], about["every"], about["replicas"]) == (40, 2, 3)
    assert about["rng"] == {"seed": 7}
    assert set(about["versions"]) == {"fixman", "numpy", "scipy", "numba", "python"}
    assert str(tmp_path) not in json.dumps(about)
    with np.load(tmp_path / "run" / "block_000001.npz") as file:  # anyone can read it
        assert file["step"].tolist() == [6, 8, 10]
        assert np.array_equal(file["x"], run.x[3:6])


def test_reading_while_it_is_written(tmp_path):
    path, seen = tmp_path / "run", []

    def delay():
        seen.append(load_run(path))

    start(path, stepper=Drift(delay=delay))
    assert [len(run) for run in seen] == sorted(len(run) for run in seen)
    assert all(same(run, start(None)[: len(run)]) for run in seen if len(run))


def test_a_run_is_found_after_a_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = start("run")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    assert same(run, start(None))


def test_file_systems_without_locks(tmp_path, monkeypatch):
    def without(*_):
        raise OSError(errno.ENOLCK, "no locks")

    monkeypatch.setattr(places.fcntl, "flock", without)
    assert same(start(tmp_path / "run"), start(None))
    monkeypatch.setattr(places, "fcntl", None)
    assert same(start(tmp_path / "other"), start(None))
