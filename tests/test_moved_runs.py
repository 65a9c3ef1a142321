"""A folder is renamed, removed or replaced under a run that writes to it: no frame is lost."""

from __future__ import annotations

import os
import re
import shutil

import numpy as np
import pytest

import fixman as fx
from drifting import Drift
from fixman.simulation import simulate as simulation

pytestmark = pytest.mark.skipif(os.name != "posix", reason="folders are held by descriptors")

CHAIN = fx.Chain.linear(4)
X0 = np.arange(12.0).reshape(4, 3)
STEPS, FRAMES = 40, 3
DEEDS = ("renamed", "removed", "replaced", "emptied", "renamed far", "another run")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks of three frames of three replicas."""
    monkeypatch.setattr(simulation, "BLOCK_BYTES", FRAMES * 3 * 4 * 3 * 16)


def start(out, stepper=None, rng=7):
    stepper = stepper or Drift()
    return fx.simulate(
        CHAIN, X0, stepper, STEPS, every=2, replicas=3, rng=rng, progress=False, out=out
    )


def do(deed, path):
    """Do it to the folder; returns what must be as before afterwards, by path."""
    if deed == "removed":
        shutil.rmtree(path)
    elif deed == "emptied":
        for file in path.iterdir():
            file.unlink()
    elif deed == "renamed far":
        (path.parent / "deep").mkdir()
        path.rename(path.parent / "deep" / "elsewhere")
    else:
        path.rename(path.parent / "elsewhere")
    if deed == "replaced":
        path.mkdir()
        (path / "thesis.tex").write_text("years of work")
    if deed == "another run":
        start(path, rng=8)
    if path.exists():
        return {file.name: file.read_bytes() for file in path.iterdir()}
    return {}


def interfere(tmp_path, deed, moment):
    """Do the deed at a step of the run; every frame must be found, and the rest computed."""
    path, after, steps = tmp_path / "run", {}, [0]
    whole = start(None)

    def delay():
        steps[0] += 1
        if steps[0] == moment:
            after.update(do(deed, path))

    with pytest.raises(fx.RunStorageError) as error:
        start(path, Drift(delay=delay))
    found = re.search(r"fixman resume (\S+)$", str(error.value))
    saved = tmp_path / found[1]
    assert saved.is_dir()
    assert saved != path
    if path.exists():
        assert {file.name: file.read_bytes() for file in path.iterdir()} == after
    part = fx.load_run(saved)
    first = part.numbers[0] if len(part) else None
    if "renamed" in deed:
        assert first == 0
    assert first is None or moment // 2 < part.numbers[-1] + FRAMES
    run = fx.resume(saved, stepper=Drift(), progress=False)
    frames = np.array(run.numbers)
    assert frames[-1] == STEPS // 2
    # Of a folder that was removed, those that were not on the disk yet.
    assert frames[0] <= moment // 2 + 1
    assert run.x.tobytes() == whole.x[frames].tobytes()
    assert run.v.tobytes() == whole.v[frames].tobytes()
    assert np.array_equal(run.steps, frames * 2)
    assert fx.check_run(saved).whole


@pytest.mark.parametrize("deed", DEEDS)
def test_no_frame_is_lost(tmp_path, deed):
    interfere(tmp_path, deed, 17)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(50))
def test_no_frame_is_lost_at_any_moment(tmp_path, seed):
    rng = np.random.default_rng(seed)
    interfere(tmp_path, DEEDS[seed % len(DEEDS)], int(rng.integers(1, STEPS)))


def test_a_folder_that_is_moved_during_a_commit(tmp_path, monkeypatch):
    """Between the files of one: all of them go into the folder that was moved."""
    path, count, fsync = tmp_path / "run", [0], os.fsync

    def moving(handle):
        count[0] += 1
        if count[0] == 12:
            path.rename(tmp_path / "elsewhere")
            start(path, rng=8)
        fsync(handle)

    monkeypatch.setattr(os, "fsync", moving)
    with pytest.raises(fx.RunStorageError, match="no longer the folder of this run"):
        start(path)
    monkeypatch.undo()
    assert fx.load_run(path).x.tobytes() == start(None, rng=8).x.tobytes()
    run = fx.resume(tmp_path / "elsewhere", stepper=Drift(), progress=False)
    assert run.x.tobytes() == start(None).x.tobytes()


def test_a_rescued_run_says_its_steps(tmp_path):
    steps = [0]

    def delay():
        steps[0] += 1
        if steps[0] == 17:
            shutil.rmtree(tmp_path / "run")

    with pytest.raises(fx.RunStorageError, match="was removed while the run was going on"):
        start(tmp_path / "run", Drift(delay=delay))
    (saved,) = tmp_path.iterdir()
    assert re.fullmatch(r"run\.rescued\.[0-9a-f]{8}", saved.name)
    run = fx.load_run(saved)
    assert run.steps.tolist() == [18, 20, 22]
    assert run[1:].steps.tolist() == [20, 22]


def test_without_descriptors_runs_are_the_same(tmp_path, monkeypatch):
    """As on Windows."""
    from fixman.simulation import places

    monkeypatch.setattr(places, "HELD", False)
    monkeypatch.setattr(places, "fcntl", None)
    assert start(tmp_path / "run").x.tobytes() == start(None).x.tobytes()
    assert ".lock" not in os.listdir(tmp_path / "run")
