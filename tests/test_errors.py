"""Errors hold as data what their text says, in every room that raises them, and when pickled."""

import copy
import copyreg
import pickle

import numpy as np
import pytest

import fixman as fx
from fixman import observables, rigid
from fixman.analysis import audit
from fixman.analysis.samples import Meter
from fixman.chains.coordinates import Coordinate
from fixman.potentials.energies import WCA, Torsion
from fixman.simulation.observables import potential_energy
from rigid_cases import changed
from rigid_oracles import random_q

BONDS = fx.Chain.linear(5)
BENDS = fx.Chain.linear(5, hard=("length", "angle"))
SQUARE = fx.Chain.ring(4)
X = np.random.default_rng(0).normal(size=(2, 3, 5, 3)).cumsum(axis=2)
FOLDED = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0]])
NOTHING = {"coordinates": (), "beads": (), "body": None, "step": None, "replica": None}
BEND = Coordinate("angle", (0, 1, 2))
TURNS = Coordinate("torsion", (-2, 0, 1, 2)), Coordinate("torsion", (0, 1, 2, 3))


def moved(bead, place):
    """Return X with a bead elsewhere in frame (1, 2)."""
    x = X.copy()
    x[1, 2, bead] = place
    return x


MET = moved(3, X[1, 2, 2])
STRAIGHT = moved(2, 2.0 * X[1, 2, 1] - X[1, 2, 0])
NAN, FAR = moved(3, np.nan), moved(3, 1e200)


@pytest.mark.parametrize(
    ("call", "kind", "frame", "data"),
    [
        (lambda: fx.logdet(BONDS, MET), fx.SingularConstraintError, (1, 2), {"beads": (2, 3)}),
        (lambda: fx.logdet(BONDS, MET[1]), fx.SingularConstraintError, 2, {"beads": (2, 3)}),
        (lambda: fx.Partition(BONDS, MET[1, 2]), fx.SingularConstraintError, None,
         {"beads": (2, 3)}),
        (lambda: fx.logdet(BENDS, MET, inverse_masses=2.0), fx.SingularConstraintError, (1, 2),
         {"beads": (2, 3)}),
        (lambda: fx.fixman_force(BENDS, STRAIGHT), fx.SingularConstraintError, (1, 2),
         {"coordinates": (BEND,), "beads": (0, 1, 2)}),
        (lambda: fx.logdet(BENDS, NAN), fx.FrameError, (1, 2), {"beads": (3,)}),
        (lambda: fx.logdet(BENDS, FAR), fx.FrameError, (1, 2), {"beads": (2, 3)}),
        (lambda: BONDS.internal(STRAIGHT), fx.SingularCoordinateError, (1, 2),
         {"coordinates": TURNS, "beads": (0, 1, 2, 3)}),
        (lambda: fx.wilson_b(BONDS, STRAIGHT[1, 2]), fx.SingularCoordinateError, None,
         {"coordinates": (BEND, *TURNS), "beads": (0, 1, 2, 3)}),
        (lambda: fx.velocity_terms(BONDS, STRAIGHT, X), fx.SingularCoordinateError, (1, 2),
         {"coordinates": (BEND, *TURNS), "beads": (0, 1, 2, 3)}),
        (lambda: fx.forward_dynamics(BONDS, STRAIGHT, X).qdd, fx.SingularCoordinateError, (1, 2),
         {"coordinates": (BEND, *TURNS), "beads": (0, 1, 2, 3)}),
        (lambda: fx.inverse_dynamics(BONDS, STRAIGHT, X, np.ones(11)), fx.SingularCoordinateError,
         (1, 2), {"coordinates": (BEND, *TURNS), "beads": (0, 1, 2, 3)}),
        (lambda: fx.project(BONDS, X, [1, 1, -1, 1]), fx.FrameError, (0, 0),
         {"coordinates": (Coordinate("length", (2, 3)),), "beads": (2, 3)}),
        (lambda: fx.project(SQUARE, X[:, :, :4], [1, 1, 1, 9]), fx.ConstraintSolveError, (0, 0),
         {}),
        (lambda: potential_energy(BONDS, MET, Torsion(1.0)), fx.SingularCoordinateError, (1, 2),
         {"beads": (2, 3)}),
        (lambda: potential_energy(BONDS, STRAIGHT, Torsion(1.0)), fx.SingularCoordinateError,
         (1, 2), {"beads": (0, 1, 2, 3)}),
        (lambda: potential_energy(BONDS, moved(4, X[1, 2, 1]), WCA()), fx.SingularCoordinateError,
         (1, 2), {"beads": (1, 4)}),
        (lambda: observables.persistence_length(BONDS, MET), fx.FrameError, (1, 2), {}),
        (lambda: fx.Newton(0.01, kT=1.0).start(BENDS, STRAIGHT[1], replicas=3),
         fx.SingularConstraintError, 2, {"coordinates": (BEND,), "beads": (0, 1, 2)}),
        (lambda: audit.audit([audit.ChainGroup(np.ones(5), np.arange(15).reshape(3, 5), MET)]),
         fx.SingularConstraintError, (1, 2), {"beads": (2, 3)}),
    ],
)  # fmt: skip
def test_the_data_are_those_of_the_text(call, kind, frame, data):
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    assert error.frame == frame
    expected = NOTHING | data
    assert {name: getattr(error, name) for name in expected} == expected
    assert all(type(bead) is int for bead in error.beads)
    for row in error.coordinates:
        assert str(row) in str(error)
    if isinstance(frame, int):
        assert f" in frame {frame}" in str(error)


