"""Kernels called at an address, so that what calls them is not compiled anew for each.

A function ``f(table, X, F, first, work, like)`` has tables of any type, and makes or enlarges its
own work array.  One kernel, compiled for the table, writes it down as words and gives the address
of the function.  Others call this address with two arrays of `WORDS` integers:

    words   the numbers and arrays of a table, which must outlive their use
    frame   the work array, X, F, first, and an answer; zeros to begin with

`release` frees the work.
"""

from typing import Any

from fixman.kernels.compiler.internals import CHECKED, WHOLE, field, intrinsic, ir, types, written

FLAT = types.Array(types.float64, 1, "C")
WORDS = 256
BYTES = ir.IntType(8).as_pointer()
CALLED = ir.FunctionType(ir.IntType(32), [BYTES, BYTES])  # words and frame; not 0 for an error


def _fields(context: Any, builder: Any, frame: Any, answer: Any) -> list[Any]:
    """Pointers to the fields of a frame: work, X, F, first, answer."""
    flat = context.get_value_type(FLAT)
    kinds = [flat, flat, flat, WHOLE, context.get_value_type(answer)]
    whole = builder.bitcast(frame, ir.LiteralStructType(kinds).as_pointer())
    index = ir.IntType(32)
    return [builder.gep(whole, [index(0), index(k)]) for k in range(len(kinds))]


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    return builder.bitcast(field(context, builder, kind, array, "data"), BYTES)


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A value whose arrays own nothing: what counts references to them ends with the kernel."""
    if isinstance(kind, types.Array):
        for name in ("meminfo", "parent"):
            at = context.data_model_manager[kind].get_field_position(name)
            value = builder.insert_value(value, ir.Constant(BYTES, None), at)
    parts = getattr(kind, "types", ()) if isinstance(kind, types.BaseTuple) else ()
    for k, part in enumerate(parts):
        one = _borrowed(context, builder, part, builder.extract_value(value, k))
        value = builder.insert_value(value, one, k)
    return value


@written(lambda words, table: types.void(words, table))
def keep(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Write a table down."""
    kind = context.get_value_type(sig.args[1])
    if context.get_abi_sizeof(kind) > 8 * WORDS:
        raise NotImplementedError(f"a table of more than {WORDS} words")
    place = builder.bitcast(_data(context, builder, sig.args[0], args[0]), kind.as_pointer())
    builder.store(_borrowed(context, builder, sig.args[1], args[1]), place, align=8)
    return context.get_dummy_value()


def address_of(kernel: Any, answers: bool) -> Any:
    """Return ``address(table, like)``, the address of a kernel in compiled code.

    The kernel returns its work array or, if it ``answers``, a value like ``like``.
    """

    @intrinsic
    def address(typing: Any, table: Any, like: Any) -> Any:
        called = types.Dispatcher(kernel)
        kinds = table, FLAT, FLAT, types.int64, FLAT, like
        sig: Any = called.get_call_type(typing, kinds, {})  # compiles it

        def lower(context: Any, builder: Any, _: Any, args: Any) -> Any:
            made = kernel.overloads[sig.args]
            context.active_code_library.add_linking_library(made.library)
            function = ir.Function(builder.module, CALLED, f"{made.fndesc.mangled_name}.at")
            function.linkage = "internal"
            inner = ir.IRBuilder(function.append_basic_block())
            words, frame = function.args
            place = inner.bitcast(words, context.get_value_type(table).as_pointer())
            work, x, f, first, answer = _fields(context, inner, frame, like)
            old = inner.load(work, align=8)
            given = [inner.load(place, align=8), *(inner.load(p, align=8) for p in (x, f, first))]
            zero = ir.Constant(context.get_value_type(like), None)
            status, found = context.call_internal_no_propagate(
                inner, made.fndesc, sig, [*given, old, zero]
            )
            with inner.if_then(status.is_ok):
                inner.store(found, answer if answers else work, align=8)
                if not answers:
                    context.nrt.decref(inner, FLAT, old)
            inner.ret(status.code)
            return builder.ptrtoint(function, WHOLE)

        return types.int64(table, like), lower

    return address


@written(
    lambda address, words, frame, X, F, first, like: like(
        types.int64, words, frame, FLAT, FLAT, types.int64, like
    )
)
def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call the kernel at an address; return the answer, if it gives one."""
    address, words, frame, X, F, first, _ = args
    like = sig.args[-1]
    words = _data(context, builder, sig.args[1], words)
    frame = _data(context, builder, sig.args[2], frame)
    _, x, f, at, answer = _fields(context, builder, frame, like)
    for value, place in ((X, x), (F, f), (first, at)):
        builder.store(value, place, align=8)
    code = builder.call(builder.inttoptr(address, CALLED.as_pointer()), [words, frame])
    with builder.if_then(builder.icmp_signed("!=", code, code.type(0)), likely=False):
        # It does not say what failed, but of the two one alone can happen.
        error = IndexError if CHECKED else MemoryError
        said = "no memory, or a wrong index, at an address"
        context.call_conv.return_user_exc(builder, error, (said,))
    return builder.load(answer, align=8)


@written(lambda frame: types.void(frame))
def release(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Free the work array of a frame."""
    frame = _data(context, builder, sig.args[0], args[0])
    work = _fields(context, builder, frame, types.float64)[0]
    context.nrt.decref(builder, FLAT, builder.load(work, align=8))
    builder.store(ir.Constant(context.get_value_type(FLAT), None), work, align=8)
    return context.get_dummy_value()
