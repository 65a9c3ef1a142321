"""Molecules from files: their chains, forces of any OpenMM force field, and the names of atoms.

Units are OpenMM's: nm, ps, dalton, kJ/mol.
"""

import contextlib
import io
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import openmm
from openmm import app, unit
from scipy.sparse.csgraph import connected_components

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains import hard_sets, topology
from fixman.chains.chain import Chain
from fixman.chains.system import System
from fixman.errors import ConstraintSolveError, FrameError, printable
from fixman.io.openmm import Forces, chain, files, system
from fixman.io.openmm.constraints import whole, with_names
from fixman.io.openmm.forces import BONDED, context_of
from fixman.io.openmm.systems import bonds_of, of_system
from fixman.mechanics.dynamics import project
from fixman.simulation.observables import kinetic_energy, torsions
from fixman.simulation.simulate import load_run
from fixman.simulation.trajectory import Run, pdb_potential

__all__ = ["HOLDS", "Molecule", "naming"]

# Groups at the end of a molecule, by their heavy atom and the number of its hydrogens.
ENDS = {("C", 3): "methyl", ("O", 1): "hydroxyl", ("S", 1): "hydroxyl", ("N", 3): "ammonium"}
HOLDS = ("methyl", "hydroxyl", "ammonium", "peptide")
LEAST_BOX = 0.6  # nm, below which a CRYST1 record says that there is no crystal
CUTOFF = 0.9  # nm
EXACT = 1e-9  # relative, of constraints in a start
THIN = 0.5  # g/cm³, below which a box is not full of solvent
DALTON = 1.66054e-3  # g/cm³ of a dalton in a nm³
FOUR = Chain.linear(4)
# Time steps in ps, and what longer ones do: docs/torsional.md and molecules.md have the tables.
LONG = 0.01, "energies of proteins drift, and temperatures may be wrong"
WET = 0.004, "water turns too far in a step"


