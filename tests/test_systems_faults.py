"""Systems refuse what would give a wrong answer, and make wrapped chains whole."""

from functools import cache

import numba
import numpy as np
import pytest

import fixman as fx
from fixman.potentials import FENE, WCA, Bending, Compiled, LennardJones, Sum, bind
from fixman.simulation import observables as ob

CHAIN = fx.Chain.linear(5)
SYSTEM = fx.System([(CHAIN, 4), (fx.Chain.star(3, 2), 2)], box=(6.0, 6.5, 7.0))
SOFT = fx.System(fx.Chain.ring(8, hard=()), 3, box=8.0)


@cache
def start():
    """Return positions without overlaps; what compiles kernels does not belong to an import."""
    return fx.push_off(SYSTEM, fx.random_walks(SYSTEM, rng=1)[0], rng=1)


class Terms:
    """A potential of one's own with an attribute that a sum has too."""

    terms = ()
    shape = (SYSTEM.n, 3)

    def energy(self, x):
        return 0.5 * float(np.sum(x * x))

    def force(self, x):
        return -x if self.shape == x.shape else np.zeros(self.shape)


class Wide(Terms):
    shape = (2, SYSTEM.n, 3)


class Elsewhere(Terms):
    model = fx.System(CHAIN, 4, box=9.0)


@numba.njit
def writes_to_x(x, out):
    out[:] = -x
    x[:] = 0.0


@numba.njit
def fails(x, out):
    if x.size:
        raise IndexError("beyond")


@numba.njit
def fails_too(x):
    if x.size:
        raise IndexError("beyond")
    return 0.0


def langevin(potential, dt=0.004, kT=1.0):
    return fx.Langevin(dt, kT=kT, potential=potential)


def run(x=None, potential=None, **options):
    x = start() if x is None else x
    return fx.simulate(SYSTEM, x, langevin(potential, **options), 2, every=1, rng=1)


def wrapped():
    return np.mod(start(), SYSTEM.box)


def test_own_potentials_keep_their_forces():
    np.testing.assert_array_equal(bind(SYSTEM, Terms()).force(start()), -start())
    y = start().copy()
    np.testing.assert_array_equal(bind(SYSTEM, Compiled(writes_to_x)).force(y), -start())
    np.testing.assert_array_equal(y, start())
    nested = Sum((Sum((WCA(), Bending(2.0))), Terms()))
    np.testing.assert_allclose(
        bind(SYSTEM, nested).force(start()),
        bind(SYSTEM, WCA() + Bending(2.0)).force(start()) - start(),
        atol=1e-9,
    )


def test_no_pair_is_missed_of_chains_far_apart():
    """Separations from the first bead of a cell are kept in single precision."""
    pairs = fx.System(fx.Chain.linear(1), 100)
    for seed in (14, 15, 18):
        x = np.rint(np.random.default_rng(seed).uniform(-9e7, 9e7, (50, 3)))
        x = np.repeat(x, 2, axis=0)
        x[1::2, 0] += 1.0
        assert bind(pairs, WCA()).energy(x) == 50.0
        assert bind(pairs, WCA(skin=0.01)).energy(x) == 50.0


def test_whole():
    """Chains longer than the box come back bond by bond, from their first beads on."""
    kinds = [(fx.Chain.linear(30), 2), (fx.Chain.star(3, 9), 1)]
    system = fx.System(kinds, box=(3.0, 3.5, 2.5))
    x = fx.random_walks(system, 3, rng=2)
    number = system.molecules()
    first = np.searchsorted(number, number)
    inside = np.mod(x, system.box)
    for a, b in ((x, inside), (x[0], inside[0])):
        np.testing.assert_allclose(
            system.whole(b) - b[..., first, :], a - a[..., first, :], atol=1e-12
        )
    assert np.ptp(x[0, :30], axis=0).max() > 3.5
    np.testing.assert_array_equal(system.whole(x), x)


def test_a_start_from_whole_positions_has_the_pressure():
    bound = bind(SYSTEM, WCA())
    whole = SYSTEM.whole(wrapped())
    np.testing.assert_allclose(bound.pressure(whole, 1.0), bound.pressure(start(), 1.0), rtol=1e-9)


