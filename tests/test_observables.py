"""Observables against plain loops, closed forms and each other; errors against their frequency."""

import itertools

import numpy as np
import pytest

import fixman as fx
import oracles
from fixman import observables as ob
from fixman.potentials.energies import Bending


def walks(chain, *lead, seed=0):
    u = np.random.default_rng(seed).normal(size=(*lead, chain.n, chain.dim))
    return np.cumsum(u / np.linalg.norm(u, axis=-1, keepdims=True), axis=-2)


CHAINS = [
    fx.Chain.linear(9, dim=dim, base=base, masses=np.linspace(0.5, 2, 9))
    for dim in (2, 3)
    for base in ("free", "fixed")
]


# --- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", CHAINS, ids=repr)
def test_sizes_are_those_of_the_definitions(chain):
    x = walks(chain, 3, 2)
    R = ob.end_to_end(chain, x)
    assert R.shape == (3, 2, chain.dim)
    first = 0.0 if chain.base == "fixed" else x[..., 0, :]
    assert np.array_equal(R, x[..., -1, :] - first)
    Rg = ob.radius_of_gyration(chain, x)
    assert Rg.shape == (3, 2)
    m = chain.masses
    pairs = itertools.combinations(range(chain.n), 2)
    square = sum(m[i] * m[j] * ((x[..., i, :] - x[..., j, :]) ** 2).sum(-1) for i, j in pairs)
    assert np.allclose(Rg**2, square / m.sum() ** 2, rtol=1e-13)
    S = ob.gyration_tensor(chain, x + 100.0)
    assert np.allclose(np.trace(S, axis1=-2, axis2=-1), Rg**2, rtol=1e-9)
    assert np.allclose(S, np.swapaxes(S, -1, -2))
    assert np.linalg.eigvalsh(S).min() > -1e-10
    assert np.ndim(ob.radius_of_gyration(chain, x[0, 0])) == 0


def test_ends_are_of_linear_chains():
    star = fx.Chain.branched([-1, 0, 0, 0])
    for function in (ob.end_to_end, ob.persistence_length):
        with pytest.raises(ValueError, match="a linear chain is needed"):
            function(star, walks(star, 2))
    assert ob.radius_of_gyration(star, walks(star, 2)).shape == (2,)
    assert ob.structure_factor(star, walks(star, 2), 1.0).shape == (2, 1)


# --- angles ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("chain", CHAINS, ids=repr)
def test_bends_and_torsions_are_the_coordinates(chain):
    x = walks(chain, 4)
    spec = oracles.Spec.of(chain)
    inner = [k for k, row in enumerate(spec.rows) if min(row[1]) >= 0]
    q = oracles.internal(spec, x)
    angles = [k for k in inner if spec.rows[k][0] == "angle"]
    assert np.allclose(ob.angles(chain, x), q[:, angles], atol=1e-12)
    assert ob.angles(chain, x).shape == (4, chain.n - 2)
    assert np.allclose(ob.angles(chain, x, [(0, 4, 5)]), bend(x, 0, 4, 5), atol=1e-12)
    if chain.dim == 2:
        with pytest.raises(ValueError, match="no torsions in the plane"):
            ob.torsions(chain, x)
        return
    torsions = [k for k in inner if spec.rows[k][0] == "torsion"]
    assert np.allclose(ob.torsions(chain, x), q[:, torsions], atol=1e-12)
    named = [c for c in chain.coordinates if c.kind == "torsion" and min(c.beads) >= 0][2:4]
    assert np.array_equal(ob.torsions(chain, x, named), ob.torsions(chain, x)[:, 2:4])


def test_planar_rings_have_the_bends_all_round():
    chain = fx.Chain.ring(7, dim=2)
    angle = 2 * np.pi * np.arange(7) / 7
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    assert np.allclose(ob.angles(chain, x), np.full(7, 2 * np.pi / 7))


def bend(x, i, j, k):
    u, v = x[:, j] - x[:, i], x[:, k] - x[:, j]
    c = (u * v).sum(-1)
    if x.shape[-1] == 2:
        return np.arctan2(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0], c)[:, None]
    return np.arctan2(np.linalg.norm(np.cross(u, v), axis=-1), c)[:, None]


def test_conventions():
    chain = fx.Chain.linear(4)
    trans = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [2, 1, 0]], dtype=float)
    assert np.allclose(np.abs(ob.torsions(chain, trans)), np.pi)
    assert np.allclose(ob.angles(chain, trans), np.pi / 2)
    straight = np.arange(4)[:, None] * [1.0, 0.0, 0.0]
    assert not ob.angles(chain, straight).any()
    with pytest.raises(fx.SingularCoordinateError):
        ob.torsions(chain, straight)


