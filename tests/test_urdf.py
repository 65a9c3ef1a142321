"""Chains from URDF files: closed forms, laws of lumping, names, and refusals by name."""

import pickle
import re
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import fixman
from fixman.errors import SingularConstraintError
from fixman.rigid import (
    SerialChain,
    articulated_body,
    composite_body,
    kinematics,
    newton_euler,
    statistics,
    urdf,
)
from fixman.rigid.closed import Closure, Linkage
from oracles import error
from urdf_texts import joint, link, numbers, random_tree, robot

G = 9.81
ARM = (
    link("base"),
    joint("shoulder", "revolute", "base", "upper", (0, 0, 1), axis=(0, 1, 0)),
    link("upper", 2.0, (0.5, 0, 0), (0.01, 0.2, 0.2)),
    joint("elbow", "continuous", "upper", "fore", (1, 0, 0), axis=(0, 1, 0)),
    link("fore", 1.0, (0.25, 0, 0), (0.001, 0.02, 0.02)),
)
HAND = (
    joint("wrist", "fixed", "fore", "hand", (0.5, 0, 0)),
    link("hand"),
    joint("left slide", "prismatic", "hand", "left", (0, 0.1, 0), axis=(0, -2, 0)),
    link("left", 0.1),
    joint("right slide", "prismatic", "hand", "right", (0, -0.1, 0), axis=(0, 2, 0)),
    link("right", 0.1),
)


@pytest.fixture
def read(tmp_path):
    """Return a function that reads a text by way of a file."""

    def read(text, tip=None, **options):
        path = tmp_path / "robot.urdf"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return urdf.read(path, tip, **options)

    return read


# --- what is read ----------------------------------------------------------------------------


def test_torques_of_a_hanging_arm(read):
    # Both axes are along y, which turns x down: sin of the angles below the horizontal.
    found = read(robot(*ARM))
    assert found.joint_names == ("shoulder", "elbow")
    assert found.body_names == ("upper", "fore")
    assert found.chain.joints == ("revolute", "revolute")
    still, q = np.zeros(2), np.array([0.3, 0.4])
    tau = newton_euler.inverse_dynamics(found.chain, q, still, still, gravity=(0, 0, -G))
    fore = -G * 1.0 * 0.25 * np.cos(0.7)
    np.testing.assert_allclose(tau, [fore - G * (2.0 * 0.5 + 1.0) * np.cos(0.3), fore], rtol=1e-14)
    M = composite_body.inertia_matrix(found.chain, q)
    np.testing.assert_allclose(M[1, 1], 0.02 + 1.0 * 0.25**2, rtol=1e-14)


def test_a_path_is_all_that_a_chain_needs(tmp_path):
    path = tmp_path / "arm.urdf"
    path.write_text(robot(*ARM, *HAND))
    for given in (path, str(path)):
        assert SerialChain.from_urdf(given, tip="left") == urdf.read(given, "left").chain
    assert SerialChain.from_urdf(path, tip="left").joints[-1] == "prismatic"


def test_a_robot_is_no_chain(read):
    found = read(robot(*ARM, *HAND), "left")
    for function in (composite_body.inertia_matrix, kinematics.frames, statistics.thermal_rates):
        with pytest.raises(TypeError, match=r"got Robot: use its \.chain"):
            function(found, np.zeros(3))
    with pytest.raises(
        TypeError, match=r"chains must be of SerialChain, got Robot: use its \.chain"
    ):
        Linkage((found,), Closure(0, None))
    for thing in (found, found.chain):
        with pytest.raises(TypeError, match=r"got (Robot|SerialChain)"):
            fixman.forward_dynamics(thing, np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_every_axis_has_its_frame(read, kind):
    rng = np.random.default_rng(0)
    axes = [*np.eye(3), *-np.eye(3), *rng.normal(size=(5, 3)), [1, 1, 1], [0, 1, -1]]
    for axis in axes:
        found = read(robot(link("base"), joint("j", kind, "base", "l", axis=axis), link("l", 1.0)))
        unit = np.array(axis) / np.linalg.norm(axis)
        R = found.chain.rotations[0]
        np.testing.assert_allclose(R[:, 2], unit, atol=1e-15)
        np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-15)
        assert np.linalg.det(R) > 0
        # At zero the link is where the file has it.
        np.testing.assert_allclose(R @ found.places["l"].rotation, np.eye(3), atol=1e-15)
    axial = read(robot(link("base"), joint("j", kind, "base", "l"), link("l", 1.0)))
    np.testing.assert_array_equal(axial.chain.rotations[0], np.eye(3))


def test_an_axis_left_out_is_x(read):
    text = robot(link("base"), joint("j", "revolute", "base", "l", axis=(7, 7, 7)), link("l", 1.0))
    found = read(text.replace('<axis xyz="7 7 7"/>', ""))
    np.testing.assert_array_equal(found.chain.rotations[0][:, 2], [1, 0, 0])


