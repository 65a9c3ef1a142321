"""Stress of bead-rod chains in dilute solution, and what rheologists make of it.

A stress here is what one chain adds, (dim, dim) in units of energy, positive where it pulls: times
the number of chains per volume it is a stress of the solution.  Its mean at equilibrium is zero, so
that a pressure n_p kT is left out.  Chains drain freely: bead k has a friction ζ_k of its own, and
the solvent the velocity gradient κ, ``flow``, with v = κ x.  Stretching is positive in x, shear is
κ_xy.

Every configuration has two stresses, whose averages are the same in a steady flow:

    Giesekus   σ = ½ (κ Q + Q κᵀ) ,                     Q = Σ_k ζ_k (x_k − X)(x_k − X)ᵀ
    Kramers    σ = −½ Σ_k (F_k x_kᵀ + x_k F_kᵀ) − kT [(n − 1) 1 − Σ_k (Bᵀ (B K Bᵀ)⁻¹ B K)_kk]

with X the centre of friction, K = 1/ζ, and F_k all forces on bead k but the solvent's, those of the
rods averaged over the noise (`fixman.drift`).  They differ by −½ dQ/dt, exactly, in the mean over
what happens next.  Giesekus' stress needs no forces and fluctuates little in slow flows; Kramers'
holds at any moment, also at rest and in flows that change.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fixman import _arrays
from fixman._arrays import Array
from fixman._binding import bind
from fixman.chain import Chain, require_chain
from fixman.drift import MeanForces, mean_forces
from fixman.metric import fixman_force
from fixman.observables import Mean, mean_with_error

__all__ = [
    "Relaxation",
    "Shear",
    "extensional_viscosity",
    "giesekus_stress",
    "instantaneous_viscosity",
    "kramers_stress",
    "relaxation_modulus",
    "shear_functions",
    "tensions",
]

Ensemble = Literal["mobility", "stiff", "rigid"]


class Shear(NamedTuple):
    """Functions of steady shear at one rate γ̇, each with its standard error, of one chain.

    viscosity : η = σ_xy/γ̇
    first, second : of the normal stresses, Ψ₁ = (σ_xx − σ_yy)/γ̇² and Ψ₂ = (σ_yy − σ_zz)/γ̇²; in
        the plane there is no second one, 0 ± 0
    """

    viscosity: Mean
    first: Mean
    second: Mean


class Relaxation(NamedTuple):
    """Relaxation modulus G(t) and its integral up to t, with their standard errors, each (lags,).

    The viscosity at rest is the integral where it no longer grows, and `instantaneous_viscosity`
    besides.
    """

    times: Array
    modulus: Array
    error: Array
    integral: Array
    integral_error: Array


# --- stress ---------------------------------------------------------------------------------------


def giesekus_stress(
    chain: Chain,
    x: ArrayLike,
    flow: ArrayLike,
    *,
    friction: ArrayLike = 1.0,
    interval: float | None = None,
) -> Array:
    """½ (κ Q + Q κᵀ) of one chain, Q = Σ_k ζ_k (x_k − X)(x_k − X)ᵀ about the centre of friction.

    Averages of it are those of the stress in a steady flow.  In shear they are η = ½ Σ ζ⟨(y − Y)²⟩
    and Ψ₁ = Σ ζ⟨(x − X)(y − Y)⟩/γ̇; Ψ₂ is 0 without an error.

    Parameters
    ----------
    chain : Chain
        Free.
    x : (..., n, dim)
    flow : (dim, dim) or (..., dim, dim)
        The velocity gradient κ, in every frame where it changes.
    friction : float or (n,)
        ζ of every bead.
    interval : float, optional
        In a flow that changes: the time between frames, which are axis 0 of x.  The stress then has
        −½ dQ/dt by central differences, which only averages over many replicas tell.

    Returns
    -------
    ndarray (..., dim, dim)
        In units of energy, symmetric.

    Notes
    -----
    O(n) a frame.
    """
    x, zeta = _configurations(chain, x, friction)
    require_free(chain)
    kappa = _gradients(chain, x, flow)
    away = _about_centre(x, zeta)
    Q = np.einsum("k,...ka,...kb->...ab", zeta, away, away)
    stress = _symmetric(kappa @ Q)
    if interval is not None:
        step = _arrays.positive(interval, "interval")
        if x.ndim < 3 or len(x) < 2:
            raise ValueError(
                f"x must have shape (frames, ..., {chain.n}, {chain.dim}) with two frames or more "
                f"for a rate of change, got {x.shape}"
            )
        stress -= 0.5 * np.gradient(Q, step, axis=0)
    return stress


def kramers_stress(
    chain: Chain,
    x: ArrayLike,
    flow: ArrayLike | None = None,
    *,
    kT: float = 1.0,
    friction: ArrayLike = 1.0,
    ensemble: Ensemble = "mobility",
    potential: Any = None,
) -> Array:
    """Stress of one chain from the forces on its beads, those of the rods averaged over the noise.

    −½ Σ_k (F_k x_kᵀ + x_k F_kᵀ) − kT [(n − 1) 1 − Σ_k (Bᵀ (B K Bᵀ)⁻¹ B K)_kk], symmetric.  The part
    that is proportional to the flow is there at once when the flow begins and gone when it ends;
    ``flow=None`` leaves it out.

    Parameters
    ----------
    chain : Chain
        Free.
    x : (..., n, dim)
    flow : (dim, dim) or (..., dim, dim), optional
        As in `giesekus_stress`, in which the chain is at this moment; None is at rest.
    kT, friction, ensemble, potential
        As of the stepper that x comes from, `fixman.Brownian`: they say which forces there are.

    Returns
    -------
    ndarray (..., dim, dim)
        In units of energy, symmetric.

    Raises
    ------
    SingularConstraintError
        If the hard coordinates cannot be held in some frame, which is named.

    Notes
    -----
    O(n) a frame for chains and trees of bounded degree and for each ring: some 60 ns a bead.
    """
    x, zeta = _configurations(chain, x, friction)
    require_free(chain)
    energy = _arrays.positive(kT, "kT")
    options: Any = {"kT": energy, "ensemble": ensemble, "potential": potential}
    found, solvent = _forces(chain, x, zeta, flow, **options)
    virial = np.einsum("...ka,...kb->...ab", found.total - solvent, _about_centre(x, zeta))
    rest = (chain.n - 1.0) * np.eye(chain.dim) - found.held
    return _symmetric(-virial) - energy * rest


def tensions(
    chain: Chain,
    x: ArrayLike,
    flow: ArrayLike | None = None,
    *,
    kT: float = 1.0,
    friction: ArrayLike = 1.0,
    ensemble: Ensemble = "mobility",
    potential: Any = None,
) -> Array:
    """Tensions of the hard coordinates averaged over the noise; a stretched rod has one above 0.

    T = (B K Bᵀ)⁻¹ (B (κ x + K F) + kT c), c_l = tr(D ∂²q_l), D = K − K Bᵀ (B K Bᵀ)⁻¹ B K.  At rest
    they are not zero: of a rigid dumbbell 2 kT/a in space, since its beads would fly apart.

    Parameters
    ----------
    chain : Chain
        On a fixed base the flow is v = κ x, and at rest in the base point; otherwise about the
        centre of friction.
    x, flow, kT, friction, ensemble, potential
        As in `kramers_stress`.

    Returns
    -------
    ndarray (..., n_hard)
        In the order of ``chain.hard``: forces of rods, torques of hard angles.

    Raises
    ------
    SingularConstraintError
        As `kramers_stress`.
    """
    x, zeta = _configurations(chain, x, friction)
    options: Any = {"kT": _arrays.positive(kT, "kT"), "ensemble": ensemble, "potential": potential}
    return _forces(chain, x, zeta, flow, **options)[0].tensions


def instantaneous_viscosity(chain: Chain, x: ArrayLike, *, friction: ArrayLike = 1.0) -> Array:
    """Viscosity that rods have at once, before their orientation changes, (...).

    The part of Kramers' stress that is proportional to the flow, averaged over all directions: with
    y_k = E x_k, Σ (B y)·(B K Bᵀ)⁻¹ (B y)/((d + 2)(d − 1)) over an orthonormal basis of symmetric
    traceless E.  ζa²/30 of a rigid dumbbell, which is 2/5 of its viscosity at rest.  Relaxation
    moduli have it as η_∞ δ(t), no part of what `relaxation_modulus` gives (Doyle, Shaqfeh & Gast
    1997).

    Parameters
    ----------
    chain : Chain
        Free.
    x : (..., n, dim)
    friction : float or (n,)

    Raises
    ------
    SingularConstraintError
        As `kramers_stress`.
    """
    x, zeta = _configurations(chain, x, friction)
    require_free(chain)
    away = _about_centre(x, zeta)
    total = np.zeros(x.shape[:-2])
    for E in _traceless(chain.dim):
        y = away @ E
        force = zeta[:, None] * y
        total += ((force - mean_forces(chain, x, force, zeta, 0.0).total) * y).sum(axis=(-2, -1))
    answer: Array = (total / ((chain.dim + 2) * (chain.dim - 1)))[()]
    return answer


# --- functions of steady flow ---------------------------------------------------------------------


def shear_functions(stress: ArrayLike, rate: float) -> Shear:
    """η, Ψ₁ and Ψ₂ of one chain from stresses (frames, ..., dim, dim) in steady shear κ_xy = γ̇.

    Axis 0 is time, the other leading axes are independent copies; errors are those of
    `fixman.observables.mean_with_error`.  Leave out the frames before the flow is steady.
    """
    stress = _series(stress)
    gamma = _rate(rate)
    normal = np.diagonal(stress, axis1=-2, axis2=-1)
    second = Mean(0.0, 0.0)
    if stress.shape[-1] == 3:
        second = mean_with_error((normal[..., 1] - normal[..., 2]) / gamma**2)
    return Shear(
        mean_with_error(stress[..., 0, 1] / gamma),
        mean_with_error((normal[..., 0] - normal[..., 1]) / gamma**2),
        second,
    )


def extensional_viscosity(stress: ArrayLike, rate: float) -> Mean:
    """(σ_xx − σ_yy)/ε̇ of one chain from stresses (frames, ..., dim, dim) in steady extension.

    Of x at the rate ε̇, planar or uniaxial.  At small rates it is four times the shear viscosity if
    planar, three times if uniaxial.  Axes and errors as in `shear_functions`.
    """
    stress = _series(stress)
    return mean_with_error((stress[..., 0, 0] - stress[..., 1, 1]) / _rate(rate))


# --- relaxation -----------------------------------------------------------------------------------


def relaxation_modulus(
    stress: ArrayLike, interval: float, *, kT: float = 1.0, lags: int | None = None
) -> Relaxation:
    """G(t) = ⟨σ_xy(0) σ_xy(t)⟩/kT of one chain from stresses at equilibrium (Green and Kubo).

    The stress is `kramers_stress` without a flow: no other has the response to a flow as its
    correlation.  Of isotropic chains all directions count: G = Σ_ab ⟨P_ab(0) P_ab(t)⟩ /
    ((d + 2)(d − 1) kT), P the traceless part.  The solvent drags rods along at once, which adds
    η_∞ δ(t) that no correlation shows, with η_∞ of `instantaneous_viscosity`:

        η = η_∞ + ∫₀^∞ G(t) dt ,   G*(ω) = iω (η_∞ + ∫₀^∞ G(t) e^(−iωt) dt) .

    Parameters
    ----------
    stress : (frames, replicas, dim, dim)
        Two replicas or more: errors are from their scatter.
    interval : float
        Time between frames.  The integral is the trapezoidal rule's: take it so short that G hardly
        changes in between.
    kT : float
    lags : int, optional
        How many times from 0 on; half of the frames by default.

    Returns
    -------
    Relaxation

    Notes
    -----
    O(frames ln frames) a replica.
    """
    stress = _series(stress)
    step = _arrays.positive(interval, "interval")
    energy = _arrays.positive(kT, "kT")
    if stress.ndim != 4 or stress.shape[1] < 2:
        raise ValueError(
            "stress must have shape (frames, replicas, dim, dim) with two replicas or more, whose "
            f"scatter is the error, got {stress.shape}"
        )
    frames, replicas, dim, _ = stress.shape
    size = (frames + 1) // 2 if lags is None else _arrays.positive_int(lags, "lags")
    if size > frames:
        raise ValueError(f"lags must be at most the number of frames, {frames}, got {lags}")
    basis = np.array(_traceless(dim))
    padded = 1 << (2 * frames - 1).bit_length()  # so that the end does not meet the start
    pairs = (np.arange(frames, frames - size, -1) * ((dim + 2) * (dim - 1) * energy))[:, None]
    modulus = np.empty((size, replicas))
    for replica in range(replicas):  # one at a time bounds the memory
        parts = np.einsum("tab,mab->tm", stress[:, replica], basis)
        spectrum = np.fft.rfft(parts, padded, axis=0)
        power = (spectrum.real**2 + spectrum.imag**2).sum(axis=1)
        modulus[:, replica] = np.fft.irfft(power, padded)[:size]
    modulus /= pairs
    growth = np.zeros_like(modulus)
    np.cumsum(0.5 * step * (modulus[1:] + modulus[:-1]), axis=0, out=growth[1:])
    return Relaxation(step * np.arange(size), *_over_replicas(modulus), *_over_replicas(growth))


def _over_replicas(values: Array) -> tuple[Array, Array]:
    return values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])


# --- parts ----------------------------------------------------------------------------------------


def _forces(
    chain: Chain,
    x: Array,
    zeta: Array,
    flow: ArrayLike | None,
    *,
    kT: float,
    ensemble: Ensemble,
    potential: Any,
) -> tuple[MeanForces, Array]:
    """Mean forces on the beads, and what of these is the solvent's, ζ κ x."""
    force = bind(chain, potential).force(x) if potential is not None else np.zeros_like(x)
    if ensemble in ("stiff", "rigid"):
        force += fixman_force(chain, x, kT, inverse_masses=1.0 / zeta)
        if ensemble == "rigid":
            force -= fixman_force(chain, x, kT)
    elif ensemble != "mobility":
        raise ValueError(f"ensemble must be 'mobility', 'stiff' or 'rigid', got {ensemble!r}")
    solvent = np.zeros_like(x)
    if flow is not None:
        seen = x if chain.base == "fixed" else _about_centre(x, zeta)
        kappa = _gradients(chain, x, flow)
        solvent = zeta[:, None] * np.einsum("...ab,...kb->...ka", kappa, seen)
    return mean_forces(chain, x, force + solvent, zeta, kT), solvent


