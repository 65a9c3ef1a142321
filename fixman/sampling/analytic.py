"""Closed forms and quadratures, to test any code for constrained chains.

Arguments are angles and cosines, not configurations.  Bonds have length 1 unless an argument says
otherwise; bending angles are 0 where the chain is straight, torsions 0 at cis.  Arguments whose
shape begins with dots may be arrays.

The rigid ensemble is that of constraints, the stiff one that of equally stiff springs in their
place (theory.md section 4).  Overdamped dynamics with constraints samples √det B K Bᵀ with the
mobilities K: for it, give friction coefficients as ``masses``.  ``masses`` are one number or one
for each bead that moves: N + 1 for N bonds of a free chain, N on a fixed base.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse, special
from scipy.sparse.linalg import splu

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import SingularConstraintError
from fixman.sampling import transfer

__all__ = [
    "bend_cumulative", "bend_density", "dumbbell_normal_stress", "dumbbell_orientation",
    "dumbbell_viscosity", "four_beads_density", "four_beads_logdet", "four_beads_mean_cosine",
    "freely_jointed_logdet", "mean_fourth_end_to_end", "mean_square_cosines",
    "mean_square_end_to_end", "mean_square_gyration", "mean_square_products",
    "trimer_cumulative", "trimer_density", "zero_shear_viscosity",
]  # fmt: skip
__dir__ = __all__.copy  # completion shows public names alone

Base = Literal["free", "fixed"]
Ensemble = Literal["rigid", "stiff"]

RIGHT_ANGLE = float(np.pi / 2)
HARMONICS = (8, 16, 32, 64, 128, 256, 512)  # largest degrees: one after the other until two agree
AGREE_HARMONICS = 1e-6  # then below 1e-12: digits double, and more
FASTEST = 1e4  # Weissenberg number of which the largest degrees agree


# --- bonds hard ------------------------------------------------------------------------------


def freely_jointed_logdet(
    cosines: ArrayLike, *, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """ln det H^bb of a chain with hard bonds from the cosines of its bends, (..., bends) → (...).

    Elimination of the tridiagonal H^bb without a subtraction (theory.md section 3), O(bends); there
    is one bond more than bends, and lengths and torsions do not matter.  If all bends are equal and
    masses 1, det H^bb of N bonds is ((1 + s)^(N+1) − (1 − s)^(N+1))/2s with s² = 1 − c², on a fixed
    base ((1 + s)^N + (1 − s)^N)/2.
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
    without the root (Fixman 1974).  θ runs from 0 to π in space, where the density of cos θ is this
    divided by sin θ, and from −π to π in the plane.  ValueError for other angles.
    """
    m, rest = _coupling(dim, masses, base, ensemble)
    t = _bends(theta, dim)
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
    """Probability that the bend is at most theta, (...) → (...): integral of `trimer_density`."""
    m, rest = _coupling(dim, masses, base, ensemble)
    t = _bends(theta, dim)
    if dim == 2:
        whole = special.ellipe(m)
        part = whole - special.ellipeinc(RIGHT_ANGLE - np.abs(t), m)
        return _number(0.5 + np.sign(t) * part / (4.0 * whole))
    return _number(0.5 - 0.5 * _arc(np.cos(t), m, rest) / _arc(1.0, m, rest))


def mean_square_cosines(
    bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """⟨cos² θ⟩ of every bend of a freely jointed chain in the rigid ensemble, (bonds − 1,).

    In the stiff ensemble it is 1/d.  For two bonds it is
    ₂F₁(−½, 3/2; d/2 + 1; κ²)/(d ₂F₁(−½, ½; d/2; κ²)) with κ² = w₁²/((w₀ + w₁)(w₁ + w₂)):
    (2π/3 − √3/2)/(2π/3 + √3) for equal masses in space.  For more bonds it is a product of integral
    operators (`fixman.sampling.transfer`), accurate to about 1e-12.  O(bonds): 15 µs a bond for
    equal masses, 1 to 4 ms a bond where all differ.  ValueError where neighbours differ so much in
    mass (a thousandfold) that the quadrature does not converge.

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
    return _on_finer_grids(transfer.square_cosines, w, dim)


