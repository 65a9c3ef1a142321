"""Energies and forces of chain models, for one chain or for eight in lanes.

Kernels are generic over ``like``, a finite float or eight lanes (see `lanes`): positions X and
forces F are flat arrays of units, component a of bead k in unit k·dim + a, and what they do has
the same rounding in either kind.  `PotentialTables` holds everything that does not depend on
positions; `workspace` makes what does.

    work, partners = workspace(tables, n, dim, like)
    partners = add_forces(X, F, n, dim, tables, work, partners, like)     # F += −∂U/∂x
    U, partners = energy(X, n, dim, tables, work, partners, like)

Neighbour lists are brought up to date by the calls, so take the ``partners`` that are returned.
A configuration without an answer, coincident beads for example, leaves values that are not finite.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.np.numpy_support import carray

from fixman.kernels.bonded import TORSION, WIDTH, add_bonded, bend, four_beads
from fixman.kernels.lanes import (
    exact,
    exact_kernel,
    intrinsic,
    lane,
    lanes,
    load,
    put,
    store,
    take,
    zeros,
)
from fixman.kernels.neighbours import Neighbours, no_lists, refresh
from fixman.kernels.nonbonded import Pairs, add_pair_forces, pair_energy


class PotentialTables(NamedTuple):
    """A potential as the kernels read it.

    kinds (T,), beads (T · 4,), types (T,) : bonded terms (see `bonded`) and the rows of
        ``parameters`` that they use; beads −1, −2, −3 are the points x₀, x₋₁, x₋₂ of a fixed base
    parameters (P · WIDTH,)
    field (n · d,) or (0,) : constant forces
    tethered (K,), tethers (K · 4,) : beads on springs; the points that these lead to, and stiffness
    pairs : see `nonbonded`, or None
    external (E,) : addresses of functions (double* x, double* out, int64 n, int64 d) of one chain
    """

    kinds: np.ndarray[Any, np.dtype[np.int8]]
    beads: np.ndarray[Any, np.dtype[np.int32]]
    types: np.ndarray[Any, np.dtype[np.int32]]
    parameters: np.ndarray[Any, np.dtype[np.float64]]
    field: np.ndarray[Any, np.dtype[np.float64]]
    tethered: np.ndarray[Any, np.dtype[np.int32]]
    tethers: np.ndarray[Any, np.dtype[np.float64]]
    pairs: Pairs | None
    external: np.ndarray[Any, np.dtype[np.int64]]


class Work(NamedTuple):
    """Neighbour lists but for the partners, and positions and forces of one chain."""

    lists: Neighbours
    copy: np.ndarray[Any, np.dtype[np.float64]]


# --- functions of the user's ----------------------------------------------------------------------


@intrinsic
def call(typing: Any, address: Any, x: Any, n: Any, dim: Any) -> Any:
    """Call the function at an address: positions ``x[: n d]`` in, forces ``x[n d : 2 n d]`` out."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at, x, n, dim = args
        pointer, whole = ir.DoubleType().as_pointer(), ir.IntType(64)
        kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, whole, whole])
        data = context.make_array(sig.args[1])(context, builder, x).data
        out = builder.gep(data, [builder.mul(n, dim)])
        builder.call(builder.inttoptr(at, kind.as_pointer()), [data, out, n, dim])
        return context.get_dummy_value()

    return types.void(types.int64, x, types.int64, types.int64), lower


@intrinsic
def pointer(typing: Any, address: Any) -> Any:
    """Return the address of a float64 as a pointer."""
    kind = types.CPointer(types.float64)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return kind(types.int64), lower


def compiled_address(force: Any, record: np.ndarray[Any, Any]) -> tuple[int, Any]:
    """Return the address of a compiled ``force(x, out)``, for `call`, and what keeps it alive.

    No exception can pass through compiled code.  Where ``force`` raises one, or forces of finite
    positions are not finite, the forces are NaN and ``record`` (1 + n d,) holds a 1 and the
    positions, unless it holds others.
    """
    if not isinstance(force, numba.core.dispatcher.Dispatcher):
        raise TypeError(
            f"force must be compiled by numba.njit, got {type(force).__name__}: an object with "
            "energy(x) and force(x) in plain Python is a potential without Compiled"
        )
    called = force.py_func.__name__
    name = f"the compiled force {called}"
    parameters = inspect.signature(force.py_func)
    try:
        parameters.bind(None, None)
    except TypeError:
        raise TypeError(f"{name} must be a function of (x, out), got {parameters}") from None
    address = record.ctypes.data

    def function(x: Any, out: Any, n: Any, dim: Any) -> None:
        known = carray(pointer(address), 1 + n * dim)
        X, F = carray(x, n * dim), carray(out, n * dim)
        for m in range(n * dim):
            F[m] = 0.0
        raised = False
        try:
            force(carray(x, (n, dim)), carray(out, (n, dim)))
        except Exception:
            raised = True
        check = 0.0
        for m in range(n * dim):
            check += 0.0 * F[m]
        if raised or check != 0.0:
            usual = True
            for m in range(n * dim):
                usual &= math.isfinite(X[m])
                F[m] = math.nan
            if known[0] == 0.0 and (raised or usual):
                known[0] = 1.0
                known[1:] = X

    double = types.CPointer(types.float64)
    signature = types.void(double, double, types.int64, types.int64)
    try:
        compiled: Any = numba.cfunc(signature)(function)
    except numba.core.errors.NumbaError:
        raise TypeError(
            f"numba cannot compile {name} for x and out, two float64 arrays (n, dim): "
            f"{called}(x, np.empty_like(x)) says why"
        ) from None
    return compiled.address, compiled


