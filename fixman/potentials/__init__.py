"""Energies and forces of chain models, flows, and how both are bound to a chain."""

from fixman.potentials.energies import (
    WCA,
    Bending,
    BendingTorsion,
    Bound,
    Compiled,
    Gravity,
    LennardJones,
    Potential,
    PotentialTables,
    RyckaertBellemans,
    Sum,
    Tension,
    Tether,
    Torsion,
    bind,
    from_parameters,
)

__all__ = [
    "WCA",
    "Bending",
    "BendingTorsion",
    "Bound",
    "Compiled",
    "Gravity",
    "LennardJones",
    "Potential",
    "PotentialTables",
    "RyckaertBellemans",
    "Sum",
    "Tension",
    "Tether",
    "Torsion",
    "bind",
    "from_parameters",
]
