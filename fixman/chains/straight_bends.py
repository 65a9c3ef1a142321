"""Straight groups, and torsions that are held besides those of the chart.

A bend that is held straight has two rows of its own.  Angles of the chart there, and torsions about
it, have no gradient and are not held.  A torsion that would have been held is held across the line
instead.  Where a ring is closed the chart has no torsions either: a bond is a line of two beads.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from graphlib import CycleError, TopologicalSorter
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import topology
from fixman.chains.coordinates import Coordinate, Index, Rows
from fixman.errors import SingularConstraintError
from fixman.kernels.chain.rows import ANGLE, TORSION

Mask = NDArray[np.bool_]

# Nitriles and alkynes swing by 0.1 to 0.18 rad at room temperature; cyclooctyne bends by 0.38 rad.
NEARLY = 0.25  # rad, rms
# Swings about a straight line have a standard deviation of half their mean.  Where it is less than
# half of that, in as many configurations as tell, the bend is not straight but held at an angle.
TELLING, STEADY, SMALLEST = 10, 0.25, 0.02  # configurations; of the mean; rad


class Lines:
    """Which beads are held in line, by some bends that are held straight."""

    def __init__(self, bends: Iterable[tuple[int, ...]]) -> None:
        self.beads = [line for line, _, _ in end_to_end(bends)]
        self._of: dict[int, set[int]] = defaultdict(set)
        for number, line in enumerate(self.beads):
            for bead in line:
                self._of[bead].add(number)

    def __bool__(self) -> bool:
        return bool(self._of)

    def contain(self, beads: Iterable[int]) -> bool:
        """Whether all of some beads are on one line."""
        return bool(set.intersection(*(self._of.get(bead, set()) for bead in beads)))

    def spoil(self, beads: tuple[int, ...]) -> bool:
        """Whether an angle or a torsion has no gradient: three beads in a row are on one line."""
        return self.contain(beads[:3]) or self.contain(beads[-3:])


def over(lines: Lines, table: Rows, chart: int) -> list[int]:
    """Rows of the chart that have no gradient where bends are straight: angles, and torsions."""
    bent = np.flatnonzero(np.isin(table.kinds[:chart], (ANGLE, TORSION))) if lines else ()
    return [int(row) for row in bent if lines.spoil(table[int(row)].beads)]


def refuse_over(mask: Mask, table: Rows, rows: Iterable[int]) -> None:
    """Refuse a mask by which such a row is hard."""
    for row in rows:
        if mask[row]:
            raise ValueError(f"{table[row]} cannot be hard: straight=… holds its beads in line")


# --- from positions -----------------------------------------------------------------------------


def positions(straight: Any, n: int, dim: int) -> Array | None:
    """Return positions (..., n, dim) where ``straight`` is such; whole numbers name bends."""
    try:
        array = np.asarray(straight)
    except Exception:  # ragged, or what has no array
        return None
    if array.dtype.kind != "f" or array.shape[-2:] != (n, dim):
        return None
    x = arrays.real(straight, (n, dim), "straight")
    arrays.require_finite(x, (n, dim), "straight")
    return x


def found(table: Rows, mask: Mask, x: Array) -> list[tuple[int, ...]]:
    """Hard bends that are straight in configurations x (..., n, dim), by their angles."""
    if table.dim == 2 or not x.size:
        return []
    rows = table.take(np.flatnonzero(mask & (table.kinds == ANGLE)))
    _, bad = rows.parts(2).values(x)
    if bad >= 0:
        rows.refuse_lengths(x, bad, SingularConstraintError)
    angles, _ = rows.values(x)
    mean, swing = np.mean(angles, axis=0), np.std(angles, axis=0)
    straight = np.hypot(mean, swing) <= NEARLY
    if len(angles) >= TELLING:
        straight &= (swing >= STEADY * mean) | (mean < SMALLEST)
    return [rows[int(row)].beads for row in np.flatnonzero(straight)]


# --- torsions beyond the chart ------------------------------------------------------------------


def across(
    lines: Lines, references: Index, closures: Index, fixed: bool, turning: Index
) -> tuple[Coordinate, ...]:
    """Torsions about straight parts, and where rings are closed, that are to be held as well.

    Bonds that are ``turning (bonds, 2)`` cut a line, or a bond, into parts.  The m beads that hang
    off one part are placed about it by m − 1 torsions: further ones join what the chart does not.
    """
    closures = topology.loose(references[:, 0], closures, turning)
    if not (lines or closures.size):
        return ()
    graph = _Graph(references, closures, fixed, turning)
    axes = {frozenset(line): line for line in lines.beads}
    for i, j in closures.tolist():
        bonds = [(graph.inner[end], end) for end in (i, j)]
        bonds += [(i, j)] * (frozenset((i, j)) not in graph.turning)
        axes |= {frozenset(bond): [*bond] for bond in bonds if not lines.contain(bond)}
    rows = [row for axis in axes.values() for row in graph.across(axis)]
    return tuple(sorted(rows, key=lambda row: graph.rank[row.beads[-1]]))


class _Graph:
    """Neighbours of lines and bonds in a graph, and torsions about these that its chart holds."""

    def __init__(self, references: Index, closures: Index, fixed: bool, turning: Index) -> None:
        parents = references[:, 0].copy()
        self.references, self.lowest = references, -3 if fixed else 0
        outwards = [-3, -2, -1, *topology.outwards(parents).tolist()]
        self.rank = {bead: k for k, bead in enumerate(outwards)}
        self.turning = {frozenset(bond) for bond in turning.tolist()}
        self.inner = topology.inwards(parents).tolist()
        bonds = topology.bonds(parents, closures)
        if fixed:
            bonds = np.concatenate([[(-3, -2), (-2, -1), (-1, 0)], bonds])
        self._near = topology.neighbours(bonds)

    def beside(self, bead: int) -> list[int]:
        """Return the neighbours of a bead, that inwards first."""
        inner = self.inner[bead] if bead >= 0 else None
        near = self._near.get(bead, [])
        return sorted(near, key=lambda other: (other != inner, self.rank[other]))

    def across(self, line: list[int]) -> list[Coordinate]:
        from scipy.cluster.hierarchy import DisjointSet  # slow to import, and seldom needed

        on, rows = set(line), []
        parts: list[list[tuple[int, int]]] = []  # beads off each part, and those they hang on
        for before, seat in zip([None, *line], line, strict=False):
            near = self.beside(seat)
            if before not in near or frozenset((before, seat)) in self.turning:
                parts.append([])
            parts[-1] += [(bead, seat) for bead in near if bead not in on]
        joined = DisjointSet(bead for part in parts for bead, _ in part)
        for bead, seat in (pair for part in parts for pair in part):
            other = self._held_to(bead, seat, on)
            if other is not None:
                joined.merge(other, bead)
        for part in filter(None, parts):
            head = part[0]  # that inwards, if there is one, whose angles are hard
            for hung in part[1:]:
                if joined.merge(head[0], hung[0]):  # they were apart
                    two = sorted((head, hung), key=lambda hung: self.rank[hung[0]])
                    (one, inner), (bead, outer) = two
                    inner = self.inner[outer] if inner == outer else inner
                    rows.append(Coordinate("torsion", (one, inner, outer, bead)))
        return rows

    def _held_to(self, bead: int, seat: int, on: set[int]) -> int | None:
        """Return which other bead off a line the chart holds one to, about the line."""
        parent, angle, torsion = self.references[bead].tolist() if bead >= 0 else (None, 0, 0)
        if parent != seat:  # the bond inwards, or one that closes a ring, with an angle to that
            inner = self.inner[seat] if seat >= 0 else bead
            return None if inner == bead or inner in on else inner
        if angle < self.lowest:
            return None
        if angle not in on:  # beads on the line are placed by the same reference
            return angle
        sibling = torsion >= 0 and self.references[torsion, :2].tolist() == [parent, angle]
        soft = not sibling and frozenset((parent, angle)) in self.turning
        return None if soft or torsion in on or torsion < self.lowest else torsion


def end_to_end(bends: Iterable[tuple[int, ...]]) -> list[tuple[list[int], int, int]]:
    """Beads of each line of straight bends (i, j, k), and two places from which to put the others.

    The beads there may be on other lines too.
    """
    groups: list[list[tuple[int, ...]]] = []
    for bend in bends:  # on one line with those that share two beads with it
        near = [group for group in groups if any(len({*bend} & {*one}) > 1 for one in group)]
        groups = [group for group in groups if group not in near]
        groups.append([bend, *(one for group in near for one in group)])
    ordered = [_in_order(group) for group in groups]
    uses = Counter(bead for line in ordered for bead in line)
    found = []
    for line in ordered:
        crossing = [k for k, bead in enumerate(line) if uses[bead] > 1 or bead < 0]
        if len(crossing) > 2:
            said = f"beads {line} are held in line, and {len(crossing)} of them elsewhere too"
            raise ValueError(f"{said}: at most two can be on other lines or on the base")
        others = [k for k in range(len(line)) if k not in crossing]
        i, j = (crossing + others)[:2]
        found.append((line, i, j))
    return found


def _in_order(bends: list[tuple[int, ...]]) -> list[int]:
    rest, known = list(bends), set(combinations(bends[0], 2))
    while rest:  # each shares two beads with one before it, which say which way round it is
        for bend in rest:
            pairs, turned = set(combinations(bend, 2)), set(combinations(bend[::-1], 2))
            if pairs & known or turned & known:
                known |= pairs if pairs & known else turned
                rest.remove(bend)
                break
    order: TopologicalSorter[int] = TopologicalSorter()
    for one, two in known:
        order.add(two, one)
    try:
        return list(order.static_order())
    except CycleError:
        said = f"bends {sorted(bends)} cannot all be straight: their beads are not in a row"
        raise ValueError(said) from None