def test_named_beads_are_looked_at():
    chain = fx.Chain.linear(4)
    x = walks(chain, 2)
    with pytest.raises(ValueError, match=r"angle\(2, 3, 4\) names a bead"):
        ob.angles(chain, x, [(2, 3, 4)])
    with pytest.raises(ValueError, match="4 different bead numbers"):
        ob.torsions(chain, x, [(0, 1, 2)])


# --- histograms -----------------------------------------------------------------------------------


def test_histogram_is_numpys():
    values = np.random.default_rng(0).normal(size=(50, 3, 7))
    found = ob.histogram(values, np.linspace(-1, 2, 13))
    counts, edges = np.histogram(values, np.linspace(-1, 2, 13))
    assert np.array_equal(found.edges, edges)
    assert np.allclose(found.density, counts / (values.size * np.diff(edges)), rtol=1e-13)
    whole = ob.histogram(values, 10)
    assert (whole.density * np.diff(whole.edges)).sum() == pytest.approx(1.0)
    assert whole.density[-1] > 0  # the largest value is in the last bin
    logs = np.random.default_rng(1).normal(size=(50, 3))
    weighted = ob.histogram(values, 10, log_weights=logs)
    w = np.broadcast_to(np.exp(logs)[..., None], values.shape)
    density, _ = np.histogram(values, 10, weights=w, density=True)
    assert np.allclose(weighted.density, density, rtol=1e-12)


def test_errors_of_a_histogram_are_as_frequent_as_they_say():
    """Correlated frames: the deviations over many runs have the size that each run claims."""
    rng = np.random.default_rng(2)
    z = []
    for _ in range(60):
        steps = rng.normal(size=(2000, 2, 2))
        x = np.zeros_like(steps)
        for t in range(1, len(steps)):
            x[t] = 0.8 * x[t - 1] + 0.6 * steps[t]
        found = ob.histogram(x, [-0.5, 0.5, 1.5])
        exact = [0.3829249225, 0.2417303375]
        z.append((found.density - exact) / found.error)
    assert 0.8 < np.std(z) < 1.25


def test_bad_histograms():
    with pytest.raises(ValueError, match=r"shape \(frames, \.\.\., items\)"):
        ob.histogram(np.ones(5))
    with pytest.raises(ValueError, match="finite"):
        ob.histogram(np.array([[1.0, np.nan], [0.0, 1.0]]))


# --- stiffness ------------------------------------------------------------------------------------


def freely_rotating(n, cosine, frames, seed=0, length=1.0):
    """Independent chains with one bending angle and random torsions."""
    rng = np.random.default_rng(seed)
    u = np.zeros((frames, n - 1, 3))
    u[:, 0, 0] = 1.0
    for k in range(1, n - 1):
        axis = rng.normal(size=(frames, 3))
        axis -= (axis * u[:, k - 1]).sum(-1, keepdims=True) * u[:, k - 1]
        axis /= np.linalg.norm(axis, axis=-1, keepdims=True)
        u[:, k] = cosine * u[:, k - 1] + np.sqrt(1 - cosine**2) * axis
    return np.concatenate([np.zeros((frames, 1, 3)), length * np.cumsum(u, axis=1)], axis=1)


def test_persistence_length_of_freely_rotating_chains():
    chain = fx.Chain.linear(30)
    x = freely_rotating(30, 0.9, 2000, length=0.5)
    found = ob.persistence_length(chain, x)
    exact = -0.5 / np.log(0.9)
    assert found.local == pytest.approx(exact, rel=1e-9)
    assert found.decay == pytest.approx(exact, rel=0.02)
    assert found.correlation[0] == pytest.approx(1.0)
    assert found.correlation[5] == pytest.approx(0.9**5, abs=0.01)


def test_correlations_along_the_chain_are_plain_sums():
    chain = fx.Chain.linear(8, base="fixed")
    x = walks(chain, 4, 2)
    u = np.diff(np.concatenate([np.zeros_like(x[..., :1, :]), x], axis=-2), axis=-2)
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    found = ob.persistence_length(chain, x).correlation
    for s in range(8):
        assert found[s] == pytest.approx(
            np.mean((u[..., : 8 - s, :] * u[..., s:, :]).sum(-1)), abs=1e-13
        )


def test_rods_persist_and_zigzags_do_not():
    chain = fx.Chain.linear(6)
    rod = np.arange(6)[:, None] * np.array([0.3, 0.2, -0.1])
    assert ob.persistence_length(chain, rod)[:2] == (np.inf, np.inf)
    zigzag = np.zeros((6, 3))
    zigzag[1::2, 0] = 1.0
    assert ob.persistence_length(chain, zigzag)[:2] == (0.0, 0.0)
    with pytest.raises(ValueError, match="at least two bonds"):
        ob.persistence_length(fx.Chain.linear(2), rod[:2])
    rod[3] = rod[2]
    with pytest.raises(ValueError, match="bond 2 has no direction in frame 1"):
        ob.persistence_length(chain, np.stack([zigzag, rod]))


