"""Observables of chains: sizes, angles, stiffness, scattering, motion, temperature; and errors.

Functions of configurations take a chain and x (..., n, dim), or velocities, and keep the leading
axes.  Energies, `structure_factor` and `radial_distribution` take a system.  In series
(frames, ...) axis 0 is time in equal steps, the others are independent copies.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct
from scipy.spatial import cKDTree

from fixman._common import arrays, statistics
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, require_chain
from fixman.chains.system import System, require_model, wrapped
from fixman.errors import FrameError
from fixman.kernels.chain.rows import ANGLE, KINDS, TORSION
from fixman.potentials.binding import bead_rows, bind, named_terms
from fixman.potentials.systems import BoundSystem, require_near
from fixman.simulation import lags
from fixman.simulation.lags import CHUNK, Autocorrelation, Lagged, Mean, autocorrelation

__all__ = [
    "Autocorrelation", "Histogram", "Lagged", "Mean", "Persistence", "angles", "autocorrelation",
    "correlation_time", "degrees_of_freedom", "end_to_end", "gyration_tensor", "histogram",
    "kinetic_energy", "mean_square_displacement", "mean_square_internal_distances",
    "mean_with_error", "persistence_length", "potential_energy", "radial_density",
    "radial_distribution", "radius_of_gyration", "rouse_modes", "structure_factor", "temperature",
    "torsions",
]  # fmt: skip
__dir__ = __all__.copy  # completion shows public names alone

VECTOR = 100  # bytes of a reciprocal vector while the nearest are looked for


class Histogram(NamedTuple):
    """Probability density in bins between ``edges``, and the standard error of each."""

    edges: Array
    density: Array
    error: Array


class Persistence(NamedTuple):
    """Persistence length, from the decay of the correlations and from neighbours alone.

    ``correlation[s]`` is ⟨u_i·u_{i+s}⟩, 1 at s = 0.
    """

    decay: float
    local: float
    correlation: Array


# --- sizes ----------------------------------------------------------------------------------------


def end_to_end(chain: Chain, x: ArrayLike) -> Array:
    """Vector from the first to the last bead of a linear chain, (..., dim).

    On a fixed base it begins at the base point, which is the origin.
    """
    x = _configurations(chain, x)
    _require_linear(chain, "an end-to-end vector")
    last = x[..., -1, :]
    return last.copy() if chain.base == "fixed" else last - x[..., 0, :]


def gyration_tensor(chain: Chain, x: ArrayLike) -> Array:
    """Σ_k m_k (x_k − X)(x_k − X)ᵀ / Σ_k m_k about the centre of mass X, (..., dim, dim)."""
    x = _configurations(chain, x)
    away = x - _centre(chain, x)
    weights = (chain.masses / chain.masses.sum())[:, None]
    return np.asarray(np.einsum("...ka,...kb->...ab", weights * away, away))


def radius_of_gyration(chain: Chain, x: ArrayLike) -> Array:
    """Root of the mass-weighted mean square distance from the centre of mass, (...)."""
    square = np.trace(gyration_tensor(chain, x), axis1=-2, axis2=-1)
    return np.asarray(np.sqrt(square))[()]


def mean_square_internal_distances(chain: Chain, x: ArrayLike) -> Array:
    """⟨R²(s)⟩ = mean of |x_{k+s} − x_k|² over the beads k of a linear chain, (..., s).

    s is the distance along the chain in bonds, from 0 on; on a fixed base the base point counts as
    a bead.  O(n ln n) a frame.
    """
    x = _with_base(chain, _configurations(chain, x), "a distance along it")
    frames = x.reshape(-1, *x.shape[-2:])
    blocks = np.array_split(frames, max(1, frames.size // CHUNK))
    sums = np.concatenate([lags.square_steps(block) for block in blocks])
    return np.asarray(sums.reshape(x.shape[:-1]) / np.arange(x.shape[-2], 0, -1))


def radial_density(
    chain: Chain, x: ArrayLike, edges: ArrayLike | int = 50, *, log_weights: ArrayLike | None = None
) -> Histogram:
    """Beads per volume (area in the plane) at distances from the centre of mass.

    x is (frames, ..., n, dim); ``edges`` are radii, or the number of equal shells out to the
    farthest bead, for which densities times volumes add up to n.  Weights and errors as in
    `histogram`.
    """
    x = _configurations(chain, x)
    r = np.linalg.norm(x - _centre(chain, x), axis=-1)
    bounds = _edges(edges, r, (0.0, float(r.max(initial=0.0)) or 1.0))
    if bounds[0] < 0.0:
        raise ValueError(f"edges are radii, which are not negative, got {bounds[0]}")
    found = histogram(r, bounds, log_weights=log_weights)
    beads = chain.n * np.diff(bounds) / _shells(bounds, chain.dim)
    return Histogram(bounds, found.density * beads, found.error * beads)


def radial_distribution(
    system: System, x: ArrayLike, edges: ArrayLike | int = 50, *, between: bool = False
) -> Histogram:
    """Pair correlation g(r) in a periodic box: pairs of beads in shells over those of an ideal gas.

    ``density`` of the answer is g, with errors as in `histogram`; those of a single frame are inf.
    O(n) a frame for given radii.

    Parameters
    ----------
    x : (frames, ..., n, dim)
    edges : (shells + 1,) or int
        Radii, or how many equal shells.  The largest is half of the shortest edge of the box.
    between : bool
        Count pairs of different chains only, over all such pairs.

    TypeError without a box; ValueError without frames or pairs, or for radii that the box cannot
    have.
    """
    if not isinstance(system, System) or system.box is None:
        raise TypeError(f"system must be a fixman.System in a box, got {system!r:.80}")
    x = arrays.series(x, (system.n, system.dim), "x", 1)
    require_near(x, float(system.box.min()), "edges of the box")
    most = 0.5 * float(system.box.min())
    bounds = _edges(edges, x, (0.0, most))
    if not 0.0 <= bounds[0] < bounds[-1] <= most:
        said = f"edges are radii from 0 to half of the shortest edge of the box, {most:.6g}"
        raise ValueError(f"{said}: got {bounds[0]:.6g} to {bounds[-1]:.6g}")
    number, pairs = system.molecules()[:, None], float(system.n * (system.n - 1))
    if arrays.flag(between, "between"):
        pairs -= sum(many * one.n * (one.n - 1.0) for one, many in system.kinds)
    if not pairs:
        raise ValueError(f"{system!r} has no two beads to be counted")
    frames = x.reshape(-1, system.n, system.dim)
    counts = np.empty((len(frames), bounds.size - 1))
    for frame, row in zip(frames, counts, strict=True):
        points = wrapped(frame, system.box)
        row[:] = _pairs_in(points, system.box, bounds)
        if between:  # along one more axis chains are far from each other
            apart = np.hstack([points, 4.0 * most * number])
            row -= _pairs_in(apart, np.append(system.box, 0.0), bounds)
    counts *= system.volume / (pairs * _shells(bounds, system.dim))
    series = counts.T.reshape(-1, *x.shape[:-2])
    if series[0].size == 1:
        return Histogram(bounds, series.ravel(), np.full(len(series), np.inf))
    g, error = np.transpose([mean_with_error(one) for one in series])
    return Histogram(bounds, g, error)


def _pairs_in(points: Array, box: Array, bounds: Array) -> Array:
    """Count the ordered pairs of points in each shell."""
    tree = cKDTree(points, boxsize=box)
    counts = np.asarray(tree.count_neighbors(tree, bounds, cumulative=False), np.float64)
    return np.asarray(counts[1:])


def _shells(bounds: Array, dim: int) -> Array:
    """Volumes between spheres, or areas between circles."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        volumes = np.asarray(np.pi * np.diff(bounds**dim) * (4.0 / 3.0 if dim == 3 else 1.0))
    for k in np.flatnonzero(~((volumes > 1e-200) & (volumes < 1e200)))[:1].tolist():
        said = f"edges {bounds[k]:g} and {bounds[k + 1]:g} have a shell of volume"
        raise ValueError(f"{said} {volumes[k]:g} between them: take fewer, or other units")
    return volumes


