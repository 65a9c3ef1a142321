"""The driver of the kernels of `stepping`: a plan on the replicas of a state."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.coordinates import GHOST_POINTS, GHOSTS, in_line
from fixman.chains.projection_tables import projections
from fixman.errors import ConstraintSolveError
from fixman.kernels.algebra.random import WORDS
from fixman.kernels.chain.rows import ANGLE
from fixman.kernels.compiler.lanes import EIGHTS, LANES, ONE
from fixman.kernels.simulation import stepping
from fixman.kernels.simulation.flow import Flow
from fixman.kernels.simulation.jointed_steps import Jointed
from fixman.kernels.simulation.trials import Trial
from fixman.potentials import flows
from fixman.potentials.binding import Bound
from fixman.potentials.energies import bind
from fixman.simulation.steppers.plan import Plan, Schedule, schedule
from fixman.simulation.steppers.stepper import Prepared, State, require_near, shortest

# Replicas left over from eight that are moved alone: eight in lanes take less time than two alone.
ALONE = 1
FAR = 0.1  # share of the shortest bond by which overlaps move a bead in one step
STRAIGHT = 0.01  # sine of a bend in space below which a hard one turns faster than steps can follow
NAMED = 5  # beads that a refusal names
FLOWS = 1 << 16  # steps for which the values of a flow that is a function are kept
BEGIN = schedule("project force remember")


class Moving(Prepared):
    """A plan on the chain of a state."""

    def __init__(self, chain: Chain, state: State, plan: Plan) -> None:
        self.key = (chain, plan)
        self.inertia = plan.inertia(chain)
        self.system, ghosts, self.goals = projections(chain, state.targets, self.inertia)
        # Where friction goes with mass, the two metrics are one.
        alike = plan.rival and float(np.ptp(chain.masses / self.inertia)) == 0.0
        self.metric = plan.metric and not alike
        opposed = plan.rival and self.metric
        self.rival = projections(chain, state.targets).system if opposed else None
        self.front = GHOST_POINTS[GHOSTS - ghosts :, : chain.dim]  # points that do not move
        self.bound = bind(chain, plan.potential, energies=plan.decides)
        self.tables = None if plan.potential is None else self.bound.tables
        forced = self.metric or self.tables is not None or plan.flow is not None
        self.schedule = tuple(
            m for m in plan.schedule if forced or m[0] not in (stepping.KICK, stepping.FORCE)
        )
        self.motion = self._motion(self.schedule)

    def _motion(self, schedule: Schedule) -> stepping.Motion:
        chain, plan = self.key
        w = np.concatenate([np.zeros(len(self.front)), 1.0 / self.inertia])
        different = list(dict.fromkeys(schedule))
        order = np.array([different.index(move) for move in schedule])
        letters = np.array([letter for letter, _ in different])
        numbers, weights = zip(*(_move(plan, w, *move) for move in different), strict=True)
        without = {stepping.KICK, stepping.NOISE, stepping.ECHO, stepping.MARK}  # H^bb
        if not self.metric:
            without |= {stepping.FORCE, stepping.REMEMBER, stepping.DECIDE}
        kept = not isinstance(self.system, Jointed)  # Newton's method needs it, and leaves it
        if not kept:
            without |= {stepping.DRIFT, stepping.LEAP, stepping.RETURN}
        factors = np.array([letter not in without for letter, _ in different])
        kT = plan.kT if self.metric else 0.0
        return stepping.Motion(
            chain.n, order, letters, factors, kept, np.array(numbers), np.concatenate(weights), kT,
            plan.tolerance, self.rival, self._flow(range(0)),
        )  # fmt: skip

    def _flow(self, steps: range) -> Flow | None:
        """Return the flow in some steps as the kernels read it."""
        chain, plan = self.key
        if plan.flow is None:
            return None
        gradients = flows.table(plan.flow, chain.dim, steps, plan.dt)
        drags = np.concatenate([np.zeros(len(self.front)), self.inertia])
        shares = drags / drags.sum() if chain.base == "free" else 0.0 * drags
        return Flow(gradients.reshape(-1), drags, shares)

    def run(self, state: State, steps: int, workers: int) -> tuple[State, list[tuple[int, int]]]:
        """Return what the state becomes, and step and replica of what failed.

        No steps at all project the velocities and, where moves are tried, find the energies.
        """
        replicas = state.x.shape[0]
        alone = replicas % LANES if replicas % LANES <= ALONE else 0
        # Replicas are repeated up to a multiple of eight.
        index = np.resize(np.arange(replicas), replicas + -(replicas - alone) % LANES)
        ghosts = len(self.front)
        x, v = (np.zeros((index.size, ghosts + y.shape[1], y.shape[2])) for y in (state.x, state.v))
        x[:, :ghosts] = self.front
        x[:, ghosts:], v[:, ghosts:] = state.x[index], state.v[index]
        random, goals = state.random[index], self.goals[index]
        tally = state.tally[index]
        given: list[Any] = [array.reshape(-1) for array in (x, v, random, goals)]
        states = stepping.Replicas(*given, *goals.shape[1:])
        plan = self.key[1]
        motion = self.motion if steps else self._motion(BEGIN[: 3 if plan.decides else 1])
        if callable(plan.flow):
            motion = motion._replace(flow=self._flow(range(state.step, state.step + steps)))
        count = motion.order.size
        # Forces are found first, unless the schedule begins with them.
        late = steps and stepping.FORCE in motion.letters and self.schedule[0][0] != stepping.FORCE
        places = -1 if late else 0, max(steps, 1) * count
        groups = (index.size - alone) // LANES
        pieces = min(workers, groups)
        edges = [LANES * (groups * k // pieces) for k in range(pieces + 1)] if groups else []
        tasks: list[tuple[int, int, tuple[int, ...]]]
        tasks = [(k, k + 1, ONE) for k in range(replicas - alone, replicas)]
        tasks += [(*edge, EIGHTS) for edge in pairwise(edges)]

        def task(one: tuple[int, int, tuple[int, ...]]) -> list[tuple[int, int]]:
            first, last, width = one
            work = _work(x[0].size, width, tally.reshape(-1))
            failed = []
            begin, until = places[0], last
            while first < last:
                given = motion, self.tables, work, (begin, places[1]), (first, until)
                place, group, lost = stepping.advance(states, self.system, *given)
                first, until, begin = group, last, places[0]
                if lost:
                    first += len(width)
                    stuck = [
                        k for k in range(group, first)
                        if lost >> (k - group) & 1 and not self._rescue(states, k, place, width)
                    ]  # fmt: skip
                    if stuck:
                        # Others behind it may fail earlier, and the earliest is named.
                        failed.append((state.step + place // count, stuck[0] % replicas))
                    else:
                        first, until, begin = group, first, place + 1
            return failed

        if workers == 1 or len(tasks) == 1:
            results = [task(one) for one in tasks]
        else:
            with ThreadPoolExecutor(workers) as pool:
                results = list(pool.map(task, tasks))
        failures = [failure for failed in results for failure in failed]
        x, v = x[:replicas, ghosts:].copy(), v[:replicas, ghosts:].copy()
        bad = ~np.isfinite(x + v).all(axis=(1, 2))
        failures += [(state.step + steps - 1, int(k)) for k in np.flatnonzero(bad)]
        moved = State(x, v, random[:replicas], state.targets, state.step + steps, tally[:replicas])
        return moved, failures

    def _rescue(
        self, states: stepping.Replicas, k: int, place: int, lanes: tuple[int, ...]
    ) -> bool:
        """Redo a drift of replica k in 2, 4, 8, … pieces; whether one of these has a solution.

        A leap becomes a drift from where it began.
        """
        share = self.schedule[place % len(self.schedule)][1]
        # In every lane the same, so that what is lost is lost in all.
        replicas = states.random.size // WORDS
        rows = [a.reshape(replicas, -1)[k] for a in states[:4]]
        width = len(lanes)
        # The work at hand has a noise and a mark to keep.
        work = _work(rows[0].size, lanes, np.empty(0))
        for halving in range(1, stepping.RESCUES + 1):
            pieces = 2**halving
            motion = self._motion(((stepping.PROJECT, 0.0), (stepping.DRIFT, share / pieces)))
            given = motion, self.tables, work, (0, 2 * pieces), (0, width)
            flat: list[Any] = [*(np.tile(row, width) for row in rows), states.held]
            copy = stepping.Replicas(*flat)
            if not stepping.advance(copy, self.system, *given)[2]:
                rows[0][:], rows[1][:] = copy.x[: rows[0].size], copy.v[: rows[1].size]
                return True
        return False


def _move(plan: Plan, w: Array, letter: int, share: float) -> tuple[float, Array]:
    """Return the number of a move and its weights, of joints with inverse masses w."""
    time = share * plan.stride
    if letter in (stepping.NOISE, stepping.ECHO):
        c = math.exp(-plan.friction * time)
        return c, np.sqrt(plan.kT * (1.0 - c * c) * w)
    if letter in (stepping.REMEMBER, stepping.DECIDE):
        return plan.kT, np.divide(0.5, w, out=np.zeros_like(w), where=w > 0.0)
    return time, (0.5 * time * time if letter == stepping.RETURN else time) * w


def _work(size: int, states: tuple[int, ...], tally: Array) -> stepping.Work:
    """Make the work of a thread, every array from a multiple of 64 bytes on."""
    units = size * len(states)
    stride = -(-units // 8) * 8
    whole = np.zeros((10 if tally.size else 7) * stride + 8)
    skip = -whole.ctypes.data // 8 % 8
    parts = [whole[skip + k * stride :][:units] for k in range(whole.size // stride)]
    trial = Trial._make([*parts[7:10], tally]) if tally.size else None
    return stepping.Work._make([states, *parts[:7], trial])


def advance(chain: Chain, state: State, steps: int, workers: int, plan: Plan) -> None:
    """Move all replicas on, in groups over threads; on failure the state stays as it was."""
    workers = arrays.positive_int(workers, "workers")
    steps = arrays.positive_int(steps, "steps")
    require_near(chain, state)
    prepared = Moving.of(chain, state, plan)
    moved, end = state, state.step + steps
    failures: list[tuple[int, int]] = []
    while moved.step < end and not failures:
        ahead = min(FLOWS, end - moved.step) if callable(plan.flow) else steps
        moved, failures = prepared.run(moved, ahead, workers)
    prepared.bound.check()
    if failures:
        (step, replica), most = min(failures), 2**stepping.RESCUES
        if plan.potential is not None:
            prepared.bound.check(state.x[replica])
        cause, at = _cause_of(prepared.bound, plan, state, replica, moved.x[replica])
        raise ConstraintSolveError(
            f"step {step} of replica {replica} has no solution, not even in {most} pieces",
            ": " + cause,
            step=step,
            replica=replica,
            **at,
        )
    state.x, state.v, state.random, state.step = moved.x, moved.v, moved.random, moved.step
    state.tally = moved.tally


def _cause_of(
    bound: Bound, plan: Plan, state: State, replica: int, stuck: Array
) -> tuple[str, dict[str, Any]]:
    """Tell of a step that failed by positions before the call, and where it got stuck.

    Returns words, and the coordinates or beads that they name.
    """
    chain, inertia = bound.chain, plan.inertia(bound.chain)
    targets = state.targets[replica : replica + 1]
    if plan.potential is not None:
        pull = np.linalg.norm(bound.force(state.x[replica]), axis=1)
        ways = 0.5 * plan.stride**2 * pull / inertia
        far = np.flatnonzero(ways > FAR * shortest(chain, targets))
        if far.size:
            far = far[np.argsort(-pull[far], kind="stable")]
            names = arrays.listed([f"bead {k}" for k in far], NAMED)
            return (
                "beads overlap, or dt is too long for a stiff force on what is soft; the forces at "
                f"step {state.step} are enormous, up to {pull.max():.2g} on {names}: start from "
                "positions without overlaps, hold what is stiff as well, or make dt smaller than "
                f"{plan.dt:g}"
            ), {"beads": far}
    angles = chain.layout.hard_rows.kinds == ANGLE
    if chain.dim == 3:
        flat = chain.hard[angles][np.abs(np.sin(targets[0, angles])) < STRAIGHT]
        if flat.size:
            rows = [chain.coordinates[row] for row in flat]
            cause = f"{arrays.listed(rows, NAMED)} hardly bend, and in space a straight angle "
            cause += "cannot be hard: give them values away from 0 and π, or hold them in line, "
            return cause + in_line(row.beads for row in rows), {"coordinates": rows}
    if plan.potential is None and shortest(chain, targets) == np.inf:
        return (
            "no bond has a hard length and there is no potential, so that beads fly apart or meet: "
            "hold the lengths too, or add a potential that does"
        ), {}
    pattern = chain.layout.pattern.rows
    lost = np.flatnonzero(~pattern.gradients(stuck)[1]) if np.isfinite(stuck).all() else ()
    if len(lost):
        straight = [pattern[int(row)] for row in lost]
        return (
            f"bends came to be straight, where {arrays.listed(straight, NAMED)} cannot be held; no "
            "time step helps: hold the angles of these bends as well, or make these rows soft"
        ), {"coordinates": straight}
    return (
        f"a bead would move further than its bonds let it in dt = {plan.dt:g}; make dt smaller "
        f"({plan.thermal} below a tenth of a bond length), or look for overlaps and forces that "
        "grow without bound",
        {},
    )
