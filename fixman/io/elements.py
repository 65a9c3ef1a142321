"""Elements by the names of atoms, and masses as users say them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

Masses = str | float | Mapping[str, float]

# Names of ions whose residues have their name, or a name of its own in CHARMM.
IONS = {
    "NA": "NA", "SOD": "NA", "K": "K", "POT": "K", "CL": "CL", "CLA": "CL", "CA": "CA",
    "CAL": "CA", "MG": "MG", "ZN": "ZN", "ZN2": "ZN", "LI": "LI", "LIT": "LI", "CS": "CS",
    "CES": "CS", "RB": "RB", "RUB": "RB", "BA": "BA", "BAR": "BA", "CD": "CD", "CD2": "CD",
    "FE": "FE", "FE2": "FE", "CU": "CU", "MN": "MN", "NI": "NI", "CO": "CO", "HG": "HG",
    "BR": "BR", "F": "F", "I": "I", "IOD": "I",
}  # fmt: skip
SPELLED = (*"HCNOSPFIBK", "Cl", "Br", "Na", "Ca", "Mg", "Zn", "Fe", "Si", "Se", "Li", "Cu", "Mn")
TWO_LETTERS = ("CL", "BR", "FE", "ZN", "MG", "SI", "LI")  # no atom of a residue begins like these
ONE_LETTER = "HCNOSPFIB"
SHOWN = 6  # elements in a note


def element(name: str, resname: str = "") -> str:
    """Element in capitals that an atom's name, or type, stands for; "" where it stands for none.

    CA is carbon, but calcium in a residue CA; lower case is a type of GAFF, whose `na` is an
    aromatic nitrogen; "Na" is spelled as the element is.
    """
    word = name.strip()
    letters = re.sub(r"[^A-Za-z].*$", "", word.lstrip("0123456789'\"*"))
    if not letters:
        return ""
    residue = re.sub(r"[^A-Z0-9]", "", resname.upper())
    ion = IONS.get(residue)
    if ion is not None and letters.upper() in (ion, residue):
        return ion
    if letters in SPELLED:
        return letters.upper()
    capitals = letters.upper()
    if letters.islower():
        return capitals[:2] if capitals[:2] in ("CL", "BR") else _one(capitals)
    if residue == "MSE" and capitals == "SE":
        return "SE"
    return capitals[:2] if capitals[:2] in TWO_LETTERS else _one(capitals)


def _one(capitals: str) -> str:
    return capitals[0] if capitals[0] in ONE_LETTER else ""


def parse_masses(given: Masses) -> float | dict[str, float]:
    """Read masses: one number for all atoms, ``"1=12.011,2=1.008"`` or a mapping by type.

    Raises
    ------
    TypeError, ValueError
        Something else; a mass that is not positive and finite; a type named twice.
    """
    if isinstance(given, str):
        try:
            return _positive(float(given), given)
        except ValueError:
            if "=" not in given:
                raise ValueError(
                    f"masses are one positive number, or by type 1=12.011,2=1.008, got {given!r}"
                ) from None
        pairs = [part.rpartition("=") for part in given.split(",")]
        found = {kind.strip(): _number(value, given) for kind, _, value in pairs}
        if len(found) < len(pairs):
            raise ValueError(f"masses {given!r} name a type twice")
        return found
    if isinstance(given, Mapping):
        return {str(kind): _number(value, given) for kind, value in given.items()}
    return _number(given, given)


def _number(value: object, given: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError(f"masses are a number, a text or a mapping of types, got {given!r:.80}")
    try:
        return _positive(float(value), given)
    except ValueError:
        raise ValueError(f"masses must be positive numbers, got {value!r} in {given!r}") from None


def _positive(mass: float, given: object) -> float:
    if not 0.0 < mass < math.inf:
        raise ValueError(f"masses must be positive and finite, got {given!r}")
    return mass


def table(symbols: Sequence[str], names: Sequence[str], mass: Callable[[str], float | None]) -> str:
    """Say which names were taken for which elements, such as ``C 12.011 (C, CA)``."""
    readings: dict[str, list[str]] = {}
    for symbol, name in sorted(set(zip(symbols, names, strict=True))):
        if symbol:
            readings.setdefault(symbol, []).append(name)
    parts = []
    for symbol, known in list(readings.items())[:SHOWN]:
        more = ", …" if len(known) > SHOWN else ""
        parts.append(f"{symbol.capitalize()} {mass(symbol):g} ({', '.join(known[:SHOWN])}{more})")
    return ", ".join(parts) + (", …" if len(readings) > SHOWN else "")
