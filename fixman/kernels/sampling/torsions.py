"""Sweeps of torsions along chains of hard bonds and angles, each in O(1), as `pivots` does bonds.

det H^bb is the determinant of the mass matrix of the torsions times what depends on hard values
only (theory.md section 4), and that of a chain of bodies is, from whichever of these it begins,

    det M = det I_root Π_i s_iᵀ I_i s_i ,   I_i = m_i + I_j − I_j s_j s_jᵀ I_j / (s_jᵀ I_j s_j)

with the inertias I_i, 6 × 6, of what follows joint i, and j the next joint (articulated bodies,
Featherstone 1983).  The root at joint k = 1, …, n − 3 is the pair of beads k and k + 1 on its axis:
a turn changes det I_root alone.  Inertias ahead are found from the end before the sweep, in the
directions that they had then; those behind are made on the way.

Inertias belong to a twist (ω, v) of the point on the axis that they are about, bead k.
"""

import math

import numpy as np

from fixman.kernels import jit
from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra.random import WORDS
from fixman.kernels.sampling.pivots import product, read, rotated, spin, uniform, write


@jit
def add_point(inertia, mass, d):
    square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    for a in range(3):
        b, c = (a + 1) % 3, (a + 2) % 3
        inertia[a, a] += mass * square
        inertia[3 + a, 3 + a] += mass
        for e in range(3):
            inertia[a, e] -= mass * d[a] * d[e]
        inertia[b, 3 + c] -= mass * d[a]
        inertia[c, 3 + b] += mass * d[a]
        inertia[3 + c, b] -= mass * d[a]
        inertia[3 + b, c] += mass * d[a]


@jit
def shift(inertia, t):
    for k in range(6):
        x, y, z = inertia[k, 3], inertia[k, 4], inertia[k, 5]
        inertia[k, 0] += y * t[2] - z * t[1]
        inertia[k, 1] += z * t[0] - x * t[2]
        inertia[k, 2] += x * t[1] - y * t[0]
    for k in range(6):
        x, y, z = inertia[3, k], inertia[4, k], inertia[5, k]
        inertia[0, k] += y * t[2] - z * t[1]
        inertia[1, k] += z * t[0] - x * t[2]
        inertia[2, k] += x * t[1] - y * t[0]


@jit
def release(inertia, u):
    """Take from an inertia what can turn about u; return sᵀ I s."""
    column = np.empty(6)
    for k in range(6):
        column[k] = inertia[k, 0] * u[0] + inertia[k, 1] * u[1] + inertia[k, 2] * u[2]
    about = column[0] * u[0] + column[1] * u[1] + column[2] * u[2]
    for k in range(6):
        ratio = column[k] / about
        for j in range(6):
            inertia[k, j] -= ratio * column[j]
    return about


@jit
def add_rotated(inertia, q, other):
    x, y, z = rotated(q, (1.0, 0.0, 0.0)), rotated(q, (0.0, 1.0, 0.0)), rotated(q, (0.0, 0.0, 1.0))
    R = mat.transposed((*x, *y, *z))
    for row, column in ((0, 0), (0, 3), (3, 3)):
        block = mat.turned(R, mat.square(other, row, column))
        for k in range(9):
            i, j = row + k // 3, column + k % 3
            inertia[i, j] += block[k]
            if row != column:
                inertia[j, i] += block[k]


@jit
def determinant(inertia):
    """Return the determinant of a positive definite 6 × 6, which is overwritten."""
    value = 1.0
    for k in range(6):
        value *= inertia[k, k]
        for i in range(k + 1, 6):
            ratio = inertia[i, k] / inertia[k, k]
            for j in range(k + 1, i + 1):
                inertia[i, j] -= ratio * inertia[j, k]
    return value


@jit
def bond(units, lengths, k):
    return lengths[k] * units[k, 0], lengths[k] * units[k, 1], lengths[k] * units[k, 2]


