"""Molecules from any topology and trajectory that MDAnalysis reads.

The one file that imports MDAnalysis. Molecules are found from the bonds and made whole with array
operations; the only Python loop is over the frames that MDAnalysis yields one by one.
"""

from __future__ import annotations

import copy
import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fixman.io.groups import ChainData, ChainGroup, Molecules, find_molecules
from fixman.io.measuring import UNUSABLE, Lost, lost_note, numbered, too_many
from fixman.io.samples import Meter, Scatter, hard_names, meters, sum_outwards

try:
    import MDAnalysis
    from MDAnalysis.analysis.backends import BackendBase
    from MDAnalysis.analysis.base import AnalysisBase
    from MDAnalysis.analysis.results import Results, ResultsGroup
    from MDAnalysis.exceptions import NoDataError
    from MDAnalysis.guesser.default_guesser import DefaultGuesser
    from MDAnalysis.lib.distances import minimize_vectors
    from MDAnalysis.lib.mdamath import triclinic_vectors
except ImportError as error:
    raise ImportError(
        'reading topologies and trajectories needs MDAnalysis: pip install "fixman-chains[md]"'
    ) from error

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# A bond this close to half a box edge may as well be its own periodic image.
AMBIGUOUS_FRACTION = 0.4

SUMS = ("plain", "turning", "squares")
MEASURES = (
    "half_logdet", "square_gyration", "square_end_to_end", "mean_bond", "bends", "torsions",
)  # fmt: skip


