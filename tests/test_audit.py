from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter

import fixman as fx
from fixman._common.statistics import standard_error
from fixman.analysis import audit as auditing
from fixman.analysis.audit import AuditReport, GroupReport, audit
from fixman.analysis.averages import EnsembleMean, distinct, share_left, with_error
from fixman.analysis.groups import ChainData, ChainGroup, Molecules
from fixman.analysis.samples import ANGLE_EDGES, TORSION_EDGES, Meter
from fixman.chains.chain import Chain
from fixman.chains.topology import sum_outwards

ALL = ("length", "angle", "torsion")


def walk(rng, frames=6, chains=4, n=7, scatter=0.05):
    """Flexible chains: bonds 1.5 and bends 1.2 up to a scatter, torsions anywhere."""
    chain = Chain.linear(n, hard=())
    kinds = [c.kind for c in chain.coordinates]
    q = rng.uniform(-3.0, 3.0, (frames, chains, len(kinds)))
    for kind, mean in (("length", 1.5), ("angle", 1.2)):
        rows = np.array([k == kind for k in kinds])
        q[..., rows] = mean + scatter * rng.uniform(-1, 1, (frames, chains, rows.sum()))
    return chain.cartesian(q)


def group(x, masses=None):
    _frames, chains, n, _ = x.shape
    masses = np.ones(n) if masses is None else np.asarray(masses, dtype=float)
    return ChainGroup(masses, np.arange(chains * n).reshape(chains, n), x)


def means_of(meter, x):
    return meter.means(meter.sums(x), x.shape[0] * x.shape[1])


def report_of(half):
    return GroupReport(Chain.linear(3), np.asarray(half, dtype=float))


def bends(x):
    u = np.diff(x, axis=-2)
    u /= np.linalg.norm(u, axis=-1, keepdims=True)
    return np.sum(u[..., 1:, :] * u[..., :-1, :], axis=-1)


def test_trimer_is_half_log_of_4_minus_cos_squared(rng):
    x = walk(rng, frames=5, chains=6, n=3, scatter=0.2)
    expected = 0.5 * np.log(4.0 - bends(x)[..., 0] ** 2)
    for as_is in (False, True):
        (one,) = audit([group(x)], as_is=as_is).groups
        np.testing.assert_allclose(one.half_logdet, expected, rtol=0, atol=1e-13)
    assert one.samples == 30
    assert one.spread == pytest.approx(np.std(expected), rel=1e-12)
    assert one.range == pytest.approx(expected.max() - expected.min(), rel=1e-12)


def test_trimer_of_unequal_masses(rng):
    masses = np.array([1.0, 2.0, 5.0])
    w1, w2, w3 = 1.0 / masses
    x = walk(rng, n=3)
    expected = 0.5 * np.log((w1 + w2) * (w2 + w3) - (w2 * bends(x)[..., 0]) ** 2)
    (one,) = audit([group(x, masses)]).groups
    np.testing.assert_allclose(one.half_logdet, expected, rtol=0, atol=1e-13)


def test_hard_coordinates_get_their_pooled_means_and_soft_ones_stay(rng):
    x = walk(rng)
    for hard in (("length",), ("length", "angle"), ("angle",), ALL):
        meter = Meter(group(x), hard)
        chain = meter.chain
        before = chain.internal(x)
        kinds = np.array([c.kind for c in chain.coordinates])[chain.hard]
        means, deviations = means_of(meter, x)
        turning = meter.scatter(means, deviations).turning
        expected = before[..., chain.hard].mean(axis=(0, 1))
        np.testing.assert_allclose(
            means[kinds != "torsion"], expected[kinds != "torsion"], rtol=1e-13
        )
        spread = before[..., chain.hard].std(axis=(0, 1))
        np.testing.assert_allclose(
            deviations[kinds != "torsion"], spread[kinds != "torsion"], rtol=1e-10
        )
        assert (turning > 0) == ("torsion" in hard)
        after = chain.internal(meter.hard.set(x, means))
        assert np.max(np.abs(after[..., chain.hard] - means)) < 1e-12
        soft = np.setdiff1d(np.arange(len(chain.coordinates)), chain.hard)
        turn = np.angle(np.exp(1j * (after - before)))[..., soft]
        assert np.max(np.abs(turn)) < 1e-11


def test_torsion_means_are_circular(rng):
    x = walk(rng, 1, 1, 4)
    meter = Meter(group(x), ("torsion",))
    (row,) = meter.chain.hard
    q = np.tile(meter.chain.internal(x), (20, 2, 1))
    q[..., row] = 3.1, -3.1
    means, deviations = means_of(meter, meter.chain.cartesian(q))
    assert abs(abs(means[0]) - np.pi) < 1e-12
    assert deviations[0] == pytest.approx(np.sqrt(-2 * np.log(np.cos(np.pi - 3.1))))
    assert meter.scatter(means, deviations).turning == 0


def test_scattered_torsions_are_noted(rng):
    x = walk(rng, frames=30)
    report = audit([group(x)], ALL)
    assert report.groups[0].scatter.turning == 4
    assert report.verdict.startswith("nothing can vary: every internal coordinate of a chain of 7 ")
    assert "; but 4 hard torsions are scattered over the circle: " in report.verdict
    assert "pieces" not in report.verdict
    torsions = audit([group(x), group(walk(rng, frames=30, n=9))], ("torsion",))
    assert ", of 2 kinds of molecules)" in torsions.verdict
    assert torsions.verdict.count("; but 10 hard torsions are scattered") == 1
    assert "scattered" not in audit([group(x)], ALL, as_is=True).verdict


