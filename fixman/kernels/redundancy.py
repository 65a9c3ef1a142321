"""Which rows of a positive semidefinite matrix depend on those before them."""

from __future__ import annotations

import numpy as np

from fixman.kernels import jit


@jit
def dependent_rows(V, first, row, left_first, left_place, left_column, tolerance, lost):
    """Mark in ``lost (m,)`` the rows whose pivot falls below ``tolerance`` of their diagonal.

    The factorization is that of `sparse.factor` and goes on without them.
    """
    m = lost.size
    work = np.empty(m)
    for j in range(m):
        begin = first[j]
        end = first[j + 1]
        diagonal = V[begin]
        for p in range(begin, end):
            work[row[p]] = V[p]
        for t in range(left_first[j], left_first[j + 1]):
            ratio = V[left_place[t]] * V[first[left_column[t]]]
            for p in range(left_place[t], first[left_column[t] + 1]):
                work[row[p]] -= ratio * V[p]
        lost[j] = not work[j] > tolerance * diagonal
        V[begin] = 1.0 if lost[j] else work[j]
        for p in range(begin + 1, end):
            V[p] = 0.0 if lost[j] else work[row[p]] / V[begin]
