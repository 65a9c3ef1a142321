"""Write a run to GSD, HDF5, or PDB, DCD, XTC, TRR.

usage: fixman export RUN --to FILE [flags]

.gsd for OVITO, MDAnalysis and HOOMD, in single precision and with bonds;
.h5 for all numbers in double precision (H5MD). Runs in space also .dcd, .xtc
or .trr, those of fixman torsional .pdb too, each with a .pdb of the first frame.

  RUN                    file of the run, finished or not
  --to FILE              .gsd, .h5, .pdb, .dcd, .xtc or .trr
  --replica N            counted from 0; otherwise all, a molecule each
  --start FRAME, --stop FRAME, --step FRAMES  first, before which to stop, from one to the next
  --overwrite            replace an existing file
$json

example:
  fixman export run --to run.gsd
"""

from importlib import import_module

from fixman.cli import shared

WRITERS = {
    ".gsd": "gsd.write_gsd",
    **dict.fromkeys((".h5", ".hdf5", ".h5md"), "hdf5.write_hdf5"),
    **dict.fromkeys((".pdb", ".dcd", ".xtc", ".trr"), "mdanalysis.trajectories.write_frames"),
}


def run(arguments: shared.Namespace) -> None:
    from fixman import Run, load_run

    path, suffix = arguments.to, arguments.to.suffix.lower()
    if suffix not in WRITERS:
        raise ValueError(f"--to must end in .gsd, .h5, .pdb, .dcd, .xtc or .trr, got {path}")
    home, _, writer = WRITERS[suffix].rpartition(".")
    more = {} if arguments.replica is None else {"replica": arguments.replica}
    if home == "hdf5" and more:
        raise ValueError("--replica is for other files: HDF5 holds all replicas")
    whole = load_run(arguments.run)
    if not isinstance(whole, Run):
        raise ValueError(f"{arguments.run} is of rigid bodies: fixman.load_run has its numbers")
    if arguments.step == 0:
        raise ValueError("--step must not be 0")
    chosen = whole[arguments.start : arguments.stop : arguments.step]
    if not len(chosen):
        raise ValueError(f"no frame of {arguments.run} is chosen: {chosen}")
    write = getattr(import_module(f"fixman.io.{home}"), writer)
    write(chosen, path, overwrite=arguments.overwrite, **more)
    frames = f"{len(chosen)} frame{'s' * (len(chosen) != 1)}"
    shared.result(
        arguments, f"wrote {path}: {frames}", {"written": str(path), "frames": len(chosen)}
    )
