"""
Audit a trajectory, and correct its averages
============================================

After this page you can tell from the files of a simulation whether its constraints have changed
your averages, and by how much.  You can also correct the frames that you have.

A simulation with constraints samples the **rigid** ensemble. A real molecule has stiff springs
instead of constraints, and samples the **stiff** ensemble. The two differ by the potential
½ kT ln det H^bb, where H^bb is the inverse mass matrix of the constrained coordinates. The audit
evaluates this potential in every frame. The spread of its values, in kT, says how much the
constraints matter.
"""

# %%
# A trajectory
# ------------
# This page makes an example file.  The file has 48 chains of ten equal beads.  All bonds and all
# angles are constrained, as in torsional dynamics.  Bonds are 1.53 Å long.  Angles are tetrahedral,
# so the bends, which are counted from straight, are 70.5°.  Nothing else acts on the chains, so
# exact averages are known.

import tempfile
from pathlib import Path

import numpy as np

import fixman as fx
from fixman import analytic, observables
from fixman.analysis.audit import audit
from fixman.analysis.samples import TORSION_EDGES
from fixman.io.gsd import write_gsd
from fixman.io.mdanalysis import read_chains

bend = np.arccos(1 / 3)
chain = fx.Chain.linear(10, hard=("length", "angle"))
x0 = fx.random_walks(chain, 48, lengths=1.53, angles=bend, rng=1)
run = fx.simulate(chain, x0, fx.Langevin(dt=0.15), 30_000, every=50, rng=1)

path = Path(tempfile.mkdtemp()) / "run.gsd"
write_gsd(run[50:], path)  # without the equilibration
print(path.name, f"{path.stat().st_size / 1e6:.1f} MB")

# %%
# The audit
# ---------
# Read the file, say which coordinates were held constant, and print the report.  Give
# ``read_chains`` a topology and a trajectory, if these are two files.  ``as_is=True`` says that the
# run had these constraints.  Without this argument the audit assumes a flexible molecule.

data = read_chains(path)
report = audit(data, ("length", "angle"), as_is=True, histograms=True)
print(report)

# %%
# One command does this in a shell.  It reads the files that MDAnalysis reads::
#
#     fixman audit run.gsd --hard length,angle --as-is --plot audit.png
#
# The spread is a bound: to first order, an average moves at most by the standard deviation of the
# averaged quantity times the spread in kT.  The lines on ⟨R²⟩ and R_g say by how much two averages
# have moved.
#
# The histogram shows the spread.  Chains with a large determinant are too frequent in this run.
# Weights correct this.

(group,) = report.groups
with fx.plot.style():
    fig = fx.plot.figure(1.5, aspect=0.5)
    ax = fx.plot.audit_histogram(fig.subplots(), {group.label: group.half_logdet}, "rigid")

# %%
# If you forget ``as_is``
# -----------------------
# Without ``as_is`` the audit still sees that bonds and angles do not vary.  A note then asks
# whether bonds and angles were constrained.

for note in audit(data, ("length", "angle")).remarks:
    print(note)

# %%
# Weights
# -------
# The last line of the report is its verdict, and proposes weights. The report already uses these
# weights for the mean square of the distance between the ends. With springs this chain is a freely
# rotating chain, for which a closed form is known.

end = group.means["mean_square_end_to_end"]
exact = analytic.mean_square_end_to_end(9, cosine=np.cos(bend), length=1.53)
print("⟨R²⟩ as simulated    {:.2f} ± {:.2f} Å²".format(*end.rigid))
print("⟨R²⟩ corrected       {:.2f} ± {:.2f} Å²".format(*end.stiff))
print(f"⟨R²⟩ of springs      {exact:.2f} Å², exact")
print("the constraints add  {:.2f} ± {:.2f} Å²".format(*end.change))

# %%
# The difference has a small error, because both averages come from one set of samples.
#
# You can average an observable of your own with the same weights, e^(−h) with h = ½ ln det H^bb.
# Here it is the cosine of the torsions.  With springs its mean is 0.

x = data.groups[0].x  # (frames, chains, beads, 3)
cosine = np.cos(observables.torsions(group.chain, x)).mean(axis=-1)
plain = observables.mean_with_error(cosine)
weighted = observables.mean_with_error(cosine, log_weights=-group.half_logdet)
print("⟨cos φ⟩ as simulated {:+.4f} ± {:.4f}".format(*plain))
print("⟨cos φ⟩ corrected    {:+.4f} ± {:.4f}".format(*weighted))

# %%
# Weights also correct a whole distribution.  Constraints make torsions near a right angle too
# frequent.  With springs all torsions are equally likely, and have the density 1/360 per degree:
# the black line.

with fx.plot.style():
    fig = fx.plot.figure(1.5, aspect=0.5)
    ax, densities = fig.subplots(), group.densities("torsions")
    fx.plot.angle_histogram(ax, TORSION_EDGES, [densities], "torsion, ±180 = trans")
    ax.axhline(1 / 360, color="black", linewidth=0.8)
    ax.set_ylim(0.002, 0.0035)

# %%
# Molecules or frames
# -------------------
# Each weight above belongs to one molecule.  Such weights are right for averages over single
# molecules that do not interact.  A pair correlation or a pressure needs the weight of the whole
# frame.  This weight is a product over all molecules, and it leaves far fewer samples:

frames = np.exp(report.log_weights)
print(f"share left of the molecules: {group.share.percent}")
print(f"frames left: {frames.sum() ** 2 / np.sum(frames**2):.1f} of {len(frames)}")

# %%
# A run that needs no weights
# ---------------------------
# You can also make a new run with Fixman's potential, ½ kT ln det H^bb.  A stepper adds this
# potential if you ask for the stiff ensemble.  Averages of this run need no weights.

stiff = fx.simulate(chain, x0, fx.Langevin(dt=0.15, ensemble="stiff"), 30_000, every=50, rng=2)
square = (observables.end_to_end(chain, stiff.x[50:]) ** 2).sum(axis=-1)
print("⟨R²⟩ with the potential {:.2f} ± {:.2f} Å²".format(*observables.mean_with_error(square)))

# %%
# Where next
# ----------
# :doc:`/audit` explains the command, and :doc:`/audit_examples` has proteins and melts.
# :doc:`/metric` explains weights for arrays.  :doc:`3_correct_an_openmm_run` adds the potential to
# a simulation with OpenMM.
