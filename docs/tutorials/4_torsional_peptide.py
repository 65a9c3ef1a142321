"""
A peptide that only turns
=========================

After this page you can simulate a peptide with rigid bonds and angles at a time step of 16 fs, draw
its Ramachandran map, and say how much of that map your run has seen.

A molecule moves mostly by rotation about its bonds.  Bonds and angles vibrate fast, so an ordinary
simulation needs a time step of 1 or 2 fs.  Torsional dynamics keeps bonds and angles constant.
"""

# %%
# The molecule
# ------------
# The example is alanine dipeptide in implicit solvent.  A `Molecule` is made from the text of a PDB
# file with hydrogens, and from the names of OpenMM's force fields.  The `Molecule` is the potential
# of the run.  Lengths are in nm, times are in ps, and energies are in kJ/mol.

import warnings

import numpy as np

import fixman as fx
from fixman import observables
from fixman.io.openmm import kT
from fixman.io.openmm.torsional import Molecule

PDB = """\
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
END
"""
peptide = Molecule(PDB, ("amber99sbildn.xml", "amber99_obc.xml"), "Reference")
for chain in (peptide.chain(), peptide.chain(hold=["methyl", "peptide"])):
    print(chain)
    print("bonds that turn:", chain.soft.size - 6)  # six place the whole molecule

# %%
# Bonds and angles are always hard, which means constrained.  By default every bond turns that is
# neither terminal nor in a small ring.  Seven bonds turn here.  The second chain holds methyl
# groups and peptide bonds as well, so only the torsions φ and ψ are left.  This page takes the
# second chain, because a sum over a grid of φ and ψ gives exact results to compare with.
#
# Hard coordinates keep their values from the start, so minimize the energy first.

x0 = peptide.minimized(peptide.x0)
((name, atoms),) = peptide.backbone
beads = [atoms[:4], atoms[1:]]  # of φ and of ψ
phi, psi = np.degrees(observables.torsions(chain, x0, beads))
print(f"{name} in the minimum: φ = {phi:.0f}°, ψ = {psi:.0f}°")

# %%
# The time step
# -------------
# Newton's equations conserve the energy, so the variation of the energy tells whether a time step
# is too long.  If a run starts in the minimum, half of its kinetic energy becomes potential energy.
# So these runs begin at 600 K, and are near 300 K later.  `fixman.simulate` warns of time steps
# that are long for proteins.  Here long steps are intended, so the warning is switched off.

warnings.filterwarnings("ignore", "dt=.* is long")
T = kT(300)
for dt in (0.004, 0.008, 0.016, 0.032):
    newton = fx.Newton(dt, kT=kT(600), potential=peptide)
    run = fx.simulate(chain, x0, newton, round(4.0 / dt), every=1, replicas=4, rng=1)
    energy = (peptide.energy(run.x) + observables.kinetic_energy(chain, run.v)) / T
    print(f"{1000 * dt:2.0f} fs: the energy varies by {energy.std(axis=0).mean():.4f} kT")

# %%
# The run
# -------
# Take 16 fs for these two torsions.  Proteins need 8 fs.  :doc:`/torsional` has tables for proteins
# and for all seven torsions of this peptide.  Eight replicas move in a heat bath.  In the **stiff**
# ensemble the run samples as if stiff springs stood in the place of the constraints.  The run
# records φ and ψ.  The first 10 ps are left out.

stepper = fx.Langevin(0.016, kT=T, friction=2.0, ensemble="stiff", potential=peptide)
run = fx.simulate(
    chain, x0, stepper, 7000, every=10, replicas=8, rng=4, observables=peptide.observables()
)
interval = run.times[1]
run = run[round(10.0 / interval) :]
phi, psi = (run.observables[name][..., 0] for name in ("phi", "psi"))
print(f"{phi.shape[1]} replicas of {len(run) * interval:.0f} ps, {phi.size} frames")

# %%
# The map
# -------
# If only φ and ψ are soft, the density of the stiff ensemble is proportional to exp(−U/kT).  A grid
# of energies gives this density without any dynamics.  `Chain.internal` turns positions into
# internal coordinates, and `Chain.cartesian` turns these into positions again.  The last two soft
# coordinates change φ and ψ.  The other six place the molecule as a whole.

