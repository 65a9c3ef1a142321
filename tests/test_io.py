"""Reading through MDAnalysis: small files written here, and the real ones of MDAnalysisTests."""

from __future__ import annotations

import gc
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from clusters import dask_cluster
from selection import quick

pytestmark = pytest.mark.filterwarnings(
    "ignore:::MDAnalysis", "ignore:::distributed", "ignore:::tests"
)

STYLE = "id resid type x y z"  # LAMMPS's atom style "bond"


@pytest.fixture
def read(peer):
    peer("MDAnalysis")
    from fixman.io.mdanalysis import read_chains

    return read_chains


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def chains_at_random(rng, chains, n, bond=0.97):
    steps = rng.normal(size=(chains, n, 3))
    steps *= bond / np.linalg.norm(steps, axis=2, keepdims=True)
    steps[:, 0] = rng.uniform(-20, 20, (chains, 3))
    return np.cumsum(steps, axis=1)


def linear_bonds(chains, n):
    return [(c * n + k, c * n + k + 1) for c in range(chains) for k in range(n - 1)]


def lammps(path, x, bonds, cell=None, masses=(1.0,), types=None):
    """Write a LAMMPS data file of atom style bond, wrapped into cell (rows: box vectors)."""
    x = np.reshape(x, (-1, 3))
    if cell is None:
        cell = 1000.0 * np.eye(3)
    cell = np.asarray(cell, dtype=float)
    s = x @ np.linalg.inv(cell)
    x = (s - np.floor(s)) @ cell
    types = np.ones(len(x), dtype=int) if types is None else types
    lines = ["written by a test", "", f"{len(x)} atoms", f"{len(bonds)} bonds"]
    lines += [f"{len(masses)} atom types", "1 bond types", ""]
    lines += [f"0.0 {cell[k, k]:.12f} {c}lo {c}hi" for k, c in enumerate("xyz")]
    if np.any(np.tril(cell, -1)):
        lines += ["{:.12f} {:.12f} {:.12f} xy xz yz".format(*cell[[1, 2, 2], [0, 0, 1]])]
    lines += ["", "Masses", "", *(f"{k + 1} {m}" for k, m in enumerate(masses)), ""]
    lines += ["Atoms # bond", ""]
    lines += [
        f"{k + 1} 1 {t} {a:.9f} {b:.9f} {c:.9f}"
        for k, (t, (a, b, c)) in enumerate(zip(types, x, strict=True))
    ]
    if bonds:
        lines += ["", "Bonds", ""]
        lines += [f"{k + 1} 1 {i + 1} {j + 1}" for k, (i, j) in enumerate(bonds)]
    path.write_text("\n".join(lines) + "\n")
    return path


def pdb(path, atoms, models=1):
    """Write a PDB file without bonds; atoms are (name, element, (x, y, z)) of one residue each."""
    lines = []
    for model in range(models):
        lines.append(f"MODEL     {model + 1:4d}")
        lines += [
            f"ATOM  {k + 1:5d}  {name:<3} ALA A{k + 1:4d}    {x:8.3f}{y:8.3f}{z:8.3f}"
            f"  1.00  0.00          {element:>2}"
            for k, (name, element, (x, y, z)) in enumerate(atoms)
        ]
        lines.append("ENDMDL")
    path.write_text("\n".join([*lines, "END"]) + "\n")
    return path


def backbone(count):
    """Return a zigzag of N, CA, C atoms, 1.45 Å apart."""
    names = [("N", "N"), ("CA", "C"), ("C", "C")]
    return [(*names[k % 3], (1.2 * k, 0.8 * (k % 2), 0.1 * k)) for k in range(count)]


CELLS = {
    "orthogonal": np.diag([9.0, 8.0, 10.0]),
    "triclinic": np.array([[9.0, 0, 0], [4.0, 8.0, 0], [-3.0, 2.5, 10.0]]),
}


@pytest.mark.parametrize("cell", CELLS)
def test_wrapped_chains_come_back_whole(read, rng, tmp_path, cell):
    x = chains_at_random(rng, 12, 30)
    path = lammps(tmp_path / "melt.data", x, linear_bonds(12, 30), CELLS[cell])
    (group,) = read(path, select="all", atom_style=STYLE).groups
    assert group.x.shape == (1, 12, 30, 3)
    assert group.x.dtype == np.float64
    bonds = np.diff(group.x[0], axis=1)
    np.testing.assert_allclose(bonds, np.diff(x, axis=1), atol=2e-5)
    np.testing.assert_array_equal(group.atoms, np.arange(360).reshape(12, 30))


def test_no_box_no_unwrapping(read, tmp_path):
    atoms = backbone(6)
    path = pdb(tmp_path / "chain.pdb", atoms)
    (group,) = read(path, select="all", bonds="guess").groups
    np.testing.assert_allclose(group.x[0, 0], [a[2] for a in atoms], atol=1e-6)


def test_scrambled_atoms_are_put_in_order(read, rng, tmp_path):
    x = chains_at_random(rng, 1, 40)[0]
    place = rng.permutation(40)  # bead k is atom place[k]
    shuffled = np.empty_like(x)
    shuffled[place] = x
    bonds = [(place[k], place[k + 1]) for k in rng.permutation(39)]
    path = lammps(tmp_path / "chain.data", shuffled, bonds)
    (group,) = read(path, select="all", atom_style=STYLE).groups
    forwards = place if place[0] < place[-1] else place[::-1]
    np.testing.assert_array_equal(group.atoms[0], forwards)


