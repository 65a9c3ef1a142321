"""Newton's equations with constraints."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman.chains.chain import Chain
from fixman.kernels.simulation.stepping import DRIFT, FORCE, KICK, PROJECT
from fixman.simulation.steppers import state as _state
from fixman.simulation.steppers.state import Plan, State

__all__ = ["Newton"]

SCHEDULE = (KICK, 0.5), (DRIFT, 1.0), (FORCE, 0.0), (KICK, 0.5), (PROJECT, 0.0)


@dataclass(frozen=True)
class Newton(arrays.Spelled):
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

    dt: float
    _: KW_ONLY
    kT: float | None = None
    potential: Any = None
    drifting: bool = False
    tolerance: float = 1e-12

    def __post_init__(self) -> None:
        _state.require_potential(self.potential)
        drifting = arrays.flag(self.drifting, "drifting")
        object.__setattr__(self, "drifting", drifting)
        _state.make_positive(self, "dt", "tolerance", *(["kT"] if self.kT is not None else []))

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again, ready for JSON."""
        return {
            "name": "newton",
            "dt": self.dt,
            "potential": _state.potential_parameters(self.potential),
            "kT": self.kT,
            "drifting": self.drifting,
            "tolerance": self.tolerance,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], potential: Any = None) -> Newton:
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
        """Return replicas at x0 with velocities v0, projected, or drawn at the temperature kT.

        Parameters
        ----------
        chain : Chain
        x0, v0 : (n, dim) or (replicas, n, dim)
            The hard coordinates keep the values that they have in x0.
        replicas : int
        rng : None, int or Generator
            Every replica gets a stream spawned from it.

        Raises
        ------
        ValueError
            If there are neither velocities nor a temperature.
        SingularConstraintError
            If the hard coordinates cannot be held in x0.

        Warns
        -----
        RuntimeWarning
            If dt √(kT/m) is more than 0.15 of the shortest hard bond, 0.02 with hard angles.
        """
        if v0 is None and self.kT is None:
            raise ValueError("Newton needs velocities to start with: give v0, or kT to draw them")
        drifting = self.drifting or chain.base == "fixed"
        state = _state.start(chain, x0, v0, replicas, rng, self._plan(), self.kT, drifting)
        _state.warn_of_long_steps(chain, state, self._plan())
        return state

    def advance(self, chain: Chain, state: State, steps: int, workers: int = 1) -> None:
        """Do ``steps`` steps on every replica, in place.

        Raises
        ------
        ConstraintSolveError
            If a step has no solution even in the smallest pieces, naming step and replica; the
            state is then what it was before the call.
        """
        _state.advance(chain, state, steps, workers, self._plan())

    def _plan(self) -> Plan:
        return Plan(SCHEDULE, self.dt, self.tolerance, self.potential)