REFUSED = {
    "far": (ValueError, "σ from the origin", lambda: run(start() + 1e12, WCA())),
    "far without forces": (ValueError, "bonds from the origin", lambda: run(start() + 1e12)),
    "wrapped run": (fx.FrameError, r"system\.whole\(x0\)", lambda: run(wrapped(), WCA())),
    "wrapped mc": (
        fx.FrameError,
        "wrapped",
        lambda: fx.simulate(SYSTEM, wrapped(), fx.MonteCarlo(), 1),
    ),
    "wrapped start": (fx.FrameError, "wrapped", lambda: fx.push_off(SYSTEM, wrapped())),
    "wrapped bends": (
        fx.FrameError,
        "wrapped",
        lambda: bind(SYSTEM, Bending(1.0)).energy(wrapped()),
    ),
    "another system": (ValueError, "is of another system", lambda: bind(SYSTEM, Elsewhere())),
    "huge": (ValueError, "another unit", lambda: bind(fx.System(CHAIN, 2), WCA(sigma=1e20))),
    "wrapped pressure": (
        fx.FrameError,
        "wrapped",
        lambda: bind(SYSTEM, WCA()).pressure(wrapped(), 1.0),
    ),
    "scattering far": (
        ValueError,
        "x must be in a unit",
        lambda: scattering(start() * 1e307, [1.0]),
    ),
    "wide q": (ValueError, "q must be in a unit", lambda: scattering(start(), [1e300])),
    "many vectors": (MemoryError, "vectors near q = 1e", lambda: scattering(start(), [1e9])),
    "wide walks": (
        ValueError,
        "wider than 1e.08 bonds",
        lambda: fx.random_walks(fx.System(CHAIN, 2, box=1e33)),
    ),
    "shape": (ValueError, "must have shape", lambda: bind(SYSTEM, Wide()).force(start())),
    "compiled": (
        RuntimeError,
        "compiled force fails raised IndexError",
        lambda: bind(SYSTEM, Compiled(fails)).force(start()),
    ),
    "compiled energy": (
        RuntimeError,
        "compiled energy fails_too raised IndexError",
        lambda: bind(SYSTEM, Compiled(writes_to_x, fails_too)).between(
            start()[None], None, np.zeros(1)
        ),
    ),
    "g far": (
        ValueError,
        "edges of the box from the origin",
        lambda: ob.radial_distribution(SYSTEM, [start() + 1e17]),
    ),
    "thin shell": (
        ValueError,
        "edges 0 and 1e-150 have a shell",
        lambda: ob.radial_distribution(SYSTEM, [start()], [0.0, 1e-150, 1.0]),
    ),
    "hot": (fx.FrameError, "overflowed", lambda: ob.temperature(SYSTEM, start() * 1e200)),
    "no parts": (TypeError, "parts must be a list", lambda: SYSTEM.join(None)),
    "few parts": (ValueError, "2 arrays", lambda: SYSTEM.join([])),
    "other leads": (
        ValueError,
        "same leading axes",
        lambda: SYSTEM.join([SYSTEM.split(start())[0], SYSTEM.split(start()[None])[1]]),
    ),
    "cutoff": (ValueError, "cutoff must be at least", lambda: LennardJones(cutoff=1e-60)),
    "soft": (
        ValueError,
        r"potential=FENE\(\) \+ WCA\(exclude=0\)",
        lambda: fx.push_off(SOFT, fx.random_walks(SOFT, rng=1)[0]),
    ),
    "hot run": (
        fx.ConstraintSolveError,
        "v0, kT or dt is too large",
        lambda: fx.simulate(SYSTEM, start(), langevin(None), 1, v0=1e150 * start()),
    ),
}


def scattering(x, q):
    return ob.structure_factor(SYSTEM, x, q)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    kind, why, call = REFUSED[name]
    with pytest.raises(kind, match=why):
        call()


def test_soft_bonds_hold_while_beads_are_pushed_off():
    x = fx.random_walks(SOFT, lengths=0.97, rng=1)[0]
    x = fx.push_off(SOFT, x, FENE() + WCA(exclude=0), rng=1)
    i, j = SOFT.bonds().T
    assert np.linalg.norm(x[i] - x[j], axis=1).max() < 1.5


def test_a_pair_term_that_excludes_bonds_does_not_go_with_springs():
    with pytest.warns(RuntimeWarning, match="exclude=0") as caught:
        FENE() + WCA()
    assert caught[0].filename == __file__


def test_images_beyond_gsd(tmp_path, peer):
    peer("gsd.hoomd")
    from fixman.io.gsd import write_gsd

    far = fx.simulate(fx.System(CHAIN, 4, box=5.5), start()[:20], langevin(None), 2, every=1, rng=1)
    far.x[:] = far.x + 1e11
    with pytest.raises(ValueError, match="boxes from the origin"):
        write_gsd(far, tmp_path / "far.gsd")
