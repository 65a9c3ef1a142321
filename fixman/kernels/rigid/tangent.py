"""The tangent of the variational midpoint rule: articulated bodies with two sets of axes.

A step from q_0 to q_1 at rates v solves p_0 = p_m(v) − (dt/2) f_m(v), and

    J = Σ_k Š_kᵀ K_k Ŝ_k,     Š at q_0,  Ŝ at q_1,     Q = I − (dt/2) (I ω)×               (M5)

is its derivative but for terms of O(dt²) of loads and of the curvature of joints: −dt D₁D₂L_d of
free bodies, as joints let them move at both ends of the step.  K = [[Q, 0], [0, m]] about the mass
centre.  ℳ(q_m) will not do in place of J: it differs by (dt/2) ∂p/∂q, which a light body between
heavy ones multiplies by the ratio of their inertias.  J is not symmetric: a rate leaves
K − U D⁻¹ V, with U = K Ŝ, V = Šᵀ K and D = Šᵀ K Ŝ.  `solve` is the filter and smoother of
Rodriguez & Kreutz (1988), (4.20) and (4.22), with V in the latter.

Axes are those of the base; the point of reference of a body is its origin, at q_0 for rows and at
q_1 for columns.  ``work (n, WIDTH)`` and ``rows (nv, RATE)``, see below; ``K (36,)``, angular
before linear.
"""

import math

from fixman.kernels import entry, plain
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.triples import entries, entries6, entries9, product, put_entries, times
from fixman.kernels.algebra.vectors import fused_cross, fused_dot, plus, scaled
from fixman.kernels.compiler.steps import step
from fixman.kernels.rigid import joints as joint
from fixman.kernels.rigid.articulated_body import DONE, EPS
from fixman.kernels.rigid.joints import FLAT, RATES, UNTURNED, sliding, turning
from fixman.kernels.rigid.links import ARMATURE, MASS, PITCH, deviation

# Columns of ``work``: orientation of a body and the way from the origin before at both ends, and Q.
AT_START, AT_END, INERTIA, WIDTH = 0, 12, 24, 33
# Columns of ``rows``: Š and Ŝ of a rate, U/D, V, 1/D.
LEFT, RIGHT, COLUMN, ROW, PIVOT, RATE = 0, 6, 12, 18, 24, 25
NO_LEVER = (0.0,) * 9


@step
def cross_matrix(x):
    zero = 0.0 * x[0]
    return zero, -x[2], x[1], x[2], zero, -x[0], -x[1], x[0], zero


@plain
def b_coefficients(angle):
    """Coefficients of n× and (n×)² in B(−X), of X = angle n: B(X) = (1 − e^{−X×})/X×."""
    if angle == 0.0:
        return 0.0, 0.0
    s = math.sin(0.5 * angle)
    return 2.0 * s * s / angle, 1.0 - math.sin(angle) / angle


@plain
def times_b(y, axis, angle, sign):
    """B(±X)ᵀ y for X = angle · axis."""
    first, second = b_coefficients(angle)
    return joint.along_screw(y, axis, sign * first, second)


@step
def screw(n, first, second):
    """1 + first n× + second (n×)²."""
    x, y = scaled(first, n), deviation(-second, n, n)
    y = (1.0 + y[0], *y[1:4], 1.0 + y[4], *y[5:8], 1.0 + y[8])
    return plus(y, cross_matrix(x))


@plain
def place_axes(X, work, end):
    """Orientations of the bodies and ways from origin to origin, at one end of a step."""
    R = UNTURNED
    for i in range(X.shape[0]):
        put_entries(work, i, end + 9, times(R, entries(X, i, 9)))
        R = product(R, entries9(X, i, 0))
        put_entries(work, i, end, R)


