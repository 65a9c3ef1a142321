"""Energies and forces of chain models.

A potential is a frozen description that knows no chain: ``Bending(5.0) + WCA()``.  A stepper takes
the description itself; `bind` puts it on a chain, to give energies and forces.  Angles are 0 where
the chain is straight, torsions ±π at trans (IUPAC).

A potential of your own is any object with ``energy(x)`` and ``force(x)`` of one configuration
(n, dim), called in Python every step, or a compiled function: `Compiled`.  `fixman.MonteCarlo`
needs its energy only.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.coordinates import GHOSTS, Rows
from fixman.kernels.chain.rows import ANGLE, LENGTH, TORSION
from fixman.kernels.potentials.bonded import COMBINED, COSINE, HARMONIC, ORDER, SQUARED, TILTED
from fixman.kernels.potentials.forces import PotentialTables
from fixman.potentials import binding
from fixman.potentials.binding import Assembly, Beads, Bound, bead_rows, bind

__all__ = [
    "FENE", "WCA", "Bending", "BendingTorsion", "Bound", "Compiled", "Gravity", "LennardJones",
    "Potential", "PotentialTables", "RyckaertBellemans", "Sum", "Tension", "Tether", "Torsion",
    "bind", "from_parameters",
]  # fmt: skip

SHORTEST = 1e-20  # cutoff over σ, whose energy is a number
BENDS = {"cosine": COSINE, "harmonic": HARMONIC, "squared cosine": SQUARED}


class Potential(Protocol):
    """A potential of your own."""

    def energy(self, x: Array, /) -> float:
        """Return the energy of one configuration (n, dim)."""

    def force(self, x: Array, /) -> Array:
        """Return −∂U/∂x (n, dim) there."""


class _Term:
    """Sums, descriptions and tables of all potentials of this module."""

    INVARIANT: ClassVar[bool] = False  # whether it is the same wherever a free chain is

    def __add__(self, other: Any) -> Sum:
        return Sum((*terms_of(self), *terms_of(other)))

    def __radd__(self, other: Any) -> Any:
        # So that sum([a, b]), which begins with 0, works.
        return self if isinstance(other, int) and other == 0 else Sum((*terms_of(other), self))

    def parameters(self) -> dict[str, Any]:
        """Return a description for JSON, which `from_parameters` reads."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"name": type(self).__name__} | values

    def _set(self, **values: Any) -> None:
        vars(self).update(values)


# --- bonded ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FENE(_Term):
    """Bonds of finite extension: U = −½ k R² ln(1 − r²/R²), r < R, for chains with soft lengths.

    ``FENE() + WCA(exclude=0)`` on ``Chain.linear(n, hard=())`` is the bead–spring chain of Kremer &
    Grest (1990).  A bond of length R or more is an error.

    Parameters
    ----------
    stiffness : float or (bonds,)
        k, an energy over a squared length; 30 ε/σ² in that model.
    reach : float or (bonds,)
        R; 1.5 σ in that model.
    beads : iterable of two beads or of Coordinate, optional
        By default all bonds of the chain, that to the base point too.
    """

    INVARIANT = True

    stiffness: float | tuple[float, ...] = 30.0
    reach: float | tuple[float, ...] = 1.5
    beads: Beads | None = None

    def __post_init__(self) -> None:
        self._set(
            stiffness=_numbers(self.stiffness, "stiffness"),
            reach=_numbers(self.reach, "reach", positive=True),
            beads=bead_rows(self.beads, 2, "bond"),
        )

    def _tabulate(self, tables: Assembly) -> None:
        terms = binding.named_terms(tables.chain, self.beads, LENGTH, "bond")
        k = arrays.one_or_each(self.stiffness, len(terms), "stiffness")
        reach = arrays.one_or_each(self.reach, len(terms), "reach")
        tables.bonded(0, terms, np.stack([k, reach**2], axis=1))


