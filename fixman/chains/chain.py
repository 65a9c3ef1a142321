"""`Chain`: which beads there are, how they are described, and what is held fixed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import compress
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays as _arrays
from fixman._common.arrays import Array
from fixman.chains import coordinates, hard_sets, redundancy, straight_bends, topology
from fixman.chains.coordinates import STRAIGHT, Coordinate, Index
from fixman.chains.hard_sets import EXTRA
from fixman.chains.layout import Layout
from fixman.errors import SingularConstraintError
from fixman.kernels.chain.rows import KINDS, LENGTH

__all__ = ["Chain"]

Base = Literal["free", "fixed"]

BEAD_BYTES = 380  # that a chain in the plane takes while it is made; in space 565
UNREADABLE = ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError


@dataclass(frozen=True, eq=False, repr=False)
class Chain:
    """Point masses, their internal coordinates, and which of these are hard.

    Immutable, hashable and comparable by content.  Make one with `Chain.linear`, `Chain.star`,
    `Chain.branched`, `Chain.ring` or `Chain.from_bonds`.

    Attributes
    ----------
    n, dim : int
        Mobile beads and space dimension, 2 or 3.
    base : "free" or "fixed"
        "fixed": the first bond starts at a base point, the origin, which does not move.
    masses : ndarray (n,)
    references : ndarray (n, dim)
        Parent, angle reference and (in 3-D) torsion reference of every bead; negative numbers
        are ghosts, see `Coordinate`.
    extra : tuple of Coordinate
        Hard rows beyond the chart: bonds that close rings; angles at these bonds if angles are
        hard, and torsions there for "torsional"; further constraints as given.
    hard_mask : ndarray (len(coordinates),) of bool
    redundant : tuple of Coordinate
        Hard rows that were left out because they depend on the others.  Most are extra rows; a row
        of the chart that was left out does not move, but is not in ``hard_mask``.
    closing : tuple of (i, j)
        Soft bonds that close rings, which are no coordinates.
    """

    n: int
    dim: int
    base: Base
    masses: Array
    references: Index
    extra: tuple[Coordinate, ...]
    hard_mask: NDArray[np.bool_]
    redundant: tuple[Coordinate, ...] = ()
    closing: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        for array in (self.masses, self.references, self.hard_mask):
            array.flags.writeable = False

    @classmethod
    def linear(
        cls,
        n: int,
        *,
        dim: int = 3,
        base: Base = "free",
        masses: ArrayLike = 1.0,
        hard: str | Sequence[str] | ArrayLike = ("length",),
        straight: Iterable[Any] | ArrayLike = (),
    ) -> Chain:
        """Make a linear chain of ``n`` mobile beads (theory.md section 1), in O(n).

        Parameters
        ----------
        base : "free" or "fixed"
            A fixed base is the point x₀ = 0; the first link's angle is then measured from e_x.
        masses : float or (n,)
            In any unit; the results are in units that match it.
        hard : kinds, or bool mask over ``coordinates``
            "length" is freely jointed, ``("length", "angle")`` freely rotating.  Positions of a
            free chain stay soft, and so do rows that touch a ghost.
        straight : iterable of (i, j, k), or positions (..., n, dim)
            Bends that are held straight, as for `Chain.branched`.
        """
        n = _arrays.positive_int(n, "n", BEAD_BYTES)
        line = np.arange(-1, n - 1)
        return _assemble(line, _NO_BONDS, dim, base, (), straight, masses, hard)

    @classmethod
    def branched(
        cls,
        parents: ArrayLike,
        *,
        dim: int = 3,
        base: Base = "free",
        masses: ArrayLike = 1.0,
        hard: str | Sequence[str] | ArrayLike = ("length",),
        extra: Iterable[Any] = (),
        straight: Iterable[Any] | ArrayLike = (),
        rotatable: ArrayLike | None = None,
        hydrogens: ArrayLike | None = None,
        drop_redundant: bool | ArrayLike = False,
    ) -> Chain:
        """Make a tree: a star, a comb, a dendrimer (theory.md section 1), in O(n).

        Parameters
        ----------
        parents : (n,)
            The parent of each bead, a bead of a lower number; parents[0] = −1 is the root's.
        hard : kinds, bool mask over ``coordinates``, "torsional", "h-bonds" or "h-angles"
            Rows that touch a ghost stay soft, and positions of a free chain.  "torsional": the
            bonds of each bead form one rigid body; a bond that is not ``rotatable`` joins the
            bodies of its two ends.  "h-bonds": lengths to ``hydrogens``.
            "h-angles": every length, and the angles H–X–H and H–O–X; masses in amu identify the
            oxygens.
        extra : iterable of Coordinate
            Further coordinates or (kind, beads), always hard: the guide "Kinds of coordinate".
        straight : iterable of (i, j, k), or positions (..., n, dim)
            Bends whose beads two extra rows each hold in line, as in a nitrile.  The angle of such
            a bend, and torsions over it, stay soft and have no gradient.  Positions (floats) select
            the hard bends whose angle has an rms of at most 0.25 rad in these positions.  In space
            only: the guide "Straight groups".
        rotatable : (bonds, 2), optional
            For "torsional"; by default every bond that is neither terminal nor in a ring of up to
            eight beads: the guide "Rings that turn".
        hydrogens : (n,) of bool, optional
            For "h-bonds" and "h-angles"; by default beads with masses of 0.95 to 1.2.  Masses of
            1.2 to 4.1, deuterium or repartitioned, are refused without ``hydrogens``.
        drop_redundant : bool, or (n, dim)
            Leave out hard rows that depend on the others; the motion does not change.
            ``redundant`` lists the rows left out.  The other rows are well conditioned in the given
            positions, or in a random configuration.  Without this option, dependent rows raise
            SingularConstraintError.
        """
        held = extra, straight, masses, hard, rotatable, hydrogens, drop_redundant
        return _assemble(topology.tree(parents), _NO_BONDS, dim, base, *held)

    @classmethod
    def star(cls, arms: int, length: int, **options: Any) -> Chain:
        """Make a star: ``arms`` arms of ``length`` beads each on bead 0, numbered arm by arm.

        The options are those of `Chain.branched`.
        """
        arms = _arrays.positive_int(arms, "arms")
        length = _arrays.positive_int(length, "length", BEAD_BYTES * arms)
        parents = np.arange(-1, arms * length)
        parents[1::length] = 0
        return cls.branched(parents, **options)

    @classmethod
    def ring(
        cls,
        n: int,
        *,
        dim: int = 3,
        base: Base = "free",
        masses: ArrayLike = 1.0,
        hard: str | Sequence[str] | ArrayLike = ("length",),
        extra: Iterable[Any] = (),
        straight: Iterable[Any] | ArrayLike = (),
        drop_redundant: bool | ArrayLike = False,
    ) -> Chain:
        """Make a ring: a linear chain whose last bead is bonded to bead 0.

        The arguments are those of `Chain.branched`.  The closing bond is a further hard length.  If
        angles are hard, the two angles beside it are hard too.
        """
        n = _arrays.positive_int(n, "n", BEAD_BYTES)
        if n < 3:
            raise ValueError(f"a ring has at least 3 beads, got {n}")
        held = extra, straight, masses, hard, None, None, drop_redundant
        return _assemble(np.arange(-1, n - 1), np.array([[0, n - 1]]), dim, base, *held)

    @classmethod
    def from_bonds(
        cls,
        n: int,
        bonds: ArrayLike,
        *,
        dim: int = 3,
        base: Base = "free",
        masses: ArrayLike = 1.0,
        hard: str | Sequence[str] | ArrayLike = ("length",),
        extra: Iterable[Any] = (),
        straight: Iterable[Any] | ArrayLike = (),
        rotatable: ArrayLike | None = None,
        hydrogens: ArrayLike | None = None,
        drop_redundant: bool | ArrayLike = False,
    ) -> Chain:
        """Make a chain of any connected set of bonds: trees, rings, molecules.

        ``bonds (bonds, 2)`` are pairs of beads in any order; other arguments and errors are those
        of `Chain.branched`.  A breadth-first tree from bead 0 gives the chart.  Bonds outside the
        tree close rings; they are extra rows if lengths are hard, with the angles at their ends if
        angles are hard, and with the torsions there that "torsional" holds.  In rings of rigid
        molecules some rows depend on others.  ValueError if the bonds leave several components,
        with their sizes.
        """
        n = _arrays.positive_int(n, "n", BEAD_BYTES)
        held = extra, straight, masses, hard, rotatable, hydrogens, drop_redundant
        parents, closures = topology.spanning_tree(n, bonds)
        return _assemble(parents, closures, dim, base, *held)

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Every coordinate: the n·d of the chart, bead by bead, then closures and extra rows."""
        return tuple(self.layout.rows[row] for row in range(len(self.layout.rows)))

    @cached_property
    def soft(self) -> Index:
        """Places of the soft coordinates; torques and q̈ follow this order."""
        return self.layout.soft

    @cached_property
    def hard(self) -> Index:
        """Places of the hard coordinates; tensions follow this order."""
        return self.layout.hard

    @property
    def straight(self) -> tuple[tuple[int, ...], ...]:
        """The bends (i, j, k) that are held straight."""
        rows = (*self.extra, *self.redundant)
        return tuple(row.beads for row in rows if row.kind == STRAIGHT[0])

    @cached_property
    def layout(self) -> Layout:
        """Tables for internal use, which may change from release to release."""
        return Layout(self)

    @cached_property
    def _content(self) -> tuple[Any, ...]:
        tables = (array.tobytes() for array in (self.masses, self.references, self.hard_mask))
        return self.n, self.dim, self.base, self.extra, self.redundant, self.closing, *tables

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, Chain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __reduce__(self) -> tuple[Any, ...]:
        return Chain, tuple(getattr(self, field.name) for field in fields(self))

    def __repr__(self) -> str:
        """``<Chain: 100 beads, 3-D, free, masses 1, hard: 99 lengths>``."""
        low, high = f"{self.masses.min():g}", f"{self.masses.max():g}"
        masses = f"masses {low}" if low == high else f"masses {low} to {high}"
        held = (KINDS[kind] for kind in self.layout.hard_rows.kinds)
        counts = Counter(k.name.replace("_", " ") if k.label is None else k.label for k in held)
        hard = ", ".join(f"{m} {kind}{'s' * (m > 1)}" for kind, m in counts.items() if kind)
        beads = f"{self.n} bead{'s' * (self.n > 1)}"
        out = f"; {len(self.redundant)} dependent left out" * bool(self.redundant)
        return f"<Chain: {beads}, {self.dim}-D, {self.base}, {masses}, hard: {hard or 'none'}{out}>"

    def to_json(self) -> str:
        """Write the chain as a JSON document that `Chain.from_json` reads back exactly."""
        return json.dumps(
            {
                "fixman_chain": 1,
                "dim": self.dim,
                "base": self.base,
                "masses": self.masses.tolist(),
                "references": self.references.tolist(),
                "extra": [[c.kind, list(c.beads)] for c in self.extra if c.kind not in STRAIGHT],
                "straight": [list(c.beads) for c in self.extra if c.kind == STRAIGHT[0]],
                "redundant": [[c.kind, list(c.beads)] for c in self.redundant],
                "hard": self.hard.tolist(),
            }
            | ({"closing": [list(pair) for pair in self.closing]} if self.closing else {})
        )

    @classmethod
    def from_json(cls, text: str) -> Chain:
        """Read what `to_json` wrote; ValueError for anything else."""
        try:
            data = json.loads(text)
            if data["fixman_chain"] != 1:
                raise ValueError(f"format {data['fixman_chain']} is not known")
            dim, base = data["dim"], data["base"]
            _arrays.require_space(dim, base)
            fixed = base == "fixed"
            masses = _arrays.masses(data["masses"], len(data["masses"]))
            n = masses.size
            references = np.array(data["references"], dtype=np.int64)
            of_tree = topology.references(references[:, 0].copy(), dim, fixed)
            if len(references) != n or not np.array_equal(references, of_tree):
                raise ValueError("the references are not those of a tree of these beads")
            extra, redundant = (
                hard_sets.extra_rows(data.get(name, ()), n, dim, fixed, kinds)
                for name, kinds in (("extra", EXTRA), ("redundant", (*EXTRA, *STRAIGHT)))
            )
            pairs, lines = hard_sets.straight_rows(data.get("straight", ()), n, dim, fixed)
            extra += pairs
            rows = n * dim + len(extra)
            if any(type(row) is not int or not 0 <= row < rows for row in data["hard"]):
                raise ValueError(f"hard must list coordinates 0 to {rows - 1}")
            mask = np.zeros(rows, dtype=bool)
            mask[data["hard"]] = True
            table = coordinates.chart(references, extra, fixed)
            mask = hard_sets.hard_mask(mask, table, n * dim)
            straight_bends.refuse_over(mask, table, straight_bends.over(lines, table, n * dim))
            bonds = [("length", pair) for pair in data.get("closing", ())]
            closing = hard_sets.extra_rows(bonds, n, dim, fixed)
            soft = _soft(topology.closures(references[:, 0], closing), (*extra, *redundant))
        except UNREADABLE as error:
            what = error if isinstance(error, ValueError) else repr(error)
            raise ValueError(f"text is not a chain written by Chain.to_json: {what}") from None
        return cls(n, dim, base, masses, references, extra, mask, redundant, soft)

    def internal(self, x: ArrayLike) -> Array:
        """Chart coordinates q (..., n·d) of configurations x (..., n, dim), in O(n) a frame.

        Lengths in the unit of x, angles and torsions in radians (theory.md section 2), in the order
        of the first n·d ``coordinates``.  SingularCoordinateError where a torsion is undefined (its
        bonds are straight) or bonded beads coincide.
        """
        return self.layout.values(self.layout.chart, x)

    def values(self, x: ArrayLike) -> Array:
        """Return the values (..., len(coordinates)) of all coordinates; else as `internal`."""
        return self.layout.values(self.layout.rows, x)

    def hard_values(self, x: ArrayLike) -> Array:
        """Values (..., n_hard) of the hard coordinates of configurations x (..., n, dim).

        `project` takes them as targets.  SingularConstraintError where a hard torsion is undefined
        (its bonds are straight) or the beads of a hard coordinate coincide; soft coordinates may be
        anything.
        """
        return self.layout.values(self.layout.hard_rows, x, SingularConstraintError)

    @overload
    def cartesian(self, q: ArrayLike) -> Array: ...
    @overload
    def cartesian(self, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]: ...
    def cartesian(self, q: ArrayLike, qd: ArrayLike | None = None) -> Array | tuple[Array, Array]:
        """Positions x (..., n, dim), or (x, v) if rates are given, from chart coordinates.

        ``q`` and ``qd`` (..., n·dim) are in the order of the first n·d ``coordinates``; lengths
        must be positive.  Regular everywhere, straight chains included; angles outside [0, π] in
        3-D continue smoothly.
        """
        m = self.n * self.dim
        q = _arrays.real(q, (m,), "q")
        lead = q.shape[:-1]
        rates = None
        if qd is not None:
            qd = _arrays.real(qd, (m,), "qd")
            lead = _arrays.common_lead(lead, qd.shape[:-1])
            _arrays.require_finite(qd, (m,), "qd", "coordinate")
            rates = _arrays.spread(qd, lead, (m,)).reshape(-1, m)
        _arrays.require_finite(q, (m,), "q", "coordinate")
        wrong = (self.layout.chart.kinds == LENGTH) & ~(q > 0)
        for where in np.argwhere(wrong)[:1]:
            row, value = self.layout.rows[int(where[-1])], q[tuple(where)]
            raise ValueError(f"{row} is {value}: lengths must be positive")
        q = _arrays.spread(q, lead, (m,))
        x, v = self.layout.cartesian(q.reshape(-1, m), rates)
        shape = (*lead, self.n, self.dim)
        return x.reshape(shape) if qd is None else (x.reshape(shape), v.reshape(shape))


