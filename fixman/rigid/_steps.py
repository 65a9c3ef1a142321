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

REASONS = {
    kernel.NOT_SETTLED: "the equations of motion are not solved by iteration",
    kernel.TOO_FAST: "a joint turns by more than half a turn",
    NOT_USABLE: "the motion overflowed",
}


def soft(arm: SerialChain, share: float) -> SerialChain:
    """Return the chain with its springs and dampers as inertia, for a share of a step."""
    added = share * (arm.damping + share * arm.stiffness)
    none = np.zeros(arm.nv)
    return replace(arm, armature=arm.armature + added, damping=none, stiffness=none)


def tables(arm: SerialChain, gravity: Array, share: float) -> tuple[Any, ...]:
    """Return ``chain`` and ``springs`` of the kernels, for a share of a step."""
    # The last is kept: a run in pieces would wait for it more than for its steps.
    if arm._tables.get("motion", (None,))[0] != share:
        arm._tables["motion"] = share, soft(arm, share)
    other = arm._tables["motion"][1]
    both = [articulated_body._plan(each).table for each in (arm, other)]
    turning, armature = model.turning(arm).astype(float), arm.armature.copy()
    constants = gravity, armature, turning, other.armature - armature
    springs = arm._springs if arm._passive else None
    return (*both, arm._kinds, arm._table, constants), springs


def failure(code: int, step: int, dt: float, replica: int, lead: Lead) -> FrameError:
    """Return the error for a step without an answer."""
    if code >= 0:
        error = model.lost_pivot(code, replica, lead)
        error.step = step
        error.add_note(f"in step {step}")
        return error
    return FrameError(
        f"{REASONS[code]} in step {step}",
        f": dt={dt} is too long for how fast it moves",
        frame=_arrays.frame_index(replica, lead),
        step=step,
    )


