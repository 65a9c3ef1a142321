"""Every argument of every public function, replaced by what it cannot be, is refused by name."""

from __future__ import annotations

import ast
import copy
import dataclasses
import io
import pickle
import traceback
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import fixman as fx
from fixman import analytic, flows, observables, potentials, rheology, rigid, structured
from fixman.rigid import (
    articulated_body,
    closed,
    composite_body,
    denoc,
    kinematics,
    motion,
    newton_euler,
    partition,
    spatial_operators,
)

N = 4
CHAIN = fx.Chain.linear(N)
X = fx.random_walks(CHAIN, rng=1)[0]
V = np.zeros_like(X)
ARM = rigid.SerialChain.planar(np.ones(3), np.ones(3), np.ones(3))
# Three rods whose end is pinned to the base two lengths away.
PINNED = closed.Closure(
    closed.End(None, (2.0, 0.0, 0.0)), closed.End(2, (1.0, 0.0, 0.0)), ("x", "y")
)
FOUR_BAR, CLOSED = closed.Linkage(ARM, PINNED), np.array([1.0, -1.0, -1.0]) * np.pi / 3
ROW = np.ones(3)
STEPPER = fx.Langevin(0.02)


class Thing:
    def __repr__(self) -> str:
        return "a thing"


BAD = {"None": None, "str": "wrong", "class": fx.Langevin, "object": Thing()}


class Unarrayed:
    """Like a tensor that lives elsewhere."""

    def __array__(self, *_, **__):
        raise RuntimeError("this has no array")


class Series:
    """Like a column or a frame of pandas: neither hashable nor true nor false."""

    __hash__ = None

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, *_, **__):
        return self.values

    def __eq__(self, other):
        return Series(self.values == other)

    def __lt__(self, other):
        return Series(self.values < other)

    __gt__ = __le__ = __ge__ = __lt__

    def __bool__(self):
        raise ValueError("The truth value of a Series is ambiguous.")


# Not every argument refuses these, but none lets Python or NumPy speak.
STRANGE = {
    "array": np.ones(2),
    "words": np.array(["a", "b"]),
    "series": Series(np.ones(2)),
    "frame": Series(np.ones((2, 2))),
    "ragged": [[1.0, 2.0], [3.0]],
    "unarrayed": Unarrayed(),
    "huge": 2**62,
    "half": 2.5,
    "empty": [],
}

