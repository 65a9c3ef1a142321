"""Runs to the formats that MDAnalysis writes; those of PDB files with names and bonds."""

import filecmp
import io
import os
import warnings
from pathlib import Path
from typing import Any

import MDAnalysis
import numpy as np

from fixman._common import arrays
from fixman._common.files import OVERWRITE, new_file
from fixman.potentials.binding import in_openmm_units
from fixman.simulation import trajectory
from fixman.simulation.trajectory import Run

__all__ = ["universe_of", "write_frames"]
__dir__ = __all__.copy  # completion shows public names alone

FORMATS = ".pdb", ".dcd", ".xtc", ".trr"
DIM = 3
ANGSTROM = 10.0  # in a nanometre


def universe_of(run: Run, *, replica: int | None = None) -> Any:
    """Return an MDAnalysis Universe of a run, in memory, with bonds, masses, velocities and times.

    Without ``replica`` it holds all replicas: bead k of replica r is atom r·n + k.  Runs of a PDB
    file have its names, residues and elements; in all others a chain is a residue.
    Runs with OpenMM's forces are in Å and ps; all others have no units, and keep their numbers.
    Planar runs have z = 0.  Arrays are in single precision.  ValueError if there is no frame.
    """
    trajectory.require_run(run)
    chosen = range(run.replicas) if replica is None else [trajectory.chosen_replica(run, replica)]
    if not len(run):
        raise ValueError("the run has no frame")
    if run.system.box is not None and len(chosen) > 1:
        raise ValueError("each replica has a box of its own: choose one, replica=0")
    one, scale, flat = _replica(run), _scale(run), DIM - run.model.dim
    universe = MDAnalysis.Merge(*[one.atoms] * len(chosen)) if len(chosen) > 1 else one
    if trajectory.pdb_potential(run.about) is None:
        chains = run.system.chains
        resids = [place * chains + chain + 1 for place in chosen for chain in range(chains)]
        universe.add_TopologyAttr("resids", resids)
    x, v = (
        scale * np.pad(array[:, chosen], (*[(0, 0)] * 3, (0, flat))).reshape(len(run), -1, DIM)
        for array in (run.x, run.v)
    )
    box = run.system.box
    edges = None if box is None else np.pad(scale * box, (0, flat)).tolist() + [90.0] * DIM
    options = {"dt": _interval(run), "time_offset": float(run.times[0]), "dimensions": edges}
    universe.load_new(x, velocities=v, **options)
    return universe


def write_frames(
    run: Run, path: str | os.PathLike[str], *, replica: int | None = None, overwrite: bool = False
) -> None:
    """Write one replica of a run in space: .pdb, .dcd, .xtc or .trr, by the name.

    Slice the run to write fewer frames, ``run[::10]``; ``replica`` is needed if it has several.
    Formats other than PDB have no topology; for a run of a PDB file ``ala.topology.pdb``, beside
    ``ala.dcd``, holds the first frame.  Positions are rounded as these formats do: PDB to 0.001 Å,
    XTC to 0.01 Å.  Runs without OpenMM's forces have no units: their numbers are written as they
    are, which readers take for Å and ps.

    FileExistsError if there is a file already, or another topology beside it, and no ``overwrite``;
    ValueError if the run is in the plane, has no frame, or has no PDB file for a .pdb.
    """
    trajectory.require_run(run)
    path, named = arrays.path(path, "path"), trajectory.pdb_potential(run.about) is not None
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise ValueError(f"the name must end in {', '.join(FORMATS)}, got {path}")
    if not len(run):
        raise ValueError("the run has no frame to write")
    if suffix == ".pdb" and not named:
        raise ValueError("this run has no PDB file: write .dcd, .xtc, .trr, .gsd or .h5")
    if run.model.dim != DIM:
        raise ValueError(f"these formats are for space, and the run has dim={run.model.dim}")
    place = trajectory.only_replica(run, replica, "these files hold")
    universe, scale = _replica(run), _scale(run)
    with warnings.catch_warnings(), new_file(path, overwrite) as temporary:
        warnings.simplefilter("ignore")  # boxes and occupancies are missing
        if named and suffix != ".pdb":
            universe.atoms.positions = scale * run[:1].x[0, place]
            _write_topology(universe, path.with_suffix(".topology.pdb"), run, overwrite)
        with _writer(universe, temporary, path, run) as writer:
            for part in run.blocks():
                for x, step, time in zip(part.x[:, place], part.steps, part.times, strict=True):
                    universe.atoms.positions = scale * x
                    now = universe.trajectory.ts
                    now.time, now.data["step"] = time, int(step)
                    writer.write(universe.atoms)


def _write_topology(universe: Any, path: Path, run: Run, overwrite: bool) -> None:
    """Write one frame; trajectories that begin alike share the file."""
    with new_file(path, overwrite=True) as temporary:
        with _writer(universe, temporary, path, run) as writer:
            writer.write(universe.atoms)
        if path.exists() and not overwrite and not filecmp.cmp(path, temporary, shallow=False):
            said = f"{path} exists, of a trajectory that begins otherwise"
            raise FileExistsError(f"{said}: choose another name, or {OVERWRITE}")


def _writer(universe: Any, temporary: Path, name: Path, run: Run) -> Any:
    options = {"n_atoms": len(universe.atoms), "format": name.suffix[1:].upper()}
    if options["format"] == "DCD":  # which has no times; the first is istart/nsavc intervals
        numbers = run.numbers
        start = numbers.start if numbers.step > 0 else -numbers.start
        options |= {"dt": _interval(run), "nsavc": abs(numbers.step), "istart": start}
    return MDAnalysis.Writer(str(temporary), multiframe=True, **options)


def _scale(run: Run) -> float:
    return ANGSTROM if in_openmm_units(run.about["stepper"].get("potential")) else 1.0


def _interval(run: Run) -> float:
    return float(run.about["stepper"].get("dt", 1.0)) * int(run.about["every"]) * run.numbers.step


def _replica(run: Run) -> Any:
    """Return a Universe of one replica, with the names of a PDB file or none."""
    described, system = trajectory.pdb_potential(run.about), run.system
    if described:
        file = io.StringIO(described["pdb"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            universe = MDAnalysis.Universe(file, format="PDB", topology_format="PDB")
        if hasattr(universe, "bonds"):  # those of CONECT alone
            universe.del_TopologyAttr("bonds")
    else:
        options = {"n_residues": system.chains, "atom_resindex": system.molecules()}
        universe = MDAnalysis.Universe.empty(system.n, trajectory=True, **options)
        universe.add_TopologyAttr("names", ["bead"] * system.n)
        universe.add_TopologyAttr("types", ["bead"] * system.n)
        universe.add_TopologyAttr("resnames", ["chain"] * system.chains)
    universe.add_TopologyAttr("bonds", [tuple(map(int, pair)) for pair in system.bonds()])
    universe.add_TopologyAttr("masses", np.array(system.masses))
    return universe