@plain
def set_axes(kind, pitch, work, i, v, at, h, rows):
    """Š and Ŝ: motions by the rates of a joint, angular before linear, of its body's origin.

    R and T are the body's axes at q_0 and q_1.  A FLAT joint has the columns of S turned by R and
    by T.  Of another, with X = 2 h ω of the joint and its slides at rates u, the axes of the middle
    are R e^{X/2} = T e^{−X/2}, and

        Š: turns R B(−X), slides R e^{X/2}
        Ŝ: turns T B(X), slides T e^{−X/2};  a turn e moves the origin besides, by
           −h (T e^{−X/2} u) × (T e^{−X/2} B(X/2) e), as the axes of the middle turn by ½ B(X/2) δX
    """
    R, T = entries9(work, i, AT_START), entries9(work, i, AT_END)
    turn_0, turn_1, slide_0, slide_1, lever = R, T, R, T, NO_LEVER
    if not FLAT[kind]:
        angle, n = joint.unit_vector(scaled(2.0 * h, turning(kind, v, at)))
        a, b = b_coefficients(angle)
        c, d = b_coefficients(0.5 * angle)
        # R B(−X), T B(X); then R e^{X/2}, T e^{−X/2}
        turn_0, turn_1 = product(R, screw(n, a, b)), product(T, screw(n, -a, b))
        s, t = math.sin(0.5 * angle), 1.0 - math.cos(0.5 * angle)
        slide_0, slide_1 = product(R, screw(n, s, t)), product(T, screw(n, -s, t))
        way = scaled(-h, times(slide_1, sliding(kind, v, at)))
        lever = mat.across(way, product(slide_1, screw(n, -c, d)))
    for j in range(RATES[kind]):
        e, u = joint.axis(kind, pitch, j)
        put_entries(rows, at + j, LEFT, (*times(turn_0, e), *times(slide_0, u)))
        moved = plus(times(slide_1, u), times(lever, e))
        put_entries(rows, at + j, RIGHT, (*times(turn_1, e), *moved))


@step
def column_of(K, x):
    """K x."""
    y = [K[6 * i] * x[0] for i in range(6)]
    for k in range(1, 6):
        y = [y[i] + K[6 * i + k] * x[k] for i in range(6)]
    return tuple(y)


@step
def row_of(K, x):
    """xᵀ K."""
    y = [x[0] * K[k] for k in range(6)]
    for i in range(1, 6):
        y = [y[k] + x[i] * K[6 * i + k] for k in range(6)]
    return tuple(y)


@step
def subtract(K, column, row):
    for i in range(6):
        new = [K[6 * i + k] - column[i] * row[k] for k in range(6)]
        for k in range(6):
            K[6 * i + k] = new[k]


@plain
def take_out(a, d, rows, K):
    """Let rate a go, by elimination: K − U D⁻¹ V in place of K; D, with d of the joint itself."""
    x, y = entries6(rows, a, LEFT), entries6(rows, a, RIGHT)
    U, V = column_of(K, y), row_of(K, x)
    D = fused_dot(x, U) + d
    inverse = 1.0 / D
    U = scaled(inverse, U)
    put_entries(rows, a, COLUMN, U)
    put_entries(rows, a, ROW, V)
    rows[a, PIVOT] = inverse
    subtract(K, U, V)
    return D


@step
def add_body(m, c, work, i, K):
    """K += [[Q + m ((y·x) 1 − y xᵀ), m x×], [−m y×, m]]: x, y = the centre at q_0, q_1."""
    R, T = entries9(work, i, AT_START), entries9(work, i, AT_END)
    x, y = times(R, c), times(T, c)
    A = plus(entries9(work, i, INERTIA), deviation(m, y, x))
    B, C = cross_matrix(scaled(m, x)), cross_matrix(scaled(-m, y))
    for r in range(3):
        K[21 + 7 * r] = K[21 + 7 * r] + m
        for k in range(3):
            K[6 * r + k] = K[6 * r + k] + A[3 * r + k]
            if r != k:
                K[6 * r + 3 + k] = K[6 * r + 3 + k] + B[3 * r + k]
                K[6 * r + 18 + k] = K[6 * r + 18 + k] + C[3 * r + k]


