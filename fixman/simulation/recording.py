"""Chains as the loop moves and records them: positions, velocities, and a user's observables."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman.chains.chain import Chain
from fixman.runs.series import OBSERVABLE, Arrays
from fixman.simulation.steppers import State, Stepper
from fixman.simulation.trajectory import TALLY

__all__ = ["Observable", "Observables"]

Observable = Callable[[Chain, NDArray[np.float64]], ArrayLike]
Observables = Mapping[str, Observable] | Iterable[Observable]


class Replicas(NamedTuple):
    """A `fixman.runs.loop.Mover` of replicas of a chain."""

    chain: Chain
    stepper: Stepper
    observables: Mapping[str, Observable]
    workers: int
    state: State

    @property
    def step(self) -> int:
        return self.state.step

    def advance(self, steps: int) -> Arrays:
        self.stepper.advance(self.chain, self.state, steps, self.workers)
        return {}

    def arrays(self) -> Arrays:
        return self.state.arrays()

    def frame(self) -> Arrays:
        state = self.state
        moving = {name: np.asarray(getattr(state, name), float).view() for name in "xv"}
        for array in moving.values():
            array.flags.writeable = False
        measured: Arrays = {}
        for name, function in self.observables.items():
            value = function(self.chain, moving[_takes(name, function)])
            array = arrays.taken(value, f"the observable {name}")
            if array.dtype.kind not in "fiubc" or array.shape[:1] != state.x.shape[:1]:
                said = f"the observable {name} must give numbers ({len(state.x)}, ...), the first "
                raise ValueError(f"{said}axis that of the replicas, got {value!r:.80}")
            # One type throughout, though a function may return whole numbers at first.
            kind = np.complex128 if array.dtype.kind == "c" else np.float64
            measured[OBSERVABLE + name] = array.astype(kind)
        tally = {TALLY: state.tally} if state.tally.size else {}
        return {name: array[None] for name, array in (moving | tally | measured).items()}


def names(state: State, observables: Iterable[str]) -> list[str]:
    """Return the arrays that frames have."""
    return ["x", "v", *[TALLY] * bool(state.tally.size), *(OBSERVABLE + o for o in observables)]


def named(observables: Observables) -> dict[str, Observable]:
    """Give every observable a name, its own unless a mapping says otherwise."""
    if isinstance(observables, Mapping):
        found = dict(observables)
    else:
        several = isinstance(observables, Iterable) and not isinstance(observables, str)
        functions = list(observables) if several else [observables]
        found = {getattr(function, "__name__", ""): function for function in functions}
        if len(found) < len(functions):
            raise ValueError("two observables have one name: give a mapping of names to functions")
    for name, function in found.items():
        if not callable(function):
            raise TypeError(f"observables must be functions of (chain, x), got {function!r:.80}")
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"{name!r} is no name: give a mapping of names to functions")
        _takes(name, function)
    return found


def home(function: Observable) -> str | None:
    """Return the name by which a later process finds a function, if it is the library's own."""
    name = getattr(function, "__name__", "")
    return name if _own(name) is function else None


def _own(name: Any) -> Observable | None:
    """Return the library's observable of a name, which may come from a stranger's file."""
    from fixman.simulation import observables

    return getattr(observables, name) if name in observables.__all__ else None


def found_again(homes: Mapping[str, str | None], given: Observables) -> dict[str, Observable]:
    """Return the observables of a resumed run: those given, and the library's by name."""
    known = {name: _own(place) for name, place in homes.items()} | named(given)
    if set(known) != set(homes):
        raise ValueError(f"the run records the observables {sorted(homes)}, got {sorted(known)}")
    missing = sorted(name for name, function in known.items() if function is None)
    if missing:
        said = f"the run records observables of your own, {', '.join(missing)}"
        raise ValueError(f"{said}: pass the same functions as observables=… again")
    return known  # type: ignore[return-value]


def _takes(name: str, function: Observable) -> str:
    """Whether an observable is one of positions or of velocities: the name of its argument."""
    try:
        places = list(inspect.signature(function).parameters)
    except ValueError:  # written in C
        places = []
    if len(places) < 2 or places[1] not in ("x", "v"):
        said = f"the observable {name} must be a function of (chain, x) or (chain, v)"
        raise TypeError(f"{said}, got ({', '.join(places)}): x are positions, v velocities")
    return places[1]
