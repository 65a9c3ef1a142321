"""Many chains in a box on the command line."""

import json
import re

import numpy as np
import pytest

import fixman as fx

MELT = ["simulate", "--chain", "linear:5", "--chains", "12", "--density", "0.5", "--wca", "--quiet"]
SHORT = ["--dt", "0.005", "--every", "10", "--seed", "3"]


def test_a_melt_runs_resumes_and_is_exported(run):
    code, out, err = run(*MELT, *SHORT, "--steps", "20", "--out", "melt")
    assert (code, err) == (0, "")
    assert out.startswith("<System: 12 chains of 5 beads, 3-D, box 4.932 x 4.932 x 4.932>, seed 3")
    assert run("resume", "melt", "--steps", "40", "--quiet")[0] == 0
    assert run(*MELT, *SHORT, "--steps", "40", "--workers", "2", "--out", "whole")[0] == 0
    melt, whole = fx.load_run("melt"), fx.load_run("whole")
    assert melt.system == fx.System(fx.Chain.linear(5), 12, box=120.0 ** (1 / 3))
    assert np.array_equal(melt.x, whole.x)
    assert "12 chains" in json.loads(run("info", "melt", "--json")[1])["chain"]
    assert run("export", "melt", "--to", "melt.h5")[0] == 0


def test_ideal_chains_by_the_edge_of_the_box(run):
    given = ["--beads", "4", "--chains", "3", "--box", "9", "--replicas", "2", "--method", "mc"]
    assert run("simulate", *given, "--steps", "2", "--seed", "1", "--out", "gas")[0] == 0
    assert fx.load_run("gas").system == fx.System(fx.Chain.linear(4), 3, box=9.0)


def test_the_time_step_is_short_with_pair_forces(run):
    given = ["simulate", "--beads", "4", "--steps", "1", "--seed", "1", "--out"]
    assert run(*given, "plain")[0] == run(*given, "steep", "--wca")[0] == 0
    assert [fx.load_run(name).about["stepper"]["dt"] for name in ("plain", "steep")] == [
        0.02,
        0.005,
    ]


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--chains", "2"], "--chains needs a box: --density or --box"),
        (["--density", "0.5"], "--density needs --chains"),
        (["--density", "-1"], "--density must be positive"),
        (["--chains", "400", "--box", "4", "--wca"], r"density of 31\.2,.*packed beads 1\.41"),
        (["--box", "9", "--base", "fixed"], "fixed base"),
        (["--box", "9", "--method", "brownian", "--shear", "1"], "takes no flow"),
    ],
)
def test_refusals(run, flags, why):
    code, _, err = run("simulate", "--beads", "5", *flags, "--steps", "2", "--out", "none")
    assert code == 1
    assert re.search(why, err)
