"""Hypothesis strategies and seeded generators for chains, configurations and forces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

import fixman as fx
import oracles
from oracles import Spec

SHAPES = ("random", "nearly straight", "zigzag", "straight")
BASES = ("free", "fixed")
# Shapes and bends for which twelve digits are promised.
GEOMETRIES = [
    ("random", 0.0),
    ("nearly straight", 1e-3),
    ("nearly straight", 1e-6),
    ("nearly straight", 1e-8),
    ("straight", 0.0),
    ("zigzag", 0.0),
]


def hard_sets(dim: int) -> list[tuple[str, ...]]:
    """Return every set of kinds, the empty one included."""
    kinds = ("length", "angle", "torsion")[:dim]
    return [hard for size in range(dim + 1) for hard in combinations(kinds, size)]


# Every dimension, base and set of hard kinds.
CASES = [(dim, base, hard) for dim in (2, 3) for base in BASES for hard in hard_sets(dim)]


def build(spec: Spec) -> fx.Chain:
    """Return the chain under test."""
    return fx.Chain.linear(spec.n, **spec.arguments())


def random_masses(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return masses between 0.1 and 10, uniform in the logarithm."""
    return 10.0 ** rng.uniform(-1, 1, n)


def chart_values(spec: Spec, shape: str, rng: np.random.Generator, bend: float = 1e-6):
    """Return q of a random, nearly straight, straight or zigzag chain with random bonds."""
    q = np.empty(len(spec.rows))
    for i, (kind, beads) in enumerate(spec.rows):
        if kind in "xyz":
            q[i] = rng.normal()
        elif kind == "length":
            q[i] = rng.uniform(0.5, 2.0)
        elif kind == "torsion":
            q[i] = np.pi if shape == "zigzag" else rng.uniform(-np.pi, np.pi)
        elif shape == "random" or min(beads) < 0:
            # Off the singularities of the 3-D chart; the first bond points anywhere else.
            q[i] = rng.uniform(0.3, 2.8) if spec.dim == 3 else rng.uniform(-np.pi, np.pi)
        elif shape == "zigzag":
            q[i] = 1.2 if spec.dim == 3 else 1.2 * (-1) ** beads[-1]
        else:
            sign = 1 if spec.dim == 3 else rng.choice([-1, 1])
            q[i] = 0.0 if shape == "straight" else bend * sign * rng.uniform(0.5, 1.0)
    return q


@dataclass
class System:
    """A chain with one state: positions, consistent velocities, torques and forces."""

    spec: Spec
    q: np.ndarray
    qd: np.ndarray
    x: np.ndarray
    v: np.ndarray
    torque: np.ndarray
    force: np.ndarray
    given: fx.Chain | None = None

    @cached_property
    def chain(self) -> fx.Chain:
        """Return the chain under test."""
        return self.given or build(self.spec)


def make_system(spec: Spec, shape: str = "random", seed: int = 0, bend: float = 1e-6) -> System:
    """Return a state of the chain; only soft coordinates move."""
    rng = np.random.default_rng(seed)
    q = chart_values(spec, shape, rng, bend)
    x = oracles.cartesian(spec, q)
    qd = np.zeros(len(spec.rows))
    qd[spec.soft] = rng.normal(size=len(spec.soft))
    v = oracles.velocity(spec, q, qd)
    torque = rng.normal(size=len(spec.soft))
    return System(spec, q, qd, x, v, torque, rng.normal(size=x.shape))


def random_system(dim, base, hard, n, seed=0, **options):
    """Return a state of a chain with random masses; options go to ``make_system``."""
    masses = random_masses(np.random.default_rng(seed), n)
    return make_system(Spec(n, dim, base, masses, hard), seed=seed, **options)


seeds = st.integers(0, 2**32 - 1)


@st.composite
def specs(draw, dims=(2, 3), bases=BASES, min_n=1, max_n=9, kinds=None, masks=True):
    """Draw a chain; ``kinds`` fixes the hard set."""
    dim, base = draw(st.sampled_from(dims)), draw(st.sampled_from(bases))
    n = draw(st.integers(min_n, max_n))
    rng = np.random.default_rng(draw(seeds))
    masses = draw(st.sampled_from([1.0, "random"]))
    hard = draw(st.sampled_from(hard_sets(dim))) if kinds is None else kinds
    if kinds is None and masks and draw(st.booleans()):
        rows = oracles.chart(n, dim, base)
        allowed = [not oracles.external(row, base) for row in rows]
        hard = rng.random(len(rows)) < draw(st.sampled_from([0.2, 0.5, 0.8]))
        hard &= np.array(allowed)
    return Spec(n, dim, base, random_masses(rng, n) if masses == "random" else masses, hard)


