"""The blue moon ensemble: free energies along a coordinate from runs in which it is held.

A(ξ) = −kT ln P(ξ), P the density of ξ in a model that does not hold it, has the slope

    dA/dξ = ⟨w (λ + kT G)⟩ / ⟨w⟩                                                        (1)

over configurations of a chain that holds ξ (Carter, Ciccotti, Hynes & Kapral 1989; Sprik & Ciccotti
1998; den Otter & Briels 1998).  λ is the multiplier whose force on the beads is +λ ∂ξ/∂x, minus the
tension, averaged over momenta.  The model holds the coordinates b; c are b and ξ, and S = (H^cc)⁻¹.
Along V = M⁻¹ B_cᵀ S_ξ, ξ changes at rate 1 and no coordinate b changes.  F are the forces of the
potential alone, however the run was made::

    λ = −S_ξ · (B_c M⁻¹ F + kT tr[(M⁻¹ − M⁻¹ B_cᵀ S B_c M⁻¹) ∂²q_c])                    (2)
    Z = det H^cc / det H^bb = 1 / S_ξξ                                                  (3)

    model   rigid    G = ½ V·∂ ln Z/∂x            w = √det H^bb                         (4)
            stiff    G = ½ V·∂ ln det H^cc/∂x     w = 1                                 (5)
    run     rigid    w times 1/√det H^cc

The model has the density √det H^bb δ(q_b) or, stiff, δ(q_b), since √det G dq = dx.  If model and
run are rigid, w = Z^(−½); where ξ alone is held, Z = ∂ξ M⁻¹ ∂ξ, and G is that of the papers.

The proof is one partial integration: the slope of ln ∫ f δ(q_c) dx is ⟨V·∂ ln f/∂x + ∂·V⟩.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import CubicSpline

from fixman._common import arrays, statistics
from fixman._common.arrays import Array
from fixman.analysis.samples import soft_rows
from fixman.chains import hard_sets, redundancy
from fixman.chains.chain import Chain, require_chain
from fixman.chains.coordinates import FORMULAS, STRAIGHT, Coordinate
from fixman.errors import SingularConstraintError
from fixman.kernels.chain.rows import KINDS, NUMBERS
from fixman.mechanics.drift import mean_forces
from fixman.mechanics.dynamics import forward_dynamics
from fixman.mechanics.metric import fixman_force, logdet
from fixman.potentials.binding import bind, warn_of_temperature
from fixman.sampling import random_walks
from fixman.simulation.observables import Mean, mean_with_error

__all__ = [
    "FreeEnergy", "MeanForce", "Metric",
    "bring", "free_energy", "from_multipliers", "hold", "mean_force", "metric",
]  # fmt: skip
__dir__ = __all__.copy  # completion shows public names alone

Ensemble = Literal["rigid", "stiff"]
Gradient = Callable[[Array], ArrayLike]
Named = Coordinate | tuple[str, Sequence[int]]

BLOCKS = 16  # at least
VARIES = 0.01  # relative for lengths, else rad: files are rounded, SHAKE's tolerance may be coarse


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

    The chain is the model: what it holds is held in the free energy as well.  ξ is a kind and its
    beads: "length" (i, j) of a bond; "distance" (i, j) of any two beads, which potentials do not
    take for a bond; "angle" (i, j, k); "torsion" (i, j, k, l); or another kind of coordinate.
    SingularConstraintError if ξ depends on what is hard already.
    """
    require_chain(chain)
    row, place = _named(chain, coordinate)
    if place is None:
        if row.kind == "length" and _place(chain.redundant, row, chain.dim) is None:
            said = f"{row} is no bond of the tree or a hard one that closes a ring"
            raise ValueError(f"{said}: hold ('distance', {row.beads})")
        before = sum(each.kind not in STRAIGHT for each in chain.extra)  # which are the last
        extra = (*chain.extra[:before], row, *chain.extra[before:])
        held = replace(chain, extra=extra, hard_mask=np.append(chain.hard_mask, True))
    elif chain.hard_mask[place]:
        raise ValueError(f"{row} is hard in this chain already")
    else:
        mask = chain.hard_mask | (np.arange(chain.hard_mask.size) == place)
        held = replace(chain, hard_mask=mask)
    if not redundancy.independent(held.layout, None).all():
        raise _one_value(row, "the other hard coordinates")
    return held


