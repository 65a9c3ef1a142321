"""Runs to GSD, the format of HOOMD: OVITO and MDAnalysis open it with all bonds.

The one file that imports gsd.
"""

import os
from functools import partial

import numpy as np
from numpy.typing import NDArray

from fixman._common.files import new_file
from fixman.chains.system import held_pairs
from fixman.kernels.chain.rows import ANGLE, TORSION
from fixman.potentials.binding import default_terms
from fixman.simulation.trajectory import Run, chosen_replica, pdb_potential, require_run

try:
    import gsd.hoomd
except ImportError as error:
    raise ImportError('writing GSD files needs gsd: pip install "fixman-chains[store]"') from error

__all__ = ["write_gsd"]
__dir__ = __all__.copy  # completion shows public names alone

MOST_IMAGES = np.iinfo(np.int32).max
MARGIN = 1.0  # added around all beads of all frames, so that nothing is wrapped


def write_gsd(
    run: Run, path: str | os.PathLike[str], *, replica: int | None = None, overwrite: bool = False
) -> None:
    """Write the frames of a run with steps, bonds, angles, torsions, constraints and velocities.

    Slice the run to write fewer frames, ``run[::10]``.  Without ``replica`` every frame holds all
    replicas, one molecule each: bead k of replica r is particle r·n + k.  FileExistsError if the
    file exists, unless ``overwrite``.

    Positions are rounded to single precision, as GSD readers expect them; HDF5 keeps every digit.
    The box of a system is written, with images of beads; any other run gets a box around all
    frames, in which it is not periodic.  Every chain is a body with a number below −1: a residue
    for MDAnalysis, and not rigid for HOOMD.  Angles and dihedrals are those of potentials.  Hard
    lengths are constraints, with the values of the first frame.  Types are the names of atoms where
    the run is of a PDB file.  A planar run has z = 0 in a box without height; bases are left out.
    """
    require_run(run)
    rows = [*range(run.replicas)] if replica is None else [chosen_replica(run, replica)]
    box = run.system.box
    if box is not None and len(rows) > 1:
        raise ValueError("each replica has a box of its own: choose one, replica=0")
    reach = max((float(np.abs(part.x[:, rows]).max()) for part in run.blocks()), default=0.0)
    frame = _first_frame(run, rows, 2.0 * (reach + MARGIN))
    with new_file(path, overwrite) as temporary, gsd.hoomd.open(str(temporary), "w") as file:
        for part in run.blocks():
            x, v = part.x[:, rows], part.v[:, rows]
            for k, step in enumerate(part.steps):
                frame.configuration.step = int(step)
                frame.log["fixman/time"] = np.array([part.times[k]])
                images = np.zeros_like(x[k]) if box is None else np.rint(x[k] / box)
                if np.abs(images).max(initial=0.0) > MOST_IMAGES:
                    said = f"a bead is {np.abs(images).max():.3g} boxes from the origin at step"
                    raise ValueError(f"{said} {step}, and GSD counts up to {MOST_IMAGES}")
                frame.particles.image = _flat(images).astype(np.int32)
                frame.particles.position = _flat(x[k] if box is None else x[k] - images * box)
                frame.particles.velocity = _flat(v[k])
                file.append(frame)


def _first_frame(run: Run, rows: list[int], edge: float) -> gsd.hoomd.Frame:
    """Everything that stays the same; GSD stores it once."""
    system, replicas = run.system, len(rows)
    shifts = system.n * np.arange(replicas)[:, None, None]

    def every_chain(group: NDArray[np.int64]) -> NDArray[np.int64]:
        return (group + shifts).reshape(-1, group.shape[1])

    frame = gsd.hoomd.Frame()
    frame.configuration.dimensions = system.dim
    edges = [edge] * system.dim if system.box is None else system.box.tolist()
    frame.configuration.box = [*edges, *[0.0] * (6 - system.dim)]
    frame.particles.N = replicas * system.n
    names, described = ["bead"] * system.n, pdb_potential(run.about)
    if described is not None:
        lines = described["pdb"].splitlines()
        names = [line[12:16].strip() for line in lines if line.startswith(("ATOM", "HETATM"))]
    frame.particles.types = sorted(set(names))
    frame.particles.typeid = np.tile(np.searchsorted(frame.particles.types, names), replicas)
    frame.particles.mass = np.tile(system.masses, replicas)
    # MDAnalysis takes bodies for residues; HOOMD takes those from 0 on for rigid, and −1 for none.
    chains = np.arange(replicas)[:, None] * system.chains + system.molecules()
    frame.particles.body = chains.ravel() - replicas * system.chains - 1
    bends, turns = (partial(default_terms, kind=kind) for kind in (ANGLE, TORSION))
    terms = [(frame.bonds, "bond", system.bonds()), (frame.angles, "angle", system.numbered(bends))]
    if system.dim == 3:
        terms += [(frame.dihedrals, "torsion", system.numbered(turns))]
    for kind, name, group in terms:
        kind.N, kind.types, kind.group = replicas * len(group), [name], every_chain(group)
    held = system.numbered(held_pairs)
    if len(held) and len(run):
        x = run[:1].x[0, rows]
        lengths = np.linalg.norm(x[:, held[:, 0]] - x[:, held[:, 1]], axis=-1)
        rigid = frame.constraints
        rigid.N, rigid.value, rigid.group = lengths.size, lengths.ravel(), every_chain(held)
    return frame


def _flat(x: np.ndarray) -> np.ndarray:
    """Positions of all replicas as GSD has them, (particles, 3)."""
    particles = x.reshape(-1, x.shape[-1])
    return np.pad(particles, ((0, 0), (0, 3 - x.shape[-1]))).astype(np.float32)