# Function, and a call that is right.
CALLS = {
    "Chain.linear": (fx.Chain.linear, {"n": 4, "dim": 3, "base": "free", "masses": 1.0}),
    "Chain.linear, hard": (fx.Chain.linear, {"hard": ("length",), "n": 4}),
    "Chain.branched": (fx.Chain.branched, {"parents": [-1, 0, 0], "dim": 3, "base": "free"}),
    "Chain.star": (fx.Chain.star, {"arms": 3, "length": 2, "dim": 3, "masses": 1.0}),
    "Chain.ring": (fx.Chain.ring, {"n": 4, "dim": 3, "masses": 1.0, "hard": ("length",)}),
    "Chain.from_bonds": (fx.Chain.from_bonds, {"n": 3, "bonds": [(0, 1), (1, 2)], "extra": ()}),
    "Chain.from_json": (fx.Chain.from_json, {"text": CHAIN.to_json()}),
    "Chain.internal": (CHAIN.internal, {"x": X}),
    "Chain.cartesian": (CHAIN.cartesian, {"q": CHAIN.internal(X)}),
    "Langevin": (
        fx.Langevin,
        {"dt": 0.02, "kT": 1.0, "friction": 1.0, "ensemble": "rigid", "tolerance": 1e-12},
    ),
    "Langevin, potential": (fx.Langevin, {"potential": potentials.WCA(), "dt": 0.02}),
    "Newton": (fx.Newton, {"dt": 0.02, "kT": 1.0, "drifting": False, "tolerance": 1e-12}),
    "Newton, potential": (fx.Newton, {"potential": potentials.WCA(), "dt": 0.02}),
    "Langevin.start": (STEPPER.start, {"chain": CHAIN, "x0": X, "v0": V, "replicas": 1, "rng": 1}),
    "Partition": (fx.Partition, {"chain": CHAIN, "x": X}),
    "fixman_force": (fx.fixman_force, {"chain": CHAIN, "x": X, "kT": 1.0, "workers": 1}),
    "fixman_potential": (fx.fixman_potential, {"chain": CHAIN, "x": X, "kT": 1.0, "workers": 1}),
    "forward_dynamics": (fx.forward_dynamics, {"chain": CHAIN, "x": X, "v": V, "force": V}),
    "forward_dynamics, torque": (
        fx.forward_dynamics,
        {"torque": np.zeros(CHAIN.soft.size), "chain": CHAIN, "x": X, "v": V},
    ),
    "inverse_dynamics": (
        fx.inverse_dynamics,
        {"chain": CHAIN, "x": X, "v": V, "qdd": np.zeros(CHAIN.soft.size), "force": V},
    ),
    "load_run": (fx.load_run, {"path": Path("run")}),
    "logdet": (fx.logdet, {"chain": CHAIN, "x": X, "workers": 1, "inverse_masses": np.ones(N)}),
    "project": (fx.project, {"chain": CHAIN, "x": X, "targets": np.ones(N - 1), "v": V}),
    "random_walks": (
        fx.random_walks,
        {
            "chain": CHAIN,
            "size": 1,
            "lengths": 1.0,
            "angles": 1.0,
            "torsions": 1.0,
            "rng": 1,
        },
    ),
    "resume": (
        fx.resume,
        {
            "path": Path("run"),
            "steps": 10,
            "stepper": STEPPER,
            "observables": (),
            "workers": 1,
            "progress": False,
        },
    ),
    "reweight": (fx.reweight, {"chain": CHAIN, "x": X[None], "workers": 1, "observable": ROW[:1]}),
    "sample": (
        fx.sample,
        {
            "chain": CHAIN,
            "size": 1,
            "lengths": 1.0,
            "angles": 1.0,
            "torsions": 1.0,
            "ensemble": "rigid",
            "rng": 1,
            "workers": 1,
            "client": None,
        },
    ),
    "simulate": (
        fx.simulate,
        {
            "chain": CHAIN,
            "x0": X,
            "stepper": STEPPER,
            "steps": 2,
            "every": 1,
            "v0": V,
            "replicas": 1,
            "workers": 1,
            "rng": 1,
            "out": None,
            "observables": (),
            "progress": False,
            "overwrite": False,
        },
    ),
    "velocity_terms": (fx.velocity_terms, {"chain": CHAIN, "x": X, "v": V}),
    "wilson_b": (fx.wilson_b, {"chain": CHAIN, "x": X}),
    "FENE": (potentials.FENE, {"stiffness": 30.0, "reach": 1.5}),
    "FENE, beads": (potentials.FENE, {"beads": [(0, 1)], "stiffness": 30.0}),
    "WCA": (potentials.WCA, {"epsilon": 1.0, "sigma": 1.0, "exclude": 1, "skin": 0.8}),
    "LennardJones": (
        potentials.LennardJones,
        {"epsilon": 1.0, "sigma": 1.0, "cutoff": 2.5, "shift": "energy", "exclude": 1},
    ),
    "Bending": (potentials.Bending, {"stiffness": 1.0, "angle": 0.0, "kind": "cosine"}),
    "Bending, beads": (potentials.Bending, {"beads": [(0, 1, 2)], "stiffness": 1.0}),
    "Torsion": (potentials.Torsion, {"amplitudes": 1.0, "phases": 0.0}),
    "RyckaertBellemans": (potentials.RyckaertBellemans, {"coefficients": (1.0, 2.0)}),
    "BendingTorsion": (potentials.BendingTorsion, {"coefficients": (1.0, 2.0)}),
    "Gravity": (potentials.Gravity, {"acceleration": (0.0, 0.0, -1.0)}),
    "Tension": (potentials.Tension, {"force": (0.0, 0.0, 1.0), "ends": (0, 3)}),
    "Tether": (
        potentials.Tether,
        {"beads": 0, "points": (0.0, 0.0, 0.0), "stiffness": 1.0},
    ),
    "bind": (potentials.bind, {"chain": CHAIN, "potential": potentials.WCA()}),
    "from_parameters": (
        potentials.from_parameters,
        {"description": potentials.WCA().parameters()},
    ),
    "angles": (observables.angles, {"chain": CHAIN, "x": X, "beads": None}),
    "autocorrelation": (
        observables.autocorrelation,
        {
            "series": np.random.default_rng(1).normal(size=(99, 20, 3)),
            "interval": 1.0,
            "longest": 2,
        },
    ),
    "mean_square_displacement": (
        observables.mean_square_displacement,
        {
            "chain": CHAIN,
            "x": X[None].repeat(9, 0),
            "of": "beads",
            "beads": [0],
            "interval": 1.0,
            "longest": 2,
        },
    ),
    "mean_square_internal_distances": (
        observables.mean_square_internal_distances,
        {"chain": CHAIN, "x": X},
    ),
    "radial_density": (
        observables.radial_density,
        {"chain": CHAIN, "x": X[None].repeat(9, 0), "edges": 3},
    ),
    "radial_distribution": (
        observables.radial_distribution,
        {
            "system": fx.System(CHAIN, 2, box=9.0),
            "x": np.tile(X, (9, 2, 1)),
            "edges": 3,
            "between": True,
        },
    ),
    "rouse_modes": (observables.rouse_modes, {"chain": CHAIN, "x": X}),
    "correlation_time": (observables.correlation_time, {"series": np.arange(9.0)}),
    "degrees_of_freedom": (observables.degrees_of_freedom, {"chain": CHAIN, "conserved": 0}),
    "end_to_end": (observables.end_to_end, {"chain": CHAIN, "x": X}),
    "gyration_tensor": (observables.gyration_tensor, {"chain": CHAIN, "x": X}),
    "histogram": (observables.histogram, {"values": np.ones((9, 2)), "edges": 3}),
    "kinetic_energy": (observables.kinetic_energy, {"chain": CHAIN, "v": V}),
    "mean_with_error": (observables.mean_with_error, {"series": np.arange(9.0)}),
    "persistence_length": (observables.persistence_length, {"chain": CHAIN, "x": X[None]}),
    "potential_energy": (
        observables.potential_energy,
        {"chain": CHAIN, "x": X, "potential": potentials.WCA()},
    ),
    "radius_of_gyration": (observables.radius_of_gyration, {"chain": CHAIN, "x": X}),
    "structure_factor": (
        observables.structure_factor,
        {"chain": CHAIN, "x": X, "q": ROW, "directions": 8},
    ),
    "temperature": (observables.temperature, {"chain": CHAIN, "v": V, "conserved": 0}),
    "torsions": (observables.torsions, {"chain": CHAIN, "x": X, "beads": None}),
    **{
        function.__name__: (
            function,
            {
                "chain": CHAIN,
                "x": X[None].repeat(2, 0),
                "stepper": fx.Brownian(0.004, flow=np.eye(3)),
                "times": [0.0, 0.1],
            },
        )
        for function in (rheology.giesekus_stress, rheology.kramers_stress, rheology.tensions)
    },
    "instantaneous_viscosity": (
        rheology.instantaneous_viscosity,
        {"chain": CHAIN, "x": X, "stepper": fx.Brownian(0.004)},
    ),
    "shear_functions": (rheology.shear_functions, {"stress": np.ones((4, 3, 3)), "rate": 1.0}),
    "extensional_viscosity": (
        rheology.extensional_viscosity,
        {"stress": np.ones((4, 3, 3)), "rate": 1.0},
    ),
    "relaxation_modulus": (
        rheology.relaxation_modulus,
        {"stress": np.ones((4, 2, 3, 3)), "interval": 0.1, "kT": 1.0, "lags": 2},
    ),
    "dumbbell_normal_stress": (analytic.dumbbell_normal_stress, {"weissenberg": 1.0}),
    "dumbbell_orientation": (analytic.dumbbell_orientation, {"weissenberg": 1.0}),
    "dumbbell_viscosity": (analytic.dumbbell_viscosity, {"weissenberg": 1.0}),
    "zero_shear_viscosity": (analytic.zero_shear_viscosity, {"beads": 3, "dim": 3}),
    "four_beads_density": (
        analytic.four_beads_density,
        {"torsion": 0.5, "angle": 1.5, "ensemble": "rigid"},
    ),
    "four_beads_logdet": (analytic.four_beads_logdet, {"torsion": 0.5, "angle": 1.5}),
    "four_beads_mean_cosine": (analytic.four_beads_mean_cosine, {"angle": 1.5}),
    "freely_jointed_logdet": (
        analytic.freely_jointed_logdet,
        {"cosines": np.zeros(2), "masses": 1.0, "base": "free"},
    ),
    "bend_density": (
        analytic.bend_density,
        {"theta": 0.5, "bonds": 3, "dim": 3, "masses": 1.0, "base": "free"},
    ),
    "bend_cumulative": (
        analytic.bend_cumulative,
        {"theta": 0.5, "bonds": 3, "dim": 3, "masses": 1.0, "base": "free"},
    ),
    "mean_fourth_end_to_end": (
        analytic.mean_fourth_end_to_end,
        {
            "bonds": 3,
            "length": 1.0,
            "dim": 3,
            "masses": 1.0,
            "base": "free",
            "ensemble": "rigid",
        },
    ),
    "mean_square_products": (
        analytic.mean_square_products,
        {"bonds": 3, "dim": 3, "masses": 1.0, "base": "free"},
    ),
    "mean_square_cosines": (
        analytic.mean_square_cosines,
        {"bonds": 3, "dim": 3, "masses": 1.0, "base": "free"},
    ),
    "mean_square_end_to_end": (
        analytic.mean_square_end_to_end,
        {"bonds": 3, "cosine": 0.0, "length": 1.0},
    ),
    "mean_square_gyration": (
        analytic.mean_square_gyration,
        {"bonds": 3, "cosine": 0.0, "length": 1.0},
    ),
    "trimer_density": (
        analytic.trimer_density,
        {"theta": 0.5, "dim": 3, "masses": 1.0, "base": "free", "ensemble": "rigid"},
    ),
    "trimer_cumulative": (
        analytic.trimer_cumulative,
        {"theta": 0.5, "dim": 3, "masses": 1.0, "base": "free", "ensemble": "rigid"},
    ),
    "BlockTridiagonal": (
        structured.BlockTridiagonal,
        {"diagonal": np.ones((2, 1, 1)), "lower": np.zeros((1, 1, 1))},
    ),
    "Sparse": (structured.Sparse, {"matrix": sparse.eye_array(3)}),
    "Tridiagonal": (
        structured.Tridiagonal,
        {"weights": np.ones(4), "cosines": np.zeros(2), "sines": np.ones(2)},
    ),
    "newton_euler": (
        newton_euler.inverse_dynamics,
        {"arm": ARM, "q": ROW, "qd": ROW, "qdd": ROW, "gravity": (0.0, 0.0, 0.0)},
    ),
    "acceleration": (
        kinematics.acceleration,
        {"arm": ARM, "q": ROW, "qd": ROW, "qdd": ROW, "body": 1, "point": (0.0, 0.0, 0.0)},
    ),
    "jacobian": (kinematics.jacobian, {"arm": ARM, "q": ROW, "body": 1, "linear": True}),
    "jacobian_transpose": (
        kinematics.jacobian_transpose,
        {"arm": ARM, "q": ROW, "wrench": np.ones(6), "body": 1},
    ),
    "momentum": (
        kinematics.momentum,
        {"arm": ARM, "q": ROW, "qd": ROW, "about": "origin"},
    ),
    "potential_energy, rigid": (
        kinematics.potential_energy,
        {"arm": ARM, "q": ROW, "gravity": (0.0, 0.0, -9.81)},
    ),
    "integrate": (kinematics.integrate, {"arm": ARM, "q": ROW, "qd": ROW, "dt": 0.1}),
    "difference": (kinematics.difference, {"arm": ARM, "q0": ROW, "q1": ROW}),
    "operational_space_compliance": (
        kinematics.operational_space_compliance,
        {"arm": ARM, "q": ROW, "body": [1, 2], "point": np.zeros((2, 3))},
    ),
    "closed": (
        closed.forward_dynamics,
        {
            "linkage": FOUR_BAR,
            "q": CLOSED,
            "qd": np.zeros(3),
            "tau": np.ones(3),
            "gravity": (0.0, 0.0, -9.81),
            "tolerance": 1e-3,
        },
    ),
    "gap": (closed.gap, {"linkage": FOUR_BAR, "q": CLOSED, "qd": np.ones(3)}),
    "project, closed": (
        closed.project,
        {"linkage": FOUR_BAR, "q": CLOSED, "qd": np.ones(3), "tolerance": 1e-12},
    ),
    "integrate, closed": (
        closed.integrate,
        {"linkage": FOUR_BAR, "q": CLOSED, "qd": np.ones(3), "dt": 0.1},
    ),
    "logdet_mass, closed": (closed.logdet_mass, {"linkage": FOUR_BAR, "q": CLOSED}),
    "logdet_hard, closed": (closed.logdet_hard, {"linkage": FOUR_BAR, "q": CLOSED}),
    "End": (
        closed.End,
        {"body": 1, "point": (1.0, 0.0, 0.0), "axes": np.eye(3), "chain": 0},
    ),
    "Closure": (closed.Closure, {"a": 1, "b": None, "kind": "weld"}),
    "Linkage": (closed.Linkage, {"chains": ARM, "closures": closed.Closure(1, None)}),
    **{
        module.__name__.rsplit(".", 1)[-1]: (
            module.forward_dynamics,
            {"arm": ARM, "q": ROW, "qd": ROW, "tau": ROW, "gravity": (0.0, 0.0, 0.0)},
        )
        for module in (articulated_body, composite_body, denoc, partition, spatial_operators)
    },
    "SerialChain.random": (rigid.SerialChain.random, {"n": 3, "rng": 1}),
    "SerialChain.snake": (
        rigid.SerialChain.snake,
        {"n": 3, "length": 1.0, "mass": 1.0, "radius": 0.1, "free_base": True},
    ),
    "SerialChain.from_urdf": (
        rigid.SerialChain.from_urdf,
        {
            "path": Path("no.urdf"),
            "tip": "hand",
            "free_base": False,
            "strict": True,
        },
    ),
}

