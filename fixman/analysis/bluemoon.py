"""The blue moon ensemble: free energies along a coordinate from runs in which it is held.

A(ξ) = −kT ln P(ξ), P the density of ξ in a model that does not hold it, has the slope

    dA/dξ = ⟨w (λ + kT G)⟩ / ⟨w⟩

over configurations of a chain that does (Carter, Ciccotti, Hynes & Kapral 1989; Sprik & Ciccotti
1998; den Otter & Briels 1998).  λ is the multiplier whose force on the beads is +λ ∂ξ/∂x, minus the
tension, averaged over momenta.  With b what the model itself holds, c the same and ξ, S = (H^cc)⁻¹,
and V = M⁻¹ B_cᵀ S_ξ, along which ξ changes at rate 1 and nothing else that is held,

    λ = −S_ξ · (B_c M⁻¹ F + kT tr[(M⁻¹ − M⁻¹ B_cᵀ S B_c M⁻¹) ∂²q_c])

    Z = det H^cc / det H^bb = 1 / S_ξξ ,   G = ½ V·∂ ln Z/∂x ,   w = Z^(−½)

if model and run are rigid.  Where ξ alone is held, Z = ∂ξ M⁻¹ ∂ξ, and G is that of the papers.  If
the model is stiff, δ(q_b) without the root of det H^bb, then G = ½ V·∂ ln det H^cc/∂x, and w = 1
in a run that is stiff as well (theory.md section 4 has both ensembles).  The proof is one partial
integration: the slope of ln ∫ f δ(q_c) dx is that of ⟨V·∂ ln f/∂x + ∂·V⟩.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from fixman._common import arrays as _arrays
from fixman._common import statistics
from fixman._common.arrays import Array
from fixman.chains import hard_sets, redundancy, straight_bends
from fixman.chains.chain import Chain, bonds, is_rigid, require_chain
from fixman.chains.coordinates import FORMULAS, STRAIGHT, Coordinate, Index
from fixman.errors import ConstraintSolveError, SingularConstraintError
from fixman.kernels.chain.rows import KINDS, NUMBERS
from fixman.mechanics.drift import mean_forces
from fixman.mechanics.dynamics import forward_dynamics, project
from fixman.mechanics.metric import fixman_force, logdet
from fixman.potentials.binding import bind, warn_of_temperature
from fixman.sampling import random_walks
from fixman.simulation.observables import Mean, mean_with_error

__all__ = [
    "FreeEnergy",
    "MeanForce",
    "Metric",
    "bring",
    "free_energy",
    "from_multipliers",
    "hold",
    "mean_force",
    "metric",
]

Ensemble = Literal["rigid", "stiff"]
Gradient = Callable[[Array], ArrayLike]
Named = Coordinate | tuple[str, Sequence[int]]

ENSEMBLES = ("rigid", "stiff")
FEWEST = 2  # points of an integral
BLOCKS = 16  # at least
FAR = np.pi / 3.0  # from a state, in radians
REACH = 3.0  # kT, above which a state counts little
PROBED = 3  # frames that are turned
BALANCED = 1e-6  # relative: what is left of the sum of internal forces
VARIES = 0.01  # of a length, or in radians: files are rounded, and SHAKE's tolerance may be coarse


class Metric(NamedTuple):
    """Z and G of each configuration (...), in units of 1/mass and of 1/ξ for ξ a length."""

    Z: Array
    G: Array


class MeanForce(NamedTuple):
    """dA/dξ at one value of ξ, its standard error, and of each frame λ, Z, G and ln w."""

    value: float
    error: float
    multiplier: Array
    Z: Array
    G: Array
    log_weights: Array


class FreeEnergy(NamedTuple):
    """A at each ξ, 0 at the first, with standard errors and covariances."""

    xi: Array
    value: Array
    error: Array
    covariance: Array


# --- chains that hold ξ --------------------------------------------------------------------------


def hold(chain: Chain, coordinate: Named) -> Chain:
    """Return the chain with one more hard coordinate, ξ.

    Parameters
    ----------
    chain : Chain
        The model: what it holds is held in the free energy as well.
    coordinate : Coordinate or tuple
        Of kind and beads: "length" (i, j) of a bond; "distance" (i, j) of any two beads, which
        potentials do not take for a bond; "angle" (i, j, k); "torsion" (i, j, k, l); and whatever
        else the guide "Kinds of coordinate" lists.  "bond" and "dihedral" are understood.

    Raises
    ------
    SingularConstraintError
        If ξ depends on what is hard already.
    """
    require_chain(chain)
    (row,) = hard_sets.extra_rows([coordinate], chain.n, chain.dim, chain.base == "fixed")
    place = _place(chain.coordinates, row, chain.dim)
    if place is None and _place(chain.redundant, row, chain.dim) is not None:
        raise _one_value(row)
    if place is None and row.kind == "length":
        raise ValueError(
            f"{row} is no bond of the tree or a hard one that closes a ring: hold ('distance', "
            f"{row.beads}), which potentials do not take for a bond"
        )
    if place is None:
        before = sum(each.kind not in STRAIGHT for each in chain.extra)  # which are the last
        extra = (*chain.extra[:before], row, *chain.extra[before:])
        held = replace(chain, extra=extra, hard_mask=np.append(chain.hard_mask, True))
    else:
        if chain.hard_mask[place]:
            raise ValueError(f"{row} is hard in this chain already")
        mask = chain.hard_mask.copy()
        mask[place] = True
        held = replace(chain, hard_mask=mask)
    if not redundancy.independent(held.layout, None).all():
        raise _one_value(row)
    return held


def _one_value(row: Coordinate) -> SingularConstraintError:
    return SingularConstraintError(
        f"{row} depends on the other hard coordinates",
        ": it has one value only, and no free energy",
        coordinates=[row],
    )


def bring(chain: Chain, x: ArrayLike, coordinate: Named, value: float) -> Array:
    """Bring configurations to a value of ξ, in strides as long as each projection converges.

    Parameters
    ----------
    chain : Chain
        One that holds ξ, as `hold` returns it.
    x : (..., n, dim)
        Their other hard values stay.  Torsions turn the short way.
    coordinate : Coordinate or tuple
        As for `hold`.
    value : float
        In the unit of x, or in radians.

    Raises
    ------
    ConstraintSolveError
        If it cannot be reached.
    """
    place = _held_place(chain, coordinate)
    x = _arrays.real(x, (chain.n, chain.dim), "x")
    _arrays.require_finite(x, (chain.n, chain.dim), "x")
    targets = np.full(len(chain.coordinates), np.nan)
    targets[place] = _arrays.number(value, "value")
    moved = [random_walks.bring(chain, one, targets) for one in x.reshape(-1, chain.n, chain.dim)]
    return np.array(moved).reshape(x.shape)


def _place(rows: Sequence[Coordinate], row: Coordinate, dim: int) -> int | None:
    """Place of a coordinate among some, whichever way round its beads are named."""
    names = _names(row, dim)
    return next((place for place, one in enumerate(rows) if one in names), None)


def _names(row: Coordinate, dim: int) -> list[Coordinate]:
    """Return all names of the coordinate that one names."""
    names = [row.beads]
    for beads in names:  # which grow
        for order in KINDS[FORMULAS[NUMBERS[row.kind], dim - 2]].swaps:
            other = tuple(beads[k] for k in order)
            names += [other] * (other not in names)
    return [Coordinate(row.kind, each) for each in names]


def _held_place(chain: Chain, coordinate: Named) -> int:
    require_chain(chain)
    (row,) = hard_sets.extra_rows([coordinate], chain.n, chain.dim, chain.base == "fixed")
    place = _place(chain.coordinates, row, chain.dim)
    if place is None or not chain.hard_mask[place]:
        raise ValueError(f"{row} is not hard in this chain: bluemoon.hold(chain, …) makes it so")
    return place


def _released(chain: Chain, place: int) -> Chain:
    """Return the model: the chain without ξ."""
    row, chart = chain.coordinates[place], chain.n * chain.dim
    extra, mask = chain.extra, chain.hard_mask.copy()
    if place < chart:
        mask[place] = False
    else:
        extra = (*extra[: place - chart], *extra[place - chart + 1 :])
        mask = np.delete(mask, place)
    model = replace(chain, extra=extra, hard_mask=mask)
    if chain.redundant:
        # What was left out because it depends on the rest must do so without ξ too.
        more = np.ones(len(chain.redundant), dtype=bool)
        whole = replace(
            model, extra=(*extra, *chain.redundant), hard_mask=np.append(mask, more), redundant=()
        )
        if (~redundancy.independent(whole.layout, None)).sum() < more.size:
            raise SingularConstraintError(
                f"{row} depends on hard coordinates that this chain leaves out",
                ": it has one value only, and no free energy",
                coordinates=[row],
            )
    return model


# --- mean forces ---------------------------------------------------------------------------------


def mean_force(
    chain: Chain,
    x: ArrayLike,
    coordinate: Named,
    *,
    kT: float = 1.0,
    potential: Any = None,
    force: ArrayLike | None = None,
    ensemble: Ensemble = "rigid",
    sampled: Ensemble | None = None,
) -> MeanForce:
    """Mean force dA/dξ along a held coordinate, from configurations alone.

    Parameters
    ----------
    chain : Chain
        One that holds ξ, as `hold` returns it; the model is this chain without ξ.
    x : (frames, ..., n, dim)
        Of a run or a sampler of whatever kind, in which ξ has one value.  Axis 0 is time; further
        leading axes are independent chains.
    coordinate : Coordinate or tuple
        As for `hold`.
    kT : float
    potential : optional
        What the run had: a potential of `fixman.potentials`, or an object with energy and force.
    force : (frames, ..., n, dim), optional
        In the place of a potential, its forces.
    ensemble : "rigid" or "stiff"
        Of the model.  It makes no difference where the model holds nothing.
    sampled : "rigid" or "stiff", optional
        That the frames are from, by default the same.  Where nothing but ξ is held, a run with
        constraints as such is "rigid".

    Returns
    -------
    MeanForce
        In units of kT over that of ξ.  P(ξ) is the density of ξ as such: of a free pair at distance
        r, A = U − 2 kT ln r.  The error knows of correlations in time, those of the soft
        coordinates included that it follows; it is 0 where a chain has one shape.

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held in some frame, which is named.
    ValueError
        If ξ, or what else is hard, varies over the frames: they are of a run that does not hold it.
        If there is one frame, and other shapes.

    Warns
    -----
    RuntimeWarning
        If frames, turned about a soft torsion to where none of them is near, have about the energy
        that they had: states that the error does not know of.  Not with ``force``.

    Notes
    -----
    O(n) a frame.  No momenta are needed, nor their noise: their average is taken exactly.
    """
    kT = _arrays.positive(kT, "kT")
    warn_of_temperature(potential, kT)
    _arrays.require_one_of(ensemble, "ensemble", ENSEMBLES)
    sampled = ensemble if sampled is None else sampled
    _arrays.require_one_of(sampled, "sampled", ENSEMBLES)
    place, x = _held_place(chain, coordinate), _frames(chain, x)
    if force is not None and potential is not None:
        raise ValueError("give a potential or its forces, not both")
    given = force is not None
    if force is None:
        force = bind(chain, potential).force(x) if potential is not None else np.zeros_like(x)
    f = _arrays.real(force, (chain.n, chain.dim), "force")
    if f.shape != x.shape:
        raise ValueError(f"force must have the shape of x, {x.shape}, got {f.shape}")
    model, k = _released(chain, place), int(np.searchsorted(chain.hard, place))
    _require_held(chain, x, k)
    multiplier = -mean_forces(chain, x, f, chain.masses, kT).tensions[..., k]
    inner, outer = logdet(model, x), logdet(chain, x)
    G = _slope(chain, model if ensemble == "rigid" else None, x, k)
    log_weights = 0.5 * (inner * (ensemble == "rigid") - outer * (sampled == "rigid"))
    series, single = multiplier + kT * G, _has_one_shape(chain)
    if series.size == 1 and single and _is_internal(x, f):
        mean = Mean(float(series.item()), 0.0)
    else:
        places, values = _inner(chain, x)
        turns = chain.layout.rows.take(places).trait("periodic")
        mean = _mean_of(series, log_weights, values, turns)
        if not (given or single):
            _warn_of_unseen(chain, x, potential, kT, places[turns], values[..., turns])
    return MeanForce(*mean, multiplier, np.exp(outer - inner), G, log_weights)


def metric(chain: Chain, x: ArrayLike, coordinate: Named | Gradient, step: float = 1e-4) -> Metric:
    """Z and G of a coordinate, for multipliers from elsewhere: see `from_multipliers`.

    Parameters
    ----------
    chain : Chain
        With ξ among its hard coordinates; for a function, without.  The others, whatever the other
        program holds besides, are counted in Z = 1 / ((H^cc)⁻¹)_ξξ.
    x : (..., n, dim)
    coordinate : Coordinate or tuple, or a function
        The first two as for `hold`.  A function gradient(x) returns ∂ξ/∂x (n, dim) of one
        configuration (n, dim).
    step : float
        Of a function, how far the bead that moves most is moved to find G by differences, whose
        error is of order step².

    Returns
    -------
    Metric
        O(n) a frame; of a function, with three calls a frame.

    Raises
    ------
    ValueError
        If a gradient vanishes, or has none but along what is held.
    """
    require_chain(chain)
    x, step = _arrays.real(x, (chain.n, chain.dim), "x"), _arrays.positive(step, "step")
    if callable(coordinate):
        return _differences(chain, x, coordinate, step)
    place = _held_place(chain, coordinate)
    model, k = _released(chain, place), int(np.searchsorted(chain.hard, place))
    Z = np.exp(np.asarray(logdet(chain, x) - logdet(model, x)))
    return Metric(Z[()], _slope(chain, model, x, k))


def from_multipliers(
    multipliers: ArrayLike, Z: ArrayLike = 1.0, G: ArrayLike = 0.0, *, kT: float = 1.0
) -> MeanForce:
    """Mean force ⟨Z^(−½) (λ + kT G)⟩ / ⟨Z^(−½)⟩ from another program's multipliers.

    Parameters
    ----------
    multipliers : (frames, ...)
        λ, of forces +λ ∂ξ/∂x: positive where the constraint pushes ξ up.  At their velocities, as
        programs print them, or averaged over these.
    Z, G : like multipliers, or one number
        As `metric` has them; a distance between two beads has one Z and G = 0.
    kT : float
        In the unit of energy of λ.

    Raises
    ------
    ValueError
        If Z is not positive.
    """
    kT = _arrays.positive(kT, "kT")
    names = ("multipliers", "Z", "G")
    arrays = [_arrays.real(a, (), name) for a, name in zip((multipliers, Z, G), names, strict=True)]
    if not arrays[0].ndim or not arrays[0].size:
        given = arrays[0].shape or "one number"
        raise ValueError(f"multipliers must have shape (frames, ...), got {given}")
    for array, name in zip(arrays, names, strict=True):
        if array.shape not in ((), arrays[0].shape):
            raise ValueError(
                f"{name} must be one number or have the shape of the multipliers, "
                f"{arrays[0].shape}, got {array.shape}"
            )
        _arrays.require_finite(array.reshape(-1), (array.size,), name, "frame")
    if not (arrays[1] > 0.0).all():
        raise ValueError(f"Z must be positive, got {arrays[1].min():g}")
    lam, Z, G = (np.broadcast_to(array, arrays[0].shape) for array in arrays)
    log_weights = -0.5 * np.log(Z)
    mean = mean_with_error(lam + kT * G, log_weights=log_weights)
    return MeanForce(*mean, lam, Z, G, log_weights)


def _has_one_shape(chain: Chain) -> bool:
    if chain.base != "free":
        return False
    return is_rigid(chain) if chain.dim == 3 else chain.hard.size >= 2 * chain.n - 3


def _is_internal(x: Array, f: Array) -> bool:
    """Whether forces neither push a configuration as a whole nor turn it."""
    turning = np.swapaxes(x - x.mean(axis=-2, keepdims=True), -1, -2) @ f
    away = max(np.abs(f.sum(axis=-2)).max(), np.abs(turning - np.swapaxes(turning, -1, -2)).max())
    return bool(away <= BALANCED * (1.0 + np.ptp(x)) * np.abs(f).max())


def _inner(chain: Chain, x: Array) -> tuple[Index, Array]:
    """Soft coordinates of the shape, and their values (frames, copies, rows)."""
    rows, straight = chain.layout.rows, straight_bends.Lines(chain.straight)
    soft = ~(chain.hard_mask | rows.external)
    soft[straight_bends.over(straight, rows, chain.n * chain.dim)] = False
    places = np.flatnonzero(soft)
    values, bad = rows.take(places).values(x)
    if bad >= 0:  # a torsion about bonds that happen to be in line
        places = places[:0]
    copies = len(values) // len(x)
    return places, values[:, : places.size].reshape(len(x), copies, places.size)


def _mean_of(series: Array, log_weights: Array, values: Array, turns: Array) -> Mean:
    """Mean, and an error that knows of slow motion.

    Fast noise hides that a small part of a series is slow: the window of its correlation time
    closes too soon.  So the part that follows a soft coordinate, its sine and cosine where it
    ``turns``, and the rest have errors of their own, which add up in squares; and each is the
    largest of those of means over blocks (Flyvbjerg & Petersen 1989).
    """
    mean = mean_with_error(series, log_weights=log_weights)
    weights = np.exp(log_weights - log_weights.max())
    away = (weights / weights.mean() * (series - mean.value)).reshape(len(series), -1)
    whole = error = _blocked(away)
    for one, periodic in zip(np.moveaxis(values, -1, 0), turns, strict=True):
        terms = np.stack([np.sin(one), np.cos(one)] if periodic else [one], axis=-1)
        terms = (terms - terms.mean(axis=(0, 1))).reshape(-1, terms.shape[-1])
        along = (terms @ np.linalg.lstsq(terms, away.ravel())[0]).reshape(away.shape)
        if (along**2).mean() > whole**2:  # or it matters little, however slow
            error = max(error, float(np.hypot(_blocked(along), _blocked(away - along))))
    return Mean(mean.value, error)


def _blocked(series: Array) -> float:
    """Largest standard error of means over blocks of 1, 2, 4 … frames, less what chance adds."""
    error, size = statistics.standard_error(series), 2
    while len(series) >= BLOCKS * size:
        count = len(series) // size
        blocks = series[: count * size].reshape(count, size, -1).mean(axis=1)
        sure = 1.0 - 1.0 / np.sqrt(2.0 * blocks.size)  # an error's own error
        error, size = max(error, float(sure * statistics.standard_error(blocks))), 2 * size
    return error


def _warn_of_unseen(
    chain: Chain, x: Array, potential: Any, kT: float, places: Index, values: Array
) -> None:
    """Warn of states that a turn about a soft torsion leads to, and that no frame is near."""
    energy, frames = bind(chain, potential).energy, x.reshape(-1, chain.n, chain.dim)
    some = frames[np.unique(np.linspace(0, len(frames) - 1, PROBED).astype(int))]
    found = {}
    for place, seen in zip(places, np.moveaxis(values, -1, 0), strict=True):
        row = chain.coordinates[place]
        turn = 2.0 * np.pi / _fold(chain, *row.beads[1:3])
        for one, at in itertools.product(some, np.pi * np.arange(2, 24, 2) / 12):
            try:
                q = chain.internal(one)
                q[place] += at
                if np.abs((q[place] - seen + 0.5 * turn) % turn - 0.5 * turn).min() < FAR:
                    continue
                other = project(chain, chain.cartesian(q), chain.hard_values(one))
                above = (energy(other) - energy(one)) / kT
            except (ConstraintSolveError, ValueError):  # closed rings, overlaps: no state
                continue
            if above < REACH:
                found[row] = f"{row} turned by {np.degrees(at):.0f}° adds {above:.1f} kT"
                break
    if found:
        more = f", and so it is with {len(found) - 1} more" if len(found) > 1 else ""
        warnings.warn(
            f"{next(iter(found.values()))} to the energy of a frame, and no frame is near{more}: "
            "the error knows nothing of such states; begin further runs there, as independent "
            "chains (axis 1 of x)",
            RuntimeWarning,
            stacklevel=3,
        )


def _fold(chain: Chain, *bond: int) -> int:
    """Return how many turns about a bond look alike since one end has equal leaves, as a methyl."""
    pairs = bonds(chain)
    degree = np.bincount(pairs.ravel(), minlength=chain.n)
    for end, other in (bond, bond[::-1]):
        near = pairs[(pairs == end).any(axis=1)]
        leaves = near[(near != end) & (near != other)]
        alike = len(np.unique(chain.masses[leaves])) == 1 and (degree[leaves] == 1).all()
        if alike and len(leaves) == degree[end] - 1:
            return len(leaves)
    return 1


def _slope(chain: Chain, model: Chain | None, x: Array, k: int) -> Array:
    """½ V·∂/∂x of ln det H^cc, less ln det H^bb of a model, of hard row number k."""
    f = fixman_force(chain, x)
    if model is not None:
        f = f - fixman_force(model, x)
    slope: Array = -mean_forces(chain, x, f, chain.masses, 0.0).tensions[..., k]
    return slope


def _differences(chain: Chain, x: Array, gradient: Gradient, step: float) -> Metric:
    """Z and G along u = M⁻¹ (∂ξ + B_bᵀ λ), which changes nothing that is held."""
    still = np.zeros_like(x)

    def moved(at: Array) -> tuple[Array, Array]:
        frames = at.reshape(-1, chain.n, chain.dim)
        g = np.empty_like(frames)
        for frame, one in enumerate(frames):
            g[frame] = _arrays.real(gradient(one.copy()), (chain.n, chain.dim), "gradient(x)")
        _arrays.require_finite(g.reshape(at.shape), (chain.n, chain.dim), "gradient(x)")
        push: Array = g.reshape(at.shape)
        u = forward_dynamics(chain, at, still, force=push).acceleration
        return u, (push * u).sum(axis=(-2, -1))

    u, Z = moved(x)
    if not (Z > 0.0).all():
        raise ValueError(
            "gradient(x) vanishes in some frame, but for what is hard: ξ cannot change there"
        )
    way = step / np.sqrt((u * u).sum(axis=-1).max(axis=-1))
    shift = way[..., None, None] * u
    slope = (moved(x + shift)[1] - moved(x - shift)[1]) / (2.0 * way)
    return Metric(Z, slope / (2.0 * Z * Z))


def _require_held(chain: Chain, x: Array, k: int) -> None:
    """Refuse frames in which a hard row varies, number k before others."""
    base = np.zeros((3, chain.dim))  # as places −1 to −3
    places = np.concatenate([x.reshape(-1, chain.n, chain.dim)[0], base])
    values = chain.hard_values(x).reshape(-1, chain.hard.size)
    away, rows = values - values[0], chain.layout.hard_rows
    turns = rows.trait("angle")
    away[:, turns] = (away[:, turns] + np.pi) % (2.0 * np.pi) - np.pi
    i, j = rows.columns[:, :2].T
    lengths = np.linalg.norm(places[j] - places[i], axis=1)
    varies = np.ptp(away, axis=0)
    wrong = varies > VARIES * np.where(rows.trait("radians"), 1.0, lengths)
    if wrong.any():
        row = k if wrong[k] else int(np.argmax(wrong))
        raise ValueError(
            f"{rows[row]} varies by {varies[row]:.3g} over the frames: they are of a run that does "
            "not hold it"
        )


def _frames(chain: Chain, x: ArrayLike) -> Array:
    x = _arrays.real(x, (chain.n, chain.dim), "x")
    if x.ndim < 3 or not x.size:
        raise ValueError(
            f"x must have shape (frames, ..., {chain.n}, {chain.dim}) with time as first axis, "
            f"got {x.shape}"
        )
    return x


# --- integrals -----------------------------------------------------------------------------------


def free_energy(xi: ArrayLike, forces: Sequence[Sequence[Any]]) -> FreeEnergy:
    """Integrate mean forces to A(ξ) − A(ξ₀), by a cubic spline through them.

    Parameters
    ----------
    xi : (m,)
        Ascending.
    forces : m of MeanForce, or pairs
        Of a value and its error; errors are independent.

    Returns
    -------
    FreeEnergy
        The spline is linear in the forces, so that errors are exact; what it smooths over, of
        order spacing⁴, is not among them.  A difference has the variance C_ii + C_jj − 2 C_ij.
    """
    places = _arrays.real(xi, (), "xi")
    if places.ndim != 1 or places.size < FEWEST:
        raise ValueError(f"xi must have shape (m,), m at least {FEWEST}, got {places.shape}")
    _arrays.require_finite(places, places.shape, "xi", "place")
    if not (np.diff(places) > 0.0).all():
        raise ValueError("xi must ascend")
    try:
        pairs = _arrays.real([tuple(force[:2]) for force in forces], (2,), "forces", "place")
    except (TypeError, IndexError):
        raise TypeError(
            f"forces must be a list of MeanForce, or of (value, error), got {forces!r:.80}"
        ) from None
    if pairs.shape != (places.size, 2):
        raise ValueError(
            f"there must be one mean force at each of {places.size} xi, got {len(pairs)}"
        )
    _arrays.require_finite(pairs, (2,), "forces", "place")
    value, error = pairs.T
    if (error < 0.0).any():
        raise ValueError(f"errors of mean forces cannot be negative, got {error.min():g}")
    weights = CubicSpline(places, np.eye(places.size)).antiderivative()(places)
    scaled = weights * error
    covariance = scaled @ scaled.T
    return FreeEnergy(places, weights @ value, np.sqrt(np.diagonal(covariance)), covariance)
