"""Steppers that follow a schedule: Newton, Langevin, overdamped, and hybrid Monte Carlo."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays
from fixman._common.arrays import Array
from fixman.chains.chain import Chain
from fixman.chains.system import System
from fixman.errors import ConstraintSolveError
from fixman.kernels.algebra.random import WORDS, fill_normals
from fixman.kernels.simulation.stepping import DECIDE, RESCUES
from fixman.mechanics.refusals import raise_failure
from fixman.simulation.steppers import moving
from fixman.simulation.steppers.moving import Moving, Schedule, schedule
from fixman.simulation.steppers.stepper import Described, State, replicated
from fixman.simulation.steppers.together import Together

FLOWS = 1 << 16  # steps for which the values of a flow that is a function are kept


class Scheduled(Described):
    """A stepper that is told apart from others by its `schedule` and a few constants.

    A schedule has the letter of each move (`kernels.simulation.stepping`) and its time in units of
    `stride`; forces and projections ignore the time.  After a drift, forces must be found again
    before a kick.
    """

    SCHEDULE: ClassVar[Schedule]
    SAMPLED: ClassVar[str] = "rigid"  # the ensemble without a Fixman force
    OVERDAMPED: ClassVar[bool] = False  # friction coefficients have the place of masses
    thermal: ClassVar[str] = "dt √(kT/m)"  # how far a bead moves in a step by itself

    dt: float
    kT: Any
    tolerance: float
    ensemble: str = "rigid"
    flow: Any = None  # see `flows.checked`
    drifting: bool = True  # whether drawn velocities keep the motion of the centre of mass

    @property
    def schedule(self) -> Schedule:
        """The moves of a step."""
        return self.SCHEDULE

    @property
    def stride(self) -> float:
        """The unit of time of the schedule."""
        return math.sqrt(2.0 * self.dt) if self.OVERDAMPED else self.dt

    @property
    def rate(self) -> float:
        """The rate at which noise makes velocities forgotten."""
        return math.inf

    @property
    def metric(self) -> bool:
        """Whether the Fixman force is added."""
        return self.ensemble != self.SAMPLED

    @property
    def rival(self) -> bool:
        """Whether the Fixman force of the chain's masses is subtracted."""
        return self.metric and self.ensemble == "rigid"

    @property
    def decides(self) -> bool:
        """Whether moves are tried, and perhaps refused."""
        return any(letter == DECIDE for letter, _ in self.schedule)

    def inertia(self, chain: Chain) -> Array:
        """Return masses (n,), or what stands for them."""
        return chain.masses

    def _start(self, chain: Any, state: State, v0: ArrayLike | None, known: bool = False) -> None:
        """Find velocities; ``known`` says that it was looked at how long steps are."""
        if self.decides:
            state.tally = np.tile([0.0, 0.0, self.dt], (len(state.x), 1))
        own = getattr(self.potential, "warn_of_long_steps", None)  # of a potential that knows them
        known = known or (own is not None and own(chain, self))
        if isinstance(chain, System):
            Together.of(chain, state, self).start(state, v0, known)
            return
        state.v = self._velocities(chain, state, v0)
        prepared = Moving.of(chain, state, self)
        begun = prepared.run(state, 0, 1)[0]
        state.v = begun.v  # projected
        for r in np.flatnonzero(~np.isfinite(state.v).all(axis=(1, 2)))[:1].tolist():
            raise_failure(chain, state.x, r)
        for r in np.flatnonzero(np.isnan(begun.tally).any(axis=1))[:1].tolist():
            prepared.bound.energy(state.x)  # says of which configuration it is not finite
            raise_failure(chain, state.x, r)
        if not known:
            moving.warn_of_long_steps(chain, state, self)

    def _velocities(self, chain: Chain, state: State, v0: ArrayLike | None) -> Array:
        """Repeat v0, or draw velocities from the distribution of Maxwell."""
        if v0 is not None:
            return replicated(v0, len(state.x), chain, "v0")
        if self.kT is None:
            name = type(self).__name__
            raise ValueError(f"{name} needs velocities to start with: give v0, or kT to draw them")
        v = np.empty_like(state.x)
        for r in range(len(v)):
            fill_normals(state.random.reshape(-1), WORDS * r, v[r].size, v[r].reshape(-1), 0, 1)
        v *= np.sqrt(self.kT * (1.0 / self.inertia(chain)))[:, None]
        if not self.drifting and chain.base == "free":  # a projection leaves the momentum alone
            v -= np.average(v, axis=1, weights=chain.masses)[:, None]
        return v

    def _advance(self, chain: Chain | System, state: State, steps: int, workers: int) -> None:
        if isinstance(chain, System):
            Together.of(chain, state, self).run(state, steps, workers)
            return
        prepared = Moving.of(chain, state, self)
        moved, end = state, state.step + steps
        failures: list[tuple[int, int]] = []
        while moved.step < end and not failures:
            ahead = min(FLOWS, end - moved.step) if callable(self.flow) else steps
            moved, failures = prepared.run(moved, ahead, workers)
        prepared.bound.check()
        if failures:
            (step, replica), most = min(failures), 2**RESCUES
            if self.potential is not None:
                prepared.bound.check(state.x[replica])
            cause, at = moving.cause_of(prepared.bound, self, state, replica, moved.x[replica])
            failed = f"step {step} of replica {replica} has no solution, not even in {most} pieces"
            if not prepared.bound.chain.hard.size:
                failed = f"by step {step} positions of replica {replica} are no finite numbers"
            raise ConstraintSolveError(failed, ": " + cause, step=step, replica=replica, **at)
        state.x, state.v, state.random, state.step = moved.x, moved.v, moved.random, moved.step
        state.tally = moved.tally


