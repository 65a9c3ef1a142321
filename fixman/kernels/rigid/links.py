"""Links of a serial chain of rigid bodies: joint frames and 6×6 inertias, angular rows first.

A symmetric 6×6 matrix is a triple of tuples (A, B, C) for [[A, B], [Bᵀ, C]]: A and C hold xx, xy,
xz, yy, yz, zz, B its nine elements by rows.  A rotation is its nine elements by rows.  Tuples stay
in registers, which small arrays do not.

``links (n, 31)``, one row a body: rotation of the joint frame (9, by rows) and its origin (3) in
the body before, mass, mass centre (3), inertia about it (9), armature of the joint's rates (6).
``kinds (n,)`` as in `fixman.rigid.model`: 0 revolute, 1 prismatic, 2 spherical, 3 free.
"""

from __future__ import annotations

import math

from fixman.kernels import jit
from fixman.kernels.algebra.triples import (
    across,
    back,
    constants,
    entries,
    full,
    product,
    summed,
    times,
    times_symmetric,
    transposed,
    turned,
    upper,
)
from fixman.kernels.algebra.vectors import inner, outer, plus
from fixman.kernels.compiler.lanes import above, fma
from fixman.kernels.compiler.steps import exact_step, step

REVOLUTE, PRISMATIC, SPHERICAL, FREE = range(4)
POSITIONS = (1, 1, 4, 7)  # coordinates of each kind of joint
RATES = (1, 1, 3, 6)
# A joint moves by these elements of a twist, angular before linear, and by those after; a free base
# by 3, 4, 5, 0, 1, 2.
FIRST = (2, 5, 0, 3)
ARMATURE = 25  # column of ``links``
UPPER = (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)  # elements of a symmetric matrix
NOTHING = (0.0,) * 6, (0.0,) * 9, (0.0,) * 6  # the inertia (A, B, C) of no body
# How far the square of a quaternion's norm may be from 1.
UNIT = 2e-6

# A pivot of a spherical joint or a free base of which less than this is left of its diagonal
# element is mostly rounding: EPS over it is the relative error of what is divided by it.
LOST = 1e-11
# The same where a pivot's inverse is multiplied back: below this θ̈ can lose its eighth digit.
LOST_INVERSE = 1e-7


@step
def carried(R, s, A, B, C):
    """φ (A, B, C) φᵀ with φ = [[1, s×], [0, 1]] diag(R, R): an inertia seen from a body inwards."""
    A, B, C = turned(R, full(A)), turned(R, B), turned(R, full(C))
    moved = summed(B, across(s, C))
    # A + s× Bᵀ + (B + s× C) (s×)ᵀ
    A = summed(A, across(s, transposed(B)))
    A = summed(A, transposed(across(s, transposed(moved))))
    return upper(A), moved, upper(C)


@step
def felt(A, B, C, twist):
    """Absolute values of all that adds up to [a; b]ᵀ (A, B, C) [a; b] for a twist.

    A pivot is compared with those of the inertia before the last joint was taken out of it, to
    tell how many of its digits are left.
    """
    a, b = twist
    a, b, A, B, C = (tuple(abs(x) for x in part) for part in (a, b, full(A), B, full(C)))
    turning, sliding, both = inner(a, times(A, a)), inner(b, times(C, b)), inner(a, times(B, b))
    return turning + sliding + 2.0 * both


@step
def inertia_tuple(links, i):
    return tuple(links[i, k] for k in (16, 17, 18, 20, 21, 24))


@step
def rotation_tuple(X, i):
    return tuple(X[i, k] for k in range(9))


