"""Homogeneous flows v∞ = κ x for `fixman.Brownian`: their velocity gradients κ (d, d).

A flow is such an array, or a function of time that returns one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from fixman._common import arrays
from fixman._common.arrays import Array

__all__ = ["planar_extension", "shear", "uniaxial_extension"]
__dir__ = __all__.copy  # completion shows public names alone

Constant = tuple[tuple[float, ...], ...]
OfTime = Callable[[float], Any]


def shear(rate: float, dim: int = 3) -> Array:
    """Return κ of simple shear, v_x = rate · y.

    Examples
    --------
    >>> import fixman as fx
    >>> fx.flows.shear(2.0, dim=2)
    array([[0., 2.],
           [0., 0.]])
    """
    arrays.require_space(dim)
    gradient = np.zeros((dim, dim))
    gradient[0, 1] = arrays.number(rate, "rate")
    return gradient


def planar_extension(rate: float, dim: int = 3) -> Array:
    """Return κ of planar extension, v_x = rate · x and v_y = −rate · y."""
    arrays.require_space(dim)
    return np.diag([1.0, -1.0, 0.0][:dim]) * arrays.number(rate, "rate") + 0.0  # no −0


def uniaxial_extension(rate: float) -> Array:
    """Return κ (3, 3) of uniaxial extension along x: rate · diag(1, −½, −½)."""
    return np.diag([1.0, -0.5, -0.5]) * arrays.number(rate, "rate")


# --- for the steppers ----------------------------------------------------------------------------


def checked(flow: Any) -> Constant | OfTime | None:
    """Return a flow as what can be compared: numbers in tuples, or the function."""
    if flow is None:
        return None
    if callable(flow):
        if flow in (shear, planar_extension, uniaxial_extension):
            name = f"flows.{flow.__name__}"
            text = "flow must be a velocity gradient, or a function of time that returns one"
            raise TypeError(f"{text}, got {name}, a function of its rate: give {name}(rate)")
        return flow  # type: ignore[no-any-return]
    return tuple(map(tuple, _gradient(flow, None, "flow").tolist()))


def parameters(flow: Constant | OfTime | None) -> Any:
    """Return a description for JSON; that of a function is only its name."""
    if callable(flow):
        name = getattr(flow, "__qualname__", type(flow).__qualname__)
        return {"name": f"{flow.__module__}.{name}", "own": True}
    return flow if flow is None else [list(row) for row in flow]


def from_parameters(described: Any) -> Any:
    """Return the flow that `parameters` described."""
    if isinstance(described, dict):
        raise ValueError(f"the flow {described.get('name')} is a function of your own")
    return described


def table(flow: Constant | OfTime, dim: int, steps: range, dt: float) -> Array:
    """Return κ (1, d, d) or, of a function, (steps, d, d) in the middle of each of these steps."""
    if callable(flow):
        return at_times(flow, dim, ((step + 0.5) * dt for step in steps))
    return _gradient(flow, dim, "flow")[None]


def at_times(flow: OfTime, dim: int, times: Iterable[float]) -> Array:
    """Return κ (times, d, d) of a function of time."""
    found = [_gradient(flow(time), dim, f"flow({time:g})") for time in times]
    return np.array(found).reshape(-1, dim, dim)


def _gradient(value: Any, dim: int | None, name: str) -> Array:
    array = arrays.real(value, (), name)
    expected = ((2, 2), (3, 3)) if dim is None else ((dim, dim),)
    if array.shape not in expected:
        shapes = " or ".join(map(str, expected))
        raise ValueError(f"{name} must be a velocity gradient {shapes}, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array.tolist()}")
    return array
