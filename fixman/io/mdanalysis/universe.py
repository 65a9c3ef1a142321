"""Files opened as MDAnalysis Universes that have masses, and names of their atoms.

Masses and atom styles that a file does not say are guessed, and every guess comes back as a note.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fixman._common.arrays import listed
from fixman.io import elements, formats
from fixman.io.elements import Masses

try:
    import MDAnalysis
    from MDAnalysis.guesser import tables
except ImportError as error:
    raise ImportError(formats.NEEDS_MDANALYSIS) from error

Floats = npt.NDArray[np.float64]

SHOWN = 4  # names, where there are many


def open_universe(
    topology: str | Path,
    trajectory: str | Path | None = None,
    atom_style: str | None = None,
    *,
    topology_format: str | None = None,
    format: str | None = None,
    masses: Masses | None = None,
) -> tuple[Any, tuple[str, ...]]:
    """Open files as an MDAnalysis Universe that has masses, and say what was assumed.

    Paths are made absolute, so that workers that run elsewhere find them.

    Parameters
    ----------
    topology, trajectory : str or os.PathLike
    atom_style : str, optional
        Columns of a LAMMPS data file, by LAMMPS's name, "full", or "id resid type x y z"; by
        default what the file says, or else what its number of columns allows.
    topology_format, format : str, optional
        Formats of topology and trajectory, by MDAnalysis's names; by default their extensions, or
        "data.…" and "dump.…" as LAMMPS has them.
    masses : str, float or mapping, optional
        Masses of all atoms, or by their type (by their name where they have none):
        ``"1=12.011,2=1.008"``. By default those of the topology, or else those of the elements.

    Returns
    -------
    universe : MDAnalysis.Universe
    notes : tuple of str

    Raises
    ------
    FileNotFoundError, TypeError
    ValueError
        Files that cannot be read, are of another kind, or contradict themselves or each other.
    """
    said = {"atom_style": atom_style, "topology_format": topology_format, "format": format}
    for name, value in said.items():
        require_text(value, name, "a name, such as 'full' or 'PDB'")
    paths = [_path(path) for path in (topology, trajectory) if path is not None]
    known = (MDAnalysis._PARSERS, MDAnalysis._READERS)
    chosen = [
        formats.choose_format(path, given, names, use)
        for path, given, names, use in zip(
            paths, (topology_format, format), known, ("topology", "trajectory"), strict=False
        )
    ]
    notes: list[str] = []
    options: dict[str, Any] = {"topology_format": chosen[0]}
    if len(chosen) > 1:
        options["format"] = chosen[1]
    elif format is not None:
        raise ValueError(f"format {format!r} is that of a trajectory, and there is none")
    if chosen == ["LAMMPSDUMP", "DATA"]:
        raise ValueError(f"the topology comes first: {paths[1].name} before {paths[0].name}")
    header = None
    if chosen[0] == "DATA":
        header, options["atom_style"], note = _lammps_data(paths[0], atom_style)
        notes += [note] if note else []
    elif atom_style is not None:
        raise ValueError(f"atom_style is for LAMMPS data files, and {paths[0].name} is none")
    if chosen[-1] == "LAMMPSDUMP":
        columns = formats.dump_columns(paths[-1])
        # Atoms are sorted by their id, which is compared in every frame; and times are steps.
        options |= {"additional_columns": ["id"], "dt": 1.0}
        note = formats.dump_end(paths[-1])
        notes += [note] if note else []
        if len(paths) == 1 and masses is None and "mass" not in columns:
            notes.append(f"{paths[0].name} has no masses: MDAnalysis takes 1, or the elements'")
    universe = _universe(paths, options)
    if header is not None:
        _agrees(paths[0], header, universe)
    if len(paths) > 1:  # MDAnalysis does not count those of data files
        _require_size(paths, len(universe.atoms), universe.trajectory.ts.n_atoms)
    return universe, (*notes, *_give_masses(universe, masses))


def _path(path: str | Path) -> Path:
    if not isinstance(path, str | PathLike):
        raise TypeError(
            f"expected the path of a file, got {path!r}: MetricAnalysis takes a Universe"
        )
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no such file: {path}")
    if not path.is_file() or not path.stat().st_size:
        raise ValueError(f"{path} is empty, or no file that can be read more than once")
    return path


def _lammps_data(path: Path, style: str | None) -> tuple[formats.DataHeader, str, str]:
    header = formats.data_header(path)
    if style is not None:
        return header, formats.columns_of(style), ""
    return header, *formats.atom_style(path, header)


def _universe(paths: Sequence[Path], options: dict[str, Any]) -> Any:
    absolute = [str(path.absolute()) for path in paths]
    with _no_last_words():
        try:
            return MDAnalysis.Universe(*absolute, to_guess=(), **options)
        except Exception as error:  # its parsers raise whatever a broken line made them raise
            what, text = brief(error), str(error)
    sizes = re.findall(r"[Nn]umber of atoms:? (\d+)", text)
    if len(paths) == 2 and len(sizes) == 2:
        _require_size(paths, *sizes)
    kinds = (options["topology_format"], options.get("format"))
    named = [
        f"{path} as {kind}" if kind else str(path) for path, kind in zip(paths, kinds, strict=False)
    ]
    hint = "; are these files of one system?" * (len(paths) == 2)
    raise ValueError(
        f"MDAnalysis cannot read {' with '.join(named)}: {what}; {formats.MISNAMED}{hint}"
    )


def _require_size(paths: Sequence[Path], topology: int | str, trajectory: int | str) -> None:
    if topology != trajectory:
        raise ValueError(
            f"{paths[1]} has {trajectory} atoms, and the topology {paths[0]} has {topology}: are "
            "these files of one system?"
        )


def _agrees(path: Path, header: formats.DataHeader, universe: Any) -> None:
    bonds = len(universe.bonds) if hasattr(universe, "bonds") else 0
    have = {"atoms": (len(universe.atoms), header.atoms), "bonds": (bonds, header.bonds)}
    for what, (found, promised) in have.items():
        if found != promised:
            raise ValueError(
                f"{path.name} holds {found} {what}, and its header says {promised}: was it cut off?"
            )


def brief(error: Exception) -> str:
    """First sentence of what MDAnalysis says, which may list every format it knows."""
    text = " ".join(str(error).split())
    text = re.sub(r"^Failed to .*? with parser <class .*?>\. Error: ", "", text)
    sentence = re.split(r"(?<=[.!]) ", text)[0].rstrip(".!")
    return f"{sentence[:200]} …" if len(sentence) > 200 else sentence or type(error).__name__


def require_text(value: Any, name: str, example: str) -> None:
    """Refuse what is neither a text nor None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be {example}, got {value!r:.80}")


