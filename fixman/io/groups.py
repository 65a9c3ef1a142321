"""What a reader hands over: chains of equal length and masses, pooled, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False)
class ChainGroup:
    """Chains with the same number of beads and the same masses, over the same frames.

    masses (n,); atoms (chains, n), the input's atom indices in chain order;
    x (frames, chains, n, 3).
    """

    masses: npt.NDArray[np.float64]
    atoms: npt.NDArray[np.intp]
    x: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ChainData:
    """All groups of a selection, the frames they were read from, and what the reader has to say.

    frames (frames,) and times (frames,) number and date the first axis of every group's x.
    """

    groups: tuple[ChainGroup, ...]
    frames: npt.NDArray[np.intp]
    times: npt.NDArray[np.float64]
    notes: tuple[str, ...] = ()
