"""Straight parts of kernels, written into them as they run and not compiled by themselves.

numba takes some milliseconds for every operation of a function: it infers types one by one, and
compiles what a kernel calls before the kernel.  A `step` it never sees: the function is run once
with `Value` objects, each of whose operations writes one instruction into the kernel that calls it.
Kernels keep what steps cannot have: loops over bodies, branches on numbers, early returns.

Inside a step, numbers are floats, integers, `pair`s or `eight` states in lanes, tuples nest,
elements of arrays are read and set by index (not from the end), ``&`` joins conditions, ``>>``
fills with zeros, and loops over constants are unrolled.  It may call other steps and the
intrinsics of `fixman.kernels.compiler.lanes`.

Of an `exact_step` nothing is contracted but by `fma`, whatever kernel it is in: a float and a lane
agree to the last bit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from types import CodeType, FunctionType
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.dispatcher import Dispatcher

from fixman.kernels.compiler.lanes import EIGHT, cast, intrinsic
from fixman.kernels.compiler.pairs import PAIR
from fixman.kernels.compiler.pairs import cast as cast_pair
from fixman.kernels.compiler.pointers import CHECKED

DOUBLE, INTEGER = types.float64, types.int64


class Value:
    """Numba's type of a value and, when code is written, LLVM's value; then a writer too."""

    def __init__(self, kind: Any, code: Any, writer: Any) -> None:
        self.kind = kind
        self.code = code
        # numba's context and builder, and the flags of what is written; or None where only types
        # are asked for
        self.writer = writer
        self.array: Any = None  # an array taken apart, once for all of its elements

    __iter__ = None  # which Python would make of indexing, without an end

    def __bool__(self) -> bool:
        raise TypeError(
            "a step cannot branch on what a kernel computes: `and`, `or`, `if`, `while`"
        )

    def _place(self, index: Any) -> Any:
        context, builder, _ = self.writer
        indices = index if isinstance(index, tuple) else (index,)
        codes = [_number(k, self.writer).code for k in indices]
        if self.array is None:
            array = context.make_array(self.kind)(context, builder, self.code)
            parts = (cgutils.unpack_tuple(builder, x) for x in (array.shape, array.strides))
            self.array = array.data, *parts
        data, shape, strides = self.array
        layout = self.kind.layout
        return cgutils.get_item_pointer2(
            context, builder, data, shape, strides, layout, codes, boundscheck=CHECKED
        )

    def __getitem__(self, index: Any) -> Value:
        code = self.writer and self.writer[1].load(self._place(index))
        return Value(self.kind.dtype, code, self.writer)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.writer is not None:
            code = _as(_number(value, self.writer), self.kind.dtype)
            self.writer[1].store(code, self._place(index))

    def __abs__(self) -> Value:
        if self.writer is None:
            return self
        kind = self.code.type
        function = self.writer[1].module.declare_intrinsic("llvm.fabs", [kind])
        return Value(self.kind, self.writer[1].call(function, [self.code]), self.writer)

    def __neg__(self) -> Value:
        code = self.writer and self.writer[1].fneg(self.code, flags=self.writer[2])
        return Value(self.kind, code, self.writer)


def _number(x: Any, writer: Any) -> Value:
    if isinstance(x, Value):
        return x
    kind = INTEGER if isinstance(x, int) else DOUBLE
    llvm = ir.IntType(64) if kind is INTEGER else ir.DoubleType()
    return Value(kind, ir.Constant(llvm, x), writer)


def _as(x: Value, kind: Any) -> Any:
    """LLVM's value of x as another type of number."""
    context, builder, _ = x.writer
    if kind is EIGHT:
        return cast(context, builder, x.code, x.kind)
    if kind is PAIR:
        return cast_pair(context, builder, x.code, x.kind)
    return x.code if kind == x.kind else context.cast(builder, x.code, x.kind, kind)


def _operator(name: str, swapped: bool) -> Callable[[Value, Any], Value]:
    def method(left: Value, right: Any) -> Value:
        x, y = left, _number(right, left.writer)
        if swapped:
            x, y = y, x
        kinds = x.kind, y.kind
        kind = next((kind for kind in (EIGHT, PAIR, DOUBLE) if kind in kinds), x.kind)
        if left.writer is None:
            return Value(kind, None, None)
        _, builder, flags = left.writer
        codes = _as(x, kind), _as(y, kind)
        if kind in (EIGHT, PAIR, DOUBLE):
            return Value(kind, getattr(builder, "f" + name)(*codes, flags=flags), left.writer)
        return Value(kind, getattr(builder, name)(*codes), left.writer)

    return method


