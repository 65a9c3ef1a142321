"""One loop: the same bits however it is divided, stored, interrupted or computed."""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
from functools import partial

import numpy as np
import pytest

import fixman as fx
from drifting import Drift
from fixman import observables
from fixman.potentials.energies import WCA
from fixman.sampling.random_walks import random_walks
from fixman.simulation import simulate as simulation
from fixman.simulation.simulate import load_run, resume, simulate
from fixman.simulation.steppers import Langevin, Newton
from fixman.simulation.trajectory import Run

CHAIN = fx.Chain.linear(6)
X0 = random_walks(CHAIN, 9, rng=1)
STEPPERS = [Langevin(0.02, ensemble="stiff"), Newton(0.02, kT=1.0)]


def run_it(stepper=STEPPERS[0], steps=60, **options):
    options = {"every": 4, "rng": 5} | options
    return simulate(CHAIN, options.pop("x0", X0), stepper, steps, **options)


def same(one, two):
    return one.x.tobytes() == two.x.tobytes() and one.v.tobytes() == two.v.tobytes()


@pytest.mark.parametrize("stepper", STEPPERS, ids=["langevin", "newton"])
def test_the_bits_depend_on_nothing_but_the_arguments(stepper, tmp_path, monkeypatch):
    plain = run_it(stepper)
    assert plain.x.shape == plain.v.shape == (16, 9, 6, 3)
    assert plain.steps.tolist() == list(range(0, 61, 4))
    assert plain.times == pytest.approx(0.02 * plain.steps)
    assert plain.finished
    assert plain.path is None
    assert same(plain, run_it(stepper, workers=2))
    assert same(plain, run_it(stepper, out=tmp_path / "run", workers=3))
    assert same(plain[::2], run_it(stepper, every=8, steps=56))
    monkeypatch.setattr(simulation, "BLOCK_WORK", 150)  # three steps, then a checkpoint
    assert same(plain, run_it(stepper, out=tmp_path / "chunks"))
    assert load_run(tmp_path / "chunks").about["block"] == {"frames": 1, "steps": 2}
    run_it(stepper, steps=20, out=tmp_path / "extended")
    assert same(plain, resume(tmp_path / "extended", 60, workers=2))
    assert same(plain, load_run(tmp_path / "extended"))


def test_constraints_hold_in_every_frame():
    x = run_it().x
    bonds = np.linalg.norm(np.diff(x, axis=-2), axis=-1)
    assert np.abs(bonds - 1.0).max() < 1e-9


def test_replicas_differ_and_are_repeated_by_the_seed():
    one, two = run_it(), run_it(rng=6)
    assert not np.array_equal(one.v[-1], two.v[-1])
    from_one = simulate(CHAIN, X0[0], STEPPERS[0], 8, every=4, replicas=3, rng=1)
    assert from_one.x.shape == (3, 3, 6, 3)
    assert not np.array_equal(from_one.x[-1, 0], from_one.x[-1, 1])
    assert len(run_it(rng=None).about["rng"]["seed"].__str__()) > 9


def test_a_generator_is_advanced_and_told():
    rng = np.random.default_rng(5)
    first, second = run_it(rng=rng), run_it(rng=rng)
    assert same(first, run_it())
    assert not same(first, second)
    assert second.about["rng"]["n_children_spawned"] == 9
    assert second.about["rng"]["entropy"] == 5
    json.dumps(first.about)
    json.dumps(run_it(rng=np.random.Generator(np.random.MT19937(3))).about)


def test_given_velocities_are_used():
    v0 = np.zeros((6, 3))
    run = run_it(Newton(0.02), v0=v0)
    assert np.abs(run.v).max() < 1e-12
    assert np.allclose(run.x[-1], X0, atol=1e-12)


def test_x0_is_left_alone():
    x0 = X0.copy()
    run_it()
    assert np.array_equal(x0, X0)


# --- frames and blocks ----------------------------------------------------------------------------