# --- scattering -----------------------------------------------------------------------------------


def debye(x, q, dim):
    """Debye's double sum."""
    from scipy.special import j0

    r = np.linalg.norm(x[..., :, None, :] - x[..., None, :, :], axis=-1)
    kernel = (lambda z: np.sinc(z / np.pi)) if dim == 3 else j0
    return np.stack([kernel(k * r).mean((-1, -2)) * x.shape[-2] for k in q], axis=-1)


@pytest.mark.parametrize("dim", [2, 3])
def test_structure_factor_is_debyes_sum(dim):
    chain = fx.Chain.linear(12, dim=dim)
    x = walks(chain, 5, seed=3)
    q = np.array([0.0, 0.05, 0.3, 1.0, 2.0])
    found = ob.structure_factor(chain, x, q, directions=2000)
    assert np.allclose(found, debye(x, q, dim), atol=2e-3 * chain.n)
    assert np.allclose(found[:, 0], chain.n)


def test_structure_factor_at_small_q_is_the_radius_of_gyration():
    chain = fx.Chain.linear(20)
    x = walks(chain, 200, seed=4)
    q = 0.02
    slope = 3 * (1 - ob.structure_factor(chain, x, q)[:, 0].mean() / 20) / q**2
    assert slope == pytest.approx((ob.radius_of_gyration(chain, x) ** 2).mean(), rel=0.02)


def test_structure_factor_of_freely_jointed_chains():
    n = 25
    chain = fx.Chain.linear(n)
    x = walks(chain, 4000, seed=5)
    q = np.array([0.2, 0.5, 1.0, 3.0, 10.0])
    a = np.sin(q) / q
    exact = (1 + a) / (1 - a) - 2 * a * (1 - a**n) / (n * (1 - a) ** 2)
    values = ob.structure_factor(chain, x, q, directions=16)
    error = values.std(axis=0) / np.sqrt(len(x))
    assert np.all(np.abs(values.mean(axis=0) - exact) < 4 * error)


def test_structure_factor_does_not_depend_on_chunks(monkeypatch):
    chain = fx.Chain.linear(10)
    x = walks(chain, 2, 7)
    whole = ob.structure_factor(chain, x, [0.5, 1.5])
    monkeypatch.setattr(ob, "CHUNK", 1500)
    assert np.allclose(ob.structure_factor(chain, x, [0.5, 1.5]), whole, rtol=1e-13)
    correlation = ob.persistence_length(chain, x).correlation
    monkeypatch.setattr(ob, "CHUNK", 1)
    assert np.allclose(ob.persistence_length(chain, x).correlation, correlation, rtol=1e-13)
    assert ob.structure_factor(chain, x[:0], 1.0).shape == (0, 7, 1)


def test_bad_wave_numbers():
    chain = fx.Chain.linear(4)
    with pytest.raises(ValueError, match="q must be a number or a list"):
        ob.structure_factor(chain, walks(chain, 1), [[1.0]])
    with pytest.raises(ValueError, match="directions must be at least 1"):
        ob.structure_factor(chain, walks(chain, 1), 1.0, directions=0)


# --- energies -------------------------------------------------------------------------------------


def test_kinetic_energy_and_temperature():
    chain = fx.Chain.linear(5, masses=[1, 2, 3, 4, 5])
    v = np.random.default_rng(0).normal(size=(3, 2, 5, 3))
    K = sum(0.5 * m * (v[..., k, :] ** 2).sum(-1) for k, m in enumerate(chain.masses))
    assert np.allclose(ob.kinetic_energy(chain, v), K, rtol=1e-14)
    assert ob.degrees_of_freedom(chain) == 11
    assert ob.degrees_of_freedom(chain, 3) == 8
    assert np.allclose(ob.temperature(chain, v), 2 * K / 11)
    assert np.allclose(ob.temperature(chain, v, 3), 2 * K / 8)
    assert np.ndim(ob.temperature(chain, v[0, 0])) == 0


@pytest.mark.parametrize("hard", [("length",), ("length", "angle")])
@pytest.mark.parametrize("base", ["free", "fixed"])
def test_velocities_drawn_and_projected_have_the_temperature(hard, base):
    chain = fx.Chain.linear(6, base=base, hard=hard, masses=np.linspace(1, 4, 6))
    rng = np.random.default_rng(1)
    x = walks(chain, seed=2)
    v = rng.normal(size=(800, 6, 3)) * np.sqrt(0.7 / chain.masses)[:, None]
    spec = oracles.Spec.of(chain)
    B = oracles.wilson_b(spec, x, spec.hard)
    up = (B / spec.mm).T
    lost = v.reshape(800, 18) @ B.T @ np.linalg.inv(B @ up)
    projected = v - (lost @ up.T).reshape(v.shape)
    T = ob.temperature(chain, projected)
    dof = ob.degrees_of_freedom(chain)
    assert abs(T.mean() - 0.7) < 4 * 0.7 * np.sqrt(2 / dof / len(T))


