"""Molecules from any topology and trajectory that MDAnalysis reads.

Files are opened in `universe`, molecules found in `molecules` and made whole in `frames`, with
array operations; the only Python loop is over the frames that MDAnalysis yields one by one.
"""

import contextlib
import copy
import pickle
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

try:
    from MDAnalysis.analysis.backends import BackendBase
    from MDAnalysis.analysis.base import AnalysisBase
    from MDAnalysis.analysis.results import Results, ResultsGroup
except ImportError as error:
    raise ImportError('this needs MDAnalysis: pip install "fixman-chains[md]"') from error

from fixman._common import arrays as _arrays
from fixman.analysis import samples
from fixman.analysis.groups import ChainData, ChainGroup, Floats, Indices, counted
from fixman.errors import (
    ConstraintSolveError,
    SingularConstraintError,
    SingularCoordinateError,
    meant,
)
from fixman.io.mdanalysis import frames as reading
from fixman.io.mdanalysis import molecules
from fixman.io.mdanalysis.universe import Masses, open_universe

__all__ = ["DistributedBackend", "MetricAnalysis", "open_universe", "read_chains"]
__dir__ = __all__.copy  # completion shows public names alone

UNUSABLE = ConstraintSolveError, SingularConstraintError, SingularCoordinateError
MOST_UNUSABLE = 0.05  # fraction of frames; more mean that something is wrong with all

SUMS = ("plain", "turning", "squares")
MEASURES = (
    "half_logdet", "square_gyration", "square_end_to_end", "fingerprint", "angles", "torsions",
)  # fmt: skip


