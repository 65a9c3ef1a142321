"""Motion in time of serial chains of rigid bodies, and of closed ones.

The variational midpoint rule: L = T − U, constant rates v_m in a step, p = ∂L/∂θ̇,

    q_m = q_0 ⊕ (dt/2) v_m,     q_1 = q_0 ⊕ dt v_m,     L_d = dt L(q_m, v_m)
    p_0 = −D₁L_d,  p_1 = D₂L_d:   p_m = ℳ(q_m) v_m = p_0 + (dt/2) f_m = p_1 − (dt/2) f_m

with f = ∂L/∂q + forces without potential (Marsden and West, Acta Numerica 2001, §1.5, and part 3
for forces; momenta of balls are carried by the derivative of the exponential).  Angles and
quaternions follow v_m by their exponentials ⊕, the origin of a body that turns and slides along dt
R_m u, R_m its axes at the middle (not the screw of `kinematics.integrate`).  The rule is symplectic
and symmetric: momenta with a symmetry about a fixed point are kept to rounding, about the mass
centre to O(dt²), and the energy does not drift.  v_m takes a few rounds of Newton's method, with
the articulated body's tangent (`fixman.kernels.rigid.tangent`), in which springs and dampers are
D_i += c dt/2 + k dt²/4, from v_0 on.  Where rounds do not become small, v_m is continued in the
length of the step: solved for dt/4, dt/2, 3dt/4, dt, then in 16 and 64 pieces; where that fails
too, the step is refused.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.errors import ConstraintSolveError, FrameError, SingularConstraintError
from fixman.kernels.rigid import motion as kernel
from fixman.kernels.rigid.articulated_body import DONE, NOT_USABLE
from fixman.kernels.rigid.joints import TURNS
from fixman.rigid import _closures, _recording, _steps, articulated_body, closed, kinematics, model
from fixman.rigid._linkage import Linkage
from fixman.rigid._recording import Trajectory
from fixman.rigid._recording import maker as maker
from fixman.rigid._steps import Torque
from fixman.rigid.model import Given, SerialChain
from fixman.runs import loop
from fixman.runs.runfile import Writer, explained
from fixman.runs.series import Arrays

__all__ = ["Trajectory", "simulate"]
__dir__ = __all__.copy  # completion shows public names alone

BLOCK = 400_000  # links times rounds between two looks at the keyboard: some 50 ms
USUAL = 8  # rounds of a step
BLOCK_WORK = 40 * BLOCK  # of a block of a run
SLOW = 30  # how much more a step in Python takes
SLOWLY = 1.0  # radians in a step, from where it is the motion that is too fast
FARTHEST = 1e8  # radians from 0, from where a step is lost in the rounding of an angle
CLOSED = 1e-9  # how far positions and rates may be from closing at the start
SINGULAR = 1e-3  # compliance of closures, from where a step without answer is called singular

REASONS = {
    kernel.NOT_SETTLED: "the equations of the midpoint rule are not solved",
    kernel.TOO_FAST: "a joint turns by more than half a turn",
    NOT_USABLE: "the motion overflowed",
}
JUMPS = (
    "forces of `tau` that jump, such as sign(qd), have no balance in a step: use tanh(qd / eps), "
    "and for strong gains the chain's own damping, stiffness and rest"
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
    names: Sequence[str] = (),
    tip: ArrayLike | None = None,
) -> Trajectory:
    """Follow the motion of rigid bodies in time: steps / every + 1 frames, the start first.

    Parameters
    ----------
    q : (..., nq)
        Where to start; leading axes are replicas.
    qd : (..., nv), optional
        Rates to start with; at rest without them.
    tau : (..., nv), or a callable, optional
        Joint forces.  A callable of time, q (..., nq) and q̇ (..., nv) returns them; it is called
        at the middle of a step in every round, or at the start by "euler".
    gravity, wrenches
        As in `articulated_body.forward_dynamics`: wrenches turn with their bodies.
    scheme : "midpoint" or "euler"
        "midpoint" is of second order, symplectic and reversible.  "euler" is of first order and
        loses or gains energy: one round a step, linearly implicit in springs and dampers, explicit
        in weight and velocities: n hanging links of length ℓ need a dt below √(ℓ / (n g)).
    every : int
        Steps from one recorded frame to the next; it divides ``steps``.
    first : int
        Steps done before: the time starts at ``first * dt``.  A run from the last frame of another,
        with ``first`` its step, continues that run to the last bit.
    out, progress, overwrite
        As for `fixman.simulate`.
    names, tip
        Names of the joints, such as ``Robot.joint_names``, and a point (3,) of the last body, for
        legends and exported files.

    Raises
    ------
    FrameError
        If dt is too long, numbers overflow, or forces of a callable jump, naming step and replica;
        if a start is off by more than 1e-9 from closing: `closed.project` first.
    SingularConstraintError
        If the inertia that some joint moves is zero or lost to rounding, naming the body; if a
        linkage comes to a singular posture, naming the closures.
    ValueError
        For wrong shapes and values, and forces that are not finite.

    After an error of a step or of ``tau``, ``out`` has the earlier frames; without ``out`` the
    error's ``run`` has them.

    Notes
    -----
    O(n) a step and replica: "euler" costs one articulated-body pass, "midpoint" three to ten rounds
    of two to four passes.  All is compiled except callables and closures.  Momenta of n links lose
    digits as n³, so "midpoint" suits some thousand links at most.
    """
    about = {"stepper": {"name": scheme, "dt": dt}, "gravity": gravity, "asks": callable(tau)}
    about |= {"steps": steps, "every": every, "first": first}
    given = _sound(system, q, qd, tau, wrenches, about)
    about |= _recording.labels(system, names, tip)
    cost = USUAL if scheme == "midpoint" else 1
    cost *= SLOW if callable(tau) or isinstance(system, Linkage) else 1
    forces = {"tau": None if callable(tau) else tau, "wrenches": wrenches}
    target = _recording.begin(given, about, forces, BLOCK_WORK // cost, out, overwrite)
    with contextlib.closing(target), loop.keeping(target, new=True):
        go_on(target, tau, progress, given)
    return target.run()  # type: ignore[no-any-return]


def go_on(target: loop.Recorder, tau: Any, progress: Any, given: Given) -> None:
    """Go on with a run that is begun, to its end or until Ctrl-C; ``tau`` as before."""
    motion = _Motion(given, tau if callable(tau) else None, target)
    with loop.watched(progress, target) as watch:
        loop.run(motion, target, watch)


def again(target: Writer, tau: Any) -> Given:
    """Check a run of a file as the arguments of `simulate`; ``tau`` as before."""
    about, state, asks = target.about, target.state, target.about.get("asks")
    if not (callable(tau) if asks else tau is None):
        hint = "a callable, which a file cannot hold: pass it again" if asks else "in its file"
        raise ValueError(f"the forces tau of this run are {hint}")
    with explained(target.path):
        q, qd, tau, wrenches = state["q"], state["qd"], state.get("tau", tau), state.get("wrenches")
        given = _sound(target.run().system, q, qd, tau, wrenches, about.copy())
        floats = sorted(name for name, array in state.items() if array.dtype == np.float64)
        found = floats, len(given.q), given.lead, qd.shape[:-1]
        due = sorted(["q", "qd", *about["forces"]]), about["replicas"], q.shape[:-1], q.shape[:-1]
        if found != due:
            raise ValueError(f"step {target.step} has {found}, expected {due!r:.200}")
    return given


def _sound(system: Any, q: Any, qd: Any, tau: Any, wrenches: Any, about: dict[str, Any]) -> Given:
    """Coerce and check the arguments of a run, the numbers of ``about`` in place."""
    if not isinstance(system, (SerialChain, Linkage)):
        name = type(system).__name__
        raise TypeError(f"system must be a fixman.rigid.SerialChain or Linkage, got {name}")
    gravity = model.falling(about["gravity"])
    forces = model.AT_REST if tau is None or callable(tau) else tau
    rates = model.AT_REST if qd is None else qd
    given = model.coerced(system, q, rates, forces, gravity, wrenches)
    if isinstance(system, Linkage):  # the scheme needs a posture that closes
        state = (given.batch(part) for part in (given.q, given.qd, given.last))
        closed.forward_dynamics(system, *state, wrenches=wrenches, tolerance=CLOSED)
    else:
        given.require_finite()
    angles = system.position_offsets[1:][TURNS[system.kinds] == 1] - 1
    far = np.argwhere(np.abs(given.q[:, angles]) > FARTHEST)
    if far.size:
        frame, at = far[0, 0], angles[far[0, 1]]
        raise FrameError(
            f"q is {given.q[frame, at]:.3g} at coordinate {at}",
            f": angles beyond {FARTHEST:g} radians lose steps in rounding",
            frame=arrays.frame_index(frame, given.lead),
        )
    scheme, first = about["stepper"]["name"], arrays.whole(about["first"], "first", 0)
    dt, steps, every = model.paced(about["stepper"]["dt"], about["steps"], about["every"])
    arrays.require_one_of(scheme, "scheme", ("midpoint", "euler"))
    about |= {"stepper": {"name": scheme, "dt": dt}, "gravity": gravity}
    about |= {"steps": steps, "every": every, "first": first}
    return given._replace(W=given.W.copy())  # the user's may change during the run


class _Motion:
    """A `fixman.runs.loop.Mover`: steps of all replicas from the checkpoint ``state``."""

    first = 0  # steps before the last `advance`, counted as times are
    done = 0  # steps of it that have an answer
    error: Exception | None = None  # which the next one raises

    def __init__(self, given: Given, tau: Torque | None, target: loop.Recorder) -> None:
        self.given, self.tau, self.about, self.state = given, tau, target.about, target.state
        stepper = self.about["stepper"]
        self.dt, self.by_midpoint = stepper["dt"], stepper["name"] == "midpoint"
        self.step, self.states = target.step, (given.q.copy(), given.qd.copy())
        self.system, asks = given.arm, tau is not None
        python = asks or isinstance(self.system, Linkage)
        self.moving = _steps.Steps(given, self.states, self.dt, asks) if python else None

    def frame(self) -> Arrays:
        return self.named([part[None] for part in self.states])

    def arrays(self) -> Arrays:
        state = {name: array[0] for name, array in self.frame().items()}
        return self.state | state | {"step": np.array(self.step, dtype=np.int64)}

    def named(self, parts: list[Array]) -> Arrays:
        shaped = (part.reshape(len(part), *self.given.lead, part.shape[-1]) for part in parts)
        return dict(zip(("q", "qd"), shaped, strict=True))

    def advance(self, steps: int) -> Arrays:
        """Go on; where a step fails, to the last frame before it, and fail the next time."""
        if self.error is not None:
            raise self.error
        every, self.first = min(steps, self.about["every"]), self.about["first"] + self.step
        start = [part.copy() for part in self.states]
        frames = steps // every
        q, qd = (np.empty((frames + 1, *part.shape)) for part in start)
        while True:
            try:
                self.follow(frames * every, every, (q, qd))
                break
            except Exception as error:
                self.error, frames = error, self.done // every
                compiled = self.moving is None  # replicas one by one: some are further
                for part, kept, before in zip(self.states, (q, qd), start, strict=True):
                    part[:] = before if compiled or not frames else kept[frames]
                if not frames:
                    raise
                if not compiled:
                    break
        self.step += frames * every
        return self.named([q[1:frames], qd[1:frames]])

    def follow(self, steps: int, every: int, out: tuple[Array, Array]) -> None:
        """Make steps and write frames, in blocks such that the keyboard can interrupt them."""
        arm, replicas, self.done = self.system, len(self.given.q), 0
        if self.moving is not None:
            for step in range(1, steps + 1) if replicas else ():
                self.make(step)
                self.done = step
                if step % every == 0:
                    out[0][step // every], out[1][step // every] = self.states
            return
        forces = self.given.last, _steps.loads_of(self.given)[0]
        by_midpoint = _steps.stepping(arm) if self.by_midpoint else None
        by_euler = None if self.by_midpoint else _steps.leaping(arm, self.dt)
        block = max(1, BLOCK // (arm.n * max(1, replicas) * (USUAL if self.by_midpoint else 1)))
        for done in range(0, steps, block):
            pace = self.dt, done, min(block, steps - done), every
            given = forces, pace, by_midpoint, by_euler, (self.states, out)
            step, replica, code = kernel.run(_steps.tables(arm), *given)
            if code != DONE:
                self.done = step - 1
                raise self.failed(code, step, replica, self.states)

    def make(self, step: int) -> None:
        """Make a step in Python: of linkages, and with forces that a callable gives."""
        moving: Any = self.moving
        time = (self.first + step - (0.5 if self.by_midpoint else 1.0)) * self.dt
        before = self.states[0].copy(), self.states[1].copy()
        try:
            if self.by_midpoint:
                replica, code = moving.midpoint(partial(self.forces, time))
            else:
                replica, code = moving.euler(self.forces(time, self.states))
        except (FrameError, ConstraintSolveError) as error:
            singular = [self.singular(k, before, step) for k in range(len(before[0]))]
            error.step = self.first + step
            error.add_note(f"in step {error.step}, perhaps because dt={self.dt} is too long")
            raise next(filter(None, singular), error) from None
        if code != DONE:
            raise self.failed(code, step, replica, before)

    def slow(self, replica: int, states: tuple[Array, Array]) -> bool:
        """Whether no joint turns far in a step at the rates of its start."""
        rates = states[1][replica, self.system._turning]
        return bool(self.dt * np.abs(rates).max(initial=0.0) < SLOWLY)

    def singular(
        self, replica: int, states: tuple[Array, Array], step: int
    ) -> SingularConstraintError | None:
        """Return the error of a singular posture that a step leads to, if it does."""
        system, (q, qd) = self.system, (part[replica] for part in states)
        frame = arrays.frame_index(replica, self.given.lead)
        rest = np.zeros(system.nv)
        ahead = self.dt if self.slow(replica, states) else 0.0
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

    def failed(self, code: int, step: int, replica: int, states: tuple[Array, Array]) -> FrameError:
        singular = self.singular(replica, states, step)
        if singular is not None:
            return singular
        if self.by_midpoint:  # where it moved slowly, the rounds went astray
            code = kernel.NOT_SETTLED if self.slow(replica, states) else kernel.TOO_FAST
        jumps = self.tau is not None and code == kernel.NOT_SETTLED
        blamed = JUMPS if jumps else f"dt={self.dt} is too long"
        step += self.first
        frame = arrays.frame_index(replica, self.given.lead)
        return FrameError(f"{REASONS[code]} in step {step}", f": {blamed}", frame=frame, step=step)

    def forces(self, time: float, states: tuple[Array, Array]) -> Array:
        if self.tau is None:
            return self.given.last
        lead, nv = self.given.lead, self.system.nv
        seen = [part.copy().reshape(*lead, part.shape[-1]) for part in states]
        return model.forces_of(self.tau(time, *seen), "tau(t, q, qd)", lead, nv)
