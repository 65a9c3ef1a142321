"""
Pictures: each function of `fixman.plot`
========================================

After this page you can choose a picture by its look, and copy the lines that draw it.

Each function takes a matplotlib ``ax`` and returns it, so that you can change the picture with any
function of matplotlib.  The first argument of `figure` is the width. Its unit is one column of a
journal, 3.4 inches.  `style` sets the fonts while a figure is drawn and saved.
"""

# %%
# chain
# -----
# `chain` draws the beads and bonds of one configuration.  `values` colour the bonds.  Give one
# number for each bond, or one for each hard coordinate, such as the tensions.  Flat axes show the
# plane in which the chain is largest.  Axes made with ``projection="3d"`` show space.

import timeit
from functools import partial

import numpy as np

import fixman as fx
from fixman import observables, plot, rigid
from fixman.potentials import RyckaertBellemans

polymer = fx.Chain.linear(30)
x = fx.random_walks(polymer, 1, rng=1)[0]
tension = fx.forward_dynamics(polymer, x, np.zeros_like(x), force=x - x.mean(axis=0)).tension
star = fx.Chain.branched([-1, *(0 if k % 5 == 0 else k for k in range(20))])  # four arms of five

with plot.style():
    fig = plot.figure(1.6, aspect=0.4)
    plot.chain(fig.add_subplot(1, 2, 1), polymer, x, tension, label="tension")
    space = fig.add_subplot(1, 2, 2, projection="3d")
    plot.chain(space, star, fx.random_walks(star, 1, rng=7)[0])
    space.set_box_aspect(None, zoom=1.3)

# %%
# arm
# ---
# `arm` draws rigid bodies in one posture.  Sticks lead from joint to joint, and from the last joint
# to the last mass centre.  The short strokes are the axes of the joints.  The right picture shows
# the plane in which the arm is largest.

snake = rigid.SerialChain.snake(12)
posture = np.tile([0.4, -0.2], 6)
with plot.style():
    fig = plot.figure(1.6, aspect=0.4)
    space = fig.add_subplot(1, 2, 1, projection="3d")
    plot.arm(space, snake, posture)
    space.view_init(elev=50, azim=-60)
    space.set_box_aspect(None, zoom=1.2)
    plot.arm(fig.add_subplot(1, 2, 2), snake, posture)

# %%
# trajectory
# ----------
# `trajectory` draws numbers against time.  For a motion of rigid bodies the default number is the
# change of the energy.  The left picture shows this change for three rods that fall from the
# horizontal. For a run of chains you give the numbers.  Each replica is a thin line, and the mean
# is a thick one.

rods = rigid.SerialChain.planar(lengths=[1, 1, 1], masses=[1, 1, 1], inertias=[1 / 12] * 3)
fall = rigid.motion.simulate(rods, np.zeros(3), 1e-3, 4000, gravity=(0, -9.81, 0), every=10)
straight = np.arange(30.0)[:, None] * [1, 0, 0]
run = fx.simulate(polymer, straight, fx.Langevin(dt=0.1), 2000, every=10, replicas=16, rng=3)
size = observables.radius_of_gyration(polymer, run.x)
with plot.style():
    fig = plot.figure(1.6, aspect=0.4)
    left, right = fig.subplots(1, 2)
    plot.trajectory(left, fall).set(xlabel="time  (s)", ylabel="change of energy  (J)")
    plot.trajectory(right, run, size).set_ylabel("radius of gyration  (bonds)")

# %%
# distribution
# ------------
# `distribution` draws one quantity in both ensembles, on common bins.  Here the quantity is the
# bend of three beads with a light bead in the middle. The dotted line is the exact rigid density.
# It is √(1 − (cos θ / 1.2)²), up to a factor.  The exact stiff density is 1/2.

trimer = fx.Chain.linear(3, masses=[1.0, 0.2, 1.0])
bends = {
    name: np.cos(observables.angles(trimer, fx.sample(trimer, 20_000, ensemble=name, rng=4).x))
    for name in ("rigid", "stiff")
}
c = np.linspace(-1, 1, 401)
exact = np.sqrt(1 - (c / 1.2) ** 2)
with plot.style():
    fig = plot.figure(1.0, aspect=0.6)
    ax = plot.distribution(fig.subplots(), **bends, label="cosine of the bend")
    ax.plot(c, exact / np.trapezoid(exact, c), "k:", linewidth=0.8)

