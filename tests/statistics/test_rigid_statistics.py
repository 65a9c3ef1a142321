"""Langevin dynamics of rigid chains in both ensembles, against quadrature and weighted samples.

Errors are those between independent replicas, seeds are fixed; averages must be within 4σ.
"""

from dataclasses import replace

import numpy as np
import pytest

from fixman.rigid import SerialChain, composite_body, denoc, kinematics, statistics
from rigid_cases import uneven_pair

pytestmark = pytest.mark.thorough

REPLICAS = 768
GRAVITY = np.array([0.0, -0.7, 0.0])


def averages(arm, q, observable, dt, ensemble, steps, **options):
    """Means of observables (..., nq) → (..., m), and of the kinetic energy, with their errors."""
    rng = np.random.default_rng(2)
    options |= {"ensemble": ensemble, "rng": rng}
    q, qd = statistics.langevin(arm, q, dt, steps // 3, every=steps // 3, **options)
    q, qd = statistics.langevin(arm, q[-1], dt, steps, qd=qd[-1], **options)
    kinetic = kinematics.kinetic_energy(arm, q, qd)[..., None]
    means = np.concatenate([observable(q), kinetic], axis=-1).mean(axis=0)
    return means.mean(axis=0), means.std(axis=0) / np.sqrt(len(means))


def bends(q):
    """Height of the first rod, and moments of the other angles."""
    first, last = np.cos(q[..., 1]), np.cos(q[..., -1])
    return np.stack([np.sin(q[..., 0]), first, first**2, last, last**2], axis=-1)


def quadrature(arm, n, ensemble, points):
    """Averages over a torus by the trapezoidal rule, exact for what is smooth and periodic."""
    angles = np.arange(points) * (2 * np.pi / points)
    q = np.stack(np.meshgrid(*[angles] * n, indexing="ij"), axis=-1).reshape(-1, n)
    weight = np.exp(-kinematics.potential_energy(arm, q, gravity=GRAVITY))
    if ensemble == "rigid":
        weight *= np.sqrt(np.linalg.det(composite_body.inertia_matrix(arm, q)))
    return weight @ bends(q) / weight.sum()


def test_pendulum_chain_against_quadrature():
    n = 3
    arm = SerialChain.planar(np.ones(n), np.ones(n), np.full(n, 1 / 12))
    q = np.random.default_rng(1).uniform(0, 2 * np.pi, (REPLICAS, n))
    exact = {name: quadrature(arm, n, name, 40) for name in ("rigid", "stiff")}
    for name, wanted in exact.items():
        mean, sigma = averages(arm, q, bends, 0.2, name, 100, gravity=GRAVITY)
        assert np.abs((mean - np.append(wanted, n / 2)) / sigma).max() < 4, name
        # It tells one ensemble from the other.
        assert (np.abs((exact["rigid"] - exact["stiff"]) / sigma[:-1]) > 10).any()


@pytest.mark.parametrize("friction", [1.0, 0.05])
def test_low_friction_has_its_temperature(friction):
    arm, rng, size = uneven_pair(), np.random.default_rng(7), 256
    q, steps = rng.uniform(0, 2 * np.pi, (size, 2)), round(3 / friction / 0.2)
    options = {"friction": friction, "ensemble": "stiff", "rng": rng}
    q, qd = statistics.langevin(arm, q, 0.2, steps, **options)
    found = kinematics.kinetic_energy(arm, q, qd), np.cos(q[..., 1]) ** 2
    for values, wanted in zip(found, (1.0, 0.5), strict=True):
        means = values.mean(axis=0)
        error = means.std() / np.sqrt(size)
        assert abs(means.mean() - wanted) < 4 * error < 0.15


def quaternions(rng, size):
    x = rng.normal(size=(size, 4))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_spherical_joints_against_weighted_samples():
    # Dumb-bells on balls: ℳ depends on their bend, and gravity on both.
    bar = np.diag([0.05, 0.1, 0.1])
    eye = np.broadcast_to(np.eye(3), (2, 3, 3))
    places = np.array([[0, 0, 0], [1.0, 0, 0]])
    centres = np.full((2, 3), [0.5, 0, 0])
    arm = SerialChain(("spherical",) * 2, eye, places, [1, 1], centres, [bar, bar])

    def moments(q):
        R = kinematics.frames(arm, q)[0]
        bend = np.einsum("...i,...i->...", R[..., 0, :, 0], R[..., 1, :, 0])
        return np.stack([R[..., 0, 1, 0], R[..., 1, 1, 0], bend, bend**2], axis=-1)

    rng = np.random.default_rng(3)
    free = np.concatenate([quaternions(rng, 60_000), quaternions(rng, 60_000)], axis=1)
    values = moments(free)
    exact = {}
    for name in ("rigid", "stiff"):
        log_weight = -kinematics.potential_energy(arm, free, gravity=GRAVITY)
        if name == "rigid":
            log_weight = log_weight + 0.5 * denoc.logdet_mass(arm, free)
        w = np.exp(log_weight - log_weight.max())
        w /= w.sum()
        wanted = w @ values
        exact[name] = wanted, np.sqrt(w**2 @ (values - wanted) ** 2)
    for name, (wanted, error) in exact.items():
        mean, sigma = averages(arm, free[:REPLICAS], moments, 0.2, name, 80, gravity=GRAVITY)
        off = np.append(mean[:-1] - wanted, mean[-1] - 3.0)
        sigma = np.hypot(sigma, np.append(error, 0.0))
        assert np.abs(off / sigma).max() < 4, name
        assert np.abs((exact["rigid"][0] - exact["stiff"][0])[-1]) > 10 * sigma[3]


def test_springs_and_rotors_against_quadrature():
    """Springs are energies of the Boltzmann factor, and rotors are in det ℳ."""
    arm = replace(
        SerialChain.planar([1, 1], [1, 1], [1 / 12, 1 / 12]),
        armature=[0.05, 0.4], stiffness=[1.0, 2.0], rest=[0.3, 0.8],
    )  # fmt: skip
    rotors_left_out = replace(arm, armature=[0.05, 0.0])

    def seen(q):
        return np.stack([np.cos(q[..., 1]), np.cos(q[..., 1]) ** 2, q[..., 0]], axis=-1)

    around = np.linspace(-8, 8, 321)
    grid = np.stack(np.meshgrid(around, around, indexing="ij"), axis=-1).reshape(-1, 2) + arm.rest
    boltzmann = np.exp(-kinematics.potential_energy(arm, grid, gravity=GRAVITY))

    def exact(chain):
        weight = boltzmann * np.sqrt(np.linalg.det(composite_body.inertia_matrix(chain, grid)))
        return weight @ seen(grid) / weight.sum()

    q = arm.rest + np.random.default_rng(3).normal(size=(REPLICAS, 2))
    for name, wanted in (
        ("rigid", exact(arm)),
        ("stiff", boltzmann @ seen(grid) / boltzmann.sum()),
    ):
        mean, sigma = averages(arm, q, seen, 0.2, name, 120, gravity=GRAVITY)
        assert np.abs((mean - np.append(wanted, 1.0)) / sigma).max() < 4, name
        if name == "rigid":  # it would see the second rotor missing
            assert np.abs((exact(rotors_left_out) - wanted) / sigma[:-1]).max() > 8
