"""The state of replicas, the protocol of a stepper, and what those of this package share."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from reprlib import Repr
from typing import Any, ClassVar, Literal, Protocol, Self, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.system import System, require_model
from fixman.errors import SingularConstraintError
from fixman.kernels.algebra.random import WORDS
from fixman.kernels.chain.rows import ANGLE, LENGTH, SMALLEST_SINE
from fixman.mechanics.dynamics import SMALLEST_BEND
from fixman.mechanics.refusals import raise_failure
from fixman.potentials import flows
from fixman.potentials.binding import require_potential
from fixman.potentials.energies import described, from_parameters

Check = Callable[[Any, str], Any]  # takes a value and its name, returns the value to be kept
FARTHEST = 1e8  # shortest bonds from the origin
SHORT = Repr()
SHORT.maxother = SHORT.maxstring = 120  # characters of a potential


@dataclass(eq=False)
class State:
    """Replicas of a chain at one time.

    Attributes
    ----------
    x, v : ndarray (R, n, dim)
        Positions on the constraint manifold and velocities along it.
    random : ndarray (R, 4) of uint64
        The random stream of each replica (xoshiro256++); (R, chains, 4) of a system.
    targets : ndarray (R, n_hard)
        The values that the hard coordinates keep, in the order of ``chain.hard``; those of a
        system chain after chain.
    step : int
    tally : ndarray (R, 3)
        Numbers of moves tried and accepted, and their width; (R, 0) if the stepper has no moves.
    """

    x: Array
    v: Array
    random: NDArray[np.uint64]
    targets: Array
    step: int = 0
    tally: Array = field(default_factory=lambda: np.empty((0, 0)))
    # `Prepared`, once it has moved
    prepared: Any = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "prepared": None}  # of copies it is made again

    def __post_init__(self) -> None:
        if not self.tally.size:
            self.tally = np.empty((len(self.x), 0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a checkpoint holds."""
        names = ["tally"] * bool(self.tally.size) + ["x", "v", "random", "targets"]
        given = {name: getattr(self, name) for name in names}
        return given | {"step": np.array(self.step, dtype=np.int64)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[Any]]) -> Self:
        """Read what `arrays` returned."""
        x, v, targets = (np.array(arrays[k], dtype=np.float64) for k in ("x", "v", "targets"))
        random = np.array(arrays["random"], dtype=np.uint64)
        tally = np.array(arrays.get("tally", np.empty((0, 0))), dtype=np.float64)
        return cls(x, v, random, targets, int(arrays["step"]), tally)


