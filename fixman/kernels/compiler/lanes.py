"""Eight states at once: a numba type for one SIMD register of eight doubles.

LLVM does not vectorize a recursion along a chain.  A kernel written with the functions below on
values "like" another value compiles to scalar code where that is a float and to one vector
instruction an operation where it is `eight`.  A unit is one double or eight; memory is a flat
float64 array and unit k begins at k or 8 k.

    load, store           unit k of a work array
    entry                 element k of an index array
    integer               element k of a float64 array, its bits as an integer
    take, put             component of one state, or of eight states that lie ``stride`` apart
    above(x, y)           whether x > y in every lane; false where one is NaN
    root(x), ln(x)        square root and natural logarithm
    lane(x, k)            the value in lane k; of a float, itself
    mantissa(x)           a positive normal number over a power of two, from 1 to 2
    biased_exponent(x)    2⁵² + 1023 + the exponent of that power of two
    fma(x, y, z)          x y + z, rounded once
    larger, smaller       of x and y; x where x is NaN
    beyond(x, y)          the lanes in which x > y is not false (NaN counts), bit k for lane k
    choose(bits, x, y)    x in the lanes of ``bits``, y in the others
    pick(x, y, a, b)      a where x > y, else b
    everywhere(like)      all lanes, as bits
    lanes(like)           how many states a value holds
    eight(x)              a number in every lane
    part(work, first, units, like)    units of a work array as an array
    memory(units, like)   work array of zeros
    zeros(states)         0 for `ONE` state or `EIGHTS`, which a caller in Python chooses

Kernels that are `exact` (or, whole, `exact_kernel`) give the same bits for one state and for
eight: nothing is contracted there but by `fma`.
"""

import inspect
import math
import operator
from typing import Any

from fixman.kernels import jit, njit
from fixman.kernels.compiler import internals as nb
from fixman.kernels.compiler.internals import WHOLE, element, ir, named_intrinsic, types, written

LANES = 8

# Parts of a kernel of which nothing is left as a call, and in which a float and a lane agree to the
# last bit.  Of a b + c d a compiler may fuse either product with the sum, and does not choose the
# same one in lanes: nothing is fused.  Without any flag of its own such a function would take on
# those of the kernel that it is inlined into.
#
# Counting references to arrays would cost more than a short chain's step.  So these parts neither
# make arrays nor return any, which `exact_arrays` do.
#
# Python calls only an `exact_entry` and an `exact_kernel`; an `exact_call` stays a call.
_EXACT: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"nsz"}, "forceinline": True}
exact_entry = njit(**_EXACT, _nrt=False)
exact = njit(**_EXACT, _nrt=False, no_cpython_wrapper=True)
exact_arrays = njit(**_EXACT, _nrt=True, no_cpython_wrapper=True)
exact_kernel = njit(nogil=True, error_model="numpy", _nrt=True)
exact_call = njit(nogil=True, error_model="numpy", _nrt=True, no_cpython_wrapper=True)


class Eight(types.Type):
    """Eight doubles in a register."""


EIGHT = Eight("eight")
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
INDEX = ir.IntType(32)


@nb.register_model(Eight)
class _Model(nb.models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, VECTOR)


def _spread(builder: Any, scalar: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, INDEX(0))
    zeros = ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), zeros)


def cast(context: Any, builder: Any, value: Any, given: Any) -> Any:
    if given is EIGHT:
        return value
    return _spread(builder, context.cast(builder, value, given, types.float64))


