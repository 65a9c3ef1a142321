"""The hard block of any chain: B, H^bb, its factor, products with B and Bᵀ, the metric force.

    H^bb = B_b M⁻¹ B_bᵀ ,   H_ij = Σ_k w_k ∂q_i/∂x_k · ∂q_j/∂x_k ,   w_k = 1/m_k

(Fixman 1974; Lee & Chirikjian 2005, eq. 7), with the rows of theory.md section 2.

A row of one bond, a length or a square, has one vector, ∂q/∂x_j = −∂q/∂x_i; any other has a vector
∂q/∂x_k for each of its points.  A *slot* is a point with a vector and a sign: bond (i, j) of
direction u has the slots (i, u, −) and (j, u, +), and with bond (j, k) of direction v one product,
H = −w_j u·v.  Points are the beads, after the three ghosts of a fixed base; arrays are flat and of
units, point k from unit k·dim (see `lanes`).
"""

from collections import namedtuple
from itertools import pairwise

import numpy as np

from fixman.kernels.algebra.vectors import along, fused_dot, minus, plus, put_vector, vector
from fixman.kernels.chain import rows as row
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.lanes import entry, exact, exact_arrays, exact_kernel, fma, part, store
from fixman.kernels.compiler.steps import chosen
from fixman.kernels.factors import sparse


class Hard(
    namedtuple(
        "Hard",
        "axes n front kinds points vectors products weights owners movers carriers signs shares "
        "number ends meets pulls symbolic public",
    )
):
    """Tables of the hard rows, in factor order, of int32 and float64, kinds of int8.

    n, front : beads, and points before them
    kinds (m,), points (m · 4,) : kind and four points of each row
    vectors (m + 1,) : the first vector of each row, and the end
    products (t · 3,), weights (t,) : element of H, vectors a and b, and Σ ± w_k over the beads at
        which the two rows have these: H_p = Σ weight · (a·b)
    owners, movers, carriers (s,), signs, shares (s,) : row, point, vector, sign, and sign over mass
        of each slot: ∂q/∂x of the row by the point is sign · vector
    number : of vectors
    ends (number,), meets (… · 2,), pulls (…,) : terms of W_a = Σ_j S_ij w g_j: where those of
        vector a end; place of S_ij and number of g_j of each; its ± w
    symbolic : pattern of the factor
    public (m,) : number of each row among the hard coordinates
    """


def units(system: Hard, *, force: bool = False) -> int:
    """Units of memory for points and a `block`, of a factor alone or with the metric force."""
    dim, m = len(system.axes), system.kinds.size
    block = system.number * dim + system.symbolic.row.size
    points = (system.n + system.front) * dim
    return int(points + block + 3 * m + (points + block if force else 0))


