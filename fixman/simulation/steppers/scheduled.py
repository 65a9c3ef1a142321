"""Steppers that follow a schedule: Newton, Langevin, overdamped, and hybrid Monte Carlo."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.kernels.algebra.random import WORDS, fill_normals
from fixman.mechanics.refusals import raise_failure
from fixman.potentials import flows
from fixman.simulation.steppers import moving
from fixman.simulation.steppers.plan import Plan, schedule, warn_of_long_steps
from fixman.simulation.steppers.stepper import Described, State, begin, replicated

__all__ = ["Brownian", "HybridMonteCarlo", "Langevin", "Newton"]


class Scheduled(Described):
    """A stepper that is told apart from others by its `plan` alone."""

    kT: float | None

    def plan(self) -> Plan:
        """Return the moves of a step."""
        raise NotImplementedError

    def start(
        self,
        chain: Chain,
        x0: ArrayLike,
        v0: ArrayLike | None = None,
        replicas: int = 1,
        rng: Any = None,
    ) -> State:
        """Return replicas at x0 with velocities v0, projected, or drawn at the temperature kT.

        Parameters
        ----------
        chain : Chain
        x0, v0 : (n, dim) or (replicas, n, dim)
            The hard coordinates keep the values that they have in x0.
        replicas : int
        rng : None, int or Generator
            Every replica gets a stream spawned from it.

        Raises
        ------
        ValueError
            If there are neither velocities nor a temperature, or velocities that have no use.  If
            friction or flow are not for this chain, or the energy of x0 is not finite.
        SingularConstraintError
            If the hard coordinates cannot be held in x0.

        Warns
        -----
        RuntimeWarning
            If a step is so long that averages suffer.
        """
        self._refuse(v0)
        plan = self.plan()
        state = begin(chain, x0, replicas, rng)
        state.v = self._velocities(chain, state, v0, plan)
        if plan.decides:
            state.tally = np.tile([0.0, 0.0, plan.dt], (len(state.x), 1))
        prepared = moving.Moving.of(chain, state, plan)
        begun = prepared.run(state, 0, 1)[0]
        state.v = begun.v  # projected
        for r in np.flatnonzero(~np.isfinite(state.v).all(axis=(1, 2)))[:1].tolist():
            raise_failure(chain, state.x, r)
        for r in np.flatnonzero(np.isnan(begun.tally).any(axis=1))[:1].tolist():
            prepared.bound.energy(state.x)  # says of which configuration it is not finite
            raise_failure(chain, state.x, r)
        warn_of_long_steps(chain, state, plan)
        return state

    def _velocities(self, chain: Chain, state: State, v0: ArrayLike | None, plan: Plan) -> Array:
        """Repeat v0, or draw velocities from the distribution of Maxwell."""
        x, tail = state.x, (chain.n, chain.dim)
        if v0 is not None:
            return replicated(arrays.real(v0, tail, "v0"), len(x), tail, "v0")
        if self.kT is None:
            name = type(self).__name__
            raise ValueError(f"{name} needs velocities to start with: give v0, or kT to draw them")
        v = np.empty_like(x)
        for r in range(len(x)):
            fill_normals(state.random.reshape(-1), WORDS * r, v[r].size, v[r].reshape(-1), 0, 1)
        v *= np.sqrt(self.kT * (1.0 / plan.inertia(chain)))[:, None]
        if not plan.drifting and chain.base == "free":  # a projection leaves the momentum alone
            v -= np.average(v, axis=1, weights=chain.masses)[:, None]
        return v

    def advance(self, chain: Chain, state: State, steps: int, workers: int = 1) -> None:
        """Do ``steps`` steps on every replica, in place.

        Raises
        ------
        ConstraintSolveError
            If a step has no solution even in the smallest pieces, naming step and replica; the
            state is then what it was before the call.
        ValueError
            If a flow is not one of this chain's dimension, or not finite.
        """
        moving.advance(chain, state, steps, workers, self.plan())


# --- Newton ---------------------------------------------------------------------------------------

RATTLE = schedule("kick/2 drift force kick/2 project")


@dataclass(frozen=True)
class Newton(Scheduled):
    """Constrained Newton dynamics by RATTLE, the velocity Verlet of constraints (Andersen 1983).

    Second order in dt, time-reversible and symplectic: the energy fluctuates by O(dt²) without
    drift.  The constraints are solved by Newton's method to rounding, in O(n) a step.  Where a step
    is so long that they have no solution, the way is done in 2, 4, 8, … pieces under the same
    forces; this keeps rare fast moments from ending a run, at the price of some energy.

    Parameters
    ----------
    dt : float
        Time step; 0.02 in units of L √(m/kT) is careful, 0.1 still stable.  Hard angles leave
        lighter and faster motions, which want half of that.
    kT : float, optional
        Temperature of the velocities that are drawn where none are given.
    potential : optional
        Energies and forces, see `fixman.potentials`; an object of your own with ``energy(x)`` and
        ``force(x)`` works as well, at the price of a call to Python every step.
    drifting : bool
        Whether drawn velocities of a free chain keep the motion of the centre of mass.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.
    """

    NAME = "newton"

    dt: float
    _: KW_ONLY
    kT: float | None = None
    potential: Any = None
    drifting: bool = False
    tolerance: float = 1e-12

    def plan(self) -> Plan:
        """RATTLE: velocity Verlet, whose second half kick is projected."""
        return Plan(RATTLE, self.dt, self.tolerance, self.potential, drifting=self.drifting)


# --- Langevin -------------------------------------------------------------------------------------

# B A O P, A F B P: half steps B are at the two ends, so that positions and velocities belong to one
# time; P projects velocities, and F finds the forces of the next B.
BAOAB = schedule("kick/2 drift/2 noise project drift/2 force kick/2 project")


@dataclass(frozen=True)
class Langevin(Scheduled):
    """Constrained Langevin dynamics by g-BAOAB (Leimkuhler & Matthews 2016).

    dv = (f / m − γ v) dt + √(2 γ kT / m) dW on the constraint manifold.  Averages are off by
    O(dt²).  The rigid ensemble is what constraints sample by themselves, ρ ∝ √det G^aa e^(−U/kT);
    the stiff one, of springs in the limit of infinite stiffness, is sampled by adding the exact
    Fixman force −½ kT ∂ ln det H^bb / ∂x.  O(n) a step.

    Parameters
    ----------
    dt : float
        Time step, up to 0.1 in units of L √(m/kT); the bias of a trimer's ⟨c²⟩ is −0.02 dt² (rigid)
        or −0.04 dt² (stiff) in these units.  Above 0.15 there is a warning: the temperature is
        right even where the ensemble is not.
    kT : float
    friction : float
        The rate γ at which velocities are forgotten.
    ensemble : "rigid" or "stiff"
    potential : optional
        As for `Newton`.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.
    """

    NAME = "langevin"

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    friction: float = 1.0
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    tolerance: float = 1e-12

    def plan(self) -> Plan:
        """g-BAOAB, with the Fixman force in the stiff ensemble."""
        return Plan(
            BAOAB, self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=self.friction, metric=self.ensemble == "stiff",
        )  # fmt: skip


# --- overdamped -----------------------------------------------------------------------------------

# With h = √(2 dt) and ζ for m, h²/2 is the time: half a kick and a drift are dt f/ζ, noise and a
# drift √(2 dt kT/ζ) ξ.  But for constraints, with Δ(x) = dt f(x)/ζ + √(2 dt kT/ζ) ξ:
SCHEDULES = {
    # x ← x + dt f(x)/ζ + ½ √(2 dt kT/ζ) (ξ + ξ′): half of the noise of the last step and half of a
    # new one; g-BAOAB where velocities are forgotten at once, with its two kicks in one
    "geodesic": schedule("force kick drift/2 noise project drift/2"),
    # x½ = x + ½ Δ(x), x ← x + Δ(x½) with the same ξ and the constraints' B(x½)
    "midpoint": schedule(
        "force mark noise kick/2 project drift/2 force echo kick/2 project leap",
    ),
    # x ← x + Δ(x)
    "liu": schedule("force noise kick/2 project drift"),
}


def _frictions(value: Any, name: str) -> float | tuple[float, ...]:
    array = arrays.real(value, (), name)
    if array.ndim > 1 or not array.size:
        raise ValueError(f"{name} must be one number or one for each bead, got shape {array.shape}")
    if not array.ndim:
        return arrays.positive(float(array), name)
    return tuple(
        arrays.positive(zeta, f"{name} of bead {k}") for k, zeta in enumerate(array.tolist())
    )


@dataclass(frozen=True)
class Brownian(Scheduled):
    """Overdamped dynamics of a chain with constraints, also in a homogeneous flow.

    dx = P ([v∞(x) + f/ζ] dt + √(2 kT/ζ) ∘ dW), Stratonovich, on the constraint manifold, with
    P = 1 − ζ⁻¹ Bᵀ (B ζ⁻¹ Bᵀ)⁻¹ B and no hydrodynamic interaction.  Friction, not mass, sets its
    metric: by itself it samples the mobility ensemble √det(B ζ⁻¹ Bᵀ) e^(−U/kT) δ(q_b) dx (Hinch
    1994).  All schemes are of first weak order in dt.  O(n) a step.

    Parameters
    ----------
    dt : float
        Time step, up to 0.005 in units of ζ L²/kT, where ⟨c²⟩ of a trimer is off by −0.0005
        (geodesic), +0.001 (midpoint) or −0.0025 (Liu).  Longer ones are warned of.
    kT : float
    friction : float or (n,)
        The friction coefficient ζ, the same for all beads or one for each of them.
    ensemble : "mobility", "stiff" or "rigid"
        "stiff", of springs in the limit of infinite stiffness, adds the force
        −½ kT ∂ ln det(B ζ⁻¹ Bᵀ)/∂x; "rigid", of constraints and the chain's masses, adds
        −½ kT ∂ [ln det(B ζ⁻¹ Bᵀ) − ln det(B M⁻¹ Bᵀ)]/∂x, which is nothing if ζ ∝ m.
    scheme : "geodesic", "midpoint" or "liu"
        Geodesic motion and noise in turn, g-BAOAB at infinite friction (Leimkuhler & Matthews
        2016): best at equilibrium.  Euler's midpoint rule with constraints along B at the midpoint
        (Fixman 1978; Grassia, Hinch & Nitsche 1995; Morse 2004): for flows.  Euler's rule with
        constraints along B at the beginning (Liu 1989): for reference.
    flow : (d, d) or function, optional
        Velocity gradient κ of v∞ = κ x, see `fixman.flows`, or a function of time that returns it,
        which is called once a step, with the time in its middle.  On a free chain x is taken from
        the centre of friction, which the flow then leaves in its place.
    potential : optional
        As for `Newton`.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.

    Notes
    -----
    There are no velocities: ``v`` of a state or a run is the last displacement over that part of
    √(2 dt) that it took.
    """

    NAME = "brownian"
    NO_VELOCITIES = "overdamped dynamics has no velocities to start with"
    CHECKS = Scheduled.CHECKS | {
        "friction": _frictions,
        "flow": lambda flow, _: flows.checked(flow),
    }

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    friction: Any = 1.0
    ensemble: Literal["mobility", "stiff", "rigid"] = "mobility"
    scheme: Literal["geodesic", "midpoint", "liu"] = "geodesic"
    flow: Any = None
    potential: Any = None
    tolerance: float = 1e-12

    def parameters(self) -> dict[str, Any]:
        """Return what `from_parameters` makes the stepper from again; of a function only a name."""
        return super().parameters() | {"flow": flows.parameters(self.flow)}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], potential: Any = None) -> Self:
        """Make the stepper again; a potential of the user's own has to be given again.

        Raises
        ------
        ValueError
            If the flow is a function.
        """
        flow = flows.from_parameters(parameters["flow"])
        return super().from_parameters(parameters | {"flow": flow}, potential)

    def plan(self) -> Plan:
        """Return the schedule of the scheme, with frictions in the place of masses."""
        return Plan(
            SCHEDULES[self.scheme], self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=math.inf, metric=self.ensemble != "mobility",
            rival=self.ensemble == "rigid", drag=self.friction, flow=self.flow,
        )  # fmt: skip


# --- hybrid Monte Carlo ---------------------------------------------------------------------------

BEGIN = schedule("force noise project remember")
WAY = schedule("kick/2 drift force kick/2 project return")
END = schedule("decide")


@dataclass(frozen=True)
class HybridMonteCarlo(Scheduled):
    """Hybrid Monte Carlo on the constraint manifold: exact for any time step.

    A step draws velocities for the temperature kT, goes ``leaps`` steps of `Newton`, and accepts
    where it got to with min(1, e^(−ΔE/kT)), or stays (Duane et al. 1987; with constraints Hartmann
    2008).  E is the kinetic and potential energy; the stiff ensemble, of springs in the limit of
    infinite stiffness, is sampled by adding ½ kT ln det H^bb to it and its force to the forces.  A
    leap that has no solution, or whose way back Newton's method does not find, is refused: without
    that, long steps would bias averages (Zappa, Holmes-Cerf & Goodman 2018; Lelièvre, Rousset &
    Stoltz 2019).  O(n) a leap.

    Parameters
    ----------
    dt : float
        Time step of a leap.  Averages do not depend on it, only how many steps are accepted, which
        `Run.acceptance` tells: 0.1 to 0.2 in units of L √(m/kT), less for long chains, steep
        potentials and hard angles, so that between 60 and 95 % are.  `fixman.simulate` warns if
        fewer than 5 % are.
    kT : float
    leaps : int
        So many of a step; a way of leaps · dt about as long as what is sampled takes to change.
    ensemble : "rigid" or "stiff"
    potential : optional
        As for `Newton`.  One of your own needs an energy; where that is infinite no chain gets to.
    tolerance : float
        Largest relative error of a squared bond length, rounding apart.

    Notes
    -----
    ``State.tally`` counts the steps that are tried and accepted; ``State.v`` are the velocities of
    what was kept last.
    """

    NAME = "hybrid"
    NO_VELOCITIES = "HybridMonteCarlo draws new ones at every step"

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    leaps: int = 10
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    tolerance: float = 1e-12

    def passes(self, chain: Chain) -> int:
        """Return how often a step goes over all beads, for whoever wants to know what it costs."""
        del chain
        return self.leaps

    def plan(self) -> Plan:
        """Leaps of `Newton` between new velocities and a decision."""
        return Plan(
            BEGIN + self.leaps * WAY + END, self.dt, self.tolerance, self.potential,
            kT=self.kT, friction=math.inf, metric=self.ensemble == "stiff",
        )  # fmt: skip
