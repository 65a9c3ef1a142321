"""Starts of dense systems: beads that overlap are moved apart under the constraints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.system import System, require_model
from fixman.errors import ConstraintSolveError
from fixman.kernels.chain.rows import LENGTH
from fixman.potentials.energies import FENE, WCA, Compiled, Pair, Sum, terms_of
from fixman.potentials.systems import PairForces, Softened
from fixman.simulation.steppers.scheduled import Langevin

CORES = (1.05, 1.0, 0.95, 0.9, 0.85)  # distances over σ below which the force stays as it is there
STEPS, MOST = 200, 40  # of a core, and so many times of the last
STRIDE, FRICTION = 0.005, 1.0  # in units of σ √(m/ε) and its inverse
PACKED = {2: 2.0 / math.sqrt(3.0), 3: math.sqrt(2.0)}  # n σᵈ/V of discs and spheres, at most


def push_off(
    system: System | Chain,
    x: ArrayLike,
    potential: Any = None,
    *,
    kT: float = 1.0,
    rng: int | np.random.Generator | None = None,
    workers: int = 1,
) -> Array:
    """Move beads that overlap apart, under the constraints, until a pair potential is usable.

    The pair force of this Langevin dynamics is constant below a distance, which shrinks from 1.05
    to 0.85 σ (after Auhl et al. 2003).  Chains keep their hard values, and roughly their shapes.

    Parameters
    ----------
    x : (n, dim) or (replicas, n, dim)
        Positions, as `random_walks` draws them for a system.
    potential : optional
        A potential with a pair term, by default ``WCA()``.  Soft bonds need a term that holds them:
        ``FENE() + WCA(exclude=0)``.
    kT : float

    Returns
    -------
    ndarray, of the shape of x
        O(n).  ConstraintSolveError if beads do not separate because the density is too high; at
        once, if not even their cores have room.
    """
    require_model(system)
    model = System(system) if isinstance(system, Chain) else system
    potential = WCA() if potential is None else potential
    terms = terms_of(potential)
    term = next((one for one in terms if isinstance(one, Pair)), None)
    if term is None:
        raise ValueError("potential must have a pair term, WCA or LennardJones")
    holding = (t for t in terms if isinstance(t, (FENE, Compiled)) or not hasattr(t, "_tabulate"))
    if not any(holding) and any(_has_soft_bonds(chain) for chain, _ in model.kinds):
        said = "soft bonds would tear: give a potential that holds them, as well as a pair term"
        raise ValueError(f"{said}, such as potential=FENE() + WCA(exclude=0), or make them hard")
    given = arrays.real(x, (model.n, model.dim), "x")
    density = ""
    if model.box is not None:
        crowding = _crowding(model, term, given)
        density = f"a density of {model.n / model.volume:.3g}, n σᵈ/V = {crowding:.3g}, where "
        density += f"a melt has some 0.85 and close-packed beads {PACKED[model.dim]:.3g}"
        if crowding * CORES[-1] ** model.dim > PACKED[model.dim]:
            raise ConstraintSolveError(f"the beads have no room in their box: {density}")
        density += "; or "
    model.require_whole(given, "x")
    energy = max(float(np.max(term.epsilon)), arrays.positive(kT, "kT"))
    time = float(np.min(term.sigma)) * math.sqrt(float(model.masses.min()) / energy)
    x0, state = given.reshape(-1, model.n, model.dim), None
    for core in CORES:
        soft = Softened(term, core)
        potential = Sum((soft, *(one for one in terms if one is not term)))
        stepper = Langevin(STRIDE * time, kT=kT, friction=FRICTION / time, potential=potential)
        state = state or stepper.start(model, x0, replicas=len(x0), rng=rng)
        pairs = PairForces(model, soft)
        for _ in range(MOST if core == CORES[-1] else 1):
            stepper.advance(model, state, STEPS, workers)
            nearest = [pairs.nearest(y) for y in state.x]
            if min(nearest) > core:
                break
    if min(nearest) <= CORES[-1]:
        replica = int(np.argmin(nearest))
        said = f"two beads of replica {replica} stay at {nearest[replica]:.2g} of their σ"
        rest = f": {density}hard values that leave no room, or masses that differ very much"
        raise ConstraintSolveError(said, rest, replica=replica)
    assert state is not None
    return state.x.reshape(given.shape)


def _has_soft_bonds(chain: Chain) -> bool:
    rows = chain.layout.soft_rows
    return bool(chain.closing or ((rows.kinds == LENGTH) & ~rows.external).any())


def _crowding(system: System, term: Pair, x: Array) -> float:
    """Return n σᵈ/V; of a bead whose bonds are shorter than σ counts what no other one covers."""
    sigma, d = arrays.one_or_each(term.sigma, system.n, "sigma"), system.dim
    i, j = system.bonds().T
    bonds = np.linalg.norm(x[..., i, :] - x[..., j, :], axis=-1)
    own = np.minimum(sigma, bonds.mean()) if bonds.size else sigma
    return float(np.sum(sigma ** (d - 1) * own) / system.volume)