# --- angles ---------------------------------------------------------------------------------------


def angles(chain: Chain, x: ArrayLike, beads: Any = None) -> Array:
    """Bending angles θ in radians, 0 where straight and signed in the plane, (..., angles).

    By default all of the chain's chart, then those at closures, as in `fixman.potentials`.
    """
    return _values(chain, x, beads, ANGLE, "angle")


def torsions(chain: Chain, x: ArrayLike, beads: Any = None) -> Array:
    """Torsions φ in radians, ±π at trans (IUPAC), (..., torsions).

    By default those along three bonds, and those across closures.  SingularCoordinateError where
    three beads of one are in line.
    """
    return _values(chain, x, beads, TORSION, "torsion")


def _values(chain: Chain, x: ArrayLike, beads: Any, kind: int, name: str) -> Array:
    x = _configurations(chain, x)
    table = named_terms(chain, bead_rows(beads, KINDS[kind].beads, name), kind, name)
    return chain.layout.values(table, x)


def histogram(
    values: ArrayLike, edges: ArrayLike | int = 50, *, log_weights: ArrayLike | None = None
) -> Histogram:
    """Probability density of values, with errors that know of correlations.

    Parameters
    ----------
    values : (frames, ..., items)
        All items of a frame count alike; those outside the edges count in the norm only.
    edges : (bins + 1,) or int
        Ascending, or how many equal bins between the extremes.
    log_weights : (frames, ...), optional
        Logarithms of weights, such as −½ `fixman.logdet` of a rigid simulation.
    """
    array = arrays.real(values, (), "values")
    if array.ndim < 2 or not array.size:
        raise ValueError(f"values must have shape (frames, ..., items), got {array.shape}")
    arrays.require_finite(array, array.shape, "values", "frame")
    bounds = _edges(edges, array)
    *lead, items = array.shape
    frames = array.size // items
    number = np.repeat(np.arange(frames), items)
    counts, _, _ = np.histogram2d(number, array.ravel(), (np.arange(frames + 1), bounds))
    shares = counts.reshape(*lead, -1) / (items * np.diff(bounds))
    means = [mean_with_error(one, log_weights=log_weights) for one in np.moveaxis(shares, -1, 0)]
    density, error = np.array(means).T
    return Histogram(bounds, density, error)


