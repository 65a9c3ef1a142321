"""Independent chains and trees of hard bonds in the rigid ensemble, drawn bond by bond.

Beads come before their parents, so that elimination from the ends to the root meets a bead when
all that hangs on it is drawn.  With the bonds u_j that end in a bead, their pivots w + a_j and its
inverse mass w,

    K = (1/w + Σ_j u_j u_jᵀ/a_j)⁻¹ ,   a = uᵀ K u ,   d = w_parent + a ,

u its own bond: 1/a is the inertia along u of all that hangs on it.  A leaf has K = w.  The bonds
that end in a bead contribute the determinant of the matrix with w + a_j on its diagonal and
w u_i·u_j beside it: at most the product of the diagonal.  Where one bond follows another, a is the
e of `tridiagonal`.

A bond is drawn isotropically and kept with the probability that the transfer operator gives to its
pivot.  At a branch point a factor of that probability is the root of the determinant over the
product of its diagonal, and where it is refused all that hangs on the bead is drawn anew.
"""

import math

from fixman.kernels.algebra.random import following, fraction
from fixman.kernels.compiler.lanes import exact, exact_kernel, fma
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.factors.tridiagonal import onward


@exact_step
def twice(bits):
    return 2.0 * fraction(bits) - 1.0


@exact
def direction(a, b, c, d, dim):
    """Return a random direction (Marsaglia 1972), and the stream."""
    z = 1.0
    while not 0.0 < z < 1.0:
        bits, a, b, c, d = following(a, b, c, d)
        x = twice(bits)
        bits, a, b, c, d = following(a, b, c, d)
        y = twice(bits)
        z = x * x + y * y
    s = 2.0 * math.sqrt(1.0 - z) if dim == 3 else 1.0 / math.sqrt(z)
    return s * x, s * y, 1.0 - 2.0 * z if dim == 3 else 0.0, a, b, c, d


@exact
def branch(work, begins, k, w):
    """K of a bead on which several bonds hang, and the root of det over its diagonal's product.

    K = w − Σ p pᵀ / (w + a), bond by bond, with p = K u and w + uᵀ K u for w + a.
    """
    keep = 1.0
    xx = yy = zz = w
    xy = xz = yz = 0.0
    j = k - 1
    while j >= begins[k]:
        x, y, z = work[4 * j], work[4 * j + 1], work[4 * j + 2]
        px = xx * x + xy * y + xz * z
        py = xy * x + yy * y + yz * z
        pz = xz * x + yz * y + zz * z
        pivot = work[4 * j + 3] + max(x * px + y * py + z * pz, 0.0)
        keep *= pivot / (work[4 * j + 3] + w)
        share = 1.0 / pivot
        xx -= share * px * px
        yy -= share * py * py
        zz -= share * pz * pz
        xy -= share * px * py
        xz -= share * px * pz
        yz -= share * py * pz
        j = begins[j] - 1
    return (xx, yy, zz, xy, xz, yz), math.sqrt(keep)


@exact
def acceptance(table, f, x):
    """Probability of a pivot by its function f: Clenshaw's sum at x = ln(1 + a/w)."""
    _, series, offsets, _, slope = table
    t = slope[f] * x - 1.0
    high = higher = 0.0
    for m in range(offsets[f + 1] - 1, offsets[f], -1):
        high, higher = fma(t + t, high, series[m] - higher), high
    return fma(t, high, series[offsets[f]] - higher)


@exact
def put_places(tree, work, number, n, dim, out):
    """Add bonds up from the root to the ends, and leave the beads of a tree in ``out``."""
    _, parents, beads, anchor, w, lengths = tree
    root = w.size - 1
    work[4 * root] = work[4 * root + 1] = work[4 * root + 2] = 0.0
    for k in range(root - 1, -1, -1):
        p = 4 * parents[k]
        for axis in range(dim):
            work[4 * k + axis] = work[p + axis] - lengths[k] * work[4 * k + axis]
    for k in range(w.size):
        if beads[k] >= 0:
            row = number * n + beads[k]
            for axis in range(dim):
                out[row, axis] = work[4 * k + axis] - work[4 * anchor + axis]


@exact_kernel
def draw_trees(stream, tree, table, dim, count, most, out, work):
    """Put trees into ``out`` (count · n, dim); false if that takes more than ``most`` bonds.

    ``work`` is for four numbers a bead: the direction u of the bond that ends in it, and its a.
    """
    begins, parents, beads, anchor, w, _ = tree
    which, _, _, least, _ = table
    a, b, c, d = stream[0], stream[1], stream[2], stream[3]
    root = w.size - 1
    n = w.size if beads[anchor] >= 0 else root  # beads of which a place is wanted
    drawn = 0
    for number in range(count):
        k = 0
        while True:
            drawn += 1
            if drawn > most:
                return False
            leaf = begins[k] == k
            several = not leaf and begins[k - 1] != begins[k]
            (xx, yy, zz, xy, xz, yz), keep = (w[k], w[k], w[k], 0.0, 0.0, 0.0), 1.0
            if several:
                (xx, yy, zz, xy, xz, yz), keep = branch(work, begins, k, w[k])
            if k == root:
                if several:
                    bits, a, b, c, d = following(a, b, c, d)
                    if fraction(bits) >= keep:
                        k = begins[k]
                        continue
                break
            x, y, z, a, b, c, d = direction(a, b, c, d, dim)
            at = 4 * k
            work[at], work[at + 1], work[at + 2], work[at + 3] = x, y, z, w[k]
            if not leaf:
                if several:
                    rest = x * (xx * x + 2.0 * (xy * y + xz * z))
                    rest += y * (yy * y + 2.0 * yz * z) + z * z * zz
                    rest = max(rest, 0.0)
                else:
                    cosine = x * work[at - 4] + y * work[at - 3] + z * work[at - 2]
                    square = max((1.0 - cosine) * (1.0 + cosine), 0.0)
                    before = work[at - 1]
                    rest = onward(before, w[k], 1.0 / (before + w[k]), square)
                work[at + 3] = rest
                bits, a, b, c, d = following(a, b, c, d)
                u, f = fraction(bits), which[k]
                # √d h(d) is smallest at z = 0, and there is no need to know more of it.
                if (several or u >= least[f]) and u >= keep * acceptance(
                    table, f, math.log(1.0 + rest / w[parents[k]])
                ):
                    if several:
                        k = begins[k]
                    continue
            k += 1
        put_places(tree, work, number, n, dim, out)
    stream[0], stream[1], stream[2], stream[3] = a, b, c, d
    return True
