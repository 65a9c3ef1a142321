"""`State`: everything that a bit-exact continuation needs; how it is made and moved."""

from __future__ import annotations

import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays as _arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, require_chain
from fixman.chains.coordinates import GHOST_POINTS, GHOSTS, in_line
from fixman.chains.projection_tables import projections
from fixman.errors import ConstraintSolveError, FrameError, SingularConstraintError
from fixman.kernels.algebra.random import WORDS, fill_normals
from fixman.kernels.chain.hard import Hard
from fixman.kernels.chain.rows import ANGLE, LENGTH, SMALLEST_SINE
from fixman.kernels.compiler.lanes import EIGHTS, LANES, ONE
from fixman.kernels.simulation import stepping
from fixman.kernels.simulation.flow import Flow
from fixman.kernels.simulation.stepping import (
    DECIDE,
    DRIFT,
    ECHO,
    FORCE,
    KICK,
    LEAP,
    MARK,
    NOISE,
    PROJECT,
    REMEMBER,
    RESCUES,
    RETURN,
    Work,
)
from fixman.kernels.simulation.trials import Trial
from fixman.mechanics import partition
from fixman.mechanics.dynamics import SMALLEST_BEND, forward_dynamics
from fixman.mechanics.partition import raise_failure
from fixman.potentials import flows
from fixman.potentials.binding import OWN
from fixman.potentials.energies import bind
from fixman.potentials.energies import from_parameters as potential_from_parameters

Streams = NDArray[np.uint64]

# Replicas left over from eight that are moved alone: eight in lanes take less time than two alone.
ALONE = 1

# Of the shortest bond, the thermal way of a step from which a warning is due: there ⟨cos²θ⟩ of two
# bonds is off by 0.5 % or so, and the error grows with the square.
LONG_STEP = 0.15
LONG_TURN, LONG_NEWTON = 0.1, 0.02  # with hard angles, whose chains have lighter motions left
LONG_WALK = 0.1  # overdamped, with angles or not: off by 0.2 to 0.8 % there, and by its square
FAST = 0.2  # of a rod, that a flow may move its ends in a step: 0.8 costs 4 to 6 % of a viscosity
FAR = 0.1  # of the shortest bond, by which forces move a bead in one step if there is an overlap
STRAIGHT = 0.01  # sine of a bend in space below which a hard one turns faster than steps can follow
COLLAPSED = 1e-3  # of the start's smallest pivot of H^bb, by its diagonal: rows became dependent
NAMED = 5  # beads that a refusal names
FARTHEST = 1e8  # shortest bonds from the origin
FLOWS = 1 << 16  # steps for which the values of a flow that is a function are kept


