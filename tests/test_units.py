"""Quantities with units are refused wherever a number is expected, instead of losing their unit."""

from __future__ import annotations

import numpy as np
import pytest

import fixman as fx
from fixman import analytic, observables, potentials


class Quantity:
    """What pint's is like: a magnitude, units, and a conversion to arrays that drops them."""

    def __init__(self, magnitude, units="nanometer"):
        self.magnitude, self.units = magnitude, units

    def __array__(self, dtype=None, copy=None):
        return np.array(self.magnitude, dtype=dtype)

    def __float__(self):
        return float(self.magnitude)


def pint_like(value):
    return Quantity(value)


@pytest.fixture(scope="module", params=["pint", "openmm", "openmm, in a list", "openmm, vectors"])
def dimensional(request):
    """Give a value a unit."""
    if request.param == "pint":
        return Quantity
    openmm = pytest.importorskip("openmm")
    unit = openmm.unit
    if request.param == "openmm":
        return lambda value: value * unit.nanometer
    if request.param == "openmm, vectors":  # what files give
        return lambda value: (
            ([openmm.Vec3(*row) for row in value] if np.shape(value)[1:] == (3,) else value)
            * unit.nanometer
        )
    # Positions often come as lists of quantities.
    return lambda value: (
        [part * unit.nanometer for part in np.asarray(value)]
        if np.ndim(value)
        else value * unit.nanometer
    )


CHAIN = fx.Chain.linear(5, hard=("length", "angle"))
X = np.random.default_rng(5).normal(size=(5, 3))
V = np.zeros((5, 3))
FRAMES = np.stack([X, 1.1 * X, 0.9 * X, X + 1.0])
SOFT, HARD, ALL = CHAIN.soft.size, CHAIN.hard.size, CHAIN.n * CHAIN.dim
BOUND = potentials.bind(CHAIN, potentials.Bending(1.0))
ARM = fx.rigid.SerialChain.random(3, 1, joints=("revolute", "prismatic"))
SERIES = np.random.default_rng(6).normal(size=(30, 2))
RIGID = (fx.rigid.articulated_body, fx.rigid.composite_body, fx.rigid.denoc, fx.rigid.partition,
         fx.rigid.spatial_operators)  # fmt: skip

