"""Energies and forces of chain models, for one chain or for eight in lanes.

Kernels are generic over ``like``, a finite float or eight lanes, with one rounding (see `lanes`).
`PotentialTables` holds everything that does not depend on positions; what does is in a work array,
which an empty one becomes:

    work = add_forces(tables, X, F, first, memory(0, like), like)     # F += −∂U/∂x
    work = add_forces(tables, X, F, first, work, like)                # and so on

X and F are arrays of vectors (see `vectors`), the beads from ``first`` on.  The work begins with
vectors of the joints, which are three points of a base and the beads: positions, forces, positions
when the neighbour lists were made; then one whose first component is the energy U, without that of
external functions, for which `potential_energy` asks and which it leaves in the second.  Behind are
positions and forces of one chain, and the lists (see `neighbours`).  A configuration without an
answer, coincident beads for example, leaves values that are not finite.
"""

from __future__ import annotations

import math
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from fixman.kernels.algebra.vectors import Axes, plus, put_vector, vector
from fixman.kernels.compiler import addresses, internals
from fixman.kernels.compiler import lanes as lane
from fixman.kernels.compiler.internals import WHOLE, carray, ir, numba, types, written
from fixman.kernels.compiler.lanes import exact_call, exact_kernel, load, store
from fixman.kernels.compiler.steps import exact_step
from fixman.kernels.potentials.bonded import Terms, add_bends, add_stretches, add_torsions
from fixman.kernels.potentials.nonbonded import Pairs, add_pairs, lane_vector, put_lane_vector

GHOSTS = 3  # see `coordinates`


class Tethers(namedtuple("Tethers", "joints springs")):
    """Springs: the joints on them, (K,); the points that these lead to, and stiffness, (K · 4,)."""


class PotentialTables(NamedTuple):
    """A potential as the kernels read it, compiled without what is None.

    joints : how many, beads and `GHOSTS`
    units : of work to begin with
    field (n · d,) : constant forces
    external (2 E,) : addresses of functions (double* x, double* out, int64 n, int64 d, double*
        record) of one chain, and those of their records
    energies (2 E,) : the same of functions that write their energy; for samplers only
    """

    joints: int
    axes: Axes
    units: int
    field: np.ndarray[Any, np.dtype[np.float64]]
    stretches: Terms | None
    bends: Terms | None
    torsions: Terms | None
    tethers: Tethers | None
    pairs: Pairs | None
    external: np.ndarray[Any, np.dtype[np.int64]] | None
    energies: np.ndarray[Any, np.dtype[np.int64]] | None


# --- functions of the user's ----------------------------------------------------------------------


