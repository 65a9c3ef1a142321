"""Kinds of files, told by their names; and LAMMPS's own files before MDAnalysis.

Formats have MDAnalysis's names, which the caller hands in: nothing here imports it.
"""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from fixman.errors import meant

NEEDS_MDANALYSIS = (
    'reading topologies and trajectories needs MDAnalysis: pip install "fixman-chains[md]"'
)

COMPRESSED = (".gz", ".bz2")
# Names of users for formats of MDAnalysis; "data.melt" and "dump.melt" are LAMMPS's own.
SAID = {
    "LMP": "DATA", "LAMMPS": "DATA", "DUMP": "LAMMPSDUMP", "LAMMPSTRJ": "LAMMPSDUMP", "H5": "H5MD"
}  # fmt: skip
MISNAMED = "if the name misleads, give topology_format='PSF' or format='DCD'"
ONLY_FRAMES = ("DCD", "XTC", "TRR", "NC", "NCDF", "H5", "H5MD")

# LAMMPS's atom styles as columns of its data files, in MDAnalysis's words.
STYLES = {
    "atomic": "id type x y z",
    "charge": "id type charge x y z",
    "bond": "id resid type x y z",
    "angle": "id resid type x y z",
    "molecular": "id resid type x y z",
    "full": "id resid type charge x y z",
    "dipole": "id type charge x y z",
    "sphere": "id type diameter density x y z",
}
# By the numbers of columns, and of whole numbers that come first.
GUESSES = {(5, 2): "atomic", (6, 3): "molecular", (6, 2): "charge", (7, 3): "full"}
NEEDED = ("id", "type", "x", "y", "z")
AXES = (("x", "y", "z"), ("xu", "yu", "zu"), ("xs", "ys", "zs"), ("xsu", "ysu", "zsu"))
PREAMBLE = 9  # lines of a frame of a dump before its atoms


class DataHeader(NamedTuple):
    """Head of a LAMMPS data file: numbers of atoms and bonds, and its atoms' columns.

    columns counts those of the first atom without image flags; style is the hint "Atoms # style";
    first is the first atom's line in pieces.
    """

    atoms: int
    bonds: int
    columns: int
    style: str
    first: tuple[str, ...]


def named(path: Path, known: Iterable[str]) -> str | None:
    """Return which of the known formats a file's name says, by its extension or as LAMMPS does."""
    path = path.with_suffix("") if path.suffix in COMPRESSED else path
    words = (path.suffix[1:].upper(), path.name.partition(".")[0].upper())
    names = (words[0], SAID.get(words[0]), words[1], SAID.get(words[1]))
    own = ("DATA", "LAMMPSDUMP")
    known = set(known)
    return next((n for k, n in enumerate(names) if n in known and (k < 2 or n in own)), None)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    open_: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    try:
        with open_(path, "rb") as file:
            yield file
    except (EOFError, OSError, zlib.error) as error:
        if path.suffix not in COMPRESSED:
            raise
        raise ValueError(f"{path} cannot be decompressed; is it cut off? ({error})") from error


@contextmanager
def _lines(path: Path) -> Iterator[Iterator[str]]:
    with _opened(path) as file:
        yield iter(io.TextIOWrapper(file, encoding="utf-8", errors="replace"))


def choose_format(path: Path, given: str | None, known: Iterable[str], use: str) -> str | None:
    """Format of a file: the one given, or that of its name; None leaves MDAnalysis to decide.

    Parameters
    ----------
    path : Path
    given : str, optional
        By MDAnalysis's names, or LAMMPS's: "data", "dump".
    known : iterable of str
        Formats that MDAnalysis reads for this use.
    use : "topology" or "trajectory"

    Raises
    ------
    ValueError
        An unknown name of a format; a trajectory in the place of a topology.
    """
    if given is None:
        found = named(path, known)
        if use == "topology" and found is None and named(path, ONLY_FRAMES):
            raise ValueError(
                f"{path.name} is a trajectory, which knows neither bonds nor masses: the order is "
                "topology first, then trajectory"
            )
        return found
    word, known = given.upper(), set(known)
    for name in (word, SAID.get(word)):
        if name in known:
            return name
    raise ValueError(
        f"MDAnalysis knows no {use} of format {given!r}{meant(given, known)}: "
        f"{', '.join(sorted(known))}"
    )


# --- LAMMPS data files --------------------------------------------------------------------------


