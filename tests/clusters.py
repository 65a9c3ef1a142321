"""A Dask scheduler and its workers on this machine, by the commands of docs/audit_examples.md."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[str]:
    """Start ``dask scheduler`` and several times ``dask worker``; the address of the scheduler."""
    about = folder / "scheduler.json"
    local = ["--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"]
    with ExitStack() as stack, (folder / "log").open("w") as log:
        _start(stack, log, "scheduler", *local, "--scheduler-file", about)
        end = time.monotonic() + 60.0
        while not about.exists() or not about.read_text():
            assert time.monotonic() < end, (folder / "log").read_text()
            time.sleep(0.05)
        address = json.loads(about.read_text())["address"]
        quiet = ["--dashboard-address", "127.0.0.1:0", "--local-directory", folder]
        for _ in range(workers):
            _start(stack, log, "worker", address, "--nthreads", "1", *quiet)
        yield address


def _start(stack: ExitStack, log, *command) -> None:
    run = [sys.executable, "-m", "dask", *map(str, command)]
    process = subprocess.Popen(run, stdout=log, stderr=log)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