def _edges(edges: Any, values: Array, extremes: tuple[float, float] | None = None) -> Array:
    """Return edges that are given, or those of so many equal bins between the extremes."""
    if not arrays.taken(edges, "edges").ndim:
        bins = arrays.positive_int(edges, "edges", 8)
        if extremes is not None:
            return np.linspace(*extremes, bins + 1)
        return np.histogram_bin_edges(values, bins)
    bounds = arrays.real(edges, (), "edges")
    if bounds.ndim != 1 or bounds.size < 2:
        raise ValueError(f"edges must be a number or have shape (bins + 1,), got {bounds.shape}")
    arrays.require_finite(bounds, bounds.shape, "edges", "place")
    if not (np.diff(bounds) > 0.0).all():
        raise ValueError("edges must ascend")
    return bounds


# --- stiffness and scattering ---------------------------------------------------------------------


def persistence_length(chain: Chain, x: ArrayLike) -> Persistence:
    """Find the persistence length of a linear chain from the correlations of its bonds.

    ``decay`` is ℓ in ⟨u_i·u_{i+s}⟩ = e^(−s L/ℓ), L the mean length of bonds.  A line through the
    origin is fitted to the logarithm, weighted by the number of pairs, up to the first s where the
    logarithm is below −1, and to at least s = 2.  ``local`` is −L/ln⟨cos θ⟩; independent bends make
    both equal.  Both are 0 if ⟨cos θ⟩ ≤ 0, and inf for rods.

    All frames are averaged over.  O(n ln n) a frame, by Fourier transforms along the chain.
    """
    x = _with_base(chain, _configurations(chain, x), "a persistence length")
    steps = np.diff(x, axis=-2)
    lengths = np.linalg.norm(steps, axis=-1)
    N = lengths.shape[-1]
    if N < 2 or not lengths.size:
        raise ValueError(f"a persistence length needs at least two bonds, the chain has {N}")
    if not lengths.all():
        frame, bond = np.argwhere(lengths.reshape(-1, N) == 0.0)[0]
        where = arrays.frame_index(int(frame), lengths.shape[:-1])
        rest = ": the beads at its ends coincide"
        raise FrameError(f"bond {bond} has no direction", rest, frame=where)
    u = (steps / lengths[..., None]).reshape(-1, N, chain.dim)
    pairs = np.arange(N, 0, -1)
    blocks = np.array_split(u, max(1, u.size // CHUNK))
    power = np.sum([lags.power(block).sum(axis=0) for block in blocks], axis=0)
    correlation = lags.products(power, N) / (pairs * len(u))
    correlation = np.clip(correlation / correlation[0], -1.0, 1.0)
    length = float(lengths.mean())
    decay, local = _decay(correlation, pairs), _decay(correlation[:2], pairs[:2])
    return Persistence(decay * length, local * length, correlation)


def _decay(correlation: Array, pairs: Array) -> float:
    low = np.flatnonzero(correlation < np.exp(-1.0))
    end = max(int(low[0]) if low.size else correlation.size, 3)
    positive = np.flatnonzero(correlation[:end] <= 0.0)
    s = np.arange(1, min(end, int(positive[0]) if positive.size else end, correlation.size))
    if not s.size:
        return 0.0
    slope = -float((pairs[s] * s) @ np.log(correlation[s])) / float((pairs[s] * s) @ s)
    return 1.0 / slope if slope > 1e-15 else float("inf")


def structure_factor(
    chain: Chain | System, x: ArrayLike, q: ArrayLike, *, directions: int = 64
) -> Array:
    """Return the isotropic structure factor S(q) = ⟨|Σ_k e^(i q·x_k)|²⟩/n, (..., len(q)).

    The average runs over fixed directions of q.  It is unbiased for an ensemble without a preferred
    direction, and O(n) where Debye's double sum is O(n²).  To equal that sum for one frame of
    extent R it needs about (q R)² directions in space, q R in the plane.

    A system in a periodic box has reciprocal vectors 2π m_a/L_a.  The average then runs over those
    with lengths nearest to q: up to ``directions`` of them, and none that is more than π/(2 L), L
    the longest edge, further from q than the nearest.
    """
    x = _configurations(chain, x, many=True)
    numbers = np.atleast_1d(arrays.real(q, (), "q"))
    arrays.require_finite(numbers, numbers.shape, "q", "place")
    for name, values in (("x", x), ("q", numbers)):
        if values.size:
            arrays.series(values, (), name)  # squares that do not overflow
    if numbers.ndim != 1:
        raise ValueError(f"q must be a number or a list of numbers, got {numbers.shape}")
    count = arrays.positive_int(directions, "directions", 8 * chain.dim)
    axes = _directions(chain.dim, count)
    frames = x.reshape(-1, chain.n, chain.dim)
    frames = frames - frames.mean(axis=1, keepdims=True)  # keeps the phases small
    out = np.empty((len(frames), numbers.size))
    box = chain.box if isinstance(chain, System) else None
    for m, number in enumerate(numbers.tolist()):
        vectors = number * axes if box is None else _reciprocal(box, number, count)
        size = max(1, CHUNK // (chain.n * len(vectors)))
        for start in range(0, len(frames), size):
            phase = frames[start : start + size] @ vectors.T
            square = np.cos(phase).sum(axis=1) ** 2 + np.sin(phase).sum(axis=1) ** 2
            out[start : start + size, m] = square.mean(axis=1) / chain.n
    return out.reshape(*x.shape[:-2], numbers.size)


def _reciprocal(box: Array, q: float, most: int) -> Array:
    """Return reciprocal vectors of a box (vectors, dim) with lengths nearest to q, one of ±k."""
    unit = 2.0 * np.pi / box
    if not q >= 0.5 * unit.min():
        said = f"q = {q:g} is too small for the box: its shortest reciprocal vector has the length"
        raise ValueError(f"{said} {unit.min():.4g}")
    vectors = 4.0 * float(np.prod(2.0 * np.ceil(q / unit[:-1]) + 1.0))
    arrays.require_memory(int(VECTOR * vectors), f"some {vectors:.3g} vectors near q = {q:g}")
    ranges = [np.arange(-m, m + 1) for m in np.ceil(q / unit[:-1]).astype(int)]
    across = np.stack(np.meshgrid(*ranges), axis=-1).reshape(-1, box.size - 1)
    rest = q * q - np.sum((unit[:-1] * across) ** 2, axis=1)
    last = np.floor(np.sqrt(np.maximum(rest, 0.0)) / unit[-1])[:, None]
    m = np.concatenate([np.hstack([across, last + end]) for end in range(-1, 3)])
    order = m @ (2.0 * np.abs(m).max() + 1.0) ** np.arange(box.size)
    vectors = unit * m[order > 0.0]
    away = np.abs(np.linalg.norm(vectors, axis=1) - q)
    nearest = np.argsort(away, kind="stable")[:most]
    kept = nearest[away[nearest] <= away[nearest[0]] + 0.25 * unit.min()]
    return np.asarray(vectors[kept])


def _directions(dim: int, count: int) -> Array:
    """Return unit vectors (count, dim) over half of the sphere (Fibonacci's lattice) or circle."""
    k = np.arange(count) + 0.5
    if dim == 2:
        angle = np.pi * k / count
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    z = 1.0 - k / count
    angle = np.pi * (3.0 - np.sqrt(5.0)) * k
    radius = np.sqrt(1.0 - z * z)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), z], axis=1)


