"""Forward dynamics and kinematics of rigid chains: ratios to peers in one run, on one core.

    python benchmarks/bench_rigid.py [--quick]

Random chains of revolute and prismatic joints, general inertias, rates and gravity.  Needs
Pinocchio (``pip install pin``) for the ratios, and takes Drake (``pip install drake``) along where
that is installed.  Peers are interleaved with us, so that a busy machine slows both; times are
medians.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import importlib
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import numpy as np
from _timing import is_quick, medians

from fixman.kernels.compiler.lanes import fill_sines
from fixman.rigid import articulated_body, kinematics
from fixman.rigid.model import SerialChain

GRAVITY = (0.0, 0.0, -9.81)
# name, module, arguments, longest chain it is asked for
ALGORITHMS = (
    ("articulated body", "articulated_body", {}, 100_000),
    ("partition", "partition", {}, 100_000),
    ("partition, refined", "partition", {"refine": 1}, 100_000),
    ("UDUᵀ (Saha)", "denoc", {}, 100_000),
    ("FD1", "spatial_operators", {"method": "fd1"}, 100_000),
    ("FD3", "spatial_operators", {"method": "fd3"}, 100_000),
    ("composite body", "composite_body", {}, 300),
)
WANTED = {  # ratio to Pinocchio
    ("articulated body", 6): 1.0,
    ("articulated body", 30): 2.5,
    ("articulated body", 100): 3.5,
}

State = tuple[np.ndarray, np.ndarray, np.ndarray]


def chain(n: int) -> tuple[SerialChain, State]:
    """Return a random chain and a state: positions, rates and forces."""
    rng = np.random.default_rng(n)
    arm = SerialChain.random(n, rng, joints=("revolute", "prismatic"))
    return arm, tuple(rng.normal(size=(3, n)))


def ours(arm: SerialChain, state: State) -> dict[str, Callable[[], np.ndarray]]:
    """Return the forward dynamics of every module that can be imported and is fast enough."""
    found = {}
    for name, module, arguments, longest in ALGORITHMS:
        try:
            function = importlib.import_module(f"fixman.rigid.{module}").forward_dynamics
        except ImportError:
            continue
        if arm.n <= longest:
            found[name] = call(function, arm, *state, arguments)
    return found


def call(
    function: Callable[..., np.ndarray],
    arm: SerialChain,
    q: np.ndarray,
    qd: np.ndarray,
    tau: np.ndarray,
    arguments: dict[str, object],
) -> Callable[[], np.ndarray]:
    """Return the call as a user would write it: at n = 6 a `functools.partial` shows."""
    if arguments:
        return lambda: function(arm, q, qd, tau, gravity=GRAVITY, **arguments)
    return lambda: function(arm, q, qd, tau, gravity=GRAVITY)


def peer(name: str) -> ModuleType | None:
    """Import a peer if it is installed."""
    return importlib.import_module(name) if find_spec(name) else None


def pinocchio_model(pin: ModuleType, arm: SerialChain) -> Any:
    """Return Pinocchio's model of this chain."""
    joints = {"revolute": pin.JointModelRZ, "prismatic": pin.JointModelPZ}
    model, parent = pin.Model(), 0
    for i, joint in enumerate(arm.joints):
        place = pin.SE3(arm.rotations[i], arm.translations[i])
        parent = model.addJoint(parent, joints[joint](), place, f"joint {i}")
        body = pin.Inertia(arm.masses[i], arm.centres[i], arm.inertias[i])
        model.appendBodyToJoint(parent, body, pin.SE3.Identity())
    model.gravity = pin.Motion(np.array(GRAVITY), np.zeros(3))
    return model


def pinocchio(pin: ModuleType, arm: SerialChain, state: State) -> Callable[[], np.ndarray]:
    """Return Pinocchio's articulated-body algorithm for this chain and state."""
    model = pinocchio_model(pin, arm)
    aba, data, (q, qd, tau) = pin.aba, model.createData(), state
    return lambda: aba(model, data, q, qd, tau)


def drake(pydrake: ModuleType, arm: SerialChain, state: State) -> Callable[[], np.ndarray]:
    """Return Drake's forward dynamics (articulated bodies too) for this chain and state."""
    del pydrake  # its parts are modules of their own
    from pydrake.math import RigidTransform, RotationMatrix
    from pydrake.multibody import plant as plants
    from pydrake.multibody import tree

    plant = plants.MultibodyPlant(time_step=0.0)
    plant.mutable_gravity_field().set_gravity_vector(GRAVITY)
    before = plant.world_body()
    joints = {"revolute": tree.RevoluteJoint, "prismatic": tree.PrismaticJoint}
    for i, joint in enumerate(arm.joints):
        about = tree.RotationalInertia(
            *arm.inertias[i][[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]].tolist()
        )
        inertia = tree.SpatialInertia.MakeFromCentralInertia(arm.masses[i], arm.centres[i], about)
        body = plant.AddRigidBody(f"body {i}", inertia)
        place = RigidTransform(RotationMatrix(arm.rotations[i]), arm.translations[i])
        # so that no frame between needs welding
        frame = plant.AddFrame(tree.FixedOffsetFrame(f"joint {i}", before.body_frame(), place))
        hinge = plant.AddJoint(
            joints[joint](f"joint {i}", frame, body.body_frame(), [0, 0, 1], damping=0.0)
        )
        plant.AddJointActuator(f"motor {i}", hinge)
        before = body
    plant.Finalize()
    context = plant.CreateDefaultContext()
    q, qd, tau = state
    plant.get_actuation_input_port().FixValue(context, tau)

    def run() -> np.ndarray:
        plant.SetPositions(context, q)  # or Drake returns what it cached
        plant.SetVelocities(context, qd)
        derivatives = plant.EvalTimeDerivatives(context)
        return derivatives.CopyToVector()[arm.nq :]

    return run


