"""The drag of a homogeneous flow on beads: ζ_k κ (x_k − x_c) with the centre of friction x_c.

Relative to a fixed base the shares are 0, and so is x_c.  Nothing is compiled without a flow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra.vectors import along, minus, vector
from fixman.kernels.compiler.lanes import exact, load, store
from fixman.kernels.compiler.steps import exact_step


class Flow(NamedTuple):
    """A flow as the kernels read it.

    gradients (d · d,) or (steps · d · d,) : κ, the same always or one for each step of a call
    drags, shares (joints,) : ζ_k, and ζ_k / Σ ζ
    """

    gradients: np.ndarray[Any, np.dtype[np.float64]]
    drags: np.ndarray[Any, np.dtype[np.float64]]
    shares: np.ndarray[Any, np.dtype[np.float64]]


@exact_step
def centred(X, k, share, centre, axes, like):
    return along(share + 0.0 * like, vector(X, k, axes, like), centre)


@exact_step
def drag(X, F, k, centre, flow, axes, like):
    """Add ζ κ (x − x_c) of joint k to F; ``flow`` are the gradients, their place and ζ."""
    gradients, at, zeta = flow
    dim = len(axes)
    x = minus(vector(X, k, axes, like), centre)
    for a in range(dim):
        v = 0.0 * like
        for b in range(dim):
            v = v + gradients[at + a * dim + b] * x[b]
        store(F, k * dim + a, load(F, k * dim + a, like) + zeta * v)


@exact
def carry(flow, X, F, step, axes, like):
    """F += the drag of a flow, as it is in a step of this call; of None nothing."""
    if flow is not None:
        gradients, drags, shares = flow
        square = len(axes) * len(axes)
        at = min(step * square, gradients.size - square)
        centre = 0.0 * like, 0.0 * like, 0.0 * like
        for k in range(drags.size):
            centre = centred(X, k, shares[k], centre, axes, like)
        for k in range(drags.size):
            drag(X, F, k, centre, (gradients, at, drags[k]), axes, like)
