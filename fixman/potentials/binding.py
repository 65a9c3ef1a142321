"""Potentials on a chain: tables for compiled code, energies and forces, and what went wrong."""

from __future__ import annotations

import ctypes
import math
import operator
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree

from fixman._common import arrays
from fixman._common.arrays import Array, overflow
from fixman.chains import topology
from fixman.chains.chain import Chain, bonds, closures, require_chain
from fixman.chains.coordinates import GHOSTS, Index, Rows
from fixman.chains.straight_bends import Lines
from fixman.chains.system import wrapped
from fixman.errors import FrameError, SingularCoordinateError
from fixman.kernels.algebra.vectors import SPACE
from fixman.kernels.chain.rows import ANGLE, KINDS, LENGTH
from fixman.kernels.chain.rows import TORSION as TORSION_ROW
from fixman.kernels.compiler.lanes import EIGHTS, LANES, ONE
from fixman.kernels.potentials import forces
from fixman.kernels.potentials.bonded import COMBINED, HARMONIC, TILTED, Terms
from fixman.kernels.potentials.forces import PotentialTables, Tethers
from fixman.kernels.potentials.nonbonded import STEPS, Pairs

GAS_CONSTANT = 0.00831446261815324  # kJ/(mol K)
MOST_KT = 50.0  # kJ/mol, 6000 K
NEAR = 16  # beads among which one that coincides is looked for

Beads = tuple[tuple[int, ...], ...]
Address = tuple[int, int]  # of a function, and of the record of what it meets


def require_potential(potential: Any, forces: bool = True, none: bool = True) -> None:
    """Refuse a class, which wants its arguments, and what lacks an energy or a force asked for."""
    names = ("energy", "force") if forces else ("energy",)
    wanted = " and ".join(f"{name}(x)" for name in names)
    text = f"potential must be one of fixman.potentials, or an object with {wanted}"
    if isinstance(potential, type):
        name = potential.__name__
        raise TypeError(f"{text}, got the class {name}: make one, {name}(…)")
    own = all(callable(getattr(potential, name, None)) for name in names)
    if not ((none and potential is None) or own or hasattr(potential, "_tabulate")):
        raise TypeError(f"{text}, got {potential!r:.80}")


def in_openmm_units(parameters: Any) -> bool:
    """Whether a potential with these parameters is an OpenMM System's: nm, ps, Da, kJ/mol."""
    return isinstance(parameters, dict) and {"system", "platform"} <= parameters.keys()


def warn_of_temperature(potential: Any, kT: Any) -> None:
    """Warn where kT with forces of OpenMM looks like the default, or like kelvin."""
    if kT is None or not (kT == 1.0 or kT > MOST_KT) or not hasattr(potential, "parameters"):
        return
    if in_openmm_units(potential.parameters()):
        said = f"kT = {kT:g} kJ/mol is {kT / GAS_CONSTANT:.0f} K: kT=fixman.io.openmm.kT(T) is in "
        warnings.warn(f"{said}kJ/mol, as OpenMM's energies are", RuntimeWarning, stacklevel=3)


