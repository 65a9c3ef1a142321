"""Elements of a URDF file: all its names in three tables, and its links and joints by them.

A name in a table is read, noted or passed over.  One in none of them is noted with a warning, or
refused where it is nearly one that is read.
"""

from __future__ import annotations

import difflib
import math
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

import numpy as np

from fixman._common import arrays as _arrays
from fixman._common.arrays import Array
from fixman.kernels.rigid.joints import JOINTS, JointType

LARGEST = 2**26  # bytes of a file; robots have thousands, this is a chain of 10⁵ links
KINDS: dict[str, JointType] = {name: joint for joint in JOINTS for name in joint.urdf}
TYPES = ("fixed", *KINDS)
LOOPS = "take one joint of the loop out, read its chains, and close it with fixman.rigid.closed"
VERSIONS = ("1", "1.0", "1.1", "1.2")
XACRO = "this is xacro: expand it first, `xacro robot.xacro > robot.urdf`"
DECIMAL = re.compile(
    r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
)  # float() takes 1_0 and ١

# Inside each element: attributes, with @ and "text" or how many numbers, and children, "1" or "*"
# for any number of them.  With ? it may be left out.
READ: dict[str, dict[str, str]] = {
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
NOTED: dict[str, dict[str, str]] = {
    "joint": {"limit": "no joint is stopped", "safety_controller": "no joint is stopped"},
    "dynamics": {
        "@friction": "no algorithm has dry friction",
        "@spring_stiffness": _SPRING,
        "@spring_reference": _SPRING,
    },
}
PASSED: dict[str, tuple[str, ...]] = {
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
REFUSED: dict[str, dict[str, str]] = {"robot": {"loop_joint": LOOPS}}


class LinkInertia(NamedTuple):
    mass: float
    centre: Array  # in the link's frame
    inertia: Array  # about it, in the axes of the link


class FileJoint(NamedTuple):
    name: str
    kind: str
    parent: str
    child: str
    rotation: Array
    translation: Array
    axis: Array
    mimics: str | None = None
    damping: float = 0.0


class Notes:
    """Sentences about content that is not in the chain, each with the places where it is."""

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.places: dict[str, list[str]] = {}
        self.warnings: dict[str, None] = {}  # in order

    def note(self, text: str, place: str, *, warn: bool = False) -> None:
        self.places.setdefault(text, []).append(place)
        if warn:
            self.warnings[text] = None

    def refuse(self, text: str, instead: str, place: str = "") -> None:
        """Raise, or warn of what is done instead."""
        text = f"{text}; strict=False {instead}"
        if self.strict:
            raise ValueError(f"{place} {text}".lstrip())
        self.note(text, place, warn=True)

    def sentences(self, texts: Iterable[str]) -> tuple[str, ...]:
        def said(text: str, at: list[str]) -> str:
            many = text.replace("has ", "have ", 1) if len(at) > 1 else text
            return f"{_arrays.listed(at, 3)} {many}".lstrip()

        return tuple(said(text, self.places[text]) for text in texts)


def elements(path: Path, notes: Notes) -> tuple[dict[str, LinkInertia | None], list[FileJoint]]:
    """Return the inertias of a file's links, by their names, and its joints."""
    robot = _values(_parsed(path), "the robot", notes)
    version = robot.get("version", "1.0")
    if version not in VERSIONS:
        known = f"has the version {version!r:.80}, expected one of {listed(VERSIONS)}"
        notes.refuse(known, "reads it", "the robot")
    links, joints = (_named(robot[kind], notes) for kind in ("link", "joint"))
    inertias = {name: _inertia(link, f"link {name!r}", notes) for name, link in links.items()}
    return inertias, [_joint(joint, f"joint {name!r}") for name, joint in joints.items()]


def listed(names: Sequence[str]) -> str:
    return _arrays.listed([repr(name)[:80] for name in names], 20)


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
        hint = f"; {XACRO}" if b"xacro:" in text else ""
        raise ValueError(f"it is no well-formed XML: {error}{hint}") from None
    root = tree.close()
    for element in root.iter():
        if element.tag.startswith("xacro:"):
            raise ValueError(f"it has <{element.tag:.80}>: {XACRO}")
    if root.tag != "robot":
        raise ValueError(f"its root is <{root.tag:.40}>, that of a URDF file is <robot>")
    return root


def _named(found: list[ET.Element], notes: Notes) -> dict[str, dict[str, Any]]:
    """Return the values of elements of one kind by their names, which must differ."""
    out: dict[str, dict[str, Any]] = {}
    for element in found:
        name = _attribute(element.get("name"), "name", f"a <{element.tag}>", "text")
        if name in out:
            raise ValueError(f"two {element.tag}s are called {name!r}")
        out[name] = _values(element, f"{element.tag} {name!r}", notes)
    return out


def _values(element: ET.Element, where: str, notes: Notes) -> dict[str, Any]:
    """Return all that is read in an element, by name; the rest is noted or refused."""
    tag, out = element.tag, dict[str, Any]()
    given: dict[str, Any] = {f"@{name}": text for name, text in element.attrib.items()}
    for child in element:
        given.setdefault(child.tag, []).append(child)
    for name, found in given.items():
        if name not in READ[tag] or name in NOTED.get(tag, {}):
            _judge(tag, name, found, where, notes)
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


def _judge(tag: str, name: str, found: str | list[ET.Element], where: str, notes: Notes) -> None:
    """Note or refuse a name that is not read, unless it has no part in dynamics."""
    said = f"the attribute {name[1:]:.80}" if name[0] == "@" else f"<{name:.80}>"
    if name in NOTED.get(tag, {}):
        if not (isinstance(found, str) and DECIMAL.fullmatch(found) and float(found) == 0):
            notes.note(f"has {said}, which is not read: {NOTED[tag][name]}", where)
    elif name in REFUSED.get(tag, {}):
        notes.refuse(f"has {said}: {REFUSED[tag][name]}", "leaves it out", where)
    elif name not in PASSED.get(tag, ()) and not name.startswith("@xmlns"):
        near = _nearest(tag, name)
        text = f"has {said}, which is not read"
        if near:
            text += f": the nearest known name is {near.strip('@')}"
        if near in READ[tag] and near not in NOTED.get(tag, {}):
            notes.refuse(text, "leaves it out", where)
        else:
            notes.note(text, where, warn=True)


@lru_cache
def _nearest(tag: str, name: str) -> str:
    """Return the known name in an element that is most like one that is not, if any is."""
    tables: tuple[Mapping[str, Iterable[str]], ...] = (READ, NOTED, REFUSED, PASSED)
    known = {each.strip("@").lower(): each for table in tables for each in table.get(tag, ())}
    near = difflib.get_close_matches(name.strip("@").lower(), known, 1, 0.7)
    return known[near[0]] if near else ""


def _attribute(text: str | None, name: str, where: str, rule: str) -> Any:
    """Return the text of an attribute, its number, or an array of its numbers."""
    if not text or not text.strip():
        raise ValueError(f"{where} has no {name}")
    if len(text) > 1000:
        raise ValueError(f"the {name} of {where} has {len(text)} characters: expected a few")
    if "${" in text or "$(" in text:
        raise ValueError(f"the {name} of {where} is {text!r:.80}: {XACRO}")
    if rule.startswith("text"):
        return text
    count = int(rule[0])
    values = [float(part) for part in text.split() if DECIMAL.fullmatch(part)]
    if not len(values) == len(text.split()) == count or not all(map(math.isfinite, values)):
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
        x, y, z, w = origin["quat_xyzw"] / norm
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


def _inertia(link: dict[str, Any], where: str, notes: Notes) -> LinkInertia | None:
    part = link.get("inertial")
    if part is None:
        return None
    mass = part["mass"]["value"]
    if mass < 0:
        raise ValueError(f"the mass of {where} is {mass}: it must not be negative")
    if "inertia" not in part:
        notes.refuse("has a mass and no <inertia>", "takes a point mass", where)
    R, centre = _origin(part, f"the inertial of {where}")
    xx, xy, xz, yy, yz, zz = part.get("inertia", dict.fromkeys(range(6), 0.0)).values()
    with np.errstate(over="ignore", invalid="ignore"):
        inertia = R @ np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) @ R.T
    return LinkInertia(mass, centre, inertia)


def has_axis(kind: str) -> bool:
    """Whether joints of a type turn about or slide along an axis of the file, or across it."""
    return kind in KINDS and KINDS[kind].turns != "xyz"


def _joint(joint: dict[str, Any], where: str) -> FileJoint:
    kind = joint["type"]
    if kind not in TYPES:
        raise ValueError(f"{where} is {kind!r:.80}: no such type is known, of {listed(TYPES)}")
    axis = joint.get("axis", {"xyz": np.array([1.0, 0.0, 0.0])})["xyz"]
    size = math.hypot(*axis)
    if has_axis(kind) and not 1e-100 < size < 1e100:
        raise ValueError(f"the axis of {where} is {axis.tolist()}: it has no direction")
    damping = joint.get("dynamics", {}).get("damping", 0.0)
    if damping < 0 or (damping > 0 and kind == "floating"):
        known = "it must not be negative" if damping < 0 else "a floating joint can have none"
        raise ValueError(f"the damping of {where} is {damping}: {known}")
    ends = joint["parent"]["link"], joint["child"]["link"]
    mimics = joint.get("mimic", {}).get("joint")
    unit = axis / (size or 1.0)
    return FileJoint(joint["name"], kind, *ends, *_origin(joint, where), unit, mimics, damping)
