"""Hybrid Monte Carlo with constraints."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

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
from fixman.simulation.steppers.plan import Plan, Schedule
from fixman.simulation.steppers.scheduled import Scheduled

__all__ = ["HybridMonteCarlo"]

BEGIN: Schedule = (FORCE, 0.0), (NOISE, 1.0), (PROJECT, 0.0), (REMEMBER, 0.0)
LEAP: Schedule = (
    (KICK, 0.5), (DRIFT, 1.0), (FORCE, 0.0), (KICK, 0.5), (PROJECT, 0.0), (RETURN, 1.0),
)  # fmt: skip
END: Schedule = ((DECIDE, 0.0),)


@dataclass(frozen=True)
class HybridMonteCarlo(Scheduled):
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

    Notes
    -----
    ``State.tally`` counts the steps that are tried and accepted; ``State.v`` are the velocities of
    what was kept last.
    """

    NAME = "hybrid"
    NO_VELOCITIES = "HybridMonteCarlo draws new ones at every step"

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    leaps: int = 10
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    tolerance: float = 1e-12

    def passes(self, chain: Chain) -> int:
        """Return how often a step goes over all beads, for whoever wants to know what it costs."""
        del chain
        return self.leaps

    def plan(self) -> Plan:
        """Leaps of `Newton` between new velocities and a decision."""
        return Plan(
            BEGIN + self.leaps * LEAP + END, self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=math.inf, metric=self.ensemble == "stiff",
        )  # fmt: skip
