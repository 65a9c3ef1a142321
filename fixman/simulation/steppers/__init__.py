"""Integrators of constrained motion, and the state that they move.

A stepper is a frozen description.  ``start`` makes a `State`.  ``advance`` moves the state in
compiled code, eight replicas at a time in SIMD lanes, in several threads.  The motion of a replica
depends on its own positions, velocities and random stream only: results are the same bits for any
number of workers, any order and number of replicas, and any division of the steps into calls.
"""

from typing import Any

from fixman.simulation.steppers.montecarlo import MonteCarlo
from fixman.simulation.steppers.scheduled import Brownian, HybridMonteCarlo, Langevin, Newton
from fixman.simulation.steppers.stepper import State, Stepper

__all__ = [
    "Brownian", "HybridMonteCarlo", "Langevin", "MonteCarlo", "Newton", "State", "Stepper",
    "from_parameters",
]  # fmt: skip

KINDS: dict[str, Any] = {
    kind.NAME: kind for kind in (Newton, Langevin, Brownian, HybridMonteCarlo, MonteCarlo)
}


def from_parameters(parameters: dict[str, Any], potential: Any = None) -> Stepper:
    """Make the stepper that `Stepper.parameters` described; a potential of one's own is given."""
    name = parameters.get("name")
    if name not in KINDS:
        raise ValueError(f"no stepper is called {name!r}: {sorted(KINDS)} are")
    stepper: Stepper = KINDS[name].from_parameters(parameters, potential)
    return stepper