# --- shared with the rooms below ----------------------------------------------------------------


def require_chain(chain: Chain) -> None:
    if not isinstance(chain, Chain):
        name = type(chain).__name__
        parts = ": take a chain of its kinds, and positions from system.split(x)"
        raise TypeError(f"chain must be a fixman.Chain, got {name}{parts * (name == 'System')}")


def single(chain: Chain, x: ArrayLike, name: str = "x") -> Array:
    require_chain(chain)
    array = _arrays.real(x, (chain.n, chain.dim), name)
    if array.ndim != 2:
        shape = f"({chain.n}, {chain.dim})"
        raise ValueError(f"{name} must be one configuration {shape}, got {array.shape}")
    return array


def closures(chain: Chain) -> Index:
    """Pairs of beads (closures, 2) whose bonds close rings, hard ones first."""
    hard = topology.closures(chain.references[:, 0], (*chain.extra, *chain.redundant))
    return np.concatenate([hard, np.array(chain.closing, dtype=np.int64).reshape(-1, 2)])


def with_hard_bonds(chain: Chain) -> Chain:
    """Return the chain with all of its bonds hard, soft closures as the last rows."""
    pairs = [("length", pair) for pair in chain.closing]
    rows = hard_sets.extra_rows(pairs, chain.n, chain.dim, chain.base == "fixed")
    table = chain.layout.rows
    mask = chain.hard_mask | ((table.kinds == LENGTH) & ~table.external)
    mask = np.append(mask, np.ones(len(rows), dtype=bool))
    return replace(chain, extra=chain.extra + rows, hard_mask=mask, closing=())


