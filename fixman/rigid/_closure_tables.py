"""Tables of a linkage for `fixman.kernels.rigid.closed`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixman._common.arrays import Array
from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.rigid import closed, ends
from fixman.kernels.rigid.articulated_tables import FRAME, LINK, SHIFT, TURN
from fixman.rigid import articulated_body
from fixman.rigid._linkage import Closure, Linkage
from fixman.rigid.model import workspace


def tables(linkage: Linkage) -> ends.Tables:
    """Return the tables of a linkage, which keeps them."""
    # Where `forward_dynamics` does not find it before springs and dampers are added.
    name = "closed, passive" if any(arm._passive for arm in linkage.chains) else "closed"
    if name not in linkage._tables:
        linkage._tables[name] = _tables(linkage)
    return linkage._tables[name]  # type: ignore[no-any-return]


def size(linkage: Linkage) -> float:
    """Return the size of a linkage, or less than what its coordinates say."""
    return linkage._reach or -linkage._rounding


def width(linkage: Linkage, task: int) -> int:
    """Return how many numbers a task writes for a state."""
    held = linkage.held
    special = {
        closed.GAPS: 2 * held,
        closed.COMPLIANCE: held * held,
        closed.PULLS: held * linkage.nv,
    }
    return 2 if task >= closed.DETERMINANT else special.get(task, 6 * len(linkage.closures))


def room(found: ends.Tables) -> Array:
    """Return memory for one state."""
    return workspace(int(found.starts[-1]))


def _tables(linkage: Linkage) -> ends.Tables:
    plans = [articulated_body._plan(arm) for arm in linkage.chains]
    rows = np.searchsorted(linkage._of, np.arange(len(linkage.closures) + 1))
    closures = [
        (_turns(closure), rows[k], rows[k + 1]) for k, closure in enumerate(linkage.closures)
    ]
    chains, columns = _chains(linkage, plans)
    return ends.Tables(
        chains,
        np.concatenate([plan.table for plan in plans]),
        np.concatenate(columns),
        np.concatenate([*map(_outwards, linkage._on, [linkage._ends] * len(plans))]),
        np.array([-1 if end.body is None else end.body for end in linkage._ends]),
        _seats(linkage, plans),
        np.array(closures, dtype=np.int64),
        linkage._directions,
        linkage._angular.astype(np.int64),
        _starts(linkage, chains[-1]),
    )


def _outwards(on: list[int], found: list[Any]) -> NDArray[np.int64]:
    """Return the ends on a chain, from the base outwards."""
    return np.array(sorted(on, key=lambda k: found[k].body), dtype=np.int64)


def _seats(linkage: Linkage, plans: list[Any]) -> Array:
    """Return axes and point of each end, in the articulated body's frames, and a length."""
    seats = np.zeros((len(linkage._ends), 13))
    for k, end in enumerate(linkage._ends):
        turn, shift = np.eye(3), np.zeros(3)
        if end.body is not None:
            frame = plans[end.chain].table[plans[end.chain].n * LINK :][end.body * FRAME :]
            turn, shift = frame[TURN:SHIFT].reshape(3, 3), frame[SHIFT : SHIFT + 3]
        seats[k, :9] = np.ravel(turn @ np.array(end.axes))
        seats[k, 9:12] = turn @ np.array(end.point) + shift
    seats[:, 12] = np.repeat(linkage._lengths, 2)
    return seats


def _starts(linkage: Linkage, last: Any) -> Any:
    """Where each part of `ends.Room` begins, and where the last one ends."""
    held, count = linkage.held, len(linkage.closures)
    sizes = [last[ends.UNIT] + last[ends.UNITS], last[ends.INNOVATION] + last[ends.INNOVATIONS]]
    sizes += [6 * LANES, LANES * LANES, LANES, 2 * count * ends.PLACED, 3 * count, 3 * held]
    return np.cumsum([0, *sizes, *[held] * 5, held**2, held**2, 2 * count])


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
    """Which turns a closure holds, for `kernel.turned_by`."""
    free = [d for d in range(3) if ("rx", "ry", "rz")[d] not in closure.directions]
    # One alone is held in the plane, where there are no others.
    return {1: sum(free), 3: ends.NO_TURNS}.get(len(free), ends.ALL_TURNS)