class Steps:
    """Steps of all replicas of a chain or linkage, in place."""

    def __init__(
        self,
        system: SerialChain | Linkage,
        states: tuple[Array, Array],
        gravity: Array,
        dt: float,
        share: float,
    ) -> None:
        arms = system.chains if isinstance(system, Linkage) else (system,)
        self.system, self.states, self.gravity, self.dt = system, states, gravity, dt
        self.chains = [tables(arm, gravity, share) for arm in arms]
        self.whole = [kernel.rooms(chain[1]) for chain, _ in self.chains]
        self.rooms = [room[2] for room in self.whole]
        sizes = [[getattr(arm, size) for arm in arms] for size in ("nq", "nv")]
        self.parts = [
            [slice(i, j) for i, j in pairwise(np.cumsum([0, *each]).tolist())] for each in sizes
        ]
        self.closures = _Closures(system, share) if isinstance(system, Linkage) else None

    def views(self, states: tuple[Array, Array], replica: int) -> list[tuple[Array, Array]]:
        """Return q and q̇ of each chain of a replica."""
        q, v = states[0][replica], states[1][replica]
        return [(q[i], v[j]) for i, j in zip(*self.parts, strict=True)]

    def midpoint(self, ask: Callable[[tuple[Array, Array]], Array]) -> tuple[int, int]:
        """Make one step; forces (replicas, nv) are asked for in every round.

        Returns the replica without an answer, and why.
        """
        middles = np.empty_like(self.states[0]), np.empty_like(self.states[1])
        p0, forces = np.empty_like(self.states[1]), self.states[1]
        going = list(range(len(p0)))
        for k in going:
            for c, (state, middle) in enumerate(self.pairs(middles, k)):
                chain, part = self.chains[c][0], p0[k, self.parts[1][c]]
                code = kernel.begin(chain, state, middle, self.rooms[c], part)
                if code != DONE:
                    return k, code
        progress = np.full((len(p0), 3), np.inf)
        for _ in range(kernel.ROUNDS):
            for k in going:
                for c, ((q, _), (q_m, v_m)) in enumerate(self.pairs(middles, k)):
                    kernel.glide(self.chains[c][0][2], q, v_m, self.dt, q_m, q_m)
            forces, still = ask(middles), []
            for k in going:
                change, code = self.improve(k, p0[k], middles, forces[k])
                if code != DONE:
                    return k, code
                middle = middles[0][k], middles[1][k]
                if not kernel.settled(self.system.n, middle, change, progress[k], self.dt):
                    still.append(k)
            going = still
            if not going:
                return self.finish(middles, forces)
        return going[0], kernel.NOT_SETTLED

    def pairs(self, middles: tuple[Array, Array], k: int) -> Any:
        """Return the state and the middle of each chain of a replica."""
        return zip(self.views(self.states, k), self.views(middles, k), strict=True)

    def improve(
        self, k: int, p0: Array, middles: tuple[Array, Array], force: Array
    ) -> tuple[float, int]:
        """Make one round of a replica; how far its rates moved, or why not."""
        largest, rates = 0.0, self.parts[1]
        for c, middle in enumerate(self.views(middles, k)):
            given = *self.chains[c], p0[rates[c]], middle, force[rates[c]], self.dt
            change, code = kernel.improve(*given, self.rooms[c])
            if code != DONE:
                return 0.0, code
            largest = max(largest, change)
        if self.closures is None:
            return largest, DONE
        end = middles[0][k].copy()
        for c, ((q, _), (q_m, v_m)) in enumerate(self.pairs(middles, k)):
            kinds = self.chains[c][0][2]
            kernel.glide(kinds, q, v_m, self.dt, q_m, q_m)
            kernel.glide(kinds, q_m, v_m, self.dt, q_m, end[self.parts[0][c]])
        pulled = self.closures.pull(self.states[0][k], end, self.dt)
        middles[1][k] += pulled
        for c, (q, _) in enumerate(self.views(self.states, k)):
            chain = self.chains[c][0]
            kernel.impulse(chain, q, pulled[rates[c]], self.rooms[c], p0[rates[c]])
        return max(largest, float(np.abs(pulled).max())), DONE

    def finish(self, middles: tuple[Array, Array], forces: Array) -> tuple[int, int]:
        """Bring every replica to the end of its step; the one without an answer, and why."""
        for k in range(len(forces)):
            for c, (state, middle) in enumerate(self.pairs(middles, k)):
                given = *self.chains[c], state, middle, forces[k][self.parts[1][c]], self.dt
                code = kernel.finish(*given, self.rooms[c])
                if code != DONE:
                    return k, code
        if self.closures is not None:
            self.closures.hold(*self.states)
        return 0, DONE

    def euler(self, forces: Array) -> tuple[int, int]:
        """Make one linearly implicit step of all replicas; the one without an answer, and why."""
        if self.closures is not None:
            return self.closures.euler(self.states, forces, self.gravity, self.dt)
        (chain, springs), (room,) = self.chains[0], self.whole
        for k, state in enumerate(zip(*self.states, strict=True)):
            code = kernel.euler(chain, springs, state, forces[k], self.dt, room)
            if code != DONE:
                return k, code
        return 0, DONE


class _Closures:
    """What holds the closures of a linkage."""

    def __init__(self, linkage: Linkage, share: float) -> None:
        self.linkage = linkage
        self.soft = replace(linkage, chains=tuple(soft(arm, share) for arm in linkage.chains))
        self.turning = linkage._turning
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

    def hold(self, q: Array, v: Array) -> None:
        """Take the rates of gaps away, the second time for what rounding leaves."""
        for _ in range(2):
            v += _closures.correction(self.linkage, q, v, RATE)

    def euler(
        self, states: tuple[Array, Array], forces: Array, gravity: Array, dt: float
    ) -> tuple[int, int]:
        """Make one linearly implicit step, and close what it opens."""
        q, v = states
        then, total = closed.integrate(self.linkage, q, v, dt), forces.copy()
        for _, arm, x, w, f in _closures.chains(self.linkage, then, v, total):
            f += joints.passive_forces(arm, x, w)
        a = closed.forward_dynamics(self.soft, q, v, total, gravity=gravity).qdd
        v += dt * a
        turns = dt * np.abs(v[:, self.turning]).max(-1, initial=0.0)
        if not (turns <= kernel.FASTEST).all():
            return int(np.argmin(turns <= kernel.FASTEST)), kernel.TOO_FAST
        q[:], v[:] = closed.project(self.linkage, closed.integrate(self.linkage, q, v, dt), v)
        return 0, DONE
