"""Files that OpenMM reads: positions, and force fields, some of which bring a topology."""

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from openmm import app

AMBER, GROMACS, CHARMM = (".prmtop", ".parm7"), (".top",), (".psf",)
IMPLICIT = ("HCT", "OBC1", "OBC2", "GBn", "GBn2")  # words beside a topology of Amber
T = TypeVar("T")


class Read(NamedTuple):
    """Positions of a file, their box or None, and the topology of files that have one."""

    topology: Any
    positions: Any
    box: Any


def read_positions(path: Path) -> Read:
    """Read a file of positions by its ending; ValueError for unknown endings and other content."""
    form = path.suffix.lower()
    if form not in READERS:
        raise ValueError(f"{path} has positions in an unknown form: {', '.join(READERS)} are known")
    words, reader, kind = READERS[form]
    return tried(partial(reader, kind, path), f"{path} cannot be read as {words}")


def of_pdb(source: Any, kind: Any = app.PDBFile) -> Read:
    """Read an open PDB or mmCIF file."""
    file = kind(source)
    return Read(file.topology, file.positions, file.topology.getPeriodicBoxVectors())


def brings_topology(forcefield: tuple[str, ...]) -> bool:
    """Whether the first file of a force field is a topology; ValueError for unknown endings."""
    endings = [Path(name).suffix.lower() for name in forcefield]
    if set(endings[:1]) & {*AMBER, *GROMACS, *CHARMM}:
        return True
    for name, ending in zip(forcefield, endings, strict=True):
        if ending != ".xml":
            shown = f"force field {', '.join(forcefield)}: {name} is neither .xml"
            raise ValueError(f"{shown}, nor one {', '.join(AMBER + GROMACS)}, nor .psf and .prm")
    return False


def force_field(forcefield: tuple[str, ...], read: Read) -> tuple[Any, Callable[..., Any]]:
    """Return the topology, and a function that makes its System from options of OpenMM.

    ValueError, with the names of the files, if these are not what their endings say.
    """
    if not brings_topology(forcefield):
        return read.topology, partial(xml_field(forcefield).createSystem, read.topology)
    first, *more = forcefield
    shown = f"force field {', '.join(forcefield)}"
    if not Path(first).is_file():
        raise FileNotFoundError(f"no such file: {first}")
    form = Path(first).suffix.lower()
    if form in CHARMM:
        if not more:
            raise ValueError(f"{shown}: a PSF needs files of parameters beside it, .prm or .str")
        psf = tried(partial(app.CharmmPsfFile, first, periodicBoxVectors=read.box), shown)
        parameters = tried(partial(app.CharmmParameterSet, *more), shown)
        return psf.topology, partial(psf.createSystem, parameters)
    with Path(first).open(encoding="utf-8", errors="replace") as file:
        amber = form in AMBER or file.read(8) == "%VERSION"  # of the old name, .top
    options: dict[str, Any] = {}
    if more:
        if not amber or len(more) > 1 or more[0] not in IMPLICIT:
            said = f"one of {', '.join(IMPLICIT)}" if amber else "nothing"
            raise ValueError(f"{shown}: {first} takes {said} beside it")
        options["implicitSolvent"] = getattr(app, more[0])
    reader = app.AmberPrmtopFile if amber else app.GromacsTopFile
    made = tried(partial(reader, first, periodicBoxVectors=read.box), shown)
    bonded = {atom for bond in made.topology.bonds() for atom in bond}
    for residue in made.topology.residues():  # SETTLE of GROMACS has no bonds
        if residue.name == "HOH" and bonded.isdisjoint(residue.atoms()):
            oxygen, *others = residue.atoms()
            for atom in others:
                if atom.element is app.element.hydrogen:
                    made.topology.addBond(oxygen, atom)
    return made.topology, partial(made.createSystem, **options)


def xml_field(forcefield: tuple[str, ...]) -> Any:
    """Return the ForceField of XML files."""
    return tried(partial(app.ForceField, *forcefield), f"force field {', '.join(forcefield)}")


def tried(read: Callable[[], T], shown: str) -> T:
    """Return what a reader makes of a file, without warnings; ValueError if it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read()
    except Exception as error:  # whatever a file of other content makes of the reader
        raise ValueError(f"{shown}: {str(error) or repr(error):.200}") from None


def _opened(kind: Any, path: Path) -> Read:
    with path.open(encoding="utf-8") as file:
        return of_pdb(file, kind)


def _alone(kind: Any, path: Path) -> Read:
    """Read positions without a topology, and their box if there is one."""
    file = kind(str(path))
    of_gromacs = kind is app.GromacsGroFile
    box = file.getPeriodicBoxVectors() if of_gromacs else getattr(file, "boxVectors", None)
    return Read(None, file.positions, box)


READERS: dict[str, tuple[str, Callable[[Any, Path], Read], Any]] = {
    **dict.fromkeys((".pdb", ".ent"), ("a PDB file", _opened, app.PDBFile)),
    **dict.fromkeys((".cif", ".mmcif", ".pdbx"), ("an mmCIF file", _opened, app.PDBxFile)),
    ".gro": ("a GRO file", _alone, app.GromacsGroFile),
    **dict.fromkeys((".inpcrd", ".rst7"), ("coordinates of Amber", _alone, app.AmberInpcrdFile)),
    ".crd": ("coordinates of CHARMM", _alone, app.CharmmCrdFile),
}
