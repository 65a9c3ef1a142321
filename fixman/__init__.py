"""Chains with constraints in O(n): dynamics, tensions and the mass-metric determinant.

One factorization of the hard block of H = B M⁻¹ Bᵀ, the inverse mass matrix of the chain *without*
constraints, gives accelerations, tensions and the determinant of the chain *with* them; `rigid` has
the same for serial chains of rigid bodies, beside the other O(n) algorithms.

Names load on first use: ``import fixman`` costs little more than NumPy's own import.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixman import potentials as potentials
    from fixman import rigid as rigid
    from fixman.analysis import bluemoon as bluemoon
    from fixman.analysis import plot as plot
    from fixman.analysis import rheology as rheology
    from fixman.chains.chain import Chain as Chain
    from fixman.chains.coordinates import Coordinate as Coordinate
    from fixman.chains.system import System as System
    from fixman.errors import ConstraintSolveError as ConstraintSolveError
    from fixman.errors import FrameError as FrameError
    from fixman.errors import RunDamageWarning as RunDamageWarning
    from fixman.errors import RunFolderError as RunFolderError
    from fixman.errors import RunStorageError as RunStorageError
    from fixman.errors import RunVersionWarning as RunVersionWarning
    from fixman.errors import ShortSeriesWarning as ShortSeriesWarning
    from fixman.errors import SingularConstraintError as SingularConstraintError
    from fixman.errors import SingularCoordinateError as SingularCoordinateError
    from fixman.mechanics import structured as structured
    from fixman.mechanics.dynamics import Motion as Motion
    from fixman.mechanics.dynamics import forward_dynamics as forward_dynamics
    from fixman.mechanics.dynamics import inverse_dynamics as inverse_dynamics
    from fixman.mechanics.dynamics import project as project
    from fixman.mechanics.metric import Reweighting as Reweighting
    from fixman.mechanics.metric import fixman_force as fixman_force
    from fixman.mechanics.metric import fixman_potential as fixman_potential
    from fixman.mechanics.metric import logdet as logdet
    from fixman.mechanics.metric import reweight as reweight
    from fixman.mechanics.partition import Partition as Partition
    from fixman.mechanics.wilson import velocity_terms as velocity_terms
    from fixman.mechanics.wilson import wilson_b as wilson_b
    from fixman.potentials import flows as flows
    from fixman.runs.runfile import RunCheck as RunCheck
    from fixman.runs.runfile import check_run as check_run
    from fixman.sampling import analytic as analytic
    from fixman.sampling.random_walks import random_walks as random_walks
    from fixman.sampling.samples import Sample as Sample
    from fixman.sampling.samples import sample as sample
    from fixman.simulation import observables as observables
    from fixman.simulation.push_off import push_off as push_off
    from fixman.simulation.simulate import load_run as load_run
    from fixman.simulation.simulate import resume as resume
    from fixman.simulation.simulate import simulate as simulate
    from fixman.simulation.steppers import Brownian as Brownian
    from fixman.simulation.steppers import HybridMonteCarlo as HybridMonteCarlo
    from fixman.simulation.steppers import Langevin as Langevin
    from fixman.simulation.steppers import MonteCarlo as MonteCarlo
    from fixman.simulation.steppers import Newton as Newton
    from fixman.simulation.trajectory import Run as Run

__version__ = "1.0.0rc1"

# Homes of public names; a home without names is public itself.  Type checkers read the imports.
_NAMES = {
    "analysis.bluemoon": "",
    "analysis.plot": "",
    "analysis.rheology": "",
    "chains.chain": "Chain",
    "chains.coordinates": "Coordinate",
    "chains.system": "System",
    "errors": "ConstraintSolveError FrameError RunDamageWarning RunFolderError RunStorageError "
    "RunVersionWarning ShortSeriesWarning SingularConstraintError SingularCoordinateError",
    "mechanics.dynamics": "Motion forward_dynamics inverse_dynamics project",
    "mechanics.metric": "Reweighting fixman_force fixman_potential logdet reweight",
    "mechanics.partition": "Partition",
    "mechanics.structured": "",
    "mechanics.wilson": "velocity_terms wilson_b",
    "potentials": "",
    "potentials.flows": "",
    "rigid": "",
    "runs.runfile": "RunCheck check_run",
    "sampling.analytic": "",
    "sampling.random_walks": "random_walks",
    "sampling.samples": "Sample sample",
    "simulation.observables": "",
    "simulation.push_off": "push_off",
    "simulation.simulate": "load_run resume simulate",
    "simulation.steppers": "Brownian HybridMonteCarlo Langevin MonteCarlo Newton",
    "simulation.trajectory": "Run",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
_HOMES |= {home.rpartition(".")[2]: home for home, names in _NAMES.items() if not names}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fixman' has no attribute {name!r}")
    home = import_module(f"fixman.{_HOMES[name]}")
    value = getattr(home, name) if _NAMES[_HOMES[name]] else home
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
