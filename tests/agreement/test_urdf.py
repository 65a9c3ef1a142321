"""Chains from URDF texts against Pinocchio, which reads the same text and locks the same joints."""

from importlib import import_module

import numpy as np
import pytest

from fixman.rigid import composite_body, newton_euler, urdf
from oracles import error
from rigid_oracles import quaternion_matrix
from urdf_texts import random_tree

pytestmark = pytest.mark.peer

GRAVITY = np.array([0.0, 0.0, -9.81])
ALGORITHMS = [
    ("composite_body", {}),
    ("denoc", {}),
    ("articulated_body", {}),
    *(("spatial_operators", {"method": f"fd{k}"}) for k in (1, 2, 3, 4)),
    ("partition", {}),
    ("partition", {"refine": 1}),
]


def read(pin, path, text, tip):
    """Return our robot, and Pinocchio's model with every other joint locked at zero."""
    path.write_text(text)
    robot = urdf.read(path, tip)
    whole = pin.buildModelFromXML(text)
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


def frames(chain, q):
    """Yield the place of every body in the base, from the one before."""
    R, p = np.eye(3), np.zeros(3)
    for i, joint in enumerate(chain.joints):
        own = q[chain.position_offsets[i] : chain.position_offsets[i + 1]]
        p, R = p + R @ chain.translations[i], R @ chain.rotations[i]
        if joint == "revolute":
            R = R @ quaternion_matrix([0, 0, np.sin(own[0] / 2), np.cos(own[0] / 2)])
        elif joint == "prismatic":
            p = p + R[:, 2] * own[0]
        else:
            p, R = p + R @ own[:3], R @ quaternion_matrix(own[3:])
        yield R, p


@pytest.mark.parametrize("floating", [False, True])
def test_dynamics_and_places_agree(peer, tmp_path, floating):
    pin = peer("pinocchio")
    seen = set()
    for seed in range(20):
        rng = np.random.default_rng([seed, floating])
        text, tip = random_tree(int(rng.integers(6, 20)), rng, floating=floating)
        robot, model = read(pin, tmp_path / "robot.urdf", text, tip)
        chain, data = robot.chain, model.createData()
        seen |= {joint.shortname() for joint in model.joints[1:]}
        q, own = state(robot, model, rng)
        qd, qdd, tau = rng.normal(size=(3, chain.nv))
        motion = chain, q, qd
        expected = pin.rnea(model, data, own, qd, qdd)
        found = newton_euler.inverse_dynamics(*motion, qdd, gravity=GRAVITY)
        assert error(found, expected) <= 1e-12, seed
        M = np.triu(pin.crba(model, data, own))
        found = composite_body.inertia_matrix(chain, q)
        assert error(found, M + np.triu(M, 1).T) <= 1e-12, seed
        expected = pin.aba(model, data, own, qd, tau)
        for name, options in ALGORITHMS:
            room = import_module(f"fixman.rigid.{name}")
            found = room.forward_dynamics(*motion, tau, gravity=GRAVITY, **options)
            assert error(found, expected) <= 1e-10, (seed, name, options)

        pin.framesForwardKinematics(model, data, own)
        bodies = [*frames(chain, q), (np.eye(3), np.zeros(3))]
        for link, (body, R, p) in robot.places.items():
            theirs = data.oMf[model.getFrameId(link)]
            at, where = bodies[body]
            assert np.abs(at @ R - theirs.rotation).max() <= 1e-12, (seed, link)
            assert np.abs(where + at @ p - theirs.translation).max() <= 1e-12, (seed, link)
    assert len(seen) == (4 if floating else 3)
