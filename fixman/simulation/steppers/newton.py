"""Newton's equations with constraints."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from fixman.kernels.simulation.stepping import DRIFT, FORCE, KICK, PROJECT
from fixman.simulation.steppers.plan import Plan
from fixman.simulation.steppers.scheduled import Scheduled

__all__ = ["Newton"]

SCHEDULE = (KICK, 0.5), (DRIFT, 1.0), (FORCE, 0.0), (KICK, 0.5), (PROJECT, 0.0)


@dataclass(frozen=True)
class Newton(Scheduled):
    """Constrained Newton dynamics by RATTLE, the velocity Verlet of constraints (Andersen 1983).

    Second order in dt, time-reversible and symplectic: the energy fluctuates by O(dt²) without
    drift.  The constraints are solved by Newton's method to rounding, in O(n) a step.  Where a step
    is so long that they have no solution, the way is done in 2, 4, 8, … pieces under the same
    forces; this keeps rare fast moments from ending a run, at the price of some energy.

    Parameters
    ----------
    dt : float
        Time step; 0.02 in units of L √(m/kT) is careful, 0.1 still stable.  Hard angles leave
        lighter and faster motions, which want half of that.
    kT : float, optional
        Temperature of the velocities that are drawn where none are given.
    potential : optional
        Energies and forces, see `fixman.potentials`; an object of your own with ``energy(x)`` and
        ``force(x)`` works as well, at the price of a call to Python every step.
    drifting : bool
        Whether drawn velocities of a free chain keep the motion of the centre of mass.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.
    """

    NAME = "newton"

    dt: float
    _: KW_ONLY
    kT: float | None = None
    potential: Any = None
    drifting: bool = False
    tolerance: float = 1e-12

    def plan(self) -> Plan:
        """RATTLE: velocity Verlet, whose second half kick is projected."""
        return Plan(SCHEDULE, self.dt, self.tolerance, self.potential, drifting=self.drifting)
