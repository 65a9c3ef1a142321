"""Chains from URDF texts against Pinocchio, which reads the same text and locks the same joints.

Real robots are read too, if the environment variable FIXMAN_URDF names a folder of their files.
"""

import os
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import urdf_texts
from fixman.rigid import composite_body, kinematics, newton_euler, urdf
from oracles import error
from urdf_texts import random_tree

pytestmark = pytest.mark.peer

GRAVITY = np.array([0.0, 0.0, -9.81])
ALGORITHMS = [
    ("composite_body", {}),
    ("denoc", {}),
    ("articulated_body", {}),
    *(("spatial_operators", {"method": f"fd{k}"}) for k in (1, 3)),
    ("partition", {}),
    ("partition", {"refine": 1}),
]


def read(pin, path, tip, *, free_base=False, **options):
    """Return our robot, and Pinocchio's model with every other joint locked at zero."""
    robot = urdf.read(path, tip, free_base=free_base, **options)
    root = (pin.JointModelFreeFlyer(),) if free_base else ()
    whole = pin.buildModelFromUrdf(str(path), *root)
    locked = [whole.getJointId(n) for n in whole.names[1:] if n not in robot.joint_names]
    model = pin.buildReducedModel(whole, locked, pin.neutral(whole))
    assert tuple(model.names[1:]) == robot.joint_names
    return robot, model


def state(robot, model, rng):
    """Return our coordinates and Pinocchio's: cosine and sine where a joint is continuous."""
    q, own = [], []
    for kind, joint in zip(robot.chain.joints, model.joints[1:], strict=True):
        if kind == "free":
            e = rng.normal(size=4)
            values = [*rng.normal(size=3), *(e / np.linalg.norm(e))]
            q, own = q + values, own + values
        else:
            x = rng.normal()
            q, own = [*q, x], own + ([x] if joint.nq == 1 else [np.cos(x), np.sin(x)])
    return np.array(q), np.array(own)


def gaps(pin, robot, model, rng, *, harmless=np.inf):
    """Return the errors of our answers in a random state, by name."""
    chain, data, found = robot.chain, model.createData(), {}
    q, own = state(robot, model, rng)
    qd, qdd, tau = rng.normal(size=(3, chain.nv))
    np.testing.assert_array_equal(chain.damping, model.damping)
    drag = model.damping * qd  # which Pinocchio leaves to its caller
    expected = pin.rnea(model, data, own, qd, qdd) + drag
    torques = newton_euler.inverse_dynamics(chain, q, qd, qdd, gravity=GRAVITY)
    found["inverse dynamics"] = error(torques, expected)
    M = np.triu(pin.crba(model, data, own))
    M = M + np.triu(M, 1).T
    found["inertia matrix"] = error(composite_body.inertia_matrix(chain, q), M)
    size = np.sqrt(np.diag(M))
    condition = np.linalg.cond(M / np.outer(size, size))
    expected = pin.aba(model, data, own, qd, tau - drag)
    moments = np.linalg.eigvalsh(chain.inertias)
    thin = (moments[:, 0] <= 1e-9 * moments[:, 2]).any()  # the partition refuses such by name
    for name, options in ALGORITHMS[: -2 if thin else None]:
        forward = import_module(f"fixman.rigid.{name}").forward_dynamics
        answer = forward(chain, q, qd, tau, gravity=GRAVITY, **options)
        found[f"{name} {options}"] = error(answer, expected) / max(1.0, condition / harmless)

    pin.framesForwardKinematics(model, data, own)
    R, x, _ = kinematics.frames(chain, q, qd)
    R, x = np.concatenate([R, [np.eye(3)]]), np.concatenate([x, np.zeros((1, 3))])  # −1: the base
    size = 1.0 + np.abs(x).max()
    for link, (body, turn, p) in robot.places.items():
        theirs = data.oMf[model.getFrameId(link)]
        place = x[body] + R[body] @ p
        found[f"axes of {link}"] = np.abs(R[body] @ turn - theirs.rotation).max()
        found[f"place of {link}"] = np.abs(place - theirs.translation).max() / size
    last = [link for link, place in robot.places.items() if place.body == chain.n - 1]
    for link in last:
        body, _, p = robot.places[link]
        at = model.getFrameId(link), pin.LOCAL_WORLD_ALIGNED
        J = pin.computeFrameJacobian(model, data, own, *at).reshape(6, chain.nv)
        found[f"Jacobian of {link}"] = error(kinematics.jacobian(chain, q, body, p), J)
    energy = pin.computeKineticEnergy(model, data, own, qd)
    found["kinetic energy"] = abs(kinematics.kinetic_energy(chain, q, qd) / energy - 1)
    height = pin.computePotentialEnergy(model, data, own)
    apart = abs(kinematics.potential_energy(chain, q, gravity=GRAVITY) - height)
    found["potential energy"] = apart / (chain.masses.sum() * -GRAVITY[2] * size)
    return found


