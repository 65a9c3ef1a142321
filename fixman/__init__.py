"""Chains with constraints in O(n): dynamics, tensions and the mass-metric determinant.

The inverse mass matrix H = B M⁻¹ Bᵀ of the chain *without* constraints is band-limited.  Fixman's
partition of it into soft coordinates a and hard coordinates b gives, from one factorization of
H^bb, the accelerations, the tensions and the determinant of the chain *with* constraints.
`rigid` has serial chains of rigid bodies: the same partition, beside the other O(n) algorithms.
`simulate` runs constrained chains in the ensemble asked for, with `potentials`; `observables`,
`rheology` and `bluemoon` measure them, and `analytic` has closed forms to test this and other codes
against.

Names load on first use: ``import fixman`` costs little more than NumPy's own import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixman import (
        analytic,
        bluemoon,
        flows,
        observables,
        potentials,
        rheology,
        rigid,
        structured,
    )
    from fixman.chain import Chain
    from fixman.coordinates import Coordinate
    from fixman.dynamics import Motion, forward_dynamics, inverse_dynamics, project
    from fixman.errors import (
        ConstraintSolveError,
        FrameError,
        RunDamageWarning,
        RunFolderError,
        RunStorageError,
        RunVersionWarning,
        SingularConstraintError,
        SingularCoordinateError,
    )
    from fixman.metric import Reweighting, fixman_force, fixman_potential, logdet, reweight
    from fixman.partition import Partition
    from fixman.sampling import Sample, sample
    from fixman.simulation import resume, simulate
    from fixman.steppers import Brownian, HybridMonteCarlo, Langevin, MonteCarlo, Newton
    from fixman.store import RunCheck, check_run, load_run
    from fixman.trajectory import Run
    from fixman.walks import random_walks
    from fixman.wilson import velocity_terms, wilson_b

__version__ = "0.1.0"

_HOMES = {
    "Brownian": "steppers",
    "Chain": "chain",
    "ConstraintSolveError": "errors",
    "FrameError": "errors",
    "Coordinate": "coordinates",
    "HybridMonteCarlo": "steppers",
    "Langevin": "steppers",
    "MonteCarlo": "steppers",
    "Motion": "dynamics",
    "Newton": "steppers",
    "Partition": "partition",
    "Reweighting": "metric",
    "Run": "trajectory",
    "RunCheck": "store",
    "RunDamageWarning": "errors",
    "RunFolderError": "errors",
    "RunStorageError": "errors",
    "RunVersionWarning": "errors",
    "Sample": "sampling",
    "SingularConstraintError": "errors",
    "SingularCoordinateError": "errors",
    "check_run": "store",
    "fixman_force": "metric",
    "fixman_potential": "metric",
    "forward_dynamics": "dynamics",
    "inverse_dynamics": "dynamics",
    "load_run": "store",
    "logdet": "metric",
    "project": "dynamics",
    "random_walks": "walks",
    "resume": "simulation",
    "reweight": "metric",
    "sample": "sampling",
    "simulate": "simulation",
    "velocity_terms": "wilson",
    "wilson_b": "wilson",
}

__all__ = [
    "Brownian",
    "Chain",
    "ConstraintSolveError",
    "Coordinate",
    "FrameError",
    "HybridMonteCarlo",
    "Langevin",
    "MonteCarlo",
    "Motion",
    "Newton",
    "Partition",
    "Reweighting",
    "Run",
    "RunCheck",
    "RunDamageWarning",
    "RunFolderError",
    "RunStorageError",
    "RunVersionWarning",
    "Sample",
    "SingularConstraintError",
    "SingularCoordinateError",
    "__version__",
    "analytic",
    "bluemoon",
    "check_run",
    "fixman_force",
    "fixman_potential",
    "flows",
    "forward_dynamics",
    "inverse_dynamics",
    "load_run",
    "logdet",
    "observables",
    "potentials",
    "project",
    "random_walks",
    "resume",
    "reweight",
    "rheology",
    "rigid",
    "sample",
    "simulate",
    "structured",
    "velocity_terms",
    "wilson_b",
]


def __getattr__(name: str) -> Any:
    if name in (
        "analytic",
        "bluemoon",
        "flows",
        "observables",
        "potentials",
        "rheology",
        "rigid",
        "structured",
    ):
        return import_module(f"fixman.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'fixman' has no attribute {name!r}")
    value = getattr(import_module(f"fixman.{_HOMES[name]}"), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
