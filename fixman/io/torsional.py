"""A molecule from a PDB file: its chain, forces of any OpenMM force field, and the names of atoms.

Units are OpenMM's: nm, ps, dalton, kJ/mol.
"""

from __future__ import annotations

import contextlib
import difflib
import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

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
OTHERWISE = {"omega": "peptide", "thiol": "hydroxyl"}  # what else users call them


class Molecule(Forces):
    """A molecule that one PDB file and some force fields describe, as a potential for steppers.

    Parameters
    ----------
    pdb : str
        The text of a PDB file with every hydrogen, `prepare` makes one.  One connected molecule.
    forcefield : sequence of str
        Names that OpenMM knows, ``"amber14-all.xml", "implicit/obc2.xml"``, or paths; or one str.
    platform : str, optional
        Of OpenMM, by default the fastest.

    Attributes
    ----------
    topology, system : of OpenMM
        The System has no constraints.
    names : list of str
        ``"ALA 3 CB"``, one of each atom; ``"A/CYS 3 SG"`` if there are several chains.
    x0 : (n, 3)
        Positions of the file in nm.

    Raises
    ------
    ValueError
        If the force fields do not know a residue, atoms are not one connected molecule, or a bond
        is off by half of its length in the force field, as where residues are missing.

    """

    def __init__(
        self, pdb: str, forcefield: str | Iterable[str], platform: str | None = None
    ) -> None:
        self.pdb, self.forcefield = pdb, _words(forcefield)
        read = _read(io.StringIO(pdb), "the PDB text")
        self.topology = read.topology
        self.names = [
            f"{self._residue(atom.residue)} {atom.name}" for atom in self.topology.atoms()
        ]
        self.x0 = np.array(read.positions.value_in_unit(unit.nanometer))
        self._require_connected()
        self.system = _system(_field(self.forcefield), self.topology)
        super().__init__(self.system, platform)
        self._require_bonded(self.x0)

    @classmethod
    def prepare(
        cls,
        path: str | Path,
        forcefield: str | Iterable[str],
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
        path, forcefield = _arrays.path(path, "path"), _words(forcefield)
        if not path.is_file():
            raise FileNotFoundError(f"no such file: {path}")
        with path.open(encoding="utf-8") as file:
            read = _read(file, str(path))
        modeller = app.Modeller(read.topology, read.positions)
        if drop_solvent:
            modeller.deleteWater()
            modeller.delete([one for one in modeller.topology.residues() if len(one) == 1])
        if add_hydrogens:
            modeller.addHydrogens(_field(forcefield))
        modeller.topology.setPeriodicBoxVectors(None)
        return cls(_written(modeller.topology, modeller.positions), forcefield, platform)

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

    def chain(self, hold: str | Iterable[str] = ()) -> Chain:
        """Return the chain whose bonds and angles are hard, and whose torsions are soft.

        Soft are torsions about bonds that are neither terminal nor in a ring of up to 8 atoms.
        Bends of nitriles and alkynes are held straight, and nearly straight in a minimum:
        ``x = fixman.project(chain, x, chain.hard_values(x))`` is a start.

        Parameters
        ----------
        hold : word, or words, of `HOLDS`
            What does not turn either: ``"methyl"``, ``"hydroxyl"`` (and SH), ``"ammonium"``, and
            ``"peptide"`` (ω).
        """
        hold = set(_words(hold))
        for word in sorted(hold.difference(HOLDS)):
            near = difflib.get_close_matches(word.lower(), (*HOLDS, *OTHERWISE), 1)
            meant = [f", such as {OTHERWISE.get(one, one)}" for one in near]
            raise ValueError(
                f"cannot hold {word!r}: choose among {', '.join(HOLDS)}" + "".join(meant)
            )
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
        """Bonds that turn: neither terminal nor in a small ring."""
        near = self._neighbours
        return [
            (i, j)
            for i, j in self.bonds
            if min(len(near[i]), len(near[j])) > 1 and not _in_small_ring(near, i, j)
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
                found.append((self._residue(residue), beads))
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

    def _name(self, particle: int) -> str:
        return self.names[particle]

    def _residue(self, residue: Any) -> str:
        strand = residue.chain.id.strip() if self.topology.getNumChains() > 1 else ""
        return f"{strand}{'/' * bool(strand)}{residue.name} {residue.id}"

    def _require_connected(self) -> None:
        bonds = np.array(self.bonds, dtype=np.intp).reshape(-1, 2)
        pieces, label = connected_components(topology.graph(len(self.names), bonds), False)
        if pieces == 1:
            return
        atoms, first = self._atoms, [int(np.argmax(label == k)) for k in range(pieces)]
        homes = [{id(atoms[p].residue) for p in np.flatnonzero(label == k)} for k in range(pieces)]
        for k in range(1, pieces):
            others = set.union(*(home for j, home in enumerate(homes) if j != k))
            if homes[k] & others:
                raise ValueError(
                    f"{self.names[first[k]]} is not bonded to the rest of its residue: the file "
                    "lacks an atom between them, or a CONECT record"
                )
        if any(_is_solvent(atoms[p].residue) for p in first):
            raise ValueError(
                Advice(
                    f"{self.names[first[1]]} and {np.count_nonzero(label) - 1} further atoms are "
                    f"not bonded to {self.names[0]}: torsional dynamics is for one molecule; ",
                    ("drop_solvent=True", "drop_solvent", True),
                    " leaves water and ions out",
                )
            )
        raise ValueError(
            f"the file has {pieces} molecules, which begin with "
            f"{', '.join(self.names[p] for p in first[:4])}: torsional dynamics is for one, so "
            "give each a file of its own, or their bonds as CONECT records"
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
        text = re.sub(r"\b(length|angle|torsion|bend )\(([-\d, ]+)\)", listed, str(error))
        error.args = (re.sub(r"\bbead (\d+)\b", named, text),)
        raise


def _words(given: str | Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _is_solvent(residue: Any) -> bool:
    return residue.name == "HOH" or len(residue) == 1


def _read(source: Any, shown: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return app.PDBFile(source)
    except Exception as error:  # whatever a file that is no PDB makes of the reader
        why = f": {error}" if type(error) is ValueError else ""  # what others say helps nobody
        raise ValueError(f"{shown} cannot be read as a PDB file, or holds no atom{why}") from None


def _written(given: Any, positions: Any) -> str:
    """Return the text of a PDB file of a Topology, with all of its bonds."""
    file = io.StringIO()
    app.PDBFile.writeFile(given, positions, file, keepIds=True)
    # The date of the first line would make two runs of one file differ.
    text = file.getvalue().split("\n", 1)[1]
    known = {_indices(one) for one in _read(io.StringIO(text), "").topology.bonds()}
    # OpenMM leaves out bonds between standard residues, such as the one that closes a backbone.
    more = [sorted(bond) for bond in map(_indices, given.bonds()) if bond not in known]
    serial = [atom.index + atom.residue.chain.index + 1 for atom in given.atoms()]  # TER counts
    records = "".join(f"CONECT{serial[i]:>5}{serial[j]:>5}\n" for i, j in more)
    return text.replace("END\n", f"{records}END\n")


def _indices(bond: Any) -> frozenset[int]:
    return frozenset((bond[0].index, bond[1].index))


def _field(names: tuple[str, ...]) -> Any:
    try:
        return app.ForceField(*names)
    except Exception as error:
        bare = [f"{name}.xml" for name in names if not name.endswith(".xml")]
        hint = f"; did you mean {', '.join(bare)}?" if bare else ""
        raise ValueError(f"force field {', '.join(names)}: {error}{hint}") from None


def _system(field: Any, topology: Any) -> Any:
    try:
        return field.createSystem(
            topology, nonbondedMethod=app.NoCutoff, constraints=None, rigidWater=False,
            removeCMMotion=False,
        )  # fmt: skip
    except ValueError as error:
        text = re.sub(
            r"\s*You may be able to [^.]*with Modeller\.addHydrogens\(\)\.", "", str(error)
        )
        if not re.search(r"missing [^.;]*\b(H|hydrogen) atom", text):
            raise ValueError(text) from None
        flag = ("add_hydrogens=True", "add_hydrogens", True)
        raise ValueError(
            Advice(f"{text} (", flag, " adds hydrogens that a file has not)")
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
