"""Ctrl-C ends the command quietly, whatever it is doing."""

import signal
import subprocess
import sys
import time
import weakref

import pytest

from fixman.cli import command as cli

QUIET = (130, "", "")


@pytest.fixture
def command(monkeypatch, capsys):
    """Return a function that runs the command with something else to do."""

    def command(action):
        monkeypatch.setitem(cli.COMMANDS, "demo", (cli.DEMO, lambda arguments: action()))
        before = signal.getsignal(signal.SIGINT), sys.unraisablehook
        code = cli.main(["demo"])
        assert (signal.getsignal(signal.SIGINT), sys.unraisablehook) == before
        return code, *capsys.readouterr()

    return command


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(
    "module", ["fixman.cli.command", "argparse", "fixman.cli.demo", "numpy", "numba"]
)
def test_while_importing(module, tmp_path):
    code = (
        "import signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            sys.meta_path.remove(self)\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "from fixman.__main__ import main\n"
        "sys.exit(main(['demo', '--out', sys.argv[1]]))\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")


def test_while_it_works(command):
    assert command(press) == QUIET


def test_where_python_drops_it(command):
    class Thing:
        pass

    def action():
        thing = Thing()
        reference = weakref.ref(thing, lambda _: press())
        del thing
        deadline = time.monotonic() + 10.0
        while time.monotonic() < deadline:
            time.sleep(0.01)
        del reference
        raise AssertionError("it was lost")

    assert command(action) == QUIET


def test_where_it_became_another_error(command):
    def action():
        try:
            press()
        except KeyboardInterrupt:
            raise ImportError("numpy cannot be loaded twice") from None

    assert command(action) == QUIET


def test_errors_without_it_are_errors(command):
    def action():
        raise ImportError("no such module")

    assert command(action) == (2, "", "fixman: error: no such module\n")
    assert command(lambda: None) == (0, "", "")


def test_other_exceptions_that_cannot_be_raised_are_still_reported(command, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: seen.append(unraisable.exc_type))

    class Bad:
        def __del__(self):
            raise OSError

    assert command(lambda: Bad() and None) == (0, "", "")
    assert seen == [OSError]