@exact_arrays
def aligned(memory):
    """From where registers of 64 bytes are aligned."""
    return memory[(-memory.ctypes.data // 8) % lane.LANES :]


class Block(namedtuple("Block", "B H D work S W")):
    """B: vectors; H: elements, then the factor; D: 1/d; work: two units a row; S, W: for forces."""


@exact_arrays
def block(system, memory, first, like):
    """Parts of a memory, from a unit on; S and W are not there in a short one."""
    m = system.kinds.size
    vectors = system.number * len(system.axes)
    nnz = system.symbolic.row.size
    rest = first + vectors + nnz + 3 * m
    return Block(
        part(memory, first, vectors, like),
        part(memory, first + vectors, nnz, like),
        part(memory, first + vectors + nnz, m, like),
        part(memory, first + vectors + nnz + m, 2 * m, like),
        part(memory, rest, nnz, like),
        part(memory, rest + nnz, vectors, like),
    )


@exact
def read_points(x, at, stride, size, X, axes, like):
    """Fill the points from states of ``size`` numbers at ``x[at]``; false if one is not finite."""
    dim = len(axes)
    zero = 0.0 * like
    front = X.size // lane.lanes(like) - size
    for k in range(front):
        store(X, k, zero)
    if front == 3 * dim:  # x₋₂, x₋₁ and x₀
        store(X, 0, zero - 1.0)
        store(X, 1, zero - 1.0)
        store(X, dim, zero - 1.0)
    return read_states(x, at, stride, size, X, like)


@exact
def read_states(x, at, stride, size, X, like):
    """Fill the last units of X with states; false if one is not finite."""
    first = X.size // lane.lanes(like) - size
    check = 0.0 * like
    for k in range(size):
        value = lane.take(x, at + k, stride, like)
        store(X, first + k, value)
        check += 0.0 * value
    return lane.above(1.0 + 0.0 * like, check)


# --- B and H^bb ----------------------------------------------------------------------------------


@exact
def gradients(system, X, B, like):
    """Fill the vectors of B_b (theory.md section 2); false if a row has none, in any lane."""
    axes = system.axes
    points = system.points
    small = 0.0 * like + row.SMALLEST_SINE
    exist = True
    for r in range(system.kinds.size):
        kind = entry(system.kinds, r)
        at = entry(system.vectors, r)
        u, v, t = row.bonds(kind, X, points, r, axes, like)
        divisor = row.put_gradient(kind, B, at, u, v, t, axes)
        exist &= lane.above(divisor, small) & row.measured(kind, u, v, t)
    return exist


@exact
def matrix(system, B, H, like):
    """H_ij = Σ_k w_k ∂q_i/∂x_k · ∂q_j/∂x_k (eq. 7); ``products`` are sorted by element."""
    axes = system.axes
    zero = 0.0 * like
    for p in range(system.symbolic.row.size):
        store(H, p, zero)
    total = zero
    count = system.weights.size
    for t in range(count):
        p = entry(system.products, 3 * t)
        a = vector(B, entry(system.products, 3 * t + 1), axes, like)
        b = vector(B, entry(system.products, 3 * t + 2), axes, like)
        total = fma(entry(system.weights, t) + zero, fused_dot(a, b), total)
        if t + 1 == count or entry(system.products, 3 * t + 3) != p:
            store(H, p, total)
            total = zero


@exact
def factor(system, block, X, like):
    """Vectors at X, H^bb and its factor; false if a row has no gradient."""
    exist = gradients(system, X, block.B, like)
    matrix(system, block.B, block.H, like)
    sparse.factor(block.H, block.D, system.symbolic, block.work, like)
    return exist


@exact_kernel
def matrix_frame(x, system, H):
    """H^bb of one configuration."""
    X = np.empty((system.n + system.front) * len(system.axes))
    B = np.empty(system.number * len(system.axes))
    read_points(x, 0, 0, x.size, X, system.axes, 0.0)
    gradients(system, X, B, 0.0)
    matrix(system, B, H, 0.0)


@exact
def push(system, B, multipliers, shares, Y, axes, like):
    """Y ← Y + Bᵀ λ, or M⁻¹ Bᵀ λ, by the ``shares`` of the slots."""
    for s in range(system.owners.size):
        size = lane.load(multipliers, entry(system.owners, s), like) * entry(shares, s)
        k = entry(system.movers, s)
        g = vector(B, entry(system.carriers, s), axes, like)
        put_vector(Y, k, axes, along(size, g, vector(Y, k, axes, like)))


@exact
def pull(system, B, Y, shares, out, like):
    """Subtract B Y, or B M⁻¹ Y, from what is in ``out``."""
    axes = system.axes
    zero = 0.0 * like
    total = zero
    count = system.owners.size
    for s in range(count):
        r = entry(system.owners, s)
        g = vector(B, entry(system.carriers, s), axes, like)
        y = vector(Y, entry(system.movers, s), axes, like)
        total = fma(entry(shares, s) + zero, fused_dot(g, y), total)
        if s + 1 == count or entry(system.owners, s + 1) != r:
            store(out, r, lane.load(out, r, like) - total)
            total = zero


# --- the metric force ----------------------------------------------------------------------------


@exact
def add_metric_force(system, block, F, X, kT, like):
    """F ← F − ½ kT ∂ ln det H^bb / ∂x, given the factor (theory.md section 4).

        d ln det H^bb = Σ_ij S_ij dH_ij = 2 Σ_ik W_ik · dg_ik   for any dx ,   S = (H^bb)⁻¹ ,
        dH_ij = Σ_k w_k (dg_ik·g_jk + g_ik·dg_jk) ,   g_ik = ∂q_i/∂x_k ,   W_ik = w_k Σ_j S_ij g_jk

    over the beads k of each row i; a row of one bond has W of its outer bead less that of its inner
    one.  dg_ik = Σ_l (∂²q_i/∂x_k∂x_l) dx_l turns kT W into forces on bonds.
    """
    axes = system.axes
    zero = 0.0 * like
    none = zero, zero, zero
    B, W, points = block.B, block.W, system.points
    sparse.inverse_on_pattern(block.H, block.D, block.S, system.symbolic, block.work, like)
    t = 0
    for k in range(system.number):  # kT W
        total = none
        while t < entry(system.ends, k):
            s = (kT * entry(system.pulls, t)) * lane.load(block.S, entry(system.meets, 2 * t), like)
            total = along(s, vector(B, entry(system.meets, 2 * t + 1), axes, like), total)
            t += 1
        put_vector(W, k, axes, total)
    for r in range(system.kinds.size):  # −kT W · ∂²q
        kind = entry(system.kinds, r)
        u, v, t = row.bonds(kind, X, points, r, axes, like)
        du, dv, dt = along_bonds(kind, W, entry(system.vectors, r), axes, like)
        draw(kind, F, points, r, row.rate(kind, u, v, t, du, dv, dt), axes, like)


@chosen(row.KINDS)
def along_bonds(kind, W, at, axes, like):
    """W along the bonds of a row, from its vectors, which begin with number ``at``."""
    if kind.beads == 2:  # one vector, of the bond itself
        return vector(W, at, axes, like), row.NONE, row.NONE
    g = [vector(W, at + k, axes, like) for k in range(kind.beads)]
    found = [minus(after, before) for before, after in pairwise(g)]
    return tuple([*found, row.NONE, row.NONE, row.NONE][:3])


@chosen(row.KINDS)
def draw(kind, F, points, r, gradients, axes, like):
    for k in range(kind.beads - 1):
        i, j, g = entry(points, 4 * r + k), entry(points, 4 * r + k + 1), gradients[k]
        put_vector(F, i, axes, plus(vector(F, i, axes, like), g))
        put_vector(F, j, axes, minus(vector(F, j, axes, like), g))


@exact_kernel
def metric_frames(x, system, kT, first, last, out, memory, states):
    """Fixman forces of flat frames, or where kT is None ln det H^bb.

    Frames are taken one by one, or eight at a time in lanes, where there must be eight, with the
    same bits.  Returns the first frame of the first group that has one without an answer, or −1.
    """
    like = lane.zeros(states)
    dim = len(system.axes)
    size = system.n * dim
    points = size + system.front * dim
    whole = aligned(memory)
    X = part(whole, 0, points, like)
    F = part(whole, points, 0 if kT is None else points, like)
    parts = block(system, whole, points if kT is None else 2 * points, like)
    for begin in range(first, last, lane.lanes(like)):
        frame = min(begin, last - lane.lanes(like))  # the last eight reach back
        found = read_points(x, frame * size, size, size, X, system.axes, like)
        found &= factor(system, parts, X, like)
        check = 0.0 * like
        if kT is None:
            logdet = sparse.log_product(parts.H, system.symbolic.first, like)
            lane.put(out, frame, 1, logdet)
            check += 0.0 * logdet
        else:
            for k in range(points):
                store(F, k, 0.0 * like)
            add_metric_force(system, parts, F, X, 1.0, like)
            for k in range(size):
                force = kT * lane.load(F, points - size + k, like)
                lane.put(out, frame * size + k, size, force)
                check += 0.0 * force
        if not (found and lane.above(1.0 + 0.0 * like, check)):
            return frame
    return -1
