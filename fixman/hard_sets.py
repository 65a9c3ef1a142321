"""Words for hard sets, and what those that speak of hydrogens mean on a graph of bonds.

One table for Python and the command line: the kinds of coordinates, the names that GROMACS,
LAMMPS and OpenMM give to sets of them, and words that only make sense for a molecule.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._arrays import Array
from fixman.coordinates import KINDS, POSITIONS, Coordinate, Index, Rows
from fixman.kernels.rows import ANGLE, LENGTH

Mask = NDArray[np.bool_]

INTERNAL = KINDS[POSITIONS:]
MOLECULAR = ("torsional", "h-bonds", "h-angles")  # each stands alone
WITH_HYDROGENS = ("h-bonds", "h-angles")

# Spelled as people do; compared without case, hyphens and underscores.
WORDS: dict[str, tuple[str, ...] | str] = {
    "length": ("length",), "lengths": ("length",), "bond": ("length",), "bonds": ("length",),
    "all-bonds": ("length",), "AllBonds": ("length",),
    "angle": ("angle",), "angles": ("angle",), "all-angles": ("length", "angle"),
    "torsion": ("torsion",), "torsions": ("torsion",),
    "dihedral": ("torsion",), "dihedrals": ("torsion",),
    "torsional": "torsional",
    "h-bonds": "h-bonds", "HBonds": "h-bonds",
    "h-angles": "h-angles", "HAngles": "h-angles",
}  # fmt: skip

NOTHING = ("none", "no", "nothing", "off", "")

# Hydrogen is 1.008 amu, with its electrons moved to a Drude particle or a core–shell pair
# somewhat less. Between hydrogen and lithium stand deuterium, tritium and hydrogens whose masses
# were repartitioned; but coarse beads as well, so that someone has to say which it is.
LIGHTEST = 0.95  # amu
HYDROGEN = 1.2
HEAVIEST = 4.1
REPARTITIONED = 2.1  # deuterium is 2.014 and took no mass from its neighbour
OXYGEN, NEAR = 15.999, 0.3


def _plain(word: str) -> str:
    return word.casefold().replace("-", "").replace("_", "")


_PLAIN = {_plain(word): meaning for word, meaning in WORDS.items()}


def choices() -> str:
    """Say in one line which words there are."""
    return (
        f"choose one or more of {', '.join(INTERNAL)} (as in bonds, all-bonds, all-angles, "
        f"dihedrals); or one of {', '.join(MOLECULAR)}, alone"
    )


def named(hard: Any) -> Any:
    """Resolve what ``hard`` says: kinds, a word for molecules, or a mask, which is left as it is.

    Parameters
    ----------
    hard : str, sequence of str, or mask
        Words of `WORDS`; several in one string are separated by commas.

    Returns
    -------
    tuple of kinds, one of `MOLECULAR`, or ``hard`` itself

    Raises
    ------
    ValueError
        An unknown word, with all that are known and the nearest; a word for molecules among
        others.
    """
    words = _words(hard)
    if words is None:
        return hard
    kinds: list[str] = []
    for word in words:
        meaning = _PLAIN.get(_plain(word))
        if meaning is None:
            raise ValueError(f"unknown hard coordinates {word!r}{_nearest(word)}: {choices()}")
        if isinstance(meaning, str):
            if len(words) > 1:
                raise ValueError(
                    f"{word!r} stands alone, not together with other words: {choices()}"
                )
            return meaning
        kinds += [kind for kind in meaning if kind not in kinds]
    return tuple(kinds)


def _words(hard: Any) -> list[str] | None:
    """Words of which ``hard`` consists; None for anything else, such as a mask."""
    if isinstance(hard, str):
        return [word.strip() for word in hard.split(",")]
    if isinstance(hard, np.ndarray):
        return [str(word) for word in hard] if hard.dtype.kind == "U" and hard.ndim == 1 else None
    if isinstance(hard, list | tuple) and (not hard or any(isinstance(w, str) for w in hard)):
        return [str(word) for word in hard]
    return None


def _nearest(word: str) -> str:
    if _plain(word) in NOTHING:
        return " (without constraints there is nothing to correct: hold length at least)"
    spelled = {_plain(each): each for each in reversed(WORDS)}
    near = difflib.get_close_matches(_plain(word), spelled, 1)
    return f" (did you mean {spelled[near[0]]}?)" if near else ""


# --- hydrogens ----------------------------------------------------------------------------------


def by_mass(masses: Array) -> Mask:
    """Which masses (n,) are hydrogens', in amu: 0.95 to 1.2.

    Raises
    ------
    ValueError
        A mass between 1.2 and 4.1: deuterium, a repartitioned hydrogen or none.
    """
    doubtful = (masses > HYDROGEN) & (masses < HEAVIEST)
    if doubtful.any():
        bead = int(np.argmax(doubtful))
        raise ValueError(
            f"bead {bead} has a mass of {masses[bead]:g}, by which it cannot be told whether it is "
            "a hydrogen (deuterium, or repartitioned): say which are, hydrogens=…"
        )
    mask: Mask = (masses >= LIGHTEST) & (masses <= HYDROGEN)
    return mask


def hydrogen_mask(hydrogens: ArrayLike | None, masses: Array, word: str = "h-bonds") -> Mask:
    """Which beads are hydrogens: by a mask (n,), or by mass in amu; some must be."""
    if hydrogens is None:
        found = by_mass(masses)
    else:
        if np.ma.isMaskedArray(hydrogens):
            raise TypeError("hydrogens must be a plain array of booleans, not a masked one")
        found = np.asarray(hydrogens)
        if found.dtype != bool or found.shape != masses.shape:
            raise ValueError(
                f"hydrogens must be a mask of booleans {masses.shape}, got {found.dtype} "
                f"{found.shape}"
            )
    if not found.any():
        how = "the mask hydrogens=… is False everywhere"
        if hydrogens is None:
            how = (
                f"none of the masses is between {LIGHTEST} and {HYDROGEN}; give masses in amu, or "
                "a mask, hydrogens=…"
            )
        raise ValueError(f"hard={word!r} finds no hydrogen: {how}")
    return found


def hydrogen_bonds(table: Rows, chart: int, hydrogens: Mask) -> Mask:
    """Lengths to hydrogens, and whatever stands beyond the ``chart``."""
    mask: Mask = (table.kinds == LENGTH) & (table.columns[:, :2] >= 0).all(axis=1)
    mask &= hydrogens[table.columns[:, :2]].any(axis=1)
    mask[chart:] = True
    return mask


def hydrogen_angles(
    parents: Index, closures: Index, hydrogens: Mask, masses: Array
) -> list[tuple[int, int, int]]:
    """Angles H–X–H and H–O–X as (end, vertex, end): those that "h-angles" holds.

    OpenMM and GROMACS hold the same ones. Oxygens are told by their mass in amu, to which what
    repartitioning took is added. O(n).
    """
    beads = np.flatnonzero(parents >= 0)
    pairs = np.concatenate([np.stack([parents[beads], beads], axis=1), closures])
    neighbours: dict[int, list[int]] = {}
    for i, j in pairs[hydrogens[pairs].any(axis=1)].tolist():
        for vertex, end in ((i, j), (j, i)):
            if hydrogens[end]:
                neighbours.setdefault(vertex, []).append(end)
    oxygens = {vertex for vertex, ends in neighbours.items() if _is_oxygen(vertex, ends, masses)}
    for i, j in pairs.tolist():
        for vertex, end in ((i, j), (j, i)):
            if vertex in oxygens and not hydrogens[end]:
                neighbours[vertex].append(end)
    return [
        (one, vertex, two)
        for vertex, ends in sorted(neighbours.items())
        for one, two in combinations(sorted(ends), 2)
        if hydrogens[one] or hydrogens[two]
    ]


def _is_oxygen(vertex: int, ends: Sequence[int], masses: Array) -> bool:
    own = masses[vertex]
    taken = sum(masses[end] - 1.008 for end in ends if masses[end] > REPARTITIONED)
    return bool(abs(own + taken - OXYGEN) < NEAR)


def angles_beyond(
    angles: Sequence[tuple[int, int, int]], references: Index
) -> tuple[Coordinate, ...]:
    """Those of some angles that are not in the chart of a tree, as further rows."""
    parents, inner = references[:, 0].tolist(), references[:, 1].tolist()
    return tuple(
        Coordinate("angle", (i, j, k))
        for i, j, k in angles
        if (parents[k], inner[k]) != (j, i) and (parents[i], inner[i]) != (j, k)
    )


def bonds_and_angles(table: Rows, chart: int, angles: Sequence[tuple[int, int, int]]) -> Mask:
    """Every length, some angles (end, vertex, end), and whatever stands beyond the ``chart``."""
    external = np.zeros(len(table), dtype=bool) if table.fixed else table.external
    mask: Mask = (table.kinds == LENGTH) & ~external
    chosen = set(angles)
    for row in np.flatnonzero(table.kinds[:chart] == ANGLE):
        i, j, k = table[int(row)].beads
        mask[row] = (min(i, k), j, max(i, k)) in chosen
    mask[chart:] = True
    return mask
