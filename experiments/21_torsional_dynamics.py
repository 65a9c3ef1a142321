"""Torsional dynamics in a force field: alanine dipeptide's φ and ψ, and villin's time step.

Alanine dipeptide in implicit solvent, its bonds and angles flexible (2 fs, bonds to hydrogens
held), hard in the stiff ensemble, by Langevin dynamics and by hybrid Monte Carlo, and hard in the
rigid ensemble.  The first two with hard angles must agree; rigid frames must be stiff ones
reweighted by √det H^bb; what flexible angles do is not in either: energies over φ, with hard angles
and relaxed, say how much that is.  Samples per force evaluation are dt over twice the correlation
time of being helical.  Villin headpiece from OpenMM's own files: root mean square error of the
energy over 1 ps against the time step, methyls, OH and NH₃⁺ turning or held, and with bonds to
hydrogens alone held by OpenMM.
"""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import openmm
from _output import Output, panels, plot
from openmm import app, unit

import fixman as fx
from fixman.io.openmm import kT
from fixman.io.openmm.torsional import Molecule
from fixman.simulation.observables import (
    correlation_time,
    kinetic_energy,
    mean_with_error,
    torsions,
)

FIELD = ("amber99sbildn.xml", "amber99_obc.xml")
KT = kT(300.0)
FRICTION = 5.0  # 1/ps
REPLICAS = 8
LENGTHS = {"stiff": 900.0, "hybrid": 1500.0, "rigid": 900.0, "flexible": 320.0}  # ps a replica
SETTLE, FRAME = 40.0, 0.3  # ps of them left out, and from frame to frame
EDGES = np.radians(np.arange(-180, 181, 45))
HELIX = np.radians([-135.0, 45.0])  # of ψ
FINE = np.radians(np.arange(-180, 181, 15))
ENOUGH = 10.0  # independent visits of a bin that is compared
DTS = (0.002, 0.004, 0.006, 0.008, 0.01, 0.012, 0.016)  # ps
MD_DTS = (0.0005, 0.001, 0.002, 0.003)
HELD = ("methyl", "hydroxyl", "ammonium")
DIPEPTIDE = """\
ATOM      1  H1  ACE     1       2.000   1.000  -0.000
ATOM      2  CH3 ACE     1       2.000   2.090   0.000
ATOM      3  H2  ACE     1       1.486   2.454   0.890
ATOM      4  H3  ACE     1       1.486   2.454  -0.890
ATOM      5  C   ACE     1       3.427   2.641  -0.000
ATOM      6  O   ACE     1       4.391   1.877  -0.000
ATOM      7  N   ALA     2       3.555   3.970  -0.000
ATOM      8  H   ALA     2       2.733   4.556  -0.000
ATOM      9  CA  ALA     2       4.853   4.614  -0.000
ATOM     10  HA  ALA     2       5.408   4.316   0.890
ATOM     11  CB  ALA     2       5.661   4.221  -1.232
ATOM     12  HB1 ALA     2       5.123   4.521  -2.131
ATOM     13  HB2 ALA     2       6.630   4.719  -1.206
ATOM     14  HB3 ALA     2       5.809   3.141  -1.241
ATOM     15  C   ALA     2       4.713   6.129   0.000
ATOM     16  O   ALA     2       3.601   6.653   0.000
ATOM     17  N   NME     3       5.846   6.835   0.000
ATOM     18  H   NME     3       6.737   6.359  -0.000
ATOM     19  C   NME     3       5.846   8.284   0.000
ATOM     20  H1  NME     3       4.819   8.648   0.000
ATOM     21  H2  NME     3       6.360   8.648   0.890
ATOM     22  H3  NME     3       6.360   8.648  -0.890
TER
END
"""
STEPPERS = {
    "stiff": fx.Langevin(0.008, kT=KT, friction=FRICTION, ensemble="stiff"),
    "hybrid": fx.HybridMonteCarlo(0.02, kT=KT, leaps=15, ensemble="stiff"),
    "rigid": fx.Langevin(0.008, kT=KT, friction=FRICTION, ensemble="rigid"),
}


