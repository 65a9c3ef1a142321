"""Statistics of chains of rigid bodies: thermal rates, Fixman's torque, Langevin dynamics.

The smoother of Rodriguez and Kreutz (1988) turns white noise into rates of a given temperature, and
its compliances give Fixman's torque, with X_i from body i − 1 to body i:

    θ̇ = √kT (1 − H Ψ L)ᵀ D^{−1/2} ε,     ⟨θ̇ θ̇ᵀ⟩ = kT ℳ⁻¹                              (from 4.16)
    τ_F = −½ kT ∂ ln det ℳ = kT tr(X_i Ω_{i−1,i−1} X_iᵀ P_i⁺ (p_i ×)),     P⁺ = (1 − G H) P

Ensembles are densities with respect to dq of revolute and prismatic joints and of the place of a
free base, and to the uniform measure of rotations elsewhere.  With rigid joints a chain samples
√det ℳ e^{−U/kT}; with stiff joints, equally stiff in all directions that the joints hold, e^{−U/kT}
alone.  Fixman's potential ½ kT ln det H^bb leads from the first to the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels.rigid import innovations
from fixman.kernels.rigid import kinematics as kernel
from fixman.kernels.rigid.joints import TURNS
from fixman.rigid import articulated_body, kinematics, model, partition
from fixman.rigid.model import Given, SerialChain

__all__ = ["fixman_potential", "fixman_torque", "langevin", "thermal_rates"]
__dir__ = __all__.copy  # completion shows public names alone

EXACT = 1e-6  # largest error of motion relative to the speed, in each part of a step
DEEPEST = 10  # times that a step is halved
TINY = np.finfo(np.float64).tiny


def thermal_rates(
    arm: SerialChain, q: ArrayLike, kT: float = 1.0, rng: int | np.random.Generator | None = None
) -> Array:
    """Draw rates (..., nv) at ``q (..., nq)`` from the Maxwell–Boltzmann distribution.

    The rates are normal with covariance kT ℳ⁻¹, in O(n) a frame; one random stream serves all
    frames in turn.  Errors as in `articulated_body.forward_dynamics`.
    """
    lead, scale = model.posture(arm, q).lead, math.sqrt(arrays.positive(kT, "kT"))
    return smoothed(arm, q, scale * arrays.generator(rng).standard_normal((*lead, arm.nv)))


def smoothed(arm: SerialChain, q: ArrayLike, noise: Array) -> Array:
    """Turn white noise into rates (..., nv) of covariance ℳ⁻¹."""
    given, out = model.posture(arm, q), np.ascontiguousarray(noise).reshape(-1, arm.nv)
    bad = innovations.thermal_frames(arm._kinds, arm._table, given.q, out)
    given.require_answer(bad, "rates")
    return given.batch(out)


def fixman_potential(arm: SerialChain, q: ArrayLike, kT: float = 1.0) -> Array:
    """½ kT ln det H^bb (...,): with it, a chain with rigid joints samples the stiff ensemble.

    O(n) a frame.  Arguments and errors as in `partition.logdet_hard`.
    """
    return np.asarray(0.5 * arrays.positive(kT, "kT") * partition.logdet_hard(arm, q))[()]


def fixman_torque(arm: SerialChain, q: ArrayLike, kT: float = 1.0) -> Array:
    """−∂/∂θ of Fixman's potential along the rates, (..., nv); zero for the first joint.

    ½ ln det ℳ has the same gradient, and exists also where a body inside the chain has no mass.
    O(n) a frame.  Arguments and errors as in `thermal_rates`.
    """
    given = model.posture(arm, q)
    kT = arrays.positive(kT, "kT")
    return given.batch(kT * given.answer(innovations.gradient_frames, "Fixman torque", (arm.nv,)))


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

    p = ℳ θ̇ are the momenta, H = ½ pᵀ ℳ⁻¹ p + U; ℳ includes armature, U the springs.  A step is
    exact friction and noise at fixed q, θ̇ ← c θ̇ + √(1 − c²) `thermal_rates` with c = e^{−γ dt},
    then Hamilton's motion for dt, of eighth order (Hairer, Nørsett and Wanner 1993, II.10), in
    halves where its error is above 1e-12 of the kinetic energy.  Both keep e^{−H/kT}.  O(n) a step.

    Parameters
    ----------
    q, qd : (..., nq), (..., nv)
        Where to start; leading axes are replicas.  By default qd are `thermal_rates`.
    dt, steps, every : float, int, int
        Time from one friction to the next; steps; steps from one recorded frame to the next.
    friction : float
        Rate γ at which all momenta decay; 0 leaves Newton's motion.
    ensemble : "rigid" or "stiff"
        "stiff" adds `fixman_torque`.
    torque : callable, optional
        Generalized forces (..., nv) of a potential at q (..., nq): −∂U along the rates.
    gravity : (3,)
        Acceleration of free fall in the axes of the base; none unless given.
    rng : int, Generator or None
        One stream for all replicas.  The same generator goes on with a run to the last bit.

    Returns
    -------
    q, qd : ndarray (steps / every, ..., nq) and (steps / every, ..., nv)

    Raises
    ------
    ValueError, SingularConstraintError
        As `thermal_rates`; for a chain with damping; for what ``torque`` returns.
    FrameError
        If a thousandth of dt is too long for the motion, or ``torque`` is not continuous.
    """
    dt, steps, every = model.paced(dt, steps, every)
    kT, rng = arrays.positive(kT, "kT"), arrays.generator(rng)
    arrays.require_one_of(ensemble, "ensemble", ("rigid", "stiff"))
    decay = arrays.number(friction, "friction") * dt
    if decay < 0.0:
        raise ValueError(f"friction must not be negative, got {friction}")
    start = thermal_rates(arm, q, kT, rng) if qd is None else qd
    given = model.gate(arm, q, start, model.AT_REST, gravity)
    given.require_finite()
    if arm.damping.any():
        cure = "take friction=, the heat bath, and replace(arm, damping=0)"
        raise ValueError(f"the dampers of the joints would cool the chain: {cure}")
    motion = _Motion(given, kT, ensemble == "stiff", torque)
    states = given.q.copy(), given.qd.copy()  # the user's may change during the run
    keep, fresh = math.exp(-decay), math.sqrt(-math.expm1(-2.0 * decay))
    found = tuple(np.empty((steps // every, *state.shape)) for state in states)
    for step in range(1, steps + 1):
        x, v = states
        if fresh > 0.0:
            v = keep * v + fresh * thermal_rates(arm, x, kT, rng)
        motion.number = step
        states = motion.follow(x, v, dt, np.arange(len(x)))
        if step % every == 0:
            found[0][step // every - 1], found[1][step // every - 1] = states
    shape = steps // every, *given.lead
    return found[0].reshape(*shape, arm.nq), found[1].reshape(*shape, arm.nv)


@dataclass
class _Motion:
    """Hamilton's motion of replicas, all of them or those of given numbers."""

    given: Given
    kT: float
    stiff: bool
    torque: Callable[[Array], ArrayLike] | None
    number: int = 0  # of the step
    own: FrameError | None = None  # an error of ``torque`` itself

    def __post_init__(self) -> None:
        self.arm, self.lead = self.given.arm, self.given.lead
        self.seen = self.given.q.copy()  # by ``torque``, which is asked for all replicas

    def forces(self, q: Array, which: NDArray[np.int64]) -> Array:
        """Torques on these replicas, of the ensemble and of the user."""
        nv = self.arm.nv
        tau = fixman_torque(self.arm, q, self.kT) if self.stiff else np.zeros((len(q), nv))
        if self.torque is None:
            return tau
        self.seen[which] = q
        seen = self.seen.reshape(*self.lead, -1).view()
        seen.flags.writeable = False
        try:
            asked = model.forces_of(self.torque(seen), "torque(q)", self.lead, nv)
        except FrameError as error:
            self.own = error
            raise
        return tau + asked[which]

    def slopes(self, q: Array, qd: Array, which: NDArray[np.int64]) -> tuple[Array, Array]:
        q = _normalized(self.arm, q)
        tau, rates = self.forces(q, which), np.empty_like(q)
        kernel.derivative_frames(self.arm._kinds, q, qd, rates)
        return rates, articulated_body.forward_dynamics(self.arm, q, qd, tau, gravity=self.given.g)

    def follow(
        self, q: Array, qd: Array, dt: float, which: NDArray[np.int64], depth: int = 0
    ) -> tuple[Array, Array]:
        """Coordinates and rates of these replicas after a time dt."""
        try:
            q1, qd1, good = self.step(q, qd, dt, which)
        except FrameError as error:  # numbers far out, for all was well before
            singular = depth == DEEPEST and isinstance(error, SingularConstraintError)
            if singular or error is self.own:
                raise
            q1, qd1, good = q.copy(), qd.copy(), np.zeros(len(q), dtype=bool)
        if not good.all():
            bad = ~good
            if depth == DEEPEST:
                raise FrameError(
                    f"the motion is too fast in step {self.number}",
                    f": dt={dt * 2**DEEPEST} is too long for it"
                    + (", or torque(q) jumps" if self.torque is not None else ""),
                    frame=arrays.frame_index(int(which[bad][0]), self.lead),
                    step=self.number,
                )
            half = q[bad], qd[bad]
            for _ in range(2):
                half = self.follow(*half, dt / 2, which[bad], depth + 1)
            q1[bad], qd1[bad] = half
        return q1, qd1

    @np.errstate(over="ignore", invalid="ignore")
    def step(
        self, q: Array, qd: Array, dt: float, which: NDArray[np.int64]
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Make one step of `DOP853`; where its estimate of the error is small enough."""
        from scipy.integrate import DOP853  # importing it takes as long as all of `rigid`

        arm, stages = self.arm, len(DOP853.B)
        slopes = np.empty((stages + 1, q.size + qd.size))

        def moved(weights: Array) -> tuple[Array, Array]:
            way = dt * weights @ slopes[: len(weights)]
            return way[: q.size].reshape(q.shape), way[q.size :].reshape(qd.shape)

        for stage in range(stages + 1):
            dq, dv = moved(DOP853.A[stage, :stage] if stage < stages else DOP853.B)
            q1, qd1 = q + dq, qd + dv
            slopes[stage] = np.concatenate([x.ravel() for x in self.slopes(q1, qd1, which)])
        q1 = _normalized(arm, q1)
        errors = [moved(weights) for weights in (DOP853.E5, DOP853.E3)]
        ends = np.stack([_normalized(arm, q1 + dq) for dq, _ in errors])
        ways = kinematics.difference(arm, q1, ends) / dt
        rates = np.stack([qd, qd1, *ways, *(dv for _, dv in errors)])
        before, after, *parts = kinematics.kinetic_energy(arm, q1, rates)
        fifth, third = parts[0] + parts[2], parts[1] + parts[3]
        error = fifth**2 / (fifth + 0.01 * third + TINY)
        return q1, qd1, error <= EXACT**2 * (before + after + self.kT)


def _normalized(arm: SerialChain, q: Array) -> Array:
    at = arm.position_offsets[1:][TURNS[arm.kinds] == 3][:, None] + np.arange(-4, 0)
    q = q.copy()
    q[:, at] /= np.linalg.norm(q[:, at], axis=-1, keepdims=True)
    return q
