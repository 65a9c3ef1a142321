"""Which hard rows depend on the others in every configuration, and which of them to leave out.

How many rows are too many is decided without a tolerance, by elimination in the field of the
integers modulo 2⁶¹ − 1, at random positions (theory.md section 5).  Which of them go is a choice,
and is made by size, so that H^bb of those that stay is well conditioned: pivoted QR of rows of norm
1, to which those of the chart count LIKED times their size.  Where many rows depend on each other,
and no more need to go than are beyond the chart, these go.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg, sparse
from scipy.sparse import csgraph

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.coordinates import GHOST_POINTS, GHOSTS, Index, Rows
from fixman.chains.layout import HardPattern, Layout, minimum_degree_pattern
from fixman.chains.straight_bends import end_to_end
from fixman.errors import SingularConstraintError
from fixman.kernels.algebra.field import PRIME
from fixman.kernels.chain import modular
from fixman.kernels.chain.rows import ANGLE, LENGTH

Mask = NDArray[np.bool_]

LIKED = 4.0  # times, so that a row of the chart goes only where others hold much more of it
NEVER_LEFT = 1e3  # straight bends, of which both rows stay or neither does
ROUNDS = 16  # in which beads may go: what is left goes to the elimination, whose time is linear
SEARCHED = 1000  # rows, among which the choice by size takes a second; its time grows as the cube


def independent(layout: Layout, near: Array | None) -> Mask:
    """Which coordinates stay, so that hard rows are independent and span what all of them span.

    True for soft ones as well.  Rows that stay are well conditioned at ``near`` (n, dim), by
    default in a random configuration.  The number left out of m is right but for a probability
    about m (m + 37) / 2⁶².  Costs O(m) where the factor of H^bb is sparse.
    """
    stays = np.ones(len(layout.rows), dtype=bool)
    if not layout.extra:
        return stays
    pattern = layout.pattern
    if _peels(pattern.rows):
        return stays
    dependent, share = _eliminate(pattern)
    if not dependent.any():
        return stays
    x = _generic(layout) if near is None else near
    gradients = layout.gradients(pattern.rows, x, SingularConstraintError)
    gradients /= np.sqrt((gradients * gradients).sum(axis=(1, 2), keepdims=True))
    rows = pattern.rows.to_sparse(gradients)
    place = layout.hard[pattern.order]
    added = place >= layout.n * layout.dim
    liked = np.where(added, 1.0, LIKED)
    liked[pattern.rows.trait("straight")] = NEVER_LEFT
    clusters = _clusters(pattern, share, np.argsort(place))
    lost = np.zeros(place.size, dtype=bool)
    for cluster in clusters:
        surplus = np.count_nonzero(dependent[cluster])
        if cluster.size > SEARCHED and surplus == np.count_nonzero(added[cluster]):
            lost[cluster] = added[cluster]  # those of the chart depend on nothing
        else:
            lost[cluster] = ~_chosen(rows[cluster], liked[cluster], surplus)
    kept = np.flatnonzero(~lost)
    rest = minimum_degree_pattern(pattern.rows, kept)
    wrong = np.zeros(place.size, dtype=bool)
    wrong[kept[rest.order]] = _eliminate(rest)[0]
    for cluster in clusters:
        if wrong[cluster].any():  # by size they looked independent; now the first ones are
            lost[cluster] = _exactly(pattern, cluster)
    stays[place[lost]] = False
    return stays


def _peels(rows: Rows) -> bool:
    """Whether rows are lengths, and beads that have no more of them than axes soon are all gone.

    Directions from such a bead are independent, so none of its rows depends on others (Henneberg).
    """
    pairs = np.sort(rows.beads[:, :2], axis=1)
    if (rows.formulas != LENGTH).any() or len(np.unique(pairs, axis=0)) < len(pairs):
        return False
    left = rows.columns[:, :2]
    for _ in range(ROUNDS):
        ends = np.bincount(left[left >= 0], minlength=rows.n)
        left = left[((ends > rows.dim)[left] | (left < 0)).all(axis=1)]
    return not left.size


def nearby(drop_redundant: bool | ArrayLike, n: int, dim: int) -> Array | None:
    """Return the positions where rows shall be well conditioned, if given."""
    if isinstance(drop_redundant, (bool, np.bool_)):
        return None
    near = arrays.real(drop_redundant, (n, dim), "drop_redundant")
    if near.ndim != 2:
        raise ValueError(f"drop_redundant takes one configuration ({n}, {dim}), got {near.shape}")
    arrays.require_finite(near, (n, dim), "drop_redundant")
    return near


def _generic(layout: Layout) -> Array:
    kinds = layout.chart.kinds
    rng = np.random.default_rng(0)
    q = rng.uniform(-np.pi, np.pi, kinds.size)
    q[kinds == LENGTH] = rng.uniform(0.9, 1.1, np.count_nonzero(kinds == LENGTH))
    angles = rng.uniform(0.9, 1.6, np.count_nonzero(kinds == ANGLE))
    q[kinds == ANGLE] = angles * (1 if layout.dim == 3 else rng.choice([-1, 1], angles.size))
    x = layout.cartesian(q[None])[0][0]
    points = np.concatenate([GHOST_POINTS[:, : layout.dim], x])
    for line, i, j in _lines(layout.rows):
        beads = np.array(line) + GHOSTS
        along = np.cumsum(rng.uniform(0.9, 1.1, beads.size))
        share = (along - along[i]) / (along[j] - along[i])
        points[beads] = points[beads[i]] + share[:, None] * (points[beads[j]] - points[beads[i]])
    return np.array(points[GHOSTS:])


def _lines(rows: Rows) -> list[tuple[list[int], int, int]]:
    found = [rows[int(row)].beads for row in np.flatnonzero(rows.trait("straight"))]
    return end_to_end(dict.fromkeys(found))  # a bend has two rows


def _eliminate(pattern: HardPattern) -> tuple[Mask, Mask]:
    """Which rows depend on those before them, and which have part in any vanishing combination."""
    rows, symbolic = pattern.rows, pattern.symbolic
    rng = np.random.default_rng(0)
    X = _random(rng, (rows.n + GHOSTS, 3))
    D = _random(rng, (rows.n, 3))
    X[:GHOSTS] = GHOST_POINTS.astype(np.int64) % PRIME
    if rows.dim == 2:
        X[:, 2] = 0
    for line, i, j in _lines(rows):
        beads = np.array(line) + GHOSTS
        begin, end = ([int(a) for a in X[beads[k]]] for k in (i, j))
        for bead, share in zip(beads, _random(rng, beads.shape).tolist(), strict=True):
            if bead not in (beads[i], beads[j]):
                X[bead] = [(a + share * (b - a)) % PRIME for a, b in zip(begin, end, strict=True)]
    V = np.empty(symbolic.nnz, dtype=np.uint64)
    slots, (s, t) = pattern.slots, pattern.pairs
    flat = 4 * slots.row + slots.point
    terms = np.stack([pattern.places, flat[s], flat[t], slots.bead[s]], axis=1)
    modular.hard_matrix(rows.formulas, rows.beads, terms.astype(np.int32), X, D, V)
    dependent = np.empty(symbolic.size, dtype=bool)
    modular.factor(V, *symbolic, dependent)
    share = np.where(dependent, _random(rng, dependent.shape), np.uint64(0))
    modular.combine(V, *symbolic, share)
    return dependent, share != 0


def _random(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint64]:
    return rng.integers(1, PRIME, shape, dtype=np.uint64)


def _clusters(pattern: HardPattern, share: Mask, order: Index) -> list[Index]:
    """Rows that depend on each other, in sets that share no bead; each in an order of all rows."""
    columns = pattern.rows.columns
    row, slot = np.nonzero((columns >= 0) & share[:, None])
    m, n = share.size, pattern.rows.n
    touch = (np.ones(row.size, dtype=np.int8), (row, m + columns[row, slot]))
    graph = sparse.coo_array(touch, shape=(m + n, m + n))
    label = csgraph.connected_components(graph, directed=False)[1]
    some = order[share[order]]
    some = some[np.argsort(label[some], kind="stable")]
    return np.split(some, np.flatnonzero(np.diff(label[some])) + 1)


def _exactly(pattern: HardPattern, cluster: Index) -> Mask:
    part = HardPattern(pattern.rows.take(cluster), np.arange(cluster.size))
    return _eliminate(part)[0]


def _chosen(rows: sparse.csr_array, liked: Array, surplus: Any) -> Mask:
    """Which rows stay: each the farthest from the span of all before; O(rows · columns²), dense."""
    m, columns = rows.shape[0], np.unique(rows.indices)
    arrays.require_memory(16 * m * columns.size, f"the choice among {m} dependent rows")
    dense = rows[:, columns].toarray()
    dense *= (liked / np.linalg.norm(dense, axis=1))[:, None]
    kept = np.zeros(m, dtype=bool)
    kept[linalg.qr(dense.T, mode="r", pivoting=True)[1][: m - surplus]] = True
    return kept
