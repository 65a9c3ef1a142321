"""Kinematics of rigid chains against Pinocchio, on random chains."""

import numpy as np
import pytest

from fixman.rigid import SerialChain, kinematics
from oracles import error
from rigid_oracles import Referee, random_q

pytestmark = pytest.mark.peer
GRAVITY = np.array([1.0, -2.0, -9.0])


@pytest.mark.parametrize("seed", range(30))
def test_kinematics_agree_with_pinocchio(peer, seed):
    pin = peer("pinocchio")
    rng = np.random.default_rng(seed)
    n = 2 * seed + 1
    arm = SerialChain.random(n, rng, free_base=bool(seed % 2))
    q, other = random_q(arm, rng), random_q(arm, rng)
    qd, qdd = rng.normal(size=(2, arm.nv))
    body, point = int(rng.integers(n)), rng.normal(size=3)
    model = Referee(pin, arm, GRAVITY).model
    place = pin.SE3(np.eye(3), point)
    frame = model.addFrame(pin.Frame("point", body + 1, 0, place, pin.FrameType.OP_FRAME))
    data, axes = model.createData(), pin.LOCAL_WORLD_ALIGNED

    J = pin.computeFrameJacobian(model, data, q, frame, axes).reshape(6, arm.nv)
    assert error(kinematics.jacobian(arm, q, body, point), J) <= 1e-10
    pin.forwardKinematics(model, data, q, qd, qdd)
    pin.updateFramePlacements(model, data)
    R, x, V = kinematics.frames(arm, q, qd)
    assert error(R, np.array([pose.rotation for pose in data.oMi[1:]])) <= 1e-10
    assert error(x, np.array([pose.translation for pose in data.oMi[1:]])) <= 1e-10
    twists = [pin.getVelocity(model, data, i + 1, axes).vector for i in range(n)]
    assert error(V, np.array(twists)) <= 1e-10
    assert error(kinematics.position(arm, q, body, point), data.oMf[frame].translation) <= 1e-10
    wanted = pin.getFrameVelocity(model, data, frame, axes).vector
    assert error(kinematics.velocity(arm, q, qd, body, point), wanted) <= 1e-10
    wanted = pin.getFrameClassicalAcceleration(model, data, frame, axes).vector
    assert error(kinematics.acceleration(arm, q, qd, qdd, body, point), wanted) <= 1e-10
    pin.forwardKinematics(model, data, q, qd, 0 * qd)
    products = pin.getFrameClassicalAcceleration(model, data, frame, axes).vector
    found = kinematics.acceleration(arm, q, qd, 0 * qd, body, point)
    assert np.abs(found - products).max() <= 1e-10 * np.abs(wanted).max()

    c, v = kinematics.centre_of_mass(arm, q, qd)
    assert error(c, pin.centerOfMass(model, data, q, qd).copy()) <= 1e-10
    assert error(v, data.vcom[0]) <= 1e-10
    wanted = pin.computeCentroidalMomentum(model, data, q, qd).vector
    assert error(kinematics.momentum(arm, q, qd), wanted) <= 1e-10
    energy = pin.computeKineticEnergy(model, data, q, qd)
    assert kinematics.kinetic_energy(arm, q, qd) == pytest.approx(energy, rel=1e-10)
    height = pin.computePotentialEnergy(model, data, q)
    size = arm.masses.sum() * np.abs(GRAVITY).max() * np.abs(x).max()
    found = kinematics.potential_energy(arm, q, gravity=GRAVITY)
    assert abs(found - height) <= 1e-10 * size

    to = kinematics.integrate(arm, q, qd, 0.6)
    assert error(to, pin.integrate(model, q, 0.6 * qd)) <= 1e-10
    assert error(kinematics.difference(arm, q, other), pin.difference(model, q, other)) <= 1e-10
    inverse = np.linalg.inv(Referee(pin, arm).inertia(q))
    found = kinematics.operational_space_compliance(arm, q, body, point)
    assert error(found, J @ inverse @ J.T) <= 1e-10
