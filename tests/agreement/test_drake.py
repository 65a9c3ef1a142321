"""Chains with spherical joints against Drake, whose rates are seen from the other side."""

from importlib import import_module

import numpy as np
import pytest

from fixman.rigid import SerialChain, composite_body, newton_euler
from oracles import error
from rigid_oracles import quaternion_matrix, random_q

pytestmark = pytest.mark.peer
GRAVITY = np.array([1.0, -2.0, -9.0])
ALGORITHMS = [
    ("composite_body", {}),
    ("denoc", {}),
    ("articulated_body", {}),
    *(("spatial_operators", {"method": f"fd{k}"}) for k in (1, 3)),
    ("partition", {}),
    ("partition", {"refine": 1}),
]


class Drake:
    """Drake's model of a chain in a state.

    The rates of its ball joints are angular velocities in the axes of the joint, not of the body:
    they are turned by E, and so are their derivatives, because E ω × ω = 0.
    """

    def __init__(self, arm, q, qd):
        plants, tree = (
            import_module("pydrake.multibody.plant"),
            import_module("pydrake.multibody.tree"),
        )
        math = import_module("pydrake.math")
        self.plant = plant = plants.MultibodyPlant(time_step=0.0)
        plant.mutable_gravity_field().set_gravity_vector(GRAVITY)
        joints, before = [], plant.world_body()
        for i, kind in enumerate(arm.joints):
            about = arm.inertias[i][[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]].tolist()
            inertia = tree.SpatialInertia.MakeFromCentralInertia(
                arm.masses[i], arm.centres[i], tree.RotationalInertia(*about)
            )
            body = plant.AddRigidBody(f"body {i}", inertia)
            place = math.RigidTransform(math.RotationMatrix(arm.rotations[i]), arm.translations[i])
            offset = tree.FixedOffsetFrame(f"joint {i}", before.body_frame(), place)
            ends = f"joint {i}", plant.AddFrame(offset), body.body_frame()
            if kind == "spherical":
                joint = tree.BallRpyJoint(*ends, damping=0.0)
            else:
                of = tree.RevoluteJoint if kind == "revolute" else tree.PrismaticJoint
                joint = of(*ends, [0, 0, 1], damping=0.0)
            joints.append(plant.AddJoint(joint))
            before = body
        plant.Finalize()
        self.context, self.forces = plant.CreateDefaultContext(), tree.MultibodyForces(plant)
        # Ours are turn @ theirs.
        self.turn, places = np.zeros((arm.nv, arm.nv)), np.zeros(arm.nv)
        for i, joint in enumerate(joints):
            own = q[arm.position_offsets[i] : arm.position_offsets[i + 1]]
            at, theirs = arm.rate_offsets[i], joint.velocity_start()
            E = np.eye(1)
            if len(own) == 4:
                E = quaternion_matrix(own)
                own = math.RollPitchYaw(math.RotationMatrix(E)).vector()
            f = len(E)
            places[joint.position_start() : joint.position_start() + f] = own
            self.turn[at : at + f, theirs : theirs + f] = E.T
        plant.SetPositions(self.context, places)
        plant.SetVelocities(self.context, self.turn.T @ qd)

    def inverse(self, qdd):
        self.plant.CalcForceElementsContribution(self.context, self.forces)  # gravity
        torques = self.plant.CalcInverseDynamics(self.context, self.turn.T @ qdd, self.forces)
        return self.turn @ torques

    def forward(self, tau):
        port = self.plant.get_applied_generalized_force_input_port()
        port.FixValue(self.context, self.turn.T @ tau)
        derivatives = self.plant.EvalTimeDerivatives(self.context)
        return self.turn @ derivatives.get_generalized_velocity().CopyToVector()

    def inertia(self):
        matrix = self.plant.CalcMassMatrixViaInverseDynamics(self.context)
        return self.turn @ matrix @ self.turn.T


def gaps(seed):
    """Return the errors of our answers for a random chain, by name."""
    rng = np.random.default_rng(seed)
    kinds = ("spherical",) if seed % 2 else ("revolute", "prismatic", "spherical")
    arm = SerialChain.random(seed + 1, rng, joints=kinds)
    q, (qd, qdd, tau) = random_q(arm, rng), rng.normal(size=(3, arm.nv))
    referee = Drake(arm, q, qd)
    found = {}
    torques = newton_euler.inverse_dynamics(arm, q, qd, qdd, gravity=GRAVITY)
    found["inverse dynamics"] = error(torques, referee.inverse(qdd))
    found["inertia matrix"] = error(composite_body.inertia_matrix(arm, q), referee.inertia())
    expected = referee.forward(tau)
    for name, options in ALGORITHMS:
        forward = import_module(f"fixman.rigid.{name}").forward_dynamics
        answer = forward(arm, q, qd, tau, gravity=GRAVITY, **options)
        found[f"{name} {options}"] = error(answer, expected)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_spherical_joints_agree_with_drake(seed):
    pytest.importorskip("pydrake")  # of the extra "bench", for its size never required
    for name, gap in gaps(seed).items():
        assert gap <= 1e-10, name