def mean_square_products(
    bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """⟨cos² θ_j cos² θ_k⟩ of a freely jointed chain in the rigid ensemble, (bonds − 1, bonds − 1).

    The diagonal is ⟨cos⁴ θ⟩.  Accuracy and errors are those of `mean_square_cosines`.  O(bonds²).
    """
    return _on_finer_grids(transfer.square_products, _freely_jointed(bonds, dim, masses, base), dim)


def bend_density(
    theta: ArrayLike, bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """Probability density of every bend of a freely jointed chain in the rigid ensemble, a radian.

    (...) → (..., bonds − 1): `trimer_density` for any number of bonds.  In the stiff ensemble it is
    ½ sin θ or 1/2π.  Accurate to about 1e-11.  O(bonds), 1 ms a bond.
    """
    series = _bend_series(bonds, dim, masses, base)
    t = _bends(theta, dim)
    # T_m(2c² − 1) = T_2m(c), and that is cos 2mθ.
    even = np.polynomial.chebyshev.chebval(2.0 * np.cos(t) ** 2 - 1.0, series.T)
    return _number(np.moveaxis(even * np.sin(t) ** (dim - 2), 0, -1))


def bend_cumulative(
    theta: ArrayLike, bonds: int, *, dim: int = 3, masses: ArrayLike = 1.0, base: Base = "free"
) -> Array:
    """Probability that each bend is at most theta, (...) → (..., bonds − 1), as `bend_density`."""
    series = _bend_series(bonds, dim, masses, base)
    t = _bends(theta, dim)
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

    one factor of the modes that are even under reversal of the chain, one of the odd:
    2 (35 − 4 cos φ − 16 cos² φ + cos⁴ φ) at right angles.  Masses m add −5 ln m and bonds of length
    L add −4 ln L.  SingularConstraintError for angles that are not between 0 and π.
    """
    phi, theta = _finite(torsion, "torsion"), arrays.real(angle, (), "angle")
    arrays.common_lead(phi.shape, theta.shape)
    held = (theta > 0.0) & (theta < np.pi)
    if not held.all():
        said = f"an angle of {theta[~held][0]} cannot be held"
        raise SingularConstraintError(f"{said}: it must lie above 0 and below π")
    c, p, q = np.cos(theta), 2.0 * np.sin(phi / 2.0) ** 2, 2.0 * np.cos(phi / 2.0) ** 2
    even = 2.0 + (1.0 + c) * p * (4.0 - 2.0 * c - (1.0 - c) * p)
    odd = 4.0 + (1.0 + c) * q * (4.0 - (1.0 - c) * q)
    return _number(np.log(2.0 * even * odd))


def four_beads_density(
    torsion: ArrayLike, angle: ArrayLike = RIGHT_ANGLE, *, ensemble: Ensemble = "rigid"
) -> Array:
    """Probability density of the torsion of `four_beads_logdet`, per radian, (...) → (...)."""
    _require(ensemble=ensemble)
    root = np.exp(0.5 * four_beads_logdet(torsion, angle))
    if ensemble == "stiff":
        return _number(np.full(root.shape, 0.5 / np.pi))
    return _number(root / _over_the_circle(angle)[0])


def four_beads_mean_cosine(angle: ArrayLike = RIGHT_ANGLE) -> Array:
    """⟨cos φ⟩ of `four_beads_logdet`, rigid, (...) → (...): −0.040038 at right angles."""
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

    For freely jointed bonds, c = 0, it is N L² in both ensembles, for any masses.  For hard bends,
    or soft bends in independent potentials with ⟨cos θ⟩ = c, it holds in the stiff ensemble only.
    The sum is N L² [(1 + c)/(1 − c) − 2c (1 − c^N)/(N (1 − c)²)].  O(bonds).
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

    Stiff: L⁴ N (N + 2 (N − 1)/d), for any masses.  Rigid: the lowest moment of R that differs,
    since the density is even in every cosine.  R is the end vector of k bonds, u the direction of
    the last, and q = R·u.  The next bond L u′ turns R⁴ into R⁴ + 2 R² L² + 4 L² (R·u′)² + L⁴ on
    average, where

        ⟨(R·u′)²⟩ = c² q² + s² (R² − q²)/(d − 1) ,

    with c and s of the bend.  Two transfer operators carry integrals of R⁴, R², q² and 1 from bond
    to bond.  Relative accuracy, cost and errors are those of `mean_square_cosines`.
    """
    _require(dim, base, ensemble)
    N = arrays.positive_int(bonds, "bonds", 8)
    w = _inverse_masses(masses, N, base)
    scale = arrays.positive(length, "length") ** 4
    if ensemble == "stiff" or N == 1:
        return scale * N * (N + 2.0 * (N - 1.0) / dim)
    return scale * float(_on_finer_grids(transfer.fourth_end_to_end, w, dim))


def mean_square_gyration(bonds: int, *, cosine: ArrayLike = 0.0, length: float = 1.0) -> Array:
    """⟨R_g²⟩ of N + 1 beads about their mean position, each counted once, (...) → (...).

    Lagrange's Σ_{i<j} ⟨R²_{j−i}⟩/(N + 1)² with the ⟨R²⟩ and ensembles of `mean_square_end_to_end`.
    Freely jointed: L² N (N + 2)/(6 (N + 1)).  O(bonds).
    """
    squares = _squares(bonds, cosine, length)
    N = squares.shape[-1]
    return _number(squares @ np.arange(N, 0.0, -1.0) / (N + 1.0) ** 2)


def _squares(bonds: int, cosine: ArrayLike, length: float) -> Array:
    """⟨R²⟩ of 1 to N bonds, (..., N): the next bond adds L² (1 + 2 Σ_k c^k)."""
    N, c = arrays.positive_int(bonds, "bonds", 8), _cosine(cosine, "cosine")
    scale = arrays.positive(length, "length")
    added = np.ones((*c.shape, N))
    added[..., 1:] += 2.0 * np.cumsum(c[..., None] ** np.arange(1, N), axis=-1)
    return np.asarray(scale**2 * np.cumsum(added, axis=-1))


# --- rheology --------------------------------------------------------------------------------


def zero_shear_viscosity(beads: int, *, dim: int = 3) -> float:
    """η/(ζ a²) of one freely jointed chain of equal frictions ζ at rest: (N² − 1)/(12 d).

    ½ Σ ζ⟨(y − Y)²⟩ = ½ ζ N R_g²/d, in either ensemble (Kramers 1946).  Times the number of chains
    per volume it is their part of the viscosity of a solution.
    """
    _require(dim)
    N = arrays.positive_int(beads, "beads")
    return (N * N - 1) / (12.0 * dim)


def dumbbell_viscosity(weissenberg: ArrayLike) -> Array:
    """η/η(0) of a rigid dumbbell in steady shear, (...) → (...).

    Wi = γ̇/(6 D_r) = γ̇ ζ a²/(12 kT) for beads of friction ζ at a distance a, draining freely; η(0)
    is ζa²/12.  The ratio is 3⟨u_y²⟩ of `dumbbell_orientation`: 1 − 18/35 Wi² + 1326/1925 Wi⁴ − … at
    small Wi, 0.767615 at Wi = 1, and proportional to Wi^(−1/3) at large Wi.
    """
    return _number(3.0 * dumbbell_orientation(weissenberg)[..., 1, 1])


def dumbbell_normal_stress(weissenberg: ArrayLike) -> Array:
    """Ψ₁/Ψ₁(0) of a rigid dumbbell in steady shear, (...) → (...).

    Wi as in `dumbbell_viscosity`; Ψ₁(0) is ζ² a⁴/(120 kT), and Ψ₂ vanishes.  The ratio is
    5⟨u_x u_y⟩/Wi of `dumbbell_orientation`: 1 − 38/35 Wi² + … at small Wi.
    """
    Wi = _weissenberg(weissenberg)
    slow = np.abs(Wi) < 1e-9  # where the ratio is 1 to the last digit
    moments = dumbbell_orientation(Wi)[..., 0, 1]
    return _number(np.where(slow, 1.0, 5.0 * moments / np.where(slow, 1.0, Wi)))


def dumbbell_orientation(weissenberg: ArrayLike) -> Array:
    """⟨u uᵀ⟩ of a rigid dumbbell in steady shear v_x = γ̇ y, (...) → (..., 3, 3).

    From its diffusion equation on the sphere, D_r ∇²ψ = ∇·(u̇ ψ), in spherical harmonics about the
    axis of the vorticity z: with Φ = ½ γ̇ u_x u_y, u̇ is ∇Φ plus a rotation at the rate −½ γ̇, and
    ∇·(ψ ∇Φ) = ½ (∇²(ψΦ) − 6 ψΦ − Φ ∇²ψ).  Wi = γ̇/(6 D_r), either sign.  Accurate to about 1e-12.
    The cost is 10 ms for each Wi, seconds at 1000, half a minute at 10,000; ValueError beyond.
    """
    Wi = _weissenberg(weissenberg)
    moments = np.array([_moments(abs(one)) for one in Wi.ravel().tolist()]).reshape(*Wi.shape, 3)
    xx, xy, yy = np.moveaxis(moments, -1, 0)
    answer = np.zeros((*Wi.shape, 3, 3))
    answer[..., 0, 0], answer[..., 1, 1], answer[..., 2, 2] = xx, yy, 1.0 - xx - yy
    answer[..., 0, 1] = answer[..., 1, 0] = np.copysign(xy, Wi)
    return answer


def _weissenberg(value: ArrayLike) -> Array:
    array = _finite(value, "weissenberg")
    largest = np.abs(array).max(initial=0.0)
    if largest > FASTEST:
        raise ValueError(f"weissenberg is too large, above {FASTEST:g}, got {largest:g}")
    return array


def _moments(Wi: float) -> Array:
    found = _harmonic_moments(Wi, HARMONICS[0])
    for degree in HARMONICS[1:]:
        before, found = found, _harmonic_moments(Wi, degree)
        if (np.abs(found - before) <= AGREE_HARMONICS * np.abs(found)).all():
            break
    return found


def _harmonic_moments(Wi: float, degree: int) -> Array:
    """Solve with harmonics up to a degree, with a coefficient of 1 at degree 0."""
    j, m, square = _harmonics(degree)
    product = (0.125j * (square.T - square)).tocoo()  # by Φ/γ̇ = ¼ sin² θ sin 2φ
    row, column = product.coords
    laplacian = -j * (j + 1.0)
    stretch = -0.5 * (laplacian[row] - 6.0 - laplacian[column]) * product.data
    flow = sparse.csc_array((stretch, (row, column)), product.shape) + sparse.diags_array(0.5j * m)
    keep = np.flatnonzero(j <= degree)
    operator = (sparse.diags_array(laplacian) + 6.0 * Wi * flow).tocsc()[keep][:, keep]
    ψ = np.zeros(j.size, dtype=complex)
    ψ[0] = 1.0
    # A pattern that is symmetric fills in less when its order is chosen for that.
    symmetric: Any = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
    factor = splu(operator[1:, 1:], diag_pivot_thresh=0.01, **symmetric)
    ψ[keep[1:]] = factor.solve(-operator[1:, [0]].toarray().ravel())
    planar = (square[[0]] @ ψ)[0]  # ⟨(u_x + i u_y)²⟩
    rest = (2.0 - 2.0 / np.sqrt(5.0) * ψ[(j == 2) & (m == 0)][0].real) / 3.0  # ⟨u_x² + u_y²⟩
    return 0.5 * np.array([rest + planar.real, planar.imag, rest - planar.real])


@lru_cache(maxsize=len(HARMONICS))
def _harmonics(degree: int) -> tuple[Any, Any, Any]:
    """Even j and m up to two more than a degree, and sin² θ e^(2iφ) as a matrix between them.

    sin θ e^(iφ) leads from (j, m) to (j + 1, m + 1) and (j − 1, m + 1).
    """
    degrees = np.arange(degree + 3)
    j = np.repeat(degrees, 2 * degrees + 1)
    m = np.arange(j.size) - j * (j + 1)
    outer, inner = j < degree + 2, np.abs(m + 1) < j
    up = -np.sqrt((j + m + 1) * (j + m + 2) / ((2.0 * j + 1) * (2 * j + 3)))
    down = np.sqrt((j - m) * (j - m - 1) / np.abs((2.0 * j - 1) * (2 * j + 1)))
    rows = np.concatenate([((j + 1) * (j + 2) + m + 1)[outer], (j * (j - 1) + m + 1)[inner]])
    columns = np.concatenate([np.flatnonzero(outer), np.flatnonzero(inner)])
    values = np.concatenate([up[outer], down[inner]])
    step = sparse.csr_array((values, (rows, columns)), (j.size, j.size))
    even = np.flatnonzero((j % 2 == 0) & (m % 2 == 0))
    return j[even], m[even], (step @ step)[even][:, even]


def _freely_jointed(bonds: int, dim: int, masses: ArrayLike, base: Base) -> Array:
    _require(dim, base)
    N = arrays.positive_int(bonds, "bonds", 8)
    if N < 2:
        raise ValueError(f"bonds must be at least 2, one bond has no bend, got {bonds}")
    return _inverse_masses(masses, N, base)


def _bend_series(bonds: int, dim: int, masses: ArrayLike, base: Base) -> Array:
    w = _freely_jointed(bonds, dim, masses, base)
    return _on_finer_grids(transfer.bend_series, w, dim, lambda a: a[:, : transfer.ORDERS[0]])


def _on_finer_grids(
    compute: Callable[[Array, transfer.Grid], Array],
    w: Array,
    dim: int,
    watched: Callable[[Array], Array] = np.asarray,
) -> Array:
    return transfer.on_finer_grids(lambda grid: compute(w, grid), dim, watched, 1.0 / w[w > 0.0])


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
    front = [0.0] * (base == "fixed")
    return np.concatenate([front, 1.0 / arrays.masses(masses, bonds + 1 - len(front))])


def _cosine(value: ArrayLike, name: str) -> Array:
    slack = 1e-12  # scalar products of unit vectors overshoot by rounding
    return np.clip(_within(value, -1.0 - slack, 1.0 + slack, name), -1.0, 1.0)


def _finite(value: ArrayLike, name: str) -> Array:
    array = arrays.real(value, (), name)
    arrays.require_finite(array.ravel(), (array.size,), name, "place")
    return array


def _within(value: ArrayLike, low: float, high: float, name: str) -> Array:
    array = arrays.real(value, (), name)
    inside = (array >= low) & (array <= high)  # false for NaN
    if not inside.all():
        found = array[~inside][0]
        raise ValueError(f"{name} must lie between {low:.6g} and {high:.6g}, got {found}")
    return array


def _bends(theta: ArrayLike, dim: int) -> Array:
    return _within(theta, -np.pi if dim == 2 else 0.0, np.pi, "theta")


def _number(array: Any) -> Array:
    answer: Array = np.asarray(array)[()]
    return answer


def _require(dim: Any = 3, base: Any = "free", ensemble: Any = "rigid") -> None:
    arrays.require_space(dim, base)
    arrays.require_one_of(ensemble, "ensemble", ("rigid", "stiff"))
