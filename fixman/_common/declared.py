"""Arguments as data: what annotations declare is checked before a function runs.

    @declared
    def shear_functions(stress: Annotated[Any, Real("frames ... dim dim")], rate: NotZero) -> Shear:

A declaration is a record that knows the shape, the range and the message, and a call of it checks
one argument.  Sizes of a shape have letters, which are the same in all arguments of a call, and
``...`` stands for any axes.  A parameter whose default is None may be None.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np

from fixman._common import arrays

Sizes = dict[str, int]
Function = TypeVar("Function", bound=Callable[..., Any])

LARGEST = 1e100  # squares of more would overflow


@dataclass(frozen=True)
class Real:
    """Finite real numbers of a shape, none of its axes empty; no shape is one number.

    With ``scalar``, one number does as well.
    """

    shape: str = ""
    positive: bool = False
    zero: bool = True
    scalar: bool = False

    def __call__(self, value: Any, name: str, sizes: Sizes) -> Any:
        """Return the array, or the float."""
        found = self._array(value, name, sizes) if self.shape else arrays.number(value, name)
        size = np.abs(found)
        bad = size > LARGEST
        if self.positive or not self.zero:
            bad |= (size < 1.0 / LARGEST) | (self.positive & (found < 0.0))
        if np.any(bad):
            must = "be positive, " if self.positive else "be " if self.zero else "not be 0, and "
            one = np.asarray(found)[bad].flat[0]
            raise ValueError(
                f"{name} must {must}in a unit that keeps it within 1e±100, got {one:.3g}"
            )
        return found

    def _array(self, value: Any, name: str, sizes: Sizes) -> arrays.Array:
        front, dots, back = (part.split() for part in self.shape.partition("..."))
        first, last = (front, back) if dots else ([], front)
        sizes |= {letter: int(letter) for letter in last if letter.isdigit()}
        beads = last[-2:] == ["n", "dim"]
        tail = (sizes["n"], sizes["dim"]) if beads and {"n", "dim"} <= sizes.keys() else ()
        array = arrays.real(value, tail, name)
        if not (self.scalar and not array.ndim):
            axes = len(first) + len(last)
            fits = array.ndim >= axes if dots else array.ndim == axes
            there = [*zip(first, array.shape, strict=False)]
            there += zip(last[::-1], array.shape[::-1], strict=False)
            if not (fits and array.size and all(sizes.setdefault(a, b) == b for a, b in there)) or (
                sizes.get("dim", 3) not in (2, 3)
            ):
                known = {a: b for a, b in sizes.items() if a in self.shape.split() and a.isalpha()}
                known_sizes = "".join(f", {a} = {b}" for a, b in known.items())
                raise ValueError(
                    f"{name} must {'be one number or ' * self.scalar}have shape "
                    f"({', '.join(self.shape.split())}), none of them 0{known_sizes * fits}; got "
                    f"{array.shape}"
                )
        what = "bead" if beads else "frame" if self.shape.startswith("frames") else "place"
        arrays.require_finite(array, array.shape[-2:] if beads else array.shape, name, what)
        return array


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = 1

    def __call__(self, value: Any, name: str, sizes: Sizes) -> int:
        """Return the int."""
        return arrays.whole(value, name, self.least)


@dataclass(frozen=True)
class Word:
    """One of some words."""

    known: tuple[str, ...]

    def __call__(self, value: Any, name: str, sizes: Sizes) -> str:
        """Return the word."""
        arrays.require_one_of(value, name, self.known)
        return str(value)


@dataclass(frozen=True)
class Made:
    """An object that passes a check of its own, and attributes of it that are sizes."""

    check: Callable[[Any], Any]
    sizes: tuple[str, ...] = ()

    def __call__(self, value: Any, name: str, sizes: Sizes) -> Any:
        """Return what was given."""
        self.check(value)
        sizes.update({letter: getattr(value, letter) for letter in self.sizes})
        return value


Positive = Annotated[float, Real(positive=True)]
NotZero = Annotated[float, Real(zero=False)]


def declarations(function: Callable[..., Any]) -> dict[str, Callable[[Any, str, Sizes], Any]]:
    """Return the declaration of each parameter that has one."""
    hints = typing.get_type_hints(inspect.unwrap(function), include_extras=True)
    found = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    for name, hint in hints.items():  # a hint may be Annotated[…] | None
        for part in typing.get_args(hint):
            found[name] = found[name] or getattr(part, "__metadata__", ())
    return {name: data[0] for name, data in found.items() if data}


def declared(function: Function) -> Function:
    """Check what a function's annotations declare, in the order of its parameters."""
    signature = inspect.signature(function)
    known = functools.cache(lambda: declarations(function))

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given, sizes = signature.bind(*args, **kwargs), Sizes()
        for name, declaration in known().items():
            value = given.arguments.get(name)
            if name in given.arguments and not (
                value is None and signature.parameters[name].default is None
            ):
                given.arguments[name] = declaration(value, name, sizes)
        return function(*given.args, **given.kwargs)

    return typing.cast(Function, checked)
