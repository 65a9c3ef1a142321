"""What the compiled projections need to know of a chain's hard rows.

The rows that stand for hard angles are chosen for all replicas together, by the straightest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fixman._arrays import Array
from fixman.chain import Chain
from fixman.coordinates import GHOSTS, HardPattern, Index, Rows
from fixman.kernels.hard import BASE, NONE, Hard
from fixman.kernels.jointed_steps import Jointed
from fixman.kernels.rotating_steps import Rotating
from fixman.kernels.rows import ANGLE, LENGTH

# The distance of the outer beads of an angle tells less and less of it as the sine gets smaller.
SMALLEST_SINE = 0.1


def projections(chain: Chain, targets: Array) -> tuple[Any, int]:
    """Return the tables of a chain, and how many fixed points precede the beads."""
    if chain.layout.links.size:
        return _jointed(chain, targets), int(chain.layout.fixed)
    if _rotating(chain, targets):
        axes = (0,) * chain.dim
        return Rotating(np.append(chain.layout.inverse_masses, np.zeros(3)), axes), 0
    return _general(chain, targets)


def nearby(chain: Chain, targets: Array) -> tuple[Any, int]:
    """Return the same for positions far from the targets, where every frame is by itself."""
    if chain.layout.links.size:
        return _jointed(chain, targets), int(chain.layout.fixed)
    system = chain.layout.pattern.system(chain.layout.inverse_masses, squares=True)
    return system, system.front


def _jointed(chain: Chain, targets: Array) -> Jointed:
    w, m = chain.layout.links
    # A power of two changes no digit.
    size = np.log2(w.max()) + 2.0 * np.log2(targets.max())
    scale = 2.0 ** np.clip(-np.round(size), -1000.0, 1000.0)
    return Jointed(w * scale, m / scale, (0,) * chain.dim)


def _rotating(chain: Chain, targets: Array) -> bool:
    """Whether the chain is free and linear, with hard lengths and hard bends that do bend."""
    kinds = chain.layout.rows.kinds
    inner = ((kinds == LENGTH) | (kinds == ANGLE)) & ~chain.layout.rows.external
    if chain.layout.fixed or not chain.layout.linear or not np.array_equal(chain.hard_mask, inner):
        return False
    sines = np.sin(targets[:, kinds[chain.hard] == ANGLE])
    return chain.n >= 3 and bool((np.abs(sines) >= SMALLEST_SINE).all())


def _general(chain: Chain, targets: Array) -> tuple[Hard, int]:
    pattern = chain.layout.pattern
    rows, sides = _with_distances(pattern.rows, targets[:, pattern.order])
    pattern = HardPattern(rows, pattern.order)
    system = pattern.system(chain.layout.inverse_masses, squares=True, sides=sides)
    return system, system.front


def _with_distances(rows: Rows, targets: Array) -> tuple[Rows, Index]:
    """Replace angles between hard lengths; also return the rows of these, or −1."""
    m = len(rows)
    kinds, beads, columns = rows.kinds.copy(), rows.beads.copy(), rows.columns.copy()
    sides = np.full((m, 2), NONE)
    lengths = {
        frozenset(rows.beads[r, :2].tolist()): int(r) for r in np.flatnonzero(kinds == LENGTH)
    }
    for r in np.flatnonzero(kinds == ANGLE):
        i, j, k, _ = rows.beads[r].tolist()
        found = [lengths.get(frozenset(pair)) for pair in ((i, j), (j, k))]
        if j < GHOSTS:  # between two points of the base
            found[0] = BASE
        if None in found or np.abs(np.sin(targets[:, r])).min() < SMALLEST_SINE:
            continue
        sides[r] = found
        kinds[r] = LENGTH
        beads[r] = [i, k, 0, 0]
        columns[r] = [columns[r, 0], columns[r, 2], -1, -1]
    return Rows(rows.n, rows.dim, rows.fixed, kinds, beads, columns), sides