@pytest.mark.parametrize("floating", [False, True])
def test_dynamics_and_places_agree(peer, tmp_path, floating):
    pin = peer("pinocchio")
    seen, path = set(), tmp_path / "robot.urdf"
    for seed in range(20):
        rng = np.random.default_rng([seed, floating])
        text, tip = random_tree(int(rng.integers(6, 20)), rng, floating=floating)
        path.write_text(text)
        robot, model = read(pin, path, tip)
        seen |= {joint.shortname() for joint in model.joints[1:]}
        for name, gap in gaps(pin, robot, model, rng).items():
            least = any(name.startswith(module) for module, _ in ALGORITHMS)
            assert gap <= (1e-10 if least else 1e-12), (seed, name)
    assert len(seen) == (4 if floating else 3)


@pytest.mark.parametrize("free_base", [False, True])
def test_massless_links_between_joints_agree(peer, tmp_path, free_base):
    """A hip of three revolutes, and a virtual cross of two; their links have no mass."""
    pin = peer("pinocchio")
    path = tmp_path / "leg.urdf"
    for seed in range(10):
        rng = np.random.default_rng([seed, 7])
        before = "pelvis"
        elements = [urdf_texts.link(before, 5.0, *rng.normal(size=(1, 3)), (0.3, 0.4, 0.5))]
        for name, mass in [("a", 0), ("b", None), ("thigh", 2), ("x", None), ("foot", 1)]:
            axis = rng.normal(size=3)
            place = rng.normal(size=3) * bool(mass), rng.normal(size=3)
            elements.append(urdf_texts.joint(f"to {name}", "revolute", before, name, *place, axis))
            moments = (0.02, 0.03, 0.04) if mass else (0, 0, 0)
            elements.append(urdf_texts.link(name, mass, *rng.normal(size=(1, 3)), moments))
            before = name
        path.write_text(urdf_texts.robot(*elements))
        found, model = read(pin, path, "foot", free_base=free_base)
        assert found.chain.masses.tolist().count(0) == 3
        for name, gap in gaps(pin, found, model, rng).items():
            forward = any(name.startswith(module) for module, _ in ALGORITHMS)
            assert gap <= (1e-9 if forward else 1e-12), (seed, name)


FILES = sorted(Path(os.environ.get("FIXMAN_URDF", "/nowhere")).glob("*.urdf"))


@pytest.mark.skipif(not FILES, reason="FIXMAN_URDF names no folder of URDF files")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_robots_agree(peer, path):
    """With every link that a joint moves as the tip."""
    pin = peer("pinocchio")
    whole = pin.buildModelFromUrdf(str(path))
    moved = {frame.parentJoint: frame.name for frame in reversed(whole.frames)
             if frame.type == pin.BODY}  # fmt: skip
    assert len(moved) >= whole.njoints - 1
    for tip in moved.values():
        try:
            with warnings.catch_warnings(action="ignore"):
                robot, model = read(pin, path, tip)
        except ValueError as error:
            reasons = "mimics", "no joint on the way", "principal moments", "has no mass"
            if any(reason in str(error) for reason in reasons):
                continue
            raise
        for seed in range(5):
            # The mass matrix of iCub, which has bodies of no size, has condition 1e7.
            found = gaps(pin, robot, model, np.random.default_rng(seed), harmless=1e5)
            for name, gap in found.items():
                assert gap <= 1e-10, (tip, seed, name)
