"""Links of a serial chain of rigid bodies: joint frames and 6×6 inertias, angular rows first.

A symmetric 6×6 matrix is a triple of tuples (A, B, C) for [[A, B], [Bᵀ, C]]: A and C hold xx, xy,
xz, yy, yz, zz, B its nine elements by rows.  A rotation is its nine elements by rows.  Tuples stay
in registers, which small arrays do not.

``links (n, 25)``, one row a body: rotation of the joint frame (9, by rows) and its origin (3) in
the body before, mass, mass centre (3), inertia about it (9).  ``kinds (n,)`` as in
`fixman.rigid.model`: 0 revolute, 1 prismatic, 2 spherical, 3 free.
"""

from __future__ import annotations

import math

from fixman.kernels import jit
from fixman.kernels.steps import step
from fixman.kernels.triples import back, cross, plus, product, times, times_symmetric, transposed

# A pivot of a spherical joint or a free base of which less than this is left of its diagonal
# element is mostly rounding: EPS over it is the relative error of what is divided by it.
LOST = 1e-11
# The same where a pivot's inverse is multiplied back: below this θ̈ can lose its eighth digit.
LOST_INVERSE = 1e-7


@step
def turned(R, A):
    """R A Rᵀ for a symmetric A."""
    x = times_symmetric(A, (R[0], R[1], R[2]))
    y = times_symmetric(A, (R[3], R[4], R[5]))
    z = times_symmetric(A, (R[6], R[7], R[8]))
    return (
        R[0] * x[0] + R[1] * x[1] + R[2] * x[2],
        R[3] * x[0] + R[4] * x[1] + R[5] * x[2],
        R[6] * x[0] + R[7] * x[1] + R[8] * x[2],
        R[3] * y[0] + R[4] * y[1] + R[5] * y[2],
        R[6] * y[0] + R[7] * y[1] + R[8] * y[2],
        R[6] * z[0] + R[7] * z[1] + R[8] * z[2],
    )


@step
def carried(R, s, A, B, C):
    """φ (A, B, C) φᵀ with φ = [[1, s×], [0, 1]] diag(R, R): an inertia seen from a body inwards."""
    A = turned(R, A)
    C = turned(R, C)
    B = product(product(R, B), transposed(R))
    # F = s× C and Bn = B + F, then A + s× Bᵀ + Bn (s×)ᵀ
    Bn = (
        B[0] + s[1] * C[2] - s[2] * C[1],
        B[1] + s[1] * C[4] - s[2] * C[3],
        B[2] + s[1] * C[5] - s[2] * C[4],
        B[3] + s[2] * C[0] - s[0] * C[2],
        B[4] + s[2] * C[1] - s[0] * C[4],
        B[5] + s[2] * C[2] - s[0] * C[5],
        B[6] + s[0] * C[1] - s[1] * C[0],
        B[7] + s[0] * C[3] - s[1] * C[1],
        B[8] + s[0] * C[4] - s[1] * C[2],
    )
    An = (
        A[0] + (s[1] * B[2] - s[2] * B[1]) + (s[1] * Bn[2] - s[2] * Bn[1]),
        A[1] + (s[1] * B[5] - s[2] * B[4]) + (s[2] * Bn[0] - s[0] * Bn[2]),
        A[2] + (s[1] * B[8] - s[2] * B[7]) + (s[0] * Bn[1] - s[1] * Bn[0]),
        A[3] + (s[2] * B[3] - s[0] * B[5]) + (s[2] * Bn[3] - s[0] * Bn[5]),
        A[4] + (s[2] * B[6] - s[0] * B[8]) + (s[0] * Bn[4] - s[1] * Bn[3]),
        A[5] + (s[0] * B[7] - s[1] * B[6]) + (s[0] * Bn[7] - s[1] * Bn[6]),
    )
    return An, Bn, C


@step
def felt(R, s, A, B, C, e, v):
    """Absolute values of all that adds up to [e; v]ᵀ φ (A, B, C) φᵀ [e; v].

    A pivot is compared with those of the inertia before the last joint was taken out of it, to
    tell how many of its digits are left.
    """
    a = back(R, e)
    b = back(R, plus(v, cross(e, s)))
    a0, a1, a2 = abs(a[0]), abs(a[1]), abs(a[2])
    b0, b1, b2 = abs(b[0]), abs(b[1]), abs(b[2])
    turning = a0 * a0 * A[0] + a1 * a1 * A[3] + a2 * a2 * A[5]
    sliding = b0 * b0 * C[0] + b1 * b1 * C[3] + b2 * b2 * C[5]
    across = a0 * a1 * abs(A[1]) + a0 * a2 * abs(A[2]) + a1 * a2 * abs(A[4])
    across += b0 * b1 * abs(C[1]) + b0 * b2 * abs(C[2]) + b1 * b2 * abs(C[4])
    across += a0 * (b0 * abs(B[0]) + b1 * abs(B[1]) + b2 * abs(B[2]))
    across += a1 * (b0 * abs(B[3]) + b1 * abs(B[4]) + b2 * abs(B[5]))
    across += a2 * (b0 * abs(B[6]) + b1 * abs(B[7]) + b2 * abs(B[8]))
    return turning + sliding + 2.0 * across


