"""Fixman's trimer (1974): how a simulation with rigid bonds bends, and two ways to mend it.

Three beads in space whose bonds are constrained move by `forward_dynamics`, without any potential;
twice in a time unit their velocities are drawn anew from Maxwell's distribution.  Nothing in
this knows of determinants, and yet the cosine of the bend follows √det H^bb: the rigid ensemble.
The weights of `reweight` for its frames, or in a run of its own the force of Fixman's potential,
give the stiff ensemble, in which the cosine is uniform.  Curves are `fixman.analytic`, error bars
one standard error over independent replicas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman import analytic

CASES = {"equal masses": (1.0, 1.0, 1.0), "light bead in the middle": (1.0, 0.2, 1.0)}
RUNS = {"rigid": "rigid", "rigid, reweighted": "stiff", "with Fixman force": "stiff"}
EDGES = np.linspace(-1.0, 1.0, 21)
TIME = 0.5  # between two draws of velocities, in units of a √(m/kT)
STEPS = {"equal masses": 10, "light bead in the middle": 20}  # in that time


def binned(ax, edges: np.ndarray, series: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> None:
    """Densities in bins as points with error bars: the first in the middle, others beside it."""
    middles, widths = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges)
    for number, (name, (density, error)) in enumerate(series.items()):
        ax.errorbar(
            middles + 0.3 * widths * ((number + 1) // 2) * (-1.0) ** number,
            density,
            error,
            label=name,
            color=plot.PALETTE[number],
            marker=plot.MARKERS[number],
            markersize=2.5,
            elinewidth=0.6,
            linestyle="none",
        )


def cosines(x: np.ndarray) -> np.ndarray:
    bonds = np.diff(x, axis=-2)
    return np.sum(bonds[..., 0, :] * bonds[..., 1, :], axis=-1)


def trajectory(
    chain: fx.Chain,
    steps: int,
    replicas: int,
    frames: int,
    corrected: bool,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return x (frames, replicas, 3, 3), after ten frames that equilibrate."""

    def rate(state: np.ndarray) -> np.ndarray:
        x, v = state
        force = fx.fixman_force(chain, x) if corrected else np.zeros_like(x)
        return np.array([v, fx.forward_dynamics(chain, x, v, force=force).acceleration])

    directions = rng.normal(size=(replicas, 2, 3))
    x = np.zeros((replicas, 3, 3))
    x[:, 1:] = np.cumsum(directions / np.linalg.norm(directions, axis=-1, keepdims=True), axis=1)
    kept = []
    for frame in range(-10, frames):
        v = rng.normal(size=x.shape) / np.sqrt(chain.masses)[:, None]
        # Maxwell's velocities along the constraints; and the lengths lose what errors they have.
        state = np.array(fx.project(chain, x, 1.0, v))
        if frame >= 0:
            kept.append(state[0])
        dt = TIME / steps
        for _ in range(steps):  # Runge and Kutta
            a = rate(state)
            b = rate(state + 0.5 * dt * a)
            c = rate(state + 0.5 * dt * b)
            d = rate(state + dt * c)
            state += dt / 6.0 * (a + 2.0 * b + 2.0 * c + d)
        x = state[0] - state[0].mean(axis=-2, keepdims=True)  # stay near the origin
    return np.array(kept)


def average(values: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean of values (frames, replicas, ...) and its error, from replica to replica."""
    mean = np.einsum("tr,tr...->...", weights, values)
    of_replicas = np.einsum("tr,tr...->r...", weights, values - mean)
    return mean, np.sqrt(np.sum(of_replicas**2, axis=0))


def sampled(case: str, replicas: int, frames: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield (run, cosines, weights), both (frames, replicas)."""
    chain, rng = fx.Chain.linear(3, masses=CASES[case]), np.random.default_rng([1974, STEPS[case]])
    rigid = trajectory(chain, STEPS[case], replicas, frames, False, rng)
    even = np.full((frames, replicas), 1.0 / (frames * replicas))
    yield "rigid", cosines(rigid), even
    log_weights, effective_size = fx.reweight(chain, rigid)
    print(f"  {even.size} frames, reweighted worth {effective_size:.0f}")
    yield "rigid, reweighted", cosines(rigid), np.exp(log_weights)
    corrected = trajectory(chain, STEPS[case], replicas, frames, True, rng)
    yield "with Fixman force", cosines(corrected), even


def exact(case: str, ensemble: str) -> tuple[np.ndarray, float]:
    """Return the mean density in every bin and ⟨cos² θ⟩."""
    masses, theta = CASES[case], np.arccos(EDGES)
    inside = -np.diff(analytic.trimer_cumulative(theta, masses=masses, ensemble=ensemble))
    (square,) = analytic.mean_square_cosines(2, masses=masses)
    return inside / np.diff(EDGES), square if ensemble == "rigid" else 1 / 3


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    replicas, frames = (100, 30) if out.quick else (2000, 250)
    rows, drawn = [], {}
    for case in CASES:
        print(case)
        drawn[case] = {}
        for run, c, weights in sampled(case, replicas, frames):
            inside = (c[..., None] >= EDGES[:-1]) & (c[..., None] < EDGES[1:])
            density, error = average(inside / np.diff(EDGES), weights)
            drawn[case][run] = density, error
            (square,), (square_error,) = average(c[..., None] ** 2, weights)
            wanted, square_wanted = exact(case, RUNS[run])
            print(f"  {run}: <cos^2> = {square:.5f}({square_error:.5f}), exact {square_wanted:.5f}")
            rows += [
                {
                    "masses": case,
                    "run": run,
                    "cosine_from": f"{EDGES[k]:.2f}",
                    "cosine_to": f"{EDGES[k + 1]:.2f}",
                    "density": f"{density[k]:.5f}",
                    "error": f"{error[k]:.5f}",
                    "exact": f"{wanted[k]:.5f}",
                    "mean_square": f"{square:.5f}",
                    "mean_square_error": f"{square_error:.5f}",
                    "mean_square_exact": f"{square_wanted:.5f}",
                }
                for k in range(wanted.size)
            ]
    out.write_csv(rows)
    draw(out, drawn)


def draw(out: Output, drawn: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]]) -> None:
    theta = np.linspace(0.0, np.pi, 203)[1:-1]
    with plot.style():
        finding = (
            "Weights or Fixman's force turn the bends of rigid bonds into those of stiff bonds"
        )
        fig, axes = panels(finding, 1, 2, sharex=True)
        for ax, (case, runs) in zip(axes, drawn.items(), strict=True):
            for ensemble, line in (("rigid", "-"), ("stiff", "--")):
                curve = analytic.trimer_density(theta, masses=CASES[case], ensemble=ensemble)
                curve /= np.sin(theta)  # of the cosine
                ax.plot(np.cos(theta), curve, line, color="0.4", linewidth=0.8)
                ax.annotate(ensemble, (1.0, curve[0]), (4, 0), textcoords="offset points",
                            va="center", color="0.4", size=7, annotation_clip=False)  # fmt: skip
            binned(ax, EDGES, runs)
            ax.set_title(case, loc="left")
            ax.set_ylabel("density")
            ax.set_xlabel(r"cosine of the bend,  $\cos\theta$")
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        out.save(fig)


if __name__ == "__main__":
    main()
