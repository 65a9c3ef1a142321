"""Show how the commands understand a file.

usage: fixman info FILE [flags]

The file is a run, a chain as JSON, a robot's URDF file, or a topology for
MDAnalysis: PDB, GRO, PSF, GSD, LAMMPS data.

  FILE                   the file
  --select SELECTION     atoms of a topology (default: all)
  --bonds TYPES          bonds of a topology: guess, or types that count (default: topology)
  --tip LINK             last link of a robot's path; needed where joints branch
$json

example:
  fixman info top.psf --select "name N CA C"
"""

from pathlib import Path
from typing import Any

from fixman import load_run
from fixman.cli import chains, shared
from fixman.potentials.binding import in_openmm_units

HEAD = 4096  # bytes that tell files apart


def run(arguments: shared.Namespace) -> None:
    path = arguments.file
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    head = _head(path)
    found: dict[str, Any] = {"file": str(path)}
    if is_run(path):
        whole = load_run(path)
        found |= {"kind": "run"} | shared.described(whole)
        if in_openmm_units(whole.about.get("stepper", {}).get("potential")):
            found["units"] = "nm, ps, dalton, kJ/mol"
        found["for"] = "fixman resume, check, export"
    elif head.startswith(b"{"):
        found |= {"kind": "chain", "for": "--chain of fixman simulate, sample"}
        found |= {"chain": repr(chains.from_json(path))}
    elif path.suffix.lower() == ".urdf" or b"<robot" in head:
        from fixman.cli import rigid

        robot = rigid.read(path, arguments.tip)
        found |= {"kind": "robot", "for": "fixman rigid", "chain": repr(robot.chain)}
        found |= {"joints": rigid.joints(robot), "notes": robot.notes}
    else:
        from fixman.io.mdanalysis import molecules, open_universe

        universe, notes = open_universe(path)
        groups, more = molecules.find(universe, arguments.select, arguments.bonds)
        found |= {"kind": "topology", "for": "fixman audit, --chain of fixman simulate, sample"}
        found |= {"atoms": len(universe.atoms)}
        found |= {"frames": len(getattr(universe, "trajectory", ()))}
        found |= {"molecules": [group.label() for group in groups], "notes": [*notes, *more]}
    shared.result(arguments, shared.lines(found), found)


def is_run(path: Path) -> bool:
    return path.is_file() and _head(path).startswith(b"SQLite format 3")


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD).lstrip(b"\xef\xbb\xbf \t\r\n")
