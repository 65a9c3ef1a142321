"""Energies that compiled samplers ask for, one's own included."""

import numba
import numpy as np
import pytest

import fixman as fx
from fixman.kernels.compiler.lanes import (
    EIGHTS,
    LANES,
    ONE,
    exact_kernel,
    memory,
    put,
    store,
    take,
    zeros,
)
from fixman.kernels.potentials.forces import GHOSTS, add_forces, potential_energy
from fixman.potentials.energies import WCA, Bending, Compiled, Gravity, bind


class Quartic:
    def energy(self, x):
        return 0.25 * float((x**4).sum())

    def force(self, x):
        return -(x**3)


@numba.njit
def quartic_force(x, out):
    out[:] = -(x**3)


def frames(chain, count):
    steps = np.random.default_rng(1).standard_normal((count, chain.n, 3))
    steps /= np.linalg.norm(steps, axis=-1, keepdims=True)
    return np.cumsum(steps, axis=1)


@numba.njit
def quartic_energy(x):
    return 0.25 * (x**4).sum()


@exact_kernel
def energies_of_frames(x, tables, out, states):
    like = zeros(states)
    size = (tables.joints - GHOSTS) * len(tables.axes)
    X, F, work = memory(size, like), memory(size, like), memory(0, like)
    for m in range(size):
        store(X, m, take(x, m, size, like))
    work = add_forces(tables, X, F, 0, work, like)
    for _ in range(2):  # as often as one likes
        put(out, 0, 1, potential_energy(tables, X, F, 0, work, like))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "own",
    [Quartic() + WCA(3.0) + Gravity((1.0, 2.0, 0.0)), Compiled(quartic_force, quartic_energy)],
)
def test_compiled_code_has_all_energies(own):
    chain = fx.Chain.linear(5)
    x = frames(chain, LANES)
    potential = Compiled(quartic_force, Quartic().energy) + Bending(2.0) + own
    wanted = bind(chain, potential).energy(x)
    for states in (ONE, EIGHTS):
        bound = bind(chain, potential, energies=True)
        out = np.zeros(len(states))
        energies_of_frames(x.reshape(-1), bound.tables, out, states)
        assert np.allclose(out, wanted[: len(states)], rtol=1e-13)
        bound.check()


@pytest.mark.thorough
def test_energies_are_compiled_for_samplers_only():
    chain = fx.Chain.linear(5)
    assert bind(chain, Quartic()).tables.energies is None
    assert bind(chain, Bending(1.0), energies=True).tables.energies is None
    with pytest.raises(ValueError, match=r"no energy: give Compiled one, energy=…"):
        bind(chain, Compiled(quartic_force), energies=True)


@numba.njit
def raising_energy(x):
    if x[0, 0] > 0.5:
        raise ZeroDivisionError("mine")
    return np.inf


@numba.njit
def nan_energy(x):
    return np.nan if x[0, 0] > 0.5 else np.inf


@numba.njit
def text_energy(x):
    return "text"


class Raising(Quartic):
    def energy(self, x):
        if x[0, 0] > 0.5:
            raise KeyboardInterrupt
        return np.inf


class Lacking(Quartic):
    def energy(self, x):
        return -np.inf if x[0, 0] > 0.5 else np.inf


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("own", "error", "text"),
    [
        (Raising(), KeyboardInterrupt, None),
        (Lacking(), ValueError, "returned -inf: it must be a finite number, or inf"),
        (
            Compiled(quartic_force, raising_energy),
            RuntimeError,
            "compiled energy raising_energy raised ZeroDivisionError: mine",
        ),
        (
            Compiled(quartic_force, nan_energy),
            ValueError,
            "compiled energy nan_energy returned nan: it must be",
        ),
    ],
)
def test_what_energies_raise_in_compiled_code_comes_through(own, error, text, capfd):
    chain = fx.Chain.linear(4)
    bound = bind(chain, Bending(1.0) + own if isinstance(own, Compiled) else own, energies=True)
    x = np.zeros((LANES, 4, 3))
    x[:, :, 0] = 0.3 * np.arange(4)
    out = np.zeros(LANES)
    energies_of_frames(x.reshape(-1), bound.tables, out, EIGHTS)
    assert np.all(out == np.inf)  # a wall
    bound.check()
    x[4, 0, 0] = 0.6
    energies_of_frames(x.reshape(-1), bound.tables, out, EIGHTS)
    assert np.array_equal(np.isnan(out), np.arange(LANES) == 4)
    with pytest.raises(error, match=text):
        bound.check()
    bound.check()
    assert "ignored" not in capfd.readouterr().err


@pytest.mark.thorough
def test_compiled_energies_of_another_form_are_refused():
    chain = fx.Chain.linear(4)
    with pytest.raises(TypeError, match="cannot compile the compiled energy text_energy for x, a"):
        bind(chain, Compiled(quartic_force, text_energy), energies=True)
    with pytest.raises(TypeError, match="cannot compile the compiled energy quartic_force for x"):
        bind(chain, Compiled(quartic_force, quartic_force), energies=True)


class Later(Quartic):
    """An energy that is one real number as often as it is told, and then what it was given."""

    def __init__(self, found, times):
        self.found, self.times = found, times

    def energy(self, x):
        self.times -= 1
        return self.found if self.times < 0 else 0.0


@pytest.mark.thorough
@pytest.mark.parametrize("times", [0, 3])
@pytest.mark.parametrize("stepper", [fx.MonteCarlo, fx.HybridMonteCarlo])
@pytest.mark.parametrize(
    ("found", "got"),
    [
        (np.zeros(3), r"array\(\[0\., 0\., 0\.\]\)"),
        (np.zeros(1), r"array\(\[0\.\]\)"),
        (None, "None"),
        ("a", "'a'"),
        ("1.0", "'1.0'"),
        (1j, "1j"),
        (np.complex128(1.0), r".*1\+0j.*"),
        ([0.0], r"\[0.0\]"),
    ],
)
def test_an_energy_is_one_real_number(stepper, found, got, times):
    chain = fx.Chain.branched([-1, 0, 0])
    x0 = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    more = {"burn_in": 0} if stepper is fx.MonteCarlo else {"dt": 0.01}
    given = stepper(potential=Later(found, times), **more)
    with pytest.raises(
        TypeError, match=rf"energy\(x\) returned {got}: one real number is expected"
    ):
        given.advance(chain, given.start(chain, x0, None, 1, 1), 20)


@pytest.mark.parametrize("found", [2, 2.0, np.float32(2.0), np.array(2.0), np.int64(2)])
def test_every_kind_of_real_number_is_an_energy(found):
    assert bind(fx.Chain.linear(2), Later(found, 0)).energy(np.eye(3)[:2]) == 2.0
