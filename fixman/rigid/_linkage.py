"""Serial chains and what closes them: the nouns of `fixman.rigid.closed`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.kernels.rigid.joints import JOINTS, RATES
from fixman.rigid import model
from fixman.rigid.model import Jointed, SerialChain

DIRECTIONS = ("x", "y", "z", "rx", "ry", "rz")
KINDS = {
    "weld": DIRECTIONS,
    "ball": ("x", "y", "z"),
    "hinge": ("x", "y", "z", "rx", "ry"),
    "slide": ("x", "y", "rx", "ry", "rz"),
}
Direction = Literal["x", "y", "z", "rx", "ry", "rz"]
Kind = Literal["weld", "ball", "hinge", "slide"] | tuple[Direction, ...]
IMMOVABLE = 1e15  # times its inertia, of what is locked
ROUNDED = 2e-6  # largest error of numbers of single precision


@dataclass(frozen=True)
class End:
    """One end of a closure: a point and axes fixed in a body.

    Attributes
    ----------
    body : int or None
        From 0, next to the base; None is the base.
    point : (3,)
        In the frame of the body.
    axes : (3, 3)
        Rotation matrix; columns are the closure's axes in the frame of the body.
    chain : int
        Number of the chain in the linkage.
    """

    body: int | None
    point: ArrayLike = (0.0, 0.0, 0.0)
    axes: ArrayLike = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    chain: int = 0

    def __post_init__(self) -> None:
        arrays.whole(self.chain, "chain", 0)
        if self.body is not None:
            arrays.whole(self.body, "body, unless it is None for the base,", 0)
        point = model.vector(self.point, "point")
        axes = arrays.real(self.axes, (3, 3), "axes")
        arrays.require_finite(axes, (3, 3), "axes", "row")
        defect = np.inf if axes.ndim > 2 else np.abs(axes.T @ axes - np.eye(3)).max()
        if defect >= ROUNDED or np.linalg.det(axes) <= 0:
            raise ValueError(f"axes must be a rotation matrix (3, 3), got {axes.tolist()}")
        for _ in range(2 if defect > 1e-15 else 0):  # Newton steps to the nearest rotation
            axes = axes @ (3 * np.eye(3) - axes.T @ axes) / 2
        object.__setattr__(self, "point", tuple(point.tolist()))
        object.__setattr__(self, "axes", tuple(map(tuple, axes.tolist())))


@dataclass(frozen=True)
class Closure:
    """Directions in which two bodies, or a body and the base, move together.

    Attributes
    ----------
    a, b : End, or the number of a body of the first chain, or None for the base
    kind : "weld", "ball", "hinge", "slide", or a tuple of directions
        A hinge turns about z, a slide moves along z.  A tuple lists held directions out of
        ``("x", "y", "z", "rx", "ry", "rz")``: displacements of b's point and turns, in a's axes.  A
        single turn is for the plane, where all joints of both bodies turn about its axis or slide:
        a pin is ``("x", "y")`` and a weld ``("x", "y", "rz")``.
    """

    a: End | int | None
    b: End | int | None
    kind: Kind = "weld"

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            end = getattr(self, name)
            object.__setattr__(self, name, end if isinstance(end, End) else End(end))
        ends: Any = (self.a, self.b)
        if all(end.body is None for end in ends):
            raise ValueError("both ends of the closure are the base: one must be a body")
        if ends[0].body == ends[1].body and ends[0].chain == ends[1].chain:
            raise ValueError(f"both ends of the closure are body {ends[0].body}: it is one body")
        if isinstance(self.kind, str) and self.kind in KINDS:
            return
        given: Any = self.kind
        if not isinstance(given, (tuple, list)):
            given = arrays.taken(given, "kind").ravel().tolist()
        words = [one for one in given if isinstance(one, str)]
        held = tuple(name for name in DIRECTIONS if name in words)
        if not held or len(held) != len(given):
            known = f"one of {tuple(KINDS)} or a tuple of some of {DIRECTIONS}, each once"
            raise ValueError(f"kind must be {known}, got {self.kind!r:.80}")
        object.__setattr__(self, "kind", held)

    @property
    def directions(self) -> tuple[str, ...]:
        """Names of the directions held, one a row."""
        return KINDS[self.kind] if isinstance(self.kind, str) else self.kind


@dataclass(frozen=True, repr=False)
class Linkage(Jointed):
    """Serial chains on one base and their closures, one or a tuple of each.

    A body that arms hold is a chain of one free joint.  Coordinates, rates, forces and bodies are
    those of one chain after the other.
    """

    chains: tuple[SerialChain, ...]
    closures: tuple[Closure, ...]

    def __post_init__(self) -> None:
        for name, kind in (("chains", SerialChain), ("closures", Closure)):
            given: Any = getattr(self, name)
            single = isinstance(given, kind) or not isinstance(given, Iterable)
            items = (given,) if single else tuple(given)
            if not items or not all(isinstance(item, kind) for item in items):
                found = ", ".join(map(model.other, items)) or "none"
                raise TypeError(f"{name} must be of {kind.__name__}, got {found}")
            object.__setattr__(self, name, items)
        object.__setattr__(self, "_kinds", np.concatenate([arm._kinds for arm in self.chains]))
        for k, end in enumerate(self._ends):
            if end.body is None:
                continue
            if end.chain >= (count := len(self.chains)):
                raise ValueError(f"closure {k // 2} is on chain {end.chain} of {count}")
            if end.body >= (n := self.chains[end.chain].n):
                raise ValueError(f"closure {k // 2} is on body {end.body} of {n}, counted from 0")
        for k, closure in enumerate(self.closures):
            self._require_plane(k, closure)

    def _require_plane(self, k: int, closure: Closure) -> None:
        turns = [name for name in closure.directions if name[0] == "r"]
        if len(turns) != 1:
            return
        axes = []  # of the closure, and of all joints that turn
        for end in self._ends[2 * k : 2 * k + 2]:
            R, arm = np.eye(3), self.chains[end.chain]
            for i in range(0 if end.body is None else end.body + 1):
                R = R @ arm.rotations[i]
                axes += [R[:, "xyz".index(x)] for x in JOINTS[arm._kinds[i]].turns]
            axes.insert(0, R @ np.array(end.axes)[:, "xyz".index(turns[0][1])])
        off = [np.abs(np.cross(axes[0], axis)).max() for axis in axes]
        if max(off) > ROUNDED or np.dot(axes[0], axes[1]) < 0.0:
            said = f"closure {k} of kind {closure.kind} holds one turn"
            raise ValueError(f"{said}: all joints of both bodies must turn about its axis or slide")

    def __repr__(self) -> str:
        """Chains and closures, in two lines."""
        chains, closures = len(self.chains), len(self.closures)
        text = f"{chains} chain{'s' * (chains > 1)}, {closures} closure{'s' * (closures > 1)}"
        held = f"{self.held} of {self.nv} rates held"
        return f"<Linkage: {text}, {held}\n {model.contents(self)}>"

    @property
    def held(self) -> int:
        """Number of directions held: the rates that closures take away from ``nv``."""
        return len(self._rows)

    def _rates_of(self, joints: ArrayLike) -> NDArray[np.bool_]:
        given = np.atleast_1d(arrays.taken(joints, "fixed"))
        if given.dtype == bool and given.shape == (self.n,):
            given = np.flatnonzero(given)
        if given.size and (given.dtype.kind not in "iu" or given.ndim > 1):
            raise TypeError(f"fixed must be numbers of joints or a mask (n,), got {joints!r:.80}")
        wrong = given[(given < 0) | (given >= self.n)]
        if wrong.size:
            raise ValueError(f"fixed names joint {wrong[0]} of {self.n}, counted from 0")
        return np.repeat(np.isin(np.arange(self.n), given), RATES[self._kinds])

    def _locked(self, rates: NDArray[np.bool_]) -> Linkage:
        if not rates.any():
            return self
        mass = sum(arm.masses.sum() for arm in self.chains)
        about = mass * (self._size + self._lengths.max()) ** 2
        about += sum(np.trace(arm.inertias.sum(axis=0)) for arm in self.chains)
        added = np.where(rates, IMMOVABLE * np.where(self._turning, about, mass), 0.0)
        parts = zip(self.chains, self.split(added, "nv"), strict=True)
        chains = tuple(replace(arm, armature=arm.armature + more) for arm, more in parts)
        return replace(self, chains=chains)

    @cached_property
    def _ends(self) -> list[Any]:
        """Ends a, b of each closure in turn."""
        return [end for closure in self.closures for end in (closure.a, closure.b)]

    @cached_property
    def _on(self) -> list[list[int]]:
        """Numbers of the ends on each chain, from the base outwards."""
        ends = sorted((e.body, k, e.chain) for k, e in enumerate(self._ends) if e.body is not None)
        return [[k for _, k, chain in ends if chain == c] for c in range(len(self.chains))]

    @cached_property
    def _rows(self) -> list[tuple[int, str]]:
        return [(k, name) for k, closure in enumerate(self.closures) for name in closure.directions]

    @cached_property
    def _held(self) -> tuple[Any, Any, Array]:
        """Closure of each row, whether it holds a turn, and its direction in the axes of a."""
        closures, names = zip(*self._rows, strict=True)
        angular = np.array([name[0] == "r" for name in names])
        return np.array(closures), angular, np.eye(3)[["xyz".index(name[-1]) for name in names]]

    @cached_property
    def _size(self) -> float:
        """Length that displacements are compared with: of links and ends, or 1."""
        moving = [end.point for end in self._ends if end.body is not None]
        lengths = [np.linalg.norm(arm.translations[1:], axis=1).sum() for arm in self.chains]
        lengths += [np.linalg.norm(point) for point in moving]
        return float(sum(lengths)) or 1.0

    def _in_sizes(self, gap: Array) -> Array:
        """Return gaps with displacements in units of `_size`."""
        return gap / np.where(self._held[1], 1.0, self._size)

    @cached_property
    def _lengths(self) -> Array:
        """Size of the bodies at each closure, which compares forces with moments."""
        sizes = np.zeros(len(self._ends))
        for k, end in enumerate(self._ends):
            if end.body is not None:
                arm = self.chains[end.chain]
                mass, about = arm.masses[end.body], np.trace(arm.inertias[end.body])
                spread = np.sqrt(about / mass) if mass > 0 else 0.0
                far = np.linalg.norm(arm.centres[end.body])
                sizes[k] = max(np.linalg.norm(end.point), far, spread)
        largest = sizes.reshape(-1, 2).max(axis=1)
        return np.where(largest > 0, largest, 1.0)