def test_roll_pitch_and_yaw_turn_about_fixed_axes(read):
    quarter = np.pi / 2
    text = robot(
        link("base"),
        joint("j", "revolute", "base", "l", (1, 2, 3), (quarter, 0, quarter)),
        link("l", 1.0),
    )
    chain = read(text).chain
    # Roll takes z to −y, and yaw that to x.
    np.testing.assert_allclose(chain.rotations[0][:, 2], [1, 0, 0], atol=1e-15)
    np.testing.assert_array_equal(chain.translations[0], [1, 2, 3])


def test_pieces_fixed_together_are_one_body(read):
    # A cloud of points, whole, and in halves of which one is fixed in a turned frame; inertias are
    # given in turned axes besides.  SciPy's small letters are turns about fixed axes.
    rng = np.random.default_rng(3)
    points, (fixed, *tilts) = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))

    def cloud(name, points, rpy):
        Q = Rotation.from_euler("xyz", rpy).as_matrix()
        S = len(points) * np.cov((points @ Q).T, bias=True)
        I = np.trace(S) * np.eye(3) - S  # noqa: E741
        products = I[0, 1], I[0, 2], I[1, 2]
        return link(name, len(points), points.mean(0), np.diag(I), rpy, products)

    hinge = link("base"), joint("j", "revolute", "base", "l")
    one = read(robot(*hinge, cloud("l", points, tilts[0]))).chain
    Q, at = Rotation.from_euler("xyz", fixed).as_matrix(), np.array([1.0, 2.0, 3.0])
    seen = (points[12:] - at) @ Q
    halves = cloud("l", points[:12], tilts[1]), cloud("half", seen, tilts[2])
    two = read(robot(*hinge, *halves, joint("k", "fixed", "l", "half", at, fixed)))
    for name in ("masses", "centres", "inertias"):
        np.testing.assert_allclose(getattr(two.chain, name), getattr(one, name), atol=1e-13)
    body, R, p = two.places["half"]
    assert body == 0
    np.testing.assert_allclose(seen @ R.T + p, points[12:], atol=1e-14)


def test_joints_off_the_path_are_locked_at_zero(read):
    text = robot(*ARM, *HAND)
    moving = read(text, "left")
    assert moving.joint_names == ("shoulder", "elbow", "left slide")
    for tip in ("hand", "fore"):
        locked = read(text, tip)
        assert locked.chain == read(text.replace("prismatic", "fixed")).chain
        assert locked.chain.masses[1] == pytest.approx(1.2)
        np.testing.assert_allclose(locked.places["left"].translation[[0, 2]], [0.5, 0.1])
    for kind in ("planar", "floating"):
        other = text.replace('"right slide" type="prismatic"', f'"right slide" type="{kind}"')
        assert other != text
        assert read(other, "left").chain == moving.chain
    # The chain with the slide, held, needs what the locked one does.
    q, qd, qdd = np.random.default_rng(0).normal(size=(3, 2))
    tau = newton_euler.inverse_dynamics(locked.chain, q, qd, qdd, gravity=(0, 0, -G))
    longer = (np.append(x, 0.0) for x in (q, qd, qdd))
    assert (
        error(newton_euler.inverse_dynamics(moving.chain, *longer, gravity=(0, 0, -G))[:2], tau)
        <= 1e-14
    )


def test_what_is_fixed_to_the_base_needs_no_inertia_and_has_no_part(read):
    plain = read(robot(*ARM)).chain
    wild = link("rock", 1e6, moments=(1, 1, 5))
    fixed = joint("k", "fixed", "base", "rock")
    side = joint("s", "revolute", "rock", "side"), link("side")
    found = read(robot(*ARM, wild, fixed, *side), "fore")
    assert found.chain == plain
    assert found.places["side"].body == found.places["base"].body == -1


def test_a_floating_joint_is_a_free_base(read):
    text = robot(
        link("world"), joint("f", "floating", "world", "base", (0, 0, 1), axis=(0, 0, 0)), *ARM
    )
    text = text.replace('<link name="base"/>', link("base", 5.0))
    chain = read(text).chain
    assert chain.joints == ("free", "revolute", "revolute")
    at = np.array([0.0, 0, 0, 0, 0, 0, 1, 0.3, 0.4])
    fall = articulated_body.forward_dynamics(
        chain, at, np.zeros(8), np.zeros(8), gravity=(0, 0, -G)
    )
    np.testing.assert_allclose(fall, [0, 0, -G, 0, 0, 0, 0, 0], atol=1e-13)


