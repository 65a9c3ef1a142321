"""Tables of a linkage for `fixman.kernels.rigid.closed`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.rigid import closed, ends
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
    return 1 if task >= closed.DETERMINANT else special.get(task, 6 * len(linkage.closures))


def room(linkage: Linkage, found: ends.Tables) -> tuple[Any, Any, Any]:
    """Return memory for one state."""
    n = linkage.n
    return np.empty((n, 12)), np.empty((n + 1, 24)), workspace(int(found.starts[-1]))


def _tables(linkage: Linkage) -> ends.Tables:
    seats = np.zeros((len(linkage._ends), 13))
    for k, end in enumerate(linkage._ends):
        seats[k, :9], seats[k, 9:12] = np.ravel(end.axes), end.point
    seats[:, 12] = np.repeat(linkage._lengths, 2)
    first = linkage._offsets["n"]
    bodies = [linkage.n if e.body is None else first[e.chain] + e.body for e in linkage._ends]
    rows = np.searchsorted(linkage._of, np.arange(len(linkage.closures) + 1))
    closures = [
        (_turns(closure), rows[k], rows[k + 1]) for k, closure in enumerate(linkage.closures)
    ]
    screws = [articulated_body._plan(arm).table for arm in linkage.chains]
    chains, columns = _chains(linkage, screws)
    return ends.Tables(
        chains,
        np.concatenate([arm._kinds for arm in linkage.chains]),
        np.concatenate([arm._table for arm in linkage.chains]),
        np.concatenate(screws),
        columns,
        np.array(bodies, dtype=np.int64),
        seats,
        np.array(closures, dtype=np.int64),
        linkage._directions,
        linkage._angular.astype(np.int64),
        _starts(linkage, chains),
    )


def _starts(linkage: Linkage, chains: Any) -> Any:
    """Where each part of `ends.Room` begins, and where the last one ends."""
    held, count = linkage.held, len(linkage.closures)
    plans = [articulated_body._plan(arm) for arm in linkage.chains]
    blocks = -(-chains[:, ends.COLUMNS] // LANES) * LANES
    answers = chains[-1, ends.ANSWER] + blocks[-1] * chains[-1, ends.RATES_OF]
    most = [max(getattr(plan, name) for plan in plans) for name in ("nq", "nv", "nv", "n", "units")]
    nq, nv, _, n, units = (LANES * size for size in most)
    sizes = [units + LANES, 3 * count, 3 * held, *[held] * 5, held**2, held**2, 2 * count, answers]
    sizes += [nq, nv, nv, 3 + 6 * n, LANES]
    return np.cumsum([0, *sizes])


def _chains(linkage: Linkage, screws: list[Any]) -> tuple[Any, Any]:
    """Return records of the chains, and their columns: free motion, rows, ends along the chain."""
    chains = np.zeros((len(linkage.chains), ends.RECORD), dtype=np.int64)
    offsets = linkage._offsets
    columns: list[int] = []
    answer = screw = 0
    for c, (chain, arm) in enumerate(zip(chains, linkage.chains, strict=True)):
        on = sorted(linkage._on[c], key=lambda k: linkage._ends[k].body)
        rows = np.flatnonzero(np.isin(linkage._of, [k // 2 for k in on])).tolist()
        own = [ends.FREELY, *rows, *(linkage.held + k for k in on)]
        chain[[ends.BODY, ends.COORDINATE, ends.RATE]] = [
            offsets[key][c] for key in ("n", "nq", "nv")
        ]
        chain[[ends.BODIES, ends.COORDINATES, ends.RATES_OF]] = arm.n, arm.nq, arm.nv
        chain[[ends.SCREW, ends.SCREWS]] = screw, screws[c].size
        chain[[ends.COLUMN, ends.COLUMNS]] = len(columns), len(own)
        chain[[ends.ASKED, ends.ANSWER]] = 1 + len(rows), answer
        columns += own
        screw += screws[c].size
        answer += -(-len(own) // LANES) * LANES * arm.nv
    return chains, np.array(columns, dtype=np.int64)


def _turns(closure: Closure) -> int:
    """Which turns a closure holds, for `kernel.turned_by`."""
    free = [d for d in range(3) if ("rx", "ry", "rz")[d] not in closure.directions]
    # One alone is held in the plane, where there are no others.
    return {1: sum(free), 3: ends.NO_TURNS}.get(len(free), ends.ALL_TURNS)