def test_groups_pool_equal_length_and_masses_even_backwards(read, rng, tmp_path):
    types = [1, 2, 2, 2, 2, 1, 1, 2, 1, 1, 2, 2, 1, 1]  # 122 221 121 12 21
    bonds = [(0, 1), (1, 2), (3, 4), (4, 5), (6, 7), (7, 8), (9, 10), (11, 12)]
    x = rng.uniform(0, 1, (14, 3))
    path = lammps(tmp_path / "mix.data", x, bonds, masses=(3.0, 5.0), types=types)
    data = read(path, select="all", atom_style=STYLE)
    atoms = [group.atoms.tolist() for group in data.groups]
    assert atoms == [[[0, 1, 2], [5, 4, 3]], [[6, 7, 8]], [[9, 10], [12, 11]]]
    masses = [group.masses.tolist() for group in data.groups]
    assert masses == [[3.0, 5.0, 5.0], [3.0, 5.0, 3.0], [3.0, 5.0]]
    assert data.notes == (
        "skipped 1 of 14 selected atoms, without a bond to another, the first is atom index 13",
    )


def test_only_bonds_within_the_selection_count(read, rng, tmp_path):
    bonds = [(0, 1), (1, 2), (1, 3)]
    path = lammps(
        tmp_path / "fork.data", rng.uniform(0, 1, (4, 3)), bonds, masses=(1, 1), types=[1, 1, 1, 2]
    )
    (group,) = read(path, select="type 1", atom_style=STYLE).groups
    assert group.atoms.tolist() == [[0, 1, 2]]
    (whole,) = read(path, select="all", atom_style=STYLE).groups
    assert whole.atoms[0, 0] == 1  # from the centre outwards
    assert whole.bonds.tolist() == [[0, 1], [0, 2], [0, 3]]


def test_everything_connected_is_read_and_pooled(read, rng, tmp_path):
    """Two rings, a chain between them, two equal trees and one of other masses."""
    ring = [(0, 1), (1, 2), (2, 0)]
    tree = [(0, 1), (0, 2), (2, 3), (2, 4)]
    bonds, first = [], 0
    for shape in (ring, [(0, 1)], ring, tree, tree, tree):
        size = max(map(max, shape)) + 1
        bonds += [(first + i, first + j) for i, j in rng.permutation(shape)]
        first += size
    types = np.ones(first, dtype=int)
    types[-1] = 2
    path = lammps(
        tmp_path / "zoo.data", rng.uniform(0, 1, (first, 3)), bonds, masses=(3.0, 5.0), types=types
    )
    groups = read(path, select="all", atom_style=STYLE).groups
    assert [group.label() for group in groups] == [
        "2 rings of 3 beads",
        "1 chain of 2 beads",
        "2 branched chains of 5 beads",
        "1 branched chain of 5 beads",
    ]
    assert np.sort(groups[0].atoms).tolist() == [[0, 1, 2], [5, 6, 7]]
    assert groups[1].bonds is None
    assert np.sort(groups[2].atoms).tolist() == [[*range(8, 13)], [*range(13, 18)]]
    for group in groups[2:]:
        for atoms in group.atoms - group.atoms.min(axis=1, keepdims=True):
            assert sorted(tuple(sorted(pair)) for pair in atoms[group.bonds].tolist()) == tree
    assert sorted(groups[3].masses.tolist()) == [3.0, 3.0, 3.0, 3.0, 5.0]
    assert groups[3].atoms[0, np.argmax(groups[3].masses)] == 22


@pytest.mark.parametrize("cell", CELLS)
def test_wrapped_trees_and_rings_come_back_whole(read, rng, tmp_path, cell):
    n = 30
    parents = np.concatenate([[-1], [rng.integers(max(0, k - 4), k) for k in range(1, n)]])
    x = np.zeros((6, n, 3))
    x[:, 0] = rng.uniform(-20, 20, (6, 3))
    for k in range(1, n):
        step = rng.normal(size=(6, 3))
        x[:, k] = x[:, parents[k]] + step / np.linalg.norm(step, axis=1, keepdims=True)
    one = [(parents[k], k) for k in range(1, n)]
    one += [(0, parents.tolist().index(1))] if 1 in parents else []  # closes a triangle
    bonds = [(n * c + i, n * c + j) for c in range(6) for i, j in one]
    path = lammps(tmp_path / "trees.data", x, bonds, CELLS[cell])
    (group,) = read(path, select="all", atom_style=STYLE).groups
    assert group.rings == 1
    x = x.reshape(-1, 3)[group.atoms]
    np.testing.assert_allclose(group.x[0] - group.x[0][:, :1], x - x[:, :1], atol=1e-4)


def test_rings_around_the_box_are_refused(read, tmp_path):
    x = [[1.0, 1, 1], [4.0, 1, 1], [7.0, 1, 1], [10.0, 1, 1]]
    bonds = [(0, 1), (1, 2), (2, 3), (3, 0)]
    path = lammps(tmp_path / "around.data", x, bonds, np.diag([12.0, 12.0, 12.0]))
    with pytest.raises(ValueError, match=r"in frame 0 close a ring that winds around the box"):
        read(path, select="all", atom_style=STYLE)