def test_what_the_file_has_besides_is_passed_over(read):
    noise = """<!-- autogenerated by xacro --><material name="grey"/>
      <gazebo><link name="base"/></gazebo>
      <transmission name="t"><joint name="shoulder"/></transmission>"""
    text = robot(*ARM, noise)
    assert read(text).chain == read(robot(*ARM)).chain
    spaced = text.replace(
        "<robot ", '<robot xmlns="http://drake.mit.edu" xmlns:xacro="http://ros.org/wiki/xacro" '
    )
    assert read(spaced).chain == read(text).chain
    assert (
        read(text.replace('"1.0"?>', '"1.0" encoding="UTF-16"?>').encode("utf-16")).chain
        == read(text).chain
    )


def test_robots_are_kept_and_not_changed(read):
    found = read(robot(*ARM))
    with pytest.raises(AttributeError):
        found.joint_names = ()
    same = pickle.loads(pickle.dumps(found))
    assert same.chain == found.chain
    assert same.joint_names == found.joint_names
    np.testing.assert_array_equal(same.places["fore"].rotation, found.places["fore"].rotation)


def test_robots_say_what_they_are(read):
    found = read(robot(*ARM, *HAND), "left")
    table = found._repr_html_()
    assert table.count("<tr>") == found.chain.n + 1
    assert all(f"<td>{name}</td>" in table for name in found.joint_names)
    first, second, third = repr(found).splitlines()
    assert first.startswith("<Robot: 3 bodies, 2 revolute, 1 prismatic; 3 coordinates, mass 3.")
    assert second == " joints: shoulder, elbow, left slide"
    assert third == f" notes: {len(found.notes)}>"


def test_limits_are_those_of_the_file(read):
    inf, limit = np.inf, '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
    text = robot(*ARM, *HAND)
    assert read(text, "left").limits.tolist() == [[-1, 1], [-inf, inf], [-1, 1]]
    for given, expected in (
        ("", [-inf, inf]),
        ('<limit effort="1"/>', [-inf, inf]),
        ('<limit lower="-2e-1" upper="${pi}"/>', [-0.2, inf]),
        ('<limit lower="nan" upper="NaN"/>', [-inf, inf]),
    ):
        assert read(text.replace(limit, given, 1), "left").limits[0].tolist() == expected
    for given, said in (
        ('<limit lowr="-1" upper="1"/>', "did you mean lower"),
        ('<limit LOWER="-1" upper="1"/>', "did you mean lower"),
        ('<limit lower="1" upper="-1"/>', "a lower limit of 1, above the upper one, -1"),
    ):
        with pytest.raises(ValueError, match=said):
            read(text.replace(limit, given, 1), "left")


def test_long_chains(read):
    n = 3000
    elements = [link("l0")]
    for i in range(n):
        elements += [
            joint(f"j{i}", "revolute", f"l{i}", f"l{i + 1}", (1, 0, 0)),
            link(f"l{i + 1}", 1.0),
        ]
    found = read(robot(*elements))
    assert found.chain.n == n
    assert found.joint_names == tuple(f"j{i}" for i in range(n))


def test_the_order_of_elements_is_nothing(read):
    rng = np.random.default_rng(4)
    text, tip = random_tree(12, rng)
    lines = [*ARM, *HAND]
    expected = read(robot(*lines), "left")
    for _ in range(5):
        found = read(robot(*(lines[k] for k in rng.permutation(len(lines)))), "left")
        assert found.joint_names == expected.joint_names
        np.testing.assert_allclose(found.chain.inertias, expected.chain.inertias, atol=1e-16)
    assert read(text, tip).chain.n > 2


def test_quaternions_of_version_1_1(read):
    # The axis z of the joint is turned to −y, and x stays: 2 kg at 1 m.
    half = np.sqrt(0.5)
    text = robot(
        link("base"), joint("j", "revolute", "base", "l"), link("l", 2.0, (1, 0, 0), (0, 0, 0))
    ).replace('<robot name="r"', '<robot name="r" version="1.1"')
    turned = text.replace('rpy="0 0 0"/><axis', f'quat_xyzw="{half} 0 0 {half}"/><axis')
    assert turned != text
    for each, torque in ((text, 0.0), (turned, 19.62)):
        chain = read(each).chain
        tau = newton_euler.inverse_dynamics(chain, [0.0], [0.0], [0.0], gravity=(0, 0, -G))
        np.testing.assert_allclose(tau, [torque], atol=1e-14)
    rng = np.random.default_rng(5)
    for e in rng.normal(size=(5, 4)):
        e /= np.linalg.norm(e)
        found = read(text.replace('rpy="0 0 0"/><axis', f'quat_xyzw="{numbers(e)}"/><axis'))
        np.testing.assert_allclose(
            found.chain.rotations[0], Rotation.from_quat(e).as_matrix(), atol=1e-15
        )


