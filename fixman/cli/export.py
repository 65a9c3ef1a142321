"""Write chains to GSD, HDF5, LAMMPS dumps, PDB, DCD, XTC or TRR; write rigid bodies to CSV or PDB.

usage: fixman export RUN --to FILE [flags]

Chains: .gsd is for OVITO, MDAnalysis and HOOMD, in single precision and with bonds.
.h5 has all numbers in double precision (H5MD). .lammpstrj is LAMMPS's text dump, with box,
images and velocities. .dcd, .xtc and .trr need a run in space.
Runs of fixman torsional also take .pdb; a .pdb of the first frame comes with .dcd, .xtc, .trr.
Runs of fixman rigid: .csv has all numbers, .pdb joints and tip for VMD or PyMOL.

  RUN                    file of the run, finished or not
  --to FILE              new file: .gsd, .h5, .pdb, .dcd, .xtc, .trr, .lammpstrj or .csv
  --replica N            one replica, counted from 0; default all, one molecule each
  --start FRAME, --stop FRAME, --step FRAMES  first frame; frame to stop before; stride
  --overwrite            replace an existing file
$json

example:
  fixman export run --to run.gsd
"""

from functools import partial
from importlib import import_module

from fixman import Run, load_run
from fixman.analysis.groups import counted
from fixman.cli import shared

HDF5 = ".h5", ".hdf5", ".h5md"
WRITERS = {
    ".gsd": "gsd.write_gsd",
    **dict.fromkeys(HDF5, "hdf5.write_hdf5"),
    **dict.fromkeys((".pdb", ".dcd", ".xtc", ".trr"), "mdanalysis.trajectories.write_frames"),
    ".lammpstrj": "dump.write_dump",
}
BODIES = {".csv": "to_csv", ".pdb": "to_pdb"}  # methods of a run of rigid bodies


def run(arguments: shared.Namespace) -> None:
    path, suffix = arguments.to, arguments.to.suffix.lower()
    whole = load_run(arguments.run)
    known = WRITERS if isinstance(whole, Run) else BODIES
    if suffix not in known:
        raise ValueError(f"--to must end in {', '.join(known)}, got {path}")
    more = shared.given(arguments, "replica")
    if more and suffix in (".csv", *HDF5):
        raise ValueError(f"--replica is not for {suffix}, which holds all replicas")
    chosen = whole[arguments.start : arguments.stop : arguments.step]
    if not len(chosen):
        raise ValueError(f"no frame of {arguments.run} is chosen: {chosen}")
    if isinstance(whole, Run):
        home, _, writer = WRITERS[suffix].rpartition(".")
        write = partial(getattr(import_module(f"fixman.io.{home}"), writer), chosen)
    else:
        write = getattr(chosen, BODIES[suffix])
    write(path, overwrite=arguments.overwrite, **more)
    text = f"wrote {path}: {counted(len(chosen), 'frame')}"
    shared.result(arguments, text, {"written": str(path), "frames": len(chosen)})
