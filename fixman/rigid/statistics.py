"""Statistics of chains of rigid bodies: thermal rates, Fixman's torque, Langevin dynamics.

Rodriguez and Kreutz (1988) read the factors of the mass matrix as a Kalman filter and a smoother.
Taken at their word, the smoother turns white noise into rates of a given temperature, and the
compliances that it leaves behind are those of Fixman's torque:

    θ̇ = √kT (1 − H Ψ L)ᵀ D^{−1/2} ε,     ⟨θ̇ θ̇ᵀ⟩ = kT ℳ⁻¹                              (from 4.16)
    τ_F = −½ kT ∂ ln det ℳ = kT tr(Ω_ii P_i⁺ (p_i ×)),     P⁺ = (1 − G H) P

Saha's factors are the same numbers: 1 + H Φ L is his U, so that θ̇ = √kT U⁻ᵀ D^{−1/2} ε.

Ensembles are densities with respect to dq of revolute and prismatic joints and of the place of a
free base, and to the uniform measure of rotations elsewhere.  With rigid joints a chain samples
√det ℳ e^{−U/kT}; with stiff joints, equally stiff in all directions that the joints hold, e^{−U/kT}
alone.  Fixman's potential ½ kT ln det H^bb leads from the first to the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from fixman import _arrays
from fixman._arrays import Array
from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels import rigid_statistics as kernels
from fixman.rigid import articulated_body, kinematics, model, partition
from fixman.rigid.model import SerialChain

__all__ = ["fixman_potential", "fixman_torque", "langevin", "thermal_rates"]

ENSEMBLES = ("rigid", "stiff")
FASTEST = 2.0 * math.pi  # that a joint may turn in a step


def thermal_rates(
    arm: SerialChain,
    q: ArrayLike,
    kT: float = 1.0,
    rng: int | np.random.Generator | None = None,
) -> Array:
    """Draw rates from the Maxwell–Boltzmann distribution: normal, of covariance kT ℳ⁻¹.

    Parameters
    ----------
    arm : SerialChain
    q : (..., nq)
    kT : float
        In units of mass · length² / time².
    rng : int, Generator or None
        One stream for the whole batch.  Frames are drawn one after the other, so a batch is what
        its frames are when drawn in turn with the same generator.

    Returns
    -------
    ndarray (..., nv)
        O(n) a frame; ℳ is not formed.

    Raises
    ------
    ValueError
        For wrong shapes, values that are not finite, and quaternions that are not unit ones.
    SingularConstraintError
        If the inertia that some joint moves is zero or lost to rounding, naming the body.
    """
    given = model.posture(arm, q)
    scale = math.sqrt(_arrays.positive(kT, "kT"))
    return smoothed(given, scale * _arrays.generator(rng).standard_normal((*given.lead, arm.nv)))


def smoothed(given: model.Given, noise: Array) -> Array:
    """Return the rates (..., nv), of covariance ℳ⁻¹, that white noise becomes: in its place."""
    out = np.ascontiguousarray(noise).reshape(-1, given.arm.nv)
    bad = kernels.thermal_frames(given.arm._kinds, given.arm._table, given.q, out)
    given.require_answer(bad, "rates")
    return given.batch(out)


def fixman_potential(arm: SerialChain, q: ArrayLike, kT: float = 1.0) -> Array:
    """½ kT ln det H^bb: with it, a chain with rigid joints samples the stiff ensemble.

    Parameters
    ----------
    arm : SerialChain
        Every body needs mass and inertia.
    q : (..., nq)
    kT : float

    Returns
    -------
    ndarray (...,)
        O(n) a frame.

    Raises
    ------
    ValueError, SingularConstraintError
        As `partition.logdet_hard`.
    """
    return np.asarray(0.5 * _arrays.positive(kT, "kT") * partition.logdet_hard(arm, q))[()]


def fixman_torque(arm: SerialChain, q: ArrayLike, kT: float = 1.0) -> Array:
    """−∂/∂θ of Fixman's potential, in the directions of the rates.

    ½ ln det ℳ has the same gradient, and exists also where a body inside the chain has no mass.

    Parameters
    ----------
    arm : SerialChain
    q : (..., nq)
    kT : float

    Returns
    -------
    ndarray (..., nv)
        Generalized forces: of a spherical joint moments in the axes of its body.  Zero for the
        first joint.  O(n) a frame, one sweep in and one out.

    Raises
    ------
    ValueError, SingularConstraintError
        As `thermal_rates`.
    """
    given = model.posture(arm, q)
    kT = _arrays.positive(kT, "kT")
    out = np.empty((given.q.shape[0], arm.nv))
    bad = kernels.gradient_frames(arm._kinds, arm._table, given.q, out)
    given.require_answer(bad, "Fixman torque")
    return given.batch(kT * out)


# --- Langevin dynamics --------------------------------------------------------------------------


def langevin(
    arm: SerialChain,
    q: ArrayLike,
    dt: float,
    steps: int,
    *,
    kT: float = 1.0,
    friction: float = 1.0,
    ensemble: Literal["rigid", "stiff"] = "rigid",
    qd: ArrayLike | None = None,
    torque: Callable[[Array], ArrayLike] | None = None,
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    every: int = 1,
    rng: int | np.random.Generator | None = None,
) -> tuple[Array, Array]:
    """Langevin dynamics of the joints, dp = −(∂H/∂q + γ p) dt + √(2 γ kT) ℳ^{1/2} dW.

    p = ℳ θ̇ are the momenta, H = ½ pᵀ ℳ⁻¹ p + U; ℳ has armature in it, and U the springs.  A step
    is exact friction and noise at fixed q, θ̇ ← c θ̇ + √(1 − c²) `thermal_rates` with c = e^{−γ dt},
    then Hamilton's motion for dt.

    Parameters
    ----------
    arm : SerialChain
    q : (..., nq)
        Where to start; leading axes are replicas.
    dt : float
        Averages are off by O(dt⁴), half a percent where a thermal rate turns a joint by half a
        radian in a step.
    steps : int
    kT : float
    friction : float
        Rate γ at which all momenta decay; 0 leaves Newton's motion.
    ensemble : "rigid" or "stiff"
        "stiff" adds `fixman_torque`.
    qd : (..., nv), optional
        Rates to start with; without them `thermal_rates`.
    torque : callable, optional
        Generalized forces (..., nv) of a potential at q (..., nq): −∂U along the rates.
    gravity : (3,)
        Acceleration of free fall in the axes of the base; none unless given.
    every : int
        Steps from one recorded frame to the next; it divides ``steps``.
    rng : int, Generator or None
        One stream for all replicas.  A run that is continued from its last frame with the same
        generator is the longer run, to the last bit.

    Returns
    -------
    q : ndarray (steps / every, ..., nq)
    qd : ndarray (steps / every, ..., nv)

    Raises
    ------
    ValueError
        As `thermal_rates`; for a chain with damping, which `dataclasses.replace(arm, damping=0)`
        takes away; for what ``torque`` returns, if it has another shape or is not finite.
    FrameError
        If numbers overflow or a joint turns by more than a full turn in a step, because dt is too
        long.  It is a `ValueError` too, and names step and replica.
    SingularConstraintError
        As `thermal_rates`.

    Notes
    -----
    O(n) a step and replica.  ℳ depends on q, so that no explicit leapfrog is symplectic.  Motion
    is therefore integrated to fourth order, with exponentials for the joints (the commutator-free
    method of Celledoni, Marthinsen and Owren, 2003, which is Runge and Kutta's where rates are
    derivatives of coordinates), and preserves the measure up to O(dt⁴).  Friction restores it.
    """
    dt, kT = _arrays.positive(dt, "dt"), _arrays.positive(kT, "kT")
    steps, every = _arrays.positive_int(steps, "steps"), _arrays.positive_int(every, "every")
    if steps % every:
        raise ValueError(f"every must divide steps, got every={every} and steps={steps}")
    decay = _arrays.number(friction, "friction") * dt
    if decay < 0.0:
        raise ValueError(f"friction must not be negative, got {friction}")
    _arrays.require_one_of(ensemble, "ensemble", ENSEMBLES)
    rng = _arrays.generator(rng)
    q, qd = _start(arm, q, qd, kT, rng)
    if arm.damping.any():
        raise ValueError(
            "the dampers of the joints would cool the chain, for no noise comes with them: "
            "friction= is the heat bath, and dataclasses.replace(arm, damping=0) the chain for it"
        )
    g = model.falling(gravity)
    _arrays.require_finite(g, (3,), "gravity", "component")

    def accelerations(q: Array, qd: Array) -> Array:
        tau = np.zeros(qd.shape) if ensemble == "rigid" else fixman_torque(arm, q, kT)
        if torque is not None:
            seen = q.view()
            seen.flags.writeable = False
            try:
                tau += _forces(torque(seen), tau.shape)
            except FrameError as error:
                raise _OwnError(error) from None
        return articulated_body.forward_dynamics(arm, q, qd, tau, gravity=g)

    turning = model.turning(arm)
    keep, fresh = math.exp(-decay), math.sqrt(-math.expm1(-2.0 * decay))
    found = np.empty((steps // every, *q.shape)), np.empty((steps // every, *qd.shape))
    for step in range(1, steps + 1):
        if fresh > 0.0:
            qd = keep * qd + fresh * thermal_rates(arm, q, kT, rng)
        try:
            q, qd = _moved(arm, q, qd, dt, accelerations)
        except _OwnError as error:
            raise error.args[0] from None
        except SingularConstraintError:
            raise
        except FrameError as error:  # all was finite before
            rest = f": dt={dt} is too long for how fast it moves"
            text = f"the motion overflowed at step {step}"
            raise FrameError(text, rest, frame=error.frame, step=step) from error
        turns = dt * np.abs(qd[..., turning]).max(-1, initial=0.0)
        if (turns > FASTEST).any():
            frame = int(np.argmax(turns > FASTEST))
            raise FrameError(
                f"a joint turns by {turns.ravel()[frame]:.2g} rad in step {step}",
                f": dt={dt} is too long for how fast it moves",
                frame=_arrays.frame_index(frame, turns.shape),
                step=step,
            )
        if step % every == 0:
            found[0][step // every - 1], found[1][step // every - 1] = q, qd
    return found


class _OwnError(Exception):
    """Of a user's torque; carries what it raised past what is said of motion."""


