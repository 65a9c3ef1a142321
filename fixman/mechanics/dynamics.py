"""Forward and inverse dynamics with velocity terms, torques and Cartesian forces."""

from __future__ import annotations

from math import prod
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array, Lead, overflow
from fixman.chains import projection_tables
from fixman.chains.chain import Chain, require_chain
from fixman.chains.layout import Layout
from fixman.chains.straight_bends import NEARLY
from fixman.errors import ConstraintSolveError, FrameError
from fixman.kernels.chain import charts, jointed_motion, motion
from fixman.kernels.chain.rows import LENGTH
from fixman.kernels.factors.sparse import SMALLEST_PIVOT
from fixman.kernels.simulation import projection
from fixman.mechanics.refusals import nearest_dependence, raise_failure

__all__ = ["Motion", "forward_dynamics", "inverse_dynamics", "project"]

RUNAWAY = 1e6  # times the largest coordinate or target
COARSE = 1e-6  # times a length: rounded positions must tell so much apart
EPS = 2.0**-52
SMALLEST_BEND = 1e-6  # v̂ − û of a bend that is no longer called straight

_NO_TORQUE = np.empty(0)
_NO_FORCE = np.empty((0, 2))


class Motion:
    """Results of `forward_dynamics`, accelerations and tensions, as read-only arrays."""

    __slots__ = ("_chain", "_lead", "_out", "_qdd", "_state")

    def __init__(
        self, chain: Chain, lead: Lead, out: Array, state: tuple[Array, Array], qdd: Array | None
    ) -> None:
        self._chain, self._lead, self._out, self._qdd = chain, lead, out, qdd
        self._state = state  # x and v

    def __repr__(self) -> str:
        frames = f", frames {self._lead}" if self._lead else ""
        chain = self._chain
        return f"<Motion of {chain.n} beads in {chain.dim}-D{frames}: acceleration, tension, qdd>"

    @property
    def acceleration(self) -> Array:
        """Accelerations of the beads ẍ, (..., n, dim)."""
        n, dim = self._chain.n, self._chain.dim
        return _view(self._out[:, : n * dim], (*self._lead, n, dim))

    @property
    def tension(self) -> Array:
        """Tensions, (..., n_hard): force in a bond (stretched > 0), torque for other kinds."""
        first, hard = self._chain.n * self._chain.dim, self._chain.hard.size
        return _view(self._out[:, first : first + hard], (*self._lead, hard))

    @property
    def qdd(self) -> Array:
        """Soft accelerations q̈_a = B_a ẍ + κ_a, (..., n_soft); computed on first access.

        SingularCoordinateError if a soft coordinate has no gradient, as on straight 3-D chains.
        """
        if self._qdd is None:
            layout = self._chain.layout
            given = *self._state, self._out
            self._qdd = layout.rates(layout.soft_rows, *given, "soft accelerations")
        return _view(self._qdd, (*self._lead, self._chain.soft.size))


def _view(array: Array, shape: Lead) -> Array:
    view = array.reshape(shape)
    view.flags.writeable = False  # later answers are computed from it
    return view


def forward_dynamics(
    chain: Chain,
    x: ArrayLike,
    v: ArrayLike,
    *,
    torque: ArrayLike | None = None,
    force: ArrayLike | None = None,
) -> Motion:
    """Accelerations and tensions of a chain whose hard coordinates stay constant.

    H^bb λ = −(B_b M⁻¹ F + κ_b), ẍ = M⁻¹ (F + B_bᵀ λ), q̈_a = B_a ẍ + κ_a with F = f + B_aᵀ τ
    (theory.md section 3; Lee & Chirikjian 2005, eq. 12, with velocity terms κ).

    Parameters
    ----------
    chain : Chain
    x, v : (..., n, dim)
        Velocities with B_b v ≠ 0 change hard coordinates.  They are used as given, with q̈_b = 0;
        `project` removes the part that changes hard coordinates.
    torque : (..., n_soft), optional
        Generalized forces conjugate to the soft coordinates.
    force : (..., n, dim), optional
        Cartesian forces on the beads.

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held here.
    SingularCoordinateError
        If a torque is not zero on a coordinate without gradient (sin θ ≤ 4 eps).

    Notes
    -----
    O(n) in time and memory a frame.  ẍ and tensions of linear chains of bonds are exact to rounding
    for any masses and any bends, and so is q̈ in the plane, on nearly straight chains too.
    """
    require_chain(chain)
    layout = chain.layout
    n, dim, links, hard, soft = layout.sizes
    tail = (n, dim)
    lead: Lead = ()
    x = flat_x = arrays.real(x, tail, "x")
    v = flat_v = arrays.real(v, tail, "v")
    tau = _NO_TORQUE if torque is None else arrays.real(torque, (soft,), "torque")
    f = _NO_FORCE if force is None else arrays.real(force, tail, "force")
    if x.ndim > 2 or v.ndim > 2 or tau.ndim > 1 or f.ndim > 2:
        lead = arrays.common_lead(x.shape[:-2], v.shape[:-2], tau.shape[:-1], f.shape[:-2])
        x, v = arrays.spread(x, lead, tail), arrays.spread(v, lead, tail)
        flat_x, flat_v = x.reshape(-1, dim), v.reshape(-1, dim)
        if torque is not None:
            tau = arrays.spread(tau, lead, (soft,)).reshape(-1)
        if force is not None:
            f = arrays.spread(f, lead, tail).reshape(-1, dim)
    planar = dim == 2 and links.size > 0
    columns = n * dim + hard
    out = np.empty((prod(lead) if lead else 1, columns + soft if planar else columns))
    bad = _frames(layout, flat_x, flat_v, tau, f, out)
    if bad >= 0:
        others = {"v": v} if force is None else {"v": v, "force": f.reshape(*lead, *tail)}
        pushes = None if torque is None else tau.reshape(*lead, soft)
        raise_failure(chain, x, bad, pushes, **others)
    if planar:
        return Motion(chain, lead, out, (x, v), out[:, columns:])
    # q̈ comes later, from this configuration: the caller may change its arrays until then.
    return Motion(chain, lead, out, (x.copy(), v.copy()), None)


