"""Heating and cooling in pieces, each from the last frame of the one before: docs/molecules.md."""

import numpy as np
import pytest

import fixman as fx

CHAIN = fx.Chain.linear(6)
SCHEDULE = (2.0, 1.0, 0.5)


def cooled(folder, x, schedule=SCHEDULE, steps=400):
    """Run a schedule whose pieces are files; those that exist are read, or resumed."""
    v, pieces = None, []
    for k, kT in enumerate(schedule):
        stepper = fx.Langevin(0.05, kT=kT, friction=2.0)
        file = folder / f"{k}.fixman"
        if file.exists():
            piece = fx.resume(file, steps, stepper=stepper)
        else:
            piece = fx.simulate(CHAIN, x, stepper, steps, every=20, v0=v, rng=k, out=file)
        x, v = piece.x[-1], piece.v[-1]
        pieces.append(piece)
    return pieces


@pytest.fixture(scope="module")
def start():
    return fx.random_walks(CHAIN, 64, rng=1)


def test_each_piece_has_its_temperature(start, tmp_path):
    """Within four standard errors, once it has forgotten the one before."""
    for kT, piece in zip(SCHEDULE, cooled(tmp_path, start), strict=True):
        found = fx.observables.temperature(CHAIN, piece.v[8:]).mean(axis=0)
        assert abs(found.mean() - kT) < 4.0 * found.std(ddof=1) / np.sqrt(found.size)
        lengths = np.linalg.norm(np.diff(piece.x, axis=-2), axis=-1)
        np.testing.assert_allclose(lengths, 1.0, rtol=1e-10)


def test_a_schedule_that_was_interrupted_has_the_same_bits(start, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    pieces = cooled(whole, start[:3], steps=60)
    cooled(broken, start[:3], SCHEDULE[:1], steps=60)
    again = fx.load_run(broken / "0.fixman")
    stepper = fx.Langevin(0.05, kT=SCHEDULE[1], friction=2.0)
    given = {"every": 20, "v0": again.v[-1], "rng": 1, "out": broken / "1.fixman"}
    fx.simulate(CHAIN, again.x[-1], stepper, 20, **given)  # and killed here
    for one, other in zip(pieces, cooled(broken, start[:3], steps=60), strict=True):
        np.testing.assert_array_equal(one.x, other.x)
        np.testing.assert_array_equal(one.v, other.v)


def test_no_piece_changes_its_temperature(start, tmp_path):
    cooled(tmp_path, start[:1], SCHEDULE[:1], steps=20)
    with pytest.raises(ValueError, match=r"kT=1\.0 instead of 2\.0"):
        fx.resume(tmp_path / "0.fixman", 40, stepper=fx.Langevin(0.05, kT=1.0, friction=2.0))
