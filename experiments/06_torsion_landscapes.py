"""½ ln det H^bb of chains with hard bonds and angles against their torsions, in kT.

Four beads have one torsion and five beads two; masses and bonds are equal, bends 90° or those of
a tetrahedron, 70.53° (0 is straight).  A rigid simulation visits torsions in proportion to the
exponential of this, unless Fixman's potential adds it to the energy.  At right angles four beads
have their maxima 82.805° from trans.  Values are differences from the lowest of each landscape.
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot
from scipy import optimize

import fixman as fx
from fixman import analytic

BENDS = {"90°": np.pi / 2, "70.53°": np.arccos(1.0 / 3.0)}


def landscape(ax, degrees: np.ndarray, values: np.ndarray, levels: np.ndarray) -> None:
    """Contours of a function of two torsions, values (first, second) over the full circle.

    The filled contours are ``ax.collections[0]``, for a colour bar.
    """
    ax.contourf(degrees, degrees, values.T, levels, cmap="viridis")
    ax.contour(degrees, degrees, values.T, levels, colors="white", linewidths=0.2)
    ax.set_aspect("equal")
    ax.set_xticks([-180, 0, 180])
    ax.set_yticks([-180, 0, 180])


def half_logdet(bend: float, torsions: np.ndarray) -> np.ndarray:
    """Return ½ ln det H^bb for torsions (..., k) of k + 3 beads."""
    beads = torsions.shape[-1] + 3
    chain = fx.Chain.linear(beads, hard=("length", "angle"))
    q = np.ones((*torsions.shape[:-1], 3 * beads))  # lengths 1; where the chain lies is no matter
    inner = [min(coordinate.beads) >= 0 for coordinate in chain.coordinates]
    kinds = np.array([coordinate.kind for coordinate in chain.coordinates])
    q[..., inner & (kinds == "angle")] = bend
    q[..., inner & (kinds == "torsion")] = torsions
    return fx.fixman_potential(chain, chain.cartesian(q))


def maximum(bend: float) -> float:
    """Return the torsion in degrees, between cis and trans, at which four beads are highest."""
    best = optimize.minimize_scalar(
        lambda torsion: -float(half_logdet(bend, np.array([torsion]))),
        bounds=(0.0, np.pi),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return float(np.degrees(best.x))


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    fine = np.linspace(-180.0, 180.0, 361)
    grid = np.linspace(-180.0, 180.0, 25 if out.quick else 61)
    pairs = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    rows, curves, landscapes = [], {}, {}
    for name, bend in BENDS.items():
        four = half_logdet(bend, np.radians(fine[:, None]))
        closed = 0.5 * analytic.four_beads_logdet(np.radians(fine), bend)
        five = half_logdet(bend, np.radians(pairs))
        top = maximum(bend)
        print(f"bends {name}: four beads range over {np.ptp(four):.4f} kT, five {np.ptp(five):.4f}")
        print(f"  maxima of four at ±{top:.3f}°, {180 - top:.3f}° from trans")
        print(f"  closed form off by {np.abs(four - closed).max():.0e}")
        curves[name], landscapes[name] = four - four.min(), five - five.min()
        rows += [
            row(name, 4, [phi], value, exact - closed.min())
            for phi, value, exact in zip(fine, curves[name], closed, strict=True)
        ]
        rows += [
            row(name, 5, pair, value, None)
            for pair, value in zip(pairs.reshape(-1, 2), landscapes[name].ravel(), strict=True)
        ]
    out.write_csv(rows)
    draw(out, fine, curves, grid, landscapes)


def row(
    bends: str, beads: int, torsions: np.ndarray, value: float, exact: float | None
) -> dict[str, object]:
    return {
        "bends": bends.replace("°", ""),
        "beads": beads,
        "torsion_1": f"{torsions[0]:g}",
        "torsion_2": f"{torsions[1]:g}" if beads == 5 else "",
        "half_logdet": f"{value:.5f}",
        "closed_form": "" if exact is None else f"{exact:.5f}",
    }


def draw(
    out: Output,
    fine: np.ndarray,
    curves: dict[str, np.ndarray],
    grid: np.ndarray,
    landscapes: dict[str, np.ndarray],
) -> None:
    with plot.style():
        finding = "Constraints favour torsions near a right angle, by up to a kT"
        fig, (ax, *axes) = panels(finding, 1, 3, aspect=0.36)
        for color, (name, values) in zip(plot.PALETTE, curves.items(), strict=False):
            ax.plot(fine, values, color=color)
            ax.annotate(name, (fine[-1], values[-1]), (4, 0), textcoords="offset points",
                        va="center", size=7, color=color, annotation_clip=False)  # fmt: skip
        highest = curves["90°"].max()
        for sign in (-1.0, 1.0):
            top = sign * maximum(BENDS["90°"])
            ax.axvline(top, color="0.6", linewidth=0.6, linestyle=":")
            ax.annotate(f"{180 - abs(top):.3f}°\nfrom trans", (top, highest), (0, 3), ha="center",
                        textcoords="offset points", va="bottom", size=7)  # fmt: skip
        ax.set_ylim(top=highest + 0.1)
        ax.set_title("four beads", loc="left", pad=8)
        ax.set_xlabel("torsion φ  (°, 0 is cis)")
        ax.set_ylabel(r"$\frac{1}{2}\ln\det H^{bb}$ − min  (kT)")
        ax.set_xticks(np.arange(-180, 181, 90))
        for ax, (name, values) in zip(axes, landscapes.items(), strict=True):
            landscape(ax, grid, values, np.linspace(0.0, 1.0, 11))
            ax.set_title(f"five beads, {name}", loc="left")
            ax.set_xlabel("φ₁  (°)")
        axes[0].set_ylabel("φ₂  (°)")
        fig.colorbar(axes[1].collections[0], ax=axes, label="kT", ticks=np.linspace(0.0, 1.0, 6))
        out.save(fig)


if __name__ == "__main__":
    main()