@step
def rotation(x, y, z, w):
    """Rotation matrix of a quaternion that is nearly a unit one, and whether it is."""
    norm = x * x + y * y + z * z + w * w
    t = 2.0 / norm  # a rotation to rounding, whatever rounding the quaternion has
    R = (
        1.0 - t * (y * y + z * z), t * (x * y - w * z), t * (x * z + w * y),
        t * (x * y + w * z), 1.0 - t * (x * x + z * z), t * (y * z - w * x),
        t * (x * z - w * y), t * (y * z + w * x), 1.0 - t * (x * x + y * y),
    )  # fmt: skip
    return R, above(norm, 1.0 - UNIT + 0.0 * norm) & above(1.0 + UNIT + 0.0 * norm, norm)


@jit
def joint_motion(kind, q, at):
    """Rotation and origin of the body's frame in the joint's, and whether they can be used.

    They cannot where a quaternion is not a unit one or the place of a free base is not finite.
    """
    x = (0.0, 0.0, 0.0)
    if kind == REVOLUTE:
        c, s = math.cos(q[at]), math.sin(q[at])
        return (c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0), x, True
    if kind == PRISMATIC:
        return (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), (0.0, 0.0, q[at]), True
    finite = True
    if kind == FREE:
        x = constants(q, at)
        finite = 0.0 * x[0] + 0.0 * x[1] + 0.0 * x[2] == 0.0
        at += 3
    E, unit = rotation(q[at], q[at + 1], q[at + 2], q[at + 3])
    return E, x, finite and unit


@exact_step
def put_frame(links, i, E, x, X):
    """Frame of a body in the one before, given that in its joint's."""
    for r in range(3):
        x_axis, y_axis, z_axis = (links[i, 3 * r + k] for k in range(3))
        for k in range(3):
            X[i, 3 * r + k] = fma(z_axis, E[6 + k], fma(y_axis, E[3 + k], x_axis * E[k]))
        X[i, 9 + r] = fma(z_axis, x[2], fma(y_axis, x[1], fma(x_axis, x[0], links[i, 9 + r])))


@jit
def place(q, kinds, links, X):
    """Frame of every body in the one before, ``X (n, 12)``: rotation by rows, then origin.

    ``q (nq,)``.  False where `joint_motion` cannot be used.
    """
    at = 0
    for i in range(kinds.size):
        E, x, usable = joint_motion(kinds[i], q, at)
        if not usable:
            return False
        put_frame(links, i, E, x, X)
        at += POSITIONS[kinds[i]]
    return True


@jit
def axis(kind, j):
    """Direction j of a joint: angular velocity, and velocity of the origin of the body's frame."""
    k = (FIRST[kind] + j) % 6
    e = (1.0 if k == 0 else 0.0, 1.0 if k == 1 else 0.0, 1.0 if k == 2 else 0.0)
    return e, (1.0 if k == 3 else 0.0, 1.0 if k == 4 else 0.0, 1.0 if k == 5 else 0.0)


@jit
def component(kind, j, n, f):
    """The part of a wrench [n; f] that direction j of a joint feels."""
    if kind == REVOLUTE:
        return n[2]
    if kind == PRISMATIC:
        return f[2]
    if kind == FREE and j < 3:
        return f[j]
    return n[j % 3]


@jit
def joint_twist(kind, x, at):
    """Turning and sliding of a joint by its rates, or accelerations, from ``x[at]`` on."""
    zero = (0.0, 0.0, 0.0)
    if kind == REVOLUTE:
        return (0.0, 0.0, x[at]), zero
    if kind == PRISMATIC:
        return zero, (0.0, 0.0, x[at])
    if kind == SPHERICAL:
        return constants(x, at), zero
    return constants(x, at + 3), constants(x, at)


@step
def inwards(X, i, n, f):
    """B_{i,i−1}ᵀ [n; f]."""
    R = rotation_tuple(X, i)
    f = times(R, f)
    return plus(times(R, n), outer(entries(X, i, 9), f)), f


@step
def outwards(X, i, w, v):
    """B_{i,i−1} [w; v]."""
    R = rotation_tuple(X, i)
    return back(R, w), back(R, plus(v, outer(w, entries(X, i, 9))))