@pytest.mark.parametrize("as_is", [False, True])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), ("angle",), ALL])
def test_units_drop_out(rng, hard, as_is):
    x, masses = walk(rng), rng.uniform(0.5, 20.0, 7)
    (one,) = audit([group(x, masses)], hard, as_is=as_is).groups
    (other,) = audit([group(0.37 * x, 1e-3 * masses)], hard, as_is=as_is).groups
    for name in ("spread", "range"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-11), name
    assert one.share.value == pytest.approx(other.share.value, rel=1e-9)
    assert abs(np.mean(one.half_logdet - other.half_logdet)) > 1.0


def test_effective_fraction_against_plain_weights(rng):
    half = 500.0 + rng.normal(size=(25, 4))
    weights = np.exp(-(half - half.mean()))
    rigid = replace(report_of(half), ensemble="rigid")
    kish = weights.sum() ** 2 / (weights**2).sum() / 100
    assert rigid.share.value == pytest.approx(kish, rel=1e-12)
    stiff = 1.0 / (weights.mean() * (1.0 / weights).mean())
    assert report_of(half).share.value == pytest.approx(stiff, rel=1e-12)
    for ensemble in ("stiff", "rigid"):
        still = replace(report_of(np.zeros((3, 9))), ensemble=ensemble)
        assert still.share.value == pytest.approx(1.0, rel=1e-14)
    far = report_of([[0.0, 3000.0]])
    assert far.share.value == 0.0  # 4 e⁻³⁰⁰⁰
    assert replace(far, ensemble="rigid").share.value == pytest.approx(0.5)


def test_the_share_of_stiff_samples_is_that_of_rigid_ones():
    """Ten beads, bonds and bends of 1.2 rad hard; rigid samples by rejection of stiff ones."""
    rng = np.random.default_rng(5)
    chain = Chain.linear(10, hard=("length", "angle"))
    q = np.zeros((60_000, 1, 30))
    for k, row in enumerate(chain.coordinates):
        q[..., k] = {"length": 1.0, "angle": 1.2}.get(row.kind, 0.3)
        if row.kind == "torsion":
            q[..., k] = rng.uniform(-np.pi, np.pi, q.shape[:2])  # stiff: √det G is constant
    half = 0.5 * fx.logdet(chain, chain.cartesian(q))
    half -= half.max()
    kept = half[rng.uniform(size=half.shape) < np.exp(half)][:, None]
    stiff, rigid = share_left(half, "stiff"), share_left(kept, "rigid")
    assert stiff.enough
    assert rigid.enough
    assert 0.7 < rigid.value < 0.97
    assert stiff.error < 0.01
    assert abs(stiff.value - rigid.value) < 4.0 * np.hypot(stiff.error, rigid.error)
    plain = share_left(half, "rigid")  # the wrong formula for them
    assert abs(plain.value - rigid.value) > 4.0 * np.hypot(plain.error, rigid.error)


def test_the_error_of_a_share_is_its_scatter():
    rng = np.random.default_rng(6)
    for ensemble, expected in (("stiff", np.exp(-0.25)), ("rigid", np.exp(-0.25))):
        found = [share_left(rng.normal(0.0, 0.5, (400, 1)), ensemble) for _ in range(200)]
        values, errors, _ = np.array(found).T
        assert np.mean(values) == pytest.approx(expected, abs=4 * np.std(values) / np.sqrt(200))
        assert np.median(errors) == pytest.approx(np.std(values), rel=0.25)


def test_a_share_that_few_samples_decide_has_no_error():
    half = np.random.default_rng(7).normal(size=(97, 1))
    told = share_left(half, "stiff")
    assert told.enough
    assert re.fullmatch(r"0\.\d+ ± 0\.\d+", str(told))
    assert re.fullmatch(r"\d\d ± \d+ %", told.percent)
    one = share_left(np.append(half, -12.0)[:, None], "stiff")
    assert not one.enough
    assert str(one).startswith("about 0.0")
    assert one.percent == "less than 1 %"
    report = report_of(np.append(half, -5.0)[:, None])
    assert re.search(r"which leave about \d+ % of its samples", report.verdict)
    assert report.as_dict()["effective_fraction_error"] is None


def test_what_is_left_of_frames_is_the_product_over_their_molecules():
    half = np.random.default_rng(8).normal(scale=0.5, size=(20_000, 6))

    def verdict(half):
        return AuditReport(("length",), False, (report_of(half),)).verdict

    told = re.search(r"over its 6 molecules, and leaves ([\d.]+) % of the frames", verdict(half))
    weights = np.exp(-half.sum(axis=1))  # stiff samples: the share of rigid ones is 1/(⟨1/w⟩⟨w⟩)
    left = 1.0 / (np.mean(weights) * np.mean(1.0 / weights))
    assert float(told[1]) / 100.0 == pytest.approx(left, rel=0.1)
    assert "of the frames" not in verdict(half[:, :1])
    assert "leaves next to none of the frames" in verdict(np.tile(half[:2000], 10))


def test_frames_and_chains_are_one_pool(rng):
    x = walk(rng, frames=6, chains=4)
    (one,) = audit([group(x)], ("length", "angle")).groups
    (flat,) = audit([group(x.reshape(24, 1, 7, 3))], ("length", "angle")).groups
    np.testing.assert_allclose(one.half_logdet.ravel(), flat.half_logdet.ravel(), atol=1e-12)


def test_blocks_change_nothing(rng, monkeypatch):
    x = walk(rng, frames=11, chains=3)
    (whole,) = audit([group(x)], ("length", "angle")).groups
    monkeypatch.setattr(auditing, "BLOCK", 4 * 21)
    (split,) = audit([group(x)], ("length", "angle")).groups
    np.testing.assert_allclose(whole.half_logdet, split.half_logdet, rtol=0, atol=1e-12)


