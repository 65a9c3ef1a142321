"""Distribution of the bends of freely jointed chains: rigid, stiff, and rigid frames reweighted.

Constrained Langevin dynamics samples the rigid ensemble, with Fixman's force the stiff one; frames
of the rigid simulation with the weights (det H^bb)^(-1/2) stand for the stiff one as well.  The
curves are exact: in the stiff ensemble all bond directions are independent, in the rigid one
`fixman.analytic` has the density of every bend.  Densities are averages over all bends of a chain,
errors know of correlations.
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman import analytic
from fixman.sampling.random_walks import random_walks
from fixman.simulation.observables import angles, histogram, mean_with_error
from fixman.simulation.simulate import simulate
from fixman.simulation.steppers import Langevin

DT = 0.05
EVERY = 20  # steps from frame to frame, one unit of time
SETTLE = 20  # frames left out; the chains start as stiff ones
REPLICAS = 64
FRAMES = {3: 32_000, 4: 24_000, 10: 8000, 100: 1000}
EDGES = np.linspace(-1, 1, 21)


def exact_density(bonds: int, cosines: np.ndarray) -> np.ndarray:
    """Return the density of the cosine of a bend in the rigid ensemble, averaged over the bends."""
    theta = np.arccos(cosines)
    return analytic.bend_density(theta, bonds).mean(axis=-1) / np.sin(theta)


def cosines(chain: fx.Chain, ensemble: str, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Return cos θ (frames, replicas, bends) and the log-weights rigid → stiff of the frames."""
    rng = np.random.default_rng([8, chain.n, ensemble == "stiff"])
    run = simulate(
        chain,
        random_walks(chain, REPLICAS, rng=rng),
        Langevin(DT, ensemble=ensemble),
        EVERY * (frames + SETTLE),
        every=EVERY,
        rng=rng,
        workers=2,
        progress=False,
    )
    x = run.x[SETTLE + 1 :]
    return np.cos(angles(chain, x)), -0.5 * fx.logdet(chain, x)


def measure(n: int, frames: int) -> list[dict[str, object]]:
    """Return the rows of one chain: densities in the bins, then mean squares."""
    chain = fx.Chain.linear(n)
    rigid, log_weights = cosines(chain, "rigid", frames)
    stiff, _ = cosines(chain, "stiff", frames)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(EDGES)[0] / 2
    inside = EDGES[:-1, None] + half * (1 + nodes)
    curve = exact_density(n - 1, inside.ravel()).reshape(inside.shape) @ weights / 2
    rows = []
    for name, c, logs, exact, square in (
        ("rigid", rigid, None, curve, analytic.mean_square_cosines(n - 1).mean()),
        ("stiff", stiff, None, np.full_like(curve, 0.5), 1 / 3),
        ("reweighted", rigid, log_weights, np.full_like(curve, 0.5), 1 / 3),
    ):
        found = histogram(c, EDGES, log_weights=logs)
        for k, (density, error) in enumerate(zip(found.density, found.error, strict=True)):
            rows.append((name, "density", EDGES[k] + half, density, error, exact[k]))
        mean = mean_with_error((c**2).mean(axis=-1), log_weights=logs)
        rows.append((name, "mean square cosine", np.nan, *mean, square))
        sigmas = (mean.value - square) / mean.error
        deviations = (found.density - exact) / found.error
        print(
            f"n = {n:3}  {name:10} <c^2> = {mean.value:.6f} ± {mean.error:.6f}, exact {square:.6f} "
            f"({sigmas:+.1f} σ); bins: rms deviation {np.sqrt(np.mean(deviations**2)):.2f} σ"
        )
    return [
        {
            "beads": n,
            "ensemble": name,
            "quantity": quantity,
            "cosine": "" if np.isnan(c) else f"{c:.3f}",
            "value": f"{value:.6f}",
            "error": f"{error:.6f}",
            "exact": f"{exact:.9f}",
        }
        for name, quantity, c, value, error, exact in rows
    ]


def draw(out: Output, rows: list[dict[str, object]]) -> None:
    fine = np.linspace(-1, 1, 203)[1:-1]
    with plot.style():
        finding = "Langevin dynamics samples the exact bends of either ensemble"
        fig, axes = panels(finding, 1, 4, sharex=True, sharey=True)
        for n, ax in zip(FRAMES, axes, strict=True):
            ax.plot(fine, exact_density(n - 1, fine), color=plot.PALETTE[0])
            ax.axhline(0.5, color=plot.PALETTE[1])
            for number, name in enumerate(("rigid", "stiff", "reweighted")):
                chosen = [
                    row
                    for row in rows
                    if (row["beads"], row["ensemble"], row["quantity"]) == (n, name, "density")
                ]
                c, density, error = (
                    np.array([float(row[key]) for row in chosen])
                    for key in ("cosine", "value", "error")
                )
                ax.errorbar(
                    c + 0.02 * (number == 2),
                    density,
                    error,
                    fmt=plot.MARKERS[number],
                    markersize=2,
                    elinewidth=0.6,
                    color=plot.PALETTE[number],
                    label=name,
                )
            ax.set_title(f"{n} beads", loc="left")
            ax.set_ylim(0.435, 0.54)
            ax.set_xlabel(r"$\cos\theta$ of the bend")
            ax.set_xticks([-1, 0, 1])
        fig.supylabel("probability density", fontsize=8)
        fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rows = []
    for n, frames in FRAMES.items():
        rows += measure(n, frames // 100 if out.quick else frames)
    out.write_csv(rows)
    draw(out, rows)


if __name__ == "__main__":
    main()
