"""`Trajectory`, the recorded motion of rigid bodies, and how a run of them begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from importlib import import_module
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.rigid import closed, kinematics, model
from fixman.rigid._linkage import Closure, End, Linkage
from fixman.rigid.model import Given, SerialChain
from fixman.runs import runfile
from fixman.runs.about import begun
from fixman.runs.loop import Recorder
from fixman.runs.series import Series

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
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
        return array

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the joints that `simulate` was given, or none."""
        return tuple(self.about.get("names", ()))

    @property
    def energy(self) -> Array:
        """Kinetic energy plus the energy of gravity and springs alone, (frames, ...)."""
        if "energy" not in self.held:
            x, v = np.asarray(self.q), np.asarray(self.qd)
            self.held["energy"] = _energy(self.system, x, v, self.about["gravity"])
        return self._read_only("energy")

    @property
    def gap(self) -> Array:
        """How far the closures of a linkage are from closing, (frames, ..., held)."""
        return closed.gap(self.system, self.q)  # type: ignore[arg-type]  # refused by it

    def to_csv(self, path: str | PathLike[str], **options: Any) -> None:
        """Write time, coordinates and rates; options are those of `fixman.io.bodies.write_csv`."""
        known = {"time": self.time, "names": self.names or None}
        self._io.write_csv(self.system, path, self.q, self.qd, **known | options)

    def to_pdb(self, path: str | PathLike[str], **options: Any) -> None:
        """Write joints for molecular viewers; options are those of `fixman.io.bodies.write_pdb`."""
        self._io.write_pdb(self.system, path, self.q, **{"tip": self.about.get("tip")} | options)

    @property
    def _io(self) -> Any:
        return import_module("fixman.io.bodies")  # by its name: a room above this one

    def __repr__(self) -> str:
        steps, many = "", self.replicas
        if len(self):
            steps = f", steps {self.step[0]} to {self.step[-1]}"
            steps += f", times {self.time[0]:g} to {self.time[-1]:g}"
        of = f"{self.system.nq} coordinates" + (f" of {many} replicas" if many != 1 else "")
        where = "" if self.path is None else f", in {self.path}"
        return f"<Trajectory: {len(self)} frames{steps}, dt={self.dt}, {of}{where}>"


def _energy(system: System, q: Array, qd: Array, gravity: Any) -> Array:
    energy = np.zeros(q.shape[:-1])
    for arm, x, v in zip(system._arms, system.split(q, "nq"), system.split(qd, "nv"), strict=True):
        potential = kinematics.potential_energy(arm, x, gravity=gravity)
        energy += kinematics.kinetic_energy(arm, x, v) + potential
    return energy


def described(system: System) -> dict[str, Any]:
    """Return the entries that `maker` takes, numbers in arrays."""
    if isinstance(system, Linkage):
        chains = [described(arm) for arm in system.chains]
        return {"chains": chains, "closures": [asdict(closure) for closure in system.closures]}
    return {field.name: getattr(system, field.name) for field in fields(system)}


def _system(entries: dict[str, Any]) -> System:
    if "chains" not in entries:
        return SerialChain(**entries)
    chains = tuple(SerialChain(**arm) for arm in entries["chains"])
    ends = [(End(**one["a"]), End(**one["b"]), one["kind"]) for one in entries["closures"]]
    return Linkage(chains, tuple(Closure(*one) for one in ends))


def labels(system: System, names: Sequence[str], tip: ArrayLike | None) -> dict[str, Any]:
    """Return the entries that name joints and a point of the last body, if they are given."""
    words: list[Any] = list(names) if isinstance(names, (list, tuple)) else [names]
    if words and (len(words) != system.n or not all(isinstance(word, str) for word in words)):
        raise ValueError(f"names must be those of {system.n} joints, got {names!r:.80}")
    found: dict[str, Any] = {"names": words} if words else {}
    return found if tip is None else found | {"tip": model.vector(tip, "tip")}


def begin(
    given: Given,
    about: dict[str, Any],
    forces: dict[str, Any],
    work: int,
    out: Any,
    overwrite: bool,
) -> Recorder:
    """Begin a run in memory or in a file, in blocks of so many bodies times steps."""
    path, system, q = runfile.free(out, overwrite), given.arm, given.q
    size = 8 * max(1, len(q)) * (system.nq + system.nv)
    if path is None:
        frames = about["steps"] // about["every"] + 1
        arrays.require_memory(size * frames, "the frames of this run")
    elif not len(q):
        raise ValueError(f"there is no replica to store: q has shape {(*given.lead, system.nq)}")
    else:
        about["system"] = described(system)
    stride = max(1, work // (system.n * max(1, len(q))))
    block = {"frames": max(1, min(BLOCK_BYTES // size, stride // about["every"])), "steps": stride}
    kept = {name: np.array(force, float) for name, force in forces.items() if force is not None}
    about |= {"replicas": len(q), "arrays": ["q", "qd"], "block": block, "forces": list(kept)}
    state = {"q": given.batch(q), "qd": given.batch(given.qd)} | kept
    state["step"] = np.array(0, dtype=np.int64)
    make = partial(Trajectory, system)
    return runfile.begin(path, overwrite, begun("rigid", **about), state, make)


def maker(about: Mapping[str, Any]) -> Callable[..., Trajectory]:
    return partial(Trajectory, _system(about["system"]))
