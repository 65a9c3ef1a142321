"""`Series`, recorded frames in memory or in a file, and arrays that are read when they are used."""

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]
Make = Callable[..., Any]  # what makes a `Series` of about, steps done, parts and path


OBSERVABLE = "observable_"  # before the names that users give


class Part(NamedTuple):
    """Some frames in succession, and how to get one array of them by its name."""

    frames: int
    load: Callable[[str], NDArray[Any]]


class Series:
    """Frames at every ``every`` steps: a `Run` of chains, or a `Trajectory` of rigid bodies.

    Arrays of a file are read when they are used.
    """

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
            what = type(frames).__name__
            raise TypeError(f"a run is cut by slices, run[-10:]; got {what}: use run.x[...]")
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
        """Return one array of all frames, of a stored run in the place of one, and keep it."""
        if name not in self.held:
            lazy = cast("NDArray[Any]", Frames(self, name))
            self.held[name] = self.array(name) if self.path is None else lazy
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
        if self._parts:  # no frame is chosen, but what one looks like is known
            return self._parts[0].load(name)[:0]
        return np.empty((0, *self._shape))

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape of a frame, where none is recorded that has one."""
        return (0,)


class Frames(NDArrayOperatorsMixin):
    """An array of a stored run, which is read when it is used, in place of the array.

    Slices and numbers of frames read those frames only; any other use reads the array and keeps it.
    """

    def __init__(self, run: Series, name: str) -> None:
        self._run, self._name = run, name

    @cached_property
    def _whole(self) -> NDArray[Any]:
        return self._run.array(self._name)

    @cached_property
    def _empty(self) -> NDArray[Any]:
        """No frame, of the shape and type that they have."""
        return self._run[:1].array(self._name)[:0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return (len(self._run), *self._empty.shape[1:])

    def __len__(self) -> int:
        return len(self._run)

    def __iter__(self) -> Iterator[Any]:
        for block in self._run.blocks():
            yield from block.array(self._name)

    def __getitem__(self, key: Any) -> Any:
        first, *rest = key if isinstance(key, tuple) and key else (key,)
        if "_whole" not in vars(self):
            if isinstance(first, slice):
                return self._run[first].array(self._name)[(slice(None), *rest)]
            if isinstance(first, (int, np.integer)) and not isinstance(first, bool):
                number = range(len(self))[int(first)]
                return self._run[number : number + 1].array(self._name)[(0, *rest)]
        return self._whole[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._whole, dtype) if copy else np.asarray(self._whole, dtype)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *given: Any, **options: Any) -> Any:
        if any(isinstance(one, Frames) for one in options.get("out", ())):
            return NotImplemented  # a file is not changed
        arrays = [one._whole if isinstance(one, Frames) else one for one in given]
        return getattr(ufunc, method)(*arrays, **options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._empty if name in ("dtype", "ndim") else self._whole, name)

    def __repr__(self) -> str:
        """Name and shape: the numbers may be many."""
        return f"<{self._name.removeprefix(OBSERVABLE)} of {self._run!r}, {self.shape}>"
