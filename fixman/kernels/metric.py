"""ln det H^bb and the exact Fixman force for any hard set, of one frame or of eight in lanes.

    U = ½ kT ln det H^bb ,   −∂U/∂x = −kT Σ_i (∂²q_i/∂x∂x) W_i ,   W = S B_b M⁻¹

with i over the hard rows and S = (H^bb)⁻¹ on the pattern of its factor (theory.md section 4).  Row
i needs W_i only on the beads that it touches, and there S only where H^bb is not zero.

Frames are flat, and those from ``first`` to ``last`` are computed: one by one, or eight successive
ones at a time in lanes, where there must be eight.  A frame's answer is the same to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fixman.kernels import sparse
from fixman.kernels.geometry import (
    ANGLE,
    LENGTH,
    SMALLEST_SINE,
    angle_rate,
    angle_row,
    length_rate,
    length_row,
    measurable,
    torsion_rate,
    torsion_row,
    turn_rate,
    turn_row,
)
from fixman.kernels.lanes import (
    LANES,
    above,
    entry,
    exact,
    exact_kernel,
    lanes,
    load,
    put,
    store,
    take,
    zeros,
)
from fixman.kernels.triples import load3, store3
from fixman.kernels.vectors import dot, minus, plus, scaled

GHOSTS = 3  # see `coordinates`


class HardTables(NamedTuple):
    """The hard rows in factor order, and what of them meets on which bead.

    ``terms (t, 4)`` are the products that make up H^bb, by place (see `coordinates`).  For the
    force ``slots (s, 3)`` are all (row, slot) pairs, flat, with their bead and the end of their
    stretch of ``partners (t, 2)``: the place of an element of S and the (row, slot) on the same
    bead that it weighs.  A ghost has no partners.
    """

    kinds: NDArray[np.int8]
    beads: NDArray[np.int32]
    symbolic: tuple[NDArray[np.int32], ...]  # `sparse.Symbolic`, as a plain tuple
    terms: NDArray[np.int32]
    slots: NDArray[np.int32]
    partners: NDArray[np.int32]


# --- memory ---------------------------------------------------------------------------------------


def logdet_units(n: int, tables: HardTables) -> int:
    """Units of memory that a determinant takes; LANES numbers more serve to align them."""
    return 3 * (n + GHOSTS) + 13 * tables.kinds.size + tables.symbolic[1].size


def force_units(n: int, tables: HardTables) -> int:
    """Units of memory that a force takes."""
    return 2 * (3 * (n + GHOSTS) + 12 * tables.kinds.size + tables.symbolic[1].size)


@exact
def aligned(memory):
    """From where registers of 64 bytes are aligned."""
    return memory[(-memory.ctypes.data // 8) % LANES :]


@exact
def part(work, first, units, like):
    return work[lanes(like) * first : lanes(like) * (first + units)]


@exact
def clear(work, units, like):
    for k in range(units):
        store(work, k, 0.0 * like)


# --- the determinant ------------------------------------------------------------------------------


@exact
def place(x, at, n, dim, P, like):
    """Fill the padded points, see `geometry`; false if one is not finite.

    Hard rows of a free chain touch no ghost, so these are the fixed base's.
    """
    zero = 0.0 * like
    store3(P, 0, (zero - 1.0, zero - 1.0, zero))
    store3(P, 3, (zero - 1.0, zero, zero))
    store3(P, 6, (zero, zero, zero))
    stride = n * dim
    check = zero
    z = zero
    for k in range(GHOSTS, n + GHOSTS):
        a = take(x, at, stride, like)
        b = take(x, at + 1, stride, like)
        if dim == 3:
            z = take(x, at + 2, stride, like)
        store3(P, 3 * k, (a, b, z))
        check += 0.0 * a + 0.0 * b + 0.0 * z
        at += dim
    return above(1.0 + zero, check)


@exact
def between(P, beads, r, slot, like):
    """Return the bond between two successive beads of a row."""
    i = 3 * entry(beads, 4 * r + slot)
    j = 3 * entry(beads, 4 * r + slot + 1)
    return minus(load3(P, j, like), load3(P, i, like))


@exact
def gradients(P, kinds, beads, dim, B, like):
    """Wilson rows, three units for each of four slots; false if there is none."""
    small = 0.0 * like + SMALLEST_SINE
    for r in range(kinds.size):
        kind = entry(kinds, r)
        at = 12 * r
        u = between(P, beads, r, 0, like)
        if not measurable(dot(u, u)):
            return False
        if kind == LENGTH:
            gu = length_row(u)
            store3(B, at, scaled(-1.0, gu))
            store3(B, at + 3, gu)
            continue
        v = between(P, beads, r, 1, like)
        if not measurable(dot(v, v)):
            return False
        if kind == ANGLE:
            if dim == 2:
                gu, gv = turn_row(u, v)
            else:
                sine, gu, gv = angle_row(u, v)
                if not above(sine, small):
                    return False
            store3(B, at, scaled(-1.0, gu))
            store3(B, at + 3, minus(gu, gv))
            store3(B, at + 6, gv)
            continue
        t = between(P, beads, r, 2, like)
        if not measurable(dot(t, t)):
            return False
        first, second, gu, gv, gt = torsion_row(u, v, t)
        if not (above(first, small) and above(second, small)):
            return False
        store3(B, at, scaled(-1.0, gu))
        store3(B, at + 3, minus(gu, gv))
        store3(B, at + 6, minus(gv, gt))
        store3(B, at + 9, gt)
    return True


@exact
def hard_matrix(B, terms, w, V, nnz, like):
    """H^bb = B_b M⁻¹ B_bᵀ into the ``nnz`` units of V."""
    clear(V, nnz, like)
    total = 0.0 * like
    count = terms.shape[0]
    for t in range(count):
        p = entry(terms, 4 * t)
        a = load3(B, 3 * entry(terms, 4 * t + 1), like)
        b = load3(B, 3 * entry(terms, 4 * t + 2), like)
        total += entry(w, entry(terms, 4 * t + 3)) * dot(a, b)
        if t + 1 == count or entry(terms, 4 * t + 4) != p:
            store(V, p, total)
            total = 0.0 * like


@exact
def factored(x, at, n, dim, tables, w, memory, like):
    """Points, Wilson rows and the factor of H^bb of one frame; false if there is none."""
    P, B, V, work = memory
    if not place(x, at, n, dim, P, like):
        return False
    if not gradients(P, tables.kinds, tables.beads, dim, B, like):
        return False
    hard_matrix(B, tables.terms, w, V, tables.symbolic[1].size, like)
    return sparse.factor(V, *tables.symbolic, work, like) < 0


@exact_kernel
def logdet_frames(x, n, dim, tables, w, first, last, out, memory, states):
    """ln det H^bb of frames; the first without an answer, or of eight with one, or -1."""
    like = zeros(states)
    m, nnz = tables.kinds.size, tables.symbolic[1].size
    points = 3 * (n + GHOSTS)
    whole = aligned(memory)
    P = part(whole, 0, points, like)
    B = part(whole, points, 12 * m, like)
    work = part(whole, points + 12 * m, m, like)
    V = part(whole, points + 13 * m, nnz, like)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        at = frame * n * dim
        if not factored(x, at, n, dim, tables, w, (P, B, V, work), like):
            return frame
        put(out, frame, 1, sparse.log_product(V, tables.symbolic[0], like))
    return -1


# --- the force ------------------------------------------------------------------------------------


@exact
def weigh(B, S, slots, partners, w, W, like):
    """W = S B_b M⁻¹, each row on its own beads."""
    t = 0
    for k in range(slots.shape[0]):
        a = zero = 0.0 * like
        b = c = zero
        end = entry(slots, 3 * k + 2)
        while t < end:
            s = load(S, entry(partners, 2 * t), like)
            at = 3 * entry(partners, 2 * t + 1)
            a += s * load(B, at, like)
            b += s * load(B, at + 1, like)
            c += s * load(B, at + 2, like)
            t += 1
        weight = entry(w, entry(slots, 3 * k + 1))
        store3(W, 3 * entry(slots, 3 * k), (weight * a, weight * b, weight * c))


@exact
def add3(R, k, g, like):
    store3(R, k, plus(load3(R, k, like), g))


@exact
def take_off3(R, k, g, like):
    store3(R, k, minus(load3(R, k, like), g))


@exact
def rates(P, W, kinds, beads, dim, R, like):
    """Σ_i (∂²q_i/∂x∂x) W_i into R, padded as the points are."""
    for r in range(kinds.size):
        kind = entry(kinds, r)
        i = 3 * entry(beads, 4 * r)
        j = 3 * entry(beads, 4 * r + 1)
        u = between(P, beads, r, 0, like)
        w1 = load3(W, 12 * r + 3, like)
        du = minus(w1, load3(W, 12 * r, like))
        if kind == LENGTH:
            gu = length_rate(u, du)
            take_off3(R, i, gu, like)
            add3(R, j, gu, like)
            continue
        k = 3 * entry(beads, 4 * r + 2)
        v = between(P, beads, r, 1, like)
        w2 = load3(W, 12 * r + 6, like)
        dv = minus(w2, w1)
        if kind == ANGLE:
            if dim == 2:
                gu, gv = turn_rate(u, v, du, dv)
            else:
                gu, gv = angle_rate(u, v, du, dv)
            take_off3(R, i, gu, like)
            add3(R, j, minus(gu, gv), like)
            add3(R, k, gv, like)
            continue
        t = between(P, beads, r, 2, like)
        dt = minus(load3(W, 12 * r + 9, like), w2)
        gu, gv, gt = torsion_rate(u, v, t, du, dv, dt)
        take_off3(R, i, gu, like)
        add3(R, j, minus(gu, gv), like)
        add3(R, k, minus(gv, gt), like)
        add3(R, 3 * entry(beads, 4 * r + 3), gt, like)


@exact
def put_force(R, kT, n, dim, out, at, like):
    """−kT R of the beads; false if something is not finite."""
    stride = n * dim
    check = 0.0 * like
    for k in range(GHOSTS, n + GHOSTS):
        for a in range(dim):
            f = -kT * load(R, 3 * k + a, like)
            put(out, at, stride, f)
            check += 0.0 * f
            at += 1
    return above(1.0 + 0.0 * like, check)


@exact_kernel
def force_frames(x, n, dim, tables, w, kT, first, last, out, memory, states):
    """Fixman forces of frames, as `logdet_frames`."""
    like = zeros(states)
    m, nnz = tables.kinds.size, tables.symbolic[1].size
    points = 3 * (n + GHOSTS)
    whole = aligned(memory)
    P = part(whole, 0, points, like)
    B = part(whole, points, 12 * m, like)
    V = part(whole, points + 12 * m, nnz, like)
    R = part(whole, points + 12 * m + nnz, points, like)
    W = part(whole, 2 * points + 12 * m + nnz, 12 * m, like)  # and scratch until it is filled
    S = part(whole, 2 * points + 24 * m + nnz, nnz, like)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        at = frame * n * dim
        if not factored(x, at, n, dim, tables, w, (P, B, V, W), like):
            return frame
        sparse.inverse_on_pattern(V, S, *tables.symbolic, W, like)
        weigh(B, S, tables.slots, tables.partners, w, W, like)
        clear(R, points, like)
        rates(P, W, tables.kinds, tables.beads, dim, R, like)
        if not put_force(R, kT, n, dim, out, at, like):
            return frame
    return -1
