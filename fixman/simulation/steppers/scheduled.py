"""What the steppers that follow a schedule have in common: all but the schedule."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.kernels.algebra.random import WORDS, fill_normals
from fixman.mechanics.refusals import raise_failure
from fixman.simulation.steppers import moving
from fixman.simulation.steppers.plan import Plan, warn_of_fast_flows, warn_of_long_steps
from fixman.simulation.steppers.state import State, begin, replicated
from fixman.simulation.steppers.stepper import Described


class Scheduled(Described):
    """A stepper that is told apart from others by its `plan` alone."""

    kT: float | None

    def plan(self) -> Plan:
        """Return the moves of a step."""
        raise NotImplementedError

    def start(
        self,
        chain: Chain,
        x0: ArrayLike,
        v0: ArrayLike | None = None,
        replicas: int = 1,
        rng: Any = None,
    ) -> State:
        """Return replicas at x0 with velocities v0, projected, or drawn at the temperature kT.

        Parameters
        ----------
        chain : Chain
        x0, v0 : (n, dim) or (replicas, n, dim)
            The hard coordinates keep the values that they have in x0.  Overdamped dynamics and
            hybrid Monte Carlo take no velocities.
        replicas : int
        rng : None, int or Generator
            Every replica gets a stream spawned from it.

        Raises
        ------
        ValueError
            If there are neither velocities nor a temperature, or velocities that have no use.  If
            friction coefficients or a flow are not for this chain.  Where moves are tried, if the
            energy of x0 is not finite, or a potential has none.
        SingularConstraintError
            If the hard coordinates cannot be held in x0.

        Warns
        -----
        RuntimeWarning
            If a step is so long that averages suffer: dt √(kT/m) above 0.15 of the shortest hard
            bond, less with hard angles or very light beads; or so long that a flow turns rods.
        """
        self._refuse(v0)
        plan = self.plan()
        state = begin(chain, x0, replicas, rng)
        state.v = self._velocities(chain, state, v0, plan)
        if plan.decides:
            state.tally = np.tile([0.0, 0.0, plan.dt], (len(state.x), 1))
        prepared = moving.Prepared.of(chain, state, plan)
        begun = prepared.run(state, 0, 1)[0]
        state.v = begun.v  # projected
        for r in np.flatnonzero(~np.isfinite(state.v).all(axis=(1, 2)))[:1].tolist():
            raise_failure(chain, state.x, r)
        for r in np.flatnonzero(np.isnan(begun.tally).any(axis=1))[:1].tolist():
            prepared.bound.energy(state.x)  # says of which configuration it is not finite
            raise_failure(chain, state.x, r)
        warn_of_long_steps(chain, state, plan)
        warn_of_fast_flows(chain, plan)
        return state

    def _velocities(self, chain: Chain, state: State, v0: ArrayLike | None, plan: Plan) -> Array:
        """Repeat v0, or draw velocities from the distribution of Maxwell."""
        x, tail = state.x, (chain.n, chain.dim)
        if v0 is not None:
            return replicated(arrays.real(v0, tail, "v0"), len(x), tail, "v0")
        if self.kT is None:
            name = type(self).__name__
            raise ValueError(f"{name} needs velocities to start with: give v0, or kT to draw them")
        v = np.empty_like(x)
        for r in range(len(x)):
            fill_normals(state.random.reshape(-1), WORDS * r, v[r].size, v[r].reshape(-1), 0, 1)
        v *= np.sqrt(self.kT * (1.0 / plan.inertia(chain)))[:, None]
        if not plan.drifting and chain.base == "free":  # a projection leaves the momentum alone
            v -= np.average(v, axis=1, weights=chain.masses)[:, None]
        return v

    def advance(self, chain: Chain, state: State, steps: int, workers: int = 1) -> None:
        """Do ``steps`` steps on every replica, in place.

        Raises
        ------
        ConstraintSolveError
            If a step has no solution even in the smallest pieces, naming step and replica; the
            state is then what it was before the call.
        ValueError
            If a flow is not one of this chain's dimension, or not finite.
        """
        moving.advance(chain, state, steps, workers, self.plan())
