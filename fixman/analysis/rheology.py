"""Stress of bead-rod chains in dilute solution, and material functions from the stress.

A stress here is that of one chain, (dim, dim) in units of energy, positive if the chain pulls:
times the number of chains per volume it is a stress of the solution.  The mean stress at
equilibrium is zero: the pressure n_p kT is left out.  Chains drain freely: bead k has a friction
ζ_k of its own, and the solvent the velocity gradient κ, with v = κ x.  Stretching is positive in x,
shear is κ_xy.

Friction, flow, kT, ensemble and potential are those of ``stepper``, the `fixman.Brownian` that made
the frames.  For other frames make a stepper that describes the solvent; its dt does not matter.

Every configuration has two stresses, whose averages are the same in a steady flow.  X is the centre
of friction, K = 1/ζ, B the hard rows, S = (B K Bᵀ)⁻¹, and f the forces of potential and metric::

    Giesekus   σ = ½ (κ Q + Q κᵀ) ,    Q = Σ_k ζ_k y_k y_kᵀ ,    y_k = x_k − X             (1)
    Kramers    σ = −½ Σ_k (F_k y_kᵀ + y_k F_kᵀ) − kT [(n − 1) 1 − Σ_k (Bᵀ S B K)_kk]       (2)
               F = f − Bᵀ T ,    T = S (B (κ y + K f) + kT c) ,                            (3)
               c_l = tr[(K − K Bᵀ S B K) ∂²q_l]                                            (4)

F_k is the whole force on bead k except the solvent's, averaged over noise (`mechanics.drift`).
Kramers' stress is Giesekus' less ½ dQ/dt, averaged over later noise, and holds at any moment, also
at rest and in flows that change.  Giesekus' stress needs no forces and fluctuates little in slow
flows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fixman._common import arrays, statistics
from fixman._common.arrays import Array
from fixman.chains.chain import Chain, require_chain
from fixman.mechanics.drift import MeanForces, mean_forces
from fixman.mechanics.metric import fixman_force
from fixman.potentials import flows
from fixman.potentials.binding import bind
from fixman.simulation.observables import Mean, mean_with_error
from fixman.simulation.steppers import Brownian

__all__ = [
    "Relaxation", "Shear",
    "extensional_viscosity", "giesekus_stress", "instantaneous_viscosity", "kramers_stress",
    "relaxation_modulus", "shear_functions", "tensions",
]  # fmt: skip
__dir__ = __all__.copy  # completion shows public names alone


class Shear(NamedTuple):
    """Functions of steady shear at one rate γ̇, each with its standard error, of one chain."""

    viscosity: Mean  # η = σ_xy/γ̇
    first: Mean  # Ψ₁ = (σ_xx − σ_yy)/γ̇²
    second: Mean = Mean(0.0, 0.0)  # Ψ₂ = (σ_yy − σ_zz)/γ̇²; this in the plane


class Relaxation(NamedTuple):
    """Relaxation modulus and its integral up to t, with their standard errors, each (lags,)."""

    times: Array
    modulus: Array
    error: Array
    integral: Array
    integral_error: Array


def giesekus_stress(
    chain: Chain, x: ArrayLike, stepper: Brownian, *, times: ArrayLike | None = None
) -> Array:
    """½ (κ Q + Q κᵀ) of one chain, Q = Σ_k ζ_k (x_k − X)(x_k − X)ᵀ about the centre of friction.

    (..., dim, dim), symmetric, in units of energy; O(n) a frame.
    Averages of it are those of the stress in a steady flow.  In shear they are η = ½ Σ ζ⟨(y − Y)²⟩
    and Ψ₁ = Σ ζ⟨(x − X)(y − Y)⟩/γ̇; Ψ₂ is 0 without an error.

    Parameters
    ----------
    chain : Chain
        Free.
    x : (..., n, dim)
    stepper : Brownian
        The stepper that made the frames, or one that describes their solvent.
    times : (frames,), optional
        ``run.times`` of the frames, axis 0 of x; needed without a flow, or if the flow is a
        function of time.  The stress then has −½ dQ/dt by differences between frames; frames must
        be close, and only averages over many replicas are useful.  A jump of the flow is smeared
        over the next frames.
    """
    x, zeta, times = _checked(chain, x, stepper, times, free=True)
    kappa = _gradients(chain, x, stepper, times)
    if times is None and not kappa.any():
        raise ValueError("the stepper has no flow: take `kramers_stress`, or give times")
    away = _about_centre(x, zeta)
    Q = np.einsum("k,...ka,...kb->...ab", zeta, away, away)
    stress = _symmetric(kappa @ Q)  # (1)
    if times is not None:
        if len(times) < 2 or (np.diff(times) <= 0.0).any():
            raise ValueError(f"times must be those of two frames or more, ascending, got {times}")
        stress -= 0.5 * np.gradient(Q, times, axis=0)
    return stress


def kramers_stress(
    chain: Chain, x: ArrayLike, stepper: Brownian, *, times: ArrayLike | None = None
) -> Array:
    """Stress of one chain from the forces on its beads, those of the rods averaged over the noise.

    −½ Σ_k (F_k y_kᵀ + y_k F_kᵀ) − kT [(n − 1) 1 − Σ_k (Bᵀ S B K)_kk], symmetric, (2), y = x − X.

    Parameters and result are those of `giesekus_stress`; only a flow that is a function of time
    needs ``times``.  SingularConstraintError if the hard coordinates cannot be held in some frame,
    which is named.  O(n) a frame for chains and trees of bounded degree and for each ring, some
    60 ns a bead.
    """
    x, zeta, times = _checked(chain, x, stepper, times, free=True)
    found, solvent = _forces(chain, x, zeta, stepper, times)
    virial = np.einsum("...ka,...kb->...ab", found.total - solvent, _about_centre(x, zeta))
    rest = (chain.n - 1.0) * np.eye(chain.dim) - found.held
    return _symmetric(-virial) - stepper.kT * rest  # (2)


def tensions(
    chain: Chain, x: ArrayLike, stepper: Brownian, *, times: ArrayLike | None = None
) -> Array:
    """Tensions of the hard coordinates averaged over the noise; a stretched rod has a tension > 0.

    T of (3); f excludes the rods.  Tensions at rest are not zero: 2 kT/a for a rigid dumbbell in
    space, since its beads would fly apart.

    (..., n_hard), in the order of ``chain.hard``: forces of rods, torques of hard angles.  The
    chain may be any: on a fixed base y is x, and the flow rests at the base point; otherwise y is
    about the centre of friction.  Arguments and errors are those of `kramers_stress`.
    """
    x, zeta, times = _checked(chain, x, stepper, times)
    return _forces(chain, x, zeta, stepper, times)[0].tensions


def instantaneous_viscosity(chain: Chain, x: ArrayLike, stepper: Brownian) -> Array:
    """Viscosity of rods at the start of a flow, before their orientation changes, (...).

    The part of Kramers' stress that is proportional to the flow, averaged over all directions:
    Σ (B v)·S (B v)/((d + 2)(d − 1)) over an orthonormal basis of symmetric traceless E, where the
    velocities are v_k = E y_k.  It is ζa²/30 for a rigid dumbbell, 2/5 of its viscosity at rest.
    Relaxation moduli have a term η_∞ δ(t), which `relaxation_modulus` leaves out (Doyle, Shaqfeh &
    Gast 1997).  Arguments and errors are those of `kramers_stress`.
    """
    x, zeta, _ = _checked(chain, x, stepper, None, free=True)
    away = _about_centre(x, zeta)
    total = np.zeros(x.shape[:-2])
    for E in _traceless(chain.dim):
        flow = away @ E
        force = zeta[:, None] * flow
        total += ((force - mean_forces(chain, x, force, zeta, 0.0).total) * flow).sum(axis=(-2, -1))
    answer: Array = (total / ((chain.dim + 2) * (chain.dim - 1)))[()]
    return answer


def shear_functions(stress: ArrayLike, rate: float) -> Shear:
    """η, Ψ₁ and Ψ₂ of one chain from stresses (frames, ..., dim, dim) in steady shear κ_xy = γ̇.

    Axis 0 is time, the other leading axes are independent copies; errors are those of
    `fixman.observables.mean_with_error`.  Leave out the frames before the flow is steady.
    """
    stress, rate = _stresses(stress), _rate(rate)
    normal = np.moveaxis(np.diagonal(stress, axis1=-2, axis2=-1), -1, 0)
    differences = (normal[:-1] - normal[1:]) / rate**2
    return Shear(mean_with_error(stress[..., 0, 1] / rate), *map(mean_with_error, differences))


def extensional_viscosity(stress: ArrayLike, rate: float) -> Mean:
    """(σ_xx − σ_yy)/ε̇ of one chain from stresses (frames, ..., dim, dim) in steady extension.

    Extension along x is planar or uniaxial.  At small rates this is four times the shear viscosity
    if planar, three times if uniaxial.  Axes and errors as in `shear_functions`.
    """
    stress = _stresses(stress)
    return mean_with_error((stress[..., 0, 0] - stress[..., 1, 1]) / _rate(rate))


def relaxation_modulus(
    stress: ArrayLike, interval: float, *, kT: float = 1.0, lags: int | None = None
) -> Relaxation:
    """G(t) = ⟨σ_xy(0) σ_xy(t)⟩/kT of one chain from stresses at equilibrium (Green and Kubo).

    The stress is `kramers_stress` of a stepper without a flow; only its correlation is the response
    to a flow.  All directions of isotropic chains count:
    G = Σ_ab ⟨P_ab(0) P_ab(t)⟩/((d + 2)(d − 1) kT), P the traceless part.  The solvent drags rods
    along at once, which adds η_∞ δ(t) that no correlation shows, with η_∞ of
    `instantaneous_viscosity`:

        η = η_∞ + ∫₀^∞ G(t) dt ,   G*(ω) = iω (η_∞ + ∫₀^∞ G(t) e^(−iωt) dt) .

    ``stress`` (frames, replicas, dim, dim) has two replicas or more, whose scatter gives errors.
    ``interval`` is the time between frames, in which G should hardly change.  ``lags`` is the
    number of times from 0 on, by default half of the frames.
    """
    stress = _stresses(stress)
    if stress.ndim != 4 or stress.shape[1] < 2:
        said = "stress must be of two replicas or more, (frames, replicas, dim, dim)"
        raise ValueError(f"{said}, got {stress.shape}")
    frames, replicas, dim, _ = stress.shape
    interval, kT = arrays.positive(interval, "interval"), arrays.positive(kT, "kT")
    size = (frames + 1) // 2 if lags is None else arrays.positive_int(lags, "lags")
    if size > frames:
        raise ValueError(f"lags must be at most the number of frames, {frames}, got {lags}")
    basis, modulus = _traceless(dim), np.empty((size, replicas))
    for replica in range(replicas):  # one at a time bounds the memory
        parts = np.einsum("tab,mab->tm", stress[:, replica], basis)
        modulus[:, replica] = statistics.autocovariance(parts)[:size]
    modulus /= (np.arange(frames, frames - size, -1) * ((dim + 2) * (dim - 1) * kT))[:, None]
    growth = np.zeros_like(modulus)
    with np.errstate(over="ignore", invalid="ignore"):
        np.cumsum(0.5 * interval * (modulus[1:] + modulus[:-1]), axis=0, out=growth[1:])
        both = np.stack([modulus, growth])
        errors = both.std(axis=2, ddof=1) / np.sqrt(replicas)
        found = np.stack([both.mean(axis=2), errors], axis=1).reshape(4, size)
    if not np.isfinite(found).all():
        raise arrays.overflow("relaxation modulus", 0, ())
    return Relaxation(interval * np.arange(size), *found)


def _forces(
    chain: Chain, x: Array, zeta: Array, stepper: Brownian, times: Array | None
) -> tuple[MeanForces, Array]:
    """Mean forces on the beads, and what of these is the solvent's, ζ κ x."""
    kT, potential = stepper.kT, stepper.potential
    force = bind(chain, potential).force(x) if potential is not None else np.zeros_like(x)
    if stepper.ensemble != "mobility":
        force += fixman_force(chain, x, kT, inverse_masses=1.0 / zeta)
    if stepper.ensemble == "rigid":
        force -= fixman_force(chain, x, kT)
    kappa = _gradients(chain, x, stepper, times)
    solvent = np.zeros_like(x)
    if kappa.any():
        seen = x if chain.base == "fixed" else _about_centre(x, zeta)
        solvent = zeta[:, None] * np.einsum("...ab,...kb->...ka", kappa, seen)
    return mean_forces(chain, x, force + solvent, zeta, kT), solvent  # (3), (4)


