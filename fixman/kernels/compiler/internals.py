"""Everything of numba and llvmlite that kernels use, in one place.

A release of numba may drop or change one: a missing one is refused here, in words.
"""

import inspect
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

try:
    import llvmlite as llvmlite  # type: ignore[import-untyped]
    import numba as numba
    from llvmlite import ir as ir
    from numba import types as types
    from numba.core import caching, codegen, compiler
    from numba.core import cgutils as cgutils
    from numba.core import event as event
    from numba.core import serialize as serialize
    from numba.core.dispatcher import Dispatcher as Dispatcher
    from numba.core.imputils import impl_ret_borrowed as impl_ret_borrowed
    from numba.core.imputils import impl_ret_new_ref as impl_ret_new_ref
    from numba.core.imputils import lower_builtin as lower_builtin
    from numba.core.typing.templates import AbstractTemplate as AbstractTemplate
    from numba.core.typing.templates import infer_global as infer_global
    from numba.core.typing.templates import signature as signature
    from numba.extending import intrinsic as _intrinsic
    from numba.extending import models as models
    from numba.extending import overload as overload
    from numba.extending import register_model as register_model
    from numba.misc import appdirs as appdirs
    from numba.np import arrayobj
    from numba.np.numpy_support import carray as carray

    config: Any = numba.config
    intrinsic: Any = _intrinsic  # whose first argument, the typing context, is not for callers
    new_array: Any = arrayobj._empty_nd_impl
    populate_array: Any = arrayobj.populate_array
    check_bounds: Any = cgutils.do_boundscheck
    NullCache: Any = caching.NullCache
    rebuild: Any = compiler.CompileResult._rebuild
    Library: Any = codegen.JITCodeLibrary
    optimize_in_full: Any = Library._optimize_final_module
    finish_in_full: Any = Library._finalize_final_module
    Codegen: Any = codegen.JITCPUCodegen
    set_environment: Any = Codegen.set_env
except (ImportError, AttributeError) as error:
    raise ImportError(
        f"fixman does not know numba {version('numba')} with llvmlite {version('llvmlite')}: "
        f"{error}. Install a version that it was tried with: pip install 'numba>=0.61,<0.69'"
    ) from error


def named_intrinsic(define: Any, like: Any) -> Any:
    """Return an intrinsic that numba knows by the name and the parameters of a function."""
    context = inspect.Parameter("typing", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [context, *inspect.signature(like).parameters.values()]
    define.__signature__ = inspect.Signature(parameters)
    define.__name__ = like.__name__
    return intrinsic(define)


def written(kinds: Any) -> Callable[[Any], Any]:
    """Decorate code in LLVM's terms as a function that kernels call.

    ``kinds`` takes the types of the arguments, under their names, and returns the signature.
    """

    def decorate(lower: Any) -> Any:
        def define(typing: Any, *given: Any) -> Any:
            return kinds(*given), lower

        kinds.__name__ = lower.__name__
        return named_intrinsic(define, kinds)

    return decorate


# With NUMBA_BOUNDSCHECK=1 an index outside an array raises an IndexError, as numba's own indexing
# does; otherwise nothing is checked.
CHECKED = bool(config.BOUNDSCHECK)
WHOLE = ir.IntType(64)


def field(context: Any, builder: Any, kind: Any, array: Any, name: str) -> Any:
    """Return a field of an array, in one instruction where numba's own access writes twenty."""
    place = context.data_model_manager[kind].get_field_position(name)
    return builder.extract_value(array, place)


def check(context: Any, builder: Any, first: Any, count: Any, size: Any) -> None:
    """Raise an IndexError unless elements from ``first`` on, ``count`` of them, are in an array."""
    if CHECKED:
        inside = builder.sub(size, count)
        check_bounds(context, builder, first, builder.add(inside, WHOLE(1)))


def element(context: Any, builder: Any, kind: Any, array: Any, index: Any, count: int = 1) -> Any:
    """Return where an element of a flat array is, the first of ``count`` that are used."""
    if CHECKED:
        check(context, builder, index, WHOLE(count), field(context, builder, kind, array, "nitems"))
    return builder.gep(field(context, builder, kind, array, "data"), [index])
