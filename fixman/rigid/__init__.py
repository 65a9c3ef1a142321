"""Serial chains of rigid bodies, one file for each published algorithm.

``SerialChain`` describes a chain; the submodules answer questions about it in the symbols of
their papers.  They share vector algebra, the placement of joints, the bias and how a joint is taken
out of an inertia; UDUᵀ and FD1 are one algorithm.  Tests hold them against each other and against
oracles that share nothing with them.

============================  ==================================================================
`kinematics`                  frames, Jacobians, momentum, steps, operational-space inertia
`joints`                      springs and dampers of the joints
`newton_euler`                inverse dynamics and joint wrenches
`composite_body`              inertia matrix, matrix of convective terms, O(n³) forward dynamics
`denoc`                       Saha's UDUᵀ of the inertia matrix
`articulated_body`            Featherstone's articulated-body inertias
`spatial_operators`           Rodriguez and Kreutz's innovations factorization
`partition`                   Fixman's partition, joint wrenches and the mass-metric determinant
`closed`                      loops, grasps and platforms of chains, by the algorithms above
`motion`                      motion in time, of chains and closed ones
`statistics`                  thermal rates, Fixman's torque, Langevin dynamics of the joints
`urdf`                        chains and names from URDF files
============================  ==================================================================

Names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixman.rigid.model import SerialChain

    from . import (  # relative, or mypy does not find what nothing else imports
        articulated_body,
        closed,
        composite_body,
        denoc,
        joints,
        kinematics,
        motion,
        newton_euler,
        partition,
        spatial_operators,
        statistics,
        urdf,
    )

__all__ = [
    "SerialChain",
    "articulated_body",
    "closed",
    "composite_body",
    "denoc",
    "joints",
    "kinematics",
    "motion",
    "newton_euler",
    "partition",
    "spatial_operators",
    "statistics",
    "urdf",
]


def __getattr__(name: str) -> Any:
    if name == "SerialChain":
        value: Any = import_module("fixman.rigid.model").SerialChain
    elif name in __all__:
        value = import_module(f"fixman.rigid.{name}")
    else:
        raise AttributeError(f"module 'fixman.rigid' has no attribute {name!r}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
