"""Observables of chains: sizes, angles, stiffness, scattering, motion, temperature; and errors.

Functions of configurations take a chain and x (..., n, dim), or velocities, and keep the leading
axes.  In series (frames, ...) axis 0 is time in equal steps, the others are independent copies.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.fft import dct

from fixman._common import arrays, statistics
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, require_chain
from fixman.errors import FrameError
from fixman.kernels.chain.rows import ANGLE, KINDS, TORSION
from fixman.potentials.binding import bead_rows, bind, named_terms
from fixman.simulation import lags
from fixman.simulation.lags import CHUNK, Autocorrelation, Lagged, Mean, autocorrelation

__all__ = [
    "Autocorrelation",
    "Histogram",
    "Lagged",
    "Mean",
    "Persistence",
    "angles",
    "autocorrelation",
    "correlation_time",
    "degrees_of_freedom",
    "end_to_end",
    "gyration_tensor",
    "histogram",
    "kinetic_energy",
    "mean_square_displacement",
    "mean_square_internal_distances",
    "mean_with_error",
    "persistence_length",
    "potential_energy",
    "radial_density",
    "radius_of_gyration",
    "rouse_modes",
    "structure_factor",
    "temperature",
    "torsions",
]
__dir__ = __all__.copy  # completion shows public names alone

Moving = Literal["beads", "relative", "centre"]


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
    chain: Chain,
    x: ArrayLike,
    edges: ArrayLike | int = 50,
    *,
    log_weights: ArrayLike | None = None,
) -> Histogram:
    """Beads per volume (area in the plane) at distances from the centre of mass.

    x is (frames, ..., n, dim); ``edges`` are radii, or the number of equal shells out to the
    farthest bead, for which densities times volumes add up to n.  Weights and errors as in
    `histogram`.
    """
    x = _configurations(chain, x)
    r, bounds = np.linalg.norm(x - _centre(chain, x), axis=-1), _edges(edges)
    if isinstance(bounds, int):
        bounds = np.linspace(0.0, float(r.max(initial=0.0)) or 1.0, bounds + 1)
    if bounds[0] < 0.0:
        raise ValueError(f"edges are radii, which are not negative, got {bounds[0]}")
    found = histogram(r, bounds, log_weights=log_weights)
    volumes = np.pi * np.diff(bounds**chain.dim) * (4.0 / 3.0 if chain.dim == 3 else 1.0)
    beads = chain.n * np.diff(bounds) / volumes
    return Histogram(bounds, found.density * beads, found.error * beads)


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
    bounds = np.histogram_bin_edges(array, _edges(edges))
    bins = bounds.size - 1
    lead = array.shape[:-1]
    place = np.searchsorted(bounds, array, side="right") - 1
    place[array == bounds[-1]] = bins - 1  # the last bin is closed
    outside = (place < 0) | (place >= bins)
    frame = np.arange(int(np.prod(lead))).reshape(*lead, 1)
    flat = np.where(outside, frame.size * bins, frame * bins + place).ravel()
    counts = np.bincount(flat, minlength=frame.size * bins + 1)[:-1].reshape(*lead, bins)
    widths = np.diff(bounds)
    shares = counts / (array.shape[-1] * widths)
    means = [mean_with_error(shares[..., k], log_weights=log_weights) for k in range(bins)]
    density, error = np.array(means).T
    return Histogram(bounds, density, error)


def _edges(edges: Any) -> Any:
    if not arrays.taken(edges, "edges").ndim:
        return arrays.positive_int(edges, "edges", 8)
    bounds = arrays.real(edges, (), "edges")
    if bounds.ndim != 1 or bounds.size < 2:
        raise ValueError(
            f"edges must be a number of bins or have shape (bins + 1,), got {bounds.shape}"
        )
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
    return Persistence(
        _decay(correlation, pairs) * length,
        _decay(correlation[:2], pairs[:2]) * length,
        correlation,
    )


def _decay(correlation: Array, pairs: Array) -> float:
    low = np.flatnonzero(correlation < np.exp(-1.0))
    end = max(int(low[0]) if low.size else correlation.size, 3)
    positive = np.flatnonzero(correlation[:end] <= 0.0)
    s = np.arange(1, min(end, int(positive[0]) if positive.size else end, correlation.size))
    if not s.size:
        return 0.0
    slope = -float((pairs[s] * s) @ np.log(correlation[s])) / float((pairs[s] * s) @ s)
    return 1.0 / slope if slope > 1e-15 else float("inf")


def structure_factor(chain: Chain, x: ArrayLike, q: ArrayLike, *, directions: int = 64) -> Array:
    """Return the isotropic structure factor S(q) = ⟨|Σ_k e^(i q·x_k)|²⟩/n, (..., len(q)).

    The average runs over fixed directions of q.  It is unbiased for an ensemble without a preferred
    direction, and O(n) where Debye's double sum is O(n²).  To equal that sum for one frame of
    extent R it needs about (q R)² directions in space, q R in the plane.
    """
    x = _configurations(chain, x)
    numbers = np.atleast_1d(arrays.real(q, (), "q"))
    arrays.require_finite(numbers, numbers.shape, "q", "place")
    if numbers.ndim != 1:
        raise ValueError(f"q must be a number or a list of numbers, got {numbers.shape}")
    axes = _directions(chain.dim, arrays.positive_int(directions, "directions", 8 * chain.dim))
    frames = x.reshape(-1, chain.n, chain.dim)
    frames = frames - frames.mean(axis=1, keepdims=True)  # keeps the phases small
    out = np.empty((len(frames), numbers.size))
    size = max(1, CHUNK // (chain.n * len(axes)))
    for start in range(0, len(frames), size):
        along = frames[start : start + size] @ axes.T
        for m, number in enumerate(numbers):
            phase = number * along
            square = np.cos(phase).sum(axis=1) ** 2 + np.sin(phase).sum(axis=1) ** 2
            out[start : start + size, m] = square.mean(axis=1) / chain.n
    return out.reshape(*x.shape[:-2], numbers.size)


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
    of: Moving = "beads",
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


def kinetic_energy(chain: Chain, v: ArrayLike) -> Array:
    """½ Σ_k m_k |v_k|², (...)."""
    v = _configurations(chain, v, "v")
    return np.asarray(0.5 * np.einsum("k,...ka,...ka->...", chain.masses, v, v))[()]


def potential_energy(chain: Chain, x: ArrayLike, potential: Any) -> Array:
    """U of a potential of `fixman.potentials` or of the user's own, (...)."""
    return bind(chain, potential, forces=False).energy(x)