class Stepper(Protocol):
    """A way to move a chain, for `fixman.simulate`."""

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again, ready for JSON."""

    def start(
        self, chain: Chain, x0: ArrayLike, v0: ArrayLike | None, replicas: int, rng: Any
    ) -> State:
        """Return the state to begin with."""

    def advance(self, chain: Chain, state: State, steps: int, workers: int = 1) -> None:
        """Move the state on, in place."""


class Described:
    """A frozen dataclass whose fields are checked as their names say, and go to JSON and back.

    The type of a field of words lists the words; None is allowed where it is the default.
    """

    NAME: ClassVar[str]
    CHECKS: ClassVar[dict[str, Check]] = {
        "dt": arrays.positive,
        "kT": arrays.positive,
        "friction": arrays.positive,
        "tolerance": arrays.positive,
        "leaps": arrays.positive_int,
        "burn_in": lambda value, name: arrays.whole(value, name, 0),
        "drifting": arrays.flag,
        "flow": lambda flow, _: flows.checked(flow),
    }
    FORCES: ClassVar[bool] = True  # whether a potential needs forces
    NO_VELOCITIES: ClassVar[str | None] = None  # why velocities are refused to start with
    potential: Any
    # Find velocities of a state, and refuse one that steps cannot begin from; do steps.
    _start: ClassVar[Callable[..., None]]
    _advance: ClassVar[Callable[..., None]]

    def __post_init__(self) -> None:
        require_potential(self.potential, self.FORCES)
        types = get_type_hints(type(self))
        for one in fields(self):  # type: ignore[arg-type]
            name, value = one.name, getattr(self, one.name)
            if value is None and one.default is None:
                continue
            if get_origin(types[name]) is Literal:
                arrays.require_one_of(value, name, get_args(types[name]))
            elif name in self.CHECKS:
                object.__setattr__(self, name, self.CHECKS[name](value, name))

    def __repr__(self) -> str:
        """``Langevin(dt=0.01, ensemble='stiff')``: what is not left as it is by default."""
        values = {one.name: (getattr(self, one.name), one.default) for one in fields(self)}  # type: ignore[arg-type]
        changed = (f"{k}={SHORT.repr(v)}" for k, (v, usual) in values.items() if v is not usual)
        return f"{type(self).__name__}({', '.join(changed)})"

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` takes; a flow that is a function gives only its name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        values["potential"] = None if self.potential is None else described(self.potential)
        if "flow" in values:
            values["flow"] = flows.parameters(values["flow"])
        return {"name": self.NAME} | values

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], potential: Any = None) -> Self:
        """Make the stepper again; a potential of the user's own has to be given again.

        ValueError if the flow is a function.
        """
        given = {key: value for key, value in parameters.items() if key != "name"}
        if "flow" in given:
            given["flow"] = flows.from_parameters(given["flow"])
        if potential is None and given["potential"] is not None:
            potential = from_parameters(given["potential"])
        return cls(**given | {"potential": potential})

    def start(
        self,
        chain: Chain | System,
        x0: ArrayLike,
        v0: ArrayLike | None = None,
        replicas: int = 1,
        rng: Any = None,
    ) -> State:
        """Return replicas at x0, after burn-in, with velocities v0, projected, or drawn at kT.

        Parameters
        ----------
        chain : Chain or System
        x0, v0 : (n, dim) or (replicas, n, dim)
            The hard coordinates keep the values that they have in x0.
        replicas : int
        rng : None, int or Generator
            Every replica gets a stream spawned from it.

        Raises
        ------
        ValueError
            If there are neither velocities nor a temperature, or the stepper has no velocities; if
            friction or flow are not for this chain, or the energy of x0 is not finite; for hard
            coordinates that the moves of Monte Carlo cannot hold (soft bonds, hard torsions, rings
            that share bonds or lie in the plane), for a flow or, in `MonteCarlo`, a potential of
            your own in a system.
        SingularConstraintError, SingularCoordinateError
            If the hard coordinates cannot be held in x0, or x0 has no determinant or energy.

        Warns
        -----
        RuntimeWarning
            If a step is so long that averages suffer.
        """
        if v0 is not None and self.NO_VELOCITIES:
            raise ValueError(f"v0 must be None: {self.NO_VELOCITIES}")
        require_model(chain)
        replicas = arrays.positive_int(replicas, "replicas", 16 * chain.n * chain.dim)
        x = replicated(x0, replicas, chain, "x0")
        if isinstance(chain, System):
            chain.require_whole(x, "x0")
        streams = (replicas, chain.chains) if isinstance(chain, System) else (replicas,)
        seeds = arrays.seeds(arrays.generator(rng), math.prod(streams))
        random = np.array([seed.generate_state(WORDS, np.uint64) for seed in seeds])
        state = State(x, np.zeros_like(x), random.reshape(*streams, WORDS), held_by(chain, x))
        self._start(chain, state, v0)
        return state

    def advance(self, chain: Chain | System, state: State, steps: int, workers: int = 1) -> None:
        """Do ``steps`` steps on every replica, in place.

        Raises
        ------
        ConstraintSolveError
            If a step has no solution even in the smallest pieces, naming step and replica.
        Exception
            ValueError for a flow of another dimension or not finite; whatever a potential of your
            own raised.  The state is then the same as before the call.
        """
        workers = arrays.positive_int(workers, "workers")
        steps = arrays.positive_int(steps, "steps")
        require_near(chain, state)
        self._advance(chain, state, steps, workers)


class Prepared:
    """Arguments of kernels for a stepper on the chain of a state."""

    key: tuple[Any, Any]

    @classmethod
    def of(cls, chain: Chain | System, state: State, stepper: Any) -> Self:
        """Make the arguments once for a state, while chain and stepper are the same."""
        found = state.prepared
        if not isinstance(found, cls) or found.key[0] is not chain or found.key[1] != stepper:
            found = state.prepared = cls(chain, state, stepper)  # type: ignore[call-arg]
        return found


def replicated(value: ArrayLike, replicas: int, model: Chain | System, name: str) -> Array:
    """Return positions or velocities of each replica."""
    tail = (model.n, model.dim)
    array = arrays.real(value, tail, name)
    if array.shape[:-2] not in ((), (1,), (replicas,)):
        said = f"{name} must have shape {tail} or {(replicas, *tail)} for {replicas} replicas"
        raise ValueError(f"{said}, got {array.shape}")
    arrays.require_finite(array, tail, name)
    return np.array(np.broadcast_to(array, (replicas, *tail)), order="C")


def held_by(model: Chain | System, x: Array) -> Array:
    """Return values of all hard coordinates (replicas, all), chain after chain."""
    if isinstance(model, Chain):
        return hard_values(model, x)
    both = zip(model.kinds, model.split(x), strict=True)
    parts = [hard_values(chain, y.reshape(-1, chain.n, chain.dim)) for (chain, _), y in both]
    return np.concatenate([part.reshape(len(x), -1) for part in parts], axis=1)


def hard_values(chain: Chain, x: Array) -> Array:
    """Values of the hard coordinates (replicas, n_hard) in public order."""
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
        bend, by = rows[int(row)], abs(targets[replica, row])
        said = f"the bend {bend.beads} is not straight in x0, by {by:.2g} rad in replica {replica}"
        said += ": project it first, x0 = fixman.project(chain, x0, chain.hard_values(x0))"
        raise SingularConstraintError(said, coordinates=[bend], replica=int(replica))
    targets[:, straight] = 0.0
    return targets


def shortest(chain: Chain, targets: Array) -> float:
    """Return the length of the shortest hard bond."""
    lengths = targets[:, chain.layout.hard_rows.kinds == LENGTH]
    return float(lengths.min(initial=np.inf))


def require_near(model: Chain | System, state: State) -> None:
    """Refuse positions so large that a step is lost in their rounding."""
    kinds, length, row = ((model, 1),) if isinstance(model, Chain) else model.kinds, np.inf, 0
    for chain, many in kinds:
        held = state.targets[:, row : row + many * chain.hard.size]
        length = min(length, shortest(chain, held.reshape(len(held) * many, chain.hard.size)))
        row += held.shape[1]
    far = np.abs(state.x).max(axis=(1, 2))
    replica = int(np.argmax(far))
    if far[replica] > FARTHEST * length:
        said = f"replica {replica} has coordinates of {far[replica]:.2g} at step {state.step}, "
        said += f"more than {FARTHEST:g} bonds from the origin: steps would be lost in rounding"
        raise ValueError(f"{said}; start nearer to the origin")