class MetricAnalysis(AnalysisBase):  # type: ignore[misc]  # MDAnalysis has no types
    """½ ln det H^bb of every frame and molecule of a selection, in parallel if wanted.

    The molecules are the connected pieces of the selection, bonded through selected atoms only,
    each described as a free `Chain` in space. Frames are made whole through their bonds; lengths
    and masses keep MDAnalysis's units.

    Parameters
    ----------
    atomgroup : AtomGroup or Universe
    select : str
        Selection within it. The atoms are fixed here, and in the order of their indices.
    hard : tuple of kinds, "torsional" or "h-bonds"
        As in `Chain.from_bonds`. Rows that follow from others are left out, which is noted.
    values : "means", "as-is", or one array (n_hard,) per group
        What the hard coordinates are set to before anything is measured: their means over all
        frames and molecules of a group; nothing, for a trajectory that was rigid already; or given
        values, in the order of ``chain.hard``. A single group takes the bare array as well.
    bonds : "topology" or "guess"
        Where bonds come from; guessed ones from the distances in the current frame.
    histograms : bool
        Whether to count the soft bends and torsions of every configuration as well.
    verbose : bool
        Show MDAnalysis's progress bar.

    Attributes
    ----------
    meters : tuple of Meter
        One per group: equal masses, equal bonds. Each has ``.chain`` and ``.molecules``.
    notes : tuple of str
        What was skipped, left out or guessed; after `run` also frames that were left out, for all
        groups, because they cannot be set onto the constraints.
    values : tuple of arrays, or None
        What the hard coordinates were set to, after `run`; `means` tells whether to their means.
    scatter : tuple of `samples.Scatter`
        How much they vary from sample to sample, after `run`.
    frames, times : ndarray (frames,)
    results.half_logdet : list of ndarray (frames, molecules)
        In kT, one array a group.
    results.square_gyration, results.square_end_to_end : lists of ndarray (frames, molecules)
        Mass-weighted R_g²; R² of linear chains, None for others.
    results.mean_bond : list of ndarray (frames,)
        Before anything is set.
    results.bends, results.torsions : lists of ndarray (frames, molecules, bins), if asked for
        Counts between `samples.BEND_EDGES` and `samples.TORSION_EDGES`.

    Raises
    ------
    TypeError
        Something that is no Universe or AtomGroup, such as the name of a file.
    ValueError
        Nothing selected, no bonds, atoms without mass, no coordinates, a bond near half the box,
        a ring that winds around the box.
    SingularConstraintError, SingularCoordinateError, ConstraintSolveError
        In `run`, where more than 5 % of the frames cannot be set onto the constraints.

    Notes
    -----
    O(n) a frame and molecule, in two passes over the trajectory, of which the first keeps 8 bytes a
    frame and hard row. ``run(backend="multiprocessing", n_workers=2)`` and MDAnalysis's other
    backends split the frames, `DistributedBackend` takes them to a Dask scheduler; `results` are
    the same to the last bit. Backends that spawn need ``if __name__ == "__main__":`` in scripts.
    """

    _analysis_algorithm_is_parallelizable = True

    @classmethod
    def get_supported_backends(cls) -> tuple[str, ...]:
        """Return MDAnalysis's own backends; `DistributedBackend` is accepted as well."""
        return "serial", "multiprocessing", "dask"

    def __init__(
        self,
        atomgroup: Any,
        select: str = "all",
        *,
        hard: str | Sequence[str] = ("length",),
        values: Literal["means", "as-is"] | Sequence[npt.ArrayLike] = "means",
        bonds: Literal["topology", "guess"] = "topology",
        histograms: bool = False,
        **kwargs: Any,
    ) -> None:
        if not hasattr(atomgroup, "select_atoms"):
            raise TypeError(
                f"expected a Universe or an AtomGroup of MDAnalysis, got {atomgroup!r}: "
                "MDAnalysis.Universe(topology, trajectory) makes one from files"
            )
        self._universe = atomgroup.universe
        super().__init__(_trajectory(self._universe), **kwargs)
        self._histograms = histograms
        molecules, skipped = _molecules(atomgroup, select, bonds)
        self.hard = hard_names(hard)
        found, notes = meters(molecules, hard, self._name_atom)
        self.meters: tuple[Meter, ...] = tuple(found)
        self.notes: tuple[str, ...] = (*skipped, *notes)
        self._found = self.notes
        self._lost: Lost = {}
        self._total = 0
        self.values: tuple[Floats, ...] | None = None
        self.scatter: tuple[Scatter, ...] = ()
        self.means = isinstance(values, str) and values == "means"
        if isinstance(values, str):
            if values not in ("means", "as-is"):
                raise ValueError(f"values must be 'means', 'as-is' or arrays, got {values!r}")
        else:
            self.values = self._given(values)
        self._pass: tuple[str, ...] = MEASURES

    def _given(self, values: Sequence[npt.ArrayLike]) -> tuple[Floats, ...]:
        if len(values) and all(np.ndim(value) == 0 for value in values):
            values = [np.asarray(values)]
        arrays = tuple(np.asarray(array, dtype=np.float64) for array in values)
        expected = [(len(meter.chain.hard),) for meter in self.meters]
        if [array.shape for array in arrays] != expected:
            raise ValueError(
                f"values must be a list of one array per group, of shapes {expected}, got "
                f"{[array.shape for array in arrays]}"
            )
        return arrays

    def _name_atom(self, atom: int) -> str:
        """Name an atom in a few letters, such as ``CA 5``."""
        names = getattr(getattr(self._universe, "atoms", None), "names", None)
        return str(atom) if names is None else f"{names[atom]} {atom}"

    def run(
        self,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        frames: Iterable[Any] | None = None,
        verbose: bool | None = None,
        n_workers: int | None = None,
        n_parts: int | None = None,
        backend: str | BackendBase | None = None,
        *,
        unsupported_backend: bool = False,
        progressbar_kwargs: dict[str, Any] | None = None,
    ) -> MetricAnalysis:
        """Go through the trajectory twice: for means and scatter, and for the determinants.

        Parameters are those of MDAnalysis's ``AnalysisBase.run``.
        """
        if frames is None:
            _frames(self._trajectory, start, stop, step)
        else:
            frames = np.asarray(frames if isinstance(frames, np.ndarray) else list(frames))
            if not (np.any(frames) if frames.dtype == bool else frames.size):
                raise ValueError("frames selects no frame")

        shown = progressbar_kwargs or {}
        titles = ({"desc": "means"}, {"desc": "determinants"})
        if not (backend is None or backend == "serial"):
            titles = ({}, {})  # others have no progress bar
        arguments: dict[str, Any] = {
            "start": start, "stop": stop, "step": step, "frames": frames, "verbose": verbose,
            "n_workers": n_workers, "n_parts": n_parts, "backend": backend,
            "unsupported_backend": unsupported_backend or isinstance(backend, DistributedBackend),
        }  # fmt: skip
        self._lost, self._total = {}, 0
        with _naming(self._universe):
            while True:
                self._pass = SUMS
                super().run(progressbar_kwargs=titles[0] | shown, **arguments)
                self._find_means()
                if self._lost:  # they need no second look
                    arguments |= dict.fromkeys(("start", "stop", "step")) | {"frames": self.frames}
                before = len(self._lost)
                self._pass = MEASURES
                super().run(progressbar_kwargs=titles[1] | shown, **arguments)
                if len(self._lost) == before:
                    break
                # The means are those of the frames that stay.
                arguments |= dict.fromkeys(("start", "stop", "step")) | {"frames": self.frames}
        lost = (lost_note(self._lost, self._total),) if self._lost else ()
        self.notes = (*self._found, *lost)
        return self

    def _conclude(self) -> None:
        """Take what was lost out of the results; refuse where it is too much."""
        lost = self.results.pop("lost")
        self._total = self._total or len(self.frames) + len(lost)
        self._lost |= dict(lost)
        if too_many(len(self._lost), self._total):
            raise self._lost[min(self._lost)]

    def _find_means(self) -> None:
        found = []
        for number, meter in enumerate(self.meters):
            sums = {name: self.results[name][number] for name in SUMS}
            found.append(meter.means(sums, len(self.frames) * len(meter.molecules.atoms)))
        if self.means:
            self.values = tuple(values for values, _ in found)
        self.scatter = tuple(
            meter.scatter(*each, self._name_atom)
            for meter, each in zip(self.meters, found, strict=True)
        )

    def _compute(self, indexed_frames: Indices, *args: Any, **kwargs: Any) -> MetricAnalysis:
        # A worker that is given several parts has one object for all of them.
        part = copy.copy(self)
        part._most = max(self._total, self.n_frames)
        super(MetricAnalysis, part)._compute(indexed_frames, *args, **kwargs)
        if part.results["lost"]:
            there = np.array(part._there, dtype=bool)
            part.frames, part.times = part.frames[there], part.times[there]
            for name in part._pass:
                if name != "squares":
                    arrays = part.results[name]
                    arrays[:] = [None if a is None else a[: len(part.frames)] for a in arrays]
        return part

    def _prepare(self) -> None:
        self.results = Results({name: [None] * len(self.meters) for name in self._pass})
        self.results["lost"] = []
        self._there: list[bool] = []

    def _single_frame(self) -> None:
        try:
            measured = [self._measure(number) for number in range(len(self.meters))]
        except UNUSABLE as error:
            self._there.append(False)
            self.results["lost"].append((int(self._ts.frame), error))
            if too_many(len(self.results["lost"]), self._most):
                raise
            return
        place = self._frame_index - len(self.results["lost"])
        self._there.append(True)
        for number, found in enumerate(measured):
            for name, value in found.items():
                before = self.results[name][number]
                if name == "squares":  # no one asks for their last bit: one sum a worker will do
                    self.results[name][number] = value if before is None else before + value
                    continue
                if before is None:
                    shape = (self.n_frames, *value.shape[1:])
                    self.results[name][number] = np.empty(shape, dtype=value.dtype)
                self.results[name][number][place] = value[0]

    def _measure(self, number: int) -> dict[str, npt.NDArray[Any]]:
        """Return what the current frame contributes to a group."""
        meter = self.meters[number]
        x = _whole(self._ts, meter.molecules)[None]
        with numbered([self._ts.frame]):
            if self._pass == SUMS:
                return meter.sums(x)
            values = None if self.values is None else self.values[number]
            return meter.measure(x, values, histograms=self._histograms)

    def _get_aggregator(self) -> ResultsGroup:
        lookup: dict[str, Callable[..., Any]] = dict.fromkeys(self._pass, _concatenate)
        return ResultsGroup(lookup=lookup | {"lost": ResultsGroup.flatten_sequence})

    def __getstate__(self) -> dict[str, Any]:
        """Leave the universe behind: workers need its trajectory, not its topology."""
        return self.__dict__ | {"_universe": None}


