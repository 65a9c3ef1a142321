"""Independent chains and trees of hard bonds in the rigid ensemble, drawn bond by bond.

Beads come before their parents, so that elimination from the ends to the root meets a bead when
all that hangs on it is drawn.  With the bonds u_j that end in a bead, their pivots w + a_j and its
inverse mass w,

    K = (1/w + Σ_j u_j u_jᵀ/a_j)⁻¹ ,   a = uᵀ K u ,   d = w_parent + a ,

u its own bond: 1/a is the inertia along u of all that hangs on it.  A leaf has K = w.  The bonds
that end in a bead contribute the determinant of the matrix with w + a_j on its diagonal and
w u_i·u_j beside it: that is w + a for one, and at most the product of the diagonal for several.

A bond is drawn isotropically and kept with the probability that the transfer operator gives to its
pivot.  At a branch point a factor of that probability is the root of the determinant over the
product of its diagonal, and where it is refused all that hangs on the bead is drawn anew.

One bond before another is written without a subtraction: a = w (a_j + w s²)/(a_j + w).
"""

from __future__ import annotations

import math

from fixman.kernels.algebra.random import following, fraction
from fixman.kernels.compiler.lanes import exact_kernel, fma
from fixman.kernels.compiler.steps import exact_step


@exact_step
def twice(bits):
    """Return a number in [−1, 1)."""
    return 2.0 * fraction(bits) - 1.0


@exact_kernel
def draw_trees(stream, tree, table, dim, count, most, out, work):
    """Put trees into ``out`` (count · n, dim); false if that takes more than ``most`` bonds.

    ``work`` is for four numbers a bead.
    """
    begins, parents, beads, anchor, w, lengths = tree
    which, series, offsets, least, slope = table
    a, b, c, d = stream[0], stream[1], stream[2], stream[3]
    size = w.size
    root = size - 1
    n = size if beads[anchor] >= 0 else root  # beads of which a place is wanted
    drawn = 0
    for tree_number in range(count):
        k = 0
        while True:
            drawn += 1
            if drawn > most:
                return False
            # What hangs on bead k.
            last = k - 1
            leaf = begins[k] == k
            several = not leaf and begins[last] != begins[k]
            keep = 1.0
            xx = yy = zz = w[k]
            xy = xz = yz = 0.0
            if several:
                j = last
                while j >= begins[k]:
                    x, y, z = work[4 * j], work[4 * j + 1], work[4 * j + 2]
                    px = xx * x + xy * y + xz * z
                    py = xy * x + yy * y + yz * z
                    pz = xz * x + yz * y + zz * z
                    pivot = work[4 * j + 3] + max(x * px + y * py + z * pz, 0.0)
                    keep *= pivot / (work[4 * j + 3] + w[k])
                    share = 1.0 / pivot
                    xx -= share * px * px
                    yy -= share * py * py
                    zz -= share * pz * pz
                    xy -= share * px * py
                    xz -= share * px * pz
                    yz -= share * py * pz
                    j = begins[j] - 1
                keep = math.sqrt(keep)
            if k == root:
                if several:
                    bits, a, b, c, d = following(a, b, c, d)
                    if fraction(bits) >= keep:
                        k = begins[k]
                        continue
                break
            # A direction (Marsaglia 1972).
            while True:
                bits, a, b, c, d = following(a, b, c, d)
                x = twice(bits)
                bits, a, b, c, d = following(a, b, c, d)
                y = twice(bits)
                z = x * x + y * y
                if z < 1.0 and z > 0.0:
                    break
            if dim == 3:
                s = 2.0 * math.sqrt(1.0 - z)
                x *= s
                y *= s
                z = 1.0 - 2.0 * z
            else:
                s = 1.0 / math.sqrt(z)
                x *= s
                y *= s
                z = 0.0
            at = 4 * k
            work[at] = x
            work[at + 1] = y
            work[at + 2] = z
            if leaf:
                work[at + 3] = w[k]
                k += 1
                continue
            if several:
                rest = x * (xx * x + 2.0 * (xy * y + xz * z))
                rest += y * (yy * y + 2.0 * yz * z) + z * z * zz
                rest = max(rest, 0.0)
            else:
                cosine = x * work[at - 4] + y * work[at - 3] + z * work[at - 2]
                before = work[at - 1]
                sine2 = max((1.0 - cosine) * (1.0 + cosine), 0.0)
                rest = w[k] * (before + w[k] * sine2) / (before + w[k])
            work[at + 3] = rest
            bits, a, b, c, d = following(a, b, c, d)
            u = fraction(bits)
            f = which[k]
            if several or u >= least[f]:
                # Clenshaw's sum at the pivot.
                t = slope[f] * math.log(1.0 + rest / w[parents[k]]) - 1.0
                high = higher = 0.0
                for m in range(offsets[f + 1] - 1, offsets[f], -1):
                    high, higher = fma(t + t, high, series[m] - higher), high
                if u >= keep * fma(t, high, series[offsets[f]] - higher):
                    if several:
                        k = begins[k]
                    continue
            k += 1
        # Places, from the root to the ends, in the place of directions.
        work[4 * root] = work[4 * root + 1] = work[4 * root + 2] = 0.0
        for k in range(root - 1, -1, -1):
            p = 4 * parents[k]
            for axis in range(dim):
                work[4 * k + axis] = work[p + axis] - lengths[k] * work[4 * k + axis]
        for k in range(size):
            if beads[k] >= 0:
                row = tree_number * n + beads[k]
                for axis in range(dim):
                    out[row, axis] = work[4 * k + axis] - work[4 * anchor + axis]
    stream[0], stream[1], stream[2], stream[3] = a, b, c, d
    return True
