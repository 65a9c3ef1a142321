"""Closures in one posture: their rows, gaps and Λ⁻¹, for `fixman.rigid.closed`.

Kernels do what costs; here is what they are given, and what is said where they have no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fixman import _arrays
from fixman._arrays import Array
from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels import rigid_closed as kernel
from fixman.kernels.articulated_body import DONE
from fixman.rigid import articulated_body, kinematics
from fixman.rigid._closure_tables import tables
from fixman.rigid._linkage import Linkage
from fixman.rigid.kinematics import LOST

# --- arguments --------------------------------------------------------------------------------


def arguments(linkage: Linkage, **given: ArrayLike) -> list[Array]:
    """Coordinates, rates and forces with the same batch axes."""
    if not isinstance(linkage, Linkage):
        raise TypeError(f"linkage must be a Linkage, got {type(linkage).__name__}")
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


# --- answers of the kernels ---------------------------------------------------------------------


def respond(
    linkage: Linkage, state: tuple[Array, Array, Array], loads: Array, limit: float, task: int
) -> tuple[Array, Array]:
    """Accelerations and wrenches of states q, q̇, τ with the same batch axes; see `kernel.states`.

    What the kernel doubts is looked at here, and then not again.
    """
    found, lead = tables(linkage), state[0].shape[:-1]
    found.states = kernel.only_states()
    flat = [np.ascontiguousarray(part).reshape(-1, part.shape[-1]) for part in state]
    frames = len(flat[0])
    qdd, w = np.empty((frames, linkage.nv)), np.empty((frames, found.wrenches))

    def run(first: int, last: int, certain: float, speed: float) -> tuple[int, int]:
        parts = [part[first:last].ravel() for part in flat]
        felt = loads if loads.ndim == 1 else loads[first:last].ravel()
        to = qdd[first:last].ravel(), w[first:last].ravel()
        limits = limit, certain, speed
        answer = found.states(found.table, found.plan, *parts, felt, limits, task, *to)
        return first + int(answer[0]), int(answer[1])

    frame, why = run(0, frames, kernel.CERTAIN, 0.0)
    while why != DONE:
        certain, speed = kernel.CERTAIN, -1.0
        q, qd = (part[frame].reshape(part.shape[-1:]) for part in flat[:2])
        where = _arrays.frame_index(frame, lead)
        while why != DONE:
            if why == kernel.OPENING and speed < 0.0:
                speed = _speed(linkage, q, qd)
            elif why == kernel.DEPENDENT and certain > 0.0:
                require_definite(linkage, q, where)
                certain = 0.0
            else:
                raise _refusal(linkage, state, loads, why, frame)
            _, why = run(frame, frame + 1, certain, max(speed, 0.0))
        frame, why = run(frame + 1, frames, kernel.CERTAIN, 0.0)
    return qdd.reshape(*lead, linkage.nv), w.reshape(*lead, len(linkage.closures), 6)


def gaps(linkage: Linkage, q: Array, qd: Array) -> tuple[Array, Array]:
    """Gaps and their rates, (..., held) each."""
    found, lead = tables(linkage), q.shape[:-1]
    out = np.empty((*lead, 2, linkage.held))
    bad = kernel.gaps(
        found.table, found.plan, *(np.ascontiguousarray(x).ravel() for x in (q, qd)), out.ravel()
    )
    if bad != DONE:
        for c, arm, x, v in chains(linkage, q, qd):
            with in_chain(linkage, c):
                kinematics.frames(arm, x, v)
        raise _arrays.overflow("gaps", int(bad), lead)
    return out[..., 0, :], out[..., 1, :]


def determinants(linkage: Linkage, q: Array) -> Array:
    """ln det Λ⁻¹, ln det ℳ of the open chains, ln det A Aᵀ: (..., 3)."""
    found, lead = tables(linkage), q.shape[:-1]
    flat = np.ascontiguousarray(q).reshape(-1, linkage.nq)
    out, none = np.empty((len(flat), 3)), np.empty(0)
    first, certain = 0, kernel.CERTAIN
    while first < len(flat):
        last = len(flat) if certain else first + 1
        part = flat[first:last].ravel(), certain, out[first:last].ravel(), none
        frame, why = kernel.determinants(found.table, found.plan, *part)
        if why == DONE:
            first, certain = last, kernel.CERTAIN
            continue
        first += int(frame)
        if why != kernel.DEPENDENT or not certain:
            rest = np.zeros((*lead, linkage.nv))
            raise _refusal(linkage, (q, rest, rest), np.zeros(3), int(why), first)
        require_definite(linkage, flat[first], _arrays.frame_index(first, lead))
        certain = 0.0
    return out.reshape(*lead, 3)


def correction(linkage: Linkage, q: Array, qd: Array, task: int) -> Array:
    """Rates −ℳ⁻¹ Aᵀ Λ gap, of the least kinetic energy that moves closures by −gap, or its rate."""
    return respond(linkage, (q, qd, np.zeros_like(qd)), np.zeros(3), np.inf, task)[0]


# --- what a kernel doubts -----------------------------------------------------------------------


def _speed(linkage: Linkage, q: Array, qd: Array) -> float:
    """Of the fastest body, in radians and reaches of the linkage a unit of time."""
    found = 0.0
    for _, arm, x, v in chains(linkage, q, qd):
        twists = np.abs(kinematics.frames(arm, x, v)[2]).max(axis=0)
        found = max(found, twists[:3].max() / linkage._reach, twists[3:].max())
    return float(found)


def require_definite(linkage: Linkage, q: Array, frame: Any) -> None:
    """Refuse a Λ⁻¹ that cannot be told from a singular one, of one posture.

    Rows are scaled by what the bodies would do if nothing else held them: the trace of Ω, its
    moments taken into forces by the size of the bodies.
    """
    found, held = tables(linkage), linkage.held
    inverse, room = np.empty(held * held), np.empty(3)
    kernel.determinants(found.table, found.plan, q, np.inf, room, inverse)
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
    if values[0] < LOST:
        raise _dependent(linkage, vectors[:, 0], frame)


# --- refusals -----------------------------------------------------------------------------------


def _refusal(
    linkage: Linkage, state: tuple[Array, Array, Array], loads: Array, why: int, frame: int
) -> ValueError:
    """Return the error for a frame without an answer."""
    q, qd, tau = state
    lead = q.shape[:-1]
    if why in (kernel.OPEN, kernel.OPENING):
        what, which = ("position", 0) if why == kernel.OPEN else ("rate", 1)
        return FrameError(
            f"the {what}s do not close: "
            + named(linkage, gaps(linkage, q, qd)[which].reshape(-1, linkage.held)[frame]),
            ": `project` gives positions and rates that close",
            frame=_arrays.frame_index(frame, lead),
        )
    for c, arm, x, v, t in chains(linkage, q, qd, tau):
        i, j = (3 * (c + k) + 6 * linkage._offsets["n"][c + k] for k in (0, 1))
        felt = loads[..., i:j].reshape(*lead, -1) if loads.ndim > 1 else loads
        W = felt[..., 3:].reshape(*lead, arm.n, 6) if loads.ndim > 1 else None
        g = felt.reshape(-1)[:3]
        with in_chain(linkage, c):
            articulated_body.forward_dynamics(arm, x, v, t, gravity=g, wrenches=W)
    return _arrays.overflow("accelerations or forces of the closures", frame, lead)


def _dependent(linkage: Linkage, weak: Array, frame: Any) -> SingularConstraintError:
    """Return the error for a combination of rows that the chains cannot follow."""
    rows = np.flatnonzero(np.abs(weak) >= 0.1 * np.abs(weak).max())
    rows = rows[np.argsort(-np.abs(weak[rows]), kind="stable")]
    together = " together" if rows.size > 1 else ""
    return SingularConstraintError(
        f"the closures cannot hold {_arrays.listed([_row(linkage, int(r)) for r in rows], 4)}"
        + together,
        ": the bodies do not move there, or what holds them already is another closure.  Leave a "
        'direction out of the kind, as ("x", "y") of a pin in the plane; or if other postures have '
        "an answer, this one is singular",
        frame=frame,
    )


def named(linkage: Linkage, gap: Array) -> str:
    row = int(np.argmax(np.abs(gap / linkage._units)))
    return f"{_row(linkage, row)} is off by {gap[row]:.3g}"


def _row(linkage: Linkage, row: int) -> str:
    closure, name = linkage._rows[row]
    return f"{name} of closure {closure}"
