"""Integrators of constrained motion: what they have in common, and the state that they move.

A stepper is a frozen description: `Newton`, `Langevin` or `HybridMonteCarlo`.  ``start`` makes a
`State` of it, ``advance`` moves the state on in compiled code, replicas eight at a time in SIMD
lanes and these over threads.  What a replica does depends on its own positions, velocities and
random stream only: results are the same bits for any number of workers, any order and any number of
replicas, and for any division of the steps into calls.
"""

from __future__ import annotations

from typing import Any

from fixman.steppers.hybrid import HybridMonteCarlo
from fixman.steppers.langevin import Langevin
from fixman.steppers.newton import Newton
from fixman.steppers.state import State, Stepper

__all__ = ["HybridMonteCarlo", "Langevin", "Newton", "State", "Stepper", "from_parameters"]

KINDS: dict[Any, Any] = {
    "newton": Newton,
    "langevin": Langevin,
    "hybrid": HybridMonteCarlo,
}


def from_parameters(parameters: dict[str, Any], potential: Any = None) -> Stepper:
    """Make the stepper that `Stepper.parameters` described.

    A potential of the user's own, which its parameters cannot make again, is given anew.
    """
    name = parameters.get("name")
    if name not in KINDS:
        raise ValueError(f"no stepper is called {name!r}: {sorted(KINDS)} are")
    stepper: Stepper = KINDS[name].from_parameters(parameters, potential)
    return stepper
