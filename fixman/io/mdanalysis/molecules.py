"""Molecules of a selection: which bonds count, which atoms are hydrogens, and doubts about both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fixman._common.arrays import listed
from fixman.analysis.groups import Molecules, counted, find_molecules
from fixman.io import formats
from fixman.io.mdanalysis.universe import SHOWN, brief, name_atom, reading, require_text, symbols_of

try:
    from MDAnalysis.exceptions import NoDataError
    from MDAnalysis.guesser.default_guesser import DefaultGuesser
except ImportError as error:
    raise ImportError(formats.NEEDS_MDANALYSIS) from error

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

# The most bonds that elements have in molecules that chains are made of.
VALENCES = {"H": 1, "C": 4, "N": 4, "O": 3, "F": 1, "CL": 4, "P": 6, "S": 6}
_GUESS = 'bonds="guess"'
FEW = 0.1  # bonded fraction; below it, the file lists odd bonds only, as CONECT records do


def find(
    atomgroup: Any, select: str, bonds: str = "topology", hydrogens: str | None = None
) -> tuple[list[Molecules], tuple[str, ...]]:
    """Molecules of a selection, and notes of what was left out, guessed or looks doubtful.

    Parameters
    ----------
    atomgroup : AtomGroup or Universe
    select : str
    bonds : "topology", "guess", or types separated by commas
        Types of bonds, ``"1,2"``, or of the atoms that they join, ``"C-H"``.
    hydrogens : str, optional
        A selection of them.

    Raises
    ------
    ValueError
        Nothing selected, no bonds, unknown types, atoms without mass.
    """
    selected = _select(atomgroup, select)
    pairs, notes = _bonds(atomgroup.universe, selected, bonds)
    bonded = np.zeros(len(selected), dtype=bool)
    bonded[pairs] = True
    if bonds == "topology" and np.sum(bonded) < FEW * len(selected):
        raise ValueError(
            f"only {np.sum(bonded)} of {len(selected)} atoms are bonded to another selected atom: "
            "the file may list special bonds alone, try "
            f"{_GUESS}, or select a connected piece"
        )
    if not len(pairs):
        raise ValueError(
            f"no two of the {len(selected)} atoms of {select!r} are bonded to each other: select "
            f"a connected backbone, or try {_GUESS} if the topology lacks its bonds"
        )
    if not np.all(bonded):
        first = int(np.argmin(bonded))
        notes += (
            f"skipped {np.sum(~bonded)} selected atom(s) without a bond to another selected atom, "
            f"the first is {name_atom(selected[first])}",
        )
    notes += _doubts(selected, pairs)
    found = find_molecules(
        pairs, _masses(selected, bonded), _hydrogens(atomgroup, selected, hydrogens)
    )
    # The order of atoms that look alike in several rings may hide that molecules are equal.
    atoms = Counter(
        tuple(
            sorted(zip(one.masses.tolist(), np.bincount(one.pairs.ravel()).tolist(), strict=True))
        )
        for one in found
        if one.rings > 1
    )
    notes += tuple(
        f"{number} kinds of molecules with rings have the same {len(kind)} atoms, each with as "
        "many bonds: isomers, or equal molecules that are not recognized and not pooled"
        for kind, number in atoms.items()
        if number > 1
    )
    return [
        Molecules(one.masses, selected.indices[one.atoms], bonds=one.bonds, hydrogens=one.hydrogens)
        for one in found
    ], notes


def _select(atomgroup: Any, select: str) -> Any:
    require_text(select, "a selection", "in MDAnalysis's words, such as 'name CA'")
    try:
        selected = atomgroup.select_atoms(select)
    except Exception as error:  # its parser raises TypeErrors and more
        raise ValueError(f"selection {select!r}: {brief(error)}") from error
    if len(selected) == 0:
        universe = atomgroup.universe
        of = f" of {Path(universe.filename).name}" if universe.filename else ""
        raise ValueError(
            f"selection {select!r} matches none of the {len(atomgroup.atoms)} atoms{of}"
        )
    return selected


# --- bonds --------------------------------------------------------------------------------------


def _bonds(universe: Any, selected: Any, bonds: str) -> tuple[Indices, tuple[str, ...]]:
    """Bonds between selected atoms as pairs of positions in the selection, (bonds, 2)."""
    if not isinstance(bonds, str) or not bonds.strip():
        raise ValueError(f"bonds must be 'topology', 'guess' or types of bonds, got {bonds!r}")
    notes: tuple[str, ...] = ()
    with reading(universe.filename or "the topology"):  # bonds are made at the first look
        there = bonds == "guess" or hasattr(universe, "bonds")
    if bonds == "guess":
        found = _guessed(universe, selected)
    elif not there:
        raise ValueError(
            "the topology has no bonds: guess them from distances with "
            f"{_GUESS}, or give a topology that has them"
        )
    elif bonds == "topology":
        found = selected.intra_bonds.indices
    else:
        found = _of_types(universe, selected, bonds)
    pairs = np.asarray(found, dtype=np.intp).reshape(-1, 2)
    itself = pairs[:, 0] == pairs[:, 1]
    if itself.any():
        raise ValueError(f"{name_atom(universe.atoms[pairs[itself][0, 0]])} is bonded to itself")
    position = np.full(len(universe.atoms), -1, dtype=np.intp)
    position[selected.indices] = np.arange(len(selected))
    pairs = np.unique(np.sort(position[pairs], axis=1), axis=0)
    if bonds == "guess":
        notes = (f"{counted(len(pairs), 'bond')} guessed from distances in the first frame",)
    return pairs, notes


class _Named:
    """Atoms with elements for types, as far as the guesser of bonds looks at them."""

    def __init__(self, atoms: Any, types: npt.NDArray[Any]) -> None:
        self._atoms, self.types = atoms, types

    def __len__(self) -> int:
        return len(self._atoms)

    def __getitem__(self, place: int) -> Any:
        return self._atoms[place]


def _guessed(universe: Any, selected: Any) -> Any:
    """Bonds by distances and radii of the elements, in the current frame."""
    symbols = symbols_of(universe)[0][selected.indices]
    known = bool(np.all(symbols != ""))
    try:
        guesser = DefaultGuesser(None, box=universe.dimensions)
        atoms = _Named(selected, symbols.astype(str)) if known else selected
        return guesser.guess_bonds(atoms, selected.positions)
    except (NoDataError, ValueError) as error:
        unknown = "vdw radii for types: "
        what = brief(error)
        if unknown in what:
            types = what.partition(unknown)[2] or "''"
            what = f"the elements of atoms of types {types} are told by neither names nor types"
        raise ValueError(f"the bonds cannot be guessed: {what}") from error


def _of_types(universe: Any, selected: Any, bonds: str) -> Indices:
    """Bonds of some types, by the topology's names of bonds or by the types of their atoms."""
    wanted = {word.strip() for word in bonds.split(",")}
    inside = selected.intra_bonds
    indices = np.asarray(inside.indices, dtype=np.intp).reshape(-1, 2)
    types = getattr(universe.atoms, "types", np.full(len(universe.atoms), ""))
    names: list[set[str]] = []
    for (i, j), kind in zip(indices.tolist(), inside._bondtypes, strict=True):
        by_atoms = {f"{types[i]}-{types[j]}", f"{types[j]}-{types[i]}"}
        names.append(
            by_atoms if kind is None or isinstance(kind, tuple) else {str(kind), *by_atoms}
        )
    known = set().union(*names)
    unknown = sorted(wanted - known)
    if unknown:
        shown = sorted(known, key=lambda name: (len(name), name))
        raise ValueError(
            f"bonds must be 'topology', 'guess' or types of bonds, got {', '.join(unknown)}: the "
            f"selection has {listed(shown, SHOWN) or 'none'}"
        )
    chosen = np.array([bool(wanted & each) for each in names], dtype=bool)
    answer: Indices = indices[chosen]
    return answer


