"""Motion of linear chains whose hard coordinates are exactly their bonds, whatever their masses.

Answers are ẍ, λ and q̈ of theory.md section 3: those of Lee & Chirikjian (2005), eq. 25 with its
factors as in eq. 12 (theory.md lists the misprint), and velocity terms.  No block of theirs is
formed: (1) is what is left of row k + 1 of H^LL λ = −(B_L M⁻¹ F + κ) when all rows before and
behind it have been eliminated.

Bond k joins joints k − 1 and k and has the direction u_k and the left normal n_k.  Joint k has the
acceleration A, the inverse mass w and all that is applied to it, F = F_u u_k + F_n n_k; c and s
belong to the bend between bonds k and k + 1, and κ to bond k + 1.

Cut at bond k + 1, the chain falls into two halves that answer to a push λ in it.  Joint k, at the
end of the inner one, then accelerates by A = (Y − w σ c λ) u_k + w (F_n − s λ) n_k in the plane:
w σ is what the chain before leaves of its mobility along u_k, and Y is A·u_k without the push.
Joint k + 1 accelerates along u_{k+1} by Ȳ + ē λ, with Ȳ and ē of the outer half.  The bond keeps
its length, whence

    d λ = c Y + s w F_n − Ȳ − κ,    d = ē + w (σ c² + s²)                    (1)
    d A·u_k = Y (ē + w s²) − w σ c (s w F_n − Ȳ − κ)                         (2)
    d A·n_k = w F_n (ē + w σ c²) − w s (c Y − Ȳ − κ)                         (3)

In space, with t = u_{k+1} − c u_k, which is s n_k in the plane, and r = u_k × u_{k+1}, the part of
A across u_k is

    d A_⊥ = w F_⊥ (ē + w σ c²) + w r (r·w F) − w t (c Y − Ȳ − κ)             (4)

Without the other half these are the recurrences of the sweeps, σ_k = e_k/d_k as in `tridiagonal`:

    Y_{k+1} = σ_{k+1} w_{k+1} F_{k+1}·u_{k+1} + (w_{k+1}/d_{k+1}) (c Y + s w F_n − κ)    (5)
    Ȳ_k = c [ē w F·u_{k+1} + w (Ȳ + κ)]/(w + ē) + s w (s F_u − c F_n)                    (6)

Nothing here takes away again what came from the same source, as w (F_n − s λ) does for a light bead
between heavy ones: whatever the masses, ẍ is exact to rounding.  One sweep outwards for σ and Y,
one back for ē, Ȳ and the answer.  Divisions are put off as in `tridiagonal.joined`; ``links`` are
those of `freely_jointed`: ē is p / q in the second sweep, σ is S / q and Y is y / q in the first.

In the plane this is 5 to 12 times faster than `motion` with its q̈, in space 4 to 5.  With masses
1 and 1e-12 by turns on a nearly straight chain `motion` would leave eight digits of ẍ, this leaves
fifteen.  The steps say which products are fused: no digit hangs on a compiler.
"""

from __future__ import annotations

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra.vectors import cross, dot, minus, plus, scaled
from fixman.kernels.chain.freely_jointed import accurate_cross, bend, two_difference
from fixman.kernels.chain.rows import beside, measurable
from fixman.kernels.compiler.lanes import fma
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.tridiagonal import joined

LARGE = 1e30  # so that products of two of them with masses can be formed
PLANAR, SPATIAL = 8, 10  # numbers that the sweep outwards leaves of a joint


# --- of both -------------------------------------------------------------------------------------
#
# A half is a tuple of numbers that scale with q, and q.  Outwards these are p, S = q σ, z and the q
# before, with y = q Y made of z; inwards p = q ē and b = q Ȳ, and q outwards is then written Q.


@exact_step
def difference(x, j, before):
    """Bead j, and the way to it from a point as a rounded vector and its exact remainder."""
    here = tuple(x[j, a] for a in range(len(before)))
    ways = [two_difference(here[a], before[a]) for a in range(len(before))]
    return here, tuple(way for way, _ in ways), tuple(low for _, low in ways)


@exact_step
def reduced(half):
    """Return a half with q = 1."""
    numbers, q = half
    inverse = 1.0 / q
    return tuple(x * inverse for x in numbers), 1.0


@exact_step
def put(out, frame, at, a):
    for axis in range(len(a)):
        out[frame, at + axis] = a[axis]


@exact_step
def keep(work, at, numbers):
    for i in range(len(numbers)):
        work[at + i] = numbers[i]