@dataclass(eq=False)
class State:
    """Replicas of a chain at one time.

    Attributes
    ----------
    x, v : ndarray (R, n, dim)
        Positions on the constraint manifold and velocities along it; in overdamped dynamics, what
        `Brownian` says.
    random : ndarray (R, 4) of uint64
        The random stream of each replica (xoshiro256++).
    targets : ndarray (R, n_hard)
        The values that the hard coordinates keep, in the order of ``chain.hard``.
    step : int
        Steps done.
    tally : ndarray (R, 3)
        Of steppers that make and refuse moves: how many were tried and accepted, and how wide they
        are; (R, 0) of the others.
    """

    x: Array
    v: Array
    random: Streams
    targets: Array
    step: int = 0
    tally: Array = field(default_factory=lambda: np.empty((0, 0)))

    def __post_init__(self) -> None:
        if not self.tally.size:
            self.tally = np.empty((len(self.x), 0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a checkpoint holds."""
        tally = {"tally": self.tally} if self.tally.size else {}
        return tally | {
            "x": self.x,
            "v": self.v,
            "random": self.random,
            "targets": self.targets,
            "step": np.array(self.step, dtype=np.int64),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> State:
        """Read what `arrays` returned."""
        x, v, targets = (np.array(arrays[k], dtype=np.float64) for k in ("x", "v", "targets"))
        random = np.array(arrays["random"], dtype=np.uint64)
        tally = np.array(arrays.get("tally", np.empty((0, 0))), dtype=np.float64)
        return cls(x, v, random, targets, int(arrays["step"]), tally)


class Stepper(Protocol):
    """What `fixman.simulate` runs: see `Newton` and `Langevin`."""

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again, ready for JSON."""

    def start(
        self, chain: Chain, x0: ArrayLike, v0: ArrayLike | None, replicas: int, rng: Any
    ) -> State:
        """Return the state to begin with."""

    def advance(self, chain: Chain, state: State, steps: int, workers: int = 1) -> None:
        """Move the state on, in place."""


# --- shared by the steppers ----------------------------------------------------------------------


Schedule = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Plan:
    """What a stepper wants done: the moves of a step (`kernels.stepping`), and constants.

    Of each move the schedule has the letter and the time in units of dt, which means nothing to a
    force or a projection.  Forces must be found again behind a drift, before a kick.

    Overdamped motion, with friction coefficients ``drag``, has these in the place of masses, no
    memory of velocities (``friction`` is infinite) and h = √(2 dt) in the place of dt.
    """

    schedule: Schedule
    dt: float
    tolerance: float
    potential: Any = None
    kT: float = 0.0  # of noise and Fixman force
    friction: float = 0.0
    metric: bool = False  # whether the Fixman force is added
    rival: bool = False  # and that of the chain's masses subtracted
    drag: float | tuple[float, ...] | None = None
    flow: Any = None  # see `flows.checked`

    @property
    def stride(self) -> float:
        """The dt of the schedule."""
        return self.dt if self.drag is None else math.sqrt(2.0 * self.dt)

    @property
    def thermal(self) -> str:
        """The formula of what a bead moves in a step by itself."""
        return "dt √(kT/m)" if self.drag is None else "√(2 kT dt/ζ)"

    def inertia(self, chain: Chain) -> Array:
        """Return masses (n,), or what stands for them."""
        if self.drag is None:
            return chain.masses
        drag = np.array(self.drag)
        if drag.shape not in ((), (chain.n,)):
            raise ValueError(
                f"friction must be one number or have shape ({chain.n},) for this chain, got "
                f"{drag.shape}"
            )
        return np.broadcast_to(drag, chain.n).copy()

    @property
    def decides(self) -> bool:
        """Whether moves are tried, and perhaps refused."""
        return any(letter == DECIDE for letter, _ in self.schedule)


def start(
    chain: Chain,
    x0: ArrayLike,
    v0: ArrayLike | None,
    replicas: int,
    rng: Any,
    plan: Plan,
    kT: float | None,
    drifting: bool,
) -> State:
    """Replicate x0, give every replica a stream, and take or draw the velocities."""
    state = begin(chain, x0, replicas, rng)
    x, random, tail = state.x, state.random, (chain.n, chain.dim)
    replicas = len(x)
    if v0 is not None:
        v = _replicas(_arrays.real(v0, tail, "v0"), replicas, tail, "v0")
    else:
        assert kT is not None
        v = np.empty_like(x)
        for r in range(replicas):
            fill_normals(random.reshape(-1), WORDS * r, v[r].size, v[r].reshape(-1), 0, 1)
        v *= np.sqrt(kT * (1.0 / plan.inertia(chain)))[:, None]
        if not drifting:  # before the projection, which leaves the momentum alone
            v -= np.average(v, axis=1, weights=chain.masses)[:, None]
    if plan.decides:
        state.tally = np.tile([0.0, 0.0, plan.dt], (replicas, 1))
    state.v = v
    state.v = Prepared.of(chain, state, plan).run(state, 0, 1)[0].v
    for r in np.flatnonzero(~np.isfinite(state.v).all(axis=(1, 2)))[:1].tolist():
        raise_failure(chain, x, r)
    if plan.decides:
        Prepared.of(chain, state, plan).bound.energy(x)  # which refuses what is not finite
    return state


def begin(chain: Chain, x0: ArrayLike, replicas: int, rng: Any) -> State:
    """Replicate x0 and give every replica a stream; velocities are zero."""
    require_chain(chain)
    tail = (chain.n, chain.dim)
    replicas = _arrays.positive_int(replicas, "replicas", 16 * chain.n * chain.dim)
    x = _replicas(_arrays.real(x0, tail, "x0"), replicas, tail, "x0")
    seeds = _arrays.seeds(_arrays.generator(rng), replicas)
    random = np.array([seed.generate_state(WORDS, np.uint64) for seed in seeds])
    return State(x, np.zeros_like(x), random, _hard_values(chain, x))


def warn_of_long_steps(chain: Chain, state: State, plan: Plan, kT: float | None = None) -> None:
    """Warn if a step moves beads so far that averages suffer; kT by default that of state.v."""
    shortest = _shortest(chain, state.targets)
    if kT is None:
        v = state.v
        if chain.base == "free":
            v = v - np.average(v, axis=1, weights=chain.masses)[:, None]
        freedom = max(1, v[0].size - chain.hard.size)
        kT = float(np.einsum("rka,rka,k->", v, v, chain.masses)) / (len(v) * freedom)
    ways = plan.stride * np.sqrt(kT / plan.inertia(chain)) / shortest
    turning = bool(np.any(chain.layout.hard_rows.kinds != LENGTH))
    usual = LONG_STEP if not turning else LONG_TURN if _noisy(plan) else LONG_NEWTON
    if plan.drag is not None:
        usual = LONG_WALK
    metrics = [plan.inertia(chain)] * plan.metric + [chain.masses] * plan.rival
    limits = np.minimum.reduce([usual + 0.0 * ways, *(_steep_ways(chain, m) for m in metrics)])
    limits *= 1.0 + 1e-9  # so that what is advised is not warned of
    bead = int(np.argmax(ways / limits))
    if ways[bead] > limits[bead]:
        shorter = float(limits[bead] / ways[bead])
        fine = _round_down(plan.dt * (shorter if plan.drag is None else shorter**2))
        steep = limits[bead] < usual
        warnings.warn(
            f"dt={plan.dt:g} is long: in one step bead {bead} moves {ways[bead]:.2g} of the "
            f"shortest bond, {plan.thermal}"
            + (", and it is so light that its Fixman force is steep" if steep else "")
            + ", so that averages are of another ensemble"
            + (", although the temperature is right" if plan.drag is None else "")
            + f"; dt={fine:g} or less would do",
            RuntimeWarning,
            stacklevel=4,  # who called simulate
        )


def warn_of_fast_flows(chain: Chain, plan: Plan) -> None:
    """Warn if a flow turns or stretches a rod much in one step."""
    if plan.flow is None:
        return
    gradient = flows.table(plan.flow, chain.dim, range(1), plan.dt)[0]
    rate = float(np.linalg.norm(gradient, 2))
    if rate * plan.dt > FAST * (1.0 + 1e-9):
        warnings.warn(
            f"dt={plan.dt:g} is long for this flow: in one step it moves the ends of a rod by "
            f"{rate * plan.dt:.2g} of its length against each other; "
            f"dt={_round_down(FAST / rate):g} or less would do",
            RuntimeWarning,
            stacklevel=4,  # who called simulate
        )


def _noisy(plan: Plan) -> bool:
    return any(letter == NOISE for letter, _ in plan.schedule)


def _steep_ways(chain: Chain, masses: Array) -> Array:
    """Of a bond, how far each bead (n,) may move in a step for the sake of its Fixman force.

    Bending by an angle of √(m_k Σ 1/m) changes ln det H^bb of a light bead k, the sum being over
    the beads that hard bonds join it to; where it has one bond only, nothing.
    """
    rows = chain.layout.hard_rows
    ends_of = rows.columns[rows.kinds == LENGTH, :2]
    ends = ends_of[(ends_of >= 0).all(axis=1)]
    one, other = np.concatenate([ends, ends[:, ::-1]]).T
    w = 1.0 / masses
    angles = np.sqrt(np.bincount(one, w[other], chain.n) / w)
    bonds = np.bincount(ends_of[ends_of >= 0], minlength=chain.n)  # to the base as well
    return np.where(bonds > 1, 0.5 * angles, np.inf)


def _round_down(value: float) -> float:
    """One digit of a positive number."""
    digit = 10.0 ** np.floor(np.log10(value))
    return float(f"{np.floor(value / digit) * digit:.0e}")


def _shortest(chain: Chain, targets: Array) -> float:
    lengths = targets[:, chain.layout.hard_rows.kinds == LENGTH]
    return float(lengths.min(initial=np.inf))


def require_near(chain: Chain, state: State) -> None:
    """Refuse positions so large that a step is lost in their rounding."""
    shortest = _shortest(chain, state.targets)
    far = np.abs(state.x).max(axis=(1, 2))
    replica = int(np.argmax(far))
    if far[replica] > FARTHEST * shortest:
        raise ValueError(
            f"replica {replica} has coordinates of {far[replica]:.2g} at step {state.step}, more "
            f"than {FARTHEST:g} bonds from the origin: steps would be lost in rounding; start "
            "nearer to the origin"
        )


def _hard_values(chain: Chain, x: Array) -> Array:
    """Values of the hard coordinates in public order; the others may be singular."""
    rows = chain.layout.hard_rows
    targets, bad = rows.values(x)
    if bad >= 0:
        raise_failure(chain, x, bad)
    if chain.dim == 3 and np.any(np.sin(targets[:, rows.kinds == ANGLE]) <= SMALLEST_SINE):
        for r in range(len(x)):
            rows.refuse_singular(x, r, SingularConstraintError)
    straight = rows.trait("straight")
    bent = np.argwhere(straight & (np.abs(targets) > SMALLEST_BEND))
    for replica, row in bent[:1]:
        raise SingularConstraintError(
            f"the bend {rows[int(row)].beads} is not straight in x0, by "
            f"{abs(targets[replica, row]):.2g} rad in replica {replica}: project it first, "
            "x0 = fixman.project(chain, x0, chain.hard_values(x0))",
            coordinates=[rows[int(row)]],
            replica=int(replica),
        )
    targets[:, straight] = 0.0
    return targets


def _replicas(array: Array, replicas: int, tail: tuple[int, int], name: str) -> Array:
    if array.shape[:-2] not in ((), (1,), (replicas,)):
        raise ValueError(
            f"{name} must have shape {tail} or {(replicas, *tail)} for {replicas} replicas, "
            f"got {array.shape}"
        )
    _arrays.require_finite(array, tail, name)
    return np.array(np.broadcast_to(array, (replicas, *tail)), order="C")


class Prepared:
    """A stepper on the chain of a state: what the kernels are given, made once."""

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
        self.schedule = tuple(m for m in plan.schedule if forced or m[0] not in (KICK, FORCE))
        self.motion = self._motion(self.schedule)

    @classmethod
    def of(cls, chain: Chain, state: State, plan: Plan) -> Prepared:
        """Return what was made for this state before, if chain and stepper are the same."""
        found = _prepared.get(state)
        if found is None or found.key[0] is not chain or found.key[1] != plan:
            found = _prepared[state] = cls(chain, state, plan)
        return found

    def _motion(self, schedule: Schedule) -> stepping.Motion:
        chain, plan = self.key
        w = np.concatenate([np.zeros(len(self.front)), 1.0 / self.inertia])
        different = list(dict.fromkeys(schedule))
        order = np.array([different.index(move) for move in schedule])
        letters = np.array([letter for letter, _ in different])
        numbers, weights = zip(*(_move(plan, w, *move) for move in different), strict=True)
        without = {KICK, NOISE, ECHO, MARK, DECIDE}  # H^bb
        if not self.metric:
            without |= {FORCE, REMEMBER}
        if not isinstance(self.system, Hard):  # whose Newton's method needs it
            without |= {DRIFT, LEAP, RETURN}
        factors = np.array([letter not in without for letter, _ in different])
        kT = plan.kT if self.metric else 0.0
        return stepping.Motion(
            chain.n, order, letters, factors, np.array(numbers), np.concatenate(weights), kT,
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

        No steps at all project the velocities.
        """
        replicas = state.x.shape[0]
        alone = replicas % LANES if replicas % LANES <= ALONE else 0
        # What is missing of eight is filled by repetition.
        index = np.resize(np.arange(replicas), replicas + -(replicas - alone) % LANES)
        ghosts = len(self.front)
        x, v = (np.zeros((index.size, ghosts + y.shape[1], y.shape[2])) for y in (state.x, state.v))
        x[:, :ghosts] = self.front
        x[:, ghosts:], v[:, ghosts:] = state.x[index], state.v[index]
        random, goals = state.random[index], self.goals[index]
        tally = state.tally[index]
        given: list[Any] = [array.reshape(-1) for array in (x, v, random, goals)]
        states = stepping.Replicas(*given, *goals.shape[1:])
        motion = self.motion if steps else self._motion(((PROJECT, 0.0),))
        if callable(self.key[1].flow):
            motion = motion._replace(flow=self._flow(range(state.step, state.step + steps)))
        count = motion.order.size
        # Forces are found first, unless the schedule begins with them.
        late = steps and FORCE in motion.letters and self.schedule[0][0] != FORCE
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
        for halving in range(1, RESCUES + 1):
            pieces = 2**halving
            motion = self._motion(((PROJECT, 0.0), (DRIFT, share / pieces)))
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
    if letter in (NOISE, ECHO):
        c = math.exp(-plan.friction * time)
        return c, np.sqrt(plan.kT * (1.0 - c * c) * w)
    if letter in (REMEMBER, DECIDE):
        return plan.kT, np.divide(0.5, w, out=np.zeros_like(w), where=w > 0.0)
    return time, (0.5 * time * time if letter == RETURN else time) * w


def _work(size: int, states: tuple[int, ...], tally: Array) -> Work:
    """Make the work of a thread, every array from a multiple of 64 bytes on."""
    units = size * len(states)
    stride = -(-units // 8) * 8
    whole = np.zeros((10 if tally.size else 7) * stride + 8)
    skip = -whole.ctypes.data // 8 % 8
    parts = [whole[skip + k * stride :][:units] for k in range(whole.size // stride)]
    trial = Trial._make([*parts[7:10], tally]) if tally.size else None
    return Work._make([states, *parts[:7], trial])


_prepared: WeakKeyDictionary[State, Prepared] = WeakKeyDictionary()


def advance(chain: Chain, state: State, steps: int, workers: int, plan: Plan) -> None:
    """Move all replicas on, in groups over threads; on failure the state stays as it was."""
    workers = _arrays.positive_int(workers, "workers")
    steps = _arrays.positive_int(steps, "steps")
    require_near(chain, state)
    prepared = Prepared.of(chain, state, plan)
    moved, end = state, state.step + steps
    failures: list[tuple[int, int]] = []
    while moved.step < end and not failures:
        ahead = min(FLOWS, end - moved.step) if callable(plan.flow) else steps
        moved, failures = prepared.run(moved, ahead, workers)
    prepared.bound.check()
    if failures:
        step, replica = min(failures)
        if plan.potential is not None:
            prepared.bound.check(state.x[replica])
        cause, at = _cause(prepared, state, moved.x[replica], replica, plan)
        raise ConstraintSolveError(
            f"step {step} of replica {replica} has no solution, not even in {2**RESCUES} pieces",
            ": " + cause,
            step=step,
            replica=replica,
            **at,
        )
    state.x, state.v, state.random, state.step = moved.x, moved.v, moved.random, moved.step
    state.tally = moved.tally


_Cause = tuple[str, dict[str, Any]]  # and the coordinates or beads that it names


def _cause(prepared: Prepared, state: State, stuck: Array, replica: int, plan: Plan) -> _Cause:
    """Say what positions before the call, and where it got stuck, tell of a step that failed."""
    chain = prepared.bound.chain
    targets = state.targets[replica : replica + 1]
    if plan.potential is not None:
        x, force = state.x[replica], prepared.bound.force(state.x[replica])
        pull = np.linalg.norm(force, axis=1)
        # Beads that a force pulls, and that their bonds let go.
        left = np.linalg.norm(_pulled(chain, x, force, prepared.inertia), axis=1)
        ways = 0.5 * plan.stride**2 * np.minimum(pull / prepared.inertia, left)
        far = np.flatnonzero(ways > FAR * _shortest(chain, targets))
        if far.size:
            far = far[np.argsort(-pull[far], kind="stable")]
            names = _arrays.listed([f"bead {k}" for k in far], NAMED)
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
            cause = f"{_arrays.listed(rows, NAMED)} hardly bend, and in space a straight angle "
            cause += "cannot be hard: give them values away from 0 and π, or hold them in line, "
            return cause + in_line(row.beads for row in rows), {"coordinates": rows}
    if plan.potential is None and LENGTH not in chain.layout.hard_rows.kinds:
        return (
            "no bond has a hard length and there is no potential, so that beads fly apart or meet: "
            "hold the lengths too, or add a potential that does"
        ), {}
    dependent = _became_dependent(chain, state.x[replica], stuck)
    return dependent or (
        f"a bead would move further than its bonds let it in dt = {plan.dt:g}; make dt smaller "
        f"({plan.thermal} below a tenth of a bond length), or look for overlaps and forces that "
        "grow without bound",
        {},
    )


def _pulled(chain: Chain, x: Array, force: Array, inertia: Array) -> Array:
    """Accelerations (n, dim) at rest by a force, of which hard coordinates bear their part."""
    weighed = replace(chain, masses=inertia.copy())
    try:
        return forward_dynamics(weighed, x, 0.0 * x, force=force).acceleration
    except FrameError:
        return force / inertia[:, None]


def _became_dependent(chain: Chain, before: Array, stuck: Array) -> _Cause | None:
    """Say which hard rows have become dependent on the way, if any."""
    if not np.isfinite(stuck).all():
        return None
    rows = chain.layout.pattern.rows
    straight = [rows[int(row)] for row in np.flatnonzero(~rows.gradients(stuck)[1])]
    if straight:
        names = _arrays.listed(straight, NAMED)
        cause = (
            f"bends came to be straight, where {names} cannot be held; no time step helps: hold "
            "the angles of these bends as well, or make these rows soft"
        )
        return cause, {"coordinates": straight}
    start, end = (partition.nearest_dependence(chain, x) for x in (before, stuck))
    if start is None or end is None or not end.share < COLLAPSED * start.share:
        return None
    return (
        f"{end} there; no time step helps: in such configurations the hard coordinates cannot be "
        "held, the rigid ensemble has a corner and the weight of the stiff one, which grows like "
        "1/|sin β| for a rhombus of angle β, cannot be normalized; make one of these rows soft, or "
        "keep away by a potential",
        {"coordinates": end.rows},
    )


# --- parameters ----------------------------------------------------------------------------------


def require_potential(potential: Any, forces: bool = True) -> None:
    """Refuse a class, which wants its arguments, and what lacks an energy or a force asked for."""
    names = OWN if forces else OWN[:1]
    wanted = " and ".join(f"{name}(x)" for name in names)
    text = f"potential must be one of fixman.potentials, or an object with {wanted}"
    if isinstance(potential, type):
        name = potential.__name__
        raise TypeError(f"{text}, got the class {name}: make one, {name}(…)")
    own = all(callable(getattr(potential, name, None)) for name in names)
    if not (potential is None or own or hasattr(potential, "_write")):
        lines = ", ".join(f"{name} = staticmethod({name[0]})" for name in names)
        hint = f": put functions into a class, class Own: {lines}; and give Own()"
        raise TypeError(f"{text}, got {potential!r:.80}{hint * callable(potential)}")


def make_positive(stepper: Any, *names: str) -> None:
    """Turn fields of a frozen stepper into floats; refuse what is not positive."""
    for name in names:
        object.__setattr__(stepper, name, _arrays.positive(getattr(stepper, name), name))


def potential_parameters(potential: Any) -> Any:
    """Return the description of a potential, or only the name of a user's own class."""
    if potential is None:
        return None
    if hasattr(potential, "parameters"):
        return potential.parameters()
    return {"name": f"{type(potential).__module__}.{type(potential).__qualname__}", "own": True}


def arguments(parameters: dict[str, Any], potential: Any) -> dict[str, Any]:
    """Return the arguments of a stepper's constructor."""
    given = {key: value for key, value in parameters.items() if key != "name"}
    if potential is not None:
        given["potential"] = potential
    elif given["potential"] is not None:
        given["potential"] = potential_from_parameters(given["potential"])
    return given
