"""An articulated inertia and its bias force, and what joints do to them.

    I^A = [[A, B], [Bᵀ, C]],   p^A = [n; f],   U = I^A s,   D = sᵀ U + J,   u = τ − sᵀ p^A
    I^a = I^A − U D⁻¹ Uᵀ,   p^a = p^A + U D⁻¹ u                              `freed` of s

as in Featherstone (2008, table 7.1), whose I, H and M are A, B and C.  Rodriguez & Kreutz (1988)
have P for I^A, z for p^A, G for U/D (5.12), ε for u (5.16); I^a is their (1 − G H) P.  J is the
armature of the rate.  p^a lacks I^a c here, which `articulated_body` adds.

Angular rows come first.  A and C are xx, xy, xz, yy, yz, zz, B is nine elements by rows: tuples
stay in registers, which small arrays do not.  Elements are floats or eight states in lanes.

Only a turn about z is ever freed.  The others are this one with other names: a slide with forces
and moments `mirrored`, another axis `renamed`, a screw `sheared`.
"""

from typing import Any, NamedTuple

from fixman.kernels import plain
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, plus
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid.joints import DIRECTION

UPPER = (0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)  # elements of a symmetric matrix
NOTHING = (0.0,) * 6, (0.0,) * 9, (0.0,) * 6  # the inertia (A, B, C) of no body

# A pivot smaller than this share of its diagonal element is mostly rounding: EPS over it is the
# relative error of what is divided by the pivot.
LOST = 1e-11
# Where a pivot's inverse is multiplied back: below this θ̈ can lose its eighth digit.
LOST_INVERSE = 1e-7


class Articulated(NamedTuple):
    """I^A and p^A of a body with all that hangs on it."""

    A: Any
    B: Any
    C: Any
    moment: Any
    force: Any


class Rate(NamedTuple):
    """A rate that has been freed: what the last sweep needs of it."""

    g: Any  # U/D = [g; h], of which g[2] is (D − J)/D
    h: Any
    u: Any  # u/D
    D: Any
    rotor: Any  # J/D


# --- sums, and other points and axes of reference -------------------------------------------------


@step
def added(body, m, h, S):
    """I^A and a body of mass m, h = m c and inertia S about the same point."""
    A, B, C, n, f = body
    B = (
        B[0], B[1] - h[2], B[2] + h[1],
        B[3] + h[2], B[4], B[5] - h[0],
        B[6] - h[1], B[7] + h[0], B[8],
    )  # fmt: skip
    C = (C[0] + m, C[1], C[2], C[3] + m, C[4], C[5] + m)
    return Articulated(tuple(A[k] + S[k] for k in range(6)), B, C, n, f)


@step
def carried(R, s, body):
    """φ I^A φᵀ and φ p^A with φ = [[1, s×], [0, 1]] diag(R, R): as the body before sees them."""
    A, B, C, n, f = body
    A, B, C = mat.turned(R, mat.full(A)), mat.turned(R, B), mat.turned(R, mat.full(C))
    moved = plus(B, mat.across(s, C))
    # A + s× Bᵀ + (B + s× C) (s×)ᵀ
    A = plus(A, mat.across(s, mat.transposed(B)))
    A = plus(A, mat.transposed(mat.across(s, mat.transposed(moved))))
    f = mat.times(R, f)
    n = plus(mat.times(R, n), fused_cross(s, f))
    return Articulated(mat.upper(A), moved, mat.upper(C), n, f)


@step
def felt(A, B, C, twist):
    """Absolute values of all that adds up to [a; b]ᵀ (A, B, C) [a; b] for a twist.

    Those of the inertia before the last joint was freed tell how many digits a pivot has left.
    """
    a, b = twist
    a, b, A, B, C = (tuple(abs(x) for x in y) for y in (a, b, mat.full(A), B, mat.full(C)))
    turning, sliding = fused_dot(a, mat.times(A, a)), fused_dot(b, mat.times(C, b))
    return turning + sliding + 2.0 * fused_dot(a, mat.times(B, b))


@step
def turn_symmetric(S, c, s):
    w = s * (S[0] - S[3]) + (c + c) * S[1]
    return S[0] - s * w, c * w - S[1], c * S[2] - s * S[4], S[3] + s * w, s * S[2] + c * S[4], S[5]


@step
def turn(body, c, s):
    """I^A and p^A in the axes before the turn (c, s) about z."""
    A, B, C, n, f = body
    w = s * (B[0] - B[4]) + c * (B[1] + B[3])
    B = (
        B[0] - s * w, c * w - B[3], c * B[2] - s * B[5],
        c * w - B[1], B[4] + s * w, s * B[2] + c * B[5],
        c * B[6] - s * B[7], s * B[6] + c * B[7], B[8],
    )  # fmt: skip
    A, C = turn_symmetric(A, c, s), turn_symmetric(C, c, s)
    n = (c * n[0] - s * n[1], s * n[0] + c * n[1], n[2])
    f = (c * f[0] - s * f[1], s * f[0] + c * f[1], f[2])
    return Articulated(A, B, C, n, f)