class DistributedBackend(BackendBase):  # type: ignore[misc]
    """Runs an MDAnalysis analysis on the workers of a Dask scheduler, wherever these are.

    MDAnalysis's own backend "dask" only starts processes on this machine. Workers need the same
    packages, and the trajectory under the same absolute path.

    Parameters
    ----------
    client : distributed.Client
    n_workers : int, optional
        Into how many parts the frames are split; all the workers of the client by default.
    """

    def __init__(self, client: Any, n_workers: int | None = None) -> None:
        self.client = client
        workers = len(client.nthreads())
        if not workers:
            raise ValueError("the Dask scheduler has no workers: start one with `dask worker`")
        super().__init__(workers if n_workers is None else n_workers)

    def apply(self, func: Callable[..., Any], computations: list[Any]) -> list[Any]:
        """Return ``[func(part) for part in computations]``."""
        # Bytes, so that two tasks in one worker do not share a reader.
        sent = self.client.scatter(pickle.dumps(func), broadcast=True, hash=False)
        parts = [self.client.submit(_unpickled, sent, part, pure=False) for part in computations]
        answer: list[Any] = self.client.gather(parts)
        return answer


def _unpickled(function: bytes, part: Any) -> Any:
    try:
        work = pickle.loads(function)
    except OSError as error:
        raise OSError(
            f"a Dask worker cannot open the trajectory: {error}; every worker needs the files "
            "under the same absolute path"
        ) from error
    return work(part)


