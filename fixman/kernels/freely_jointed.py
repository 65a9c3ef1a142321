"""Linear chains whose hard coordinates are exactly their bonds: the fused routes.

``links = (w, m)`` are inverse masses and masses of the joints, N + 1 for N bonds: the beads, after
the base point (at the origin, w = 0) where the base is fixed.

The pivots d_k = w_k + e_k of `tridiagonal` are computed here without a division in the recurrence:
with e = p / q

    q_{k+1} = q_k + m_k p_k ,   p_{k+1} = p_k + w_k s_{k+1}² q_k ,   1 / d_k = m_k q_k / q_{k+1} ,

sums of positive numbers as before.  Only the ratio of p and q matters, so both are scaled down
before q overflows.

The Fixman force needs all pivots, so it keeps the division; it is computed of one frame or of
eight in lanes, of frames that `metric` describes.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.geometry import cross, dot, measurable, minus, plus, scaled
from fixman.kernels.lanes import above, eight, exact, fma, lanes, load, put, root, store, take
from fixman.kernels.metric import aligned
from fixman.kernels.triples import load3, store3

HUGE = 1e100


@jit
def logdet_frames(x, links, n, dim, fixed, first, last, out):
    """ln det H^bb of some frames into ``out``; the first without an answer, or -1.

    The pivots telescope: d_k = w_k q_{k+1} / q_k, so det H^bb = q_{N+1} Π w_k.
    """
    w, m = links
    constant = 0.0
    for k in range(1, w.size):
        constant += math.log(w[k])
    for frame in range(first, last):
        bead = frame * n if fixed else frame * n + 1
        ux = uy = uz = 0.0
        inverse_square = 0.0
        p = w[0]
        q = 1.0
        q_before = 0.0
        total = constant
        for k in range(1, w.size):
            uxp, uyp, uzp, inverse_square_p = ux, uy, uz, inverse_square
            ux = x[bead, 0]
            uy = x[bead, 1]
            uz = x[bead, 2] if dim == 3 else 0.0
            if k > 1 or not fixed:
                ux -= x[bead - 1, 0]
                uy -= x[bead - 1, 1]
                if dim == 3:
                    uz -= x[bead - 1, 2]
            bead += 1
            square = ux * ux + uy * uy + uz * uz
            if not measurable(square):
                return frame
            inverse_square = 1.0 / square
            a = uyp * uz - uzp * uy
            b = uzp * ux - uxp * uz
            c = uxp * uy - uyp * ux
            ss = (a * a + b * b + c * c) * (inverse_square * inverse_square_p)
            p += w[k - 1] * ss * q_before
            q_before = q
            q += m[k] * p
            if q > HUGE:
                total += math.log(q)
                p /= q
                q_before /= q
                q = 1.0
        out[frame] = total + math.log(q)
        if not out[frame] < math.inf:
            return frame
    return -1


@exact
def position(x, at, stride, dim, like):
    z = 0.0 * like
    if dim == 3:
        z = take(x, at + 2, stride, like)
    return take(x, at, stride, like), take(x, at + 1, stride, like), z


@exact
def put_position(x, at, stride, dim, value):
    put(x, at, stride, value[0])
    put(x, at + 1, stride, value[1])
    if dim == 3:
        put(x, at + 2, stride, value[2])


@exact
def factored(x, at, stride, w, dim, fixed, work, like):
    """Directions, inverse lengths, −L and 1/d of the bonds, outwards; false if one has no length.

    d_k = w_k + e_k, e_{k+1} = (w_k / d_k) (e_k + w_k s_{k+1}²), as in `tridiagonal`.
    """
    zero = 0.0 * like
    before = (zero, zero, zero)
    if not fixed:
        before = position(x, at, stride, dim, like)
        at += dim
    u0 = (zero, zero, zero)
    ratio = zero
    e = zero + w[0]
    for k in range(w.size - 1):
        here = position(x, at, stride, dim, like)
        at += dim
        d = minus(here, before)
        before = here
        square = dot(d, d)
        if not measurable(square):
            return False
        inverse_length = 1.0 / root(square)
        u = scaled(inverse_length, d)
        if k > 0:
            across = cross(u0, u)
            e = ratio * (e + w[k] * dot(across, across))
        inverse = 1.0 / (w[k + 1] + e)
        store3(work, 6 * k, u)
        store(work, 6 * k + 3, inverse_length)
        store(work, 6 * k + 4, ratio * dot(u0, u))
        store(work, 6 * k + 5, inverse)
        ratio = w[k + 1] * inverse
        u0 = u
    return True


@exact
def put_force(w, kT, dim, fixed, work, out, at, stride, like):
    """kT Σ_k w_k S_{k,k+1} ∇(u_k·u_{k+1}), inwards; false if something is not finite.

    S_kk = 1/d_k + L_{k+1,k}² S_{k+1,k+1} and S_{k,k+1} = −L_{k+1,k} S_{k+1,k+1}: no subtraction
    here either.  ``at`` is one bead behind the last.
    """
    zero = 0.0 * like
    S = g = pull = check = zero
    outer = pull_outer = (zero, zero, zero)
    u = load3(work, 6 * (w.size - 2), like)
    for k in range(w.size - 2, -1, -1):
        S = load(work, 6 * k + 5, like) + g * g * S
        a = scaled(pull, outer)
        g = load(work, 6 * k + 4, like)
        inner = outer
        if k > 0:
            pull = kT * (w[k] * (g * S))
            inner = load3(work, 6 * k - 6, like)
            a = plus(a, scaled(pull, inner))
        pull_here = scaled(load(work, 6 * k + 3, like), minus(a, scaled(dot(a, u), u)))
        force = minus(pull_here, pull_outer)
        at -= dim
        put_position(out, at, stride, dim, force)
        check += 0.0 * force[0] + 0.0 * force[1] + 0.0 * force[2]
        outer = u
        u = inner
        pull_outer = pull_here
    if not fixed:
        put_position(out, at - dim, stride, dim, scaled(-1.0, pull_outer))
    return above(1.0 + zero, check)


@exact
def forces(x, w, dim, fixed, kT, first, last, out, memory, like):
    size = (w.size - 1 if fixed else w.size) * dim
    work = aligned(memory)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        at = frame * size
        if not factored(x, at, size, w, dim, fixed, work, like):
            return frame
        if not put_force(w, kT, dim, fixed, work, out, at + size, size, like):
            return frame
    return -1


@jit
def force_frames(x, w, dim, fixed, kT, first, last, out, memory):
    """Fixman forces of flat frames one by one; the first without an answer, or -1."""
    return forces(x, w, dim, fixed, kT, first, last, out, memory, 0.0)


@jit
def force_lanes(x, w, dim, fixed, kT, first, last, out, memory):
    """The same in lanes; the first of eight frames one of which has no answer, or -1."""
    return forces(x, w, dim, fixed, kT, first, last, out, memory, eight(0.0))


@jit
def two_difference(a, b):
    """a − b as a rounded value and its exact remainder."""
    s = a - b
    t = s - a
    return s, (a - (s - t)) - (b + t)


@jit
def accurate_cross(a, alow, b, blow):
    """a × b to full relative precision, low parts of the vectors included."""
    p = a[0] * b[1]
    q = a[1] * b[0]
    rounding = fma(a[0], b[1], -p) - fma(a[1], b[0], -q)
    low = (a[0] * blow[1] - a[1] * blow[0]) + (alow[0] * b[1] - alow[1] * b[0])
    return (p - q) + (rounding + low)


@jit
def planar_motion(x, v, torque, force, links, n, fixed, out):
    """Full forward dynamics of planar chains; the first frame without an answer, or -1.

    Everything is written in the angles between successive bonds, whose sines are computed without
    cancellation: q̈ keeps its digits on nearly straight chains.  In absolute angles α_k all of
    H^αα, H^αL and H^LL are tridiagonal, with the elements of theory.md section 3; rows of θ are
    differences of rows of α.  A torque on α_k is h_k L_k, the push in bond k is λ_k:

        H^LL λ = −κ^L_k − u_k·(w_k f_k − w_{k−1} f_{k−1})
                 − w_k h_{k+1} s_{k+1} + w_{k−1} h_{k−1} s_k
        L_k α̈_k = n_k·(w_k f_k − w_{k−1} f_{k−1}) + w_k (h_k − h_{k+1} c_{k+1} − λ_{k+1} s_{k+1})
                  + w_{k−1} (h_k − h_{k−1} c_k + λ_{k−1} s_k) + L_k κ^α_k

    ``torque`` and ``force`` may be empty.  ``out (frames, 2 n + N + soft)`` receives ẍ, the
    tensions and q̈.  One sweep out, one back; until its answer replaces it, each place of ``out``
    holds what the second sweep needs of the first: u, the eliminated right-hand side, α̈ so far.
    """
    w, m = links
    N = w.size - 1
    first = 0 if fixed else 2  # soft coordinates before θ₁
    soft = N + first
    shift = n - N - 1  # joint k is bead k + shift of its frame
    sines = np.zeros(N + 2)  # s_k, between bonds k − 1 and k
    rho = np.zeros(N + 1)  # q_k / q_{k+1}
    inverse_length = np.zeros(N + 2)
    for frame in range(out.shape[0]):
        acceleration = out[frame, : 2 * n]
        tension = out[frame, 2 * n : 2 * n + N]
        qdd = out[frame, 2 * n + N :]
        bead = frame * n + shift
        px = py = vx = vy = fx = fy = 0.0  # of the joint before
        if not fixed:
            px, py = x[bead, 0], x[bead, 1]
            vx, vy = v[bead, 0], v[bead, 1]
            if force.size:
                fx, fy = force[bead, 0], force[bead, 1]
            if torque.size:
                fx += torque[frame * soft]
                fy += torque[frame * soft + 1]
        base_x, base_y = fx, fy
        ax, ay = w[0] * fx, w[0] * fy
        # Outwards: geometry, velocity terms, pivots, elimination.
        dx0 = dy0 = lx0 = ly0 = ux0 = uy0 = 0.0
        z = h = h0 = 0.0
        p = w[0]
        q = 1.0
        q0 = 0.0
        for k in range(1, N + 1):
            j = bead + k
            dx, lx = two_difference(x[j, 0], px)
            dy, ly = two_difference(x[j, 1], py)
            ex, mx = two_difference(v[j, 0], vx)
            ey, my = two_difference(v[j, 1], vy)
            px, py = x[j, 0], x[j, 1]
            vx, vy = v[j, 0], v[j, 1]
            square = dx * dx + dy * dy
            if not measurable(square):
                return frame
            r = 1.0 / math.sqrt(square)
            ux = dx * r
            uy = dy * r
            c = ux0 * ux + uy0 * uy
            s = accurate_cross((dx0, dy0), (lx0, ly0), (dx, dy), (lx, ly)) * r
            s *= inverse_length[k - 1]
            inverse_length[k] = r
            sines[k] = s
            turn = (dx * ey - dy * ex) * r
            # d·ḋ, zero but for rounding where the velocities satisfy the constraints; on straight
            # chains it is all that q̈ consists of.
            rate = accurate_cross((dx, dy), (lx, ly), (-ey, ex), (-my, mx)) * r
            if torque.size:
                t = frame * soft + first + k - 1
                h = (torque[t] - (torque[t + 1] if k < N else 0.0)) * r
            bx = -ax
            by = -ay
            if force.size:
                ax, ay = w[k] * force[j, 0], w[k] * force[j, 1]
                bx += ax
                by += ay
            else:
                ax = ay = 0.0
            # The bond before now knows its neighbour: its right-hand side is complete.
            z -= w[k - 1] * h * s
            if k > 1:
                tension[k - 2] = z
            z = rho[k - 1] * c * z + w[k - 1] * h0 * s - turn * turn * r - (ux * bx + uy * by)
            p += w[k - 1] * s * s * q0
            q0 = q
            q += m[k] * p
            rho[k] = q0 / q
            if q > HUGE:
                p /= q
                q0 /= q
                q = 1.0
            qdd[first + k - 1] = (ux * by - uy * bx - 2.0 * turn * rate * r) * r
            acceleration[2 * (k + shift)] = ux
            acceleration[2 * (k + shift) + 1] = uy
            dx0, dy0, lx0, ly0, ux0, uy0, h0 = dx, dy, lx, ly, ux, uy, h
        tension[N - 1] = z
        # Inwards: back substitution; α̈ of a bond once the push before it is known.
        push1 = push = 0.0  # λ_{k+2}, λ_{k+1}
        ux0 = uy0 = 0.0  # u_{k+1}
        c1 = c = 0.0  # c_{k+2}, c_{k+1}
        h1 = h0 = 0.0  # h_{k+2}, h_{k+1}
        alpha1 = 0.0  # α̈_{k+2}
        check = 0.0
        for k in range(N, -1, -1):
            if k > 0:
                ux = acceleration[2 * (k + shift)]
                uy = acceleration[2 * (k + shift) + 1]
                c = ux0 * ux + uy0 * uy
                back = rho[k] * (m[k] * tension[k - 1] + c * push)
                tension[k - 1] = -back
                h = 0.0
                if torque.size:
                    t = frame * soft + first + k - 1
                    h = (torque[t] - (torque[t + 1] if k < N else 0.0)) * inverse_length[k]
            else:
                ux = uy = c = back = h = 0.0
            if k < N:  # bond k + 1
                alpha = qdd[first + k] + inverse_length[k + 1] * (
                    w[k + 1] * (h0 - h1 * c1 - push1 * sines[k + 2])
                    + w[k] * (h0 - h * c + back * sines[k + 1])
                )
                qdd[first + k] = alpha
                if k < N - 1:
                    qdd[first + k + 1] = alpha1 - alpha
                alpha1 = alpha
                check += 0.0 * alpha
            if k + shift >= 0:  # joint k is a bead
                fx, fy = base_x, base_y
                if k > 0:
                    fx = force[bead + k, 0] if force.size else 0.0
                    fy = force[bead + k, 1] if force.size else 0.0
                fx = w[k] * (fx - h * uy + h0 * uy0 + back * ux - push * ux0)
                fy = w[k] * (fy + h * ux - h0 * ux0 + back * uy - push * uy0)
                acceleration[2 * (k + shift)] = fx
                acceleration[2 * (k + shift) + 1] = fy
                check += 0.0 * (fx + fy)
            push1, push, c1, h1, h0, ux0, uy0 = push, back, c, h0, h, ux, uy
        if not fixed:
            qdd[0] = acceleration[0]
            qdd[1] = acceleration[1]
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1
