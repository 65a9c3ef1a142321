"""One library of `20_snake.py`, in a process of its own: ``_snake_peers.py NAME N SECONDS GB``.

Every one makes the same kind of step: new rates first, with damping implicit (and springs where the
library can), then coordinates with the new rates.  The last line of the output is JSON: seconds a
step, memory in MB, and accelerations at the start.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import replace

import numpy as np

from fixman.rigid import SerialChain, articulated_body
from fixman.rigid.motion import simulate

STEP = 1e-3  # s
STIFFNESS, DAMPING = 10.0, 2.0  # N m, N m s, of every joint
GRAVITY = (9.81, 0.0, 0.0)  # it hangs


def snake(n: int) -> tuple[SerialChain, np.ndarray]:
    """Return a hanging snake of links of 10 cm and 0.2 kg, and where it starts, at rest."""
    arm = SerialChain.snake(n, length=0.1, mass=0.2, radius=0.02)
    q = 0.05 * np.random.default_rng(n).normal(size=n)
    return replace(arm, stiffness=STIFFNESS, damping=DAMPING), q


def fixman(arm, start):
    """Return accelerations at the start and a function that makes steps; so do the others."""
    rest = np.zeros(arm.n)
    found = articulated_body.forward_dynamics(arm, start, rest, rest, gravity=GRAVITY)

    def steps(count):
        run = simulate(arm, start, STEP, count, gravity=GRAVITY, scheme="euler", every=count)
        return run.q[-1]

    return found, steps


def mujoco(arm, start):
    """Use Euler's integrator, a sparse inertia matrix and nothing else; links without XML."""
    import mujoco as mj

    spec = mj.MjSpec()
    spec.option.timestep = STEP
    spec.option.gravity = GRAVITY
    spec.option.integrator = mj.mjtIntegrator.mjINT_EULER
    spec.option.jacobian = mj.mjtJacobian.mjJAC_SPARSE
    idle = ("CONTACT", "CONSTRAINT", "EQUALITY", "LIMIT", "SENSOR", "ACTUATION")
    spec.option.disableflags = sum(getattr(mj.mjtDisableBit, f"mjDSBL_{name}") for name in idle)
    body = spec.worldbody
    for i in range(arm.n):
        quaternion = np.empty(4)
        mj.mju_mat2Quat(quaternion, arm.rotations[i].ravel())
        body = body.add_body(pos=arm.translations[i], quat=quaternion)
        body.mass, body.ipos, body.explicitinertial = arm.masses[i], arm.centres[i], True
        body.inertia = np.diag(arm.inertias[i])
        body.add_joint(
            type=mj.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1], stiffness=STIFFNESS, damping=DAMPING
        )
    model = spec.compile()
    data = mj.MjData(model)
    data.qpos[:] = start
    mj.mj_forward(model, data)
    found = data.qacc.copy()

    def steps(count):
        mj.mj_step(model, data, count)
        return data.qpos

    return found, steps


def pinocchio(arm, start):
    """Use `aba`; springs and dampers times dt as inertia of rotors, which makes them implicit."""
    import pinocchio as pin

    model = pin.Model()
    model.gravity.linear = np.array(GRAVITY)
    last = 0
    for i in range(arm.n):
        place = pin.SE3(arm.rotations[i], arm.translations[i])
        last = model.addJoint(last, pin.JointModelRZ(), place, f"joint {i}")
        inertia = pin.Inertia(arm.masses[i], arm.centres[i], arm.inertias[i])
        model.appendBodyToJoint(last, inertia, pin.SE3.Identity())
    data = model.createData()
    q, v = start.copy(), np.zeros(arm.n)
    found = pin.aba(model, data, q, v, -STIFFNESS * q).copy()
    model.armature = np.full(arm.n, STEP * (DAMPING + STEP * STIFFNESS))

    def steps(count):
        nonlocal q, v
        for _ in range(count):
            tau = -STIFFNESS * (q + STEP * v) - DAMPING * v
            v = v + STEP * pin.aba(model, data, q, v, tau)
            q = pin.integrate(model, q, STEP * v)
        return q

    return found, steps


def drake(arm, start):
    """Use a discrete `MultibodyPlant` without contact: symplectic Euler, damping implicit."""
    from pydrake.math import RigidTransform, RotationMatrix
    from pydrake.multibody.plant import MultibodyPlant
    from pydrake.multibody.tree import RevoluteJoint, RevoluteSpring, SpatialInertia, UnitInertia
    from pydrake.systems.analysis import Simulator

    def build(step):
        plant = MultibodyPlant(time_step=step)
        plant.mutable_gravity_field().set_gravity_vector(np.array(GRAVITY))
        last = plant.world_body()
        for i in range(arm.n):
            m, c = float(arm.masses[i]), arm.centres[i]
            about = arm.inertias[i] + m * (c @ c * np.eye(3) - np.outer(c, c))
            about /= m
            unit = UnitInertia(*np.diag(about), about[0, 1], about[0, 2], about[1, 2])
            body = plant.AddRigidBody(f"link {i}", SpatialInertia(m, c, unit))
            place = RigidTransform(RotationMatrix(arm.rotations[i]), arm.translations[i])
            joint = plant.AddJoint(
                RevoluteJoint(
                    f"joint {i}",
                    plant.AddFrame(_frame(f"at {i}", last, place)),
                    body.body_frame(),
                    np.array([0.0, 0.0, 1.0]),
                    damping=DAMPING,
                )
            )
            plant.AddForceElement(RevoluteSpring(joint, 0.0, STIFFNESS))
            last = body
        plant.Finalize()
        return plant

    plant = build(0.0)
    context = plant.CreateDefaultContext()
    plant.SetPositions(context, start)
    found = plant.EvalTimeDerivatives(context).CopyToVector()[arm.n :]
    plant = build(STEP)
    simulator = Simulator(plant)
    context = simulator.get_mutable_context()
    plant.SetPositions(context, start)
    simulator.Initialize()
    done = 0

    def steps(count):
        nonlocal done
        done += count
        simulator.AdvanceTo((done + 0.0) * STEP)
        return plant.GetPositions(context)

    return found, steps


def _frame(name, body, place):
    from pydrake.multibody.tree import FixedOffsetFrame

    return FixedOffsetFrame(name, body.body_frame(), place)


def main() -> None:
    name, n, seconds, memory = sys.argv[1], *map(float, sys.argv[2:])
    limit = int(memory * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    arm, start = snake(int(n))
    begun = time.perf_counter()
    found, steps = globals()[name](arm, start)
    position = steps(1)
    built, count, done, best = time.perf_counter() - begun, 1, 1, np.inf
    end = time.perf_counter() + seconds
    while done == 1 or time.perf_counter() < end:
        begun = time.perf_counter()
        position = steps(count)
        spent = time.perf_counter() - begun
        best, done = min(best, spent / count), done + count
        if spent < 0.2 and count * n < 5e5:
            count *= 2
    out = {
        "seconds": best,
        "first step": built,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "steps": done,
        "largest": float(np.abs(position).max()),
        "accelerations": found.tolist() if n <= 10 else [],
    }
    print(json.dumps(out))


if __name__ == "__main__":
    main()
