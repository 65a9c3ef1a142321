"""`fixman` on the command line: choose the command, run it, say what went wrong."""

import ast
import io
import os
import re
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from pkgutil import get_data
from typing import Any

from fixman.cli.flags import Parser
from fixman.cli.shared import INTERRUPTED, show, warn
from fixman.errors import meant

COMMANDS = (
    "audit", "info", "simulate", "sample", "torsional", "rigid", "resume", "check", "export", "demo"
)  # fmt: skip
FAILED, USAGE = 1, 2
BROKEN_PIPE = 141  # exit code, in shells, of a program that SIGPIPE ended

# Arguments of Python functions in errors of the library, and bends of three beads or more in them.
ARGUMENT = re.compile(r"\b([a-z_]+)=(True\b|\[\(\d.*?\)\])?")
BEND = re.compile(r"\((\d+(?:, \d+)+)\)")

COMPLETION = """\
_fixman() {{
  local words="{commands}"
  if ((COMP_CWORD > 1)); then
    case ${{COMP_WORDS[1]}} in
{cases}    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _fixman fixman"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit code.

    0 if it is done; 1 if it was refused or failed, with a line on stderr; 2 if its words are no
    command, with a line too; 130 after Ctrl-C and 141 if the reader of a pipe went away, without.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal knows no ½
    try:
        try:
            with warnings.catch_warnings():
                for category in (UserWarning, RuntimeWarning):
                    warnings.filterwarnings("default", category=category)
                warnings.filterwarnings("ignore", module="MDAnalysis")
                # It is also said where a reader is pickled for a worker, under another's name.
                warnings.filterwarnings("ignore", "Reader has no dt|DCDReader currently")
                warnings.showwarning = warn
                code = _run(words)
        except SystemExit as stop:  # after help, or words that are no command
            code = int(stop.code or 0)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ArithmeticError, ImportError, MemoryError, OSError, RuntimeError, ValueError) as error:
        try:
            sys.stdout.flush()
        except OSError:  # the interpreter would try again, at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        show(f"fixman: error: {_text(error, words)}", error=True)
        return FAILED
    return code


def module(name: str) -> Any:
    """Import the file of a command, which has its help as docstring and run(arguments)."""
    return import_module(f"fixman.cli.{name}")


def parser(name: str) -> Parser:
    return Parser(f"fixman {name}", _help(name))


def _help(name: str) -> str:
    """Return the docstring of the file of a command, before the imports of the file take long."""
    source = get_data(__package__, f"{name}.py") or b""
    return ast.get_docstring(ast.parse(source), clean=False) or ""


def _run(words: list[str]) -> int:
    if words and words[0] in COMMANDS:
        arguments = parser(words[0]).parse_args(words[1:])
        return module(words[0]).run(arguments) or 0
    if words == ["--version"]:
        from fixman import __version__

        print(f"fixman {__version__}")
    elif words == ["--completion"]:
        known = {name: " ".join(parser(name).flags()) for name in COMMANDS}
        cases = "".join(f'      {name}) words="{all}" ;;\n' for name, all in known.items())
        print(COMPLETION.format(commands=" ".join(COMMANDS), cases=cases))
    elif words and words[0] in ("-h", "--help"):
        print("usage: fixman COMMAND …, fixman --version, fixman --completion\n")
        print("Constrained chains: dynamics, metrics, ensembles.\n")
        for name in COMMANDS:
            print(f"  {name:<12}{_help(name).partition(chr(10))[0]}")
        print("\nfixman COMMAND --help says more.")
    else:
        given = f", got {words[0]!r}{meant(words[0], COMMANDS)}" if words else ""
        said = f"the first word is a COMMAND, one of {', '.join(COMMANDS)}{given}"
        show(f"fixman: error: {said}; see fixman --help", error=True)
        return USAGE
    return 0


def _text(error: Exception, words: list[str]) -> str:
    flags = parser(words[0]).flags() if words[0] in COMMANDS else []

    def flag(argument: re.Match[str]) -> str:
        name, value = f"--{argument[1].replace('_', '-')}", argument[2] or ""
        if name not in flags:
            return argument[0]
        bends = ",".join(bend.replace(", ", ":") for bend in BEND.findall(value))
        return name if value == "True" else f"{name} {bends}"

    notes = [x for x in getattr(error, "__notes__", ()) if not x.startswith("its attribute")]
    said = "; ".join([str(error), *notes])
    return " ".join(ARGUMENT.sub(flag, said.replace("strict=False", "lenient=True")).split())