class Bound:
    """A potential on a chain, which gives energies and forces.

    ``energies``: compiled code needs the energies of user potentials, as samplers do.  Without
    ``forces``, user potentials need no forces.  ValueError for a potential that names beads or
    angles that the chain does not have, or that lacks a needed energy.

    Compiled steppers read ``tables``, with addresses of functions that live as long as this object.
    """

    def __init__(
        self, chain: Chain, potential: Any, energies: bool = False, forces: bool = True
    ) -> None:
        require_chain(chain)
        self.chain, self.potential = chain, potential
        self._parts = Assembly(chain, energies, forces)
        if potential is not None:
            self._parts.add(potential)
        self.tables: PotentialTables = self._parts.tables()

    def energy(self, x: ArrayLike) -> Array:
        """Return the energies (...) of configurations (..., n, dim), in O(n) a frame.

        SingularCoordinateError where no energy is defined: beads coincide, or a bend of a torsion
        is straight.  ValueError for a `Compiled` potential without an energy.
        """
        x = arrays.real(x, (self.chain.n, self.chain.dim), "x")
        out = self._frames(x, np.empty(x.shape[:-2]), "energy")
        flat = out.reshape(-1)
        for energy in self._parts.energies:
            for frame, one in enumerate(x.reshape(-1, *x.shape[-2:])):
                flat[frame] += own_energy(energy, one)
        answer: Array = out[()]
        return answer

    def force(self, x: ArrayLike) -> Array:
        """Return the forces −∂U/∂x (..., n, dim) in configurations (..., n, dim).

        Errors are those of `energy`, also for a bend whose force has no direction.
        """
        x = arrays.real(x, (self.chain.n, self.chain.dim), "x")
        return self._frames(x, np.empty(x.shape), "forces")

    def check(self, x: ArrayLike | None = None) -> None:
        """Raise what a potential of the user's own raised when a stepper called it.

        With a configuration x (n, dim), raise also if there is no force in it.
        """
        if self._parts.failures:
            first, *_ = self._parts.failures
            self._parts.failures.clear()  # other threads may have met the same
            raise first
        for what, function, record in self._parts.watched:
            kind, seen = record[0], record[1:].reshape(self.chain.n, self.chain.dim).copy()
            record[0] = 0.0
            if kind:
                raise compiled_failure(what, function, seen)
        if x is not None:
            self.force(x)

    def _frames(self, x: Array, out: Array, what: str) -> Array:
        tables, energies = self.tables._replace(energies=None), what == "energy"
        if energies:
            tables = tables._replace(external=None)
        step = self.chain.n * self.chain.dim
        # The last eight frames may reach back, but functions of the user's are called once.
        states = EIGHTS if x.size >= LANES * step and tables.external is None else ONE
        potential = forces.potential(tables, states)
        bad = forces.frames(x.reshape(-1), potential, step, out.reshape(-1), energies, states)
        if bad >= 0:
            raise self._failed(x, int(bad), what)
        return out

    def _failed(self, x: Array, frame: int, what: str) -> ValueError:
        self.check()
        arrays.require_finite(x, (self.chain.n, self.chain.dim), "x")
        self._refuse_terms(x, frame)
        pairs = self.tables.pairs
        if pairs is not None:
            one = x.reshape(-1, self.chain.n, self.chain.dim)[frame]
            where, radius = arrays.frame_index(frame, x.shape[:-2]), float(pairs.sizes.min())
            excluded = pairs.excluded_first, pairs.excluded
            refuse_overlap(one, radius, excluded, "bead {}".format, frame=where)
        return overflow(what, frame, x.shape[:-2])

    def _refuse_terms(self, x: Array, frame: int) -> None:
        one = x.reshape(-1, self.chain.n, self.chain.dim)[frame].copy()
        if self.tables.stretches is not None:
            table = self.tables.stretches.table.reshape(-1, 4)
            rows = _rows(self.chain, LENGTH, table[:, 2:])
            lengths = rows.values(one)[0][0]
            most = self.tables.stretches.parameters[table[:, 1] + 1]
            for term in np.flatnonzero(lengths * lengths >= most).tolist():
                text = f"{rows[term]} = {lengths[term]:.4g} is beyond the reach of FENE, "
                text += f"{math.sqrt(most[term]):.4g}: start with shorter bonds, or make dt smaller"
                where = arrays.frame_index(frame, x.shape[:-2])
                raise SingularCoordinateError(text, frame=where, beads=rows[term].beads)
        for kind, terms in ((ANGLE, self.tables.bends), (TORSION_ROW, self.tables.torsions)):
            if terms is None:
                continue
            table = terms.table.reshape(-1, 2 + KINDS[kind].beads)
            kinds, rows = table[:, 0], _rows(self.chain, kind, table[:, 2:])
            rows.refuse_lengths(x, frame, SingularCoordinateError)
            if kind == TORSION_ROW:
                kinked, remedy = kinds != COMBINED, "BendingTorsion is regular there"
            else:
                folded = rows.values(one)[0][0] > 1.0
                bent = terms.parameters[table[:, 1] + 1] != 0.0
                kinked = (kinds == TILTED) | ((kinds == HARMONIC) & (bent | folded))
                remedy = "the force has no direction"
            for term in np.flatnonzero(kinked & ~rows.gradients(one)[1]).tolist():
                text = f"{rows[term]} has three beads in line: {remedy}"
                where = arrays.frame_index(frame, x.shape[:-2])
                raise SingularCoordinateError(text, frame=where, beads=rows[term].beads)


bind = Bound


