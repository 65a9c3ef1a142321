"""Other values for the hard coordinates of molecules, while all else stays as it is.

A tree keeps the directions of its bonds if lengths alone are hard, and its soft coordinates if
other rows are hard too. Rows beyond the chart, such as bonds that close rings, tie the beads
between their ends. Each tied piece of a molecule is set by itself, and carries along what hangs on
it.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from fixman.analysis.groups import Floats, Molecules
from fixman.chains import topology
from fixman.chains.chain import Chain
from fixman.chains.coordinates import Coordinate, Index, Rows
from fixman.errors import ConstraintSolveError, FrameError
from fixman.mechanics.dynamics import project
from fixman.mechanics.structured import Factor, Sparse

# A half turn about an odd axis, its own inverse: the chart of a free chain is singular where the
# first bond points along e_x, as it often does in lattices and in structures built by hand.
_AXIS = np.sqrt([1.0, 2.0, 3.0])
TURN = 2.0 * np.outer(_AXIS, _AXIS) / 6.0 - np.eye(3)


class Pieces(NamedTuple):
    """Equal pieces of a molecule, tied by rows beyond its chart; beads from the root outwards.

    The extra rows of the chain of a piece are those of the molecule's chart that name no other
    bead, and then those beyond that chart.
    """

    beads: Index  # of the molecule (pieces, m)
    chain: Chain  # of one piece
    targets: Index  # places of its hard rows among those of the molecule (pieces, hard rows)
    rows: Rows  # extra rows that are of the molecule's chart
    places: Index  # their places in that chart (pieces, rows)
    bonds: Index  # of its beads (bonds, 2)
    lengths: Index  # their places among the molecule's hard rows, −1 if soft (pieces, bonds)
    ends: Any  # −1 and 1 at the ends of each bond (m − 1, bonds), no first bead, the last first
    factor: Factor  # of ends @ ends.T

    def set(self, x: Floats, values: Floats) -> Floats:
        """Set hard values: shapes (frames, chains, pieces, m, 3), and from where they came.

        Bonds take their lengths and keep their directions as far as they fit together (least
        squares). If hard rows then lack their values, the nearest configuration in the metric of
        the masses has them (`fixman.project`).
        """
        old = x[..., self.beads, :]
        one, two = self.bonds.T
        steps = old[..., two, :] - old[..., one, :]
        sizes = np.linalg.norm(steps, axis=-1)
        steps *= (np.where(self.lengths < 0, sizes, values[self.lengths]) / sizes)[..., None]
        by_bond = np.moveaxis(steps, -2, 0)
        pull = self.ends @ by_bond.reshape(len(one), -1)
        near = np.zeros_like(old)
        inner = self.factor.solve(pull)[::-1].reshape(-1, *by_bond.shape[1:])
        near[..., 1:, :] = np.moveaxis(inner, 0, -2)
        return project(self.chain, near, values[self.targets])


class HardValues:
    """Sets the hard coordinates of molecules of one kind."""

    def __init__(self, molecules: Molecules, chain: Chain) -> None:
        self._molecules, self._chain = molecules, chain
        hard = {chain.coordinates[row]: place for place, row in enumerate(chain.hard)}
        self.only_lengths = all(row.kind == "length" for row in hard)
        self.joined = np.array([row.beads[:2] for row in hard], dtype=np.intp)
        self.pieces = [] if chain.straight else _pieces(molecules, chain, hard)

    def set(self, x: Floats, values: Floats) -> Floats:
        """Give x (frames, chains, n, 3) the hard values (n_hard,)."""
        chain, parents = self._chain, self._molecules.tree[0]
        if chain.straight:  # where a chart ends: the molecule is a single piece
            with self._explained(None):
                return project(chain, x, values)
        if self.only_lengths:
            one, two = self.joined.T
            shift = np.zeros(x.shape)
            steps = x[..., two, :] - x[..., one, :]
            steps *= (values / np.linalg.norm(steps, axis=-1) - 1.0)[..., None]
            in_tree = parents[two] == one  # closures follow from the pieces
            shift[..., two[in_tree], :] = steps[..., in_tree, :]
        else:
            q = chain.internal(turned(x))
            in_chart = chain.hard < q.shape[-1]
            q[..., chain.hard[in_chart]] = values[in_chart]
        for piece in self.pieces:
            with self._explained(piece):
                y = piece.set(x, values)
                if not self.only_lengths:
                    q[..., piece.places] = piece.chain.layout.values(piece.rows, y)
                    continue
            above = piece.chain.references[1:, 0]
            moved = y - x[..., piece.beads, :]
            shift[..., piece.beads[:, 1:], :] = moved[..., 1:, :] - moved[..., above, :]
        if self.only_lengths:
            return x + topology.sum_outwards(parents, shift)
        return turned(chain.cartesian(q))

    @contextmanager
    def _explained(self, piece: Pieces | None) -> Iterator[None]:
        try:
            yield
        except (ConstraintSolveError, FrameError) as error:
            if piece is None and not self._molecules.rings:
                raise
            frame, beads = error.frame, error.beads
            if piece is not None and isinstance(frame, tuple):
                frame, beads = frame[:-1], tuple(piece.beads[frame[-1]].tolist())
            said = "the values that the hard coordinates are set to cannot all be met"
            rest = ': in rings hold all but rotatable bonds, hard="torsional", or hold fewer kinds'
            raise ConstraintSolveError(said, rest, frame=frame, beads=beads) from error


def _pieces(molecules: Molecules, chain: Chain, hard: dict[Coordinate, int]) -> list[Pieces]:
    """Find what rows beyond the chart tie together, equal pieces in one entry."""
    tree = _Tree(chain, all(row.kind == "length" for row in hard))
    lengths = {frozenset(row.beads): k for row, k in hard.items() if row.kind == "length"}
    beyond = _by_first_bead([row.beads for row in chain.extra], chain.extra)
    bonds = topology.bonds(*molecules.tree).tolist()
    bonded = _by_first_bead(bonds, bonds)
    found: dict[tuple[Chain, tuple[Any, ...]], list[tuple[list[int], ...]]] = {}
    for beads in tree.apart([tree.between(row.beads) for row in chain.extra]):
        own = {bead: k for k, bead in enumerate(beads)}
        places = tree.rows(beads)
        rows = [chain.coordinates[row] for row in places]
        rows += [r for b in beads for r in beyond.get(b, ()) if own.keys() >= set(r.beads)]
        pairs = [pair for b in beads for pair in bonded.get(b, ()) if own.keys() >= set(pair)]
        held = [lengths.get(frozenset(pair), -1) for pair in pairs]
        targets = [hard[row] for row in rows if row in hard]
        # In numbers of its own beads.
        parents = np.array([own.get(tree.references[bead][0], -1) for bead in beads])
        extra = tuple(Coordinate(row.kind, tuple(own[b] for b in row.beads)) for row in rows)
        mask = np.array([False] * (3 * len(beads)) + [row in hard for row in rows])
        references = topology.references(parents, 3, False)
        piece = Chain(len(beads), 3, "free", chain.masses[beads], references, extra, mask)
        kind = piece, tuple(tuple(own[b] for b in pair) for pair in pairs)
        found.setdefault(kind, []).append((beads, targets, places, held))
    return [_alike(*kind, members) for kind, members in found.items()]


def _by_first_bead(beads: list[Any], rows: Sequence[Any]) -> dict[int, list[Any]]:
    table: dict[int, list[Any]] = {}
    for some, row in zip(beads, rows, strict=True):
        table.setdefault(some[0], []).append(row)
    return table


def _alike(chain: Chain, bonds: tuple[Any, ...], members: list[tuple[list[int], ...]]) -> Pieces:
    pairs = np.array(bonds, dtype=np.int64)
    signs, which = np.tile([-1.0, 1.0], len(pairs)), np.repeat(np.arange(len(pairs)), 2)
    ends = sparse.csr_array((signs, (pairs.ravel(), which)), shape=(chain.n, len(pairs)))[:0:-1]
    beads, targets, places, lengths = (np.array(table) for table in zip(*members, strict=True))
    factor = Sparse(ends @ ends.T).factor()
    rows = chain.layout.rows.take(3 * chain.n + np.arange(places.shape[1]))
    return Pieces(beads, chain, targets, rows, places, pairs, lengths, ends, factor)


class _Tree:
    def __init__(self, chain: Chain, only_lengths: bool) -> None:
        self.references = chain.references.tolist()
        self._parents = chain.references[:, 0]
        self._rank = np.argsort(chain.layout.outwards).tolist()
        self._rows = 1 if only_lengths else 3  # of a bead
        self._joins = (only_lengths | ~chain.hard_mask).tolist()

    def between(self, ends: tuple[int, ...]) -> set[int]:
        """All beads of the tree on the ways between some of them."""
        ways = (topology.way(ends[0], end, self._parents, self._rank) for end in ends[1:])
        below = [bead for way in ways for bead in way]
        return {*ends, *below, *self._parents[below].tolist()}

    def rows(self, beads: list[int]) -> list[int]:
        """Rows of the chart that name no other bead; one that places a bead names all before it."""
        inside = set(beads)
        return [
            3 * bead + row
            for bead in beads
            for row in range(self._rows)
            if inside.issuperset(self.references[bead][: row + 1])
        ]

    def apart(self, sets: list[set[int]]) -> list[list[int]]:
        """Unite what shares more than its hard rows say, until each set can be set by itself."""
        while True:
            listed = [self._closed(beads) for beads in sets]
            owners: dict[int, int] = {}
            shared = [
                (owners.setdefault(row, k), k)
                for k, beads in enumerate(listed)
                for row in self.rows(beads)
                if self._joins[row]
            ]
            graph = topology.graph(len(sets), np.array(shared, dtype=np.int64).reshape(-1, 2))
            count, label = connected_components(graph, directed=False)
            if count == len(sets):
                return listed
            sets = [set() for _ in range(count)]
            for k, beads in zip(label.tolist(), listed, strict=True):
                sets[k].update(beads)

    def _closed(self, beads: set[int]) -> list[int]:
        """Beads from the root outwards, with those by which the chart places all but three.

        A chart places the first three of a rigid body in space, by six rows that name others.
        """
        beads = set(beads)
        while True:
            listed = sorted(beads, key=self._rank.__getitem__)
            names = [
                name
                for k, bead in enumerate(listed)
                for name in self.references[bead][: min(k, self._rows)]
                if name >= 0
            ]
            if beads.issuperset(names):
                return listed
            beads.update(names)


def turned(x: Floats) -> Floats:
    """Turn by half a circle, about an axis that nothing points along; twice is not at all."""
    # Not x @ TURN: how BLAS adds may depend on its number of threads.
    return np.asarray(np.einsum("...i,ij->...j", x, TURN))