def _one_value(row: Coordinate, others: str) -> SingularConstraintError:
    rest = ": it has one value only, and no free energy"
    return SingularConstraintError(f"{row} depends on {others}", rest, coordinates=[row])


def bring(chain: Chain, x: ArrayLike, coordinate: Named, value: float) -> Array:
    """Bring configurations to a value of ξ, in strides as long as each projection converges.

    ``chain`` holds ξ, as `hold` returns it.  Other hard values of x (..., n, dim) stay; torsions
    turn the short way.  ConstraintSolveError if the value cannot be reached.
    """
    x, value = _configurations(chain, x), arrays.number(value, "value")
    targets = np.full(len(chain.coordinates), np.nan)
    place = _held_place(chain, coordinate)
    if chain.layout.rows.trait("positive")[place] and not value > 0.0:
        raise ValueError(f"value of {chain.coordinates[place]} must be positive, got {value:g}")
    targets[place] = value
    moved = [random_walks.bring(chain, one, targets) for one in x.reshape(-1, *x.shape[-2:])]
    return np.array(moved).reshape(x.shape)


def _configurations(chain: Chain, x: ArrayLike, axes: int = 0) -> Array:
    require_chain(chain)
    return arrays.series(x, (chain.n, chain.dim), "x", axes)


def _place(rows: Sequence[Coordinate], row: Coordinate, dim: int) -> int | None:
    """Find a coordinate among some, whichever way round its beads are named."""
    names = [row.beads]
    for beads in names:  # which grow
        for order in KINDS[FORMULAS[NUMBERS[row.kind], dim - 2]].swaps:
            other = tuple(beads[k] for k in order)
            names += [other] * (other not in names)
    places = (k for k, one in enumerate(rows) if one.kind == row.kind and one.beads in names)
    return next(places, None)


def _named(chain: Chain, coordinate: Named) -> tuple[Coordinate, int | None]:
    (row,) = hard_sets.extra_rows([coordinate], chain.n, chain.dim, chain.base == "fixed")
    return row, _place(chain.coordinates, row, chain.dim)


def _held_place(chain: Chain, coordinate: Named) -> int:
    row, place = _named(chain, coordinate)
    if place is None or not chain.hard_mask[place]:
        raise ValueError(f"{row} is not hard in this chain: bluemoon.hold(chain, …) makes it so")
    return place


def _released(chain: Chain, coordinate: Named) -> tuple[Chain, int]:
    """Return the chain without ξ, and the number of ξ among the hard rows."""
    place = _held_place(chain, coordinate)
    row, chart = chain.coordinates[place], chain.n * chain.dim
    extra, mask = chain.extra, chain.hard_mask.copy()
    if place < chart:
        mask[place] = False
    else:
        extra = (*extra[: place - chart], *extra[place - chart + 1 :])
        mask = np.delete(mask, place)
    model = replace(chain, extra=extra, hard_mask=mask)
    if chain.redundant:
        # Rows that were left out because they depend on the rest must do so without ξ too.
        more = np.ones(len(chain.redundant), dtype=bool)
        whole = replace(
            model, extra=(*extra, *chain.redundant), hard_mask=np.append(mask, more), redundant=()
        )
        if (~redundancy.independent(whole.layout, None)).sum() < more.size:
            raise _one_value(row, "hard coordinates that this chain leaves out")
    return model, int(np.searchsorted(chain.hard, place))


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
    """Mean force dA/dξ along a held coordinate, from configurations alone, in O(n) a frame.

    Parameters
    ----------
    chain : Chain
        One that holds ξ, as `hold` returns it; the model is this chain without ξ.
    x : (frames, ..., n, dim)
        Frames with one value of ξ.  Axis 0 is time, further leading axes are independent chains.
    coordinate : Coordinate or tuple
        As for `hold`.
    potential, force : optional
        Potential of the run, as for steppers; or its forces, like x.
    ensemble : "rigid" or "stiff"
        Ensemble of the model; it makes no difference if the model holds nothing.
    sampled : "rigid" or "stiff", optional
        Ensemble of the frames, by default ``ensemble``.  If ξ alone is held, a run with constraints
        and no correction is "rigid".

    Returns
    -------
    MeanForce
        P(ξ) is the density of ξ itself: a free pair at distance r has A = U − 2 kT ln r.  The error
        regards correlations in time, but not states that no frame has visited.

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held in some frame, which is named.
    ValueError
        If ξ or another hard coordinate varies over the frames; if there is only one frame.
    """
    x, kT = _configurations(chain, x, 1), arrays.positive(kT, "kT")
    sampled = ensemble if sampled is None else sampled
    for value, name in ((ensemble, "ensemble"), (sampled, "sampled")):
        arrays.require_one_of(value, name, ("rigid", "stiff"))
    warn_of_temperature(potential, kT)
    model, k = _released(chain, coordinate)
    f = np.zeros_like(x) if force is None else arrays.series(force, (chain.n, chain.dim), "force")
    if f.shape != x.shape or not (force is None or potential is None):
        raise ValueError("give a potential, or its force in the shape of x, not both")
    if potential is not None:
        f = bind(chain, potential).force(x)
    _require_held(chain, x, k)
    lam = -mean_forces(chain, x, f, chain.masses, kT).tensions[..., k]  # (2)
    logdet_b, logdet_c = logdet(model, x), logdet(chain, x)
    G = _metric_slope(chain, model if ensemble == "rigid" else None, x, k)  # (4) or (5)
    # ln w: the density that is wanted over the one that was sampled; ½ ln Z⁻¹ if both are rigid.
    log_weights = 0.5 * (logdet_b * (ensemble == "rigid") - logdet_c * (sampled == "rigid"))
    mean = _mean_of(chain, x, lam + kT * G, log_weights)
    return MeanForce(*mean, lam, np.exp(logdet_c - logdet_b), G, log_weights)


