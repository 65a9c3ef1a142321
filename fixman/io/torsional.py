"""A molecule from a PDB file: its chain, forces of any OpenMM force field, and the names of atoms.

Units are OpenMM's: nm, ps, dalton, kJ/mol.
"""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from fixman import _arrays, topology
from fixman._arrays import Array
from fixman.chain import Chain
from fixman.errors import Advice, ConstraintSolveError, FrameError
from fixman.observables import kinetic_energy, torsions
from fixman.trajectory import pdb_potential

try:
    import openmm
    from openmm import app, unit
except ImportError as error:
    raise ImportError(
        'molecules from PDB files need OpenMM: pip install "fixman-chains[openmm]"'
    ) from error

from fixman.io.openmm import Forces, chain

__all__ = ["HOLDS", "Molecule", "naming"]

SMALL = 8  # atoms of the largest ring whose bonds do not turn
# Groups at the end of a molecule, by their heavy atom and the number of its hydrogens.
ENDS = {
    ("C", 3): "methyl",
    ("O", 1): "hydroxyl",
    ("S", 1): "hydroxyl",
    ("N", 3): "ammonium",
}
HOLDS = ("methyl", "hydroxyl", "ammonium", "peptide")


class Molecule(Forces):
    """A molecule that one PDB file and some force fields describe, as a potential for steppers.

    Parameters
    ----------
    pdb : str
        The text of a PDB file with every hydrogen, `prepare` makes one.  One connected molecule.
    forcefield : sequence of str
        Names that OpenMM knows, ``"amber14-all.xml", "implicit/obc2.xml"``, or paths.
    platform : str, optional
        Of OpenMM, by default the fastest.

    Attributes
    ----------
    topology, system : of OpenMM
        The System has no constraints.
    names : list of str
        ``"ALA 3 CB"``, one of each atom.
    x0 : (n, 3)
        Positions of the file in nm.

    Raises
    ------
    ValueError
        If the force fields do not know a residue, or atoms are not one connected molecule.

    """

    def __init__(self, pdb: str, forcefield: Iterable[str], platform: str | None = None) -> None:
        self.pdb, self.forcefield = pdb, tuple(forcefield)
        read = _read(io.StringIO(pdb), "the PDB text")
        self.topology = read.topology
        self.names = [
            f"{atom.residue.name} {atom.residue.id} {atom.name}" for atom in self.topology.atoms()
        ]
        self.x0 = np.array(read.positions.value_in_unit(unit.nanometer))
        self._require_connected()
        self.system = _system(_field(self.forcefield), self.topology)
        super().__init__(self.system, platform)

    @classmethod
    def prepare(
        cls,
        path: str | Path,
        forcefield: Iterable[str],
        platform: str | None = None,
        *,
        add_hydrogens: bool = False,
        drop_solvent: bool = False,
    ) -> Molecule:
        """Read a PDB file, and add what is asked for.

        Parameters
        ----------
        path : path
        forcefield, platform
            As of the class.
        add_hydrogens : bool
            Whether to add the hydrogens that the force field wants and the file has not, at pH 7.
        drop_solvent : bool
            Whether to leave out water and whatever consists of one atom.

        Raises
        ------
        FileNotFoundError
        ValueError
            As the class.
        """
        path, forcefield = _arrays.path(path, "path"), tuple(forcefield)
        if not path.is_file():
            raise FileNotFoundError(f"no such file: {path}")
        read = _read(str(path), str(path))
        modeller = app.Modeller(read.topology, read.positions)
        if drop_solvent:
            modeller.deleteWater()
            modeller.delete([one for one in modeller.topology.residues() if len(one) == 1])
        if add_hydrogens:
            modeller.addHydrogens(_field(forcefield))
        modeller.topology.setPeriodicBoxVectors(None)
        text = io.StringIO()
        app.PDBFile.writeFile(modeller.topology, modeller.positions, text, keepIds=True)
        # The date of the first line would make two runs of one file differ.
        return cls(text.getvalue().split("\n", 1)[1], forcefield, platform)

    @classmethod
    def of_run(cls, about: Mapping[str, Any]) -> Molecule:
        """Make the molecule of a run again, from its ``about``.

        Raises ValueError if the run is of none, or if the force fields make another System now.
        """
        described = pdb_potential(about)
        if described is None:
            raise ValueError("this run is of no PDB file: fixman torsional makes such runs")
        molecule = cls(described["pdb"], described["forcefield"], described["platform"])
        if molecule.parameters() != dict(described):
            raise ValueError(
                f"{', '.join(molecule.forcefield)} makes another System of these atoms than when "
                "the run began: another version of OpenMM, or the file was edited"
            )
        return molecule

    def parameters(self) -> dict[str, Any]:
        """Return what `of_run` makes the molecule of again, ready for JSON."""
        return super().parameters() | {"pdb": self.pdb, "forcefield": list(self.forcefield)}

    def minimized(self, x: Array, tolerance: float = 10.0) -> Array:
        """Return a minimum (n, 3) near x, where forces are below ``tolerance`` (rms)."""
        platform = openmm.Platform.getPlatformByName(self.platform)
        context = openmm.Context(self.system, openmm.VerletIntegrator(0.001), platform)
        context.setPositions(x)
        openmm.LocalEnergyMinimizer.minimize(context, tolerance)
        found = context.getState(positions=True).getPositions(asNumpy=True)
        return np.array(found.value_in_unit(unit.nanometer))

    # --- chain and observables ------------------------------------------------------------------

    def chain(self, hold: Iterable[str] = ()) -> Chain:
        """Return the chain whose bonds and angles are hard, and whose torsions are soft.

        Soft are torsions about bonds that are neither terminal nor in a ring of up to 8 atoms.

        Parameters
        ----------
        hold : words of `HOLDS`
            What does not turn either: ``"methyl"``, ``"hydroxyl"`` (and SH), ``"ammonium"``, and
            ``"peptide"`` (ω).
        """
        hold = set(hold)
        for word in hold.difference(HOLDS):
            raise ValueError(f"cannot hold {word!r}: choose among {', '.join(HOLDS)}")
        turning = [pair for pair in self.rotatable if not self._kinds(*pair) & hold]
        made = chain(self.system, topology=self.topology, rotatable=turning)
        assert isinstance(made, Chain)  # the molecule is one
        return made

    @cached_property
    def bonds(self) -> list[tuple[int, int]]:
        """Bonded atoms."""
        return [(one.index, two.index) for one, two in self.topology.bonds()]

    @cached_property
    def rotatable(self) -> list[tuple[int, int]]:
        """Bonds that turn: neither terminal nor in a small ring nor one that closes a large one."""
        parents, _ = topology.spanning_tree(len(self.x0), self.bonds)
        near = self._neighbours
        return [
            (int(parent), child)
            for child, parent in enumerate(parents)
            if parent >= 0
            and min(len(near[parent]), len(near[child])) > 1
            and not _in_small_ring(near, int(parent), child)
        ]

    @cached_property
    def backbone(self) -> list[tuple[str, tuple[int, ...]]]:
        """Residues that have both φ and ψ: name, and atoms C′, N, Cα, C, N′."""
        found: list[tuple[str, tuple[int, ...]]] = []
        for residue in self.topology.residues():
            own = {atom.name: atom.index for atom in residue.atoms()}
            if not {"N", "CA", "C"} <= own.keys():
                continue
            before = self._across(own["N"], "C", residue)
            after = self._across(own["C"], "N", residue)
            if before is not None and after is not None:
                beads = (before, own["N"], own["CA"], own["C"], after)
                found.append((f"{residue.name} {residue.id}", beads))
        return found

    def observables(self) -> dict[str, Any]:
        """Return energies, and φ and ψ (replicas, residues) of the residues of `backbone`."""

        def potential_energy(_: Chain, x: Array) -> Any:
            return self.energy(x)

        angles = {}
        if self.backbone:
            beads = [five for _, five in self.backbone]
            angles = {
                "phi": partial(torsions, beads=[five[:4] for five in beads]),
                "psi": partial(torsions, beads=[five[1:] for five in beads]),
            }
        energies = {"potential_energy": potential_energy, "kinetic_energy": kinetic_energy}
        return energies | angles

    @cached_property
    def _neighbours(self) -> list[list[int]]:
        near: list[list[int]] = [[] for _ in self.names]
        for i, j in self.bonds:
            near[i].append(j)
            near[j].append(i)
        return near

    @cached_property
    def _atoms(self) -> list[Any]:
        return list(self.topology.atoms())

    def _kinds(self, i: int, j: int) -> set[str]:
        """Words of `HOLDS` that a bond goes by."""
        words = {self._end(i), self._end(j)} - {None}
        ends = (self._atoms[i], self._atoms[j])
        if {atom.name for atom in ends} == {"C", "N"} and ends[0].residue is not ends[1].residue:
            words.add("peptide")
        return {word for word in words if word is not None}

    def _end(self, atom: int) -> str | None:
        near = [self._atoms[k].element for k in self._neighbours[atom]]
        hydrogens = sum(element is app.element.hydrogen for element in near)
        if len(near) - hydrogens != 1:
            return None
        return ENDS.get((self._atoms[atom].element.symbol, hydrogens))

    def _across(self, atom: int, name: str, residue: Any) -> int | None:
        """Return the atom of that name in another residue that is bonded to an atom."""
        for k in self._neighbours[atom]:
            if self._atoms[k].name == name and self._atoms[k].residue is not residue:
                return k
        return None

    def _require_connected(self) -> None:
        seen, stack = {0}, [0]
        while stack:
            new = set(self._neighbours[stack.pop()]) - seen
            seen |= new
            stack += new
        if len(seen) == len(self.names):
            return
        first = next(k for k in range(len(self.names)) if k not in seen)
        raise ValueError(
            Advice(
                f"{self.names[first]} and {len(self.names) - len(seen) - 1} further atoms are not "
                f"bonded to {self.names[0]}: torsional dynamics is for one molecule; ",
                ("drop_solvent=True", "drop_solvent", True),
                " leaves water and ions out",
            )
        )


