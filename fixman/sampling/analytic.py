"""Closed forms and quadratures that any code for constrained chains can be tested against.

Nothing here uses the chains of the rest of the library, and arguments are angles and cosines rather
than configurations.  Bonds have length 1 unless an argument says otherwise; bending angles are 0
where the chain is straight, torsions 0 at cis.  Whole arrays are welcome where a shape begins with
dots.

The rigid ensemble is that of constraints, the stiff one that of equally stiff springs in their
place (theory.md section 4).  Overdamped dynamics with constraints samples neither, but
√det B K Bᵀ with the mobilities K: give functions of ``masses`` the friction coefficients instead.
``masses`` are one number or one for each bead that moves, and a chain of N bonds has N + 1 of them
if it is free, N on a fixed base.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import SingularConstraintError
from fixman.sampling import transfer
from fixman.sampling.dumbbell import (
    dumbbell_normal_stress,
    dumbbell_orientation,
    dumbbell_viscosity,
)

__all__ = [
    "bend_cumulative",
    "bend_density",
    "dumbbell_normal_stress",
    "dumbbell_orientation",
    "dumbbell_viscosity",
    "four_beads_density",
    "four_beads_logdet",
    "four_beads_mean_cosine",
    "freely_jointed_logdet",
    "mean_fourth_end_to_end",
    "mean_square_cosines",
    "mean_square_end_to_end",
    "mean_square_gyration",
    "mean_square_products",
    "trimer_cumulative",
    "trimer_density",
    "zero_shear_viscosity",
]

Base = Literal["free", "fixed"]
Ensemble = Literal["rigid", "stiff"]

RIGHT_ANGLE = float(np.pi / 2)


# --- bonds hard: determinants ----------------------------------------------------------------


def freely_jointed_logdet(
    cosines: ArrayLike, *, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """ln det H^bb of a chain with hard bonds from the cosines of its bends, (..., bends) → (...).

    Σ ln d_k, where d_k = w_k + e_k and e_k = w_{k−1} (e_{k−1} + w_{k−1} s_k²)/d_{k−1}, with the
    inverse mass w_k of the bead that ends bond k, starting from e_1 = w_0, which is 0 for a base.
    This is Gaussian elimination of the tridiagonal H^bb without a subtraction.

    Bonds are one more than bends.  Their lengths and the torsions do not enter.  O(bends).  Where
    all bend by one angle, for unit masses and s = √(1 − c²), det H^bb of N bonds is
    ((1 + s)^(N+1) − (1 − s)^(N+1))/2s for a free chain and ((1 + s)^N + (1 − s)^N)/2 on a fixed
    base: N + 1 and 1 if they are straight, 2^N and 2^(N−1) at right angles.

    Raises
    ------
    ValueError
        For cosines beyond ±1 and for bad masses.
    """
    c = _cosine(cosines, "cosines")
    if not c.ndim:
        raise ValueError("cosines must have shape (..., bends), got ()")
    w = _inverse_masses(masses, c.shape[-1] + 1, base)
    e = np.full(c.shape[:-1], w[0])
    d = w[1] + e
    total = np.log(d)
    for k in range(c.shape[-1]):
        square = (1.0 - c[..., k]) * (1.0 + c[..., k])
        e = w[k + 1] * (e + w[k + 1] * square) / d
        d = w[k + 2] + e
        total = total + np.log(d)
    return _number(total)


# --- bonds hard: distributions ---------------------------------------------------------------


def trimer_density(
    theta: ArrayLike,
    *,
    dim: int = 3,
    masses: ArrayLike = 1.0,
    base: Base = "free",
    ensemble: Ensemble = "rigid",
) -> Array:
    """Probability density of the bend between two hard bonds, per radian, (...) → (...).

    Rigid: ∝ sin^(d−2) θ √((w₀ + w₁)(w₁ + w₂) − w₁² cos² θ), with w₀ = 0 on a fixed base; stiff:
    without the root (Fixman 1974).  The norm is an arcsine in space, an elliptic integral in the
    plane.  θ runs from 0 to π in space, from −π to π in the plane.  In space the density of cos θ
    is this divided by sin θ.

    Raises
    ------
    ValueError
        For angles outside and for bad masses.
    """
    m, rest = _coupling(dim, masses, base, ensemble)
    t = _within(theta, -np.pi if dim == 2 else 0.0, np.pi, "theta")
    root = np.sqrt(rest + m * np.sin(t) ** 2)
    if dim == 2:
        return _number(root / (4.0 * special.ellipe(m)))
    return _number(np.sin(t) * root / _arc(1.0, m, rest))


def trimer_cumulative(
    theta: ArrayLike,
    *,
    dim: int = 3,
    masses: ArrayLike = 1.0,
    base: Base = "free",
    ensemble: Ensemble = "rigid",
) -> Array:
    """Probability that the bend is at most theta: the integral of `trimer_density`, (...) → (...).

    For the contents of bins and for the test of Kolmogorov and Smirnov.  Arguments and errors are
    those of `trimer_density`.
    """
    m, rest = _coupling(dim, masses, base, ensemble)
    t = _within(theta, -np.pi if dim == 2 else 0.0, np.pi, "theta")
    if dim == 2:
        whole = special.ellipe(m)
        part = whole - special.ellipeinc(RIGHT_ANGLE - np.abs(t), m)
        return _number(0.5 + np.sign(t) * part / (4.0 * whole))
    return _number(0.5 - 0.5 * _arc(np.cos(t), m, rest) / _arc(1.0, m, rest))


def mean_square_cosines(
    bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """⟨cos² θ⟩ of every bend of a freely jointed chain in the rigid ensemble, (bonds − 1,).

    In the stiff ensemble it is 1/d.  For two bonds it is, with κ² = w₁²/((w₀ + w₁)(w₁ + w₂)),
    ₂F₁(−½, 3/2; d/2 + 1; κ²)/(d ₂F₁(−½, ½; d/2; κ²)): (2π/3 − √3/2)/(2π/3 + √3) for equal masses in
    space.  For more, √det H^bb is the product of the roots of the pivots, and a pivot depends on
    the one before and the bend between, so that averages are products of integral operators on
    functions of one pivot.

    Accurate to about 1e-12.  O(bonds): 15 µs a bond for equal masses, 1 to 4 ms a bond where all
    differ.

    Raises
    ------
    ValueError
        For bad masses, and where neighbours differ so much (a thousandfold) that the quadrature
        does not converge.

    Examples
    --------
    >>> from fixman import analytic
    >>> analytic.mean_square_cosines(4).round(6)
    array([0.319554, 0.318223, 0.319554])
    """
    w = _freely_jointed(bonds, dim, masses, base)
    if w.size == 3:
        m, _ = _coupling(dim, masses, base, "rigid")
        above, below = special.hyp2f1(-0.5, [1.5, 0.5], [dim / 2 + 1, dim / 2], m)
        return np.array([above / below / dim])
    return _settled(transfer.square_cosines, w, dim)


def mean_square_products(
    bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """⟨cos² θ_j cos² θ_k⟩ of a freely jointed chain in the rigid ensemble, (bonds − 1, bonds − 1).

    The diagonal is ⟨cos⁴ θ⟩.  Less the product of the averages it is what bends know of each other.

    Accuracy and errors are those of `mean_square_cosines`.  O(bonds²).
    """
    return _settled(transfer.square_products, _freely_jointed(bonds, dim, masses, base), dim)


def bend_density(
    theta: ArrayLike, bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """Probability density of every bend of a freely jointed chain in the rigid ensemble, a radian.

    (...) → (..., bonds − 1).  `trimer_density` for any number of bonds: θ runs from 0 to π in
    space, where the density of cos θ is this divided by sin θ, and from −π to π in the plane.  It
    is an even polynomial in cos θ, with 12 digits, times sin^(d−2) θ.  In the stiff ensemble it is
    ½ sin θ or 1/2π.

    Accurate to about 1e-11.  O(bonds), 1 ms a bond, and as many polynomials of each θ.

    Raises
    ------
    ValueError
        For angles outside, and as `mean_square_cosines`.
    """
    series = _bend_series(bonds, dim, masses, base)
    t = _within(theta, -np.pi if dim == 2 else 0.0, np.pi, "theta")
    # T_m(2c² − 1) = T_2m(c), and that is cos 2mθ.
    even = np.polynomial.chebyshev.chebval(2.0 * np.cos(t) ** 2 - 1.0, series.T)
    return _number(np.moveaxis(even * np.sin(t) ** (dim - 2), 0, -1))


def bend_cumulative(
    theta: ArrayLike, bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """Probability that each bend is at most theta: the integral of `bend_density`.

    (...) → (..., bonds − 1).  For the test of Kolmogorov and Smirnov.  Arguments and errors are
    those of `bend_density`.
    """
    series = _bend_series(bonds, dim, masses, base)
    t = _within(theta, -np.pi if dim == 2 else 0.0, np.pi, "theta")
    if dim == 2:  # ∫ cos 2mθ dθ
        total = np.multiply.outer(series[:, 0], t + np.pi)
        for m in range(1, series.shape[1]):
            total += np.multiply.outer(series[:, m], np.sin(2 * m * t) / (2 * m))
    else:
        terms = np.zeros((2 * series.shape[1], len(series)))
        terms[::2] = series.T
        whole = np.polynomial.chebyshev.chebint(terms, lbnd=-1.0)
        total = 1.0 - np.polynomial.chebyshev.chebval(np.cos(t), whole)
    return _number(np.moveaxis(np.clip(total, 0.0, 1.0), 0, -1))


# --- four beads, bonds and angles hard -------------------------------------------------------


def four_beads_logdet(torsion: ArrayLike, angle: ArrayLike = RIGHT_ANGLE) -> Array:
    """ln det H^bb of four unit masses with hard unit bonds and two hard angles θ, (...) → (...).

    With c = cos θ, p = 1 − cos φ and q = 1 + cos φ

        det H^bb = 2 [2 + (1 + c) p (4 − 2c − (1 − c) p)] [4 + (1 + c) q (4 − (1 − c) q)] ,

    one factor for what is even and one for what is odd when the chain is numbered backwards; from
    the 5 × 5 determinant.  At right angles it is 2 (35 − 4 cos φ − 16 cos² φ + cos⁴ φ), largest at
    φ = ±97.195°, 82.805° from trans.  Masses m add −5 ln m and bonds of length L add −4 ln L.

    Raises
    ------
    SingularConstraintError
        If an angle is not between 0 and π: it could not be held.
    """
    phi, theta = arrays.real(torsion, (), "torsion"), arrays.real(angle, (), "angle")
    arrays.common_lead(phi.shape, theta.shape)
    arrays.require_finite(phi.ravel(), (phi.size,), "torsion", "place")
    held = (theta > 0.0) & (theta < np.pi)
    if not held.all():
        raise SingularConstraintError(
            f"an angle of {theta[~held][0]} cannot be held: it must lie above 0 and below π"
        )
    c, p, q = np.cos(theta), 2.0 * np.sin(phi / 2.0) ** 2, 2.0 * np.cos(phi / 2.0) ** 2
    even = 2.0 + (1.0 + c) * p * (4.0 - 2.0 * c - (1.0 - c) * p)
    odd = 4.0 + (1.0 + c) * q * (4.0 - (1.0 - c) * q)
    return _number(np.log(2.0 * even * odd))


def four_beads_density(
    torsion: ArrayLike, angle: ArrayLike = RIGHT_ANGLE, *, ensemble: Ensemble = "rigid"
) -> Array:
    """Probability density of the torsion of `four_beads_logdet`, per radian, (...) → (...).

    Rigid: ∝ √det H^bb over the full circle; stiff: uniform.  Errors are those of
    `four_beads_logdet`.
    """
    _require(ensemble=ensemble)
    root = np.exp(0.5 * four_beads_logdet(torsion, angle))
    if ensemble == "stiff":
        return _number(np.full(root.shape, 0.5 / np.pi))
    return _number(root / _over_the_circle(angle)[0])


def four_beads_mean_cosine(angle: ArrayLike = RIGHT_ANGLE) -> Array:
    """⟨cos φ⟩ of the torsion of `four_beads_logdet` in the rigid ensemble, (...) → (...).

    −0.040038 at right angles: trans is likelier than cis.  In the stiff ensemble it is 0.  Errors
    are those of `four_beads_logdet`.
    """
    whole, first = _over_the_circle(angle)
    return _number(first / whole)


def _over_the_circle(angle: ArrayLike) -> tuple[Array, Array]:
    """∫ √det dφ and ∫ √det cos φ dφ by the trapezoid rule.

    The determinant vanishes nowhere nearer than cos φ = ±1.5, that is |Im φ| = 0.96: with 96 points
    the error is e^(−0.96·96).
    """
    phi = np.arange(96) * (np.pi / 48.0)
    root = np.exp(0.5 * four_beads_logdet(phi, arrays.real(angle, (), "angle")[..., None]))
    return root.sum(-1) * (np.pi / 48.0), root @ np.cos(phi) * (np.pi / 48.0)


# --- sizes -----------------------------------------------------------------------------------


def mean_square_end_to_end(bonds: int, *, cosine: ArrayLike = 0.0, length: float = 1.0) -> Array:
    """⟨R²⟩ = L² Σ_ij c^|i−j| of N equal bonds, c the mean cosine of a bend, (...) → (...).

    Freely jointed, c = 0: N L², rigid and stiff alike, whatever the masses.  Freely rotating, bends
    hard: the stiff ensemble only, where torsions are uniform and independent.  Soft bends in a
    potential of their own: the stiff ensemble, with their ⟨cos θ⟩.

    The sum is N L² [(1 + c)/(1 − c) − 2c (1 − c^N)/(N (1 − c)²)], which loses digits near c = 1.
    O(bonds).
    """
    return _number(_squares(bonds, cosine, length)[..., -1])


def mean_fourth_end_to_end(
    bonds: int,
    *,
    length: float = 1.0,
    dim: int = 3,
    masses: ArrayLike = 1.0,
    base: Base = "free",
    ensemble: Ensemble = "rigid",
) -> float:
    """⟨R⁴⟩ of N equal freely jointed bonds.

    Stiff: L⁴ N (N + 2 (N − 1)/d), whatever the masses.  Rigid: the density is even in every
    cosine, so that ⟨R²⟩, ⟨R_g²⟩ and all ⟨u_i·u_j⟩ are those of the stiff ensemble, and ⟨R⁴⟩ is the
    first average of R that differs.  With R and u the end and the direction of k bonds, R² and
    q = R·u, the next bond L u′ makes it R⁴ + 2 R² L² + 4 L² (R·u′)² + L⁴ on average, where

        ⟨(R·u′)²⟩ = c² q² + s² (R² − q²)/(d − 1) ,

    c and s of the bend: integrals of R⁴, R², q² and 1, as rows on functions of the pivot, go from
    bond to bond by two transfer operators.

    Accuracy relative to the answer, cost and errors are those of `mean_square_cosines`.
    """
    _require(dim, base, ensemble)
    N = arrays.positive_int(bonds, "bonds", 8)
    w = _inverse_masses(masses, N, base)
    scale = _length(length) ** 4
    if ensemble == "stiff" or N == 1:
        return scale * N * (N + 2.0 * (N - 1.0) / dim)
    return scale * float(_settled(transfer.fourth_end_to_end, w, dim))


def mean_square_gyration(bonds: int, *, cosine: ArrayLike = 0.0, length: float = 1.0) -> Array:
    """⟨R_g²⟩ of N + 1 beads about their mean position, each counted once, (...) → (...).

    Lagrange's Σ_{i<j} ⟨R²_{j−i}⟩/(N + 1)², the ⟨R²⟩ of j − i bonds being that of
    `mean_square_end_to_end`, for the same ensembles.  Freely jointed: L² N (N + 2)/(6 (N + 1)).
    O(bonds).
    """
    squares = _squares(bonds, cosine, length)
    N = squares.shape[-1]
    return _number(squares @ np.arange(N, 0.0, -1.0) / (N + 1.0) ** 2)


def _squares(bonds: int, cosine: ArrayLike, length: float) -> Array:
    """⟨R²⟩ of 1 to N bonds, (..., N): the next bond adds L² (1 + 2 Σ_k c^k)."""
    N = arrays.positive_int(bonds, "bonds", 8)
    c = _cosine(cosine, "cosine")
    scale = _length(length)
    added = np.ones((*c.shape, N))
    added[..., 1:] += 2.0 * np.cumsum(c[..., None] ** np.arange(1, N), axis=-1)
    answer: Array = scale**2 * np.cumsum(added, axis=-1)
    return answer


# --- rheology --------------------------------------------------------------------------------


def zero_shear_viscosity(beads: int, *, dim: int = 3) -> float:
    """η/(ζ a²) of one freely jointed chain of equal frictions ζ at rest: (N² − 1)/(12 d).

    ½ Σ ζ⟨(y − Y)²⟩ = ½ ζ N R_g²/d, so that the ensemble does not matter; (N² − 1)/36 in space
    (Kramers 1946).  This is what chains add to a solution, over their number in a volume.
    """
    _require(dim)
    N = arrays.positive_int(beads, "beads")
    return (N * N - 1) / (12.0 * dim)


# --- arguments -------------------------------------------------------------------------------


def _freely_jointed(bonds: int, dim: int, masses: ArrayLike, base: Base) -> Array:
    """Inverse masses (bonds + 1,) of a chain with a bend."""
    _require(dim, base)
    N = arrays.positive_int(bonds, "bonds", 8)
    if N < 2:
        raise ValueError(f"bonds must be at least 2, one bond has no bend, got {bonds}")
    return _inverse_masses(masses, N, base)


def _bend_series(bonds: int, dim: int, masses: ArrayLike, base: Base) -> Array:
    w = _freely_jointed(bonds, dim, masses, base)
    first = transfer.ORDERS[0]
    return _settled(transfer.bend_series, w, dim, lambda series: series[:, :first])


def _settled(
    compute: Callable[[Array, transfer.Grid], Array],
    w: Array,
    dim: int,
    watched: Callable[[Array], Array] = np.asarray,
) -> Array:
    """Compute on finer grids until the answer is known."""
    return transfer.settled(
        lambda order: compute(w, transfer.grid_of(order, dim)), watched, 1.0 / w[w > 0.0]
    )


def _coupling(dim: int, masses: ArrayLike, base: Base, ensemble: Ensemble) -> tuple[float, float]:
    """κ² and 1 − κ²: the determinant of a trimer is ∝ 1 − κ² cos² θ.  Stiff is κ = 0."""
    _require(dim, base, ensemble)
    w0, w1, w2 = _inverse_masses(masses, 2, base)
    if ensemble == "stiff":
        return 0.0, 1.0
    left, right = w1 / (w0 + w1), w1 / (w1 + w2)
    return float(left * right), float(w0 / (w0 + w1) + left * (w2 / (w1 + w2)))


def _arc(c: Any, m: float, rest: float) -> Any:
    """Twice the integral of √(1 − m c²) from 0 to c, where rest = 1 − m."""
    k = np.sqrt(m)
    straight = np.arcsin(k * c) / k if m > 0.0 else c
    return c * np.sqrt(rest + m * (1.0 - c * c)) + straight


def _inverse_masses(masses: ArrayLike, bonds: int, base: Base) -> Array:
    """Return w (bonds + 1,), that of a base first."""
    _require(base=base)
    if base == "fixed":
        return np.concatenate([[0.0], 1.0 / arrays.masses(masses, bonds)])
    return 1.0 / arrays.masses(masses, bonds + 1)


def _length(value: Any) -> float:
    scale = arrays.real(value, (), "length")
    if scale.ndim or not 1e-100 <= scale <= 1e100:
        raise ValueError(f"length must be one number within 1e±100, got {value!r}")
    return float(scale)


def _cosine(value: ArrayLike, name: str) -> Array:
    slack = 1e-12  # scalar products of unit vectors overshoot by rounding
    return np.clip(_within(value, -1.0 - slack, 1.0 + slack, name), -1.0, 1.0)


def _within(value: ArrayLike, low: float, high: float, name: str) -> Array:
    array = arrays.real(value, (), name)
    inside = (array >= low) & (array <= high)  # false for NaN
    if not inside.all():
        found = array[~inside][0]
        raise ValueError(f"{name} must lie between {low:.6g} and {high:.6g}, got {found}")
    return array


def _number(array: Any) -> Array:
    answer: Array = np.asarray(array)[()]
    return answer


def _require(dim: Any = 3, base: Any = "free", ensemble: Any = "rigid") -> None:
    arrays.require_space(dim, base)
    arrays.require_one_of(ensemble, "ensemble", ("rigid", "stiff"))
