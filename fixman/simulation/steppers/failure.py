"""The likely cause of a step without a solution."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.coordinates import in_line
from fixman.errors import FrameError
from fixman.kernels.chain.rows import ANGLE, LENGTH
from fixman.mechanics import refusals
from fixman.mechanics.dynamics import forward_dynamics
from fixman.potentials.binding import Bound
from fixman.simulation.steppers.plan import Plan
from fixman.simulation.steppers.state import State, shortest

FAR = 0.1  # share of the shortest bond by which overlaps move a bead in one step
STRAIGHT = 0.01  # sine of a bend in space below which a hard one turns faster than steps can follow
COLLAPSED = 1e-3  # smallest pivot over diagonal of H^bb, by the start's: rows became dependent
NAMED = 5  # beads that a refusal names

_Cause = tuple[str, dict[str, Any]]  # and the coordinates or beads that it names


def cause_of(bound: Bound, plan: Plan, state: State, replica: int, stuck: Array) -> _Cause:
    """Say what positions before the call, and where it got stuck, tell of a step that failed."""
    chain, inertia = bound.chain, plan.inertia(bound.chain)
    targets = state.targets[replica : replica + 1]
    if plan.potential is not None:
        x, force = state.x[replica], bound.force(state.x[replica])
        pull = np.linalg.norm(force, axis=1)
        # Beads that a force pulls, and that their bonds let go.
        left = np.linalg.norm(_pulled(chain, x, force, inertia), axis=1)
        ways = 0.5 * plan.stride**2 * np.minimum(pull / inertia, left)
        far = np.flatnonzero(ways > FAR * shortest(chain, targets))
        if far.size:
            far = far[np.argsort(-pull[far], kind="stable")]
            names = arrays.listed([f"bead {k}" for k in far], NAMED)
            return (
                "beads overlap, or dt is too long for a stiff force on what is soft; the forces at "
                f"step {state.step} are enormous, up to {pull.max():.2g} on {names}: start from "
                "positions without overlaps, hold what is stiff as well, or make dt smaller than "
                f"{plan.dt:g}"
            ), {"beads": far}
    angles = chain.layout.hard_rows.kinds == ANGLE
    if chain.dim == 3:
        flat = chain.hard[angles][np.abs(np.sin(targets[0, angles])) < STRAIGHT]
        if flat.size:
            rows = [chain.coordinates[row] for row in flat]
            cause = f"{arrays.listed(rows, NAMED)} hardly bend, and in space a straight angle "
            cause += "cannot be hard: give them values away from 0 and π, or hold them in line, "
            return cause + in_line(row.beads for row in rows), {"coordinates": rows}
    if plan.potential is None and LENGTH not in chain.layout.hard_rows.kinds:
        return (
            "no bond has a hard length and there is no potential, so that beads fly apart or meet: "
            "hold the lengths too, or add a potential that does"
        ), {}
    dependent = _became_dependent(chain, state.x[replica], stuck)
    return dependent or (
        f"a bead would move further than its bonds let it in dt = {plan.dt:g}; make dt smaller "
        f"({plan.thermal} below a tenth of a bond length), or look for overlaps and forces that "
        "grow without bound",
        {},
    )


def _pulled(chain: Chain, x: Array, force: Array, inertia: Array) -> Array:
    """Accelerations (n, dim) at rest by a force, of which hard coordinates bear their part."""
    weighed = replace(chain, masses=inertia.copy())
    try:
        return forward_dynamics(weighed, x, 0.0 * x, force=force).acceleration
    except FrameError:
        return force / inertia[:, None]


def _became_dependent(chain: Chain, before: Array, stuck: Array) -> _Cause | None:
    """Say which hard rows have become dependent on the way, if any."""
    if not np.isfinite(stuck).all():
        return None
    rows = chain.layout.pattern.rows
    straight = [rows[int(row)] for row in np.flatnonzero(~rows.gradients(stuck)[1])]
    if straight:
        names = arrays.listed(straight, NAMED)
        cause = (
            f"bends came to be straight, where {names} cannot be held; no time step helps: hold "
            "the angles of these bends as well, or make these rows soft"
        )
        return cause, {"coordinates": straight}
    start, end = (refusals.nearest_dependence(chain, x) for x in (before, stuck))
    if start is None or end is None or not end.share < COLLAPSED * start.share:
        return None
    return (
        f"{end} there; no time step helps: in such configurations the hard coordinates cannot be "
        "held, the rigid ensemble has a corner and the weight of the stiff one, which grows like "
        "1/|sin β| for a rhombus of angle β, cannot be normalized; make one of these rows soft, or "
        "keep away by a potential",
        {"coordinates": end.rows},
    )