@contextlib.contextmanager
def naming(names: Sequence[str]) -> Iterator[None]:
    """Name atoms, ``ALA 3 CB``, where an error numbers beads."""

    def named(match: re.Match[str]) -> str:
        return names[int(match[1])]

    def listed(match: re.Match[str]) -> str:
        beads = [int(word) for word in match[2].split(",")]
        return f"{match[1]}({', '.join(names[k] if k >= 0 else str(k) for k in beads)})"

    try:
        yield
    except (FrameError, ConstraintSolveError) as error:
        text = re.sub(r"\b(length|angle|torsion)\(([-\d, ]+)\)", listed, str(error))
        error.args = (re.sub(r"\bbead (\d+)\b", named, text),)
        raise


def _read(source: Any, shown: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = app.PDBFile(source)
    except Exception as error:  # whatever a file that is no PDB makes of the reader
        raise ValueError(
            f"{shown} cannot be read as a PDB file, or holds no atom: {error}"
        ) from None
    return read


def _field(names: tuple[str, ...]) -> Any:
    try:
        return app.ForceField(*names)
    except Exception as error:
        raise ValueError(f"force field {', '.join(names)}: {error}") from None


def _system(field: Any, topology: Any) -> Any:
    try:
        return field.createSystem(
            topology, nonbondedMethod=app.NoCutoff, constraints=None, rigidWater=False,
            removeCMMotion=False,
        )  # fmt: skip
    except ValueError as error:
        raise ValueError(
            Advice(
                f"{error} (",
                ("add_hydrogens=True", "add_hydrogens", True),
                " adds hydrogens that a file has not)",
            )
        ) from None


def _in_small_ring(near: Sequence[Sequence[int]], i: int, j: int) -> bool:
    """Whether j can be reached from i without their bond in less than `SMALL` bonds."""
    seen, edge = {i}, {i}
    for depth in range(SMALL - 1):
        edge = {k for one in edge for k in near[one] if depth or k != j} - seen
        if j in edge:
            return True
        seen |= edge
    return False
