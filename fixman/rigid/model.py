"""`SerialChain`: rigid bodies in a row, each coupled to the one before by a joint.

Frames.  Joint i has a frame fixed in body i − 1 (or the base), given by ``rotations[i]`` and
``translations[i]``; revolute joints turn about and prismatic joints slide along its z axis.  Body i
carries the moved joint frame, and its mass centre and inertia are given in it.

Coordinates and rates follow from the list `fixman.kernels.rigid.joints.JOINTS`: one of a revolute,
prismatic or helical joint; x, y, angle and three rates of a planar joint; a unit quaternion (x, y,
z, w) and three rates of a spherical joint; position, quaternion and six rates of a free base.
Several rates are in the body's axes, linear before angular, as forces come before moments.

Joints.  Each rate may have a rotor's inertia, a damper and a spring (`fixman.rigid.joints`):

    ℳ θ̈ + C θ̇ + damping θ̇ + ∂E/∂θ = τ + loads,     E = ½ Δᵀ diag(stiffness) Δ

with the armature in ℳ and Δ = `kinematics.difference` (rest, q).
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache, wraps
from importlib import import_module
from itertools import pairwise
from os import PathLike
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array, Lead
from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels.rigid import joints as types
from fixman.kernels.rigid.links import transforms
from fixman.rigid._constructors import Constructors, named

__all__ = ["SerialChain"]

# Bytes of work arrays.  The first touch of new memory costs more than the work in it, so threads
# keep arrays between these sizes for their next call.
SMALL, LARGEST = 2**17, 2**26
_kept = threading.local()

# How far the square of a quaternion's norm may be from 1: by rounding less than in the kernels.
UNIT = 2e-6 - 1e-14

ROUNDED = 0.01  # how far moments of three digits may be from those of a body, by the largest
NOISE = 1e-12  # moments that are less are rounding, relative to m ℓ²

Index = NDArray[np.int64]


class _Optional(Protocol):
    """Type of a field that may be left out, and is an array once it is made."""

    def __get__(self, instance: object, owner: type | None = None) -> Array: ...
    def __set__(self, instance: object, value: ArrayLike | None) -> None: ...


class Jointed:
    """A row of joints, and what follows from their kinds: a `SerialChain`, or a linkage of some."""

    _kinds: Index

    @cached_property
    def kinds(self) -> Index:
        """Places of the joints in `fixman.kernels.rigid.joints.JOINTS`, (n,)."""
        return _locked(self._kinds)

    @cached_property
    def position_offsets(self) -> Index:
        """Joint i's coordinates are q[offsets[i]:offsets[i + 1]], (n + 1,)."""
        return _locked(np.concatenate([[0], np.cumsum(types.POSITIONS[self._kinds])]))

    @cached_property
    def rate_offsets(self) -> Index:
        """Joint i's rates are qd[offsets[i]:offsets[i + 1]], (n + 1,)."""
        return _locked(np.concatenate([[0], np.cumsum(types.RATES[self._kinds])]))

    @property
    def n(self) -> int:
        """Number of bodies."""
        return len(self._kinds)

    @cached_property
    def nq(self) -> int:
        """Number of coordinates."""
        return int(self.position_offsets[-1])

    @cached_property
    def nv(self) -> int:
        """Number of rates, the degrees of freedom of chains that no closure holds."""
        return int(self.rate_offsets[-1])

    @property
    def _arms(self) -> tuple[Any, ...]:
        return getattr(self, "chains", (self,))

    @cached_property
    def _parts(self) -> dict[str, list[slice]]:
        """Where bodies, coordinates and rates of each chain are."""
        sizes = {key: [getattr(arm, key) for arm in self._arms] for key in ("n", "nq", "nv")}
        edges = {key: pairwise([0, *np.cumsum(counts).tolist()]) for key, counts in sizes.items()}
        return {key: [slice(*pair) for pair in pairs] for key, pairs in edges.items()}

    def split(self, values: Array, size: Literal["n", "nq", "nv"]) -> list[Array]:
        """Return views of each chain's part of the last axis, which has n, nq or nv entries."""
        arrays.require_one_of(size, "size", self._parts)
        return [values[..., part] for part in self._parts[size]]

    @cached_property
    def _turning(self) -> NDArray[np.bool_]:  # which rates are those of turns
        rates = np.arange(6) < types.RATES[self._kinds, None]
        return np.asarray((types.DIRECTION[self._kinds] < 3)[rates])

    @cached_property
    def _passive(self) -> bool:
        return any(arm.damping.any() or arm.stiffness.any() for arm in self._arms)

    @cached_property
    def _tables(self) -> dict[str, Any]:
        return {}