@pytest.fixture(params=["memory", "file"])
def drift(request, tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_BYTES", 16 * 3 * 18 * 4)  # three replicas: four frames
    out = tmp_path / "run" if request.param == "file" else None
    return simulate(CHAIN, X0[0], Drift(), 20, every=2, replicas=3, rng=2, out=out)


@pytest.mark.parametrize(
    "cut", [np.s_[:], np.s_[3:], np.s_[-2:], np.s_[1:9:3], np.s_[::-1], np.s_[4:4], np.s_[8:2:-3]]
)
def test_slices_of_runs(drift, cut):
    part = drift[cut]
    assert isinstance(part, Run)
    assert np.array_equal(part.x, drift.x[cut])
    assert np.array_equal(part.v, drift.v[cut])
    assert np.array_equal(part.times, drift.times[cut])
    assert len(part) == len(drift.x[cut])
    pieces = list(part.blocks())
    assert np.array_equal(np.concatenate([drift.x[:0], *(p.x for p in pieces)]), part.x)
    assert np.array_equal([t for p in pieces for t in p.times], part.times)
    assert np.array_equal(part[::2].x, drift.x[cut][::2])


def test_only_slices_cut_a_run(drift):
    with pytest.raises(TypeError, match="slices"):
        drift[3]


def test_what_a_run_says_of_itself(drift):
    assert repr(drift).startswith("<Run: 11 frames of 3 chains of 6 beads, 20 of 20 steps")
    assert repr(drift[:1]).startswith("<Run: 1 frame of 3 chains")
    one = fx.simulate(fx.Chain.linear(1), np.zeros((1, 3)), fx.Langevin(0.02), 2)
    assert "1 chain of 1 bead," in repr(one)
    assert drift.replicas == 3
    assert drift.chain == CHAIN
    assert drift.x is drift.x  # read once


@pytest.mark.parametrize(
    ("n", "replicas", "every", "frames", "steps"),
    [
        (10, 1, 1, 17476, 1),
        (50, 64, 1000, 15, 1000),
        (50, 64, 10, 54, 10),
        (100, 1, 10**6, 1, 500_000),
        (10**6, 1, 100, 1, 50),
        (10**6, 64, 100, 1, 1),
    ],
)
def test_blocks_are_of_some_megabytes_and_some_seconds(n, replicas, every, frames, steps):
    class Size:
        dim = 3

    size = Size()
    size.n = n
    stepper = fx.Langevin(0.01)
    found = simulation._block(size, replicas, every, stepper)
    assert found == {"frames": frames, "steps": steps}
    assert frames == 1 or frames * n * replicas * 48 <= 2**23
    assert frames == 1 or frames * every * n * replicas <= 5e7
    assert steps == 1 or steps * n * replicas <= 5e7

    class Own:
        def energy(self, x):
            return 0.0

        def force(self, x):
            return 0.0 * x

    slow = simulation._block(size, replicas, every, fx.Langevin(0.01, potential=Own() + WCA()))
    assert slow["frames"] == 1 or slow["frames"] * every * n * replicas <= 5e4
    assert slow["steps"] == 1 or slow["steps"] * n * replicas <= 5e4


def test_a_stepper_is_called_at_the_same_steps_whatever_happens(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_WORK", 3000)
    calls = []
    for out in (None, tmp_path / "run"):
        stepper = Drift()
        simulate(CHAIN, X0, stepper, 300, every=100, rng=1, out=out)
        calls.append(stepper.calls)
    assert calls[0] == calls[1]
    assert calls[0][:3] == [(0, 55), (55, 45), (100, 55)]
    stepper = Drift()
    resume(tmp_path / "run", 500, stepper=stepper)
    assert stepper.calls == [(300, 55), (355, 45), (400, 55), (455, 45)]


def test_an_interval_between_frames_can_be_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_WORK", 3000)
    count = [0]

    def delay():
        count[0] += 1
        if count[0] == 120:
            signal.raise_signal(signal.SIGINT)

    whole = simulate(CHAIN, X0, Drift(), 300, every=100, rng=1)
    run = simulate(CHAIN, X0, Drift(delay=delay), 300, every=100, rng=1, out=tmp_path / "run")
    assert (run.steps_done, len(run)) == (155, 2)
    assert same(resume(tmp_path / "run", stepper=Drift()), whole)


def test_runs_in_other_threads_leave_signals_alone():
    runs = []
    thread = threading.Thread(target=lambda: runs.append(run_it()))
    thread.start()
    thread.join()
    assert same(runs[0], run_it())


def test_ignored_interrupts_stay_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = run_it(Drift(delay=lambda: signal.raise_signal(signal.SIGINT)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.finished


# --- observables ----------------------------------------------------------------------------------


def first_bond(chain, x):
    return x[:, 1] - x[:, 0]


def test_observables_are_recorded_with_the_frames(tmp_path):
    named = {"bond": first_bond, "height": lambda chain, x: x[..., 2].max(axis=-1)}
    memory = run_it(observables=named)
    stored = run_it(observables=named, out=tmp_path / "run")
    for run in (memory, stored, load_run(tmp_path / "run")):
        assert set(run.observables) == {"bond", "height"}
        assert np.array_equal(run.observables["bond"], run.x[:, :, 1] - run.x[:, :, 0])
        assert run.observables["height"].shape == (16, 9)
        assert np.array_equal(run[3:7].observables["bond"], run.observables["bond"][3:7])
    longer = resume(tmp_path / "run", 80, observables=named)
    assert np.array_equal(
        longer.observables["bond"], run_it(steps=80, observables=named).observables["bond"]
    )
    assert list(run_it(observables=[first_bond]).observables) == ["first_bond"]
    assert list(run_it(observables=first_bond).observables) == ["first_bond"]


def test_observables_have_to_be_given_again(tmp_path):
    run_it(observables=[first_bond], out=tmp_path / "run")
    with pytest.raises(ValueError, match="observables of your own, first_bond: pass the same"):
        resume(tmp_path / "run", 80)
    with pytest.raises(ValueError, match=r"records the observables \['first_bond'\], got \['b', "):
        resume(tmp_path / "run", 80, observables={"b": first_bond})


def test_observables_of_the_library_are_found_again(tmp_path):
    several = [observables.end_to_end, observables.temperature, first_bond]
    first = run_it(observables=several, out=tmp_path / "run")
    assert first.observables["temperature"].shape == (16, 9)
    run = resume(tmp_path / "run", 80, observables=first_bond)
    assert run.observables["end_to_end"].shape == (21, 9, 3)
    assert np.array_equal(run.observables["end_to_end"], observables.end_to_end(CHAIN, run.x))
    temperature = observables.temperature(CHAIN, run.v)
    assert run.observables["temperature"] == pytest.approx(temperature, rel=1e-12)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([lambda chain, x: x], ValueError, "is no name"),
        ({"a b": first_bond}, ValueError, "is no name"),
        ({"a": 3}, TypeError, "must be functions"),
        ("end_to_end", TypeError, "must be functions"),
        ([first_bond, first_bond], ValueError, "one name"),
        ({"a": lambda chain, x: x.sum()}, ValueError, r"must give numbers \(9, \.\.\.\)"),
        ({"a": lambda chain, x: ["text"] * 9}, ValueError, "must give numbers"),
        ({"a": lambda chain, x: [[1], [1, 2]]}, TypeError, "observable a must be an array"),
        ({"a": lambda x: x}, TypeError, r"function of \(chain, x\) or \(chain, v\), got \(x\)"),
        ({"a": lambda chain, vel: vel}, TypeError, "x are positions, v velocities"),
        ({"a": lambda chain, X: X}, TypeError, r"got \(chain, X\)"),
        ({"a": np.add}, TypeError, "must be a function"),
        ([observables.structure_factor], TypeError, "missing 1 required"),
        ([observables.persistence_length], TypeError, "must be an array"),
    ],
)
def test_observables_that_cannot_be(given, error, message):
    with pytest.raises(error, match=message):
        run_it(observables=given)


def test_the_name_of_an_argument_decides():
    run = run_it(observables={"x": lambda c, x: x, "v": lambda c, v: v})
    assert np.array_equal(run.observables["x"], run.x)
    assert np.array_equal(run.observables["v"], run.v)
    conserved = partial(observables.temperature, conserved=3)
    run = run_it(observables={"temperature": conserved})
    assert np.allclose(run.observables["temperature"], conserved(CHAIN, run.v), rtol=1e-12)


def test_observables_cannot_move_the_chain():
    def push(chain, x):
        x += 1.0

    with pytest.raises(ValueError, match="read-only"):
        run_it(observables=[push])


def test_whole_numbers_at_first_cost_no_digits():
    values = iter([np.zeros(9, dtype=int), np.full(9, 0.5)] * 8)
    run = run_it(observables={"half": lambda chain, x: next(values)})
    assert run.observables["half"][:2, 0].tolist() == [0.0, 0.5]
    phases = run_it(observables={"phase": lambda chain, x: np.exp(1j * x[:, 0, 0])})
    assert np.allclose(phases.observables["phase"], np.exp(1j * phases.x[:, :, 0, 0]))


def test_observables_keep_their_shape():
    shapes = iter([(9, 2), (9, 3)])
    with pytest.raises(ValueError, match=r"growing changes its shape .* from \(9, 2\) to \(9, 3\)"):
        run_it(observables={"growing": lambda chain, x: np.zeros(next(shapes))})


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "every"),
    [(10**6, 1000), (60, 1), (7919 * 1000, 7919), (12345, 5), (1, 1), (10**9, 10**6), (1999, 1)],
)
def test_about_a_thousand_frames_by_default(steps, every):
    assert simulation._every(steps) == every
    assert steps % every == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"steps": 61}, ValueError, "multiple of every.*got 61 and 4"),
        ({"steps": 3}, ValueError, "got 3 and 4"),
        ({"steps": 60.5}, TypeError, "steps must be an integer, got 60.5"),
        ({"steps": 2**62, "every": 1}, MemoryError, "frames of .* replicas of 6 beads"),
        ({"v0": [[1.0, 2.0], [3.0]]}, TypeError, "v0 must be an array.*different lengths"),
        ({"steps": 1000003, "every": None}, ValueError, "no suitable divisor"),
        ({"every": 0}, ValueError, "every must be at least 1"),
        ({"workers": 0}, ValueError, "workers must be at least 1"),
        ({"replicas": 4}, ValueError, "x0 must have shape"),
        ({"rng": "seed"}, TypeError, "rng must be an integer"),
        ({"rng": -1}, ValueError, "rng must be non-negative, got -1: a seed is an integer"),
        ({"replicas": 10**13, "x0": X0[0]}, MemoryError, "10000000000000 replicas of 6 beads"),
        (
            {"observables": ["end_to_end"]},
            TypeError,
            r"got 'end_to_end'$",
        ),
        ({"observables": ["mine"]}, TypeError, r"got 'mine'$"),
        ({"v0": np.zeros((5, 3))}, ValueError, "v0 must have shape"),
    ],
)
def test_what_cannot_be_run(change, error, message):
    with pytest.raises(error, match=message):
        run_it(**change)


