"""What a function declares of its arguments is what it refuses, by the name of the argument."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import fixman as fx
from fixman import bluemoon, rheology
from fixman._common.declared import Made, Real, Whole, Word, declarations, declared

CHAIN = fx.Chain.linear(3)
X = fx.random_walks(CHAIN, 4, rng=1)
ROW = ("distance", (0, 2))
HELD = bluemoon.hold(CHAIN, ROW)
Y = bluemoon.bring(HELD, X, ROW, 1.5)
STEPPER = fx.Brownian(0.001, flow=fx.flows.shear(1.0))
STRESS = rheology.kramers_stress(CHAIN, X, STEPPER)
OF_FRAMES = {"chain": CHAIN, "x": X, "stepper": STEPPER, "times": np.arange(4.0)}

CALLS = {
    bluemoon.hold: {"chain": CHAIN, "coordinate": ROW},
    bluemoon.bring: {"chain": HELD, "x": X, "coordinate": ROW, "value": 1.5},
    bluemoon.mean_force: {
        "chain": HELD, "x": Y, "coordinate": ROW, "kT": 1.0, "force": np.zeros_like(X),
        "ensemble": "rigid", "sampled": "stiff",
    },
    bluemoon.metric: {"chain": HELD, "x": Y, "coordinate": ROW, "step": 1e-4},
    bluemoon.from_multipliers: {"multipliers": np.ones(3), "Z": np.ones(3), "G": 1.0, "kT": 1.0},
    bluemoon.free_energy: {"xi": [0.0, 1.0], "forces": [(1.0, 0.1)] * 2},
    rheology.giesekus_stress: OF_FRAMES,
    rheology.kramers_stress: OF_FRAMES,
    rheology.tensions: OF_FRAMES,
    rheology.instantaneous_viscosity: {"chain": CHAIN, "x": X, "stepper": STEPPER},
    rheology.shear_functions: {"stress": STRESS, "rate": 1.0},
    rheology.extensional_viscosity: {"stress": STRESS, "rate": 1.0},
    rheology.relaxation_modulus: {
        "stress": np.stack([STRESS, STRESS], axis=1), "interval": 0.1, "kT": 1.0, "lags": 2,
    },
}  # fmt: skip
STRANGE = ["text", 1j, object(), [[1.0], [2.0, 3.0]], np.array("2020-01-01", dtype="M8[D]")]


def wrong(declaration: Any, good: Any) -> list[Any]:
    """Return arguments that a declaration has to refuse."""
    if isinstance(declaration, Made):
        return [*STRANGE, 0.0, None]
    if isinstance(declaration, Word):
        return [*STRANGE[1:3], "", declaration.known[0].upper(), 0]
    if isinstance(declaration, Whole):
        return [*STRANGE, 1.5, declaration.least - 1, 2**70, True]
    assert isinstance(declaration, Real)
    values = [
        *STRANGE,
        np.nan,
        -np.inf,
        np.full(np.shape(good), np.nan),
        1e200 * np.ones_like(good),
    ]
    if declaration.shape:
        values += [np.zeros((0, *np.shape(good)[1:])), *([] if declaration.scalar else [1.0])]
        values += [] if "..." in declaration.shape.split()[-1:] else [np.ones((*np.shape(good), 5))]
    else:
        values += [np.ones(2), True]
    if declaration.positive:
        values += [-np.ones_like(good), np.zeros_like(good)]
    return values + [0.0] * (not declaration.zero)


def test_every_declared_function_is_tried():
    known = {getattr(room, name) for room in (bluemoon, rheology) for name in room.__all__}
    assert {f for f in known if callable(f) and hasattr(f, "__wrapped__")} == set(CALLS)


@pytest.mark.parametrize("function", CALLS, ids=lambda function: function.__name__)
def test_what_is_declared_is_refused_by_name(function):
    function(**CALLS[function])
    found = declarations(function)
    assert found
    for name, declaration in found.items():
        for value in wrong(declaration, CALLS[function].get(name)):
            with pytest.raises((TypeError, ValueError), match=f"^{name} "):
                function(**CALLS[function] | {name: value})


def test_sizes_are_shared_between_arguments():
    @declared
    def dot(
        a: Annotated[Any, Real("... m")],
        b: Annotated[Any, Real("m")],
        c: Annotated[Any, Real()] = None,
    ) -> float:
        return a @ b if c is None else c * (a @ b)

    assert dot([[1.0, 2.0]], [3.0, 4.0]).tolist() == [11.0]
    assert dot([1, 2], b=[3, 4], c=None) == 11.0
    with pytest.raises(
        ValueError, match=r"b must have shape \(m\), none of them 0, m = 2; got \(3,\)"
    ):
        dot([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(TypeError, match="unexpected keyword"):
        dot([1.0], [1.0], d=2.0)
