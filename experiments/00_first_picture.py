"""The picture of the README: tensions along a chain, and the bends of both ensembles.

Left, a freely jointed chain of 80 beads in thermal motion, its two ends pulled apart: the bonds
are coloured by the tensions that hold their lengths, all from one banded solve.  Right, the cosine
of the bends of 100 beads, drawn by `fixman.sample` in the rigid and in the stiff ensemble; curves
are the exact densities of `fixman.analytic`, at the bend in the middle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _output import Output, plot
from matplotlib.collections import LineCollection

import fixman as fx
from fixman import analytic

BEADS, BONDS, PULL = 80, 99, 1.0
EDGES = np.linspace(-1.0, 1.0, 21)


def pulled(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return positions (n, 3) and tensions (n − 1,) after a run under a pull on both ends."""
    chain = fx.Chain.linear(BEADS)
    potential = fx.potentials.Tension((PULL, 0.0, 0.0))
    stepper = fx.Langevin(dt=0.05, potential=potential)
    x0 = fx.random_walks(chain, 1, rng=rng)
    run = fx.simulate(chain, x0, stepper, 20_000, every=20_000, rng=1)
    x, v = run.x[-1, 0], run.v[-1, 0]
    force = np.zeros_like(x)
    force[[0, -1], 0] = -PULL, PULL
    return x, fx.forward_dynamics(chain, x, v, force=force).tension


def bends(ensemble: str, chains: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the density of cos θ in every bin and its error, from chain to chain."""
    sample = fx.sample(fx.Chain.linear(BONDS + 1), chains, ensemble=ensemble, rng=1)
    bonds = np.diff(sample.x, axis=-2)
    cosines = np.sum(bonds[:, 1:] * bonds[:, :-1], axis=-1)
    counts = np.array([np.histogram(row, EDGES, density=True)[0] for row in cosines])
    return counts.mean(axis=0), counts.std(axis=0) / np.sqrt(chains)


def draw_chain(ax: Any, x: np.ndarray, tension: np.ndarray) -> None:
    x = x - x.mean(axis=0)
    flat = x @ np.linalg.svd(x, full_matrices=False)[2][:2].T  # the plane that it fills most
    lines = LineCollection(
        np.stack([flat[:-1], flat[1:]], axis=1),
        cmap="viridis_r",
        linewidth=2.5,
        capstyle="round",
    )
    lines.set_array(tension)
    ax.add_collection(lines)
    ax.plot(*flat.T, "o", color="0.2", markersize=1.8)
    ax.set_aspect("equal", adjustable="datalim")
    ax.autoscale()
    ax.axis("off")
    bar = ax.figure.colorbar(lines, ax=ax, shrink=0.8, aspect=20)
    bar.set_label(r"tension  ($kT$ per bond length)")
    bar.outline.set_visible(False)
    ax.set_title("The tension of every bond, from one banded solve", loc="left")


def draw_bends(ax: Any, found: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
    theta = np.linspace(0.0, np.pi, 203)[1:-1]
    middles = 0.5 * (EDGES[1:] + EDGES[:-1])
    for k, (ensemble, (density, error)) in enumerate(found.items()):
        exact = np.full(theta.size, 0.5)
        if ensemble == "rigid":
            exact = analytic.bend_density(theta, BONDS)[:, BONDS // 2] / np.sin(theta)
        ax.plot(np.cos(theta), exact, color=plot.PALETTE[k], linewidth=0.8)
        ax.errorbar(middles, density, error, color=plot.PALETTE[k], marker=plot.MARKERS[k],
                    linestyle="none", elinewidth=0.6, label=ensemble)  # fmt: skip
    ax.set_xlabel(r"cosine of the bend,  $\cos\theta$")
    ax.set_ylabel("density")
    ax.legend(loc="lower center", ncols=2)
    ax.set_title("Rigid and stiff bonds bend differently", loc="left")


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    found = {e: bends(e, 100 if out.quick else 10_000) for e in ("rigid", "stiff")}
    x, tension = pulled(np.random.default_rng(1))
    out.write_csv(
        {"ensemble": e, "cosine": f"{low:.2f}", "density": f"{d:.5f}", "error": f"{s:.5f}"}
        for e, (density, error) in found.items()
        for low, d, s in zip(EDGES, density, error, strict=False)
    )
    with plot.style():
        fig = plot.figure(2.0, aspect=0.38)
        left, right = fig.subplots(1, 2, width_ratios=(1.3, 1.0))
        draw_chain(left, x, tension)
        draw_bends(right, found)
        out.save(fig)


if __name__ == "__main__":
    main()
