"""The file of a run survives whatever ends a program, and refuses what is not whole."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import resource
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import warnings
from dataclasses import replace as replaced
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import dipeptide
import fixman as fx
import rigid_runs
from drifting import Drift
from fixman.rigid import _recording
from fixman.runs import about as provenance
from fixman.runs import runfile
from fixman.simulation import simulate as simulation

CHAIN = fx.Chain.linear(4)
X0 = np.arange(12.0).reshape(4, 3)
LINE = np.arange(4)[:, None] * [1.0, 0.0, 0.0]
BENT = fx.random_walks(CHAIN, rng=1)
FRAMES = 3  # a block
STEPPERS = {
    "newton": fx.Newton(0.02, kT=1.0),
    "langevin": fx.Langevin(0.02, ensemble="stiff"),
    "brownian": fx.Brownian(0.002),
    "hybrid": fx.HybridMonteCarlo(0.1),
    "montecarlo": fx.MonteCarlo(burn_in=0),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of three frames of three replicas."""
    monkeypatch.setattr(simulation, "BLOCK_BYTES", FRAMES * 3 * 4 * 3 * 16)


@pytest.fixture
def path(tmp_path):
    """Make a run of 21 frames in seven blocks."""
    start(tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def memory_disk():
    """Give a folder where fsync costs nothing: a kill loses nothing of what was written anyway."""
    disk = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=disk) as folder:
        yield Path(folder)


def start(out, steps=40, stepper=None, **options):
    given = {"every": 2, "replicas": 3, "rng": 7, "progress": False} | options
    x0 = X0 if stepper is None or isinstance(stepper, Drift) else LINE
    return fx.simulate(CHAIN, x0, stepper or Drift(), steps, out=out, **given)


def go_on(path, steps=None, stepper=None):
    return fx.resume(path, steps, stepper=stepper or Drift(), progress=False)


def same(one, two):
    """Whether two runs have the same bits."""
    names = set(one.about["arrays"]) & set(two.about["arrays"])
    return (
        len(one) == len(two)
        and np.array_equal(one.steps, two.steps)
        and len(names) > 1
        and all(one.array(name).tobytes() == two.array(name).tobytes() for name in names)
    )


def whole_again(path, steps=60):
    assert same(go_on(path, steps), start(None, steps))
    assert fx.check_run(path).whole


def after(count, act):
    """Return a delay for `Drift` that does something once, after so many steps."""
    steps = [0]

    def delay():
        steps[0] += 1
        if steps[0] == count:
            act()

    return Drift(delay=delay)


# --- kill ---------------------------------------------------------------------------------------


def in_child(work):
    """Fork, and do the work there; returns the child's number."""
    child = os.fork()
    if child:
        return child
    code = 1
    with contextlib.suppress(BaseException):
        code = work() or 0
    os._exit(code)


def code_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def begin_or_go_on(path, begin, again):
    """Do what a user does after a kill; a file without a run in it is as good as none."""
    (again if path.exists() and runfile._tables(path) else begin)(path)


def seconds(begin, path):
    began = time.perf_counter()
    begin(path)
    return time.perf_counter() - began


def killed(disk, begin, again, kills):
    """Kill a run at random moments, and go on, until it has been killed so many times."""
    whole, path, done = begin(None), disk / "run", 0
    length = min(seconds(begin, disk / f"timed-{k}") for k in range(2))
    rng = np.random.default_rng(1)
    while done < kills:
        child = in_child(lambda: begin_or_go_on(path, begin, again) and 0)
        time.sleep(rng.uniform(0.0, 1.5 * length))
        os.kill(child, signal.SIGKILL)
        if code_of(child):
            done += 1
            if path.exists() and runfile._tables(path):
                run = fx.load_run(path)
                assert same(run, whole[: len(run)])
        else:
            assert same(fx.load_run(path), whole)
            assert not list(disk.glob("run-*"))
            path.unlink()


def of_stepper(name):
    stepper = STEPPERS[name]
    return lambda out: start(out, stepper=stepper), lambda path: go_on(path, stepper=stepper)


def of_rigid(name):
    tau = rigid_runs.pull if name == "controlled" else None

    def again(path):
        return fx.resume(path, tau=tau, progress=False)

    return lambda out: rigid_runs.begin(name, out), again


def of_molecule():
    from fixman.io.openmm.torsional import Molecule

    molecule = Molecule(dipeptide.TEXT, dipeptide.FIELD, "Reference")  # has no threads to lose
    chain, stepper = molecule.chain(), fx.Langevin(0.002, kT=2.5, friction=5.0, potential=molecule)
    given = {"every": 2, "rng": 3, "observables": molecule.observables(), "progress": False}

    def again(path):
        options = {key: given[key] for key in ("observables", "progress")}
        return fx.resume(path, stepper=stepper, **options)

    return lambda out: fx.simulate(chain, molecule.x0, stepper, 40, out=out, **given), again


@pytest.fixture
def small_rigid_blocks(monkeypatch):
    """Four frames of the arm or so."""
    monkeypatch.setattr(_recording, "BLOCK_BYTES", 250)


@pytest.mark.parametrize("name", ["langevin", "montecarlo"])
def test_kill_9(memory_disk, name):
    killed(memory_disk, *of_stepper(name), 6)


