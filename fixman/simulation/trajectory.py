"""`Run`, the frames of a simulation in memory or in a file, and `Sink`, through which they come."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
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

    Arrays of a stored run are read when they are used: ``run.x[1000:1100]`` reads those frames,
    and what needs the whole array reads it once and keeps it.  ``run[1000:2000:10]`` is a run of
    those frames, and `blocks` yields pieces one by one, for what is larger than memory.

    Attributes
    ----------
    chain : Chain
    about : dict
        Chain, stepper, potential, seed, versions.
    path : Path or None
        The file; None in memory.
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
        stored: bool = True,
    ) -> None:
        self.about, self.chain, self.path = about, chain, path
        self.steps_done, self._stored = steps_done, stored
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
        return self._used("x")

    @cached_property
    def v(self) -> Array:
        """Velocities (frames, replicas, n, d)."""
        return self._used("v")

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
        """Recorded observables by name, each (frames, replicas, ...)."""
        names = self.about["observables"]
        return {name: self._used(OBSERVABLE + name) for name in names}

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
        given = self.about, self.chain, self.steps_done, self._parts, self.path
        return Run(*given, chosen, numbers, self._stored)

    def __repr__(self) -> str:
        """``<Run: 101 frames of 64 chains of 50 beads, 10000 of 10000 steps, in run>``."""
        beads = f"{self.chain.n} bead{'s' * (self.chain.n != 1)}"
        chains = f"{self.replicas} chain{'s' * (self.replicas != 1)} of {beads}"
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

    def _used(self, name: str) -> NDArray[Any]:
        return cast("NDArray[Any]", Frames(self, name)) if self._stored else self.array(name)

    def array(self, name: str) -> NDArray[Any]:
        """Read one array of all frames by the name that it has in the blocks."""
        out: NDArray[Any] | None = None
        for place, part, rows in self._pieces():
            held = part.load(name)
            if out is None:
                if len(rows) == len(self) == part.frames and self._frames.step == 1:
                    return held if held.flags.writeable else held.copy()
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
    """Return what a run says of the molecule of its PDB file, or None for any other run."""
    potential = about["stepper"].get("potential")
    return potential if isinstance(potential, dict) and "pdb" in potential else None


class Frames(NDArrayOperatorsMixin):
    """An array of a stored run, which is read when it is used, in place of the array.

    Slices and numbers of frames read those frames only; all else reads the array and keeps it.
    """

    def __init__(self, run: Run, name: str) -> None:
        self._run, self._name = run, name
        self._near = range(0), np.empty(0)

    @cached_property
    def _whole(self) -> NDArray[Any]:
        return self._run.array(self._name)

    @cached_property
    def _empty(self) -> NDArray[Any]:
        """No frame, of the shape and type that they have."""
        return self._run[:1].array(self._name)[:0]

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self._run), *self._empty.shape[1:])

    def __len__(self) -> int:
        return len(self._run)

    def __getitem__(self, key: Any) -> Any:
        first, *rest = key if isinstance(key, tuple) and key else (key,)
        if "_whole" not in vars(self):
            if isinstance(first, slice):
                return self._run[first].array(self._name)[(slice(None), *rest)]
            if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
                if not -len(self) <= first < len(self):
                    raise IndexError(f"there is no frame {first}: the run has {len(self)}")
                return self._block(range(len(self))[operator.index(first)], rest)
        return self._whole[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise self._refusal()

    def __contains__(self, value: Any) -> bool:
        return value in self._whole

    def _refusal(self) -> TypeError:
        name = self._name.removeprefix(OBSERVABLE)
        return TypeError(f"{name} of a stored run cannot be changed: np.array({name}) is a copy")

    def _block(self, number: int, rest: list[Any]) -> Any:
        """Read one frame, and keep the block around it for those who take one after the other."""
        if number not in self._near[0]:
            near = next(s for s, _, _ in self._run._pieces() if s.start <= number < s.stop)
            self._near = range(near.start, near.stop), self._run[near].array(self._name)
        return self._near[1][(number - self._near[0].start, *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._whole, dtype) if copy else np.asarray(self._whole, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        if any(isinstance(one, Frames) for one in options.get("out", ())):
            raise self._refusal()
        arrays = [one._whole if isinstance(one, Frames) else one for one in given]
        return getattr(ufunc, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._empty if name in ("dtype", "ndim") else self._whole, name)

    def __repr__(self) -> str:
        """Name and shape: the numbers may be many."""
        return f"<{self._name.removeprefix(OBSERVABLE)} of {self._run!r}, {self.shape}>"


# --- where frames come in -----------------------------------------------------------------------

Flush = Callable[[int, Arrays, int, Arrays], None]


class Sink:
    """Frames of a group of replicas as they come, until ``flush`` takes those of a block.

    Attributes: frames, recorded until now, ``pending`` of them since the last commit; step and
    state of that; rows, the arrays of the frames that are held.
    """

    def __init__(
        self,
        about: dict[str, Any],
        chain: Chain,
        state: Arrays,
        frames: int = 0,
        most: int | None = None,
        flush: Flush | None = None,
    ) -> None:
        self.about, self.chain, self.state = about, chain, state
        self.step, self.replicas = int(state["step"]), len(state["x"])
        self.frames = self._first = frames
        self.pending, self._most, self._flush = 0, most, flush
        self._rows: Arrays = {}

    def record(self, values: Mapping[str, NDArray[Any]]) -> None:
        """Keep one frame."""
        if not self._rows:
            left = self.about["steps"] // self.about["every"] + 1 - self.frames
            size = max(1, min(left, self._most or left))
            self._rows = {
                name: np.empty((size, *value.shape), value.dtype) for name, value in values.items()
            }
        for name, value in values.items():
            if value.shape != self._rows[name].shape[1:]:
                raise ValueError(
                    f"{name.removeprefix(OBSERVABLE)} changes its shape from "
                    f"{self._rows[name].shape[1:]} to {value.shape} in the course of the run"
                )
            self._rows[name][self.frames - self._first] = value
        self.frames += 1
        self.pending += 1

    def commit(self, step: int, state: Arrays) -> None:
        """Note how far the run is, and hand the frames on."""
        kept = {name: np.array(array) for name, array in state.items()}  # steppers may reuse theirs
        if self._flush is not None:
            self._flush(self._first, self.rows, step, kept)
            self._rows, self._first = {}, self.frames
        self.step, self.state, self.pending = step, kept, 0

    @property
    def rows(self) -> Arrays:
        """Arrays of the frames that are held."""
        return {name: array[: self.frames - self._first] for name, array in self._rows.items()}


def divided(state: Arrays, groups: Sequence[int]) -> list[Arrays]:
    """Divide the arrays of a state into those of groups of replicas."""
    edges = [0, *np.cumsum(groups).tolist()]
    return [
        {name: array[a:b] if array.ndim else array for name, array in state.items()}
        for a, b in pairwise(edges)
    ]


def side_by_side(groups: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Join frames (frames, replicas, ...) of groups of replicas."""
    return groups[0] if len(groups) == 1 else np.concatenate(groups, axis=1)


def _of_sinks(sinks: Sequence[Sink], frames: int, name: str) -> NDArray[Any]:
    return side_by_side([sink.rows[name][:frames] for sink in sinks])


class Memory:
    """A run that no file was given for."""

    path = None

    def __init__(self, about: dict[str, Any], chain: Chain, state: Arrays) -> None:
        self.about, self.chain = about, chain
        self.sinks = [Sink(about, chain, one) for one in divided(state, about["groups"])]

    def run(self) -> Run:
        """Return what was recorded until now."""
        frames = min(sink.frames for sink in self.sinks)

        parts = [Part(frames, partial(_of_sinks, self.sinks, frames))] if frames else []
        done = min(sink.step for sink in self.sinks)
        return Run(self.about, self.chain, done, parts, stored=False)

    def finish(self) -> None:
        """Nothing is on its way."""

    def close(self) -> None:
        """Nothing is held open."""
