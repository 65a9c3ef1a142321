"""Robots from URDF files: the serial path to one link, with all that is fixed to its bodies.

A URDF file is a tree of links.  Fixed joints are merged; the joints from the root to ``tip`` are
those of the chain; the others are locked at zero, and their links lumped into the body that carries
them.  Three tables have the names of the format: `READ`, `NOTED` and `PASSED` over.
"""

from __future__ import annotations

import contextlib
import difflib
import html
import math
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.kernels.rigid.joints import JOINTS, RATES, JointType
from fixman.rigid._constructors import turns
from fixman.rigid.model import SerialChain, checked_inertias, contents
from fixman.rigid.spatial import skew

__all__ = ["Place", "Robot", "read"]
__dir__ = __all__.copy  # completion shows public names alone

KINDS: dict[str, JointType] = {name: joint for joint in JOINTS for name in joint.urdf}
TYPES = ("fixed", *KINDS)
LOOPS = "take one joint of the loop out, read its chains, and close it with fixman.rigid.closed"

# Inside each element: attributes, with @ and "text" or how many numbers, and children, "1" or "*"
# for any number of them.  With ? it may be left out.
READ: dict[str, dict[str, str]] = {
    "robot": {"link": "*", "joint": "*"},
    "link": {"@name": "text", "inertial": "1?"},
    "inertial": {"origin": "1?", "mass": "1", "inertia": "1?"},
    "mass": {"@value": "1"},
    "inertia": {f"@{name}": "1" for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")},
    "origin": {"@xyz": "3?", "@rpy": "3?", "@quat_xyzw": "4?"},
    "joint": {
        "@name": "text", "@type": "text", "parent": "1", "child": "1", "origin": "1?",
        "axis": "1?", "dynamics": "1?", "mimic": "1?",
    },
    "parent": {"@link": "text"},
    "child": {"@link": "text"},
    "axis": {"@xyz": "3"},
    "dynamics": {"@damping": "1?"},
    "mimic": {"@joint": "text"},
    "limit": {"@lower": "1?", "@upper": "1?"},
}  # fmt: skip
NOTED: dict[str, tuple[str, ...]] = {
    "joint": ("limit", "safety_controller"),
    "dynamics": ("@friction", "@spring_stiffness", "@spring_reference"),
}
PASSED: dict[str, list[str]] = {
    tag: names.split()
    for tag, names in {
        "robot": "@name @version material gazebo transmission ros2_control sensor mujoco",
        "link": "@type visual collision contact self_collision_checking collision_checking",
        "inertia": "@iyx @izx @izy",
        "joint": "calibration @dont_collapse",
        "mimic": "@multiplier @offset",
        "limit": "@effort @velocity",
    }.items()
}


class Place(NamedTuple):
    """Where a link of the file is: a point r of it is at ``rotation @ r + translation``."""

    body: int  # number in the chain; −1 is the base
    rotation: Array  # (3, 3), of the link's frame in the body's
    translation: Array  # (3,)


class Robot(NamedTuple):
    """A chain and the names of its file."""

    chain: SerialChain
    joint_names: tuple[str, ...]  # base first; a base that ``free_base`` lets float: "root_joint"
    body_names: tuple[str, ...]  # the link that each joint moves
    places: dict[str, Place]  # of every link, those lumped into another's body and the base too
    notes: tuple[str, ...]  # sentences about content that is not in the chain
    limits: Array  # (n, 2), −inf and inf of joints without; no algorithm uses them

    def __repr__(self) -> str:
        """Chain, names of joints and number of notes, in three lines."""
        names = arrays.listed(self.joint_names, 8)
        return f"<Robot: {contents(self.chain)}\n joints: {names}\n notes: {len(self.notes)}>"

    def _repr_html_(self) -> str:
        """Table of the joints."""
        kinds, masses = self.chain.joints, map("{:g}".format, self.chain.masses)
        columns = map(str, range(self.chain.n)), self.joint_names, kinds, self.body_names, masses
        rows = [("body", "joint", "kind", "link", "mass"), *zip(*columns, strict=True)]
        cells = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows)
        return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def read(
    path: str | PathLike[str],
    tip: str | None = None,
    *,
    free_base: bool = False,
    strict: bool = True,
) -> Robot:
    """Read the serial chain from a URDF file's root to a link, and its names; O(links).

    Joints turn about or slide along the file's axis, made a unit vector, from the file's zero.  A
    planar joint moves across the axis; a floating one is a free base.  The body's frame has its
    origin at the joint and z along the axis; x is the axis of the link's frame that is least along
    z, made perpendicular to z.  If the file's axis is 0 0 1 the body's frame is the link's;
    otherwise ``places`` has the rotation.  The chain has the file's damping.

    Parameters
    ----------
    tip : str, optional
        Link at the end of the chain; it may be fixed to a body.  Needed where joints branch.
    free_base : bool
        Whether the root floats, as body 0, instead of being the base.
    strict : bool
        False accepts, with a warning, some files that True refuses: see ``docs/robots.md``.

    Raises
    ------
    ValueError
        Naming file, link and joint, for what ``docs/robots.md`` lists.

    Warns
    -----
    UserWarning
        For names that the format does not have, and for files that only ``strict=False`` accepts.
    """
    path = arrays.path(path, "path")
    if str(path).lstrip()[:1] == "<":
        raise ValueError("path must be the name of a file, got XML: write it to a file first")
    if tip is not None and not isinstance(tip, str):
        raise TypeError(f"tip must be the name of a link, got {tip!r:.80}")
    free_base, notes = arrays.flag(free_base, "free_base"), Notes(arrays.flag(strict, "strict"))
    try:
        links, joints = elements(path, notes)
        joints = _outwards(links, joints)
        if free_base:
            root = joints[0].parent if joints else next(iter(links))
            joints.insert(0, FileJoint("root_joint", "floating", "", root))
        robot = _assembled(links, joints, _path(links, joints, tip), notes)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if notes.warnings:
        said = notes.sentences(notes.warnings)
        warnings.warn(f"{path}: {arrays.listed(said, 10)}", stacklevel=2)
    return robot


