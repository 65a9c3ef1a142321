"""Hand-made faults, and the tests that find them: `python tests/mutants.py` tries every one.

Each mutant changes one place of one file, in a scratch copy of the repository, and the tests named
beside it must then fail: those of the README's command (killed), or else the thorough ones
(thorough).  One that stays alive is a test without teeth.

    python tests/mutants.py                     all; those in kernels compile them anew (minutes)
    python tests/mutants.py --only metric       one room; --skip kernels leaves one out
    python tests/mutants.py --match friction    those whose text or file has a word
    python tests/mutants.py --trust             the tests are known to pass without a mutant
    python tests/mutants.py --check             whether every old text is found exactly once
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
QUICK = "not thorough"  # the README's command
LIMIT = 1200.0  # seconds of a selection of tests, compilation included
COPIED = ("fixman", "tests", "pyproject.toml", "README.md", "docs")


class Mutant(NamedTuple):
    """One fault: ``file`` below fixman/, an old text and a new one, the tests that must notice."""

    room: str
    file: str
    old: str
    new: str
    tests: str


M = Mutant
MUTANTS = [
    # --- coordinates and chains
    M("coordinates", "chains/topology.py", "line = np.append(parents, [-3, -2])",
      "line = np.append(parents, [-2, -2])",
      "test_topology.py::test_references_follow_the_rules"),
    M("coordinates", "chains/layout.py", "slots.sign[s] * slots.sign[t] *", "slots.sign[s] *",
      "test_fixman_force.py::test_force_on_linear_chains"),
    # --- structured, partition, dynamics
    M("structured", "mechanics/structured.py", "off = -self.weights[1:-1] * self.cosines",
      "off = self.weights[1:-1] * self.cosines",
      "test_structured.py::test_tridiagonal_agrees_with_dense"),
    M("partition", "kernels/chain/motion.py", "for _ in range(2):", "for _ in range(1):",
      "test_dynamics.py::test_stiff_sets_lose_the_condition_of_their_rows_and_not_its_square"),
    M("partition", "mechanics/partition.py", "return self.logdet_free + self.logdet_hard",
      "return self.logdet_free - self.logdet_hard", "test_partition.py::test_determinant_theorem"),
    M("dynamics", "kernels/chain/charts.py", "= masses[k] * y[a] - F[at + a]",
      "= 1.0 * y[a] - F[at + a]", "test_dynamics.py::test_inverse_dynamics_equals_dense"),
    M("dynamics", "kernels/chain/charts.py", "qdd[frame, c] - row_curvature(",
      "qdd[frame, c] + row_curvature(", "test_dynamics.py::test_inverse_dynamics_equals_dense"),
    # --- metric, analytic
    M("metric", "mechanics/metric.py",
      "log_weights = half.min() - half", "log_weights = half - half.min()",
      "test_metric.py::test_weights_of_rigid_samples"),
    M("metric", "mechanics/metric.py", "np.append(np.zeros(int(layout.fixed)), w)",
      "np.append(np.zeros(int(layout.fixed)), 1.0 / w)",
      "test_fixman_force.py::test_the_mobility_metric_is_that_of_other_masses"),
    M("analytic", "sampling/analytic.py",
      "even = 2.0 + (1.0 + c) * p", "even = 2.0 + (1.0 - c) * p",
      "test_analytic.py::test_determinants_of_four_beads"),
    M("analytic", "sampling/transfer.py", "weights * np.sin(theta) ** (dim - 2)", "weights",
      "test_analytic.py::test_recorded_means_over_the_chain"),
    # --- rheology
    M("bluemoon", "analysis/bluemoon.py",
      "        f = f - fixman_force(model, x)", "        f = f + 0.0",
      "test_bluemoon.py::test_z_is_the_dense_one_and_g_its_slope"),
    M("rheology", "mechanics/drift.py",
      "np.where(diagonal, 1.0, 2.0)", "np.where(diagonal, 1.0, 1.0)",
      "test_rheology.py::test_mean_forces_of_linear_chains"),
    M("rheology", "analysis/rheology.py", "stress -= 0.5 * np.gradient(Q, times, axis=0)",
      "stress += 0.5 * np.gradient(Q, times, axis=0)",
      "test_rheology.py::test_the_rate_of_change_of_a_series"),
    M("rheology", "analysis/rheology.py", "force -= fixman_force(chain, x, kT)",
      "force += fixman_force(chain, x, kT)",
      "test_rheology.py::test_the_mean_stress_at_equilibrium_vanishes"),
    # --- samples
    M("sampling", "sampling/samples.py", "last = (degree[beads[parents]] > 2) | (",
      "last = (",
      "test_sampling.py::test_what_ends_in_a_branch_point_knows_of_nothing_beyond"),
    M("kernels", "kernels/sampling/trees.py", "1.0 / (before + w[k]), square)",
      "1.0 / (before + w[k]), 1.0)",
      "test_sampling.py::test_bends_have_their_distributions"),
    # --- rigid
    M("rigid", "rigid/spatial.py", "about_centre - mass * c @ c", "about_centre + mass * c @ c",
      "test_rigid_model.py::test_inertia_matrix_from_dense_spatial_matrices"),
    M("kernels", "kernels/rigid/motion.py",
      "follow(kinds, q, v, dt, q, False, q_m)\n    joint.passive(",
      "follow(kinds, q, v, 0.0, q, False, q_m)\n    joint.passive(",
      "test_rigid_motion.py::test_a_sprung_wheel_moves_as_the_schemes_do_it"),
    M("kernels", "kernels/rigid/tangent.py", "cross_matrix(scaled(-h, spin))",
      "cross_matrix(scaled(h, spin))", "test_rigid_motion.py::test_the_tangent_is_of_second_order"),
    M("kernels", "kernels/rigid/ends.py", "scaled(2.0, fused_cross(w, v))",
      "fused_cross(w, v)",
      "test_rigid_closed.py::test_loops_against_a_dense_solve"),
    M("kernels", "kernels/rigid/closed.py", "work[at + bodies.ROTOR] * ε", "0.0 * ε",
      "test_rigid_closed.py::test_determinants_are_the_dense_ones"),
    M("rigid", "rigid/_closure_torque.py", "_beyond(h - felt)",
      "_beyond(h + felt)",
      "test_rigid_closed.py::test_torque_is_the_gradient_of_the_potential"),
    M("rigid", "rigid/closed.py", "- of_rows.sum(-1)",
      "",
      "test_rigid_closed.py::test_determinants_are_the_dense_ones"),
    M("rigid", "kernels/rigid/joints.py", "(scaled(0.5, turning(kind, v, to)), 0.0)",
      "(scaled(-0.5, turning(kind, v, to)), 0.0)",
      "test_rigid_statistics.py::test_motion_is_hamilton_s_for_any_step"),
    M("rigid", "rigid/statistics.py", "math.expm1(-2.0 * decay)", "math.expm1(-decay)",
      "test_rigid_statistics.py::test_friction_and_noise_of_one_step_are_exact"),
    M("rigid", "rigid/statistics.py", "tau = fixman_torque(self.arm, q, self.kT) if",
      "tau = -fixman_torque(self.arm, q, self.kT) if",
      "test_rigid_statistics.py::test_motion_is_hamilton_s_for_any_step"),
    M("rigid", "rigid/urdf.py", "R @ part.inertia @ R.T", "R.T @ part.inertia @ R",
      "test_urdf.py::test_pieces_fixed_together_are_one_body"),
    # --- potentials, observables, statistics
    M("observables", "simulation/observables.py", "for one, many in kinds) - conserved",
      "for one, many in kinds) + conserved",
      "test_observables.py::test_kinetic_energy_and_temperature"),
    M("observables", "simulation/lags.py", "- 0.5 * rows[:, :1]", "- 0.0 * rows[:, :1]",
      "test_correlations.py::test_rouse_chains_have_the_times_of_their_modes"),
    M("_statistics", "_common/statistics.py",
      "common = max(outside - inside * (1.0 + deviation), 0.0)",
      "common = max(outside, 0.0)",
      "test_statistics.py::test_the_error_of_a_mean_is_its_spread_over_repetitions"),
    # --- steppers, walks
    M("steppers", "simulation/steppers/moving.py", "math.exp(-stepper.rate * time)",
      "math.exp(-1.05 * stepper.rate * time)",
      "test_friction.py::test_velocities_are_forgotten_at_the_rate_of_the_friction"),
    M("steppers", "simulation/steppers/scheduled.py",
      "return self.ensemble != self.SAMPLED", "return self.ensemble == self.SAMPLED",
      "test_steppers.py::test_the_stiff_ensemble_is_the_rigid_one_with_the_fixman_potential"),
    M("steppers", "simulation/steppers/moving.py", "np.sqrt(stepper.kT * (1.0 - c * c) * w)",
      "np.sqrt(stepper.kT * (1.0 - c) * w)",
      "test_friction.py::test_velocities_are_forgotten_at_the_rate_of_the_friction"),
    M("steppers", "simulation/steppers/moving.py", "else time) * w", "else 2.0 * time) * w",
      "test_steppers.py::test_rattle_converges_to_forward_dynamics_as_the_square_of_dt"),
    M("steppers", "simulation/steppers/scheduled.py", "force echo kick/2", "force noise kick/2",
      "test_brownian.py::test_steps_are_those_of_dense_linear_algebra"),
    M("steppers", "potentials/flows.py", "(step + 0.5) * dt", "step * dt",
      "test_brownian.py::test_a_dumbbell_turns_in_shear_as_its_equation_says"),
    M("steppers", "simulation/steppers/scheduled.py",
      "SAMPLED = \"mobility\"", "SAMPLED = \"rigid\"",
      "test_brownian.py::test_steps_are_those_of_dense_linear_algebra"),
    M("walks", "sampling/random_walks.py", "np.arccos(rng.uniform(-1.0, 1.0,",
      "np.pi * (rng.uniform(0.0, 1.0,",
      "test_walks.py::test_open_walks_are_those_of_the_stiff_ensemble"),
    # --- input and output
    M("io/averages", "analysis/averages.py",
      "half_logdet if ensemble == \"stiff\" else -half_logdet",
      "-half_logdet if ensemble == \"stiff\" else half_logdet",
      "test_audit.py::test_reweighting_takes_samples_to_the_other_ensemble"),
    # --- kernels
    M("kernels", "kernels/potentials/nonbonded.py", "24.0 * sixth * (2.0 * sixth - 1.0)",
      "24.0 * sixth * (2.0 * sixth - 0.99)",
      "test_potentials.py -k formula and 3D-free and LennardJones"),
    M("kernels", "kernels/potentials/bonded.py", "slope = slope + m * (b * cm - a * sm)",
      "slope = slope + m * (b * cm + a * sm)",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula -k 3D-free and Torsion"),
    M("kernels", "kernels/simulation/stepping.py", "other, F, X, -motion.kT, like)",
      "other, F, X, motion.kT, like)",
      "test_brownian.py::test_steps_are_those_of_dense_linear_algebra"),
    M("kernels", "kernels/simulation/trials.py", "return beyond(away, (CLOSE * CLOSE) * way)",
      "return beyond(0.0 * away, (CLOSE * CLOSE) * way)",
      "test_hybrid.py::test_a_leap_that_does_not_lead_back_is_refused"),
    M("kernels", "kernels/chain/jointed_motion.py", "along_u = fma(Q, p, q * (Q_wσc * c))",
      "along_u = fma(Q, p, -q * (Q_wσc * c))",
      "test_dynamics.py::test_planar_forward_dynamics_for_every_shape"),
    M("kernels", "kernels/factors/tridiagonal.py", "return inverse * (w * (e + w * square))",
      "return (w * inverse) * (e + square)", "test_structured.py -k tridiagonal"),
    M("kernels", "kernels/factors/sparse.py",
      "ratio = load(V, q, like) * load(V, entry(first, k), like)", "ratio = load(V, q, like)",
      "test_metric.py::test_logdet_of_trees_and_rings"),
    M("kernels", "kernels/chain/charts.py", "c, -qdd[frame, c], F", "c, qdd[frame, c], F",
      "test_dynamics.py::test_inverse_dynamics_equals_dense"),
    M("kernels", "kernels/compiler/steps.py",
      "_sum(_product(self.rate, x), _product(dx, self.value))",
      "_product(self.rate, x)", "test_coordinates.py -k velocity_terms"),
    M("kernels", "kernels/factors/tridiagonal.py", "p = fma(turning, before, p)",
      "p = turning + p", "test_special_kernels.py::test_motion_of_bonds"),
    M("kernels", "kernels/chain/freely_jointed.py", "pull = kT * (w[k] * (g * S))",
      "pull = kT * (g * S)", "test_fixman_force.py::test_force_on_linear_chains"),
    M("kernels", "kernels/simulation/jointed_steps.py", "f = scaled((kT * w[k + 1]) * beside,",
      "f = scaled(kT * beside,", "test_steppers.py::test_the_fixman_force_of_a_step"),
    M("kernels", "kernels/simulation/banded_steps.py", "fma(below[i], multipliers[k], taken",
      "fma(below[i], below[k], taken",
      "test_steppers.py::test_the_same_bits_in_any_company_and_on_the_manifold"),
    M("kernels", "kernels/rigid/articulated_inertia.py", "A[3] + d * (B[3] + new[3])",
      "A[3] + d * (B[3] + B[3])",
      "test_articulated_body.py::test_inverse_undoes_forward_on_long_chains"),
    M("kernels", "kernels/rigid/newton_euler.py", "both = plus(ω, plus(ω, turn))",
      "both = plus(ω, turn)",
      "test_articulated_body.py::test_inverse_undoes_forward_on_long_chains"),
    M("kernels", "kernels/rigid/articulated_inertia.py",
      "f = tuple(f[k] + h[k] * u for k in range(3))",
      "f = tuple(f[k] - h[k] * u for k in range(3))",
      "test_articulated_body.py::test_any_chain_against_the_pass_of_the_book"),
    M("kernels", "kernels/rigid/links.py",
      "f = scaled(m, plus(v, fused_cross(w, c)))", "f = scaled(m, v)",
      "test_rigid_model.py::test_inertia_matrix_from_dense_spatial_matrices"),
    M("kernels", "kernels/rigid/joints.py", "axis, -half, second)", "axis, half, second)",
      "test_rigid_joints.py::test_passive_forces_are_the_gradient_of_the_energy_and_drag"),
    M("kernels", "kernels/rigid/innovations.py", "mat.product(both, mat.transposed(B))",
      "mat.product(both, B)",
      "test_rigid_statistics.py::test_fixman_torque_is_the_gradient_of_the_inertia_matrix"),
    M("kernels", "kernels/rigid/spatial_operators.py",
      "inertia.Articulated(P.A, P.B, P.C, plus(P.moment, n), plus(P.force, f))",
      "inertia.Articulated(P.A, P.B, P.C, P.moment, plus(P.force, f))",
      "test_spatial_operators.py"),
    M("kernels", "kernels/rigid/partition.py", "fused_cross(mat.constants(own, WAY), force))",
      "fused_cross(force, mat.constants(own, WAY)))", "test_rigid_partition.py"),
    # --- Monte Carlo
    M("kernels", "kernels/sampling/pivots.py", "flat = wk * (e + r) + e * r",
      "flat = wk * (e + r)",
      "test_montecarlo.py::test_sweeps_decide_by_the_determinant_of_the_whole_chain"),
    M("kernels", "kernels/sampling/torsions.py",
      "* about[k] / release(behind, u)", "/ release(behind, u)",
      "test_montecarlo.py::test_sweeps_decide_by_the_determinant_of_the_whole_chain"),
    M("kernels", "kernels/sampling/crankshafts.py", "/ kT\n", "\n",
      "test_montecarlo.py::test_moves_are_decided_by_weights_of_the_whole_chain"),
]  # fmt: skip


def places(mutant: Mutant) -> int:
    """How often the old text stands in its file."""
    file = ROOT / "fixman" / mutant.file
    return file.read_text(encoding="utf-8").count(mutant.old) if file.is_file() else 0


def check(mutants: list[Mutant]) -> int:
    """Print every mutant whose place is not found exactly once; the number of them."""
    lost = [(mutant, places(mutant)) for mutant in mutants if places(mutant) != 1]
    for mutant, number in lost:
        print(f"{mutant.file}: found {number} times: {mutant.old!r}")
    return len(lost)


def selected(tests: str) -> list[str]:
    """Words for pytest; those after -k are one expression."""
    files, _, expression = tests.partition(" -k ")
    return files.split() + (["-k", expression] if expression else [])


def passes(tests: str, copy: Path, marks: str) -> bool:
    """Whether those tests of a selection that have the marks pass in a copy of the repository."""
    words = [f"tests/{word}" if word.startswith("test_") else word for word in selected(tests)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, "-m", marks, *words],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:  # a mutant may turn for ever
        return False
    if done.returncode == 5:  # none has the marks
        return True
    if done.returncode > 2:  # pytest itself went wrong; crashes are negative
        raise SystemExit(f"{tests}: pytest ended with {done.returncode}\n{done.stdout}")
    return done.returncode == 0


def verdict(mutant: Mutant, copy: Path) -> str:
    """Say which tests notice the mutant."""
    file = copy / "fixman" / mutant.file
    right, times = file.read_bytes(), file.stat()
    wrong = right.decode("utf-8").replace(mutant.old, mutant.new)
    try:
        file.write_bytes(wrong.encode("utf-8"))
        for marks, word in ((QUICK, "killed"), ("thorough", "thorough")):
            if not passes(mutant.tests, copy, marks):
                return word
        return "alive"
    finally:
        file.write_bytes(right)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def chosen(arguments: argparse.Namespace) -> list[Mutant]:
    def wanted(mutant: Mutant) -> bool:
        text = f"{mutant.file} {mutant.old} {mutant.new} {mutant.tests}"
        return (
            arguments.only in ("", mutant.room)
            and arguments.skip != mutant.room
            and arguments.match in text
        )

    return [mutant for mutant in MUTANTS if wanted(mutant)]


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--only", default="", metavar="ROOM")
    parser.add_argument("--skip", default="", metavar="ROOM")
    parser.add_argument("--match", default="", metavar="TEXT")
    parser.add_argument("--trust", action="store_true")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    mutants = chosen(arguments)
    if check(mutants):
        return 1
    if arguments.check:
        print(f"{len(mutants)} mutants, each found once")
        return 0
    counts = dict.fromkeys(("killed", "thorough", "alive"), 0)
    with tempfile.TemporaryDirectory(prefix="fixman-mutants-") as folder:
        copy = Path(folder)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name)  # with times, so that caches stay good
            else:
                shutil.copy2(source, copy / name)
        words = {word for mutant in mutants for word in mutant.tests.partition(" -k ")[0].split()}
        whole = {word for word in words if word.endswith(".py")}
        apart = {word for word in words if word.partition("::")[0] not in whole}
        if not arguments.trust and not passes(" ".join(sorted(whole | apart)), copy, ""):
            print("the tests fail without a mutant: mend that first")
            return 1
        for mutant in mutants:
            found = verdict(mutant, copy)
            counts[found] += 1
            print(f"{found:10} {mutant.file}: {mutant.old!r} -> {mutant.new!r}", flush=True)
    print(f"tried {len(mutants)}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return int(counts["alive"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
