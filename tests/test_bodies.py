"""Motion of rigid bodies in files that others read: CSV and PDB."""

import csv

import numpy as np
import pytest

import fixman as fx
from fixman.io.bodies import write_csv, write_pdb
from fixman.rigid import SerialChain, closed, kinematics, motion, statistics


def chain(*joints, seed=1):
    like = SerialChain.random(len(joints), rng=seed, joints=("revolute",))
    bodies = like.rotations, like.translations, like.masses, like.centres, like.inertias
    return SerialChain(joints, *bodies, pitch=0.1 if "helical" in joints else None)


ARM = chain("planar", "revolute", "prismatic", "spherical", "helical")
KINDS = ["PLA", "REV", "PRI", "SPH", "HEL"]
LEG = chain("revolute", "spherical", seed=2)
FOOT = closed.End(None, kinematics.position(LEG, LEG.rest, 1))
LOOP = closed.Linkage((LEG, chain("revolute", seed=3)), closed.Closure(closed.End(1), FOOT, ("x",)))


def rest(arm, *lead):
    return np.broadcast_to(arm.rest, (*lead, arm.nq)).copy()


def read(path):
    with open(path, newline="") as file:
        head, *rows = csv.reader(file)
    return head, np.array(rows, dtype=float)


def test_csv_has_every_bit_under_the_names_of_the_joints(tmp_path):
    path = tmp_path / "x.csv"
    q0 = rest(ARM)
    run = motion.simulate(ARM, q0, 0.01, 12, qd=np.linspace(-1, 1, ARM.nv), every=3)
    run.to_csv(path, names=("table", "elbow", "lift", "wrist", "screw, long"))
    head, table = read(path)
    assert head == [
        "time", "table.x", "table.y", "table.angle", "elbow", "lift",
        "wrist.qx", "wrist.qy", "wrist.qz", "wrist.qw", "screw, long",
        "table.vx", "table.vy", "table.wz", "elbow.rate", "lift.rate",
        "wrist.wx", "wrist.wy", "wrist.wz", "screw, long.rate",
    ]  # fmt: skip
    assert np.array_equal(table, np.column_stack([run.time, run.q, run.qd]))
    run[1:3].to_csv(path, overwrite=True)
    head, part = read(path)
    assert head[4] == "joint1"
    assert np.array_equal(part, table[1:3])
    with pytest.raises(FileExistsError, match="exists"):
        run.to_csv(path)


def test_csv_of_langevin_dynamics_and_of_one_replica(tmp_path):
    arm = chain("revolute", "revolute", "revolute")
    q, qd = statistics.langevin(arm, rest(arm, 2), 0.05, 6, rng=1, every=2)
    write_csv(arm, tmp_path / "x.csv", q, qd, replica=1)
    _, table = read(tmp_path / "x.csv")
    assert np.array_equal(table, np.column_stack([np.arange(3), q[:, 1], qd[:, 1]]))
    write_csv(arm, tmp_path / "y.csv", q, qd, time=[0.1, 0.2, 0.3])
    assert read(tmp_path / "y.csv")[1][:, 0].tolist() == [0.1, 0.2, 0.3]


def atoms(path):
    """Models of a file as {serial: (residue, chain, number, place)}, and its bonds."""
    models, bonds = [], []
    for line in path.read_text().splitlines():
        if line.startswith("MODEL"):
            assert int(line[10:14]) == len(models) + 1
            models.append({})
        elif line.startswith("ATOM"):
            place = [float(line[k : k + 8]) for k in (30, 38, 46)]
            models[-1][int(line[6:11])] = (line[17:20], line[21], int(line[22:26]), place)
        elif line.startswith("CONECT"):
            bonds.append((int(line[6:11]), int(line[11:16])))
    return models, bonds


def test_pdb_has_the_origins_of_the_joints(tmp_path):
    path = tmp_path / "x.pdb"
    run = motion.simulate(ARM, rest(ARM), 0.01, 4, qd=np.linspace(-1, 1, ARM.nv))
    run.to_pdb(path, tip=(0.1, 0.2, 0.3), scale=2.0)
    models, bonds = atoms(path)
    assert bonds == [(k, k + 1) for k in range(1, 7)]
    assert len(models) == 5
    x = kinematics.frames(ARM, run.q)[1]
    tip = kinematics.position(ARM, run.q, 4, (0.1, 0.2, 0.3))
    for k, model in enumerate(models):
        assert [atom[0] for atom in model.values()] == ["BAS", *KINDS, "TIP"]
        assert [atom[2] for atom in model.values()] == [1, 2, 3, 4, 5, 6, 7]
        found = np.array([atom[3] for atom in model.values()])
        assert np.allclose(found, 2.0 * np.vstack([np.zeros(3), x[k], tip[k]]), atol=6e-4)


