"""Warnings where the steps of a scheduled stepper are too long."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.kernels.chain.rows import LENGTH
from fixman.potentials import flows
from fixman.simulation.steppers.stepper import State, shortest

if TYPE_CHECKING:
    from fixman.simulation.steppers.scheduled import Scheduled

# Thermal way of a step over the shortest bond, from which a warning is due: there ⟨cos²θ⟩ of two
# bonds is off by 0.5 % or so, and the error grows with the square.
LONG_STEP = 0.15
LONG_TURN, LONG_NEWTON = 0.1, 0.02  # with hard angles, whose chains have lighter motions left
LONG_WALK = 0.1  # overdamped, with angles or not: off by 0.2 to 0.8 % there, and by its square
FAST = 0.2  # share of a rod that a flow moves its ends in a step: 0.8 costs 4 to 6 % of viscosity


def warn_of_long_steps(chain: Chain, state: State, stepper: Scheduled) -> None:
    """Warn if a step moves beads so far that averages suffer, or a flow turns rods much."""
    if stepper.decides:  # averages do not depend on dt
        return
    length = shortest(chain, state.targets)
    kT = stepper.kT if stepper.rate else _temperature(chain, state.v)
    ways = stepper.stride * np.sqrt(kT / stepper.inertia(chain)) / length
    turning = bool(np.any(chain.layout.hard_rows.kinds != LENGTH))
    usual = LONG_STEP if not turning else LONG_TURN if stepper.rate else LONG_NEWTON
    if stepper.OVERDAMPED:
        usual = LONG_WALK
    metrics = [stepper.inertia(chain)] * stepper.metric + [chain.masses] * stepper.rival
    limits = np.minimum.reduce([usual + 0.0 * ways, *(_steep_ways(chain, m) for m in metrics)])
    bead = int(np.argmax(ways / limits))
    share = float(limits[bead] / ways[bead]) if ways[bead] else 1.0
    steep = ", and it is so light that its Fixman force is steep" * bool(limits[bead] < usual)
    text = f"in one step bead {bead} moves {ways[bead]:.2g} of the shortest bond, "
    text += f"{stepper.thermal}{steep}, so that averages are of another ensemble"
    if stepper.OVERDAMPED:
        share = share**2
    else:
        text += ", although the temperature is right"
    _warn(stepper, share, text)
    if stepper.flow is not None:
        gradient = flows.table(stepper.flow, chain.dim, range(1), stepper.dt)[0]
        way = float(np.linalg.norm(gradient, 2)) * stepper.dt
        text = f"in one step its flow moves the ends of a rod by {way:.2g} of its length"
        _warn(stepper, FAST / way if way else 1.0, text)


def _warn(stepper: Scheduled, share: float, text: str) -> None:
    if share < 1.0 - 1e-9:  # so that what is advised is not warned of
        digit = 10.0 ** np.floor(np.log10(share * stepper.dt))
        fine = float(f"{np.floor(share * stepper.dt / digit) * digit:.0e}")
        warnings.warn(
            f"dt={stepper.dt:g} is long: {text}; dt={fine:g} or less would do",
            RuntimeWarning,
            stacklevel=6,  # who called simulate
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
    the beads that hard bonds join it to, at least two.
    """
    rows = chain.layout.hard_rows
    ends_of = rows.columns[rows.kinds == LENGTH, :2]
    ends = ends_of[(ends_of >= 0).all(axis=1)]
    one, other = np.concatenate([ends, ends[:, ::-1]]).T
    w = 1.0 / masses
    angles = np.sqrt(np.bincount(one, w[other], chain.n) / w)
    bonds = np.bincount(ends_of[ends_of >= 0], minlength=chain.n)  # to the base as well
    return np.where(bonds > 1, 0.5 * angles, np.inf)