def _concatenate(parts: Sequence[Sequence[Any]]) -> list[Any]:
    """Join what workers return for each group."""
    groups = ([a for a in group if a is not None] for group in zip(*parts, strict=True))
    return [np.concatenate(group) if group else None for group in groups]


def read_chains(
    topology: str | Path,
    trajectory: str | Path | None = None,
    *,
    select: str,
    atom_style: str | None = None,
    bonds: Literal["topology", "guess"] = "topology",
    start: int | None = None,
    stop: int | None = None,
    step: int | None = None,
    progress: Callable[[Any], Iterable[Any]] = iter,
) -> ChainData:
    """Read the connected molecules of a selection, unwrapped through their bonds.

    Only bonds between selected atoms count. A linear chain starts at its end of lower atom index,
    unless its masses equal those of an earlier chain read backwards; with branches or rings, atoms
    keep the order of their indices. Molecules of equal masses and bonds are pooled. `atom_style`
    goes to MDAnalysis's LAMMPS reader; `bonds="guess"` guesses the bonds of the selection from
    distances in the first frame. Lengths and masses keep MDAnalysis's units. All coordinates of the
    selection are held at once, as float64: 24 bytes an atom and frame (`MetricAnalysis` holds one
    frame).

    Raises FileNotFoundError or ValueError: nothing selected, no bonds, atoms without mass, no
    coordinates, a bond near half the box, a ring that winds around the box.
    """
    universe, notes = open_universe(topology, trajectory, atom_style)
    groups, skipped = _molecules(universe, select, bonds)
    frames = _frames(_trajectory(universe), start, stop, step)
    xs = [np.empty((len(frames), *group.atoms.shape, 3)) for group in groups]
    numbers = np.empty(len(frames), dtype=np.intp)
    times = np.empty(len(frames))
    with _naming(universe):
        for k, now in enumerate(progress(frames)):
            numbers[k] = now.frame
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Reader has no dt")  # then frames are 1 apart
                times[k] = now.time
            for x, group in zip(xs, groups, strict=True):
                x[k] = _whole(now, group)
    read = (
        ChainGroup(group.masses, group.atoms, x, bonds=group.bonds, hydrogens=group.hydrogens)
        for group, x in zip(groups, xs, strict=True)
    )
    return ChainData(tuple(read), numbers, times, (*notes, *skipped))


def open_universe(
    topology: str | Path, trajectory: str | Path | None = None, atom_style: str | None = None
) -> tuple[Any, tuple[str, ...]]:
    """Open files as an MDAnalysis Universe that has masses, and say whether these were guessed.

    Paths are made absolute, so that workers that run elsewhere find them.
    """
    for path in (topology, trajectory):
        if not isinstance(path, str | PathLike | None):
            raise TypeError(
                f"expected the path of a file, got {path!r}: MetricAnalysis takes a Universe"
            )
    paths = [str(path) for path in (topology, trajectory) if path is not None]
    for path in paths:
        if not Path(path).exists():
            raise FileNotFoundError(f"no such file: {path}")
        if Path(path).is_dir():
            raise IsADirectoryError(f"a folder, not a file: {path}")
    options = {} if atom_style is None else {"atom_style": atom_style}
    try:
        absolute = [str(Path(path).absolute()) for path in paths]
        universe = MDAnalysis.Universe(*absolute, to_guess=(), **options)
    except Exception as error:  # its parsers raise whatever a broken line made them raise
        order = "; the order is topology first, then trajectory" if trajectory is not None else ""
        raise ValueError(
            f"MDAnalysis cannot read {' with '.join(paths)}: {_brief(error)}{order}"
        ) from error
    notes: tuple[str, ...] = ()
    if not hasattr(universe.atoms, "masses"):
        notes = ("masses are not in the topology: MDAnalysis guessed them from the atom types",)
    universe.guess_TopologyAttrs(to_guess=("types", "masses"))
    return universe, notes