# A file that has each element of the format; the joint that mimics is off the path.
EVERY = robot(
    *ARM,
    *HAND,
    '<joint name="mirror" type="revolute"><parent link="hand"/><child link="m"/>'
    '<mimic joint="shoulder"/><dynamics damping="1"/></joint><link name="m"/>',
)


def inserted(tag, name, value="1"):
    """Return `EVERY` with an attribute, if it begins with @, or a child in the first of a tag."""
    root = ET.fromstring(EVERY)
    element = root if tag == "robot" else next(root.iter(tag))
    if name[0] == "@":
        element.set(name[1:], value)
    else:
        ET.SubElement(element, name)
    return ET.tostring(root, encoding="unicode")


@pytest.mark.parametrize("tag", sorted(urdf.READ))
def test_no_name_is_passed_over_in_silence(read, tag):
    plain = read(EVERY, "left")
    for name, shown in (("@zebra", "the attribute zebra"), ("zebra", "<zebra>")):
        with pytest.warns(UserWarning, match=f"has {shown}, which is not read") as caught:
            found = read(inserted(tag, name), "left")
        assert found.chain == plain.chain
        assert "robot.urdf: " in str(caught[0].message)
        assert any(shown in note for note in found.notes)
    # Names of the tables that are not read: noted, or without a part in dynamics.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in (*urdf.NOTED.get(tag, ()), *urdf.PASSED.get(tag, ())):
            found = read(EVERY if name == "limit" else inserted(tag, name), "left")
            assert found.chain == plain.chain
            noted = name in urdf.NOTED.get(tag, ())
            assert noted == any(f"{name.strip('@')}" in note for note in found.notes)


@pytest.mark.parametrize(
    ("tag", "name"),
    [(tag, name) for tag, names in sorted(urdf.READ.items()) for name in names],
)
def test_misspelt_names_are_refused(read, tag, name):
    at, bare = name[: len(name) - len(name.strip("@"))], name.strip("@")
    for wrong in (bare.upper(), bare[:1] + bare, bare[:-2] + bare[:-3:-1]):
        if wrong == bare or (len(bare) < 4 and wrong != bare.upper()):
            continue
        with pytest.raises(ValueError, match=rf"did you mean {bare}\?; strict=False"):
            read(inserted(tag, at + wrong), "left")
        with pytest.warns(UserWarning, match=f"did you mean {bare}"):
            read(inserted(tag, at + wrong), "left", strict=False)


@pytest.mark.parametrize(
    ("old", "new", "known"),
    [
        ("<origin", "<orign", "origin"),
        ("rpy=", "RPY=", "rpy"),
        ("inertial>", "inertal>", "inertial"),
        ("<dynamics damping", "<dynamic damping", "dynamics"),
    ],
)
def test_mistakes_of_spelling(read, old, new, known):
    text = EVERY.replace(old, new)
    assert text != EVERY
    with pytest.raises(ValueError, match=f"which is not read: did you mean {known}"):
        read(text, "left")


def test_the_page_has_the_tables(read):
    page = (Path(__file__).parents[1] / "docs" / "robots.md").read_text()
    for tag in urdf.READ:
        (row,) = re.findall(rf"^\| `{tag}` \|(.*)\|(.*)\|(.*)\|$", page, re.MULTILINE)
        cells = [set(re.findall(r"`(\w+)`", cell)) for cell in row]
        tables = urdf.READ[tag], urdf.NOTED.get(tag, ()), urdf.PASSED.get(tag, ())
        assert cells == [{name.strip("@") for name in table} for table in tables], tag


def test_notes_say_how_the_file_is_taken(read):
    text = EVERY.replace(link("base"), link("base", 3.0))
    head = '<joint name="shoulder" type="revolute">'
    text = text.replace(head, head + '<dynamics damping=".2" friction="1"/>')
    notes = read(text, "left").notes
    for start, end in [
        (
            "joint 'shoulder', joint 'elbow', joint 'wrist'",
            "have <limit>, which is not in the chain",
        ),
        ("joint 'shoulder'", "friction, which is not read"),
        ("joint 'shoulder'", "has damping, also in inverse dynamics"),
        ("joint 'right slide', joint 'mirror'", "off the path: locked at zero, the links lumped"),
        ("link 'base'", "has mass and stands still: free_base=True lets it move"),
    ]:
        assert any(note.startswith(start) and end in note for note in notes), (end, notes)