@written(
    lambda address, record, x, first, n, dim: types.void(
        types.int64, types.int64, x, types.int64, types.int64, types.int64
    )
)
def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call the function at an address: n positions in, vectors of x from ``first`` on; forces out.

    The forces are the next n vectors.
    """
    at, record, x, first, n, dim = args
    pointer = ir.DoubleType().as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, WHOLE, WHOLE, pointer])
    array = context.make_array(sig.args[2])(context, builder, x)
    start, size = builder.mul(first, dim), builder.mul(n, dim)
    internals.check(context, builder, start, builder.add(size, size), array.nitems)
    data = builder.gep(array.data, [start])
    given = [data, builder.gep(data, [size]), n, dim, builder.inttoptr(record, pointer)]
    builder.call(builder.inttoptr(at, kind.as_pointer()), given)
    return context.get_dummy_value()


def compiled_address(given: Any, what: str = "force") -> int:
    """Return the address of a ``force(x, out)``, for `call`; it lives as long as the function.

    With ``what="energy"`` it is an ``energy(x)`` that may be infinite, a wall.  No exception can
    pass through compiled code: where there is one, or where finite positions give numbers that are
    not finite, these are NaN and the record (1 + n d,) holds a 1 and the positions first met.  It
    is compiled once in a process.
    """
    if not isinstance(given, internals.Dispatcher):
        raise TypeError(
            f"{what} must be compiled by numba.njit, got {type(given).__name__}: an object with "
            "energy(x) and force(x) in plain Python is a potential without Compiled"
        )
    kept = vars(given).setdefault("_fixman", {})
    if what in kept:
        return kept[what].address  # type: ignore[no-any-return]
    called = given.py_func.__name__
    name = f"the compiled {what} {called}"
    wall = what == "energy"

    @numba.njit
    def put_energy(x: Any, out: Any) -> None:
        out[0, 0] = given(x)

    fill = put_energy if wall else given

    def function(x: Any, out: Any, n: Any, dim: Any, record: Any) -> None:
        known = carray(record, 1 + n * dim)
        X, F = carray(x, n * dim), carray(out, n * dim)
        for m in range(n * dim):
            F[m] = 0.0
        raised = False
        try:
            fill(carray(x, (n, dim)), carray(out, (n, dim)))
        except Exception:
            raised = True
        fine = True
        for m in range(n * dim):
            fine &= math.isfinite(F[m]) or (wall and F[m] > 0.0)
        if raised or not fine:
            usual = True
            for m in range(n * dim):
                usual &= math.isfinite(X[m])
                F[m] = math.nan
            if known[0] == 0.0 and (raised or usual):
                known[0] = 1.0
                known[1:] = X

    double = types.CPointer(types.float64)
    signature = types.void(double, double, types.int64, types.int64, double)
    try:
        compiled: Any = numba.cfunc(signature)(function)
    except numba.core.errors.NumbaError:
        example = "x, np.empty_like(x)" if what == "force" else "x"
        kinds = "x and out, two float64 arrays" if what == "force" else "x, a float64 array"
        raise TypeError(
            f"numba cannot compile {name} for {kinds} (n, dim): {called}({example}) says why"
        ) from None
    if not wall and any(made.return_type != types.none for made in given.nopython_signatures):
        raise TypeError(
            f"{name} returns a value, which nobody reads: it must write the forces into its second "
            "argument, out[:] = …, and return nothing"
        )
    kept[what] = compiled
    return compiled.address  # type: ignore[no-any-return]


def given(kernel: Any) -> Any:
    """Return a kernel of a table as one that may be given None, and then is not compiled."""

    @internals.intrinsic
    def add(typing: Any, table: Any, work: Any, joints: Any, axes: Any, like: Any) -> Any:
        kinds = table, work, joints, axes, like
        called = None
        if table != types.none:
            called = types.Dispatcher(kernel)
            called.get_call_type(typing, kinds, {})  # compiles it

        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            if called is None:
                return internals.impl_ret_borrowed(context, builder, work, args[1])
            return context.get_function(called, sig)(builder, args)

        return work(*kinds), lower

    return add


@exact_call
def add_tethers(tethers, work, joints, axes, like):
    dim = len(axes)
    total = load(work, 3 * joints * dim, like)
    for t in range(tethers.joints.size):
        k = tethers.springs[4 * t + 3]
        for a in range(dim):
            m = tethers.joints[t] * dim + a
            away = load(work, m, like) - tethers.springs[4 * t + a]
            total = total + 0.5 * k * away * away
            store(work, joints * dim + m, load(work, joints * dim + m, like) - k * away)
    store(work, 3 * joints * dim, total)
    return work


@exact_call
def add_external(external, work, joints, axes, like):
    n = joints - GHOSTS
    width = lane.lanes(like)
    chain = (3 * joints + 1) * width
    for which in range(width):
        for e in range(0, external.size, 2):
            for k in range(n):  # again, whatever the one before has done to it
                x = lane_vector(work, GHOSTS + k, which, width, axes)
                put_vector(work, chain + k, axes, x)
                # stays if Ctrl-C gets in before the function
                put_vector(work, chain + n + k, axes, (math.nan, math.nan, math.nan))
            call(external[e], external[e + 1], work, chain, n, len(axes))
            for k in range(n):
                at = joints + GHOSTS + k
                f = vector(work, chain + n + k, axes, 0.0)
                f = plus(lane_vector(work, at, which, width, axes), f)
                put_lane_vector(work, at, which, width, axes, f)
    return work


@exact_call
def put_energies(energies, work, joints, axes, like):
    """Leave the energies of external functions beside the energy of the others."""
    n = joints - GHOSTS
    width = lane.lanes(like)
    chain = (3 * joints + 1) * width
    for which in range(width):
        total = 0.0
        for e in range(0, energies.size, 2):
            for k in range(n):
                x = lane_vector(work, GHOSTS + k, which, width, axes)
                put_vector(work, chain + k, axes, x)
            put_vector(work, chain + n, axes, (math.nan, math.nan, math.nan))
            call(energies[e], energies[e + 1], work, chain, n, len(axes))
            total += vector(work, chain + n, axes, 0.0)[0]
        work[(3 * joints * len(axes) + 1) * width + which] = total
    return work


stretches, bends, torsions, tethers, pairs, external, energies_of = map(
    given,
    (add_stretches, add_bends, add_torsions, add_tethers, add_pairs, add_external, put_energies),
)


@exact_step
def begin(work, total, field, X, places, axes, like):
    """Put bead k into the work, with its constant force; return the energy up to it.

    ``places`` are that of the bead in X, k, and how many joints there are.
    """
    at, k, joints = places
    x = vector(X, at, axes, like)
    put_vector(work, GHOSTS + k, axes, x)
    for a in range(len(axes)):
        f = field[k * len(axes) + a]
        total = total - f * x[a]
        store(work, (joints + GHOSTS + k) * len(axes) + a, f + 0.0 * like)
    return total


@exact_call
def add_forces(tables, X, F, first, work, like):
    """F += −∂U/∂x; return the work for the next call."""
    joints, axes = tables.joints, tables.axes
    dim = len(axes)
    if work.size == 0:
        work = lane.memory(tables.units, like)
        for m in (0, 1, dim):  # the points x₋₂ and x₋₁; x₀ is 0
            store(work, m, 0.0 * like - 1.0)
    total = 0.0 * like
    for k in range(joints - GHOSTS):
        total = begin(work, total, tables.field, X, (first + k, k, joints), axes, like)
    store(work, 3 * joints * dim, total)
    work = stretches(tables.stretches, work, joints, axes, like)
    work = bends(tables.bends, work, joints, axes, like)
    work = torsions(tables.torsions, work, joints, axes, like)
    work = tethers(tables.tethers, work, joints, axes, like)
    work = pairs(tables.pairs, work, joints, axes, like)
    work = external(tables.external, work, joints, axes, like)
    for k in range(joints - GHOSTS):
        f = vector(work, joints + GHOSTS + k, axes, like)
        put_vector(F, first + k, axes, plus(vector(F, first + k, axes, like), f))
    return work


@exact_call
def potential_energy(tables, X, F, first, work, like):
    """Return U, external functions included if their energies are in the tables.

    The positions are those that `add_forces` has seen last; the work is the one that it returned.
    """
    joints, axes = tables.joints, tables.axes
    at = 3 * joints * len(axes)
    work = energies_of(tables.energies, work, joints, axes, like)
    return load(work, at, like) + load(work, at + 1, like)


class Potential(NamedTuple):
    """A potential as kernels call it, see `addresses`, for one thread.

    forces, energy : addresses of `add_forces` and `potential_energy`, 0 for none
    """

    forces: int
    energy: int
    words: np.ndarray[Any, np.dtype[np.int64]]
    frame: np.ndarray[Any, np.dtype[np.int64]]


forces_at = addresses.address_of(add_forces, False)
energy_at = addresses.address_of(potential_energy, True)


@exact_kernel
def enter(tables, words, states):
    """Write the tables down, and return where the functions of a potential are."""
    like = lane.zeros(states)
    addresses.keep(words, tables)
    return forces_at(tables, like), energy_at(tables, like)


def potential(tables: PotentialTables | None, states: tuple[int, ...]) -> Potential:
    """Return a potential for chains one by one or in lanes; the tables must outlive it."""
    words, frame = np.zeros((2, addresses.WORDS), np.int64)
    to_forces, to_energy = (0, 0) if tables is None else enter(tables, words, states)
    return Potential(to_forces, to_energy, words, frame)


@exact_kernel
def frames(x, potential, size, out, energies, states):
    """Forces of configurations of ``size`` numbers, or ``energies``; the first without, or −1.

    One by one or, where there are eight, in lanes (`states`).
    """
    like = lane.zeros(states)
    width, wrong, found = lane.lanes(like), -1, 1 if energies else size
    to_forces, to_energy, words, frame = potential
    X = lane.memory(size, like)
    F = lane.memory(size, like)
    for begin in range(0, x.size // size, width):
        first = min(begin, x.size // size - width)  # the last eight reach back
        check = like * 0.0
        for m in range(size):
            value = lane.take(x, first * size + m, size, like)
            store(X, m, value)
            store(F, m, like * 0.0)
            check = check + 0.0 * value
        addresses.call(to_forces, words, frame, X, F, 0, like)
        if energies:
            store(F, 0, addresses.call(to_energy, words, frame, X, F, 0, like))
        for m in range(found):
            value = load(F, m, like)
            lane.put(out, first * found + m, found, value)
            check = check + 0.0 * value
        for k in range(width):
            if wrong < 0 and lane.lane(check, k) != 0.0:
                wrong = first + k
        if wrong >= 0:
            break
    addresses.release(frame)
    return wrong