def refuse_overlap(
    x: Array, radius: float, excluded: Any, name: Any, box: Array | None = None, frame: Any = None
) -> None:
    """Name the two beads that are nearest to each other, where forces of a pair term overflow.

    ``excluded`` are the rows of `topology.near`, perhaps both ways.
    """
    points, (first, others) = x if box is None else wrapped(x, box), excluded
    most = min(len(x), NEAR)
    tree = cKDTree(points, boxsize=box)
    distances, near = map(np.asarray, tree.query(points, np.arange(1, most + 1)))
    close = np.argwhere(distances < 1e-3 * radius).tolist()
    found = [(float(distances[i, k]), i, int(near[i, k])) for i, k in close if i < near[i, k]]
    for distance, i, j in sorted(found):
        if j not in others[first[i] : first[i + 1]]:
            apart = f"are {distance:.3g} apart: their repulsion overflows"
            text = f"{name(i)} and {name(j)} {apart if distance else 'coincide'}"
            raise SingularCoordinateError(text, frame=frame, beads=(i, j))


class Assembly:
    """The tables of a chain in the making."""

    def __init__(self, chain: Chain, sampled: bool, forced: bool) -> None:
        self.chain = chain
        self.forced = forced  # forces of one's own potentials are called
        self.sampled = sampled  # energies are called by compiled code
        # By number of beads.
        self.terms: dict[int, list[tuple[Index, Array]]] = {2: [], 3: [], 4: []}
        self.field = np.zeros((chain.n, chain.dim))  # constant forces
        self.tethers: list[tuple[Index, Array]] = []
        self.pair: Pairs | None = None
        self.addresses: list[int] = []
        self.energies: list[Any] = []
        self.energy_addresses: list[int] = []
        self.failures: list[BaseException] = []
        self.watched: list[tuple[str, Any, Array]] = []
        self.alive: list[Any] = []

    def add(self, term: Any) -> None:
        """Add a potential of any kind."""
        if hasattr(term, "_tabulate"):
            term._tabulate(self)
            return
        require_potential(term, self.forced)

        def force(x: Array) -> Array:
            found = own_force(term, x)
            arrays.require_finite(found, x.shape, "force(x)")
            return found

        self.call(self._python(force), term.energy)

    def bonded(self, kind: Any, terms: Rows, rows: Array) -> None:
        """Add bonds, angles or torsions with a kind and a row of parameters each, or one row."""
        if not len(terms):
            return
        size = KINDS[terms.kinds[0]].beads
        blocks = self.terms[size]
        start = sum(parameters.size for _, parameters in blocks)
        step = 0 if (rows == rows[:1]).all() else rows.shape[1]
        table = np.empty((len(terms), 2 + size), dtype=np.int64)
        table[:, 0], table[:, 1] = kind, start + step * np.arange(len(terms))
        table[:, 2:] = terms.beads[:, :size]
        blocks.append((table, rows if step else rows[:1]))

    def pairs(self, term: Any, cutoff: float, energy: float, slope: float) -> None:
        """Set the interaction of beads that are not bonded, a `WCA` or `LennardJones`.

        The cutoff is over σ; the energy and its slope there in units of ε and σ.
        """
        if self.pair:
            raise ValueError("only one pair potential, WCA or LennardJones, can be in a sum")
        n = self.chain.n
        sigma = arrays.one_or_each(term.sigma, n, "sigma")
        depths = np.sqrt(arrays.one_or_each(term.epsilon, n, "epsilon"))
        skin = term.skin * float(sigma.max())
        reach = cutoff * float(sigma.max()) + skin
        beside = np.meshgrid(*[[-step, 0, step] for step in STEPS[: self.chain.dim]])
        self.pair = Pairs(
            0.5 * sigma,
            depths,
            np.array([cutoff**2, energy, slope, reach, skin]),
            np.sum(beside, axis=0).ravel(),
            1 << (n - 1).bit_length(),
            *topology.near(n, bonds(self.chain), term.exclude),
        )

    def call(self, address: Address, energy: Any) -> None:
        """Add a function at an address, and the energy that belongs to it."""
        self.addresses += address
        self.energies.append(energy)
        if self.sampled:
            _require_energy(energy)
            if hasattr(energy, "py_func"):
                self.energy_addresses += self.compiled("energy", energy)
            else:
                self.energy_addresses += self._python(lambda x: own_energy(energy, x, True))

    def compiled(self, what: str, function: Any) -> Address:
        """Watch a compiled function for what it raises and for NaN; return its address."""
        record = np.zeros(1 + self.chain.n * self.chain.dim)
        address = forces.compiled_address(function, what)
        self.watched.append((what, function, record))
        return address, record.ctypes.data

    def _python(self, function: Any) -> Address:
        shape = self.chain.n, self.chain.dim
        block = ctypes.c_double * (shape[0] * shape[1])

        def array(address: int) -> Array:
            memory: Any = block.from_address(address)
            return np.frombuffer(memory).reshape(shape)

        def called(x: int, out: int, n: int, dim: int, record: int) -> None:
            answer = array(out)
            try:
                # A copy, since the memory is not theirs to keep.
                answer[:] = function(array(x).copy())
            except BaseException as error:  # none can pass through compiled code, Ctrl-C neither
                self.failures.append(error)
                answer[:] = np.nan

        pointer, whole = ctypes.c_void_p, ctypes.c_int64
        kind = ctypes.CFUNCTYPE(None, pointer, pointer, whole, whole, pointer)
        callback = kind(called)
        self.alive.append(callback)
        return ctypes.cast(callback, ctypes.c_void_p).value or 0, 0

    def vector(self, value: Any, name: str) -> Array:
        """Return a vector of the chain's dimension."""
        array = np.array(value)
        if array.shape != (self.chain.dim,):
            raise ValueError(f"{name} must have {self.chain.dim} components, got {array.size}")
        return array

    def tables(self) -> PotentialTables:
        """Return what the kernels read."""
        n, dim = self.chain.n, self.chain.dim
        # For one chain: vectors of joints, one of a bead, and room for 16 neighbours of each.
        units = (3 * (n + GHOSTS) + 1 + 2 * n) * dim + (11 * n if self.pair else 0)
        return PotentialTables(
            joints=n + GHOSTS,
            axes=SPACE[:dim],
            units=units,
            field=self.field.ravel(),
            stretches=_joined(Terms, self.terms[2]),
            bends=_joined(Terms, self.terms[3]),
            torsions=_joined(Terms, self.terms[4]),
            tethers=_joined(Tethers, self.tethers),
            pairs=self.pair,
            external=np.array(self.addresses, np.int64) if self.addresses else None,
            energies=np.array(self.energy_addresses, np.int64) if self.energy_addresses else None,
        )


