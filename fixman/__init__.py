"""Chains with constraints in O(n): dynamics, tensions and the mass-metric determinant.

One factorization of the hard block of H = B M⁻¹ Bᵀ, the inverse mass matrix of the chain *without*
constraints, gives accelerations, tensions and the determinant of the chain *with* them; `rigid` has
the same for serial chains of rigid bodies, beside the other O(n) algorithms.

Names load on first use: ``import fixman`` costs little more than NumPy's own import.
"""

import re as _re
from importlib import import_module
from typing import Any

__version__ = "1.0.0rc1"

# Public names and their homes are the imports of the stub, which type checkers read too (SPEC 1).
_LOADER: Any = __spec__.loader  # which also reads from an archive
_STUB = _LOADER.get_data(f"{__path__[0]}/__init__.pyi").decode()
_HOMES = {name: home for home, name in _re.findall(r"(?m)^from (\S+) import (\w+)", _STUB)}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'fixman' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = vars(home).get(name) or import_module(f"{_HOMES[name]}.{name}")
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
