"""The size of rigid chains: the first moment of the end-to-end vector that constraints change.

The rigid ensemble of freely jointed bonds is even in the cosine of every bend, so ⟨R²⟩ and ⟨R_g²⟩
are those of the stiff ensemble.  ⟨R⁴⟩ is not.  Shown is N (5/3 − ⟨R⁴⟩/⟨R²⟩²), 2/3 for stiff chains:
exact by the transfer operator, of the bends of exact samples, and of those in Langevin dynamics
with constraints, which starts from samples.  Torsions, uniform in both ensembles, are averaged over
exactly: the noise of R itself would hide what is shown.  Masses are equal, or every second bead is
light.
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman import analytic

SAMPLED = (2, 3, 5, 9, 16, 30, 60, 120)
MOVED = (2, 3, 5, 9, 30)  # bonds of chains in Langevin dynamics
LONGEST = 200
MASSES = {"equal masses": (1.0, 1.0), "every second bead a tenth": (1.0, 0.1)}
LINES = (  # in the stiff ensemble masses do not matter
    ("equal masses", "stiff"),
    ("equal masses", "rigid"),
    ("every second bead a tenth", "rigid"),
)
DT, EVERY = 0.03, 60
PART = 20_000


def masses_of(kind: str, bonds: int) -> np.ndarray:
    return np.resize(MASSES[kind], bonds + 1)


def deviation(fourth: float, bonds: int) -> float:
    return bonds * (5.0 / 3.0 - fourth / bonds**2)


def fourth_of(x: np.ndarray) -> np.ndarray:
    """⟨R⁴⟩ of chains (..., beads, 3) over the torsions and signs of their bends, which are uniform.

    With R and u the end and the direction of k bonds, q = R·u, and a bend of cosine c,
    ⟨(R·u')²⟩ = c² q² + (1 − c²)(R² − q²)/2, and ⟨R²⟩ = k.
    """
    u = np.diff(x, axis=-2)
    squares = np.sum(u[..., 1:, :] * u[..., :-1, :], axis=-1) ** 2
    along, fourth = np.ones(squares.shape[:-1]), np.ones(squares.shape[:-1])
    for k in range(1, squares.shape[-1] + 1):
        c2 = squares[..., k - 1]
        onto = c2 * along + (1.0 - c2) * (k - along) / 2.0
        fourth += 4.0 * onto + 2.0 * k + 1.0
        along = onto + 1.0
    return fourth


def estimate(means: np.ndarray, bonds: int) -> tuple[float, float]:
    """Of ⟨R⁴⟩ of independent chains or replicas."""
    error = means.std(ddof=1) / np.sqrt(means.size)
    return deviation(float(means.mean()), bonds), float(error / bonds)


def sampled(kind: str, ensemble: str, bonds: int, chains: int) -> tuple[float, float]:
    chain = fx.Chain.linear(bonds + 1, masses=masses_of(kind, bonds))
    found = []
    for part in range(max(1, chains // PART)):
        seed = np.random.default_rng([15, bonds, part, ensemble == "stiff", kind == "equal masses"])
        x = fx.sample(chain, min(PART, chains), ensemble=ensemble, rng=seed, workers=2).x
        found.append(fourth_of(x))
    return estimate(np.concatenate(found), bonds)


def moved(kind: str, ensemble: str, bonds: int, frames: int) -> tuple[float, float]:
    chain = fx.Chain.linear(bonds + 1, masses=masses_of(kind, bonds))
    rng = np.random.default_rng([15, bonds, ensemble == "stiff"])
    run = fx.simulate(
        chain,
        fx.sample(chain, 256, ensemble=ensemble, rng=rng).x,
        fx.Langevin(DT, ensemble=ensemble),
        EVERY * frames,
        every=EVERY,
        rng=rng,
        workers=2,
        progress=False,
    )
    return estimate(fourth_of(run.x).mean(axis=0), bonds)


def measure(kind: str, ensemble: str, method: str, bonds: int, amount: int) -> dict[str, object]:
    value, error = (sampled if method == "sample" else moved)(kind, ensemble, bonds, amount)
    fourth = exact_fourth(kind, ensemble, bonds)
    exact = deviation(fourth, bonds)
    print(
        f"{kind}, {ensemble}, {method:8} N = {bonds:3}: {value:.5f} ± {error:.5f}, "
        f"exact {exact:.6f} ({(value - exact) / error:+.1f} σ)"
    )
    return {
        "masses": kind,
        "ensemble": ensemble,
        "method": method,
        "bonds": bonds,
        "deviation": f"{value:.6f}",
        "error": f"{error:.6f}",
        "exact": f"{exact:.9f}",
        "ratio_exact": f"{fourth / bonds**2:.9f}",
    }


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    chains, frames = (5000, 20) if out.quick else (200_000, 200)
    rows = []
    for case in LINES:
        rows += [measure(*case, "sample", bonds, chains) for bonds in SAMPLED]
        rows += [measure(*case, "Langevin", bonds, frames) for bonds in MOVED]
    out.write_csv(rows)
    draw(out, rows)


def exact_fourth(kind: str, ensemble: str, bonds: int) -> float:
    masses = masses_of(kind, bonds)
    return analytic.mean_fourth_end_to_end(bonds, masses=masses, ensemble=ensemble)


def draw(out: Output, rows: list[dict[str, object]]) -> None:
    sizes = np.arange(2, LONGEST + 1)
    with plot.style():
        finding = (
            "The fourth moment of rigid chains depends on their masses, as theory says exactly"
        )
        fig, ax = panels(finding)
        for number, (kind, ensemble) in enumerate(LINES):
            colour = plot.PALETTE[number]
            curve = [deviation(exact_fourth(kind, ensemble, int(N)), int(N)) for N in sizes]
            label = ensemble if ensemble == "stiff" else f"rigid, {kind}"
            ax.plot(sizes, curve, color=colour, label=label)
            for method, marker, fill in (("sample", "o", colour), ("Langevin", "s", "none")):
                chosen = [
                    row
                    for row in rows
                    if (row["masses"], row["ensemble"], row["method"]) == (kind, ensemble, method)
                ]
                bonds, value, error = (
                    np.array([float(row[key]) for row in chosen])
                    for key in ("bonds", "deviation", "error")
                )
                shift = 1.04 if method == "Langevin" else 1.0
                ax.errorbar(bonds * shift, value, error, fmt=marker, markersize=3, elinewidth=0.6,
                            color=colour, markerfacecolor=fill, markeredgewidth=0.6)  # fmt: skip
        ax.set_xscale("log")
        ax.set_xlabel("bonds  $N$")
        ax.set_ylabel(r"$N\,(5/3-\langle R^4\rangle/\langle R^2\rangle^2)$")
        for marker, fill, label in (("o", "0.3", "samples"), ("s", "none", "Langevin")):
            ax.plot([], [], marker, color="0.3", markerfacecolor=fill, markersize=3, label=label)
        fig.legend(*ax.get_legend_handles_labels(), loc="outside right center")
        out.save(fig)


if __name__ == "__main__":
    main()