@step
def inertia_tuple(links, i):
    return (
        links[i, 16], links[i, 17], links[i, 18], links[i, 20], links[i, 21], links[i, 24],
    )  # fmt: skip


@step
def rotation_tuple(X, i):
    return (X[i, 0], X[i, 1], X[i, 2], X[i, 3], X[i, 4], X[i, 5], X[i, 6], X[i, 7], X[i, 8])


@step
def quaternion_rotation(q, at):
    """Rotation matrix of the quaternion q[at : at + 4], scalar last, whatever its norm."""
    x, y, z, w = q[at], q[at + 1], q[at + 2], q[at + 3]
    s = 2.0 / (x * x + y * y + z * z + w * w)
    return (
        1.0 - s * (y * y + z * z), s * (x * y - w * z), s * (x * z + w * y),
        s * (x * y + w * z), 1.0 - s * (x * x + z * z), s * (y * z - w * x),
        s * (x * z - w * y), s * (y * z + w * x), 1.0 - s * (x * x + y * y),
    )  # fmt: skip


@jit
def place(q, kinds, links, X):
    """Frame of every body in the one before, ``X (n, 12)``: rotation by rows, then origin.

    ``q (nq,)``.  False if a quaternion is not a unit one.
    """
    at = 0
    for i in range(kinds.size):
        R = rotation_tuple(links, i)
        x, y, z = links[i, 9], links[i, 10], links[i, 11]
        kind = kinds[i]
        if kind == 0:
            c = math.cos(q[at])
            s = math.sin(q[at])
            R = (
                R[0] * c + R[1] * s, R[1] * c - R[0] * s, R[2],
                R[3] * c + R[4] * s, R[4] * c - R[3] * s, R[5],
                R[6] * c + R[7] * s, R[7] * c - R[6] * s, R[8],
            )  # fmt: skip
            at += 1
        elif kind == 1:
            x += R[2] * q[at]
            y += R[5] * q[at]
            z += R[8] * q[at]
            at += 1
        else:
            if kind == 3:
                a, b, c = times(R, (q[at], q[at + 1], q[at + 2]))
                x += a
                y += b
                z += c
                at += 3
            square = 0.0
            for j in range(at, at + 4):
                square += q[j] * q[j]
            if not abs(square - 1.0) <= 2e-6:
                return False
            R = product(R, quaternion_rotation(q, at))
            at += 4
        for j in range(9):
            X[i, j] = R[j]
        X[i, 9] = x
        X[i, 10] = y
        X[i, 11] = z
    return True


@jit
def place_frames(q, kinds, links, X):
    """`place` for ``q (frames, nq)`` into ``X (frames, n, 12)``; the first bad frame, or -1."""
    for frame in range(q.shape[0]):
        if not place(q[frame], kinds, links, X[frame]):
            return frame
        for i in range(kinds.size):
            for j in range(12):
                if not math.isfinite(X[frame, i, j]):
                    return frame
    return -1


@jit
def not_a_number(a):
    """0, or NaN if an element of ``a`` of one axis is NaN or infinite."""
    check = 0.0
    for x in a:
        check += 0.0 * x
    return check


@jit
def lost_pivot(body, n, D, f, scale):
    """``body``, or n where its pivot ``D (f, f)`` is not lost but overflowed."""
    check = not_a_number(scale[:f])
    for j in range(f):
        check += not_a_number(D[j, :f])
    return body if check == 0.0 else n


@jit
def factor_block(D, f, scale, lost):
    """LDLᵀ of ``D (f, f)`` below its diagonal; above it L⁻¹.

    False if 1 / (D⁻¹)_ii is not even ``lost`` times D_ii or ``scale (f,)``: D is nearly singular.
    """
    for i in range(f):
        for j in range(i):
            total = D[i, j]
            for k in range(j):
                total -= D[i, k] * D[k, k] * D[j, k]
            D[i, j] = total / D[j, j]
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


@jit
def full(A, B, C, P):
    """Write [[A, B], [Bᵀ, C]] into ``P (6, 6)``."""
    P[0, 0], P[0, 1], P[0, 2], P[1, 1], P[1, 2], P[2, 2] = A
    P[3, 3], P[3, 4], P[3, 5], P[4, 4], P[4, 5], P[5, 5] = C
    P[0, 3], P[0, 4], P[0, 5], P[1, 3], P[1, 4], P[1, 5], P[2, 3], P[2, 4], P[2, 5] = B
    for i in range(6):
        for j in range(i):
            P[i, j] = P[j, i]


@step
def packed(P):
    """Return (A, B, C) of ``P (6, 6)``, upper triangle."""
    A = (P[0, 0], P[0, 1], P[0, 2], P[1, 1], P[1, 2], P[2, 2])
    B = (
        P[0, 3], P[0, 4], P[0, 5], P[1, 3], P[1, 4], P[1, 5], P[2, 3], P[2, 4], P[2, 5],
    )  # fmt: skip
    return A, B, (P[3, 3], P[3, 4], P[3, 5], P[4, 4], P[4, 5], P[5, 5])