def _brief(error: Exception) -> str:
    """First sentence of what MDAnalysis says, which may list every format it knows."""
    sentence = re.split(r"(?<=[.!]) ", " ".join(str(error).split()))[0].rstrip(".!")
    return f"{sentence[:200]} …" if len(sentence) > 200 else sentence or type(error).__name__


# --- names --------------------------------------------------------------------------------------


class _AtomsError(ValueError):
    """What is wrong with atoms of known indices: a text with their names left open.

    Workers do not have the topology; the process that has it puts the names in.
    """


@contextmanager
def _naming(universe: Any) -> Iterator[None]:
    try:
        yield
    except _AtomsError as error:
        text, *atoms = error.args
        names = (
            f"atom index {atom}" if universe is None else _name(universe.atoms[atom])
            for atom in atoms
        )  # fmt: skip
        raise ValueError(text.format(*names)) from None


def _name(atom: Any) -> str:
    """Name an atom as its owner knows it; `index` is MDAnalysis's, from 0."""
    known = [
        f"{key} {getattr(atom, key)}"
        for key in ("name", "type", "resname", "resid")
        if hasattr(atom, key)
    ]
    return f"atom index {atom.ix} ({', '.join(known)})"


# --- molecules ----------------------------------------------------------------------------------


def _molecules(atomgroup: Any, select: str, bonds: str) -> tuple[list[Molecules], tuple[str, ...]]:
    """Molecules of a selection, and what was left out."""
    try:
        selected = atomgroup.select_atoms(select)
    except Exception as error:  # its parser raises TypeErrors and more
        raise ValueError(f"selection {select!r}: {_brief(error)}") from error
    if len(selected) == 0:
        universe = atomgroup.universe
        of = f" of {Path(universe.filename).name}" if universe.filename else ""
        raise ValueError(
            f"selection {select!r} matches none of the {len(atomgroup.atoms)} atoms{of}"
        )
    pairs = _bonds(atomgroup.universe, selected, bonds)
    if not len(pairs):
        raise ValueError(
            f"no two of the {len(selected)} atoms of {select!r} are bonded to each other: select "
            'a connected backbone, or try bonds="guess" if the topology lacks its bonds'
        )
    bonded = np.zeros(len(selected), dtype=bool)
    bonded[pairs] = True
    notes: tuple[str, ...] = ()
    if not np.all(bonded):
        first = int(np.argmin(bonded))
        notes = (
            f"skipped {np.sum(~bonded)} selected atom(s) without a bond to another selected atom, "
            f"the first is {_name(selected[first])}",
        )
    found = find_molecules(pairs, _masses(selected, bonded), _hydrogens(selected))
    return [
        Molecules(one.masses, selected.indices[one.atoms], bonds=one.bonds, hydrogens=one.hydrogens)
        for one in found
    ], notes


def _bonds(universe: Any, selected: Any, bonds: str) -> Indices:
    """Bonds between selected atoms as pairs of positions in the selection, (bonds, 2)."""
    if bonds not in ("topology", "guess"):
        raise ValueError(f"bonds must be 'topology' or 'guess', got {bonds!r}")
    if bonds == "guess":
        try:
            guesser = DefaultGuesser(None, box=universe.dimensions)
            found = guesser.guess_bonds(selected, selected.positions)
        except (NoDataError, ValueError) as error:
            raise ValueError(f"the bonds cannot be guessed: {_brief(error)}") from error
    elif not hasattr(universe, "bonds"):
        raise ValueError(
            'the topology has no bonds: guess them from distances with bonds="guess", '
            "or give a topology that has them"
        )
    else:
        found = selected.intra_bonds.indices
    pairs = np.asarray(found, dtype=np.intp).reshape(-1, 2)
    position = np.full(len(universe.atoms), -1, dtype=np.intp)
    position[selected.indices] = np.arange(len(selected))
    return np.unique(np.sort(position[pairs], axis=1), axis=0)


def _masses(selected: Any, bonded: npt.NDArray[np.bool_]) -> Floats:
    if not hasattr(selected, "masses"):
        raise ValueError(
            "the universe has no masses: guess them from the elements with "
            'universe.guess_TopologyAttrs(to_guess=["types", "masses"])'
        )
    masses = np.array(selected.masses, dtype=np.float64)
    bad = ~(np.isfinite(masses) & (masses > 0.0)) & bonded
    if np.any(bad):
        atom = selected[int(np.argmax(bad))]
        raise ValueError(
            f"{_name(atom)} has mass {atom.mass}: every bead of a chain needs a positive mass; "
            "leave massless sites out of the selection, or give a topology with masses"
        )
    return masses


