"""Alanine dipeptide as a PDB file, in implicit solvent that is fast, and in water."""

import io

import numpy as np

import fixman as fx

FIELD = ("amber99sbildn.xml", "amber99_obc.xml")
TEXT = """\
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


def wet_dipeptide(mm, edge, cutoff, **options):
    """Return alanine dipeptide in water, and positions near a minimum, waters in their shape."""
    pdb = mm.app.PDBFile(io.StringIO(TEXT))
    field = mm.app.ForceField("amber14-all.xml", "amber14/tip3p.xml")
    modeller = mm.app.Modeller(pdb.topology, pdb.positions)
    modeller.addSolvent(field, boxSize=mm.Vec3(edge, edge, edge))
    given = field.createSystem(
        modeller.topology, nonbondedMethod=mm.app.PME, nonbondedCutoff=cutoff,
        switchDistance=0.85 * cutoff, removeCMMotion=False, **options,
    )  # fmt: skip
    context = mm.Context(given, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("CPU"))
    context.setPositions(modeller.positions)
    mm.LocalEnergyMinimizer.minimize(context, 10.0, 100)
    context.applyConstraints(1e-9)
    return given, np.array(context.getState(positions=True).getPositions(asNumpy=True)._value)


def kinetic(system, v):
    return 0.5 * np.einsum("k,...ka,...ka->...", system.masses, v, v)


def temperatures(system, forces, run, dt):
    """Return kT of water's translation and rotation and of the peptide (frames, 3).

    Velocities are those of the middle of a step, which harmonic motion leaves at kT for any dt
    (Leimkuhler and Matthews 2013); at its ends they are low by (ω dt/2)².
    """
    x, v = run.x[:, 0], run.v[:, 0]
    parts = zip(*map(system.split, (x, v, forces.force(x))), strict=True)
    found = []
    for (chain, many), (y, w, f) in zip(system.kinds, parts, strict=True):
        push = fx.forward_dynamics(chain, y, np.zeros_like(y), force=f).acceleration
        w = w + 0.5 * dt * push
        twice = np.einsum("k,tcka,tcka->t", chain.masses, w, w)
        if chain.n == 3:
            centre = np.average(w, axis=-2, weights=chain.masses)
            moving = chain.masses.sum() * np.sum(centre**2, axis=(1, 2))
            found += [moving / (3 * many), (twice - moving) / (3 * many)]
        elif chain.n > 3:
            found.append(twice / (many * (3 * chain.n - chain.hard.size)))
    peptide, *water = found
    return np.stack([*water, peptide], axis=1)