def _frames(layout: Layout, x: Array, v: Array, tau: Array, f: Array, out: Array) -> int:
    """Fill ``out`` frame by frame; return the first frame without an answer, or −1."""
    n, dim, links, fixed = layout.n, layout.dim, layout.links, layout.fixed
    bad: int = -1
    if tau.size and not (dim == 2 and links.size):
        f = f.copy() if f.size else np.zeros_like(x)
        rows = layout.soft_rows.tables
        bad = motion.add_torques(x.reshape(-1), tau, n, dim, fixed, rows, f.reshape(-1))
        tau = _NO_TORQUE
    if bad < 0 and links.size:
        zero = (0.0,) * dim
        bad = jointed_motion.motion_frames(x, v, tau, f, zero, links, n, fixed, out)
    elif bad < 0:
        w = np.repeat(layout.inverse_masses, dim)
        flat = x.reshape(-1), v.reshape(-1), (f if f.size else np.zeros_like(x)).reshape(-1)
        bad = motion.motion_frames(*flat, layout.system, w, out, np.empty(layout.units[0]))
    return bad


def inverse_dynamics(
    chain: Chain, x: ArrayLike, v: ArrayLike, qdd: ArrayLike, *, force: ArrayLike | None = None
) -> Array:
    """Torques on the soft coordinates that produce given soft accelerations.

    ẍ = B⁻¹ (q̈ − κ) with q̈_b = 0, then τ = (B⁻ᵀ (M ẍ − f))_a, (..., n_soft); both solves go bead by
    bead, in O(n) a frame.  Arguments as in `forward_dynamics`, but for ``qdd (..., n_soft)``; a
    ValueError for a chain with closures or extra rows, and SingularCoordinateError where B has no
    inverse, as on a straight 3-D chain.
    """
    require_chain(chain)
    layout = chain.layout
    layout.refuse_extra("inverse dynamics")
    n, dim, _, _, soft = layout.sizes
    tail = (n, dim)
    x, v = arrays.real(x, tail, "x"), arrays.real(v, tail, "v")
    qdd = arrays.real(qdd, (soft,), "qdd")
    f = arrays.real(np.zeros(tail) if force is None else force, tail, "force")
    lead = arrays.common_lead(x.shape[:-2], v.shape[:-2], qdd.shape[:-1], f.shape[:-2])
    x, v, f = (arrays.spread(array, lead, tail) for array in (x, v, f))
    frames, table = prod(lead), layout.chart
    each = np.zeros((frames, n * dim))
    each[:, chain.soft] = arrays.spread(qdd, lead, (soft,)).reshape(frames, soft)
    given = x.reshape(-1), v.reshape(-1), each, f.flatten(), chain.masses.copy()
    bad = charts.inverse_frames(*given, dim, layout.fixed, table.tables, layout.outwards)
    if bad >= 0:
        arrays.require_finite(qdd, (soft,), "qdd", "soft coordinate")
        arrays.require_finite(f, tail, "force")
        arrays.require_finite(v, tail, "v")
        layout.refuse(table, x, bad, "torques")
    return each[:, chain.soft].reshape(*lead, soft)