class Sampled(NamedTuple):
    """φ and ψ (frames, replicas), ½ ln det H^bb, and the force evaluations of a frame."""

    phi: np.ndarray
    psi: np.ndarray
    half: np.ndarray
    forces: float

    @property
    def helical(self) -> np.ndarray:
        """1 where ψ is that of a helix."""
        return np.asarray((self.psi > HELIX[0]) & (self.psi < HELIX[1]), float)

    def shares(self, logs: np.ndarray | None = None) -> np.ndarray:
        """Share of each bin, its error and how many visits were independent (bins², 3)."""
        i, j = (np.digitize(angle, EDGES[1:-1]) for angle in (self.phi, self.psi))
        place = i * (EDGES.size - 1) + j
        found = [mean_with_error(1.0 * (place == k), log_weights=logs)
                 for k in range((EDGES.size - 1) ** 2)]  # fmt: skip
        return with_basins(np.array(found), mean_with_error(self.helical, log_weights=logs))


def with_basins(found: np.ndarray, helical: tuple[float, float]) -> np.ndarray:
    """Share of each bin, its error and how many visits were independent (bins², 3).

    All bins of a basin share the slow exchange with the other one, of which the autocorrelation of
    a small bin does not know.
    """
    middles = 0.5 * (EDGES[1:] + EDGES[:-1])
    inside = np.tile((middles > HELIX[0]) & (middles < HELIX[1]), middles.size)
    basin = np.where(inside, helical[0], 1.0 - helical[0])
    p, error = found.T
    error = np.hypot(error, p * helical[1] / np.maximum(basin, 1e-9))
    visits = np.divide(p * p * (1.0 - p), error**2, out=np.zeros_like(p), where=error > 0.0)
    return np.stack([p, error, visits], axis=1)


def hard(molecule: Molecule, stepper: Any, span: tuple[float, float], seed: int) -> Sampled:
    """Sample with hard bonds and angles."""
    chain, leaps = molecule.chain(), getattr(stepper, "leaps", 1)
    every = round(FRAME / (stepper.dt * leaps))
    frames = round(span[0] / (every * leaps * stepper.dt))
    run = fx.simulate(
        chain,
        molecule.minimized(molecule.x0),
        replace(stepper, potential=molecule),
        every * frames,
        every=every,
        replicas=REPLICAS,
        rng=seed,
        progress=False,
        observables=molecule.observables(),
    )
    tail = run[round(span[1] / span[0] * frames) + 1 :]
    phi, psi = (tail.observables[name][..., 0] for name in ("phi", "psi"))
    return Sampled(phi, psi, 0.5 * fx.logdet(chain, tail.x), every * leaps)


def flexible(molecule: Molecule, span: tuple[float, float], seed: int) -> Sampled:
    """Sample by OpenMM at 2 fs with bonds to hydrogens held."""
    simulation = _md(molecule, openmm.LangevinMiddleIntegrator(300.0, FRICTION, 0.002))
    simulation.integrator.setRandomNumberSeed(seed)
    every, chain = round(FRAME / 0.002), molecule.chain()
    x = np.empty((round(span[0] / FRAME), REPLICAS, chain.n, 3))
    for replica in range(REPLICAS):
        simulation.context.setPositions(molecule.minimized(molecule.x0))
        simulation.context.applyConstraints(1e-8)
        simulation.context.setVelocitiesToTemperature(300.0, seed + replica)
        for one in x[:, replica]:
            simulation.step(every)
            one[:] = _positions(simulation.context)
    tail = x[round(span[1] / FRAME) :]
    _, beads = molecule.backbone[0]
    angles = torsions(chain, tail, [beads[:4], beads[1:]])
    return Sampled(angles[..., 0], angles[..., 1], np.zeros(tail.shape[:2]), every)


