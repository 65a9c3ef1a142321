"""A stepper in a few lines: free flight with kicks, every bit of it told by the state."""

from __future__ import annotations

import numpy as np

from fixman.simulation.steppers import State

MULTIPLIER = np.uint64(6364136223846793005)


class Drift:
    """Beads fly, and a congruential generator of each replica kicks them all."""

    def __init__(self, dt=0.5, delay=None, break_at=None):
        self.dt, self.delay, self.break_at = dt, delay, break_at
        self.calls = []

    def parameters(self):
        return {"name": "drift", "dt": self.dt}

    def start(self, chain, x0, v0, replicas, rng):
        shape = (replicas, chain.n, chain.dim)
        x = np.array(np.broadcast_to(x0, shape), dtype=float)
        v = rng.normal(size=shape) if v0 is None else np.array(np.broadcast_to(v0, shape))
        random = rng.integers(1, 2**63, size=(replicas, 4), dtype=np.uint64)
        return State(x, v, random, np.zeros((replicas, 0)))

    def advance(self, chain, state, steps, workers=1):
        self.calls.append((state.step, steps))
        for _ in range(steps):
            if self.delay is not None:
                self.delay()
            if state.step == self.break_at:
                raise RuntimeError(f"step {state.step} has no solution")
            with np.errstate(over="ignore"):
                state.random = state.random * MULTIPLIER + np.uint64(1)
            kick = state.random[:, :1, None] / 2.0**64 - 0.5
            state.v = 0.9 * state.v + kick
            state.x = state.x + self.dt * state.v
            state.step += 1