@exact_step
def outward(half, z, turning, mass):
    """Return the inner half with joint k + 1, of a mass, behind a joint of ``turning`` = w s²."""
    (p, _, _, before), q = half
    p, after = joined(p, before, q, turning, mass)
    return (p, mass * p, z, q), after


@exact_step
def cut(inner, half, W, c, turning, lack):
    """Return the tension −λ of bond k + 1, A·u_k, and what A across u_k is made of.

    ``lack`` is q (Ȳ + κ − s w F_n), and b here q (Ȳ + κ).  The last three are (ē + w σ c²) / d,
    1 / (Q q d) and Q q (c Y − Ȳ − κ), of (3) and (4).
    """
    Q, S, y = inner
    (p, b), q = half
    yielding = W * S * c  # Q w σ c
    straight = fma(q, turning, p)  # q (ē + w s²)
    bent = fma(Q, p, q * (yielding * c))  # Q q (ē + w σ c²)
    inverse = 1.0 / fma(Q * q, turning, bent)
    tension = fma(Q, lack, -(q * (c * y))) * inverse  # (1)
    along = fma(y, straight * inverse, (yielding * inverse) * lack)  # (2)
    return tension, along, bent * inverse, inverse, fma(-Q, b, q * (c * y))


# --- in the plane --------------------------------------------------------------------------------


@exact_step
def pair(array, j):
    return array[j, 0], array[j, 1]


@exact_step
def product(a, b):
    return fma(a[0], b[0], a[1] * b[1])


@exact_step
def planar_rates(d, low, r, e, elow):
    """κ and the velocity term of α̈ of a bond d that changes by e."""
    turn = fma(d[0], e[1], -(d[1] * e[0])) * r
    # d·ḋ, zero but for rounding where the velocities satisfy the constraints; on straight chains
    # it is all that q̈ consists of.
    rate = accurate_cross(d, low, (-e[1], e[0]), (-elow[1], elow[0])) * r
    return turn * turn * r, -2.0 * turn * rate * r * r


@exact_step
def planar_bend(before, bond):
    """Return u_k, and cosine and sine of the bend."""
    (d0, low0, r0), u0, _ = before
    (d, low, r), u, _ = bond
    return u0, product(u0, u), accurate_cross(d0, low0, d, low) * r * r0


@exact_step
def planar_joint(work, at, half, turned, joint, r, h, kappa):
    """Take joint k and the bond behind it, of 1 / L, couple and κ, into the inner half."""
    u, c, s = turned
    W, f, before, mass = joint
    wf_u = W * fma(h, s, fma(u[1], f[1], u[0] * f[0]))
    wf_n = W * fma(-h, c, fma(u[0], f[1], -(u[1] * f[0])) + before)
    (_, S, z, _), q = half
    y = fma(S, wf_u, z)
    keep(work, at, (q, S, y, wf_n, wf_u, c, s, r))
    return outward(half, fma(c, y, q * fma(s, wf_n, -kappa)), W * s * s, mass)  # (5)


@exact_step
def planar_end(half, W, f, bond):
    """Return A of joint N, A·n_N and the outer half."""
    (_, S, z, _), q = half
    _, u, h = bond
    b = W * product(u, f)
    along = fma(S, b, z) / q
    across = W * (fma(u[0], f[1], -(u[1] * f[0])) + h)
    a = fma(along, u[0], -(across * u[1])), fma(across, u[0], along * u[1])
    return a, across, ((W, b), 1.0)


@exact_step
def planar_cut(work, at, half, W, mass, kappa, rate, outer_a_n):
    """Return tension, A·u_k, A·n_k, α̈ and the half with joint k.

    ``rate`` is the velocity term of α̈, ``outer_a_n`` A·n_{k+1}.
    """
    Q, S, y, wf_n, wf_u, c, s, r = (work[at + i] for i in range(PLANAR))
    (p, b), q = half
    b = fma(q, kappa, b)
    pushed = s * wf_n
    turning = W * s * s
    parts = cut((Q, S, y), ((p, b), q), W, c, turning, fma(-q, pushed, b))
    tension, a_u, bent, inverse, rest = parts
    a_n = fma(wf_n, bent, -(W * s * inverse * rest))  # (3)
    alpha = fma(outer_a_n + fma(s, a_u, -(c * a_n)), r, rate)
    # (6): ē/(w + ē) = m p/(q + m p), w/(w + ē) = q/(q + m p)
    mp = mass * p
    b = fma(mp, fma(c, wf_u, pushed), b)  # w F·u_{k+1} = c w F_u + s w F_n
    b = fma(c, b, -((q + mp) * s * fma(-s, wf_u, c * wf_n)))
    # ē ← w (ē + w s²)/(w + ē): e from the other end
    return tension, a_u, a_n, alpha, ((fma(q, turning, p), b), q + mp)


