"""Pictures show the numbers that they are given."""

import numpy as np
import pytest

import fixman as fx
from fixman import observables


@pytest.fixture
def ax(peer):
    peer("matplotlib")
    with fx.plot.style():
        return fx.plot.figure().subplots()


@pytest.fixture
def space(peer):
    peer("matplotlib")
    return fx.plot.figure().add_subplot(projection="3d")


def test_bonds_have_the_colours_of_their_values(ax, space):
    chain = fx.Chain.branched([-1, 0, 0, 1], hard=("length", "angle"))
    x = np.random.default_rng(0).normal(size=(4, 3))
    fx.plot.chain(space, chain, x, np.arange(3.0))
    motion = fx.forward_dynamics(chain, x, 0 * x, force=x)
    fx.plot.chain(ax, chain, x, motion.tension, label="tension")
    lengths = [row for row, each in enumerate(chain.coordinates) if each.kind == "length"]
    picked = [list(chain.hard).index(row) for row in lengths]
    assert np.array_equal(ax.collections[0].get_array(), motion.tension[picked])
    sides = [np.diff(part, axis=0)[0] for part in ax.collections[0].get_segments()]
    assert np.all(np.linalg.norm(sides, axis=1) <= chain.values(x)[lengths] + 1e-12)
    with pytest.raises(ValueError, match=r"one per bond, \(3,\), or one per hard coordinate"):
        fx.plot.chain(ax, chain, x, np.arange(9.0))
    with pytest.raises(ValueError, match="take a frame"):
        fx.plot.chain(ax, chain, x[None])
    with pytest.raises(fx.FrameError, match="nan at bead 1"):
        fx.plot.chain(ax, chain, np.where(np.arange(4)[:, None] == 1, np.nan, x))


def test_a_planar_arm_is_drawn_as_it_is(ax):
    chain = fx.Chain.linear(3, dim=2, base="fixed")
    x = np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 1.0]])
    fx.plot.chain(ax, chain, x)
    sticks = ax.collections[0].get_segments()
    assert np.array_equal(sticks, np.stack([np.vstack([[0, 0], x[:-1]]), x], axis=1))


def test_arms_show_their_joints_and_axes(space, ax):
    arm = fx.rigid.SerialChain.random(5, np.random.default_rng(1), joints=("revolute",))
    q = np.linspace(0.1, 0.5, 5)
    fx.plot.arm(ax, arm, q)
    fx.plot.arm(space, arm, q)
    points = np.array(space.lines[0].get_data_3d()).T
    assert np.allclose(points[1:-1], fx.rigid.kinematics.frames(arm, q)[1])
    with pytest.raises(ValueError, match="take a frame"):
        fx.plot.arm(ax, arm, q[None])


def test_postures_share_their_axes(space):
    arm = fx.rigid.SerialChain.random(3, np.random.default_rng(2), joints=("revolute",))
    ends = []
    for q in ([0.0, 0.0, 0.0], [1.0, -1.0, 0.5]):
        fx.plot.arm(space, arm, q, tip=(0.1, 0.2, 0.3))
        ends.append(fx.rigid.kinematics.position(arm, q, 2, (0.1, 0.2, 0.3)))
    drawn = [np.array(line.get_data_3d()).T for line in space.lines]
    assert np.allclose([points[-1] for points in drawn], ends)
    limits = np.array([space.get_xlim(), space.get_ylim(), space.get_zlim()]).T
    assert np.all(limits[0] <= np.min(np.vstack(drawn), axis=0))
    assert np.all(limits[1] >= np.max(np.vstack(drawn), axis=0))


def test_linkages_are_drawn_closed(ax):
    rigid = fx.rigid
    arm = rigid.SerialChain.planar(np.ones(3), np.ones(3), np.full(3, 1 / 12))
    end = rigid.closed.End(None, (1.0, 0.0, 0.0))
    linkage = rigid.closed.Linkage(
        arm, rigid.closed.Closure(end, rigid.closed.End(2, (1.0, 0.0, 0.0)), ("x", "y"))
    )
    q = np.radians([90.0, -90.0, -90.0])  # a square
    fx.plot.arm(ax, linkage, q)
    sticks = np.array(ax.collections[0].get_segments())
    assert len(sticks) == 4  # the first has no length: the first joint is at the base
    assert np.allclose(np.linalg.norm(np.diff(sticks, axis=1)[:, 0], axis=1), [0, 1, 1, 1])
    assert np.allclose(ax.lines[0].get_xydata()[0], sticks[-1, 1])  # the closure's end at the base
    with pytest.raises(TypeError, match="SerialChain"):
        fx.plot.arm(ax, "arm", q)


