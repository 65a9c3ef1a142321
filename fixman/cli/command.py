"""`fixman` on the command line: choose the command, run it, say what went wrong."""

from __future__ import annotations

import _thread
import io
import os
import re
import shlex
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from fixman.cli import arguments as cli_arguments
from fixman.cli import audit, sample, simulate, torsional
from fixman.cli.flags import Parser
from fixman.errors import meant

# Heavy imports live inside the functions: `fixman --help` answers at once.

UNWRITTEN = 1
# Arguments of Python functions, as errors of the library spell them, that are flags as well.
ARGUMENT = re.compile(
    r"\b(add_hydrogens|atom_style|bonds|chain|drop_solvent|format|hard|hydrogens|masses|overwrite|"
    r"replica|straight|topology_format)=(True|…|\d+|'[^']*'|\"[^\"]*\"|\[\([^\]]*\])"
)
BROKEN_PIPE = 141  # exit code, in shells, of a program that SIGPIPE ended

DEMO = """
usage: fixman demo [flags]

solve, check and time long chains; writes figures

  --out DIR              folder for figures and CSV (default: fixman-demo)
"""


def _demo(arguments: Any) -> None:
    from fixman.cli import demo

    demo.main(out=arguments.out)


COMMANDS = {
    "demo": (DEMO, _demo),
    "audit": (audit.HELP, audit.run),
    "sample": (sample.HELP, sample.run),
    "simulate": (simulate.SIMULATE, simulate.run),
    "resume": (simulate.RESUME, simulate.resume),
    "export": (simulate.EXPORT, simulate.export),
    "check": (simulate.CHECK, simulate.check),
    "torsional": (torsional.HELP, torsional.run),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 on success, 2 with one line on stderr for anything a user can mend.

    1 where the report was printed but its files could not be written. Ctrl-C is 130, and a pipe
    that its reader closed 141, without a word.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # where the terminal knows no ½
    try:
        try:
            run, arguments = _parsed(sys.argv[1:] if argv is None else argv)
            with _no_interrupt_is_lost():
                run(arguments)
        except SystemExit:  # after help or version
            sys.stdout.flush()
            raise
        sys.stdout.flush()
    except KeyboardInterrupt:
        return simulate.INTERRUPTED
    except audit.UnwrittenError as error:
        cli_arguments.show(f"fixman: error: {error}", error=True)
        return UNWRITTEN
    except (ValueError, RuntimeError, OSError, ImportError, MemoryError) as error:
        _give_up_broken_output()
        if isinstance(error, BrokenPipeError):
            return BROKEN_PIPE
        cli_arguments.show(f"fixman: error: {_text(error)}", error=True)
        return 2
    return 0


def _parsed(words: Sequence[str]) -> tuple[Any, Any]:
    if words and words[0] in COMMANDS:
        text, run = COMMANDS[words[0]]
        return run, Parser(f"fixman {words[0]}", text).parse_args(words[1:])
    if list(words) == ["--version"]:
        from fixman import __version__

        print(f"fixman {__version__}")
        raise SystemExit(0)
    about = {name: text.split("\n\n")[1] for name, (text, _) in COMMANDS.items()}
    lines = "\n".join(f"  {name:<12}{text}" for name, text in about.items())
    parser = Parser(
        "fixman",
        "usage: fixman COMMAND …, fixman --version\n\nConstrained chains: dynamics, metrics, "
        f"ensembles.\n\n{lines}\n\nfixman COMMAND --help says more.\n",
    )
    if words and words[0] in ("-h", "--help"):
        parser.parse_args(["--help"])
    given = f", got {words[0]!r}{meant(words[0], COMMANDS)}" if words else ""
    parser.error(f"the first word is a COMMAND, one of {', '.join(COMMANDS)}{given}")


@contextmanager
def _no_interrupt_is_lost() -> Iterator[None]:
    """Raise KeyboardInterrupt for every Ctrl-C, where Python or a package dropped it as well.

    Raised in a callback of a weak reference or of ctypes, as imports and compiling run them by the
    thousand, it is printed and forgotten: it is raised again a moment later.  Raised inside an
    import it can come out as another error.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or (
        threading.current_thread() is not threading.main_thread()
    ):
        yield
        return
    interrupted = False
    again: list[threading.Timer] = []
    hook = sys.unraisablehook

    def note(number: int, frame: Any) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    def raise_again(unraisable: Any) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            hook(unraisable)
            return
        timer = threading.Timer(0.02, _thread.interrupt_main)
        timer.daemon = True
        again.append(timer)
        timer.start()

    signal.signal(signal.SIGINT, note)
    sys.unraisablehook = raise_again
    try:
        yield
    except Exception as error:
        if interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        for timer in again:
            timer.cancel()
        sys.unraisablehook = hook
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _give_up_broken_output() -> None:
    """Keep the interpreter from trying again, at its end, to write what could not be written."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError):  # no file behind it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _text(error: Exception) -> str:
    """Put an error of the library in one line, and in flags where it names arguments."""
    said = "; ".join([str(error), *getattr(error, "__notes__", ())])
    return " ".join(ARGUMENT.sub(_flag, said).split())


def _flag(argument: re.Match[str]) -> str:
    name, value = argument[1], argument[2].strip("'\"")
    if value == "…":
        value = {"hydrogens": '"name H*"', "masses": "1=12.011,2=1.008"}[name]
    elif value.startswith("["):  # bends
        bends = re.findall(r"\(([^)]*)\)", value)
        value = ",".join(bend.replace(", ", ":") for bend in bends)
    else:
        value = "" if value == "True" else shlex.quote(value)
    return f"--{name.replace('_', '-')} {value}".rstrip()