@pytest.mark.parametrize("name", ["midpoint", "controlled"])
def test_kill_9_of_rigid_bodies(memory_disk, small_rigid_blocks, name):
    killed(memory_disk, *of_rigid(name), 6)


@pytest.mark.thorough
@pytest.mark.parametrize("name", STEPPERS)
def test_kill_9_many_times(memory_disk, name):
    killed(memory_disk, *of_stepper(name), 25)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["euler", "four-bar"])
def test_kill_9_of_rigid_bodies_many_times(memory_disk, small_rigid_blocks, name):
    killed(memory_disk, *of_rigid(name), 10)


@pytest.mark.thorough
def test_kill_9_of_a_molecule(memory_disk, peer):
    peer("openmm.app")
    killed(memory_disk, *of_molecule(), 10)


def test_death_at_every_statement(memory_disk, monkeypatch):
    """Between any two statements of SQL: what is there goes on with all its bits."""
    whole, last, ended = start(None, steps=8), 0, False

    class Dying(sqlite3.Connection):
        calls = 0

        def execute(self, *given):
            Dying.calls += 1
            if Dying.calls > last:
                os._exit(7)
            return super().execute(*given)

    while not ended:
        path = memory_disk / f"run{last}"
        with monkeypatch.context() as patch:
            patch.setitem(runfile.CONNECTION, "factory", Dying)
            ended = code_of(in_child(lambda p=path: start(p, steps=8) and 0)) == 0
        begin_or_go_on(path, lambda p: start(p, steps=8), lambda p: go_on(p, 8))
        assert same(go_on(path, 8), whole)
        last += 1
    assert last > 40


# --- disks ----------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path):
    """Mount a file system of its own; only root may, and not in every container."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run(mount, capture_output=True).returncode == 0:
            yield disk
            subprocess.run(["umount", "--lazy", str(disk)], check=True)
            return
    pytest.skip("file systems cannot be mounted here")


def test_a_full_disk_loses_two_blocks_at_most(small_disk):
    path, ballast = small_disk / "run", small_disk / "ballast"
    ballast.write_bytes(bytes(1_500_000))
    with pytest.raises(fx.RunStorageError, match="disk is full") as error:
        start(path, steps=2000)
    part = fx.load_run(path)
    assert 0 < len(part) == part.steps_done // 2 + 1 < 1001
    assert error.value.__notes__ == [f"{path} holds the run up to step {part.steps_done}"]
    assert same(part, start(None, steps=2000)[: len(part)])
    with pytest.raises(fx.RunStorageError):  # still full
        go_on(path)
    assert same(fx.load_run(path)[: len(part)], part)
    ballast.unlink()
    assert same(go_on(path, 2000), start(None, steps=2000))


def test_a_full_disk_at_the_start(small_disk):
    ballast = small_disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb") as file:
        file.write(bytes(3_000_000))
    with pytest.raises(fx.RunStorageError, match="disk is full"):
        start(small_disk / "run")
    assert not (small_disk / "run").exists() or not (small_disk / "run").stat().st_size


def test_a_disk_that_can_only_be_read(small_disk):
    run = start(small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert same(fx.load_run(small_disk / "run"), run)
    assert fx.check_run(small_disk / "run").whole
    for write in (lambda: go_on(small_disk / "run", 60), lambda: start(small_disk / "new")):
        with pytest.raises(fx.RunStorageError, match="cannot write"):
            write()


def test_files_that_may_not_grow(memory_disk):
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
        try:
            start(memory_disk / "run", steps=2000)
        except fx.RunStorageError as error:
            return 7 if "I/O error" in str(error) or "is full" in str(error) else 8

    assert code_of(in_child(limited)) == 7
    assert 0 < len(fx.load_run(memory_disk / "run")) < 1001
    assert same(go_on(memory_disk / "run", 2000), start(None, steps=2000))


def test_two_writers_are_told_apart(path):
    with contextlib.closing(runfile.reopen(path, simulation._maker)):
        for write in (lambda: go_on(path, 80), lambda: start(path, overwrite=True)):
            with pytest.raises(fx.RunFolderError, match=r"another process is writing to .*run"):
                write()

        def other():
            try:
                go_on(path, 80)
            except fx.RunFolderError:
                return 7

        assert code_of(in_child(other)) == 7
    whole_again(path, 80)


def test_reading_and_copying_while_it_is_written(tmp_path):
    path, copy, seen = tmp_path / "run", tmp_path / "copy", []

    def look():
        seen.append(fx.load_run(path))
        copy.unlink(missing_ok=True)
        with (
            contextlib.closing(sqlite3.connect(path)) as one,
            contextlib.closing(sqlite3.connect(copy)) as two,
        ):
            one.backup(two)
        assert fx.check_run(copy).whole

    whole = start(None)
    run = start(path, stepper=Drift(delay=look))
    assert same(run, whole)
    assert [len(run) for run in seen] == sorted(len(run) for run in seen)
    assert all(same(run, whole[: len(run)]) for run in seen[::7] if len(run))
    assert same(go_on(copy), whole)


def move(path):
    """Move a run whose blocks are written: two files have one journal if the old one has its."""
    while len(fx.load_run(path)) < 9:
        time.sleep(0.001)
    path.rename(path.parent / "elsewhere")


def replace(path):
    move(path)
    start(path, rng=8)


@pytest.mark.parametrize("deed", [move, replace, Path.unlink])
def test_a_file_that_is_moved_or_removed_is_told(tmp_path, deed):
    path = tmp_path / "run"
    with pytest.raises(fx.RunStorageError, match="was moved, removed or replaced"):
        start(path, stepper=after(17, lambda: deed(path)))
    if deed is not Path.unlink:
        assert len(fx.load_run(tmp_path / "elsewhere")) >= 9
        whole_again(tmp_path / "elsewhere")
    if deed is replace:
        assert same(fx.load_run(path), start(None, rng=8))


def test_a_file_that_is_replaced_is_told_whatever_sqlite_says_of_it(path):
    """The journals of both files have one name, so that the first one to end may remove both."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_DELETE_NOENT
    file = path.stat()
    for deed, message in ((Path.exists, "cannot write"), (replace, "was moved, removed or")):
        deed(path)
        with (
            pytest.raises(fx.RunStorageError, match=message),
            runfile.explained(path, writing=True, file=file),
        ):
            raise error