# %%
# angle_histogram
# ---------------
# `angle_histogram` draws densities that you computed before.  Give them per radian, in a list of
# mappings from names to densities.  Each mapping is one group of data, such as one kind of
# molecule, and has at most two densities.  The first density is drawn solid, and the second dashed.
# The picture is per degree.

edges = np.linspace(0, np.pi, 37)
densities = {
    name: np.histogram(np.arccos(cosine), edges, density=True)[0] for name, cosine in bends.items()
}
with plot.style():
    fig = plot.figure(1.0, aspect=0.6)
    plot.angle_histogram(fig.subplots(), edges, [densities], "bend, 0 = straight")

# %%
# ramachandran
# ------------
# `ramachandran` draws the free energy over two torsions.  Give the torsions in radians.  The
# example is pentane with hard bonds and angles and the torsional potential of Ryckaert and
# Bellemans, at 300 K.  White bins were never visited.

pentane = fx.Chain.linear(5, hard=("length", "angle"))
torsion = RyckaertBellemans(np.array([9.28, 12.16, -13.12, -3.06, 26.24, -31.5]) / 2.494)
start = fx.random_walks(pentane, 200, rng=5)
stepper = fx.MonteCarlo(ensemble="stiff", potential=torsion)
run = fx.simulate(pentane, start, stepper, 500, every=1, rng=6)
phi, psi = np.moveaxis(observables.torsions(pentane, run.x), -1, 0)
with plot.style():
    fig = plot.figure(1.0, aspect=0.8)
    ax = plot.ramachandran(fig.subplots(), phi, psi, bins=45)
    ax.set(xlabel="first torsion  (degrees)", ylabel="second torsion  (degrees)")

# %%
# audit_histogram
# ---------------
# `audit_histogram` draws histograms of ½ ln det H^bb about its mean.  Wide histograms mean that the
# two ensembles differ much. Solid lines are samples of the rigid ensemble.  Dashed lines are these
# samples with the weights of the stiff ensemble.

halves = {}
for n in (10, 80):
    chain = fx.Chain.linear(n)
    halves[f"{n} beads"] = fx.logdet(chain, fx.sample(chain, 5000, ensemble="rigid", rng=n).x) / 2
with plot.style():
    fig = plot.figure(1.0, aspect=0.8)
    plot.audit_histogram(fig.subplots(), halves, "rigid")

# %%
# spy
# ---
# `spy` draws the blocks of H, the inverse mass matrix in soft and hard coordinates.  Here they
# belong to a planar arm of ten links.  Dark elements are large, and white elements are zero.

planar = fx.Chain.linear(10, dim=2, base="fixed")
walk = fx.random_walks(planar, 1, rng=7)[0]
with plot.style():
    fig = plot.figure(1.0, aspect=1.0)
    plot.spy(fig.subplots(), fx.Partition(planar, walk))

# %%
# timing
# ------
# `timing` draws seconds against the number of beads.  The legend shows the exponents that you give.

counts, seconds = (1000, 3000, 10_000, 30_000, 100_000), []
for n in counts:
    chain = fx.Chain.linear(n)
    ask = partial(fx.logdet, chain, fx.random_walks(chain, 1, rng=8)[0])
    seconds.append(min(timeit.repeat(ask, number=1, repeat=10)))
slope = np.polyfit(np.log(counts), np.log(seconds), 1)[0]
with plot.style():
    fig = plot.figure(1.0, aspect=0.7)
    plot.timing(fig.subplots(), {"logdet": (counts, seconds)}, {"logdet": slope})

# %%
# Where next
# ----------
# :doc:`/gallery` has the figures of the library's own experiments, with their programs.
# :doc:`/audit` and :doc:`/commands` describe ``--plot``, a flag that draws some of these pictures
# from the shell.
