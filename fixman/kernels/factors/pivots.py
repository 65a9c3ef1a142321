"""Factors agree on when a pivot is lost, and how logarithms of many pivots add up."""

from __future__ import annotations

import math

from fixman.kernels import jit

# A pivot this much smaller than its diagonal element has three correct digits left, at best: its
# rounding is that of the diagonal element, and of what was taken from it.
SMALLEST_PIVOT = 4096.0 * 2.0**-52


@jit
def times(product, d, total):
    """Accumulate ln d: factors are multiplied, and a logarithm taken only near overflow."""
    if not 1e-140 < d < 1e140:
        return product, total + math.log(d)
    product *= d
    if not 1e-140 < product < 1e140:
        return 1.0, total + math.log(product)
    return product, total
