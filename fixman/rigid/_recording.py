"""`Trajectory`, the recorded motion of rigid bodies, and how the loop of all runs moves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman._common import arrays
from fixman._common.arrays import Array, Lead
from fixman.rigid import _closures, closed, kinematics
from fixman.rigid._linkage import Closure, End, Linkage
from fixman.rigid.model import SerialChain
from fixman.runs import runfile
from fixman.runs.about import begun
from fixman.runs.loop import Recorder
from fixman.runs.series import Arrays, Series

System = SerialChain | Linkage

BLOCK_BYTES = 1 << 23


class Trajectory(Series):
    """Recorded frames of `simulate`, the start first, of a ``system``.

    ``about`` has scheme, dt, gravity and versions, ``path`` is the file or None, and ``steps_done``
    counts towards ``about["steps"]``.  Arrays of a file are read when they are asked for.  Slices
    are trajectories, and `blocks` yields pieces one by one.
    """

    def __init__(self, system: System, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.system = system

    @property
    def dt(self) -> float:
        """Time step."""
        return float(self.about["stepper"]["dt"])

    @property
    def step(self) -> NDArray[np.int64]:
        """Steps done until each frame, (frames,)."""
        return self.steps + int(self.about["first"])

    @property
    def time(self) -> Array:
        """Instants (frames,)."""
        return np.asarray(self.dt * self.step)

    @property
    def q(self) -> Array:
        """Coordinates (frames, ..., nq)."""
        return self._read_only("q")

    @property
    def qd(self) -> Array:
        """Rates (frames, ..., nv)."""
        return self._read_only("qd")

    def _read_only(self, name: str) -> Array:
        array = self.used(name)
        array.flags.writeable = False
        return array

    @property
    def energy(self) -> Array:
        """Kinetic energy and that of gravity and springs, (frames, ...); not of other forces."""
        if "energy" not in self.held:
            self.held["energy"] = _energy(self.system, self.q, self.qd, self.about["gravity"])
            self.held["energy"].flags.writeable = False
        return self.held["energy"]

    @property
    def gap(self) -> Array:
        """How far the closures of a linkage are from closing, (frames, ..., held)."""
        if isinstance(self.system, SerialChain):
            raise TypeError("a SerialChain has no closures: gaps are those of a Linkage")
        return closed.gap(self.system, self.q)

    def __repr__(self) -> str:
        """``<Trajectory: 101 frames, steps 0 to 1000, dt=0.001>``."""
        steps = f", steps {self.step[0]} to {self.step[-1]}" if len(self) else ""
        where = "" if self.path is None else f", in {self.path}"
        return f"<Trajectory: {len(self)} frames{steps}, dt={self.dt}{where}>"


def _energy(system: System, q: Array, qd: Array, gravity: Any) -> Array:
    if isinstance(system, SerialChain):
        potential = kinematics.potential_energy(system, q, gravity=gravity)
        return np.asarray(kinematics.kinetic_energy(system, q, qd) + potential)
    parts = _closures.chains(system, q, qd)
    return np.asarray(sum(_energy(arm, x, v, gravity) for _, arm, x, v in parts))


def described(system: System) -> dict[str, Any]:
    """Return what `maker` makes the system from again, numbers in arrays."""
    if isinstance(system, Linkage):
        chains = [described(arm) for arm in system.chains]
        return {"chains": chains, "closures": [asdict(closure) for closure in system.closures]}
    names = [field.name for field in fields(system)]
    return dict(zip(names, system.__reduce__()[1], strict=True))


def _system(entries: dict[str, Any]) -> System:
    if "chains" not in entries:
        return SerialChain(**entries)
    chains = tuple(SerialChain(**arm) for arm in entries["chains"])
    ends = [(End(**one["a"]), End(**one["b"]), one["kind"]) for one in entries["closures"]]
    return Linkage(chains, tuple(Closure(*one) for one in ends))


def begin(
    system: System,
    about: dict[str, Any],
    states: tuple[Array, Array, Lead],
    forces: dict[str, Any],
    work: int,
    out: Any,
    overwrite: bool,
) -> Recorder:
    """Begin a run in memory or in a file, whose blocks are of so many bodies times steps."""
    path, (q, qd, lead), replicas = runfile.free(out, overwrite), states, max(1, len(states[0]))
    size = 8 * replicas * (system.nq + system.nv)
    if path is None:
        frames = about["steps"] // about["every"] + 1
        arrays.require_memory(size * frames, "the frames of this run")
    elif not len(q):
        raise ValueError(f"there is no replica to store: q has shape {(*lead, system.nq)}")
    else:
        about["system"] = described(system)
    stride = max(1, work // (system.n * replicas))
    block = {"frames": max(1, min(BLOCK_BYTES // size, stride // about["every"])), "steps": stride}
    kept = {name: np.array(force, float) for name, force in forces.items() if force is not None}
    about |= {"replicas": len(q), "arrays": ["q", "qd"], "block": block, "forces": list(kept)}
    state = {"q": q.reshape(*lead, q.shape[1]), "qd": qd.reshape(*lead, qd.shape[1])}
    state |= kept | {"step": np.array(0, dtype=np.int64)}
    make = partial(Trajectory, system)
    return runfile.begin(path, overwrite, begun("rigid", **about), state, make)


def maker(about: Mapping[str, Any]) -> Callable[..., Trajectory]:
    """Return what makes a `Trajectory` of a run that says such things of itself."""
    return partial(Trajectory, _system(about["system"]))


class Moving:
    """A `fixman.runs.loop.Mover` of rigid bodies from a state, in which forces are kept too.

    ``motion`` makes steps in `blocks`, and says in ``done`` how many of these have an answer.
    """

    def __init__(
        self, motion: Any, tau: Any, about: dict[str, Any], lead: Lead, state: Arrays
    ) -> None:
        self._motion, self._tau, self._about = motion, tau, about
        self._lead, self._state, self.step = lead, state, int(state["step"])
        self._error: Exception | None = None

    def advance(self, steps: int) -> Arrays:
        """Go on; where a step fails, to the last frame before it, and fail the next time."""
        if self._error is not None:
            raise self._error
        motion, every = self._motion, min(steps, self._about["every"])
        motion.first = self._about["first"] + self.step
        start = [part.copy() for part in motion.states]
        frames = steps // every
        q, qd = (np.empty((frames + 1, *part.shape)) for part in start)
        while True:
            try:
                for _ in motion.blocks(self._tau, frames * every, every, (q, qd)):
                    pass
                break
            except Exception as error:
                self._error, frames = error, motion.done // every
                compiled = motion.moving is None  # replicas one by one: some are further
                for part, kept, before in zip(motion.states, (q, qd), start, strict=True):
                    part[:] = before if compiled or not frames else kept[frames]
                if not frames:
                    raise
                if not compiled:
                    break
        self.step += frames * every
        return self._named([q[1:frames], qd[1:frames]])

    def frame(self) -> Arrays:
        """Return coordinates and rates."""
        return self._named([part[None] for part in self._motion.states])

    def arrays(self) -> Arrays:
        """Return what a checkpoint holds."""
        state = {name: array[0] for name, array in self.frame().items()}
        return self._state | state | {"step": np.array(self.step, dtype=np.int64)}

    def _named(self, parts: list[Array]) -> Arrays:
        shaped = (part.reshape(len(part), *self._lead, part.shape[-1]) for part in parts)
        return dict(zip(("q", "qd"), shaped, strict=True))
