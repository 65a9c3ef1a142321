"""Formulas for vectors in two or three dimensions: the same bits for a float and in every lane.

A vector is three values, floats or eight lanes each (see `lanes`), the third 0 in the plane.  In
memory it has as many units as there are axes.

A `formula` is compiled where it is used, as so many instructions, because numba takes some 60 ms
for a function that is called, once for every type of its arguments.  Nothing in it is contracted
but by its `fma`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import extending, types

from fixman.kernels.lanes import EIGHT, LANES, VECTOR, address, cast, intrinsic

# One zero an axis: the number of axes is then part of a type, and known when code is compiled.
Axes = tuple[int, ...]
SPACE: Axes = (0, 0, 0)

FLAGS = ("nsz",)  # with a flag of its own an instruction does not take on those of its kernel


class Number:
    """What the operators of a formula work on: an instruction's value.

    Without a ``builder`` there is none: that is how the shape of an answer is found.
    """

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder = builder
        self.value = value

    def _do(self, instruction: str, left: Any, right: Any) -> Number:
        if self.builder is None:
            return self
        x, y = (self._constant(side) for side in (left, right))
        return Number(self.builder, getattr(self.builder, instruction)(x, y, flags=FLAGS))

    def _constant(self, given: Any) -> Any:
        if isinstance(given, Number):
            return given.value
        kind = self.value.type
        return ir.Constant(kind, [given] * LANES if kind == VECTOR else given)

    def __add__(self, other: Any) -> Number:
        return self._do("fadd", self, other)

    def __sub__(self, other: Any) -> Number:
        return self._do("fsub", self, other)

    def __mul__(self, other: Any) -> Number:
        return self._do("fmul", self, other)

    def __rmul__(self, other: Any) -> Number:
        return self._do("fmul", other, self)

    def __truediv__(self, other: Any) -> Number:
        return self._do("fdiv", self, other)

    def __rtruediv__(self, other: Any) -> Number:
        return self._do("fdiv", other, self)

    def __neg__(self) -> Number:
        return self if self.builder is None else Number(self.builder, self.builder.fneg(self.value))

    def call(self, name: str, *others: Number) -> Number:
        """One of LLVM's functions of this number and others."""
        if self.builder is None:
            return self
        kind = self.value.type
        suffix = f"v{LANES}f64" if kind == VECTOR else "f64"
        values = [self.value, *(other.value for other in others)]
        function = self.builder.module.declare_intrinsic(
            f"llvm.{name}.{suffix}", (), ir.FunctionType(kind, [kind] * len(values))
        )
        return Number(self.builder, self.builder.call(function, values))


def fma(x: Number, y: Number, z: Number) -> Number:
    """X y + z with one rounding."""
    return x.call("fma", y, z)


def root(x: Number) -> Number:
    return x.call("sqrt")


INTRINSIC: Any = extending._Intrinsic  # type: ignore[attr-defined]


class Formula(INTRINSIC):  # type: ignore[misc]
    """A function of numbers and vectors, for kernels and for other formulas."""

    formula: Callable[..., Any]

    def __call__(self, *numbers: Any) -> Any:
        """Work it out on numbers, within another one."""
        return self.formula(*numbers)


def formula(function: Callable[..., Any]) -> Any:
    """Make a formula of a function without branches."""

    def typed(typing: Any, *given: Any) -> Any:
        kind = EIGHT if any(EIGHT in _parts(one) for one in given) else types.float64

        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            def number(value: Any, its: Any) -> Number:
                if kind is EIGHT:
                    return Number(builder, cast(context, builder, value, its))
                return Number(builder, context.cast(builder, value, its, types.float64))

            numbers = [
                tuple(number(builder.extract_value(arg, k), t) for k, t in enumerate(_parts(its)))
                if isinstance(its, types.BaseTuple)
                else number(arg, its)
                for arg, its in zip(args, sig.args, strict=True)
            ]
            return _packed(context, builder, function(*numbers), kind)

        blank = Number(None, None)
        blanks = [
            (blank,) * len(one) if isinstance(one, types.BaseTuple) else blank for one in given
        ]
        return _shape(function(*blanks), kind)(*given), lower

    # numba would hand over a starred argument as one tuple.
    own = inspect.signature(function)
    first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named: Any = typed
    named.__signature__ = own.replace(parameters=[first, *own.parameters.values()])
    named.__doc__ = function.__doc__
    made = Formula(function.__name__, typed)
    made.formula = function
    made._register()
    return made


def _parts(given: Any) -> tuple[Any, ...]:
    many: Any = given
    return tuple(many) if isinstance(given, types.BaseTuple) else (given,)


def _shape(answer: Any, kind: Any) -> Any:
    if isinstance(answer, tuple):
        return types.Tuple([_shape(part, kind) for part in answer])
    return kind


def _packed(context: Any, builder: Any, answer: Any, kind: Any) -> Any:
    if not isinstance(answer, tuple):
        return answer.value
    parts = [_packed(context, builder, part, kind) for part in answer]
    return context.make_tuple(builder, _shape(answer, kind), parts)


@intrinsic
def vector(typing: Any, X: Any, k: Any, axes: Any, like: Any) -> Any:
    """Return joint or bond k."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = []
        for axis in range(3):
            if axis < len(axes):
                at = _component(context, builder, sig, args, len(axes), axis, like is EIGHT)
                values.append(builder.load(at, align=8))
            else:
                values.append(ir.Constant(context.get_value_type(like), None))
        return context.make_tuple(builder, sig.return_type, values)

    return types.UniTuple(like, 3)(X, types.intp, axes, like), lower


@intrinsic
def put_vector(typing: Any, X: Any, k: Any, axes: Any, a: Any) -> Any:
    """Set joint or bond k."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        for axis in range(len(axes)):
            at = _component(context, builder, sig, args, len(axes), axis, a.dtype is EIGHT)
            builder.store(builder.extract_value(args[3], axis), at, align=8)
        return context.get_dummy_value()

    return types.void(X, types.intp, axes, a), lower


def _component(
    context: Any, builder: Any, sig: Any, args: Any, dim: int, axis: int, wide: bool
) -> Any:
    width = LANES if wide else 1
    index = args[1].type
    at = builder.add(builder.mul(args[1], index(dim * width)), index(axis * width))
    where = address(context, builder, sig.args[0], args[0], at)
    return builder.bitcast(where, VECTOR.as_pointer()) if wide else where


@formula
def inner(a, b):
    return fma(a[0], b[0], fma(a[1], b[1], a[2] * b[2]))


@formula
def dot(a, b):
    """The same without fused products, as where a kernel must not lose a symmetry to them."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@formula
def minus(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


@formula
def plus(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


@formula
def scaled(s, a):
    return s * a[0], s * a[1], s * a[2]


@formula
def along(s, a, b):
    """S a + b."""
    return fma(s, a[0], b[0]), fma(s, a[1], b[1]), fma(s, a[2], b[2])


@formula
def outer(a, b):
    """a × b."""
    return (
        fma(a[1], b[2], -(a[2] * b[1])),
        fma(a[2], b[0], -(a[0] * b[2])),
        fma(a[0], b[1], -(a[1] * b[0])),
    )


@formula
def cross(a, b):
    """a × b, exactly 0 for parallel vectors: nothing is fused."""
    return (
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    )