# --- motion -------------------------------------------------------------------------------------


def mean_square_displacement(
    chain: Chain,
    x: ArrayLike,
    *,
    of: Literal["beads", "relative", "centre"] = "beads",
    beads: Any = slice(None),
    interval: float = 1.0,
    longest: int | None = None,
) -> Lagged:
    """⟨|r(t) − r(0)|²⟩ against t: g₁, g₂ or g₃ of Kremer and Grest; 2 d D t of free diffusion.

    Mean over all pairs of frames, copies and beads, with errors from the scatter of copies, or of
    blocks of frames where these are less than 16.  O(frames ln frames) a bead.

    Parameters
    ----------
    x : (frames, ..., n, dim)
        Axis 0 is time in equal steps; the others are independent copies of the chain.
    of : "beads", "relative" or "centre"
        Beads (g₁), beads about the mass centre (g₂), or the mass centre (g₃).
    beads : numbers or slice
        Which beads, by default all; ``slice(n // 3, -n // 3)`` are inner ones.
    interval, longest
        As in `autocorrelation`.
    """
    require_chain(chain)
    x = arrays.series(x, (chain.n, chain.dim), "x", 1)
    arrays.require_one_of(of, "of", ("beads", "relative", "centre"))
    interval = arrays.positive(interval, "interval")
    index = beads if isinstance(beads, slice) else arrays.taken(beads, "beads")
    try:
        chosen = np.atleast_1d(np.arange(chain.n)[index])
    except (IndexError, TypeError):
        chosen = np.empty(0, dtype=np.int64)
    if chosen.ndim > 1 or not chosen.size:
        raise ValueError(f"beads must be numbers below {chain.n} or a slice, got {beads!r:.80}")
    centre = 0.0 if of == "beads" else _centre(chain, x)
    moved = np.asarray(centre) if of == "centre" else x[..., chosen, :] - centre
    points = moved.shape[-2]
    moved = moved.reshape(len(x), -1, points * chain.dim)
    rows = lags.by_groups(moved, longest, lags.square_steps) / points
    lag = interval * np.arange(rows.shape[1], dtype=np.float64)
    return Lagged(lag, rows[0], lags.jackknife(rows))


