"""Mean forces of overdamped chains with constraints: what is left when the noise is averaged out.

With mobilities K = 1/ζ and forces G bead k drifts at K_k (G − Bᵀ T)_k and diffuses by kT D, as in
`kernels.chain.drift`.  kT c there is also the mean of κ over thermal velocities of a chain of
masses ζ, and T that chain's mean tension in Newton's mechanics, at rest but for them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
from scipy import sparse

from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.layout import HardPattern, int32, minimum_degree
from fixman.kernels.chain.drift import Drift, drift_frames, units
from fixman.kernels.factors.sparse import Symbolic, analyse, places
from fixman.mechanics.metric import run_frames
from fixman.mechanics.refusals import raise_failure


class MeanForces(NamedTuple):
    """Forces that move the beads in the mean.

    total (..., n, dim) : G − Bᵀ T, friction times drift
    tensions (..., n_hard) : T, in the order of ``chain.hard``; a stretched rod has T > 0
    held (..., dim, dim) : Σ_k (Bᵀ S B K)_kk, symmetric part; its trace is n_hard
    """

    total: Array
    tensions: Array
    held: Array


def mean_forces(chain: Chain, x: Array, force: Array, friction: Array, kT: float) -> MeanForces:
    """Average the noise out of the forces on configurations x (..., n, dim).

    ``force (..., n, dim)`` is all that is no constraint's; in a flow v, ζ v is of it.  O(n) a frame
    for chains and trees of bounded degree and for each ring.
    """
    n, dim, _, hard, _ = chain.layout.sizes
    lead = x.shape[:-2]
    drift = _pattern(chain).drift(1.0 / friction)
    out = np.empty((prod(lead), n * dim + hard + 6))
    given = x.reshape(-1), force.reshape(-1), drift, kT
    bad = run_frames(drift_frames, given, len(out), out.reshape(-1), units(drift))
    if bad >= 0:
        raise_failure(replace(chain, masses=friction), x, bad, force=force)
    total, tensions, six = np.split(out, [n * dim, n * dim + hard], axis=1)
    held = six[:, [[0, 1, 2], [1, 3, 4], [2, 4, 5]]][:, :dim, :dim]
    return MeanForces(
        total.reshape(*lead, n, dim), tensions.reshape(*lead, hard), held.reshape(*lead, dim, dim)
    )


@lru_cache(maxsize=16)
def _pattern(chain: Chain) -> _Wide:
    given = chain.layout.pattern
    wide = _Wide(given.rows, given.order)
    if not chain.extra:
        return wide
    # The order for a ring's H^bb fills a wider pattern with O(n²).
    best = minimum_degree(len(given.rows), *(wide.touching @ wide.touching).nonzero())
    return _Wide(given.rows.take(best), given.order[best])


class _Wide(HardPattern):
    """Hard rows with room for S between any two that a third one touches."""

    @cached_property
    def touching(self) -> sparse.csr_array:
        """Rows that move a bead in common (m, m)."""
        pairs = self.slots.row, self.slots.bead
        shape = len(self.rows), self.rows.n
        moves = sparse.csr_array((np.ones(self.slots.bead.size), pairs), shape)
        found = sparse.csr_array(moves @ moves.T)
        found.sort_indices()
        return found

    @cached_property
    def symbolic(self) -> Symbolic:
        i, j = (self.touching @ self.touching).nonzero()
        below = i >= j
        return analyse(len(self.rows), i[below], j[below])

    def drift(self, inverse_masses: Array) -> Drift:
        system = self.system(inverse_masses)
        m = len(self.rows)
        begins, near = self.touching.indptr.astype(np.int64), self.touching.indices
        counts = np.diff(begins)
        start = np.repeat(begins[:-1], counts)  # where the rows that touch the same one begin
        until = np.arange(near.size) - start + 1
        within = np.arange(until.sum()) - np.repeat(np.cumsum(until) - until, until)
        later, earlier = np.repeat(near, until), near[np.repeat(start, until) + within]
        diagonal = np.isin(system.products[::3], system.symbolic.first[:-1])
        pairs = counts * (counts + 1) // 2
        return Drift(
            hard=system,
            slots=int32(np.searchsorted(system.owners, np.arange(m + 1))),
            begins=int32(begins),
            near=int32(near),
            firsts=int32(np.cumsum(pairs) - pairs),
            places=int32(places(self.symbolic, later, earlier)),
            doubled=np.where(diagonal, 1.0, 2.0) * system.weights,
            most=int(counts.max(initial=0)),
        )
