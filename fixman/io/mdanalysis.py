"""Linear chains from any topology and trajectory that MDAnalysis reads.

The one file that imports MDAnalysis. Chains are found from the bonds, put in order and unwrapped
with array operations; the only Python loop is over the frames that MDAnalysis yields one by one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

from fixman.io.groups import ChainData, ChainGroup

try:
    import MDAnalysis
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
    """Read the connected linear chains of a selection, unwrapped through their bonds.

    Only bonds between selected atoms count. A chain starts at its end of lower atom index, unless
    its masses equal those of an earlier chain read backwards; chains of equal length and masses
    are pooled. `atom_style` goes to MDAnalysis's LAMMPS reader; `bonds="guess"` guesses the bonds
    of the selection from distances in the first frame. Lengths and masses keep MDAnalysis's units.
    All coordinates of the selection are held at once, as float64: 24 bytes an atom and frame.

    Raises FileNotFoundError or ValueError: nothing selected, no bonds, a branched or cyclic
    selection, atoms without mass, no coordinates, a bond near half the box.
    """
    if step == 0:
        raise ValueError("step must not be 0")
    universe, notes = _open(topology, trajectory, atom_style)
    try:
        selected = universe.select_atoms(select)
    except Exception as error:  # its parser raises TypeErrors and more
        raise ValueError(f"selection {select!r}: {_brief(error)}") from error
    if len(selected) == 0:
        raise ValueError(
            f"selection {select!r} matches none of the {len(universe.atoms)} atoms of {topology}"
        )
    pairs = _bonds(universe, selected, bonds)
    order, lengths, isolated = _linear_chains(selected, pairs)
    if not len(lengths):
        raise ValueError(
            f"no two of the {len(selected)} atoms of {select!r} are bonded to each other: select "
            "a connected backbone, or try --bonds guess if the topology lacks its bonds"
        )
    if len(isolated):
        notes += (
            f"skipped {len(isolated)} selected atom(s) without a bond to another selected atom, "
            f"the first is {_name(selected[isolated[0]])}",
        )
    masses = _masses(selected, order)
    blocks = _pool(selected.indices, masses, order, lengths)
    try:
        frames = universe.trajectory[slice(start, stop, step)]
    except AttributeError as error:
        raise ValueError(f"{topology} holds no coordinates: give a trajectory as well") from error
    if len(frames) == 0:
        limits = {"start": start, "stop": stop, "step": step}
        given = ", ".join(f"{name} {limit}" for name, limit in limits.items() if limit is not None)
        raise ValueError(
            f"none of the {len(universe.trajectory)} frames, counted from 0, is left by {given}"
        )
    numbers, times, xs = _coordinates(universe, frames, blocks, progress)
    groups = tuple(ChainGroup(m, atoms, x) for (m, atoms), x in zip(blocks, xs, strict=True))
    return ChainData(groups, numbers, times, notes)


def _open(
    topology: str | Path, trajectory: str | Path | None, atom_style: str | None
) -> tuple[Any, tuple[str, ...]]:
    paths = [str(path) for path in (topology, trajectory) if path is not None]
    for path in paths:
        if not Path(path).exists():
            raise FileNotFoundError(f"no such file: {path}")
        if Path(path).is_dir():
            raise IsADirectoryError(f"a folder, not a file: {path}")
    options = {} if atom_style is None else {"atom_style": atom_style}
    try:
        universe = MDAnalysis.Universe(*paths, to_guess=(), **options)
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


def _name(atom: Any) -> str:
    """Name an atom as its owner knows it; `index` is MDAnalysis's, from 0."""
    known = [
        f"{key} {getattr(atom, key)}"
        for key in ("name", "type", "resname", "resid")
        if hasattr(atom, key)
    ]
    return f"atom index {atom.ix} ({', '.join(known)})"


def _bond_names(universe: Any, atoms: Indices, flags: npt.NDArray[np.bool_]) -> tuple[str, str]:
    """Names of the two atoms of the first flagged bond; flags (chains, n − 1)."""
    chain, bond = np.argwhere(flags)[0]
    one, two = atoms[chain, bond : bond + 2]
    return _name(universe.atoms[int(one)]), _name(universe.atoms[int(two)])


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
            "the topology has no bonds: guess them from distances with --bonds guess, "
            "or give a topology that has them"
        )
    else:
        found = selected.intra_bonds.indices
    pairs = np.asarray(found, dtype=np.intp).reshape(-1, 2)
    position = np.full(len(universe.atoms), -1, dtype=np.intp)
    position[selected.indices] = np.arange(len(selected))
    return np.unique(np.sort(position[pairs], axis=1), axis=0)


def _linear_chains(selected: Any, pairs: Indices) -> tuple[Indices, Indices, Indices]:
    """Chains end to end, one after the other: order (beads,), lengths (chains,), isolated atoms."""
    size = len(selected)
    degree = np.bincount(pairs.ravel(), minlength=size)
    if np.any(degree > 2):
        hub = int(np.argmax(degree > 2))
        raise ValueError(
            f"{_name(selected[hub])} has {degree[hub]} bonds within the selection: branched chains "
            "are not read yet (trees come in a later version); select a linear backbone, "
            "such as 'name N CA C'"
        )
    graph = _graph(pairs, size)
    count, label = connected_components(graph, directed=False)
    ends = np.flatnonzero(degree == 1)
    closed = (np.bincount(label[ends], minlength=count) == 0) & (degree[_first(label)] > 0)
    if np.any(closed):
        atom = selected[int(_first(label)[np.argmax(closed)])]
        raise ValueError(
            f"{_name(atom)} lies on a ring of bonds within the selection: rings are not read yet; "
            "select a linear backbone that leaves one of the ring's atoms out"
        )
    starts = ends[_first(label[ends])]
    # Breadth first from one virtual atom bonded to every start walks all chains in step, end to
    # end; a stable sort by chain then puts them one after the other.
    root = np.column_stack([np.full(len(starts), size), starts])
    rooted = _graph(np.concatenate([pairs, root]), size + 1)
    walk = breadth_first_order(rooted, size, directed=False, return_predecessors=False)[1:]
    start_of = np.full(count, -1, dtype=np.intp)
    start_of[label[starts]] = starts
    chain = start_of[label[walk]]
    order = walk[np.argsort(chain, kind="stable")].astype(np.intp)
    _, lengths = np.unique(chain, return_counts=True)
    return order, lengths.astype(np.intp), np.flatnonzero(degree == 0)