@dataclass(frozen=True, repr=False)
class Newton(Scheduled):
    """Constrained Newton dynamics by RATTLE, the velocity Verlet of constraints (Andersen 1983).

    Second order in dt, time-reversible and symplectic: the energy fluctuates by O(dt²) without
    drift.  O(n) a step.  A step so long that the constraints have no solution is done in 2, 4, 8, …
    pieces under the same forces: rare fast moments cost some energy and do not end a run.

    Parameters
    ----------
    dt : float
        Time step; 0.02 in units of L √(m/kT) is careful, 0.1 still stable.  Hard angles leave
        lighter and faster motions, which need half of that.
    kT : float, optional
        Temperature of the velocities that are drawn if none are given.
    potential : optional
        Energies and forces, see `fixman.potentials`; an object of your own with ``energy(x)`` and
        ``force(x)`` works as well, at the price of a call to Python every step.
    drifting : bool
        Whether drawn velocities of a free chain keep the motion of the centre of mass.
    tolerance : float
        Largest relative error of a bond length, rounding apart.
    """

    NAME = "newton"
    SCHEDULE = schedule("kick/2 drift force kick/2 project")  # whose second half kick is projected
    rate = 0.0  # nothing is forgotten

    dt: float
    _: KW_ONLY
    kT: float | None = None
    potential: Any = None
    drifting: bool = False
    tolerance: float = 1e-12


@dataclass(frozen=True, repr=False)
class Langevin(Scheduled):
    """Constrained Langevin dynamics by g-BAOAB (Leimkuhler & Matthews 2016).

    dv = (f / m − γ v) dt + √(2 γ kT / m) dW on the constraint manifold.  Averages are off by
    O(dt²).  The rigid ensemble is what constraints sample by themselves, ρ ∝ √det G^aa e^(−U/kT);
    the stiff one, the limit of infinitely stiff springs, needs the exact Fixman force
    −½ kT ∂ ln det H^bb / ∂x, which is added.  O(n) a step.

    Parameters
    ----------
    dt : float
        Time step, up to 0.1 in units of L √(m/kT); the bias of a trimer's ⟨c²⟩ is −0.02 dt² (rigid)
        or −0.04 dt² (stiff) in these units.  Above 0.15 there is a warning: the ensemble may be
        wrong though the temperature is right.
    kT : float
    friction : float
        The rate γ at which velocities are forgotten.
    ensemble : "rigid" or "stiff"
    potential, tolerance
        As for `Newton`.
    """

    NAME = "langevin"
    # B A O P, A F B P: half steps B are at the two ends, so that positions and velocities belong to
    # one time; P projects velocities, and F finds the forces of the next B.
    SCHEDULE = schedule("kick/2 drift/2 noise project drift/2 force kick/2 project")

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    friction: float = 1.0
    ensemble: Literal["rigid", "stiff"] = "rigid"
    potential: Any = None
    tolerance: float = 1e-12

    @property
    def rate(self) -> float:
        """The friction."""
        return self.friction


# With h = √(2 dt) and ζ for m, h²/2 is the time: half a kick and a drift, or a kick and half a
# drift, are dt f/ζ, noise and a drift √(2 dt kT/ζ) ξ.  But for constraints, with
# Δ(x) = dt f(x)/ζ + √(2 dt kT/ζ) ξ:
SCHEDULES = {
    # x ← x + dt f(x)/ζ + ½ √(2 dt kT/ζ) (ξ + ξ′): half of the noise of the last step and half of a
    # new one; g-BAOAB where velocities are forgotten at once, with its two kicks in one
    "geodesic": schedule("force kick drift/2 noise project drift/2"),
    # x½ = x + ½ Δ(x), x ← x + Δ(x½) with the same ξ and the constraints' B(x½)
    "midpoint": schedule("force mark noise kick/2 project drift/2 force echo kick/2 project leap"),
    # x ← x + Δ(x)
    "liu": schedule("force noise kick/2 project drift"),
}


def _frictions(value: Any, name: str) -> float | tuple[float, ...]:
    array = arrays.real(value, (), name)
    if array.ndim > 1 or not array.size:
        raise ValueError(f"{name} must be one number or one for each bead, got shape {array.shape}")
    if not array.ndim:
        return arrays.positive(float(array), name)
    each = enumerate(array.tolist())
    return tuple(arrays.positive(zeta, f"{name} of bead {k}") for k, zeta in each)