class Molecule(Forces):
    """A molecule, or several in solvent, of a PDB file and a force field: a potential for steppers.

    Several molecules in a box (CRYST1) are periodic, with PME; one molecule, molecules without a
    box and those in implicit solvent are in open space, without a cutoff.  Waters are rigid.
    ValueError if the force field does not know a residue, atoms have no position, a bond is off by
    half, as where residues are missing, or there are virtual sites (`fixman.io.openmm.Forces` takes
    them).

    Parameters
    ----------
    pdb : str
        The text of a PDB file with every hydrogen, `prepare` makes one.
    forcefield : sequence of str
        Names that OpenMM knows, ``"amber14-all.xml", "implicit/obc2.xml"``, or paths of XML files;
        or a topology of the same atoms: a prmtop, perhaps with a word such as ``"OBC2"``, a TOP of
        GROMACS, or a PSF and its files of parameters; or one str.
    platform : str, optional
        Platform of OpenMM, by default the fastest.
    cutoff : float
        Cutoff in nm, in a periodic box.

    Attributes
    ----------
    topology, system : of OpenMM
        The System has no constraints but those of rigid water.
    names : list of str
        ``"ALA 3 CB"``; ``"A/CYS 3 SG"`` if there are several chains.
    x0 : (n, 3)
        Positions of the file in nm, waters in the shape of the force field.
    """

    def __init__(
        self,
        pdb: str,
        forcefield: str | Iterable[str],
        platform: str | None = None,
        *,
        cutoff: float = CUTOFF,
    ) -> None:
        self.pdb, self.forcefield = pdb, _words(forcefield, "forcefield")
        self.cutoff = arrays.positive(cutoff, "cutoff")
        read = _read(pdb)
        self.topology, make = files.force_field(self.forcefield, read)
        self.names = _names(self.topology)
        x = _in_nm(read.positions)
        _require_positions(x, self.names)
        self.system = self._made(make)
        super().__init__(self.system, platform)
        if self._sites:
            raise ValueError("there are virtual sites: use fixman.io.openmm.system and Forces")
        self.x0 = self._settled(x) if self.system.getNumConstraints() else x
        self._require_near(self.x0, self._bonds, self._strain, BONDED)
        self.in_vacuum = not self.periodic and not _implicit(self.system)

    @property
    def periodic(self) -> bool:
        """Whether there is a periodic box."""
        return bool(self.system.usesPeriodicBoundaryConditions())

    def _made(self, make: Any) -> Any:
        """Return the System, periodic if there are several molecules in a box of their own."""
        options = {"constraints": None, "rigidWater": True, "removeCMMotion": False}
        several = _pieces(self.topology)[0] > 1
        try:
            if several and _edges(self.topology.getPeriodicBoxVectors()) is not None:
                cutoff = self.cutoff * unit.nanometer
                made = make(nonbondedMethod=app.PME, nonbondedCutoff=cutoff, **options)
                if not _implicit(made):
                    return made
            return make(nonbondedMethod=app.NoCutoff, **options)
        except Exception as error:  # some of OpenMM's are of no kind of their own
            said = _refusal(error, self.topology)
            said += "; Molecule.prepare(…, add_hydrogens=True) adds them" * ("addHydrogens" in said)
            if "template" in said and any(map(_is_solvent, self.topology.residues())):
                said += "; drop_solvent=True leaves water and ions out, a file such as "
                said += "amber14/tip3p.xml beside amber14-all.xml has forces of water"
            raise ValueError(said) from None

    @classmethod
    def prepare(
        cls,
        path: str | Path,
        forcefield: str | Iterable[str],
        platform: str | None = None,
        *,
        cutoff: float = CUTOFF,
        chain: str | None = None,
        add_hydrogens: bool = False,
        drop_solvent: bool = False,
    ) -> Self:
        """Read a file of positions, and add what is asked for.

        Molecules that are cut at the faces of a periodic box are made whole.  RuntimeWarning if
        solvent is left out and no implicit solvent takes its place.

        Parameters
        ----------
        path : str or Path
            A PDB or mmCIF file.  If the force field is a topology, also a GRO file, an inpcrd or
            rst7 of Amber, or a crd of CHARMM; then nothing is added or left out.
        forcefield, platform, cutoff
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
        read, solvent = files.read_positions(path), []
        topology, positions = read.topology, read.positions
        if files.brings_topology(forcefield):
            topology = files.force_field(forcefield, read)[0]
            given = {"chain": chain, "add_hydrogens": add_hydrogens, "drop_solvent": drop_solvent}
            for name in filter(given.get, given):
                said = f"{name}={given[name]!r} is for XML files"
                raise ValueError(f"{said}: {forcefield[0]} has its own set of atoms")
        elif topology is None:
            raise ValueError(f"{path} has no bonds: the force field must be .prmtop, .top or .psf")
        if len(positions) != topology.getNumAtoms():
            _require_positions(_in_nm(positions), _names(topology))
        modeller = app.Modeller(topology, positions)
        if chain is not None:
            ids = {one.id: one.id.strip() or f"{one.id!r} (blank)" for one in topology.chains()}
            if chain not in ids:
                raise ValueError(f"{path} has no chain {chain!r}, it has {', '.join(ids.values())}")
            modeller.delete([one for one in modeller.topology.chains() if one.id != chain])
        if drop_solvent:
            solvent = [one for one in modeller.topology.residues() if _is_solvent(one)]
            modeller.delete(solvent)
        x = _in_nm(modeller.positions)
        _require_positions(x, _names(modeller.topology))
        modeller.positions = _whole(modeller.topology, x) * unit.nanometer
        if add_hydrogens:
            _add_hydrogens(modeller, files.xml_field(forcefield))
        if _pieces(modeller.topology)[0] == 1:
            modeller.topology.setPeriodicBoxVectors(None)
        text = _written(modeller.topology, modeller.positions)
        made = cls(text, forcefield, platform, cutoff=cutoff)
        box = _edges(made.topology.getPeriodicBoxVectors()) if made.periodic else None
        mass = DALTON * of_system(made.system).masses.sum()
        density = np.inf if box is None else mass / np.linalg.det(box)
        if density < THIN:
            said = f"the box holds {density:.2g} g/cm³, so that most of it is empty"
            warnings.warn(f"{said}: fill it with solvent", RuntimeWarning, stacklevel=2)
        if drop_solvent and solvent and made.in_vacuum:
            said = f"solvent is left out, and {', '.join(forcefield)} has no implicit solvent: add"
            said += " a file for it, such as implicit/obc2.xml beside amber14-all.xml"
            warnings.warn(said, RuntimeWarning, stacklevel=2)
        return made

    @classmethod
    def of_run(cls, about: Run | Mapping[str, Any] | str | os.PathLike[str]) -> Self:
        """Make the molecule of a run again, from the run, its file or its ``about``.

        ValueError if the run has no such molecule, or if the force fields make another System now.
        """
        run = load_run(about) if isinstance(about, str | os.PathLike) else about
        described = pdb_potential(run.about if isinstance(run, Run) else run)
        if described is None:
            raise ValueError("this run has no PDB file: fixman torsional makes runs that have one")
        given = (described[name] for name in ("pdb", "forcefield", "platform"))
        molecule = cls(*given, cutoff=described["cutoff"])
        if molecule.parameters() != dict(described):
            said = "makes another System than at the start of the run"
            raise ValueError(f"{', '.join(molecule.forcefield)} {said}")
        return molecule

    def parameters(self) -> dict[str, Any]:
        """Return what `of_run` makes the molecule of again, ready for JSON."""
        own = {"pdb": self.pdb, "forcefield": list(self.forcefield), "cutoff": self.cutoff}
        return super().parameters() | own

    def minimized(self, x: Array, tolerance: float = 10.0) -> Array:
        """Return a minimum (n, 3) near x, where forces are below ``tolerance`` (rms)."""
        _require_positions(x, self.names)
        return self._settled(x, tolerance)

    @property
    def long_step(self) -> tuple[float, str]:
        """Time step in ps of torsional dynamics, and what longer ones do."""
        return WET if self.periodic else LONG

    def warn_of_long_steps(self, model: Chain | System, stepper: Any) -> bool:
        """Warn if dt is too long; whether `simulate` need not, as all but torsions is hard."""
        whole = model if isinstance(model, System) else System(model)
        held = sum(one.hard.size * many for one, many in whole.kinds)
        torsional = 3 * whole.n - held <= 6 * whole.chains + len(self.rotatable)
        long, why = self.long_step
        if torsional and stepper.dt > long and not stepper.decides:
            said = f"dt={stepper.dt:g} is long: above {long:g} ps {why}"
            warnings.warn(said, RuntimeWarning, stacklevel=5)  # who called simulate
        return torsional

    def _settled(self, x: Array, tolerance: float | None = None) -> Array:
        """Return positions near x, a minimum if asked, with exact constraints (rigid waters)."""
        context = context_of(self.system, openmm.Platform.getPlatformByName(self.platform))
        context.setPositions(x)
        if tolerance is not None:
            openmm.LocalEnergyMinimizer.minimize(context, tolerance)
        context.applyConstraints(EXACT)
        return _in_nm(context.getState(positions=True).getPositions(asNumpy=True))

    def straightened(self, model: Chain | System, x: Array) -> Array:
        """Return positions (n, 3) with bends that are held straight in line, others kept."""
        whole = model if isinstance(model, System) else System(model)
        first, parts = 0, []
        for (one, many), part in zip(whole.kinds, whole.split(x), strict=True):
            with naming(self.names[first:]):
                bent = one.straight != ()
                parts.append(project(one, part, one.hard_values(part)) if bent else part)
            first += many * one.n
        return whole.join(parts)

    def chain(self, hold: str | Iterable[str] = ()) -> Chain | System:
        """Return the chain whose bonds and angles are hard, and whose torsions are soft.

        Several molecules are a `fixman.System` of such chains, rigid waters and ions.
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
        turning = [pair for pair in self.rotatable if not self._kinds_of_bond(*pair) & hold]
        options = {"topology": self.topology, "rotatable": turning if hold else None}
        several = _pieces(self.topology)[0] > 1
        made = system(self.system, **options) if several else chain(self.system, **options)
        assert not isinstance(made, list)  # the molecule is one
        return made

    @cached_property
    def rotatable(self) -> list[tuple[int, int]]:
        """Bonds that turn: see `chain`."""
        found = [atoms[hard_sets.rotatable(*tree)] for atoms, tree in self._trees]
        return [(i, j) for pairs in found for i, j in pairs.tolist()]

    @property
    def ring_bonds(self) -> tuple[int, int]:
        """Numbers of bonds in rings of up to 8 atoms, which do not turn, and of larger ones."""
        small = [mark for _, tree in self._trees for mark in topology.ring_bonds(*tree)[1]]
        return sum(small), len(small) - sum(small)

    @cached_property
    def _trees(self) -> list[tuple[Any, Any]]:
        """Atoms and spanning tree of each molecule of four or more."""
        bonds, found = bonds_of(self.topology), []
        label = _pieces(self.topology)[1]
        for piece in np.flatnonzero(np.bincount(label) > 3):
            atoms = np.flatnonzero(label == piece)
            own = np.searchsorted(atoms, bonds[label[bonds[:, 0]] == piece])
            found.append((atoms, topology.spanning_tree(atoms.size, own)))
        return found

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
        found: dict[str, Any] = {"potential_energy": lambda _, x: self.energy(x)}
        found["kinetic_energy"] = kinetic_energy
        if self.backbone:
            beads = np.array([five for _, five in self.backbone])
            found["phi"] = partial(_torsions, beads=beads[:, :4])
            found["psi"] = partial(_torsions, beads=beads[:, 1:])
        return found

    @cached_property
    def _ends(self) -> dict[int, str]:
        """Words of `HOLDS` by the atoms of `ENDS`, which have one neighbour beside hydrogens."""
        symbols = [getattr(atom.element, "symbol", "") for atom in self.topology.atoms()]
        found = {}
        for k, near in topology.neighbours(bonds_of(self.topology)).items():
            light = sum(symbols[one] == "H" for one in near)
            if len(near) - light == 1 and (symbols[k], light) in ENDS:
                found[k] = ENDS[symbols[k], light]
        return found

    def _kinds_of_bond(self, i: int, j: int) -> set[str]:
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


