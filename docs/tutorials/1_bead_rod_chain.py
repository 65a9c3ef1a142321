"""
A bead-rod chain, from nothing to the metric
============================================

After this page you can describe a chain with rigid bonds, simulate it in the rigid and in the stiff
ensemble, and say whether the difference between the two matters for the number that you want.

A chain of beads joined by rigid rods is the oldest model of a polymer.  The rods stand for very
stiff springs.  A simulation with rods and a simulation with springs sample different distributions.
The ratio of the two densities depends on one determinant.  This library computes the determinant in
a time proportional to the number of beads.
"""

# %%
# The chain
# ---------
# The chain has twenty beads and nineteen bonds.  Bonds are hard by default: their lengths are
# constrained.

import numpy as np

import fixman as fx
from fixman import observables

chain = fx.Chain.linear(20)
print(chain)

# %%
# Draw a configuration, pull the ends apart, and plot the tensions of the bonds. One banded solve
# gives these tensions and the accelerations of the beads.

x = fx.random_walks(chain, 1, rng=3)[0]
force = np.zeros_like(x)
force[-1] = x[-1] - x[0]
force[-1] /= np.linalg.norm(force[-1])
force[0] = -force[-1]
motion = fx.forward_dynamics(chain, x, np.zeros_like(x), force=force)

with fx.plot.style():
    fig = fx.plot.figure(1.5, aspect=0.5)
    fx.plot.chain(fig.subplots(), chain, x, motion.tension, label="tension")

# %%
# The two ensembles
# -----------------
# A chain with rods samples the **rigid** ensemble. A chain with very stiff springs samples the
# **stiff** ensemble. A simulation with rods samples the stiff ensemble too, if the Fixman potential
# ½ kT ln det H^bb is added. H^bb is the inverse mass matrix of the constrained coordinates. With
# ``ensemble="stiff"`` a stepper adds the exact force of this potential.

bends = {}
for ensemble in ("rigid", "stiff"):
    stepper = fx.Langevin(dt=0.1, ensemble=ensemble)
    x0 = fx.random_walks(chain, 64, rng=1)
    run = fx.simulate(chain, x0, stepper, 10_000, every=20, rng=1)
    bends[ensemble] = np.cos(observables.angles(chain, run.x[50:]))
    mean = observables.mean_with_error((bends[ensemble] ** 2).mean(axis=-1))
    print(f"{ensemble}: mean squared cosine of a bend {mean.value:.4f} ± {mean.error:.4f}")

# %%
# With springs the bends of a freely jointed chain are independent of each other, and the mean
# squared cosine is 1/3. With rods the density has the factor √det H^bb.  The coupling of two
# neighbouring bonds lowers this determinant, and is proportional to the cosine of their bend.  So
# right angles are more likely.

with fx.plot.style():
    fig = fx.plot.figure(1.5, aspect=0.5)
    ax = fx.plot.distribution(fig.subplots(), **bends, label="cosine of a bend")

# %%
# Does it matter to you?
# ----------------------
# The answer depends on the number that you want.  Without a bending potential the size of this
# chain is that of a random walk in both ensembles.  The mean squared radius of gyration is
# (n² − 1)/(6 n) = 3.325:

for ensemble in ("rigid", "stiff"):
    sample = fx.sample(chain, 100_000, ensemble=ensemble, rng=2)
    size = observables.radius_of_gyration(chain, sample.x) ** 2
    error = size.std() / np.sqrt(len(size))
    print(f"{ensemble}: squared radius of gyration {size.mean():.4f} ± {error:.4f}")

# %%
# Here `fixman.sample` drew independent chains, without a simulation.  If you have frames already,
# correct their averages by weights.  The effective size is the number of frames with equal weights
# that would give the same error:

frames = fx.sample(chain, 5_000, ensemble="rigid", rng=4).x
weights = fx.reweight(chain, frames)
cosine2 = (np.cos(observables.angles(chain, frames)) ** 2).mean(axis=-1)
mean = observables.mean_with_error(cosine2, log_weights=weights.log_weights)
print(f"reweighted: {mean.value:.4f} ± {mean.error:.4f}")
print(f"effective frames: {weights.effective_size:.0f} of {len(frames)}")

# %%
# Where next
# ----------
# :doc:`/simulation` has forces, many replicas, and runs on disk.  :doc:`/metric` explains the
# determinant, and :doc:`/analytic` has exact means to compare with.
