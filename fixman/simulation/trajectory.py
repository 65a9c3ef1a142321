"""`Run`, the frames of a simulation of chains."""

import json
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.system import System
from fixman.runs.series import OBSERVABLE, Series

__all__ = ["Run"]

TALLY = "tally"
REFUSING = ("hybrid", "montecarlo")  # steppers that tally the moves that they try


class Run(Series):
    """A trajectory: frames at every ``every`` steps, the start included.

    Arrays of a stored run are read when they are used: ``run.x[1000:1100]`` reads those frames, and
    any use of the whole array keeps the array in memory.  ``run[1000:2000:10]`` is a run of those
    frames, and `blocks` yields pieces one by one.

    Attributes
    ----------
    about : dict
        Chain, stepper, potential, seed, versions.
    path : Path or None
        The file; None in memory.
    steps_done : int
        Steps done, of ``about["steps"]``.
    numbers : range
        Which frames of the whole run these are.
    """

    def __init__(self, model: Chain | System, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.model = model

    @property
    def chain(self) -> Chain:
        """The chain; TypeError if the run is one of a system."""
        if isinstance(self.model, System):
            raise TypeError("a run of a system has no one chain: system.split(run.x) gives chains")
        return self.model

    @property
    def system(self) -> System:
        """The system; of one chain where the run is one of a chain."""
        return self.model if isinstance(self.model, System) else System(self.model)

    @property
    def times(self) -> Array:
        """Time of every frame (frames,), steps times dt; for a stepper without dt the steps."""
        dt = float(self.about["stepper"].get("dt", 1.0))
        return np.asarray(self.steps * dt, dtype=np.float64)

    @property
    def x(self) -> Array:
        """Positions (frames, replicas, n, d)."""
        return self.used("x")

    @property
    def v(self) -> Array:
        """Velocities (frames, replicas, n, d)."""
        return self.used("v")

    @property
    def acceptance(self) -> Array:
        """Share of moves that were accepted until the last of these frames (replicas,).

        It is 1 if the stepper refuses no move, or none was tried.
        """
        if self.about["stepper"]["name"] not in REFUSING or not len(self):
            return np.ones(self.replicas)
        tried, accepted, _ = self[-1:].array(TALLY)[0].T
        return np.asarray(np.where(tried > 0.0, accepted / np.maximum(tried, 1.0), 1.0))

    @property
    def observables(self) -> dict[str, NDArray[Any]]:
        """Recorded observables by name, each (frames, replicas, ...)."""
        return {name: self.used(OBSERVABLE + name) for name in self.about["observables"]}

    def universe(self, *, replica: int | None = None) -> Any:
        """MDAnalysis Universe in memory, as `fixman.io.mdanalysis.trajectories.universe_of`."""
        io = import_module("fixman.io.mdanalysis.trajectories")  # by its name: a room above this
        return io.universe_of(self, replica=replica)

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.replicas, self.model.n, self.model.dim

    def __repr__(self) -> str:
        """``<Run: 101 frames of 64 chains of 50 beads, 10000 of 10000 steps, in run>``."""
        one = "system" if isinstance(self.model, System) else "chain"
        beads = f"{self.model.n} bead{'s' * (self.model.n != 1)}"
        chains = f"{self.replicas} {one}{'s' * (self.replicas != 1)} of {beads}"
        done = f"{self.steps_done} of {self.about['steps']} steps"
        where = "" if self.path is None else f", in {self.path}"
        return f"<Run: {len(self)} frame{'s' * (len(self) != 1)} of {chains}, {done}{where}>"


def model_of(about: Mapping[str, Any]) -> Chain | System:
    """Return the chain or system that a run is said to be of."""
    if "system" in about:
        return System.from_json(json.dumps(about["system"]))
    return Chain.from_json(json.dumps(about["chain"]))


def require_run(run: Run) -> None:
    if not isinstance(run, Run):
        raise TypeError(f"run must be a fixman.Run (simulate, load_run), got {type(run).__name__}")


def chosen_replica(run: Run, replica: Any) -> int:
    number = arrays.whole(replica, "replica")
    if not -run.replicas <= number < run.replicas:
        raise ValueError(f"the run has replicas 0 to {run.replicas - 1}, got {number}")
    return number % run.replicas


def only_replica(run: Run, replica: Any, files: str) -> int:
    """Return the replica that is chosen for ``files`` that hold one; it may go unsaid of one."""
    if replica is None and run.replicas > 1:
        said = f"the run has {run.replicas} replicas, and {files} one"
        raise ValueError(f"{said}: choose it, replica=0; .gsd and .h5 hold all")
    return chosen_replica(run, replica or 0)


def pdb_potential(about: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a run says of the molecule of its PDB file, or None for any other run."""
    potential = about["stepper"].get("potential")
    return potential if isinstance(potential, dict) and "pdb" in potential else None
