"""Two things at once: a numba type for one SIMD register of two doubles.

For recursions that run from both ends of a chain and are the same but for their constants.  Values
support + − · / and mixing with numbers; memory is a flat float64 array.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, register_model

from fixman.kernels.compiler.pointers import element

intrinsic: Any = _intrinsic  # whose first argument, the typing context, is not for callers


class Pair(types.Type):
    """Two doubles in a register."""

    def __init__(self) -> None:
        super().__init__(name="pair")


PAIR = Pair()
VECTOR = ir.VectorType(ir.DoubleType(), 2)
INDEX = ir.IntType(32)


@register_model(Pair)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, VECTOR)


def _join(builder: Any, x: Any, y: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), x, INDEX(0))
    return builder.insert_element(one, y, INDEX(1))


def cast(context: Any, builder: Any, value: Any, given: Any) -> Any:
    if given is PAIR:
        return value
    number = context.cast(builder, value, given, types.float64)
    return _join(builder, number, number)


def _binary(op: Any, instruction: str) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            fit = all(a is PAIR or isinstance(a, types.Number) for a in args)
            return signature(PAIR, *args) if fit and len(args) == 2 and PAIR in args else None

    infer_global(op)(Template)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, y = (cast(context, builder, v, t) for v, t in zip(args, sig.args, strict=True))
        return getattr(builder, instruction)(x, y)

    for left, right in ((Pair, Pair), (Pair, types.Number), (types.Number, Pair)):
        lower_builtin(op, left, right)(lower)


_binary(operator.add, "fadd")
_binary(operator.sub, "fsub")
_binary(operator.mul, "fmul")
_binary(operator.truediv, "fdiv")


@intrinsic
def pair(typing: Any, x: Any, y: Any) -> Any:
    """Return (x, y)."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _join(builder, *args)

    return PAIR(types.float64, types.float64), lower


@intrinsic
def part(typing: Any, x: Any, k: Any) -> Any:
    """Return one of the two."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(args[0], args[1])

    return types.float64(x, types.int64), lower


def _address(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    first = element(context, builder, sig.args[0], args[0], args[1], 2)
    return builder.bitcast(first, VECTOR.as_pointer())


@intrinsic
def load_pair(typing: Any, work: Any, at: Any) -> Any:
    """Return ``work[at], work[at + 1]``."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, sig, args), align=8)

    return PAIR(work, types.intp), lower


@intrinsic
def store_pair(typing: Any, work: Any, at: Any, value: Any) -> Any:
    """Set ``work[at], work[at + 1]``."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, sig, args), align=8)
        return context.get_dummy_value()

    return types.void(work, types.intp, value), lower


@intrinsic
def larger(typing: Any, x: Any, y: Any) -> Any:
    """Return the larger of x and y, part by part; y where one is NaN."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return PAIR(x, y), lower


@intrinsic
def smaller(typing: Any, x: Any, y: Any) -> Any:
    """Return the smaller of x and y, part by part; y where one is NaN."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return PAIR(x, y), lower
