"""Robots from URDF files: the serial path to one link, with all that is fixed to its bodies.

A URDF file is a tree of links.  Fixed joints are merged; the joints from the root to ``tip`` are
those of the chain; the others, of whatever kind, are locked at zero, and their links lumped into
the body that carries them.  Damping is read.  Limits, friction, shapes and transmissions are not.

The standard library's parser does it.  Those packages that read URDF and are maintained bring
meshes or a renderer along, for what takes a few elements of XML here.
"""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from fixman import _arrays
from fixman._arrays import Array
from fixman.rigid.model import Joint, SerialChain, checked_inertias

__all__ = ["Place", "Robot", "read"]

LARGEST = 2**26  # bytes of a file; robots have thousands, this is a chain of 10⁵ links
_KINDS: dict[str, Joint] = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "floating": "free",
}
_XACRO = "this is xacro: expand it first, `xacro robot.xacro > robot.urdf`"
_DECIMAL = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
)  # float() takes 1_0 and ١


class Place(NamedTuple):
    """Where a link of the file is: a point r of it is at ``rotation @ r + translation``."""

    body: int  # of the chain; −1 is the base
    rotation: Array  # (3, 3), of the link's frame in the body's
    translation: Array  # (3,)


@dataclass(frozen=True, eq=False)
class Robot:
    """A chain and the names of its file.

    Attributes
    ----------
    chain : SerialChain
    joint_names : tuple of str
        Of the chain's joints, base first.
    body_names : tuple of str
        The link that each of them moves.
    places : mapping of str to Place
        Every link of the file, those lumped into another's body and into the base included.
    """

    chain: SerialChain
    joint_names: tuple[str, ...]
    body_names: tuple[str, ...]
    places: Mapping[str, Place]

    def __post_init__(self) -> None:
        object.__setattr__(self, "places", MappingProxyType(dict(self.places)))

    def __reduce__(self) -> tuple[object, ...]:  # views of a dict cannot be pickled
        return Robot, (self.chain, self.joint_names, self.body_names, dict(self.places))


class _Inertial(NamedTuple):
    mass: float
    centre: Array  # in the link's frame
    inertia: Array  # about it, in the axes of the link


class _Joint(NamedTuple):
    name: str
    kind: str
    parent: str
    child: str
    rotation: Array
    translation: Array
    axis: Array
    mimics: str | None
    damping: float


def read(path: str | PathLike[str], tip: str | None = None) -> Robot:
    """Read the serial chain from a URDF file's root to a link, and its names.

    O(links) time and memory.  Revolute, continuous and prismatic joints turn about or slide along
    the file's axis, made a unit one, from the file's zero; a floating joint is a free base, and
    must be the first that moves.  The body's frame has its origin at the joint and z along the
    axis; x is that axis of the link's frame which is least along z, made perpendicular to it: where
    the file's axis is 0 0 1 the body's frame is the link's, and elsewhere ``places`` has the turn.

    Parameters
    ----------
    path : str or path
    tip : str, optional
        Link at the end of the chain; it may be fixed to a body.  Needed where joints branch.

    Raises
    ------
    ValueError
        Naming file, link and joint: for what is no URDF, no tree, no finite number; for planar and
        mimic joints on the path, and floating ones that are not its first; for damping that is
        negative or of a floating joint; for a moving body without mass or with an inertia that no
        body has.
    OSError
        Where the file cannot be read.
    """
    if isinstance(path, str) and path.lstrip("\ufeff \t\r\n").startswith("<"):
        raise ValueError(f"path must be that of a file, got the text of one: {path!r:.40}")
    path = _arrays.path(path, "path")
    if tip is not None and not isinstance(tip, str):
        raise TypeError(f"tip must be the name of a link, got {tip!r:.80}")
    try:
        root = _parsed(path)
        links = {_name(e): _inertial(e) for e in _distinct(root, "link")}
        joints = _outwards(links, [_joint(e) for e in _distinct(root, "joint")])
        return _assembled(links, joints, _path(links, joints, tip))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


# --- the tree ------------------------------------------------------------------------------------


