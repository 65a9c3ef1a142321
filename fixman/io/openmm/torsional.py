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
import openmm
from openmm import app, unit
from scipy.sparse.csgraph import connected_components

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import hard_sets, topology
from fixman.chains.chain import Chain
from fixman.errors import ConstraintSolveError, FrameError, printable
from fixman.io.openmm import Forces, chain
from fixman.io.openmm.constraints import whole, with_names
from fixman.io.openmm.systems import bonds_of
from fixman.simulation.observables import kinetic_energy, torsions
from fixman.simulation.trajectory import pdb_potential

__all__ = ["HOLDS", "Molecule", "naming"]

# Groups at the end of a molecule, by their heavy atom and the number of its hydrogens.
ENDS = {("C", 3): "methyl", ("O", 1): "hydroxyl", ("S", 1): "hydroxyl", ("N", 3): "ammonium"}
HOLDS = ("methyl", "hydroxyl", "ammonium", "peptide")
LEAST_BOX = 0.6  # nm, below which a CRYST1 record says that there is no crystal


class Molecule(Forces):
    """A molecule that one PDB file and some force fields describe, as a potential for steppers.

    ValueError if the force fields do not know a residue, atoms are not one connected molecule or
    have no position, or a bond is off by half, as where residues are missing.

    Parameters
    ----------
    pdb : str
        The text of a PDB file with every hydrogen, `prepare` makes one.  One connected molecule.
    forcefield : sequence of str
        Names that OpenMM knows, ``"amber14-all.xml", "implicit/obc2.xml"``, or paths; or one str.
        Without an implicit solvent among them the molecule is in a vacuum.
    platform : str, optional
        Platform of OpenMM, by default the fastest.

    Attributes
    ----------
    topology, system : of OpenMM
        The System has no constraints.
    names : list of str
        ``"ALA 3 CB"``; ``"A/CYS 3 SG"`` if there are several chains.
    x0 : (n, 3)
        Positions of the file in nm.
    """

    def __init__(
        self, pdb: str, forcefield: str | Iterable[str], platform: str | None = None
    ) -> None:
        self.pdb, self.forcefield = pdb, _words(forcefield, "forcefield")
        read = _read(pdb, "the PDB text")
        self.topology = read.topology
        self.x0 = _in_nm(read.positions)
        self.names = _names(self.topology)
        _require_one(self.topology, self.x0)
        self.system = _field(self.forcefield).createSystem(
            self.topology, nonbondedMethod=app.NoCutoff, constraints=None, rigidWater=False,
            removeCMMotion=False,
        )  # fmt: skip
        super().__init__(self.system, platform)
        self._require_bonded(self.x0)
        kinds = [type(force).__name__ for force in self.system.getForces()]
        self.in_vacuum = not any(re.search("GB|GeneralizedKirkwood", kind) for kind in kinds)

    @classmethod
    def prepare(
        cls,
        path: str | Path,
        forcefield: str | Iterable[str],
        platform: str | None = None,
        *,
        chain: str | None = None,
        add_hydrogens: bool = False,
        drop_solvent: bool = False,
    ) -> Molecule:
        """Read a PDB file, and add what is asked for.

        A molecule that is cut at the faces of a periodic box (CRYST1) is made whole.
        RuntimeWarning if solvent is left out and no implicit solvent takes its place.

        Parameters
        ----------
        path, forcefield, platform
        chain : str, optional
            Letter of the one chain to take out of a file of several.
        add_hydrogens : bool
            Whether to add hydrogens that the force field needs and the file lacks, at pH 7.
        drop_solvent : bool
            Whether to leave out water and whatever consists of one atom.
        """
        path, forcefield = arrays.path(path, "path"), _words(forcefield, "forcefield")
        if not path.is_file():
            raise FileNotFoundError(f"no such file: {path}")
        with path.open(encoding="utf-8") as file:
            read = _read(file, str(path))
        modeller = app.Modeller(read.topology, read.positions)
        if chain is not None:
            letters = [one.id for one in modeller.topology.chains()]
            if chain not in letters:
                raise ValueError(f"{path} has no chain {chain!r}, it has {', '.join(letters)}")
            modeller.delete([one for one in modeller.topology.chains() if one.id != chain])
        residues = modeller.topology.residues()
        solvent = [one for one in residues if one.name == "HOH" or len(one) == 1]
        if drop_solvent:
            modeller.delete(solvent)
        x = _in_nm(modeller.positions)
        _require_one(modeller.topology, x)
        modeller.positions = _whole(modeller.topology, x) * unit.nanometer
        if add_hydrogens:
            _add_hydrogens(modeller, _field(forcefield))
        modeller.topology.setPeriodicBoxVectors(None)
        made = cls(_written(modeller.topology, modeller.positions), forcefield, platform)
        if drop_solvent and solvent and made.in_vacuum:
            warnings.warn(
                f"solvent is left out, and {', '.join(forcefield)} has no implicit solvent: "
                "add a file for it, such as implicit/obc2.xml beside amber14-all.xml",
                RuntimeWarning,
                stacklevel=2,
            )
        return made

    @classmethod
    def of_run(cls, about: Mapping[str, Any]) -> Molecule:
        """Make the molecule of a run again, from its ``about``.

        ValueError if the run has no such molecule, or if the force fields make another System now.
        """
        described = pdb_potential(about)
        if described is None:
            raise ValueError("this run has no PDB file: fixman torsional makes runs that have one")
        molecule = cls(described["pdb"], described["forcefield"], described["platform"])
        if molecule.parameters() != dict(described):
            said = "makes another System than at the start of the run"
            raise ValueError(f"{', '.join(molecule.forcefield)} {said}")
        return molecule

    def parameters(self) -> dict[str, Any]:
        """Return what `of_run` makes the molecule of again, ready for JSON."""
        return super().parameters() | {"pdb": self.pdb, "forcefield": list(self.forcefield)}

    def minimized(self, x: Array, tolerance: float = 10.0) -> Array:
        """Return a minimum (n, 3) near x, where forces are below ``tolerance`` (rms)."""
        _require_positions(x, self.names)
        platform = openmm.Platform.getPlatformByName(self.platform)
        context = openmm.Context(self.system, openmm.VerletIntegrator(0.001), platform)
        context.setPositions(x)
        openmm.LocalEnergyMinimizer.minimize(context, tolerance)
        found = context.getState(positions=True).getPositions(asNumpy=True)
        return np.array(found.value_in_unit(unit.nanometer))

    def chain(self, hold: str | Iterable[str] = ()) -> Chain:
        """Return the chain whose bonds and angles are hard, and whose torsions are soft.

        Torsions are soft about bonds that are neither terminal nor in a ring of up to 8 atoms;
        larger rings turn, and stay closed.  Bends of nitriles and alkynes are held straight, and
        nearly straight in a minimum: ``fixman.project(chain, x, chain.hard_values(x))`` is a start.

        Parameters
        ----------
        hold : word, or words, of `HOLDS`
            Torsions that are hard too: ``"methyl"``, ``"hydroxyl"`` (and SH), ``"ammonium"``, and
            ``"peptide"`` (ω).
        """
        hold = set(_words(hold, "hold"))
        for word in sorted(hold.difference(HOLDS)):
            raise ValueError(f"cannot hold {word!r}: choose among {', '.join(HOLDS)}")
        turning = [pair for pair in self.rotatable if not self._kinds(*pair) & hold]
        made = chain(self.system, topology=self.topology, rotatable=turning if hold else None)
        assert isinstance(made, Chain)  # the molecule is one
        return made

    @cached_property
    def rotatable(self) -> list[tuple[int, int]]:
        """Bonds that turn: see `chain`."""
        return [(i, j) for i, j in hard_sets.rotatable(*self._tree).tolist()]

    @property
    def ring_bonds(self) -> tuple[int, int]:
        """Numbers of bonds in rings of up to 8 atoms, which do not turn, and of larger ones."""
        small = topology.ring_bonds(*self._tree)[1]
        return int(small.sum()), int((~small).sum())

    @cached_property
    def _tree(self) -> tuple[Any, Any]:
        return topology.spanning_tree(len(self.x0), bonds_of(self.topology))

    @cached_property
    def backbone(self) -> list[tuple[str, tuple[int, ...]]]:
        """Residues that have both φ and ψ: name, and atoms C′, N, Cα, C, N′."""
        after, before = dict(self._peptide_bonds), {n: c for c, n in self._peptide_bonds}
        found: list[tuple[str, tuple[int, ...]]] = []
        for residue in self.topology.residues():
            own = {atom.name: atom.index for atom in residue.atoms()}
            n, ca, c = (own.get(name, -1) for name in ("N", "CA", "C"))
            if ca >= 0 and n in before and c in after:
                found.append((_residue(residue), (before[n], n, ca, c, after[c])))
        return found

    @cached_property
    def _peptide_bonds(self) -> list[tuple[int, int]]:
        """C′ and N of bonds between residues."""
        bonds = (sorted(bond, key=lambda atom: atom.name) for bond in self.topology.bonds())
        return [
            (one.index, two.index)
            for one, two in bonds
            if (one.name, two.name) == ("C", "N") and one.residue is not two.residue
        ]

    def observables(self) -> dict[str, Any]:
        """Return energies, and φ and ψ (replicas, residues) of the residues of `backbone`."""

        def potential_energy(_: Chain, x: Array) -> Any:
            return self.energy(x)

        found: dict[str, Any] = {
            "potential_energy": potential_energy, "kinetic_energy": kinetic_energy
        }  # fmt: skip
        if self.backbone:
            beads = np.array([five for _, five in self.backbone])
            found["phi"] = partial(torsions, beads=beads[:, :4])
            found["psi"] = partial(torsions, beads=beads[:, 1:])
        return found

    @cached_property
    def _ends(self) -> dict[int, str]:
        """Words of `HOLDS` by the atoms of `ENDS`, which have one neighbour beside hydrogens."""
        symbols = [getattr(atom.element, "symbol", "") for atom in self.topology.atoms()]
        bonds = bonds_of(self.topology)
        bonds = np.concatenate([bonds, bonds[:, ::-1]])
        hydrogen = np.array(symbols)[bonds[:, 1]] == "H"
        light = np.bincount(bonds[hydrogen, 0], minlength=len(symbols)).tolist()
        heavy = np.bincount(bonds[~hydrogen, 0], minlength=len(symbols)).tolist()
        known = enumerate(zip(symbols, light, strict=True))
        return {k: ENDS[kind] for k, kind in known if heavy[k] == 1 and kind in ENDS}

    def _kinds(self, i: int, j: int) -> set[str]:
        """Words of `HOLDS` that a bond goes by."""
        words = {self._ends[k] for k in (i, j) if k in self._ends}
        peptide = {(i, j), (j, i)} & set(self._peptide_bonds)
        return words | {"peptide"} if peptide else words

    def _name(self, particle: int) -> str:
        return self.names[particle]