def test_dependent_rows_are_data():
    with pytest.raises(
        fx.SingularConstraintError, match=r"depends on .* in frame 0: make"
    ) as caught:
        fx.logdet(SQUARE, FOLDED[None])
    assert set(caught.value.coordinates) == {SQUARE.coordinates[row] for row in SQUARE.hard}
    assert caught.value.beads == (
        *dict.fromkeys(np.ravel([c.beads for c in caught.value.coordinates])),
    )
    with pytest.raises(fx.SingularConstraintError, match="in every configuration") as caught:
        fx.Chain.branched([-1, 0], extra=[("length", (0, 1))])
    assert caught.value.coordinates == (Coordinate("length", (0, 1)),)
    assert caught.value.beads == (0, 1)


@pytest.mark.thorough
def test_a_step_without_a_solution_says_when_and_who():
    flat = fx.Chain.linear(20, hard=("length", "angle"))
    corner = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [2, 1, 0], [1, 1, 0], [1, 0.001, 0]])
    for chain, x, options in (
        (flat, np.tile(fx.random_walks(flat, angles=1e-9, rng=1), (2, 1, 1)), {}),
        (
            fx.Chain.linear(6),
            np.stack([np.arange(18.0).reshape(6, 3), corner]),
            {"potential": WCA()},
        ),
    ):
        stepper = fx.Langevin(0.01, **options)
        state = stepper.start(chain, x, replicas=2, rng=1)
        state.step = 70
        with pytest.raises(fx.ConstraintSolveError) as caught:
            stepper.advance(chain, state, 50)
        error = caught.value
        assert str(error).startswith(f"step {error.step} of replica {error.replica} has no")
        assert 70 <= error.step < 120
        assert error.frame is None
        if options:
            assert error.replica == 1
            assert set(error.beads) == {1, 5}
        else:
            assert error.coordinates == tuple(
                flat.coordinates[r] for r in flat.hard if flat.coordinates[r].kind == "angle"
            )


def test_rigid_errors_name_body_and_frame():
    arm = rigid.SerialChain.random(4, 0, joints=("revolute",))
    there = np.array([1.0, 1.0, 0.0, 0.0])
    light = changed(arm, masses=arm.masses * there, inertias=arm.inertias * there[:, None, None])
    q, ones = np.stack([random_q(arm, np.random.default_rng(0))] * 2), np.ones(4)
    for room in (
        rigid.articulated_body, rigid.composite_body, rigid.denoc, rigid.spatial_operators,
    ):  # fmt: skip
        with pytest.raises(fx.SingularConstraintError, match="in frame 0") as caught:
            room.forward_dynamics(light, q, ones, ones)
        error = caught.value
        assert (error.frame, error.beads) == (0, ())
        assert error.body == (2 if room is rigid.composite_body else 3)
        assert f"joint {error.body} moves in frame 0 is zero" in str(error)
    with pytest.raises(fx.SingularConstraintError, match="cannot take body 2") as caught:
        rigid.partition.logdet_mass(light, q)
    assert (caught.value.frame, caught.value.body) == (None, 2)
    q[1, 2] = np.inf
    with pytest.raises(fx.FrameError, match="q is inf at coordinate 2 in frame 1") as caught:
        rigid.partition.logdet_mass(arm, q)
    assert caught.value.frame == 1
    loads = np.zeros((4, 6))
    loads[3, 1] = np.nan
    with pytest.raises(fx.FrameError, match="wrenches is nan at body 3") as caught:
        rigid.partition.forward_dynamics(arm, q[0], ones, ones, wrenches=loads)
    assert caught.value.body == 3