def _graph(pairs: Indices, size: int) -> sparse.csr_array:
    ones = np.ones(len(pairs), dtype=np.int8)
    return sparse.csr_array((ones, (pairs[:, 0], pairs[:, 1])), shape=(size, size))


def _first(label: npt.NDArray[np.integer[Any]]) -> Indices:
    """Positions of the first member of every label."""
    return np.asarray(np.unique(label, return_index=True)[1], dtype=np.intp)


def _masses(selected: Any, order: Indices) -> Floats:
    masses = np.array(selected.masses, dtype=np.float64)
    bad = ~(np.isfinite(masses) & (masses > 0.0))
    bad &= np.isin(np.arange(len(masses)), order)
    if np.any(bad):
        atom = selected[int(np.argmax(bad))]
        raise ValueError(
            f"{_name(atom)} has mass {atom.mass}: every bead of a chain needs a positive mass; "
            "leave massless sites out of the selection, or give a topology with masses"
        )
    return masses


def _pool(
    indices: Indices, masses: Floats, order: Indices, lengths: Indices
) -> list[tuple[Floats, Indices]]:
    """Group chains by length and masses: (masses (n,), atoms (chains, n)), first atom first."""
    offsets = np.cumsum(lengths) - lengths
    groups = []
    for n in np.unique(lengths):
        beads = order[offsets[lengths == n, None] + np.arange(n)]
        m = masses[beads]
        # Reading a chain backwards changes no physics; compare all in the direction whose
        # masses sort first, then read each group's chains the way its first chain runs.
        difference = m - m[:, ::-1]
        decisive = np.argmax(difference != 0.0, axis=1)
        backwards = difference[np.arange(len(m)), decisive] > 0.0
        key = np.where(backwards[:, None], m[:, ::-1], m)
        _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
        turned = backwards != backwards[first][inverse]
        beads = np.where(turned[:, None], beads[:, ::-1], beads)
        members = np.split(
            beads[np.argsort(inverse, kind="stable")], np.cumsum(np.bincount(inverse))[:-1]
        )
        groups += [(masses[group[0]], indices[group]) for group in members]
    return sorted(groups, key=lambda group: int(group[1][0, 0]))


def _coordinates(
    universe: Any,
    frames: Any,
    blocks: list[tuple[Floats, Indices]],
    progress: Callable[[Any], Iterable[Any]],
) -> tuple[Indices, Floats, list[Floats]]:
    xs = [np.empty((len(frames), *atoms.shape, 3)) for _, atoms in blocks]
    numbers = np.empty(len(frames), dtype=np.intp)
    times = np.empty(len(frames))
    for k, step in enumerate(progress(frames)):
        numbers[k] = step.frame
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Reader has no dt")  # then frames are 1 apart
            times[k] = step.time
        for x, (_, atoms) in zip(xs, blocks, strict=True):
            raw = step.positions[atoms].astype(np.float64)
            if not np.all(np.isfinite(raw)):
                broken = int(atoms[~np.all(np.isfinite(raw), axis=2)][0])
                atom = _name(universe.atoms[broken])
                raise ValueError(f"{atom} has no finite position in frame {step.frame}")
            x[k] = _unwrap(raw, step.dimensions, universe, atoms, step.frame)
            coincident = ~np.any(np.diff(x[k], axis=1), axis=2)
            if np.any(coincident):
                one, two = _bond_names(universe, atoms, coincident)
                raise ValueError(f"{one} and {two} are bonded and coincide in frame {step.frame}")
    return numbers, times, xs


def _unwrap(x: Floats, box: Any, universe: Any, atoms: Indices, frame: int) -> Floats:
    """Make chains whole: every bond its shortest periodic image. x (chains, n, 3)."""
    if box is None or not np.any(box[:3]):
        return x
    bonds = np.diff(x, axis=1)
    shortest = minimize_vectors(bonds.reshape(-1, 3), box).reshape(bonds.shape)
    if np.all(box[3:] == 90.0):  # an edge of zero length is a direction without periodicity
        fraction = shortest / np.where(box[:3] > 0.0, box[:3], np.inf)
    else:
        cell = triclinic_vectors(box).astype(np.float64)
        if not np.any(cell):
            raise ValueError(f"frame {frame} has an impossible box {list(map(float, box))}")
        fraction = shortest @ np.linalg.inv(cell)
    ambiguous = np.any(np.abs(fraction) > AMBIGUOUS_FRACTION, axis=2)
    if np.any(ambiguous):
        one, two = _bond_names(universe, atoms, ambiguous)
        raise ValueError(
            f"the bond between {one} and {two} is close to half the box long in frame {frame}, so "
            "that its periodic image cannot be told: check box and units, or write whole molecules "
            "without a box"
        )
    whole = np.concatenate([x[:, :1], shortest], axis=1)
    return np.cumsum(whole, axis=1)
