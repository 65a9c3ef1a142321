"""Closures in one posture: arguments, answers and errors of their kernels."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from fixman._common import arrays
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
from fixman.rigid.model import Given, SerialChain, workspace


def arguments(linkage: Linkage, *given: Any) -> Given:
    """Coerce and check the arguments of a linkage, as `model.coerced`."""
    if not isinstance(linkage, Linkage):
        raise TypeError(f"linkage must be a Linkage, got {type(linkage).__name__}")
    found = model.coerced(linkage, *given)
    numbers = np.concatenate([found.q, found.qd, found.last], axis=1)
    if found.W.size or not np.isfinite(numbers).all():  # quicker than what follows
        found.require_numbers()
    return found


def each(given: Given, answer: Callable[..., Array], *rates: Array) -> list[Array]:
    """Answers of the chains to their coordinates and ``rates (frames, nv)``."""
    linkage, found = given.arm, []
    parts = linkage.split(given.q, "nq"), *(linkage.split(v, "nv") for v in rates)
    for c, (arm, *own) in enumerate(zip(linkage.chains, *parts, strict=True)):
        try:
            found.append(answer(arm, *map(given.batch, own)))
        except FrameError as error:
            if len(linkage.chains) > 1:
                error.add_note(f"in chain {c} of the linkage")
            raise
    return found


def driven(given: Given) -> Given:
    """Add the forces of springs and dampers to τ."""
    if not given.arm._passive:
        return given
    passive = np.concatenate(each(given, passive_forces, given.qd), axis=-1)
    return given._replace(last=given.last + passive.reshape(given.last.shape))


# --- answers of the kernels ---------------------------------------------------------------------


def answers(given: Given, task: int, limit: float = inf) -> tuple[Array, Array]:
    """Run `kernel.states` on all frames: (frames, nv) and (frames, numbers)."""
    linkage, frames = given.arm, len(given.q)
    held, nv, found = linkage.held, linkage.nv, tables(linkage)
    sizes = {kernel.GAPS: 2 * held, kernel.COMPLIANCE: held * (held + 1), kernel.PULLS: held * nv}
    size = 2 if task >= kernel.DETERMINANT else sizes.get(task, 6 * len(linkage.closures))
    qdd, out = np.empty((frames, nv)), np.empty((frames, size))
    loads, memory = _loads(given), workspace(int(found.starts[-1]))

    def run(first: int, last: int, certain: float) -> tuple[int, int]:
        state = [part[first:last].ravel() for part in (given.q, given.qd, given.last)]
        felt = loads if loads.ndim == 1 else loads[first:last].ravel()
        limits = 1.0 / linkage._size, limit, certain
        to = qdd[first:last], out[first:last]
        done = kernel.states(found, *state, felt, limits, task, memory, *to)
        if done == DONE:
            return last, DONE
        frame, reason = divmod(done, kernel.REASONS)
        return first + frame, -reason

    frame, why = run(0, frames, kernel.CERTAIN)
    while why != DONE:
        if why == kernel.DEPENDENT:  # to the kernel's own, cheaper test
            require_definite(linkage, given.q[frame], arrays.frame_index(frame, given.lead))
            _, why = run(frame, frame + 1, 0.0)
        if why != DONE:
            raise _refusal(given, why, frame)
        frame, why = run(frame + 1, frames, kernel.CERTAIN)
    bad = np.flatnonzero(~np.isfinite(out).all(axis=1))
    if bad.size:  # q of a run need not be of the user
        raise arrays.overflow("gaps or forces of the closures", int(bad[0]), given.lead)
    return qdd, out


def _loads(given: Given) -> Array:
    """Gravity (3,), or of every frame for each chain gravity and wrenches."""
    if not given.W.size:
        return given.g
    W, g = given.W.reshape(len(given.q), -1), np.tile(given.g, len(given.arm.chains))
    starts = [6 * part.start for part in given.arm._parts["n"]]
    return np.insert(W, np.repeat(starts, 3), g, axis=1)


def gaps(given: Given, rates: bool = False) -> Array:
    """Gaps (frames, held), or their rates."""
    held, out = given.arm.held, answers(given, kernel.GAPS)[1]
    return out[:, held:] if rates else out[:, :held]


def compliance(given: Given) -> tuple[Array, Array]:
    """Λ⁻¹ (frames, held, held), and scales of its rows by how freely ends move (frames, held)."""
    held, out = given.arm.held, answers(given, kernel.COMPLIANCE)[1]
    return out[:, :-held].reshape(-1, held, held), out[:, -held:]


def require_definite(linkage: Linkage, q: Array, frame: Any, least: float = LOST) -> None:
    """Refuse a Λ⁻¹ of one posture with an eigenvalue below ``least``."""
    inverse, scale = (part[0] for part in compliance(model.coerced(linkage, q)))
    values, vectors = np.linalg.eigh(inverse * np.outer(scale, scale))
    if values[0] >= least:
        return
    weak = np.abs(vectors[:, 0])
    rows = np.flatnonzero(weak >= 0.1 * weak.max())
    rows = rows[np.argsort(-weak[rows], kind="stable")]
    together = " together" if rows.size > 1 else ""
    raise SingularConstraintError(
        f"the closures cannot hold {arrays.listed([_row(linkage, int(r)) for r in rows], 4)}"
        + together,
        ": the bodies cannot move there, or are held already.  Leave a direction out of the kind: "
        'in the plane a pin is ("x", "y"), a weld ("x", "y", "rz").  Or this posture is singular',
        frame=frame,
    )


def _refusal(given: Given, why: int, frame: int) -> ValueError:
    linkage, lead = given.arm, given.lead
    if why in (kernel.OPEN, kernel.OPENING):
        what = "position" if why == kernel.OPEN else "rate"
        off = gaps(model.coerced(linkage, given.q, given.qd), why == kernel.OPENING)[frame]
        return FrameError(
            f"the {what}s do not close: {named(linkage, off)}",
            ": `project` gives positions and rates that close",
            frame=arrays.frame_index(frame, lead),
        )
    W = given.W.reshape(*lead, -1, 6) if given.W.size else None
    wrenches = iter([None if W is None else W[..., part, :] for part in linkage._parts["n"]])

    def answer(arm: SerialChain, *state: Array) -> Array:
        loads: Any = {"gravity": given.g, "wrenches": next(wrenches)}
        return articulated_body.forward_dynamics(arm, *state, **loads)

    each(given, answer, given.qd, given.last)
    return arrays.overflow("accelerations or forces of the closures", frame, lead)


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
    of, angular, directions = linkage._held
    rows = np.searchsorted(of, np.arange(count + 1))
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
            directions,
            angular.astype(np.int64),
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
        own = [(row, last[k]) for row, k in enumerate(linkage._held[0].tolist()) if k in last]
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