# --- the tree ------------------------------------------------------------------------------------


def _outwards(links: Mapping[str, object], joints: Sequence[FileJoint]) -> list[FileJoint]:
    above: dict[str, FileJoint] = {}
    below: dict[str, list[FileJoint]] = {}
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in links:
                raise ValueError(f"joint {joint.name!r} has the {role} {link!r}, which is no link")
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
    reached = {joint.child for joint in order}
    for joint in joints:
        if joint.child not in reached:
            stray = f"link {joint.child!r}, the child of joint {joint.name!r},"
            raise ValueError(f"{stray} is its own ancestor, or below one: joints must be a tree")
    return order


def _path(links: Mapping[str, object], joints: list[FileJoint], tip: str | None) -> set[str]:
    beyond: set[str] = set()
    ends: list[str] = []  # links with a joint that moves before them and none beyond
    for joint in reversed(joints):
        moves = joint.kind != "fixed"
        if moves and joint.child not in beyond:
            ends.insert(0, joint.child)
        if moves or joint.child in beyond:
            beyond.add(joint.parent)
    if not ends:
        raise ValueError("no joint moves; free_base=True makes it one floating body")
    if tip is None and len(ends) > 1:
        raise ValueError(f"joints branch: tip must name a last link; chains end at {listed(ends)}")
    link = ends[0] if tip is None else tip
    if link not in links:
        near = difflib.get_close_matches(str(link), links, 3, 0.5) or ends
        raise ValueError(f"no link is called {link!r}: tip names any link, such as {listed(near)}")
    above, path = {joint.child: joint for joint in joints}, set()
    while link in above:
        if above[link].kind != "fixed":
            path.add(link)
        link = above[link].parent
    if not path:
        raise ValueError(f"no joint on the way to link {tip!r} moves")
    return path


# --- the chain -----------------------------------------------------------------------------------


def _assembled(
    links: Mapping[str, LinkInertia | None], joints: list[FileJoint], path: set[str], notes: Notes
) -> Robot:
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
            C = _frame(joint.axis) if joint.axis.any() else np.eye(3)
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
    of_file = tuple(joint.name for joint in moving), tuple(joint.child for joint in moving)
    limits = np.array([joint.limits for joint in moving])
    return Robot(chain, *of_file, places, notes.sentences(notes.places), limits)


