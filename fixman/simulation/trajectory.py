"""`Run`: the frames of a simulation, in memory or in the blocks of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain

__all__ = ["Run"]

Arrays = dict[str, NDArray[Any]]

OBSERVABLE = "observable_"  # before the names that users give
TALLY = "tally"
REFUSING = ("hybrid", "montecarlo")  # steppers that tally the moves that they try


@dataclass(frozen=True, eq=False)
class Part:
    """Some frames in succession, and how to get one array of them by its name."""

    frames: int
    load: Callable[[str], NDArray[Any]]


class Run:
    """A trajectory: frames at every ``every`` steps, the start included.

    Arrays are read when they are asked for, and kept.  ``run[1000:2000:10]`` is a run of those
    frames, and `blocks` yields pieces one by one, for what is larger than memory.

    Attributes
    ----------
    chain : Chain
    about : dict
        What run.json holds: chain, stepper, potential, seed, versions.
    path : Path or None
        The folder; None in memory.
    steps_done : int
        Of ``about["steps"]``.
    numbers : range
        Which frames of the whole run these are.
    """

    def __init__(
        self,
        about: dict[str, Any],
        chain: Chain,
        steps_done: int,
        parts: list[Part],
        path: Path | None = None,
        frames: range | None = None,
        numbers: range | None = None,
    ) -> None:
        self.about, self.chain, self.path = about, chain, path
        self.steps_done = steps_done
        self._parts = parts
        self._frames = range(sum(part.frames for part in parts)) if frames is None else frames
        self.numbers = self._frames if numbers is None else numbers

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return bool(self.steps_done == self.about["steps"])

    @property
    def replicas(self) -> int:
        """Independent copies of the chain."""
        return int(self.about["replicas"])

    @property
    def sizes(self) -> list[int]:
        """Frames of each part in which the whole run is stored."""
        return [part.frames for part in self._parts]

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step of every frame (frames,)."""
        return np.array(self.numbers, dtype=np.int64) * int(self.about["every"])

    @property
    def times(self) -> Array:
        """Time of every frame (frames,), steps times dt; for a stepper without dt the steps."""
        dt = float(self.about["stepper"].get("dt", 1.0))
        return np.asarray(self.steps * dt, dtype=np.float64)

    @cached_property
    def x(self) -> Array:
        """Positions (frames, replicas, n, d)."""
        return self.array("x")

    @cached_property
    def v(self) -> Array:
        """Velocities (frames, replicas, n, d)."""
        return self.array("v")

    @cached_property
    def acceptance(self) -> Array:
        """Share of moves that were accepted until the last of these frames (replicas,).

        1 for steppers that refuse none, and where none was tried.
        """
        if self.about["stepper"]["name"] not in REFUSING or not len(self):
            return np.ones(self.replicas)
        tried, accepted, _ = self[-1:].array(TALLY)[0].T
        return np.asarray(np.where(tried > 0.0, accepted / np.maximum(tried, 1.0), 1.0))

    @cached_property
    def observables(self) -> dict[str, NDArray[Any]]:
        """What was recorded by name, each (frames, replicas, ...)."""
        names = self.about["observables"]
        return {name: self.array(OBSERVABLE + name) for name in names}

    def blocks(self) -> Iterator[Run]:
        """Yield runs of a few frames each, in order: memory for one block is enough."""
        for place, _, _ in self._pieces():
            yield self[place]

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, frames: slice) -> Run:
        if not isinstance(frames, slice):
            raise TypeError(f"a run is cut by slices, run[-10:]; got {frames!r}: use run.x[...]")
        chosen, numbers = self._frames[frames], self.numbers[frames]
        return Run(self.about, self.chain, self.steps_done, self._parts, self.path, chosen, numbers)

    def __repr__(self) -> str:
        """``<Run: 101 frames of 64 chains of 50 beads, 10000 of 10000 steps, in run>``."""
        chains = f"{self.replicas} chain{'s' * (self.replicas != 1)} of {self.chain.n} beads"
        done = f"{self.steps_done} of {self.about['steps']} steps"
        where = "" if self.path is None else f", in {self.path}"
        return f"<Run: {len(self)} frame{'s' * (len(self) != 1)} of {chains}, {done}{where}>"

    def _pieces(self) -> Iterator[tuple[slice, Part, NDArray[np.int64]]]:
        """Frames by the part that holds them: places among ours, the part, places in it."""
        if not self._frames:
            return
        chosen = np.array(self._frames, dtype=np.int64)
        ends = np.cumsum([part.frames for part in self._parts])
        owner = np.searchsorted(ends, chosen, side="right")
        cuts = [0, *(np.flatnonzero(np.diff(owner)) + 1).tolist(), chosen.size]
        for start, stop in pairwise(cuts):
            part = self._parts[owner[start]]
            first = ends[owner[start]] - part.frames
            yield slice(start, stop), part, chosen[start:stop] - first

    def array(self, name: str) -> NDArray[Any]:
        """Read one array of all frames by the name that it has in the blocks."""
        out: NDArray[Any] | None = None
        for place, part, rows in self._pieces():
            held = part.load(name)
            if out is None:
                if len(rows) == len(self) == part.frames and self._frames.step == 1:
                    return held
                out = np.empty((len(self), *held.shape[1:]), held.dtype)
            out[place] = held[rows]
        if out is not None:
            return out
        if self._parts:  # no frame is chosen, but what one looks like is known
            return self._parts[0].load(name)[:0]
        return np.empty((0, self.replicas, self.chain.n, self.chain.dim))


