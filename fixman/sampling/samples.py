"""Independent chains of the rigid or the stiff ensemble, without a simulation."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

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
from fixman.sampling.random_walks import TETRAHEDRAL, hard_targets, open_walks

__all__ = ["Sample", "sample"]

Index = NDArray[np.int64]
Method = Literal["independent", "transfer operator", "reweighted"]
Seed = np.random.SeedSequence
Draw = Callable[[Seed, Array], ArrayLike]  # fills x, returns ln of the weights

BLOCK = 65536  # beads that a stream draws
RETRIES = 10  # for a block whose worker is lost
PILOT = 512  # trees that tell what drawing costs; fewer if they are long
COSTLIEST = 100  # bonds drawn for one kept, of a tree, beyond which it is not drawn exactly
FOREVER = 2**62


@dataclass(frozen=True, eq=False)
class Sample:
    """Chains of an ensemble, with weights.

    ``x (size, n, d)`` are positions; the exponentials of ``log_weights (size,)`` sum to 1, and are
    equal unless ``method`` is "reweighted" (others: "independent", "transfer operator").  An
    average is ``(np.exp(log_weights) * values).sum()``.  ``effective_size`` is the number of
    independent chains that the weighted chains are worth.
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

    Stiff: soft angles and torsions follow the measure of space.  Rigid: the density has a further
    factor √det H^bb (theory.md section 4).  If the hard coordinates are exactly the bonds of a
    chain or tree, the transfer operator draws it exactly, bond by bond; otherwise stiff chains get
    the weight √det H^bb.  ``method`` says which.  If ``effective_size`` is small, as for long
    chains with hard angles, use `fixman.MonteCarlo`.

    Parameters
    ----------
    chain : Chain
        Linear or a tree, without extra rows.
    lengths, angles, torsions
        As for `random_walks`.
    workers : int
        Threads.  The chains are the same for any number.
    client : dask.distributed.Client, optional
        Its workers draw the chains, with the same result.

    Notes
    -----
    ValueError for soft lengths, for rings and other extra rows, and where neighbours differ so much
    in mass that the quadrature does not converge.  A free chain has its
    first bead at the origin.

    O(n) a chain: for bonds alone 30 to 60 ns a bond, the stiff ensemble some 60 ns, weights what
    `logdet` costs.  Branch points of a tree refuse draws, which multiplies the cost from level to
    level; beyond a hundredfold the tree is reweighted.  Tables are made once for a chain, in 0.3 ms
    for each distinct bend.
    """
    require_chain(chain)
    size, generator = arrays.positive_int(size, "size"), arrays.generator(rng)
    workers = arrays.positive_int(workers, "workers")
    arrays.require_one_of(ensemble, "ensemble", ("rigid", "stiff"))
    if client is not None and not hasattr(client, "gather"):
        raise TypeError(f"client must be a dask.distributed.Client, got {client!r:.80}")
    targets = _targets(chain, size, lengths, angles, torsions)
    block = max(1, BLOCK // chain.n)
    parts = [slice(first, min(first + block, size)) for first in range(0, size, block)]
    pilot, *seeds = arrays.seeds(generator, 1 + len(parts))
    draw: Draw = partial(_put_walks, chain, targets, ensemble == "rigid")
    method: Method = "independent" if ensemble == "stiff" else "reweighted"
    bonds_alone = np.array_equal(chain.hard_mask, chain.layout.rows.kinds == LENGTH)
    if ensemble == "rigid" and bonds_alone:
        tables = _tabulated(chain)
        lengths = targets[tables.bonded * chain.dim]
        trial = np.empty((min(PILOT, block), chain.n, chain.dim))
        most = COSTLIEST * chain.n * len(trial)
        linear = np.bincount(tables.parents).max(initial=0) < 2
        if linear or _grow(tables, lengths, most, pilot, trial) == 0.0:
            draw, method = partial(_grow, tables, lengths, FOREVER), "transfer operator"
    x, logs = np.empty((size, chain.n, chain.dim)), np.empty(size)

    def put(seed: Seed, part: slice) -> None:
        logs[part] = draw(seed, x[part])

    if client is not None:
        tasks = [(seed, x[part].shape) for seed, part in zip(seeds, parts, strict=True)]
        futures = client.map(partial(_drawn, draw), tasks, pure=False, retries=RETRIES)
        for part, drawn in zip(parts, client.gather(futures), strict=True):
            x[part], logs[part] = drawn
    else:
        with ThreadPoolExecutor(min(workers, len(parts))) as pool:
            list(pool.map(put, seeds, parts))
    logs -= logs.max()
    logs -= np.log(np.exp(logs).sum())
    return Sample(x, logs, statistics.effective_size(logs), method)


def _targets(chain: Chain, size: int, *values: ArrayLike) -> Array:
    """Return values of the hard coordinates of a chain that can be drawn so many times."""
    if chain.extra:
        said = f"chains with closures or extra rows (here {len(chain.extra)}) cannot be drawn"
        raise ValueError(f"{said}: fixman.HybridMonteCarlo samples them")
    if (chain.layout.soft_rows.kinds == LENGTH).any():
        raise ValueError("soft lengths have no distribution without a potential: make them hard")
    arrays.require_memory(16 * size * chain.n * chain.dim, f"{size} chains of {chain.n} beads")
    targets = hard_targets(chain, *values)
    with np.errstate(over="ignore"):
        if not np.isfinite(targets.sum()):  # no position is further than all lengths together
            raise ValueError("positions overflowed: lengths are too large")
    return targets


def _drawn(draw: Draw, task: tuple[Seed, tuple[int, ...]]) -> tuple[Array, ArrayLike]:
    seed, shape = task
    x = np.empty(shape)
    return x, draw(seed, x)


def _put_walks(chain: Chain, targets: Array, weighed: bool, seed: Seed, x: Array) -> ArrayLike:
    """Put stiff chains into x; return the logarithms of their weights, in the rigid ensemble."""
    x[:] = open_walks(chain, targets, len(x), np.random.default_rng(seed))
    return 0.5 * logdet(chain, x) if weighed else 0.0


class _Tables(NamedTuple):
    """Tables of a tree of bonds, beads before their parents: what `kernels.draw_trees` needs.

    ``bonded`` are the beads that the lengths belong to in the chart.
    """

    begins: Index
    parents: Index
    beads: Index
    anchor: int
    w: Array
    bonded: Index
    acceptances: transfer.Acceptances


def _grow(tables: _Tables, lengths: Array, most: int, seed: Seed, x: Array) -> float:
    """Put trees into x; return ln of their weights, 0, or −∞ after ``most`` bonds in vain."""
    stream = seed.generate_state(WORDS, np.uint64)
    # Arrays of another process may be read-only, for which kernels are not compiled.
    tree, table = (
        tuple(np.require(a, requirements="W") if isinstance(a, np.ndarray) else a for a in part)
        for part in ((*tables[:5], lengths), tables.acceptances)
    )
    count, n, dim = x.shape
    work = np.empty(4 * tables.w.size)
    out = x.reshape(count * n, dim)
    done = kernels.draw_trees(stream, tree, table, dim, count, most, out, work)
    return 0.0 if done else -np.inf


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
        np.arange(beads.size) - np.array(sizes) + 1,
        parents,
        np.where(beads < n, beads, -1),
        int(place[n if fixed else 0]),
        w,
        np.where(inwards, beads[:-1], beads[parents]),
        transfer.on_finer_grids(
            lambda grid: transfer.acceptances(w, parents, last, grid),
            chain.dim,
            lambda table: table.least[table.which],  # where quadratures converge last
            chain.masses,
            pairs[(pairs < n).all(axis=1)],
        ),
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
