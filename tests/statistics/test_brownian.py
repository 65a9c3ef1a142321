"""Overdamped dynamics samples the ensemble that it was asked for, whatever the frictions.

Errors are those between independent replicas, seeds are fixed.  All schemes are of first order in
dt, and ⟨c²⟩ is extrapolated to dt = 0 along a line.
"""

import numpy as np
import pytest

import fixman as fx
from fixman.sampling.analytic import mean_square_cosines

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:dt=.* is long:RuntimeWarning"),
]

MOBILE = (1.0, 0.2, 1.0)  # frictions of a trimer whose middle bead moves five times as easily
REPLICAS = 512


def squares(x):
    """Mean of cos² θ over the bends of chains in a line (replicas, n, d) → (replicas,)."""
    b = np.diff(x, axis=1)
    return (np.einsum("rka,rka->rk", b[:, 1:], b[:, :-1]) ** 2).mean(axis=1)


def on_base(x):
    return squares(np.concatenate([np.zeros_like(x[:, :1]), x], axis=1))


def on_hub(x):
    return squares(x[:, [1, 0, 2]])


def torsions(x):
    """Cosine of the torsion of four beads with right angles, 1 at trans."""
    u, v, w = np.moveaxis(np.diff(x, axis=1), 1, 0)
    return -(np.cross(u, v) * np.cross(v, w)).sum(axis=-1)


def sample(chain, dt, time, observable=squares, angles=None, between=0.04, **options):
    """Mean of an observable over ``time``, that of all replicas together, and its error."""
    given = {} if angles is None else {"angles": angles}
    stepper = fx.Brownian(dt, **options)
    state = stepper.start(
        chain, fx.random_walks(chain, REPLICAS, rng=1, **given), None, REPLICAS, 2
    )
    stepper.advance(chain, state, round(1.0 / dt))
    frames, total = round(time / (REPLICAS * between)), 0.0
    for _ in range(frames):
        stepper.advance(chain, state, round(between / dt))
        total = total + observable(state.x)
    means = total / frames
    return means.mean(), means.std(ddof=1) / np.sqrt(REPLICAS)


def at_zero(dts, found):
    """Extrapolate means with errors to dt = 0; also the error there."""
    means, errors = np.array(found).T
    (_, value), covariance = np.polyfit(dts, means, 1, w=1.0 / errors, cov="unscaled")
    return value, np.sqrt(covariance[1, 1])


EXACT = {
    "mobility": mean_square_cosines(2, masses=MOBILE)[0],  # 0.28990
    "stiff": 1 / 3,
    "rigid": mean_square_cosines(2)[0],  # 0.321021
}


@pytest.mark.parametrize(
    ("ensemble", "scheme"),
    [
        ("mobility", "geodesic"), ("mobility", "midpoint"),
        ("stiff", "geodesic"), ("rigid", "geodesic"),
    ],
)  # fmt: skip
def test_trimer_with_a_mobile_bead(ensemble, scheme):
    dts = 0.001, 0.002, 0.004
    chain, options = fx.Chain.linear(3), {"friction": MOBILE, "ensemble": ensemble}
    found = [sample(chain, dt, 12_000, scheme=scheme, **options) for dt in dts]
    value, error = at_zero(dts, found)
    assert error < 1.2e-3
    assert abs(value - EXACT[ensemble]) < 4 * error
    others = [exact for name, exact in EXACT.items() if name != ensemble]
    assert min(abs(value - exact) for exact in others) > 8 * error


def test_liu_is_of_first_order():
    """Off by −0.5 dt of equal beads, the most of the three."""
    dts, exact = (0.005, 0.01, 0.02), EXACT["rigid"]
    found = [sample(fx.Chain.linear(3), dt, 60_000, scheme="liu") for dt in dts]
    value, error = at_zero(dts, found)
    assert error < 6e-4
    assert abs(value - exact) < 4 * error
    means, errors = np.array(found).T
    off = exact - means
    fit = np.polyfit(np.log(dts), np.log(off), 1, w=off / errors, cov="unscaled")
    order, error = fit[0][0], np.sqrt(fit[1][0, 0])
    assert error < 0.12  # the second order is 8 σ away
    assert abs(order - 1.0) < 4 * error


@pytest.mark.parametrize(
    ("chain", "observable", "friction", "exact"),
    [
        (fx.Chain.linear(3, dim=2), squares, MOBILE, {"dim": 2, "masses": MOBILE}),
        (fx.Chain.linear(2, base="fixed"), on_base, (0.5, 2.0),
         {"base": "fixed", "masses": (0.5, 2.0)}),
        (fx.Chain.branched([-1, 0, 0]), on_hub, (0.2, 1.0, 1.0), {"masses": MOBILE}),
    ],
    ids=["plane", "fixed", "tree"],
)  # fmt: skip
def test_other_chains_of_two_bonds(chain, observable, friction, exact):
    dts = 0.002, 0.004
    value, error = at_zero(
        dts, [sample(chain, dt, 16_000, observable, friction=friction) for dt in dts]
    )
    assert error < 3e-3
    assert abs(value - mean_square_cosines(2, **exact)[0]) < 4 * error


def test_four_beads_with_right_angles():
    chain = fx.Chain.linear(4, hard=("length", "angle"))
    mean, error = sample(chain, 0.005, 20_000, torsions, np.pi / 2, 0.1)
    assert error < 4.5e-3
    assert abs(mean - 0.040038) < 4 * error


@pytest.mark.parametrize("scheme", ["geodesic", "midpoint"])
def test_dumbbell_in_extension(scheme):
    """Its flow has a potential: with unlike beads ∝ exp(½ ζ L² u·κu / kT), 1/ζ = 1/ζ₀ + 1/ζ₁."""
    rate, friction = 4.0, (0.8, 1.6)
    node, weight = np.polynomial.legendre.leggauss(30)
    reduced = friction[0] * friction[1] / sum(friction)
    weight = weight * np.exp(0.75 * rate * reduced * node**2)
    options = {"friction": friction, "scheme": scheme, "flow": fx.flows.uniaxial_extension(rate)}

    def along(x):
        return (x[:, 1, 0] - x[:, 0, 0]) ** 2

    dts = 0.002, 0.004
    found = [sample(fx.Chain.linear(2), dt, 20_000, along, **options) for dt in dts]
    value, error = at_zero(dts, found)
    assert error < 3e-3
    assert abs(value - (weight @ node**2) / weight.sum()) < 4 * error