turns = chain.soft[-2:]
edges = np.linspace(-180.0, 180.0, 61)
middles = np.radians(0.5 * (edges[1:] + edges[:-1]))
grid = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2)
q = np.tile(chain.internal(x0), (len(grid), 1))
q[:, turns] += grid - observables.torsions(chain, x0, beads)
x = chain.cartesian(q)
energy = peptide.energy(x) / T
energy -= energy.min()

with fx.plot.style():
    fig = fx.plot.figure(2.0, aspect=0.42)
    left, right = fig.subplots(1, 2)
    fx.plot.ramachandran(left, phi, psi).set_title("the run; white: never visited")
    shown = np.where(energy < 8.0, energy, np.nan).reshape(60, 60).T
    mesh = right.pcolormesh(edges, edges, shown, rasterized=True)
    fig.colorbar(mesh, ax=right, shrink=0.8, aspect=20, label="free energy  (kT)")
    right.set(aspect="equal", xlabel="φ  (degrees)", title="exact; white: above 8 kT")
    right.set(xticks=left.get_xticks(), yticks=left.get_yticks())
    for ax in (left, right):
        ax.collections[0].set_clim(0.0, 8.0)

for place in (50, 0, -80):
    column = np.abs(np.degrees(grid[:, 0]) - place) < 6
    print(f"lowest energy at φ = {place}°: {energy[column].min():.1f} kT")

# %%
# The run has found two basins: the extended one and, below it on the map, the helical one.  The
# run has never visited the basin at φ > 0.  On the map of the run this basin is white, like every
# region of high energy.  So the map alone does not tell that a basin is missing.
#
# How much has been sampled
# -------------------------
# Compute one number, the share of helical frames, and its error.  `mean_with_error` takes
# correlations between frames into account.

share = np.exp(-energy) / np.exp(-energy).sum()
helical = np.abs(np.degrees(grid[:, 1]) + 45) < 90
inside = 1.0 * (np.abs(np.degrees(psi) + 45) < 90)
mean, tau = observables.mean_with_error(inside), observables.correlation_time(inside)
print(f"helical: {mean.value:.2f} ± {mean.error:.2f}, exact {share[helical].sum():.3f}")
print(f"of each replica: {', '.join(f'{one:.2f}' for one in inside.mean(axis=0))}")
print(f"a replica is as long as {len(run) / tau:.0f} correlation times")
print(f"at φ > 0: {(phi > 0).mean():.4f}, exact {share[grid[:, 0] > 0].sum():.4f}")

with fx.plot.style():
    fig = fx.plot.figure(1.5, aspect=0.5)
    so_far = np.cumsum(inside, axis=0) / np.arange(1, len(run) + 1)[:, None]
    ax = fx.plot.trajectory(fig.subplots(), run, so_far)
    ax.axhline(share[helical].sum(), color=fx.plot.PALETTE[1], linestyle="--", label="exact")
    ax.set(xlabel="time  (ps)", ylabel="share of helical frames so far")
    ax.set_title("Eight replicas (grey) and their mean")
    ax.legend()

# %%
# If a series is shorter than some fifty correlation times, as here, the estimated error is too
# small.  For a result that you publish, take runs ten times as long.  Even such runs do not reach
# the basin at φ > 0, because the barrier before it is 20 kT high.
#
# Rigid or stiff?
# ---------------
# The grid also gives the rigid ensemble, without a run.  The density of the rigid ensemble has
# the further factor √det H^bb, where H^bb is the inverse mass matrix of the hard coordinates.

rigid = share * np.exp(0.5 * fx.logdet(chain, x))
print(f"helical, rigid ensemble: {rigid[helical].sum() / rigid.sum():.3f}")

# %%
# A run of this length cannot tell the two ensembles apart.  Rigid angles matter more than the
# ensemble.  With flexible angles the barrier at φ = 0 is 10 kT lower.  A correction by a
# determinant cannot repair this difference.
#
# Where next
# ----------
# :doc:`/torsional` runs a protein from the command line.  :doc:`/torsional_limits` lists good and
# bad uses of torsional dynamics.  :doc:`/molecules` starts from an OpenMM System of yours.
# :doc:`/audit` shows whether the ensemble matters for frames that you have.
