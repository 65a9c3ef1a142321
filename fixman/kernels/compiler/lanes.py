"""Eight states at once: a numba type for one SIMD register of eight doubles.

LLVM does not vectorize a recursion along a chain, nor an inner loop over states whose body is a
whole link.  A kernel written with the functions below on values "like" another value compiles to
scalar code where that is a float and to one vector instruction an operation where it is `eight`.
A unit is one double or eight; memory is a flat float64 array and unit k begins at k or 8 k.

    load, store           unit k of a work array
    entry                 element k of an index array
    take, put             component of one state, or of eight states that lie ``stride`` apart
    above(x, y)           whether x > y in every lane; false where one is NaN
    root(x), ln(x)        square root and natural logarithm
    lane(x, k)            the value in lane k; of a float, itself
    mantissa(x), biased_exponent(x)   of a positive normal number
    fma(x, y, z)          x y + z, rounded once
    larger, smaller       of x and y; x where x is NaN
    beyond(x, y)          the lanes in which x > y is not false (NaN counts), bit k for lane k
    choose(bits, x, y)    x in the lanes of ``bits``, y in the others
    everywhere(like)      all lanes, as bits
    memory(units, like)   work array of zeros
    zeros(states)         0 for `ONE` state or `EIGHTS`, which a caller in Python chooses

Kernels that are `exact` (or, whole, `exact_kernel`) give the same bits for one state and for
eight: nothing is contracted there but by `fma`.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from fixman.kernels import jit, njit
from fixman.kernels.compiler.internals import (
    AbstractTemplate,
    cgutils,
    impl_ret_borrowed,
    impl_ret_new_ref,
    infer_global,
    intrinsic,
    ir,
    lower_builtin,
    models,
    new_array,
    populate_array,
    register_model,
    signature,
    types,
)
from fixman.kernels.compiler.pointers import CHECKED, WHOLE, element

LANES = 8

# Parts of a kernel of which nothing is left as a call, whatever their size, and in which a float
# and a lane agree to the last bit.  Of a b + c d a compiler may fuse either product with the sum,
# and does not choose the same one in lanes: nothing is fused.  Without any flag of its own such a
# function would take on those of the kernel that it is inlined into.
#
# References to arrays are not counted in them: that would cost more than a short chain's step.  So
# they neither make arrays nor return any, which `exact_arrays` do.
#
# Only other kernels call them, but for `exact_entry`: what Python would need is not compiled,
# nor of an `exact_call`, a kernel that is not put into those that call it.
_EXACT: Any = {"nogil": True, "error_model": "numpy", "fastmath": {"nsz"}, "forceinline": True}
exact_entry = njit(**_EXACT, _nrt=False)
exact = njit(**_EXACT, _nrt=False, no_cpython_wrapper=True)
exact_arrays = njit(**_EXACT, _nrt=True, no_cpython_wrapper=True)
exact_kernel = njit(nogil=True, error_model="numpy", _nrt=True)
exact_call = njit(nogil=True, error_model="numpy", _nrt=True, no_cpython_wrapper=True)


class Eight(types.Type):
    """Eight doubles in a register."""

    def __init__(self) -> None:
        super().__init__(name="eight")


EIGHT = Eight()
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
INDEX = ir.IntType(32)


@register_model(Eight)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, VECTOR)


def _spread(builder: Any, scalar: Any) -> Any:
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), scalar, INDEX(0))
    zeros = ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), zeros)


def cast(context: Any, builder: Any, value: Any, given: Any) -> Any:
    """Return a number in every lane."""
    if given is EIGHT:
        return value
    return _spread(builder, context.cast(builder, value, given, types.float64))


def _binary(op: Any, instruction: str) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            fit = all(a is EIGHT or isinstance(a, types.Number) for a in args)
            return signature(EIGHT, *args) if fit and len(args) == 2 and EIGHT in args else None

    infer_global(op)(Template)

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        x, y = (cast(context, builder, v, t) for v, t in zip(args, sig.args, strict=True))
        return getattr(builder, instruction)(x, y)

    for left, right in ((Eight, Eight), (Eight, types.Number), (types.Number, Eight)):
        lower_builtin(op, left, right)(lower)


for _op, _name in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    _binary(_op, _name)
    # numba looks x += y up as an operator of its own
    _binary(getattr(operator, "i" + _op.__name__), _name)


@infer_global(operator.neg)
class _Negative(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(EIGHT, EIGHT) if tuple(args) == (EIGHT,) else None


@lower_builtin(operator.neg, Eight)
def _negative(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.fneg(args[0])


@intrinsic
def eight(typing: Any, value: Any) -> Any:
    """Return a number in every lane."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return cast(context, builder, args[0], sig.args[0])

    return EIGHT(value), lower


