"""Sweeps of pivots along chains of bonds, each in O(1), for Monte Carlo without a potential.

A sweep goes from one end to the other and turns all that is ahead of a joint by a random rotation.
Joint k has the pivots of H^bb from both ends (see `tridiagonal`), w_k + e_k of bond k behind it and
w_k + r_{k+1} of bond k + 1 ahead, and without indices

    det H^bb ∝ (w + e) (w + r) − w² c² = w (e + r) + e r + w² s²

in the sine of its bend: nothing cancels.  A pivot is accepted with min(1, √(det′/det)) in the rigid
ensemble, always in the stiff one (theory.md section 4).  Bonds are turned when the sweep gets to
them, by the product of all rotations.  Sweeps begin and end with positions.
"""

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra import vectors as vec
from fixman.kernels.algebra.random import WORDS, following, fraction
from fixman.kernels.factors.tridiagonal import onward


@jit
def uniform(words):
    """Return a number in [0, 1), and the stream."""
    bits, a, b, c, d = following(words[0], words[1], words[2], words[3])
    return fraction(bits), (a, b, c, d)


@jit
def spin(words, width):
    """Cosine and sine of half an angle, uniform from −width to width, and the stream."""
    f, words = uniform(words)
    half = width * (f - 0.5)
    return math.cos(half), math.sin(half), words


@jit
def turn(words, width, dim):
    """Return a random rotation by ``width`` ≤ π at most, uniform among these, and the stream.

    A quaternion on a cap of the sphere: its real part 1 − t has the density √(1 − (1 − t)²), its
    axis is uniform (Marsaglia 1972).
    """
    if dim == 2:
        c, s, words = spin(words, width)
        return (c, 0.0, 0.0, s), words
    quarter, half = math.sin(0.25 * width), math.sin(0.5 * width)
    while True:
        t, words = uniform(words)
        y, words = uniform(words)
        t *= 2.0 * quarter * quarter
        square = t * (2.0 - t)
        y *= half
        if not y * y > square:  # ends for a width of zero or NaN too
            break
    while True:
        y, words = uniform(words)
        z, words = uniform(words)
        y = y + y - 1.0
        z = z + z - 1.0
        s = y * y + z * z
        if s < 1.0:
            break
    size = math.sqrt(square)
    r = 2.0 * size * math.sqrt(1.0 - s)
    return (1.0 - t, r * y, r * z, size * (1.0 - 2.0 * s)), words


@jit
def product(p, q):
    return (
        p[0] * q[0] - p[1] * q[1] - p[2] * q[2] - p[3] * q[3],
        p[0] * q[1] + p[1] * q[0] + p[2] * q[3] - p[3] * q[2],
        p[0] * q[2] + p[2] * q[0] + p[3] * q[1] - p[1] * q[3],
        p[0] * q[3] + p[3] * q[0] + p[1] * q[2] - p[2] * q[1],
    )


@jit
def rotated(q, v):
    """Return q v q⁻¹ = v + 2 a × (a × v + q₀ v), a the imaginary part of q."""
    a = q[1], q[2], q[3]
    return vec.along(2.0, vec.fused_cross(a, vec.along(q[0], v, vec.fused_cross(a, v))), v)


@jit
def square_sine(u, v):
    normal = vec.cross(u, v)
    return vec.dot(normal, normal)


