"""A rigid dumbbell in steady shear, by spherical harmonics; public in `fixman.analytic`."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.linalg import splu

from fixman._common import arrays
from fixman._common.arrays import Array

HARMONICS = (8, 16, 32, 64, 128, 256, 512)  # largest degrees: one after the other until two agree
AGREE_HARMONICS = 1e-6  # then below 1e-12: digits double, and more
FASTEST = 1e4  # Weissenberg number of which the largest degrees agree


def dumbbell_viscosity(weissenberg: ArrayLike) -> Array:
    """η/η(0) of a rigid dumbbell in steady shear, (...) → (...).

    Wi = γ̇/(6 D_r) = γ̇ ζ a²/(12 kT) for beads of friction ζ at a distance a, draining freely; η(0)
    is ζa²/12.  3⟨u_y²⟩ by `dumbbell_orientation`; 1 − 18/35 Wi² + 1326/1925 Wi⁴ − … at small Wi,
    and falls as Wi^(−1/3) at large ones.

    Examples
    --------
    >>> from fixman import analytic
    >>> analytic.dumbbell_viscosity([0.0, 1.0, 3.0]).round(6)
    array([1.      , 0.767615, 0.524629])
    """
    answer: Array = 3.0 * dumbbell_orientation(weissenberg)[..., 1, 1]
    return answer


def dumbbell_normal_stress(weissenberg: ArrayLike) -> Array:
    """Ψ₁/Ψ₁(0) of a rigid dumbbell in steady shear, (...) → (...).

    Wi as in `dumbbell_viscosity`; Ψ₁(0) is ζ² a⁴/(120 kT), and Ψ₂ vanishes.  5⟨u_x u_y⟩/Wi by
    `dumbbell_orientation`; 1 − 38/35 Wi² + … at small Wi.
    """
    Wi = _weissenberg(weissenberg)
    moments = dumbbell_orientation(Wi)[..., 0, 1]
    # At rest the ratio has a limit; there it is 1 to the last digit.
    slow = np.abs(Wi) < 1e-9
    answer: Array = np.where(slow, 1.0, 5.0 * moments / np.where(slow, 1.0, Wi))[()]
    return answer


def dumbbell_orientation(weissenberg: ArrayLike) -> Array:
    """⟨u uᵀ⟩ of a rigid dumbbell in steady shear v_x = γ̇ y, (...) → (..., 3, 3).

    From its diffusion equation on the sphere, D_r ∇²ψ = ∇·(u̇ ψ), in spherical harmonics about the
    axis of the vorticity z: with Φ = ½ γ̇ u_x u_y, u̇ is ∇Φ besides a rotation by −½ γ̇, and
    ∇·(ψ ∇Φ) = ½ (∇²(ψΦ) − 6 ψΦ − Φ ∇²ψ).  Wi = γ̇/(6 D_r), either sign.  The degree is doubled until
    moments agree to 1e-6 of themselves; the last ones are right to about 1e-12.  Some ten
    milliseconds for each Wi, seconds at 1000, half a minute at 10,000.

    Raises
    ------
    ValueError
        For |Wi| above 10,000, which would take too many harmonics.
    """
    Wi = _weissenberg(weissenberg)
    moments = np.array([_moments(abs(one)) for one in Wi.ravel().tolist()]).reshape(*Wi.shape, 3)
    xx, xy, yy = np.moveaxis(moments, -1, 0)
    answer = np.zeros((*Wi.shape, 3, 3))
    answer[..., 0, 0], answer[..., 1, 1], answer[..., 2, 2] = xx, yy, 1.0 - xx - yy
    answer[..., 0, 1] = answer[..., 1, 0] = np.copysign(xy, Wi)
    return answer


def _weissenberg(value: ArrayLike) -> Array:
    array = arrays.real(value, (), "weissenberg")
    arrays.require_finite(array.ravel(), (array.size,), "weissenberg", "place")
    largest = np.abs(array).max(initial=0.0)
    if largest > FASTEST:
        raise ValueError(
            f"weissenberg is too large for spherical harmonics, got {largest:g}: they are for up "
            f"to {FASTEST:g}"
        )
    return array


def _moments(Wi: float) -> Array:
    """⟨u_x²⟩, ⟨u_x u_y⟩ and ⟨u_y²⟩."""
    found = _harmonic_moments(Wi, HARMONICS[0])
    for degree in HARMONICS[1:]:
        before, found = found, _harmonic_moments(Wi, degree)
        if (np.abs(found - before) <= AGREE_HARMONICS * np.abs(found)).all():
            break
    return found


def _harmonic_moments(Wi: float, degree: int) -> Array:
    """Compute the same from harmonics up to a degree, with a coefficient of 1 at degree 0."""
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
