"""`SerialChain`, inverse dynamics and composite bodies: closed forms, laws, and refusals."""

import pickle
import tracemalloc
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from fixman import rigid
from fixman.errors import SingularConstraintError
from fixman.rigid import SerialChain, composite_body, newton_euler, spatial
from oracles import error
from rigid_cases import changed
from rigid_oracles import quaternion_matrix, random_q

G = 9.81


def body(n=1, **changes):
    """Return the arguments of a valid chain of revolute joints, some of them changed."""
    arguments = {
        "joints": ("revolute",) * n,
        "rotations": np.broadcast_to(np.eye(3), (n, 3, 3)),
        "translations": np.zeros((n, 3)),
        "masses": np.ones(n),
        "centres": np.zeros((n, 3)),
        "inertias": np.broadcast_to(np.eye(3), (n, 3, 3)),
    }
    return arguments | changes


def stanford_arm():
    """Saha 1999, Table 3, where r is −com; r_y of link 4 is printed 1, the picture wants 0.1."""
    quarter = np.pi / 2
    return SerialChain.from_dh(
        a=np.zeros(6),
        b=[0.2, 0.1, 0, 0.6, 0, 0],
        alpha=[-quarter, -quarter, 0, quarter, -quarter, 0],
        theta=np.zeros(6),
        joints=("revolute", "revolute", "prismatic", "revolute", "revolute", "revolute"),
        masses=[9, 6, 4, 1, 0.6, 0.5],
        com=[[0, 0.1, 0], [0, 0, 0], [0, 0, 0], [0, -0.1, 0], [0, 0, 0], [0, 0, 0]],
        inertias=[
            [0.01, 0.02, 0.01], [0.05, 0.06, 0.01], [0.4, 0.4, 0.01],
            [0.001, 0.001, 0.0005], [0.0005, 0.0005, 0.0002], [0.003, 0.001, 0.002],
        ],
    )  # fmt: skip


# --- the class -------------------------------------------------------------------------------


@pytest.mark.thorough
def test_type_checkers_take_numbers_for_rotors_and_springs(tmp_path):
    """And know that they are arrays once the chain is made."""
    api = pytest.importorskip("mypy.api")
    code = tmp_path / "user.py"
    code.write_text(
        "from dataclasses import replace\n"
        "from fixman.rigid import SerialChain\n"
        "arm = replace(SerialChain.snake(2), armature=0.1, damping=None, stiffness=[1, 2])\n"
        "arm.armature.sum()\n"
        "replace(arm, damping=object())  # type: ignore[arg-type]\n"
    )
    root = Path(__file__).parents[1]
    options = "--strict", "--config-file", str(root / "pyproject.toml"), "--cache-dir"
    said, _, code_of_exit = api.run([*options, str(tmp_path / "cache"), str(code)])
    assert code_of_exit == 0, said


def test_modules_show_public_names_alone():
    names = dir(rigid)
    assert names == sorted(rigid.__all__)
    for name in (*names[1:], "model", "spatial"):
        module = import_module(f"fixman.rigid.{name}")
        assert module.__all__
        assert all(hasattr(module, public) and public[0] != "_" for public in module.__all__)


def test_sizes_and_content():
    joints = ("free", "revolute", "spherical", "prismatic")
    arm = SerialChain(**body(4, joints=joints))
    assert (arm.n, arm.nq, arm.nv) == (4, 13, 11)
    np.testing.assert_array_equal(arm.position_offsets, [0, 7, 8, 12, 13])
    np.testing.assert_array_equal(arm.rate_offsets, [0, 6, 7, 10, 11])
    kinds = "1 free, 1 revolute, 1 spherical, 1 prismatic"
    masses = f"mass {arm.masses.sum():g}"
    assert repr(arm) == f"<SerialChain: 4 bodies, {kinds}; 13 coordinates, 11 rates, {masses}>"
    same = pickle.loads(pickle.dumps(arm))
    assert same == arm
    assert hash(same) == hash(arm)
    assert arm != SerialChain(**body(4, joints=joints, masses=[1, 1, 1, 2]))
    assert arm != "arm"
    for array in (arm.masses, arm.kinds, arm.position_offsets, arm.rate_offsets):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 2
    # Kernels are compiled for arrays that are not.
    assert arm._kinds.flags.writeable
    assert arm._table.flags.writeable