def _joined(kind: Any, blocks: list[tuple[Index, Array]]) -> Any:
    """Return tables of the kind from blocks of them; None: there are no terms."""
    if not blocks:
        return None
    return kind(*(np.concatenate([b.ravel() for b in part]) for part in zip(*blocks, strict=True)))


def bead_rows(beads: Any, size: int, name: str) -> Beads | None:
    """Read terms that are named by their beads or as `Coordinate`s."""
    if beads is None:
        return None
    rows = []
    for item in arrays.list_of(beads, "beads", f"{name}s, each by its beads"):
        try:
            named: Any = getattr(item, "beads", item)
            row = () if isinstance(named, set) else tuple(map(operator.index, named))
        except TypeError:
            row = ()
        if len(row) != size or len(set(row)) != size:
            numbers = "a bead number" if size == 1 else f"{size} different bead numbers"
            article = "an" if name[0] in "aeiou" else "a"
            raise ValueError(f"beads: {article} {name} is {numbers}, got {item!r:.80}")
        rows.append(row)
    return tuple(rows)


def own_force(term: Any, x: Array) -> Array:
    """Return the force of a potential of one's own, of the shape of x."""
    found = arrays.real(term.force(x), x.shape, "force(x)")
    if found.shape != x.shape:
        raise ValueError(f"force(x) must have shape {x.shape}, got {found.shape}")
    return found


def own_energy(energy: Any, x: Array, walls: bool = False) -> float:
    """Return an energy of one's own as a float; of a stepper it may be infinite, in ``walls``."""
    _require_energy(energy)
    name = _named("energy", energy)
    found = called("energy", energy, x.copy()) if walls else energy(x.copy())
    array = arrays.taken(found, "energy(x)", "one real number")
    if array.ndim or array.dtype.kind not in "biuf":
        raise TypeError(f"{name} returned {found!r:.80}: one real number is expected")
    value = float(array)
    if not value > -np.inf:
        raise ValueError(f"{name} returned {value}: it must be a finite number, or inf in a wall")
    if value == np.inf and not walls:
        raise ValueError(f"{name} returned inf: it must be finite; x is in a wall, start outside")
    return value


def _require_energy(energy: Any) -> None:
    if energy is None:
        raise ValueError("this potential has no energy: give Compiled one, energy=…")


