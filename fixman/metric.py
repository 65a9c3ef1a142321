"""The mass-metric determinant over many configurations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from fixman import _arrays
from fixman._arrays import Array
from fixman.chain import Chain, count, require_chain
from fixman.kernels import freely_jointed, motion
from fixman.partition import raise_failure

__all__ = ["logdet"]


def logdet(chain: Chain, x: ArrayLike) -> Array:
    """ln det H^bb of each configuration (Fixman 1974).

    Half of it, in units of kT, is the potential that makes a simulation with rigid bonds sample
    the ensemble of stiff ones; exp(−½ ln det H^bb) is the weight that does so for the frames of a
    rigid simulation already run (theory.md section 4).  Stiff means the limit of springs whose
    constants do not depend on the configuration.

    Parameters
    ----------
    chain : Chain
    x : (..., n, dim)

    Returns
    -------
    ndarray (...)
        Depends on units of mass and length by a constant only.

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held in some frame, which is named.  Bonds alone never
        fail unless beads coincide, straight chains included.

    Notes
    -----
    O(n h²) a frame for half-bandwidth h, without a Python loop over frames; bonds alone are
    factored without subtraction.
    """
    require_chain(chain)
    n, dim, links, _, _ = chain._sizes
    x = _arrays.real(x, (n, dim), "x")
    lead = x.shape[:-2]
    out = np.empty(count(lead))
    flat = x.reshape(-1, dim)
    if links.size:
        bad = freely_jointed.logdet_frames(flat, links, n, dim, chain._fixed, out)
    else:
        rows = chain._hard_pattern.rows
        bad = motion.logdet_frames(
            flat, n, dim, chain._fixed, rows.kinds, rows.beads, *chain._band,
            chain._inverse_masses, out,
        )  # fmt: skip
    if bad >= 0:
        raise_failure(chain, x, bad)
    answer: Array = out.reshape(lead)[()]  # one configuration: a number
    return answer