def _about_centre(x: Array, zeta: Array) -> Array:
    """Positions about the centre of friction."""
    centre = np.einsum("k,...ka->...a", zeta / zeta.sum(), x)
    away: Array = x - centre[..., None, :]
    return away


def _symmetric(a: Array) -> Array:
    return 0.5 * (a + np.swapaxes(a, -1, -2))


def _traceless(dim: int) -> list[Array]:
    """Orthonormal basis of the symmetric traceless matrices."""
    basis = []
    for a in range(dim):
        for b in range(a):
            E = np.zeros((dim, dim))
            E[a, b] = E[b, a] = np.sqrt(0.5)
            basis.append(E)
        if a:
            diagonal = np.where(np.arange(dim) < a, 1.0, 0.0)
            diagonal[a] = -a
            basis.append(np.diag(diagonal / np.sqrt(a * (a + 1.0))))
    return basis


# --- arguments ------------------------------------------------------------------------------------


def require_free(chain: Chain) -> None:
    """Refuse chains that hang on something, whose stress is not theirs alone."""
    if chain.base == "fixed":
        raise ValueError(
            "a stress is of free chains: what holds the base of this one pulls too; `tensions` are "
            "of any chain"
        )


def _configurations(chain: Chain, x: ArrayLike, friction: ArrayLike) -> tuple[Array, Array]:
    require_chain(chain)
    tail = (chain.n, chain.dim)
    x = _arrays.real(x, tail, "x")
    _arrays.require_finite(x, tail, "x")
    zeta = np.array(_arrays.real(friction, (), "friction"))
    if zeta.ndim == 0:
        zeta = np.full(chain.n, float(zeta))
    if zeta.shape != (chain.n,):
        raise ValueError(
            f"friction must be one number or have shape ({chain.n},), got {zeta.shape}"
        )
    good = (zeta >= 1e-100) & (zeta <= 1e100)
    if not good.all():
        k = int(np.argmin(good))
        raise ValueError(
            f"the friction of bead {k} is {zeta[k]}: frictions must be positive, in a unit that "
            "keeps them within 1e±100"
        )
    return x, zeta


