"""Timing that every benchmark shares."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np


def medians(functions: dict[str, Callable[[], object]], budget: float = 2.0) -> dict[str, float]:
    """Return the median seconds of each function, called in turn in blocks of about 1 ms."""
    calls = {}
    for name, function in functions.items():
        function()
        start = time.perf_counter()
        function()
        calls[name] = max(1, int(1e-3 / (time.perf_counter() - start)))
    times: dict[str, list[float]] = {name: [] for name in functions}
    end = time.perf_counter() + budget
    while time.perf_counter() < end or len(times[name]) < 3:
        for name, function in functions.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                function()
            times[name].append((time.perf_counter() - start) / calls[name])
    return {name: float(np.median(values)) for name, values in times.items()}


def is_quick(description: str) -> bool:
    """Read the command line: whether ``--quick`` is there."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a few seconds, rough numbers")
    return bool(parser.parse_args().quick)
