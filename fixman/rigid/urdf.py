"""Robots from URDF files: the serial path to one link, with all that is fixed to its bodies.

A URDF file is a tree of links.  Fixed joints are merged; the joints from the root to ``tip`` are
those of the chain; the others, of whatever kind, are locked at zero, and their links lumped into
the body that carries them.  `_urdf_elements` has all names of the format that are read, noted or
without a part in dynamics.

The standard library's parser does it.  Those packages that read URDF and are maintained bring
meshes or a renderer along, for what takes a few elements of XML here.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.kernels.rigid.joints import JOINTS, RATES
from fixman.rigid._urdf_elements import (
    KINDS,
    LOOPS,
    FileJoint,
    LinkInertia,
    Notes,
    elements,
    has_axis,
    listed,
)
from fixman.rigid.model import SerialChain, checked_inertias

__all__ = ["Place", "Robot", "read"]


class Place(NamedTuple):
    """Where a link of the file is: a point r of it is at ``rotation @ r + translation``."""

    body: int  # number in the chain; −1 is the base
    rotation: Array  # (3, 3), of the link's frame in the body's
    translation: Array  # (3,)


@dataclass(frozen=True, eq=False)
class Robot:
    """A chain and the names of its file.

    Attributes
    ----------
    chain : SerialChain
    joint_names : tuple of str
        Of the chain's joints, base first; a free base that the file does not have is "root_joint".
    body_names : tuple of str
        The link that each of them moves.
    places : mapping of str to Place
        Every link of the file, those lumped into another's body and into the base included.
    notes : tuple of str
        Sentences about content that is not in the chain, or not as one may expect.
    """

    chain: SerialChain
    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    places: Mapping[str, Place]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", MappingProxyType(dict(self.places)))

    def __reduce__(self) -> tuple[object, ...]:  # views of a dict cannot be pickled
        names = self.joint_names, self.body_names
        return Robot, (self.chain, *names, dict(self.places), self.notes)


def read(
    path: str | PathLike[str],
    tip: str | None = None,
    *,
    free_base: bool = False,
    damping: bool = True,
    strict: bool = True,
) -> Robot:
    """Read the serial chain from a URDF file's root to a link, and its names.

    O(links) time and memory.  Revolute, continuous and prismatic joints turn about or slide along
    the file's axis, made a unit one, from the file's zero, and a planar joint moves across it; a
    floating joint is a free base, and must be the first that moves.  The body's frame has its
    origin at the joint and z along the axis; x is that axis of the link's frame which is least
    along z, made perpendicular to it: where the file's axis is 0 0 1 the body's frame is the
    link's, and elsewhere ``places`` has the turn.

    Parameters
    ----------
    path : str or os.PathLike
    tip : str, optional
        Link at the end of the chain; it may be fixed to a body.  Needed where joints branch: one
        path is read, and the joints off it are locked at zero.
    free_base : bool
        Whether the root floats, as body 0, instead of being the base, which stands still.
    damping : bool
        Whether the chain has the file's damping, in inverse dynamics too.
    strict : bool
        False takes, with a warning that names the link or joint, files that are refused otherwise:
        with names that are nearly known, with loops and mimic joints, whose conditions are left
        out, with inertias that no body has, of which the nearest possible are taken, without an
        inertia, which is then zero, and with bodies at the end that have no mass.

    Raises
    ------
    ValueError
        Naming file, link and joint: for what is no URDF, no tree, no finite number; for mimic
        joints on the path, and floating ones that are not its first; for damping that is negative
        or of a floating joint; for names that are nearly known; for bodies at the end
        without mass and an inertia that no body has.
    OSError
        Where the file cannot be read.

    Warns
    -----
    UserWarning
        Of names that the format does not have, and of files that only ``strict=False`` takes.
    """
    if isinstance(path, str) and path.lstrip("\ufeff \t\r\n").startswith("<"):
        raise ValueError(f"path must be that of a file, got the text of one: {path!r:.40}")
    path = arrays.path(path, "path")
    if tip is not None and not isinstance(tip, str):
        raise TypeError(f"tip must be the name of a link, got {tip!r:.80}")
    free_base, damping = arrays.flag(free_base, "free_base"), arrays.flag(damping, "damping")
    notes = Notes(arrays.flag(strict, "strict"))
    try:
        links, joints = elements(path, notes)
        joints = _outwards(links, joints)
        if free_base:
            root = joints[0].parent if joints else next(iter(links))
            eye, none = np.eye(3), np.zeros(3)
            joints.insert(0, FileJoint("root_joint", "floating", "", root, eye, none, none))
        if not damping:
            joints = [joint._replace(damping=0.0) for joint in joints]
        robot = _assembled(links, joints, _path(links, joints, tip), notes)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if notes.warnings:
        said = notes.sentences(notes.warnings)
        more = f"; and {len(said) - 10} more" if len(said) > 10 else ""
        warnings.warn(f"{path}: {'; '.join(said[:10])}{more}", stacklevel=2)
    return robot


# --- the tree ------------------------------------------------------------------------------------


def _outwards(links: Mapping[str, object], joints: Sequence[FileJoint]) -> list[FileJoint]:
    """Return the joints of one tree, each after those before it."""
    above: dict[str, FileJoint] = {}
    below: dict[str, list[FileJoint]] = {}
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                missing = f"which is no link: add <link name={link!r}/>, or correct the name"
                raise ValueError(f"joint {joint.name!r} has the {role} {link!r}, {missing}")
        if joint.child in above:
            both = f"{above[joint.child].name!r} and {joint.name!r}"
            raise ValueError(f"link {joint.child!r} is the child of two joints, {both}: {LOOPS}")
        above[joint.child] = joint
        below.setdefault(joint.parent, []).append(joint)
    if not links:
        raise ValueError("there are no links")
    roots = [link for link in links if link not in above]
    if len(roots) > 1:
        raise ValueError(f"links {listed(roots)} have no parent: all but one must have one")
    order = list(below.get(roots[0], [])) if roots else []
    for joint in order:  # which grows
        order += below.get(joint.child, [])
    if len(order) < len(joints):
        closed = set(above) - {joint.child for joint in order}
        stray = next(link for link in links if link in closed)
        raise ValueError(
            f"link {stray!r}, the child of joint {above[stray].name!r}, is its own ancestor, or "
            "below one that is: joints must be a tree"
        )
    return order


def _path(links: Mapping[str, object], joints: list[FileJoint], tip: str | None) -> set[str]:
    """Return the links that the joints from the root to the tip move."""
    ends = _end_links(joints)
    last = set(ends)
    before = [j.child for j in joints if j.kind != "fixed" and j.child not in last]
    also = f", as {listed(before)}" if before else ""
    known = f"chains end at {listed(ends)}, or at a link before{also}"
    if not ends:
        raise ValueError("no joint moves; free_base=True makes it one floating body")
    if tip is None and len(ends) > 1:
        raise ValueError(
            "the joints branch, and tip must name the last link: one path is read, and the joints "
            f"off it are locked at zero, their links lumped; {known}"
        )
    link = ends[0] if tip is None else tip
    if link not in links:
        moved = next((joint.child for joint in joints if joint.name == link), None)
        hint = f"it is a joint, which moves link {moved!r}" if moved else known
        raise ValueError(f"no link is called {link!r}: {hint}")
    above, path = {joint.child: joint for joint in joints}, set()
    while link in above:
        if above[link].kind != "fixed":
            path.add(link)
        link = above[link].parent
    if not path:
        raise ValueError(f"no joint on the way to link {tip!r} moves: {known}")
    return path


def _end_links(joints: list[FileJoint]) -> list[str]:
    """Return the links with a joint that moves before them and none beyond."""
    beyond, ends = set(), []
    for joint in reversed(joints):
        moves = joint.kind != "fixed"
        if moves and joint.child not in beyond:
            ends.append(joint.child)
        if moves or joint.child in beyond:
            beyond.add(joint.parent)
    return ends[::-1]


# --- the chain -----------------------------------------------------------------------------------


def _assembled(
    links: Mapping[str, LinkInertia | None], joints: list[FileJoint], path: set[str], notes: Notes
) -> Robot:
    """Place every link in a body, and lump."""
    places = {joints[0].parent: Place(-1, np.eye(3), np.zeros(3))}
    moving: list[FileJoint] = []
    frames: list[tuple[Array, Array]] = []
    for joint in joints:
        body, R, p = places[joint.parent]
        with np.errstate(over="ignore", invalid="ignore"):
            R, p = R @ joint.rotation, p + R @ joint.translation
        if not np.isfinite(p).all():
            raise ValueError(f"the place of joint {joint.name!r} overflows")
        if joint.child in path:
            _require_known(joint, moving, notes)
            C = _frame(joint.axis) if has_axis(joint.kind) else np.eye(3)
            frames.append((R @ C, p))
            moving.append(joint)
            body, R, p = body + 1, C.T, np.zeros(3)
        elif joint.kind != "fixed":
            notes.note("off the path: locked at zero, the links lumped", f"joint {joint.name!r}")
        places[joint.child] = Place(body, R, p)
    places.pop("", None)  # the parent of a free base
    kinds = [KINDS[joint.kind] for joint in moving]
    rotations, translations = (np.array(part) for part in zip(*frames, strict=True))
    parts = _lumped(links, places, moving, translations, notes)
    rates = RATES[[JOINTS.index(kind) for kind in kinds]]
    damping = np.repeat([joint.damping for joint in moving], rates)
    names: Any = tuple(kind.name for kind in kinds)
    chain = SerialChain(names, rotations, translations, *parts, damping=damping)
    for place in places.values():
        place.rotation.flags.writeable = place.translation.flags.writeable = False
    of_file = tuple(joint.name for joint in moving), tuple(joint.child for joint in moving)
    return Robot(chain, *of_file, places, notes.sentences(notes.places))


def _require_known(joint: FileJoint, moving: list[FileJoint], notes: Notes) -> None:
    """Refuse a joint on the path that a chain does not have."""
    name = f"joint {joint.name!r}"
    if joint.kind == "floating" and moving:
        known = "only the first that moves on the way to the tip can be, a free base"
        also = ", which free_base=True has put before it" if moving[0].parent == "" else ""
        raise ValueError(f"{name} is floating: {known}{also}")
    if joint.mimics is not None:
        depends = "joints that depend on others are not supported, end the chain before it"
        notes.refuse(f"mimics {joint.mimics!r}: {depends}", "lets it move alone", name)
    if joint.damping:
        notes.note("has damping, also in inverse dynamics: damping=False leaves it out", name)


def _frame(axis: Array) -> Array:
    """Axes of the body's frame, as columns, in the link's: z is the joint's axis."""
    k = int(np.argmin(np.abs(axis)))
    x = np.eye(3)[k] - axis[k] * axis
    x /= math.sqrt(x @ x)
    return np.column_stack([x, np.cross(axis, x), axis])