def test_positions_to_start_from_are_needed():
    with pytest.raises(TypeError, match="x0 must be real numbers"):
        simulate(CHAIN, None, STEPPERS[0], 4)


def test_only_chains_are_simulated():
    with pytest.raises(TypeError, match=r"must be a fixman\.Chain"):
        simulate(X0, CHAIN, STEPPERS[0], 4)


def test_resume_refuses_what_would_be_another_run(tmp_path):
    run_it(out=tmp_path / "run")
    with pytest.raises(ValueError, match="is at step 60 already, beyond 40"):
        resume(tmp_path / "run", 40)
    with pytest.raises(ValueError, match="multiple of every"):
        resume(tmp_path / "run", 82)
    with pytest.raises(ValueError, match=r"dt=0\.01 instead of 0\.02"):
        resume(tmp_path / "run", 80, stepper=Langevin(0.01, ensemble="stiff"))
    run = resume(tmp_path / "run", 80, stepper=Langevin(0.02, ensemble="stiff"))
    assert same(run, run_it(steps=80))
    assert run.about["history"] == [{"step": 60, "steps": 80, "versions": run.about["versions"]}]


def test_a_finished_run_is_read_only_again(tmp_path):
    run = run_it(out=tmp_path / "run")
    before = (tmp_path / "run").stat().st_mtime_ns
    assert same(resume(tmp_path / "run"), run)
    assert before == (tmp_path / "run").stat().st_mtime_ns


def test_an_unfinished_run_can_be_shortened(tmp_path, monkeypatch):
    monkeypatch.setattr(simulation, "BLOCK_BYTES", 1)
    with pytest.raises(RuntimeError):
        run_it(Drift(break_at=33), out=tmp_path / "run")
    assert same(load_run(tmp_path / "run"), run_it(Drift())[:9])  # nothing is lost
    run = resume(tmp_path / "run", 36, stepper=Drift())
    assert run.finished
    assert same(run, run_it(Drift())[:10])


# --- progress -------------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_steps_rate_and_time_left(monkeypatch, tmp_path, peer):
    peer("tqdm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    run_it(Drift(), out=tmp_path / "run")
    shown = terminal.getvalue()
    assert "60.0/60.0" in shown
    assert "step/s" in shown
    terminal.truncate(0)
    run_it(Drift(), progress=False)
    assert not terminal.getvalue().strip("\0")
    resume(tmp_path / "run", 80, stepper=Drift(), progress=True)
    assert "80.0/80.0" in terminal.getvalue()


def test_progress_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert run_it(Drift()).finished
    with pytest.raises(ImportError, match="pip install tqdm"):
        run_it(Drift(), progress=True)
