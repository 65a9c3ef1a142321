"""Cases of a test that need not run in a hurry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def quick(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """Mark all cases but the kept ones as thorough, above all those that compile kernels anew."""
    return [case if case in kept else _thorough(case) for case in cases]


def _thorough(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.thorough)