def test_rigid_motions_change_nothing(rng):
    x = walk(rng)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    for hard in (("length",), ("length", "angle")):
        (one,) = audit([group(x)], hard).groups
        (other,) = audit([group(x @ turn.T + 5.0)], hard).groups
        np.testing.assert_allclose(one.half_logdet, other.half_logdet, rtol=0, atol=1e-11)


def test_straight_chains_with_hard_lengths():
    x = np.zeros((1, 1, 5, 3))
    x[..., 0] = np.arange(5.0)
    (one,) = audit([group(x)]).groups
    assert one.half_logdet[0, 0] == pytest.approx(0.5 * np.log(5.0), rel=1e-13)


def test_first_bond_along_x_is_no_obstacle(rng):
    x = walk(rng, frames=1, chains=1, n=5)
    x[..., 1, :] = x[..., 0, :] + [1.5, 0.0, 0.0]
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    (one,) = audit([group(x)], ("length", "angle")).groups
    (other,) = audit([group(x @ turn.T)], ("length", "angle")).groups
    assert one.half_logdet[0, 0] == pytest.approx(other.half_logdet[0, 0], abs=1e-11)


def test_straight_angles_are_named_with_their_frame(rng, monkeypatch):
    monkeypatch.setattr(auditing, "BLOCK", 2 * 28)
    x = walk(rng)
    x[5, 2, 2] = 2 * x[5, 2, 1] - x[5, 2, 0]
    data = ChainData((group(x),), np.arange(40, 100, 10), np.zeros(6))
    for as_is in (False, True):
        for given, frame in (([group(x)], 5), (data, 90)):
            with pytest.raises(
                ValueError, match=rf"\(0, 1, 2.* in frame {frame}, chain 2: .* line"
            ):
                audit(given, ("length", "angle"), as_is=as_is)


def test_groups_are_not_pooled_and_the_worst_speaks(rng):
    short, long = walk(rng, frames=30, n=2), walk(rng, frames=30, n=40, scatter=0.5)
    report = audit([group(short), group(long)])
    quiet, loud = report.groups
    assert quiet.spread < 1e-12
    assert quiet.verdict.startswith("nothing can vary: ")
    only = "(4 chains of 40 beads, of 2 kinds of molecules)"
    assert report.verdict.startswith(f"{loud.verdict} {only}. Each molecule is a sample")
    assert str(report).count("nothing can vary: ") == 1
    assert "half_logdet" not in repr(report)


@pytest.mark.parametrize(
    ("n", "hard", "constant"),
    [
        (2, ("length",), True),
        (3, ("length",), False),
        (3, ("angle",), False),  # the lengths are soft
        (3, ("length", "angle"), True),
        (4, ("length", "angle"), False),
        (4, ALL, True),
        (4, ("angle", "torsion"), False),
    ],
)
def test_where_nothing_can_vary_the_verdict_says_so(rng, n, hard, constant):
    report = audit([group(walk(rng, frames=2, chains=1, n=n, scatter=0.2))], hard)
    (one,) = report.groups
    assert one.constant == constant
    assert (one.spread < 1e-12) == constant
    assert report.verdict.startswith("nothing can vary" if constant else "cannot tell")
    assert ("fell into pieces" in report.verdict) == (constant and n < 4)


def test_constant_groups_do_not_hide_what_cannot_be_told(rng):
    pair, few = (audit([group(walk(rng, 2, 1, n, 0.5))]).groups[0] for n in (2, 9))
    assert AuditReport(("length",), False, (pair, pair)).verdict.startswith("nothing can vary")
    assert AuditReport(("length",), False, (pair, few)).verdict == (
        "cannot tell: 2 samples, 2 of them distinct: 20 or more are needed, other than repeated "
        "frames or copies of a chain (1 chain of 9 beads, of 2 kinds of molecules)"
    )


def autoregression(rng, runs, frames, memory, spread):
    noise = rng.normal(size=(runs, frames))
    noise[:, 0] /= np.sqrt(1.0 - memory**2)
    scale = spread * np.sqrt(1.0 - memory**2)
    return scale * lfilter([1.0], [1.0, -memory], noise, axis=1)


@pytest.mark.parametrize(("frames", "within"), [(300, 0.1), (2000, 0.05)])
@pytest.mark.parametrize(("ensemble", "tilts"), [("stiff", (1, -1)), ("rigid", (-1, -2))])
def test_errors_under_correlation_are_the_exact_ones(frames, within, ensemble, tilts):
    """Autoregressions of memory 0.9: cov(e^{ah}, e^{bh'}) = (e^{ab σ²ρ} − 1) e^{(a² + b²)σ²/2}."""
    spread, memory = 0.2, 0.9
    runs = autoregression(np.random.default_rng(11), 400, frames, memory, spread)
    lags = np.arange(1 - frames, frames)
    rho, share = memory ** np.abs(lags), (1.0 - np.abs(lags) / frames) / frames
    powers = (-1, -1) if ensemble == "stiff" else (2, -1)
    variance = sum(
        p * q * share @ np.expm1(a * b * spread**2 * rho)
        for a, p in zip(tilts, powers, strict=True)
        for b, q in zip(tilts, powers, strict=True)
    )
    found = [share_left(run[:, None], ensemble) for run in runs]
    exact = np.exp(-(spread**2)) * np.sqrt(variance)
    assert np.mean([each.error for each in found]) == pytest.approx(exact, rel=within)
    exact = spread * np.sqrt(0.5 * share @ rho**2)
    errors = [report_of(run[:, None]).spread_error for run in runs]
    assert np.mean(errors) == pytest.approx(exact, rel=within)
    if frames == 2000:
        assert np.std([run.std() for run in runs]) == pytest.approx(exact, rel=0.15)