class MetricAnalysis(AnalysisBase):  # type: ignore[misc]  # MDAnalysis has no types
    """½ ln det H^bb of every frame and molecule of a selection, in parallel if wanted.

    The molecules are the connected pieces of the selection, bonded through selected atoms only,
    each a free `Chain` in space, made whole through its bonds. Units stay MDAnalysis's. O(n) a
    frame and molecule, in two passes over the trajectory; the first keeps 8 bytes a frame and hard
    row. ``run(backend="multiprocessing", n_workers=2)`` and MDAnalysis's other backends split the
    frames, `DistributedBackend` takes them to a Dask scheduler; `results` have the same bits.

    ValueError if nothing is selected, there are no bonds or coordinates, an atom has no mass, a
    bond is near half the box, or a ring winds around it; in `run`, if a frame cannot be read or has
    other atoms. What keeps a frame off the constraints is raised if it keeps off more than 5 %.

    Parameters
    ----------
    atomgroup : AtomGroup or Universe
    select : str
        Selection within ``atomgroup``, made once; its atoms are in the order of their indices.
    hard : word or words, as in `Chain.from_bonds`
        Rows that depend on others are left out. Bends that are straight except for thermal motion,
        in 25 frames evenly spread, are held straight. Notes say both.
    values : "means", "as-is", or one array (n_hard,) per group
        Values that the hard coordinates get before anything is measured. "means": over all frames
        and molecules of a group; "as-is": no change, for a trajectory that was rigid already, which
        ``as_is=True`` is in `fixman.analysis.audit.audit`; or given ones, in the order of
        ``chain.hard``. A single group takes one array as well.
    bonds : "topology", "guess", or types of bonds
        Those of the topology, those guessed from the distances in the current frame, or those of
        some types of the topology, ``"1,2"``, or of atoms, ``"C-H"``.
    hydrogens : str, optional
        Selection of the hydrogens; by default found by elements or else masses.
    histograms : bool
        Whether to count the soft bends and torsions of every configuration as well.

    Attributes
    ----------
    meters : tuple of samples.Meter
        One per group: equal masses, equal bonds. Each has ``.chain`` and ``.molecules``; bead k of
        molecule m is the atom of index ``.molecules.atoms[m, k]``.
    notes : tuple of str
        What was skipped or guessed; after `run` also frames that were left out, for all groups,
        because they cannot be set onto the constraints.
    values : tuple of arrays, or None
        Values that the hard coordinates got, after `run`; `means` says whether these are means.
    scatter : tuple of samples.Scatter
        How much they vary from sample to sample, after `run`.
    frames, times : ndarray (frames,)
    results : lists, an element a group
        half_logdet, square_gyration, square_end_to_end (frames, molecules): in kT; mass-weighted
        R_g²; R² of linear chains, None for others. If asked for, angles and torsions
        (frames, molecules, bins): counts between `samples.ANGLE_EDGES` and `samples.TORSION_EDGES`.
    """

    _analysis_algorithm_is_parallelizable = True
    _sliced_trajectory: Any

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
        bonds: str = "topology",
        hydrogens: str | None = None,
        histograms: bool = False,
        verbose: bool = False,
        **unknown: Any,
    ) -> None:
        for word in unknown:
            near = meant(word, MetricAnalysis.__init__.__kwdefaults__ or ())
            hint = ': values="as-is"' if word == "as_is" else near
            raise TypeError(f"MetricAnalysis has no argument {word!r}{hint}")
        if not hasattr(atomgroup, "select_atoms"):
            raise TypeError(f"expected a Universe or an AtomGroup of MDAnalysis, got {atomgroup!r}")
        self._universe = atomgroup.universe
        super().__init__(reading.trajectory_of(self._universe), verbose)
        self._ids = reading.dump_ids(self._universe)
        self._histograms = histograms
        kinds, skipped = molecules.find(atomgroup, select, bonds, hydrogens)
        self.hard = samples.hard_names(hard)
        bends = {"angle", "torsional", "h-angles"}.intersection(self.hard)
        looks = reading.positions_in_some(self._trajectory, kinds if bends else (), self._ids)
        found, notes = samples.meters(kinds, hard, self._name_atom, looks)
        self.meters: tuple[samples.Meter, ...] = tuple(found)
        self.notes: tuple[str, ...] = (*skipped, *notes)
        self._found = self.notes
        self._lost: dict[int, Exception] = {}  # by number of the frame
        self._total = 0
        self.values: tuple[Floats, ...] | None = None
        self.scatter: tuple[samples.Scatter, ...] = ()
        self.means = isinstance(values, str) and values == "means"
        if isinstance(values, str):
            _arrays.require_one_of(values, "values", ("means", "as-is"))
        else:
            self.values = self._given(values)
        self._pass: tuple[str, ...] = MEASURES

    def _given(self, values: Sequence[npt.ArrayLike]) -> tuple[Floats, ...]:
        listed = _arrays.list_of(values, "values", "arrays, one per group")
        listed = listed if any(map(np.iterable, listed)) else [listed]
        given = tuple(_arrays.series(array, (), "values") for array in listed)
        expected = [(len(meter.chain.hard),) for meter in self.meters]
        if (shapes := [array.shape for array in given]) != expected:
            said = f"values must be a list of one array per group, of shapes {expected}"
            raise ValueError(f"{said}, got {shapes}")
        return given

    def _name_atom(self, atom: int) -> str:
        names = getattr(self._universe.atoms, "names", None)
        return str(atom) if names is None else f"{names[atom]} {atom}"

    def run(
        self,
        start: int | None = None,
        stop: int | None = None,
        step: int | None = None,
        frames: Iterable[Any] | None = None,
        **more: Any,
    ) -> Self:
        """Go through the trajectory twice: for means and scatter, and for the determinants.

        ``more`` is what MDAnalysis's ``AnalysisBase.run`` takes, ``backend`` and ``n_workers``.
        """
        chosen = slice(start, stop, step) if frames is None else frames
        # By number: read one after another, a damaged frame of some formats is the end, no error.
        more["frames"] = reading.numbers_of(self._trajectory, chosen)
        shown, backend = more.pop("progressbar_kwargs", None) or {}, more.get("backend")
        if isinstance(backend, DistributedBackend):
            more["unsupported_backend"] = True
        self._lost, self._total = {}, 0
        before = -1
        while len(self._lost) > before:  # the means are those of the frames that stay
            for measures, title in ((SUMS, "means"), (MEASURES, "determinants")):
                self._pass, before = measures, len(self._lost)
                bar = {"desc": title} if backend in (None, "serial") else {}
                super().run(progressbar_kwargs=bar | shown, **more)
                more["frames"] = self.frames  # those that were lost need no second look
                if measures is SUMS:
                    self._find_means()
        self.notes = self._found
        if self._lost:
            left = f"left out {len(self._lost)} of {counted(self._total, 'frame')}; the first: "
            self.notes += (f"{left}{self._lost[min(self._lost)]}",)
        return self

    def _conclude(self) -> None:
        """Take what was lost out of the results; refuse where it is too much."""
        lost = self.results.pop("lost")
        self._total = self._total or len(self.frames) + len(lost)
        self._lost |= dict(lost)
        if len(self._lost) > MOST_UNUSABLE * self._total:
            raise self._lost[min(self._lost)]

    def _find_means(self) -> None:
        values, scatter = [], []
        for number, meter in enumerate(self.meters):
            sums = {name: self.results[name][number] for name in SUMS}
            means, away = meter.means(sums, len(self.frames) * len(meter.molecules.atoms))
            values.append(means)
            scatter.append(meter.scatter(means, away, self._name_atom))
        self.values = tuple(values) if self.means else self.values
        self.scatter = tuple(scatter)

    def _compute(self, indexed_frames: Indices, *args: Any, **kwargs: Any) -> Self:
        # A worker that is given several parts has one object for all of them.
        part = copy.copy(self)
        part._most = max(self._total, self.n_frames)
        super(MetricAnalysis, part)._compute(indexed_frames, *args, **kwargs)
        there = ~np.isin(part.frames, [frame for frame, _ in part.results["lost"]])
        part.frames, part.times = part.frames[there], part.times[there]
        for name in part._pass:
            found = part.results[name]
            part.results[name] = [np.concatenate(rows) if rows else None for rows in found]
        return part

    def _prepare_sliced_trajectory(self, slicer: slice | Indices) -> None:
        super()._prepare_sliced_trajectory(slicer)
        self._sliced_trajectory = reading.Frames(self._sliced_trajectory, self._trajectory)

    def _prepare(self) -> None:
        self.results = Results({name: [[] for _ in self.meters] for name in self._pass})
        self.results["lost"] = []

    def _single_frame(self) -> None:
        try:
            measured = [self._measure(number) for number in range(len(self.meters))]
        except UNUSABLE as error:
            self.results["lost"].append((int(self._ts.frame), error))
            if len(self.results["lost"]) > MOST_UNUSABLE * self._most:
                raise
            return
        for number, found in enumerate(measured):
            for name, value in found.items():
                rows = self.results[name][number]
                if name == "squares" and rows:  # no one asks for their last bit: a sum a worker
                    rows[0] += value
                else:
                    rows.append(value)

    def _measure(self, number: int) -> dict[str, npt.NDArray[Any]]:
        meter = self.meters[number]
        x = reading.whole(self._ts, meter.molecules, self._ids)[None]
        with samples.numbered([self._ts.frame]):
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
    """Runs an MDAnalysis analysis on the workers of a Dask scheduler, on any machines.

    MDAnalysis's own backend "dask" only starts processes on this machine. Workers need the same
    packages, and the trajectory under the same absolute path. Frames are split into `n_workers`
    parts, by default as many as the ``distributed.Client`` has.
    """

    def __init__(self, client: Any, n_workers: int | None = None) -> None:
        self.client = client
        super().__init__(len(client.nthreads()) if n_workers is None else n_workers)

    def apply(self, func: Callable[..., Any], computations: list[Any]) -> list[Any]:
        """Return ``[func(part) for part in computations]``."""
        # Bytes, so that two tasks in one worker do not share a reader.
        sent = self.client.scatter(pickle.dumps(func), broadcast=True, hash=False)
        parts = [self.client.submit(_unpickled, sent, part, pure=False) for part in computations]
        return list(self.client.gather(parts))


