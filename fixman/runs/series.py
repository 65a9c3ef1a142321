"""`Series`: recorded frames, in memory or in a file."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]

OBSERVABLE = "observable_"  # before the names that users give


class Part(NamedTuple):
    """Some frames in succession, and how to get one array of them by its name."""

    frames: int
    load: Callable[[str], NDArray[Any]]


class Series:
    """Frames at every ``every`` steps: of chains a `Run`, of rigid bodies a `Trajectory`."""

    def __init__(
        self,
        about: dict[str, Any],
        steps_done: int,
        parts: list[Part],
        path: Path | None = None,
        numbers: range | None = None,
    ) -> None:
        self.about, self.path, self.steps_done, self._parts = about, path, steps_done, parts
        self._frames = range(sum(part.frames for part in parts))
        self.numbers = self._frames if numbers is None else numbers
        self.held: Arrays = {}

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return bool(self.steps_done == self.about["steps"])

    @property
    def replicas(self) -> int:
        """Independent copies of what moves."""
        return int(self.about["replicas"])

    @property
    def steps(self) -> NDArray[np.int64]:
        """Step of every frame (frames,)."""
        return np.array(self.numbers, dtype=np.int64) * int(self.about["every"])

    def blocks(self) -> Iterator[Self]:
        """Yield pieces of a few frames each, in order: memory for one block is enough."""
        for place, _, _ in self._pieces():
            yield self[place]

    def __len__(self) -> int:
        return len(self._frames)

    def __getitem__(self, frames: slice) -> Self:
        if not isinstance(frames, slice):
            raise TypeError(f"a run is cut by slices, run[-10:]; got {frames!r}: use run.x[...]")
        part = copy.copy(self)
        part._frames, part.numbers = self._frames[frames], self.numbers[frames]
        part.held = {}
        return part

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

    def used(self, name: str) -> NDArray[Any]:
        """Return one array of all frames, and keep it."""
        if name not in self.held:
            self.held[name] = self.array(name)
        return self.held[name]

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
        # No frame is chosen, but a recorded one has its shape.
        return self._parts[0].load(name)[:0] if self._parts else np.empty(0)
