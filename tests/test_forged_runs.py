"""A forged run folder is refused, or its numbers are those of the run, bit for bit."""

from __future__ import annotations

import shutil
import warnings
from collections import Counter

import numpy as np
import pytest

import fixman as fx
from fixman.simulation import simulate as simulation
from forging import FORGERS, forge

CHAIN = fx.Chain.linear(4)
REPLICAS, FRAMES = 2, 3


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_BYTES", FRAMES * REPLICAS * 4 * 3 * 16)


@pytest.fixture
def source(tmp_path):
    """Make a run of 20 of 40 steps, in four blocks; and the whole of it."""
    x0 = np.zeros((4, 3))
    x0[:, 0] = np.arange(4)
    x0[2:, 1] = 0.5
    stepper = fx.Langevin(0.02)
    given = {"every": 2, "replicas": REPLICAS, "rng": 7, "progress": False}
    whole = fx.simulate(CHAIN, x0, stepper, 40, **given)
    fx.simulate(CHAIN, x0, stepper, 20, out=tmp_path / "source", **given)
    return tmp_path / "source", whole


def outcome(folder, whole):
    """Say what reading and resuming come to; other numbers and other errors fail."""
    found = fx.check_run(folder)
    told = "equal" if found.whole else "partly"
    try:
        run = fx.load_run(folder)
        for block in run.blocks():
            try:
                x, v = block.x, block.v
            except fx.RunFolderError:
                told = "partly"
                continue
            frames = np.array(block.numbers)
            assert x.tobytes() == whole.x[frames].tobytes()
            assert v.tobytes() == whole.v[frames].tobytes()
    except fx.RunFolderError:
        told = "refused"
    try:
        run = fx.resume(folder, 40, progress=False)
    except fx.RunFolderError:
        return told if told != "equal" else "read"
    assert run.x.tobytes() == whole.x.tobytes()
    assert run.v.tobytes() == whole.v.tobytes()
    assert fx.check_run(folder).whole
    return "resumed" if told != "equal" else "equal"


def count(source, whole, tmp_path, seeds):
    table = {forger.__name__: Counter() for forger in FORGERS}
    for seed in seeds:
        folder = tmp_path / "forged"
        name, what = forge(source, folder, seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fx.RunDamageWarning)
            warnings.simplefilter("ignore", fx.RunVersionWarning)
            try:
                table[name][outcome(folder, whole)] += 1
            except BaseException as error:
                error.add_note(f"seed {seed}, {name}: {what}")
                raise
        shutil.rmtree(folder)
    return table


def test_forgeries_are_refused_or_change_nothing(source, tmp_path):
    table = count(*source, tmp_path, range(60))
    assert all(sum(row.values()) == 5 for row in table.values())
    noticed = sum(row["refused"] + row["partly"] + row["resumed"] for row in table.values())
    assert noticed >= 40


@pytest.mark.thorough
def test_a_thousand_forgeries(source, tmp_path):
    table = count(*source, tmp_path, range(1000, 2000))
    for name, row in table.items():
        print(f"{name:12}", dict(row))
    assert sum(sum(row.values()) for row in table.values()) == 1000
