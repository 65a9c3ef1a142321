"""Constants of an arm as the kernels of the rigid partition want them."""

from __future__ import annotations

from contextlib import suppress
from functools import cache, cached_property
from typing import Any

import numpy as np

from fixman._common.arrays import Array, overflow
from fixman.errors import Frame, SingularConstraintError
from fixman.kernels.rigid import partition as rigid_partition
from fixman.kernels.rigid import partition_arm as rigid_partition_arm
from fixman.kernels.rigid import partition_planar as rigid_partition_planar
from fixman.kernels.rigid.links import ARMATURE
from fixman.rigid.model import SMALL, Given, SerialChain, workspace
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
    """Constants of an arm, as its kernels want them; each table is built when first asked for."""

    def __init__(self, arm: SerialChain) -> None:
        self._arm = arm
        self.rates = (arm.nv,)
        self.width = arm.nv + 6 * arm.n  # of accelerations and joint wrenches
        self.planar = _planar_table(arm)
        self.uneven = _uneven(arm, self.planar is not None)
        if self.uneven and self.planar is not None:
            # It loses digits as the square of the masses' ratio, the others as the ratio.
            with suppress(SingularConstraintError):
                self.blocks  # noqa: B018
                self.planar = None
        self.gravity: tuple[Any, Array] = (), np.zeros(3)  # as given, and as an array
        # A kernel for one frame, with its table, if nothing is to be added to its torques.
        self.quick: Any = None
        if arm._passive or self.uneven:
            return
        kernel, self.quick_table, self.units = self._kernel(False)
        self.roomy = 8 * self.units >= SMALL
        if kernel is not rigid_partition:
            self.quick = _strict(kernel, self.roomy)

    def run(self, given: Given, out: Array, joints: bool) -> int:
        """Call the kernel that suits the arm; frame · (n + 1) + body where it stopped, or -1."""
        kernel, table, units = self._kernel(joints)
        states = (a.reshape(-1) for a in (given.q, given.qd, given.last))
        W = given.W.reshape(-1) if given.W.size else None
        room = workspace(units) if 8 * units >= SMALL else None
        out = out.reshape(-1)
        return int(kernel.motion_frames(table, *states, given.g, W, out, joints, room))

    def _kernel(self, joints: bool) -> tuple[Any, Array, int]:
        """Return the kernel that suits the arm, its table, and how many numbers it works with."""
        n = self._arm.n
        if self.planar is not None and not joints:
            return rigid_partition_planar, self.planar, rigid_partition_planar.room_of(n)
        if self.rows is not None:
            return rigid_partition_arm, self.rows, rigid_partition_arm.ROOM * n
        return rigid_partition, self.blocks, rigid_partition.WORK * n

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
        """Of `fixman.kernels.rigid.partition`."""
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
        parts = (A, K, C, J, arm.inertias, R, c, r, light, arm.rotations, arm.kinds, _rows(arm))
        return _finite(np.concatenate([part.reshape(n, -1) for part in parts], axis=1))

    @cached_property
    @np.errstate(all="ignore")
    def rows(self) -> Array | None:
        """Of `fixman.kernels.rigid.partition_arm`, which takes joints of one rate only."""
        arm, n = self._arm, self._arm.n
        if arm.nq != n or arm.armature.any():
            return None
        table, bodies = self.blocks, np.arange(n)[:, None, None]
        A, K, C = table[:, :108].reshape(n, 3, 6, 6).swapaxes(0, 1)
        own = rigid_partition.ORDER[arm.kinds]
        ahead = np.concatenate([own[1:], own[:1]])
        out = np.zeros((n, rigid_partition_arm.UNITS, 8))
        out[:, :6, :6] = A[bodies, own[:, :, None], own[:, None]]
        out[:, 6:12, :6] = K[bodies, own[:, :, None], ahead[:, None]]
        out[:, 12:18, :6] = C[bodies, ahead[:, :, None], ahead[:, None]]
        flat = out.reshape(n, -1)
        flat[:, 7] = arm.kinds  # 1 is prismatic
        at = rigid_partition_arm.NUMBERS
        triangle = np.array([0, 1, 2, 4, 5, 8])
        flat[:, at : at + 9] = table[:, rigid_partition.ROTATION : rigid_partition.CENTRE]
        flat[:, at + 9 : at + 15] = table[:, rigid_partition.INVERSE + triangle]
        flat[:, at + 15 : at + 21] = table[:, rigid_partition.INERTIA + triangle]
        flat[:, at + 21 : at + 28] = table[:, rigid_partition.CENTRE : rigid_partition.BASE]
        for k, block in enumerate((A, C)):
            flat[:, at + 28 + 2 * k] = np.trace(block[:, :3, :3], axis1=1, axis2=2)
            flat[:, at + 29 + 2 * k] = np.trace(block[:, 3:, 3:], axis1=1, axis2=2)
        return _finite(np.concatenate([flat.reshape(-1), arm.rotations[0].reshape(-1)]))


