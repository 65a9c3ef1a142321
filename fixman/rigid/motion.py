"""Motion in time of serial chains of rigid bodies, and of closed ones.

The variational midpoint rule: of L = T − U, rates constant and equal to v_m in a step, joints
following them by their exponentials ⊕, and p = ∂L/∂θ̇,

    q_m = q_0 ⊕ (dt/2) v_m,     q_1 = q_0 ⊕ dt v_m,
    p_m = ℳ(q_m) v_m = p_0 + (dt/2) f_m = p_1 − (dt/2) f_m,     f = ∂L/∂q + forces without potential

(Marsden and West, Acta Numerica 2001, eq. 1.4.1; momenta of balls are carried by the derivative of
the exponential).  It is symplectic and symmetric: momenta about a fixed point that have a symmetry
are kept to rounding, about the mass centre to O(dt²), and the energy does not drift.  ∂T/∂q takes
one sweep.  v_m takes a few rounds of Newton's method, with the articulated body's tangent
(`fixman.kernels.rigid.tangent`), in which springs and dampers are D_i += c dt/2 + k dt²/4, so that
stiff ones take as many rounds as none.  Rounds must become small from the rates of the step before
on.  Where they do not, v_m is followed from them by steps of dt/4, dt/2 and so on, in up to 64
pieces; a step of which that fails too is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import pairwise
from os import PathLike
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array, Lead
from fixman.errors import ConstraintSolveError, FrameError, SingularConstraintError
from fixman.kernels.rigid import motion as kernel
from fixman.kernels.rigid.articulated_tables import DONE, NOT_USABLE
from fixman.kernels.rigid.joints import TURNS
from fixman.rigid import _closures, _recording, _steps, articulated_body, closed, kinematics, model
from fixman.rigid._linkage import Linkage
from fixman.rigid._recording import Trajectory, maker
from fixman.rigid._steps import Torque
from fixman.rigid.model import SerialChain
from fixman.runs import loop
from fixman.runs.about import require_whole

__all__ = ["Trajectory", "go_on", "maker", "simulate"]

Forces = Callable[[tuple[Array, Array]], Array]  # for all replicas, at q and q̇

SCHEMES = ("midpoint", "euler")
BLOCK = 400_000  # links times rounds between two looks at the keyboard: some 50 ms
USUAL = 8  # rounds of a step
BLOCK_WORK = 40 * BLOCK  # of a block of a run
SLOW = 30  # how much more a step in Python takes

SLOWLY = 1.0  # radians in a step, from where it is the motion that is too fast
SHORTER = 16.0 ** np.arange(1, 11)  # how much shorter steps are that are tried for an answer
FARTHEST = 1e8  # radians from 0, from where a step is lost in the rounding of an angle
CLOSED = 1e-9  # how far positions and rates may be from closing at the start
# Least compliance of closures, where a step has no answer: it falls as the square of the angle by
# which a linkage is off a singular posture.
SINGULAR = 1e-3

REASONS = {
    kernel.NOT_SETTLED: "the equations of the midpoint rule are not solved",
    kernel.TOO_FAST: "a joint turns by more than half a turn",
    NOT_USABLE: "the motion overflowed",
}
JUMPS = (
    ".  Forces of `tau` that jump, as of friction by sign(qd), have no balance in a step: smooth "
    "ones have, as of tanh(qd / eps).  Strong gains are better on the chain, where they are "
    "implicit: replace(arm, damping=..., stiffness=..., rest=...)"
)


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
    out: str | PathLike[str] | None = None,
    progress: bool | None = False,
    overwrite: bool = False,
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
        linearly implicit in springs and dampers.  Neither needs a shorter dt for stiffer ones.
        Weight and velocities are explicit in "euler": n hanging links of length ℓ need a dt below
        √(ℓ / (n g)).
    every : int
        Steps from one recorded frame to the next; it divides ``steps``.
    first : int
        Steps done before: the time starts at ``first * dt``.
    out, progress, overwrite
        File, as for `fixman.simulate`, which `fixman.load_run` reads and `fixman.resume` goes on
        with; and whether to show a progress bar.

    Returns
    -------
    Trajectory
        steps / every + 1 frames, or those until Ctrl-C.  A run that is continued from the last one,
        with ``first`` its step, is the longer run to the last bit.

    Raises
    ------
    FrameError
        If dt is too long: numbers overflow, or a joint turns by more than half a turn in a step.
        If the rates that belong to those of the step before are not found; the error says whether
        a shorter dt has an answer.  Forces of a callable that jump, as of friction by sign(q̇),
        have none: smooth them, as tanh(q̇/ε).  If a start is off by more than 1e-9 from closing:
        `closed.project` first.
    SingularConstraintError
        If the inertia that some joint moves is zero or lost to rounding, naming the body; if a
        linkage comes to a singular posture, naming the closures.
    ValueError
        For wrong shapes and values, and forces that are not finite.
    Exception
        After any error of a step or of ``tau``, the frames before it are at ``out``, or in the
        ``run`` of the error without ``out``.

    Notes
    -----
    O(n) a step and replica: of "euler" once the articulated body, of "midpoint" two to four times
    as much and momenta in every round, of which there are three to ten.  Compiled but for callables
    and closures.  Momenta of n links lose digits as n³, so that "midpoint" is for some thousand
    links at most.
    """
    gravity = model.falling(gravity)
    arrays.require_finite(gravity, (3,), "gravity", "component")
    given = _start(system, q, qd, tau, gravity, wrenches)
    _require_near(system, given.q, given.lead)
    dt, steps = arrays.positive(dt, "dt"), arrays.positive_int(steps, "steps")
    every = arrays.positive_int(every, "every")
    require_whole(steps, every)
    first = arrays.whole(first, "first", 0)
    if first + steps > np.iinfo(np.int64).max:
        raise ValueError(f"first + steps must be below 2**63, got first={first}")
    arrays.require_one_of(scheme, "scheme", SCHEMES)
    cost = USUAL if scheme == "midpoint" else 1
    cost *= SLOW if callable(tau) or isinstance(system, Linkage) else 1
    about = {"stepper": {"name": scheme, "dt": dt}, "gravity": gravity, "asks": callable(tau)}
    about |= {"steps": steps, "every": every, "first": first}
    forces = {"tau": None if callable(tau) else tau, "wrenches": wrenches}
    states = given.q, given.qd, given.lead
    target = _recording.begin(system, about, states, forces, BLOCK_WORK // cost, out, overwrite)
    with contextlib.closing(target), loop.keeping(target, new=True):
        go_on(target, tau, progress, given)
    return target.run()  # type: ignore[no-any-return]


def go_on(target: loop.Recorder, tau: Any, progress: Any, given: _Given | None = None) -> None:
    """Go on with a run that is begun, to its end or until Ctrl-C; ``tau`` as before."""
    about, state = target.about, target.state
    asks = about["asks"]
    if asks is not callable(tau):
        hint = "a callable, which a file cannot hold: pass it again" if asks else "in its file"
        raise ValueError(f"the forces tau of this run are {hint}")
    if given is None:
        forces, gravity = tau if asks else state.get("tau"), np.array(about["gravity"])
        start = target.run().system, state["q"], state["qd"]
        given = _start(*start, forces, gravity, state.get("wrenches"))
    scheme, dt = about["stepper"]["name"], about["stepper"]["dt"]
    motion = _Motion(given, dt, scheme == "midpoint", tau if asks else None)
    with loop.watched(progress, target) as watch:
        loop.run(_recording.Moving(motion, about, given.lead, state), target, watch)


class _Motion:
    """Steps of all replicas, in place, and the frames that are kept."""

    def __init__(self, given: _Given, dt: float, by_midpoint: bool, tau: Torque | None) -> None:
        self.given, self.dt, self.tau = given, dt, tau
        self.by_midpoint, self.first, self.done = by_midpoint, 0, 0
        self.states = given.q.copy(), given.qd.copy()
        self.compiled = tau is None and isinstance(given.system, SerialChain)

    def make(self, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps, and keep frames from number 1 on."""
        self.done = 0
        if not len(self.states[0]):
            return
        if self.compiled:
            self.run(self.given.system, steps, every, out)  # type: ignore[arg-type]
        else:
            self.ask(self.tau, steps, every, out)

    def run(self, arm: SerialChain, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps of a chain with constant forces, in blocks that the keyboard can interrupt."""
        chain, forces = _steps.tables(arm), (self.given.tau, self.given.loads[0])
        rooms: tuple[Any, Any] = None, _steps.leaping(arm, self.dt)
        if self.by_midpoint:
            rooms = _steps.stepping(arm), None
        kept = self.states, out
        work = arm.n * self.given.q.shape[0] * (USUAL if self.by_midpoint else 1)
        block = max(1, BLOCK // work)
        for done in range(0, steps, block):
            pace = self.dt, done, min(block, steps - done), every
            step, replica, code = kernel.run(chain, forces, pace, *rooms, kept)
            if code != DONE:
                self.done = step - 1
                raise self.failed(code, step, replica, self.states)

    def ask(self, tau: Torque | None, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps in Python: of linkages, and with forces that a callable gives."""
        given = self.given.system, self.states, self.given.loads, self.dt, tau is not None
        moving = _steps.Steps(*given)
        for step in range(1, steps + 1):
            time = (self.first + step - (0.5 if self.by_midpoint else 1.0)) * self.dt

            def forces(states: tuple[Array, Array], time: float = time) -> Array:
                return self.given.tau if tau is None else self.asked(tau, time, states)

            before = self.states[0].copy(), self.states[1].copy()
            try:
                if self.by_midpoint:
                    replica, code = moving.midpoint(forces)
                else:
                    replica, code = moving.euler(forces(self.states))
            except (FrameError, ConstraintSolveError) as error:
                raise self.explained(error, before, step) from None
            if code != DONE:
                raise self.failed(code, step, replica, before, tau and forces)
            self.done = step
            if step % every == 0:
                out[0][step // every], out[1][step // every] = self.states

    def explained(
        self, error: FrameError | ConstraintSolveError, before: tuple[Array, Array], step: int
    ) -> FrameError | ConstraintSolveError:
        """Return the error that a step of a linkage met, or that of the singular posture there."""
        for replica in range(len(before[0])):
            singular = self.singular(replica, before, step)
            if singular is not None:
                return singular
        error.step = self.first + step
        error.add_note(f"in step {error.step}, perhaps because dt={self.dt} is too long")
        return error

    def turns(self, replica: int, states: tuple[Array, Array]) -> float:
        """Return how far a joint turns in a step at the rates of the start."""
        rates = states[1][replica, self.given.turning]
        return float(self.dt * np.abs(rates).max(initial=0.0))

    def singular(
        self, replica: int, states: tuple[Array, Array], step: int
    ) -> SingularConstraintError | None:
        """Return the error of a singular posture that a step leads to, if it does."""
        system, (q, qd) = self.given.system, (part[replica] for part in states)
        frame = arrays.frame_index(replica, self.given.lead)
        rest = np.zeros(system.nv)
        ahead = self.dt if self.turns(replica, states) < SLOWLY else 0.0
        try:
            for share in (0.0, 0.5 * ahead, ahead):
                if isinstance(system, SerialChain):
                    x = kinematics.integrate(system, q, share * qd)
                    articulated_body.forward_dynamics(system, x, rest, rest)
                else:
                    x = closed.integrate(system, q, qd, share)
                    _closures.require_definite(system, x, frame, SINGULAR)
        except SingularConstraintError as error:
            named = error.moved(frame)
            named.step = self.first + step
            named.add_note(f"near which step {named.step} has no answer")
            return named
        except FrameError:  # numbers overflow
            pass
        return None

    def failed(
        self,
        code: int,
        step: int,
        replica: int,
        states: tuple[Array, Array],
        forces: Forces | None = None,
    ) -> FrameError:
        """Return the error for a step from ``states`` without an answer; ``forces`` are a tau's."""
        singular = self.singular(replica, states, step)
        if singular is not None:
            return singular
        if self.by_midpoint:
            # If it moved slowly, it is the rounds that went astray.
            slow = self.turns(replica, states) < SLOWLY
            code = kernel.NOT_SETTLED if slow else kernel.TOO_FAST
        reason, cause = REASONS[code], f": dt={self.dt} is too long for how fast it moves"
        if code == kernel.NOT_SETTLED:
            # Forces that jump are never crossed by steps that are short enough: that is no cure.
            tried = self.dt / SHORTER[: 1 if forces else None]
            found = next((dt for dt in tried if self.solved(states, dt, forces)), None)
            if found is not None:
                cause = f": dt={self.dt} is too long, and {found:.3g} is not"
            else:
                cause = f" of dt={self.dt}, nor of {tried[-1]:.3g}"
                cause += "" if forces else ": a shorter one is no cure"
            cause += JUMPS if forces else ""
        step += self.first
        return FrameError(
            f"{reason} in step {step}",
            cause,
            frame=arrays.frame_index(replica, self.given.lead),
            step=step,
        )

    def solved(self, states: tuple[Array, Array], dt: float, forces: Forces | None) -> bool:
        """Whether steps of another length have an answer."""
        q, qd = (part.copy() for part in states)
        moving = _steps.Steps(self.given.system, (q, qd), self.given.loads, dt, forces is not None)
        try:
            return moving.midpoint(forces or (lambda _: self.given.tau))[1] == DONE
        except (FrameError, ConstraintSolveError):
            return False

    def asked(self, tau: Torque, time: float, states: tuple[Array, Array]) -> Array:
        """Return the forces (replicas, nv) of a callable."""
        lead, nv = self.given.lead, self.given.system.nv
        seen = [part.copy().reshape(*lead, part.shape[-1]) for part in states]
        forces = arrays.real(tau(time, *seen), (nv,), "tau(t, q, qd)", "rate")
        if forces.shape not in ((*lead, nv), (nv,)):
            raise ValueError(f"tau(t, q, qd) must have shape {(*lead, nv)}, got {forces.shape}")
        if not np.isfinite(forces).all():
            raise ValueError(f"tau(t, q, qd) must be finite, got NaN or infinity at t={time:.6g}")
        return arrays.spread(forces, lead, (nv,)).reshape(-1, nv)


class _Given(NamedTuple):
    """Coordinates, rates and forces of all replicas, looked at."""

    system: SerialChain | Linkage
    q: Array  # (replicas, nq)
    qd: Array  # (replicas, nv)
    tau: Array  # (replicas, nv)
    loads: list[Array]  # a chain each (replicas, 3 + 6 n): gravity and wrenches
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
        else arrays.real(wrenches, (system.n, 6), "wrenches", "body")
    )
    lead = arrays.common_lead(x.shape[:-1], W.shape[:-2])
    x, v, f = (arrays.spread(part, lead, part.shape[-1:]) for part in (x, v, f))
    x, v, f = (part.reshape(-1, part.shape[-1]) for part in (x, v, f))
    W = arrays.spread(W, lead, W.shape[-2:]).reshape(len(x), W.shape[-2], 6)
    # Looks at the posture too: not every one closes, and the scheme needs one that does.
    given_wrenches = W if W.size else None
    closed.forward_dynamics(system, x, v, f, wrenches=given_wrenches, tolerance=CLOSED)
    parts = (W[:, i:j] for i, j in pairwise(system._offsets["n"]))
    loads = [_loads(gravity, part.reshape(len(x), 6 * part.shape[1])) for part in parts]
    return _Given(system, x, v, f, loads, lead)


def _require_near(system: SerialChain | Linkage, q: Array, lead: Lead) -> None:
    """Refuse angles so large that a step is lost in their rounding."""
    arms = (system,) if isinstance(system, SerialChain) else system.chains
    turns = [arm.position_offsets[1:][TURNS[arm.kinds] == 1] - 1 for arm in arms]
    starts = np.cumsum([0, *(arm.nq for arm in arms)])
    at = np.concatenate([start + own for start, own in zip(starts, turns, strict=False)])
    far = np.argwhere(np.abs(q[:, at]) > FARTHEST)
    if far.size:
        frame, coordinate = far[0][0], at[far[0][1]]
        raise FrameError(
            f"q is {q[frame, coordinate]:.3g} at coordinate {coordinate}",
            f": an angle beyond {FARTHEST:g} radians, in whose rounding steps are lost; "
            "start nearer to 0, whole turns away",
            frame=arrays.frame_index(frame, lead),
        )


def _loads(gravity: Array, wrenches: Array) -> Array:
    """Return gravity and wrenches as the kernels want them."""
    return np.concatenate([np.broadcast_to(gravity, (len(wrenches), 3)), wrenches], axis=1)
