"""Flags of a command as its help tells them: the parser is read off that text.

Every line of the help that begins after two blanks declares arguments; deeper lines go on.

    NAME, [NAME]      a word in its place, or one that may be left out
    --flag            given or not
    --flag WORD       with a value, whose kind is that of WORD in `KINDS`, or text
    --flag {a,b}      with one of these
    --flag [WORD=1]   with a value, 1 where it is left out
    --flag WORD…      with one value or more
    --one, --other    one and the other
    --one | --other   one or the other
    (default: 3)      is 3 otherwise, if this is a single word
    $run              the lines of that name in `SHARED`

Flags that stand in the line of the usage have to be given.
"""

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any, NoReturn

from fixman.errors import meant, printable

LINE = re.compile(r"^  (--\S.*?|\[?[A-Z]+\]?)  +(.*)$", re.MULTILINE)
NEGATIVE = re.compile(r"-(?:[\d.]|(?:inf|nan)$)", re.IGNORECASE)

SHARED = {
    "chain": """\
chain:
  --beads N | --chain CHAIN, --select SELECTION  beads in a row; linear:50, ring:30, star:4x10,
                         comb:20x5, a file of Chain.to_json, a topology; its molecules, all equal
  --dim {2,3}, --base {free,fixed}  dimension, default 3; whether one end is held, default free
  --hard WORDS           some of length,angle,torsion; or torsional; default length
  --straight BENDS       bends held straight (0 degrees), by beads counted from 0: 0:1:2,1:2:3
  --length L, --angle DEGREES, --torsion DEGREES  hard values, default 1, 70.53 and 180 (trans)""",
    "run": """\
  --replicas COUNT, --workers COUNT  copies; threads, which change no result (default: 1)
  --every N, --seed N    steps per frame, default ~1000 frames; seed, default drawn and printed""",
    "seed": "  --seed N               seed of all random numbers; default drawn and printed",
    "scheduler": """\
  --workers COUNT        threads, which change no result (default: 1)
  --scheduler ADDRESS    running Dask scheduler, whose workers do the work""",
    "json": "  --json                 print one JSON document instead of text",
    "showing": "  --json, --quiet        print one JSON document instead of text; no progress bar",
}


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and shows its text as help."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(prog=name, allow_abbrev=False)
        self._negative_number_matcher = NEGATIVE  # otherwise -1e-3 and -1,2 are taken for flags
        self._text = Template(text).substitute(SHARED)
        body = re.sub(r"\n {3,}", "  ", self._text.partition("\nexample")[0])
        usage = self._text.partition("\nusage: ")[2].partition("\n")[0]
        for declared, about in LINE.findall(body):
            for one in declared.split(", "):
                ways, required = one.split(" | "), f"{one.partition(' ')[0]} " in usage
                group: Any = self
                if len(ways) > 1:
                    group = self.add_mutually_exclusive_group(required=required)
                for name, _, form in (way.partition(" ") for way in ways):
                    given = _declared(name, form, about)
                    if group is self and name.startswith("--"):
                        given["required"] = required
                    name = name if name.startswith("--") else name.strip("[]").lower()
                    group.add_argument(name, **given)

    def flags(self) -> list[str]:
        """Return the names of all flags."""
        return list(self._option_string_actions)

    def format_help(self) -> str:
        """Return the text that the parser was read off."""
        return self._text

    def error(self, message: str) -> NoReturn:
        """Exit with 2 and without the usage, which can be asked for."""
        said = " ".join(printable(message).split())
        if re.match("unrecognized arguments: [^-]", said):
            said += " (a value of several words needs quotes)"
        self.exit(2, f"fixman: error: {said}; see {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Refuse unknown flags, before missing ones, with the flag that may have been meant."""
        for word in args:
            name, known = word.partition("=")[0], self.flags()
            if name.startswith("--") and len(name) > 2 and name not in known and " " not in name:
                self.error(f"unrecognized arguments: {name}{meant(name, known)}")
        return super().parse_known_args(args, namespace)


def _declared(name: str, form: str, about: str) -> dict[str, Any]:
    if not name.startswith("--"):
        word = name.strip("[]")
        return {"type": KINDS[word], "metavar": word, "nargs": "?" if name != word else None}
    if not form:
        return {"action": "store_true"}
    word, _, otherwise = form.strip("[]…").partition("=")
    given: dict[str, Any] = {"metavar": word, "type": KINDS.get(word, str)}
    if word.startswith("{"):
        given["type"] = _one_of(word.strip("{}").split(","))
    if form.endswith("…"):
        given |= {"nargs": "+", "default": ()}
    if form.startswith("["):
        given |= {"nargs": "?", "const": given["type"](otherwise)}
    default = re.search(r"\(default:\s+([^\s)]+)\)", about)
    return given | {"default": default[1]} if default else given


def _one_of(words: list[str]) -> Callable[[str], str | int]:
    def read(text: str) -> str | int:
        if text not in words:
            said = f"must be {' or '.join(words)}, got {text!r}{meant(text, words)}"
            raise argparse.ArgumentTypeError(said)
        return int(text) if text.isdigit() else text

    return read


def whole(text: str) -> int:
    """Read 1000000, 1e6 or 1_000_000."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
        if not value.is_integer():
            raise ValueError(text) from None
        return int(value)


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

NUMBERS = "DT", "E", "EPSILON", "F", "G", "K", "L", "PS", "RATE", "RHO", "S", "SIGMA", "DEGREES"
PATHS = "CHAIN", "CSV", "DIR", "FILE", "PDB", "PNG", "ROBOT", "RUN", "TOPOLOGY", "TRAJECTORY"
KINDS: dict[str, Callable[[str], Any]] = {
    "N": whole, "COUNT": _count, "FRAME": whole, "FRAMES": whole,
    "BENDS": _bends, "K1,K2": _numbers, "Q1,Q2": _numbers,
    **dict.fromkeys(NUMBERS, float), **dict.fromkeys(PATHS, _path),
}  # fmt: skip
