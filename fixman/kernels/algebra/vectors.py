"""Vectors of joints and bonds in two or three dimensions: the same bits in every lane.

A vector is three values, floats or eight lanes each (see `lanes`), the third 0 in the plane.  In
memory it has as many units as there are axes.
"""

from fixman.kernels.compiler.lanes import fma, load, put, store, take
from fixman.kernels.compiler.steps import exact_step

# One zero an axis: the number of axes is then part of a type, and known when code is compiled.
Axes = tuple[int, ...]
SPACE: Axes = (0, 0, 0)
TURNS = ((1, 2), (2, 0), (0, 1))  # each axis by the two others


@exact_step
def vector(X, k, axes, like):
    """Return joint or bond k."""
    at = k * len(axes)
    z = load(X, at + 2, like) if len(axes) == 3 else 0.0 * like
    return load(X, at, like), load(X, at + 1, like), z


@exact_step
def put_vector(X, k, axes, a):
    at = k * len(axes)
    for axis in range(len(axes)):
        store(X, at + axis, a[axis])


@exact_step
def states_of(X, at, stride, axes, like):
    """Return the vector from component ``at`` on of one state, or of eight ``stride`` apart."""
    z = take(X, at + 2, stride, like) if len(axes) == 3 else 0.0 * like
    return take(X, at, stride, like), take(X, at + 1, stride, like), z


@exact_step
def put_states(X, at, stride, axes, a):
    for axis in range(len(axes)):
        put(X, at + axis, stride, a[axis])


@exact_step
def fused_dot(a, b):
    total = a[-1] * b[-1]
    for k in range(len(a) - 2, -1, -1):
        total = fma(a[k], b[k], total)
    return total


@exact_step
def dot(a, b):
    """`fused_dot` without fused products, where a kernel must not lose a symmetry to them."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@exact_step
def minus(a, b):
    return tuple(a[k] - b[k] for k in range(len(a)))


@exact_step
def plus(a, b):
    return tuple(a[k] + b[k] for k in range(len(a)))


@exact_step
def scaled(s, a):
    return tuple(s * x for x in a)


@exact_step
def along(s, a, b):
    """Return s a + b."""
    return tuple(fma(s, a[k], b[k]) for k in range(len(a)))


@exact_step
def fused_cross(a, b):
    """a × b."""
    return tuple(fma(a[i], b[j], -(a[j] * b[i])) for i, j in TURNS)


@exact_step
def cross(a, b):
    """a × b, exactly 0 for parallel vectors: nothing is fused."""
    return tuple(a[i] * b[j] - a[j] * b[i] for i, j in TURNS)
