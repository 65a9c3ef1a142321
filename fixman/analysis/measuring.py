"""Measurements frame by frame, and the frames that cannot be measured.

One configuration that cannot be set onto its constraints, or where they depend on each other, does
not lose the others: its frame is left out, for all groups, while such frames are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from fixman.analysis.groups import counted
from fixman.errors import (
    ConstraintSolveError,
    FrameError,
    SingularConstraintError,
    SingularCoordinateError,
)

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Lost = dict[int, Exception]  # by number of the frame, what makes it unusable
Rows = tuple[list[int], dict[str, npt.NDArray[Any]]]  # numbers of frames, and what they gave

UNUSABLE = (ConstraintSolveError, SingularConstraintError, SingularCoordinateError)
MOST_UNUSABLE = 0.05  # fraction of frames; more mean that something is wrong with all
BLOCK = 1 << 17  # beads handled at a time, which bounds the memory beyond the coordinates


def by_frame(
    x: Floats,
    own: Sequence[int] | Indices,
    act: Callable[[Floats], dict[str, npt.NDArray[Any]]],
    lost: Lost,
) -> Rows:
    """Let `act` loose on x (frames, chains, n, 3), block by block; add to `lost` where it fails."""
    places: list[int] = []
    parts = []

    def add(these: list[int]) -> None:
        with numbered([int(own[k]) for k in these]):
            parts.append(act(x[these]))
        places.extend(these)

    for block in _blocks(x):
        these = [k for k in range(len(x))[block] if k not in lost]
        try:
            add(these)
        except UNUSABLE:
            for k in these:
                try:
                    add([k])
                except UNUSABLE as error:
                    lost[k] = error
                    if too_many(len(lost), len(x)):
                        raise lost[min(lost)] from None
    return places, {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}


def kept(rows: Rows, lost: Lost) -> dict[str, npt.NDArray[Any]]:
    """Return what the frames gave that have not been lost since."""
    places, values = rows
    there = np.array([k not in lost for k in places])
    return {name: array[there] for name, array in values.items()}


def too_many(lost: int, frames: int) -> bool:
    """Whether so many lost frames mean that something is wrong with all."""
    return lost > MOST_UNUSABLE * frames


def lost_note(lost: Lost, frames: int) -> str:
    """Say how many frames were left out, and why the first was."""
    return f"left out {len(lost)} of {counted(frames, 'frame')}; the first: {lost[min(lost)]}"


@contextmanager
def numbered(frames: Sequence[int] | Indices) -> Iterator[None]:
    """Give the frames of a block x (frames, chains, ...) their own numbers in errors."""
    try:
        yield
    except (FrameError, ConstraintSolveError) as error:
        if not isinstance(error.frame, tuple):
            raise
        number, chain = int(frames[error.frame[0]]), error.frame[1]
        where = f" in frame {number}, chain {chain}"
        raise error.moved((number, chain), where) from error


def _blocks(x: Floats) -> Iterator[slice]:
    size = max(1, BLOCK // (x.shape[1] * x.shape[2]))
    return (slice(k, k + size) for k in range(0, len(x), size))
