"""The temperatures of an OpenMM Context: of its thermostats, and of its Fixman force.

U_F is proportional to kT, and OpenMM does not tell a force what the temperature is.  A Context
therefore has the parameter FixmanTemperature, which `set_temperature` sets together with the
thermostats.  Every evaluation compares both, and stops the run if they differ.  The parameter must
not follow by itself: a sampler that exchanges temperatures has to know that U_F depends on them.
"""

import re
import secrets
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import openmm
from openmm import unit

from fixman._common import arrays

PARAMETER = "FixmanTemperature"  # parameter of a Context, in K; 0 until set_temperature
MARK = "FixmanContext"  # parameter by which a force finds its Context
SETTER = "fixman.io.openmm.set_temperature"
SAME = 1e-5  # relative; gas constants differ by less
GAS_CONSTANT = unit.MOLAR_GAS_CONSTANT_R.value_in_unit(unit.kilojoule_per_mole / unit.kelvin)

# The parameters of a Context that are temperatures of OpenMM's own thermostats and barostats.
_OWN = tuple(
    sorted({kind.Temperature() for kind in vars(openmm).values() if hasattr(kind, "Temperature")})
)


class _Thermostat(NamedTuple):
    """One of the places where a Context has a temperature."""

    name: str
    get: Callable[[], Any]
    set: Callable[[float], Any]
    per_kelvin: float = 1.0

    def read(self) -> float:
        value = self.get()
        return float(value._value if unit.is_quantity(value) else value) / self.per_kelvin


@dataclass
class _Known:
    """A Context for which `set_temperature` was called, and the thermostats of its integrator."""

    context: Callable[[], Any]  # weakly
    thermostats: list[_Thermostat]
    looked: bool = False  # whether the force has looked at the System since then


# By their marks.  A mark is a random number, so that it means nothing in another process.
_KNOWN: dict[float, _Known] = {}


def set_temperature(context: Any, temperature: Any = None) -> None:
    """Set the temperature of a Context: of its thermostats, barostats and Fixman force alike.

    Call it for every Context of a System with `metric_force`, such as ``simulation.context``,
    before its first step, and in the place of ``integrator.setTemperature``; without it the run
    stops.  Call it again after ``reinitialize``, and when parameters of another Context were
    loaded.  The temperature is in K or a Quantity, by default that of the thermostats.

    ValueError if the System has no Fixman force; if there is no temperature to be read, or several;
    if a `CustomIntegrator` draws random numbers and has no global variable ``temperature`` (in K)
    or ``kT`` (in kJ/mol).
    """
    if not isinstance(context, openmm.Context):
        raise TypeError(f"expected an openmm.Context, got {type(context).__name__}")
    if MARK not in context.getParameters():
        raise ValueError("the System of this Context has no Fixman force: add metric_force(system)")
    integrated = list(_of_integrator(context.getIntegrator()))
    get, put = context.getParameter, context.setParameter
    names = [name for name in _OWN if name in context.getParameters()]
    own = [_Thermostat(name, partial(get, name), partial(put, name)) for name in names]
    thermostats = integrated + own
    kelvin = _common(thermostats) if temperature is None else _kelvin(temperature)
    for thermostat in thermostats:
        thermostat.set(kelvin * thermostat.per_kelvin)
    context.setParameter(PARAMETER, kelvin)
    known = _KNOWN.get(context.getParameter(MARK))
    if known is None or known.context() is not context:
        mark = float(secrets.randbits(52) + 1)
        _KNOWN[mark] = _Known(weakref.ref(context), integrated)
        weakref.finalize(context, _KNOWN.pop, mark)
        context.setParameter(MARK, mark)
    else:
        known.looked = False


def kT(temperature: Any) -> float:
    """Return k_B·T per mole, R·T, in kJ/mol, of a temperature in kelvin or a Quantity."""
    return float(GAS_CONSTANT * _kelvin(temperature))