System = TypeVar("System", bound=Jointed)
Made = TypeVar("Made")


def kept(make: Callable[[System], Made]) -> Callable[[System], Made]:
    """Have a chain or linkage keep what a function makes of it, under the function's name."""

    @wraps(make)
    def found(system: System) -> Made:
        if make.__name__ not in system._tables:
            system._tables[make.__name__] = make(system)
        return system._tables[make.__name__]  # type: ignore[no-any-return]

    return found


@dataclass(frozen=True, eq=False, repr=False)
class SerialChain(Constructors, Jointed):
    """A serial chain of n rigid bodies, base first, in any consistent units.

    Immutable, hashable and comparable by content.

    Attributes
    ----------
    joints : tuple of str
        "revolute", "prismatic", "spherical", "helical", "planar"; "free", a floating base, only for
        the first.
    rotations : ndarray (n, 3, 3)
        Axes of each joint frame, as columns, in the body before it.
    translations : ndarray (n, 3)
    masses : ndarray (n,)
        Not negative.
    centres : ndarray (n, 3)
        Mass centres in the body's frame.
    inertias : ndarray (n, 3, 3)
        About the mass centre, in the axes of the body's frame.  No principal moment is negative or
        larger than the other two together, but for rounding: a hundredth of the largest, or 1e-12
        m ℓ², ℓ from the joint to the mass centre or the next joint.  A moment that is negative by
        less becomes zero.
    armature, damping, stiffness : number or (nv,), stored as ndarray (nv,)
        For each rate, not negative, 0 if not given: inertia of rotors (times the squared gear
        ratio), force against a unit rate, springs towards ``rest`` (none for a free base).
    rest : (nq,)
        Coordinates where springs are relaxed; 0 and unit quaternions if not given.
    pitch : number or (n,), stored as ndarray (n,)
        Advance along the axis for each radian of helical joints; 0 of all others.
    """

    joints: tuple[types.Name, ...]
    rotations: Array
    translations: Array
    masses: Array
    centres: Array
    inertias: Array
    armature: _Optional = None  # type: ignore[assignment]
    damping: _Optional = None  # type: ignore[assignment]
    stiffness: _Optional = None  # type: ignore[assignment]
    rest: _Optional = None  # type: ignore[assignment]
    pitch: _Optional = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        joints = named(self.joints)
        n = len(joints)
        if n < 1:
            raise ValueError("a serial chain needs at least one joint, got none")
        object.__setattr__(self, "joints", joints)
        kinds = np.array([types.NAMES.index(joint) for joint in joints], dtype=np.int64)
        object.__setattr__(self, "_kinds", kinds)  # writeable, as the tables below
        for i in range(1, n):
            if types.JOINTS[kinds[i]].first:
                raise ValueError(f"joint {i} is {joints[i]}: only the first one can be")
        R, inertias = (self._coerced(name, (n, 3, 3), "body") for name in ("rotations", "inertias"))
        for name, axes in (("translations", (3,)), ("masses", ()), ("centres", (3,))):
            self._coerced(name, (n, *axes), "body")
        negative = "the mass of body {}: it must not be negative".format
        _require(self.masses >= 0, negative, self.masses)
        with np.errstate(over="ignore", invalid="ignore"):
            defect = np.abs(R.swapaxes(1, 2) @ R - np.eye(3)).max((1, 2))
            proper = (defect < 1e-6) & (np.linalg.det(R) > 0)  # of single precision as well
        _require(proper, "the rotation of joint {} is not a proper rotation matrix".format, R)
        # Newton steps to the nearest rotation, since transposes serve as inverses everywhere.
        rough = defect > 1e-14
        for _ in range(2):
            R[rough] = R[rough] @ (3 * np.eye(3) - R[rough].swapaxes(1, 2) @ R[rough]) / 2 + 0.0
        bodies = self.masses, self.centres, self.translations
        inertias[:] = checked_inertias(inertias, bodies, "body {}".format)
        for name in ("armature", "damping", "stiffness"):
            array = self._coerced(name, (self.nv,), "rate", np.zeros(self.nv))
            _require(array >= 0, f"the {name} of rate {{}} must not be negative".format, array)
        mixed = np.repeat((types.SLIDES[kinds] > 0) & (types.TURNS[kinds] > 0), types.RATES[kinds])
        sprung = "the stiffness of rate {} must be 0: its joint turns and slides"
        if joints[0] == "free":
            sprung += ", as the base is free: give an array with zeros for its six rates"
        _require(~mixed | (self.stiffness == 0), sprung.format, self.stiffness)
        neutral = np.zeros(self.nq)
        neutral[self.position_offsets[1:][types.TURNS[kinds] == 3] - 1] = 1.0
        self._coerced("rest", (self.nq,), "coordinate", neutral)
        refuse_coordinates(self, self.rest[None], (), "rest")
        pitched, given = types.PITCHED[kinds], self.pitch
        if given is None and pitched.any():
            i = int(np.argmax(pitched))
            raise ValueError(f"joint {i}, which is {joints[i]}, needs a pitch")
        pitch = self._coerced("pitch", (n,), "joint", np.zeros(n))
        if np.ndim(given) == 0 and pitched.any():
            pitch *= pitched  # one number is that of all joints that have one
        _require(pitched | (pitch == 0), "joint {} has no pitch, which must be 0".format, pitch)
        for array in self._arrays:
            array.flags.writeable = False

    def _coerced(
        self, name: str, shape: tuple[int, ...], what: str, default: Array | None = None
    ) -> Array:
        """Coerce a field; one number will do where there is a default."""
        value = getattr(self, name)
        # −0 becomes 0, so that equal chains have equal bytes.
        array = arrays.real(default if value is None else value, (), name) + 0.0
        if array.ndim == 0 and default is not None:
            array = np.full(shape, array)
        if array.shape != shape:
            known = "have" if default is None else "be a number or have"
            raise ValueError(f"{name} must {known} shape {shape}, got {array.shape}")
        arrays.require_finite(array, shape, name, what)
        object.__setattr__(self, name, array)
        return array

    @staticmethod
    def from_urdf(
        path: str | PathLike[str],
        tip: str | None = None,
        *,
        free_base: bool = False,
        strict: bool = True,
    ) -> SerialChain:
        """Read the chain from a URDF file's root to the link ``tip``: `urdf.read` without names.

        Arguments and errors are those of `urdf.read`.
        """
        read = import_module("fixman.rigid.urdf").read
        return read(path, tip, free_base=free_base, strict=strict).chain  # type: ignore[no-any-return]

    # --- tables of the algorithms -----------------------------------------------------------
    # Writeable, because kernels would be compiled once more for arrays that are not.

    @cached_property
    def _table(self) -> Array:
        """Rotation, translation, mass, centre, inertia, armature (6) and pitch, (n, 32)."""
        n = self.n
        rotors = np.zeros((n, 6))
        rotors[np.arange(6) < types.RATES[self._kinds, None]] = self.armature
        parts = (self.rotations, self.translations, self.masses, self.centres, self.inertias)
        return np.concatenate([p.reshape(n, -1) for p in (*parts, rotors, self.pitch)], axis=1)

    @cached_property
    def _springs(self) -> tuple[Array, Array, Array]:
        return self.damping.copy(), self.stiffness.copy(), self.rest.copy()

    @property
    def _arrays(self) -> tuple[Array, ...]:
        return tuple(getattr(self, field.name) for field in fields(self)[1:])

    @cached_property
    def _content(self) -> tuple[Any, ...]:
        return self.joints, *(array.tobytes() for array in self._arrays)

    def __eq__(self, other: object) -> bool:
        return self._content == other._content if isinstance(other, SerialChain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._content)

    def __reduce__(self) -> tuple[Any, ...]:
        return SerialChain, (self.joints, *self._arrays)

    def __repr__(self) -> str:
        """``<SerialChain: 6 bodies, 6 revolute; 6 coordinates, mass 2, with armature>``."""
        return f"<SerialChain: {contents(self)}>"


