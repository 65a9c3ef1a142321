"""Words for hard sets, and their meaning on a graph of bonds.

They are the kinds of coordinates, names that GROMACS, LAMMPS and OpenMM give to sets of them, and
words that only make sense for a molecule.
"""

import operator
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csgraph

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import coordinates, straight_bends, topology
from fixman.chains.coordinates import STRAIGHT, Coordinate, Index, Rows
from fixman.chains.straight_bends import Lines
from fixman.errors import meant
from fixman.kernels.chain.rows import ANGLE, KINDS, LENGTH, NUMBERS, TORSION

Mask = NDArray[np.bool_]

EXTRA = tuple(kind.name for kind in KINDS if kind.extra)  # rows beyond the chart
WITH_HYDROGENS = ("h-bonds", "h-angles")

# Compared without case, hyphens and underscores; a word for molecules stands alone.
WORDS: dict[str, tuple[str, ...] | str] = {
    "length": ("length",), "lengths": ("length",), "bond": ("length",), "bonds": ("length",),
    "all-bonds": ("length",), "angle": ("angle",), "angles": ("angle",),
    "all-angles": ("length", "angle"), "torsion": ("torsion",), "torsions": ("torsion",),
    "dihedral": ("torsion",), "dihedrals": ("torsion",),
    "torsional": "torsional", "h-bonds": "h-bonds", "h-angles": "h-angles",
}  # fmt: skip
CHOICES = (
    "choose one or more of length, angle, torsion (as in bonds, all-bonds, all-angles, dihedrals); "
    "or one of torsional, h-bonds, h-angles, alone"
)

# Hydrogen is 1.008 amu, with a Drude particle somewhat less. Between hydrogen and lithium stand
# deuterium, repartitioned hydrogens, and coarse beads: someone has to say which it is.
LIGHTEST = 0.95  # amu
HYDROGEN = 1.2
HEAVIEST = 4.1
REPARTITIONED = 2.1  # deuterium is 2.014 and took no mass from its neighbour
OXYGEN, NEAR = 15.999, 0.3


def _plain(word: str) -> str:
    return word.casefold().replace("-", "").replace("_", "")


_PLAIN = {_plain(word): meaning for word, meaning in WORDS.items()}


def named(hard: Any) -> Any:
    """Resolve words, in a list or separated by commas, to kinds or one word; masks are returned."""
    if isinstance(hard, str):
        words = [word.strip() for word in hard.split(",")]
    elif isinstance(hard, np.ndarray) and hard.dtype.kind == "U" and hard.ndim == 1:
        words = hard.tolist()
    elif isinstance(hard, list | tuple) and (not hard or any(isinstance(w, str) for w in hard)):
        words = list(map(str, hard))
    else:
        return hard
    kinds: list[str] = []
    for word in words:
        meaning = _PLAIN.get(_plain(word))
        if meaning is None:
            raise ValueError(f"unknown hard coordinates {word!r}{meant(word, WORDS)}: {CHOICES}")
        if isinstance(meaning, str):
            if len(words) > 1:
                raise ValueError(f"{word!r} stands alone, not together with other words: {CHOICES}")
            return meaning
        kinds += [kind for kind in meaning if kind not in kinds]
    return tuple(kinds)


# --- on a graph ---------------------------------------------------------------------------------