# The number of states as a type, for kernels that are called from Python.
ONE, EIGHTS = (0,), (0,) * LANES


@intrinsic
def zeros(typing: Any, states: Any) -> Any:
    """Return 0 for one or eight states, `ONE` or `EIGHTS`."""
    kind = EIGHT if len(states) == LANES else types.float64

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(context.get_value_type(kind), None)

    return kind(states), lower


@intrinsic
def lanes(typing: Any, like: Any) -> Any:
    """Return how many states a value holds."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), LANES if like is EIGHT else 1)

    return types.int64(like), lower


def _unit(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Address of a unit of the type that ``sig.args[-1]`` has."""
    k = args[1]
    if sig.args[-1] is EIGHT:
        k = builder.mul(k, k.type(LANES))
        first = element(context, builder, sig.args[0], args[0], k, LANES)
        return builder.bitcast(first, VECTOR.as_pointer())
    return element(context, builder, sig.args[0], args[0], k)


@intrinsic
def load(typing: Any, work: Any, k: Any, like: Any) -> Any:
    """Return unit k of a work array."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_unit(context, builder, sig, args), align=8)

    return like(work, types.intp, like), lower


@intrinsic
def store(typing: Any, work: Any, k: Any, value: Any) -> Any:
    """Set unit k of a work array."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _unit(context, builder, sig, args), align=8)
        return context.get_dummy_value()

    return types.void(work, types.intp, value), lower


@intrinsic
def entry(typing: Any, array: Any, k: Any) -> Any:
    """Return ``array[k]`` without asking, as a plain index does, whether k counts from the end."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(element(context, builder, sig.args[0], args[0], args[1]))

    return array.dtype(array, types.intp), lower


@intrinsic
def integer(typing: Any, table: Any, k: Any) -> Any:
    """Return the bits of ``table[k]`` as an integer."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        at = element(context, builder, sig.args[0], args[0], args[1])
        return builder.load(builder.bitcast(at, ir.IntType(64).as_pointer()))

    return types.int64(table, types.intp), lower


@intrinsic
def take(typing: Any, states: Any, first: Any, stride: Any, like: Any) -> Any:
    """Return ``states[first]``, or the eight values from there that lie ``stride`` apart."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        states, at, stride, _ = args
        if like is not EIGHT:
            return builder.load(element(context, builder, sig.args[0], states, at), align=8)
        value = ir.Constant(VECTOR, ir.Undefined)
        for lane in range(LANES):
            one = builder.load(element(context, builder, sig.args[0], states, at), align=8)
            value = builder.insert_element(value, one, INDEX(lane))
            at = builder.add(at, stride)
        return value

    return like(states, types.intp, types.intp, like), lower


@intrinsic
def put(typing: Any, states: Any, first: Any, stride: Any, value: Any) -> Any:
    """Set ``states[first]``, or the eight values from there that lie ``stride`` apart."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        states, at, stride, given = args
        for lane in range(LANES if value is EIGHT else 1):
            one = builder.extract_element(given, INDEX(lane)) if value is EIGHT else given
            builder.store(one, element(context, builder, sig.args[0], states, at), align=8)
            at = builder.add(at, stride)
        return context.get_dummy_value()

    return types.void(states, types.intp, types.intp, value), lower


