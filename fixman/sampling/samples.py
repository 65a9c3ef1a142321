"""Independent chains of the rigid or the stiff ensemble, without a simulation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csgraph

from fixman._common import arrays, statistics
from fixman._common.arrays import Array
from fixman.chains import topology
from fixman.chains.chain import Chain, require_chain
from fixman.kernels.algebra.random import WORDS
from fixman.kernels.chain.rows import LENGTH
from fixman.kernels.sampling import trees as kernels
from fixman.mechanics.metric import logdet
from fixman.sampling import transfer
from fixman.sampling.random_walks import TETRAHEDRAL, draw, hard_targets

__all__ = ["Sample", "sample"]

Index = NDArray[np.int64]
Method = Literal["independent", "transfer operator", "reweighted"]

BLOCK = 65536  # beads that a stream draws
RETRIES = 10  # for a block whose worker is lost
PILOT = 512  # trees that tell what drawing costs; fewer if they are long
COSTLIEST = 100  # bonds drawn for one kept, of a tree, beyond which it is not drawn exactly
FOREVER = 2**62


@dataclass(frozen=True, eq=False)
class Sample:
    """Chains of an ensemble, with weights.

    ``x (size, n, d)`` are positions; ``log_weights (size,)`` are normalized, their exponentials sum
    to 1, and all equal unless ``method`` is "reweighted" and not "independent" or "transfer
    operator".  An average is ``(np.exp(log_weights) * values).sum()``, and ``effective_size`` says
    how many independent chains they are worth.
    """

    x: Array
    log_weights: Array
    effective_size: float
    method: Method

    def __repr__(self) -> str:
        """``<Sample: 1000 chains of 50 beads, 3-D, reweighted, worth 412.5 independent ones>``."""
        size, n, dim = self.x.shape
        chains = f"{size} chain{'s' * (size != 1)} of {n} bead{'s' * (n != 1)}, {dim}-D"
        worth = f"worth {self.effective_size:.4g} independent ones"
        return f"<Sample: {chains}, {self.method}, {worth}>"


def sample(
    chain: Chain,
    size: int,
    *,
    lengths: ArrayLike = 1.0,
    angles: ArrayLike = TETRAHEDRAL,
    torsions: ArrayLike = np.pi,
    ensemble: Literal["rigid", "stiff"] = "rigid",
    rng: int | np.random.Generator | None = None,
    workers: int = 1,
    client: Any = None,
) -> Sample:
    """Draw independent chains of the rigid or the stiff ensemble, without potentials.

    Stiff: soft angles and torsions follow the measure of space.  Rigid: the density has a factor
    √det H^bb more (theory.md section 4).  Where the hard coordinates are all the bonds of a chain
    or a tree it is drawn exactly, bond by bond, with the probabilities of the transfer operator;
    otherwise stiff chains get √det H^bb for weight.  ``method`` says which it was,
    ``effective_size`` what it is worth; where that is little, as of long chains with hard angles,
    take `fixman.MonteCarlo`.

    Parameters
    ----------
    chain : Chain
        Linear or a tree, without extra rows.
    size : int
    lengths, angles, torsions : float, or one for each coordinate of the kind
        Values of the hard ones, as for `random_walks`.
    ensemble : "rigid" or "stiff"
    rng : int or numpy.random.Generator, optional
    workers : int
        Threads.  The chains are the same for any number.
    client : dask.distributed.Client, optional
        Whose workers draw instead, the same chains.

    Returns
    -------
    Sample
        A free chain has its first bead at the origin.

    Raises
    ------
    ValueError
        For soft lengths, for rings and other extra rows, and where neighbours differ so much in
        mass that the quadrature does not converge.

    Notes
    -----
    O(n) a chain: for bonds alone 30 to 60 ns a bond, the stiff ensemble some 60 ns, weights what
    `logdet` costs.  A tree costs as many times more as its branch points refuse, from level to
    level; beyond a hundredfold it is reweighted.  Tables for a chain are made once, in 0.3 ms for
    each bend unlike all others.
    """
    require_chain(chain)
    size, generator = arrays.positive_int(size, "size"), arrays.generator(rng)
    workers = arrays.positive_int(workers, "workers")
    arrays.require_one_of(ensemble, "ensemble", ("rigid", "stiff"))
    _require_drawable(chain, client)
    arrays.require_memory(16 * size * chain.n * chain.dim, f"{size} chains of {chain.n} beads")
    targets = hard_targets(chain, lengths, angles, torsions)
    block = max(1, BLOCK // chain.n)
    counts = [min(block, size - first) for first in range(0, size, block)]
    pilot, *seeds = arrays.seeds(generator, 1 + len(counts))
    task: _Walks | _Trees = _Walks(pilot, 0, chain, targets, weighed=ensemble == "rigid")
    method: Method = "independent" if ensemble == "stiff" else "reweighted"
    bonds_alone = np.array_equal(chain.hard_mask, chain.layout.rows.kinds == LENGTH)
    if ensemble == "rigid" and bonds_alone:
        tables = _tabulated(chain)
        trees = _Trees(pilot, min(PILOT, block), tables, targets[tables.bonded * chain.dim])
        limited = replace(trees, most=COSTLIEST * chain.n * trees.count)
        if not tables.branched or limited.grow(np.empty(limited.shape)):
            task, method = trees, "transfer operator"
    tasks = [replace(task, seed=one, count=k) for one, k in zip(seeds, counts, strict=True)]
    return _sampled(tasks, method, workers, client)


def _require_drawable(chain: Chain, client: Any) -> None:
    if client is not None and not (hasattr(client, "map") and hasattr(client, "gather")):
        raise TypeError(f"client must be a dask.distributed.Client, got {client!r:.80}")
    if chain.extra:
        pivots = "" if chain.straight else "fixman.MonteCarlo or, whatever is hard, "
        raise ValueError(
            f"rings, and chains with other extra rows (here {len(chain.extra)}), cannot be drawn "
            "independently: fixman.random_walks makes starting configurations, of no ensemble, and "
            f"{pivots}fixman.HybridMonteCarlo samples from there"
        )
    if (chain.layout.soft_rows.kinds == LENGTH).any():
        raise ValueError(
            "soft lengths have no distribution without a potential: make them hard, or simulate "
            "with one"
        )


def _sampled(tasks: list[_Walks | _Trees], method: Method, workers: int, client: Any) -> Sample:
    edges = np.cumsum([0, *(task.count for task in tasks)]).tolist()
    parts = [slice(*pair) for pair in pairwise(edges)]
    x, logs = np.empty((edges[-1], *tasks[0].shape[1:])), np.empty(edges[-1])

    def draw(task: _Walks | _Trees, part: slice) -> None:
        logs[part] = task.draw(x[part])

    if client is not None:
        futures = client.map(_drawn, tasks, pure=False, retries=RETRIES)
        for part, (block, weights) in zip(parts, client.gather(futures), strict=True):
            x[part], logs[part] = block, weights
    elif workers == 1:
        for task, part in zip(tasks, parts, strict=True):
            draw(task, part)
    else:
        with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
            list(pool.map(draw, tasks, parts))
    logs -= logs.max()
    logs -= np.log(np.exp(logs).sum())
    return Sample(x, logs, statistics.effective_size(logs), method)


def _drawn(task: _Walks | _Trees) -> tuple[Array, ArrayLike]:
    """Return chains and the logarithms of their weights."""
    x = np.empty(task.shape)
    return x, task.draw(x)


# --- stiff chains --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Walks:
    """Stiff chains to be drawn, for the rigid ensemble to be ``weighed``."""

    seed: np.random.SeedSequence
    count: int
    chain: Chain
    targets: Array
    weighed: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.count, self.chain.n, self.chain.dim

    def draw(self, x: Array) -> ArrayLike:
        """Put chains into x, and return the logarithms of their weights."""
        x[:] = draw(self.chain, self.targets, self.count, np.random.default_rng(self.seed))
        return 0.5 * logdet(self.chain, x) if self.weighed else 0.0


# --- trees of bonds ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Tables:
    """Tables of a tree of bonds, beads before their parents: what `kernels.draw_trees` needs.

    ``bonded`` are the beads that the lengths belong to in the chart.
    """

    n: int
    dim: int
    begins: Index
    parents: Index
    beads: Index
    anchor: int
    w: Array
    bonded: Index
    acceptances: transfer.Acceptances
    branched: bool


@dataclass(frozen=True, eq=False)
class _Trees:
    """Trees to be drawn, in no more than ``most`` bonds."""

    seed: np.random.SeedSequence
    count: int
    tables: _Tables
    lengths: Array
    most: int = FOREVER

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.count, self.tables.n, self.tables.dim

    def draw(self, x: Array) -> ArrayLike:
        """Put trees into x, and return the logarithms of their weights."""
        self.grow(x)
        return 0.0

    def grow(self, x: Array) -> bool:
        """Put trees into x; false if there are more bonds to draw than are allowed."""
        stream = self.seed.generate_state(WORDS, np.uint64)
        t, dim = self.tables, self.tables.dim
        # Arrays of another process may be read-only, for which kernels are not compiled.
        tree, table = (
            tuple(np.require(a, requirements="W") if isinstance(a, np.ndarray) else a for a in part)
            for part in ((t.begins, t.parents, t.beads, t.anchor, t.w, self.lengths), t.acceptances)
        )
        out, work = x.reshape(-1, dim), np.empty(4 * t.w.size)
        done: bool = kernels.draw_trees(stream, tree, table, dim, self.count, self.most, out, work)
        return done


@lru_cache(maxsize=8)
def _tabulated(chain: Chain) -> _Tables:
    n, fixed = chain.n, int(chain.base == "fixed")
    above = np.where(chain.references[:, 0] < 0, n, chain.references[:, 0])  # the base is node n
    bonded = np.flatnonzero(above < n + fixed)
    pairs = np.stack([above[bonded], bonded], axis=1)
    joined = topology.graph(n + fixed, pairs)
    degree = np.bincount(pairs.ravel(), minlength=n + fixed)
    root = _root(joined, degree, n)
    order, before = csgraph.depth_first_order(joined, root, directed=False)
    beads = order[::-1].astype(np.int64)
    place = np.argsort(beads)
    parents = place[before[beads[:-1]]]
    sizes = [1] * beads.size
    for k, parent in enumerate(parents.tolist()):
        sizes[parent] += sizes[k]
    w = np.append(chain.layout.inverse_masses, np.zeros(fixed))[beads]
    last = (degree[beads[parents]] > 2) | (parents == beads.size - 1)
    last |= degree[beads[:-1]] == 1  # the bond at an end has one pivot, whatever follows
    inwards = np.append(above, -1)[beads[:-1]] == beads[parents]  # as in the chart
    return _Tables(
        n,
        chain.dim,
        np.arange(beads.size) - np.array(sizes) + 1,
        parents,
        np.where(beads < n, beads, -1),
        int(place[n if fixed else 0]),
        w,
        np.where(inwards, beads[:-1], beads[parents]),
        transfer.settled(
            lambda order: transfer.acceptances(
                w, parents, last, transfer.grid_of(order, chain.dim)
            ),
            transfer.Acceptances.smallest,
            chain.masses,
            pairs[(pairs < n).all(axis=1)],
        ),
        bool((degree > 2).any() or degree[root] > 1),
    )


def _root(joined: Any, degree: Index, n: int) -> int:
    """Return the last end, or of a tree the branch point in the middle of its longest way.

    A refusal in a branch point draws all again as far as the ends, so that each level of branch
    points multiplies the cost.
    """
    far = int(np.flatnonzero(degree[:n] <= 1)[-1])
    if not (degree > 2).any():
        return far
    for _ in range(2):
        order, way = csgraph.breadth_first_order(joined, far, directed=False)
        far = int(order[-1])
    path = [far]
    while way[path[-1]] >= 0:
        path.append(int(way[path[-1]]))
    points = [k for k in path if degree[k] > 2]
    return points[len(points) // 2]
