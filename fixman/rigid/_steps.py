"""Steps in time that Python makes: of chains with a callable's forces, and of closed chains.

A closed chain's step has impulses Aᵀ λ and Aᵀ ν of its closures at its start and end, such that

    p_m = p_0 + A(q_0)ᵀ λ + (dt/2) f_m,     gap(q_1) = 0,       λ by `Impulses`;
    p_1 = p_m + (dt/2) f_m + A(q_1)ᵀ ν,     A(q_1) v_1 = 0,     ν by `closed.closing`,

which keeps it symplectic and symmetric (Marsden and West 2001, section 3.5: RATTLE is of the kind).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common.arrays import Array
from fixman.kernels.rigid import closed as kernel
from fixman.kernels.rigid import motion
from fixman.kernels.rigid import tangent as rigid_tangent
from fixman.kernels.rigid.articulated_body import DONE
from fixman.kernels.rigid.kinematics import follow
from fixman.rigid import _closures, articulated_body, closed
from fixman.rigid._linkage import Linkage
from fixman.rigid.model import Given, SerialChain, coerced

Torque = Callable[[float, Array, Array], ArrayLike]

Solving = Generator[None, Array, tuple[int, Array]]  # forces are sent to it

KEPT = 10  # rounds that the next one learns from
FEW = 8  # rounds after which it does, where forces are a callable's
FARTHEST = 4.0  # that rates may go, of how far the first round leads
ROUNDED = 8.0 * 2.0**-52  # rounding of coordinates in a gap
SAME = 3e-7  # largest share of a change, beside others, that is taken for rounding


def soft(arm: SerialChain, share: float) -> SerialChain:
    added = share * (arm.damping + share * arm.stiffness)
    none = np.zeros(arm.nv)
    return replace(arm, armature=arm.armature + added, damping=none, stiffness=none)


def loads_of(given: Given) -> list[Array]:
    """Gravity and wrenches (replicas, 3 + 6 n) of each chain."""
    g = np.broadcast_to(given.g, (len(given.q), 3))
    bodies = len(given.W) // max(1, len(given.q))  # none without wrenches
    W = given.W.reshape(len(g), 6 * bodies)
    parts = (W[:, 6 * part.start : 6 * part.stop] for part in given.arm._parts["n"])
    return [np.concatenate([g, part], axis=1) for part in parts]


def tables(arm: SerialChain) -> motion.Chain:
    turns = arm._turning.astype(float)
    return motion.Chain(arm._kinds, arm._table, turns, arm._springs)


def stepping(arm: SerialChain, *shared: Array) -> motion.Room:
    """Return room for steps of the midpoint rule; p_0, q_m and v_m may be ``shared``."""
    n, nv, nq = arm.n, arm.nv, arm.nq
    of_sweeps: list[Any] = [(n, 12), (n, 6), (n, 6), (n, 6), nv, nv]
    sizes: list[Any] = [nv, (n, rigid_tangent.WIDTH), (nv, rigid_tangent.RATE), 36, nq]
    sweeps = motion.Sweeps(*(np.empty(size) for size in of_sweeps))
    shared = shared or (np.empty(nv), np.empty(nq), np.empty(nv))
    rest = [*map(np.empty, sizes), *shared, np.empty(motion.REMEMBERED)]
    return motion.Room(sweeps, *rest)


def leaping(arm: SerialChain, dt: float) -> tuple[Any, ...]:
    """Return the table of Euler's scheme, which the chain keeps, and room for it."""
    kept = arm._tables.get("motion", (None,))
    if kept[0] != dt:
        kept = arm._tables["motion"] = dt, articulated_body._plan(soft(arm, dt))
    sizes = kept[1].units, arm.nv, arm.nv, arm.nq
    return (kept[1].table, *(np.empty(size) for size in sizes))


def _share(changes: Array, change: Array) -> Array:
    """Factors of earlier changes, the rows, whose sum is nearest to the last one."""
    scale = 1.0 / np.maximum(np.linalg.norm(changes, axis=1), np.finfo(np.float64).tiny)
    unit = (scale[:, None] * changes).T
    return np.asarray(scale * np.linalg.lstsq(unit, change, rcond=SAME)[0])


