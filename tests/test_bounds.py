"""With ``NUMBA_BOUNDSCHECK=1`` no part of a kernel reads or writes outside its arrays unnoticed."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from fixman.kernels.compiler import addresses
from fixman.kernels.compiler.lanes import exact_call, exact_kernel

KERNELS = """
import json
import numpy as np
from fixman.kernels.compiler import addresses
from fixman.kernels.compiler.lanes import (
    EIGHTS, eight, entry, exact_call, exact_kernel, integer, load, part, put, store, take, zeros
)
from fixman.kernels.compiler.steps import step

@step
def get(x, i, j):
    return x[i, j] + 0.0

@step
def set(x, i, j):
    x[i, j] = 1.0
    return 0.0

@exact_call
def write(table, X, F, first, work, like):
    store(F, first, like)
    return work

address = addresses.address_of(write, False)

def at_an_address(x, k):
    words = np.zeros((2, addresses.WORDS), np.int64)
    addresses.call(address(0.0, 0.0), words[0], words[1], x.reshape(-1), x.reshape(-1), k, 0.0)

KERNELS = {
    "at an address": at_an_address,
    "step, read": lambda x, k: get(x, k // 4, k % 4),
    "step, write": lambda x, k: set(x, k // 4, k % 4),
    "load": lambda x, k: load(x.reshape(-1), k, 0.0),
    "store": lambda x, k: store(x.reshape(-1), k, 0.0),
    "load, lanes": lambda x, k: store(x.reshape(-1), 0, load(x.reshape(-1), k // 8, eight(0.0))),
    "store, lanes": lambda x, k: store(x.reshape(-1), k // 8, eight(0.0)),
    "entry": lambda x, k: entry(x.reshape(-1), k),
    "integer": lambda x, k: integer(x.reshape(-1), k),
    "take": lambda x, k: take(x.reshape(-1), k, 1, 0.0),
    "take, lanes": lambda x, k: store(x.reshape(-1), 0, take(x.reshape(-1), k - 7, 1, eight(0.0))),
    "put": lambda x, k: put(x.reshape(-1), k, 1, 0.0),
    "put, lanes": lambda x, k: put(x.reshape(-1), k - 7, 1, eight(0.0)),
    "part": lambda x, k: load(part(x.reshape(-1), k, 4, 0.0), 0, 0.0),
    "part, lanes": lambda x, k: store(part(x.reshape(-1), k // 8, 1, eight(0.0)), 0, eight(0.0)),
}
found = {}
for name, function in KERNELS.items():
    kernel = exact_kernel(function)
    # Neighbours in memory: without checks nothing would be seen.
    whole = np.zeros((12, 4))
    x = whole[4:8]
    outcomes = []
    for k in (15, 16, -1):
        try:
            kernel(x, k)
            outcomes.append("")
        except IndexError as error:
            outcomes.append("IndexError")
    found[name] = outcomes
print(json.dumps(found))
"""


@exact_call
def without_memory(table, X, F, first, work, like):
    if first == 1:
        raise MemoryError("not said")
    return work


address = addresses.address_of(without_memory, False)


@exact_kernel
def at_an_address(x, k):
    words = np.zeros((2, addresses.WORDS), np.int64)
    addresses.call(address(0.0, 0.0), words[0], words[1], x, x, k, 0.0)


def test_what_fails_at_an_address_is_said():
    at_an_address(np.zeros(2), 0)
    with pytest.raises((MemoryError, IndexError), match="at an address"):
        at_an_address(np.zeros(2), 1)


@pytest.mark.thorough
@pytest.mark.parametrize("checked", [False, True])
def test_an_index_past_the_end_of_a_view_raises(checked):
    environment = os.environ | {"NUMBA_BOUNDSCHECK": str(int(checked))}
    done = subprocess.run(
        [sys.executable, "-c", KERNELS], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) == 15
    outside = "IndexError" if checked else ""
    assert found == {name: ["", outside, outside] for name in found}