@contextlib.contextmanager
def naming(names: Sequence[str]) -> Iterator[None]:
    """Name atoms, ``ALA 3 CB``, where an error numbers beads."""
    try:
        yield
    except (FrameError, ConstraintSolveError) as error:
        raise with_names(error, range(len(names)), names.__getitem__) from None


def _words(given: str | Iterable[str], name: str) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(arrays.list_of(given, name, "words", str))


def _in_nm(positions: Any) -> Array:
    return np.array(positions.value_in_unit(unit.nanometer), dtype=np.float64)


def _names(given: Any) -> list[str]:
    return [f"{_residue(atom.residue)} {printable(atom.name)}" for atom in given.atoms()]


def _residue(residue: Any) -> str:
    several = residue.chain.topology.getNumChains() > 1
    strand = residue.chain.id.strip() if several else ""
    number = f"{residue.id}{residue.insertionCode.strip()}"
    return printable(f"{strand}{'/' * bool(strand)}{residue.name} {number}")


def _add_hydrogens(modeller: Any, field: Any) -> None:
    """Add hydrogens; OpenMM adds NH3 to a first residue, even if a bond joins its N to another."""
    closed = {
        atom.residue.index
        for bond in modeller.topology.bonds()
        for atom in bond
        if atom.name == "N"
        and bond[0].residue is not bond[1].residue
        and atom.residue is next(atom.residue.chain.residues())
    }
    modeller.addHydrogens(None if closed else field)
    atoms = modeller.topology.atoms()
    modeller.delete([a for a in atoms if a.residue.index in closed and a.name in {"H2", "H3"}])


