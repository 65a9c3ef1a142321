"""Planar revolute arms with point masses at the link ends, against Pinocchio's ABA."""

import numpy as np
import pytest

import fixman as fx
from oracles import error

pytestmark = pytest.mark.peer


def arm(pin, lengths, masses):
    """Return Pinocchio's model of the arm: links without rotational inertia, no gravity."""
    model = pin.Model()
    model.gravity = pin.Motion.Zero()
    parent, offset = 0, 0.0
    for length, mass in zip(lengths, masses, strict=True):
        place = pin.SE3(np.eye(3), np.array([offset, 0.0, 0.0]))
        parent = model.addJoint(parent, pin.JointModelRZ(), place, f"joint {parent}")
        tip = np.array([length, 0.0, 0.0])
        inertia = pin.Inertia(mass, tip, np.zeros((3, 3)))
        model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
        offset = length
    return model


@pytest.mark.parametrize("spread", [np.pi, 0.1, 1e-3])
@pytest.mark.parametrize("n", [1, 2, 5, 20, 50, 100])
def test_forward_dynamics_agrees_with_aba(peer, n, spread):
    pin = peer("pinocchio")
    rng = np.random.default_rng(n)
    lengths, masses = rng.uniform(0.5, 2.0, n), 10.0 ** rng.uniform(-1, 1, n)
    theta, rate, torque = rng.uniform(-spread, spread, n), rng.normal(size=n), rng.normal(size=n)
    model = arm(pin, lengths, masses)
    reference = pin.aba(model, model.createData(), theta, rate, torque)

    chain = fx.Chain.linear(n, dim=2, base="fixed", masses=masses)
    q, qd = np.zeros((2, 2 * n))
    q[0::2], q[1::2], qd[1::2] = lengths, theta, rate
    x, v = chain.cartesian(q, qd)
    assert error(fx.forward_dynamics(chain, x, v, torque=torque).qdd, reference) <= 1e-12
    # For any q̈, since G^aa q̈ cancels against the bias at the one just found.
    qdd = rng.normal(size=n)
    back = fx.inverse_dynamics(chain, x, v, qdd)
    assert error(back, pin.rnea(model, model.createData(), theta, rate, qdd)) <= 1e-12
    if n <= 50:
        mass = pin.crba(model, model.createData(), theta)
        mass = np.triu(mass) + np.triu(mass, 1).T
        assert error(fx.Partition(chain, x).mass_matrix(), mass) <= 1e-12


@pytest.mark.parametrize("n", [5, 50])
def test_forces_on_beads_agree_with_gravity(peer, n):
    pin = peer("pinocchio")
    rng = np.random.default_rng(n)
    lengths, masses = rng.uniform(0.5, 2.0, n), 10.0 ** rng.uniform(-1, 1, n)
    theta, rate = rng.uniform(-3, 3, n), rng.normal(size=n)
    model = arm(pin, lengths, masses)
    model.gravity = pin.Motion(np.array([0.0, -9.81, 0.0]), np.zeros(3))
    reference = pin.aba(model, model.createData(), theta, rate, np.zeros(n))
    chain = fx.Chain.linear(n, dim=2, base="fixed", masses=masses)
    q, qd = np.zeros((2, 2 * n))
    q[0::2], q[1::2], qd[1::2] = lengths, theta, rate
    x, v = chain.cartesian(q, qd)
    weight = np.outer(masses, [0.0, -9.81])
    assert error(fx.forward_dynamics(chain, x, v, force=weight).qdd, reference) <= 1e-12