def _md(molecule: Molecule, integrator: Any) -> Any:
    system = app.ForceField(*FIELD).createSystem(molecule.topology, constraints=app.HBonds)
    integrator.setConstraintTolerance(1e-8)
    platform = openmm.Platform.getPlatformByName(molecule.platform)
    return app.Simulation(molecule.topology, system, integrator, platform)


def _positions(context: Any) -> np.ndarray:
    found = context.getState(positions=True).getPositions(asNumpy=True)
    return np.asarray(found.value_in_unit(unit.nanometer))


def compare(one: np.ndarray, two: np.ndarray) -> tuple[float, int]:
    """Largest difference of shares in standard errors, and in how many bins."""
    both = (one[:, 2] > ENOUGH) & (two[:, 2] > ENOUGH)
    sigma = (one[both, 0] - two[both, 0]) / np.hypot(one[both, 1], two[both, 1])
    return float(np.abs(sigma).max(initial=0.0)), int(both.sum())


def compared(shares: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Compare ensembles bin by bin."""
    rows = []
    for one, two in (("stiff", "hybrid"), ("rigid", "reweighted"), ("rigid", "stiff"),
                     ("flexible", "stiff")):  # fmt: skip
        sigma, bins = compare(shares[one], shares[two])
        rows.append(_row("largest difference / sigma", f"{one}, {two}", "", "", sigma, 0.0, bins))
        print(f"{one} and {two}: {sigma:.1f} σ at most in {bins} bins")
    return rows


def dipeptide(quick: bool) -> tuple[dict[str, Sampled], list[dict[str, Any]]]:
    """Sample alanine dipeptide every way, and compare."""
    molecule = Molecule(DIPEPTIDE, FIELD, "Reference")
    spans = {name: (6.0, 1.5) if quick else (ps, SETTLE) for name, ps in LENGTHS.items()}
    found = {
        name: hard(molecule, s, spans[name], k) for k, (name, s) in enumerate(STEPPERS.items())
    }
    found["flexible"] = flexible(molecule, spans["flexible"], 7)
    shares = {name: one.shares() for name, one in found.items()}
    shares["reweighted"] = found["stiff"].shares(found["stiff"].half)
    rows = []
    for name, table in shares.items():
        for (i, j), (p, error, visits) in zip(
            itertools.product(EDGES[:-1], EDGES[:-1]), table, strict=True
        ):
            middle = [f"{np.degrees(a):.1f}" for a in (i + EDGES[0] / -8, j + EDGES[0] / -8)]
            rows.append(_row("share", name, *middle, p, error, f"{visits:.0f}"))
    rows += compared(shares)
    for name, one in found.items():
        tau = correlation_time(one.helical) * one.forces
        helical = mean_with_error(one.helical)
        rows.append(_row("force evaluations a sample", name, "", "", 2.0 * tau, 0.0, ""))
        rows.append(_row("helical", name, "", "", *helical, ""))
        rows.append(_row("spread of half ln det", name, "", "", one.half.std(), 0.0, ""))
        print(f"{name}: helical {helical.value:.3f} ± {helical.error:.3f}, a sample costs "
              f"{2.0 * tau:.0f} forces; ½ ln det varies by {one.half.std():.3f}")  # fmt: skip
    return found, rows


def barriers(step: int) -> list[dict[str, Any]]:
    """Lowest energies over φ, all ψ tried, with hard angles and with everything else relaxed."""
    molecule = Molecule(DIPEPTIDE, FIELD, "Reference")
    chain, x = molecule.chain(), molecule.minimized(molecule.x0, 1.0)
    beads = [molecule.backbone[0][1][:4], molecule.backbone[0][1][1:]]
    turned = {frozenset(four[1:3]): k for k, four in enumerate(beads)}
    rows = np.zeros(2, dtype=int)
    for k in chain.soft:
        row = chain.coordinates[k]
        if row.kind == "torsion" and frozenset(row.beads[1:3]) in turned:
            rows[turned[frozenset(row.beads[1:3])]] = k
    angles = np.radians(np.arange(-180, 180, step))
    grid = np.stack(np.meshgrid(angles, angles, indexing="ij"), axis=-1).reshape(-1, 2)
    q = np.tile(chain.internal(x), (len(grid), 1))
    q[:, rows] += grid - torsions(chain, x, beads)
    places, shape = chain.cartesian(q), (angles.size, angles.size)
    held = openmm.CustomTorsionForce("2500*min(d, 6.283185307-d)^2; d=abs(theta-at)")
    held.addPerTorsionParameter("at")
    for four in beads:
        held.addTorsion(*four, [0.0])
    system = openmm.XmlSerializer.clone(molecule.system)
    system.addForce(held)
    platform = openmm.Platform.getPlatformByName("Reference")
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), platform)
    relaxed = []
    for at, place in zip(grid, places, strict=True):
        for k, four in enumerate(beads):
            held.setTorsionParameters(k, *four, [float(at[k])])
        held.updateParametersInContext(context)
        context.setPositions(place)
        openmm.LocalEnergyMinimizer.minimize(context, 5.0, 300)
        relaxed.append(molecule.energy(_positions(context)))
    found = []
    for name, energy in (("hard", molecule.energy(places)), ("relaxed", np.array(relaxed))):
        lowest = (energy - energy.min()).reshape(shape).min(axis=1) / KT
        found += [_row("lowest energy over phi / kT", name, f"{np.degrees(phi):.0f}", "", value)
                  for phi, value in zip(angles, lowest, strict=True)]  # fmt: skip
        print(f"{name}: {lowest[angles.size // 2]:.1f} kT at φ = 0")
    return found


def villin() -> list[dict[str, Any]]:
    """Energy errors of villin against the time step."""
    file = Path(app.__file__).parent / "data" / "test.pdb"
    molecule = Molecule.prepare(file, FIELD, "CPU", drop_solvent=True)
    start, rows = molecule.minimized(molecule.x0), []
    for name, hold in (("all turn", ()), ("held", HELD)):
        chain = molecule.chain(hold)
        heat = fx.Langevin(0.006, kT=KT, friction=20.0, potential=molecule)
        x, v = (getattr(fx.simulate(chain, start, heat, 600, every=600, rng=3, progress=False),
                        what)[-1, 0] for what in "xv")  # fmt: skip
        freedom = chain.soft.size
        for dt in DTS:
            stepper, energies = fx.Newton(dt, potential=molecule), []
            state = stepper.start(chain, x, v, 1, 0)
            for _ in range(25):
                stepper.advance(chain, state, max(1, round(0.04 / dt)))
                energies.append(molecule.energy(state.x[0]) + kinetic_energy(chain, state.v)[0])
            rows.append(_row("energy error / kJ/mol", name, 1e3 * dt, freedom, np.std(energies)))
            print(f"villin, {name}, {1e3 * dt:g} fs: {np.std(energies):.3f} kJ/mol")
    return rows + _flexible_villin(molecule, start)


def _flexible_villin(molecule: Molecule, start: np.ndarray) -> list[dict[str, Any]]:
    """Do the same with OpenMM's leapfrog, of which velocities are taken at full steps."""
    warm = _md(molecule, openmm.LangevinMiddleIntegrator(300.0, 20.0, 0.002))
    warm.context.setPositions(start)
    warm.context.applyConstraints(1e-8)
    warm.step(1800)
    state, rows = warm.context.getState(positions=True, velocities=True), []
    for dt in MD_DTS:
        simulation = _md(molecule, openmm.VerletIntegrator(dt))
        simulation.context.setState(state)
        energies = []
        for _ in range(25):
            simulation.step(round(0.04 / dt))
            now = simulation.context.getState(energy=True)
            total = now.getPotentialEnergy() + now.getKineticEnergy()
            energies.append(total.value_in_unit(unit.kilojoule_per_mole))
        rows.append(_row("energy error / kJ/mol", "flexible", 1e3 * dt, "", np.std(energies)))
        print(f"villin, flexible, {1e3 * dt:g} fs: {np.std(energies):.3f} kJ/mol")
    return rows


def _row(what: str, of: str, one: Any, two: Any, value: float, error: float = 0.0,
         count: Any = "") -> dict[str, Any]:  # fmt: skip
    """One line: of shares φ and ψ in degrees; of energy errors dt in fs and degrees of freedom."""
    return {"quantity": what, "of": of, "phi_or_dt": one, "psi_or_freedom": two,
            "value": f"{value:.5g}", "error": f"{error:.2g}", "count": count}  # fmt: skip


def draw(out: Output, found: dict[str, Sampled], rows: list[dict[str, Any]]) -> None:
    degrees = np.degrees(FINE)
    with plot.style():
        finding = "Torsional dynamics in the stiff ensemble has the basins of flexible dynamics"
        fig, grid = panels(finding, 2, 3, aspect=0.6)
        axes = grid.T
        free, deepest = {}, {}
        for name, one in found.items():
            counts = np.histogram2d(one.phi.ravel(), one.psi.ravel(), [FINE, FINE])[0].T
            deepest[name] = -np.log(counts.max() / counts.sum())
            with np.errstate(divide="ignore"):
                free[name] = np.where(counts > 20, -np.log(counts / counts.sum()), np.nan)
        for ax, name in zip(axes[0], ("flexible", "stiff"), strict=True):
            mesh = ax.pcolormesh(degrees, degrees, free[name] - deepest[name], vmin=0, vmax=6)
            ax.set_title(f"{name}: F/kT", loc="left")
            fig.colorbar(mesh, ax=ax)
        for ax, (one, two) in zip(axes[1], (("flexible", "stiff"), ("rigid", "stiff")),
                                  strict=True):  # fmt: skip
            mesh = ax.pcolormesh(degrees, degrees, free[one] - free[two], cmap="RdBu_r",
                                 vmin=-2, vmax=2)  # fmt: skip
            ax.set_title(f"{one} − {two}", loc="left")
            fig.colorbar(mesh, ax=ax)
        for ax in axes[:2].flat:
            ax.set_xticks([-180, 0, 180])
            ax.set_yticks([-180, 0, 180])
            ax.set_xlabel(r"$\varphi$", labelpad=-2)
            ax.set_ylabel(r"$\psi$", labelpad=-10)
        _draw_bars(axes[2, 0], rows)
        _draw_errors(axes[2, 1], rows)
        out.save(fig)


def _draw_bars(ax: Any, rows: list[dict[str, Any]]) -> None:
    chosen = [row for row in rows if row["quantity"] == "force evaluations a sample"]
    names = [row["of"] for row in chosen]
    ax.barh(names, [1e6 / float(row["value"]) for row in chosen], color=plot.PALETTE[: len(names)])
    ax.set_xlabel(r"samples in $10^6$ forces")


def _draw_errors(ax: Any, rows: list[dict[str, Any]]) -> None:
    for number, name in enumerate(("all turn", "held", "flexible")):
        chosen = [row for row in rows
                  if row["quantity"].startswith("energy error") and row["of"] == name]  # fmt: skip
        ax.loglog([row["phi_or_dt"] for row in chosen], [float(row["value"]) for row in chosen],
                  marker=plot.MARKERS[number], color=plot.PALETTE[number], label=name)  # fmt: skip
    ax.set_xlabel("dt (fs), villin")
    ax.set_ylabel("energy error (kJ/mol)")
    ax.legend(loc="lower right", handlelength=1.0, borderpad=0.0, borderaxespad=0.0)
    ax.set_ylim(bottom=0.002)


def main() -> None:
    out = Output.from_arguments(__file__, __doc__)
    warnings.filterwarnings("ignore", "dt=.* is long")  # of free atoms, which these are not
    found, rows = dipeptide(out.quick)
    rows += barriers(45 if out.quick else 15)
    if not out.quick:
        rows += villin()
    out.write_csv(rows)
    draw(out, found, rows)


if __name__ == "__main__":
    main()