def test_blocks_of_lazy_arrays_count_frames_from_the_beginning(peer):
    array = peer("dask.array")
    for x, chunks, frame in (
        (STRAIGHT, (1, 2, 5, 3), (1, 2)),
        (STRAIGHT.reshape(6, 5, 3), (2, 5, 3), 5),
        (STRAIGHT[1, 2], (5, 3), None),
    ):
        with pytest.raises(fx.SingularConstraintError) as caught:
            fx.logdet(BENDS, array.from_array(x, chunks=chunks)).compute(scheduler="synchronous")
        with pytest.raises(fx.SingularConstraintError) as now:
            fx.logdet(BENDS, x)
        assert str(caught.value) == str(now.value)
        assert caught.value.frame == now.value.frame == frame
        assert caught.value.coordinates == (BEND,)


def test_a_ring_that_cannot_close_passes_its_frame_on():
    bonds = np.array([(0, 1), (1, 2), (0, 2)])
    group = audit.ChainGroup(np.ones(3), np.arange(9).reshape(3, 3), X[:, :, :3], bonds=bonds)
    with pytest.raises(fx.ConstraintSolveError, match=r"all be met in frame \(0, 0\): ") as caught:
        Meter(group, ("length",)).hard.set(group.x, np.array([1.0, 1.0, 2.5]))
    assert caught.value.frame == (0, 0)


def test_a_moved_error_leaves_the_other_where_it_was(monkeypatch):
    """Also where copies of errors share their attributes, as those of tblib do, which Dask has."""

    def shared(kind, attributes):
        error = kind.__new__(kind)
        error.__dict__ = attributes
        return error

    monkeypatch.setitem(
        copyreg.dispatch_table, fx.FrameError, lambda error: (shared, (type(error), vars(error)))
    )
    error = fx.FrameError("no way", frame=3)
    assert (error.moved(None).frame, error.frame) == (None, 3)


def test_an_error_is_moved_and_pickled_with_its_data():
    error = fx.ConstraintSolveError(
        "no way", ": sorry", frame=(1, 2), coordinates=[BEND], step=7, replica=3
    )
    assert str(error) == "no way in frame (1, 2): sorry"
    for moved, text in (
        (error.moved(4), "no way in frame 4: sorry"),
        (error.moved((4, 5), " in frame 4, chain 5"), "no way in frame 4, chain 5: sorry"),
        (error.moved((4, 5)).moved(None), "no way: sorry"),
    ):
        assert str(moved) == text
        assert vars(moved) == vars(error) | {"frame": moved.frame}
    for kind in (fx.FrameError, fx.SingularConstraintError, fx.SingularCoordinateError):
        one = kind("no way", ": sorry", frame=2, beads=np.array([3, -1, 4]), body=1)
        for same in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one), one.moved(2)):
            assert type(same) is kind
            assert (str(same), repr(same)) == (str(one), repr(one))
            assert vars(same) == vars(one)
        assert one.beads == (3, 4)
    same = pickle.loads(pickle.dumps(error.moved(4)))
    assert (str(same), vars(same)) == ("no way in frame 4: sorry", vars(error.moved(4)))
    plain = fx.SingularConstraintError("in words alone")
    assert (str(plain), plain.frame) == ("in words alone", None)
    assert {name: getattr(plain, name) for name in NOTHING} == NOTHING


def test_what_was_found_by_calls_with_odd_arguments():
    arm = fx.rigid.SerialChain.planar([1.0] * 3, [1.0] * 3, [1.0] * 3)
    forward, ones = fx.rigid.articulated_body.forward_dynamics, np.ones(3)
    with pytest.raises(ValueError, match="positions overflowed: lengths"):
        fx.sample(fx.Chain.linear(5), 2, lengths=1e308, rng=1)
    with pytest.raises(ValueError, match="a pair of ends is 2 different bead numbers"):
        fx.potentials.Tension((0, 0, 1.0), ends={1, 2})
    for call in (fx.rigid.partition.hard_block, fx.rigid.statistics.thermal_rates):
        with pytest.raises(TypeError, match="arm must be a"):
            call(None, ones)
    with pytest.raises(TypeError, match="arm must be a"):
        fx.rigid.statistics.langevin(None, ones, 0.01, 2, qd=ones)
    q, qd = fx.rigid.statistics.langevin(arm, np.zeros((0, 3)), 0.01, 2)
    assert q.shape == qd.shape == (2, 0, 3)
    forward(arm, ones, ones, ones)
    with pytest.raises(ValueError, match="q must have shape"):
        forward(arm, np.array(1.0), ones, ones)


