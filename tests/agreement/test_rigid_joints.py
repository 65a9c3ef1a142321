"""Rotors and dampers of the joints against Pinocchio, every algorithm."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

from fixman.rigid import SerialChain, composite_body, newton_euler
from oracles import error
from rigid_oracles import Referee, random_q

pytestmark = pytest.mark.peer

ALGORITHMS = [
    ("composite_body", {}),
    ("denoc", {}),
    ("articulated_body", {}),
    *(("spatial_operators", {"method": f"fd{k}"}) for k in (1, 3)),
    ("partition", {}),
    ("partition", {"refine": 1}),
]


def geared(seed):
    """Return a chain with rotors on most rates and dampers, and its motion."""
    rng = np.random.default_rng(seed)
    arm = SerialChain.random(seed % 30 + 1, rng, free_base=bool(rng.integers(2)))
    armature = rng.uniform(0.1, 2.0, arm.nv) * (rng.random(arm.nv) < 0.8)
    arm = replace(arm, armature=armature, damping=rng.uniform(0, 1, arm.nv))
    loads = {"gravity": rng.normal(size=3) * 6, "wrenches": rng.normal(size=(arm.n, 6))}
    return arm, random_q(arm, rng), rng.normal(size=(3, arm.nv)), loads


def referee(pin, arm, gravity):
    made = Referee(pin, arm, gravity)
    made.model.armature = arm.armature
    return made


def test_inverse_dynamics_and_mass_matrix_agree(peer):
    pin = peer("pinocchio")
    for seed in range(60):
        arm, q, (qd, qdd, _), loads = geared(seed)
        theirs = referee(pin, arm, loads["gravity"])
        tau = newton_euler.inverse_dynamics(arm, q, qd, qdd, **loads)
        expected = theirs.inverse(q, qd, qdd, loads["wrenches"]) + arm.damping * qd
        assert error(tau, expected) <= 1e-11, seed
        assert error(composite_body.inertia_matrix(arm, q), theirs.inertia(q)) <= 1e-11, seed


@pytest.mark.parametrize(("name", "options"), ALGORITHMS)
def test_forward_dynamics_agrees(peer, name, options):
    pin = peer("pinocchio")
    room = import_module(f"fixman.rigid.{name}")
    for seed in range(60):
        arm, q, (qd, _, tau), loads = geared(seed)
        theirs = referee(pin, arm, loads["gravity"])
        expected = theirs.forward(q, qd, tau - arm.damping * qd, loads["wrenches"])
        found = room.forward_dynamics(arm, q, qd, tau, **options, **loads)
        assert error(found, expected) <= 1e-10, seed