def rouse_modes(chain: Chain, x: ArrayLike) -> Array:
    """Rouse modes X_p of a free linear chain, (..., n, dim): an orthonormal cosine transform.

    X_p = √(2/n) Σ_k cos(π p (k + ½)/n) x_k, and X_0 = Σ_k x_k/√n.  Modes of a chain of harmonic
    bonds of mean square b² are independent, with ⟨X_p²⟩ = b²/(4 sin²(π p/2n)).  O(n ln n) a frame.
    """
    x = _configurations(chain, x)
    _require_linear(chain, "Rouse modes")
    if chain.base == "fixed":
        raise ValueError("Rouse modes need a free chain, and this chain has a fixed base")
    return np.asarray(dct(x, axis=-2, norm="ortho"))


# --- energies -------------------------------------------------------------------------------------


def kinetic_energy(chain: Chain | System, v: ArrayLike) -> Array:
    """½ Σ_k m_k |v_k|², (...)."""
    v = _configurations(chain, v, "v", many=True)
    with np.errstate(over="ignore"):
        found = np.asarray(0.5 * np.einsum("k,...ka,...ka->...", chain.masses, v, v))
    for frame in np.flatnonzero(~np.isfinite(found))[:1].tolist():
        raise arrays.overflow("kinetic energies", frame, found.shape)
    return found[()]


