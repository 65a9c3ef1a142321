"""Energies and forces of chain models, flows, and how both are bound to a chain."""

from fixman.potentials import energies
from fixman.potentials.energies import *  # noqa: F403

__all__ = list(energies.__all__)
__dir__ = __all__.copy  # completion shows public names alone