def _outwards(links: Mapping[str, object], joints: Sequence[_Joint]) -> list[_Joint]:
    """Return the joints of one tree, each after those before it."""
    above: dict[str, _Joint] = {}
    below: dict[str, list[_Joint]] = {}
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                raise ValueError(f"joint {joint.name!r} has the {role} {link!r}, which is no link")
        if joint.child in above:
            both = f"{above[joint.child].name!r} and {joint.name!r}"
            raise ValueError(f"link {joint.child!r} is the child of two joints, {both}")
        above[joint.child] = joint
        below.setdefault(joint.parent, []).append(joint)
    roots = [link for link in links if link not in above]
    if len(roots) > 1:
        raise ValueError(f"links {_listed(roots)} have no parent: all but one must have one")
    order = list(below.get(roots[0], [])) if roots else []
    for joint in order:  # which grows
        order += below.get(joint.child, [])
    if len(order) < len(joints) or not roots:
        closed = set(above) - {joint.child for joint in order}
        if not closed:
            raise ValueError("there are no links")
        stray = next(link for link in links if link in closed)
        raise ValueError(
            f"link {stray!r}, the child of joint {above[stray].name!r}, is its own ancestor, or "
            "below one that is: joints must be a tree"
        )
    return order


def _path(links: Mapping[str, object], joints: list[_Joint], tip: str | None) -> set[str]:
    """Return the names of the joints from the root to the tip that move."""
    above = {joint.child: joint for joint in joints}
    if tip is None:
        tip = _only_end(joints)
    elif tip not in links:
        moved = next((joint.child for joint in joints if joint.name == tip), None)
        hint = f"it is a joint, which moves link {moved!r}" if moved else _ends(joints)
        raise ValueError(f"no link is called {tip!r}: {hint}")
    link = _only_end(joints) if tip is None else tip
    path = set()
    while link in above:
        joint = above[link]
        link = joint.parent
        if joint.kind != "fixed":
            path.add(joint.name)
    if not path:
        raise ValueError(f"no joint on the way to link {tip!r} moves: {_ends(joints)}")
    return path


def _end_links(joints: list[_Joint]) -> list[str]:
    """Return the links with a joint that moves before them and none beyond."""
    beyond, ends = set(), []
    for joint in reversed(joints):
        moves = joint.kind != "fixed"
        if moves and joint.child not in beyond:
            ends.append(joint.child)
        if moves or joint.child in beyond:
            beyond.add(joint.parent)
    return ends[::-1]


def _ends(joints: list[_Joint]) -> str:
    ends = _end_links(joints)
    if not ends:
        return "no joint moves"
    known = set(ends)
    before = [j.child for j in joints if j.kind != "fixed" and j.child not in known]
    also = f", as {_listed(before)}" if before else ""
    return f"chains end at {_listed(ends)}, or at a link before{also}"


def _only_end(joints: list[_Joint]) -> str:
    ends = _end_links(joints)
    if len(ends) != 1:
        need = "the joints branch, and tip must name the last link: " if ends else ""
        raise ValueError(need + _ends(joints))
    return ends[0]


# --- the chain -----------------------------------------------------------------------------------


def _assembled(
    links: Mapping[str, _Inertial | None], joints: list[_Joint], path: set[str]
) -> Robot:
    """Place every link in a body, and lump."""
    root = joints[0].parent
    places = {root: Place(-1, np.eye(3), np.zeros(3))}
    moving: list[_Joint] = []
    frames: list[tuple[Array, Array]] = []
    for joint in joints:
        body, R, p = places[joint.parent]
        with np.errstate(over="ignore", invalid="ignore"):
            R, p = R @ joint.rotation, p + R @ joint.translation
        if not np.isfinite(p).all():
            raise ValueError(f"the place of joint {joint.name!r} overflows")
        if joint.name in path:
            _require_known(joint, moving)
            C = np.eye(3) if joint.kind == "floating" else _frame(joint.axis)
            frames.append((R @ C, p))
            moving.append(joint)
            body, R, p = body + 1, C.T, np.zeros(3)
        places[joint.child] = Place(body, R, p)
    parts = _lumped(links, places, moving)
    chain = SerialChain(
        tuple(_KINDS[joint.kind] for joint in moving),
        np.array([R for R, _ in frames]),
        np.array([p for _, p in frames]),
        *parts,
        damping=np.concatenate([[j.damping] * (6 if j.kind == "floating" else 1) for j in moving]),
    )
    for place in places.values():
        place.rotation.flags.writeable = place.translation.flags.writeable = False
    names = tuple(joint.name for joint in moving), tuple(joint.child for joint in moving)
    return Robot(chain, *names, places)