def degrees_of_freedom(chain: Chain, conserved: int = 0) -> int:
    """Count the quadratic terms of the kinetic energy that have ½ kT each.

    n·d less the number of hard coordinates, and less ``conserved``, the number of components of
    momentum and angular momentum that are always zero: 0 for `fixman.Langevin`, d for
    `fixman.Newton` of a free chain whose centre of mass rests.
    """
    require_chain(chain)
    conserved = arrays.whole(conserved, "conserved", 0)
    if chain.base == "fixed" and conserved:
        raise ValueError(f"conserved={conserved}, but a fixed base takes up momentum: leave it 0")
    most = chain.dim * (chain.dim + 1) // 2  # momentum and angular momentum
    if conserved > most:
        raise ValueError(f"conserved={conserved}, but a free chain conserves at most {most}")
    free = chain.n * chain.dim - chain.hard.size - conserved
    if free < 1:
        raise ValueError(f"no degree of freedom is left of {chain!r}: it has no temperature")
    return free


def temperature(chain: Chain, v: ArrayLike, conserved: int = 0) -> Array:
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


def _configurations(chain: Chain, x: ArrayLike, name: str = "x") -> Array:
    require_chain(chain)
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
        raise ValueError(
            f"a linear chain is needed for {what}, got {chain!r}: radius_of_gyration and "
            "x[..., i, :] - x[..., j, :] work for any chain"
        )
