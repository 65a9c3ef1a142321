"""Closures in one posture: their rows, gaps and Λ⁻¹, for `fixman.rigid.closed`.

Kernels do what costs; here is what they are given, and what is said where they have no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays as _arrays
from fixman._common.arrays import Array
from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels.rigid import closed as kernel
from fixman.kernels.rigid.articulated_tables import DONE
from fixman.rigid import articulated_body, kinematics
from fixman.rigid._closure_tables import room, size, tables, width
from fixman.rigid._linkage import Linkage
from fixman.rigid.joints import passive_forces
from fixman.rigid.kinematics import LOST

AT_REST = np.zeros(3)  # gravity
UNEVEN = 1e8  # masses that may be why a row is `LOST`

# --- arguments --------------------------------------------------------------------------------


def require_linkage(linkage: Linkage) -> None:
    if not isinstance(linkage, Linkage):
        raise TypeError(f"linkage must be a Linkage, got {type(linkage).__name__}")


def arguments(linkage: Linkage, **given: ArrayLike) -> list[Array]:
    """Coordinates, rates and forces with the same batch axes."""
    require_linkage(linkage)
    sizes = {name: (linkage.nq if name == "q" else linkage.nv,) for name in given}
    arrays = {name: _arrays.real(value, sizes[name], name) for name, value in given.items()}
    for name, value in arrays.items():
        _arrays.require_finite(value, sizes[name], name, "coordinate" if name == "q" else "rate")
    lead = _arrays.common_lead(*(value.shape[:-1] for value in arrays.values()))
    return [_arrays.spread(value, lead, sizes[name]) for name, value in arrays.items()]


def chains(linkage: Linkage, q: Array, *rates: Array) -> Iterator[tuple[Any, ...]]:
    """Yield number, chain, coordinates and rates of each chain."""
    parts = [linkage.split(q, "nq"), *(linkage.split(v, "nv") for v in rates)]
    return zip(range(len(linkage.chains)), linkage.chains, *parts, strict=True)


@contextmanager
def in_chain(linkage: Linkage, c: int) -> Iterator[None]:
    """Say which of several chains an error is about."""
    try:
        yield
    except FrameError as error:
        if len(linkage.chains) > 1:
            error.add_note(f"in chain {c} of the linkage")
        raise


def driven(linkage: Linkage, q: Array, qd: Array, tau: Array) -> Array:
    """Add the forces of springs and dampers."""
    parts = []
    for c, arm, x, v, t in chains(linkage, q, qd, tau):
        with in_chain(linkage, c):
            parts.append(t + passive_forces(arm, x, v) if arm._passive else t)
    return np.concatenate(parts, axis=-1)


def loaded(linkage: Linkage, gravity: Array, wrenches: Array) -> Array:
    """Return gravity and ``wrenches (frames, n, 6)`` of each chain, as the kernels want them."""
    parts = []
    for first, last in pairwise(linkage._offsets["n"]):
        own = wrenches[:, first:last].reshape(len(wrenches), -1)
        parts += [np.broadcast_to(gravity, (len(wrenches), 3)), own]
    return np.concatenate(parts, axis=1)


# --- answers of the kernels ---------------------------------------------------------------------


def answers(
    linkage: Linkage,
    task: int,
    state: tuple[Array, Array, Array],
    loads: Array = AT_REST,
    limit: float = np.inf,
) -> tuple[Array, Array]:
    """Run `kernel.states` on q, q̇, τ with the same batch axes: (..., nv) and (..., width).

    ``loads``: gravity (3,), or as `loaded` makes them.  Doubts of the kernel are settled here, and
    not raised again.
    """
    found, large, lead = tables(linkage), size(linkage), state[0].shape[:-1]
    flat = [np.ascontiguousarray(part).reshape(-1, part.shape[-1]) for part in state]
    frames, memory = len(flat[0]), room(found)
    qdd, out = np.empty((frames, linkage.nv)), np.empty((frames, width(linkage, task)))

    def run(first: int, last: int, certain: float, speed: float) -> tuple[int, int]:
        parts = [part[first:last].ravel() for part in flat]
        felt = loads if loads.ndim == 1 else loads[first:last].ravel()
        given = felt, (limit, certain, speed), task, memory
        done = kernel.states(found, large, *parts, *given, qdd[first:last], out[first:last])
        if done == DONE:
            return last, DONE
        frame, reason = divmod(done, kernel.REASONS)
        return first + frame, -reason

    frame, why = run(0, frames, kernel.CERTAIN, 0.0)
    while why != DONE:
        certain, speed = kernel.CERTAIN, -1.0
        while why != DONE:
            if why == kernel.OPENING and speed < 0.0:
                speed = _speed(linkage, flat[0][frame], flat[1][frame])
            elif why == kernel.DEPENDENT and certain > 0.0:
                require_definite(linkage, flat[0][frame], _arrays.frame_index(frame, lead))
                certain = 0.0
            else:
                raise _refusal(linkage, state, loads, why, frame)
            _, why = run(frame, frame + 1, certain, max(speed, 0.0))
        frame, why = run(frame + 1, frames, kernel.CERTAIN, 0.0)
    return qdd.reshape(*lead, linkage.nv), out.reshape(*lead, out.shape[1])


def gaps(linkage: Linkage, q: Array, qd: Array | None = None) -> Array:
    """Gaps (..., held), or their rates."""
    rest = np.zeros((*q.shape[:-1], linkage.nv))
    out = answers(linkage, kernel.GAPS, (q, rest if qd is None else qd, rest))[1]
    if not np.isfinite(out).all():
        bad = int(np.argmin(np.isfinite(out).all(-1)))
        raise _arrays.overflow("gaps", bad, out.shape[:-1])
    return out[..., : linkage.held] if qd is None else out[..., linkage.held :]


def logdets(linkage: Linkage, q: Array, task: int = kernel.DETERMINANT) -> Array:
    """ln det Λ⁻¹ and ln det ℳ (..., 2), or as ``task`` says ln det A Aᵀ and 0."""
    rest = np.zeros((*q.shape[:-1], linkage.nv))
    return answers(linkage, task, (q, rest, rest))[1]


def correction(linkage: Linkage, q: Array, qd: Array, task: int) -> Array:
    """Rates −ℳ⁻¹ Aᵀ Λ gap, of the least kinetic energy that moves closures by −gap, or its rate."""
    return answers(linkage, task, (q, qd, np.zeros_like(qd)))[0]


# --- what a kernel doubts -----------------------------------------------------------------------


def _speed(linkage: Linkage, q: Array, qd: Array) -> float:
    """Speed of the fastest body, in radians and sizes of the linkage a unit of time."""
    found = 0.0
    for _, arm, x, v in chains(linkage, q, qd):
        twists = np.abs(kinematics.frames(arm, x, v)[2]).max(axis=0)
        found = max(found, twists[:3].max() / linkage._sizes(q), twists[3:].max())
    return float(found)


def require_definite(linkage: Linkage, q: Array, frame: Any, least: float = LOST) -> None:
    """Refuse a Λ⁻¹ of which less than ``least`` is left in some direction, of one posture.

    By default, one that cannot be told from a singular one.

    Rows are scaled by what the bodies would do if nothing else held them: the trace of Ω, its
    moments taken into forces by the size of the bodies.
    """
    rest, held = np.zeros(linkage.nv), linkage.held
    inverse = answers(linkage, kernel.COMPLIANCE, (q, rest, rest))[1]
    if not np.isfinite(inverse).all():
        raise _arrays.overflow("compliance of the closures", 0, ())
    free = np.zeros((len(linkage._ends), 2))
    for c, arm, x in chains(linkage, q):
        ends = [linkage._ends[k] for k in linkage._on[c]]
        if ends:
            bodies, points = [end.body for end in ends], [end.point for end in ends]
            with in_chain(linkage, c):
                Ω = kinematics.operational_space_compliance(arm, x, bodies, points)
            free[linkage._on[c]] = np.diagonal(Ω).reshape(-1, 2, 3).sum(-1)
    both, length = free[::2] + free[1::2], linkage._lengths**2
    linear = np.maximum(both[:, 0], both[:, 1] * length)
    scale = np.where(linkage._angular, (linear / length)[linkage._of], linear[linkage._of])
    scale = np.sqrt(np.where(scale > 0, scale, 1.0))
    values, vectors = np.linalg.eigh(inverse.reshape(held, held) / np.outer(scale, scale))
    if values[0] < least:
        raise _dependent(linkage, vectors[:, 0], frame)


# --- refusals -----------------------------------------------------------------------------------


def _refusal(
    linkage: Linkage,
    state: tuple[Array, Array, Array],
    loads: Array,
    why: int,
    frame: int,
) -> ValueError:
    """Return the error for a frame without an answer."""
    q, qd, tau = state
    lead = q.shape[:-1]
    if why in (kernel.OPEN, kernel.OPENING):
        what, rates = ("position", None) if why == kernel.OPEN else ("rate", qd)
        off = gaps(linkage, q, rates).reshape(-1, linkage.held)[frame]
        return FrameError(
            f"the {what}s do not close: {named(linkage, q.reshape(-1, linkage.nq)[frame], off)}",
            ": `project` gives positions and rates that close",
            frame=_arrays.frame_index(frame, lead),
        )
    for c, arm, x, v, t in chains(linkage, q, qd, tau):
        first = 3 * c + 6 * linkage._offsets["n"][c]
        W = None
        if loads.ndim > 1:
            W = loads[:, first + 3 :][:, : 6 * arm.n].reshape(*lead, arm.n, 6)
        with in_chain(linkage, c):
            articulated_body.forward_dynamics(arm, x, v, t, gravity=loads.flat[:3], wrenches=W)
    return _arrays.overflow("accelerations or forces of the closures", frame, lead)


def _dependent(linkage: Linkage, weak: Array, frame: Any) -> SingularConstraintError:
    """Return the error for a combination of rows that the chains cannot follow."""
    rows = np.flatnonzero(np.abs(weak) >= 0.1 * np.abs(weak).max())
    rows = rows[np.argsort(-np.abs(weak[rows]), kind="stable")]
    together = " together" if rows.size > 1 else ""
    return SingularConstraintError(
        f"the closures cannot hold {_arrays.listed([_row(linkage, int(r)) for r in rows], 4)}"
        + together,
        f": {_uneven(linkage, rows)}the bodies do not move there, or what holds them already is "
        'another closure.  Leave a direction out of the kind: in the plane a pin is ("x", "y"), a '
        'weld ("x", "y", "rz"); or if other postures have an answer, this one is singular'
        + ("; or too many joints are fixed" if linkage._fixed else ""),
        frame=frame,
    )


def _uneven(linkage: Linkage, rows: Any) -> str:
    """Say so where masses may be why: how heavy bodies move is lost beside how light ones do."""
    ends = [linkage._ends[2 * k + end] for k in linkage._of[rows] for end in (0, 1)]
    joined = {end.chain for end in ends if end.body is not None}
    masses = np.concatenate([linkage.chains[c].masses for c in joined])
    masses = masses[masses > 0]
    ratio = masses.max() / masses.min() if masses.size else 1.0
    if ratio < UNEVEN:
        return ""
    return f"rounding hides how they move, for masses there differ by a factor of {ratio:.0e}; or "


def named(linkage: Linkage, q: Array, gap: Array) -> str:
    row = int(np.argmax(np.abs(linkage._in_sizes(q, gap))))
    return f"{_row(linkage, row)} is off by {gap[row]:.3g}"


def _row(linkage: Linkage, row: int) -> str:
    closure, name = linkage._rows[row]
    return f"{name} of closure {closure}"