def _rows(arm: SerialChain) -> Array:
    """Rows of each joint, those with rotors before soft ones; how many are not soft; their 1/J."""
    rows = rigid_partition.ORDER[arm.kinds].astype(float)
    held = rigid_partition.HARD[arm.kinds]
    light = np.zeros((arm.n, 6))
    for i in np.flatnonzero(arm._table[:, ARMATURE:].any(axis=1)):
        J = arm.armature[arm.rate_offsets[i] : arm.rate_offsets[i + 1]]
        order, turned = np.argsort(J == 0, kind="stable"), held[i] + np.count_nonzero(J)
        rows[i, held[i] :] = rows[i, held[i] :][order]
        light[i, held[i] : turned] = 1 / J[J > 0]
        held[i] = turned
    return np.column_stack([rows, held, light])


@cache
def _strict(kernel: Any, roomy: bool) -> Any:
    return rigid_partition.strict(kernel.motion_frames, roomy)


@np.errstate(all="ignore")
def _planar_table(arm: SerialChain) -> Array | None:
    """Of `fixman.kernels.rigid.partition_planar`, if all joints turn about parallel axes."""
    n, eps = arm.n, np.finfo(float).eps
    if (
        arm.kinds.any()
        or arm.armature.any()
        or (np.abs(arm.rotations[1:, [0, 1, 2, 2], [2, 2, 0, 1]]) > eps).any()
    ):
        return None
    # Bodies whose axis points down are turned over: y changes its sign.
    turned = arm.rotations[:, :2, :2].copy()
    sense = np.cumprod(np.concatenate([[1.0], np.sign(arm.rotations[1:, 2, 2])]))
    turned[0] = np.eye(2)
    c, r = arm.centres[:, :2].copy(), np.zeros((n, 2))
    r[:-1] = arm.translations[1:, :2]
    c[:, 1] *= sense
    r[:, 1] *= sense
    turned[:, :, 1] *= sense[:, None]
    turned[1:, 1] *= sense[:-1, None]
    length = np.hypot(r[:, 0], r[:, 1])
    towards = np.where(length > 0, np.arctan2(r[:, 1], r[:, 0]), 0.0)
    cosine, sine = np.cos(towards), np.sin(towards)
    about = arm.inertias[:, 2, 2]
    around = about + arm.masses * (c * c).sum(axis=1)
    good = np.isfinite(1 / around)
    if not good.all():
        raise unsuited(int(np.argmin(good)), "no inertia about its joint")
    _finite(around)
    angle = np.arctan2(turned[:, 1, 0], turned[:, 0, 0]) + np.diff(towards, prepend=0.0)
    columns = (
        cosine * c[:, 0] + sine * c[:, 1], cosine * c[:, 1] - sine * c[:, 0],
        length, arm.masses, around, about, cosine, sine,
    )  # fmt: skip
    table = np.zeros(((n + 8) // 8 * 8, rigid_partition_planar.CONSTANTS))
    table[:, rigid_partition_planar.AROUND] = around.max()
    links = np.arange(n)
    places = np.where(links < n // 2, 2 * links, 2 * (n - 1 - links) + 1)
    table[places] = np.column_stack(columns)
    lanes = table.reshape(-1, 8, table.shape[1]).swapaxes(1, 2)
    axes = arm.rotations[0, :, :2].T
    return np.concatenate([lanes.reshape(-1), angle, sense, [n], axes.reshape(-1)])


def _finite(table: Array) -> Array:
    if not np.isfinite(table).all():
        raise overflow("mobilities of the bodies", 0, ())
    return table


def _moments(arm: SerialChain) -> Array:
    """Principal moments of inertia, (n, 3), least first."""
    return np.asarray(np.linalg.eigvalsh(arm.inertias), dtype=np.float64)


def _uneven(arm: SerialChain, planar: bool) -> bool:
    """Whether accelerations can be small differences of much larger ones, at light bodies.

    Pivots do not show it: the heavy neighbour may come later.  Moments may differ by more, as
    bodies of one shape have them when their masses differ; in the plane they do no harm.
    """
    masses, moments = arm.masses, _moments(arm)
    if planar:
        return bool(masses.min() < 1e-3 * masses.max())
    small = moments[:, 0].min() < 1e-6 * moments[:, 2].max()
    return bool(masses.min() < 1e-4 * masses.max() or small)


def _refuse_singular(arm: SerialChain, moments: Array) -> None:
    with np.errstate(all="ignore"):
        good = np.isfinite(1 / arm.masses) & np.isfinite(1 / moments[:, 0])
    good &= moments[:, 0] > rigid_partition.LEAST**2 * moments[:, 2]
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
