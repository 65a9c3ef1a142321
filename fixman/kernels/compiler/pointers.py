"""Addresses of elements, for code that is written in LLVM's terms.

With ``NUMBA_BOUNDSCHECK=1`` an index before the first element or behind the last raises an
IndexError, as numba's own indexing does; otherwise nothing is checked.
"""

from __future__ import annotations

from typing import Any

from fixman.kernels.compiler.internals import check_bounds, config, ir

CHECKED = bool(config.BOUNDSCHECK)
WHOLE = ir.IntType(64)


def check(context: Any, builder: Any, first: Any, count: Any, size: Any) -> None:
    """Raise an IndexError unless elements from ``first`` on, ``count`` of them, are in an array."""
    if CHECKED:
        inside = builder.sub(size, count)
        check_bounds(context, builder, first, builder.add(inside, WHOLE(1)))


def element(context: Any, builder: Any, kind: Any, array: Any, index: Any, count: int = 1) -> Any:
    """Return where an element of a flat array is, the first of ``count`` that are used."""
    whole = context.make_array(kind)(context, builder, array)
    if CHECKED:
        check(context, builder, index, WHOLE(count), whole.nitems)
    return builder.gep(whole.data, [index])
