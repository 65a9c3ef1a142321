"""Bonds that close rings belong to a chain, whether they are hard or soft."""

import pickle

import numpy as np
import pytest

import fixman as fx
from fixman.potentials import FENE, WCA, Bending, bind

RING, SOFT = fx.Chain.ring(7), fx.Chain.ring(7, hard=())


def test_a_soft_ring_is_no_linear_chain():
    assert SOFT.closing == ((0, 6),)
    assert RING.closing == ()
    assert fx.Chain.linear(7, hard=()) != SOFT
    assert fx.Chain.from_json(SOFT.to_json()) == SOFT == pickle.loads(pickle.dumps(SOFT))
    assert "closing" not in RING.to_json()
    assert fx.System(SOFT, 2).bonds().tolist() == fx.System(RING, 2).bonds().tolist()
    lasso = fx.Chain.from_bonds(5, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)], hard=())
    assert len(lasso.closing) == 1
    with pytest.raises(ValueError, match="linear chain is needed"):
        fx.observables.end_to_end(SOFT, np.zeros((7, 3)))


def test_potentials_know_the_bond_that_closes_a_soft_ring():
    x = fx.random_walks(SOFT, 3, lengths=0.97, rng=1)
    assert np.allclose(np.linalg.norm(x - np.roll(x, 1, axis=1), axis=-1), 0.97)
    bond = -0.5 * 30.0 * 1.5**2 * np.log(1.0 - 0.97**2 / 1.5**2)
    assert np.allclose(bind(SOFT, FENE()).energy(x), 7 * bond)
    for potential in (WCA(), WCA(exclude=2), Bending(2.0)):  # as in the ring of hard bonds
        both = [bind(ring, potential).energy(x) for ring in (SOFT, RING)]
        assert np.array_equal(*both)


@pytest.mark.thorough
def test_a_soft_ring_stays_closed():
    potential = FENE() + WCA(exclude=0)
    x0 = fx.push_off(RING, fx.random_walks(RING, lengths=0.97, rng=2)[0], WCA(), rng=2)
    run = fx.simulate(SOFT, x0, fx.Langevin(0.004, potential=potential), 300, every=100, rng=3)
    bonds = np.linalg.norm(run.x - np.roll(run.x, 1, axis=2), axis=-1)
    assert bonds.max() < 1.5
