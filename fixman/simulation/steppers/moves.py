"""Which parts of a chain Monte Carlo can turn without changing what is hard."""

from collections import defaultdict

import numpy as np

from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.coordinates import GHOST_POINTS, GHOSTS
from fixman.kernels.chain.rows import ANGLE, LENGTH
from fixman.kernels.sampling.crankshafts import LINE, OUTSIDE, POINT, RING, SHIFT, Moves

BASE = -1  # the bead that the base point is


def moves(chain: Chain, steps: Array | None = None) -> Moves:
    """Return the moves of a chain; ``steps`` (replicas,) are lengths of shifts, None for no shifts.

    Each bead, with what hangs on it, turns about its parent or, if the angle there is hard, about
    the bond before.  Rings turn between two of their beads, with one move a bead.  A free chain
    also turns as a whole: parts on its first bead with several hard angles have no other turn.

    Raises
    ------
    ValueError
        If these moves would not reach all configurations.
    """
    alone = chain.n == 1 and chain.base == "free"
    if alone and steps is None:
        raise _unknown("one bead has nothing to turn, and only pair forces in a system shift it")
    if not alone:
        _require_known(chain)
    graph = _Graph(chain)
    held = _held(chain, graph)
    front = GHOSTS if chain.base == "fixed" else 0
    table, first = [], 0
    for bead in graph.order.tolist():
        centre, others = graph.parent.get(bead), held[bead]
        if centre is None or bead in graph.inner:
            continue
        if not others:
            table.append((POINT, *graph.span(bead), -1, centre))
        elif len(others) == 1 and chain.dim == 3:
            table.append((LINE, *graph.span(bead), min(others), centre))
    for ring in graph.rings:
        if len(ring) > 3:
            table += [(RING, first, first + len(ring), 0, 0)] * (len(ring) - 2)
        first += len(ring)
    if steps is not None:
        table.append((SHIFT, 0, 0, 0, 0))
    if chain.base == "free" and not alone:
        table.append((POINT, 0, chain.n, -1, int(graph.order[0])))
    if not table:
        raise _unknown("nothing of this chain can turn")
    kinds, *columns = np.array(table, dtype=np.int64).T
    spans, lines = np.stack(columns[:2], axis=1), np.stack(columns[2:], axis=1)
    rings = [graph.place.get(bead, OUTSIDE) for ring in graph.rings for bead in ring]
    return Moves(
        graph.order, kinds.copy(), spans, lines + front, np.array(rings, dtype=np.int64),
        GHOST_POINTS[GHOSTS - front :, : chain.dim].ravel(),
        np.empty(0) if steps is None else steps,
    )  # fmt: skip


class _Graph:
    """A tree of the hard bonds in which a bond that is left out joins a bead to one before it.

    ``order`` has each bead followed by all that hangs on it, what is round a ring last; ``place``
    is the inverse.  ``rings`` begin with the bead that is nearest to the root; the bonds to the
    ``inner`` beads are on one and do not begin it.
    """

    def __init__(self, chain: Chain) -> None:
        rows = chain.layout.hard_rows
        pairs = (rows.beads[rows.kinds == LENGTH, :2].astype(np.int64) - GHOSTS).tolist()
        self.neighbours: dict[int, list[int]] = defaultdict(list)
        for i, j in pairs:
            self.neighbours[i].append(j)
            self.neighbours[j].append(i)
        root = BASE if chain.base == "fixed" else 0
        self.parent: dict[int, int] = {}
        closing = self._walk(root)
        self.rings: list[list[int]] = []
        self.inner: set[int] = set()
        on: set[int] = set()  # beads whose bond to their parent is on a ring
        for low, top in closing:
            ring = [low]
            while ring[-1] != top:
                if ring[-1] in on:
                    raise _unknown("rings that share a bond do not turn between two beads")
                on.add(ring[-1])
                ring.append(self.parent[ring[-1]])
            self.rings.append(ring[::-1])
            self.inner.update(ring[:-2])
        if self.rings and chain.dim == 2:
            raise _unknown("a ring in the plane has no axis to turn about")
        self._sort(root)

    def _walk(self, root: int) -> list[tuple[int, int]]:
        """Find parents, depth first, and the bonds left out, (lower, upper)."""
        closing, depth = [], {root: 0}
        stack = [(root, iter(self.neighbours[root]))]
        while stack:
            bead, others = stack[-1]
            other = next(others, None)
            if other is None:
                stack.pop()
            elif other not in depth:
                depth[other] = len(stack)
                self.parent[other] = bead
                stack.append((other, iter(self.neighbours[other])))
            elif depth[other] < depth[bead] and other != self.parent[bead]:
                closing.append((bead, other))
        return closing

    def _sort(self, root: int) -> None:
        children = defaultdict(list)
        for bead, above in self.parent.items():
            children[above].append(bead)
        order, stack = [], [root]
        while stack:
            bead = stack.pop()
            order.append(bead)
            # Taken from the end: what goes on round a ring that the bead itself is on comes last.
            stack += sorted(children[bead], key=lambda b: b not in self.inner)
        self._ends: dict[int, int] = {}
        for bead in reversed(order):
            self._ends[bead] = 1 + sum(self._ends[child] for child in children[bead])
        order = [bead for bead in order if bead >= 0]
        self.order = np.array(order, dtype=np.int64)
        self.place = {bead: k for k, bead in enumerate(order)}

    def span(self, bead: int) -> tuple[int, int]:
        """Places in the order of a bead and what hangs on it."""
        return self.place[bead], self.place[bead] + self._ends[bead]


def _held(chain: Chain, graph: _Graph) -> dict[int, set[int]]:
    """Beads to which each bead has a hard angle at its parent."""
    held: dict[int, set[int]] = defaultdict(set)
    rows = chain.layout.hard_rows
    for i, j, k, _ in (rows.beads[rows.kinds == ANGLE].astype(np.int64) - GHOSTS).tolist():
        for bead, other in ((i, k), (k, i)):
            if graph.parent.get(bead) == j:
                held[bead].add(other)
    return held


def _require_known(chain: Chain) -> None:
    layout = chain.layout
    kinds = layout.hard_rows.kinds
    if (layout.soft_rows.kinds == LENGTH).any() or not kinds.size or chain.closing:
        raise _unknown("a soft bond does not change its length")
    if not np.isin(kinds, (LENGTH, ANGLE)).all():
        raise _unknown("torsions, distances and straight bends cannot be held")
    if chain.redundant or (chain.extra and (kinds == ANGLE).any()):
        raise _unknown("hard angles of rings, and extra ones, cannot be held")


def _unknown(why: str) -> ValueError:
    said = f"MonteCarlo cannot sample this chain by turning parts of it: {why}"
    return ValueError(f"{said}; fixman.HybridMonteCarlo can sample any chain")