def resolve(
    references: Index,
    closures: Index,
    extra: Iterable[Any],
    straight: Iterable[Any] | ArrayLike,
    fixed: bool,
    masses: Array,
    hard: Any,
    rotatable: ArrayLike | None,
    hydrogens: ArrayLike | None,
) -> tuple[Rows, tuple[Coordinate, ...], Mask]:
    """Return all coordinates, those beyond the chart, and which are hard.

    The arguments are those of `Chain.branched`; the rows beyond the chart are closures, angles that
    a word holds and the chart has not, ``extra``, torsions across straight parts, straight bends.
    """
    n, dim = references.shape
    hard = named(hard)
    word = hard if isinstance(hard, str) else ""
    by_kind = isinstance(hard, tuple) and all(isinstance(kind, str) for kind in hard)  # no mask
    if rotatable is not None and word != "torsional":
        raise ValueError(f"rotatable=… goes with hard='torsional', got hard={hard!r:.80}")
    if hydrogens is not None and word not in WITH_HYDROGENS:
        raise ValueError(f"hydrogens=… goes with 'h-bonds' or 'h-angles', got hard={hard!r:.80}")
    light = _hydrogen_mask(hydrogens, masses, word) if word in WITH_HYDROGENS else None
    angles: list[tuple[int, ...]] = []
    beyond: list[Coordinate] = []  # the angles that the chart has not
    if word == "h-angles" and light is not None:
        angles, light = _hydrogen_angles(references[:, 0], closures, light, masses), None
        charted = {(angle, parent, k) for k, (parent, angle, *_) in enumerate(references.tolist())}
        apart = (beads for beads in angles if charted.isdisjoint((beads, beads[::-1])))
        beyond = [Coordinate("angle", beads) for beads in apart]
    x = straight_bends.positions(straight, n, dim)
    if x is not None:
        bent = resolve(references, closures, extra, (), fixed, masses, hard, rotatable, hydrogens)
        straight = straight_bends.found(bent[0], bent[2], x)
    pairs, lines = straight_rows(straight, n, dim, fixed)
    kinds = hard if by_kind else ("length", "angle") if word == "torsional" else ("length",)
    if "torsion" in kinds and dim == 2:
        raise ValueError("there are no torsions in the plane: dim=2 has lengths and angles")
    given = extra_rows(extra, n, dim, fixed)
    for row in given:
        if x is None and row.kind == "angle" and lines.contain(row.beads):
            raise ValueError(f"{row} is held straight already, by two rows across it")
    rows = *_closing_rows(closures, references[:, 0], kinds, light), *beyond, *given
    rows = tuple(row for row in rows if row.kind != "angle" or not lines.contain(row.beads))
    turning = np.empty((0, 2), dtype=np.int64)
    if word == "torsional":
        turning = _turning(references[:, 0], closures, rotatable, fixed)
    if word == "torsional" or (lines and "torsion" in kinds):
        rows += straight_bends.across(lines, references, closures, fixed, turning)
    rows += pairs
    table = coordinates.chart(references, rows, fixed)
    if word == "torsional":
        mask = _torsional(table, references, turning)
    elif word == "h-angles":
        known = {*angles, *(beads[::-1] for beads in angles)}
        mask = table.kinds == LENGTH
        mask |= [k == ANGLE and table[row].beads in known for row, k in enumerate(table.kinds)]
    elif light is not None:
        ends = table.columns[:, :2]
        mask = (table.kinds == LENGTH) & (ends >= 0).all(axis=1) & light[ends].any(axis=1)
    elif by_kind:
        mask = np.isin(table.kinds, [NUMBERS[kind] for kind in kinds])
    else:
        mask = hard_mask(hard, table, n * dim)
    mask = (mask & ~table.external) | (np.arange(len(table)) >= n * dim)
    over = straight_bends.over(lines, table, n * dim)
    if not (word or by_kind):  # a mask; angles that positions find straight are held in line
        kept = over if x is None else [row for row in over if table.kinds[row] == TORSION]
        straight_bends.refuse_over(mask, table, kept)
    mask[over] = False
    return table, rows, mask


def straight_rows(
    straight: Iterable[Any] | ArrayLike, n: int, dim: int, fixed: bool
) -> tuple[tuple[Coordinate, ...], Lines]:
    """Rows of bends (i, j, k) that are held straight, and which beads these hold in line."""
    wrong = f"straight must be a list of bends or positions (..., {n}, {dim}), got {straight!r:.80}"
    if isinstance(straight, str) or not isinstance(straight, Iterable):
        raise TypeError(wrong)
    angles = [("angle", getattr(bend, "beads", bend)) for bend in straight]
    try:
        named = [row.beads for row in extra_rows(angles, n, dim, fixed)]
    except ValueError as error:
        raise ValueError(f"{wrong}: {error}") from None
    bends = list(dict.fromkeys(min(beads, beads[::-1]) for beads in named))
    if bends and dim == 2:
        raise ValueError("straight=… is for space: in the plane a straight angle can be hard")
    rows = tuple(Coordinate(kind, bend) for bend in bends for kind in STRAIGHT)
    return rows, Lines(bends)  # which refuses what cannot be