def _start(
    arm: SerialChain, q: ArrayLike, qd: ArrayLike | None, kT: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Coordinates and rates of all replicas; rates drawn if there are none."""
    given = model.posture(arm, q)
    if qd is None:
        return given.batch(given.q), thermal_rates(arm, q, kT, rng)
    given = model.gate(arm, q, qd, np.zeros(arm.nv))
    given.require_finite()
    return given.batch(given.q), given.batch(given.qd)


def _forces(value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Coerce what ``torque`` returns, of this shape or the same forces for all replicas."""
    forces = _arrays.real(value, shape[-1:], "torque(q)", "rate")
    if forces.shape not in (shape, shape[-1:]):
        raise ValueError(f"torque(q) must have shape {shape}, got {forces.shape}")
    if not np.isfinite(forces).all():
        raise ValueError("torque(q) must be finite, got NaN or infinity")
    return forces


def _moved(
    arm: SerialChain,
    q: Array,
    qd: Array,
    dt: float,
    accelerations: Callable[[Array, Array], Array],
) -> tuple[Array, Array]:
    """Follow Hamilton's motion for a time dt: four stages, an error of dt⁵."""
    move = kinematics.integrate
    a1 = accelerations(q, qd)
    half, v2 = move(arm, q, qd, dt / 2), qd + dt / 2 * a1
    a2 = accelerations(half, v2)
    v3 = qd + dt / 2 * a2
    a3 = accelerations(move(arm, q, v2, dt / 2), v3)
    v4 = qd + dt * a3
    a4 = accelerations(move(arm, half, v3 - qd / 2, dt), v4)
    # Two exponentials in the order of time, which add up to Simpson's rule.
    both = (v2 + v3) / 6
    q = move(arm, q, qd / 4 + both - v4 / 12, dt)
    q = move(arm, q, v4 / 4 + both - qd / 12, dt)
    return q, qd + dt / 6 * (a1 + 2 * (a2 + a3) + a4)