def _require_known(joint: FileJoint, moving: list[FileJoint], notes: Notes) -> None:
    name = f"joint {joint.name!r}"
    if joint.kind == "floating" and moving:
        raise ValueError(f"{name} is floating: only the first that moves can be, a free base")
    if joint.mimics is not None:
        notes.refuse(f"mimics {joint.mimics!r}, and joints that depend on others are none", name)
    if joint.damping:
        notes.note("has damping, also in inverse dynamics", name)


def _frame(axis: Array) -> Array:
    """Axes of the body's frame in the link's, as columns: z is the joint's axis."""
    k = int(np.argmin(np.abs(axis)))
    x = np.eye(3)[k] - axis[k] * axis
    x /= math.sqrt(x @ x)
    return np.column_stack([x, np.cross(axis, x), axis])


@np.errstate(over="ignore", invalid="ignore")
def _lumped(
    links: Mapping[str, LinkInertia | None],
    places: Mapping[str, Place],
    moving: list[FileJoint],
    translations: Array,
    notes: Notes,
) -> tuple[Array, Array, Array]:
    n, held = len(moving), []
    for link, part in links.items():
        body, R, p = places[link]
        if part is not None and body >= 0:
            held.append((part, body, R, p + R @ part.centre))
        elif part is not None and part.mass > 0:  # on the base
            notes.note("has mass and stands still: free_base=True lets it move", f"link {link!r}")
    masses, centres, inertias = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3, 3))
    for part, body, *_ in held:
        masses[body] += part.mass
    for part, body, _, c in held:
        centres[body] += part.mass / masses[body] * c if part.mass else 0.0
    for part, body, R, c in held:
        d = c - centres[body]
        inertias[body] += R @ part.inertia @ R.T
        inertias[body] += part.mass * (d @ d * np.eye(3) - np.outer(d, d))

    def name(body: int) -> str:
        return f"link {moving[body].child!r}, which joint {moving[body].name!r} moves,"

    finite = np.isfinite(masses + centres.sum(1) + inertias.sum((1, 2)))
    if not finite.all():
        raise ValueError(f"the inertia of {name(int(np.argmin(finite)))} overflows")
    there = (masses > 0) | inertias.any((1, 2))
    felt = np.logical_or.accumulate(there[::-1])[::-1]  # with all that the body carries
    felt[0] &= there[0] or moving[0].kind != "floating"
    if not felt.all():
        notes.refuse("has no mass, nor has what it carries", name(int(np.argmin(felt))))
    bodies = masses, centres, translations
    return masses, centres, checked_inertias(inertias, bodies, name, notes.refuse)


# --- elements of the file -------------------------------------------------------------------------


class LinkInertia(NamedTuple):
    mass: float
    centre: Array  # in the link's frame
    inertia: Array  # about it, in the axes of the link


class FileJoint(NamedTuple):
    name: str
    kind: str
    parent: str
    child: str
    rotation: Array = np.eye(3)
    translation: Array = np.zeros(3)
    axis: Array = np.zeros(3)  # or a unit one
    mimics: str | None = None
    damping: float = 0.0
    limits: tuple[float, float] = (-math.inf, math.inf)