# --- ends ---------------------------------------------------------------------------------------


def interrupt():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("stored", [True, False])
def test_ctrl_c_finishes_the_block(tmp_path, stored):
    out = tmp_path / "run" if stored else None
    run = start(out, stepper=after(7, interrupt))
    assert not run.finished
    assert run.steps_done == 10  # two blocks: frames 0 to 5
    assert same(run, start(None)[:6])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert "10 of 40 steps" in repr(run)
    assert not stored or same(go_on(out), start(None))
    assert start(None, stepper=after(40, interrupt)).finished  # in the last block


def test_a_second_ctrl_c_ends_at_once(tmp_path):
    steps = [0]

    def delay():
        steps[0] += 1
        if steps[0] in (12, 13):
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        start(tmp_path / "run", stepper=Drift(delay=delay))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert same(fx.load_run(tmp_path / "run"), start(None)[:6])
    assert same(go_on(tmp_path / "run"), start(None))


class Failing:
    """A potential, an observable or a controller that fails, or pushes, from its n-th call on."""

    __name__ = "measured"

    def __init__(self, last, push=None):
        self.calls, self.last, self.push = 0, last, push

    def __call__(self, chain, x, *_):
        self.calls += 1
        if self.calls == self.last and self.push is None:
            raise ZeroDivisionError("mine")
        return x[:, 0, 0] if np.ndim(x) == 3 else 0.0 * x

    def energy(self, x):
        self(None, x[None])
        return 0.0

    def force(self, x):
        self(None, x[None])
        pushed = self.push is not None and self.calls > self.last > 0
        return 0.0 * x + (self.push * np.sin(1e3 * x) if pushed else 0.0)


def failed(begin, again, whole, path, error):
    """Have a run fail in memory and in a file; its frames are kept, and it goes on from them."""
    for out in (None, path):
        with pytest.raises(error) as raised:
            begin(out)
        part = raised.value.run if out is None else fx.load_run(path)
        assert 3 < len(part) < len(whole)
        assert part.steps_done // part.about["every"] - len(part) in (-1, 0)  # or it is due
        assert same(part, whole[: len(part)])
        where = "its attribute run" if out is None else path
        assert raised.value.__notes__[-1] == f"{where} holds the run up to step {part.steps_done}"
    assert fx.check_run(path).whole
    assert same(again(path), whole)
    return part


def test_a_failed_step_of_a_stepper_of_ones_own(tmp_path):
    def begin(out):
        start(out, stepper=Drift(break_at=23))

    part = failed(begin, go_on, start(None), tmp_path / "run", RuntimeError)
    assert (len(part), part.steps_done) == (12, 23)


QUICK = ("langevin", [])
REST = [(name, pytest.mark.thorough) for name in STEPPERS if name != "langevin"]


@pytest.mark.parametrize("reason", ["potential", "observable"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=m) for name, m in (QUICK, *REST)])
def test_a_failure_keeps_the_frames_before_it(tmp_path, name, reason):
    calls = {"montecarlo": 400, "hybrid": 2500, "langevin": 400}.get(name, 200)
    last = 12 if reason == "observable" else calls
    options = {"every": 2, "replicas": 3, "rng": 7, "progress": False}

    def parts(last):
        own = Failing(last)
        stepper = STEPPERS[name]
        if reason == "potential":
            return replaced(stepper, potential=own), {"measured": Failing(0)}
        return stepper, {"measured": own}

    def begin(out, last=last):
        stepper, observables = parts(last)
        return fx.simulate(CHAIN, BENT, stepper, 40, out=out, observables=observables, **options)

    def again(path):
        stepper, observables = parts(0)
        return fx.resume(path, stepper=stepper, observables=observables, progress=False)

    failed(begin, again, begin(None, 0), tmp_path / "run", ZeroDivisionError)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=m) for name, m in (QUICK, *REST) if name[0] in "nlb"]
)
def test_a_step_without_a_solution_keeps_the_frames_before_it(tmp_path, name):
    def begin(out):
        stepper = replaced(STEPPERS[name], potential=Failing(40, 1e12))
        fx.simulate(CHAIN, BENT, stepper, 80, out=out, every=2, rng=7, progress=False)

    parts = []
    for out in (None, tmp_path / "run"):
        with pytest.raises(fx.ConstraintSolveError) as raised:
            begin(out)
        parts.append(raised.value.run if out is None else fx.load_run(out))
        assert 3 < len(parts[-1]) < 41
        assert raised.value.step // 2 + 1 == len(parts[-1])
    assert same(*parts)
    assert fx.check_run(tmp_path / "run").whole


