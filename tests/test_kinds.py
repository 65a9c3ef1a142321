"""Kinds of coordinate: one record each, what is derived from them, and one that was added."""

from pathlib import Path

import numpy as np
import pytest

import fixman as fx
import oracles
from fixman.kernels.chain import rows

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "coordinates.md").read_text(encoding="utf-8")
CENTROID = ("centroid_distance", (0, 2, 4))


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def five(extra=(CENTROID,), hard=("length",), **options):
    return fx.Chain.branched([-1, 0, 1, 2, 3], hard=hard, extra=extra, **options)


# --- records -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", rows.KINDS, ids=lambda kind: kind.name)
def test_the_page_lists_what_users_may_name(kind):
    beads, meaning = ", ".join("ijkl"[: kind.beads]), kind.meaning.replace("|", "\\|")
    assert (f'| `"{kind.name}"` | ({beads}) | {meaning} |' in PAGE) == kind.extra


def test_the_diff_on_the_page_is_that_of_the_code():
    source = (ROOT / "fixman" / "kernels" / "chain" / "rows.py").read_text(encoding="utf-8")
    diff = PAGE.split("```diff\n")[1].split("```")[0]
    added = [line[1:] for line in diff.splitlines() if line.startswith("+")]
    assert len(added) > 20
    assert not [line for line in added if f"{line}\n" not in source]


@pytest.mark.parametrize("dim", [2, 3])
def test_swapped_beads_name_the_same_value(dim, rng):
    x = np.cumsum(rng.normal(size=(4, dim)), axis=0)
    named = [kind for kind in rows.KINDS if kind.extra and (dim == 3 or kind.plane is not None)]
    for kind in named:
        beads = (2, 0, 3, 1)[: kind.beads]
        value = oracles._value((kind.name, beads), x, dim, "free")
        held = rows.KINDS[rows.NUMBERS[(kind.plane if dim == 2 else "") or kind.name]]
        for order in held.swaps:
            other = tuple(beads[k] for k in order)
            assert oracles._value((kind.name, other), x, dim, "free") == pytest.approx(value)
    assert sum(len(kind.swaps) for kind in named) > 6


# --- the distance from a centroid ----------------------------------------------------------------


def test_a_run_holds_it(rng):
    chain = five()
    x0 = fx.random_walks(chain, 9, rng=1)
    v0 = fx.project(chain, x0, chain.hard_values(x0), rng.normal(size=x0.shape))[1]
    run = fx.simulate(chain, x0, fx.Newton(0.01), 200, v0=v0, every=100, progress=False)
    held = np.linalg.norm(run.x[..., 4, :] - 0.5 * (run.x[..., 0, :] + run.x[..., 2, :]), axis=-1)
    assert np.ptp(held, axis=0).max() < 1e-10
    energy = fx.observables.kinetic_energy(chain, run.v)
    assert np.abs(energy / energy[0] - 1.0).max() < 1e-3
    alone = fx.simulate(chain, x0[4], fx.Newton(0.01), 200, v0=v0[4], every=100, progress=False)
    assert np.array_equal(alone.x[:, 0], run.x[:, 4])


def test_it_has_targets_and_is_written(rng):
    chain = five()
    x = fx.random_walks(chain, 4, rng=2)
    goal = chain.hard_values(x) + np.array([0.0, 0.0, 0.0, 0.0, 0.03])
    assert chain.hard_values(fx.project(chain, x, goal)) == pytest.approx(goal, abs=1e-12)
    assert fx.Chain.from_json(chain.to_json()) == chain
    assert "1 centroid distance" in repr(chain)
    with pytest.raises(fx.FrameError, match="must be positive"):
        fx.project(chain, x[0], np.array([1.0, 1.0, 1.0, 1.0, 0.0]))


def test_blue_moon_holds_it_by_either_name(rng):
    held = fx.bluemoon.hold(five(()), CENTROID)
    assert held == five()
    x = fx.random_walks(held, 3, rng=4)
    other = ("centroid_distance", (2, 0, 4))
    moved = fx.bluemoon.bring(held, x, other, 1.7)
    assert held.hard_values(moved)[:, -1] == pytest.approx(1.7)
    with pytest.raises(ValueError, match="hard in this chain already"):
        fx.bluemoon.hold(held, other)


def test_dependent_rows_are_found():
    sides = [("distance", pair) for pair in ((0, 2), (2, 4), (0, 4))]
    assert not five([*sides[:2], CENTROID], ()).redundant
    assert not five(hard=("length", "angle")).redundant
    with pytest.raises(fx.SingularConstraintError, match="depends on the other hard"):
        five([*sides, CENTROID], ())  # Apollonius' theorem on medians
    with pytest.raises(fx.SingularConstraintError, match="depends on the other hard"):
        five([CENTROID, ("centroid_distance", (2, 0, 4))], ())


def test_beads_on_the_centroid_are_refused(rng):
    chain = five(hard=())
    x = np.cumsum(rng.normal(size=(5, 3)), axis=0)
    x[4] = 0.5 * (x[0] + x[2])
    with pytest.raises(fx.SingularConstraintError, match="lies on the centroid"):
        fx.logdet(chain, x)
    x[4, 0] += 1.0
    x[2] = x[0]  # the first two may coincide
    assert np.isfinite(fx.logdet(chain, x))
    with pytest.raises(ValueError, match="3 different beads"):
        five([("centroid_distance", (0, 4, 4))])
