"""Tables of a linkage for `fixman.kernels.rigid.closed`."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from fixman.kernels.compiler.lanes import LANES
from fixman.kernels.rigid import closed_tables
from fixman.kernels.rigid.closed import only_states
from fixman.rigid import articulated_body
from fixman.rigid._linkage import Closure, Linkage


class Tables:
    """Numbers and integers of a linkage."""

    def __init__(self, linkage: Linkage) -> None:
        plans = [articulated_body._plan(arm) for arm in linkage.chains]
        self.nv, self.wrenches = linkage.nv, (len(linkage.closures), 6)
        ends = np.zeros((len(linkage._ends), closed_tables.END))
        for k, end in enumerate(linkage._ends):
            ends[k, :9], ends[k, 9:12] = np.ravel(end.axes), end.point
        ends[:, 12] = np.repeat(linkage._lengths, 2)
        size = np.array([linkage._reach or -linkage._rounding])
        parts = [*(plan.table for plan in plans), ends, size, linkage._directions, np.eye(3, LANES)]
        parts = [part.ravel() for part in parts]
        starts = np.cumsum([0, *(part.size for part in parts)]).tolist()
        self.plan = _integers(linkage, plans, starts)
        bits = np.append(self.plan, starts[-1]).view(np.float64)
        self.table = np.concatenate([*parts, bits])
        self.states = only_states()


def _integers(linkage: Linkage, plans: list[Any], starts: list[int]) -> Any:
    count, held, offsets = len(linkage.closures), linkage.held, linkage._offsets
    head = np.zeros(closed_tables.HEAD, dtype=np.int64)
    head[closed_tables.CHAINS], head[closed_tables.CLOSURES], head[closed_tables.HELD] = (
        len(plans),
        count,
        held,
    )
    head[closed_tables.NQ], head[closed_tables.NV] = linkage.nq, linkage.nv
    head[closed_tables.LOADS] = 3 * len(plans) + 6 * linkage.n
    head[closed_tables.END0], head[closed_tables.ROW0] = starts[len(plans)], starts[len(plans) + 2]
    head[closed_tables.AXES0] = starts[len(plans) + 3]
    head[closed_tables.CHAIN0] = closed_tables.HEAD
    head[closed_tables.WIDTHS : closed_tables.HEAD] = widths(linkage)
    first = closed_tables.HEAD + closed_tables.CHAIN * len(plans)
    records: list[int] = []  # after those of the chains
    chains = np.zeros((len(plans), closed_tables.CHAIN), dtype=np.int64)

    def begin() -> int:
        return first + len(records)

    def room(size: int) -> int:
        head[closed_tables.MEMORY] += size
        return int(head[closed_tables.MEMORY]) - size

    for c, (plan, arm) in enumerate(zip(plans, linkage.chains, strict=True)):
        on = sorted(linkage._on[c], key=lambda k: linkage._ends[k].body)
        bodies = [linkage._ends[k].body for k in on]
        last = {k // 2: body for k, body in zip(on, bodies, strict=True)}  # of each closure
        columns = [(last[int(k)], row) for row, k in enumerate(linkage._of) if int(k) in last]
        columns += [(body, held + k) for k, body in zip(on, bodies, strict=True)]
        columns.sort(key=lambda column: -column[0])  # blocks then reach no further than they must
        chain = chains[c]
        chain[closed_tables.TABLE], chain[closed_tables.TABLE_SIZE] = starts[c], plan.table.size
        chain[closed_tables.Q], chain[closed_tables.NQ_OF] = offsets["nq"][c], arm.nq
        chain[closed_tables.V], chain[closed_tables.NV_OF] = offsets["nv"][c], arm.nv
        chain[closed_tables.LOAD], chain[closed_tables.LOAD_SIZE] = (
            3 * c + 6 * offsets["n"][c],
            3 + 6 * arm.n,
        )
        chain[closed_tables.UNITS], chain[closed_tables.INVERSES] = room(plan.units), room(arm.nv)
        chain[closed_tables.LAST_INVERSE] = head[closed_tables.MEMORY]
        chain[closed_tables.ENDS] = begin()
        records += [x for pair in zip(on, bodies, strict=True) for x in pair]
        chain[closed_tables.LAST_END] = numbers = begin()
        records += [column for _, column in columns]
        chain[closed_tables.BLOCKS] = begin()
        for j in range(0, len(columns), LANES):
            body = columns[j][0]
            past = chain[closed_tables.ENDS] + 2 * bisect_right(bodies, body)
            rates = int(arm.rate_offsets[body + 1])
            lanes = min(LANES, len(columns) - j)
            first_unit = room(LANES * rates)
            records += [numbers + j, lanes, chain[closed_tables.ENDS], past, rates]
            records += [first_unit, first_unit + LANES * rates]
        chain[closed_tables.LAST_BLOCK] = begin()
    head[closed_tables.CLOSURE0] = begin()
    for k, closure in enumerate(linkage.closures):
        mine = np.flatnonzero(linkage._of == k)
        records += [_turns(closure), mine[0], mine[-1] + 1]
    head[closed_tables.OF_ROW0] = begin()
    records += np.column_stack([linkage._of, linkage._angular]).ravel().tolist()
    head[closed_tables.PLACED0] = room(2 * count * closed_tables.PLACED)
    head[closed_tables.FACTS0] = room(held * closed_tables.FACTS)
    head[closed_tables.INVERSE0], head[closed_tables.FACTOR0] = room(held * held), room(held * held)
    head[closed_tables.ASKED0] = room(2 * count)
    most = max(map(len, linkage._on))
    head[closed_tables.WRENCH0] = room(
        LANES * LANES + max(6 * LANES * most, 2 * LANES * (held + 2 * count))
    )
    return np.concatenate([head, chains.ravel(), np.array(records, dtype=np.int64)])


def _turns(closure: Closure) -> int:
    """Which turns a closure holds, for `kernel.turned_by`."""
    free = [d for d in range(3) if ("rx", "ry", "rz")[d] not in closure.directions]
    # One alone is held in the plane, where there are no others.
    return {1: sum(free), 3: closed_tables.NO_TURNS}.get(len(free), closed_tables.ALL_TURNS)


def widths(linkage: Linkage) -> list[int]:
    """How many numbers each task writes for a state."""
    held, forces = linkage.held, 6 * len(linkage.closures)
    return [forces, forces, forces, 2 * held, held * held, 2, 2]


def tables(linkage: Linkage) -> Tables:
    # Where `forward_dynamics` does not find it before springs and dampers are added.
    name = "closed, passive" if any(arm._passive for arm in linkage.chains) else "closed"
    if name not in linkage._tables:
        linkage._tables[name] = Tables(linkage)
    return linkage._tables[name]  # type: ignore[no-any-return]