def hard_mask(hard: Any, table: Rows, chart: int) -> Mask:
    """Check a mask over the coordinates; rows beyond the ``chart`` are hard anyway."""
    try:
        listed = np.asarray(hard)
    except Exception:  # ragged, or what has no array
        listed = np.empty(0)
    if listed.dtype != bool:
        raise ValueError(f"hard must be words or a mask of booleans, got {hard!r:.80}: {CHOICES}")
    if listed.shape not in ((len(table),), (chart,)):
        raise ValueError(f"a hard mask must have shape ({len(table)},), got {listed.shape}")
    for row in (chart + np.flatnonzero(~listed[chart:])).tolist():
        raise ValueError(f"{table[row]} is a closure or an extra row: these are always hard")
    for row in np.flatnonzero(listed & table.external[: listed.size]).tolist():
        raise ValueError(f"{table[row]} cannot be hard: it places the free chain in space")
    return np.append(listed[:chart], np.ones(len(table) - chart, dtype=bool))


def _closing_rows(
    closures: Index, parents: Index, kinds: Sequence[str], hydrogens: Mask | None
) -> tuple[Coordinate, ...]:
    """Rows of the bonds outside the tree, and of the angles at their ends, where these are hard."""
    held = closures if hydrogens is None else closures[hydrogens[closures].any(axis=1)]
    rows = [Coordinate("length", (i, j)) for i, j in held.tolist() if "length" in kinds]
    if "angle" in kinds:
        rows += [Coordinate("angle", beads) for beads in topology.closing_angles(parents, closures)]
    return tuple(rows)


def extra_rows(
    extra: Iterable[Any], n: int, dim: int, fixed: bool, kinds: Sequence[str] = EXTRA
) -> tuple[Coordinate, ...]:
    """Check further hard rows, given as `Coordinate` or (kind, beads)."""
    if isinstance(extra, str) or not isinstance(extra, Iterable):
        raise TypeError(f"extra must be a list of coordinates, got {extra!r:.80}")
    known = [one for one in kinds if dim == 3 or KINDS[NUMBERS[one]].plane is not None]
    rows = []
    for item in extra:
        try:
            kind, beads = item
            beads = tuple(map(operator.index, beads))
        except (TypeError, ValueError):
            said = f"extra rows are like ('angle', (0, 1, 2)), got {item!r:.80}"
            raise ValueError(said) from None
        kind = {"bond": "length", "dihedral": "torsion"}.get(kind, kind)
        if kind not in known:
            raise ValueError(f"extra rows are of kind {tuple(known)} in {dim}-D, got {kind!r}")
        row, record = Coordinate(kind, beads), KINDS[NUMBERS[kind]]
        if record.bonds == (0, 2):
            pairs = {frozenset(beads[:2]), frozenset(beads[2:])}
            different = len(pairs) == 2 and all(len(pair) == 2 for pair in pairs)
            wanted = "two different pairs of beads (i, j, k, l)"
        else:
            different = len(set(beads)) == len(beads)
            wanted = f"{record.beads} different beads"
        if len(beads) != record.beads or not different:
            raise ValueError(f"{row} must name {wanted}")
        lowest = -dim if fixed else 0
        if min(beads) < lowest or max(beads) >= n or max(beads) < 0:
            raise ValueError(f"{row} names a bead that is not among {lowest} to {n - 1}")
        rows.append(row)
    return tuple(rows)


def _turning(parents: Index, closures: Index, named: ArrayLike | None, fixed: bool) -> Index:
    """Bonds (bonds, 2) with soft torsions, outer bead last: those named, and what closes rings."""
    if named is None:
        return rotatable(parents, closures, fixed)
    n, bonds = parents.size, topology.bonds(parents, closures)
    if fixed:
        bonds = np.concatenate([[(-1, 0)], bonds])
    named = topology.pairs_of(named, "rotatable")
    known = {frozenset(bond) for bond in bonds.tolist()}
    for i, j in named.tolist():
        if frozenset((i, j)) not in known:
            raise ValueError(f"rotatable names ({i}, {j}), which is no bond of this chain")
    joined = topology.graph(n + 1, named % (n + 1))  # the base point is the last node
    label = csgraph.connected_components(joined, directed=False)[1]
    return np.asarray(bonds[label[bonds[:, 0]] == label[bonds[:, 1]]])