class Steps:
    """Steps of all replicas of a chain or linkage, in place.

    ``asks``: whether forces are those of a callable, which the tangent does not know.
    """

    def __init__(self, given: Given, states: tuple[Array, Array], dt: float, asks: bool) -> None:
        system, arms = given.arm, given.arm._arms
        self.given, self.system, self.states, self.dt = given, system, states, dt
        self.loads = loads_of(given)
        self.still = coerced(system, *states)  # views of the states, which move on, without loads
        self.asks, self.chains = asks, [tables(arm) for arm in arms]
        # Coordinates at the middle, rates there, and momenta at the start, of each replica.
        self.q_m, self.x = np.empty_like(states[0]), np.empty((len(states[1]), 2 * system.nv))
        self.v_m, self.p0 = self.x[:, : system.nv], self.x[:, system.nv :]
        self.q_parts, self.v_parts = system._parts["nq"], system._parts["nv"]
        # The state and room for a sweep, of each replica and chain.
        self.parts = [
            [
                ((q[i], v[j]), stepping(arm, p0[j], q_m[i], v_m[j]))
                for i, j, arm in zip(self.q_parts, self.v_parts, arms, strict=True)
            ]
            for q, v, q_m, v_m, p0 in zip(*states, self.q_m, self.v_m, self.p0, strict=True)
        ]
        self.linkage = self.soft = system if isinstance(system, Linkage) else None
        if self.soft is not None:
            self.soft = replace(self.soft, chains=tuple(soft(arm, dt) for arm in arms))

    def midpoint(self, ask: Callable[[tuple[Array, Array]], Array]) -> tuple[int, int]:
        """Make one step, with forces in every round; a replica without an answer, and why."""
        going = {k: self.solve(k) for k in range(len(self.parts))}
        forces: Any = dict.fromkeys(going)
        while going:
            for k, solving in list(going.items()):
                try:
                    solving.send(forces[k])
                except StopIteration as done:
                    if done.value != DONE:
                        return k, done.value
                    del going[k]
            if going:
                forces = ask((self.q_m, self.v_m))
        if self.linkage is not None:
            self.states[1][:] = closed.closing(self.still)
        return 0, DONE

    def solve(self, k: int) -> Generator[None, Array, int]:
        """Make the step of a replica, as `motion.midpoint`, by forces that are sent to it."""
        self.p0[k] = 0.0
        code = self.sweep(k, self.states[1][k], self.dt, motion.BEGIN)
        if code != DONE:
            return code
        start = np.concatenate([self.states[1][k], self.p0[k]])
        impulses = None if self.linkage is None else Impulses(self, self.linkage, k)
        pieces = 1
        while True:
            self.x[k] = start
            for piece in range(1, pieces + 1):
                code, forces = yield from self.solve_middle(k, self.dt * piece / pieces, impulses)
                if code != DONE:
                    break
            else:
                self.glide(k, self.dt)
                return self.sweep(k, forces, self.dt, motion.END)
            pieces *= 4
            if pieces > motion.PIECES:
                return code

    def solve_middle(self, k: int, dt: float, impulses: Impulses | None) -> Solving:
        """Solve for the rates at the middle of a step of dt; DONE, or why not, and the forces.

        Where the forces of a callable make rounds slow or lead them astray, Anderson's acceleration
        helps (Walker and Ni, SIAM J. Numer. Anal. 49, 1715, 2011, eq. 4.1).  Where changes then
        grow, it goes back to the best round, and on by half of what that moved.
        """
        x, v_m, nv = self.x[k], self.v_m[k], self.system.nv
        # With closures, rates feel a gap's rounding.
        gap = 0.0 if impulses is None else ROUNDED * max(1.0, np.abs(self.states[0][k]).max())
        progress = np.array([*(np.inf,) * motion.ROUNDING, gap / dt])
        which, again, learning = motion.NEWTON, motion.ROUND, False
        start, bound, share, best, size = v_m.copy(), np.inf, 1.0, np.inf, np.inf
        to = change = x.copy()
        kept = to, change
        learned: list[tuple[Array, Array]] = []  # differences of where rounds led, and how far
        for count in range(4 * motion.ROUNDS if self.asks else motion.ROUNDS):
            before, older = x.copy(), (to, change)
            self.glide(k, dt)
            forces = yield
            code = self.sweep(k, forces, dt, which)
            if code != DONE:
                return code, forces
            led = float(np.abs(v_m - before[:nv]).max())
            if impulses is not None:
                impulses.close(dt, which)
            to, change = x.copy(), x - before
            if learning:
                progress[motion.LAST] = np.inf  # such changes do not tell how fast they shrink
            moved = change[:nv]
            which = int(motion.judged(self.system.n, self.q_m[k], v_m, moved, progress, dt, which))
            size = float(np.abs(moved).max())
            if not count:
                bound = FARTHEST * size
                if impulses is not None:  # which take back what forces do to a linkage at rest
                    progress[motion.LAST] = max(size, led)
            if which == motion.SETTLED:
                far = learning and np.abs(v_m - start).max() > bound
                return motion.NOT_SETTLED if far else DONE, forces
            if not np.isfinite(size):
                break
            slow = which in (motion.BACK, motion.ASTRAY) or count >= FEW
            if self.asks and (learning or slow):
                if learning and size > 2.0 * best:
                    share *= 0.5
                    (to, change), learned = kept, []
                    x[:] = to - (1.0 - share) * change
                elif count:
                    learned = [*learned[1 - KEPT :], (to - older[0], change - older[1])]
                    ways, changes = map(np.array, zip(*learned, strict=True))
                    x -= _share(changes, change) @ ways
                if size < best:
                    best, kept = size, (to, change)
                learning, which = True, motion.ROUND
                continue
            if which == motion.ASTRAY:
                break
            if which == motion.BACK:
                x[:], which, again = before, motion.NEWTON, motion.NEWTON
            if which == motion.ROUND:
                which = again
        return motion.NOT_SETTLED, forces

    def sweep(self, k: int, forces: Array, dt: float, which: int) -> int:
        """Make one sweep of the chains of a replica, by forces (nv,); DONE, or why not."""
        for c, (state, room) in enumerate(self.parts[k]):
            force = forces[self.v_parts[c]], self.loads[c][k]
            code: int = motion.swept(self.chains[c], state, force, dt, room, which)
            if code != DONE:
                return code
        return DONE

    def glide(self, k: int, dt: float) -> None:
        """Lead the coordinates of a replica to the middle by its rates there."""
        for chain, ((q, _), room) in zip(self.chains, self.parts[k], strict=True):
            follow(chain[0], q, room.v_m, 0.5 * dt, room.q_m, True, room.q_m)

    def euler(self, forces: Array) -> tuple[int, int]:
        """Make one linearly implicit step of all replicas; the one without an answer, and why."""
        if self.linkage is not None and self.soft is not None:
            return self.closed_euler(self.linkage, self.soft, forces)
        pace, frames = (self.dt, 0, 1, 2), tuple(part[None] for part in self.states)  # no frame
        room = leaping(self.system, self.dt)
        given = (forces, self.loads[0]), pace, None, room, (self.states, frames)
        _, replica, code = motion.run(self.chains[0], *given)
        return replica, code

    def closed_euler(self, linkage: Linkage, soft: Linkage, forces: Array) -> tuple[int, int]:
        (q, v), dt, g, W = self.states, self.dt, self.given.g, self.given.W
        felt = W.reshape(len(q), -1, 6) if W.size else None
        then = coerced(linkage, closed.integrate(linkage, q, v, dt), v, forces)
        total = _closures.driven(then).last
        v += dt * closed.forward_dynamics(soft, q, v, total, gravity=g, wrenches=felt).qdd
        turns = dt * np.abs(v[:, linkage._turning]).max(-1, initial=0.0)
        if not (turns <= motion.FASTEST).all():
            return int(np.argmin(turns <= motion.FASTEST)), motion.TOO_FAST
        q[:], v[:] = closed.project(linkage, closed.integrate(linkage, q, v, dt), v)
        return 0, DONE