@jit
def sweep(words, units, w, rest, width, options):
    """Try one pivot at every joint, and turn all; how many were accepted, and the stream.

    ``units (N, 3)`` are the directions of the bonds, ``w (N + 1,)`` inverse masses of the joints;
    ``rest (N,)`` is r on the way, then e; ``options`` are dim and whether the ensemble is rigid.
    """
    dim, rigid = options
    last = units.shape[0] - 1
    if rigid:
        rest[last] = w[last + 1]
        v = units[last, 0], units[last, 1], units[last, 2]
        for k in range(last - 1, -1, -1):
            u = units[k, 0], units[k, 1], units[k, 2]
            wk, r = w[k + 1], rest[k + 1]
            rest[k] = onward(r, wk, 1.0 / (wk + r), square_sine(u, v))
            v = u
    turned_by, words = turn(words, width, dim)
    before = rotated(turned_by, (units[0, 0], units[0, 1], units[0, 2]))
    units[0, 0], units[0, 1], units[0, 2] = before
    accepted = 0
    e = w[0]
    rest[0] = e
    for k in range(1, last + 1):
        v = rotated(turned_by, (units[k, 0], units[k, 1], units[k, 2]))
        tried, words = turn(words, width, dim)
        after = rotated(tried, v)
        if rigid:
            f, words = uniform(words)
            wk, r = w[k], rest[k]  # r from ahead, e from behind
            flat = wk * (e + r) + e * r
            s2, s2_new = square_sine(before, v), square_sine(before, after)
            # f < √(det′/det), det ∝ w (e + r) + e r + w² s²
            accept = f * f * (flat + wk * wk * s2) < flat + wk * wk * s2_new
            s2 = s2_new if accept else s2
            e = onward(e, wk, 1.0 / (wk + e), s2)
            rest[k] = e
        else:
            accept = True
        if accept:
            accepted += 1
            turned_by = product(tried, turned_by)
            v = after
        units[k, 0], units[k, 1], units[k, 2] = v
        before = v
    return accepted, words


@jit
def read(x, replica, units, options, backward):
    """Directions of the bonds of a replica, from the last bond on if ``backward``."""
    dim, fixed = options
    N = units.shape[0]
    for k in range(N):
        j = N - 1 - k if backward else k
        square = 0.0
        for a in range(dim):
            b = x[replica, j + 1 - fixed, a]
            if j >= fixed:
                b -= x[replica, j - fixed, a]
            units[k, a] = b
            square += b * b
        inverse = 1.0 / math.sqrt(square)
        for a in range(dim):
            units[k, a] *= inverse


@jit
def write(x, replica, units, lengths, m, options, backward):
    """Positions from the directions of the bonds; the centre of mass of a free chain stays."""
    dim, fixed = options
    N = units.shape[0]
    for a in range(dim):
        shift, total = 0.0, m[0]
        place = 0.0 if fixed else x[replica, 0, a]
        for j in range(N):
            k = N - 1 - j if backward else j
            bead = j + 1 - fixed
            place += lengths[replica, j] * units[k, a]
            if not fixed:
                shift += m[bead] * (x[replica, bead, a] - place)
                total += m[bead]
            x[replica, bead, a] = place
        if not fixed:
            for bead in range(N + 1):
                x[replica, bead, a] += shift / total


@jit
def advance(x, random, tally, lengths, links, options, sweeps, replicas):
    """Do the sweeps from ``sweeps[0]`` to ``sweeps[1]`` on some replicas, in place.

    ``x (R, n, dim)``, ``random`` flat, ``tally (R, 3)``, ``lengths (R, N)``, ``links`` inverse
    masses and masses of the joints; ``options`` are dim, whether the base is fixed, and whether the
    ensemble is rigid.
    """
    dim, fixed, rigid = options
    N = lengths.shape[1]
    units = np.zeros((N, 3))
    rest = np.empty(N)
    w = np.empty((2, N + 1))
    for k in range(N + 1):
        w[0, k] = links[0, k]
        w[1, k] = links[0, N - k]
    for replica in range(replicas[0], replicas[1]):
        at = WORDS * replica
        words = random[at], random[at + 1], random[at + 2], random[at + 3]
        width = tally[replica, 2]
        for number in range(sweeps[0], sweeps[1]):
            backward = number % 2
            read(x, replica, units, (dim, fixed), backward)
            accepted, words = sweep(words, units, w[backward], rest, width, (dim, rigid))
            write(x, replica, units, lengths, links[1], (dim, fixed), backward)
            tally[replica, 0] += N - 1
            tally[replica, 1] += accepted
        random[at], random[at + 1], random[at + 2], random[at + 3] = words