@dataclass(frozen=True)
class Bending(_Term):
    """Resistance of the angles θ, which are 0 where the chain is straight.

    - "cosine": U = k (1 − cos(θ − θ₀)), for θ₀ = 0 the discrete worm-like chain, whose persistence
      length is k/kT bonds if it is stiff;
    - "harmonic": U = ½ k (θ − θ₀)²;
    - "squared cosine": U = ½ k (cos θ − cos θ₀)².

    In the plane θ is signed, and so is θ₀.  In space U has a kink without a force at straight and
    folded bends if θ₀ ≠ 0, and at harmonic bends that are folded back.

    Parameters
    ----------
    stiffness : float or (angles,)
        k, an energy.
    angle : float or (angles,)
        θ₀ in radians; from 0 to π in space.
    kind : "cosine", "harmonic" or "squared cosine"
    beads : iterable of three beads or of Coordinate, optional
        By default all angles of the chain's chart that touch no ghost, then those at closures: a
        ring of n has n.  Angles of a fixed base may be named.
    """

    INVARIANT = True

    stiffness: float | tuple[float, ...]
    angle: float | tuple[float, ...] = 0.0
    kind: Literal["cosine", "harmonic", "squared cosine"] = "cosine"
    beads: Beads | None = None

    def __post_init__(self) -> None:
        arrays.require_one_of(self.kind, "kind", BENDS)
        self._set(
            stiffness=_numbers(self.stiffness, "stiffness"),
            angle=_numbers(self.angle, "angle"),
            beads=bead_rows(self.beads, 3, "angle"),
        )

    def _tabulate(self, tables: Assembly) -> None:
        terms = binding.named_terms(tables.chain, self.beads, ANGLE, "angle")
        k = arrays.one_or_each(self.stiffness, len(terms), "stiffness")
        angle = arrays.one_or_each(self.angle, len(terms), "angle")
        if tables.chain.dim == 3 and not np.all((angle >= 0.0) & (angle <= np.pi)):
            raise ValueError("an angle in space must be from 0 (straight) to π")
        sine = np.where(np.abs(np.sin(angle)) < 1e-15, 0.0, np.sin(angle))
        rows = np.stack([k, angle, np.cos(angle), sine], axis=1)
        kind = BENDS[self.kind]
        tables.bonded(np.where((kind == COSINE) & (sine != 0.0), TILTED, kind), terms, rows)


@dataclass(frozen=True)
class Torsion(_Term):
    """Cosine series of the torsions φ: U = Σ_m k_m (1 + cos(m φ − δ_m)), m = 1, 2, … up to 6.

    φ is ±π at trans.  The force grows as 1/sin θ as a bend at either end of the axis straightens,
    and a straight bend is an error.  `BendingTorsion` has no such singularity.

    Parameters
    ----------
    amplitudes : float or (m,)
        k_1, k_2, …: ``(0, 0, 2.5)`` has three wells.
    phases : float or (m,)
        δ_1, δ_2, … in radians.
    beads : iterable of four beads or of Coordinate, optional
        By default all torsions of the chain's chart that touch no ghost and follow three bonds,
        then those across closures: a ring of n > 3 has n.
    """

    INVARIANT = True

    amplitudes: float | tuple[float, ...]
    phases: float | tuple[float, ...] = 0.0
    beads: Beads | None = None

    def __post_init__(self) -> None:
        amplitudes = np.atleast_1d(_numbers(self.amplitudes, "amplitudes"))
        if amplitudes.size > ORDER:
            raise ValueError(f"at most {ORDER} amplitudes, got {amplitudes.size}")
        phases = arrays.one_or_each(_numbers(self.phases, "phases"), amplitudes.size, "phases")
        self._set(
            amplitudes=tuple(amplitudes.tolist()),
            phases=tuple(phases.tolist()),
            beads=bead_rows(self.beads, 4, "torsion"),
        )

    def _tabulate(self, tables: Assembly) -> None:
        k, delta = np.array(self.amplitudes), np.array(self.phases)
        waves = np.stack([k * np.cos(delta), k * np.sin(delta)], axis=1)
        row = np.concatenate([[k.sum()], waves.ravel()])
        tables.bonded(k.size, _torsions(self, tables), row[None])


@dataclass(frozen=True)
class _Polynomial(_Term):
    INVARIANT = True
    MOST: ClassVar[int]

    coefficients: tuple[float, ...]
    beads: Beads | None = None

    def __post_init__(self) -> None:
        numbers = np.atleast_1d(_numbers(self.coefficients, "coefficients"))
        if not 0 < numbers.size <= self.MOST:
            raise ValueError(f"1 to {self.MOST} coefficients, got {numbers.size}")
        self._set(coefficients=tuple(numbers.tolist()), beads=bead_rows(self.beads, 4, "torsion"))