class Impulses:
    """Impulses Aᵀ λ of closures at the start of a replica's step, such that its end closes.

    A round, Newton's but for B(X) of the joints, changes v_m and p_0 with λ:

        δλ = −(dt A(q_1) J⁻¹ A(q_0)ᵀ)⁻¹ gap(q_1),   δp_0 = A(q_0)ᵀ δλ,   δv_m = J⁻¹ A(q_0)ᵀ δλ

    `kernel.PULLS` gives rates ℳ⁻¹ Aᵀ f that span those of all f.  `motion.BEGIN` multiplies them by
    ℳ(q_0): so ``pushes`` are impulses A(q_0)ᵀ f that span all.  Instead of λ the factors of these
    are solved for, with ``rates`` J⁻¹ A(q_0)ᵀ f and ``opening`` A(q_1) J⁻¹ A(q_0)ᵀ f.
    """

    def __init__(self, steps: Steps, linkage: Linkage, k: int) -> None:
        self.steps, self.linkage, self.k = steps, linkage, k
        p0, (q, v) = steps.p0[k], (part[k] for part in steps.states)
        rest = np.zeros((1, p0.size))
        self.still = steps.still._replace(q=q[None], qd=rest, last=rest, lead=())
        rates = _closures.answers(self.still, kernel.PULLS)[1].reshape(-1, p0.size)
        start, self.pushes = (p0.copy(), v.copy()), np.empty_like(rates)
        for push, rate in zip(self.pushes, rates, strict=True):
            p0[:], v[:] = 0.0, rate
            steps.sweep(k, v, steps.dt, motion.BEGIN)
            push[:] = p0
        p0[:], v[:] = start

    def close(self, dt: float, which: int) -> None:
        """Close the end of the step that the rates at its middle lead to."""
        steps, k = self.steps, self.k
        steps.glide(k, dt)
        end = steps.q_m[k].copy()
        for chain, part, (_, room) in zip(steps.chains, steps.q_parts, steps.parts[k], strict=True):
            follow(chain[0], room.q_m, room.v_m, 0.5 * dt, room.q_m, True, end[part])
        if which == motion.NEWTON:
            self.rates = self.pushes.copy()
            for c, (_, room) in enumerate(steps.parts[k]):
                for rate in self.rates:
                    rigid_tangent.solve(
                        steps.chains[c][0], room.axes, room.rows, rate[steps.v_parts[c]]
                    )
            ends, none = np.tile(end, (len(self.rates), 1)), np.zeros_like(self.rates)
            moving = self.still._replace(q=ends, qd=self.rates, last=none, lead=(len(ends),))
            self.opening = _closures.gaps(moving, rates=True).T
        (gap,) = _closures.gaps(self.still._replace(q=end[None]))
        try:
            impulses = np.linalg.solve(self.opening, -gap / dt)
        except np.linalg.LinAlgError:
            impulses = np.full(len(gap), np.nan)
        steps.v_m[k] += impulses @ self.rates
        steps.p0[k] += impulses @ self.pushes
