"""Robots from URDF files: the serial path to one link, with all that is fixed to its bodies.

A URDF file is a tree of links.  Fixed joints are merged; the joints from the root to ``tip`` are
those of the chain; the others, of whatever kind, are locked at zero, and their links lumped into
the body that carries them.  Three tables below name all that is read, noted or without a part in
dynamics; a name that is in none of them is noted with a warning, or refused where it is nearly one
that is read.

The standard library's parser does it.  Those packages that read URDF and are maintained bring
meshes or a renderer along, for what takes a few elements of XML here.
"""

from __future__ import annotations

import difflib
import math
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np

from fixman import _arrays
from fixman._arrays import Array
from fixman.rigid.model import JOINTS, RATES, Joint, SerialChain, checked_inertias

__all__ = ["Place", "Robot", "read"]

LARGEST = 2**26  # bytes of a file; robots have thousands, this is a chain of 10⁵ links
_KINDS: dict[str, Joint] = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
    "spherical": "spherical",
    "floating": "free",
}
_VERSIONS = ("1", "1.0", "1.1", "1.2")
_XACRO = "this is xacro: expand it first, `xacro robot.xacro > robot.urdf`"
_DECIMAL = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
)  # float() takes 1_0 and ١

# Inside each element: attributes, with @ and "text" or how many numbers, and children, "1" or "*"
# for any number of them.  With ? it may be left out.
_READ: dict[str, dict[str, str]] = {
    "robot": {"@version": "text?", "link": "*", "joint": "*"},
    "link": {"@name": "text", "inertial": "1?"},
    "inertial": {"origin": "1?", "mass": "1", "inertia": "1?"},
    "mass": {"@value": "1"},
    "inertia": {f"@{name}": "1" for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")},
    "origin": {"@xyz": "3?", "@rpy": "3?", "@quat_xyzw": "4?"},
    "joint": {
        "@name": "text", "@type": "text", "parent": "1", "child": "1", "origin": "1?",
        "axis": "1?", "dynamics": "1?", "mimic": "1?", "limit": "1?",
    },
    "parent": {"@link": "text"},
    "child": {"@link": "text"},
    "axis": {"@xyz": "3"},
    "dynamics": {"@damping": "1?"},
    "mimic": {"@joint": "text"},
    "limit": {},
}  # fmt: skip
_SPRING = "springs are set as replace(chain, stiffness=..., rest=...)"
_NOTED: dict[str, dict[str, str]] = {
    "joint": {"limit": "no joint is stopped", "safety_controller": "no joint is stopped"},
    "dynamics": {
        "@friction": "no algorithm has dry friction",
        "@spring_stiffness": _SPRING,
        "@spring_reference": _SPRING,
    },
}
_PASSED: dict[str, tuple[str, ...]] = {
    "robot": (
        "@name", "material", "gazebo", "transmission", "ros2_control", "sensor", "mujoco",
    ),
    "link": (
        "@type", "visual", "collision", "contact", "self_collision_checking", "collision_checking",
    ),
    "inertia": ("@iyx", "@izx", "@izy"),
    "joint": ("calibration", "@dont_collapse"),
    "mimic": ("@multiplier", "@offset"),
    "limit": (
        "@lower", "@upper", "@effort", "@velocity", "@acceleration", "@deceleration", "@jerk",
    ),
}  # fmt: skip
_LOOPS = "take a joint of the loop out, read its chains, and close it with fixman.rigid.closed"
_REFUSED: dict[str, dict[str, str]] = {"robot": {"loop_joint": _LOOPS}}


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
    mimics: str | None = None
    damping: float = 0.0


class _Notes:
    """Sentences about content that is not in the chain, each with the places where it is."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.places: dict[str, list[str]] = {}
        self.warnings: dict[str, None] = {}  # in order

    def note(self, text: str, place: str, *, warn: bool = False) -> None:
        self.places.setdefault(text, []).append(place)
        if warn:
            self.warnings[text] = None

    def refuse(self, text: str, instead: str, place: str) -> None:
        """Raise, or warn of what is done instead."""
        text = f"{text}; strict=False {instead}"
        if self.strict:
            raise ValueError(f"{place} {text}")
        self.note(text, place, warn=True)

    def sentences(self, texts: Iterable[str]) -> tuple[str, ...]:
        return tuple(f"{_arrays.listed(self.places[text], 5)} {text}" for text in texts)


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
    the file's axis, made a unit one, from the file's zero; a floating joint is a free base, and
    must be the first that moves.  The body's frame has its origin at the joint and z along the
    axis; x is that axis of the link's frame which is least along z, made perpendicular to it: where
    the file's axis is 0 0 1 the body's frame is the link's, and elsewhere ``places`` has the turn.

    Parameters
    ----------
    path : str or path
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
        Naming file, link and joint: for what is no URDF, no tree, no finite number; for planar and
        mimic joints on the path, and floating ones that are not its first; for damping that is
        negative or of a floating joint; for names that are nearly known; for bodies at the end
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
    path = _arrays.path(path, "path")
    if tip is not None and not isinstance(tip, str):
        raise TypeError(f"tip must be the name of a link, got {tip!r:.80}")
    free_base, damping = _arrays.flag(free_base, "free_base"), _arrays.flag(damping, "damping")
    notes = _Notes(_arrays.flag(strict, "strict"))
    try:
        file = _values(_parsed(path), "the robot", notes)
        version = file.get("version", "1.0")
        if version not in _VERSIONS:
            expected = f"has the version {version!r:.80}, expected one of {_listed(_VERSIONS)}"
            notes.refuse(expected, "reads it", "the robot")
        links = {
            name: _inertial(element, where, notes)
            for name, where, element in _distinct(file["link"], notes)
        }
        joints = [_joint(element, where) for _, where, element in _distinct(file["joint"], notes)]
        joints = _outwards(links, joints)
        if free_base:
            root = joints[0].parent if joints else next(iter(links))
            eye, none = np.eye(3), np.zeros(3)
            joints.insert(0, _Joint("root_joint", "floating", "", root, eye, none, none))
        if not damping:
            joints = [joint._replace(damping=0.0) for joint in joints]
        robot = _assembled(links, joints, _path(links, joints, tip), notes)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if notes.warnings:
        text = _arrays.listed(notes.sentences(notes.warnings), 10)
        warnings.warn(f"{path}: {text}", stacklevel=2)
    return robot


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
            raise ValueError(f"link {joint.child!r} is the child of two joints, {both}: {_LOOPS}")
        above[joint.child] = joint
        below.setdefault(joint.parent, []).append(joint)
    if not links:
        raise ValueError("there are no links")
    roots = [link for link in links if link not in above]
    if len(roots) > 1:
        raise ValueError(f"links {_listed(roots)} have no parent: all but one must have one")
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


def _path(links: Mapping[str, object], joints: list[_Joint], tip: str | None) -> set[str]:
    """Return the links that the joints from the root to the tip move."""
    above = {joint.child: joint for joint in joints}
    if tip is not None and tip not in links:
        moved = next((joint.child for joint in joints if joint.name == tip), None)
        hint = f"it is a joint, which moves link {moved!r}" if moved else _ends(joints)
        raise ValueError(f"no link is called {tip!r}: {hint}")
    link = _only_end(joints) if tip is None else tip
    path = set()
    while link in above:
        joint = above[link]
        if joint.kind != "fixed":
            path.add(link)
        link = joint.parent
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
    if len(ends) > 1:
        raise ValueError(
            "the joints branch, and tip must name the last link: one path is read, and the joints "
            f"off it are locked at zero, their links lumped; {_ends(joints)}"
        )
    if not ends:
        raise ValueError("no joint moves; free_base=True makes it one floating body")
    return ends[0]


# --- the chain -----------------------------------------------------------------------------------


def _assembled(
    links: Mapping[str, _Inertial | None], joints: list[_Joint], path: set[str], notes: _Notes
) -> Robot:
    """Place every link in a body, and lump."""
    places = {joints[0].parent: Place(-1, np.eye(3), np.zeros(3))}
    moving: list[_Joint] = []
    frames: list[tuple[Array, Array]] = []
    for joint in joints:
        body, R, p = places[joint.parent]
        with np.errstate(over="ignore", invalid="ignore"):
            R, p = R @ joint.rotation, p + R @ joint.translation
        if not np.isfinite(p).all():
            raise ValueError(f"the place of joint {joint.name!r} overflows")
        if joint.child in path:
            _require_known(joint, moving, notes)
            C = np.eye(3) if joint.kind in ("floating", "spherical") else _frame(joint.axis)
            frames.append((R @ C, p))
            moving.append(joint)
            body, R, p = body + 1, C.T, np.zeros(3)
        elif joint.kind != "fixed":
            notes.note("off the path: locked at zero, the links lumped", f"joint {joint.name!r}")
        places[joint.child] = Place(body, R, p)
    places.pop("", None)  # of a free base
    kinds = tuple(_KINDS[joint.kind] for joint in moving)
    rotations, translations = (np.array(part) for part in zip(*frames, strict=True))
    parts = _lumped(links, places, moving, translations, notes)
    rates = RATES[[JOINTS.index(kind) for kind in kinds]]
    damping = np.repeat([joint.damping for joint in moving], rates)
    chain = SerialChain(kinds, rotations, translations, *parts, damping=damping)
    for place in places.values():
        place.rotation.flags.writeable = place.translation.flags.writeable = False
    names = tuple(joint.name for joint in moving), tuple(joint.child for joint in moving)
    return Robot(chain, *names, places, notes.sentences(notes.places))


def _require_known(joint: _Joint, moving: list[_Joint], notes: _Notes) -> None:
    """Refuse a joint on the path that a chain does not have."""
    name = f"joint {joint.name!r}"
    if joint.kind == "planar":
        known = f"of joints that move the path may have {_listed([*_KINDS])}"
        raise ValueError(f"{name} is planar: {known}")
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
    links: Mapping[str, _Inertial | None],
    places: Mapping[str, Place],
    moving: list[_Joint],
    translations: Array,
    notes: _Notes,
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
    last = int(np.max(np.flatnonzero((masses > 0) | inertias.any((1, 2))), initial=-1))
    if last < n - 1:
        empty = "has no mass, nor has what it carries: give one an <inertial>, make the joint fixed"
        if last >= 0:
            empty += f", or end the chain before it, tip={moving[last].child!r}"
        notes.refuse(empty, "takes it, for kinematics alone", _moved(moving[last + 1]))

    def name(body: int) -> str:
        parts = [k for k in range(len(held)) if which[k] == body]
        if len(parts) < 2:
            return _moved(moving[body])
        low, middle, high = np.linalg.eigvalsh(tensors[parts]).T
        worst = parts[int(np.argmax(np.maximum(-low, high - middle - low)))]
        return f"{_moved(moving[body])} with all that is fixed to it (see link {held[worst][0]!r})"

    def refuse(text: str) -> None:
        notes.refuse(text, "takes the nearest that masses have", "correct the file:")

    bodies = masses, centres, translations
    return masses, centres, checked_inertias(inertias, bodies, name, refuse)


def _moved(joint: _Joint) -> str:
    return f"link {joint.child!r}, which joint {joint.name!r} moves,"


# --- elements ------------------------------------------------------------------------------------


def _no_doctype(*_: object) -> None:
    """Refuse a document type before anything in it is read: entities can be bombs."""
    raise ValueError("it has a <!DOCTYPE>, which no URDF file needs")


def _parsed(path: Path) -> ET.Element:
    """Return the root; prefixes of names stay as they are, and need not be declared."""
    with path.open("rb") as file:
        text = file.read(LARGEST + 1)
    if len(text) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes: is it a URDF file?")
    tree, parser = ET.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.StartDoctypeDeclHandler = _no_doctype
    try:
        parser.Parse(text.lstrip(b" \t\r\n"), True)
    except (expat.ExpatError, LookupError) as error:  # an encoding that is not known
        hint = f"; {_XACRO}" if b"xacro:" in text else ""
        raise ValueError(f"it is no well-formed XML: {error}{hint}") from None
    root = tree.close()
    for element in root.iter():
        if element.tag.startswith("xacro:"):
            raise ValueError(f"it has <{element.tag:.80}>: {_XACRO}")
    if root.tag != "robot":
        raise ValueError(f"its root is <{root.tag:.40}>, that of a URDF file is <robot>")
    return root


def _distinct(
    elements: list[ET.Element], notes: _Notes
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, what to call it and values of the elements of one kind, whose names must differ."""
    seen = set()
    for element in elements:
        name = _value(element.get("name"), "name", f"a <{element.tag}>", "text")
        if name in seen:
            raise ValueError(f"two {element.tag}s are called {name!r}")
        seen.add(name)
        where = f"{element.tag} {name!r}"
        yield name, where, _values(element, where, notes)


def _values(element: ET.Element, where: str, notes: _Notes) -> dict[str, Any]:
    """Values of all that is read in an element, by name; the rest is noted or refused."""
    tag, out = element.tag, dict[str, Any]()
    given: dict[str, Any] = {f"@{name}": text for name, text in element.attrib.items()}
    for child in element:
        given.setdefault(child.tag, []).append(child)
    for name, about in _NOTED.get(tag, {}).items():
        if name in given and not _is_zero(given[name]):
            notes.note(f"{_shown(name)} is not read, {about}", where)
    for name, rule in _READ[tag].items():
        found, key = given.pop(name, None), name.lstrip("@")
        if rule == "*":
            out[key] = found or []
        elif found is None:
            if rule[-1] != "?":
                raise ValueError(f"{where} has no {key if name[0] == '@' else f'<{key}>'}")
        elif name[0] == "@":
            out[key] = _value(found, key, where, rule)
        elif len(found) > 1:
            raise ValueError(f"{where} has {len(found)} of <{name}>, expected one at most")
        else:
            inside = where if name == "inertial" else f"the {name} of {where}"
            out[key] = _values(found[0], inside, notes)
    for name in given:
        _judge(tag, name, where, notes)
    return out


def _judge(tag: str, name: str, where: str, notes: _Notes) -> None:
    """Refuse or note a name in an element that is not read there."""
    if name in _NOTED.get(tag, {}) or name in _PASSED.get(tag, ()) or name.startswith("@xmlns"):
        return
    text = f"has {_shown(name)}"
    if name in _REFUSED.get(tag, {}):
        notes.refuse(f"{text}: {_REFUSED[tag][name]}", "leaves it out", where)
        return
    near = _nearest(tag, name)
    text += ", which is not read" + (f": the nearest known name is {_shown(near)}" if near else "")
    if near in _READ[tag] and near not in _NOTED.get(tag, {}):
        notes.refuse(text, "leaves it out", where)
    else:
        notes.note(text, where, warn=True)


@lru_cache
def _nearest(tag: str, name: str) -> str:
    """Return the known name in an element that is most like one that is not, if any is."""
    tables: tuple[Mapping[str, Iterable[str]], ...] = _READ, _NOTED, _REFUSED, _PASSED
    known = {each.strip("@").lower(): each for table in tables for each in table.get(tag, ())}
    near = difflib.get_close_matches(name.strip("@").lower(), known, 1, 0.7)
    return known[near[0]] if near else ""


def _shown(name: str) -> str:
    return f"the attribute {name[1:]:.80}" if name[0] == "@" else f"<{name:.80}>"


def _is_zero(found: object) -> bool:
    return isinstance(found, str) and bool(_DECIMAL.fullmatch(found)) and float(found) == 0


def _value(text: str | None, name: str, where: str, rule: str) -> Any:
    """Return the text of an attribute, its number, or an array of its numbers."""
    if not text or not text.strip():
        raise ValueError(f"{where} has no {name}")
    if len(text) > 1000:
        raise ValueError(f"the {name} of {where} has {len(text)} characters: expected a few")
    if "${" in text or "$(" in text:
        raise ValueError(f"the {name} of {where} is {text!r:.80}: {_XACRO}")
    if rule.startswith("text"):
        return text
    count = int(rule[0])
    values = [float(part) for part in text.split() if _DECIMAL.fullmatch(part)]
    if not len(values) == len(text.split()) == count or not all(map(math.isfinite, values)):
        expected = "a finite number" if count == 1 else f"{count} finite numbers"
        raise ValueError(f"the {name} of {where} is {text!r:.80}: expected {expected}")
    return values[0] if count == 1 else np.array(values)


def _origin(element: dict[str, Any], where: str) -> tuple[Array, Array]:
    """Rotation and translation of ``<origin>``: Rz(yaw) Ry(pitch) Rx(roll), or a quaternion."""
    origin = element.get("origin", {})
    R, p = np.eye(3), origin.get("xyz", np.zeros(3))
    if "quat_xyzw" in origin:
        quaternion = origin["quat_xyzw"]
        norm = math.hypot(*quaternion)
        if "rpy" in origin or abs(norm - 1) > 1e-3:
            known = "rpy beside it" if "rpy" in origin else f"the norm {norm:.6g}, not 1"
            raise ValueError(f"the quat_xyzw of the origin of {where} has {known}")
        x, y, z, w = quaternion / norm
        S = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        R = R + 2 * w * S + 2 * S @ S
    for axis, angle in enumerate(origin.get("rpy", ())):
        R = _turn(angle, axis) @ R
    return R, p


def _turn(angle: float, axis: int) -> Array:
    R, j, k = np.eye(3), (axis + 1) % 3, (axis + 2) % 3
    R[j, j] = R[k, k] = math.cos(angle)
    R[k, j] = math.sin(angle)
    R[j, k] = -R[k, j]
    return R


def _inertial(link: dict[str, Any], where: str, notes: _Notes) -> _Inertial | None:
    part = link.get("inertial")
    if part is None:
        return None
    mass = part["mass"]["value"]
    if mass < 0:
        raise ValueError(f"the mass of {where} is {mass}: it must not be negative")
    if "inertia" not in part:
        notes.refuse("has a mass and no <inertia>", "takes a point mass", where)
    R, centre = _origin(part, where)
    xx, xy, xz, yy, yz, zz = part.get("inertia", dict.fromkeys(range(6), 0.0)).values()
    with np.errstate(over="ignore", invalid="ignore"):
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return _Inertial(mass, centre, inertia)


def _joint(joint: dict[str, Any], where: str) -> _Joint:
    kind = joint["type"]
    if kind not in _KINDS and kind not in ("fixed", "planar"):
        kinds = _listed(["fixed", "planar", *_KINDS])
        raise ValueError(f"{where} is {kind!r:.80}: no such type is known, of {kinds}")
    axis = joint.get("axis", {"xyz": np.array([1.0, 0.0, 0.0])})["xyz"]
    size = math.hypot(*axis)
    if kind in ("revolute", "continuous", "prismatic", "planar") and not 1e-100 < size < 1e100:
        raise ValueError(f"the axis of {where} is {axis.tolist()}: it has no direction")
    damping = joint.get("dynamics", {}).get("damping", 0.0)
    if damping < 0 or (damping > 0 and kind == "floating"):
        known = "it must not be negative" if damping < 0 else "a floating joint can have none"
        raise ValueError(f"the damping of {where} is {damping}: {known}")
    ends = joint["parent"]["link"], joint["child"]["link"]
    mimics = joint.get("mimic", {}).get("joint")
    axis = axis / (size or 1.0)
    return _Joint(joint["name"], kind, *ends, *_origin(joint, where), axis, mimics, damping)


def _listed(names: Sequence[str]) -> str:
    return _arrays.listed([repr(name)[:80] for name in names], 20)