# What None or a word may be.
FREE = {
    (name, key, "None")
    for name, keys in {
        "Chain.linear": "", "Newton": "kT", "Langevin.start": "v0 rng",
        "Langevin, potential": "potential", "Newton, potential": "potential",
        "Bending, beads": "beads", "FENE, beads": "beads",
        "fixman_force": "", "forward_dynamics": "force",
        "forward_dynamics, torque": "torque", "inverse_dynamics": "force",
        "logdet": "inverse_masses", "project": "v", "random_walks": "rng",
        "sample": "rng client",
        "resume": "steps stepper progress", "reweight": "observable",
        "simulate": "every v0 replicas rng out progress", "Tension": "ends", "bind": "potential",
        "angles": "beads", "torsions": "beads",
        "autocorrelation": "longest", "mean_square_displacement": "longest",
        "potential_energy": "potential",
        "giesekus_stress": "times", "kramers_stress": "times", "tensions": "times",
        "relaxation_modulus": "lags",
        "SerialChain.random": "rng", "SerialChain.from_urdf": "tip",
        "gap": "qd", "project, closed": "qd", "End": "body", "Closure": "b",
    }.items()
    for key in keys.split()
}  # fmt: skip
FREE |= {("load_run", "path", "str"), ("resume", "path", "str"), ("simulate", "out", "str")}
FREE |= {("SerialChain.from_urdf", key, "str") for key in ("path", "tip")}

