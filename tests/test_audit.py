from __future__ import annotations

import json

import numpy as np
import pytest

import fixman.audit
from fixman.audit import AuditReport, GroupReport, audit, pooled_means, set_hard
from fixman.chain import Chain
from fixman.io.groups import ChainGroup

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


def report_of(half):
    return GroupReport(Chain.linear(3), np.asarray(half, dtype=float), 1.0)


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
        chain = Chain.linear(7, hard=hard)
        before = chain.internal(x)
        kinds = np.array([c.kind for c in chain.coordinates])[chain.hard]
        means, scattered = pooled_means(chain, x)
        expected = before[..., chain.hard].mean(axis=(0, 1))
        np.testing.assert_allclose(
            means[kinds != "torsion"], expected[kinds != "torsion"], rtol=1e-13
        )
        assert (scattered > 0) == ("torsion" in hard)
        after = chain.internal(set_hard(chain, x, means))
        assert np.max(np.abs(after[..., chain.hard] - means)) < 1e-12
        soft = np.setdiff1d(np.arange(len(chain.coordinates)), chain.hard)
        turn = np.angle(np.exp(1j * (after - before)))[..., soft]
        assert np.max(np.abs(turn)) < 1e-11


def test_torsion_means_are_circular(rng):
    chain = Chain.linear(4, hard=("torsion",))
    (row,) = chain.hard
    q = np.tile(chain.internal(walk(rng, 1, 1, 4)), (20, 2, 1))
    q[..., row] = 3.1, -3.1
    means, scattered = pooled_means(chain, chain.cartesian(q))
    assert abs(abs(means[0]) - np.pi) < 1e-12
    assert scattered == 0


def test_scattered_torsions_are_noted(rng):
    x = walk(rng, frames=30)
    report = audit([group(x)], ALL)
    assert report.groups[0].scattered == 4
    assert report.verdict.startswith("nothing can vary: every internal coordinate of a chain of 7 ")
    assert "; but 4 hard torsions are scattered over the circle: " in report.verdict
    assert "pieces" not in report.verdict
    torsions = audit([group(x), group(walk(rng, frames=30, n=9))], ("torsion",))
    assert "(the worst group: " in torsions.verdict
    assert torsions.verdict.count("; but 10 hard torsions are scattered") == 1
    assert "scattered" not in audit([group(x)], ALL, as_is=True).verdict


@pytest.mark.parametrize("as_is", [False, True])
@pytest.mark.parametrize("hard", [("length",), ("length", "angle"), ("angle",), ALL])
def test_units_drop_out(rng, hard, as_is):
    x, masses = walk(rng), rng.uniform(0.5, 20.0, 7)
    (one,) = audit([group(x, masses)], hard, as_is=as_is).groups
    (other,) = audit([group(0.37 * x, 1e-3 * masses)], hard, as_is=as_is).groups
    for name in ("spread", "range", "mean_per_row", "effective_fraction"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9, abs=1e-11), name
    assert abs(np.mean(one.half_logdet - other.half_logdet)) > 1.0


def test_mean_per_row_by_hand(rng):
    masses = np.array([2.0, 8.0, 4.0])
    x = walk(rng, n=3)
    (one,) = audit([group(x, masses)]).groups
    w = 4.0 / masses  # their geometric mean is 4
    det = (w[0] + w[1]) * (w[1] + w[2]) - (w[1] * bends(x)[..., 0]) ** 2
    assert one.mean_per_row == pytest.approx(np.mean(0.5 * np.log(det)) / 2, rel=1e-12)


def test_effective_fraction_against_plain_weights(rng):
    half = 500.0 + rng.normal(size=(25, 4))
    weights = np.exp(-(half - half.mean()))
    expected = weights.sum() ** 2 / (weights**2).sum() / 100
    assert report_of(half).effective_fraction == pytest.approx(expected, rel=1e-12)
    assert report_of(np.zeros((3, 9))).effective_fraction == pytest.approx(1.0, rel=1e-14)
    assert 0.0 < report_of([[0.0, 3000.0]]).effective_fraction == pytest.approx(0.5)


def test_frames_and_chains_are_one_pool(rng):
    x = walk(rng, frames=6, chains=4)
    (one,) = audit([group(x)], ("length", "angle")).groups
    (flat,) = audit([group(x.reshape(24, 1, 7, 3))], ("length", "angle")).groups
    np.testing.assert_allclose(one.half_logdet.ravel(), flat.half_logdet.ravel(), atol=1e-12)