# --- rigid bodies ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", rigid_runs.RUNS)
def test_a_run_of_rigid_bodies_is_the_same_in_a_file(tmp_path, small_rigid_blocks, name):
    whole, path = rigid_runs.begin(name), tmp_path / "run"
    half = rigid_runs.begin(name, path, 200)
    assert same(half, whole[:51])
    assert (half.path, half.finished, half.step[-1], half.about["replicas"]) == (
        path, True, 208, np.prod(half.q.shape[1:-1], dtype=int),
    )  # fmt: skip
    tau = rigid_runs.pull if name == "controlled" else None
    run = fx.resume(path, 400, tau=tau, progress=False)
    assert same(run, whole)
    loaded = fx.load_run(path)
    assert loaded.system == rigid_runs.RUNS[name]["system"]
    assert np.array_equal(loaded.q[40:60], whole.q[40:60])
    assert np.array_equal(loaded.energy, whole.energy)
    assert np.array_equal(loaded[::7].energy, whole.energy[::7])
    assert np.array_equal(np.concatenate([block.time for block in loaded.blocks()]), whole.time)
    assert len(list(loaded.blocks())) > 9
    assert fx.check_run(path).whole
    with pytest.raises(FileExistsError, match="exists: resume it"):
        rigid_runs.begin(name, path)
    if tau is not None:
        with pytest.raises(ValueError, match="tau of this run are a callable"):
            fx.resume(path, 800)


def test_systems_are_the_same_from_a_file():
    rng = np.random.default_rng(3)
    arm = rigid_runs.SerialChain.random(4, rng)
    axes = Rotation.random(random_state=3).as_matrix()
    ends = rigid_runs.End(3, rng.normal(size=3), axes), rigid_runs.End(None, rng.normal(size=3))
    linkage = rigid_runs.Linkage(arm, rigid_runs.Closure(*ends, ("x", "z")))
    for system in (arm, linkage):
        described = provenance.plain({"system": _recording.described(system)})
        assert _recording.maker(described).args == (system,)


class Late:
    """A controller that fails, or jumps, from its n-th second on."""

    def __init__(self, end, error=None):
        self.end, self.error = end, error

    def __call__(self, t, q, qd):
        if t > self.end and self.error is not None:
            raise self.error
        return np.where(t > self.end, 1e9, 0.0) * np.sign(np.sin(1e9 * qd)) + 0.1


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), None], ids=["controller", "step"])
@pytest.mark.parametrize("name", ["midpoint", "euler", "four-bar"])
def test_a_failure_keeps_the_frames_of_rigid_bodies(tmp_path, small_rigid_blocks, name, error):
    kind = type(error) if error else (fx.FrameError, fx.ConstraintSolveError)

    def begin(out, tau=None):
        tau = tau or Late(0.3, error)
        return rigid_runs.begin(name, out, tau=tau, wrenches=None)

    def again(path):
        return fx.resume(path, tau=Late(1e9), progress=False)

    whole = begin(None, Late(1e9))
    part = failed(begin, again, whole, tmp_path / "run", kind)
    assert len(part) in range(71, 75)


@pytest.mark.parametrize("scheme", ["midpoint", "euler"])
def test_a_step_that_is_too_long_keeps_the_frames_before_it(tmp_path, scheme):
    """Of two wheels one is driven; the loop is compiled, and goes over one after the other."""
    wheels = {"system": rigid_runs.WHEEL, "q": [[0.0], [0.0]], "qd": None, "tau": [[0.0], [50.0]]}
    options = wheels | {"scheme": scheme, "dt": 0.01}
    with pytest.raises(fx.FrameError, match="in frame 1") as raised:
        rigid_runs.begin("euler", tmp_path / "run", steps=4000, **options)
    part = fx.load_run(tmp_path / "run")
    assert 3 < len(part) == part.steps_done // 4 + 1
    assert 0 < raised.value.step - 8 - part.steps_done <= 4
    assert same(rigid_runs.begin("euler", steps=part.steps_done, **options), part)
    with pytest.raises(fx.FrameError) as again:
        fx.resume(tmp_path / "run", progress=False)
    assert str(again.value) == str(raised.value)


def test_a_first_step_of_rigid_bodies_that_fails_leaves_no_file(tmp_path):
    with pytest.raises(fx.FrameError):
        rigid_runs.begin("midpoint", tmp_path / "run", dt=1e3)
    assert not list(tmp_path.iterdir())


# --- first and last frames ------------------------------------------------------------------------


def test_the_last_frame_is_not_lost_with_its_observable(tmp_path):
    with pytest.raises(ZeroDivisionError):
        start(tmp_path / "run", observables=[Failing(21)])
    run = fx.resume(tmp_path / "run", stepper=Drift(), observables=[Failing(0)])
    assert run.finished
    assert same(run, start(None))
    assert len(fx.load_run(tmp_path / "run")) == 21


