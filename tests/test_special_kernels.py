"""Chains of bonds, and of bonds and bends, have kernels of their own: the general ones agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import fixman as fx
import oracles
from fixman.chains import projection_tables as systems
from fixman.kernels.chain.hard import Hard
from fixman.kernels.simulation.banded_steps import Banded
from fixman.kernels.simulation.jointed_steps import Jointed
from fixman.simulation.steppers import Langevin, Newton, State
from oracles import Spec, error
from strategies import build, make_system, seeds, specs

BONDS = specs(kinds=("length",), min_n=2, max_n=12)
FRAMES = 9  # eight in lanes, and one that reaches back


def general(chain: fx.Chain) -> fx.Chain:
    """Return the same chain, which does not know that its hard rows are the bonds of a line."""
    other = fx.Chain.linear(chain.n, dim=chain.dim, base=chain.base, masses=chain.masses)
    assert other.layout.links.size
    other.layout.__dict__["links"] = np.empty((2, 0))
    return other


def states(spec, seed):
    """Stack states of one chain."""
    made = [make_system(spec, seed=seed + k) for k in range(FRAMES)]
    names = ("x", "v", "force", "torque")
    return (np.stack([getattr(system, name) for system in made]) for name in names)


@given(BONDS, seeds)
def test_determinants_and_forces_of_bonds(spec, seed):
    chain = build(spec)
    x, *_ = states(spec, seed)
    for frames in (x, x[0]):
        found, expected = fx.logdet(chain, frames), fx.logdet(general(chain), frames)
        assert np.abs(found - expected).max() < 1e-12 * (spec.n + np.abs(expected).max())
        expected = fx.fixman_force(general(chain), frames)
        assert error(fx.fixman_force(chain, frames), expected, np.abs(expected).max() + 1.0) < 1e-11


@given(BONDS, seeds)
def test_motion_of_bonds(spec, seed):
    chain = build(spec)
    x, v, force, torque = states(spec, seed)
    for which in (slice(None), 0):
        loads = {"force": force[which], "torque": torque[which]}
        for given_loads in ({"force": force[which]}, loads):
            found = fx.forward_dynamics(chain, x[which], v[which], **given_loads)
            expected = fx.forward_dynamics(general(chain), x[which], v[which], **given_loads)
            for name in ("acceleration", "tension", "qdd"):
                assert error(getattr(found, name), getattr(expected, name)) < 1e-10, name


@given(seeds)
def test_what_bonds_of_uneven_masses_would_lose(seed):
    masses = np.where(np.arange(6) % 2, 1e-12, 1.0)
    system = make_system(Spec(6, 3, "free", masses, ("length",)), "nearly straight", seed, 1e-6)
    exact = oracles.mp_logdet(system.spec, system.x)
    assert abs(fx.logdet(system.chain, system.x) - exact) < 1e-13 * (1.0 + abs(exact))
    lost = abs(fx.logdet(general(system.chain), system.x) - exact)
    assert lost > 1e-9 * abs(exact)


CASES = {
    "bonds": (Jointed, {}),
    "bonds, plane": (Jointed, {"dim": 2}),
    "bonds, fixed": (Jointed, {"base": "fixed"}),
    "bonds and bends": (Banded, {"hard": ("length", "angle")}),
    "bonds and bends, fixed": (Banded, {"hard": ("length", "angle"), "base": "fixed"}),
    "bonds and bends, plane": (Banded, {"hard": ("length", "angle"), "dim": 2}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stepper", [Langevin(0.01, ensemble="stiff"), Newton(0.01, kT=0.1)])
@pytest.mark.parametrize("replicas", [1, 9])
def test_steps(name, stepper, replicas, monkeypatch):
    kind, options = CASES[name]
    for seed in range(3):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 12))
        chain = fx.Chain.linear(n, masses=rng.uniform(0.5, 2.0, n), **options)
        angles = rng.uniform(0.9, 1.4, np.count_nonzero(chain.layout.rows.kinds == 4))
        x0 = fx.random_walks(chain, replicas, angles=angles, rng=rng)
        start = stepper.start(chain, x0, None, replicas, seed)
        assert type(systems.projections(chain, start.targets)[0]) is kind
        found = State.from_arrays(start.arrays())
        stepper.advance(chain, found, 10)

        other = chain
        if kind is Jointed:
            other = general(chain)
        monkeypatch.setattr(systems, "_banded", lambda system: system)
        assert type(systems.projections(other, start.targets)[0]) is Hard
        expected = State.from_arrays(start.arrays())
        stepper.advance(other, expected, 10)
        monkeypatch.undo()
        assert np.array_equal(found.random, expected.random)
        assert not np.array_equal(found.x, start.x)
        assert np.abs(found.x - expected.x).max() < 1e-10
        assert np.abs(found.v - expected.v).max() < 1e-9
