"""Rows of Wilson's B, and what velocities add to the accelerations of coordinates."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from scipy import sparse

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, require_chain, single

__all__ = ["velocity_terms", "wilson_b"]


def wilson_b(chain: Chain, x: ArrayLike) -> sparse.csr_array[Any, Any]:
    """Wilson's B = ∂q/∂x of one configuration x (n, dim) (theory.md section 2), in O(n).

    A matrix (len(chain.coordinates), n * dim) with at most 4·dim elements a row.
    SingularCoordinateError where a coordinate has no gradient: a straight 3-D angle, or a torsion
    next to one.
    """
    x = single(chain, x)
    rows = chain.layout.rows
    return rows.to_sparse(chain.layout.gradients(rows, x))


def velocity_terms(chain: Chain, x: ArrayLike, v: ArrayLike) -> Array:
    """κ = ẋᵀ (∂²q/∂x²) ẋ, the part of q̈ that comes from velocities (theory.md section 3).

    An array (..., len(chain.coordinates)) from x and v (..., n, dim), in O(n) a frame.  Errors are
    those of `wilson_b`.
    """
    require_chain(chain)
    tail = (chain.n, chain.dim)
    x, v = arrays.real(x, tail, "x"), arrays.real(v, tail, "v")
    lead = arrays.common_lead(x.shape[:-2], v.shape[:-2])
    x, v = arrays.spread(x, lead, tail), arrays.spread(v, lead, tail)
    kappa = chain.layout.rates(chain.layout.rows, x, v, None, "velocity terms")
    return kappa.reshape(*lead, kappa.shape[1])
