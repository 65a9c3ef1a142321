"""Energy and bond lengths over many steps of RATTLE: both stay.

Chains on their own and with potentials, the steep one with a quarter of the others' time step.
The slope of the relative energy is a straight line's, and its error that of a fit to ten pieces.
Bonds are as good as the solver is told to make them.
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman.potentials.energies import WCA, Bending
from fixman.sampling.random_walks import random_walks
from fixman.simulation.observables import kinetic_energy, potential_energy
from fixman.simulation.steppers import Newton

TOLERANCE = 1e-12  # of Newton, relative
STEPS = 1_000_000
FRAMES = 1000
REPLICAS = 8
EPS = np.finfo(float).eps
CASES = {  # with the step, smaller where forces are steep
    "10 beads": (fx.Chain.linear(10), None, 0.02),
    "100 beads": (fx.Chain.linear(100), None, 0.02),
    "100 beads, bending": (fx.Chain.linear(100), Bending(5.0), 0.02),
    "50 beads, bending + WCA": (fx.Chain.linear(50), Bending(2.0) + WCA(), 0.005),
}


def start(chain: fx.Chain, crowded: bool, rng: np.random.Generator) -> np.ndarray:
    """Return configurations without overlaps where these matter."""
    if not crowded:
        return random_walks(chain, REPLICAS, rng=rng)
    zigzag = np.zeros((REPLICAS, chain.n, 3))
    zigzag[..., 0] = np.cos(0.3) * np.arange(chain.n)
    zigzag[:, 1::2, 1] = np.sin(0.3)
    return zigzag


def measure(name: str, steps: int) -> dict[str, np.ndarray]:
    """Return steps, relative energies (frames, replicas), bond errors and roundings (frames,)."""
    chain, potential, dt = CASES[name]
    rng = np.random.default_rng([10, chain.n])
    stepper = Newton(dt, kT=1.0, potential=potential, tolerance=TOLERANCE)
    state = stepper.start(chain, start(chain, name.endswith("WCA"), rng), None, REPLICAS, rng)
    energies, errors, roundings = [], [], []
    for frame in range(FRAMES + 1):
        if frame:
            stepper.advance(chain, state, steps // FRAMES)
        bonds = np.linalg.norm(np.diff(state.x, axis=1), axis=-1)
        errors.append(np.abs(bonds - 1.0).max())
        roundings.append(4 * EPS * np.abs(state.x).max())
        energies.append(
            potential_energy(chain, state.x, potential) + kinetic_energy(chain, state.v)
        )
    energy = np.array(energies)
    return {
        "steps": (steps // FRAMES) * np.arange(FRAMES + 1),
        "energies": energy / energy[0] - 1.0,
        "errors": np.array(errors),
        "roundings": np.array(roundings),
    }


def slope(times: np.ndarray, energies: np.ndarray) -> tuple[float, float]:
    """Return the slope of a straight line and its error, from ten pieces' means."""
    mean = energies.mean(axis=1)
    pieces = np.array([piece.mean() for piece in np.array_split(mean, 10)])
    middles = np.array([piece.mean() for piece in np.array_split(times, 10)])
    (value, _), covariance = np.polyfit(middles, pieces, 1, cov=True)
    return float(value), float(np.sqrt(covariance[0, 0]))


def draw(out: Output, series: dict[str, dict[str, np.ndarray]]) -> None:
    with plot.style():
        finding = (
            "In a million steps the energy stays near its first value, and bonds keep their lengths"
        )
        fig, (upper, lower) = panels(finding, 1, 2, sharex=True)
        for color, (name, found) in zip(plot.PALETTE, series.items(), strict=False):
            done = found["steps"] / 1000
            upper.plot(done, 1e4 * found["energies"][:, 0], color=color, linewidth=0.5, label=name)
            lower.semilogy(done, found["errors"], color=color, linewidth=0.6)
        upper.set_ylabel(r"$(E - E_0)/E_0$  ($10^{-4}$)")
        lower.set_ylabel("largest error of a bond")
        lower.axhline(TOLERANCE, color="0.4", linestyle="--", linewidth=0.8)
        lower.annotate(
            "tolerance", (0, TOLERANCE), (0, 2), textcoords="offset points", fontsize=7, va="bottom"
        )
        lower.set_ylim(top=4 * TOLERANCE)
        for ax in (upper, lower):
            ax.set_xlabel("steps  (1000)")
        handles, labels = upper.get_legend_handles_labels()
        for handle in handles:
            handle.set_linewidth(1.2)
        fig.legend(handles, labels, loc="outside lower center", ncols=4)
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    steps = STEPS // (100 if out.quick else 1)
    series, rows = {}, []
    for name in CASES:
        found = series[name] = measure(name, steps)
        dt = CASES[name][2]
        drift, error = slope(dt * found["steps"], found["energies"])
        row = {
            "chain": name,
            "dt": dt,
            "steps": steps,
            "relative_slope": f"{drift:.2e}",
            "slope_error": f"{error:.1e}",
            "fluctuation": f"{found['energies'].std():.2e}",
            "largest_bond_error": f"{found['errors'].max():.2e}",
            "rounding_of_positions": f"{found['roundings'].max():.2e}",
        }
        rows.append(row)
        print(
            f"{name}: slope {drift:+.1e} ± {error:.0e} per unit of time, "
            f"fluctuation {row['fluctuation']}, bonds {row['largest_bond_error']} "
            f"(rounding {row['rounding_of_positions']})"
        )
    out.write_csv(rows)
    draw(out, series)


if __name__ == "__main__":
    main()