def test_a_first_step_that_fails_leaves_no_file(tmp_path):
    (tmp_path / "run").touch()  # which was empty
    for name in ("run", "other"):
        with pytest.raises(RuntimeError, match="step 0 has no solution") as error:
            start(tmp_path / name, stepper=Drift(break_at=0))
        assert not hasattr(error.value, "__notes__")
    assert not list(tmp_path.iterdir())


# --- reading ------------------------------------------------------------------------------------


def test_only_the_blocks_that_are_asked_for_are_read(path, monkeypatch):
    read, block = [], runfile.Contents.block

    def counting(self, con, span, name):
        read.append((span.start, name))
        return block(self, con, span, name)

    monkeypatch.setattr(runfile.Contents, "block", counting)
    run, x = fx.load_run(path), start(None).x
    assert read == []
    for cut, blocks in ((np.s_[7:9], [6]), (np.s_[8:11, 1], [6, 9]), (np.s_[-1, ..., :2], [18])):
        assert np.array_equal(run.x[cut], x[cut])
        assert read == [(first, "x") for first in blocks]
        read.clear()
    assert [np.array_equal(frame, x[k]) for k, frame in enumerate(run.x)] == [True] * 21
    assert len(read) <= 8
    read.clear()
    size = [float(block.v.max()) for block in run.blocks()]
    assert len(size) == 7
    assert read == [(first, "v") for first in range(0, 21, 3)]


@pytest.mark.parametrize(
    "act",
    [
        lambda x: x - x.mean(axis=2, keepdims=True),
        lambda x: (2.0 * x + x) @ np.ones(3),
        lambda x: -x >= np.asarray(x)[::-1],
        lambda x: np.sqrt(np.square(x).sum(axis=-1)),
        lambda x: np.concatenate([x, x[:2]]),
        lambda x: np.add.reduce(x, axis=1),
        lambda x: x[np.arange(21) % 2 == 0],
        lambda x: x[3, :, [0, 2]],
        lambda x: x[..., 0].T,
        lambda x: np.array([x.ndim, len(x), x.size, *x.shape]),
        lambda x: np.diff(x, axis=2),
    ],
)
def test_frames_of_a_file_are_like_an_array(path, act):
    assert np.array_equal(act(fx.load_run(path).x), act(start(None).x))


def test_frames_of_a_file_are_not_changed(path):
    x = fx.load_run(path).x
    with pytest.raises(TypeError, match="NotImplemented"):
        x += 1.0
    with pytest.raises(TypeError, match="does not support item assignment"):
        x[0] = 1.0
    for number in (21, -22):
        with pytest.raises(IndexError, match="out of range"):
            x[number]


@pytest.mark.parametrize("stored", [False, True])
def test_runs_can_be_pickled(path, stored):
    run = fx.load_run(path) if stored else start(None)
    assert same(pickle.loads(pickle.dumps(run)), run)


def test_anyone_can_read_it(path):
    run = fx.load_run(path)
    with contextlib.closing(sqlite3.connect(path)) as con:
        ((text,),) = con.execute("SELECT about FROM run")
        shape, data = con.execute(
            "SELECT shape, data FROM blocks WHERE first = 3 AND name = 'x'"
        ).fetchone()
        assert con.execute("PRAGMA application_id").fetchone() == (runfile.APPLICATION,)
    about = json.loads(text)
    assert run.about == about
    assert fx.Chain.from_json(json.dumps(about["chain"])) == CHAIN
    assert about["stepper"] == {"name": "drift", "dt": 0.5}
    assert (about["steps"], about["every"], about["replicas"]) == (40, 2, 3)
    assert about["rng"] == {"seed": 7}
    assert set(about["versions"]) == {"fixman", "numpy", "scipy", "numba", "python"}
    assert str(path.parent) not in text
    assert np.array_equal(np.frombuffer(data, "<f8").reshape(json.loads(shape)), run.x[3:6])


def test_a_run_is_found_after_a_change_of_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = start("run #1%20?.fixman")
    os.mkdir("elsewhere")
    monkeypatch.chdir("elsewhere")
    assert same(run, start(None))


# --- damage -------------------------------------------------------------------------------------


def outcome(path, whole):
    """Say what reading and going on come to; other numbers and other errors fail."""
    check, read = fx.check_run(path), []
    with contextlib.suppress(fx.RunFolderError):
        for block in fx.load_run(path).blocks():
            with contextlib.suppress(fx.RunFolderError):
                frames = np.array(block.numbers)
                assert block.x.tobytes() == whole.x[frames].tobytes()
                assert block.v.tobytes() == whole.v[frames].tobytes()
                read += frames.tolist()
    assert set(read) >= {k for piece in check.readable for k in piece}
    assert all(str(path) in problem for problem in check.problems)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fx.RunDamageWarning)
            run = go_on(path, 60)
    except fx.RunFolderError:
        assert not check.resumable
        return "refused"
    assert check.resumable
    assert same(run, whole)
    return "whole" if check.whole else "mended"