def test_the_sign_of_zero_is_no_content():
    plain, negative = SerialChain(**body()), SerialChain(**body(translations=[[-0.0, 0.0, -0.0]]))
    assert plain == negative
    assert hash(plain) == hash(negative)


def test_joints_can_come_one_by_one():
    joints = ("revolute", "prismatic")
    assert SerialChain(**body(2, joints=iter(joints))) == SerialChain(**body(2, joints=joints))


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_no_body_has_a_moment_larger_than_the_other_two_together(size):
    rng = np.random.default_rng(13)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    for moments in ([1.0, 1.0, 3.0], [1.0, 1.0, 2.03], [0.0, 0.0, 1.0]):
        tensor = size * turn @ np.diag(moments) @ turn.T
        three = [np.eye(3), (tensor + tensor.T) / 2, np.eye(3)]
        with pytest.raises(ValueError, match=r"body 1 has the principal moments .* any two"):
            SerialChain(**body(3, inertias=three))
    with pytest.raises(ValueError, match="body 0 has the principal moments 1, 1 and 3"):
        SerialChain(**body(inertias=[np.diag([1.0, 3.0, 1.0])]))
    for moments in ([1.0, 1.0, 0.0], [1.0, 1.0, 2.0], [1.0, 1.0, 2.01], [1.0, 1.0, 1e-14]):
        tensor = size * turn @ np.diag(moments) @ turn.T
        SerialChain(**body(inertias=[(tensor + tensor.T) / 2]))


def test_rods_and_plates_can_come_in_three_digits():
    # Plates, the first a square of 1 kg and 1 m; rods in random directions, which may come out
    # negative.
    rng = np.random.default_rng(2)
    for a, b in [(1 / 12, 1 / 12), *10.0 ** rng.uniform(-1, 0, (200, 2))]:
        SerialChain(**body(inertias=[np.diag([float(f"{x:.3g}") for x in (a, b, a + b)])]))
    negative = 0
    for _ in range(50):
        u = rng.normal(size=3)
        rod = np.eye(3) - np.outer(u, u) / (u @ u)
        rough = np.array([[float(f"{x:.3g}") for x in row] for row in rod])
        arm = SerialChain(**body(inertias=[rough]))
        negative += np.linalg.eigvalsh(rough)[0] < -1e-9
        assert np.linalg.eigvalsh(arm.inertias[0])[0] >= -1e-15
        assert np.abs(arm.inertias[0] - rough).max() <= 0.01
        assert SerialChain(**body(inertias=arm.inertias)) == arm
    assert negative > 10
    with pytest.raises(ValueError, match=r"-0.02, 1 and 1: none can be negative"):
        SerialChain(**body(inertias=[np.diag([1.0, 1.0, -0.02])]))


def test_inertias_up_to_the_largest_number():
    largest = 1.7e308 * np.eye(3)
    np.testing.assert_array_equal(SerialChain(**body(inertias=[largest])).inertias[0], largest)


def test_arrays_are_copied():
    masses = np.ones(1)
    arm = SerialChain(**body(masses=masses))
    masses[0] = 5.0
    assert arm.masses[0] == 1.0


