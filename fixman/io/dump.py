"""Runs to text dumps of LAMMPS, which OVITO, VMD and MDAnalysis open too."""

import os

import numpy as np

from fixman._common.arrays import Array
from fixman._common.files import new_file
from fixman.chains.coordinates import Index
from fixman.chains.system import System
from fixman.simulation.trajectory import Run, only_replica, require_run

__all__ = ["write_dump"]
__dir__ = __all__.copy  # completion shows public names alone

COLUMNS = "id mol type x y z ix iy iz vx vy vz"
FORMATS = ["%d"] * 3 + ["%.12g"] * 3 + ["%d"] * 3 + ["%.12g"] * 3


def write_dump(
    run: Run, path: str | os.PathLike[str], *, replica: int | None = None, overwrite: bool = False
) -> None:
    """Write one replica of a run: steps, box, and positions, images and velocities of all beads.

    Slice the run to write fewer frames, ``run[::10]``; ``replica`` is needed if it has several.
    Bead k has the ID k + 1; chains are molecules, and beads with equal masses have one type, as in
    `fixman.io.lammps.write_data`.  Numbers are those of the run, in its units, with twelve digits.
    O(n) a frame.  FileExistsError if the file exists, unless ``overwrite``; ValueError if the run
    has no frame, or several replicas and none is chosen.
    """
    require_run(run)
    if not len(run):
        raise ValueError("the run has no frame to write")
    place, model = only_replica(run, replica, "a dump holds"), run.system
    names = np.column_stack([np.arange(1, model.n + 1), model.molecules() + 1, types_of(model)])
    bounds = "pp pp pp" if model.box is not None else "ss ss ss"
    with new_file(path, overwrite) as temporary, temporary.open("w", encoding="ascii") as file:
        for part in run.blocks():
            x, v = part.x[:, place], part.v[:, place]
            for k, step in enumerate(part.steps):
                low, high, y, images = boxed(model, x[k])
                file.write(f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n{model.n}\n")
                file.write(f"ITEM: BOX BOUNDS {bounds}\n")
                np.savetxt(file, np.column_stack([low, high]), "%.17g")
                file.write(f"ITEM: ATOMS {COLUMNS}\n")
                rates = np.pad(v[k], ((0, 0), (0, 3 - model.dim)))
                np.savetxt(file, np.column_stack([names, y, images, rates]), FORMATS)


def types_of(model: System) -> Index:
    """Return the types (n,) of beads, from 1 on: beads with equal masses have one type."""
    return np.asarray(np.unique(model.masses, return_inverse=True)[1] + 1, dtype=np.int64)


def boxed(model: System, x: Array) -> tuple[Array, Array, Array, Index]:
    """Return the ends of the box (3,), and positions in it and images (n, 3).

    Open space gets a box around the beads, and the plane a box of height 1.
    """
    low, high, images = np.full(3, -0.5), np.full(3, 0.5), np.zeros((model.n, 3), np.int64)
    if model.box is None:
        low[: model.dim], high[: model.dim] = x.min(axis=0) - 1.0, x.max(axis=0) + 1.0
    else:
        low[: model.dim], high[: model.dim] = 0.0, model.box
        images[:, : model.dim] = np.floor(x / model.box)
    return low, high, np.pad(x, ((0, 0), (0, 3 - model.dim))) - images * (high - low), images
