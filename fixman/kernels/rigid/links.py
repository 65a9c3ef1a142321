"""Links of a serial chain of rigid bodies, and the way from body to body.

``links (n, 32)``, one row a body: rotation of the joint frame (9, by rows) and its origin (3) in
the body before, mass, mass centre (3), inertia about it (9), armature of the joint's rates (6), and
its pitch.  ``kinds (n,)`` as in `joints`.  Twists [ω; v] and wrenches [n; f] are angular first,
about the origin of a body's frame and in its axes.
"""

from fixman.kernels import jit
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, plus
from fixman.kernels.compiler.lanes import fma
from fixman.kernels.compiler.steps import exact_step, step
from fixman.kernels.rigid.joints import POSITIONS, joint_motion, not_a_number

ARMATURE, PITCH = 25, 31  # columns of ``links``


@step
def deviation(s, u, v):
    """s [(u·v) 1 − u vᵀ]."""
    d = fused_dot(u, v)
    return tuple(s * ((d if i == j else 0.0) - u[i] * v[j]) for i in range(3) for j in range(3))


@exact_step
def put_frame(links, i, E, x, X):
    """Frame of a body in the one before, given that in its joint's."""
    for r in range(3):
        x_axis, y_axis, z_axis = (links[i, 3 * r + k] for k in range(3))
        for k in range(3):
            X[i, 3 * r + k] = fma(z_axis, E[6 + k], fma(y_axis, E[3 + k], x_axis * E[k]))
        X[i, 9 + r] = fma(z_axis, x[2], fma(y_axis, x[1], fma(x_axis, x[0], links[i, 9 + r])))


@jit
def transforms(q, kinds, links, X):
    """Frame of every body in the one before, ``X (n, 12)``: rotation by rows, then origin.

    False where one of the coordinates ``q (nq,)`` is not finite, or `joint_motion` is not usable.
    """
    at = 0
    for i in range(kinds.size):
        E, x, usable = joint_motion(kinds[i], links[i, PITCH], q, at)
        if not usable:
            return False
        put_frame(links, i, E, x, X)
        at += POSITIONS[kinds[i]]
    return not_a_number(q) == 0.0


@step
def inwards(X, i, n, f):
    """B_{i,i−1}ᵀ [n; f]."""
    R = mat.entries9(X, i, 0)
    f = mat.times(R, f)
    return plus(mat.times(R, n), fused_cross(mat.entries(X, i, 9), f)), f


@step
def outwards(X, i, w, v):
    """B_{i,i−1} [w; v]."""
    R = mat.entries9(X, i, 0)
    return mat.back(R, w), mat.back(R, plus(v, fused_cross(w, mat.entries(X, i, 9))))
