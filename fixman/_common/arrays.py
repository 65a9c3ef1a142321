"""The one gate: what users pass becomes C-contiguous float64 arrays of known shape, or an error."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman.errors import Frame, FrameError

Array = NDArray[np.float64]
Lead = tuple[int, ...]

_FLOAT64 = np.dtype(np.float64)
TEMPERATURES = ("k", "kelvin", "degk", "degree_kelvin")
_TO_NUMBERS = ("value_in_unit", "to_value", "magnitude")  # in openmm; unyt, astropy; pint
_LARGEST = np.iinfo(np.int64).max


def real(value: Any, tail: tuple[int, ...], name: str) -> Array:
    """Coerce to a writeable C-contiguous float64 array of shape ``(..., *tail)``.

    Values are not looked at: kernels notice what is not finite, `require_finite` says where.
    """
    if (
        type(value) is np.ndarray
        and value.dtype is _FLOAT64
        and value.shape == tail
        and value.flags.carray
    ):
        return value
    array = taken(value, name)
    if array.dtype.kind not in "fiub" or (array.dtype.kind == "b" and not array.ndim):
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    if array.shape[array.ndim - len(tail) :] != tail or array.ndim < len(tail):
        expected = ", ".join(["...", *map(str, tail)])
        raise ValueError(f"{name} must have shape ({expected}), got {array.shape}")
    # Kernels are compiled for writeable arrays only, so a read-only one is copied.
    with np.errstate(over="ignore"):  # a long double beyond float64 becomes inf, and is refused
        return np.require(array, np.float64, ["C", "A", "W"])


def taken(value: Any, name: str, what: str = "an array") -> NDArray[Any]:
    """Make an array of any type; without units, masked values or words of NumPy's."""
    refuse_units(value, name)
    if np.ma.isMaskedArray(value) and np.ma.getmaskarray(value).any():
        raise TypeError(f"{name} has masked values: fill them, or leave them out")
    try:
        return np.asarray(value)
    except Exception as error:  # a foreign ``__array__`` may raise anything
        own = isinstance(value, (list, tuple)) and isinstance(error, ValueError)
        why = "rows of different lengths" if own else f"{type(error).__name__}: {error}"
        raise TypeError(f"{name} must be {what}, got {value!r:.80} ({why})") from error


def common_lead(*leads: Lead) -> Lead:
    """Broadcast batch axes against each other."""
    try:
        return np.broadcast_shapes(*leads)
    except ValueError:
        shapes = ", ".join(map(str, leads))
        raise ValueError(f"the leading (frame) axes do not broadcast: {shapes}") from None


def spread(array: Array, lead: Lead, tail: tuple[int, ...]) -> Array:
    """Repeat over missing batch axes; the result is contiguous."""
    if array.shape == (*lead, *tail):
        return array
    return np.require(np.broadcast_to(array, (*lead, *tail)), requirements=["C", "W"])


def listed(names: Sequence[Any], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(str, names[:most])) + more


def frame_index(frame: int, lead: Lead) -> Frame:
    """Index of a frame along the leading axes; None where there is only one configuration."""
    index = tuple(int(i) for i in np.unravel_index(frame, lead)) if lead else (None,)
    return index[0] if len(index) == 1 else index


def overflow(what: str, frame: int, lead: Lead) -> FrameError:
    """Return the error for results that are not finite though every argument is."""
    cure = ": choose units that bring values nearer to 1"
    return FrameError(f"the {what} overflowed", cure, frame=frame_index(frame, lead))


def require_finite(array: Array, tail: tuple[int, ...], name: str, what: str = "bead") -> None:
    """Refuse NaN and inf, naming the first culprit."""
    if np.isfinite(array).all():
        return
    where = np.argwhere(~np.isfinite(array))[0]
    lead = array.shape[: array.ndim - len(tail)]
    index = where[len(lead) :]
    place = f" at {what} {index[0]}" if index.size else ""  # a single number has no place
    frame = int(np.ravel_multi_index(tuple(where[: len(lead)]), lead)) if lead else 0
    raise FrameError(
        f"{name} is {array[tuple(where)]}{place}",
        ": every value must be finite",
        frame=frame_index(frame, lead),
        beads=index[:1] if what == "bead" else (),
        body=int(index[0]) if what == "body" and index.size else None,
    )


def series(value: Any, tail: tuple[int, ...], name: str, axes: int = 0) -> Array:
    """Return finite numbers (..., *tail) whose squares do not overflow, with so many axes before.

    No axis is empty; the first is that of frames.
    """
    array = real(value, tail, name)
    if not array.size or array.ndim < axes + len(tail):
        shape = ", ".join([*("frames",)[:axes], "...", *map(str, tail)])
        raise ValueError(f"{name} must have shape ({shape}), none of them 0, got {array.shape}")
    require_finite(array, tail or array.shape, name, "bead" if tail else "frame")
    largest = np.abs(array).max()
    if largest > 1e100:
        raise ValueError(f"{name} must be in a unit that keeps it within 1e±100, got {largest:.3g}")
    return array


def list_of(value: Any, name: str, what: str, kind: Any = object) -> list[Any]:
    """Return a list of things of one kind; a word, or an array without axes, is none."""
    try:
        found = None if isinstance(value, str) else list(value)
    except TypeError:
        found = None
    if found is None or not all(isinstance(one, kind) for one in found):
        raise TypeError(f"{name} must be a list of {what}, got {value!r:.80}")
    return found