def _named(what: str, function: Any) -> str:
    compiled = hasattr(function, "py_func")
    return f"the compiled {what} {function.__name__}" if compiled else f"{what}(x)"


def called(what: str, function: Any, *given: Array) -> Any:
    """Call a function; what one raises that numba has compiled is a RuntimeError that names it."""
    try:
        return function(*given)
    except Exception as error:
        if not hasattr(function, "py_func"):
            raise
        text = f"{_named(what, function)} raised {type(error).__name__}: {error}"
        raise RuntimeError(text) from error


def compiled_failure(what: str, function: Any, x: Array) -> Exception:
    """Return what is wrong with a compiled function in a configuration, by calling it again."""
    out = np.zeros_like(x)
    try:
        if what == "energy":
            own_energy(function, x, walls=True)
        else:
            called(what, function, x, out)
        arrays.require_finite(out, out.shape, "force(x)")
    except FrameError as error:
        return ValueError(f"{error}, in {_named(what, function)}")
    except Exception as error:
        return error
    return RuntimeError(f"{_named(what, function)} gave NaN, but not when called again")


def default_terms(chain: Chain, kind: int) -> Index:
    """Beads of all bonds, or of the angles or torsions of the chart and at closures.

    Bonds include that to the base point.  Angles and torsions touch no ghost.  The chart gives
    those that follow bonds; a closure the two angles that hard sets have there, and
    the torsions about the closure and about the bonds inwards from it.
    """
    if kind == LENGTH:
        held = [[(-1, 0)]] if chain.base == "fixed" else []
        return np.concatenate([*held, bonds(chain)])
    table, size = chain.layout.chart, KINDS[kind].beads
    parents = chain.references[:, 0]
    closing = closures(chain)
    beads = table.beads[table.kinds == kind, :size].astype(np.int64) - GHOSTS
    beads = beads[topology.along(beads, topology.bonds(parents, closing[:0]))]
    terms: list[tuple[int, ...]]
    if kind == ANGLE:
        # At the root the bond inwards leads to a child: turned round, so that a planar ring that
        # is numbered along the line has one sign throughout.
        ends = topology.closing_angles(parents, closing)
        terms = [row[::-1] if parents[row[0]] == row[1] else row for row in ends]
    else:
        terms = list(topology.closing_torsions(parents, closing, chain.layout.fixed))
    found = [term for term in terms if min(term) >= 0 and len(set(term)) == size]
    return np.concatenate([beads, np.array(found, dtype=np.int64).reshape(-1, size)])


def named_terms(chain: Chain, beads: Beads | None, kind: int, name: str) -> Rows:
    """Return the bonds, angles or torsions that are named, or else those of `default_terms`."""
    if kind == TORSION_ROW and chain.dim == 2:
        raise ValueError("there are no torsions in the plane: dim=2 has angles only")
    if beads is None:
        terms = default_terms(chain, kind)
        if chain.straight:  # where there is neither an angle to change nor a torsion
            lines = Lines(chain.straight)
            terms = terms[[not lines.spoil(tuple(term)) for term in terms.tolist()]]
    else:
        require_beads(chain, beads, name)
        terms = np.array(beads, dtype=np.int64).reshape(len(beads), KINDS[kind].beads)
    return _rows(chain, kind, terms + GHOSTS)


def _rows(chain: Chain, kind: int, points: Index) -> Rows:
    """Rows of one kind at points (rows, beads), which are numbers of beads after the ghosts."""
    beads = np.zeros((len(points), 4), dtype=np.int32)
    beads[:, : KINDS[kind].beads] = points
    columns = np.full_like(beads, -1)  # for derivatives only
    kinds = np.full(len(points), kind, dtype=np.int8)
    return Rows(chain.n, chain.dim, chain.base == "fixed", kinds, beads, columns)


def require_beads(chain: Chain, rows: ArrayLike, name: str) -> None:
    """Refuse beads that there are not; the points of a fixed base count."""
    lowest = -chain.dim if chain.base == "fixed" else 0
    table = np.asarray(rows)
    bad = np.flatnonzero(((table < lowest) | (table >= chain.n)).any(axis=1)) if table.size else ()
    for row in bad[:1]:
        beads = ", ".join(map(str, table[row].tolist()))
        said = f"names a bead that is not among {lowest} to {chain.n - 1}"
        raise ValueError(f"{name}({beads}) {said}")