def refused(kind, text, call, *args, **options):
    with pytest.raises(kind, match=text) as caught:
        call(*args, **options)
    assert "fixman" in str(caught.traceback[-1].path)


def test_odd_groups_of_an_audit_are_refused():
    masses, atoms, x = np.ones(5), np.arange(15).reshape(3, 5), X
    for groups in (None, 3, "abc", np.array(1.0), [None]):
        refused(TypeError, "groups must be a list of ChainGroup", audit.audit, groups)
    for kind, text, odd in (
        (TypeError, "bonds of group 0 must be integers", {"bonds": "ab"}),
        (TypeError, "bonds of group 0 must be integers", {"bonds": [(0, 1.5)]}),
        (ValueError, "bonds of group 0 must be pairs", {"bonds": 3}),
        (ValueError, "bond .0, 9. names a bead", {"bonds": [(0, 9)]}),
        (ValueError, "leave 5 components", {"bonds": []}),
        (TypeError, "atoms of group 0 must be integers", {"atoms": atoms * 1.5}),
        (ValueError, r"atoms of group 0 must have shape \(chains, n\), \(3, 5\)", {"atoms": 3}),
        (TypeError, "x of group 0 must be real numbers", {"x": None}),
    ):
        given = {"masses": masses, "atoms": atoms, "x": x} | odd
        refused(kind, text, audit.audit, [audit.ChainGroup(**given)])
    for name, odd in (("notes", None), ("histograms", 3)):
        group = audit.ChainGroup(masses, atoms, x)
        refused(TypeError, f"{name} must be", audit.audit, [group], **{name: odd})
    assert len(repr(audit.audit([group]))) < 160
    assert len(repr(audit.audit([group]).groups[0])) < 160


def test_odd_lists_are_refused():
    for odd in (np.array(3), None, "ab"):
        refused(TypeError, "terms must be a list of potentials", fx.potentials.Sum, odd)
        refused(TypeError, "forces must be a list of", fx.bluemoon.free_energy, [0, 1], odd)
    refused(TypeError, "a list of angles", fx.potentials.Bending, 1.0, beads=np.array(3))
    stress = 1e99 * np.random.default_rng(0).normal(size=(6, 2, 3, 3))
    modulus = fx.rheology.relaxation_modulus
    refused(fx.FrameError, "modulus overflowed", modulus, stress, 1e100, kT=1e-100)


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_odd_arguments_of_readers_are_refused(peer, tmp_path):
    mda = peer("MDAnalysis")
    from fixman.io.mdanalysis import MetricAnalysis, read_chains

    universe = mda.Universe.empty(5, trajectory=True)
    universe.add_TopologyAttr("masses", np.ones(5))
    universe.add_TopologyAttr("names", list("ABCDE"))
    universe.add_TopologyAttr("bonds", [(k, k + 1) for k in range(4)])
    universe.atoms.positions = X[0, 0]
    path = tmp_path / "a.pdb"
    universe.atoms.write(path, bonds="all")
    refused(TypeError, "expected a path, got None", read_chains, None)
    for odd in (None, 3, []):
        refused(ValueError, "bonds must be 'topology'", read_chains, path, bonds=odd, masses=1.0)
    for odd, kind, said in (
        (0, ValueError, "none of the 1 frames"),
        ("a", TypeError, "step must be"),
    ):
        refused(kind, said, read_chains, path, step=odd, masses=1.0)
        refused(kind, said, MetricAnalysis(universe).run, step=odd)
    for odd in (None, 3, np.array(1.0)):
        refused(TypeError, "values must be a list", MetricAnalysis, universe, values=odd)


def test_odd_arguments_of_openmm_are_refused(peer):
    openmm = peer("openmm")
    from fixman.io.openmm import Forces, chain, metric_force

    system, springs = openmm.System(), openmm.HarmonicBondForce()
    for k in range(4):
        system.addParticle(12.0)
        springs.addBond(k, k + 1, 0.15, 1e5) if k < 3 else system.addForce(springs)
    for odd in (None, 3, np.array(1)):
        refused(ValueError, "hard must be", chain, system, odd)
    for name in ("rotatable", "straight"):
        refused(TypeError, f"{name} must be a list", chain, system, **{name: 3})
        refused(TypeError, f"{name} must be integers", chain, system, **{name: [("a", "b")]})
    refused(TypeError, "chains must be a list", metric_force, system, chains=3)
    refused(ValueError, "no registered Platform", Forces, system, 3)
    refused(ValueError, "makes no Context", Forces, system, "CPU", properties=3)
    assert "Threads" in Forces(system, "CPU", properties={"Threads": 1})._properties
