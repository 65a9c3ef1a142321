"""Whole charts, frame by frame: x → q, q → x with velocities, and inverse dynamics.

The references of a bead come before it in ``sequence (n,)``; the chart rows of bead k are rows
k d … k d + d − 1 of the coordinate table.
"""

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra import vectors as vec
from fixman.kernels.algebra.vectors import SPACE, plus, put_vector, scaled, vector
from fixman.kernels.chain import rows as row
from fixman.kernels.compiler.lanes import entry, exact, root
from fixman.kernels.compiler.steps import exact_step

# --- rows ----------------------------------------------------------------------------------------
#
# Points are padded, three numbers each: 0, 1, 2 are the ghosts x₋₂, x₋₁, x₀ and 3 + k is bead k.


@exact
def put_velocities(v, frame, n, dim, fixed, V):
    """Fill padded velocities, ghosts' as of what they ride on; false if one is not finite."""
    at = frame * n * dim
    check = 0.0
    for k in range(3, n + 3):
        for a in range(dim):
            V[3 * k + a] = entry(v, at)
            check += 0.0 * entry(v, at)
            at += 1
        if dim == 2:
            V[3 * k + 2] = 0.0
    for g in range(9):
        V[g] = 0.0 if fixed else V[9 + g % 3]
    return check == 0.0


@exact
def put_points(x, frame, n, dim, fixed, P):
    finite = put_velocities(x, frame, n, dim, fixed, P)
    P[3] -= 1.0
    P[0] -= 1.0
    P[1] -= 1.0
    return finite


@exact
def chart_bonds(P, points, r, kind, fixed):
    """Bonds of a row, those between ghosts and the bead they ride on exact wherever it is."""
    u, v, t = row.bonds(kind, P, points, r, SPACE, 0.0)
    if not fixed and entry(points, 4 * r) < 3:
        u = ghost_bond(entry(points, 4 * r), entry(points, 4 * r + 1), u)
        v = ghost_bond(entry(points, 4 * r + 1), entry(points, 4 * r + 2), v)
        t = ghost_bond(entry(points, 4 * r + 2), entry(points, 4 * r + 3), t)
    return u, v, t


@exact
def ghost_bond(i, j, u):
    if i >= 3 or j > 3:
        return u
    x = (1.0 if i <= 1 else 0.0) - (1.0 if j <= 1 else 0.0)
    return x, (1.0 if i == 0 else 0.0) - (1.0 if j == 0 else 0.0), 0.0


@exact
def value(P, kinds, points, r, fixed):
    """A coordinate and the divisor of its gradient, 0 where a bond cannot be measured."""
    kind = entry(kinds, r)
    u, v, t = chart_bonds(P, points, r, kind, fixed)
    c, s, divisor = row.measure(kind, u, v, t)
    if entry(row.TURNS, kind):
        c = math.atan2(s, c)
    return c, divisor if row.measured(kind, u, v, t) else 0.0