@step
def move(x, y, K):
    """See K from origins from which these lie at x for rows and at y for columns."""
    for r in range(0, 36, 6):
        a = fused_cross(y, (K[r + 3], K[r + 4], K[r + 5]))
        for k in range(3):
            K[r + k] = K[r + k] + a[k]
    new = [fused_cross(x, (K[k + 18], K[k + 24], K[k + 30])) for k in range(6)]
    for k in range(6):
        for r in range(3):
            K[6 * r + k] = K[6 * r + k] + new[k][r]


@plain
def factor(chain, room, h):
    """Factors of J at rates v_m, h = dt/2, from tip to base; DONE, or a body without a pivot.

    ``chain`` and ``room`` as in `motion`, with X and V as `momenta` has left them at the middle.
    A lost pivot is rounding or not positive: J then need not be singular, but ℳ is.
    """
    kinds, links, damping, stiffness = chain.kinds, chain.links, chain.springs[0], chain.springs[1]
    X, V, v, work, rows, K = room.sweeps.X, room.sweeps.V, room.v_m, room.axes, room.rows, room.K
    R = UNTURNED
    at = 0
    for i in range(kinds.size):  # Q of every body
        R = product(R, entries9(X, i, 0))
        turn = turning(kinds[i], v, at)
        at += RATES[kinds[i]]
        own = entries9(links, i, 16)
        spin = times(R, times(own, plus(entries(V, i, 3), turn)))
        put_entries(work, i, INERTIA, plus(mat.turned(R, own), cross_matrix(scaled(-h, spin))))
    lost, size = DONE, 0.0  # size of the numbers whose difference A is: rounding leaves EPS of it
    for k in range(36):
        K[k] = 0.0
    for i in range(kinds.size - 1, -1, -1):
        kind = kinds[i]
        f = RATES[kind]
        at -= f
        add_body(links[i, MASS], entries(links, i, 13), work, i, K)
        set_axes(kind, links[i, PITCH], work, i, v, at, h, rows)
        linear = K[21] + K[28] + K[35]
        size += K[0] + K[7] + K[14]
        for k in range(at + f - 1, at - 1, -1):
            d = links[i, ARMATURE + k - at] + h * (damping[k] + h * stiffness[k])
            whole = size if joint.DIRECTION[kind, k - at] < 3 or not FLAT[kind] else linear
            if not take_out(k, d, rows, K) > 4.0 * EPS * whole:
                lost = i
        if i > 0:
            s, t = entries(work, i, AT_START + 9), entries(work, i, AT_END + 9)
            size = K[0] + K[7] + K[14] + fused_dot(s, t) * linear
            move(s, t, K)
    return lost


@entry
def solve(kinds, work, rows, x):
    """J⁻¹ x, in its place."""
    n = f = (0.0, 0.0, 0.0)  # ẑ, moment and force; ε replaces x
    at = x.size
    for i in range(kinds.size - 1, -1, -1):
        for k in range(at - 1, at - RATES[kinds[i]] - 1, -1):
            x[k] -= fused_dot(entries6(rows, k, LEFT), (*n, *f))
            n = plus(n, scaled(x[k], entries(rows, k, COLUMN)))
            f = plus(f, scaled(x[k], entries(rows, k, COLUMN + 3)))
        at -= RATES[kinds[i]]
        n = plus(n, fused_cross(entries(work, i, AT_START + 9), f))
    w = u = (0.0, 0.0, 0.0)  # λ, angular and linear
    for i in range(kinds.size):
        u = plus(u, fused_cross(w, entries(work, i, AT_END + 9)))
        for k in range(at, at + RATES[kinds[i]]):
            x[k] = rows[k, PIVOT] * (x[k] - fused_dot(entries6(rows, k, ROW), (*w, *u)))
            w = plus(w, scaled(x[k], entries(rows, k, RIGHT)))
            u = plus(u, scaled(x[k], entries(rows, k, RIGHT + 3)))
        at += RATES[kinds[i]]
