"""`System`: chains of any kinds side by side, in open space or in a periodic box."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import topology
from fixman.chains.chain import UNREADABLE, Chain, bonds, require_chain
from fixman.chains.coordinates import Index
from fixman.errors import FrameError

__all__ = ["System"]
__dir__ = __all__.copy  # completion shows public names alone

BEAD_BYTES = 100  # of positions, velocities and tables, at the least
HALF = 0.5 * (1.0 + 1e-9)  # of the box, with room for rounding


@dataclass(frozen=True, eq=False, repr=False, init=False)
class System:
    """Chains of any kinds side by side, equal ones stored once; immutable and comparable.

    Positions of a system are (..., n, dim), chain after chain in the order of ``kinds``, and are
    not wrapped into the box: a chain is whole, wherever it goes.

    Parameters
    ----------
    chains : Chain, or iterable of (Chain, int)
        A kind of chain, or kinds and how many of each.
    count : int, optional
        How many chains of one kind; by default 1.
    box : float or (dim,), optional
        Edges of a periodic box, whose corners are at right angles; by default open space.

    Attributes
    ----------
    kinds : tuple of (Chain, int)
    n, dim : int
        Beads in all, and the dimension of space.
    masses : ndarray (n,)
    box : ndarray (dim,) or None
    """

    kinds: tuple[tuple[Chain, int], ...]
    n: int
    dim: int
    masses: Array
    box: Array | None

    def __init__(
        self,
        chains: Chain | Iterable[tuple[Chain, int]],
        count: int | None = None,
        *,
        box: ArrayLike | None = None,
    ) -> None:
        if isinstance(chains, Chain):
            given: list[Any] = [(chains, 1 if count is None else count)]
        elif count is not None:
            raise TypeError("count is for one kind of chain: give (chain, count) for each kind")
        else:
            given = arrays.list_of(chains, "chains", "(chain, count)")
        kinds: list[tuple[Chain, int]] = []
        for pair in given:
            if not isinstance(pair, Sequence) or len(pair) != 2:
                raise TypeError(f"chains must be a Chain, or (chain, count) each, got {pair!r:.80}")
            require_chain(pair[0])
            many = arrays.positive_int(pair[1], "count", BEAD_BYTES * pair[0].n)
            if kinds and kinds[-1][0] == pair[0]:
                many += kinds.pop()[1]
            kinds.append((pair[0], many))
        if not kinds:
            raise ValueError("chains must name one kind of chain at least, got none")
        dims = {chain.dim for chain, _ in kinds}
        if len(dims) > 1:
            raise ValueError("chains must all be in the plane or all in space, got both")
        edges = None if box is None else _edges(box, kinds[0][0].dim)
        if edges is not None and any(chain.base == "fixed" for chain, _ in kinds):
            raise ValueError("a chain on a fixed base cannot be in a periodic box: leave out box=")
        masses = np.concatenate([np.tile(chain.masses, many) for chain, many in kinds])
        masses.flags.writeable = False
        n = sum(chain.n * many for chain, many in kinds)
        vars(self).update(kinds=tuple(kinds), n=n, dim=dims.pop(), masses=masses, box=edges)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(System, box=self.box), (self.kinds,)

    @property
    def chains(self) -> int:
        """How many chains there are."""
        return sum(many for _, many in self.kinds)

    @property
    def volume(self) -> float:
        """Volume of the box, or area in the plane; inf in open space."""
        return float("inf") if self.box is None else float(np.prod(self.box))

    def split(self, x: ArrayLike) -> list[Array]:
        """Positions or velocities (..., n, dim) as (..., count, beads, dim), one array a kind."""
        array, parts, at = arrays.real(x, (self.n, self.dim), "x"), [], 0
        for chain, many in self.kinds:
            end = at + chain.n * many
            shape = (*array.shape[:-2], many, chain.n, self.dim)
            parts.append(array[..., at:end, :].reshape(shape))
            at = end
        return parts

    def join(self, parts: Sequence[Array]) -> Array:
        """Put together what `split` took apart."""
        tails = [(many, chain.n, self.dim) for chain, many in self.kinds]
        parts = arrays.list_of(parts, "parts", "arrays, one for each kind of chain")
        if len(parts) != len(tails):
            raise ValueError(f"parts must be {len(tails)} arrays, one a kind, got {len(parts)}")
        given = [arrays.real(part, tail, "parts") for part, tail in zip(parts, tails, strict=True)]
        leads = {part.shape[:-3] for part in given}
        if len(leads) > 1:
            raise ValueError(f"parts must have the same leading axes, got {sorted(leads)}")
        flat = [part.reshape(*part.shape[:-3], -1, self.dim) for part in given]
        return np.concatenate(flat, axis=-2)

    def whole(self, x: ArrayLike) -> Array:
        """Return positions (..., n, dim) that were wrapped into the box with every chain whole.

        Every bond of a chain's tree becomes its shortest image, from the first bead on, which
        stays.  In open space nothing moves.
        """
        x = arrays.real(x, (self.n, self.dim), "x")
        arrays.require_finite(x, (self.n, self.dim), "x")
        if self.box is None:
            return x.copy()
        parts = []
        for (chain, _), part in zip(self.kinds, self.split(x), strict=True):
            parents = np.maximum(chain.references[:, 0], -1)
            images = np.rint((part - part[..., parents, :]) / self.box)
            images[..., 0, :] = 0.0  # of the root, which has no parent
            parts.append(part - topology.sum_outwards(parents, images) * self.box)
        return self.join(parts)

    def require_whole(self, x: Array, name: str) -> None:
        """Refuse bonds longer than half of the box, as those of wrapped chains are."""
        if self.box is None:
            return
        most = float(self.box.min()) * HALF
        i, j = self.bonds().T
        lengths = np.linalg.norm(x[..., i, :] - x[..., j, :], axis=-1)
        for *_, bond in np.argwhere(lengths > most)[:1].tolist():
            raise FrameError(
                f"{name} has a bond longer than half of the box, {most:.3g}, from "
                f"{self.place(int(i[bond]))}: system.whole({name}) makes wrapped chains whole",
                beads=(i[bond], j[bond]),
            )

    def bonds(self) -> Index:
        """Pairs of bonded beads (bonds, 2), numbered through all chains."""
        return self.numbered(bonds)

    def numbered(self, of: Callable[[Chain], Index]) -> Index:
        """Beads (m, k) that ``of`` names in each chain, numbered through all chains."""
        rows, at = [], 0
        for chain, many in self.kinds:
            beads = of(chain)
            starts = at + chain.n * np.arange(many)
            rows.append((starts[:, None, None] + beads).reshape(-1, beads.shape[1]))
            at += chain.n * many
        return np.concatenate(rows)

    def molecules(self) -> Index:
        """Return the number of the chain of each bead (n,)."""
        beads, counts = zip(*((chain.n, many) for chain, many in self.kinds), strict=True)
        return np.repeat(np.arange(sum(counts)), np.repeat(beads, counts))

    def place(self, bead: int) -> str:
        """Name a bead, from 0 on, by its chain and its number there."""
        chain = int(self.molecules()[bead])
        return f"bead {bead - int(np.argmax(self.molecules() == chain))} of chain {chain}"

    @property
    def _content(self) -> tuple[Any, ...]:
        return self.kinds, None if self.box is None else tuple(self.box)

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, System) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __repr__(self) -> str:
        """``<System: 100 chains of 20 beads, 3-D, box 13.3 x 13.3 x 13.3>``."""
        chains = ", ".join(f"{m} chain{'s' * (m > 1)} of {c.n} beads" for c, m in self.kinds)
        edges = () if self.box is None else self.box
        box = "box " + " x ".join(f"{edge:.4g}" for edge in edges) if len(edges) else "open space"
        return f"<System: {chains}, {self.dim}-D, {box}>"

    def to_json(self) -> str:
        """Write the system as a JSON document that `System.from_json` reads back exactly."""
        kinds = [[json.loads(chain.to_json()), many] for chain, many in self.kinds]
        box = None if self.box is None else self.box.tolist()
        return json.dumps({"fixman_system": 1, "kinds": kinds, "box": box})

    @classmethod
    def from_json(cls, text: str) -> System:
        """Read what `to_json` wrote; ValueError for anything else."""
        try:
            data = json.loads(text)
            if data["fixman_system"] != 1:
                raise ValueError(f"format {data['fixman_system']} is not known")
            kinds = [(Chain.from_json(json.dumps(one)), many) for one, many in data["kinds"]]
            return cls(kinds, box=data["box"])
        except UNREADABLE as error:
            what = error if isinstance(error, ValueError) else repr(error)
            raise ValueError(f"text is not a system written by System.to_json: {what}") from None


def require_model(model: Chain | System) -> None:
    """Refuse anything but a `Chain` or a `System`."""
    if not isinstance(model, (Chain, System)):
        name = type(model).__name__
        hint = ": for rigid bodies take fixman.rigid, such as rigid.motion.simulate"
        rigid = name in ("SerialChain", "Linkage", "Robot")
        raise TypeError(f"chain must be a fixman.Chain or System, got {name}{hint * rigid}")


def wrapped(x: Array, box: Array) -> Array:
    """Return positions in a periodic box, in [0, L) along each axis."""
    points = np.mod(x, box)
    points[points >= box] = 0.0  # what is a little below 0 becomes an edge
    return np.asarray(points)


def held_pairs(chain: Chain) -> Index:
    """Pairs of beads at a hard distance (m, 2)."""
    hard = [chain.coordinates[row] for row in chain.hard]
    pairs = [sorted(row.beads) for row in hard if row.kind == "length" and min(row.beads) >= 0]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _edges(box: ArrayLike, dim: int) -> Array:
    edges = arrays.real(box, (), "box")
    if edges.shape not in ((), (dim,)):
        said = f"box must be one edge or have shape ({dim},), got {edges.shape}"
        raise ValueError(f"{said}; it has right angles, as no triclinic box is supported")
    edges = np.broadcast_to(edges, dim).copy()
    for size in (*edges.tolist(), float(np.prod(edges))):
        arrays.positive(size, "an edge or the volume of box")
    edges.flags.writeable = False
    return edges