def test_chains_without_hard_coordinates(rng):
    dimers, longer = group(walk(rng, n=2)), group(walk(rng))
    report = audit([dimers, longer], ("angle",))
    assert len(report.groups) == 1
    assert report.notes == ("skipped 4 chains of 2 beads: too short for angle",)
    with pytest.raises(ValueError, match="no chain has a hard coordinate among angle"):
        audit([dimers], ("angle",))


def test_unknown_kind(rng):
    with pytest.raises(ValueError, match="bend"):
        audit([group(walk(rng))], ("bend",))


@pytest.mark.parametrize(
    ("spread", "samples", "words"),
    [
        (0.05, 20, "negligible: no average moves by more than about 0.05 of its own"),
        (1e-5, 20, "negligible: no average moves by more than 0.001 of its own"),
        (5.0, 19, "cannot tell: 19 samples, 19 of them distinct: 20 or more are needed"),
        (
            0.3,
            40,
            "noticeable, 0.3 kT between rigid and stiff. A flexible run needs no correction. ",
        ),
        (
            2.0,
            40,
            "large, 2 kT between rigid and stiff. A flexible run needs no correction. ",
        ),
    ],
)
def test_verdicts(spread, samples, words):
    half = standard(samples)[:, None]
    report = replace(report_of(spread * half), sizes={"square_gyration": 5.0 + half})
    assert report.verdict.startswith(words)


def standard(samples):
    """Values of variance 1 about 0, all different, in no order."""
    values = np.random.default_rng(4).permutation(np.linspace(-1.0, 1.0, samples))
    return values / np.std(values)


def test_overall_verdict_does_not_hide_what_cannot_be_told():
    few, still = report_of([[9.0], [0.0]]), report_of(0.05 * standard(30)[:, None])
    wild = 2.0 * standard(60).reshape(30, 2)
    assert AuditReport(("length",), False, (few, still)).verdict == (
        "cannot tell: 2 samples, 2 of them distinct: 20 or more are needed, other than repeated "
        "frames or copies of a chain (1 chain of 3 beads, of 2 kinds of molecules)"
    )
    assert AuditReport(("length",), False, (few, report_of(wild))).verdict.startswith("large, 2 kT")
    assert AuditReport(("length",), False, (few, replace(few))).verdict.endswith(
        "copies of a chain (1 chain of 3 beads, of 2 kinds of molecules)"
    )


def test_report_as_dict_is_json_without_nan(rng):
    report = audit([group(walk(rng, frames=1, chains=1))], ("length", "angle"), notes=["read"])
    document = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert document["hard"] == ["length", "angle"]
    assert document["notes"] == ["read"]
    (one,) = document["groups"]
    assert (one["frames"], one["chains"], one["beads"], one["hard_rows"]) == (1, 1, 7, 11)
    for name in ("spread_kT", "range_kT", "effective_fraction"):
        assert one[name] is None
    assert one["means"]["radius_of_gyration"] == {
        "stiff": None,
        "rigid": None,
        "change": None,
        "effective_size": 1.0,
    }
    assert document["samples_taken_as"] == "stiff"
    assert str(report).count("n/a\n") == 3
    assert str(report).count("n/a: only 1 independent sample\n") == 2
    assert str(report).splitlines()[1] == "assumed ensemble: stiff, of flexible molecules"
    assert document["verdict"].startswith("cannot tell")


@pytest.fixture
def rng():
    return np.random.default_rng(12345)


@pytest.mark.parametrize(
    ("x", "what"),
    [
        (np.zeros((0, 2, 3, 3)), "at least one of each"),
        (np.zeros((2, 0, 3, 3)), "at least one of each"),
        (np.zeros((2, 3, 3)), "at least one of each"),
        (np.zeros((2, 2, 4, 3)), r"must have shape \(\.\.\., 3, 3\)"),
        (np.full((2, 2, 3, 3), np.nan), r"nan at bead 0 in frame 0, chain 0"),
        (np.zeros((2, 2, 3, 3)), "bead 0 and bead 1 of group 0 in frame 0, chain 0"),
    ],
)
def test_samples_that_mean_nothing_are_refused(x, what):
    group = ChainGroup(masses=np.ones(3), atoms=np.zeros((1, 3), dtype=int), x=x)
    with pytest.raises(ValueError, match=what):
        audit([group])


def test_lists_and_integers_are_samples_too():
    x = [[[[0, 0, 0], [1, 0, 0], [1, 1, 0]]]]
    report = audit([ChainGroup(masses=np.ones(3), atoms=np.zeros((1, 3), dtype=int), x=x)])
    assert report.groups[0].half_logdet[0, 0] == pytest.approx(0.5 * np.log(4))


@pytest.mark.parametrize(
    ("hard", "words"),
    [
        ((), "must be words, got"),
        (np.ones(6, dtype=bool), "must be words, got"),
        ("h-bnds", r"'h-bnds' \(did you mean h-bonds\?\): choose one or more of length, angle, "),
        (("length", "Bndos"), r"'Bndos' \(did you mean bonds\?\).* torsional, h-bonds, h-angles"),
        (("xyz",), "'xyz': choose"),
        (("torsional", "length"), "'torsional' stands alone"),
    ],
)
def test_hard_must_be_kinds(hard, words):
    with pytest.raises(ValueError, match=words):
        audit([], hard)


# --- trees and rings ----------------------------------------------------------------------------

# A comb with two teeth on one bead, and a lasso: a ring of five with a tail.
TREE = np.array([(0, 1), (1, 2), (2, 3), (1, 4), (2, 5), (2, 6), (6, 7)])
LASSO = np.array([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (2, 5), (5, 6)])


