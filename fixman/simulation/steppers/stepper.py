"""The protocol of a stepper, and what those of this package have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Literal, Protocol, Self, get_args, get_origin, get_type_hints

from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman.chains.chain import Chain
from fixman.potentials.binding import require_potential
from fixman.potentials.energies import described, from_parameters
from fixman.simulation.steppers.state import State

Check = Callable[[Any, str], Any]  # takes a value and its name, returns the value to be kept


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


class Described(arrays.Spelled):
    """A frozen dataclass whose fields are checked as their names say, and go to JSON and back.

    Fields that are words have the words in their type; None is good where it is the default.
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
    }
    FORCES: ClassVar[bool] = True  # whether a potential needs forces
    NO_VELOCITIES: ClassVar[str | None] = None  # why velocities are refused to start with
    potential: Any

    def __post_init__(self) -> None:
        """Check all fields."""
        require_potential(self.potential, self.FORCES)
        types = get_type_hints(type(self))
        for field in fields(self):  # type: ignore[arg-type]
            name, value = field.name, getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if get_origin(types[name]) is Literal:
                arrays.require_one_of(value, name, get_args(types[name]))
            elif name in self.CHECKS:
                object.__setattr__(self, name, self.CHECKS[name](value, name))

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again, ready for JSON."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        potential = None if self.potential is None else described(self.potential)
        return {"name": self.NAME} | values | {"potential": potential}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], potential: Any = None) -> Self:
        """Make the stepper again; a potential of the user's own has to be given again."""
        given = {key: value for key, value in parameters.items() if key != "name"}
        if potential is None and given["potential"] is not None:
            potential = from_parameters(given["potential"])
        return cls(**given | {"potential": potential})

    def _refuse(self, v0: Any) -> None:
        if v0 is not None and self.NO_VELOCITIES:
            raise ValueError(f"v0 must be None: {self.NO_VELOCITIES}")
