"""Chains from URDF files: closed forms, laws of lumping, names, and refusals by name."""

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

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
from urdf_texts import joint, link, random_tree, robot

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

    def read(text, tip=None):
        path = tmp_path / "robot.urdf"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return urdf.read(path, tip)

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


def test_a_robot_is_no_chain_and_a_text_is_no_path(read):
    found = read(robot(*ARM, *HAND), "left")
    for function in (composite_body.inertia_matrix, kinematics.frames, statistics.thermal_rates):
        with pytest.raises(TypeError, match=r"got Robot: use its \.chain"):
            function(found, np.zeros(3))
    with pytest.raises(
        TypeError, match=r"chains must be of SerialChain, got Robot: use its \.chain"
    ):
        Linkage((found,), Closure(0, None))
    for text in (robot(*ARM), "\n  " + robot(*ARM), "\ufeff<robot/>"):
        with pytest.raises(ValueError, match="path must be that of a file, got the text") as caught:
            SerialChain.from_urdf(text)
        assert len(str(caught.value)) < 120


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
    with pytest.raises(FrozenInstanceError):
        found.joint_names = ()
    with pytest.raises(ValueError, match="read-only"):
        found.places["fore"].rotation[0, 0] = 2.0
    with pytest.raises(TypeError, match="item assignment"):
        found.places["fore"] = found.places["base"]
    same = pickle.loads(pickle.dumps(found))
    assert same.chain == found.chain
    assert same.joint_names == found.joint_names
    np.testing.assert_array_equal(same.places["fore"].rotation, found.places["fore"].rotation)


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
        (XACRO, None, "it has <xacro:property>: this is xacro: expand it first"),
        ("<robot><xacro:property/></robot>", None, "unbound prefix.*; this is xacro"),
        (
            changed('value="2"', 'value="${m}"'),
            "left",
            r"value of the mass of link 'upper' is '\$\{m\}': this is xacro",
        ),
        (changed('link name="fore"', 'link name="${p}fore"'), "left", "this is xacro"),
        (changed('value="2"', 'value="$(arg m)"'), "left", r"'\$\(arg m\)': this is xacro"),
        (changed('value="2"', 'value="2_0"'), "left", "'2_0': expected a finite number"),
        (changed('value="2"', 'value="٢"'), "left", "'٢': expected a finite number"),
        (robot(link("a")), None, "^[^:]*: no joint moves"),
        (
            robot(*ARM, *HAND),
            None,
            "name the last link: chains end at 'left', 'right', or .* before, as 'upper', 'fore'",
        ),
        (robot(*ARM, *HAND), "base", "no joint on the way to link 'base' moves"),
        (robot(*ARM, *HAND), "leftt", "no link is called 'leftt': chains end at 'left', 'right'"),
        (
            robot(*ARM, *HAND),
            "elbow",
            "no link is called 'elbow': it is a joint, which moves link 'fore'",
        ),
        (robot(*ARM, link("alone")), None, "links 'base', 'alone' have no parent"),
        (LOOP, "fore", "link 'p', the child of joint 'qp', is its own ancestor"),
        (
            robot(link("a"), joint("j", "revolute", "a", "a")),
            None,
            "link 'a', the child of joint 'j'",
        ),
        (
            robot(*ARM, joint("k", "fixed", "base", "fore")),
            None,
            "link 'fore' is the child of two joints, 'elbow' and 'k'",
        ),
        (robot(*ARM, link("fore")), None, "two links are called 'fore'"),
        (
            changed('joint name="elbow"', 'joint name="shoulder"'),
            None,
            "two joints are called 'shoulder'",
        ),
        (changed('link name="fore"', "link"), None, "a <link> has no name"),
        (changed("fore", 1001 * "f"), None, "child of joint 'elbow' has 1001 characters"),
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
        (changed("continuous", "planar"), "left", "joint 'elbow' is planar: of joints that move"),
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
            "the origin of the inertial of link 'fore' is '0.25 0 1e999'",
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
            "link 'upper', which joint 'shoulder' moves, are 0.01, 0.2 and 0.3: no masses",
        ),
        (
            changed('ixx="0.01', 'ixx="-0.01'),
            "left",
            "link 'upper', which joint 'shoulder' moves, are -0.01, 0.2 and 0.2: none can",
        ),
        (
            robot(*ARM[:2], link("upper"), *ARM[3:]),
            None,
            "link 'upper', which joint 'shoulder' moves, has no mass",
        ),
        (
            robot(*ARM[:2], link("upper", 0.0), *ARM[3:]),
            None,
            "link 'upper', which joint 'shoulder' moves, has no mass",
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


def test_files_too_large_to_be_one(read, monkeypatch):
    text = robot(*ARM)
    monkeypatch.setattr(urdf, "LARGEST", len(text))
    read(text)
    with pytest.raises(ValueError, match=f"larger than {len(text)} bytes"):
        read(text + " ")


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


@pytest.mark.filterwarnings("error")
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
    with pytest.raises(ValueError, match=r"damping of joint 'f' is 2\.0: a floating joint can"):
        read(damped(floating, "f", 2, "floating").replace(link("base"), link("base", 1.0)))