def _soft(closures: Index, rows: Iterable[Coordinate]) -> tuple[tuple[int, int], ...]:
    """Return closures that are not among the hard rows."""
    held = {frozenset(row.beads) for row in rows if row.kind == "length"}
    return tuple((i, j) for i, j in closures.tolist() if frozenset((i, j)) not in held)


def is_rigid(chain: Chain) -> bool:
    """Whether the hard rows, which are independent, leave one shape of a free chain in space."""
    n = chain.n
    straight = n == 2 or straight_bends.Lines(chain.straight).contain(range(n))
    turns = 2 if straight else 3 if n > 1 else 0  # about a line or a point nothing turns
    return chain.hard.size >= 3 * n - 3 - turns


def bonds(chain: Chain) -> Index:
    """Pairs i < j of bonded beads (bonds, 2): the tree's without a base, then what closes rings."""
    return np.sort(topology.bonds(chain.references[:, 0], closures(chain)), axis=1)


_NO_BONDS = np.empty((0, 2), dtype=np.int64)


def _assemble(
    parents: Index,
    closures: Index,
    dim: int,
    base: Base,
    extra: Iterable[Any],
    straight: Iterable[Any] | ArrayLike,
    masses: ArrayLike,
    hard: str | Sequence[str] | ArrayLike,
    rotatable: ArrayLike | None = None,
    hydrogens: ArrayLike | None = None,
    drop_redundant: bool | ArrayLike = False,
) -> Chain:
    _arrays.require_space(dim, base)
    n, fixed = parents.size, base == "fixed"
    references = topology.references(parents, dim, fixed)
    weights = _arrays.masses(masses, n)
    given = references, closures, extra, straight, fixed, weights, hard, rotatable, hydrogens
    table, rows, mask = hard_sets.resolve(*given)
    near = redundancy.nearby(drop_redundant, n, dim)
    closing = _soft(np.sort(closures, axis=1), rows)
    chain = Chain(n, dim, base, weights, references, rows, mask, closing=closing)
    stays = redundancy.independent(chain.layout, near)
    if stays.all():
        return chain
    redundant = tuple(table[int(k)] for k in np.flatnonzero(~stays))
    parts = Counter(row.beads for row in redundant if row.kind in STRAIGHT)
    for bend in [bend for bend, count in parts.items() if count == 1][:1]:
        said = f"other hard coordinates hold part of the straight bend {bend}: leave it out"
        raise SingularConstraintError(said, coordinates=redundant)
    if near is None and not drop_redundant:
        names, verb = _arrays.listed(redundant, 6), "depends" if len(redundant) == 1 else "depend"
        raise SingularConstraintError(
            f"{names} {verb} on the other hard coordinates in every configuration",
            ": drop_redundant=True leaves out such rows, which changes no motion",
            coordinates=redundant,
        )
    left = stays | (np.arange(stays.size) < n * dim)  # the chart has its rows, hard or not
    extra = tuple(compress(rows, stays[n * dim :]))
    left_out = redundant, closing
    return Chain(n, dim, base, weights, references, extra, (mask & stays)[left], *left_out)
