"""What the examples of Saha (1999) share: the prescribed motion, free fall, and energy."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp

from fixman.rigid import SerialChain, composite_body

Forward = Callable[..., np.ndarray]


def cycloid(t, period: float, start, end) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return q, q̇ and q̈ (times, n) of equations 38 and 39, from rest to rest."""
    rate = 2 * np.pi / period
    x, way = rate * np.asarray(t)[:, None], (np.asarray(end) - start) / (2 * np.pi)
    return start + way * (x - np.sin(x)), way * rate * (1 - np.cos(x)), way * rate**2 * np.sin(x)


def fall(arm: SerialChain, start, seconds: float, gravity, forward: Forward, tolerance=1e-12):
    """Return instants and q, q̇ (times, n) of the arm let go, by Dormand and Prince's DOP853.

    The integrator stops at each instant: between its steps it interpolates, with fewer digits.
    """
    n, nothing = arm.n, np.zeros(arm.n)

    def rate(_, y):
        return np.concatenate([y[n:], forward(arm, y[:n], y[n:], nothing, gravity=gravity)])

    t = np.linspace(0.0, seconds, 401)
    states = [np.concatenate([start, nothing])]
    for span in pairwise(t):
        step = solve_ivp(rate, span, states[-1], "DOP853", rtol=tolerance, atol=tolerance)
        states.append(step.y[:, -1])
    return t, np.array(states)[:, :n], np.array(states)[:, n:]


def row(quantity: str, value: float, reference: str = "") -> dict[str, str]:
    """Return a row of the table, and print it; references keep the digits they are known with."""
    digits = len(reference.partition(".")[2])
    text = f"{round(value, digits) + 0.0:.{digits}f}" if reference else f"{value:.1e}"
    print(f"{quantity:42}{text:>12}{reference:>12}")
    return {"quantity": quantity, "value": text, "reference": reference}


def centres(arm: SerialChain, q) -> tuple[np.ndarray, np.ndarray]:
    """Return mass centres (n, 3) and joints (n, 3) in the base, of hinges and slides."""
    R, p, found, joints = np.eye(3), np.zeros(3), [], []
    for i, joint in enumerate(arm.joints):
        p, R = p + R @ arm.translations[i], R @ arm.rotations[i]
        if joint == "revolute":
            c, s = np.cos(q[i]), np.sin(q[i])
            R = R @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        else:
            p = p + R[:, 2] * q[i]
        joints.append(p)
        found.append(p + R @ arm.centres[i])
    return np.array(found), np.array(joints)


def energies(arm: SerialChain, q, qd, gravity) -> tuple[np.ndarray, np.ndarray]:
    """Return kinetic and potential energies (times,)."""
    inertia = composite_body.inertia_matrix(arm, q)
    kinetic = np.einsum("ti,tij,tj->t", qd, inertia, qd) / 2
    lifted = [-arm.masses @ centres(arm, row)[0] @ np.asarray(gravity) for row in q]
    return kinetic, np.array(lifted)
