"""Random walks with given hard values, to start simulations from."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, bonds, with_hard_bonds
from fixman.chains.straight_bends import Lines
from fixman.chains.system import System, require_model
from fixman.errors import ConstraintSolveError, SingularConstraintError
from fixman.kernels.chain.rows import ANGLE, KINDS, LENGTH, TORSION
from fixman.mechanics.dynamics import project

__all__ = ["hard_targets", "open_walks", "random_walks"]

TETRAHEDRAL = math.acos(1.0 / 3.0)  # bending angle between tetrahedral bonds
TURNS = {LENGTH: math.inf, ANGLE: math.pi, TORSION: 2.0 * math.pi}  # furthest from 0
FARTHEST = 1e8  # shortest bonds that a box may be wide
TRIES = 20  # walks from which a ring is tried to be closed
FIRST_STRIDE, LAST_STRIDE = 0.25, 1e-3  # fractions of the way to the targets


def random_walks(
    chain: Chain | System,
    size: int = 1,
    *,
    lengths: ArrayLike = 1.0,
    angles: ArrayLike = TETRAHEDRAL,
    torsions: ArrayLike = math.pi,
    rng: int | np.random.Generator | None = None,
) -> Array:
    """Random configurations with given values of the hard coordinates.

    Soft angles and torsions are drawn with the measure of space, dΩ = sin θ dθ dφ.  If all lengths
    are hard and there are no closures, extra rows or potentials, the walks are independent samples
    of the stiff ensemble.  Rings start as open walks; closures are then brought to their values in
    steps.  Chains of a system in a box have random centres and overlap: see `push_off`.

    Parameters
    ----------
    lengths, angles, torsions : float, or one for each coordinate of the kind
        Values of hard coordinates and of soft lengths, angles in radians, in the order of
        ``chain.coordinates``.  Distances, sums and differences keep the values that are drawn.

    Returns
    -------
    ndarray (size, n, d)
        O(n) a walk; a free chain has its first bead at the origin.  ConstraintSolveError if
        closures do not reach their values: these are impossible, or too far.
    """
    require_model(chain)
    size, generator = arrays.positive_int(size, "size"), arrays.generator(rng)
    if isinstance(chain, System):
        values = {"lengths": lengths, "angles": angles, "torsions": torsions}
        return _in_box(chain, size, values, generator)
    # Chart coordinates and positions.
    arrays.require_memory(16 * size * chain.n * chain.dim, f"{size} walks of {chain.n} beads")
    targets = hard_targets(chain, lengths, angles, torsions)
    if chain.closing:  # a soft bond that closes a ring gets a length as the others do
        lengths_drawn = targets[chain.layout.rows.kinds == LENGTH]
        targets = np.append(targets, np.full(len(chain.closing), lengths_drawn.mean()))
        chain = with_hard_bonds(chain)
    if not chain.extra:
        return open_walks(chain, targets, size, generator)
    return np.stack([_closed(chain, targets, generator) for _ in range(size)])


def _in_box(
    system: System, size: int, values: dict[str, ArrayLike], rng: np.random.Generator
) -> Array:
    if system.box is None and system.chains > 1:
        raise ValueError("chains in open space have no box to be put into: give their positions")
    parts = []
    for chain, many in system.kinds:
        x = random_walks(chain, size * many, **values, rng=rng)
        if system.box is not None:
            i, j = bonds(chain).T
            length = np.linalg.norm(x[:, i] - x[:, j], axis=-1).min(initial=math.inf)
            if system.box.max() > FARTHEST * length:
                said = f"the box is wider than {FARTHEST:g} bonds: they would be lost in rounding"
                raise ValueError(f"{said}, {system!r}")
            x += rng.random((len(x), 1, system.dim)) * system.box - x.mean(axis=1, keepdims=True)
        parts.append(x.reshape(size, many, chain.n, system.dim))
    return system.join(parts)


def hard_targets(chain: Chain, lengths: ArrayLike, angles: ArrayLike, torsions: ArrayLike) -> Array:
    """Values of all coordinates, in public order; soft angles and torsions are 0.

    NaN for distances and what is made of them, which have no usual value.
    """
    kinds = chain.layout.rows.kinds
    targets = np.where([KINDS[kind].extra for kind in kinds], np.nan, 0.0)
    for kind, value in ((LENGTH, lengths), (ANGLE, angles), (TORSION, torsions)):
        rows, name = np.flatnonzero(kinds == kind), f"{KINDS[kind].name}s"
        given = arrays.one_or_each(value, rows.size, name)
        if not np.isfinite(given).all():
            raise ValueError(f"{name} must be finite, got {given[~np.isfinite(given)][0]}")
        if np.abs(given).max(initial=0.0) > TURNS[kind]:
            said = f"{name} are in radians, up to {TURNS[kind]:.5g} either way"
            raise ValueError(f"{said}: got {given[np.abs(given).argmax()]:g}; see np.radians")
        if kind == LENGTH and not (given > 0.0).all():
            raise ValueError(f"lengths must be positive, got {given[~(given > 0.0)][0]:g}")
        targets[rows] = given
    return targets


def open_walks(chain: Chain, targets: Array, size: int, rng: np.random.Generator) -> Array:
    """Draw open walks (size, n, d) with the values of `hard_targets`."""
    chart = chain.n * chain.dim
    kinds = chain.layout.rows.kinds[:chart]
    soft = ~chain.hard_mask[:chart]
    q = np.tile(targets[:chart], (size, 1))
    turns = soft & (kinds == (ANGLE if chain.dim == 2 else TORSION))
    q[:, turns] = rng.uniform(-math.pi, math.pi, (size, int(turns.sum())))
    if chain.dim == 3:
        bends = soft & (kinds == ANGLE)
        q[:, bends] = np.arccos(rng.uniform(-1.0, 1.0, (size, int(bends.sum()))))
    lines = Lines(chain.straight)
    if lines:  # turning what comes after a line by nothing, so that torsions across it are right
        angles = np.flatnonzero(kinds == ANGLE)
        held = [row for row in angles if lines.contain(chain.coordinates[row].beads)]
        q[:, [*held, *(row + 1 for row in held)]] = 0.0
    return chain.cartesian(q)


def _closed(chain: Chain, targets: Array, rng: np.random.Generator) -> Array:
    for _ in range(TRIES):
        (x,) = open_walks(chain, targets, 1, rng)
        try:
            return bring(chain, x, targets)
        except (ConstraintSolveError, SingularConstraintError) as error:
            last = error
    said = f"none of {TRIES} random walks reaches the hard values: can all be met? ({last})"
    raise ConstraintSolveError(said, coordinates=last.coordinates, beads=last.beads)


def bring(chain: Chain, x: Array, targets: Array) -> Array:
    """Move hard values to their targets, in strides as long as each projection converges.

    ``targets`` are of all coordinates; where they are NaN, hard values stay.
    """
    start, rows = chain.hard_values(x), chain.layout.hard_rows
    way = np.nan_to_num(targets[chain.hard] - start)
    turning, straight = rows.trait("periodic"), rows.trait("straight")
    way[turning] = (way[turning] + math.pi) % (2.0 * math.pi) - math.pi
    done, stride = 0.0, FIRST_STRIDE
    while done < 1.0:
        ahead = min(1.0, done + stride)
        try:
            x = project(chain, x, np.where(straight, 0.0, start + ahead * way))
        except (ConstraintSolveError, SingularConstraintError):
            stride *= 0.5
            if stride < LAST_STRIDE:
                raise
        else:
            done, stride = ahead, 1.5 * stride
    return x
