"""Triples, 3×3 matrices by rows and symmetric ones (xx, xy, xz, yy, yz, zz), as tuples.

Elements are floats or `eight` states in lanes; constants come from flat tables, and units from the
work arrays and states that `fixman.kernels.lanes` describes.
"""

from __future__ import annotations

from fixman.kernels.lanes import load, put, store, take
from fixman.kernels.steps import step


@step
def cross(x, y):
    return x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]


@step
def dot(x, y):
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


@step
def plus(x, y):
    return x[0] + y[0], x[1] + y[1], x[2] + y[2]


@step
def times(R, x):
    return (
        R[0] * x[0] + R[1] * x[1] + R[2] * x[2],
        R[3] * x[0] + R[4] * x[1] + R[5] * x[2],
        R[6] * x[0] + R[7] * x[1] + R[8] * x[2],
    )


@step
def back(R, x):
    """Rᵀ x."""
    return (
        R[0] * x[0] + R[3] * x[1] + R[6] * x[2],
        R[1] * x[0] + R[4] * x[1] + R[7] * x[2],
        R[2] * x[0] + R[5] * x[1] + R[8] * x[2],
    )


@step
def times_symmetric(S, x):
    return (
        S[0] * x[0] + S[1] * x[1] + S[2] * x[2],
        S[1] * x[0] + S[3] * x[1] + S[4] * x[2],
        S[2] * x[0] + S[4] * x[1] + S[5] * x[2],
    )


@step
def constants(table, k):
    return table[k], table[k + 1], table[k + 2]


@step
def constants6(table, k):
    return table[k], table[k + 1], table[k + 2], table[k + 3], table[k + 4], table[k + 5]


@step
def matrix(table, k):
    return (
        table[k], table[k + 1], table[k + 2], table[k + 3], table[k + 4], table[k + 5],
        table[k + 6], table[k + 7], table[k + 8],
    )  # fmt: skip


@step
def load3(work, k, like):
    return load(work, k, like), load(work, k + 1, like), load(work, k + 2, like)


@step
def load6(work, k, like):
    return (
        load(work, k, like), load(work, k + 1, like), load(work, k + 2, like),
        load(work, k + 3, like), load(work, k + 4, like), load(work, k + 5, like),
    )  # fmt: skip


@step
def load9(work, k, like):
    return (
        load(work, k, like), load(work, k + 1, like), load(work, k + 2, like),
        load(work, k + 3, like), load(work, k + 4, like), load(work, k + 5, like),
        load(work, k + 6, like), load(work, k + 7, like), load(work, k + 8, like),
    )  # fmt: skip


@step
def store3(work, k, x):
    store(work, k, x[0])
    store(work, k + 1, x[1])
    store(work, k + 2, x[2])


@step
def store6(work, k, x):
    store(work, k, x[0])
    store(work, k + 1, x[1])
    store(work, k + 2, x[2])
    store(work, k + 3, x[3])
    store(work, k + 4, x[4])
    store(work, k + 5, x[5])


@step
def store9(work, k, x):
    store6(work, k, (x[0], x[1], x[2], x[3], x[4], x[5]))
    store3(work, k + 6, (x[6], x[7], x[8]))


@step
def take3(states, k, stride, like):
    return (
        take(states, k, stride, like),
        take(states, k + 1, stride, like),
        take(states, k + 2, stride, like),
    )


@step
def put3(states, k, stride, x):
    put(states, k, stride, x[0])
    put(states, k + 1, stride, x[1])
    put(states, k + 2, stride, x[2])


@step
def product(R, S):
    """R S of 3×3 matrices."""
    return (
        R[0] * S[0] + R[1] * S[3] + R[2] * S[6],
        R[0] * S[1] + R[1] * S[4] + R[2] * S[7],
        R[0] * S[2] + R[1] * S[5] + R[2] * S[8],
        R[3] * S[0] + R[4] * S[3] + R[5] * S[6],
        R[3] * S[1] + R[4] * S[4] + R[5] * S[7],
        R[3] * S[2] + R[4] * S[5] + R[5] * S[8],
        R[6] * S[0] + R[7] * S[3] + R[8] * S[6],
        R[6] * S[1] + R[7] * S[4] + R[8] * S[7],
        R[6] * S[2] + R[7] * S[5] + R[8] * S[8],
    )


@step
def transposed(R):
    return R[0], R[3], R[6], R[1], R[4], R[7], R[2], R[5], R[8]


@step
def full(S):
    return S[0], S[1], S[2], S[1], S[3], S[4], S[2], S[4], S[5]
