"""φ and ψ of alanine dipeptide, nothing else soft, against quadrature over both."""

from __future__ import annotations

import numpy as np
import pytest

import fixman as fx
from dipeptide import FIELD, TEXT
from fixman.simulation.observables import mean_with_error, torsions

CELLS, BINS = 60, 6  # of the quadrature, and of the comparison, in each direction
HOT = 2000.0  # K, so that barriers are crossed


def shares(values):
    """Bins (..., BINS²) of φ and ψ (..., 2), as ones and zeros."""
    place = np.floor((values + np.pi) / (2.0 * np.pi) * BINS).astype(int).clip(0, BINS - 1)
    return np.eye(BINS * BINS)[place[..., 0] * BINS + place[..., 1]]


def quadrature(molecule, chain, x, beads, kT):
    """Return the share of each bin in the stiff ensemble: e^(−U/kT) at fixed hard values."""
    q, middles = chain.internal(x), (np.arange(CELLS) + 0.5) * 2.0 * np.pi / CELLS - np.pi
    axes = [{four[1], four[2]} for four in beads]
    rows = [
        next(
            int(k)
            for k in chain.soft
            if chain.coordinates[k].kind == "torsion"
            and min(chain.coordinates[k].beads) >= 0
            and set(chain.coordinates[k].beads[1:3]) == axis
        )
        for axis in axes
    ]
    grid = np.stack(np.meshgrid(middles, middles, indexing="ij"), axis=-1).reshape(-1, 2)
    many = np.tile(q, (len(grid), 1))
    many[:, rows] = q[rows] + grid - torsions(chain, x, beads)
    places = chain.cartesian(many)
    found = np.angle(np.exp(1j * (torsions(chain, places, beads) - grid)))
    assert np.abs(found).max() < 1e-9
    energy = molecule.energy(places)
    weights = np.exp(-(energy - energy.min()) / kT)
    return weights @ shares(grid) / weights.sum()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:dt=.* is long")
def test_phi_and_psi_are_those_of_quadrature(peer):
    peer("openmm.app")
    from fixman.io.openmm import kT
    from fixman.io.openmm.torsional import Molecule

    molecule = Molecule(TEXT, FIELD, "Reference")
    chain, x = molecule.chain(["methyl", "peptide"]), molecule.minimized(molecule.x0)
    stepper = fx.Langevin(0.004, friction=5.0, kT=kT(HOT), potential=molecule, ensemble="stiff")
    ((_, five),) = molecule.backbone
    beads = [five[:4], five[1:]]
    exact = quadrature(molecule, chain, x, beads, kT(HOT))
    assert (exact > 0.003).sum() > 10
    run = fx.simulate(chain, x, stepper, 9_000, every=40, replicas=8, rng=5)
    found = shares(torsions(chain, run.x[len(run) // 10 :], beads))
    for k in np.flatnonzero(exact > 0.003):
        value, error = mean_with_error(found[..., k])
        assert abs(value - exact[k]) < 4.0 * error, (k, value, error, exact[k])
        assert error < 0.04
