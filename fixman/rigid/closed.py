"""Closed chains: loops, grasps and platforms of serial chains.

A closure holds some directions of the relative twist of two bodies, or of a body and the base.  A
stacks the rows of all closures; A θ̇ are the velocities that the closures forbid:

    θ̈ = θ̈_free + ℳ⁻¹ Aᵀ f                                             (C1)
    Λ⁻¹ f = −(A θ̈_free + Ȧ θ̇),     Λ⁻¹ = A ℳ⁻¹ Aᵀ                    (C2), (C3)

A θ̈_free + Ȧ θ̇ is the relative acceleration of the chains cut open.  Λ⁻¹, a row for each direction
held, is εᵀ D⁻¹ ε of the innovations ε = (1 − HΨL) Aᵀ (Rodriguez and Kreutz 1988, eq. 4.16), in
O(n m²).  With Z orthonormal and A Z = 0,

    ln det H^bb, closed = ln det H^bb, open + ln det Λ⁻¹               (C7)
    ln det Zᵀ ℳ Z      = ln det ℳ + ln det Λ⁻¹ − ln det A Aᵀ          (C8)

because closures are further hard rows of Fixman's partition.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import ConstraintSolveError
from fixman.kernels.rigid import closed as kernel
from fixman.kernels.rigid.articulated_body import DONE
from fixman.rigid import _closures as closures
from fixman.rigid import kinematics, model, partition, statistics
from fixman.rigid._closure_torque import gradient
from fixman.rigid._linkage import Closure, End, Linkage
from fixman.rigid.model import Given

__all__ = ["ClosedMotion", "Closure", "End", "Linkage", "fixman_potential", "fixman_torque"]
__all__ += ["forward_dynamics", "gap", "integrate", "logdet_hard", "logdet_mass", "project"]
__all__ += ["thermal_rates"]
__dir__ = __all__.copy  # completion shows public names alone

_FLOAT64 = np.dtype(np.float64)
ROUNDS = 50  # most rounds of Newton's method, which needs three to six from nearby
MOST = 0.5  # that a joint turns in a round


class ClosedMotion(NamedTuple):
    """Accelerations and closing wrenches, as `forward_dynamics` finds them.

    Wrenches are those on b: force at b's point, then moment, in the axes of the base.  The opposite
    wrench acts on a, at the same place.
    """

    qdd: Array  # (..., nv)
    wrenches: Array  # (..., closures, 6)


def forward_dynamics(
    linkage: Linkage,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    wrenches: ArrayLike | None = None,
    tolerance: float = 1e-3,
) -> ClosedMotion:
    """Accelerations of closed chains, and the wrenches that close them.

    O(n m² + m³) in time and O(n m) in memory for m held directions.

    Parameters
    ----------
    q, qd, tau, gravity, wrenches
        As in `articulated_body.forward_dynamics`, of one chain after the other.
    tolerance : float
        How far positions and rates may be from closing.  Gaps count relative to the size of the
        linkage (angles in radians), their rates to its speed, or to the speed that it would gain
        over its size if cut open.  Gaps within the tolerance keep their rate.

    Raises
    ------
    SingularConstraintError
        If a closure's direction depends on the others, or cannot move, naming it; if a joint moves
        no inertia.
    FrameError
        If positions or rates do not close: `project` closes them.
    ValueError
        For wrong shapes and values that are not finite.
    """
    if wrenches is None:
        found = _at_once(linkage, q, qd, tau, gravity, tolerance)
        if found is not None:
            return found
    given = closures.arguments(linkage, q, qd, tau, gravity, wrenches)
    limit = arrays.positive(tolerance, "tolerance")
    qdd, out = closures.answers(closures.driven(given), kernel.MOTION, limit)  # θ̈ and f
    wrenches = out.reshape(len(out), len(linkage.closures), 6)
    return ClosedMotion(given.batch(qdd), given.batch(wrenches))


def _at_once(
    linkage: Linkage, q: Any, qd: Any, tau: Any, gravity: Any, tolerance: Any
) -> ClosedMotion | None:
    """Answer at once for plain arrays of one state; else None."""
    known = getattr(linkage, "_tables", {}).get("tables")
    if known is None or linkage._passive:
        return None
    if type(tolerance) is not float or not 1e-100 <= tolerance <= 1e100:
        return None
    for array, numbers in ((q, linkage.nq), (qd, linkage.nv), (tau, linkage.nv)):
        plain = type(array) is np.ndarray and array.dtype is _FLOAT64 and array.flags.carray
        if not plain or array.shape != (numbers,):
            return None
    qdd, out = np.empty((1, linkage.nv)), np.empty((1, 6 * len(linkage.closures)))
    given = q, qd, tau, model.falling(gravity), (1.0 / linkage._size, tolerance, kernel.CERTAIN)
    room = model.workspace(int(known.starts[-1]))
    if kernel.states(known, *given, kernel.MOTION, room, qdd, out) != DONE:
        return None
    return ClosedMotion(qdd[0], out.reshape(-1, 6))


def gap(linkage: Linkage, q: ArrayLike, qd: ArrayLike | None = None) -> Array:
    """Gaps (..., held) of the closures at q (..., nq), or with rates (..., nv) A θ̇; O(n).

    A row for each direction of each closure: displacements of b's point, and turns in radians, in
    the axes of a.
    """
    given = closures.arguments(linkage, q, model.AT_REST if qd is None else qd)
    return given.batch(closures.gaps(given, qd is not None))


def integrate(linkage: Linkage, q: ArrayLike, qd: ArrayLike, dt: float = 1.0) -> Array:
    """Coordinates (..., nq) after a time dt at constant rates, which may open closures."""
    given = closures.arguments(linkage, q, qd)
    parts = closures.each(given, partial(kinematics.integrate, dt=dt), given.qd)
    return np.concatenate(parts, axis=-1)


@np.errstate(over="ignore", invalid="ignore")
def project(
    linkage: Linkage,
    q: ArrayLike,
    qd: ArrayLike | None = None,
    *,
    fixed: ArrayLike = (),
    tolerance: float = 1e-12,
) -> tuple[Array, Array]:
    """Positions and rates nearby that close.

    Newton's method with the Λ⁻¹ of the dynamics, O(n m² + m³) a round: q moves by −ℳ⁻¹ Aᵀ Λ gap,
    the smallest step in the metric of the inertia matrix, with at most half a radian of any joint a
    round; rates lose ℳ⁻¹ Aᵀ Λ A θ̇.

    Parameters
    ----------
    q : (..., nq)
        Returned as it is where it closes already.
    qd : (..., nv), optional
        Zero if not given.
    fixed : joints, by the number of their body, or a mask (n,)
        Joints that keep the given coordinates and rates, such as a driven crank.
    tolerance : float
        Of gaps, in units of the size of the linkage and in radians.

    Raises
    ------
    ConstraintSolveError
        If the gap does not close; perhaps no posture near q closes it.
    SingularConstraintError, ValueError
        As `forward_dynamics`.
    """
    given = closures.arguments(linkage, q, model.AT_REST if qd is None else qd)
    limit = arrays.positive(tolerance, "tolerance")
    kept = linkage._rates_of(fixed)
    free = linkage._locked(kept)
    for _ in range(ROUNDS):
        gap = closures.gaps(given)
        off = np.abs(linkage._in_sizes(gap)).max(-1)
        far = off > limit
        if not far.any():
            break
        way = closures.answers(given._replace(arm=free), kernel.CLOSE_GAP)[0]  # −ℳ⁻¹ Aᵀ Λ gap
        way[:, kept] = 0.0
        turn = np.abs(way[:, linkage._turning]).max(-1, initial=0.0)
        step = integrate(linkage, given.q, way / np.maximum(turn / MOST, 1.0)[:, None])
        given = given._replace(q=np.where(far[:, None], step, given.q))
    else:
        frame = int(np.argmax(off))
        raise ConstraintSolveError(
            closures.named(linkage, gap[frame]),
            f" and does not close in {ROUNDS} rounds: perhaps no posture near q closes it"
            + (", with these joints fixed" if kept.any() else ""),
            frame=arrays.frame_index(frame, given.lead),
        )
    rates = closing(given._replace(arm=free), kept)
    return given.batch(given.q.copy()), given.batch(rates)


def closing(given: Given, kept: NDArray[np.bool_] | None = None) -> Array:
    """Rates (frames, nv) less ℳ⁻¹ Aᵀ Λ A θ̇, which opens closures; ``kept`` ones do not change."""
    for _ in range(2):  # the second time for rounding
        change = closures.answers(given, kernel.CLOSE_RATE)[0]  # −ℳ⁻¹ Aᵀ Λ A θ̇
        if kept is not None:
            change[:, kept] = 0.0
        given = given._replace(qd=given.qd + change)
    return given.qd


def thermal_rates(
    linkage: Linkage, q: ArrayLike, kT: float = 1.0, rng: int | np.random.Generator | None = None
) -> Array:
    """Draw rates (..., nv) that close from the Maxwell–Boltzmann distribution.

    Those of the open chains less ℳ⁻¹ Aᵀ Λ A θ̇: normal, of covariance kT (ℳ⁻¹ − ℳ⁻¹ Aᵀ Λ A ℳ⁻¹).
    There is no check that q closes.  O(n m² + m³) a frame.  Arguments as in
    `statistics.thermal_rates`, errors as in `logdet_mass`.
    """
    given, scale = closures.arguments(linkage, q), np.sqrt(arrays.positive(kT, "kT"))
    noise = scale * arrays.generator(rng).standard_normal(given.qd.shape)
    rates = np.concatenate(closures.each(given, statistics.smoothed, noise), axis=-1)
    return given.batch(closing(given._replace(qd=rates.reshape(noise.shape))))


def logdet_mass(linkage: Linkage, q: ArrayLike) -> Array:
    """ln det Zᵀ ℳ Z (...,) of the rates that the closures leave, Z orthonormal, A Z = 0 (C8).

    O(n m² + m³) a frame of q (..., nq), whether it closes or not.  Errors as in `forward_dynamics`.
    """
    given = closures.arguments(linkage, q)
    of_rows = closures.answers(given, kernel.DETERMINANT_OF_ROWS)[1]  # ln det A Aᵀ, 0
    opened = closures.answers(given, kernel.DETERMINANT)[1]  # ln det Λ⁻¹, ln det ℳ
    return given.batch(opened.sum(-1) - of_rows.sum(-1))[()]


def logdet_hard(linkage: Linkage, q: ArrayLike) -> Array:
    """ln det H^bb (...,) of the closed chains: that of the open chains plus ln det Λ⁻¹ (C7).

    O(n m² + m³) a frame.  Arguments and errors as in `logdet_mass`, but every body needs mass and
    inertia, as in `partition.logdet_hard`.
    """
    given = closures.arguments(linkage, q)
    of_closures = given.batch(closures.answers(given, kernel.DETERMINANT)[1][:, 0])
    return np.asarray(sum(closures.each(given, partition.logdet_hard), of_closures))[()]


def fixman_potential(linkage: Linkage, q: ArrayLike, kT: float = 1.0) -> Array:
    """½ kT ln det H^bb (...,): with it, rigid joints and closures sample as stiff ones do.

    Arguments and errors as in `logdet_hard`.
    """
    return np.asarray(0.5 * arrays.positive(kT, "kT") * logdet_hard(linkage, q))[()]


def fixman_torque(linkage: Linkage, q: ArrayLike, kT: float = 1.0) -> Array:
    """−∂/∂θ of `fixman_potential` (..., nv), along all rates, also those that closures forbid.

    The torques of the open chains plus −½ kT ∂ ln det Λ⁻¹; O(n m² + m³) a frame, memory O(n m).
    Arguments and errors as in `logdet_mass`.
    """
    given, kT = closures.arguments(linkage, q), arrays.positive(kT, "kT")
    torque = given.batch(-0.5 * kT * gradient(given))
    parts = closures.each(given, partial(statistics.fixman_torque, kT=kT))
    return np.concatenate(parts, axis=-1) + torque