def _gradients(chain: Chain, x: Array, flow: ArrayLike) -> Array:
    """Velocity gradients that broadcast over the frames of x."""
    if callable(flow):
        raise TypeError(
            "flow must be an array here: of a function of time pass its values at the frames, "
            "(frames, 1, dim, dim)"
        )
    tail = (chain.dim, chain.dim)
    kappa = _arrays.real(flow, tail, "flow", "row")
    _arrays.require_finite(kappa, tail, "flow", "row")
    lead = x.shape[:-2]
    if _arrays.common_lead(kappa.shape[:-2], lead) != lead:
        raise ValueError(f"flow has more frames than x, {kappa.shape[:-2]} for {lead}")
    return kappa


def _series(stress: ArrayLike) -> Array:
    array = _arrays.real(stress, (), "stress")
    if array.ndim < 3 or array.shape[-2:] not in ((2, 2), (3, 3)) or not array.size:
        raise ValueError(
            f"stress must have shape (frames, ..., dim, dim), none of them 0, got {array.shape}"
        )
    _arrays.require_finite(array, array.shape, "stress", "frame")
    return array


def _rate(rate: float) -> float:
    found = _arrays.number(rate, "rate")
    if not 1e-100 <= abs(found) <= 1e100:
        raise ValueError(
            f"rate must not be 0, and within 1e±100, got {rate!r:.80}: at rest there is "
            "`relaxation_modulus`"
        )
    return found
