"""The projections of each kind of hard rows under one name, chosen by the type of ``system``.

    room(system, targets, like)                         what depends on the targets, and work
    factor(system, room, X, like)                       LDLᵀ of H^bb at X, for all that follow
    shake(system, room, X0, X, V, rate, limits, like)   X onto the manifold along B(X0)ᵀ, to a
                                                        tolerance in so many iterations at most (R1)
    project(system, room, V, X, like)                   V along the manifold at X (R2)
    logdet(system, room, like)                          ln det H^bb but for a constant
    add_metric_force(system, room, F, X, kT, like)      F ← F − ½ kT ∂ ln det H^bb / ∂x

With `OFTEN` the system says how many iterations there are at most; `jointed_steps.shake` solves
(R3) and needs no factor.  A system that is None has no room, no factor and no force.  Tags are
those of docs/theory.md, section 13.
"""

from typing import Any

from fixman.kernels.chain.hard import Hard
from fixman.kernels.compiler.internals import overload, types
from fixman.kernels.simulation import banded_steps, general_steps, jointed_steps
from fixman.kernels.simulation.banded_steps import Banded
from fixman.kernels.simulation.jointed_steps import Jointed

KINDS: dict[Any, Any] = {Jointed: jointed_steps, Banded: banded_steps, Hard: general_steps}
OFTEN = 1000
# as `exact_arrays` and `exact` in `lanes`
ARRAYS: Any = {
    "nogil": True, "error_model": "numpy", "forceinline": True, "_nrt": True,
    "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
OPTIONS: Any = {**ARRAYS, "_nrt": False}


NOTHING: dict[str, Any] = {
    "room": lambda system, targets, like: like,
    "factor": lambda system, room, X, like: None,
    "add_metric_force": lambda system, room, F, X, kT, like: None,
}


def _chosen(name: str, options: Any) -> Any:
    def function(*args):
        raise NotImplementedError

    @overload(function, jit_options=options, strict=False)
    def _(system, *others):
        if isinstance(system, types.NoneType):
            return NOTHING[name]
        return getattr(KINDS[system.instance_class], name).py_func

    return function


room = _chosen("room", ARRAYS)
shake = _chosen("shake", OPTIONS)
factor = _chosen("factor", OPTIONS)
project = _chosen("project", OPTIONS)
logdet = _chosen("logdet", OPTIONS)
add_metric_force = _chosen("add_metric_force", OPTIONS)
