"""What the compiled projections need to know of a chain's hard rows.

The rows that stand for hard angles are chosen for all replicas together, by the straightest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fixman._arrays import Array
from fixman.chain import Chain
from fixman.coordinates import GHOSTS, SLOTS, HardPattern, Index, Rows
from fixman.kernels.general_steps import ANGLE, BASE, DISTANCE, NONE, TORSION, TURN, General
from fixman.kernels.geometry import ANGLE as ANGLE_ROW
from fixman.kernels.geometry import LENGTH
from fixman.kernels.geometry import TORSION as TORSION_ROW
from fixman.kernels.jointed_steps import Jointed
from fixman.kernels.rotating_steps import Rotating

# The distance of the outer beads of an angle tells less and less of it as the sine gets smaller.
SMALLEST_SINE = 0.1


def projections(chain: Chain, targets: Array) -> tuple[Any, int]:
    """Return the tables of a chain, and how many fixed points precede the beads."""
    axes = (0,) * chain.dim
    w, m = chain.layout.links
    if w.size:
        # A power of two changes no digit.
        scale = 2.0 ** -np.round(np.log2(w.max() * targets.max() ** 2))
        return Jointed(w * scale, m / scale, axes), int(chain.layout.fixed)
    if _rotating(chain, targets):
        return Rotating(np.append(chain.layout.inverse_masses, np.zeros(3)), axes), 0
    return _general(chain, targets)


def _rotating(chain: Chain, targets: Array) -> bool:
    """Whether the chain is free and linear, with hard lengths and hard bends that do bend."""
    kinds = chain.layout.rows.kinds
    inner = ((kinds == LENGTH) | (kinds == ANGLE_ROW)) & ~chain.layout.rows.external
    if chain.layout.fixed or not chain.layout.linear or not np.array_equal(chain.hard_mask, inner):
        return False
    sines = np.sin(targets[:, kinds[chain.hard] == ANGLE_ROW])
    return chain.n >= 3 and bool((np.abs(sines) >= SMALLEST_SINE).all())


def _general(chain: Chain, targets: Array) -> tuple[General, int]:
    pattern = chain.layout.pattern
    rows, sides = _with_distances(pattern.rows, targets[:, pattern.order])
    pattern = HardPattern(rows, pattern.order)
    ghosts = GHOSTS if chain.layout.fixed else 0
    m = len(rows)
    kinds = np.select(
        [rows.kinds == LENGTH, rows.kinds == TORSION_ROW],
        [DISTANCE, TORSION],
        TURN if chain.dim == 2 else ANGLE,
    ).astype(np.int8)
    slots = SLOTS[rows.kinds]
    vectors = np.concatenate([[0], np.cumsum(np.where(kinds == DISTANCE, 1, slots))])
    # Of a flat (row, slot): its vector and sign.
    row, slot = np.divmod(np.arange(4 * m), 4)
    distance = kinds[row] == DISTANCE
    carrier = vectors[row] + np.where(distance, 0, slot)
    sign = np.where(distance & (slot == 0), -1.0, 1.0)
    place, a, b, bead = pattern.terms.T.astype(np.int64)
    weight = sign[a] * sign[b] * chain.layout.inverse_masses[bead]
    left, right = carrier[a], carrier[b]
    # Both ends of a distance meet in one product.
    keys, which = np.unique(np.stack([place, left, right], axis=1), axis=0, return_inverse=True)
    weights = np.bincount(which.ravel(), weight, len(keys)).astype(np.float64)
    moving = np.flatnonzero(rows.columns.ravel() >= 0)
    mover = rows.columns.ravel()[moving]
    used = np.arange(4) < slots[:, None]
    joints = np.where(used, rows.beads - GHOSTS + ghosts, 0)
    symbolic = pattern.symbolic
    return General(
        axes=(0,) * chain.dim,
        kinds=kinds,
        joints=_int32(joints),
        vectors=_int32(vectors[:-1]),
        public=_int32(pattern.order),
        sides=_int32(np.where(sides >= 0, pattern.order[sides], sides)),
        places=_int32(keys[:, 0]),
        left=_int32(keys[:, 1]),
        right=_int32(keys[:, 2]),
        weights=weights,
        owners=_int32(row[moving]),
        movers=_int32(mover + ghosts),
        carriers=_int32(carrier[moving]),
        signs=sign[moving],
        shares=sign[moving] * chain.layout.inverse_masses[mover],
        total=int(vectors[-1]),
        first=_int32(symbolic.first),
        row=_int32(symbolic.row),
        left_first=_int32(symbolic.left_first),
        left_place=_int32(symbolic.left_place),
        left_column=_int32(symbolic.left_column),
    ), ghosts


def _with_distances(rows: Rows, targets: Array) -> tuple[Rows, Index]:
    """Replace angles between hard lengths; also return the rows of these, or −1."""
    m = len(rows)
    kinds, beads, columns = rows.kinds.copy(), rows.beads.copy(), rows.columns.copy()
    sides = np.full((m, 2), NONE)
    lengths = {
        frozenset(rows.beads[r, :2].tolist()): int(r) for r in np.flatnonzero(kinds == LENGTH)
    }
    for r in np.flatnonzero(kinds == ANGLE_ROW):
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


def _int32(array: Any) -> Any:
    return np.ascontiguousarray(array, dtype=np.int32).reshape(-1)
