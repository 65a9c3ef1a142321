"""Ctrl-C ends the command quietly, whatever it is doing."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from fixman.cli import command, demo

PRESS = "signal.raise_signal(signal.SIGINT)"
START = "from fixman.__main__ import main\nsys.argv[1:] = ['demo', '--out', sys.argv[1]]\n"
DEMO = "from fixman.cli import demo\ndemo.run = lambda arguments: action()\n"


def program(code, folder, **more):
    """Run a program that says what it writes and how it ends: by the signal, or a code."""
    command = [sys.executable, "-c", f"import signal, sys\n{code}", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    "module", ["fixman.cli.command", "argparse", "fixman.cli.demo", "numpy", "numba"]
)
def test_while_importing(module, tmp_path):
    code = (
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        f"            {PRESS}\n"
        f"{START}"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.exit(main())\n"
    )
    code, _, said = program(code, tmp_path)
    assert (code, said) == (-signal.SIGINT, "")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    "action",
    [
        f"def action(): {PRESS}",
        # Python's exception would be printed and forgotten there.
        "import weakref\nclass Thing: pass\ndef action():\n    thing = Thing()\n"
        f"    kept = weakref.ref(thing, lambda _: {PRESS})\n    del thing",
        f"def action():\n    try: {PRESS}\n    except BaseException: pass",
    ],
)
def test_while_it_works(action, tmp_path):
    code = program(f"{START}{action}\n{DEMO}sys.exit(main())", tmp_path)
    assert code == (-signal.SIGINT, "", "")


def test_a_signal_that_is_ignored_stays_ignored(tmp_path):
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    action = f"def action(): {PRESS}\n"
    assert program(f"{ignored}{START}{action}{DEMO}sys.exit(main())", tmp_path) == (0, "", "")


def test_a_run_counts_it(monkeypatch):
    from fixman.cli import shared

    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        shared.progress(SimpleNamespace(quiet=False))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        shared.progress(SimpleNamespace(quiet=False))
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_one_that_is_raised_is_quiet_too(monkeypatch, capsys):
    def action(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", action)
    assert (command.main(["demo"]), *capsys.readouterr()) == (130, "", "")


def test_errors_without_it_are_errors(monkeypatch, capsys):
    def action(arguments):
        raise ImportError("no such module")

    monkeypatch.setattr(demo, "run", action)
    found = command.main(["demo"]), *capsys.readouterr()
    assert found == (1, "", "fixman: error: no such module\n")
