"""Free energies along held coordinates: the ends of three hard bonds, and the torsion of butane.

Above, −ln of the density of the distance r of the ends, from mean forces at some r.  It is known:
r (3 − r) in the stiff ensemble, and a double integral in the rigid one.  Below, united atoms of
butane with the torsions of TraPPE (Martin & Siepmann 1998) at 300 K, bonds hard and angles hard or
on its springs; frames of Monte Carlo that holds no torsion make the histograms.  With springs, and
in the stiff ensemble, all of A is the energy U of the torsion; with hard angles a rigid chain has
−½ kT ln det H^bb besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman import bluemoon
from fixman.potentials.energies import Bending, Torsion
from fixman.simulation.observables import histogram, torsions

ENSEMBLES = ("rigid", "stiff")
REPLICAS = 64
EVERY = 20  # steps from frame to frame
SETTLE = 50  # frames left out
KELVIN = 300.0

ENDS = ("distance", (0, 3))
FAR = np.linspace(1.1, 2.75, 12)

# Lengths in units of the bond, 1.54 Å, masses in that of a methylene, energies in kT.
MASSES = np.array([15.035, 14.027, 14.027, 15.035]) / 14.027
BEND = np.pi - np.radians(114.0)  # 0 is straight
SPRINGS = Bending(62_500.0 / KELVIN, BEND, kind="harmonic")
TWIST = Torsion((355.03 / KELVIN, -68.19 / KELVIN, 791.32 / KELVIN), (0.0, np.pi, 0.0))
TURN = ("torsion", (0, 1, 2, 3))
PHI = np.linspace(-np.pi, 0.0, 25)  # from trans to cis
EDGES = np.linspace(-np.pi, np.pi, 61)
MODELS: dict[str, tuple[tuple[str, ...], Any]] = {
    "hard angles": (("length", "angle"), TWIST),
    "springs": (("length",), SPRINGS + TWIST),
}


# --- the ends of three bonds ---------------------------------------------------------------------


def ends(r: np.ndarray, ensemble: str) -> np.ndarray:
    """Return −ln of the density of the distance of the ends, up to a constant."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    first = (r - 1.0)[:, None]  # the first two bonds span y, from r − 1 to 2
    y = first + (2.0 - first) * (nodes + 1.0) / 2.0
    turn = (np.arange(64) + 0.5) * np.pi / 32.0
    along, beside = (r[:, None] ** 2 - 1.0 - y * y) / (2.0 * y), y / 2.0
    across = np.sqrt((1.0 - along**2).clip(0.0) * (1.0 - beside**2))
    second = (along * beside)[..., None] + across[..., None] * np.cos(turn)
    square = 8.0 - 2.0 * (y * y / 2.0 - 1.0)[..., None] ** 2 - 2.0 * second**2
    root = square ** (0.5 if ensemble == "rigid" else 0.0)
    return -np.log(r * (3.0 - r) * (root.mean(axis=-1) @ weights))


def slope(function: Any, at: np.ndarray, h: float = 1e-4) -> np.ndarray:
    return (function(at + h) - function(at - h)) / (2.0 * h)


def three_bonds(ensemble: str, frames: int, far: np.ndarray) -> list[dict[str, object]]:
    model = fx.Chain.linear(4)
    x = fx.random_walks(model, REPLICAS, rng=22)
    stepper = fx.Langevin(0.05, ensemble=ensemble)
    forces = mean_forces(model, ENDS, far, x, stepper, frames)
    exact = slope(lambda r: ends(r, ensemble), far)
    free = bluemoon.free_energy(far, forces)
    known = ends(far, ensemble)
    report(f"three bonds, {ensemble}", forces, exact, free, known - known[0])
    return table("three bonds", ensemble, forces, exact, free, known - known[0])


# --- butane --------------------------------------------------------------------------------------


def energy(phi: np.ndarray) -> np.ndarray:
    """Return U of the torsion in kT, 0 at trans."""
    k = np.array(TWIST.amplitudes)
    return k[0] * (1 + np.cos(phi)) + k[1] * (1 - np.cos(2 * phi)) + k[2] * (1 + np.cos(3 * phi))


def known(name: str, ensemble: str, phi: np.ndarray) -> np.ndarray:
    """Return A(φ), 0 at trans."""
    hard, _ = MODELS[name]
    if ensemble == "stiff" or "angle" not in hard:
        return energy(phi)
    chain = fx.Chain.linear(4, masses=MASSES, hard=hard)
    q = np.ones((phi.size + 1, 12))  # lengths 1; where the chain lies is no matter
    kinds = np.array([min(c.beads) >= 0 and c.kind for c in chain.coordinates])
    q[:, kinds == "angle"] = BEND
    q[:, kinds == "torsion"] = np.append(phi, np.pi)[:, None]
    half = 0.5 * fx.logdet(chain, chain.cartesian(q))
    return energy(phi) - half[:-1] + half[-1]