@dataclass(frozen=True)
class RyckaertBellemans(_Polynomial):
    """U = Σ_n C_n cosⁿ ψ of the torsions, n = 0 … 5, with ψ = φ − π, 0 at trans.

    (Ryckaert & Bellemans 1975.)  ``coefficients`` are C_0, C_1, …; ``beads`` as in `Torsion`.
    """

    MOST = 6

    def _tabulate(self, tables: Assembly) -> None:
        powers = np.array(self.coefficients) * (-1.0) ** np.arange(len(self.coefficients))
        waves = np.polynomial.chebyshev.poly2cheb(powers)  # cosⁿ φ as cos mφ
        row = np.zeros(2 * waves.size - 1)
        row[0], row[1::2] = waves[0], waves[1:]
        tables.bonded(waves.size - 1, _torsions(self, tables), row[None])


@dataclass(frozen=True)
class BendingTorsion(_Polynomial):
    """U = sin³θ sin³θ′ Σ_n a_n cosⁿ φ of the torsions φ and the bends at their axis, n = 0 … 3.

    (Bulacu & van der Giessen 2005.)  Regular everywhere, straight bends included.  ``coefficients``
    are a_0, a_1, …; ``beads`` are those of `Torsion`.
    """

    MOST = 4

    def _tabulate(self, tables: Assembly) -> None:
        row = np.pad(self.coefficients, (0, 4 - len(self.coefficients)))
        tables.bonded(COMBINED, _torsions(self, tables), row[None])


def _torsions(term: Torsion | _Polynomial, tables: Assembly) -> Rows:
    return binding.named_terms(tables.chain, term.beads, TORSION, "torsion")


# --- between beads that are not bonded ------------------------------------------------------------


class Pair(_Term):
    INVARIANT = True

    epsilon: float | tuple[float, ...]
    sigma: float | tuple[float, ...]
    exclude: int
    skin: float

    def __post_init__(self) -> None:
        self._set(
            epsilon=_numbers(self.epsilon, "epsilon", positive=True),
            sigma=_numbers(self.sigma, "sigma", positive=True),
            exclude=arrays.whole(self.exclude, "exclude", 0),
            skin=arrays.positive(self.skin, "skin"),
        )

    def cut(self) -> tuple[float, float, float]:
        """Return the cutoff over σ, and energy and slope there in units of ε and σ."""
        raise NotImplementedError

    def _tabulate(self, tables: Assembly) -> None:
        tables.pairs(self, *self.cut())


@dataclass(frozen=True)
class LennardJones(Pair):
    """U = 4 ε ((σ/r)¹² − (σ/r)⁶) between beads closer than a cutoff, in open space.

    Parameters
    ----------
    epsilon, sigma : float or (n,)
        A pair of beads has √(ε_i ε_j) and (σ_i + σ_j)/2.
    cutoff : float
        In units of σ.
    shift : "energy" or "force"
        "energy" subtracts U(cutoff).  "force" subtracts a straight line besides, so that the force
        is continuous too and a Newton simulation conserves the energy better.
    exclude : int
        Beads joined by up to this many bonds do not interact; 1 excludes bonded beads.
    skin : float
        Reach of neighbour lists beyond the cutoff, in units of the largest σ; only speed depends on
        it.
    """

    epsilon: float | tuple[float, ...] = 1.0
    sigma: float | tuple[float, ...] = 1.0
    cutoff: float = 2.5
    shift: Literal["energy", "force"] = "energy"
    exclude: int = 1
    skin: float = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        arrays.require_one_of(self.shift, "shift", ("energy", "force"))
        self._set(cutoff=arrays.positive(self.cutoff, "cutoff"))
        if self.cutoff < SHORTEST:
            raise ValueError(f"cutoff must be at least {SHORTEST:g} σ, got {self.cutoff:g}")

    def cut(self) -> tuple[float, float, float]:
        """Return the cutoff over σ, and energy and slope there in units of ε and σ."""
        sixth = self.cutoff**-6
        slope = -24.0 * sixth * (2.0 * sixth - 1.0) / self.cutoff if self.shift == "force" else 0.0
        return self.cutoff, 4.0 * sixth * (sixth - 1.0), slope


