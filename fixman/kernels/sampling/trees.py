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

from fixman.kernels.algebra import triples as mat
from fixman.kernels.algebra import vectors as vec
from fixman.kernels.algebra.random import following, fraction
from fixman.kernels.compiler.lanes import exact, exact_kernel, fma
from fixman.kernels.factors.tridiagonal import onward


@exact
def direction(a, b, c, d, dim):
    """Return a random direction (Marsaglia 1972), and the stream."""
    z = 1.0
    while not 0.0 < z < 1.0:
        bits, a, b, c, d = following(a, b, c, d)
        x = 2.0 * fraction(bits) - 1.0
        bits, a, b, c, d = following(a, b, c, d)
        y = 2.0 * fraction(bits) - 1.0
        z = x * x + y * y
    s = 2.0 * math.sqrt(1.0 - z) if dim == 3 else 1.0 / math.sqrt(z)
    return s * x, s * y, 1.0 - 2.0 * z if dim == 3 else 0.0, a, b, c, d


@exact
def branch(work, begins, k, w):
    """K of a bead on which several bonds hang, and the root of det over its diagonal's product.

    K = w − Σ p pᵀ / (w + a), bond by bond, with p = K u and w + uᵀ K u for w + a; by `triples`.
    """
    K, keep = (w, 0.0, 0.0, w, 0.0, w), 1.0
    j = k - 1
    while j >= begins[k]:
        u = mat.load3(work, 4 * j, 0.0)
        p = mat.times_symmetric(K, u)
        pivot = work[4 * j + 3] + max(vec.dot(u, p), 0.0)
        keep *= pivot / (work[4 * j + 3] + w)
        x, y, z = p
        square = x * x, x * y, x * z, y * y, y * z, z * z
        K = vec.minus(K, vec.scaled(1.0 / pivot, square))
        j = begins[j] - 1
    return K, math.sqrt(keep)


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
            K, keep = (w[k], 0.0, 0.0, w[k], 0.0, w[k]), 1.0
            if several:
                K, keep = branch(work, begins, k, w[k])
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
                    rest = max(vec.dot((x, y, z), mat.times_symmetric(K, (x, y, z))), 0.0)
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