def _lumped(
    links: Mapping[str, LinkInertia | None],
    places: Mapping[str, Place],
    moving: list[FileJoint],
    translations: Array,
    notes: Notes,
) -> tuple[Array, Array, Array]:
    """Masses, mass centres and inertias of the bodies."""
    held = [(link, part, places[link]) for link, part in links.items() if part is not None]
    for link, part, place in held:
        if place.body < 0 and part.mass > 0:
            notes.note("has mass and stands still: free_base=True lets it move", f"link {link!r}")
    held = [each for each in held if each[2].body >= 0]  # the base needs none
    n = len(moving)
    which = np.array([place.body for *_, place in held], dtype=np.int64)
    m = np.array([part.mass for _, part, _ in held])
    c = np.array([part.centre for _, part, _ in held]).reshape(-1, 3)
    tensors = np.array([part.inertia for _, part, _ in held]).reshape(-1, 3, 3)
    R = np.array([place.rotation for *_, place in held]).reshape(-1, 3, 3)
    p = np.array([place.translation for *_, place in held]).reshape(-1, 3)
    masses, centres, inertias = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(masses, which, m)
        c = p + np.einsum("nij,nj->ni", R, c)
        share = np.divide(m, masses[which], out=np.zeros_like(m), where=m > 0)
        np.add.at(centres, which, share[:, None] * c)
        d = c - centres[which]
        about = np.einsum("ni,ni->n", d, d)[:, None, None] * np.eye(3) - d[:, :, None] * d[:, None]
        np.add.at(inertias, which, R @ tensors @ R.swapaxes(1, 2) + m[:, None, None] * about)
    finite = np.isfinite(masses + centres.sum(1) + inertias.sum((1, 2)))
    if not finite.all():
        raise ValueError(f"the inertia of {_moved(moving[int(np.argmin(finite))])} overflows")
    there = (masses > 0) | inertias.any((1, 2))
    last, instead = int(np.max(np.flatnonzero(there), initial=-1)), "takes it, for kinematics alone"
    if last < n - 1:
        empty = "has no mass, nor has what it carries: give one an <inertial>, make the joint fixed"
        if last >= 0:
            empty += f", or end the chain before it, tip={moving[last].child!r}"
        notes.refuse(empty, instead, _moved(moving[last + 1]))
    elif moving[0].kind == "floating" and not there[0]:
        empty = "floats without mass: give it an <inertial>, or leave the base fixed"
        notes.refuse(empty, instead, _moved(moving[0]))

    def name(body: int) -> str:
        parts = [k for k in range(len(held)) if which[k] == body]
        if len(parts) < 2:
            return _moved(moving[body])
        low, middle, high = np.linalg.eigvalsh(tensors[parts]).T
        worst = parts[int(np.argmax(np.maximum(-low, high - middle - low)))]
        return f"{_moved(moving[body])} with all that is fixed to it (see link {held[worst][0]!r})"

    def refuse(text: str) -> None:
        notes.refuse(text, "takes the nearest that masses have")

    bodies = masses, centres, translations
    return masses, centres, checked_inertias(inertias, bodies, name, refuse)


def _moved(joint: FileJoint) -> str:
    return f"link {joint.child!r}, which joint {joint.name!r} moves,"