@exact
def wilson_row(P, kinds, points, r, fixed, B, at):
    """Write ∂q/∂x of four points from ``B[at]``; return the divisor, 0 where there is none."""
    kind = entry(kinds, r)
    for a in range(12):
        B[at + a] = 0.0
    u, v, t = chart_bonds(P, points, r, kind, fixed)
    if not row.measured(kind, u, v, t):
        return 0.0
    divisor = row.put_gradient(kind, B, at // 3, u, v, t, SPACE)
    beads = entry(row.BEADS, kind)
    if beads == 2:
        for a in range(3):
            B[at + 3 + a] = B[at + a]
            B[at + a] = -B[at + a]
    if not fixed and entry(points, 4 * r) < 3:
        ride(points, r, beads, B, at)
    return divisor


@exact
def ride(points, r, size, B, at):
    """Give bead 0 of a free chain what its ghosts would get, as minus the sum of other beads'."""
    host = at
    for slot in range(size):
        if entry(points, 4 * r + slot) <= 3:
            host = at + 3 * slot
    for a in range(3):
        rest = 0.0
        for slot in range(size):
            if entry(points, 4 * r + slot) > 3:
                rest += B[at + 3 * slot + a]
            else:
                B[at + 3 * slot + a] = 0.0
        B[host + a] = -rest


@exact
def row_times(B, columns, r, Y, at, dim):
    """∂q/∂x · Y of row r, which `wilson_row` left in B, with beads from ``Y[at]`` on."""
    total = 0.0
    for slot in range(4):
        j = entry(columns, 4 * r + slot)
        if j >= 0:
            for a in range(dim):
                total += B[3 * slot + a] * Y[at + j * dim + a]
    return total


@exact
def add_row(B, columns, r, size, Y, at, dim):
    for slot in range(4):
        j = entry(columns, 4 * r + slot)
        if j >= 0:
            for a in range(dim):
                Y[at + j * dim + a] += size * B[3 * slot + a]


@exact
def row_curvature(P, V, kinds, points, r, fixed):
    """κ of a row, given padded velocities as well."""
    kind = entry(kinds, r)
    u, v, t = chart_bonds(P, points, r, kind, fixed)
    du, dv, dt = row.bonds(kind, V, points, r, SPACE, 0.0)
    return row.curvature(kind, u, v, t, du, dv, dt)


@jit
def internal_frames(x, n, dim, fixed, kinds, points, q):
    """Coordinates into ``q (frames, m)``; the first frame without a bond or a torsion, or -1."""
    P = np.empty(3 * n + 9)
    bad = -1
    for frame in range(q.shape[0]):
        good = put_points(x, frame, n, dim, fixed, P)
        for r in range(kinds.size):
            q[frame, r], divisor = value(P, kinds, points, r, fixed)
            # A straight angle has a value; bonds that cannot be measured are lengths as well.
            good = good and (divisor > row.SMALLEST_SINE or row.EVERYWHERE[kinds[r]] == 1)
        if not good and bad < 0:
            bad = frame
    return bad


@jit
def rate_frames(x, v, motion, n, dim, fixed, rows, out):
    """κ of some coordinates in every frame, or B ẍ + κ, where frames of ``motion`` begin with ẍ."""
    kinds, points, columns = rows
    width = 0 if motion is None else motion.size // max(out.shape[0], 1)
    P, V, B = np.empty(3 * n + 9), np.empty(3 * n + 9), np.empty(12)
    for frame in range(out.shape[0]):
        good = put_points(x, frame, n, dim, fixed, P)
        good = put_velocities(v, frame, n, dim, fixed, V) and good
        check = 0.0
        for r in range(kinds.size):
            if motion is None:
                total, (_, divisor) = 0.0, value(P, kinds, points, r, fixed)
            else:
                divisor = wilson_row(P, kinds, points, r, fixed, B, 0)
                total = row_times(B, columns, r, motion, frame * width, dim)
            if not divisor > row.SMALLEST_SINE:
                return frame
            out[frame, r] = total + row_curvature(P, V, kinds, points, r, fixed)
            check += 0.0 * out[frame, r]
        if not good or check != 0.0:
            return frame
    return -1


@jit
def gradient_rows(x, n, dim, fixed, kinds, points, B, sines):
    """Wilson rows ``B (m · 12,)`` of one frame and their divisors; false if x is not finite."""
    P = np.empty(3 * n + 9)
    finite = put_points(x, 0, n, dim, fixed, P)
    for r in range(kinds.size):
        sines[r] = wilson_row(P, kinds, points, r, fixed, B, 12 * r)
    return finite


@exact_step
def bond_frame(e, radial, c, s):
    """Direction ê and ŷ of a bond at an angle from its axis, in a half plane, made orthonormal."""
    along = plus(scaled(c, e), scaled(s, radial))
    along = scaled(1.0 / root(vec.dot(along, along)), along)
    beside = vec.minus(scaled(s, e), scaled(c, radial))
    beside = vec.minus(beside, scaled(vec.dot(beside, along), along))
    return along, scaled(1.0 / root(vec.dot(beside, beside)), beside)


@exact_step
def summed(p, low, step):
    """p + step, with the rounding of earlier sums, and what is rounded off now."""
    step = plus(step, low)
    total = plus(p, step)
    shift = vec.minus(total, p)
    return total, plus(vec.minus(p, vec.minus(total, shift)), vec.minus(step, shift))


@exact
def chart_vector(q, frame, c, dim):
    """The coordinates of a bead, from column c on; the third is 0 in the plane."""
    return q[frame, c], q[frame, c + 1], q[frame, c + 2] if dim == 3 else 0.0


@jit
def cartesian_frames(q, qd, shape, hinges, sequence, x, v):
    """Positions, and velocities where there are rates ``qd``, from chart coordinates.

    ``shape`` is n, dim and whether the base is fixed; x and v are flat.  Each bond carries a frame
    (ê along it, ŷ in the plane of it and its axis, away from the start of the axis) and the half
    plane r̂ beside its axis that it lies in, so that nothing is singular, not even on a straight
    chain.  Frames are made orthonormal at every bead, else rounding grows along the chain.
    """
    n, dim, fixed = shape
    parents, hosts, signs, starts = hinges
    none = (0.0, 0.0, 0.0)
    E, Y, R = np.zeros(3 * n + 9), np.zeros(3 * n + 9), np.zeros(3 * n + 9)
    # Summing positions loses a digit every hundred bonds; the rounding of each sum is kept.
    P, low = np.zeros(3 * n + 9), np.zeros(3 * n + 9)
    # Velocities; turning rates of frames, and of axes with their half planes.
    V, omega, Omega = np.zeros(3 * n + 9), np.zeros(3 * n + 9), np.zeros(3 * n + 9)
    E[6 if fixed else 9] = 1.0
    Y[7 if fixed else 10] = 1.0
    for frame in range(q.shape[0]):
        for k in sequence:
            c, i = k * dim, k + 3
            if not fixed and k == 0:
                put_vector(P, i, SPACE, chart_vector(q, frame, c, dim))
                put_vector(low, i, SPACE, none)
                if qd is not None:
                    put_vector(V, i, SPACE, chart_vector(qd, frame, c, dim))
                continue
            parent, host, same = parents[k] + 3, hosts[k] + 3, starts[k]
            axis = scaled(signs[k], vector(E, host, SPACE, 0.0))
            length, angle, torsion = chart_vector(q, frame, c, dim)
            if dim == 2:
                radial = (-axis[1], axis[0], 0.0)
            else:
                half_plane = scaled(-1.0, vector(Y, host, SPACE, 0.0))
                if same >= 0:
                    half_plane = vector(R, same + 3, SPACE, 0.0)
                radial = scaled(math.sin(torsion), vec.cross(axis, half_plane))
                radial = plus(scaled(math.cos(torsion), half_plane), radial)
            direction, beside = bond_frame(axis, radial, math.cos(angle), math.sin(angle))
            put_vector(R, i, SPACE, radial)
            put_vector(E, i, SPACE, direction)
            put_vector(Y, i, SPACE, beside)
            start, begun = vector(P, parent, SPACE, 0.0), vector(low, parent, SPACE, 0.0)
            position, rest = summed(start, begun, scaled(length, direction))
            put_vector(P, i, SPACE, position)
            put_vector(low, i, SPACE, rest)
            if qd is not None:
                stretch, bend, twist = chart_vector(qd, frame, c, dim)
                turn = vector(omega, host, SPACE, 0.0)
                if same >= 0:
                    turn = vector(Omega, same + 3, SPACE, 0.0)
                turn = plus(turn, scaled(twist, axis))
                put_vector(Omega, i, SPACE, turn)
                turn = plus(turn, scaled(bend, vec.cross(axis, radial)))
                put_vector(omega, i, SPACE, turn)
                rate = plus(scaled(stretch, direction), scaled(length, vec.cross(turn, direction)))
                put_vector(V, i, SPACE, plus(vector(V, parent, SPACE, 0.0), rate))
        at = frame * n * dim
        for i in range(3, n + 3):
            for a in range(dim):
                x[at] = P[3 * i + a]
                if qd is not None:
                    v[at] = V[3 * i + a]
                at += 1


@exact
def chart_row(P, rows, c, fixed, B):
    """Row c of the chart into B; where its own bead is there, and |∂q/∂x|² of it, 0 if singular."""
    kinds, points, _ = rows
    if not wilson_row(P, kinds, points, c, fixed, B, 0) > row.SMALLEST_SINE:
        return 0, 0.0
    own = 3 * (entry(row.BEADS, entry(kinds, c)) - 1)
    return own, B[own] ** 2 + B[own + 1] ** 2 + B[own + 2] ** 2


@jit
def inverse_frames(x, v, qdd, F, masses, dim, fixed, rows, sequence):
    """Turn q̈ on the chart, ``qdd (frames, n d)``, into B⁻ᵀ (M ẍ − F) with ẍ = B⁻¹ (q̈ − κ).

    Returns the first frame without an answer, or -1.  ``rows`` are kinds, points and columns; x, v
    and F are flat, and F is overwritten.  The rows of bead k are orthogonal on bead k itself and
    otherwise touch earlier beads only: ẍ is found bead by bead outwards, torques inwards.
    """
    n = masses.size
    kinds, points, columns = rows
    P, V, B = np.empty(3 * n + 9), np.empty(3 * n + 9), np.empty(12)
    y = np.empty(n * dim)  # ẍ
    for frame in range(qdd.shape[0]):
        at = frame * n * dim
        if not (
            put_points(x, frame, n, dim, fixed, P) and put_velocities(v, frame, n, dim, fixed, V)
        ):
            return frame
        for k in sequence:
            first = k * dim
            for a in range(dim):
                y[first + a] = 0.0
            for c in range(first, first + dim):
                own, norm = chart_row(P, rows, c, fixed, B)
                if norm == 0.0:
                    return frame
                lack = qdd[frame, c] - row_curvature(P, V, kinds, points, c, fixed)
                lack = (lack - row_times(B, columns, c, y, 0, dim)) / norm
                for a in range(dim):
                    y[first + a] += lack * B[own + a]
        for k in range(n):
            for a in range(k * dim, k * dim + dim):
                F[at + a] = masses[k] * y[a] - F[at + a]
        check = 0.0
        for k in sequence[::-1]:
            for c in range(k * dim, k * dim + dim):
                own, norm = chart_row(P, rows, c, fixed, B)
                along = 0.0
                for a in range(dim):
                    along += B[own + a] * F[at + k * dim + a]
                qdd[frame, c] = along / norm
                add_row(B, columns, c, -qdd[frame, c], F, at, dim)
                check += 0.0 * qdd[frame, c]
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1