def molecules_at_random(rng, bonds, frames=5, chains=3, scatter=0.1):
    """Molecules whose bonds are 1.5 up to a scatter, and their group."""
    n = int(bonds.max()) + 1
    free = Chain.from_bonds(n, bonds)
    x = 1.5 * rng.normal(size=(frames, chains, n, 3))
    targets = 1.5 + scatter * rng.uniform(-1, 1, (frames, chains, len(free.hard)))
    x = fx.project(free, x, targets)
    masses = rng.uniform(1.0, 15.0, n)
    return ChainGroup(masses, np.arange(chains * n).reshape(chains, n), x, bonds=bonds)


def dense_half_logdet(chain, x):
    """½ ln det of B_b M⁻¹ B_bᵀ, dense."""
    rows = fx.wilson_b(chain, x).toarray()[chain.hard]
    return 0.5 * np.linalg.slogdet(rows / np.repeat(chain.masses, 3) @ rows.T)[1]


@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), "torsional"])
@pytest.mark.parametrize("bonds", [TREE, LASSO], ids=["tree", "lasso"])
def test_trees_and_rings_against_dense(rng, bonds, hard):
    one = molecules_at_random(rng, bonds)
    for as_is in (True, False):
        if not as_is and bonds is LASSO and hard == ("length", "angle"):
            continue  # the means of a floppy ring's angles do not fit together
        report = audit([one], hard, as_is=as_is)
        meter = Meter(one, hard)
        x = one.x if as_is else meter.hard.set(one.x, means_of(meter, one.x)[0])
        expected = [[dense_half_logdet(meter.chain, chain) for chain in frame] for frame in x]
        np.testing.assert_allclose(report.groups[0].half_logdet, expected, rtol=1e-9)
        if not as_is:
            held = meter.chain.hard_values(x)
            np.testing.assert_allclose(held, np.broadcast_to(held[0, 0], held.shape), atol=1e-9)


def test_bonds_of_a_tree_keep_their_directions(rng):
    one = molecules_at_random(rng, TREE)
    meter = Meter(one, ("length",))
    values = rng.uniform(1.0, 2.0, len(meter.chain.hard))
    x = meter.hard.set(one.x, values)
    parents, _ = one.tree
    outer = np.flatnonzero(parents >= 0)
    before, after = (y[..., outer, :] - y[..., parents[outer], :] for y in (one.x, x))
    lengths = np.linalg.norm(after, axis=-1)
    np.testing.assert_allclose(lengths, np.broadcast_to(values, lengths.shape), rtol=1e-13)
    np.testing.assert_allclose(
        after / lengths[..., None], before / np.linalg.norm(before, axis=-1)[..., None], atol=1e-13
    )
    np.testing.assert_array_equal(x[..., 0, :], one.x[..., 0, :])


def test_rings_that_the_means_cannot_close_say_what_to_do(rng):
    one = molecules_at_random(rng, np.array([(0, 1), (1, 2), (0, 2)]), scatter=0.0)
    stretched = np.array([1.0, 1.0, 2.5])
    words = r'be met in frame \(0, 0\): .*, hard="torsional", or hold fewer kinds$'
    with pytest.raises(fx.ConstraintSolveError, match=words):
        Meter(one, ("length",)).hard.set(one.x, stretched)


def test_a_linear_chain_described_by_its_bonds_is_the_same_chain(rng):
    x, masses = walk(rng), rng.uniform(1.0, 5.0, 7)
    bonds = np.stack([np.arange(6), np.arange(1, 7)], axis=1)
    for hard in (("length",), ("length", "angle"), ALL):
        plain = audit([group(x, masses)], hard).groups[0]
        named = ChainGroup(masses, np.arange(28).reshape(4, 7), x, bonds=bonds)
        by_bonds = audit([named], hard).groups[0]
        np.testing.assert_allclose(plain.half_logdet, by_bonds.half_logdet, rtol=0, atol=1e-11)
        assert "mean_square_end_to_end" not in by_bonds.means


def test_labels_tell_chains_trees_and_rings():
    def label(bonds, n=None):
        n = n or int(np.max(bonds)) + 1
        return Molecules(np.ones(n), np.zeros((2, n), dtype=int), bonds=bonds).label()

    assert label(None, 5) == "2 chains of 5 beads"
    assert label(TREE) == "2 branched chains of 8 beads"
    assert label(LASSO) == "2 branched chains of 7 beads and 1 ring"
    assert label(LASSO[:5]) == "2 rings of 5 beads"


def test_dependent_rows_are_left_out_and_noted(rng):
    benzene = np.array([(k, (k + 1) % 6) for k in range(6)] + [(k, k + 6) for k in range(6)])
    angle = np.arange(6) * np.pi / 3
    inner = 1.4 * np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    x = np.concatenate([inner, inner * (1.4 + 1.1) / 1.4])
    x = x + 0.02 * rng.normal(size=(30, 2, 12, 3))
    masses = np.repeat([12.0, 1.0], 6)
    atoms = np.arange(100, 124).reshape(2, 12)
    report = audit([ChainGroup(masses, atoms, x, bonds=benzene)], "torsional")
    assert report.hard == ("torsional",)
    assert report.notes == (
        "2 branched chains of 12 beads and 1 ring: left out 3 hard rows that follow from the "
        "others, the first is length(103, 104)",
    )
    assert report.verdict.startswith("nothing can vary")
    assert report.groups[0].spread < 1e-9


