"""Closed chains against Pinocchio's constrained dynamics."""

import numpy as np
import pytest

from fixman.rigid import closed
from oracles import error
from test_rigid_closed import random_loop, stewart

pytestmark = pytest.mark.peer


def pinocchio(pin, linkage, state, gravity, wrenches=None):
    """Accelerations by `constraintDynamics`."""
    model, first = pin.Model(), []
    kinds = {
        "revolute": pin.JointModelRZ,
        "prismatic": pin.JointModelPZ,
        "spherical": pin.JointModelSpherical,
        "free": pin.JointModelFreeFlyer,
    }
    for arm in linkage.chains:
        parent = 0
        first.append(model.njoints)
        for i, joint in enumerate(arm.joints):
            place = pin.SE3(arm.rotations[i], arm.translations[i])
            parent = model.addJoint(parent, kinds[joint](), place, f"joint {model.njoints}")
            body = pin.Inertia(arm.masses[i], arm.centres[i], arm.inertias[i])
            model.appendBodyToJoint(parent, body, pin.SE3.Identity())
    model.gravity = pin.Motion(np.asarray(gravity, dtype=float), np.zeros(3))
    contacts = []
    for closure in linkage.closures:
        full = len(closure.directions) == 6
        kind = pin.ContactType.CONTACT_6D if full else pin.ContactType.CONTACT_3D
        ends = []
        for end in (closure.a, closure.b):
            joint = 0 if end.body is None else first[end.chain] + end.body
            ends += [joint, pin.SE3(np.array(end.axes), np.array(end.point))]
        contacts.append(pin.RigidConstraintModel(kind, model, *ends, pin.ReferenceFrame.LOCAL))
    data = model.createData()
    room = [contact.createData() for contact in contacts]
    pin.initConstraintDynamics(model, data, contacts, room)
    settings = pin.ProximalSettings(1e-14, 1e-14, 30)
    q, qd, tau = state
    for k, w in enumerate(() if wrenches is None else wrenches):  # which it does not take
        tau = tau + pin.computeJointJacobian(model, data, q, k + 1).T @ w
    return pin.constraintDynamics(model, data, q, qd, tau, contacts, room, settings).copy()


@pytest.mark.parametrize("seed", range(40))
def test_loops_agree_with_pinocchio(peer, seed):
    pin = peer("pinocchio")
    linkage, state, loads = random_loop(seed, kinds=("weld", "ball"), most=30)
    wanted = pinocchio(pin, linkage, state, loads["gravity"], loads["wrenches"])
    found = closed.forward_dynamics(linkage, *state, **loads)
    assert error(found.qdd, wanted) <= 1e-10


def test_stewart_platform_agrees_with_pinocchio(peer):
    pin = peer("pinocchio")
    linkage, q = stewart()
    rng = np.random.default_rng(0)
    _, qd = closed.project(linkage, q, rng.normal(size=linkage.nv))
    tau = rng.normal(size=linkage.nv)
    wanted = pinocchio(pin, linkage, (q, qd, tau), (0, 0, -9.81))
    found = closed.forward_dynamics(linkage, q, qd, tau, gravity=(0, 0, -9.81))
    assert error(found.qdd, wanted) <= 1e-10