@st.composite
def systems(draw, shapes=("random",), **options):
    """Draw a chain with a state."""
    return make_system(draw(specs(**options)), draw(st.sampled_from(shapes)), draw(seeds))


# --- trees and rings -------------------------------------------------------------------------

TREES = ("recursive", "deep", "caterpillar", "star of chains", "dendrimer")
GRAPHS = (*TREES, "ring", "closures")


def random_parents(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return parents[k] < k of a random tree of a kind."""
    k = np.arange(1, n)
    if kind == "recursive":
        rest = rng.integers(0, k)
    elif kind == "deep":
        rest = rng.integers(np.maximum(k - 3, 0), k)
    elif kind == "caterpillar":
        rest = np.where(k % 2 == 1, k - 1, np.maximum(k - 2, 0))
    elif kind == "star of chains":
        rest = np.maximum(k - rng.integers(2, 7), 0)
    else:  # a dendrimer
        rest = (k - 1) // 2
    return np.concatenate([[-1], rest]).astype(int)


def random_bonds(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return the bonds of a random tree in any order, with a few more that close rings."""
    parents = random_parents("deep", n, rng)
    bonds = {(int(p), k) for k, p in enumerate(parents) if k}
    for _ in range(3):
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        bonds.add((i, j))
    pairs = np.array(sorted(bonds))
    numbers = np.concatenate([[0], rng.permutation(np.arange(1, n))])
    return numbers[pairs][rng.permutation(len(pairs))]


def make_graph(kind: str, n: int, dim: int, base: str, hard, seed: int = 0) -> System:
    """Return a tree or ring with random masses in a random state; any velocities.

    ``hard`` is a tuple of kinds, or a probability with which each row of a tree is hard.
    """
    rng = np.random.default_rng(seed)
    options = {"dim": dim, "base": base, "masses": random_masses(rng, n)}
    if kind == "ring":
        chain = fx.Chain.ring(n, hard=hard, drop_redundant=True, **options)
    elif kind == "closures":
        bonds = random_bonds(n, rng)
        chain = fx.Chain.from_bonds(n, bonds, hard=hard, drop_redundant=True, **options)
    else:
        parents = random_parents(kind, n, rng)
        if isinstance(hard, float):
            rows = fx.Chain.branched(parents, hard=(), **options).coordinates
            allowed = np.array([not oracles.external(row, base) for row in rows])
            hard = (rng.random(len(rows)) < hard) & allowed
        chain = fx.Chain.branched(parents, hard=hard, **options)
    x = np.zeros((n, dim))
    for k in chain.layout.outwards:
        parent = chain.references[k, 0]
        step = rng.normal(size=dim)
        x[k] = (x[parent] if parent >= 0 else 0) + step * rng.uniform(0.5, 2) / np.linalg.norm(step)
    spec = Spec.of(chain)
    v, force = rng.normal(size=(2, n, dim))
    q = oracles.internal(spec, x)
    qd = oracles.wilson_b(spec, x) @ v.ravel()
    return System(spec, q, qd, x, v, rng.normal(size=len(spec.soft)), force, chain)


@dataclass
class Drawn:
    """What `make_graph` makes when a test first looks: compiling is no part of the drawing."""

    arguments: tuple

    @cached_property
    def system(self) -> System:
        """Return the tree or ring, unless it is close to a singular one."""
        s = make_graph(*self.arguments)
        assume(oracles.hard_logdet(s.spec, s.x)[1] < 1e9)
        return s

    def __getattr__(self, name: str):
        return getattr(self.system, name)


@st.composite
def graphs(draw, kinds=GRAPHS, dims=(2, 3), bases=BASES, max_n=12):
    """Draw a tree or ring with a state, which is made later."""
    kind, dim = draw(st.sampled_from(kinds)), draw(st.sampled_from(dims))
    hard = draw(st.sampled_from(hard_sets(dim)))
    if kind in TREES and draw(st.booleans()):
        hard = draw(st.sampled_from([0.2, 0.5, 0.8]))
    n = draw(st.integers(3, max_n))
    return Drawn((kind, n, dim, draw(st.sampled_from(bases)), hard, draw(seeds)))