@dataclass(frozen=True)
class WCA(Pair):
    """The repulsive part of `LennardJones`, cut at its minimum 2^(1/6) σ and raised by ε.

    (Weeks, Chandler & Andersen 1971.)  Parameters are those of `LennardJones`.
    """

    epsilon: float | tuple[float, ...] = 1.0
    sigma: float | tuple[float, ...] = 1.0
    exclude: int = 1
    skin: float = 0.8

    def cut(self) -> tuple[float, float, float]:
        """Return the cutoff over σ, and energy and slope there in units of ε and σ."""
        return 2.0 ** (1 / 6), -1.0, 0.0


# --- from outside ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gravity(_Term):
    """One acceleration g of all beads: U = −Σ m_k g·x_k."""

    acceleration: tuple[float, ...]

    def __post_init__(self) -> None:
        self._set(acceleration=_vector(self.acceleration, "acceleration"))

    def _tabulate(self, tables: Assembly) -> None:
        g = tables.vector(self.acceleration, "acceleration")
        tables.field += tables.chain.masses[:, None] * g


@dataclass(frozen=True)
class Tension(_Term):
    """A constant force f that pulls two ends apart: U = −f·(x_last − x_first).

    By default the ends are those of a linear chain, or the base point and the last bead.  Branched
    chains need ``ends``, (first, last).
    """

    INVARIANT = True

    force: tuple[float, ...]
    ends: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self._set(force=_vector(self.force, "force"))
        if self.ends is not None:
            (ends,) = bead_rows([self.ends], 2, "pair of ends") or ()
            self._set(ends=ends)

    def _tabulate(self, tables: Assembly) -> None:
        f, chain = tables.vector(self.force, "force"), tables.chain
        if self.ends is None and not chain.layout.has_ends:
            raise ValueError("a chain that is not linear has no two ends: name them, ends=(i, j)")
        fixed = chain.base == "fixed"
        first, last = self.ends or (-1 if fixed else 0, chain.n - 1)
        binding.require_beads(chain, [(first, last)], "tension")
        if first == last:
            raise ValueError("tension needs two different ends; the chain has one bead")
        for bead, pull in ((first, -f), (last, f)):
            if bead >= 0:
                tables.field[bead] += pull


@dataclass(frozen=True)
class Tether(_Term):
    """Springs to points in space: U = ½ k |x_bead − point|².

    ``beads``, ``stiffness``: one number or (tethers,); ``points``: (dim,) or (tethers, dim).
    """

    beads: int | tuple[int, ...]
    points: tuple[tuple[float, ...], ...]
    stiffness: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        listed = np.atleast_1d(arrays.taken(self.beads, "beads")).tolist()
        rows = bead_rows([(bead,) for bead in listed], 1, "tether") or ()
        points = arrays.real(self.points, (), "points")
        if points.ndim not in (1, 2) or points.shape[:-1] not in ((), (1,), (len(rows),)):
            said = "points must have shape (dim,) or (tethers, dim)"
            raise ValueError(f"{said}, got {points.shape} for {len(rows)} tethers")
        points = np.broadcast_to(points, (len(rows), points.shape[-1]))
        arrays.require_finite(points, points.shape, "points", "tether")
        self._set(
            beads=tuple(row[0] for row in rows),
            points=tuple(map(tuple, points.tolist())),
            stiffness=_numbers(self.stiffness, "stiffness"),
        )

    def _tabulate(self, tables: Assembly) -> None:
        if not self.beads:
            return
        beads, points = np.array(self.beads), np.array(self.points)
        binding.require_beads(tables.chain, beads[:, None], "tether")
        if beads.min() < 0:
            raise ValueError("tether names beads from 0 on: the base point cannot move")
        tables.vector(points[0], "a point")
        rows = np.zeros((beads.size, 4))
        rows[:, : points.shape[1]] = points
        rows[:, 3] = arrays.one_or_each(self.stiffness, beads.size, "stiffness")
        tables.tethers.append((beads + GHOSTS, rows))


