"""Motion of rigid bodies to CSV, for tables and plots, and to PDB, for VMD, PyMOL and NGL."""

import csv
import os
from collections.abc import Sequence
from itertools import chain, cycle, pairwise
from string import ascii_uppercase

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman._common.files import new_file
from fixman.kernels.rigid.joints import JOINTS, NAMES
from fixman.rigid import closed, kinematics, model
from fixman.rigid.model import SerialChain

__all__ = ["write_csv", "write_pdb"]
__dir__ = __all__.copy  # completion shows public names alone

System = SerialChain | closed.Linkage
WIDEST, MOST = 999.999, 99_999  # Å and atoms that the columns of PDB have room for


def write_csv(
    system: System,
    path: str | os.PathLike[str],
    q: ArrayLike,
    qd: ArrayLike,
    *,
    time: ArrayLike | None = None,
    names: Sequence[str] | None = None,
    replica: int = 0,
    overwrite: bool = False,
) -> None:
    """Write coordinates q (frames, ..., nq) and rates qd (frames, ..., nv), with every digit.

    Columns are ``time (frames,)``, by default the number of the frame, then coordinates, then
    rates.  Their names are ``names`` of joints, such as ``Robot.joint_names`` (default joint0 and
    so on): ``elbow`` and ``elbow.rate``; for several rates ``root.x`` to ``root.qw`` (``.angle`` in
    a plane) and ``root.vx`` to ``root.wz``.  ``replica`` chooses one of several, from 0.
    """
    joints = [joint for arm in _chains(system) for joint in arm.joints]
    x, v = _frames(q, system.nq, "q", replica), _frames(qd, system.nv, "qd", replica)
    now = np.arange(len(x)) if time is None else arrays.real(time, (len(x),), "time")
    names = [f"joint{k}" for k in range(len(joints))] if names is None else names
    if len(names) != len(joints):
        raise ValueError(f"names must be those of {len(joints)} joints, got {len(names)}")
    columns = zip(*map(_columns, names, joints), strict=True)
    head = ["time", *chain.from_iterable(chain.from_iterable(columns))]
    with new_file(path, overwrite) as temporary, open(temporary, "w", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerow(head)
        np.savetxt(file, np.column_stack([now, x, v]), "%s", ",")


def write_pdb(
    system: System,
    path: str | os.PathLike[str],
    q: ArrayLike,
    *,
    tip: ArrayLike | None = None,
    scale: float = 10.0,
    replica: int = 0,
    overwrite: bool = False,
) -> None:
    """Write the joints as bonded atoms, a MODEL for each frame of q (frames, ..., nq).

    Residues are named by kinds of joints: REV, PRI, SPH and so on.  BAS, the base, comes first
    unless it floats; TIP, a point ``tip (3,)`` of the last body, comes last if given.  Each chain
    of a linkage is a chain of the file.  A unit of length is ``scale`` Å; by default 100 m have
    room.  ``replica`` chooses one of several, from 0.
    """
    arms, q = _chains(system), _frames(q, system.nq, "q", replica)
    points: list[Array] = []
    atoms: list[str] = []
    bonds: list[str] = []
    parts = np.split(q, np.cumsum([arm.nq for arm in arms])[:-1], axis=1)
    for letter, arm, part in zip(cycle(ascii_uppercase), arms, parts, strict=False):
        words = [joint[:3].upper() for joint in arm.joints]
        found = [kinematics.frames(arm, part)[1]]
        if arm.joints[0] != "free":
            found, words = [np.zeros((len(q), 1, 3)), *found], ["BAS", *words]
        if tip is not None:
            found.append(kinematics.position(arm, part, arm.n - 1, tip)[:, None])
            words.append("TIP")
        points += found
        for k, word in enumerate(words, 1):
            atoms.append(f"ATOM  {len(atoms) + 1:5d}  C   {word} {letter}{k % 10_000:4d}    ")
        last = range(len(atoms) - len(words) + 1, len(atoms) + 1)
        bonds += [f"CONECT{i:5d}{j:5d}\n" for i, j in pairwise(last)]
    x = arrays.positive(scale, "scale") * np.concatenate(points, axis=1)
    widest = np.abs(x).max(initial=0.0)
    if widest > WIDEST or len(atoms) > MOST:
        text = f"PDB has room for {MOST} atoms and {WIDEST} Å, not for {len(atoms)}"
        raise ValueError(f"{text} and {widest:.4g} Å: lower scale")
    with new_file(path, overwrite) as temporary, open(temporary, "w") as file:
        for number, frame in enumerate(x.tolist(), 1):
            places = [f"{a:8.3f}{b:8.3f}{c:8.3f}  1.00  0.00           C\n" for a, b, c in frame]
            lines = chain.from_iterable(zip(atoms, places, strict=True))
            file.writelines([f"MODEL     {number:4d}\n", *lines, "ENDMDL\n"])
        file.writelines([*bonds, "END\n"])


def _columns(name: str, joint: str) -> tuple[list[str], list[str]]:
    slides, turns = JOINTS[NAMES.index(joint)].slides, JOINTS[NAMES.index(joint)].turns
    if len(slides + turns) == 1:
        return [name], [f"{name}.rate"]
    angles = ["angle"] if turns == "z" else ["qx", "qy", "qz", "qw"]
    rates = [f"{name}.v{x}" for x in slides] + [f"{name}.w{x}" for x in turns]
    return [f"{name}.{word}" for word in (*slides, *angles)], rates


def _chains(system: System) -> tuple[SerialChain, ...]:
    if isinstance(system, closed.Linkage):
        return system.chains
    model.require_arm(system)
    return (system,)


def _frames(values: ArrayLike, size: int, name: str, replica: int) -> Array:
    """Finite numbers of all frames of one replica, (frames, size)."""
    array = arrays.real(values, (size,), name)
    arrays.require_finite(array, (size,), name, "coordinate")
    if array.ndim < 2:
        raise ValueError(f"{name} must have shape (frames, ..., {size}), got {array.shape}")
    array = array.reshape(len(array), -1, size)
    if arrays.whole(replica, "replica", 0) >= array.shape[1]:
        raise ValueError(f"replica must be below {array.shape[1]}, got {replica}")
    return array[:, int(replica)]
