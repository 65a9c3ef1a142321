"""Motion in time of serial chains of rigid bodies, and of closed ones.

The implicit midpoint rule on coordinates and rates, ⊕ the exponential of each joint,

    q̇_m = (q̇_0 + q̇_1)/2,     q_m = q_0 ⊕ (dt/2) q̇_m,
    q̇_1 = q̇_0 + dt q̈(q_m, q̇_m),     q_1 = q_0 ⊕ dt q̇_m,

is symmetric in time, so that the energy of regular motion stays (Hairer, Lubich and Wanner,
Geometric Numerical Integration, 2006, chapter XI).  Springs and dampers are part of the inertia of
their joints, D_i += c dt/2 + k dt²/4, while the equations are solved, which then takes as many
rounds as without them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman import _arrays
from fixman._arrays import Array, Lead
from fixman.errors import FrameError
from fixman.kernels import rigid_motion as kernel
from fixman.rigid import articulated_body, kinematics, model
from fixman.rigid.model import SerialChain

__all__ = ["Trajectory", "simulate"]

SCHEMES = ("midpoint", "euler")
BLOCK = 400_000  # links times rounds between two looks at the keyboard: some 50 ms
USUAL = 8  # rounds of a step

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
        "midpoint" is of second order and reversible; energy oscillates by O(dt²) and does not drift
        where motion is regular.  "euler" is of first order and loses or gains energy: one round a
        step, linearly implicit in springs and dampers.  Neither needs a shorter dt for stiffer
        ones.
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
        If dt is too long: the equations of the step have no solution, numbers overflow, or a joint
        turns by more than a full turn in a step.
    SingularConstraintError
        If the inertia that some joint moves is zero or lost to rounding, naming the body.
    ValueError
        For wrong shapes and values, and forces that are not finite.

    Notes
    -----
    O(n) a step and replica: of "euler" once the articulated body, of "midpoint" in every round, of
    which there are five to fifteen.  Compiled but for callables.  "midpoint" conserves neither
    momenta nor energy to the last digit; both are off by O(dt²) and return.
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
    _arrays.require_memory(8 * frames * replicas * (system.nq + system.nv), "the frames of this run")
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
        self.given, self.dt = given, dt
        self.by_midpoint, self.first = by_midpoint, first
        self.states = given.q.copy(), given.qd.copy()
        arm = given.arm
        # at its start the inertia of a chain does not depend on anything that moves
        table = articulated_body._plan(arm).table
        constants = gravity, np.zeros(arm.nv), model.turning(arm).astype(float)
        self.chain = table, table, arm._kinds, arm._table, constants
        self.springs = None

    def run(self, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps with constant forces, in blocks that the keyboard can interrupt."""
        rounds = USUAL if self.by_midpoint else 1
        work = self.given.arm.n * self.given.q.shape[0] * rounds
        block = max(1, BLOCK // work)
        for done in range(0, steps, block):
            pace = self.dt, done, min(block, steps - done), every, self.by_midpoint
            common = self.chain, self.springs, self.states
            self.require(*kernel.run(*common, self.given.last, pace, out))

    def ask(self, tau: Torque, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps with forces that a callable gives."""
        a, changes = np.empty_like(self.given.qd), np.empty(self.given.q.shape[0])
        middles = np.empty_like(self.given.q), np.empty_like(self.given.qd)
        chain = self.chain, self.springs
        for step in range(1, steps + 1):
            start = (self.first + step - 1) * self.dt
            if not self.by_midpoint:
                forces = self.asked(tau, start, self.states)
                pace = self.dt, step - 1, 1, every, False
                self.require(*kernel.run(*chain, self.states, forces, pace, out))
                continue
            a[:], changes[:] = 0.0, np.inf
            for _ in range(kernel.ROUNDS):
                kernel.halves(self.chain, self.states, a, self.dt, middles)
                if (changes < 0.0).all():
                    break
                forces = self.asked(tau, start + 0.5 * self.dt, middles)
                found = kernel.rounds(*chain, middles, forces, self.dt, (a, changes))
                self.require(step, *found)
            else:
                self.require(step, int(np.argmax(changes)), kernel.NOT_SETTLED)
            self.require(step, *kernel.advances(self.chain, self.states, self.dt, a, middles))
            if step % every == 0:
                out[0][step // every], out[1][step // every] = self.states

    def asked(self, tau: Torque, time: float, states: tuple[Array, Array]) -> Array:
        """Forces (replicas, nv) of a callable."""
        seen = [self.given.batch(part.copy()) for part in states]
        forces = _arrays.real(tau(time, *seen), (self.given.arm.nv,), "tau(t, q, qd)", "rate")
        expected = seen[1].shape
        if forces.shape not in (expected, expected[-1:]):
            raise ValueError(f"tau(t, q, qd) must have shape {expected}, got {forces.shape}")
        if not np.isfinite(forces).all():
            raise ValueError(f"tau(t, q, qd) must be finite, got NaN or infinity at t={time:.6g}")
        return np.ascontiguousarray(np.broadcast_to(forces, expected)).reshape(self.states[1].shape)

    def require(self, step: int, replica: int, code: int) -> None:
        """Raise for a step without an answer."""
        if code == kernel.DONE:
            return
        frame = _arrays.frame_index(replica, self.given.lead)
        step += self.first
        if code >= 0:
            error = model.lost_pivot(code, replica, self.given.lead)
            error.step = step
            error.add_note(f"in step {step}")
            raise error
        reason = {
            kernel.NOT_SETTLED: "the equations of motion have no solution that iteration finds",
            kernel.TOO_FAST: "a joint turns by more than a full turn",
            kernel.NOT_USABLE: "the motion overflowed",
        }[code]
        rest = f": dt={self.dt} is too long for how fast it moves"
        raise FrameError(f"{reason} in step {step}", rest, frame=frame, step=step)


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
