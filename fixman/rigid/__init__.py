"""Serial chains of rigid bodies, one file for each published algorithm.

``SerialChain`` describes a chain; the submodules, which load on first use, answer questions about
it in the symbols of their papers.

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
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fixman.rigid.model import SerialChain as SerialChain

    # Relative, or mypy does not find what nothing else imports.
    from . import articulated_body as articulated_body
    from . import closed as closed
    from . import composite_body as composite_body
    from . import denoc as denoc
    from . import joints as joints
    from . import kinematics as kinematics
    from . import motion as motion
    from . import newton_euler as newton_euler
    from . import partition as partition
    from . import spatial_operators as spatial_operators
    from . import statistics as statistics
    from . import urdf as urdf

__all__ = ["SerialChain", "articulated_body", "closed", "composite_body", "denoc", "joints"]
__all__ += ["kinematics", "motion", "newton_euler", "partition", "spatial_operators"]
__all__ += ["statistics", "urdf"]


def __getattr__(name: str) -> Any:
    if name == "SerialChain":
        globals()[name] = import_module("fixman.rigid.model").SerialChain
    elif name in __all__:
        import_module(f"fixman.rigid.{name}")
    else:
        raise AttributeError(f"module 'fixman.rigid' has no attribute {name!r}")
    return globals()[name]  # where the next access finds it


def __dir__() -> list[str]:
    return sorted(__all__)
