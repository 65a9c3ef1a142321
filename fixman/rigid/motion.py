"""Motion in time of serial chains of rigid bodies, and of closed ones.

The variational midpoint rule: of L = T − U, rates constant and equal to v_m in a step, joints
following them by their exponentials ⊕, and p = ∂L/∂θ̇,

    q_m = q_0 ⊕ (dt/2) v_m,     q_1 = q_0 ⊕ dt v_m,
    p_m = ℳ(q_m) v_m = p_0 + (dt/2) f_m = p_1 − (dt/2) f_m,     f = ∂L/∂q + forces without potential

(Marsden and West, Acta Numerica 2001, eq. 1.4.1; momenta of balls are carried by the derivative of
the exponential).  It is symplectic and symmetric: momenta that have a symmetry are kept to rounding,
and the energy stays.  ∂T/∂q takes one sweep, v_m a few rounds of Newton's method with ℳ⁻¹ by the
articulated body.  Springs and dampers are part of the inertia of their joints there,
D_i += c dt/2 + k dt²/4, so that stiff ones take as many rounds as none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman import _arrays
from fixman._arrays import Array
from fixman.errors import FrameError
from fixman.kernels import rigid_motion as kernel
from fixman.rigid import articulated_body, kinematics, model
from fixman.rigid.model import SerialChain

__all__ = ["Trajectory", "simulate"]

SCHEMES = ("midpoint", "euler")
BLOCK = 400_000  # links times rounds between two looks at the keyboard: some 50 ms
USUAL = 8  # rounds of a step

REASONS = {
    kernel.NOT_SETTLED: "the equations of motion are not solved by iteration",
    kernel.TOO_FAST: "a joint turns by more than half a turn",
    kernel.NOT_USABLE: "the motion overflowed",
}

Torque = Callable[[float, Array, Array], ArrayLike]


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """What `simulate` finds: recorded frames, the start first.

    Attributes
    ----------
    system : SerialChain
    dt : float
    step : ndarray (frames,)
        Steps done, integers.
    q : ndarray (frames, ..., nq)
    qd : ndarray (frames, ..., nv)
    energy : ndarray (frames, ...)
        Kinetic, of gravity, and of springs; not of ``tau``.
    """

    system: SerialChain
    dt: float
    step: NDArray[np.int64]
    q: Array
    qd: Array
    energy: Array

    def __post_init__(self) -> None:
        for array in (self.step, self.q, self.qd, self.energy):
            array.flags.writeable = False

    @property
    def time(self) -> Array:
        """Instants (frames,)."""
        return self.dt * self.step

    def __repr__(self) -> str:
        """``<Trajectory: 101 frames, steps 0 to 1000, dt=0.001>``."""
        first, last = self.step[[0, -1]]
        return f"<Trajectory: {len(self.step)} frames, steps {first} to {last}, dt={self.dt}>"


def simulate(
    system: SerialChain,
    q: ArrayLike,
    dt: float,
    steps: int,
    *,
    qd: ArrayLike | None = None,
    tau: ArrayLike | Torque | None = None,
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    scheme: Literal["midpoint", "euler"] = "midpoint",
    every: int = 1,
    first: int = 0,
) -> Trajectory:
    """Follow the motion of rigid bodies in time.

    `fixman.simulate` is made of beads, with positions and forces; SciPy's integrators know neither
    springs that would need a short dt, nor closures, nor quaternions, and lose energy.

    Parameters
    ----------
    system : SerialChain
    q : (..., nq)
        Where to start; leading axes are replicas.
    dt : float
    steps : int
    qd : (..., nv), optional
        Rates to start with; at rest without them.
    tau : (..., nv), or a callable, optional
        Joint forces.  A callable is given the time, q (..., nq) and q̇ (..., nv) and returns them,
        at the middle of a step, in every round; of "euler" at its start.
    gravity : (3,)
        Acceleration of free fall in the base frame.
    scheme : "midpoint" or "euler"
        "midpoint" is of second order, symplectic and reversible: energy oscillates by O(dt²) and
        does not drift.  "euler" is of first order and loses or gains energy: one round a step,
        linearly implicit in springs and dampers.  Neither needs a shorter dt for stiffer ones.
    every : int
        Steps from one recorded frame to the next; it divides ``steps``.
    first : int
        Steps done before: the time starts at ``first * dt``.

    Returns
    -------
    Trajectory
        steps / every + 1 frames.  A run that is continued from the last one, with ``first`` its
        step, is the longer run to the last bit.

    Raises
    ------
    FrameError
        If dt is too long: the equations of a step are not solved, numbers overflow, or a joint
        turns by more than half a turn in a step.
    SingularConstraintError
        If the inertia that some joint moves is zero or lost to rounding, naming the body.
    ValueError
        For wrong shapes and values, and forces that are not finite.

    Notes
    -----
    O(n) a step and replica: of "euler" once the articulated body, of "midpoint" in every round, of
    which there are five to ten.  Compiled but for callables.  Momenta of n links lose digits as n³,
    so that "midpoint" is for some thousand links at most.
    """
    given = _start(system, q, qd, tau)
    dt, steps = _arrays.positive(dt, "dt"), _arrays.positive_int(steps, "steps")
    every = _arrays.positive_int(every, "every")
    if steps % every:
        raise ValueError(f"every must divide steps, got every={every} and steps={steps}")
    if first != 0:
        first = _arrays.positive_int(first, "first")
    _arrays.require_one_of(scheme, "scheme", SCHEMES)
    gravity = model.falling(gravity)
    _arrays.require_finite(gravity, (3,), "gravity", "component")
    frames, replicas = steps // every + 1, given.q.shape[0]
    needed = 8 * frames * replicas * (system.nq + system.nv)
    _arrays.require_memory(needed, "the frames of this run")
    out = np.empty((frames, *given.q.shape)), np.empty((frames, *given.qd.shape))
    out[0][0], out[1][0] = given.q, given.qd
    motion = _Motion(given, dt, gravity, scheme == "midpoint", first)
    if callable(tau):
        motion.ask(tau, steps, every, out)
    else:
        motion.run(steps, every, out)
    shape = (frames, *given.lead)
    x, v = out[0].reshape(*shape, -1), out[1].reshape(*shape, -1)
    energy = kinematics.kinetic_energy(system, x, v)
    energy = energy + kinematics.potential_energy(system, x, gravity=gravity)
    return Trajectory(system, dt, first + every * np.arange(frames), x, v, energy)


class _Motion:
    """Steps of all replicas of a serial chain, in place."""

    def __init__(
        self, given: model.Given, dt: float, gravity: Array, by_midpoint: bool, first: int
    ) -> None:
        self.given, self.dt, self.by_midpoint, self.first = given, dt, by_midpoint, first
        self.states = given.q.copy(), given.qd.copy()
        arm = given.arm
        share = 0.5 * dt if by_midpoint else dt
        added = share * (arm.damping + share * arm.stiffness)
        soft = replace(arm, armature=arm.armature + added, damping=None, stiffness=None)
        tables = [articulated_body._plan(each).table for each in (arm, soft)]
        constants = gravity, arm.armature.copy(), model.turning(arm).astype(float)
        self.chain = *tables, arm._kinds, arm._table, constants
        self.springs = arm._springs if arm._passive else None

    def run(self, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps with constant forces, in blocks that the keyboard can interrupt."""
        work = self.given.arm.n * self.given.q.shape[0] * (USUAL if self.by_midpoint else 1)
        block = max(1, BLOCK // work)
        for done in range(0, steps, block):
            pace = self.dt, done, min(block, steps - done), every, self.by_midpoint
            common = self.chain, self.springs, self.states
            self.require(*kernel.run(*common, self.given.last, pace, out))

    def ask(self, tau: Torque, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps with forces that a callable gives."""
        for step in range(1, steps + 1):
            start = (self.first + step - 1) * self.dt
            if self.by_midpoint:
                self.midpoint(step, start + 0.5 * self.dt, tau)
                if step % every == 0:
                    out[0][step // every], out[1][step // every] = self.states
            else:
                pace = self.dt, step - 1, 1, every, False
                forces = self.asked(tau, start, self.states)
                self.require(
                    *kernel.run(self.chain, self.springs, self.states, forces, pace, out)
                )

    def midpoint(self, step: int, time: float, tau: Torque) -> None:
        """Make one step, asking for forces in every round."""
        chain, replicas = (self.chain, self.springs), range(self.given.q.shape[0])
        rooms = [kernel.rooms(self.chain[1]) for _ in replicas]
        states = list(zip(*self.states, strict=True))
        for k, (middle, p0, room) in enumerate(rooms):
            self.require(step, k, kernel.begin(self.chain, states[k], middle, room, p0))
        changes, forces = np.zeros(len(rooms)), self.states[1]
        for _ in range(kernel.ROUNDS):
            for k, (middle, _, _) in enumerate(rooms):
                kernel.glide(self.chain[2], states[k][0], middle[1], self.dt, middle[0], middle[0])
            middles = [np.array([room[0][part] for room in rooms]) for part in range(2)]
            forces = self.asked(tau, time, middles)
            going = [k for k in replicas if changes[k] >= 0.0]
            if not going:
                break
            for k in going:
                middle, p0, room = rooms[k]
                pace = self.dt, changes[k]
                changes[k], code = kernel.improve(*chain, p0, middle, forces[k], pace, room)
                self.require(step, k, code)
        else:
            self.require(step, int(np.argmax(changes)), kernel.NOT_SETTLED)
        for k, (middle, _, room) in enumerate(rooms):
            code = kernel.finish(*chain, states[k], middle, forces[k], self.dt, room)
            self.require(step, k, code)

    def asked(self, tau: Torque, time: float, states: Sequence[Array]) -> Array:
        """Return the forces (replicas, nv) of a callable."""
        seen = [self.given.batch(part.copy()) for part in states]
        forces = _arrays.real(tau(time, *seen), (self.given.arm.nv,), "tau(t, q, qd)", "rate")
        expected = seen[1].shape
        if forces.shape not in (expected, expected[-1:]):
            raise ValueError(f"tau(t, q, qd) must have shape {expected}, got {forces.shape}")
        if not np.isfinite(forces).all():
            raise ValueError(f"tau(t, q, qd) must be finite, got NaN or infinity at t={time:.6g}")
        return np.ascontiguousarray(np.broadcast_to(forces, expected)).reshape(states[1].shape)

    def require(self, step: int, replica: int, code: int) -> None:
        """Raise for a step without an answer."""
        if code == kernel.DONE:
            return
        step += self.first
        if code >= 0:
            error = model.lost_pivot(code, replica, self.given.lead)
            error.step = step
            error.add_note(f"in step {step}")
            raise error
        raise FrameError(
            f"{REASONS[code]} in step {step}",
            f": dt={self.dt} is too long for how fast it moves",
            frame=_arrays.frame_index(replica, self.given.lead),
            step=step,
        )


def _start(
    arm: SerialChain, q: ArrayLike, qd: ArrayLike | None, tau: ArrayLike | Torque | None
) -> model.Given:
    """Coordinates, rates and forces of all replicas, looked at."""
    model.require_arm(arm)
    rest = np.zeros(arm.nv)
    forces: Any = rest if tau is None or callable(tau) else tau
    given = model.gate(arm, q, rest if qd is None else qd, forces)
    given.require_finite()
    return given
