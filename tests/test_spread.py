"""A run that a client's workers compute: the same bits, whoever is lost, in one file."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import sqlite3
import threading
import time
from concurrent.futures import CancelledError, ThreadPoolExecutor

import numpy as np
import pytest

import fixman as fx
from fixman import observables
from fixman.io.hdf5 import read_hdf5, write_hdf5
from fixman.runs import about as provenance
from fixman.runs import loop, runfile
from fixman.simulation import simulate as simulation
from fixman.simulation import spread

CHAIN = fx.Chain.linear(6)
REPLICAS = 19  # three groups, the last of three replicas
X0 = fx.random_walks(CHAIN, REPLICAS, rng=1)
LANGEVIN = fx.Langevin(0.02, ensemble="stiff")


class Pool:
    """A client with threads for workers, to which everything goes as bytes."""

    def __init__(self, threads=2, workers=1):
        self.threads = {f"worker {k}": threads for k in range(workers)}
        self.pool = ThreadPoolExecutor(threads * workers)
        self.sent = 0

    def nthreads(self):
        return self.threads

    def submit(self, function, *given, pure):
        assert not pure
        self.sent += 1
        task = pickle.dumps((function, given))
        return self.pool.submit(self.work, task)

    def work(self, task):
        function, given = pickle.loads(task)
        return pickle.loads(pickle.dumps(function(*given)))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_BYTES", 3 * 8 * 6 * 3 * 16)  # three frames of a group
    monkeypatch.setattr(runfile, "SETTINGS", ("synchronous=OFF",))  # power stays on


def run_it(stepper=LANGEVIN, steps=60, **options):
    options = {"every": 4, "rng": 5} | options
    return fx.simulate(CHAIN, options.pop("x0", X0), stepper, steps, **options)


def same(one, two):
    return one.x.tobytes() == two.x.tobytes() and one.v.tobytes() == two.v.tobytes()


def highest(chain, x):
    return x[..., 2].max(axis=-1)


@pytest.mark.parametrize("where", ["memory", "file"])
@pytest.mark.parametrize("pool", [(1, 1), (2, 1), (3, 4)], ids=str)
def test_the_bits_are_those_of_one_machine(where, pool, tmp_path):
    measured = [observables.end_to_end, highest]
    plain = run_it(observables=measured)
    out = tmp_path / "run" if where == "file" else None
    run = run_it(observables=measured, out=out, client=Pool(*pool), workers=2)
    assert same(plain, run)
    assert run.finished
    assert run.replicas == REPLICAS
    assert run.path == out
    for name, values in plain.observables.items():
        assert np.array_equal(values, run.observables[name])
    assert np.array_equal(run[3:11:3].x, plain.x[3:11:3])
    assert np.array_equal(np.concatenate([block.v for block in run.blocks()]), plain.v)
    assert where == "memory" or max(len(block) for block in run.blocks()) <= 3


@pytest.mark.parametrize(("replicas", "groups"), [(1, [1]), (8, [8]), (9, [8, 1]), (50, [24, 26])])
def test_groups_are_whole_lanes(replicas, groups, tmp_path):
    given = {"x0": X0[0], "replicas": replicas, "steps": 8}
    assert np.diff(spread.edges(replicas, 1, Pool(1))).tolist() == groups
    run = run_it(client=Pool(1), out=tmp_path / "run", **given)
    assert same(run, run_it(**given))


def test_groups_are_as_many_as_workers_can_use():
    def sizes(replicas, threads, machines, workers):
        pool = Pool.__new__(Pool)
        pool.threads = dict.fromkeys(range(machines), threads)
        return np.diff(spread.edges(replicas, workers, pool)).tolist()

    assert sizes(64, 1, 2, 1) == [16] * 4
    assert sizes(64, 4, 2, 2) == [8] * 8
    assert sizes(64, 4, 1, 8) == [32] * 2  # a worker with fewer threads than are asked for
    assert sizes(10**6, 1000, 1, 1)[0] in (3904, 3912)


@pytest.mark.parametrize("frames", ["blocks of frames", "long frames"])
def test_resumed_by_whoever_is_there(frames, tmp_path, monkeypatch):
    if frames == "long frames":
        monkeypatch.setattr(simulation, "BLOCK_WORK", 150)  # three steps, then a checkpoint
    whole = run_it(steps=120)
    half = run_it(client=Pool(), out=tmp_path / "run")
    assert same(whole[:16], half)
    with_client = shutil.copy(tmp_path / "run", tmp_path / "other")
    assert same(whole, fx.resume(tmp_path / "run", 120))
    assert same(whole, fx.resume(with_client, 120, client=Pool(1)))
    assert same(whole, fx.load_run(with_client))
    assert fx.resume(with_client, client=Pool(1)).finished
    run_it(out=tmp_path / "plain")
    assert same(whole, fx.resume(tmp_path / "plain", 120, client=Pool(1)))


def test_a_worker_with_another_numba_is_refused(monkeypatch):
    here = provenance.versions()

    def versions():
        on_a_worker = threading.current_thread() is not threading.main_thread()
        return here | {"numba": "0.1", "python": "2.7"} if on_a_worker else here

    monkeypatch.setattr(provenance, "versions", versions)
    message = rf"a worker has other versions, numba {here['numba']} → 0\.1"
    with pytest.raises(RuntimeError, match=message):
        run_it(client=Pool())


# --- errors ---------------------------------------------------------------------------------------


def test_errors_name_the_replica_of_the_whole_run(tmp_path):
    x0 = X0.copy()
    x0[17] = 0.0
    x0[17, :, 0] = 1e-3 * np.arange(6)
    x0[17, 1::2, 1] = 1.0
    stepper = fx.Langevin(0.02, potential=fx.potentials.WCA())
    x0[:17] = x0[18] = np.arange(6)[:, None] * [1.0, 0.0, 0.0]
    with pytest.raises(fx.ConstraintSolveError) as plain:
        run_it(stepper, x0=x0)
    for out in (None, tmp_path / "run"):
        with pytest.raises(fx.ConstraintSolveError) as found:
            run_it(stepper, x0=x0, client=Pool(), out=out)
        assert str(found.value) == str(plain.value)
        assert found.value.replica == plain.value.replica == 17
        assert "of replica 17 has no solution" in str(found.value)
        if out is not None and out.exists():  # other groups came further
            assert found.value.__notes__ == [f"{out} holds the run up to step 0"]
            assert fx.check_run(out).whole


class NoWorkers(Pool):
    def nthreads(self):
        return {}


class Asynchronous(Pool):
    asynchronous = True


@pytest.mark.parametrize(
    ("client", "error", "message"),
    [
        ("tcp://127.0.0.1:8786", TypeError, r"client must be a distributed\.Client, .* got 'tcp:"),
        (ThreadPoolExecutor(1), TypeError, "client must be a distributed.Client"),
        (Asynchronous(), TypeError, "not asynchronous"),
        (NoWorkers(), ValueError, "has no workers: start some with `dask worker`"),
    ],
    ids=["address", "pool", "asynchronous", "no workers"],
)
def test_what_is_no_client(client, error, message, tmp_path):
    with pytest.raises(error, match=message):
        run_it(client=client, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(error, match=message):
        fx.resume(tmp_path / "run", client=client)


class Lost(Pool):
    """The scheduler goes away after some blocks."""

    def work(self, task):
        if self.sent > 5:
            raise CancelledError("the scheduler closed")
        return super().work(task)


def test_a_scheduler_that_is_lost_costs_nothing_that_was_written(tmp_path):
    pool = Lost(1)
    message = r"dropped the run \(the scheduler closed\)"
    with pytest.raises(ConnectionError, match=message) as error:
        run_it(client=pool, out=tmp_path / "run")
    part = fx.load_run(tmp_path / "run")
    assert error.value.__notes__[-1].endswith(f"run holds the run up to step {part.steps_done}")
    assert not part.finished
    whole = run_it()
    assert np.array_equal(part.x, whole.x[: len(part)])
    assert same(whole, fx.resume(tmp_path / "run", client=Pool()))
    with pytest.raises(ConnectionError) as error:
        run_it(client=Lost(1))
    assert np.array_equal(error.value.run.x, whole.x[: len(part)])


def test_ctrl_c_finishes_the_blocks(tmp_path, monkeypatch):
    pressed, counts, interrupts = threading.Event(), [], loop._interrupts

    @contextlib.contextmanager
    def counted():
        with interrupts() as interrupted:
            counts.append(interrupted)
            yield interrupted

    monkeypatch.setattr(loop, "_interrupts", counted)

    class Pressing(Pool):
        def work(self, task):
            found = super().work(task)
            if found.state["step"] >= 20 and not pressed.is_set():
                pressed.set()
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
                while not counts[-1]():
                    time.sleep(0.001)
            return found

    for out in (None, tmp_path / "run"):
        pressed.clear()
        run = run_it(client=Pressing(1), out=out)
        assert not run.finished
        assert 0 < run.steps_done < 60
        assert np.array_equal(run.x, run_it().x[: len(run)])
    assert same(run_it(), fx.resume(tmp_path / "run"))


# --- the file -------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    run_it(client=Pool(), out=tmp_path / "run")
    return tmp_path / "run"


def spoil(path, table, where):
    """Flip a bit of an array."""
    with contextlib.closing(sqlite3.connect(path)) as con, con:
        row, data = con.execute(
            f"SELECT rowid, data FROM {table} WHERE {where} AND name = 'x'"
        ).fetchone()
        flipped = bytes([*data[:9], data[9] ^ 4, *data[10:]])
        con.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", (flipped, row))


def test_the_file_of_a_spread_run(path, tmp_path, peer):
    assert os.listdir(tmp_path) == ["run"]
    assert same(fx.load_run(path), run_it())
    assert fx.check_run(path).whole
    assert fx.check_run(path).readable == (range(16),)
    peer("h5py")
    write_hdf5(fx.load_run(path), tmp_path / "run.h5")
    assert same(read_hdf5(tmp_path / "run.h5"), run_it())


def test_two_writers_are_told_apart(path):
    with contextlib.closing(runfile.reopen(path, simulation._maker)):
        for again in (fx.resume, lambda path: run_it(out=path, overwrite=True, client=Pool())):
            with pytest.raises(fx.RunFolderError, match=r"another process is writing to .*run"):
                again(path)
    assert same(fx.resume(path, 120), run_it(steps=120))


def test_a_group_may_be_ahead(tmp_path):
    """Of three groups the second one is slow; blocks are joined all the same."""

    class Uneven(Pool):
        def work(self, task):
            if len(pickle.loads(task)[1][3]["x"]) == 3:
                time.sleep(0.02)
            return super().work(task)

    assert same(run_it(client=Uneven(4), out=tmp_path / "run"), run_it())


def test_a_damaged_checkpoint_costs_a_block(path):
    spoil(path, "checkpoints", "step = 60")
    with pytest.warns(fx.RunDamageWarning, match="goes on from step") as warned:
        run = fx.resume(path, client=Pool())
    assert warned[0].filename == __file__
    assert same(run, run_it())


# --- Dask -----------------------------------------------------------------------------------------


@pytest.fixture
def connected(peer, tmp_path):
    """Connect to a scheduler and two workers, processes that the shell could have started."""
    peer("distributed")
    from clusters import dask_cluster
    from fixman.io.dask import connect

    with dask_cluster(tmp_path, 2) as address, connect(address, timeout=60.0) as client:
        client.wait_for_workers(2, timeout=60.0)
        yield client


@pytest.mark.thorough
def test_on_a_cluster(connected, tmp_path):
    offset = 3.0
    measured = {"lambda": lambda chain, x: x[:, 0, 0] + offset}  # known here only
    plain = run_it(observables=measured)
    run = run_it(observables=measured, client=connected)
    assert same(plain, run)
    assert np.array_equal(run.observables["lambda"], plain.observables["lambda"])
    with pytest.raises(ValueError, match="the observable lambda must give numbers"):
        run_it(observables={"lambda": lambda chain, x: [1.0, 2.0]}, client=connected)
    x0 = np.arange(6)[:, None] * [1.0, 0.0, 0.0] + np.zeros((REPLICAS, 1, 1))
    x0[17, :, 0] = 0.01 * np.arange(6)
    x0[17, ::2, 1] = 1.0
    stepper = fx.Langevin(0.02, potential=fx.potentials.WCA())
    with pytest.raises(fx.ConstraintSolveError, match="of replica 17 has no solution") as found:
        run_it(stepper, x0=x0, client=connected)
    assert found.value.replica == 17


@pytest.mark.thorough
def test_a_worker_is_killed(connected, tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_WORK", 1_000_000)
    given = {"steps": 40_000, "every": 400}
    whole = run_it(**given)
    pids = list(connected.run(os.getpid).values())
    out = tmp_path / "run"

    def kill():
        while not (out.exists() and out.stat().st_size > 300_000):  # of more than 600 000
            time.sleep(0.01)
        os.kill(pids[0], signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)  # a run that fails is not waited for
    killer.start()
    run = run_it(client=connected, out=out, **given)
    killer.join(60.0)
    while pids[0] in connected.run(os.getpid, on_error="ignore").values():
        time.sleep(0.01)
    assert run.finished
    assert same(run, whole)