def metric(chain: Chain, x: ArrayLike, coordinate: Named | Gradient, step: float = 1e-4) -> Metric:
    """Z and G of a coordinate, for multipliers from elsewhere: see `from_multipliers`.

    Parameters
    ----------
    chain : Chain
        Its hard coordinates include ξ, unless ξ is a function.  The others, which the other program
        holds besides, count in Z = 1 / ((H^cc)⁻¹)_ξξ.
    x : (..., n, dim)
    coordinate : as for `hold`, or a function
        It returns ∂ξ/∂x (n, dim) of one configuration (n, dim), not zero, nor along what is held,
        and is called thrice a frame.
    step : float
        Largest move of a bead in the differences that give G of a function, with error O(step²).
    """
    x, step = _configurations(chain, x), arrays.positive(step, "step")
    if callable(coordinate):
        return _differences(chain, x, coordinate, step)
    model, k = _released(chain, coordinate)
    Z = np.exp(np.asarray(logdet(chain, x) - logdet(model, x)))  # (3)
    return Metric(Z[()], _metric_slope(chain, model, x, k))


def from_multipliers(
    multipliers: ArrayLike, Z: ArrayLike = 1.0, G: ArrayLike = 0.0, *, kT: float = 1.0
) -> MeanForce:
    """Mean force ⟨Z^(−½) (λ + kT G)⟩ / ⟨Z^(−½)⟩ from another program's multipliers.

    ``multipliers`` (frames, ...) are λ, of forces +λ ∂ξ/∂x, positive where the constraint pushes ξ
    up, as programs print them.  Z and G are those of `metric`, or one number; a distance between
    two beads has one Z and G = 0.  kT is in the unit of energy of λ.
    """
    lam, kT = arrays.series(multipliers, (), "multipliers", 1), arrays.positive(kT, "kT")
    Z, G = (arrays.series(value, (), name) for value, name in ((Z, "Z"), (G, "G")))
    if not {Z.shape, G.shape} <= {(), lam.shape}:
        raise ValueError("Z and G must be one number or have the shape of the multipliers")
    if not (Z >= 1e-100).all():
        raise ValueError(f"Z must be positive, got {Z.min():.3g}")
    Z, G = np.broadcast_to(Z, lam.shape), np.broadcast_to(G, lam.shape)
    log_weights = -0.5 * np.log(Z)
    mean = mean_with_error(lam + kT * G, log_weights=log_weights)
    return MeanForce(*mean, lam, Z, G, log_weights)