def in_bins(energies: Any) -> np.ndarray:
    """Return −ln of the mean of exp(−A) in each bin."""
    fine = EDGES[:-1, None] + np.diff(EDGES)[:, None] * (np.arange(16) + 0.5) / 16.0
    return -np.log(np.exp(-energies(fine.ravel())).reshape(fine.shape).mean(axis=1))


def butane(name: str, ensemble: str, frames: int, turns: np.ndarray) -> list[dict[str, object]]:
    hard, potential = MODELS[name]
    model = fx.Chain.linear(4, masses=MASSES, hard=hard)
    x = fx.random_walks(model, REPLICAS, angles=BEND, rng=23)
    if "angle" not in hard:
        stiff = fx.Chain.linear(4, masses=MASSES, hard=("length", "angle"))
        x = fx.random_walks(stiff, REPLICAS, angles=BEND, rng=23)
    free_run = fx.simulate(
        model, x, fx.MonteCarlo(ensemble=ensemble, potential=potential), 10 * frames,
        every=1, rng=24, workers=2, progress=False,
    )  # fmt: skip
    counts = histogram(torsions(model, free_run.x), EDGES)
    stepper = fx.Langevin(0.02, ensemble=ensemble, potential=potential)
    forces = mean_forces(model, TURN, turns, x, stepper, frames)
    exact = slope(lambda phi: known(name, ensemble, phi), turns)
    free = bluemoon.free_energy(turns, forces)
    report(f"butane, {name}, {ensemble}", forces, exact, free, known(name, ensemble, turns))
    bins = in_bins(lambda phi: known(name, ensemble, phi))
    norm = np.log((np.exp(-bins) * np.diff(EDGES)).sum())
    rows = table("butane, " + name, ensemble, forces, exact, free, known(name, ensemble, turns))
    for k in np.flatnonzero(counts.density):
        p, error = counts.density[k], counts.error[k]
        phi, value = (EDGES[k] + EDGES[k + 1]) / 2.0, -np.log(p) - norm
        rows.append(row("butane, " + name, ensemble, "histogram", phi, value, error / p, bins[k]))
    seen = [r for r in rows if r["quantity"] == "histogram"]
    off = [(float(r["value"]) - float(r["exact"])) / float(r["error"]) for r in seen]
    print(f"  histogram: rms deviation {np.sqrt(np.mean(np.square(off))):.2f} σ in {len(off)} bins")
    return rows


# --- both ----------------------------------------------------------------------------------------


def mean_forces(
    model: fx.Chain, coordinate: Any, places: np.ndarray, x: np.ndarray, stepper: Any, frames: int
) -> list[bluemoon.MeanForce]:
    """Return the mean force at each place, from a run of replicas that hold the coordinate."""
    held = bluemoon.hold(model, coordinate)
    found = []
    for number, place in enumerate(places):
        x = bluemoon.bring(held, x, coordinate, place)
        run = fx.simulate(
            held, x, stepper, EVERY * (frames + SETTLE), every=EVERY, rng=number, workers=2,
            progress=False,
        )  # fmt: skip
        found.append(
            bluemoon.mean_force(
                held, run.x[SETTLE + 1 :], coordinate,
                potential=stepper.potential, ensemble=stepper.ensemble,
            )
        )  # fmt: skip
        x = run.x[-1]
    return found


def report(
    name: str, forces: Any, exact: np.ndarray, free: bluemoon.FreeEnergy, known: np.ndarray
) -> None:
    off = np.array([f.value for f in forces]) - exact
    error = np.array([f.error for f in forces])
    print(f"{name}: mean forces within {np.abs(off).max():.1e}, errors up to {error.max():.1e}")
    if error.min() > 1e-9:
        print(f"  rms deviation {np.sqrt(np.mean((off / error) ** 2)):.2f} σ")
    print(f"  A within {np.abs(free.value - known).max():.1e} kT, error {free.error.max():.1e}")


def table(
    system: str, ensemble: str, forces: Any, exact: Any, free: bluemoon.FreeEnergy, known: Any
) -> list[dict[str, object]]:
    rows = []
    for place, force, true, A, error, whole in zip(
        free.xi, forces, exact, free.value, free.error, known, strict=True
    ):
        rows.append(row(system, ensemble, "dA/dxi", place, force.value, force.error, true))
        rows.append(row(system, ensemble, "A", place, A, error, whole))
    return rows


