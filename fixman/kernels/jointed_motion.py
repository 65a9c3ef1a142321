"""Motion of linear chains whose hard coordinates are exactly their bonds, whatever their masses.

``links`` are those of `freely_jointed`, and divisions are put off as there.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.freely_jointed import accurate_cross, bend, two_difference
from fixman.kernels.rows import measurable, place, place_velocities
from fixman.kernels.vectors import cross, dot, minus, plus, scaled

LARGE = 1e30  # so that products of two of them with masses can be formed


@jit
def accurate_bond(P, j):
    """P_j − P_{j−1} as a rounded vector and its exact remainder."""
    x, xlow = two_difference(P[j, 0], P[j - 1, 0])
    y, ylow = two_difference(P[j, 1], P[j - 1, 1])
    z, zlow = two_difference(P[j, 2], P[j - 1, 2])
    return (x, y, z), (xlow, ylow, zlow)


@jit
def beside(u):
    """Return a unit vector at a right angle to the unit vector u."""
    if abs(u[0]) <= min(abs(u[1]), abs(u[2])):
        s = 1.0 / math.sqrt(u[1] * u[1] + u[2] * u[2])
        return 0.0, -s * u[2], s * u[1]
    if abs(u[1]) <= abs(u[2]):
        s = 1.0 / math.sqrt(u[0] * u[0] + u[2] * u[2])
        return s * u[2], 0.0, -s * u[0]
    s = 1.0 / math.sqrt(u[0] * u[0] + u[1] * u[1])
    return -s * u[1], s * u[0], 0.0


@jit
def planar_motion(x, v, torque, force, links, n, fixed, out):
    """Full forward dynamics of planar chains; the first frame without an answer, or -1.

    Cut at bond k + 1, the chain falls into two halves that answer to a push λ in it.  Joint k, at
    the end of the inner one, then accelerates by A = (Y − w σ c λ) u_k + w (F_n − s λ) n_k: c and s
    belong to the bend between bonds k and k + 1, F is all that is applied to the joint, w σ what
    the chain before leaves of its mobility along u_k.  Joint k + 1 accelerates along u_{k+1} by
    B + ē λ.  The bond keeps its length, whence

        d λ = c Y + s w F_n − B − κ,    d = ē + w (σ c² + s²)
        d A·u_k = Y (ē + w s²) − w σ c (s w F_n − B − κ)
        d A·n_k = w F_n (ē + w σ c²) − w s (c Y − B − κ)

    Nothing here takes away again what came from the same source, as w (F_n − s λ) does for a light
    bead between heavy ones: whatever the masses, ẍ is exact to rounding.  One sweep outwards for σ
    and Y, one back for ē, B and the answer.  As in the pivots above divisions are put off: ē is
    p / q in the second sweep, σ is S / q and Y is y / q in the first.

    Rates of angles come from A, and sines from positions, without cancellation: q̈ keeps its digits
    on nearly straight chains.  ``torque`` and ``force`` may be empty; a torque h L on the direction
    of a bond is a couple ±h n_k on its ends.  ``out (frames, 2 n + N + soft)`` receives ẍ, the
    tensions and q̈; until then u_k, κ_k and the velocity terms of α̈_k.
    """
    w, m = links
    N = w.size - 1
    first = 0 if fixed else 2  # soft coordinates before θ₁
    soft = N + first
    shift = n - N - 1  # joint k is bead k + shift of its frame
    work = np.empty((N + 1, 8))  # of joint k: q, S, y, w F_n, w F_u; of bond k + 1: c, s, 1 / L
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
        # Outwards.  No bond ends at joint 0: let n_0 be u_1.
        dx0 = dy0 = lx0 = ly0 = ux0 = uy0 = r0 = h0 = 0.0
        z = 0.0  # q times the acceleration along u_k of joint k − 1, less κ
        p = w[0]
        q = 1.0
        q0 = 0.0
        S = 1.0
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
            if k == 1:
                ux0, uy0 = uy, -ux
                c = 0.0
                s = 1.0
            else:
                c = ux0 * ux + uy0 * uy
                s = accurate_cross((dx0, dy0), (lx0, ly0), (dx, dy), (lx, ly)) * r * r0
            turn = (dx * ey - dy * ex) * r
            # d·ḋ, zero but for rounding where the velocities satisfy the constraints; on straight
            # chains it is all that q̈ consists of.
            rate = accurate_cross((dx, dy), (lx, ly), (-ey, ex), (-my, mx)) * r
            h = 0.0
            if torque.size:
                t = frame * soft + first + k - 1
                h = (torque[t] - (torque[t + 1] if k < N else 0.0)) * r
            W = w[k - 1]
            along = W * (ux0 * fx + uy0 * fy + h * s)
            across = W * (ux0 * fy - uy0 * fx + h0 - h * c)
            y = z + S * along
            kappa = turn * turn * r
            z = c * y + q * (s * across - kappa)
            row = work[k - 1]
            row[0], row[1], row[2], row[3], row[4] = q, S, y, across, along
            row[5], row[6], row[7] = c, s, r
            p += W * s * s * q0
            q0 = q
            S = m[k] * p
            q += S
            if q > LARGE:
                inverse = 1.0 / q
                p *= inverse
                S *= inverse
                z *= inverse
                q0 *= inverse
                q = 1.0
            tension[k - 1] = kappa
            qdd[first + k - 1] = -2.0 * turn * rate * r * r
            fx = fy = 0.0
            if force.size:
                fx, fy = force[j, 0], force[j, 1]
            acceleration[2 * (k + shift)] = ux
            acceleration[2 * (k + shift) + 1] = uy
            dx0, dy0, lx0, ly0, ux0, uy0, r0, h0 = dx, dy, lx, ly, ux, uy, r, h
        # Inwards.
        W = w[N]
        b = W * (ux0 * fx + uy0 * fy)  # q B
        along = (z + S * b) / q
        across0 = W * (ux0 * fy - uy0 * fx + h0)
        acceleration[2 * (N + shift)] = along * ux0 - across0 * uy0
        acceleration[2 * (N + shift) + 1] = along * uy0 + across0 * ux0
        check = 0.0 * (along + across0)
        p = W
        q = 1.0
        alpha0 = 0.0
        for k in range(N - 1, -1, -1):
            row = work[k]
            Q, S, y, across, along = row[0], row[1], row[2], row[3], row[4]
            c, s, r = row[5], row[6], row[7]
            W = w[k]
            b += q * tension[k]
            pushed = s * across
            yielding = W * S * c
            turning = W * s
            straight = p + q * (turning * s)
            bent = Q * p + q * (yielding * c)
            inverse = 1.0 / (bent + (Q * q) * (turning * s))
            tension[k] = (Q * (b - q * pushed) - q * (c * y)) * inverse
            inner = y * (straight * inverse) - (yielding * inverse) * (q * pushed - b)
            outer = across * (bent * inverse) - (turning * inverse) * (q * (c * y) - Q * b)
            alpha = qdd[first + k] + (across0 + (s * inner - c * outer)) * r
            qdd[first + k] = alpha
            if k < N - 1:
                qdd[first + k + 1] = alpha0 - alpha
            alpha0 = alpha
            across0 = outer
            check += 0.0 * (alpha + inner + tension[k])
            if k > 0:
                ux, uy = acceleration[2 * (k + shift)], acceleration[2 * (k + shift) + 1]
            else:
                ux, uy = uy0, -ux0
            if k + shift >= 0:  # joint k is a bead
                acceleration[2 * (k + shift)] = inner * ux - outer * uy
                acceleration[2 * (k + shift) + 1] = inner * uy + outer * ux
            ux0, uy0 = ux, uy
            # Joint k goes over to the outer half.
            S = m[k] * p
            q0 = q
            q += S
            b = c * (S * (c * along + pushed) + b) - (q * s) * (c * across - s * along)
            p += q0 * (turning * s)
            if q > LARGE:
                inverse = 1.0 / q
                p *= inverse
                b *= inverse
                q = 1.0
        if not fixed:
            qdd[0] = acceleration[0]
            qdd[1] = acceleration[1]
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1


@jit
def spatial_frames(x, v, force, links, n, fixed, out):
    """The same in space, for Cartesian forces; ``out (frames, 3 n + N)`` receives ẍ and tensions.

    The first frame without an answer, or -1.
    """
    bonds = links.shape[1] - 1
    points, rates = np.empty(3 * n + 9), np.empty(3 * n + 9)
    P, V = points.reshape((n + 3, 3)), rates.reshape((n + 3, 3))
    F = np.empty((n, 3))
    tension = np.empty(bonds)
    work = np.empty((bonds + 1, 11))
    for frame in range(out.shape[0]):
        finite = place(x, frame, n, 3, fixed, points)
        if not (finite and place_velocities(v, frame, n, 3, fixed, rates)):
            return frame
        for k in range(n):
            for a in range(3):
                F[k, a] = force[frame * n + k, a]
        if not spatial_motion(P, V, F, links, fixed, work, tension):
            return frame
        check = 0.0
        for k in range(n):
            for a in range(3):
                out[frame, 3 * k + a] = F[k, a]
                check += 0.0 * F[k, a]
        for k in range(bonds):
            out[frame, 3 * n + k] = tension[k]
            check += 0.0 * tension[k]
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1


@jit
def spatial_motion(P, V, F, links, fixed, work, tension):
    """Motion of one padded configuration; false if a bond has no length.

    ``F (n, 3)`` is all that is applied to the beads; ẍ replaces it.  With t = u_{k+1} − c u_k,
    which is s n_k in the plane, and r = u_k × u_{k+1}, the part of A across u_k is

        d A_⊥ = w F_⊥ (ē + w σ c²) + w r (r·w F) − w t (c Y − B − κ)

    ``work (N + 1, 11)`` holds q, S, y and c, κ of the bond that follows, its r, and u_k.
    """
    w, m = links
    N = w.size - 1
    root = 2 if fixed else 3  # row of joint 0
    base = 1 if fixed else 0  # joint k is bead k - base
    d0 = dlow0 = u0 = (0.0, 0.0, 0.0)
    z = r0 = 0.0
    p = w[0]
    q = 1.0
    q0 = 0.0
    S = 1.0
    for k in range(1, N + 1):
        d, dlow = accurate_bond(P, root + k)
        square = dot(d, d)
        if not measurable(square):
            return False
        r = 1.0 / math.sqrt(square)
        u = scaled(r, d)
        if k == 1:
            u0 = beside(u)
            c = 0.0
            turn = cross(u0, u)
        else:
            c = dot(u0, u)
            turn = bend(d0, dlow0, r0, d, dlow, r)
        j = root + k
        swept = cross(u, (V[j, 0] - V[j - 1, 0], V[j, 1] - V[j - 1, 1], V[j, 2] - V[j - 1, 2]))
        kappa = dot(swept, swept) * r
        W = w[k - 1]
        i = k - 1 - base
        f = (0.0, 0.0, 0.0)
        if i >= 0:
            f = (F[i, 0], F[i, 1], F[i, 2])
        y = z + S * (W * dot(f, u0))
        z = c * y + q * (W * dot(f, cross(turn, u0)) - kappa)
        row = work[k - 1]
        row[0], row[1], row[2], row[3], row[4] = q, S, y, c, kappa
        row[5], row[6], row[7] = turn
        row[8], row[9], row[10] = u0
        p += W * dot(turn, turn) * q0
        q0 = q
        S = m[k] * p
        q += S
        if q > LARGE:
            inverse = 1.0 / q
            p *= inverse
            S *= inverse
            z *= inverse
            q0 *= inverse
            q = 1.0
        d0, dlow0, u0, r0 = d, dlow, u, r
    W = w[N]
    f = scaled(W, (F[N - base, 0], F[N - base, 1], F[N - base, 2]))
    b = dot(f, u0)  # q B
    a = plus(f, scaled((z + S * b) / q - b, u0))
    F[N - base, 0], F[N - base, 1], F[N - base, 2] = a
    p = W
    q = 1.0
    for k in range(N - 1, -1, -1):
        row = work[k]
        Q, S, y, c, kappa = row[0], row[1], row[2], row[3], row[4]
        turn = (row[5], row[6], row[7])
        u = (row[8], row[9], row[10])
        W = w[k]
        i = k - base
        f = (0.0, 0.0, 0.0)
        if i >= 0:
            f = scaled(W, (F[i, 0], F[i, 1], F[i, 2]))
        along = dot(f, u)
        b += q * kappa
        t = cross(turn, u)
        pushed = dot(f, t)
        turning = W * dot(turn, turn)
        yielding = W * S * c
        straight = p + q * turning
        bent = Q * p + q * (yielding * c)
        inverse = 1.0 / (bent + (Q * q) * turning)
        tension[k] = (Q * (b - q * pushed) - q * (c * y)) * inverse
        if i >= 0:  # joint k is a bead
            inner = y * (straight * inverse) - (yielding * inverse) * (q * pushed - b)
            a = scaled(bent * inverse, minus(f, scaled(along, u)))
            a = plus(a, scaled((W * inverse) * ((Q * q) * dot(turn, f)), turn))
            a = minus(a, scaled((W * inverse) * (q * (c * y) - Q * b), t))
            F[i, 0], F[i, 1], F[i, 2] = plus(a, scaled(inner, u))
        # Joint k goes over to the outer half.
        S = m[k] * p
        q0 = q
        q += S
        b = c * (S * dot(f, u0) + b) + q * dot(f, cross(u0, turn))
        p += q0 * turning
        if q > LARGE:
            inverse = 1.0 / q
            p *= inverse
            b *= inverse
            q = 1.0
        u0 = u
    return True