def test_hydrogens_by_mass_or_mask(rng):
    bonds = np.array([(0, 1), (0, 2), (0, 3), (0, 4)])
    one = molecules_at_random(rng, bonds)
    methane = ChainGroup(np.array([12.0, 1, 1, 1, 1]), one.atoms, one.x, bonds=bonds)
    assert len(audit([methane], "h-bonds").groups[0].chain.hard) == 4
    heavy = np.array([12.0, 3.0, 3.0, 12.0, 12.0])
    mask = np.array([False, True, True, False, False])
    marked = ChainGroup(heavy, one.atoms, one.x, bonds=bonds, hydrogens=mask)
    assert len(audit([marked], "h-bonds").groups[0].chain.hard) == 2
    bare = ChainGroup(heavy, one.atoms, one.x, bonds=bonds)
    with pytest.raises(ValueError, match=r"mass of 3: is it a hydrogen\? .* hydrogens="):
        audit([bare], "h-bonds")
    bare = ChainGroup(np.full(5, 12.0), one.atoms, one.x, bonds=bonds)
    with pytest.raises(ValueError, match="no chain has a hard coordinate among h-bonds"):
        audit([bare], "h-bonds")
    assert len(audit([bare], "h-angles").groups[0].chain.hard) == 4
    both = audit([bare, methane], "h-bonds")
    assert both.notes == ("skipped 3 branched chains of 5 beads: no hydrogen",)
    grams = ChainGroup(1e-3 * heavy, one.atoms, one.x, bonds=bonds)
    with pytest.raises(ValueError, match=r"3 branched chains of 5 beads are below 1\.2.* in amu"):
        audit([grams], "h-bonds")


def test_coincident_beads_of_a_tree_are_named(rng):
    one = molecules_at_random(rng, TREE)
    one.x[2, 1, 6] = one.x[2, 1, 2]
    with pytest.raises(ValueError, match="bead 2 and bead 6 of group 0 in frame 2, chain 1 coin"):
        audit([one])


def test_sums_outwards_by_doubling(rng):
    parents = np.array([-1, 0, 1, 1, 3, 4, 5, 0, 7])
    steps = rng.normal(size=(2, 9, 3))
    expected = steps.copy()
    for bead in range(1, 9):
        expected[:, bead] += expected[:, parents[bead]]
    np.testing.assert_allclose(sum_outwards(parents, steps), expected, atol=1e-14)


# --- samples that contradict what they are taken for --------------------------------------------


@pytest.mark.parametrize("rounding", [0.0, 1e-3, 1e-2])
def test_constraints_show_through_the_rounding_of_files(rng, rounding):
    """Positions rounded to 0.01 Å, as in XTC files, are still those of a constrained run."""
    x = walk(rng, frames=40, scatter=0.0)
    x = np.round(x / rounding) * rounding if rounding else x
    hard = ("length", "angle")
    flexible, as_is = (audit([group(x)], hard, as_is=as_is) for as_is in (False, True))
    (note,) = flexible.remarks
    assert "no hard coordinate varies more than rounding does" in note
    assert "was this run constrained, without Fixman's potential? then audit it as-is" in note
    assert f"note: {note}\n" in str(flexible)
    assert as_is.remarks == ()
    assert "rigid: the samples" in str(as_is)
    assert "assumed ensemble: rigid, of a run with these constraints\n" in str(as_is)
    assert not as_is.groups[0].contradicted
    (few,) = audit([group(x[:2])], hard).remarks  # all rows of 8 samples are enough
    assert "was this run constrained" in few


def test_flexible_samples_are_not_those_of_a_constrained_run(rng):
    x = walk(rng, frames=40, scatter=0.03)  # a uniform distribution of bonds, 0.017 wide
    report = audit([group(x)], as_is=True)
    assert re.match(
        r"cannot tell: these samples are not of a run with these constraints "
        r"\(length\(\d, \d\) varies by 1\.\d %\); audit them without as-is",
        report.verdict,
    )
    assert str(report).count("n/a: not of these constraints") == 2
    assert report.as_dict()["groups"][0]["means"] == {}
    assert not report.groups[0].reweightable
    assert audit([group(x)]).remarks == ()
    both = audit([group(walk(rng, frames=40, scatter=0.0, n=9)), group(x)], as_is=True)
    assert both.verdict == f"{report.verdict} (4 chains of 7 beads, of 2 kinds of molecules)"


def test_a_run_that_held_some_of_the_coordinates_is_told(rng):
    x = walk(rng, frames=40, scatter=0.0)
    steps = np.diff(x, axis=2)
    steps[:, :, 3:] *= rng.normal(1.0, 0.02, (40, 4, 3, 1))  # hydrogens are usual; any will do
    x = np.cumsum(np.concatenate([x[:, :, :1], steps], axis=2), axis=2)
    (note,) = audit([group(x)]).remarks
    assert note.startswith("4 chains of 7 beads: 3 of 6 hard coordinates vary no more than round")
    assert audit([group(x[:1])]).remarks == ()  # 4 samples tell nothing


def test_what_a_reader_returns_is_audited_as_it_is(rng):
    data = ChainData((group(walk(rng)),), np.arange(6), np.zeros(6), ("guessed",))
    report = audit(data, notes=["read"])
    assert report.notes == ("guessed", "read")
    np.testing.assert_array_equal(
        report.groups[0].half_logdet, audit(data.groups).groups[0].half_logdet
    )
    assert repr(data) == "ChainData(4 chains of 7 beads; 6 frames; 1 note)"
    assert repr(data.groups[0]) == "ChainGroup(4 chains of 7 beads)"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ((24.314, 0.92), "24.31 ± 0.92"),
        ((0.286, 0.271, "+", 31.5), "+0.29 ± 0.27"),
        ((-2.794e-8, 4.3e-10, "+", 21.4), "0.000 ± 0.000"),
        ((-1e-6, 0.27, "+", 31.5), "0.00 ± 0.27"),
        ((1234.0, 147.3, "+", 6339.0), "+1234 ± 147"),
        ((1.0, 0.0), "1.000 ± 0.000"),
    ],
)
def test_numbers_have_the_digits_that_they_tell(numbers, text):
    assert with_error(*numbers) == text


