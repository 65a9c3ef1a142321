"""Viscosity and first normal stress coefficient of bead-rod chains in steady shear.

A rigid dumbbell against the solution of its diffusion equation; chains of 10 and 20 beads against
eta = (N^2 - 1)/36 zeta a^2 at rest, and against exponents -1/2 and -4/3 at high rates (Doyle,
Shaqfeh & Gast 1997).  Wi = rate eta(0)/kT.  Midpoint scheme, extrapolated to dt = 0 from two steps.
Every point is measured twice, by Giesekus' stress and by Kramers': they must agree.  Errors are
from independent replicas.
"""

from __future__ import annotations

import numpy as np
from _output import Output, panels, plot

import fixman as fx
from fixman import rheology

REPLICAS = 512
WEISSENBERG = {
    2: (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    10: (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
    20: (0.3, 1.0, 3.0, 10.0, 30.0, 100.0),
}
STEPS = {2: 80_000, 10: 30_000, 20: 20_000}  # of the longer time step
LARGEST = {2: 0.004, 10: 0.005, 20: 0.005}  # time steps, in zeta a^2/kT
TURN = 0.02  # and in 1/rate


def functions(stress: np.ndarray, rate: float) -> np.ndarray:
    """Return eta and Psi_1 of mean stresses (..., 3, 3), (2, ...)."""
    normal = stress[..., 0, 0] - stress[..., 1, 1]
    return np.stack([stress[..., 0, 1] / rate, normal / rate**2])


def measure(beads: int, Wi: float, quick: bool) -> tuple[np.ndarray, float, float]:
    """Return eta and Psi_1 of every replica by both stresses, (2, 2, replicas), rate and dt."""
    chain = fx.Chain.linear(beads)
    at_rest = fx.analytic.zero_shear_viscosity(beads)
    rate = Wi / at_rest
    replicas = 32 if quick else REPLICAS
    longer = min(LARGEST[beads], TURN / rate)
    # What flows forgets sooner.
    settle = 10.0 * at_rest / (1.0 + Wi) ** 0.5
    found = []
    for halved in (1, 2):
        dt = longer / halved
        steps = halved * (STEPS[beads] // (100 if quick else 1))
        every = halved * 20
        rng = np.random.default_rng([13, beads, round(100 * Wi), halved])
        stepper = fx.Brownian(dt, scheme="midpoint", flow=fx.flows.shear(rate))
        state = stepper.start(chain, fx.random_walks(chain, replicas, rng=rng), None, replicas, rng)
        stepper.advance(chain, state, min(round(settle / dt), steps), workers=2)
        total = np.zeros((2, replicas, 3, 3))
        for _ in range(steps // every):
            stepper.advance(chain, state, every, workers=2)
            total[0] += rheology.giesekus_stress(chain, state.x, stepper)
            total[1] += rheology.kramers_stress(chain, state.x, stepper)
        found.append(functions(total / (steps // every), rate))
    return 2.0 * found[1] - found[0], rate, longer


def mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(values.size))


def rows(quick: bool) -> list[dict[str, str]]:
    table = []
    for beads, numbers in WEISSENBERG.items():
        at_rest = fx.analytic.zero_shear_viscosity(beads)
        for Wi in (1.0, 3.0) if quick else numbers:
            found, rate, dt = measure(beads, Wi, quick)
            scale = np.array([at_rest, at_rest**2])[:, None, None]
            found = found / scale
            (eta, eta_error), (normal, normal_error) = (mean(one) for one in found[:, 0])
            (kramers, kramers_error), (other, other_error) = (mean(one) for one in found[:, 1])
            apart = [mean(one[0] - one[1]) for one in found]
            theory = {"eta": "", "psi1": ""}
            if beads == 2:
                theory["eta"] = f"{float(fx.analytic.dumbbell_viscosity(Wi)):.6f}"
                theory["psi1"] = f"{1.2 * float(fx.analytic.dumbbell_normal_stress(Wi)):.6g}"
            table.append(
                {
                    "beads": str(beads),
                    "Wi": f"{Wi:g}",
                    "rate": f"{rate:.6g}",
                    "dt": f"{dt:.6g}",
                    "eta": f"{eta:.5f}",
                    "eta_error": f"{eta_error:.5f}",
                    "eta_kramers": f"{kramers:.5f}",
                    "eta_kramers_error": f"{kramers_error:.5f}",
                    "eta_apart_in_errors": f"{apart[0][0] / apart[0][1]:.2f}",
                    "eta_theory": theory["eta"],
                    "psi1": f"{normal:.6g}",
                    "psi1_error": f"{normal_error:.2g}",
                    "psi1_kramers": f"{other:.6g}",
                    "psi1_kramers_error": f"{other_error:.2g}",
                    "psi1_apart_in_errors": f"{apart[1][0] / apart[1][1]:.2f}",
                    "psi1_theory": theory["psi1"],
                }
            )
            print(
                f"{beads} beads, Wi = {Wi:g}: eta/eta(0) = {eta:.4f} ± {eta_error:.4f}, Kramers "
                f"{kramers:.4f} ± {kramers_error:.4f}, theory {theory['eta'] or '-'}"
            )
    return table


def draw(out: Output, table: list[dict[str, str]]) -> None:
    line = np.geomspace(0.08, 130, 120)
    theory = {
        "eta": fx.analytic.dumbbell_viscosity(line),
        "psi1": 1.2 * fx.analytic.dumbbell_normal_stress(line),
    }
    guides = {"eta": (-0.5, 3.1, r"$\propto\mathrm{Wi}^{-1/2}$"),
              "psi1": (-4 / 3, 9.0, r"$\propto\mathrm{Wi}^{-4/3}$")}  # fmt: skip
    with plot.style():
        finding = "Bead-rod chains thin in shear, and the dumbbell follows its theory"
        fig, axes = panels(finding, 1, 2, sharex=True)
        for ax, name, label in (
            (axes[0], "eta", r"$\eta/\eta(0)$"),
            (axes[1], "psi1", r"$\Psi_1\,kT/\eta(0)^2$"),
        ):
            ax.plot(line, theory[name], color="0.5", linewidth=0.9, label="dumbbell, theory")
            for number, beads in enumerate(WEISSENBERG):
                who = "dumbbell" if beads == 2 else f"{beads} beads"
                own = [row for row in table if row["beads"] == str(beads)]
                value = {key: np.array([float(row[key]) for row in own])
                         for key in ("Wi", name, f"{name}_error")}  # fmt: skip
                ax.errorbar(
                    value["Wi"], value[name], value[f"{name}_error"], fmt=plot.MARKERS[number],
                    color=plot.PALETTE[number], label=who,
                )  # fmt: skip
            slope, size, text = guides[name]
            far = np.array([25.0, 130.0])
            ax.plot(far, size * far**slope, color="0.2", linewidth=0.8, linestyle="--")
            ax.text(50.0, 1.2 * size * 50.0**slope, text, color="0.2")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_ylabel(label)
        axes[0].axhline(1.0, color="0.7", linewidth=0.6, zorder=0)
        axes[0].set_yticks((0.2, 0.5, 1.0), ("0.2", "0.5", "1"))
        axes[0].yaxis.set_minor_formatter("")
        axes[0].legend(loc="lower left")
        fig.supxlabel(r"$\mathrm{Wi} = \dot\gamma\,\eta(0)/kT$", fontsize=8)
        out.save(fig)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    table = rows(out.quick)
    out.write_csv(table)
    draw(out, table)


if __name__ == "__main__":
    main()
