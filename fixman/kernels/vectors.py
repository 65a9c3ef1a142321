"""Vectors of joints and bonds in two or three dimensions: the same bits in every lane.

A vector is three values, floats or eight lanes each (see `lanes`), the third 0 in the plane.  In
memory it has as many units as there are axes.
"""

from __future__ import annotations

from fixman.kernels.lanes import exact, fma, load, store

# One zero an axis: the number of axes is then part of a type, and known when code is compiled.
Axes = tuple[int, ...]


@exact
def vector(X, k, dim, like):
    """Return joint or bond k."""
    at = k * dim
    z = 0.0 * like
    if dim == 3:
        z = load(X, at + 2, like)
    return load(X, at, like), load(X, at + 1, like), z


@exact
def put_vector(X, k, dim, a):
    at = k * dim
    store(X, at, a[0])
    store(X, at + 1, a[1])
    if dim == 3:
        store(X, at + 2, a[2])


@exact
def inner(a, b):
    return fma(a[0], b[0], fma(a[1], b[1], a[2] * b[2]))


@exact
def minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@exact
def plus(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@exact
def scaled(s, a):
    return s * a[0], s * a[1], s * a[2]


@exact
def along(s, a, b):
    """S a + b."""
    return fma(s, a[0], b[0]), fma(s, a[1], b[1]), fma(s, a[2], b[2])


@exact
def outer(a, b):
    return (
        fma(a[1], b[2], -(a[2] * b[1])),
        fma(a[2], b[0], -(a[0] * b[2])),
        fma(a[0], b[1], -(a[1] * b[0])),
    )