# Errors that speak of the argument in other words.
WORDS = {"text": "to_json", "arm": "SerialChain", "observables": "observable"}


@pytest.mark.parametrize("name", CALLS)
def test_the_argument_is_named(name):
    function, call = CALLS[name]
    for key in call:
        for kind, bad in BAD.items():
            if (name, key, kind) in FREE:
                continue
            with pytest.raises((TypeError, ValueError)) as raised:
                function(**call | {key: bad})
            said = str(raised.value)
            assert WORDS.get(key, key) in said, (key, kind)
            assert "unexpected keyword" not in said, (key, kind)


def solve(**given):
    return fx.Partition(CHAIN, X).solve(**given)


MORE = {
    "Brownian": (fx.Brownian, {"friction": 1.0, "ensemble": "stiff", "scheme": "liu"}),
    "MonteCarlo": (fx.MonteCarlo, {"ensemble": "stiff", "burn_in": 0}),
    "HybridMonteCarlo": (fx.HybridMonteCarlo, {"ensemble": "stiff", "leaps": 3}),
    "shear": (flows.shear, {"rate": 1.0, "dim": 3}),
    "Partition.solve": (solve, {"b": np.zeros(CHAIN.soft.size)}),
    "Partition.solve, method": (
        solve,
        {"method": "lu", "b": np.zeros(CHAIN.soft.size)},
    ),
    "Chain.linear, straight": (fx.Chain.linear, {"n": 4, "straight": ()}),
    "convective_matrix": (
        composite_body.convective_matrix,
        {"arm": ARM, "q": ROW, "qd": ROW, "christoffel": True},
    ),
    "spatial_operators, method": (
        spatial_operators.forward_dynamics,
        {"method": "fd3", "arm": ARM, "q": ROW, "qd": ROW, "tau": ROW},
    ),
    "motion": (
        motion.simulate,
        {
            "first": 0,
            "system": ARM,
            "q": ROW,
            "dt": 0.1,
            "steps": 1,
            "every": 1,
            "overwrite": False,
            "progress": False,
        },
    ),
}
for name in ("Brownian", "HybridMonteCarlo"):
    MORE[name][1]["dt"] = 0.004