def _torsions(_: Chain | System, x: Array, beads: Any) -> Any:
    """Torsions (..., torsions) of four beads each (torsions, 4)."""
    return torsions(FOUR, x[..., beads, :])[..., 0]


def _implicit(made: Any) -> bool:
    kinds = [type(force).__name__ for force in made.getForces()]
    return any(re.search("GB|GeneralizedKirkwood", kind) for kind in kinds)


def _refusal(error: Exception, given: Any) -> str:
    """Name also the heavy atoms that the residue of an error lacks, by OpenMM's table."""
    said = printable(str(error) or repr(error))
    number = re.search(r"residue (\d+) \(", said)
    if number is None:
        return said
    residue = list(given.residues())[int(number[1])]
    names = {name for bond in app.Topology._standardBonds.get(residue.name, ()) for name in bond}
    own = {"OXT", *(atom.name for atom in residue.atoms())}
    lost = sorted(name for name in names - own if not re.match(r"[-+\d]|H", name))
    return f"{said}; {_residue(residue)} lacks {', '.join(lost)}" if lost else said


def _is_solvent(residue: Any) -> bool:
    return residue.name == "HOH" or len(residue) == 1


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
    try:
        modeller.addHydrogens(None if closed else field)
    except Exception as error:  # some of OpenMM's are of no kind of their own
        said = _refusal(error, modeller.topology)
        raise ValueError(f"no hydrogens can be added: {said}") from None
    atoms = modeller.topology.atoms()
    modeller.delete([a for a in atoms if a.residue.index in closed and a.name in {"H2", "H3"}])