def test_hydrogens_are_told_by_element(read, tmp_path, peer):
    mda = peer("MDAnalysis")
    universe = mda.Universe.empty(3, trajectory=True)
    universe.add_TopologyAttr("masses", [10.0, 4.0, 4.0])  # repartitioned
    universe.add_TopologyAttr("elements", ["O", "H", "H"])
    universe.add_TopologyAttr("bonds", [(0, 1), (0, 2)])
    universe.atoms.positions = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    from fixman.io.mdanalysis import MetricAnalysis

    (meter,) = MetricAnalysis(universe, hard="h-bonds").meters
    assert len(meter.chain.hard) == 2
    universe.add_TopologyAttr("elements", ["O", "D", "T"])
    (meter,) = MetricAnalysis(universe, hard="h-bonds").meters
    assert len(meter.chain.hard) == 2
    universe.add_TopologyAttr("elements", ["O", "", "H"])
    with pytest.raises(ValueError, match=r"mass of 4: .* hydrogens=…"):
        MetricAnalysis(universe, hard="h-bonds")
    (meter,) = MetricAnalysis(universe, hard="h-bonds", hydrogens="index 1 2").meters
    assert len(meter.chain.hard) == 2


def test_topology_without_bonds_names_the_remedy(read, tmp_path):
    path = pdb(tmp_path / "chain.pdb", backbone(9))
    with pytest.raises(ValueError, match=r'has no bonds: .*bonds="guess"'):
        read(path, select="name N CA C")
    data = read(path, select="name N CA C", bonds="guess")
    assert data.groups[0].atoms.tolist() == [list(range(9))]
    assert any("masses are not in the topology" in note for note in data.notes)


def test_unbonded_selection(read, tmp_path):
    path = pdb(tmp_path / "chain.pdb", backbone(9))
    with pytest.raises(ValueError, match="no two of the 3 atoms of 'name CA' are bonded"):
        read(path, select="name CA", bonds="guess")


def test_massless_atoms_are_named(read, tmp_path):
    atoms = backbone(3)
    atoms[1] = ("XX", "", atoms[1][2])
    path = pdb(tmp_path / "site.pdb", atoms)
    import MDAnalysis

    universe = MDAnalysis.Universe(path)
    universe.add_TopologyAttr("bonds", [(0, 1), (1, 2)])
    universe.atoms.write(tmp_path / "site.pdb", bonds="all")
    with pytest.raises(ValueError, match=r"atom index 1 has mass 0.0"):
        read(path, select="all")


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("name ZZ", "matches none of the 6 atoms"),
        ("nmae CA", "selection 'nmae CA'"),
        ("prop mass", "selection 'prop mass'"),  # a TypeError within MDAnalysis
    ],
)
def test_selections_that_select_nothing(read, tmp_path, select, words):
    path = pdb(tmp_path / "chain.pdb", backbone(6))
    with pytest.raises(ValueError, match=words):
        read(path, select=select, bonds="guess")


def test_selection_by_what_the_topology_lacks(read, rng, tmp_path):
    path = lammps(tmp_path / "chain.data", rng.uniform(0, 1, (3, 3)), linear_bonds(1, 3))
    with pytest.raises(ValueError, match=r"selection 'protein': .*resnames"):
        read(path, select="protein", atom_style=STYLE)