def _require_known(joint: _Joint, moving: list[_Joint]) -> None:
    """Refuse what a chain has no joint for, where it is on the path."""
    if joint.kind == "planar":
        known = f"of joints that move the path may have {_listed([*_KINDS])}"
        raise ValueError(f"joint {joint.name!r} is planar: {known}")
    if joint.kind == "floating" and moving:
        known = "only the first that moves on the way to the tip can be, a free base"
        raise ValueError(f"joint {joint.name!r} is floating: {known}")
    if joint.mimics is not None:
        raise ValueError(
            f"joint {joint.name!r} mimics {joint.mimics!r}: joints that depend on others are not "
            "supported; end the chain before it, or take its <mimic> out to let it move alone"
        )


def _frame(axis: Array) -> Array:
    """Axes of the body's frame, as columns, in the link's: z is the joint's axis."""
    k = int(np.argmin(np.abs(axis)))
    x = np.eye(3)[k] - axis[k] * axis
    x /= math.sqrt(x @ x)
    return np.column_stack([x, np.cross(axis, x), axis])


def _lumped(
    links: Mapping[str, _Inertial | None], places: Mapping[str, Place], moving: list[_Joint]
) -> tuple[Array, Array, Array]:
    """Masses, mass centres and inertias of the bodies."""
    held = [(part, places[link]) for link, part in links.items() if part is not None]
    held = [(part, place) for part, place in held if place.body >= 0]  # the base needs none
    n = len(moving)
    which = np.array([place.body for _, place in held], dtype=np.int64)
    m = np.array([part.mass for part, _ in held])
    c = np.array([part.centre for part, _ in held]).reshape(-1, 3)
    tensors = np.array([part.inertia for part, _ in held]).reshape(-1, 3, 3)
    R = np.array([place.rotation for _, place in held]).reshape(-1, 3, 3)
    p = np.array([place.translation for _, place in held]).reshape(-1, 3)
    masses, centres, inertias = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(masses, which, m)
        if (masses == 0).any():
            raise ValueError(
                f"{_moved(moving[int(np.argmin(masses))])} has no mass, nor has what is fixed to "
                "it: give it an <inertial>, or make the joint fixed"
            )
        c = p + np.einsum("nij,nj->ni", R, c)
        np.add.at(centres, which, (m / masses[which])[:, None] * c)
        d = c - centres[which]
        about = np.einsum("ni,ni->n", d, d)[:, None, None] * np.eye(3) - d[:, :, None] * d[:, None]
        np.add.at(inertias, which, R @ tensors @ R.swapaxes(1, 2) + m[:, None, None] * about)
    finite = np.isfinite(masses + centres.sum(1) + inertias.sum((1, 2)))
    if not finite.all():
        raise ValueError(f"the inertia of {_moved(moving[int(np.argmin(finite))])} overflows")
    return masses, centres, checked_inertias(inertias, lambda i: _moved(moving[i]))


def _moved(joint: _Joint) -> str:
    return f"link {joint.child!r}, which joint {joint.name!r} moves,"


# --- elements ------------------------------------------------------------------------------------


class _Builder(ET.TreeBuilder):
    """Refuses a document type before anything in it is read: entities can be bombs."""

    def doctype(self, *_: object) -> None:
        raise ValueError("it has a <!DOCTYPE>, which no URDF file needs")


def _parsed(path: Path) -> ET.Element:
    """Return the root, namespaces of plain elements dropped."""
    with path.open("rb") as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes: is it a URDF file?")
    try:
        root = ET.fromstring(text, ET.XMLParser(target=_Builder()))
    except (ET.ParseError, LookupError) as error:  # an encoding that is not known
        hint = f"; {_XACRO}" if b"xacro:" in text else ""
        raise ValueError(f"it is no well-formed XML: {error}{hint}") from None
    for element in root.iter():
        namespace, brace, name = element.tag.rpartition("}")
        if "xacro" in namespace:
            raise ValueError(f"it has <xacro:{name}>: {_XACRO}")
        if brace:
            element.tag = name
    if root.tag != "robot":
        raise ValueError(f"its root is <{root.tag:.40}>, that of a URDF file is <robot>")
    return root


def _distinct(root: ET.Element, tag: str) -> list[ET.Element]:
    """Return the elements of one kind, whose names must differ."""
    elements, seen = root.findall(tag), set()
    for element in elements:
        name = _name(element)
        if name in seen:
            raise ValueError(f"two {tag}s are called {name!r}")
        seen.add(name)
    return elements


def _name(element: ET.Element) -> str:
    return _attribute(element, "name", f"a <{element.tag}>")


def _attribute(element: ET.Element, name: str, where: str) -> str:
    text = element.get(name)
    if not text or not text.strip():
        raise ValueError(f"{where} has no {name}")
    if len(text) > 1000:
        raise ValueError(f"the {name} of {where} has {len(text)} characters: expected a few")
    if "${" in text or "$(" in text:
        raise ValueError(f"the {name} of {where} is {text!r:.80}: {_XACRO}")
    return text


