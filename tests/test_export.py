"""What other programs read: GSD with bonds, HDF5 with every bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

import fixman as fx
from drifting import Drift
from fixman import observables
from fixman.chains.chain import bonds
from fixman.io.dump import write_dump
from fixman.simulation import simulate as simulation
from fixman.simulation.simulate import simulate

CHAINS = {
    "linear": (fx.Chain.linear(4), [(0, 1), (1, 2), (2, 3)]),
    "held": (fx.Chain.linear(3, base="fixed"), [(0, 1), (1, 2)]),
    "planar": (fx.Chain.linear(4, dim=2, masses=[1, 2, 3, 4]), [(0, 1), (1, 2), (2, 3)]),
    "tree": (fx.Chain.branched([-1, 0, 1, 1, 0]), [(0, 1), (1, 2), (1, 3), (0, 4)]),
    "ring": (fx.Chain.ring(4), [(0, 1), (1, 2), (2, 3), (0, 3)]),
    "braced": (
        fx.Chain.branched([-1, 0, 1, 2], extra=[("length", (2, 0))]),
        [(0, 1), (1, 2), (2, 3), (0, 2)],
    ),
    "bead": (fx.Chain.linear(1), []),
}


@pytest.fixture(params=CHAINS)
def case(request, tmp_path, monkeypatch):
    chain, pairs = CHAINS[request.param]
    monkeypatch.setattr(simulation, "BLOCK_BYTES", 16 * 3 * chain.n * chain.dim * 4)
    x0 = np.random.default_rng(1).normal(size=(3, chain.n, chain.dim))
    run = simulate(chain, x0, Drift(), 20, every=2, rng=2, out=tmp_path / "run")
    return run, pairs


def test_bonds_of_trees_and_rings(case):
    run, pairs = case
    assert [tuple(pair) for pair in bonds(run.chain)] == pairs


def test_bonds_that_were_dropped_as_redundant_are_bonds_still():
    square = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    chain = fx.Chain.from_bonds(
        4, [*square, (1, 3)], dim=2, hard=("length", "angle"), drop_redundant=True
    )
    assert chain.redundant
    assert len(bonds(chain)) == 6


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_gsd_opens_in_mdanalysis(case, tmp_path, peer):
    peer("gsd")
    mda = peer("MDAnalysis")
    from fixman.io.gsd import write_gsd

    run, pairs = case
    n, dim = run.chain.n, run.chain.dim
    write_gsd(run, tmp_path / "x.gsd")
    universe = mda.Universe(str(tmp_path / "x.gsd"))
    expected = {tuple(sorted((i + r * n, j + r * n))) for r in range(3) for i, j in pairs}
    found = universe.bonds.indices if pairs else []
    assert {tuple(sorted(map(int, pair))) for pair in found} == expected
    assert len(universe.atoms) == 3 * n
    if pairs:
        assert [len(f) for f in universe.atoms.fragments] == [n] * 3
    assert [len(residue.atoms) for residue in universe.residues] == [n] * 3
    assert [residue.atoms.indices.tolist() for residue in universe.residues] == [
        list(range(r * n, r * n + n)) for r in range(3)
    ]
    assert np.allclose(universe.atoms.masses.reshape(3, n), run.chain.masses)
    assert len(universe.trajectory) == len(run)
    for k, frame in enumerate(universe.trajectory):
        x = frame.positions.reshape(3, n, 3)
        assert np.allclose(x[..., :dim], run.x[k], rtol=1e-6, atol=1e-6)
        assert not x[..., dim:].any()
        assert frame.data["step"] == run.steps[k]
        assert np.abs(x).max() < 0.5 * frame.dimensions[0]


def test_gsd_of_one_replica_and_some_frames(case, tmp_path, peer):
    hoomd = peer("gsd.hoomd")
    from fixman.io.gsd import write_gsd

    run, pairs = case
    write_gsd(run[1:8:3], tmp_path / "x.gsd", replica=-1)
    with hoomd.open(str(tmp_path / "x.gsd")) as file:
        assert len(file) == 3
        for k, frame in zip((1, 4, 7), file, strict=True):
            x, v = (a.reshape(-1, 3) for a in (frame.particles.position, frame.particles.velocity))
            assert np.allclose(x[:, : run.chain.dim], run.x[k, 2], rtol=1e-6, atol=1e-6)
            assert np.allclose(v[:, : run.chain.dim], run.v[k, 2], rtol=1e-6, atol=1e-6)
            assert frame.log["fixman/time"] == run.times[k]
            assert [tuple(pair) for pair in frame.bonds.group] == pairs
            assert frame.configuration.dimensions == run.chain.dim
            assert frame.configuration.step == run.steps[k]
            assert (frame.particles.body == -2).all()
            held = np.array(frame.constraints.group)
            assert sorted(map(tuple, held.tolist())) == sorted(pairs)  # every bond is hard
            if pairs:
                x0 = run.x[1, 2]
                lengths = np.linalg.norm(x0[held[:, 0]] - x0[held[:, 1]], axis=-1)
                assert np.allclose(frame.constraints.value, lengths, rtol=1e-6)
    for wrong in (3, -4):
        with pytest.raises(ValueError, match=f"replicas 0 to 2, got {wrong}"):
            write_gsd(run, tmp_path / "y.gsd", replica=wrong)
    for wrong in (1.5, True, "0", [0]):
        with pytest.raises(TypeError, match="replica must be an integer, got "):
            write_gsd(run, tmp_path / "y.gsd", replica=wrong)


def test_gsd_has_steps_molecules_angles_and_torsions(case, tmp_path, peer):
    hoomd = peer("gsd.hoomd")
    from fixman.io.gsd import write_gsd

    run, _ = case
    chain = run.chain
    write_gsd(run[2:5], tmp_path / "x.gsd")
    with hoomd.open(str(tmp_path / "x.gsd")) as file:
        assert [frame.configuration.step for frame in file] == run.steps[2:5].tolist()
        frame = file[2]
        frame.validate()
    assert np.array(frame.particles.body).reshape(3, -1).T.tolist() == [[-4, -3, -2]] * chain.n
    x = run.x[4].reshape(-1, chain.dim)
    for kind, measured in (("angles", observables.angles), ("dihedrals", observables.torsions)):
        if kind == "dihedrals" and chain.dim == 2:
            assert not frame.dihedrals.N
            continue
        group = np.array(getattr(frame, kind).group).reshape(3, -1, 3 if kind == "angles" else 4)
        assert (group // chain.n == np.arange(3)[:, None, None]).all()
        assert (group % chain.n == group[0]).all()
        expected = measured(chain, run.x[4])
        assert expected.shape == group.shape[:2]
        for values, terms in zip(expected, group, strict=True):
            u = np.diff(x[terms], axis=1)
            if kind == "angles":
                cosine = (u[:, 0] * u[:, 1]).sum(-1) / np.linalg.norm(u, axis=-1).prod(-1)
            else:
                n = np.cross(u[:, :-1], u[:, 1:])
                cosine = (n[:, 0] * n[:, 1]).sum(-1) / np.linalg.norm(n, axis=-1).prod(-1)
            assert np.allclose(np.cos(values), cosine)


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
@pytest.mark.parametrize("replica", [None, 0, -1])
def test_universes_hold_what_runs_hold(case, peer, replica):
    peer("MDAnalysis")
    run, pairs = case
    n, dim = run.chain.n, run.chain.dim
    chosen = [0, 1, 2] if replica is None else [replica % 3]
    universe = run.universe(replica=replica)
    found = universe.bonds.indices if pairs else []
    shifts = range(0, len(chosen) * n, n)
    expected = {tuple(sorted((i + s, j + s))) for s in shifts for i, j in pairs}
    assert {tuple(sorted(map(int, pair))) for pair in found} == expected
    assert np.allclose(universe.atoms.masses.reshape(-1, n), run.chain.masses)
    assert universe.residues.resids.tolist() == [place + 1 for place in chosen]
    assert [len(residue.atoms) for residue in universe.residues] == [n] * len(chosen)
    assert [frame.time for frame in universe.trajectory] == pytest.approx(run.times)
    for k, frame in enumerate(universe.trajectory):
        for ours, theirs in ((run.x, frame.positions), (run.v, frame.velocities)):
            theirs = theirs.reshape(len(chosen), n, 3)
            assert np.allclose(theirs[..., :dim], ours[k][chosen], rtol=1e-6, atol=1e-6)
            assert not theirs[..., dim:].any()


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_analyses_of_mdanalysis_take_universes(peer):
    msd = peer("MDAnalysis.analysis.msd")
    chain = fx.Chain.linear(4, masses=[1, 2, 3, 4])
    run = simulate(chain, fx.random_walks(chain, 2, rng=1), fx.Langevin(0.05), 40, rng=2, every=2)
    universe = run.universe()
    theirs = msd.EinsteinMSD(universe, select="all", msd_type="xyz", fft=False).run()
    ours = observables.mean_square_displacement(chain, run.x, longest=20)
    assert np.allclose(theirs.results.timeseries, ours.value, atol=1e-5)
    sizes = [
        [f.radius_of_gyration() for f in universe.atoms.fragments] for _ in universe.trajectory
    ]
    assert np.allclose(sizes, observables.radius_of_gyration(chain, run.x), atol=1e-5)
    with pytest.raises(ValueError, match="replicas 0 to 1, got 2"):
        run.universe(replica=2)
    with pytest.raises(ValueError, match="no frame"):
        run[:0].universe()


def test_hdf5_keeps_every_bit(case, tmp_path, peer):
    peer("h5py")
    from fixman.io.hdf5 import read_hdf5, write_hdf5

    run, _ = case
    for number, part in enumerate((run, run[2:9:3], run[::-1])):
        path = tmp_path / f"{number}.h5"
        write_hdf5(part, path)
        back = read_hdf5(path)
        assert back.x.tobytes() == part.x.tobytes()
        assert back.v.tobytes() == part.v.tobytes()
        assert back.steps.tolist() == part.steps.tolist()
        assert back.times.tolist() == part.times.tolist()
        assert back.chain == run.chain
        assert back.about == run.about
        assert back.finished
        assert np.array_equal(back[1:].x, part[1:].x)


def test_hdf5_has_observables_and_long_chains(tmp_path, peer):
    h5py = peer("h5py")
    from fixman.io.hdf5 import read_hdf5, write_hdf5

    chain = fx.Chain.linear(3000)
    x0 = np.random.default_rng(1).normal(size=(2, 3000, 3))
    run = simulate(
        chain, x0, Drift(), 4, every=2, rng=1, observables={"end": lambda chain, x: x[:, -1]}
    )
    write_hdf5(run, tmp_path / "x.h5")
    back = read_hdf5(tmp_path / "x.h5")
    assert np.array_equal(back.observables["end"], run.x[:, :, -1])
    with h5py.File(tmp_path / "x.h5") as file:  # as others would
        assert np.array_equal(file["observables/end/value"], run.x[:, :, -1])
        assert file["observables/end/step"][()].tolist() == [0, 2, 4]
        assert len(file["connectivity/bonds"]) == 2 * 2999
        assert file["particles/chains/position/value"].dtype == np.float64


@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_hdf5_opens_in_mdanalysis_as_h5md(case, tmp_path, peer):
    peer("h5py")
    mda = peer("MDAnalysis")
    from fixman.io.hdf5 import write_hdf5

    run, _ = case
    n, dim = run.chain.n, run.chain.dim
    write_hdf5(run, tmp_path / "x.h5md")
    universe = mda.Universe.empty(3 * n, trajectory=False)
    universe.load_new(str(tmp_path / "x.h5md"), convert_units=False)
    assert len(universe.trajectory) == 11
    for k, frame in enumerate(universe.trajectory):
        x = frame.positions.reshape(3, n, 3)
        assert np.allclose(x[..., :dim], run.x[k], rtol=1e-6, atol=1e-6)
        assert not x[..., dim:].any()
        assert frame.data["step"] == run.steps[k]
        assert frame.time == run.times[k]


def test_files_are_not_overwritten_unasked_nor_left_half(case, tmp_path, peer, monkeypatch):
    peer("gsd")
    peer("h5py")
    from fixman.io.gsd import write_gsd
    from fixman.io.hdf5 import write_hdf5

    run, _ = case
    for write, name in ((write_gsd, "x.gsd"), (write_hdf5, "x.h5")):
        path = tmp_path / name
        path.write_text("mine")
        with pytest.raises(FileExistsError, match="choose another name, or overwrite it"):
            write(run, path)
        assert path.read_text() == "mine"
        write(run, path, overwrite=True)
        assert path.stat().st_size > 100
        with pytest.raises(IsADirectoryError):
            write(run, tmp_path, overwrite=True)
        with pytest.raises(OSError, match="no such folder"):
            write(run, tmp_path / "nowhere" / name)
        with monkeypatch.context() as patch:
            patch.setattr(type(run), "array", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                write(run[:3], tmp_path / f"new{name}")
        assert sorted(p.name for p in tmp_path.iterdir() if "new" in p.name) == []


def test_other_hdf5_files_are_refused(tmp_path, peer):
    h5py = peer("h5py")
    from fixman.io.hdf5 import read_hdf5

    with pytest.raises(FileNotFoundError, match="no such file"):
        read_hdf5(tmp_path / "x.h5")
    (tmp_path / "x.h5").write_text("text")
    with pytest.raises(ValueError, match="was not written by write_hdf5"):
        read_hdf5(tmp_path / "x.h5")
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file["data"] = [1, 2]
    with pytest.raises(ValueError, match="was not written by write_hdf5"):
        read_hdf5(tmp_path / "y.h5")


def test_hdf5_files_that_were_changed_are_refused(tmp_path, peer):
    """Nothing that a file claims is read before its shape is that of the run."""
    h5py = peer("h5py")
    from fixman.io.hdf5 import read_hdf5, write_hdf5

    position = "particles/chains/position"
    path = tmp_path / "x.h5"
    x0 = np.random.default_rng(1).normal(size=(3, 4, 3))
    run = simulate(fx.Chain.linear(4), x0, Drift(), 20, every=2, rng=2)

    def changed(place, make):
        write_hdf5(run, path, overwrite=True)
        with h5py.File(path, "a") as file:
            make(file, place)
        with pytest.raises(ValueError, match=r"x\.h5 was not written by write_hdf5: "):
            read_hdf5(path)

    def claims_terabytes(file, place):
        del file[place]
        file.create_dataset(place, (2**50,), "f8", chunks=(1000,))  # takes no space

    def is_gone(file, place):
        del file[place]

    def is_single(file, place):
        whole = file[place][()]
        del file[place]
        file[place] = whole.astype(np.float32)

    def is_shuffled(file, place):
        file[place][...] = file[place][()][::-1].copy()

    for place in ("fixman/run", "fixman/frames", "fixman/steps_done", f"{position}/step"):
        changed(place, claims_terabytes)
    for place in ("fixman/run", f"{position}/value", "particles/chains/velocity/value"):
        changed(place, is_gone)
    changed(f"{position}/value", claims_terabytes)
    changed(f"{position}/value", is_single)
    changed(f"{position}/step", is_shuffled)
    for text in ("[]", "{}", "1", json.dumps(run.about | {"steps": -1})):

        def says(file, place, text=text):
            del file[place]
            file[place] = text

        changed("fixman/run", says)


def shown(run, frame):
    """Return positions of replica 1 in the box, from its lower corner in open space."""
    x, box = run.x[frame, 1], run.system.box
    return x - x.min(axis=0) + 1.0 if box is None else np.mod(x, box)


@pytest.mark.filterwarnings("ignore:Reader has no dt:UserWarning")
@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("edge", [None, 4.0])
def test_dumps_open_in_mdanalysis(tmp_path, peer, dim, edge):
    """Positions, with their images, and velocities are those of the run to twelve digits."""
    mda = peer("MDAnalysis")
    kinds = [(fx.Chain.linear(5, dim=dim), 2), (fx.Chain.linear(3, dim=dim, masses=2.0), 1)]
    system = fx.System(kinds, box=edge)
    x0 = fx.random_walks(fx.System(kinds, box=9.0), 2, rng=1)
    run = fx.simulate(system, x0, fx.Langevin(0.02), 40, every=10, rng=2)
    path = tmp_path / "run.lammpstrj"
    write_dump(run, path, replica=1)
    text = path.read_text().splitlines()
    count, each = system.n, system.n + 9
    assert len(text) == each * len(run)
    for k in range(len(run)):
        head, rows = text[k * each : k * each + 9], text[k * each + 9 : (k + 1) * each]
        assert (int(head[1]), int(head[3])) == (run.steps[k], count)
        ends = np.array([line.split() for line in head[5:8]], float)
        table = np.array([row.split() for row in rows], float)
        found = table[:, 3:6] + table[:, 6:9] * np.diff(ends)[:, 0]
        np.testing.assert_allclose(found[:, :dim], run.x[k, 1], atol=1e-10)
        np.testing.assert_allclose(table[:, 9 : 9 + dim], run.v[k, 1], atol=1e-10)
        assert np.all((table[:, 3:6] >= ends[:, 0]) & (table[:, 3:6] <= ends[:, 1]))
    np.testing.assert_array_equal(table[:, 1], system.molecules() + 1)
    np.testing.assert_array_equal(table[:, 2], [1] * 10 + [2] * 3)
    universe = mda.Universe.empty(count, trajectory=True)
    universe.load_new(str(path), format="LAMMPSDUMP")
    assert len(universe.trajectory) == len(run)
    np.testing.assert_allclose(universe.trajectory[2].positions[:, :dim], shown(run, 2), atol=1e-5)
    with pytest.raises(ValueError, match="a dump holds one: choose it, replica=0"):
        write_dump(run, tmp_path / "two.lammpstrj")
    with pytest.raises(FileExistsError):
        write_dump(run, path, replica=0)