def test_files_that_cannot_be_read(read, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*absent\.pdb"):
        read(tmp_path / "absent.pdb", select="all")
    (tmp_path / "broken.data").write_text("this is no data file\n")
    with pytest.raises(ValueError, match=r"broken\.data is no LAMMPS data file, or was cut off"):
        read(tmp_path / "broken.data", select="all", atom_style=STYLE)


@pytest.mark.parametrize("name", ["x", "x.xyz", "x.pdb", "x.psf", "x.gro", "x.dump"])
def test_files_of_misleading_names(read, tmp_path, name):
    path = tmp_path / name
    path.write_text("@<TRIPOS>MOLECULE\nx\n1 0\nSMALL\nUSER_CHARGES\n")
    words = "if the name misleads, give topology_format='PSF' or format='DCD'$"
    with pytest.raises(ValueError, match=words):
        read(path, select="all")


def test_long_explanations_are_cut_and_the_order_is_said(read, tmp_path, peer):
    files = peer("MDAnalysisTests.datafiles")
    with pytest.raises(ValueError, match="if the name misleads") as swapped:
        read(files.DCD, files.PSF, select="all")
    assert len(str(swapped.value)) < 700
    (tmp_path / "chain.foo").write_text("of no format")
    with pytest.raises(ValueError, match=r"'FOO' isn't .* inferred; if the name") as unknown:
        read(tmp_path / "chain.foo", select="all")
    assert len(str(unknown.value)) < 500


def test_bond_near_half_the_box(read, tmp_path):
    x = [[1.0, 1, 1], [5.8, 1, 1], [6.8, 1, 1]]
    path = lammps(tmp_path / "small.data", x, [(0, 1), (1, 2)], np.diag([10.0, 90.0, 90.0]))
    with pytest.raises(ValueError, match=r"indices 0 and 1 in frame 0 .* close to half the box"):
        read(path, select="all", atom_style=STYLE)


def test_coincident_bonded_atoms(read, tmp_path):
    x = [[1.0, 1, 1], [2.0, 1, 1], [2.0, 1, 1]]
    path = lammps(tmp_path / "twins.data", x, [(0, 1), (1, 2)])
    with pytest.raises(ValueError, match=r"indices 1 and 2 in frame 0 .* coincide"):
        read(path, select="all", atom_style=STYLE)


def test_frames(read, tmp_path):
    path = pdb(tmp_path / "many.pdb", backbone(6), models=7)
    data = read(path, select="all", bonds="guess", start=1, step=2)
    assert data.frames.tolist() == [1, 3, 5]
    assert data.groups[0].x.shape == (3, 1, 6, 3)
    words = "none of the 7 frames, counted from 0, is left by start=3, stop=3, step=None"
    with pytest.raises(ValueError, match=words):
        read(path, select="all", bonds="guess", start=3, stop=3)
    with pytest.raises(ValueError, match=r"step=0$"):
        read(path, select="all", bonds="guess", step=0)


def test_adenylate_kinase(read, peer):
    files = peer("MDAnalysisTests.datafiles")
    data = read(files.PSF, files.DCD, select="name N CA C")
    (group,) = data.groups
    assert group.x.shape == (98, 1, 642, 3)
    assert group.masses[:3].tolist() == [14.007, 12.011, 12.011]
    lengths = np.linalg.norm(np.diff(group.x, axis=2), axis=3)
    assert 1.2 < lengths.min() < lengths.max() < 1.8
    with pytest.raises(ValueError, match="holds no coordinates: give a trajectory"):
        read(files.PSF, select="name N CA C")
    (whole,) = read(files.PSF, files.DCD, select="protein", step=50).groups
    assert whole.label() == "1 branched chain of 3341 beads and 25 rings"


def test_polyamide(read, peer):
    files = peer("MDAnalysisTests.datafiles")
    (group,) = read(files.LAMMPSdata, select="type 3 4 5", atom_style="full").groups
    assert group.x.shape == (1, 24, 281, 3)
    lengths = np.linalg.norm(np.diff(group.x, axis=2), axis=3)
    assert 1.2 < lengths.min() < lengths.max() < 1.8


def test_without_mdanalysis_the_error_says_what_to_install():
    code = "import sys; sys.modules['MDAnalysis'] = None; import fixman.io.mdanalysis"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "fixman-chains[md]"' in done.stderr


# --- what files do not say ----------------------------------------------------------------------


@pytest.fixture
def universe(peer):
    """Return the module of names, formats and masses."""
    peer("MDAnalysis")
    from fixman.io.mdanalysis import universe

    return universe


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("72", 72.0),
        (2, 2.0),
        ("1=12.011, 2=1.008", {"1": 12.011, "2": 1.008}),
        ({1: 3}, {"1": 3.0}),
    ],
)
def test_masses_as_users_say_them(universe, given, found):
    assert universe.parse_masses(given) == found


@pytest.mark.parametrize(
    "given", ["0", "-1", "nan", "heavy", "1=", {"1": 0}, {"1": None}, None, [1.0, 2.0]]
)
def test_masses_that_are_none(universe, given):
    with pytest.raises(ValueError, match="masses"):
        universe.parse_masses(given)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.psf", "PSF"), ("a.PDB", "PDB"), ("a.pdb.gz", "PDB"), ("data.melt", "DATA"),
        ("melt.data", "DATA"), ("dump.melt.gz", "LAMMPSDUMP"), ("a.lammpstrj", "LAMMPSDUMP"),
        ("dump.xyz", "XYZ"), ("data.psf", "PSF"), ("psf.melt", None), ("melt", None),
        ("run.h5", "H5MD"),
    ],
)  # fmt: skip
def test_formats_by_name(universe, name, kind):
    assert universe.format_of(Path(name)) == kind
    assert universe.format_of(Path(name), "dump") == "LAMMPSDUMP"


@pytest.mark.parametrize(
    ("line", "style", "given"),
    [
        ("1 1 0.5 0.5 0.5", "atomic", None),
        ("1 1 0.5 0.5 0.5 0 0 -1", "atomic", None),
        ("1 1 2 0.5 0.5 0.5", "molecular", None),
        ("1 2 -0.8 0.5 0.5 0.5", "charge", None),
        ("1 1 2 -0.8 0.5 0.5 0.5", "molecular", "full"),
        ("1 1 2 -0.8 0.5 0.5 0.5", "", "id resid type charge x y z"),
    ],
)
def test_atom_styles(universe, tmp_path, line, style, given):
    path = tmp_path / "data.x"
    box = "".join(f"0 9 {c}lo {c}hi\n" for c in "xyz")
    path.write_text(f"title\n\n1 atoms\n{box}\nAtoms # {style}\n\n{line}\n")
    made, _ = universe.open_universe(path, atom_style=given, masses=1.0)
    assert made.atoms.types[0] == ("1" if style == "atomic" else "2")
    np.testing.assert_array_equal(made.atoms.positions, [[0.5, 0.5, 0.5]])