def contents(system: Jointed) -> str:
    """Return the bodies, joints, coordinates and mass in words."""
    n, nq, nv, arms = system.n, system.nq, system.nv, system._arms
    counts = Counter(joint for arm in arms for joint in arm.joints)
    words = f"{n} {'body' if n == 1 else 'bodies'}, "
    words += ", ".join(f"{m} {joint}" for joint, m in counts.items())
    words += f"; {nq} coordinate{'s' * (nq > 1)}" + (f", {nv} rates" if nv != nq else "")
    words += f", mass {sum(arm.masses.sum() for arm in arms):g}"
    fields = ("armature", "damping", "stiffness")
    given = [name for name in fields if any(getattr(arm, name).any() for arm in arms)]
    return words + (f", with {' and '.join(given)}" if given else "")


def checked_inertias(
    inertias: Array,
    bodies: tuple[Array, Array, Array],
    name: Callable[[int], str],
    refuse: Callable[[str, str], None] | None = None,
) -> Array:
    """Return the inertias (n, 3, 3) of bodies, symmetric and not negative, or name the culprit.

    I = tr(S) 1 − S for second moments S ≥ 0.  ``bodies`` are masses, centres and translations of
    joints, for the scale m ℓ² of rounding.  Where ``refuse`` returns, the nearest S is taken.
    """
    masses, centres, translations = bodies
    ends = np.vstack([translations[1:], np.zeros((1, 3))])
    with np.errstate(over="ignore", under="ignore"):
        ℓ2 = np.maximum((centres**2).sum(1), (ends**2).sum(1))
        noise = np.minimum(NOISE / ROUNDED * masses * ℓ2, np.finfo(float).max)
    scale = np.maximum(np.abs(inertias).max((1, 2), initial=np.finfo(float).tiny), noise)
    relative = inertias / scale[:, None, None]
    skew = np.abs(relative - relative.swapaxes(1, 2)).max((1, 2))
    _require(skew <= 1e-9, lambda i: f"the inertia of {name(i)} is not symmetric", inertias)
    moments, axes = np.linalg.eigh(relative)
    least, excess = moments[:, 0], moments[:, 2] - moments[:, 0] - moments[:, 1]
    wrong = (least < -ROUNDED) | (excess > ROUNDED)
    for i in np.flatnonzero(wrong).tolist():
        a, b, c = (f"{moment:.6g}" for moment in moments[i] * scale[i])
        why = "none can be negative"
        if least[i] >= -ROUNDED:
            why = "any two must add up to the third or more, as those of all masses do"
        said = f"has the principal moments {a}, {b} and {c}: {why}"
        if refuse is None:
            raise ValueError(f"{name(i)} {said}")
        refuse(said, name(i))
    moments = np.maximum(moments, 0.0)
    S = np.maximum(moments[wrong].sum(1, keepdims=True) / 2 - moments[wrong], 0.0)
    moments[wrong] = S.sum(1, keepdims=True) - S
    out, rough = inertias.copy(), wrong | (least < -1e-14)  # exact ones stay as given
    V, kept = axes[rough], moments[rough] * scale[rough, None]
    out[rough] = (V * kept[:, None]) @ V.swapaxes(1, 2)
    return out / 2 + out.swapaxes(1, 2) / 2