# Loops of as many steps.
LEFT = {("steps", "huge"), ("replicas", "huge"), ("q", "huge"), ("targets", "huge")}


@cache
def raises(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Raise))
    return [range(node.lineno, node.end_lineno + 1) for node in found]


def raised_by_fixman(error):
    """Whether a `raise` of the package made the error."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    path = Path(last.filename)
    ours = path.is_relative_to(Path(fx.__file__).parent)
    return ours and any(last.lineno in lines for lines in raises(path))


@pytest.mark.parametrize("name", [*CALLS, *MORE])
def test_neither_python_nor_numpy_speaks(name):
    function, call = (CALLS | MORE)[name]
    for key in call:
        for kind, bad in STRANGE.items():
            if (key, kind) in LEFT:
                continue
            try:
                function(**call | {key: bad})
            except (TypeError, ValueError, MemoryError, FileNotFoundError) as error:
                if not raised_by_fixman(error):
                    raise AssertionError(f"{key}, {kind}: {error}") from error


@pytest.mark.parametrize("steps", [20.0, np.float64(2e1), np.int32(20), 20])
def test_a_whole_number_is_one_however_it_is_written(steps):
    assert fx.simulate(CHAIN, X, STEPPER, steps, every=2.0, rng=1).steps[-1] == 20
    assert fx.HybridMonteCarlo(0.1, leaps=10.0) == fx.HybridMonteCarlo(0.1)
    assert potentials.WCA(exclude=1.0) == potentials.WCA()
    assert fx.Chain.linear(4.0) == CHAIN
    for half in (2.5, np.nan, np.inf, True):
        with pytest.raises(TypeError, match="steps must be an integer, got"):
            fx.simulate(CHAIN, X, STEPPER, half)


def test_what_memory_cannot_hold_is_refused_first():
    with pytest.raises(MemoryError, match=r"n = 4.61e\+18 would take about .* GB of memory"):
        fx.Chain.linear(2**62)
    with pytest.raises(MemoryError, match=r"^the frames of 1 replicas of 4 beads"):
        fx.simulate(CHAIN, X, STEPPER, 2**62, every=1)
    with pytest.raises(MemoryError, match=r"replicas = 4\.61e\+18"):
        STEPPER.start(CHAIN, X, replicas=2**62)


@pytest.mark.parametrize("name", CALLS)
def test_the_call_is_right_otherwise(name):
    function, call = CALLS[name]
    if "path" in call:  # there is no such run, nor robot
        with pytest.raises(FileNotFoundError):
            function(**call)
    else:
        function(**call)


def test_a_stepper_is_not_its_time_step_nor_its_class():
    with pytest.raises(TypeError, match=r"fixman.Langevin\(dt\).*, got 0.02"):
        fx.simulate(CHAIN, X, 0.02, 100)
    with pytest.raises(TypeError, match=r"another stepper, got <class .*Langevin'>"):
        fx.simulate(CHAIN, X, fx.Langevin, 100)
    with pytest.raises(TypeError, match=r"the class WCA: make one, WCA\("):
        fx.Langevin(0.02, potential=potentials.WCA)
    for term, said in ((None, "None"), (1, "1"), (potentials.Bending, "the class Bending")):
        with pytest.raises(TypeError, match=f"potential must be one of .*, got {said}"):
            potentials.WCA() + term


def test_a_chain_is_made_by_its_constructors_and_copied():
    with pytest.raises(TypeError, match="missing 6 required"):
        fx.Chain(10)
    assert copy.copy(CHAIN) == copy.deepcopy(CHAIN) == CHAIN
    assert pickle.loads(pickle.dumps(CHAIN)) == CHAIN
    heavy = dataclasses.replace(CHAIN, masses=np.full(N, 2.0))
    assert heavy.masses.tolist() == [2.0] * N
    assert heavy.hard.tolist() == CHAIN.hard.tolist()


@pytest.mark.parametrize("value", ["no", 0, 1, "False", None])
def test_a_flag_is_true_or_false(value):
    with pytest.raises(TypeError, match="overwrite must be True or False"):
        fx.simulate(CHAIN, X, STEPPER, 2, overwrite=value)
    with pytest.raises(TypeError, match="drifting must be True or False"):
        fx.Newton(0.02, drifting=value)


@pytest.mark.parametrize("value", ["", "a\0b"])
def test_a_path_has_a_name(value):
    with pytest.raises(ValueError, match="out must be the name of a file or folder"):
        fx.simulate(CHAIN, X, STEPPER, 2, out=value)
    with pytest.raises(ValueError, match="path must be the name"):
        fx.load_run(value)


@pytest.mark.parametrize("value", [b"run", 3, io.BytesIO()])
def test_a_path_is_text(value):
    with pytest.raises(TypeError, match="must be a path"):
        fx.load_run(value)


@pytest.mark.parametrize("rng", ["seed", 1.5, True, [1, 2]])
def test_a_seed_is_an_integer(rng):
    with pytest.raises(TypeError, match="rng must be an integer or a"):
        fx.random_walks(CHAIN, rng=rng)
    with pytest.raises(ValueError, match="rng must be non-negative"):
        fx.random_walks(CHAIN, rng=-1)


def test_a_whole_number_has_a_size_that_is():
    with pytest.raises(ValueError, match=r"steps must be below 2⁶³, about 9.2e18"):
        fx.simulate(CHAIN, X, STEPPER, 10**300)


def test_lengths_of_walks_are_finite():
    with pytest.raises(ValueError, match="lengths must be finite, got nan"):
        fx.random_walks(CHAIN, lengths=np.nan)


@pytest.mark.parametrize("write", ["gsd", "hdf5"])
def test_what_is_exported_is_a_run(write, tmp_path):
    module = pytest.importorskip(f"fixman.io.{write}")
    with pytest.raises(TypeError, match=r"run must be a fixman.Run.*got str"):
        getattr(module, f"write_{write}")("run", tmp_path / "file")


def test_verbs_of_rigid_bodies_name_what_is_no_chain():
    from fixman.rigid import articulated_body, closed, composite_body, denoc, kinematics

    q = np.zeros(3)
    for call, named in (
        (lambda: kinematics.operational_space_inertia(None, q, 0), "arm must be"),
        (lambda: composite_body.convective_matrix(None, q, q), "arm must be"),
        (lambda: denoc.n_d(None), "arm must be"),
        (lambda: articulated_body.pivots(None, q), "arm must be"),
        (lambda: closed.project(None, q), "linkage must be"),
    ):
        with pytest.raises(TypeError, match=named):
            call()