@intrinsic
def above(typing: Any, x: Any, y: Any) -> Any:
    """Return whether x > y, in every lane."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.args[0] is not EIGHT:
            return builder.fcmp_ordered(">", args[0], args[1])
        mask = builder.fcmp_ordered(">", args[0], args[1])
        bits = builder.bitcast(mask, ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, bits.type(2**LANES - 1))

    return types.boolean(x, x), lower


def _function(name: str, x: Any) -> Any:
    """Signature and code of one of LLVM's functions, in every lane."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        kind = args[0].type
        suffix = f"v{LANES}f64" if x is EIGHT else "f64"
        function = builder.module.declare_intrinsic(
            f"llvm.{name}.{suffix}", (), ir.FunctionType(kind, [kind])
        )
        return builder.call(function, [args[0]])

    return x(x), lower


@intrinsic
def root(typing: Any, x: Any) -> Any:
    """Return the square root."""
    return _function("sqrt", x)


@intrinsic
def ln(typing: Any, x: Any) -> Any:
    """Return the natural logarithm; eight cost eight."""
    return _function("log", x)


@intrinsic
def lane(typing: Any, x: Any, k: Any) -> Any:
    """Return the value in lane k; of a float, itself."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.args[0] is not EIGHT:
            return args[0]
        return builder.extract_element(args[0], builder.trunc(args[1], INDEX))

    return types.float64(x, types.intp), lower


@intrinsic
def fma(typing: Any, x: Any, y: Any, z: Any) -> Any:
    """Return x y + z with one rounding."""
    kind = EIGHT if EIGHT in (x, y, z) else types.float64

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if kind is EIGHT:
            spread = [cast(context, builder, v, t) for v, t in zip(args, sig.args, strict=True)]
            function = builder.module.declare_intrinsic(
                f"llvm.fma.v{LANES}f64", (), ir.FunctionType(VECTOR, [VECTOR] * 3)
            )
            return builder.call(function, spread)
        return builder.fma(*args)

    given = (v if v is EIGHT else types.float64 for v in (x, y, z))
    return kind(*given), lower


def _pick(predicate: str) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(predicate, *args), args[1], args[0])

    return lower


@intrinsic
def larger(typing: Any, x: Any, y: Any) -> Any:
    """Return the larger of x and y, in every lane; x where x is NaN."""
    return x(x, x), _pick("<")


@intrinsic
def smaller(typing: Any, x: Any, y: Any) -> Any:
    """Return the smaller of x and y, in every lane; x where x is NaN."""
    return x(x, x), _pick(">")


@intrinsic
def beyond(typing: Any, x: Any, y: Any) -> Any:
    """Return the lanes in which x > y or one of them is NaN, as bits."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        mask = builder.fcmp_unordered(">", args[0], args[1])
        if sig.args[0] is EIGHT:
            mask = builder.bitcast(mask, ir.IntType(LANES))
        return builder.zext(mask, ir.IntType(64))

    return types.int64(x, x), lower


@intrinsic
def choose(typing: Any, bits: Any, x: Any, y: Any) -> Any:
    """Return x in the lanes of ``bits``, y in the others."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if x is EIGHT:
            mask = builder.trunc(args[0], ir.IntType(LANES))
            mask = builder.bitcast(mask, ir.VectorType(ir.IntType(1), LANES))
        else:
            mask = builder.trunc(args[0], ir.IntType(1))
        return builder.select(mask, args[1], args[2])

    return x(types.int64, x, x), lower


@intrinsic
def pick(typing: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    """Return a where x > y, else b, lane by lane."""
    kind = EIGHT if EIGHT in (x, y, a, b) else types.float64

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if sig.return_type is EIGHT:
            values = [cast(context, builder, *pair) for pair in zip(args, sig.args, strict=True)]
        else:
            values = [
                context.cast(builder, value, given, types.float64)
                for value, given in zip(args, sig.args, strict=True)
            ]
        return builder.select(builder.fcmp_ordered(">", *values[:2]), *values[2:])

    return kind(x, y, a, b), lower


@intrinsic
def everywhere(typing: Any, like: Any) -> Any:
    """Return all lanes as bits."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(64), 2**LANES - 1 if like is EIGHT else 1)

    return types.int64(like), lower


