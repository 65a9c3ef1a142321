"""Every experiment runs with ``--quick`` and leaves a table and a figure of the page's width."""

import csv
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "experiments").glob("[0-9]*.py"))


@pytest.fixture(scope="module")
def run(tmp_path_factory, peer):
    """Return a function that runs a script once and gives its table, its figure and its text."""
    peer("matplotlib")
    peer("mpmath")
    done = {}

    def run(script):
        if script not in done:
            out = tmp_path_factory.mktemp(script.stem)
            command = [sys.executable, str(script), "--quick", "--out", str(out)]
            answer = subprocess.run(command, capture_output=True, text=True, cwd=out)
            assert answer.returncode == 0, answer.stderr
            with (out / f"{script.stem}.csv").open(encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            done[script] = rows, (out / f"{script.stem}.png").read_bytes(), answer.stdout
        return done[script]

    return run


@pytest.mark.thorough
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_it_runs(script, run):
    rows, png, text = run(script)
    assert rows
    assert f"{script.stem}.csv" in text
    assert f"{script.stem}.png" in text
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width = int.from_bytes(png[16:20])
    assert width == pytest.approx(2 * 3.4 * 300, abs=2)
    assert len(png) < 200_000


def by_name(stem):
    return next(script for script in SCRIPTS if script.stem == stem)


@pytest.mark.thorough
def test_timing_covers_the_methods(run):
    rows, _, _ = run(by_name("01_timing_vs_n"))
    methods = {(row["links"], row["method"]) for row in rows}
    assert len([links for links, _ in methods if links == "point masses"]) == 6
    assert len([links for links, _ in methods if links == "rigid bodies"]) == 7
    assert all(float(row["seconds"]) > 0 for row in rows)


@pytest.mark.thorough
def test_exponents_of_small_sizes_are_not_printed(run):
    rows, _, text = run(by_name("01_timing_vs_n"))
    assert "n^" not in text
    assert {row["exponent"] for row in rows} == {""}


def test_quick_runs_leave_what_is_published_alone(peer, monkeypatch):
    peer("matplotlib")
    folder = SCRIPTS[0].parent
    monkeypatch.syspath_prepend(str(folder))
    output = importlib.import_module("_output").Output
    published = folder / "results", folder.parent / "figures"
    for arguments, results, figures in (
        ([], *published),
        (["--quick"], published[0] / "quick", published[0] / "quick"),
    ):
        monkeypatch.setattr(sys, "argv", ["01.py", *arguments])
        out = output.from_arguments("01.py", "One.")
        assert (out.csv, out.figure) == (results / "01.csv", figures / "01.png")
    ignored = (folder.parent / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "experiments/results/quick/" in ignored


def test_bands_are_those_of_equation_24(run):
    rows, _, _ = run(by_name("02_band_structure"))
    reach = {
        (row["chain"], row["block"]): (
            int(row["beads_below_diagonal"]),
            int(row["beads_above_diagonal"]),
        )
        for row in rows
    }
    assert reach["planar arm", "H_aa"] == (2, 2)
    assert reach["planar arm", "H_ab"] == (2, 1)
    assert reach["planar arm", "H_ba"] == (1, 2)
    assert reach["planar arm", "H_bb"] == (1, 1)
    assert reach["polymer in space", "H_aa"] == (3, 3)
    assert reach["polymer in space", "H_bb"] == (1, 1)


@pytest.mark.thorough
def test_the_fused_kernel_keeps_twelve_digits(run):
    rows, _, _ = run(by_name("03_accuracy_vs_n"))
    fused = [row for row in rows if row["arithmetic"].startswith("forward_dynamics")]
    assert len({row["shape"] for row in fused}) == 6
    assert max(float(row["qdd_error"]) for row in fused) <= 1e-12
    assert max(float(row["logdet_error_per_link"]) * int(row["n"]) for row in fused) <= 1e-12
    plain = [row for row in rows if "plain" in row["arithmetic"] and row["shape"] == "straight"]
    assert max(float(row["qdd_error"]) for row in plain) > 1e-12


@pytest.mark.thorough
def test_of_the_rigid_algorithms_only_those_that_subtract_the_bias_lose_digits(run):
    rows, _, _ = run(by_name("04_rigid_accuracy"))
    worst = {}
    for row in rows:
        if row["shape"] != "masses over 1e6":
            found = worst.setdefault(row["method"], [])
            found.append(float(row["scaled_residual"]))
    for name in ("articulated body", "FD3", "partition, refine=1"):
        assert max(worst[name]) <= 1e-12, name
    for name in ("FD1", "Saha"):
        assert max(worst[name]) > 1e-12, name


@pytest.mark.thorough
def test_operations_are_counted_beside_the_formulas_of_saha(run):
    rows, _, _ = run(by_name("18_operation_counts"))
    of = {(row["task"], row["algorithm"], row["source"]): row for row in rows}
    six = ("M, n = 6", "A, n = 6")
    for task, wanted in (("inverse", ["676", "527"]), ("forward", ["871", "797"])):
        published = of[task, "Saha 1999", "published"]
        assert [published[column] for column in six] == wanted
    assert of["forward", "Walker and Orin 1982", "published"]["A, n = 6"] == "475"
    ours = of["inverse", "Newton–Euler", "counted"]
    assert int(ours[six[0]]) <= 676
    assert int(ours[six[1]]) <= 527
    for name in ("articulated body", "FD1", "FD3", "partition"):
        row = of["forward", name, "counted"]
        assert "n²" not in row["M"] + row["A"], name
        assert 2 < int(row["crossover with composite body"]) < 50, name
    assert "1/6 n³" in of["forward", "composite body", "counted"]["M"]


@pytest.mark.thorough
def test_the_four_bar_gives_the_numbers_of_its_lagrange_function(run):
    rows, _, _ = run(by_name("19_closed_chains"))
    known = [row for row in rows if row["reference"]]
    assert len(known) == 4
    assert all(row["value"] == row["reference"] for row in known)
    found = {row["quantity"].partition(":")[0]: float(row["value"]) for row in rows}
    assert found["four-bar"] <= 1e-9  # the gap, in metres


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("stem", "references"), [("16_planar_arm", 15), ("17_stanford_arm", 38)], ids=str
)
def test_the_arms_of_saha_give_every_number_that_is_known(run, stem, references):
    rows, _, _ = run(by_name(stem))
    known = [row for row in rows if row["reference"]]
    assert len(known) == references
    for row in known:
        assert row["value"] == row["reference"], row
    for row in rows:
        if not row["reference"]:
            limit = 1e-15 if "by hand" in row["quantity"] else 1e-8
            assert 0 <= float(row["value"]) <= limit, row