def _arithmetic(op: Any, instruction: str, *kinds: Any) -> None:
    class Template(nb.AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            fit = EIGHT in args and all(a is EIGHT or isinstance(a, types.Number) for a in args)
            return nb.signature(EIGHT, *args) if fit and len(args) == len(kinds[0]) else None

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        given = (cast(context, builder, v, t) for v, t in zip(args, sig.args, strict=True))
        return getattr(builder, instruction)(*given)

    nb.infer_global(op)(Template)
    for given in kinds:
        nb.lower_builtin(op, *given)(lower)


_arithmetic(operator.neg, "fneg", (Eight,))
for _name, _instruction in (
    ("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv"),
    ("iadd", "fadd"), ("isub", "fsub"), ("imul", "fmul"), ("itruediv", "fdiv"),
):  # fmt: skip
    _pairs = (Eight, Eight), (Eight, types.Number), (types.Number, Eight)
    _arithmetic(getattr(operator, _name), _instruction, *_pairs)


@written(lambda value: EIGHT(value))
def eight(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return cast(context, builder, args[0], sig.args[0])


# The number of states as a type, for kernels that are called from Python.
ONE, EIGHTS = (0,), (0,) * LANES


@written(lambda states: (EIGHT if len(states) == LANES else types.float64)(states))
def zeros(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return ir.Constant(context.get_value_type(sig.return_type), None)


@written(lambda like: types.int64(like))
def lanes(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return WHOLE(LANES if sig.args[0] is EIGHT else 1)


@written(lambda like: types.int64(like))
def everywhere(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return WHOLE(2**LANES - 1 if sig.args[0] is EIGHT else 1)


def _unit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Address of a unit of the type that ``sig.args[-1]`` has."""
    k = args[1]
    if sig.args[-1] is EIGHT:
        k = builder.mul(k, k.type(LANES))
        first = element(context, builder, sig.args[0], args[0], k, LANES)
        return builder.bitcast(first, VECTOR.as_pointer())
    return element(context, builder, sig.args[0], args[0], k)


@written(lambda work, k, like: like(work, types.intp, like))
def load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(_unit(context, builder, sig, args), align=8)


@written(lambda work, k, value: types.void(work, types.intp, value))
def store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], _unit(context, builder, sig, args), align=8)
    return context.get_dummy_value()


@written(lambda array, k: array.dtype(array, types.intp))
def entry(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Unlike a plain index, do not ask whether k counts from the end."""
    return builder.load(element(context, builder, sig.args[0], args[0], args[1]))


@written(lambda table, k: types.int64(table, types.intp))
def integer(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    at = element(context, builder, sig.args[0], args[0], args[1])
    return builder.load(builder.bitcast(at, WHOLE.as_pointer()))


@written(lambda states, first, stride, like: like(states, types.intp, types.intp, like))
def take(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    states, at, stride, _ = args
    if sig.return_type is not EIGHT:
        return builder.load(element(context, builder, sig.args[0], states, at), align=8)
    value = ir.Constant(VECTOR, ir.Undefined)
    for lane in range(LANES):
        one = builder.load(element(context, builder, sig.args[0], states, at), align=8)
        value = builder.insert_element(value, one, INDEX(lane))
        at = builder.add(at, stride)
    return value


@written(lambda states, first, stride, value: types.void(states, types.intp, types.intp, value))
def put(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    states, at, stride, given = args
    many = sig.args[3] is EIGHT
    for lane in range(LANES if many else 1):
        one = builder.extract_element(given, INDEX(lane)) if many else given
        builder.store(one, element(context, builder, sig.args[0], states, at), align=8)
        at = builder.add(at, stride)
    return context.get_dummy_value()


@written(lambda x, k: types.float64(x, types.intp))
def lane(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    if sig.args[0] is not EIGHT:
        return args[0]
    return builder.extract_element(args[0], builder.trunc(args[1], INDEX))


# --- of numbers, in every lane --------------------------------------------------------------------


def lanewise(write: Any) -> Any:
    """Decorate a function of LLVM's builder and numbers, all floats or all in lanes."""

    def define(typing: Any, *kinds: Any) -> Any:
        kind = EIGHT if EIGHT in kinds else types.float64

        def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            values = zip(args, sig.args, strict=True)
            if kind is EIGHT:
                return write(builder, *(cast(context, builder, *value) for value in values))
            return write(builder, *(context.cast(builder, *value, kind) for value in values))

        return kind(*kinds), lower

    numbers = list(inspect.signature(write).parameters.values())[1:]
    write.__signature__ = inspect.Signature(numbers)
    return named_intrinsic(define, write)


def _function(builder: Any, name: str, *values: Any) -> Any:
    kind = values[0].type
    suffix = f"v{LANES}f64" if kind == VECTOR else "f64"
    declared = ir.FunctionType(kind, [kind] * len(values))
    function = builder.module.declare_intrinsic(f"llvm.{name}.{suffix}", (), declared)
    return builder.call(function, values)


@lanewise
def root(builder: Any, x: Any) -> Any:
    return _function(builder, "sqrt", x)


@lanewise
def ln(builder: Any, x: Any) -> Any:
    return _function(builder, "log", x)


@lanewise
def fma(builder: Any, x: Any, y: Any, z: Any) -> Any:
    return _function(builder, "fma", x, y, z)


@lanewise
def pick(builder: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), a, b)


@lanewise
def larger(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", x, y), y, x)


@lanewise
def smaller(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), y, x)


def _bits(builder: Any, x: Any, kept: int, exponent: int, shift: int = 0) -> Any:
    """Bits of a positive value, shifted to the right; those that are kept, and an exponent."""
    kind = ir.VectorType(WHOLE, LANES) if x.type == VECTOR else WHOLE

    def constant(value: int) -> Any:
        return ir.Constant(kind, [value] * LANES if x.type == VECTOR else value)

    bits = builder.and_(builder.lshr(builder.bitcast(x, kind), constant(shift)), constant(kept))
    return builder.bitcast(builder.or_(bits, constant(exponent << 52)), x.type)


@lanewise
def mantissa(builder: Any, x: Any) -> Any:
    return _bits(builder, x, 2**52 - 1, 1023)


@lanewise
def biased_exponent(builder: Any, x: Any) -> Any:
    return _bits(builder, x, 2**12 - 1, 1075, 52)


def _mask(builder: Any, mask: Any) -> Any:
    return builder.bitcast(mask, ir.IntType(LANES)) if mask.type != ir.IntType(1) else mask


@written(lambda x, y: types.boolean(x, x))
def above(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    bits = _mask(builder, builder.fcmp_ordered(">", *args))
    return builder.icmp_unsigned("==", bits, bits.type(2**bits.type.width - 1))


@written(lambda x, y: types.int64(x, x))
def beyond(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.zext(_mask(builder, builder.fcmp_unordered(">", *args)), WHOLE)


@written(lambda bits, x, y: x(types.int64, x, x))
def choose(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    mask = builder.trunc(args[0], ir.IntType(LANES if sig.return_type is EIGHT else 1))
    if sig.return_type is EIGHT:
        mask = builder.bitcast(mask, ir.VectorType(ir.IntType(1), LANES))
    return builder.select(mask, *args[1:])


def _view(context: Any, builder: Any, kind: Any, whole: Any, start: Any, size: Any) -> Any:
    """Array of ``size`` numbers of a flat array from ``start`` on, which shares its memory."""
    view = context.make_array(kind)(context, builder)
    nb.populate_array(
        view,
        data=builder.gep(whole.data, [start]),
        shape=[size],
        strides=nb.cgutils.unpack_tuple(builder, whole.strides),
        itemsize=whole.itemsize,
        meminfo=whole.meminfo,
    )
    return view._getvalue()


@written(lambda work, first, units, like: work(work, types.intp, types.intp, like))
def part(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Unlike a slice, compile fast."""
    width = WHOLE(LANES if sig.args[3] is EIGHT else 1)
    whole = context.make_array(sig.args[0])(context, builder, args[0])
    start, size = (builder.mul(arg, width) for arg in args[1:3])
    if nb.CHECKED:  # a part that is not there is empty, so that its use is seen
        left = builder.sub(whole.nitems, start)
        size = builder.select(builder.icmp_signed("<", left, size), left, size)
        outside = builder.icmp_signed("<", builder.or_(start, size), WHOLE(0))
        size = builder.select(outside, WHOLE(0), size)
    view = _view(context, builder, sig.args[0], whole, start, size)
    return nb.impl_ret_borrowed(context, builder, sig.return_type, view)


@written(lambda units, like: types.Array(types.float64, 1, "C")(types.intp, like))
def memory(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Begin at a multiple of 64 bytes; ``np.zeros`` compiles longer."""
    kind = sig.return_type
    size = builder.mul(args[0], WHOLE(LANES if sig.args[1] is EIGHT else 1))
    room = builder.add(size, WHOLE(LANES))
    whole = nb.new_array(context, builder, kind, [room])
    nb.cgutils.memset(builder, whole.data, builder.mul(room, WHOLE(8)), 0)
    numbers = builder.lshr(builder.ptrtoint(whole.data, WHOLE), WHOLE(3))
    skip = builder.and_(builder.neg(numbers), WHOLE(LANES - 1))
    view = _view(context, builder, kind, whole, skip, size)
    return nb.impl_ret_new_ref(context, builder, kind, view)


@jit
def fill_sines(work, m):
    """Angles work[:m] → cosines there and sines in work[m : 2 m], in a loop that vectorizes.

    To 1 ulp: π/2 in three parts of which the first two have 33 bits, then Taylor's polynomials
    economized by Chebyshev's (fdlibm's coefficients), and the quadrant by exact arithmetic.
    """
    for k in range(m):
        if abs(work[k]) > 1.0e6:
            work[k] = _reduced(work[k])
    for k in range(m):
        x = work[k]
        quarter = (x * 0.6366197723675814 + 6755399441055744.0) - 6755399441055744.0
        y = x - quarter * 1.57079632673412561417
        t = quarter * 6.07710050630396597660e-11
        high = y - t
        low = (y - high) - t - quarter * 2.02226624879595063154e-21
        r = high + low
        z = r * r
        # fdlibm's __kernel_sin and __kernel_cos
        sine = 1.58969099521155010221e-10
        sine = sine * z - 2.50507602534068634195e-08
        sine = sine * z + 2.75573137070700676789e-06
        sine = sine * z - 1.98412698298579493134e-04
        sine = sine * z + 8.33333333332248946124e-03
        sine = r + r * z * (sine * z - 1.66666666666666324348e-01)
        cosine = -1.13596475577881948265e-11
        cosine = cosine * z + 2.08757232129817482790e-09
        cosine = cosine * z - 2.75573143513906633035e-07
        cosine = cosine * z + 2.48015872894767294178e-05
        cosine = cosine * z - 1.38888888888741095749e-03
        cosine = cosine * z + 4.16666666666666019037e-02
        cosine = 1.0 - (0.5 * z - z * z * cosine)
        # cos and sin of quarter·π/2 from the quarter modulo 4, in −2 … 2
        turn = quarter - 4.0 * ((quarter * 0.25 + 6755399441055744.0) - 6755399441055744.0)
        c = 1.0 - abs(turn)
        s = turn * (2.0 - abs(turn))
        work[k] = cosine * c - sine * s
        work[m + k] = sine * c + cosine * s


@jit
def _reduced(x):
    return math.atan2(math.sin(x), math.cos(x))