def damaged(path, trials, seed):
    """Flip bits or cut the end off, each time in a new copy; returns how it ended."""
    whole, content = start(None, 60), path.read_bytes()
    rng, copy = np.random.default_rng(seed), path.with_name("copy")
    ends = {"refused": 0, "mended": 0, "whole": 0}
    for trial in range(trials):
        broken = bytearray(content)
        if trial % 4:
            broken[rng.integers(len(broken))] ^= 1 << rng.integers(8)
        else:
            broken = broken[: rng.integers(len(broken))]
        copy.write_bytes(broken)
        ends[outcome(copy, whole)] += 1
    return ends


@pytest.fixture
def dense(tmp_path, monkeypatch):
    """Make a run in a file that has few bytes without a meaning."""
    monkeypatch.setattr(runfile, "PAGE", 1024)
    start(tmp_path / "dense")
    return tmp_path / "dense"


def test_no_damage_goes_unnoticed(dense):
    ends = damaged(dense, 60, 1)
    assert ends["refused"] > 25
    assert ends["mended"] > 0


@pytest.mark.thorough
def test_no_damage_at_120_places_goes_unnoticed(dense):
    assert sum(damaged(dense, 120, 2).values()) == 120


def change(path, table, where, name, act):
    """Put another array into a file, with its checksum."""
    with contextlib.closing(runfile.connect(path, "rw")) as con:
        place = runfile.PLACE[table]
        for at, kind, shape, data in con.execute(
            f"SELECT {place}, kind, shape, data FROM {table} WHERE {where} AND name = ?", (name,)
        ).fetchall():
            array = np.frombuffer(data, kind).reshape(json.loads(shape))
            runfile.put(con, table, at, {name: act(array)})


def spoil(path, table, where="name = 'x'"):
    """Flip a bit of an array, without its checksum."""
    with contextlib.closing(sqlite3.connect(path)) as con, con:
        rows = con.execute(f"SELECT rowid, data FROM {table} WHERE {where}").fetchall()
        assert rows
        for row, data in rows:
            flipped = bytes([*data[:9], data[9] ^ 4, *data[10:]])
            con.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", (flipped, row))


@pytest.mark.parametrize(
    ("table", "where"), [("checkpoints", "step = 40"), ("blocks", "first = 18")]
)
def test_the_checkpoint_before_is_gone_on_from(path, table, where):
    spoil(path, table, f"{where} AND name = 'x'")
    check = fx.check_run(path)
    assert not check.whole
    assert check.resumable
    assert check.readable == (range(18 if table == "blocks" else 21),)
    with pytest.warns(fx.RunDamageWarning, match="goes on from step 34, .* again") as caught:
        whole_again(path)
    assert caught[0].filename == __file__


def test_a_stepper_may_reuse_its_arrays(tmp_path, monkeypatch):
    """While its last state is still being written."""

    class Reusing(Drift):
        def advance(self, chain, state, steps, workers=1):
            x, v = state.x, state.v
            super().advance(chain, state, steps, workers)
            x[...], v[...] = state.x, state.v
            state.x, state.v = x, v

    put = runfile.put
    monkeypatch.setattr(runfile, "put", lambda *given: (time.sleep(0.01), put(*given)))
    start(tmp_path / "run", stepper=Reusing())
    spoil(tmp_path / "run", "checkpoints", "step = 40 AND name = 'x'")
    with pytest.warns(fx.RunDamageWarning):
        whole_again(tmp_path / "run")


def test_an_older_block_costs_its_own_frames(path):
    spoil(path, "blocks", "first = 6 AND name = 'x'")
    run, whole = fx.load_run(path), start(None)
    assert np.array_equal(run[9:].x, whole.x[9:])
    message = r"damaged in frames 6 to 8: the checksum of x .*; frames before 6 and from 9 on can"
    with pytest.raises(fx.RunFolderError, match=message):
        np.asarray(run.x)
    with pytest.raises(fx.RunFolderError, match=f"{message}.* it cannot be resumed"):
        go_on(path, 60)
    check = fx.check_run(path)
    assert check.readable == (range(6), range(9, 21))
    assert not check.resumable
    assert "frames that can be read: 0 to 5, 9 to 20; it cannot be resumed" in str(check)


def test_without_a_checkpoint_frames_can_be_read(path):
    spoil(path, "checkpoints")
    assert same(fx.load_run(path), start(None))
    with pytest.raises(fx.RunFolderError, match="cannot be resumed"):
        go_on(path, 60)


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM checkpoints",
        "UPDATE checkpoints SET step = step - 2",
        "UPDATE checkpoints SET checksum = 0",
    ],
)
def test_without_a_step_of_a_checkpoint_frames_can_be_read(path, sql):
    with contextlib.closing(sqlite3.connect(path)) as con, con:
        con.execute(sql)
    assert np.array_equal(fx.load_run(path).x, start(None).x)
    check = fx.check_run(path)
    assert check.readable == (range(21),)
    assert not check.resumable
    with pytest.raises(fx.RunFolderError, match="cannot be resumed"):
        go_on(path, 60)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "UPDATE blocks SET shape = '[1000000000000, 3, 4, 3]' WHERE first = 18",
            "at frame 18 has",
        ),
        (f"UPDATE blocks SET shape = '[{'9' * 400}]' WHERE first = 18", "damaged"),
        ("UPDATE blocks SET shape = '[]'", "damaged"),
        ("UPDATE blocks SET shape = '[[1]]'", "damaged"),
        ("UPDATE blocks SET shape = '[-3]' WHERE first = 18", "damaged"),
        ("UPDATE blocks SET shape = NULL", "damaged"),
        ("UPDATE blocks SET first = 'x' WHERE first = 18", "damaged"),
        ("UPDATE blocks SET name = 'y' WHERE name = 'x'", r"block at frame 0 has .*'y'"),
        ("UPDATE blocks SET name = 'y' WHERE name = 'v' AND first = 9", "block at frame 9"),
        ("DELETE FROM blocks WHERE name = 'v'", "block at frame 0"),
        ("DELETE FROM blocks WHERE first = 3", "were due at frame 3"),
        ("UPDATE run SET about = NULL", "damaged"),
        ("DELETE FROM run", "damaged"),
    ],
)
def test_no_row_is_believed(path, sql, message):
    with contextlib.closing(sqlite3.connect(path)) as con, con:
        con.execute(sql)
    with pytest.raises(fx.RunFolderError, match=message):
        fx.load_run(path)