def _require(good: NDArray[np.bool_], text: Callable[[int], str], values: Array) -> None:
    if not good.all():
        i = int(np.argmin(good))
        raise ValueError(f"{text(i)}; got {values[i].tolist()}")


def _locked(array: Index) -> Index:
    array = array.copy()
    array.flags.writeable = False
    return array


# --- the gate of every algorithm ----------------------------------------------------------------


def workspace(size: int) -> Array:
    """Memory of so many numbers for a kernel until it returns, aligned to a cache line."""
    if not SMALL <= 8 * size <= LARGEST:
        return np.empty(size)
    kept: Array | None = getattr(_kept, "room", None)
    if kept is None or kept.size < size:
        room = np.empty(size + 7)
        first = -room.ctypes.data // 8 % 8
        kept = _kept.room = room[first : first + size]
    return kept


def require_arm(arm: SerialChain) -> None:
    if not isinstance(arm, SerialChain):
        raise TypeError(f"arm must be a fixman.rigid.SerialChain, got {other(arm)}")


def other(thing: Any) -> str:
    """Name the type of a thing given for a `SerialChain`."""
    hint = ": use its .chain" if isinstance(getattr(thing, "chain", None), SerialChain) else ""
    return type(thing).__name__ + hint


class Given(NamedTuple):
    """Arguments of an algorithm, coerced, frames first; those that it does not take are empty."""

    arm: Any  # `SerialChain`, or in closed chains their linkage
    q: Array  # (frames, nq)
    qd: Array  # (frames, nv)
    last: Array  # (frames, nv): accelerations or forces, as ``name`` says
    g: Array  # (3,)
    W: Array  # (frames · n, 6)
    lead: Lead  # the batch axes
    name: str

    def batch(self, out: Array) -> Array:
        """Results (frames, …) along the batch axes."""
        return out.reshape(self.lead + out.shape[1:])

    def require_numbers(self) -> None:
        """Raise for values that are not finite."""
        arm = self.arm
        arrays.require_finite(self.batch(self.q), (arm.nq,), "q", "coordinate")
        for rates, name in ((self.qd, "qd"), (self.last, self.name)):
            if rates.size:
                arrays.require_finite(self.batch(rates), (arm.nv,), name, "rate")
        if self.W.size:
            W = self.W.reshape(*self.lead, arm.n, 6)
            arrays.require_finite(W, (arm.n, 6), "wrenches", "body")

    def require_finite(self) -> None:
        """Raise for values that are not finite and quaternions that are not unit ones.

        Kernels notice, so values are looked at only then.
        """
        self.require_numbers()
        refuse_coordinates(self.arm, self.q, self.lead)

    def require_answer(self, bad: int, what: str) -> None:
        """Raise for a kernel's code, frame · (n + 1) + body without an answer; −1 means none."""
        if bad >= 0:
            self.require_finite()
            frame, body = divmod(bad, self.arm.n + 1)
            raise failure(self.arm, what, frame, body, self.lead)

    def answer(self, kernel: Any, what: str, size: tuple[int, ...], *more: Any) -> Array:
        """Results (frames, *size) of a kernel of the chain, the coordinates and ``more``."""
        out = np.zeros((self.q.shape[0], *size))
        self.require_answer(kernel(self.arm._kinds, self.arm._table, self.q, *more, out), what)
        return out

    def finite(self, out: Array, what: str) -> Array:
        """Results along the batch axes, none of which is infinite or NaN."""
        if not np.isfinite(out).all():
            self.require_finite()
            good = np.isfinite(out).all(axis=tuple(range(1, out.ndim)))
            raise arrays.overflow(what, int(np.argmin(good)), self.lead)
        return self.batch(out)


