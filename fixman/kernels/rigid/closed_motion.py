"""What holds the closures of a linkage from one end of a step in time to the other."""

from __future__ import annotations

from fixman.kernels import jit
from fixman.kernels.rigid.articulated_tables import DONE, NOT_USABLE
from fixman.kernels.rigid.closed import comply, factor_scaled, look, moved, multipliers
from fixman.kernels.rigid.closed_tables import DEPENDENT, FACTS, FACTS0, HELD, PIVOT, room

GAP = 3  # where in the facts of a row


@jit
def pulls(table, plan, q, given, out):
    """Rates ℳ⁻¹ Aᵀ Λ x of one posture into ``out (m, nv)``, a row each; DONE or why not.

    x is −1 for closures' directions up to that of the row, and 0 for those after: pushes add up.
    ``given``: no rates (nv,), no gravity (3,), memory, room for wrenches, and what is `CERTAIN`.
    """
    still, none, memory, wrenches, certain = given
    if not look(table, plan, q, still, still, none, memory):
        return NOT_USABLE
    facts = room(memory, plan, FACTS0)
    if not comply(table, plan, still, none, 0.0, memory):
        return PIVOT
    if not factor_scaled(table, plan, memory, certain):
        return DEPENDENT
    for pushed in range(plan[HELD]):
        for row in range(plan[HELD]):
            facts[FACTS * row + GAP] = 1.0 if row == pushed else 0.0
        multipliers(plan, memory, GAP)
        if not moved(table, plan, still, none, memory, out[pushed], wrenches):
            return NOT_USABLE
    return DONE