def test_massless_links_that_carry_mass(read):
    # A hip of three revolutes: two links between its joints have no inertial, or one of zeros.
    hip = (
        link("base"),
        joint("yaw", "revolute", "base", "a", (0, 0, 1), axis=(0, 0, 1)),
        link("a"),
        joint("roll", "revolute", "a", "b", axis=(1, 0, 0)),
        link("b", 0.0, moments=(0, 0, 0)),
        joint("pitch", "revolute", "b", "thigh", axis=(0, 1, 0)),
        link("thigh", 3.0, (0.1, 0.02, -0.2), (0.05, 0.06, 0.02)),
    )
    found = read(robot(*hip)).chain
    R = np.array([kinematics.frames(found, np.zeros(3))[0][i] for i in range(3)])
    ours = SerialChain(
        ("spherical",),
        [np.eye(3)],
        [[0, 0, 1]],
        [3.0],
        [[0.1, 0.02, -0.2]],
        [np.diag([0.05, 0.06, 0.02])],
    )
    # The axes are e_z, e_x, e_y at q = 0: the ball's accelerations there are those of the hip.
    τ = np.array([0.3, -0.2, 0.5])
    down = {"gravity": (0, 0, -G)}
    a = articulated_body.forward_dynamics(found, np.zeros(3), np.zeros(3), τ, **down)
    axes = R[:, :, 2]
    ball = articulated_body.forward_dynamics(
        ours, [0, 0, 0, 1.0], np.zeros(3), np.linalg.solve(axes, τ), **down
    )
    np.testing.assert_allclose(axes.T @ a, ball, rtol=1e-13)
    with pytest.raises(ValueError, match=r"'b', which joint 'roll' moves, has no mass, .* strict="):
        read(robot(*hip[:5], *hip[5:6], link("thigh")).replace(link("a"), link("a", 1.0)))
    with pytest.warns(UserWarning, match="link 'a', which joint 'yaw' moves, has no mass, nor"):
        bare = read(robot(*hip[:6], link("thigh")), strict=False).chain
    np.testing.assert_allclose(kinematics.position(bare, np.zeros(3), 2), [0, 0, 1])
    with pytest.raises(SingularConstraintError):
        articulated_body.forward_dynamics(bare, np.zeros(3), np.zeros(3), τ)


def test_a_free_base(read):
    text = robot(*ARM, *HAND).replace(link("base"), link("base", 5.0))
    floating = robot(link("w"), joint("f", "floating", "w", "base", axis=(0, 0, 0)), *ARM, *HAND)
    floating = floating.replace(link("base"), link("base", 5.0))
    found, other = read(text, "left", free_base=True), read(floating, "left")
    assert found.chain == other.chain
    assert found.joint_names == ("root_joint", *other.joint_names[1:])
    assert found.body_names == other.body_names == ("base", "upper", "fore", "left")
    assert found.places["base"].body == 0
    assert set(found.places) == set(other.places) - {"w"}
    one = read(robot(link("a", 2.0)), free_base=True)
    assert one.chain.joints == ("free",)
    assert one.chain.masses[0] == 2.0
    assert read(text, "base", free_base=True).chain.n == 1
    with pytest.raises(ValueError, match="joint 'f' is floating: only the first that moves"):
        read(floating, "left", free_base=True)
    with pytest.raises(ValueError, match=r"link 'base', .* has no mass"):
        read(robot(*ARM), free_base=True)
    with pytest.raises(ValueError, match="no joint moves; free_base=True makes it one floating"):
        read(robot(link("a", 2.0)))


def test_inertias_that_are_rounding(read):
    def chain(moments, centre=(0, 0, 0.1), **options):
        tip = link("l", 0.5, centre, moments)
        return read(robot(link("base"), joint("j", "revolute", "base", "l"), tip), **options).chain

    point = chain((0, 0, 0))
    assert not point.inertias.any()
    for moments in ((-5.42e-20, -5.42e-20, 0), (5.42e-20, 0, 0), (0, 1e-17, -2e-18)):
        rounded = chain(moments).inertias[0]
        assert np.linalg.eigvalsh(rounded)[0] >= 0
        assert np.abs(rounded).max() <= 1e-16
    for moments in ((-1e-6, 0, 0), (1e-6, 0, 0)):  # m ℓ² is 5e-3
        with pytest.raises(ValueError, match=r"link 'l', .* has the principal moments"):
            chain(moments)


def test_inertias_a_little_over_the_triangle_rule(read):
    # Those of TIAGo's first link of the arm: 2 % more than the other two together.
    moments = 0.00191, 0.00846, 0.0106
    tip = joint("j", "revolute", "base", "l"), link("l", 1.5, (0, 0, 0.1), moments)
    text = robot(link("base"), *tip)
    with pytest.raises(ValueError, match=r"link 'l', .* add up .*; strict=False"):
        read(text)
    with pytest.warns(UserWarning, match=r"link 'l', .*0\.0106: any two must"):
        found = read(text, strict=False)
    a, b, c = np.linalg.eigvalsh(found.chain.inertias[0])
    np.testing.assert_allclose(a + b, c, rtol=1e-14)
    # The nearest second moments: those of the file, without the negative one.
    np.testing.assert_allclose([a, b, c], [0.002025, 0.008575, 0.0106], rtol=1e-12)
    fixed = joint("k", "fixed", "l", "tool"), link("tool", 1e-3, moments=(1, 1, 3))
    with pytest.raises(ValueError, match=r"link 'l', which joint 'j' moves, has the principal"):
        read(robot(link("base"), *tip, *fixed))
    negative = text.replace('ixx="0.00191', 'ixx="-0.00191')
    with pytest.warns(UserWarning, match="none can be negative"):
        found = read(negative, strict=False)
    assert np.linalg.eigvalsh(found.chain.inertias[0])[0] >= 0


