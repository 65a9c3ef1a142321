"""`Chain`: which beads there are, how they are described, and what is held fixed."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from fixman import _arrays, coordinates
from fixman._arrays import Array, Lead
from fixman.coordinates import KINDS, POSITIONS, Coordinate, HardPattern, Rows
from fixman.errors import SingularConstraintError, SingularCoordinateError
from fixman.kernels import charts
from fixman.kernels.geometry import LENGTH, TORSION

Base = Literal["free", "fixed"]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Chain:
    """Point masses, their internal coordinates, and which of these are hard.

    Immutable, hashable and comparable by content.  Make one with `Chain.linear`.

    Attributes
    ----------
    n, dim : int
        Mobile beads and space dimension, 2 or 3.
    base : "free" or "fixed"
        Whether the first bond starts at a base point at the origin that does not move.
    masses : ndarray (n,)
    references : ndarray (n, dim)
        Parent, angle reference and (in 3-D) torsion reference of every bead; negative numbers
        are ghosts, see `Coordinate`.
    extra : tuple of Coordinate
        Hard rows beyond the chart: bonds that close rings and other extra constraints.
    hard_mask : ndarray (len(coordinates),) of bool
    """

    n: int
    dim: int
    base: Base
    masses: Array
    references: Index
    extra: tuple[Coordinate, ...]
    hard_mask: NDArray[np.bool_]

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
        hard: Sequence[str] | ArrayLike = ("length",),
    ) -> Chain:
        """Make a linear chain of ``n`` mobile beads (theory.md section 1).

        Parameters
        ----------
        n : int
            Beads; a fixed base point comes on top.
        dim : 2 or 3
        base : "free" or "fixed"
            A fixed base is the point x₀ = 0; the first link's angle is then measured from e_x.
        masses : float or (n,)
            In any unit; the results are in the matching ones.
        hard : tuple of kinds, or bool mask over ``coordinates``
            ``("length",)`` is freely jointed, ``("length", "angle")`` freely rotating.  On a free
            chain positions and rows that touch a ghost stay soft.

        Notes
        -----
        Costs O(n) in time and memory.
        """
        n = _arrays.positive_int(n, "n")
        if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or dim not in (2, 3):
            raise ValueError(f"dim must be 2 or 3, got {dim!r}")
        if not isinstance(base, str) or base not in ("free", "fixed"):
            raise ValueError(f"base must be 'free' or 'fixed', got {base!r}")
        references = coordinates.linear_references(n, dim, base == "fixed")
        table = coordinates.chart(references, (), base == "fixed")
        mask = _hard_mask(hard, table, dim, base)
        return cls(n, int(dim), base, _arrays.masses(masses, n), references, (), mask)

    # --- index tables -----------------------------------------------------------------------

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """Every coordinate: the n·d of the chart, bead by bead, then closures and extra rows."""
        return tuple(self._rows[row] for row in range(len(self._rows)))

    @cached_property
    def soft(self) -> Index:
        """Places of the soft coordinates; torques and q̈ follow this order."""
        return _read_only(np.flatnonzero(~self.hard_mask))

    @cached_property
    def hard(self) -> Index:
        """Places of the hard coordinates; tensions follow this order."""
        return _read_only(np.flatnonzero(self.hard_mask))

    @cached_property
    def _rows(self) -> Rows:
        return coordinates.chart(self.references, self.extra, self._fixed)

    @cached_property
    def _soft_rows(self) -> Rows:
        return self._rows.take(self.soft)

    @cached_property
    def _hard_pattern(self) -> HardPattern:
        return coordinates.hard_pattern(self._rows, self.hard)

    @cached_property
    def _fixed(self) -> bool:
        return self.base == "fixed"

    @cached_property
    def _inverse_masses(self) -> Array:
        return 1.0 / self.masses

    @cached_property
    def _links(self) -> Array:
        """Inverse masses and masses (2, bonds + 1) of the joints, the base point included.

        Empty, (2, 0), unless the hard rows are exactly the bonds of a linear chain.
        """
        linear = coordinates.linear_references(self.n, self.dim, self._fixed)
        bonds = self._rows.kinds == LENGTH
        if self.extra or not bonds.any() or not np.array_equal(self.hard_mask, bonds):
            return np.empty((2, 0))
        if not np.array_equal(self.references[:, 0], linear[:, 0]):
            return np.empty((2, 0))
        beads = np.stack([self._inverse_masses, self.masses])
        return np.concatenate([np.zeros((2, int(self._fixed))), beads], axis=1)

    @cached_property
    def _band(self) -> tuple[NDArray[np.int32], int]:
        """What assembles the band of H^bb; nothing where `_links` serve instead."""
        if self._links.size:
            return np.empty((0, 4), dtype=np.int32), 1
        return self._hard_pattern.terms, self._hard_pattern.bandwidth

    @cached_property
    def _sizes(self) -> tuple[int, int, Array, int, int]:
        return self.n, self.dim, self._links, self.hard.size, self.soft.size

    # --- content ----------------------------------------------------------------------------

    @cached_property
    def _content(self) -> tuple[Any, ...]:
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.masses, self.references, self.hard_mask):
            digest.update(array.tobytes())
        return self.n, self.dim, self.base, self.extra, digest.digest()

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, Chain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.masses.copy(), self.references.copy(), self.extra, self.hard_mask.copy())
        return Chain, (self.n, self.dim, self.base, *fields)

    def __repr__(self) -> str:
        """``<Chain: 100 beads, 3-D, free, masses 1, hard: 99 lengths>``."""
        low, high = self.masses.min(), self.masses.max()
        masses = f"masses {low:g}" if low == high else f"masses {low:g} to {high:g}"
        counts = Counter(KINDS[kind] for kind in self._rows.kinds[self.hard])
        hard = ", ".join(f"{m} {kind}{'s' * (m > 1)}" for kind, m in counts.items())
        beads = f"{self.n} bead{'s' * (self.n > 1)}"
        return f"<Chain: {beads}, {self.dim}-D, {self.base}, {masses}, hard: {hard or 'none'}>"

    def to_json(self) -> str:
        """Write the chain as a JSON document that `Chain.from_json` reads back exactly."""
        return json.dumps(
            {
                "fixman_chain": 1,
                "dim": self.dim,
                "base": self.base,
                "masses": self.masses.tolist(),
                "references": self.references.tolist(),
                "extra": [[c.kind, list(c.beads)] for c in self.extra],
                "hard": self.hard.tolist(),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Chain:
        """Read what `to_json` wrote.

        Raises
        ------
        ValueError
            If the document is not such a chain.
        """
        try:
            data = json.loads(text)
            if data["fixman_chain"] != 1:
                raise ValueError(f"format {data['fixman_chain']} is not known")
            dim, base = data["dim"], data["base"]
            if dim not in (2, 3) or base not in ("free", "fixed"):
                raise ValueError(f"dim {dim!r}, base {base!r}")
            masses = _arrays.masses(data["masses"], len(data["masses"]))
            n = masses.size
            references = coordinates.linear_references(n, dim, base == "fixed")
            if data["references"] != references.tolist() or data["extra"]:
                raise ValueError("branches, closures and extra rows are not read by this version")
            if any(type(row) is not int or not 0 <= row < n * dim for row in data["hard"]):
                raise ValueError(f"hard must list coordinates 0 to {n * dim - 1}")
            mask = np.zeros(n * dim, dtype=bool)
            mask[data["hard"]] = True
        except (KeyError, TypeError, IndexError, json.JSONDecodeError, ValueError) as error:
            raise ValueError(f"not a chain written by Chain.to_json: {error!r}") from None
        table = coordinates.chart(references, (), base == "fixed")
        return cls(n, dim, base, masses, references, (), _hard_mask(mask, table, dim, base))

    # --- charts -----------------------------------------------------------------------------

    def internal(self, x: ArrayLike) -> Array:
        """Chart coordinates q of configurations.

        Parameters
        ----------
        x : (..., n, dim)

        Returns
        -------
        ndarray (..., n * dim)
            Lengths in the unit of x, angles and torsions in radians, in the order of the first
            n·d ``coordinates``.

        Raises
        ------
        SingularCoordinateError
            Where a torsion is undefined (its bonds are straight) or bonded beads coincide.

        Notes
        -----
        Costs O(n) a frame; theory.md section 2.
        """
        x = _arrays.real(x, (self.n, self.dim), "x")
        lead = x.shape[:-2]
        m = self.n * self.dim
        q, bad = self._chart.values(x)
        if bad >= 0:
            self._explain_positions(x, bad)
            torsions = self._chart.take(np.flatnonzero(self._chart.kinds == TORSION))
            torsions.refuse_singular(x, bad, SingularCoordinateError)
            raise overflow("internal coordinates", bad, lead)
        return q.reshape(*lead, m)

    @overload
    def cartesian(self, q: ArrayLike) -> Array: ...
    @overload
    def cartesian(self, q: ArrayLike, qd: ArrayLike) -> tuple[Array, Array]: ...
    def cartesian(self, q: ArrayLike, qd: ArrayLike | None = None) -> Array | tuple[Array, Array]:
        """Positions, and velocities if rates are given, from chart coordinates.

        Regular everywhere, straight chains included; angles outside [0, π] in 3-D continue
        smoothly.

        Parameters
        ----------
        q : (..., n * dim)
            In the order of the first n·d ``coordinates``; lengths must be positive.
        qd : (..., n * dim), optional
            Their rates.

        Returns
        -------
        x, or (x, v) : ndarray (..., n, dim)

        Notes
        -----
        Costs O(n) a frame.
        """
        m = self.n * self.dim
        q = _arrays.real(q, (m,), "q", "coordinate")
        lead = q.shape[:-1]
        rates = np.empty((0, m))
        if qd is not None:
            qd = _arrays.real(qd, (m,), "qd", "coordinate")
            lead = _arrays.common_lead(lead, qd.shape[:-1])
            _arrays.require_finite(qd, (m,), "qd", "coordinate")
            rates = _arrays.spread(qd, lead, (m,)).reshape(-1, m)
        _arrays.require_finite(q, (m,), "q", "coordinate")
        lengths = q[..., self._chart.kinds == LENGTH]
        if not (lengths > 0).all():
            where = tuple(np.argwhere(~(lengths > 0))[0])
            row = int(np.flatnonzero(self._chart.kinds == LENGTH)[where[-1]])
            raise ValueError(f"{self._rows[row]} is {lengths[where]}: lengths must be positive")
        q = _arrays.spread(q, lead, (m,))
        x = np.empty((*lead, self.n, self.dim))
        v = np.empty(x.shape if qd is not None else (0, self.dim))
        charts.cartesian_frames(
            q.reshape(-1, m), rates, self.n, self.dim, self._fixed, self._own_references,
            x.reshape(-1, self.dim), v.reshape(-1, self.dim),
        )  # fmt: skip
        if not (np.isfinite(x).all() and np.isfinite(v).all()):
            raise ValueError("positions overflowed: lengths or rates are too large")
        return (x, v) if qd is not None else x

    @cached_property
    def _chart(self) -> Rows:
        return self._rows.take(np.arange(self.n * self.dim))

    @cached_property
    def _own_references(self) -> Index:
        return self.references.copy()  # writeable, as the kernels are compiled for

    # --- refusals ---------------------------------------------------------------------------

    def _explain_positions(self, x: Array, frame: int) -> None:
        """Raise if positions are not finite or bonded beads coincide."""
        _arrays.require_finite(x, (self.n, self.dim), "x")
        self._hard_pattern.rows.refuse_lengths(x, frame, SingularConstraintError)
        self._soft_rows.refuse_lengths(x, frame, SingularCoordinateError)

    def _refuse_extra(self, what: str) -> None:
        if self.extra:
            raise ValueError(
                f"{what} is not defined with closures or extra rows: the soft coordinates "
                f"outnumber the degrees of freedom by {len(self.extra)}"
            )


def wilson_b(chain: Chain, x: ArrayLike) -> sparse.csr_array[Any, Any]:
    """Wilson's B = ∂q/∂x of one configuration (theory.md section 2).

    Parameters
    ----------
    chain : Chain
    x : (n, dim)

    Returns
    -------
    scipy.sparse.csr_array (len(chain.coordinates), n * dim)
        At most 4·dim elements a row.  Costs O(n).

    Raises
    ------
    SingularCoordinateError
        Where a coordinate has no gradient: a straight 3-D angle, or a torsion next to one.
    """
    x = single(chain, x)
    gradients, exist = chain._rows.gradients(x)
    if not exist.all():
        chain._explain_positions(x, 0)
        chain._rows.refuse_singular(x, 0, SingularCoordinateError)
        raise overflow("Wilson rows", 0, ())
    return chain._rows.to_sparse(gradients)


def velocity_terms(chain: Chain, x: ArrayLike, v: ArrayLike) -> Array:
    """κ = ẋᵀ (∂²q/∂x²) ẋ, the part of q̈ that velocities make (theory.md section 3).

    Parameters
    ----------
    chain : Chain
    x, v : (..., n, dim)

    Returns
    -------
    ndarray (..., len(chain.coordinates))
        Costs O(n) a frame.

    Raises
    ------
    SingularCoordinateError
        Where a coordinate has no gradient: a straight 3-D angle, or a torsion next to one.
    """
    require_chain(chain)
    tail = (chain.n, chain.dim)
    x, v = _arrays.real(x, tail, "x"), _arrays.real(v, tail, "v")
    lead = _arrays.common_lead(x.shape[:-2], v.shape[:-2])
    x, v = _arrays.spread(x, lead, tail), _arrays.spread(v, lead, tail)
    table = chain._rows
    kappa = np.empty((count(lead), len(table)))
    bad = charts.curvature_frames(
        x.reshape(-1, chain.dim), v.reshape(-1, chain.dim), chain.n, chain.dim, chain._fixed,
        table.kinds, table.beads, kappa,
    )  # fmt: skip
    if bad >= 0:
        _arrays.require_finite(v, tail, "v")
        chain._explain_positions(x, bad)
        table.refuse_singular(x, bad, SingularCoordinateError)
        raise overflow("velocity terms", bad, lead)
    return kappa.reshape(*lead, len(table))


# --- shared with the rooms below ----------------------------------------------------------------


def require_chain(chain: Chain) -> None:
    """Refuse anything but a `Chain`, swapped arguments first of all."""
    if not isinstance(chain, Chain):
        raise TypeError(f"chain must be a fixman.Chain, got {type(chain).__name__}")


def single(chain: Chain, x: ArrayLike) -> Array:
    """Gate for functions of one configuration."""
    require_chain(chain)
    array = _arrays.real(x, (chain.n, chain.dim), "x")
    if array.ndim != 2:
        raise ValueError(f"x must be one configuration ({chain.n}, {chain.dim}), got {array.shape}")
    return array


def overflow(what: str, frame: int, lead: Lead) -> ValueError:
    """Return the error for results that are not finite though every argument is."""
    where = _arrays.frame_text(frame, lead)
    return ValueError(f"the {what} overflowed{where}: choose units that bring values nearer to 1")


def count(lead: Lead) -> int:
    """Return the number of frames."""
    return int(np.prod(lead, dtype=np.int64))


def _read_only(array: Index) -> Index:
    array.flags.writeable = False
    return array


def _hard_mask(
    hard: Sequence[str] | ArrayLike, table: Rows, dim: int, base: Base
) -> NDArray[np.bool_]:
    """Resolve ``hard``: kinds, or a mask over the coordinates."""
    if isinstance(hard, str):
        raise ValueError(
            f"hard must be a tuple of kinds, got the string {hard!r}: write ({hard!r},)"
        )
    if hard is None:
        raise ValueError("hard is None: give a tuple of kinds, () for no constraint at all")
    external = table.external if base == "free" else np.zeros(len(table), dtype=bool)
    try:
        listed = np.asarray(hard)
    except ValueError:  # ragged
        listed = np.empty((1, 1))
    if listed.dtype == bool:
        if listed.shape != (len(table),):
            raise ValueError(
                f"a hard mask needs one entry per coordinate, ({len(table)},), got {listed.shape}"
            )
        if (listed & external).any():
            row = int(np.argmax(listed & external))
            raise ValueError(
                f"{table[row]} cannot be hard: it places the free chain in space; fix the base"
            )
        return listed.copy()
    if listed.size and (listed.dtype.kind != "U" or listed.ndim != 1):
        raise ValueError(
            f"hard must be a tuple of kinds {KINDS[POSITIONS:]} or a mask of booleans, "
            f"got {hard!r:.80}"
        )
    kinds = listed.tolist()
    for kind in kinds:
        if kind not in KINDS[POSITIONS:]:
            raise ValueError(f"hard names the kinds {KINDS[POSITIONS:]}, got {kind!r}")
        if kind == "torsion" and dim == 2:
            raise ValueError("there are no torsions in the plane: dim=2 has lengths and angles")
    mask = np.isin(table.kinds, [KINDS.index(kind) for kind in kinds]) & ~external
    return np.asarray(mask, dtype=bool)