@jit
def look_ahead(units, lengths, m, ahead, about):
    """Fill inertias of what is beyond each joint and turns with it, and the sᵀ I s of the joint."""
    inertia = np.zeros((6, 6))
    for k in range(lengths.size - 2, 0, -1):
        b = bond(units, lengths, k)
        add_point(inertia, m[k + 2], bond(units, lengths, k + 1))
        shift(inertia, (-b[0], -b[1], -b[2]))
        about[k] = release(inertia, (units[k, 0], units[k, 1], units[k, 2]))
        ahead[k] = inertia


@jit
def root_of(behind, q, ahead, masses, b):
    """Determinant of the inertia of a pair of beads b apart, and of all that hangs on it."""
    root = behind.copy()
    for a in range(3):
        root[3 + a, 3 + a] += masses[0]
    add_point(root, masses[1], b)
    add_rotated(root, q, ahead)
    return determinant(root)


@jit
def sweep(words, units, lengths, m, space, width):
    """Try one turn at every torsion; how many were accepted, and the stream.

    ``units (N, 3)`` are the directions of the bonds, ``m (N + 1,)`` the masses of the beads.
    ``space`` is room for inertias ahead (N, 6, 6) and a number each, or None in the stiff ensemble.
    """
    behind = np.zeros((6, 6))
    if space is not None:
        ahead, about = space
        look_ahead(units, lengths, m, ahead, about)
        b = bond(units, lengths, 0)
        add_point(behind, m[0], (-b[0], -b[1], -b[2]))
    whole = (1.0, 0.0, 0.0, 0.0)
    now = 0.0
    accepted = 0
    for k in range(1, lengths.size - 1):
        u = rotated(whole, (units[k, 0], units[k, 1], units[k, 2]))
        # A turn about an axis is none if that is longer than 1: its error would double every time.
        r = 1.0 / math.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
        u = r * u[0], r * u[1], r * u[2]
        units[k, 0], units[k, 1], units[k, 2] = u
        b = bond(units, lengths, k)
        c, s, words = spin(words, width)
        trial = product((c, s * u[0], s * u[1], s * u[2]), whole)
        accept = True
        if space is not None:
            masses = m[k], m[k + 1]
            if k == 1:
                now = root_of(behind, whole, ahead[k], masses, b)
            then = root_of(behind, trial, ahead[k], masses, b)
            f, words = uniform(words)
            accept = f * f * now < then
            now = (then if accept else now) * about[k] / release(behind, u)
            shift(behind, b)
            add_point(behind, m[k], (-b[0], -b[1], -b[2]))
        if accept:
            accepted += 1
            whole = trial
    k = lengths.size - 1
    units[k, 0], units[k, 1], units[k, 2] = rotated(whole, (units[k, 0], units[k, 1], units[k, 2]))
    return accepted, words


@jit
def advance(x, random, tally, lengths, masses, space, sweeps, replicas):
    """`pivots.advance` of free chains; ``space`` as in `sweep`."""
    N = lengths.shape[1]
    units = np.zeros((N, 3))
    there = np.empty(N)
    m = np.empty((2, N + 1))
    for k in range(N + 1):
        m[0, k] = masses[k]
        m[1, k] = masses[N - k]
    for replica in range(replicas[0], replicas[1]):
        at = WORDS * replica
        words = random[at], random[at + 1], random[at + 2], random[at + 3]
        width = tally[replica, 2]
        for number in range(sweeps[0], sweeps[1]):
            backward = number % 2
            for k in range(N):
                there[k] = lengths[replica, N - 1 - k if backward else k]
            read(x, replica, units, (3, 0), backward)
            accepted, words = sweep(words, units, there, m[backward], space, width)
            write(x, replica, units, lengths, masses, (3, 0), backward)
            tally[replica, 0] += N - 2
            tally[replica, 1] += accepted
        random[at], random[at + 1], random[at + 2], random[at + 3] = words
