"""Energies and forces of chain models, flows, and how both are bound to a chain or a system."""

from fixman.potentials import energies
from fixman.potentials.energies import *  # noqa: F403
from fixman.potentials.systems import BoundSystem as BoundSystem
from fixman.potentials.systems import bind as bind  # type: ignore[assignment]

__all__ = [*energies.__all__, "BoundSystem"]
__dir__ = __all__.copy  # completion shows public names alone
