"""Trees, rings and molecules: the chart, what is hard, which rows depend on others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fixman as fx
import oracles
from fixman.kernels.chain.rows import LENGTH
from oracles import Spec
from strategies import BASES, seeds


def random_parents(rng, n, reach):
    """Parents of a random tree; a small ``reach`` makes it deep."""
    return np.array([-1, *(int(rng.integers(max(0, k - reach), k)) for k in range(1, n))])


def generic(chain, rng):
    """Return q with nothing special about it."""
    q = rng.uniform(-3, 3, chain.n * chain.dim)
    for i, c in enumerate(chain.coordinates[: q.size]):
        if c.kind == "length":
            q[i] = rng.uniform(0.5, 2.0)
        elif c.kind == "angle" and chain.dim == 3:
            q[i] = rng.uniform(0.3, 2.8)
    return q


def rules(parents, dim, base):
    """Return the references by the rules of theory.md section 1, word by word."""
    n = len(parents)
    ghost = [-1, -2, -3, -4] if base == "fixed" else [None, -2, -3, -4]
    children = [[k for k in range(n) if parents[k] == p] for p in range(n)]

    def parent(k):
        if k is None or k < 0:
            return ghost[-k] if k is not None and k > -4 else None
        return int(parents[k]) if k > 0 else ghost[0]

    table = []
    for k in range(n):
        if k == 0 and base == "free":
            table.append((-1, -2, -3)[:dim])
            continue
        p = parent(k)
        a = parent(p)
        if a is None:  # the parent is the root of a free chain
            a = ghost[1] if k == children[0][0] else children[0][0]
        siblings = [s for s in range(k) if s < k and table[s][:2] == (p, a) and (s or p < 0)]
        siblings = [s for s in siblings if parents[s] == p]
        bonded = [b for b in range(k) if a >= 0 and (parents[b] == a or parents[a] == b) and b != p]
        above = parent(a) if a >= 0 else a - 1
        if siblings:
            t = siblings[0]
        elif above is not None and above != p:
            t = above
        elif bonded:
            t = bonded[0]
        else:
            t = ghost[1]
        table.append((p, a, t)[:dim])
    return np.array(table)


@given(n=st.integers(1, 14), reach=st.integers(1, 14), dim=st.sampled_from((2, 3)),
       base=st.sampled_from(BASES), seed=seeds)  # fmt: skip
def test_references_follow_the_rules(n, reach, dim, base, seed):
    parents = random_parents(np.random.default_rng(seed), n, reach)
    chain = fx.Chain.branched(parents, dim=dim, base=base)
    assert chain.references.tolist() == rules(parents, dim, base).tolist()


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("base", BASES)
def test_a_line_of_parents_is_the_linear_chain(dim, base):
    line = fx.Chain.branched([-1, 0, 1, 2, 3], dim=dim, base=base, hard=("angle",))
    assert line == fx.Chain.linear(5, dim=dim, base=base, hard=("angle",))
    bonds = [(k, k + 1) for k in range(4)]
    assert line == fx.Chain.from_bonds(5, bonds, dim=dim, base=base, hard=("angle",))


@given(n=st.integers(1, 12), reach=st.integers(1, 12), dim=st.sampled_from((2, 3)),
       base=st.sampled_from(BASES), seed=seeds)  # fmt: skip
def test_the_chart_of_a_tree(n, reach, dim, base, seed):
    rng = np.random.default_rng(seed)
    chain = fx.Chain.branched(
        random_parents(rng, n, reach), dim=dim, base=base, masses=rng.uniform(0.5, 2, n), hard=()
    )
    external = sum(min(c.beads) < 0 or c.kind in "xyz" for c in chain.coordinates)
    if base == "free":
        assert external == {(1, 2): 2, (1, 3): 3, (2, 2): 3, (2, 3): 5}.get(
            (n, dim), 3 if dim == 2 else 6
        )
    q, qd = generic(chain, rng), rng.normal(size=n * dim)
    x, v = chain.cartesian(q, qd)
    wrapped = (chain.internal(x) - q + np.pi) % (2 * np.pi) - np.pi
    turning = [c.kind in ("angle", "torsion") for c in chain.coordinates]
    gap = np.where(turning, wrapped, chain.internal(x) - q)
    assert np.abs(gap).max() < 1e-11
    B = oracles.wilson_b(Spec.of(chain), x)
    assert np.allclose(fx.wilson_b(chain, x).toarray(), B, rtol=1e-9, atol=1e-9 * np.abs(B).max())
    assert np.allclose(B @ v.ravel(), qd, rtol=1e-8, atol=1e-8 * np.abs(B).max())
    logdet_free = fx.Partition(chain, x).logdet_free
    dense = dim * np.log(chain.masses).sum() - 2 * np.linalg.slogdet(B)[1]
    assert logdet_free == pytest.approx(dense, abs=1e-8)


@given(n=st.integers(3, 12), seed=seeds, dim=st.sampled_from((2, 3)), base=st.sampled_from(BASES))
def test_beads_may_come_in_any_order(n, seed, dim, base):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, n, n)
    names = np.concatenate([[0], 1 + rng.permutation(n - 1)])
    bonds = np.stack([names[parents[1:]], names[1:]], axis=1)[rng.permutation(n - 1)]
    flip = rng.random(n - 1) < 0.5
    bonds[flip] = bonds[flip, ::-1]
    chain = fx.Chain.from_bonds(n, bonds, dim=dim, base=base, hard=("length", "angle"))
    lengths = {frozenset(c.beads) for c in chain.coordinates if c.kind == "length"}
    ground = {frozenset((-1, 0))} if base == "fixed" else set()
    assert lengths == {frozenset(map(int, pair)) for pair in bonds} | ground
    q = generic(chain, rng)
    x, _ = chain.cartesian(q, np.ones_like(q))
    gap = (chain.internal(x) - q + np.pi) % (2 * np.pi) - np.pi
    assert np.abs(gap[[c.kind != "length" for c in chain.coordinates]]).max() < 1e-11
    # Bonds alone do not care about the tree.
    bonded = fx.Chain.from_bonds(n, bonds, dim=dim)
    H = oracles.wilson_b(Spec.of(bonded), x, bonded.hard)
    assert fx.logdet(bonded, x) == pytest.approx(np.linalg.slogdet(H @ H.T)[1], abs=1e-9)


def test_branches_are_regular_where_the_chain_is_straight():
    chain = fx.Chain.branched([-1, 0, 1, 1, 2, 3])
    q = np.zeros(18)
    q[[c.kind == "length" for c in chain.coordinates]] = 1.0
    x, v = chain.cartesian(q, np.ones(18))
    assert np.isfinite(x).all()
    assert np.isfinite(v).all()


# --- molecules ----------------------------------------------------------------------------------


def soft_torsions(chain):
    return [chain.coordinates[k] for k in chain.soft if chain.coordinates[k].kind == "torsion"]


def turning_bonds(chain):
    inner = [c.beads for c in soft_torsions(chain) if min(c.beads) >= 0]
    return sorted(tuple(sorted(beads[1:3])) for beads in inner)


def test_butane_turns_about_its_middle_bond():
    chain = fx.Chain.linear(4, hard="torsional")
    assert turning_bonds(chain) == [(1, 2)]
    assert len(chain.hard) == 5


def test_every_rotatable_bond_has_one_soft_torsion():
    # 2,3-dimethylpentane with all its carbons, named in no particular order
    bonds = [(3, 0), (3, 5), (3, 1), (1, 6), (1, 2), (2, 4)]
    chain = fx.Chain.from_bonds(7, bonds, hard="torsional")
    assert turning_bonds(chain) == [(1, 2), (1, 3)]
    named = fx.Chain.from_bonds(7, bonds, hard="torsional", rotatable=[(1, 2)])
    assert turning_bonds(named) == [(1, 2)]
    assert len(named.soft) == 7


@given(n=st.integers(2, 14), seed=seeds)
def test_torsional_degrees_of_freedom(n, seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, n, n)
    degree = np.bincount(parents[1:], minlength=n)
    degree[1:] += 1
    inner = [k for k in range(1, n) if degree[k] > 1 and degree[parents[k]] > 1]
    chain = fx.Chain.branched(parents, hard="torsional")
    bonds = sorted(tuple(sorted((k, int(parents[k])))) for k in inner)
    assert turning_bonds(chain) == bonds


BENZENE = [(k, (k + 1) % 6) for k in range(6)] + [(k, k + 6) for k in range(6)]


def test_benzene_is_rigid_and_three_of_its_rows_depend_on_the_others():
    masses = [12.0] * 6 + [1.0] * 6
    with pytest.raises(fx.SingularConstraintError, match=r"length\(3, 4\), angle\(2, 3, 4\)"):
        fx.Chain.from_bonds(12, BENZENE, masses=masses, hard="torsional")
    chain = fx.Chain.from_bonds(12, BENZENE, masses=masses, hard="torsional", drop_redundant=True)
    assert len(chain.redundant) == 3
    assert chain.extra == ()
    assert len(chain.hard) == 3 * 12 - 6
    bonds = fx.Chain.from_bonds(12, BENZENE, masses=masses, hard="h-bonds")
    assert len(bonds.hard) == 6
    assert bonds.extra == ()
    masked = fx.Chain.from_bonds(12, BENZENE, hard="h-bonds", hydrogens=np.arange(12) >= 6)
    assert masked.hard.tolist() == bonds.hard.tolist()


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ("length", ("length",)),
        ("bonds", ("length",)),
        ("AllBonds", ("length",)),
        ("all-angles", ("length", "angle")),
        ("length, angle", ("length", "angle")),
        (("bonds", "angles"), ("length", "angle")),
        (np.array(["length", "dihedrals"]), ("length", "torsion")),
    ],
)
def test_words_of_other_programs_name_kinds(words, kinds):
    assert fx.Chain.linear(6, hard=words) == fx.Chain.linear(6, hard=kinds)
    assert fx.Chain.ring(6, hard=words, drop_redundant=True) == fx.Chain.ring(
        6, hard=kinds, drop_redundant=True
    )


@pytest.mark.parametrize(("light", "held"), [(0, "length(0, 1)"), (3, "length(2, 3)")])
def test_the_bond_to_a_base_point_is_none_to_a_hydrogen(light, held):
    masses = np.where(np.arange(4) == light, 1.0, 12.0)
    chain = fx.Chain.linear(4, base="fixed", masses=masses, hard="h-bonds")
    assert [str(chain.coordinates[k]) for k in chain.hard] == [held]


def test_a_drude_particle_is_no_hydrogen():
    masses = [11.611, 1.008, 0.4]
    chain = fx.Chain.from_bonds(3, [(0, 1), (0, 2)], masses=masses, hard="HBonds")
    assert [chain.coordinates[row] for row in chain.hard] == [("length", (0, 1))]


# Methanol: C 0, O 1, H of C 2 to 4, H of O 5.
METHANOL = [(0, 1), (0, 2), (0, 3), (0, 4), (1, 5)]


@pytest.mark.parametrize("order", [range(6), [5, 1, 0, 2, 3, 4], [2, 0, 3, 4, 1, 5]])
def test_h_angles_are_those_of_openmm(order):
    order = list(order)
    weights = np.array([12.011, 15.999, 1.008, 1.008, 1.008, 1.008])
    place = np.argsort(order)
    bonds = [(place[i], place[j]) for i, j in METHANOL]
    chain = fx.Chain.from_bonds(
        6, bonds, masses=weights[order], hard="HAngles", drop_redundant=True
    )
    rows = [chain.coordinates[row] for row in chain.hard]
    found = {(row.kind, row.beads[1], frozenset(row.beads)) for row in rows if row.kind == "angle"}
    held = [(2, 0, 3), (2, 0, 4), (3, 0, 4), (0, 1, 5)]
    assert found == {
        ("angle", place[j], frozenset(int(place[b]) for b in (i, j, k))) for i, j, k in held
    }
    assert sum(row.kind == "length" for row in rows) == 5
    assert len(rows) == 9
    # What was taken from the heavy neighbours is known where the hydrogens are.
    heavy = weights + np.array([-6.0, -2.0, 2.0, 2.0, 2.0, 2.0])
    again = fx.Chain.from_bonds(
        6, bonds, masses=heavy[order], hard="h-angles", hydrogens=(weights < 2)[order]
    )
    assert again.hard.tolist() == chain.hard.tolist()


@pytest.mark.parametrize(("dim", "count"), [(2, 3), (3, 2)])
def test_a_ring_of_four_with_all_its_angles(dim, count):
    chain = fx.Chain.ring(4, dim=dim, hard=("length", "angle"), drop_redundant=True)
    assert len(chain.redundant) == count


def test_a_large_rigid_ring_is_the_linear_chain_without_what_closes_it():
    chain = fx.Chain.ring(700, dim=2, hard=("length", "angle"), drop_redundant=True)
    assert [row.kind for row in chain.redundant] == ["length", "angle", "angle"]
    line = fx.Chain.linear(700, dim=2, hard=("length", "angle"))
    assert np.array_equal(chain.hard_mask, line.hard_mask)


def test_a_star_is_a_tree_of_arms():
    parents = [-1, 0, 1, 0, 3, 0, 5]
    assert fx.Chain.star(3, 2, dim=2, masses=2.0) == fx.Chain.branched(parents, dim=2, masses=2.0)
    assert fx.Chain.star(1, 1) == fx.Chain.linear(2)
    for arms, length in ((0, 2), (2, 0)):
        with pytest.raises(ValueError, match="at least 1"):
            fx.Chain.star(arms, length)


@given(n=st.integers(3, 9), more=st.integers(0, 4), dim=st.sampled_from((2, 3)), seed=seeds)
def test_dependent_rows_are_those_that_do_not_raise_the_rank(n, more, dim, seed):
    rng = np.random.default_rng(seed)
    parents = random_parents(rng, n, n)
    pairs = {(int(parents[k]), k) for k in range(1, n)}
    pairs |= {tuple(sorted(map(int, rng.choice(n, 2, replace=False)))) for _ in range(more)}
    hard = [("length",), ("length", "angle"), ("angle",)][seed % 3]
    chain = fx.Chain.from_bonds(n, list(pairs), dim=dim, hard=hard, drop_redundant=True)
    rows = [*chain.coordinates, *chain.redundant]
    spec = Spec.of(chain)
    object.__setattr__(spec, "rows", [(c.kind, c.beads) for c in rows])
    x = rng.normal(size=(n, dim))
    everything = np.array([*chain.hard, *range(len(chain.coordinates), len(rows))])
    rank = np.linalg.matrix_rank(oracles.wilson_b(spec, x, everything), tol=1e-8)
    assert rank == len(chain.hard)
    assert np.linalg.matrix_rank(oracles.wilson_b(spec, x, chain.hard), tol=1e-8) == rank


def ladder(n):
    rails = [(k, k + 1) for k in range(n - 1)] + [(n + k, n + k + 1) for k in range(n - 1)]
    return rails + [(k, n + k) for k in range(n)]


@pytest.mark.parametrize("n", [3, 20, 80])
def test_dependent_rows_of_ladders(n):
    chain = fx.Chain.from_bonds(2 * n, ladder(n), hard=("length", "angle"), drop_redundant=True)
    x = np.random.default_rng(3).normal(size=(2 * n, 3))
    rows = fx.wilson_b(chain, x).toarray()[chain.hard]
    sizes = np.linalg.svd(rows, compute_uv=False)
    assert sizes[-1] > 1e-6 * sizes[0]
    assert fx.logdet(chain, x) == pytest.approx(2 * np.log(sizes).sum(), abs=1e-7)
    everything = Spec.of(chain)
    rows = [*chain.coordinates, *chain.redundant]
    object.__setattr__(everything, "rows", [(c.kind, c.beads) for c in rows])
    hard = np.array([*chain.hard, *range(len(chain.coordinates), len(rows))])
    rank = np.linalg.matrix_rank(oracles.wilson_b(everything, x, hard), tol=1e-9)
    assert rank == len(chain.hard)


@pytest.mark.parametrize("mass", [1e-12, 1e-9, 1e9])
def test_which_rows_depend_is_no_question_of_mass(mass):
    bonds = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 2)]
    chain = fx.Chain.from_bonds(6, bonds, masses=[mass, 1, 1, 1, 1, 1], drop_redundant=True)
    assert len(chain.hard) == 6
    assert not chain.redundant


@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), "torsional"])
def test_the_factor_stays_sparse(hard):
    def fill(chain):
        return chain.layout.pattern.symbolic.nnz / len(chain.hard)

    def comb(n):
        return fx.Chain.branched(np.append(np.arange(-1, n - 1), np.arange(n)), hard=hard)

    assert fill(comb(800)) < 1.1 * fill(comb(100))
    tree = fx.Chain.branched(random_parents(np.random.default_rng(0), 500, 500))
    bonds = tree.layout.pattern
    assert bonds.symbolic.nnz == np.unique(bonds.places).size  # nothing is filled in
    assert fill(fx.Chain.ring(400)) < 3
    narrow = [fx.Chain.from_bonds(2 * n, ladder(n)) for n in (50, 400)]
    assert fill(narrow[1]) < 1.2 * fill(narrow[0])


@pytest.mark.parametrize("base", BASES)
def test_no_rows_of_a_tree_fill_anything_in(base):
    rng = np.random.default_rng(1)
    backbone = np.arange(100)
    hydrogens = np.append(backbone - 1, np.repeat(backbone, 2))
    for parents in (hydrogens, random_parents(rng, 300, 4), random_parents(rng, 300, 300)):
        rows = fx.Chain.branched(parents, base=base).layout.rows
        hard = (rows.kinds >= LENGTH) & ~rows.external & (rng.random(900) < 0.7)
        pattern = fx.Chain.branched(parents, base=base, hard=hard).layout.pattern
        assert pattern.symbolic.nnz == np.unique(pattern.places).size


def test_extra_rows_are_hard_and_last():
    extra = [("angle", (1, 0, 3)), fx.Coordinate("length", (2, 3))]
    chain = fx.Chain.branched([-1, 0, 0, 0], extra=extra)
    assert chain.coordinates[12:] == chain.extra
    assert chain.hard[-2:].tolist() == [12, 13]
    x = np.random.default_rng(0).normal(size=(5, 4, 3))
    values = chain.values(x)
    assert values.shape == (5, 14)
    assert np.array_equal(values[..., :12], chain.internal(x))
    assert np.allclose(values[..., 13], np.linalg.norm(x[:, 3] - x[:, 2], axis=-1))


def test_a_chain_is_held_to_its_base_at_both_ends():
    loop = fx.Chain.linear(4, base="fixed").n
    chain = fx.Chain.branched([-1, 0, 1, 2], base="fixed", extra=[("length", (-1, 3))])
    assert loop == chain.n
    x = np.random.default_rng(1).normal(size=(4, 3))
    assert chain.values(x)[-1] == pytest.approx(np.linalg.norm(x[3]))


@pytest.mark.parametrize(
    "chain",
    [
        fx.Chain.branched([-1, 0, 0, 1, 1], masses=[1, 2, 3, 4, 5]),
        fx.Chain.ring(5, dim=2, hard=("length",)),
        fx.Chain.from_bonds(12, BENZENE, hard="torsional", drop_redundant=True),
        fx.Chain.from_bonds(4, [(0, 3), (3, 1), (1, 2)], extra=[("angle", (0, 3, 1))]),
        fx.Chain.branched([-1, 0, 0], base="fixed", extra=[("length", (-1, 2))]),
    ],
)
def test_json_and_pickle(chain):
    assert fx.Chain.from_json(chain.to_json()) == chain
    assert pickle.loads(pickle.dumps(chain)) == chain
    assert hash(fx.Chain.from_json(chain.to_json())) == hash(chain)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: fx.Chain.from_bonds(5, [(0, 1), (3, 4)]), ValueError, "3 components of 2, 1, 2"),
        (lambda: fx.Chain.from_bonds(2, []), ValueError, "2 components"),
        (lambda: fx.Chain.from_bonds(3, [(0, 1), (1, 3)]), ValueError, "not among 0 to 2"),
        (lambda: fx.Chain.from_bonds(3, [(0, 1), (-1, 2)]), ValueError, "not among 0 to 2"),
        (lambda: fx.Chain.from_bonds(3, [(0, 1), (1, 1)]), ValueError, "to itself"),
        (lambda: fx.Chain.from_bonds(3, [0, 1]), ValueError, "pairs of beads"),
        (lambda: fx.Chain.from_bonds(3, [(0, 1, 2)]), ValueError, "pairs of beads"),
        (lambda: fx.Chain.from_bonds(3, [(0.0, 1.0)]), TypeError, "must be integers"),
        (lambda: fx.Chain.from_bonds(3, [(0, 1), (2,)]), TypeError, "bonds must be an array"),
        (lambda: fx.Chain.from_bonds(0, []), ValueError, "at least 1"),
        (lambda: fx.Chain.from_bonds(3, 5), ValueError, "pairs of beads"),
        (lambda: fx.Chain.branched([]), ValueError, r"shape \(n,\)"),
        (lambda: fx.Chain.branched(np.array([2**64 - 1], np.uint64)), ValueError, "not the number"),
        (lambda: fx.Chain.branched(np.ma.array([-1, 0], mask=[0, 1])), TypeError, "masked"),
        (lambda: fx.Chain.branched([-1, 0], extra=None), TypeError, "list of coordinates"),
        (lambda: fx.Chain.branched([-1, 0], extra=[("length", (0, 1.7))]), ValueError, "are like"),
        (
            lambda: fx.Chain.branched([-1, 0, 1], hard="torsional", rotatable=[0, 1, 1, 2]),
            ValueError,
            "rotatable must be pairs",
        ),
        (lambda: fx.Chain.branched([0, 0]), ValueError, "must be -1"),
        (lambda: fx.Chain.branched([-1, 2, 0]), ValueError, "comes before its children"),
        (lambda: fx.Chain.branched([-1, -1]), ValueError, "comes before its children"),
        (lambda: fx.Chain.branched([-1, 0.5]), TypeError, "must be integers"),
        (lambda: fx.Chain.ring(2), ValueError, "at least 3"),
        (lambda: fx.Chain.ring(3, dim=4), ValueError, "dim must be 2 or 3"),
        (lambda: fx.Chain.ring(3, base="x"), ValueError, "base must be"),
        (lambda: fx.Chain.linear(4, dim=2, hard="torsional"), ValueError, "needs dim=3"),
        (lambda: fx.Chain.linear(4, hard="rigid"), ValueError, "'rigid': choose .* h-bonds"),
        (lambda: fx.Chain.linear(4, hard="all-bond"), ValueError, "did you mean all-bonds"),
        (lambda: fx.Chain.linear(4, hard=("length", "h-bonds")), ValueError, "stands alone"),
        (lambda: fx.Chain.linear(4, hard=("length", 3)), ValueError, "unknown hard .* '3'"),
        (lambda: fx.Chain.linear(4, masses=3.0, hard="h-bonds"), ValueError, "hydrogens=…"),
        (lambda: fx.Chain.linear(4, masses=14.0, hard="h-bonds"), ValueError, "no hydrogen"),
        (lambda: fx.Chain.branched([-1, 0], rotatable=[(0, 1)]), ValueError, "hard='torsional'"),
        (lambda: fx.Chain.branched([-1, 0], hydrogens=[True, False]), ValueError, "'h-bonds'"),
        (
            lambda: fx.Chain.branched([-1, 0, 1], hard="torsional", rotatable=[(0, 2)]),
            ValueError,
            "no bond",
        ),
        (
            lambda: fx.Chain.branched([-1, 0], hard="h-bonds", hydrogens=[1, 0]),
            ValueError,
            "mask of booleans",
        ),
        (lambda: fx.Chain.branched([-1, 0], extra=["length"]), ValueError, "extra rows are like"),
        (lambda: fx.Chain.branched([-1, 0], extra=[("x", (0,))]), ValueError, "of kind"),
        (lambda: fx.Chain.branched([-1, 0], extra=[("angle", (0, 1))]), ValueError, "3 different"),
        (lambda: fx.Chain.branched([-1, 0], extra=[("length", (1, 1))]), ValueError, "2 different"),
        (lambda: fx.Chain.branched([-1, 0], extra=[("length", (-1, 1))]), ValueError, "not among"),
        (lambda: fx.Chain.branched([-1, 0], extra=[("length", (0, 2))]), ValueError, "not among"),
        (
            lambda: fx.Chain.ring(3, hard=np.array([False] * 10)),
            ValueError,
            "always hard",
        ),
        (
            lambda: fx.Chain.branched([-1, 0], extra=[("length", (0, 1))]),
            fx.SingularConstraintError,
            "depends on the other hard coordinates in every configuration",
        ),
    ],
)  # fmt: skip
def test_refusals(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_with_closures_the_mass_matrix_is_refused():
    ring = fx.Chain.ring(5)
    part = fx.Partition(ring, np.random.default_rng(0).normal(size=(5, 3)))
    for ask in (part.mass_matrix, lambda: part.logdet_mass, lambda: part.logdet_free):
        with pytest.raises(ValueError, match="not defined with closures or extra rows"):
            ask()