def _view(context: Any, builder: Any, kind: Any, whole: Any, start: Any, size: Any) -> Any:
    """Array of ``size`` numbers of a flat array from ``start`` on, which shares its memory."""
    view = context.make_array(kind)(context, builder)
    populate_array(
        view,
        data=builder.gep(whole.data, [start]),
        shape=[size],
        strides=cgutils.unpack_tuple(builder, whole.strides),
        itemsize=whole.itemsize,
        meminfo=whole.meminfo,
    )
    return view._getvalue()


@intrinsic
def part(typing: Any, work: Any, first: Any, units: Any, like: Any) -> Any:
    """Return units of a work array as an array: a slice, which numba would be long about."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        width = ir.Constant(args[1].type, LANES if like is EIGHT else 1)
        whole = context.make_array(work)(context, builder, args[0])
        start, size = (builder.mul(arg, width) for arg in args[1:3])
        if CHECKED:  # a part that is not there is empty, so that its use is seen
            left = builder.sub(whole.nitems, start)
            size = builder.select(builder.icmp_signed("<", left, size), left, size)
            outside = builder.icmp_signed("<", builder.or_(start, size), WHOLE(0))
            size = builder.select(outside, WHOLE(0), size)
        view = _view(context, builder, work, whole, start, size)
        return impl_ret_borrowed(context, builder, work, view)

    return work(work, types.intp, types.intp, like), lower


@intrinsic
def memory(typing: Any, units: Any, like: Any) -> Any:
    """Return units of zeros that begin at a multiple of 64 bytes; ``np.zeros`` compiles longer."""
    kind = types.Array(types.float64, 1, "C")

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        size = builder.mul(args[0], WHOLE(LANES if like is EIGHT else 1))
        room = builder.add(size, WHOLE(LANES))
        whole = new_array(context, builder, kind, [room])
        cgutils.memset(builder, whole.data, builder.mul(room, WHOLE(8)), 0)
        numbers = builder.lshr(builder.ptrtoint(whole.data, WHOLE), WHOLE(3))
        skip = builder.and_(builder.neg(numbers), WHOLE(LANES - 1))
        view = _view(context, builder, kind, whole, skip, size)
        return impl_ret_new_ref(context, builder, kind, view)

    return kind(types.intp, like), lower


def _on_bits(x: Any, change: Any) -> Any:
    """Signature and code of a function of the bits of a positive value, in every lane."""

    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one = ir.IntType(64)
        kind = ir.VectorType(one, LANES) if x is EIGHT else one

        def constant(value: int) -> Any:
            return ir.Constant(kind, [value] * LANES if x is EIGHT else value)

        bits = builder.bitcast(args[0], kind)
        return builder.bitcast(change(builder, bits, constant), args[0].type)

    return x(x), lower


@intrinsic
def mantissa(typing: Any, x: Any) -> Any:
    """Return x over a power of two, from 1 to 2, for a positive normal number."""

    def change(builder: Any, bits: Any, constant: Any) -> Any:
        return builder.or_(builder.and_(bits, constant(2**52 - 1)), constant(1023 << 52))

    return _on_bits(x, change)


@intrinsic
def biased_exponent(typing: Any, x: Any) -> Any:
    """Return 2⁵² + 1023 + the exponent of that power of two."""

    def change(builder: Any, bits: Any, constant: Any) -> Any:
        return builder.or_(builder.lshr(bits, constant(52)), constant(1075 << 52))

    return _on_bits(x, change)


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