AT_REST, _NOTHING = np.zeros(3), np.empty((0, 6))


def gate(arm: SerialChain, *given: Any, name: str = "tau") -> Given:
    """Coerce the arguments of an algorithm for chains, as `coerced`."""
    require_arm(arm)
    return coerced(arm, *given, name=name)


def coerced(
    system: Jointed,
    q: ArrayLike,
    qd: ArrayLike = AT_REST,
    last: ArrayLike = AT_REST,
    gravity: ArrayLike = AT_REST,
    wrenches: ArrayLike | None = None,
    *,
    name: str = "tau",
) -> Given:
    """Coerce the arguments that all algorithms share; those that are left out are zero."""
    nq, nv, n = system.nq, system.nv, system.n
    q = arrays.real(q, (nq,), "q")
    qd = arrays.real(np.zeros(nv) if qd is AT_REST else qd, (nv,), "qd")
    last = arrays.real(np.zeros(nv) if last is AT_REST else last, (nv,), name)
    g = falling(gravity)
    W = _NOTHING if wrenches is None else arrays.real(wrenches, (n, 6), "wrenches")
    lead: Lead = ()
    if q.ndim > 1 or qd.ndim > 1 or last.ndim > 1 or W.ndim > 2:
        lead = arrays.common_lead(q.shape[:-1], qd.shape[:-1], last.shape[:-1], W.shape[:-2])
        q, qd = arrays.spread(q, lead, (nq,)), arrays.spread(qd, lead, (nv,))
        last = arrays.spread(last, lead, (nv,))
        if wrenches is not None:
            W = arrays.spread(W, lead, (n, 6)).reshape(-1, 6)
    q, qd, last = q.reshape(-1, nq), qd.reshape(-1, nv), last.reshape(-1, nv)
    return Given(system, q, qd, last, g, W, lead, name)


