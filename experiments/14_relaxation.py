"""Longest relaxation time of freely jointed chains against the number of beads: a power of 2.

From the autocorrelation of the end-to-end vector at equilibrium, where only the slowest motion is
left in it.  The line is Rouse's chain whose springs have the rods' mean square length,
zeta a^2/(12 kT sin^2(pi/2N)): no theory of rods, of which two beads need 1/4, but what long chains
of them come near to.  The lower panel has the relaxation modulus of ten beads, Green and Kubo's way
to the viscosity.
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman import observables, rheology

BEADS = (2, 3, 5, 7, 10, 14, 20, 28)
REPLICAS = 512
DT = 0.004
FRAMES_PER_TIME = 16  # frames in one of Rouse's relaxation times
TIMES = 24.0  # of these a replica is followed
FITTED = (0.6, 1.6)  # Rouse's times between which the decay is taken
LONG = 7  # beads, from which on the power is fitted
MODULUS = 10  # beads
BATCHES = 4


def rouse(beads: np.ndarray | int) -> np.ndarray:
    return 1.0 / (12.0 * np.sin(np.pi / (2.0 * np.asarray(beads))) ** 2)


def correlation(R: np.ndarray, lags: int) -> np.ndarray:
    """⟨R(0)·R(t)⟩ of every replica, (lags, replicas), of R (frames, replicas, 3)."""
    frames = len(R)
    spectrum = np.fft.rfft(R, 2 * frames, axis=0)
    power = (spectrum.real**2 + spectrum.imag**2).sum(axis=-1)
    pairs = np.arange(frames, frames - lags, -1)[:, None]
    return np.fft.irfft(power, 2 * frames, axis=0)[:lags] / pairs


def relaxation(beads: int, quick: bool) -> tuple[float, float, np.ndarray]:
    """Return the longest relaxation time, its standard error, and the correlation (t, C)."""
    chain = fx.Chain.linear(beads)
    replicas = 32 if quick else REPLICAS
    guide = float(rouse(beads))
    dt = min(DT, guide / (4 * FRAMES_PER_TIME))
    every = round(guide / FRAMES_PER_TIME / dt)
    rng = np.random.default_rng([14, beads])
    stepper = fx.Brownian(dt, scheme="midpoint")
    state = stepper.start(chain, fx.random_walks(chain, replicas, rng=rng), None, replicas, rng)
    R = []
    for _ in range(round(TIMES * FRAMES_PER_TIME) // (4 if quick else 1)):
        stepper.advance(chain, state, every, workers=2)
        R.append(observables.end_to_end(chain, state.x))
    first, last = (round(share * guide / (every * dt)) for share in FITTED)
    C = correlation(np.array(R), last + 1)

    def time(C: np.ndarray) -> float:
        return (last - first) * every * dt / np.log(C[first] / C[last])

    # Jackknife over groups of replicas.
    groups = np.array_split(np.arange(replicas), 16)
    without = [time(np.delete(C, group, axis=1).mean(axis=1)) for group in groups]
    error = np.sqrt(15.0 / 16.0 * ((without - np.mean(without)) ** 2).sum())
    mean = C.mean(axis=1)
    return time(mean), float(error), np.stack([np.arange(last + 1) * every * dt, mean / mean[0]])


def modulus(quick: bool) -> tuple[rheology.Relaxation, float, float]:
    """Return the relaxation modulus, the part of the viscosity that is there at once, its error."""
    chain = fx.Chain.linear(MODULUS)
    replicas, frames = (16, 400) if quick else (256, 10_000)
    stepper = fx.Brownian(0.0025, scheme="midpoint")
    found, at_once = [], []
    for batch in range(BATCHES):
        rng = np.random.default_rng([14, batch, 1])
        state = stepper.start(chain, fx.random_walks(chain, replicas, rng=rng), None, replicas, rng)
        stepper.advance(chain, state, 200 if quick else 2000, workers=2)
        stress = np.empty((frames, replicas, 3, 3))
        for frame in range(frames):
            stepper.advance(chain, state, 8, workers=2)
            stress[frame] = rheology.kramers_stress(chain, state.x, stepper)
            if frame % 50 == 0:
                at_once.append(rheology.instantaneous_viscosity(chain, state.x, stepper))
        found.append(rheology.relaxation_modulus(stress, 0.02, lags=min(frames, 450)))
    values = [np.mean(one, axis=0) for one in zip(*found, strict=True)]
    for k in (2, 4):
        values[k] /= np.sqrt(BATCHES)
    mean = observables.mean_with_error(np.array(at_once))
    return rheology.Relaxation(*values), mean.value, mean.error


def draw(
    out: Output, times: np.ndarray, G: rheology.Relaxation, power: tuple[float, float]
) -> None:
    with plot.style():
        fig, (upper, lower) = panels("Long chains of rods relax nearly as in Rouse's model", 1, 2)
        line = np.arange(2, 32)
        upper.plot(line, rouse(line), color="0.5", linewidth=0.9, label="Rouse, same ⟨R²⟩")
        upper.errorbar(
            times[:, 0], times[:, 1], times[:, 2], fmt="o", color=plot.PALETTE[0],
            label=rf"rods, $\propto N^{{{power[0]:.2f} \pm {power[1]:.2f}}}$",
        )  # fmt: skip
        upper.set_xlabel("beads  $N$")
        upper.set_ylabel(r"$\tau\,kT/\zeta a^2$")
        seen = np.flatnonzero((G.modulus > 2.0 * G.error) & (G.times > 0.0) & (G.times < 6.0))
        seen = np.unique(seen[np.geomspace(1, seen.size, 30).astype(int) - 1])
        lower.errorbar(
            G.times[seen], G.modulus[seen], G.error[seen], fmt=".",
            color=plot.PALETTE[1], label=f"{MODULUS} beads",
        )  # fmt: skip
        early = np.array([0.05, 0.6])
        lower.plot(early, 1.05 * early**-0.5, color="0.2", linestyle="--", linewidth=0.8)
        lower.text(0.2, 2.7, r"$\propto t^{-1/2}$", color="0.2")
        lower.set_xlabel(r"$t\,kT/\zeta a^2$")
        lower.set_ylabel(r"$G(t)/kT$")
        for ax in (upper, lower):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.legend()
        upper.xaxis.minorticks_off()
        upper.set_xticks((2, 5, 10, 20), ("2", "5", "10", "20"))
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    table, rows = [], []
    for beads in BEADS[:5] if out.quick else BEADS:
        tau, error, _ = relaxation(beads, out.quick)
        table.append((beads, tau, error))
        print(f"{beads} beads: tau = {tau:.4f} ± {error:.4f}, Rouse {float(rouse(beads)):.4f}")
        rows.append({"quantity": "longest time", "beads": beads, "value": f"{tau:.5f}",
                     "error": f"{error:.5f}", "theory": f"{float(rouse(beads)):.5f}"})  # fmt: skip
    times = np.array(table)
    beads, tau, error = times[times[:, 0] >= (3 if out.quick else LONG)].T
    (slope, _), covariance = np.polyfit(
        np.log(beads), np.log(tau), 1, w=tau / error, cov="unscaled"
    )
    power = float(slope), float(np.sqrt(covariance[0, 0]))
    print(f"tau grows as N^({power[0]:.3f} ± {power[1]:.3f})")
    G, at_once, at_once_error = modulus(out.quick)
    exact = fx.analytic.zero_shear_viscosity(MODULUS)
    total = at_once + G.integral[-1], float(np.hypot(at_once_error, G.integral_error[-1]))
    print(f"viscosity of {MODULUS} beads: {total[0]:.4f} ± {total[1]:.4f}, exact {exact:.4f}")
    for name, size, value, sigma, theory in (
        ("exponent of the longest time", "", *power, "2"),
        ("viscosity at once", MODULUS, at_once, at_once_error, ""),
        ("viscosity by Green and Kubo", MODULUS, *total, f"{exact:.5f}"),
    ):
        rows.append({"quantity": name, "beads": size, "value": f"{value:.5f}",
                     "error": f"{sigma:.5f}", "theory": theory})  # fmt: skip
    out.write_csv(rows)
    draw(out, times, G, power)


if __name__ == "__main__":
    main()
