"""ln det H^bb and the exact Fixman force for any hard set, of one frame or of eight in lanes.

    U = ½ kT ln det H^bb ,   −∂U/∂x = −kT Σ_i (∂²q_i/∂x∂x) W_i ,   W = S B_b M⁻¹

with i over the hard rows and S = (H^bb)⁻¹ on the pattern of its factor (theory.md section 4).

Frames are flat, and those from ``first`` to ``last`` are computed: one by one, or eight successive
ones at a time in lanes, where there must be eight.  A frame's answer is the same to the last bit.
"""

from __future__ import annotations

from fixman.kernels.chain import hard
from fixman.kernels.compiler.lanes import above, exact_kernel, lanes, load, part, put, store, zeros
from fixman.kernels.factors import sparse


@exact_kernel
def logdet_frames(x, system, first, last, out, memory, states):
    """ln det H^bb of frames; the first without an answer, or of eight with one, or -1."""
    like = zeros(states)
    size = system.n * len(system.axes)
    points = size + system.front * len(system.axes)
    whole = hard.aligned(memory)
    X = part(whole, 0, points, like)
    block = hard.block(system, whole, points, like)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        found = hard.place(x, frame * size, size, size, X, system.axes, like)
        found &= hard.factor(system, block, X, like)
        logdet = sparse.log_product(block.H, system.symbolic.first, like)
        if not (found and above(1.0 + 0.0 * like, 0.0 * logdet)):
            return frame
        put(out, frame, 1, logdet)
    return -1


@exact_kernel
def force_frames(x, system, kT, first, last, out, memory, states):
    """Fixman forces of frames, as `logdet_frames`."""
    like = zeros(states)
    dim = len(system.axes)
    size = system.n * dim
    points = size + system.front * dim
    whole = hard.aligned(memory)
    X = part(whole, 0, points, like)
    F = part(whole, points, points, like)
    block = hard.block(system, whole, 2 * points, like)
    for begin in range(first, last, lanes(like)):
        frame = min(begin, last - lanes(like))  # the last eight reach back
        found = hard.place(x, frame * size, size, size, X, system.axes, like)
        found &= hard.factor(system, block, X, like)
        for k in range(points):
            store(F, k, 0.0 * like)
        hard.add_metric_force(system, block, F, X, 1.0, like)
        check = 0.0 * like
        for k in range(size):
            force = kT * load(F, points - size + k, like)
            put(out, frame * size + k, size, force)
            check += 0.0 * force
        if not (found and above(1.0 + 0.0 * like, check)):
            return frame
    return -1
