"""Frames of a trajectory: which ones, of the same atoms throughout, with whole molecules."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from MDAnalysis.lib.distances import minimize_vectors
from MDAnalysis.lib.mdamath import triclinic_vectors

from fixman._common import arrays
from fixman.analysis.groups import Floats, Indices, Molecules
from fixman.analysis.samples import evenly, thinned
from fixman.chains import topology
from fixman.io.mdanalysis.universe import DATA, DUMP, format_of, reading

# A bond this close to half a box edge may as well be its own periodic image.
AMBIGUOUS_FRACTION = 0.4
AMBIGUOUS = "are bonded at close to half the box: check box and units, or leave out the box"
WINDING = "close a ring that winds around the box: such a molecule has no end, and is no chain"


def dump_ids(universe: Any) -> npt.NDArray[np.int64] | None:
    """Ids that the atoms of every frame of a LAMMPS dump must have; None for other trajectories.

    Those of a LAMMPS topology, or else of the frame at hand.
    """
    ids = universe.trajectory.ts.data.get("id")
    if ids is None:
        return None
    name = Path(universe.filename or "")
    if format_of(name, universe.kwargs.get("topology_format")) in (DATA, DUMP):
        ids = universe.atoms.ids
    return np.array(ids, dtype=np.int64)


def trajectory_of(universe: Any) -> Any:
    """Return the trajectory of a universe, or say that it has none."""
    if not hasattr(universe, "trajectory"):
        name = universe.filename or "the universe"
        raise ValueError(f"{name} holds no coordinates: give a trajectory as well")
    return universe.trajectory


class Frames:
    """Frames of a trajectory, whose file is named in whatever its reader raises."""

    def __init__(self, frames: Any, trajectory: Any) -> None:
        self._frames = frames
        self._file = _file_of(trajectory)
        self._atoms = trajectory.n_atoms

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[Any]:
        frames = iter(self._frames)
        while True:
            with reading(self._file):
                now = next(frames, None)
            if now is None:
                return
            atoms = now.n_atoms if now.has_positions else 0
            if atoms != self._atoms:
                found = f"{self._file} has positions of {atoms} atoms in frame {now.frame}"
                raise ValueError(f"{found}, expected {self._atoms}")
            yield now


def _file_of(trajectory: Any) -> Any:
    return getattr(trajectory, "filename", None) or "the trajectory"


def _count(trajectory: Any) -> int:
    with reading(_file_of(trajectory)):
        return len(trajectory)


def numbers_of(trajectory: Any, frames: Any) -> Indices:
    """Numbers of some frames, by a slice, numbers or a mask; some must be left."""
    total = _count(trajectory)
    numbers = np.arange(total)
    said = f"{frames!r:.80}, which must be numbers of some or a mask of all"
    if isinstance(frames, slice):
        ends = {name: getattr(frames, name) for name in ("start", "stop", "step")}
        whole = [end if end is None else arrays.whole(end, name) for name, end in ends.items()]
        frames = slice(*whole)
        said = f"start={frames.start}, stop={frames.stop}, step={frames.step}"
    try:
        numbers = numbers[frames if isinstance(frames, slice) else [*frames]]
    except (TypeError, ValueError, IndexError):
        numbers = numbers[:0]
    if numbers.ndim != 1 or not numbers.size:
        raise ValueError(f"none of the {total} frames, counted from 0, is left by {said}")
    return numbers


def whole(now: Any, molecules: Molecules, ids: npt.NDArray[np.int64] | None = None) -> Floats:
    """Positions (molecules, n, 3) in the current frame, every bond its shortest periodic image.

    ids are those that the atoms of a dump must have.
    """
    if ids is not None and not np.array_equal(now.data["id"], ids):
        raise ValueError(f"the ids of the atoms of frame {now.frame} are not those of the topology")
    atoms = molecules.atoms
    with np.errstate(invalid="ignore"):  # some NaNs of damaged files signal
        x: Floats = now.positions[atoms].astype(np.float64)
    lost = ~np.isfinite(x).all(axis=2)
    if lost.any():
        raise ValueError(f"atom index {atoms[lost][0]} has no finite position in frame {now.frame}")
    parents, closures = molecules.tree
    outer = np.flatnonzero(parents >= 0)
    joined = topology.bonds(parents, closures)
    bonds = x[:, joined[:, 1]] - x[:, joined[:, 0]]
    if now.dimensions is not None and np.any(now.dimensions[:3]):
        bonds, ambiguous = _shortest(bonds, now)
        _refuse(ambiguous, atoms, joined, now, AMBIGUOUS)
        steps = x.copy()
        steps[:, outer] = bonds[:, : len(outer)]
        x = topology.sum_outwards(parents, steps)
        # Rings that close only through the box miss by a box vector.
        closing = bonds[:, len(outer) :]
        missed = x[:, closures[:, 1]] - x[:, closures[:, 0]] - closing
        winding = np.linalg.norm(missed, axis=2) > 0.5 * np.linalg.norm(closing, axis=2)
        _refuse(winding, atoms, closures, now, WINDING)
    coincident = ~np.any(x[:, joined[:, 1]] - x[:, joined[:, 0]], axis=2)
    _refuse(coincident, atoms, joined, now, "are bonded and coincide")
    return x


def positions_in_some(
    trajectory: Any, molecules: Sequence[Molecules], ids: npt.NDArray[np.int64] | None
) -> list[Floats]:
    """Positions (..., n, 3) of each kind in a few of those frames that can be read."""
    here = trajectory.ts.frame
    some: list[list[Floats]] = [[] for _ in molecules]
    for number in evenly(_count(trajectory)):
        with contextlib.suppress(ValueError), reading(_file_of(trajectory)):
            now = trajectory[number]
            for x, one in zip(some, molecules, strict=True):
                x.append(thinned(whole(now, one, ids)).copy())
    with reading(_file_of(trajectory)):
        trajectory[here]
    shapes = [(-1, one.masses.size, 3) for one in molecules]
    return [np.array(x).reshape(shape) for x, shape in zip(some, shapes, strict=True)]


def _shortest(bonds: Floats, now: Any) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Shortest periodic images of bonds (molecules, m, 3), and whether they may be another's."""
    box = now.dimensions
    rectangular = bool(np.all(box[3:] == 90.0))
    with np.errstate(invalid="ignore"):
        cell = np.empty(0) if rectangular else triclinic_vectors(box).astype(np.float64)
    if not np.isfinite(box).all() or not (rectangular or np.any(cell)):
        raise ValueError(f"frame {now.frame} has an impossible box {list(map(float, box))}")
    shortest: Floats = minimize_vectors(bonds.reshape(-1, 3), box).reshape(bonds.shape)
    if rectangular:  # an edge of zero length is a direction without periodicity
        fraction = shortest / np.where(box[:3] > 0.0, box[:3], np.inf)
    else:
        fraction = shortest @ np.linalg.inv(cell)
    return shortest, np.any(np.abs(fraction) > AMBIGUOUS_FRACTION, axis=2)


def _refuse(
    flags: npt.NDArray[np.bool_], atoms: Indices, joined: Indices, now: Any, what: str
) -> None:
    """Name the first flagged bond; flags (molecules, m)."""
    if np.any(flags):
        molecule, bond = np.argwhere(flags)[0]
        one, two = atoms[molecule, joined[bond]]
        raise ValueError(f"atom indices {one} and {two} in frame {now.frame} {what}")