def _require_positions(x: Array, names: Sequence[str]) -> None:
    if len(x) != len(names):
        raise ValueError(f"there are positions of {len(x)} atoms, and {len(names)} have forces")
    lost = ~np.isfinite(x).all(axis=-1)
    if lost.any():
        atom = int(np.argmax(lost))
        raise ValueError(f"{names[atom]} is at {x[atom]} nm: every atom needs a position")


def _pieces(given: Any) -> tuple[int, Any]:
    """How many molecules a Topology has, and the number of that of each atom."""
    atoms = topology.graph(given.getNumAtoms(), bonds_of(given))
    return connected_components(atoms, directed=False)


def _edges(box: Any) -> Array | None:
    """Return box vectors (3, 3) in nm, or None if there is no box."""
    box = None if box is None else _in_nm(box)
    return None if box is None or np.diagonal(box).min() < LEAST_BOX else box


def _whole(given: Any, x: Array) -> Array:
    box = _edges(given.getPeriodicBoxVectors())
    if box is None:
        return x
    first = np.unique(_pieces(given)[1], return_index=True)[1]
    roots = np.stack([np.zeros_like(first), first + 1], axis=1)  # all hang on a bead in front
    bonds = np.concatenate([roots, bonds_of(given) + 1])
    parents = topology.spanning_tree(len(x) + 1, bonds)[0][1:] - 1
    return np.asarray(whole(parents, x[None], box)[0])


def _read(text: str) -> files.Read:
    hint = "" if "\n" in str(text) else ": it is no text of lines; Molecule.prepare reads files"
    said = f"the PDB text cannot be read as a PDB file{hint}"
    return files.tried(lambda: files.of_pdb(io.StringIO(text)), said)


def _written(given: Any, positions: Any) -> str:
    """Return the text of a PDB file of a Topology, with all of its bonds."""
    file = io.StringIO()
    app.PDBFile.writeFile(given, positions, file, keepIds=True)
    # The date of the first line would make two runs of one file differ.
    text = file.getvalue().split("\n", 1)[1]
    known = set(map(frozenset, bonds_of(_read(text).topology).tolist()))
    # OpenMM leaves out bonds between standard residues, such as the one that closes a backbone.
    more = [bond for bond in bonds_of(given).tolist() if frozenset(bond) not in known]
    serial = [atom.index + atom.residue.chain.index + 1 for atom in given.atoms()]  # TER counts
    records = "".join(f"CONECT{serial[i]:>5}{serial[j]:>5}\n" for i, j in map(sorted, more))
    return text.replace("END\n", f"{records}END\n")
