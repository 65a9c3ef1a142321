"""Scheduled steppers on the chains of a system, which pair forces join.

The kernels take the chains of a kind as replicas of one chain, and stop before each FORCE of the
schedule.  Forces between all beads are found in one place and given to the kernels; the kernels add
the forces of bonds and angles and of the metric.

Hybrid Monte Carlo makes one decision for all chains of a replica, by the sum of their energies and
of those between them.  It draws from the stream of the first chain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common.arrays import Array
from fixman.chains.system import System
from fixman.errors import ConstraintSolveError
from fixman.kernels.algebra.random import WORDS, accepts
from fixman.kernels.simulation import stepping
from fixman.potentials.systems import BoundSystem
from fixman.simulation.steppers.moving import Group, Moving, pool_of
from fixman.simulation.steppers.stepper import Prepared, State, replicated

if TYPE_CHECKING:
    from fixman.simulation.steppers.scheduled import Scheduled


class Together(Prepared):
    """A scheduled stepper on the system of a state."""

    def __init__(self, system: System, state: State, stepper: Scheduled) -> None:
        if stepper.flow is not None:
            raise ValueError("a flow carries one chain: a system takes no flow")
        self.key = (system, stepper)
        self.system, self.stepper = system, stepper
        self.bound = BoundSystem(system, stepper.potential)
        several_decide = stepper.decides and system.chains > 1
        self.joined = bool(self.bound.pair or self.bound.own or several_decide)
        # Velocities of chains are drawn with the motion of their mass centres.
        several = system.chains > 1 and "drifting" in stepper.parameters()
        options = {"drifting": True} if several else {}
        single = replace(stepper, potential=self.bound.inside, **options)  # type: ignore[type-var]
        parts = zip(system.kinds, parts_of(system, state), strict=True)
        self.movings = [Moving(one, part, single, given=self.joined) for (one, _), part in parts]

    def start(self, state: State, v0: ArrayLike | None, known: bool) -> None:
        """Give a state at rest velocities v0, projected, or draw them at kT."""
        system, stepper = self.system, self.stepper
        parts = parts_of(system, state)
        given: list[Any] = [None] * len(parts)
        if v0 is not None:
            v0 = replicated(v0, len(state.x), system, "v0")
            given = [v.reshape(p.x.shape) for v, p in zip(system.split(v0), parts, strict=True)]
        for one, part, v in zip(self.movings, parts, given, strict=True):
            part.prepared = one
            one.key[1]._start(one.key[0], part, v, known)
        put_together(system, state, parts)
        free = all(chain.base == "free" for chain, _ in system.kinds)
        if v0 is None and not stepper.drifting and system.chains > 1 and free:
            state.v -= np.average(state.v, axis=1, weights=system.masses)[:, None]
        self._require_finite(state)

    def _require_finite(self, state: State) -> None:
        """Refuse positions whose forces are not finite, or energies if these decide."""
        self.bound.require_near(state.x)
        energies, decides = np.zeros(len(state.x)), self.stepper.decides
        found = self.bound.between(state.x, energies=energies if decides else None)
        finite = np.isfinite(found).all(axis=(1, 2)) & np.isfinite(energies)
        for r in np.flatnonzero(~finite)[:1].tolist():
            if decides:
                self.bound.energy(state.x[r])  # raises if it is in a wall
            self.bound.refuse(state.x[r])

    def run(self, state: State, steps: int, workers: int) -> None:
        """Move a state on."""
        parts, tally = parts_of(self.system, state), state.tally.copy()
        failures: list[tuple[int, int, int]] = []
        forces = np.zeros_like(state.x)
        if self.joined:
            failures, forces = self._run_joined(state, parts, tally, (steps, workers))
        elif tally.size:
            parts[0].tally = tally  # of one chain
        for k, one in enumerate(() if self.joined else self.movings):
            parts[k], stuck = one.run(parts[k], steps, workers)
            one.bound.check()
            failures += [(*f, k) for f in stuck]
        if failures:
            self.bound.force(state.x)  # raises where the last good state has none
            self._raise(forces, min(failures))
        put_together(self.system, state, parts)
        state.tally = tally if self.joined or not tally.size else parts[0].tally
        state.step += steps

    def _run_joined(
        self, state: State, parts: list[State], tally: Array, work: tuple[int, int]
    ) -> tuple[list[tuple[int, int, int]], Array]:
        """Move chains on; return step, lane and kind of what failed, and their common forces."""
        system, decides, count = self.system, self.stepper.decides, len(self.movings[0].schedule)
        groups = [Group(one, part) for one, part in zip(self.movings, parts, strict=True)]
        failures: list[tuple[int, int, int]] = []
        unmoved, found = False, np.zeros_like(state.x)
        with pool_of(work[1]) as pool:
            for begin, end in self._stretches(work[0]):
                starts, ends = (decides and place % count == 0 for place in (begin, end))
                if not unmoved:
                    energies = np.zeros(len(state.x)) if starts or ends else None
                    x = system.join([self._beads(g, state) for g in groups])
                    found = self.bound.between(x, pool, energies)
                    forces = system.split(found)
                for k, (one, group) in enumerate(zip(self.movings, groups, strict=True)):
                    given = np.zeros_like(group.x)
                    flat = forces[k].reshape(-1, *forces[k].shape[2:])
                    given[:, group.ghosts :] = flat[group.index]
                    motion = one.motion._replace(given=given.reshape(-1))
                    failures += [(*f, k) for f in group.move(motion, (begin, end), pool)]
                if failures:
                    return failures, found
                unmoved = starts
                if starts:
                    before = self._energies(groups, energies)
                    kept = [(group.x.copy(), group.v.copy()) for group in groups]
                    for group in groups:
                        group.tally[:] = 0.0
                elif ends:
                    changes = (self._energies(groups, energies) - before) / self.stepper.kT
                    self._decide(groups, kept, changes, tally)
        for k, group in enumerate(groups):
            lost: list[tuple[int, int]] = []
            parts[k] = group.state(work[0], lost)
            failures += [(*f, k) for f in lost]
        return failures, found

    def _energies(self, groups: list[Group], between: Any) -> Array:
        """Return the energies (replicas,) of all chains, kinetic ones too, and between them."""
        total: Array = between
        for group, (_, many) in zip(groups, self.system.kinds, strict=True):
            rows = group.tally[: group.replicas, 0].reshape(-1, many)
            total = total + np.array([row.sum() for row in rows])
        return total

    def _decide(
        self, groups: list[Group], kept: Sequence[Any], changes: Array, tally: Array
    ) -> None:
        """Accept the changes of energy of each replica, or put all of its chains back."""
        counts = [many for _, many in self.system.kinds]
        refused, first = np.zeros(len(changes), bool), groups[0]
        for group, many in zip(groups, counts, strict=True):
            broken = group.tally[: group.replicas, 1].reshape(-1, many)
            refused |= (broken > 0.0).any(axis=1)
        for r, change in enumerate(changes.tolist()):
            refused[r] |= not accepts(first.random.reshape(-1), WORDS * counts[0] * r, change)
        first.random[:] = first.random[first.index]  # what eight are filled up with
        tally[:, 0] += 1.0
        tally[:, 1] += ~refused
        for group, many, (x, v) in zip(groups, counts, kept, strict=True):
            back = refused[group.index // many]
            group.x[back], group.v[back] = x[back], v[back]

    def _stretches(self, steps: int) -> list[tuple[int, int]]:
        """Places (begin, end) from one FORCE to before the next, of so many steps.

        A place is a move, counted over all steps.  Where FORCE is not the first move, the first
        stretch begins at −1, where `stepping.advance` finds the forces of the start.
        """
        schedule = self.movings[0].schedule
        count, letters = len(schedule), [letter for letter, _ in schedule]
        at = [k for k, letter in enumerate(letters) if letter == stepping.FORCE]
        edges = [place + count * k for k in range(steps) for place in at]
        late = [-1] * (at[0] > 0)
        return list(zip(late + edges, [*edges[1 - len(late) :], steps * count], strict=True))

    def _beads(self, group: Group, state: State) -> Array:
        x: Array = group.x[: group.replicas, group.ghosts :]
        return x.reshape(len(state.x), -1, *x.shape[1:])

    def _raise(self, forces: Array, failure: tuple[int, int, int]) -> None:
        """Say which chain of which replica has no solution, and why."""
        step, lane, kind = failure
        chain, many = self.system.kinds[kind]
        replica, number = divmod(lane, many)
        number += sum(count for _, count in self.system.kinds[:kind])
        bead = int(np.argmax(self.system.molecules() == number))
        beads = slice(bead, bead + chain.n)
        pull = np.linalg.norm(forces[replica, beads], axis=-1)
        worst = int(np.argmax(np.where(np.isfinite(pull), pull, np.inf)))
        cause = f"its largest force from outside is {pull[worst]:.3g}, on bead {worst} of the "
        cause += "chain: start without overlaps (fixman.push_off, or minimize a molecule), or make "
        cause += "dt smaller than "
        if pull[worst] == 0.0:
            cause = "no force acts on it from outside, so v0, kT or dt is too large: dt is "
        said = f"step {step} of chain {number} in replica {replica} has no solution"
        cause, at = f": {cause}{self.stepper.dt:g}", (bead + worst,)
        raise ConstraintSolveError(said, cause, step=step, replica=replica, beads=at)


def parts_of(system: System, state: State) -> list[State]:
    """Return the chains of each kind as replicas of one chain."""
    parts, first, row = [], 0, 0
    both = zip(system.kinds, system.split(state.x), system.split(state.v), strict=True)
    for (chain, many), *moved in both:
        x, v = (np.ascontiguousarray(y).reshape(-1, chain.n, chain.dim) for y in moved)
        held = many * chain.hard.size
        random = state.random[:, first : first + many].reshape(-1, WORDS)
        targets = state.targets[:, row : row + held].reshape(len(x), -1)
        tally = np.zeros((len(x), 3 if state.tally.size else 0))
        parts.append(State(x, v, random, targets, state.step, tally))
        first, row = first + many, row + held
    return parts


def put_together(system: System, state: State, parts: list[State]) -> None:
    """Write the chains of each kind into the state of a system."""
    replicas = len(state.x)
    for name in ("x", "v"):
        joined = [
            getattr(part, name).reshape(replicas, many, chain.n, chain.dim)
            for (chain, many), part in zip(system.kinds, parts, strict=True)
        ]
        setattr(state, name, system.join(joined))
    streams = [part.random.reshape(replicas, -1, WORDS) for part in parts]
    state.random = np.concatenate(streams, axis=1)
