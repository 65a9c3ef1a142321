"""Hybrid Monte Carlo with constraints."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman.chains.chain import Chain
from fixman.kernels.simulation.stepping import (
    DECIDE,
    DRIFT,
    FORCE,
    KICK,
    NOISE,
    PROJECT,
    REMEMBER,
    RETURN,
)
from fixman.simulation.steppers import state as _state
from fixman.simulation.steppers.state import Plan, Schedule, State

__all__ = ["HybridMonteCarlo"]

BEGIN: Schedule = (FORCE, 0.0), (NOISE, 1.0), (PROJECT, 0.0), (REMEMBER, 0.0)
LEAP: Schedule = (
    (KICK, 0.5), (DRIFT, 1.0), (FORCE, 0.0), (KICK, 0.5), (PROJECT, 0.0), (RETURN, 1.0),
)  # fmt: skip
END: Schedule = ((DECIDE, 0.0),)


@dataclass(frozen=True)
class HybridMonteCarlo(arrays.Spelled):
    """Hybrid Monte Carlo on the constraint manifold: exact for any time step.

    A step draws velocities for the temperature kT, goes ``leaps`` steps of `Newton`, and accepts
    where it got to with min(1, e^(−ΔE/kT)), or stays (Duane et al. 1987; with constraints Hartmann
    2008).  E is the kinetic and potential energy; the stiff ensemble, of springs in the limit of
    infinite stiffness, is sampled by adding ½ kT ln det H^bb to it and its force to the forces.  A
    leap that has no solution, or whose way back Newton's method does not find, is refused: without
    that, long steps would bias averages (Zappa, Holmes-Cerf & Goodman 2018; Lelièvre, Rousset &
    Stoltz 2019).  O(n) a leap.

    Parameters
    ----------
    dt : float
        Time step of a leap.  Averages do not depend on it, only how many steps are accepted, which
        `Run.acceptance` tells: 0.1 to 0.2 in units of L √(m/kT), less for long chains, steep
        potentials and hard angles, so that between 60 and 95 % are.  `fixman.simulate` warns if
        fewer than 5 % are.
    kT : float
    leaps : int
        So many of a step; a way of leaps · dt about as long as what is sampled takes to change.
    ensemble : "rigid" or "stiff"
    potential : optional
        As for `Newton`.  One of your own needs an energy; where that is infinite no chain gets to.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.
    """

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    leaps: int = 10
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    tolerance: float = 1e-12

    def __post_init__(self) -> None:
        _state.require_potential(self.potential)
        _state.make_positive(self, "dt", "kT", "tolerance")
        object.__setattr__(self, "leaps", arrays.positive_int(self.leaps, "leaps"))
        arrays.require_one_of(self.ensemble, "ensemble", ("rigid", "stiff"))

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again, ready for JSON."""
        return {
            "name": "hybrid",
            "dt": self.dt,
            "kT": self.kT,
            "leaps": self.leaps,
            "ensemble": self.ensemble,
            "potential": _state.potential_parameters(self.potential),
            "tolerance": self.tolerance,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], potential: Any = None) -> HybridMonteCarlo:
        """Make the stepper again; a potential of the user's own has to be given again."""
        return cls(**_state.arguments(parameters, potential))

    def start(
        self,
        chain: Chain,
        x0: ArrayLike,
        v0: ArrayLike | None = None,
        replicas: int = 1,
        rng: Any = None,
    ) -> State:
        """Return replicas at x0, with velocities drawn at the temperature kT.

        ``state.v`` are the velocities of what was kept last.  Other arguments are those of
        `Newton.start`.

        Raises
        ------
        ValueError
            If there are velocities v0: every step draws its own.  If the energy of x0 is not
            finite, or a potential has none.
        SingularConstraintError
            If the hard coordinates cannot be held in x0.
        """
        if v0 is not None:
            raise ValueError(
                "HybridMonteCarlo draws new velocities at every step, and has no use for v0"
            )
        return _state.start(chain, x0, None, replicas, rng, self._plan(), self.kT, True)

    def passes(self, chain: Chain) -> int:
        """Return how often a step goes over all beads, for whoever wants to know what it costs."""
        del chain
        return self.leaps

    def advance(self, chain: Chain, state: State, steps: int, workers: int = 1) -> None:
        """Try ``steps`` steps on every replica, in place; ``state.tally`` counts those accepted."""
        _state.advance(chain, state, steps, workers, self._plan())

    def _plan(self) -> Plan:
        return Plan(
            BEGIN + self.leaps * LEAP + END, self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=math.inf, metric=self.ensemble == "stiff",
        )  # fmt: skip
