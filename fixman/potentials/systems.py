"""Potentials on systems of chains: pair forces between all beads, in open space or in a box."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import topology
from fixman.chains.chain import Chain, bonds
from fixman.chains.system import System
from fixman.errors import FrameError
from fixman.kernels.potentials import box as kernels
from fixman.potentials import binding
from fixman.potentials.binding import Bound
from fixman.potentials.energies import Compiled, Pair, Sum, invariant, terms_of

Short = NDArray[np.int32]

SKIN = 0.5  # of the skin of one chain, to begin with: in a melt a row has more neighbours
REMAKE = 4.5  # time of a table over that of forces from it
ROOM = 24  # neighbours of a bead to begin with
CELLS = 4  # at most, for each bead
FARTHEST = 1e8  # σ from the origin, or edges of the box
LARGEST = 1e15  # of cutoffs, and of one over them: neighbours are found in single precision
PIECE = 4096  # beads that are worth a thread


def bind(chain: Chain | System, potential: Any) -> Bound | BoundSystem:
    """Put a potential on a chain or a system, to compute energies and forces.

    In a system `WCA` and `LennardJones` act between the beads of all chains.  `Compiled` and a
    potential of your own take the positions (n, dim) of all beads.  Others act in each chain.
    ValueError for a potential that names beads or angles that a chain does not have.
    """
    if isinstance(chain, System):
        return BoundSystem(chain, potential)
    return Bound(chain, potential)


@dataclass(frozen=True)
class Softened(Pair):
    """A pair term whose force is constant below the distance ``core``, over σ."""

    term: Pair
    core: float

    def __post_init__(self) -> None:
        shared = ("epsilon", "sigma", "exclude", "skin", "cut")
        self._set(**{name: getattr(self.term, name) for name in shared})


class BoundSystem:
    """A potential on a system; made by `bind`."""

    def __init__(self, system: System, potential: Any) -> None:
        binding.require_potential(potential)
        self.system, self.potential = system, potential
        terms = () if potential is None else terms_of(potential)
        pairs = [term for term in terms if isinstance(term, Pair)]
        if len(pairs) > 1:
            raise ValueError("only one pair potential, WCA or LennardJones, can be in a sum")
        pair = pairs[0] if pairs else None
        own = [t for t in terms if isinstance(t, Compiled) or not hasattr(t, "_tabulate")]
        for term in own:
            model = getattr(term, "model", system)
            if isinstance(model, System) and model != system:
                raise ValueError(f"{term!r:.80} is of another system, {model!r:.80}")
        if system.chains == 1 and system.box is None and not isinstance(pair, Softened):
            pair, own = None, []  # a chain by itself keeps its own way of summing, and its bits
        self.pair, self.own = pair, own
        rest = [t for t in terms if t is not pair and not any(t is one for one in own)]
        self.inside: Any = Sum(tuple(rest)) if rest else None
        self._replicas = [PairForces(system, pair)] if pair else []
        self._lock = threading.RLock()  # neighbours are those of one configuration at a time

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundSystem, (self.system, self.potential)

    def between(
        self, x: Array, pool: Executor | None = None, energies: Array | None = None
    ) -> Array:
        """Return the pair forces (replicas, n, dim), and those of potentials of one's own.

        ``energies`` (replicas,), if given, is set to the energies of both; inf in a wall.
        """
        found, rows = np.zeros_like(x), np.zeros((0 if energies is None else self.system.n, 2))
        with self._lock:
            for r, one in enumerate(x):
                if self.pair:
                    self.pairs(r).set(one, found[r], rows, pool)
                for term in self.own:
                    found[r] += self._own_force(term, one, r)
                if energies is not None:
                    own = sum(binding.own_energy(t.energy, one, True) for t in self.own)
                    energies[r] = rows[:, 0].sum() + own
        return found

    def pairs(self, replica: int = 0) -> PairForces:
        """Return pair forces that keep the neighbours of one replica."""
        assert self.pair is not None
        while len(self._replicas) <= replica:
            self._replicas.append(PairForces(self.system, self.pair))
        return self._replicas[replica]

    def energy(self, x: ArrayLike) -> Array:
        """Return the energies (...) of configurations (..., n, dim), in O(n) a frame.

        SingularCoordinateError where beads coincide.  ValueError for a `Compiled` potential without
        an energy.
        """
        x, lead = self._frames(x, whole=self.inside is not None)
        found = np.zeros(len(x))
        for (chain, _), part in zip(self.system.kinds, self.system.split(x), strict=True):
            if self.inside is not None:
                found += Bound(chain, self.inside).energy(part).sum(axis=-1)
        found += self._of_pairs(x)[1][0]
        for term in self.own:
            found += [binding.own_energy(term.energy, one) for one in x]
        return found.reshape(lead)[()]

    def force(self, x: ArrayLike) -> Array:
        """Return the forces −∂U/∂x (..., n, dim) in configurations (..., n, dim)."""
        x, lead = self._frames(x, whole=self.inside is not None)
        found = np.zeros_like(x)
        for r in range(len(x)):  # one by one, with the neighbours of one replica
            found[r] = self.between(x[r : r + 1])[0]
        if self.inside is not None:
            both = zip(self.system.kinds, self.system.split(x), strict=True)
            found += self.system.join([Bound(c, self.inside).force(y) for (c, _), y in both])
        for r in np.flatnonzero(~np.isfinite(found).all(axis=(1, 2)))[:1].tolist():
            self.refuse(x[r])
        return found.reshape(*lead, self.system.n, self.system.dim)

    def pressure(self, x: ArrayLike, kT: float) -> Array:
        """Return the pressure (...) in a periodic box, of configurations (..., n, dim).

        P V = C kT + (1/d) Σ_(i<j) f_ij·R_ij, with C chains.  R_ij is the separation of the centres
        of mass of the chains of i and j, in the image where the beads are nearest.  Forces inside
        chains (constraints, bonds, angles, the metric) do not contribute.
        """
        system, kT = self.system, arrays.positive(kT, "kT")
        if system.box is None:
            raise ValueError("a system in open space has no pressure: give it a box")
        if self.own or not invariant(self.inside):
            raise ValueError("a pressure needs a potential that no shift of a chain changes")
        x, lead = self._frames(x, whole=True)
        forces, sums = self._of_pairs(x)
        virial: Array = sums[1]
        for (chain, _), y, f in zip(
            system.kinds, system.split(x), system.split(forces), strict=True
        ):
            centre = np.average(y, axis=-2, weights=chain.masses)[..., None, :]
            # Σ f_ij·R_ij = Σ f_ij·r_ij − Σ_i f_i·(x_i − X), X the centre of the chain of i
            virial -= np.sum(f * (y - centre), axis=(1, 2, 3))
        found = (system.chains * kT + virial / system.dim) / system.volume
        return found.reshape(lead)[()]

    def _own_force(self, term: Any, x: Array, replica: int) -> Array:
        if isinstance(term, Compiled):
            found = np.zeros_like(x)
            binding.called("force", term.force, x.copy(), found)
        else:
            found = binding.own_force(term, x.copy())
        lost = ~np.isfinite(found).all(axis=-1)
        if lost.any():
            bead = int(np.argmax(lost))
            text = f"force(x) is {found[bead]} on {self.system.place(bead)}, replica {replica}"
            raise FrameError(text, ": every value must be finite", beads=(bead,), replica=replica)
        return found

    def refuse(self, x: Array) -> None:
        """Say why there is no finite force in a configuration."""
        if self.pair:
            beads, system = self.pairs().beads, self.system
            excluded = beads.excluded_first, beads.excluded
            radius = 2.0 * beads.radii.min()
            binding.refuse_overlap(x, radius, excluded, system.place, system.box)
        raise arrays.overflow("forces", 0, ())

    def _of_pairs(self, x: Array) -> tuple[Array, Array]:
        """Return pair forces (frames, n, dim), and Σ U_ij and Σ f_ij·r_ij (2, frames)."""
        forces, sums, rows = np.zeros_like(x), np.zeros((2, len(x))), np.empty((self.system.n, 2))
        for r, one in enumerate(x if self.pair else ()):
            with self._lock:
                self.pairs().set(one, forces[r], rows)
            sums[:, r] = rows.sum(axis=0)
            if not np.isfinite(sums[:, r]).all():
                self.refuse(one)
        return forces, sums

    def _frames(self, x: ArrayLike, whole: bool) -> tuple[Array, tuple[int, ...]]:
        tail = (self.system.n, self.system.dim)
        array = arrays.real(x, tail, "x")
        arrays.require_finite(array, tail, "x")
        self.require_near(array)
        if whole:
            self.system.require_whole(array, "x")
        return array.reshape(-1, *tail), array.shape[:-2]

    def require_near(self, x: Array) -> None:
        """Refuse positions in whose rounding separations of beads are lost."""
        if self.pair:
            require_near(x, float(np.min(self.pair.sigma)), "σ")


class PairForces:
    """A pair term between all beads of a system, with the neighbours of one replica."""

    def __init__(self, system: System, term: Pair) -> None:
        self.system, self.term = system, term
        n, sigma = system.n, arrays.one_or_each(term.sigma, system.n, "sigma")
        cutoff, energy, slope = term.cut()
        reach = cutoff * float(sigma.max())
        if not 1.0 / LARGEST < reach < LARGEST:
            raise ValueError(
                f"the cutoff is {reach:.3g}, and must lie between {1 / LARGEST:g} and {LARGEST:g}: "
                "choose another unit of length"
            )
        self.skin = SKIN * term.skin * float(sigma.max())
        self.reach, self.most, self.served = reach, np.inf, 0
        if system.box is not None:
            self.most = room = 0.5 * float(system.box.min()) - reach
            if room <= 0.0:
                raise ValueError(
                    f"the box must be wider than two cutoffs, {2.0 * reach:.4g}, so that a bead "
                    f"meets one image of another: its shortest edge is {system.box.min():.4g}, at "
                    f"{n / system.volume:.3g} beads per volume"
                )
            self.skin = min(self.skin, room)
        depths = np.sqrt(arrays.one_or_each(term.epsilon, n, "epsilon"))
        core = term.core if isinstance(term, Softened) else 0.0
        numbers = cutoff**2, energy, slope, core, reach**2
        first, excluded = _excluded(system, term.exclude)
        one = slice(1 if np.ptp(sigma) == np.ptp(depths) == 0.0 else n)
        self.beads = kernels.Beads(0.5 * sigma[one], depths[one], *numbers, first, excluded)
        self.rows = np.empty((n, ROOM), np.uint32)
        self.places, self.sizes = np.empty((2, n), np.int32)
        self.positions = np.zeros((n, 3))  # by place
        self.made = np.full((n, system.dim), np.nan)  # where the beads were
        self.grid: kernels.Grid
        self.table: kernels.Table

    def set(self, x: Array, forces: Array, energies: Array, pool: Executor | None = None) -> None:
        """Set the forces (n, dim) in a configuration, and energies (n, 2) if there are rows."""
        n = self.system.n
        if kernels.moved(x, self.made, 0.25 * self.skin * self.skin):
            self._tune()
            self._find(x, pool)
        self.served += 1
        given = self.grid, self.table, self.beads
        _each(n, pool, partial(kernels.put_in_order, x, self.grid, self.table))
        _each(n, pool, lambda a, b: kernels.pair_forces(*given, a, b, forces, energies))

    def _tune(self) -> None:
        """Choose the skin s by the number of forces that the last table has served.

        With the cutoff r, a table serves k s forces, and a force costs (r + s)ᵈ (1 + REMAKE / k s).
        """
        if self.served:
            d, k = self.system.dim, self.served / self.skin
            b = (d - 1) * REMAKE
            skin = (math.sqrt(b * b + 4.0 * d * k * REMAKE * self.reach) - b) / (2.0 * d * k)
            self.skin = min(0.5 * (self.skin + skin), self.most)
        self.served = 0

    def _find(self, x: Array, pool: Executor | None) -> None:
        n, self.made[:] = self.system.n, np.nan  # until the table is whole
        self.grid, sorting, limit = _grid(self.system, x, self.reach + self.skin)
        starts = np.empty(int(np.prod(self.grid.counts)) + 2, np.int32)
        kept = starts, self.places, self.positions
        while True:
            self.table = kernels.Table(*kept, self.rows, self.sizes)
            kernels.sort_beads(sorting, self.grid, self.table)
            kernels.put_in_order(x, self.grid, self.table, 0, n)
            given = self.grid, self.table, self.beads, limit
            found = _each(n, pool, partial(kernels.find_neighbours, *given))
            most = max(found)
            if most <= self.rows.shape[1]:
                break
            self.rows = np.empty((n, most + ROOM // 2), np.uint32)
        self.made[:] = x

    def nearest(self, x: Array) -> float:
        """Return the smallest distance over σ of two beads that interact; inf if none is near."""
        self.set(x, np.empty_like(x), np.empty((0, 2)))
        least = np.inf
        for a in range(0, self.system.n, PIECE):
            rows = slice(a, a + PIECE)
            places = self.table.rows[rows]
            here = np.arange(places.shape[1]) < self.table.sizes[rows, None]
            me, other = np.nonzero(here)[0] + a, places[here]
            d = self.table.x[me] - self.table.x[other]
            d -= self.grid.edges * np.rint(d * self.grid.inverse)
            sizes = np.broadcast_to(self.beads.radii, self.system.n)[self.table.beads]
            ratios = np.linalg.norm(d, axis=1) / (sizes[me] + sizes[other])
            least = min(least, float(ratios.min(initial=np.inf)))
        return least


def require_near(x: Array, unit: float, name: str) -> None:
    """Refuse positions that are too many units from the origin."""
    far = float(np.abs(x).max(initial=0.0))
    if far > FARTHEST * unit:
        raise ValueError(
            f"x has coordinates of {far:.2g}, more than {FARTHEST:g} {name} from the origin: "
            "separations would be lost in rounding; bring the chains nearer to it"
        )


def _each(n: int, pool: Executor | None, task: Callable[[int, int], Any]) -> list[Any]:
    """Do a task on all beads, in pieces where there are threads; no result depends on these."""
    workers = getattr(pool, "_max_workers", 1)
    pieces = max(1, min(workers, n // PIECE))
    if pieces == 1 or pool is None:
        return [task(0, n)]
    edges = [n * k // pieces for k in range(pieces + 1)]
    return list(pool.map(task, edges[:-1], edges[1:]))


def _grid(system: System, x: Array, reach: float) -> tuple[kernels.Grid, Array, float]:
    """Return cells at least ``reach`` wide, `CELLS` for each bead at most, and what to sort by.

    In open space wide gaps along an axis are made narrow, in what beads are sorted by: chains may
    be far from each other.  The last number is the square of the reach, with room for the rounding
    of separations in single precision.
    """
    dim, places = system.dim, x
    edges, inverse, scale = np.zeros((3, 3))
    counts = np.ones(3)
    if system.box is None:
        places = np.where(np.isfinite(x), x, 0.0)
        widest = float(np.ptp(places, axis=0).max())
        for axis in places.T:
            order = np.argsort(axis)
            gaps = np.minimum(np.diff(axis[order], prepend=axis[order[:1]]), 2.0 * reach)
            axis[order] = np.cumsum(gaps)
        width = np.maximum(places.max(axis=0), reach)
    else:
        width, widest = system.box, float(system.box.max())
        edges[:dim], inverse[:dim] = width, 1.0 / width
    counts[:dim] = np.maximum(np.floor(width / reach), 1.0)
    most = CELLS * system.n + 64.0
    while np.prod(counts) > most:
        wide = counts > 1.0
        counts[wide] = np.floor(counts[wide] * (most / np.prod(counts)) ** (1.0 / wide.sum()))
        counts = np.maximum(counts, 1.0)
    scale[:dim] = counts[:dim] / width
    seen = reach + 1e-6 * max(reach, widest)
    return kernels.Grid(edges, inverse, scale, counts.astype(np.int64)), places, seen * seen


def _excluded(system: System, most: int) -> tuple[Short, Short]:
    """Return what `topology.near` does, of all chains and both ways."""
    blocks = []
    for chain, many in system.kinds:
        first, above = topology.near(chain.n, bonds(chain), most)
        pairs = sparse.csr_array((np.ones(above.size), above, first), shape=(chain.n, chain.n))
        blocks.append(sparse.kron(sparse.eye_array(many), pairs + pairs.T, format="csr"))
    both = sparse.block_diag(blocks, format="csr")
    both.sort_indices()
    return both.indptr.astype(np.int32), both.indices.astype(np.int32)
