"""Closures in one posture: arguments, answers and errors of their kernels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any

import numpy as np

from fixman._common import arrays as _arrays
from fixman._common.arrays import Array
from fixman.errors import FrameError, SingularConstraintError
from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.rigid import closed as kernel
from fixman.kernels.rigid import ends
from fixman.kernels.rigid.articulated_body import DONE, FRAME, LINK, SHIFT, TURN
from fixman.rigid import articulated_body, model
from fixman.rigid._linkage import Closure, Linkage
from fixman.rigid.joints import passive_forces
from fixman.rigid.kinematics import LOST
from fixman.rigid.model import AT_REST, workspace


def arguments(linkage: Linkage, *given: Any) -> tuple[Array, ...]:
    """Check arguments as `model.coerced` takes them: q, q̇, τ along the batch axes, and loads.

    Loads are as `answers` takes them.
    """
    if not isinstance(linkage, Linkage):
        raise TypeError(f"linkage must be a Linkage, got {type(linkage).__name__}")
    found = model.coerced(linkage, *given)
    found.require_numbers()
    state = (found.batch(part) for part in (found.q, found.qd, found.last))
    if not found.W.size:
        return *state, found.g
    W, g = found.W.reshape(-1, 6 * linkage.n), np.tile(found.g, len(linkage.chains))
    starts = [6 * part.start for part in linkage._parts["n"]]
    return *state, np.insert(W, np.repeat(starts, 3), g, axis=1)


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


def each(linkage: Linkage, answer: Callable[..., Array], q: Array, *rates: Array) -> list[Array]:
    found = []
    for c, *given in chains(linkage, q, *rates):
        with in_chain(linkage, c):
            found.append(answer(*given))
    return found


def driven(linkage: Linkage, q: Array, qd: Array, tau: Array) -> Array:
    if not linkage._passive:
        return tau
    return tau + np.concatenate(each(linkage, passive_forces, q, qd), axis=-1)


# --- answers of the kernels ---------------------------------------------------------------------


def answers(
    linkage: Linkage,
    task: int,
    state: tuple[Array, ...],
    loads: Array = AT_REST,
    limit: float = inf,
) -> tuple[Array, Array]:
    """Run `kernel.states` on q, q̇, τ with the same batch axes: (..., nv) and (..., numbers).

    ``state`` without q̇ or τ is at rest or without forces.  ``loads``: gravity (3,), or (frames, …)
    for each chain gravity and wrenches.
    """
    held, nv, count = linkage.held, linkage.nv, len(linkage.closures)
    sizes = {kernel.GAPS: 2 * held, kernel.COMPLIANCE: held * (held + 1), kernel.PULLS: held * nv}
    size = 2 if task >= kernel.DETERMINANT else sizes.get(task, 6 * count)
    found, lead = tables(linkage), state[0].shape[:-1]
    state += (np.zeros((*lead, nv)),) * (3 - len(state))
    flat = [np.ascontiguousarray(part).reshape(-1, part.shape[-1]) for part in state]
    frames, memory = len(flat[0]), workspace(int(found.starts[-1]))
    qdd, out = np.empty((frames, nv)), np.empty((frames, size))

    def run(first: int, last: int, certain: float) -> tuple[int, int]:
        parts = [part[first:last].ravel() for part in flat]
        felt = loads if loads.ndim == 1 else loads[first:last].ravel()
        given = felt, (1.0 / linkage._size, limit, certain), task, memory
        done = kernel.states(found, *parts, *given, qdd[first:last], out[first:last])
        if done == DONE:
            return last, DONE
        frame, reason = divmod(done, kernel.REASONS)
        return first + frame, -reason

    frame, why = run(0, frames, kernel.CERTAIN)
    while why != DONE:
        if why == kernel.DEPENDENT:  # to the kernel's own, cheaper test
            require_definite(linkage, flat[0][frame], _arrays.frame_index(frame, lead))
            _, why = run(frame, frame + 1, 0.0)
        if why != DONE:
            raise _refusal(linkage, state, loads, why, frame)
        frame, why = run(frame + 1, frames, kernel.CERTAIN)
    if not np.isfinite(out).all():
        bad = int(np.argmin(np.isfinite(out).all(axis=1)))
        raise _arrays.overflow("gaps or forces of the closures", bad, lead)
    return qdd.reshape(*lead, nv), out.reshape(*lead, size)


def gaps(linkage: Linkage, q: Array, qd: Array | None = None) -> Array:
    """Gaps (..., held), or their rates."""
    out = answers(linkage, kernel.GAPS, (q,) if qd is None else (q, qd))[1]
    return out[..., : linkage.held] if qd is None else out[..., linkage.held :]


def logdets(linkage: Linkage, q: Array, task: int = kernel.DETERMINANT) -> Array:
    """ln det Λ⁻¹ and ln det ℳ (..., 2), or as ``task`` says ln det A Aᵀ and 0."""
    return answers(linkage, task, (q,))[1]


def compliance(linkage: Linkage, q: Array) -> tuple[Array, Array]:
    """Λ⁻¹ (..., held, held), and scales of its rows by how freely ends move (..., held)."""
    held, out = linkage.held, answers(linkage, kernel.COMPLIANCE, (q,))[1]
    return out[..., :-held].reshape(*q.shape[:-1], held, held), out[..., -held:]


def require_definite(linkage: Linkage, q: Array, frame: Any, least: float = LOST) -> None:
    """Refuse a Λ⁻¹ of one posture with an eigenvalue below ``least``."""
    inverse, scale = compliance(linkage, q)
    values, vectors = np.linalg.eigh(inverse * np.outer(scale, scale))
    if values[0] < least:
        raise _dependent(linkage, vectors[:, 0], frame)


def _refusal(
    linkage: Linkage, state: tuple[Array, ...], loads: Array, why: int, frame: int
) -> ValueError:
    q, qd, tau = state
    lead = q.shape[:-1]
    if why in (kernel.OPEN, kernel.OPENING):
        what, rates = ("position", None) if why == kernel.OPEN else ("rate", qd)
        off = gaps(linkage, q, rates).reshape(-1, linkage.held)[frame]
        return FrameError(
            f"the {what}s do not close: {named(linkage, off)}",
            ": `project` gives positions and rates that close",
            frame=_arrays.frame_index(frame, lead),
        )
    for c, arm, x, v, t in chains(linkage, q, qd, tau):
        W = None
        if loads.ndim > 1:
            first = 3 * (c + 1) + 6 * linkage._parts["n"][c].start
            W = loads[:, first : first + 6 * arm.n].reshape(*lead, arm.n, 6)
        with in_chain(linkage, c):
            articulated_body.forward_dynamics(arm, x, v, t, gravity=loads.flat[:3], wrenches=W)
    return _arrays.overflow("accelerations or forces of the closures", frame, lead)


def _dependent(linkage: Linkage, weak: Array, frame: Any) -> SingularConstraintError:
    rows = np.flatnonzero(np.abs(weak) >= 0.1 * np.abs(weak).max())
    rows = rows[np.argsort(-np.abs(weak[rows]), kind="stable")]
    together = " together" if rows.size > 1 else ""
    return SingularConstraintError(
        f"the closures cannot hold {_arrays.listed([_row(linkage, int(r)) for r in rows], 4)}"
        + together,
        ": the bodies cannot move there, or are held already.  Leave a direction out of the kind: "
        'in the plane a pin is ("x", "y"), a weld ("x", "y", "rz").  Or this posture is singular',
        frame=frame,
    )


def named(linkage: Linkage, gap: Array) -> str:
    row = int(np.argmax(np.abs(linkage._in_sizes(gap))))
    return f"{_row(linkage, row)} is off by {gap[row]:.3g}"


def _row(linkage: Linkage, row: int) -> str:
    closure, name = linkage._rows[row]
    return f"{name} of closure {closure}"


# --- tables for the kernels ---------------------------------------------------------------------


@model.kept
def tables(linkage: Linkage) -> ends.Tables:
    plans = [articulated_body._plan(arm) for arm in linkage.chains]
    held, count = linkage.held, len(linkage.closures)
    rows = np.searchsorted(linkage._of, np.arange(count + 1))
    closures = [
        (_turns(closure), rows[k], rows[k + 1]) for k, closure in enumerate(linkage.closures)
    ]
    chains, columns = _chains(linkage, plans)
    last = chains[-1]
    room = [last[ends.UNIT] + last[ends.UNITS], last[ends.INNOVATION] + last[ends.INNOVATIONS]]
    room += [6 * LANES, LANES * LANES, LANES, 2 * count * ends.MOTION, 3 * count, 3 * held]
    room += [*[held] * 5, held**2, held**2, 2 * count]  # parts of `ends.Room`
    return ends.Tables(
        chains,
        np.concatenate([plan.table for plan in plans]),
        np.concatenate(columns),
        np.array([k for on in linkage._on for k in on], dtype=np.int64),
        ends.Held(
            np.array([-1 if end.body is None else end.body for end in linkage._ends]),
            _seats(linkage, plans),
            np.array(closures, dtype=np.int64),
            linkage._directions,
            linkage._angular.astype(np.int64),
        ),
        np.cumsum([0, *room]),
    )


def _seats(linkage: Linkage, plans: list[Any]) -> Array:
    """Axes and point of each end in the articulated body's frames, and a length."""
    seats = np.zeros((len(linkage._ends), 13))
    for k, end in enumerate(linkage._ends):
        turn, shift = np.eye(3), np.zeros(3)
        if end.body is not None:
            frame = plans[end.chain].table[plans[end.chain].n * LINK :][end.body * FRAME :]
            turn, shift = frame[TURN:SHIFT].reshape(3, 3), frame[SHIFT : SHIFT + 3]
        seats[k, :12] = *np.ravel(turn @ np.array(end.axes)), *(turn @ np.array(end.point) + shift)
    seats[:, 12] = np.repeat(linkage._lengths, 2)
    return seats