@pytest.mark.parametrize(
    ("name", "forged", "message"),
    [
        ("random", lambda a: a[:, :1], r"shape \(3, 1\), expected"),
        ("x", lambda a: a[:1], r"shape \(1, 4, 3\), expected"),
        ("targets", lambda a: a[:, :2], r"shape \(3, 2\), expected"),
        ("step", lambda a: a * 0 + 10**18, "is of step 1000000000000000000"),
    ],
)
def test_no_checkpoint_is_believed(tmp_path, name, forged, message):
    path, stepper = tmp_path / "run", STEPPERS["langevin"]
    run = start(path, 20, stepper)
    change(path, "checkpoints", "true", name, forged)
    with pytest.raises(fx.RunFolderError, match=message):
        go_on(path, 40, stepper)
    assert same(fx.load_run(path), start(None, 20, stepper))
    assert same(run, start(None, 20, stepper))


def test_no_block_is_believed(path):
    change(path, "blocks", "first = 3", "x", lambda a: a[:2])
    with pytest.raises(fx.RunFolderError):
        np.asarray(fx.load_run(path).x)


def edit(path, signed=True, **about):
    """Change what a run says of itself."""
    with contextlib.closing(runfile.connect(path, "rw")) as con:
        ((name, text),) = con.execute("SELECT id, about FROM run")
        if signed:
            runfile._put_about(con, name, json.loads(text) | about)
        else:
            con.execute("UPDATE run SET about = ?", (json.dumps(json.loads(text) | about),))


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("steps", "abc"),
        ("steps", 2**60),
        ("steps", 41),
        ("steps", True),
        ("every", 0),
        ("replicas", "3"),
        ("arrays", [3]),
        ("block", {"frames": 0, "steps": 1}),
        ("chain", {"fixman_chain": 1}),
        ("fixman_run", None),
    ],
)
def test_nothing_that_a_run_says_is_believed(path, entry, value):
    edit(path, **{entry: value})
    for read in (fx.load_run, fx.resume):
        with pytest.raises(fx.RunFolderError, match="run is damaged: ") as raised:
            read(path)
        assert str(raised.value).isprintable()
    assert fx.check_run(path).readable == () or entry == "chain"


FORGED = [
    *({"history": history} for history in ([1], "abc", None)),
    *({"stepper": other} for other in (None, [1], {})),
    *({"every": every} for every in (1, 8)),
    {"versions": None},
    {"replicas": 1},
]
FORGED_RIGID = [
    *({"stepper": {"name": "midpoint", "dt": dt}} for dt in (0, -1e-3, np.nan, None, "x")),
    *({"first": first} for first in (-5, 1.5, "a", 2**63)),
    *({entry: None} for entry in ("gravity", "forces")),
    {"stepper": {"name": "rk4", "dt": 1e-3}},
]


@pytest.mark.parametrize(
    ("kind", "about"),
    [("chain", about) for about in FORGED] + [("rigid", about) for about in FORGED + FORGED_RIGID],
)
def test_nothing_is_believed_where_a_run_goes_on(tmp_path, kind, about):
    path = tmp_path / "run"
    if kind == "rigid":
        rigid_runs.begin("midpoint", path, 40)
    else:
        assert start(path, stepper=after(7, interrupt)).steps_done == 10
    edit(path, **about)
    with pytest.raises((fx.RunFolderError, fx.RunDamageWarning), match="run is damaged"):
        fx.resume(path, 80, stepper=Drift() if kind == "chain" else None, progress=False)


@pytest.mark.parametrize(
    ("name", "forged"),
    [
        *((name, lambda a: a[..., :1]) for name in ("q", "qd", "tau", "wrenches")),
        *((name, lambda a: a.astype(np.float32)) for name in ("q", "qd", "tau", "wrenches")),
        ("q", lambda a: a[:1]),
        ("qd", lambda a: a[0]),
        ("q", lambda a: a + 1e9),
        ("tau", None),
    ],
)
def test_no_checkpoint_of_rigid_bodies_is_believed(tmp_path, name, forged):
    path = tmp_path / "run"
    rigid_runs.begin("midpoint", path, 40)
    with pytest.raises(ValueError, match="tau of this run are in its file"):
        fx.resume(path, 80, tau=np.ones(2))
    assert fx.load_run(path).about["steps"] == 40
    if forged is None:
        with contextlib.closing(runfile.connect(path, "rw")) as con:
            con.execute("DELETE FROM checkpoints WHERE name = ?", (name,))
    else:
        change(path, "checkpoints", "true", name, forged)
    with pytest.raises(fx.RunFolderError, match="run is damaged"):
        fx.resume(path, 80, progress=False)