def test_files_that_strict_refuses(read):
    text = robot(*ARM, *HAND)
    with pytest.raises(ValueError, match="link 'upper' has a mass and no <inertia>; strict=False"):
        read(re.sub(r"<inertia .*?/>", "", text, count=1, flags=re.S), "fore")
    with pytest.warns(UserWarning, match="link 'upper' has a mass and no <inertia>"):
        found = read(re.sub(r"<inertia .*?/>", "", text, count=1, flags=re.S), "fore", strict=False)
    assert not found.chain.inertias[0].any()
    mimics = text.replace('<axis xyz="0 -2 0"/>', '<axis xyz="0 -2 0"/>' + MIMIC)
    with pytest.warns(UserWarning, match="joint 'left slide' mimics"):
        assert read(mimics, "left", strict=False).chain == read(text, "left").chain
    with pytest.warns(UserWarning, match="the robot has <loop_joint>: "):
        read(robot(*ARM, "<loop_joint/>"), strict=False)


def test_what_other_parsers_read(read):
    plain = read(robot(*ARM)).chain
    assert read("\n \r\n\t" + robot(*ARM)).chain == plain  # a line before <?xml
    # Prefixes that no file declares are those of other programs.
    prefixed = robot(*ARM).replace("<limit", "<drake:limit")
    with pytest.warns(UserWarning, match="joint 'shoulder', joint 'elbow' have <drake:limit>"):
        assert read(prefixed).chain == plain


def test_forged_files_are_quick_to_refuse(read):
    names = " ".join(f'a{k}="1"' for k in range(5000))
    with pytest.warns(UserWarning, match=r"has the attribute a0, .* and 4990 more$"):
        read(robot(*ARM).replace("<robot", f"<robot {names}"))
    deep = 50000
    nested = robot(*ARM, "<gazebo>" * deep + "</gazebo>" * deep)
    assert read(nested).chain == read(robot(*ARM)).chain
    with pytest.warns(UserWarning, match="which is not read") as caught:
        read(robot(*ARM).replace("<link ", f"<link {'z' * 10**6}='' ", 1))
    assert len(str(caught[0].message)) < 500


# --- what is refused -------------------------------------------------------------------------


def changed(old, new):
    text = robot(*ARM, *HAND)
    assert old in text
    return text.replace(old, new, 1)


BOMB = '<!DOCTYPE r [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><robot name="&b;"/>'
XACRO = '<robot xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="a"/></robot>'
LOOP = robot(
    *ARM,
    link("p", 1),
    link("q", 1),
    joint("pq", "revolute", "p", "q"),
    joint("qp", "revolute", "q", "p"),
    joint("own", "fixed", "q", "r"),
    link("r"),
)
HEAVY = changed("continuous", "fixed").replace('value="2"', 'value="1e308"')
HEAVY = HEAVY.replace('value="1"', 'value="1e308"')
FAR = changed("revolute", "fixed").replace('xyz="1 0 0"', 'xyz="1e308 0 0"')
FAR = FAR.replace('xyz="0 0 1"', 'xyz="1e308 0 0"')
MIMIC = '<mimic joint="right slide"/>'