@exact_step
def planar_put(out, frame, at, along, across):
    """Put the acceleration of a joint where its u is."""
    u, v = out[frame, at], out[frame, at + 1]
    out[frame, at] = fma(along, u, -(across * v))
    out[frame, at + 1] = fma(along, v, across * u)


@jit
def planar_motion(x, v, torque, force, links, n, fixed, out):
    """Full forward dynamics of planar chains; the first frame without an answer, or -1.

    Rates of angles come from A, and sines from positions, without cancellation: q̈ keeps its digits
    on nearly straight chains.  ``torque`` and ``force`` may be empty; a torque h L on the direction
    of a bond is a couple ±h n_k on its ends.  ``out (frames, 2 n + N + soft)`` receives ẍ, the
    tensions and q̈; until then u_k, κ_k and the velocity terms of α̈_k.
    """
    w, m = links
    N = w.size - 1
    root = n - N - 1  # joint k is bead root + k of its frame
    first = 0 if fixed else 2  # soft coordinates before θ₁
    qdd = 2 * n + N + first
    none = 0.0, 0.0
    work = np.empty(PLANAR * N)
    for frame in range(out.shape[0]):
        bead = frame * n + root
        t = frame * (N + first) + first
        point = velocity = f = none  # those of the joint before
        if not fixed:
            point, velocity = pair(x, bead), pair(v, bead)
            if force.size:
                f = pair(force, bead)
            if torque.size:
                f = f[0] + torque[t - 2], f[1] + torque[t - 1]
        before = (none, none, 0.0), none, 0.0
        half = (w[0], 1.0, 0.0, 0.0), 1.0
        for k in range(N):
            point, d, low = difference(x, bead + k + 1, point)
            square = product(d, d)
            if not measurable(square):
                return frame
            r = 1.0 / math.sqrt(square)
            velocity, e, elow = difference(v, bead + k + 1, velocity)
            kappa, rate = planar_rates(d, low, r, e, elow)
            h = 0.0
            if torque.size:
                h = (torque[t + k] - (torque[t + k + 1] if k + 1 < N else 0.0)) * r
            bond = (d, low, r), (d[0] * r, d[1] * r), h
            turned = (bond[1][1], -bond[1][0]), 0.0, 1.0  # no bond ends at joint 0: let n_0 be u_1
            if k > 0:
                turned = planar_bend(before, bond)
            joint = w[k], f, before[2], m[k + 1]
            half = planar_joint(work, PLANAR * k, half, turned, joint, r, h, kappa)
            if half[1] > LARGE:
                half = reduced(half)
            if k == 0 and not fixed:
                put(out, frame, 2 * root, turned[0])
            put(out, frame, 2 * (root + k + 1), bond[1])
            out[frame, 2 * n + k], out[frame, qdd + k] = kappa, rate
            f = none
            if force.size:
                f = pair(force, bead + k + 1)
            before = bond
        a, outer, half = planar_end(half, w[N], f, before)
        put(out, frame, 2 * (root + N), a)
        check = 0.0 * (a[0] + a[1])
        alpha = 0.0
        for k in range(N - 1, -1, -1):
            after, kappa, rate = alpha, out[frame, 2 * n + k], out[frame, qdd + k]
            tension, along, outer, alpha, half = planar_cut(
                work, PLANAR * k, half, w[k], m[k], kappa, rate, outer
            )
            if half[1] > LARGE:
                half = reduced(half)
            out[frame, 2 * n + k] = tension
            out[frame, qdd + k] = alpha
            if k + 1 < N:
                out[frame, qdd + k + 1] = after - alpha
            if root + k >= 0:  # joint k is a bead
                planar_put(out, frame, 2 * (root + k), along, outer)
            check += 0.0 * (alpha + along + tension)
        if not fixed:
            out[frame, qdd - 2], out[frame, qdd - 1] = out[frame, 0], out[frame, 1]
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1


# --- in space ------------------------------------------------------------------------------------


@exact_step
def triple(array, j):
    return array[j, 0], array[j, 1], array[j, 2]


@exact_step
def swept(u, e, r):
    """κ of a bond of direction u that changes by e."""
    across = cross(u, e)
    return dot(across, across) * r


