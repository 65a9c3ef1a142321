"""Tables of a chain's hard rows for the compiled projections.

The rows that stand for hard angles are chosen for all replicas together, by the straightest.
"""

from collections import namedtuple

import numpy as np

from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.coordinates import GHOSTS, Index, Rows
from fixman.chains.layout import HardPattern
from fixman.kernels.chain.hard import Hard
from fixman.kernels.chain.rows import ANGLE, KINDS, LENGTH, SQUARE
from fixman.kernels.simulation.banded_steps import BAND, Banded
from fixman.kernels.simulation.jointed_steps import Jointed

# The distance of the outer beads of an angle tells less and less of it as the sine gets smaller.
SMALLEST_SINE = 0.1
NONE, BASE = -1, -2  # instead of a side: there is none, or it is the unit between two ghosts


class Projections(namedtuple("Projections", "system front goals")):
    """Tables of the hard rows, how many fixed points stand before the beads, and goals of rows.

    ``goals (replicas, …)`` are ½ d² and d of each row that is a distance, cosine and sine of an
    angle, and of each other row the value first; where a kernel is special, the targets.
    """


def projections(chain: Chain, targets: Array, masses: Array | None = None) -> Projections:
    """Return what holds hard coordinates at targets (replicas, n_hard), step by step."""
    masses = chain.masses if masses is None else masses
    if chain.layout.links.size:
        return _jointed(chain, targets, masses)
    pattern = chain.layout.pattern
    rows, sides = _with_distances(pattern.rows, targets[:, pattern.order])
    system = HardPattern(rows, pattern.order).system(1.0 / masses, squares=True)
    found = _general(system, targets[:, pattern.order], sides)
    return found._replace(system=_banded(system))


def nearby(chain: Chain, targets: Array) -> Projections:
    """Return what brings hard coordinates to targets, from afar and every frame by itself."""
    if chain.layout.links.size:
        return _jointed(chain, targets, chain.masses)
    return _general(chain.layout.squares, targets[:, chain.layout.pattern.order], None)


def _general(system: Hard, own: Array, sides: Index | None) -> Projections:
    """Hold lengths by their squares, and angles with two ``sides`` by the distance across."""
    distance = own.copy()
    if sides is not None:
        across = np.flatnonzero(sides[:, 1] != NONE)
        a = np.where(sides[across, 0] == BASE, 1.0, own[:, sides[across, 0]])
        b = own[:, sides[across, 1]]
        distance[:, across] = np.sqrt(a * a + b * b + 2.0 * a * b * np.cos(own[:, across]))
    square = system.kinds == SQUARE
    angle = np.array([kind.angle for kind in KINDS])[system.kinds]
    with np.errstate(over="ignore"):
        first = np.where(square, 0.5 * distance * distance, np.where(angle, np.cos(own), own))
    goals = np.stack([first, np.where(square, distance, np.sin(own))], axis=-1)
    return Projections(system, system.front, goals.reshape(len(own), -1))


def _jointed(chain: Chain, targets: Array, masses: Array) -> Projections:
    w, m = np.pad([1.0 / masses, masses], ((0, 0), (int(chain.layout.fixed), 0)))
    # A power of two changes no digit.
    size = np.log2(w.max()) + 2.0 * np.log2(targets.max())
    scale = 2.0 ** np.clip(-np.round(size), -1000.0, 1000.0)
    system = Jointed(w * scale, m / scale, (0,) * chain.dim)
    return Projections(system, int(chain.layout.fixed), targets)


def _banded(system: Hard) -> Hard | Banded:
    """Return shorter tables of rows that are distances in a narrow band; others as they are."""
    symbolic = system.symbolic
    m = symbolic.size
    column = np.repeat(np.arange(m), np.diff(symbolic.first))
    offset = symbolic.row - column
    if np.any(system.kinds != SQUARE) or offset.max(initial=0) > BAND:
        return system
    place = system.products[::3]
    weights = np.zeros((m, BAND + 1))
    weights[column[place], offset[place]] = system.weights
    w = np.zeros(system.front + system.n)
    w[system.movers] = np.abs(system.shares)
    points = system.points.reshape(m, 4)
    begins, ends = points[:, 0].copy(), points[:, 1].copy()
    return Banded(begins, ends, weights.reshape(-1), w, system.axes)


def _with_distances(rows: Rows, targets: Array) -> tuple[Rows, Index]:
    m = len(rows)
    kinds, beads, columns = rows.kinds.copy(), rows.beads.copy(), rows.columns.copy()
    sides = np.full((m, 2), NONE)
    bonds = np.flatnonzero(kinds == LENGTH).tolist()
    lengths = {frozenset(beads[r, :2].tolist()): r for r in bonds}
    for r in np.flatnonzero(kinds == ANGLE):
        i, j, k, _ = rows.beads[r].tolist()
        found = [lengths.get(frozenset(pair)) for pair in ((i, j), (j, k))]
        if j < GHOSTS:  # between two points of the base
            found[0] = BASE
        if None in found or np.abs(np.sin(targets[:, r])).min() < SMALLEST_SINE:
            continue
        sides[r] = found
        kinds[r] = LENGTH
        beads[r] = [i, k, k, k]
        columns[r] = [columns[r, 0], columns[r, 2], -1, -1]
    return Rows(rows.n, rows.dim, rows.fixed, kinds, beads, columns), sides