@pytest.mark.parametrize("style", ["", "body"])
def test_atom_styles_that_are_not_known(universe, tmp_path, style):
    path = tmp_path / "data.x"
    path.write_text(f"title\n\n1 atoms\n\nAtoms # {style}\n\n1 1 0 0 0\n")
    with pytest.raises(ValueError, match=f"style of data.x is {style or 'unknown'}: give"):
        universe.open_universe(path)


def test_dumps_that_are_cut_off(universe, rng, tmp_path):
    data = lammps(tmp_path / "data.pair", [[1.0, 1, 1], [2, 1, 1]], [(0, 1)])
    dump = tmp_path / "dump.pair"
    frame = (
        "ITEM: TIMESTEP\n0\nITEM: NUMBER OF ATOMS\n2\nITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\n"
        "ITEM: ATOMS id x y z\n1 1 1 1\n2 2 1 1.25\n"
    )
    for text, notes in ((frame, ()), (2 * frame, ()), (frame + frame[:-16], 1)):
        dump.write_text(text)
        _, found = universe.open_universe(data, dump)
        assert len(found) == bool(notes)
    dump.write_text((frame + frame)[:-3])
    with pytest.raises(ValueError, match=r"dump\.pair ends within a line"):
        universe.open_universe(data, dump)
    dump.write_text(frame.replace(" id x", " x").replace("\n1 1 1 1\n2 2", "\n1 1 1\n2"))
    with pytest.raises(ValueError, match=r"dump\.pair has no column id"):
        universe.open_universe(data, dump)


def test_a_data_file_that_was_cut_off(read, rng, tmp_path):
    path = lammps(tmp_path / "data.cut", rng.uniform(0, 1, (6, 3)), linear_bonds(1, 6))
    path.write_text(path.read_text()[:-16])
    with pytest.raises(ValueError, match=r"data\.cut"):
        read(path)