def posture(arm: SerialChain, q: ArrayLike) -> Given:
    """Coerce coordinates alone, without rates."""
    require_arm(arm)
    q = arrays.real(q, (arm.nq,), "q")
    rows = q.reshape(-1, arm.nq)
    return Given(arm, rows, _NOTHING, _NOTHING, AT_REST, _NOTHING, q.shape[:-1], "")


def placed(arm: SerialChain, q: ArrayLike) -> tuple[Array, Array]:
    """Axes (n, 3, 3) and origins (n, 3) of bodies in those before, in one configuration (nq,)."""
    given, X = posture(arm, q), np.empty((arm.n, 12))
    if given.lead:
        raise ValueError(f"q must be one configuration here, ({arm.nq},), got {np.shape(q)}")
    given.require_finite()
    transforms(given.q[0], arm._kinds, arm._table, X)
    return X[:, :9].reshape(-1, 3, 3), X[:, 9:]


def vector(value: ArrayLike, name: str) -> Array:
    array = arrays.real(value, (3,), name)
    if array.ndim != 1:
        raise ValueError(f"{name} must have shape (3,), got {array.shape}")
    if not math.isfinite(sum(array.tolist())):  # quicker than what follows
        arrays.require_finite(array, (3,), name, "component")
    return array


_written = lru_cache(vector)  # coerces the tuples of a loop's calls once


def falling(gravity: ArrayLike) -> Array:
    try:
        if isinstance(gravity, tuple):
            return _written(gravity, "gravity")
    except TypeError:  # no numbers, or a tuple of what has no hash
        pass
    return vector(gravity, "gravity")


def paced(dt: float, steps: int, every: int) -> tuple[float, int, int]:
    """Length of a step, number of steps, and steps from frame to frame."""
    dt, steps = arrays.positive(dt, "dt"), arrays.positive_int(steps, "steps")
    every = arrays.positive_int(every, "every")
    if steps % every:
        raise ValueError(f"every must divide steps, got every={every} and steps={steps}")
    return dt, steps, every


def forces_of(value: ArrayLike, name: str, lead: Lead, nv: int) -> Array:
    """Coerce what a callable returns, of all replicas or the same for each; (replicas, nv)."""
    forces = arrays.real(value, (nv,), name)
    if forces.shape not in ((*lead, nv), (nv,)):
        raise ValueError(f"{name} must have shape {(*lead, nv)}, got {forces.shape}")
    if not np.isfinite(forces).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return arrays.spread(forces, lead, (nv,)).reshape(-1, nv)


def refuse_coordinates(arm: SerialChain, q: Array, lead: Lead, name: str = "q") -> None:
    """Raise for coordinates (frames, nq) that are not finite, or no unit quaternions."""
    arrays.require_finite(q.reshape(*lead, arm.nq), (arm.nq,), name, "coordinate")
    for i in np.flatnonzero(types.TURNS[arm.kinds] == 3):
        end = arm.position_offsets[i + 1]
        norm = np.hypot.reduce(q[:, end - 4 : end], axis=1)
        with np.errstate(over="ignore"):
            defect = np.abs(norm**2 - 1)
        if (defect > UNIT).any():
            frame = int(np.argmax(defect))
            raise FrameError(
                f"the quaternion of joint {i}",
                f" has norm {norm[frame]:.15g}: it must be a unit quaternion, scalar last",
                frame=arrays.frame_index(frame, lead),
                body=int(i),
            )


def failure(arm: SerialChain, what: str, frame: int, body: int, lead: Lead) -> FrameError:
    """Return the error for a joint that moves no inertia, or for overflow without such a body."""
    if not 0 <= body < arm.n:
        return arrays.overflow(what, frame, lead)
    return SingularConstraintError(
        f"the inertia that joint {body} moves",
        f" is zero or lost to rounding: body {body} (counted from 0) and those after it have no "
        "mass, no inertia about the joint's axis, or much less than others",
        frame=arrays.frame_index(frame, lead),
        body=int(body),
    )
