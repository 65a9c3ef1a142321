"""Flags of a command as its help tells them: the parser is read off that text.

Every line of the help that begins after two blanks declares one argument; deeper lines go on.

    NAME, [NAME]      a word in its place, or one that may be left out
    --flag            given or not
    --flag WORD       with a value, whose kind is that of WORD in `KINDS`, or text
    --flag {a,b}      with one of these
    --flag [WORD=1]   with a value, 1 where it is left out
    --flag WORD…      with one value or more
    or --flag …       excludes the flag above
    (required)        has to be given
    (default: 3)      is 3 otherwise, if this is a single word
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from fixman.errors import meant, printable

LINE = re.compile(r"(or )?(--[\w-]+|\[?[A-Z]+\]?)(?: (\S+))?  +(.*)")
NEGATIVE = re.compile(r"-(?:[\d.]|(?:inf|nan)$)", re.IGNORECASE)
DESTINATIONS = {"RUN": "file"}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and shows its text as help."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(prog=name, allow_abbrev=False)
        self._negative_number_matcher = NEGATIVE  # otherwise -1e-3 and -1,2 are taken for flags
        self._text = text.lstrip("\n")
        lines = re.sub(r"\n {3,}", "  ", text.partition("\nexample")[0]).splitlines()
        found = [LINE.fullmatch(line.strip()) for line in lines if line.startswith("  ")]
        rows = [match.groups() for match in found if match]
        to: Any = self
        for k, (_, name, form, about) in enumerate(rows):
            if not rows[k][0]:
                excludes = k + 1 < len(rows) and rows[k + 1][0]
                needed = "(required)" in about
                to = self.add_mutually_exclusive_group(required=needed) if excludes else self
            _add(to, name, form, about)

    def format_help(self) -> str:
        """Return the text that the parser was read off."""
        return self._text

    def error(self, message: str) -> NoReturn:
        """Exit with 2 and without the usage, which can be asked for."""
        said = " ".join(printable(message).split())
        self.exit(2, f"fixman: error: {said}; see {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown flags, before missing ones, with the flag that may have been meant."""
        for word in args:
            name, known = word.partition("=")[0], self._option_string_actions
            if name.startswith("--") and len(name) > 2 and name not in known and " " not in name:
                self.error(f"unrecognized arguments: {name}{meant(name, known)}")
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return found, unknown


def _add(to: Any, name: str, form: str | None, about: str) -> None:
    given: dict[str, Any] = {}
    if not name.startswith("--"):
        word = name.strip("[]")
        given = {"type": KINDS.get(word), "metavar": word, "nargs": "?" if name != word else None}
        to.add_argument(DESTINATIONS.get(word, word.lower()), **given)
        return
    if form is None:
        to.add_argument(name, action="store_true")
        return
    word, _, otherwise = form.strip("[]…").partition("=")
    given = {"metavar": word, "type": KINDS.get(word)}
    if word.startswith("{"):
        given["type"] = _one_of(word.strip("{}").split(","))
    if form.endswith("…"):
        given |= {"nargs": "+", "default": ()}
    if form.startswith("["):
        given |= {"nargs": "?", "const": given["type"](otherwise)}
    default = re.search(r"\(default:\s+([^\s)]+)\)", about)
    if default:
        given["default"] = default[1]
    if isinstance(to, argparse.ArgumentParser):
        given["required"] = "(required)" in about
    to.add_argument(name, **given)


# --- kinds of values ------------------------------------------------------------------------------


def _one_of(words: list[str]) -> Callable[[str], str | int]:
    def read(text: str) -> str | int:
        if text not in words:
            raise argparse.ArgumentTypeError(
                f"must be {' or '.join(words)}, got {text!r}{meant(text, words)}"
            )
        return int(text) if text.isdigit() else text

    return read


def whole(text: str) -> int:
    """Read 1000000, 1e6 or 1_000_000."""
    try:
        number = int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise ValueError(text) from None
        number = int(value)
    return number


def _count(text: str) -> int:
    number = whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _bends(text: str) -> list[tuple[int, ...]]:
    return [tuple(map(int, bend.split(":"))) for bend in text.split(",")]


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(word) for word in text.split(","))


def _path(text: str) -> Path:
    if not text:  # a variable is not set; Path would make it the current folder
        raise argparse.ArgumentTypeError("it is empty")
    return Path(text)


# As argparse names them: "invalid whole number value: '1.5'".
whole.__name__ = _count.__name__ = "whole number"
_bends.__name__, _numbers.__name__ = "list of bends, such as 0:1:2,", "list of numbers"

NUMBERS = "DT", "E", "EPSILON", "F", "G", "K", "L", "PS", "RATE", "SIGMA", "DEGREES"
PATHS = "CSV", "DIR", "FILE", "JSON", "PDB", "PNG", "RUN", "TOPOLOGY", "TRAJECTORY"
KINDS: dict[str, Callable[[str], Any]] = {
    "N": whole, "COUNT": _count, "FRAME": whole, "FRAMES": whole,
    "BENDS": _bends, "K1,K2": _numbers,
    **dict.fromkeys(NUMBERS, float), **dict.fromkeys(PATHS, _path),
}  # fmt: skip