def test_pdb_opens_in_mdanalysis(tmp_path, peer):
    mda = peer("MDAnalysis")
    floating = chain("free", "revolute", "revolute")
    write_pdb(floating, tmp_path / "x.pdb", rest(floating, 3, 2), replica=1)
    universe = mda.Universe(str(tmp_path / "x.pdb"))
    assert universe.residues.resnames.tolist() == ["FRE", "REV", "REV"]
    assert len(universe.trajectory) == 3
    assert [tuple(map(int, pair)) for pair in universe.bonds.indices] == [(0, 1), (1, 2)]
    x = kinematics.frames(floating, floating.rest)[1]
    assert np.allclose(universe.atoms.positions, 10 * x, atol=6e-4)


def test_linkages_are_several_chains(tmp_path):
    q = np.concatenate([arm.rest for arm in LOOP.chains])
    run = motion.simulate(LOOP, q, 0.01, 2)
    run.to_pdb(tmp_path / "x.pdb")
    models, bonds = atoms(tmp_path / "x.pdb")
    assert [atom[1] for atom in models[0].values()] == ["A", "A", "A", "B", "B"]
    assert bonds == [(1, 2), (2, 3), (4, 5)]
    run.to_csv(tmp_path / "x.csv")
    head, table = read(tmp_path / "x.csv")
    assert head[1:3] == ["joint0", "joint1.qx"]
    assert np.array_equal(table[:, 1:], np.concatenate([run.q, run.qd], axis=1))


def test_the_command_exports_runs_of_rigid_bodies(tmp_path, run):
    moved = motion.simulate(ARM, rest(ARM), 0.01, 4, qd=np.ones(ARM.nv), out="run")
    answer = run("export", "run", "--to", "x.csv", "--start", "1")
    assert answer == (0, "wrote x.csv: 4 frames\n", "")
    assert np.array_equal(read("x.csv")[1], np.column_stack([moved.time, moved.q, moved.qd])[1:])
    assert run("export", "run", "--to", "x.pdb", "--replica", "0")[0] == 0
    assert len(atoms(tmp_path / "x.pdb")[0]) == 5
    wrong = {
        ("--to", "x.gsd"): "--to must end in .csv, .pdb, got x.gsd",
        ("--to", "y.csv", "--replica", "0"): "--replica is not for .csv",
        ("--to", "x.csv"): "x.csv exists",
    }
    for words, message in wrong.items():
        code, _, said = run("export", "run", *words)
        assert code == 1
        assert message in said


def test_a_run_knows_its_joints_and_its_tip(tmp_path, run):
    leg = {"names": ("hip", "foot"), "tip": (0.1, 0.2, 0.3)}
    moved = motion.simulate(LEG, rest(LEG), 0.01, 2, out="run", **leg)
    assert moved.names == fx.resume("run", 4).names == ("hip", "foot")
    assert run("export", "run", "--to", "x.csv")[0] == 0
    assert read("x.csv")[0][:3] == ["time", "hip", "foot.qx"]
    moved.to_csv("y.csv", names=["a", "b"])
    assert read("y.csv")[0][1] == "a"
    assert run("export", "run", "--to", "x.pdb")[0] == 0
    last = list(atoms(tmp_path / "x.pdb")[0][0].values())[-1]
    assert last[0] == "TIP"
    expected = 10 * kinematics.position(LEG, LEG.rest, 1, leg["tip"])
    np.testing.assert_allclose(last[3], expected, atol=6e-4)
    for names in (["hip"], "hip", ["hip", 2], 7):
        with pytest.raises(ValueError, match="names must be those of 2 joints, got"):
            motion.simulate(LEG, rest(LEG), 0.01, 2, names=names)


def test_what_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "x.pdb"
    far = chain("prismatic")
    with pytest.raises(ValueError, match="lower scale"):
        write_pdb(far, path, [[150.0]])
    write_pdb(far, path, [[50.0]])
    for wrong in (1, 7):
        with pytest.raises(ValueError, match="replica must be below 1"):
            write_pdb(far, path, [[1.0]], replica=wrong)
    with pytest.raises(ValueError, match="names must be those of 5 joints, got 1"):
        write_csv(ARM, path, rest(ARM, 1), np.zeros((1, ARM.nv)), names=["one"])
    with pytest.raises(ValueError, match="nan"):
        write_csv(far, path, [[np.nan]], [[0.0]])
    with pytest.raises(ValueError, match=r"q must have shape \(frames, \.\.\., 1\)"):
        write_pdb(far, path, [1.0])
    with pytest.raises(TypeError, match="SerialChain"):
        write_pdb(fx.Chain.linear(2), path, [[1.0]])
