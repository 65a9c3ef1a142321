"""Chains for tests of the rigid algorithms: random states, degenerate ones, the residual."""

from __future__ import annotations

import numpy as np

from fixman.rigid import SerialChain, newton_euler, spatial_operators
from rigid_oracles import random_q


def random_state(n, rng, **options):
    """Return a mixed chain and (q, q̇, τ), then gravity and wrenches as keywords."""
    arm = SerialChain.random(n, rng, **options)
    state = random_q(arm, rng), rng.normal(size=arm.nv), rng.normal(size=arm.nv)
    return arm, state, {"gravity": 5 * rng.normal(size=3), "wrenches": rng.normal(size=(n, 6))}


def changed(arm, **parts):
    """Return the chain with some of its arrays replaced."""
    names = ("joints", "rotations", "translations", "masses", "centres", "inertias")
    return SerialChain(**({name: getattr(arm, name) for name in names} | parts))


def degenerate(rng, n):
    """Yield name, chain, coordinates: right to 1e-8, or a typed error."""
    mixed = SerialChain.random(n, rng, free_base=bool(rng.integers(2)))
    plain = SerialChain.random(n, rng, joints=("revolute", "prismatic"))
    eye = np.broadcast_to(np.eye(3), (n, 3, 3))
    lengths, masses = rng.uniform(0.5, 2.0, (2, n))
    at_joints = np.vstack([plain.translations[1:], [[0.1, 0.2, 0.3]]])
    heavy = 10 ** rng.uniform(-3, 3, n)
    tip, base = np.ones((2, n))
    tip[-1], base[0] = 1e6, 1e6
    cases = {
        "parallel axes": changed(plain, rotations=eye),
        "parallel axes, mixed": changed(mixed, rotations=eye),
        "straight": SerialChain.planar(lengths, masses, rng.uniform(0.01, 1.0, n)),
        "straight, points": SerialChain.planar(lengths, masses, np.zeros(n)),
        "points": changed(plain, inertias=0 * plain.inertias),
        "points, mixed": changed(mixed, inertias=0 * mixed.inertias),
        "points, parallel axes": changed(plain, inertias=0 * plain.inertias, rotations=eye),
        "points at the joints": changed(plain, inertias=0 * plain.inertias, centres=at_joints),
        "points on the axes": changed(plain, inertias=0 * plain.inertias, centres=np.zeros((n, 3))),
        "some massless": changed(
            mixed,
            masses=mixed.masses * (tip > 1),
            inertias=mixed.inertias * (tip > 1)[:, None, None],
        ),
        "massless tip": changed(
            mixed,
            masses=mixed.masses * (tip < 2),
            inertias=mixed.inertias * (tip < 2)[:, None, None],
        ),
        "needles": changed(mixed, inertias=1e-8 * mixed.inertias),
        "needles, plain": changed(plain, inertias=1e-10 * plain.inertias),
    }
    for name, ratio in (("masses over 10⁶", heavy), ("heavy tip", tip), ("heavy base", base)):
        inertias = ratio[:, None, None]
        cases[name] = changed(
            mixed, masses=mixed.masses * ratio, inertias=mixed.inertias * inertias
        )
    cases["heavy point at the tip"] = changed(
        mixed, masses=mixed.masses * tip, inertias=0 * mixed.inertias
    )
    for name, arm in cases.items():
        q = np.zeros(n) if name.startswith("straight") else random_q(arm, rng)
        yield name, arm, q


def scaled_residual(arm, state, qdd, **forces):
    """Return max |ℳ⁻¹ (inverse(q̈) − τ)| / max |q̈|: the residual, as an error of q̈."""
    q, qd, tau = state
    residual = newton_euler.inverse_dynamics(arm, q, qd, qdd, **forces) - tau
    step = spatial_operators.forward_dynamics(arm, q, np.zeros(arm.nv), residual)
    return np.abs(step).max() / np.abs(qdd).max()


def uneven_pair():
    """Return two hinges in the plane, of masses that differ."""
    eye, centres = np.eye(3), [(0.3, 0.1, 0), (0.45, -0.05, 0)]
    places, inertias = [(0, 0, 0), (1, 0, 0)], [0.02 * eye, 0.05 * eye]
    return SerialChain(["revolute"] * 2, [eye] * 2, places, [0.7, 2.5], centres, inertias)