def _child(element: ET.Element, tag: str, where: str) -> ET.Element | None:
    found = element.findall(tag)
    if len(found) > 1:
        raise ValueError(f"{where} has {len(found)} of <{tag}>, expected one at most")
    return found[0] if found else None


def _needed(element: ET.Element, tag: str, where: str) -> ET.Element:
    found = _child(element, tag, where)
    if found is None:
        raise ValueError(f"{where} has no <{tag}>")
    return found


def _numbers(element: ET.Element, name: str, where: str, count: int = 1) -> Array:
    text = _attribute(element, name, where)
    values = [float(part) for part in text.split() if _DECIMAL.fullmatch(part)]
    if (
        len(values) != len(text.split())
        or len(values) != count
        or not all(map(math.isfinite, values))
    ):
        expected = "a finite number" if count == 1 else f"{count} finite numbers"
        raise ValueError(f"the {name} of {where} is {text!r:.80}: expected {expected}")
    return np.array(values)


def _origin(element: ET.Element, where: str) -> tuple[Array, Array]:
    """Rotation and translation of ``<origin>``: Rz(yaw) Ry(pitch) Rx(roll)."""
    origin = _child(element, "origin", where)
    R, p = np.eye(3), np.zeros(3)
    if origin is None:
        return R, p
    where = f"the origin of {where}"
    if origin.get("xyz") is not None:
        p = _numbers(origin, "xyz", where, 3)
    if origin.get("rpy") is not None:
        for axis, angle in enumerate(_numbers(origin, "rpy", where, 3)):
            R = _turn(angle, axis) @ R
    return R, p


def _turn(angle: float, axis: int) -> Array:
    R, j, k = np.eye(3), (axis + 1) % 3, (axis + 2) % 3
    R[j, j] = R[k, k] = math.cos(angle)
    R[k, j] = math.sin(angle)
    R[j, k] = -R[k, j]
    return R


def _inertial(link: ET.Element) -> _Inertial | None:
    where = f"link {_name(link)!r}"
    element = _child(link, "inertial", where)
    if element is None:
        return None
    mass = float(_numbers(_needed(element, "mass", where), "value", f"the mass of {where}")[0])
    if mass < 0:
        raise ValueError(f"the mass of {where} is {mass}: it must not be negative")
    tensor = _needed(element, "inertia", where)
    xx, xy, xz, yy, yz, zz = (
        float(_numbers(tensor, name, f"the inertia of {where}")[0])
        for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    R, centre = _origin(element, f"the inertial of {where}")
    with np.errstate(over="ignore", invalid="ignore"):
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return _Inertial(mass, centre, inertia)


def _joint(element: ET.Element) -> _Joint:
    name = _name(element)
    where = f"joint {name!r}"
    kind = _attribute(element, "type", where)
    if kind not in _KINDS and kind not in ("fixed", "planar"):
        kinds = _listed(["fixed", "planar", *_KINDS])
        raise ValueError(f"{where} is {kind!r:.80}: no such type is known, of {kinds}")
    parent, child = (
        _attribute(_needed(element, role, where), "link", f"the {role} of {where}")
        for role in ("parent", "child")
    )
    R, p = _origin(element, where)
    axis, given = np.array([1.0, 0.0, 0.0]), _child(element, "axis", where)
    if given is not None:
        axis = _numbers(given, "xyz", f"the axis of {where}", 3)
    size = math.hypot(*axis)
    if kind not in ("fixed", "floating") and not 1e-100 < size < 1e100:
        raise ValueError(f"the axis of {where} is {axis.tolist()}: it has no direction")
    mimic = _child(element, "mimic", where)
    mimics = None if mimic is None else _attribute(mimic, "joint", f"the mimic of {where}")
    damping, dynamics = 0.0, _child(element, "dynamics", where)
    if dynamics is not None and dynamics.get("damping") is not None:
        damping = float(_numbers(dynamics, "damping", where)[0])
    if damping < 0 or (damping > 0 and kind == "floating"):
        known = "it must not be negative" if damping < 0 else "a floating joint can have none"
        raise ValueError(f"the damping of {where} is {damping}: {known}")
    return _Joint(name, kind, parent, child, R, p, axis / (size or 1.0), mimics, damping)


def _listed(names: Sequence[str]) -> str:
    return _arrays.listed([repr(name)[:80] for name in names], 20)