@dataclass
class Notes:
    """Sentences about content that is not in the chain, and the places where it is."""

    strict: bool
    places: dict[str, list[str]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def note(self, text: str, place: str, *, warn: bool = False) -> None:
        self.places.setdefault(text, []).append(place)
        if warn and text not in self.warnings:
            self.warnings.append(text)

    def refuse(self, text: str, place: str) -> None:
        """Raise, or warn of it."""
        if self.strict:
            raise ValueError(f"{place} {text}; strict=False takes it")
        self.note(text, place, warn=True)

    def sentences(self, texts: Iterable[str]) -> tuple[str, ...]:
        def said(text: str, places: list[str]) -> str:
            some = len(places) > 1 and text.startswith("has ")
            return f"{arrays.listed(places, 3)} {'have' + text[3:] if some else text}"

        return tuple(said(text, self.places[text]) for text in texts)


def elements(path: Path, notes: Notes) -> tuple[dict[str, LinkInertia | None], list[FileJoint]]:
    """Return the inertias of a file's links by name, and its joints."""
    robot = _values(_parsed(path), "the robot", notes)
    links, joints = (_named(robot[kind], notes) for kind in ("link", "joint"))
    inertias = {name: _inertia(link, f"link {name!r}", notes) for name, link in links.items()}
    return inertias, [_joint(joint, f"joint {name!r}", notes) for name, joint in joints.items()]


def listed(names: Sequence[str]) -> str:
    return arrays.listed([repr(name)[:80] for name in names], 20)


def _parsed(path: Path) -> ET.Element:
    """Return the root; prefixes of names need not be declared."""

    def refuse_doctype(*_: object) -> None:  # before it is read: entities can be bombs
        raise ValueError("it has a <!DOCTYPE>, which no URDF file needs")

    text = path.read_bytes()
    tree, parser = ET.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = tree.start, tree.end
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(text.lstrip(b" \t\r\n"), True)
    except (expat.ExpatError, LookupError) as error:  # an encoding that is not known
        raise ValueError(f"it is no well-formed XML: {error}") from None
    root = tree.close()
    if any(element.tag.startswith("xacro:") for element in root.iter()):
        raise ValueError("it is xacro: expand it first, `xacro robot.xacro > robot.urdf`")
    if root.tag != "robot":
        raise ValueError(f"its root is <{root.tag:.40}>, that of a URDF file is <robot>")
    return root


def _named(found: list[ET.Element], notes: Notes) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for element in found:
        name = _attribute(element.get("name"), "name", f"a <{element.tag}>", "text")
        if name in out:
            raise ValueError(f"two {element.tag}s are called {name!r}")
        out[name] = _values(element, f"{element.tag} {name!r}", notes) | {"element": element}
    return out


def _values(element: ET.Element, where: str, notes: Notes) -> dict[str, Any]:
    """Return the values in an element by name; note or refuse the rest."""
    tag, out = element.tag, dict[str, Any]()
    given = _judged(element, where, notes)
    for name, rule in READ[tag].items():
        found, key = given.get(name), name.lstrip("@")
        if rule == "*":
            out[key] = found or []
        elif found is None:
            if rule[-1] != "?":
                raise ValueError(f"{where} has no {key if name[0] == '@' else f'<{key}>'}")
        elif name[0] == "@":
            out[key] = _attribute(found, key, where, rule)
        elif len(found) > 1:
            raise ValueError(f"{where} has {len(found)} of <{name}>, expected one at most")
        else:
            inside = where if name in ("inertial", "dynamics") else f"the {name} of {where}"
            out[key] = _values(found[0], inside, notes)
    return out


def _judged(element: ET.Element, where: str, notes: Notes) -> dict[str, Any]:
    """Return attributes and children by name, those that are not read noted or refused."""
    tag, attributes = element.tag, element.attrib.items()
    given: dict[str, Any] = {f"@{name}": x for name, x in attributes if name[:5] != "xmlns"}
    for child in element:
        given.setdefault(child.tag, []).append(child)
    for name in given:
        if name not in READ[tag] and name not in PASSED.get(tag, ()):
            _judge(tag, name, where, notes)
    return given


def _judge(tag: str, name: str, where: str, notes: Notes) -> None:
    """Note a name that is not read, or refuse it where it is nearly one that is."""
    said = f"the attribute {name[1:]:.80}" if name[0] == "@" else f"<{name:.80}>"
    known = {each.strip("@").lower(): each.strip("@") for each in READ[tag]}
    near = difflib.get_close_matches(name[:80].strip("@").lower(), known, 1, 0.7)
    noted = name in NOTED.get(tag, ())
    if name == "loop_joint":
        notes.refuse(f"has {said}: {LOOPS}", where)
    elif near and not noted:
        notes.refuse(f"has {said}, which is not read: did you mean {known[near[0]]}?", where)
    else:
        used = "in the chain" if name == "limit" else "read"  # in `Robot.limits`
        notes.note(f"has {said}, which is not {used}", where, warn=not noted)


def _attribute(text: str | None, name: str, where: str, rule: str) -> Any:
    """Return the text of an attribute, its number, or an array of its numbers."""
    if not text or not text.strip():
        raise ValueError(f"{where} has no {name}")
    if rule.startswith("text"):
        return text
    count = int(rule[0])
    try:
        plain = text.isascii() and "_" not in text  # Python's float takes more
        values = [float(part) for part in text.split() if plain]
    except ValueError:
        values = []
    if len(values) != count or not all(map(math.isfinite, values)):
        expected = "a finite number" if count == 1 else f"{count} finite numbers, apart by spaces"
        raise ValueError(f"the {name} of {where} is {text!r:.80}: expected {expected}")
    return values[0] if count == 1 else np.array(values)


def _origin(element: dict[str, Any], where: str) -> tuple[Array, Array]:
    """Rotation and translation of ``<origin>``: Rz(yaw) Ry(pitch) Rx(roll), or a quaternion."""
    origin = element.get("origin", {})
    R, p = np.eye(3), origin.get("xyz", np.zeros(3))
    if "quat_xyzw" in origin:
        norm = math.hypot(*origin["quat_xyzw"])
        if "rpy" in origin or abs(norm - 1) > 1e-3:
            known = "rpy beside it" if "rpy" in origin else f"the norm {norm:.6g}, expected 1"
            raise ValueError(f"the quat_xyzw of the origin of {where} has {known}")
        *e, w = origin["quat_xyzw"] / norm
        S = skew(np.array(e))
        R = R + 2 * w * S + 2 * S @ S
    for axis, angle in enumerate(origin.get("rpy", ())):
        R = turns(np.array([angle]), axis)[0] @ R
    return R, p


def _inertia(link: dict[str, Any], where: str, notes: Notes) -> LinkInertia | None:
    part = link.get("inertial")
    if part is None:
        return None
    mass = part["mass"]["value"]
    if mass < 0:
        raise ValueError(f"the mass of {where} is {mass}: it must not be negative")
    if "inertia" not in part:
        notes.refuse("has a mass and no <inertia>", where)
    R, centre = _origin(part, f"the inertial of {where}")
    xx, xy, xz, yy, yz, zz = part.get("inertia", dict.fromkeys(range(6), 0.0)).values()
    with np.errstate(over="ignore", invalid="ignore"):
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return LinkInertia(mass, centre, inertia)


def _limits(joint: ET.Element, where: str, notes: Notes) -> tuple[float, float]:
    """Return the limits of a coordinate, infinite where the file has no number."""
    limit, out = joint.find("limit"), [-math.inf, math.inf]
    if limit is None or joint.get("type") not in ("revolute", "prismatic"):
        return out[0], out[1]
    _judged(limit, f"the limit of {where}", notes)
    for k, name in enumerate(("lower", "upper")):
        with contextlib.suppress(ValueError):
            found = float(limit.get(name, out[k]))
            out[k] = out[k] if math.isnan(found) else found
    if out[0] > out[1]:
        notes.refuse(f"has a lower limit of {out[0]:g}, above the upper one, {out[1]:g}", where)
    return out[0], out[1]


def _joint(joint: dict[str, Any], where: str, notes: Notes) -> FileJoint:
    kind = joint["type"]
    if kind not in TYPES:
        raise ValueError(f"{where} is {kind!r:.80}: no such type is known, of {listed(TYPES)}")
    axis = joint.get("axis", {"xyz": np.array([1.0, 0.0, 0.0])})["xyz"]
    if kind not in KINDS or KINDS[kind].turns == "xyz":  # the axis has no part in the motion
        axis = np.zeros(3)
    elif not 1e-100 < math.hypot(*axis) < 1e100:
        raise ValueError(f"the axis of {where} is {axis.tolist()}: it has no direction")
    damping = joint.get("dynamics", {}).get("damping", 0.0)
    if damping < 0 or (damping > 0 and kind == "floating"):
        rule = "it must not be negative, and 0 of a floating joint"
        raise ValueError(f"the damping of {where} is {damping}: {rule}")
    ends = joint["parent"]["link"], joint["child"]["link"]
    mimics = joint.get("mimic", {}).get("joint")
    unit = axis / (math.hypot(*axis) or 1.0)
    more: Any = unit, mimics, damping, _limits(joint["element"], where, notes)
    return FileJoint(joint["name"], kind, *ends, *_origin(joint, where), *more)
