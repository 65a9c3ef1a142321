"""Straight parts of kernels, written into them as they run and not compiled by themselves.

numba takes milliseconds for every operation of a function.  A `step` it never sees: the function is
run once with `Value` objects, each of whose operations writes one instruction into the kernel that
calls it.  Kernels keep what steps cannot have: loops over bodies, branches on numbers, returns.

Inside a step, numbers are floats, integers or `eight` states in lanes, tuples nest, elements of
arrays are read and set by index (not from the end), ``&`` joins conditions, ``>>`` fills with
zeros, and loops over constants are unrolled.  It may call other steps and the intrinsics of
`lanes`.  Given numbers that are `moving`, steps of sums, products, divisions and square roots
compute rates as well.

Nothing in an `exact_step` is contracted but by `fma`, whatever kernel it is in: a float and a lane
agree to the last bit.  A step that is `chosen` is one of several, by a number that is known at run
time: it writes one branch for each of some records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from fixman.kernels.compiler import internals as nb
from fixman.kernels.compiler.internals import cgutils, ir, named_intrinsic, types
from fixman.kernels.compiler.lanes import EIGHT, cast, root

DOUBLE, INTEGER = types.float64, types.int64


# Numba's context, LLVM's builder and the flags of what is written, under numba's lock; None where
# only types are asked for.
_writer: Any = None


@contextmanager
def _written_by(writer: Any) -> Iterator[None]:
    global _writer
    before, _writer = _writer, writer
    try:
        yield
    finally:
        _writer = before


class Value:
    """Numba's type of a value and, when code is written, LLVM's value."""

    def __init__(self, kind: Any, code: Any) -> None:
        self.kind = kind
        self.code = code
        self.block: Any = None  # where an array was taken apart, once for all of its elements
        self.array: Any = None

    __iter__ = None  # which Python would make of indexing, without an end

    def __bool__(self) -> bool:
        raise TypeError(
            "a step cannot branch on what a kernel computes: `and`, `or`, `if`, `while`"
        )

    def _place(self, index: Any) -> Any:
        context, builder, _ = _writer
        indices = index if isinstance(index, tuple) else (index,)
        codes = [_as(_number(k), INTEGER) for k in indices]
        if self.block is not builder.block:
            data, *parts = (
                nb.field(context, builder, self.kind, self.code, name)
                for name in ("data", "shape", "strides")
            )
            self.block = builder.block
            self.array = data, *(cgutils.unpack_tuple(builder, part) for part in parts)
        data, shape, strides = self.array
        layout = self.kind.layout
        return cgutils.get_item_pointer2(
            context, builder, data, shape, strides, layout, codes, boundscheck=nb.CHECKED
        )

    def __getitem__(self, index: Any) -> Value:
        return Value(self.kind.dtype, _writer and _writer[1].load(self._place(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        if _writer is not None:
            code = _as(_number(value), self.kind.dtype)
            _writer[1].store(code, self._place(index))

    def __abs__(self) -> Value:
        if _writer is None:
            return self
        function = _writer[1].module.declare_intrinsic("llvm.fabs", [self.code.type])
        return Value(self.kind, _writer[1].call(function, [self.code]))

    def __neg__(self) -> Value:
        return Value(self.kind, _writer and _writer[1].fneg(self.code, flags=_writer[2]))


def _number(x: Any) -> Value:
    if isinstance(x, Value):
        return x
    kind = INTEGER if isinstance(x, int) else DOUBLE
    llvm = ir.IntType(64) if kind is INTEGER else ir.DoubleType()
    return Value(kind, ir.Constant(llvm, int(x) if kind is INTEGER else x))


def _as(x: Value, kind: Any) -> Any:
    context, builder, _ = _writer
    if kind is EIGHT:
        return cast(context, builder, x.code, x.kind)
    return x.code if kind == x.kind else context.cast(builder, x.code, x.kind, kind)


def _operator(name: str, swapped: bool) -> Callable[[Value, Any], Any]:
    def method(left: Value, right: Any) -> Any:
        if isinstance(right, Moving):
            return NotImplemented
        x, y = left, _number(right)
        if swapped:
            x, y = y, x
        kinds = x.kind, y.kind
        kind = next((kind for kind in (EIGHT, DOUBLE) if kind in kinds), x.kind)
        if _writer is None:
            return Value(kind, None)
        _, builder, flags = _writer
        codes = _as(x, kind), _as(y, kind)
        if kind in (EIGHT, DOUBLE):
            return Value(kind, getattr(builder, "f" + name)(*codes, flags=flags))
        return Value(kind, getattr(builder, name)(*codes))

    return method


for _name, _instruction in (
    ("add", "add"), ("sub", "sub"), ("mul", "mul"), ("truediv", "div"), ("and", "and_"),
    ("or", "or_"), ("xor", "xor"), ("lshift", "shl"), ("rshift", "lshr"),
):  # fmt: skip
    setattr(Value, f"__{_name}__", _operator(_instruction, False))
    setattr(Value, f"__r{_name}__", _operator(_instruction, True))


def _call(function: Any, *args: Any) -> Any:
    if any(isinstance(x, Moving) for x in args):
        return _DERIVATIVES[id(function)](*args)
    values = [_number(x) for x in args]
    signature, write = function._defn(None, *(x.kind for x in values))
    code = None
    if _writer is not None:
        pairs = zip(values, signature.args, strict=True)
        code = write(*_writer[:2], signature, [_as(x, kind) for x, kind in pairs])
    kind = signature.return_type
    return None if kind == types.void else Value(kind, code)


class Moving:
    """A value and its rate, None where it stays; steps pass rates on to their results.

    Division and square roots are all that a step may do with it beside sums and products.
    """

    def __init__(self, value: Any, rate: Any) -> None:
        self.value = value
        self.rate = rate

    def __add__(self, other: Any) -> Moving:
        x, dx = _parted(other)
        return Moving(self.value + x, _sum(self.rate, dx))

    __radd__ = __add__

    def __mul__(self, other: Any) -> Moving:
        x, dx = _parted(other)
        return Moving(self.value * x, _sum(_product(self.rate, x), _product(dx, self.value)))

    __rmul__ = __mul__

    def __neg__(self) -> Moving:
        return Moving(-self.value, _product(self.rate, -1.0))

    def __sub__(self, other: Any) -> Moving:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Moving:
        return (-self).__add__(other)

    def __truediv__(self, other: Any) -> Moving:
        x, dx = _parted(other)
        inverse, quotient = 1.0 / x, self.value / x
        change = _sum(self.rate, _product(dx, -quotient))
        return Moving(quotient, _product(change, inverse))

    def __rtruediv__(self, other: Any) -> Moving:
        return Moving(other, None) / self


def moving(x: Any, rate: Any) -> Any:
    """Return the numbers of nested tuples with their rates."""
    if isinstance(x, tuple):
        return tuple(moving(*pair) for pair in zip(x, rate, strict=True))
    return Moving(x, rate)


def rates(x: Any) -> Any:
    if isinstance(x, tuple):
        return tuple(map(rates, x))
    rate = _parted(x)[1]
    return 0.0 if rate is None else rate


def still(x: Any) -> Any:
    """Return numbers as if they did not move."""
    return tuple(map(still, x)) if isinstance(x, tuple) else _parted(x)[0]


def _parted(x: Any) -> tuple[Any, Any]:
    return (x.value, x.rate) if isinstance(x, Moving) else (x, None)


def _sum(x: Any, y: Any) -> Any:
    return y if x is None else x if y is None else x + y


def _product(rate: Any, x: Any) -> Any:
    return None if rate is None else rate * x


def _moving_root(x: Moving) -> Moving:
    value = _call(root, x.value)
    return Moving(value, _product(x.rate, 0.5 * (1.0 / value)))


_DERIVATIVES: dict[int, Any] = {id(root): _moving_root}
_STEPS: dict[int, Any] = {}  # the function for `Value` objects, by the id of a step


def _translated(x: Any) -> Any:
    if id(x) in _STEPS:
        return _STEPS[id(x)]
    if isinstance(x, nb.Dispatcher):
        return _plain(x.py_func)
    if isinstance(x, ModuleType):
        return _Names(x)
    return (lambda *args: _call(x, *args)) if hasattr(x, "_defn") else x


class _Names:
    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _translated(getattr(self._module, name))


@cache
def _plain(function: Any) -> Any:
    """Return the function for `Value` objects: so is all that it calls."""
    known, code = function.__globals__, function.__code__
    inner = [part.co_names for part in code.co_consts if isinstance(part, CodeType)]
    names = {name for part in (code.co_names, *inner) for name in part if name in known}
    cells = tuple(CellType(_translated(cell.cell_contents)) for cell in function.__closure__ or ())
    translated = {name: _translated(known[name]) for name in names}
    return FunctionType(code, translated, code.co_name, None, cells)


def _taken_apart(kind: Any, code: Any) -> Any:
    if not isinstance(kind, types.BaseTuple):
        return Value(kind, code)
    kinds: Any = kind
    parts = cgutils.unpack_tuple(_writer[1], code, len(kinds)) if _writer else [None] * len(kinds)
    parts = [_taken_apart(*one) for one in zip(kinds, parts, strict=True)]
    if isinstance(kind, types.BaseNamedTuple):
        return kinds.instance_class(*parts)
    return tuple(parts)


def _put_together(x: Any) -> Value:
    if x is None:
        return Value(types.void, _writer and _writer[0].get_dummy_value())
    if not isinstance(x, tuple):
        return _number(x)
    parts = [_put_together(part) for part in x]
    named = type(x) if hasattr(x, "_fields") else None
    kind = types.BaseTuple.from_types([part.kind for part in parts], named)
    codes = [part.code for part in parts]
    return Value(kind, _writer and _writer[0].make_tuple(_writer[1], kind, codes))


def exact_step(function: Any) -> Any:
    """Return the function as part of the kernels that call it, to the last bit as it stands."""
    return _made(function, _exact(lambda *args: _plain(function)(*args)))


def step(function: Any) -> Any:
    """Return the function as part of the kernels that call it."""
    return _made(function, lambda *args: _plain(function)(*args))


def chosen(records: Sequence[Any]) -> Callable[[Any], Any]:
    """Return the function as an exact step that takes the number of a record in its place.

    In the fields of records, which are named tuples, other steps may stand.  Plain numbers in the
    results take the type that other records give them.
    """

    def decorate(function: Any) -> Any:
        def option(record: Any) -> Any:
            known = type(record)(*map(_translated, record))
            return _exact(lambda *args: _plain(function)(known, *args))

        options = [option(record) for record in records]
        return _made(function, lambda number, *args: _branches(options, number, args))

    return decorate


def _exact(values: Any) -> Any:
    def run(*args: Any) -> Any:
        # With a flag of its own an instruction does not take on those of its kernel.
        with _written_by(_writer and (*_writer[:2], ("nsz",))):
            return values(*args)

    return run


def _made(function: Any, values: Any) -> Any:
    def run(kinds: Any, codes: Any, writer: Any) -> Value:
        with _written_by(writer):
            return _put_together(values(*map(_taken_apart, kinds, codes)))

    def define(typing: Any, *kinds: Any) -> Any:
        def write(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            return run(sig.args, args, (context, builder, ())).code

        return run(kinds, [None] * len(kinds), None).kind(*kinds), write

    made = named_intrinsic(define, function)
    _STEPS[id(made)] = values
    return made


def _branches(options: list[Any], number: Value, args: tuple[Any, ...]) -> Any:
    """Return the result of the option of a number: a switch, and its end."""
    if _writer is None:
        results = [option(*args) for option in options]
        kinds = map(_common, zip(*map(_leaves, results), strict=True))
        return _shaped(results[0], (Value(kind, None) for kind in kinds))
    context, builder, _ = _writer
    end, nowhere = map(builder.append_basic_block, ("end", "nowhere"))
    with builder.goto_block(nowhere):
        builder.unreachable()
    switch, ways = builder.switch(number.code, nowhere), []
    for k, option in enumerate(options):
        block = builder.append_basic_block("option")
        switch.add_case(ir.Constant(number.code.type, k), block)
        builder.position_at_end(block)
        result = option(*args)
        ways.append((_leaves(result), builder.block))
    common = map(_common, zip(*(leaves for leaves, _ in ways), strict=True))
    builder.position_at_end(end)
    met = [Value(kind, builder.phi(context.get_value_type(kind))) for kind in common]
    for leaves, block in ways:
        builder.position_at_end(block)
        for leaf, one in zip(leaves, met, strict=True):
            one.code.add_incoming(_as(leaf, one.kind), block)
        builder.branch(end)
    builder.position_at_end(end)
    return _shaped(result, iter(met))


def _leaves(x: Any) -> list[Value]:
    if isinstance(x, tuple):
        return [leaf for part in x for leaf in _leaves(part)]
    return [] if x is None else [_number(x)]


def _shaped(shape: Any, leaves: Iterator[Value]) -> Any:
    if isinstance(shape, tuple):
        return tuple(_shaped(part, leaves) for part in shape)
    return None if shape is None else next(leaves)


def _common(leaves: tuple[Value, ...]) -> Any:
    kinds = [leaf.kind for leaf in leaves]
    return next((kind for kind in (EIGHT, types.boolean, types.uint64) if kind in kinds), kinds[0])
