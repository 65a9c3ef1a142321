"""Hand-made faults, and the tests that find them: `python tests/mutants.py` tries every one.

Each mutant changes one place of one file, in a scratch copy of the repository, and the tests named
beside it must then fail.  One that stays alive is a test without teeth.

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
LIMIT = 1200.0  # seconds of a selection of tests, compilation included
COPIED = ("fixman", "tests", "pyproject.toml", "README.md", "docs")


class Mutant(NamedTuple):
    """One fault: ``file`` below fixman/, what is replaced by what, the tests that must notice.

    ``equivalent`` says why a mutant changes nothing that could be seen.
    """

    room: str
    file: str
    old: str
    new: str
    tests: str
    equivalent: str = ""


M = Mutant
MUTANTS = [
    # --- coordinates and chains
    M("coordinates", "coordinates.py", "references[1:] -= references[1:] < 0",
      "references[1:] -= references[1:] < -1",
      "test_coordinates.py::test_torsions_carry_the_iupac_sign"),
    M("coordinates", "coordinates.py", "np.where(used & (beads >= 0), beads, -1)",
      "np.where(used & (beads > 0), beads, -1)",
      "test_coordinates.py::test_ghosts_of_a_free_chain_ride_on_its_first_bead"),
    M("coordinates", "coordinates.py", "(sines > SMALLEST_SINE) & finite",
      "(sines >= 0.0) & finite", "test_coordinates.py::test_hard_values_need_no_soft_coordinate"),
    M("coordinates", "coordinates.py", "same = first[-1] // 4 == second[-1] // 4",
      "same = first[-1] // 4 != second[-1] // 4", "test_partition.py test_metric.py"),
    M("coordinates", "coordinates.py", "sign[a] * sign[b]", "sign[a]",
      "test_fixman_force.py::test_force_on_linear_chains"),
    M("coordinates", "coordinates.py", "order = np.argsort(-outermost, kind=\"stable\")",
      "order = np.argsort(outermost, kind=\"stable\")",
      "test_topology.py::test_the_factor_stays_sparse"),
    M("coordinates", "coordinates.py", "(-kinds.astype(np.int64), outermost)",
      "(kinds.astype(np.int64), outermost)",
      "test_coordinates.py::test_hard_rows_of_a_linear_chain_stand_in_the_narrowest_band"),
    M("chain", "chain.py", "if n < 3:\n            raise ValueError(f\"a ring",
      "if n < 2:\n            raise ValueError(f\"a ring", "test_topology.py::test_refusals"),
    M("chain", "layout.py", "return 1.0 / self.masses", "return 1.0 * self.masses",
      "test_partition.py::test_the_mass_matrix_is_the_dense_one"),
    M("chain", "layout.py", "np.zeros((2, int(self.fixed)))", "np.ones((2, int(self.fixed)))",
      "test_partition.py::test_solve_at_a_hundred_beads"),
    M("chain", "chain.py", "if len(fields) + len(named) < _FIELDS:",
      "if len(fields) + len(named) < 0:",
      "test_wrong_types.py::test_a_chain_is_made_by_its_constructors_and_copied"),
    M("chain", "chain.py", "for array in arrays:\n            array.flags",
      "for array in arrays[:2]:\n            array.flags",
      "test_chain.py::test_nothing_can_be_changed"),
    M("arrays", "_arrays.py", "if len(names) > most", "if len(names) >= most",
      "test_coordinates.py::test_singular_rows_are_named_up_to_three"),
    M("errors", "errors.py", "if bead >= 0", "if bead >= -1",
      "test_errors.py::test_an_error_is_moved_and_pickled_with_its_data"),
    M("errors", "errors.py", "where or _where(frame)", "_where(frame)",
      "test_errors.py::test_an_error_is_moved_and_pickled_with_its_data"),
    M("errors", "metric.py", "np.ravel(error.frame) + starts", "np.ravel(error.frame)",
      "test_errors.py::test_blocks_of_lazy_arrays_count_frames_from_the_beginning"),
    M("errors", "steppers/state.py", "step=state.step + step", "step=step",
      "test_errors.py::test_a_step_without_a_solution_says_when_and_who"),
    M("arrays", "_arrays.py", "if not isinstance(value, (bool, np.bool_)):",
      "if value is None:", "test_wrong_types.py::test_a_flag_is_true_or_false"),
    M("arrays", "_arrays.py", "good = (array >= 1e-100) & (array <= 1e100)",
      "good = (array >= 0.0) & (array <= 1e100)",
      "test_chain.py::test_masses_must_be_positive_and_finite"),
    # --- structured, partition, dynamics
    M("structured", "structured.py", "off = -self.weights[1:-1] * self.cosines",
      "off = self.weights[1:-1] * self.cosines",
      "test_structured.py::test_tridiagonal_agrees_with_dense"),
    M("structured", "structured.py", "return float(-np.log(self._inverse).sum())",
      "return float(np.log(self._inverse).sum())",
      "test_structured.py::test_tridiagonal_agrees_with_dense"),
    M("structured", "structured.py", "D += np.tril(D, -1).swapaxes(1, 2)",
      "D += np.tril(D, -1)", "test_block_tridiagonal.py::test_agrees_with_dense"),
    M("structured", "structured.py", "self.bands[j, max(array.shape[1] - j, 0) :] = 0.0",
      "self.bands[j, max(array.shape[1] - j + 1, 0) :] = 0.0",
      "test_structured.py::test_what_is_outside_the_matrix_is_ignored"),
    M("partition", "partition.py", "return push - self._hard_solve(self._B_b @ (w * (F",
      "return push + self._hard_solve(self._B_b @ (w * (F",
      "test_dynamics.py::test_stiff_sets_lose_the_condition_of_their_rows_and_not_its_square"),
    M("partition", "partition.py", "return -self._push(f.ravel(), self._w)",
      "return self._push(f.ravel(), self._w)",
      "test_partition.py::test_blocks_and_tensions_of_graphs_equal_the_dense_ones"),
    M("partition", "partition.py", "return self.logdet_free + self.logdet_hard",
      "return self.logdet_free - self.logdet_hard", "test_partition.py::test_determinant_theorem"),
    M("partition", "partition.py", "chain.dim * np.log(chain.masses).sum() - 2.0 * log_det_B",
      "3 * np.log(chain.masses).sum() - 2.0 * log_det_B",
      "test_partition.py::test_ln_det_of_the_free_mass_matrix_is_the_closed_form"),
    M("partition", "partition.py", "both[h + j - i, i] = elements.data",
      "both[h + j - i, j] = elements.data",
      "test_partition.py::test_solve_is_the_inverse_of_the_dense_mass_matrix"),
    M("partition", "partition.py", "e[self._order] = _lu(",
      "e[:] = _lu(", "test_partition.py::test_solve_of_graphs_is_dense"),
    M("dynamics", "dynamics.py", "F = chain.masses[:, None] * acceleration",
      "F = 1.0 * acceleration", "test_dynamics.py::test_inverse_dynamics_equals_dense"),
    M("dynamics", "dynamics.py", "r = -velocity_terms(chain, x, v)",
      "r = velocity_terms(chain, x, v)", "test_dynamics.py::test_inverse_dynamics_equals_dense"),
    M("dynamics", "dynamics.py", "np.argwhere((rows.kinds == LENGTH) & ~(goal > 0))",
      "np.argwhere((rows.kinds == LENGTH) & ~(goal > -1e300))",
      "test_dynamics.py::test_projection_that_cannot_succeed_is_a_typed_error"),
    M("systems", "systems.py", "own = targets[:, pattern.order]", "own = targets",
      "test_dynamics.py::test_projection_meets_its_targets_and_is_the_nearest"),
    M("dynamics", "dynamics.py", "return Motion(chain, lead, out, x.copy(), v.copy(), None)",
      "return Motion(chain, lead, out, x, v, None)",
      "test_dynamics.py::test_late_answers_belong_to_the_state_that_was_given"),
    # --- metric, analytic
    M("metric", "metric.py", "log_weights = half.min() - half", "log_weights = half - half.min()",
      "test_metric.py::test_weights_of_rigid_samples"),
    M("metric", "metric.py", "half = 0.5 * _arrays.positive(kT", "half = _arrays.positive(kT",
      "test_metric.py::test_the_potential_is_half_of_it"),
    M("metric", "metric.py", "links[:, links.shape[1] - chain.n :] = w, 1.0 / w",
      "links[:, links.shape[1] - chain.n :] = w, w",
      "test_fixman_force.py::test_the_mobility_metric_is_that_of_other_masses"),
    M("metric", "metric.py", "series = weights * (values - (weights * values).sum())",
      "series = weights * values",
      "test_metric.py::test_the_effective_size_is_that_of_the_observable"),
    M("metric", "metric.py", "log_weights -= np.log(np.exp(log_weights).sum())",
      "log_weights -= np.log(np.exp(log_weights).max())",
      "test_metric.py::test_weights_of_rigid_samples"),
    M("analytic", "analytic.py", "return _number(root / (4.0 * special.ellipe(m)))",
      "return _number(root / (2.0 * special.ellipe(m)))",
      "test_analytic.py::test_the_density_of_a_trimer_is_the_root_of_the_determinant"),
    M("analytic", "analytic.py", "even = 2.0 + (1.0 + c) * p", "even = 2.0 + (1.0 - c) * p",
      "test_analytic.py::test_determinants_of_four_beads"),
    M("analytic", "analytic.py", "powers = N + 1 if base == \"free\" else N",
      "powers = N", "test_analytic.py::test_straight_chains_and_right_angles"),
    M("analytic", "analytic.py", "squares @ np.arange(N, 0.0, -1.0) / (N + 1.0) ** 2",
      "squares @ np.arange(N, 0.0, -1.0) / N**2",
      "test_analytic.py::test_sizes_of_freely_jointed_chains"),
    M("analytic", "analytic.py", "np.sin(theta) ** (dim - 2) * np.exp(after / 2.0)",
      "np.sin(theta) ** (dim - 2) * np.exp(after)",
      "test_analytic.py::test_recorded_means_over_the_chain"),
    M("analytic", "analytic.py", "to_coefficients[0] /= 2.0", "to_coefficients[0] /= 1.0",
      "test_analytic.py::test_recorded_means_over_the_chain"),
    # --- rigid
    M("rigid", "rigid/spatial.py", "B[..., 3:, :3] = -back @ skew(p)",
      "B[..., 3:, :3] = back @ skew(p)",
      "test_rigid_model.py::test_inertia_matrix_from_dense_spatial_matrices"),
    M("rigid", "rigid/spatial.py", "about_centre - mass * c @ c", "about_centre + mass * c @ c",
      "test_rigid_model.py::test_inertia_matrix_from_dense_spatial_matrices"),
    M("rigid", "rigid/kinematics.py", "6 * np.argsort(order)[:, None]", "6 * order[:, None]",
      "test_rigid_kinematics.py::test_compliance_is_the_product_of_jacobians"),
    M("rigid", "rigid/kinematics.py", "np.cross(sums[:, :3], p)", "np.cross(p, sums[:, :3])",
      "test_rigid_kinematics.py::test_sums_over_bodies_against_extended_precision"),
    M("rigid", "rigid/model.py", "rotations[1:] = Q[:-1] @ rotations[1:]",
      "rotations[1:] = rotations[1:] @ Q[:-1]",
      "test_rigid_model.py::test_from_dh_against_elementary_transforms_and_jacobians"),
    M("rigid", "rigid/model.py", "centres = at - np.einsum", "centres = at + np.einsum",
      "test_rigid_model.py::test_from_dh_against_elementary_transforms_and_jacobians"),
    M("rigid", "rigid/model.py", "tensors = Q @ tensors @ Q.swapaxes(1, 2)",
      "tensors = Q.swapaxes(1, 2) @ tensors @ Q",
      "test_rigid_model.py::test_from_dh_against_elementary_transforms_and_jacobians"),
    M("rigid", "rigid/model.py", "if not isinstance(arm, SerialChain):", "if arm is None:",
      "test_wrong_types.py::test_the_argument_is_named"),
    # --- potentials, observables, statistics
    M("potentials", "potentials.py", "slope = -24.0 * sixth * (2.0 * sixth - 1.0)",
      "slope = 24.0 * sixth * (2.0 * sixth - 1.0)",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula"),
    M("potentials", "potentials.py", "(-1.0) ** np.arange(len(self.coefficients))",
      "(1.0) ** np.arange(len(self.coefficients))", "test_potentials.py::test_conventions"),
    M("potentials", "potentials.py", "[k * np.cos(delta), k * np.sin(delta)]",
      "[k * np.cos(delta), -k * np.sin(delta)]",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula"),
    M("potentials", "potentials.py", "(-1 if fixed else 0, chain.n - 1)",
      "(0, chain.n - 1)", "test_potentials.py::test_energy_and_force_are_those_of_the_formula"),
    M("potentials", "potentials.py", "if isinstance(other, int) and other == 0",
      "if other is None", "test_potentials.py::test_sums_are_flat"),
    M("observables", "observables.py", "weights = (chain.masses / chain.masses.sum())[:, None]",
      "weights = np.full((chain.n, 1), 1.0 / chain.n)",
      "test_observables.py::test_sizes_are_those_of_the_definitions"),
    M("observables", "observables.py", "energy = 0.5 * np.einsum(\"k,", "energy = np.einsum(\"k,",
      "test_observables.py::test_kinetic_energy_and_temperature"),
    M("observables", "observables.py", "chain.hard.size - int(conserved)",
      "chain.hard.size + int(conserved)",
      "test_observables.py::test_kinetic_energy_and_temperature"),
    M("observables", "observables.py", "weights /= weights.mean()", "weights /= weights.max()",
      "test_observables.py::test_weighted_means_are_within_their_errors"),
    M("observables", "observables.py", "place[array == bounds[-1]] = bins - 1",
      "place[array == bounds[-1]] = bins", "test_observables.py::test_histogram_is_numpys"),
    M("observables", "observables.py", "square.mean(axis=1) / chain.n",
      "square.mean(axis=1) / chain.n**2",
      "test_observables.py::test_structure_factor_is_debyes_sum"),
    M("observables", "observables.py", "np.pi * (3.0 - np.sqrt(5.0)) * k",
      "np.pi * (3.0 - np.sqrt(4.0)) * k",
      "test_observables.py::test_structure_factor_is_debyes_sum"),
    M("observables", "observables.py", "return 0.5 * _statistics", "return 1.0 * _statistics",
      "test_observables.py::test_correlation_time_of_an_autoregressive_process"),
    M("_statistics", "_statistics.py", "common = max(outside - inside * (1.0 + deviation), 0.0)",
      "common = max(outside, 0.0)",
      "test_statistics.py::test_the_error_of_a_mean_is_its_spread_over_repetitions"),
    M("_statistics", "_statistics.py", "shared = max(shared, line - 4.0 * by_chance)",
      "shared = shared", "test_statistics.py::test_a_line_below_the_noise_is_one_sample"),
    M("_statistics", "_statistics.py", "if frames >= LONG * g:", "if True:",
      "test_statistics.py::test_the_count_of_independent_samples_is_calibrated"),
    M("_statistics", "_statistics.py", "outside = copies * between * frames / (frames - 1)",
      "outside = between * frames / (frames - 1)",
      "test_statistics.py::test_frames_that_jump_as_wholes_are_told_from_a_drift"),
    M("_statistics", "_statistics.py", "unit * slope * (frames - 1) if drifts",
      "unit * slope * frames if drifts", "test_statistics.py::test_a_drift_is_found_and_measured"),
    M("_statistics", "_statistics.py", "* frames / (frames - 1) + 1.0 / total) / share",
      "* frames / (frames - 1)) / share",
      "test_statistics.py::test_the_count_of_independent_samples_is_calibrated"),
    M("_statistics", "_statistics.py", "square * g / (frames * (frames - 2))",
      "square / (frames * (frames - 2))",
      "test_statistics.py::test_the_count_of_independent_samples_is_calibrated"),
    M("_statistics", "_statistics.py", "closed[0] = False", "closed[0] = closed[0]",
      "test_statistics.py", "the sum up to lag 0 is 1, and 0 is below 5/2 of it already"),
    M("_statistics", "_statistics.py", "1 << (2 * frames - 1).bit_length()",
      "1 << (frames - 1).bit_length()",
      "test_statistics.py::test_the_end_of_a_series_does_not_meet_its_start"),
    M("_statistics", "_statistics.py", "np.std(scaled) / np.sqrt(size - 1.0)",
      "np.std(scaled) / np.sqrt(size)",
      "test_statistics.py::test_copies_that_are_stuck_count_as_one_each"),
    M("_statistics", "_statistics.py", "weights.sum() ** 2 / (weights @ weights)",
      "weights.sum() / (weights @ weights)",
      "test_statistics.py::test_effective_size_of_known_weights"),
    M("_statistics", "_statistics.py", "2.0 * np.cumsum(covariance / covariance[0]) - 1.0",
      "1.0 * np.cumsum(covariance / covariance[0])",
      "test_statistics.py::test_copies_that_are_stuck_count_as_one_each"),
    # --- steppers, walks
    M("steppers", "steppers/state.py", "math.exp(-plan.friction * time)",
      "math.exp(-1.05 * plan.friction * time)",
      "test_friction.py::test_velocities_are_forgotten_at_the_rate_of_the_friction"),
    M("steppers", "steppers/langevin.py", "metric=self.ensemble == \"stiff\"",
      "metric=self.ensemble == \"rigid\"",
      "test_steppers.py::test_the_same_bits_in_any_company_and_on_the_manifold"),
    M("steppers", "steppers/langevin.py", "replicas, rng, self._plan(), self.kT, True)",
      "replicas, rng, self._plan(), self.kT, False)",
      "test_friction.py::test_velocities_are_forgotten_at_the_rate_of_the_friction"),
    M("steppers", "steppers/newton.py", "drifting = self.drifting or chain.base == \"fixed\"",
      "drifting = True", "test_steppers.py::test_velocities_are_maxwells_on_the_manifold"),
    M("steppers", "steppers/state.py", "np.sqrt(plan.kT * (1.0 - c * c) * w)",
      "np.sqrt(plan.kT * (1.0 - c) * w)",
      "test_friction.py::test_velocities_are_forgotten_at_the_rate_of_the_friction"),
    M("steppers", "steppers/state.py", "v *= np.sqrt(kT * chain.layout.inverse_masses)[:, None]",
      "v *= np.sqrt(kT * chain.masses)[:, None]",
      "test_steppers.py::test_velocities_are_maxwells_on_the_manifold"),
    M("steppers", "steppers/state.py", "else time * w)", "else 2.0 * time * w)",
      "test_steppers.py::test_rattle_converges_to_forward_dynamics_as_the_square_of_dt"),
    M("steppers", "steppers/state.py", "state.x, state.v, state.random, state.step = moved.x,",
      "state.x, state.v, state.random, _ = moved.x,",
      "test_steppers.py::test_an_object_of_the_users_own_is_called_every_step"),
    M("steppers", "steppers/state.py", "if plan.potential is None and LENGTH not in",
      "if False and LENGTH not in", "test_cli_simulate.py::test_nonsense_is_one_line"),
    M("steppers", "steppers/state.py", "if ways[bead] > limits[bead]:", "if ways[bead] > 2.0:",
      "test_steppers.py::test_steps_that_bias_averages_are_warned_of"),
    M("steppers", "steppers/state.py", "_steep_ways(chain) if plan.metric else np.inf", "np.inf",
      "test_steppers.py::test_steps_that_light_beads_or_hard_angles_make_long_are_warned_of"),
    M("walks", "walks.py", "np.arccos(rng.uniform(-1.0, 1.0,",
      "np.pi * (rng.uniform(0.0, 1.0,",
      "test_walks.py::test_open_walks_are_those_of_the_stiff_ensemble"),
    M("walks", "walks.py", "rng.uniform(-math.pi, math.pi,", "rng.uniform(-math.pi, 0.0,",
      "test_walks.py::test_open_walks_are_those_of_the_stiff_ensemble"),
    M("walks", "walks.py", "(way[turning] + math.pi) % (2.0 * math.pi) - math.pi",
      "way[turning]", "test_walks.py::test_torsions_turn_the_short_way"),
    M("walks", "walks.py", "if not np.isfinite(given).all():", "if False:",
      "test_wrong_types.py::test_lengths_of_walks_are_finite"),
    # --- runs
    M("recording", "recording.py", "array.flags.writeable = False", "array.flags.writeable = True",
      "test_simulate.py::test_observables_cannot_move_the_chain"),
    M("recording", "recording.py", "if len(found) < len(functions):", "if False:",
      "test_simulate.py::test_observables_that_cannot_be"),
    M("recording", "recording.py", "kind = np.complex128 if array.dtype.kind == \"c\"",
      "kind = np.float64 if array.dtype.kind == \"c\"",
      "test_simulate.py::test_whole_numbers_at_first_cost_no_digits"),
    M("trajectory", "trajectory.py", "np.searchsorted(ends, chosen, side=\"right\")",
      "np.searchsorted(ends, chosen, side=\"left\")", "test_simulate.py::test_slices_of_runs"),
    M("trajectory", "trajectory.py", "np.asarray(self.steps * dt, dtype",
      "np.asarray(self.steps * 1.0, dtype",
      "test_simulate.py::test_the_bits_depend_on_nothing_but_the_arguments"),
    M("topology", "topology.py", "beads = np.flatnonzero(parents >= 0)",
      "beads = np.flatnonzero(parents > 0)",
      "test_export.py::test_bonds_of_trees_and_rings"),
    M("simulation", "simulation.py", "if steps % every:", "if False:",
      "test_simulate.py::test_what_cannot_be_run"),
    M("simulation", "simulation.py", "if ends and saved < state.step:", "if ends:",
      "test_simulate.py test_store.py",
      "a resumed run writes the checkpoint that it has read once more, and nothing else"),
    M("simulation", "simulation.py", "if total < folder.step:", "if total <= -1:",
      "test_simulate.py::test_resume_refuses_what_would_be_another_run"),
    M("simulation", "simulation.py", "if given != parameters:", "if False:",
      "test_simulate.py::test_resume_refuses_what_would_be_another_run"),
    M("simulation", "simulation.py", "signal.signal(signal.SIGINT, before)", "pass",
      "test_store.py::test_ctrl_c_finishes_the_block"),
    # --- files of runs
    M("disk", "places.py", "            os.fsync(file.fileno())\n", "            file.fileno()\n",
      "test_durability.py::test_a_file_is_synced_before_it_gets_its_name"),
    M("disk", "places.py", "            os.fsync(self._handle)\n", "            pass\n",
      "test_durability.py::test_the_folder_is_synced_after_a_name_changes"),
    M("disk", "places.py", "        os.fsync(handle)\n", "        pass\n",
      "test_durability.py::test_the_new_folder_is_synced_into_its_parent"),
    M("disk", "places.py", "if not stat.S_ISREG(os.fstat(handle).st_mode):", "if False:",
      "test_damaged_runs.py::test_other_things_in_the_place_of_files"),
    M("disk", "places.py", "HERE if (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)",
      "HERE if own.st_dev == there.st_dev", "test_moved_runs.py::test_no_frame_is_lost"),
    M("disk", "places.py", "fcntl.LOCK_EX | fcntl.LOCK_NB", "fcntl.LOCK_SH | fcntl.LOCK_NB",
      "test_store.py::test_two_writers_are_told_apart"),
    M("disk", "archives.py", "if size > info.file_size:", "if False:",
      "test_archives.py::test_an_announced_size_is_compared_before_it_is_believed"),
    M("disk", "archives.py", "if member.read(1):", "if False:",
      "test_archives.py::test_members_that_are_not_what_they_announce"),
    M("disk", "archives.py", "if len(members) < len(listed):", "if False:",
      "test_archives.py::test_members_that_are_not_what_they_announce"),
    M("disk", "archives.py", "if not fits or not agree or", "if not fits or",
      "test_damaged_runs.py::test_no_checkpoint_is_believed"),
    M("disk", "archives.py", "flat.reshape(shape[::-1]).T if fortran",
      "flat.reshape(shape) if fortran", "test_archives.py::test_columns_first"),
    M("disk", "runfiles.py", "if identity != about[\"id\"]:", "if False:",
      "test_store.py::test_an_edited_run_is_refused"),
    M("disk", "runfiles.py", "if str(arrays[\"run\"]) != about[\"id\"]:", "if False:",
      "test_store.py::test_files_of_another_run_are_refused"),
    M("disk", "runfiles.py", "if point.step == 0 and digest(point.state) != about[\"start\"]:",
      "if False:", "test_damaged_runs.py::test_a_beginning_that_is_another_one"),
    M("disk", "runfiles.py", "dead = np.flatnonzero(~state[\"random\"].any(axis=1)) if ours",
      "dead = np.empty(0) if ours", "test_damaged_runs.py::test_no_checkpoint_is_believed"),
    M("disk", "runfiles.py", "or not (np.abs(off) <= OFF).all():", "or False:",
      "test_damaged_runs.py::test_no_checkpoint_is_believed"),
    M("disk", "runfiles.py", "if about[\"steps\"] % about[\"every\"]:", "if False:",
      "test_damaged_runs.py::test_entries_outside_the_identity"),
    M("disk", "writer.py", "place.rename(CHECKPOINT, PREVIOUS)\n            try:",
      "pass\n            try:", "test_damaged_runs.py::test_a_beginning_that_is_another_one"),
    M("disk", "writer.py", "if folder.lost:\n            raise", "if False:\n            raise",
      "test_damaged_runs.py::test_no_checkpoint_is_believed"),
    M("disk", "writer.py", "        if where == MOVED:", "        if False:",
      "test_moved_runs.py::test_no_frame_is_lost"),
    M("disk", "writer.py", "if left.endswith(TEMPORARY):", "if False:",
      "test_damaged_runs.py::test_what_was_half_written_is_removed"),
    M("disk", "writer.py", "        _require_run(real, path)\n", "        pass\n",
      "test_damaged_runs.py::test_files_of_ones_own_are_not_overwritten"),
    # --- words for hard sets, dependent rows
    M("hard_sets", "hard_sets.py", "return word.casefold().replace(\"-\", \"\")",
      "return word.casefold().replace(\" \", \"\")",
      "test_hard_sets.py::test_hyphens_underscores_and_case_do_not_matter"),
    M("hard_sets", "hard_sets.py", "LIGHTEST = 0.95", "LIGHTEST = 0.0",
      "test_topology.py::test_a_drude_particle_is_no_hydrogen"),
    M("hard_sets", "hard_sets.py", "if hydrogens[one] or hydrogens[two]", "if hydrogens[one]",
      "test_topology.py::test_h_angles_are_those_of_openmm"),
    M("hard_sets", "hard_sets.py", "taken = sum(masses[end] - 1.008 for", "taken = sum(0.0 for",
      "test_topology.py::test_h_angles_are_those_of_openmm"),
    M("hard_sets", "hard_sets.py", "if len(words) > 1:", "if False:",
      "test_hard_sets.py::test_words_for_molecules_stand_alone"),
    M("hard_sets", "hard_sets.py", "mask &= hydrogens[table.columns[:, :2]].any(axis=1)",
      "mask &= hydrogens[table.columns[:, :2]].all(axis=1)",
      "test_topology.py::test_a_drude_particle_is_no_hydrogen"),
    M("redundancy", "redundancy.py", "S[symbolic.first[:-1]] < APART**-2",
      "S[symbolic.first[:-1]] < 1e30", "test_redundancy.py test_topology.py"),
    M("redundancy", "redundancy.py", "LIKED = 4.0", "LIKED = 40.0", "test_redundancy.py"),
    M("redundancy", "redundancy.py", "np.count_nonzero(size > LOST * size[0])", "ends.sum()",
      "test_redundancy.py"),
    M("redundancy", "redundancy.py", "pivoting=True)[1][:count]", "pivoting=True)[1][-count:]",
      "test_redundancy.py"),
    M("redundancy", "redundancy.py", "for _ in range(2):  # twice", "for _ in range(0):  # twice",
      "test_redundancy.py"),
    # --- input and output
    M("io/constraints", "io/constraints.py", "3 * chain.n - 6 if chain.n > 2 else chain.n - 1",
      "3 * chain.n - 5 if chain.n > 2 else chain.n - 1",
      "test_openmm.py::test_rigid_sets_get_no_term"),
    M("io/constraints", "io/constraints.py", "for k in (2, 1, 0):", "for k in (0, 1, 2):",
      "test_openmm.py::test_wrapped_positions_are_made_whole"),
    M("io/constraints", "io/constraints.py", "if rank != chain.hard.size:",
      "if rank > chain.hard.size:",
      "test_openmm.py::test_chains_that_disagree_with_the_system_are_refused"),
    M("io/groups", "io/groups.py", "linear = (most <= 2) & (bonds == atoms - 1)",
      "linear = most <= 2", "test_molecules.py test_io.py"),
    M("io/groups", "io/groups.py", "turned = backwards != backwards[first][inverse]",
      "turned = backwards", "test_molecules.py test_io.py"),
    M("io/groups", "io/groups.py", "key = np.where(backwards[:, None], turned_m, m)",
      "key = m", "test_molecules.py test_io.py"),
    M("io/groups", "io/groups.py", "if np.all(self.masses <= hard_sets.HYDROGEN)", "if False",
      "test_molecules.py test_io.py test_audit.py"),
    M("io/samples", "io/samples.py", "answer[\"half_logdet\"] = 0.5 * logdet",
      "answer[\"half_logdet\"] = 1.0 * logdet",
      "test_audit.py::test_trimer_is_half_log_of_4_minus_cos_squared"),
    M("io/samples", "io/samples.py", "above[moved] = above[above[moved]]",
      "above[moved] = -1", "test_audit.py::test_sums_outwards_by_doubling"),
    M("io/samples", "io/samples.py", "np.linalg.norm(v, axis=-1) * np.sum(u * b, axis=-1)",
      "np.sum(u * b, axis=-1)", "test_audit.py::test_angles_are_those_of_the_chain"),
    M("io/averages", "io/averages.py", "half_logdet if ensemble == \"stiff\" else -half_logdet",
      "-half_logdet if ensemble == \"stiff\" else half_logdet",
      "test_audit.py::test_reweighting_takes_samples_to_the_other_ensemble"),
    M("io/averages", "io/averages.py", "added / (2.0 * np.sqrt(average))",
      "added / np.sqrt(average)",
      "test_audit.py::test_the_error_of_a_root_is_half_that_of_its_square_over_it"),
    M("io/universe", "io/universe.py", "options |= {\"additional_columns\": [\"id\"], \"dt\": 1.0}",
      "options |= {\"additional_columns\": [\"id\"]}",
      "test_io.py::test_the_times_of_a_lammps_dump_are_its_steps"),
    M("io/universe", "io/universe.py", "if found != promised:", "if found > promised:",
      "test_io.py::test_a_data_file_that_was_cut_off"),
    M("io/universe", "io/universe.py", "if topology != trajectory:", "if False:",
      "test_damaged_files.py -k sizes"),
    M("io/frames", "io/frames.py", "Frames(trajectory[numbers], trajectory)",
      "Frames(trajectory[slice(start, stop, step)], trajectory)",
      "test_damaged_files.py -k python_names"),
    M("io/frames", "io/frames.py", "if atoms != self._atoms:", "if False:",
      "test_damaged_files.py -k velocities"),
    M("io/universe", "io/universe.py", "for spelled in (symbol.upper(), symbol.capitalize()):",
      "for spelled in (symbol.upper(),):",
      "test_io.py::test_masses_of_elements_of_two_letters"),
    M("io/molecules", "io/molecules.py", "np.isin(np.char.upper(elements), (\"H\", \"D\", \"T\"))",
      "np.isin(np.char.upper(elements), (\"H\",))",
      "test_io.py::test_hydrogens_are_told_by_element"),
    M("io/molecules", "io/molecules.py", "counted_pairs = pairs[~np.all(symbols[pairs]",
      "counted_pairs = pairs[~np.any(symbols[pairs]",
      "test_io.py::test_bonds_to_hydrogens_are_counted"),
    M("io/molecules", "io/molecules.py", "if len(kinds) > 1 and name]", "if len(kinds) > 2]",
      "test_io.py::test_equal_residues_bonded_differently"),
    M("io/frames", "io/frames.py", "AMBIGUOUS_FRACTION = 0.4", "AMBIGUOUS_FRACTION = 0.49",
      "test_io.py::test_bond_near_half_the_box"),
    M("io/frames", "io/frames.py", "winding = np.linalg.norm(missed, axis=2) > 0.5",
      "winding = np.linalg.norm(missed, axis=2) > 1e9",
      "test_io.py::test_rings_around_the_box_are_refused"),
    M("io/frames", "io/frames.py", "if not np.array_equal(own, ids):", "if False:",
      "test_cli.py::test_frames_of_other_atoms_are_refused"),
    M("io/measuring", "io/measuring.py", "for k in range(len(x))[block] if k not in lost]",
      "for k in range(len(x))[block]]", "test_io.py::test_one_bad_frame_does_not_lose_the_others",
      "a lost frame fails once more, or is left out by `kept`; it costs time"),
    M("io/measuring", "io/measuring.py", "return lost > MOST_UNUSABLE * frames",
      "return lost > frames", "test_io.py::test_errors_name_the_frames_of_the_trajectory"),
    M("io/measuring", "io/measuring.py", "int(frames[error.frame[0]])",
      "int(error.frame[0])", "test_io.py::test_errors_name_the_frames_of_the_trajectory"),
    M("io/elements", "io/elements.py", "ion is not None and letters.upper() in (ion, residue)",
      "ion is not None", "test_io.py::test_elements_by_name"),
    M("io/elements", "io/elements.py", "if letters in SPELLED:", "if False:",
      "test_io.py::test_elements_by_name"),
    M("io/elements", "io/elements.py", "if len(found) < len(pairs):", "if False:",
      "test_io.py::test_masses_that_are_none"),
    M("io/formats", "io/formats.py", "start[8:12] == b\"CORD\"", "start[8:12] == b\"CORE\"",
      "test_io.py::test_dcd_files_of_either_length_of_markers"),
    M("io/formats", "io/formats.py", "for line in stripped[1:40]", "for line in stripped[1:2]",
      "test_io.py::test_formats_by_content"),
    M("io/thermostats", "io/thermostats.py", "if not abs(kelvin - other) <= SAME * kelvin:",
      "if False:", "test_openmm.py::test_a_thermostat_that_moves_alone_stops_the_run"),
    M("io/thermostats", "io/thermostats.py", "or context.getStepCount() != state.getStepCount()",
      "or False", "test_openmm.py::test_parameters_of_another_context_are_noticed"),
    M("io/thermostats", "io/thermostats.py", "\"kT\": GAS_CONSTANT}", "\"kT\": 1.0}",
      "test_openmm.py::test_a_thermostat_that_moves_alone_stops_the_run"),
    M("io/thermostats", "io/thermostats.py", "kelvin * self.per_kelvin)", "kelvin)",
      "test_openmm.py::test_a_thermostat_that_moves_alone_stops_the_run"),
    M("io/thermostats", "io/thermostats.py", "        known.looked = False\n", "        pass\n",
      "test_openmm.py::test_changes_outside_of_explicit_chains_do_not_matter"),
    M("arrays", "_arrays.py", "if needed > there:", "if False:",
      "test_cli_simulate.py::test_what_does_not_fit_into_memory_is_refused"),
    # --- kernels
    M("kernels", "kernels/nonbonded.py", "24.0 * sixth * (2.0 * sixth - 1.0)",
      "24.0 * sixth * (2.0 * sixth - 0.99)",
      "test_potentials.py -k formula and 2D-free and LennardJones"),
    M("kernels", "kernels/nonbonded.py", "energy = 4.0 * sixth * (sixth - 1.0) - pair[1]",
      "energy = 4.0 * sixth * (sixth - 1.0)",
      "test_potentials.py -k formula and 3D-free and LennardJones"),
    M("kernels", "kernels/nonbonded.py", "energy - pair[2] * (r - root(pair[0]))",
      "energy - pair[2] * r", "test_potentials.py -k formula and 3D-free and LennardJones"),
    M("kernels", "kernels/bonded.py", "slope = slope + m * (b * cm - a * sm)",
      "slope = slope + m * (b * cm + a * sm)",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula -k 3D-free and Torsion"),
    M("kernels", "kernels/bonded.py", "-k * away * bent[1] if len(axes) == 2",
      "k * away * bent[1] if len(axes) == 2",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula -k 2D-free and Bending"),
    M("kernels", "kernels/bonded.py", "away = pick(-math.pi, away, away + 2.0 * math.pi, away)",
      "away = pick(-math.pi, away, away, away)",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula -k 2D-free and Bending"),
    M("kernels", "kernels/random.py", "d = rotated(d, 45)", "d = rotated(d, 44)",
      "test_steppers.py::test_the_streams_are_those_of_xoshiro256plusplus"),
    M("kernels", "kernels/random.py", "if y + y > excess * excess:", "if y > excess * excess:",
      "test_steppers.py::test_the_tail_of_normal_numbers_is_theirs"),
    M("kernels", "kernels/random.py", "x = math.copysign(TAIL + excess, x)",
      "x = TAIL + excess", "test_steppers.py::test_normal_numbers_are_normal"),
    M("kernels", "steppers/state.py", "share / pieces)", "share / (pieces + 1))",
      "test_steppers.py::test_a_drift_in_pieces_takes_no_less_time"),
    M("kernels", "kernels/stepping.py", "for k in range(ghosts, joints):",
      "for k in range(ghosts + 1, joints):",
      "test_friction.py::test_velocities_are_forgotten_at_the_rate_of_the_friction"),
    M("kernels", "kernels/projection.py", "T[k] = X[k] - start[k]",
      "T[k] = X[k] + start[k]",
      "test_dynamics.py::test_projection_meets_its_targets_and_is_the_nearest"),
    M("kernels", "kernels/modular.py", "dependent[j] = d == ZERO", "dependent[j] = d != ZERO",
      "test_redundancy.py::test_rows_given_twice_and_torsions"),
    M("kernels", "kernels/field.py", "(middle >> _30)", "(middle >> _31)",
      "test_redundancy.py::test_rows_given_twice_and_torsions"),
    M("kernels", "kernels/jointed_motion.py", "bent = fma(Q, p, q * (yielding * c))",
      "bent = fma(Q, p, -q * (yielding * c))",
      "test_dynamics.py::test_planar_forward_dynamics_for_every_shape"),
    M("kernels", "kernels/jointed_motion.py", "return dot(across, across) * r",
      "return dot(across, across)",
      "test_dynamics.py::test_light_beads_in_space_have_the_soft_accelerations_of_the_plane"),
    M("kernels", "kernels/sparse.py", "fma(-ratio, load(V, p, like), load(work, i, like))",
      "fma(ratio, load(V, p, like), load(work, i, like))", "test_structured.py"),
    M("kernels", "kernels/tridiagonal.py", "S[k, 0] += g[k] * S[k, 1]", "S[k, 0] -= g[k] * S[k, 1]",
      "test_structured.py -k tridiagonal"),
    M("kernels", "kernels/tridiagonal.py", "e = ratio * (e + w[k + 1] * s[k] * s[k])",
      "e = ratio * (e + w[k + 1] * s[k])", "test_structured.py -k tridiagonal"),
    M("kernels", "kernels/banded.py", "b[i, r] -= T[i, j] * b[i + j, r]",
      "b[i, r] += T[i, j] * b[i + j, r]", "test_structured.py -k band"),
    M("kernels", "kernels/banded.py", "total -= T[i, k] * S[i, k]", "total += T[i, k] * S[i, k]",
      "test_structured.py -k band"),
    M("kernels", "kernels/block_tridiagonal.py", "a -= B[i, r, t] * D[i, t, t] * B[i, c, t]",
      "a -= B[i, r, t] * B[i, c, t]", "test_block_tridiagonal.py::test_agrees_with_dense"),
    M("kernels", "kernels/block_tridiagonal.py", "y -= B[i, r, c] * b[start + p + r, k]",
      "y += B[i, r, c] * b[start + p + r, k]", "test_block_tridiagonal.py::test_agrees_with_dense"),
    M("kernels", "kernels/sparse.py",
      "ratio = load(V, q, like) * load(V, entry(first, k), like)", "ratio = load(V, q, like)",
      "test_metric.py::test_logdet_of_trees_and_rings"),
    M("kernels", "kernels/sparse.py", "biased_exponent(product) - (2.0**52 + 1023.0)",
      "biased_exponent(product) - (2.0**52 + 1022.0)",
      "test_metric.py::test_logdet_of_trees_and_rings"),
    M("kernels", "kernels/charts.py", "residual -= B[3 * slot + a]",
      "residual += B[3 * slot + a]",
      "test_dynamics.py::test_inverse_dynamics_equals_dense"),
    M("kernels", "kernels/charts.py", "-= t[frame, c] * B[3 * slot + a]",
      "+= t[frame, c] * B[3 * slot + a]",
      "test_dynamics.py::test_inverse_dynamics_equals_dense"),
    M("kernels", "kernels/general_steps.py",
      "sparse.solve(block.H, block.D, system.symbolic, rhs, like)",
      "sparse.solve(block.H, block.H, system.symbolic, rhs, like)",
      "test_dynamics.py::test_projection_meets_its_targets_and_is_the_nearest"),
    M("kernels", "kernels/hard.py", "store(out, r, load(out, r, like) - total)",
      "store(out, r, load(out, r, like) + total)",
      "test_dynamics.py::test_projection_meets_its_targets_and_is_the_nearest"),
    M("kernels", "kernels/rows.py", "return -2.0 * (turn_v - turn_u)",
      "return -1.0 * (turn_v - turn_u)", "test_coordinates.py -k velocity_terms"),
    M("kernels", "kernels/rows.py", "return bending(v, dv, e) - bending(u, du, e)",
      "return bending(v, dv, e) + bending(u, du, e)",
      "test_straight.py::test_accelerations_keep_bends_straight_whatever_the_velocities"),
    M("kernels", "kernels/rows.py", "return scaled(-s, plus(rate, scaled(stretch, minus(e,",
      "return scaled(s, plus(rate, scaled(stretch, minus(e,",
      "test_straight.py::test_the_fixman_force_of_uneven_chains_is_the_derivative"),
    M("kernels", "kernels/rows.py", "along = field.times(field.dot(u, u), field.inverse(",
      "along = field.times(field.dot(v, v), field.inverse(",
      "test_straight.py::test_a_line_that_is_held_twice_is_refused"),
    M("kernels", "kernels/rows.py", "return length * dot(w, w)", "return dot(w, w)",
      "test_coordinates.py -k velocity_terms"),
    M("kernels", "kernels/freely_jointed.py", "p += w[k - 1] * ss * q_before",
      "p += w[k - 1] * ss", "test_metric.py::test_logdet_equals_dense"),
    M("kernels", "kernels/freely_jointed.py", "pull = kT * (w[k] * (g * S))",
      "pull = kT * (g * S)", "test_fixman_force.py::test_force_on_linear_chains"),
    M("kernels", "kernels/rows.py", "put_vector(B, at + 2, axes, minus(gv, gt))",
      "put_vector(B, at + 2, axes, minus(gt, gv))", "test_metric.py::test_logdet_equals_dense"),
    M("kernels", "kernels/hard.py", "fma(entry(system.weights, t) + zero, inner(a, b), total)",
      "fma(1.0 + zero, inner(a, b), total)", "test_metric.py::test_logdet_of_trees_and_rings"),
    M("kernels", "kernels/jointed_steps.py", "strength = (kT * w[k + 1]) * side",
      "strength = kT * side", "test_steppers.py::test_the_fixman_force_of_a_step"),
    M("kernels", "kernels/jointed_steps.py",
      "z = fma(g, z, -inner(vector(work, k, SPACE, like), minus(v1, v)))",
      "z = fma(g, z, inner(vector(work, k, SPACE, like), minus(v1, v)))",
      "test_steppers.py::test_given_velocities_are_projected"),
    M("kernels", "kernels/rotating_steps.py", "fma(-l2, first, fma(weights[1],",
      "fma(l2, first, fma(weights[1],",
      "test_steppers.py -k rattle_converges and rotating"),
    M("kernels", "kernels/forces.py", "joints * dim + m, like) - k * away)",
      "joints * dim + m, like) - k * load(work, m, like))",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula -k 2D-free and Tether"),
    M("kernels", "kernels/forces.py", "total = total - f * x[a]", "total = total + f * x[a]",
      "test_potentials.py::test_energy_and_force_are_those_of_the_formula -k 2D-free and Gravity"),
    M("kernels", "kernels/nonbonded.py", "0.25 * skin * skin", "4.0 * skin * skin",
      "test_potentials.py::test_lists_that_serve_several_configurations_change_no_bit"),
    M("binding", "_binding.py", "[[-step, 0, step] for step in",
      "[[0, step] for step in", "test_potentials.py::test_neighbours_are_those_of_a_tree"),
    M("kernels", "kernels/vectors.py", "fma(a[2], b[0], -(a[0] * b[2]))",
      "fma(a[0], b[2], -(a[2] * b[0]))",
      "test_articulated_body.py::test_inverse_undoes_forward_on_long_chains"),
    M("kernels", "kernels/articulated_body.py", "return x[0], c * x[1] + s * x[2]",
      "return x[0], c * x[1] - s * x[2]",
      "test_articulated_body.py::test_inverse_undoes_forward_on_long_chains"),
    M("kernels", "kernels/articulated_body.py", "A[3] + d * (B[3] + new[3])",
      "A[3] + d * (B[3] + B[3])",
      "test_articulated_body.py::test_inverse_undoes_forward_on_long_chains"),
    M("kernels", "kernels/rigid_newton_euler.py", "slide = scaled(2.0, slide)",
      "slide = scaled(1.0, slide)",
      "test_articulated_body.py::test_inverse_undoes_forward_on_long_chains"),
    M("kernels", "kernels/links.py", "return (c, -s, 0.0, s, c,", "return (c, s, 0.0, -s, c,",
      "test_rigid_model.py"),
    M("kernels", "kernels/links.py", "tuple(f[k] + h[k] * u for k in range(3))), g, h, u * inverse",
      "tuple(f[k] - h[k] * u for k in range(3))), g, h, u * inverse",
      "test_articulated_body.py::test_any_chain_against_the_pass_of_the_book"),
    M("kernels", "kernels/links.py", "C[k] - inner(half[i], over[j])",
      "C[k] + inner(half[i], over[j])",
      "test_articulated_body.py::test_any_chain_against_the_pass_of_the_book"),
    M("kernels", "kernels/rigid_composite_body.py", "deviation(share * links[i, 12], d, d)",
      "deviation(links[i, 12], d, d)",
      "test_rigid_model.py::test_inertia_matrix_from_dense_spatial_matrices"),
    M("kernels", "kernels/rigid_composite_body.py",
      "f = scaled(m, plus(linear, outer(angular, c)))", "f = scaled(m, linear)",
      "test_rigid_model.py::test_inertia_matrix_from_dense_spatial_matrices"),
    M("kernels", "kernels/rigid_kinematics.py", "plus(plus(v, outer(ω, r)), slide)",
      "plus(plus(v, outer(r, ω)), slide)",
      "test_rigid_kinematics.py::test_motion_of_points_against_extended_precision"),
    M("kernels", "kernels/rigid_kinematics.py", "slide = scaled(2.0, slide)",
      "slide = scaled(1.0, slide)",
      "test_rigid_kinematics.py::test_motion_of_points_against_extended_precision"),
    M("kernels", "kernels/rigid_kinematics.py", "both = m * share", "both = mass * share",
      "test_rigid_kinematics.py::test_sums_over_bodies_against_extended_precision"),
    M("kernels", "kernels/rigid_kinematics.py", "rest = 1.0 - half * w / sine",
      "rest = half * w / sine", "test_rigid_kinematics.py::test_integrate_and_difference"),
    M("kernels", "kernels/rigid_kinematics.py", "first = 2.0 * s * s / angle",
      "first = s * s / angle",
      "test_rigid_kinematics.py::test_a_free_base_follows_a_screw"),
    M("kernels", "kernels/rigid_kinematics.py", "Z[r, 6 + c] = 1.0 if r == c else 0.0",
      "Z[r, 6 + c] = 1.0 if r == c else Z[r, 6 + c]",
      "test_rigid_kinematics.py::test_compliance_is_the_product_of_jacobians"),
    M("kernels", "kernels/rigid_kinematics.py", "check = not_a_number(q[frame])  # not every",
      "check = 0.0  # not every", "test_rigid_kinematics.py::test_nothing_returns_nan"),
    M("kernels", "kernels/links.py", "back(R, plus(v, outer(w, entries(X, i, 9))))",
      "back(R, v)", "test_denoc.py"),
    M("kernels", "kernels/spatial_operators.py", "I[3] + m * (x * x + z * z)",
      "I[3] + m * (x * x - z * z)",
      "test_spatial_operators.py"),
    M("kernels", "kernels/spatial_operators.py", "zn, zf = plus(zn, n_k), plus(zf, f_k)",
      "zf = plus(zf, f_k)",
      "test_spatial_operators.py"),
    M("kernels", "kernels/links.py", "A = summed(A, across(s, transposed(B)))",
      "A = summed(A, across(s, B))",
      "test_spatial_operators.py"),
    M("kernels", "kernels/links.py", "return turning + sliding + 2.0 * both",
      "return 0.0 * (turning + sliding + 2.0 * both)",
      "test_denoc.py::test_pivots_that_are_rounding_are_refused"),
    M("kernels", "kernels/rigid_partition.py",
      "v = plus(constants(a, 3), outer(w, constants(f, PLACE)))",
      "v = plus(constants(a, 3), outer(constants(f, PLACE), w))", "test_rigid_partition.py"),
    M("kernels", "kernels/rigid_partition.py", "outer(constants(f, PLACE), force))",
      "outer(force, constants(f, PLACE)))", "test_rigid_partition.py"),
    M("kernels", "kernels/rigid_partition_arm.py", "row = row - lane(w[t], j) * W[t]",
      "row = row + lane(w[t], j) * W[t]",
      "test_rigid_partition.py::test_small_inertias_are_right_or_refused"),
    M("kernels", "kernels/rigid_partition_planar.py", "py = ky * torque - pull * cy",
      "py = ky * torque + pull * cy",
      "test_rigid_partition.py::test_small_inertias_are_right_or_refused"),
    M("kernels", "kernels/rigid_partition_planar.py", "det = 1.0 - kx * lx - ky * ly",
      "det = 1.0 - kx * lx + ky * ly",
      "test_rigid_partition.py::test_small_inertias_are_right_or_refused"),
    M("kernels", "kernels/pairs.py", "builder.fcmp_ordered(\"<\", *args)",
      "builder.fcmp_ordered(\">\", *args)",
      "test_rigid_partition.py::test_small_inertias_are_right_or_refused"),
    M("kernels", "kernels/lanes.py", "constant(2**52 - 1)), constant(1023 << 52)",
      "constant(2**52 - 1)), constant(1022 << 52)",
      "test_metric.py::test_logdet_of_trees_and_rings"),
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


def passes(tests: str, copy: Path) -> bool:
    """Whether a selection of tests passes in a copy of the repository."""
    words = [f"tests/{word}" if word.startswith("test_") else word for word in selected(tests)]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    try:
        done = subprocess.run(
            [*command, "-m", "not slow", *words],
            cwd=copy,
            env=os.environ | {"PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:  # a mutant may turn for ever
        return False
    if done.returncode > 2:  # no tests, or pytest itself went wrong; crashes are negative
        raise SystemExit(f"{tests}: pytest ended with {done.returncode}\n{done.stdout}")
    return done.returncode == 0


def killed(mutant: Mutant, copy: Path) -> bool:
    """Whether the tests notice the mutant."""
    file = copy / "fixman" / mutant.file
    right, times = file.read_bytes(), file.stat()
    wrong = right.decode("utf-8").replace(mutant.old, mutant.new)
    try:
        file.write_bytes(wrong.encode("utf-8"))
        return not passes(mutant.tests, copy)
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
    counts = dict.fromkeys(("killed", "equivalent", "alive"), 0)
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
        if not arguments.trust and not passes(" ".join(sorted(whole | apart)), copy):
            print("the tests fail without a mutant: mend that first")
            return 1
        for mutant in mutants:
            verdict = (
                "killed" if killed(mutant, copy) else "equivalent" if mutant.equivalent else "alive"
            )
            counts[verdict] += 1
            print(f"{verdict:10} {mutant.file}: {mutant.old!r} -> {mutant.new!r}", flush=True)
    print(f"tried {len(mutants)}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return int(counts["alive"] > 0)


if __name__ == "__main__":
    raise SystemExit(main())