# --- sums and one's own ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum(_Term):
    """Several potentials at once; `+` makes it."""

    terms: tuple[Any, ...]

    def __post_init__(self) -> None:
        for term in arrays.list_of(self.terms, "terms", "potentials"):
            binding.require_potential(term, forces=False, none=False)
        terms = terms_of(self)
        springs = any(isinstance(term, FENE) and term.beads is None for term in terms)
        if springs and any(isinstance(term, WCA) and term.exclude for term in terms):
            said = "FENE pulls bonded beads together, and WCA excludes them: take WCA(exclude=0)"
            warnings.warn(said, RuntimeWarning, stacklevel=4)

    def parameters(self) -> dict[str, Any]:
        """Return descriptions of all terms."""
        return {"name": "Sum", "terms": [described(term) for term in self.terms]}

    def _tabulate(self, tables: Assembly) -> None:
        for term in self.terms:
            tables.add(term)


@dataclass(frozen=True)
class Compiled(_Term):
    """A potential of your own, compiled by numba: steppers call it without Python.

    Parameters
    ----------
    force : function (x, out)
        Decorated by ``numba.njit``; writes the forces into ``out`` from positions ``x``, both
        C-contiguous float64 arrays (n, dim) of one chain.  An error in the function is a
        RuntimeError that names the function.
    energy : function of x, optional
        The energy of one chain; compiled or not.
    """

    force: Any
    energy: Any = None

    def __post_init__(self) -> None:
        if not callable(self.force):
            raise TypeError(f"force must be compiled by numba.njit, got {self.force!r:.80}")

    def parameters(self) -> dict[str, Any]:
        """Return the name of the function; JSON cannot hold the rest."""
        function = getattr(self.force, "py_func", self.force)
        return {"name": f"{function.__module__}.{function.__qualname__}", "own": True}

    def _tabulate(self, tables: Assembly) -> None:
        tables.call(tables.compiled("force", self.force), self.energy)


def from_parameters(description: dict[str, Any]) -> Any:
    """Make a potential from what its ``parameters()`` returned; ValueError for a user's own."""
    if not isinstance(description, Mapping):
        raise TypeError(f"description must be a potential's parameters(), got {description!r:.80}")
    given = dict(description)
    name = given.pop("name", None)
    if given.get("own"):
        raise ValueError(f"the potential {name} is not built in: give it again")
    if name == "Sum":
        terms = arrays.list_of(given.get("terms"), "terms", "parameters() of potentials")
        return Sum(tuple(map(from_parameters, terms)))
    kind = globals().get(name) if name in __all__ else None
    if not (isinstance(kind, type) and issubclass(kind, _Term)):
        raise ValueError(f"no potential is called {name!r}")
    return kind(**given)


def invariant(potential: Any) -> bool:
    """Whether a potential is known to be the same wherever a free chain is."""
    terms = (type(term) for term in terms_of(potential) if term is not None)
    return all(getattr(kind, "INVARIANT", False) for kind in terms)


def terms_of(potential: Any) -> tuple[Any, ...]:
    """Return the terms of a sum, of sums in it too, or the potential alone."""
    if not isinstance(potential, Sum):
        return (potential,)
    return tuple(term for one in potential.terms for term in terms_of(one))


def described(potential: Any) -> dict[str, Any]:
    if hasattr(potential, "parameters"):
        return dict(potential.parameters())
    return {"name": f"{type(potential).__module__}.{type(potential).__qualname__}", "own": True}


def _numbers(value: Any, name: str, positive: bool = False) -> float | tuple[float, ...]:
    """Return one finite number or a tuple of them."""
    array = arrays.real(value, (), name)
    if array.ndim > 1:
        raise ValueError(f"{name} must be a number or a list of numbers, got {array.shape}")
    arrays.require_finite(np.atleast_1d(array), (array.size,), name, "place")
    if positive and not np.all(array > 0.0):
        raise ValueError(f"{name} must be positive, got {value!r:.80}")
    return tuple(array.tolist()) if array.ndim else float(array)


def _vector(value: Any, name: str) -> tuple[float, ...]:
    numbers = _numbers(value, name)
    if isinstance(numbers, float) or len(numbers) not in (2, 3):
        raise ValueError(f"{name} must be a vector of 2 or 3 components, got {value!r:.80}")
    return numbers
