"""Orders of the integrators in the time step, fitted: both are 2.

RATTLE: error of the positions at a fixed time against far smaller steps, and fluctuation of the
energy, for ten beads with resistance to bending.  g-BAOAB: deviation of <cos^2> from its exact
value, averaged over the bends of ten beads without a potential, in the rigid and in the stiff
ensemble.  The exact values are 0.318318365, by a transfer operator (see 08_ensembles), and 1/3.
Errors are from independent replicas.
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman.potentials.energies import Bending
from fixman.sampling.random_walks import random_walks
from fixman.simulation.observables import angles, kinetic_energy, potential_energy
from fixman.simulation.steppers import Langevin, Newton

BEADS = 10
TIME = 1.0  # of the trajectories that are compared
EXACT = {"rigid": 0.318318365, "stiff": 1 / 3}
REPLICAS = 512
BETWEEN = 1.2  # time from frame to frame
SETTLE = 20.0
FRAMES = {"rigid": 12_000, "stiff": 5000}


def fit(dt: np.ndarray, size: np.ndarray, error: np.ndarray) -> tuple[float, float]:
    """Return the order p of size = a dt^p, and its standard error."""
    weights = size / error
    (slope, _), covariance = np.polyfit(np.log(dt), np.log(size), 1, w=weights, cov="unscaled")
    return float(slope), float(np.sqrt(covariance[0, 0]))


def rattle(quick: bool) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Return step sizes, errors and the errors' own for positions and for the energy."""
    chain, potential = fx.Chain.linear(BEADS), Bending(5.0, kind="harmonic")
    replicas = 8 if quick else 64
    x0 = random_walks(chain, replicas, rng=1)
    dts = 0.05 / 2.0 ** np.arange(5)

    def run(dt: float) -> tuple[np.ndarray, np.ndarray]:
        stepper = Newton(dt, kT=1.0, potential=potential)
        state = stepper.start(chain, x0, replicas=replicas, rng=2)
        energies = []
        for _ in range(round(TIME / 0.1)):
            energies.append(
                potential_energy(chain, state.x, potential) + kinetic_energy(chain, state.v)
            )
            stepper.advance(chain, state, round(0.1 / dt))
        return state.x, np.array(energies)

    exact, _ = run(dts[-1] / 16)
    positions, energies = [], []
    for dt in dts:
        x, energy = run(float(dt))
        positions.append(np.sqrt(((x - exact) ** 2).sum(-1).mean(-1)))
        energies.append(np.sqrt(((energy - energy[0]) ** 2).mean(axis=0)))
    return {
        name: (dts, np.mean(values, axis=1), np.std(values, axis=1) / np.sqrt(replicas))
        for name, values in (("positions", positions), ("energy", energies))
    }


def bias(ensemble: str, quick: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return step sizes, deviations of the mean of cos² θ and their standard errors."""
    chain = fx.Chain.linear(BEADS)
    dts = np.array([0.28, 0.4] if quick else [0.14, 0.2, 0.28, 0.4])
    frames = FRAMES[ensemble] // (100 if quick else 1)
    found = []
    for dt in dts:
        rng = np.random.default_rng([9, ensemble == "stiff", round(100 * dt)])
        stepper = Langevin(float(dt), ensemble=ensemble)
        x0 = random_walks(chain, REPLICAS, rng=rng)
        state = stepper.start(chain, x0, replicas=REPLICAS, rng=rng)
        stepper.advance(chain, state, round(SETTLE / dt), workers=2)
        total = np.zeros(REPLICAS)
        for _ in range(frames):
            stepper.advance(chain, state, round(BETWEEN / dt), workers=2)
            total += (np.cos(angles(chain, state.x)) ** 2).mean(axis=-1)
        means = total / frames
        found.append((means.mean() - EXACT[ensemble], means.std(ddof=1) / np.sqrt(REPLICAS)))
        print(f"{ensemble}, dt = {dt:.2f}: <c^2> off by {found[-1][0]:+.6f} ± {found[-1][1]:.6f}")
    return dts, *np.array(found).T


def draw(out: Output, series: dict[tuple[str, str], tuple], orders: dict) -> None:
    with plot.style():
        fig, axes = panels("Both integrators are of second order in the time step", 1, 2)
        for number, (key, (dt, value, error)) in enumerate(series.items()):
            ax = axes[int(key[0] == "g-BAOAB")]
            color = plot.PALETTE[number]
            slope, sigma = orders[key]
            label = f"{key[1]}, order {slope:.2f}" + (f" ± {sigma:.2f}" if ax is axes[1] else "")
            ax.errorbar(
                dt, np.abs(value), error, fmt=plot.MARKERS[number], color=color, label=label
            )
            weights = np.abs(value) / error
            middle = np.average(np.log(np.abs(value)) - slope * np.log(dt), weights=weights**2)
            ends = np.array([dt.min(), dt.max()])
            ax.plot(ends, np.exp(middle) * ends**slope, color=color, linewidth=0.8)
        for ax, title, label, ticks in (
            (axes[0], "RATTLE", "error", (0.003, 0.01, 0.03)),
            (axes[1], "g-BAOAB", r"bias of $\langle\cos^2\theta\rangle$", (0.14, 0.2, 0.28, 0.4)),
        ):
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_title(title, loc="left")
            ax.set_ylabel(label)
            ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            ax.xaxis.minorticks_off()
            ax.set_xlabel(r"time step  $\Delta t$")
            ax.legend()
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    series = {("RATTLE", name): values for name, values in rattle(out.quick).items()}
    for ensemble in EXACT:
        series["g-BAOAB", ensemble] = bias(ensemble, out.quick)
    orders, rows = {}, []
    for key, (dt, value, error) in series.items():
        orders[key] = fit(dt, np.abs(value), error)
        print(f"{key[0]}, {key[1]}: order {orders[key][0]:.3f} ± {orders[key][1]:.3f}")
        for one, size, sigma in zip(dt, value, error, strict=True):
            rows.append(
                {
                    "integrator": key[0],
                    "quantity": key[1],
                    "dt": f"{one:.6g}",
                    "deviation": f"{size:.4e}",
                    "error": f"{sigma:.1e}",
                    "fitted_order": f"{orders[key][0]:.3f}",
                    "order_error": f"{orders[key][1]:.3f}",
                }
            )
    out.write_csv(rows)
    draw(out, series, orders)


if __name__ == "__main__":
    main()