# --- names --------------------------------------------------------------------------------------


@contextmanager
def reading(path: Any) -> Iterator[None]:
    """Name the file in whatever its reader raises, which for a damaged one is anything."""
    try:
        yield
    except Exception as error:
        raise ValueError(
            f"{path} cannot be read; is it damaged or cut off? ({brief(error)})"
        ) from error


@contextmanager
def _no_last_words() -> Iterator[None]:
    """Keep readers that were never opened from printing tracebacks when they are closed."""
    hook = sys.unraisablehook

    def listen(unraisable: Any) -> None:
        if not str(getattr(unraisable.object, "__module__", "")).startswith("MDAnalysis"):
            hook(unraisable)

    sys.unraisablehook = listen
    try:
        yield
    finally:
        sys.unraisablehook = hook


class AtomsError(ValueError):
    """An error about atoms of known indices: a text with their names left open.

    Workers do not have the topology; the process that has it puts the names in.
    """


@contextmanager
def naming(universe: Any) -> Iterator[None]:
    """Put the names of atoms into errors about them."""
    try:
        yield
    except AtomsError as error:
        text, *atoms = error.args
        names = (
            f"atom index {atom}" if universe is None else name_atom(universe.atoms[atom])
            for atom in atoms
        )  # fmt: skip
        raise ValueError(text.format(*names)) from None