def test_there_is_no_temperature_without_freedom():
    rigid = fx.Chain.linear(1, dim=2)
    with pytest.raises(ValueError, match="no degree of freedom"):
        ob.temperature(rigid, np.zeros((1, 2)), conserved=2)
    with pytest.raises(ValueError, match="conserved must be"):
        ob.degrees_of_freedom(rigid, -1)


def test_potential_energy():
    chain = fx.Chain.linear(5)
    x = walks(chain, 3)
    cosines = np.cos(ob.angles(chain, x))
    assert np.allclose(ob.potential_energy(chain, x, Bending(2.0)), (2 * (1 - cosines)).sum(-1))


# --- errors ---------------------------------------------------------------------------------------


def autoregressive(r, frames, copies, seed):
    rng = np.random.default_rng(seed)
    x = np.zeros((frames, copies))
    x[0] = rng.normal(size=copies)
    for t in range(1, frames):
        x[t] = r * x[t - 1] + np.sqrt(1 - r * r) * rng.normal(size=copies)
    return x


def test_correlation_time_of_an_autoregressive_process():
    r = 0.9
    exact = 0.5 * (1 + r) / (1 - r)
    assert ob.correlation_time(autoregressive(r, 20000, 8, 0)) == pytest.approx(exact, rel=0.1)
    white = np.random.default_rng(1).normal(size=(5000, 4))
    assert ob.correlation_time(white) == pytest.approx(0.5, rel=0.1)


def test_means_are_within_their_errors():
    z = []
    for seed in range(80):
        mean = ob.mean_with_error(autoregressive(0.9, 2000, 2, seed))
        z.append(mean.value / mean.error)
    assert 0.8 < np.std(z) < 1.25


def test_weighted_means_are_within_their_errors():
    """Weights e^(x/2) turn the unit normal into one about ½."""
    z = []
    for seed in range(80):
        x = autoregressive(0.8, 2000, 2, seed)
        mean = ob.mean_with_error(x, log_weights=0.5 * x + 700.0)
        z.append((mean.value - 0.5) / mean.error)
    assert 0.75 < np.std(z) < 1.3
    assert abs(np.mean(z)) < 0.5
    x = autoregressive(0.8, 100, 2, 0)
    assert ob.mean_with_error(x, log_weights=np.zeros_like(x)) == pytest.approx(
        ob.mean_with_error(x)
    )


def test_bad_weights():
    x = np.arange(10.0)
    with pytest.raises(ValueError, match=r"log_weights must have the series' shape \(10,\)"):
        ob.mean_with_error(x, log_weights=np.zeros(9))
    with pytest.raises(ValueError, match="below \\+inf"):
        ob.mean_with_error(x, log_weights=np.full(10, np.nan))


# --- arguments ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        ob.end_to_end,
        ob.gyration_tensor,
        ob.radius_of_gyration,
        ob.angles,
        ob.torsions,
        ob.persistence_length,
        lambda chain, x: ob.structure_factor(chain, x, 1.0),
        ob.kinetic_energy,
        ob.temperature,
    ],
)
def test_bad_configurations(function):
    chain = fx.Chain.linear(5)
    x = walks(chain, 4)
    with pytest.raises(TypeError, match=r"chain must be a fixman\.Chain"):
        function(x, chain)
    with pytest.raises(ValueError, match=r"must have shape"):
        function(chain, x[:, :4])
    x[2, 1, 0] = np.nan
    with pytest.raises(ValueError, match="nan at bead 1 in frame 2"):
        function(chain, x)


def test_public_names():
    for name in ob.__all__:
        assert getattr(ob, name).__doc__


@pytest.mark.parametrize("dim", [2, 3])
def test_no_more_is_conserved_than_there_is(dim):
    fixed = fx.Chain.linear(5, dim=dim, base="fixed")
    with pytest.raises(ValueError, match="conserved=3, but a fixed base takes up momentum"):
        ob.degrees_of_freedom(fixed, 3)
    free = fx.Chain.linear(5, dim=dim)
    most = dim * (dim + 1) // 2
    with pytest.raises(ValueError, match=f"conserved={most + 1}, but .* at most {most}"):
        ob.degrees_of_freedom(free, most + 1)
    assert ob.degrees_of_freedom(free, most) == 5 * dim - 4 - most
