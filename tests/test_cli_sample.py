"""`fixman sample` as a user types it."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import fixman as fx

SHORT = ["sample", "--beads", "5", "--size", "64", "--seed", "3"]
DRAWN = SimpleNamespace(
    x=np.zeros((64, 5, 3)), log_weights=np.zeros(64), effective_size=64.0, method="exact"
)


@pytest.fixture
def drawing(monkeypatch):
    """Have `fixman.sample` note its arguments, and return zeros."""
    asked = []

    def sample(*given, **more):
        asked.append((*given, more))
        return drawing.drawn

    drawing = SimpleNamespace(drawn=DRAWN, asked=asked)
    monkeypatch.setattr(fx, "sample", sample, raising=False)
    return drawing


def test_what_is_asked_for(run, drawing):
    flags = ["--ensemble", "stiff", "--length", "2", "--hard", "length,angle", "--angle", "90"]
    assert run(*SHORT, *flags, "--workers", "2", "--out", "x.npz")[0] == 0
    chain, size, more = drawing.asked[0]
    assert chain == fx.Chain.linear(5, hard="length,angle")
    assert size == 64
    assert more == {
        "lengths": 2.0,
        "angles": np.pi / 2.0,
        "torsions": np.pi,
        "ensemble": "stiff",
        "rng": 3,
        "workers": 2,
        "client": None,
    }


def test_what_is_written(run, drawing):
    shown = "<Chain: 5 beads, 3-D, free, masses 1, hard: 4 lengths>, seed 3\n"
    assert run(*SHORT, "--out", "x.npz") == (0, f"{shown}wrote x.npz: 64 chains, exact\n", "")
    with np.load("x.npz") as file:
        assert sorted(file) == ["chain", "ensemble", "log_weights", "method", "seed", "x"]
        assert file["x"].shape == (64, 5, 3)
        assert file["log_weights"].shape == (64,)
        assert fx.Chain.from_json(str(file["chain"])) == fx.Chain.linear(5)
        assert [str(file[name]) for name in ("ensemble", "method", "seed")] == [
            "rigid",
            "exact",
            "3",
        ]


def test_weights_are_told(run, drawing):
    weights = np.log(np.arange(1.0, 65.0))
    drawing.drawn = SimpleNamespace(
        x=DRAWN.x, log_weights=weights, effective_size=48.25, method="reweighted"
    )
    out = run(*SHORT, "--out", "x.npz")[1]
    assert out.endswith("wrote x.npz: 64 chains, worth 48.25 independent ones, reweighted\n")
    with np.load("x.npz") as file:
        assert np.array_equal(file["log_weights"], weights)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "x.txt"], "--out must end in .npz, got x.txt"),
        (["--out", "nowhere/x.npz"], "no such folder"),
        (["--out", "taken.npz"], "taken.npz exists"),
        (["--angle", "60"], "--angle needs hard angles"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(run, drawing, tmp_path, arguments, message):
    (tmp_path / "taken.npz").write_text("")
    code, _, err = run(*SHORT, "--out", "x.npz", *arguments)
    assert code == 1
    assert message in err
    assert re.fullmatch("fixman: error: .*\n", err)
    assert not drawing.asked
    assert [path.name for path in tmp_path.iterdir()] == ["taken.npz"]


def test_the_example_of_the_help(run):
    given = ["sample", "--beads", "50", "--ensemble", "rigid", "--seed", "3"]
    assert run(*given, "--size", "100", "--out", "chains.npz")[0] == 0
    with np.load("chains.npz") as file:
        u = np.diff(file["x"], axis=1)
        assert np.abs((u**2).sum(axis=-1) - 1.0).max() < 1e-9
        assert np.array_equal(file["x"], fx.sample(fx.Chain.linear(50), 100, rng=3).x)