def _chains(linkage: Linkage, plans: list[Any]) -> tuple[Any, list[Any]]:
    """Return records of the chains, and the columns of each, those that reach furthest first."""
    chains = np.zeros((len(plans), ends.RECORD), dtype=np.int64)
    columns = []
    for c, (arm, plan) in enumerate(zip(linkage.chains, plans, strict=True)):
        body = {k: linkage._ends[k].body for k in linkage._on[c]}
        last = {k // 2: max(body.get(k, 0), body.get(k ^ 1, 0)) for k in body}
        own = [(row, last[k]) for row, k in enumerate(linkage._of.tolist()) if k in last]
        own += [(linkage.held + k, body[k]) for k in body]
        own.sort(key=lambda column: -column[1])
        columns.append(np.array(own, dtype=np.int64).reshape(-1, 2))
        chains[c, 1 :: 2] = (
            arm.nq, arm.nv, plan.table.size, len(own), len(body), -(-plan.units // LANES) * LANES,
            -(-len(own) // LANES) * LANES * arm.nv, 3 + 6 * arm.n,
        )  # fmt: skip
    chains[1:, ::2] = np.cumsum(chains[:-1, 1::2], axis=0)
    return chains, columns


def _turns(closure: Closure) -> int:
    free = [d for d in range(3) if ("rx", "ry", "rz")[d] not in closure.directions]
    # One alone is held in the plane, where there are no others.
    return {1: sum(free), 3: ends.NO_TURNS}.get(len(free), ends.ALL_TURNS)