def rotatable(parents: Index, closures: Index, fixed: bool = False) -> Index:
    """Bonds (bonds, 2) that turn by default: neither terminal nor in rings of up to eight beads."""
    degree = np.bincount(topology.bonds(parents, closures).ravel(), minlength=parents.size)
    degree[0] += fixed
    free = (degree > 1) & (degree[parents] > 1)
    free[0] = fixed and degree[0] > 1
    rings, small = topology.ring_bonds(parents, closures)
    free[rings[:, 1][parents[rings[:, 1]] == rings[:, 0]]] = False
    tree = np.stack([parents, np.arange(parents.size)], axis=1)[free]
    return np.concatenate([tree, rings[~small]])


def _torsional(table: Rows, tree: Index, turning: Index) -> Mask:
    """Every length and angle, and all torsions but the first about each bond that turns."""
    n, dim = tree.shape
    if dim == 2:
        raise ValueError("hard='torsional' needs dim=3: there are no torsions in the plane")
    parent, angle, torsion = tree.T
    free = np.zeros(n, dtype=bool)
    free[turning[parent[turning[:, 1]] == turning[:, 0], 1]] = True
    # The axis of a torsion is the bond from the angle reference to the parent, whichever of the
    # two hangs on the other.
    up = np.where(parent >= 0, parent[parent], -2) == angle
    axis = np.where(up, parent, angle)
    turns = (axis >= 0) & free[axis]
    beyond = np.maximum(torsion, 0)
    sibling = (torsion >= 0) & (parent[beyond] == parent) & (angle[beyond] == angle)
    mask = np.isin(table.kinds, (LENGTH, ANGLE))
    mask[2 : 3 * n : 3] = ~turns | sibling
    return mask


# --- hydrogens ----------------------------------------------------------------------------------


def by_mass(masses: Array) -> Mask:
    """Which masses (n,) are hydrogens', in amu; between 1.2 and 4.1 they do not tell."""
    doubtful = (masses > HYDROGEN) & (masses < HEAVIEST)
    if doubtful.any():
        bead = int(np.argmax(doubtful))
        said = f"bead {bead} has a mass of {masses[bead]:g}: is it a hydrogen?"
        raise ValueError(f"{said} give the hydrogens, hydrogens=…")
    return np.asarray((masses >= LIGHTEST) & (masses <= HYDROGEN))


def _hydrogen_mask(hydrogens: ArrayLike | None, masses: Array, word: str) -> Mask:
    """Which beads are hydrogens: by a mask (n,), or by mass in amu; some must be."""
    found = by_mass(masses) if hydrogens is None else arrays.taken(hydrogens, "hydrogens")
    if found.dtype != bool or found.shape != masses.shape:
        got = f"{found.dtype} {found.shape}"
        raise ValueError(f"hydrogens must be a mask of booleans {masses.shape}, got {got}")
    if not found.any():
        raise ValueError(f"hard={word!r} finds no hydrogen: give masses in amu, or hydrogens=…")
    return found


def _hydrogen_angles(
    parents: Index, closures: Index, hydrogens: Mask, masses: Array
) -> list[tuple[int, ...]]:
    """Angles H–X–H and H–O–X as (end, vertex, end), as OpenMM and GROMACS hold them.

    Oxygens are told by their mass in amu, to which what repartitioning took is added.
    """
    angles: list[tuple[int, ...]] = []
    for vertex, ends in sorted(topology.neighbours(topology.bonds(parents, closures)).items()):
        light = [end for end in ends if hydrogens[end]]
        taken = sum(masses[end] - 1.008 for end in light if masses[end] > REPARTITIONED)
        oxygen = abs(masses[vertex] + taken - OXYGEN) < NEAR
        pairs = combinations(sorted(ends if oxygen else light), 2)
        angles += [(i, vertex, k) for i, k in pairs if hydrogens[i] or hydrogens[k]]
    return angles