@pytest.mark.parametrize(
    ("text", "tip", "message"),
    [
        ("", None, "no well-formed XML: no element found"),
        ("<robot>", None, "no well-formed XML"),
        (b"\x00\xff\xfe", None, "no well-formed XML"),
        ('<?xml version="1.0" encoding="klingon"?><robot/>', None, "no well-formed XML: .*klingon"),
        ('<?xml version="1.0" encoding="shift_jis"?><robot/>', None, "multi-byte encodings"),
        (BOMB, None, "DOCTYPE"),
        ('<!DOCTYPE robot SYSTEM "file:///etc/hostname"><robot/>', None, "DOCTYPE"),
        ("<sdf><model/></sdf>", None, "root is <sdf>, that of a URDF file is <robot>"),
        ("<robot/>", None, "there are no links"),
        (XACRO, None, "it is xacro: expand it first"),
        ("<robot><xacro:property/></robot>", None, "it is xacro"),
        ("<robot><xacro:property></robot>", None, "mismatched tag"),
        (
            changed('value="2"', 'value="${m}"'),
            "left",
            r"value of the mass of link 'upper' is '\$\{m\}': expected a finite",
        ),
        (robot(link("a")), None, "^[^:]*: no joint moves"),
        (
            robot(*ARM, *HAND),
            None,
            "tip must name a last link; chains end at 'left', 'right'",
        ),
        (robot(*ARM, *HAND), "base", "no joint on the way to link 'base' moves"),
        (
            robot(*ARM, *HAND),
            "leftt",
            "no link is called 'leftt': tip names any link, such as 'left'",
        ),
        (robot(*ARM, link("alone")), None, "links 'base', 'alone' have no parent"),
        (LOOP, "fore", "link 'q', the child of joint 'pq', is its own ancestor"),
        (
            robot(link("a"), joint("j", "revolute", "a", "a")),
            None,
            "link 'a', the child of joint 'j'",
        ),
        (
            robot(*ARM, joint("k", "fixed", "base", "fore")),
            None,
            "link 'fore' is the child of two joints, 'elbow' and 'k': .* fixman.rigid.closed",
        ),
        (robot(*ARM, link("fore")), None, "two links are called 'fore'"),
        (
            changed('joint name="elbow"', 'joint name="shoulder"'),
            None,
            "two joints are called 'shoulder'",
        ),
        (changed('link name="fore"', "link"), None, "a <link> has no name"),
        (changed('joint name="elbow"', 'joint name=" "'), None, "a <joint> has no name"),
        (changed('<parent link="base"/>', ""), None, "joint 'shoulder' has no <parent>"),
        (
            changed('<child link="upper"/>', "<child/>"),
            None,
            "the child of joint 'shoulder' has no link",
        ),
        (
            changed('<child link="upper"/>', 2 * '<child link="upper"/>'),
            None,
            "joint 'shoulder' has 2 of <child>",
        ),
        (
            changed('<parent link="upper"/>', '<parent link="uper"/>'),
            None,
            "joint 'elbow' has the parent 'uper', which is no link",
        ),
        (
            changed('<child link="fore"/>', '<child link="for"/>'),
            None,
            "joint 'elbow' has the child 'for', which is no link",
        ),
        (changed(' type="continuous"', ""), None, "joint 'elbow' has no type"),
        (changed("continuous", "ball"), None, "joint 'elbow' is 'ball': no such type is known"),
        (changed("continuous", "floating"), "left", "joint 'elbow' is floating: only the first"),
        (
            changed('<axis xyz="0 -2 0"/>', '<axis xyz="0 -2 0"/>' + MIMIC),
            "left",
            "joint 'left slide' mimics 'right slide'",
        ),
        (
            changed('<axis xyz="0 1 0"/>', '<axis xyz="0 0 0"/>'),
            "left",
            r"axis of joint 'shoulder' is \[0.0, 0.0, 0.0\]: it has no dir",
        ),
        (
            changed('<axis xyz="0 1 0"/>', '<axis xyz="0 1"/>'),
            "left",
            "xyz of the axis of joint 'shoulder' is '0 1': expected 3 finite numbers",
        ),
        (
            changed('<axis xyz="0 1 0"/>', "<axis/>"),
            "left",
            "the axis of joint 'shoulder' has no xyz",
        ),
        (
            changed('xyz="1 0 0"', 'xyz="1,0,0"'),
            "left",
            "xyz of the origin of joint 'elbow' is '1,0,0'",
        ),
        (
            changed('xyz="1 0 0"', 'xyz="nan 0 0"'),
            "left",
            "xyz of the origin of joint 'elbow' is 'nan 0 0'",
        ),
        (
            changed('xyz="1 0 0" rpy="0 0 0"', 'xyz="1 0 0" rpy="0 inf 0"'),
            "left",
            "rpy of the origin of joint 'elbow'",
        ),
        (
            changed('xyz="0.25 0 0"', 'xyz="0.25 0 1e999"'),
            "left",
            "the xyz of the origin of link 'fore' is '0.25 0 1e999'",
        ),
        (changed('<mass value="2"/>', ""), "left", "link 'upper' has no <mass>"),
        (
            changed('value="2"', 'value="-2"'),
            "left",
            "mass of link 'upper' is -2.0: it must not be negative",
        ),
        (
            changed('value="2"', 'value="two"'),
            "left",
            "value of the mass of link 'upper' is 'two': expected a finite number",
        ),
        (changed('iyz="0"', ""), "left", "the inertia of link 'upper' has no iyz"),
        (
            changed('izz="0.2', 'izz="0.3'),
            "left",
            "link 'upper', which joint 'shoulder' moves, has .* 0.01, 0.2 and 0.3: any two",
        ),
        (
            changed('ixx="0.01', 'ixx="-0.01'),
            "left",
            "link 'upper', which joint 'shoulder' moves, has .* -0.01, 0.2 and 0.2: none can",
        ),
        (
            robot(*ARM[:4], link("fore")),
            None,
            "link 'fore', which joint 'elbow' moves, has no mass, .*; strict",
        ),
        (
            robot(*ARM[:2], link("upper", 0.0, moments=(0, 0, 0)), ARM[3], link("fore")),
            None,
            "link 'upper', which joint 'shoulder' moves, has no mass, nor has what it carries",
        ),
        (changed('rpy="0 0 0"', 'quat_xyzw="1 1 0 0"'), "left", "has the norm 1.41421, expected 1"),
        (
            changed('rpy="0 0 0"', 'rpy="0 0 0" quat_xyzw="1 0 0 0"'),
            "left",
            "the quat_xyzw of the origin of joint 'shoulder' has rpy beside it",
        ),
        (
            robot(*ARM, '<loop_joint name="k" type="revolute"/>'),
            None,
            "the robot has <loop_joint>: .* fixman.rigid.closed",
        ),
        (
            changed('xyz="0.25 0 0"', 'xyz="1e200 0 0"'),
            "left",
            "the inertia of link 'fore', which joint 'elbow' moves, overflows",
        ),
        (HEAVY, "left", "the inertia of link 'upper', which joint 'shoulder' moves, overflows"),
        (FAR, "left", "the place of joint 'elbow' overflows"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_refusals(read, text, tip, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(text, tip)
    assert "robot.urdf: " in str(caught.value)


def test_an_entity_bomb_is_not_lit(read):
    ten = "".join(f'<!ENTITY e{i} "{10 * f"&e{i - 1};"}">' for i in range(1, 40))
    text = f'<!DOCTYPE r [<!ENTITY e0 "lol">{ten}]><robot name="&e39;"/>'
    with pytest.raises(ValueError, match="DOCTYPE"):
        read(text)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.urdf"):
        urdf.read(tmp_path / "no.urdf")
    with pytest.raises(IsADirectoryError):
        urdf.read(tmp_path)
    for path in (None, 3, b"robot.urdf", ["robot.urdf"]):
        with pytest.raises(TypeError, match="path must be a path"):
            SerialChain.from_urdf(path)
    with pytest.raises(TypeError, match="tip must be the name of a link, got 7"):
        urdf.read("robot.urdf", 7)
    with pytest.raises(ValueError, match="path must be the name"):
        urdf.read("")
    with pytest.raises(ValueError, match="name of a file, got XML"):
        SerialChain.from_urdf(robot(*ARM))


@pytest.mark.filterwarnings("ignore:.*which is not read", "error::RuntimeWarning")
def test_damaged_texts_are_read_or_refused(read):
    text = robot(*ARM, *HAND)
    rng = np.random.default_rng(1)
    refused = others = 0
    for _ in range(400):
        at, size = rng.integers(len(text)), rng.integers(1, 12)
        put = "".join(chr(c) for c in rng.integers(32, 127, size=rng.integers(0, 3)))
        try:
            chain = read(text[:at] + put + text[at + size :], "left").chain
        except ValueError as wrong:
            refused += "robot.urdf: " in str(wrong)
            others += "robot.urdf: " not in str(wrong)
        else:
            assert np.isfinite(chain.inertias).all()
    assert others == 0
    assert 100 < refused < 400


def test_damping_is_read_and_friction_is_not(read):
    def damped(text, name, value, kind="revolute"):
        head = f'<joint name="{name}" type="{kind}">'
        assert head in text
        return text.replace(head, f'{head}<dynamics damping="{value}" friction="0.7"/>')

    text = robot(*ARM, *HAND)
    found = read(damped(damped(text, "shoulder", 0.3), "left slide", 5, "prismatic"), "left").chain
    np.testing.assert_array_equal(found.damping, [0.3, 0, 5])
    assert not found.stiffness.any()
    # A joint that is locked has none.
    assert (
        read(damped(text, "left slide", 5, "prismatic"), "fore").chain == read(text, "fore").chain
    )
    for value, message in [
        ("-1", "the damping of joint 'shoulder' is -1.0: it must not be negative"),
        ("much", "the damping of joint 'shoulder' is 'much': expected a finite number"),
    ]:
        with pytest.raises(ValueError, match=message):
            read(damped(text, "shoulder", value), "left")
    floating = robot(joint("f", "floating", "world", "base"), link("world"), *ARM)
    with pytest.raises(ValueError, match=r"damping of joint 'f' is 2\.0: .* a floating joint"):
        read(damped(floating, "f", 2, "floating").replace(link("base"), link("base", 1.0)))