def refuse_units(value: Any, name: str) -> None:
    """Refuse quantities of openmm, pint, unyt, astropy and the like: NumPy would drop the unit."""
    if type(value) is np.ndarray and value.dtype.kind != "O":
        return
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    if isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.size:
        value = value.flat[0]
    unit = getattr(value, "units", getattr(value, "unit", None))
    if unit is None or not any(hasattr(value, word) for word in _TO_NUMBERS):
        return
    text = "give numbers in one consistent set; with OpenMM nm, ps, dalton and kJ/mol"
    if name == "kT" and str(unit).lower() in TEMPERATURES:
        text += "; kT is an energy, k_B·T: fixman.io.openmm.kT(T)"
    raise TypeError(f"{name} carries a unit ({unit}), and fixman has no units: {text}")


def number(value: Any, name: str) -> float:
    """Return one finite number."""
    if type(value) is float and math.isfinite(value):
        return value
    array = taken(value, name, "one number")
    if array.ndim or array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must be one number, got {value!r:.80}")
    if not math.isfinite(array):
        raise ValueError(f"{name} must be finite, got {value!r:.80}")
    return float(array)


def positive(value: Any, name: str) -> float:
    """Return one positive number within 1e±100."""
    try:
        found = number(value, name)
    except ValueError:
        found = math.nan
    if not 1e-100 <= found <= 1e100:
        text = "must be positive, in a unit that keeps it within 1e±100"
        raise ValueError(f"{name} {text}, got {value!r:.80}")
    return found


def whole(value: Any, name: str, least: int = -_LARGEST, each: int = 0) -> int:
    """Return a whole number, of which each takes so many bytes; 1e6 is one."""
    refuse_units(value, name)
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} must be an integer, got {value!r:.80}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value!r:.80}")
    if value > _LARGEST:
        raise ValueError(f"{name} must be below 2⁶³, about 9.2e18")
    if each:
        require_memory(each * int(value), f"{name} = {value:.3g}")
    return int(value)


def positive_int(value: Any, name: str, each: int = 0) -> int:
    """Return a whole number of at least 1, of which each takes so many bytes."""
    return whole(value, name, 1, each)


def require_space(dim: Any, base: Any = "free") -> None:
    """Refuse what is no dimension of space, and what is no base of a chain."""
    if isinstance(dim, bool) or not isinstance(dim, (int, np.integer)) or dim not in (2, 3):
        raise ValueError(f"dim must be 2 or 3, got {dim!r:.80}")
    require_one_of(base, "base", ("free", "fixed"))


def require_memory(needed: int, what: str) -> None:
    """Refuse what this machine cannot hold before it tries to; ``needed`` in bytes."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return
    if needed > there:
        raise MemoryError(
            f"{what} would take about {needed / 1e9:.3g} GB of memory, and this machine has "
            f"{there / 1e9:.3g} GB"
        )


def flag(value: Any, name: str) -> bool:
    """Return True or False; numbers and strings such as "no" are neither."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r:.80}")
    return bool(value)


def require_one_of(value: Any, name: str, known: Iterable[str]) -> None:
    """Refuse what is none of these words."""
    known = tuple(known)
    if not isinstance(value, str) or value not in known:
        *first, last = map(repr, known)
        raise ValueError(f"{name} must be {', '.join(first)} or {last}, got {value!r:.80}")


def path(value: Any, name: str) -> Path:
    """Return the path of a file or folder; an empty one would be the current folder."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a path, a str or a pathlib.Path, got {value!r:.80}")
    if not text or "\0" in text:
        raise ValueError(f"{name} must be the name of a file or folder, got {text!r:.80}")
    return Path(text)


def generator(rng: Any) -> np.random.Generator:
    """Return a generator for None, a seed or a generator."""
    if isinstance(rng, np.random.Generator):
        return rng
    if rng is not None and (isinstance(rng, bool) or not isinstance(rng, (int, np.integer))):
        raise TypeError(f"rng must be an integer or a numpy.random.Generator, got {rng!r:.80}")
    if rng is not None and rng < 0:
        raise ValueError(f"rng must be non-negative, got {rng}: a seed is an integer from 0 on")
    return np.random.default_rng(rng)


def seeds(rng: np.random.Generator, count: int) -> list[np.random.SeedSequence]:
    parent = rng.bit_generator.seed_seq
    if not isinstance(parent, np.random.SeedSequence):
        raise TypeError("rng must have been seeded by a SeedSequence, from which streams spawn")
    return parent.spawn(count)


def one_or_each(value: Any, n: int, name: str) -> Array:
    """Return n numbers; a single one is repeated."""
    array = real(value, (), name)
    if array.shape not in ((), (n,)):
        raise ValueError(f"{name} must be one number or have shape ({n},), got {array.shape}")
    return np.array(np.broadcast_to(array, n))


def masses(value: Any, n: int) -> Array:
    """Return n masses within 1e±100."""
    array = one_or_each(value, n, "masses")
    good = (array >= 1e-100) & (array <= 1e100)
    if not good.all():
        k = int(np.argmin(good))
        raise ValueError(
            f"the mass of bead {k} is {array[k]}: masses must be positive and finite, in a unit "
            "that keeps them within 1e±100 (a point that cannot move is base='fixed', not a mass)"
        )
    return array