@dataclass(frozen=True, repr=False)
class Brownian(Scheduled):
    """Overdamped dynamics of a chain with constraints, also in a homogeneous flow.

    dx = P ([v∞(x) + f/ζ] dt + √(2 kT/ζ) ∘ dW), Stratonovich, on the constraint manifold, with
    P = 1 − ζ⁻¹ Bᵀ (B ζ⁻¹ Bᵀ)⁻¹ B and no hydrodynamic interaction.  Friction, not mass, sets the
    metric: without added forces the dynamics samples √det(B ζ⁻¹ Bᵀ) e^(−U/kT) δ(q_b) dx, the
    mobility ensemble (Hinch 1994).  All schemes are of first weak order in dt.  O(n) a step.

    Parameters
    ----------
    dt : float
        Time step, up to 0.005 in units of ζ L²/kT, where ⟨c²⟩ of a trimer is off by −0.0005
        (geodesic), +0.001 (midpoint) or −0.0025 (Liu).  Longer steps raise a warning.
    kT : float
    friction : float or (n,)
        The friction coefficient ζ, the same for all beads or one for each of them.
    ensemble : "mobility", "stiff" or "rigid"
        "stiff", of springs in the limit of infinite stiffness, adds the force
        −½ kT ∂ ln det(B ζ⁻¹ Bᵀ)/∂x; "rigid", of constraints and the chain's masses, adds
        −½ kT ∂ [ln det(B ζ⁻¹ Bᵀ) − ln det(B M⁻¹ Bᵀ)]/∂x, which is 0 if ζ ∝ m.
    scheme : "geodesic", "midpoint" or "liu"
        "geodesic", best at equilibrium: geodesic motion and noise in turn, g-BAOAB at infinite
        friction (Leimkuhler & Matthews 2016).  "midpoint", for flows: constraints along B at the
        midpoint of Euler's rule (Fixman 1978; Grassia, Hinch & Nitsche 1995; Morse 2004).  "liu",
        for reference: constraints along B at the beginning (Liu 1989).
    flow : (d, d) or function, optional
        Velocity gradient κ of v∞ = κ x, see `fixman.flows`, or a function that returns κ at a time,
        called once a step for the middle of the step.  On a free chain x is measured from the
        centre of friction.
    potential, tolerance
        As for `Newton`.

    Notes
    -----
    There are no velocities: ``v`` of a state or a run is the last displacement over its share of
    √(2 dt).
    """

    NAME = "brownian"
    NO_VELOCITIES = "overdamped dynamics has no velocities to start with"
    SAMPLED = "mobility"
    OVERDAMPED = True
    thermal = "√(2 kT dt/ζ)"
    CHECKS = Scheduled.CHECKS | {"friction": _frictions}

    dt: float
    _: KW_ONLY
    kT: float = 1.0
    friction: Any = 1.0
    ensemble: Literal["mobility", "stiff", "rigid"] = "mobility"
    scheme: Literal["geodesic", "midpoint", "liu"] = "geodesic"
    flow: Any = None
    potential: Any = None
    tolerance: float = 1e-12

    @property
    def schedule(self) -> Schedule:
        """The moves of the scheme."""
        return SCHEDULES[self.scheme]

    def inertia(self, chain: Chain) -> Array:
        """Return friction coefficients (n,)."""
        return arrays.one_or_each(self.friction, chain.n, "friction")


@dataclass(frozen=True, repr=False)
class HybridMonteCarlo(Scheduled):
    """Hybrid Monte Carlo on the constraint manifold: exact for any time step.

    A step draws velocities at the temperature kT, makes ``leaps`` steps of `Newton`, and accepts
    the result with probability min(1, e^(−ΔE/kT)), or stays (Duane et al. 1987; with constraints
    Hartmann 2008).  E is the kinetic and potential energy, plus ½ kT ln det H^bb in the stiff
    ensemble, the limit of infinitely stiff springs.  A leap without a solution, or whose way back
    is not found, is refused, since long steps would otherwise bias averages (Zappa, Holmes-Cerf &
    Goodman 2018; Lelièvre, Rousset & Stoltz 2019).  O(n) a leap.  In a system all chains move
    together, and one decision by the sum of their energies is made for all.

    Parameters
    ----------
    dt : float
        Time step of a leap: 0.1 to 0.2 in units of L √(m/kT), less for long chains, steep
        potentials and hard angles, so that `Run.acceptance` is between 60 and 95 %.
    kT : float
    leaps : int
        Leaps in a step; leaps · dt should be about the time in which the sampled quantity changes.
    ensemble : "rigid" or "stiff"
    potential : optional
        As for `Newton`.  A potential of your own needs an energy; infinite energy is a wall.
    tolerance : float

    Notes
    -----
    ``State.tally`` counts the steps that are tried and accepted; ``State.v`` are the velocities
    at the end of an accepted path, or those that a refused step drew.
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
        """Return how often a step goes over all beads."""
        return self.leaps

    @property
    def schedule(self) -> Schedule:
        """Leaps of `Newton`, each with its way back, between new velocities and a decision."""
        leap = Newton.SCHEDULE + schedule("return")
        return schedule("force noise project remember") + self.leaps * leap + schedule("decide")
