"""Which hard rows are left out: how many against an exact rank of another make, which by size.

``python tests/test_redundancy.py [first last]`` tries graphs, by default those of seeds 0 to 500,
and prints how the condition of the unit Wilson rows that stay compares with that of as many chosen
by scipy's pivoted QR from all hard rows, those of the chart among them.  It ends with an error if a
ratio is above 10; that the rank is exact is asserted on the way.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.linalg

import fixman as fx
from fixman.chains import redundancy
from fixman.chains.chain import bonds as bonds_of
from fixman.chains.chain import is_rigid
from selection import quick

PRIME = 2**31 - 1  # not the library's, so that the two have nothing in common


def exact_rank(rows, n, dim, rng):
    """Rank of the gradients of squared lengths and of cos² at random positions modulo PRIME.

    In Python's own integers, by dual numbers: (value, gradient) of each scalar product.
    """
    x = rng.integers(1, PRIME, (n, dim)).astype(object)

    def square(i, j, k, m):  # (x_j − x_i)·(x_m − x_k) and its gradient
        u, v = x[j] - x[i], x[m] - x[k]
        g = np.zeros((n, dim), dtype=object)
        for bead, sign, other in ((j, 1, v), (i, -1, v), (m, 1, u), (k, -1, u)):
            g[bead] = (g[bead] + sign * other) % PRIME
        return int((u * v).sum() % PRIME), g

    matrix = []
    for kind, beads in rows:
        if kind == "length":
            gradient = square(*beads, *beads)[1]
        else:
            i, j, k = beads
            c, dc = square(j, i, j, k)
            p, dp = square(j, i, j, i)
            q, dq = square(j, k, j, k)
            # p² q² ∂(c²/(p q))
            gradient = (2 * c * p * q) * dc - c * c * (q * dp + p * dq)
        matrix.append(gradient.ravel() % PRIME)
    A = np.array(matrix, dtype=object).reshape(len(rows), n * dim).astype(np.int64)
    rank = 0
    for column in range(n * dim):
        below = np.flatnonzero(A[rank:, column])
        if not below.size:
            continue
        pivot = rank + below[0]
        A[[rank, pivot]] = A[[pivot, rank]]
        A[rank] = A[rank] * pow(int(A[rank, column]), -1, PRIME) % PRIME
        some = rank + 1 + np.flatnonzero(A[rank + 1 :, column])
        A[some] = (A[some] - A[some, column, None] * A[rank] % PRIME) % PRIME
        rank += 1
        if rank == len(rows):
            break
    return rank


def random_graph(seed):
    """Band, cluster or rigid graph with positions that suit it: n, dim, bonds, kinds, x."""
    rng = np.random.default_rng(seed)
    dim = 2 + seed % 2
    kind = ("band", "cluster", "rigid")[seed // 2 % 3]
    hard = ("length", "angle") if seed // 6 % 4 == 0 else ("length",)
    n = int(rng.integers(8, 15 if len(hard) == 2 else 40))
    if kind == "band":
        reach = int(rng.integers(2, 6))
        x = np.cumsum(rng.normal(size=(n, dim)), axis=0)
        pairs = [(i, j) for i in range(n) for j in range(i + 1, min(n, i + reach + 1))]
        pairs = [(i, j) for i, j in pairs if j == i + 1 or rng.random() < 0.85]
    elif kind == "cluster":  # whatever is near, as in an elastic network
        x = rng.normal(size=(n, dim)) * n ** (1 / dim) / 2
        far = np.linalg.norm(x[:, None] - x, axis=-1)
        near = np.sort(far, axis=1)[:, min(n - 1, int(rng.integers(3, 8)))]
        nearer = far[np.arange(1, n)][:, :]
        pairs = [(int(np.argmin(nearer[k - 1, :k])), k) for k in range(1, n)]
        pairs += [(i, j) for i in range(n) for j in range(i + 1, n) if far[i, j] <= near[i]]
    else:  # each bead tied to more than it needs
        x = rng.normal(size=(n, dim)) * 2
        pairs = [
            (int(i), k)
            for k in range(1, n)
            for i in rng.choice(k, min(k, dim + int(rng.integers(0, 3))), replace=False)
        ]
    bonds = sorted({(min(p), max(p)) for p in pairs})
    return n, dim, bonds, hard, x, kind


def condition(B):
    sizes = np.linalg.svd(B, compute_uv=False)
    return sizes[0] / sizes[-1]


def compare(seed):
    """Rows kept, exact rank, and the condition numbers of the library's choice and of QR's."""
    n, dim, bonds, hard, x, kind = random_graph(seed)
    everywhere = fx.Chain.from_bonds(n, bonds, dim=dim, hard=hard, drop_redundant=True)
    chain = fx.Chain.from_bonds(n, bonds, dim=dim, hard=hard, drop_redundant=x)
    held = [chain.coordinates[k] for k in chain.hard]
    rows = [*held, *chain.redundant]
    rank = exact_rank(rows, n, dim, np.random.default_rng(seed))
    assert exact_rank(held, n, dim, np.random.default_rng(seed + 1)) == len(held) == rank
    assert len(everywhere.hard) == rank
    full = fx.Chain.from_bonds(n, bonds, dim=dim, hard=hard, drop_redundant=x)
    B = np.array([row / np.linalg.norm(row) for row in _wilson(full, rows, x)])
    pivots = scipy.linalg.qr(B.T, mode="r", pivoting=True)[1][:rank]
    return kind, len(rows), rank, condition(B[: len(held)]), condition(B[pivots])


def _wilson(chain, rows, x):
    """Wilson rows by a chain that holds none of them but its tree, one extra row at a time."""
    for row in rows:
        if row in chain.coordinates:
            yield fx.wilson_b(chain, x).toarray()[chain.coordinates.index(row)]
            continue
        bare = fx.Chain.branched([-1, *range(chain.n - 1)], dim=chain.dim, hard=(), extra=[row])
        yield fx.wilson_b(bare, x).toarray()[-1]


SEEDS = [*range(36), 360, 432, 794, 916]  # the last four: a chart that is badly conditioned


@pytest.mark.parametrize("seed", quick(SEEDS, *range(0, 36, 5), 360))
def test_as_many_rows_stay_as_are_independent_and_well_conditioned_ones(seed):
    _, _, _, ours, best = compare(seed)
    assert ours < 10 * best


def kept_and_best(x, bonds):
    """How many bonds stay, the condition of their unit rows and of that of as many by QR."""
    n, dim = x.shape
    chain = fx.Chain.from_bonds(n, bonds, dim=dim, drop_redundant=x)
    i, j = np.array([row.beads for row in (*(chain.coordinates[k] for k in chain.hard),
                                           *chain.redundant)]).T  # fmt: skip
    B = np.zeros((i.size, n, dim))
    B[np.arange(i.size), j] = (x[j] - x[i]) / np.linalg.norm(x[j] - x[i], axis=1)[:, None]
    B[np.arange(i.size), i] = -B[np.arange(i.size), j]
    B = B.reshape(i.size, -1)
    rank = chain.hard.size
    pivots = scipy.linalg.qr(B.T, mode="r", pivoting=True)[1][:rank]
    return rank, condition(B[:rank]), condition(B[pivots])


@pytest.mark.parametrize("cutoff", [7.0, 10.0])
def test_an_elastic_network_of_a_small_protein(cutoff):
    """76 beads in a ball, 3.8 apart along the line, tied to all within the cutoff."""
    rng = np.random.default_rng(1)
    x = np.zeros((1, 3))
    while len(x) < 76:
        step = rng.normal(size=(500, 3))
        ahead = x[-1] + 3.8 * step / np.linalg.norm(step, axis=1)[:, None]
        far = np.linalg.norm(ahead[:, None] - x, axis=-1).min(axis=1)
        good = ahead[(far > 3.5) & (np.linalg.norm(ahead, axis=1) < 12.6)]
        x = np.concatenate([x, good[:1]]) if len(good) else x[: len(x) // 2 + 1]
    far = np.linalg.norm(x[:, None] - x, axis=-1)
    pairs = np.argwhere(np.triu(far < cutoff, 1))
    kept, ours, best = kept_and_best(x, pairs)
    assert kept == exact_rank([("length", pair) for pair in pairs], 76, 3, rng)
    assert ours < 10 * best


def test_a_network_of_300_beads():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2)) * 8
    far = np.linalg.norm(x[:, None] - x, axis=-1)
    near = [(i, j) for i in range(300) for j in np.argsort(far[i])[1:13]]
    line = [(i, i + 1) for i in range(299)]
    kept, ours, best = kept_and_best(x, np.unique(np.sort(near + line, axis=1), axis=0))
    assert kept == 2 * 300 - 3
    assert ours < 10 * best


def test_a_row_of_the_chart_goes_where_the_chart_nearly_depends():
    """A planar body whose bonds and angles the chart holds alone, but badly."""
    n, dim, bonds, hard, x, _ = random_graph(360)
    chain = fx.Chain.from_bonds(n, bonds, dim=dim, hard=hard, drop_redundant=x)
    gone = [k for k, row in enumerate(chain.coordinates) if row in chain.redundant]
    assert gone
    assert not chain.hard_mask[gone].any()
    assert chain.hard.size == 2 * n - 3
    assert len(chain.extra) == len(gone)
    assert fx.Chain.from_json(chain.to_json()) == chain
    rng = np.random.default_rng(0)
    still = fx.forward_dynamics(chain, x, np.zeros_like(x), force=rng.normal(size=x.shape))
    moved = fx.wilson_b(chain, x)[gone] @ still.acceleration.ravel()
    assert np.abs(moved).max() < 1e-9 * np.abs(still.acceleration).max()
    assert {tuple(pair) for pair in bonds_of(chain).tolist()} == set(bonds)


def helix(n):
    s = 0.5 * np.arange(n)
    return np.stack([2 * np.cos(s), 2 * np.sin(s), 0.3 * s], axis=1)


def within(n, reach):
    return [(i, j) for i in range(n) for j in range(i + 1, min(n, i + reach + 1))]


@pytest.mark.parametrize("n", [60, 100, 300])
def test_bonds_up_to_five_apart_make_a_rigid_body(n):
    pairs = within(n, 5)
    chain = fx.Chain.from_bonds(n, pairs, drop_redundant=True)
    assert chain.hard.size == 3 * n - 6
    assert len(chain.redundant) == len(pairs) - (3 * n - 6)
    assert is_rigid(chain)


def test_a_choice_that_fails_where_it_is_used_says_how_to_choose():
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    flat = np.pad(np.random.default_rng(0).normal(size=(6, 2)), ((0, 0), (0, 1)))
    chain = fx.Chain.from_bonds(6, pairs, drop_redundant=True)
    with pytest.raises(fx.SingularConstraintError, match=r"drop_redundant=x$"):
        fx.logdet(chain, flat)
    with pytest.raises(fx.SingularConstraintError, match=r"stay away from this configuration$"):
        fx.logdet(fx.Chain.ring(4), np.zeros((4, 3)) + np.array([0.0, 1.0, 2.0, 1.0])[:, None])


def test_the_determinant_of_what_stays_is_a_number():
    x = helix(60)
    chain = fx.Chain.from_bonds(60, within(60, 5), drop_redundant=x)
    B = fx.wilson_b(chain, x).toarray()[chain.hard]
    exact = 2 * np.log(np.abs(np.diag(np.linalg.qr(B.T, mode="r")))).sum()
    assert fx.logdet(chain, x) == pytest.approx(exact, rel=1e-10)


def test_a_large_cluster():
    n = 400
    x = np.cumsum(np.random.default_rng(n).normal(size=(n, 3)), axis=0)
    chain = fx.Chain.from_bonds(n, within(n, 5), drop_redundant=x)
    assert chain.hard.size == 3 * n - 6
    assert np.isfinite(fx.logdet(chain, x))


def test_bodies_on_hinges(monkeypatch):
    """Braced too much each, with a bead in common."""
    bodies, asked = 60, []
    exactly = redundancy._exactly
    monkeypatch.setattr(
        redundancy, "_exactly", lambda *given: asked.append(given) or exactly(*given)
    )
    bonds = [(5 * k + i, 5 * k + j) for k in range(bodies) for j in range(6) for i in range(j)]
    x = np.random.default_rng(1).normal(size=(5 * bodies + 1, 3)).cumsum(axis=0)
    chain = fx.Chain.from_bonds(len(x), bonds, drop_redundant=x)
    assert chain.hard.size == 12 * bodies
    assert not asked  # those chosen by size were independent


def test_rows_far_apart_that_depend_on_each_other():
    """The last bond of a rigid ring of octahedra depends on all others."""
    n, reach = 400, 3
    pairs = [tuple(sorted((i, (i + k) % n))) for i in range(n) for k in range(1, reach + 1)]
    chain = fx.Chain.from_bonds(n, pairs, drop_redundant=True)
    assert chain.hard.size == 3 * n - 6


@pytest.mark.parametrize("wrong", [None, 1, 0.0, "yes", np.float64(1.0)])
def test_what_drop_redundant_takes(wrong):
    with pytest.raises((TypeError, ValueError), match="drop_redundant must"):
        fx.Chain.ring(5, drop_redundant=wrong)


def test_positions_in_drop_redundant_are_checked():
    square = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (1, 3)]
    x = np.random.default_rng(0).normal(size=(4, 2))
    with pytest.raises(ValueError, match=r"must have shape \(\.\.\., 4, 2\), got \(3, 2\)"):
        fx.Chain.from_bonds(4, square, dim=2, drop_redundant=x[:3])
    with pytest.raises(ValueError, match="one configuration"):
        fx.Chain.from_bonds(4, square, dim=2, drop_redundant=x[None])
    x[1, 0] = np.nan
    with pytest.raises(ValueError, match="bead 1"):
        fx.Chain.from_bonds(4, square, dim=2, drop_redundant=x)
    x[1] = x[0]
    with pytest.raises(fx.SingularConstraintError, match="bead 0 and bead 1 coincide"):
        fx.Chain.from_bonds(4, square, dim=2, drop_redundant=x)
    assert fx.Chain.from_bonds(4, square[:5], dim=2, drop_redundant=np.True_).redundant == ()
    with pytest.raises(fx.SingularConstraintError, match="depends on the other hard"):
        fx.Chain.from_bonds(4, square, dim=2, drop_redundant=np.False_)


def test_rows_given_twice_and_torsions():
    length, torsion = fx.Coordinate("length", (0, 1)), fx.Coordinate("torsion", (0, 1, 2, 3))
    options = {"hard": ("length", "angle", "torsion"), "drop_redundant": True}
    chain = fx.Chain.branched([-1, 0, 1, 2], extra=[length, torsion], **options)
    assert chain.redundant == (length, torsion)
    distance = fx.Coordinate("length", (0, 3))  # says what the torsion says
    chain = fx.Chain.branched([-1, 0, 1, 2], extra=[distance], **options)
    assert chain.redundant == (distance,)
    options["hard"] = ("length", "angle")
    chain = fx.Chain.branched([-1, 0, 1, 2], extra=[distance, torsion], **options)
    assert len(chain.redundant) == 1
    chain = fx.Chain.branched([-1, 0, 1, 2], base="fixed", extra=[distance, torsion], **options)
    assert len(chain.redundant) == 1


if __name__ == "__main__":
    first, last = map(int, sys.argv[1:] or (0, 500))
    print(f"{'graph':8} {'rows':>5} {'rank':>5} {'condition':>10} {'QR':>10} {'ratio':>6}")
    results = [compare(seed) for seed in range(first, last)]
    for kind, rows, rank, ours, best in results:
        print(f"{kind:8} {rows:5} {rank:5} {ours:10.3g} {best:10.3g} {ours / best:6.2f}")
    ratios = np.array([ours / best for *_, ours, best in results])
    print(f"ratio: median {np.median(ratios):.2f}, largest {ratios.max():.2f}")
    sys.exit(int((ratios > 10).any()))


@pytest.mark.parametrize("seed", range(20))
def test_lengths_that_peel_off_are_independent(monkeypatch, seed):
    """Elimination, which is left out for such rows, finds the same."""
    rng = np.random.default_rng(seed)
    n, dim, base = int(rng.integers(4, 10)), 2 + seed % 2, ("free", "fixed")[seed // 2 % 2]
    parents = [-1, *(int(rng.integers(k)) for k in range(1, n))]
    more = [("length", tuple(rng.choice(n, 2, False).tolist())) for _ in range(rng.integers(1, n))]
    given = {"dim": dim, "base": base, "extra": more, "drop_redundant": True}
    chain = fx.Chain.branched(parents, **given)
    monkeypatch.setattr(redundancy, "_peels", lambda rows: False)
    assert fx.Chain.branched(parents, **given) == chain


def test_a_long_strip_goes_to_the_elimination():
    """Beads go from its ends alone, so that rounds over all rows would take the square of time."""
    n = 200
    more = [("length", (k, k + 2)) for k in range(n - 2)]
    strip = fx.Chain.branched(np.arange(-1, n - 1), dim=2, extra=more)
    assert not redundancy._peels(strip.layout.pattern.rows)