def name_atom(atom: Any) -> str:
    """Name an atom as its owner knows it; `index` is MDAnalysis's, from 0."""
    code = getattr(atom, "icode", "")
    known = [
        f"{key} {getattr(atom, key)}{code if key == 'resid' else ''}"
        for key in ("name", "type", "resname", "resid")
        if hasattr(atom, key)
    ]
    return f"atom index {atom.ix} ({', '.join(known)})"


# --- masses and elements ------------------------------------------------------------------------


def _give_masses(universe: Any, given: Masses | None) -> tuple[str, ...]:
    """Give every atom a mass: as said, as in the file, or as guessed, which is noted."""
    atoms, size = universe.atoms, len(universe.atoms)
    masses = np.full(size, np.nan)
    if given is not None:
        masses = _said_masses(universe, elements.parse_masses(given))
    missing = np.isnan(masses)
    notes: tuple[str, ...] = ()
    if hasattr(atoms, "masses"):
        masses[missing] = np.asarray(atoms.masses, dtype=np.float64)[missing]
    elif missing.any():
        symbols, names = symbols_of(universe)
        masses[missing] = [_mass(symbol) or 0.0 for symbol in symbols[missing]]
        shown = elements.table(symbols[missing].tolist(), names[missing].tolist(), _mass)
        if shown:
            notes = (f"masses are not in the topology: taken for those of elements, {shown}",)
    if not hasattr(atoms, "masses"):
        universe.add_TopologyAttr("masses", masses)
    elif given is not None:
        atoms.masses = masses
    return notes


def _said_masses(universe: Any, given: float | dict[str, float]) -> Floats:
    if not isinstance(given, dict):
        return np.full(len(universe.atoms), given)
    types = _texts(universe, "types")
    types = types if types is not None else _texts(universe, "names")
    if types is None:
        raise ValueError("masses by type, but the topology has neither types nor names of atoms")
    unknown = sorted(set(given) - set(types.tolist()))
    if unknown:
        raise ValueError(
            f"masses are given for {', '.join(map(repr, unknown))}, but the types of atoms are "
            f"{listed(sorted(set(types.tolist())), SHOWN)}"
        )
    return np.array([given.get(kind, np.nan) for kind in types.tolist()], dtype=np.float64)


def symbols_of(universe: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Elements of all atoms in capitals, "" where not known, and what each was told by.

    The file's own elements; else the names of the atoms, else their types.
    """
    size = len(universe.atoms)
    names = _texts(universe, "names")
    names = names if names is not None else _texts(universe, "types")
    residues = _texts(universe, "resnames")
    blank = np.full(size, "", dtype=object)
    names, residues = (blank.copy() if each is None else each for each in (names, residues))
    pairs = list(zip(names.tolist(), residues.tolist(), strict=True))
    known = {pair: elements.element(*pair) for pair in set(pairs)}
    symbols = np.array([known[pair] for pair in pairs], dtype=object)
    own = _texts(universe, "elements")
    if own is not None:
        weighed = [symbol for symbol in set(own.tolist()) if _mass(symbol) is not None]
        given = np.isin(own, weighed)
        symbols[given] = [symbol.upper() for symbol in own[given]]
        names[given] = own[given]
    symbols[~np.isin(symbols, [each for each in set(symbols.tolist()) if _mass(each)])] = ""
    return symbols, names


def _texts(universe: Any, attribute: str) -> npt.NDArray[Any] | None:
    found = getattr(universe.atoms, attribute, None)
    return None if found is None else np.array([str(text) for text in found], dtype=object)


def _mass(symbol: str) -> float | None:
    for spelled in (symbol.upper(), symbol.capitalize()):
        if spelled in tables.masses:
            return float(tables.masses[spelled])
    return None