@pytest.mark.parametrize("as_is", [False, True])
def test_the_weight_of_a_frame_is_the_product_over_all_molecules(rng, as_is):
    groups = [group(walk(rng, frames=25, chains=3)), group(walk(rng, 25, 2, 9))]
    report = audit(groups, as_is=as_is)
    each = [np.exp(one.half_logdet * (-1.0 if as_is else 1.0)) for one in report.groups]
    product = np.prod(np.concatenate(each, axis=1), axis=1)
    np.testing.assert_allclose(np.exp(report.log_weights), product / product.max(), rtol=1e-12)
    with pytest.raises(ValueError, match="different numbers of frames: 6, 25"):
        audit([*groups, group(walk(rng))], as_is=as_is)


# --- averages in both ensembles -----------------------------------------------------------------


def right_angled(rng, frames, chains, ensemble):
    """Four beads with unit bonds and right angles; ⟨R²⟩ is 3 + 2⟨cos α⟩, α = 0 at trans."""
    size = 8 * frames * chains
    alpha = rng.uniform(-np.pi, np.pi, size)  # uniform torsions are stiff
    if ensemble == "rigid":
        c = np.cos(alpha)
        weight = np.sqrt(2 * (35 + 4 * c - 16 * c**2 + c**4))
        alpha = alpha[rng.uniform(0, 9.0, size) < weight]
    q = np.ones((frames, chains, 12))
    q[..., :3] = 0.0
    chain = Chain.linear(4)
    for k, row in enumerate(chain.coordinates):
        if row.kind == "angle":
            q[..., k] = np.pi / 2
    q[..., 11] = np.pi - alpha[: frames * chains].reshape(frames, chains)
    q[..., 5] = q[..., 8] = 0.3
    return chain.cartesian(q)


# ⟨cos α⟩ of the rigid ensemble is 0.040038.
@pytest.mark.parametrize("ensemble", ["stiff", "rigid"])
def test_reweighting_takes_samples_to_the_other_ensemble(ensemble):
    rng = np.random.default_rng(1)  # one of the 95 % in which chance draws no line
    x = right_angled(rng, 3000, 4, ensemble)
    report = audit([group(x)], ("length", "angle"), as_is=ensemble == "rigid")
    (one,) = report.groups
    assert one.ensemble == ensemble
    mean = one.means["mean_square_end_to_end"]
    assert 0.9 < mean.size / one.samples < 1.0
    for found, expected in (
        (mean.stiff, 3.0),
        (mean.rigid, 3.080076),
        (mean.change, 0.080076),
    ):
        assert abs(found[0] - expected) < 4.0 * found[1]
        assert found[1] < 0.02
    assert mean.change[1] < 0.5 * mean.stiff[1]  # the same samples: much of the noise cancels
    assert f"  ⟨R²⟩, {ensemble}: the samples  " in str(report)
    assert json.loads(json.dumps(one.as_dict()))["means"]["radius_of_gyration"]["change"]


def test_sizes_by_hand(rng):
    x, masses = walk(rng), rng.uniform(1.0, 9.0, 7)
    (one,) = audit([group(x, masses)]).groups
    about = x - np.average(x, axis=2, weights=masses)[:, :, None]
    gyration = np.average(np.sum(about**2, axis=3), axis=2, weights=masses)
    ends = np.sum((x[:, :, -1] - x[:, :, 0]) ** 2, axis=2)
    np.testing.assert_allclose(one.sizes["square_gyration"], gyration, rtol=1e-12)
    np.testing.assert_allclose(one.sizes["square_end_to_end"], ends, rtol=1e-12)
    weights = np.exp(one.half_logdet - one.half_logdet.max())
    mean = one.means["radius_of_gyration"]
    assert mean.stiff[0] == pytest.approx(np.sqrt(gyration.mean()))
    assert mean.rigid[0] == pytest.approx(np.sqrt(np.average(gyration, weights=weights)))
    assert mean.change[0] == pytest.approx(mean.rigid[0] - mean.stiff[0])


def test_errors_know_that_frames_resemble_each_other(rng):
    x = walk(rng, frames=400, chains=1)
    fresh = audit([group(x)]).groups[0].means["radius_of_gyration"]
    slow = audit([group(np.repeat(x, 10, axis=0))]).groups[0].means["radius_of_gyration"]
    for name in ("stiff", "rigid", "change"):
        (value, error), (same, other) = getattr(fresh, name), getattr(slow, name)
        assert same == pytest.approx(value, rel=1e-9)
        assert 0.6 < other / error < 1.6
    assert 0.5 < slow.size / fresh.size < 2.0


def test_too_few_effective_samples_tell_no_average(rng):
    x = np.repeat(walk(rng, frames=5, chains=1), 40, axis=0)
    x += 1e-3 * rng.normal(size=x.shape)  # no copies
    report = audit([group(x)])
    assert "n/a: only " in str(report)
    assert report.groups[0].independent < 20
    assert not report.groups[0].reweightable
    worth = r"; but all are worth \d+ independent samples?: a longer run "
    assert re.search(worth, report.verdict)
    mean = report.groups[0].means["radius_of_gyration"]
    assert not mean.enough
    assert mean.as_dict()["stiff"] is None
    assert EnsembleMean((1.0, 0.1), (1.0, 0.1), (0.0, 0.1), 20.0).enough