# --- of one chain or of eight ---------------------------------------------------------------------


@exact_kernel
def workspace(tables, n, dim, like):
    """Make the neighbour lists, empty as yet, and the copy of one chain."""
    paired = tables.pairs is not None
    lists, partners = no_lists(n, dim, lanes(like), paired)
    work = Work(lists, np.empty(2 * n * dim if paired or tables.external.size else 0))
    return work, partners


@exact_kernel
def add_pairs(copy, which, n, dim, pairs, lists, partners):
    """Add the forces of pairs of one chain to its copy; return the partners."""
    if pairs is not None:
        partners = refresh(copy, which, lists, partners, n, dim, pairs)
        out = copy[n * dim :]
        add_pair_forces(copy, out, n, dim, which, lists.first, partners, pairs)
    return partners


@exact
def add_others(X, F, n, dim, tables, work, partners, like):
    """Forces that are found one chain after the other: pairs and external functions."""
    width = lanes(like)
    size = n * dim
    for which in range(width):
        copy = work.copy
        for m in range(size):
            copy[m] = X[m * width + which]
            copy[size + m] = 0.0
        partners = add_pairs(copy, which, n, dim, tables.pairs, work.lists, partners)
        for m in range(size):
            F[m * width + which] += copy[size + m]
        for e in range(tables.external.size):
            for m in range(size):
                copy[m] = X[m * width + which]  # whatever the one before has done to it
                copy[size + m] = math.nan  # which stays if Ctrl-C gets in before the function
            call(tables.external[e], copy, n, dim)
            for m in range(size):
                F[m * width + which] += copy[size + m]
    return partners


@exact_kernel
def add_forces(X, F, n, dim, tables, work, partners, like):
    """F += −∂U/∂x; return the partners, to be passed to the next call."""
    for m in range(tables.field.size):
        store(F, m, load(F, m, like) + tables.field[m])
    add_bonded(X, F, dim, tables, like)
    for t in range(tables.tethered.size):
        k = tables.tethers[4 * t + 3]
        for a in range(dim):
            m = tables.tethered[t] * dim + a
            store(F, m, load(F, m, like) - k * (load(X, m, like) - tables.tethers[4 * t + a]))
    if work.copy.size:
        partners = add_others(X, F, n, dim, tables, work, partners, like)
    return partners


@exact_kernel
def energy(X, n, dim, tables, work, partners, like):
    """U, without that of external functions, and the partners."""
    total = like * 0.0
    for m in range(tables.field.size):
        total = total - tables.field[m] * load(X, m, like)
    for t in range(tables.kinds.size):
        kind = tables.kinds[t]
        p = WIDTH * tables.types[t]
        beads = tables.beads
        if kind >= TORSION:
            total = total + four_beads(kind, X, beads, 4 * t, tables.parameters, p, dim, like)[0]
        else:
            i, j, k = beads[4 * t], beads[4 * t + 1], beads[4 * t + 2]
            total = total + bend(X, i, j, k, kind, tables.parameters, p, dim, like)[0]
    for t in range(tables.tethered.size):
        for a in range(dim):
            away = load(X, tables.tethered[t] * dim + a, like) - tables.tethers[4 * t + a]
            total = total + 0.5 * tables.tethers[4 * t + 3] * away * away
    return add_pair_energies(total, X, n, dim, tables.pairs, work, partners, like)


@exact
def add_pair_energies(total, X, n, dim, pairs, work, partners, like):
    if pairs is not None:
        width = lanes(like)
        extra = np.empty(width)
        for which in range(width):
            for m in range(n * dim):
                work.copy[m] = X[m * width + which]
            partners = refresh(work.copy, which, work.lists, partners, n, dim, pairs)
            first = work.lists.first
            extra[which] = pair_energy(work.copy, n, dim, which, first, partners, pairs)
        total = total + load(extra, 0, like)
    return total, partners


# --- of many configurations -----------------------------------------------------------------------


@exact_kernel
def force_frames(x, n, dim, tables, out, states):
    """Forces of configurations (frames · n · d,); the first frame without an answer, or −1.

    One by one or, in multiples of eight, in lanes (`states`).
    """
    like = zeros(states)
    width = lanes(like)
    size = n * dim
    X = np.empty(size * width)
    F = np.empty(size * width)
    work, partners = workspace(tables, n, dim, like)
    for first in range(0, out.size // size, width):
        check = like * 0.0
        for m in range(size):
            value = take(x, first * size + m, size, like)
            store(X, m, value)
            store(F, m, like * 0.0)
            check = check + 0.0 * value
        partners = add_forces(X, F, n, dim, tables, work, partners, like)
        for m in range(size):
            value = load(F, m, like)
            put(out, first * size + m, size, value)
            check = check + 0.0 * value
        for k in range(width):
            if lane(check, k) != 0.0:
                return first + k
    return -1


@exact_kernel
def energy_frames(x, n, dim, tables, out, states):
    """Energies of configurations, as `force_frames`."""
    like = zeros(states)
    width = lanes(like)
    size = n * dim
    X = np.empty(size * width)
    work, partners = workspace(tables, n, dim, like)
    for first in range(0, out.size, width):
        check = like * 0.0
        for m in range(size):
            value = take(x, first * size + m, size, like)
            store(X, m, value)
            check = check + 0.0 * value
        value, partners = energy(X, n, dim, tables, work, partners, like)
        put(out, first, 1, value)
        check = check + 0.0 * value
        for k in range(width):
            if lane(check, k) != 0.0:
                return first + k
    return -1
