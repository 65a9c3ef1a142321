"""Featherstone's articulated-body algorithm: q̈ of a serial chain in O(n).

The articulated inertia M̂_i of body i is what a force on it feels when all joints further out are
free to move.  From tip to base, with p_i the directions in which joint i moves,

    D_i = p_iᵀ M̂_i p_i + J_i,   M̂_{i−1} = M_{i−1} + Xᵀ (M̂_i − M̂_i p_i D_i⁻¹ p_iᵀ M̂_i) X

and from base to tip a′_i = X a_{i−1} + c_i, q̈_i = D_i⁻¹ (u_i − p_iᵀ M̂_i a′_i), where X carries
twists from body i − 1 to body i, c_i is the joint's velocity term and u_i = τ_i − p_iᵀ p^A_i what
the bias forces leave of the torque (Featherstone, Rigid Body Dynamics Algorithms, 2008, section
7.3; D_i is m̂_i of saha_1996, D(k) of rodriguez_kreutz_1988).  The kernel has I^A for M̂_i, s or S
for p_i, U for M̂_i p_i.  With the armature J_i, not in the book, joint i does not free M̂_i wholly:
J_i D_i⁻¹ p_iᵀ M̂_i remains along p_i.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy import empty, ndarray
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.rigid import articulated_body as table
from fixman.kernels.rigid import articulated_states as kernel
from fixman.kernels.rigid.articulated_body import DONE
from fixman.kernels.rigid.joints import RATES, passive_frames
from fixman.kernels.rigid.links import ARMATURE, PITCH
from fixman.rigid import model
from fixman.rigid.joints import driven
from fixman.rigid.model import SMALL, Given, SerialChain, workspace

__all__ = ["forward_dynamics", "pivots"]
__dir__ = __all__.copy  # completion shows public names alone

_FLOAT64 = np.dtype(np.float64)
DEAR = 15 * 2**20  # bytes of memory for eight states that take the time of one state alone


def forward_dynamics(
    arm: SerialChain,
    q: ArrayLike,
    qd: ArrayLike,
    tau: ArrayLike,
    *,
    gravity: ArrayLike = (0.0, 0.0, 0.0),
    wrenches: ArrayLike | None = None,
    workers: int = 1,
) -> Array:
    """Accelerations (..., nv) of the joints by Featherstone's articulated-body algorithm.

    Parameters
    ----------
    q : (..., nq)
        Coordinates.
    qd, tau : (..., nv)
        Rates, and generalized forces conjugate to them.
    gravity : (3,)
        Acceleration of free fall in the axes of the base; none unless given.
    wrenches : (..., n, 6), optional
        External force, then moment about the origin of the body's frame, on each body in the axes
        of that frame.
    workers : int
        Threads over a batch of states.  The results are the same for any number.

    Raises
    ------
    SingularConstraintError
        If a joint can move without moving any mass; the error names the body.
    ValueError
        If a number is not finite, a quaternion not a unit one or a shape wrong.

    Notes
    -----
    O(n) in time and memory.  Batches are computed eight states at a time: the last digit may differ
    from that of the state computed alone, but does not depend on its place in the batch.  A thread
    keeps up to 64 MB of work memory.  Heavy bodies on light ones cost digits: errors reach 1e-9 of
    max |q̈| if random masses range over six powers of ten, and 1e-6 over ten; and if joints have
    several rates, 1e-2 over fourteen, where `composite_body` corrects its answer.
    """
    if wrenches is None and workers == 1:
        found = _at_once(arm, q, qd, tau, gravity)
        if found is not None:
            return found
    workers = arrays.positive_int(workers, "workers")
    given = driven(arm, q, qd, tau, gravity, wrenches)
    qdd = np.empty(given.last.shape)
    frame, code = _states(_plan(arm), given, qdd, workers)
    if code != DONE:
        given.require_finite()
        raise model.failure(arm, "accelerations", frame, code, given.lead)
    return given.batch(qdd)


def pivots(arm: SerialChain, q: ArrayLike) -> tuple[Array, ...]:
    """Blocks D_i = p_iᵀ M̂_i p_i + J_i (..., f, f) of every joint, of ``q (..., nq)``.

    D_i is the inertia that the f rates of a joint move; Π det D_i is the determinant of the
    generalized inertia matrix.  O(n).  Errors as in `forward_dynamics`.
    """
    given = model.posture(arm, q)
    plan = _plan(arm)
    given.require_finite()
    q, lead = given.q, given.lead
    sizes = RATES[arm.kinds]
    starts = np.concatenate([[0], np.cumsum(sizes**2)])
    out = np.empty((*lead, int(starts[-1])))
    frame, code = kernel.pivots(plan.table, q.reshape(-1), starts, out.reshape(-1))
    if code != DONE:
        raise model.failure(arm, "accelerations", frame, code, lead)
    blocks = zip(np.split(out, starts[1:-1], axis=-1), sizes, strict=True)
    return tuple(block.reshape(*lead, f, f) for block, f in blocks)


# --- states in a batch --------------------------------------------------------------------------


def _at_once(arm: Any, q: Any, qd: Any, tau: Any, gravity: Any) -> Array | None:
    """Answer at once for plain arrays, since the gate costs as much as twenty links; else None."""
    try:
        plain = type(q) is type(qd) is type(tau) is ndarray
        if not (plain and q.dtype is qd.dtype is tau.dtype is _FLOAT64):
            return None
        if not (q.flags.carray and qd.flags.carray and tau.flags.carray):
            return None
        plan, loads = arm._tables["_plan"], model.falling(gravity)
        if arm._passive:
            if not (qd.shape == tau.shape == (*q.shape[:-1], plan.nv) and q.shape[-1] == plan.nq):
                return None
            rows, tau = q.reshape(-1, plan.nq), tau.copy()
            rates, forces = qd.reshape(-1, plan.nv), tau.reshape(-1, plan.nv)
            if passive_frames(arm._kinds, arm._springs, rows, rates, forces) >= 0:
                return None
        flat = q.ndim == 1
        if flat or (q.ndim == 2 and len(q) == len(qd) == len(tau) == 1):
            # The kernel refuses wrong sizes of one state, and more axes with a TypeError.
            one = (q, qd, tau) if flat else (q[0], qd[0], tau[0])
            qdd, room = empty(plan.shape), workspace(plan.units) if plan.roomy else None
            if plan.state(plan.table, *one, loads, qdd, room) == DONE:
                return qdd if flat else qdd[None]
        elif qd.shape == tau.shape == (*q.shape[:-1], plan.nv) and q.shape[-1] == plan.nq:
            qdd, frames = empty(qd.shape), qd.size // plan.nv
            given = q.ravel(), qd.ravel(), tau.ravel(), loads, 0, frames, qdd.ravel()
            done = frames > plan.few and plan.states(plan.table, *given, workspace(plan.units8))
            return qdd if done and done[1] == DONE else None
    except (AttributeError, IndexError, KeyError, TypeError):
        pass
    return None


def _states(plan: _Plan, given: Given, qdd: Array, workers: int) -> tuple[int, int]:
    """Run the kernel over all states; the first that fails, and why."""
    frames, out = len(qdd), qdd.ravel()
    if frames <= plan.few:
        return _one_by_one(plan, given, range(frames), qdd)
    plan.states = kernel.only_states()
    flat = given.q.ravel(), given.qd.ravel(), given.last.ravel(), np.append(given.g, given.W)

    def run(first: int, last: int) -> tuple[int, int]:
        room = workspace(plan.units8)
        return plan.states(plan.table, *flat, first, last, out, room)  # type: ignore[no-any-return]

    # Pieces of whole registers; the last one reaches back over states done already.
    registers = -(-frames // LANES)
    pieces = min(workers, registers)
    edges = [min(frames, LANES * (registers * k // pieces)) for k in range(pieces + 1)]
    if pieces == 1:
        results = [run(0, frames)]
    else:
        with ThreadPoolExecutor(pieces) as pool:
            results = list(pool.map(run, edges[:-1], edges[1:]))
    for frame, code in results:
        if code != DONE:
            eight = range(frame, min(frame + LANES, frames))
            found, why = _one_by_one(plan, given, eight, np.empty_like(qdd))
            return (frame, code) if why == DONE else (found, why)
    return 0, DONE


def _one_by_one(plan: _Plan, given: Given, frames: range, qdd: Array) -> tuple[int, int]:
    plan.state = kernel.only_state(plan.roomy)
    room = workspace(plan.units) if plan.roomy else None
    for k in frames:
        state = given.q[k], given.qd[k], given.last[k]
        W = given.W[k * plan.n : (k + 1) * plan.n]
        loads = np.append(given.g, W) if W.size else given.g
        code = plan.state(plan.table, *state, loads, qdd[k], room)
        if code != DONE:
            return k, int(code)
    return 0, DONE


# --- the chain in modified Denavit–Hartenberg frames ---------------------------------------------


class _Plan:
    """Tables of a chain for the kernels, and compiled kernels."""

    state: Any = None
    states: Any = None

    def __init__(self, arm: SerialChain) -> None:
        n = arm.n
        f = RATES[arm.kinds]
        rows = np.where(f == 1, table.ROW, table.SEVERAL + table.RATE * f)
        starts = 2 * table.padded(n) + np.concatenate([[0], np.cumsum(rows)])
        kinds = np.append(arm.kinds, n)
        places = np.column_stack([kinds, arm.position_offsets, arm.rate_offsets, starts])
        links, frames = _denavit_hartenberg(arm)
        finite = np.isfinite(links).all(axis=1) & np.isfinite(frames).all(axis=1)
        if not finite.all():
            raise arrays.overflow(f"constants of body {np.argmin(finite)}", 0, ())
        parts = (links, frames, places.view(np.float64))
        self.table = np.concatenate([part.reshape(-1) for part in parts])
        self.n, self.nq, self.nv, self.shape = n, arm.nq, arm.nv, (arm.nv,)
        self.units = int(starts[-1])
        self.units8 = LANES * (self.units + 1)  # aligned
        self.roomy = 8 * self.units >= SMALL
        self.few = min(LANES - 1, 1 + round(8 * self.units8 / DEAR))  # computed one by one


@model.kept
@np.errstate(over="ignore", invalid="ignore")
def _plan(arm: SerialChain) -> _Plan:
    return _Plan(arm)


def _denavit_hartenberg(arm: SerialChain) -> tuple[Array, Array]:
    """Constants of each body in the kernels' frames, and where those lie in the user's."""
    n, m = arm.n, arm.masses
    own, lift, ends, links = _screws(arm)
    into = own.swapaxes(1, 2)
    shift = np.zeros((n, 3))  # the user's origin in the kernels' frame
    shift[:, 2] = -lift
    c = np.einsum("nij,nj->ni", into, arm.centres) + shift
    inertia = into @ arm.inertias @ own
    inertia += (m * _dot(c, c))[:, None, None] * np.eye(3)
    inertia -= m[:, None, None] * c[:, :, None] * c[:, None, :]
    links[:, table.MASS] = m
    links[:, table.MOMENT : table.MOMENT + 3] = m[:, None] * c
    upper = inertia[:, [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]]
    links[:, table.INERTIA : table.ARMATURE] = upper
    links[:, table.ARMATURE] = arm._table[:, ARMATURE:PITCH].max(axis=1)
    links[:, table.PITCH] = arm.pitch
    several = RATES[arm.kinds] > 1
    joint, place = arm.rotations.copy(), arm.translations.copy()  # joint 0 is in the base
    joint[1:] = np.where(several[1:, None, None], into[:-1] @ joint[1:], ends[1:])
    turned = np.einsum("nij,nj->ni", into[:-1], place[1:])
    place[1:] = np.where(several[1:, None], turned + shift[:-1], 0.0)
    parts = into, shift, joint, place, arm._table[:, ARMATURE:PITCH]
    return links, np.concatenate([part.reshape(n, -1) for part in parts], axis=1)


def _screws(arm: SerialChain) -> tuple[Array, Array, Array, Array]:
    """Choose the frames: axes in the user's, height over the user's, ends of screws, and screws.

    A body's frame keeps the z axis of its joint; its x axis becomes the common normal to the next
    joint's axis and its origin the foot of that.  Where the foot would be far away (twice the
    joints' distance), a displacement b along y remains instead.  A body on a joint of several rates
    keeps its frame: the screw that leads to it ends level with its origin, at axes of which z is
    that of the next joint.
    """
    n, R = arm.n, arm.rotations
    own = np.broadcast_to(np.eye(3), (n, 3, 3)).copy()
    ends = own.copy()  # axes in the frame of the body before
    lift, end = np.zeros(n), np.zeros(n)  # the screw about x ends at this height over the joint
    links = np.zeros((n, table.LINK))
    links[:, table.COS_Z] = links[:, table.COS_X] = 1.0
    single = RATES[arm.kinds] == 1
    after = 1 + np.flatnonzero(single[1:])
    before = after - 1
    axis, r = R[after, :, 2], arm.translations[after]
    hinged = single[before]
    z = np.where(hinged[:, None], [0.0, 0.0, 1.0], axis)
    x = _normals(z, axis, r)
    y = np.cross(z, x)
    ends[after] = np.stack([x, y, z], axis=2)
    own[before[hinged]] = ends[after[hinged]]
    sine, cosine = np.where(hinged, -_dot(axis, y), 0.0), _dot(axis, z)
    norm = np.hypot(sine, cosine)
    sine, cosine = sine / norm, cosine / norm
    distance, b = _norm(r), _dot(r, y)
    b[np.abs(b) <= 4.0 * np.finfo(float).eps * distance] = 0.0
    near = np.abs(b) <= 2.0 * distance * np.abs(sine)
    foot = np.divide(b, sine, out=np.zeros_like(b), where=near & (sine != 0))
    lift[before] = np.where(hinged, _dot(r, z) + foot * cosine, 0.0)
    end[after] = np.where(hinged, foot, -_dot(r, axis))
    links[after, table.COS_X], links[after, table.SIN_X] = cosine, sine
    links[after, table.ALONG_X] = _dot(r, x)
    links[after, table.ALONG_Y] = np.where(near, 0.0, b)
    links[:, table.SLIDE] = lift - end
    # The rest of the way at q = 0 is a turn about z.
    zero = np.zeros_like(sine)
    screw = np.array([[zero + 1, zero, zero], [zero, cosine, -sine], [zero, sine, cosine]])
    left = own.copy()
    way = ends[after] @ screw.transpose(2, 0, 1)
    left[after] = way.swapaxes(1, 2) @ R[after] @ own[after]
    sine, cosine = left[:, 1, 0], left[:, 0, 0]
    norm = np.where(single, np.hypot(sine, cosine), 1.0)
    links[:, table.COS_Z] = np.where(single, cosine / norm, 1.0)
    links[:, table.SIN_Z] = np.where(single, sine / norm, 0.0)
    return own, lift, ends, links


def _normals(z: Array, axis: Array, r: Array) -> Array:
    """Return unit vectors normal to z and to the next axis, along r where these are parallel."""
    x = np.cross(z, axis)
    parallel = (x == 0).all(axis=1)
    across = r - _dot(r, z)[:, None] * z
    x = np.where(parallel[:, None], across, x)
    short = parallel & (_norm(x) <= 1e-12 * _norm(r))  # r is along z
    x = np.where(short[:, None], np.eye(3)[np.argmin(np.abs(z), axis=1)], x)
    for _ in range(2):
        x = x / np.abs(x).max(axis=1, keepdims=True)  # squares of elements may underflow
        x = x - _dot(x, z)[:, None] * z
        x = x / _norm(x)[:, None]
    return x


def _norm(x: Array) -> Array:
    return np.asarray(np.hypot.reduce(x, axis=1))


def _dot(x: Array, y: Array) -> Array:
    return np.asarray(np.einsum("ni,ni->n", x, y))