def potential_energy(chain: Chain | System, x: ArrayLike, potential: Any) -> Array:
    """U of a potential of `fixman.potentials` or of the user's own, (...)."""
    if isinstance(chain, System):
        return BoundSystem(chain, potential).energy(x)
    return bind(chain, potential, forces=False).energy(x)


def degrees_of_freedom(chain: Chain | System, conserved: int = 0) -> int:
    """Count the quadratic terms of the kinetic energy that have ½ kT each.

    n·d less the number of hard coordinates, and less ``conserved``, the number of components of
    momentum and angular momentum that are always zero: 0 for `fixman.Langevin`, d for
    `fixman.Newton` of a free chain whose centre of mass rests.
    """
    require_model(chain)
    conserved = arrays.whole(conserved, "conserved", 0)
    kinds = chain.kinds if isinstance(chain, System) else ((chain, 1),)
    if conserved and any(one.base == "fixed" for one, _ in kinds):
        raise ValueError(f"conserved={conserved}, but a fixed base takes up momentum: leave it 0")
    most = chain.dim * (chain.dim + 1) // 2  # momentum and angular momentum
    if conserved > most:
        raise ValueError(f"conserved={conserved}, but a free chain conserves at most {most}")
    free = sum(many * (one.n * one.dim - one.hard.size) for one, many in kinds) - conserved
    if free < 1:
        raise ValueError(f"no degree of freedom is left of {chain!r}: it has no temperature")
    return free


def temperature(chain: Chain | System, v: ArrayLike, conserved: int = 0) -> Array:
    """KT = 2 K / f of velocities that obey the constraints, (...), f of `degrees_of_freedom`."""
    return 2.0 * kinetic_energy(chain, v) / degrees_of_freedom(chain, conserved)


# --- errors ---------------------------------------------------------------------------------------


def correlation_time(series: ArrayLike) -> float:
    """Integrated autocorrelation time ½ + Σ_t ρ(t), in frames, of a series (frames, ...).

    It is ½ for uncorrelated frames; 2 τ frames are worth one.  The sum ends with Sokal's window.
    """
    return 0.5 * statistics.statistical_inefficiency(series)


def mean_with_error(series: ArrayLike, *, log_weights: ArrayLike | None = None) -> Mean:
    """Mean of a series (frames, ...), and its standard error with regard to correlations.

    With logarithms of weights, Σ w f / Σ w, and the error of that ratio to first order.  The error
    of a series shorter than some fifty times its `correlation_time` is too small, and so may be
    that time.
    """
    values = arrays.real(series, (), "series")
    if log_weights is None:
        error = statistics.standard_error(values)
        return Mean(float(values.mean()), error)
    logs = arrays.real(log_weights, (), "log_weights")
    if logs.shape != values.shape:
        raise ValueError(
            f"log_weights must have the series' shape {values.shape}, got {logs.shape}"
        )
    statistics.effective_size(logs)  # refuses what are no weights
    weights = np.exp(logs - logs.max())
    weights /= weights.mean()
    mean = float((weights * values).mean())
    return Mean(mean, statistics.standard_error(weights * (values - mean)))


# --- arguments ------------------------------------------------------------------------------------


def _configurations(chain: Any, x: ArrayLike, name: str = "x", *, many: bool = False) -> Array:
    require = require_model if many else require_chain
    require(chain)
    tail = (chain.n, chain.dim)
    x = arrays.real(x, tail, name)
    arrays.require_finite(x, tail, name)
    return x


def _centre(chain: Chain, x: Array) -> Array:
    """Centre of mass (..., 1, dim)."""
    weights = (chain.masses / chain.masses.sum())[:, None]
    return np.asarray((weights * x).sum(axis=-2, keepdims=True))


def _with_base(chain: Chain, x: Array, what: str) -> Array:
    """Positions along a linear chain, from its base point on if it has one."""
    _require_linear(chain, what)
    if chain.base == "free":
        return x
    return np.concatenate([np.zeros_like(x[..., :1, :]), x], axis=-2)


def _require_linear(chain: Chain, what: str) -> None:
    if not chain.layout.has_ends:
        said = f"a linear chain is needed for {what}, got {chain!r}: radius_of_gyration and "
        raise ValueError(f"{said}x[..., i, :] - x[..., j, :] work for any chain")
