"""Files opened as MDAnalysis Universes that have masses.

A mass that the topology lacks is guessed, and every guess comes back as a note.
"""

import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np
import numpy.typing as npt
from MDAnalysis.guesser.default_guesser import DefaultGuesser
from MDAnalysis.lib.util import openany

from fixman._common.arrays import listed, positive

Masses = str | float | Mapping[str, float]

SHOWN = 4  # names, where there are many
DATA, DUMP = "DATA", "LAMMPSDUMP"  # MDAnalysis's names of LAMMPS's formats
# Endings that MDAnalysis does not know.
ENDINGS = {"LMP": DATA, "LAMMPS": DATA, "DUMP": DUMP, "LAMMPSTRJ": DUMP, "H5": "H5MD"}
LAMMPS = {"DATA": DATA, "DUMP": DUMP}  # "data.melt" and "dump.melt"
# LAMMPS's atom styles as columns of its data files, in MDAnalysis's words.
STYLES = {
    "atomic": "id type x y z",
    "charge": "id type charge x y z",
    **dict.fromkeys(("bond", "angle", "molecular"), "id resid type x y z"),
    "full": "id resid type charge x y z",
}
PREAMBLE = 9  # lines of a frame of a dump before its atoms


def open_universe(
    topology: str | Path,
    trajectory: str | Path | None = None,
    atom_style: str | None = None,
    *,
    topology_format: str | None = None,
    format: str | None = None,
    masses: Masses | None = None,
) -> tuple[Any, tuple[str, ...]]:
    """Open files as an MDAnalysis Universe that has masses; with notes of what was assumed.

    ValueError for files that cannot be read, are of another kind, or contradict each other.

    Parameters
    ----------
    topology, trajectory : str or os.PathLike
    atom_style : str, optional
        Columns of a LAMMPS data file, by LAMMPS's name, "full", or "id resid type x y z"; by
        default what its line ``Atoms # full`` says.
    topology_format, format : str, optional
        Formats of topology and trajectory, by MDAnalysis's names; by default their extensions, or
        "data.…" and "dump.…" as LAMMPS has them.
    masses : str, float or mapping, optional
        One mass for all atoms, or masses by type (by name if there are no types),
        ``"1=12.011,2=1.008"``. By default those of the topology, or else those of the elements.
    """
    paths = [_path(topology), *(_path(path) for path in [trajectory] if path is not None)]
    kinds = [format_of(*each) for each in zip(paths, (topology_format, format), strict=False)]
    options: dict[str, Any] = {
        "topology_format": kinds[0], "format": kinds[1] if len(kinds) > 1 else format
    }  # fmt: skip
    if DATA in kinds:
        data = paths[kinds.index(DATA)]
        options["atom_style"], counts = _lammps_data(data, atom_style)
    if kinds[-1] == DUMP:
        # Atoms are sorted by their id, which is compared in every frame; and times are steps.
        options |= {"additional_columns": ["id"], "dt": 1.0}
    universe = _universe(paths, options)
    if kinds[0] == DATA:
        found = {"atoms": len(universe.atoms), "bonds": len(getattr(universe, "bonds", ()))}
        if found != counts:
            raise ValueError(f"{paths[0]} has {found}, its header says {counts}: was it cut off?")
    if len(paths) > 1 and len(universe.atoms) != universe.trajectory.ts.n_atoms:
        there, size = universe.trajectory.ts.n_atoms, len(universe.atoms)
        raise ValueError(f"{paths[1]} has {there} atoms, and the topology {paths[0]} has {size}")
    notes = _dump_notes(paths[-1], universe) if kinds[-1] == DUMP else ()
    if kinds[0] == DUMP and masses is None:
        notes += (f"masses are those of {paths[0].name}, or of its elements, or 1",)
    return universe, (*notes, *_give_masses(universe, masses))


def _path(path: str | Path) -> Path:
    if not isinstance(path, str | PathLike):
        raise TypeError(f"expected a path, got {path!r:.80}: MetricAnalysis takes a Universe")
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    if not path.is_file() or not path.stat().st_size:
        raise ValueError(f"{path} is empty, or no file that can be read more than once")
    return path


def format_of(path: Path, said: str | None = None) -> str | None:
    """Format by MDAnalysis's names: the one said, or that of a file's name; None where unknown."""
    if said is not None:
        word = str(said).upper()
        return ENDINGS.get(word, LAMMPS.get(word, word))
    path = path.with_suffix("") if path.suffix in (".gz", ".bz2") else path
    ending = path.suffix[1:].upper()
    if ending in {*ENDINGS, *MDAnalysis._PARSERS, *MDAnalysis._READERS}:
        return ENDINGS.get(ending, ending)
    return LAMMPS.get(path.name.partition(".")[0].upper())


def _universe(paths: list[Path], options: dict[str, Any]) -> Any:
    absolute = [str(path.absolute()) for path in paths]
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None  # readers that were never opened fail to close
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "DCDReader currently")  # no business of the user
            return MDAnalysis.Universe(*absolute, to_guess=(), **options)
    except Exception as error:  # its parsers raise whatever a broken line made them raise
        said = brief(error)
    finally:
        sys.unraisablehook = hook
    hint = "if the name misleads, give topology_format='PSF' or format='DCD'"
    raise ValueError(f"MDAnalysis cannot read {' with '.join(map(str, paths))}: {said}; {hint}")