def test_runs_are_drawn_against_their_time(ax):
    chain = fx.Chain.linear(4)
    run = fx.simulate(chain, fx.random_walks(chain, 3, rng=1), fx.Langevin(0.05), 40, every=10)
    size = observables.radius_of_gyration(chain, run.x)
    fx.plot.trajectory(ax, run, size)
    *thin, thick = ax.lines
    assert len(thin) == 3
    assert np.array_equal(thick.get_xdata(), run.times)
    assert np.allclose(thick.get_ydata(), size.mean(axis=1))
    with pytest.raises(ValueError, match="values must be given"):
        fx.plot.trajectory(ax, run)
    arm = fx.rigid.SerialChain.planar(np.ones(2), np.ones(2), np.full(2, 1 / 12))
    fall = fx.rigid.motion.simulate(arm, [0.1, 0.2], 0.01, 3, gravity=(0, -9.81, 0), scheme="euler")
    fx.plot.trajectory(ax, fall, fall.q, names=["shoulder", "elbow"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["shoulder", "elbow"]
    named = fx.rigid.motion.simulate(arm, [0.1, 0.2], 0.01, 3, names=["hip", "knee"])
    fx.plot.trajectory(ax, named[1:], named[1:].qd)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["hip", "knee"]
    other = fx.plot.figure().subplots()
    fx.plot.trajectory(other, named)
    assert other.get_legend() is None


def test_distributions_have_the_area_one(ax):
    rng = np.random.default_rng(2)
    fx.plot.distribution(ax, rng.normal(size=(10, 50)), rng.normal(size=300), 20, label="x")
    for patch in ax.patches:
        density, edges, _ = patch.get_data()
        assert np.sum(density * np.diff(edges)) == pytest.approx(1.0)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["rigid", "stiff"]


def test_free_energies_over_two_torsions(ax):
    phi = np.radians(np.repeat([-90.0, 90.0], [30, 10]))
    fx.plot.ramachandran(ax, phi, np.zeros(40), bins=5)
    energy = ax.collections[0].get_array()
    assert np.sort(energy.compressed()) == pytest.approx([0.0, np.log(3.0)])
    assert energy.T[1, 2] == 0.0
    fx.plot.ramachandran(ax, np.full(3, np.pi, np.float32), np.zeros(3), bins=5)
    assert ax.collections[1].get_array().compressed() == pytest.approx([0.0])


def test_what_cannot_be_drawn_is_refused(ax, space):
    chain = fx.Chain.linear(3)
    x = np.arange(9.0).reshape(3, 3)
    for call in (
        lambda bad: fx.plot.distribution(ax, bad, [0.0, 1.0]),
        lambda bad: fx.plot.ramachandran(ax, bad, [0.0, 1.0]),
        lambda bad: fx.plot.chain(ax, chain, x, bad),
    ):
        with pytest.raises(fx.FrameError, match="is nan"):
            call([np.nan, 0.0])
        with pytest.raises(ValueError, match="none of them 0"):
            call([])
    with pytest.raises(ValueError, match="same length"):
        fx.plot.ramachandran(ax, [0.0, 1.0], [0.0])
    with pytest.raises(ValueError, match="give radians"):
        fx.plot.ramachandran(ax, [0.0, 1.0], [0.0, 120.0])
    for axes in (ax, space):
        fx.plot.chain(axes, fx.Chain.linear(1), np.zeros((1, 3)))


def test_flat_pictures_keep_up_upwards(ax):
    x = np.random.default_rng(3).normal(size=(4, 3))
    for flat, right, up in ((1, 0, 2), (0, 1, 2), (2, 0, 1)):
        place = np.where(np.arange(3) == flat, 0.5, x)
        ax.clear()
        fx.plot.chain(ax, fx.Chain.linear(4), place)
        drawn = np.transpose(ax.lines[0].get_data())
        assert np.allclose(drawn, place[:, [right, up]], atol=1e-12)
    arm = fx.rigid.SerialChain.planar(np.ones(3), np.ones(3), np.ones(3))
    ax.clear()
    fx.plot.arm(ax, arm, [0.3, 0.4, -0.2])
    points = fx.rigid.kinematics.frames(arm, [0.3, 0.4, -0.2])[1]
    normal = np.ptp(points, axis=0).argmin()
    assert np.allclose(np.transpose(ax.lines[0].get_data())[1:-1], np.delete(points, normal, 1))