def _about_centre(x: Array, zeta: Array) -> Array:
    centre = np.einsum("k,...ka->...a", zeta / zeta.sum(), x)
    return np.asarray(x - centre[..., None, :])


def _symmetric(a: Array) -> Array:
    return 0.5 * (a + np.swapaxes(a, -1, -2))


def _traceless(dim: int) -> Array:
    """Return an orthonormal basis (m, dim, dim) of the symmetric matrices without a trace."""
    units = np.eye(dim * dim).reshape(-1, dim, dim)
    trace = units.trace(axis1=1, axis2=2)[:, None, None]
    projector = (_symmetric(units) - trace * np.eye(dim) / dim).reshape(dim * dim, -1)
    values, vectors = np.linalg.eigh(projector)
    return np.asarray(vectors[:, values > 0.5].T.reshape(-1, dim, dim))


def _checked(
    chain: Chain, x: ArrayLike, stepper: Brownian, times: ArrayLike | None, free: bool = False
) -> tuple[Array, Array, Array | None]:
    require_chain(chain)
    if free and chain.base == "fixed":
        raise ValueError("a stress needs a free chain: the base of this chain pulls too")
    if not isinstance(stepper, Brownian):
        raise TypeError(f"stepper must be a fixman.Brownian, got {stepper!r:.80}")
    x = arrays.series(x, (chain.n, chain.dim), "x")
    zeta = arrays.one_or_each(stepper.friction, chain.n, "the stepper's friction")
    if times is not None:
        times = arrays.series(times, (), "times", 1)
        if x.ndim < 3 or times.shape != x.shape[:1]:
            raise ValueError(f"times must have shape (frames,) of x {x.shape}, got {times.shape}")
    return x, zeta, times


def _stresses(value: ArrayLike) -> Array:
    array = arrays.real(value, (), "stress")
    dim = 2 if array.shape[-1:] == (2,) else 3
    return arrays.series(array, (dim, dim), "stress", 1)


def _rate(value: float) -> float:
    rate = arrays.number(value, "rate")
    arrays.positive(abs(rate), "the size of rate")
    return rate


def _gradients(chain: Chain, x: Array, stepper: Brownian, times: Array | None) -> Array:
    """Velocity gradients that broadcast over the frames of x, which are at these times."""
    flow, dim = stepper.flow, chain.dim
    if flow is None:
        return np.zeros((dim, dim))
    if not callable(flow):
        return np.asarray(flows.table(flow, dim, range(1), stepper.dt)[0])
    if times is None:
        raise ValueError("the stepper's flow is a function of time: give times, those of the run")
    kappa = flows.at_times(flow, dim, times.tolist())
    return kappa[(slice(None), *(None,) * (x.ndim - 3))]