def brief(error: Exception) -> str:
    """First sentence of what MDAnalysis says, which may list every format it knows."""
    text = re.sub(r"^Failed to .*? with parser .*? Error: ", "", " ".join(str(error).split()))
    sentence = re.split(r"(?<=[.!]) ", text)[0].rstrip(".!")
    return f"{sentence[:200]} …" if len(sentence) > 200 else sentence or type(error).__name__


@contextmanager
def reading(path: Any) -> Iterator[None]:
    """Name the file in whatever its reader raises, which for a damaged one is anything."""
    try:
        yield
    except Exception as error:
        said = f"{path} cannot be read; is it damaged or cut off? ({brief(error)})"
        raise ValueError(said) from error


def _lammps_data(path: Path, style: str | None) -> tuple[str, dict[str, int]]:
    """Columns of the atoms of a data file by a style, or its own; numbers of atoms and bonds."""
    counts, own = {"atoms": 0, "bonds": 0}, None
    with reading(path), openany(str(path)) as lines:
        next(lines)  # a title
        for line in lines:
            text, _, comment = line.partition("#")
            words = text.split()
            if words == ["Atoms"]:
                own = comment.strip().lower()
                break
            if len(words) == 2 and words[1] in counts:
                counts[words[1]] = int(words[0])
    if own is None:
        raise ValueError(f"{path} is no LAMMPS data file, or was cut off: it has no atoms")
    style = style or own
    columns = STYLES.get(style.strip().lower(), style)
    if len(columns.split()) < 2:
        said = f"the atom style of {path.name} is {style or 'unknown'}: give atom_style='full'"
        raise ValueError(f"{said}, one of {', '.join(STYLES)}, or columns, 'id resid type x y z'")
    return columns, counts


def _dump_notes(path: Path, universe: Any) -> tuple[str, ...]:
    """Refuse a dump without ids, or cut off in a number; note a last frame that is left out."""
    if "id" not in universe.trajectory.ts.data:
        raise ValueError(f"{path.name} has no column id, and LAMMPS writes atoms in any order")
    number, line = 0, ""
    with reading(path), openany(str(path)) as lines:
        for number, line in enumerate(lines, 1):  # noqa: B007  # the last one counts
            pass
    rest = number % (universe.trajectory.n_atoms + PREAMBLE)
    if not rest and not line.endswith("\n"):
        raise ValueError(f"{path.name} ends within a line: it was cut off, remove its last frame")
    return (f"the last frame of {path.name} is cut off and left out",) if rest else ()


def parse_masses(given: Masses) -> float | dict[str, float]:
    """Read masses: one number for all atoms, ``"1=12.011,2=1.008"`` or a mapping by type."""
    if isinstance(given, Mapping):
        return {str(kind): _positive(value) for kind, value in given.items()}
    if not isinstance(given, str) or "=" not in given:
        return _positive(given)
    pairs = [part.rpartition("=") for part in given.split(",")]
    by_type = {kind.strip(): _positive(value) for kind, _, value in pairs}
    if len(by_type) < len(pairs):
        raise ValueError(f"masses {given!r} name a type twice")
    return by_type


def _positive(given: Any) -> float:
    try:
        return positive(float(given), "masses")
    except (TypeError, ValueError):
        said = "masses are positive numbers, of all atoms or by type, 1=12.011,2=1.008"
        raise ValueError(f"{said}, got {given!r:.80}") from None


def _give_masses(universe: Any, given: Masses | None) -> tuple[str, ...]:
    """Give every atom a mass: as said, as in the file, or that of its element, which is noted."""
    atoms, names = universe.atoms, _names(universe.atoms)
    said = {} if given is None else parse_masses(given)
    masses = np.full(len(atoms), math.nan if isinstance(said, dict) else said)
    if isinstance(said, dict):
        types = np.array(getattr(atoms, "types", names), dtype=str)
        if unknown := sorted(set(said) - set(types)):
            there = listed(sorted(set(types)), SHOWN)
            raise ValueError(f"masses are given for types {', '.join(unknown)}, there are {there}")
        for kind, mass in said.items():
            masses[types == kind] = mass
    missing = np.isnan(masses)
    notes: tuple[str, ...] = ()
    if hasattr(atoms, "masses"):
        masses[missing] = np.asarray(atoms.masses, dtype=np.float64)[missing]
    elif missing.any():
        symbols = symbols_of(universe)[missing]
        masses[missing] = DefaultGuesser(None).guess_masses(symbols)
        pairs = set(zip(np.array(names)[missing].tolist(), symbols.tolist(), strict=True))
        readings = sorted(f"{name} as {symbol}" for name, symbol in pairs)
        notes = (f"masses are not in the topology: those of elements, {listed(readings, 12)}",)
    universe.add_TopologyAttr("masses", masses)
    return notes


def symbols_of(universe: Any) -> npt.NDArray[Any]:
    """Elements of all atoms: those of the file, else as MDAnalysis guesses by name or type."""
    atoms = universe.atoms
    names = _names(atoms)
    guess = {name: DefaultGuesser(None).guess_atom_element(name) for name in set(names)}
    own = getattr(atoms, "elements", [""] * len(atoms))
    return np.array([e or guess[name] for e, name in zip(own, names, strict=True)], dtype=str)


def _names(atoms: Any) -> list[str]:
    found = getattr(atoms, "names", getattr(atoms, "types", [""] * len(atoms)))
    return [str(name) for name in found]
