"""A run in groups of replicas: a folder with run.json of the whole, and a run folder for each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fixman.errors import RunFolderError
from fixman.simulation.archives import Arrays
from fixman.simulation.runfiles import digest, identify

GROUP = re.compile(r"group-\d{3,}")
OWN = ("groups", "history", "id", "start", "steps")  # in which a whole and a group may differ


def group_name(number: int) -> str:
    """Return the name of the folder of a group."""
    return f"group-{number:03d}"


def groups_of(about: dict[str, Any], state: Arrays) -> list[tuple[dict[str, Any], Arrays]]:
    """Divide a run into those of its groups, if it has any: run.json and first state of each."""
    if "groups" not in about:
        return [(about, state)]
    found, last = [], 0
    whole = {key: about[key] for key in about if key != "groups"}
    for number, size in enumerate(about["groups"]):
        first, last = last, last + size
        start = {name: a[first:last] if a.ndim else a for name, a in state.items()}
        group = {"run": about["id"], "number": number}
        own = {"replicas": size, "start": digest(start), "group": group}
        found.append((identify(whole | own), start))
    return found


def group_folder(path: Path, about: dict[str, Any], number: int) -> Path:
    """Return the folder of a group of a run; RunFolderError if it is missing."""
    inner = path / group_name(number)
    if not inner.is_dir():
        raise RunFolderError(
            f"{inner} is missing: {path} has the replicas of {len(about['groups'])} groups"
        )
    return inner


def require_group(about: dict[str, Any], whole: dict[str, Any], shown: Path) -> None:
    """Refuse the run.json of a group that is not the one that the whole run has in its place."""
    number = int(shown.name.rpartition("-")[2])
    due = {"replicas": whole["groups"][number], "group": {"run": whole["id"], "number": number}}
    expected = {key: value for key, value in (whole | due).items() if key not in OWN}
    wrong = [key for key, value in expected.items() if about.get(key) != value]
    if wrong:
        raise RunFolderError(
            f"{shown} is not group {number} of the run in {shown.parent}: {', '.join(wrong)} differ"
        )
