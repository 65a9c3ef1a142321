"""A run's ``about``, as JSON: its steps, blocks, seed and versions, and the model that moves."""

import json
import warnings
from functools import cache
from importlib.metadata import version
from platform import python_version
from typing import Any

import numpy as np

from fixman import __version__
from fixman.errors import RunVersionWarning

__all__ = ["versions"]

FORMAT = 3
DECISIVE = ("fixman", "numpy", "scipy", "numba")  # versions that bits depend on
LARGEST = 2**53  # most steps, which other programs read as floating point


def versions() -> dict[str, str]:
    """Return the versions that results can depend on."""
    return {"fixman": __version__, **_installed()}


@cache
def _installed() -> dict[str, str]:
    return {name: version(name) for name in DECISIVE[1:]} | {"python": python_version()}


def differing(here: dict[str, str], there: dict[str, str]) -> list[str]:
    changed = [name for name in DECISIVE if here[name] != there.get(name)]
    return [f"{name} {there.get(name)} → {here[name]}" for name in changed]


def begun(kind: str, **entries: Any) -> dict[str, Any]:
    return {"fixman_run": FORMAT, "kind": kind, "versions": versions(), "history": []} | entries


def plain(value: dict[str, Any]) -> dict[str, Any]:
    """Return what comes back of a value from JSON."""
    found: dict[str, Any] = json.loads(json.dumps(value, default=_listed))
    return found


def _listed(value: Any) -> Any:
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r:.80} cannot be written to the file of a run")


def require_sound(about: Any) -> None:
    """Refuse numbers that no run has; ValueError or another error of what is missing."""
    if about["fixman_run"] != FORMAT:
        raise ValueError(f"its format is {about['fixman_run']!r}, this fixman reads {FORMAT}")
    counts = [about[name] for name in ("steps", "every", "replicas")]
    counts += [about["block"][name] for name in ("frames", "steps")]
    if not all(type(count) is int and 0 < count <= LARGEST for count in counts):
        raise ValueError(f"steps, every, replicas and block are {counts!r:.80}")
    if about["steps"] % about["every"]:
        raise ValueError("steps are no multiple of every")
    noted = [about["stepper"], about["versions"], about.get("observables", {})]
    noted += [entry["versions"] for entry in about["history"]]
    if not all(type(entry) is dict for entry in noted) or type(noted[0]["name"]) is not str:
        raise ValueError(f"stepper, versions and observables are {noted!r:.200}")


def require_whole(steps: int, every: int) -> None:
    """Refuse steps that are no multiple of ``every``: such a run could not be extended."""
    if steps % every:
        text = "steps must be a multiple of every, so that a run can be extended"
        raise ValueError(f"{text}: got {steps} and {every}")


def changes(about: dict[str, Any], steps: int, step: int, shown: Any) -> dict[str, Any]:
    """Return the entries that differ where a run goes on from ``step``; warn of other versions."""
    history, now = about["history"], versions()
    changed = differing(now, (history[-1] if history else about)["versions"])
    if changed:
        text = f"{shown} goes on with other versions, {', '.join(changed)}: not necessarily "
        text += "the same bits as without the interruption"
        warnings.warn(text, RunVersionWarning, stacklevel=3)
    if not changed and steps == about["steps"]:
        return {}
    entry = {"step": step, "steps": steps, "versions": now}
    return {"steps": steps, "history": [*history, entry]}