def row(
    system: str, ensemble: str, quantity: str, xi: float, value: float, error: float, exact: float
) -> dict[str, object]:
    return {
        "system": system,
        "ensemble": ensemble,
        "quantity": quantity,
        "xi": f"{xi:.6f}",
        "value": f"{value:.6f}",
        "error": f"{error:.6f}",
        "exact": f"{exact:.6f}",
    }


def columns(
    rows: list[dict[str, object]], system: str, ensemble: str, quantity: str
) -> tuple[np.ndarray, ...]:
    chosen = [
        r
        for r in rows
        if (r["system"], r["ensemble"], r["quantity"]) == (system, ensemble, quantity)
    ]
    return tuple(
        np.array([float(str(r[key])) for r in chosen]) for key in ("xi", "value", "error", "exact")
    )


def draw(out: Output, rows: list[dict[str, object]]) -> None:
    with plot.style():
        finding = "Mean constraint forces give the free energy that quadrature and histograms give"
        fig, (upper, middle, lower) = panels(finding, 1, 3, aspect=0.4)
        fine = np.linspace(FAR[0], FAR[-1], 200)
        for number, ensemble in enumerate(ENSEMBLES):
            curve = ends(fine, ensemble)
            upper.plot(fine, curve - curve[0], color=plot.PALETTE[number])
            points(upper, columns(rows, "three bonds", ensemble, "A"), number, ensemble)
        upper.set_title("ends of three hard bonds", loc="left")
        upper.set_xlabel("distance r")
        upper.set_ylabel("A − A(1.1)  (kT)")
        upper.legend(loc="upper left")
        phi = np.linspace(-180.0, 0.0, 200)
        middle.plot(phi + 180.0, energy(np.radians(phi)), color="0.6")
        for number, (name, ensemble) in enumerate(
            (name, ensemble) for name in MODELS for ensemble in ENSEMBLES
        ):
            found = columns(rows, "butane, " + name, ensemble, "A")
            counts = columns(rows, "butane, " + name, ensemble, "histogram")
            half = counts[0] < 0.0
            label = f"{name}, {ensemble}"
            if ensemble == "rigid":
                points(middle, degrees(found), number, label)
                points(middle, degrees([c[half] for c in counts]), number, None, hollow=True)
            rest = (found[0], found[1] - energy(found[0]), found[2])
            own = np.searchsorted(EDGES, counts[0]) - 1
            away = counts[1] - in_bins(energy)[own]
            seen = half & (counts[2] < 0.15)
            points(lower, degrees(rest), number, label)
            points(
                lower,
                degrees([counts[0][seen], away[seen], counts[2][seen]]),
                number,
                None,
                hollow=True,
            )
        middle.set_title("butane (rings: histogram)", loc="left")
        middle.set_ylabel("A  (kT)")
        middle.set_xlabel("torsion, from trans  (°)")
        middle.legend(loc="upper left")
        lower.set_xlabel("torsion, from trans  (°)")
        lower.set_ylabel("A − U  (kT)")
        lower.set_yticks([-0.2, 0.0, 0.2])
        lower.legend(loc="upper left", ncols=2, fontsize=6)
        for ax in (middle, lower):
            ax.set_xticks(np.arange(0, 181, 30))
        out.save(fig)


def degrees(columns: Any) -> list[np.ndarray]:
    return [180.0 + np.degrees(columns[0]), *columns[1:]]


def points(ax: Any, columns: Any, number: int, label: str | None, hollow: bool = False) -> None:
    color = plot.PALETTE[number]
    ax.errorbar(
        columns[0], columns[1], columns[2], fmt="o" if hollow else plot.MARKERS[number],
        markersize=3.5 if hollow else 2.5, elinewidth=0.6, color=color, label=label,
        markerfacecolor="none" if hollow else color, markeredgewidth=0.6,
    )  # fmt: skip


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    rows, each = [], 4 if out.quick else 1
    for ensemble in ENSEMBLES:
        rows += three_bonds(ensemble, 20 if out.quick else 1500, FAR[::each])
    for name in list(MODELS)[: 1 if out.quick else None]:
        for ensemble in ENSEMBLES:
            rows += butane(name, ensemble, 20 if out.quick else 1000, PHI[::each])
    out.write_csv(rows)
    draw(out, rows)


if __name__ == "__main__":
    main()
