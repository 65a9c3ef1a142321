"""Hypothesis profiles and the rule for referees that may be absent."""

from __future__ import annotations

import importlib
import os
import signal
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("oracles", "strategies")

# Shells make what they run in the background ignore Ctrl-C, which some tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What a test compiles says nothing of the output that it looks at.
os.environ["FIXMAN_QUIET"] = "1"

# Derandomized: a red build is red again on the next machine. HYPOTHESIS_PROFILE=ci looks longer.
_COMMON = {"derandomize": True, "deadline": None, "database": None, "print_blob": False}
_COMMON["suppress_health_check"] = [HealthCheck.too_slow]  # as deadlines, it looks at a clock
settings.register_profile("default", max_examples=8, **_COMMON)
settings.register_profile("ci", max_examples=25, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as thorough the cases of a test that bring no new value of any parameter.

    The rest are few, yet every chain, size, algorithm and wrong argument of a test is among them.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if hasattr(item, "callspec") and not item.get_closest_marker("thorough"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        for item in _combinations(same):
            item.add_marker("thorough")


def _combinations(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Cases that bring nothing new when those with the most new values are taken first."""
    new = {case: set(map(repr, case.callspec.params.items())) for case in cases}
    while new:
        best = max(new, key=lambda case: len(new[case]))
        taken = new.pop(best)
        if not taken:
            return [best, *new]
        for values in new.values():
            values -= taken
    return []


def load_peer(name: str) -> ModuleType:
    """Import a referee: absent means skip for a user, and failure where it is required."""
    if os.environ.get("FIXMAN_REQUIRE_PEERS") == "1":
        return importlib.import_module(name)
    return pytest.importorskip(name)


@pytest.fixture(scope="session")
def peer():
    """Return the function that imports a referee or skips the test."""
    return load_peer


@pytest.fixture(scope="session")
def mm(peer):
    """Return the package openmm."""
    peer("openmm.app")
    return peer("openmm")


@pytest.fixture(scope="session")
def room(mm):
    """Return our room for OpenMM."""
    from fixman.io import openmm

    return openmm


@pytest.fixture
def run(capsys, tmp_path, monkeypatch):
    """Run a command in an empty folder: exit code, stdout, stderr."""
    from fixman.cli import command

    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = command.main([str(argument) for argument in arguments])
        return code, *capsys.readouterr()

    return run
