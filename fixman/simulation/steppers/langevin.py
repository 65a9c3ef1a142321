"""Langevin dynamics with constraints."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman.chains.chain import Chain
from fixman.kernels.simulation.stepping import DRIFT, FORCE, KICK, NOISE, PROJECT
from fixman.simulation.steppers import state as _state
from fixman.simulation.steppers.state import Plan, State

__all__ = ["Langevin"]

# The B half steps are at the two ends, so that positions and velocities belong to one time.
SCHEDULE = (
    (KICK, 0.5), (DRIFT, 0.5), (NOISE, 1.0), (PROJECT, 0.0),
    (DRIFT, 0.5), (FORCE, 0.0), (KICK, 0.5), (PROJECT, 0.0),
)  # fmt: skip


@dataclass(frozen=True)
class Langevin(arrays.Spelled):
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

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    friction: float = 1.0
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    tolerance: float = 1e-12

    def __post_init__(self) -> None:
        _state.require_potential(self.potential)
        _state.make_positive(self, "dt", "kT", "friction", "tolerance")
        arrays.require_one_of(self.ensemble, "ensemble", ("rigid", "stiff"))

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again, ready for JSON."""
        return {
            "name": "langevin",
            "dt": self.dt,
            "kT": self.kT,
            "friction": self.friction,
            "ensemble": self.ensemble,
            "potential": _state.potential_parameters(self.potential),
            "tolerance": self.tolerance,
        }

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], potential: Any = None) -> Langevin:
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

        Arguments and errors are those of `Newton.start`.
        """
        state = _state.start(chain, x0, v0, replicas, rng, self._plan(), self.kT, True)
        _state.warn_of_long_steps(chain, state, self._plan(), self.kT)
        return state

    def advance(self, chain: Chain, state: State, steps: int, workers: int = 1) -> None:
        """Do ``steps`` steps on every replica, in place.

        Raises
        ------
        ConstraintSolveError
            As `Newton.advance`.
        """
        _state.advance(chain, state, steps, workers, self._plan())

    def _plan(self) -> Plan:
        return Plan(
            SCHEDULE, self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=self.friction, metric=self.ensemble == "stiff",
        )  # fmt: skip
