"""Independent freely jointed chains of the rigid ensemble against their exact distributions.

`fixman.sample` draws them bond by bond with the transfer operator; the distribution of every bend
is known by quadrature of the same operator, and is tested at a million chains by Kolmogorov's and
Smirnov's distance.  If the chains are what they should be, the p-values of these tests are uniform.
Masses are equal, or differ a hundredfold from bead to bead.
"""

from __future__ import annotations

import time

import numpy as np
from _output import Output, panels, plot
from scipy import stats

import fixman as fx
from fixman import analytic

BONDS = (2, 3, 9, 100)
PART = 20_000  # chains at a time
EDGES = np.linspace(-1.0, 1.0, 21)
MASSES = {"equal": (1.0, 1.0), "1 and 100 in turn": (1.0, 100.0), "1 to 100 at random": None}


def masses_of(kind: str, n: int) -> np.ndarray:
    if MASSES[kind] is None:
        return 10.0 ** np.random.default_rng(n).uniform(0.0, 2.0, n)
    return np.resize(MASSES[kind], n)


def turns(x: np.ndarray, base: str) -> np.ndarray:
    """Bends (chains, bends) in radians, with their signs in the plane."""
    if base == "fixed":
        x = np.concatenate([np.zeros_like(x[:, :1]), x], axis=1)
    u = np.diff(x, axis=1)
    a, b = u[:, :-1], u[:, 1:]
    c = np.einsum("rka,rka->rk", a, b)
    if x.shape[-1] == 2:
        return np.arctan2(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0], c)
    return np.arccos(np.clip(c, -1.0, 1.0))


def p_values(theta: np.ndarray, tested: np.ndarray, bonds: int, of: dict) -> list[float]:
    """Of Kolmogorov and Smirnov, for the bends ``tested``."""
    grid = np.linspace(-np.pi if of["dim"] == 2 else 0.0, np.pi, 4001)
    exact = analytic.bend_cumulative(grid, bonds, **of)
    found = []
    n = len(theta)
    for column, bend in enumerate(tested):
        values = np.interp(np.sort(theta[:, column]), grid, exact[:, bend])
        steps = np.arange(n + 1) / n
        distance = max((steps[1:] - values).max(), (values - steps[:-1]).max())
        found.append(float(stats.kstwobign.sf(distance * np.sqrt(n))))
    return found


def measure(bonds: int, dim: int, base: str, kind: str, chains: int) -> dict[str, object]:
    n = bonds + (base == "free")
    of = {"dim": dim, "base": base, "masses": masses_of(kind, n)}
    chain = fx.Chain.linear(n, **of)
    fx.sample(chain, 1, rng=0)  # compiles and makes the tables
    tested = np.unique(np.linspace(0, bonds - 2, 8).astype(int))
    kept, means, seconds = [], [], 0.0
    counts = np.zeros(EDGES.size - 1)
    for part in range(max(1, chains // PART)):
        start = time.process_time()
        x = fx.sample(chain, min(PART, chains), rng=1000 * bonds + part).x
        seconds += time.process_time() - start
        theta = turns(x, base)
        kept.append(theta[:, tested])
        c = np.cos(theta)
        means.append((c**2).mean(axis=1))
        counts += np.histogram(c, EDGES)[0]
    mean = np.concatenate(means)
    error = mean.std() / np.sqrt(mean.size)
    exact = analytic.mean_square_cosines(bonds, **of).mean()
    p = p_values(np.concatenate(kept), tested, bonds, of)
    row = {
        "bonds": bonds,
        "dim": dim,
        "base": base,
        "masses": kind,
        "chains": mean.size,
        "mean_square_cosine": f"{mean.mean():.7f}",
        "error": f"{error:.7f}",
        "exact": f"{exact:.9f}",
        "sigmas": f"{(mean.mean() - exact) / error:+.2f}",
        "bends_tested": tested.size,
        "p_values": " ".join(f"{value:.4f}" for value in p),
        "ns_a_bond": f"{seconds / mean.size / bonds * 1e9:.0f}",
        "density": " ".join(f"{d:.5f}" for d in counts / counts.sum() / np.diff(EDGES)),
    }
    print(
        f"{bonds:3} bonds, {dim}-D, {base:5}, masses {kind:18}: <c^2> = {mean.mean():.6f} ± "
        f"{error:.6f}, exact {exact:.9f} ({row['sigmas']} σ); smallest p of {tested.size} "
        f"{min(p):.3f}; {row['ns_a_bond']} ns a bond"
    )
    return row


def draw(out: Output, rows: list[dict[str, object]]) -> None:
    theta = np.linspace(0.0, np.pi, 203)[1:-1]
    with plot.style():
        fig, (above, below) = panels("Samples follow the exact density of each bend", 1, 2)
        chosen = [(9, "equal"), (100, "1 and 100 in turn"), (100, "1 to 100 at random")]
        for number, (bonds, kind) in enumerate(chosen):
            case = (bonds, 3, "free", kind)
            keys = ("bonds", "dim", "base", "masses")
            (row,) = (row for row in rows if tuple(row[key] for key in keys) == case)
            curve = analytic.bend_density(theta, bonds, masses=masses_of(kind, bonds + 1))
            curve = curve.mean(axis=-1) / np.sin(theta)
            above.plot(np.cos(theta), curve, color=plot.PALETTE[number])
            above.plot(
                (EDGES[1:] + EDGES[:-1]) / 2,
                np.array(str(row["density"]).split(), dtype=float),
                plot.MARKERS[number],
                markersize=3,
                color=plot.PALETTE[number],
                label=f"{bonds} bonds, masses {kind}",
            )
        above.set_xlabel(r"cosine of the bend,  $\cos\theta$")
        above.set_ylabel("density")
        above.legend(loc="lower center", fontsize=6)
        p = np.sort([float(value) for row in rows for value in str(row["p_values"]).split()])
        below.plot([0, 1], [0, 1], color="0.6", linewidth=0.8)
        below.step(p, np.arange(1, p.size + 1) / p.size, where="post", color=plot.PALETTE[0])
        below.set_xlabel(f"p-value of a bend's distribution ({p.size} of them)")
        below.set_ylabel("fraction below")
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    chains = 2000 if out.quick else 1_000_000
    rows = [
        measure(bonds, dim, base, kind, chains // 10 if bonds == 100 and dim == 2 else chains)
        for bonds in BONDS
        for dim, base, kind in (
            (3, "free", "equal"),
            (3, "free", "1 and 100 in turn"),
            (3, "free", "1 to 100 at random"),
            (3, "fixed", "1 to 100 at random"),
            (2, "free", "1 to 100 at random"),
            (2, "fixed", "equal"),
        )
        if bonds != 100 or dim == 2 or base == "free"
    ]
    out.write_csv(rows)
    draw(out, rows)


if __name__ == "__main__":
    main()
