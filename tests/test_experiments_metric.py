"""What the experiments on metric determinants must show, in their quick form."""

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parents[1] / "experiments"


@pytest.fixture(scope="module")
def table(tmp_path_factory, peer):
    """Return a function that runs an experiment and gives its table."""
    peer("matplotlib")

    def table(stem):
        out = tmp_path_factory.mktemp(stem)
        script = str(EXPERIMENTS / f"{stem}.py")
        command = [sys.executable, script, "--quick", "--out", str(out)]
        answer = subprocess.run(command, capture_output=True, text=True, cwd=out)
        assert answer.returncode == 0, answer.stderr
        with (out / f"{stem}.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))

    return table


@pytest.mark.thorough
def test_trimers_bend_as_they_should(table):
    rows = table("05_trimer")
    assert len({(row["masses"], row["run"]) for row in rows}) == 6

    def column(name):
        return np.array([float(row[name]) for row in rows])

    off = (column("density") - column("exact")) / column("error")
    assert np.abs(off).max() < 4.5  # of 120 bins
    assert np.mean(off**2) < 1.8
    assert np.all(
        np.abs(column("mean_square") - column("mean_square_exact"))
        < 4 * column("mean_square_error")
    )
    light = {row["run"]: row for row in rows if row["masses"].startswith("light")}
    rigid = light["rigid"]
    assert 1 / 3 - float(rigid["mean_square"]) > 4 * float(rigid["mean_square_error"])


def test_torsion_landscapes(table):
    rows = table("06_torsion_landscapes")
    four = [row for row in rows if row["beads"] == "4"]
    for row in four:
        assert float(row["half_logdet"]) == pytest.approx(float(row["closed_form"]), abs=2e-5)
    right = {float(r["torsion_1"]): float(r["half_logdet"]) for r in four if r["bends"] == "90"}
    assert abs(max(right, key=right.get)) == 97.0
    assert right[-97.0] == right[97.0]
    assert min(right, key=right.get) == 0.0
    five = {
        (r["bends"], float(r["torsion_1"]), float(r["torsion_2"])): float(r["half_logdet"])
        for r in rows
        if r["beads"] == "5"
    }
    for (bends, first, second), value in five.items():  # numbered backwards; mirrored
        assert five[bends, second, first] == pytest.approx(value, abs=2e-5)
        assert five[bends, -first, -second] == pytest.approx(value, abs=2e-5)
    assert max(five.values()) == pytest.approx(0.93, abs=0.01)