@exact_step
def spatial_bend(before, bond):
    """Return u_k, and cosine and r of the bend."""
    (d0, low0, r0), u0 = before
    (d, low, r), u = bond
    return u0, dot(u0, u), bend(d0, low0, r0, d, low, r)


@exact_step
def spatial_joint(work, at, half, turned, W, f, mass, kappa):
    """Take joint k and the bond behind it into the inner half."""
    u, c, turn = turned
    (_, S, z, _), q = half
    y = fma(S, W * dot(f, u), z)
    keep(work, at, (q, S, y, c, *turn, *u))
    z = fma(q, fma(W, dot(f, cross(turn, u)), -kappa), c * y)
    return outward(half, z, W * dot(turn, turn), mass)


@exact_step
def spatial_end(half, W, f, u):
    """Return A of joint N and the outer half."""
    (_, S, z, _), q = half
    f = scaled(W, f)
    b = dot(f, u)
    return plus(f, scaled(fma(S, b, z) / q - b, u)), ((W, b), 1.0)


@exact_step
def spatial_cut(work, at, half, W, f, mass, kappa, after):
    """Return tension, A and u of joint k, and the half with it; ``after`` is u_{k+1}."""
    Q, S, y, c, rx, ry, rz, ux, uy, uz = (work[at + i] for i in range(SPATIAL))
    (p, b), q = half
    u, turn = (ux, uy, uz), (rx, ry, rz)
    f = scaled(W, f)
    b = fma(q, kappa, b)
    t = cross(turn, u)
    turning = W * dot(turn, turn)
    parts = cut((Q, S, y), ((p, b), q), W, c, turning, b - q * dot(f, t))
    tension, inner, bent, inverse, rest = parts
    # (4), and the part along u
    a = scaled(bent, minus(f, scaled(dot(f, u), u)))
    a = plus(a, scaled((W * inverse) * ((Q * q) * dot(turn, f)), turn))
    a = plus(minus(a, scaled((W * inverse) * rest, t)), scaled(inner, u))
    mp = mass * p  # (6), where s (s F_u − c F_n) is F·(u_k − c u_{k+1})
    b = fma(q + mp, dot(f, cross(after, turn)), c * fma(mp, dot(f, after), b))
    return tension, a, u, ((fma(q, turning, p), b), q + mp)


@jit
def spatial_frames(x, v, force, links, n, fixed, out):
    """Motion in space under Cartesian forces; ``out (frames, 3 n + N)`` receives ẍ and tensions.

    The first frame without an answer, or -1.
    """
    w, m = links
    N = w.size - 1
    root = n - N - 1  # joint k is bead root + k of its frame
    none = 0.0, 0.0, 0.0
    work = np.empty(SPATIAL * N)
    for frame in range(out.shape[0]):
        bead = frame * n + root
        point = velocity = f = none  # those of the joint before
        if not fixed:
            point, velocity, f = triple(x, bead), triple(v, bead), triple(force, bead)
        before = (none, none, 0.0), none
        half = (w[0], 1.0, 0.0, 0.0), 1.0
        for k in range(N):
            point, d, low = difference(x, bead + k + 1, point)
            square = dot(d, d)
            if not measurable(square):
                return frame
            r = 1.0 / math.sqrt(square)
            velocity, e, _ = difference(v, bead + k + 1, velocity)
            bond = (d, low, r), scaled(r, d)
            if k > 0:
                turned = spatial_bend(before, bond)
            else:
                side, _ = beside(bond[1])
                turned = side, 0.0, cross(side, bond[1])
            kappa = swept(bond[1], e, r)
            half = spatial_joint(work, SPATIAL * k, half, turned, w[k], f, m[k + 1], kappa)
            if half[1] > LARGE:
                half = reduced(half)
            out[frame, 3 * n + k] = kappa
            f = triple(force, bead + k + 1)
            before = bond
        u = before[1]
        a, half = spatial_end(half, w[N], f, u)
        put(out, frame, 3 * (root + N), a)
        check = 0.0 * (a[0] + a[1] + a[2])
        for k in range(N - 1, -1, -1):
            f = none
            if root + k >= 0:  # joint k is a bead
                f = triple(force, bead + k)
            tension, a, u, half = spatial_cut(
                work, SPATIAL * k, half, w[k], f, m[k], out[frame, 3 * n + k], u
            )
            if half[1] > LARGE:
                half = reduced(half)
            out[frame, 3 * n + k] = tension
            if root + k >= 0:
                put(out, frame, 3 * (root + k), a)
            check += 0.0 * (a[0] + a[1] + a[2] + tension)
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1
