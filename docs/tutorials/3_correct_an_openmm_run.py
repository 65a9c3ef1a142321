"""
Correct a run of OpenMM
=======================

After this page you can add one force to an OpenMM System with constraints, so that the System
samples the ensemble of stiff springs.  You can also test the ensemble.

OpenMM holds bonds by constraints. A run with constraints samples the **rigid** ensemble. A run with
very stiff springs samples the **stiff** ensemble. The two differ by Fixman's potential
½ kT ln det H^bb, where H^bb is the inverse mass matrix of the constrained coordinates. This page
runs a small System without and with this potential, and compares both runs with exact
distributions.
"""

# %%
# A System with constraints
# -------------------------
# The molecule is a chain of heavy beads of 80 Da and light beads of 14 Da, which alternate.  With
# these masses the two ensembles are clearly different.  The four bonds of 0.194 nm are constrained,
# and no other forces act.  There are forty copies.  Your own System may come from
# ``ForceField.createSystem``, with ``constraints=app.AllBonds``.

import numpy as np
import openmm
from openmm import unit

import fixman as fx
from fixman import analytic, observables
from fixman.io.openmm import kT, metric_force, set_temperature

masses, length, copies = [80.0, 14.0, 80.0, 14.0, 80.0], 0.194, 40


def molecules():
    """Return a System of all copies."""
    system = openmm.System()
    for first in range(0, 5 * copies, 5):
        for mass in masses:
            system.addParticle(mass)
        for k in range(first, first + 4):
            system.addConstraint(k, k + 1, length)
    return system


# %%
# The force
# ---------
# ``metric_force`` finds the molecules from the constraints, and returns one force for all
# molecules. Add this force last, after constraints and other forces.

plain, corrected = molecules(), molecules()
force = metric_force(corrected)
corrected.addForce(force)
print(f"{force.getName()} on {len(force.getParticles())} of {plain.getNumParticles()} particles")

# %%
# One more line is needed, after the Context is made.  The potential is proportional to the
# temperature, and ``set_temperature`` gives the force the temperature of the thermostat.  The time
# step can be as long as 20 fs, because nothing vibrates here.  With a force field take your usual
# step.

chain = fx.Chain.linear(5, masses=masses)
start = fx.random_walks(chain, copies, lengths=length, rng=1)


def context_of(system):
    """Return a Context of the System, with a thermostat at 300 K."""
    integrator = openmm.LangevinMiddleIntegrator(300, 3, 0.02)  # K, 1/ps, ps
    integrator.setRandomNumberSeed(1)
    integrator.setConstraintTolerance(1e-6)
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName("Reference"))
    if any(force.getName() == "FixmanForce" for force in system.getForces()):
        set_temperature(context)
    context.setPositions(start.reshape(-1, 3))
    context.setVelocitiesToTemperature(300, 1)
    return context


# %%
# Test the force before the run.  The energy of the Context is the sum of Fixman's potential over
# the molecules.  ``fixman_potential`` computes the same sum from arrays.

context = context_of(corrected)
energy = context.getState(energy=True).getPotentialEnergy()
arrays = fx.fixman_potential(chain, start, kT(300)).sum()
print(f"OpenMM {energy.value_in_unit(unit.kilojoule_per_mole):.6f} kJ/mol, arrays {arrays:.6f}")

# %%
# Before and after
# ----------------
# Run both Systems, and keep a frame every 0.5 ps.


def frames(context, count=400):
    """Run, and return the positions of every copy in every frame, in nm."""
    context.getIntegrator().step(200)
    x = []
    for _ in range(count):
        context.getIntegrator().step(25)
        positions = context.getState(positions=True).getPositions(asNumpy=True)
        x.append(positions.value_in_unit(unit.nanometer).reshape(copies, 5, 3))
    return np.array(x)


runs = {"rigid": frames(context_of(plain)), "stiff": frames(context)}
cosines = {name: np.cos(observables.angles(chain, x)) for name, x in runs.items()}
squares = {name: (c[..., ::2] ** 2).mean(axis=-1) for name, c in cosines.items()}
exact = {"rigid": analytic.mean_square_cosines(4, masses=masses)[0], "stiff": 1 / 3}
print("⟨cos² θ⟩ at the light beads")
for name, square in squares.items():
    mean = observables.mean_with_error(square)
    print(f"{name}: {mean.value:.4f} ± {mean.error:.4f}, exact {exact[name]:.4f}")

# %%
# With springs every cosine has a flat distribution. Constraints make right angles at a light bead
# too frequent. They hardly change the bend at the heavy bead in the middle. Black lines are the
# exact densities.

bins, theta = np.linspace(-1, 1, 17), np.linspace(0.02, np.pi - 0.02, 200)
density = analytic.bend_density(theta, 4, masses=masses) / np.sin(theta)[:, None]
panels = {"cosine of the bend at a light bead": [0, 2], "cosine of the bend at the heavy bead": [1]}

with fx.plot.style():
    fig = fx.plot.figure(1.9, aspect=0.42)
    axes = fig.subplots(1, 2, sharey=True)
    for ax, (label, bends) in zip(axes, panels.items(), strict=True):
        pair = {name: c[..., bends] for name, c in cosines.items()}
        fx.plot.distribution(ax, **pair, bins=bins, label=label)
        ax.plot(np.cos(theta), density[:, bends[0]], color="black", linewidth=0.8)
        ax.plot([-1, 1], [0.5, 0.5], color="black", linewidth=0.8)
        ax.set_ylim(0.25, 0.65)
    axes[1].set_ylabel("")

# %%
# Frames that you have already
# ----------------------------
# You can still use the run without the force.  Weights turn its averages into averages over the
# stiff ensemble.

square = squares["rigid"]
weights = fx.reweight(chain, runs["rigid"], observable=square)
mean = observables.mean_with_error(square, log_weights=weights.log_weights)
print(f"reweighted: {mean.value:.4f} ± {mean.error:.4f}, exact {exact['stiff']:.4f}")
print(f"{square.size} samples are worth {weights.effective_size:.0f} independent ones")

# %%
# The temperature
# ---------------
# If you change only the thermostat, the force keeps the old temperature, and the run stops with an
# error.  ``set_temperature`` changes both.

context.getIntegrator().setTemperature(320)
try:
    context.getIntegrator().step(1)
except openmm.OpenMMException as error:
    print(str(error).partition(":")[0])
set_temperature(context, 320)

# %%
# Where next
# ----------
# :doc:`2_audit_a_trajectory` shows how to tell, from a run without the force, whether you need the
# force. :doc:`/openmm` has angles, periodic boxes, tempering, files, and the cost.
# :doc:`/analytic` has more numbers to test a run against.