# Name of the argument, a value of it that is right, and a call with it.
CALLS = [
    ("masses", 1.0, lambda v: fx.Chain.linear(3, masses=v)),
    ("masses", [1.0, 2.0, 1.0], lambda v: fx.Chain.branched([-1, 0, 0], masses=v)),
    ("masses", [1.0, 2.0, 1.0], lambda v: fx.Chain.ring(3, masses=v)),
    ("masses", [1.0, 2.0, 1.0], lambda v: fx.Chain.from_bonds(3, [(0, 1), (1, 2)], masses=v)),
    ("x", X, CHAIN.internal),
    ("x", X, CHAIN.values),
    ("q", CHAIN.internal(X), CHAIN.cartesian),
    ("qd", np.zeros(ALL), lambda v: CHAIN.cartesian(CHAIN.internal(X), v)),
    ("x", X, lambda v: fx.wilson_b(CHAIN, v)),
    ("x", X, lambda v: fx.velocity_terms(CHAIN, v, V)),
    ("v", V, lambda v: fx.velocity_terms(CHAIN, X, v)),
    ("x", X, lambda v: fx.Partition(CHAIN, v)),
    ("b", np.ones(SOFT), lambda v: fx.Partition(CHAIN, X).solve(v)),
    ("force", V, lambda v: fx.Partition(CHAIN, X).tensions(v)),
    ("x", X, lambda v: fx.forward_dynamics(CHAIN, v, V)),
    ("v", V, lambda v: fx.forward_dynamics(CHAIN, X, v)),
    ("torque", np.ones(SOFT), lambda v: fx.forward_dynamics(CHAIN, X, V, torque=v)),
    ("force", V, lambda v: fx.forward_dynamics(CHAIN, X, V, force=v)),
    ("qdd", np.ones(SOFT), lambda v: fx.inverse_dynamics(CHAIN, X, V, v)),
    ("force", V, lambda v: fx.inverse_dynamics(CHAIN, X, V, np.ones(SOFT), force=v)),
    ("x", X, lambda v: fx.project(CHAIN, v, PART_VALUES)),
    ("targets", CHAIN.values(X)[CHAIN.hard], lambda v: fx.project(CHAIN, X, v)),
    ("v", V, lambda v: fx.project(CHAIN, X, PART_VALUES, v)),
    ("x", X, lambda v: fx.logdet(CHAIN, v)),
    ("inverse_masses", 1.0, lambda v: fx.logdet(CHAIN, X, inverse_masses=v)),
    ("workers", 1, lambda v: fx.logdet(CHAIN, X, workers=v)),
    ("kT", 1.0, lambda v: fx.fixman_potential(CHAIN, X, v)),
    ("kT", 1.0, lambda v: fx.fixman_force(CHAIN, X, v)),
    ("x", FRAMES, lambda v: fx.reweight(CHAIN, v)),
    ("observable", np.ones(4), lambda v: fx.reweight(CHAIN, FRAMES, observable=v)),
    ("lengths", 1.0, lambda v: fx.random_walks(CHAIN, lengths=v)),
    ("angles", 1.0, lambda v: fx.random_walks(CHAIN, angles=v)),
    ("torsions", 1.0, lambda v: fx.random_walks(CHAIN, torsions=v)),
    ("size", 2, lambda v: fx.random_walks(CHAIN, v)),
    ("dt", 0.01, fx.Newton),
    ("kT", 1.0, lambda v: fx.Newton(0.01, kT=v)),
    ("dt", 0.01, fx.Langevin),
    ("kT", 1.0, lambda v: fx.Langevin(0.01, kT=v)),
    ("friction", 1.0, lambda v: fx.Langevin(0.01, friction=v)),
    ("tolerance", 1e-9, lambda v: fx.Langevin(0.01, tolerance=v)),
    ("dt", 0.01, fx.HybridMonteCarlo),
    ("dt", 0.01, fx.Brownian),
    ("friction", 1.0, lambda v: fx.Brownian(0.01, friction=v)),
    ("drop_redundant", X, lambda v: fx.Chain.ring(5, drop_redundant=v)),
    ("x0", X, lambda v: fx.simulate(CHAIN, v, fx.Langevin(0.01), 2)),
    ("v0", V, lambda v: fx.simulate(CHAIN, X, fx.Newton(0.01), 2, v0=v)),
    ("steps", 2, lambda v: fx.simulate(CHAIN, X, fx.Langevin(0.01), v)),
    ("every", 1, lambda v: fx.simulate(CHAIN, X, fx.Langevin(0.01), 2, every=v)),
    ("stiffness", 1.0, potentials.Bending),
    ("angle", 1.0, lambda v: potentials.Bending(1.0, v)),
    ("stiffness", 1.0, potentials.FENE),
    ("reach", 1.5, lambda v: potentials.FENE(reach=v)),
    ("amplitudes", 1.0, potentials.Torsion),
    ("coefficients", [1.0, 2.0], potentials.RyckaertBellemans),
    ("coefficients", [1.0, 2.0], potentials.BendingTorsion),
    ("epsilon", 1.0, potentials.LennardJones),
    ("sigma", 1.0, lambda v: potentials.LennardJones(sigma=v)),
    ("cutoff", 2.5, lambda v: potentials.LennardJones(cutoff=v)),
    ("epsilon", 1.0, potentials.WCA),
    ("sigma", [1.0, 1.0], lambda v: potentials.WCA(sigma=v)),
    ("skin", 0.8, lambda v: potentials.WCA(skin=v)),
    ("exclude", 1, lambda v: potentials.WCA(exclude=v)),
    ("acceleration", [0.0, 0.0, -1.0], potentials.Gravity),
    ("force", [0.0, 0.0, 1.0], potentials.Tension),
    ("points", [0.0, 0.0, 1.0], lambda v: potentials.Tether(0, v)),
    ("stiffness", 1.0, lambda v: potentials.Tether(0, [0.0, 0.0, 1.0], v)),
    ("x", X, BOUND.energy),
    ("x", X, BOUND.force),
    ("x", X, lambda v: observables.radius_of_gyration(CHAIN, v)),
    ("x", X, lambda v: observables.end_to_end(CHAIN, v)),
    ("x", X, lambda v: observables.angles(CHAIN, v)),
    ("x", X, lambda v: observables.persistence_length(CHAIN, v)),
    ("q", [1.0, 2.0], lambda v: observables.structure_factor(CHAIN, X, v)),
    ("x", X, lambda v: observables.potential_energy(CHAIN, v, potentials.Bending(1.0))),
    ("v", V, lambda v: observables.kinetic_energy(CHAIN, v)),
    ("v", V, lambda v: observables.temperature(CHAIN, v)),
    ("conserved", 3, lambda v: observables.degrees_of_freedom(CHAIN, v)),
    ("values", SERIES, observables.histogram),
    ("edges", [0.0, 1.0], lambda v: observables.histogram(SERIES, v)),
    ("log_weights", np.zeros(30), lambda v: observables.histogram(SERIES, log_weights=v)),
    ("series", SERIES, observables.mean_with_error),
    ("log_weights", 0 * SERIES, lambda v: observables.mean_with_error(SERIES, log_weights=v)),
    ("series", SERIES, observables.correlation_time),
    ("x", X[None], lambda v: observables.mean_square_displacement(CHAIN, v)),
    ("interval", 1.0, lambda v: observables.mean_square_displacement(CHAIN, X[None], interval=v)),
    ("x", X, lambda v: observables.rouse_modes(CHAIN, v)),
    ("cosines", [0.1, 0.2], analytic.freely_jointed_logdet),
    ("masses", 1.0, lambda v: analytic.mean_square_cosines(3, masses=v)),
    ("theta", 1.0, analytic.trimer_density),
    ("theta", 1.0, analytic.trimer_cumulative),
    ("torsion", 1.0, analytic.four_beads_logdet),
    ("angle", 1.0, lambda v: analytic.four_beads_density(1.0, v)),
    ("angle", 1.0, analytic.four_beads_mean_cosine),
    ("length", 1.0, lambda v: analytic.mean_square_end_to_end(3, length=v)),
    ("length", 1.0, lambda v: analytic.mean_square_gyration(3, length=v)),
    ("bonds", 3, analytic.mean_square_cosines),
    ("theta", 1.0, lambda v: analytic.bend_density(v, 3)),
    ("theta", 1.0, lambda v: analytic.bend_cumulative(v, 3)),
    ("length", 1.0, lambda v: analytic.mean_fourth_end_to_end(3, length=v)),
    *(
        (name, np.zeros(3), lambda v, name=name, room=room: room.forward_dynamics(
            ARM, **{"q": np.zeros(3), "qd": np.zeros(3), "tau": np.zeros(3), name: v}))
        for room in RIGID for name in ("q", "qd", "tau", "gravity")
    ),
]  # fmt: skip
PART_VALUES = CHAIN.values(X)[CHAIN.hard]


