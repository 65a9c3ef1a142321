"""Ways to make a `fixman.rigid.SerialChain`, and the names of joints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.kernels.rigid.joints import JOINTS, NAMES, Name

BYTES = 500  # a body, while a chain is made


class Constructors:
    """Class methods of `SerialChain`."""

    if TYPE_CHECKING:  # it is a dataclass

        def __init__(self, *fields: Any, **more: Any) -> None: ...

    @classmethod
    def planar(cls, lengths: ArrayLike, masses: ArrayLike, inertias: ArrayLike) -> Self:
        """Make a planar revolute arm: links along x, axes along z, mass centres at the middle.

        ``lengths``, ``masses``, ``inertias (n,)``; inertias about the mass centre, equal for all
        axes.
        """
        lengths = _array(lengths, "lengths", "body", (None,))
        n = lengths.size
        about_z = _array(inertias, "inertias", "body", (n,))
        shift = np.zeros((n, 3))
        shift[1:, 0] = lengths[:-1]
        tensors = about_z[:, None, None] * np.eye(3)
        centres = np.zeros((n, 3))
        centres[:, 0] = lengths / 2
        eye = np.broadcast_to(np.eye(3), (n, 3, 3))
        return cls(("revolute",) * n, eye, shift, masses, centres, tensors)

    @classmethod
    def random(
        cls,
        n: int,
        rng: int | np.random.Generator | None = None,
        *,
        joints: Sequence[Name] = ("revolute", "prismatic", "spherical"),
        free_base: bool = False,
    ) -> Self:
        """Make a random chain of n bodies of ordinary proportions, for tests and timings.

        ``joints`` are the kinds to draw from; with ``free_base`` the first is a floating base.
        """
        n = arrays.positive_int(n, "n", BYTES)
        rng = arrays.generator(rng)
        choice = named(joints)
        if not choice:
            raise ValueError("joints must name at least one kind, got none")
        kinds = [choice[k] for k in rng.integers(len(choice), size=n)]
        if free_base:
            kinds[0] = "free"
        rotations = np.linalg.qr(rng.normal(size=(n, 3, 3)))[0]
        rotations *= np.sign(np.linalg.det(rotations))[:, None, None]
        # Inertia of a cloud of points: possible, and well away from singular.
        cloud = rng.normal(size=(n, 8, 3)) * 0.3
        cloud -= cloud.mean(axis=1, keepdims=True)
        masses = rng.uniform(0.5, 2.0, size=n)
        second = np.einsum("nki,nkj->nij", cloud, cloud) * (masses / 8)[:, None, None]
        inertias = np.trace(second, axis1=1, axis2=2)[:, None, None] * np.eye(3) - second
        translations = rng.normal(size=(n, 3)) * 0.5
        centres = rng.normal(size=(n, 3)) * 0.3
        parts = rotations, translations, masses, centres, inertias
        pitched = np.array([JOINTS[NAMES.index(kind)].pitch for kind in kinds])
        pitch = np.where(pitched, rng.uniform(0.1, 0.3, n), 0.0) if pitched.any() else None
        return cls(tuple(kinds), *parts, pitch=pitch)

    @classmethod
    def from_dh(
        cls,
        a: ArrayLike,
        b: ArrayLike,
        alpha: ArrayLike,
        theta: ArrayLike,
        *,
        joints: Sequence[Name],
        masses: ArrayLike,
        com: ArrayLike,
        inertias: ArrayLike,
    ) -> Self:
        """Make a chain from Denavit–Hartenberg parameters in Saha's convention.

        Frame i is fixed in link i − 1 with Z_i along joint i, and frame i + 1 is reached from it
        by Rot(Z, θ_i) Trans(Z, b_i) Trans(X, a_i) Rot(X, α_i); frame 1 is the base (saha_1999,
        appendix A).  The body's frame of this class is frame i turned by θ_i and shifted by b_i.

        Parameters
        ----------
        a, b, alpha, theta : (n,)
            Lengths and angles (radians).  The variable one, θ_i of a revolute and b_i of a
            prismatic joint, is the value given here plus q_i.
        joints : sequence of "revolute", "prismatic"
        masses : (n,)
        com : (n, 3)
            Link i's mass centre in frame i + 1: Corke's r, and −r of Saha.
        inertias : (n, 3, 3) or (n, 3)
            About the mass centre in the axes of frame i + 1; (n, 3) are principal moments.
        """
        kinds = named(joints)
        n = len(kinds)
        for i, joint in enumerate(kinds):
            if joint not in ("revolute", "prismatic"):
                known = "only revolute and prismatic joints have Denavit–Hartenberg parameters"
                raise ValueError(f"joint {i} is {joint}: {known}")
        given = {"a": a, "b": b, "alpha": alpha, "theta": theta}
        a, b, alpha, theta = (_array(x, name, "joint", (n,)) for name, x in given.items())
        com, principal = _array(com, "com", "body", (n, 3)), np.ndim(inertias) == 2
        tensors = _array(inertias, "inertias", "body", (n, 3) if principal else (n, 3, 3))
        if principal:
            tensors = tensors[:, :, None] * np.eye(3)
        # A turn about Z and a shift along it commute: their constant parts come first.
        Q = turns(alpha, 0)  # axes of frame i + 1 in the body's frame
        at = np.column_stack([a, np.zeros(n), np.zeros(n)])  # its origin, likewise
        rotations, translations = turns(theta, 2), np.zeros((n, 3))
        translations[:, 2] = b
        rotations[1:] = Q[:-1] @ rotations[1:]
        with np.errstate(over="ignore", invalid="ignore"):
            translations[1:] = at[:-1] + np.einsum("nij,nj->ni", Q[:-1], translations[1:])
            centres = at + np.einsum("nij,nj->ni", Q, com)
            tensors = Q @ tensors @ Q.swapaxes(1, 2)
        return cls(kinds, rotations, translations, masses, centres, tensors)

    @classmethod
    def snake(
        cls,
        n: int,
        *,
        length: float = 1.0,
        mass: float = 1.0,
        radius: float = 0.1,
        free_base: bool = False,
    ) -> Self:
        """Make a snake: n equal solid cylinders along x, hinged about z and y in turn.

        With ``free_base`` the first link floats instead of turning about z.
        """
        n = arrays.positive_int(n, "n", BYTES)
        length, mass = arrays.positive(length, "length"), arrays.positive(mass, "mass")
        radius = arrays.positive(radius, "radius")
        first = "free" if arrays.flag(free_base, "free_base") else "revolute"
        joints = (first, *("revolute",) * (n - 1))
        # Every other frame is turned about the link so that its z axis is y of the one before.
        rotations = np.tile(np.eye(3), (n, 1, 1))
        rotations[1::2] = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
        rotations[2::2] = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]
        return cls(joints, rotations, *_cylinders(np.full(n, length), mass / length, radius))

    @classmethod
    def rod(
        cls,
        n: int,
        E: float,
        G: float,
        radius: float,
        *,
        length: float = 1.0,
        density: float,
        free_base: bool = False,
    ) -> Self:
        """Make an elastic rod: solid cylinders along x with springs in between.

        A discrete, inextensible Cosserat rod without shear, of pieces of length ℓ.  In the middle
        of each is a spherical joint of stiffness (G J, E I, E I)/ℓ for twist and two bends,
        I = π r⁴/4 and J = 2 I.  Bodies reach from one joint to the next, and over half a piece at
        the ends, which can be welded, pinned or left free with an error of second order: a small
        force F at the tip of a clamped rod deflects it by F L³/(3 E I) (1 − 1/(4 n²)).  Twist and
        slope of the tip under a moment are exact, for any n.

        Parameters
        ----------
        n : int
            Bodies.  A clamped rod has as many pieces, a floating one has one less.
        E, G, radius, length, density : float
            Young's and shear moduli; radius and length of the whole rod; mass by volume.  Positive.
        free_base : bool
            Whether the rod floats.  If not, the base holds its first half piece.
        """
        n, floats = arrays.positive_int(n, "n", BYTES), arrays.flag(free_base, "free_base")
        numbers = {"E": E, "G": G, "radius": radius, "length": length, "density": density}
        E, G, radius, length, density = (arrays.positive(v, name) for name, v in numbers.items())
        pieces = n - 1 if floats else n
        area = np.pi * radius**2
        bend = E * area * radius**2 / 4 * pieces / length
        stiffness = np.tile([2 * G / E * bend, bend, bend], (pieces, 1))
        if not (stiffness.all() and np.isfinite(stiffness).all()):
            raise ValueError("the stiffness of the joints is no number: choose other units")
        joints = ("spherical",) * pieces
        edges = [*(length * (np.arange(pieces) + 0.5) / max(pieces, 1)), length]
        if floats:
            joints, edges = ("free", *joints), [0.0, *edges]
            stiffness = np.vstack([np.zeros((2, 3)), stiffness])
        shift, *bodies = _cylinders(np.diff(edges), density * area, radius)
        shift[0, 0] = edges[0]
        eye = np.tile(np.eye(3), (n, 1, 1))
        return cls(joints, eye, shift, *bodies, stiffness=stiffness.reshape(-1))


def _cylinders(lengths: Array, mass: float, radius: float) -> tuple[Array, ...]:
    """Return translations … inertias of cylinders in a row along x, of a mass for each length."""
    shift, centres = np.zeros((2, lengths.size, 3))
    shift[1:, 0], centres[:, 0] = lengths[:-1], lengths / 2
    masses = mass * lengths
    moments = np.tile(masses * (radius * radius / 4), (3, 1)).T
    moments[:, 0] *= 2.0
    moments[:, 1:] += (masses * lengths**2 / 12)[:, None]
    return shift, masses, centres, moments[:, :, None] * np.eye(3)


def named(joints: Iterable[Name]) -> tuple[Name, ...]:
    if isinstance(joints, (str, Set, Mapping)) or not isinstance(joints, Iterable):
        raise ValueError(f"joints must be a sequence of names, got {joints!r:.80}")
    joints = tuple(joints)
    for i, joint in enumerate(joints):
        if not isinstance(joint, str) or joint not in NAMES:
            raise ValueError(f"joint {i} is {joint!r}: expected one of {NAMES}")
    return joints


def turns(angles: Array, axis: int) -> Array:
    """Rotation matrices (n, 3, 3) about a coordinate axis."""
    R = np.zeros((angles.size, 3, 3))
    j, k = (axis + 1) % 3, (axis + 2) % 3
    R[:, axis, axis] = 1.0
    R[:, j, j] = R[:, k, k] = np.cos(angles)
    R[:, k, j] = np.sin(angles)
    R[:, j, k] = -R[:, k, j]
    return R


def _array(value: ArrayLike, name: str, what: str, shape: tuple[int | None, ...]) -> Array:
    array = arrays.real(value, (), name)
    if array.ndim != len(shape) or shape not in (array.shape, (None,)):
        expected = str(shape).replace("None", "n")
        raise ValueError(f"{name} must have shape {expected}, got {array.shape}")
    arrays.require_finite(array, array.shape, name, what)
    return array