def against_peers(sizes: tuple[int, ...], budget: float) -> None:
    pin, pydrake = peer("pinocchio"), peer("pydrake")
    print("One state, from Python: µs a call, × as fast as Pinocchio (wanted) and as Drake")
    for n in sizes:
        arm, state = chain(n)
        functions: dict[str, Callable[[], object]] = {}
        if pin and n <= 300:  # its memory grows with n² or worse
            functions["Pinocchio"] = pinocchio(pin, arm, state)
        if pydrake:
            functions["Drake"] = drake(pydrake, arm, state)
        functions.update(ours(arm, state))
        exact = functions["articulated body"]()
        times = medians(functions, budget)
        for name, seconds in times.items():
            off = np.abs(functions[name]() - exact).max() / np.abs(exact).max()
            line = f"  n = {n:4d}  {name:20s} {seconds * 1e6:9.2f} µs"
            line += f" {seconds / n * 1e9:7.1f} ns/link"
            if "Pinocchio" in times:
                wanted = WANTED.get((name, n))
                line += f"  ×{times['Pinocchio'] / seconds:6.2f}"
                line += f" ({wanted:.1f})" if wanted else "      "
            if "Drake" in times:
                line += f"  ×{times['Drake'] / seconds:6.1f}"
            print(f"{line}  differs by {off:.0e}")


def long_chains(sizes: tuple[int, ...], budget: float) -> None:
    print("\nLong chains, memory reused: ns a link (wanted for the articulated body: 120 at 10⁵)")
    for n in sizes:
        arm, state = chain(n)
        times = medians(ours(arm, state), budget)
        print(f"  n = {n:6d}  " + ", ".join(f"{k} {v / n * 1e9:.0f}" for k, v in times.items()))


def batches(sizes: tuple[int, ...], budget: float) -> None:
    print(
        "\nBatches of states: ns a link and state (wanted: 40), gain of two workers (wanted: 1.6)"
    )
    gains = []
    for n in sizes:
        arm, _ = chain(n)
        frames = 500_000 // n
        states = np.random.default_rng(0).normal(size=(3, frames, n))
        for name, run in ours(arm, states).items():
            if name == "composite body":
                continue
            functions: dict[str, Callable[[], object]] = {"one": run}
            if name == "articulated body":
                function = articulated_body.forward_dynamics
                functions["two"] = call(function, arm, *states, {"workers": 2})
            times = medians(functions, budget)
            line = f"  n = {n:4d}  {name:20s} {times['one'] / n / frames * 1e9:7.1f} ns"
            if "two" in times:
                gains.append(times["one"] / times["two"])
                line += f"  two workers ×{gains[-1]:.2f}"
            print(line)
    print(f"  two threads that share nothing gain ×{free_cores():.2f} on this machine now")


def motions(sizes: tuple[int, ...], budget: float) -> None:
    print("\nFrames and twists of all bodies: ns a link and state (wanted: half Pinocchio's speed)")
    pin = peer("pinocchio")
    for n in sizes:
        arm, _ = chain(n)
        frames = max(1, 10_000 // n)
        q, qd = np.random.default_rng(0).normal(size=(2, frames, n))
        functions: dict[str, Callable[[], object]] = {
            "one": partial(kinematics.frames, arm, q[0], qd[0]),
            "batch": partial(kinematics.frames, arm, q, qd),
            "Ω of the tip, batch": partial(
                kinematics.operational_space_compliance, arm, q, arm.n - 1
            ),
        }
        if pin and n <= 300:
            model = pinocchio_model(pin, arm)
            forward = partial(pin.forwardKinematics, model, model.createData())
            functions["Pinocchio, one"] = partial(forward, q[0], qd[0])
            functions["Pinocchio, batch"] = partial(each, forward, q, qd)
        times = medians(functions, budget)
        states = {name: frames if "batch" in name else 1 for name in times}
        parts = (f"{k} {v / n / states[k] * 1e9:.1f}" for k, v in times.items())
        print(f"  n = {n:4d}  " + ", ".join(parts))


def each(forward: Callable[..., object], q: np.ndarray, qd: np.ndarray) -> None:
    """Call what takes one state for every state."""
    for state in zip(q, qd, strict=True):
        forward(*state)


def free_cores() -> float:
    """Return how much faster two threads do two independent jobs than one does."""
    memory = [np.zeros(2_000) for _ in range(2)]

    def job(work: np.ndarray) -> None:
        for _ in range(20_000):
            fill_sines(work, 1_000)

    job(memory[0])
    gains = []
    for _ in range(7):
        start = time.perf_counter()
        for work in memory:
            job(work)
        middle = time.perf_counter()
        threads = [threading.Thread(target=job, args=(work,)) for work in memory]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gains.append((middle - start) / (time.perf_counter() - middle))
    return float(np.median(gains))


def main() -> None:
    quick = is_quick(__doc__)
    budget = 0.05 if quick else 2.0
    against_peers((6, 30) if quick else (6, 30, 100, 300, 1000), budget)
    long_chains((1_000,) if quick else (1_000, 10_000, 100_000), budget)
    batches((30,) if quick else (6, 30, 100, 300), budget)
    motions((30,) if quick else (6, 30, 100, 300, 10_000), budget)


if __name__ == "__main__":
    main()