for _name, _instruction in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("and", "and_"),
    ("or", "or_"), ("xor", "xor"), ("lshift", "shl"), ("rshift", "lshr"),
):  # fmt: skip
    setattr(Value, f"__{_name}__", _operator(_instruction, False))
    setattr(Value, f"__r{_name}__", _operator(_instruction, True))


def _call(function: Any, *args: Any) -> Any:
    """Call an intrinsic."""
    writer = next(x.writer for x in args if isinstance(x, Value))
    values = [_number(x, writer) for x in args]
    signature, write = function._defn(None, *(x.kind for x in values))
    code = None
    if writer is not None:
        pairs = zip(values, signature.args, strict=True)
        code = write(*writer[:2], signature, [_as(x, kind) for x, kind in pairs])
    return (
        None if signature.return_type == types.void else Value(signature.return_type, code, writer)
    )


_STEPS: dict[int, Any] = {}  # of each step the function for `Value` objects


def _translated(x: Any) -> Any:
    if id(x) in _STEPS:
        return _STEPS[id(x)]
    if isinstance(x, Dispatcher):
        return _plain(x.py_func)
    return (lambda *args: _call(x, *args)) if hasattr(x, "_defn") else x


@cache
def _plain(function: Any) -> Any:
    """Return the function for `Value` objects: so is all that it calls."""
    known, code = function.__globals__, function.__code__
    inner = [part.co_names for part in code.co_consts if isinstance(part, CodeType)]
    names = {name for part in (code.co_names, *inner) for name in part if name in known}
    return FunctionType(code, {name: _translated(known[name]) for name in names}, code.co_name)


def _taken_apart(kind: Any, code: Any, writer: Any) -> Any:
    if not isinstance(kind, types.BaseTuple):
        return Value(kind, code, writer)
    kinds: Any = kind
    parts = cgutils.unpack_tuple(writer[1], code, len(kinds)) if writer else [None] * len(kinds)
    parts = [_taken_apart(k, part, writer) for k, part in zip(kinds, parts, strict=True)]
    if isinstance(kind, types.BaseNamedTuple):
        return kinds.instance_class(*parts)
    return tuple(parts)


def _put_together(x: Any, writer: Any) -> Value:
    if not isinstance(x, tuple):
        return _number(x, writer)
    parts = [_put_together(part, writer) for part in x]
    named = type(x) if hasattr(x, "_fields") else None
    kind = types.BaseTuple.from_types([part.kind for part in parts], named)
    if writer is None:
        return Value(kind, None, None)
    return Value(kind, writer[0].make_tuple(writer[1], kind, [part.code for part in parts]), writer)


def _written_by(x: Any, writer: Any) -> Any:
    if isinstance(x, tuple):
        parts = [_written_by(part, writer) for part in x]
        return x._make(parts) if hasattr(x, "_make") else tuple(parts)
    return Value(x.kind, x.code, writer) if isinstance(x, Value) else x


def _writer(x: Any) -> Any:
    """Return the writer of the first value in a tuple."""
    while isinstance(x, tuple):
        x = next(part for part in x if isinstance(part, (tuple, Value)))
    return x.writer


def exact_step(function: Any) -> Any:
    """Return the function as part of the kernels that call it, to the last bit as it stands."""

    def run(*args: Any) -> Any:
        writer = _writer(args)
        # With a flag of its own an instruction does not take on those of its kernel.
        exact = writer and (*writer[:2], ("nsz",))
        return _written_by(_plain(function)(*(_written_by(x, exact) for x in args)), writer)

    return _made(function, run)


def step(function: Any) -> Any:
    """Return the function as part of the kernels that call it."""
    return _made(function, lambda *args: _plain(function)(*args))


def _made(function: Any, values: Any) -> Any:
    def run(kinds: Any, codes: Any, writer: Any) -> Any:
        given = zip(kinds, codes, strict=True)
        result = values(*(_taken_apart(kind, code, writer) for kind, code in given))
        return None if result is None else _put_together(result, writer)

    def define(typing: Any, *kinds: Any) -> Any:
        result = run(kinds, [None] * len(kinds), None)

        def write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            written = run(sig.args, args, (context, builder, ()))
            return context.get_dummy_value() if written is None else written.code

        return (types.void if result is None else result.kind)(*kinds), write

    first = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [first, *inspect.signature(function).parameters.values()]
    define.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    define.__name__ = function.__name__
    made = intrinsic(define)
    _STEPS[id(made)] = values
    return made
