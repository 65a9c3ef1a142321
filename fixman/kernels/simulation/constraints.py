"""The projections of each kind of hard rows under one name, chosen by the type of ``system``.

    room(system, targets, like)                            what depends on the targets, and work
    hold(system, room, X0, X, V, rate, limits, like)       X onto the manifold, along B(X0)ᵀ, to a
                                                           tolerance, in so many iterations at most
    factor(system, room, X, like)                          factor H^bb at X, which serves to
    project(system, room, V, X, like)                      V along the manifold,
    logdet(system, room, like)                             ln det H^bb but for a constant,
    add_metric_force(system, room, F, X, kT, like)         F += −½ kT ∂ ln det H^bb / ∂x, and
                                                           to hold after a drift from X

With `OFTEN` the system says how many iterations there are at most.  The choice is made when a
kernel is compiled and costs nothing.  A system that is None has no room, no factor and no
force, and nothing is compiled.
"""

from __future__ import annotations

from typing import Any

from fixman.kernels.chain.hard import Hard
from fixman.kernels.compiler.internals import overload, types
from fixman.kernels.simulation import general_steps, jointed_steps, rotating_steps
from fixman.kernels.simulation.jointed_steps import Jointed
from fixman.kernels.simulation.rotating_steps import Rotating

KINDS: dict[Any, Any] = {
    Jointed: jointed_steps,
    Rotating: rotating_steps,
    Hard: general_steps,
}
OFTEN = 1000
# as `exact_arrays` and `exact` in `lanes`
ARRAYS: Any = {
    "nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": True,
    "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
OPTIONS: Any = {**ARRAYS, "_nrt": False}


class _Nothing:
    """The functions of a system that is None."""

    @staticmethod
    def room(system, targets, like):
        return like

    @staticmethod
    def factor(system, room, X, like):
        pass

    @staticmethod
    def add_metric_force(system, room, F, X, kT, like):
        pass


def _chosen(system: Any, name: str) -> Any:
    if isinstance(system, types.NoneType):
        return getattr(_Nothing, name)
    return getattr(KINDS[system.instance_class], name).py_func


def room(system, targets, like):
    """See above."""


def hold(system, room, X0, X, V, rate, limits, like):
    """See above."""


def factor(system, room, X, like):
    """See above."""


def logdet(system, room, like):
    """See above."""


def add_metric_force(system, room, F, X, kT, like):
    """See above."""


def project(system, room, V, X, like):
    """See above."""


@overload(room, jit_options=ARRAYS)
def _(system, targets, like):
    return _chosen(system, "room")


@overload(hold, jit_options=OPTIONS)
def _(system, room, X0, X, V, rate, limits, like):
    return _chosen(system, "hold")


@overload(factor, jit_options=OPTIONS)
def _(system, room, X, like):
    return _chosen(system, "factor")


@overload(logdet, jit_options=OPTIONS)
def _(system, room, like):
    return _chosen(system, "logdet")


@overload(add_metric_force, jit_options=OPTIONS)
def _(system, room, F, X, kT, like):
    return _chosen(system, "add_metric_force")


@overload(project, jit_options=OPTIONS)
def _(system, room, V, X, like):
    return _chosen(system, "project")
