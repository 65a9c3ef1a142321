"""`Plan`: a stepper as a schedule of moves; warnings where its steps are too long."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.kernels.chain.rows import LENGTH
from fixman.kernels.simulation import stepping
from fixman.potentials import flows
from fixman.simulation.steppers.stepper import State, shortest

# Thermal way of a step over the shortest bond, from which a warning is due: there ⟨cos²θ⟩ of two
# bonds is off by 0.5 % or so, and the error grows with the square.
LONG_STEP = 0.15
LONG_TURN, LONG_NEWTON = 0.1, 0.02  # with hard angles, whose chains have lighter motions left
LONG_WALK = 0.1  # overdamped, with angles or not: off by 0.2 to 0.8 % there, and by its square
FAST = 0.2  # share of a rod that a flow moves its ends in a step: 0.8 costs 4 to 6 % of viscosity

INSTANT = ("force", "project", "mark", "remember", "decide")

Schedule = tuple[tuple[int, float], ...]


def schedule(words: str) -> Schedule:
    """Read moves of `kernels.simulation.stepping`, each for a whole step, or half of one by /2."""
    moves = (word.partition("/") for word in words.split())
    return tuple(
        (getattr(stepping, name.upper()), 0.0 if name in INSTANT else 1.0 / float(part or 1))
        for name, _, part in moves
    )


@dataclass(frozen=True)
class Plan:
    """A stepper as data: the moves of a step (`kernels.simulation.stepping`), and constants.

    The schedule has the letter of each move and its time in units of dt, which means nothing to a
    force or a projection.  Forces must be found again behind a drift, before a kick.

    Overdamped motion, with friction coefficients ``drag``, has these in the place of masses, no
    memory of velocities (``friction`` is infinite) and h = √(2 dt) in the place of dt.
    """

    schedule: Schedule
    dt: float
    tolerance: float
    potential: Any = None
    kT: float = 0.0  # in noise and Fixman force
    friction: float = 0.0
    metric: bool = False  # whether the Fixman force is added
    rival: bool = False  # and that of the chain's masses subtracted
    drag: float | tuple[float, ...] | None = None
    flow: Any = None  # see `flows.checked`
    drifting: bool = True  # whether drawn velocities keep the motion of the centre of mass

    @property
    def stride(self) -> float:
        """The dt of the schedule."""
        return self.dt if self.drag is None else math.sqrt(2.0 * self.dt)

    @property
    def thermal(self) -> str:
        """The formula of what a bead moves in a step by itself."""
        return "dt √(kT/m)" if self.drag is None else "√(2 kT dt/ζ)"

    def inertia(self, chain: Chain) -> Array:
        """Return masses (n,), or what stands for them."""
        if self.drag is None:
            return chain.masses
        drag = np.array(self.drag)
        if drag.shape not in ((), (chain.n,)):
            raise ValueError(
                f"friction must be one number or have shape ({chain.n},) for this chain, got "
                f"{drag.shape}"
            )
        return np.broadcast_to(drag, chain.n).copy()

    @property
    def decides(self) -> bool:
        """Whether moves are tried, and perhaps refused."""
        return any(letter == stepping.DECIDE for letter, _ in self.schedule)


def warn_of_long_steps(chain: Chain, state: State, plan: Plan) -> None:
    """Warn if a step moves beads so far that averages suffer, or a flow turns rods much.

    Where moves are tried, averages do not depend on dt.
    """
    if plan.decides:
        return
    length = shortest(chain, state.targets)
    kT = plan.kT or _temperature(chain, state.v)
    ways = plan.stride * np.sqrt(kT / plan.inertia(chain)) / length
    turning = bool(np.any(chain.layout.hard_rows.kinds != LENGTH))
    usual = LONG_STEP if not turning else LONG_TURN if plan.kT else LONG_NEWTON
    if plan.drag is not None:
        usual = LONG_WALK
    metrics = [plan.inertia(chain)] * plan.metric + [chain.masses] * plan.rival
    limits = np.minimum.reduce([usual + 0.0 * ways, *(_steep_ways(chain, m) for m in metrics)])
    bead = int(np.argmax(ways / limits))
    share = float(limits[bead] / ways[bead]) if ways[bead] else 1.0
    steep = ", and it is so light that its Fixman force is steep" * bool(limits[bead] < usual)
    _warn(
        plan,
        share if plan.drag is None else share**2,
        f"in one step bead {bead} moves {ways[bead]:.2g} of the shortest bond, "
        f"{plan.thermal}{steep}, so that averages are of another ensemble"
        + ", although the temperature is right"
        * (plan.drag is None),
    )
    if plan.flow is not None:
        gradient = flows.table(plan.flow, chain.dim, range(1), plan.dt)[0]
        way = float(np.linalg.norm(gradient, 2)) * plan.dt
        text = f"in one step its flow moves the ends of a rod by {way:.2g} of its length"
        _warn(plan, FAST / way if way else 1.0, text)


def _warn(plan: Plan, share: float, text: str) -> None:
    """Warn of a dt of which only a share would do."""
    if share < 1.0 - 1e-9:  # so that what is advised is not warned of
        digit = 10.0 ** np.floor(np.log10(share * plan.dt))
        fine = float(f"{np.floor(share * plan.dt / digit) * digit:.0e}")
        warnings.warn(
            f"dt={plan.dt:g} is long: {text}; dt={fine:g} or less would do",
            RuntimeWarning,
            stacklevel=5,  # who called simulate
        )


def _temperature(chain: Chain, v: Array) -> float:
    """Return kT of velocities, without the motion of the centre of mass."""
    if chain.base == "free":
        v = v - np.average(v, axis=1, weights=chain.masses)[:, None]
    freedom = max(1, v[0].size - chain.hard.size)
    twice: float = np.einsum("rka,rka,k->", v, v, chain.masses) / (len(v) * freedom)
    return twice


def _steep_ways(chain: Chain, masses: Array) -> Array:
    """Share of a bond that each bead (n,) may move in a step for the sake of its Fixman force.

    Bending by an angle of √(m_k Σ 1/m) changes ln det H^bb of a light bead k, the sum being over
    the beads that hard bonds join it to; where it has one bond only, nothing.
    """
    rows = chain.layout.hard_rows
    ends_of = rows.columns[rows.kinds == LENGTH, :2]
    ends = ends_of[(ends_of >= 0).all(axis=1)]
    one, other = np.concatenate([ends, ends[:, ::-1]]).T
    w = 1.0 / masses
    angles = np.sqrt(np.bincount(one, w[other], chain.n) / w)
    bonds = np.bincount(ends_of[ends_of >= 0], minlength=chain.n)  # to the base as well
    return np.where(bonds > 1, 0.5 * angles, np.inf)
