"""Reading through MDAnalysis: small files written here, and the real ones of MDAnalysisTests."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore:::MDAnalysis", "ignore:::tests")

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
    lines += ["", "Masses", "", *(f"{k + 1} {m}" for k, m in enumerate(masses)), "", "Atoms", ""]
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
        "skipped 1 selected atom(s) without a bond to another selected atom, "
        "the first is atom index 13 (type 1, resid 1)",
    )


def test_only_bonds_within_the_selection_count(read, rng, tmp_path):
    bonds = [(0, 1), (1, 2), (1, 3)]
    path = lammps(
        tmp_path / "fork.data", rng.uniform(0, 1, (4, 3)), bonds, masses=(1, 1), types=[1, 1, 1, 2]
    )
    (group,) = read(path, select="type 1", atom_style=STYLE).groups
    assert group.atoms.tolist() == [[0, 1, 2]]
    with pytest.raises(ValueError, match=r"atom index 1 .* has 3 bonds .* linear backbone"):
        read(path, select="all", atom_style=STYLE)


def test_rings_are_refused(read, rng, tmp_path):
    bonds = [(0, 1), (2, 3), (3, 4), (4, 2)]
    path = lammps(tmp_path / "ring.data", rng.uniform(0, 1, (5, 3)), bonds)
    with pytest.raises(ValueError, match=r"atom index 2 .* ring of bonds"):
        read(path, select="all", atom_style=STYLE)


def test_topology_without_bonds_names_the_remedy(read, tmp_path):
    path = pdb(tmp_path / "chain.pdb", backbone(9))
    with pytest.raises(ValueError, match=r"has no bonds: .*--bonds guess"):
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
    with pytest.raises(ValueError, match=r"atom index 1 \(name XX.* has mass 0.0"):
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
    with pytest.raises(ValueError, match="MDAnalysis cannot read"):
        read(tmp_path / "broken.data", select="all", atom_style=STYLE)


def test_long_explanations_are_cut_and_the_order_is_said(read, tmp_path, peer):
    files = peer("MDAnalysisTests.datafiles")
    with pytest.raises(ValueError, match=r"; the order is topology first, then traj") as swapped:
        read(files.DCD, files.PSF, select="all")
    assert "FORMATs" not in str(swapped.value)
    (tmp_path / "chain.foo").write_text("of no format")
    with pytest.raises(ValueError, match=r"'FOO' isn't .* minimally inferred$") as unknown:
        read(tmp_path / "chain.foo", select="all")
    assert len(str(unknown.value)) < 400
    assert "order" not in str(unknown.value)


def test_bond_near_half_the_box(read, tmp_path):
    x = [[1.0, 1, 1], [5.8, 1, 1], [6.8, 1, 1]]
    path = lammps(tmp_path / "small.data", x, [(0, 1), (1, 2)], np.diag([10.0, 90.0, 90.0]))
    with pytest.raises(ValueError, match=r"atom index 0 .*atom index 1 .* close to half the box"):
        read(path, select="all", atom_style=STYLE)


def test_coincident_bonded_atoms(read, tmp_path):
    x = [[1.0, 1, 1], [2.0, 1, 1], [2.0, 1, 1]]
    path = lammps(tmp_path / "twins.data", x, [(0, 1), (1, 2)])
    with pytest.raises(ValueError, match=r"atom index 1 .*atom index 2 .* coincide in frame 0"):
        read(path, select="all", atom_style=STYLE)


def test_frames(read, tmp_path):
    path = pdb(tmp_path / "many.pdb", backbone(6), models=7)
    data = read(path, select="all", bonds="guess", start=1, step=2)
    assert data.frames.tolist() == [1, 3, 5]
    assert data.groups[0].x.shape == (3, 1, 6, 3)
    words = "none of the 7 frames, counted from 0, is left by start 3, stop 3"
    with pytest.raises(ValueError, match=words):
        read(path, select="all", bonds="guess", start=3, stop=3)
    with pytest.raises(ValueError, match="step must not be 0"):
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
    with pytest.raises(ValueError, match=r"name CA, .* has 3 bonds"):
        read(files.PSF, files.DCD, select="backbone or name CB")


def test_polyamide(read, peer):
    files = peer("MDAnalysisTests.datafiles")
    (group,) = read(files.LAMMPSdata, select="type 3 4 5").groups
    assert group.x.shape == (1, 24, 281, 3)
    lengths = np.linalg.norm(np.diff(group.x, axis=2), axis=3)
    assert 1.2 < lengths.min() < lengths.max() < 1.8


def test_without_mdanalysis_the_error_says_what_to_install():
    code = "import sys; sys.modules['MDAnalysis'] = None; import fixman.io.mdanalysis"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert 'pip install "fixman-chains[md]"' in done.stderr