def test_histograms_of_soft_angles(rng):
    x = walk(rng, frames=40)
    (one,) = audit([group(x)], histograms=True).groups
    soft = audit([group(x)], ("length", "angle"), histograms=True).groups[0]
    assert soft.densities("angles") is None
    assert audit([group(x)]).groups[0].densities("angles") is None
    weights = np.exp(one.half_logdet - one.half_logdet.max())
    bend = np.arccos(bends(x))
    for kind, edges, values in (
        ("angles", ANGLE_EDGES, bend),
        ("torsions", TORSION_EDGES, Chain.linear(7).internal(x)[..., 11::3]),
    ):
        found = one.densities(kind)
        each = np.broadcast_to(weights[..., None], values.shape)
        stiff, _ = np.histogram(values, edges, density=True)
        rigid, _ = np.histogram(values, edges, density=True, weights=each)
        np.testing.assert_allclose(found["stiff"], stiff, atol=1e-12)
        np.testing.assert_allclose(found["rigid"], rigid, atol=1e-12)
        assert list(found) == ["stiff", "rigid"]


def test_torsions_of_siblings_are_no_torsions_about_bonds(rng):
    meter = Meter(molecules_at_random(rng, TREE), ("length",))
    bonded = set(map(tuple, TREE.tolist()))
    for row in meter.soft_torsions:
        assert all(tuple(sorted(row.beads[k : k + 2])) in bonded for k in range(3))
    assert 0 < len(meter.soft_torsions) < 8 * 3 - 6


# --- samples that are fewer than they look ------------------------------------------------------


@pytest.mark.parametrize("scatter", [0.1, 0.3])
def test_chains_that_drift_together_are_not_independent(rng, scatter):
    x = np.zeros((3, 49, 10, 3))
    x[..., 0] = np.arange(10.0)
    for frame in range(3):
        x[frame, ..., 1:] += frame * scatter * rng.normal(size=(49, 10, 2))
    report = audit([group(x)])
    (one,) = report.groups
    assert one.samples == 147
    assert one.independent < 20
    assert "; but all are worth " in report.verdict
    (note,) = (note for note in report.remarks if "drift" in note)
    assert re.search(r"the frames drift: ½ ln det H\^bb moves by \+\d\.\d+ kT from the first", note)
    assert one.as_dict()["drift_kT"] == pytest.approx(np.ptp(one.half_logdet.mean(1)), rel=0.1)
    assert np.isfinite(one.independent)


def test_chains_that_do_not_drift_are_independent(rng):
    x = walk(rng, frames=3, chains=49, n=10)
    (one,) = audit([group(x)]).groups
    assert one.independence.drift == 0.0
    assert one.independent > 70
    assert one.notes == ()


def test_copies_count_once(rng):
    x = np.zeros((1, 49, 10, 3))
    x[..., 0] = np.arange(10.0)
    report = audit([group(x)])
    assert report.verdict == (
        "cannot tell: 49 samples, 1 of them distinct: 20 or more are needed, other than repeated "
        "frames or copies of a chain"
    )
    assert report.groups[0].as_dict()["distinct_samples"] == 1
    copied = audit([group(np.repeat(walk(rng, frames=6, chains=4), 20, axis=1))])
    assert copied.groups[0].distinct == 24
    assert copied.groups[0].independent <= 24
    assert copied.remarks == (
        "80 chains of 7 beads: 456 of 480 samples repeat others, and count once",
    )
    methyl = turning_methyl(401)  # neither ln det H^bb nor R_g tells these apart
    report = audit([propionitrile(methyl)], "torsional", as_is=True)
    one = report.groups[0]
    assert np.ptp(one.sizes["square_gyration"]) < 1e-12
    assert one.spread < 1e-12
    assert one.notes == ()
    assert one.independent == one.distinct == 401
    assert report.verdict == (
        "negligible: no average moves by more than 0.001 of its own standard deviation between "
        "rigid and stiff"
    )
    again = propionitrile(np.concatenate([methyl[:30]] * 3))
    assert audit([again], "torsional", as_is=True).groups[0].distinct == 30
    assert distinct(np.array([0.0, 1e-6, 1.0]), np.array([2.0, 2.0, 2.0])) == 2
    assert distinct(np.zeros(3), np.array([2.0, 2.001, 2.0])) == 2


BONDS = [(0, 1), (1, 2), (0, 3), (0, 4), (0, 5), (1, 6), (1, 7), (2, 8)]  # CH3–CH2–C≡N
MASSES = np.array([12.011] * 3 + [1.008] * 5 + [14.007])


def turning_methyl(frames):
    """Propionitrile, whose methyl alone turns: (frames, 1, 9, 3)."""
    chi = np.random.default_rng(3).uniform(0.0, 2.0 * np.pi, (frames, 1))
    x = np.empty((frames, 9, 3))
    x[:, 1], x[:, 0], x[:, 2], x[:, 8] = [0, 0, 0], [1.54, 0, 0], [-0.5, 1.38, 0], [-0.9, 2.47, 0]
    x[:, 6], x[:, 7] = [-0.36, -0.51, 0.89], [-0.36, -0.51, -0.89]
    turns = chi + 2.0 * np.pi * np.arange(3) / 3.0
    x[:, 3:6] = np.stack(
        [np.full(turns.shape, 1.91), 1.03 * np.cos(turns), 1.03 * np.sin(turns)], 2
    )
    return x[:, None]


def propionitrile(x):
    return ChainGroup(MASSES, np.arange(9)[None], x, bonds=np.array(BONDS))


# --- errors of averages ---------------------------------------------------------------------------


def test_the_error_of_a_root_is_half_that_of_its_square_over_it(rng):
    (one,) = audit([group(walk(rng, frames=200))]).groups
    radius, error = one.means["radius_of_gyration"].stiff
    assert radius == pytest.approx(np.sqrt(np.mean(one.sizes["square_gyration"])), rel=1e-12)
    expected = standard_error(one.sizes["square_gyration"]) / (2.0 * radius)
    assert error == pytest.approx(expected, rel=1e-12)
