"""Overdamped dynamics with constraints."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from fixman._common import arrays
from fixman.kernels.simulation.stepping import DRIFT, ECHO, FORCE, KICK, LEAP, MARK, NOISE, PROJECT
from fixman.potentials import flows
from fixman.simulation.steppers.plan import Plan
from fixman.simulation.steppers.scheduled import Scheduled

__all__ = ["Brownian"]

# With h = √(2 dt) and ζ for m, h²/2 is the time: half a kick and a drift are dt f/ζ, noise and a
# drift √(2 dt kT/ζ) ξ.  But for constraints, with Δ(x) = dt f(x)/ζ + √(2 dt kT/ζ) ξ:
SCHEDULES = {
    # x ← x + dt f(x)/ζ + ½ √(2 dt kT/ζ) (ξ + ξ′): half of the noise of the last step and half of a
    # new one; g-BAOAB where velocities are forgotten at once, with its two kicks in one
    "geodesic": (
        (FORCE, 0.0), (KICK, 1.0), (DRIFT, 0.5), (NOISE, 1.0), (PROJECT, 0.0), (DRIFT, 0.5),
    ),
    # x½ = x + ½ Δ(x), x ← x + Δ(x½) with the same ξ and the constraints' B(x½)
    "midpoint": (
        (FORCE, 0.0), (MARK, 0.0), (NOISE, 1.0), (KICK, 0.5), (PROJECT, 0.0), (DRIFT, 0.5),
        (FORCE, 0.0), (ECHO, 1.0), (KICK, 0.5), (PROJECT, 0.0), (LEAP, 1.0),
    ),
    # x ← x + Δ(x)
    "liu": ((FORCE, 0.0), (NOISE, 1.0), (KICK, 0.5), (PROJECT, 0.0), (DRIFT, 1.0)),
}  # fmt: skip


def _frictions(value: Any, name: str) -> float | tuple[float, ...]:
    array = arrays.real(value, (), name)
    if array.ndim > 1 or not array.size:
        raise ValueError(f"{name} must be one number or one for each bead, got shape {array.shape}")
    if not array.ndim:
        return arrays.positive(float(array), name)
    return tuple(
        arrays.positive(zeta, f"{name} of bead {k}") for k, zeta in enumerate(array.tolist())
    )


@dataclass(frozen=True)
class Brownian(Scheduled):
    """Overdamped dynamics of a chain with constraints, also in a homogeneous flow.

    dx = P [v∞(x) + f/ζ] dt + √(2 kT/ζ) dW on the constraint manifold, with the projection P along
    ζ⁻¹ Bᵀ and no hydrodynamic interaction.  Friction, not mass, sets its metric: by itself it
    samples the mobility ensemble ρ ∝ √det(B ζ⁻¹ Bᵀ) e^(−U/kT) (Hinch 1994).  All schemes are of
    first weak order in dt.  O(n) a step.

    Parameters
    ----------
    dt : float
        Time step, up to 0.005 in units of ζ L²/kT, where ⟨c²⟩ of a trimer is off by −0.0005
        (geodesic), +0.001 (midpoint) or −0.0025 (Liu).  Longer ones are warned of.
    kT : float
    friction : float or (n,)
        The friction coefficient ζ, the same for all beads or one for each of them.
    ensemble : "mobility", "stiff" or "rigid"
        "stiff", of springs in the limit of infinite stiffness, adds the force
        −½ kT ∂ ln det(B ζ⁻¹ Bᵀ)/∂x; "rigid", of constraints and the chain's masses, adds
        −½ kT ∂ [ln det(B ζ⁻¹ Bᵀ) − ln det(B M⁻¹ Bᵀ)]/∂x, which is nothing if ζ ∝ m.
    scheme : "geodesic", "midpoint" or "liu"
        Geodesic motion and noise in turn, g-BAOAB at infinite friction (Leimkuhler & Matthews
        2016): best at equilibrium.  Euler's midpoint rule with constraints along B at the midpoint
        (Fixman 1978; Grassia, Hinch & Nitsche 1995; Morse 2004): for flows.  Euler's rule with
        constraints along B at the beginning (Liu 1989): for reference.
    flow : (d, d) or function, optional
        Velocity gradient κ of v∞ = κ x, see `fixman.flows`, or a function of time that returns it,
        which is called once a step, with the time in its middle.  On a free chain x is taken from
        the centre of friction, which the flow then leaves in its place.
    potential : optional
        As for `Newton`.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.

    Notes
    -----
    There are no velocities: ``v`` of a state or a run is the last displacement over that part of
    √(2 dt) that it took.
    """

    NAME = "brownian"
    NO_VELOCITIES = "overdamped dynamics has no velocities to start with"
    CHECKS = Scheduled.CHECKS | {
        "friction": _frictions,
        "flow": lambda flow, _: flows.checked(flow),
    }

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    friction: Any = 1.0
    ensemble: Literal["mobility", "stiff", "rigid"] = "mobility"
    scheme: Literal["geodesic", "midpoint", "liu"] = "geodesic"
    flow: Any = None
    potential: Any = None
    tolerance: float = 1e-12

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again; of a function only a name."""
        return super().parameters() | {"flow": flows.parameters(self.flow)}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], potential: Any = None) -> Self:
        """Make the stepper again; a potential of the user's own has to be given again.

        Raises
        ------
        ValueError
            If the flow is a function.
        """
        flow = flows.from_parameters(parameters["flow"])
        return super().from_parameters(parameters | {"flow": flow}, potential)

    def plan(self) -> Plan:
        """Return the schedule of the scheme, with frictions in the place of masses."""
        return Plan(
            SCHEDULES[self.scheme], self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=math.inf, metric=self.ensemble != "mobility",
            rival=self.ensemble == "rigid", drag=self.friction, flow=self.flow,
        )  # fmt: skip