@step
def slide(body, d):
    """I^A and p^A about the point before the slide d along z."""
    A, B, C, n, f = body
    new = (
        B[0] - d * C[1], B[1] - d * C[3], B[2] - d * C[4],
        B[3] + d * C[0], B[4] + d * C[1], B[5] + d * C[2],
        B[6], B[7], B[8],
    )  # fmt: skip
    A = (
        A[0] - d * (B[1] + new[1]),
        A[1] + d * (B[0] - new[4]),
        A[2] - d * B[7],
        A[3] + d * (B[3] + new[3]),
        A[4] + d * B[6],
        A[5],
    )
    return Articulated(A, new, C, (n[0] - d * f[1], n[1] + d * f[0], n[2]), f)


# --- a rate is freed ------------------------------------------------------------------------------


@step
def less(A, B, C, g, h, x, y):
    """[[A, B], [Bᵀ, C]] − [g; h] [x; y]ᵀ, of which both are symmetric."""
    return (
        tuple(A[k] - g[i] * x[j] for k, (i, j) in enumerate(UPPER)),
        tuple(B[k] - g[k // 3] * y[k % 3] for k in range(9)),
        tuple(C[k] - h[i] * y[j] for k, (i, j) in enumerate(UPPER)),
    )


@step
def freed(body, tau, J):
    """I^a and p^a of a turn about z, s = z, with a rotor of inertia J; and its `Rate`.

    Row and column of the axis become J/D times what they were, and n_z becomes
    (J/D) n_z + (U/D)_z τ: nothing is subtracted.
    """
    A, B, C, n, f = body
    x, y = (A[2], A[4], A[5]), (B[6], B[7], B[8])  # U = [x; y]
    D = A[5] + J
    inverse = 1.0 / D
    rotor = J * inverse
    u = tau - n[2]
    g, h = tuple(a * inverse for a in x), tuple(b * inverse for b in y)
    A, B, C = less(A, B, C, g, h, x, y)
    A = (A[0], A[1], rotor * x[0], A[3], rotor * x[1], rotor * x[2])
    B = (*B[:6], rotor * y[0], rotor * y[1], rotor * y[2])
    n = (n[0] + g[0] * u, n[1] + g[1] * u, rotor * n[2] + g[2] * tau)
    f = tuple(f[k] + h[k] * u for k in range(3))
    return Articulated(A, B, C, n, f), Rate(g, h, u * inverse, D, rotor)


@step
def mirrored(body):
    """I^A and p^A with forces before moments: a slide is then a turn."""
    A, B, C, n, f = body
    return Articulated(C, mat.transposed(B), A, f, n)


@step
def renamed_wrench(n, f):
    return (n[1], n[2], n[0]), (f[1], f[2], f[0])


@step
def renamed(body):
    """I^A and p^A with other names of the axes: y becomes x, z becomes y, x becomes z."""
    A, B, C, n, f = body
    return Articulated(
        (A[3], A[4], A[1], A[5], A[2], A[0]),
        (B[4], B[5], B[3], B[7], B[8], B[6], B[1], B[2], B[0]),
        (C[3], C[4], C[1], C[5], C[2], C[0]),
        *renamed_wrench(n, f),
    )


@step
def sheared_wrench(n, f, pitch):
    return (n[0], n[1], n[2] + pitch * f[2]), f


@step
def sheared(body, pitch):
    """I^A and p^A with v_z − pitch ω_z in the place of v_z: a screw is then a turn."""
    A, B, C, n, f = body
    x, y = (pitch * B[2], pitch * B[5], pitch * B[8]), tuple(pitch * C[k] for k in (2, 4, 5))
    A = (A[0], A[1], A[2] + x[0], A[3], A[4] + x[1], A[5] + 2.0 * x[2] + pitch * y[2])
    B = (*B[:6], B[6] + y[0], B[7] + y[1], B[8] + y[2])
    return Articulated(A, B, C, *sheared_wrench(n, f, pitch))


@plain
def free_rate(kind, pitch, j, body, tau, J):
    """Free rate j of a joint, whatever its axis is; ``g`` and ``h`` are in the body's axes."""
    k = DIRECTION[kind, j]
    if k == 2 and pitch == 0.0:  # the general case says the same, later
        return freed(body, tau, J)
    body = mirrored(body) if k >= 3 else sheared(body, pitch)
    for _ in range((k + 1) % 3):
        body = renamed(body)
    body, rate = freed(body, tau, J)
    g, h, u, D, rotor = rate
    for _ in range((5 - k) % 3):
        body = renamed(body)
        g, h = (g[1], g[2], g[0]), (h[1], h[2], h[0])
    if k >= 3:
        return mirrored(body), Rate(h, g, u, D, rotor)
    return sheared(body, -pitch), Rate((g[0], g[1], g[2] - pitch * h[2]), h, u, D, rotor)
