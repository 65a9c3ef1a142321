"""Records of a run: positions, velocities, and the observables that a user names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman.chains.chain import Chain
from fixman.simulation.trajectory import OBSERVABLE, TALLY

if TYPE_CHECKING:
    from fixman.simulation.steppers import State

Observable = Callable[[Chain, NDArray[np.float64]], ArrayLike]
Observables = Mapping[str, Observable] | Iterable[Observable]


def frame(
    chain: Chain, state: State, observables: Mapping[str, Observable]
) -> dict[str, NDArray[Any]]:
    """Return what one frame holds, by the names that blocks have for it."""
    moving = {"x": state.x.view(), "v": state.v.view()}
    for array in moving.values():
        array.flags.writeable = False
    measured: dict[str, NDArray[Any]] = {}
    for name, function in observables.items():
        value = function(chain, moving[_takes(name, function)])
        try:
            array = np.asarray(value)
        except ValueError:  # ragged
            array = np.empty(0, dtype=object)
        if array.dtype.kind not in "fiubc" or array.shape[:1] != state.x.shape[:1]:
            raise ValueError(
                f"the observable {name} must give numbers ({len(state.x)}, ...), the first axis "
                f"that of the replicas, got {value!r:.80}"
            )
        # One type throughout, though a function may return whole numbers at first.
        kind = np.complex128 if array.dtype.kind == "c" else np.float64
        measured[OBSERVABLE + name] = array.astype(kind)
    tally = {TALLY: state.tally} if state.tally.size else {}
    return moving | tally | measured


def named(observables: Observables) -> dict[str, Observable]:
    """Give every observable a name, its own unless a mapping says otherwise."""
    if isinstance(observables, Mapping):
        found = dict(observables)
    else:
        one = callable(observables) or isinstance(observables, str)
        if not one and not isinstance(observables, Iterable):
            raise TypeError(f"observables must be functions of (chain, x), got {observables!r:.80}")
        functions = [observables] if one else list(observables)
        names = [getattr(function, "__name__", "") for function in functions]
        found = dict(zip(names, functions, strict=True))
        if len(found) < len(functions):
            raise ValueError("two observables have one name: give a mapping of names to functions")
    for name, function in found.items():
        if not callable(function):
            own = isinstance(function, str) and _own(function)
            hint = f": pass the function, fixman.observables.{function}" if own else ""
            raise TypeError(
                f"observables must be functions of (chain, x), got {function!r:.80}{hint}"
            )
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(
                f"{name!r} is no name for an observable: give a mapping of names to functions"
            )
        _takes(name, function)
    return found


def home(function: Observable) -> str | None:
    """Return the name by which a later process finds a function, if it is the library's own."""
    name = getattr(function, "__name__", "")
    return name if _own(name) is function else None


def _own(name: Any) -> Observable | None:
    """Return the library's observable of a name, which may come from a stranger's file."""
    from fixman.simulation import observables

    if name not in observables.__all__:
        return None
    found: Observable = getattr(observables, name)
    try:
        _takes(name, found)
    except TypeError:  # it takes time series, or a potential too
        return None
    return found


def found_again(homes: Mapping[str, str | None], given: Observables) -> dict[str, Observable]:
    """Return the observables of a run that goes on: those given, and the library's by name."""
    known = named(given)
    unknown = sorted(set(known) - set(homes))
    if unknown:
        raise ValueError(
            f"the run records the observables {sorted(homes)}, got {', '.join(unknown)}: they stay "
            "the same to the end"
        )
    for name, place in homes.items():
        found = _own(place)
        if name not in known and found is not None:
            known[name] = found
    missing = sorted(set(homes) - set(known))
    if missing:
        raise ValueError(
            f"the run records observables of your own, {', '.join(missing)}: pass the same "
            "functions as observables=… again"
        )
    return {name: known[name] for name in homes}


def _takes(name: str, function: Observable) -> str:
    """Whether an observable is one of positions or of velocities: the name of its argument."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C
        raise TypeError(
            f"the observable {name} has no signature: wrap it, lambda chain, x: ..."
        ) from None
    parameters = signature.parameters.values()
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in places if p.default is p.empty]
    if len(places) < 2 or len(required) > 2 or places[1].name not in ("x", "v"):
        raise TypeError(
            f"the observable {name} must be a function of (chain, x) or (chain, v), got "
            f"{signature}: the second argument is called x to get positions, v to get velocities"
        )
    return places[1].name
