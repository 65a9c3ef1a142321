"""`fixman info`: what commands would read of a file."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fixman.cli import chains, rigid, shared

HELP = """
usage: fixman info FILE [flags]

what the commands read of a file, before any work

A run, a chain as JSON, a robot's URDF file, or whatever MDAnalysis takes for a
topology: PDB, GRO, PSF, GSD, LAMMPS data.

  FILE                   the file
  --select SELECTION     of a topology (default: all)
  --bonds TYPES          of a topology: guess, or types that count (default: topology)
  --tip LINK             of a robot: last link of the path; needed where joints branch
  --json                 print one JSON document instead of text

example:
  fixman info top.psf --select "name N CA C"
"""
Found = tuple[list[str], dict[str, Any]]  # lines, and a document
HEAD = 4096  # bytes that tell files apart


def run(arguments: argparse.Namespace) -> None:
    """Tell the kind of a file, and print what it holds."""
    path = arguments.file
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    with path.open("rb") as file:
        head = file.read(HEAD)
    text, found = _look(path, head.lstrip(b"\xef\xbb\xbf \t\r\n"), arguments)
    shared.result(arguments, "\n".join(text), {"file": str(path), **found})


def _look(path: Path, head: bytes, arguments: argparse.Namespace) -> Found:
    if head.startswith(b"SQLite format 3"):
        return _run(path)
    if head.startswith(b"{"):
        chain = chains.from_json(path)
        return [f"a chain, for --chain {path}: {chain!r}"], {"kind": "chain", "chain": repr(chain)}
    if path.suffix.lower() == ".urdf" or b"<robot" in head:
        robot = rigid.read(path, arguments.tip)
        rows, notes = rigid.joints(robot), [f"note: {note}" for note in robot.notes]
        text = [f"a robot, for fixman rigid: {robot.chain!r}", *rigid.table(rows), *notes]
        found = {"chain": repr(robot.chain), "joints": rows, "notes": robot.notes}
        return text, {"kind": "robot", **found}
    return _topology(path, arguments.select, arguments.bonds)


def _run(path: Path) -> Found:
    from fixman.simulation.runfile import load_run

    found = shared.described(load_run(path))
    said = ", ".join(f"{name} {value}" for name, value in found["stepper"].items())
    return [
        f"a run, for fixman resume, check and export: {found['chain']}",
        f"{found['frames']} frames of {found['replicas']} replicas, seed {found['seed']}",
        f"step {found['steps_done']} of {found['steps']}: {said}",
    ], {"kind": "run", **found}


def _topology(path: Path, select: str, bonds: str) -> Found:
    from fixman.io.mdanalysis import molecules, open_universe

    universe, notes = open_universe(path)
    atoms, frames = len(universe.atoms), len(getattr(universe, "trajectory", ()))
    groups, more = molecules.find(universe, select, bonds)
    labels, notes = [group.label() for group in groups], (*notes, *more)
    text = [f"a topology of {atoms} atoms, for fixman audit and --chain, in {frames} frames"]
    text += [f"  {label}" for label in labels] + [f"note: {note}" for note in notes]
    found = {"atoms": atoms, "frames": frames, "molecules": labels, "notes": notes}
    return text, {"kind": "topology", **found}