def require_run(run: Run) -> None:
    """Refuse anything but a `Run`, a path first of all."""
    if not isinstance(run, Run):
        raise TypeError(
            f"run must be a fixman.Run, from simulate or load_run, got {type(run).__name__}"
        )


def chosen_replica(run: Run, replica: Any) -> int:
    """Return the number of a replica, counted from 0."""
    number = arrays.whole(replica, "replica")
    if not -run.replicas <= number < run.replicas:
        raise ValueError(f"the run has replicas 0 to {run.replicas - 1}, got {number}")
    return number % run.replicas


def pdb_potential(about: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what run.json says of the molecule of a PDB file, or None for any other run."""
    potential = about["stepper"].get("potential")
    return potential if isinstance(potential, dict) and "pdb" in potential else None


def joined(about: dict[str, Any], runs: list[Run], path: Path | None = None) -> Run:
    """Return the run whose replicas are those of all ``runs``, and its frames those of each."""
    first = max(run.numbers.start for run in runs)
    end = max(first, min(run.numbers.stop for run in runs))
    edges = {run.numbers.start + int(k) for run in runs for k in np.cumsum([0, *run.sizes])}
    cuts = sorted({first, *(edge for edge in edges if first < edge < end), end})
    parts = [Part(b - a, partial(_side_by_side, runs, a, b)) for a, b in pairwise(cuts)]
    done = min(run.steps_done for run in runs)
    return Run(about, runs[0].chain, done, parts, path, numbers=range(first, end))


def _side_by_side(runs: list[Run], start: int, stop: int, name: str) -> NDArray[Any]:
    numbers = [(run, run.numbers.start) for run in runs]
    pieces = [run[start - first : stop - first].array(name) for run, first in numbers]
    return np.concatenate(pieces, axis=1)


class Memory:
    """Frames of a run that no folder was given for, or from frame ``frames`` on to ``most``."""

    path = None

    def __init__(
        self, about: dict[str, Any], chain: Chain, state: Arrays, frames: int = 0, most: int = 0
    ) -> None:
        self.about, self.chain, self.state = about, chain, state
        self.step = int(state["step"])
        self.first = self.frames = frames
        self.pending, self._most = 0, most
        self._rows: Arrays = {}

    def record(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Keep one frame."""
        if not self._rows:
            total = self.about["steps"] // self.about["every"] + 1 - self.frames
            self._rows = rows_like(values, min(total, self._most or total))
        fill(self._rows, self.frames - self.first, values)
        self.frames += 1
        self.pending += 1

    def commit(self, step: int, state: Arrays) -> None:
        """Note how far the run is."""
        self.step, self.state, self.pending = step, state, 0

    @property
    def rows(self) -> Arrays:
        """What was recorded until now."""
        return {name: array[: self.frames - self.first] for name, array in self._rows.items()}

    def run(self) -> Run:
        """Return what was recorded until now."""
        parts = [Part(self.frames, self.rows.__getitem__)] if self.frames else []
        return Run(self.about, self.chain, self.step, parts)


def rows_like(values: Mapping[str, NDArray[Any]], size: int) -> Arrays:
    return {name: np.empty((size, *value.shape), value.dtype) for name, value in values.items()}


def fill(rows: Arrays, row: int, values: Mapping[str, NDArray[Any]]) -> None:
    for name, value in values.items():
        if value.shape != rows[name].shape[1:]:
            raise ValueError(
                f"{name.removeprefix(OBSERVABLE)} changes its shape from "
                f"{rows[name].shape[1:]} to {value.shape} in the course of the run"
            )
        rows[name][row] = value
