"""Constants of an arm as the kernels of the rigid partition want them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from fixman._common.arrays import Array, overflow
from fixman.errors import Frame, SingularConstraintError
from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.rigid import partition
from fixman.kernels.rigid.links import ARMATURE, PITCH
from fixman.rigid.model import Given, SerialChain, workspace
from fixman.rigid.spatial import skew


def tables(arm: SerialChain) -> PartitionTables:
    """Return the tables of an arm.

    Kept with the arm, as a cached property would be: hashing it costs more than a short solve.
    """
    known: PartitionTables | None = arm.__dict__.get("_partition")
    if known is None:
        known = PartitionTables(arm)
        arm.__dict__["_partition"] = known
    return known


class PartitionTables:
    """Constants of an arm, as the kernel wants them; each table is built when first asked for."""

    def __init__(self, arm: SerialChain) -> None:
        self._arm = arm
        self.width = arm.nv + 6 * arm.n  # accelerations and joint wrenches
        self.corrected = _uneven(arm) or _parallel(arm)

    def run(self, given: Given, out: Array, joints: bool) -> int:
        """Solve every frame; frame · (n + 1) + body where the kernel stopped, or -1."""
        states = (a.reshape(-1) for a in (given.q, given.qd, given.last))
        W = given.W.reshape(-1) if given.W.size else None
        room, out = workspace(partition.WORK * self._arm.n), out.reshape(-1)
        return int(partition.motion_frames(self.blocks, *states, given.g, W, out, joints, room))

    @cached_property
    def log_masses(self) -> float:
        """Σ ln det M_i + Σ ln J_i."""
        arm = self._arm
        moments = _moments(arm)
        _refuse_singular(arm, moments)
        rotors = arm.armature[arm.armature > 0]
        bodies = 3 * np.log(arm.masses).sum() + np.log(moments).sum()
        return float(bodies + np.log(rotors).sum())

    @cached_property
    @np.errstate(all="ignore")
    def blocks(self) -> Array:
        """Constants of the bodies, a row each: see the kernel."""
        arm, n = self._arm, self._arm.n
        _refuse_singular(arm, _moments(arm))
        c = arm.centres
        r, R = np.zeros((n, 3)), np.broadcast_to(np.eye(3), (n, 3, 3)).copy()
        r[:-1] = arm.translations[1:] - c[:-1]
        R[:-1] = arm.rotations[1:]
        J = np.linalg.inv(arm.inertias)
        J = (J + J.swapaxes(1, 2)) / 2
        light = 1 / arm.masses
        M_inverse = np.zeros((n, 6, 6))
        M_inverse[:, :3, :3] = J
        M_inverse[:, [3, 4, 5], [3, 4, 5]] = light[:, None]
        # Twists at the body's origin, and at the next joint in its axes, from the mass centre's.
        G_O, G_P = np.zeros((2, n, 6, 6))
        G_O[:, range(6), range(6)] = 1.0
        G_O[:, 3:, :3] = skew(c)
        G_P[:, :3, :3] = G_P[:, 3:, 3:] = R.swapaxes(1, 2)
        G_P[:, 3:, :3] = -R.swapaxes(1, 2) @ skew(r)
        GM_O, GM_P = G_O @ M_inverse, G_P @ M_inverse
        A, K, C = GM_O @ G_O.swapaxes(1, 2), GM_O @ G_P.swapaxes(1, 2), GM_P @ G_P.swapaxes(1, 2)
        rows = np.tile(np.eye(6), (n, 1, 1))  # vz − pitch ωz in the place of vz
        rows[:, 5, 2] = -arm.pitch
        A, K = rows @ A @ rows.swapaxes(1, 2), rows @ K
        blocks = np.zeros((n, 18, LANES))
        blocks[:, :, :6] = np.concatenate([A, K, C], axis=1)
        joint = arm.rotations, arm.kinds, arm.pitch, _rows(arm)
        parts = blocks, J, arm.inertias, R, c, r, light, *joint
        return _finite(np.concatenate([part.reshape(n, -1) for part in parts], axis=1))


def _rows(arm: SerialChain) -> Array:
    """Rows of each joint, those with rotors before soft ones; how many are not soft; their 1/J."""
    rows = partition.ORDER[arm.kinds].astype(float)
    held = partition.HARD[arm.kinds]
    light = np.zeros((arm.n, 6))
    for i in np.flatnonzero(arm._table[:, ARMATURE:PITCH].any(axis=1)):
        J = arm.armature[arm.rate_offsets[i] : arm.rate_offsets[i + 1]]
        order, turned = np.argsort(J == 0, kind="stable"), held[i] + np.count_nonzero(J)
        rows[i, held[i] :] = rows[i, held[i] :][order]
        light[i, held[i] : turned] = 1 / J[J > 0]
        held[i] = turned
    return np.column_stack([rows, held, light])


def _finite(table: Array) -> Array:
    if not np.isfinite(table).all():
        raise overflow("mobilities of the bodies", 0, ())
    return table


def _moments(arm: SerialChain) -> Array:
    """Principal moments of inertia, (n, 3), least first."""
    return np.asarray(np.linalg.eigvalsh(arm.inertias), dtype=np.float64)


def _uneven(arm: SerialChain) -> bool:
    """Whether accelerations can be small differences of much larger ones, at light bodies.

    Pivots do not show it: the heavy neighbour may come later.  Moments may differ by more, as
    bodies of one shape have them when their masses differ.
    """
    masses, moments = arm.masses, _moments(arm)
    small = moments[:, 0].min() < 1e-6 * moments[:, 2].max()
    return bool(masses.min() < 1e-4 * masses.max() or small)


def _parallel(arm: SerialChain) -> bool:
    """Whether all joints turn about parallel axes: straight arms lose digits as their length."""
    tilt = np.abs(arm.rotations[1:, [0, 1, 2, 2], [2, 2, 0, 1]])
    return not arm.kinds.any() and bool((tilt <= np.finfo(float).eps).all())


def _refuse_singular(arm: SerialChain, moments: Array) -> None:
    with np.errstate(all="ignore"):
        good = np.isfinite(1 / arm.masses) & np.isfinite(1 / moments[:, 0])
    good &= moments[:, 0] > partition.LEAST**2 * moments[:, 2]
    if not good.all():
        i = int(np.argmin(good))
        raise unsuited(i, f"mass {arm.masses[i]:g}, least moment of inertia {moments[i, 0]:g}")


def unsuited(body: int, reason: str, frame: Frame = None) -> SingularConstraintError:
    return SingularConstraintError(
        f"the partition cannot take body {body} ({reason}",
        "): its mass or its inertia is zero, or too small beside m ℓ² and its neighbours; use "
        "fixman.rigid.articulated_body, or for point masses fixman.Partition",
        frame=frame,
        body=int(body),
    )