def test_blocks_change_nothing(rng, monkeypatch):
    x = walk(rng, frames=11, chains=3)
    (whole,) = audit([group(x)], ("length", "angle")).groups
    monkeypatch.setattr(fixman.audit, "BLOCK", 4 * 21)
    (split,) = audit([group(x)], ("length", "angle")).groups
    np.testing.assert_allclose(whole.half_logdet, split.half_logdet, rtol=0, atol=1e-12)
    assert split.mean_bond == pytest.approx(whole.mean_bond, rel=1e-14)


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
    monkeypatch.setattr(fixman.audit, "BLOCK", 2 * 28)
    x = walk(rng)
    x[5, 2, 2] = 2 * x[5, 2, 1] - x[5, 2, 0]
    words = r"in line.*\(frame, chain; counting from frame 4 of those read\)"
    for as_is in (False, True):
        with pytest.raises(ValueError, match=r"\(0, 1, 2.* in frame \(1, 2\).*" + words):
            audit([group(x)], ("length", "angle"), as_is=as_is)


def test_groups_are_not_pooled_and_the_worst_speaks(rng):
    short, long = walk(rng, frames=30, n=2), walk(rng, frames=30, n=40, scatter=0.5)
    report = audit([group(short), group(long)])
    quiet, loud = report.groups
    assert quiet.spread < 1e-12
    assert quiet.verdict.startswith("nothing can vary: ")
    assert report.verdict == f"{loud.verdict} (the worst group: 4 chains of 40 beads)"
    assert str(report).count("nothing can vary") == 1
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
    report = audit([group(walk(rng, frames=2, n=n))], hard)
    (one,) = report.groups
    assert one.constant == constant
    assert (one.spread < 1e-12) == constant
    assert report.verdict.startswith("nothing can vary" if constant else "cannot tell")
    assert ("fell into pieces" in report.verdict) == (constant and n < 4)


def test_constant_groups_do_not_hide_what_cannot_be_told(rng):
    pair, few = (audit([group(walk(rng, frames=2, n=n))]).groups[0] for n in (2, 9))
    assert AuditReport(("length",), False, (pair, pair)).verdict.startswith("nothing can vary")
    assert AuditReport(("length",), False, (pair, few)).verdict.startswith("cannot tell: 1 of 2")


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
        (5.0, 19, "cannot tell: 19 samples, 20 or more are needed"),
        (0.3, 40, "noticeable, 0.3 kT between rigid and stiff: reweight the frames"),
        (2.0, 40, "large, 2 kT between rigid and stiff: add the Fixman potential"),
    ],
)
def test_verdicts(spread, samples, words):
    half = np.zeros(samples)
    half[::2], half[1::2] = spread, -spread
    assert report_of(half[:, None]).verdict.startswith(words)


def test_overall_verdict_does_not_hide_what_cannot_be_told():
    few, still, wild = report_of([[9.0], [0.0]]), report_of(np.zeros((30, 1))), 30 * [[0.0, 4.0]]
    assert AuditReport(("length",), False, (few, still)).verdict == (
        "cannot tell: 1 of 2 groups have fewer than 20 samples"
    )
    assert AuditReport(("length",), False, (few, report_of(wild))).verdict.startswith("large, 2 kT")
    assert AuditReport(("length",), False, (few, few)).verdict.startswith("cannot tell: 2 of 2")


def test_report_as_dict_is_json_without_nan(rng):
    report = audit([group(walk(rng, frames=1, chains=1))], ("length", "angle"), notes=["read"])
    document = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert document["hard"] == ["length", "angle"]
    assert document["notes"] == ["read"]
    (one,) = document["groups"]
    assert (one["frames"], one["chains"], one["beads"], one["hard_rows"]) == (1, 1, 7, 11)
    for name in ("spread_kT", "range_kT", "effective_fraction"):
        assert one[name] is None
    assert str(report).count("n/a\n") == 3
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
        (np.zeros((2, 2, 4, 3)), "has 3 beads"),
        (np.full((2, 2, 3, 3), np.nan), r"nan at bead 0 in frame \(0, 0\)"),
        (np.zeros((2, 2, 3, 3)), "bead 0 and bead 1 of chain 0 in frame 0"),
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


@pytest.mark.parametrize("hard", ["length", ()])
def test_hard_must_be_kinds(hard):
    with pytest.raises(ValueError, match="tuple of kinds"):
        audit([], hard)