@overload
def project(chain: Chain, x: ArrayLike, targets: ArrayLike) -> Array: ...
@overload
def project(
    chain: Chain, x: ArrayLike, targets: ArrayLike, v: ArrayLike
) -> tuple[Array, Array]: ...
def project(
    chain: Chain, x: ArrayLike, targets: ArrayLike, v: ArrayLike | None = None
) -> Array | tuple[Array, Array]:
    """Nearest configuration, and velocities, with the given values of the hard coordinates.

    Σ m |x − x₀|² is stationary on the constraint surface.  The velocities lose the part that would
    change hard coordinates.  O(n) a frame and iteration.

    Parameters
    ----------
    chain : Chain
    x : (..., n, dim)
    targets : (..., n_hard), or one number for all
        In the order of ``chain.hard``; ``chain.hard_values(x)`` are those of x.  Straight bends
        have target 0; values up to 0.25 rad, and one number for all, mean 0.
    v : (..., n, dim), optional

    Returns
    -------
    x, or (x, v) : ndarray (..., n, dim)

    Raises
    ------
    ConstraintSolveError
        If the targets are too far, or cannot be met, or the chain is so far from the origin that
        rounded positions miss them by more than 1e-6.
    SingularConstraintError
        If the hard coordinates cannot be held here.
    """
    require_chain(chain)
    n, dim, _, hard, _ = chain.layout.sizes
    tail, rows = (n, dim), chain.layout.hard_rows
    straight = rows.trait("straight")
    x0 = arrays.real(x, tail, "x")
    if not arrays.taken(targets, "targets").ndim:
        targets = np.where(straight, 0.0, arrays.number(targets, "targets"))
    goal = arrays.real(targets, (hard,), "targets")
    goal = np.where(straight & (np.abs(goal) <= NEARLY), 0.0, goal)
    speed = x0 if v is None else arrays.real(v, tail, "v")
    lead = arrays.common_lead(x0.shape[:-2], goal.shape[:-1], speed.shape[:-2])
    x0, speed = arrays.spread(x0, lead, tail), arrays.spread(speed, lead, tail)
    goal = arrays.spread(goal, lead, (hard,))
    arrays.require_finite(x0, tail, "x")
    arrays.require_finite(speed, tail, "v")
    arrays.require_finite(goal, (hard,), "targets", "hard coordinate")
    frames = prod(lead)
    each = goal.reshape(frames, hard)
    _require_targets(chain, each, lead)
    near, rate = np.empty_like(x0), np.empty(0 if v is None else x0.shape)
    if frames:
        system, front, goals = projection_tables.nearby(chain, each)
        masses = np.repeat(np.concatenate([np.zeros(front), chain.masses]), dim)
        lengths = each[:, rows.formulas == LENGTH]
        shortest = lengths.min(axis=1) if lengths.size else _shortest_bonds(chain, x0)
        bad = projection.project_frames(
            x0.reshape(-1), speed.reshape(-1), system, masses, goals, shortest,
            near.reshape(-1), rate.reshape(-1),
        )  # fmt: skip
        done = frames if bad < 0 else bad + 1
        _require_digits(near.reshape(frames, -1)[:done], shortest, lead)
        if bad >= 0:
            _refuse_projection(chain, x0, goal, near, bad)
    if v is None:
        return near
    if not np.isfinite(rate).all():
        raise overflow("velocities", 0, ())
    return near, rate


def _require_targets(chain: Chain, goals: Array, lead: Lead) -> None:
    """Refuse distances that are not positive, and straight bends that are not straight."""
    rows = chain.layout.hard_rows
    for frame, row in np.argwhere(rows.trait("positive") & ~(goals > 0))[:1].tolist():
        raise FrameError(
            f"the target of {rows[row]} is {goals[frame, row]}",
            ": lengths must be positive",
            frame=arrays.frame_index(frame, lead),
            coordinates=[rows[row]],
        )
    bends = np.abs(goals[:, rows.trait("straight")]).max(initial=0.0)
    if bends:
        said = f"targets of straight bends are 0, or up to {NEARLY:g} rad"
        raise ValueError(f"{said}, got {bends:.3g}")


def _shortest_bonds(chain: Chain, x: Array) -> Array:
    """Shortest distance between successive beads of a hard row, in each frame."""
    bonds = chain.layout.hard_rows.parts(2)
    bonds = bonds.take(np.flatnonzero((bonds.columns[:, :2] >= 0).all(axis=1)))
    steps, _ = bonds.values(x)
    return np.asarray(np.where(steps > 0.0, steps, np.inf).min(axis=1, initial=np.inf))


def _require_digits(near: Array, shortest: Array, lead: Lead) -> None:
    """Refuse positions whose rounding is too coarse for the targets."""
    far = np.abs(near).max(axis=1, initial=0.0)
    for frame in np.flatnonzero(EPS * far > COARSE * shortest[: far.size])[:1].tolist():
        raise ConstraintSolveError(
            f"positions lie up to {far[frame]:.3g} from the origin",
            ", where numbers are too far apart: move the chain nearer to it",
            frame=arrays.frame_index(frame, lead),
        )


def _refuse_projection(chain: Chain, x0: Array, goal: Array, near: Array, frame: int) -> None:
    last, first = (y.reshape(-1, chain.n, chain.dim)[frame] for y in (near, x0))
    if not np.isfinite(last).all():  # there was no way to go from where it began
        near, last = x0, first
    # An iteration that runs away ends where bonds cannot be measured: nothing singular there.
    if np.abs(last).max() < RUNAWAY * max(np.abs(first).max(), np.abs(goal).max()):
        share, _ = nearest_dependence(chain, last.copy())
        exist = chain.layout.pattern.rows.gradients(last)[1].all()
        if not exist or share < SMALLEST_PIVOT:
            raise_failure(chain, near, frame)
    raise ConstraintSolveError(
        "the hard coordinates do not reach their targets",
        ": start nearer to them, check that all can be met, or project with equal masses first",
        frame=arrays.frame_index(frame, x0.shape[:-2]),
    )