def test_an_observable_that_changes_its_shape_spoils_no_file(tmp_path):
    calls = []

    def growing(chain, x):
        calls.append(0)
        return np.ones((3, 2 + (len(calls) > FRAMES)))

    with pytest.raises(ValueError, match="growing changes its shape"):
        start(tmp_path / "run", observables=[growing])
    assert len(fx.load_run(tmp_path / "run")) == FRAMES
    with pytest.raises(ValueError, match="there is no replica"):
        rigid_runs.begin("midpoint", tmp_path / "none", q=np.ones((0, 2)), qd=None, wrenches=None)


def test_other_formats_and_edited_runs(path):
    edit(path, signed=False, steps=60)
    with pytest.raises(fx.RunFolderError, match="checksum of about"):
        fx.load_run(path)
    edit(path, fixman_run=9)
    with pytest.raises(fx.RunFolderError, match=r"its format is 9, this fixman reads 3"):
        fx.load_run(path)


@pytest.mark.parametrize("name", ["np", "__loader__", "bind"])
def test_observables_are_the_librarys_own_or_given(tmp_path, name):
    path = tmp_path / "run"
    start(path, observables=[fx.observables.end_to_end])
    edit(path, observables={"end_to_end": name})
    with pytest.raises(ValueError, match=r"observables of your own, end_to_end: pass the same"):
        go_on(path, 60)


def foreign(path):
    """Make things that are no runs, by their names."""
    (path / "text").write_text("years of work")
    (path / "folder").mkdir()
    os.mkfifo(path / "pipe")
    with contextlib.closing(sqlite3.connect(path / "database")) as con, con:
        con.execute("CREATE TABLE mine (thesis TEXT)")
    with contextlib.closing(sqlite3.connect(path / "trap")) as con, con:
        con.execute("CREATE VIEW blocks AS SELECT 1 AS part")
        con.execute("CREATE VIEW run AS SELECT 1 AS id, '{}' AS about, 0 AS checksum")
    return ["text", "folder", "pipe", "database", "trap"]


def test_what_is_no_run(tmp_path):
    for name in foreign(tmp_path):
        for read in (fx.load_run, fx.resume):
            with pytest.raises(fx.RunFolderError, match=f"{name} is not a run"):
                read(tmp_path / name)
        assert not fx.check_run(tmp_path / name).whole
        for overwrite in (False, True):
            with pytest.raises(FileExistsError, match="is not a run: choose another name"):
                start(tmp_path / name, overwrite=overwrite)
    assert (tmp_path / "text").read_text() == "years of work"
    (tmp_path / "empty").touch()
    with pytest.raises(fx.RunFolderError, match="it is empty"):
        fx.load_run(tmp_path / "empty")
    assert same(start(tmp_path / "empty", overwrite=True), start(None))
    for read in (fx.load_run, fx.resume, fx.check_run):
        with pytest.raises(FileNotFoundError, match="no such file"):
            read(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="no such folder"):
        start(tmp_path / "a" / "b")
    with pytest.raises(OSError, match="name too long"):
        start(tmp_path / ("x" * 300))
    for name in ("", "\0"):
        with pytest.raises(ValueError, match="out must be the name"):
            start(name)


def test_an_existing_run_is_never_overwritten_unasked(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="resume it, choose another name, or overwrite it"):
        start(path, rng=8)
    assert before == path.read_bytes()
    (tmp_path / "link").symlink_to(path.name)
    assert same(start(tmp_path / "link", overwrite=True, rng=8), start(None, rng=8))
    assert os.readlink(tmp_path / "link") == "run"
    assert same(fx.load_run(path), start(None, rng=8))
    assert sorted(os.listdir(tmp_path)) == ["link", "run"]


def test_another_version_warns(tmp_path, monkeypatch):
    path = tmp_path / "run"
    start(path, stepper=after(7, interrupt))
    monkeypatch.setattr(provenance, "__version__", "9.9")
    with pytest.warns(fx.RunVersionWarning, match=f"fixman {fx.__version__} → 9.9") as caught:
        go_on(path, stepper=after(7, interrupt))
    assert "go_on" in Path(caught[0].filename).read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        run = go_on(path)
    assert same(run, start(None))
    history = run.about["history"]
    assert [(entry["step"], entry["versions"]["fixman"]) for entry in history] == [(10, "9.9")]
    assert fx.load_run(path).about["versions"]["fixman"] == fx.__version__


def test_another_run_in_the_place_of_one_is_told(path):
    run = fx.load_run(path)
    start(path, rng=8, overwrite=True)
    with pytest.raises(fx.RunFolderError, match="another run has replaced"):
        np.asarray(run.x)


def test_copies_are_runs(path, tmp_path):
    shutil.copy(path, tmp_path / "copy")
    whole_again(tmp_path / "copy")
    assert len(fx.load_run(path)) == 21
