"""Hypothesis strategies and seeded generators for chains, configurations and forces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np
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

    @cached_property
    def chain(self) -> fx.Chain:
        """Return the chain under test."""
        return build(self.spec)


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
