"""The driver of the kernels of `stepping`: a scheduled stepper on the replicas of a state."""

from __future__ import annotations

import contextlib
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.coordinates import GHOST_POINTS, GHOSTS, in_line
from fixman.chains.projection_tables import projections
from fixman.kernels.algebra.random import WORDS
from fixman.kernels.chain.rows import ANGLE, LENGTH
from fixman.kernels.compiler.lanes import EIGHTS, LANES, ONE
from fixman.kernels.potentials import forces
from fixman.kernels.simulation import stepping
from fixman.kernels.simulation.jointed_steps import Jointed
from fixman.kernels.simulation.trials import Trial
from fixman.potentials import flows
from fixman.potentials.binding import Bound
from fixman.potentials.energies import bind
from fixman.simulation.steppers.stepper import Prepared, State, shortest

if TYPE_CHECKING:
    from fixman.simulation.steppers.scheduled import Scheduled

FAR = 0.1  # share of the shortest bond by which overlaps move a bead in one step
STRAIGHT = 0.01  # sine of a bend in space below which a hard one turns faster than steps can follow
NAMED = 5  # beads that a refusal names
INSTANT = ("force", "project", "mark", "remember", "decide")

Schedule = tuple[tuple[int, float], ...]  # the letter of each move, and its time


def schedule(words: str) -> Schedule:
    """Read moves of `kernels.simulation.stepping`, each for a whole step, or half of one by /2."""
    moves = (word.partition("/") for word in words.split())
    return tuple(
        (getattr(stepping, name.upper()), 0.0 if name in INSTANT else 1.0 / float(part or 1))
        for name, _, part in moves
    )


class Moving(Prepared):
    """A scheduled stepper on the chain of a state."""

    key: tuple[Chain, Scheduled]

    def __init__(self, chain: Chain, state: State, stepper: Scheduled, given: bool = False) -> None:
        self.key = (chain, stepper)
        self.inertia = stepper.inertia(chain)
        self.system, ghosts, self.goals = projections(chain, state.targets, self.inertia)
        # Where friction goes with mass, the two metrics are one.
        alike = stepper.rival and float(np.ptp(chain.masses / self.inertia)) == 0.0
        self.metric = stepper.metric and not alike
        opposed = stepper.rival and self.metric
        self.rival = projections(chain, state.targets).system if opposed else None
        self.front = GHOST_POINTS[GHOSTS - ghosts :, : chain.dim]  # points that do not move
        self.bound = bind(chain, stepper.potential, energies=stepper.decides)
        self.tables = None if stepper.potential is None else self.bound.tables
        forced = given or self.metric or self.tables is not None or stepper.flow is not None
        moves = stepper.schedule
        if given and stepper.decides:  # a call ends where velocities are remembered outside
            at = moves.index((stepping.REMEMBER, 0.0)) + 1
            moves = moves[:at] + schedule("force") + moves[at:]
        idle = () if forced else (stepping.KICK, stepping.FORCE)
        self.schedule = tuple(move for move in moves if move[0] not in idle)
        # Where forces are found outside, with several calls in a step.
        self.several = given and sum(m[0] == stepping.FORCE for m in moves) > 1
        self.motion = self._motion(self.schedule)

    def _motion(self, schedule: Schedule) -> stepping.Motion:
        chain, stepper = self.key
        w = np.concatenate([np.zeros(len(self.front)), 1.0 / self.inertia])
        different = list(dict.fromkeys(schedule))
        order = np.array([different.index(move) for move in schedule])
        letters = np.array([letter for letter, _ in different])
        numbers, weights = zip(*(_move(stepper, w, *move) for move in different), strict=True)
        factored = [stepping.PROJECT]  # letters that need H^bb
        if self.metric:
            factored += [stepping.FORCE, stepping.REMEMBER, stepping.DECIDE]
        kept = not isinstance(self.system, Jointed)  # Newton's method needs it, and leaves it
        if kept:
            factored += [stepping.DRIFT, stepping.LEAP, stepping.RETURN]
        factors = np.isin(letters, factored)
        kT = stepper.kT if self.metric else 0.0
        return stepping.Motion(
            chain.n, order, letters, factors, kept, np.array(numbers), np.concatenate(weights), kT,
            stepper.tolerance, self.rival, self._flow(range(0)), np.empty(0),
        )  # fmt: skip

    def _flow(self, steps: range) -> stepping.Flow:
        chain, stepper = self.key
        if stepper.flow is None:
            return stepping.Flow(*np.empty((3, 0)))
        gradients = flows.table(stepper.flow, chain.dim, steps, stepper.dt)
        drags = np.concatenate([np.zeros(len(self.front)), self.inertia])
        shares = drags / drags.sum() if chain.base == "free" else 0.0 * drags
        return stepping.Flow(gradients.reshape(-1), drags, shares)

    def run(self, state: State, steps: int, workers: int) -> tuple[State, list[tuple[int, int]]]:
        """Return what the state becomes, and step and replica of what failed.

        With no steps it projects the velocities and, if the stepper tries moves, finds the
        energies.
        """
        stepper = self.key[1]
        begin = schedule("project force remember" if stepper.decides else "project")
        motion = self.motion if steps else self._motion(begin)
        if callable(stepper.flow):
            motion = motion._replace(flow=self._flow(range(state.step, state.step + steps)))
        # Forces are found first, unless the schedule begins with them.
        late = steps and stepping.FORCE in motion.letters and self.schedule[0][0] != stepping.FORCE
        group = Group(self, state)
        places = -1 if late else 0, max(steps, 1) * motion.order.size
        with pool_of(workers) as pool:
            failures = group.move(motion, places, pool)
        return group.state(steps, failures), failures

    def rescue(self, states: stepping.Replicas, k: int, place: int, lanes: tuple[int, ...]) -> bool:
        """Redo a drift or leap of replica k in 2, 4, 8, … pieces; whether one has a solution."""
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
            given = motion, forces.potential(None, lanes), work, (0, 2 * pieces), (0, width)
            flat: list[Any] = [*(np.tile(row, width) for row in rows), states.held, np.empty(0)]
            copy = stepping.Replicas(*flat)
            if not stepping.advance(copy, self.system, *given)[2]:
                rows[0][:], rows[1][:] = copy.x[: rows[0].size], copy.v[: rows[1].size]
                return True
        return False


