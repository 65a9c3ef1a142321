"""Motion in time of serial chains of rigid bodies, and of closed ones.

The variational midpoint rule: of L = T − U, rates constant and equal to v_m in a step, joints
following them by their exponentials ⊕, and p = ∂L/∂θ̇,

    q_m = q_0 ⊕ (dt/2) v_m,     q_1 = q_0 ⊕ dt v_m,
    p_m = ℳ(q_m) v_m = p_0 + (dt/2) f_m = p_1 − (dt/2) f_m,     f = ∂L/∂q + forces without potential

(Marsden and West, Acta Numerica 2001, eq. 1.4.1; momenta of balls are carried by the derivative of
the exponential).  It is symplectic and symmetric: momenta that have a symmetry are kept to
rounding, and the energy does not drift.  ∂T/∂q takes one sweep, and v_m a few rounds of Newton's
method with ℳ⁻¹ by the articulated body, which learn from those before where they are slow.  Springs
and dampers are part of the inertia of their joints there, D_i += c dt/2 + k dt²/4, so that stiff
ones take as many rounds as none.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman import _arrays
from fixman._arrays import Array, Lead
from fixman.errors import ConstraintSolveError, FrameError, SingularConstraintError
from fixman.kernels import rigid_motion as kernel
from fixman.kernels.articulated_body import DONE, NOT_USABLE
from fixman.kernels.rigid_motion import NOT_SETTLED, TOO_FAST
from fixman.rigid import _closures, _steps, closed, kinematics, model
from fixman.rigid._linkage import Linkage
from fixman.rigid._steps import Torque
from fixman.rigid.model import SerialChain

__all__ = ["Trajectory", "simulate"]

SCHEMES = ("midpoint", "euler")
BLOCK = 400_000  # links times rounds between two looks at the keyboard: some 50 ms
USUAL = 8  # rounds of a step

SLOWLY = 1.0  # radians in a step, from where no iteration should go as far as half a turn
CLOSED = 1e-9  # how far positions and rates may be from closing at the start


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """What `simulate` finds: recorded frames, the start first.

    Attributes
    ----------
    system : SerialChain or Linkage
    dt : float
    step : ndarray (frames,)
        Steps done, integers.
    q : ndarray (frames, ..., nq)
    qd : ndarray (frames, ..., nv)
    energy : ndarray (frames, ...)
        Kinetic, of gravity, and of springs; not of ``tau`` and ``wrenches``.
    """

    system: SerialChain | Linkage
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
        return np.asarray(self.dt * self.step)

    @property
    def gap(self) -> Array:
        """How far the closures of a linkage are from closing, (frames, ..., held)."""
        if isinstance(self.system, SerialChain):
            raise TypeError("a SerialChain has no closures: gaps are those of a Linkage")
        return closed.gap(self.system, self.q)

    def __repr__(self) -> str:
        """``<Trajectory: 101 frames, steps 0 to 1000, dt=0.001>``."""
        first, last = self.step[[0, -1]]
        return f"<Trajectory: {len(self.step)} frames, steps {first} to {last}, dt={self.dt}>"


def simulate(
    system: SerialChain | Linkage,
    q: ArrayLike,
    dt: float,
    steps: int,
    *,
    qd: ArrayLike | None = None,
    tau: ArrayLike | Torque | None = None,
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    wrenches: ArrayLike | None = None,
    scheme: Literal["midpoint", "euler"] = "midpoint",
    every: int = 1,
    first: int = 0,
) -> Trajectory:
    """Follow the motion of rigid bodies in time.

    `fixman.simulate` is made of beads, with positions and forces; SciPy's integrators know neither
    springs that would need a short dt, nor closures, nor quaternions, and lose energy.

    Parameters
    ----------
    system : SerialChain or Linkage
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
        Acceleration of free fall in the axes of the base; none unless given.
    wrenches : (..., n, 6), optional
        External force, then moment about the origin of the body's frame, on each body in the axes
        of that frame: they turn with it.  Those of `kinematics` are in the axes of the base.
    scheme : "midpoint" or "euler"
        "midpoint" is of second order, symplectic and reversible: energy oscillates by O(dt²) and
        does not drift.  "euler" is of first order and loses or gains energy: one round a step,
        linearly implicit in springs and dampers.  Neither needs a shorter dt for stiffer ones, up
        to some twenty links of "midpoint"; chains of hundreds are for "euler".
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
        turns by more than half a turn in a step.  If a start is off by more than 1e-9 from closing:
        `closed.project` first.
    SingularConstraintError
        If the inertia that some joint moves is zero or lost to rounding, naming the body; if a
        linkage comes to a singular posture, naming the closures.
    ValueError
        For wrong shapes and values, and forces that are not finite.

    Notes
    -----
    O(n) a step and replica: of "euler" once the articulated body, of "midpoint" in every round, of
    which there are four to ten.  Compiled but for callables.  Momenta of n links lose digits as n³,
    so that "midpoint" is for some thousand links at most.
    """
    gravity = model.falling(gravity)
    _arrays.require_finite(gravity, (3,), "gravity", "component")
    given = _start(system, q, qd, tau, gravity, wrenches)
    dt, steps = _arrays.positive(dt, "dt"), _arrays.positive_int(steps, "steps")
    every = _arrays.positive_int(every, "every")
    if steps % every:
        raise ValueError(f"every must divide steps, got every={every} and steps={steps}")
    first = _arrays.whole(first, "first", 0)
    if first + steps > np.iinfo(np.int64).max:
        raise ValueError(f"first + steps must be below 2**63, got first={first}")
    _arrays.require_one_of(scheme, "scheme", SCHEMES)
    frames, replicas = steps // every + 1, given.q.shape[0]
    needed = 8 * frames * replicas * (system.nq + system.nv)
    _arrays.require_memory(needed, "the frames of this run")
    out = np.empty((frames, *given.q.shape)), np.empty((frames, *given.qd.shape))
    out[0][0], out[1][0] = given.q, given.qd
    motion = _Motion(given, dt, scheme == "midpoint", first)
    if isinstance(system, SerialChain) and not callable(tau) and replicas:
        motion.run(system, steps, every, out)
    elif replicas:
        motion.ask(tau if callable(tau) else None, steps, every, out)
    x, v = (part.reshape(frames, *given.lead, part.shape[-1]) for part in out)
    done = first + every * np.arange(frames)
    return Trajectory(system, dt, done, x, v, _energy(system, x, v, gravity))


class _Motion:
    """Steps of all replicas, in place, and the frames that are kept."""

    def __init__(self, given: _Given, dt: float, by_midpoint: bool, first: int) -> None:
        self.given, self.dt = given, dt
        self.by_midpoint, self.first = by_midpoint, first
        self.share = 0.5 * dt if by_midpoint else dt
        self.states = given.q.copy(), given.qd.copy()

    def run(self, arm: SerialChain, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps of a chain with constant forces, in blocks that the keyboard can interrupt."""
        chain, forces = _steps.tables(arm, self.share), (self.given.tau, self.given.loads[0])
        room, kept = _steps.stepping(arm), (self.states, out)
        work = arm.n * self.given.q.shape[0] * (USUAL if self.by_midpoint else 1)
        block = max(1, BLOCK // work)
        for done in range(0, steps, block):
            pace = self.dt, done, min(block, steps - done), every
            answer = kernel.run(chain, forces, pace, room, kept, self.by_midpoint or None)
            self.require(*answer)

    def ask(self, tau: Torque | None, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps in Python: of linkages, and with forces that a callable gives."""
        moving = _steps.Steps(self.given.system, self.states, self.given.loads, self.dt, self.share)
        for step in range(1, steps + 1):
            time = (self.first + step - (0.5 if self.by_midpoint else 1.0)) * self.dt

            def forces(states: tuple[Array, Array], time: float = time) -> Array:
                return self.given.tau if tau is None else self.asked(tau, time, states)

            before = self.states[0].copy(), self.states[1].copy()
            try:
                if self.by_midpoint:
                    answer = moving.midpoint(forces)
                else:
                    answer = moving.euler(forces(self.states))
                self.require(step, *answer)
            except (FrameError, ConstraintSolveError) as error:
                raise self.explained(error, moving.closures, before, step) from None
            if step % every == 0:
                out[0][step // every], out[1][step // every] = self.states

    def explained(
        self,
        error: FrameError | ConstraintSolveError,
        closures: _steps.Closures | None,
        before: tuple[Array, Array],
        step: int,
    ) -> FrameError | ConstraintSolveError:
        """Return the error of a step, or that of the singular posture that it meets."""
        if closures is not None:
            try:
                closures.require_posture(before, self.dt, self.given.lead)
            except SingularConstraintError as singular:
                singular.add_note(f"near which step {self.first + step} has no answer")
                singular.step = self.first + step
                return singular
        if error.step is None:
            error.step = self.first + step
            error.add_note(f"in step {error.step}, perhaps because dt={self.dt} is too long")
        return error

    def asked(self, tau: Torque, time: float, states: tuple[Array, Array]) -> Array:
        """Return the forces (replicas, nv) of a callable."""
        lead, nv = self.given.lead, self.given.system.nv
        seen = [part.copy().reshape(*lead, part.shape[-1]) for part in states]
        forces = _arrays.real(tau(time, *seen), (nv,), "tau(t, q, qd)", "rate")
        if forces.shape not in ((*lead, nv), (nv,)):
            raise ValueError(f"tau(t, q, qd) must have shape {(*lead, nv)}, got {forces.shape}")
        if not np.isfinite(forces).all():
            raise ValueError(f"tau(t, q, qd) must be finite, got NaN or infinity at t={time:.6g}")
        return _arrays.spread(forces, lead, (nv,)).reshape(-1, nv)

    def require(self, step: int, replica: int, code: int) -> None:
        """Raise for a step without an answer."""
        if code != DONE:
            step += self.first
            if self.by_midpoint and code in (TOO_FAST, NOT_USABLE):
                # Of what moved slowly it is the iteration that went astray.
                turns = self.dt * np.abs(self.states[1][replica, self.given.turning])
                if turns.max(initial=0.0) < SLOWLY:
                    code = NOT_SETTLED
            raise _steps.failure(code, step, self.dt, replica, self.given.lead)


class _Given(NamedTuple):
    """Coordinates, rates and forces of all replicas, looked at."""

    system: SerialChain | Linkage
    q: Array  # (replicas, nq)
    qd: Array  # (replicas, nv)
    tau: Array  # (replicas, nv)
    loads: list[Array]  # of each chain (replicas, 3 + 6 n): gravity and wrenches
    lead: Lead

    @property
    def turning(self) -> NDArray[np.bool_]:
        """Which rates are of turns."""
        system = self.system
        return model.turning(system) if isinstance(system, SerialChain) else system._turning


def _start(
    system: SerialChain | Linkage,
    q: ArrayLike,
    qd: ArrayLike | None,
    tau: ArrayLike | Torque | None,
    gravity: Array,
    wrenches: ArrayLike | None,
) -> _Given:
    if not isinstance(system, (SerialChain, Linkage)):
        name = type(system).__name__
        raise TypeError(f"system must be a fixman.rigid.SerialChain or Linkage, got {name}")
    rest = np.zeros(system.nv)
    forces: Any = rest if tau is None or callable(tau) else tau
    rates = rest if qd is None else qd
    if isinstance(system, SerialChain):
        given = model.gate(system, q, rates, forces, gravity, wrenches)
        given.require_finite()
        rows, width = len(given.q), 0 if wrenches is None else 6 * system.n
        loads = [_loads(gravity, given.W.reshape(rows, width))]
        return _Given(system, given.q, given.qd, given.last, loads, given.lead)
    x, v, f = _closures.arguments(system, q=q, qd=rates, tau=forces)
    W = (
        np.empty((0, 6))
        if wrenches is None
        else _arrays.real(wrenches, (system.n, 6), "wrenches", "body")
    )
    lead = _arrays.common_lead(x.shape[:-1], W.shape[:-2])
    x, v, f = (_arrays.spread(part, lead, part.shape[-1:]) for part in (x, v, f))
    x, v, f = (part.reshape(-1, part.shape[-1]) for part in (x, v, f))
    W = _arrays.spread(W, lead, W.shape[-2:]).reshape(len(x), W.shape[-2], 6)
    # Looks at the posture too: not every one closes, and the scheme needs one that does.
    given_wrenches = W if W.size else None
    closed.forward_dynamics(system, x, v, f, wrenches=given_wrenches, tolerance=CLOSED)
    parts = (W[:, i:j] for i, j in pairwise(system._offsets["n"]))
    loads = [_loads(gravity, part.reshape(len(x), 6 * part.shape[1])) for part in parts]
    return _Given(system, x, v, f, loads, lead)


def _loads(gravity: Array, wrenches: Array) -> Array:
    """Return gravity and wrenches as the kernels want them."""
    return np.concatenate([np.broadcast_to(gravity, (len(wrenches), 3)), wrenches], axis=1)


def _energy(system: SerialChain | Linkage, q: Array, qd: Array, gravity: Array) -> Array:
    """Return the energy of every frame."""
    if isinstance(system, SerialChain):
        potential = kinematics.potential_energy(system, q, gravity=gravity)
        return np.asarray(kinematics.kinetic_energy(system, q, qd) + potential)
    parts = _closures.chains(system, q, qd)
    return np.asarray(sum(_energy(arm, x, v, gravity) for _, arm, x, v in parts))