def _require_positions(x: Array, names: Sequence[str]) -> None:
    lost = ~np.isfinite(x).all(axis=-1)
    if lost.any():
        atom = int(np.argmax(lost))
        raise ValueError(f"{names[atom]} is at {x[atom]} nm: every atom needs a position")


def _require_one(given: Any, x: Array) -> None:
    """Refuse atoms without a position, and all but one connected molecule."""
    names = _names(given)
    _require_positions(x, names)
    pieces, label = connected_components(topology.graph(len(names), bonds_of(given)), False)
    if pieces > 1:
        first = np.unique(label, return_index=True)[1]
        begin = f"{', '.join(names[p] for p in first[:4])}{', …' * (pieces > 4)}"
        raise ValueError(
            f"the file has {pieces} molecules, which begin with {begin}, but must have one: "
            "chain='A' takes one chain, drop_solvent=True leaves water and ions out, and CONECT "
            "records bond what the names of atoms do not"
        )


def _whole(given: Any, x: Array) -> Array:
    box = given.getPeriodicBoxVectors()
    if box is None or np.diagonal(box := _in_nm(box)).min() < LEAST_BOX:
        return x
    parents, _ = topology.spanning_tree(len(x), bonds_of(given))
    return np.asarray(whole(parents, x[None], box)[0])


def _read(source: Any, shown: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return app.PDBFile(io.StringIO(source) if isinstance(source, str) else source)
    except Exception as error:  # whatever a file that is no PDB makes of the reader
        raise ValueError(f"{shown} cannot be read as a PDB file: {error!r:.80}") from None


def _written(given: Any, positions: Any) -> str:
    """Return the text of a PDB file of a Topology, with all of its bonds."""
    file = io.StringIO()
    app.PDBFile.writeFile(given, positions, file, keepIds=True)
    # The date of the first line would make two runs of one file differ.
    text = file.getvalue().split("\n", 1)[1]
    known = set(map(frozenset, bonds_of(_read(text, "").topology).tolist()))
    # OpenMM leaves out bonds between standard residues, such as the one that closes a backbone.
    more = [bond for bond in bonds_of(given).tolist() if frozenset(bond) not in known]
    serial = [atom.index + atom.residue.chain.index + 1 for atom in given.atoms()]  # TER counts
    records = "".join(f"CONECT{serial[i]:>5}{serial[j]:>5}\n" for i, j in map(sorted, more))
    return text.replace("END\n", f"{records}END\n")


def _field(names: tuple[str, ...]) -> Any:
    try:
        return app.ForceField(*names)
    except Exception as error:
        raise ValueError(f"force field {', '.join(names)}: {error}") from None
