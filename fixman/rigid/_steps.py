"""Steps in time that Python makes: of chains whose forces are asked for, and of closed chains.

A closed chain's step has impulses Aᵀ λ and Aᵀ ν of its closures at both ends, such that

    p_m = p_0 + A(q_0)ᵀ λ + (dt/2) f_m,  gap(q_1) = 0,     A(q_1) v_1 = 0,

which keeps it symplectic and symmetric (Marsden and West 2001, section 3.5: RATTLE is of the kind).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman import _arrays
from fixman._arrays import Array, Lead
from fixman.errors import FrameError
from fixman.kernels import rigid_closed_motion
from fixman.kernels import rigid_motion as kernel
from fixman.kernels.articulated_body import DONE, NOT_USABLE
from fixman.kernels.rigid_closed_tables import CERTAIN, DEPENDENT, MEMORY, RATE
from fixman.rigid import _closure_tables, _closures, articulated_body, closed, joints, model
from fixman.rigid._linkage import Linkage
from fixman.rigid.model import SerialChain

Torque = Callable[[float, Array, Array], ArrayLike]

# Of the compliance of closures, where a step has no answer: it falls as the square of the angle by
# which a linkage is off a singular posture.
SINGULAR = 1e-3

REASONS = {
    kernel.NOT_SETTLED: (
        "the equations of the step are not solved",
        "their iteration.  Gains in a callable `tau` are better on the chain, where they are "
        "implicit: replace(arm, damping=..., stiffness=..., rest=...); chains of hundreds of "
        'links are for scheme="euler"',
    ),
    kernel.TOO_FAST: ("a joint turns by more than half a turn", "how fast it moves"),
    NOT_USABLE: ("the motion overflowed", "how fast it moves"),
}


def soft(arm: SerialChain, share: float) -> SerialChain:
    """Return the chain with its springs and dampers as inertia, for a share of a step."""
    added = share * (arm.damping + share * arm.stiffness)
    none = np.zeros(arm.nv)
    return replace(arm, armature=arm.armature + added, damping=none, stiffness=none)


def tables(arm: SerialChain, share: float) -> tuple[Any, ...]:
    """Return ``chain`` of the kernels, for a share of a step."""
    # The last is kept: a run in pieces would wait for it more than for its steps.
    kept = arm._tables.get("motion", (None,))
    if kept[0] != share:
        kept = arm._tables["motion"] = share, soft(arm, share)
    both = [articulated_body._plan(each).table for each in (arm, kept[1])]
    turning = model.turning(arm).astype(float)
    return *both, arm._kinds, arm._table, arm.armature.copy(), turning, arm._springs


def sweeping(arm: SerialChain) -> tuple[Any, ...]:
    """Return room for a sweep of `tables`, but for the momenta at the start and the middle."""
    units = articulated_body._plan(arm._tables["motion"][1]).units
    work = np.empty(units), np.zeros(arm.nv), np.zeros(3)
    sweeps = tuple(np.empty((arm.n, size)) for size in (12, 6, 6, 6))
    return work, sweeps, tuple(np.empty(arm.nv) for _ in range(3))


def past(size: int) -> tuple[Array, ...]:
    """Return room for what `kernel.learn` remembers of rounds for so many numbers."""
    m = kernel.KEPT
    shapes = (m, size), (m, size), (2, size), (m, m), (m,), (1,)
    return tuple(np.zeros(shape) for shape in shapes)


def stepping(arm: SerialChain) -> tuple[Any, ...]:
    """Return room for whole steps: of a sweep, of rounds, and of `kernel.settled`."""
    middle = np.empty(arm.nq), np.empty(arm.nv)
    return (*sweeping(arm), np.empty(arm.nv), middle), past(arm.nv), np.empty(4)


def failure(code: int, step: int, dt: float, replica: int, lead: Lead) -> FrameError:
    """Return the error for a step without an answer."""
    if code >= 0:
        error = model.lost_pivot(code, replica, lead)
        error.step = step
        error.add_note(f"in step {step}")
        return error
    reason, cause = REASONS[code]
    return FrameError(
        f"{reason} in step {step}",
        f": dt={dt} is too long for {cause}",
        frame=_arrays.frame_index(replica, lead),
        step=step,
    )


class Steps:
    """Steps of all replicas of a chain or linkage, in place."""

    def __init__(
        self,
        system: SerialChain | Linkage,
        states: tuple[Array, Array],
        loads: list[Array],
        dt: float,
        share: float,
    ) -> None:
        arms = system.chains if isinstance(system, Linkage) else (system,)
        self.system, self.states, self.loads, self.dt = system, states, loads, dt
        self.middles = np.empty_like(states[0]), np.empty_like(states[1])
        self.p0, self.progress = np.empty_like(states[1]), np.empty((len(states[1]), 4))
        self.chains = [tables(arm, share) for arm in arms]
        rooms = [sweeping(arm) for arm in arms]
        q_ends, v_ends = (
            np.cumsum([0, *(getattr(arm, size) for arm in arms)]).tolist() for size in ("nq", "nv")
        )
        self.q_parts, self.v_parts = ([slice(*e) for e in pairwise(x)] for x in (q_ends, v_ends))
        # Of each replica and chain: the state, and room for a sweep.
        self.parts = [
            [
                ((q[i], v[j]), (*room, p0[j], (q_m[i], v_m[j])))
                for i, j, room in zip(self.q_parts, self.v_parts, rooms, strict=True)
            ]
            for q, v, q_m, v_m, p0 in zip(*states, *self.middles, self.p0, strict=True)
        ]
        self.closures = Closures(system, share) if isinstance(system, Linkage) else None
        size = system.nv if self.closures is None else 2 * system.nv
        self.pasts = [past(size) for _ in self.parts]

    def midpoint(self, ask: Callable[[tuple[Array, Array]], Array]) -> tuple[int, int]:
        """Make one step; forces (replicas, nv) are asked for in every round.

        Returns the replica without an answer, and why.
        """
        self.middles[1][:], self.p0[:], self.progress[:] = self.states[1], 0.0, np.inf
        going = list(range(len(self.parts)))
        for k in going:
            self.pasts[k][-1][0] = 0.0
            code = self.sweep(k, self.states[1], kernel.BEGIN)
            if code != DONE:
                return k, code
        for _ in range(kernel.ROUNDS):
            for k in going:
                self.glide(k)
            forces, still = ask(self.middles), []
            for k in going:
                code = self.sweep(k, forces, kernel.ROUND)
                if code != DONE:
                    return k, code
                if not self.learn(k):
                    still.append(k)
            going = still
            if not going:
                return self.finish(forces)
        return going[0], kernel.NOT_SETTLED

    def sweep(self, k: int, forces: Array, which: int) -> int:
        """Make one sweep of the chains of a replica; DONE, or why not."""
        for c, (state, room) in enumerate(self.parts[k]):
            force = forces[k, self.v_parts[c]], self.loads[c][k]
            code: int = kernel.sweep(self.chains[c], state, force, self.dt, room, which)
            if code != DONE:
                return code
        return DONE

    def glide(self, k: int) -> None:
        """Lead the coordinates of a replica to the middle by its rates there."""
        for chain, ((q, _), (*_, (q_m, v_m))) in zip(self.chains, self.parts[k], strict=True):
            kernel.glide(chain[2], q, v_m, self.dt, q_m, q_m)

    def learn(self, k: int) -> bool:
        """Pull closures to, after a round; whether it was the last, or else better rates."""
        middle, progress = (self.middles[0][k], self.middles[1][k]), self.progress[k]
        n, learned = self.system.n, self.pasts[k]
        if self.closures is None:
            change = self.parts[k][0][1][2][0]
            if kernel.settled(n, middle, change, progress, self.dt):
                return True
            kernel.learn(middle[1], change, progress, learned)
            return False
        self.glide(k)
        end = middle[0].copy()
        for chain, part, (_, (*_, (q_m, v_m))) in zip(
            self.chains, self.q_parts, self.parts[k], strict=True
        ):
            kernel.glide(chain[2], q_m, v_m, self.dt, q_m, end[part])
        pulled = self.closures.pull(self.states[0][k], end, self.dt)
        change = np.concatenate([*(room[2][0] for _, room in self.parts[k]), pulled])
        middle[1][:] += pulled
        # What the pull takes at the start, with the added inertia.
        self.p0[k] += self.closures.added * pulled
        for c, ((q, _), room) in enumerate(self.parts[k]):
            state, force = (q, pulled[self.v_parts[c]]), (pulled[self.v_parts[c]], self.loads[c][k])
            kernel.sweep(self.chains[c], state, force, self.dt, room, kernel.BEGIN)
        if kernel.settled(n, middle, change, progress, self.dt):
            return True
        both = np.concatenate([middle[1], self.p0[k]])
        kernel.learn(both, change, progress, learned)
        middle[1][:], self.p0[k] = both[: len(pulled)], both[len(pulled) :]
        return False

    def finish(self, forces: Array) -> tuple[int, int]:
        """Bring every replica to the end of its step; the one without an answer, and why."""
        for k in range(len(self.parts)):
            self.glide(k)
            code = self.sweep(k, forces, kernel.END)
            if code != DONE:
                return k, code
        if self.closures is not None:
            self.closures.hold(*self.states)
        return 0, DONE

    def euler(self, forces: Array) -> tuple[int, int]:
        """Make one linearly implicit step of all replicas; the one without an answer, and why."""
        if self.closures is not None:
            return self.closures.euler(self.states, forces, self.loads, self.dt)
        pace, frames = (self.dt, 0, 1, 2), tuple(part[None] for part in self.middles)  # no frame
        room = self.parts[0][0][1], self.pasts[0], self.progress[0]
        given = (forces, self.loads[0]), pace, room, (self.states, frames)
        _, replica, code = kernel.run(self.chains[0], *given, None)
        return replica, code


class Closures:
    """What holds the closures of a linkage."""

    def __init__(self, linkage: Linkage, share: float) -> None:
        self.linkage = linkage
        self.soft = replace(linkage, chains=tuple(soft(arm, share) for arm in linkage.chains))
        self.turning = linkage._turning
        pairs = zip(self.soft.chains, linkage.chains, strict=True)
        self.added = np.concatenate([new.armature - old.armature for new, old in pairs])
        found = _closure_tables.tables(self.soft)
        self.tables = found.table, found.plan
        memory = np.empty(found.plan[MEMORY])
        wrenches = np.empty(6 * len(linkage.closures))
        self.room = np.zeros(linkage.nv), np.zeros(3), memory, wrenches

    def pull(self, q: Array, end: Array, dt: float) -> Array:
        """Return rates at q, of the least energy, that close the gap at the end of a step."""
        out = np.empty(self.linkage.nv)
        gap = _closures.gaps(self.linkage, end)
        for certain in (CERTAIN, 0.0):
            given = *self.room, certain
            code = rigid_closed_motion.pull(*self.tables, q, gap / dt, given, out)
            if code != DEPENDENT:
                break
            _closures.require_definite(self.soft, q, None)
        if code != DONE:
            raise FrameError("the closures' impulses overflowed")
        return out

    def require_posture(self, states: tuple[Array, Array], dt: float, lead: Lead) -> None:
        """Raise for the first replica that a step leads to a singular posture."""
        for k, (q, v) in enumerate(zip(*states, strict=True)):
            for share in (0.0, 0.5, 1.0):
                ahead = closed.integrate(self.linkage, q, v, share * dt)
                frame = _arrays.frame_index(k, lead)
                _closures.require_definite(self.linkage, ahead, frame, SINGULAR)

    def hold(self, q: Array, v: Array) -> None:
        """Take the rates of gaps away, the second time for what rounding leaves."""
        for _ in range(2):
            v += _closures.correction(self.linkage, q, v, RATE)

    def euler(
        self, states: tuple[Array, Array], forces: Array, loads: list[Array], dt: float
    ) -> tuple[int, int]:
        """Make one linearly implicit step, and close what it opens."""
        q, v = states
        then, total = closed.integrate(self.linkage, q, v, dt), forces.copy()
        for _, arm, x, w, f in _closures.chains(self.linkage, then, v, total):
            f += joints.passive_forces(arm, x, w)
        wrenches = np.concatenate([part[:, 3:] for part in loads], axis=1)
        W = wrenches.reshape(len(q), -1, 6) if wrenches.size else None
        gravity = loads[0][0, :3]
        a = closed.forward_dynamics(self.soft, q, v, total, gravity=gravity, wrenches=W).qdd
        v += dt * a
        turns = dt * np.abs(v[:, self.turning]).max(-1, initial=0.0)
        if not (turns <= kernel.FASTEST).all():
            return int(np.argmin(turns <= kernel.FASTEST)), kernel.TOO_FAST
        q[:], v[:] = closed.project(self.linkage, closed.integrate(self.linkage, q, v, dt), v)
        return 0, DONE