def data_header(path: Path) -> DataHeader:
    """Read a LAMMPS data file up to its first atom.

    Raises
    ------
    ValueError
        If it has no atoms, or does not say how many.
    """
    counts = {"atoms": 0, "bonds": 0}
    style = None
    with _lines(path) as lines:
        next(lines, "")  # a title
        for line in lines:
            text, _, comment = line.partition("#")
            words = text.split()
            if style is not None and words:
                flags = 3 if len(words) >= 8 and all(map(_is_whole, words[-3:])) else 0
                size = len(words) - flags
                return DataHeader(counts["atoms"], counts["bonds"], size, style, tuple(words))
            if words == ["Atoms"]:
                style = comment.strip().lower()
            elif len(words) == 2 and words[1] in counts and words[0].isdigit():
                counts[words[1]] = int(words[0])
    raise ValueError(
        f"{path.name} is no LAMMPS data file, or was cut off: it has no atoms; {MISNAMED}"
    )


def _is_whole(word: str) -> bool:
    return bool(re.fullmatch(r"[-+]?\d+", word))


def columns_of(style: str) -> str:
    """Columns of an atom style by LAMMPS's name; columns are returned as they are.

    Raises
    ------
    ValueError
        An unknown style, or columns without id, type, x, y and z.
    """
    words = style.split()
    if len(words) == 1:
        if style.strip().lower() in STYLES:
            return STYLES[style.strip().lower()]
        raise ValueError(
            f"unknown atom style {style!r}{meant(style, STYLES)}: choose from "
            f"{', '.join(STYLES)}, or list its columns, such as 'id resid type x y z'"
        )
    lacking = [name for name in NEEDED if name not in words]
    if lacking:
        raise ValueError(f"atom style {style!r} lacks the columns {', '.join(lacking)}")
    return " ".join(words)


def atom_style(path: Path, header: DataHeader) -> tuple[str, str]:
    """Columns of a data file's atoms, and a note where they had to be guessed.

    Raises
    ------
    ValueError
        Where the file names a style that is not known here or has other columns, or neither it
        nor the number of columns tells.
    """
    if header.style:
        if header.style not in STYLES:
            raise ValueError(
                f"{path.name} is of atom style {header.style!r}, whose columns are not known "
                "here: list them, atom_style='id resid type x y z'"
            )
        return STYLES[header.style], ""
    whole = len(list(takewhile(_is_whole, header.first)))
    name = GUESSES.get((header.columns, min(whole, 2 if header.columns == 5 else 3)))
    if name is None:
        raise ValueError(
            f"{path.name} does not name its atom style, and its {header.columns} columns do not "
            "tell: give it, atom_style='full', or its columns, 'id resid type x y z'"
        )
    return STYLES[name], (
        f"{path.name} does not name its atom style: by its {header.columns} columns it is taken "
        f"for {name} ({STYLES[name]})"
    )


# --- LAMMPS dumps -------------------------------------------------------------------------------


def dump_columns(path: Path) -> tuple[str, ...]:
    """Columns of a dump's first frame.

    Raises
    ------
    ValueError
        Without ids or positions, or written so that MDAnalysis does not read it.
    """
    with _lines(path) as lines:
        for line in islice(lines, 40):
            if line.startswith(("ITEM: UNITS", "ITEM: TIME\n")):
                raise ValueError(
                    f"{path.name} begins with {line.strip()!r}, which MDAnalysis does not read: "
                    "write it with dump_modify units no time no, or remove these lines"
                )
            if line.startswith("ITEM: ATOMS"):
                columns = tuple(line.split()[2:])
                break
        else:
            raise ValueError(f"{path.name} has no 'ITEM: ATOMS': was it cut off? Else, {MISNAMED}")
    if "id" not in columns:
        raise ValueError(
            f"{path.name} has no column id, and LAMMPS writes atoms in any order: dump id and "
            "positions"
        )
    if not any(set(axes) <= set(columns) for axes in AXES):
        raise ValueError(f"{path.name} has no positions: its columns are {' '.join(columns)}")
    return columns


def dump_end(path: Path) -> str:
    """Note where the last frame of a dump was cut off, so that it is left out.

    Raises
    ------
    ValueError
        Without a whole frame; where the last line of the last frame was cut, perhaps in a number.
    """
    if path.suffix in COMPRESSED:
        return ""
    lines, last = 0, b"\n"
    with path.open("rb") as file:
        head = [file.readline() for _ in range(4)]
        if not head[3].strip().isdigit():
            raise ValueError(f"{path.name} does not say its number of atoms in line 4")
        atoms = int(head[3])
        file.seek(0)
        while block := file.read(1 << 20):
            lines += block.count(b"\n")
            last = block[-1:]
    frames, rest = divmod(lines, atoms + PREAMBLE)
    if last != b"\n" and rest == atoms + PREAMBLE - 1:
        raise ValueError(
            f"{path.name} ends within its last line, perhaps in a number: it was cut off, remove "
            "its last frame"
        )
    if not frames:
        raise ValueError(f"{path.name} has no whole frame of {atoms} atoms: was it cut off?")
    if rest or last != b"\n":
        return f"the last frame of {path.name} is cut off and left out: {frames} are whole"
    return ""