def _mean_of(chain: Chain, x: Array, series: Array, log_weights: Array) -> Mean:
    """Mean, and an error that knows of slow motion, which fast noise hides.

    The part that follows a soft coordinate, or the sine and cosine of a torsion, and the rest have
    errors of their own, which add up in squares; and each is the largest of those of means over
    blocks (Flyvbjerg & Petersen 1989).
    """
    mean = mean_with_error(series, log_weights=log_weights)
    weights = np.exp(log_weights - log_weights.max())
    away = (weights / weights.mean() * (series - mean.value)).reshape(len(series), -1)
    whole = error = _blocked(away)
    rows = chain.layout.rows.take(soft_rows(chain))
    values, bad = rows.values(x)
    # Where bonds happen to be in line a torsion about them has no value.
    soft = zip(values.T, rows.trait("periodic"), strict=True) if bad < 0 else ()
    for one, periodic in soft:
        terms = np.stack([np.sin(one), np.cos(one)] if periodic else [one], axis=-1)
        terms -= terms.mean(axis=0)
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


def _metric_slope(chain: Chain, model: Chain | None, x: Array, k: int) -> Array:
    """G of hard row number k: ½ V·∂/∂x of ln det H^cc (5), less ln det H^bb of a model (4).

    With f = −½ ∂ ln det H/∂x, Fixman's force for kT = 1, row ξ has the tension S_ξ·B_c M⁻¹ f = V·f.
    """
    f = fixman_force(chain, x)
    if model is not None:
        f = f - fixman_force(model, x)
    G: Array = -mean_forces(chain, x, f, chain.masses, 0.0).tensions[..., k]
    return G


def _differences(chain: Chain, x: Array, gradient: Gradient, step: float) -> Metric:
    """Z and G along u = M⁻¹ (∂ξ + B_bᵀ λ) = Z V, which changes nothing that is held.

    Z = ∂ξ·u is that of (3), and (4) becomes G = u·∂Z/∂x / (2 Z²).
    """

    def moved(at: Array) -> tuple[Array, Array]:
        shape = (chain.n, chain.dim)
        frames = at.reshape(-1, *shape)
        g = [arrays.real(gradient(one.copy()), shape, "gradient(x)") for one in frames]
        push: Array = np.array(g).reshape(at.shape)
        arrays.require_finite(push, shape, "gradient(x)")
        u = forward_dynamics(chain, at, np.zeros_like(at), force=push).acceleration
        return u, (push * u).sum(axis=(-2, -1))

    u, Z = moved(x)
    if not (Z > 0.0).all():
        raise ValueError("gradient(x) is 0 in some frame, or along hard coordinates alone")
    way = step / np.sqrt((u * u).sum(axis=-1).max(axis=-1))
    shift = way[..., None, None] * u
    slope = (moved(x + shift)[1] - moved(x - shift)[1]) / (2.0 * way)
    return Metric(Z, slope / (2.0 * Z * Z))


def _require_held(chain: Chain, x: Array, k: int) -> None:
    first = x.reshape(-1, chain.n, chain.dim)[0]
    places = np.concatenate([first, np.zeros((3, chain.dim))])  # the base as −1 to −3
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
        said = "over the frames: their run did not hold it"
        raise ValueError(f"{rows[row]} varies by {varies[row]:.3g} {said}")


def free_energy(xi: ArrayLike, forces: Sequence[Sequence[Any]]) -> FreeEnergy:
    """Integrate mean forces to A(ξ) − A(ξ₀), by a cubic spline through them.

    ``xi`` (m,) ascends; ``forces`` are m of MeanForce, or pairs of a value and its error, which are
    independent.  The spline is linear in the forces, so errors are exact except for its
    interpolation error, of order spacing⁴.  A difference has the variance C_ii + C_jj − 2 C_ij.
    """
    xi = arrays.series(xi, (), "xi", 1)
    if xi.ndim > 1 or xi.size < 2 or not (np.diff(xi) > 0.0).all():
        raise ValueError(f"xi must ascend and be at least 2, got {xi!r:.80}")
    kinds = "MeanForce, or of (value, error)", (Sequence, np.ndarray)
    pairs = [force[:2] for force in arrays.list_of(forces, "forces", *kinds)]
    value, error = arrays.series(pairs, (xi.size, 2), "forces").T
    if (error < 0.0).any():
        raise ValueError(f"errors of mean forces cannot be negative, got {error.min():g}")
    weights = CubicSpline(xi, np.eye(xi.size)).antiderivative()(xi)
    scaled = weights * error
    covariance = scaled @ scaled.T
    return FreeEnergy(xi, weights @ value, np.sqrt(np.diagonal(covariance)), covariance)
