"""Langevin dynamics with constraints."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from fixman.kernels.simulation.stepping import DRIFT, FORCE, KICK, NOISE, PROJECT
from fixman.simulation.steppers.plan import Plan
from fixman.simulation.steppers.scheduled import Scheduled

__all__ = ["Langevin"]

# B A O P, A F B P: half steps B are at the two ends, so that positions and velocities belong to one
# time; P projects velocities, and F finds the forces of the next B.
SCHEDULE = (
    (KICK, 0.5), (DRIFT, 0.5), (NOISE, 1.0), (PROJECT, 0.0),
    (DRIFT, 0.5), (FORCE, 0.0), (KICK, 0.5), (PROJECT, 0.0),
)  # fmt: skip


@dataclass(frozen=True)
class Langevin(Scheduled):
    """Constrained Langevin dynamics by g-BAOAB (Leimkuhler & Matthews 2016).

    dv = (f / m − γ v) dt + √(2 γ kT / m) dW on the constraint manifold.  Averages are off by
    O(dt²).  The rigid ensemble is what constraints sample by themselves, ρ ∝ √det G^aa e^(−U/kT);
    the stiff one, of springs in the limit of infinite stiffness, is sampled by adding the exact
    Fixman force −½ kT ∂ ln det H^bb / ∂x.  O(n) a step.

    Parameters
    ----------
    dt : float
        Time step, up to 0.1 in units of L √(m/kT); the bias of a trimer's ⟨c²⟩ is −0.02 dt² (rigid)
        or −0.04 dt² (stiff) in these units.  Above 0.15 there is a warning: the temperature is
        right even where the ensemble is not.
    kT : float
    friction : float
        The rate γ at which velocities are forgotten.
    ensemble : "rigid" or "stiff"
    potential : optional
        As for `Newton`.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.
    """

    NAME = "langevin"

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    friction: float = 1.0
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    tolerance: float = 1e-12

    def plan(self) -> Plan:
        """g-BAOAB, with the Fixman force in the stiff ensemble."""
        return Plan(
            SCHEDULE, self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=self.friction, metric=self.ensemble == "stiff",
        )  # fmt: skip
