"""What holds the closures of a linkage from one end of a step in time to the other."""

from __future__ import annotations

from fixman.kernels import jit
from fixman.kernels.articulated_body import DONE, NOT_USABLE, accelerations
from fixman.kernels.lanes import part
from fixman.kernels.rigid_closed import (
    CHAINS,
    DEPENDENT,
    FACTS,
    FACTS0,
    HELD,
    NV_OF,
    PIVOT,
    UNITS,
    V,
    chain_of,
    comply,
    factor_scaled,
    look,
    multipliers,
    push_chain,
    room,
    sweep_inwards,
)

GAP = 3  # where in the facts of a row


@jit
def pull(table, plan, q, gap, given, out):
    """Rates −ℳ⁻¹ Aᵀ Λ gap into ``out (nv,)``, of one posture and any gap (m,); DONE or why not.

    ``given``: no rates (nv,), no gravity (3,), memory, and what is `rigid_closed.CERTAIN`.
    """
    still, none, memory, certain = given
    if not look(table, plan, q, still, still, none, memory):
        return NOT_USABLE
    facts = room(memory, plan[FACTS0])
    for row in range(plan[HELD]):
        facts[FACTS * row + GAP] = gap[row]
    if not sweep_inwards(table, plan, still, memory):
        return PIVOT
    comply(table, plan, none, 0.0, memory)
    if not factor_scaled(table, plan, memory, certain):
        return DEPENDENT
    multipliers(plan, memory, GAP)
    for c in range(plan[CHAINS]):
        at, own = chain_of(table, plan, c)
        push_chain(own, plan, at, memory)
        v = part(still, plan[at + V], plan[at + NV_OF], 0.0)
        to = part(out, plan[at + V], plan[at + NV_OF], 0.0)
        if not accelerations(own, v, none, 0, room(memory, plan[at + UNITS]), to, 0.0):
            return NOT_USABLE
    return DONE