def _doubts(selected: Any, pairs: Indices) -> tuple[str, ...]:
    notes: list[str] = []
    symbols = symbols_of(selected.universe)[0][selected.indices]
    # CHARMM's water has a bond between its hydrogens, which holds its angle.
    counted_pairs = pairs[~np.all(symbols[pairs] == "H", axis=1)]
    degree = np.bincount(counted_pairs.ravel(), minlength=len(selected))
    most = np.array([VALENCES.get(symbol, len(degree)) for symbol in symbols.tolist()])
    over = np.flatnonzero(degree > most)
    if over.size:
        notes.append(
            f"{counted(over.size, 'atom')} with more bonds than the element has: "
            f"{name_atom(selected[int(over[0])])} has {degree[over[0]]}"
        )
    return tuple(notes)


# --- masses and hydrogens -----------------------------------------------------------------------


def _masses(selected: Any, bonded: Mask) -> Floats:
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
            f"{name_atom(atom)} has mass {atom.mass}: every bead of a chain needs a positive "
            "mass; leave massless sites out of the selection, or say masses=…"
        )
    return masses


def _hydrogens(atomgroup: Any, selected: Any, hydrogens: str | None) -> Mask | None:
    """Hydrogens as selected, or by element where all have one: masses may be repartitioned."""
    if hydrogens is not None:
        chosen = _select(atomgroup, hydrogens)
        return np.isin(selected.indices, chosen.indices)
    elements = np.asarray(getattr(selected, "elements", []), dtype=str)
    if not elements.size or np.any(elements == ""):
        return None
    return np.isin(np.char.upper(elements), ("H", "D", "T"))