class Group:
    """Replicas of a state as the kernels move them: behind the points that do not move.

    They are repeated up to a multiple of eight; ``x`` and ``v`` hold them all, in place.
    """

    def __init__(self, moving: Moving, state: State) -> None:
        self.moving, self.begun, front = moving, state, moving.front
        self.replicas, self.ghosts = len(state.x), len(front)
        # One that is left over from eights is moved alone; eight in lanes take less time than two.
        self.alone = int(self.replicas % LANES == 1)
        whole = self.replicas + -(self.replicas - self.alone) % LANES
        self.index = index = np.resize(np.arange(self.replicas), whole)
        joints = self.ghosts + state.x.shape[1]
        self.x, self.v = np.zeros((2, index.size, joints, state.x.shape[2]))
        self.x[:, : self.ghosts] = front
        self.x[:, self.ghosts :], self.v[:, self.ghosts :] = state.x[index], state.v[index]
        self.random, self.tally = state.random[index], state.tally[index]
        goals = moving.goals[index]
        given: list[Any] = [a.reshape(-1) for a in (self.x, self.v, self.random, goals)]
        kept = np.zeros(3 * self.x.size if moving.several else 0)
        self.states = stepping.Replicas._make([*given, goals.shape[1], kept])

    def move(
        self, motion: stepping.Motion, places: tuple[int, int], pool: ThreadPoolExecutor | None
    ) -> list[tuple[int, int]]:
        """Make the moves from one place to another; return step and replica of what failed."""
        moving, replicas, alone = self.moving, self.replicas, self.alone
        count, states, tally = motion.order.size, self.states, self.tally
        groups = (self.index.size - alone) // LANES
        pieces = min(getattr(pool, "_max_workers", 1), groups)
        edges = [LANES * (groups * k // pieces) for k in range(pieces + 1)] if groups else []
        tasks: list[tuple[int, int, tuple[int, ...]]]
        tasks = [(k, k + 1, ONE) for k in range(replicas - alone, replicas)]
        tasks += [(*edge, EIGHTS) for edge in pairwise(edges)]

        def task(one: tuple[int, int, tuple[int, ...]]) -> list[tuple[int, int]]:
            first, last, width = one
            potential = forces.potential(moving.tables, width)
            work = _work(self.x[0].size, width, tally.reshape(-1))
            failed = []
            begin, until = places[0], last
            while first < last:
                given = motion, potential, work, (begin, places[1]), (first, until)
                place, group, lost = stepping.advance(states, moving.system, *given)
                first, until, begin = group, last, places[0]
                if lost:
                    first += len(width)
                    stuck = [
                        k for k in range(group, first)
                        if lost >> (k - group) & 1 and not moving.rescue(states, k, place, width)
                    ]  # fmt: skip
                    if stuck:
                        # Others behind it may fail earlier, and the earliest is named.
                        failed.append((self.begun.step + place // count, stuck[0] % replicas))
                    else:
                        first, until, begin = group, first, place + 1
            return failed

        alike = pool is None or len(tasks) == 1
        results = map(task, tasks) if alike else pool.map(task, tasks)  # type: ignore[union-attr]
        return [failure for failed in results for failure in failed]

    def state(self, steps: int, failures: list[tuple[int, int]]) -> State:
        """Return the state after so many steps, and add to the failures what is not finite."""
        begun, replicas = self.begun, self.replicas
        x, v = (a[:replicas, self.ghosts :].copy() for a in (self.x, self.v))
        bad = ~np.isfinite(x + v).all(axis=(1, 2))
        failures += [(begun.step + steps - 1, int(k)) for k in np.flatnonzero(bad)]
        random, tally = self.random[:replicas], self.tally[:replicas]
        return State(x, v, random, begun.targets, begun.step + steps, tally)


def pool_of(workers: int) -> contextlib.AbstractContextManager[ThreadPoolExecutor | None]:
    """Return threads, or None where one is enough."""
    return contextlib.nullcontext() if workers == 1 else ThreadPoolExecutor(workers)


def _move(stepper: Scheduled, w: Array, letter: int, share: float) -> tuple[float, Array]:
    time = share * stepper.stride
    if letter in (stepping.NOISE, stepping.ECHO):
        c = math.exp(-stepper.rate * time)
        return c, np.sqrt(stepper.kT * (1.0 - c * c) * w)
    if letter in (stepping.REMEMBER, stepping.DECIDE):
        return stepper.kT, np.divide(0.5, w, out=np.zeros_like(w), where=w > 0.0)
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


def cause_of(
    bound: Bound, stepper: Scheduled, state: State, replica: int, stuck: Array
) -> tuple[str, dict[str, Any]]:
    """Say why a step failed, with the beads or coordinates at fault; ``stuck`` is the place."""
    chain, inertia = bound.chain, stepper.inertia(bound.chain)
    targets = state.targets[replica : replica + 1]
    if stepper.potential is not None:
        pull = np.linalg.norm(bound.force(state.x[replica]), axis=1)
        ways = 0.5 * stepper.stride**2 * pull / inertia
        far = np.flatnonzero(ways > FAR * shortest(chain, targets))
        if far.size:
            far = far[np.argsort(-pull[far], kind="stable")]
            names = arrays.listed([f"bead {k}" for k in far], NAMED)
            cause = f"beads overlap, or dt={stepper.dt:g} is too long for a stiff force on soft "
            cause += f"coordinates; forces at step {state.step}, up to {pull.max():.2g} on {names}"
            cause += f", move them by up to {ways.max():.2g} in a step: start from positions "
            cause += "without overlaps, make stiff coordinates hard, or make dt smaller"
            return cause, {"beads": far}
    if stepper.potential is not None and not chain.hard.size:
        return f"dt={stepper.dt:g} is too long for the forces: make dt smaller", {}
    angles = chain.layout.hard_rows.kinds == ANGLE
    flat = chain.hard[angles][np.abs(np.sin(targets[0, angles])) < STRAIGHT]
    if chain.dim == 3 and flat.size:
        rows = [chain.coordinates[row] for row in flat]
        cause = f"{arrays.listed(rows, NAMED)} hardly bend, and in space a straight angle "
        cause += "cannot be hard: give them values away from 0 and π, or hold them in line, "
        return cause + in_line(row.beads for row in rows), {"coordinates": rows}
    if stepper.potential is None and shortest(chain, targets) == np.inf:
        cause = "no bond has a hard length and there is no potential, so beads fly apart or meet: "
        return cause + "make the lengths hard, or add a potential that holds them", {}
    pattern = chain.layout.pattern.rows
    lost = np.flatnonzero(~pattern.gradients(stuck)[1]) if np.isfinite(stuck).all() else ()
    straight = [pattern[int(row)] for row in lost]
    if straight:
        cause = f"bends became straight, where {arrays.listed(straight, NAMED)} cannot be held; no "
        cause += "time step helps: hold the angles of these bends as well, or make these rows soft"
        return cause, {"coordinates": straight}
    cause = f"a bead would move further than its bonds allow in dt = {stepper.dt:g}; make dt "
    cause += f"smaller ({stepper.thermal} below a tenth of a bond length), or look for overlaps "
    return cause + "and forces that grow without bound", {}


# Thermal way of a step over the shortest bond, from which a warning is due: there ⟨cos²θ⟩ of two
# bonds is off by 0.5 % or so, and the error grows with the square.
LONG_STEP = 0.15
LONG_TURN, LONG_NEWTON = 0.1, 0.02  # with hard angles, whose chains have lighter motions left
LONG_WALK = 0.1  # overdamped, with angles or not: off by 0.2 to 0.8 % there, and by its square
FAST = 0.2  # share of a rod that a flow moves its ends in a step: 0.8 costs 4 to 6 % of viscosity


def warn_of_long_steps(chain: Chain, state: State, stepper: Scheduled) -> None:
    """Warn if a step moves beads so far that averages suffer, or a flow turns rods much."""
    if stepper.decides:  # averages do not depend on dt
        return
    length = shortest(chain, state.targets)
    kT = stepper.kT if stepper.rate else _temperature(chain, state.v)
    ways = stepper.stride * np.sqrt(kT / stepper.inertia(chain)) / length
    turning = bool(np.any(chain.layout.hard_rows.kinds != LENGTH))
    usual = LONG_STEP if not turning else LONG_TURN if stepper.rate else LONG_NEWTON
    if stepper.OVERDAMPED:
        usual = LONG_WALK
    metrics = [stepper.inertia(chain)] * stepper.metric + [chain.masses] * stepper.rival
    limits = np.minimum.reduce([usual + 0.0 * ways, *(_steep_ways(chain, m) for m in metrics)])
    bead = int(np.argmax(ways / limits))
    share = float(limits[bead] / ways[bead]) if ways[bead] else 1.0
    steep = ", and it is so light that its Fixman force is steep" * bool(limits[bead] < usual)
    rest = "" if stepper.OVERDAMPED else ", although the temperature is right"
    text = f"in one step bead {bead} moves {ways[bead]:.2g} of the shortest bond, "
    text += f"{stepper.thermal}{steep}, so averages are of another ensemble{rest}"
    _warn(stepper, share**2 if stepper.OVERDAMPED else share, text)
    if stepper.flow is not None:
        gradient = flows.table(stepper.flow, chain.dim, range(1), stepper.dt)[0]
        way = float(np.linalg.norm(gradient, 2)) * stepper.dt
        text = f"in one step its flow moves the ends of a rod by {way:.2g} of its length"
        _warn(stepper, FAST / way if way else 1.0, text)


def _warn(stepper: Scheduled, share: float, text: str) -> None:
    if share < 1.0 - 1e-9:  # so that what is advised is not warned of
        digit = 10.0 ** np.floor(np.log10(share * stepper.dt))
        fine = float(f"{np.floor(share * stepper.dt / digit) * digit:.0e}")
        said = f"dt={stepper.dt:g} is long: {text}; dt={fine:g} or less would do"
        warnings.warn(said, RuntimeWarning, stacklevel=6)  # who called simulate


def _temperature(chain: Chain, v: Array) -> float:
    """Return kT of velocities, without the motion of the centre of mass."""
    if chain.base == "free":
        v = v - np.average(v, axis=1, weights=chain.masses)[:, None]
    freedom = max(1, v[0].size - chain.hard.size)
    twice: float = np.einsum("rka,rka,k->", v, v, chain.masses) / (len(v) * freedom)
    return twice


def _steep_ways(chain: Chain, masses: Array) -> Array:
    """Share of a bond that each bead (n,) may move in a step for the sake of its Fixman force.

    Bending by an angle of √(m_k Σ 1/m) changes ln det H^bb of a light bead k, the sum being over
    the beads that hard bonds join it to, at least two.
    """
    rows = chain.layout.hard_rows
    ends_of = rows.columns[rows.kinds == LENGTH, :2]
    ends = ends_of[(ends_of >= 0).all(axis=1)]
    one, other = np.concatenate([ends, ends[:, ::-1]]).T
    w = 1.0 / masses
    angles = np.sqrt(np.bincount(one, w[other], chain.n) / w)
    bonds = np.bincount(ends_of[ends_of >= 0], minlength=chain.n)  # to the base as well
    return np.where(bonds > 1, 0.5 * angles, np.inf)
