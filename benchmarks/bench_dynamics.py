"""Forward dynamics and ln det H^bb: ratios to peers in one run, on one core.

    python benchmarks/bench_dynamics.py [--quick]

Needs Pinocchio for the first rows.  Peers are interleaved with us, so that a busy machine slows
both; times are medians.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import subprocess
import sys
from functools import partial

import numpy as np
from _timing import is_quick, medians

import fixman as fx
from fixman.kernels.chain import jointed_motion

RNG = np.random.default_rng(2005)


def arm_state(n: int) -> tuple[fx.Chain, np.ndarray, np.ndarray, np.ndarray]:
    """Return a planar arm, its coordinates and their rates, and torques."""
    chain = fx.Chain.linear(n, dim=2, base="fixed", masses=10.0 ** RNG.uniform(-1, 1, n))
    q, qd = np.empty(2 * n), np.zeros(2 * n)
    q[chain.hard] = RNG.uniform(0.5, 2.0, n)
    q[chain.soft] = RNG.uniform(-np.pi, np.pi, n)
    qd[chain.soft] = RNG.normal(size=n)
    return chain, q, qd, RNG.normal(size=n)


def pinocchio_model(pin, lengths: np.ndarray, masses: np.ndarray):
    """Return the same arm for Pinocchio: revolute joints, point masses at the ends of the links."""
    model = pin.Model()
    model.gravity = pin.Motion.Zero()
    parent, offset = 0, 0.0
    for length, mass in zip(lengths, masses, strict=True):
        place = pin.SE3(np.eye(3), np.array([offset, 0.0, 0.0]))
        parent = model.addJoint(parent, pin.JointModelRZ(), place, f"joint {parent}")
        inertia = pin.Inertia(mass, np.array([length, 0.0, 0.0]), np.zeros((3, 3)))
        model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
        offset = length
    return model


def against_pinocchio(sizes: tuple[int, ...], budget: float) -> None:
    try:
        import pinocchio as pin
    except ImportError:
        print("no comparison with Pinocchio: pip install pin\n")
        return
    print("Planar arm, full forward dynamics from Python (wanted: 5× at n = 100, 25 µs at n = 10)")
    print(f"{'n':>10}{'fixman, µs':>14}{'ABA, µs':>14}{'ratio':>10}{'agreement':>12}")
    for n in sizes:
        chain, q, qd, torque = arm_state(n)
        x, v = chain.cartesian(q, qd)
        model = pinocchio_model(pin, q[chain.hard], chain.masses)
        theta, rate = q[chain.soft].copy(), qd[chain.soft].copy()
        ours = partial(public_call, chain, x, v, torque)
        theirs = partial(pin.aba, model, model.createData(), theta, rate, torque)
        error = np.abs(ours() - theirs()).max() / np.abs(theirs()).max()
        found = medians({"ours": ours, "theirs": theirs}, budget)
        us, them = 1e6 * found["ours"], 1e6 * found["theirs"]
        print(f"{n:>10}{us:>14.2f}{them:>14.2f}{them / us:>9.1f}×{error:>12.0e}", flush=True)
    print()


def public_call(chain: fx.Chain, x: np.ndarray, v: np.ndarray, torque: np.ndarray) -> np.ndarray:
    return fx.forward_dynamics(chain, x, v, torque=torque).qdd


def scaling(sizes: tuple[int, ...], budget: float) -> None:
    print("The same, ns per link (wanted: 60 at most for the kernel alone)")
    print(f"{'n':>10}{'kernel':>14}{'public call':>14}")
    times = []
    for n in sizes:
        chain, q, qd, torque = arm_state(n)
        x, v = chain.cartesian(q, qd)
        rest = np.empty((0, 2)), (0.0, 0.0), chain.layout.links, n, True, np.empty((1, 4 * n))
        kernel = partial(jointed_motion.motion_frames, x, v, torque, *rest)
        public = partial(public_call, chain, x, v, torque)
        found = medians({"kernel": kernel, "public": public}, budget)
        times.append(found["public"])
        kernel_ns, public_ns = (1e9 * found[name] / n for name in ("kernel", "public"))
        print(f"{n:>10,}{kernel_ns:>14.1f}{public_ns:>14.1f}", flush=True)
    if len(sizes) > 2:
        exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
        print(f"cost exponent of the public call: {exponent:.3f} (wanted: 0.95 to 1.1)")
    print()


MEMORY = """
import resource, sys
import numpy as np
import fixman as fx

n = int(sys.argv[1])
rng = np.random.default_rng(1)
chain = fx.Chain.linear(n, dim=2, base="fixed", masses=rng.uniform(0.1, 10, n))
direction = np.cumsum(rng.uniform(-np.pi, np.pi, n))
d = np.stack([np.cos(direction), np.sin(direction)], axis=1)
x = np.cumsum(d, axis=0)
v = np.cumsum(rng.normal(size=n)[:, None] * d[:, ::-1] * [-1.0, 1.0], axis=0)
torque = rng.normal(size=n)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fx.forward_dynamics(chain, x, v, torque=torque).qdd
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory(n: int) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", MEMORY, str(n)], capture_output=True, text=True, check=True
    )
    before, after = (int(kilobytes) * 1024 / 1e9 for kilobytes in answer.stdout.split())
    print(f"Peak memory of a process that solves a planar arm of {n:,} links")
    print(f"{after:.2f} GB, {before:.2f} GB of it before the solve (wanted: less than 1 GB)\n")


def determinants(sizes: tuple[tuple[int, int], ...], budget: float) -> None:
    print("ln det H^bb of chains in space, against slogdet of the assembled dense matrix")
    print(f"{'hard':>18}{'beads':>8}{'frames':>8}{'ns per bead and frame':>24}{'slogdet':>10}")
    for hard in (("length",), ("length", "angle")):
        for n, frames in sizes:
            chain = fx.Chain.linear(n, hard=hard)
            X = RNG.normal(size=(frames, n, 3)).cumsum(axis=1)
            H = fx.Partition(chain, X[0]).H_bb.toarray()
            found = medians(
                {"ours": partial(fx.logdet, chain, X), "dense": partial(np.linalg.slogdet, H)},
                budget,
            )
            one = found["ours"] / frames
            kinds, ratio = " + ".join(hard), found["dense"] / one
            print(f"{kinds:>18}{n:>8}{frames:>8}{1e9 * one / n:>24.1f}{ratio:>9.0f}×", flush=True)


def main() -> None:
    quick = is_quick(__doc__)
    budget = 0.05 if quick else 2.0
    print(f"load average before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    against_pinocchio((10, 30) if quick else (10, 30, 100), budget)
    decades = (1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    scaling(decades[:2] if quick else decades, budget)
    memory(10_000 if quick else 1_000_000)
    determinants(((100, 100),) if quick else ((100, 10_000), (1000, 1000)), budget)
    print(f"\nload average after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