# --- articulated inertias -------------------------------------------------------------------------


@step
def added(A, B, C, m, h, S):
    """(A, B, C) and a body of mass m, h = m c and inertia S about the same point."""
    B = (
        B[0], B[1] - h[2], B[2] + h[1],
        B[3] + h[2], B[4], B[5] - h[0],
        B[6] - h[1], B[7] + h[0], B[8],
    )  # fmt: skip
    return tuple(A[k] + S[k] for k in range(6)), B, (C[0] + m, C[1], C[2], C[3] + m, C[4], C[5] + m)


@step
def less(A, B, C, g, h, x, y):
    """[[A, B], [Bᵀ, C]] − [g; h] [x; y]ᵀ, of which both are symmetric."""
    return (
        tuple(A[k] - g[i] * x[j] for k, (i, j) in enumerate(UPPER)),
        tuple(B[k] - g[k // 3] * y[k % 3] for k in range(9)),
        tuple(C[k] - h[i] * y[j] for k, (i, j) in enumerate(UPPER)),
    )


@step
def past_turn(A, B, C, n, f, torque, D):
    """Take a turning about z out: P − G D Gᵀ, [n; f] + G u with u = torque − n_z; G and u/D.

    D = A_zz, and row and column of the axis become zero.  Values are floats or lanes.
    """
    inverse = 1.0 / D
    zero = 0.0 * inverse
    u = torque - n[2]
    x, y = (A[2], A[4], A[5]), (B[6], B[7], B[8])
    g, h = (A[2] * inverse, A[4] * inverse, 1.0 + zero), tuple(b * inverse for b in y)
    A, B, C = less(A, B, C, g, h, x, y)
    P = (A[0], A[1], zero, A[3], zero, zero), (*B[:6], zero, zero, zero), C
    n = (n[0] + g[0] * u, n[1] + g[1] * u, torque)
    return (*P, n, tuple(f[k] + h[k] * u for k in range(3))), g, h, u * inverse


@step
def held_turn(before, after, torque, J, D):
    """What `past_turn` leaves where a rotor of inertia J turns with the joint, D = A_zz + J.

    It holds on to the body: row and column of the axis become ρ = J/D times what they were, and
    n_z that much of what it was, the rest the torque's.  G then has 1 − ρ along the axis.  Nothing
    is subtracted for any of it.
    """
    inverse = 1.0 / D
    ρ, share = J * inverse, before[0][5] * inverse
    (A, B, _, n, _), (P, Q, R, m, f) = before, after
    P = (P[0], P[1], ρ * A[2], P[3], ρ * A[4], ρ * A[5])
    Q = (*Q[:6], ρ * B[6], ρ * B[7], ρ * B[8])
    return (P, Q, R, (m[0], m[1], ρ * n[2] + share * torque), f), ρ, share


@step
def mirrored(A, B, C, n, f):
    """The same with forces before moments: a sliding is then a turning."""
    return C, transposed(B), A, f, n


@step
def halfway(L, x):
    """L⁻¹ x for a unit lower triangle of l21, l31, l32."""
    y = x[1] - L[0] * x[0]
    return x[0], y, x[2] - L[1] * x[0] - L[2] * y


@step
def rest_of_way(L, inverse, x):
    """L⁻ᵀ D⁻¹ x."""
    z = x[2] * inverse[2]
    y = x[1] * inverse[1] - L[2] * z
    return x[0] * inverse[0] - L[0] * y - L[1] * z, y, z


@step
def past_ball(A, B, C, n, f, moment):
    """Take all turns out: C − Bᵀ A⁻¹ B, f + Bᵀ A⁻¹ u with u = moment − n; A⁻¹ B, A⁻¹ u and pivots.

    By elimination.  A⁻¹ itself would be large where a heavy body hangs on a light one, which
    nothing but that one's own inertia keeps from turning about the line between the joints, and its
    rounding would be multiplied by the heavy one's mass twice.
    """
    l21, l31 = A[1] / A[0], A[2] / A[0]
    d2 = A[3] - l21 * A[1]
    t = A[4] - l21 * A[2]
    l32 = t / d2
    L, d = (l21, l31, l32), (A[0], d2, A[5] - l31 * A[2] - l32 * t)
    inverse = tuple(1.0 / pivot for pivot in d)
    u = halfway(L, tuple(moment[k] - n[k] for k in range(3)))
    half = [halfway(L, (B[k], B[3 + k], B[6 + k])) for k in range(3)]
    whole = [rest_of_way(L, inverse, column) for column in half]
    over = [tuple(inverse[k] * column[k] for k in range(3)) for column in half]
    C = tuple(C[k] - inner(half[i], over[j]) for k, (i, j) in enumerate(UPPER))
    f = tuple(f[k] + inner(over[k], u) for k in range(3))
    return C, f, tuple(whole[k % 3][k // 3] for k in range(9)), rest_of_way(L, inverse, u), d


@step
def past_geared_ball(A, B, C, n, f, moment, J):
    """`past_ball` of D = A + J where rotors of a symmetric inertia J turn along; and D⁻¹ A.

    Of the body remain Vᵀ A and Vᵀ B with V = D⁻¹ J, which are not differences.
    """
    D = summed(A, J)
    V, W = (past_ball(D, full(S), C, n, f, moment)[2] for S in (J, A))
    C, f, K, spin, _ = past_ball(D, B, C, n, f, moment)
    kept = transposed(V)
    n = plus(n, times_symmetric(A, spin))
    return (upper(product(kept, full(A))), product(kept, B), C, n, f), W, K, spin


@jit
def not_a_number(a):
    """0, or NaN if an element of ``a`` of one axis is NaN or infinite."""
    check = 0.0
    for x in a:
        check += 0.0 * x
    return check


@jit
def lost_pivot(body, n, D, at, f, scale):
    """``body``, or n where its pivot, f rows of ``D`` from ``at``, is not lost but overflowed."""
    check = not_a_number(scale[:f])
    for j in range(at, at + f):
        check += not_a_number(D[j, :f])
    return body if check == 0.0 else n


@jit
def factor_block(given, at, f, scale, lost, D):
    """LDLᵀ of f rows of ``given``, from ``at``, into ``D`` below its diagonal; above it L⁻¹.

    False if 1 / (D⁻¹)_ii is not even ``lost`` times D_ii or ``scale (f,)``: it is nearly singular.
    """
    for i in range(f):
        for j in range(i):
            total = given[at + i, j]
            for k in range(j):
                total -= D[i, k] * D[k, k] * D[j, k]
            D[i, j] = total / D[j, j]
        D[i, i] = given[at + i, i]
        for k in range(i):
            D[i, i] -= D[i, k] * D[i, k] * D[k, k]
        if not 0.0 < D[i, i] < math.inf:
            return False
    for i in range(f):
        whole = D[i, i]
        for k in range(i):
            whole += D[i, k] * D[i, k] * D[k, k]
        inverse = 1.0 / D[i, i]
        for k in range(i + 1, f):
            total = -D[k, i]
            for j in range(i + 1, k):
                total -= D[k, j] * D[i, j]
            D[i, k] = total
            inverse += total * total / D[k, k]
        if not lost * max(whole, scale[i]) * inverse < 1.0:
            return False
    return True


@jit
def solve_block(D, f, b):
    """Overwrite ``b (f,)`` with D⁻¹ b, given `factor_block`."""
    for i in range(f):
        for k in range(i):
            b[i] -= D[i, k] * b[k]
    for i in range(f - 1, -1, -1):
        b[i] /= D[i, i]
        for k in range(i + 1, f):
            b[i] -= D[k, i] * b[k]