def test_the_times_of_a_lammps_dump_are_its_steps(read, tmp_path):
    data = lammps(tmp_path / "data.pair", [[1.0, 1, 1], [2, 1, 1]], [(0, 1)])
    dump = tmp_path / "pair.lammpstrj"
    dump.write_text(
        "".join(
            f"ITEM: TIMESTEP\n{step}\nITEM: NUMBER OF ATOMS\n2\n"
            "ITEM: BOX BOUNDS pp pp pp\n0 9\n0 9\n0 9\nITEM: ATOMS id type x y z\n"
            "1 1 1 1 1\n2 1 2 1 1\n"
            for step in (500, 750, 1000)
        )
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Reader has no dt")
        assert read(data, dump).times.tolist() == [500.0, 750.0, 1000.0]


def test_masses_bonds_and_hydrogens_can_be_said(read, rng, tmp_path):
    x = chains_at_random(rng, 1, 6)
    path = lammps(tmp_path / "data.six", x, linear_bonds(1, 6), masses=(1, 1), types=[1, 2] * 3)
    (group,) = read(path, masses="1=12.011,2=3.0", hydrogens="type 2").groups
    assert group.masses.tolist() == [12.011, 3.0] * 3
    assert group.hydrogens.tolist() == [False, True] * 3
    (group,) = read(path, masses=2.5, bonds="1-2").groups
    assert group.masses.tolist() == [2.5] * 6
    text = path.read_text().replace("1 1 1 2\n", "1 7 1 2\n")
    path.write_text(text)
    assert [group.atoms.shape for group in read(path, bonds="1").groups] == [(1, 5)]
    with pytest.raises(ValueError, match="got 8: the selection has 1, 7, 1-2, 2-1"):
        read(path, bonds="1,8")


def test_guessed_bonds_are_counted(read, tmp_path):
    path = pdb(tmp_path / "chain.pdb", backbone(9))
    assert "8 bonds guessed from distances in the first frame" in read(path, bonds="guess").notes


@pytest.mark.parametrize(
    ("name", "mass"), [("ZN", 65.38), ("SI", 28.0855), ("NA", 22.98977), ("CL", 35.45)]
)
def test_masses_of_elements_of_two_letters(peer, tmp_path, name, mass):
    peer("MDAnalysis")
    from fixman.io.mdanalysis.universe import open_universe

    path = pdb(tmp_path / "ion.pdb", [(name, name, (0.0, 0.0, 0.0))])
    universe, _ = open_universe(path)
    assert universe.atoms.masses == pytest.approx([mass], abs=0.01)


# --- MetricAnalysis -----------------------------------------------------------------------------


@pytest.fixture
def analysis(peer):
    peer("MDAnalysis")
    from fixman.io.mdanalysis import MetricAnalysis

    return MetricAnalysis


@pytest.fixture
def adk(peer):
    files = peer("MDAnalysisTests.datafiles")
    return peer("MDAnalysis").Universe(files.PSF, files.DCD)


@pytest.mark.parametrize(
    ("word", "said"),
    [("as_is", 'values="as-is"'), ("hardd", "did you mean hard"), ("bond", "did you mean bonds")],
)
def test_arguments_that_an_analysis_does_not_know(analysis, adk, word, said):
    with pytest.raises(TypeError, match=f"MetricAnalysis has no argument '{word}'.*{said}"):
        analysis(adk, **{word: True})


def in_memory(mda, x, bonds, masses, box=None):
    """Make a universe of x (frames, atoms, 3) without a file."""
    universe = mda.Universe.empty(x.shape[1], trajectory=True)
    universe.add_TopologyAttr("masses", masses)
    universe.add_TopologyAttr("bonds", bonds)
    universe.load_new(x.astype(np.float32), dimensions=box)
    return universe


def assert_identical(one, other):
    assert one.results.keys() == other.results.keys()
    assert "half_logdet" in one.results
    for name, arrays in one.results.items():
        for a, b in zip(arrays, other.results[name], strict=True):
            assert (a is None and b is None) or (a.dtype == b.dtype and np.array_equal(a, b))
    for a, b in zip(one.values or (), other.values or (), strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(one.frames, other.frames)
    assert np.array_equal(one.times, other.times)


@pytest.mark.parametrize(
    ("residues", "hard"),
    [  # residue 9 is a proline, with a ring
        ("1:12", ("length",)),
        ("1:8", ("length", "angle")),
        ("1:12", "torsional"),
        ("1:12", "h-bonds"),
    ],
)
def test_frame_by_frame_is_the_audit_of_all_frames(analysis, adk, residues, hard):
    from fixman.analysis.audit import AuditReport, audit

    select = f"resid {residues}"
    run = analysis(adk, select, hard=hard, histograms=True).run(start=5, stop=60, step=3)
    data = read_at_once(adk, run.meters[0].molecules.atoms[0], slice(5, 60, 3))
    (group,) = audit(data, hard, histograms=True).groups
    (same,) = AuditReport.from_analysis(run).groups
    assert run.results.half_logdet[0].shape == (19, 1)
    np.testing.assert_array_equal(run.frames, np.arange(5, 60, 3))
    np.testing.assert_allclose(same.half_logdet, group.half_logdet, rtol=0, atol=1e-9)
    for name, values in group.sizes.items():
        np.testing.assert_allclose(same.sizes[name], values, rtol=1e-10)
    for name, values in group.counts.items():
        np.testing.assert_array_equal(same.counts[name], values)
    assert same.label == group.label
    assert same.scatter[:3] == group.scatter[:3]


def read_at_once(universe, indices, frames):
    """Read one molecule, its atoms in this order, without a reader of ours."""
    from fixman.analysis.groups import ChainGroup

    atoms = universe.atoms[indices]
    place = {int(atom): k for k, atom in enumerate(indices)}
    bonds = np.array(
        sorted(sorted(place[int(i)] for i in pair) for pair in atoms.intra_bonds.indices)
    )
    x = np.array([atoms.positions for _ in universe.trajectory[frames]], dtype=float)
    return [ChainGroup(atoms.masses, atoms.indices[None], x[:, None], bonds=bonds)]


@pytest.mark.thorough
def test_backends_agree_to_the_last_bit(analysis, adk, peer):
    peer("dask")
    make = {"hard": ("length", "angle"), "histograms": True}
    serial = analysis(adk, "name N CA C and resid 1:40", **make).run(stop=31)
    for backend, workers in (("multiprocessing", 2), ("multiprocessing", 3), ("dask", 2)):
        other = analysis(adk, "name N CA C and resid 1:40", **make)
        other.run(stop=31, backend=backend, n_workers=workers)
        assert_identical(serial, other)


def test_universes_in_memory_and_atom_groups(analysis, rng, peer):
    mda = peer("MDAnalysis")
    from fixman.analysis.audit import audit
    from fixman.analysis.groups import ChainGroup

    x = np.stack([chains_at_random(rng, 5, 8).reshape(-1, 3) for _ in range(11)])
    masses = rng.uniform(1, 5, 8)
    universe = in_memory(mda, x, linear_bonds(5, 8), np.tile(masses, 5))
    group = universe.select_atoms("index 8:39")
    serial = analysis(group).run()
    assert serial.results.half_logdet[0].shape == (11, 4)
    assert_identical(serial, analysis(group).run(backend="multiprocessing", n_workers=2))
    pool = x.astype(np.float32).astype(float).reshape(11, 5, 8, 3)[:, 1:]
    expected = audit([ChainGroup(masses, np.arange(32).reshape(4, 8), pool)]).groups[0]
    np.testing.assert_allclose(serial.results.half_logdet[0], expected.half_logdet, atol=1e-12)
    assert serial.results.square_end_to_end[0].shape == (11, 4)


def test_values_may_be_given_or_left_alone(analysis, adk):
    some = {"select": "name N CA C and resid 1:6", "hard": ("length", "angle")}
    means = analysis(adk, **some).run(stop=20)
    given = analysis(adk, **some, values=means.values).run(stop=20)
    assert_identical(means, given)
    as_is = analysis(adk, **some, values="as-is").run(stop=20)
    assert as_is.values is None
    assert not np.allclose(as_is.results.half_logdet[0], given.results.half_logdet[0])
    from fixman.analysis.audit import AuditReport

    assert "(at given values)" in str(AuditReport.from_analysis(given))
    assert AuditReport.from_analysis(as_is).groups[0].ensemble == "rigid"
    bare = analysis(adk, **some, values=means.values[0]).run(stop=20)
    assert_identical(means, bare)
    for three in ([np.ones(3)], np.ones(3), [1, 1, 1]):
        with pytest.raises(ValueError, match=r"of shapes \[\(33,\)\], got \[\(3,\)\]"):
            analysis(adk, **some, values=three)
    with pytest.raises(ValueError, match="'means' or 'as-is', got 'zero'"):
        analysis(adk, **some, values="zero")
    with pytest.raises(ValueError, match="has not run yet"):
        AuditReport.from_analysis(analysis(adk, **some))


def test_files_and_universes_are_not_mixed_up(analysis, read, adk):
    with pytest.raises(TypeError, match=r"expected a Universe .*, got 'adk\.psf'"):
        analysis("adk.psf", "protein")
    with pytest.raises(TypeError, match=r"expected a path, got <Universe.*MetricAnalysis takes"):
        read(adk, select="protein")


def test_errors_name_the_frames_of_the_trajectory(analysis, adk):
    """Where values do not fit together in a ring; and the remedy is named."""
    from fixman import ConstraintSolveError

    hard = ("length", "angle")
    (meter,) = analysis(adk, "resid 9", hard=hard).meters
    values = np.where([c.kind == "length" for c in meter.chain.extra], 9.0, 0.1)
    values = np.append(np.full(len(meter.chain.hard) - len(values), 1.5), values)
    run = analysis(adk, "resid 9", hard=hard, values=values)
    words = r'be met in frame \d0, chain 0: in rings hold all but .*, hard="torsional", or'
    for how in ({}, {"backend": "multiprocessing", "n_workers": 2}):
        with pytest.raises(ConstraintSolveError, match=words):
            run.run(start=20, step=10, **how)


def bad_frames(mda, rng, bad=(7,), frames=60):
    """Return chains of two kinds, one with a straight bend in these frames, and their analysis."""
    short = [chains_at_random(rng, 3, 5).reshape(-1, 3) for _ in range(frames)]
    long = [chains_at_random(rng, 2, 7).reshape(-1, 3) for _ in range(frames)]
    x = np.concatenate([np.stack(short), np.stack(long)], axis=1)
    x = np.round(64.0 * x) / 64.0  # exact in single precision
    for frame in bad:
        x[frame, 5:10] -= x[frame, 5].copy()
        x[frame, 7] = 2 * x[frame, 6]
    pairs = linear_bonds(3, 5) + [(15 + i, 15 + j) for i, j in linear_bonds(2, 7)]
    return in_memory(mda, x, pairs, np.ones(29)), np.delete(np.arange(frames), bad)


@pytest.mark.parametrize("values", quick(["means", "as-is"], "means"))
def test_one_bad_frame_does_not_lose_the_others(analysis, rng, peer, values):
    universe, rest = bad_frames(peer("MDAnalysis"), rng)
    hard = ("length", "angle")
    expected = analysis(universe, hard=hard, values=values).run(frames=rest)
    run = analysis(universe, hard=hard, values=values)
    for how in ({}, {"backend": "multiprocessing", "n_workers": 2, "n_parts": 30}):
        run.run(**how)
        assert run.frames.tolist() == rest.tolist()
        assert len(run.times) == 59
        assert_identical(expected, run)
        (note,) = run.notes
        assert note.startswith("left out 1 of 60 frames; the first: ")
        assert "in frame 7, chain 1" in note
    universe, _ = bad_frames(peer("MDAnalysis"), rng, bad=(7, 20, 30, 31))
    for how in ({}, {"backend": "multiprocessing", "n_workers": 2}):
        with pytest.raises(ValueError, match=r"in frame \d+, chain 1"):
            analysis(universe, hard=hard, values=values).run(**how)


def test_frames_lost_in_the_second_pass_do_not_count_in_the_means(analysis, rng, peer, monkeypatch):
    from fixman import ConstraintSolveError
    from fixman.analysis.samples import Meter

    universe, _ = bad_frames(peer("MDAnalysis"), rng, bad=())
    expected = analysis(universe).run(frames=np.delete(np.arange(60), 11))
    measure, bad = Meter.measure, universe.trajectory[11].positions[0].astype(float)

    def refuse(self, x, values=None, **options):
        if np.array_equal(x[0, 0, 0], bad):
            raise ConstraintSolveError("no way", frame=(0, 0))
        return measure(self, x, values, **options)

    monkeypatch.setattr(Meter, "measure", refuse)
    run = analysis(universe).run()
    assert run.notes == ("left out 1 of 60 frames; the first: no way in frame 11, chain 0",)
    assert 11 not in run.frames
    assert_identical(expected, run)


def test_more_parts_than_workers_repeat_nothing(analysis, adk):
    some = {"select": "name N CA C and resid 1:6"}
    serial = analysis(adk, **some).run(stop=20)
    run = analysis(adk, **some).run(stop=20, backend="multiprocessing", n_workers=2, n_parts=9)
    assert run.frames.tolist() == list(range(20))
    assert_identical(serial, run)


def test_frames_by_number_or_mask_and_runs_again(analysis, adk):
    run = analysis(adk, "name N CA C and resid 1:6").run(frames=[3, 50, 7])
    assert run.frames.tolist() == [3, 50, 7]
    mask = np.zeros(98, dtype=bool)
    mask[[3, 7, 50]] = True
    first = run.results.half_logdet[0].copy()
    run.run(frames=mask)
    assert run.frames.tolist() == [3, 7, 50]
    np.testing.assert_allclose(np.sort(run.results.half_logdet[0][:, 0]), np.sort(first[:, 0]))
    for nothing in ([], np.zeros(98, dtype=bool)):
        with pytest.raises(ValueError, match="none of the 98 frames"):
            run.run(frames=nothing)
    with pytest.raises(ValueError, match="none of the 98 frames"):
        run.run(start=98)
    with pytest.raises(ValueError, match=r"step=0$"):
        run.run(step=0)


def test_workers_name_atoms_too(analysis, rng, peer):
    mda = peer("MDAnalysis")
    x = np.stack([chains_at_random(rng, 2, 4).reshape(-1, 3) for _ in range(6)])
    x[4, 6] = x[4, 5]
    x[5, 1] = np.nan
    universe = in_memory(mda, x, linear_bonds(2, 4), np.ones(8))
    words = "atom indices 5 and 6 in frame 4 are bonded and coincide"
    for how in ({}, {"backend": "multiprocessing", "n_workers": 2}):
        with pytest.raises(ValueError, match=words):
            analysis(universe).run(stop=5, **how)
        with pytest.raises(ValueError, match="atom index 1 has no finite position in frame 5"):
            analysis(universe).run(start=5, stop=6, **how)


def test_what_a_universe_may_lack(analysis, peer):
    mda = peer("MDAnalysis")
    universe = mda.Universe.empty(3)
    with pytest.raises(ValueError, match="the universe holds no coordinates"):
        analysis(universe)
    universe = mda.Universe.empty(3, trajectory=True)
    with pytest.raises(ValueError, match="the topology has no bonds"):
        analysis(universe)
    universe.add_TopologyAttr("bonds", [(0, 1), (1, 2)])
    with pytest.raises(ValueError, match="mass information"):
        analysis(universe)
    universe.add_TopologyAttr("masses", [1.0, 0.0, 1.0])
    with pytest.raises(ValueError, match="atom index 1 has mass 0"):
        analysis(universe)
    with pytest.raises(ValueError, match=r"'index 7' matches none of the 3 atoms$"):
        analysis(universe, "index 7")


def test_the_topology_stays_at_home(analysis, adk):
    import pickle

    full = analysis(adk, "name N CA C")
    assert pickle.loads(pickle.dumps(full))._universe is None
    assert len(pickle.dumps(full)) < 0.2 * len(pickle.dumps(adk))


@pytest.mark.thorough
def test_adenylate_kinase_on_a_dask_scheduler_with_two_workers(analysis, adk, tmp_path, peer):
    peer("distributed")
    from fixman.io.dask import connect
    from fixman.io.mdanalysis import DistributedBackend

    make = {"hard": ("length", "angle"), "histograms": True}
    serial = analysis(adk, "name N CA C", **make).run()
    assert serial.results.half_logdet[0].shape == (98, 1)
    assert serial.results.half_logdet[0].std() == pytest.approx(1.226, abs=5e-4)
    with dask_cluster(tmp_path, 2) as address, connect(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        backend = DistributedBackend(client)
        assert backend.n_workers == 2
        remote = analysis(adk, "name N CA C", **make).run(backend=backend)
        assert_identical(serial, remote)
        ran = client.run(lambda: "MDAnalysis" in __import__("sys").modules)
        assert list(ran.values()) == [True, True]


def test_schedulers_that_are_not_there(peer, tmp_path, monkeypatch):
    distributed = peer("distributed")
    from fixman.io.dask import connect

    for address in ("127.0.0.1", "pigeon://127.0.0.1:1", "", "tls://127.0.0.1:1"):
        with pytest.raises(ConnectionError, match="no Dask scheduler answers at"):
            connect(address).__enter__()
    with pytest.raises(
        ConnectionError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1:"
    ):
        connect("tcp://127.0.0.1:1", timeout=0.5).__enter__()
    with pytest.raises(TypeError, match="address must be a string"):
        connect(8786).__enter__()
    # A client that failed and is still open can block the start of the next one.
    clients = [one for one in gc.get_objects() if type(one).__name__ == "Client"]
    assert {one.status for one in clients} <= {"closed"}
    wait, waited = distributed.Client.wait_for_workers, []

    def wait_shortly(client, workers, timeout):
        waited.append(timeout)
        return wait(client, workers, timeout=0.1)

    monkeypatch.setattr(distributed.Client, "wait_for_workers", wait_shortly)
    with dask_cluster(tmp_path, 0) as address:
        words = f"scheduler at {address} has no workers: .*`dask worker {address}`"
        with pytest.raises(ConnectionError, match=words):
            connect(address, timeout=60.0).__enter__()
    assert waited == [60.0]


def test_without_dask_the_error_says_what_to_install():
    code = "import sys; sys.modules['distributed'] = None; import fixman.io.dask"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "fixman-chains[dask]"' in done.stderr


@pytest.mark.parametrize("angles", [(0, 0, 0), (np.nan, 90, 90), (30, 30, 170)])
def test_an_impossible_box_is_refused(angles, peer):
    peer("MDAnalysis")
    from fixman.io.mdanalysis.frames import _shortest

    now = SimpleNamespace(dimensions=np.array([10, 10, 10, *angles], np.float32), frame=3)
    with pytest.raises(ValueError, match="frame 3 has an impossible box"):
        _shortest(np.ones((1, 2, 3)), now)
