"""Molecules of a selection: which bonds count, and which atoms are hydrogens."""

from dataclasses import replace
from typing import Any

import MDAnalysis
import numpy as np
from MDAnalysis.guesser.default_guesser import DefaultGuesser

from fixman._common.arrays import listed
from fixman.analysis.groups import Indices, Mask, Molecules, counted, find_molecules
from fixman.io.mdanalysis.universe import SHOWN, brief, reading, symbols_of


def find(
    atomgroup: Any, select: str, bonds: str = "topology", hydrogens: str | None = None
) -> tuple[list[Molecules], tuple[str, ...]]:
    """Molecules of a selection, and notes of what was left out or guessed.

    Arguments and errors are those of `MetricAnalysis`.
    """
    selected = _select(atomgroup, select)
    pairs = _bonds(atomgroup.universe, selected, bonds)
    notes: tuple[str, ...] = ()
    if getattr(getattr(atomgroup.universe, "trajectory", None), "format", "") == "XTC":
        notes = ("XTC files round positions, most to 0.01 Å: lengths vary by that alone",)
    if bonds == "guess":
        notes += (f"{counted(len(pairs), 'bond')} guessed from distances in the first frame",)
    if not len(pairs):
        said = f"no two of the {len(selected)} atoms of {select!r} are bonded to each other"
        raise ValueError(f'{said}: select those between, or try bonds="guess"')
    bonded = np.zeros(len(selected), dtype=bool)
    bonded[pairs] = True
    alone = selected.indices[~bonded]
    if alone.size:
        said = f"skipped {alone.size} of {len(selected)} selected atoms, without a bond to another"
        notes += (f"{said}, the first is atom index {alone[0]}",)
    masses = np.array(selected.masses, dtype=np.float64)
    bad = ~(np.isfinite(masses) & (masses > 0.0)) & bonded
    if np.any(bad):
        said = f"atom index {selected.indices[bad][0]} has mass {masses[bad][0]}"
        raise ValueError(f"{said}: leave it out of the selection, or say masses=…")
    found = find_molecules(pairs, masses, _hydrogens(atomgroup, selected, hydrogens))
    return [replace(one, atoms=selected.indices[one.atoms]) for one in found], notes


def _select(atomgroup: Any, select: str) -> Any:
    try:
        selected = atomgroup.select_atoms(select)
    except Exception as error:  # its parser raises TypeErrors and more
        raise ValueError(f"selection {select!r:.80}: {brief(error)}") from error
    if len(selected) == 0:
        raise ValueError(f"selection {select!r} matches none of the {len(atomgroup.atoms)} atoms")
    return selected


def _bonds(universe: Any, selected: Any, bonds: str) -> Indices:
    """Bonds between selected atoms as pairs of positions in the selection, (bonds, 2)."""
    if bonds == "guess":
        return _guessed(universe, selected)
    with reading(universe.filename or "the topology"):  # bonds are made at the first look
        there = hasattr(universe, "bonds")
    if not there:
        raise ValueError('the topology has no bonds: bonds="guess" guesses them from distances')
    inside = selected.intra_bonds
    found = np.asarray(inside.indices, dtype=np.intp).reshape(-1, 2)
    if bonds != "topology":
        found = found[_of_types(universe, inside, found, bonds)]
    itself = found[:, 0] == found[:, 1]
    if itself.any():
        raise ValueError(f"atom index {found[itself][0, 0]} is bonded to itself")
    position = np.full(len(universe.atoms), -1, dtype=np.intp)
    position[selected.indices] = np.arange(len(selected))
    pairs: Indices = np.unique(np.sort(position[found], axis=1), axis=0)
    return pairs


def _guessed(universe: Any, selected: Any) -> Indices:
    named = MDAnalysis.Universe.empty(len(selected))
    named.add_TopologyAttr("types", symbols_of(universe)[selected.indices])
    try:
        guesser = DefaultGuesser(None, box=universe.dimensions)
        found = guesser.guess_bonds(named.atoms, selected.positions)
    except ValueError as error:
        raise ValueError(f"the bonds cannot be guessed: {brief(error)}") from error
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def _of_types(universe: Any, inside: Any, pairs: Indices, bonds: str) -> Mask:
    """Tell bonds of some types, by the topology's names of bonds or by the types of their atoms."""
    wanted = {word.strip() for word in str(bonds).split(",")}
    types = getattr(universe.atoms, "types", np.full(len(universe.atoms), ""))
    names = [
        {f"{types[i]}-{types[j]}", f"{types[j]}-{types[i]}"}
        | ({str(kind)} if kind is not None and not isinstance(kind, tuple) else set())
        for (i, j), kind in zip(pairs.tolist(), inside._bondtypes, strict=True)
    ]
    known = set().union(*names)
    if unknown := sorted(wanted - known):
        shown = sorted(known, key=lambda name: (len(name), name))
        said = f"bonds must be 'topology', 'guess' or types of bonds, got {', '.join(unknown)}"
        raise ValueError(f"{said}: the selection has {listed(shown, SHOWN) or 'none'}")
    return np.array([bool(wanted & each) for each in names], dtype=bool)


def _hydrogens(atomgroup: Any, selected: Any, hydrogens: str | None) -> Mask | None:
    """Hydrogens as selected, or by element where all have one: masses may be repartitioned."""
    if hydrogens is not None:
        chosen = _select(atomgroup, hydrogens)
        return np.isin(selected.indices, chosen.indices)
    elements = np.asarray(getattr(selected, "elements", []), dtype=str)
    if not elements.size or np.any(elements == ""):
        return None
    return np.isin(np.char.upper(elements), ("H", "D", "T"))