def _unpickled(function: bytes, part: Any) -> Any:
    return pickle.loads(function)(part)


def _concatenate(parts: Sequence[Sequence[Any]]) -> list[Any]:
    groups = ([a for a in group if a is not None] for group in zip(*parts, strict=True))
    return [np.concatenate(group) if group else None for group in groups]


def read_chains(
    topology: str | Path,
    trajectory: str | Path | None = None,
    *,
    select: str = "all",
    atom_style: str | None = None,
    topology_format: str | None = None,
    format: str | None = None,
    masses: Masses | None = None,
    bonds: str = "topology",
    hydrogens: str | None = None,
    start: int | None = None,
    stop: int | None = None,
    step: int | None = None,
) -> ChainData:
    """Read the connected molecules of a selection, unwrapped through their bonds.

    Molecules of equal masses and bonds are pooled, whatever the order of their atoms. Arguments and
    errors are those of `open_universe` and `MetricAnalysis`. All coordinates of the selection are
    held at once, 24 bytes an atom and frame (`MetricAnalysis` holds one frame).
    """
    formats: dict[str, Any] = {"topology_format": topology_format, "format": format}
    universe, notes = open_universe(topology, trajectory, atom_style, **formats, masses=masses)
    groups, skipped = molecules.find(universe, select, bonds, hydrogens)
    reader = reading.trajectory_of(universe)
    numbers = reading.numbers_of(reader, slice(start, stop, step))
    frames, ids = reading.Frames(reader[numbers], reader), reading.dump_ids(universe)
    xs = [np.empty((numbers.size, *group.atoms.shape, 3)) for group in groups]
    times = np.empty(numbers.size)
    with contextlib.closing(reader), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Reader has no dt")  # then frames are 1 apart
        for k, now in enumerate(frames):
            times[k] = now.time
            for x, group in zip(xs, groups, strict=True):
                x[k] = reading.whole(now, group, ids)
    read = (
        ChainGroup(group.masses, group.atoms, x, bonds=group.bonds, hydrogens=group.hydrogens)
        for group, x in zip(groups, xs, strict=True)
    )
    return ChainData(tuple(read), numbers, times, (*notes, *skipped))