def temperature_of(state: Any, look: Callable[[Any], None]) -> float:
    """Return the temperature of the Context of a State, if its thermostats have the same.

    ``look`` gets the System once after each `set_temperature`.
    """
    parameters = dict(state.getParameters())
    known = _KNOWN.get(parameters.get(MARK, 0.0))
    context = None if known is None else known.context()
    # Parameters may have been copied to another Context, but these do not step together.
    if known is None or context is None or context.getStepCount() != state.getStepCount():
        said = f"the Fixman force does not know the thermostat of this Context: call {SETTER}"
        raise ValueError(f"{said}(context), and again when parameters were reset or loaded")
    if not known.looked:
        look(context.getSystem())
        known.looked = True
    kelvin: float = parameters[PARAMETER]
    others = [(one.name, one.read()) for one in known.thermostats]
    others += [(name, parameters[name]) for name in _OWN if name in parameters]
    for name, other in others:
        if not abs(kelvin - other) <= SAME * kelvin:
            said = f"the Fixman force is at {kelvin:.6g} K and {name} at {other:.6g} K: move both"
            raise ValueError(f'{said}, by {SETTER}, or by "{PARAMETER}" in states of samplers')
    return kelvin


def _of_integrator(integrator: Any) -> Iterator[_Thermostat]:
    name = type(integrator).__name__
    if isinstance(integrator, openmm.CompoundIntegrator):
        for k in range(integrator.getNumIntegrators()):
            yield from _of_integrator(integrator.getIntegrator(k))
    elif isinstance(integrator, openmm.CustomIntegrator):
        yield from _of_custom(integrator, name)
    elif isinstance(integrator, openmm.NoseHooverIntegrator):
        for k in range(integrator.getNumThermostats()):
            get = partial(integrator.getTemperature, k)
            move = partial(integrator.setTemperature, chainID=k)
            yield _Thermostat(f"chain {k} of the {name}", get, move)
    elif hasattr(integrator, "getTemperature"):
        yield _Thermostat(f"the {name}", integrator.getTemperature, integrator.setTemperature)


def _of_custom(integrator: Any, name: str) -> Iterator[_Thermostat]:
    count = integrator.getNumGlobalVariables()
    variables = {integrator.getGlobalVariableName(k) for k in range(count)}
    known = {"temperature": 1.0, "kT": GAS_CONSTANT}  # the names that OpenMM and openmmtools use
    for variable in sorted(variables & known.keys()):
        get = partial(integrator.getGlobalVariableByName, variable)
        move = partial(integrator.setGlobalVariableByName, variable)
        yield _Thermostat(f"{variable} of the {name}", get, move, known[variable])
    steps = [integrator.getComputationStep(k)[2] for k in range(integrator.getNumComputations())]
    if not variables & known.keys() and re.search(r"\b(gaussian|uniform)\b", " ".join(steps)):
        said = "has no global variable temperature (in K) or kT (in kJ/mol)"
        raise ValueError(f"the {name} draws random numbers, and {said}")


def _common(thermostats: list[_Thermostat]) -> float:
    found = [(one.name, one.read()) for one in thermostats]
    if not found or max(t for _, t in found) - min(t for _, t in found) > SAME * found[0][1]:
        words = ", ".join(f"{name} {kelvin:.6g} K" for name, kelvin in found) or "none"
        said = "say which, set_temperature(context, 300)"
        raise ValueError(f"the temperatures of this Context are {words}: {said}")
    return _kelvin(found[0][1])


def _kelvin(temperature: Any) -> float:
    return arrays.positive(in_units(temperature, unit.kelvin, "temperature"), "temperature")


def in_units(value: Any, wanted: Any, name: str) -> Any:
    """Return the number of a Quantity in a unit of OpenMM's, or what has none as it is."""
    if not unit.is_quantity(value):
        return value
    if not value.unit.is_compatible(wanted):
        raise TypeError(f"{name} must be in {wanted.get_symbol()}, got {value!s:.80}")
    return value.value_in_unit(wanted)
