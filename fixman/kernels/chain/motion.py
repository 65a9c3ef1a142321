"""Constrained motion for any hard set, frame by frame (theory.md section 3).

Linear chains whose hard rows are exactly their bonds are those of `jointed_motion`.
"""

import numpy as np

from fixman.kernels import jit
from fixman.kernels.chain import charts, hard
from fixman.kernels.chain.rows import SMALLEST_SINE, bonds, curvature
from fixman.kernels.compiler.lanes import entry, exact_kernel
from fixman.kernels.factors import sparse


@exact_kernel
def motion_frames(x, v, F, system, w, out, memory):
    """Motion of every frame under Cartesian forces; the first frame without an answer, or -1.

    ``w (n d,)`` are inverse masses.  ``out (frames, n d + hard)`` receives ẍ and the tensions; q̈
    is left to `charts.rate_frames`, since it alone can be singular.
    """
    m = system.kinds.size
    axes = system.axes
    size = system.n * len(axes)
    points = size + system.front * len(axes)
    X, V, G = np.empty(points), np.zeros(points), np.zeros(points)
    kappa, rhs = np.empty(m), np.empty(m)
    block = hard.block(system, memory, 0, 0.0)
    for frame in range(out.shape[0]):
        found = hard.read_points(x, frame * size, 0, size, X, axes, 0.0)
        found &= hard.read_states(v, frame * size, 0, size, V, 0.0)
        found &= hard.read_states(F, frame * size, 0, size, G, 0.0)
        if not (found and hard.factor(system, block, X, 0.0)):
            return frame
        for r in range(m):
            kind = entry(system.kinds, r)
            d, e, f = bonds(kind, X, system.points, r, axes, 0.0)
            dd, de, df = bonds(kind, V, system.points, r, axes, 0.0)
            kappa[r] = curvature(kind, d, e, f, dd, de, df)
            out[frame, size + system.public[r]] = 0.0
        check = 0.0
        # The second sweep solves for what is left of B_b ẍ + κ_b.  Formed from B and not from H^bb,
        # it has the condition number of B_b M^-½ and not its square (Björck 1987).
        for _ in range(2):
            for r in range(m):
                rhs[r] = -kappa[r]
            hard.pull(system, block.B, G, system.shares, rhs, 0.0)
            sparse.solve(block.H, block.D, system.symbolic, rhs, 0.0)
            hard.push(system, block.B, rhs, system.signs, G, axes, 0.0)
            for r in range(m):
                out[frame, size + system.public[r]] -= rhs[r]
                check += 0.0 * rhs[r]
        for k in range(size):
            out[frame, k] = w[k] * G[points - size + k]
            check += 0.0 * out[frame, k]
        if check != 0.0:  # NaN: something in this frame was not finite
            return frame
    return -1


@jit
def add_torques(x, torque, n, dim, fixed, rows, F):
    """F ← F + B_aᵀ τ of flat frames; the first whose τ acts on a row without gradient, or -1.

    ``rows`` are the kinds, points and columns of the soft coordinates.
    """
    kinds, points, columns = rows
    m = kinds.size
    P, B = np.empty(3 * n + 9), np.empty(12)
    for frame in range(torque.size // m if m else 0):
        charts.put_points(x, frame, n, dim, fixed, P)
        for r in range(m):
            tau = torque[frame * m + r]
            if tau == 0.0:
                continue
            if not charts.wilson_row(P, kinds, points, r, fixed, B, 0) > SMALLEST_SINE:
                return frame
            charts.add_row(B, columns, r, tau, F, frame * n * dim, dim)
    return -1