def _hydrogens(selected: Any) -> npt.NDArray[np.bool_] | None:
    """Hydrogens by element where every atom has one: their masses may have been repartitioned."""
    elements = np.asarray(getattr(selected, "elements", []), dtype=str)
    if not elements.size or np.any(elements == ""):
        return None
    return np.isin(np.char.upper(elements), ("H", "D", "T"))


# --- frames -------------------------------------------------------------------------------------


def _trajectory(universe: Any) -> Any:
    try:
        return universe.trajectory
    except AttributeError as error:
        name = Path(universe.filename).name if universe.filename else "the universe"
        raise ValueError(f"{name} holds no coordinates: give a trajectory as well") from error


def _frames(trajectory: Any, start: int | None, stop: int | None, step: int | None) -> Any:
    if step == 0:
        raise ValueError("step must not be 0")
    frames = trajectory[slice(start, stop, step)]
    if len(frames) == 0:
        limits = {"start": start, "stop": stop, "step": step}
        given = ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit is not None)
        raise ValueError(
            f"none of the {len(trajectory)} frames, counted from 0, is left by {given}"
        )
    return frames


def _whole(now: Any, molecules: Molecules) -> Floats:
    """Positions (molecules, n, 3) in the current frame, every bond its shortest periodic image."""
    atoms = molecules.atoms
    x: Floats = now.positions[atoms].astype(np.float64)
    finite = np.all(np.isfinite(x), axis=2)
    if not np.all(finite):
        broken = int(atoms[~finite][0])
        raise _AtomsError(f"{{}} has no finite position in frame {now.frame}", broken)
    parents, closures = molecules.tree
    outer = np.flatnonzero(parents >= 0)
    joined = np.concatenate([np.stack([parents[outer], outer], axis=1), closures])
    bonds = x[:, joined[:, 1]] - x[:, joined[:, 0]]
    coincident = ~np.any(bonds, axis=2)
    if now.dimensions is not None and np.any(now.dimensions[:3]):
        bonds = _shortest(bonds, now, joined, atoms)
        steps = x.copy()
        steps[:, outer] = bonds[:, : len(outer)]
        x = np.cumsum(steps, axis=1) if molecules.bonds is None else sum_outwards(parents, steps)
        _refuse_winding(x, bonds[:, len(outer) :], closures, atoms, now.frame)
        coincident = ~np.any(x[:, joined[:, 1]] - x[:, joined[:, 0]], axis=2)
    if np.any(coincident):
        text = f"{{}} and {{}} are bonded and coincide in frame {now.frame}"
        raise _AtomsError(text, *_first_bond(atoms, joined, coincident))
    return x


def _shortest(bonds: Floats, now: Any, joined: Indices, atoms: Indices) -> Floats:
    """Shortest periodic images of bonds (molecules, m, 3)."""
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
    ambiguous = np.any(np.abs(fraction) > AMBIGUOUS_FRACTION, axis=2)
    if np.any(ambiguous):
        raise _AtomsError(
            f"the bond between {{}} and {{}} is close to half the box long in frame {now.frame}, "
            "so that its periodic image cannot be told: check box and units, or write whole "
            "molecules without a box",
            *_first_bond(atoms, joined, ambiguous),
        )
    return shortest


def _refuse_winding(
    x: Floats, bonds: Floats, closures: Indices, atoms: Indices, frame: int
) -> None:
    """Refuse rings that close only through the box: their bonds miss by a box vector."""
    missed = x[:, closures[:, 1]] - x[:, closures[:, 0]] - bonds
    winding = np.linalg.norm(missed, axis=2) > 0.5 * np.linalg.norm(bonds, axis=2)
    if np.any(winding):
        raise _AtomsError(
            f"the ring of bonds that {{}} and {{}} close winds around the box in frame {frame}: "
            "such a molecule has no end, and is no chain",
            *_first_bond(atoms, closures, winding),
        )


def _first_bond(atoms: Indices, joined: Indices, flags: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """Atoms of the first flagged bond; flags (molecules, m)."""
    molecule, bond = np.argwhere(flags)[0]
    one, two = atoms[molecule, joined[bond]]
    return int(one), int(two)
