"""Runs of rigid bodies for tests of files: an arm and a four-bar, by either scheme."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from fixman.rigid import SerialChain
from fixman.rigid.closed import Closure, End, Linkage, project
from fixman.rigid.motion import simulate

DOWN = (0.0, -9.81, 0.0)
ARM = replace(SerialChain.planar([0.5, 1.3], [0.5, 1.3], [0.1, 0.2]), damping=0.1, stiffness=2.0)
ROCKER = replace(SerialChain.planar([0.9], [0.9], [0.06]), translations=[[1.2, 0, 0]])
PIN = Closure(End(1, (1.3, 0, 0)), End(0, (0.9, 0, 0), chain=1), ("x", "y"))
FOUR_BAR = Linkage((ARM, ROCKER), PIN)
WHEEL = SerialChain.planar([1.0], [1.0], [0.1])
Q, QD = np.array([[0.3, -0.2], [0.1, 0.4]]), np.array([[3.0, -1.0], [0.2, 0.5]])


def pull(t, q, qd):
    """Push harder as time goes on."""
    return np.cos(3.0 * t) - 0.1 * qd


RUNS = {
    "midpoint": {"system": ARM, "q": Q, "qd": QD, "tau": [0.1, 0.2], "wrenches": np.ones((2, 6))},
    "euler": {"system": ARM, "q": Q, "qd": QD, "scheme": "euler"},
    "four-bar": {"system": FOUR_BAR, "scheme": "euler"},  # from `closed`
    "controlled": {"system": ARM, "q": Q[0], "qd": QD[0], "tau": pull},
}


@cache
def closed():
    """Positions and velocities of the four-bar; not before they are needed, since this compiles."""
    return project(FOUR_BAR, [0.6, -0.3, 1.5], [3.0, 0.0, 0.0])


def begin(name, out=None, steps=400, **options):
    """Simulate one of the runs, a frame at every fourth step."""
    start = dict(zip(("q", "qd"), closed(), strict=True)) if name == "four-bar" else {}
    given = {"dt": 1e-3, "gravity": DOWN, "every": 4, "first": 8, "progress": False}
    return simulate(**RUNS[name] | start | given | options, steps=steps, out=out)