def test_rough_rotations_are_made_exact_and_exact_ones_are_kept():
    arm = SerialChain.random(20, 0)
    rough = arm.rotations + 1e-10 * np.random.default_rng(0).normal(size=arm.rotations.shape)
    R = SerialChain(**body(20, rotations=rough)).rotations
    assert np.abs(R.swapaxes(1, 2) @ R - np.eye(3)).max() <= 1e-15
    assert np.abs(R - rough).max() <= 1e-9
    assert pickle.loads(pickle.dumps(arm)) == arm
    np.testing.assert_array_equal(SerialChain(**body(20, rotations=R)).rotations, R)
    single = SerialChain(**body(20, rotations=R.astype(np.float32))).rotations
    assert np.abs(single - R).max() < 3e-7
    assert np.abs(single.swapaxes(1, 2) @ single - np.eye(3)).max() <= 1e-15


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joints": ()}, "at least one joint"),
        ({"joints": "revolute"}, "sequence of names"),
        ({"joints": ("hinge",)}, "joint 0 is 'hinge'"),
        ({"joints": (3,)}, "joint 0 is 3"),
        ({"joints": None}, "sequence of names, got None"),
        ({"joints": {"revolute"}}, "sequence of names"),
        ({"masses": [-1.0]}, "the mass of body 0"),
        ({"masses": [np.nan]}, "masses is nan at body 0"),
        ({"masses": [1.0, 2.0]}, r"masses must have shape \(1,\)"),
        ({"rotations": [np.diag([1.0, 1.0, -1.0])]}, "the rotation of joint 0"),
        ({"rotations": [2 * np.eye(3)]}, "the rotation of joint 0"),
        ({"rotations": [1e200 * np.eye(3)]}, "the rotation of joint 0"),
        ({"centres": np.zeros(3)}, r"centres must have shape \(1, 3\)"),
        ({"translations": [[0, np.inf, 0]]}, "translations is inf at body 0"),
        ({"inertias": [np.diag([1.0, 1.0, -1.0])]}, "-1, 1 and 1: none can be negative"),
        ({"inertias": [np.triu(np.ones((3, 3)))]}, "not symmetric"),
        ({"inertias": [[[1e308, 1e308, 0], [-1e308, 1e308, 0], [0, 0, 1e308]]]}, "not symmetric"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_refusals(changes, message):
    with pytest.raises(ValueError, match=message):
        SerialChain(**body(**changes))


def test_only_the_first_joint_can_be_free():
    with pytest.raises(ValueError, match="joint 1 is free"):
        SerialChain(**body(2, joints=("revolute", "free")))


def test_random_chains_repeat_and_have_the_joints_asked_for():
    assert SerialChain.random(9, 3) == SerialChain.random(9, np.random.default_rng(3))
    assert set(SerialChain.random(50, 0, joints=("prismatic",)).joints) == {"prismatic"}
    assert SerialChain.random(5, 0, free_base=True).joints[0] == "free"
    for arguments, message in [
        ({"n": 0}, "n must be at least 1"),
        ({"n": 2, "joints": ()}, "at least one kind"),
        ({"n": 2, "joints": "revolute"}, "sequence of names"),
    ]:
        with pytest.raises(ValueError, match=message):
            SerialChain.random(**arguments)


def test_snakes_bend_in_two_planes_in_turn():
    n, length, mass, radius = 5, 0.4, 2.0, 0.1
    arm = SerialChain.snake(n, length=length, mass=mass, radius=radius)
    across, along = mass * (3 * radius**2 + length**2) / 12, mass * radius**2 / 2
    M = composite_body.inertia_matrix(arm, np.zeros(n))
    for i in range(n):
        for k in range(n):
            levers = (np.arange(max(i, k), n) + 0.5) * length
            product = (levers - i * length) @ (levers - k * length)
            expected = mass * product + (n - max(i, k)) * across if (i - k) % 2 == 0 else 0.0
            np.testing.assert_allclose(M[i, k], expected, atol=1e-14)
    # Beyond a right angle in the second joint the rest hangs along −z, and turns about it.
    bent = composite_body.inertia_matrix(arm, [0, np.pi / 2, 0, 0, 0])
    hanging = mass * length**2 + along
    np.testing.assert_allclose(bent[0, 0], across + mass * length**2 / 4 + 4 * hanging)
    still, q = np.zeros(n), np.array([0, 0.3, 0, 0, 0])
    tau = newton_euler.inverse_dynamics(arm, q, still, still, gravity=[0, 0, -G])
    np.testing.assert_allclose(tau[1], -4 * mass * G * 2 * length * np.cos(0.3))
    free = SerialChain.snake(n, free_base=True)
    assert free.joints == ("free", *("revolute",) * 4)
    assert SerialChain.snake(n) == changed(free, joints=("revolute",) * n)
    for changes, message in [
        ({"n": 0}, "n must be at least 1"),
        ({"n": 2, "radius": 0.0}, "radius must be positive"),
        ({"n": 2, "mass": np.inf}, "mass must be positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            SerialChain.snake(**changes)


# --- Denavit–Hartenberg ----------------------------------------------------------------------


def dh_frames(a, b, alpha, theta):
    """Frames 1 … n + 1 in the base by the four elementary transforms."""
    T, frames = np.eye(4), [np.eye(4)]
    for ai, bi, al, th in zip(a, b, alpha, theta, strict=True):
        ca, sa, ct, st = np.cos(al), np.sin(al), np.cos(th), np.sin(th)
        about_z = np.array([[ct, -st, 0, 0], [st, ct, 0, 0], [0, 0, 1, bi], [0, 0, 0, 1]])
        about_x = np.array([[1, 0, 0, ai], [0, ca, -sa, 0], [0, sa, ca, 0], [0, 0, 0, 1]])
        T = T @ about_z @ about_x
        frames.append(T)
    return np.array(frames)


def test_from_dh_against_elementary_transforms_and_jacobians():
    rng = np.random.default_rng(1)
    n = 7
    joints = tuple(rng.choice(["revolute", "prismatic"], size=n))
    a, b, alpha, theta, q = rng.normal(size=(5, n))
    com, tensors = rng.normal(size=(n, 3)), SerialChain.random(n, rng).inertias
    masses = rng.uniform(1, 2, n)
    arm = SerialChain.from_dh(
        a, b, alpha, theta, joints=joints, masses=masses, com=com, inertias=tensors
    )
    turning = np.array([joint == "revolute" for joint in joints])
    frames = dh_frames(a, b + q * ~turning, alpha, theta + q * turning)
    R, o = frames[:, :3, :3], frames[:, :3, 3]
    centres = o[1:] + np.einsum("nij,nj->ni", R[1:], com)
    expected = np.zeros((n, n))
    for k in range(n):
        z = R[: k + 1, :, 2]
        moving = turning[: k + 1, None]
        linear = np.where(moving, np.cross(z, centres[k] - o[: k + 1]), z)
        angular = z * moving
        world = R[k + 1] @ tensors[k] @ R[k + 1].T
        expected[: k + 1, : k + 1] += masses[k] * linear @ linear.T + angular @ world @ angular.T
    assert error(composite_body.inertia_matrix(arm, q), expected) <= 1e-14
    weight = -np.array([0.3, -0.2, 1.0])
    load = np.zeros(n)
    for k in range(n):
        z = R[: k + 1, :, 2]
        lever = np.cross(z, centres[k] - o[: k + 1])
        load[: k + 1] -= masses[k] * np.where(turning[: k + 1, None], lever, z) @ weight
    still = np.zeros(n)
    assert error(newton_euler.inverse_dynamics(arm, q, still, still, gravity=weight), load) <= 1e-14


def test_stanford_arm_at_rest():
    # θ₂ = 90° and b₃ = 0, where Figure 8 starts: the boom is level along −X, so joint 3 carries
    # nothing, and joint 2 link 4 at 0.5 m and links 5 and 6 at 0.6 m.
    arm = stanford_arm()
    q = np.array([0, np.pi / 2, 0, 0, 0, 0])
    still = np.zeros(6)
    tau = newton_euler.inverse_dynamics(arm, q, still, still, gravity=[0, 0, -G])
    expected = [0, (1 * 0.5 + 1.1 * 0.6) * G, 0, 0, 0, 0]
    np.testing.assert_allclose(tau, expected, atol=1e-14)
    held = newton_euler.joint_wrenches(arm, q, still, still, gravity=[0, 0, -G])
    np.testing.assert_allclose(held[0, :3], [0, 0, 21.1 * G], atol=1e-13)
    # With θ₂ = 150° and b₃ = 0.1 m the boom points up by 60°, along (−cos 60°, 0, sin 60°) turned
    # by θ₁: joint 3 carries what is beyond it, and joint 2 holds it up with a shorter lever.
    q = np.array([1.0, np.pi / 2 + np.pi / 3, 0.1, 1.0, 1.0, 1.0])
    tau = newton_euler.inverse_dynamics(arm, q, still, still, gravity=[0, 0, -G])
    np.testing.assert_allclose(tau[0], 0, atol=1e-14)
    np.testing.assert_allclose(tau[2], 6.1 * G * np.sin(np.pi / 3), rtol=1e-14)
    lever = 4 * 0.1 + 1 * 0.6 + 1.1 * 0.7
    np.testing.assert_allclose(tau[1], lever * G * np.cos(np.pi / 3), rtol=1e-14)


def test_ur5_with_the_parameters_of_corke():
    """His r is com; taken the other way, Saha's, the shoulder is off by 41 N·m."""
    quarter = np.pi / 2
    frames = {
        "a": np.array([0, -0.42500, -0.39225, 0, 0, 0]),
        "b": np.array([0.089459, 0, 0, 0.10915, 0.09465, 0.0823]),
        "alpha": np.array([quarter, 0, 0, quarter, -quarter, 0]),
    }
    masses = np.array([3.7000, 8.3930, 2.33, 1.2190, 1.2190, 0.1897])
    com = np.array(
        [[0, -0.02561, 0.00193], [0.2125, 0, 0.11336], [0.15, 0, 0.0265],
         [0, -0.0018, 0.01634], [0, -0.0018, 0.01634], [0, 0, -0.001159]]
    )  # fmt: skip
    arm, turned = (
        SerialChain.from_dh(
            **frames, theta=np.zeros(6), joints=("revolute",) * 6, masses=masses, com=each,
            inertias=np.zeros((6, 3)),
        )
        for each in (com, -com)
    )  # fmt: skip

    def height(q):  # of the weights, times g
        T = dh_frames(frames["a"], frames["b"], frames["alpha"], q)[1:]
        return G * masses @ (T[:, :3, 3] + np.einsum("nij,nj->ni", T[:, :3, :3], com))[:, 2]

    step = 1e-6 * np.eye(6)
    for q in (np.zeros(6), np.array([0.1, -0.8, 0.9, 0.3, -0.4, 0.2])):
        expected = np.array([(height(q + h) - height(q - h)) / 2e-6 for h in step])
        held, wrong = (
            newton_euler.inverse_dynamics(each, q, 0 * q, 0 * q, gravity=[0, 0, -G])
            for each in (arm, turned)
        )
        np.testing.assert_allclose(held, expected, atol=1e-7)
        if not q.any():
            assert 40 < np.abs(wrong - held).max() < 43


@pytest.mark.filterwarnings("error")
def test_refusals_of_from_dh():
    good = {
        "a": [0], "b": [0], "alpha": [0], "theta": [0],
        "joints": ("revolute",), "masses": [1], "com": np.zeros((1, 3)),
        "inertias": np.ones((1, 3)),
    }  # fmt: skip
    SerialChain.from_dh(**good)
    for changes, message in [
        ({"joints": ("spherical",)}, "only revolute and prismatic"),
        ({"a": [0, 1]}, r"a must have shape \(1,\)"),
        ({"com": np.zeros(3)}, r"com must have shape \(1, 3\)"),
        ({"inertias": np.zeros((2, 3))}, "inertias must have shape"),
        ({"inertias": np.nan}, "inertias must have shape"),
        ({"masses": [-1]}, "the mass of body 0"),
        ({"a": [np.inf]}, "a is inf at joint 0"),
        ({"alpha": [np.inf]}, "alpha is inf at joint 0"),
        ({"theta": [np.nan]}, "theta is nan at joint 0"),
        ({"masses": [np.inf]}, "masses is inf at body 0"),
        ({"com": [[0, np.inf, 0]]}, "com is inf at body 0"),
        ({"inertias": [[1, 1, np.inf]]}, "inertias is inf at body 0"),
        ({"a": [1.7e308], "com": [[1.7e308, 0, 0]]}, "is inf at body 0"),
    ]:
        with pytest.raises(ValueError, match=message):
            SerialChain.from_dh(**(good | changes))


def test_planar_arms_of_finite_numbers_only():
    for k, name in enumerate(("lengths", "masses", "inertias")):
        arguments = [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
        arguments[k][1] = np.inf
        with pytest.raises(ValueError, match=f"^{name} is inf at body 1"):
            SerialChain.planar(*arguments)


# --- closed forms ----------------------------------------------------------------------------


def test_planar_arm_of_two_links():
    l1, l2, m1, m2, i1, i2 = 0.7, 0.4, 2.0, 1.5, 0.3, 0.2
    arm = SerialChain.planar([l1, l2], [m1, m2], [i1, i2])
    q, qd, qdd = np.array([[0.4, -1.1], [0.9, 1.7], [-0.3, 0.8]])
    c, s, h = np.cos(q[1]), np.sin(q[1]), l1 * l2 / 2
    b = i2 + m2 * l2**2 / 4
    a = i1 + m1 * l1**2 / 4 + m2 * l1**2 + b
    inertia = np.array([[a + 2 * m2 * h * c, b + m2 * h * c], [b + m2 * h * c, b]])
    # In the plane the paper's matrix is that of Christoffel symbols.
    C = -m2 * h * s * np.array([[qd[1], qd[0] + qd[1]], [-qd[0], 0]])
    weight = G * np.array(
        [
            (m1 / 2 + m2) * l1 * np.cos(q[0]) + m2 * l2 / 2 * np.cos(q.sum()),
            m2 * l2 / 2 * np.cos(q.sum()),
        ]
    )
    assert error(composite_body.inertia_matrix(arm, q), inertia) <= 1e-15
    for christoffel in (False, True):
        found = composite_body.convective_matrix(arm, q, qd, christoffel=christoffel)
        assert error(found, C) <= 1e-15
    tau = newton_euler.inverse_dynamics(arm, q, qd, qdd, gravity=[0, -G, 0])
    assert error(tau, inertia @ qdd + C @ qd + weight) <= 1e-15
    back = composite_body.forward_dynamics(arm, q, qd, tau, gravity=[0, -G, 0])
    assert error(back, qdd) <= 1e-14


def test_a_free_body_follows_eulers_equations():
    inertia = np.diag([1.0, 2.0, 3.0])
    arm = SerialChain(**body(joints=("free",), masses=[2.0], inertias=[inertia]))
    rng = np.random.default_rng(0)
    q, qd, qdd = random_q(arm, rng), rng.normal(size=6), rng.normal(size=6)
    g = np.array([0, 0, -G])
    v, w = qd[:3], qd[3:]
    fall = quaternion_matrix(q[3:]).T @ g
    force = 2.0 * (qdd[:3] + np.cross(w, v) - fall)
    moment = inertia @ qdd[3:] + np.cross(w, inertia @ w)
    found = newton_euler.inverse_dynamics(arm, q, qd, qdd, gravity=g)
    assert error(found, np.concatenate([force, moment])) <= 1e-15
    loaded = newton_euler.inverse_dynamics(arm, q, qd, qdd, gravity=g, wrenches=[found])
    assert np.abs(loaded).max() <= 1e-14


def test_inertia_matrix_from_dense_spatial_matrices():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arm = SerialChain.random(int(rng.integers(1, 12)), rng, free_base=seed % 2 == 0)
        q = random_q(arm, rng)
        N = np.zeros((arm.n, 6, arm.nv))
        for i, joint in enumerate(arm.joints):
            own = q[arm.position_offsets[i] : arm.position_offsets[i + 1]]
            R, p = arm.rotations[i], arm.translations[i]
            if joint == "revolute":
                R = R @ quaternion_matrix([0, 0, np.sin(own[0] / 2), np.cos(own[0] / 2)])
            elif joint == "prismatic":
                p = p + R[:, 2] * own[0]
            else:
                p = p + R @ own[:3] if joint == "free" else p
                R = R @ quaternion_matrix(own[-4:])
            if i > 0:
                N[i] = spatial.propagation(R, p) @ N[i - 1]
            rates = slice(arm.rate_offsets[i], arm.rate_offsets[i + 1])
            N[i, :, rates] = spatial.joint_axes(arm.kinds[i])
        M = spatial.inertia(arm.masses, arm.centres, arm.inertias)
        expected = np.einsum("nai,nab,nbj->ij", N, M, N)
        assert error(composite_body.inertia_matrix(arm, q), expected) <= 1e-13


# --- shapes and refusals ---------------------------------------------------------------------


@pytest.fixture
def case():
    """Return an arm with every kind of joint, and a batch (2, 3) of states."""
    rng = np.random.default_rng(5)
    joints = ("free", "revolute", "spherical", "prismatic", "revolute")
    arm = changed(SerialChain.random(5, rng), joints=joints)
    q = np.array([[random_q(arm, rng) for _ in range(3)] for _ in range(2)])
    qd, qdd = rng.normal(size=(2, 2, 3, arm.nv))
    return arm, q, qd, qdd, rng.normal(size=(2, 3, arm.n, 6))


def test_batches_are_their_frames(case):
    arm, q, qd, qdd, W = case
    loads = {"gravity": [0, 0, -G], "wrenches": W}
    tau = newton_euler.inverse_dynamics(arm, q, qd, qdd, **loads)
    inner = newton_euler.joint_wrenches(arm, q, qd, qdd, **loads)
    back = composite_body.forward_dynamics(arm, q, qd, tau, **loads)
    C, matrix = composite_body.convective_matrix(arm, q, qd), composite_body.inertia_matrix(arm, q)
    assert inner.shape == (2, 3, 5, 6)
    assert C.shape == matrix.shape == (2, 3, arm.nv, arm.nv)
    assert error(back, qdd) <= 1e-12
    for k in np.ndindex(2, 3):
        one = {"gravity": [0, 0, -G], "wrenches": W[k]}
        np.testing.assert_array_equal(
            newton_euler.inverse_dynamics(arm, q[k], qd[k], qdd[k], **one), tau[k]
        )
        np.testing.assert_array_equal(
            newton_euler.joint_wrenches(arm, q[k], qd[k], qdd[k], **one), inner[k]
        )
        found = composite_body.forward_dynamics(arm, q[k], qd[k], tau[k], **one)
        assert error(found, back[k]) <= 1e-13
        np.testing.assert_array_equal(composite_body.convective_matrix(arm, q[k], qd[k]), C[k])
        np.testing.assert_array_equal(composite_body.inertia_matrix(arm, q[k]), matrix[k])
    # One configuration, many rates; lists and integers; an empty batch.
    shared = newton_euler.inverse_dynamics(arm, q[0, 0].tolist(), qd, qdd, **loads)
    assert shared.shape == tau.shape
    np.testing.assert_array_equal(shared[0, 0], tau[0, 0])
    empty = composite_body.forward_dynamics(arm, q[:0], qd[:0], qdd[:0])
    assert empty.shape == (0, 3, arm.nv)


CALLS = [
    newton_euler.inverse_dynamics,
    newton_euler.joint_wrenches,
    composite_body.forward_dynamics,
]


@pytest.mark.parametrize("call", CALLS)
def test_values_that_cannot_be_used(case, call):
    arm, q, qd, qdd, W = (a if isinstance(a, SerialChain) else a.copy() for a in case)
    name = "tau" if call is composite_body.forward_dynamics else "qdd"
    for array, where, message in [
        (q, (1, 2, 9), r"q is nan at coordinate 9 in frame \(1, 2\)"),
        (qd, (0, 1, 3), r"qd is nan at rate 3 in frame \(0, 1\)"),
        (qdd, (0, 0, 7), rf"{name} is nan at rate 7 in frame \(0, 0\)"),
        (W, (1, 0, 4, 2), r"wrenches is nan at body 4 in frame \(1, 0\)"),
    ]:
        kept, array[where] = array[where], np.nan
        with pytest.raises(ValueError, match=message):
            call(arm, q, qd, qdd, wrenches=W)
        array[where] = kept
    with pytest.raises(ValueError, match="gravity is inf at component 1"):
        call(arm, q, qd, qdd, gravity=[0, np.inf, 0])
    with pytest.raises(ValueError, match=r"gravity must have shape \(3,\)"):
        call(arm, q, qd, qdd, gravity=np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"q must have shape \(..., 14\)"):
        call(arm, q[..., 1:], qd, qdd)
    with pytest.raises(ValueError, match=r"wrenches must have shape \(..., 5, 6\)"):
        call(arm, q, qd, qdd, wrenches=W[..., :3])
    with pytest.raises(ValueError, match="do not broadcast"):
        call(arm, q, qd[:, :2], qdd)
    with pytest.raises(ValueError, match="overflowed"):
        call(arm, q, 1e200 * qd, qdd)
    q[1, 1, 8:12] *= 1.01
    with pytest.raises(ValueError, match=r"quaternion of joint 2 in frame \(1, 1\) has norm 1.01"):
        call(arm, q, qd, qdd)


def test_matrices_refuse_what_is_not_finite(case):
    arm, q, qd, *_ = case
    for k in (0, 7, 12, 13):  # the first and the last have no part in the matrices
        bad = np.where(np.arange(14) == k, np.nan, q)
        for call, *rest in [
            (composite_body.inertia_matrix,),
            (composite_body.convective_matrix, qd),
        ]:
            with pytest.raises(ValueError, match=rf"q is nan at coordinate {k} in frame \(0, 0\)"):
                call(arm, bad, *rest)
    for k in (0, 3, 11):
        bad = np.where(np.arange(12) == k, np.inf, qd)
        with pytest.raises(ValueError, match=f"qd is inf at rate {k}"):
            composite_body.convective_matrix(arm, q, bad)


@pytest.mark.parametrize("joint", ["revolute", "prismatic", "spherical", "free"])
@pytest.mark.parametrize("call", CALLS)
def test_every_number_must_be_finite_whether_it_is_felt_or_not(joint, call):
    free = joint == "free"
    kinds = ("revolute",) if free else (joint,)
    arm = SerialChain.random(2, 6, joints=kinds, free_base=free)
    arm = replace(arm, rotations=np.broadcast_to(np.eye(3), (2, 3, 3)))
    rest = np.zeros(arm.nv)
    given = [random_q(arm, np.random.default_rng(7)), rest, rest, np.zeros((2, 6)), np.zeros(3)]
    for k, array in enumerate(given):
        for place in range(array.size):
            for bad in (np.nan, np.inf):
                q, qd, last, W, g = (a.copy() for a in given)
                (q, qd, last, W, g)[k].flat[place] = bad
                with pytest.raises(ValueError, match=f"is {bad}"):
                    call(arm, q, qd, last, wrenches=W, gravity=g)


def test_quaternions_are_taken_to_rounding(case):
    arm, q, qd, qdd, _ = case
    tau = newton_euler.inverse_dynamics(arm, q, qd, qdd)
    q = q.copy()
    q[..., 3:7] *= 1 + 4e-7
    assert error(newton_euler.inverse_dynamics(arm, q, qd, qdd), tau) <= 1e-14


@pytest.mark.parametrize("call", CALLS)
def test_the_norm_of_a_quaternion_is_bounded_alike_everywhere(call):
    arm = SerialChain.random(2, 8, joints=("spherical",))
    q, rest = random_q(arm, np.random.default_rng(9)), np.zeros(arm.nv)
    for excess in (0.999999e-6, -0.999999e-6):
        call(arm, np.concatenate([q[:4], (1 + excess) * q[4:]]), rest, rest)
    for excess in (1e-6, 1.000001e-6, -1.000001e-6, 1e200):
        with pytest.raises(
            ValueError, match=r"quaternion of joint 1 has norm (0.99999\d|1.000001|1e)"
        ):
            call(arm, np.concatenate([q[:4], (1 + excess) * q[4:]]), rest, rest)


def test_point_masses_on_balls_are_singular_however_that_is_rounded():
    # NumPy's Cholesky factorization can fail where another one just gets through, or pass.
    for seed in range(30):
        arm = SerialChain.random(4, seed, joints=("spherical",))
        arm = replace(arm, inertias=np.zeros((4, 3, 3)))
        q, rest = random_q(arm, np.random.default_rng(seed)), np.zeros(arm.nv)
        with pytest.raises(SingularConstraintError, match="body 3"):
            composite_body.forward_dynamics(arm, q, rest, rest)


def test_a_massless_body_on_a_ball_is_singular():
    kept = np.array([1.0, 0.0, 1.0, 1.0])
    for seed in range(20):
        arm = SerialChain.random(4, seed, joints=("spherical",))
        arm = replace(arm, masses=arm.masses * kept, inertias=arm.inertias * kept[:, None, None])
        q, rest = random_q(arm, np.random.default_rng(seed)), np.zeros(arm.nv)
        with pytest.raises(SingularConstraintError, match=r"the inertia that joint \d moves"):
            composite_body.forward_dynamics(arm, q, rest, rest)


@pytest.mark.parametrize("last", [1, 2])
def test_a_singular_inertia_matrix_names_the_body(last):
    n = 4
    masses, inertias = np.ones(n), np.tile(np.eye(3), (n, 1, 1))
    masses[-last:], inertias[-last:] = 0.0, 0.0
    arm = SerialChain(**body(n, masses=masses, inertias=inertias))
    q = np.zeros((3, n))
    with pytest.raises(SingularConstraintError, match=f"joint {n - last} moves in frame 0"):
        composite_body.forward_dynamics(arm, q, q, q)


def test_axes_that_coincide_are_singular_only_without_inertia_between():
    # Two joints on one axis, the body between them without inertia about it.
    light = np.zeros((2, 3, 3))
    light[1] = np.eye(3)
    arm = SerialChain(**body(2, inertias=light, masses=[0, 1]))
    with pytest.raises(SingularConstraintError, match="joint 1"):
        composite_body.forward_dynamics(arm, [0.3, 0.4], [1, 2], [1, 1])
    light[0] = 1e-6 * np.eye(3)
    arm = SerialChain(**body(2, inertias=light, masses=[0, 1]))
    qdd = composite_body.forward_dynamics(arm, [0.3, 0.4], [1, 2], [1, 1])
    np.testing.assert_allclose(qdd, [0, 1], atol=1e-9)


def test_memory_of_long_chains():
    n = 100_000
    arm = SerialChain.random(n, 0, joints=("revolute", "prismatic"))
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=(3, arm.nv))
    qd /= np.sqrt(n)
    tracemalloc.start()
    tau = newton_euler.inverse_dynamics(arm, q, qd, qdd)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(tau).all()
    assert peak <= 1000 * n  # bytes, tables of the chain included
