"""Links of a serial chain of rigid bodies, and the way from body to body.

``links (n, 32)``, one row a body: rotation of the joint frame (9, by rows) and its origin (3) in
the body before, mass, mass centre (3), inertia about it (9), armature of the joint's rates (6), and
its pitch.  ``kinds (n,)`` as in `joints`.  Twists [ω; v] and wrenches [n; f] are angular first,
about the origin of a body's frame and in its axes.
"""

from fixman.kernels import jit
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, plus, scaled
from fixman.kernels.compiler.lanes import fma
from fixman.kernels.compiler.steps import exact_step, step
from fixman.kernels.rigid.joints import POSITIONS, RATES, component, joint_motion, not_a_number

MASS, ARMATURE, PITCH = 12, 25, 31  # columns of ``links``


@step
def deviation(s, u, v):
    """s [(u·v) 1 − u vᵀ]."""
    d = fused_dot(u, v)
    return tuple(s * ((d if i == j else 0.0) - u[i] * v[j]) for i in range(3) for j in range(3))


@step
def momentum(bodies, i, at, w, v):
    """Moment about the origin, and force: the inertia of body i times a twist or its rate.

    ``bodies``: from column ``at`` on mass, mass centre and the inertia about it, as ``links`` has.
    """
    m, c = bodies[i, at], mat.entries(bodies, i, at + 1)
    f = scaled(m, plus(v, fused_cross(w, c)))
    return plus(mat.times(mat.entries9(bodies, i, at + 4), w), fused_cross(c, f)), f


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

    0, or NaN where one of the coordinates ``q (nq,)`` is not finite, or `joint_motion` says so.
    """
    at = 0
    check = 0.0
    for i in range(kinds.size):
        E, x, found = joint_motion(kinds[i], links[i, PITCH], q, at)
        put_frame(links, i, E, x, X)
        check += found
        at += POSITIONS[kinds[i]]
    return check + not_a_number(q)


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


@jit
def project(kinds, links, X, j, at, wrench, A, column, mirrored):
    """p_iᵀ B_jiᵀ [n; f] for i ≤ j into a column of A, and its row if ``mirrored``; NaN or 0.

    Joint j's rates begin at ``at``.
    """
    n, f = wrench
    for i in range(j, -1, -1):
        if i < j:
            n, f = inwards(X, i + 1, n, f)
            at -= RATES[kinds[i]]
        for b in range(RATES[kinds[i]]):
            value = component(kinds[i], links[i, PITCH], b, n, f)
            A[at + b, column] = value
            if mirrored:
                A[column, at + b] = value
    return 0.0 * (f[0] + f[1] + f[2] + n[0] + n[1] + n[2])
