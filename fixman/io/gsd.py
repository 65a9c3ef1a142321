"""Runs to GSD, the format of HOOMD: OVITO and MDAnalysis open it with all bonds.

The one file that imports gsd.
"""

from __future__ import annotations

import os

import numpy as np

from fixman.trajectory import Run, bonds
from fixman.writer import new_file

try:
    import gsd.hoomd
except ImportError as error:
    raise ImportError('writing GSD files needs gsd: pip install "fixman-chains[store]"') from error

MARGIN = 1.0  # of the box around all beads of all frames, so that nothing is wrapped


def write_gsd(
    run: Run,
    path: str | os.PathLike[str],
    *,
    replica: int | None = None,
    overwrite: bool = False,
) -> None:
    """Write the frames of a run with bonds, masses and velocities.

    Parameters
    ----------
    run : Run
        Slice it to write fewer frames: ``run[::10]``.
    path : path
    replica : int, optional
        Only this one; by default every frame holds all replicas, one molecule each and one after
        the other: bead k of replica r is particle r·n + k.
    overwrite : bool
        Whether an existing file gives way.

    Raises
    ------
    FileExistsError
        If there is a file already.

    Notes
    -----
    Positions are what they are in the run, rounded to single precision, as GSD readers expect
    them; HDF5 keeps every digit.  The box is that of all frames and not periodic in any sense of
    the run.  A planar run has z = 0 and a box without height.  A fixed base point is no particle.
    """
    rows = slice(None)
    if replica is not None:
        if not -run.replicas <= replica < run.replicas:
            raise ValueError(f"the run has replicas 0 to {run.replicas - 1}, got {replica}")
        rows = slice(replica % run.replicas, replica % run.replicas + 1)
    reach = max((float(np.abs(part.x[:, rows]).max()) for part in run.blocks()), default=0.0)
    frame = _first_frame(run, 1 if replica is not None else run.replicas, 2.0 * (reach + MARGIN))
    with new_file(path, overwrite) as temporary, gsd.hoomd.open(str(temporary), "w") as file:
        for part in run.blocks():
            x, v = part.x[:, rows], part.v[:, rows]
            for k, step in enumerate(part.steps):
                frame.configuration.step = int(step)
                frame.log["fixman/time"] = np.array([part.times[k]])
                frame.particles.position = _flat(x[k])
                frame.particles.velocity = _flat(v[k])
                file.append(frame)


def _first_frame(run: Run, replicas: int, edge: float) -> gsd.hoomd.Frame:
    """Everything that stays the same; GSD stores it once."""
    chain = run.chain
    pairs = bonds(chain)
    all_pairs = pairs + chain.n * np.arange(replicas)[:, None, None]
    frame = gsd.hoomd.Frame()
    frame.configuration.dimensions = chain.dim
    frame.configuration.box = [edge, edge, edge if chain.dim == 3 else 0.0, 0.0, 0.0, 0.0]
    frame.particles.N = replicas * chain.n
    frame.particles.types = ["bead"]
    frame.particles.mass = np.tile(chain.masses, replicas)
    frame.bonds.N = replicas * len(pairs)
    frame.bonds.types = ["bond"]
    frame.bonds.group = all_pairs.reshape(-1, 2)
    return frame


def _flat(x: np.ndarray) -> np.ndarray:
    """Positions of all replicas as GSD has them, (particles, 3)."""
    particles = x.reshape(-1, x.shape[-1])
    out = np.zeros((len(particles), 3), dtype=np.float32)
    out[:, : x.shape[-1]] = particles
    return out