@pytest.mark.parametrize(
    "number", range(len(CALLS)), ids=[f"{k} {c[0]}" for k, c in enumerate(CALLS)]
)
def test_units_are_refused(dimensional, number):
    name, value, call = CALLS[number]
    call(value)
    with pytest.raises(TypeError, match=rf"^{name} carries a unit \(n.*nm, ps, dalton and kJ/mol"):
        call(dimensional(value))


def test_a_temperature_is_no_energy():
    unit = pytest.importorskip("openmm").unit
    for kelvin in (300 * unit.kelvin, Quantity(300, "kelvin"), Quantity(300, "K")):
        for call in (lambda v: fx.fixman_potential(CHAIN, X, v), lambda v: fx.Langevin(0.01, kT=v)):
            with pytest.raises(TypeError, match=r"k_B·T: fixman\.io\.openmm\.kT\(T\)$"):
                call(kelvin)


def test_rates_and_lists_with_units_are_refused():
    unit = pytest.importorskip("openmm").unit
    with pytest.raises(TypeError, match=r"kJ/mol$"):
        fx.Langevin(0.1, friction=1.0 / unit.picosecond)
    with pytest.raises(TypeError, match=r"kJ/mol$"):
        fx.Chain.linear(2, masses=[1.0 * unit.dalton] * 2)


def test_numbers_of_any_kind_are_no_quantities():
    """A scalar of NumPy has neither a unit nor a magnitude; bool is no number."""
    for value in (1, 1.0, np.float32(1.0), np.int64(1), np.array(1.0)):
        assert fx.Langevin(value, kT=value).kT == 1.0
        assert type(fx.Langevin(value, kT=value).dt) is float
        assert fx.fixman_potential(CHAIN, X, value) == fx.fixman_potential(CHAIN, X)
    for wrong in (True, np.True_, "1", None, 1j, [1.0], [[1.0], 2.0]):
        with pytest.raises(TypeError, match="kT must be one number"):
            fx.Langevin(0.01, kT=wrong)
    for far in (np.nan, np.inf, 0.0, -1.0, 1e-101, 1e101):
        with pytest.raises(ValueError, match="kT must be positive, in a unit that keeps it within"):
            fx.Langevin(0.01, kT=far)
